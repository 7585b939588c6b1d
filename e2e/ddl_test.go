package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// indexNames of the test's schema with their status.
func (p *process) indexNames(q queryer) []string {
	p.t.Helper()
	var names []string
	for _, r := range mustRows(p.t, q, "SHOW VIRTUAL INDEXES") {
		if r["Schema"] == p.schema {
			names = append(names, r["Table"]+"."+r["Name"]+" "+r["Status"])
		}
	}
	slices.Sort(names)
	return names
}

func TestDDLOfIndexedTable(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 60, setup{})

		// A new column, and an index with it.
		mustExec(t, c, "ALTER TABLE people ADD COLUMN nick VARCHAR(20) NOT NULL DEFAULT 'none'")
		for i, n := range p.onShards("SHOW COLUMNS FROM people LIKE 'nick'") {
			if n != 1 {
				t.Errorf("s%d does not have the new column", i)
			}
		}
		want(t, c, "SELECT id FROM people WHERE email = 'p5@x'", "id", "5")
		p.createIndex(c, "idx_nick", "people (nick)")
		mustExec(t, c, "UPDATE people SET nick = 'rex' WHERE id = 5")
		want(t, c, "SELECT id FROM people WHERE nick = 'rex'", "id", "5")
		mustExec(t, c, "INSERT INTO people (id, email) VALUES (1000, 'late@x')")
		want(t, c, "SELECT id FROM people WHERE nick = 'none' AND id = 1000", "id", "1000")

		// A wider type, another collation: the keys change, the answers not.
		mustExec(t, c, "ALTER TABLE people MODIFY email VARCHAR(150)")
		want(t, c, "SELECT id FROM people WHERE email = 'p6@x'", "id", "6")
		mustExec(t, c, "ALTER TABLE people MODIFY email VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
		want(t, c, "SELECT id FROM people WHERE email = 'p6@x'", "id", "6")
		want(t, c, "SELECT id FROM people WHERE email = 'P6@X'", "id")
		mustExec(t, c, "INSERT INTO people (id, email) VALUES (1001, 'P6@X')")
		want(t, c, "SELECT id FROM people WHERE email = 'P6@X'", "id", "1001")

		// The indexed column goes: so does its index, or Shunt refuses.
		if _, err := c.ExecContext(t.Context(), "ALTER TABLE people DROP COLUMN nick"); err != nil {
			if !strings.Contains(err.Error(), "idx_nick") {
				t.Errorf("dropping an indexed column: %v", err)
			}
			mustExec(t, c, "DROP VIRTUAL INDEX idx_nick ON people")
			mustExec(t, c, "ALTER TABLE people DROP COLUMN nick")
		}
		for _, n := range p.indexNames(c) {
			if strings.Contains(n, "idx_nick") && !strings.Contains(n, "failed") {
				t.Errorf("%s outlived its column", n)
			}
		}
		want(t, c, "SELECT id FROM people WHERE email = 'p6@x'", "id", "6")

		// TRUNCATE empties the index.
		mustExec(t, c, "TRUNCATE TABLE people")
		want(t, c, "SELECT id FROM people WHERE email = 'p6@x'", "id")
		mustExec(t, c, "INSERT INTO people (id, email) VALUES (1, 'again@x')")
		want(t, c, "SELECT id FROM people WHERE email = 'again@x'", "id", "1")

		// RENAME keeps it.
		if _, err := c.ExecContext(t.Context(), "RENAME TABLE people TO folk"); err == nil {
			want(t, c, "SELECT id FROM folk WHERE email = 'again@x'", "id", "1")
			mustExec(t, c, "INSERT INTO folk (id, email) VALUES (2, 'renamed@x')")
			want(t, c, "SELECT id FROM folk WHERE email = 'renamed@x'", "id", "2")
			mustExec(t, c, "RENAME TABLE folk TO people")
			want(t, c, "SELECT id FROM people WHERE email = 'renamed@x'", "id", "2")
		} else {
			// The new name's placement may differ: then the message says so.
			t.Logf("RENAME TABLE: %v", err)
			if !strings.Contains(err.Error(), "folk") && !strings.Contains(err.Error(), "people") {
				t.Errorf("RENAME TABLE: %v", err)
			}
		}

		// DROP takes the index along; the name is free again.
		mustExec(t, c, "DROP TABLE people")
		if names := p.indexNames(c); len(names) != 0 {
			t.Errorf("after DROP TABLE: %v", names)
		}
		mustExec(t, c, people)
		p.createIndex(c, "idx_email", "people (email)")
		mustExec(t, c, "INSERT INTO people (id, email) VALUES (3, 'third@x')")
		want(t, c, "SELECT id FROM people WHERE email = 'third@x'", "id", "3")
		want(t, c, "SELECT id FROM people WHERE email = 'again@x'", "id")

		mustExec(t, c, "DROP DATABASE "+p.schema)
		mustExec(t, c, "CREATE DATABASE "+p.schema)
		if names := p.indexNames(c); len(names) != 0 {
			t.Errorf("after DROP DATABASE: %v", names)
		}
	})
}

