package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/deadlock"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// trialSavepoint is what the trial of a row is undone to.
const trialSavepoint = "shunt_trial"

// meetWay is how an INSERT is executed whose rows must be tried first.
var meetWay = &way{
	at:   unbound,
	fits: func(_ *session, r *request) bool { return r.plan.Meets != nil && r.plan.Constants == nil },
	explain: func(_ *session, _ context.Context, r *request) ([][]any, error) {
		return [][]any{explainRow("scatter", "each row is tried on all shards, and goes where it meets one with the same unique key, or where a new row goes", r.sql)}, nil
	},
	execute: (*session).meetRows,
}

// meetRows executes a REPLACE, INSERT IGNORE or INSERT ... ON DUPLICATE KEY
// UPDATE of rows that may meet one on any shard, row by row:
//
//	SAVEPOINT, plain INSERT, ROLLBACK TO   on all shards: where does it meet a row?
//	the client's statement of this row     there, or where a new row goes
//	the trial once more                    on the others, behind a row that is new
//
// Rule look behind: what a trial has not met may be there when the row is written, by another session
// that has not met this one. Either finds the other's row then, and waits for it; who does undoes its own,
// and begins again. Who is alone with the table (meetAlone) need not. Of several Shunts nobody is.
//
// What a trial inserts is undone before any other statement runs, so it needs no
// entries. The server itself says what is a duplicate, whatever the columns'
// types and collations, and keeps the row that was met locked.
func (s *session) meetRows(ctx context.Context, r *request) error {
	if err := planner.Apart(r.plan, r.values, false); err != nil {
		return err
	}
	texts := r.plan.Meets.Rows(r.values)
	var ok wire.OK
	before := s.diag.insertID
	meet := func() error {
		return s.within(ctx, func() (err error) {
			ok, err = s.meetEach(ctx, r.plan.Meets, texts, false)
			return err
		})
	}
	alone := s.tx == nil && s.settings.autocommit
	err := meet()
	for n := 1; alone && n < meetTries && err != nil && coded(err).Code == mysqlerr.LockDeadlock && !s.activity.killed(); n++ {
		s.diag.untold()
		s.diag.setID(before)
		err = meet()
	}
	if err != nil {
		s.diag.setID(before)
		return err
	}
	if len(texts) == 1 {
		ok.Info = "" // a server says nothing of one row
	}
	return s.answerOK(ok)
}

// meetTries bounds how often a statement that ends in a deadlock is executed.
const meetTries = 4

// meetEach executes statements of one row each; copied: they stand for those of
// a query or a file. REQUIRES: within.
func (s *session) meetEach(ctx context.Context, m *plan.Meets, texts []string, copied bool) (wire.OK, error) {
	if err := s.canUndo(ctx, m.Table); err != nil {
		return wire.OK{}, err
	}
	if m.Table.Placement == catalog.Hash && !s.proxy.opts.Several {
		if err := s.meetAlone(ctx, m.Table); err != nil {
			return wire.OK{}, err
		}
	}
	var all insertedRows
	duplicates := 0
	var lastID uint64 // of a row that was changed or given its value
	for n, sql := range texts {
		err := all.add(ctx, s, func(ctx context.Context) (wire.OK, error) {
			ok, err := s.meetRow(ctx, sql, copied || len(texts) > 1)
			if ok.LastInsertID != 0 {
				lastID = ok.LastInsertID
			}
			ok.Warnings -= s.diag.ofRow(n)
			switch {
			case m.Ignore && ok.Affected == 0:
				duplicates++
			case ok.Affected > 1:
				duplicates += int(ok.Affected) - 1
			}
			return ok, err
		})
		if err != nil {
			if e, ok := errors.AsType[mysqlerr.Error](err); ok {
				e.Message = ofRow(e.Message, n)
				return wire.OK{}, e
			}
			return wire.OK{}, err
		}
	}
	all.ok.LastInsertID = lastID
	if all.id != 0 {
		s.diag.give(all.id)
		all.ok.LastInsertID = all.id
	}
	s.diag.replace(all.warnings...)
	all.ok.Info = fmt.Sprintf("Records: %d  Duplicates: %d  Warnings: %d", len(texts), duplicates, all.ok.Warnings)
	return all.ok, nil
}

