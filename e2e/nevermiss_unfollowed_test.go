package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNeverMissOnTheWay changes rows by triggers and foreign keys of tables that
// have no index themselves.
func TestNeverMissOnTheWay(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		var tables []string
		for _, name := range []string{"t", "log", "mails", "owners", "pets", "parents", "kids", "toys", "computed", "follows", "timed", "keeps"} {
			tables = append(tables, name+": {shard_key: id}")
		}
		p := start(t, f, setup{tables: tables})
		c := p.conn()
		for _, statement := range []string{
			"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
			"CREATE TABLE log (id INT PRIMARY KEY, v VARCHAR(20))",
			"CREATE TABLE mails (id INT PRIMARY KEY, v VARCHAR(20))",
			"CREATE TABLE owners (id INT PRIMARY KEY, v VARCHAR(20), UNIQUE KEY (id, v))",
			"CREATE TABLE pets (id INT PRIMARY KEY, v VARCHAR(20), KEY (id, v), FOREIGN KEY (id, v) REFERENCES owners (id, v) ON UPDATE CASCADE)",
			// toys.b follows kids.b, which follows another column than kids.a does.
			"CREATE TABLE parents (id INT PRIMARY KEY, a INT, b VARCHAR(20), UNIQUE KEY (a), UNIQUE KEY (b))",
			"CREATE TABLE kids (id INT PRIMARY KEY, a INT, b VARCHAR(20), UNIQUE KEY (b), KEY (a), FOREIGN KEY (a) REFERENCES parents (a) ON UPDATE CASCADE, FOREIGN KEY (b) REFERENCES parents (b) ON UPDATE CASCADE)",
			"CREATE TABLE toys (id INT PRIMARY KEY, b VARCHAR(20), KEY (b), FOREIGN KEY (b) REFERENCES kids (b) ON UPDATE CASCADE)",
			// What is referred to changes unnamed.
			"CREATE TABLE computed (id INT PRIMARY KEY, v VARCHAR(50), g INT AS (LENGTH(v)) STORED, UNIQUE KEY (g))",
			"CREATE TABLE follows (id INT PRIMARY KEY, g INT, KEY (g), FOREIGN KEY (g) REFERENCES computed (g) ON UPDATE CASCADE)",
			"CREATE TABLE timed (id INT PRIMARY KEY, v VARCHAR(20), at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), UNIQUE KEY (at))",
			"CREATE TABLE keeps (id INT PRIMARY KEY, at DATETIME(6), KEY (at), FOREIGN KEY (at) REFERENCES timed (at) ON UPDATE CASCADE)",
		} {
			mustExec(t, c, statement)
		}
		for index, on := range map[string]string{"by_mail": "mails (v)", "by_pet": "pets (v)", "by_kid": "kids (a)", "by_toy": "toys (b)", "by_g": "follows (g)", "by_at": "keeps (at)"} {
			p.createIndex(c, index, on)
		}
		for _, statement := range []string{
			"CREATE TRIGGER log_i AFTER INSERT ON log FOR EACH ROW INSERT INTO mails (id, v) VALUES (NEW.id, NEW.v)",
			"CREATE TRIGGER t_i AFTER INSERT ON t FOR EACH ROW INSERT INTO log (id, v) VALUES (NEW.id, NEW.v)",
			"CREATE TRIGGER t_u AFTER UPDATE ON t FOR EACH ROW UPDATE owners SET v = NEW.v WHERE id = NEW.id",
		} {
			mustExec(t, c, statement)
		}
		const n = 6
		for i := range n {
			for _, statement := range []string{
				"INSERT INTO owners VALUES (%[1]d, 'v%[1]d')", "INSERT INTO pets VALUES (%[1]d, 'v%[1]d')",
				"INSERT INTO parents VALUES (%[1]d, %[1]d, 'v%[1]d')", "INSERT INTO kids VALUES (%[1]d, %[1]d, 'v%[1]d')", "INSERT INTO toys VALUES (%[1]d, 'v%[1]d')",
				"INSERT INTO computed (id, v) VALUES (%[1]d, REPEAT('x', %[1]d))", "INSERT INTO follows VALUES (%[1]d, %[1]d)",
				"INSERT INTO timed VALUES (%[1]d, 'v', '2020-01-01 00:00:0%[1]d')", "INSERT INTO keeps VALUES (%[1]d, '2020-01-01 00:00:0%[1]d')",
			} {
				mustExec(t, c, fmt.Sprintf(statement, i))
			}
		}
		p.settled(c)
		each := func(write, read string) {
			t.Helper()
			for i := range n {
				mustExec(t, c, fmt.Sprintf(write, i))
			}
			for i := range n {
				want(t, c, fmt.Sprintf(read, i), "id", fmt.Sprint(i))
			}
		}
		each("INSERT INTO t VALUES (%[1]d, 'v%[1]d')", "SELECT id FROM mails WHERE v = 'v%d'")
		each("UPDATE t SET v = 'w%[1]d' WHERE id = %[1]d", "SELECT id FROM pets WHERE v = 'w%d'")
		each("UPDATE parents SET a = %[1]d + 100, b = 'w%[1]d' WHERE id = %[1]d", "SELECT id FROM toys WHERE b = 'w%d'")
		each("UPDATE computed SET v = REPEAT('x', %[1]d + 20) WHERE id = %[1]d", "SELECT id FROM follows WHERE g = 2%d")
		each("UPDATE timed SET v = 'w' WHERE id = %d", "SELECT id FROM keeps WHERE id = %d")
		for i := range n {
			want(t, c, fmt.Sprintf("SELECT id FROM kids WHERE a = %d", i+100), "id", fmt.Sprint(i))
			at := mustRows(t, c, fmt.Sprintf("SELECT at FROM timed WHERE id = %d", i))[0]["at"]
			want(t, c, "SELECT id FROM keeps WHERE at = '"+at+"'", "id", fmt.Sprint(i))
		}
	})
}

