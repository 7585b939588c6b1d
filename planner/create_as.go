package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// CreateAs is how CREATE TABLE ... SELECT is done whose rows come from other shards
// than they go to: the table is made without rows, and these are inserted.
//
//	CREATE TABLE t (a INT KEY) IGNORE AS SELECT a FROM u LIMIT 5
//	└───────────── head ────────────────┘└────── query ────────┘
type CreateAs struct {
	Query string
	// Make is the head and the query with LIMIT 0: a table's columns don't depend on
	// the rows.
	Make string
	// Insert stands before the table's name and a list of columns.
	Insert string
	// Lenient as Copy's.
	Lenient bool
	// Exists: a shard has a table of that name, and it isn't replaced.
	Exists bool
	// lacks refuses the table if no column of the query is the one that places its rows.
	lacks *Error
	// key is that column.
	key string
}

// Lacks is the refusal of a table that has the query's columns beside its own, nil for none.
func (a *CreateAs) Lacks(columns []string) *Error {
	if a.lacks == nil || slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, a.key) }) {
		return nil
	}
	return a.lacks
}

// TargetIn is as Copy.Target for a column of a query that fills a new table, whose column of that
// name may be declared.
//
// Counter-example: CREATE TABLE t (id INT KEY, n INT) SELECT id, colour AS n FROM u of an ENUM.
func TargetIn(t *catalog.Table, column string) string {
	if c := t.Column(column); c != nil {
		return baseType(c.Type)
	}
	return ""
}

// queryAt finds the query of CREATE TABLE ... SELECT behind the table's name, with the
// parentheses around it; -1 for none.
func (st *statement) queryAt(i int) int {
	depth := 0
	for ; i < len(st.toks); i++ {
		first := i
		for st.op(first, "(") {
			first++
		}
		begins := st.is(first, "select") || st.is(first, "with") && !st.is(first+1, "system") || st.is(first, "values") || st.is(first, "table")
		switch {
		case depth == 0 && begins && !st.op(i-1, "."):
			return i
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			depth--
		}
	}
	return -1
}

// createAs cuts CREATE TABLE ... SELECT, whose query is at token i.
func (st *statement) createAs(i int) (*CreateAs, *Error) {
	if st.hasExecutable() {
		return nil, refuseExecutable()
	}
	head := st.src[:st.toks[i].start]
	as := &CreateAs{Insert: "INSERT INTO ", Lenient: !st.settings.Strict}
	verb := i - 1
	if st.is(verb, "as") {
		verb--
	}
	switch {
	case st.is(verb, "ignore"):
		as.Insert, as.Lenient = "INSERT IGNORE INTO ", true
	case st.is(verb, "replace"):
		as.Insert = "REPLACE INTO "
	}
	last := len(st.toks) - 1
	for st.op(i, "(") && st.closes(i) == last { // around all of it
		i, last = i+1, last-1
	}
	if i > last {
		return nil, st.near(i)
	}
	as.Query = st.src[st.toks[i].start:st.toks[last].end]
	end := last + 1
	for j := range st.outside(i, last+1) {
		switch {
		case st.op(j-1, "."):
		case st.is(j, "into"):
			return nil, notSupported("SELECT ... INTO is not supported here")
		case end > last && (st.is(j, "limit") || st.locksAt(j)):
			end = j
		}
	}
	as.Make = head + st.src[st.toks[i].start:st.toks[end-1].end] + " LIMIT 0"
	return as, nil
}

// createdFrom are the tables of the query.
func (p *Planner) createdFrom(as *CreateAs, st *statement, cat *catalog.Catalog) ([]*catalog.Table, *Error) {
	plan, failed := p.Plan(as.Query, st.settings, cat)
	if failed != nil {
		e, _ := failed.(*Error) //nolint:errorlint // Plan returns *Error as it is
		return nil, e
	}
	rows, ok := plan.(*Rows)
	if !ok || rows.Kind != Select && rows.Kind != Locking {
		return nil, notSupported("CREATE TABLE from this kind of query is not supported: write SELECT")
	}
	return rows.Tables, nil
}

