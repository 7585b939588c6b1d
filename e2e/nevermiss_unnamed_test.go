package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNeverMissGenerated alters the columns that an indexed one is computed from.
func TestNeverMissGenerated(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		db := p.db()
		mustExec(t, db, `CREATE TABLE parts (id INT PRIMARY KEY, n INT, code VARCHAR(20) AS (CONCAT(n, 'x')) VIRTUAL, longer VARCHAR(30) AS (CONCAT(code, 'y')) VIRTUAL)`)
		p.createIndex(db, "by_code", "parts (code)")
		p.createIndex(db, "by_longer", "parts (longer)")
		for i := range 12 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO parts (id, n) VALUES (%d, %d)", i, i))
		}
		p.settled(db)
		wantRoute(t, db, "SELECT id FROM parts WHERE code = '7x'", 1, "index:by_code")
		for _, change := range []struct{ alter, suffix string }{
			{"ALTER TABLE parts MODIFY n DECIMAL(10,2)", ".00x"},
			{"ALTER TABLE parts CHANGE n n DECIMAL(10,1)", ".0x"},
		} {
			mustExec(t, db, change.alter)
			for _, when := range []string{"at once", "when they are built"} {
				for i := range 12 {
					key := fmt.Sprint(i, change.suffix)
					if got := flat(mustRows(t, db, "SELECT id FROM parts WHERE code = '"+key+"'"), "id"); len(got) != 1 || got[0] != fmt.Sprint(i) {
						t.Errorf("%s, %s: code = '%s' found %v", change.alter, when, key, got)
					}
					want(t, db, "SELECT id FROM parts WHERE longer = '"+key+"y'", "id", fmt.Sprint(i))
				}
				p.waitIndex(db, "by_code")
				p.waitIndex(db, "by_longer")
			}
		}
		// A default changes no row.
		mustExec(t, db, "ALTER TABLE parts ALTER COLUMN n SET DEFAULT '5'")
		wantRoute(t, db, "SELECT id FROM parts WHERE code = '7.0x'", 1, "index:by_code")
	})
}

// TestNeverMissVarying looks by columns whose values depend on who reads them.
func TestNeverMissVarying(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "SET time_zone = '+00:00'")
		mustExec(t, c, `CREATE TABLE visits (id INT PRIMARY KEY, at TIMESTAMP NULL, email VARCHAR(20), born DATE,
			day DATE AS (DATE(at)) VIRTUAL, text VARCHAR(30) AS (CONCAT(day, '')) VIRTUAL, called VARCHAR(20) AS (DAYNAME(born)) VIRTUAL,
			low VARCHAR(20) AS (LOWER(CONCAT(email, '/@'))) VIRTUAL, y INT AS (YEAR(born)) VIRTUAL)`)
		for _, column := range []string{"day", "text", "called"} {
			_, err := c.ExecContext(t.Context(), "CREATE VIRTUAL INDEX by_"+column+" ON visits ("+column+")")
			wantError(t, err, 1105, "depends on the session")
		}
		p.createIndex(c, "by_y", "visits (y)")
		// One that was a plain column when its index was made.
		mustExec(t, c, "CREATE TABLE later (id INT PRIMARY KEY, at TIMESTAMP NULL, day DATE)")
		p.createIndex(c, "by_day", "later (day)")
		mustExec(t, c, "ALTER TABLE later DROP COLUMN day, ADD COLUMN day DATE AS (DATE(at)) VIRTUAL")
		for id := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO later (id, at) VALUES (%d, '2020-01-0%d 22:00:00')", id, id+1))
			mustExec(t, c, fmt.Sprintf("INSERT INTO visits (id, born) VALUES (%d, '201%d-01-01')", id, id))
		}
		p.settled(c)
		wantRoute(t, c, "SELECT id FROM visits WHERE y = 2013", 1, "index:by_y")
		mustExec(t, c, "SET time_zone = '+05:00'")
		for id := range 8 {
			want(t, c, fmt.Sprintf("SELECT id FROM later WHERE day = '2020-01-0%d'", id+2), "id", fmt.Sprint(id))
		}
	})
}