// meetAlone has other sessions wait with such statements for a table until the
// transaction has ended: two rows of the same unique key that both meet none would
// go to different shards, by keys of their own. All of the table's keys are counted
// by this process.
func (s *session) meetAlone(ctx context.Context, t *catalog.Table) error {
	what := claimed{table: catalog.TableName{Schema: t.Schema, Name: t.Name}}
	if s.tx.claims[what] {
		return nil
	}
	wait := s.claim(what)
	if wait == nil {
		return nil
	}
	err := s.await(ctx, wait, meetWait, meetWait)
	if errors.Is(err, errClaimed) {
		s.proxy.claims.asked(wait, false) // nobody is asked
		return mysqlerr.New(mysqlerr.LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction")
	}
	return err
}

// meetWait is innodb_lock_wait_timeout's default.
const meetWait = 50 * time.Second

// ofRow makes a message about the first row one about the n-th, from 0.
func ofRow(msg string, n int) string {
	const first = " at row 1"
	i := strings.LastIndex(msg, first)
	if i < 0 {
		return msg
	}
	rest := msg[i+len(first):]
	if rest != "" && !strings.HasPrefix(rest, " (on shard") {
		return msg
	}
	return fmt.Sprintf("%s at row %d%s", msg[:i], n+1, rest)
}

// meetRow executes a statement of one row; part: the client's has more.
func (s *session) meetRow(ctx context.Context, sql string, part bool) (wire.OK, error) {
	return s.plannedInsert(ctx, sql, part, func(r *request) (wire.OK, error) {
		m := r.plan.Meets
		if m == nil {
			return wire.OK{}, errors.New("the table's placement has changed; try again")
		}
		first, err := s.count(ctx, r)
		if err != nil {
			return wire.OK{}, err
		}
		p, ix := s.proxy.planner, s.lookupsOf(ctx, s.proxy.opts.Index)
		if r.bound, err = p.BindRow(r.plan, ix, first, nil); err != nil {
			return wire.OK{}, err
		}
		trial, err := planner.Trial(r.bound.Statements[0].SQL, s.settings.planning, s.catalog())
		if err != nil {
			return wire.OK{}, err
		}
		id, given := s.diag.insertID, s.diag.given
		for {
			met, err := s.tryRow(ctx, m, trial, m.Table.Shards)
			if err != nil {
				return wire.OK{}, err
			}
			if met.Len() > 1 && !m.Ignore {
				return wire.OK{}, refuse("a row of %s that meets rows on several shards by its unique keys is not supported: DELETE these, then INSERT", m.Table.Name)
			}
			if !met.Empty() {
				if err := s.bindWhereMet(ctx, r, met.First()); err != nil {
					return wire.OK{}, err
				}
			}
			ok, err := s.insertBound(ctx, r)
			if err != nil || ok.Affected == 0 || !planner.LooksBehind(m, met, s.proxy.opts.Several) {
				return ok, err
			}
			if met, err = s.tryRow(ctx, m, trial, m.Table.Shards.Minus(route(r.bound))); err != nil || met.Empty() {
				return ok, err
			}
			if err := s.tx.each(ctx, route(r.bound), "ROLLBACK TO SAVEPOINT "+trialSavepoint, nil); err != nil {
				return wire.OK{}, s.tx.torn(err)
			}
			s.diag.insertID, s.diag.given = id, given // of a row that is gone
		}
	})
}

// bindWhereMet binds a row for the shard where it meets one. REQUIRES: it is bound for the shard of a new row.
func (s *session) bindWhereMet(ctx context.Context, r *request, at catalog.ShardID) (err error) {
	p, ix, m := s.proxy.planner, s.lookupsOf(ctx, s.proxy.opts.Index), r.plan.Meets
	if !m.Replace || m.Table.Placement != catalog.Hash {
		r.bound, err = p.BindRow(r.plan, ix, r.ids.first, &at)
		return err
	}
	// The row stays where it belongs by its new shard key, if the counter goes on to one of that shard.
	for range 64 * len(s.catalog().Shards) {
		if r.bound.Statements[0].Shard == at {
			return nil
		}
		r.ids.release()
		first, err := s.count(ctx, r)
		if err != nil {
			return err
		}
		if r.bound, err = p.BindRow(r.plan, ix, first, nil); err != nil {
			return err
		}
	}
	return refuse("a row of %s that meets one on shard %s, where no new rows go, is not supported: DELETE that, then INSERT", m.Table.Name, s.catalog().ShardName(at))
}

// tryRow finds the shards, of some, where a row meets one.
func (s *session) tryRow(ctx context.Context, m *plan.Meets, trial string, shards catalog.ShardSet) (met catalog.ShardSet, err error) {
	if err := s.tx.join(ctx, shards); err != nil {
		return met, err
	}
	lastID := s.diag.insertID
	return s.onEach(shards, func(_ catalog.ShardID, conn *shard.Conn) (bool, error) {
		met, _, err := tryOn(ctx, conn, trial, m.Ignore, lastID)
		return met, err
	})
}

// crossPatience is how long trials wait for a lock at least, and at most twice as long more, while others may wait for what their
// transaction has written.
const crossPatience = time.Second

// givesWay ends the trials under way in time where they may be in a deadlock that nobody sees, until done: of transactions of
// several Shunts, of which each knows its own. Who is the first to give way has the others go on, and begins again.
func (s *session) givesWay() (done func()) {
	tx := s.tx
	if !s.proxy.opts.Several || !tx.writes {
		return func() {}
	}
	since := tx.Waiting().Since
	timer := time.AfterFunc(crossPatience+rand.N(2*crossPatience), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		tx.End(ctx, since, func(deadlock.Thread) bool { return true })
	})
	return func() { timer.Stop() }
}

