package shard

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// realServer is a MySQL or MariaDB that the tests may do anything to.
type realServer struct {
	name, addr string
	schema     string // the test's own
}

func (s realServer) config() Config {
	return Config{Name: s.name, Addr: s.addr, User: "root", ConnectTimeout: 20 * time.Second}
}

var schemas atomic.Int64

// eachServer runs fn against MySQL and MariaDB, in a schema of its own.
func eachServer(t *testing.T, fn func(t *testing.T, s realServer)) {
	t.Helper()
	for _, s := range []struct{ name, env string }{
		{"mysql", "SHUNT_TEST_MYSQL"},
		{"mariadb", "SHUNT_TEST_MARIADB"},
	} {
		t.Run(s.name, func(t *testing.T) {
			addr := os.Getenv(s.env)
			if addr == "" {
				t.Skipf("set %s=127.0.0.1:port to a server whose root has no password", s.env)
			}
			srv := realServer{name: s.name, addr: addr, schema: fmt.Sprintf("shunt_%d_%d", os.Getpid(), schemas.Add(1))}
			c := dialReal(t, srv, false)
			mustExec(t, c, "CREATE DATABASE "+srv.schema)
			t.Cleanup(func() {
				c, err := Dial(within(t), srv.config(), false)
				if err == nil {
					_, err = c.Exec(within(t), "DROP DATABASE "+srv.schema)
					_ = c.Close()
				}
				if err != nil {
					t.Error(err)
				}
			})
			fn(t, srv)
		})
	}
}

func dialReal(t *testing.T, s realServer, foundRows bool) *Conn {
	t.Helper()
	c, err := Dial(within(t), s.config(), foundRows)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// dialSchema connects with the test's schema as the current one.
func dialSchema(t *testing.T, s realServer) *Conn {
	t.Helper()
	c := dialReal(t, s, false)
	if err := c.InitDB(within(t), s.schema); err != nil {
		t.Fatal(err)
	}
	return c
}

func mustExec(t *testing.T, c *Conn, queries ...string) {
	t.Helper()
	for _, q := range queries {
		if _, err := c.Exec(within(t), q); err != nil {
			t.Fatalf("%.200s: %v", q, err)
		}
	}
}

// one returns the first value of the first row.
func one(t *testing.T, c *Conn, q string) string {
	t.Helper()
	res, err := c.Query(within(t), q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	if len(res.Rows) == 0 {
		t.Fatalf("%s: no rows", q)
	}
	return string(res.Rows[0][0])
}

// numbers makes a table n of the ids 1 to count, with a pad of 50 bytes.
func numbers(t *testing.T, c *Conn, count int) {
	t.Helper()
	mustExec(t, c, "CREATE TABLE n (id INT PRIMARY KEY, pad VARCHAR(100) NOT NULL)")
	for from := 1; from <= count; from += 1000 {
		var q strings.Builder
		q.WriteString("INSERT INTO n VALUES ")
		for id := from; id < from+1000 && id <= count; id++ {
			if id > from {
				q.WriteByte(',')
			}
			fmt.Fprintf(&q, "(%d, REPEAT('x', 50))", id)
		}
		mustExec(t, c, q.String())
	}
}

func TestDialReal(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialReal(t, s, false)
		if id := one(t, c, "SELECT CONNECTION_ID()"); id != fmt.Sprint(c.ThreadID) {
			t.Errorf("thread %d, the server says %s", c.ThreadID, id)
		}
		if v := one(t, c, "SELECT VERSION()"); v != c.ServerVersion || c.MariaDB != (s.name == "mariadb") {
			t.Errorf("version %q, the server says %q", c.ServerVersion, v)
		}
		// From 11.5 on MariaDB takes the number of what was the default for what is.
		if cs := one(t, c, "SELECT CONCAT_WS(' ', @@character_set_client, @@character_set_results, @@collation_connection)"); cs != "utf8mb4 utf8mb4 utf8mb4_general_ci" && cs != "utf8mb4 utf8mb4 utf8mb4_uca1400_ai_ci" {
			t.Errorf("character set %s", cs)
		}
		// Characters of four bytes come back as they were sent.
		if v := one(t, c, "SELECT '\U0001F600é'"); v != "\U0001F600é" {
			t.Errorf("got %q", v)
		}
		var refused *ServerError
		cfg := s.config()
		cfg.User, cfg.Password = "nobody_here", "wrong"
		if _, err := Dial(within(t), cfg, false); !errors.As(err, &refused) || refused.Code != 1045 || refused.State != "28000" {
			t.Errorf("wrong password: %v", err)
		}
		if _, err := c.Exec(within(t), "SELECT 1; SELECT 2"); !errors.As(err, &refused) || refused.Code != 1064 {
			t.Errorf("two statements in one: %v", err)
		}
		if _, err := c.Exec(within(t), "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE "+s.schema+".x"); !errors.As(err, &refused) {
			t.Errorf("LOAD DATA LOCAL: %v", err)
		}
		if err := c.Ping(within(t)); err != nil {
			t.Error(err)
		}
		if socket := one(t, c, "SELECT @@socket"); fileExists(socket) {
			cfg := s.config()
			cfg.Addr = socket
			u, err := Dial(within(t), cfg, false)
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			if err := u.Ping(within(t)); err != nil {
				t.Error(err)
			}
		}
	})
}

