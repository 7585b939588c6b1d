package planner

import (
	"github.com/shunt-sql/shunt/planner/plan"
)

// Changes says what a write does to rows: less than any change of its tables where that is sure. REQUIRES: b is the plan's.
//
// Rule nothing beside: counter-examples: a trigger sets NEW.name; a foreign key changes the rows of another table.
func Changes(r *plan.Rows, b *plan.Bound) plan.Change {
	c := plan.Change{Tables: r.Tables, Adds: b.Adds, Marks: b.Marks}
	own, ok := r.Own.(*bindable)
	if !ok || len(r.Tables) != 1 {
		return c
	}
	t := r.Tables[0]
	if t.IsView || len(t.Triggers) > 0 {
		return c
	}
	switch act := own.action.(type) {
	case *insertAction:
		c.New = !act.replace && act.update == nil
	case *writeAction:
		if act.delete || len(act.targets) != 1 || len(act.targets[0].besides) > 0 || act.targets[0].ref.table != t || len(t.Cascades) > 0 {
			return c
		}
		for _, col := range t.Columns {
			if assigns(act.targets[0].sets, col) || changesUnnamed(col, false) {
				c.Columns = append(c.Columns, col)
			}
		}
	}
	return c
}
