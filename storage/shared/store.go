package shared

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// Options of a Store.
type Options struct {
	// Home is the first one, by the name Server. Homes adds more.
	Home   *home.Home
	Server string
	// Timeout bounds each call: what takes longer fails. 0: 5 s.
	Timeout time.Duration
	// Patience is how long a home may be away until its indexes are given up. 0: 10 s.
	Patience time.Duration
	// Called tells of each call that a statement waits for (lookup, write), by the home's name.
	// nil: nobody wants to know.
	Called func(home, call string, took time.Duration, err error)
	Logger *slog.Logger // nil: slog.Default()
}

// Store is one process's side of it.
type Store struct {
	// places are the homes, the first one first.
	places            atomic.Pointer[[]*place]
	timeout, patience time.Duration
	called            func(home, call string, took time.Duration, err error)
	log               *slog.Logger

	// refreshing is held while records are read; state is what they say.
	refreshing sync.Mutex
	state      atomic.Pointer[state]
	// written is the version that this process has written last.
	written atomic.Uint64
	queue   queue
	numbers numbers
	// self is this process, and gone says that another one is over: see Homes.
	self string
	gone func(ctx context.Context, process string) bool

	heard     heard
	guesses   guesses
	admitting sync.Mutex // see place.admits
	// lookup asks a home; careless takes answers of several moments. Fields for the simulation.
	lookup   func(ctx context.Context, name string, questions []home.Question) ([]home.Found, error)
	careless bool
}

// Open reads what is there. Close closes the home as well.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Called == nil {
		o.Called = func(string, string, time.Duration, error) {}
	}
	s := &Store{patience: o.Patience, timeout: o.Timeout, called: o.Called, log: o.Logger}
	first := newPlace(Server{Name: cmp.Or(o.Server, o.Home.Addr()), Config: home.Config{Addr: o.Home.Addr()}})
	first.home.Store(o.Home)
	s.places.Store(&[]*place{first})
	s.lookup = func(ctx context.Context, name string, questions []home.Question) ([]home.Found, error) {
		h, err := s.reach(name)
		if err != nil {
			return nil, err
		}
		return h.Lookup(ctx, questions)
	}
	s.state.Store(&state{records: map[string]map[string][]byte{}, schemas: map[string]uint64{}})
	s.queue.init()
	s.numbers.init()
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the homes.
func (s *Store) Close() error {
	s.quit()
	var errs []error
	for _, p := range s.homes() {
		if h := p.home.Load(); h != nil {
			errs = append(errs, h.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the shared store: %w", err)
	}
	return nil
}

// first is the home that has all that is of no index.
func (s *Store) first() *home.Home { return s.homes()[0].home.Load() }

// brief is for a call whose caller has no context.
func (s *Store) brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.timeout)
}

// Add is storage.Store's.
func (s *Store) Add(entries []storage.Entry) error {
	ctx, cancel := s.brief()
	defer cancel()
	return everywhere(s, s.state.Load().entriesOfParts(entries), func(e storage.Entry) catalog.IndexID { return e.Index },
		func(h *home.Home, part []storage.Entry) error { return h.Add(ctx, part) })
}

// Mark is storage.Store's.
func (s *Store) Mark(marks []storage.Mark) error {
	ctx, cancel := s.brief()
	defer cancel()
	return everywhere(s, s.state.Load().marksOfParts(marks), func(m storage.Mark) catalog.IndexID { return m.Index },
		func(h *home.Home, part []storage.Mark) error { return h.Mark(ctx, part) })
}

// Lookup is storage.Store's.
func (s *Store) Lookup(id catalog.IndexID, key []byte, components [][]byte) (storage.Found, error) {
	q := []storage.Question{{Index: id, Key: key, Components: components}}
	if err := s.ask(q); err != nil {
		return storage.Found{}, err
	}
	return q[0].Found, q[0].Err
}

// Range is storage.Store's.
func (s *Store) Range(id catalog.IndexID, from, to []byte, limit int) (found storage.Found, ok bool, err error) {
	q := []storage.Question{{Index: id, Ranged: true, From: from, To: to, Limit: limit}}
	if err := s.ask(q); err != nil {
		return found, false, err
	}
	return q[0].Found, q[0].Within, q[0].Err
}

func (s *Store) ask(questions []storage.Question) error {
	return s.Ask(context.Background(), questions)
}

// Removals is storage.Store's, over all indexes. Where a home doesn't answer no two are alike.
func (s *Store) Removals() uint64 {
	ctx, cancel := s.brief()
	defer cancel()
	all := fnv.New64a()
	for _, p := range s.homes() {
		h, err := p.reach()
		var n uint64
		if err == nil {
			n, err = h.Removals(ctx)
		}
		if s.answered(p, err) != nil {
			return unknown.Add(1) | 1<<63
		}
		_, _ = all.Write(binary.LittleEndian.AppendUint64(nil, n)) // never fails
	}
	return all.Sum64()
}

var unknown atomic.Uint64