func TestVirtualIndexStatements(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 100, setup{})

		// Made by the comment of a real index.
		mustExec(t, c, "CREATE INDEX idx_city ON people (city) COMMENT 'virtual'")
		p.waitIndex(c, "idx_city")
		for i, n := range p.onShards("SHOW INDEX FROM people WHERE Key_name = 'idx_city'") {
			if n != 1 {
				t.Errorf("s%d does not have the real index", i)
			}
		}

		wantRoute(t, c, "SELECT id FROM people WHERE email = 'p1@x'", 1, "index:idx_email")
		mustExec(t, c, "ALTER VIRTUAL INDEX idx_email ON people DISABLE")
		wantRoute(t, c, "SELECT id FROM people WHERE email = 'p1@x'", 4, "scatter")
		want(t, c, "SELECT id FROM people WHERE email = 'p1@x'", "id", "1")
		// Maintained while disabled.
		mustExec(t, c, "UPDATE people SET email = 'while off@x' WHERE id = 1")
		mustExec(t, c, "ALTER VIRTUAL INDEX idx_email ON people ENABLE")
		wantRoute(t, c, "SELECT id FROM people WHERE email = 'while off@x'", 1, "index:idx_email")
		want(t, c, "SELECT id FROM people WHERE email = 'while off@x'", "id", "1")

		mustExec(t, c, "ALTER VIRTUAL INDEX idx_email ON people PARTITIONS 8")
		eventually(t, "8 partitions", func() bool {
			for _, r := range mustRows(t, c, "SHOW VIRTUAL INDEXES FROM people") {
				if r["Name"] == "idx_email" {
					return r["Partitions"] == "8" && r["Status"] == "ready"
				}
			}
			return false
		})
		for i := range 100 {
			if i != 1 {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", fmt.Sprint(i))
			}
		}
		mustExec(t, c, "REBUILD VIRTUAL INDEX idx_email ON people")
		p.waitIndex(c, "idx_email")
		p.settled(c)
		rows := mustRows(t, c, "CHECK VIRTUAL INDEX idx_email ON people")
		checked := 0
		for _, r := range rows {
			var n int
			if _, err := fmt.Sscan(r["Checked"], &n); err != nil {
				t.Fatal(err)
			}
			checked += n
			if r["Missing"] != "0" || r["Stale"] != "0" || r["Index"] != "idx_email" {
				t.Errorf("%v", r)
			}
		}
		if len(rows) != 4 || checked != 100 {
			t.Errorf("CHECK: %d rows, %d checked: want 4 and 100", len(rows), checked)
		}

		index := mustRows(t, c, "SHOW VIRTUAL INDEXES FROM people")[0]
		for column := range strings.SplitSeq("Schema, Table, Name, Columns, Partitions, Status, Progress, Entries, Unknown_shards, Pending_jobs, Last_scan, Error", ", ") {
			if _, found := index[column]; !found {
				t.Errorf("SHOW VIRTUAL INDEXES has no column %s: %v", column, index)
			}
		}
		for statement, code := range map[string]uint16{ // as servers answer SHOW INDEX and CREATE INDEX
			"SHOW VIRTUAL INDEXES FROM no_table":             1146,
			"CREATE VIRTUAL INDEX idx_email ON people (id)":  1061,
			"CREATE VIRTUAL INDEX i ON people (id, missing)": 1072,
		} {
			_, err := c.ExecContext(t.Context(), statement)
			wantError(t, err, code, "")
		}
		shards := mustRows(t, c, "SHOW SHARDS")
		if len(shards) != 4 {
			t.Errorf("SHOW SHARDS: %v", shards)
		}
		for column := range strings.SplitSeq("Name, Addr, State, Version, Connections_in_use, Connections_idle, Error", ", ") {
			if _, found := shards[0][column]; !found {
				t.Errorf("SHOW SHARDS has no column %s: %v", column, shards[0])
			}
		}

		mustExec(t, c, "DROP VIRTUAL INDEX idx_email ON people")
		wantRoute(t, c, "SELECT id FROM people WHERE email = 'p2@x'", 4, "scatter")
		want(t, c, "SELECT id FROM people WHERE email = 'p2@x'", "id", "2")
		// Clear errors.
		for q, text := range map[string]string{
			"DROP VIRTUAL INDEX idx_email ON people":         "idx_email",
			"CREATE VIRTUAL INDEX idx_city ON people (city)": "idx_city",
			"CREATE VIRTUAL INDEX i ON people (no_column)":   "no_column",
			"CREATE VIRTUAL INDEX i ON no_table (id)":        "no_table",
			"CHECK VIRTUAL INDEX nope ON people":             "nope",
		} {
			_, err := c.ExecContext(t.Context(), q)
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want an error with %s", q, err, text)
			}
		}
	})
}

