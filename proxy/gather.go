package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/scratch"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// gatherWay is how a query is executed by one server, over rows that are copied there.
var gatherWay = &way{
	at:      bound,
	fits:    func(_ *session, r *request) bool { return r.bound.Gather != nil },
	explain: (*session).explainGather,
	execute: (*session).gather,
}

// gather answers a query from copies of the rows that it needs:
//
//	1 slot      wait for a turn, choose the server
//	2 describe  a shard prepares the client's own text: what is wrong with it is
//	            told before anything is copied, and in the client's words
//	3 create    a table for each copied reference: see gather_temporary.go
//	4 fill      all shards at once, each from one snapshot
//	5 run       the query, with the session's settings, on that server
//	6 drop      whatever happened
//
// The client's going away is looked for all the while.
func (s *session) gather(ctx context.Context, r *request) error {
	s.reading = nil
	ctx, _, done := s.activity.killable(ctx)
	defer done()
	err := s.gatherRead(ctx, r)
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return err
}

func (s *session) gatherRead(ctx context.Context, r *request) error {
	b := r.bound
	sc := s.proxy.opts.Scratch
	if sc == nil {
		return refuse("a query that must be gathered from several shards is not supported here: no scratch tables are configured")
	}
	ctx, stop := s.whileClientStays(ctx)
	defer stop()
	done, err := sc.Slots.Enter(ctx, s.holder())
	if err != nil {
		return err
	}
	defer done()
	if s.tx == nil && (b.Gather.Locks || s.temporaryNeeded() || s.tableLocks != nil) {
		// The locks of one statement end with it, those on all shards together. And
		// what fails in a transaction ends statements, not connections: the pinned
		// one has the temporary tables.
		if b.Gather.Locks {
			s.tx = s.newTransaction()
		} else {
			s.tx = s.newTransaction()
			s.tx.chosen, s.tx.snapshot = characteristics{isolation: "ISOLATION LEVEL REPEATABLE READ", access: readOnly}, true
		}
		s.tx.hidden = true
		defer func() {
			if s.tx != nil {
				_ = s.rollback(context.WithoutCancel(ctx)) // it has changed nothing
			}
		}()
	}
	at := s.proxy.gatherPlace(r.plan.Catalog, b.Gather)
	if at.Pool == nil {
		return mysqlerr.New(mysqlerr.ShardDown, "no server is there for scratch tables")
	}
	if at.Own && b.Gather.NamesSchema {
		return refuse("DATABASE() in a query that is gathered on the scratch server is not supported, since no schema of yours is there: write its name out")
	}
	g := &gathering{s: s, sc: sc, r: r, plan: b.Gather, at: at, temporary: true}
	unique, whole := true, false
	for {
		err := g.attempt(ctx, unique)
		switch {
		case g.answered:
			// Counter-example: an overflow in the second row, which looks like a condition's. The
			// client would get two answers in one.
			return err
		case unique && errors.Is(err, errDuplicate):
			unique = false // rows of several shards share a value of a unique key
		case g.temporary && errors.Is(err, errNotTemporary):
			g.temporary = false
		case !g.anyGroups && g.groupsUnknown(err):
			g.anyGroups = true
			s.diag.unanswered()
		case !whole && !b.Gather.Locks && conditionFailed(err):
			// A server may not come to evaluate what failed: the query shall tell.
			if g.plan, whole = g.plan.Whole(); !whole {
				return err
			}
			s.diag.unanswered()
		default:
			return err
		}
	}
}

// gatherPlace is the server for a gather. REQUIRES: there are scratch tables.
func (p *Proxy) gatherPlace(c *catalog.Catalog, g *plan.Gather) scratch.Place {
	var singles []catalog.ShardSet
	for _, r := range g.Refs {
		if r.Table.Placement == catalog.Single {
			singles = append(singles, r.InPlace)
		}
	}
	return p.opts.Scratch.Choose(c, singles, p.opts.Pools)
}

