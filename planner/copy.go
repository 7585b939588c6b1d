package planner

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// planCopy finds the parts; nil where the text doesn't tell them.
func (a *analysis) planCopy(n *ast.InsertStmt, alias *rowAlias) *plan.Copy {
	st := a.st
	if alias != nil || st.SetVar || st.HasExecutable() {
		return nil
	}
	c := &plan.Copy{Statement: st, To: uint32(len(st.Src)), Lenient: n.IgnoreErr || !st.Settings.Strict}
	depth, found := 0, false
	for i := range st.Tokens {
		query := st.Is(i, "select") || st.Is(i, "with") || st.Is(i, "table") || st.Is(i, "values")
		switch {
		case !found && (depth == 0 && i > 1 && query || depth == 0 && st.Op(i, "(") && (st.Is(i+1, "select") || st.Is(i+1, "with") || st.Op(i+1, "("))):
			c.From, found = st.Tokens[i].Start, true
		case found && depth == 0 && st.Is(i, "on") && st.Is(i+1, "duplicate") && st.Is(i+2, "key"):
			c.To = st.Tokens[i].Start
			return c
		}
		if st.Op(i, "(") {
			depth++
		} else if st.Op(i, ")") {
			depth--
		}
	}
	if !found || len(n.OnDuplicate) > 0 {
		return nil
	}
	return c
}

// refusedAction is a plan that can only be executed in another way.
type refusedAction struct{ why *text.Error }

func (r *refusedAction) bind(*binder) (*plan.Bound, error) { return nil, r.why }