func fileExists(path string) bool { _, err := os.Stat(path); return err == nil }

func TestPlugins(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		root := dialReal(t, s, false)
		ways := map[string]string{"default": "IDENTIFIED BY 'se cret'"}
		if s.name == "mysql" {
			ways["caching_sha2_password"] = "IDENTIFIED WITH caching_sha2_password BY 'se cret'"
			if one(t, root, "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'sha256_password'") == "1" {
				ways["sha256_password"] = "IDENTIFIED WITH sha256_password BY 'se cret'"
			}
		} else {
			ways["mysql_native_password"] = "IDENTIFIED VIA mysql_native_password USING PASSWORD('se cret')"
		}
		// The host that root comes from: elsewhere an anonymous account of a
		// fresh MariaDB would come first.
		host := one(t, root, "SELECT SUBSTRING_INDEX(USER(), '@', -1)")
		for plugin, how := range ways {
			user := s.schema + plugin[:3]
			mustExec(t, root, fmt.Sprintf("CREATE USER '%s'@'%s' %s", user, host, how))
			defer mustExec(t, root, fmt.Sprintf("DROP USER '%s'@'%s'", user, host))
			cfg := s.config()
			cfg.User, cfg.Password = user, "se cret"
			secure := cfg
			secure.TLS = &tls.Config{InsecureSkipVerify: true}
			for name, cfg := range map[string]Config{"first": cfg, "cached": cfg, "TLS": secure} {
				if cfg.TLS != nil && s.name == "mariadb" {
					continue // 10.11 makes no certificate of its own
				}
				c, err := Dial(within(t), cfg, true)
				if err != nil {
					t.Errorf("%s, %s: %v", plugin, name, err)
					continue
				}
				if got := one(t, c, "SELECT CURRENT_USER()"); got != user+"@"+host {
					t.Errorf("%s, %s: %s", plugin, name, got)
				}
				if cipher, err := c.Query(within(t), "SHOW STATUS LIKE 'Ssl_cipher'"); err != nil || (len(cipher.Rows[0][1]) > 0) != (cfg.TLS != nil) {
					t.Errorf("%s, %s: cipher %v, %v", plugin, name, cipher, err)
				}
				if !c.alive() {
					t.Errorf("%s, %s: an idle connection is taken for dead", plugin, name)
				}
				_ = c.Close()
			}
		}
	})
}

func TestFoundRows(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		numbers(t, c, 1)
		q := "UPDATE " + s.schema + ".n SET pad = pad"
		if sum, err := c.Exec(within(t), q); err != nil || sum.Affected != 0 || sum.Info != "Rows matched: 1  Changed: 0  Warnings: 0" {
			t.Errorf("%+v, %v", sum, err)
		}
		if sum, err := dialReal(t, s, true).Exec(within(t), q); err != nil || sum.Affected != 1 {
			t.Errorf("with FOUND_ROWS: %+v, %v", sum, err)
		}
	})
}

