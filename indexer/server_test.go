package indexer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	_ "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/storage"
)

// mariadb starts a throwaway server and returns its socket.
func mariadb(t *testing.T) (socket string) {
	t.Helper()
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		server = "/usr/sbin/mariadbd"
	}
	install, err := exec.LookPath("mariadb-install-db")
	if _, missing := os.Stat(server); err != nil || missing != nil {
		t.Skip("no MariaDB on this machine")
	}
	dir, err := os.MkdirTemp("", "indexer-") //nolint:usetesting // a socket's path is short, t.TempDir's is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data")}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	if out, err := exec.Command(install, append(args, "--auth-root-authentication-method=normal")...).CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	socket = filepath.Join(dir, "s")
	cmd := exec.Command(server, append(args, "--socket="+socket, "--skip-networking", "--innodb-buffer-pool-size=32M",
		"--sql-mode=ANSI_QUOTES", "--default-time-zone=+05:00", "--transaction-isolation=READ-UNCOMMITTED")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
	})
	for range 1000 {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
			return socket
		}
		select {
		case <-gone:
			t.Fatal("the server ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatal("the server does not answer")
	return ""
}

// sqlShards opens connections through database/sql.
type sqlShards struct{ db *sql.DB }

type sqlConn struct{ c *sql.Conn }

func (s sqlShards) Open(ctx context.Context, _ catalog.ShardID) (Conn, error) {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return sqlConn{c}, nil
}

func (c sqlConn) Exec(ctx context.Context, q string) error {
	_, err := c.c.ExecContext(ctx, q)
	return err
}

func (c sqlConn) Stream(ctx context.Context, q string, fn func([][]byte) error) error {
	rows, err := c.c.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	raw, row, into := make([]sql.RawBytes, len(columns)), make([][]byte, len(columns)), make([]any, len(columns))
	for i := range raw {
		into[i] = &raw[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i := range raw {
			row[i] = raw[i]
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (c sqlConn) Close() error { return c.c.Close() }

// Scans, verifications and settling against a real server, whose global
// settings are chosen to be in the way.
func TestRealServer(t *testing.T) {
	t.Parallel()
	socket := mariadb(t)
	db, err := sql.Open("mysql", "root@unix("+socket+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxIdleConns(0)
	ctx := t.Context()
	exec := func(q string) {
		t.Helper()
		if _, err := db.ExecContext(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	exec("SET GLOBAL sql_select_limit = 3")
	exec("CREATE DATABASE s")
	exec("CREATE TABLE s.t (a varchar(20) collate utf8mb4_general_ci, b bigint, k varchar(100) collate utf8mb4_unicode_ci, n decimal(10,2), d datetime(3), PRIMARY KEY (a, b), KEY cut (k(3)), KEY whole (k, n), KEY n (n)) CHARSET utf8mb4")
	for i := range 500 {
		k := fmt.Sprintf("'käy%d '", i/2)
		if i == 17 {
			k = "NULL"
		}
		exec(fmt.Sprintf("INSERT INTO s.t VALUES ('it''s\\\\ %d', %d, %s, %d.5, '2024-01-02 03:04:05.%03d')", i%7, i, k, i, i))
	}
	column := func(name, typ, collation string) *catalog.Column {
		c := &catalog.Column{Name: name, Type: typ, Collation: collation, Nullable: true}
		if collation != "" {
			c.Charset = "utf8mb4"
		}
		return c
	}
	a, b, k := column("a", "varchar(20)", "utf8mb4_general_ci"), column("b", "bigint(20)", ""), column("k", "varchar(100)", "utf8mb4_unicode_ci")
	n, d := column("n", "decimal(10,2)", ""), column("d", "datetime(3)", "")
	store, err := storage.Open(storage.Options{InMemory: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	cat := &catalog.Catalog{Version: 1, MariaDB: true, Shards: []catalog.Shard{{ID: 0, Name: "s0"}}, All: catalog.Only(0)}
	table := &catalog.Table{Schema: "s", Name: "t", Shards: cat.All, Columns: []*catalog.Column{a, b, k, n, d}, PrimaryKey: []*catalog.Column{a, b}}
	for i, columns := range [][]*catalog.Column{{k, n}, {d, k}, {n}} {
		wanted := catalog.IndexDef{Schema: "s", Table: "t", Name: fmt.Sprint("ix", i), Columns: make([]string, len(columns)), Partitions: 2}
		for j, c := range columns {
			wanted.Columns[j] = c.Name
		}
		def, err := store.CreateIndex(wanted)
		if err != nil {
			t.Fatal(err)
		}
		table.Indexes = append(table.Indexes, &catalog.Index{ID: def.ID, Name: def.Name, Table: table, Columns: columns, Status: catalog.Ready})
	}
	cat.Schemas = map[string]*catalog.Schema{"s": {Name: "s", Tables: map[string]*catalog.Table{"t": table}}}
	x := New(Options{Store: store, Cluster: cluster.NewLocal(store), Shards: sqlShards{db}, Catalog: func() *catalog.Catalog { return cat }, Publish: func(context.Context) error { return nil }, Logger: quiet})
	// A connection that db has closed may not have ended on the server yet.
	for began := time.Now(); !x.isSettled(0); {
		if _, err := x.settle(ctx, 0); err != nil || time.Since(began) > time.Minute {
			t.Fatalf("settle: %v", err)
		}
	}

	// Builds, the second one in pieces that fail in between.
	for i, ix := range table.Indexes {
		x.checkpointRows = 100
		pieces := 0
		b := &building{x: x, ix: ix, note: func(string) {}, scanning: func(context.Context, catalog.ShardID) (func(), error) { return func() {}, nil }}
		b.save = func(checkpoint) error {
			if pieces++; i == 1 && pieces < 4 {
				return errors.New("interrupted")
			}
			return nil
		}
		if err := b.restore(nil); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err = b.run(ctx); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 && pieces != 6 {
			t.Errorf("%d checkpoints", pieces)
		}
	}
	check := func(ix string, want plan.CheckRow) {
		t.Helper()
		if err := x.Check(ctx, "s", "t", ix, func(r plan.CheckRow) error {
			if r != want {
				t.Errorf("%s: got %+v, want %+v", ix, r, want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	check("ix0", plan.CheckRow{Checked: 499})
	check("ix1", plan.CheckRow{Checked: 500})
	check("ix2", plan.CheckRow{Checked: 500})

	exec("UPDATE s.t SET k = 'NEW', n = 7000, d = NULL WHERE b < 100")
	check("ix0", plan.CheckRow{Checked: 500, Missing: 1, Stale: 99})
	if err := x.maintain(ctx, table, 0, table.Indexes); err != nil { // one stream
		t.Fatal(err)
	}
	if err := x.maintain(ctx, table, 0, []*catalog.Index{table.Indexes[0], table.Indexes[2]}); err != nil { // in index order
		t.Fatal(err)
	}
	check("ix0", plan.CheckRow{Checked: 500})
	check("ix1", plan.CheckRow{Checked: 400})
	check("ix2", plan.CheckRow{Checked: 500})

	// A value that has a key and one that has none stay apart: what is asked
	// must be what the key says.
	exec("DELETE FROM s.t WHERE b = 499")
	r, err := x.newReading(table.Indexes[0])
	if err != nil {
		t.Fatal(err)
	}
	key, _ := r.codecs[0].Scanned(nil, []byte("käy249 "))
	key, _ = r.codecs[1].Scanned(key, []byte("499.50"))
	p := plan.Probe{Index: table.Indexes[0], Key: key, Values: values(t, `käy249`, "499.5")}
	if !x.asks(p) {
		t.Fatal("the probe does not ask for its key")
	}
	if err := x.verify(ctx, table, 0, []plan.Probe{p}); err != nil {
		t.Fatal(err)
	}
	check("ix0", plan.CheckRow{Checked: 499})

	// A thread that runs a statement is not settled.
	sleeper, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var id uint32
	if err := sleeper.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	slept := make(chan error, 1)
	go func() {
		_, err := sleeper.ExecContext(ctx, "DO SLEEP(1.5)")
		slept <- err
	}()
	for running := false; !running; {
		var info sql.NullString
		if err := db.QueryRowContext(ctx, "SELECT INFO FROM information_schema.PROCESSLIST WHERE ID = ?", id).Scan(&info); err != nil {
			t.Fatal(err)
		}
		running = strings.Contains(info.String, "SLEEP")
	}
	x.Begin(catalog.Only(0)).InDoubt(0, storage.Thread{ID: id, Opened: time.Now()})
	if done, err := x.settle(ctx, 0); done || err != nil {
		t.Errorf("settled %v while the statement runs, error %v", done, err)
	}
	if err := <-slept; err != nil {
		t.Fatal(err)
	}
	sleeper.Close()
	for done := false; !done; {
		if done, err = x.settle(ctx, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func values(t *testing.T, text, number string) []keys.Value {
	t.Helper()
	return []keys.Value{keys.String([]byte(text), "utf8mb4"), keys.Decimal(number)}
}
