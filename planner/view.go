package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// maxViews bounds views of views.
const maxViews = 8

// viewAsTable is a view as a table to read: one whose rows are where those of
// the view's own tables are. nil where that is not known; the view then bounds
// nothing and is read on one shard only.
//
// Rule plain view: a view of one table that picks rows and columns, each row of
// the view being one of the table, is spread as the table is. Counter-example:
// CREATE VIEW v AS SELECT country, COUNT(*) FROM users GROUP BY country. SELECT *
// FROM v on each shard answers a country once per shard.
//
// Rule kept columns: a column of the view is the shard key, or one of an index,
// only where the view has the table's column as it is. Counter-example: CREATE
// VIEW v AS SELECT id + 1 AS id FROM users; the row with id = 5 is where 4 is.
//
// exact: as far as the types that the servers list for a view can be relied on.
//
// Rule listed types: a text's collation is listed as it was when the view was
// made, and a column's wins over a literal's. Counter-example: CREATE VIEW v AS
// SELECT CAST(age AS CHAR) AS age FROM users, made with SET NAMES utf8mb4 COLLATE
// utf8mb4_unicode_ci: MySQL lists that, and answers utf8mb4_0900_ai_ci.
func (a *analysis) viewAsTable(v *catalog.Table, depth int) (t *catalog.Table, exact bool) {
	n, inner, main := a.readView(v, a.parsers, depth)
	if n == nil {
		return nil, false
	}
	if t, kept := inner.plainView(v, n, main); t != nil {
		exact = true
		for i, c := range t.Columns {
			of, ok := kept[i]
			exact = exact && (c.Charset == "" || ok && (of.ref.view == nil || of.ref.exact))
		}
		return t, exact
	}
	return inner.heldView(v), false
}

// readView reads a view's query, by parsers; n is nil where that isn't known, or is the session's that reads it.
func (a *analysis) readView(v *catalog.Table, parsers *parserPool, depth int) (n ast.StmtNode, inner *analysis, main *scope) {
	if v.Definition == "" || depth > maxViews {
		return nil, nil, nil
	}
	// The servers keep it with all names in full and quoted, in no SQL mode.
	n, err := parsers.parse(v.Definition, text.Settings{}, a.cat.MariaDB)
	if err != nil {
		return nil, nil, nil
	}
	st, lexErr := text.Read(v.Definition, text.Settings{}, a.cat)
	if lexErr != nil || !spoken.FitOfOneShard(st, a.cat) || st.Calls("last_insert_id") || slices.ContainsFunc(ofSession, st.Calls) {
		return nil, nil, nil
	}
	inner = &analysis{st: st, cat: a.cat, parsers: a.parsers, views: depth + 1}
	main = inner.query(n, nil, false)
	if inner.err != nil || slices.ContainsFunc(inner.refs, func(r *ref) bool { return r.table != nil && r.table.Temporary }) {
		return nil, nil, nil
	}
	return n, inner, main
}

// groupsByView has a view read by its definition where a copy of its rows would be
// grouped otherwise.
//
// Rule names of a view's groups: where a select item that is a view's column has the name
// of another one, MySQL's GROUP BY takes that name for the item; of a table, for the
// column. Counter-example: SELECT id AS name, COUNT(*) FROM v GROUP BY name.
func (a *analysis) groupsByView(n *ast.SelectStmt, s *scope) {
	if n.GroupBy == nil || a.cat.MariaDB {
		return
	}
	for _, item := range n.GroupBy.Items {
		x, ok := item.Expr.(*ast.ColumnNameExpr)
		if !ok || x.Name.Table.O != "" || !slices.ContainsFunc(n.Fields.Fields, func(f *ast.SelectField) bool { return f.AsName.L == x.Name.Name.L }) {
			continue
		}
		for _, r := range s.refs {
			if r.view != nil && !r.unread() && r.table.Column(x.Name.Name.L) != nil {
				r.exact = false
			}
		}
	}
}

