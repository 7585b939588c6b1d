package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// Gather is a SELECT that no shard can answer from its own rows and whose
// shards' answers can't be merged: the rows that each table reference needs are
// copied into a scratch schema on one server, which then runs the query.
//
// The query is the client's text with the names of the copied tables replaced
// (see Text). Values, collations, functions, warnings: all MySQL's own.
//
// Of an UPDATE or DELETE it is what that reads of other shards: see gatheredWrite in package planner.
type Gather struct {
	// Refs are the table references, in the order in which the text names them.
	Refs []GatherRef
	// NamesSchema: the query asks for the current schema.
	NamesSchema bool
	// Temporary: a server has the answer from a temporary table, whatever its plan.
	Temporary bool
	// Locks: rows of some references are read with a locking clause, which holds
	// until the transaction's end, or without one the statement's.
	Locks bool
	// ByKey: a write's conditions compare a column of each table that it changes by which a key finds its rows.
	ByKey bool

	// Text is the client's, with its cuts.
	Text text.Splice
	// Narrower says what Narrow leaves.
	Narrower
}

// Narrower finds the rows of a Gather's reference that have partners in copies filled before.
type Narrower interface {
	// Narrow is Select and Shards of a reference for the rows whose Column of each of
	// the joins is one of that join's values, which are not NULL and as Select of the
	// other reference answered them. ok is false where none narrows. ix is looked up for what
	// the snapshots show that the rows are read in; nil: nothing is.
	Narrow(g *Gather, ref int, joins []GatherJoin, values [][]string, ix Indexes) (sel string, shards catalog.ShardSet, ok bool)
}

// Query is the client's text with copies in place of tables. copied names the
// scratch table of a reference, "" where it is read in place.
func (g *Gather) Query(copied func(ref int) string) string { return g.Text.With(copied) }

// Whole is g with all rows of its copies' shards, where the conditions of some
// made a shard warn: what is a warning in a query is an error in a write of a
// strict session. ok is false where there are no conditions.
func (g *Gather) Whole() (_ *Gather, ok bool) {
	out := *g
	out.Refs = slices.Clone(g.Refs)
	for i := range out.Refs {
		if r := &out.Refs[i]; len(r.Filters) > 0 {
			r.Select, r.Filters, r.Params, ok = r.Whole, nil, []int{}, true
		}
	}
	return &out, ok
}

// GatherRef is one table reference of a gather.
type GatherRef struct {
	Table *catalog.Table
	// Stays: it is no copy. The statement reads or changes the rows that are
	// where it runs (see writeAction.gathered in package planner); of the rest only Table is set.
	Stays bool
	// Columns of the copy; the others are not named in the query.
	Columns []GatherColumn
	// Shards hold the rows that may count. Empty: none does.
	Shards catalog.ShardSet
	// InPlace are the shards that have all rows of the table: a query that runs
	// there may read it without a copy, but not the session's own uncommitted
	// writes.
	InPlace catalog.ShardSet
	// Select reads the rows of the copy; Params are the positions of its `?` in
	// the client's parameter list, never nil.
	Select string
	Params []int
	// Lock is the locking clause to put behind Select, "" for none.
	Lock string
	// Bounded: conditions of its own leave few rows, it may be hoped.
	Bounded bool
	// Joins are ways to narrow the rows by another copy that is filled first.
	Joins []GatherJoin
	// Access and Reason say how Shards were found.
	Access, Reason string

	// Unique are the table's unique keys (the primary one first) that the copy
	// has all columns of, Keys the columns that the query joins by.
	Unique [][]*catalog.Column
	Keys   []*catalog.Column
	// Alias is what the query calls the reference.
	Alias string
	// Filters are the conditions of Select, Whole is it without them.
	Filters []Filter
	Whole   string
}

// Has reports that the copy has all of these columns.
func (r *GatherRef) Has(cols ...*catalog.Column) bool {
	for _, c := range cols {
		if !slices.ContainsFunc(r.Columns, func(x GatherColumn) bool { return x.Column == c }) {
			return false
		}
	}
	return true
}

// Definition is the text between the parentheses of CREATE TABLE for the copy:
// the base table's types, collations and NULLs, so that every expression means
// the same. With unique its unique keys too, by which MySQL knows what GROUP BY
// determines; rows of several shards may break them.
func (r *GatherRef) Definition(unique bool) string {
	var b strings.Builder
	visible := slices.IndexFunc(r.Columns, func(c GatherColumn) bool { return !c.Invisible })
	for i := range r.Columns {
		c := &r.Columns[i]
		if i > 0 {
			b.WriteString(", ")
		}
		typ, _, _ := strings.Cut(c.Type, " /*") // MariaDB's COMPRESSED
		b.WriteString(catalog.QuoteName(c.Name) + " " + typ)
		if f := c.BaseType(); c.Charset != "" && (c.Form == FormText || c.Form == FormEncoded || f == "enum" || f == "set") {
			b.WriteString(" CHARACTER SET " + c.Charset + " COLLATE " + c.Collation)
		}
		if c.Nullable {
			b.WriteString(" NULL")
		} else {
			b.WriteString(" NOT NULL")
		}
		if c.Invisible && visible >= 0 {
			if !c.Nullable {
				// MariaDB wants a default, an AUTO_INCREMENT column's too, which isn't one here. This
				// one is never used, and is valid for every type since it is known by row only.
				b.WriteString(" DEFAULT (ELT(" + catalog.QuoteName(r.Columns[visible].Name) + " IS NULL, ''))")
			}
			b.WriteString(" INVISIBLE")
		}
		if c.JSON {
			// Counter-example: JSON_ARRAYAGG(doc), in which a text is a string.
			b.WriteString(" CHECK (JSON_VALID(" + catalog.QuoteName(c.Name) + "))")
		}
	}
	if unique {
		for _, u := range r.Unique {
			word := "UNIQUE"
			if slices.Equal(u, r.Table.PrimaryKey) {
				word = "PRIMARY"
			}
			b.WriteString(", " + word + " KEY (" + catalog.QuoteColumns(u) + ")")
		}
	}
	for _, c := range r.Keys {
		leads := unique && slices.ContainsFunc(r.Unique, func(u []*catalog.Column) bool { return u[0] == c })
		if !r.Has(c) || leads {
			continue
		}
		b.WriteString(", KEY (" + catalog.QuoteName(c.Name))
		if !wholeKey(c) {
			b.WriteString("(" + strconv.Itoa(keyPrefix) + ")")
		}
		b.WriteString(")")
	}
	return b.String()
}

// GatherJoin says that the rows of a reference count only where the value of
// Column is one that column From of the copy of Ref has.
type GatherJoin struct {
	Column *catalog.Column
	Ref    int
	From   int         // in Columns of Ref
	Codec  *keys.Codec // as in a cnode
}

// Filter is a condition of the text that a copy's rows must satisfy.
type Filter struct {
	Text   string
	Params []int // of its `?`
}

// wholeKey reports columns that are short enough to be indexed whole.
func wholeKey(c *catalog.Column) bool {
	switch base := c.BaseType(); base {
	case "char", "varchar", "binary", "varbinary":
		n, ok := TypeLength(c.Type)
		return ok && n <= keyPrefix
	default:
		return !strings.HasSuffix(base, "text") && !strings.HasSuffix(base, "blob")
	}
}

// keyPrefix is how many characters of a long column an index has: InnoDB takes
// 3072 bytes for all of a key's columns.
const keyPrefix = 190

// TypeLength is the number in varchar(20).
func TypeLength(t string) (int, bool) {
	_, rest, ok := strings.Cut(t, "(")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, ")")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil
}
