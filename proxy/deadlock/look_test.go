package deadlock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// fake is a transaction that waits for nothing.
type fake struct{ n int }

func (*fake) Waiting() Waiting                                  { return Waiting{} }
func (*fake) End(context.Context, time.Time, func(Thread) bool) {}

// TestEndDeadlocksAfterRest: who looks for deadlocks is there again after hours without
// transactions over several shards.
func TestEndDeadlocksAfterRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewSpread()
		ctx, cancel := context.WithCancel(t.Context())
		go d.Run(ctx, Options{Claimants: func(map[Transaction]Open) map[Transaction]Transaction { return nil }})
		for range 3 {
			time.Sleep(time.Hour)
			var open []Transaction
			for n := range 2 {
				tx := &fake{n}
				d.Joined(tx, time.Now(), Thread{0, uint32(n)}, Thread{1, uint32(n)})
				open = append(open, tx)
			}
			time.Sleep(2 * every)
			if len(d.wake) > 0 {
				t.Fatal("nobody looks")
			}
			for _, tx := range open {
				d.Ended(tx)
			}
		}
		cancel()
	})
}

// TestCircles: what is found are circles, and without the victims there are none left.
func TestCircles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		open := map[Transaction]Open{}
		owner := map[Thread]Transaction{}
		began := time.Now()
		for n := range rapid.IntRange(0, 6).Draw(t, "transactions") {
			tx := &fake{n}
			x := Open{Began: began.Add(time.Duration(n) * time.Second)}
			for id := range rapid.IntRange(2, 3).Draw(t, "shards") {
				th := Thread{catalog.ShardID(id), uint32(n)}
				x.Threads, owner[th] = append(x.Threads, th), tx
			}
			open[tx] = x
		}
		draw := func(shard catalog.ShardID, what string) Thread { // from 6 on they are others'
			return Thread{shard, rapid.Uint32Range(0, 8).Draw(t, what)}
		}
		edges := map[Thread][]Thread{}
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			shard := catalog.ShardID(rapid.IntRange(0, 2).Draw(t, "shard"))
			waits := draw(shard, "waits")
			edges[waits] = append(edges[waits], draw(shard, "for"))
		}
		// reach are the transactions that one waits for, directly or not.
		gone := map[Transaction]bool{}
		reach := func(from Transaction) map[Transaction]bool {
			seen, out := map[Thread]bool{}, map[Transaction]bool{}
			todo := slices.Clone(open[from].Threads)
			for len(todo) > 0 {
				at := todo[0]
				todo = todo[1:]
				for _, next := range edges[at] {
					tx := owner[next]
					switch {
					case seen[next] || tx != nil && gone[tx]:
					case tx == nil:
						seen[next] = true
						todo = append(todo, next)
					default:
						seen[next], out[tx] = true, true
						todo = append(todo, open[tx].Threads...)
					}
				}
			}
			return out
		}
		for victim, circle := range circles(open, edges) {
			for _, tx := range circle {
				if !reach(tx)[victim] || !reach(victim)[tx] {
					t.Fatalf("no circle: %v of %v", circle, edges)
				}
				if open[tx].Began.After(open[victim].Began) {
					t.Fatal("another is younger")
				}
			}
			gone[victim] = true
		}
		for tx := range open {
			if !gone[tx] && reach(tx)[tx] {
				t.Fatalf("a circle is left: %v", edges)
			}
		}
	})
}
