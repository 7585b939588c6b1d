package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// registrations knows, for each shard, the epochs in which the statements and
// transactions that are still open there were registered.
//
// Invariant: a shard that was not settled since the process started, or since somebody
// else had it, has an open registration at epoch 0, which stands for whatever these left
// running there.
type registrations struct {
	// now is the clock that all shards have in common; nil: each has its own, whose
	// epoch is adopted.
	now    func() storage.Epoch
	shards [catalog.MaxShards]track
	// freed is called, without locks, when the oldest registration of a shard
	// that somebody asked about has ended.
	freed func()
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
	// adopted is the shard's epoch, as far as this process has heard of it, and join the
	// number under which it is there: both of shards with clocks of their own.
	adopted storage.Epoch
	join    uint64
	// life is that of the server that was joined, or answered last as this process tried to, and inUse the first that is
	// in use: see Replace.
	life, inUse uint64
}

type openCount struct {
	epoch storage.Epoch
	n     int
}

func compareOpen(o openCount, e storage.Epoch) int { return cmp.Compare(o.epoch, e) }

// Register is Registrations'.
func (t *registrations) Register(id catalog.ShardID) Registration {
	s := &t.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	// Read under the lock: an epoch read before it could be lower than a
	// horizon computed meanwhile, and the scan with that horizon would remove
	// what this statement is about to confirm.
	e := t.presentLocked(s)
	switch n := len(s.open); {
	case n == 0 || s.open[n-1].epoch < e:
		s.open = append(s.open, openCount{e, 1})
	case s.open[n-1].epoch == e:
		s.open[n-1].n++
	default: // the shard has forgotten epochs
		i, found := slices.BinarySearchFunc(s.open, e, compareOpen)
		if !found {
			s.open = slices.Insert(s.open, i, openCount{e, 0})
		}
		s.open[i].n++
	}
	return Registration{id, e, s.join}
}

// presentLocked is the epoch in which registrations on a shard are made.
func (t *registrations) presentLocked(s *track) storage.Epoch {
	if t.now == nil {
		return s.adopted
	}
	return t.now()
}

// End is Registrations'.
func (t *registrations) End(r Registration) {
	s := &t.shards[r.Shard]
	s.mu.Lock()
	woken := false
	i, found := slices.BinarySearchFunc(s.open, r.Epoch, compareOpen)
	if found {
		s.open[i].n--
		if s.open[i].n == 0 {
			s.open = slices.Delete(s.open, i, i+1)
			woken = i == 0 && s.wakeLocked()
		}
	}
	s.mu.Unlock()
	if woken {
		t.freed()
	}
}

// Opened is how many registrations are open, on all shards.
func (t *registrations) Opened() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, o := range s.open {
			n += o.n
		}
		s.mu.Unlock()
	}
	return n
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

// Horizon is Registrations'.
func (t *registrations) Horizon(_ context.Context, id catalog.ShardID) (storage.Epoch, error) {
	s := &t.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.oldestLocked(); ok {
		return e, nil
	}
	return t.presentLocked(s), nil
}

// Passed is Registrations'.
func (t *registrations) Passed(id catalog.ShardID, min storage.Epoch) bool {
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

// Wait is Registrations'.
func (t *registrations) Wait(ctx context.Context, id catalog.ShardID, min storage.Epoch) error {
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

// Settle is Lives'.
func (t *registrations) Settle(id catalog.ShardID, unsettled int) {
	s := &t.shards[id]
	s.mu.Lock()
	woken := false
	if !s.settled && s.unsettled == unsettled {
		s.settled = true
		woken = s.wakeLocked()
	}
	s.mu.Unlock()
	if woken {
		t.freed()
	}
}

// Unsettle is Lives'.
func (t *registrations) Unsettle(id catalog.ShardID) {
	s := &t.shards[id]
	s.mu.Lock()
	s.settled = false
	s.unsettled++
	s.mu.Unlock()
}

// ToSettle is Lives'.
func (t *registrations) ToSettle(id catalog.ShardID) (unsettled int, open bool) {
	s := &t.shards[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsettled, !s.settled
}
