package merge

import "github.com/shunt-sql/shunt/planner"

// Rows are the rows of the answer: packets as the client gets them, but for
// their headers.
type Rows struct {
	layout  *Layout
	streams *Streams
	merge   *planner.Merge
	skipped uint64
	given   uint64
	buf     []byte
}

// New returns the rows that m makes of the sources' rows.
func New(l *Layout, m *planner.Merge, sources []Source) (*Rows, error) {
	s, err := NewStreams(l, m.Order, sources)
	if err != nil {
		return nil, err
	}
	return &Rows{layout: l, streams: s, merge: m}, nil
}

// Next returns the next row, valid until the next call; nil at the end.
func (r *Rows) Next() ([]byte, error) {
	if r.given >= r.merge.Count {
		return nil, nil
	}
	for {
		row, _, err := r.streams.Next()
		if err != nil || row == nil {
			return nil, err
		}
		if r.skipped < r.merge.Offset {
			r.skipped++
			continue
		}
		r.given++
		var p []byte
		p, r.buf = r.layout.visible(r.buf, row)
		return p, nil
	}
}
