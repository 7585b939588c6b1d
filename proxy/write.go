package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/deadlock"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

var (
	// writeOneWay is how a write to one shard is executed with autocommit.
	writeOneWay = &way{
		at:      bound,
		fits:    func(s *session, r *request) bool { return r.writes && s.tx == nil && r.bound.Unique == nil },
		execute: (*session).writeOne,
	}
	// writeWay is how all other writes are executed.
	writeWay = &way{at: bound, fits: func(_ *session, r *request) bool { return r.writes }, execute: (*session).write}
)

// write sends a write within the session's transaction, which is the statement's own when
// r.implicit is true.
func (s *session) write(ctx context.Context, r *request) error {
	if s.tx == nil {
		s.tx, r.implicit = s.newTransaction(), true
	}
	err := s.writeInTransaction(ctx, r)
	if errors.Is(err, errAgain) {
		r.again, s.tx = true, s.newTransaction()
		s.diag.untold() // the client has not been told
		err = s.writeInTransaction(ctx, r)
	}
	return err
}

// writeOne sends an autocommitted write to its one shard.
func (s *session) writeOne(ctx context.Context, r *request) error {
	b := r.bound
	st := b.Statements[0]
	shards := catalog.Only(st.Shard)
	open := s.proxy.opts.Index.Begin(shards)
	defer open.End()
	defer s.leaveCopies(&s.copies)
	if err := s.mayWrite(ctx, open, r, shards); err != nil {
		return err
	}
	if err := s.proxy.opts.Index.Prepare(ctx, open, b.Adds, b.Marks, r.plan.Tables, shards); err != nil {
		return err
	}
	conn, err := s.borrow(ctx, st.Shard)
	if err == nil {
		conn, err = s.fitting(ctx, open, st.Shard, conn)
	}
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
		if newErr == nil {
			anew, newErr = s.fitting(ctx, open, st.Shard, anew)
		}
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
		o.HoldOK = holdsID(r) || r.plan.Calls || r.plan.Redefines
		o.HoldErr = r.plan.Calls || s.mayBeTaken(r)
		sum, err = conn.Forward(s.client, shard.Result, o)
		err = s.forwarded(st.Shard, &sum, err)
		if r.plan.Calls && err == nil && sum.Err != nil {
			err = s.answerFailedCall(ctx, conn, *sum.Err, o.Tell)
		}
		if err == nil && sum.Err != nil && s.mayBeTaken(r) {
			err = mysqlerr.Error(*sum.Err)
		}
		if r.plan.Redefines && !conn.Broken && !conn.Busy() {
			failed := s.redefined(ctx, st.Shard)
			if answered := sum.ResultSet && !r.plan.Calls; err == nil && sum.Err == nil && !answered {
				err = failed
			}
		}
		if r.plan.Kind == plan.Other && !r.plan.Redefines && err == nil && sum.Err == nil {
			s.proxy.lookNow(ctx, r.plan.Tables) // it has written one copy alone
		}
		if err == nil && sum.Err == nil {
			told := sum
			told.LastInsertID = 0 // learnID or answerInserted settles it
			s.diag.keep(ctx, conn, &told)
			s.diag.find(ctx, conn, r.found, &sum)
			s.diag.learnID(ctx, conn, r, sum)
			if r.plan.Calls {
				err = s.answerCall(ctx, r, st.Shard, conn, sum)
			} else if r.plan.Redefines && !sum.ResultSet {
				err = s.answerOK(wire.OK{Affected: sum.Affected, Warnings: sum.Warnings, Info: sum.Info})
			} else if !sum.ResultSet {
				err = s.answerInserted(ctx, r, conn, sum)
			} else if err = s.returnedID(ctx, r, []sent{{st.Shard, conn}}); err != nil {
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
		if r.plan.Redefines {
			open.DDLInDoubt(st.Shard, conn)
			return err
		}
		open.InDoubt(st.Shard, conn, after)
		return err
	}
	open.End()
	s.proxy.opts.Index.After(after)
	return err
}

// mayWrite says why a write may not go to its shards.
func (s *session) mayWrite(ctx context.Context, open Open, r *request, shards catalog.ShardSet) error {
	b := r.bound
	if err := s.shareCopies(ctx, r.plan); err != nil {
		return err
	}
	if !s.isCurrent(r.plan) {
		return errStale
	}
	if err := s.proxy.stalls.refuse(shards, s.catalog()); err != nil {
		return err
	}
	if s.proxy.opts.Answers != nil {
		c := planner.Changes(r.plan, b)
		if r.plan.Kind == plan.Other {
			c.Tables = append(slices.Clone(c.Tables), s.coveringTables()...)
		}
		open.Writes(&c, shards)
	}
	return nil
}

// leftover is the maintenance behind a statement that may have changed nothing:
// the entries that were added for it may be stale, its marks without cause.
func leftover(b *plan.Bound) []plan.Maintenance {
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
	var out []plan.Maintenance
	for k, set := range sets {
		out = append(out, plan.Maintenance{Table: k.t, Operation: "FAILED", Shards: set, Indexes: []*catalog.Index{k.ix}})
	}
	return out
}

// writeInTransaction sends a write within the session's transaction, which is
// the statement's own when r.implicit is true. A statement that fails on one
// shard is undone on the others, as one server would undo it.
func (s *session) writeInTransaction(ctx context.Context, r *request) error {
	b, implicit := r.bound, r.implicit
	tx := s.tx
	if err := tx.join(ctx, route(b)); err != nil {
		if implicit {
			_ = s.rollback(ctx)
		}
		return err
	}
	err := s.mayWrite(ctx, tx.open, r, route(b))
	if err == nil {
		err = tx.prepare(ctx, r, route(b))
	}
	if err != nil {
		if implicit {
			_ = s.rollback(ctx)
		}
		return err
	}
	tx.wrote(b)
	several := len(b.Statements) > 1 || b.Gather != nil
	undoes := (several || b.Unique != nil) && !implicit
	if undoes {
		if err := tx.each(ctx, route(b), "SAVEPOINT "+statementSavepoint, nil); err != nil {
			return err
		}
	}
	var returned *returnedRows
	if (several || implicit || b.Unique != nil) && r.plan.Returning {
		returned = &returnedRows{}
	}
	r.inTurn = r.inTurn || several && s.proxy.deadlocks.Feared(r.plan.Tables)
	ok, err := s.writeAll(ctx, r, several, implicit || b.Unique != nil, returned)
	s.activity.settled()
	if err == nil && ok != nil && b.Unique != nil {
		err = s.onlyOnce(ctx, b.Unique, ok.Affected)
	}
	circle := (several || b.Unique != nil) && tx.victim == deadlock.Err
	if circle {
		s.proxy.deadlocks.Fear(r.plan.Tables)
	}
	if implicit {
		if err != nil {
			_ = s.rollback(ctx)
			if circle && !r.again && b.Gather == nil && !s.activity.killed() {
				return errAgain
			}
			return err
		}
		if err := s.commit(ctx); err != nil {
			return err
		}
	} else if undoes && err != nil && tx.failed == nil && tx.victim == nil {
		if err := tx.each(ctx, route(b), "ROLLBACK TO SAVEPOINT "+statementSavepoint, nil); err != nil {
			return tx.torn(err)
		}
	}
	if err != nil || ok == nil {
		return err
	}
	if returned != nil {
		return s.answerReturned(returned, r.plan.Kind != plan.Delete, ok.Warnings)
	}
	return s.answerOK(*ok)
}

// errAgain: a statement that is a transaction of its own was rolled back for a deadlock
// over several shards, of which the client need not know.
var errAgain = errors.New("deadlock over several shards")

// statementSavepoint makes one statement over several shards atomic inside of
// a transaction. It isn't released, which would be a round trip: the next one takes its place.
const statementSavepoint = "shunt_statement"

// writeAll sends a write and joins the answers. With one shard its answer is
// forwarded as it is, and nil returned; else, and with hold, the joined one is
// returned to be sent when nothing can fail any more. returned, if not nil, gets the
// rows that the shards answer.
func (s *session) writeAll(ctx context.Context, r *request, several, hold bool, returned *returnedRows) (*wire.OK, error) {
	b := r.bound
	if b.SameTime && several {
		undo, err := s.sameTime(ctx, route(b))
		if err != nil {
			return nil, err
		}
		defer undo()
	}
	w := writing{
		s: s, r: r, several: several, copies: b.Access == "reference", returned: returned,
		hold: several || hold || holdsID(r) || r.plan.Calls,
	}
	if b.Generated != nil {
		w.ids = map[catalog.ShardID]uint64{}
	}
	w.shards, w.failed = s.borrowAll(ctx, b)
	w.ask(ctx, 0)
	s.diag.clear()
	for i, x := range w.shards {
		w.ask(ctx, i)
		if x.conn.Busy() { // else it was not sent to
			w.answer(ctx, i)
		}
	}
	w.failed = errors.Join(w.failed, returned.whole())
	if w.failed == nil {
		w.joined.Warnings += s.warnEmpty(b.Generated)
	}
	if byRow(s.diag.warnings, w.about); w.finds && w.failed == nil {
		s.diag.setFound(w.found)
	}
	w.settleID(ctx)
	if w.copies && len(w.shards) > 0 {
		w.joined.Affected /= uint64(len(w.shards))
		w.infos = w.infos[:min(1, len(w.infos))]
	}
	if !w.hold {
		return nil, w.failed
	}
	w.joined.Info = infoWarnings.ReplaceAllString(joinInfo(w.infos), fmt.Sprintf("Warnings: %d", w.joined.Warnings))
	joined := w.joined // of w itself nothing need outlive the call
	return &joined, w.failed
}

// writing is a write on its way to its shards, and what they have answered.
type writing struct {
	s *session
	r *request
	// several: it goes to several shards. copies: each changes its copy of the same rows.
	several, copies bool
	returned        *returnedRows
	shards          []sent
	asked           int // of shards, which have got the statement
	// hold: the client gets the joined answer, not a shard's. told: it has got the error of
	// the only shard.
	hold, told bool
	failed     error
	joined     wire.OK
	ids        map[catalog.ShardID]uint64 // LAST_INSERT_ID() on each shard, for generated ones
	infos      []string
	// about are the rows that the warnings told are about: see byRow.
	about []int
	// found is what FOUND_ROWS() tells, where finds.
	found int64
	finds bool
}

// ask sends the statement to the shards that come next, when it is the turn of shard i.
//
// Rule first copy: the shards of a reference table are asked after the first one has
// answered. Who has locked rows there meets nobody on the others. Counter-example:
// two sessions UPDATE the same row; each is the first on a shard, and waits on another.
func (w *writing) ask(ctx context.Context, i int) {
	if i != w.asked || w.failed != nil || i == len(w.shards) {
		return
	}
	w.asked = len(w.shards)
	if w.r.inTurn || w.copies && i == 0 {
		w.asked = i + 1
	}
	w.failed = w.s.sendTo(ctx, w.r, w.r.bound.Statements[i:w.asked], w.shards[i:w.asked])
}

// answer reads what shard i answers, and joins it with what the others did.
func (w *writing) answer(ctx context.Context, i int) {
	s, x, rows := w.s, w.shards[i], w.r.bound.Statements[i].Rows
	o := s.forwardOptions()
	held := w.several || s.mayBeTaken(w.r)
	o.HoldOK, o.HoldErr = w.hold, held
	dst := s.client
	if w.several {
		dst = nil
	}
	var sum shard.Summary
	var err error
	if w.returned != nil {
		sum, err = w.returned.read(x.conn, rows, s.binary, !w.copies || i == 0)
	} else {
		sum, err = x.conn.Forward(dst, shard.Result, o)
	}
	s.measurePart(x.shard, x.conn)
	skipped := w.several && s.skips(w.r, i, sum.Err)
	if skipped {
		sum = shard.Summary{Status: x.conn.Status, Warnings: 1}
	}
	if err := s.forwarded(x.shard, &sum, err); err != nil {
		w.failed = errors.Join(w.failed, err)
		return
	}
	if sum.Err != nil {
		if w.several && w.failed == nil {
			w.failed = mysqlerr.Error{Code: sum.Err.Code, State: sum.Err.State, Message: fmt.Sprintf("%s (on shard %s; nothing was changed on any)", ofRows(sum.Err.Message, rows), s.catalog().ShardName(x.shard))}
		}
		if held && !w.several {
			w.failed = mysqlerr.Error(*sum.Err)
		}
		w.hold, w.told = w.several, !held // the client has got the error of one alone
		return
	}
	w.joined.Affected += sum.Affected
	if w.ids != nil {
		w.ids[x.shard] = sum.LastInsertID
	}
	switch {
	case w.joined.LastInsertID == 0:
		w.joined.LastInsertID = sum.LastInsertID
	case w.r.plan.Kind == plan.Update && sum.LastInsertID != 0 && sum.LastInsertID != w.joined.LastInsertID:
		w.failed = errors.Join(w.failed, errLastRow)
	}
	if sum.Info == "" && w.several && !w.copies && (w.r.plan.Kind == plan.Insert || w.r.plan.Kind == plan.Replace) {
		sum.Info = infoOfOne(sum, planner.Ignores(w.r.plan))
	}
	if w.hold {
		w.infos = append(w.infos, sum.Info)
	}
	if !w.copies || i == 0 { // every shard warns of its copy of the same rows
		told := len(s.diag.warnings)
		w.joined.Warnings += s.diag.addPart(ctx, x.conn, sum.Warnings, rows, i == 0, skipped)
		w.place(s.diag.warnings[told:], rows)
	}
	// After SHOW WARNINGS: to ask leaves none of these.
	if n, ok := foundIn(ctx, x.conn, w.r.found, &sum); ok && (!w.copies || !w.finds) {
		if w.finds = true; n == noFound || w.found == noFound {
			w.found = noFound
		} else {
			w.found += n
		}
	}
	s.diag.learnID(ctx, x.conn, w.r, sum)
}

// place notes the client's rows that a part's warnings are about; rows are those of the part. A warning that names no row
// (Duplicate entry) is taken to be about the first row that it can be: behind the row of the one before that names none.
func (w *writing) place(warnings [][][]byte, rows []int) {
	next := 0 // of rows
	for _, told := range warnings {
		row := rowOf(told)
		switch at := slices.Index(rows, row-1); {
		case at >= 0:
			next = at
		case row == 0 && next < len(rows):
			row = rows[next] + 1
			next++
		}
		w.about = append(w.about, row)
	}
}

// errLastRow: on one server the id is that of the row which is changed last.
var errLastRow = refuse("an UPDATE with LAST_INSERT_ID(expr) that changes rows of several shards is not supported, since it isn't known which one is the last; nothing was changed. Add ORDER BY and LIMIT, or change the rows one by one")

// settleID finds out what LAST_INSERT_ID() tells after the statement, and what a CALL has
// left in the session's variables.
func (w *writing) settleID(ctx context.Context) {
	s, plan := w.s, w.r.plan
	switch {
	case w.failed != nil || w.told:
	case plan.Returning || plan.Calls:
		if w.failed = s.returnedID(ctx, w.r, w.shards); w.failed != nil && !w.several {
			w.failed = fmt.Errorf("%w: %w", errHalfAnswered, w.failed)
		}
		for _, x := range w.shards {
			if err := s.takeOver(ctx, x.conn, plan.Sets); err != nil {
				w.failed = errors.Join(w.failed, s.shardError(x.shard, err))
			}
		}
	case w.r.bound.Generated != nil:
		w.joined.LastInsertID, w.failed = s.inserted(ctx, w.r, w.shards, w.ids)
	}
}

// infoOfOne is the Info of an INSERT's only row: a server says nothing of one, but
// joined with others it counts.
func infoOfOne(sum shard.Summary, ignores bool) string {
	duplicates := max(sum.Affected, 1) - 1
	if sum.Affected == 0 && ignores {
		duplicates = 1
	}
	return fmt.Sprintf("Records: 1  Duplicates: %d  Warnings: %d", duplicates, sum.Warnings)
}

// skips reports that a row which a shard has refused is to be left out, with a
// warning, as if the shard had got more of the statement's rows: MariaDB's INSERT
// IGNORE looks over a CHECK that fails (each JSON column has one) in a statement
// of several rows only.
func (s *session) skips(r *request, n int, e *shard.ServerError) bool {
	b := r.bound
	part := r.part || len(b.Statements) > 1 && b.Statements[n].Rows != nil
	return e != nil && e.Code == mysqlerr.ConstraintFailed && part && s.mariaDB() && planner.Ignores(r.plan)
}

// choseTime: the session has SET timestamp.
func (s *session) choseTime() bool {
	v, ok := s.settings.value("@@timestamp")
	return ok && !strings.EqualFold(v, "default")
}

// timestamp is the assignment that makes a statement's time this one.
func timestamp(now time.Time) string {
	return fmt.Sprintf("TIMESTAMP = %d.%06d", now.Unix(), now.Nanosecond()/1000)
}

// sameTime gives the transaction's shards the same time for the statements that
// follow, until undo. A session that has SET timestamp has chosen one.
func (s *session) sameTime(ctx context.Context, shards catalog.ShardSet) (undo func(), err error) {
	if s.choseTime() {
		return func() {}, nil
	}
	if err := s.tx.each(ctx, shards, "SET "+timestamp(time.Now()), nil); err != nil {
		return nil, err
	}
	tx := s.tx
	return func() {
		var ids []catalog.ShardID
		for id := range shards.All {
			if conn := tx.conns.at(id); conn != nil && !conn.Broken && !conn.Busy() {
				ids = append(ids, id)
			}
		}
		errs := make([]error, len(ids))
		atOnce(len(ids), func(i int) { _, errs[i] = tx.conns.at(ids[i]).Exec(ctx, "SET TIMESTAMP = DEFAULT") })
		for i, err := range errs {
			if err != nil {
				_ = s.shardError(ids[i], err) // fails the transaction, or the connection is not used again
				tx.conns.at(ids[i]).Broken = true
			}
		}
	}, nil
}
