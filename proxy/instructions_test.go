package proxy

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/go-mysql-org/go-mysql/mysql"
	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/bench/instructions"
	"github.com/shunt-sql/shunt/planner/catalog"
	sqltext "github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/insights"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/tracing"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// TestStatementInstructions: a session that does more for a statement is noticed. Counted is
// all that is done for one, from the client's packet to its answer, but for the kernel, Go's
// poller and the store; a sixth less was measured.
func TestStatementInstructions(t *testing.T) {
	for _, c := range []struct {
		name, sql string
		prepared  bool
		rows      int
		most      int
	}{
		{"by key, text", "SELECT email FROM people WHERE id = 505", false, 1, 13200},
		{"by key, prepared", "SELECT email FROM people WHERE id = ?", true, 1, 13600},
		{"by index, text", "SELECT email FROM people WHERE email = 'someone@x.org'", false, 1, 13100},
		{"by index, prepared", "SELECT email FROM people WHERE email = ?", true, 1, 14000},
		{"101 rows", "SELECT email FROM people WHERE id = 505 AND email > 'a'", false, 101, 21000},
		{"transaction, select, text", "BEGIN; SELECT email FROM people WHERE id = 505", false, 1, 11900},
		{"transaction, select, prepared", "BEGIN; SELECT email FROM people WHERE id = ?", true, 1, 12300},
		{"transaction, update, text", "BEGIN; UPDATE people SET city = 'Bern' WHERE id = 505", false, 0, 16500},
		{"transaction, update, prepared", "BEGIN; UPDATE people SET city = 'Bern' WHERE id = ?", true, 0, 16300},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := replayed(t, c.sql, c.prepared, c.rows, 100)
			instructions.Check(t, c.most, next)
		})
	}
}

// replayed executes a statement over connections to nobody, as often as it is called: the client
// sends, and the shard answers, what they did when a driver executed it. Behind "BEGIN; " it is one of a transaction.
func replayed(t testing.TB, text string, prepared bool, rows, shapes int, change ...func(*Proxy)) func() {
	ctx := t.Context()
	toShard, toClient := &tape{}, &tape{}
	pool := shard.New(shard.Config{Name: "s0", Addr: "shard:1", User: "root", Connect: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go answering(far, rows)
		toShard.Conn = near
		return toShard, nil
	}}, shard.Options{Now: func() time.Time { // of a connection that rested no connection asks for a sign of life
		_ = time.Now()
		return time.Unix(1e9, 0)
	}})
	shards := []catalog.Shard{{ID: 0, Name: "s0"}}
	dir := schema.NewDirectory(schema.DirectoryOptions{Shards: shards, Logger: slog.New(slog.DiscardHandler)})
	dir.Put(observedCatalog(shards, 1, "by_email"))
	p := New(Options{
		Users: map[string]User{"root": {}}, Directory: dir, Pools: map[catalog.ShardID]*shard.Pool{0: pool}, Cluster: &alone{}, Index: noIndex{},
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Shapes: shapes,
	})
	p.SetLimits(Limits{Prepared: 1})
	for _, change := range change {
		change(p)
	}
	near, far := net.Pipe()
	toClient.Conn = near
	s := &session{proxy: p, log: slog.New(slog.DiscardHandler)}
	text, within := strings.CutPrefix(text, "BEGIN; ")
	commands := 2 // which the driver sends below
	if prepared {
		commands++
	}
	if within {
		commands++
	}
	done := make(chan error, 1)
	go func() {
		conn, err := wire.Accept(ctx, toClient, wire.Options{ServerVersion: "9.7.4", ConnectionID: 1, Users: p.user})
		if err == nil {
			s.client = conn
			s.activity.client = conn
			s.welcome(ctx)
			for range commands {
				s.next(ctx)
			}
		}
		done <- err
	}()
	cfg := mysqldriver.NewConfig()
	cfg.User, cfg.DBName, cfg.Net, cfg.Addr = "root", "shop", "tcp", "shunt:1"
	cfg.DialFunc = func(context.Context, string, string) (net.Conn, error) { return far, nil }
	connector, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := sql.OpenDB(connector).Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if within {
		if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
			t.Fatal(err)
		}
	}
	query := func() (*sql.Rows, error) { return conn.QueryContext(ctx, text) }
	if prepared {
		stmt, err := conn.PrepareContext(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		var arg any = int64(505)
		if strings.Contains(text, "email =") {
			arg = "someone@x.org"
		}
		query = func() (*sql.Rows, error) { return stmt.QueryContext(ctx, arg) }
	}
	for range 2 {
		got, err := query()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for got.Next() {
			n++
		}
		if got.Close(); got.Err() != nil || n != rows {
			t.Fatal(n, got.Err())
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if p.insights != nil { // a time of another magnitude makes room, which is no part of a statement
		shape := p.insights.Name(0, "shop", sqltext.Digest(text, sqltext.Settings{Charset: "utf8mb4"}, maxDigest))
		for took := time.Microsecond; took < time.Hour; took *= 2 {
			p.insights.Observe(shape, &insights.Execution{Took: took, Parts: []insights.Part{{Shard: 0, Took: took}}})
		}
	}
	toShard.replay, toClient.replay = true, true
	return func() {
		toClient.at, toClient.written = 0, 0
		if !s.next(ctx) || toClient.written < rows*10 {
			t.Error("no answer", toClient.written)
		}
	}
}

// tape is a connection that keeps what it last gave to its reader in answer to a write, and
// gives it again once it is to replay.
type tape struct {
	net.Conn
	last        []byte
	at, written int
	replay      bool
	wrote       bool
}

func (c *tape) Read(p []byte) (int, error) {
	if c.replay {
		n := copy(p, c.last[c.at:])
		c.at += n
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if c.wrote {
		c.wrote, c.last = false, nil
	}
	c.last = append(c.last, p[:n]...)
	return n, err
}

func (c *tape) Write(p []byte) (int, error) {
	if c.replay {
		c.written += len(p)
		c.at = 0
		return len(p), nil
	}
	c.wrote = true
	return c.Conn.Write(p)
}

func (c *tape) SetDeadline(t time.Time) error {
	if c.replay {
		return nil
	}
	return c.Conn.SetDeadline(t)
}
func (c *tape) SetReadDeadline(t time.Time) error  { return c.SetDeadline(t) }
func (c *tape) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }

// answering is a shard that has rows for each SELECT, of one text column.
func answering(nc net.Conn, rows int) {
	defer nc.Close()
	c, err := wire.Accept(context.Background(), nc, wire.Options{
		ServerVersion: "9.7.4", ConnectionID: 1,
		Users: func(string) (wire.Credential, bool) { return wire.Credential{}, true },
	})
	if err != nil || c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT}) != nil || c.Flush() != nil {
		return
	}
	col := wire.TextColumn("email")
	col.Schema, col.Table, col.OrgTable, col.OrgName = "shop", "people", "people", "email"
	value := strings.Repeat("x", 50)
	status, updates := mysql.SERVER_STATUS_AUTOCOMMIT, false
	for {
		command, payload, err := c.ReadCommand()
		if err != nil {
			return
		}
		switch {
		case bytes.HasPrefix(payload, []byte("BEGIN")):
			status |= mysql.SERVER_STATUS_IN_TRANS
			err = c.WriteOK(wire.OK{Status: status})
		case command == mysql.COM_STMT_PREPARE:
			var params [][]byte
			var defined [][]byte
			if updates = !bytes.HasPrefix(payload, []byte("SELECT")); !updates {
				defined = [][]byte{col.Append(nil)}
			}
			for range bytes.Count(payload, []byte("?")) {
				param := wire.TextColumn("?")
				params = append(params, param.Append(nil))
			}
			err = c.WritePrepareOK(wire.PrepareOK{StatementID: 1}, params, defined, status)
		case command == mysql.COM_STMT_EXECUTE && !updates:
			err = c.WriteColumns([]wire.Column{col}, status)
			for range rows {
				err = errors.Join(err, c.WritePacket(wire.AppendLenBytes([]byte{0, 0}, value)))
			}
			err = errors.Join(err, c.WriteEnd(status, 0))
		case bytes.HasPrefix(payload, []byte("SELECT email")):
			all := make([][]any, rows)
			for i := range all {
				all[i] = []any{value}
			}
			err = c.WriteResult([]wire.Column{col}, all, status, 0)
		default:
			err = c.WriteOK(wire.OK{Status: status})
		}
		if err != nil || c.Flush() != nil {
			return
		}
	}
}

