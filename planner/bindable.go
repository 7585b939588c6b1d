package planner

import (
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// bindable is what the planner keeps of a Rows for itself.
type bindable struct {
	action   action
	settings text.Settings
	found    plan.FoundRows
	// locks is for LockedKeys; nil: it has none.
	locks *lockedKeys
	// shape is the text that was planned, where it is that of a Shape.
	shape string
}

// action makes a Bound of a plan.
type action interface {
	bind(b *binder) (*plan.Bound, error)
}

// bindableOf is what a plan is bound by. REQUIRES: newRows has made the plan.
func bindableOf(r *plan.Rows) *bindable { return r.Own.(*bindable) }

// newRows makes a plan of what is said of it.
func newRows(said plan.Rows, act action, s text.Settings) *plan.Rows {
	x := &struct {
		rows plan.Rows
		own  bindable
	}{said, bindable{action: act, settings: s}}
	x.rows.Own = &x.own
	return &x.rows
}

// insertOf is the INSERT that a plan executes; ok is false where it is none.
func insertOf(r *plan.Rows) (i *insertAction, ok bool) {
	if own, prepared := r.Own.(*bindable); prepared {
		i, ok = own.action.(*insertAction)
	}
	return i, ok
}

// bindFound gives the numbers of this execution.
func bindFound(f plan.FoundRows, b *binder) plan.FoundRows {
	if f.Offset != nil {
		n, ok := rowCount(f.Offset, b)
		if f.Skipped = n; !ok {
			f.Op = plan.FoundAsked
		}
	}
	return f
}
