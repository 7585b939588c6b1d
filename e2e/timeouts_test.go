package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// rest is what comes from a server that speaks without being asked, until it
// closes the connection.
func rest(c *wireConn) (string, error) {
	nc := c.Conn.Conn.Conn
	if err := nc.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	b, err := io.ReadAll(nc)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return string(b), err
	}
	return string(b), nil // the end, by a reset too
}

// TestIdleTimeout: a client that is idle for longer than its wait_timeout is told
// and closed as by a server of that kind, and what it has open is rolled back.
func TestIdleTimeout(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		srv := p.servers[0]
		idle := func(addr, user, password, schema string, statements ...string) (string, time.Duration) {
			t.Helper()
			w, err := dialWire(addr, user, password, schema)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			for _, sql := range statements {
				if _, err := w.Execute(sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			began := time.Now()
			said, err := rest(w)
			if err != nil {
				t.Errorf("the connection stays open: %v", err)
			}
			return said, time.Since(began)
		}
		wanted, _ := idle(srv.Addr(), srv.User, srv.Password, "mysql", "SET SESSION wait_timeout = 1")
		said, took := idle(p.addr, "app", "secret", p.schema, "SET SESSION wait_timeout = 1")
		if said != wanted {
			t.Errorf("an idle client is told %q, a server tells %q", said, wanted)
		}
		if took < 900*time.Millisecond || took > soon {
			t.Errorf("closed after %v, want 1s", took)
		}
		if f.name == throwaway.MySQL && !strings.Contains(said, "inactivity") {
			t.Errorf("no reason is told: %q", said)
		}

		// Its transaction is rolled back, and its locks are gone.
		idle(p.addr, "app", "secret", p.schema, "SET wait_timeout = 1", "BEGIN", "UPDATE people SET age = 1000", "SELECT * FROM people")
		mustExec(t, c, "UPDATE people SET age = age + 1 WHERE id = 3")
		want(t, c, "SELECT age FROM people WHERE id = 3", "age", "24")
		if n, _ := p.metric("shunt_idle_closed_total"); n != 2 {
			t.Errorf("shunt_idle_closed_total is %v, want 2", n)
		}

		// Who works isn't idle, however long a statement takes.
		busy := p.conn()
		mustExec(t, busy, "SET wait_timeout = 1")
		mustRows(t, busy, "SELECT SLEEP(2.5) FROM people WHERE id = 3")
		for range 8 {
			mustRows(t, busy, "SELECT id FROM people WHERE id = 3")
			time.Sleep(300 * time.Millisecond) // the pauses are what is tested
		}

		// What is SET can be asked for.
		want(t, c, "SELECT @@wait_timeout w, @@session.interactive_timeout i, @@net_read_timeout r, @@net_write_timeout n", "w i r n", "28800 28800 30 60")
		for _, x := range [][2]string{{"5", "5"}, {"0", "1"}, {"-5", "1"}, {"99999999999", "31536000"}, {"2 * 60", "120"}, {"@@net_write_timeout + 1", "61"}} {
			mustExec(t, c, "SET SESSION wait_timeout = "+x[0])
			warnings := 0
			if x[0] == "0" || x[0] == "-5" || x[0] == "99999999999" {
				warnings = 1
			}
			if rows := mustRows(t, c, "SHOW WARNINGS"); len(rows) != warnings || warnings == 1 && rows[0]["Code"] != "1292" {
				t.Errorf("SET wait_timeout = %s warns of %v", x[0], rows)
			}
			want(t, c, "SELECT @@wait_timeout", "@@wait_timeout", x[1])
			want(t, c, "SHOW SESSION VARIABLES LIKE 'wait_timeout'", "Value", x[1])
			want(t, c, "SELECT id, @@wait_timeout AS w FROM people WHERE id = 3", "id w", "3 "+x[1])
		}
		for _, bad := range []string{"'abc'", "1e3", "NULL"} {
			_, err := c.ExecContext(t.Context(), "SET wait_timeout = "+bad)
			wantError(t, err, 1232, "wait_timeout")
		}
		mustExec(t, c, "SET wait_timeout = DEFAULT")
		want(t, c, "SELECT @@wait_timeout", "@@wait_timeout", "28800")

		// A human's client has the other default.
		want(t, p.conn(interactive), "SELECT @@wait_timeout w", "w", "28800")
	})
}

// interactive connects as a client that a human uses.
func interactive(c *mysql.Config) {
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		return &flagged{Conn: conn}, err
	}
}

