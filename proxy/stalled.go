package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// A server that can't write its binary log, mostly since its disk is full, answers pings and
// reads, and has each COMMIT wait until somebody frees space: for ever, it may be. No connection is
// lost, and nothing fails. So once a second sessions are looked at that have been busy for a while, and the
// shards that they wait for are asked who has been committing how long:
//
//   - a shard on which one commit has taken as long as commit_timeout is stalled: told in the
//     log, SHOW SHARDS and shunt_shard_stalled;
//   - statements whose commit has taken as long there end with 1021, in doubt, as where a connection
//     is lost: they may be done yet. They are cut off, not killed: MySQL stops the whole server when a commit
//     that waits for its disk is killed (binlog_error_action = ABORT_SERVER);
//   - what would write there is refused before it is sent, or all connections would come to wait. Reads go on;
//   - it is over when no commit takes that long any more.
//
// stalls are the shards of which that is so.
type stalls struct {
	now    atomic.Pointer[map[catalog.ShardID]string]
	change sync.Mutex // of now
}

// why is what keeps a shard from committing, "" for nothing.
func (s *stalls) why(id catalog.ShardID) string {
	if now := s.now.Load(); now != nil {
		return (*now)[id]
	}
	return ""
}

// refuse is the error of a write to a shard that is stalled.
func (s *stalls) refuse(shards catalog.ShardSet, c *catalog.Catalog) error {
	now := s.now.Load()
	if now == nil {
		return nil
	}
	for id := range shards.All {
		if why := (*now)[id]; why != "" {
			return mysqlerr.Newf(mysqlerr.DiskFull, "Shard %s can't write: %s; nothing was sent", c.ShardName(id), why)
		}
	}
	return nil
}

// set changes what is known of a shard.
func (s *stalls) set(id catalog.ShardID, why string) {
	s.change.Lock()
	defer s.change.Unlock()
	now := map[catalog.ShardID]string{}
	if was := s.now.Load(); was != nil {
		now = maps.Clone(*was)
	}
	if delete(now, id); why != "" {
		now[id] = why
	}
	if len(now) == 0 {
		s.now.Store(nil)
		return
	}
	s.now.Store(&now)
}

const (
	stallEvery = time.Second
	// stallSuspected is how long a statement runs before its shards are asked.
	stallSuspected = 2 * time.Second
)

// diskFullQuery is MySQL's own word.
const diskFullQuery = "SELECT DATA FROM performance_schema.error_log WHERE DATA LIKE 'Disk is full%' AND LOGGED > NOW(6) - INTERVAL 15 MINUTE ORDER BY LOGGED DESC LIMIT 1"

// EndStalled looks for shards that can't commit, and ends what waits for them, until ctx ends.
func (p *Proxy) EndStalled(ctx context.Context) {
	looks := map[catalog.ShardID]*stallLook{}
	defer func() {
		for _, l := range looks {
			l.asks.CloseIdle(0)
		}
	}()
	tick := time.NewTicker(stallEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		limit := p.timeouts.Load().Commit
		waiting := p.waitingLong()
		var wg sync.WaitGroup
		for id, pool := range p.opts.Pools {
			l := looks[id]
			if limit <= 0 || len(waiting[id]) == 0 && p.stalls.why(id) == "" {
				if l != nil {
					l.asks.CloseIdle(0)
					delete(looks, id)
				}
				continue
			}
			if l == nil {
				l = &stallLook{p: p, id: id, asks: shard.Outside{Pool: pool}, since: map[uint32]time.Time{}}
				looks[id] = l
			}
			wg.Go(func() { l.look(ctx, limit, waiting[id]) })
		}
		wg.Wait() // each within lookTime
	}
}

// waitingLong are the connections on which shards have worked on a statement for a while.
func (p *Proxy) waitingLong() map[catalog.ShardID][]*shard.Conn {
	waiting := map[catalog.ShardID][]*shard.Conn{}
	p.sessions.each(func(s *session) {
		s.activity.mu.Lock()
		defer s.activity.mu.Unlock()
		if time.Since(s.activity.since) < stallSuspected {
			return
		}
		for _, x := range slices.Concat(s.activity.running, s.activity.committing) {
			waiting[x.shard] = append(waiting[x.shard], x.conn)
		}
	})
	return waiting
}

// stallLook looks at one shard again and again.
type stallLook struct {
	p    *Proxy
	id   catalog.ShardID
	asks shard.Outside
	// since is when each thread was first seen at the commit that it is at.
	since map[uint32]time.Time
}

// lookTime bounds a look.
const lookTime = 3 * time.Second

func (l *stallLook) look(ctx context.Context, limit time.Duration, waiting []*shard.Conn) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	list, err := l.asks.Processes(ctx)
	if err != nil {
		return // what is known stays; whether it lives is Health's to say
	}
	now, seen, stuck, full := time.Now(), map[uint32]time.Time{}, map[uint32]bool{}, ""
	for _, x := range list {
		if !x.Commits() {
			continue
		}
		first, known := l.since[x.ID]
		if took := time.Duration(x.Seconds) * time.Second; !known || took < now.Sub(first)-2*time.Second { // it is another statement's
			first = now
		}
		seen[x.ID] = first
		if now.Sub(first) >= limit {
			stuck[x.ID] = true
		}
		if x.DiskFull() {
			full = x.State
		}
	}
	l.since = seen
	l.judge(ctx, limit, len(stuck) > 0, full)
	for _, c := range waiting {
		if stuck[c.ThreadID] {
			c.Interrupt()
		}
	}
}

// judge tells of a change.
func (l *stallLook) judge(ctx context.Context, limit time.Duration, stalled bool, full string) {
	was, pool := l.p.stalls.why(l.id), l.asks.Pool
	log := l.p.opts.Logger.With(slog.String("shard", pool.Name()), slog.String("addr", pool.Addr()))
	switch {
	case stalled && was == "":
		if full == "" {
			if rows, err := l.asks.Query(ctx, diskFullQuery); err == nil && len(rows) > 0 {
				full = string(rows[0][0])
			}
		}
		why := fmt.Sprintf("its server has had a COMMIT wait for more than %v (commit_timeout); is its disk full?", limit)
		if full != "" {
			why = fmt.Sprintf("its server has had a COMMIT wait for more than %v (commit_timeout), and says: %s", limit, full)
		}
		l.p.stalls.set(l.id, why)
		log.Error("shard is stalled: writes to it are refused, reads go on", "error", why)
	case !stalled && was != "":
		l.p.stalls.set(l.id, "")
		log.Info("shard commits again")
	}
}

// stallsGauge tells which shards are stalled.
type stallsGauge struct{ p *Proxy }

var stalledDesc = prometheus.NewDesc("shunt_shard_stalled", "1 while a shard's server has a COMMIT wait for longer than commit_timeout, as on a full disk.", []string{"shard"}, nil)

func (g stallsGauge) Describe(ch chan<- *prometheus.Desc) { ch <- stalledDesc }

func (g stallsGauge) Collect(ch chan<- prometheus.Metric) {
	for id, pool := range g.p.opts.Pools {
		stalled := 0.0
		if g.p.stalls.why(id) != "" {
			stalled = 1
		}
		ch <- prometheus.MustNewConstMetric(stalledDesc, prometheus.GaugeValue, stalled, pool.Name())
	}
}
