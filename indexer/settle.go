package indexer

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// idleSeconds is how long a thread must have slept, and how long ago the first
// look must have been, to take it for one that got no command any more.
const (
	idleSeconds = 3
	idleTime    = idleSeconds * time.Second
)

// leftovers are the threads that a shard must be rid of.
type leftovers struct {
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
	port    int // of its client; 0 for none
	idle    bool
	seconds int64
}

// threadsNow are a shard's threads as of one look.
type threadsNow struct {
	shard catalog.ShardID
	conn  Conn
	// own is the number of conn, by which the others are asked for.
	own uint64
	all map[uint64]thread
	// at is compared by Sub alone, which no step of the clock confuses.
	at time.Time
	// uptime is the server's. It is asked once.
	uptime func() (up time.Duration, known bool)
}

// threadsOf looks at a shard's threads.
func (x *Indexer) threadsOf(ctx context.Context, id catalog.ShardID, conn Conn) (*threadsNow, error) {
	now := &threadsNow{shard: id, conn: conn, all: map[uint64]thread{}}
	now.uptime = sync.OnceValues(func() (time.Duration, bool) { return ServerUptime(ctx, conn) })
	if err := conn.Stream(ctx, "SELECT CONNECTION_ID()", func(row [][]byte) error {
		now.own = parseUint(row[0])
		return nil
	}); err != nil {
		return nil, fmt.Errorf("ask for the connection's id: %w", err)
	}
	err := conn.Stream(ctx, "SHOW PROCESSLIST", func(row [][]byte) error {
		if len(row) < 6 {
			return fmt.Errorf("SHOW PROCESSLIST has %d columns", len(row))
		}
		if strings.HasPrefix(string(row[4]), "Binlog Dump") {
			return nil // it serves a replica, never sleeps, and takes no statements
		}
		port := row[2][bytes.LastIndexByte(row[2], ':')+1:]
		th := thread{id: parseUint(row[0]), user: string(row[1]), port: int(parseUint(port)), idle: strings.EqualFold(string(row[4]), "Sleep"), seconds: int64(parseUint(row[5]))}
		now.all[th.id] = th
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the list of threads: %w", err)
	}
	now.at = x.clock.Now()
	return now, nil
}

// ours reports a thread of Shunt's account.
func (now *threadsNow) ours(th thread) bool { return th.user == now.all[now.own].user }

// restarted reports that the server was started after a time, surely.
func (now *threadsNow) restarted(since time.Time) bool {
	uptime, known := now.uptime()
	return known && now.at.Sub(since)-idleTime > uptime
}

// givenAway reports that a thread's number is another connection's of ours by now, which a
// session may use: the server was restarted, too soon after the thread began for its
// uptime to tell.
func (x *Indexer) givenAway(id catalog.ShardID, thread storage.Thread) bool {
	last, known := x.cluster.Thread(id, thread.ID)
	return known && !last.Opened.Equal(thread.Opened)
}

// kill ends a thread that sleeps.
func (x *Indexer) kill(ctx context.Context, now *threadsNow, thread uint64) {
	if err := now.conn.Exec(ctx, fmt.Sprintf("KILL %d", thread)); err != nil {
		x.log.Debug("end an idle thread", "shard", x.shardName(now.shard), "thread", thread, "error", err)
	}
}

// settle looks at a shard's threads once and ends the registrations of those
// that are gone: the one at epoch 0, and those in doubt. done is false if any
// is left.
func (x *Indexer) settle(ctx context.Context, id catalog.ShardID) (done bool, err error) {
	unsettled, open := x.cluster.ToSettle(id)
	conn, err := x.connect(ctx, id)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	now, err := x.threadsOf(ctx, id, conn)
	if err != nil {
		return false, err
	}
	done = true
	if open {
		if done, err = x.settleEarlier(ctx, now, unsettled); err != nil {
			return false, err
		}
	}
	for _, d := range x.doubts.on(id) {
		over, err := x.settleDoubt(ctx, now, d)
		if err != nil {
			return false, err
		}
		done = done && over
	}
	return done, nil
}

// settleEarlier ends the registration at epoch 0 when a previous life's threads have
// gone, and reports that.
//
// A previous life's connection is older than this one's first. When its process
// died its socket was closed, so its thread ends as soon as the statement does
// that it runs. If it sleeps, what it was sent may still be on its way, over a
// network that lost it: the thread is ended. Whose account it has says nothing: the
// configuration may have had another one. A thread of this account that is neither
// this process's nor known to the store is another program's, or its note was lost
// with the power: when it sleeps on, for idleSeconds after the first look, nothing
// will come to it.
func (x *Indexer) settleEarlier(ctx context.Context, now *threadsNow, unsettled int) (done bool, err error) {
	known := map[uint64]bool{}
	for _, old := range x.cluster.OldThreads(now.shard) {
		if _, there := now.all[uint64(old.ID)]; there && !now.restarted(old.Opened) {
			known[uint64(old.ID)] = true
		} else if err := x.cluster.ForgetThread(now.shard, old); err != nil {
			x.log.Debug("forget a connection", "shard", x.shardName(now.shard), "thread", old.ID, "error", err)
		}
	}
	l := x.leftovers[now.shard]
	if l == nil || l.unsettled != unsettled {
		l = &leftovers{left: map[uint64]*leftover{}, at: now.at, unsettled: unsettled}
		x.leftovers[now.shard] = l
		for _, th := range now.all {
			if known[th.id] || th.id < now.own && now.ours(th) && !x.opts.Opened(now.shard, th.id, th.port) {
				l.left[th.id] = &leftover{}
			}
		}
	}
	for id, looked := range l.left {
		switch th, there := now.all[id]; {
		case there && known[id]:
			if th.idle {
				x.kill(ctx, now, id)
			}
		case !there || looked.slept(th, now.at) || th.idle && th.seconds >= idleSeconds && now.at.Sub(l.at) >= idleTime:
			delete(l.left, id)
		}
	}
	if len(l.left) > 0 {
		return false, nil
	}
	if err := x.reread(ctx, now.shard, false); err != nil {
		return false, err
	}
	x.cluster.Settle(now.shard, unsettled)
	delete(x.leftovers, now.shard)
	return true, nil
}

// isSettled reports that nothing of a previous life is left on a shard.
func (x *Indexer) isSettled(id catalog.ShardID) bool {
	_, open := x.cluster.ToSettle(id)
	return !open
}

// settleDoubt ends a registration in doubt when its thread is gone, and reports that.
//
// A thread that sleeps may have done the statement, or wait for it: the network may have lost
// it, and bring it yet. Nothing on the server tells which, as little as for how long it
// has slept. So the thread is ended, and with it the transaction that it may have left
// open, with its locks.
func (x *Indexer) settleDoubt(ctx context.Context, now *threadsNow, d *doubt) (done bool, err error) {
	if th, there := now.all[uint64(d.thread.ID)]; there && !now.restarted(d.thread.Opened) && !x.givenAway(now.shard, d.thread) {
		if th.idle {
			x.kill(ctx, now, th.id)
		}
		return false, nil
	}
	if d.ddl {
		if err := x.reread(ctx, now.shard, true); err != nil {
			return false, err
		}
	}
	if x.doubts.remove(d) {
		x.cluster.End(d.Registration)
		d.writes.End()
		d.defined()
	}
	x.After(d.jobs...)
	return true, nil
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

// UptimeError is by how much ServerUptime may be less than is so: servers count whole seconds.
const UptimeError = 2 * time.Second

// ServerUptime is how long a server has run, by its own clock. It isn't known where the
// server doesn't say, or where its clock was set back behind its start: that is a negative
// number, as an unsigned one.
func ServerUptime(ctx context.Context, conn Conn) (uptime time.Duration, known bool) {
	err := conn.Stream(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'", func(row [][]byte) error {
		if len(row) == 2 {
			seconds, err := strconv.ParseUint(string(row[1]), 10, 64)
			known = err == nil && seconds < uint64(math.MaxInt64/time.Second)
			uptime = time.Duration(seconds) * time.Second
		}
		return nil
	})
	return uptime, known && err == nil
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
	failures := map[catalog.ShardID]time.Time{}
	for {
		again := false
		if c := x.opts.Catalog(); c != nil {
			for _, s := range slices.Concat(c.Shards, c.Joining) { // what is left on one that has gone, too
				if x.isSettled(s.ID) && len(x.doubts.on(s.ID)) == 0 {
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
		case <-x.doubts.came:
		case <-timer:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}
