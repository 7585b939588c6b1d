package shared

import (
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

const (
	// numbersStep is how many numbers of a sequence are taken at first beside those that are
	// wanted, and maxNumbersStep how many later: each time twice as many.
	numbersStep    = 100
	maxNumbersStep = 10_000
)

// numbers are those that this process has taken of sequences, and not handed out yet. They go
// with it.
//
// They are forgotten where any process has changed a schema: numbers that were handed out before
// a TRUNCATE TABLE must not come behind those of the sequence that begins anew.
type numbers struct {
	mu sync.Mutex
	of map[catalog.TableName]*taken
}

// taken are the numbers from next on that are before end.
type taken struct {
	mu        sync.Mutex
	next, end uint64
	step      uint64
}

func (n *numbers) init() { n.of = map[catalog.TableName]*taken{} }

func (n *numbers) forgetAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of = map[catalog.TableName]*taken{}
}

func (n *numbers) forget(t catalog.TableName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.of, t)
}

func (n *numbers) find(t catalog.TableName) *taken {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.of[t]
	if q == nil {
		q = &taken{step: numbersStep}
		n.of[t] = q
	}
	return q
}

// TakeNumbers is storage.Store's. Numbers of one process rise; those of several don't rise
// together.
func (s *Store) TakeNumbers(t catalog.TableName, take func(next uint64) (end uint64)) (storage.Taken, error) {
	q := s.numbers.find(t)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next < q.end {
		if end := take(q.next); end >= q.next && end <= q.end {
			first := q.next
			q.next = end
			return storage.Taken{First: first}, nil
		}
	}
	ctx, cancel := s.brief()
	defer cancel()
	var next, end uint64
	first, err := s.first().TakeNumbers(ctx, t, func(from uint64) uint64 {
		if next = take(from); next < from {
			return next // which is refused
		}
		if end = next + q.step; end < next {
			end = next // at the end of all numbers none is taken ahead
		}
		return end
	})
	if err != nil {
		return storage.Taken{}, err
	}
	q.next, q.end, q.step = next, end, min(2*q.step, maxNumbersStep)
	return storage.Taken{First: first}, nil
}

// StartSequence is storage.Store's.
func (s *Store) StartSequence(t catalog.TableName, ask func() (from uint64, err error)) error {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().StartSequence(ctx, t, ask)
}

// RaiseSequence is storage.Store's.
func (s *Store) RaiseSequence(t catalog.TableName, next uint64) error {
	return s.StartSequence(t, func() (uint64, error) { return next, nil })
}

// Sequences is storage.Store's.
func (s *Store) Sequences() (map[catalog.TableName]uint64, error) {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().Sequences(ctx)
}

// RestartSequence is storage.Store's. Where the home doesn't answer the sequence goes on.
func (s *Store) RestartSequence(t catalog.TableName) {
	s.numbers.forget(t)
	ctx, cancel := s.brief()
	defer cancel()
	if err := s.first().RestartSequence(ctx, t); err != nil {
		s.log.Warn("a sequence goes on where it is", "schema", t.Schema, "table", t.Name, "error", err)
	}
}

// SequenceKept is storage.Store's.
func (s *Store) SequenceKept(t catalog.TableName) (bool, error) {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().SequenceKept(ctx, t)
}

// DoubtSequence is storage.Store's. What other processes have taken they hand out.
func (s *Store) DoubtSequence(t catalog.TableName) {
	s.numbers.forget(t)
	ctx, cancel := s.brief()
	defer cancel()
	if err := s.first().DoubtSequence(ctx, t); err != nil {
		s.log.Warn("a sequence may have numbers that are in the table", "schema", t.Schema, "table", t.Name, "error", err)
	}
}

// DoubtSequences is storage.Store's.
func (s *Store) DoubtSequences() error {
	s.numbers.forgetAll()
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().DoubtSequences(ctx)
}

// DropSequence is storage.Store's.
func (s *Store) DropSequence(t catalog.TableName) error {
	s.numbers.forget(t)
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().DropSequence(ctx, t)
}

// DropSequences is storage.Store's.
func (s *Store) DropSequences(schema string) error {
	s.numbers.forgetAll()
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().DropSequences(ctx, schema)
}

// RenameSequence is storage.Store's.
func (s *Store) RenameSequence(from, to catalog.TableName) error {
	s.numbers.forget(from)
	s.numbers.forget(to)
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().RenameSequence(ctx, from, to)
}