// TestNeverMissEvents has an event set off a trigger, which runs on the shards by itself.
func TestNeverMissEvents(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{unchecked: true}) // what events write is behind Shunt's back
		c := p.conn()
		mustExec(t, c, "CREATE TABLE sessions (id INT PRIMARY KEY, user_name VARCHAR(50), gone INT)")
		mustExec(t, c, "CREATE TABLE audit (id INT PRIMARY KEY, user_name VARCHAR(50))")
		p.createIndex(c, "by_user", "audit (user_name)")
		mustExec(t, c, "CREATE EVENT tidy ON SCHEDULE EVERY 1 DAY DO DELETE FROM sessions WHERE gone = 1")
		const logged = "CREATE TRIGGER logged AFTER DELETE ON sessions FOR EACH ROW INSERT INTO audit (id, user_name) VALUES (OLD.id, OLD.user_name)"
		_, err := c.ExecContext(t.Context(), logged)
		wantError(t, err, 1235, "tidy")
		wantRoute(t, c, "SELECT id FROM audit WHERE user_name = 'u1'", 1, "index:by_user")
		for i := range p.servers {
			mustExec(t, c, fmt.Sprintf("/* shunt: shard=s%d */ %s", i, logged))
		}
		const n = 8
		for id := range n {
			mustExec(t, c, fmt.Sprintf("INSERT INTO sessions VALUES (%d, 'u%[1]d', 1)", id))
		}
		for i := range p.servers {
			mustExec(t, p.shard(i), "DELETE FROM sessions WHERE gone = 1") // as the event does
		}
		found := func() {
			t.Helper()
			for id := range n {
				want(t, c, fmt.Sprintf("SELECT id FROM audit WHERE user_name = 'u%d'", id), "id", fmt.Sprint(id))
			}
		}
		found()
		wantRoute(t, c, "SELECT id FROM audit WHERE user_name = 'u1'", len(p.servers), "scatter")
		mustExec(t, c, "DROP EVENT tidy")
		found()
		p.waitIndex(c, "by_user")
		found()
		wantRoute(t, c, "SELECT id FROM audit WHERE user_name = 'u1'", 1, "index:by_user")
	})
}

