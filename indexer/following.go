package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

const (
	// clearEvery is how long a follower rests between two looks for marks that it may clear.
	clearEvery = 20 * time.Millisecond
	// renewEvery bounds how old a follower's registration gets where there are none: builds and removals
	// wait for it.
	renewEvery = time.Second
	// clearPatience bounds how long a follower waits for what it is to pass. Then it looks anew.
	clearPatience = 10 * time.Second
	// keepEvery is how long a follower rests before it keeps where it is again, and keepRest where the log had nothing but
	// what Shunts write for themselves: the place that is kept in a shared store may come by that log again.
	keepEvery = 5 * time.Second
	keepRest  = 10 * time.Minute
	// followBackoff is the longest time from one try to follow a shard to the next.
	followBackoff = 30 * time.Second
)

// followers are those at work, by shard.
type followers struct {
	// any: there is one.
	any atomic.Bool
	mu  sync.Mutex
	of  map[catalog.ShardID]*follower
}

func (l *followers) set(id catalog.ShardID, f *follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[catalog.ShardID]*follower{}
	}
	if l.of[id] = f; f == nil {
		delete(l.of, id)
	}
	l.any.Store(len(l.of) > 0)
}

func (l *followers) get(id catalog.ShardID) *follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[id]
}

// live are those of the shards whose logs are being read now.
func (l *followers) live(set catalog.ShardSet) (out catalog.ShardSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, f := range l.of {
		if set.Has(id) && f.trail.Live() {
			out.Add(id)
		}
	}
	return out
}

// follow follows a shard's log until ctx ends, while that is this process's to do.
func (x *Indexer) follow(ctx context.Context, id catalog.ShardID) {
	for ctx.Err() == nil {
		held, release, err := x.cluster.Hold(ctx, fmt.Sprint("binary log ", id))
		if err != nil {
			return
		}
		x.followOn(held, id)
		release()
	}
}

// followOn follows it until ctx ends.
func (x *Indexer) followOn(ctx context.Context, id catalog.ShardID) {
	wait := time.Second
	for ctx.Err() == nil {
		began := x.clock.Now()
		err := x.followOnce(ctx, id)
		if ctx.Err() != nil {
			return
		}
		x.log.Warn("a shard's binary log can't be followed; its virtual indexes are kept by scans until it can", "shard", x.shardName(id), "error", err, "again_in", wait)
		if x.clock.Now().Sub(began) > followBackoff {
			wait = time.Second
		}
		rested, stop := x.clock.After(wait)
		select {
		case <-rested:
		case <-ctx.Done():
		}
		stop()
		wait = min(2*wait, followBackoff)
	}
}

// followOnce follows it until something would be missing.
func (x *Indexer) followOnce(ctx context.Context, id catalog.ShardID) error {
	from, err := x.store.Position(id)
	if err != nil {
		return err
	}
	brief, cancel := context.WithCancel(ctx)
	var clearing sync.WaitGroup
	var f *follower
	err = x.opts.Logs.Follow(brief, id, from, func(trail Trail) Reader {
		f = x.newFollower(id, from, trail)
		x.followers.set(id, f)
		clearing.Go(func() { f.tend(brief) })
		if f.answers != nil {
			clearing.Go(func() { f.answers.Tend(brief, trail, func() bool { return x.isSettled(id) }) })
		}
		if from == "" {
			x.log.Info("following a shard's binary log from now on; tables with virtual indexes are scanned there once", "shard", x.shardName(id))
		} else {
			x.log.Info("following a shard's binary log from where it was read last", "shard", x.shardName(id))
		}
		return f
	})
	cancel()
	clearing.Wait()
	if f != nil {
		x.followers.set(id, nil)
		f.close()
		if ctx.Err() == nil { // else the write-intents tell the next start
			x.leave(id, everyIndex)
		}
	}
	if errors.Is(err, ErrNoPlace) {
		err = errors.Join(err, x.forgetPlace(id))
	}
	return err
}