func TestQueryAndStream(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		res, err := c.Query(within(t), "SELECT 1 AS a, NULL AS b, '' AS c, REPEAT('y', 300) AS d UNION ALL SELECT 2, 'x', NULL, ''")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(res.Columns, []string{"a", "b", "c", "d"}) || len(res.Rows) != 2 || res.Summary.Rows != 2 {
			t.Fatalf("%+v", res)
		}
		r := res.Rows[0]
		if string(r[0]) != "1" || r[1] != nil || r[2] == nil || len(r[2]) != 0 || len(r[3]) != 300 {
			t.Errorf("row %q", r)
		}
		if res, err := c.Query(within(t), "SELECT 1 FROM dual WHERE 1 = 0"); err != nil || len(res.Rows) != 0 || len(res.Columns) != 1 {
			t.Errorf("empty: %+v, %v", res, err)
		}
		var e *ServerError
		if _, err := c.Query(within(t), "SELECT * FROM missing"); !errors.As(err, &e) || e.Code != 1146 || e.State != "42S02" {
			t.Errorf("error %v", err)
		}
		sum, err := c.Exec(within(t), "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v TINYINT)")
		if err != nil || sum.ResultSet {
			t.Fatal(err)
		}
		if sum, err = c.Exec(within(t), "INSERT INTO a (v) VALUES (1), (2), (3)"); err != nil || sum.Affected != 3 || sum.LastInsertID != 1 || !strings.HasPrefix(sum.Info, "Records: 3") {
			t.Errorf("%+v, %v", sum, err)
		}
		mustExec(t, c, "SET SESSION sql_mode = ''")
		if sum, err = c.Exec(within(t), "INSERT INTO a (v) VALUES (1000)"); err != nil || sum.Warnings != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
		mustExec(t, c, "BEGIN")
		if !c.InTransaction() {
			t.Error("not in a transaction after BEGIN")
		}
		mustExec(t, c, "COMMIT")
		if c.InTransaction() {
			t.Error("in a transaction after COMMIT")
		}

		numbers(t, c, 3000)
		next := 1
		sum, err = c.Stream(within(t), "SELECT id, pad FROM n ORDER BY id", func(row [][]byte) error {
			if id, _ := strconv.Atoi(string(row[0])); id != next || len(row[1]) != 50 {
				return fmt.Errorf("row %q, want %d", row, next)
			}
			next++
			return nil
		})
		if err != nil || sum.Rows != 3000 || next != 3001 {
			t.Errorf("%+v, %v", sum, err)
		}
		stop := errors.New("enough")
		if _, err := c.Stream(within(t), "SELECT id, pad FROM n", func([][]byte) error { return stop }); !errors.Is(err, stop) || !c.Broken {
			t.Errorf("stopped: %v, broken %v", err, c.Broken)
		}
	})
}

// A stream of 100 MB must not need its size in memory. Not parallel: it counts
// all of the process's allocations.
func TestStreamIsBounded(t *testing.T) {
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		numbers(t, c, 1000)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var total int
		sum, err := c.Stream(within(t), "SELECT REPEAT(a.pad, 2) FROM n a JOIN n b", func(row [][]byte) error {
			total += len(row[0])
			return nil
		})
		runtime.ReadMemStats(&after)
		if err != nil || sum.Rows != 1_000_000 || total != 100_000_000 {
			t.Fatalf("%+v, %d bytes, %v", sum, total, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
			t.Errorf("allocated %d bytes", got)
		}
	})
}

// The pool finds out which of its idle connections the server has closed, and
// for which it has announced that.
func TestPoolAgainstServer(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		p := newPool(t, s.config(), Options{})
		var ahead atomic.Int64
		p.o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		killed, timedOut := get(t, p, false), get(t, p, false)
		mustExec(t, timedOut, "SET SESSION wait_timeout = 1")
		p.Put(killed)
		p.Put(timedOut)
		if err := p.Kill(within(t), killed.ThreadID, true); err != nil {
			t.Fatal(err)
		}
		until(t, "both are closed", func() bool { return !killed.alive() && !timedOut.alive() })
		ahead.Store(int64(time.Second))
		c := get(t, p, false)
		if err := c.Ping(within(t)); err != nil || c == killed || c == timedOut {
			t.Error("got a connection that is closed", err)
		}
		p.Put(c)
	})
}

