package proxy

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// A deadlock over several shards is seen by none of them: on each, one transaction
// waits for another that, there, waits for nobody.
//
//	A: UPDATE row 1 of s0        B: UPDATE row 2 of s1
//	A: UPDATE row 2 of s1        B: UPDATE row 1 of s0      both until innodb_lock_wait_timeout
//
// So while several transactions over several shards wait, the shards are asked who
// waits there for whom. A circle that is there at two looks, between which each of its
// transactions was at the same statement, was there all the time between: its youngest
// transaction gets the error that a server gives, and is rolled back.

const (
	// deadlockEvery is the time between two looks, and how long a statement must have
	// been under way to be taken for one that waits. Servers compute INNODB_TRX anew
	// after 100 ms. While the same ones wait, and in no circle, the time grows.
	deadlockEvery, deadlockSlow = 110 * time.Millisecond, time.Second
	// deadlockAsk bounds how long a shard may take to tell.
	deadlockAsk = 2 * time.Second
	// deadlockRest is for how long a shard that refused to tell isn't asked again, and
	// an idle connection is kept.
	deadlockRest = time.Minute
)

// errDeadlock is what servers answer.
var errDeadlock = &shard.ServerError{Code: codeDeadlock, State: "40001", Message: "Deadlock found when trying to get lock; try restarting transaction"}

// deadlocks knows the transactions that are open on several shards.
type deadlocks struct {
	mu     sync.Mutex
	spread map[*transaction]spreadTransaction
	// alone are those that wait until they are alone with a table.
	alone map[*transaction]aloneWait
	// wake has an element when there may be several of them.
	wake chan struct{}
	// met are tables (by planner.TableName) that writes over several shards have met at,
	// with the time.
	met sync.Map
}

type spreadTransaction struct {
	began   time.Time // on its second shard
	threads []thread
}

// aloneWait is a transaction's wait in Shunt, beside what it holds on the shards.
type aloneWait struct {
	spreadTransaction
	until  *meeting
	cancel context.CancelCauseFunc
}

// thread is a server's.
type thread struct {
	shard catalog.ShardID
	id    uint32
}

func newDeadlocks() deadlocks {
	return deadlocks{spread: map[*transaction]spreadTransaction{}, alone: map[*transaction]aloneWait{}, wake: make(chan struct{}, 1)}
}

// deadlockFear is for how long a table's shards are asked in turn after writes that asked
// them at once have met.
const deadlockFear = 10 * time.Second

// fear notes that a write over several shards was a victim.
func (d *deadlocks) fear(tables []*catalog.Table) {
	for _, t := range tables {
		d.met.Store(planner.TableName{Schema: t.Schema, Name: t.Name}, time.Now())
	}
}

// feared reports that a write had better ask its shards in turn: it then meets others on
// the first shard that both need, and waits there.
func (d *deadlocks) feared(tables []*catalog.Table) bool {
	for _, t := range tables {
		if at, ok := d.met.Load(planner.TableName{Schema: t.Schema, Name: t.Name}); ok && time.Since(at.(time.Time)) < deadlockFear {
			return true
		}
	}
	return false
}

// joined notes by which connection a transaction has joined its last shard. It is of no
// concern before it is on two.
func (d *deadlocks) joined(tx *transaction) {
	if len(tx.order) < 2 {
		return
	}
	on := func(id catalog.ShardID) thread { return thread{id, tx.conns[id].ThreadID} }
	d.mu.Lock()
	x, known := d.spread[tx]
	if !known {
		x = spreadTransaction{time.Now(), []thread{on(tx.order[0])}}
	}
	x.threads = append(x.threads, on(tx.order[len(tx.order)-1]))
	d.spread[tx] = x
	several := len(d.spread) > 1
	d.mu.Unlock()
	if several {
		d.wakeUp()
	}
}

// wakeUp has deadlocks looked for.
func (d *deadlocks) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// waitsAlone notes that a transaction waits for the end of another, in which a session is
// alone with a table.
func (d *deadlocks) waitsAlone(tx *transaction, until *meeting, cancel context.CancelCauseFunc) {
	w := aloneWait{spreadTransaction{began: time.Now()}, until, cancel}
	for _, id := range tx.order {
		w.threads = append(w.threads, thread{id, tx.conns[id].ThreadID})
	}
	if len(w.threads) == 0 {
		return // nobody waits for it
	}
	d.mu.Lock()
	d.alone[tx] = w
	d.mu.Unlock()
	d.wakeUp()
}

