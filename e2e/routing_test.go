package e2e

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// people is the table of most tests: sharded by id, looked up by email.
const people = `CREATE TABLE people (
	id BIGINT NOT NULL PRIMARY KEY,
	email VARCHAR(100),
	city VARCHAR(40) NOT NULL DEFAULT 'nowhere',
	age INT,
	KEY email (email)
)`

var peoplePlacement = []string{"people: {shard_key: id}", "pets: {shard_key: owner}", "cities: {placement: reference}", "settings: {placement: single, shard: s1}", "notes: {placement: anywhere}"}

// startPeople starts shunt with n people, emails p<id>@x, and an index on email.
func startPeople(t *testing.T, f *flavour, n int, s setup) (*process, *sql.Conn) {
	t.Helper()
	s.tables = append(s.tables, peoplePlacement...)
	if s.servers == nil && s.user == "" {
		s.user, s.password = f.account(t), shardPassword
	}
	p := start(t, f, s)
	c := p.conn()
	mustExec(t, c, people)
	if n > 0 {
		var b strings.Builder
		b.WriteString("INSERT INTO people (id, email, age) VALUES ")
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "(%d,'p%d@x',%d)", i, i, 20+i%50)
		}
		if got := affected(t, mustExec(t, c, b.String())); got != int64(n) {
			t.Fatalf("inserted %d rows, want %d", got, n)
		}
	}
	p.createIndex(c, "idx_email", "people (email)")
	allKnown(t, c)
	return p, c
}

func TestByShardKey(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 100, setup{})
		counts := p.onShards("SELECT id FROM people")
		sum := 0
		for i, n := range counts {
			sum += n
			if n == 0 {
				t.Errorf("shard s%d has no rows: %v", i, counts)
			}
		}
		if sum != 100 {
			t.Errorf("the shards hold %v rows, want 100 in all", counts)
		}
		want(t, c, "SELECT id, email FROM people WHERE id = 42", "id email", "42 p42@x")
		wantRoute(t, c, "SELECT * FROM people WHERE id = 42", 1, "shard_key")
		want(t, c, "SELECT id FROM people WHERE id IN (1, 2, 3)", "id", "1", "2", "3")
		if n := affected(t, mustExec(t, c, "UPDATE people SET city = 'Rome' WHERE id = 42")); n != 1 {
			t.Errorf("affected %d", n)
		}
		if n := affected(t, mustExec(t, c, "DELETE FROM people WHERE id = 43")); n != 1 {
			t.Errorf("affected %d", n)
		}
		want(t, c, "SELECT id, city FROM people WHERE id = 42 OR id = 43", "id city", "42 Rome")
		want(t, c, "SELECT id FROM people WHERE city = 'Rome'", "id", "42")
		wantRoute(t, c, "SELECT id FROM people WHERE city = 'Rome'", 4, "scatter")
		if got := len(mustRows(t, c, "SELECT id FROM people")); got != 99 {
			t.Errorf("a scatter finds %d rows, want 99", got)
		}
	})
}