// TestNeverMissRespelled writes a key in another way that compares as it did: a foreign key
// follows, and what is computed from it.
func TestNeverMissRespelled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"codes: {placement: reference}", "kids: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE codes (code VARCHAR(20) PRIMARY KEY, n INT)")
		mustExec(t, c, "CREATE TABLE kids (id INT PRIMARY KEY, code VARCHAR(20), spelt VARCHAR(80) AS (HEX(code)) VIRTUAL, KEY (code), FOREIGN KEY (code) REFERENCES codes (code) ON UPDATE CASCADE)")
		p.createIndex(c, "by_spelt", "kids (spelt)")
		mustExec(t, c, "INSERT INTO codes VALUES ('a', 1)")
		for id := range 6 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO kids (id, code) VALUES (%d, 'a')", id))
		}
		p.settled(c)
		mustExec(t, c, "UPDATE codes SET code = 'A' WHERE code = 'a'")
		want(t, c, "SELECT id FROM kids WHERE spelt = '41'", "id", "0", "1", "2", "3", "4", "5")
	})
}

// TestNeverMissQuotedNames has programs name tables in double quotes.
func TestNeverMissQuotedNames(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "SET sql_mode = 'ANSI_QUOTES'")
		mustExec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
		mustExec(t, c, "CREATE TABLE `my-log` (id INT PRIMARY KEY, v VARCHAR(20))")
		p.createIndex(c, "by_v", "`my-log` (v)")
		mustExec(t, c, `CREATE TRIGGER t_i AFTER INSERT ON t FOR EACH ROW INSERT INTO "my-log" (id, v) VALUES (NEW.id, CONCAT(NEW.v, '"'))`)
		mustExec(t, c, `CREATE PROCEDURE counted () SELECT COUNT(*) FROM "my-log"`)
		p.settled(c)
		for i := range 6 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO t VALUES (%d, 'v%d')", i, i))
		}
		for i := range 6 {
			want(t, c, fmt.Sprintf("SELECT id FROM `my-log` WHERE v = 'v%d\"'", i), "id", fmt.Sprint(i))
		}
		_, err := c.ExecContext(t.Context(), "CALL counted()")
		wantError(t, err, 1235, "my-log")
	})
}

// TestNeverMissTwins updates rows by two names of one table, each of which sets a
// column that the other's condition knows.
func TestNeverMissTwins(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
		p.createIndex(c, "by_ab", "t (a, b)")
		mustExec(t, c, "INSERT INTO t VALUES (0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 5)")
		p.settled(c)
		for i := range 6 {
			mustExec(t, c, fmt.Sprintf("UPDATE t x JOIN t y ON x.id = y.id SET x.a = %d, y.b = %d WHERE x.b = %d AND y.a = %d", i+50, i+60, i, i))
		}
		for i := range 6 {
			want(t, c, fmt.Sprintf("SELECT id FROM t WHERE a = %d AND b = %d", i+50, i+60), "id", fmt.Sprint(i))
		}
	})
}

// TestNeverMissWideIntroducers stores short binary texts of character sets to which
// the server puts zeros.
func TestNeverMissWideIntroducers(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, b VARBINARY(20))")
		p.createIndex(c, "by_b", "t (b)")
		mustExec(t, c, "INSERT INTO t VALUES (0, ''), (1, _ucs2 x'61'), (2, _utf32 x'62'), (3, _utf16'c'), (4, _utf16 x'0064'), (5, _utf32'e')")
		for b, id := range map[string]string{"0061": "1", "00000062": "2", "0063": "3", "0064": "4", "00000065": "5", "61": "", "63": ""} {
			want(t, c, "SELECT id FROM t WHERE b = x'"+b+"'", "id", strings.Fields(id)...)
		}
	})
}

