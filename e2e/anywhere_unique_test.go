package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestAnywhereUnique: a unique key of a table placed anywhere holds over all shards, for every
// statement that can make a row of one, with a virtual index on it and without.
func TestAnywhereUnique(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{
			"bare: {placement: anywhere}", "indexed: {placement: anywhere}", "counted: {placement: anywhere}",
			"loose: {placement: anywhere, check_unique: false}", "parents: {placement: anywhere}", "kids: {placement: anywhere}", "cut: {placement: anywhere}",
		}})
		shunt, plain := p.conn(func(c *mysql.Config) { c.AllowAllFiles = true }), plainServer(t, p.servers[1], p.schema+"_plain")
		both := []*sql.Conn{shunt, plain}
		for _, c := range both {
			for _, table := range []string{"bare", "indexed", "loose"} {
				mustExec(t, c, "CREATE TABLE "+table+" (id INT NOT NULL PRIMARY KEY, email VARCHAR(30) COLLATE utf8mb4_general_ci, a INT, b INT, n INT, UNIQUE KEY (email), UNIQUE KEY (a, b))")
			}
			mustExec(t, c, "CREATE TABLE counted (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT)")
			mustExec(t, c, "CREATE TABLE parents (id INT NOT NULL PRIMARY KEY)")
			mustExec(t, c, "CREATE TABLE kids (id INT NOT NULL PRIMARY KEY, parent INT NOT NULL, email VARCHAR(30), UNIQUE KEY (email), FOREIGN KEY (parent) REFERENCES parents (id))")
			mustExec(t, c, "CREATE TABLE cut (id INT NOT NULL PRIMARY KEY, name TEXT, UNIQUE KEY (name(3)))")
		}
		p.createIndex(shunt, "i_id", "indexed (id)")
		p.createIndex(shunt, "i_email", "indexed (email)")
		p.createIndex(shunt, "i_a", "indexed (a)")
		for i := range 24 { // behind Shunt's back, on shards that the hash doesn't choose
			for _, table := range []string{"bare", "indexed", "loose"} {
				row := fmt.Sprintf("INSERT INTO %s VALUES (%d, 'E%d@x', %d, 7, 0)", table, i, i, i)
				mustExec(t, p.shard(i%3), row)
				mustExec(t, plain, row)
			}
		}
		for _, ix := range []string{"i_id", "i_email", "i_a"} {
			mustExec(t, shunt, "REBUILD VIRTUAL INDEX "+ix+" ON indexed")
		}
		p.settled(shunt)
		for _, table := range []string{"bare", "indexed"} {
			for _, statement := range []string{
				"INSERT INTO %s (id, n) VALUES (5, 1)",
				"INSERT INTO %s SET id = 6",
				"INSERT INTO %s (id, email) VALUES (100, 'e6@X')",
				"INSERT INTO %s (id, a, b) VALUES (100, 7, 7)",
				"INSERT INTO %s (id, a, b) VALUES (101, 7, NULL), (102, 7, 8), (103, NULL, NULL)",
				"INSERT INTO %s (id, email) VALUES (110, 'n1@x'), (111, 'n2@x'), (12, 'n3@x')",
				"INSERT INTO %s (id, email) VALUES (120, 'm1@x'), (121, 'M1@X')", // of each other
				"INSERT INTO %s (id, email) SELECT id + 200, email FROM loose WHERE id < 3",
				"INSERT INTO %s (id, email) SELECT id + 200, CONCAT(email, '2') FROM loose WHERE id < 9",
				"INSERT INTO %s (id, email) VALUES (?, ?)", // 13, 'p@x'
				"UPDATE %s SET email = 'e9@x' WHERE id = 5",
				"UPDATE %s SET email = 'E5@X', n = 3 WHERE id = 5",
				"UPDATE %s SET email = 'fresh@x' WHERE id = 6",
				"UPDATE %s SET id = 7 WHERE id = 8",
				"UPDATE %s SET id = 300 WHERE id = 8",
				"UPDATE %s SET b = 7 WHERE a = 7 AND id = 102",
				"UPDATE %s SET email = NULL WHERE id IN (10, 11)",
				"UPDATE %s SET n = n + 1 WHERE id < 20",
				"UPDATE %s SET email = 'two@x' WHERE id IN (14, 15, 16)",
			} {
				var args []any
				if strings.Contains(statement, "?") {
					args = []any{13, "p@x"}
				}
				statement = fmt.Sprintf(statement, table)
				var outcome [2]string
				for k, c := range both {
					res, err := c.ExecContext(t.Context(), statement, args...)
					if err == nil {
						outcome[k] = fmt.Sprint(affected(t, res))
					} else if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
						outcome[k] = fmt.Sprintf("%d %s", e.Number, strings.Split(e.Message, " for key ")[0])
					}
				}
				if outcome[0] != outcome[1] {
					t.Errorf("%s: %s, want %s", statement, outcome[0], outcome[1])
				}
				rows := "SELECT * FROM " + table + " ORDER BY id, email"
				if got, wanted := fmt.Sprint(mustRows(t, shunt, rows)), fmt.Sprint(mustRows(t, plain, rows)); got != wanted {
					t.Fatalf("after %s:\n got %s\nwant %s", statement, got, wanted)
				}
			}
			// In a transaction a statement that fails is undone alone.
			mustExec(t, shunt, "BEGIN")
			mustExec(t, shunt, "INSERT INTO "+table+" (id) VALUES (400)")
			_, err := shunt.ExecContext(t.Context(), "INSERT INTO "+table+" (id) VALUES (401), (18)")
			wantError(t, err, 1062, "Duplicate entry '18' for key")
			mustExec(t, shunt, "COMMIT")
			want(t, shunt, "SELECT COUNT(*) AS n FROM "+table+" WHERE id >= 400", "n", "1")
		}
		_, err := shunt.ExecContext(t.Context(), "UPDATE bare SET id = id + 1000")
		wantError(t, err, 1235, "check_unique")
		// With an index no shard but the row's own hears of it.
		explained := flat(mustRows(t, shunt, "EXPLAIN ROUTE INSERT INTO bare (id) VALUES (5)"), "Reason")
		if !strings.Contains(fmt.Sprint(explained), "the others are asked") {
			t.Errorf("EXPLAIN ROUTE: %q", explained)
		}
		// The configuration can do without.
		mustExec(t, shunt, "INSERT INTO loose (id) VALUES (0), (1), (2), (3)")
		want(t, shunt, "SELECT COUNT(*) AS n FROM loose WHERE id < 4", "n", "8")
		mustExec(t, shunt, "UPDATE loose SET id = id + 1000 WHERE id = 9")
		// What Shunt counts is in no row.
		mustExec(t, shunt, "INSERT INTO counted (n) VALUES (1), (2)")
		mustExec(t, p.shard(2), "INSERT INTO counted (id, n) VALUES (100, 1)")
		mustExec(t, shunt, "INSERT INTO counted (id, n) VALUES (101, 1)")
		_, err = shunt.ExecContext(t.Context(), "INSERT INTO counted (id, n) VALUES (100, 1)")
		wantError(t, err, 1062, "")
		// LOAD DATA LOCAL leaves out the rows that are there.
		mustExec(t, shunt, "LOAD DATA LOCAL INFILE "+localFile(t, "20\n500\n21\n")+" INTO TABLE bare (id)")
		want(t, shunt, "SELECT COUNT(*) AS n FROM bare WHERE id IN (20, 21, 500)", "n", "3")
		// Foreign keys are of the row's own shard, and no reason not to look elsewhere.
		for i := range 3 {
			mustExec(t, p.shard(i), "INSERT INTO parents VALUES (50)")
		}
		mustExec(t, p.shard(1), "INSERT INTO parents VALUES (51)")
		for i := range 3 {
			mustExec(t, p.shard(1), fmt.Sprintf("INSERT INTO kids VALUES (%d, 51, 'k%d')", i, i))
			_, err = shunt.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO kids VALUES (%d, 50, 'k%d')", 10+i, i))
			wantError(t, err, 1062, "")
		}
		// A key of a prefix.
		mustExec(t, p.shard(0), "INSERT INTO cut VALUES (1, 'abcdef')")
		for i := range 4 {
			_, err = shunt.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO cut VALUES (%d, 'abcxyz')", 10+i))
			wantError(t, err, 1062, "Duplicate entry 'abc' for key")
		}
		p.check()
	})
}

