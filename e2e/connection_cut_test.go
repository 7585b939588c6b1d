package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestCuts: a shard fails at any byte of what a statement sends there and gets back.
// A read answers all rows or fails. A write whose error doesn't say that its outcome is
// open has changed nothing. What is there is found by shard key, by virtual index and by
// asking all, and nothing is left open anywhere.
//
// SHUNT_E2E_CUTS sets the number of statements (default 30), SHUNT_E2E_SEED repeats a run.
func TestCuts(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		c := startCuts(t, f)
		for n := range envInt(t, "SHUNT_E2E_CUTS", 30) {
			if c.cut(n); t.Failed() {
				return
			}
		}
	})
}

// cuts are four shards, each behind a valve that acts at some byte.
type cuts struct {
	t       *testing.T
	p       *process
	rnd     *rand.Rand
	servers []*throwaway.Server
	valves  []*throwaway.Valve
	// next is the first id that no statement has written.
	next int
}

const (
	cutUser = "cut" // Shunt's alone, so that all its connections can be found
	cutRows = 600   // of people, with ids from 0
	cutIDs  = 10_000
)

func startCuts(t *testing.T, f *flavour) *cuts {
	t.Helper()
	seed := uint64(envInt(t, "SHUNT_E2E_SEED", int(time.Now().UnixNano())))
	t.Logf("SHUNT_E2E_SEED=%d", seed)
	c := &cuts{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), servers: f.own(t, 4), next: 1_000_000}
	var addrs []string
	for _, s := range c.servers {
		db := onShard(t, s, "")
		mustExec(t, db, "CREATE USER '"+cutUser+"'@'%' IDENTIFIED BY 'secret'")
		mustExec(t, db, "GRANT ALL ON *.* TO '"+cutUser+"'@'%'")
		v := valveTo(t, s)
		c.valves, addrs = append(c.valves, v), append(addrs, v.Addr())
	}
	c.p = start(t, f, setup{servers: c.servers, addrs: addrs, user: cutUser, password: "secret", tables: peoplePlacement, extra: "shard_timeout: 1s"})
	q := c.p.conn()
	for _, table := range []string{"people", "notes", "cities"} {
		mustExec(t, q, "CREATE TABLE "+table+" (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(100), city VARCHAR(40) NOT NULL DEFAULT 'nowhere', age INT, pad VARCHAR(1000), KEY email (email))")
	}
	c.p.createIndex(q, "idx_email", "people (email)")
	c.p.createIndex(q, "idx_note", "notes (email)")
	mustExec(t, q, "INSERT INTO people (id, email, age, pad) VALUES "+cutValues(0, cutRows))
	mustExec(t, q, "INSERT INTO notes (id, email, age, pad) VALUES "+cutValues(0, 30))
	return c
}

func cutValues(from, n int) string {
	return rowsFor(n, func(i int) string {
		return fmt.Sprintf("(%d,'r%d@x',%d,'%s')", from+i, from+i, i%50, strings.Repeat("v", 200))
	})
}

// cutStatement is a statement that a shard fails in.
type cutStatement struct {
	name  string
	write bool
	// do answers the rows. It may write those with the cutIDs ids from `from`.
	do func(ctx context.Context, q *sql.Conn, from int) ([]string, error)
}

