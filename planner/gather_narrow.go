package planner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// MaxNarrowing is how many keys of one copy narrow another.
const MaxNarrowing = 5000

// narrowings are the equalities by which the rows of r can be narrowed to those
// that have a partner.
//
// Rule partner: the equality is one that every row of r must satisfy to count
// (see conditionsOf), with a column of another reference. Counter-example:
//
//	u LEFT JOIN o ON o.user_id = u.id
//
// narrows o to the orders of the users copied, but never u to those who have
// orders.
func (a *analysis) narrowings(r *ref) []narrowing {
	if a.st.Settings.PadCharToFullLength || a.st.SetVar {
		return nil // CHAR compares with its trailing spaces
	}
	var out []narrowing
	add := func(x, y column) {
		if x.ref != r {
			x, y = y, x
		}
		if x.ref == r && y.ref != nil && y.ref != r && y.ref.table != nil && narrows(x.col) && narrows(y.col) && likeTypes(x.col, y.col) {
			out = append(out, narrowing{x.col, y, a.codecIn(r, x.col)})
		}
	}
	for _, c := range a.common(a.conditionsOf(r)) {
		if c.expr == nil {
			add(c.pair[0], c.pair[1])
			continue
		}
		switch e := c.expr.(type) {
		case *ast.BinaryOperationExpr:
			if x, y, ok := a.equated(e, c.scope); ok {
				add(x, y)
			}
		case *ast.PatternInExpr:
			x, okx := a.columnOf(e.Expr, c.scope)
			y, oky := a.selectedIn(e)
			if okx && oky && x.ref == r {
				add(x, y)
			}
		}
	}
	return out
}

type narrowing struct {
	col   *catalog.Column
	from  column
	codec *keys.Codec
}

// selectedIn is the column of `IN (SELECT column FROM table ...)`. Whatever else
// the subquery has, its rows have values of that column.
func (a *analysis) selectedIn(e *ast.PatternInExpr) (c column, ok bool) {
	sub, ok := e.Sel.(*ast.SubqueryExpr)
	if !ok || e.Not {
		return c, false
	}
	sel, ok := sub.Query.(*ast.SelectStmt)
	if !ok || sel.With != nil || sel.GroupBy != nil && sel.GroupBy.Rollup || sel.Fields == nil || len(sel.Fields.Fields) != 1 || sel.From == nil {
		return c, false
	}
	join := sel.From.TableRefs
	if join == nil || join.Right != nil {
		return c, false
	}
	source, ok := join.Left.(*ast.TableSource)
	if !ok {
		return c, false
	}
	name, ok := sel.Fields.Fields[0].Expr.(*ast.ColumnNameExpr)
	if !ok {
		return c, false
	}
	for r, t := range a.joined.nodes {
		if t != source.Source || r.table == nil {
			continue
		}
		c, ok := a.resolve(name.Name, r.scope)
		return c, ok && c.ref == r
	}
	return c, false
}

// narrows reports columns whose values a literal compares with as the column
// itself does.
func narrows(c *catalog.Column) bool {
	f, ok := plan.FormOf(c)
	return ok && (catalog.IsInteger(c.BaseType()) || f == plan.FormText || f == plan.FormEncoded)
}

// maxNarrowingText bounds what the keys add to a statement.
const maxNarrowingText = 256 << 10

// narrower is the Narrower of a Gather of these references.
type narrower struct {
	binder *binder
	refs   []*ref
}

// Narrow implements Narrower.
func (w *narrower) Narrow(g *plan.Gather, ref int, joins []plan.GatherJoin, values [][]string, ix plan.Indexes) (sel string, shards catalog.ShardSet, ok bool) {
	r := &g.Refs[ref]
	tree := []*cnode{w.refs[ref].tree}
	var text strings.Builder
	text.WriteString(r.Select)
	word := " WHERE ("
	if len(r.Filters) > 0 {
		word = " AND ("
	}
	for i, j := range joins {
		if len(values[i]) == 0 {
			return r.Select, shards, true
		}
		n, list := among(g, j, values[i])
		if n == nil {
			continue
		}
		text.WriteString(word + catalog.QuoteName(r.Alias) + "." + catalog.QuoteName(j.Column.Name) + " IN (" + list + "))")
		word = " AND ("
		tree, ok = append(tree, n), true
	}
	if !ok {
		return "", shards, false
	}
	shards = r.Shards
	if r.Table.Placement == catalog.Hash || r.Table.Placement == catalog.Anywhere {
		b := w.binder
		b.labels, b.ix = w.refs[ref].labels, ix
		b.atOnce(func() { shards = b.evalSeveral(r.Table, and(tree)).set.Intersect(r.Shards) })
	}
	return text.String(), shards, true
}

// among is the condition that a join's column is one of values, as a tree and as
// the list in the text; nil where that is too long.
func among(g *plan.Gather, j plan.GatherJoin, values []string) (n *cnode, sql string) {
	from := g.Refs[j.Ref].Columns[j.From]
	n = &cnode{op: opIn, col: j.Column, codec: j.Codec}
	var list strings.Builder
	for i, v := range values {
		var o text.Operand
		if catalog.IsInteger(from.BaseType()) {
			if k, err := strconv.ParseInt(v, 10, 64); err == nil {
				o = text.Number(keys.Int(k))
			} else if k, err := strconv.ParseUint(v, 10, 64); err == nil {
				o = text.Number(keys.Uint(k))
			} else {
				return nil, ""
			}
		} else {
			o = text.Operand{Kind: text.Literal, Value: keys.String([]byte(v), strings.ToLower(from.Charset)), Class: text.ClassString}
		}
		n.values = append(n.values, o)
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(o.Value.Literal())
		if list.Len() > maxNarrowingText {
			return nil, ""
		}
	}
	return n, list.String()
}

// joinsOf makes narrowings those of a Gather's references.
func joinsOf(refs []*ref, copies []plan.GatherRef, list []narrowing) []plan.GatherJoin {
	var out []plan.GatherJoin
	for _, n := range list {
		i := slices.Index(refs, n.from.ref)
		if i < 0 {
			continue
		}
		at := slices.IndexFunc(copies[i].Columns, func(c plan.GatherColumn) bool { return c.Column == n.from.col })
		if at >= 0 {
			out = append(out, plan.GatherJoin{Column: n.col, Ref: i, From: at, Codec: n.codec})
		}
	}
	return out
}
