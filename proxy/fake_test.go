package proxy

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/deadlock"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// fakes is a proxy that serves clients before fake shards. Its catalog is observedCatalog with a
// further schema, "other", and without virtual indexes.
type fakes struct {
	t      *testing.T
	p      *Proxy
	l      net.Listener
	shards []*fakeShard
	log    lockedBuffer
	gauges *prometheus.Registry
}

// fakeOptions are those of pools.
type fakeOptions struct {
	shard.Options
	// silence is after what time without an answer a shard counts as dead; 0: never.
	silence time.Duration
}

// serve starts a proxy before n shards; for none there is one that nobody can reach, so that a test
// can be in a bubble of testing/synctest. change, if any, changes the options.
func serve(t *testing.T, n int, of fakeOptions, change ...func(*Options)) *fakes {
	t.Helper()
	s := &fakes{t: t, gauges: prometheus.NewRegistry()}
	serving, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	var shards []catalog.Shard
	o := Options{
		Users: map[string]User{"root": {}}, Pools: map[catalog.ShardID]*shard.Pool{}, Cluster: &alone{}, Admin: noIndexes{},
		Limits: Limits{Prepared: 100}, Logger: slog.New(slog.NewTextHandler(&s.log, nil)), Metrics: s.gauges,
	}
	of.Logger = o.Logger
	if n == 0 {
		shards = []catalog.Shard{{Name: "s0"}}
		o.Pools[0] = shard.New(shard.Config{Name: "s0", Addr: "127.0.0.1:1", User: "root"}, of.Options)
	}
	for id := range catalog.ShardID(n) {
		f := newFakeShard(t, fmt.Sprint("s", id))
		s.shards = append(s.shards, f)
		shards = append(shards, catalog.Shard{ID: id, Name: f.name})
		conf := shard.Config{Name: f.name, Addr: f.l.Addr().String(), User: "root"}
		if of.silence > 0 {
			conf.Health = shard.NewHealth(conf, shard.HealthOptions{Timeout: of.silence})
			all.Go(func() { conf.Health.Run(serving) })
		}
		o.Pools[id] = shard.New(conf, of.Options)
	}
	o.Directory = schema.NewDirectory(schema.DirectoryOptions{
		Shards: shards, Logger: o.Logger,
		Open: func(context.Context, catalog.ShardID) (schema.Querier, func(), error) { return nil, nil, errCut },
	})
	c := observedCatalog(shards, 1)
	secrets := *c.Schemas["shop"].Tables["people"]
	secrets.Schema, secrets.Name = "other", "secrets"
	c.Schemas["other"] = &catalog.Schema{Name: "other", Tables: map[string]*catalog.Table{"secrets": &secrets}}
	o.Directory.Put(c)
	index := &observed{t: t, conns: map[deadlock.Thread]*observedConn{}}
	o.Index = index
	for _, change := range change {
		change(&o)
	}
	s.p = New(o)
	index.p = s.p
	s.l = fakeListener{make(chan net.Conn), make(chan struct{})}
	if n > 0 {
		var err error
		if s.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	all.Go(func() { _ = s.p.Serve(serving, s.l) })
	all.Go(func() { s.p.LookOut(serving) })
	all.Go(func() { s.p.EndVanished(serving) })
	t.Cleanup(func() {
		for _, f := range s.shards {
			f.thaw()
		}
		s.l.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.p.Drain(ctx); err != nil {
			t.Error(err)
		}
		end()
		all.Wait()
		for _, pool := range o.Pools {
			pool.Close(ctx)
		}
	})
	return s
}

// noIndexes has no virtual indexes, and makes none.
type noIndexes struct{ IndexAdmin }

func (noIndexes) IndexRows() []IndexRow                           { return nil }
func (noIndexes) JobRows() []JobRow                               { return nil }
func (noIndexes) Writable() error                                 { return nil }
func (noIndexes) BeforeDDL(context.Context, *plan.DDL) error      { return nil }
func (noIndexes) AfterDDL(context.Context, *plan.DDL, bool) error { return nil }

// open is a pool of connections of a user's, with `shop` as their schema.
func (s *fakes) open(user, password string, change ...func(*mysqldriver.Config)) *sql.DB {
	s.t.Helper()
	c := mysqldriver.NewConfig()
	c.User, c.Passwd, c.DBName = user, password, "shop"
	c.DialFunc = s.dial
	for _, change := range change {
		change(c)
	}
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		s.t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	s.t.Cleanup(func() { db.Close() })
	return db
}

// conn is one connection of the user root.
func (s *fakes) conn() *sql.Conn { return s.connOf("root", "") }

func (s *fakes) connOf(user, password string) *sql.Conn {
	s.t.Helper()
	c, err := s.open(user, password).Conn(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// dial is a client's connection: a pipe, where there are no shards.
func (s *fakes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l, piped := s.l.(fakeListener)
	if !piped {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.l.Addr().String())
	}
	near, far := net.Pipe()
	select {
	case l.clients <- fakeConn{far}:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fakeListener has clients in this process.
type fakeListener struct {
	clients chan net.Conn
	closed  chan struct{}
}

func (l fakeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.clients:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l fakeListener) Close() error {
	close(l.closed)
	return nil
}

func (fakeListener) Addr() net.Addr { return fakeAddr }

// fakeConn comes from an address of this machine.
type fakeConn struct{ net.Conn }

func (fakeConn) RemoteAddr() net.Addr { return fakeAddr }
func (fakeConn) LocalAddr() net.Addr  { return fakeAddr }

var fakeAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3306}

// answer has a statement, known by how it begins, answered so by all shards.
func (s *fakes) answer(begins string, a fakeAnswer) {
	for _, f := range s.shards {
		f.answer(begins, a)
	}
}

// ids has a query answered with the rows (id, id%7), each of n ids by one of the shards, whose they
// are returned by shard.
func (s *fakes) ids(begins string, n int) (on [][]int) {
	on = make([][]int, len(s.shards))
	for id := range n {
		on[id%len(on)] = append(on[id%len(on)], id)
	}
	for i, f := range s.shards {
		a := fakeAnswer{columns: []string{"#id", "#v"}}
		for _, id := range on[i] {
			a.rows = append(a.rows, []any{id, id % 7})
		}
		f.answer(begins, a)
	}
	return on
}

// metric is the sum of a metric's values whose labels have all of these values.
func (s *fakes) metric(name string, labels ...string) (sum float64) {
	s.t.Helper()
	families, err := s.gauges.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetValue())
			}
			if f.GetName() == name && !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// inUse is how many connections to shards sessions have.
func (s *fakes) inUse() (n int) {
	for _, p := range s.p.opts.Pools {
		n += p.Stats().InUse
	}
	return n
}

// idOf is the number of the connection that is at a statement.
func (s *fakes) idOf(statement string) uint32 {
	for _, p := range s.p.processes() {
		if strings.HasPrefix(p.info, statement) {
			return p.id
		}
	}
	return 0
}

// lockedBuffer is a log that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// fakeAnswer is what a shard answers a statement with: OK without columns and error.
type fakeAnswer struct {
	// columns are as columns() has them.
	columns []string
	rows    [][]any
	err     mysqlerr.Error
	// until, if there is one, is waited for first: that it is closed, or that the statement is killed,
	// which is answered with 1317.
	until <-chan struct{}
}

// fakeShard is a server that answers statements by a table, and all others with OK.
type fakeShard struct {
	name string
	l    net.Listener
	wg   sync.WaitGroup

	mu      sync.Mutex
	answers []fakeRule
	threads map[uint32]*fakeThread
	// got are the statements, with the numbers of their threads.
	got []fakeStatement
	// frozen, if there is one, holds up whatever comes until it is closed.
	frozen chan struct{}
}

// ownThread in a row is the number of the connection that is answered.
type ownThread struct{}

type fakeRule struct {
	begins string
	fakeAnswer
}

type fakeStatement struct {
	thread uint32
	text   string
}

// fakeThread is a connection.
type fakeThread struct {
	nc net.Conn
	// at is the statement that waits, killed is closed when that is killed.
	at     string
	killed chan struct{}
	begun  bool
	// prepared are the statements by number.
	prepared []string
}

func newFakeShard(t *testing.T, name string) *fakeShard {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeShard{name: name, l: l, threads: map[uint32]*fakeThread{}}
	f.wg.Go(func() {
		for id := uint32(1); ; id++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { f.serve(nc, id) })
		}
	})
	t.Cleanup(func() {
		f.die()
		f.wg.Wait()
	})
	return f
}

