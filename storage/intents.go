package storage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// intents are the write-intents: for each (table, shard) with writes since it
// was last quiet, a synced record. A power loss may take unsynced commits with
// it, but never the record, which so names where to look.
//
// A record's life:
//
//	Intend (first write)   record set, synced, pair active
//	Intend (later ones)    a map lookup
//	lifter (idle)          pair inactive -> everything synced -> record deleted
//
// A pair's first write has the store's serial jump, and those who route statements have the
// shard told of it before they send any (Told): a store that is put back to before that
// notices it. See serial.go.
//
// Add and Mark look for their pair at their end (ensure), when what they were
// asked for is committed, by them or by others. If the pair is active then, the
// lifter's sync comes after that commit; if not, the intent is set anew and
// synced, and the commit with it. So it does not matter how long a statement
// takes from its Intend to its Add.
type intents struct {
	syncFile func(*os.File) error

	mu     sync.RWMutex
	active map[Pair]*intent
	// wanted are pairs whose callers wait for slow: who has it sets all.
	wanted map[Pair]struct{}
	// kept are the pairs found at Open that Recovered has not been told about:
	// true if a power loss came between. Their records are not touched.
	kept map[Pair]bool

	// slow is held by whoever writes records.
	slow sync.Mutex
}

type intent struct {
	// last is when the pair was last written to, in Unix nanoseconds.
	last atomic.Int64
	// serial is that of its setting, or a later one. told: the pair's shard has it.
	serial uint64
	told   atomic.Bool
}

func (in *intents) load(s *Store) error {
	in.active, in.wanted, in.kept = map[Pair]*intent{}, map[Pair]struct{}{}, map[Pair]bool{}
	return s.scan([]byte{kindIntent}, func(key, val []byte) (bool, error) {
		p, err := parseIntentKey(key)
		if err != nil {
			return false, err
		}
		in.kept[p] = s.opt.BootID == "" || string(val) != s.opt.BootID
		return true, nil
	})
}

// lose takes what was found for lost, as after a power loss; any: there was something.
// REQUIRES: it is called in Open.
func (in *intents) lose() (any bool) {
	for p := range in.kept {
		in.kept[p] = true
	}
	return len(in.kept) > 0
}

func (in *intents) len() int {
	in.mu.RLock()
	defer in.mu.RUnlock()
	n := len(in.active)
	for p := range in.kept {
		if in.active[p] == nil {
			n++
		}
	}
	return n
}

func (in *intents) found(lost bool) []Pair {
	in.mu.RLock()
	defer in.mu.RUnlock()
	var pairs []Pair
	for p, l := range in.kept {
		if l == lost {
			pairs = append(pairs, p)
		}
	}
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Shard, b.Shard))
	})
	return pairs
}

// Lost names the pairs that had a write-intent when the machine lost power:
// entries and marks of their last writes may be gone. The caller marks all
// indexes of the table unknown on the shard, enqueues a rescan, and calls
// Recovered.
func (s *Store) Lost() []Pair { return s.intents.found(true) }

// Unclean names the pairs that had a write-intent when the process died.
// Nothing is lost, but jobs may not have been enqueued, so stale entries may
// have stayed. The caller enqueues maintain_index, and calls Recovered.
func (s *Store) Unclean() []Pair { return s.intents.found(false) }

// Recovered says that the marks and jobs for all of Lost and Unclean are in
// the store. Before it, those pairs are reported again by the next Open.
func (s *Store) Recovered() error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	in := &s.intents
	in.slow.Lock()
	defer in.slow.Unlock()
	if len(in.kept) == 0 {
		return nil
	}
	if err := s.space.reclaimable(); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	// Unsynced: if a power loss undoes it, the pairs are reported once more.
	pairs := slices.Collect(maps.Keys(in.kept))
	err := s.updateEach(len(pairs), func(w *changes, i int) error {
		if in.isActive(pairs[i]) {
			return w.set(intentKey(pairs[i]), []byte(s.opt.BootID))
		}
		return w.delete(intentKey(pairs[i]))
	})
	if err != nil {
		return fmt.Errorf("end recovery: %w", err)
	}
	in.mu.Lock()
	in.kept = map[Pair]bool{}
	in.mu.Unlock()
	return nil
}

func (in *intents) isActive(p Pair) bool {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.active[p] != nil
}

// touch reports whether p is active, and its shard told, and puts its lifting off.
func (in *intents) touch(p Pair, now int64) (active, told bool) {
	in.mu.RLock()
	defer in.mu.RUnlock()
	it := in.active[p]
	if it == nil {
		return false, false
	}
	it.last.Store(now)
	return true, it.told.Load()
}

// Intend sets the write-intents of pairs, before a statement that may change
// rows of an indexed table is sent. The first one after a quiet time waits for
// a sync; the others cost a map lookup. A serial that isn't 0 is to be told to the
// pairs' shards before the statement is sent, and then Told.
func (s *Store) Intend(pairs []Pair) (serial uint64, err error) {
	if !s.gate.enter() {
		return 0, ErrClosed
	}
	defer s.gate.leave()
	now := s.opt.Now().UnixNano()
	missing, untold := false, false
	for _, p := range pairs {
		active, told := s.intents.touch(p, now)
		missing, untold = missing || !active, untold || !told
	}
	if missing {
		err = s.intents.set(s, pairs)
	}
	if err != nil || !untold {
		return 0, err
	}
	return s.Serial(), nil
}