func (d *deadlocks) waitedAlone(tx *transaction) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.alone, tx)
}

// cancelAlone ends a transaction's wait, if it still does.
func (d *deadlocks) cancelAlone(tx *transaction) (ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ended := d.alone[tx]
	if ended {
		w.cancel(errDeadlock)
	}
	return ended
}

// left forgets a transaction's connection to a shard before it may become another's.
func (d *deadlocks) left(tx *transaction, id catalog.ShardID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, known := d.spread[tx]
	if !known {
		return
	}
	// Who looks for deadlocks may be reading the list.
	x.threads = slices.DeleteFunc(slices.Clone(x.threads), func(t thread) bool { return t.shard == id })
	d.spread[tx] = x
	if len(x.threads) < 2 {
		delete(d.spread, tx)
	}
}

// ended forgets a transaction before its connections may become others'.
func (d *deadlocks) ended(tx *transaction) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.spread, tx)
}

// several returns those that are open, nil if they are not several, and for whom some of
// them wait in Shunt.
func (d *deadlocks) several() (open map[*transaction]spreadTransaction, alone map[*transaction]*transaction) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.spread) < 2 && len(d.alone) == 0 {
		return nil, nil
	}
	open, alone = maps.Clone(d.spread), map[*transaction]*transaction{}
	for tx, w := range d.alone {
		if by := w.until.by.Load(); by != nil {
			alone[tx] = by
			if _, known := open[tx]; !known {
				open[tx] = w.spreadTransaction
			}
		}
	}
	return open, alone
}

// EndDeadlocks looks for deadlocks over several shards, and ends them, until ctx ends.
func (p *Proxy) EndDeadlocks(ctx context.Context) {
	l := &deadlockLook{p: p, asks: map[catalog.ShardID]*lockWaits{}}
	defer l.close(0)
	tick := time.NewTicker(deadlockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if open, alone := p.deadlocks.several(); open != nil {
			l.look(ctx, open, alone)
			continue
		}
		l.suspected, l.waited = nil, nil
		tick.Stop()
		select {
		case <-ctx.Done():
			return
		case <-p.deadlocks.wake:
		case <-time.After(deadlockRest):
			l.close(deadlockRest)
		}
		tick.Reset(deadlockEvery)
	}
}

// deadlockLook looks again and again. It is one goroutine's.
type deadlockLook struct {
	p    *Proxy
	asks map[catalog.ShardID]*lockWaits
	// suspected are the transactions that were in a circle at the last look, with the
	// statement that each was at.
	suspected map[*transaction]time.Time
	// waited are those that waited at the last look; the next is pause later while
	// these do.
	waited map[*transaction]waiting
	looked time.Time
	pause  time.Duration
}

// waiting is a transaction whose statement has been under way for some time.
type waiting struct {
	since time.Time
	on    catalog.ShardSet
}

func (tx *transaction) waiting() (w waiting) {
	a := &tx.s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	w.since = a.since
	for _, x := range a.running {
		w.on.Add(x.shard)
	}
	return w
}

