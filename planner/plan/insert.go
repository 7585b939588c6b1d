package plan

import (
	"math"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// Meets is a REPLACE, INSERT IGNORE or INSERT ... ON DUPLICATE KEY UPDATE into a
// table placed anywhere, or of rows whose shard key is counted (see
// insertAction.countsKey in package planner). What becomes of a row depends on whether it meets one
// with the same unique key, which may be on any shard: each row is tried as a
// plain INSERT on all of them, which is then undone, and goes to the shard where
// it met one, or to that of a new row.
//
// Counter-example: REPLACE INTO legacy (id) VALUES (5) where row 5 is on another
// shard than new rows with id 5 go to. Sent there, both would stay.
type Meets struct {
	Statement *text.Statement
	// Spans begin and end at these offsets, head ends and tail begins.
	Spans      [][2]uint32
	Head, Tail uint32
	// Table is where the rows go.
	Table *catalog.Table
	// Ignore: rows that meet one are left out. Replace: they take its place, so that one whose
	// shard key is counted needs a value that belongs to that one's shard.
	Ignore, Replace bool
}

// Rows are the statement's rows, each as a statement of its own.
func (m *Meets) Rows(params []keys.Value) []string {
	st := m.Statement
	if len(m.Spans) == 1 {
		return []string{st.Written(0, uint32(len(st.Src)), params)}
	}
	out := make([]string, len(m.Spans))
	head, tail := st.Written(0, m.Head, params), st.Written(m.Tail, uint32(len(st.Src)), params)
	for k, r := range m.Spans {
		out[k] = head + st.Written(r[0], r[1], params) + tail
	}
	return out
}

// Increment says what an INSERT or REPLACE asks of its table's AUTO_INCREMENT
// counter, which counts for all shards together: each shard's own would give
// the same value again on another.
type Increment struct {
	Table  *catalog.Table
	Column *catalog.Column
	// Generated counts the rows that get a value from the counter.
	Generated int
	// Max is the highest value that can be generated for the column's type.
	Max uint64

	Runs []IncrementRun
}

// IncrementRun is rows in their order: first one whose value is given, over
// which the counter moves (0: none), then some that are counted.
type IncrementRun struct {
	Given   uint64
	Counted int
}

// End is where the counter stands behind the statement when it stood at next
// before. As on a server, a row without a value gets the next one over all that
// were generated or given before it: (NULL), (10), (NULL) gives 1, 10, 11.
//
// ok is false where the type's values don't suffice.
func (n *Increment) End(next uint64) (end uint64, ok bool) {
	for _, r := range n.Runs {
		if r.Given >= next {
			next = AddSaturated(r.Given, 1)
		}
		if r.Counted == 0 {
			continue
		}
		if next = AddSaturated(next, r.Counted); next-1 > n.Max || next == math.MaxUint64 {
			return next, false
		}
	}
	return next, true
}

// AddSaturated is n + plus, or the highest number there is.
func AddSaturated(n uint64, plus int) uint64 {
	if n > math.MaxUint64-uint64(plus) {
		return math.MaxUint64
	}
	return n + uint64(plus)
}

// Generated is what an INSERT with an AUTO_INCREMENT column that Shunt counts
// answers as the last insert id.
type Generated struct {
	Table  *catalog.Table
	Column *catalog.Column
	// First is the first generated value; 0 where all were given. Last is the
	// last one.
	First, Last uint64
	// Rows are the statement's rows.
	Rows int
	// LastShard is where the last row goes.
	LastShard catalog.ShardID
	// Uncertain are the generated values of INSERT IGNORE and ON DUPLICATE KEY
	// UPDATE, which may not have inserted them all.
	Uncertain []uint64
	// Empty are the rows, from 0 on, that give '', which a server counts and warns of. Theirs is in its place.
	Empty []int
	// Values are the parameters that ShardStatement.Params names by positions
	// after the client's own.
	Values []uint64
}

// Constants are expressions of an INSERT or REPLACE whose values must be known
// before its rows can be placed, and that name no column: a shard is asked for
// the values, which then stand in the statement in their place.
//
//	INSERT INTO t (id, a) VALUES (50 + 1, 'x'), (UUID_SHORT(), 'y')
//	SELECT 50 + 1, UUID_SHORT()
//	INSERT INTO t (id, a) VALUES (51, 'x'), (102301, 'y')
//
// So is the default of a column that the rows don't give, with id DEFAULT (UUID_SHORT()):
//
//	INSERT INTO t (a) VALUES ('x'), ('y')
//	SELECT UUID_SHORT(), UUID_SHORT()
//	INSERT INTO t (a, `id`) VALUES ('x', 102301), ('y', 102302)
//
// What is different each time (UUID(), RAND()) is thus computed once. Subqueries are asked
// for one by one: see subqueryValues in package planner.
type Constants struct {
	Statement *text.Statement
	all       []ConstantPlace // in the order of the text
	n         int
	// OneByOne: each is asked for by itself.
	OneByOne bool
	// Forms: the values are of other forms than the column's, and are asked for as stored.
	Forms bool
	// into are the columns that the values go to.
	into []*catalog.Column
	// Table is what these are of, ignore that it is INSERT IGNORE.
	Table  *catalog.Table
	Ignore bool
}

// ConstantPlace is where in the text a value is, or goes: before it, then the value, in place
// of [start, end).
type ConstantPlace struct {
	Start, End uint32
	Before     string
	// Query is the expression, "" for that of the text.
	Query string
	// From and to are what to ask for of [start, end), where that is a subquery: without its
	// parentheses, if it is the whole value.
	From, To uint32
	Whole    bool
	// Name: it is of the list of columns, and has no value.
	Name bool
}

// Subqueries reports that Queries asks for each value by itself.
func (c *Constants) Subqueries() bool { return c.OneByOne }

// AsStored reports that each value is what the column holds, and not what the expression is.
func (c *Constants) AsStored() bool { return c.Forms }

// Into are the columns of n values from the i-th on.
func (c *Constants) Into(i, n int) *Stored {
	return &Stored{Table: c.Table, Columns: c.into[i : i+n], Ignore: c.Ignore}
}

// Whole reports that the i-th value is nothing but a subquery.
func (c *Constants) Whole(i int) bool { return c.Subqueries() && c.all[i].Whole }

// Query asks for the i-th value alone.
func (c *Constants) Query(i int, params []keys.Value) string {
	for _, x := range c.all {
		switch {
		case x.Name:
		case i > 0:
			i--
		case x.Query != "":
			return "SELECT " + x.Query
		default:
			return "SELECT " + c.Statement.Written(x.Start, x.End, params)
		}
	}
	return ""
}

// Queries ask for the values: one for all, or one for each subquery.
func (c *Constants) Queries(params []keys.Value) []string {
	parts := make([]string, 0, c.n)
	for _, x := range c.all {
		switch {
		case x.Name:
		case x.Query != "":
			parts = append(parts, x.Query)
		case x.Whole:
			parts = append(parts, c.Statement.Written(x.From, x.To, params))
		case c.Subqueries():
			parts = append(parts, "SELECT "+c.Statement.Written(x.From, x.To, params))
		default:
			parts = append(parts, c.Statement.Written(x.Start, x.End, params))
		}
	}
	if c.Subqueries() {
		return parts
	}
	return []string{"SELECT " + strings.Join(parts, ", ")}
}

// With is the statement with literals for the expressions and the parameters.
func (c *Constants) With(literals []string, params []keys.Value) string {
	var b strings.Builder
	from := uint32(0)
	for _, x := range c.all {
		b.WriteString(c.Statement.Written(from, x.Start, params) + x.Before)
		if !x.Name {
			b.WriteString(" " + literals[0] + " ")
			literals = literals[1:]
		}
		from = x.End
	}
	return b.String() + c.Statement.Written(from, uint32(len(c.Statement.Src)), params)
}

// Len is the number of values that Queries answer.
func (c *Constants) Len() int { return c.n }

// Add notes a value of a column.
func (c *Constants) Add(x ConstantPlace, into *catalog.Column) {
	if c.all = append(c.all, x); !x.Name {
		c.n++
		c.into = append(c.into, into)
	}
}
