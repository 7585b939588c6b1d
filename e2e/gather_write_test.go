package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// gatherWrites are UPDATEs and DELETEs whose joins and subqueries need rows of
// other shards than those that they change.
var gatherWrites = []string{
	"UPDATE users SET age = 99 WHERE id IN (SELECT user_id FROM orders WHERE total > 50)",
	"UPDATE users u JOIN orders o ON o.user_id = u.id SET u.country = 'ZZ' WHERE o.tag = 't1'",
	"UPDATE users u JOIN orders o ON o.user_id = u.id SET u.country = 'ZZ' WHERE u.id = 7",
	"UPDATE users u, (SELECT user_id, COUNT(*) AS n, MAX(tag) AS t FROM orders GROUP BY user_id) x SET u.age = x.n, u.email = CONCAT(x.t, '@new') WHERE x.user_id = u.id",
	"UPDATE users u LEFT JOIN orders o ON o.user_id = u.id SET u.email = 'none@x' WHERE o.id IS NULL",
	"UPDATE orders o LEFT JOIN users u ON u.id = o.user_id SET u.email = CONCAT('o', u.id) WHERE o.total > 20",
	"UPDATE users u JOIN users b ON b.id = u.boss SET u.age = b.age + 1",
	"UPDATE users SET age = (SELECT COUNT(*) FROM orders o WHERE o.user_id = users.id)",
	"UPDATE users SET age = (SELECT MAX(age) FROM users)",
	"UPDATE users SET age = age + 1 WHERE age < (SELECT AVG(age) FROM (SELECT age FROM users) x)",
	"UPDATE users SET boss = NULL WHERE boss IN (SELECT id FROM (SELECT id FROM users WHERE age > 30) x) ORDER BY id",
	"UPDATE users SET age = (SELECT v FROM settings WHERE k = 'min_age') WHERE id < 20",
	"UPDATE settings SET v = (SELECT COUNT(*) FROM users WHERE age > 20) WHERE k = 'min_age'",
	"UPDATE settings s JOIN orders o ON o.id = 1000 + s.v SET s.v = o.user_id",
	"UPDATE notes n JOIN users u ON u.id = n.user_id JOIN countries c ON c.code = u.country SET n.txt = c.name",
	"UPDATE users SET email = 'a@x' WHERE EXISTS (SELECT 1 FROM orders o WHERE o.user_id = users.id AND o.total > (SELECT AVG(total) FROM orders))",
	"UPDATE users SET email = NULL, age = DEFAULT WHERE (id, country) IN (SELECT user_id, 'DE' FROM orders)",
	"UPDATE IGNORE users SET age = 'nothing' WHERE id IN (SELECT user_id FROM orders WHERE total > 90)",
	"UPDATE users SET age = 'nothing' WHERE id IN (SELECT user_id FROM orders WHERE total > 90)",
	"UPDATE users SET age = (SELECT user_id FROM orders) WHERE id < 10",
	"UPDATE users SET age = 1 WHERE id IN (SELECT nothing FROM orders)",
	"UPDATE {db}.users JOIN {db}.orders ON {db}.orders.user_id = {db}.users.id SET {db}.users.age = {db}.orders.id WHERE {db}.orders.id IN (1003, 1011)",
	"UPDATE users /* SET */ AS `u` FORCE INDEX (email) INNER JOIN `orders` USE INDEX (by_user) ON user_id = `u`.id SET `u`.age = 3 WHERE total > 60 -- done",
	"DELETE FROM orders WHERE user_id NOT IN (SELECT id FROM users)",
	"DELETE FROM orders WHERE user_id IN (SELECT id FROM users WHERE country = 'DE') ORDER BY id",
	"DELETE o FROM users u JOIN orders o ON o.user_id = u.id WHERE u.age > 30",
	"DELETE FROM o USING users u JOIN orders AS o ON o.user_id = u.id WHERE u.age > 30",
	"DELETE u FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE o.id IS NULL",
	"DELETE users FROM users JOIN notes ON notes.user_id = users.id",
	"DELETE {db}.users FROM {db}.users JOIN {db}.notes ON {db}.notes.user_id = {db}.users.id",
	"DELETE FROM users WHERE id IN (SELECT id FROM (SELECT MIN(id) AS id FROM users WHERE age IS NOT NULL GROUP BY age HAVING COUNT(*) > 1) x)",
	"DELETE a FROM users a JOIN users b ON b.country = a.country AND b.id < a.id",
	"DELETE FROM users WHERE id IN (SELECT id FROM users WHERE age > 25)",
	"DELETE FROM notes WHERE txt = (SELECT CONCAT('it''s \\\\ note ', v, ' é') FROM settings WHERE v < 20) OR user_id > (SELECT MAX(id) FROM users)",
	"DELETE FROM users WHERE id = 5 AND EXISTS (SELECT 1 FROM orders) LIMIT 1",
	"DELETE FROM settings WHERE v IN (SELECT age FROM users)",
	"UPDATE countries SET name = 'used' WHERE code IN (SELECT country FROM users)",
	"UPDATE countries c JOIN users u ON u.country = c.code SET c.name = CONCAT(c.name, '!') WHERE u.age > 20",
	"UPDATE countries c SET c.name = (SELECT COUNT(*) FROM users u WHERE u.country = c.code) ORDER BY code",
	"DELETE c FROM countries c LEFT JOIN users u ON u.country = c.code WHERE u.id IS NULL",
	"DELETE FROM countries WHERE code NOT IN (SELECT country FROM users WHERE country IS NOT NULL)",
	"DELETE FROM users WHERE age < ALL (SELECT total FROM orders WHERE user_id = 7)",
}

