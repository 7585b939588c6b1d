package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
)

// claims keep two Shunts from the same rows: each would be behind the other's back,
// and miss by virtual index what the other has written. While it serves, a Shunt holds
// on each shard a lock by name for each schema of its configuration, on the connection
// by which the shard's health is judged.
//
//	         all locks of all shards that answer            SIGTERM, drained
//	standby ────────────────────────────────────> serving ──────────────────> ends
//	   ^  │ one is another's                         │
//	   └──┘                                          │ a shard's connection breaks
//	                                                 v
//	         a new one takes the locks            the shard is not used
//	serving <─────────────────────────────────────── │
//	                                                 │ another holds it: all that were held, or
//	                                                 v one that this life never had
//	                                               ends
//
// A shard is used only while its locks are held, so that two that each reach some of
// the shards are never behind each other's back; who had it in between is in its
// record (see record.go).
//
// That connection is pinged anyway: the locks cost none more, and the next ping notices
// what ends them. Holding them is a part of the health's judgement (HealthOptions.Claim): a
// shard that another Shunt has is dead, its connections are cut off, and its statements fail
// with the reason. Where the server refuses the connection the shard is dead after
// shard_timeout. Shards that are down, or hang, are claimed when they are back.
//
// A Shunt that finds a shard taken which it never had ends, and so does one that has no shard
// left. Such a Shunt ends rather than stands by in the same process: no session or job is left
// with what it knew before.
//
// What the other Shunt has left running counts as what a dead process has: it is registered in
// epoch 0 until its threads are gone or have slept for 3 s (indexer.Retaken). A living Shunt
// sees within that time that it has lost its lock. AUTO_INCREMENT values that are in no table
// yet are waited for as long.
//
// What remains:
//
//   - From the end of a lock's connection until the next ping (1 s) a Shunt doesn't know.
//     If another has taken over by then it finds what is sent meanwhile: its registration
//     in epoch 0 is still open, so its lookups are wide.
//   - A process may stand still (SIGSTOP, a virtual machine that is moved), or a network hold
//     packets back, for longer than the lease. What then arrives over connections that the
//     servers have kept is behind the other's back: nothing on the way to a MySQL server
//     compares a number of the lock's holder with each statement.
//   - GET_LOCK is a single server's. Where the address leads to another server, that one has
//     its own locks, and counts as replaced.
type claims struct {
	shards []*claim
	// locks are those to hold; what has been read of it isn't changed.
	locks atomic.Pointer[[]string]
	lease time.Duration
	store *storage.Store
	log   *slog.Logger
	// records say who had a shard last.
	records *records
	// waits is why nothing is served yet.
	waits atomic.Pointer[waiting]
	// over has the error with which this Shunt is to end.
	over chan error

	mu sync.Mutex
	// held are the shards whose locks are held, and which locks; had those that once were
	// in this life.
	held map[*claim]*[]string
	had  map[*claim]bool
}

// waiting tells why a process doesn't serve: to anybody, and in full.
type waiting struct {
	short, full string
	standby     bool
}

const (
	// standbyEvery is how often a standby looks, and standbyTold how often it tells.
	standbyEvery = 300 * time.Millisecond
	standbyTold  = 10 * time.Minute
	// minLease is the least time after which a server ends a lock's connection that
	// has fallen silent: what a standby waits for when the other one's host has died.
	minLease = 30 * time.Second
	// recordAgain is the pause between attempts to write a record.
	recordAgain = time.Minute
	// leftoverTime is what a connection of our own takes at most to end after a KILL.
	leftoverTime = 3 * time.Second
	// leftoverAnswers is how often its server must have told of it by then.
	leftoverAnswers = 10
	// recordTime is what a record may take besides: its server writes to its disk.
	recordTime = 15 * time.Second
)

