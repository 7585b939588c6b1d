package indexer

import (
	"testing"
	"time"

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
	}, time.Now)
	tr.settle(3, 0)
	if h := tr.Horizon(3); h != 5 {
		t.Errorf("horizon %d", h)
	}
	tr.Begin(catalog.Only(3)).End()
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
