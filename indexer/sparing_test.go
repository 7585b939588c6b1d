package indexer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// threads are what a shard says at each look; "": it can't be asked.
type threads struct {
	said   []string
	opened int
}

func (s *threads) Open(context.Context, catalog.ShardID) (Conn, error) {
	s.opened++
	return threadsConn{s}, nil
}

type threadsConn struct{ of *threads }

func (c threadsConn) Stream(_ context.Context, _ string, fn func([][]byte) error) error {
	said := c.of.said[0]
	c.of.said = c.of.said[1:]
	if said == "" {
		return errors.New("lost")
	}
	return fn([][]byte{[]byte("Threads_running"), []byte(said)})
}

func (threadsConn) Exec(context.Context, string) error { return nil }
func (threadsConn) Close() error                       { return nil }

// stepClock moves as somebody waits for it.
type stepClock struct{ now time.Time }

func (c *stepClock) Now() time.Time { return c.now }

func (c *stepClock) After(d time.Duration) (<-chan time.Time, func()) {
	c.now = c.now.Add(d)
	over := make(chan time.Time, 1)
	over <- c.now
	return over, func() {}
}

// TestSparing: a scan rests while its shard is busy, for half a minute at most, unless reads wait for its end.
func TestSparing(t *testing.T) {
	many := slices.Repeat([]string{"8"}, 100)
	for name, x := range map[string]struct {
		most    int
		said    []string
		lagging string
		urgent  bool
		rested  time.Duration
		looks   int
	}{
		"calm":                      {5, []string{"7"}, "", false, 0, 1}, // two are the scan's own
		"busy":                      {5, []string{"8", "8", "7"}, "", false, 2 * time.Second, 3},
		"busy all the time":         {5, many, "", false, mostSpared, 31},
		"never looked":              {0, many, "", false, 0, 0},
		"reads wait":                {5, many, "", true, 0, 0},
		"can't be asked":            {5, []string{""}, "", false, 0, 1},
		"a replica that lags":       {5, many, "lags", false, mostSpared, 0},
		"a replica, never looked":   {0, many, "lags", false, 0, 0},
		"a replica, and reads wait": {5, many, "lags", true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock, shard := &stepClock{time.Unix(1e9, 0)}, &threads{said: x.said}
			began := clock.now
			b := newBench(t, 1, nil)
			opts := b.opts
			opts.Cluster, opts.Shards, opts.Clock, opts.MaxRunning = cluster.NewLocal(b.store), shard, clock, x.most
			opts.Lagging = func(catalog.ShardID) string { return x.lagging }
			i := New(opts)
			p := sparing{x: i, of: []*reading{{id: 1}}, urgent: x.urgent}
			taken := 0
			take := p.rows(t.Context(), func([][]byte) error { taken++; return nil })
			for range 2 * sparedRows { // the second look is too early
				if err := take(nil); err != nil {
					t.Fatal(err)
				}
			}
			if rested := clock.now.Sub(began); rested != x.rested || taken != 2*sparedRows {
				t.Errorf("rested for %s, not %s; took %d rows", rested, x.rested, taken)
			}
			if looks := len(x.said) - len(shard.said); looks != x.looks {
				t.Errorf("%d looks, not %d", looks, x.looks)
			}
			note := i.work.notes[1]
			if busy := x.rested == mostSpared; busy != (note != "") || busy && x.lagging == "" && !strings.Contains(note, "6 threads run (maintenance.max_threads_running: 5)") {
				t.Errorf("it says %q", note)
			}
		})
	}
}

// TestSpare: who else reads a shard's rows waits while that is busy.
func TestSpare(t *testing.T) {
	clock, shard := &stepClock{time.Unix(1e9, 0)}, &threads{said: []string{"8", "8", "7"}}
	b := newBench(t, 1, nil)
	opts, began := b.opts, clock.now
	opts.Cluster, opts.Shards, opts.Clock, opts.MaxRunning = cluster.NewLocal(b.store), shard, clock, 5
	wait, done := New(opts).Spare(t.Context(), 1)
	for range sparedRows {
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	done()
	if rested := clock.now.Sub(began); rested != 2*time.Second {
		t.Errorf("it rested for %s", rested)
	}
}

// TestReconcileRests: what is scanned by the clock alone waits for the longer rest where the log is followed.
func TestReconcileRests(t *testing.T) {
	x := newBench(t, 2, nil).x
	job := &storage.Job{Type: storage.Reconcile, Shards: catalog.Only(1)}
	if !reconcile.urgent(x, job) {
		t.Error("nothing is followed")
	}
	trail := &stillTrail{}
	x.followers.set(1, &follower{trail: trail})
	if reconcile.urgent(x, job) {
		t.Error("its log is followed")
	}
	trail.dead = true
	if !reconcile.urgent(x, job) {
		t.Error("its log can't be read")
	}
	x.followers.set(1, nil)
}
