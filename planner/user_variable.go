package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// assign notes a user variable that the statement assigns (@x := ...).
func (a *analysis) assign(name string) {
	if !a.selects {
		a.refuse(refuseAssigned(name))
		return
	}
	a.setVolatile("@" + name)
	if name = strings.ToLower(name); !slices.Contains(a.assigned, name) {
		a.assigned = append(a.assigned, name)
	}
}

// refuseAssigned is the refusal of an assignment that no single connection would make.
func refuseAssigned(name string) *text.Error {
	return text.NotSupported("assigning a user variable inside of a statement (@%s :=) is only supported in a SELECT of one shard, without FOR UPDATE or FOR SHARE: use SET @%s = ..., or a window function", name, name)
}

// assigningAction is a SELECT that assigns user variables.
//
// Rule assigned: one shard reads all rows, in its own place. Counter-example: SELECT @n := @n + 1,
// name FROM users numbers the rows of each shard.
type assigningAction struct {
	inner   action
	refused *text.Error
}

func (a *assigningAction) bind(b *binder) (*plan.Bound, error) {
	out, err := a.inner.bind(b)
	if err == nil && (out.Refuse != nil || len(out.Statements) != 1 || out.Merge != nil || out.Gather != nil) {
		out.Refuse = a.refused
	}
	return out, err
}
