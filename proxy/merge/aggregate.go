package merge

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/plan"
)

// aggregate is how cells of one MergeOp are put together. A new one is a file with its struct, and
// a line in aggregates.
type aggregate struct {
	// prepare looks whether the servers gave its columns the types that are expected.
	prepare func(u *uniter, c *cellState) error
	// unit is the number that a group begins with. null: of no rows the cell is NULL, and not that.
	unit uint64
	null bool
	// add takes a row in; of a group's first one the columns are in u.values.
	add func(u *uniter, c *cellState, r *Row, k Key, first bool) error
	// close puts the group's value into u.values.
	close func(u *uniter, c *cellState) error
}

// aggregates are all of them, by their MergeOp.
var aggregates = [...]aggregate{
	plan.MergeCount:    number(0, func(n, m uint64) uint64 { return n + m }),
	plan.MergeAnd:      number(math.MaxUint64, func(n, m uint64) uint64 { return n & m }),
	plan.MergeOr:       number(0, func(n, m uint64) uint64 { return n | m }),
	plan.MergeXor:      number(0, func(n, m uint64) uint64 { return n ^ m }),
	plan.MergeDistinct: distinct,
	plan.MergeSum:      sum,
	plan.MergeAvg:      avg,
	plan.MergeMin:      least,
	plan.MergeMax:      greatest,
}

// cellState is a cell, and what it has gathered of the open row.
type cellState struct {
	*plan.MergeCell
	how aggregate

	n    uint64 // COUNT, BIT_..
	sum  exact  // SUM, of AVG too
	term exact  // what was added to it last
	some bool   // a value that isn't NULL was there
	by   sorter // of MIN and MAX
	key  part   // the best so far
	next part
}

// begin empties the cell.
func (c *cellState) begin() {
	c.n, c.some = c.how.unit, false
	c.sum.zero()
}

// number is an aggregate of counts or bit masks.
func number(unit uint64, join func(n, m uint64) uint64) aggregate {
	return aggregate{
		prepare: func(u *uniter, c *cellState) error { return u.expect(c.Column, mysql.MYSQL_TYPE_LONGLONG) },
		unit:    unit,
		add: func(u *uniter, c *cellState, r *Row, _ Key, _ bool) error {
			n, ok, err := u.integer(r, c.Column)
			if ok {
				c.n = join(c.n, n)
			}
			return err
		},
		close: (*uniter).setNumber,
	}
}

// distinct counts the changes of the keys behind the group's, by which rows are sorted too.
var distinct = aggregate{
	prepare: func(u *uniter, c *cellState) error { return u.expect(c.Column, mysql.MYSQL_TYPE_LONGLONG) },
	add: func(u *uniter, c *cellState, _ *Row, k Key, first bool) error {
		keys := k[u.m.Group:]
		for n := range keys {
			if keys[n].null {
				return nil
			}
		}
		if first || compare(u.sorters[u.m.Group:], u.key[u.m.Group:], keys) != 0 {
			c.n++
		}
		return nil
	},
	close: (*uniter).setNumber,
}

// expect is an error where a server gave a column another type.
func (u *uniter) expect(column int, is byte) error {
	if col := u.layout.Columns[u.layout.column(column)]; col.Type != is {
		return &UnsupportedError{col.Name, "type " + strconv.Itoa(int(col.Type))}
	}
	return nil
}

// integer reads a count or a bit mask.
func (u *uniter) integer(r *Row, column int) (n uint64, ok bool, err error) {
	v := r.values[u.layout.column(column)]
	if v == nil {
		return 0, false, nil
	}
	if u.layout.Binary {
		if n, ok = binaryInt(v, true); !ok {
			err = ErrMalformed
		}
		return n, ok, err
	}
	if n, err = strconv.ParseUint(string(v), 10, 64); err != nil {
		return 0, false, ErrMalformed
	}
	return n, true, nil
}

// setNumber writes what integer reads.
func (u *uniter) setNumber(c *cellState) error {
	column := u.layout.column(c.Column)
	if u.layout.Binary {
		u.set(column, binary.LittleEndian.AppendUint64(nil, c.n))
	} else {
		u.set(column, strconv.AppendUint(nil, c.n, 10))
	}
	return nil
}
