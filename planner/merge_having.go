package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// having says what becomes of HAVING. Where it speaks of nothing but the groups'
// keys the shards answer it as it is, else it is evaluated here (later).
func (b *mergeBuilder) having(groups []groupKey) (later, ok bool) {
	if b.sel.Having == nil {
		return false, true
	}
	other := func(n ast.Node) bool { return b.besidesKeys(n, groups) }
	if len(groups) > 0 && !finds(b.sel.Having.Expr, other) {
		return false, true
	}
	c, ok := b.condition(b.sel.Having.Expr)
	if !ok {
		return false, false
	}
	b.m.merge.Having = c
	from, to := b.a.st.Offsets(b.c.having)
	b.edits = append(b.edits, text.Edit{From: from, To: to})
	return true, true
}

// besidesKeys reports what asks for anything but the groups' key columns.
func (b *mergeBuilder) besidesKeys(n ast.Node, groups []groupKey) bool {
	switch n := n.(type) {
	case *ast.ColumnNameExpr:
		c, ok := b.a.resolve(n.Name, b.scope)
		if !ok || n.Name.Table.O == "" && b.aliasHides(n.Name.Name.L, c) {
			return true
		}
		// Rule one value: of equal texts ('a', 'A') a shard may look at
		// another one than the next.
		return !slices.ContainsFunc(groups, func(g groupKey) bool {
			return g.src.col == c.col && g.src.ref == c.ref && g.key.Weight == 0
		})
	case *ast.AggregateFuncExpr, *ast.WindowFuncExpr, *ast.SubqueryExpr, *ast.VariableExpr, *ast.PositionExpr:
		return true
	case *ast.FuncCallExpr:
		return spoken.VolatileFunction(n.FnName.L) || aggregateName(n.FnName.L)
	}
	return false
}

// condition is a HAVING of comparisons of exact aggregates with numbers.
func (b *mergeBuilder) condition(e ast.ExprNode) (*plan.MergeCondition, bool) {
	switch x := unwrap(e).(type) {
	case *ast.UnaryOperationExpr:
		if x.Op != opcode.Not && x.Op != opcode.Not2 {
			return nil, false
		}
		k, ok := b.condition(x.V)
		return &plan.MergeCondition{Op: "NOT", Kids: []*plan.MergeCondition{k}}, ok
	case *ast.BetweenExpr:
		if x.Not {
			return nil, false
		}
		lo, ok := b.comparison(opcode.GE, x.Expr, x.Left)
		if !ok {
			return nil, false
		}
		hi, ok := b.comparison(opcode.LE, x.Expr, x.Right)
		return &plan.MergeCondition{Op: "AND", Kids: []*plan.MergeCondition{lo, hi}}, ok
	case *ast.BinaryOperationExpr:
		if x.Op == opcode.LogicAnd || x.Op == opcode.LogicOr {
			l, ok := b.condition(x.L)
			if !ok {
				return nil, false
			}
			r, ok := b.condition(x.R)
			return &plan.MergeCondition{Op: map[opcode.Op]string{opcode.LogicAnd: "AND", opcode.LogicOr: "OR"}[x.Op], Kids: []*plan.MergeCondition{l, r}}, ok
		}
		if c, ok := b.comparison(x.Op, x.L, x.R); ok {
			return c, true
		}
		swapped := map[opcode.Op]opcode.Op{opcode.EQ: opcode.EQ, opcode.NE: opcode.NE, opcode.LT: opcode.GT, opcode.LE: opcode.GE, opcode.GT: opcode.LT, opcode.GE: opcode.LE}
		if op, ok := swapped[x.Op]; ok {
			return b.comparison(op, x.R, x.L)
		}
	}
	return nil, false
}

var comparisonText = map[opcode.Op]string{opcode.EQ: "=", opcode.NE: "<>", opcode.LT: "<", opcode.LE: "<=", opcode.GT: ">", opcode.GE: ">="}

// comparison is `aggregate op number`. AVG isn't compared: its value has more
// digits than it shows.
func (b *mergeBuilder) comparison(op opcode.Op, l, r ast.ExprNode) (*plan.MergeCondition, bool) {
	sql, ok := comparisonText[op]
	if !ok {
		return nil, false
	}
	o := evalExpr(b.a.st, r)
	if o.Kind != text.Placeholder && (o.Kind != text.Literal || o.Class != text.ClassNumber) {
		return nil, false
	}
	src := keySource{item: -1}
	switch x := unwrap(l).(type) {
	case *ast.ColumnNameExpr:
		i, one, found := b.itemNamed(x.Name.Name.L)
		if _, isColumn := b.a.resolve(x.Name, b.scope); !found || !one || isColumn || x.Name.Table.O != "" {
			return nil, false
		}
		if src, ok = b.fromItem(i); !ok {
			return nil, false
		}
	case *ast.AggregateFuncExpr:
		at := b.a.st.TokenAt(x.OriginTextPosition())
		if at < 0 {
			return nil, false
		}
		end := b.a.st.Closes(at + 1)
		if end < 0 {
			return nil, false
		}
		s := text.Span{From: at, To: end + 1}
		src.text, src.span, src.aggregate = b.a.st.CopyOf(s), s, x
	}
	if src.aggregate == nil || strings.EqualFold(src.aggregate.F, "avg") || !b.exactAggregate(src.aggregate) {
		return nil, false
	}
	c := b.cellOf(src)
	if c == nil {
		return nil, false
	}
	return &plan.MergeCondition{Op: sql, Column: c.Column, Operand: &o}, true
}

// eachComparison visits the comparisons.
func eachComparison(c *plan.MergeCondition, visit func(*plan.MergeCondition)) {
	if c == nil {
		return
	}
	if len(c.Kids) == 0 {
		visit(c)
	}
	for _, k := range c.Kids {
		eachComparison(k, visit)
	}
}

// bindCondition gives the comparisons their values. ok is false where one is no exact
// number.
func bindCondition(c *plan.MergeCondition, b *binder) (out *plan.MergeCondition, ok bool) {
	if c == nil {
		return nil, true
	}
	out = &plan.MergeCondition{Op: c.Op, Column: c.Column}
	for _, k := range c.Kids {
		kid, ok := bindCondition(k, b)
		if !ok {
			return nil, false
		}
		out.Kids = append(out.Kids, kid)
	}
	if c.Operand != nil {
		v, class, ok := c.Operand.Resolve(b.params)
		if !ok || class != text.ClassNumber {
			return nil, false
		}
		out.Value = v.Literal()
		if strings.ContainsAny(out.Value, "eE'") {
			return nil, false // approximate
		}
	}
	return out, true
}
