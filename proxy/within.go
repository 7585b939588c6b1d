package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// withinSavepoint makes several statements of ours one of the client's.
const withinSavepoint = "shunt_within"

// within runs statements of ours so that all of them happen or none: as a
// transaction of their own, or behind a savepoint in the session's.
func (s *session) within(ctx context.Context, do func() error) error {
	if err := s.mayGoOn(); err != nil {
		return err
	}
	implicit := s.tx == nil && s.settings.autocommit
	s.transact()
	tx := s.tx
	p := plan.Session{Op: plan.Savepoint, Name: withinSavepoint}
	if !implicit {
		if err := s.savepoint(ctx, &p); err != nil {
			return err
		}
	}
	err := do()
	if err == nil && s.activity.killed() {
		err = errInterrupted
	}
	s.activity.settled()
	switch {
	case implicit && err != nil:
		_ = s.rollback(ctx) // the error is told anyway
	case implicit:
		err = s.commit(ctx)
	case tx.victim != nil:
		s.endVictim(ctx, err)
	case tx.failed == nil:
		if err != nil {
			p.Op = plan.RollbackTo
			err = errors.Join(err, s.savepoint(ctx, &p))
		}
		p.Op = plan.ReleaseSavepoint
		err = errors.Join(err, s.savepoint(ctx, &p))
	}
	if err != nil {
		return flatten(err)
	}
	return nil
}

// insertedRows is what statements of ours that insert have done together.
type insertedRows struct {
	ok       wire.OK
	infos    []string
	warnings [][][]byte
	id       uint64 // what LAST_INSERT_ID() is afterwards; 0 as before
	// lastID: it is what the last row has made it by LAST_INSERT_ID(expr), else what the
	// first has.
	lastID bool
}

// add executes one more.
func (a *insertedRows) add(ctx context.Context, s *session, insert func(context.Context) (wire.OK, error)) error {
	if s.activity.killed() {
		return errInterrupted
	}
	var ok wire.OK
	id, given, err := s.diag.givenIn(func() (err error) {
		ok, err = insert(ctx)
		return err
	})
	if given && (a.id == 0 || a.lastID) {
		a.id = id
	}
	if err != nil {
		return err
	}
	a.ok.Affected += ok.Affected
	a.ok.Warnings += ok.Warnings
	if ok.LastInsertID != 0 && (a.ok.LastInsertID == 0 || a.lastID) {
		a.ok.LastInsertID = ok.LastInsertID
	}
	a.infos = append(a.infos, ok.Info)
	a.warnings = append(a.warnings, s.diag.warnings...)
	a.warnings = a.warnings[:min(len(a.warnings), maxWarnings)]
	return nil
}

// addRows executes statements that have rows between head and tail, until none is left.
func (a *insertedRows) addRows(ctx context.Context, s *session, rows *collected, head, tail string) error {
	most := loadRows
	if a.lastID {
		most = 1 // those of several shards have no order
	}
	for rows.left > 0 {
		text, err := rows.appendRows([]byte(head), most)
		if err != nil {
			return err
		}
		if err := a.add(ctx, s, func(ctx context.Context) (wire.OK, error) { return s.insertRows(ctx, string(text)+tail) }); err != nil {
			return err
		}
	}
	return nil
}

// insertRows executes an INSERT or REPLACE of our own, and answers nothing.
// REQUIRES: within.
func (s *session) insertRows(ctx context.Context, sql string) (wire.OK, error) {
	return s.plannedInsert(ctx, sql, true, func(r *request) (wire.OK, error) {
		if err := planner.Apart(r.plan, nil, true); err != nil {
			return wire.OK{}, err
		}
		if m := r.plan.Meets; m != nil && r.plan.Constants == nil {
			return s.meetEach(ctx, m, m.Rows(nil), true)
		}
		err := s.bind(ctx, r)
		if why := r.refusal(err); r.plan.Constants != nil && why != nil {
			_, filled, err := s.filled(ctx, r, why)
			if err != nil {
				return wire.OK{}, err
			}
			return s.insertRows(ctx, filled)
		}
		if err != nil {
			return wire.OK{}, err
		}
		return s.insertBound(ctx, r)
	})
}

// plannedInsert executes an INSERT or REPLACE of our own, until the catalog did
// not change meanwhile.
func (s *session) plannedInsert(ctx context.Context, sql string, part bool, execute func(*request) (wire.OK, error)) (done wire.OK, err error) {
	r := &request{sql: sql, part: part, start: time.Now()}
	defer r.ids.release()
	err = untilPlanned(func() error {
		planned, err := s.plan(ctx, sql)
		if err != nil {
			return err
		}
		rows, ok := planned.(*plan.Rows)
		if !ok {
			return fmt.Errorf("insert rows: plan is %T", planned)
		}
		r.plan = rows
		done, err = execute(r)
		return err
	})
	return done, err
}

// insertBound is insertRows for what is bound; errStale asks to plan again.
func (s *session) insertBound(ctx context.Context, r *request) (wire.OK, error) {
	b := r.bound
	if b.Refuse != nil {
		return wire.OK{}, b.Refuse
	}
	if err := s.tx.join(ctx, route(b)); err != nil {
		return wire.OK{}, err
	}
	if err := s.mayWrite(ctx, s.tx.open, r, route(b)); err != nil {
		return wire.OK{}, err
	}
	if err := s.tx.prepare(ctx, r, route(b)); err != nil {
		return wire.OK{}, err
	}
	s.tx.wrote(b)
	s.diag.sending()
	r.givesID = mayGiveID(r)
	done, err := s.writeAll(ctx, r, true, true, nil)
	s.unsure(r)
	if err == nil && b.Unique != nil {
		err = s.onlyOnce(ctx, b.Unique, done.Affected)
	}
	if err != nil {
		return wire.OK{}, err
	}
	return *done, nil
}
