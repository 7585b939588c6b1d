package catalog

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// MaxPartitions bounds a virtual index's partitions: each is a writer of its own.
const MaxPartitions = 1024

// Placement says how the rows of a table are spread over the shards.
type Placement uint8

const (
	// Hash spreads rows by the slot of their shard key.
	Hash Placement = iota
	// Reference keeps a full copy on every shard.
	Reference
	// Single keeps all rows on one shard.
	Single
	// Anywhere is for adopted shards: existing rows may be on any shard, new
	// rows go by hash of the primary key's first column.
	Anywhere
)

func (p Placement) String() string {
	return [...]string{"hash", "reference", "single", "anywhere"}[p]
}

// Catalog is one immutable snapshot.
type Catalog struct {
	// Version rises with each published snapshot; plans carry the one they
	// were made from.
	Version uint64
	// Whole is the Version of the last snapshot that was made as a whole: those since took over all but the tables that are
	// otherwise, each of which is another *Table. 0: not known.
	Whole uint64
	// Shards are those that serve, All the set of them; Joining are configured too, and get their
	// tables still.
	Shards, Joining []Shard
	All             ShardSet
	// Slots assigns each slot to a shard.
	Slots [Slots]ShardID
	// Schemas by name. Names compare as the servers compare them
	// (LowerCaseNames: lower_case_table_names != 0; then keys are lower case).
	Schemas        map[string]*Schema
	LowerCaseNames bool
	// MariaDB tells the flavour of the shards (false: MySQL).
	MariaDB bool
	// ServerVersion is the lowest that shards of the first's kind answered to
	// SELECT VERSION(), OtherVersions what the others did, each once.
	ServerVersion string
	OtherVersions []string
	// DefaultCollation gives for a character set (lower case) the collation
	// that the shards use with it, e.g. utf8mb4 -> utf8mb4_0900_ai_ci.
	DefaultCollation map[string]string
	// Collations by the number that a client names in its handshake.
	Collations map[int]Collation
	// SQLMode is the shards' global sql_mode: what a session starts with.
	SQLMode string
	// AutocommitOff: a session starts without autocommit.
	AutocommitOff bool
	// Uncommitted: on some shard a session starts with READ UNCOMMITTED.
	Uncommitted bool
	// Unlike are settings in which the shards' sessions would begin otherwise.
	Unlike []Setting
	// WritingFunctions are the names (lower case) of the stored functions that may
	// change rows: a statement that calls one may change any table.
	WritingFunctions map[string]bool
	// Bound are these and the stored functions that read a table which is on one shard, by their names: what is known of one
	// in each schema. They run where their tables are.
	Bound map[string][]*Routine
	// LeavingFunctions are those that assign variables of the session, or keep a lock or
	// a temporary table, which would stay with the shard's connection.
	LeavingFunctions map[string]bool
	// Assigned are the user variables (lower case, without @) that those of LeavingFunctions may assign which leave nothing else.
	Assigned map[string][]string
	// ReadingFunctions are those that may read a table whose rows are on several shards:
	// they see those of the shard that runs them.
	ReadingFunctions map[string]bool
	// Functions are all stored functions, by their names in lower case. True are those whose value
	// may be another on each shard though the time is the same: RAND(), UUID(), @@x.
	Functions map[string]bool
	// AggregateFunctions are MariaDB's stored aggregate functions.
	AggregateFunctions map[string]bool
	// Temporary is how many temporary tables With has added; Pinned the shard
	// that those which still exist are on.
	Temporary int
	Pinned    ShardSet
	hidden    []*Table // those whose names temporary tables have
	// Procedures by ProcedureKey.
	Procedures map[string]*Routine
	// Events are those of the schemas whose EVENT privilege the account has.
	Events []*Event
	// Virtual are the virtual columns, nil where there are none.
	Virtual *Virtual
}

// Setting is a global one whose value isn't the same on all shards.
type Setting struct {
	Name string
	// Value is the first shard's, Other that of Shard.
	Value, Other, Shard string
	// Able: a session can set it, and so have the first shard's everywhere.
	Able bool
}

// Routine is what is known of a stored procedure, or of a function.
type Routine struct {
	Schema, Name string
	// Words are all names and keywords in its body, in lower case.
	Words map[string]bool
	// Hidden: the body can't be seen. Variables: it has user variables, by the names in Assigns. Leaves: it sets variables
	// of the session, or keeps a lock; LeavesMore: others than user variables. Ends: it may end its caller's transaction.
	Hidden, Variables, Leaves, LeavesMore, Ends bool
	// Assigns are the user variables that its body names, in lower case.
	Assigns []string
}

