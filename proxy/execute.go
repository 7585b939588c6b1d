package proxy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// planningTime bounds how often a statement is planned anew because DDL gives another catalog each time.
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
func (s *session) rows(ctx context.Context, r *request) error {
	s.poolable = len(r.plan.Tables) > 0
	defer r.ids.release()
	defer s.spendOnce(r.plan, r.sql)
	err := s.rowsOnce(ctx, r)
	if err != nil && errors.Is(err, errStale) {
		return untilPlanned(func() error { return s.rowsAnew(ctx, r, &err) })
	}
	if r.shape != nil {
		s.proxy.metrics.planHits.Inc()
	}
	return err
}

// rowsAnew plans a statement once more, and executes it. last is why, errStale.
func (s *session) rowsAnew(ctx context.Context, r *request, last *error) error {
	if r.shape != nil { // it is planned by itself now
		s.proxy.metrics.planMisses.Inc()
		r.shape, r.values = nil, nil
		r.sql = strings.Clone(r.sql)
	}
	r.retyped = r.retyped || errors.Is(*last, errRetyped)
	planned, err := s.plan(ctx, r.sql)
	if err != nil {
		return err
	}
	rows, ok := planned.(*plan.Rows)
	if !ok {
		return s.run(ctx, planned, r)
	}
	r.plan = rows
	*last = s.rowsOnce(ctx, r)
	return *last
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

// isCurrent reports that a statement would be planned today as it was: there has been no DDL since, or none that is its
// affair.
//
// Rule named: what the statement may read and write are the tables that it names. A hint's and a program's may be any.
func (s *session) isCurrent(p *plan.Rows) bool {
	if p.Kind == plan.Other || p.Kind == plan.Show || p.Calls {
		return p.Catalog.Version == s.catalog().Version
	}
	return s.catalog().PlansAs(p.Catalog, p.Tables)
}

// rowsOnce executes a plan, or returns errStale where it has to be made anew first.
func (s *session) rowsOnce(ctx context.Context, r *request) error {
	if err := s.mayGoOn(); err != nil {
		return err
	}
	if !s.isCurrent(r.plan) {
		return errStale
	}
	if err := s.lostLocks(); err != nil {
		return err
	}
	s.needTemporary(r.plan.Tables)
	if !r.plan.Plain {
		if err := s.mayExecute(ctx, r); err != nil {
			return err
		}
		if w := s.wayOf(r, unbound); w != nil {
			return w.execute(s, ctx, r)
		}
	}
	r.fill = nil
	if len(r.plan.Covering) > 0 {
		if done, err := s.covered(r); done {
			return err
		}
	}
	s.reading = s.readingFor(r)
	err := s.bindAndExecute(ctx, r)
	s.reading = nil
	return err
}

// mayExecute says what a statement may not do in the session's transaction, and ends that where a
// server does.
func (s *session) mayExecute(ctx context.Context, r *request) error {
	if r.plan.Ends && (s.tx != nil || !s.settings.autocommit) {
		return refuse("CALL of a procedure that may end a transaction (COMMIT, ROLLBACK, START TRANSACTION, DDL) is not supported in one, whose other shards would know nothing of it: COMMIT before, and call it with autocommit")
	}
	if r.plan.Redefines && !r.plan.Calls {
		if err := s.commitBefore(ctx, r.sql); err != nil { // as a server does
			return err
		}
	}
	if s.mayNotWrite(r.plan) {
		return s.readOnlyTransaction()
	}
	return nil
}

// bindAndExecute executes a plan of rows that are read or written.
func (s *session) bindAndExecute(ctx context.Context, r *request) error {
	err := s.bindToRead(ctx, r)
	b := r.bound
	if b != nil {
		r.found = b.Found
	}
	if err != nil || b.Refuse != nil {
		if done, err := s.whereRefused(ctx, r, err); done {
			return err
		}
	}
	if err != nil {
		return err
	}
	// A write asks again before it is sent. Counter-example: a lookup waits for the disk
	// while an ALTER changes what the keys mean and the index is built anew, and then
	// finds nothing there by a key of before.
	if err := s.stillPlanned(r); err != nil {
		return err
	}
	r.generated = nil
	if b.Generated != nil {
		r.generated = b.Generated.Values
	}
	r.givesID = mayGiveID(r)
	s.diag.sending()
	if b.Refuse != nil {
		return b.Refuse
	}
	if b.Gather != nil && s.tableLocks != nil {
		if err := s.gatherUnderLocks(r.plan); err != nil {
			return err
		}
	}
	if r.plan.Kind != plan.Locking { // two sessions must meet at the same copy of a row
		s.stayOn(b)
	}
	implicit := s.beginFor(r.plan, b, r.sql)
	if !r.plan.Kind.Writes() && (len(b.Statements) != 1 || b.Gather != nil || b.System != nil) && asksID(r, r.sql) && setsID(r.sql) {
		// Each shard would set its own.
		return refuse("LAST_INSERT_ID() of a value in a query over several shards is not supported: SET LAST_INSERT_ID = value")
	}
	r.writes = changesRows(r)
	if (r.writes || b.System != nil && b.System.Everywhere) && s.rights().ReadOnly {
		return s.readOnly() // a stored function, ANALYZE TABLE
	}
	if s.tx == nil || implicit {
		return s.executeBound(ctx, r, implicit)
	}
	claims, err := s.claimRows(ctx, r)
	if err == nil {
		err = s.executeBound(ctx, r, implicit)
	}
	claims.answered()
	return err
}

func changesRows(r *request) bool {
	return r.plan.Kind.Writes() || len(r.bound.Adds) > 0 || len(r.bound.Marks) > 0
}

func (s *session) executeBound(ctx context.Context, r *request, implicit bool) (err error) {
	if len(r.sql) > largeText && r.prepared == nil && r.shape == nil {
		planner.Spend(r.plan)
	}
	b := r.bound
	if r.writes {
		r.implicit = implicit
		if err = s.takenBefore(ctx, r); err == nil {
			err = s.takenBehind(ctx, r, s.wayOf(r, bound).execute(s, ctx, r))
		} else if implicit {
			_ = s.rollback(ctx)
		}
	} else if r.fill == nil {
		err = s.ofGuess(ctx, r, s.readInTime(ctx, r))
	} else {
		err = s.keeping(r, func() error { return s.ofGuess(ctx, r, s.readInTime(ctx, r)) })
	}
	if err == nil || !errors.Is(err, errStale) {
		s.routed(b, r.start)
	}
	s.unsure(r)
	return err
}

// bind gives a plan its values and its route. AUTO_INCREMENT values are taken
// before, so that the rows are routed and indexed by them; a statement that is
// planned once more keeps them. One that fails leaves a gap, as on a server.
func (s *session) bind(ctx context.Context, r *request) (err error) {
	r.bound = nil
	p := s.proxy.planner
	first, err := s.count(ctx, r)
	if r.shape != nil {
		if err == nil {
			if b, ok := p.BindShape(r.plan, r.shape, s.lookupsFor(ctx, r), first); ok {
				r.bound = b
				return nil
			}
		}
		return errLiterals
	}
	if err != nil {
		return err
	}
	leave, err := s.roomToPlan(ctx, r.sql)
	if err != nil {
		return err
	}
	defer leave()
	switch {
	case r.storing != nil:
		r.bound, err = p.BindGathered(r.plan, r.values, s.lookupsFor(ctx, r))
	case first == 0 && r.prepared != nil:
		r.bound, err = p.BindIn(&s.room.binding, r.plan, r.values, s.lookupsFor(ctx, r))
	case first == 0:
		r.bound, err = p.Bind(r.plan, r.values, s.lookupsFor(ctx, r))
	default:
		r.bound, err = p.BindGenerated(r.plan, r.values, s.lookupsFor(ctx, r), first, r.prepared != nil)
	}
	return err
}

// bindToRead is bind for what is to be read from replicas (s.reading), and for the
// primaries where that can't be.
func (s *session) bindToRead(ctx context.Context, r *request) error {
	if s.mayGuess(r) {
		return s.bindOnGuess(ctx, r)
	}
	err := s.bind(ctx, r)
	if r.current != nil && (err != nil || !sentAtOnce(r.bound)) {
		if wrong := s.confirm(ctx, r); wrong != nil {
			return wrong
		}
	}
	if s.reading == nil || err == nil && s.onReplicas(r.bound) {
		return err
	}
	s.proxy.metrics.replicaRead(s.reading)
	s.reading = nil
	return s.bind(ctx, r)
}

// whereRefused executes a statement that is refused as it is bound, if its plan has another
// way; done says so. err is what binding it gave.
func (s *session) whereRefused(ctx context.Context, r *request, err error) (done bool, _ error) {
	why := r.refusal(err)
	if why == nil {
		return false, nil
	}
	if why.Differs { // as planAnew
		if err := s.proxy.opts.Directory.RefreshUnlessFresh(ctx); err != nil {
			return true, err
		}
		if r.plan.Catalog.Version != s.catalog().Version {
			return true, errStale
		}
	}
	r.why = why
	if w := s.wayOf(r, refused); w != nil {
		return true, w.execute(s, ctx, r)
	}
	return false, nil
}

// beginFor begins the transaction that a statement needs. Without autocommit it is the
// session's; a write over several shards is one of its own (implicit), so that it happens
// on all or none.
func (s *session) beginFor(rows *plan.Rows, b *plan.Bound, sql string) (implicit bool) {
	switch {
	case s.tx != nil, rows.Redefines:
	case !s.settings.autocommit:
		if rows.Kind != plan.Show && (len(rows.Tables) > 0 || rows.Kind != plan.Select) || s.readsDictionary(sql) {
			s.transact()
		}
	case rows.Kind.Writes() && (len(b.Statements) > 1 || b.Gather != nil || s.settings.writesForOnce()):
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