// die ends the server.
func (f *fakeShard) die() {
	f.thaw()
	f.l.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, th := range f.threads {
		th.nc.Close()
		f.killLocked(th)
	}
}

// answer has a statement, known by how it begins, answered so. What was said last counts.
func (f *fakeShard) answer(begins string, a fakeAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = append(f.answers, fakeRule{begins, a})
}

// hold has a statement that is answered by the table wait until release.
func (f *fakeShard) hold(begins string) (release func()) {
	held := make(chan struct{})
	a := f.ruleFor(begins)
	a.until = held
	f.answer(begins, a)
	return sync.OnceFunc(func() {
		a.until = nil
		f.answer(begins, a)
		close(held)
	})
}

// freeze has the server say nothing any more, be it to new clients, until it is thawed.
func (f *fakeShard) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = make(chan struct{})
}

func (f *fakeShard) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen != nil {
		close(f.frozen)
		f.frozen = nil
	}
}

// solid waits while the server is frozen.
func (f *fakeShard) solid() {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

func (f *fakeShard) ruleFor(text string) fakeAnswer {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range slices.Backward(f.answers) {
		if strings.HasPrefix(text, r.begins) {
			return r.fakeAnswer
		}
	}
	return fakeAnswer{}
}

// at is the connection whose statement waits that begins so.
func (f *fakeShard) at(begins string) *fakeThread {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, th := range f.threads {
		if th.at != "" && strings.HasPrefix(th.at, begins) {
			return th
		}
	}
	return nil
}

// has reports whether a connection is open.
func (f *fakeShard) has(th *fakeThread) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(slices.Collect(maps.Values(f.threads)), th)
}

