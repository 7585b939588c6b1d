package indexer

import (
	"context"
	"errors"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// TestEpochUnderTheLock: an epoch that was read before the shard's lock was taken could be
// lower than a horizon that is told meanwhile.
func TestEpochUnderTheLock(t *testing.T) {
	t.Parallel()
	asked := 0
	var tr *tracker
	tr = newTracker(func() storage.Epoch {
		asked++
		if s := &tr.shards[3]; s.mu.TryLock() {
			s.mu.Unlock()
			t.Error("the epoch is read without the lock")
		}
		return 5
	})
	tr.settle(3, 0)
	if h := tr.Horizon(3); h != 5 {
		t.Errorf("horizon %d", h)
	}
	tr.Begin(catalog.Only(3)).End()
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// TestUnsettled: what a previous life, or another Shunt, has left running on a shard counts
// as open since epoch 0.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	tr := newTracker(func() storage.Epoch { return 5 })
	horizon := func(when string, want storage.Epoch) {
		t.Helper()
		if h := tr.Horizon(3); h != want || tr.Passed(3, 5) != (want == 5) {
			t.Errorf("%s: horizon %d, want %d", when, h, want)
		}
	}
	first, open := tr.toSettle(3)
	if !open {
		t.Error("a new life finds the shard settled")
	}
	horizon("at the start", 0)
	tr.settle(3, first)
	horizon("settled", 5)
	tr.unsettle(3)
	horizon("another had it", 0)
	tr.settle(3, first)
	horizon("what was found out before that", 0)
	again, _ := tr.toSettle(3)
	tr.settle(3, again)
	horizon("settled again", 5)
}

// TestExtendKeepsTheEpoch: what a transaction adds is as old as its registration.
func TestExtendKeepsTheEpoch(t *testing.T) {
	t.Parallel()
	now := storage.Epoch(5)
	tr := newTracker(func() storage.Epoch { return now })
	tr.settle(3, 0)
	o := tr.Begin(catalog.Only(3))
	now = 6
	o.Extend(catalog.Only(3).Union(catalog.Only(4)))
	if len(o.regs) != 2 {
		t.Errorf("%d registrations on two shards", len(o.regs))
	}
	if e, _ := o.Epoch(3); e != 5 || tr.Horizon(3) != 5 {
		t.Errorf("registered in epoch %d, horizon %d", e, tr.Horizon(3))
	}
	if e, _ := o.Epoch(4); e != 6 {
		t.Errorf("registered in epoch %d", e)
	}
	o.End()
	if h := tr.Horizon(3); h != 6 {
		t.Errorf("horizon %d when it has ended", h)
	}
}

// TestOldRegistration: one transaction that stays open has nothing kept of what begins and ends
// beside it, in whatever order.
func TestOldRegistration(t *testing.T) {
	t.Parallel()
	now := storage.Epoch(1)
	tr := newTracker(func() storage.Epoch { return now })
	tr.settle(3, 0)
	var freed int
	tr.freed = func(catalog.ShardID) { freed++ }
	old := tr.Begin(catalog.Only(3))
	if tr.Passed(3, 2) {
		t.Error("the oldest has ended")
	}
	for range 1000 {
		now++
		first := tr.Begin(catalog.Only(3))
		now++
		second := tr.Begin(catalog.Only(3))
		third := tr.Begin(catalog.Only(3))
		first.End()
		second.End()
		third.End()
	}
	if n, h := len(tr.shards[3].open), tr.Horizon(3); n != 1 || h != 1 || freed != 0 {
		t.Errorf("%d epochs are kept, the horizon is %d, freed %d times", n, h, freed)
	}
	last := tr.Begin(catalog.Only(3))
	old.End()
	if h := tr.Horizon(3); h != now || freed != 1 {
		t.Errorf("the horizon is %d of %d, freed %d times", h, now, freed)
	}
	last.End()
	if n := len(tr.shards[3].open); n != 0 {
		t.Errorf("%d epochs are kept of nothing", n)
	}
}

// TestBounds: what is registered while a snapshot is opened lies between its bounds, though
// it ends at once.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.until("the shard is settled", func() bool { return b.x.tracker.isSettled(0) })
	var epoch storage.Epoch
	bounds, err := b.x.around(0, func() error {
		o := b.x.Begin(catalog.Only(0))
		defer o.End()
		epoch, _ = o.Epoch(0)
		_, err := b.store.Advance()
		return err
	})
	if err != nil || bounds.horizon > epoch || bounds.after <= epoch {
		t.Errorf("bounds %+v of epoch %d, error %v", bounds, epoch, err)
	}
}

// TestHeldLookups: while lookups of several keys are registered, a row that goes from one key to
// another is found by one of them (planner.Indexes.Hold).
func TestHeldLookups(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.shards[1].set(1, "b")
	b.create()
	b.until("no job of the build is left", func() bool { return len(b.store.Jobs()) == 0 })
	held := b.x.Begin(b.index().Table.Shards)
	b.expect("a")
	b.update(1, 1, "a")
	b.until("its scan is held back", func() bool { return b.happened("held back") })
	b.expect("b", 1)
	held.End()
	b.until("the entry is retired", func() bool { return len(b.shardsOf("b")) == 0 })
	b.expect("a", 1)
}

// TestAwaitOpen waits for what is registered in this epoch too.
func TestAwaitOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.until("the shard is settled", func() bool { return b.x.tracker.isSettled(0) })
	o := b.x.Begin(catalog.Only(0))
	errOpen := errors.New("still open")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOpen)
	if err := b.x.AwaitOpen(ctx, catalog.Only(0)); !errors.Is(err, errOpen) {
		t.Errorf("beside an open one: %v", err)
	}
	o.End()
	if err := b.x.AwaitOpen(t.Context(), catalog.Only(0)); err != nil {
		t.Error(err)
	}
}
