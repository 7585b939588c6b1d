package main

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestProcessorsThatALoadNeeds(t *testing.T) {
	for _, c := range []struct {
		name  string
		busy  []float64 // in each period
		needs int
	}{
		{"idle", []float64{0, 0, 0}, 1},
		{"half of one", slices.Repeat([]float64{0.5}, 100), 1},
		{"a burst of statements", append(slices.Repeat([]float64{0.1}, 50), 0.85, 0.1), 1},
		{"a merge begins", append(slices.Repeat([]float64{0.1}, 50), 1), 2},
		{"a merge has ended", append([]float64{1}, slices.Repeat([]float64{0}, 50)...), 2},
		{"three quarters of one, for long", slices.Repeat([]float64{0.75}, 100), 2},
		{"two and a half", slices.Repeat([]float64{2.5}, 100), 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := load{period: loadPeriod}
			for _, b := range c.busy {
				l.add(usage{time: time.Duration(b * float64(loadPeriod))}, loadPeriod)
			}
			if n := l.processors(1); n != c.needs {
				t.Errorf("%d processors, expected %d (%+v)", n, c.needs, l)
			}
		})
	}
}

// Statements that the ring would serve with one processor take more with several.
func TestProcessorsThatARingWouldNeed(t *testing.T) {
	for busy, needs := range map[float64]int{0.5: 1, 1.1: 1, 1.3: 2} {
		l := load{period: loadPeriod}
		for range 100 {
			l.add(usage{time: time.Duration(busy * float64(loadPeriod))}, loadPeriod)
		}
		if n := l.processors(relief); n != needs {
			t.Errorf("%g: %d processors, expected %d", busy, n, needs)
		}
	}
}

// A thread that waits for the disk does so with its processor.
func TestProcessorsWaitedWith(t *testing.T) {
	for _, c := range []struct {
		name   string
		u      usage
		passed time.Duration
	}{
		{"a page was read", usage{faults: 1}, loadPeriod},
		{"the look came late", usage{}, 3 * loadPeriod},
		{"a look at the idle came late", usage{}, idlePeriod + 2*loadPeriod},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := load{period: loadPeriod}
			l.add(c.u, c.passed)
			l.add(usage{}, loadPeriod)
			if n := l.processors(1); n < 1000 {
				t.Errorf("%d processors, expected all", n)
			}
		})
	}
}

// Without load there is one processor, with it there are all, afterwards as many
// as before.
func TestProcessorsByLoad(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	was := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
	runtime.SetDefaultGOMAXPROCS() // whatever the environment said
	all := runtime.GOMAXPROCS(0)
	if all == 1 {
		t.Skip("needs two processors")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		processorsByLoad(ctx, 5*loadPeriod, nil, slog.New(slog.DiscardHandler))
	}()
	until := func(n int, work func()) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); runtime.GOMAXPROCS(0) != n; work() {
			if time.Now().After(deadline) {
				t.Fatalf("%d processors, expected %d", runtime.GOMAXPROCS(0), n)
			}
		}
	}
	idle := func() { <-time.After(loadPeriod) }
	until(1, idle)
	until(all, func() {})
	until(1, idle)
	cancel()
	<-ended
	if n := runtime.GOMAXPROCS(0); n != all {
		t.Errorf("%d processors in the end, expected %d", n, all)
	}
}
