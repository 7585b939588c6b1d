package indexer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// recover makes the store right again after whatever ended the process before.
// When it returns, statements may be served: every key that may have been lost
// is behind a mark.
func (x *Indexer) recover(context.Context) error {
	type place struct{ schema, table string }
	indexes := map[place][]storage.IndexDef{}
	byID := map[storage.IndexID]storage.IndexDef{}
	for _, def := range x.store.Indexes() {
		p := place{def.Schema, def.Table}
		indexes[p] = append(indexes[p], def)
		byID[def.ID] = def
	}
	jobs := map[storage.Pair][]storage.IndexID{}
	due := func(p storage.Pair, id storage.IndexID) {
		if slices.Contains(jobs[p], id) {
			return
		}
		jobs[p] = append(jobs[p], id)
	}
	// A power loss: adds and marks that were not synced may be gone.
	var marks []storage.Mark
	for _, p := range x.store.Lost() {
		for _, def := range indexes[place{p.Schema, p.Table}] {
			marks = append(marks, storage.Mark{Index: def.ID, Shard: p.Shard, Epoch: x.store.Epoch()})
			due(p, def.ID)
		}
		x.log.Warn("power loss: index entries may have been lost; reads go to the shard until it is scanned",
			"schema", p.Schema, "table", p.Table, "shard", x.shardName(catalog.ShardID(p.Shard)))
	}
	if len(marks) > 0 {
		if err := x.store.Mark(marks); err != nil {
			return fmt.Errorf("mark what a power loss may have lost: %w", err)
		}
	}
	// A dead process: nothing is lost, but what was added for a statement that
	// was never sent is stale.
	for _, p := range x.store.Unclean() {
		for _, def := range indexes[place{p.Schema, p.Table}] {
			due(p, def.ID)
		}
	}
	// A mark's job may not have made it into the store.
	for _, m := range x.store.AllMarks() {
		if def, ok := byID[m.Index]; ok {
			due(storage.Pair{Schema: def.Schema, Table: def.Table, Shard: m.Shard}, m.Index)
		}
	}
	for p, ids := range jobs {
		_, err := x.store.Enqueue(storage.Job{
			Type: storage.MaintainIndex, Schema: p.Schema, Table: p.Table, Operation: "RECOVERY",
			Shards: storage.Only(p.Shard), Indexes: ids, NotBefore: x.clock.Now(),
		})
		if err != nil {
			return fmt.Errorf("enqueue job: %w", err)
		}
	}
	if err := x.store.Recovered(); err != nil {
		return fmt.Errorf("finish recovery: %w", err)
	}
	return x.resumeBuilds()
}

// resumeBuilds makes a job for each index that is being built and has none.
func (x *Indexer) resumeBuilds() error {
	has := map[storage.IndexID]bool{}
	for _, j := range x.store.Jobs() {
		if j.Type == storage.BuildIndex {
			for _, id := range j.Indexes {
				has[id] = true
			}
		}
	}
	for _, def := range x.store.Indexes() {
		altered, err := x.altered(def)
		if err != nil {
			return err
		}
		needed := (def.HasBuild || def.Status == storage.Building) && def.Status != storage.Failed || altered
		if !needed || has[def.ID] {
			continue
		}
		if !def.HasBuild {
			if err := x.store.StartBuild(def.ID, def.Partitions); err != nil {
				return fmt.Errorf("start build of index %s: %w", def.Name, err)
			}
		}
		if err := x.enqueueBuild(def, "RECOVERY"); err != nil {
			return err
		}
	}
	return nil
}

// altered reports an index whose columns have been changed since its keys were made,
// by DDL behind Shunt's back or that an earlier life had sent. Nobody reads by it.
func (x *Indexer) altered(def storage.IndexDef) (bool, error) {
	c := x.opts.Catalog()
	if c == nil || !def.Readable || def.HasBuild || def.Status != storage.Ready {
		return false, nil
	}
	t := c.Table(def.Schema, def.Table)
	if t == nil || t.Differs != "" {
		return false, nil
	}
	for _, ix := range t.Indexes {
		if ix.ID != uint32(def.ID) || len(ix.Columns) == 0 {
			continue
		}
		now := ix.Definition()
		if def.Keyed == "" { // a store of before there was this
			return false, x.store.UpdateIndex(def.ID, func(d *storage.IndexDef) { d.Keyed = now })
		}
		return def.Keyed != now, nil
	}
	return false, nil
}