// TestNeverMissVaryingModes looks by columns whose values depend on the SQL mode of who
// reads them.
func TestNeverMissVaryingModes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "SET sql_mode = ''")
		mustExec(t, c, `CREATE TABLE visits (id INT PRIMARY KEY, c CHAR(5), v VARCHAR(40), n INT, b VARBINARY(40), born DATE, at DATETIME(6),
			called VARCHAR(20) AS (CONCAT(c, 'x')) VIRTUAL, y INT AS (YEAR(n)) VIRTUAL, whole DATETIME AS (at) VIRTUAL, dawn DATETIME AS (born) VIRTUAL,
			told DATETIME AS (CAST(v AS DATETIME)) VIRTUAL, known DATETIME AS (COALESCE(CAST(born AS DATETIME), '1970-01-01')) VIRTUAL,
			later VARCHAR(20) AS (GREATEST(born, v)) VIRTUAL, moment DATETIME AS (TRIM(v)) VIRTUAL, clock TIME AS (b) VIRTUAL,
			told_year INT AS (YEAR(v)) VIRTUAL, told_day INT AS (DAYOFMONTH(b)) VIRTUAL, late BOOL AS (v > at) VIRTUAL, shown VARCHAR(20) AS (CONCAT(dawn)) VIRTUAL,
			told_clock INT AS (CAST(v AS TIME) + 0) VIRTUAL)`)
		for _, column := range []string{"told", "known", "later", "moment", "clock", "told_year", "told_day", "told_clock", "late", "shown"} {
			_, err := c.ExecContext(t.Context(), "CREATE VIRTUAL INDEX by_"+column+" ON visits ("+column+")")
			wantError(t, err, 1105, "depends on the session")
		}
		if f.name == throwaway.MySQL { // MariaDB's are nullable
			mustExec(t, c, "CREATE TABLE later (id INT PRIMARY KEY, born DATE, aged BOOL AS (CAST(born AS DATETIME) > '2000-01-01') VIRTUAL NOT NULL)")
			_, err := c.ExecContext(t.Context(), "CREATE VIRTUAL INDEX by_aged ON later (aged)")
			wantError(t, err, 1105, "depends on the session")
		}
		for _, column := range []string{"called", "y", "whole", "dawn"} {
			p.createIndex(c, "by_"+column, "visits ("+column+")")
		}
		for id := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO visits (id, c, n, at, born) VALUES (%d, 'c%[1]d', 201%[1]d0231, '2020-01-01 00:00:0%[1]d.7', '201%[1]d-01-00')", id))
		}
		mustExec(t, c, "CREATE VIEW seen AS SELECT id, called, dawn FROM visits")
		p.settled(c)
		wantRoute(t, c, "SELECT id FROM visits WHERE called = 'c3x'", 1, "index:by_called")
		wantRoute(t, c, "SELECT id FROM seen WHERE called = 'c3x'", 1, "index:by_called")
		each := func(query string) {
			t.Helper()
			for id := range 8 {
				want(t, c, fmt.Sprintf(query, id), "id", fmt.Sprint(id))
			}
		}
		if f.name == throwaway.MySQL {
			mustExec(t, c, "SET sql_mode = 'ALLOW_INVALID_DATES'")
			each("SELECT id FROM visits WHERE y = 201%d")
			mustExec(t, c, "SET sql_mode = ''")
			each("SELECT /*+ SET_VAR(sql_mode = 'PAD_CHAR_TO_FULL_LENGTH') */ id FROM visits WHERE called = 'c%d   x'")
		} else {
			mustExec(t, c, "SET sql_mode = 'TIME_ROUND_FRACTIONAL'")
			for id := range 8 {
				want(t, c, fmt.Sprintf("SELECT id FROM visits WHERE whole = '2020-01-01 00:00:0%d'", id+1), "id", fmt.Sprint(id))
			}
		}
		mustExec(t, c, "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'")
		each("SELECT id FROM visits WHERE called = 'c%d   x'")
		each("SELECT id FROM seen WHERE called = 'c%d   x'")
		mustExec(t, c, "SET sql_mode = 'TRADITIONAL'")
		want(t, c, "SELECT COUNT(*) AS n FROM visits WHERE dawn < '2001-01-01'", "n", "8") // '0000-00-00' each
		want(t, c, "SELECT COUNT(*) AS n FROM seen WHERE dawn < '2001-01-01'", "n", "8")
		wantRoute(t, c, "SELECT id FROM visits WHERE dawn >= '1000-01-01' AND dawn < '2001-01-01'", 1, "index:by_dawn")
	})
}