var cutStatements = []cutStatement{
	{"LOAD DATA", true, func(ctx context.Context, q *sql.Conn, from int) ([]string, error) {
		var b strings.Builder
		for i := range cutRows * 8 {
			fmt.Fprintf(&b, "%d\tr%d@x\t%d\t%s\n", from+i, from+i, i%50, strings.Repeat("w", 300))
		}
		file, remove := registerFile(b.String())
		defer remove()
		_, err := q.ExecContext(ctx, "LOAD DATA LOCAL INFILE "+file+" INTO TABLE people (id, email, age, pad)")
		return nil, err
	}},
	cutWrite("INSERT", func(from int) string {
		return "INSERT INTO people (id, email, age, pad) VALUES " + cutValues(from, cutRows)
	}),
	cutWrite("INSERT ... SELECT", func(from int) string {
		return fmt.Sprintf("INSERT INTO people (id, email, age, pad) SELECT id + %d, CONCAT('r', id + %d, '@x'), age, pad FROM people WHERE id < %d", from, from, cutRows)
	}),
	cutWrite("INSERT anywhere", func(from int) string {
		return "INSERT INTO notes (id, email, age, pad) VALUES " + cutValues(from, cutRows)
	}),
	cutWrite("REPLACE anywhere", func(from int) string {
		return "REPLACE INTO notes (id, email, age, pad) VALUES " + cutValues(from, 60)
	}),
	cutWrite("INSERT reference", func(from int) string {
		return "INSERT INTO cities (id, email, age, pad) VALUES " + cutValues(from, cutRows)
	}),
	cutWrite("gathered UPDATE", func(from int) string {
		return fmt.Sprintf("UPDATE people SET city = 'c%d' WHERE id < %d AND age IN (SELECT age + 0 FROM notes WHERE id < 30)", from, cutRows)
	}),
	cutWrite("UPDATE ... LIMIT", func(from int) string {
		return fmt.Sprintf("UPDATE people SET city = 'c%d' WHERE id < %d ORDER BY id LIMIT 200", from, cutRows)
	}),
	cutWrite("UPDATE", func(from int) string {
		return fmt.Sprintf("UPDATE people SET city = 'c%d' WHERE id < %d", from, cutRows)
	}),
	cutRead("SELECT id, email, pad FROM people WHERE id < 600"),
	cutRead("SELECT id, email, pad FROM people WHERE id < 600 ORDER BY email"),
	cutRead("SELECT id, pad FROM people WHERE id < 600 ORDER BY age, id LIMIT 300 OFFSET 100"),
	cutRead("SELECT age, COUNT(*), SUM(id), MAX(email) FROM people WHERE id < 600 GROUP BY age ORDER BY age DESC"),
	cutRead("SELECT COUNT(*), AVG(age) FROM people WHERE id < 600"),
	cutRead("SELECT a.id, b.id AS bid, b.pad FROM people a JOIN people b ON a.age = b.id WHERE a.id < 600 AND b.id < 600"),
	cutRead("SELECT id, pad FROM people WHERE id < 600 AND age > (SELECT AVG(age) FROM people WHERE id < 600)"),
	cutRead("SELECT id, pad, ROW_NUMBER() OVER (ORDER BY email) AS n FROM people WHERE id < 600"),
	cutRead("SELECT id, pad FROM people WHERE id < 400 UNION SELECT id, pad FROM people WHERE id BETWEEN 300 AND 599"),
	cutRead("SELECT table_name AS n, column_name AS c FROM information_schema.columns WHERE table_schema = DATABASE()"),
}

func cutRead(query string) cutStatement {
	return cutStatement{query, false, func(ctx context.Context, q *sql.Conn, _ int) ([]string, error) { return sortedRows(ctx, q, query) }}
}

func cutWrite(name string, statement func(from int) string) cutStatement {
	return cutStatement{name, true, func(ctx context.Context, q *sql.Conn, from int) ([]string, error) {
		_, err := q.ExecContext(ctx, statement(from))
		return nil, err
	}}
}

func sortedRows(ctx context.Context, q queryer, query string) ([]string, error) {
	rows, err := rowsOf(ctx, q, query)
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = fmt.Sprint(r)
	}
	slices.Sort(out)
	return out, err
}

func (x cutStatement) inTransaction() cutStatement {
	return cutStatement{x.name + ", in a transaction", x.write, func(ctx context.Context, q *sql.Conn, from int) ([]string, error) {
		if _, err := q.ExecContext(ctx, "BEGIN"); err != nil {
			return nil, err
		}
		out, err := x.do(ctx, q, from)
		if err != nil {
			_, rollback := q.ExecContext(ctx, "ROLLBACK")
			return nil, errors.Join(err, rollback)
		}
		_, err = q.ExecContext(ctx, "COMMIT")
		return out, err
	}}
}