func newClaims(cfg *config.Config, l layout, store *storage.Store, known *servers, foreign func(name string) error, log *slog.Logger) (*claims, error) {
	c := &claims{
		lease: max(minLease, 3*cfg.ShardTimeout), store: store, log: log,
		over: make(chan error, 1), held: map[*claim]*[]string{}, had: map[*claim]bool{},
	}
	locks := lockNames(cfg)
	c.locks.Store(&locks)
	var err error
	if c.records, err = newRecords(cfg.DataDir, l, locks, store, foreign, log); err != nil {
		return nil, err
	}
	if _, err := store.JumpSerial(); err != nil {
		log.Warn("copies of data_dir may not be told from it until something is written", "error", err) // the disk may be full
	}
	for i, sh := range cfg.Shards {
		to := shardConfig(sh)
		to.ConnectTimeout = cfg.ShardTimeout
		to.Admit = known.admit(to, func(*shard.Conn) {})
		s := &claim{of: c, name: sh.Name, id: l.shards[i].ID, dial: to, locks: &locks, mine: map[uint32]ownConn{}}
		s.teller = newTeller(s)
		c.shards = append(c.shards, s)
	}
	c.waits.Store(&waiting{short: "starting", full: "starting"})
	return c, nil
}

// why tells, while nothing is served, why.
func (c *claims) why() (short, full string) {
	w := c.waits.Load()
	return w.short, w.full
}

// take claims all shards that answer, one at least. Where another Shunt has one of
// them it waits until that has ended, as a standby, and obeys hup by reread. It gives up when
// ctx ends. An error is reread's, or why it can never serve.
func (c *claims) take(ctx context.Context, hup <-chan os.Signal, reread func() error) error {
	var told struct {
		what string
		at   time.Time
	}
	began := time.Now()
	for {
		other, err := c.try(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // what failed did so for this
		case never(err):
			return err
		case other != nil:
			c.waits.Store(&waiting{
				short: "standby: another Shunt serves", standby: true,
				full: fmt.Sprintf("standby since %s: shard %s: %v", began.UTC().Format(time.RFC3339), other.shard, other),
			})
			if what := other.shard + other.thread; what != told.what || time.Since(told.at) > standbyTold {
				told.what, told.at = what, time.Now()
				c.log.Warn("standby: another Shunt serves; waiting until it has stopped", "shard", other.shard, "connection", other.thread, "of", other.account, "from", other.host, "since", began.UTC().Format(time.RFC3339))
			}
		case err != nil:
			c.waits.Store(&waiting{short: "no shard can be used yet", full: "no shard can be used yet: " + err.Error()})
			if told.what != err.Error() {
				told.what = err.Error()
				c.log.Warn("waiting for a shard; each second is tried again", "error", err)
			}
		default:
			if c.waits.Load().standby {
				c.log.Info("taking over: the other Shunt has stopped", "waited", time.Since(began).Round(time.Millisecond))
			}
			c.waits.Store(&waiting{short: "starting", full: "starting"})
			return nil
		}
		// Two that began at once must not meet again and again.
		select {
		case <-ctx.Done():
		case <-hup:
			if err := reread(); err != nil {
				return err
			}
		case <-time.After(standbyEvery + rand.N(standbyEvery)):
		}
	}
}

