package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// mixed are tables of every placement.
var mixed = []string{
	"users: {shard_key: id}", "countries: {placement: reference}", "rates: {placement: reference}", "codes: {placement: reference}",
	"settings: {placement: single, shard: s1}", "legacy: {placement: anywhere}",
}

// makeMixed makes tables of every placement, with rows.
func makeMixed(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, sql := range []string{
		"CREATE TABLE users (id INT PRIMARY KEY, email VARCHAR(40), country INT)",
		"CREATE TABLE countries (id INT PRIMARY KEY, name VARCHAR(40) CHARACTER SET latin1 UNIQUE, at TIMESTAMP(3) NULL, share FLOAT, kind ENUM('a','b'), flags SET('x','y'), bits BIT(9), raw BLOB, doubled INT AS (id * 2) STORED)",
		"CREATE TABLE rates (code VARCHAR(10) PRIMARY KEY, rate DECIMAL(20,10), weight INT, j JSON, changed INT NOT NULL DEFAULT 0)",
		"CREATE TABLE codes (a INT, b VARCHAR(10))", // no key, and rows that are there twice
		"CREATE TABLE settings (name VARCHAR(20) PRIMARY KEY, value TEXT)",
		"CREATE TABLE legacy (id INT PRIMARY KEY, v INT)",
		"CREATE VIEW beside AS SELECT u.id, c.name FROM users u JOIN countries c ON c.id = u.country",
		"CREATE VIEW of_view AS SELECT name FROM beside",
		"CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC NO SQL RETURN 2 * n",
		"CREATE TRIGGER counts BEFORE UPDATE ON rates FOR EACH ROW SET NEW.changed = OLD.changed + 1",
		"INSERT INTO users VALUES " + rowsFor(200, func(i int) string { return fmt.Sprintf("(%d, 'u%d@example.org', %d)", i, i, 1+i%50) }),
		"INSERT INTO countries (id, name, at, share, kind, flags, bits, raw) VALUES " + rowsFor(12000, func(i int) string {
			return fmt.Sprintf("(%d, 'Côte %d', FROM_UNIXTIME(%d.125), %d/3, 'b', 'x,y', b'1%08b', X'00FF%04X')", i, i, 1e9+i, i, i%256, i)
		}),
		"INSERT INTO rates (code, rate, weight, j) VALUES ('é', 1.0000000001, 1, '{\"a\": [1, \"ü\"]}'), ('x', -3, 2, NULL), ('', 0, 3, 'null')",
		"UPDATE rates SET weight = weight + 1",
		"INSERT INTO codes VALUES (1, 'a'), (1, 'a'), (NULL, NULL)",
		"INSERT INTO settings VALUES ('a', 'b')",
		"INSERT INTO legacy VALUES " + rowsFor(50, func(i int) string { return fmt.Sprintf("(%d, %d)", i, i) }),
	} {
		mustExec(t, db, sql)
	}
}

// addShard adds a server to the configuration, which is read by the next start.
func (p *process) addShard(srv *throwaway.Server) {
	p.t.Helper()
	n := len(p.servers)
	p.editConfig("schemas:\n", fmt.Sprintf("- {name: s%d, addr: '%s', user: %s, password: '%s'}\nschemas:\n", n, srv.Addr(), srv.User, srv.Password))
	p.servers = append(p.servers[:n:n], srv)
}

// editConfig replaces a part of the configuration's text.
func (p *process) editConfig(from, to string) {
	p.t.Helper()
	text, err := os.ReadFile(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		p.t.Fatalf("the configuration has no %q", from)
	}
	if err := os.WriteFile(p.config, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// stateOf is a shard's State and Error in SHOW SHARDS.
func stateOf(t *testing.T, q queryer, shard string) (state, why string) {
	t.Helper()
	for _, r := range mustRows(t, q, "SHOW SHARDS") {
		if r["Name"] == shard {
			return r["State"], r["Error"]
		}
	}
	return "", ""
}

func (p *process) joined(q queryer, shard string) {
	p.t.Helper()
	var state, why string
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("shard %s: %s, %s", shard, state, why)
		}
	})
	eventually(p.t, "shard "+shard+" serves", func() bool {
		state, why = stateOf(p.t, q, shard)
		return state == "up"
	})
}

