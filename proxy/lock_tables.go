package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// tableLocks are what LOCK TABLES has locked: on every shard that holds one of the
// tables, over a connection that the session keeps, pinned, until UNLOCK TABLES,
// START TRANSACTION, AND CHAIN, COM_RESET_CONNECTION, COM_CHANGE_USER or its end. All that the
// session does on these shards goes over these connections, be it in a transaction:
// another one would wait for the session's own locks. So the servers themselves say
// what isn't locked (1100), by which alias it is, and what may only be read (1099).
//
// # Deadlocks
//
// Shards are locked in the order of their numbers, the tables of one in a single
// statement: two LOCK TABLES never wait for each other. A transaction may hold a
// table on a later shard and then want one that is locked on an earlier, a circle
// that no server sees. So who holds locks and has to wait for more does that for
// besideWait only; then it gives up what it has, and begins anew.
//
// # Transactions
//
// BEGIN would release the locks. So a transaction begins on these connections with
// SET autocommit = 0, which no statement but the next really begins, and when it has
// ended they are set back.
//
// # Gathers
//
// Rows are copied over the pinned connections, under the aliases of the client's
// text, and the query runs over the copies on another connection. An UPDATE or
// DELETE that needs copies would have to read them beside the locked tables, which
// the server refuses: so does Shunt, with 1235.
type tableLocks struct {
	conns map[catalog.ShardID]*shard.Conn
	// named are the tables that may be named, those behind locked views among them.
	named map[catalog.TableName]bool
	// failed: a connection was lost, and with it the locks of a shard; all others
	// were released. The session is told until it unlocks.
	failed error
	// gated: some are for writing, and keep the session within the gate of writes.
	gated bool
}

// lockTables executes LOCK TABLES and UNLOCK TABLES.
func (s *session) lockTables(ctx context.Context, p *plan.LockTables, sql string) error {
	if p.Global {
		if err := s.takeReadLock(ctx); err != nil {
			return err
		}
		return s.answerOK(wire.OK{})
	}
	if p.Unlock {
		s.endReadLock()
		if s.tableLocks != nil { // else it commits nothing
			err := s.commitImplicitly(ctx)
			s.releaseAllTables(ctx)
			if err != nil {
				return err
			}
		}
		return s.answerOK(wire.OK{})
	}
	err := s.commitImplicitly(ctx)
	if p.Flush && err == nil {
		if s.tableLocks != nil {
			return errTablesLocked
		}
		for _, x := range p.Locks {
			if x.Table.Temporary { // a server locks the other table of that name
				return refuse("FLUSH TABLES %s WITH READ LOCK is not supported while the session has a temporary table of that name: DROP it, or rename it", x.Table.Name)
			}
		}
	}
	s.releaseAllTables(ctx)
	if err != nil {
		return err
	}
	if p.Writes() && s.settings.readOnly() {
		return s.readOnlyTransaction()
	}
	s.diag.sending()
	s.diag.clear()
	if p.Failed != nil {
		// It may have been made behind Shunt's back.
		if err := s.proxy.opts.Directory.RefreshUnlessFresh(ctx); err != nil {
			return err
		}
	}
	err = untilPlanned(func() error {
		// A shard that is added now would lack the locks.
		if err := s.holdCopies(ctx, &s.lockedCopies); err != nil {
			return err
		}
		if p.Catalog.Version != s.catalog().Version {
			planned, err := s.plan(ctx, sql)
			if err != nil {
				return err
			}
			again, ok := planned.(*plan.LockTables)
			if !ok {
				return fmt.Errorf("lock tables: plan is %T", planned)
			}
			p = again
		}
		if p.Failed != nil {
			return p.Failed
		}
		locks, err := s.acquire(ctx, p)
		if err != nil {
			return err
		}
		s.tableLocks = locks
		if p.Writes() { // the global read lock waits for its end, as on a server
			locks.gated = true
			s.writes++
		}
		if p.Catalog.Version == s.catalog().Version {
			return nil
		}
		s.releaseAllTables(ctx)
		return errStale // a table may be on other shards now
	})
	if err != nil {
		s.leaveCopies(&s.lockedCopies)
		return err
	}
	return s.answerOK(wire.OK{Warnings: s.diag.count()})
}

