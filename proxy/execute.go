package proxy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/proxy/shard"
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
	s.poolable = len(r.plan.Tables) > 0
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

// rowsOnce executes a plan, or returns errStale where it has to be made anew first.
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
	if r.plan.Redefines && !r.plan.Calls {
		if err := s.commitBefore(ctx, r.sql); err != nil { // as a server does
			return err
		}
	}
	s.needTemporary(r.plan.Tables)
	if s.mayNotWrite(r.plan) {
		return s.readOnlyTransaction()
	}
	if r.plan.Meets != nil && r.plan.Constants == nil {
		return s.meetRows(ctx, r)
	}
	s.reading = s.readingFor(r)
	defer func() { s.reading = nil }()
	b, err := s.bindToRead(ctx, r, ids)
	if b != nil {
		r.found = b.Found
	}
	if e := refusal(b, err); e != nil && e.Differs { // as planAnew
		if err := s.proxy.opts.Directory.RefreshUnlessFresh(ctx); err != nil {
			return err
		}
		if r.plan.Catalog.Version != s.catalog().Version {
			return errStale
		}
	}
	if done, err := s.otherWay(ctx, r, b, err); done {
		return err
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
	if b.Gather != nil && s.tableLocks != nil {
		if err := s.gatherUnderLocks(r.plan); err != nil {
			return err
		}
	}
	if r.plan.Kind != planner.Locking { // two sessions must meet at the same copy of a row
		s.stayOn(b)
	}
	implicit := s.beginFor(r.plan, b)
	if !r.plan.Kind.Writes() && (len(b.Statements) != 1 || b.Gather != nil || b.System != nil) && asksID(r, r.sql) && setsID(r.sql) {
		// Each shard would set its own.
		return refuse("LAST_INSERT_ID() of a value in a query over several shards is not supported: SET LAST_INSERT_ID = value")
	}
	writes := r.plan.Kind.Writes() || len(b.Adds) > 0 || len(b.Marks) > 0
	if (writes || b.System != nil && b.System.Everywhere) && s.rights().ReadOnly {
		return s.readOnly() // a stored function, ANALYZE TABLE
	}
	if len(r.sql) > largeText && r.prepared == nil && r.shape == nil {
		r.plan.Spend()
	}
	if writes {
		err = s.write(ctx, r, b, implicit)
	} else {
		err = s.readInTime(ctx, r, b)
	}
	if !errors.Is(err, errStale) {
		s.proxy.metrics.routed(b, r.start)
	}
	s.unsure(r, b)
	return err
}

// bind gives a plan its values and its route. AUTO_INCREMENT values are taken
// before, so that the rows are routed and indexed by them; a statement that is
// planned once more keeps them. One that fails leaves a gap, as on a server.
func (s *session) bind(ctx context.Context, r request, ids *counted) (*planner.Bound, error) {
	p := s.proxy.planner
	first, err := s.count(ctx, r, ids)
	if r.shape != nil {
		if err == nil {
			if b, ok := p.BindShape(r.plan, r.shape, s.lookups(), first); ok {
				return b, nil
			}
		}
		return nil, errLiterals
	}
	if err != nil {
		return nil, err
	}
	leave, err := s.roomToPlan(ctx, r.sql)
	if err != nil {
		return nil, err
	}
	defer leave()
	switch {
	case first == 0 && r.prepared != nil:
		return p.BindIn(&s.room.binding, r.plan, r.values, s.lookups())
	case first == 0:
		return p.Bind(r.plan, r.values, s.lookups())
	}
	return p.BindGenerated(r.plan, r.values, s.lookups(), first, r.prepared != nil)
}

// bindToRead is bind for what is to be read from replicas (s.reading), and for the
// primaries where that can't be.
func (s *session) bindToRead(ctx context.Context, r request, ids *counted) (*planner.Bound, error) {
	b, err := s.bind(ctx, r, ids)
	if s.reading == nil || err == nil && s.onReplicas(b) {
		return b, err
	}
	s.proxy.metrics.replicaRead(s.reading)
	s.reading = nil
	return s.bind(ctx, r, ids)
}

// otherWay executes a statement that is refused as it is bound, if its plan has another
// way; done says so. why is the refusal, nil where it is b's.
func (s *session) otherWay(ctx context.Context, r request, b *planner.Bound, why error) (done bool, err error) {
	switch {
	case !refused(b, why):
		return false, nil
	case r.plan.Copy != nil:
		return true, s.copyRows(ctx, r)
	case r.plan.Constants != nil:
		return true, s.askFirst(ctx, r, why)
	case r.plan.Limited != nil && why == nil:
		return true, s.writeLimited(ctx, r, b.Refuse)
	}
	return false, nil
}

// beginFor begins the transaction that a statement needs. Without autocommit it is the
// session's; a write over several shards is one of its own (implicit), so that it happens
// on all or none.
func (s *session) beginFor(plan *planner.Rows, b *planner.Bound) (implicit bool) {
	switch {
	case s.tx != nil, plan.Redefines:
	case !s.settings.autocommit:
		if plan.Kind != planner.Show && (len(plan.Tables) > 0 || plan.Kind != planner.Select) {
			s.tx = s.newTransaction()
		}
	case plan.Kind.Writes() && (len(b.Statements) > 1 || b.Gather != nil || s.settings.writesForOnce()):
		s.tx = s.newTransaction()
		return true
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