// written are what tables hold, and what the last statement warned of.
func (g *gathering) written(c *sql.Conn) []string {
	g.t.Helper()
	var out []string
	for _, r := range mustRows(g.t, c, "SHOW WARNINGS") {
		// Rows are numbered as each server meets them.
		message, _, _ := strings.Cut(r["Message"], " at row ")
		message, _, _ = strings.Cut(message, " (on shard ")
		out = append(out, "warning "+r["Code"]+" "+message)
	}
	for _, t := range []string{"users", "orders", "settings", "notes", "countries"} {
		lines, err := gatherAnswer(g.t.Context(), c, "SELECT * FROM "+t)
		if err != nil {
			g.t.Fatal(err)
		}
		for _, l := range lines[1:] {
			out = append(out, t+" "+l)
		}
	}
	slices.Sort(out)
	return out
}

// sameWrite runs a statement on both sides and compares what is told and what is
// there afterwards.
func (g *gathering) sameWrite(statement string, args ...any) string {
	g.t.Helper()
	got, want := answer(g.t.Context(), g.shunt, statement, args...), answer(g.t.Context(), g.plain, statement, args...)
	if got != want {
		g.t.Errorf("%s\n shunt: %s %v\n plain: %s", statement, got, mustRows(g.t, g.shunt, "SHOW WARNINGS"), want)
	}
	has, wants := g.written(g.shunt), g.written(g.plain)
	for i := range max(len(has), len(wants)) {
		if i >= len(has) || i >= len(wants) || has[i] != wants[i] {
			g.t.Fatalf("after %s: line %d of %d, and %d of the plain server\n shunt: %q\n plain: %q", statement, i, len(has), len(wants), has[min(i, len(has)-1)], wants[min(i, len(wants)-1)])
		}
	}
	return got
}

func (g *gathering) onBoth(statement string) {
	g.t.Helper()
	mustExec(g.t, g.shunt, statement)
	mustExec(g.t, g.plain, statement)
}

