package indexer

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// tracker knows, for each shard, the epochs in which the statements and
// transactions that are still open there were registered.
//
// Invariant: a shard that was not settled since the process started, or since somebody
// else had it, has an open registration at epoch 0, which stands for whatever these left
// running there.
type tracker struct {
	now    func() storage.Epoch
	shards [catalog.MaxShards]track
	// block waits until the shard's oldest registration is min or later. It is
	// a field so that the simulation can schedule the wait.
	block func(ctx context.Context, id catalog.ShardID, min storage.Epoch) error
	// freed is called, without locks, when the oldest registration of a shard
	// that somebody asked about has ended.
	freed func(catalog.ShardID)

	doubtMu sync.Mutex
	// doubted is called, without locks, when a registration became in doubt.
	doubted func()
	doubts  []*doubt
}

type track struct {
	mu sync.Mutex
	// open counts registrations by epoch, rising. Invariant: no count is zero, so that it
	// stays short beside a transaction that is open for days.
	open []openCount
	// wake is closed when the oldest registration ends; nil when nobody waits.
	wake chan struct{}
	// settled: the registration at epoch 0 has ended.
	settled bool
	// unsettled is how often it was begun anew.
	unsettled int
}

type openCount struct {
	epoch storage.Epoch
	n     int
}

// doubt is a registration whose statement's outcome is unknown.
type doubt struct {
	shard  catalog.ShardID
	epoch  storage.Epoch
	thread storage.Thread
	jobs   []Maintenance
	// ddl: what the tables are is in doubt, too.
	ddl bool
}

func newTracker(now func() storage.Epoch) *tracker {
	t := &tracker{now: now}
	t.block = t.wait
	return t
}

// Open is the registration of one statement or transaction. It belongs to one
// goroutine.
type Open struct {
	tracker *tracker
	regs    []registration
	inline  [4]registration
}

type registration struct {
	shard catalog.ShardID
	epoch storage.Epoch
}

// Begin registers a statement or transaction on shards.
func (t *tracker) Begin(set catalog.ShardSet) *Open {
	o := &Open{tracker: t}
	o.regs = o.inline[:0]
	o.Extend(set)
	return o
}

// Extend registers on more shards; those already registered keep their epoch.
func (o *Open) Extend(set catalog.ShardSet) {
	for id := range set.All {
		if _, ok := o.Epoch(id); !ok {
			o.regs = append(o.regs, registration{id, o.tracker.begin(id)})
		}
	}
}

// Epoch returns the epoch in which the statement was registered on a shard;
// ok is false if it is not registered there (any more).
func (o *Open) Epoch(id catalog.ShardID) (e storage.Epoch, ok bool) {
	for _, r := range o.regs {
		if r.shard == id {
			return r.epoch, true
		}
	}
	return 0, false
}

// End ends all registrations that are left. A second End does nothing.
func (o *Open) End() {
	for _, r := range o.regs {
		o.tracker.end(r.shard, r.epoch)
	}
	o.regs = o.regs[:0]
}

// InDoubt gives the registration on a shard away, because the statement's
// outcome there is unknown (the connection broke, or was killed). It stays open
// until the server's thread is known to be gone, which is ended for that when it
// sleeps; then it ends and jobs are enqueued. Nobody may use the connection any more.
func (o *Open) InDoubt(id catalog.ShardID, thread storage.Thread, jobs ...Maintenance) {
	o.inDoubt(id, thread, jobs, false)
}

// DDLInDoubt is InDoubt for DDL: the schema is read again before it ends.
//
// Counter-example: ALTER TABLE t MODIFY email ... COLLATE utf8mb4_bin waits for a lock
// on a shard, and its connection breaks. The schema, read right after it, is as it was;
// the index is built by that. Then the shard does it.
//
// Without a thread the schema alone is in doubt.
func (o *Open) DDLInDoubt(id catalog.ShardID, thread storage.Thread) {
	o.inDoubt(id, thread, nil, true)
}

func (o *Open) inDoubt(id catalog.ShardID, thread storage.Thread, jobs []Maintenance, ddl bool) {
	for i, r := range o.regs {
		if r.shard == id {
			o.regs = append(o.regs[:i], o.regs[i+1:]...)
			t := o.tracker
			t.doubtMu.Lock()
			t.doubts = append(t.doubts, &doubt{id, r.epoch, thread, jobs, ddl})
			doubted := t.doubted
			t.doubtMu.Unlock()
			if doubted != nil {
				doubted()
			}
			return
		}
	}
}

func (t *tracker) begin(id catalog.ShardID) storage.Epoch {
	s := &t.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	// Read under the lock: an epoch read before it could be lower than a
	// horizon computed meanwhile, and the scan with that horizon would remove
	// what this statement is about to confirm.
	e := t.now()
	if n := len(s.open); n > 0 && s.open[n-1].epoch == e {
		s.open[n-1].n++
	} else {
		s.open = append(s.open, openCount{e, 1})
	}
	return e
}

