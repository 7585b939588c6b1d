package cover

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// world is what answers are of: shards with rows, their logs, and a virtual index, in memory. A transaction is in the
// log before it is visible, for as long as chance wants. broken is the rule that nobody keeps.
type world struct {
	mu      sync.Mutex
	broken  string
	ix      *catalog.Index
	a       *Answers
	on      [simShards]*simShard
	entries map[string]catalog.ShardSet
	rnd     *rand.Rand
}

type simShard struct {
	rows map[int]simRow // visible
	log  []*simTx
	more chan struct{} // closed and made anew when anything happens
	// begun and passed count the transactions that were handed over, and dealt with.
	begun, passed int
	stream        *Stream
}

type simTx struct {
	id            int
	before, after *simRow
	shown         bool
}

type simRow struct {
	key   string
	value int
}

const simShards = 2

func newWorld(seed uint64, broken string) *world {
	t := &catalog.Table{Schema: "s", Name: "t"}
	w := &world{
		broken: broken, a: New(1 << 20), entries: map[string]catalog.ShardSet{}, rnd: rand.New(rand.NewPCG(seed, 1)),
		ix: &catalog.Index{ID: 1, Table: t, Include: []*catalog.Column{{Name: "value"}}},
	}
	for i := range w.on {
		id := catalog.ShardID(i)
		t.Shards.Add(id)
		w.on[i] = &simShard{rows: map[int]simRow{}, more: make(chan struct{}), stream: w.a.Follow(id)}
	}
	return w
}

// happened wakes who waits for a shard. Callers hold mu.
func (s *simShard) happened() {
	close(s.more)
	s.more = make(chan struct{})
}

// await returns when cond, which is called with mu held, is true.
func (w *world) await(ctx context.Context, s *simShard, cond func() bool) error {
	for {
		w.mu.Lock()
		ok, more := cond(), s.more
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *world) pause() {
	w.mu.Lock()
	wait := time.Duration(w.rnd.IntN(150)) * time.Microsecond
	switch w.rnd.IntN(50) {
	case 0:
		wait *= 100
	case 1, 2:
		wait *= 20
	}
	w.mu.Unlock()
	time.Sleep(wait)
}

// commit has a transaction in the log, and then visible. at is its place there.
func (w *world) commit(s *simShard, id int, after *simRow) (at int) {
	w.mu.Lock()
	tx := &simTx{id: id, after: after}
	for _, l := range slices.Backward(s.log) { // rows are locked until they are visible: one writer has each
		if l.id == id {
			tx.before = l.after
			break
		}
	}
	s.log = append(s.log, tx)
	at = len(s.log)
	s.happened()
	w.mu.Unlock()
	w.pause()
	w.mu.Lock()
	defer w.mu.Unlock()
	if tx.shown = true; after == nil {
		delete(s.rows, id)
	} else {
		s.rows[id] = *after
	}
	s.happened()
	return at
}

// enter puts an entry into the index.
func (w *world) enter(key string, id catalog.ShardID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set := w.entries[key]
	set.Add(id)
	w.entries[key] = set
}

// simTrail is a stream's.
type simTrail struct {
	w *world
	s *simShard
}

func (t simTrail) Shown(ctx context.Context) error {
	if t.w.broken == "shown" {
		return nil
	}
	t.w.mu.Lock()
	n := t.s.begun
	t.w.mu.Unlock()
	return t.w.await(ctx, t.s, func() bool {
		return !slices.ContainsFunc(t.s.log[:n], func(tx *simTx) bool { return !tx.shown })
	})
}

func (t simTrail) CaughtUp(ctx context.Context) error {
	if t.w.broken == "passed" {
		return nil
	}
	t.w.mu.Lock()
	n := 0
	for i, tx := range t.s.log {
		if tx.shown {
			n = i + 1
		}
	}
	t.w.mu.Unlock()
	return t.w.await(ctx, t.s, func() bool { return t.s.passed >= n })
}

// follow reads a shard's log until ctx ends. Now and then its connection breaks; sometimes the log goes on with what
// isn't visible yet.
func (w *world) follow(ctx context.Context, id catalog.ShardID) {
	s := w.on[id]
	s.stream.Resumed()
	next := 0
	for {
		if w.await(ctx, s, func() bool { return len(s.log) > next }) != nil {
			return
		}
		w.pause()
		w.mu.Lock()
		breaks := w.rnd.IntN(40) == 0
		gap := breaks && w.rnd.IntN(2) == 0
		w.mu.Unlock()
		if breaks {
			if w.broken != "gap" {
				s.stream.Stopped()
			}
			w.pause()
			w.mu.Lock()
			for gap && next < len(s.log) && s.log[next].shown {
				next++
			}
			s.begun, s.passed = max(s.begun, next), max(s.passed, next)
			s.happened()
			w.mu.Unlock()
			if gap {
				w.scan()
			}
			s.stream.Resumed()
			continue
		}
		w.mu.Lock()
		tx := s.log[next]
		next++
		s.begun = max(s.begun, next)
		w.mu.Unlock()
		for _, row := range []*simRow{tx.before, tx.after} {
			if row != nil && w.broken != "changes" {
				s.stream.Change(w.ix, []byte(row.key))
			}
		}
		w.pause()
		if tx.after != nil {
			w.enter(tx.after.key, id)
		}
		s.stream.Committed()
		w.pause()
		w.mu.Lock()
		s.passed = max(s.passed, next)
		s.happened()
		w.mu.Unlock()
	}
}

// scan enters all rows.
func (w *world) scan() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range w.on {
		for _, r := range s.rows {
			set := w.entries[r.key]
			set.Add(catalog.ShardID(i))
			w.entries[r.key] = set
		}
	}
}

