package merge

import (
	"fmt"

	"github.com/shunt-sql/shunt/planner/plan"
)

// Source is one shard's rows in their order.
type Source interface {
	// Next returns a row's packet, valid until the next call, or nil at the
	// end.
	Next() ([]byte, error)
}

// OrderError: a stream isn't in the order of the keys.
type OrderError struct{ Stream int }

func (e *OrderError) Error() string {
	return fmt.Sprintf("the rows of stream %d are sorted by other rules than their keys", e.Stream)
}

// Streams merges several sources into one stream in order. With no keys it is
// one source after the other.
type Streams struct {
	layout  *Layout
	sorters []sorter
	streams []*stream
	// heap holds the numbers of the streams that have a row, the one whose row
	// comes first at its root.
	heap []int
	// begun: each stream has its first row. Without keys they are begun one by
	// one.
	begun bool
	// unsorted: a stream that isn't in order is as good.
	unsorted bool
}

type stream struct {
	source Source
	row    Row
	// key is the row's, and spare the memory of the one before.
	key, spare Key
	first      bool
	// given: a row of it was.
	given bool
}

// NewStreams returns a merge of sources whose rows are in the order of keys.
// The error is an *UnsupportedError or ErrMalformed.
func NewStreams(l *Layout, keys []plan.MergeKey, sources []Source) (*Streams, error) {
	sorters, err := newSorters(l, keys)
	if err != nil {
		return nil, err
	}
	s := &Streams{layout: l, sorters: sorters}
	for _, src := range sources {
		s.streams = append(s.streams, &stream{source: src, first: true})
	}
	return s, nil
}

// advance reads a stream's next row. ok is false at its end.
func (s *Streams) advance(n int) (ok bool, err error) {
	x := s.streams[n]
	packet, err := x.source.Next()
	if err != nil || packet == nil {
		return false, err
	}
	if err := s.layout.split(&x.row, packet); err != nil {
		return false, err
	}
	if len(s.sorters) == 0 {
		return true, nil
	}
	x.key, x.spare = x.spare, x.key
	if x.key, err = fill(x.key, s.sorters, &x.row); err != nil {
		return false, err
	}
	if !s.unsorted && !x.first && compare(s.sorters, x.spare, x.key) > 0 {
		return false, &OrderError{n}
	}
	x.first = false
	return true, nil
}

// Next returns the next row and its key, valid until the next call; nil at the
// end.
func (s *Streams) Next() (*Row, Key, error) {
	if len(s.sorters) == 0 {
		return s.nextInTurn()
	}
	if !s.begun {
		s.begun = true
		for n := range s.streams {
			ok, err := s.advance(n)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				s.heap = append(s.heap, n)
			}
		}
		for i := len(s.heap)/2 - 1; i >= 0; i-- {
			s.sink(i)
		}
	} else if len(s.heap) > 0 {
		ok, err := s.advance(s.heap[0])
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			last := len(s.heap) - 1
			s.heap[0], s.heap = s.heap[last], s.heap[:last]
		}
		s.sink(0)
	}
	if len(s.heap) == 0 {
		return nil, nil, nil
	}
	x := s.streams[s.heap[0]]
	x.given = true
	return &x.row, x.key, nil
}

// Given reports whether Next has given a row of the n-th source.
func (s *Streams) Given(n int) bool { return s.streams[n].given }

func (s *Streams) nextInTurn() (*Row, Key, error) {
	if !s.begun {
		s.begun = true
		for n := range s.streams {
			s.heap = append(s.heap, n)
		}
	}
	for len(s.heap) > 0 {
		n := s.heap[0]
		ok, err := s.advance(n)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			s.streams[n].given = true
			return &s.streams[n].row, nil, nil
		}
		s.heap = s.heap[1:]
	}
	return nil, nil, nil
}

// less: ties go to the stream with the lower number.
func (s *Streams) less(i, j int) bool {
	x, y := s.heap[i], s.heap[j]
	c := compare(s.sorters, s.streams[x].key, s.streams[y].key)
	return c < 0 || c == 0 && x < y
}

func (s *Streams) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.heap); child++ {
			if s.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}