// TestNeverMissDefaults: what the shards don't agree on is not known.
func TestNeverMissDefaults(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) DEFAULT 'old', n INT)")
		p.createIndex(c, "by_v", "t (v)")
		p.createIndex(c, "by_n", "t (n)")
		p.settled(c)
		again := func() {
			t.Helper()
			mustExec(t, c, "ALTER DATABASE "+p.schema+" CHARACTER SET utf8mb4") // all of the schema is read again
		}
		// As a DDL leaves it that failed on some shards.
		mustExec(t, p.shard(0), "ALTER TABLE t ALTER COLUMN v SET DEFAULT 'new'")
		again()
		for id := range 12 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO t (id, n) VALUES (%d, %d)", id, id))
		}
		old, recent := mustRows(t, c, "SELECT id FROM t WHERE v = 'old'"), mustRows(t, c, "SELECT id FROM t WHERE v = 'new'")
		if len(old)+len(recent) != 12 || len(old) == 0 || len(recent) == 0 {
			t.Errorf("%d rows have the old default, %d the new one", len(old), len(recent))
		}
		wantRoute(t, c, "SELECT id FROM t WHERE n = 5", 1, "index:by_n")
		mustExec(t, p.shard(0), "ALTER TABLE t MODIFY n INT NOT NULL DEFAULT 7")
		again()
		wantRoute(t, c, "SELECT id FROM t WHERE n = 5", 4, "scatter")
	})
}

// TestInvisibleColumns: no * and no INSERT without a list of columns means them.
func TestInvisibleColumns(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"hidden: {shard_key: k}", "other: {shard_key: k}", "starred: {shard_key: id}", "listless: {shard_key: id}"}})
		c := p.conn()
		for _, name := range []string{"hidden", "other"} {
			mustExec(t, c, "CREATE TABLE "+name+" (k INT NOT NULL DEFAULT 0 INVISIBLE PRIMARY KEY, id INT, x INT)")
		}
		mustExec(t, c, "CREATE TABLE starred (id INT PRIMARY KEY, x INT)")
		mustExec(t, c, "CREATE TABLE listless (k INT DEFAULT 1 INVISIBLE, id INT PRIMARY KEY, x INT)")
		for i := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO hidden (k, id, x) VALUES (%d, %d, %d)", i, 100+i*7, 500+i))
			mustExec(t, c, fmt.Sprintf("INSERT INTO other (k, id, x) VALUES (%d, %d, %d)", i+100, 100+i*7, 500+i))
		}
		mustExec(t, c, "INSERT INTO starred (id, x) SELECT * FROM hidden")
		mustExec(t, c, "INSERT INTO listless SELECT x, k FROM hidden")
		mustExec(t, c, "INSERT INTO listless VALUES (700, 1), (701, 2), (702, 3)")
		for i := range 8 {
			want(t, c, fmt.Sprintf("SELECT x FROM starred WHERE id = %d", 100+i*7), "x", fmt.Sprint(500+i))
			want(t, c, fmt.Sprintf("SELECT x FROM listless WHERE id = %d", 500+i), "x", fmt.Sprint(i))
		}
		want(t, c, "SELECT x FROM listless WHERE id = 702", "x", "3")
		if f.name == throwaway.MySQL { // MariaDB takes no such column without a default, as copies have it
			want(t, c, "SELECT COUNT(*) AS n FROM hidden NATURAL JOIN other", "n", "8")
			want(t, c, "SELECT other.k FROM hidden NATURAL JOIN other WHERE hidden.k = 5", "k", "105")
		}
	})
}