// read answers the rows with a key, as a session does.
func (w *world) read(key string) (rows map[int]simRow, kept bool) {
	if v, of := w.a.Get([]byte(key), false); of == Answered {
		return v.(map[int]simRow), true
	}
	var f *Fill
	begin := func() { f = w.a.Begin([]*catalog.Index{w.ix}) }
	on := func() {
		if f != nil && !f.On(w.ix, [][]byte{[]byte(key)}) {
			f = nil
		}
	}
	if w.broken != "before" && w.broken != "asked" {
		begin()
	}
	w.pause()
	w.mu.Lock()
	set := w.entries[key]
	w.mu.Unlock()
	w.pause()
	if w.broken == "asked" {
		begin()
	}
	if w.broken != "before" {
		on()
	}
	w.pause()
	rows = map[int]simRow{}
	for id := range set.All {
		w.mu.Lock()
		for n, r := range w.on[id].rows {
			if r.key == key {
				rows[n] = r
			}
		}
		w.mu.Unlock()
	}
	w.pause()
	if w.broken == "before" {
		begin()
		on()
	}
	if f != nil {
		f.Keep([]byte(key), rows, 100)
	}
	return rows, false
}

// simRules are those without which answers are stale.
var simRules = []string{"changes", "before", "asked", "shown", "written", "passed", "doubt", "gap"}

// TestSimulation: exact answers have what their writer has written, whatever order things happen in; without any one
// rule there are others.
func TestSimulation(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	for _, rule := range append([]string{""}, simRules...) {
		name := "whole"
		if rule != "" {
			name = "without " + rule
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const worlds = 30 // on a slow machine one may show nothing
			kept := int64(0)
			for range worlds {
				seed := rand.Uint64()
				lasts := 3 * time.Second
				if rule != "" {
					lasts = 10 * time.Second // it ends at the first
				}
				stale, more := newWorld(seed, rule).simulate(t, seed, lasts)
				kept += more
				t.Logf("seed %d: %d answers were kept", seed, more)
				switch {
				case rule == "" && stale != "":
					t.Fatal(stale)
				case rule == "" && kept >= 100, rule != "" && stale != "":
					return
				}
			}
			t.Errorf("%d answers were kept, and nobody needs the rule", kept)
		})
	}
}

// simulate returns the first answer that isn't what it should be, and how many were kept.
func (w *world) simulate(t *testing.T, seed uint64, lasts time.Duration) (stale string, kept int64) {
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	for i := range w.on {
		id := catalog.ShardID(i)
		work.Go(func() { w.follow(ctx, id) })
		work.Go(func() { w.on[id].stream.Tend(ctx, simTrail{w, w.on[id]}, func() bool { return true }) })
	}
	var mu sync.Mutex
	var given atomic.Int64
	wrong := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if stale == "" {
			stale = text
		}
		cancel()
	}
	const writers = 6
	var round [writers]atomic.Int64 // of a writer's keys: there are ever new ones
	keyOf := func(writer int, rnd *rand.Rand) string {
		return fmt.Sprint(writer, "/", round[writer].Load(), "/", rnd.IntN(3))
	}
	for i := range writers {
		straight := i%2 == 1 // to the shards
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)+10))
			mine := map[int]simRow{}
			for n := 0; ctx.Err() == nil; n++ {
				rest := 3 * time.Millisecond
				if !straight {
					rest = 30 * time.Millisecond // or hardly anything is kept
				}
				time.Sleep(time.Duration(rnd.Int64N(int64(rest))))
				round[i].Store(int64(n / 8))
				id := i*1000 + rnd.IntN(4)
				at := catalog.ShardID(id % simShards)
				s := w.on[at]
				var row *simRow
				if rnd.IntN(4) > 0 {
					row = &simRow{keyOf(i, rnd), n}
				}
				commit := func() int { return w.commit(s, id, row) }
				if straight {
					place := commit()
					if w.await(ctx, s, func() bool { return s.passed >= place }) != nil {
						return
					}
				} else {
					var writes *Writes
					var keys [][]byte // nil: it may be any
					if before, there := mine[id]; rnd.IntN(2) == 0 {
						if there {
							keys = append(keys, []byte(before.key))
						}
						if row != nil {
							keys = append(keys, []byte(row.key))
						}
					}
					if w.broken != "written" {
						writes = w.a.Write(nil, w.ix, keys, catalog.Only(at))
					}
					if row != nil {
						w.enter(row.key, at)
					}
					if rnd.IntN(8) == 0 { // its connection breaks, and it isn't known what comes of it
						doubt := writes.Share()
						writes.End()
						if w.broken == "doubt" {
							doubt.End()
						}
						w.pause()
						time.Sleep(5 * time.Millisecond)
						commit()
						if w.broken != "doubt" {
							doubt.End()
						}
					} else {
						commit()
						writes.End()
					}
				}
				if row == nil {
					delete(mine, id)
				} else {
					mine[id] = *row
				}
				for range 1 + rnd.IntN(4) {
					key := keyOf(i, rnd)
					want := maps.Clone(mine)
					maps.DeleteFunc(want, func(_ int, r simRow) bool { return r.key != key })
					got, was := w.read(key)
					if was {
						given.Add(1)
					}
					if was && !maps.Equal(got, want) && ctx.Err() == nil {
						wrong(fmt.Sprintf("key %s (straight: %v): %v; wanted %v", key, straight, got, want))
						return
					}
				}
			}
		})
	}
	for range 4 { // who reads all keys
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, rand.Uint64()))
			for ctx.Err() == nil {
				w.read(keyOf(rnd.IntN(writers), rnd))
			}
		})
	}
	<-ctx.Done()
	work.Wait()
	return stale, given.Load()
}