func TestByVirtualIndex(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 200, setup{})
		const byEmail = "SELECT id FROM people WHERE email = 'p42@x'"
		wantRoute(t, c, byEmail, 1, "index:idx_email")
		want(t, c, byEmail, "id", "42")
		statements, _ := p.metric("shunt_statements_total", `access="index"`)
		shards, _ := p.metric("shunt_statement_shards_sum")
		mustRows(t, c, byEmail)
		if n, _ := p.metric("shunt_statements_total", `access="index"`); n != statements+1 {
			t.Errorf("shunt_statements_total by index rose from %v to %v", statements, n)
		}
		if n, _ := p.metric("shunt_statement_shards_sum"); n != shards+1 {
			t.Errorf("shunt_statement_shards_sum rose from %v to %v", shards, n)
		}

		// The collation's equality decides, not the bytes'.
		want(t, c, "SELECT id FROM people WHERE email = 'P42@X'", "id", "42")
		// Sets of keys, intersections and unions.
		want(t, c, "SELECT id FROM people WHERE email IN ('p1@x', 'p2@x', 'nobody@x')", "id", "1", "2")
		want(t, c, "SELECT id FROM people WHERE email = 'p1@x' OR email = 'p3@x'", "id", "1", "3")
		want(t, c, "SELECT id FROM people WHERE email = 'p1@x' AND id = 1", "id", "1")
		want(t, c, "SELECT id FROM people WHERE email = 'p1@x' AND id = 2", "id")
		want(t, c, "SELECT id FROM people WHERE (email, age) = ('p5@x', 25)", "id", "5")
		want(t, c, "SELECT id FROM people WHERE email LIKE 'p15%'", "id",
			"15", "150", "151", "152", "153", "154", "155", "156", "157", "158", "159")
		want(t, c, "SELECT id FROM people WHERE email BETWEEN 'p42@x' AND 'p42@x'", "id", "42")
		want(t, c, "SELECT id FROM people WHERE email > 'p98@x' AND email < 'p99@y'", "id", "99")
		want(t, c, "SELECT id FROM people WHERE email <=> 'p7@x'", "id", "7")
		want(t, c, "SELECT id FROM people WHERE email = 'nobody@x'", "id")
		if r := routeOf(t, c, "SELECT id FROM people WHERE email = 'nobody@x'"); len(r.shards) > 1 {
			t.Errorf("a key that nobody has goes to %v", r.shards)
		}

		// What the key can't say does not use it.
		want(t, c, "SELECT id FROM people WHERE email = 0 AND id = 3", "id", "3")
		wantRoute(t, c, "SELECT id FROM people WHERE email IS NULL", 4, "scatter")
		wantRoute(t, c, "SELECT id FROM people WHERE CONCAT(email, '') = 'p1@x'", 4, "scatter")
		wantRoute(t, c, "SELECT id FROM people WHERE email = 5", 4, "scatter")
	})
}

func TestReadYourWriteByIndex(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 50, setup{})
		for i, set := range []string{
			"email = 'new%d@x'",
			"email = CONCAT('new', '%d', '@x')",
			"city = 'Oslo', email = LOWER('NEW%d@X')",
		} {
			mustExec(t, c, fmt.Sprintf("UPDATE people SET "+set+" WHERE id = %d", i, i))
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'new%d@x'", i), "id", fmt.Sprint(i))
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id")
		}
		// Other connections see it as well.
		want(t, p.db(), "SELECT id FROM people WHERE email = 'new1@x'", "id", "1")

		mustExec(t, c, "INSERT INTO people (id, email) VALUES (7, 'dup@x') ON DUPLICATE KEY UPDATE email = 'odku@x'")
		want(t, c, "SELECT id FROM people WHERE email = 'odku@x'", "id", "7")
		mustExec(t, c, "INSERT INTO people (id, email) VALUES (8, 'values@x') ON DUPLICATE KEY UPDATE email = VALUES(email)")
		want(t, c, "SELECT id FROM people WHERE email = 'values@x'", "id", "8")
		mustExec(t, c, "REPLACE INTO people (id, email) VALUES (9, 'replaced@x')")
		want(t, c, "SELECT id FROM people WHERE email = 'replaced@x'", "id", "9")
		mustExec(t, c, "UPDATE people SET email = 'by index@x' WHERE email = 'replaced@x'")
		want(t, c, "SELECT id FROM people WHERE email = 'by index@x'", "id", "9")
		if n := affected(t, mustExec(t, c, "DELETE FROM people WHERE email = 'by index@x'")); n != 1 {
			t.Errorf("DELETE by index affected %d rows", n)
		}
		want(t, c, "SELECT id FROM people WHERE id = 9", "id")

		// Afterwards nothing stale stays, and every lookup is narrow again.
		p.settled(c)
		for _, r := range mustRows(t, c, "CHECK VIRTUAL INDEX idx_email ON people") {
			if r["Stale"] != "0" || r["Missing"] != "0" {
				t.Errorf("after maintenance: %v", r)
			}
		}
		wantRoute(t, c, "SELECT id FROM people WHERE email = 'p20@x'", 1, "index:idx_email")
	})
}