// sameCopies compares what two servers have of reference tables.
func (p *process) sameCopies(a, b int, tables ...string) {
	p.t.Helper()
	for _, table := range tables {
		want := mustRows(p.t, p.shard(a), "SELECT * FROM "+table+" ORDER BY 1, 2")
		got := mustRows(p.t, p.shard(b), "SELECT * FROM "+table+" ORDER BY 1, 2")
		if len(got) != len(want) {
			p.t.Errorf("%s: %d rows on s%d, %d on s%d", table, len(want), a, len(got), b)
			continue
		}
		for i := range want {
			if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
				p.t.Errorf("%s: %v on s%d, %v on s%d", table, want[i], a, got[i], b)
				break
			}
		}
	}
}

// TestShardAdded: a shard that the configuration adds gets all that the others have before it is
// asked for anything, while they go on.
func TestShardAdded(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2]})
		db := p.db()
		makeMixed(t, db)
		p.createIndex(db, "by_email", "users (email)")
		p.stop()

		p.addShard(servers[2])
		p.run()
		// From the first moment on.
		var stopped atomic.Bool
		var load sync.WaitGroup
		var mu sync.Mutex
		failed := map[string]int{}
		for n := range 4 {
			load.Go(func() {
				for i := 0; !stopped.Load(); i++ {
					for _, sql := range []string{
						"SHOW TABLES",
						"SELECT COUNT(*) FROM users",
						fmt.Sprintf("SELECT * FROM users WHERE email = 'u%d@example.org'", i%200),
						"SELECT u.id, c.name FROM users u JOIN countries c ON c.id = u.country ORDER BY u.id LIMIT 10",
						fmt.Sprintf("UPDATE countries SET share = %d WHERE id = %d", i, 1+(i*97+n)%11999),
						"UPDATE rates SET weight = weight + 1 WHERE code = 'x'",
						fmt.Sprintf("INSERT INTO codes VALUES (%d, '%d')", n, i),
						"SELECT COUNT(*) FROM countries",
						"SELECT value FROM settings",
						fmt.Sprintf("SELECT v FROM legacy WHERE id = %d", i%50),
					} {
						if _, err := rowsOf(t.Context(), db, sql); err != nil {
							mu.Lock()
							failed[sql+": "+err.Error()]++
							mu.Unlock()
						}
					}
				}
			})
		}
		defer load.Wait()
		defer stopped.Store(true)
		p.joined(db, "s2")
		stopped.Store(true)
		load.Wait()
		for what, n := range failed {
			t.Errorf("%d times: %s", n, what)
		}
		p.sameCopies(0, 1, "countries", "rates", "codes")
		p.sameCopies(0, 2, "countries", "rates", "codes")
		mustExec(t, db, "UPDATE rates SET weight = 7")
		mustExec(t, db, "INSERT INTO countries (id, name) VALUES (20000, 'Atlantis')")
		p.sameCopies(0, 2, "countries", "rates", "codes")
		// A row there is found, and has its countries.
		mustExec(t, db, "/* shunt: shard=s2 */ INSERT INTO legacy VALUES (1000, 20000)")
		want(t, db, "SELECT c.name FROM legacy l JOIN countries c ON c.id = l.v WHERE l.id = 1000", "name", "Atlantis")
		want(t, db, "SELECT COUNT(*) AS n FROM users", "n", "200")
		want(t, db, "SELECT COUNT(*) AS n FROM beside", "n", "200")
		want(t, db, "SELECT COUNT(*) AS n FROM of_view", "n", "200")
		want(t, db, "SELECT twice(4) AS n FROM users WHERE id = 1", "n", "8")
		for _, what := range []string{"TRIGGERS WHERE TRIGGER_SCHEMA", "VIEWS WHERE TABLE_SCHEMA", "ROUTINES WHERE ROUTINE_SCHEMA"} {
			want(t, p.shard(2), "SELECT COUNT(*) AS n FROM information_schema."+what+" = '"+p.schema+"'", "n",
				mustRows(t, p.shard(0), "SELECT COUNT(*) AS n FROM information_schema."+what+" = '"+p.schema+"'")[0]["n"])
		}
		wantRoute(t, db, "SELECT * FROM users WHERE email = 'u7@example.org'", 1, "index:by_email")
		// It is a shard as any then.
		p.kill()
		p.run()
		if state, why := stateOf(t, db, "s2"); state != "up" {
			t.Errorf("s2 is %s (%s) behind a restart", state, why)
		}
		want(t, db, "SELECT v FROM legacy WHERE id = 1000", "v", "20000")
	})
}

