package merge

import "github.com/shunt-sql/shunt/planner/plan"

var (
	least    = extreme(func(d int) bool { return d < 0 })
	greatest = extreme(func(d int) bool { return d > 0 })
)

// extreme keeps the best value, and the hidden columns that it is compared by. NULLs don't count.
func extreme(better func(d int) bool) aggregate {
	return aggregate{
		prepare: func(u *uniter, c *cellState) error {
			by, err := newSorters(u.layout, []plan.MergeKey{c.Key})
			if err == nil {
				c.by = by[0]
			}
			return err
		},
		null: true,
		add: func(u *uniter, c *cellState, r *Row, _ Key, first bool) error {
			if err := c.by.fill(&c.next, r); err != nil {
				return err
			}
			if !first && (c.next.null || !c.key.null && !better(c.next.compare(&c.key))) {
				return nil
			}
			c.key.copyFrom(&c.next)
			u.take(r, c.Column)
			u.take(r, c.Key.Value)
			if c.Key.Weight != 0 {
				u.take(r, c.Key.Weight)
			}
			if c.Key.Pad != 0 {
				u.take(r, c.Key.Pad)
			}
			return nil
		},
		close: func(*uniter, *cellState) error { return nil },
	}
}

// take has a column's value be the row's.
func (u *uniter) take(r *Row, column int) {
	n := u.layout.column(column)
	u.set(n, r.values[n])
}