func TestCompositeIndex(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		p.createIndex(c, "idx_city_age", "people (city, age) PARTITIONS 3")
		mustExec(t, c, "INSERT INTO people VALUES (1,'a','Rome',30),(2,'b','Rome',31),(3,'c','Oslo',30),(4,'d','Oslo',NULL)")
		mustExec(t, c, "INSERT INTO people (id) VALUES (5)")
		want(t, c, "SELECT id FROM people WHERE city = 'Rome' AND age = 31", "id", "2")
		wantRoute(t, c, "SELECT id FROM people WHERE city = 'Rome' AND age = 31", 1, "index:idx_city_age")
		want(t, c, "SELECT id FROM people WHERE city = 'Oslo'", "id", "3", "4")
		if r := routeOf(t, c, "SELECT id FROM people WHERE city = 'Oslo'"); r.access != "index:idx_city_age" {
			t.Errorf("a prefix of the key: %+v", r)
		}
		want(t, c, "SELECT id FROM people WHERE city = 'nowhere'", "id", "5")
		mustExec(t, c, "UPDATE people SET city = 'Bergen' WHERE id = 4")
		want(t, c, "SELECT id FROM people WHERE city = 'Bergen' AND age IS NULL", "id", "4")
		want(t, c, "SELECT id FROM people WHERE city = 'Bergen'", "id", "4")
	})
}

