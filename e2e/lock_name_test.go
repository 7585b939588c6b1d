package e2e

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNamedLocks: locks by name are one session's, across the statements that
// migration tools use, until it releases them or ends.
func TestNamedLocks(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}"}})
		a, b := p.conn(), p.conn()
		mustExec(t, a, "CREATE TABLE users (id INT PRIMARY KEY)")
		pinned := func(n float64) {
			t.Helper()
			if got, _ := p.metric("shunt_sessions_pinned", `reason="lock"`); got != n {
				t.Errorf("%v sessions are pinned by locks, want %v", got, n)
			}
		}
		want(t, a, "SELECT GET_LOCK('m', 10) AS l", "l", "1")
		want(t, a, "SELECT GET_LOCK('n', 10) AS l", "l", "1")
		pinned(1)
		want(t, b, "SELECT GET_LOCK('m', 0) AS l", "l", "0")
		want(t, b, "SELECT IS_FREE_LOCK('m') AS l", "l", "0")
		want(t, b, "SELECT RELEASE_LOCK('m') AS l", "l", "0")
		pinned(1)
		// Whatever the session does meanwhile, and by prepared statements too.
		mustExec(t, a, "BEGIN")
		mustExec(t, a, "INSERT INTO users VALUES (1), (2), (3), (4)")
		prepared := func(query string, args ...any) {
			t.Helper()
			if got := flat(mustRows(t, a, query, args...), "l"); len(got) != 1 || got[0] != "1" {
				t.Errorf("%s answers %v", query, got)
			}
		}
		prepared("SELECT GET_LOCK(?, ?) AS l", "m", 1)
		mustExec(t, a, "COMMIT")
		want(t, a, "SELECT COUNT(*) AS n FROM users", "n", "4")
		prepared("SELECT RELEASE_LOCK(?) AS l", "m")
		want(t, b, "SELECT GET_LOCK('m', 0) AS l", "l", "0") // it was taken twice
		want(t, a, "SELECT RELEASE_LOCK('m')", "RELEASE_LOCK('m')", "1")
		pinned(1) // n
		want(t, b, "SELECT GET_LOCK('m', 0) AS l", "l", "1")
		pinned(2)
		want(t, a, "SELECT RELEASE_LOCK('n') AS l", "l", "1")
		pinned(1)
		// It waits for the other one, whose transaction is its own matter.
		mustExec(t, a, "BEGIN")
		mustExec(t, a, "INSERT INTO users VALUES (5)")
		got := make(chan []row, 1)
		go func() {
			rows, _ := rowsOf(context.Background(), a, "SELECT GET_LOCK('m', 20) AS l")
			got <- rows
		}()
		time.Sleep(300 * time.Millisecond)
		select {
		case rows := <-got:
			t.Errorf("got a lock that another session has: %v", rows)
		default:
		}
		mustExec(t, b, "DO RELEASE_ALL_LOCKS()")
		if rows := <-got; len(rows) != 1 || rows[0]["l"] != "1" {
			t.Errorf("waited for a lock and got %v", rows)
		}
		mustExec(t, a, "ROLLBACK")
		want(t, a, "SELECT COUNT(*) AS n FROM users", "n", "4")
		// A client that goes away while it waits gets nothing.
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		gone := p.db()
		if _, err := rowsOf(ctx, gone, "SELECT GET_LOCK('m', 60) AS l"); err == nil {
			t.Error("two sessions have a lock")
		}
		cancel()
		gone.Close()
		want(t, a, "SELECT RELEASE_LOCK('m') AS l", "l", "1")
		eventually(t, 10*time.Second, "the lock to be free", func() bool {
			return flat(mustRows(t, b, "SELECT IS_FREE_LOCK('m') AS l"), "l")[0] == "1"
		})
		// The session's end releases them.
		ends := p.db()
		ends.SetMaxOpenConns(1)
		want(t, ends, "SELECT GET_LOCK('m', 1) AS l", "l", "1")
		pinned(1)
		ends.Close()
		eventually(t, 10*time.Second, "the lock to be free", func() bool {
			return flat(mustRows(t, b, "SELECT IS_FREE_LOCK('m') AS l"), "l")[0] == "1"
		})
		_, err := b.ExecContext(t.Context(), "SELECT GET_LOCK('m', 1) FROM users")
		wantError(t, err, 1235, "without tables")
		pinned(0)
	})
}

// TestNamedLocksKeepRoom: sessions that have locks by name, or wait for one, leave
// the others half of a shard's connections.
func TestNamedLocksKeepRoom(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{servers: f.servers(t)[:2], extra: "shard_connections: 8"})
		lock := func(name string) string { return "'" + p.schema + name + "'" } // the servers have other tests' locks too
		want(t, p.conn(), "SELECT GET_LOCK("+lock("m")+", 0) AS l", "l", "1")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		codes := make(chan error, 7)
		for range cap(codes) {
			waiting := p.conn()
			go func() {
				_, err := rowsOf(ctx, waiting, "SELECT GET_LOCK("+lock("m")+", 60) AS l")
				codes <- err
			}()
		}
		// Three wait, and the others are told.
		for range 4 {
			wantError(t, <-codes, 1040, "shard_connections")
		}
		for range 20 {
			want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "20")
		}
		cancel()
		for range 3 {
			<-codes
		}
		// What the three had is free again.
		var kept []*sql.Conn
		for _, name := range []string{"a", "b", "c"} {
			k := p.conn()
			eventually(t, 10*time.Second, "room for a lock", func() bool {
				rows, err := rowsOf(t.Context(), k, "SELECT GET_LOCK("+lock(name)+", 0) AS l")
				return err == nil && flat(rows, "l")[0] == "1"
			})
			kept = append(kept, k)
		}
		for _, k := range kept {
			want(t, k, "SELECT RELEASE_ALL_LOCKS() AS n", "n", "1")
		}
	})
}

// TestLocksElsewhere: a lock that another statement than SELECT or DO would take stays with a
// pooled connection.
func TestLocksElsewhere(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 5, setup{})
		mustExec(t, c, "CREATE PROCEDURE told (n INT) SELECT n")
		analyze := "EXPLAIN ANALYZE"
		if f.name == throwaway.MariaDB {
			analyze = "ANALYZE"
		}
		for _, sql := range []string{
			analyze + " SELECT GET_LOCK('elsewhere', 0)", "CALL told(GET_LOCK('elsewhere', 0))", "CALL told(`get_lock`('elsewhere', 0))", "SHOW VARIABLES WHERE GET_LOCK('elsewhere', 0)",
			"SHOW TABLES WHERE GET_LOCK('elsewhere', 0)", "CREATE TEMPORARY TABLE held SELECT GET_LOCK('elsewhere', 0) AS g",
		} {
			failsWith(t, c, sql, 1235, "take the lock by a statement of its own")
		}
		mustRows(t, c, "EXPLAIN SELECT GET_LOCK('elsewhere', 0)")
		for i := range p.servers {
			want(t, p.shard(i), "SELECT IS_FREE_LOCK('elsewhere') AS f", "f", "1")
		}
	})
}
