package merge

import (
	"errors"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// sum adds exact numbers.
var sum = aggregate{
	prepare: func(u *uniter, c *cellState) error { return u.expect(c.Column, mysql.MYSQL_TYPE_NEWDECIMAL) },
	null:    true,
	add:     func(u *uniter, c *cellState, r *Row, _ Key, _ bool) error { return u.addTo(c, r, c.Column) },
	close: func(u *uniter, c *cellState) error {
		return u.setExact(c, c.some, func(decimals int) ([]byte, error) { return c.sum.text(decimals) })
	},
}

// avg divides a sum by a count.
var avg = aggregate{
	prepare: func(u *uniter, c *cellState) error {
		return errors.Join(u.expect(c.Column, mysql.MYSQL_TYPE_NEWDECIMAL), u.expect(c.Sum, mysql.MYSQL_TYPE_NEWDECIMAL), u.expect(c.Count, mysql.MYSQL_TYPE_LONGLONG))
	},
	null: true,
	add: func(u *uniter, c *cellState, r *Row, _ Key, _ bool) error {
		n, ok, err := u.integer(r, c.Count)
		if err != nil || !ok {
			return err
		}
		c.n += n
		return u.addTo(c, r, c.Sum)
	},
	close: func(u *uniter, c *cellState) error {
		return u.setExact(c, c.some && c.n > 0, func(decimals int) ([]byte, error) {
			return average(&c.sum, c.n, int(u.layout.Columns[u.layout.column(c.Sum)].Decimals), decimals)
		})
	},
}

// addTo adds a column's value to the cell's sum.
func (u *uniter) addTo(c *cellState, r *Row, column int) error {
	v := r.values[u.layout.column(column)]
	if v == nil {
		return nil
	}
	if !c.term.read(v) {
		return ErrMalformed
	}
	c.some = true
	c.sum.add(&c.term)
	return nil
}

// setExact writes a number with the column's decimals, NULL where there is none.
func (u *uniter) setExact(c *cellState, some bool, text func(decimals int) ([]byte, error)) error {
	if u.rows == 1 {
		return nil // as the shard has it
	}
	column := u.layout.column(c.Column)
	if !some {
		u.values[column] = nil
		return nil
	}
	v, err := text(int(u.layout.Columns[column].Decimals))
	if err == nil {
		u.set(column, v)
	}
	return err
}