// mend makes the jobs that could not be made when they should have been, for
// lack of disk space most likely: of builds, and of the deletion of old
// generations. REQUIRES: x.admin is held.
func (x *Indexer) mend() {
	err := x.resumeBuilds()
	if x.store.Stats().Garbage > 0 {
		err = errors.Join(err, x.enqueueGarbage("", ""))
	}
	if err != nil {
		x.log.Warn("maintenance jobs could not be made; this is tried again each minute", "error", err)
	}
}

const mendEvery = time.Minute

// mendAtTimes mends each minute. It is the dispatcher's, and so doesn't wait
// for an operator's statement, which may wait for a job.
func (x *Indexer) mendAtTimes(now time.Time) (next time.Time) {
	if now.Before(x.work.mend) {
		return x.work.mend
	}
	if !x.work.mend.IsZero() && x.admin.TryLock() {
		x.mend()
		x.admin.Unlock()
	}
	x.work.mend = now.Add(mendEvery)
	return x.work.mend
}

// idleSeconds is how long a thread must have slept, and how long ago the first
// look must have been, to take it for one that got no command any more.
const (
	idleSeconds = 3
	idleTime    = idleSeconds * time.Second
)

// lookout is what is known of the threads that a shard must be rid of.
type lookout struct {
	// left are the threads that were there at the first look, and nothing says yet
	// that they are not of a previous life.
	left map[uint64]*leftover
	// at is the time of the first look.
	at time.Time
	// unsettled is what it is of, see toSettle.
	unsettled int
}

// leftover is a thread that was there at the first look.
type leftover struct {
	// looks is how often in a row it slept, since that time.
	looks int
	since time.Time
}

// idleLooks: a thread that slept whenever it was looked at, so often and for
// idleSeconds, gets its commands from a program that lives, though it may never
// sleep for long: one that pings each second. What a dead one has sent comes at
// once, and is read by a thread that sleeps.
const idleLooks = 6

// slept notes a look at the thread, and reports whether it is of no concern.
func (l *leftover) slept(th thread, now time.Time) bool {
	if !th.idle {
		l.looks = 0
		return false
	}
	if l.looks++; l.looks == 1 {
		l.since = now
	}
	return l.looks >= idleLooks && now.Sub(l.since) >= idleTime
}

// thread is a line of SHOW PROCESSLIST.
type thread struct {
	id      uint64
	user    string
	idle    bool
	seconds int64
}

