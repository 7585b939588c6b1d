package replica

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// Options of a Set.
type Options struct {
	// Pool of each replica.
	Pool shard.Options
	// Statements bounds the prepared statements that a connection keeps.
	Statements int
	// Timeout is how long a replica may give no sign of life.
	Timeout time.Duration
	Logger  *slog.Logger
}

// Shard is a primary and its replicas. A configuration's Name is the shard's.
type Shard struct {
	Primary  shard.Config
	Replicas []shard.Config
}

// Set is the replicas of all shards. Its methods may be called on nil, which has
// none, and by several goroutines.
type Set struct {
	o     Options
	limit atomic.Int64
	now   atomic.Pointer[map[catalog.ShardID][]*Replica]

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	sources map[catalog.ShardID]*source
}

// New returns a Set without replicas: see Change.
func New(o Options) *Set {
	s := &Set{o: o, sources: map[catalog.ShardID]*source{}}
	s.now.Store(&map[catalog.ShardID][]*Replica{})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Limit is how far behind a replica may be.
func (s *Set) Limit() time.Duration { return time.Duration(s.limit.Load()) }

// every is the time between two looks: a few within the limit.
func (s *Set) every() time.Duration {
	return min(max(s.Limit()/4, 25*time.Millisecond), time.Second)
}

// Of are a shard's replicas, in the configuration's order.
func (s *Set) Of(id catalog.ShardID) []*Replica {
	if s == nil {
		return nil
	}
	return (*s.now.Load())[id]
}

// Pick chooses among the replicas of a shard that have all that the primary had at
// the time since, are within the limit and aren't to be avoided; nil for none.
func (s *Set) Pick(id catalog.ShardID, since time.Time, avoid func(*Replica) bool) *Replica {
	list := s.Of(id)
	if len(list) == 0 {
		return nil
	}
	now, limit, usable := time.Now(), s.Limit(), 0
	var chosen *Replica
	for _, r := range list {
		if avoid != nil && avoid(r) || !r.usable(now, since, limit) {
			continue
		}
		// Not in turns: a statement that picks an even number of times would always
		// get the same one of two.
		if usable++; rand.IntN(usable) == 0 { //nolint:gosec // nothing secret
			chosen = r
		}
	}
	return chosen
}

// Change replaces the replicas. Those that stay, by shard and address, go on, with
// the account that they have now; what runs on the others ends first.
func (s *Set) Change(limit time.Duration, shards map[catalog.ShardID]Shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit.Store(int64(limit))
	some := false
	for _, sh := range shards {
		some = some || len(sh.Replicas) > 0
	}
	if some {
		// All primaries are asked, since two of them might be taken for one another.
		for id, sh := range shards {
			if s.sources[id] == nil {
				s.sources[id] = s.follow(sh.Primary)
			}
		}
	}
	before := *s.now.Load()
	gone := map[*Replica]bool{}
	for _, list := range before {
		for _, r := range list {
			gone[r] = true
		}
	}
	after := map[catalog.ShardID][]*Replica{}
	for id, sh := range shards {
		for _, cfg := range sh.Replicas {
			r := find(before[id], cfg.Addr)
			if r == nil {
				r = s.add(s.sources[id], cfg)
			}
			delete(gone, r)
			r.cfg.Target.Set(cfg.Addr, cfg.User, cfg.Password, cfg.TLS)
			after[id] = append(after[id], r)
		}
	}
	s.now.Store(&after)
	for r := range gone {
		s.wg.Go(r.end)
	}
}

func find(list []*Replica, addr string) *Replica {
	for _, r := range list {
		if r.cfg.Addr == addr {
			return r
		}
	}
	return nil
}

// follow asks a primary for its position until the Set is closed.
func (s *Set) follow(cfg shard.Config) *source {
	src := &source{name: cfg.Name, cfg: cfg, columns: newColumns()}
	s.wg.Go(func() { src.columns.follow(s.ctx, cfg) })
	s.wg.Go(func() {
		a := asking{cfg: cfg}
		defer a.close()
		for {
			at := time.Now() // before the question: see the package's comment
			var primary *server
			err := a.once(s.ctx, func(ctx context.Context, c *shard.Conn) (err error) {
				primary, err = askPrimary(ctx, c)
				return err
			})
			src.told(at, primary, err)
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(s.every()):
			}
		}
	})
	return src
}

// add begins to follow a replica.
func (s *Set) add(src *source, cfg shard.Config) *Replica {
	cfg.Name += " replica"
	cfg.ReadOnly, cfg.Target = true, &shard.Target{}
	cfg.ConnectTimeout, cfg.Statements = s.o.Timeout, s.o.Statements
	r := &Replica{source: src, set: s, columns: newColumns(), health: shard.NewHealth(cfg, shard.HealthOptions{Timeout: s.o.Timeout, Logger: s.o.Logger})}
	cfg.Health = r.health
	r.cfg, r.Pool = cfg, shard.New(cfg, s.o.Pool)
	r.state.Store(&state{err: errUnasked})
	ctx, cancel := context.WithCancel(s.ctx)
	r.cancel = cancel
	s.wg.Go(func() { r.health.Run(ctx) })
	s.wg.Go(func() { r.columns.follow(ctx, cfg) })
	s.wg.Go(func() { r.run(ctx) })
	return r
}

// end lets statements under way end, for as long as the Set is open.
func (r *Replica) end() {
	_ = r.Pool.Close(r.set.ctx)
	r.cancel()
}

// ambiguous: MariaDB's servers have no other name than server_id. Where two
// primaries have the same, a replica of the one may be taken for the other's.
func (s *Set) ambiguous(of *source, primary *server) error {
	if !primary.mariaDB {
		return nil
	}
	s.mu.Lock()
	sources := maps.Clone(s.sources)
	s.mu.Unlock()
	for _, other := range sources {
		if other == of {
			continue
		}
		if known, err := other.known(); err == nil && known.id == primary.id {
			return fmt.Errorf("shards %s and %s both have server_id %s, by which a replica's primary is known: give each server its own", of.name, other.name, primary.id)
		}
	}
	return nil
}

// Close ends all that runs, and closes the pools: statements under way until ctx
// ends.
func (s *Set) Close(ctx context.Context) {
	s.mu.Lock()
	list := *s.now.Load()
	s.now.Store(&map[catalog.ShardID][]*Replica{})
	s.mu.Unlock()
	for _, l := range list {
		for _, r := range l {
			_ = r.Pool.Close(ctx)
		}
	}
	s.cancel()
	s.wg.Wait()
}
