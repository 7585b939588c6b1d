package proxy

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/scratch"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// gatherWriteWay is how a write is executed by rows that are gathered.
var gatherWriteWay = &way{
	at:      bound,
	fits:    func(_ *session, r *request) bool { return r.writes && r.bound.Gather != nil },
	explain: (*session).explainGather,
	execute: (*session).gatherWrite,
}

// gatherWrite executes an UPDATE or DELETE that reads rows of other shards than
// it writes to:
//
//	1 join      the transaction begins on all shards that are read or written
//	2 describe  a shard prepares the client's own text: what is wrong with it is
//	            told before anything is copied, and what a server doesn't allow
//	            (1093, to read the table that is changed) stays so
//	3 create    a scratch table for each copied reference, on each shard of the
//	            write
//	4 fill      from all shards at once, with shared locks, which stay until the
//	            transaction ends, as one server's do
//	5 run       the text over the copies, as any write over several shards
//	6 drop      when the transaction has ended, since no server drops what an open
//	            one has read
//
// The rows that are changed are never copied.
func (s *session) gatherWrite(ctx context.Context, r *request) error {
	b, implicit := r.bound, r.implicit
	tx := s.tx
	g, err := s.copiesForWrite(ctx, r)
	if g != nil {
		tx.copies = append(tx.copies, g)
	}
	if err == nil && s.activity.killed() {
		err = errInterrupted
	}
	if err != nil {
		if implicit {
			_ = s.rollback(ctx) // the error is told anyway
		}
		return err
	}
	over := *b
	over.Statements = make([]plan.ShardStatement, len(b.Statements))
	for i, st := range b.Statements {
		st.SQL = g.unguarded(g.plan.Query(func(ref int) string { return g.tables[ref] }))
		over.Statements[i] = st
	}
	r.bound = &over
	err = s.writeInTransaction(ctx, r)
	r.bound = b
	s.diag.reword(g.original)
	if told, ok := errors.AsType[mysqlerr.Error](err); ok && strings.Contains(told.Message, catalog.ScratchSchema) {
		told.Message = g.original(told.Message)
		return told
	}
	return err
}

// unguarded is a write's text for a shard, for which sql_safe_updates doesn't count if it may find its rows by keys.
//
// Rule safe updates. Counter-example: DELETE FROM items WHERE id IN (SELECT item FROM sold). One server finds the items by id. A
// shard has few, and a copy of sold without keys, reads all of them, and answers 1175; MariaDB to PREPARE, too.
func (g *gathering) unguarded(sql string) string {
	s := g.s
	if !g.plan.ByKey || !s.settings.on("@@sql_safe_updates") || s.setStatement != nil {
		return sql
	}
	return spoken.WithoutSafeUpdates(sql, s.settings.planning, s.catalog())
}

// copyPlace is a server that copies are made on, with the connection that makes
// them.
type copyPlace struct {
	scratch.Place
	control *shard.Conn
}