// Told says that the pairs' shards have been told the serial.
func (s *Store) Told(pairs []Pair, serial uint64) {
	in := &s.intents
	in.mu.RLock()
	defer in.mu.RUnlock()
	for _, p := range pairs {
		// It may have been lifted and set anew meanwhile.
		if it := in.active[p]; it != nil && it.serial <= serial {
			it.told.Store(true)
		}
	}
}

// WrittenSince are the shards of which tables have been written to since; all where
// definitions have changed.
func (s *Store) WrittenSince(t time.Time) (set catalog.ShardSet) {
	since := t.UnixNano()
	if s.defined.Load() >= since {
		for i := range set {
			set[i] = ^uint64(0)
		}
		return set
	}
	in := &s.intents
	in.mu.RLock()
	defer in.mu.RUnlock()
	for p, it := range in.active {
		if it.last.Load() >= since {
			set.Add(p.Shard)
		}
	}
	return set
}

// set makes pairs active that aren't.
func (in *intents) set(s *Store, pairs []Pair) error {
	if err := s.space.writable(); err != nil {
		return err
	}
	in.mu.Lock()
	for _, p := range pairs {
		in.wanted[p] = struct{}{}
	}
	in.mu.Unlock()

	in.slow.Lock()
	defer in.slow.Unlock()
	in.mu.Lock()
	set := in.wanted
	in.wanted = map[Pair]struct{}{}
	// Whoever took ours may have failed.
	for _, p := range pairs {
		set[p] = struct{}{}
	}
	for p := range set {
		if in.active[p] != nil {
			delete(set, p)
		}
	}
	in.mu.Unlock()
	if len(set) == 0 {
		return nil
	}
	missed := slices.Collect(maps.Keys(set))
	err := s.updateEach(len(missed), func(w *changes, i int) error {
		// A kept record says more than a new one would.
		if _, kept := in.kept[missed[i]]; kept {
			return nil
		}
		return w.set(intentKey(missed[i]), []byte(s.opt.BootID))
	})
	if err == nil {
		err = s.serial.jump(s)
	}
	if err != nil {
		return fmt.Errorf("set write-intent: %w", err)
	}
	now := s.opt.Now().UnixNano()
	in.mu.Lock()
	defer in.mu.Unlock()
	for p := range set {
		it := &intent{serial: s.Serial()}
		it.last.Store(now)
		in.active[p] = it
	}
	return nil
}

// ensure is called at the end of an Add or Mark for the pair: see intents.
func (in *intents) ensure(s *Store, p Pair) error {
	if active, _ := in.touch(p, s.opt.Now().UnixNano()); active {
		return nil
	}
	return in.set(s, []Pair{p})
}

// rename sets the intents of one table for another (Shard is ignored in both).
func (in *intents) rename(s *Store, from, to Pair) error {
	var pairs []Pair
	in.mu.RLock()
	for p := range in.active {
		if p.Schema == from.Schema && p.Table == from.Table {
			pairs = append(pairs, Pair{to.Schema, to.Table, p.Shard})
		}
	}
	in.mu.RUnlock()
	return in.set(s, pairs)
}

// runLifter lifts idle intents until ctx ends.
func (s *Store) runLifter(ctx context.Context) {
	t := time.NewTicker(max(s.opt.Quiet/4, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := s.lift(); err != nil {
				s.opt.Logger.Warn("write-intents stay set", "error", err)
			}
		}
	}
}

// lift deletes the records of idle pairs. A pair that is wanted meanwhile
// waits for slow and then sets its record anew.
func (s *Store) lift() error {
	in := &s.intents
	limit := s.opt.Now().Add(-s.opt.Quiet).UnixNano()
	if !in.anyIdle(limit) {
		return nil
	}
	if s.space.reclaimable() != nil {
		// Known to the operator already; the records can wait.
		return nil
	}
	in.slow.Lock()
	defer in.slow.Unlock()
	var idle []Pair
	in.mu.Lock()
	for p, it := range in.active {
		// A kept pair may go inactive too, but its record stays.
		if it.last.Load() <= limit {
			delete(in.active, p)
			if _, kept := in.kept[p]; !kept {
				idle = append(idle, p)
			}
		}
	}
	in.mu.Unlock()
	if len(idle) == 0 {
		return nil
	}
	if err := s.sync(); err != nil {
		return err
	}
	return in.delete(s, idle)
}

func (in *intents) delete(s *Store, pairs []Pair) error {
	return s.updateEach(len(pairs), func(w *changes, i int) error { return w.delete(intentKey(pairs[i])) })
}

func (in *intents) anyIdle(limit int64) bool {
	in.mu.RLock()
	defer in.mu.RUnlock()
	for _, it := range in.active {
		if it.last.Load() <= limit {
			return true
		}
	}
	return false
}

// deleteAll deletes the records of all pairs, after everything was synced.
func (in *intents) deleteAll(s *Store) error {
	var pairs []Pair
	for p := range in.active {
		if _, kept := in.kept[p]; !kept {
			pairs = append(pairs, p)
		}
	}
	return in.delete(s, pairs)
}