// onEach asks shards at once over the transaction's connections, and returns those that met
// something. REQUIRES: the transaction has joined them.
func (s *session) onEach(shards catalog.ShardSet, ask func(catalog.ShardID, *shard.Conn) (met bool, err error)) (met catalog.ShardSet, err error) {
	type outcome struct {
		shard catalog.ShardID
		met   bool
		err   error
	}
	outcomes := make([]outcome, 0, shards.Len())
	for id := range shards.All {
		outcomes = append(outcomes, outcome{shard: id})
	}
	s.activity.settled() // what ran before has been answered, and isn't to be ended
	defer s.givesWay()()
	var wg sync.WaitGroup
	for i := range outcomes {
		o := &outcomes[i]
		conn := s.tx.conns.at(o.shard)
		s.activity.sent(o.shard, conn)
		wg.Go(func() { o.met, o.err = ask(o.shard, conn) })
	}
	wg.Wait()
	s.activity.settled()
	for _, o := range outcomes {
		switch {
		case o.err != nil:
			err = errors.Join(err, s.shardError(o.shard, o.err))
		case o.met:
			met.Add(o.shard)
		}
	}
	return met, err
}

// tryOn reports whether a shard has a row that a plain INSERT meets, by the server's word, and what
// the server refuses the INSERT with.
func tryOn(ctx context.Context, conn *shard.Conn, trial string, ignore bool, lastID uint64) (met bool, refused, err error) {
	if spoken.NamesInsertID(trial) {
		if err := tellID(ctx, conn, lastID); err != nil {
			return false, nil, err
		}
	}
	if _, err := conn.Exec(ctx, "SAVEPOINT "+trialSavepoint); err != nil {
		return false, nil, err
	}
	sum, refused := conn.Exec(ctx, trial)
	switch code := shard.Code(refused); {
	case isDuplicate(code):
		met = true
	case refused != nil && !ofTheRow(code):
		return false, nil, refused
	case refused == nil && ignore && sum.Affected == 0:
		res, err := conn.Query(ctx, "SHOW WARNINGS")
		if err != nil {
			return false, nil, err
		}
		for _, w := range res.Rows {
			met = met || isDuplicate(codeOf(w))
		}
	}
	_, err = conn.Exec(ctx, "ROLLBACK TO SAVEPOINT "+trialSavepoint)
	return met, refused, err
}

func isDuplicate(code uint16) bool {
	return code == mysqlerr.DupEntry || code == mysqlerr.DupEntryWithKeyName || code == mysqlerr.DupKey
}

// ofTheRow reports errors that a row causes by what it holds, before or instead
// of meeting another: the client's statement will fail with it, or not where
// it is a shard's own, such as a foreign key to a row of another shard.
func ofTheRow(code uint16) bool {
	switch code {
	case mysqlerr.BadNull, mysqlerr.NoDefaultForField, mysqlerr.TruncatedWrongValueForField, mysqlerr.WarnDataTruncated, mysqlerr.WarnDataOutOfRange, mysqlerr.DataTooLong, mysqlerr.TruncatedWrongValue, mysqlerr.WrongValueForType, mysqlerr.DataOutOfRange, mysqlerr.DivisionByZero, mysqlerr.IllegalValueForType, // NULL, no default, bad values
		mysqlerr.InvalidJSONText, mysqlerr.CheckConstraintViolated, mysqlerr.ConstraintFailed, mysqlerr.NoReferencedRow2, mysqlerr.NoReferencedRow, mysqlerr.NoPartitionForGivenValue, mysqlerr.SignalException: // JSON, CHECK, foreign key, partition, SIGNAL
		return true
	}
	return false
}

// canUndo refuses tables from which a trial can't be taken back.
func (s *session) canUndo(ctx context.Context, t *catalog.Table) error {
	key := fmt.Sprintf("%s.%s@%d", t.Schema, t.Name, s.catalog().Version)
	if _, ok := s.proxy.undoable.Load(key); ok {
		return nil
	}
	var statements []plan.ShardStatement
	for id := range t.Shards.All {
		statements = append(statements, plan.ShardStatement{Shard: id, SQL: fmt.Sprintf(
			"SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", quoteName(t.Schema), quoteName(t.Name))})
	}
	told := s.diag.warnings // of the write, which has been done
	answers, err := s.ask(ctx, statements)
	s.diag.replace(told...)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.err != nil {
			return a.err
		}
		if len(a.res.Rows) != 1 || !strings.EqualFold(string(a.res.Rows[0][0]), "InnoDB") {
			return refuse("INSERT and REPLACE into %s, whose rows may be on any shard, are not supported, since the rows of a unique key can't be looked for: its engine on shard %s is not InnoDB; ALTER TABLE %s ENGINE = InnoDB (or configure check_unique: false for plain INSERTs)", t.Name, s.catalog().ShardName(a.shard), t.Name)
		}
	}
	s.proxy.undoable.Store(key, true)
	return nil
}

// quoteName writes a name that information_schema is asked for, so that it means the same in
// every SQL mode and no other one is equal: `users` and `Users` may be two tables. Servers then
// look it up, where they would read all names to compare them by another collation.
func quoteName(s string) string {
	return fmt.Sprintf("CONVERT(X'%X' USING utf8mb3) COLLATE utf8mb3_bin", s)
}
