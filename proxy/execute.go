package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// planningTime bounds how often a statement is planned anew because DDL, of other
// tables as well, gives a new catalog each time.
const planningTime = 10 * time.Second

// rows executes a Rows plan. Around a statement that can change rows it takes
// the steps of the write protocol (indexer/doc.go):
//
//	1 bind    look up the route, compute entries and marks
//	2 begin   register on the shards
//	3 check   the catalog is still the one planned with; else plan again, since
//	          an index made meanwhile would get no entry from this plan
//	4 prepare entries and marks into the store
//	5 send
//	6 end     the registration ends when the outcome is known
//	7 after   maintenance
//
// In a transaction the registration is the transaction's and ends with it.
func (s *session) rows(ctx context.Context, r request) error {
	s.whole = len(r.plan.Tables) > 0
	var ids counted
	defer ids.release()
	defer s.spendOnce(r.plan)
	return untilPlanned(func() error {
		err := s.rowsOnce(ctx, r, &ids)
		if !errors.Is(err, errStale) {
			if r.shape != nil {
				s.proxy.metrics.planHits.Inc()
			}
			return err
		}
		if r.shape != nil { // it is planned by itself now
			s.proxy.metrics.planMisses.Inc()
			r.shape, r.values = nil, nil
			r.sql = strings.Clone(r.sql)
		}
		r.retyped = r.retyped || errors.Is(err, errRetyped)
		plan, failed := s.plan(ctx, r.sql)
		if failed != nil {
			return failed
		}
		rows, ok := plan.(*planner.Rows)
		if !ok {
			return s.run(ctx, plan, r)
		}
		r.plan = rows
		return err
	})
}

// untilPlanned tries until the catalog did not change meanwhile.
func untilPlanned(try func() error) error {
	for began := (time.Time{}); ; {
		err := try()
		switch {
		case !errors.Is(err, errStale):
			return err
		case began.IsZero():
			began = time.Now()
		case time.Since(began) > planningTime:
			return errors.New("the schema keeps changing while the statement is planned; try again")
		}
	}
}

