package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/scratch"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Copies are filled by INSERT: joins of large tables so take tens of times what one server
// takes (docs/benchmarks.md, TPC-H).

// batchBytes is how long an INSERT into a scratch table becomes. What is held in
// memory: one that grows for each shard, and some that wait for a writer.
const batchBytes = 512 << 10

// source is a shard that rows are read from.
type source struct {
	id   catalog.ShardID
	conn *shard.Conn
	refs []int // of this wave, in the order of the text
	own  bool  // the connection isn't the transaction's
	// once: a single SELECT reads all that is needed of it, which needs no
	// snapshot but its own.
	once bool
	// took is how long its rows of this wave were read, since asked.
	took  time.Duration
	asked time.Time
	// began: its snapshot is open.
	began bool
	// told is the error that the shard has answered in the session's transaction,
	// which may have ended by it though another shard's is the client's.
	told *shard.ServerError
}

// batch is an INSERT of some rows into one copy.
type batch struct {
	sql []byte
	ref int
	// zeros counts ENUMs with the number 0, each of which is a warning.
	zeros int
}

// collect takes steps 2 to 4: afterwards the copies are complete.
func (g *gathering) collect(ctx context.Context, unique bool) (err error) {
	s := g.s
	var set catalog.ShardSet
	g.from = make([]catalog.ShardSet, len(g.tables))
	for i, name := range g.tables {
		if name != "" {
			g.from[i] = g.shardsOf(i)
			set = set.Union(g.from[i])
		}
	}
	g.lookups = s.lookups(ctx)
	if s.tx == nil && g.lookups != nil {
		// As a transaction does: rows that the snapshots show may have no entries any more.
		open := s.proxy.opts.Index.Begin(set)
		defer open.End()
		g.lookups = s.lookupsOf(ctx, open)
	}
	var sources []*source
	defer func() {
		for _, x := range sources {
			if x.own {
				g.put(s.proxy.pool(x.id), x.conn)
			}
		}
	}()
	for id := range set.All { // in the order in which every session takes them
		conn, err := s.borrow(ctx, id)
		if err != nil {
			return err
		}
		sources = append(sources, &source{id: id, conn: conn, own: s.tx == nil})
	}
	if g.temporary {
		// They are cheap: made while the shard looks at the text, whose error
		// comes first.
		made := make(chan error, 1)
		go func() { made <- g.makeTemporary(ctx, unique) }()
		err, makeErr := g.describeOn(ctx, sources), <-made
		if err == nil {
			err = makeErr
		}
		if err != nil {
			return err
		}
		return g.waves(ctx, sources, g.home)
	}
	if err := g.describeOn(ctx, sources); err != nil {
		return err
	}
	control, err := g.at.Get(ctx)
	if err != nil {
		return err
	}
	defer func() { g.put(g.at.Pool, control) }()
	for i, name := range g.tables {
		if name == "" {
			continue
		}
		g.made = append(g.made, name)
		if err := scratch.Create(ctx, control, name, g.plan.Refs[i].Definition(unique), "InnoDB"); err != nil {
			return g.createFailed(err)
		}
	}
	return g.waves(ctx, sources, control)
}

// shardsOf are the shards that a reference is copied from.
func (g *gathering) shardsOf(i int) catalog.ShardSet {
	r := &g.plan.Refs[i]
	if r.Table.Placement != catalog.Reference || r.Lock != "" {
		return r.Shards // a reference table's rows are locked in one copy, always the same
	}
	if g.s.tx != nil {
		for _, id := range g.s.tx.order {
			if r.InPlace.Has(id) {
				return catalog.Only(id)
			}
		}
	}
	if !g.at.Own && r.InPlace.Has(g.at.Shard) {
		return catalog.Only(g.at.Shard)
	}
	return r.Shards
}

