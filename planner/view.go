package planner

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
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
func (a *analysis) viewAsTable(v *catalog.Table, depth int) *catalog.Table {
	if v.Definition == "" || depth > maxViews {
		return nil
	}
	// The servers keep it with all names in full and quoted, in no SQL mode.
	n, err := a.parsers.parse(v.Definition, Settings{}, a.cat.MariaDB)
	if err != nil {
		return nil
	}
	st, lexErr := lexStatement(v.Definition, Settings{}, a.cat)
	if lexErr != nil || st.writingFunction(a.cat) != "" {
		return nil
	}
	inner := &analysis{st: st, cat: a.cat, parsers: a.parsers, views: depth + 1}
	main := inner.query(n, nil, false)
	if inner.err != nil {
		return nil
	}
	if t := inner.plainView(v, n, main); t != nil {
		return t
	}
	return inner.heldView(v)
}

// plainView is a view under the rules above.
func (a *analysis) plainView(v *catalog.Table, n ast.StmtNode, main *scope) *catalog.Table {
	sel, ok := n.(*ast.SelectStmt)
	if !ok || main == nil || a.subqueries || len(a.refs) != 1 || len(main.refs) != 1 || spoilsConcatenation(n) != "" || sel.LockInfo != nil {
		return nil
	}
	base := main.refs[0].table
	if base == nil || base.IsView || !v.Shards.Contains(base.Shards) || sel.Fields == nil || len(sel.Fields.Fields) != len(v.Columns) {
		return nil
	}
	kept := map[*catalog.Column]*catalog.Column{}
	for i, f := range sel.Fields.Fields {
		if f.WildCard != nil {
			return nil
		}
		if name, ok := f.Expr.(*ast.ColumnNameExpr); ok {
			if c, ok := a.resolve(name.Name, main); ok && kept[c.col] == nil && c.col.Type == v.Columns[i].Type && c.col.Collation == v.Columns[i].Collation {
				kept[c.col] = v.Columns[i]
			}
		}
	}
	t := &catalog.Table{
		Schema: v.Schema, Name: v.Name, Placement: base.Placement, Shards: base.Shards, Columns: v.Columns,
		ShardKey: kept[base.ShardKey], Differs: base.Differs,
	}
	for _, ix := range base.Indexes {
		seen := *ix
		seen.Columns = nil
		for _, c := range ix.Columns {
			if kept[c] != nil {
				seen.Columns = append(seen.Columns, kept[c])
			}
		}
		if len(seen.Columns) == len(ix.Columns) && len(ix.Columns) > 0 {
			t.Indexes = append(t.Indexes, &seen)
		}
	}
	return t
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
