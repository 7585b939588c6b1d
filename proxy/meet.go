package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// trialSavepoint is what the trial of a row is undone to.
const trialSavepoint = "shunt_trial"

// meetRows executes a REPLACE, INSERT IGNORE or INSERT ... ON DUPLICATE KEY
// UPDATE of rows that may meet one on any shard, row by row:
//
//	SAVEPOINT, plain INSERT, ROLLBACK TO   on all shards: where does it meet a row?
//	the client's statement of this row     there, or where a new row goes
//
// What a trial inserts is undone before any other statement runs, so it needs no
// entries. The server itself says what is a duplicate, whatever the columns'
// types and collations, and keeps the row that was met locked.
func (s *session) meetRows(ctx context.Context, r request) error {
	if err := r.plan.Apart(r.values, false); err != nil {
		return err
	}
	texts := r.plan.Meets.Rows(r.values)
	var ok wire.OK
	before := s.last.insertID
	err := s.within(ctx, func() (err error) {
		ok, err = s.meetEach(ctx, r.plan.Meets, texts, false)
		return err
	})
	if err != nil {
		s.last.insertID = before
		return err
	}
	if len(texts) == 1 {
		ok.Info = "" // a server says nothing of one row
	}
	return s.answerOK(ok)
}

// meetEach executes statements of one row each; copied: they stand for those of
// a query or a file. REQUIRES: within.
func (s *session) meetEach(ctx context.Context, m *planner.Meets, texts []string, copied bool) (wire.OK, error) {
	if err := s.canUndo(ctx, m.Table); err != nil {
		return wire.OK{}, err
	}
	if m.Table.Placement == catalog.Hash {
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
			kept := s.last.warnings[:0]
			for _, w := range s.last.warnings {
				if n > 0 && len(w) > 1 && ofText(string(w[1])) {
					ok.Warnings--
					continue
				}
				w[len(w)-1] = []byte(ofRow(string(w[len(w)-1]), n))
				kept = append(kept, w)
			}
			s.last.warnings = kept
			switch {
			case m.Ignore && ok.Affected == 0:
				duplicates++
			case ok.Affected > 1:
				duplicates += int(ok.Affected) - 1
			}
			return ok, err
		})
		if err != nil {
			if e, ok := errors.AsType[sqlError](err); ok {
				e.msg = ofRow(e.msg, n)
				return wire.OK{}, e
			}
			return wire.OK{}, err
		}
	}
	all.ok.LastInsertID = lastID
	if all.id != 0 {
		s.last.give(all.id)
		all.ok.LastInsertID = all.id
	}
	s.last.warnings = all.warnings
	all.ok.Info = fmt.Sprintf("Records: %d  Duplicates: %d  Warnings: %d", len(texts), duplicates, all.ok.Warnings)
	return all.ok, nil
}

// meetAlone has other sessions wait with such statements for a table until the
// transaction has ended: two rows of the same unique key that both meet none would
// go to different shards, by keys of their own. All of the table's keys are counted
// by this process.
func (s *session) meetAlone(ctx context.Context, t *catalog.Table) error {
	name := planner.TableName{Schema: t.Schema, Name: t.Name}
	if slices.Contains(s.tx.meets, name) {
		return nil
	}
	m := s.proxy.meeting(name)
	select {
	case m.alone <- struct{}{}:
	default:
		if err := s.waitAlone(ctx, m); err != nil {
			return err
		}
	}
	m.by.Store(s.tx)
	s.tx.meets = append(s.tx.meets, name)
	return nil
}

func (s *session) waitAlone(ctx context.Context, m *meeting) error {
	ctx, cancel, done := s.activity.killable(ctx)
	defer done()
	s.proxy.deadlocks.waitsAlone(s.tx, m, cancel)
	defer s.proxy.deadlocks.waitedAlone(s.tx)
	select {
	case m.alone <- struct{}{}:
		return nil
	case <-time.After(meetWait):
		return sqlError{codeLockWait, "HY000", "Lock wait timeout exceeded; try restarting transaction"}
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, errDeadlock) {
			return err
		}
		s.serverFailed(errDeadlock)
		s.tx.victim = errDeadlock
		return sqlError{errDeadlock.Code, errDeadlock.State, errDeadlock.Message}
	}
}

// meetWait is innodb_lock_wait_timeout's default.
const meetWait = 50 * time.Second

// meeting is of a table that sessions want to be alone with.
type meeting struct {
	// alone has an element while one is, until its transaction by ends.
	alone chan struct{}
	by    atomic.Pointer[transaction]
}

func (p *Proxy) meeting(name planner.TableName) *meeting {
	one, _ := p.meetings.LoadOrStore(name, &meeting{alone: make(chan struct{}, 1)})
	return one.(*meeting)
}