func (s *session) rowsOnce(ctx context.Context, r request, ids *counted) error {
	if err := s.mayGoOn(); err != nil {
		return err
	}
	if r.plan.Catalog.Version != s.catalog().Version {
		return errStale
	}
	if err := s.lostLocks(); err != nil {
		return err
	}
	if r.plan.Lock != nil {
		return s.namedLock(ctx, r)
	}
	if r.plan.Ends && (s.tx != nil || !s.settings.autocommit) {
		return refuse("CALL of a procedure that may end a transaction (COMMIT, ROLLBACK, START TRANSACTION, DDL) is not supported in one, whose other shards would know nothing of it: COMMIT before, and call it with autocommit")
	}
	s.needTemporary(r.plan.Tables)
	if r.plan.Kind.Writes() && r.plan.Kind != planner.Other && !s.temporaryNeeded() && s.settings.readOnly() {
		return s.readOnlyTransaction()
	}
	if r.plan.Meets != nil && r.plan.Constants == nil {
		return s.meetRows(ctx, r)
	}
	s.reading = s.readingFor(r)
	defer func() { s.reading = nil }()
	b, err := s.bind(ctx, r, ids)
	if s.reading != nil {
		if err != nil || !s.onReplicas(b) {
			s.proxy.metrics.replicaRead(s.reading)
			s.reading = nil
			b, err = s.bind(ctx, r, ids)
		}
	}
	if b != nil {
		r.found = b.Found
	}
	if r.plan.Copy != nil && refused(b, err) {
		return s.copyRows(ctx, r)
	}
	if r.plan.Constants != nil && refused(b, err) {
		return s.askFirst(ctx, r, err)
	}
	if r.plan.Limited != nil && err == nil && refused(b, err) {
		return s.writeLimited(ctx, r, b.Refuse)
	}
	if err != nil {
		return err
	}
	// A write asks again before it is sent. Counter-example: a lookup waits for the disk
	// while an ALTER changes what the keys mean and the index is built anew, and then
	// finds nothing there by a key of before.
	if !r.plan.Kind.Writes() && r.plan.Catalog.Version != s.catalog().Version {
		return errStale
	}
	if b.Generated != nil {
		r.generated = b.Generated.Values
	}
	r.givesID = mayGiveID(&r, b)
	s.last.failed = 0
	if b.Refuse != nil {
		s.proxy.metrics.refused.Inc()
		return b.Refuse
	}
	if b.Gather != nil && s.tables != nil {
		if err := s.gatherUnderLocks(r.plan); err != nil {
			return err
		}
	}
	if r.plan.Kind != planner.Locking { // two sessions must meet at the same copy of a row
		s.stayOn(b)
	}
	// Without autocommit a statement opens a transaction; a write over several
	// shards is a transaction of its own, so that it happens on all or none.
	implicit := false
	switch {
	case s.tx != nil:
	case !s.settings.autocommit:
		if r.plan.Kind != planner.Show && (len(r.plan.Tables) > 0 || r.plan.Kind != planner.Select) {
			s.tx = s.newTransaction()
		}
	case r.plan.Kind.Writes() && (len(b.Statements) > 1 || b.Gather != nil || s.settings.writesForOnce()):
		s.tx, implicit = s.newTransaction(), true
	}
	if !r.plan.Kind.Writes() && (len(b.Statements) != 1 || b.Gather != nil || b.System != nil) && asksID(r, r.sql) && setsID(r.sql) {
		// Each shard would set its own.
		return refuse("LAST_INSERT_ID() of a value in a query over several shards is not supported: SET LAST_INSERT_ID = value")
	}
	writes := r.plan.Kind.Writes() || len(b.Adds) > 0 || len(b.Marks) > 0
	if (writes || b.System != nil && b.System.Everywhere) && s.rights().ReadOnly {
		return s.readOnly() // a stored function, ANALYZE TABLE
	}
	switch {
	case !writes:
		err = s.readInTime(ctx, r, b)
	case b.Gather != nil:
		err = s.gatherWrite(ctx, r, b, implicit)
	case s.tx == nil:
		err = s.writeOne(ctx, r, b)
	default:
		err = s.writeInTransaction(ctx, r, b, implicit)
		if errors.Is(err, errAgain) {
			r.again, s.tx = true, s.newTransaction()
			s.failed, s.last.failed = false, 0 // the client has not been told
			err = s.writeInTransaction(ctx, r, b, implicit)
		}
	}
	if !errors.Is(err, errStale) {
		s.proxy.metrics.routed(b, r.start)
	}
	s.unsure(r, b)
	return err
}

// stayOn sends a statement that any of several shards can answer to one that
// the transaction has, rather than let another join, and else to one that
// answers.
func (s *session) stayOn(b *planner.Bound) {
	if b.Alternatives.Empty() || len(b.Statements) != 1 {
		return
	}
	if s.tx != nil {
		for _, id := range s.tx.order {
			if b.Alternatives.Has(id) {
				b.Statements[0].Shard = id
				return
			}
		}
	}
	if s.reading != nil && s.pickReplica(b.Statements[0].Shard) == nil {
		for id := range b.Alternatives.All {
			if s.pickReplica(id) != nil {
				b.Statements[0].Shard = id
				return
			}
		}
	}
	if at := b.Statements[0].Shard; s.pickReplica(at) == nil && !s.proxy.opts.Pools[at].Lively() {
		b.Statements[0].Shard = s.livelyOf(b.Alternatives)
	}
}

// livelyOf picks a shard that answers, the first if none does.
func (s *session) livelyOf(set catalog.ShardSet) catalog.ShardID {
	for id := range set.All {
		if s.proxy.opts.Pools[id].Lively() {
			return id
		}
	}
	return set.First()
}

// repeatWithin is how soon a read must have failed to be sent once more.
const repeatWithin = time.Second

// mayRepeat reports whether a read is to be sent once more. It found a connection
// dead that had looked alive, as after a restart of a shard or of what is
// between; or any of several shards would do, and this one is down: b names
// another then. The client has got nothing of the answer.
func (s *session) mayRepeat(r request, b *planner.Bound, err error, before int64) bool {
	if s.tx != nil || s.tables != nil || s.temporaryNeeded() || !unreachable(err) || s.client.Writer().Total() != before {
		return false
	}
	// Not later: who ends a runaway query by ending its connection doesn't want
	// it begun again.
	soon := time.Since(r.start) < repeatWithin
	if len(b.Statements) == 1 && r.plan.Kind != planner.Locking {
		at := b.Statements[0].Shard
		if others := b.Alternatives.Minus(catalog.Only(at)); !others.Empty() && (soon || !s.proxy.opts.Pools[at].Lively()) {
			b.Statements[0].Shard = s.livelyOf(others)
			return true
		}
	}
	return soon && coded(err).code == codeShardLost
}