// TestGatherWrite: writes over copies change what they change on one server, in
// a transaction and alone, and leave the virtual indexes right.
func TestGatherWrite(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		g.p.createIndex(g.shunt, "i_email", "users (email)")
		g.p.createIndex(g.shunt, "i_tag", "orders (tag)")
		changed := 0
		for _, sql := range gatherWrites {
			sql = strings.ReplaceAll(sql, "{db}", g.p.schema)
			rows, err := rowsOf(t.Context(), g.shunt, "EXPLAIN ROUTE "+sql)
			if err != nil || len(rows) == 0 || rows[0]["Plan"] != "gather" {
				t.Errorf("EXPLAIN ROUTE %s: %v %v", sql, rows, err)
			}
			g.onBoth("BEGIN")
			g.onBoth("INSERT INTO users VALUES (500, 'mine@x', 'DE', 33, 7), (501, NULL, 'FR', 19, 500)")
			g.onBoth("INSERT INTO orders VALUES (5000, 500, 75.5, NULL, 't1'), (5001, 999, 1, NULL, 'mine')")
			if got := g.sameWrite(sql); !strings.HasPrefix(got, "error") && !strings.HasPrefix(got, "affected 0,") {
				changed++
			}
			g.onBoth("ROLLBACK")
			if left := g.scratchLeft(); len(left) > 0 {
				t.Errorf("%s leaves %q after ROLLBACK", sql, left)
			}
		}
		if changed < len(gatherWrites)*3/5 {
			t.Errorf("only %d of %d statements changed anything", changed, len(gatherWrites))
		}
		for _, sql := range gatherWrites {
			g.sameWrite(strings.ReplaceAll(sql, "{db}", g.p.schema))
			if left := g.scratchLeft(); len(left) > 0 {
				t.Errorf("%s leaves %q", sql, left)
			}
		}
		g.sameWrite("UPDATE users u JOIN orders o ON o.user_id = u.id AND o.total > ? SET u.email = ?, u.age = o.id * 0 + ? WHERE u.id < ? AND o.tag <> ?", 10, "p@x", 5, 35, "t3")
		// What a query warns of is an error here, where sql_mode is strict.
		g.sameWrite("UPDATE users u JOIN orders o ON o.user_id = u.id SET u.age = 7 WHERE o.tag = 5")
		g.onBoth("CREATE TEMPORARY TABLE mine (id INT PRIMARY KEY, n INT)")
		g.onBoth("INSERT INTO mine VALUES (3, 0), (8, 1), (11, 2), (20, 3)")
		g.sameWrite("UPDATE users u JOIN mine m ON m.id = u.id SET u.age = m.n")
		g.sameWrite("UPDATE mine SET n = (SELECT COUNT(*) FROM users) WHERE id IN (SELECT user_id FROM orders)")
		g.sameWrite("UPDATE users SET boss = (SELECT SUM(n) FROM mine) WHERE id < 9")
		g.sameWrite("DELETE o FROM orders o JOIN mine m ON m.id = o.user_id WHERE m.n > 3")
		g.onBoth("DROP TEMPORARY TABLE mine")
		g.sameWrite("DELETE FROM orders WHERE tag = ? AND user_id IN (SELECT id FROM users WHERE age > ? UNION SELECT v FROM settings)", "t2", 20)
		g.p.check()
		for i := range g.p.servers {
			if got, want := mustRows(t, g.p.shard(i), "SELECT * FROM countries"), mustRows(t, g.plain, "SELECT * FROM countries"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("countries on shard %d: %v, on one server %v", i, got, want)
			}
		}
	})
}

// TestGatherWriteSafely: under sql_safe_updates a write is done whose conditions name a key of what it changes, as one server does it that
// finds the rows by that: shards have few, copies no keys, and each would answer 1175. Without such a condition it stays refused.
func TestGatherWriteSafely(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		mustExec(t, g.shunt, "SET sql_safe_updates = 1") // on one server it is a matter of its statistics
		for _, sql := range []string{
			"UPDATE users SET age = 99 WHERE id IN (SELECT user_id FROM orders WHERE total > 50)",
			"UPDATE users u JOIN orders o ON o.user_id = u.id SET u.country = 'ZZ' WHERE o.tag = 't1'",
			"UPDATE users SET email = NULL WHERE email = (SELECT MAX(email) FROM (SELECT email FROM users) x)",
			"UPDATE settings SET v = (SELECT COUNT(*) FROM users WHERE age > 20) WHERE k = 'min_age'",
			"DELETE FROM orders WHERE user_id IN (SELECT id FROM users WHERE country = 'DE') ORDER BY id",
			"DELETE o FROM users u JOIN orders o ON o.user_id = u.id WHERE u.age > 30",
			"DELETE users FROM users JOIN notes ON notes.user_id = users.id",
			"UPDATE /*+ NO_MERGE(x) */ users JOIN (SELECT user_id AS id FROM orders) x ON x.id = users.id SET age = 3",
			"UPDATE /*+ NO_MERGE(x) */ users JOIN (SELECT user_id AS id FROM orders WHERE total > 3) x USING (id) SET age = 4",
		} {
			g.onBoth("BEGIN")
			if got := g.sameWrite(sql); strings.HasPrefix(got, "error") || strings.HasPrefix(got, "affected 0,") {
				t.Errorf("%s: %s", sql, got)
			}
			g.onBoth("ROLLBACK")
		}
		mustExec(t, g.plain, "SET sql_safe_updates = 1")
		for _, sql := range []string{
			"UPDATE users SET age = 1 WHERE age IN (SELECT total FROM orders)", "DELETE FROM users WHERE age < (SELECT AVG(total) FROM orders)",
			"UPDATE orders o JOIN notes n ON n.txt = o.tag SET o.total = 1",
		} {
			if got := g.sameWrite(sql); got != "error 1175" {
				t.Errorf("%s: %s, want error 1175", sql, got)
			}
		}
		prepared, err := g.shunt.PrepareContext(t.Context(), "UPDATE users SET age = 98 WHERE id = ? AND id IN (SELECT user_id FROM orders)")
		if err != nil {
			t.Fatal(err)
		}
		defer prepared.Close()
		if _, err := prepared.ExecContext(t.Context(), 7); err != nil {
			t.Error(err)
		}
	})
}

