package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// teller tells a shard the store's serial (storage/serial.go), over a connection of its own,
// since a server may hold a write back that it answers pings beside:
//
//   - before the first statement that writes to a table there after a quiet time, which waits
//     for it;
//   - each second in which tables were written to there, which nobody waits for;
//   - when the shard is claimed, before it is used, and when Shunt stops.
//
// So a store that was put back to before any of these has a lower serial than the shard.
// What is left is a store that is put back to within the last second before its process
// was killed. After a power loss what was being written then is taken for lost, and so it is
// in a copy of the files; a snapshot that is put back while the system runs on is of a moment
// that nothing outside of the disk knows of, but for what would cost each statement a write.
// Memory outside of the process could know it, and doesn't outlive containers. Up to which
// serial a process has told the shards is kept when the next one starts (records.endLives).
//
// In steady state nobody waits: a shard that is written to gets one small row a second, the
// others none.
type teller struct {
	claim *claim
	wake  chan struct{}
	// missing: the shard's record has gone.
	missing atomic.Bool
	// over ends when nothing is told any more.
	over context.Context

	mu sync.Mutex
	// claimed: the shard may be used. One that isn't is told what it is owed when it is claimed.
	claimed          bool
	said, want, owed uint64
	next             *telling

	// What follows is run's.
	conn *shard.Conn
	// since is up to when it was looked for what was written.
	since time.Time
	// idle is since when nothing was told; rows are in the record.
	idle time.Time
	rows int
}

// telling is an attempt to tell; err is to be read when it is done.
type telling struct {
	done chan struct{}
	err  error
}

const (
	tellEvery = time.Second
	// tellIdle is how long the connection is kept for nothing.
	tellIdle = time.Minute
	// tellRows bounds the rows of a record.
	tellRows = 10_000
	// tellAtLast bounds what stopping waits for.
	tellAtLast = 2 * time.Second
	// missingTime is how long a record that has gone is waited for.
	missingTime = 3 * time.Second
)

func newTeller(s *claim) *teller {
	return &teller{claim: s, wake: make(chan struct{}, 1), next: &telling{done: make(chan struct{})}, over: context.Background()}
}

// take tells the shard by the connection that claims it. When it returns nil the shard
// knows all that it was owed. One that takes no writes by now may be read from, if it knew that
// before.
func (t *teller) take(ctx context.Context, conn *shard.Conn) error {
	for {
		serial := t.claim.of.store.Serial()
		_, err := t.claim.of.records.tell(ctx, t.claim.name, conn, serial)
		t.mu.Lock()
		if err == nil {
			t.said = max(t.said, serial)
		}
		t.claimed = t.claimed || t.owed <= t.said
		claimed := t.claimed
		t.mu.Unlock()
		if claimed && !conn.Broken {
			return nil
		}
		if err != nil {
			return fmt.Errorf("tell it up to when it is served: %w", err)
		}
	}
}

// lose says that the shard isn't used any more.
func (t *teller) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claimed = false
}

// tell returns when the shard knows the serial, or isn't used.
func (t *teller) tell(ctx context.Context, serial uint64) error {
	for {
		t.mu.Lock()
		t.want = max(t.want, serial)
		if !t.claimed {
			t.owed = max(t.owed, serial)
		}
		if !t.claimed || t.said >= serial {
			t.mu.Unlock()
			return nil
		}
		next := t.next
		t.mu.Unlock()
		select {
		case t.wake <- struct{}{}:
		default:
		}
		select {
		case <-next.done:
			if next.err != nil {
				return fmt.Errorf("shard %s: %w", t.claim.name, next.err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.over.Done():
			return fmt.Errorf("shunt is stopping: %w", context.Canceled)
		}
	}
}

// run tells until ctx ends, and what there is once more then.
func (t *teller) run(ctx context.Context, dial shard.Config) {
	defer t.close()
	t.since = time.Now()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.wake:
		case <-tick.C:
			t.move()
			if t.conn != nil && time.Since(t.idle) > tellIdle {
				t.close()
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellAtLast)
			t.move()
			t.attempt(last, dial)
			cancel()
			return
		}
		t.attempt(ctx, dial)
	}
}