// at returns the home of an index that is read, and its name.
func (s *Store) at(id catalog.IndexID) (*home.Home, string, error) {
	name, err := s.state.Load().reads(id)
	if err != nil {
		return nil, "", err
	}
	h, err := s.reach(name)
	return h, name, err
}

// Entries is storage.Store's. The walk takes as long as it takes.
func (s *Store) Entries(id catalog.IndexID, from []byte, building bool, fn func(key []byte, pairs []storage.ShardEpoch) (more bool)) error {
	return s.walk(id, func(h *home.Home, part catalog.IndexID, fn func(key []byte, pairs []storage.ShardEpoch) bool) error {
		if d, ok := s.Index(part); building && ok {
			var err error
			if h, err = s.reach(builtAt(d)); err != nil {
				return err
			}
		}
		return h.Entries(context.Background(), part, from, building, fn)
	}, fn)
}

// walk has do walk over each partition of an index, at its home, and calls fn in the order of the keys.
func (s *Store) walk(id catalog.IndexID, do func(*home.Home, catalog.IndexID, func(key []byte, pairs []storage.ShardEpoch) bool) error, fn func(key []byte, pairs []storage.ShardEpoch) bool) error {
	var walks []func(func([]byte, []storage.ShardEpoch) bool) error
	for _, part := range s.state.Load().parts(id) {
		h, _, err := s.at(part)
		if err != nil {
			return err
		}
		walks = append(walks, func(fn func([]byte, []storage.ShardEpoch) bool) error { return do(h, part, fn) })
	}
	return inOrder(walks, fn)
}

// EntriesOf is storage.Store's.
func (s *Store) EntriesOf(id catalog.IndexID, shard catalog.ShardID, from []byte, fn func(key []byte) (more bool)) error {
	return s.walk(id, func(h *home.Home, part catalog.IndexID, fn func(key []byte, pairs []storage.ShardEpoch) bool) error {
		return h.EntriesOf(context.Background(), part, shard, from, false, func(key []byte, _ storage.Epoch) bool { return fn(key, nil) })
	}, func(key []byte, _ []storage.ShardEpoch) bool { return fn(key) })
}

// Kept is storage.Store's.
func (s *Store) Kept(key []byte) []byte { return home.Kept(key) }

// OpenGate is storage.Store's, at the home that is read.
func (s *Store) OpenGate(id catalog.IndexID, shard catalog.ShardID, e storage.Epoch) (storage.Gate, error) {
	return s.openGates(s.state.Load().parts(id), func(id catalog.IndexID) (storage.Gate, error) { return s.openGate(id, shard, e) })
}

func (s *Store) openGate(id catalog.IndexID, shard catalog.ShardID, e storage.Epoch) (storage.Gate, error) {
	h, name, err := s.at(id)
	if err != nil {
		return storage.Gate{}, err
	}
	ctx, cancel := s.brief()
	defer cancel()
	gates, err := h.OpenGate(ctx, []catalog.IndexID{id}, shard, e)
	if err != nil {
		return storage.Gate{}, err
	}
	g, ok := gates[id]
	if !ok {
		return g, storage.ErrNoIndex
	}
	g.Home = name
	return g, nil
}

// Retire is storage.Store's, in one transaction, where the gate was opened. See rule own gate. An error may come behind what was
// removed from some partitions.
func (s *Store) Retire(r storage.Retirement) (removed, cleared int, err error) {
	of, err := s.state.Load().retirements(r)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range of {
		n, marks, err := s.retire(r)
		if err != nil {
			return 0, 0, err
		}
		removed, cleared = removed+n, max(cleared, marks)
	}
	return removed, cleared, nil
}

func (s *Store) retire(r storage.Retirement) (removed, cleared int, err error) {
	h, name, err := s.at(r.Index)
	if err == nil && name != r.Gate.Home {
		err = fmt.Errorf("the index has moved from %s to %s: %w", r.Gate.Home, name, storage.ErrSuperseded)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("retire from virtual index %d: %w", r.Index, err)
	}
	ctx, cancel := s.brief()
	defer cancel()
	defer s.place(name).marks.Store(nil)
	return h.Retire(ctx, r)
}

// Clear is storage.Store's, at all homes that the index is added to.
func (s *Store) Clear(id catalog.IndexID, shard catalog.ShardID, before storage.Epoch) (cleared int, err error) {
	ctx, cancel := s.brief()
	defer cancel()
	var most atomic.Int64
	err = everywhere(s, s.state.Load().parts(id), func(id catalog.IndexID) catalog.IndexID { return id }, func(h *home.Home, parts []catalog.IndexID) error {
		for _, part := range parts {
			n, err := h.Clear(ctx, part, shard, before)
			if err != nil {
				return err
			}
			most.Store(int64(n))
		}
		return nil
	})
	for _, p := range s.homes() {
		p.marks.Store(nil)
	}
	return int(most.Load()), err
}