// TestGatherWriteUndone: a write over copies that fails on one shard changes
// nothing on any, and in a transaction nothing of what was before it.
func TestGatherWriteUndone(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{tables: []string{"marks: {shard_key: id}"}})
		g.onBoth("CREATE TABLE marks (id INT PRIMARY KEY, n INT, UNIQUE (n))")
		g.onBoth("INSERT INTO marks VALUES " + rowsFor(30, func(i int) string { return fmt.Sprintf("(%d, %d)", i, 100*i) }))
		state := func() []string { return flat(mustRows(t, g.shunt, "SELECT id, n FROM marks"), "id", "n") }
		before := state()
		// The rows up to 20 get numbers of their own, the last ones the same.
		twice := "UPDATE marks m JOIN users u ON u.id = m.id SET m.n = LEAST(u.id, 20) + 5000"
		got, want := answer(t.Context(), g.shunt, twice), answer(t.Context(), g.plain, twice)
		if got != want || got != "error 1062" {
			t.Errorf("%s, on one server %s", got, want)
		}
		if after := state(); !slices.Equal(after, before) {
			t.Errorf("after an error: %q", after)
		}
		mustExec(t, g.shunt, "BEGIN")
		mustExec(t, g.shunt, "UPDATE marks SET n = 7 WHERE id = 1")
		if got := answer(t.Context(), g.shunt, twice); got != "error 1062" {
			t.Error(got)
		}
		mustExec(t, g.shunt, "COMMIT")
		before[slices.Index(before, "1 100")] = "1 7"
		if after := state(); !slices.Equal(after, before) {
			t.Errorf("after an error in a transaction: %q", after)
		}
		if left := g.scratchLeft(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestGatherWriteSeesNow: a transaction's older snapshot does not count for what
// a write reads, as on one server, and what it has read stays as it is.
func TestGatherWriteSeesNow(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		other := g.p.conn()
		overSnapshots(t, f, g.shunt)
		for _, level := range []string{"REPEATABLE READ", "READ COMMITTED"} {
			mustExec(t, g.shunt, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
			mustExec(t, g.shunt, "BEGIN")
			mustRows(t, g.shunt, "SELECT COUNT(*) AS n FROM users")
			mustRows(t, g.shunt, "SELECT COUNT(*) AS n FROM orders")
			mustExec(t, other, "INSERT INTO users VALUES (700, NULL, 'DE', 1, NULL)")
			mustExec(t, other, "INSERT INTO orders VALUES (7000, 700, 1, NULL, 'new')")
			mustExec(t, g.shunt, "DELETE FROM orders WHERE user_id NOT IN (SELECT id FROM users)")
			if level == "REPEATABLE READ" {
				_, err := other.ExecContext(t.Context(), "DELETE FROM users WHERE id = 700")
				wantError(t, err, 1205, "")
			}
			mustExec(t, g.shunt, "COMMIT")
			want(t, g.shunt, "SELECT tag FROM orders WHERE id = 7000", "tag", "new")
			mustExec(t, other, "DELETE FROM users WHERE id = 700")
			mustExec(t, other, "DELETE FROM orders WHERE id = 7000")
		}
	})
}