func TestPrepared(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 50, setup{})
		for _, interpolate := range []bool{false, true} {
			db := p.db(func(c *mysql.Config) { c.InterpolateParams = interpolate })
			stmt, err := db.PrepareContext(t.Context(), "SELECT id, email FROM people WHERE email = ?")
			if err != nil {
				t.Fatal(err)
			}
			defer stmt.Close()
			for i := range 20 {
				var id int
				var email string
				if err := stmt.QueryRowContext(t.Context(), fmt.Sprintf("p%d@x", i)).Scan(&id, &email); err != nil || id != i {
					t.Errorf("p%d@x: %d %q %v", i, id, email, err)
				}
			}
			mustExec(t, db, "REPLACE INTO people (id, email, age) VALUES (?, ?, ?)", 100, "prepared@x", nil)
			rows := mustRows(t, db, "SELECT id, age FROM people WHERE email = ?", "prepared@x")
			if got := flat(rows, "id", "age"); !slices.Equal(got, []string{"100 NULL"}) {
				t.Errorf("got %q", got)
			}
			mustExec(t, db, "UPDATE people SET email = ? WHERE id = ?", fmt.Sprintf("again %v@x", interpolate), 100)
			rows = mustRows(t, db, "SELECT id FROM people WHERE email = ?", fmt.Sprintf("again %v@x", interpolate))
			if len(rows) != 1 {
				t.Errorf("after a prepared update: %v", rows)
			}
			if rows := mustRows(t, db, "SELECT id FROM people WHERE email = ?", "prepared@x"); len(rows) != 0 {
				t.Errorf("the old key still finds %v", rows)
			}
			if rows := mustRows(t, db, "SELECT id FROM people WHERE id IN (?, ?, ?)", 1, 2, 3); len(rows) != 3 {
				t.Errorf("IN with parameters: %v", rows)
			}
			// A parameter longer than a packet's first bytes, and one with quotes.
			long := strings.Repeat("x", 90) + `'"\`
			mustExec(t, db, "REPLACE INTO people (id, email) VALUES (?, ?)", 101, long)
			if rows := mustRows(t, db, "SELECT id FROM people WHERE email = ?", long); len(rows) != 1 {
				t.Errorf("a key with quotes: %v", rows)
			}
		}
	})
}

func TestMultiRowInsertIsSplit(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		r := mustExec(t, c, `INSERT INTO people (id, email, city) VALUES
			(1, 'a;b@x', 'x''y'), (2, "quo""te@x", 'back\\slash'), /* comment */
			(3, CONCAT('c', '@x'), DEFAULT), (4, NULL, 'z'), (5, 0x6540, 'hex')`)
		if n := affected(t, r); n != 5 {
			t.Errorf("affected %d", n)
		}
		sum := 0
		for _, n := range p.onShards("SELECT id FROM people") {
			sum += n
		}
		if sum != 5 {
			t.Errorf("the shards hold %d rows", sum)
		}
		want(t, c, "SELECT id, city FROM people WHERE email = 'a;b@x'", "id city", "1 x'y")
		want(t, c, `SELECT id, city FROM people WHERE email = 'quo"te@x'`, "id city", `2 back\slash`)
		want(t, c, "SELECT id, city FROM people WHERE email = 'c@x'", "id city", "3 nowhere")
		want(t, c, "SELECT id, city FROM people WHERE email = 'e@'", "id city", "5 hex")
		want(t, c, "SELECT id, city FROM people WHERE email IS NULL", "id city", "4 z")
		_, err := c.ExecContext(t.Context(), "INSERT INTO people (id) VALUES (3)")
		wantError(t, err, 1062, "")
	})
}

func TestPlacements(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		mustExec(t, c, "CREATE TABLE pets (owner BIGINT NOT NULL, name VARCHAR(40) NOT NULL, PRIMARY KEY (owner, name))")
		mustExec(t, c, "CREATE TABLE cities (code CHAR(3) PRIMARY KEY, name VARCHAR(40))")
		mustExec(t, c, "CREATE TABLE settings (k VARCHAR(40) PRIMARY KEY, v TEXT)")
		mustExec(t, c, "INSERT INTO pets VALUES (1,'Rex'),(1,'Tom'),(2,'Kit'),(3,'Bo')")
		mustExec(t, c, "INSERT INTO cities VALUES ('ROM','Rome'),('OSL','Oslo')")
		mustExec(t, c, "INSERT INTO settings VALUES ('a','1')")

		// A reference table is on every shard, and a statement visits one.
		if got := p.onShards("SELECT code FROM cities"); !slices.Equal(got, []int{2, 2, 2, 2}) {
			t.Errorf("reference rows on the shards: %v", got)
		}
		wantRoute(t, c, "SELECT * FROM cities", 1, "reference")
		want(t, c, "SELECT name FROM cities", "name", "Oslo", "Rome")
		if n := affected(t, mustExec(t, c, "UPDATE cities SET name = 'Roma' WHERE code = 'ROM'")); n != 1 {
			t.Errorf("an update of a reference table affected %d rows", n)
		}
		if got := p.onShards("SELECT code FROM cities WHERE name = 'Roma'"); !slices.Equal(got, []int{1, 1, 1, 1}) {
			t.Errorf("updated reference rows on the shards: %v", got)
		}
		// A single table is only there.
		wantRoute(t, c, "SELECT * FROM settings", 1, "single")
		want(t, c, "SELECT v FROM settings", "v", "1")
		if got := mustRows(t, p.shard(1), "SELECT * FROM settings"); len(got) != 1 {
			t.Errorf("s1 holds %v", got)
		}
		if tables := mustRows(t, p.shard(0), "SHOW TABLES LIKE 'settings'"); len(tables) != 0 {
			t.Errorf("s0 has the single table of s1")
		}
		// Joins of co-located and reference tables run on the shards.
		want(t, c, "SELECT p.email, q.name FROM people p JOIN pets q ON q.owner = p.id WHERE p.id = 1", "email name", "p1@x Rex", "p1@x Tom")
		wantRoute(t, c, "SELECT p.email, q.name FROM people p JOIN pets q ON q.owner = p.id WHERE p.id = 1", 1, "shard_key")
		want(t, c, "SELECT q.name FROM people p JOIN pets q ON q.owner = p.id WHERE p.email = 'p2@x'", "name", "Kit")
		wantRoute(t, c, "SELECT q.name FROM people p JOIN pets q ON q.owner = p.id WHERE p.email = 'p2@x'", 1, "index:idx_email")
		want(t, c, "SELECT q.name FROM people p JOIN pets q ON q.owner = p.id", "name", "Bo", "Kit", "Rex", "Tom")
		want(t, c, "SELECT p.id, x.name FROM people p JOIN cities x ON x.code = 'ROM' WHERE p.email = 'p3@x'", "id name", "3 Roma")
	})
}

// TestAnywhere adopts rows that are wherever they are.
func TestAnywhere(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		mustExec(t, c, "CREATE TABLE notes (id BIGINT PRIMARY KEY, tag VARCHAR(40) NOT NULL, KEY (tag))")
		for i := range 4 {
			mustExec(t, p.shard(i), fmt.Sprintf("INSERT INTO notes VALUES (%d, 'old%d')", i, i))
		}
		p.createIndex(c, "idx_tag", "notes (tag)")
		for i := range 4 {
			q := fmt.Sprintf("SELECT id FROM notes WHERE tag = 'old%d'", i)
			want(t, c, q, "id", fmt.Sprint(i))
			if r := routeOf(t, c, q); !slices.Equal(r.shards, []string{fmt.Sprintf("s%d", i)}) {
				t.Errorf("%s goes to %+v", q, r)
			}
		}
		// By primary key the row may be anywhere.
		want(t, c, "SELECT tag FROM notes WHERE id = 2", "tag", "old2")
		mustExec(t, c, "INSERT INTO notes VALUES (10, 'new'), (11, 'newer')")
		want(t, c, "SELECT id FROM notes WHERE tag = 'new'", "id", "10")
		want(t, c, "SELECT id FROM notes WHERE tag = 'newer'", "id", "11")
	})
}

// TestRefused: what no rule can answer rightly is refused, never answered
// wrongly.
func TestRefused(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 20, setup{})
		for _, q := range []string{
			"SELECT COUNT(*) FROM people",
			"SELECT id FROM people ORDER BY id LIMIT 3",
			"SELECT DISTINCT age FROM people",
			"SELECT city, SUM(age) FROM people GROUP BY city",
			"SELECT p.id FROM people p JOIN people q ON p.age = q.age",
			"SELECT id FROM people WHERE age = (SELECT MAX(age) FROM people)",
		} {
			rows, err := rowsOf(t.Context(), c, q)
			if err == nil {
				// A later version may answer it; the route must say how.
				if r := routeOf(t, c, q); r.plan == "route" && len(r.shards) > 1 {
					t.Errorf("%s: routed to %v without a merge: %v", q, r.shards, rows)
				}
				continue
			}
			wantError(t, err, 1235, "")
		}
		// On one shard all of them are fine.
		for q, want := range map[string]string{
			"SELECT COUNT(*) AS n FROM people WHERE id = 3":                   "1",
			"SELECT MAX(age) AS n FROM people WHERE email = 'p3@x'":           "23",
			"SELECT age AS n FROM people WHERE id = 3 ORDER BY age LIMIT 1":   "23",
			"SELECT COUNT(DISTINCT city) AS n FROM people WHERE id IN (3, 3)": "1",
		} {
			if rows := mustRows(t, c, q); len(rows) != 1 || rows[0]["n"] != want {
				t.Errorf("%s: %v, want %s", q, rows, want)
			}
		}
		// The session goes on after a refusal.
		want(t, c, "SELECT id FROM people WHERE id = 1", "id", "1")
	})
}

func TestShardHint(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		sum := 0
		for i := range 4 {
			rows := mustRows(t, c, fmt.Sprintf("/* shunt: shard=s%d */ SELECT COUNT(*) AS n FROM people", i))
			var n int
			if _, err := fmt.Sscan(rows[0]["n"], &n); err != nil {
				t.Fatal(err)
			}
			if direct := len(mustRows(t, p.shard(i), "SELECT id FROM people")); direct != n {
				t.Errorf("the hint counts %d rows on s%d, which has %d", n, i, direct)
			}
			sum += n
		}
		if sum != 20 {
			t.Errorf("all shards together have %d rows", sum)
		}
		// A hinted write marks what it may have changed.
		for i := range 4 {
			mustExec(t, c, fmt.Sprintf("/* shunt: shard=s%d */ UPDATE people SET email = CONCAT('h', email)", i))
		}
		want(t, c, "SELECT id FROM people WHERE email = 'hp3@x'", "id", "3")
		_, err := c.ExecContext(t.Context(), "/* shunt: shard=nowhere */ SELECT 1")
		if err == nil || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("a hint to an unknown shard: %v", err)
		}
	})
}