// copiesForWrite takes steps 1 to 4. What it made is dropped where it fails.
func (s *session) copiesForWrite(ctx context.Context, r *request) (*gathering, error) {
	b := r.bound
	sc := s.proxy.opts.Scratch
	if sc == nil {
		return nil, refuse("a write that needs rows of several shards is not supported here: no scratch tables are configured")
	}
	ctx, stop := s.whileClientStays(ctx)
	defer stop()
	done, err := sc.Slots.Enter(ctx, s.holder())
	if err != nil {
		return nil, err
	}
	defer done()
	g := &gathering{s: s, sc: sc, r: r, plan: b.Gather}
	if s.tx.maySeePast() {
		g.engine = agelessEngine(r.plan.Catalog.MariaDB)
	}
	for _, st := range b.Statements {
		p := scratch.Place{Pool: sc.Options.Pools[st.Shard], Name: s.catalog().ShardName(st.Shard), Shard: st.Shard}
		if p.Pool == nil {
			return nil, mysqlerr.New(mysqlerr.ShardDown, "no connections for scratch tables on "+p.Name)
		}
		if g.at.Pool == nil {
			g.at = p
			continue
		}
		g.also = append(g.also, copyPlace{Place: p})
	}
	unique := true
	for range 3 {
		if err = g.copyAll(ctx, route(b), unique); !errors.Is(err, errDuplicate) && !errors.Is(err, errWarned) {
			break
		}
		// Rows of several shards share a value of a unique key.
		unique = unique && !errors.Is(err, errDuplicate)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// copyAll makes the copies on the shards of the write.
func (g *gathering) copyAll(ctx context.Context, to catalog.ShardSet, unique bool) (err error) {
	g.rows.Store(0)
	g.bytes.Store(0)
	defer func() {
		g.sc.Rows.Add(float64(g.rows.Load()))
		g.s.measured.Copied += g.rows.Load()
		g.sc.Bytes.Add(float64(g.bytes.Load()))
	}()
	defer func() {
		if err != nil {
			g.dropCopies(ctx)
		}
	}()
	g.tables = g.sc.Names(len(g.plan.Refs))
	g.from = make([]catalog.ShardSet, len(g.tables))
	all := to
	for i := range g.tables {
		if g.plan.Refs[i].Stays {
			g.tables[i] = ""
			continue
		}
		g.from[i] = g.shardsOf(i)
		all = all.Union(g.from[i])
	}
	var sources []*source
	for id := range all.All { // in the order in which every session takes them
		conn, err := g.s.borrow(ctx, id)
		if err != nil {
			return err
		}
		sources = append(sources, &source{id: id, conn: conn})
	}
	if err := g.describeOn(ctx, sources); err != nil {
		return err
	}
	if err := g.chooseLogs(ctx); err != nil {
		return err
	}
	control, err := g.at.Get(ctx)
	if err != nil {
		return err
	}
	defer func() { g.put(g.at.Pool, control) }()
	for i := range g.also {
		to := &g.also[i]
		if to.control, err = to.Get(ctx); err != nil {
			return err
		}
		defer func() {
			g.put(to.Pool, to.control)
			to.control = nil
		}()
	}
	if err := g.createAll(ctx, append([]copyPlace{{g.at, control}}, g.also...), unique); err != nil {
		return err
	}
	if err := g.waves(ctx, sources, control); err != nil || !g.warned.Load() {
		return err
	}
	if whole, ok := g.plan.Whole(); ok {
		g.plan = whole
		return errWarned
	}
	return nil
}

// createAll makes the copies, empty, in all places.
func (g *gathering) createAll(ctx context.Context, places []copyPlace, unique bool) error {
	for _, to := range places {
		if !to.Logged {
			continue
		}
		// The schema may be older than this, and not be there on replicas.
		if _, err := to.control.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+catalog.QuoteName(catalog.ScratchSchema)); err != nil {
			return g.createFailed(err)
		}
	}
	engine := cmp.Or(g.engine, "InnoDB")
	for i, name := range g.tables {
		if name == "" {
			continue
		}
		g.made = append(g.made, name)
		for _, to := range places {
			err := scratch.Create(ctx, to.control, name, g.plan.Refs[i].Definition(unique), engine)
			if unique && shard.Code(err) == mysqlerr.TooLongKey {
				return errDuplicate // without unique keys, then
			}
			if err != nil {
				return g.createFailed(err)
			}
		}
	}
	return nil
}

// errWarned: the conditions that bound what is copied made a shard warn. The
// write itself shall meet what they did.
var errWarned = errors.New("warnings while rows were read")

// chooseLogs finds the shards whose replicas get the text of the write instead
// of its rows: the copies must be there too, made and dropped by the same log.
func (g *gathering) chooseLogs(ctx context.Context) error {
	logged := func(id catalog.ShardID) (bool, error) {
		res, err := g.s.tx.conns.at(id).Query(ctx, "SHOW VARIABLES LIKE 'binlog_format'")
		if err != nil {
			return false, g.s.shardError(id, err)
		}
		return len(res.Rows) > 0 && len(res.Rows[0]) > 1 && string(res.Rows[0][1]) != "ROW", nil
	}
	var err error
	if g.at.Logged, err = logged(g.at.Shard); err != nil {
		return err
	}
	for i := range g.also {
		if g.also[i].Logged, err = logged(g.also[i].Shard); err != nil {
			return err
		}
	}
	return nil
}

// maySeePast reports a transaction that may have a snapshot already. InnoDB lets
// none read a table that is younger, not even with locks (1412).
func (tx *transaction) maySeePast() bool {
	return len(tx.order) > 0 || tx.snapshot
}

// agelessEngine has no versions of rows, nor of tables.
func agelessEngine(mariadb bool) string {
	if mariadb {
		return "Aria TRANSACTIONAL=0"
	}
	return "MyISAM"
}

// forget has a connection reset that wrote tables of another engine, or MySQL
// would warn of what it writes later to InnoDB's.
func (g *gathering) forget(conn *shard.Conn) {
	if g.engine != "" && strings.HasPrefix(conn.State, scratch.State) {
		conn.State = "to be reset"
	}
}

// dropCopies is step 6.
func (g *gathering) dropCopies(ctx context.Context) {
	made := g.made
	g.cleanUp(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratch.DropTimeout)
	defer cancel()
	for _, to := range g.also {
		g.sc.Drop(ctx, to.Place, made)
	}
}
