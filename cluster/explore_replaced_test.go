package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// lifeless is a seat whose server is of every life.
type lifeless struct{ cluster.Seat }

func (l lifeless) Beat(ctx context.Context, join uint64) (cluster.Beat, error) {
	b, err := l.Seat.Beat(ctx, join)
	b.Life = 99
	return b, err
}

// taking is how a server is taken in use in another's place, with a rule taken away.
type taking struct {
	silent   bool // nobody is told
	hasty    bool // nobody is waited for
	lifeless bool // a server isn't asked for its life
}

// play: shard 0 gets another server while the former one lives on. A member that has the new address writes there; another one
// has the old one, and reads what it has been told was written. It is on shard 1, too, whose calls are no steps.
func (k taking) play(w *world) {
	var rest clustertest.Seat
	renewed := false
	w.also = func() string { return fmt.Sprint(rest.String(), renewed) }
	process := func(id uint64, seats map[catalog.ShardID]cluster.Seat) *cluster.Shared {
		return cluster.NewShared(cluster.Options{Seats: seats, Board: &w.board, Identity: cluster.Identity{ID: id}, Logger: slog.New(slog.DiscardHandler)})
	}
	var former cluster.Seat = &w.seat
	if k.lifeless {
		former = lifeless{former}
	}
	reader := process(1, map[catalog.ShardID]cluster.Seat{0: former, 1: &rest})
	operator := process(2, map[catalog.ShardID]cluster.Seat{1: &rest})
	reader.Join(cluster.Member{Lost: func(catalog.ShardID, uint64, error) { w.seat.End(7) }})
	w.must(reader.Beat(ctx, 0))
	w.must(reader.Beat(ctx, 1))
	once, cancel := context.WithCancel(ctx)
	cancel()

	w.start("operator", func() {
		for range 2 {
			if k.silent || operator.Replace(once, 0, 2) == nil || k.hasty {
				w.step("renew")
				renewed = true
				return
			}
		}
	})
	w.start("writer", func() {
		w.step("write")
		w.row = renewed
	})
	w.start("follower", func() {
		w.must(reader.Follow(ctx))
		w.must(reader.Beat(ctx, 1))
		_ = reader.Beat(ctx, 0)
	})
	w.start("reader", func() {
		w.step("begin")
		written := w.row
		w.note(fmt.Sprint(written))
		r := reader.Register(0)
		defer reader.End(r)
		w.seat.Connect(7, "app", "h:7")
		join, err := reader.NoteThread(ctx, 0, storage.Thread{ID: 7})
		if err != nil || join != r.Join {
			return
		}
		w.step("read")
		if listed, _ := w.seat.Lists(7); listed && written {
			w.fault = "a read misses a row of the server that is in use"
		}
	})
}

// TestReplaced: nobody uses the former server of a shard once the new one is written to.
func TestReplaced(t *testing.T) {
	t.Parallel()
	miss, states := explore(t, taking{}.play)
	if t.Logf("%d states", states); miss != "" {
		t.Error(miss)
	}
	for rule, without := range map[string]taking{
		"all are told":                   {silent: true},
		"all are waited for":             {hasty: true},
		"a server is asked for its life": {lifeless: true},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			miss, states := explore(t, without.play)
			if !strings.HasPrefix(miss, "a read misses") {
				t.Fatalf("without the rule %d states have no miss: %s", states, miss)
			}
			t.Log(miss)
		})
	}
}
