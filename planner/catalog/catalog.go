package catalog

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Slots is the number of slots that shard keys hash into.
const Slots = 1024

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
	Shards  []Shard
	// All is the set of the configured shards.
	All ShardSet
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
	// Unlike are settings in which the shards' sessions would begin otherwise.
	Unlike []Setting
	// WritingFunctions are the names (lower case) of the stored functions that may
	// change rows: a statement that calls one may change any table.
	WritingFunctions map[string]bool
	// LeavingFunctions are those that assign variables of the session, or keep a lock or
	// a temporary table, which would stay with the shard's connection.
	LeavingFunctions map[string]bool
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
	// Procedures by ProcedureKey.
	Procedures map[string]*Procedure
}

// Setting is a global one whose value isn't the same on all shards.
type Setting struct {
	Name string
	// Value is the first shard's, Other that of Shard.
	Value, Other, Shard string
	// Able: a session can set it, and so have the first shard's everywhere.
	Able bool
}

// Procedure is what is known of a stored procedure.
type Procedure struct {
	// Words are all names and keywords in its body, in lower case.
	Words map[string]bool
	// Hidden: the body can't be seen. Variables: it has user variables. Leaves: it sets
	// variables of the session, or keeps a lock. Ends: it may end its caller's transaction.
	Hidden, Variables, Leaves, Ends bool
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
	// Shards are those that hold the table: all of them for Hash, Reference
	// and Anywhere, the one for Single.
	Shards ShardSet
	IsView bool
	// Temporary: a session's own, on a connection of its own to the one shard.
	// Lost: that connection is gone, and the table with it.
	Temporary, Lost bool
	// Definition is a view's query as the shards keep it, "" where it isn't known
	// or they don't agree.
	Definition string
	// DefinitionCollation is what strings in it without an introducer have.
	// Introducers: some have had one, which Definition lacks.
	DefinitionCollation string
	Introducers         bool
	Columns             []*Column
	// PrimaryKey holds the primary key's columns in key order.
	PrimaryKey []*Column
	// Unique holds every unique key including the primary one.
	Unique  [][]*Column
	Indexes []*Index
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
	// OrderDiffers: they have as many columns, in another order or of other names.
	OrderDiffers bool
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

// Index is a virtual index. Every status is maintained by writes; only Ready
// is used for routing.
type Index struct {
	ID         uint32
	Name       string
	Table      *Table
	Columns    []*Column
	Partitions int
	Status     IndexStatus
	// Error says why the index failed, or why it can't be used.
	Error string
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
func (c *Catalog) Schema(name string) *Schema { return c.Schemas[c.fold(name)] }

// Table finds a table; nil if none.
func (c *Catalog) Table(schema, name string) *Table {
	s := c.Schema(schema)
	if s == nil {
		return nil
	}
	return s.Tables[c.fold(name)]
}

// Tables yields all tables, in any order.
func (c *Catalog) Tables() iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for _, s := range c.Schemas {
			for _, t := range s.Tables {
				if !yield(t) {
					return
				}
			}
		}
	}
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
	for _, s := range c.Shards {
		if s.ID == id {
			return s.Name
		}
	}
	return "?"
}

// slot is that of a canonical shard key (planner/keys encoding).
func slot(key []byte) int {
	h := uint32(2166136261) // FNV-1a
	for _, b := range key {
		h = (h ^ uint32(b)) * 16777619
	}
	return int(h % Slots)
}

// ShardOf is the shard that owns a canonical shard key.
func (c *Catalog) ShardOf(key []byte) ShardID { return c.Slots[slot(key)] }

// ScratchSchema holds Shunt's own passing copies of rows, on any shard.
const ScratchSchema = "shunt_scratch"

// IsSystemSchema reports the schemas that belong to the server or to Shunt, not
// the user.
func IsSystemSchema(name string) bool {
	switch strings.ToLower(name) {
	case "mysql", "information_schema", "performance_schema", "sys", ScratchSchema:
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
