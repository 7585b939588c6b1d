package deadlock

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// Options are what is looked at.
type Options struct {
	Pools map[catalog.ShardID]*shard.Pool
	// MariaDB: the shards' servers are.
	MariaDB func() bool
	// Claimants are the transactions that wait outside of shards, with those that they wait for. It
	// adds them to the open ones.
	Claimants func(open map[Transaction]Open) map[Transaction]Transaction
	Logger    *slog.Logger
}

// Run looks for deadlocks over several shards, and ends them, until ctx ends.
func (d *Spread) Run(ctx context.Context, o Options) {
	l := &look{o: o, asks: map[catalog.ShardID]*lockWaits{}}
	defer l.close(0)
	next := time.NewTimer(again())
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(again())
		open := d.open()
		if claimants := o.Claimants(open); len(open) > 1 || len(claimants) > 0 {
			l.look(ctx, open, claimants)
			continue
		}
		l.suspected, l.waited = nil, nil
		next.Stop()
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-time.After(rest):
			l.close(rest)
		}
		next.Reset(again())
	}
}

// again is when to look again.
//
// Rule not in step: servers renew what they tell for who comes when nobody has asked for 100 ms. Counter-example: two
// Shunts that each ask every 110 ms are told for ever what there was at first.
func again() time.Duration { return every + rand.N(2*every) }

// look looks again and again. It is one goroutine's.
type look struct {
	o    Options
	asks map[catalog.ShardID]*lockWaits
	// suspected are the transactions that were in a circle at the last look, with the
	// statement that each was at.
	suspected map[Transaction]time.Time
	// waited are those that waited at the last look; the next is pause later while
	// these do.
	waited map[Transaction]Waiting
	looked time.Time
	pause  time.Duration
}

func (l *look) look(ctx context.Context, open map[Transaction]Open, claimants map[Transaction]Transaction) {
	wait := map[Transaction]Waiting{}
	var shards catalog.ShardSet
	for tx := range open {
		if w := tx.Waiting(); (!w.On.Empty() || claimants[tx] != nil) && time.Since(w.Since) >= every {
			wait[tx] = w
			shards = shards.Union(w.On)
		}
	}
	before := l.suspected
	switch {
	case len(wait) < 2 || shards.Len() < 2 && len(claimants) == 0:
		l.suspected, l.waited = nil, nil
		return
	case before != nil || !maps.Equal(wait, l.waited):
		l.pause = every
	case time.Since(l.looked) < l.pause:
		return
	default:
		l.pause = min(2*l.pause, slow)
	}
	l.suspected, l.waited, l.looked = nil, wait, time.Now()
	edges := l.edges(ctx, shards)
	for tx, by := range claimants {
		if other, known := open[by]; known {
			edges[open[tx].Threads[0]] = append(edges[open[tx].Threads[0]], other.Threads[0])
		}
	}
	for victim, circle := range circles(open, edges) {
		sure := true
		for _, tx := range circle {
			since, ok := before[tx]
			sure = sure && ok && since.Equal(wait[tx].Since)
			if l.suspected == nil {
				l.suspected = map[Transaction]time.Time{}
			}
			l.suspected[tx] = wait[tx].Since
		}
		if sure {
			delete(l.suspected, victim)
			l.end(ctx, victim, wait[victim].Since, edges)
		}
	}
}

// end fails the statement that a transaction waits in, if it still does.
func (l *look) end(ctx context.Context, tx Transaction, since time.Time, edges map[Thread][]Thread) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tx.End(ctx, since, func(t Thread) bool { return len(edges[t]) > 0 })
}

// edges are who waits for whom on some shards.
func (l *look) edges(ctx context.Context, shards catalog.ShardSet) map[Thread][]Thread {
	ctx, cancel := context.WithTimeout(ctx, ask)
	defer cancel()
	query := lockWaitsMySQL
	if l.o.MariaDB() {
		query = lockWaitsMariaDB
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	edges := map[Thread][]Thread{}
	for id := range shards.All {
		asked := l.asks[id]
		if asked == nil {
			asked = &lockWaits{at: shard.Outside{Pool: l.o.Pools[id]}, log: l.o.Logger}
			l.asks[id] = asked
		}
		all.Go(func() {
			pairs := asked.pairs(ctx, query)
			mu.Lock()
			defer mu.Unlock()
			for _, x := range pairs {
				waits := Thread{id, x[0]}
				edges[waits] = append(edges[waits], Thread{id, x[1]})
			}
		})
	}
	all.Wait()
	return edges
}

// close closes connections that have been idle for so long.
func (l *look) close(idle time.Duration) {
	for _, x := range l.asks {
		x.at.CloseIdle(idle)
	}
}
