package proxy

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/schema"
)

// DDL has two turns.
//
// The turn of all (Cluster.TakeTurn) is one's at a time: in it a statement is planned, indexes are taken out of use, and
// catalogs follow each other. Statements that apart leaves out are sent in it, too.
//
// The turn of tables (ddlTurns) is a statement's from its planning until its catalog is out. While shards do a
// statement, which may wait there for transactions and table locks of others, it has this turn alone. So one open
// transaction holds up the DDL of its table, and no other.
//
//	A: BEGIN; SELECT * FROM users
//	B: ALTER TABLE users ...        waits for A on the shards, with the turn of users
//	C: ALTER TABLE users ...        waits for B
//	D: CREATE TABLE orders ...      is done
//
// Rule own locks: who has LOCK TABLES on a table has its turn by that: the shards let nobody else at it. Counter-example:
// A has LOCK TABLES users WRITE, and B waits for it there with ALTER TABLE users. A's DROP TABLE users, as schema change
// tools send it, would wait for B.
//
// Rule planned alone: a statement is planned when the turn of its tables is its own. Counter-example: C, planned before B
// has ended, drops a column that B has renamed.
//
// Of several Shunts each keeps the turn of all to the end: the others know no turns of tables.

// ddlTurns are the statements that have the turn of their tables.
type ddlTurns struct {
	mu sync.Mutex
	of map[*ddlTurn]struct{}
}

// ddlTurn is one of them.
type ddlTurn struct {
	names UnfinishedDDL // by its names
	ended chan struct{} // closed when it has ended
}

// before is a statement whose turn has to end before that of one with such names, nil for none; all: of any names.
func (t *ddlTurns) before(names *UnfinishedDDL, all bool) *ddlTurn {
	t.mu.Lock()
	defer t.mu.Unlock()
	for x := range t.of {
		if all || x.names.overlaps(names) {
			return x
		}
	}
	return nil
}

// without leaves out of what is to be read anew the tables whose turn is another's, who reads them when
// it has ended. left is false where nothing else is to be read.
//
// Counter-example: RENAME TABLE held TO del, ghost TO held waits for the locks of who has just dropped del, and has the lock of
// that name: to look what there is of it would wait for the RENAME, and this for UNLOCK TABLES.
func (t *ddlTurns) without(part schema.Part) (rest schema.Part, left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest = part
	rest.Tables = slices.DeleteFunc(slices.Clone(part.Tables), func(n catalog.TableName) bool {
		for x := range t.of {
			if x.names.names(n) {
				return true
			}
		}
		return false
	})
	return rest, len(rest.Tables) > 0 || len(part.Tables) == 0
}

func (t *ddlTurns) begin(names UnfinishedDDL) *ddlTurn {
	x := &ddlTurn{names, make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[*ddlTurn]struct{}{}
	}
	t.of[x] = struct{}{}
	return x
}

func (t *ddlTurns) end(x *ddlTurn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, x)
	close(x.ended)
}

// takeTurnBehind takes the turn of all when no DDL of such names runs, nil: none at all. Then none does until
// Cluster.GiveTurn.
func (p *Proxy) takeTurnBehind(ctx context.Context, names *UnfinishedDDL) error {
	for {
		if err := p.opts.Cluster.TakeTurn(ctx); err != nil {
			return err
		}
		x := p.ddlTurns.before(names, names == nil)
		if x == nil {
			return nil
		}
		p.opts.Cluster.GiveTurn()
		select {
		case <-x.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// inTheWay is a statement that has the turn of one of d's tables, nil for none.
func (s *session) inTheWay(d *plan.DDL) *ddlTurn {
	if s.tableLocks != nil && len(d.Tables) > 0 && !slices.ContainsFunc(d.Tables, func(n catalog.TableName) bool { return !s.tableLocks.named[n] }) {
		return nil // rule own locks
	}
	names := namesOf(s.settings.schema, d)
	for _, parent := range d.Parents { // whose locks it waits for, too
		names.Tables, names.Schemas = append(names.Tables, parent), append(names.Schemas, parent.Schema)
	}
	return s.proxy.ddlTurns.before(names, false)
}

// awaitTurnOf waits for a statement's end, for as long as the session waits for locks of tables. Meanwhile it isn't inside
// of the read lock's gate, as while it waits for the turn of all (lockDDL).
func (s *session) awaitTurnOf(ctx context.Context, x *ddlTurn) error {
	ctx, _, done := s.activity.killable(ctx)
	defer done()
	defer s.activity.waits("Waiting for table metadata lock")()
	if g := &s.proxy.readLock.statements; s.writes == 1 {
		g.leave()
		defer g.inside.Add(1)
	}
	limit := s.lockWaitTimeout()
	if s.tableLocks != nil {
		limit = min(limit, ddlWait)
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-x.ended:
		return nil
	case <-late.C:
		return mysqlerr.New(mysqlerr.LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction ("+x.names.Op+" of the same tables is under way: SHOW PROCESSLIST)")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lockWaitTimeout is for how long the session waits for locks of tables: by default a year, as on a server.
func (s *session) lockWaitTimeout() time.Duration {
	text, _ := s.settings.value("@@lock_wait_timeout")
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(n) * time.Second
	}
	return 365 * 24 * time.Hour
}

// apart reports that shards do a statement while others have the turn of all: it may wait there for transactions, and nothing
// but its tables is concerned.
func (s *session) apart(d *plan.DDL) bool {
	if s.proxy.opts.Several || s.tableLocks != nil || d.References || d.Counts != "" || d.Filled != nil || d.As != nil {
		return false
	}
	switch d.Op {
	case "ALTER TABLE", "RENAME TABLE", "DROP TABLE", "TRUNCATE TABLE", "CREATE INDEX", "DROP INDEX",
		"CREATE TRIGGER", "DROP TRIGGER", "CREATE VIEW", "ALTER VIEW", "DROP VIEW", "DROP DATABASE":
		return true
	}
	return false
}

// whileApart has a statement be sent, while others have the turn of all if that can be.
func (s *session) whileApart(ctx context.Context, d *plan.DDL, send func() error) error {
	defer s.activity.waits(atShards)()
	if !s.apart(d) {
		return send()
	}
	turn := s.proxy.ddlTurns.begin(*namesOf(s.settings.schema, d))
	s.proxy.opts.Cluster.GiveTurn()
	err := send()
	// What follows has to, whatever has become of the client. Who waits for this one then waits for the turn of all.
	taken := s.proxy.opts.Cluster.TakeTurn(context.WithoutCancel(ctx))
	s.proxy.ddlTurns.end(turn)
	return cmp.Or(err, taken)
}
