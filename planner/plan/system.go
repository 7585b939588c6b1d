package plan

import (
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// System says how a look around (information_schema, SHOW, table maintenance)
// is answered from what several shards say, as one server would answer it.
type System struct {
	// Rows: the statement goes to all of Statements as it is, and rows that
	// name the same thing become one.
	Rows *SystemTable
	// Route is what goes on top of the answer to an EXPLAIN.
	Route *Route
	// Any: the shards are asked one after the other until one knows what it is
	// asked for.
	Any bool
	// Everywhere: what changes the servers rather than asks: an open
	// transaction is committed first, as on a server.
	Everywhere bool
	// Sources are the system tables whose rows are gathered from all shards. The
	// statement that is run has them between its Parts: Parts[0], the table
	// Sources[Order[0]], Parts[1], ...
	Sources []*SystemTable
	Parts   []string
	Order   []int
	// Here: the shard that runs it has all of the Sources' rows. Shunt's own are left out.
	Here bool
	// Temporary: the session's temporary tables are listed among the others.
	Temporary bool
}

// Route is where an explained statement goes, as EXPLAIN ROUTE says it.
type Route struct {
	Plan, Access, Reason string
	Shards               []string
}

// SystemTable is a system table, or the answer of a SHOW, that each shard has a
// part of.
type SystemTable struct {
	// Schema and Name of the system table; Schema is "" for a SHOW.
	Schema, Name string
	// Key are the columns that name what a row is about, "" for the first one; so does
	// an empty Key.
	Key []string
	// Owner is the column with the schema that a row belongs to. Rows of the
	// servers' own schemas are taken from one shard.
	Owner string
	// Table is the column with the table that a row is about, "" for none: only
	// the shards that hold a table speak of it. OfSchema is its schema where no
	// column has it.
	Table, OfSchema string
	// Join says by column what becomes of the values of several shards; all
	// else is as the first one says.
	Join map[string]Joining
	// Schemas: the first column is a schema's name. Shunt's own is left out.
	Schemas bool
	// Clients: it tells of Shunt's clients, whom no shard knows.
	Clients bool
	// Sorted: as SHOW answers, by key.
	Sorted bool
	// Each: rows of a shard's own, all given; equal ones of all shards once.
	Each bool
}

// Joining is how one value is made of those of several shards.
type Joining uint8

const (
	// Sum: rows and bytes. Of a reference table one copy counts.
	Sum Joining = iota + 1
	// Largest and Smallest: counters and times; NULL is neither.
	Largest
	Smallest
	// RowLength is the average row's, from the sums.
	RowLength
	// Checksum adds modulo 2^32, as CHECKSUM TABLE does over rows.
	Checksum
)

// ShownValues is SHOW [SESSION | GLOBAL] VARIABLES or STATUS. Some values are the
// session's at Shunt and not its shard connection's, so a condition on values must
// be asked of the rows that have them.
//
// Counter-example: SHOW VARIABLES WHERE Value = 600, where the client has SET
// wait_timeout = 600, which no shard is given.
type ShownValues struct {
	Status, Global bool
	// All is the statement without its filter.
	All string
	// Like is the pattern of LIKE, if HasLike.
	Like    string
	HasLike bool
	// ByName: whether a row is shown depends on its name alone, and none of
	// Shunt's own is among them: the shard may filter.
	ByName bool

	Statement   *text.Statement
	WhereAt     uint32
	Conditional bool
}

// Where is the condition with the values of parameters; "" for none.
func (v *ShownValues) Where(params []keys.Value) string {
	if !v.Conditional {
		return ""
	}
	return v.Statement.Written(v.WhereAt, uint32(len(v.Statement.Src)), params)
}
