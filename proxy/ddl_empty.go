package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// Some DDL is for tables without rows alone: what would move rows between shards. That a table has
// none, and gets none before all shards have done it and the new catalog is out, is seen to by the
// global read lock's first gate, which keeps statements out that write. So whoever comes meanwhile
// is planned with the table as it is then.
//
// Others' writes wait for as long as the gate is closed: it is for emptyPatience at most that
// statements under way, and transactions that have the table, are waited for. Then it is open for
// as long, and all begins anew (turnOfDDL).

const emptyPatience = time.Second

// ErrBusy: somebody has the table, or writes somewhere.
var ErrBusy = errors.New("in use")

// KeepWritesOut waits for statements under way that write, and keeps others out until letIn is called.
func (p *Proxy) KeepWritesOut(ctx context.Context) (letIn func(), err error) {
	closing, cancel := context.WithTimeoutCause(ctx, emptyPatience, ErrBusy)
	defer cancel()
	g := &p.readLock.statements
	if err := g.close(closing); err != nil {
		return nil, err
	}
	return g.open, nil
}

// emptyTable looks whether d's table has no rows, where d needs that, and has it stay so until
// release. ErrBusy: to be asked again.
func (s *session) emptyTable(ctx context.Context, d *plan.DDL) (release func(), err error) {
	alike, err := s.hasCollation(ctx, d)
	if d.Filled == nil || alike || err != nil {
		return func() {}, err
	}
	if s.writes != 1 || s.tableLocks != nil || s.proxy.opts.Several {
		return nil, d.Filled
	}
	return s.emptyNow(ctx, d)
}

// emptyNow is emptyTable of DDL that needs it.
//
// It gives up its own place in the gate, which it closes. FLUSH TABLES WITH READ LOCK of another
// session may close that too then, but not the second gate, in which this one stays: so it has the
// lock when this has ended.
func (s *session) emptyNow(ctx context.Context, d *plan.DDL) (release func(), err error) {
	l := &s.proxy.readLock
	if err := l.commits.enter(ctx, false); err != nil {
		return nil, err
	}
	l.statements.leave()
	reenter := func() {
		l.statements.inside.Add(1)
		l.commits.leave()
	}
	letIn, err := s.proxy.KeepWritesOut(ctx)
	if err != nil {
		reenter()
		return nil, err
	}
	release = func() {
		reenter()
		letIn()
	}
	if err := s.hasNoRows(ctx, d); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// hasNoRows has each shard lock the table for a moment: the lock is given when no transaction has
// the table any more, whose rows nobody else would see yet.
func (s *session) hasNoRows(ctx context.Context, d *plan.DDL) error {
	name := catalog.QuoteName(d.Tables[0].Schema) + "." + catalog.QuoteName(d.Tables[0].Name)
	for id := range d.Shards.All {
		err := s.onShardAsItIs(ctx, id, func(conn *shard.Conn) error {
			conn.State, conn.Unclean = "?", true // it is reset before it is used again
			for _, sql := range []string{"SET SESSION lock_wait_timeout = 1", "LOCK TABLES " + name + " WRITE"} {
				if _, err := conn.Exec(ctx, sql); shard.Code(err) == mysqlerr.LockWaitTimeout {
					return ErrBusy
				} else if err != nil {
					return s.notJoined(id, err)
				}
			}
			res, err := conn.Query(ctx, "SELECT 1 FROM "+name+" LIMIT 1")
			if _, failed := conn.Exec(ctx, "UNLOCK TABLES"); err == nil {
				err = failed
			}
			switch {
			case err != nil:
				return s.notJoined(id, err)
			case len(res.Rows) > 0:
				return d.Filled
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasCollation reports that the default collation of d's table is d.Collation, on all shards.
func (s *session) hasCollation(ctx context.Context, d *plan.DDL) (has bool, err error) {
	if d.Collation == "" {
		return false, nil
	}
	name := d.Tables[0]
	query := "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = " + textOf([]byte(name.Schema), "utf8mb4", "") + " AND TABLE_NAME = " + textOf([]byte(name.Name), "utf8mb4", "") +
		" AND TABLE_COLLATION = '" + d.Collation + "'"
	has = true
	for id := range d.Shards.All {
		err := s.onShardAsItIs(ctx, id, func(conn *shard.Conn) error {
			res, err := conn.Query(ctx, query)
			if err != nil {
				return s.notJoined(id, err)
			}
			has = has && len(res.Rows) == 1
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return has, nil
}
