package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// write sends a write, within the session's transaction if there is one, which is the
// statement's own when implicit is true.
func (s *session) write(ctx context.Context, r request, b *planner.Bound, implicit bool) error {
	switch {
	case b.Gather != nil:
		return s.gatherWrite(ctx, r, b, implicit)
	case s.tx == nil:
		return s.writeOne(ctx, r, b)
	}
	err := s.writeInTransaction(ctx, r, b, implicit)
	if errors.Is(err, errAgain) {
		r.again, s.tx = true, s.newTransaction()
		s.failed, s.last.failed = false, 0 // the client has not been told
		err = s.writeInTransaction(ctx, r, b, implicit)
	}
	return err
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
		o.HoldOK = holdsID(r, b) || r.plan.Calls || r.plan.Redefines
		o.HoldErr = r.plan.Calls
		sum, err = conn.Forward(s.client, shard.Result, o)
		err = s.forwarded(st.Shard, sum, err)
		if r.plan.Calls && err == nil && sum.Err != nil {
			err = s.answerFailedCall(ctx, conn, *sum.Err, o.Tell)
		}
		if r.plan.Redefines && !conn.Broken && !conn.Busy() {
			failed := s.redefined(ctx, st.Shard)
			if answered := sum.ResultSet && !r.plan.Calls; err == nil && sum.Err == nil && !answered {
				err = failed
			}
		}
		if err == nil && sum.Err == nil {
			told := sum
			told.LastInsertID = 0 // learnID or answerInserted settles it
			s.remember(ctx, conn, told)
			s.findIn(ctx, conn, r, sum)
			s.learnID(ctx, conn, r, b, sum)
			if r.plan.Calls {
				err = s.answerCall(ctx, r, st.Shard, conn, sum)
			} else if r.plan.Redefines && !sum.ResultSet {
				err = s.answerOK(wire.OK{Affected: sum.Affected, Warnings: sum.Warnings, Info: sum.Info})
			} else if !sum.ResultSet {
				err = s.answerInserted(ctx, r, b, conn, sum)
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

// writeInTransaction sends a write within the session's transaction, which is
// the statement's own when implicit is true. A statement that fails on one
// shard is undone on the others, as one server would undo it.
func (s *session) writeInTransaction(ctx context.Context, r request, b *planner.Bound, implicit bool) error {
	tx := s.tx
	if err := tx.join(ctx, route(b)); err != nil {
		if implicit {
			_ = s.rollback(ctx)
		}
		return err
	}
	if err := s.mayWrite(tx.open, r, b, route(b)); err != nil {
		if implicit {
			_ = s.rollback(ctx)
		}
		return err
	}
	tx.wrote(b)
	several := len(b.Statements) > 1 || b.Gather != nil
	if several && !implicit {
		if err := tx.each(ctx, route(b), "SAVEPOINT "+statementSavepoint); err != nil {
			return err
		}
	}
	var returned *returnedRows
	if (several || implicit) && r.plan.Returning {
		returned = &returnedRows{}
	}
	r.inTurn = r.inTurn || several && s.proxy.deadlocks.feared(r.plan.Tables)
	ok, err := s.writeAll(ctx, r, b, several, implicit, returned)
	s.activity.settled()
	circle := several && tx.victim == errDeadlock
	if circle {
		s.proxy.deadlocks.fear(r.plan.Tables)
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
	} else if several && err != nil && tx.failed == nil && tx.victim == nil {
		if err := tx.each(ctx, route(b), "ROLLBACK TO SAVEPOINT "+statementSavepoint); err != nil {
			return tx.torn(err)
		}
	}
	if err != nil || ok == nil {
		return err
	}
	if returned != nil {
		return s.answerReturned(returned, r.plan.Kind != planner.Delete, ok.Warnings)
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
func (s *session) writeAll(ctx context.Context, r request, b *planner.Bound, several, hold bool, returned *returnedRows) (*wire.OK, error) {
	if b.SameTime && several {
		undo, err := s.sameTime(ctx, route(b))
		if err != nil {
			return nil, err
		}
		defer undo()
	}
	w := writing{
		s: s, r: r, b: b, several: several, copies: b.Access == "reference", returned: returned,
		hold: several || hold || holdsID(r, b) || r.plan.Calls, ids: map[catalog.ShardID]uint64{},
	}
	w.shards, w.failed = s.borrowAll(ctx, b)
	w.ask(ctx, 0)
	s.last.warnings = nil
	for i, x := range w.shards {
		w.ask(ctx, i)
		if x.conn.Busy() { // else it was not sent to
			w.answer(ctx, i)
		}
	}
	w.failed = errors.Join(w.failed, returned.whole())
	if byRow(s.last.warnings); w.finds && w.failed == nil {
		s.counts.found = w.found
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
	r request
	b *planner.Bound
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
	ids        map[catalog.ShardID]uint64 // LAST_INSERT_ID() on each shard
	infos      []string
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
	w.failed = w.s.sendTo(ctx, w.r, w.b.Statements[i:w.asked], w.shards[i:w.asked])
}

// answer reads what shard i answers, and joins it with what the others did.
func (w *writing) answer(ctx context.Context, i int) {
	s, x, rows := w.s, w.shards[i], w.b.Statements[i].Rows
	o := s.forwardOptions()
	o.HoldOK, o.HoldErr = w.hold, w.several
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
	skipped := w.several && s.skips(w.r, w.b, i, sum.Err)
	if skipped {
		sum = shard.Summary{Status: x.conn.Status, Warnings: 1}
	}
	if err := s.forwarded(x.shard, sum, err); err != nil {
		w.failed = errors.Join(w.failed, err)
		return
	}
	if sum.Err != nil {
		if w.several && w.failed == nil {
			w.failed = sqlError{sum.Err.Code, sum.Err.State, fmt.Sprintf("%s (on shard %s; nothing was changed on any)", ofRows(sum.Err.Message, rows), s.catalog().ShardName(x.shard))}
		}
		w.hold, w.told = w.several, !w.several // the client has got the error of one alone
		return
	}
	w.joined.Affected += sum.Affected
	switch w.ids[x.shard] = sum.LastInsertID; {
	case w.joined.LastInsertID == 0:
		w.joined.LastInsertID = sum.LastInsertID
	case w.r.plan.Kind == planner.Update && sum.LastInsertID != 0 && sum.LastInsertID != w.joined.LastInsertID:
		w.failed = errors.Join(w.failed, errLastRow)
	}
	if sum.Info == "" && w.several && !w.copies && (w.r.plan.Kind == planner.Insert || w.r.plan.Kind == planner.Replace) {
		sum.Info = infoOfOne(sum, w.r.plan.Ignores())
	}
	w.infos = append(w.infos, sum.Info)
	if !w.copies || i == 0 { // every shard warns of its copy of the same rows
		w.joined.Warnings += s.addPartWarnings(ctx, x.conn, sum.Warnings, rows, i == 0, skipped)
	}
	// After SHOW WARNINGS: to ask leaves none of these.
	if n, ok := foundIn(ctx, x.conn, w.r.found, sum); ok && (!w.copies || !w.finds) {
		if w.finds = true; n == noFound || w.found == noFound {
			w.found = noFound
		} else {
			w.found += n
		}
	}
	s.learnID(ctx, x.conn, w.r, w.b, sum)
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
		if w.failed = s.returnedID(ctx, w.r, w.b, w.shards); w.failed != nil && !w.several {
			w.failed = fmt.Errorf("%w: %w", errHalfAnswered, w.failed)
		}
		for _, x := range w.shards {
			if err := s.takeOver(ctx, x.conn, plan.Sets); err != nil {
				w.failed = errors.Join(w.failed, s.shardError(x.shard, err))
			}
		}
	case w.b.Generated != nil:
		w.joined.LastInsertID, w.failed = s.inserted(ctx, w.r, w.b, w.shards, w.ids)
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
func (s *session) skips(r request, b *planner.Bound, n int, e *shard.ServerError) bool {
	part := r.part || len(b.Statements) > 1 && b.Statements[n].Rows != nil
	return e != nil && e.Code == 4025 && part && s.mariaDB() && r.plan.Ignores()
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
	if err := s.tx.each(ctx, shards, "SET "+timestamp(time.Now())); err != nil {
		return nil, err
	}
	tx := s.tx
	return func() {
		var ids []catalog.ShardID
		for id := range shards.All {
			if conn := tx.conns[id]; conn != nil && !conn.Broken && !conn.Busy() {
				ids = append(ids, id)
			}
		}
		errs := make([]error, len(ids))
		atOnce(len(ids), func(i int) { _, errs[i] = tx.conns[ids[i]].Exec(ctx, "SET TIMESTAMP = DEFAULT") })
		for i, err := range errs {
			if err != nil {
				_ = s.shardError(ids[i], err) // fails the transaction, or the connection is not used again
				tx.conns[ids[i]].Broken = true
			}
		}
	}, nil
}