// ofSession are functions about the session, which a shard's connection is not.
// Counter-example: CREATE VIEW mine AS SELECT * FROM notes WHERE owner = USER().
var ofSession = []string{"user", "session_user", "system_user", "current_user", "current_role", "connection_id"}

// plainView is a view under the rules above. kept are the tables' columns that
// the view's are, by place.
func (a *analysis) plainView(v *catalog.Table, n ast.StmtNode, main *scope) (t *catalog.Table, kept map[int]column) {
	sel, ok := n.(*ast.SelectStmt)
	if !ok || main == nil || a.subqueries || a.hiddenAggregate != "" || len(a.refs) == 0 || len(a.refs) != len(main.refs) || sel.LockInfo != nil ||
		sel.Kind != ast.SelectStmtKindSelect || sel.Fields == nil || len(sel.Fields.Fields) != len(v.Columns) {
		return nil, nil
	}
	for _, r := range a.refs {
		if r.table == nil || r.table.IsView || !v.Shards.Contains(r.table.Shards) {
			return nil, nil
		}
	}
	kept = map[int]column{}
	for i, f := range sel.Fields.Fields {
		if f.WildCard != nil {
			return nil, nil
		}
		if c, ok := a.columnOf(f.Expr, main); ok && c.col.Type == v.Columns[i].Type && c.col.Collation == v.Columns[i].Collation {
			kept[i] = c
		}
	}
	whole := spoilsConcatenation(n) == "" // each of the view's rows is one of the tables' rows
	t = &catalog.Table{Schema: v.Schema, Name: v.Name, Columns: viewColumns(v, kept, whole)}
	if len(a.refs) == 1 && whole {
		base := a.refs[0].table
		t.Placement, t.Shards, t.Differs = base.Placement, base.Shards, base.Differs
		t.ShardKey = keptAs(t, kept, column{a.refs[0], base.ShardKey})
	} else if !a.besideAnchor(t, sel, main, kept, whole) {
		return nil, nil
	}
	if whole {
		a.keepIndexes(t, kept)
	}
	return t, kept
}

// viewColumns are a view's columns with what no server says of them: that they are
// computed when they are read, or are JSON, as the tables' columns that they are; and
// that the collation of the others' texts is as listed (rule listed types).
//
// Counter-example: CREATE VIEW v AS SELECT id, g FROM t, g being VIRTUAL. A session that
// computes another g would look it up by the key that the scan has made (modeDoubt).
func viewColumns(v *catalog.Table, kept map[int]column, whole bool) []*catalog.Column {
	out := make([]*catalog.Column, len(v.Columns))
	for i := range out {
		c := *v.Columns[i]
		if of, ok := kept[i]; ok {
			c.Virtual, c.Varies, c.Expression, c.Listed = of.col.Virtual, of.col.Varies, of.col.Expression, of.col.Listed
			c.JSON = whole && of.col.JSON
		} else {
			c.Listed = c.Collation != ""
		}
		out[i] = &c
	}
	return out
}

// keepIndexes gives t the indexes all of whose columns it has.
func (a *analysis) keepIndexes(t *catalog.Table, kept map[int]column) {
	for _, r := range a.refs {
		if r.nullable || r.history {
			continue
		}
		for _, ix := range r.table.Indexes {
			seen := *ix
			seen.Columns = nil
			for _, c := range ix.Columns {
				if c := keptAs(t, kept, column{r, c}); c != nil {
					seen.Columns = append(seen.Columns, c)
				}
			}
			if len(seen.Columns) == len(ix.Columns) && len(ix.Columns) > 0 {
				t.Indexes = append(t.Indexes, &seen)
			}
		}
	}
}

// keptAs is the first of t's columns that is the table's column c as it is.
func keptAs(t *catalog.Table, kept map[int]column, c column) *catalog.Column {
	for i := range t.Columns {
		if x, ok := kept[i]; ok && x == c && c.col != nil {
			return t.Columns[i]
		}
	}
	return nil
}