func (l *deadlockLook) look(ctx context.Context, open map[*transaction]spreadTransaction, alone map[*transaction]*transaction) {
	wait := map[*transaction]waiting{}
	var shards catalog.ShardSet
	for tx := range open {
		if w := tx.waiting(); (!w.on.Empty() || alone[tx] != nil) && time.Since(w.since) >= deadlockEvery {
			wait[tx] = w
			shards = shards.Union(w.on)
		}
	}
	before := l.suspected
	switch {
	case len(wait) < 2 || shards.Len() < 2 && len(alone) == 0:
		l.suspected, l.waited = nil, nil
		return
	case before != nil || !maps.Equal(wait, l.waited):
		l.pause = deadlockEvery
	case time.Since(l.looked) < l.pause:
		return
	default:
		l.pause = min(2*l.pause, deadlockSlow)
	}
	l.suspected, l.waited, l.looked = nil, wait, time.Now()
	edges := l.edges(ctx, shards)
	for tx, by := range alone {
		if other, known := open[by]; known {
			edges[open[tx].threads[0]] = append(edges[open[tx].threads[0]], other.threads[0])
		}
	}
	for victim, circle := range circles(open, edges) {
		sure := true
		for _, tx := range circle {
			since, ok := before[tx]
			sure = sure && ok && since.Equal(wait[tx].since)
			if l.suspected == nil {
				l.suspected = map[*transaction]time.Time{}
			}
			l.suspected[tx] = wait[tx].since
		}
		if sure {
			delete(l.suspected, victim)
			l.end(ctx, victim, wait[victim].since, edges)
		}
	}
}

// end fails the statement that a transaction waits in, if it still does.
func (l *deadlockLook) end(ctx context.Context, tx *transaction, since time.Time, edges map[thread][]thread) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a := &tx.s.activity
	a.ending.Lock()
	defer a.ending.Unlock()
	a.mu.Lock()
	now, running := a.since, slices.Clone(a.running)
	a.mu.Unlock()
	if !now.Equal(since) {
		return
	}
	ends := l.p.deadlocks.cancelAlone(tx)
	for _, x := range running { // all: it isn't rolled back before each has answered
		if len(edges[thread{x.shard, x.conn.ThreadID}]) == 0 {
			continue
		}
		x.conn.InterruptedBy(errDeadlock)
		err := x.conn.Kill(ctx)
		if err == nil {
			ends = true
			continue
		}
		if serverCode(err) != 0 { // it was not killed
			x.conn.InterruptedBy(nil)
		}
		tx.s.log.Warn("end a deadlock", "shard", l.p.opts.Pools[x.shard].Name(), "error", err)
	}
	if ends {
		l.p.metrics.deadlocks.Inc()
		tx.s.log.Info("a deadlock over several shards: the transaction is rolled back")
	}
}