// TestNeverMissVaryingDates looks by columns computed from dates with zeros, and from what the
// session that opens a table gives a meaning to.
func TestNeverMissVaryingDates(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "SET sql_mode = ''")
		mustExec(t, c, `CREATE TABLE jobs (id INT PRIMARY KEY, started DATE, planned DATE, email VARCHAR(20), gone TIMESTAMP NULL, n INT, u INT UNSIGNED,
			day DATE AS (COALESCE(started, planned)) VIRTUAL, told VARCHAR(40) AS (CONCAT_WS('-', NULLIF(started, planned), 'x')) VIRTUAL,
			live INT AS (started NOT IN ('0000-00-00', '1970-01-01')) VIRTUAL, alike INT AS (email LIKE 'x\_y') VIRTUAL, diff INT AS (n - u) VIRTUAL,
			earliest VARCHAR(20) AS (LEAST(started, planned)) VIRTUAL, y INT AS (YEAR(planned)) VIRTUAL,
			active VARCHAR(20) AS (IF(gone IS NULL, email, NULL)) VIRTUAL, mine INT AS (email LIKE 'e%') VIRTUAL, dashed VARCHAR(20) AS (CONCAT(n, ' - ', u)) VIRTUAL)`)
		varying := []string{"day", "told", "live", "alike"}
		if f.name == throwaway.MariaDB {
			varying = append(varying, "diff")
		} else {
			p.createIndex(c, "by_diff", "jobs (diff)")
		}
		for _, column := range varying {
			_, err := c.ExecContext(t.Context(), "CREATE VIRTUAL INDEX by_"+column+" ON jobs ("+column+")")
			wantError(t, err, 1105, "depends on the session")
		}
		for _, column := range []string{"earliest", "y", "active", "mine", "dashed"} {
			p.createIndex(c, "by_"+column, "jobs ("+column+")")
		}
		for id := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO jobs (id, started, planned, email, n, u) VALUES (%d, '2020-01-01', '201%[1]d-00-00', 'e%[1]d', 9, %[1]d)", id))
		}
		p.settled(c)
		for _, mode := range []string{"", "TRADITIONAL"} {
			mustExec(t, c, "SET sql_mode = '"+mode+"'")
			for id := range 8 {
				for column, value := range map[string]string{"y": "201%d", "active": "e%d", "dashed": "9 - %d"} {
					query := fmt.Sprintf("SELECT id FROM jobs WHERE "+column+" = '"+value+"'", id)
					want(t, c, query, "id", fmt.Sprint(id))
					wantRoute(t, c, query, 1, "index:by_"+column)
				}
			}
			want(t, c, "SELECT COUNT(*) AS n FROM jobs WHERE mine = 1", "n", "8")
			shown := mustRows(t, c, "SELECT COUNT(*) AS n FROM jobs WHERE CONCAT(earliest) >= '2010-00-00'")[0]["n"]
			want(t, c, "SELECT COUNT(*) AS n FROM jobs WHERE earliest >= '2010-00-00'", "n", shown)
		}
	})
}

// TestNeverMissRowLists looks rows up by a list of several columns' values, whose types MariaDB
// takes together.
func TestNeverMissRowLists(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		shunt, plain := p.conn(), plainServer(t, p.servers[0], newSchemaName(t))
		for _, q := range []queryer{shunt, plain} {
			mustExec(t, q, "CREATE TABLE parts (id INT PRIMARY KEY, tenant INT, sku VARCHAR(20), big BIGINT, amount DECIMAL(30,10))")
			for id := range 8 {
				mustExec(t, q, fmt.Sprintf("INSERT INTO parts VALUES (%d, 1, 'B%[1]d', 900719925474099%[1]d, 12345678901234567890.%[1]d)", id))
			}
			mustExec(t, q, "INSERT INTO parts VALUES (9, 2, '77', 1, 1)")
		}
		for _, column := range []string{"sku", "big", "amount"} {
			p.createIndex(shunt, "by_"+column, "parts (tenant, "+column+")")
		}
		p.settled(shunt)
		same := func(list string, values ...any) {
			t.Helper()
			query := "SELECT id FROM parts WHERE (tenant, " + list + " ORDER BY id"
			if got, wanted := flat(mustRows(t, shunt, query, values...), "id"), flat(mustRows(t, plain, query, values...), "id"); !slices.Equal(got, wanted) {
				t.Errorf("%s %v: got %q, one server %q", query, values, got, wanted)
			}
		}
		same("sku) IN ((?, ?), (?, ?))", 1, "A1", 2, 77)
		same("sku) IN ((?, ?), (?, ?))", 1, "B1", 2, "77")
		same("big) IN ((?, ?), (?, ?))", 1, 9007199254740993, 2, "1")
		same("big) IN ((?, ?), (?, ?))", 1, 9007199254740993, 2, 1.0)
		same("big) IN ((1, 9007199254740993), (2, 1e0))")
		same("amount) IN ((1, 12345678901234567890.3), (2, 1e0))")
		same("amount) IN ((1, 12345678901234567890.3), (2, 1))")
		wantRoute(t, shunt, "SELECT id FROM parts WHERE (tenant, sku) IN ((1, 'B1'), (1, 'B1'))", 1, "index:by_sku")
	})
}

