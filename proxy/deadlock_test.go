package proxy

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestEndDeadlocksAfterRest: who looks for deadlocks is there again after hours without
// transactions over several shards.
func TestEndDeadlocksAfterRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Proxy{deadlocks: newDeadlocks()}
		ctx, cancel := context.WithCancel(t.Context())
		go p.EndDeadlocks(ctx)
		for range 3 {
			time.Sleep(time.Hour)
			var open []*transaction
			for range 2 {
				tx := &transaction{s: &session{}, conns: map[catalog.ShardID]*shard.Conn{0: {}, 1: {}}, order: []catalog.ShardID{0, 1}}
				p.deadlocks.joined(tx)
				open = append(open, tx)
			}
			time.Sleep(2 * deadlockEvery)
			if len(p.deadlocks.wake) > 0 {
				t.Fatal("nobody looks")
			}
			for _, tx := range open {
				p.deadlocks.ended(tx)
			}
		}
		cancel()
	})
}

// TestCircles: what is found are circles, and without the victims there are none left.
func TestCircles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		open := map[*transaction]spreadTransaction{}
		owner := map[thread]*transaction{}
		began := time.Now()
		for n := range rapid.IntRange(0, 6).Draw(t, "transactions") {
			tx := &transaction{}
			x := spreadTransaction{began: began.Add(time.Duration(n) * time.Second)}
			for id := range rapid.IntRange(2, 3).Draw(t, "shards") {
				th := thread{catalog.ShardID(id), uint32(n)}
				x.threads, owner[th] = append(x.threads, th), tx
			}
			open[tx] = x
		}
		draw := func(shard catalog.ShardID, what string) thread { // from 6 on they are others'
			return thread{shard, rapid.Uint32Range(0, 8).Draw(t, what)}
		}
		edges := map[thread][]thread{}
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			shard := catalog.ShardID(rapid.IntRange(0, 2).Draw(t, "shard"))
			waits := draw(shard, "waits")
			edges[waits] = append(edges[waits], draw(shard, "for"))
		}
		// reach are the transactions that one waits for, directly or not.
		gone := map[*transaction]bool{}
		reach := func(from *transaction) map[*transaction]bool {
			seen, out := map[thread]bool{}, map[*transaction]bool{}
			todo := slices.Clone(open[from].threads)
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
						todo = append(todo, open[tx].threads...)
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
				if open[tx].began.After(open[victim].began) {
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