// TestUnkeyableColumns: what can't be keyed exactly is refused with the reason.
func TestUnkeyableColumns(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"odd: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE odd (id BIGINT PRIMARY KEY, f FLOAT, b BLOB, j JSON, e ENUM('a','b'), d DATETIME(3), dec1 DECIMAL(10,2), y VARBINARY(20), g VARCHAR(20) GENERATED ALWAYS AS (CONCAT('g', id)) VIRTUAL)")
		for _, column := range []string{"f"} {
			_, err := c.ExecContext(t.Context(), fmt.Sprintf("CREATE VIRTUAL INDEX i_%s ON odd (%s)", column, column))
			if err == nil {
				t.Errorf("an index on %s is accepted", column)
			} else if !strings.Contains(strings.ToLower(err.Error()), "float") {
				t.Errorf("index on %s: %v: expected the reason", column, err)
			}
		}
		mustExec(t, c, "INSERT INTO odd (id, e, d, dec1, y) VALUES (1, 'b', '2024-02-29 12:00:00.123', 1.50, x'00ff'), (2, 'a', '2024-03-01', 2, 'text')")
		for _, x := range []struct{ column, condition string }{
			{"e", "e = 'b'"},
			{"d", "d = '2024-02-29 12:00:00.123'"},
			{"dec1", "dec1 = 1.5"},
			{"y", "y = x'00ff'"},
			{"g", "g = 'g1'"},
		} {
			if _, err := c.ExecContext(t.Context(), fmt.Sprintf("CREATE VIRTUAL INDEX i_%s ON odd (%s)", x.column, x.column)); err != nil {
				// Refusing is right where the key would not be exact; a wrong
				// answer never is.
				t.Logf("index on %s: %v", x.column, err)
			} else {
				p.waitIndex(c, "i_"+x.column)
			}
			want(t, c, "SELECT id FROM odd WHERE "+x.condition, "id", "1")
		}
		mustExec(t, c, "UPDATE odd SET e = 2, d = '2025-01-01', dec1 = 7.777, y = 'z' WHERE id = 2")
		want(t, c, "SELECT id FROM odd WHERE e = 'b'", "id", "1", "2")
		want(t, c, "SELECT id FROM odd WHERE d = '2025-01-01 00:00:00'", "id", "2")
		want(t, c, "SELECT id FROM odd WHERE dec1 = 7.78", "id", "2")
		want(t, c, "SELECT id FROM odd WHERE y = 'z'", "id", "2")
	})
}

// TestTriggersAndCascades: keys that the server makes by itself are found too.
func TestTriggersAndCascades(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		// Triggers are made on each shard: Shunt forwards none.
		for i := range p.servers {
			mustExec(t, p.shard(i), "CREATE TRIGGER lower_email BEFORE INSERT ON people FOR EACH ROW SET NEW.email = CONCAT('t-', NEW.email)")
		}
		// Shunt learns of it by its own refresh or by any DDL.
		mustExec(t, c, "ALTER TABLE people COMMENT 'with a trigger'")
		mustExec(t, c, "INSERT INTO people (id, email) VALUES (100, 'trigger@x')")
		want(t, c, "SELECT id FROM people WHERE email = 't-trigger@x'", "id", "100")
		mustExec(t, c, "ALTER TABLE people ADD UNIQUE KEY one_email (email)")
		mustExec(t, c, "CREATE TABLE pets (owner BIGINT NOT NULL, name VARCHAR(40) NOT NULL, email VARCHAR(100), PRIMARY KEY (owner, name), KEY (email), FOREIGN KEY (email) REFERENCES people (email) ON UPDATE CASCADE)")
		p.createIndex(c, "idx_pet_email", "pets (email)")
		mustExec(t, c, "INSERT INTO pets VALUES (1, 'Rex', 'p1@x')")
		want(t, c, "SELECT name FROM pets WHERE email = 'p1@x'", "name", "Rex")
		mustExec(t, c, "UPDATE people SET email = 'cascaded@x' WHERE id = 1")
		want(t, c, "SELECT name FROM pets WHERE email = 'cascaded@x'", "name", "Rex")
		mustExec(t, c, "DROP TABLE pets")
		if plain := plainServer(t, p.servers[0], p.schema+"_plain"); f.name != throwaway.MariaDB || execError(t, plain, "CREATE TABLE t (a INT)") != nil ||
			execError(t, plain, "CREATE TRIGGER tr BEFORE UPDATE OF a ON t FOR EACH ROW SET NEW.a = 1") != nil {
			return // MariaDB 11.8
		}
		mustExec(t, c, "CREATE TRIGGER aged BEFORE UPDATE OF age, city ON people FOR EACH ROW SET NEW.email = CONCAT('aged-', NEW.id)")
		mustExec(t, c, "UPDATE people SET age = 50 WHERE id IN (4, 5)")
		want(t, c, "SELECT id FROM people WHERE email IN ('aged-4', 'aged-5')", "id", "4", "5")
	})
}

