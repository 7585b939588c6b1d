package planner

import (
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// fixedAction sends the text to shards that were known from the start.
type fixedAction struct {
	*spoken.Fixed
	sql string
}

// bindFixed has a plan that was made by words bound as others are; one that was not stays as it is.
func bindFixed(r *plan.Rows, st *text.Statement) {
	if f, ok := r.Own.(*spoken.Fixed); ok {
		r.Own = &bindable{action: &fixedAction{f, st.Src}, settings: st.Settings}
	}
}

func (f *fixedAction) bind(b *binder) (*plan.Bound, error) {
	out := b.sendTo(f.Shards, f.sql)
	out.Access, out.Reason, out.Alternatives = f.Access, f.Reason, f.Any
	e := newEffects(b)
	e.unlogged = true // a hint's statement, or a program
	for _, ix := range f.Unknown {
		for id := range f.Shards.All {
			e.mark(ix, id, nil, "UNKNOWN")
		}
	}
	e.into(out)
	if f.System != nil {
		out.Plan, out.System = "merge", f.System
	}
	return out, nil
}