// Event is one that shards run by themselves.
type Event struct {
	Routine
	On ShardSet
}

// Event is the one of a name, which minds no case; nil for none.
func (c *Catalog) Event(n TableName) *Event {
	for _, e := range c.Events {
		if strings.EqualFold(e.Schema, n.Schema) && strings.EqualFold(e.Name, n.Name) {
			return e
		}
	}
	return nil
}

// ProcedureKey is a procedure's key: names of procedures don't mind case.
func ProcedureKey(schema, name string) string {
	return strings.ToLower(schema) + "." + strings.ToLower(name)
}

// Collation is a collation of the shards.
type Collation struct{ Name, Charset string }

// Shard is one backend server.
type Shard struct {
	ID   ShardID
	Name string
}

// Schema is a database and its tables.
type Schema struct {
	Name   string
	Tables map[string]*Table
	// Default places tables that neither the configuration nor the shards
	// have said anything about yet (CREATE TABLE of a new name).
	Default DefaultPlacement
}

// DefaultPlacement is what the configuration's `default` says.
type DefaultPlacement struct {
	Placement Placement
	// Shard is the one for Single.
	Shard ShardID
}

// Table is one table (or view: then IsView, its Columns and Shards are what the
// shards say, and its rows are where those of the tables in its Definition are).
type Table struct {
	Schema, Name string
	Placement    Placement
	// ShardKey is the column that Hash goes by; for Anywhere the column whose
	// value places new rows. nil for Reference and Single.
	ShardKey *Column
	// KeyWanted is the shard key's name for a table that isn't there yet, "" for its
	// primary key's first column.
	KeyWanted string
	// Named: the configuration says by the table's name where its rows are.
	Named bool
	// Shards are those that hold the table: all of them for Hash, Reference
	// and Anywhere, the one for Single.
	Shards ShardSet
	IsView bool
	// Sequence: it is one of MariaDB's, whose row gives numbers.
	Sequence bool
	// Early: its engine may show rows that the server hasn't put into its binary log yet.
	Early bool
	// Temporary: a session's own, on a connection of its own to the one shard.
	// Lost: that connection is gone, and the table with it.
	Temporary, Lost bool
	// Definition is a view's query as the shards keep it, "" where it isn't known
	// or they don't agree.
	Definition string
	// DefinitionCollation is what strings in it without an introducer have.
	// Introducers: some may have had one that Definition lacks.
	DefinitionCollation string
	Introducers         bool
	Columns             []*Column
	// PrimaryKey holds the primary key's columns in key order.
	PrimaryKey []*Column
	// Unique holds every unique key including the primary one.
	Unique [][]*Column
	// OtherUnique are the columns in unique keys that aren't of whole columns; nil for an expression.
	OtherUnique []*Column
	// UniqueByShard: the configuration doesn't want it to be looked after that unique keys of a
	// table placed anywhere hold over all shards.
	UniqueByShard bool
	Indexes       []*Index
	// Triggers: the events for which the table has triggers on any shard.
	Triggers []Trigger
	// Cascades are the foreign keys of other tables that change their rows
	// when this table's rows change.
	Cascades []Cascade
	// Events are those that may INSERT, UPDATE or DELETE rows of the table, by that word: an event
	// of each. They run on the shards by themselves.
	Events map[string]string
	// Unseen is non-empty where an event sets off what changes rows of the table, and says
	// which; such a table's indexes are not used.
	Unseen string
	// Differs is non-empty when the shards disagree about the table's
	// columns, and says how; such a table's indexes are not used.
	Differs string
	// Unlike: a reference table whose copies don't have the same rows. It is Single, on the shard whose
	// copy counts.
	Unlike bool
	// Unfinished: DDL of it may be done on some shards only.
	Unfinished bool
	// OrderDiffers: they have as many columns, in another order or of other names.
	OrderDiffers bool
}

// SetOff visits a table that is written to, and those that its triggers and foreign keys
// may change in turn, each once.
func SetOff(t *Table, seen map[*Table]bool, visit func(*Table)) {
	if seen[t] {
		return
	}
	seen[t] = true
	visit(t)
	for _, tr := range t.Triggers {
		for _, x := range tr.Touches {
			SetOff(x, seen, visit)
		}
	}
	for _, c := range t.Cascades {
		SetOff(c.Child, seen, visit)
	}
}