func (t *tracker) end(id catalog.ShardID, e storage.Epoch) {
	s := &t.shards[id]
	s.mu.Lock()
	woken := false
	i, found := slices.BinarySearchFunc(s.open, e, func(o openCount, e storage.Epoch) int { return cmp.Compare(o.epoch, e) })
	if found {
		s.open[i].n--
		if s.open[i].n == 0 {
			s.open = slices.Delete(s.open, i, i+1)
			woken = i == 0 && s.wakeLocked()
		}
	}
	s.mu.Unlock()
	if woken && t.freed != nil {
		t.freed(id)
	}
}

// wakeLocked tells those who wait for the oldest registration to end.
func (s *track) wakeLocked() bool {
	if s.wake == nil {
		return false
	}
	close(s.wake)
	s.wake = nil
	return true
}

// oldestLocked is the epoch of the oldest registration; ok is false if there is
// none.
func (s *track) oldestLocked() (e storage.Epoch, ok bool) {
	if !s.settled {
		return 0, true
	}
	if len(s.open) == 0 {
		return 0, false
	}
	return s.open[0].epoch, true
}

// Horizon is the oldest epoch in which something still open on the shard was
// registered, or the current epoch if nothing is open.
func (t *tracker) Horizon(id catalog.ShardID) storage.Epoch {
	s := &t.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.oldestLocked(); ok {
		return e
	}
	return t.now()
}

// Passed reports whether everything that was registered on the shard before
// epoch min has ended.
func (t *tracker) Passed(id catalog.ShardID, min storage.Epoch) bool {
	s := &t.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.oldestLocked(); !ok || e >= min {
		return true
	}
	if s.wake == nil {
		s.wake = make(chan struct{}) // so that freed is called
	}
	return false
}

// Wait waits until everything that was registered on the shard before epoch
// min has ended, or ctx.
func (t *tracker) Wait(ctx context.Context, id catalog.ShardID, min storage.Epoch) error {
	return t.block(ctx, id, min)
}

func (t *tracker) wait(ctx context.Context, id catalog.ShardID, min storage.Epoch) error {
	s := &t.shards[id]
	for {
		s.mu.Lock()
		if e, ok := s.oldestLocked(); !ok || e >= min {
			s.mu.Unlock()
			return nil
		}
		if s.wake == nil {
			s.wake = make(chan struct{})
		}
		wake := s.wake
		s.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settle ends the registration at epoch 0: nothing of a previous life runs on
// the shard. unsettled is what toSettle told before that was found out.
func (t *tracker) settle(id catalog.ShardID, unsettled int) {
	s := &t.shards[id]
	s.mu.Lock()
	woken := false
	if !s.settled && s.unsettled == unsettled {
		s.settled = true
		woken = s.wakeLocked()
	}
	s.mu.Unlock()
	if woken && t.freed != nil {
		t.freed(id)
	}
}

// unsettle begins the registration at epoch 0 anew.
func (t *tracker) unsettle(id catalog.ShardID) {
	s := &t.shards[id]
	s.mu.Lock()
	s.settled = false
	s.unsettled++
	s.mu.Unlock()
	t.doubtMu.Lock()
	doubted := t.doubted
	t.doubtMu.Unlock()
	if doubted != nil {
		doubted()
	}
}

func (t *tracker) isSettled(id catalog.ShardID) bool {
	_, open := t.toSettle(id)
	return !open
}

// toSettle reports that the registration at epoch 0 is open, and which one it is.
func (t *tracker) toSettle(id catalog.ShardID) (unsettled int, open bool) {
	s := &t.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsettled, !s.settled
}

// onDoubt sets what is called when a registration becomes in doubt.
func (t *tracker) onDoubt(fn func()) {
	t.doubtMu.Lock()
	defer t.doubtMu.Unlock()
	t.doubted = fn
}

// doubtsOn lists the registrations in doubt on a shard.
func (t *tracker) doubtsOn(id catalog.ShardID) []*doubt {
	t.doubtMu.Lock()
	defer t.doubtMu.Unlock()
	var on []*doubt
	for _, d := range t.doubts {
		if d.shard == id {
			on = append(on, d)
		}
	}
	return on
}

// resolve ends a registration that was in doubt.
func (t *tracker) resolve(d *doubt) {
	t.doubtMu.Lock()
	i := slices.Index(t.doubts, d)
	if i >= 0 {
		t.doubts = slices.Delete(t.doubts, i, i+1)
	}
	t.doubtMu.Unlock()
	if i >= 0 {
		t.end(d.shard, d.epoch)
	}
}
