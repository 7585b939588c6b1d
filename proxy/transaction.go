package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// transaction is open on the shards that it has touched. A shard joins at the
// first statement that goes there; its snapshot begins then.
type transaction struct {
	s    *session
	open Open
	// chosen are its characteristics, snapshot: WITH CONSISTENT SNAPSHOT.
	chosen characteristics
	// said are those that were said for it alone.
	said     characteristics
	snapshot bool
	conns    shardConns
	order    []catalog.ShardID
	// savepoints in the order of their making; a shard that joins later gets
	// them too, so that rolling back to one undoes all that it did.
	savepoints []string
	// hidden: one statement's own, of which the client isn't told.
	hidden bool
	// temporary is the connection on which temporary tables were made or dropped in it, nil if there is none.
	temporary *shard.Conn
	// failed: a shard was lost, everything was rolled back, and the client has
	// to be told at its next statement too.
	failed error
	// victim is the error with which a server has rolled the whole transaction back
	// (a deadlock), nil if none has.
	victim *shard.ServerError
	// maintain and touched are what to look after when it has ended.
	maintain []plan.Maintenance
	touched  map[*catalog.Table]catalog.ShardSet
	beside   besides
	// copies are those that its statements read: no server drops a table that an
	// open transaction has read.
	copies []*gathering
	// off: autocommit is off on its connections.
	off bool
	// writes: it has written, to whatever table.
	writes bool
	began  time.Time
	// claims are what it has claimed; found are the rows that the statement under way has found.
	claims map[claimed]bool
	found  int64
}

// shardConns are connections by shard: what is asked for several times a statement.
type shardConns []*shard.Conn

// at is the one to a shard, nil for none.
func (c shardConns) at(id catalog.ShardID) *shard.Conn {
	if int(id) < len(c) {
		return c[id]
	}
	return nil
}

func (c *shardConns) set(id catalog.ShardID, conn *shard.Conn) {
	for int(id) >= len(*c) {
		*c = append(*c, nil)
	}
	(*c)[id] = conn
}

// newTransaction has the characteristics of the next one, which stay chosen: see
// characteristics.
func (s *session) newTransaction() *transaction {
	said := s.settings.once
	for _, name := range []string{isolationSetting, accessSetting} {
		if v, ok := s.settings.value(name); ok && s.settings.once.of(name) == "" {
			s.settings.once.set(name, v)
		}
	}
	return &transaction{
		s: s, said: said, chosen: s.settings.once, open: s.proxy.opts.Index.Begin(catalog.ShardSet{}),
		touched: map[*catalog.Table]catalog.ShardSet{}, began: time.Now(),
	}
}

// transact has the session be in a transaction: without autocommit its savepoints may be older.
func (s *session) transact() {
	if s.tx == nil {
		s.tx = s.newTransaction()
		s.tx.savepoints, s.savepoints = s.savepoints, nil
	}
}

// showsPast reports whether its reads may be in a snapshot that an earlier statement of it has
// opened.
func (tx *transaction) showsPast() bool {
	level := tx.chosen.isolation
	return !strings.HasSuffix(level, "READ COMMITTED") && !strings.HasSuffix(level, "READ UNCOMMITTED")
}

// beginTransaction is BEGIN, which commits what was open.
func (s *session) beginTransaction(ctx context.Context, p *plan.Session) error {
	again := s.tx != nil || s.tableLocks != nil
	said := s.settings.once
	if s.tx != nil {
		said = s.tx.said
	}
	if err := s.commit(ctx); err != nil {
		return err
	}
	s.releaseAllTables(ctx)
	if again && s.mariaDB() { // MySQL's next one is as the last
		s.settings.once, said = characteristics{}, characteristics{}
	}
	switch {
	case p.ReadOnly:
		s.settings.once.access, said.access = readOnly, readOnly
	case p.ReadWrite:
		s.settings.once.access, said.access = readWrite, readWrite
	}
	s.tx = s.newTransaction()
	s.tx.said = said
	s.tx.snapshot = p.ConsistentSnapshot
	if !p.ConsistentSnapshot {
		return nil
	}
	// A shard that is added later would show what has been committed since.
	if err := s.holdCopies(ctx, &s.copies); err != nil {
		_ = s.rollback(ctx)
		return err
	}
	// All snapshots are of now. Shards that joined with their first statement would
	// show what has been committed since.
	err := s.tx.join(ctx, s.catalog().All)
	if err != nil {
		_ = s.rollback(ctx) // it has done nothing, and the client is told of the shard
	}
	return err
}