// Trigger is what a trigger of a table may do to indexed tables.
type Trigger struct {
	Event string // INSERT, UPDATE or DELETE
	// Body is what it does, read under ANSI_QUOTES or not.
	Body       string
	ANSIQuotes bool
	// Leaves: it does what the functions in Catalog.LeavingFunctions do, or sets off what does.
	Leaves bool
	// Touches are the tables that its body names (the table itself included, since
	// BEFORE triggers set NEW.col), of those that have indexes, triggers or cascades.
	Touches []*Table
}

// Cascade is a foreign key of Child whose ON UPDATE or ON DELETE rule changes
// or removes Child's rows.
type Cascade struct {
	Child *Table
	// Columns of Child that the rule sets.
	Columns []*Column
	// Refers is the one column that they follow when it changes, nil where that isn't
	// known.
	Refers *Column
	// OnUpdate and OnDelete are true where the rule is CASCADE, SET NULL or
	// SET DEFAULT.
	OnUpdate, OnDelete bool
	// DeletesRows: ON DELETE CASCADE (rows vanish; no new key arises).
	DeletesRows bool
}

// Column is a column as information_schema.columns describes it.
type Column struct {
	Name string
	// Position in the table, from 0.
	Position int
	// Type is COLUMN_TYPE, e.g. "varchar(255)", "bigint unsigned".
	Type string
	// Charset and Collation are empty for columns without text.
	Charset, Collation string
	Nullable           bool
	// Default is the constant default as the server stores it (text), nil for
	// none or NULL. DefaultExpr is true where the default is an expression
	// (CURRENT_TIMESTAMP, DEFAULT (uuid())), whose value Shunt does not know.
	Default     *string
	DefaultExpr bool
	// DefaultBlurred: Default may stand for another text: information_schema has a ? for each
	// character that utf8mb3 lacks.
	DefaultBlurred bool
	// DefaultText is that expression as any session reads it, "" where it isn't known.
	DefaultText string
	// DefaultNow: that expression is CURRENT_TIMESTAMP.
	DefaultNow    bool
	AutoIncrement bool
	// Keyed: it is in the primary key, or another key of a server's begins with it.
	Keyed bool
	// Unannounced: AUTO_INCREMENT before the shards say so, which don't answer its values as last insert ids.
	Unannounced bool
	// OnUpdate: ON UPDATE CURRENT_TIMESTAMP.
	OnUpdate bool
	// Generated: VIRTUAL or STORED generated column.
	Generated bool
	// Expression is that of a generated column.
	Expression string
	// Virtual: a generated column that is computed when it is read.
	Virtual bool
	// Varies: Virtual, and sessions may see different values of it.
	Varies bool
	// Listed: a text of a view's expression. Its collation is the one that is listed, which
	// need not be that which it has.
	Listed bool
	// Invisible: a * doesn't answer it.
	Invisible bool
	// JSON: a text of MariaDB's with the check that makes it its JSON.
	JSON bool
}

// Zeros reports a VIRTUAL DATE or DATETIME: by its sql_mode a session may see '0000-00-00' in
// place of a value that has a zero in it.
func (c *Column) Zeros() bool {
	return c.Virtual && len(c.Type) >= 4 && strings.EqualFold(c.Type[:4], "date")
}

// IndexStatus is a virtual index's state.
type IndexStatus string

const (
	Building IndexStatus = "building"
	Ready    IndexStatus = "ready"
	Disabled IndexStatus = "disabled"
	Failed   IndexStatus = "failed"
)

// IndexID names a virtual index for good: an ID is never used again.
type IndexID uint32

// IndexDef defines a virtual index, whose table the catalog may not have.
type IndexDef struct {
	ID                  IndexID
	Schema, Table, Name string
	Columns             []string
	// Partitions of the generation that is read, or of the one being built if there
	// is no other.
	Partitions int
	Status     IndexStatus
	// Error says why Status is Failed.
	Error string `json:",omitempty"`
	// Keyed is the Definition of the columns under which the keys that are read
	// were made; "" where it isn't known.
	Keyed string `json:",omitempty"`
	// Home is the server of the store that has the index, where several Shunts have one; to
	// create one, "": any.
	Home string `json:",omitempty"`
	// Include are the columns that the index covers beside its own and the primary key's; none: answers aren't kept.
	Include []string `json:",omitempty"`
}

