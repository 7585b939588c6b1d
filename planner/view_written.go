package planner

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// throughView has a reference to a view that is written through stand for the view's table. The text that is sent keeps the
// view, whose server holds the rows to its WHERE and its CHECK OPTION.
//
// Rule one table: the view picks rows and columns of one table, so that each row that is changed is that table's, and where it
// is, and its keys in indexes, are the table's affair. Counter-example: CREATE VIEW v AS SELECT u.id, o.code FROM users u JOIN
// orders o ON o.buyer = u.id. UPDATE v SET code = 'x' changes orders, of users that are elsewhere.
//
// Rule own names: a column is the table's one where the view has it as it is, under whatever name. Counter-example: CREATE VIEW
// v AS SELECT id, age + 1 AS age FROM users. UPDATE v SET name = 'x' WHERE age = 5 is about those of 4.
//
// Rule same rows: what says otherwise each time in the view's WHERE does so in the statement. Counter-example: CREATE VIEW v AS
// SELECT * FROM countries WHERE RAND() < 0.5. UPDATE v would change other rows in each copy of a reference table.
func (a *analysis) throughView(r *ref) {
	if r.table == nil || !r.table.IsView {
		return
	}
	if t, names := a.writtenView(r.table, 0); t != nil {
		r.through, r.table, r.names = r.table, t, names
		a.unnamed = append(a.unnamed, t)
	}
}

func refuseThroughView(v *catalog.Table) *text.Error {
	e := text.NotSupported("writing through the view %s, which is more than rows and columns of one table, is not supported over several shards: write to its tables", v.Name)
	e.View = true
	return e
}

// noColumn is the error for a column to write that a table, or a view that is written through, doesn't have.
func (r *ref) noColumn(name ast.CIStr) *text.Error {
	if r.through != nil && r.through.Column(name.L) != nil {
		return text.NewError(mysqlerr.NonUpdatableColumn, "Column '"+name.O+"' is not updatable")
	}
	return spoken.UnknownColumn(name.O)
}

// writtenView is the table of a view under the rules above, and its columns by the view's names in lower case; nil for none.
func (a *analysis) writtenView(v *catalog.Table, depth int) (*catalog.Table, map[string]*catalog.Column) {
	n, inner, main := a.readView(v, &parserPool{}, depth)
	sel, ok := n.(*ast.SelectStmt)
	if ok && sel.Limit == nil {
		sel.OrderBy = nil // of no consequence for what is changed
	}
	if !ok || main == nil || inner.subqueries || len(inner.refs) != 1 || len(main.refs) != 1 || spoilsConcatenation(n) != "" ||
		sel.LockInfo != nil || sel.Kind != ast.SelectStmtKindSelect || len(sel.Fields.Fields) != len(v.Columns) {
		return nil, nil
	}
	of := main.refs[0]
	if of.table != nil && of.table.IsView {
		of.through = of.table
		of.table, of.names = a.writtenView(of.table, depth+1)
	}
	if of.table == nil || of.system || !v.Shards.Contains(of.table.Shards) {
		return nil, nil
	}
	a.clock = a.clock || inner.clock
	if inner.volatile != "" {
		a.setVolatile(inner.volatile)
	}
	names := map[string]*catalog.Column{}
	for i, f := range sel.Fields.Fields {
		if f.WildCard != nil {
			return nil, nil
		}
		if c, ok := inner.columnOf(f.Expr, main); ok && c.ref == of {
			names[strings.ToLower(v.Columns[i].Name)] = c.col
		}
	}
	return of.table, names
}
