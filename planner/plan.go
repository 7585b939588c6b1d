package planner

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Settings are the parts of a session that change what a statement means.
type Settings struct {
	Schema    string // current schema, "" for none
	Charset   string // character_set_client/connection, lower case (utf8mb4, latin1, ...)
	Collation string // collation_connection
	// SQL modes that change parsing or what a literal stores.
	ANSIQuotes, NoBackslashEscapes, PipesAsConcat, IgnoreSpace, HighNotPrecedence bool
	// OddParsing: HIGH_NOT_PRECEDENCE or EMPTY_STRING_IS_NULL is set, which change
	// what a text means that was written without.
	OddParsing bool
	// OwnCollations: character_set_collations is set, by which a character set alone (an
	// introducer, CONVERT) stands for another collation than the catalog's default.
	OwnCollations bool
	// Strict: STRICT_ALL_TABLES or STRICT_TRANS_TABLES is set. Without it the
	// server truncates and clips what it stores.
	Strict bool
	// PadCharToFullLength, NoAutoValueOnZero as the SQL modes of that name.
	PadCharToFullLength, NoAutoValueOnZero bool
	// ComputesOtherwise: a mode is set under which VIRTUAL columns may have other values
	// than scans read.
	ComputesOtherwise bool
	// LimitsSelect: sql_select_limit is set, to SelectLimit.
	LimitsSelect bool
	SelectLimit  uint64
	// Restricted: the client may not see all schemas. Then the rows of
	// information_schema are never left to one shard, which would show all.
	Restricted bool
}

// Plan is what a statement will do. The planner makes it from the statement's
// text, the settings and a catalog snapshot alone, so it can be cached; Bind
// turns it into a Bound for given values.
//
//sumtype:decl
type Plan interface{ isPlan() }

// Rows is the plan of every statement whose route is found from a condition or
// from values: SELECT, INSERT, REPLACE, UPDATE, DELETE, EXPLAIN, and SHOW and
// SELECT without a table. Bind it with Planner.Bind.
type Rows struct {
	Catalog *catalog.Catalog
	Kind    Kind
	// Params is the number of `?` in the statement.
	Params int
	// Copy is the other way of an INSERT ... SELECT, for where Bind or the Bound
	// refuses it; nil for none.
	Copy *Copy
	// Limited is the other way of an UPDATE or DELETE with LIMIT, for where the
	// Bound refuses it; nil for none.
	Limited *Limited
	// Constants are what to ask a shard for where Bind refuses an INSERT; nil for
	// nothing.
	Constants *Constants
	// Meets is set for an INSERT or REPLACE whose rows must be tried first, which
	// Bind refuses; see BindRow.
	Meets *Meets
	// Returning: an INSERT, REPLACE or DELETE answers the rows that it has changed.
	Returning bool
	// Shown is set for SHOW VARIABLES and SHOW STATUS.
	Shown *ShownValues
	// Creates is set for SHOW CREATE TABLE of a table over several shards that has an
	// AUTO_INCREMENT column.
	Creates *catalog.Table
	// Calls: CALL, whose procedure may ask for LAST_INSERT_ID(), and set it.
	// Ends: it may also end the transaction that it is called in.
	Calls, Ends bool
	// Redefines: a hinted statement that may change what tables, triggers and the like its
	// shard has.
	Redefines bool
	// Sets are the user variables among CALL's parameters (lower case, without @).
	Sets []string
	// Assigns are those that a SELECT assigns (@x := ...).
	Assigns []string
	// AsksNoID: the text is known not to ask for LAST_INSERT_ID() or @@identity.
	AsksNoID bool
	// Lock is set for a statement about locks by name.
	Lock *NamedLock
	// Tables are the user tables that the statement names, each once.
	Tables []*catalog.Table
	// the routing tree, splits and effects are the planner's own business
	action   action
	settings Settings
	found    FoundRows
	// shape is the text that was planned, where it is that of a Shape.
	shape string
}