// cut executes a statement once as it is, to know its traffic and answer, and once
// with a shard that fails in the midst of it.
func (c *cuts) cut(n int) {
	t := c.t
	x := cutStatements[c.rnd.IntN(len(cutStatements))]
	if c.rnd.IntN(2) == 0 {
		x = x.inTransaction()
	}
	i := c.rnd.IntN(len(c.servers))
	way, fail, heal := c.failure(i)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, err := c.p.db().Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	before := c.valves[i].Passed()
	expected, err := x.do(ctx, q, c.next)
	if err != nil {
		t.Fatalf("%d: %s, while all is well: %v", n, x.name, err)
	}
	traffic := c.valves[i].Passed() - before
	at := c.rnd.Int64N(max(traffic, 1))
	if c.rnd.IntN(3) == 0 { // the end is where COMMIT is
		at = max(0, traffic-c.rnd.Int64N(200))
	}
	what := fmt.Sprintf("%d: %s; %s of s%d after %d of %d bytes", n, x.name, way, i, at, traffic)
	from := c.next + cutIDs
	c.next += 2 * cutIDs
	c.valves[i].After(at, fail)
	got, err := x.do(ctx, q, from)
	c.valves[i].After(0, nil)
	t.Logf("%s: %.200s", what, fmt.Sprint(err))
	if ctx.Err() != nil {
		t.Errorf("%s: it hung", what)
	}
	if err == nil && !slices.Equal(got, expected) {
		t.Errorf("%s: %d rows, or others, instead of %d", what, len(got), len(expected))
	}
	q.Close()
	heal()
	c.healed()
	if x.write {
		c.verify(what, from, err)
	}
}

// failure chooses how a shard fails.
func (c *cuts) failure(i int) (way string, fail func(net.Conn), heal func()) {
	v := c.valves[i]
	heal = func() {}
	switch c.rnd.IntN(6) {
	case 0:
		return "cut of all connections", func(net.Conn) { v.Cut() }, heal
	case 1:
		return "cut of one connection", func(nc net.Conn) { nc.Close() }, heal
	case 2:
		return "reset", func(net.Conn) { v.Forget(); v.Cut() }, heal
	case 3:
		return "silence", func(net.Conn) { v.Shut() }, v.Open
	case 4:
		var killed []string
		return "KILL", func(net.Conn) { killed = c.kill(i, "KILL ") }, func() {
			db := onShard(c.t, c.servers[i], "")
			eventually(c.t, "the killed connections are gone", func() bool {
				return len(killed) == 0 || len(mustRows(c.t, db, "SELECT id FROM information_schema.processlist WHERE id IN ("+strings.Join(killed, ",")+")")) == 0
			})
		}
	}
	return "KILL QUERY", func(net.Conn) { c.kill(i, "KILL QUERY ") }, heal
}

// kill returns the ids of Shunt's connections, which it kills. It is called by a valve,
// outside of the test's goroutine.
func (c *cuts) kill(i int, verb string) (ids []string) {
	s := c.servers[i]
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", s.User, s.Password, s.Addr()))
	if err != nil {
		return nil
	}
	defer db.Close()
	rows, _ := rowsOf(context.Background(), db, "SELECT id FROM information_schema.processlist WHERE user = '"+cutUser+"'")
	for _, r := range rows {
		_, _ = db.ExecContext(context.Background(), verb+r["id"]) // it may have gone
		ids = append(ids, r["id"])
	}
	return ids
}