// TestInsertSelectKeepsKeys: rows stay on their shards only where the shard key is
// stored as it is.
func TestInsertSelectKeepsKeys(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		var tables []string
		for _, name := range []string{"wide", "narrow", "wider", "texts", "short", "optional", "needed"} {
			tables = append(tables, name+": {shard_key: k}")
		}
		p := start(t, f, setup{tables: tables})
		c := p.conn()
		collation := map[throwaway.Flavour]string{throwaway.MySQL: "utf8mb4_0900_ai_ci", throwaway.MariaDB: "utf8mb4_nopad_bin"}[f.name]
		for table, typ := range map[string]string{
			"wide": "INT NOT NULL", "narrow": "SMALLINT NOT NULL", "wider": "BIGINT", "optional": "INT", "needed": "INT NOT NULL",
			"texts": "VARCHAR(20) COLLATE " + collation, "short": "VARCHAR(3) COLLATE " + collation,
		} {
			mustExec(t, c, "CREATE TABLE "+table+" (k "+typ+", x INT, KEY (k))")
		}
		for i := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO wide VALUES (%d, %d)", 100000+i, i))
			mustExec(t, c, fmt.Sprintf("INSERT INTO texts VALUES ('abc%d', %d), ('%dx   ', %d)", i, i, i, i))
		}
		mustExec(t, c, "INSERT INTO wide VALUES (40, 0), (41, 1), (42, 2)")
		mustExec(t, c, "INSERT INTO texts VALUES ('ab', 9)")
		mustExec(t, c, "INSERT INTO optional VALUES (NULL, 1), (7, 2)")
		if r := routeOf(t, c, "INSERT INTO wider SELECT k, x FROM wide"); r.plan != "route" {
			t.Errorf("into a wider column: %+v", r)
		}
		mustExec(t, c, "INSERT INTO wider SELECT k, x FROM wide")
		want(t, c, "SELECT x FROM wider WHERE k = 100003", "x", "3")
		for _, write := range []string{
			"INSERT IGNORE INTO narrow SELECT k, x FROM wide", "INSERT IGNORE INTO needed SELECT k, x FROM optional", "INSERT IGNORE INTO short SELECT k, x FROM texts",
			"INSERT INTO short SELECT k, x FROM texts WHERE k LIKE '%x%'",
		} {
			_, err := c.ExecContext(t.Context(), write)
			wantError(t, err, 1235, "placed")
		}
		mustExec(t, c, "INSERT INTO narrow SELECT k, x FROM wide WHERE k < 50")
		mustExec(t, c, "INSERT INTO needed SELECT k, x FROM optional WHERE k IS NOT NULL")
		mustExec(t, c, "INSERT INTO short SELECT k, x FROM texts WHERE k = 'ab'")
		want(t, c, "SELECT x FROM narrow WHERE k = 41", "x", "1")
		want(t, c, "SELECT x FROM needed WHERE k = 7", "x", "2")
		want(t, c, "SELECT x FROM short WHERE k = 'ab'", "x", "9")
	})
}

