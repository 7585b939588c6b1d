package planner

import (
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// aggregate is what of an aggregate function's parts can be put together. A new one is a MergeOp with
// its struct in proxy/merge, and a line in aggregateOf.
type aggregate struct {
	op plan.MergeOp
	// distinct: with DISTINCT, too. whole: it's a whole number, whatever its argument is.
	distinct, whole bool
	// cell says how; ok is false where that wouldn't be exact.
	cell func(b *mergeBuilder, fn *ast.AggregateFuncExpr, x part) (c plan.MergeCell, ok bool)
}

// part is an aggregate's call, the text between its parentheses, and where its value is.
type part struct {
	call   text.Span
	arg    text.Fragment
	column int
}

func aggregateOf(fn *ast.AggregateFuncExpr) (how aggregate, ok bool) {
	switch strings.ToLower(fn.F) {
	case "count":
		how = aggregate{op: plan.MergeCount, whole: true, distinct: true, cell: (*mergeBuilder).countCell}
	case "sum":
		how = aggregate{op: plan.MergeSum, cell: (*mergeBuilder).sumCell}
	case "avg":
		how = aggregate{op: plan.MergeAvg, cell: (*mergeBuilder).averageCell}
	case "bit_and":
		how = aggregate{op: plan.MergeAnd, whole: true, cell: (*mergeBuilder).bitsCell}
	case "bit_or":
		how = aggregate{op: plan.MergeOr, whole: true, cell: (*mergeBuilder).bitsCell}
	case "bit_xor":
		how = aggregate{op: plan.MergeXor, whole: true, cell: (*mergeBuilder).bitsCell}
	case "min":
		how = aggregate{op: plan.MergeMin, distinct: true, cell: (*mergeBuilder).extremeCell}
	case "max":
		how = aggregate{op: plan.MergeMax, distinct: true, cell: (*mergeBuilder).extremeCell}
	}
	return how, how.cell != nil
}

// cell puts an aggregate's parts together, where that is exact.
func (b *mergeBuilder) cell(fn *ast.AggregateFuncExpr, call text.Span, column int) bool {
	how, known := aggregateOf(fn)
	arg, ok := b.argument(fn, call)
	if !known || !ok || fn.Distinct && !how.distinct {
		return false
	}
	c, ok := how.cell(b, fn, part{call, arg, column})
	if !ok {
		return false
	}
	if c.Column = column; c.Op == 0 {
		c.Op = how.op
	}
	b.m.merge.Cells = append(b.m.merge.Cells, c)
	return true
}

func (b *mergeBuilder) countCell(fn *ast.AggregateFuncExpr, x part) (c plan.MergeCell, ok bool) {
	if fn.Distinct {
		c.Op = plan.MergeDistinct
		b.distincts = append(b.distincts, distinctCount{fn, x.call})
	}
	return c, true
}

// Rule exact sums: a sum of approximate numbers depends on the order in which they are added.
// Counter-example: SUM(f) of a FLOAT, 1e20 + 1 - 1e20.
func (b *mergeBuilder) sumCell(fn *ast.AggregateFuncExpr, _ part) (c plan.MergeCell, ok bool) {
	return c, b.exactAggregate(fn)
}

// Rule averages: the average of averages is none.
func (b *mergeBuilder) averageCell(fn *ast.AggregateFuncExpr, x part) (c plan.MergeCell, ok bool) {
	if !b.exactAggregate(fn) || b.hasParams(x.arg) {
		return c, false
	}
	hide := func(head string) int { return b.hide(text.Fragment{Text: head + "("}, x.arg, text.Fragment{Text: ")"}) }
	c.Sum, c.Count = hide("SUM"), hide("COUNT")
	return c, true
}

// Of binary strings they are binary strings.
func (b *mergeBuilder) bitsCell(fn *ast.AggregateFuncExpr, _ part) (c plan.MergeCell, ok bool) {
	n, ok := b.exact(fn.Args[0])
	return c, ok && n.scale == 0
}

func (b *mergeBuilder) extremeCell(fn *ast.AggregateFuncExpr, x part) (c plan.MergeCell, ok bool) {
	c.Key, ok = b.extreme(fn, x.call, x.column)
	return c, ok
}

// argument is the text between an aggregate's parentheses, without DISTINCT.
func (b *mergeBuilder) argument(fn *ast.AggregateFuncExpr, call text.Span) (text.Fragment, bool) {
	st := b.a.st
	if !st.Is(call.From, strings.ToLower(fn.F)) || st.Closes(call.From+1) != call.To-1 || call.To-call.From < 4 {
		return text.Fragment{}, false
	}
	arg := text.Span{From: call.From + 2, To: call.To - 1}
	if w := st.Word(arg.From); w == "distinct" || w == "all" || w == "distinctrow" {
		arg.From++
	}
	if arg.Empty() {
		return text.Fragment{}, false
	}
	return st.CopyOf(arg), true
}

// extreme is what MIN and MAX compare by. text is the aggregate's, and column
// where its value is.
//
// Counter-example: MAX(IF(n, name, _latin1'x')), where the introducer brings a
// collation along.
func (b *mergeBuilder) extreme(fn *ast.AggregateFuncExpr, at text.Span, column int) (plan.MergeKey, bool) {
	call := b.a.st.CopyOf(at)
	if len(fn.Args) != 1 || b.hasParams(call) {
		return plan.MergeKey{}, false
	}
	wrapped := func(head, tail string) int { return b.hide(text.Fragment{Text: head}, call, text.Fragment{Text: tail}) }
	c, ok := b.a.columnOf(fn.Args[0], b.scope)
	if !ok {
		if _, exact := b.exact(fn.Args[0]); exact {
			return plan.MergeKey{Value: column}, true
		}
		src, ok := b.fromExpr(fn.Args[0], text.Span{From: at.From + 2, To: at.To - 1}, false)
		if !ok || src.col != nil || src.aggregate != nil {
			return plan.MergeKey{}, false
		}
		if numericExpr(fn.Args[0]) {
			return plan.MergeKey{Value: column}, true
		}
		return plan.MergeKey{
			Value: column, Weight: wrapped("WEIGHT_STRING(", ")"),
			Pad: b.hide(padWeight("", call, "")...),
		}, true
	}
	switch base := c.col.BaseType(); base {
	case "decimal", "numeric", "year", "date", "datetime", "time":
		return plan.MergeKey{Value: column}, true
	case "float", "double":
		return plan.MergeKey{Value: wrapped("CAST(", " AS DOUBLE)")}, true
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		k, ok := b.textKey(c.col, call)
		return k, ok
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return plan.MergeKey{Value: column}, true
	default:
		// ENUM and SET compare as texts here, TIMESTAMP by its moment or by what
		// it shows: servers differ.
		return plan.MergeKey{Value: column}, catalog.IsInteger(base)
	}
}

// distinctCount is a COUNT(DISTINCT ..) of the select list.
type distinctCount struct {
	fn   *ast.AggregateFuncExpr
	call text.Span
}

// distinctKey makes the keys by which groups become finer, so that each shard
// row has one value of what is counted, and equal values meet.
//
// Rule one distinct: all counts are of the same expressions. Counter-example:
// COUNT(DISTINCT a), COUNT(DISTINCT b): rows sorted by a and b hold equal b far
// apart.
func (b *mergeBuilder) distinctKey() (out []groupKey, ok bool) {
	st := b.a.st
	for n, d := range b.distincts {
		inner := text.Span{From: d.call.From + 3, To: d.call.To - 1}
		if !st.Is(d.call.From+2, "distinct") || inner.Empty() {
			return nil, false
		}
		parts, ok := st.List(inner)
		if !ok || len(parts) != len(d.fn.Args) {
			return nil, false
		}
		var keys []groupKey
		for i, arg := range d.fn.Args {
			if n > 0 {
				src, ok := b.fromExpr(arg, parts[i], false)
				if !ok || len(parts) != len(out) || !b.same(src, out[i].src) {
					return nil, false
				}
				continue
			}
			src, ok := b.fromExpr(arg, parts[i], false)
			if !ok || src.constant || src.aggregate != nil || b.hasParams(src.text) {
				return nil, false
			}
			if src.col == nil && b.sel.GroupBy == nil && !numericExpr(arg) {
				return nil, false
			}
			k, ok := b.key(src)
			if !ok {
				return nil, false
			}
			keys = append(keys, groupKey{src, k})
		}
		if n == 0 {
			out = keys
		}
	}
	return out, true
}

// exactAggregate: an aggregate that is an exact number, put together exactly.
func (b *mergeBuilder) exactAggregate(fn *ast.AggregateFuncExpr) bool {
	how, known := aggregateOf(fn)
	if !known || how.whole || len(fn.Args) != 1 {
		return how.whole
	}
	n, ok := b.exact(fn.Args[0])
	return ok && n.scale <= 30 && n.precision <= 65
}

// numericAggregate: an aggregate that is a number which sorts by what it shows.
func (b *mergeBuilder) numericAggregate(s keySource) bool {
	if strings.EqualFold(s.aggregate.F, "count") {
		return true
	}
	// An average is sorted by more digits than it shows.
	return !strings.EqualFold(s.aggregate.F, "avg") && b.exactAggregate(s.aggregate)
}

// exactNumber is the declared size of an exact number.
type exactNumber struct{ precision, scale int }

// exact: an expression that is an exact number of at most 65 digits, whose value
// has no more digits than it shows.
//
// Rule no division: a / b is computed to more digits than it shows, and these
// count in a sum. Counter-example: SUM(a / 3).
func (b *mergeBuilder) exact(e ast.ExprNode) (n exactNumber, ok bool) {
	n, ok = b.exactOf(e, 0)
	return n, ok && n.precision <= 65 && n.scale <= 30
}

func (b *mergeBuilder) exactOf(e ast.ExprNode, depth int) (n exactNumber, ok bool) {
	if depth > 100 {
		return n, false
	}
	widest := func(list ...ast.ExprNode) (n exactNumber, ok bool) {
		whole := 0
		for _, x := range list {
			if v, isValue := x.(*driver.ValueExpr); isValue && v.GetValue() == nil {
				continue // NULL
			}
			m, ok := b.exactOf(x, depth+1)
			if !ok {
				return n, false
			}
			n.scale, whole = max(n.scale, m.scale), max(whole, m.precision-m.scale)
		}
		n.precision = whole + n.scale
		return n, true
	}
	switch x := unwrap(e).(type) {
	case *ast.ColumnNameExpr:
		c, ok := b.a.resolve(x.Name, b.scope)
		if !ok {
			return n, false
		}
		return exactColumn(c.col)
	case *driver.ValueExpr:
		o := evalExpr(b.a.st, x)
		if o.Kind != text.Literal || o.Class != text.ClassNumber {
			return n, false
		}
		text := strings.TrimPrefix(o.Value.Literal(), "-")
		if strings.ContainsAny(text, "eE'") {
			return n, false
		}
		whole, fraction, _ := strings.Cut(text, ".")
		return exactNumber{len(whole) + len(fraction), len(fraction)}, true
	case *ast.UnaryOperationExpr:
		if x.Op == opcode.Minus || x.Op == opcode.Plus {
			return b.exactOf(x.V, depth+1)
		}
		return exactNumber{1, 0}, x.Op == opcode.Not || x.Op == opcode.Not2
	case *ast.BinaryOperationExpr:
		switch x.Op {
		case opcode.Plus, opcode.Minus:
			n, ok := widest(x.L, x.R)
			n.precision++
			return n, ok
		case opcode.Mul:
			l, ok := b.exactOf(x.L, depth+1)
			if !ok {
				return n, false
			}
			r, ok := b.exactOf(x.R, depth+1)
			return exactNumber{l.precision + r.precision, l.scale + r.scale}, ok
		case opcode.EQ, opcode.NE, opcode.LT, opcode.LE, opcode.GT, opcode.GE, opcode.LogicAnd, opcode.LogicOr, opcode.LogicXor, opcode.NullEQ:
			return exactNumber{1, 0}, true
		}
	case *ast.IsNullExpr, *ast.IsTruthExpr, *ast.BetweenExpr, *ast.PatternInExpr, *ast.PatternLikeOrIlikeExpr:
		return exactNumber{1, 0}, true
	case *ast.CaseExpr:
		var list []ast.ExprNode
		for _, w := range x.WhenClauses {
			list = append(list, w.Result)
		}
		if x.ElseClause != nil {
			list = append(list, x.ElseClause)
		}
		return widest(list...)
	case *ast.FuncCallExpr:
		switch x.FnName.L {
		case "if":
			if len(x.Args) == 3 {
				return widest(x.Args[1:]...)
			}
		case "ifnull", "coalesce":
			return widest(x.Args...)
		case "abs":
			return widest(x.Args...)
		case "length", "char_length", "character_length", "year", "month", "day", "hour", "minute", "second", "isnull":
			return exactNumber{10, 0}, true
		}
	}
	return n, false
}

// exactColumn is the size of a column of exact numbers.
func exactColumn(c *catalog.Column) (exactNumber, bool) {
	switch base := c.BaseType(); base {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
		return exactNumber{20, 0}, true
	case "year":
		return exactNumber{4, 0}, true
	case "decimal", "numeric":
		n := exactNumber{10, 0}
		if open, end := strings.IndexByte(c.Type, '('), strings.IndexByte(c.Type, ')'); open >= 0 && end > open {
			p, s, _ := strings.Cut(c.Type[open+1:end], ",")
			var err error
			if n.precision, err = strconv.Atoi(strings.TrimSpace(p)); err != nil {
				return n, false
			}
			if s != "" {
				if n.scale, err = strconv.Atoi(strings.TrimSpace(s)); err != nil {
					return n, false
				}
			}
		}
		return n, true
	}
	return exactNumber{}, false
}
