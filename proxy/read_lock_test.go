package proxy

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestGate: nobody is inside while it is shut, who presses enters until it is, and all get on.
func TestGate(t *testing.T) {
	t.Parallel()
	var g gate
	var inside atomic.Int64
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for range 2000 {
				if err := g.enter(t.Context(), n%2 > 0); err != nil {
					t.Error(err)
					return
				}
				inside.Add(1)
				inside.Add(-1)
				g.leave()
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range 500 {
				if err := g.close(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if n := inside.Load(); n != 0 {
					t.Errorf("%d inside", n)
				}
				g.open()
			}
		})
	}
	all.Wait()

	// One is inside, for whom it can't be shut.
	if err := g.enter(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	shut := make(chan error)
	go func() { shut <- g.close(t.Context()) }()
	for g.closed.Load() == 0 {
		runtime.Gosched()
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if err := g.enter(gone, false); !errors.Is(err, errInterrupted) {
		t.Errorf("who comes enters: %v", err)
	}
	if err := g.enter(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	g.leave()
	g.leave()
	if err := <-shut; err != nil {
		t.Fatal(err)
	}
	if err := g.enter(gone, true); !errors.Is(err, errInterrupted) {
		t.Errorf("who presses enters a gate that is shut: %v", err)
	}
	g.open()
	// One that is given up is open again.
	if err := g.enter(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := g.close(gone); !errors.Is(err, errInterrupted) {
		t.Error(err)
	}
	if err := g.enter(t.Context(), false); err != nil {
		t.Error(err)
	}
}