// gathering is one gather under way.
type gathering struct {
	s    *session
	sc   *scratch.Space
	r    *request
	plan *plan.Gather
	at   scratch.Place
	// also are more places where all copies are made, for a write on several
	// shards.
	also []copyPlace
	// engine is that of the copies where it is not InnoDB.
	engine string
	// tables are the copies' names, by reference; "" where it is read in place.
	tables []string
	// from are the shards that each copy's rows are read from, selects the
	// statements that read them, keys what narrows other copies: see waves.
	from    []catalog.ShardSet
	selects []string
	keys    []*copyKeys
	// lookups are for what the rows' snapshots show.
	lookups     plan.Indexes
	rows, bytes atomic.Int64
	// warned: a statement that read rows had warnings.
	warned atomic.Bool
	// temporary: the copies are TEMPORARY tables, which only home sees. nil: it
	// isn't there yet, or the copies are ordinary tables.
	temporary bool
	home      *shard.Conn
	// anyGroups: the query is run without ONLY_FULL_GROUP_BY.
	anyGroups bool
	// answered: the client has got a part of the answer.
	answered bool
	// made are the ordinary tables that may exist.
	made []string
	// broken are connections whose statement may still run.
	broken []lostStatement
	// columns are what the client's own text answers, nil where no shard knows
	// all of its tables.
	columns []wire.Column
}

type lostStatement struct {
	pool   *shard.Pool
	thread uint32
}

// conditionFailed reports an error of data that are compared or computed with.
func conditionFailed(err error) bool {
	e, ok := errors.AsType[mysqlerr.Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case mysqlerr.WrongValueForType, mysqlerr.WrongValue, mysqlerr.CannotConvertString:
		return true
	}
	return strings.HasPrefix(e.State, "22")
}

// groupsUnknown reports that the server doesn't know of copies what it knows of
// the tables, in which the same query is right: that one column determines
// another, as that of a generated column does. MariaDB knows none of that of tables
// either, and may refuse to execute what it has prepared.
func (g *gathering) groupsUnknown(err error) bool {
	e, ok := errors.AsType[mysqlerr.Error](err)
	return ok && e.Code == mysqlerr.WrongFieldWithGroup && len(g.columns) > 0 && !g.s.mariaDB()
}

// errDuplicate: the copies can't have the unique keys of their tables.
var errDuplicate = errors.New("duplicate key among the rows of several shards")

// attempt takes steps 2 to 6.
func (g *gathering) attempt(ctx context.Context, unique bool) error {
	g.tables = g.sc.Names(len(g.plan.Refs))
	for i := range g.plan.Refs {
		// A transaction's own writes are on its connections alone.
		if g.s.tx == nil && !g.at.Own && g.plan.Refs[i].InPlace.Has(g.at.Shard) {
			g.tables[i] = ""
		}
	}
	g.rows.Store(0)
	g.bytes.Store(0)
	defer func() {
		g.sc.Rows.Add(float64(g.rows.Load()))
		g.s.measured.Copied += g.rows.Load()
		g.sc.Bytes.Add(float64(g.bytes.Load()))
	}()
	defer g.cleanUp(ctx)
	if err := g.collect(ctx, unique); err != nil {
		return err
	}
	return g.run(ctx)
}

// cleanUp is step 6. The client waits for it: when it has its answer, or an
// error, nothing is left.
func (g *gathering) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratch.DropTimeout)
	defer cancel()
	g.leaveHome(ctx)
	for _, l := range g.broken {
		// Or DROP TABLE would wait for its end.
		if err := l.pool.Kill(ctx, l.thread, true); err != nil && shard.Code(err) != mysqlerr.NoSuchThread {
			g.s.log.Info("end a gather's statement", "server", l.pool.Name(), "error", err)
		}
	}
	g.sc.Drop(ctx, g.at, g.made)
	g.broken, g.made = nil, nil
}

// put gives a connection back, and notes what it may leave running.
func (g *gathering) put(pool *shard.Pool, conn *shard.Conn) {
	if conn.Busy() {
		g.broken = append(g.broken, lostStatement{pool, conn.ThreadID})
	}
	g.forget(conn)
	pool.Put(conn)
}