// endTransaction is COMMIT or ROLLBACK.
func (s *session) endTransaction(ctx context.Context, p *plan.Session) error {
	s.poolable = true
	end := s.commit
	if p.Op == plan.Rollback {
		end = s.rollback
	}
	said := s.settings.once
	if s.tx != nil {
		said = s.tx.said
	}
	if err := end(ctx); err != nil {
		return err
	}
	if p.Chain || s.settings.completion == completionChain && !p.NoChain {
		s.releaseAllTables(ctx) // as BEGIN does
		s.tx = s.newTransaction()
		s.tx.said = said
	} else {
		s.settings.once = characteristics{}
	}
	if p.Release || s.settings.completion == completionRelease && !p.NoRelease {
		s.release = true
	}
	return nil
}

// commitBefore is the commit before a statement that can't be part of a transaction. A
// server reads it first: a syntax error leaves the transaction open.
func (s *session) commitBefore(ctx context.Context, sql string) error {
	if s.tx != nil && len(s.tx.order) > 0 && s.tableLocks == nil {
		if err := s.syntaxError(ctx, sql); err != nil {
			return err
		}
	}
	return s.commitImplicitly(ctx)
}

// commitImplicitly is the commit before and after statements that can't be part
// of a transaction.
func (s *session) commitImplicitly(ctx context.Context) error {
	if err := s.commit(ctx); err != nil {
		return err
	}
	s.settings.once = characteristics{}
	return nil
}

// conn returns the transaction's connection to a shard, beginning there if it
// is the first statement.
func (tx *transaction) conn(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
	if conn := tx.conns.at(id); conn != nil {
		if conn.Broken {
			return nil, tx.mayGoOn()
		}
		if err := tx.s.settings.applyMore(ctx, conn); err != nil {
			return nil, tx.s.shardError(id, err)
		}
		return conn, nil
	}
	return tx.joinOne(ctx, id, false)
}

// joinOne is join for a shard where the transaction hasn't begun. ahead: the last statement
// that begins it goes ahead of the one that follows, in one write (shard.Conn.SendAhead), which
// saves a round trip.
//
// Rule plain reads go ahead. Counter-examples: an UPDATE behind a BEGIN that was refused would be
// committed by itself; a SELECT ... FOR UPDATE whose connection is lost before BEGIN is
// answered would hold its locks against the one that is sent in its place.
func (tx *transaction) joinOne(ctx context.Context, id catalog.ShardID, ahead bool) (*shard.Conn, error) {
	x, err := tx.toJoin(ctx, id)
	if err != nil {
		return nil, err
	}
	var last string
	if n := len(x.begin) - 1; ahead && !x.keeps {
		x.begin, last = x.begin[:n], x.begin[n]
	}
	x.failed = execAll(ctx, x.conn, x.begin)
	if err := tx.joined(ctx, x); err != nil {
		return nil, err
	}
	conn := tx.conns.at(id)
	if conn == x.conn { // else it has begun on another one
		conn.SendAhead(last)
	}
	return conn, nil
}

// joining is a connection on which the transaction begins.
type joining struct {
	shard catalog.ShardID
	conn  *shard.Conn
	// keeps: the session's own, with temporary tables or table locks; locked: with these.
	keeps, locked bool
	begin         []string
	failed        error
}

// toJoin borrows a connection on which the transaction is to begin.
func (tx *transaction) toJoin(ctx context.Context, id catalog.ShardID) (joining, error) {
	// Registered before its snapshot can begin: nothing that this snapshot
	// shows loses its entry while the transaction is open.
	tx.open.Extend(catalog.Only(id))
	keeps := tx.s.keeps(id)
	conn, err := tx.s.borrowPooled(ctx, id)
	if err == nil {
		conn, err = tx.s.fitting(ctx, tx.open, id, conn)
	}
	if err != nil {
		return joining{}, err
	}
	return joining{shard: id, conn: conn, keeps: keeps, locked: tx.s.locked(id, conn), begin: tx.beginStatements(id, conn)}, nil
}