// acquire locks on all shards, or on none.
func (s *session) acquire(ctx context.Context, p *plan.LockTables) (*tableLocks, error) {
	locks := &tableLocks{conns: map[catalog.ShardID]*shard.Conn{}, named: s.lockNames(p)}
	chosen, limited := s.settings.value("@@lock_wait_timeout")
	var deadline time.Time
	if seconds, err := strconv.ParseInt(strings.TrimSpace(chosen), 10, 32); limited && err == nil {
		deadline = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	for tries := 0; ; tries++ {
		err := s.acquireOnce(ctx, p, locks, chosen)
		if err == nil {
			return locks, nil
		}
		for id, conn := range locks.conns {
			s.releaseTables(ctx, id, conn)
		}
		clear(locks.conns)
		if !errors.Is(err, errBeside) {
			return nil, err
		}
		if tries > lockTries || !deadline.IsZero() && time.Now().After(deadline) {
			return nil, mysqlerr.New(mysqlerr.LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction")
		}
	}
}

// lockTries times besideWait is longer than anyone waits.
const lockTries = 1000

// errBeside: a lock was waited for beside others that are held.
var errBeside = errors.New("a lock takes too long while others are held")

func (s *session) acquireOnce(ctx context.Context, p *plan.LockTables, locks *tableLocks, timeout string) error {
	if timeout == "" {
		timeout = "DEFAULT"
	}
	for id := range p.Shards().All { // in the order in which every session takes them
		conn, err := s.connToLock(ctx, id)
		if err != nil {
			return err
		}
		beside := len(locks.conns) > 0
		locks.conns[id] = conn
		s.activity.sent(id, conn)
		if beside {
			if _, err := conn.Exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", besideWait/time.Second)); err != nil {
				return s.lockFailed(id, err)
			}
		}
		sum, err := conn.Exec(ctx, p.Text(id))
		if err == nil && sum.Warnings > 0 {
			s.diag.addNew(ctx, conn, nil)
		}
		if beside && !conn.Broken {
			if _, setErr := conn.Exec(ctx, "SET SESSION lock_wait_timeout = "+timeout); setErr != nil {
				conn.Broken = true // not for another session
				err = errors.Join(err, setErr)
			}
		}
		if code := shard.Code(err); beside && code == mysqlerr.LockWaitTimeout || code == mysqlerr.LockDeadlock {
			return errBeside // a deadlock costs nothing either: no transaction is open
		}
		if err != nil {
			return s.lockFailed(id, err)
		}
	}
	for _, conn := range locks.conns {
		s.activity.done(conn)
	}
	return nil
}

func (s *session) lockFailed(id catalog.ShardID, err error) error {
	err = s.shardError(id, err)
	s.diag.unanswered() // the client has not been told yet
	return err
}

// connToLock is a connection to a shard that the session keeps, that of its
// temporary tables if it has them there.
func (s *session) connToLock(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
	if t := s.temporary; t != nil && t.conn != nil && t.shard == id {
		return s.borrowPinned(ctx)
	}
	if err := s.pinned(id, pinnedByTableLocks); err != nil {
		return nil, err
	}
	conn, err := s.borrowPooled(ctx, id)
	if err != nil {
		s.unpinned(id, pinnedByTableLocks)
	}
	return conn, err
}

// lockNames are the tables that may be named under the locks: those of the text,
// and what the views among them read.
func (s *session) lockNames(p *plan.LockTables) map[catalog.TableName]bool {
	out := map[catalog.TableName]bool{}
	for _, x := range p.Locks {
		out[catalog.TableName{Schema: x.Table.Schema, Name: x.Table.Name}] = true
		if !x.Table.IsView {
			continue
		}
		planned, err := s.proxy.planner.Plan("SELECT * FROM "+catalog.QuoteTable(x.Table.Schema, x.Table.Name), s.settings.planning, p.Catalog)
		if rows, ok := planned.(*plan.Rows); ok && err == nil {
			for _, t := range rows.Tables {
				out[catalog.TableName{Schema: t.Schema, Name: t.Name}] = true
			}
		}
	}
	return out
}

// releaseAllTables releases the locks, if there are any. REQUIRES: no transaction
// is open.
func (s *session) releaseAllTables(ctx context.Context) {
	locks := s.tableLocks
	s.tableLocks = nil
	s.leaveCopies(&s.lockedCopies)
	if locks == nil {
		return
	}
	if locks.gated {
		s.leaveWrite()
	}
	for id, conn := range locks.conns {
		s.releaseTables(ctx, id, conn)
	}
}

// endTableLocks is releaseAllTables where nobody waits for long.
func (s *session) endTableLocks() {
	if s.tableLocks != nil {
		ctx, cancel := context.WithTimeout(context.Background(), resetTimeout)
		defer cancel()
		s.releaseAllTables(ctx)
	}
}

// releaseTables gives one connection up.
func (s *session) releaseTables(ctx context.Context, id catalog.ShardID, conn *shard.Conn) {
	s.activity.done(conn)
	if !conn.Broken && !conn.Busy() {
		if _, err := conn.Exec(ctx, "UNLOCK TABLES"); err != nil {
			conn.Broken = true
		}
	}
	if t := s.temporary; t != nil && t.conn == conn {
		s.putBack(id, conn)
		return
	}
	pool := s.proxy.pool(id)
	if conn.Broken || conn.Busy() {
		// A statement may still hold them, or wait for them.
		_ = pool.Kill(ctx, conn.ThreadID, false) // its end is noticed sooner or later
		pool.Discard(conn)
	} else {
		pool.Put(conn)
	}
	s.unpinned(id, pinnedByTableLocks)
}

// lockedConn is the connection that holds the locks on a shard, nil for none.
func (s *session) lockedConn(id catalog.ShardID) *shard.Conn {
	if s.tableLocks == nil {
		return nil
	}
	return s.tableLocks.conns[id]
}

// locked reports that a connection holds table locks.
func (s *session) locked(id catalog.ShardID, conn *shard.Conn) bool {
	return s.tableLocks != nil && s.tableLocks.conns[id] == conn
}

// borrowLocked is borrowPinned for the connection that holds the locks.
func (s *session) borrowLocked(ctx context.Context, id catalog.ShardID, conn *shard.Conn) (*shard.Conn, error) {
	if !conn.Alive() {
		conn.Broken = true
		s.loseTables(id)
		return nil, s.tableLocks.failed
	}
	if err := s.settings.applyMore(ctx, conn); err != nil {
		err = s.shardError(id, err)
		s.putBack(id, conn)
		return nil, err
	}
	return conn, nil
}

// loseTables notes that a connection with locks is gone: all are released, and the
// session is told until it unlocks. Going on without them would be worse.
func (s *session) loseTables(id catalog.ShardID) {
	locks := s.tableLocks
	locks.failed = mysqlerr.Newf(mysqlerr.ShardLost, "Connection to shard %s was lost, and this session's table locks with it; all are released. Send UNLOCK TABLES, then lock again", s.catalog().ShardName(id))
	conns := locks.conns
	locks.conns = map[catalog.ShardID]*shard.Conn{}
	ctx, cancel := context.WithTimeout(context.Background(), resetTimeout)
	defer cancel()
	for id, conn := range conns {
		if s.tx != nil && s.tx.conns.at(id) == conn {
			// It goes when the transaction ends, which has failed.
			conn.Broken = true
			s.tx.lost(id, locks.failed)
			if t := s.temporary; t == nil || t.conn != conn {
				s.unpinned(id, pinnedByTableLocks)
			}
			continue
		}
		s.releaseTables(ctx, id, conn)
	}
	s.log.Info("table locks lost with a connection", "shard", s.catalog().ShardName(id))
}

// underLocks says what a session with table locks may not do, before anything is
// done. What its servers say by themselves is left to them.
func (s *session) underLocks(planned plan.Plan) error {
	switch plan := planned.(type) {
	case *plan.LockTables, *plan.Admin:
		return nil
	case *plan.Session:
		for _, a := range plan.Set { // evaluated over any connection
			if a.Queries {
				return refuse("SET with a query under LOCK TABLES is not supported: read the value first")
			}
		}
		return nil
	case *plan.Rows, *plan.DDL, *plan.Load, *plan.Temporary:
		if s.tableLocks.failed != nil {
			return s.tableLocks.failed
		}
	}
	switch rows := planned.(type) {
	case *plan.LockTables, *plan.Admin, *plan.Session, *plan.Temporary:
	case *plan.Rows:
		if rows.Kind == plan.Show || rows.Kind == plan.Other {
			return nil
		}
		return s.allLocked(slices.DeleteFunc(slices.Clone(rows.Tables), func(t *catalog.Table) bool { return slices.Contains(rows.Unnamed, t) }))
	case *plan.Load:
		return s.allLocked([]*catalog.Table{rows.Table})
	case *plan.DDL:
		if strings.HasSuffix(rows.Op, "DATABASE") {
			return errTablesLocked
		}
		for _, t := range rows.Tables {
			if !s.tableLocks.named[t] {
				return notLocked(t.Name)
			}
		}
	}
	return nil
}

// errTablesLocked is ER_LOCK_OR_ACTIVE_TRANSACTION.
var errTablesLocked = mysqlerr.New(mysqlerr.LockOrActiveTransaction, "Can't execute the given command because you have active locked tables or an active transaction")

func (s *session) allLocked(tables []*catalog.Table) error {
	for _, t := range tables {
		if !t.Temporary && !catalog.IsSystemSchema(t.Schema) && !s.tableLocks.named[catalog.TableName{Schema: t.Schema, Name: t.Name}] {
			return notLocked(t.Name)
		}
	}
	return nil
}

func notLocked(name string) error {
	return mysqlerr.Newf(mysqlerr.TableNotLocked, "Table '%s' was not locked with LOCK TABLES", name)
}

// gatherUnderLocks refuses what can't be gathered under table locks.
func (s *session) gatherUnderLocks(p *plan.Rows) error {
	switch {
	case p.Kind.Writes():
		return refuse("UPDATE or DELETE that needs other shards' rows under LOCK TABLES is not supported: UNLOCK TABLES, and in a transaction lock the rows by SELECT ... FOR UPDATE; or read the keys first and name them by literals")
	case slices.ContainsFunc(p.Tables, func(t *catalog.Table) bool { return t.IsView }):
		return refuse("a query over several shards that reads a view under LOCK TABLES is not supported where it must be gathered: lock the view's tables, and write its query out")
	}
	return nil
}