func (m *meeting) leave() {
	m.by.Store(nil)
	<-m.alone
}

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
	return s.plannedInsert(ctx, sql, part, func(r request, ids *counted) (wire.OK, error) {
		m := r.plan.Meets
		if m == nil {
			return wire.OK{}, errors.New("the table's placement has changed; try again")
		}
		first, err := s.count(ctx, r, ids)
		if err != nil {
			return wire.OK{}, err
		}
		p, ix := s.proxy.planner, s.proxy.opts.Index
		b, err := p.BindRow(r.plan, ix, first, nil)
		if err != nil {
			return wire.OK{}, err
		}
		met, err := s.tryRow(ctx, m, b.Statements[0].SQL)
		if err != nil {
			return wire.OK{}, err
		}
		if met.Len() > 1 && !m.Ignore {
			return wire.OK{}, refuse("a row of %s that meets rows on several shards by its unique keys is not supported: DELETE these, then INSERT", m.Table.Name)
		}
		if !met.Empty() {
			if b, err = s.bindWhereMet(ctx, r, b, ids, met.First()); err != nil {
				return wire.OK{}, err
			}
		}
		return s.insertBound(ctx, r, b)
	})
}

// bindWhereMet binds a row for the shard where it meets one. b is how it is bound for the shard of a new row.
func (s *session) bindWhereMet(ctx context.Context, r request, b *planner.Bound, ids *counted, at catalog.ShardID) (*planner.Bound, error) {
	p, ix, m := s.proxy.planner, s.proxy.opts.Index, r.plan.Meets
	if !m.Replace || m.Table.Placement != catalog.Hash {
		return p.BindRow(r.plan, ix, ids.first, &at)
	}
	// The row stays where it belongs by its new shard key, if the counter goes on to one of that shard.
	for range 64 * len(s.catalog().Shards) {
		if b.Statements[0].Shard == at {
			return b, nil
		}
		ids.release()
		first, err := s.count(ctx, r, ids)
		if err != nil {
			return nil, err
		}
		if b, err = p.BindRow(r.plan, ix, first, nil); err != nil {
			return nil, err
		}
	}
	return nil, refuse("a row of %s that meets one on shard %s, where no new rows go, is not supported: DELETE that, then INSERT", m.Table.Name, s.catalog().ShardName(at))
}

// tryRow finds the shards where a row meets one.
func (s *session) tryRow(ctx context.Context, m *planner.Meets, sql string) (met catalog.ShardSet, err error) {
	trial, err := planner.Trial(sql, s.settings.planning, s.catalog())
	if err != nil {
		return met, err
	}
	if err := s.tx.join(ctx, m.Table.Shards); err != nil {
		return met, err
	}
	type outcome struct {
		shard catalog.ShardID
		met   bool
		err   error
	}
	outcomes := make([]outcome, 0, m.Table.Shards.Len())
	for id := range m.Table.Shards.All {
		outcomes = append(outcomes, outcome{shard: id})
	}
	lastID := s.last.insertID
	var wg sync.WaitGroup
	for i := range outcomes {
		o := &outcomes[i]
		conn := s.tx.conns[o.shard]
		s.activity.sent(o.shard, conn)
		wg.Go(func() { o.met, o.err = tryOn(ctx, conn, trial, m.Ignore, lastID) })
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

func tryOn(ctx context.Context, conn *shard.Conn, trial string, ignore bool, lastID uint64) (met bool, err error) {
	if containsFold(trial, "last_insert_id") {
		if err := tellID(ctx, conn, lastID); err != nil {
			return false, err
		}
	}
	if _, err := conn.Exec(ctx, "SAVEPOINT "+trialSavepoint); err != nil {
		return false, err
	}
	sum, err := conn.Exec(ctx, trial)
	switch code := serverCode(err); {
	case isDuplicate(code):
		met = true
	case err != nil && !ofTheRow(code):
		return false, err
	case err == nil && ignore && sum.Affected == 0:
		res, err := conn.Query(ctx, "SHOW WARNINGS")
		if err != nil {
			return false, err
		}
		for _, w := range res.Rows {
			for _, code := range []string{"1062", "1586", "1022"} {
				met = met || len(w) > 1 && string(w[1]) == code
			}
		}
	}
	_, err = conn.Exec(ctx, "ROLLBACK TO SAVEPOINT "+trialSavepoint)
	return met, err
}

func isDuplicate(code uint16) bool { return code == codeDuplicate || code == 1586 || code == 1022 }

// ofTheRow reports errors that a row causes by what it holds, before or instead
// of meeting another: the client's statement will fail with it, or not where
// it is a shard's own, such as a foreign key to a row of another shard.
func ofTheRow(code uint16) bool {
	switch code {
	case 1048, 1364, 1366, 1265, 1264, 1406, 1292, 1411, 1690, 1365, 1367, // NULL, no default, bad values
		3140, 3819, 4025, 1452, 1216, 1526, 1644: // JSON, CHECK, foreign key, partition, SIGNAL
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
	var statements []planner.ShardStatement
	for id := range t.Shards.All {
		statements = append(statements, planner.ShardStatement{Shard: id, SQL: fmt.Sprintf(
			"SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", quoteName(t.Schema), quoteName(t.Name))})
	}
	answers, err := s.ask(ctx, statements)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.err != nil {
			return a.err
		}
		if len(a.res.Rows) != 1 || !strings.EqualFold(string(a.res.Rows[0][0]), "InnoDB") {
			return refuse("REPLACE, INSERT IGNORE and ON DUPLICATE KEY UPDATE into %s, whose rows may be on any shard, are not supported: its engine on shard %s is not InnoDB; ALTER TABLE %s ENGINE = InnoDB", t.Name, s.catalog().ShardName(a.shard), t.Name)
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