// run is step 5.
func (g *gathering) run(ctx context.Context) error {
	s := g.s
	sql := g.plan.Query(func(ref int) string { return g.tables[ref] })
	settings := g.settings()
	if g.r.storing != nil {
		if err := g.makeStoring(ctx); err != nil {
			return err
		}
	}
	conn := g.home
	if conn != nil {
		if err := g.settle(ctx, settings); err != nil {
			return g.serverError(err)
		}
	} else {
		var err error
		if conn, err = g.at.Pool.Get(ctx, false); err != nil {
			return shard.Down(err)
		}
		defer func() { g.put(g.at.Pool, conn) }()
		if err := settings.applyTo(ctx, conn); err != nil {
			return g.serverError(err)
		}
	}
	if s.diag.insertID != 0 && spoken.NamesInsertID(sql) {
		if err := tellID(ctx, conn, s.diag.insertID); err != nil {
			return g.serverError(err)
		}
	}
	if st := g.r.storing; st != nil {
		if err := g.store(ctx, sql); err != nil {
			return err
		}
		sql = st.Select(st.table)
	}
	command, payload := mysql.COM_QUERY, []byte(sql)
	if g.r.prepared != nil {
		st, err := conn.PrepareOnce(ctx, sql)
		if err != nil {
			return g.serverError(g.unlessOrdinary(err))
		}
		defer conn.Forget(st)
		if len(st.Params) != len(g.r.params) {
			return errors.New("the server counts other parameters than the client's statement has")
		}
		command, payload = mysql.COM_STMT_EXECUTE, wire.EncodeExecute(st.ID, 0, g.r.params)
	}
	o := s.forwardOptions()
	o.HoldErr = true
	define := header{g: g}
	if g.r.storing == nil {
		o.Define, o.Expect = define.column, len(g.columns)
	}
	var sum shard.Summary
	err := conn.Under(ctx, func() (err error) {
		if err := conn.Send(command, payload); err != nil {
			return err
		}
		sum, err = conn.Forward(s.client, shard.Result, o)
		s.measured.Rows += sum.Rows
		return err
	})
	g.answered = sum.Written
	switch {
	case err != nil && ctx.Err() != nil && !sum.Written:
		return context.Cause(ctx)
	case err == nil && sum.Err != nil:
		if !sum.Written {
			return g.serverError(g.unlessOrdinary(sum.Err))
		}
		return g.serverError(sum.Err)
	case err == nil:
		s.diag.keep(ctx, conn, &sum)
		s.diag.find(ctx, conn, g.r.found, &sum)
		return nil
	case errors.Is(err, shard.ErrClient):
		return err
	case !sum.Clean:
		return fmt.Errorf("%w: %w", errHalfAnswered, g.serverError(err))
	}
	return g.serverError(err)
}

// settings are those under which the query runs: the session's, with what only this
// query has.
func (g *gathering) settings() *settings {
	s := g.s
	out := &s.settings
	if g.at.Own {
		own := s.settings.clone()
		own.schema = catalog.ScratchSchema
		out = &own
	}
	if s.limits(g.r) {
		own := out.clone()
		own.with(variable{"@@sql_select_limit", fmt.Sprintf("SET SESSION sql_select_limit = %d", own.own.limit.rows), ""})
		own.update(s.catalog())
		out = &own
	}
	if g.anyGroups {
		own := out.clone()
		own.anyGroups(g.r.plan.Catalog)
		out = &own
	}
	return out
}

// serverError is what went wrong on the scratch server, in the client's words.
func (g *gathering) serverError(err error) error {
	var server *shard.ServerError
	if errors.Is(err, errNotTemporary) {
		return err
	}
	if !errors.As(err, &server) {
		if errors.Is(err, shard.ErrColumns) {
			return g.s.columnsDiffer(err)
		}
		if errors.Is(err, errClientGone) {
			return err
		}
		return mysqlerr.Newf(mysqlerr.ShardLost, "Connection to %s was lost while it ran a gathered query: %v", g.at.Name, err)
	}
	g.s.serverFailed(server)
	return mysqlerr.Error{Code: server.Code, State: server.State, Message: g.original(server.Message)}
}

