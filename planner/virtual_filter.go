package planner

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// filter reads a condition that a row's values decide by their keys: equality with values, or NULL. ok is false for others, and
// in any doubt.
func (d *virtualDefinition) filter(e ast.ExprNode) (f catalog.ChildFilter, ok bool) {
	switch e := unwrap(e).(type) {
	case *ast.ColumnNameExpr:
		return d.truth(e, true)
	case *ast.UnaryOperationExpr:
		if e.Op == opcode.Not || e.Op == opcode.Not2 {
			return d.truth(e.V, false)
		}
	case *ast.IsNullExpr:
		// Of a NOT NULL date IS NULL is true where it is '0000-00-00'.
		if c := d.childColumn(e.Expr); c != nil && (c.Nullable || e.Not) {
			return catalog.ChildFilter{Column: c.Name, Type: c.Type, Collation: c.Collation, Null: true, Not: e.Not}, true
		}
	case *ast.BinaryOperationExpr:
		if e.Op != opcode.EQ && e.Op != opcode.NE {
			return f, false
		}
		if d.childColumn(e.L) != nil {
			return d.compared(e.L, e.Op == opcode.NE, e.R)
		}
		return d.compared(e.R, e.Op == opcode.NE, e.L)
	case *ast.PatternInExpr:
		if e.Sel == nil && len(e.List) <= maxValues {
			return d.compared(e.Expr, e.Not, e.List...)
		}
	}
	return f, false
}

// childColumn is the child's column that an expression is, nil for others.
func (d *virtualDefinition) childColumn(e ast.ExprNode) *catalog.Column {
	x, ok := unwrap(e).(*ast.ColumnNameExpr)
	if !ok {
		return nil
	}
	if child, c := d.column(x.Name); child {
		return c
	}
	return nil
}

func (d *virtualDefinition) compared(column ast.ExprNode, not bool, with ...ast.ExprNode) (f catalog.ChildFilter, ok bool) {
	var values []text.Operand
	for _, x := range with {
		values = append(values, evalExpr(d.st, x))
	}
	return d.equals(column, not, values)
}

// truth is an integer as a truth value, or its opposite.
func (d *virtualDefinition) truth(column ast.ExprNode, is bool) (f catalog.ChildFilter, ok bool) {
	if c := d.childColumn(column); c == nil || !catalog.IsInteger(c.BaseType()) {
		return f, false
	}
	return d.equals(column, is, []text.Operand{text.Number(keys.Int(0))})
}

// equals is a column that equals one of some values, or none of them and isn't NULL.
func (d *virtualDefinition) equals(column ast.ExprNode, not bool, values []text.Operand) (f catalog.ChildFilter, ok bool) {
	c := d.childColumn(column)
	if c == nil || c.BaseType() == "timestamp" { // which is compared in the session's time zone
		return f, false
	}
	codec, err := plan.CodecOf(d.cat, c)
	if err != nil {
		return f, false
	}
	f = catalog.ChildFilter{Column: c.Name, Type: c.Type, Collation: c.Collation, Not: not}
	var class text.Class
	for _, o := range values {
		if o.Kind != text.Literal || o.IsNull() || !joinClass(&class, o.Class) || len(values) > 1 && o.Class == text.ClassString && c.Charset == "" && longText(o.Value) {
			return f, false
		}
		key, ok := codec.Equal(nil, o.Value)
		if !ok {
			return f, false
		}
		f.Keys = append(f.Keys, string(key))
	}
	return f, true
}