// Unlog is storage.Store's, at all homes that the index is added to.
func (s *Store) Unlog(id catalog.IndexID, shard catalog.ShardID) (had bool, err error) {
	ctx, cancel := s.brief()
	defer cancel()
	var some atomic.Bool
	err = everywhere(s, s.state.Load().parts(id), func(id catalog.IndexID) catalog.IndexID { return id }, func(h *home.Home, parts []catalog.IndexID) error {
		for _, part := range parts {
			had, err := h.Unlog(ctx, part, shard)
			if err != nil {
				return err
			}
			if had {
				some.Store(true)
			}
		}
		return nil
	})
	return some.Load(), err
}

// Marks is storage.Store's: nil where the home doesn't answer.
func (s *Store) Marks(id catalog.IndexID) []storage.Mark {
	now := s.state.Load()
	var of []storage.Mark
	for _, part := range now.parts(id) {
		name, err := now.reads(part)
		p := s.place(name)
		if err != nil || p == nil {
			continue
		}
		for _, m := range s.marksAt(p) {
			if m.Index == part {
				of = append(of, m)
			}
		}
	}
	return now.marksOfWholes(of)
}

// AllMarks is storage.Store's: those of indexes where they are read. What lookups go by is in their
// answers: this is for jobs, and for people.
func (s *Store) AllMarks() (marks []storage.Mark) {
	now := s.state.Load()
	for _, p := range s.homes() {
		for _, m := range s.marksAt(p) {
			if name, err := now.reads(m.Index); err == nil && name == p.name {
				marks = append(marks, m)
			}
		}
	}
	return now.marksOfWholes(marks)
}

// marksAt are the marks that a home has, or had when it answered last.
func (s *Store) marksAt(p *place) []storage.Mark {
	ctx, cancel := s.brief()
	defer cancel()
	h, err := p.reach()
	if err == nil {
		var marks []storage.Mark
		if marks, err = h.AllMarks(ctx); err == nil {
			p.marks.Store(&marks)
			return marks
		}
	}
	if _, told := errors.AsType[*OutError](err); !told {
		s.log.Warn("the marks can't be read", "error", err)
	}
	if last := p.marks.Load(); last != nil {
		return *last
	}
	return nil
}

// Intend is storage.Store's: what was added is durable.
func (s *Store) Intend([]storage.Pair) (serial uint64, err error) { return 0, nil }

// Told is storage.Store's.
func (s *Store) Told([]storage.Pair, uint64) {}

// Position is storage.Store's. It is all members': who follows a log next goes on there.
func (s *Store) Position(shard catalog.ShardID) (string, error) {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().Place(ctx, shard)
}

// KeepPosition is storage.Store's.
func (s *Store) KeepPosition(shard catalog.ShardID, position string) error {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().KeepPlace(ctx, shard, position)
}

// Lost is storage.Store's: nothing is.
func (s *Store) Lost() []storage.Pair { return nil }

// Unclean is storage.Store's. What a process that died has left is stale at worst.
func (s *Store) Unclean() []storage.Pair { return nil }

// Recovered is storage.Store's.
func (s *Store) Recovered() error { return nil }

// Writable is storage.Store's: the home says so when it is written to.
func (s *Store) Writable() error { return nil }

// Sync is storage.Store's.
func (s *Store) Sync() error { return nil }

// Stats is storage.Store's.
func (s *Store) Stats() storage.Stats {
	out := storage.Stats{Indexes: map[catalog.IndexID]storage.IndexStats{}}
	for _, d := range s.Indexes() {
		out.Indexes[d.ID] = storage.IndexStats{Approximate: true}
	}
	for _, m := range s.AllMarks() {
		if of, ok := out.Indexes[m.Index]; ok {
			of.Unknown.Add(m.Shard)
			out.Indexes[m.Index] = of
		}
	}
	for _, p := range s.homes() {
		s.count(p, &out)
	}
	return out
}

func (s *Store) count(p *place, out *storage.Stats) {
	h, err := p.reach()
	if err != nil {
		return
	}
	ctx, cancel := s.brief()
	defer cancel()
	counts, garbage, err := h.Counts(ctx)
	if err != nil {
		s.log.Warn("the entries can't be counted", "error", err)
	}
	out.Garbage += garbage
	for id, n := range counts {
		whole := s.state.Load().whole(id)
		of, ok := out.Indexes[whole]
		if d, known := s.Index(id); ok && known && d.Home == p.name {
			of.Entries += n
			out.Indexes[whole] = of
		}
	}
}

// Repartition is storage.Store's.
func (s *Store) Repartition(context.Context, catalog.IndexID, int, func(float64)) error {
	return ErrPartitions
}

// DeleteGarbage is storage.Store's.
func (s *Store) DeleteGarbage(ctx context.Context, slice int) (more bool, err error) {
	for _, p := range s.homes() {
		h, err := p.reach()
		if err != nil {
			continue // mended when it is back
		}
		if more, err := h.DeleteGarbage(ctx, slice); err != nil || more {
			return more, err
		}
	}
	return false, nil
}