// waiting says how many statements wait that begin so.
func (f *fakeShard) waiting(begins string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, th := range f.threads {
		if th.at != "" && strings.HasPrefix(th.at, begins) {
			n++
		}
	}
	return n
}

// count says how many statements have come that begin so.
func (f *fakeShard) count(begins string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, st := range f.got {
		if strings.HasPrefix(st.text, begins) {
			n++
		}
	}
	return n
}

func (f *fakeShard) serve(nc net.Conn, id uint32) {
	defer nc.Close()
	f.solid()
	c, err := wire.Accept(context.Background(), nc, wire.Options{
		ServerVersion: "9.7.4", ConnectionID: id,
		Users: func(string) (wire.Credential, bool) { return wire.Credential{}, true },
	})
	if err != nil {
		return
	}
	th := &fakeThread{nc: nc}
	f.mu.Lock()
	f.threads[id] = th
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.threads, id)
	}()
	if c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT}) != nil || c.Flush() != nil {
		return
	}
	for {
		cmd, payload, err := c.ReadCommand()
		f.solid()
		switch {
		case err != nil || cmd == mysql.COM_QUIT:
			return
		case cmd == mysql.COM_QUERY:
			err = f.execute(c, id, th, string(payload), false)
		case cmd == mysql.COM_STMT_PREPARE:
			err = f.prepare(c, th, string(payload))
		case cmd == mysql.COM_STMT_EXECUTE:
			err = f.execute(c, id, th, th.prepared[binary.LittleEndian.Uint32(payload)-1], true)
		case cmd == mysql.COM_STMT_CLOSE, cmd == mysql.COM_STMT_SEND_LONG_DATA:
			continue
		default:
			err = c.WriteOK(wire.OK{Status: th.status()})
		}
		if err != nil || c.Flush() != nil {
			return
		}
	}
}

func (th *fakeThread) status() uint16 {
	if th.begun {
		return mysql.SERVER_STATUS_AUTOCOMMIT | mysql.SERVER_STATUS_IN_TRANS
	}
	return mysql.SERVER_STATUS_AUTOCOMMIT
}

