package merge

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// uniter makes one row of rows that agree in the first keys.
type uniter struct {
	layout *Layout
	m      *planner.Merge
	// sorters of the streams' keys, of which the first m.Group make a group.
	sorters []sorter
	// extremes are the sorters of MIN and MAX, by cell.
	extremes []sorter
	cells    []cellState

	// values is the row being made, each in memory of its own; nil is NULL.
	values [][]byte
	mem    [][]byte
	key    Key // of the row that came last
	open   bool
	rows   int // that were united
}

// cellState is what a cell has gathered of the open row.
type cellState struct {
	n    uint64 // COUNT, BIT_..
	sum  exact  // SUM, of AVG too
	term exact  // what was added to it last
	some bool   // a value that isn't NULL was there
	key  part   // of MIN and MAX: the best so far
	next part
}

func newUniter(l *Layout, m *planner.Merge, sorters []sorter) (*uniter, error) {
	u := &uniter{
		layout: l, m: m, sorters: sorters,
		cells: make([]cellState, len(m.Cells)), extremes: make([]sorter, len(m.Cells)),
		values: make([][]byte, len(l.Columns)), mem: make([][]byte, len(l.Columns)),
	}
	for i, c := range m.Cells {
		if c.Op == planner.MergeMin || c.Op == planner.MergeMax {
			s, err := newSorters(l, []planner.MergeKey{c.Key})
			if err != nil {
				return nil, err
			}
			u.extremes[i] = s[0]
			continue
		}
		for _, n := range []int{c.Column, c.Sum, c.Count} {
			if !u.fits(c, n) {
				col := l.Columns[l.column(n)]
				return nil, &UnsupportedError{col.Name, "type " + strconv.Itoa(int(col.Type))}
			}
		}
	}
	return u, nil
}

// fits checks that a server gave an aggregate the type that was expected.
func (u *uniter) fits(c planner.MergeCell, n int) bool {
	if n != c.Column && c.Op != planner.MergeAvg {
		return true
	}
	switch t := u.layout.Columns[u.layout.column(n)].Type; {
	case c.Op == planner.MergeSum, c.Op == planner.MergeAvg && n != c.Count:
		return t == mysql.MYSQL_TYPE_NEWDECIMAL
	default:
		return t == mysql.MYSQL_TYPE_LONGLONG
	}
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
	for i := range u.m.Cells {
		if err := u.addCell(i, r, k, first); err != nil {
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

func (u *uniter) addCell(i int, r *Row, k Key, first bool) error {
	c, s := &u.m.Cells[i], &u.cells[i]
	if first {
		s.n, s.some = 0, false
		s.sum.zero()
		if c.Op == planner.MergeAnd {
			s.n = math.MaxUint64
		}
	}
	switch c.Op {
	case planner.MergeMin, planner.MergeMax:
		return u.addExtreme(i, r, first)
	case planner.MergeDistinct:
		keys := k[u.m.Group:]
		for n := range keys {
			if keys[n].null {
				return nil
			}
		}
		if first || compare(u.sorters[u.m.Group:], u.key[u.m.Group:], keys) != 0 {
			s.n++
		}
		return nil
	case planner.MergeAvg:
		n, ok, err := u.integer(r, c.Count)
		if err != nil || !ok {
			return err
		}
		s.n += n
		return u.addSum(s, r, c.Sum)
	case planner.MergeSum:
		return u.addSum(s, r, c.Column)
	default:
		n, ok, err := u.integer(r, c.Column)
		if err != nil || !ok {
			return err
		}
		switch c.Op {
		case planner.MergeAnd:
			s.n &= n
		case planner.MergeOr:
			s.n |= n
		case planner.MergeXor:
			s.n ^= n
		default:
			s.n += n
		}
		return nil
	}
}

func (u *uniter) addSum(s *cellState, r *Row, column int) error {
	v := r.values[u.layout.column(column)]
	if v == nil {
		return nil
	}
	if !s.term.read(v) {
		return ErrMalformed
	}
	s.some = true
	s.sum.add(&s.term)
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

// addExtreme keeps the least or greatest value, and the hidden columns that it
// is compared by. NULLs don't count.
func (u *uniter) addExtreme(i int, r *Row, first bool) error {
	c, s := &u.m.Cells[i], &u.cells[i]
	if err := u.extremes[i].fill(&s.next, r); err != nil {
		return err
	}
	if first {
		s.key.copyFrom(&s.next)
		return nil
	}
	if s.next.null {
		return nil
	}
	d := s.next.compare(&s.key)
	if !s.key.null && (c.Op == planner.MergeMin && d >= 0 || c.Op == planner.MergeMax && d <= 0) {
		return nil
	}
	s.key.copyFrom(&s.next)
	columns := []int{c.Column, c.Key.Value}
	if c.Key.Weight != 0 {
		columns = append(columns, c.Key.Weight)
	}
	if c.Key.Pad != 0 {
		columns = append(columns, c.Key.Pad)
	}
	for _, n := range columns {
		n = u.layout.column(n)
		u.set(n, r.values[n])
	}
	return nil
}

// close ends the open group: its values are in u.values until the next add.
func (u *uniter) close() error {
	u.open = false
	for i := range u.m.Cells {
		if err := u.closeCell(i); err != nil {
			return err
		}
	}
	return nil
}

func (u *uniter) closeCell(i int) error {
	c, s := &u.m.Cells[i], &u.cells[i]
	column := u.layout.column(c.Column)
	switch c.Op {
	case planner.MergeMin, planner.MergeMax:
		return nil
	case planner.MergeSum, planner.MergeAvg:
		if u.rows == 1 {
			return nil // as the shard has it
		}
		if !s.some || c.Op == planner.MergeAvg && s.n == 0 {
			u.values[column] = nil
			return nil
		}
		decimals := int(u.layout.Columns[column].Decimals)
		var text []byte
		var err error
		if c.Op == planner.MergeSum {
			text, err = s.sum.text(decimals)
		} else {
			text, err = average(&s.sum, s.n, int(u.layout.Columns[u.layout.column(c.Sum)].Decimals), decimals)
		}
		if err != nil {
			return err
		}
		u.set(column, text)
	default:
		if u.layout.Binary {
			u.set(column, binary.LittleEndian.AppendUint64(nil, s.n))
		} else {
			u.set(column, strconv.AppendUint(nil, s.n, 10))
		}
	}
	return nil
}

// total makes the row of no rows at all.
func (u *uniter) total() {
	for i := range u.values {
		u.values[i] = nil
	}
	for i := range u.m.Cells {
		s := &u.cells[i]
		*s = cellState{}
		switch u.m.Cells[i].Op {
		case planner.MergeMin, planner.MergeMax, planner.MergeSum, planner.MergeAvg:
			continue
		case planner.MergeAnd:
			s.n = math.MaxUint64
		default: // 0
		}
		_ = u.closeCell(i) // of a number it doesn't fail
	}
}

// keep is what HAVING says of the closed row.
func (u *uniter) keep(c *planner.MergeCondition) (bool, error) {
	if c == nil {
		return true, nil
	}
	v, err := u.truth(c)
	return v > 0, err
}

// truth is 1 for true, 0 for NULL, -1 for false.
func (u *uniter) truth(c *planner.MergeCondition) (int, error) {
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