// TestGatherWriteLocks: what a write has read stays as it is until it is done. A
// DELETE of orders without a user never takes those of a user who has just come.
func TestGatherWriteLocks(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		mustExec(t, g.shunt, "DELETE FROM orders")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var clients sync.WaitGroup
		var came, runs atomic.Int64
		come := func(c *sql.Conn, id int) error {
			for _, statement := range []string{
				"BEGIN", fmt.Sprintf("INSERT INTO users (id) VALUES (%d)", id), fmt.Sprintf("INSERT INTO orders (id, user_id, total) VALUES (%d, %d, 1)", id+3, id), "COMMIT",
			} {
				if _, err := c.ExecContext(t.Context(), statement); err != nil {
					_, _ = c.ExecContext(t.Context(), "ROLLBACK") // the error is told
					return err
				}
			}
			return nil
		}
		again := func(err error) bool { // as on one server
			code := errorCode(err)
			return code == 1213 || code == 1205
		}
		for w := range 3 {
			c := g.p.conn()
			clients.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					err := come(c, 10000*(w+1)+i)
					switch {
					case err == nil:
						came.Add(1)
					case !again(err):
						t.Error(err)
						return
					}
				}
			})
		}
		c := g.p.conn()
		clients.Go(func() {
			for ctx.Err() == nil {
				r, err := c.ExecContext(t.Context(), "DELETE FROM orders WHERE user_id NOT IN (SELECT id FROM users)")
				if again(err) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n, _ := r.RowsAffected(); n > 0 {
					t.Errorf("%d orders of users who are there were deleted", n)
				}
				runs.Add(1)
			}
		})
		clients.Wait()
		t.Logf("%d orders, %d deletes", came.Load(), runs.Load())
		if came.Load() < 20 || runs.Load() < 3 {
			t.Error("the test says little")
		}
		want(t, g.shunt, "SELECT COUNT(*) AS n FROM orders", "n", fmt.Sprint(came.Load()))
	})
}

// TestGatherWriteCancelled: clients that go away in the middle of writes over
// copies leave nothing behind, and each write has happened on all shards or none.
func TestGatherWriteCancelled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		mustExec(t, g.shunt, "UPDATE users SET age = 0")
		db := g.p.db()
		var clients sync.WaitGroup
		for i := range 24 {
			clients.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(10+15*i)*time.Millisecond)
				defer cancel()
				_, _ = db.ExecContext(ctx, "UPDATE users u JOIN (SELECT COUNT(*) AS n FROM orders a JOIN orders b ON b.id <> a.id) x SET u.age = u.age + 1 WHERE x.n > 0") // it is cut off, or not
			})
		}
		clients.Wait()
		eventually(t, "nothing is left of cancelled writes", func() bool {
			return g.onScratch() == 0 && len(g.scratchLeft()) == 0
		})
		if rows := mustRows(t, g.shunt, "SELECT DISTINCT age FROM users"); len(rows) != 1 {
			t.Errorf("writes happened on some shards only: %v", rows)
		}
	})
}

// TestGatherWriteLogged: a replica that gets statements instead of rows gets the
// copies that they read.
func TestGatherWriteLogged(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		for _, format := range suite.Size([]string{"STATEMENT"}, []string{"STATEMENT", "MIXED", "ROW"}) {
			servers := f.own(t, 2, "--log-bin=binlog", "--server-id=1", "--binlog-format="+format)
			p := start(t, f, setup{servers: servers, tables: []string{"users: {shard_key: id}", "orders: {shard_key: id}"}})
			c := p.conn()
			mustExec(t, c, "CREATE TABLE users (id INT PRIMARY KEY, n INT)")
			mustExec(t, c, "CREATE TABLE orders (id INT PRIMARY KEY, user_id INT)")
			for _, table := range []string{"users", "orders"} {
				mustExec(t, c, "INSERT INTO "+table+" VALUES "+rowsFor(20, func(i int) string { return fmt.Sprintf("(%d, %d)", i, i%7) }))
			}
			mustExec(t, c, "UPDATE users SET n = 50 WHERE id IN (SELECT user_id FROM orders)")
			mustExec(t, c, "BEGIN")
			mustRows(t, c, "SELECT COUNT(*) FROM users")
			mustExec(t, c, "DELETE u FROM users u JOIN orders o ON o.user_id = u.id WHERE o.id > 5")
			mustExec(t, c, "COMMIT")
			for i := range servers {
				made, reads := map[string]bool{}, 0
				for _, r := range mustRows(t, p.shard(i), "SHOW BINLOG EVENTS") {
					if r["Event_type"] == "Annotate_rows" {
						continue // what rows are of, for readers
					}
					for _, name := range regexp.MustCompile("g_[0-9a-f]{8}_[0-9a-z_]+").FindAllString(r["Info"], -1) {
						switch {
						case strings.Contains(r["Info"], "CREATE TABLE"):
							made[name] = true
						case strings.Contains(r["Info"], "DROP TABLE"):
							delete(made, name)
						case !made[name]:
							t.Errorf("%s: shard %d logs %q without the copy", format, i, r["Info"])
						case strings.Contains(r["Info"], "UPDATE users") || strings.Contains(r["Info"], "DELETE u"):
							reads++
						}
					}
				}
				if len(made) > 0 || (reads == 2) != (format == "STATEMENT") && format != "MIXED" {
					t.Errorf("%s: shard %d logs %d statements over copies, and leaves %v", format, i, reads, made)
				}
			}
		}
	})
}