// settle looks at a shard's threads once and ends the registrations of those
// that are gone: the one at epoch 0, and those in doubt. done is false if any
// is left.
//
// A previous life's connection is older than this one's first. When its process
// died its socket was closed, so its thread ends as soon as the statement does
// that it runs. If it sleeps, what it was sent may still be on its way, over a
// network that lost it: the thread is ended. One that the store doesn't know is
// another program's, or its note was lost with the power: when it sleeps on,
// for idleSeconds after the first look, nothing will come to it.
func (x *Indexer) settle(ctx context.Context, id catalog.ShardID) (done bool, err error) {
	unsettled, open := x.tracker.toSettle(id)
	conn, err := x.connect(ctx, id)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	own := uint64(0)
	if err := conn.Stream(ctx, "SELECT CONNECTION_ID()", func(row [][]byte) error {
		own = parseUint(row[0])
		return nil
	}); err != nil {
		return false, fmt.Errorf("ask for the connection's id: %w", err)
	}
	threads := map[uint64]thread{}
	err = conn.Stream(ctx, "SHOW PROCESSLIST", func(row [][]byte) error {
		if len(row) < 6 {
			return fmt.Errorf("SHOW PROCESSLIST has %d columns", len(row))
		}
		if strings.HasPrefix(string(row[4]), "Binlog Dump") {
			return nil // it serves a replica, never sleeps, and takes no statements
		}
		th := thread{id: parseUint(row[0]), user: string(row[1]), idle: strings.EqualFold(string(row[4]), "Sleep"), seconds: int64(parseUint(row[5]))}
		threads[th.id] = th
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read the list of threads: %w", err)
	}
	now := x.clock.Now() // compared by Sub alone, which no step of the clock confuses
	// restarted: the server was started after a time, surely. It is asked once.
	uptime := sync.OnceValue(func() time.Duration { return serverUptime(ctx, conn) })
	restarted := func(since time.Time) bool { return now.Sub(since)-idleTime > uptime() }
	end := func(thread uint64) {
		if err := conn.Exec(ctx, fmt.Sprintf("KILL %d", thread)); err != nil {
			x.log.Debug("end an idle thread", "shard", x.shardName(id), "thread", thread, "error", err)
		}
	}
	done = true
	if open {
		l := x.lookouts[id]
		if l == nil || l.unsettled != unsettled {
			l = &lookout{left: map[uint64]*leftover{}, at: now, unsettled: unsettled}
			x.lookouts[id] = l
			for _, th := range threads {
				if th.id < own && th.user == threads[own].user {
					l.left[th.id] = &leftover{}
				}
			}
		}
		known := map[uint64]bool{}
		for _, old := range x.store.OldThreads(storage.ShardID(id)) {
			if _, there := threads[uint64(old.ID)]; there && !restarted(old.Opened) {
				known[uint64(old.ID)] = true
			} else if err := x.store.ForgetThread(storage.ShardID(id), old.ID); err != nil {
				x.log.Debug("forget a connection", "shard", x.shardName(id), "thread", old.ID, "error", err)
			}
		}
		for left, looked := range l.left {
			switch th, there := threads[left]; {
			case there && known[left]:
				if th.idle {
					end(left)
				}
			case !there || looked.slept(th, now) || th.idle && th.seconds >= idleSeconds && now.Sub(l.at) >= idleTime:
				delete(l.left, left)
			}
		}
		if len(l.left) == 0 {
			if err := x.reread(ctx, id, false); err != nil {
				return false, err
			}
			x.tracker.settle(id, unsettled)
			delete(x.lookouts, id)
		} else {
			done = false
		}
	}
	for _, d := range x.tracker.doubtsOn(id) {
		th, there := threads[uint64(d.thread)]
		if there && restarted(d.at) {
			there = false // the number is another's now, who may never sleep
		}
		switch {
		case there && th.idle && th.user == threads[own].user && th.seconds > int64(now.Sub(d.at)/time.Second)+idleSeconds:
			// It has been idle since before the statement was sent, and the
			// statement may still be on its way. Ending the thread settles it.
			end(th.id)
			done = false
		case there && (!th.idle || th.seconds < idleSeconds):
			done = false
		default:
			if d.ddl {
				if err := x.reread(ctx, id, true); err != nil {
					return false, err
				}
			}
			x.tracker.resolve(d)
			x.After(d.jobs...)
		}
	}
	return done, nil
}

// reread has the schema of a shard read again, once what may have changed it is over
// there. If it was changed, statements planned meanwhile did not foresee what keys they
// make: they are registered no later than the marks, which so outlive them.
func (x *Indexer) reread(ctx context.Context, id catalog.ShardID, ddl bool) error {
	if x.opts.Reread == nil {
		return nil
	}
	changed, err := x.opts.Reread(ctx, id)
	if err != nil {
		return fmt.Errorf("read the schema again: %w", err)
	}
	if !changed && !ddl {
		return nil
	}
	return x.Replaced(id)
}

// serverUptime is how long the server has run, within a second or two; for ever if
// it doesn't say. One whose clock was set back behind its start says a negative
// number, as an unsigned one.
func serverUptime(ctx context.Context, conn Conn) time.Duration {
	const ever = time.Duration(math.MaxInt64)
	uptime := ever
	err := conn.Stream(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'", func(row [][]byte) error {
		if len(row) == 2 {
			if seconds := parseUint(row[1]); seconds < uint64(ever/time.Second) {
				uptime = time.Duration(seconds) * time.Second
			}
		}
		return nil
	})
	if err != nil {
		return ever
	}
	return uptime
}

func parseUint(b []byte) uint64 {
	n := uint64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// settleEvery is how often a shard with something in doubt is looked at.
const settleEvery = 500 * time.Millisecond

// settleAll looks at the shards that are not settled, and at those with a
// registration in doubt, until nothing is left; then it waits for the next.
func (x *Indexer) settleAll(ctx context.Context) {
	doubted := make(chan struct{}, 1)
	x.tracker.onDoubt(func() {
		select {
		case doubted <- struct{}{}:
		default:
		}
	})
	failures := map[catalog.ShardID]time.Time{}
	for {
		again := false
		if c := x.opts.Catalog(); c != nil {
			for _, s := range c.Shards {
				if x.tracker.isSettled(s.ID) && len(x.tracker.doubtsOn(s.ID)) == 0 {
					continue
				}
				done, err := x.settle(ctx, s.ID)
				if ctx.Err() != nil {
					return
				}
				again = again || !done
				if now := x.clock.Now(); err != nil && now.Sub(failures[s.ID]) > time.Minute {
					failures[s.ID] = now
					x.log.Warn("what an earlier connection may still do on the shard can't be told; stale index entries stay until it can",
						"shard", s.Name, "error", err)
				}
			}
		} else {
			again = true
		}
		wait := 60 * settleEvery // a shard may have been added
		if again {
			wait = settleEvery
		}
		timer, stop := x.clock.After(wait)
		select {
		case <-doubted:
		case <-timer:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}