// move takes another serial if the shard was written to.
func (t *teller) move() {
	now := time.Now()
	if !t.claim.of.store.WrittenSince(t.since).Has(t.claim.id) {
		t.since = now
		return
	}
	serial, err := t.claim.of.store.NextSerial()
	if err != nil {
		return // writes are refused meanwhile
	}
	t.since = now
	t.mu.Lock()
	defer t.mu.Unlock()
	t.want = max(t.want, serial)
}

// attempt tells what is wanted, and wakes all that wait for the next attempt.
//
// Rule wake in vain: those as well for whom there is nothing left to tell. Counter-example: a statement takes serial 5, and
// the second's tick 6. While 6 is being told the statement comes to wait for the next attempt; when that is due 6 is
// known, so there is none, and the statement waits for as long as nobody else writes.
func (t *teller) attempt(ctx context.Context, dial shard.Config) {
	t.mu.Lock()
	this, serial, due := t.next, t.want, t.claimed && t.said < t.want
	t.next = &telling{done: make(chan struct{})}
	t.mu.Unlock()
	defer close(this.done)
	if !due {
		return
	}
	if this.err = t.say(ctx, dial, serial); this.err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claimed {
		t.said = max(t.said, serial)
	}
}

// say writes the serial. A record that somebody has dropped is made anew by who holds the
// shard's locks: else it might be another Shunt's by now.
func (t *teller) say(ctx context.Context, dial shard.Config, serial uint64) (err error) {
	t.idle = time.Now()
	limited, cancel := context.WithTimeout(ctx, missingTime)
	defer cancel()
	for again := false; ; {
		if err = t.connect(ctx, dial); err != nil {
			return err
		}
		records := t.claim.of.records
		if t.rows++; t.rows > tellRows {
			t.rows = 1
			err = records.trim(ctx, t.claim.name, t.conn)
		}
		missing := false
		if err == nil {
			missing, err = records.tell(ctx, t.claim.name, t.conn, serial)
		}
		switch {
		case err == nil:
			return nil
		case t.conn.Broken && !again: // it may have been idle for too long
			again = true
			t.close()
		case missing:
			t.missing.Store(true)
			dial.Health.Suspect()
			select {
			case <-time.After(missingTime / 100):
			case <-limited.Done():
				return err
			}
		default:
			t.close()
			return err
		}
	}
}

func (t *teller) connect(ctx context.Context, dial shard.Config) error {
	if t.conn != nil {
		return nil
	}
	conn, err := shard.Dial(ctx, dial, false)
	if err != nil {
		return err
	}
	t.conn = conn
	_ = t.claim.of.store.NoteThread(t.claim.id, threadOf(conn))
	_, err = conn.ExecAll(ctx, "SET SESSION sql_log_bin = 0") // see claim.prepare
	if err != nil {
		t.close()
	}
	return err
}

func (t *teller) close() {
	if t.conn == nil {
		return
	}
	_ = t.conn.Close()
	_ = t.claim.of.store.ForgetThread(t.claim.id, t.conn.ThreadID)
	t.conn = nil
}

// tellers tell all shards.
type tellers struct {
	of   map[catalog.ShardID]*teller
	stop func()
}

// tell has the shards of a claim told until stop.
func (c *claims) tell(ctx context.Context, dial map[catalog.ShardID]shard.Config) *tellers {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over, end := context.WithCancel(context.Background())
	all := &tellers{of: map[catalog.ShardID]*teller{}}
	var wg sync.WaitGroup
	for _, s := range c.shards {
		s.teller.over = over //nolint:fatcontext // one for all of them, none within another
		all.of[s.id] = s.teller
		wg.Go(func() { s.teller.run(ctx, dial[s.id]) })
	}
	all.stop = func() { cancel(); wg.Wait(); end() }
	return all
}

// tell returns when the shards know the serial.
func (t *tellers) tell(ctx context.Context, set catalog.ShardSet, serial uint64) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for id := range set.All {
		if one := t.of[id]; one != nil {
			wg.Go(func() {
				if err := one.tell(ctx, serial); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