// Index is a virtual index. Every status is maintained by writes; only Ready
// is used for routing.
type Index struct {
	ID      IndexID
	Name    string
	Table   *Table
	Columns []*Column
	// Include are those of the definition that the table has: see Answers.
	Include    []*Column
	Partitions int
	Status     IndexStatus
	// Error says why the index failed, or why it can't be used.
	Error string
}

// Answers reports a column that a read may need whose answer is kept for a key of the index.
func (ix *Index) Answers(c *Column) bool {
	return len(ix.Include) > 0 && (slices.Contains(ix.Include, c) || slices.Contains(ix.Columns, c) || slices.Contains(ix.Table.PrimaryKey, c))
}

// Definition is what keys of the index's columns depend on, and the shards that they are
// of: those that were made under another one say nothing of the rows.
//
// Counter-examples: a shard is added that has rows of a table placed anywhere; an event is
// dropped that made rows without entries.
//
// MariaDB has other weights by the names of MySQL's 0900 collations, which keys went by
// once: those are no more.
func (ix *Index) Definition(mariaDB bool) string {
	var b strings.Builder
	for id := range ix.Table.Shards.All {
		fmt.Fprintf(&b, "%d ", id)
	}
	b.WriteString("\n")
	for _, c := range ix.Columns {
		collation := c.Collation
		if mariaDB && strings.Contains(collation, "_0900_a") {
			collation += " of uca1400"
		}
		b.WriteString(c.Type + " " + c.Charset + " " + collation + " " + c.Expression + "\n")
	}
	if ix.Table.Unseen != "" {
		b.WriteString("lacks what events do\n")
	}
	return b.String()
}

// Usable reports whether reads may be routed by the index.
func (ix *Index) Usable() bool { return ix.Status == Ready }

// Column finds a column by name (column names compare case-insensitively).
func (t *Table) Column(name string) *Column {
	for _, c := range t.Columns {
		if strings.EqualFold(c.Name, name) {
			return c
		}
	}
	return nil
}

// Index finds a virtual index by name (case-insensitively); nil if none.
func (t *Table) Index(name string) *Index {
	for _, ix := range t.Indexes {
		if strings.EqualFold(ix.Name, name) {
			return ix
		}
	}
	return nil
}

// Covers reports whether the index has the column.
func (ix *Index) Covers(c *Column) bool {
	return slices.Contains(ix.Columns, c)
}

func (c *Catalog) fold(name string) string {
	if c.LowerCaseNames {
		return strings.ToLower(name)
	}
	return name
}

// Schema finds a schema; nil if none.
func (c *Catalog) Schema(name string) *Schema {
	if s := c.Schemas[c.fold(name)]; s != nil || c.Virtual == nil || name != VirtualSchema {
		return s
	}
	return c.Virtual.durable
}

// Table finds a table; nil if none.
func (c *Catalog) Table(schema, name string) *Table {
	s := c.Schema(schema)
	if s == nil {
		return nil
	}
	return s.Tables[c.fold(name)]
}

// PlansAs reports that a statement which names these tables, and nothing that tables are not all of, is planned by c as by
// was: DDL of other tables alone lies between them.
//
// Rule no views: what a view reads isn't among the tables. Counter-example: w reads v, which reads users. Another v is made,
// of customers; w stays, and so does users.
func (c *Catalog) PlansAs(was *Catalog, tables []*Table) bool {
	if c.Version == was.Version {
		return true
	}
	if c.Whole == 0 || c.Whole != was.Whole || c.Virtual != nil || was.Virtual != nil {
		return false
	}
	for _, t := range tables {
		if t.IsView || c.Table(t.Schema, t.Name) != t {
			return false
		}
	}
	return true
}