// flagged sets CLIENT_INTERACTIVE in the first packet that it sends, which the
// driver can't.
type flagged struct {
	net.Conn
	sent bool
}

func (f *flagged) Write(b []byte) (int, error) {
	if !f.sent {
		f.sent = true
		b = bytes.Clone(b)
		b[5] |= byte(gomysql.CLIENT_INTERACTIVE >> 8)
	}
	return f.Conn.Write(b)
}

// slowQueries are queries over people that take for ever, one for each
// form of execution.
func slowQueries() map[string]string {
	join := "%s FROM people a JOIN people b ON a.age < b.age + %d JOIN people c ON b.age < c.age + a.age JOIN people d ON c.age + %d > d.age"
	return map[string]string{
		"one shard": "SELECT id FROM people WHERE id = 3 AND (SELECT COUNT(*) FROM information_schema.columns x, information_schema.columns y, information_schema.columns z WHERE x.table_name > y.column_name) < 0",
		"scatter":   "SELECT id FROM people WHERE BENCHMARK(100000000000, SHA2(age, 256)) > 1",
		"merge":     "SELECT age, COUNT(*) FROM people WHERE BENCHMARK(100000000000, SHA2(age, 256)) = 0 GROUP BY age ORDER BY 2",
		"gather":    fmt.Sprintf("SELECT "+join, "COUNT(*)", 1000, 1000),
	}
}

// TestMaxTime: a statement ends when it takes longer than the session lets it,
// whichever way it is executed, with the server's error.
func TestMaxTime(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 2000, setup{})
		code, set, off := uint16(3024), "SET SESSION max_execution_time = 400", "SET SESSION max_execution_time = 0"
		if f.name == throwaway.MariaDB {
			code, set, off = 1969, "SET SESSION max_statement_time = 0.4", "SET SESSION max_statement_time = 0"
		}
		late := func(q queryer, name, sql string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			_, err := rowsOf(ctx, q, sql)
			if wantError(t, err, code, "exe"); time.Since(began) > soon {
				t.Errorf("%s: ended after %v", name, time.Since(began))
			}
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		for name, sql := range slowQueries() {
			if plan := routeOf(t, c, sql); name != "one shard" && name != "scatter" && plan.plan != name {
				t.Errorf("%s is planned as %+v", name, plan)
			}
			mustExec(t, c, set)
			late(c, name, sql)
			if f.name == throwaway.MySQL {
				mustExec(t, c, off)
				late(c, name+" by hint", strings.Replace(sql, "SELECT", "SELECT /*+ MAX_EXECUTION_TIME(400) */", 1))
			}
			// The session goes on.
			mustExec(t, c, off)
			want(t, c, "SELECT id FROM people WHERE id = 3", "id", "3")
			want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "2000")
		}
		// So does a transaction, but for a gather's.
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "UPDATE people SET age = 77 WHERE id = 3")
		mustExec(t, c, set)
		late(c, "one shard", slowQueries()["one shard"])
		late(c, "scatter", slowQueries()["scatter"])
		mustExec(t, c, off)
		mustExec(t, c, "COMMIT")
		want(t, c, "SELECT age FROM people WHERE id = 3", "age", "77")
		eventually(t, "nothing runs on the shards", func() bool {
			for i := range p.servers {
				if len(mustRows(t, p.shard(i), "SELECT id FROM information_schema.processlist WHERE info LIKE '%people%' AND info NOT LIKE '%processlist%' AND db IN ('"+p.schema+"', 'shunt_scratch')")) > 0 {
					return false
				}
			}
			return true
		})
	})
}

// TestQueryTimeout: the configuration's bound for reads, and none for writes.
func TestQueryTimeout(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 500, setup{extra: "query_timeout: 700ms"})
		code := uint16(3024)
		if f.name == throwaway.MariaDB {
			code = 1969
		}
		slow := slowQueries()
		slow["gather"] += " JOIN people e ON e.age < d.age + 1000"
		for name, sql := range slow {
			began := time.Now()
			_, err := rowsOf(t.Context(), c, sql)
			if wantError(t, err, code, "exe"); err == nil || time.Since(began) > soon {
				t.Errorf("%s ended after %v with %v", name, time.Since(began), err)
			}
			want(t, c, "SELECT id FROM people WHERE id = 3", "id", "3")
		}
		mustExec(t, c, "UPDATE people SET age = age + SLEEP(1.5) WHERE id = 3")
		if n, _ := p.metric("shunt_statements_late_total"); n != 4 {
			t.Errorf("shunt_statements_late_total is %v, want 4", n)
		}
	})
}