// TestNeverMissBlurred stores texts that may stand for others when they are read, and numbers
// as texts that lose their last digits, and has them checked before a scan comes by.
func TestNeverMissBlurred(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{maintenance: "{delay: 1h}"})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE words (id INT PRIMARY KEY, n INT, v VARCHAR(20) CHARACTER SET cp1251, wide VARCHAR(20) CHARACTER SET utf32)")
		p.createIndex(c, "by_wide", "words (wide)")
		p.createIndex(c, "by_v", "words (v)")
		p.createIndex(c, "by_n_v", "words (n, v)")
		mustExec(t, c, "SET sql_mode = ''")
		mustExec(t, c, "INSERT INTO words (id, n, v) VALUES (1, 1, '?'), (2, 1, '😀'), (3, 2, 'why?'), (4, 2, 'because')")
		mustExec(t, c, "INSERT INTO words (id, wide) VALUES (5, 12345678901234567), (6, 12345678901234567), (7, 12345678901234567), (8, 1234567890123456)")
		for _, index := range []string{"by_v", "by_n_v", "by_wide"} {
			for _, r := range mustRows(t, c, "CHECK VIRTUAL INDEX "+index+" ON words") {
				if r["Missing"] != "0" {
					t.Errorf("%v", r)
				}
			}
		}
		want(t, c, "SELECT id FROM words WHERE wide = '1234567890123456'", "id", "5", "6", "7", "8")
		want(t, c, "SELECT id FROM words WHERE v = '?'", "id", "1", "2")
		want(t, c, "SELECT id FROM words WHERE n = 1 AND v = '?'", "id", "1", "2")
		want(t, c, "SELECT id FROM words WHERE n = 2 AND v = 'why?'", "id", "3")
	})
}

// TestNeverMissHistory looks for past rows of a system-versioned table.
func TestNeverMissHistory(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		if f.name != throwaway.MariaDB {
			t.Skip("only MariaDB has system-versioned tables")
		}
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, `CREATE TABLE kept (id INT PRIMARY KEY, v VARCHAR(20)) WITH SYSTEM VERSIONING
			PARTITION BY SYSTEM_TIME (PARTITION past HISTORY, PARTITION present CURRENT)`)
		p.createIndex(c, "by_v", "kept (v)")
		mustExec(t, c, "INSERT INTO kept VALUES (0, 'v0'), (1, 'v1'), (2, 'v2'), (3, 'v3'), (4, 'v4'), (5, 'v5')")
		mustExec(t, c, "UPDATE kept SET v = CONCAT('new', id)")
		mustExec(t, c, "CREATE VIEW former AS SELECT id, v FROM kept PARTITION (past)")
		p.settled(c)
		for id := range 6 {
			want(t, c, fmt.Sprintf("SELECT id FROM kept PARTITION (past) WHERE v = 'v%d'", id), "id", fmt.Sprint(id))
			want(t, c, fmt.Sprintf("SELECT id FROM (SELECT * FROM kept PARTITION (past)) x WHERE v = 'v%d'", id), "id", fmt.Sprint(id))
			want(t, c, fmt.Sprintf("SELECT id FROM former WHERE v = 'v%d'", id), "id", fmt.Sprint(id))
			want(t, c, fmt.Sprintf("SELECT id FROM kept WHERE v = 'v%d'", id), "id")
		}
		wantRoute(t, c, "SELECT id FROM kept WHERE v = 'new3'", 1, "index:by_v")
		wantRoute(t, c, "SELECT id FROM kept PARTITION (past) WHERE v = 'v3' AND id = 3", 1, "shard_key")
	})
}