// Tables yields all tables, in any order, those too that temporary tables hide.
//
// Counter-example: a session has a temporary table users, and makes a trigger that writes to users: all others' users.
// Writes that are under way don't foresee its keys in the indexes of that table.
func (c *Catalog) Tables() iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for _, t := range c.hidden {
			if !yield(t) {
				return
			}
		}
		for _, s := range c.Schemas {
			for _, t := range s.Tables {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// Hidden is the table whose name a temporary one has; nil if there is none.
func (c *Catalog) Hidden(temporary *Table) *Table {
	for _, t := range c.hidden {
		if t.Schema == temporary.Schema && c.fold(t.Name) == c.fold(temporary.Name) {
			return t
		}
	}
	return nil
}

// With is the catalog as a session sees it that has temporary tables: each hides
// the table of its name.
func (c *Catalog) With(temporary []*Table) *Catalog {
	over := *c
	over.Schemas = maps.Clone(c.Schemas)
	cloned := map[*Schema]bool{}
	for _, t := range temporary {
		s := over.Schemas[c.fold(t.Schema)]
		if s == nil {
			continue // dropped since
		}
		if !cloned[s] {
			own := *s
			own.Tables = maps.Clone(s.Tables)
			s = &own
			cloned[s], over.Schemas[c.fold(t.Schema)] = true, s
		}
		if t := s.Tables[c.fold(t.Name)]; t != nil {
			over.hidden = append(over.hidden, t)
		}
		s.Tables[c.fold(t.Name)] = t
		over.Temporary++
		if !t.Lost {
			over.Pinned = over.Pinned.Union(t.Shards)
		}
	}
	return &over
}

// ShardByName finds a shard; ok is false if there is none of that name.
func (c *Catalog) ShardByName(name string) (Shard, bool) {
	for _, s := range c.Shards {
		if s.Name == name {
			return s, true
		}
	}
	return Shard{}, false
}

// ShardName returns the name of a shard for messages.
func (c *Catalog) ShardName(id ShardID) string {
	for _, shards := range [][]Shard{c.Shards, c.Joining} {
		for _, s := range shards {
			if s.ID == id {
				return s.Name
			}
		}
	}
	return "?"
}

// ScratchSchema holds Shunt's own passing copies of rows, on any shard.
const ScratchSchema = "shunt_scratch"

// StoreSchema holds what several Shunts have together: see storage/home and cluster/seat.
const StoreSchema = "shunt_store"

// OwnSchemas are Shunt's own.
var OwnSchemas = []string{ScratchSchema, StoreSchema, VirtualSchema}

// IsSystemSchema reports the schemas that belong to the server or to Shunt, not
// the user.
func IsSystemSchema(name string) bool {
	switch strings.ToLower(name) {
	case "mysql", "information_schema", "performance_schema", "sys", ScratchSchema, StoreSchema, VirtualSchema:
		return true
	}
	return false
}

// CollationID is the number of a collation that clients are told, or of the character
// set's default one where none is named; 0 where it isn't known.
func (c *Catalog) CollationID(name, charset string) uint16 {
	if name == "" {
		name = c.DefaultCollation[charset]
	}
	for id, col := range c.Collations {
		if !strings.EqualFold(col.Name, name) {
			continue
		}
		switch {
		case !strings.HasPrefix(col.Name, "utf8mb4_uca1400_"):
			return uint16(id)
		case strings.Contains(col.Name, "_croatian_"):
			return 608
		}
		// MariaDB has eight to a language, and tells the number of its older one.
		return uint16(224 + (id-2304)/8)
	}
	return 0
}

// TableName is a table by name, which need not be in a catalog.
type TableName struct{ Schema, Name string }

// Scope is a set of tables, by their names.
type Scope struct {
	Tables  []TableName
	Schemas []string // all of theirs
	All     bool
}

// QuoteName writes a name so that a server reads no word or sign in it.
func QuoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// QuoteTable writes a table's name with its schema.
func QuoteTable(schema, name string) string { return QuoteName(schema) + "." + QuoteName(name) }

// QuoteColumns writes the names of columns as a list.
func QuoteColumns(columns []*Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = QuoteName(c.Name)
	}
	return strings.Join(names, ", ")
}

// BaseType is the type without its arguments, in lower case: varchar, bigint. It is "" for no column.
func (c *Column) BaseType() string {
	if c == nil {
		return ""
	}
	return BaseType(c.Type)
}

// BaseType is the first word of a column's type, in lower case.
func BaseType(typ string) string {
	typ = strings.ToLower(typ)
	if i := strings.IndexAny(typ, "( "); i >= 0 {
		typ = typ[:i]
	}
	return typ
}

// IsInteger reports a base type of whole numbers.
func IsInteger(base string) bool {
	switch base {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
		return true
	}
	return false
}
