package planner

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/text"
)

// evalExpr is text.Evaluate for a parsed expression. The literal's text is read
// from the statement itself, at the offset that the parser gives, since the
// parser's value has lost the introducer and a decimal's exact text; it must
// agree with the parser's value, or Shunt doubts.
func evalExpr(st *text.Statement, e ast.ExprNode) text.Operand {
	for {
		p, ok := e.(*ast.ParenthesesExpr)
		if !ok {
			break
		}
		e = p.Expr
	}
	switch e := e.(type) {
	case *driver.ParamMarkerExpr:
		if n := st.ParamAt(e.Offset); n >= 0 {
			return st.Parameter(n)
		}
	case *ast.DefaultExpr:
		if e.Name == nil {
			return text.Operand{Kind: text.Default}
		}
	case *driver.ValueExpr:
		return evalLiteral(st, e)
	case *ast.UnaryOperationExpr:
		v, ok := e.V.(*driver.ValueExpr)
		if !ok || e.Op != opcode.Minus && e.Op != opcode.Plus {
			return text.Operand{}
		}
		i := st.TokenAt(v.OriginTextPosition())
		if i < 0 || evalLiteral(st, v).Class != text.ClassNumber || st.Tokens[i].Kind == text.Word {
			return text.Operand{}
		}
		return st.NumberOf(st.Tokens[i], e.Op == opcode.Minus)
	case *ast.FuncCallExpr:
		switch e.FnName.L {
		case ast.DateLiteral, ast.TimestampLiteral, ast.TimeLiteral:
			if i := st.TokenAt(e.OriginTextPosition()); i >= 0 && i+2 <= len(st.Tokens) {
				if o := st.Evaluate(st.Tokens[i : i+2]); o.Class == text.ClassTemporal {
					return o
				}
			}
		}
	}
	return text.Operand{}
}

func evalLiteral(st *text.Statement, e *driver.ValueExpr) text.Operand {
	i := st.TokenAt(e.OriginTextPosition())
	if i < 0 {
		return text.Operand{}
	}
	j := i + 1
	if st.Tokens[i].Kind == text.Introducer && j < len(st.Tokens) {
		j++
	}
	if st.Tokens[j-1].Kind == text.String {
		for j < len(st.Tokens) && st.Tokens[j].Kind == text.String {
			j++
		}
	}
	o := st.Evaluate(st.Tokens[i:j])
	agree := false
	switch e.Kind() {
	case driver.KindNull:
		agree = o.IsNull()
	case driver.KindInt64, driver.KindUint64, driver.KindMysqlDecimal, driver.KindFloat64:
		agree = o.Kind == text.Literal && o.Class == text.ClassNumber
	case driver.KindString:
		agree = o.Kind == text.Literal && (o.Class == text.ClassString || o.Class == text.ClassBinary) && string(st.Bytes(i, j)) == e.GetString()
	case driver.KindBinaryLiteral:
		agree = o.Kind == text.Literal && (o.Class == text.ClassBinary || o.Class == text.ClassString)
	}
	if !agree {
		return text.Operand{}
	}
	return o
}