// Kind tells statements apart where execution differs.
type Kind uint8

const (
	Select  Kind = iota // answers rows, writes nothing, takes no locks
	Locking             // SELECT ... FOR UPDATE / FOR SHARE / LOCK IN SHARE MODE
	Insert
	Replace
	Update
	Delete
	Show  // SHOW, DESCRIBE, EXPLAIN: rows from one shard
	Other // forwarded to one shard by a hint: may write
)

// Writes reports whether statements of this kind may change rows.
func (k Kind) Writes() bool {
	return k == Insert || k == Replace || k == Update || k == Delete || k == Other
}

// DDL changes tables or schemas on every shard that holds them.
type DDL struct {
	Catalog *catalog.Catalog
	// Op: CREATE DATABASE, DROP DATABASE, ALTER DATABASE, CREATE TABLE,
	// ALTER TABLE, DROP TABLE, RENAME TABLE, TRUNCATE TABLE, CREATE INDEX,
	// DROP INDEX, CREATE VIEW, ALTER VIEW, DROP VIEW, CREATE TRIGGER, DROP TRIGGER,
	// and CREATE, ALTER and DROP of PROCEDURE, FUNCTION and EVENT.
	Op string
	// Schema is set for the DATABASE statements, DROP TRIGGER and programs.
	Schema string
	// Unforeseen: with it statements already planned may make keys that their
	// plans don't know of.
	Unforeseen bool
	// Tables named, resolved against Settings.Schema.
	Tables []TableName
	// Renamed: for RENAME TABLE and ALTER TABLE ... RENAME, new name of Tables[i]
	// (zero value: not renamed).
	Renamed []TableName
	Shards  catalog.ShardSet
	// Texts is what each shard gets where that isn't the client's text: a DROP of the
	// tables that it has.
	Texts map[catalog.ShardID]string
	// Touches names the columns that an ALTER TABLE drops, renames or changes
	// (lower case); AllColumns where it may change any (CONVERT TO CHARACTER
	// SET, an ALTER that only the lexer understood).
	Touches    []string
	AllColumns bool
	// AddsKey: Tables[0], which is on one shard for the lack of a primary key, may have one then.
	AddsKey bool
	// Counts is a column of Tables[0] that becomes AUTO_INCREMENT, "" for none. It must be counted
	// before the first shard does so.
	//
	// Counter-example: id INT NOT NULL becomes AUTO_INCREMENT. An INSERT without an id, which
	// was sent to any shard for its error, waits there for the ALTER TABLE, and makes a row.
	Counts string
	// SameTime as Bound's.
	SameTime bool
	// Virtual are the indexes that it makes with COMMENT 'virtual'.
	Virtual []VirtualIndex
	// As is of CREATE TABLE ... SELECT whose rows have to move; nil where the shards do it.
	As *CreateAs
}

// TableName is a table by name, its schema filled in.
type TableName = catalog.TableName

// VirtualIndex names a virtual index in a statement.
type VirtualIndex struct {
	Name       string
	Table      TableName
	Columns    []string
	Partitions int // 0: not given
}

// Admin is a statement that Shunt answers itself.
type Admin struct {
	Op AdminOp
	// Index is set for statements about one index (Table for SHOW VIRTUAL
	// INDEXES FROM t as well; Table zero: all).
	Index VirtualIndex
	// Explain holds the statement text of EXPLAIN ROUTE.
	Explain string
	// Full is set for SHOW FULL PROCESSLIST.
	Full bool
	// Connection is the one to KILL; QueryOnly: KILL QUERY.
	Connection uint64
	QueryOnly  bool
	// Tell are the columns of TellSession.
	Tell []Told
}

// Told is a column about the session: its label, and what it tells:
// connection_id, user, schema, warning_count, error_count, row_count, found_rows, ...
type Told struct{ Label, What string }

