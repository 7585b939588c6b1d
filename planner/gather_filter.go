package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// maxFilters bounds the conjuncts of one reference that are looked at: each is
// parsed again.
const maxFilters = 64

// conditionsOf are the conjuncts that each row of r satisfies which is in a row of the
// answer.
//
// Rule every row: WHERE counts only where r isn't filled with NULLs, and ON as
// joined.filter says. Counter-example: u LEFT JOIN o ON o.user_id = u.id WHERE
// o.id IS NULL asks for users without orders; filtered, o is empty and all users
// have none.
func (a *analysis) conditionsOf(r *ref) []cond {
	if r.nullable {
		return a.joined.on[r]
	}
	return append(slices.Clip(a.joined.on[r]), r.scope.where...)
}

// filters are those of the conditions that may be asked of r's rows alone when they are
// copied, in the client's own words.
func (a *analysis) filters(r *ref) []plan.Filter {
	if a.st.SetVar {
		return nil // an optimizer hint may give the query another SQL mode
	}
	var out []plan.Filter
	tries := 0
	for _, c := range a.conditionsOf(r) {
		if c.expr == nil {
			continue
		}
		if f, ok := a.filter(r, c, &tries); ok {
			out = append(out, f)
		}
	}
	return out
}

// filter is what a condition says of r's rows alone. A chain of ORs says what
// each of its parts says, where each says something: of part
//
//	p.size = 1 AND l.mode = 'AIR' OR p.size = 2 AND l.mode = 'SHIP'
//
// says (p.size = 1) OR (p.size = 2). Where one part says nothing of r, as in
// p.size = 1 OR l.mode = 'SHIP', any row may count.
func (a *analysis) filter(r *ref, c cond, tries *int) (f plan.Filter, ok bool) {
	if a.ownRows(r, c) {
		if *tries++; *tries > maxFilters {
			return f, false
		}
		return a.textOf(c.expr)
	}
	parts := chain(c.expr, opcode.LogicOr)
	if len(parts) == 1 {
		return f, false
	}
	for i, part := range parts {
		said := 0
		for _, x := range chain(part, opcode.LogicAnd) {
			own := cond{expr: x, scope: c.scope}
			if !a.ownRows(r, own) {
				continue
			}
			if *tries++; *tries > maxFilters {
				return f, false
			}
			one, ok := a.textOf(x)
			if !ok {
				continue
			}
			switch {
			case said > 0:
				f.Text += " AND "
			case i > 0:
				f.Text += " OR "
			}
			f.Text += "(" + one.Text + ")"
			f.Params = append(f.Params, one.Params...)
			said++
		}
		if said == 0 {
			return plan.Filter{}, false
		}
	}
	return f, true
}

// common are the equalities of columns that a chain of ORs says in each part,
// besides the conditions themselves.
func (a *analysis) common(conds []cond) []cond {
	out := slices.Clip(conds)
	for _, c := range conds {
		if c.expr == nil {
			continue
		}
		parts := chain(c.expr, opcode.LogicOr)
		if len(parts) == 1 {
			continue
		}
		for _, e := range chain(parts[0], opcode.LogicAnd) {
			x, y, ok := a.equated(e, c.scope)
			if !ok || x.ref == y.ref {
				continue
			}
			everywhere := true
			for _, part := range parts[1:] {
				everywhere = everywhere && slices.ContainsFunc(chain(part, opcode.LogicAnd), func(e ast.ExprNode) bool {
					u, v, ok := a.equated(e, c.scope)
					return ok && (u == x && v == y || u == y && v == x)
				})
			}
			if everywhere {
				out = append(out, cond{pair: [2]column{x, y}, scope: c.scope})
			}
		}
	}
	return out
}

// equated are the columns of `a.x = b.y`.
func (a *analysis) equated(e ast.ExprNode, s *scope) (x, y column, ok bool) {
	b, isBinary := unwrap(e).(*ast.BinaryOperationExpr)
	if !isBinary || b.Op != opcode.EQ {
		return x, y, false
	}
	x, okx := a.columnOf(b.L, s)
	y, oky := a.columnOf(b.R, s)
	return x, y, okx && oky
}

// ownRows reports a condition that depends on nothing but a row of r, and that
// no value makes fail: only functions and operators that are known to.
//
// Counter-example: WHERE u.ok AND u.spent - u.got > 0, for unsigned columns, is
// an error for a row that u.ok would have kept from it.
func (a *analysis) ownRows(r *ref, c cond) bool {
	ok, column := true, false
	walk(c.expr, func(n ast.Node) bool {
		if x, is := n.(*ast.ColumnNameExpr); is {
			col, found := a.resolve(x.Name, c.scope)
			ok, column = ok && found && col.ref == r, true
			return false
		}
		ok = ok && neverFails(n)
		return ok
	})
	return ok && column
}

