package proxy

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// readLock is the global read lock that FLUSH TABLES WITH READ LOCK takes: while a session
// holds it no other writes, and nothing is committed, on any shard. So snapshots that begin
// meanwhile are of one moment over all shards. Every write of a client passes here, so no server
// is locked, for which Shunt's own work would wait too; what is written past Shunt isn't held up.
//
// As on a server it is taken in two steps. Statements are kept out first, and those under way
// waited for, while transactions may still commit; then commits are.
// Counter-example, in one step: an UPDATE waits for a row of a transaction, whose COMMIT waits for
// the lock, which waits for the UPDATE.
//
// Rule open transactions: until those under way have ended, statements of transactions that have begun
// pass. Counter-example: the transaction whose row the UPDATE waits for has another statement before its
// COMMIT. On a server all three wait until innodb_lock_wait_timeout ends the UPDATE.
type readLock struct{ statements, commits gate }

// gate is passed by many, or shut by some, never both. Who closes it keeps out who comes, then waits until
// nobody is inside, and shuts it.
//
// Invariant: shut is at most closed.
type gate struct {
	inside, closed, shut atomic.Int64
	mu                   sync.Mutex
	// changed is closed when a wait may be over; nil while nobody waits.
	changed chan struct{}
}

// enter passes the gate, or waits until it is open; pressing: or while it isn't shut yet. It costs two
// atomic operations where it is open.
func (g *gate) enter(ctx context.Context, pressing bool) error {
	for !g.tryEnter(pressing) {
		if err := g.wait(ctx, func() bool { return g.passes(pressing) }); err != nil {
			return err
		}
	}
	return nil
}

// tryEnter is enter where that needn't wait.
func (g *gate) tryEnter(pressing bool) bool {
	g.inside.Add(1)
	if g.passes(pressing) {
		return true
	}
	g.leave()
	return false
}

func (g *gate) passes(pressing bool) bool {
	return g.closed.Load() == 0 || pressing && g.shut.Load() == 0
}

func (g *gate) leave() {
	if g.inside.Add(-1) == 0 && g.closed.Load() != 0 {
		g.tell()
	}
}

// close returns when nobody is inside. Who comes meanwhile waits too: a gate that is always in use
// would never be shut.
func (g *gate) close(ctx context.Context) error {
	g.closed.Add(1)
	empty := func() bool { return g.inside.Load() == 0 }
	for {
		if err := g.wait(ctx, empty); err != nil {
			g.closed.Add(-1)
			g.tell()
			return err
		}
		// Who presses in either is seen here, or sees it shut.
		g.shut.Add(1)
		if empty() {
			return nil
		}
		g.shut.Add(-1)
		g.tell()
	}
}

// open undoes close.
func (g *gate) open() {
	g.shut.Add(-1)
	g.closed.Add(-1)
	g.tell()
}

func (g *gate) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

func (g *gate) wait(ctx context.Context, over func() bool) error {
	for {
		g.mu.Lock()
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		if over() { // asked behind changed: what it depends on is changed before tell
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// takeReadLock is FLUSH TABLES WITH READ LOCK.
func (s *session) takeReadLock(ctx context.Context) error {
	if s.tableLocks != nil {
		return errTablesLocked
	}
	if s.proxy.opts.Several {
		return refuse("FLUSH TABLES WITH READ LOCK is not supported where several Shunts have a store together, since others' statements would go on: stop the others, or take the backup in one transaction WITH CONSISTENT SNAPSHOT")
	}
	if err := s.commitImplicitly(ctx); err != nil || s.holdsReadLock {
		return err
	}
	ctx, done := s.waitForReadLock(ctx)
	defer done()
	l := &s.proxy.readLock
	if err := l.statements.close(ctx); err != nil {
		return err
	}
	if err := l.commits.close(ctx); err != nil {
		l.statements.open()
		return err
	}
	s.holdsReadLock = true
	return nil
}

// endReadLock releases the global read lock, if the session holds it.
func (s *session) endReadLock() {
	if s.holdsReadLock {
		s.holdsReadLock = false
		s.proxy.readLock.commits.open()
		s.proxy.readLock.statements.open()
	}
}

// waitForReadLock is ctx for a wait that KILL and lock_wait_timeout end.
func (s *session) waitForReadLock(ctx context.Context) (_ context.Context, done func()) {
	ctx, _, unkillable := s.activity.killable(ctx)
	ctx, stop := s.whileClientStays(ctx)
	chosen, _ := s.settings.value("@@lock_wait_timeout")
	seconds, err := strconv.ParseInt(strings.TrimSpace(chosen), 10, 32)
	cancel := func() {}
	if err == nil {
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(seconds)*time.Second, mysqlerr.New(mysqlerr.LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction"))
	}
	return ctx, func() { cancel(); stop(); unkillable() }
}

// errReadLocked is ER_CANT_UPDATE_WITH_READLOCK.
var errReadLocked = mysqlerr.New(mysqlerr.CantUpdateWithReadLock, "Can't execute the query because you have a conflicting read lock")

// enterWrite waits until no other session holds the global read lock, which none gets then before
// leaveWrite. Statements of ours within one of the client's are part of it.
func (s *session) enterWrite(ctx context.Context) error {
	if s.holdsReadLock {
		return errReadLocked
	}
	if s.writes == 0 {
		g := &s.proxy.readLock.statements
		if g.closed.Load() != 0 {
			var done func()
			ctx, done = s.waitForReadLock(ctx)
			defer done()
		}
		if err := g.enter(ctx, s.tx != nil && len(s.tx.order) > 0); err != nil {
			return err
		}
	}
	s.writes++
	return nil
}

func (s *session) leaveWrite() {
	if s.writes--; s.writes == 0 {
		s.proxy.readLock.statements.leave()
	}
}

// enterCommit is enterWrite for the end of a transaction that has written.
func (s *session) enterCommit(ctx context.Context, tx *transaction) (leave func(), err error) {
	if s.writes > 0 || !tx.writes {
		return func() {}, nil
	}
	g := &s.proxy.readLock.commits
	if g.closed.Load() != 0 {
		waiting, done := s.waitForReadLock(ctx)
		defer done()
		ctx = waiting
	}
	return g.leave, g.enter(ctx, false)
}

// gated reports a plan that may change rows or tables that others see.
func gated(planned plan.Plan) bool {
	switch plan := planned.(type) {
	case *plan.Rows:
		return plan.Kind.Writes() && !allTemporary(plan.Tables)
	case *plan.DDL:
		return true
	case *plan.Load:
		return !plan.Table.Temporary
	case *plan.LockTables:
		return plan.Writes()
	case *plan.Session, *plan.Admin, *plan.Temporary:
	}
	return false
}

func allTemporary(tables []*catalog.Table) bool {
	for _, t := range tables {
		if !t.Temporary {
			return false
		}
	}
	return len(tables) > 0
}