// AdminOp is one of Shunt's own statements.
type AdminOp uint8

const (
	CreateVirtualIndex AdminOp = iota
	DropVirtualIndex
	AlterPartitions
	DisableVirtualIndex
	EnableVirtualIndex
	RebuildVirtualIndex
	CheckVirtualIndex
	ShowVirtualIndexes
	ShowMaintenanceJobs
	ShowShards
	ExplainRoute
	ShowProcesslist
	ShowGrants
	Kill
	TellSession // SELECT CONNECTION_ID(), USER() and the like, which a shard has its own of
)

// Session changes the session or its transaction.
type Session struct {
	Op SessionOp
	// Schema for USE.
	Schema string
	// Name of the savepoint.
	Name string
	// ReadOnly, ConsistentSnapshot for BEGIN; Chain, Release for COMMIT/ROLLBACK.
	// NoChain, NoRelease: said so, whatever completion_type is.
	ReadOnly, ReadWrite, ConsistentSnapshot, Chain, Release, NoChain, NoRelease bool
	// Set holds the assignments of SET in order. In SetVariables too there may
	// be "names" and after it "collation" (SET NAMES x COLLATE y, a = 1), and
	// "character set" (SET CHARACTER SET x), which are no variables.
	Set []Assignment
	// Limit (-1: none) and Offset of ShowWarnings and ShowErrors.
	Limit, Offset int
}

// SessionOp tells the session statements apart.
type SessionOp uint8

const (
	Begin SessionOp = iota
	Commit
	Rollback
	Savepoint
	RollbackTo
	ReleaseSavepoint
	Use
	SetVariables
	SetNames // Set[0]: Name "names", Value charset; Set[1] (optional): collation
	ShowWarnings
	ShowErrors
	NoOp // a statement that has nothing to do on a shard: DO 0-like comments, empty
)

// Assignment is one `name = value` of a SET.
type Assignment struct {
	// Scope: "session", "global", "persist", "user" (@x), "transaction"
	// (SET TRANSACTION ... for the next one only).
	Scope string
	Name  string // lower case, without @ or @@
	// Value is the expression's text as written ("DEFAULT" included).
	Value string
	// Literal is the value where it is one literal or a bare word (utf8mb4,
	// ON, DEFAULT); IsLiteral says so.
	Literal   string
	IsLiteral bool
	// Tables are those that a query in the expression may read; System: it may read the
	// servers' own about them.
	Tables []*catalog.Table
	System bool
}

func (*Rows) isPlan()    {}
func (*DDL) isPlan()     {}
func (*Admin) isPlan()   {}
func (*Session) isPlan() {}

// Indexes answers lookups while a plan is bound. An error means: the index
// can't be used now, and the statement goes wide.
type Indexes interface {
	// Lookup returns the shards that may hold the full key, marks included. What it
	// is given is lent.
	// components are the key's, one for each column of the index; nil where it
	// has only one. Marks that know another component don't count.
	Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error)
	// Range returns the shards of all keys with from <= key < to (to nil: no
	// end), marks included. ok is false when more than limit keys are in it.
	Range(ix *catalog.Index, from, to []byte, limit int) (set catalog.ShardSet, ok bool, err error)
	// Hold has what is there of shards stay for lookups until Held.End.
	//
	// Counter-example: email IN ('a', 'b'). 'a' is looked up; the row of 'b' gets 'a', and the
	// entry of 'b' is removed; 'b' is looked up. The row matched at all times.
	Hold(shards catalog.ShardSet) Held
}

// Held ends a Hold.
type Held interface{ End() }

