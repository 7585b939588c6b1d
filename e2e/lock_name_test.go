package e2e

import (
	"context"
	"database/sql"
	"strings"
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
		eventually(t, "it waits on a shard", func() bool {
			for i := range p.servers {
				if len(mustRows(t, p.shard(i), "SELECT id FROM information_schema.processlist WHERE db = '"+p.schema+"' AND state = 'User lock'")) > 0 {
					return true
				}
			}
			return false
		})
		select {
		case rows := <-got:
			t.Errorf("got a lock that another session has: %v", rows)
		default:
		}
		// b's number, as it tells it itself, in any statement.
		number := mustRows(t, b, "SELECT CONNECTION_ID() AS id")[0]["id"]
		for _, c := range []*sql.Conn{b, p.conn()} {
			want(t, c, "SELECT IS_USED_LOCK('m') AS id, IS_USED_LOCK('nobody') IS NULL AS free", "id free", number+" 1")
			want(t, c, "SELECT IS_USED_LOCK(CONCAT('','m'))", "IS_USED_LOCK(CONCAT('','m'))", number)
			want(t, c, "SELECT COUNT(*) AS n FROM users WHERE IS_USED_LOCK('m') = "+number, "n", "4")
		}
		want(t, b, "SELECT IS_USED_LOCK('m') = CONNECTION_ID() AS mine", "mine", "1")
		asks, err := b.PrepareContext(t.Context(), "SELECT IS_USED_LOCK('m')")
		if err != nil {
			t.Fatal(err)
		}
		defer asks.Close()
		owner := func() (id sql.NullString) {
			if err := asks.QueryRowContext(t.Context()).Scan(&id); err != nil {
				t.Error(err)
			}
			return id
		}
		if id := owner(); id.String != number {
			t.Errorf("prepared: %v, want %s", id, number)
		}
		failsWith(t, b, "SELECT GET_LOCK('m', 0), IS_USED_LOCK('m')", 1235, "takes and releases no lock")
		mustExec(t, b, "DO RELEASE_ALL_LOCKS()")
		if rows := <-got; len(rows) != 1 || rows[0]["l"] != "1" {
			t.Errorf("waited for a lock and got %v", rows)
		}
		if id := owner(); id.String == number || !id.Valid {
			t.Errorf("prepared: %v, which has released it", id)
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
		eventually(t, "the lock to be free", func() bool {
			return flat(mustRows(t, b, "SELECT IS_FREE_LOCK('m') AS l"), "l")[0] == "1"
		})
		// The session's end releases them.
		ends := p.db()
		ends.SetMaxOpenConns(1)
		want(t, ends, "SELECT GET_LOCK('m', 1) AS l", "l", "1")
		pinned(1)
		ends.Close()
		eventually(t, "the lock to be free", func() bool {
			return flat(mustRows(t, b, "SELECT IS_FREE_LOCK('m') AS l"), "l")[0] == "1"
		})
		failsWith(t, b, "SELECT GET_LOCK('m', 1) FROM users", 1235, "without tables")
		pinned(0)
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

// TestReservedNames: Shunt's own locks and tables are not for clients. A lock of theirs would keep a
// schema from being served.
func TestReservedNames(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 5, setup{servers: f.servers(t)[:2]})
		mustExec(t, c, "SET @n = CONCAT('SHUNT-serves-', 'other'), @m = 'mine'")
		for _, q := range []string{
			"SELECT GET_LOCK('shunt-serves-other', 0)", "DO GET_LOCK('Shunt-Serves-other', 0)", "SELECT GET_LOCK(@n, 0)", "SELECT 1 + GET_LOCK(@n, 0) AS x", "SELECT GET_LOCK('a', 0), GET_LOCK(@n, 0)",
			"SELECT GET_LOCK(CONCAT('shunt-serves', '-other'), 0)", "SELECT GET_LOCK(0x7368756E742D7365727665732D6F74686572, 0)", "SELECT GET_LOCK('shunt' '-serves-other', 0)", "SELECT GET_LOCK('shunt\\-serves-other', 0)",
			"SELECT GET_LOCK(IF(RAND() < 2, 'shunt-serves-other', 'a'), 0)", "SELECT `GET_LOCK`('shunt-serves-other', 0)", "SELECT GET_LOCK /* x */ (LOWER(@n), 0)",
		} {
			if _, err := rowsOf(t.Context(), c, q); err == nil {
				t.Errorf("%s is done", q)
			}
		}
		for _, args := range [][]any{{"shunt-serves-other"}, {"ShUnT-serves-other"}, {[]byte("shunt-serves-other")}} {
			rows, err := c.QueryContext(t.Context(), "SELECT GET_LOCK(?, 0)", args...)
			if err == nil {
				rows.Close()
				t.Errorf("prepared with %s it is done", args)
			}
		}
		if got := mustRows(t, onShard(t, p.servers[0], ""), "SELECT IS_FREE_LOCK('shunt-serves-other') AS x")[0]["x"]; got != "1" {
			t.Error("the lock is taken")
		}
		for _, q := range []string{"SELECT GET_LOCK('mine', 0) AS x", "SELECT GET_LOCK(@m, 0) AS x", "SELECT GET_LOCK(CONCAT(DATABASE(), '-x'), 0) AS x", "SELECT GET_LOCK('it''s', 0) AS x", "SELECT RELEASE_LOCK(@m) AS x"} {
			want(t, c, q, "x", "1")
		}
		mustExec(t, c, "DO RELEASE_ALL_LOCKS()")
		for i := range p.servers {
			if p.lockOf(i) == "" {
				t.Error("RELEASE_ALL_LOCKS() of a client has released Shunt's own")
			}
		}

		life := strings.TrimPrefix(mustRows(t, onShard(t, p.servers[0], ""), "SELECT TABLE_NAME AS t FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shunt_scratch' AND TABLE_NAME LIKE 'owner\\_"+lockKey(p.schema)+"\\_%'")[0]["t"], "owner_"+lockKey(p.schema)+"_")
		table := "shunt_scratch.owner_serial_" + life
		for _, q := range []string{
			"USE shunt_scratch", "SELECT * FROM " + table, "INSERT INTO " + table + " VALUES (18446744073709551615)", "/* shunt: shard=s0 */ INSERT INTO " + table + " VALUES (18446744073709551615)",
			"/* shunt: shard=s0 */ DROP TABLE " + table, "/* shunt: shard=s0 */ DROP DATABASE Shunt_Scratch", "DROP DATABASE `shunt_scratch`", "CREATE TABLE shunt_scratch.a (id INT PRIMARY KEY)",
			"RENAME TABLE people TO shunt_scratch.people", "CREATE VIEW v AS SELECT * FROM " + table, "CREATE TRIGGER tr AFTER INSERT ON people FOR EACH ROW DELETE FROM " + table, "SHOW TABLES FROM shunt_scratch", "CHECK TABLE " + table,
		} {
			if _, err := rowsOf(t.Context(), c, q); errorCode(err) != 1044 {
				t.Errorf("%s: %v", q, err)
			}
		}
		if err := p.open("shunt_scratch").PingContext(t.Context()); err == nil {
			t.Error("the schema can be chosen at log-in")
		}
	})
}