// noIndex is an index that needs nothing to be done, and has every key on the first shard.
type noIndex struct{ Index }

func (noIndex) Lookup(*catalog.Index, []byte, [][]byte) (catalog.ShardSet, error) {
	return catalog.Only(0), nil
}
func (noIndex) Passing(context.Context, Open) plan.Indexes { return nil }
func (noIndex) Prepare(context.Context, Open, []plan.Entry, []plan.Mark, []*catalog.Table, catalog.ShardSet) error {
	return nil
}
func (noIndex) Removals() uint64                                         { return 0 }
func (noIndex) Begin(catalog.ShardSet) Open                              { return noIndex{} }
func (noIndex) Extend(catalog.ShardSet)                                  {}
func (noIndex) End()                                                     {}
func (noIndex) Observe([]plan.Probe, catalog.ShardSet, catalog.ShardSet) {}
func (noIndex) After([]plan.Maintenance)                                 {}
func (noIndex) Writes(*plan.Change, catalog.ShardSet)                    {}
func (noIndex) Fits(catalog.ShardID, *shard.Conn) bool                   { return true }
func (noIndex) DDLInDoubt(catalog.ShardID, *shard.Conn)                  {}
func (noIndex) InDoubt(catalog.ShardID, *shard.Conn, []plan.Maintenance) {}

// BenchmarkStatementStatistics is what a statement costs with and without them, but for the kernel.
func BenchmarkStatementStatistics(b *testing.B) {
	for name, shapes := range map[string]int{"on": 100, "off": 0} {
		b.Run(name, func(b *testing.B) {
			next := replayed(b, "SELECT email FROM people WHERE id = 505", false, 1, shapes)
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
		})
	}
}

// BenchmarkTracing is what a statement costs with and without it, but for the kernel and what sends the spans.
func BenchmarkTracing(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	for name, sample := range map[string]float64{"off": -1, "0": 0, "1 in 100": 0.01, "all": 1} {
		b.Run(name, func(b *testing.B) {
			next := replayed(b, "SELECT email FROM people WHERE id = 505", false, 1, 100, func(p *Proxy) {
				if sample < 0 {
					return
				}
				tracer, err := tracing.New(b.Context(), tracing.Options{Endpoint: collector.URL, Sample: sample, Service: "shunt", Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = tracer.Close(context.WithoutCancel(b.Context())) })
				p.SetTracer(tracer)
			})
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
		})
	}
}