// TestRefusedUnplaced: what would leave rows on other shards than their keys say, or
// change a table by another one.
func TestRefusedUnplaced(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"one: {placement: single, shard: s0}", "users: {shard_key: id}", "seen: {shard_key: at}", "computed: {shard_key: g}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE seen (at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), id INT, v INT, UNIQUE KEY (at))")
		mustExec(t, c, "INSERT INTO seen VALUES ('2020-01-01', 1, 1), ('2020-01-02', 2, 2), ('2020-01-03', 3, 3)")
		mustExec(t, c, "CREATE TABLE computed (a INT, g INT AS (a + 1) STORED, v INT, KEY (g))")
		mustExec(t, c, "CREATE TABLE one (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (1000))")
		mustExec(t, c, "CREATE TABLE users (id INT PRIMARY KEY, v INT, t VARCHAR(20) NOT NULL)")
		mustExec(t, c, "INSERT INTO users VALUES (7, 1, 'x')") // without rows its key may change
		refused := map[string]string{
			"UPDATE seen SET v = 5 WHERE id = 1":                                          "shard key",
			"INSERT INTO seen VALUES ('2020-01-01', 1, 1) ON DUPLICATE KEY UPDATE v = 7":  "shard key",
			"UPDATE computed SET a = 5":                                                   "shard key",
			"DROP INDEX `PRIMARY` ON users":                                               "shard key",
			"ALTER TABLE users DROP INDEX `primary`":                                      "shard key",
			"ALTER TABLE users DROP CONSTRAINT `PRIMARY`":                                 "shard key",
			"ALTER TABLE users DROP PRIMARY KEY, ADD PRIMARY KEY (id, t(5))":              "shard key",
			"ALTER TABLE one EXCHANGE PARTITION p0 WITH TABLE users":                      "EXCHANGE PARTITION",
			"CREATE TABLE merged (id INT, v INT) ENGINE=MERGE UNION=(users)":              "ENGINE=MERGE",
			"CREATE TABLE merged (id INT, v INT) ENGINE = 'mrg_myisam' UNION = (users)":   "ENGINE=MRG_MYISAM",
			"ALTER TABLE users ENGINE FEDERATED CONNECTION='mysql://a@127.0.0.1/b/users'": "ENGINE=FEDERATED",
		}
		if f.name == throwaway.MariaDB {
			refused["ALTER TABLE one CONVERT TABLE users TO PARTITION p2 VALUES LESS THAN (5000)"] = "CONVERT TABLE"
			refused["ALTER TABLE one CONVERT PARTITION p0 TO TABLE fresh"] = "CONVERT PARTITION"
			refused["INSERT DELAYED INTO users VALUES (1, 1, 'x')"] = "leave DELAYED out"
			refused["/* shunt: shard=s0 */ REPLACE DELAYED INTO users VALUES (1, 1, 'x')"] = "leave DELAYED out"
		}
		for statement, text := range refused {
			_, err := c.ExecContext(t.Context(), statement)
			wantError(t, err, 1235, text)
		}
		mustExec(t, c, "UPDATE seen SET v = 5, at = '2020-01-02' WHERE at = '2020-01-02'")
		mustExec(t, c, "INSERT INTO seen VALUES ('2020-01-01', 1, 1) ON DUPLICATE KEY UPDATE v = 7, at = VALUES(at)")
		want(t, c, "SELECT v FROM seen WHERE at = '2020-01-01'", "v", "7")
		want(t, c, "SELECT v FROM seen WHERE at = '2020-01-02'", "v", "5")
		mustExec(t, c, "UPDATE seen SET v = v")
		mustExec(t, c, "ALTER TABLE users DROP PRIMARY KEY, ADD PRIMARY KEY (id, t)")
		// A key over the beginning of a column places no rows: such a table is on one
		// shard, as one without a key.
		for _, key := range []string{"PRIMARY KEY (t(5), id)", "PRIMARY KEY (id, t(5))"} {
			mustExec(t, c, "CREATE TABLE prefixed (id INT NOT NULL, t VARCHAR(20) NOT NULL, "+key+")")
			if n := p.onShards("SHOW TABLES LIKE 'prefixed'"); !slices.Equal(n, []int{1, 0, 0, 0}) {
				t.Errorf("%s: it is on %v", key, n)
			}
			mustExec(t, c, "DROP TABLE prefixed")
		}
	})
}

