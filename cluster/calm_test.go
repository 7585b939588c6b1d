package cluster_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestCalm: heartbeats get rare where nothing changes, and are often again at once where something does. What is shared
// is read where there is news of it.
func TestCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 250 * time.Millisecond
		var seat clustertest.Seat
		var beats, reads atomic.Int64
		seat.Hook = func(step string) {
			if step == "beat" {
				beats.Add(1)
			}
		}
		var board clustertest.Board
		board.Hook = func(step string) {
			if step == "read" {
				reads.Add(1)
			}
		}
		s := cluster.NewShared(cluster.Options{
			Seats: map[catalog.ShardID]cluster.Seat{0: &seat}, Board: &board, Every: every, Logger: slog.New(slog.DiscardHandler),
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			s.Run(ctx)
			close(done)
		}()
		in := func(d time.Duration) int64 {
			synctest.Wait()
			before := beats.Load()
			time.Sleep(d)
			synctest.Wait()
			return beats.Load() - before
		}
		in(10 * time.Second)
		before := reads.Load()
		if n := in(20 * time.Second); n > 21 || reads.Load() > before+6 {
			t.Errorf("%d heartbeats and %d reads in 20 s of calm", n, reads.Load()-before)
		}
		before = reads.Load()
		if _, err := board.Write(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if in(2 * every); reads.Load() == before {
			t.Error("a new version isn't read soon")
		}
		if _, err := seat.Advance(ctx); err != nil {
			t.Fatal(err)
		}
		in(time.Second)
		if n := in(4 * time.Second); n < 15 {
			t.Errorf("%d heartbeats in the 4 s after a new epoch", n)
		}
		in(10 * time.Second)
		r := s.Register(0)
		if _, err := seat.Advance(ctx); err != nil {
			t.Fatal(err)
		}
		in(time.Minute)
		if n := in(4 * time.Second); n < 15 {
			t.Errorf("%d heartbeats in 4 s while something is open for which others may wait", n)
		}
		s.End(r)
		in(10 * time.Second)
		if n := in(20 * time.Second); n > 21 {
			t.Errorf("%d heartbeats in 20 s of calm behind that", n)
		}
		stop()
		<-done
	})
}