// TestNeverMissConnectionCharset stores what a client writes in one character set
// and the connection makes another of.
func TestNeverMissConnectionCharset(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"placed: {shard_key: b}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE words (id INT PRIMARY KEY, b VARBINARY(20), v VARCHAR(20))")
		mustExec(t, c, "CREATE TABLE placed (b VARBINARY(20) PRIMARY KEY)")
		p.createIndex(c, "by_b", "words (b)")
		p.createIndex(c, "by_v", "words (v)")
		mustExec(t, c, "SET NAMES utf8mb4")
		mustExec(t, c, "SET character_set_connection = latin1")
		mustExec(t, c, "INSERT INTO words VALUES (1, 'ö', 'ö'), (2, 'é', 'é')")
		mustExec(t, c, "UPDATE words SET b = 'ü' WHERE id = 2")
		want(t, c, "SELECT id FROM words WHERE b = 'ö'", "id", "1")
		_, err := c.ExecContext(t.Context(), "INSERT INTO placed VALUES ('ö')")
		wantError(t, err, 1235, "not surely known")
		mustExec(t, c, "SET NAMES utf8mb4")
		for _, when := range []string{"at once", "when all is settled"} {
			t.Log(when)
			want(t, c, "SELECT id FROM words WHERE b = X'F6'", "id", "1")
			want(t, c, "SELECT id FROM words WHERE b = X'FC'", "id", "2")
			want(t, c, "SELECT id FROM words WHERE b = 'ö'", "id")
			want(t, c, "SELECT id FROM words WHERE v = 'ö'", "id", "1")
			p.settled(c)
		}
		wantRoute(t, c, "SELECT id FROM words WHERE b = X'F6'", 1, "index:by_b")
	})
}

// TestNeverMissColumnOrder has an INSERT without a column list wait for an ALTER
// TABLE that puts the columns in another order.
func TestNeverMissColumnOrder(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		db := p.db()
		mustExec(t, db, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(20), name VARCHAR(20))")
		p.createIndex(db, "by_email", "people (email)")
		mustExec(t, db, "INSERT INTO people VALUES (1, 'e1', 'n1'), (2, 'e2', 'n2'), (3, 'e3', 'n3'), (4, 'e4', 'n4')")
		p.settled(db)
		reader := p.conn()
		mustExec(t, reader, "BEGIN")
		mustRows(t, reader, "SELECT * FROM people")
		var wg sync.WaitGroup
		wg.Go(func() { mustExec(t, db, "ALTER TABLE people MODIFY name VARCHAR(20) AFTER id, ALGORITHM=COPY") })
		eventually(t, "the ALTER waits", p.waitingFor("ALTER"))
		for id := 11; id < 23; id++ {
			wg.Go(func() { mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'a%d', 'b%d')", id, id, id)) })
		}
		eventually(t, "an INSERT waits for it", p.waitingFor("INSERT"))
		mustExec(t, reader, "COMMIT")
		wg.Wait()
		turned := 0
		for id := 11; id < 23; id++ {
			email := flat(mustRows(t, db, fmt.Sprintf("SELECT email FROM people WHERE id = %d", id)), "email")[0]
			if email == fmt.Sprint("b", id) {
				turned++
			}
			want(t, db, "SELECT id FROM people WHERE email = '"+email+"'", "id", fmt.Sprint(id))
		}
		if turned == 0 {
			t.Error("no INSERT had to wait")
		}
	})
}

// TestConsistentSnapshot: the snapshots are of when the transaction began, on
// shards too that it asks later.
func TestConsistentSnapshot(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c, db := p.conn(), p.db()
		mustExec(t, db, "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(20))")
		p.createIndex(db, "by_email", "people (email)")
		for id := range 12 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'old%d')", id, id))
		}
		p.settled(db)
		mustExec(t, c, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
		mustExec(t, db, "UPDATE people SET email = CONCAT('new', id)")
		mustExec(t, db, "DELETE FROM people WHERE id > 8")
		time.Sleep(time.Second) // for scans, which must not remove anything
		for id := range 12 {
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'old%d'", id), "id", fmt.Sprint(id))
			want(t, c, fmt.Sprintf("SELECT email FROM people WHERE id = %d", id), "email", fmt.Sprintf("old%d", id))
		}
		mustExec(t, c, "COMMIT")
		want(t, c, "SELECT email FROM people WHERE id = 3", "email", "new3")
	})
}

// TestRefusedValues: settings by which a shard would answer what only one server
// knows, or rows that no index knows.
func TestRefusedValues(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		for _, query := range []string{"SET sql_auto_is_null = 1", "SET @@sql_auto_is_null = ON", "SET SESSION sql_auto_is_null = 0 + 1"} {
			_, err := c.ExecContext(t.Context(), query)
			wantError(t, err, 1235, "LAST_INSERT_ID()")
		}
		mustExec(t, c, "SET sql_auto_is_null = 0")
		mustExec(t, c, "SET @sql_auto_is_null = 1")
		if f.name == throwaway.MariaDB {
			_, err := c.ExecContext(t.Context(), "SET system_versioning_asof = '2020-01-01'")
			wantError(t, err, 1235, "the rows of now")
			mustExec(t, c, "SET system_versioning_asof = DEFAULT")
		}
	})
}