// readSurely is read, and once more where the connection was dead before.
func (s *session) readSurely(ctx context.Context, r request, b *planner.Bound) error {
	before := s.client.Writer().Total()
	err := s.read(ctx, r, b)
	for err != nil && s.elsewhere(ctx, r, err, before) {
		err = s.read(ctx, r, b)
	}
	if s.reading != nil && err == nil {
		s.proxy.metrics.replicaRead(s.reading)
	}
	if err == nil || !s.mayRepeat(r, b, err, before) {
		return err
	}
	s.distrust = true
	defer func() { s.distrust = false }()
	return s.read(ctx, r, b)
}

// read sends a statement that changes nothing.
func (s *session) read(ctx context.Context, r request, b *planner.Bound) error {
	var empty catalog.ShardSet
	var err error
	if b.System != nil || b.Gather != nil {
		s.reading = nil
	}
	switch {
	case b.System != nil:
		s.cutsShown = s.limits(r) && r.found.Op == planner.FoundCounted
		if err = s.system(ctx, r, b); err == nil && r.found.Op == planner.FoundCounted {
			s.findAnswered()
		}
		return err
	case b.Gather != nil:
		return s.gather(ctx, r, b)
	case b.Merge != nil:
		empty, err = s.merge(ctx, r, b)
	case len(b.Statements) == 1 && r.plan.Shown != nil:
		s.cutsShown = s.limits(r)
		if empty, err = s.showValues(ctx, r, b.Statements[0]); err == nil {
			s.findAnswered()
		}
	case len(b.Statements) == 1 && r.plan.Creates != nil:
		if err = s.showCreate(ctx, r.plan.Creates, b.Statements[0]); err == nil {
			s.findAnswered()
		}
	case len(b.Statements) == 1:
		empty, err = s.readOne(ctx, r, b.Statements[0])
	default:
		empty, err = s.concatenate(ctx, r, b)
	}
	// In a transaction an old snapshot may answer, which says nothing of now.
	if err == nil && len(b.Probes) > 0 && s.tx == nil {
		s.proxy.opts.Index.Observe(b.Probes, route(b), empty)
	}
	return err
}

func route(b *planner.Bound) catalog.ShardSet {
	var set catalog.ShardSet
	for _, st := range b.Statements {
		set.Add(st.Shard)
	}
	return set
}

// readOne forwards one shard's answer as it is.
func (s *session) readOne(ctx context.Context, r request, st planner.ShardStatement) (empty catalog.ShardSet, err error) {
	if s.reading != nil {
		return s.readPart(ctx, r, st)
	}
	conn, err := s.borrow(ctx, st.Shard)
	if err != nil {
		return empty, err
	}
	defer s.giveBack(st.Shard, conn)
	unlimit, err := s.limitOn(ctx, conn, r)
	if err != nil {
		return empty, s.unsent(st.Shard, err)
	}
	defer unlimit()
	conn.Await = true
	if err := s.send(ctx, conn, r, st); err != nil {
		return empty, err
	}
	o := s.forwardOptions()
	o.HoldOK = r.plan.Calls
	sum, err := conn.Forward(s.client, shard.Result, o)
	if err := s.forwarded(st.Shard, sum, err); err != nil {
		return empty, err
	}
	s.remember(ctx, conn, sum)
	unlimit() // before another SELECT
	if r.plan.Calls && sum.Err == nil {
		return empty, s.answerCall(ctx, r, st.Shard, conn, sum)
	}
	if sum.Err == nil && asksID(r, st.SQL) && setsID(st.SQL) {
		id, told, err := askID(ctx, conn)
		if err != nil {
			return empty, fmt.Errorf("%w: %w", errHalfAnswered, s.shardError(st.Shard, err))
		}
		if told {
			s.last.insertID = id
		}
	}
	s.findIn(ctx, conn, r, sum)
	if sum.ResultSet && sum.Rows == 0 {
		empty.Add(st.Shard)
	}
	return empty, nil
}