// original takes the scratch names out of a text.
func (g *gathering) original(text string) string {
	if !strings.Contains(text, catalog.ScratchSchema) {
		return text
	}
	var pairs []string
	schema := g.s.settings.schema
	for i, name := range g.tables {
		if name == "" {
			continue
		}
		t := g.plan.Refs[i].Table
		schema = t.Schema
		pairs = append(pairs,
			scratch.Table(name), catalog.QuoteTable(t.Schema, t.Name),
			catalog.ScratchSchema+"."+name, t.Schema+"."+t.Name,
			name, t.Name)
	}
	if st := g.r.storing; st != nil && st.table != "" {
		table := catalog.QuoteTable(st.Table.Schema, st.Table.Name)
		pairs = append(pairs, st.table, table)
	}
	pairs = append(pairs, catalog.ScratchSchema, schema)
	return strings.NewReplacer(pairs...).Replace(text)
}

// header makes the answer's column definitions those of the client's own text.
type header struct {
	g    *gathering
	next int
}

// keyFlags tell of a table's keys, which a copy may lack.
const keyFlags = indexFlags | mysql.AUTO_INCREMENT_FLAG | noDefaultFlag | mysql.TIMESTAMP_FLAG | onUpdateFlag

// indexFlags are those that a server gives by the temporary table, if it has its answer from one: none, or for UNION on
// MariaDB 11 that of a key over all columns. Where its plan alone makes that table, this isn't known.
const indexFlags = mysql.PRI_KEY_FLAG | mysql.UNIQUE_KEY_FLAG | multipleKeyFlag | mysql.PART_KEY_FLAG

const (
	multipleKeyFlag = 8
	noDefaultFlag   = 4096
	onUpdateFlag    = 8192
)

func (h *header) column(def []byte) []byte {
	c, err := wire.ParseColumn(def)
	if err != nil {
		return def
	}
	i := h.next
	h.next++
	if i < len(h.g.columns) {
		own := h.g.columns[i]
		if own.OrgName == "" && c.OrgName == own.Name {
			own.OrgName = c.OrgName // as a server's temporary table has it
		}
		c.Schema, c.Table, c.OrgTable, c.Name, c.OrgName = own.Schema, own.Table, own.OrgTable, own.Name, own.OrgName
		if h.g.plan.Temporary {
			own.Flags = own.Flags&^indexFlags | c.Flags&indexFlags
		}
		c.Flags = c.Flags&^keyFlags | own.Flags&keyFlags
		return c.Append(nil)
	}
	if c.Schema == catalog.ScratchSchema {
		if ref := slices.Index(h.g.tables, c.OrgTable); ref >= 0 {
			t := h.g.plan.Refs[ref].Table
			c.Schema, c.OrgTable = t.Schema, t.Name
		}
	}
	c.Name = h.g.original(c.Name)
	return c.Append(nil)
}

// describe is step 2, on a connection to a shard that has all of the query's
// tables.
func (g *gathering) describe(ctx context.Context, id catalog.ShardID, conn *shard.Conn) error {
	st, err := conn.PrepareOnce(ctx, g.unguarded(g.r.sql))
	switch shard.Code(err) {
	case 0:
	case mysqlerr.UnsupportedPS, mysqlerr.MaxPreparedStmtCountReached: // not in the prepared protocol; too many statements
		return nil
	}
	if err != nil {
		return g.s.shardError(id, err)
	}
	defer conn.Forget(st)
	g.columns = g.columns[:0]
	for _, def := range st.Columns {
		c, err := wire.ParseColumn(def)
		if err != nil {
			return fmt.Errorf("read column definition: %w", err)
		}
		g.columns = append(g.columns, c)
	}
	return nil
}

// knowing is a shard that has all of the query's tables.
func (g *gathering) knowing() catalog.ShardSet {
	set := g.r.plan.Catalog.All
	for i := range g.plan.Refs {
		set = set.Intersect(g.plan.Refs[i].Table.Shards)
	}
	for _, t := range g.r.plan.Tables { // views too
		set = set.Intersect(t.Shards)
	}
	return set
}

// clientPoll is how often a client that waits is looked after.
const clientPoll = 100 * time.Millisecond

var errClientGone = fmt.Errorf("%w: it has gone", shard.ErrClient)

// whileClientStays is ctx until the client closes its connection. stop ends the
// watch and returns when it has ended.
func (s *session) whileClientStays(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	client := s.client
	go func() {
		defer close(ended)
		tick := time.NewTicker(clientPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if client.Gone() {
					cancel(errClientGone)
					return
				}
			}
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-ended
	}
}
