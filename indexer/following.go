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
	"github.com/shunt-sql/shunt/storage"
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
	any  atomic.Bool
	wake chan struct{} // has a token when some are wanted

	mu     sync.Mutex
	wanted catalog.ShardSet // to be followed though no index needs it yet
	of     map[catalog.ShardID]*follower
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

// want has shards be followed for a while.
func (l *followers) want(shards catalog.ShardSet) {
	l.mu.Lock()
	l.wanted = l.wanted.Union(shards)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// takeWanted are those that were wanted since the last call.
func (l *followers) takeWanted() catalog.ShardSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := l.wanted
	l.wanted = catalog.ShardSet{}
	return wanted
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

const (
	// needEvery is how often the shards are looked for whose logs are needed.
	needEvery = time.Second
	// needRest is how long a log is followed that nothing needs: DDL takes tables away for a moment.
	needRest = time.Minute
)

// NeedsLog reports that a shard has a table with a virtual index.
func (x *Indexer) NeedsLog(id catalog.ShardID) bool { return x.needed().Has(id) }

// needed are the shards that have tables with virtual indexes.
func (x *Indexer) needed() (set catalog.ShardSet) {
	if c := x.opts.Catalog(); c != nil {
		for t := range c.Tables() {
			if len(t.Indexes) > 0 {
				set = set.Union(t.Shards)
			}
		}
	}
	return set
}

// followNeeded follows the logs of the shards where a virtual index needs that, until ctx ends: a log costs its shard, and
// this process, something for each write.
func (x *Indexer) followNeeded(ctx context.Context) {
	stops := map[catalog.ShardID]func(error){} // of those that are followed; each returns when that has ended
	defer func() {
		for _, stop := range stops {
			stop(nil)
		}
	}()
	last := map[catalog.ShardID]time.Time{} // when it was needed
	for ctx.Err() == nil {
		needed, now := x.needed().Union(x.followers.takeWanted()), x.clock.Now()
		for id := range x.opts.Following.All {
			stop, followed := stops[id]
			switch {
			case needed.Has(id):
				last[id] = now
				if !followed {
					stops[id] = x.startFollowing(ctx, id)
				}
			case followed && now.Sub(last[id]) > needRest:
				stop(errNotNeeded)
				delete(stops, id)
			}
		}
		again, stop := x.clock.After(needEvery)
		select {
		case <-again:
		case <-x.followers.wake:
		case <-ctx.Done():
		}
		stop()
	}
}

var errNotNeeded = errors.New("no virtual index needs the log")

// startFollowing follows a shard's log until ctx ends, or stop is called, which returns when that has ended. Where it is stopped by
// errNotNeeded its place in the log is forgotten.
//
// Counter-example to that at the end of the process: ctx is told so before its children are, so that their cause may be stop's. The
// next start has no place, and scans all.
func (x *Indexer) startFollowing(ctx context.Context, id catalog.ShardID) (stop func(why error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { x.follow(ctx, id) })
	return func(why error) {
		cancel(why)
		running.Wait()
	}
}

// unbegun reports that of no table of a shard's a virtual index has been read from its rows.
func (x *Indexer) unbegun(id catalog.ShardID) bool {
	c := x.opts.Catalog()
	return c != nil && !slices.ContainsFunc(x.store.Indexes(), func(d storage.IndexRecord) bool {
		t := c.Table(d.Schema, d.Table)
		return !d.Unbegun && (t == nil || t.Shards.Has(id))
	})
}

// awaitFollowed has the logs of shards be followed that can be. Where that takes long it returns all the same.
func (x *Indexer) awaitFollowed(ctx context.Context, shards catalog.ShardSet) {
	x.followers.want(shards)
	var missing []catalog.ShardID
	for id := range shards.Intersect(x.opts.Following).All {
		if !x.isFollowed(id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer x.cancelAfter(x.patience, cancel, errPatience)()
	var waiting sync.WaitGroup
	for _, id := range missing {
		waiting.Go(func() {
			if x.opts.Logs.Fit(ctx, id) != nil {
				return
			}
			for !x.isFollowed(id) && x.sleep(ctx, clearEvery) {
			}
		})
	}
	waiting.Wait()
}

// isFollowed reports that a shard's log is followed, by any process.
func (x *Indexer) isFollowed(id catalog.ShardID) bool {
	if !x.followers.live(catalog.Only(id)).Empty() {
		return true
	}
	at := ""
	if x.opts.Everyone != nil {
		at, _ = x.store.Position(id) // who can't tell waits
	}
	return at != ""
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
		x.sleep(ctx, wait)
		wait = min(2*wait, followBackoff)
	}
}

// followOnce follows it until something would be missing.
func (x *Indexer) followOnce(ctx context.Context, id catalog.ShardID) error {
	from, err := x.placeIn(id)
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
	if errors.Is(err, ErrNoPlace) || errors.Is(context.Cause(ctx), errNotNeeded) {
		err = errors.Join(err, x.forgetPlace(id))
	}
	return err
}

// placeIn is where a shard's log is followed from, "" for now: nothing of before is needed while no build has read the shard.
func (x *Indexer) placeIn(id catalog.ShardID) (string, error) {
	if x.unbegun(id) {
		return "", nil
	}
	return x.store.Position(id)
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
		f.x.sleep(ctx, rest)
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