// try claims all shards that answer, or none. other is who has one of them.
func (c *claims) try(ctx context.Context) (other *holder, err error) {
	// First only to look: a lock that is taken for a moment might be one that a living
	// Shunt is just taking again.
	others := make([]*holder, len(c.shards))
	c.each(func(i int, s *claim) error {
		return s.within(ctx, leftoverTime, func(ctx context.Context) (err error) {
			others[i], err = s.look(ctx)
			return err
		})
	})
	reached := false
	for i, s := range c.shards {
		if s.conn == nil && never(s.failed) {
			return nil, s.failed
		}
		if others[i] != nil {
			return others[i], nil
		}
		reached = reached || s.conn != nil
	}
	if !reached {
		return nil, c.unreached()
	}
	// In the configuration's order: of two that began at once one is first on the first.
	for i, s := range c.shards {
		if s.conn == nil {
			continue
		}
		var other *holder
		err := s.within(ctx, leftoverTime, func(ctx context.Context) (err error) {
			other, err = s.lock(ctx, s.conn)
			return err
		})
		if err != nil || other != nil {
			for _, t := range c.shards[:i+1] {
				t.unlock(ctx)
			}
			return other, err
		}
	}
	c.each(func(_ int, s *claim) error {
		if s.conn == nil {
			return nil
		}
		err := s.within(ctx, recordTime, func(ctx context.Context) error { return s.record(ctx, s.conn) })
		if err != nil {
			return fmt.Errorf("shard %s: %w", s.name, err)
		}
		return nil
	})
	for _, s := range c.shards {
		if s.conn == nil && never(s.failed) {
			err := s.failed
			for _, t := range c.shards {
				t.unlock(ctx)
			}
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shards {
		if s.conn != nil {
			c.held[s], c.had[s] = s.locks, true
			s.forget(s.conn.ThreadID)
		}
	}
	if len(c.held) == 0 {
		return nil, c.unreached()
	}
	return nil, nil
}

// never: to wait would not help.
func never(err error) bool {
	return errors.Is(err, errSlots) || errors.Is(err, errSeveral) || errors.Is(err, errUnseen)
}

// unreached is why shards can't be claimed.
func (c *claims) unreached() error {
	var errs []error
	for _, s := range c.shards {
		if s.conn == nil {
			errs = append(errs, s.failed)
		}
	}
	return errors.Join(errs...)
}

// each calls fn for all shards side by side. Its error loses the shard's connection.
func (c *claims) each(fn func(i int, s *claim) error) {
	var wg sync.WaitGroup
	for i, s := range c.shards {
		wg.Go(func() {
			if err := fn(i, s); err != nil {
				s.lose(err)
			}
		})
	}
	wg.Wait()
}

// close gives the claims up. REQUIRES: no Health calls them any more.
func (c *claims) close() {
	for _, s := range c.shards {
		if s.conn != nil {
			_ = s.conn.Close()
			s.conn = nil
		}
		s.forget(0)
	}
}

// add claims the schemas that a configuration has besides, by the shards' connections.
// An error is that another Shunt serves one of them: nothing is claimed then.
func (c *claims) add(ctx context.Context, cfg *config.Config, dial map[catalog.ShardID]shard.Config) error {
	now := *c.locks.Load()
	more := slices.DeleteFunc(lockNames(cfg), func(l string) bool { return slices.Contains(now, l) })
	if len(more) == 0 {
		return nil
	}
	for _, s := range c.shards {
		if err := s.free(ctx, dial[s.id], more); err != nil {
			return fmt.Errorf("a new schema: shard %s: %w", s.name, err)
		}
	}
	all := slices.Concat(now, more)
	c.records.add(more)
	c.locks.Store(&all)
	for began := time.Now(); !c.hold(&all) && time.Since(began) < returnTime && ctx.Err() == nil; {
		for _, s := range c.shards {
			dial[s.id].Health.Suspect()
		}
		time.Sleep(returnTime / 100)
	}
	return nil
}

// hold reports that all shards that are in use are so by these locks.
func (c *claims) hold(locks *[]string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, by := range c.held {
		if by != locks {
			return false
		}
	}
	return true
}

// lost says that another Shunt has the shard. One that this life never had is in the
// hands of somebody who serves, while others were to be had: he goes first. Without any
// shard there is nothing left to serve.
func (c *claims) lost(s *claim, other *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, s)
	if c.had[s] && len(c.held) > 0 {
		return
	}
	c.end(fmt.Errorf("stopped serving: shard %s: %w", s.name, other))
}

// end has this Shunt end for an error.
func (c *claims) end(err error) {
	select {
	case c.over <- err:
	default:
	}
}

// away says that a shard is dead.
func (c *claims) away(s *claim) {
	s.teller.lose()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, s)
}

// gauge tells whether this is a standby.
func (c *claims) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shunt_standby", Help: "1 while another Shunt serves the same schemas, and this one waits."}, func() float64 {
		if c.waits.Load().standby {
			return 1
		}
		return 0
	})
}