// Bound is a plan with its values and its route.
type Bound struct {
	// Statements to send, one a shard, in shard order. Empty only with Gather.
	Statements []ShardStatement
	// Alternatives are the shards of which any one would answer as well, where
	// Statements has one and its tables are on several (reference tables) or it
	// has none: a session may prefer one that its transaction is open on.
	Alternatives catalog.ShardSet
	// Refuse is set when the answers of these several shards can't be joined:
	// an *Error to give to the client instead of sending anything. Look at it
	// before Adds and Marks, which are then void.
	Refuse *Error
	// Merge says how the answers of Statements, which then are derived from the
	// client's text, become one answer; nil: their rows are concatenated.
	Merge *Merge
	// Gather says what to fill into a scratch schema, where the client's query
	// then runs; Statements is empty with it. With an UPDATE or DELETE Statements
	// are the client's text for each shard that it changes: the copies are made on
	// all of these, and Gather.Query is what to run.
	Gather *Gather
	// System says how the answers of Statements about the servers and their
	// schemas become one; nil for all else.
	System *System
	// Generated is set for an INSERT into a table whose AUTO_INCREMENT column
	// Shunt counts.
	Generated *Generated
	// Counted and Given: all rows of an INSERT get the value of their AUTO_INCREMENT
	// column from its server, or none does. The answer tells an id in both cases,
	// LAST_INSERT_ID() only the former.
	Counted, Given bool
	// Doubts are tables whose AUTO_INCREMENT column gets values that Shunt
	// doesn't know.
	Doubts []*catalog.Table
	// Found says what FOUND_ROWS() tells after the statement.
	Found FoundRows
	// SameTime: all shards must take the same time for the statement's, since
	// what it stores goes by it and each has a copy.
	SameTime bool
	// Plan, Access and Reason are what EXPLAIN ROUTE shows. Access is
	// "shard_key", "index:NAME" ("index:A,index:B" when several took part),
	// "shard_key,index:NAME" where both did), "scatter", "reference", "single"
	// or "hint".
	Plan, Access, Reason string
	// Adds and Marks must be in the store before anything is sent.
	Adds  []Entry
	Marks []Mark
	// Maintain: what to look after when the statement has returned.
	Maintain []Maintenance
	// Probes are the keys that an equality on an index looked up, for read
	// repair and audits. Only those that decide the route by themselves.
	Probes []Probe
}

// ShardStatement is the text for one shard.
type ShardStatement struct {
	Shard catalog.ShardID
	SQL   string
	// Params are the positions (in the client's parameter list) of the `?` of
	// SQL, nil when they are all of them in order. Behind the client's are those
	// of Bound.Generated.Values.
	Params []int
	// Rows are the places, from 0, that the rows of a split INSERT have in the
	// client's; nil when they are all of them.
	Rows []int
}

// Entry is one (index, key, shard) to add.
type Entry struct {
	Index *catalog.Index
	Key   []byte
	Shard catalog.ShardID
}

// Mark is an unknown mark to set. Known holds the encoded components that are
// known (nil for the others); nil Known: none is.
type Mark struct {
	Index *catalog.Index
	Shard catalog.ShardID
	Known [][]byte
}

// Maintenance asks for a maintain_index job, or where Keys is set for a
// verify_keys job.
type Maintenance struct {
	Table     *catalog.Table
	Operation string // INSERT, UPDATE, DELETE, REPLACE, UNKNOWN
	Shards    catalog.ShardSet
	Indexes   []*catalog.Index
	Columns   []string // updated columns
	Keys      []Probe
}

// Probe is a key with the values it was made from.
type Probe struct {
	Index  *catalog.Index
	Key    []byte
	Values []keys.Value
}

// Error is a refusal or a syntax error with its MySQL code.
type Error struct {
	Code    uint16
	State   string
	Message string
	// Unread: Shunt can't read the statement, of which a server may say more.
	Unread bool
	// Own: it is about a statement or hint of Shunt's own, which no server knows.
	Own bool
	// Commits: a server commits before it says so, as before all DDL.
	Commits bool
	// Differs: the shards disagreed about a table when they were asked last.
	Differs bool
}

func (e *Error) Error() string { return e.Message }