// neverFails knows operators and functions that no value makes fail, by themselves.
func neverFails(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryOperationExpr:
		switch n.Op {
		case opcode.LogicAnd, opcode.LogicOr, opcode.LogicXor, opcode.EQ, opcode.NE, opcode.LT, opcode.LE, opcode.GT, opcode.GE, opcode.NullEQ:
			return true
		}
	case *ast.UnaryOperationExpr:
		switch n.Op {
		case opcode.Not, opcode.Not2:
			return true
		case opcode.Minus, opcode.Plus:
			_, literal := unwrap(n.V).(*driver.ValueExpr)
			return literal
		}
	case *ast.PatternInExpr:
		return n.Sel == nil
	case *ast.PatternLikeOrIlikeExpr:
		return n.IsLike
	case *ast.FuncCallExpr:
		return n.Schema.O == "" && harmless(n.FnName.L)
	case *driver.ValueExpr, *driver.ParamMarkerExpr, *ast.ParenthesesExpr, *ast.BetweenExpr, *ast.IsNullExpr, *ast.IsTruthExpr,
		*ast.RowExpr, *ast.CaseExpr, *ast.WhenClause, *ast.SetCollationExpr, *ast.TimeUnitExpr:
		return true
	}
	return false
}

// harmless knows functions that are the same for the same row on every shard
// and that answer NULL, or warn, where others fail.
func harmless(name string) bool {
	switch name {
	case "lower", "lcase", "upper", "ucase", "trim", "ltrim", "rtrim", "length", "octet_length", "char_length", "character_length",
		"concat", "concat_ws", "left", "right", "substr", "substring", "mid", "reverse", "locate", "instr", "field", "find_in_set",
		"coalesce", "ifnull", "nullif", "if", "isnull", "greatest", "least",
		"date", "year", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "hour", "minute", "second", "quarter",
		ast.DateLiteral, ast.TimeLiteral, ast.TimestampLiteral, "extract", "to_days", "date_add", "date_sub", "adddate", "subdate", "date_format", "last_day", "datediff", "hex", "ascii", "bit_count":
		return true
	}
	return false
}

// textOf finds the text of a condition. Expressions know where they begin, not
// where they end: the ends that are possible are tried until the text means the
// same to the parser.
func (a *analysis) textOf(e ast.ExprNode) (f plan.Filter, ok bool) {
	st := a.st
	first := st.TokenAt(e.OriginTextPosition())
	want, okWant := restored(e)
	if first < 0 || !okWant || len(st.Long()) > 0 {
		return f, false
	}
	blank := st.Blanked()
	b, binary := e.(*ast.BinaryOperationExpr)
	part := !binary || b.Op != opcode.LogicOr && b.Op != opcode.LogicXor // it ends where an OR begins
	depth, tries := 0, 0
	for i := first; ; i++ {
		end := i == len(st.Tokens)
		if !end && depth == 0 {
			end = st.Op(i, ")") || st.Op(i, ",") || st.Op(i, "&&") || st.Op(i, ";") || endsCondition(st.Word(i)) && !st.Op(i-1, ".") ||
				part && (st.Is(i, "or") || st.Is(i, "xor") || st.Op(i, "||"))
		}
		if end && i > first {
			if tries++; tries > 8 {
				return f, false
			}
			sql := strings.TrimSpace(blank[st.Tokens[first].Start:st.Tokens[i-1].End])
			if a.means(sql, want) {
				f.Text = sql
				for _, t := range st.Tokens[first:i] {
					if t.Kind == text.Param {
						f.Params = append(f.Params, st.ParamAt(int(t.Start)))
					}
				}
				return f, true
			}
		}
		switch {
		case i == len(st.Tokens):
			return f, false
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			if depth--; depth < 0 {
				return f, false
			}
		}
	}
}

// means reports whether a text is an expression that restores to want.
func (a *analysis) means(text, want string) bool {
	n, err := (&parserPool{}).parse("SELECT 1 FROM t WHERE "+text, a.st.Settings, a.cat.MariaDB)
	if err != nil {
		return false
	}
	sel, ok := n.(*ast.SelectStmt)
	if !ok || sel.Where == nil || sel.GroupBy != nil || sel.Having != nil || sel.OrderBy != nil || sel.Limit != nil || len(sel.WindowSpecs) > 0 || sel.LockInfo != nil {
		return false
	}
	got, ok := restored(sel.Where)
	return ok && got == want
}

// endsCondition knows the words that may stand behind a conjunct.
func endsCondition(w string) bool {
	switch w {
	case "and", "group", "having", "order", "limit", "window", "union", "except", "intersect", "minus", "for", "lock", "into", "procedure", "offset", "fetch",
		"where", "on", "using", "join", "inner", "cross", "left", "right", "natural", "straight_join":
		return true
	}
	return false
}
