package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestUnlikeSettings: the shards' global settings differ. A statement means on each of
// them what it means on the first.
func TestUnlikeSettings(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		suite.Promise(t)
		servers := f.own(t, 2)
		odd := onShard(t, servers[1], "")
		mustExec(t, odd, "SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT'")
		mustExec(t, odd, "SET GLOBAL time_zone = '+07:00'")
		mustExec(t, odd, "SET GLOBAL autocommit = 0")
		mustExec(t, odd, "SET GLOBAL group_concat_max_len = 4")
		collations := len(mustRows(t, odd, "SHOW VARIABLES LIKE 'character_set_collations'")) > 0
		if collations {
			mustExec(t, odd, "SET GLOBAL character_set_collations = 'utf8mb4=utf8mb4_bin', GLOBAL innodb_snapshot_isolation = OFF")
		}
		p := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(50), at TIMESTAMP NULL, KEY (email))")
		p.createIndex(c, "idx_email", "people (email)")
		prepared, err := c.PrepareContext(t.Context(), "SELECT id, at FROM people WHERE email = ?")
		if err != nil {
			t.Fatal(err)
		}
		defer prepared.Close()
		for i := range 20 {
			mustExec(t, c, fmt.Sprintf(`INSERT INTO people VALUES (%d, "a\\%d", '2026-01-02 03:04:05')`, i, i))
			var id int
			var at string
			if err := prepared.QueryRowContext(t.Context(), fmt.Sprintf(`a\%d`, i)).Scan(&id, &at); err != nil || id != i || at != "2026-01-02 03:04:05" {
				t.Errorf("row %d: %d at %s, %v", i, id, at, err)
			}
		}
		for _, n := range p.onShards("SELECT id FROM people WHERE UNIX_TIMESTAMP(at) = (SELECT MIN(UNIX_TIMESTAMP(at)) FROM people)") {
			if n == 0 {
				t.Error("a shard has no rows")
			}
		}
		moments := map[string]bool{}
		for i := range servers {
			for _, r := range mustRows(t, p.shard(i), "SELECT DISTINCT UNIX_TIMESTAMP(at) AS at FROM people") {
				moments[r["at"]] = true
			}
		}
		if len(moments) != 1 {
			t.Errorf("one text was stored as %v", moments)
		}
		want(t, c, "SELECT COUNT(*) AS n FROM people WHERE at = '2026-01-02 03:04:05'", "n", "20")
		for i := range 20 {
			want(t, c, fmt.Sprintf("SELECT GROUP_CONCAT(REPEAT('x', 9)) AS x FROM people WHERE id = %d", i), "x", "xxxxxxxxx")
			want(t, c, fmt.Sprintf("SELECT @@autocommit AS a FROM people WHERE id = %d", i), "a", "1")
		}
		if collations {
			if rows := mustRows(t, c, "SELECT DISTINCT COLLATION(_utf8mb4'x') AS c, @@innodb_snapshot_isolation AS i FROM people"); len(rows) != 1 || rows[0]["i"] != "1" {
				t.Errorf("the shards have %v", rows)
			}
		}
		// A session's own setting counts, and DEFAULT is the first shard's.
		mustExec(t, c, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
		for i := range 20 {
			mustExec(t, c, fmt.Sprintf(`UPDATE people SET email = 'b\%d' WHERE id = %d`, i, i))
		}
		mustExec(t, c, "SET sql_mode = DEFAULT")
		for i := range 20 {
			want(t, c, fmt.Sprintf(`SELECT id FROM people WHERE email = "b\\%d"`, i), "id", fmt.Sprint(i))
		}
		if log := p.log.String(); !strings.Contains(log, "different global settings") || !strings.Contains(log, "NO_BACKSLASH_ESCAPES") {
			t.Errorf("the log doesn't tell:\n%s", log)
		}
		p.settled(c)
	})
}

// TestAutocommitOff: a shard's global autocommit is off, and what it answers is committed, over any connection.
func TestAutocommitOff(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		suite.Promise(t)
		servers := f.own(t, 2)
		mustExec(t, onShard(t, servers[1], ""), "SET GLOBAL autocommit = 0")
		p := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE people (id INT PRIMARY KEY)")
		for id := range 10 {
			// A transaction takes an idle connection of each shard, so that new ones are made.
			other := p.conn()
			mustExec(t, other, "BEGIN")
			mustExec(t, other, "SELECT COUNT(*) FROM people")
			mustExec(t, c, fmt.Sprintf("INSERT INTO people VALUES (%d)", id))
			want(t, c, "SELECT COUNT(*) AS n FROM people", "n", fmt.Sprint(id+1))
		}
	})
}