// unlocked reports a connection that isn't the session's any more: another one was lost, and with
// it all table locks.
func (tx *transaction) unlocked(x joining) bool { return x.locked && !tx.s.locked(x.shard, x.conn) }

// joined takes a connection on which the transaction has begun, unless that has failed. One
// that was dead is replaced, but for one that the session keeps.
func (tx *transaction) joined(ctx context.Context, x joining) error {
	id, conn := x.shard, x.conn
	if tx.unlocked(x) {
		return tx.s.tableLocks.failed
	}
	if err := x.failed; err != nil {
		conn.Broken = true
		tx.s.putBack(id, conn)
		if !errors.Is(err, shard.ErrShard) || x.keeps {
			return tx.s.shardError(id, err)
		}
		// It was dead already. Nothing has been done there yet.
		if conn, err = tx.s.borrowNew(ctx, id); err != nil {
			return err
		}
		if conn, err = tx.s.fitting(ctx, tx.open, id, conn); err != nil {
			return err
		}
		if err := execAll(ctx, conn, tx.beginStatements(id, conn)); err != nil {
			conn.Broken = true
			tx.s.putBack(id, conn)
			return tx.s.notJoined(id, err)
		}
	}
	tx.conns.set(id, conn)
	tx.order = append(tx.order, id)
	tx.s.proxy.pins.add(id, pinnedByTransaction, 1)
	if len(tx.order) > 1 {
		tx.s.proxy.deadlocks.Joined(tx, tx.began, tx.thread(tx.order[0]), tx.thread(id))
	}
	return nil
}

// beginStatements begin the transaction on a shard.
func (tx *transaction) beginStatements(id catalog.ShardID, conn *shard.Conn) []string {
	var statements []string
	if tx.s.locked(id, conn) {
		statements = tx.chosen.beginLocked(&tx.s.settings)
	} else {
		statements = tx.chosen.begin(&tx.s.settings, tx.snapshot)
	}
	return append(statements, tx.savepointStatements()...)
}

// execAll runs statements in a round trip, or a few; behind an error the connection is of no use.
func execAll(ctx context.Context, conn *shard.Conn, statements []string) error {
	for some := range slices.Chunk(statements, 64) { // answers that aren't read yet must find room
		refused, err := conn.ExecAll(ctx, some...)
		if err != nil {
			return err
		}
		if e := first(refused); e != nil {
			return e
		}
	}
	return nil
}

func (tx *transaction) savepointStatements() []string {
	var out []string
	for _, name := range tx.savepoints {
		out = append(out, "SAVEPOINT "+catalog.QuoteName(name))
	}
	return out
}

// leave ends the transaction on a shard where it has changed nothing, as if it had not
// joined. Who has the connection gives it back.
func (tx *transaction) leave(ctx context.Context, id catalog.ShardID) {
	conn := tx.conns.at(id)
	if conn == nil || conn.Broken || conn.Busy() || tx.s.keeps(id) {
		return
	}
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		conn.Broken = true
	}
	tx.drop(id)
}

// drop undoes joined. Who has the connection gives it back.
func (tx *transaction) drop(id catalog.ShardID) {
	tx.conns.set(id, nil)
	tx.order = slices.DeleteFunc(tx.order, func(x catalog.ShardID) bool { return x == id })
	tx.s.proxy.deadlocks.Left(tx, id)
	tx.s.proxy.pins.add(id, pinnedByTransaction, -1)
}