// healed waits until all shards serve and nothing is left open.
func (c *cuts) healed() {
	t := c.t
	t.Helper()
	db := c.p.open("")
	defer db.Close()
	left := ""
	defer func() {
		if left != "" {
			t.Log(left)
		}
	}()
	eventually(t, "all shards serve", func() bool {
		for i := range c.servers {
			if is := shardState(t, db, fmt.Sprint("s", i)); is != "up" {
				left = fmt.Sprint("s", i, " is ", is)
				return false
			}
		}
		left = ""
		_, err := rowsOf(t.Context(), db, "SELECT COUNT(*) FROM "+c.p.schema+".people")
		if err != nil {
			left = err.Error()
		}
		return err == nil
	})
	// InnoDB shows what it showed 100 ms ago to who asks more often. And a connection that
	// was used just before it was lost is taken for well for 50 ms.
	looks := 0
	eventuallyEach(t, 150*time.Millisecond, "nothing is left open", func() bool {
		if left = c.leftOpen(db); left != "" {
			looks = 0
			return false
		}
		looks++
		return looks > 1
	})
}

// leftOpen says what is open though no statement runs; "" for nothing.
func (c *cuts) leftOpen(db *sql.DB) string {
	for i, s := range c.servers {
		direct := onShard(c.t, s, "")
		rows := append(mustRows(c.t, direct, "SELECT trx_mysql_thread_id, trx_query FROM information_schema.innodb_trx WHERE trx_mysql_thread_id NOT IN (0, CONNECTION_ID())"),
			mustRows(c.t, direct, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'shunt_scratch' AND table_name NOT LIKE 'owner!_%' ESCAPE '!'")...)
		if len(rows) > 0 {
			return fmt.Sprint("on s", i, ": ", rows)
		}
	}
	for _, m := range []string{"shunt_pinned_connections", "shunt_sessions_pinned"} {
		if n, _ := c.p.metric(m); n != 0 {
			return fmt.Sprint(m, " ", n)
		}
	}
	for _, r := range mustRows(c.t, db, "SHOW SHARDS") {
		if r["Connections_in_use"] != "0" {
			return fmt.Sprint(r)
		}
	}
	return ""
}

// verify compares what the shards have of a write with what its error said and with
// what Shunt finds.
func (c *cuts) verify(what string, from int, told error) {
	t := c.t
	unsure := told != nil && outcomeOpen(told)
	db := c.p.db()
	for _, table := range []string{"people", "notes", "cities"} {
		query := fmt.Sprintf("SELECT id, email, age, pad FROM %s WHERE id BETWEEN %d AND %d", table, from, from+cutIDs-1)
		var there []string
		changed := 0
		for i := range c.servers {
			direct := c.p.shard(i)
			rows, err := sortedRows(t.Context(), direct, query)
			if err != nil {
				t.Fatal(err)
			}
			changed += len(mustRows(t, direct, fmt.Sprintf("SELECT id FROM people WHERE city = 'c%d'", from)))
			switch {
			case table != "cities":
				there = append(there, rows...)
			case i == 0:
				there = rows
			case !slices.Equal(rows, there) && !unsure:
				t.Errorf("%s: s%d has %d rows of a reference table, s0 %d: %v", what, i, len(rows), len(there), told)
			}
		}
		slices.Sort(there)
		if n := len(there) + changed; told != nil && n > 0 && !unsure {
			t.Errorf("%s: told %v, and %d rows of %s have been written", what, told, n, table)
		}
		if table == "cities" && unsure {
			continue // its copies may differ
		}
		if found, err := sortedRows(t.Context(), db, query); err != nil || !slices.Equal(found, there) {
			t.Errorf("%s: all shards of %s are asked: %d rows, there are %d: %v", what, table, len(found), len(there), err)
		}
		if table == "cities" {
			continue
		}
		rows := mustRows(t, db, query)
		for k := 0; k < len(rows); k += max(1, len(rows)/50) {
			for _, where := range []string{"id = " + rows[k]["id"], "email = '" + rows[k]["email"] + "'"} {
				if r := mustRows(t, db, "SELECT id FROM "+table+" WHERE "+where); len(r) != 1 {
					t.Errorf("%s: %s: %s finds %d rows", what, table, where, len(r))
				}
			}
		}
	}
}

// outcomeOpen: the error says that some may have been committed.
func outcomeOpen(err error) bool {
	return strings.Contains(err.Error(), "during COMMIT") || strings.Contains(err.Error(), "outcome")
}