// TestIndexBesideTrigger: a virtual index is made while a CREATE TRIGGER waits. What a write
// that was planned before the trigger inserts by it is not missed.
func TestIndexBesideTrigger(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		db, writer := p.db(), p.conn()
		for _, table := range []string{"people", "log"} {
			mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, v VARCHAR(20))")
		}
		mustExec(t, db, "INSERT INTO people VALUES (1, 'x')")
		shard := routeOf(t, db, "SELECT * FROM people WHERE id = 1").shards[0]
		holder := connOf(t, p.shard(int(shard[1]-'0')))
		mustExec(t, holder, "BEGIN")
		mustRows(t, holder, "SELECT * FROM people")
		var wg sync.WaitGroup
		wg.Go(func() {
			mustExec(t, db, "CREATE TRIGGER logged AFTER INSERT ON people FOR EACH ROW INSERT INTO log VALUES (NEW.id, CONCAT('t', NEW.v))")
		})
		eventually(t, "the CREATE TRIGGER waits", p.waitingFor("CREATE"))
		open := p.conn() // what the build waits for
		mustExec(t, open, "BEGIN")
		mustExec(t, open, "INSERT INTO log VALUES (0, 'open')")
		mustExec(t, db, "CREATE VIRTUAL INDEX by_v ON log (v)")
		eventually(t, "the build waits", func() bool {
			rows := mustRows(t, db, "SHOW VIRTUAL INDEXES")
			return len(rows) == 1 && rows[0]["Error"] == "waiting for open transactions"
		})
		mustExec(t, writer, "BEGIN")
		var id int
		for id = 2; routeOf(t, db, fmt.Sprintf("SELECT * FROM people WHERE id = %d", id)).shards[0] != shard; id++ {
		}
		wg.Go(func() { mustExec(t, writer, fmt.Sprintf("INSERT INTO people VALUES (%d, 'v')", id)) })
		eventually(t, "the INSERT waits", p.waitingFor("INSERT"))
		mustExec(t, holder, "COMMIT")
		wg.Wait()
		mustExec(t, open, "ROLLBACK")
		p.waitIndex(db, "by_v") // the build reads the shards while the row isn't committed
		mustExec(t, writer, "COMMIT")
		p.settled(db)
		want(t, db, "SELECT id FROM log WHERE v = 'tv'", "id", fmt.Sprint(id))
	})
}

// TestPrimaryKeyOverNulls: without a strict mode ADD PRIMARY KEY makes values of NULLs.
func TestPrimaryKeyOverNulls(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"parts: {shard_key: k}", "keyed: {shard_key: k}"}})
		c := p.conn()
		mustExec(t, c, "SET sql_mode = ''")
		mustExec(t, c, "CREATE TABLE parts (k INT NOT NULL, code VARCHAR(10), KEY (k))")
		mustExec(t, c, "CREATE TABLE keyed (k INT, code VARCHAR(10), KEY (k))")
		p.createIndex(c, "by_code", "parts (code)")
		var ids []string
		for i := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO parts VALUES (%d, NULL)", i))
			ids = append(ids, fmt.Sprint(i))
		}
		mustExec(t, c, "INSERT INTO keyed VALUES (NULL, 'a')")
		p.settled(c)
		mustExec(t, c, "ALTER TABLE parts ADD PRIMARY KEY (k, code)")
		want(t, c, "SELECT k FROM parts WHERE code = ''", "k", ids...)
		p.waitIndex(c, "by_code")
		want(t, c, "SELECT k FROM parts WHERE code = ''", "k", ids...)
		_, err := c.ExecContext(t.Context(), "ALTER TABLE keyed ADD PRIMARY KEY (k)") // NULL would be 0
		wantError(t, err, 1235, "shard key")
	})
}
