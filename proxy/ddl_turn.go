package proxy

import (
	"cmp"
	"context"
	"errors"
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
// Of several Shunts each has ddlTurns of its own, and asks the others for theirs (Cluster.TablesHeld).

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

// without is ddlTurns' of other processes too. None has the turn of a table here unless the session has its locks (rule own
// locks).
func (s *session) without(ctx context.Context, part schema.Part) (rest schema.Part, left bool) {
	rest, left = s.proxy.ddlTurns.without(part)
	if s.tableLocks == nil || len(rest.Tables) == 0 {
		return rest, left
	}
	rest.Tables = slices.DeleteFunc(rest.Tables, func(n catalog.TableName) bool {
		holder, err := s.proxy.opts.Cluster.TablesHeld(ctx, catalog.Scope{Tables: []catalog.TableName{n}})
		return err == nil && holder != ""
	})
	return rest, len(rest.Tables) > 0
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

// scope are the tables by whose turns other processes hold up a statement of such names, as overlaps has it here; nil: any.
func (u *UnfinishedDDL) scope() catalog.Scope {
	switch {
	case u == nil:
		return catalog.Scope{All: true}
	case len(u.Tables) > 0 && u.kind() != "DATABASE":
		return catalog.Scope{Tables: u.Tables}
	case u.kind() == "DATABASE", u.kind() == "TRIGGER":
		return catalog.Scope{Schemas: u.Schemas}
	}
	return catalog.Scope{}
}

// earlierDDL has the turn of tables that other DDL waits for.
type earlierDDL struct {
	what string // for people
	// ended returns when it has, or when ctx ends, with its cause.
	ended func(ctx context.Context) error
}

// earlier is DDL, here or in another process, that has to end before that of such names begins; nil for none. REQUIRES: the
// turn of all.
func (p *Proxy) earlier(ctx context.Context, names *UnfinishedDDL) (*earlierDDL, error) {
	if x := p.ddlTurns.before(names, names == nil); x != nil {
		return &earlierDDL{x.names.Op, func(ctx context.Context) error {
			select {
			case <-x.ended:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}, nil
	}
	scope := names.scope()
	holder, err := p.opts.Cluster.TablesHeld(ctx, scope)
	if holder == "" || err != nil {
		return nil, err
	}
	return &earlierDDL{"DDL by " + holder, func(ctx context.Context) error { return p.opts.Cluster.AwaitTables(ctx, scope) }}, nil
}

// takeTurnBehind takes the turn of all when no DDL of such names runs, nil: none at all. Then none does until
// Cluster.GiveTurn.
func (p *Proxy) takeTurnBehind(ctx context.Context, names *UnfinishedDDL) error {
	for {
		if err := p.opts.Cluster.TakeTurn(ctx); err != nil {
			return err
		}
		x, err := p.earlier(ctx, names)
		if x == nil && err == nil {
			return nil
		}
		p.opts.Cluster.GiveTurn()
		if err == nil {
			err = x.ended(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// WithoutDDL calls fn while no DDL runs.
func (p *Proxy) WithoutDDL(ctx context.Context, fn func() error) error {
	if err := p.takeTurnBehind(ctx, nil); err != nil {
		return err
	}
	defer p.opts.Cluster.GiveTurn()
	return fn()
}

// inTheWay is DDL that has the turn of one of d's tables, nil for none. REQUIRES: the turn of all.
func (s *session) inTheWay(ctx context.Context, d *plan.DDL) (*earlierDDL, error) {
	if s.tableLocks != nil && len(d.Tables) > 0 && !slices.ContainsFunc(d.Tables, func(n catalog.TableName) bool { return !s.tableLocks.named[n] }) {
		return nil, nil //nolint:nilnil // rule own locks
	}
	return s.proxy.earlier(ctx, s.turnNames(d))
}

// turnNames are those of a statement, and of the tables that it refers to: it waits for their locks, too.
func (s *session) turnNames(d *plan.DDL) *UnfinishedDDL {
	names := namesOf(s.settings.schema, d)
	for _, parent := range d.Parents {
		names.Tables, names.Schemas = append(names.Tables, parent), append(names.Schemas, parent.Schema)
	}
	return names
}

// awaitTurnOf waits for the end of DDL that is in the way, for as long as the session waits for locks of tables. Meanwhile it
// isn't inside of the read lock's gate, as while it waits for the turn of all (lockDDL).
func (s *session) awaitTurnOf(ctx context.Context, x *earlierDDL) error {
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
	late := mysqlerr.New(mysqlerr.LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction ("+x.what+" of the same tables is under way: SHOW PROCESSLIST)")
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	err := x.ended(ctx)
	if errors.Is(err, late) {
		return late
	}
	return err
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
// but its tables, and those that it refers to, is concerned.
func (s *session) apart(d *plan.DDL) bool {
	if s.tableLocks != nil || d.Counts != "" || d.Filled != nil || d.As != nil {
		return false
	}
	switch d.Op {
	case "CREATE TABLE":
		return d.References // it waits for the tables that it refers to
	case "ALTER TABLE", "RENAME TABLE", "DROP TABLE", "TRUNCATE TABLE", "CREATE INDEX", "DROP INDEX",
		"CREATE TRIGGER", "DROP TRIGGER", "CREATE VIEW", "ALTER VIEW", "DROP VIEW":
		return len(d.Tables) > 0 || !s.proxy.opts.Several // others are told of tables alone
	case "DROP DATABASE":
		return !s.proxy.opts.Several
	}
	return false
}

// whileApart has a statement be sent, while others have the turn of all if that can be.
func (s *session) whileApart(ctx context.Context, d *plan.DDL, send func() error) error {
	defer s.activity.waits(atShards)()
	if !s.apart(d) {
		return send()
	}
	names := s.turnNames(d)
	kept, give, err := s.proxy.opts.Cluster.TakeTables(ctx, names.Tables...)
	switch {
	case err != nil:
		return err
	case kept == nil: // not all members heed it
		return send()
	}
	turn := s.proxy.ddlTurns.begin(*names)
	s.turnKept = kept
	s.proxy.opts.Cluster.GiveTurn()
	err = send()
	// What follows has to, whatever has become of the client. Who waits for this one then waits for the turn of all.
	taken := s.proxy.opts.Cluster.TakeTurn(context.WithoutCancel(ctx))
	s.turnKept = nil
	give()
	s.proxy.ddlTurns.end(turn)
	return cmp.Or(err, taken)
}
