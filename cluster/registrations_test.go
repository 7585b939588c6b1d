package cluster

import (
	"testing"

	"github.com/shunt-sql/shunt/storage"
)

// clock is a store that nobody advances.
type clock struct {
	Store
	now func() storage.Epoch
}

func (c clock) Epoch() storage.Epoch            { return c.now() }
func (c clock) Advance() (storage.Epoch, error) { return c.now(), nil }

func horizonOf(t *testing.T, l *Local) storage.Epoch {
	t.Helper()
	h, err := l.Horizon(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestEpochUnderTheLock: an epoch that was read before the shard's lock was taken could be
// lower than a horizon that is told meanwhile.
func TestEpochUnderTheLock(t *testing.T) {
	t.Parallel()
	asked := 0
	var l *Local
	l = NewLocal(clock{now: func() storage.Epoch {
		asked++
		if s := &l.shards[3]; s.mu.TryLock() {
			s.mu.Unlock()
			t.Error("the epoch is read without the lock")
		}
		return 5
	}})
	l.Settle(3, 0)
	if h := horizonOf(t, l); h != 5 {
		t.Errorf("horizon %d", h)
	}
	l.End(l.Register(3))
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// TestUnsettled: what a previous life, or another Shunt, has left running on a shard counts
// as open since epoch 0.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	l := NewLocal(clock{now: func() storage.Epoch { return 5 }})
	horizon := func(when string, want storage.Epoch) {
		t.Helper()
		if h := horizonOf(t, l); h != want || l.Passed(3, 5) != (want == 5) {
			t.Errorf("%s: horizon %d, want %d", when, h, want)
		}
	}
	first, open := l.ToSettle(3)
	if !open {
		t.Error("a new life finds the shard settled")
	}
	horizon("at the start", 0)
	l.Settle(3, first)
	horizon("settled", 5)
	l.Unsettle(3)
	horizon("another had it", 0)
	l.Settle(3, first)
	horizon("what was found out before that", 0)
	again, _ := l.ToSettle(3)
	l.Settle(3, again)
	horizon("settled again", 5)
}

// TestOldRegistration: one transaction that stays open has nothing kept of what begins and ends
// beside it, in whatever order.
func TestOldRegistration(t *testing.T) {
	t.Parallel()
	now := storage.Epoch(1)
	l := NewLocal(clock{now: func() storage.Epoch { return now }})
	l.Settle(3, 0)
	var freed int
	l.Join(Member{Freed: func() { freed++ }})
	old := l.Register(3)
	if l.Passed(3, 2) {
		t.Error("the oldest has ended")
	}
	for range 1000 {
		now++
		first := l.Register(3)
		now++
		second := l.Register(3)
		third := l.Register(3)
		l.End(first)
		l.End(second)
		l.End(third)
	}
	if n, h := len(l.shards[3].open), horizonOf(t, l); n != 1 || h != 1 || freed != 0 {
		t.Errorf("%d epochs are kept, the horizon is %d, freed %d times", n, h, freed)
	}
	last := l.Register(3)
	l.End(old)
	if h := horizonOf(t, l); h != now || freed != 1 {
		t.Errorf("the horizon is %d of %d, freed %d times", h, now, freed)
	}
	l.End(last)
	if n := len(l.shards[3].open); n != 0 {
		t.Errorf("%d epochs are kept of nothing", n)
	}
}