// TestShardAddedUnfit: a server with rows of its own, or with other tables, doesn't become a shard; the
// others serve meanwhile, and it does when it is mended.
func TestShardAddedUnfit(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2]})
		db := p.db()
		makeMixed(t, db)
		p.stop()
		at := onShard(t, servers[2], "")
		mustExec(t, at, "CREATE DATABASE "+p.schema)
		mustExec(t, at, "CREATE TABLE "+p.schema+".users (id INT PRIMARY KEY, email VARCHAR(40), country INT)")
		mustExec(t, at, "INSERT INTO "+p.schema+".users VALUES (1, 'x', 1)")
		p.addShard(servers[2])
		p.run()
		refused := func(why string) {
			t.Helper()
			state, told := "", ""
			eventually(t, "it is told why: "+why, func() bool {
				state, told = stateOf(t, db, "s2")
				return state == "joining" && strings.Contains(told, why)
			})
		}
		refused("users has rows: a shard that is added must be empty")
		want(t, db, "SELECT COUNT(*) AS n FROM users", "n", "200")
		want(t, db, "SELECT COUNT(*) AS n FROM users WHERE id = 1 AND email = 'x'", "n", "0")
		failsWith(t, db, "/* shunt: shard=s2 */ SELECT 1", 0, "s2")
		mustExec(t, at, "DELETE FROM "+p.schema+".users")
		mustExec(t, at, "ALTER TABLE "+p.schema+".users MODIFY email VARCHAR(50)")
		refused("table " + p.schema + ".users is otherwise than on s0")
		mustExec(t, at, "DROP TABLE "+p.schema+".users")
		mustExec(t, at, "CREATE TABLE "+p.schema+".countries (id INT PRIMARY KEY)")
		refused("otherwise than on s0")
		mustExec(t, at, "DROP TABLE "+p.schema+".countries")
		mustExec(t, at, "CREATE TABLE "+p.schema+".stranger (id INT PRIMARY KEY)")
		refused("table " + p.schema + ".stranger, which the other shards lack")
		mustExec(t, at, "DROP TABLE "+p.schema+".stranger")
		p.joined(db, "s2")
		p.sameCopies(0, 2, "countries", "rates", "codes")
	})
}

// TestShardAddedCrashes: neither the end of Shunt nor that of the new shard, nor DDL, while it is
// being added leaves less than all copies.
func TestShardAddedCrashes(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2], unchecked: true})
		db := p.db()
		makeMixed(t, db)
		// Enough that copying takes its time.
		for range 3 {
			mustExec(t, db, "INSERT INTO countries (id, name) SELECT id + (SELECT MAX(id) + 1 FROM countries), CONCAT('C', id + (SELECT MAX(id) + 1 FROM countries)) FROM countries")
		}
		p.stop()
		p.addShard(servers[2])
		there := onShard(t, servers[2], "")
		copied := func() string {
			rows, err := rowsOf(t.Context(), there, "SELECT COUNT(*) AS n FROM "+p.schema+".countries")
			if err != nil {
				return ""
			}
			return rows[0]["n"]
		}
		some := func(was string) func() bool {
			return func() bool { n := copied(); return n != "" && n != "0" && n != was }
		}
		p.run()
		eventually(t, "some rows are copied", some(""))
		p.kill()
		p.run()
		db = p.db()
		mustExec(t, db, "ALTER TABLE rates ADD COLUMN more INT DEFAULT 3")
		mustExec(t, db, "CREATE TABLE later (id INT PRIMARY KEY, v INT)")
		mustExec(t, db, "INSERT INTO later VALUES (1, 1), (2, 2), (3, 3)")
		p.joined(db, "s2")
		p.kill()
		p.run()
		want(t, p.db(), "SELECT COUNT(*) AS n FROM later", "n", "3")
		p.sameCopies(0, 2, "countries", "rates", "codes")
		p.sameCopies(0, 1, "countries", "rates", "codes")
	})
}