// edges are who waits for whom on some shards.
func (l *deadlockLook) edges(ctx context.Context, shards catalog.ShardSet) map[thread][]thread {
	ctx, cancel := context.WithTimeout(ctx, deadlockAsk)
	defer cancel()
	query := lockWaitsMySQL
	if l.p.opts.Directory.Catalog().MariaDB {
		query = lockWaitsMariaDB
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	edges := map[thread][]thread{}
	for id := range shards.All {
		ask := l.asks[id]
		if ask == nil {
			ask = &lockWaits{pool: l.p.opts.Pools[id], log: l.p.opts.Logger}
			l.asks[id] = ask
		}
		all.Go(func() {
			pairs := ask.pairs(ctx, query)
			mu.Lock()
			defer mu.Unlock()
			for _, x := range pairs {
				waits := thread{id, x[0]}
				edges[waits] = append(edges[waits], thread{id, x[1]})
			}
		})
	}
	all.Wait()
	return edges
}

// close closes connections that have been idle for so long.
func (l *deadlockLook) close(idle time.Duration) {
	for _, ask := range l.asks {
		if ask.conn != nil && time.Since(ask.used) >= idle {
			ask.conn.Close()
			ask.conn = nil
		}
	}
}

// What MySQL needs SELECT on performance_schema.data_lock_waits for, and both PROCESS.
const (
	lockWaitsMySQL = "SELECT w.trx_mysql_thread_id, b.trx_mysql_thread_id FROM performance_schema.data_lock_waits l " +
		"JOIN information_schema.INNODB_TRX w ON w.trx_id = l.REQUESTING_ENGINE_TRANSACTION_ID " +
		"JOIN information_schema.INNODB_TRX b ON b.trx_id = l.BLOCKING_ENGINE_TRANSACTION_ID"
	lockWaitsMariaDB = "SELECT w.trx_mysql_thread_id, b.trx_mysql_thread_id FROM information_schema.INNODB_LOCK_WAITS l " +
		"JOIN information_schema.INNODB_TRX w ON w.trx_id = l.requesting_trx_id " +
		"JOIN information_schema.INNODB_TRX b ON b.trx_id = l.blocking_trx_id"
)

var errBlind = errors.New("performance_schema is off")

// lockWaits asks one shard, by a connection outside of its pool, which may be exhausted
// by those that wait.
type lockWaits struct {
	pool *shard.Pool
	log  *slog.Logger
	conn *shard.Conn
	// used is when it was asked last, refused when it refused to tell; told: the log says so.
	used, refused time.Time
	told          bool
}

// pairs are threads and those that they wait for; nil where the shard doesn't tell.
func (w *lockWaits) pairs(ctx context.Context, query string) (pairs [][2]uint32) {
	if time.Since(w.refused) < deadlockRest {
		return nil
	}
	rows, err := w.ask(ctx, query)
	if _, refused := errors.AsType[*shard.ServerError](err); refused || errors.Is(err, errBlind) {
		w.refused = time.Now()
		if !w.told {
			w.told = true
			w.log.Warn("who waits for whom can't be seen: deadlocks over several shards last for innodb_lock_wait_timeout", "shard", w.pool.Name(), "error", err)
		}
	}
	for _, r := range rows {
		waits, err := strconv.ParseUint(string(r[0]), 10, 32)
		blocks, err2 := strconv.ParseUint(string(r[1]), 10, 32)
		if err == nil && err2 == nil { // not of a thread that doesn't exist
			pairs = append(pairs, [2]uint32{uint32(waits), uint32(blocks)})
		}
	}
	return pairs
}

func (w *lockWaits) ask(ctx context.Context, query string) (rows [][][]byte, err error) {
	if w.conn != nil && !w.conn.Alive() {
		w.conn.Close()
		w.conn = nil
	}
	if w.conn == nil {
		if w.conn, err = w.pool.Dial(ctx); err != nil {
			w.conn = nil
			return nil, err
		}
	}
	w.used = time.Now()
	res, err := w.conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	if len(res.Rows) > 0 || query != lockWaitsMySQL {
		return res.Rows, nil
	}
	on, err := w.conn.Query(ctx, "SELECT 1 FROM DUAL WHERE @@performance_schema")
	if err == nil && len(on.Rows) == 0 {
		err = errBlind
	}
	return nil, err
}

// circles yields transactions that wait for each other, each circle with the one that
// began last. When that has gone there may be more.
func circles(open map[*transaction]spreadTransaction, edges map[thread][]thread) iter.Seq2[*transaction, []*transaction] {
	return func(yield func(*transaction, []*transaction) bool) {
		of := map[thread]*transaction{}
		for tx, x := range open {
			for _, t := range x.threads {
				of[t] = tx
			}
		}
		gone := map[*transaction]bool{}
		byAge := slices.SortedFunc(maps.Keys(open), func(x, y *transaction) int { return open[x].began.Compare(open[y].began) })
		for i := 0; i < len(byAge); {
			circle := circleFrom(byAge[i], open, of, edges, gone)
			if circle == nil {
				i++
				continue
			}
			victim := slices.MaxFunc(circle, func(x, y *transaction) int { return open[x].began.Compare(open[y].began) })
			gone[victim] = true
			if !yield(victim, circle) {
				return
			}
		}
	}
}

// circleFrom are the transactions on a way from one back to it, nil for none.
func circleFrom(start *transaction, open map[*transaction]spreadTransaction, of map[thread]*transaction, edges map[thread][]thread, gone map[*transaction]bool) []*transaction {
	seen := map[thread]bool{}
	var path []*transaction
	var from func(threads []thread) bool
	from = func(threads []thread) bool {
		for _, t := range threads {
			for _, next := range edges[t] {
				tx := of[next]
				switch {
				case tx == start:
					return true
				case seen[next] || gone[tx]:
				case tx == nil: // another's, which waits on this shard alone
					seen[next] = true
					if from([]thread{next}) {
						return true
					}
				default:
					for _, t := range open[tx].threads {
						seen[t] = true
					}
					path = append(path, tx)
					if from(open[tx].threads) {
						return true
					}
					path = path[:len(path)-1]
				}
			}
		}
		return false
	}
	if gone[start] || !from(open[start].threads) {
		return nil
	}
	return append(path, start)
}