// TestReadingFunctions: a stored function would see the rows of the shard that runs
// it.
func TestReadingFunctions(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"countries: {placement: reference}", "kept: {placement: single, shard: s1}"}})
		c := p.conn()
		for _, statement := range []string{
			"CREATE TABLE users (id INT PRIMARY KEY, v VARCHAR(20))",
			"CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name VARCHAR(20))",
			"INSERT INTO users VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
			"INSERT INTO countries VALUES ('DE', 'Germany')",
			"CREATE FUNCTION total() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM users)",
			"CREATE FUNCTION renames(x INT) RETURNS INT MODIFIES SQL DATA BEGIN UPDATE users SET v = CONCAT('f', id) WHERE id = x; RETURN 1; END",
			"CREATE FUNCTION twice() RETURNS INT READS SQL DATA RETURN 2 * total()",
			"CREATE FUNCTION named(c CHAR(2)) RETURNS VARCHAR(20) READS SQL DATA RETURN (SELECT name FROM countries WHERE code = c)",
			"CREATE FUNCTION users_of(users INT) RETURNS INT DETERMINISTIC RETURN users + 1",
			"CREATE VIEW totals AS SELECT total() AS n",
			"CREATE VIEW told AS SELECT id, total() AS n FROM users",
		} {
			mustExec(t, c, statement)
		}
		for _, query := range []string{
			"SELECT total()", "SELECT id FROM users WHERE id = total()", "SELECT id, twice() FROM users WHERE id = 3", "DO total()", "SET @n = total()", "UPDATE users SET v = total() WHERE id = 1",
			"INSERT INTO users VALUES (9, total())", "INSERT INTO users VALUES (8, 'x'), (9, CONCAT('a', `total`()))", "REPLACE INTO users (id, v) VALUES (9, renames(1))", "SELECT * FROM totals", "SELECT * FROM told",
		} {
			_, err := c.ExecContext(t.Context(), query)
			if wantError(t, err, 1235, "function"); err == nil {
				t.Error(query)
			}
		}
		want(t, c, "SELECT named('DE') AS n, users_of(4) AS u", "n u", "Germany 5")
		want(t, c, "SELECT id, named('DE') AS n FROM users WHERE id = 3", "id n", "3 Germany")
		mustRows(t, c, "/* shunt: shard=s0 */ SELECT total()")
		// By others: procedures, triggers and views of what is on one shard.
		for _, statement := range []string{
			"CREATE PROCEDURE tells() SELECT total() AS n",
			"CREATE PROCEDURE nests() CALL tells()",
			"CREATE PROCEDURE keeps() INSERT INTO kept VALUES (2, twice())",
			"CREATE TABLE kept (id INT PRIMARY KEY, n INT)",
			"INSERT INTO kept VALUES (1, 1)",
			"CREATE VIEW kept_total AS SELECT id, total() AS n FROM kept",
		} {
			mustExec(t, c, statement)
		}
		for _, query := range []string{"CALL tells()", "CALL nests()", "CALL keeps()", "SELECT * FROM kept_total", "SELECT n FROM kept_total WHERE id = 1", "INSERT INTO kept SELECT id + 1, n FROM kept_total"} {
			_, err := c.ExecContext(t.Context(), query)
			if wantError(t, err, 1235, "(), which "); err == nil {
				t.Error(query)
			}
		}
		mustExec(t, c, "DROP FUNCTION total")
	})
}

// TestPackagedFunctions: what the functions of MariaDB's packages, which are made on the
// shards themselves, write or read isn't missed.
func TestPackagedFunctions(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		if f.name != throwaway.MariaDB {
			t.Skip("MariaDB's")
		}
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE users (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1)")
		mustExec(t, c, "INSERT INTO users VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
		p.createIndex(c, "by_v", "users (v)")
		for i := range p.servers {
			shard := connOf(t, p.shard(i))
			for _, sql := range []string{
				"SET sql_mode = ORACLE",
				"CREATE PACKAGE pk AS FUNCTION renames RETURN INT; FUNCTION counts RETURN INT; END",
				"CREATE PACKAGE BODY pk AS FUNCTION renames RETURN INT AS BEGIN UPDATE users SET v = 'renamed'; RETURN 7; END; FUNCTION counts RETURN INT AS BEGIN RETURN 1; END; END",
				"CREATE PACKAGE plain AS FUNCTION seven RETURN INT; END",
				"CREATE PACKAGE BODY plain AS FUNCTION seven RETURN INT AS BEGIN RETURN 7; END; END",
				"CREATE FUNCTION by_package RETURN INT AS BEGIN RETURN pk.renames(); END",
				"CREATE FUNCTION by_plain RETURN INT AS BEGIN RETURN plain.seven(); END",
			} {
				mustExec(t, shard, sql)
			}
		}
		mustExec(t, c, "ALTER DATABASE "+p.schema+" CHARACTER SET utf8mb4") // the packages are known
		for _, sql := range []string{"SELECT pk.renames()", "SELECT by_package()", "SELECT id, pk.renames() FROM users", "DO pk.renames()", "INSERT INTO users VALUES (9, pk.renames())"} {
			failsWith(t, c, sql, 1235, "function")
		}
		want(t, c, "SELECT by_plain() AS n", "n", "7")
		mustExec(t, c, "/* shunt: shard=s1 */ SELECT by_package()")
		if left := len(mustRows(t, p.shard(1), "SELECT id FROM users")); len(mustRows(t, c, "SELECT id FROM users WHERE v = 'renamed'")) != left {
			t.Errorf("%d rows were renamed, and not all are found", left)
		}
		failsWith(t, c, "DELETE HISTORY FROM users", 1235, "each shard")
	})
}