// writeOne sends an autocommitted write to its one shard.
func (s *session) writeOne(ctx context.Context, r request, b *planner.Bound) error {
	st := b.Statements[0]
	shards := catalog.Only(st.Shard)
	open := s.proxy.opts.Index.Begin(shards)
	defer open.End()
	if err := s.mayWrite(open, r, b, shards); err != nil {
		return err
	}
	conn, err := s.borrow(ctx, st.Shard)
	if err != nil {
		s.proxy.opts.Index.After(leftover(b))
		return err
	}
	defer func() { s.giveBack(st.Shard, conn) }()
	conn.Await = true
	err = s.send(ctx, conn, r, st)
	if _, unsent := errors.AsType[unsentError](err); unsent && !s.keeps(st.Shard) {
		s.giveBack(st.Shard, conn)
		anew, newErr := s.borrowNew(ctx, st.Shard)
		if newErr != nil {
			s.proxy.opts.Index.After(leftover(b))
			conn = nil
			return newErr
		}
		conn = anew
		err = s.send(ctx, conn, r, st)
	}
	var sum shard.Summary
	if err == nil {
		o := s.forwardOptions()
		o.HoldOK = holdsID(b) || r.plan.Calls
		sum, err = conn.Forward(s.client, shard.Result, o)
		if err = s.forwarded(st.Shard, sum, err); err == nil && sum.Err == nil {
			told := sum
			told.LastInsertID = 0 // learnID or answerInserted settles it
			s.remember(ctx, conn, told)
			s.findIn(ctx, conn, r, sum)
			s.learnID(ctx, conn, r, b, sum)
			if r.plan.Calls {
				err = s.answerCall(ctx, r, st.Shard, conn, sum)
			} else if !sum.ResultSet {
				err = s.answerInserted(ctx, b, conn, sum)
			} else if err = s.returnedID(ctx, r, b, []sent{{st.Shard, conn}}); err != nil {
				err = fmt.Errorf("%w: %w", errHalfAnswered, err)
			}
		}
		if err == nil && sum.Err == nil {
			// The client has its answer before maintenance is asked for; the last
			// one goes with the connection's end.
			if !s.proxy.draining.Load() {
				err = s.clientError(s.client.Flush())
			}
		}
	}
	after := b.Maintain
	if err != nil || sum.Err != nil {
		after = append(leftover(b), after...)
	}
	if conn.Broken || conn.Busy() {
		open.InDoubt(st.Shard, conn.ThreadID, after)
		return err
	}
	open.End()
	s.proxy.opts.Index.After(after)
	return err
}

// answerCall answers the end of a CALL, which was held back: what the procedure may have
// set is asked for before, and a transaction that it has left open is none of the
// session's, which has others' connections for its next statements.
func (s *session) answerCall(ctx context.Context, r request, id catalog.ShardID, conn *shard.Conn, sum shard.Summary) error {
	if s.tx == nil && (conn.InTransaction() || conn.Status&mysql.SERVER_STATUS_AUTOCOMMIT == 0) {
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return s.shardError(id, err)
		}
		return refuse("CALL of a procedure that leaves a transaction open, or autocommit off, is not supported: what it had not committed was rolled back; let it COMMIT")
	}
	last, told, err := askID(ctx, conn)
	if err != nil {
		return s.shardError(id, err)
	}
	if told {
		s.last.insertID = last
	}
	if err := s.takeOver(ctx, conn, r.plan.Sets); err != nil {
		return s.shardError(id, err)
	}
	return s.answerOK(wire.OK{Affected: sum.Affected, LastInsertID: sum.LastInsertID, Warnings: sum.Warnings, Info: sum.Info})
}

// mayWrite takes steps 3 and 4.
func (s *session) mayWrite(open Open, r request, b *planner.Bound, shards catalog.ShardSet) error {
	if r.plan.Catalog.Version != s.catalog().Version {
		return errStale
	}
	return s.proxy.opts.Index.Prepare(open, b.Adds, b.Marks, r.plan.Tables, shards)
}