// TestGlobalModeChanged: SET GLOBAL sql_mode while Shunt runs. Statements are read by the mode
// of the start, by Shunt and by the shards.
func TestGlobalModeChanged(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}"}})
		old := p.conn()
		mustExec(t, old, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(50))")
		p.createIndex(old, "idx_email", "people (email)")
		for i := range servers {
			mustExec(t, p.shard(i), "SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES'")
		}
		other := p.conn()
		mustExec(t, other, "SET @x = 1")
		for i := range 10 {
			for j, c := range []queryer{old, other} { // who take turns, and reset connections
				id := 100*j + i
				mustExec(t, c, "SELECT @x FROM people")
				mustExec(t, c, fmt.Sprintf(`INSERT INTO people VALUES (%d, 'a\\%d')`, id, id))
				want(t, c, fmt.Sprintf(`SELECT id FROM people WHERE email = CONCAT('a', CHAR(92), %d)`, id), "id", fmt.Sprint(id))
				want(t, c, fmt.Sprintf(`SELECT id FROM people WHERE email = 'a\\%d'`, id), "id", fmt.Sprint(id))
			}
		}
	})
}

// TestUnlikeTables: DDL was done on one shard only. What it changes of new rows isn't
// foreseen by the other's.
func TestUnlikeTables(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		for _, other := range []int{0, 1} { // the shard that has it: the first, of which the columns are taken, or not
			p, c := startPeople(t, f, 10, setup{})
			p.createIndex(c, "idx_city", "people (city)")
			at := fmt.Sprintf("/* shunt: shard=s%d */ ", other)
			mustExec(t, c, at+"ALTER TABLE people ALTER city SET DEFAULT 'Oslo'")
			p.restart()
			c = p.conn()
			for id := 100; id < 140; id++ {
				mustExec(t, c, fmt.Sprintf("INSERT INTO people (id, email) VALUES (%d, 'p%d@x')", id, id))
			}
			n := map[string]int{}
			for _, r := range mustRows(t, c, "SELECT id, city FROM people WHERE id >= 100") {
				n[r["city"]]++
				want(t, c, fmt.Sprintf("SELECT city FROM people WHERE city = '%s' AND id = %s", r["city"], r["id"]), "city", r["city"])
			}
			if len(n) != 2 {
				t.Errorf("cities %v, want those of both definitions", n)
			}
			for city, k := range n {
				if got := len(mustRows(t, c, fmt.Sprintf("SELECT id FROM people WHERE city = '%s' AND id >= 100", city))); got != k {
					t.Errorf("%d of %d rows with city %s are found", got, k, city)
				}
			}

			// The same columns in another order.
			mustExec(t, c, at+"ALTER TABLE people MODIFY age INT FIRST")
			p.restart()
			c = p.conn()
			refused := 0
			for id := 200; id < 220; id++ {
				if _, err := c.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'o%d@x', 'Rome', %d)", id, id, id+1000)); err != nil {
					wantError(t, err, 1235, "name the columns")
					refused++
				}
			}
			if refused != 20 {
				t.Errorf("%d of 20 rows without a list of columns were refused", refused)
			}
			mustExec(t, c, "INSERT INTO people (id, email, city, age) VALUES (300, 'o300@x', 'Rome', 7), (301, 'o301@x', 'Rome', 7), (302, 'o302@x', 'Rome', 7), (303, 'o303@x', 'Rome', 7)")
			for id := 300; id < 304; id++ {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'o%d@x'", id), "id", fmt.Sprint(id))
				want(t, c, fmt.Sprintf("SELECT email FROM people WHERE id = %d", id), "email", fmt.Sprintf("o%d@x", id))
			}
		}
	})
}

// restart stops the process and starts it again.
func (p *process) restart() {
	p.t.Helper()
	if code := p.stop(); code != 0 {
		p.t.Fatalf("exit status %d", code)
	}
	p.run()
}

// TestUnlikeVersions: while shards are upgraded one by one, some run executable comments
// that the others skip.
func TestUnlikeVersions(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		if f.name != throwaway.MariaDB {
			t.Skip("only MariaDB may be told which version it is")
		}
		p := start(t, f, setup{servers: append(f.own(t, 1), f.own(t, 1, "--version=99.2.1-MariaDB")...)})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(50), n INT)")
		p.createIndex(c, "by_email", "people (email)")
		_, err := c.ExecContext(t.Context(), "UPDATE people SET n = 1 /*M!990000 , email = 'b' */ WHERE id = 3")
		wantError(t, err, 1235, "some server versions run and others skip")
		mustExec(t, c, "UPDATE people SET n = 1 /*M!100000 , email = 'a' */ /*M!990300 , email = 'b' */ WHERE id = 3")
	})
}