// forgetPlace has a log be followed from now on, behind a scan. It syncs, so that nothing is done where there is no place: a
// log that can't be followed is tried again all the time.
func (x *Indexer) forgetPlace(id catalog.ShardID) error {
	if at, err := x.store.Position(id); err != nil || at == "" {
		return err
	}
	return x.store.KeepPosition(id, "")
}

// tend clears marks while there are some, and renews the registration.
func (f *follower) tend(ctx context.Context) {
	rest := clearEvery
	if f.x.known != nil { // marks are read over a network
		rest *= 10
	}
	renewed, live := f.x.clock.Now(), true
	var kept time.Time
	for ctx.Err() == nil {
		brief, cancel := context.WithTimeout(ctx, clearPatience)
		err := f.clear(brief)
		if now := f.x.clock.Now(); err == nil && now.Sub(renewed) > renewEvery && (f.old() || f.looks()) {
			err = f.renew(brief)
			renewed = now
		}
		if now := f.x.clock.Now(); now.Sub(kept) > keepEvery && (f.heard.Swap(false) || f.owed() || now.Sub(kept) > keepRest) {
			failed := f.keep(brief)
			if failed != nil {
				f.heard.Store(true)
			}
			err, kept = errors.Join(err, failed), now
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			f.x.log.Debug("clear marks behind a shard's binary log, or keep the place in it", "shard", f.x.shardName(f.shard), "error", err)
		}
		if is := f.trail.Live(); is != live {
			if live = is; !live {
				// What statements have left comes by the log when it goes on.
				marked := f.marked()
				f.x.leave(f.shard, func(id catalog.IndexID) bool { return slices.Contains(marked, id) })
			}
		}
		again, stop := f.x.clock.After(rest)
		select {
		case <-again:
		case <-ctx.Done():
		}
		stop()
	}
}

func everyIndex(catalog.IndexID) bool { return true }

// leave leaves indexes on a shard to scans, which nobody has asked for while its log was followed.
func (x *Indexer) leave(id catalog.ShardID, which func(catalog.IndexID) bool) {
	for _, def := range x.store.Indexes() {
		if t, ix := x.indexOf(def); ix != nil && t.Shards.Has(id) && which(def.ID) {
			x.After(plan.Maintenance{Table: t, Operation: "UNKNOWN", Shards: catalog.Only(id), Indexes: []*catalog.Index{ix}})
		}
	}
}

// hears notes that the log has something of a schema that isn't Shunt's own.
func (f *follower) hears(schema string) {
	if !f.heard.Load() && !slices.Contains(catalog.OwnSchemas, schema) {
		f.heard.Store(true)
	}
}

// Change is Reader's.
func (f *follower) Change(on catalog.TableName, c RowChange) error {
	f.hears(on.Schema)
	if t := f.indexed(on); t != nil {
		return f.change(t, c)
	}
	return nil
}

// Doubt is Reader's.
func (f *follower) Doubt(on catalog.TableName) error {
	f.hears(on.Schema)
	if on.Name != "" {
		if t := f.indexed(on); t != nil {
			return f.doubt(t)
		}
		return nil
	}
	c := f.x.opts.Catalog()
	if c == nil {
		return nil
	}
	for t := range c.Tables() {
		if len(t.Indexes) > 0 && (on.Schema == "" || on.Schema == t.Schema) {
			if err := f.doubt(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// End is Reader's.
func (f *follower) End() error {
	err := f.flush()
	if err == nil && f.answers != nil {
		f.answers.Committed()
	}
	return err
}

// Resumed is Reader's.
func (f *follower) Resumed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin()
	if f.answers != nil {
		f.answers.Resumed()
	}
}

// indexed is a table that has virtual indexes, nil for others.
func (f *follower) indexed(on catalog.TableName) *catalog.Table {
	c := f.x.opts.Catalog()
	if c == nil {
		return nil
	}
	t := c.Table(on.Schema, on.Name)
	if t == nil || len(t.Indexes) == 0 || !t.Shards.Has(f.shard) {
		return nil
	}
	return t
}