// leftover is the maintenance behind a statement that may have changed nothing:
// the entries that were added for it may be stale, its marks without cause.
func leftover(b *planner.Bound) []planner.Maintenance {
	if len(b.Adds) == 0 && len(b.Marks) == 0 {
		return nil
	}
	type key struct {
		t  *catalog.Table
		ix *catalog.Index
	}
	sets := map[key]catalog.ShardSet{}
	for _, a := range b.Adds {
		k := key{a.Index.Table, a.Index}
		set := sets[k]
		set.Add(a.Shard)
		sets[k] = set
	}
	for _, m := range b.Marks {
		k := key{m.Index.Table, m.Index}
		set := sets[k]
		set.Add(m.Shard)
		sets[k] = set
	}
	var out []planner.Maintenance
	for k, set := range sets {
		out = append(out, planner.Maintenance{Table: k.t, Operation: "FAILED", Shards: set, Indexes: []*catalog.Index{k.ix}})
	}
	return out
}

// borrow takes a connection that has the session's settings: the transaction's
// own, or one of the pool's.
func (s *session) borrow(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
	if s.tx != nil {
		return s.tx.conn(ctx, id)
	}
	return s.borrowPooled(ctx, id)
}

func (s *session) borrowPooled(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
	if conn := s.lockedConn(id); conn != nil {
		return s.borrowLocked(ctx, id, conn)
	}
	if s.usesPinned(id) {
		return s.borrowPinned(ctx)
	}
	if s.reading != nil {
		if conn := s.borrowReplica(ctx, id); conn != nil {
			return conn, nil
		}
	}
	if s.distrust {
		return s.borrowNew(ctx, id)
	}
	pool, foundRows := s.proxy.opts.Pools[id], s.client.Capabilities&mysql.CLIENT_FOUND_ROWS != 0
	conn, err := pool.GetIn(ctx, foundRows, s.settings.fingerprint)
	if err != nil {
		return nil, shardDown(err)
	}
	err = s.settings.applyTo(ctx, conn)
	if errors.Is(err, shard.ErrShard) {
		// It was dead already, and has got nothing yet that it could have done.
		pool.Put(conn)
		if conn, err = s.borrowNew(ctx, id); err != nil {
			return nil, err
		}
		return conn, nil
	}
	if err != nil {
		pool.Put(conn)
		return nil, s.shardError(id, err)
	}
	return conn, nil
}

// borrowNew is borrowPooled that trusts no idle connection: it has got one that
// was dead.
func (s *session) borrowNew(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
	pool := s.proxy.opts.Pools[id]
	conn, err := pool.GetNew(ctx, s.client.Capabilities&mysql.CLIENT_FOUND_ROWS != 0)
	if err != nil {
		return nil, shardDown(err)
	}
	if err := s.settings.applyTo(ctx, conn); err != nil {
		pool.Put(conn)
		return nil, s.notJoined(id, err)
	}
	return conn, nil
}

// notJoined is shardError for a shard that the transaction has done nothing on:
// it goes on without.
func (s *session) notJoined(id catalog.ShardID, err error) error {
	tx := s.tx
	s.tx = nil
	defer func() { s.tx = tx }()
	return s.shardError(id, err)
}

// giveBack returns a connection that isn't the transaction's.
func (s *session) giveBack(id catalog.ShardID, conn *shard.Conn) {
	if conn == nil {
		return
	}
	conn.Watch(nil)
	s.activity.done(conn)
	if s.tx == nil || s.tx.conns[id] != conn {
		s.putBack(id, conn)
	}
}

// send sends the statement's text or executes its prepared form.
func (s *session) send(ctx context.Context, conn *shard.Conn, r request, st planner.ShardStatement) error {
	// The connection may remember another session's.
	if r.givesID || asksID(r, st.SQL) || r.returnsID() {
		if err := tellID(ctx, conn, s.last.insertID); err != nil {
			return s.unsent(st.Shard, err)
		}
	}
	s.activity.sent(st.Shard, conn)
	// A hinted CALL may do anything there.
	conn.Unclean = conn.Unclean || r.plan.Kind == planner.Other || r.plan.Calls
	if r.prepared != nil {
		return s.sendPrepared(ctx, conn, r, st)
	}
	if err := s.sayOnce(ctx, conn, r, st.Shard); err != nil {
		return err
	}
	if err := conn.SendStatement(s.headed(st.SQL)); err != nil {
		return s.sendFailed(st.Shard, conn, err)
	}
	return nil
}

// unsentError: the connection broke before the shard can have got anything of
// the statement.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// unsent is shardError for a failure before the statement was sent.
func (s *session) unsent(id catalog.ShardID, err error) error {
	lost := errors.Is(err, shard.ErrShard)
	if err = s.shardError(id, err); lost {
		return unsentError{err}
	}
	return err
}

