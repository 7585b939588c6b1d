package proxy

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// How a statement for several shards waits. It is sent to all of them before any answer is
// read. The shard that was asked last is waited for first: by then the others mostly have
// answered (sendTo). Answers are read in the shards' order while none is late.
//
// A shard is late when it has been waited for longer than 50 to 100 ms (lookEvery). Then the
// client is sent what there is of the answer. Answers are read as they begin, and each is
// waited for by a goroutine of its own. So
//
//   - a merge tells at once what nothing can come before;
//   - LIMIT without an order takes the rows that are there (merge_late.go);
//   - outside of a transaction an error of one shard waits for no other.
//
// Not done: once a shard's answer is being read, the others of a concatenation wait for its
// end.

const (
	// lookEvery is the lookout's interval: a shard is waited for this long at least,
	// and twice as long at most, before the session does something else meanwhile. To
	// look every 20 ms takes some thousandths of a processor.
	lookEvery = 50 * time.Millisecond
	// lookIdle is how many times the lookout finds nothing to look at before it
	// leaves a session, and sleeps when there is none left.
	lookIdle = 20
)

// lookout wakes sessions that have waited for one of several shards for too long. One
// goroutine looks for all, and only while there are such statements: a timer for each
// would cost every statement what only slow ones need.
type lookout struct {
	mu sync.Mutex
	on []*patience
	// wake has an element when there may be a session to look at.
	wake chan struct{}
}

// patience is a session's with the shards that it waits for.
type patience struct {
	wire.Patience
	// listed: the lookout looks at it.
	listed atomic.Bool
	// idle counts the looks that found nothing; the lookout's.
	idle int
}

func newLookout() lookout { return lookout{wake: make(chan struct{}, 1)} }

// LookOut wakes sessions until ctx ends.
func (p *Proxy) LookOut(ctx context.Context) {
	l := &p.lookout
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if l.look() {
			continue
		}
		tick.Stop()
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			tick.Reset(lookEvery)
		}
	}
}

// look looks at all once, and reports whether there are any.
func (l *lookout) look() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = slices.DeleteFunc(l.on, func(w *patience) bool {
		if w.Look() {
			w.idle = 0
			return false
		}
		if w.idle++; w.idle < lookIdle {
			return false
		}
		w.idle = 0
		// Who begins to wait just now has touched it before he sees whether it is
		// listed: one of the two notices.
		w.listed.Store(false)
		return !w.Look() || w.listed.Swap(true)
	})
	return len(l.on) > 0
}

func (l *lookout) add(w *patience) {
	l.mu.Lock()
	l.on = append(l.on, w)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// watch has the session look after its client when it has waited too long for one of
// the shards: what is there of the answer is sent. giveBack ends it.
func (s *session) watch(shards []sent) {
	w := &s.patience
	if w.Late == nil {
		// Should this fail, so does the next write.
		w.Late = func() { _ = s.client.Flush() }
	}
	w.Touch()
	if !w.listed.Load() && !w.listed.Swap(true) {
		s.proxy.lookout.add(w)
	}
	for _, x := range shards {
		x.conn.Watch(&w.Patience)
	}
}

// arrivals are the shards that sendAll has sent a statement to, in the order in which their
// answers begin, as far as it matters: it is theirs by number while none is late.
type arrivals struct {
	s      *session
	shards []sent
	// given are the first ones, that next has given; all of left once one was late.
	given int
	late  bool
	left  []int
	// came gets the shards of left whose answer has begun; nil while nobody waits.
	came chan int
}

// next returns the number of the next shard to read, which has begun to answer if
// others are left. What has been written for the client is sent before it is waited
// for longer.
func (a *arrivals) next() (int, error) {
	if !a.isLate() {
		a.given++
		return a.given - 1, nil
	}
	if a.came == nil {
		for n, i := range a.left {
			if a.shards[i].conn.Arrived() {
				return a.give(n), nil
			}
		}
		if len(a.left) == 1 {
			return a.give(0), a.flush()
		}
		came := make(chan int, len(a.left))
		for _, i := range a.left {
			conn := a.shards[i].conn
			conn.Watch(nil)
			go func() {
				conn.Arrive()
				came <- i
			}()
		}
		a.came = came
	}
	var i int
	select {
	case i = <-a.came:
	default:
		if err := a.flush(); err != nil {
			return 0, err
		}
		a.s.patience.Waits(true)
		i = <-a.came
		a.s.patience.Waits(false)
	}
	a.give(slices.Index(a.left, i))
	a.shards[i].conn.Watch(&a.s.patience.Patience)
	return i, nil
}

// isLate waits until the next shard has begun to answer, or for too long.
// REQUIRES: next has not given all.
func (a *arrivals) isLate() bool {
	if !a.late && a.shards[a.given].conn.Arrive() {
		a.late = true
		for i := a.given; i < len(a.shards); i++ {
			a.left = append(a.left, i)
		}
	}
	return a.late
}

// give takes the nth of left.
func (a *arrivals) give(n int) int {
	i := a.left[n]
	a.left = slices.Delete(a.left, n, n+1)
	return i
}

func (a *arrivals) flush() error { return a.s.clientError(a.s.client.Flush()) }

// close waits until nobody waits any more. A connection that nobody will use again
// isn't waited for. It must come before the connections are given back.
func (a *arrivals) close() {
	if a.came == nil {
		return
	}
	for _, i := range a.left {
		if x := a.shards[i]; !a.s.keepsBusy(x.shard, x.conn) {
			x.conn.Interrupt()
		}
	}
	for range a.left {
		<-a.came
	}
	a.came = nil
}

// readOut reads what nobody waits for of an answer, all of it for nil rows, on a
// connection that the session goes on with. A transaction may end by it.
// Counter-example: the client has got one shard's error, and another has rolled back
// for a deadlock; COMMIT would commit the rest.
func (s *session) readOut(x sent, rows *shard.Rows) {
	var sum shard.Summary
	if rows == nil {
		sum, _ = x.conn.Forward(nil, shard.Result, shard.ForwardOptions{})
	} else {
		rows.Drain(math.MaxInt64)
		sum = rows.Summary
	}
	switch {
	case s.tx == nil:
	case x.conn.Broken:
		s.tx.lost(x.shard, mysqlerr.New(mysqlerr.ShardLost, "Connection to shard "+s.catalog().ShardName(x.shard)+" was lost"))
	default:
		s.tx.watch(x.shard, &sum)
	}
}

// keepsBusy reports a connection whose answer must be read to its end, since the
// session goes on with it: a transaction's, or one that holds table locks.
func (s *session) keepsBusy(id catalog.ShardID, conn *shard.Conn) bool {
	return s.tx != nil && s.tx.conns.at(id) == conn || s.locked(id, conn)
}