// createTableAs plans CREATE TABLE ... SELECT, whose query is at token i. Where each shard
// may fill its own table from its own rows, it is sent as it is. lacks is for what the query
// doesn't bring either.
//
// Rule rows where they are made: counter-examples are
//
//	CREATE TABLE t (id INT PRIMARY KEY) SELECT user_id AS id FROM orders
//	    rows that t's placement has on another shard
//	CREATE TABLE countries2 SELECT *, UUID() FROM countries     countries2 a reference table
//	    copies that are not the same
func (p *Planner) createTableAs(st *statement, cat *catalog.Catalog, ddl *DDL, primary bool, i int, lacks *Error) (Plan, *Error) {
	name := ddl.Tables[0]
	var placement catalog.Placement
	placement, ddl.Shards, _ = placed(cat, name, primary)
	own, err := p.fromOwnRows(st, cat, i, placement, ddl.Shards)
	if own || err != nil {
		return ddl, err
	}
	if ddl.As, err = st.createAs(i); err != nil {
		return nil, err
	}
	from, err := p.createdFrom(ddl.As, st, cat)
	if err != nil {
		return nil, err
	}
	ddl.Texts = map[catalog.ShardID]string{}
	for id := range ddl.Shards.All {
		ddl.Texts[id] = ddl.As.Make
	}
	was := cat.Table(name.Schema, name.Name)
	if ddl.As.lacks = lacks; lacks != nil {
		ddl.As.key = was.KeyWanted
	}
	replaces := st.is(1, "or")
	ddl.As.Exists = was != nil && len(was.Columns) > 0 && !replaces
	for _, t := range from {
		switch {
		case t == was && replaces:
			return nil, notSupported("CREATE OR REPLACE TABLE %s from its own rows is not supported: CREATE another table, then RENAME TABLE", name.Name)
		case !t.Shards.Contains(ddl.Shards):
			return nil, notSupported("CREATE TABLE %s from %s, which is not on all of its shards, is not supported: write the columns out, then INSERT ... SELECT", name.Name, t.Name)
		}
	}
	return ddl, nil
}

// fromOwnRows reports whether each of the shards of a new table has the rows of the query
// at token i that the table is to have there.
func (p *Planner) fromOwnRows(st *statement, cat *catalog.Catalog, i int, placement catalog.Placement, shards catalog.ShardSet) (bool, *Error) {
	query, err := lexStatement(st.src[st.toks[i].start:], st.settings, cat)
	if err != nil {
		return false, err
	}
	n, err := p.parse(query, cat)
	if err != nil {
		return false, err
	}
	a := &analysis{st: query, cat: cat, parsers: &p.parsers}
	main := a.query(n, nil, false)
	if a.err != nil {
		return false, a.err
	}
	if f := query.writingFunction(cat); f != "" {
		return false, notSupported("CREATE TABLE ... SELECT with the stored function %s(), which may change rows, is not supported: CREATE TABLE, then INSERT", f)
	}
	if f := query.readingFunction(cat); f != "" {
		return false, notSupported("CREATE TABLE ... SELECT with the stored function %s(), which may read rows of one shard only, is not supported: CREATE TABLE, then INSERT", f)
	}
	for _, r := range a.refs {
		switch {
		case r.table == nil || r.table.IsView, !r.table.Shards.Contains(shards):
			return false, nil
		case placement == catalog.Anywhere && len(a.refs) == 1 && main != nil && !a.subqueries && r.sharded() && spoilsConcatenation(n) == "":
			// the rows stay where they are, and anywhere will do
		case r.spread() && r.table.Placement != catalog.Single:
			return false, nil
		}
	}
	switch placement {
	case catalog.Single:
		return true, nil
	case catalog.Reference:
		return len(a.refs) > 0 && a.volatile == "" && !query.has("limit") && !st.has("auto_increment"), nil
	case catalog.Anywhere:
		return len(a.refs) == 1 && a.refs[0].sharded(), nil
	case catalog.Hash:
	}
	return false, nil
}
