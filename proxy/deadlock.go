package proxy

import (
	"context"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/deadlock"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// EndDeadlocks looks for deadlocks over several shards, and ends them, until ctx ends.
func (p *Proxy) EndDeadlocks(ctx context.Context) {
	p.deadlocks.Run(ctx, deadlock.Options{
		Pools: p.opts.Pools, MariaDB: func() bool { return p.opts.Directory.Catalog().MariaDB }, Claimants: p.claims.waiting, Logger: p.opts.Logger,
	})
}

// thread is that by which the transaction is on a shard.
func (tx *transaction) thread(id catalog.ShardID) deadlock.Thread {
	return deadlock.Thread{Shard: id, ID: tx.conns.at(id).ThreadID}
}

// threads are those by which it is on its shards.
func (tx *transaction) threads() []deadlock.Thread {
	out := make([]deadlock.Thread, 0, len(tx.order))
	for _, id := range tx.order {
		out = append(out, tx.thread(id))
	}
	return out
}

// Waiting is what its statement waits for.
func (tx *transaction) Waiting() (w deadlock.Waiting) {
	a := &tx.s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Since = a.since
	for _, x := range a.running {
		w.On.Add(x.shard)
	}
	return w
}

// End fails the statement that the transaction waits in, if it still does.
func (tx *transaction) End(ctx context.Context, since time.Time, waits func(deadlock.Thread) bool) {
	p := tx.s.proxy
	a := &tx.s.activity
	a.ending.Lock()
	defer a.ending.Unlock()
	a.mu.Lock()
	now, running := a.since, slices.Clone(a.running)
	a.mu.Unlock()
	if !now.Equal(since) {
		return
	}
	ends := p.claims.end(tx, deadlock.Err)
	for _, x := range running { // all: it isn't rolled back before each has answered
		if !waits(deadlock.Thread{Shard: x.shard, ID: x.conn.ThreadID}) {
			continue
		}
		x.conn.InterruptedBy(deadlock.Err)
		err := x.conn.Kill(ctx)
		if err == nil {
			ends = true
			continue
		}
		if shard.Code(err) != 0 { // it was not killed
			x.conn.InterruptedBy(nil)
		}
		tx.s.log.Warn("end a deadlock", "shard", p.pool(x.shard).Name(), "error", err)
	}
	if ends {
		p.metrics.deadlocks.Inc()
		tx.s.log.Info("a deadlock over several shards: the transaction is rolled back")
	}
}