// describeOn finds a connection for describe: one of the sources', since in a
// transaction another would wait for a DDL that waits for the transaction.
func (g *gathering) describeOn(ctx context.Context, sources []*source) error {
	knowing := g.knowing()
	for _, x := range sources {
		if knowing.Has(x.id) {
			return g.describe(ctx, x.id, x.conn)
		}
	}
	if knowing.Empty() {
		return nil
	}
	id := g.s.livelyOf(knowing)
	conn, err := g.s.borrow(ctx, id)
	if err != nil {
		return err
	}
	defer g.s.giveBack(id, conn)
	return g.describe(ctx, id, conn)
}

// filling is what readers and writers share.
type filling struct {
	g           *gathering
	batches     chan batch
	also        []chan batch  // of g.also
	rows, bytes *atomic.Int64 // of all waves
	mu          sync.Mutex
	broken      []lostStatement
}

// fill is step 4 for some references. Readers, one for each shard, make batches;
// writers insert them.
func (g *gathering) fill(ctx context.Context, sources []*source, control *shard.Conn) error {
	f := &filling{g: g, batches: make(chan batch, scratch.Writers), rows: &g.rows, bytes: &g.bytes}
	for range g.also {
		f.also = append(f.also, make(chan batch, scratch.Writers))
	}
	for _, x := range sources {
		if !x.own { // it may wait for locks
			g.s.activity.sent(x.id, x.conn)
			defer g.s.activity.done(x.conn)
		}
	}
	group, fctx := errgroup.WithContext(ctx)
	var reading sync.WaitGroup
	for _, x := range sources {
		reading.Add(1)
		group.Go(func() error {
			defer reading.Done()
			x.asked = time.Now()
			defer func() { x.took = time.Since(x.asked) }()
			if err := f.read(ctx, fctx, x); err != nil {
				return &readError{x, err}
			}
			return nil
		})
	}
	group.Go(func() error {
		reading.Wait()
		close(f.batches)
		for _, batches := range f.also {
			close(batches)
		}
		return nil
	})
	group.Go(func() error { return f.write(fctx, g.at, control, f.batches) })
	for i, to := range g.also {
		group.Go(func() error { return f.write(fctx, to.Place, to.control, f.also[i]) })
	}
	writers := min(scratch.Writers, len(sources))
	if g.temporary {
		writers = 1
	}
	for range writers - 1 {
		group.Go(func() error {
			conn, err := g.at.Get(fctx)
			if err != nil {
				return err
			}
			defer f.put(g.at.Pool, conn)
			return f.write(fctx, g.at, conn, f.batches)
		})
	}
	err := group.Wait()
	g.broken = append(g.broken, f.broken...)
	for _, x := range sources {
		if len(x.refs) > 0 && x.conn != nil {
			g.s.measured.part(x.id, x.conn.ThreadID, shard.Since(x.asked), x.took)
		}
		if x.told != nil && g.s.tx != nil {
			g.s.tx.watch(x.id, &shard.Summary{Err: x.told})
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if reading, ok := errors.AsType[*readError](err); ok {
		return g.readFailed(reading.from, reading.err)
	}
	return err
}

// readError is a source that could not be read.
type readError struct {
	from *source
	err  error
}

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// readFailed is the client's error for what a shard's rows could not be read for.
func (g *gathering) readFailed(x *source, err error) error {
	if _, ok := errors.AsType[mysqlerr.Error](err); ok {
		return err
	}
	return g.s.shardError(x.id, err)
}

func (f *filling) put(pool *shard.Pool, conn *shard.Conn) {
	if conn.Busy() {
		f.mu.Lock()
		f.broken = append(f.broken, lostStatement{pool, conn.ThreadID})
		f.mu.Unlock()
	}
	f.g.forget(conn)
	pool.Put(conn)
}

// snapshot makes all references of a shard see one state, as they would in one
// statement.
var snapshot = []string{
	"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
}

// read copies what one shard has of all references. ctx is the statement's,
// fctx ends when anything of the fill fails.
func (f *filling) read(ctx, fctx context.Context, x *source) error {
	if x.own && !x.began && !x.once {
		refused, err := x.conn.ExecAll(fctx, snapshot...)
		if failed := first(refused); err == nil && failed != nil {
			err = failed
		}
		if err != nil {
			x.conn.Broken = true // the next transaction's isolation may be set
			return err
		}
		x.began = true
	}
	for _, i := range x.refs {
		if err := f.readRef(ctx, fctx, x, i); err != nil {
			return err
		}
	}
	return nil
}

func (f *filling) readRef(ctx, fctx context.Context, x *source, i int) error {
	r := &f.g.plan.Refs[i]
	names := make([]string, len(r.Columns))
	for n := range r.Columns {
		names[n] = catalog.QuoteName(r.Columns[n].Name)
	}
	head := "INSERT INTO " + scratch.Table(f.g.tables[i]) + " (" + strings.Join(names, ", ") + ") VALUES "
	b := batch{ref: i}
	flush := func() error {
		if len(b.sql) == 0 {
			return nil
		}
		if err := f.give(fctx, b); err != nil {
			return err
		}
		b = batch{ref: i}
		return nil
	}
	var failed error
	each := func(row [][]byte) error {
		if failed != nil {
			return nil //nolint:nilerr // the rest of the answer must be read
		}
		if failed = f.count(r, row); failed != nil {
			return failed
		}
		f.g.keys[i].add(row)
		if len(b.sql) == 0 {
			b.sql = append(make([]byte, 0, 4<<10), head...)
		} else {
			b.sql = append(b.sql, ',')
		}
		if b.sql, failed = appendRow(b.sql, r.Columns, row); failed != nil {
			return failed
		}
		for n, v := range row {
			if r.Columns[n].ZeroWarns() && len(v) == 1 && v[0] == '0' {
				b.zeros++
			}
		}
		if len(b.sql) >= batchBytes {
			failed = flush()
		}
		return failed
	}
	sql := fmt.Sprintf("%s LIMIT %d%s", f.g.selects[i], f.g.sc.Options.MaxRows+1, r.Lock)
	var err error
	if x.own {
		err = f.g.stream(fctx, x.conn, sql, r, each)
	} else {
		err = f.streamInTransaction(ctx, fctx, x, sql, r, each)
	}
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	return flush()
}

// give leaves a batch to the writers of each place.
func (f *filling) give(ctx context.Context, b batch) error {
	for _, to := range append([]chan batch{f.batches}, f.also...) {
		select {
		case to <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// count holds a gather to its limits.
func (f *filling) count(r *plan.GatherRef, row [][]byte) error {
	n := int64(0)
	for _, v := range row {
		n += int64(len(v))
	}
	o := &f.g.sc.Options
	limit, most := "", int64(0)
	if f.bytes.Add(n) > o.MaxBytes {
		limit, most = "gather_max_bytes", o.MaxBytes
	}
	if f.rows.Add(1) > o.MaxRows {
		limit, most = "gather_max_rows", o.MaxRows
	}
	if limit == "" {
		return nil
	}
	return mysqlerr.Newf(mysqlerr.TooBigSelect,
		"The query needs more rows of %s.%s (and its other tables) copied to one server than %s (%d) allows; route of %s: %s, %s. Add conditions that bound them, or raise %s in the configuration",
		r.Table.Schema, r.Table.Name, limit, most, r.Table.Name, r.Access, r.Reason, limit)
}

// stream runs a fill's SELECT, with the statement's parameters.
func (g *gathering) stream(ctx context.Context, conn *shard.Conn, sql string, r *plan.GatherRef, each func([][]byte) error) error {
	if len(r.Params) == 0 {
		sum, err := conn.Stream(ctx, sql, each)
		if sum.Warnings > 0 {
			g.warned.Store(true)
		}
		return err
	}
	st, err := conn.PrepareOnce(ctx, sql)
	if err != nil {
		return err
	}
	defer conn.Forget(st)
	params := make([]wire.Param, len(r.Params))
	for i, n := range r.Params {
		params[i] = g.r.params[n]
	}
	if len(st.Params) != len(params) {
		return errors.New("shard counts other parameters than the client's statement has")
	}
	sum, err := conn.StreamExecute(ctx, wire.EncodeExecute(st.ID, 0, params), each)
	if sum.Warnings > 0 {
		g.warned.Store(true)
	}
	return err
}

// streamInTransaction is stream on the transaction's connection, which must stay
// usable when the fill fails: the statement is ended, not the connection, and
// what is left of the answer is read.
func (f *filling) streamInTransaction(ctx, fctx context.Context, x *source, sql string, r *plan.GatherRef, each func([][]byte) error) error {
	pool := f.g.s.proxy.pool(x.id)
	kill := func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratch.DropTimeout)
		defer cancel()
		if err := pool.Kill(limited, x.conn.ThreadID, false); err != nil {
			f.g.s.log.Info("end a fill's statement", "shard", pool.Name(), "error", err)
		}
	}
	killed := make(chan struct{})
	stop := context.AfterFunc(fctx, func() {
		defer close(killed)
		kill()
	})
	ended := false
	err := f.g.stream(context.WithoutCancel(ctx), x.conn, sql, r, func(row [][]byte) error {
		if ended || fctx.Err() != nil {
			return nil //nolint:nilerr // the rest of the answer must be read
		}
		if each(row) != nil && !ended {
			ended = true
			if fctx.Err() == nil {
				kill()
			}
		}
		return nil
	})
	x.told, _ = errors.AsType[*shard.ServerError](err)
	asked := ended
	if !stop() {
		<-killed
		asked = true
	}
	if asked && !x.conn.Broken {
		// A KILL that came after the end would hit the next statement.
		if _, err := x.conn.Exec(context.WithoutCancel(ctx), "DO 0"); err != nil && shard.Code(err) != mysqlerr.QueryInterrupted {
			return err
		}
	}
	if fctx.Err() != nil {
		return fctx.Err()
	}
	return err
}

// write inserts batches at a place until there are no more.
func (f *filling) write(ctx context.Context, at scratch.Place, conn *shard.Conn, batches <-chan batch) error {
	for b := range batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		sum, err := conn.Exec(ctx, string(b.sql))
		switch {
		case shard.Code(err) == mysqlerr.DupEntry:
			return errDuplicate
		case err != nil:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return f.g.copyFailed(at, b.ref, err)
		case int(sum.Warnings) != min(b.zeros, 65535):
			why := "it was changed"
			if res, err := conn.Query(ctx, "SHOW WARNINGS"); err == nil && len(res.Rows) > 0 && len(res.Rows[0]) > 2 {
				why = string(res.Rows[0][2])
			}
			t := f.g.plan.Refs[b.ref].Table
			return mysqlerr.Newf(mysqlerr.UnknownError, "A row of %s.%s can't be copied to %s as it is: %s", t.Schema, t.Name, at.Name, why)
		}
	}
	return nil
}

// createFailed is why there is no scratch table.
func (g *gathering) createFailed(err error) error {
	var server *shard.ServerError
	if !errors.As(err, &server) {
		return g.serverError(err)
	}
	return mysqlerr.Error{Code: server.Code, State: server.State, Message: fmt.Sprintf("A scratch table can't be made on %s: %s", g.at.Name, server.Message)}
}

// copyFailed is an error of an INSERT into a copy.
func (g *gathering) copyFailed(at scratch.Place, ref int, err error) error {
	var server *shard.ServerError
	if !errors.As(err, &server) {
		return mysqlerr.Newf(mysqlerr.ShardLost, "Connection to %s was lost while rows were copied there: %v", at.Name, err)
	}
	t := g.plan.Refs[ref].Table
	return mysqlerr.Error{Code: server.Code, State: server.State, Message: fmt.Sprintf("%s (while rows of %s.%s were copied to %s)", g.original(server.Message), t.Schema, t.Name, at.Name)}
}