// besideAnchor places a view of several tables, or one that groups rows.
//
// Rule view beside its anchor: a view of a join on the shard keys is spread as
// the table is whose shard has all of a row (findAnchor). Counter-example:
// CREATE VIEW v AS SELECT u.id, o.total FROM orders o LEFT JOIN users u ON u.id =
// o.buyer: an order's user may be on another shard.
//
// Rule whole groups: a view with GROUP BY or DISTINCT over a shard key has each
// of its groups on one shard. Counter-example: CREATE VIEW v AS SELECT user_id DIV
// 2 AS pair, COUNT(*) AS n FROM orders GROUP BY pair. Only integers: of texts a
// server may take two for one that hash to different slots.
func (a *analysis) besideAnchor(t *catalog.Table, sel *ast.SelectStmt, main *scope, kept map[int]column, whole bool) bool {
	for _, r := range a.refs {
		a.plant(r)
		t.Differs += r.table.Differs
	}
	q := &queryRoute{refs: a.refs, main: main.refs}
	q.findAnchor()
	if q.anchor == nil {
		return false
	}
	base := q.anchor.table
	t.Placement, t.Shards = base.Placement, base.Shards
	var keys []column
	for _, r := range q.inner {
		if r.table.ShardKey != nil && (r == q.anchor || r.linked(map[*ref]bool{q.anchor: true})) {
			keys = append(keys, column{r, r.table.ShardKey})
		}
	}
	for _, k := range keys {
		if t.ShardKey == nil {
			t.ShardKey = keptAs(t, kept, k)
		}
	}
	if whole {
		return true
	}
	f := featuresOf(sel.Fields)
	if base.Placement != catalog.Hash || f.window || len(sel.WindowSpecs) > 0 || sel.OrderBy != nil || sel.Limit != nil || sel.CalcFoundRows ||
		sel.GroupBy == nil && (f.aggregate != "" || sel.Having != nil || !sel.Distinct || t.ShardKey == nil) {
		return false
	}
	if sel.Distinct && (t.ShardKey == nil || !catalog.IsInteger(t.ShardKey.BaseType())) {
		return false // of groups on several shards, too
	}
	if sel.GroupBy == nil {
		return true
	}
	if sel.GroupBy.Rollup {
		return false
	}
	for _, g := range sel.GroupBy.Items {
		c, ok := a.columnOf(g.Expr, main)
		if name, is := unwrap(g.Expr).(*ast.ColumnNameExpr); !is || name.Name.Table.O == "" && a.aliased(sel, name.Name.Name.L, c, main) {
			continue
		}
		if ok && slices.Contains(keys, c) && catalog.IsInteger(c.col.BaseType()) {
			return true
		}
	}
	return false
}

// aliased reports whether a name may be a select item's that is not column c.
func (a *analysis) aliased(sel *ast.SelectStmt, name string, c column, main *scope) bool {
	for _, f := range sel.Fields.Fields {
		if f.AsName.L != name {
			continue
		}
		if x, ok := a.columnOf(f.Expr, main); !ok || x != c {
			return true
		}
	}
	return false
}

// heldView is a view of any kind all of whose tables one shard holds in full.
func (a *analysis) heldView(v *catalog.Table) *catalog.Table {
	set, all := v.Shards, true
	for _, r := range a.refs {
		switch {
		case r.system:
			return nil
		case r.table == nil:
		case r.reference():
			set = set.Intersect(r.table.Shards)
		case r.table.Placement == catalog.Single && !r.table.IsView:
			set, all = set.Intersect(r.table.Shards), false
		default:
			return nil
		}
	}
	switch {
	case set.Empty():
		return nil
	case all:
		return &catalog.Table{Schema: v.Schema, Name: v.Name, Placement: catalog.Reference, Shards: set, Columns: v.Columns}
	}
	return &catalog.Table{Schema: v.Schema, Name: v.Name, Placement: catalog.Single, Shards: catalog.Only(set.First()), Columns: v.Columns}
}

// viewRefusal says what to do about a view that can't be read.
func viewRefusal(v *catalog.Table) string {
	if v.Definition == "" {
		return "the view " + v.Name + ", whose query the shards don't tell or don't agree on,"
	}
	return "the view " + v.Name + ", which is more than rows and columns of one table (write its query in its place),"
}
