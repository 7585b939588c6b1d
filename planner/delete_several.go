package planner

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/plan"
)

// planKeyed finds how a write is done by its rows' keys; nil where there is no such way.
func (a *analysis) planKeyed(act *writeAction, n ast.StmtNode) plan.Keyed {
	if l := a.planLimited(act, n); l != nil {
		return l
	}
	if n, ok := n.(*ast.DeleteStmt); ok {
		if d := a.planDeletedTables(act, n); d != nil {
			return d
		}
	}
	return nil
}

// planDeletedTables finds the parts; nil where there is no such way. What planLimited's rule says holds here, too.
//
// Rule once: the rows of all tables are found by one query. Counter-example: DELETE u, o FROM users u JOIN orders o ON
// o.total = u.paid WHERE o.placed < NOW(): by a query for each table an order may go whose user stays.
func (a *analysis) planDeletedTables(act *writeAction, n *ast.DeleteStmt) *plan.DeletedTables {
	st := a.st
	if act.everywhere || a.subqueries || a.counted || a.volatile != "" || len(act.targets) < 2 || st.HasExecutable() {
		return nil
	}
	d := &plan.DeletedTables{Statement: st, NoKey: act.noKey}
	for _, t := range act.targets {
		x := plan.DeletedTable{Table: t.ref.table, Alias: t.ref.alias, Key: rowKey(t.ref.table)}
		if x.Key == nil || x.Table.Temporary || t.ref.through != nil {
			return nil
		}
		d.Tables = append(d.Tables, x)
	}
	begin := "using"
	if n.BeforeFrom {
		begin = "from"
	}
	for i := range st.Outside(0, len(st.Tokens)) {
		switch w := st.Word(i); {
		case w == "delete" && d.With == 0:
			d.With = st.Tokens[i].Start
		case w == begin && d.Rows == 0:
			d.Rows = st.Tokens[i].End
		case (w == "low_priority" || w == "quick" || w == "ignore") && d.Rows == 0:
			d.Options += w + " "
		}
	}
	parsed, err := (&parserPool{}).parse("SELECT 1 FROM "+st.Blanked()[d.Rows:], st.Settings, a.cat.MariaDB)
	if err != nil {
		return nil
	}
	sel, ok := parsed.(*ast.SelectStmt)
	if d.Rows == 0 || !ok || sel.From == nil || !sameTree(sel.From, n.TableRefs) || !sameTree(sel.Where, n.Where) || sel.OrderBy != nil || sel.Limit != nil {
		return nil
	}
	return d
}