func (f *fakeShard) prepare(c *wire.Conn, th *fakeThread, text string) error {
	th.prepared = append(th.prepared, text)
	define := func(cols []wire.Column) (out [][]byte) {
		for i := range cols {
			out = append(out, cols[i].Append(nil))
		}
		return out
	}
	params := slices.Repeat([]string{"?"}, strings.Count(text, "?"))
	return c.WritePrepareOK(wire.PrepareOK{StatementID: uint32(len(th.prepared))}, define(columns(params...)), define(columns(f.ruleFor(text).columns...)), th.status())
}

func (f *fakeShard) execute(c *wire.Conn, id uint32, th *fakeThread, text string, prepared bool) error {
	a, killed := f.ruleFor(text), make(chan struct{})
	f.mu.Lock()
	f.got = append(f.got, fakeStatement{id, text})
	if a.until != nil {
		th.at, th.killed = text, killed
	}
	f.mu.Unlock()
	var victim uint32
	switch word, _, _ := strings.Cut(text, " "); {
	case word == "KILL":
		_, number, _ := strings.Cut(strings.TrimPrefix(text, "KILL QUERY"), " ")
		if _, err := fmt.Sscan(number, &victim); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		f.mu.Lock()
		if v := f.threads[victim]; v != nil {
			f.killLocked(v)
		}
		f.mu.Unlock()
	case word == "BEGIN", word == "START":
		th.begun = true
	case word == "COMMIT", text == "ROLLBACK":
		th.begun = false
	}
	if a.until != nil {
		select {
		case <-a.until:
		case <-killed:
			a = fakeAnswer{err: mysqlerr.New(mysqlerr.QueryInterrupted, "Query execution was interrupted")}
		}
		f.mu.Lock()
		th.at, th.killed = "", nil
		f.mu.Unlock()
		f.solid()
	}
	for i, row := range a.rows {
		if at := slices.Index(row, any(ownThread{})); at >= 0 {
			a.rows = slices.Clone(a.rows)
			a.rows[i] = slices.Clone(row)
			a.rows[i][at] = id
		}
	}
	cols := columns(a.columns...)
	switch {
	case a.err.Code != 0:
		return c.WriteError(a.err)
	case len(cols) == 0:
		return c.WriteOK(wire.OK{Status: th.status()})
	case prepared:
		if err := c.WriteColumns(cols, th.status()); err != nil {
			return err
		}
		for _, row := range a.rows {
			values := make([]byte, 1+wire.NullsLen(len(row)))
			for i, v := range row {
				values = wire.AppendBinary(values, cols[i].Type, fmt.Sprint(v))
			}
			if err := c.WritePacket(values); err != nil {
				return err
			}
		}
		return c.WriteEnd(th.status(), 0)
	}
	return c.WriteResult(cols, a.rows, th.status(), 0)
}

func (f *fakeShard) killLocked(th *fakeThread) {
	if th.killed != nil {
		close(th.killed)
		th.killed = nil
	}
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// queryer is a connection, a transaction or a pool of connections.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// rowsOf are a query's rows, their values with blanks between.
func rowsOf(ctx context.Context, q queryer, query string, args ...any) (out []string, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		var row []string
		for _, v := range values {
			if !v.Valid {
				v.String = "NULL"
			}
			row = append(row, v.String)
		}
		out = append(out, strings.Join(row, " "))
	}
	return out, rows.Err()
}

// answers checks that a query answers these rows, in any order.
func answers(t *testing.T, q queryer, query string, rows ...string) {
	t.Helper()
	got, err := rowsOf(t.Context(), q, query)
	if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(rows))) {
		t.Errorf("%s: %q, %v; want %q", query, got, err, rows)
	}
}

// fails checks that a statement fails with a code, and an error that has the text.
func fails(t *testing.T, q queryer, query string, code uint16, text string) {
	t.Helper()
	_, err := rowsOf(t.Context(), q, query)
	failed(t, query, err, code, text)
}

// errorOf is the code that a client was told, 0 for none, and the error.
func errorOf(err error) (uint16, error) {
	e, _ := errors.AsType[*mysqldriver.MySQLError](err)
	if e == nil {
		return 0, err
	}
	return e.Number, err
}

func failed(t *testing.T, what string, err error, code uint16, text string) {
	t.Helper()
	if got, _ := errorOf(err); got != code || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want error %d with %q", what, err, code, text)
	}
}
