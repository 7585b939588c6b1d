package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// assignment is one col = value.
type assignment struct {
	col   *catalog.Column
	value text.Operand
	// inserted: VALUES(c) or new.c, the value of that column in the new row.
	inserted *catalog.Column
	// self: col = col
	self bool
}

// assignments resolves what ON DUPLICATE KEY UPDATE assigns in target.
func (a *analysis) assignments(n *ast.InsertStmt, target *ref, alias *rowAlias) ([]assignment, *text.Error) {
	var out []assignment
	clips := n.IgnoreErr || !a.st.Settings.Strict
	for _, x := range n.OnDuplicate {
		c := target.column(x.Column.Name.L)
		if c == nil {
			return nil, target.noColumn(x.Column.Name)
		}
		out = append(out, a.assignment(c, lastInserted(c, x.Expr, clips), target, alias))
	}
	return out, nil
}

func (a *analysis) assignment(c *catalog.Column, e ast.ExprNode, target *ref, alias *rowAlias) assignment {
	s := assignment{col: c}
	switch v := unwrap(e).(type) {
	case *ast.ValuesExpr:
		if v.Column != nil {
			s.inserted = target.column(v.Column.Name.Name.L)
		}
	case *ast.ColumnNameExpr:
		if src := alias.column(v.Name, target); src != nil {
			s.inserted = src
		} else if got, ok := a.resolve(v.Name, target.scope); ok && got.ref == target && got.col == c {
			s.self = true
		}
	default:
		s.value = evalExpr(a.st, e)
	}
	return s
}

// lastInserted is id of id = LAST_INSERT_ID(id), which tells the client the id of the
// row that ON DUPLICATE KEY UPDATE met. clips: a value that is out of range is stored as
// the nearest that is not.
//
// Rule ids: the function makes an unsigned integer of its argument, so what stays as it is
// are integers that aren't negative. Counter-examples:
//
//	code = LAST_INSERT_ID(code)   '007' of a VARCHAR becomes '7'
//	n = LAST_INSERT_ID(n)         -1 of an INT becomes 2147483647, or fails
//
// Servers leave undefined what becomes of negative values in AUTO_INCREMENT columns.
func lastInserted(c *catalog.Column, e ast.ExprNode, clips bool) ast.ExprNode {
	_, unsigned, integer := integerLimit(c.Type)
	if f, ok := unwrap(e).(*ast.FuncCallExpr); ok && f.FnName.L == "last_insert_id" && len(f.Args) == 1 && integer && (unsigned || c.AutoIncrement || !clips) {
		if id, ok := unwrap(f.Args[0]).(*ast.ColumnNameExpr); ok {
			return id
		}
	}
	return e
}

// lastAssignments maps each assigned column to its assignment; to nil where it
// is assigned more than once, since MySQL evaluates from left to right and the
// value is then anyone's guess.
func lastAssignments(sets []assignment) map[*catalog.Column]*assignment {
	out := map[*catalog.Column]*assignment{}
	for k := range sets {
		s := &sets[k]
		if _, twice := out[s.col]; twice {
			out[s.col] = nil
			continue
		}
		out[s.col] = s
	}
	return out
}

// touchesPrimaryKey reports an assignment to a primary key column. A scan that
// resumes at a checkpoint goes on after the last primary key that it saw; a row
// that moves from after it to before it in the meantime would not be seen, and
// its entries be taken for stale. So such an update marks all indexes.
func touchesPrimaryKey(t *catalog.Table, assigned map[*catalog.Column]*assignment) bool {
	return slices.ContainsFunc(t.PrimaryKey, func(c *catalog.Column) bool {
		s, ok := assigned[c]
		return ok && (s == nil || !s.self) || changesUnnamed(c, ok)
	})
}

// changesUnnamed reports a column that changes with any other one of its row, whether it
// is named or not.
func changesUnnamed(c *catalog.Column, named bool) bool {
	return c.Generated || c.OnUpdate && !named
}

func assigns(sets []assignment, c *catalog.Column) bool {
	return slices.ContainsFunc(sets, func(s assignment) bool { return s.col == c })
}

// changes reports an assignment of something else than the column itself.
func changes(sets []assignment, c *catalog.Column) bool {
	return slices.ContainsFunc(sets, func(s assignment) bool { return s.col == c && !s.self })
}
