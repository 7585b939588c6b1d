package merge

import (
	"math"

	"github.com/shunt-sql/shunt/planner/plan"
)

// Rows are the rows of the answer: packets as the client gets them, but for
// their headers.
type Rows struct {
	layout  *Layout
	streams *Streams
	merge   *plan.Merge
	uniter  *uniter
	held    *held
	// row and key are the streams' next row, which begins another group.
	row     *Row
	key     Key
	ended   bool
	any     bool // there was a row
	gone    bool // the made-up row was given
	sorted  int  // of the held rows that were given; -1 until all have come
	skipped uint64
	given   uint64
	made    uint64 // rows, without OFFSET and LIMIT
	united  uint64 // rows that have been held
	buf     []byte
}

// New returns the rows that m makes of the sources' rows. The error is an
// *UnsupportedError or ErrMalformed.
func New(l *Layout, m *plan.Merge, sources []Source) (*Rows, error) {
	if l.Visible() <= 0 {
		return nil, ErrMalformed
	}
	s, err := NewStreams(l, m.Order, sources)
	if err != nil {
		return nil, err
	}
	s.unsorted = m.Likely || m.Nearly
	r := &Rows{layout: l, streams: s, merge: m, sorted: -1}
	if m.Unite {
		if r.uniter, err = newUniter(l, m, s.sorters); err != nil {
			return nil, err
		}
	}
	if len(m.Sort) > 0 {
		sorters, err := newSorters(l, m.Sort)
		if err != nil {
			return nil, err
		}
		limit := m.Count + m.Offset
		if limit < m.Count {
			limit = math.MaxUint64
		}
		r.held = &held{sorters: sorters, limit: limit}
	}
	return r, nil
}

// Found is the number of rows up to the last one given, those before OFFSET
// included.
func (r *Rows) Found() uint64 { return r.made }

// Given reports whether a row of the n-th source has come to anything.
func (r *Rows) Given(n int) bool { return r.streams.Given(n) }

// Count reads on until n rows are found, all where there are less.
func (r *Rows) Count(n uint64) error {
	for r.made < n {
		p, err := r.next()
		if err != nil {
			return err
		}
		if p == nil {
			break
		}
	}
	if r.held != nil && n == math.MaxUint64 {
		r.made = r.united // of which only the first were held
	}
	return nil
}

// Next returns the next row, valid until the next call; nil at the end, which
// comes before that of the sources where LIMIT says so.
func (r *Rows) Next() ([]byte, error) {
	for r.given < r.merge.Count {
		p, err := r.next()
		if err != nil || p == nil {
			return nil, err
		}
		if r.skipped < r.merge.Offset {
			r.skipped++
			continue
		}
		r.given++
		return p, nil
	}
	return nil, nil
}

func (r *Rows) next() ([]byte, error) {
	if r.uniter == nil {
		row, _, err := r.streams.Next()
		if err != nil || row == nil {
			return nil, err
		}
		var p []byte
		p, r.buf = r.layout.visible(r.buf, row)
		r.made++
		return p, nil
	}
	if r.held == nil {
		ok, err := r.unite()
		if err != nil || !ok {
			return nil, err
		}
		r.made++
		r.buf = r.layout.packet(r.buf[:0], r.uniter.values)
		return r.buf, nil
	}
	if r.sorted < 0 {
		for {
			ok, err := r.unite()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			r.united++
			if err := r.held.add(r.layout, r.uniter.values); err != nil {
				return nil, err
			}
		}
		r.held.sort()
		r.sorted = 0
	}
	if r.sorted == len(r.held.rows) {
		return nil, nil
	}
	r.sorted++
	r.made++
	return r.held.rows[r.sorted-1].packet, nil
}

// unite makes the next united row that HAVING keeps, in r.uniter.values.
func (r *Rows) unite() (ok bool, err error) {
	for {
		if ok, err = r.uniteAny(); err != nil || !ok {
			return false, err
		}
		if ok, err = r.uniter.keep(r.merge.Having); err != nil || ok {
			return ok, err
		}
	}
}

func (r *Rows) uniteAny() (ok bool, err error) {
	u := r.uniter
	for !r.ended {
		if r.row == nil {
			if r.row, r.key, err = r.streams.Next(); err != nil {
				return false, err
			}
		}
		if r.row == nil {
			r.ended = true
			break
		}
		r.any = true
		if u.open && u.begins(r.key) {
			return true, u.close()
		}
		if err := u.add(r.row, r.key); err != nil {
			return false, err
		}
		r.row = nil
	}
	switch {
	case u.open:
		return true, u.close()
	case r.merge.Total && !r.any && !r.gone:
		r.gone = true
		u.total()
		return true, nil
	}
	return false, nil
}