// join begins the transaction on those of the shards where it hasn't, on all at once: one
// round trip, where one for each would be tens of milliseconds between data centers.
func (tx *transaction) join(ctx context.Context, shards catalog.ShardSet) error {
	var fresh []joining
	for id := range shards.All {
		var x joining
		var err error
		if tx.conns.at(id) != nil {
			_, err = tx.conn(ctx, id)
		} else if x, err = tx.toJoin(ctx, id); err == nil {
			fresh = append(fresh, x)
		}
		if err != nil {
			for _, x := range fresh {
				if !tx.unlocked(x) {
					tx.s.putBack(x.shard, x.conn)
				}
			}
			return err
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return tx.joinAll(ctx, fresh)
}

func (tx *transaction) joinAll(ctx context.Context, fresh []joining) (failed error) {
	atOnce(len(fresh), func(i int) {
		fresh[i].failed = execAll(ctx, fresh[i].conn, fresh[i].begin)
	})
	for _, x := range fresh {
		if err := tx.joined(ctx, x); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// each runs a statement of ours on some of the transaction's shards, on all at once.
func (tx *transaction) each(ctx context.Context, shards catalog.ShardSet, sql string, done func(*shard.Conn, shard.Summary)) error {
	var ids []catalog.ShardID
	var conns []*shard.Conn
	for _, id := range tx.order {
		if shards.Has(id) {
			ids, conns = append(ids, id), append(conns, tx.conns.at(id))
		}
	}
	sums, errs := make([]shard.Summary, len(ids)), make([]error, len(ids))
	atOnce(len(ids), func(i int) { sums[i], errs[i] = conns[i].Exec(ctx, sql) })
	var failed error
	for i, err := range errs {
		if err == nil {
			if done != nil {
				done(conns[i], sums[i])
			}
			continue
		}
		err = tx.s.shardError(ids[i], err)
		if conns[i].Broken {
			tx.lost(ids[i], err)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// Warnings that ROLLBACK leaves temporary tables as they are.
const (
	keptCreated = 1751 // ER_WARNING_NOT_COMPLETE_ROLLBACK_WITH_CREATED_TEMP_TABLE
	keptDropped = 1752 // ER_WARNING_NOT_COMPLETE_ROLLBACK_WITH_DROPPED_TEMP_TABLE
)

// kept has SHOW WARNINGS tell what a shard warns of behind ROLLBACK: what isn't undone.
func (tx *transaction) kept(ctx context.Context, conn *shard.Conn, sum shard.Summary) {
	if sum.Warnings == 0 {
		return
	}
	tx.s.diag.addNew(ctx, conn, func(code uint16) bool {
		// Of temporary tables those of gathers aren't the client's.
		return conn == tx.temporary || code != keptCreated && code != keptDropped
	})
}

// forget has ROLLBACK warn of nothing that was done before, as SET autocommit = 0 does in the midst of a transaction.
func (tx *transaction) forget(ctx context.Context) {
	all := catalog.ShardSet{}
	for _, id := range tx.order {
		all.Add(id)
	}
	tx.off = true
	_ = tx.each(ctx, all, "SET autocommit = 0", nil) // a shard that is lost ends the transaction
}

// atOnce calls fn with 0 to n-1, beside each other, and waits for all.
func atOnce(n int, fn func(i int)) {
	if n <= 1 {
		if n == 1 {
			fn(0)
		}
		return
	}
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { fn(i) })
	}
	fn(0)
	wg.Wait()
}

// wrote notes what a statement changes, for the time after the transaction.
func (tx *transaction) wrote(b *plan.Bound) {
	tx.writes = true
	tx.maintain = append(tx.maintain, b.Maintain...)
	for _, m := range leftover(b) {
		tx.touched[m.Table] = tx.touched[m.Table].Union(m.Shards)
	}
	if len(tx.maintain) > 1000 {
		tx.maintain = widen(tx.maintain)
	}
}

// widen makes one piece of maintenance per table of many.
func widen(list []plan.Maintenance) []plan.Maintenance {
	var out []plan.Maintenance
	at := map[*catalog.Table]int{}
	for _, m := range list {
		i, ok := at[m.Table]
		if !ok {
			i, at[m.Table] = len(out), len(out)
			out = append(out, plan.Maintenance{Table: m.Table, Operation: m.Operation, Indexes: m.Table.Indexes, Logged: m.Logged})
		}
		out[i].Logged = out[i].Logged && m.Logged
		out[i].Shards = out[i].Shards.Union(m.Shards)
	}
	return out
}

// lost notes that a shard's connection is gone: the server rolls back there,
// and so do we everywhere else. The session must be told until it has sent
// ROLLBACK or COMMIT: to go on in autocommit without a word would be worse than
// an error.
func (tx *transaction) lost(id catalog.ShardID, cause error) {
	if tx.failed == nil {
		tx.failed = cause
	}
	if conn := tx.conns.at(id); conn != nil {
		conn.Broken = true
	}
}

// torn fails a transaction of which some shards have undone a part and others may have not.
func (tx *transaction) torn(cause error) error {
	if tx.failed == nil && tx.victim == nil {
		tx.failed = cause
	}
	return cause
}

// mayGoOn is the error of statements in a transaction that has failed. A gather that fails on
// several shards tells of one: another's connection may have been lost without a word.
func (tx *transaction) mayGoOn() error {
	for _, id := range tx.order {
		if tx.failed == nil && tx.conns.at(id).Broken {
			tx.failed = errors.New("a shard's connection was lost in the midst of a statement")
		}
	}
	if tx.failed != nil {
		return aborted(tx.failed)
	}
	return nil
}

// mayGoOn is the transaction's, if there is one.
func (s *session) mayGoOn() error {
	if s.tx == nil {
		return nil
	}
	return s.tx.mayGoOn()
}

// watch looks at an answer for a sign that the server has ended the transaction
// by itself: some errors roll all of it back; an implicit commit shows in the status.
// REQUIRES: the answer was read to its end.
func (tx *transaction) watch(id catalog.ShardID, sum *shard.Summary) {
	tx.found += foundRows(sum)
	switch {
	case sum.Err != nil:
		if tx.victim == nil && tx.endedBy(id, sum.Err) {
			tx.victim = sum.Err
		}
	case sum.Status&mysql.SERVER_STATUS_IN_TRANS == 0 && tx.conns.at(id) != nil && !tx.s.locked(id, tx.conns.at(id)):
		tx.lost(id, fmt.Errorf("shard %s ended the transaction by itself", tx.s.catalog().ShardName(id)))
	}
}

// endedBy reports that a server has rolled back all of the transaction with an error,
// not its statement alone. A deadlock always does. Of others it depends: lock
// timeouts on innodb_rollback_on_timeout, changed records on MariaDB's
// innodb_snapshot_isolation. Errors have no status, other answers do.
func (tx *transaction) endedBy(id catalog.ShardID, e *shard.ServerError) bool {
	switch e.Code {
	case mysqlerr.LockDeadlock:
		return true
	case mysqlerr.LockWaitTimeout, mysqlerr.RecordChanged, mysqlerr.LockTableFull:
	default:
		return false
	}
	conn := tx.conns.at(id)
	if conn == nil || conn.Broken || conn.Busy() || tx.s.locked(id, conn) {
		return false
	}
	if err := conn.Ping(context.Background()); err != nil {
		tx.lost(id, err)
		return false
	}
	return !conn.InTransaction()
}

// endVictim ends a transaction that a server has rolled back, on the other shards too,
// as one server would. err is what the client is told, nil where it has been. If that is
// another shard's error the client thinks that its transaction goes on, and has to be
// told of this at its next statement, which would else be none of a transaction's.
func (s *session) endVictim(ctx context.Context, err error) {
	told := s.diag.failed
	if err != nil {
		told = coded(err).Code
	}
	switch {
	case s.tx == nil: // the end of a part of the statement has ended it
	case told == s.tx.victim.Code:
		_ = s.rollback(ctx)
	case s.tx.failed == nil:
		s.tx.failed = s.tx.victim
	}
}

// commit ends the transaction, if there is one: first on the shard that it joined first,
// then on the others at once, which takes two round trips however many there are. A
// connection that is gone by then or a failure at the first leaves nothing committed; a
// later one is told with the names of those that have and those that have not. A failure
// ends what was said of the transaction, too: see characteristics.
func (s *session) commit(ctx context.Context) (err error) {
	tx := s.tx
	s.savepoints = nil
	if tx == nil {
		return nil
	}
	defer func() {
		if err != nil {
			s.settings.once = characteristics{}
		}
	}()
	if tx.failed != nil {
		cause := tx.failed
		_ = s.rollback(ctx)
		return aborted(cause)
	}
	if err := tx.added(); err != nil {
		_ = s.rollback(ctx)
		return err
	}
	leave, err := s.enterCommit(ctx, tx)
	if err != nil {
		_ = s.rollback(ctx) // as a server does
		return err
	}
	defer leave()
	for _, id := range tx.order {
		if conn := tx.conns.at(id); len(tx.order) > 1 && !conn.Alive() {
			conn.Broken = true
			_ = s.rollback(ctx)
			return mysqlerr.Newf(mysqlerr.ErrorDuringCommit, "Got error during COMMIT on shard %s: its connection was lost (committed: none; rolled back: %s)",
				s.catalog().ShardName(id), s.shardNames(tx.order))
		}
	}
	s.tx = nil
	errs := make([]error, len(tx.order))
	tell := func(i int, sql string) {
		conn := tx.conns.at(tx.order[i])
		if _, errs[i] = conn.Exec(ctx, sql); errs[i] == nil || conn.Broken {
			return
		}
		// A server that refuses a COMMIT may have left the transaction open, and the
		// connection is another session's next.
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			conn.Broken = true
		}
	}
	commits, rest := len(tx.order), "COMMIT" // how many are told to commit, and what the others are told behind the first
	if commits > 0 {
		s.activity.commits(tx)
		if tell(0, "COMMIT"); errs[0] != nil {
			commits, rest = 1, "ROLLBACK"
		}
		atOnce(len(tx.order)-1, func(i int) { tell(i+1, rest) })
		s.activity.commits(nil)
	}
	for i, id := range tx.order {
		conn := tx.conns.at(id)
		if i >= commits && errs[i] != nil {
			conn.Broken = true // the server rolls back when it notices
		}
		if conn.Broken {
			tx.open.InDoubt(id, conn, tx.after(true))
		}
	}
	err = s.commitError(tx, errs[:commits])
	s.copies.torn = s.copies.torn || err != nil
	tx.close(err != nil)
	return err
}

// commitError says what has become of a transaction; errs is what the shards said that
// were told to commit it, the first of its order.
func (s *session) commitError(tx *transaction, errs []error) error {
	var failed []string
	var committed []catalog.ShardID
	for i, err := range errs {
		id := tx.order[i]
		if err == nil {
			committed = append(committed, id)
			continue
		}
		outcome := "rolled back"
		if tx.conns.at(id).Broken {
			outcome = "unknown, its connection was lost"
			if why := s.proxy.stalls.why(id); why != "" {
				outcome = "unknown, it may be done yet: " + why
			}
		}
		failed = append(failed, fmt.Sprintf("on shard %s: %v (outcome there: %s)", s.catalog().ShardName(id), err, outcome))
	}
	if failed == nil {
		return nil
	}
	return mysqlerr.Newf(mysqlerr.ErrorDuringCommit, "Got error during COMMIT %s; committed: %s; rolled back: %s",
		strings.Join(failed, ", "), s.shardNames(committed), s.shardNames(tx.order[len(errs):]))
}

func (s *session) shardNames(ids []catalog.ShardID) string {
	var out []string
	for _, id := range ids {
		out = append(out, s.catalog().ShardName(id))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// rollback ends the transaction, if there is one, undoing everything.
func (s *session) rollback(ctx context.Context) error {
	tx := s.tx
	s.savepoints = nil
	if tx == nil {
		return nil
	}
	s.tx = nil
	conns := make([]*shard.Conn, len(tx.order))
	for i, id := range tx.order {
		conns[i] = tx.conns.at(id)
	}
	sums, errs := make([]shard.Summary, len(conns)), make([]error, len(conns))
	atOnce(len(conns), func(i int) {
		if conn := conns[i]; !conn.Broken && !conn.Busy() {
			sums[i], errs[i] = conn.Exec(ctx, "ROLLBACK")
		}
	})
	_ = tx.beside.await() // what is added behind that would be looked after by nobody
	var failed error
	for i, id := range tx.order {
		conn := conns[i]
		if err := errs[i]; err != nil {
			conn.Broken = true
			failed = errors.Join(failed, s.shardError(id, err))
		} else {
			tx.kept(ctx, conn, sums[i])
		}
		if conn.Broken || conn.Busy() {
			// The server rolls back when it notices; until then the rows are
			// neither there nor gone.
			tx.open.InDoubt(id, conn, tx.after(true))
		}
	}
	tx.close(true)
	if failed != nil {
		s.log.Info("roll back", "error", failed)
	}
	return nil
}

// after is the maintenance to ask for when the transaction has ended.
func (tx *transaction) after(undone bool) []plan.Maintenance {
	list := tx.maintain
	if undone {
		for t, set := range tx.touched {
			list = append(list, plan.Maintenance{Table: t, Operation: "ROLLBACK", Shards: set, Indexes: t.Indexes})
		}
	}
	return list
}

// close gives the connections back and asks for maintenance.
func (tx *transaction) close(undone bool) {
	if len(tx.order) > 1 {
		tx.s.proxy.deadlocks.Ended(tx)
	}
	for i, conn := range tx.conns {
		if conn == nil {
			continue
		}
		id := catalog.ShardID(i)
		tx.s.proxy.pins.add(id, pinnedByTransaction, -1)
		if (tx.off || tx.s.locked(id, conn)) && !conn.Broken && !conn.Busy() {
			if _, err := conn.Exec(context.Background(), "SET autocommit = 1"); err != nil {
				conn.Broken = true
			}
		}
		tx.s.putBack(id, conn)
	}
	for _, g := range tx.copies {
		g.dropCopies(context.Background())
	}
	if len(tx.claims) > 0 {
		tx.s.proxy.claims.leave(tx, maps.Keys(tx.claims))
	}
	tx.claims, tx.found = nil, 0
	tx.s.leaveCopies(&tx.s.copies)
	tx.open.End()
	if list := tx.after(undone); len(list) > 0 {
		tx.s.proxy.opts.Index.After(list)
	}
}

// savepoint makes, rolls back to, or releases one.
func (s *session) savepoint(ctx context.Context, p *plan.Session) error {
	if err := s.mayGoOn(); err != nil {
		return err
	}
	tx, list := s.tx, &s.savepoints
	if tx != nil {
		list = &tx.savepoints
	}
	at := -1
	for i, name := range *list {
		if strings.EqualFold(name, p.Name) {
			at = i
		}
	}
	verb := "SAVEPOINT "
	switch {
	case p.Op == plan.Savepoint && tx == nil && s.settings.autocommit:
		return nil // it is gone as soon as it is made
	case p.Op == plan.Savepoint:
		if at >= 0 {
			*list = slices.Delete(*list, at, at+1)
		}
		*list = append(*list, p.Name)
	case at < 0:
		return noSavepoint(p.Name)
	case p.Op == plan.RollbackTo:
		verb = "ROLLBACK TO SAVEPOINT "
		*list = (*list)[:at+1]
	default:
		verb = "RELEASE SAVEPOINT "
		*list = (*list)[:at]
	}
	if tx == nil {
		return nil
	}
	var all catalog.ShardSet
	for _, id := range tx.order {
		all.Add(id)
	}
	if p.Op == plan.RollbackTo {
		// What was added for the undone statements is stale, most likely.
		for t, set := range tx.touched {
			tx.maintain = append(tx.maintain, plan.Maintenance{Table: t, Operation: "ROLLBACK", Shards: set, Indexes: t.Indexes})
		}
	}
	err := tx.each(ctx, all, verb+catalog.QuoteName(p.Name), func(conn *shard.Conn, sum shard.Summary) { tx.kept(ctx, conn, sum) })
	if err != nil && len(tx.order) > 1 {
		return tx.torn(err)
	}
	return err
}

func noSavepoint(name string) error {
	return mysqlerr.Newf(mysqlerr.SPDoesNotExist, "SAVEPOINT %s does not exist", name)
}