// TestAnywhereUniqueAtOnce: sessions that give rows of different primary keys the same unique value
// at the same time make one.
func TestAnywhereUniqueAtOnce(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		args := []string{"--innodb-lock-wait-timeout=30"} // six take turns: on a busy machine the last one waits for over 5 s
		if f.name == throwaway.MySQL {
			args = append(args, "--performance-schema=ON") // who waits for whom
		}
		p := start(t, f, setup{tables: []string{"bare: {placement: anywhere}", "indexed: {placement: anywhere}"}, servers: f.own(t, 3, args...)})
		shunt := p.conn()
		for _, table := range []string{"bare", "indexed"} {
			mustExec(t, shunt, "CREATE TABLE "+table+" (id INT NOT NULL PRIMARY KEY, email VARCHAR(30), UNIQUE KEY (email))")
		}
		p.createIndex(shunt, "i_id", "indexed (id)")
		p.createIndex(shunt, "i_email", "indexed (email)")
		const sessions, rounds = 6, 15
		var group errgroup.Group
		for n := range sessions {
			c := p.conn()
			group.Go(func() error {
				for k := range rounds {
					for _, table := range []string{"bare", "indexed"} {
						row := fmt.Sprintf("INTO %s VALUES (%d, 'e%d')", table, k*sessions+n, k)
						statement := "INSERT " + row
						if k%3 > 0 { // others beside plain ones, or alone
							statement = [...]string{"INSERT " + row, "REPLACE " + row, "INSERT IGNORE " + row, "INSERT " + row + " ON DUPLICATE KEY UPDATE id = id"}[(n+k)%(2+k%3)]
						}
						for { // who is told to try again does: the servers' and Shunt's search may end two of one circle, and the last of six wait long
							_, err := c.ExecContext(t.Context(), statement)
							var e *mysql.MySQLError
							if errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205) {
								continue
							}
							if err != nil && (e == nil || e.Number != 1062) {
								return fmt.Errorf("%s: %w", statement, err)
							}
							break
						}
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for k := range rounds {
			for _, table := range []string{"bare", "indexed"} {
				want(t, shunt, fmt.Sprintf("SELECT COUNT(*) AS n FROM %s WHERE email = 'e%d'", table, k), "n", "1")
			}
		}
		for _, table := range []string{"bare", "indexed"} {
			want(t, shunt, "SELECT COUNT(*) AS n FROM (SELECT email FROM "+table+" GROUP BY email HAVING COUNT(*) > 1) x", "n", "0")
		}
		p.check()
	})
}

// TestAnywhereUniqueEntries: that a virtual index tells of no other shard before a row is written doesn't do.
// A write waits for a connection to its shard while another is written to another shard, which looks there
// and finds nothing yet.
func TestAnywhereUniqueEntries(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {placement: anywhere}"}, extra: "shard_connections: 1"})
		first, second := p.conn(), p.conn()
		mustExec(t, first, "CREATE TABLE users (id INT NOT NULL PRIMARY KEY, email VARCHAR(30), UNIQUE KEY (email))")
		p.createIndex(first, "i_id", "users (id)")
		p.createIndex(first, "i_email", "users (email)")
		on := map[string]int{}
		for id := range 20 {
			on[mustRows(t, first, fmt.Sprintf("EXPLAIN ROUTE INSERT INTO users VALUES (%d, 'x')", id))[0]["Shards"]] = id
		}
		insert := func(id int) string { return fmt.Sprintf("INSERT INTO users VALUES (%d, 'x')", id) }
		for _, writes := range [][2]string{{insert(on["s0"]), insert(on["s1"])}, {insert(on["s0"]), "UPDATE users SET email = 'x' WHERE id = " + fmt.Sprint(on["s1"])}} {
			mustExec(t, first, "DELETE FROM users")
			if strings.HasPrefix(writes[1], "UPDATE") {
				mustExec(t, first, fmt.Sprintf("INSERT INTO users VALUES (%d, 'y')", on["s1"]))
			}
			p.settled(first)
			mustExec(t, second, "BEGIN")
			mustRows(t, second, "SELECT * FROM users") // has the connections to all shards
			answer := make(chan error, 1)
			go func() {
				_, err := first.ExecContext(t.Context(), writes[0])
				answer <- err
			}()
			eventually(t, "the first write waits", func() bool {
				n, _ := p.metric("shunt_shard_connections", `shard="s0"`, `state="waiting"`)
				return n > 0
			})
			mustExec(t, second, writes[1])
			mustExec(t, second, "COMMIT")
			wantError(t, <-answer, 1062, "Duplicate entry 'x'")
			want(t, first, "SELECT COUNT(*) AS n FROM users WHERE email = 'x'", "n", "1")
		}
		p.check()
	})
}
