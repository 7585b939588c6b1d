package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestAskedOnce: whatever a statement looks up in a store that several have is one statement at
// the home, in a transaction with a snapshot as well, and one more where copies are narrowed by
// what others have.
func TestAskedOnce(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}", "orders: {shard_key: id}"}, extra: "store: {shards: true}"})
		db := p.conn()
		mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), name VARCHAR(50), city VARCHAR(50), age INT)")
		mustExec(t, db, "CREATE TABLE orders (id BIGINT PRIMARY KEY, email VARCHAR(50), total INT)")
		for i := range 20 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x', 'n%d', 'c%d', %d)", i, i, i%4, i%3, i))
			mustExec(t, db, fmt.Sprintf("INSERT INTO orders VALUES (%d, 'p%d@x', %d)", 100+i, i, i))
		}
		p.createIndex(db, "idx_email", "people(email) HOME s0")
		p.createIndex(db, "idx_place", "people(name, city) HOME s0")
		p.createIndex(db, "idx_of", "orders(email) HOME s0")
		for _, query := range []string{"SELECT id FROM people WHERE email = 'p7@x'", "SELECT id FROM people WHERE name = 'n1' AND city = 'c1'", "SELECT id FROM orders WHERE email = 'p7@x'"} {
			eventually(t, "the indexes are gone by", func() bool { return strings.Contains(routeOf(t, db, query).access, "index") })
		}
		p.settled(db)

		home := onShard(t, p.servers[0], "mysql")
		mustExec(t, home, "SET GLOBAL log_output = 'TABLE'")
		mustExec(t, home, "SET GLOBAL general_log = ON")
		// Of all that is asked of a home only lookups name removals, and what asks for their number.
		asked := func() string {
			return mustRows(t, home, "SELECT COUNT(*) AS n FROM general_log WHERE command_type IN ('Query', 'Execute') AND argument LIKE '%removals%' AND argument NOT LIKE '%general_log%'")[0]["n"]
		}
		var ten []string
		for i := range 10 {
			ten = append(ten, fmt.Sprintf("'p%d@x'", i))
		}
		list := strings.Join(ten, ", ")
		check := func(statement string, rows int, args ...any) {
			t.Helper()
			most := "1"
			if strings.Contains(statement, "JOIN") {
				most = "2"
			}
			eventually(t, statement+" is "+most+" statements at the home at most", func() bool { // now and then others ask too
				mustExec(t, home, "TRUNCATE TABLE general_log")
				if got := mustRows(t, db, statement, args...); len(got) != rows {
					t.Errorf("%s: %d rows, want %d", statement, len(got), rows)
				}
				n := asked()
				return n >= "1" && n <= most
			})
		}
		checkAll := func() {
			t.Helper()
			check("SELECT id FROM people WHERE email = 'p3@x'", 1)
			check("SELECT id FROM people WHERE email IN ("+list+")", 10)
			check("SELECT id FROM people WHERE email IN (?, ?, ?)", 2, "p3@x", "p4@x", "p99@x")
			check("SELECT id FROM people WHERE email = 'p3@x' OR name = 'n0' AND city IN ('c0', 'c1')", 5)
			check("SELECT id FROM people WHERE email LIKE 'p1%'", 11)
			check("SELECT id FROM people WHERE name IN ('n0', 'n1') AND city > 'c1'", 3)
			check("SELECT p.id FROM people p JOIN orders o ON o.email = p.email WHERE p.email IN ("+list+")", 10)
		}
		checkAll()
		mustExec(t, db, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		mustExec(t, db, "BEGIN")
		checkAll()
		mustExec(t, db, "COMMIT")
		eventually(t, "an UPDATE is one statement at the home", func() bool {
			mustExec(t, home, "TRUNCATE TABLE general_log")
			mustExec(t, db, "UPDATE people SET age = age + 1 WHERE email IN ("+list+")")
			return asked() == "1"
		})
		// What an INSERT's rows add to several indexes is one as well.
		id := 200
		eventually(t, "the entries of an INSERT are added by one statement", func() bool {
			mustExec(t, home, "TRUNCATE TABLE general_log")
			mustExec(t, db, "INSERT INTO people VALUES "+rowsFor(4, func(int) string {
				id++
				return fmt.Sprintf("(%d, 'q%d@x', 'm%[1]d', 'c0', 1)", id, id)
			}))
			return mustRows(t, home, "SELECT COUNT(*) AS n FROM general_log WHERE command_type IN ('Query', 'Execute') AND argument LIKE 'INSERT INTO entries%'")[0]["n"] == "1"
		})
		p.check()
	})
}