// TestShardLeftOut: a shard with rows can't be left out of the configuration. One without serves no
// more, and when it is put back its copies are made anew.
func TestShardLeftOut(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{tables: append([]string{"there: {placement: single, shard: s0}"}, mixed...), servers: servers[:2:2]})
		db := p.db()
		makeMixed(t, db)
		p.createIndex(db, "by_v", "legacy (v)")
		p.stop()
		before, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		p.addShard(servers[2])
		with, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		write := func(text []byte) {
			t.Helper()
			if err := os.WriteFile(p.config, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.run()
		p.joined(db, "s2")
		mustExec(t, db, "/* shunt: shard=s2 */ INSERT INTO legacy VALUES (1000, 1000)")
		reload := func(text []byte, told string) {
			t.Helper()
			write(text)
			n := strings.Count(p.log.String(), told)
			p.signal(syscall.SIGHUP)
			eventually(t, told, func() bool { return strings.Count(p.log.String(), told) > n })
		}
		if f.name == throwaway.MariaDB {
			mustExec(t, db, "/* shunt: shard=s2 */ CREATE SEQUENCE numbers")
			reload(before, "lacks shards that own rows: s2 of "+p.schema+".numbers")
			want(t, db, "SELECT NEXT VALUE FOR numbers AS n", "n", "1")
			mustExec(t, db, "DROP SEQUENCE numbers")
		}
		reload(before, "it has rows of "+p.schema+".legacy, which would be gone")
		want(t, db, "SELECT v FROM legacy WHERE id = 1000", "v", "1000")
		want(t, db, "SELECT id FROM legacy WHERE v = 1000", "id", "1000")
		p.stop()
		if out, code := shunt(t, "serve", "--config", p.config); code != 1 || !strings.Contains(out, "lacks shard s2, which may have rows of "+p.schema+".legacy") {
			t.Errorf("status %d\n%s", code, out)
		}
		// Nor one that owns slots, and the tables are named.
		write([]byte(strings.Replace(string(with), "- {name: s0,", "- {name: s9,", 1)))
		if out, code := shunt(t, "serve", "--config", p.config); code == 0 || !strings.Contains(out, "s0") {
			t.Errorf("status %d\n%s", code, out)
		}
		write(with)
		p.run()
		mustExec(t, db, "DELETE FROM legacy WHERE id = 1000")
		reload(before, "the shard has no rows of its own, and serves no more")
		want(t, db, "SELECT COUNT(*) AS n FROM legacy", "n", "50")
		wantRoute(t, db, "SELECT COUNT(*) FROM users", 2, "scatter")
		mustExec(t, db, "UPDATE rates SET weight = 99")
		mustExec(t, db, "CREATE TABLE meanwhile (id INT PRIMARY KEY)")
		p.stop()
		p.run() // without it
		want(t, db, "SELECT COUNT(*) AS n FROM legacy", "n", "50")
		allKnown(t, db)
		if n, _ := p.metric("shunt_index_unknown_shards"); n != 0 {
			t.Errorf("%v shards are unknown", n)
		}
		p.stop()
		write(with)
		p.run()
		p.joined(db, "s2")
		p.sameCopies(0, 2, "countries", "rates", "codes")
		want(t, db, "SELECT COUNT(*) AS n FROM meanwhile", "n", "0")
	})
}

// TestShardSetUpAnew: an empty server in place of a shard without rows of its own gets all that it had.
func TestShardSetUpAnew(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 4)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2]})
		db := p.db()
		makeMixed(t, db)
		p.stop()
		p.addShard(servers[2])
		p.run()
		p.joined(db, "s2")
		p.stop()
		p.editConfig(servers[2].Addr(), servers[3].Addr())
		p.servers = []*throwaway.Server{servers[0], servers[1], servers[3]}
		p.run()
		for range 10 {
			want(t, db, "SELECT COUNT(*) AS n FROM users u JOIN countries c ON c.id = u.country", "n", "200")
			mustExec(t, db, "UPDATE rates SET weight = weight + 1")
		}
		p.joined(db, "s2")
		p.sameCopies(0, 2, "countries", "rates", "codes")
		want(t, db, "SELECT COUNT(*) AS n FROM beside", "n", "200")
	})
}

// TestShardAddedStandby: a standby that has never seen the added shard takes over with its rows.
func TestShardAddedStandby(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2], unchecked: true})
		makeMixed(t, p.db())
		p.createIndex(p.db(), "by_v", "legacy (v)")
		q := p.beside()
		if _, err := q.spawn(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it stands by", func() bool { return strings.Contains(q.log.String(), "standby: another Shunt serves") })
		q.kill()
		p.stop()
		p.addShard(servers[2])
		q.addShard(servers[2])
		p.run()
		p.joined(p.db(), "s2")
		mustExec(t, p.db(), "/* shunt: shard=s2 */ INSERT INTO legacy VALUES (1000, 1000)")
		p.kill()
		q.run()
		want(t, q.db(), "SELECT v FROM legacy WHERE id = 1000", "v", "1000")
		want(t, q.db(), "SELECT id FROM legacy WHERE v = 1000", "id", "1000")
		want(t, q.db(), "SELECT COUNT(*) AS n FROM users u JOIN countries c ON c.id = u.country", "n", "200")
	})
}
