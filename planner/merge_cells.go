package planner

import (
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// cell puts an aggregate's parts together, where that is exact.
func (b *mergeBuilder) cell(fn *ast.AggregateFuncExpr, call span, column int) bool {
	arg, ok := b.argument(fn, call)
	if !ok {
		return false
	}
	c := MergeCell{Column: column}
	name := strings.ToLower(fn.F)
	if fn.Distinct && name != "count" && name != "min" && name != "max" {
		return false
	}
	hide := func(head string) int { return b.hide(frag{text: head + "("}, arg, frag{text: ")"}) }
	switch name {
	case "count":
		c.Op = MergeCount
		if fn.Distinct {
			c.Op = MergeDistinct
			b.distincts = append(b.distincts, distinctCount{fn, call})
		}
	case "sum", "avg":
		// Rule exact sums: a sum of approximate numbers depends on the order in
		// which they are added. Counter-example: SUM(f) of a FLOAT, 1e20 + 1 - 1e20.
		if !b.exactAggregate(fn) {
			return false
		}
		c.Op = MergeSum
		if name == "avg" {
			// Rule averages: the average of averages is none.
			if b.hasParams(arg) {
				return false
			}
			c.Op, c.Sum, c.Count = MergeAvg, hide("SUM"), hide("COUNT")
		}
	case "bit_and", "bit_or", "bit_xor":
		if n, ok := b.exact(fn.Args[0]); !ok || n.scale > 0 {
			return false // of binary strings they are binary strings
		}
		c.Op = map[string]MergeOp{"bit_and": MergeAnd, "bit_or": MergeOr, "bit_xor": MergeXor}[name]
	case "min", "max":
		c.Op = MergeMin
		if name == "max" {
			c.Op = MergeMax
		}
		if c.Key, ok = b.extreme(fn, call, column); !ok {
			return false
		}
	default:
		return false
	}
	b.m.merge.Cells = append(b.m.merge.Cells, c)
	return true
}

// argument is the text between an aggregate's parentheses, without DISTINCT.
func (b *mergeBuilder) argument(fn *ast.AggregateFuncExpr, call span) (frag, bool) {
	st := b.a.st
	if !st.is(call.from, strings.ToLower(fn.F)) || st.closes(call.from+1) != call.to-1 || call.to-call.from < 4 {
		return frag{}, false
	}
	arg := span{call.from + 2, call.to - 1}
	if w := st.word(arg.from); w == "distinct" || w == "all" || w == "distinctrow" {
		arg.from++
	}
	if arg.empty() {
		return frag{}, false
	}
	return st.copyOf(arg), true
}

// extreme is what MIN and MAX compare by. text is the aggregate's, and column
// where its value is.
//
// Counter-example: MAX(IF(n, name, _latin1'x')), where the introducer brings a
// collation along.
func (b *mergeBuilder) extreme(fn *ast.AggregateFuncExpr, text span, column int) (MergeKey, bool) {
	call := b.a.st.copyOf(text)
	if len(fn.Args) != 1 || b.hasParams(call) {
		return MergeKey{}, false
	}
	wrapped := func(head, tail string) int { return b.hide(frag{text: head}, call, frag{text: tail}) }
	c, ok := b.a.columnOf(fn.Args[0], b.scope)
	if !ok {
		if _, exact := b.exact(fn.Args[0]); exact {
			return MergeKey{Value: column}, true
		}
		src, ok := b.fromExpr(fn.Args[0], span{text.from + 2, text.to - 1}, false)
		if !ok || src.col != nil || src.aggregate != nil {
			return MergeKey{}, false
		}
		if numericExpr(fn.Args[0]) {
			return MergeKey{Value: column}, true
		}
		return MergeKey{
			Value: column, Weight: wrapped("WEIGHT_STRING(", ")"),
			Pad: b.hide(frag{text: "IF(LEFT("}, call, frag{text: ",0)=' ',WEIGHT_STRING(CONCAT(LEFT("}, call, frag{text: ",0),' ')),X'')"}),
		}, true
	}
	switch base := baseType(c.col.Type); base {
	case "decimal", "numeric", "year", "date", "datetime", "time":
		return MergeKey{Value: column}, true
	case "float", "double":
		return MergeKey{Value: wrapped("CAST(", " AS DOUBLE)")}, true
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		k, ok := b.textKey(c.col, call)
		return k, ok
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return MergeKey{Value: column}, true
	default:
		// ENUM and SET compare as texts here, TIMESTAMP by its moment or by what
		// it shows: servers differ.
		return MergeKey{Value: column}, isInteger(base)
	}
}

// distinctCount is a COUNT(DISTINCT ..) of the select list.
type distinctCount struct {
	fn   *ast.AggregateFuncExpr
	call span
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
		inner := span{d.call.from + 3, d.call.to - 1}
		if !st.is(d.call.from+2, "distinct") || inner.empty() {
			return nil, false
		}
		parts, ok := st.list(inner)
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
	switch strings.ToLower(fn.F) {
	case "count", "bit_and", "bit_or", "bit_xor":
		return true
	case "sum", "avg", "min", "max":
		if len(fn.Args) != 1 {
			return false
		}
		n, ok := b.exact(fn.Args[0])
		return ok && n.scale <= 30 && n.precision <= 65
	}
	return false
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
		o := b.a.st.evalExpr(x)
		if o.kind != literal || o.class != classNumber {
			return n, false
		}
		text := strings.TrimPrefix(o.value.Literal(), "-")
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
	switch base := baseType(c.Type); base {
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
