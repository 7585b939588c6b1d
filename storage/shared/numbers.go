package shared

import (
	"context"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

const (
	// firstNumbers is how many numbers of a sequence are taken at first beside those that are wanted. Later they are as many as
	// are handed out in numbersLast, by the rate of those before: at most numbersGrowth times as many as last time, and maxNumbers;
	// at least a numbersGrowth-th of those.
	//
	// So a first home that is away for some minutes keeps no INSERT from its numbers; and a process takes few of a TINYINT.
	firstNumbers  = 16
	numbersGrowth = 8
	maxNumbers    = 300_000 // are lost at each DDL: an INT has seven thousand times as many
	numbersLast   = 10 * time.Minute
)

// numbers are those that this process has taken of sequences, and not handed out yet. They go
// with it.
//
// They are forgotten where any process has changed a schema: numbers that were handed out before
// a TRUNCATE TABLE must not come behind those of the sequence that begins anew.
type numbers struct {
	now func() time.Time

	mu sync.Mutex
	of map[catalog.TableName]*taken
}

// taken are the numbers of a sequence from next on that are before end, and those of the range behind.
type taken struct {
	mu sync.Mutex
	numberRange
	behind numberRange
	taking bool // the range behind is being taken
	// size is how many were taken last, given how many of them were handed out since.
	size, given uint64
	since       time.Time
}

type numberRange struct{ next, end uint64 }

// source hands out numbers to a process, as home.Home.TakeNumbers.
type source func(ctx context.Context, take func(next uint64) (end uint64)) (first uint64, err error)

func (n *numbers) init() { n.of, n.now = map[catalog.TableName]*taken{}, time.Now }

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
		q = &taken{}
		n.of[t] = q
	}
	return q
}

// give hands out numbers of those that were taken; ok is false where they are too few. Callers hold mu.
func (q *taken) give(now time.Time, take func(next uint64) (end uint64)) (first uint64, ok bool) {
	for {
		if q.next < q.end {
			if end := take(q.next); end >= q.next && end <= q.end {
				first, q.next = q.next, end
				q.given += end - first
				return first, true
			}
		}
		if q.behind == (numberRange{}) {
			return 0, false
		}
		q.numberRange, q.behind = q.behind, numberRange{}
		q.since, q.given = now, 0
	}
}

// most is how many numbers to take ahead. Callers hold mu.
func (q *taken) most(now time.Time) uint64 {
	if q.size == 0 {
		return firstNumbers
	}
	took := max(now.Sub(q.since), time.Millisecond)
	wanted := uint64(float64(q.given) * float64(numbersLast) / float64(took))
	return min(max(wanted, firstNumbers, q.size/numbersGrowth), numbersGrowth*q.size, maxNumbers)
}

// ahead is the end of a range from next on; at the end of all numbers it has none.
func ahead(next, most uint64) (end uint64) {
	if end = next + most; end < next {
		return next
	}
	return end
}

// takeBehind has the next range be taken while this one is half used, so that nobody waits for it.
func (q *taken) takeBehind(ctx context.Context, n *numbers, from source) {
	q.mu.Lock()
	most := q.most(n.now())
	q.mu.Unlock()
	var end uint64
	first, err := from(ctx, func(next uint64) uint64 {
		end = ahead(next, most)
		return end
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taking = false; err == nil && first >= q.end { // else who needs some asks, and sees the error
		q.behind, q.size = numberRange{first, end}, most
	}
}

// take hands out numbers: those that were taken, or others. again, if set, is to be called beside: takeBehind.
func (q *taken) take(ctx context.Context, n *numbers, from source, take func(next uint64) (end uint64)) (first uint64, again bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first, ok := q.give(n.now(), take)
	if !ok {
		most := q.most(n.now())
		var next, end uint64
		first, err = from(ctx, func(from uint64) uint64 {
			if next = take(from); next < from {
				return next // which is refused
			}
			end = ahead(next, most)
			return end
		})
		if err != nil {
			return 0, false, err
		}
		q.numberRange, q.size, q.given, q.since = numberRange{next, end}, most, next-first, n.now()
		return first, false, nil
	}
	again = !q.taking && q.behind == (numberRange{}) && q.end-q.next < q.size/2
	q.taking = q.taking || again
	return first, again, nil
}

// TakeNumbers is storage.Store's. Numbers of one process rise; those of several don't rise
// together.
func (s *Store) TakeNumbers(t catalog.TableName, take func(next uint64) (end uint64)) (storage.Taken, error) {
	q := s.numbers.find(t)
	from := func(ctx context.Context, take func(next uint64) (end uint64)) (uint64, error) {
		return s.first().TakeNumbers(ctx, t, take)
	}
	ctx, cancel := s.brief()
	defer cancel()
	first, again, err := q.take(ctx, &s.numbers, from, take)
	if err != nil {
		return storage.Taken{}, err
	}
	if again {
		go func() {
			ctx, cancel := s.brief()
			defer cancel()
			q.takeBehind(ctx, &s.numbers, from)
		}()
	}
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
