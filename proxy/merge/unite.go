package merge

import (
	"slices"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// uniter makes one row of rows that agree in the first keys.
type uniter struct {
	layout *Layout
	m      *plan.Merge
	// sorters of the streams' keys, of which the first m.Group make a group.
	sorters []sorter
	cells   []cellState

	// values is the row being made, each in memory of its own; nil is NULL.
	values [][]byte
	mem    [][]byte
	key    Key // of the row that came last
	open   bool
	rows   int // that were united
}

func newUniter(l *Layout, m *plan.Merge, sorters []sorter) (*uniter, error) {
	u := &uniter{
		layout: l, m: m, sorters: sorters, cells: make([]cellState, len(m.Cells)),
		values: make([][]byte, len(l.Columns)), mem: make([][]byte, len(l.Columns)),
	}
	for i := range m.Cells {
		c := &u.cells[i]
		c.MergeCell, c.how = &m.Cells[i], aggregates[m.Cells[i].Op]
		if err := c.how.prepare(u, c); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// begins reports whether a row begins another group.
func (u *uniter) begins(k Key) bool {
	return !u.open || compare(u.sorters[:u.m.Group], u.key[:u.m.Group], k[:u.m.Group]) != 0
}

// add adds a row to the open group, or opens one.
func (u *uniter) add(r *Row, k Key) error {
	first := !u.open
	if first {
		u.open, u.rows = true, 0
		for i, v := range r.values {
			u.set(i, v)
		}
	}
	u.rows++
	for i := range u.cells {
		c := &u.cells[i]
		if first {
			c.begin()
		}
		if err := c.how.add(u, c, r, k, first); err != nil {
			return err
		}
	}
	u.key = copyKey(u.key, k)
	return nil
}

// set keeps a copy of a value.
func (u *uniter) set(i int, v []byte) {
	if v == nil {
		u.values[i] = nil
		return
	}
	u.mem[i] = append(u.mem[i][:0], v...)
	u.values[i] = u.mem[i]
	if u.values[i] == nil {
		u.values[i] = []byte{}
	}
}

func copyKey(dst, src Key) Key {
	if dst == nil {
		dst = make(Key, len(src))
	}
	for i := range src {
		dst[i].copyFrom(&src[i])
	}
	return dst
}

func (p *part) copyFrom(q *part) {
	p.null, p.n = q.null, q.n
	p.b, p.pad = append(p.b[:0], q.b...), append(p.pad[:0], q.pad...)
}

// close ends the open group: its values are in u.values until the next add.
func (u *uniter) close() error {
	u.open = false
	for i := range u.cells {
		if err := u.cells[i].how.close(u, &u.cells[i]); err != nil {
			return err
		}
	}
	return nil
}

// total makes the row of no rows at all.
func (u *uniter) total() {
	for i := range u.values {
		u.values[i] = nil
	}
	for i := range u.cells {
		if c := &u.cells[i]; !c.how.null {
			c.begin()
			_ = u.setNumber(c) // it doesn't fail
		}
	}
}

// keep is what HAVING says of the closed row.
func (u *uniter) keep(c *plan.MergeCondition) (bool, error) {
	if c == nil {
		return true, nil
	}
	v, err := u.truth(c)
	return v > 0, err
}

// truth is 1 for true, 0 for NULL, -1 for false.
func (u *uniter) truth(c *plan.MergeCondition) (int, error) {
	var kids []int
	for _, k := range c.Kids {
		v, err := u.truth(k)
		if err != nil {
			return 0, err
		}
		kids = append(kids, v)
	}
	switch c.Op {
	case "AND":
		return slices.Min(kids), nil
	case "OR":
		return slices.Max(kids), nil
	case "NOT":
		return -kids[0], nil
	}
	n := u.layout.column(c.Column)
	v := u.values[n]
	if v == nil {
		return 0, nil
	}
	col := &u.layout.Columns[n]
	if u.layout.Binary && col.Type != mysql.MYSQL_TYPE_NEWDECIMAL {
		unsigned := col.Flags&mysql.UNSIGNED_FLAG != 0
		i, ok := binaryInt(v, unsigned)
		if !ok {
			return 0, &UnsupportedError{col.Name, "type " + strconv.Itoa(int(col.Type))}
		}
		if v = strconv.AppendInt(nil, int64(i), 10); unsigned {
			v = strconv.AppendUint(nil, i, 10)
		}
	}
	var x, y exact
	if !x.read(v) || !y.read([]byte(c.Value)) {
		return 0, &UnsupportedError{col.Name, "no exact number"}
	}
	d := x.cmp(&y)
	if map[string]bool{"=": d == 0, "<>": d != 0, "<": d < 0, "<=": d <= 0, ">": d > 0, ">=": d >= 0}[c.Op] {
		return 1, nil
	}
	return -1, nil
}

// packet writes the visible part of a row of values.
func (l *Layout) packet(dst []byte, values [][]byte) []byte {
	if !l.Binary {
		for _, v := range values[:l.Visible()] {
			if v == nil {
				dst = append(dst, 0xFB)
			} else {
				dst = wire.AppendLenBytes(dst, v)
			}
		}
		return dst
	}
	start := len(dst)
	dst = append(dst, make([]byte, 1+wire.NullsLen(l.Visible()))...)
	for i, v := range values[:l.Visible()] {
		_, fixed := wire.FixedWidth(l.Columns[i].Type)
		switch {
		case v == nil:
			wire.Nulls(dst[start+1:]).Set(i)
		case fixed:
			dst = append(dst, v...)
		default:
			// Strings, and temporals, whose length is one byte.
			dst = wire.AppendLenBytes(dst, v)
		}
	}
	return dst
}
