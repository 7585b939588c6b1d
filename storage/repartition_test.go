package storage

import (
	"runtime"
	"testing"
)

// TestAddBesideRepartition: a repartition is done from begin to end while an Add of a few
// entries, which has seen the old generation alone, waits for others' entries.
func TestAddBesideRepartition(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{})
	id := readyIndex(t, s, "i", 1)
	s.recent.mu.RLock()
	added := make(chan error)
	go func() { added <- s.Add([]Entry{{id, []byte("k"), 1, 1}}) }()
	for s.recent.mu.TryRLock() { // until the Add waits
		s.recent.mu.RUnlock()
		runtime.Gosched()
	}
	check(t, s.Repartition(t.Context(), id, 2, nil))
	s.recent.mu.RUnlock()
	check(t, <-added)
	wantLookup(t, s, id, "k", 1)
}
