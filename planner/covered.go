package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
)

// maxCovered bounds the keys by which an answer is kept.
const maxCovered = 16

// covering are the indexes whose answers a SELECT's may be.
//
// Rule a function of its rows: it has nothing but columns that the index covers, values, and functions that are the same in
// all sessions and at all times. Counter-examples: SELECT id, NOW() FROM users WHERE email = 'x'; SELECT UUID() ...; one with
// a variable, or a subquery, which reads other rows; FOR SYSTEM_TIME; a partition, which other columns choose.
func (a *analysis) covering(n ast.Node) (out []*catalog.Index) {
	sel, ok := n.(*ast.SelectStmt)
	if !ok || sel.Kind != ast.SelectStmtKindSelect || sel.SelectStmtOpts != nil && !sel.SQLCache || len(a.refs) != 1 || a.volatile != "" || a.clock || len(a.assigned) > 0 || a.counted {
		return nil
	}
	r := a.refs[0]
	if r.table == nil || r.table.IsView || r.view != nil || r.derived != nil || r.system || r.history || r.table.Temporary || r.table.Differs != "" {
		return nil
	}
	for _, ix := range r.table.Indexes {
		if len(ix.Include) > 0 && ix.Usable() {
			out = append(out, ix)
		}
	}
	if len(out) == 0 {
		return nil
	}
	columns, ok := namedColumns(sel, r.table)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(out, func(ix *catalog.Index) bool {
		return slices.ContainsFunc(columns, func(c *catalog.Column) bool { return !ix.Answers(c) })
	})
}

// namedColumns are those that a SELECT of one table needs; ok is false where it needs anything else.
func namedColumns(sel *ast.SelectStmt, t *catalog.Table) (columns []*catalog.Column, ok bool) {
	ok = true
	walk(sel, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			ok = ok && n == sel
		case *ast.SelectField:
			if n.WildCard != nil {
				columns = append(columns, spoken.Visible(t)...)
			}
		case *ast.ColumnName:
			if c := t.Column(n.Name.L); c != nil { // else it is an alias of what is looked at, too
				columns = append(columns, c)
			}
		case *ast.TableName:
			ok = ok && len(n.PartitionNames) == 0 && n.TableSample == nil && n.AsOf == nil
		case *ast.FuncCallExpr:
			ok = ok && spoken.SameForAll(n.FnName.L) && n.Schema.L == ""
		case *ast.TableRefsClause, *ast.Join, *ast.TableSource, *ast.FieldList, *ast.WildCardField, *ast.ColumnNameExpr,
			*ast.GroupByClause, *ast.HavingClause, *ast.OrderByClause, *ast.ByItem, *ast.Limit, *ast.TableOptimizerHint,
			*ast.BinaryOperationExpr, *ast.UnaryOperationExpr, *ast.ParenthesesExpr, *ast.PatternInExpr, *ast.PatternLikeOrIlikeExpr,
			*ast.IsNullExpr, *ast.IsTruthExpr, *ast.BetweenExpr, *ast.RowExpr, *ast.CaseExpr, *ast.WhenClause, *ast.AggregateFuncExpr,
			*ast.PositionExpr, ast.ValueExpr:
		default:
			ok = false
		}
		return ok
	})
	ok = ok && !slices.ContainsFunc(columns, func(c *catalog.Column) bool { return c.Varies })
	return columns, ok
}

// covered are the keys of a statement that has all columns of one of the indexes, nil where it may read other rows.
func (b *binder) covered(r *ref, indexes []*catalog.Index) *plan.Covered {
	kids := r.tree.kids
	if r.tree.op != opAnd {
		kids = []*cnode{r.tree}
	}
	for _, ix := range indexes {
		if p := b.prefixes(ix, kids); p.columns == len(ix.Columns) && len(p.keys) > 0 && len(p.keys) <= maxCovered {
			return &plan.Covered{Index: ix, Keys: p.keys}
		}
	}
	return nil
}
