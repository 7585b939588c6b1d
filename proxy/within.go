package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// withinSavepoint makes several statements of ours one of the client's.
const withinSavepoint = "shunt_within"

// within runs statements of ours so that all of them happen or none: as a
// transaction of their own, or behind a savepoint in the session's.
func (s *session) within(ctx context.Context, do func() error) error {
	if s.tx != nil && s.tx.failed != nil {
		return aborted(s.tx.failed)
	}
	implicit := s.tx == nil && s.settings.autocommit
	if s.tx == nil {
		s.tx = s.newTransaction("BEGIN")
	}
	tx := s.tx
	p := planner.Session{Op: planner.Savepoint, Name: withinSavepoint}
	if !implicit {
		if err := s.savepoint(ctx, &p); err != nil {
			return err
		}
	}
	err := do()
	switch {
	case implicit && err != nil:
		_ = s.rollback(ctx) // the error is told anyway
	case implicit:
		err = s.commit(ctx)
	case tx.victim:
		_ = s.rollback(ctx) // as a server did
	case tx.failed == nil:
		if err != nil {
			p.Op = planner.RollbackTo
			err = errors.Join(err, s.savepoint(ctx, &p))
		}
		p.Op = planner.ReleaseSavepoint
		err = errors.Join(err, s.savepoint(ctx, &p))
	}
	if err != nil {
		return flatten(err)
	}
	return nil
}

// insertRows executes an INSERT or REPLACE of our own, and answers nothing.
// REQUIRES: within.
func (s *session) insertRows(ctx context.Context, sql string) (wire.OK, error) {
	var ids counted
	defer ids.release()
	for range 10 {
		plan, err := s.plan(ctx, sql)
		if err != nil {
			return wire.OK{}, err
		}
		rows, ok := plan.(*planner.Rows)
		if !ok {
			return wire.OK{}, fmt.Errorf("insert rows: plan is %T", plan)
		}
		r := request{sql: sql, plan: rows}
		b, err := s.bind(ctx, r, &ids)
		if err != nil {
			return wire.OK{}, err
		}
		if b.Refuse != nil {
			return wire.OK{}, b.Refuse
		}
		if err := s.tx.join(ctx, route(b)); err != nil {
			return wire.OK{}, err
		}
		err = s.mayWrite(s.tx.open, r, b, route(b))
		if errors.Is(err, errStale) {
			continue
		}
		if err != nil {
			return wire.OK{}, err
		}
		s.tx.wrote(b)
		s.last.failed = 0
		done, err := s.writeAll(ctx, r, b, true)
		s.unsure(r, b)
		if err != nil {
			return wire.OK{}, err
		}
		return *done, nil
	}
	return wire.OK{}, errors.New("the schema keeps changing while rows are inserted; try again")
}