// sendFailed is shardError for a failure to send.
func (s *session) sendFailed(id catalog.ShardID, conn *shard.Conn, err error) error {
	if conn.Untouched() {
		return s.unsent(id, err)
	}
	return s.shardError(id, err)
}

// containsFold reports whether s has sub, which is lower case ASCII.
func containsFold(s, sub string) bool {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i]|0x20 == sub[0]|0x20 && strings.EqualFold(s[i:i+len(sub)], sub) {
			return true
		}
	}
	return false
}

func (s *session) forwardOptions() shard.ForwardOptions {
	o := shard.ForwardOptions{MoreResults: s.more != 0, StatusMask: sessionStatus, StatusSet: s.status()}
	if s.settings.restricted {
		o.Tell = s.veil
	}
	return o
}

// forwarded judges how forwarding an answer ended.
func (s *session) forwarded(id catalog.ShardID, sum shard.Summary, err error) error {
	switch {
	case sum.Err != nil:
		s.serverFailed(sum.Err)
	case err == nil && (!sum.ResultSet || sum.Counted):
		s.changed = int64(sum.Affected)
	}
	if s.tx != nil && err == nil {
		s.tx.watch(id, sum)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, shard.ErrClient):
		return err
	case !sum.Clean:
		return fmt.Errorf("%w: %w", errHalfAnswered, s.shardError(id, err))
	}
	return s.shardError(id, err)
}

// serverFailed looks at an error that a shard answered: some end the
// transaction, some tell that the schema is not what the catalog says.
func (s *session) serverFailed(e *shard.ServerError) {
	s.failed = true
	s.proxy.metrics.failed(e.Code)
	s.last = lastStatement{insertID: s.last.insertID, failed: e.Code, warnings: [][][]byte{{[]byte("Error"), fmt.Appendf(nil, "%d", e.Code), []byte(e.Message)}}}
	switch e.Code {
	case 1054, 1136, 1146, 1049, 1356, 1091, 1364, 1412:
		// Unknown column, column count, no such table, unknown database, invalid
		// view, ...: DDL may have been done behind Shunt's back.
		s.proxy.opts.Directory.Soon()
	}
}

// remember keeps what later statements may ask about.
func (s *session) remember(ctx context.Context, conn *shard.Conn, sum shard.Summary) {
	if sum.LastInsertID != 0 {
		s.last.insertID = sum.LastInsertID
	}
	if sum.Err != nil {
		return // serverFailed has noted it
	}
	s.last.warnings = nil
	if sum.Warnings > 0 && !conn.Broken {
		if res, err := conn.Query(ctx, "SHOW WARNINGS"); err == nil {
			s.last.warnings = res.Rows
		}
	}
}

// shardError names the shard in a failure of its connection, which fails the
// transaction; what the server itself answered stays as it is.
func (s *session) shardError(id catalog.ShardID, err error) error {
	if server, ok := errors.AsType[*shard.ServerError](err); ok {
		s.serverFailed(server)
		if s.tx != nil {
			s.tx.watch(id, shard.Summary{Err: server})
		}
		return sqlError{server.Code, server.State, server.Message}
	}
	failed := sqlError{codeShardLost, "HY000", fmt.Sprintf("Connection to shard %s was lost: %v", s.catalog().ShardName(id), err)}
	if errors.Is(err, shard.ErrColumns) {
		// In the midst of an ALTER TABLE, most likely: some have it, some not yet.
		s.proxy.opts.Directory.Soon()
		failed = sqlError{codeTableChanged, "HY000", fmt.Sprintf("Table definition has changed, please retry transaction (%v)", err)}
	}
	if s.tx != nil {
		s.tx.lost(id, failed)
	}
	return failed
}

func shardDown(err error) error {
	if errors.Is(err, shard.ErrPoolExhausted) {
		return sqlError{1040, "08004", "Too many connections: " + err.Error()}
	}
	return sqlError{codeShardDown, "HY000", fmt.Sprintf("Unable to connect to %v", err)}
}

// refused reports that a plan can't be executed as it is.
func refused(b *planner.Bound, err error) bool {
	if err == nil {
		return b != nil && b.Refuse != nil
	}
	e, ok := errors.AsType[*planner.Error](err)
	return ok && e.Code == codeNotSupported
}