// TestKillGather: KILL ends what is copied from several shards too.
func TestKillGather(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 2000, setup{})
		victim := p.conn()
		id := mustRows(t, victim, "SELECT CONNECTION_ID() AS id")[0]["id"]
		ended := make(chan error, 1)
		go func() {
			_, err := rowsOf(t.Context(), victim, slowQueries()["gather"])
			ended <- err
		}()
		eventually(t, "the query runs", func() bool {
			return len(mustRows(t, p.shard(0), "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT COUNT%shunt_scratch%'")) > 0 ||
				len(mustRows(t, p.shard(1), "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT COUNT%shunt_scratch%'")) > 0 ||
				len(mustRows(t, p.shard(2), "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT COUNT%shunt_scratch%'")) > 0 ||
				len(mustRows(t, p.shard(3), "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT COUNT%shunt_scratch%'")) > 0
		})
		mustExec(t, c, "KILL QUERY "+id)
		select {
		case err := <-ended:
			wantError(t, err, 1317, "interrupted")
		case <-time.After(20 * time.Second):
			t.Fatal("the query goes on")
		}
		want(t, victim, "SELECT id FROM people WHERE id = 3", "id", "3")
	})
}

// TestStalledReader: a client that stops reading in the middle of an answer is
// cut off after its net_write_timeout, and its shard connections serve others.
func TestStalledReader(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 400, setup{extra: "shard_connections: 1"})
		for _, query := range []string{
			"SELECT REPEAT('x', 300000) FROM people WHERE id = 3 OR age > 0",
			"SELECT age, REPEAT('x', 300000) FROM people ORDER BY age",
		} {
			w := dialClassic(t, p.addr, "app", "secret", p.schema)
			if _, err := w.Execute("SET SESSION net_write_timeout = 1"); err != nil {
				t.Fatal(err)
			}
			if tcp, ok := w.Conn.Conn.Conn.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(64 << 10)
			}
			w.say(t, gomysql.COM_QUERY, []byte(query))
			inUse := func() float64 {
				n, _ := p.metric("shunt_shard_connections", `state="in_use"`)
				return n
			}
			eventually(t, "the answer is under way", func() bool { return inUse() > 0 })
			began := time.Now()
			var n sql.NullInt64
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			if err := c.QueryRowContext(ctx, "SELECT COUNT(*) FROM people").Scan(&n); err != nil || n.Int64 != 400 {
				t.Errorf("%v, %v", n, err)
			}
			cancel()
			t.Logf("free after %v", time.Since(began).Round(time.Millisecond))
			eventually(t, "no shard connection is in use", func() bool { return inUse() == 0 })
			w.Close()
		}
		// One that stops in the middle of what it sends ends after net_read_timeout.
		w, err := dialWire(p.addr, "app", "secret", p.schema)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := w.Execute("SET SESSION net_read_timeout = 1"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("\xff\x00\x00\x00\x03SELECT 1 /*")); err != nil {
			t.Fatal(err)
		}
		said, err := rest(w)
		if err != nil || !strings.Contains(said, "timeout") {
			t.Errorf("%q, %v", said, err)
		}
	})
}

// TestSlowCommand: net_read_timeout is for each piece of what a client sends, not for all of
// it.
func TestSlowCommand(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, gomysql.CLIENT_LOCAL_FILES)
		p.query("SET net_read_timeout = 2")
		send := func(c *packetClient, seq byte, payload string) {
			n := len(payload)
			for piece := range slices.Chunk(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, payload...), n/7) {
				time.Sleep(500 * time.Millisecond)
				if _, err := c.nc.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			c.seq = seq + 1
		}
		p.both("a slow command", func(c *packetClient) string {
			send(c, 0, "\x03SELECT 'x' /*"+strings.Repeat("y", 100_000)+"*/")
			return c.answer()
		})
		c := p.shunt // MySQL's local_infile is off
		c.say(gomysql.COM_QUERY, []byte("LOAD DATA LOCAL INFILE 'x' INTO TABLE people (id)"))
		c.packet()
		send(c, 2, "7\n"+strings.Repeat("8\n", 20_000))
		c.write(nil)
		if got := c.answer(); !strings.HasPrefix(got, "OK 00 2 ") {
			t.Errorf("a slow file: %s", got)
		}
	})
}