// TestWriteLimited: UPDATE and DELETE with ORDER BY and LIMIT over several shards
// change the rows that one server would.
func TestWriteLimited(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{tables: []string{"parts: {shard_key: k}"}})
		g.p.createIndex(g.shunt, "i_email", "users (email)")
		g.onBoth("CREATE TABLE parts (id INT NOT NULL, k VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, n INT, PRIMARY KEY (id, k))")
		g.onBoth("INSERT INTO parts VALUES " + rowsFor(60, func(i int) string { return fmt.Sprintf("(%d, 'é''%d', %d)", i%7, i/5, i) }))
		for _, sql := range []string{
			"UPDATE users SET age = 1 ORDER BY id LIMIT 5",
			"UPDATE users SET email = CONCAT(email, '!'), age = age + 1 WHERE age > 20 ORDER BY age DESC, id LIMIT 7;",
			"UPDATE users AS u SET u.email = 'limited@x' WHERE u.email LIKE 'U1%' OR u.age IS NULL ORDER BY u.email IS NULL, u.email, u.id LIMIT 6 -- done",
			"UPDATE users SET age = 1 WHERE id > 1000 ORDER BY id LIMIT 3",
			"UPDATE IGNORE users SET age = 'many' ORDER BY id LIMIT 3",
			"UPDATE users SET age = 'many' ORDER BY id LIMIT 3",
			"UPDATE users SET age = 1 WHERE nothing = 1 ORDER BY id LIMIT 3",
			"UPDATE countries SET name = 'first' WHERE name IS NOT NULL ORDER BY code LIMIT 2",
			"DELETE FROM countries ORDER BY name DESC, code LIMIT 1",
			"UPDATE parts SET n = n + 100 ORDER BY k, id DESC LIMIT 11",
			"DELETE FROM parts WHERE n > 20 ORDER BY n LIMIT 13",
			"DELETE FROM parts ORDER BY n DESC LIMIT 0",
			"DELETE FROM users WHERE country = 'DE' ORDER BY id DESC LIMIT 2",
			"DELETE FROM users ORDER BY id LIMIT 1000",
		} {
			for _, around := range [][2]string{{"BEGIN", "ROLLBACK"}, {"DO 0", "DO 0"}} {
				g.onBoth(around[0])
				if around[0] == "BEGIN" {
					g.onBoth("INSERT INTO users VALUES (0, 'U19@x', 'DE', 70, NULL)")
				}
				g.sameWrite(sql)
				g.same("SELECT * FROM parts ORDER BY id, k")
				g.onBoth(around[1])
			}
		}
		g.onBoth("INSERT INTO users (id, email, age) VALUES (1, 'a@x', 1), (2, 'b@x', 2), (3, 'c@x', 3), (4, 'd@x', 4)")
		g.sameWrite("UPDATE users SET email = ?, age = age + ? WHERE age < ? ORDER BY id DESC LIMIT ?", "z@x", 3, 4, 2)
		g.sameWrite("DELETE FROM users WHERE email = ? ORDER BY id LIMIT ?", "z@x", 1)
		// What is left to chance changes as many rows.
		r := mustExec(t, g.shunt, "DELETE FROM users LIMIT 2")
		if n := affected(t, r); n != 2 {
			t.Errorf("%d rows deleted", n)
		}
		want(t, g.shunt, "SELECT COUNT(*) AS n FROM users", "n", "1")

		// Workers that take rows each get their own.
		mustExec(t, g.shunt, "INSERT INTO users (id, age) VALUES "+rowsFor(30, func(i int) string { return fmt.Sprintf("(%d, 0)", 100+i) }))
		var took atomic.Int64
		var workers sync.WaitGroup
		for w := range 2 {
			c := g.p.conn()
			workers.Go(func() {
				for range 200 {
					r, err := c.ExecContext(t.Context(), fmt.Sprintf("UPDATE users SET age = %d WHERE age = 0 ORDER BY id LIMIT 4", w+1))
					if code := errorCode(err); code == 1213 || code == 1205 {
						continue // as on one server, again
					}
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := r.RowsAffected()
					took.Add(n)
					if n == 0 {
						return
					}
				}
			})
		}
		workers.Wait()
		if took.Load() != 30 {
			t.Errorf("30 rows were taken %d times", took.Load())
		}
	})
}