func TestResetConnection(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		mustExec(t, c, "SET NAMES latin1", "SET @v = 1", "SET SESSION sql_mode = 'ANSI_QUOTES'", "CREATE TEMPORARY TABLE tt (a INT)")
		if _, err := c.Prepare(within(t), "SELECT ?"); err != nil {
			t.Fatal(err)
		}
		c.State = "something"
		if err := c.Reset(within(t)); err != nil {
			t.Fatal(err)
		}
		if c.State != "" || c.Schema != s.schema {
			t.Errorf("state %q, schema %q", c.State, c.Schema)
		}
		got := one(t, c, "SELECT CONCAT_WS(' ', @@character_set_client, @@collation_connection, COALESCE(@v, 'none'), DATABASE(), 'x')")
		if want := "utf8mb4 utf8mb4_general_ci none " + s.schema + " x"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		var e *ServerError
		if _, err := c.Exec(within(t), "SELECT * FROM tt"); !errors.As(err, &e) || e.Code != 1146 {
			t.Errorf("the temporary table is there: %v", err)
		}
		st, err := c.Prepare(within(t), "SELECT ?")
		if err != nil {
			t.Fatal(err)
		}
		if sum, _ := forward(t, c, mysql.COM_STMT_EXECUTE, wire.EncodeExecute(st.ID, 0, []wire.Param{{Type: mysql.MYSQL_TYPE_TINY, Data: []byte{1}}}), Result, ForwardOptions{}); sum.Err != nil || sum.Rows != 1 {
			t.Errorf("%+v", sum)
		}
	})
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		cfg := s.config()
		cfg.Statements = 3
		c, err := Dial(within(t), cfg, false)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.InitDB(within(t), s.schema); err != nil {
			t.Fatal(err)
		}
		numbers(t, c, 10)
		prepare := func(q string) *Stmt {
			t.Helper()
			st, err := c.Prepare(within(t), q)
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		q := "SELECT id, pad FROM n WHERE id = ?"
		st := prepare(q)
		if len(st.Params) != 1 || len(st.Columns) != 2 {
			t.Fatalf("%+v", st)
		}
		if col, err := wire.ParseColumn(st.Columns[0]); err != nil || col.Name != "id" || col.Type != mysql.MYSQL_TYPE_LONG {
			t.Errorf("%+v, %v", col, err)
		}
		if prepare(q) != st {
			t.Error("prepared again")
		}
		id := wire.Param{Type: mysql.MYSQL_TYPE_LONGLONG, Data: binary.LittleEndian.AppendUint64(nil, 7)}
		sum, got := forward(t, c, mysql.COM_STMT_EXECUTE, wire.EncodeExecute(st.ID, 0, []wire.Param{id}), Result, ForwardOptions{})
		wantShape(t, got, "2ddere")
		if sum.Rows != 1 || string(got[4][:6]) != "\x00\x00\x07\x00\x00\x00" {
			t.Errorf("%+v, %q", sum, got[4])
		}
		// Another schema or other settings make it another statement.
		c.State = "ansi"
		other := prepare(q)
		if other == st {
			t.Error("the same in another state")
		}
		c.State = ""
		if prepare(q) != st {
			t.Error("forgotten")
		}
		var e *ServerError
		if _, err := c.Prepare(within(t), "nonsense ?"); !errors.As(err, &e) || e.Code != 1064 || c.Broken || c.Busy() {
			t.Errorf("%v", err)
		}
		// The oldest goes when there are too many, and the server is told.
		prepare("SELECT 1")
		prepare("SELECT 2")
		sum, _ = forward(t, c, mysql.COM_STMT_EXECUTE, wire.EncodeExecute(other.ID, 0, []wire.Param{id}), Result, ForwardOptions{})
		if sum.Err == nil || sum.Err.Code != 1243 {
			t.Errorf("the evicted statement: %+v", sum)
		}
		sum, _ = forward(t, c, mysql.COM_STMT_EXECUTE, wire.EncodeExecute(st.ID, 0, []wire.Param{id}), Result, ForwardOptions{})
		if sum.Err != nil {
			t.Errorf("the one in use: %+v", sum)
		}
	})
}

// When the server has no room for another statement we give ours back. Not
// parallel: the limit is the whole server's.
func TestPrepareAtServersLimit(t *testing.T) {
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		for i := range 5 {
			if _, err := c.Prepare(within(t), fmt.Sprintf("SELECT %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		root := dialReal(t, s, false)
		limit := one(t, root, "SELECT @@max_prepared_stmt_count")
		defer mustExec(t, root, "SET GLOBAL max_prepared_stmt_count = "+limit)
		res, err := root.Query(within(t), "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, root, fmt.Sprintf("SET GLOBAL max_prepared_stmt_count = %s", res.Rows[0][1]))
		if _, err := c.Prepare(within(t), "SELECT 'more'"); err != nil {
			t.Error(err)
		}
	})
}
