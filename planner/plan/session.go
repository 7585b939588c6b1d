package plan

import "github.com/shunt-sql/shunt/planner/catalog"

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
}

func (*Session) isPlan() {}

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
	NoOp     // a statement that has nothing to do on a shard: DO 0-like comments, empty
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
	// Queries: the expression may have a query.
	Queries bool
	// Tables are those that a query in the expression may read; Selected: no shard alone can answer
	// it, or only the session's own connection, or it may read the servers' own tables about these.
	Tables   []*catalog.Table
	Selected bool
}

// Admin is a statement that Shunt answers itself.
type Admin struct {
	// Form tells them apart: one of those that New was given, which has the planner's constants
	// for statements that a server has too.
	Form string
	// Index is what a form has of an index: a part may be missing (Table zero: all).
	Index VirtualIndex
	// Homes are the servers of the store that are named.
	Homes []string
	// Explain is the text of the statement that it is about, "" for none.
	Explain string
	// Like, Order and Descending are those of SHOW: a pattern, and a column.
	Like, Order string
	Descending  bool
	// Full is set for SHOW FULL PROCESSLIST.
	Full bool
	// Connection is the one to KILL; QueryOnly: KILL QUERY.
	Connection uint64
	QueryOnly  bool
	// Tell are the columns of TellSession and ShowCount.
	Tell []Told
	// Limit is -1 for none; Offset is for ShowWarnings and ShowErrors.
	Limit, Offset int
}

func (*Admin) isPlan() {}

// Told is a column about the session: its label, and what it tells:
// connection_id, user, schema, warning_count, error_count, row_count, found_rows, ...
type Told struct{ Label, What string }
