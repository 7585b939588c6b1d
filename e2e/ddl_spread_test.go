package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDDLAgain: DDL that failed on some shards is sent again as it was, and goes
// to those that lack it.
func TestDDLAgain(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		// A table in the way on one shard.
		mustExec(t, p.shard(2), "CREATE TABLE extra (other INT)")
		const create = "CREATE TABLE extra (id INT PRIMARY KEY, v INT)"
		_, err := c.ExecContext(t.Context(), create)
		wantError(t, err, 1105, "was done on s0, s1, s3, and failed on s2")
		rows := flat(mustRows(t, c, "SHOW WARNINGS"), "Level", "Message")
		if text := strings.Join(rows, "\n"); !strings.Contains(text, "Note s0: done") || !strings.Contains(text, "Error s2: ") {
			t.Errorf("SHOW WARNINGS: %s", text)
		}
		_, err = c.ExecContext(t.Context(), create)
		wantError(t, err, 1105, "was done on s0, s1, s3, and failed on s2")
		mustExec(t, p.shard(2), "DROP TABLE extra")
		mustExec(t, c, create)
		mustExec(t, c, "INSERT INTO extra VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)")
		_, err = c.ExecContext(t.Context(), create)
		wantError(t, err, 1050, "extra")

		// A column.
		mustExec(t, p.shard(3), "ALTER TABLE extra ADD COLUMN w INT")
		_, err = c.ExecContext(t.Context(), "ALTER TABLE extra ADD COLUMN w INT NOT NULL DEFAULT 5")
		wantError(t, err, 1105, "failed on s3")
		mustExec(t, p.shard(3), "ALTER TABLE extra DROP COLUMN w")
		mustExec(t, c, "ALTER TABLE extra ADD COLUMN w INT NOT NULL DEFAULT 5")
		want(t, c, "SELECT w FROM extra WHERE id = 8", "w", "5")

		// What else is done to the schema counts: nothing is skipped then.
		mustExec(t, p.shard(1), "CREATE TABLE later (other INT)")
		_, err = c.ExecContext(t.Context(), "CREATE TABLE later (id INT PRIMARY KEY)")
		wantError(t, err, 1105, "failed on s1")
		mustExec(t, c, "DROP TABLE later")
		mustExec(t, c, "CREATE TABLE later (id INT PRIMARY KEY)")
		if n := p.onShards("SHOW TABLES LIKE 'later'"); !slices.Equal(n, []int{1, 1, 1, 1}) {
			t.Errorf("later is on the shards %v times", n)
		}
		// So does what a hint did to one shard.
		mustExec(t, p.shard(1), "CREATE TABLE again (other INT)")
		_, err = c.ExecContext(t.Context(), "CREATE TABLE again (id INT PRIMARY KEY)")
		wantError(t, err, 1105, "failed on s1")
		for i := range 4 {
			mustExec(t, c, fmt.Sprintf("/* shunt: shard=s%d */ DROP TABLE again", i))
		}
		mustExec(t, c, "CREATE TABLE again (id INT PRIMARY KEY)")
		if n := p.onShards("SHOW TABLES LIKE 'again'"); !slices.Equal(n, []int{1, 1, 1, 1}) {
			t.Errorf("again is on the shards %v times", n)
		}
	})
}

// TestDDLWithAShardDown: when the shard is back the statement goes there alone.
func TestDDLWithAShardDown(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p, c := startPeople(t, f, 20, setup{servers: servers})
		servers[1].Kill()
		_, err := c.ExecContext(t.Context(), "CREATE TABLE extra (id INT PRIMARY KEY)")
		wantError(t, err, 1105, "was done on s0, and failed on s1")
		if err := servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Shunt may not have noticed yet.
		eventually(t, "the statement is accepted", func() bool {
			_, err := c.ExecContext(t.Context(), "CREATE TABLE extra (id INT PRIMARY KEY)")
			return err == nil
		})
		if n := p.onShards("SHOW TABLES LIKE 'extra'"); !slices.Equal(n, []int{1, 1}) {
			t.Errorf("extra is on the shards %v times", n)
		}
	})
}

func TestViews(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c, _ := startSpread(t, f)
		p.createIndex(c, "idx_email", "users (email)")
		mustExec(t, c, "CREATE VIEW people AS SELECT id AS person, email AS mail, UPPER(name) AS loud FROM users WHERE id <= 50")
		wantRoute(t, c, "SELECT loud FROM people WHERE person = 7", 1, "shard_key")
		want(t, c, "SELECT loud FROM people WHERE person = 7", "loud", "NAME 6")
		want(t, c, "SELECT loud FROM people WHERE person = 70", "loud")
		wantRoute(t, c, "SELECT person FROM people WHERE mail = 'p9@x'", 1, "index:idx_email")
		want(t, c, "SELECT person FROM people WHERE mail = 'p9@x'", "person", "10")
		mustExec(t, c, "UPDATE users SET email = 'moved@x' WHERE id = 10")
		want(t, c, "SELECT person FROM people WHERE mail = 'moved@x'", "person", "10")
		if got := mustRows(t, c, "SELECT person FROM people"); len(got) != 50 {
			t.Errorf("the view has %d rows", len(got))
		}
		// Joined on the shards, and a view of the view.
		want(t, c, "SELECT o.total FROM people v JOIN orders o ON o.user_id = v.person WHERE v.loud = 'NAME 0' AND v.person < 9", "total", "0", "120", "240", "21", "141", "261")
		mustExec(t, c, "CREATE VIEW few AS SELECT mail, person AS id FROM people WHERE person < 5")
		wantRoute(t, c, "SELECT mail FROM few WHERE id = 3", 1, "shard_key")
		want(t, c, "SELECT id FROM few", "id", "1", "2", "3", "4")
		// id is not the shard key's value here.
		mustExec(t, c, "CREATE VIEW shifted AS SELECT id + 1 AS id, email FROM users")
		want(t, c, "SELECT email FROM shifted WHERE id = 8", "email", "p6@x")
		wantRoute(t, c, "SELECT email FROM shifted WHERE id = 8", 4, "scatter")

		// On one shard, or on all of them.
		mustExec(t, c, "CREATE VIEW options AS SELECT s.k, COUNT(*) AS n FROM settings s GROUP BY s.k")
		want(t, c, "SELECT k, n FROM options", "k n", "a 1")
		mustExec(t, c, "CREATE VIEW names AS SELECT DISTINCT name FROM countries WHERE name IS NOT NULL")
		want(t, c, "SELECT name FROM names ORDER BY name LIMIT 1", "name", "Germany")
		want(t, c, "SELECT COUNT(*) AS n FROM settings, names", "n", "2")

		// What no shard's answer is a part of: the view's query stands in its place.
		mustExec(t, c, "CREATE VIEW counts AS SELECT LENGTH(name) AS l, COUNT(*) AS n FROM users GROUP BY LENGTH(name)")
		want(t, c, "SELECT SUM(n) AS n FROM counts", "n", "100")
		mustExec(t, c, "CREATE VIEW both_kinds AS SELECT u.id, s.k FROM users u, settings s")
		want(t, c, "SELECT COUNT(*) AS n, MAX(k) AS k FROM both_kinds", "n k", "100 a")
		if n := p.onShards("SHOW FULL TABLES WHERE Tables_in_" + p.schema + " = 'both_kinds'"); slices.Max(n) != 1 || slices.Min(n) != 0 {
			t.Errorf("the view of users and settings is on %v", n)
		}
		mustExec(t, c, "DROP VIEW both_kinds")
		_, err := c.ExecContext(t.Context(), "CREATE VIEW bad AS SELECT s.k, f.k AS f FROM settings s, flags f")
		wantError(t, err, 1235, "no shard has all")
		_, err = c.ExecContext(t.Context(), "CREATE OR REPLACE VIEW few AS SELECT k AS mail, 1 AS id FROM settings")
		wantError(t, err, 1235, "DROP VIEW")
		// Written through, where its rows are one table's.
		wantRoute(t, c, "UPDATE people SET mail = 'x' WHERE person = 1", 1, "shard_key")
		mustExec(t, c, "UPDATE people SET mail = 'through@x' WHERE person = 1")
		want(t, c, "SELECT id FROM users WHERE email = 'through@x'", "id", "1")
		_, err = c.ExecContext(t.Context(), "UPDATE counts SET n = 1")
		wantError(t, err, 1235, "counts")

		mustExec(t, c, "ALTER VIEW few AS SELECT id, email AS mail FROM users WHERE id > 98")
		want(t, c, "SELECT mail FROM few", "mail", "p98@x", "p99@x")
		mustExec(t, c, "CREATE OR REPLACE VIEW few AS SELECT id, email AS mail FROM users WHERE id > 99")
		want(t, c, "SELECT mail FROM few", "mail", "p99@x")
		if got := mustRows(t, c, "SHOW CREATE VIEW few"); len(got) != 1 || !strings.Contains(got[0]["Create View"], "99") {
			t.Errorf("SHOW CREATE VIEW: %v", got)
		}
		// A table of that name in the view's stead: one shard has another view.
		mustExec(t, p.shard(2), "ALTER VIEW few AS SELECT id, email AS mail FROM users")
		mustExec(t, c, "ALTER DATABASE "+p.schema+" CHARACTER SET utf8mb4") // so that all of the schema is read
		_, err = c.ExecContext(t.Context(), "SELECT * FROM few")
		wantError(t, err, 1235, "few")
		mustExec(t, c, "DROP VIEW few, people, shifted, counts, names")
		mustExec(t, c, "DROP VIEW options")
		if n := p.onShards("SHOW FULL TABLES WHERE Table_type = 'VIEW'"); !slices.Equal(n, []int{0, 0, 0, 0}) {
			t.Errorf("views left on the shards: %v", n)
		}
	})
}

func TestStoredPrograms(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c, _ := startSpread(t, f)
		p.createIndex(c, "idx_email", "users (email)")
		onAll := func(kind, name string, n int) {
			t.Helper()
			if got := p.onShards("SHOW " + kind + " STATUS WHERE Db = '" + p.schema + "' AND Name = '" + name + "'"); !slices.Equal(got, []int{n, n, n, n}) {
				t.Errorf("%s %s is on the shards %v times", kind, name, got)
			}
		}
		mustExec(t, c, "CREATE FUNCTION plus1 (a INT) RETURNS INT DETERMINISTIC NO SQL RETURN a + 1")
		onAll("FUNCTION", "plus1", 1)
		want(t, c, "SELECT plus1(id) AS n FROM users WHERE id IN (1, 2, 3)", "n", "2", "3", "4")
		mustExec(t, c, "DROP FUNCTION plus1")
		onAll("FUNCTION", "plus1", 0)
		// A function that writes needs a hint.
		mustExec(t, c, "CREATE FUNCTION rename_it (a INT) RETURNS INT MODIFIES SQL DATA BEGIN UPDATE users SET email = CONCAT('f', id, '@x') WHERE id = a; RETURN ROW_COUNT(); END")
		_, err := c.ExecContext(t.Context(), "SELECT rename_it(5)")
		wantError(t, err, 1235, "rename_it")
		shard := routeOf(t, c, "SELECT * FROM users WHERE id = 5").shards[0]
		mustExec(t, c, "/* shunt: shard="+shard+" */ SELECT rename_it(5)")
		want(t, c, "SELECT id FROM users WHERE email = 'f5@x'", "id", "5")

		mustExec(t, c, "CREATE DEFINER = CURRENT_USER PROCEDURE change_it (IN who INT, IN mail VARCHAR(100)) BEGIN UPDATE users SET email = mail WHERE id = who; SELECT who AS changed; END")
		onAll("PROCEDURE", "change_it", 1)
		_, err = c.ExecContext(t.Context(), "CALL change_it(5, 'x')")
		wantError(t, err, 1235, "shard=NAME")
		mustExec(t, c, "/* shunt: shard="+shard+" */ CALL change_it(5, 'called@x')")
		want(t, c, "SELECT id FROM users WHERE email = 'called@x'", "id", "5")
		// A procedure of one shard's tables goes there by itself.
		mustExec(t, c, "CREATE PROCEDURE note_it (IN what VARCHAR(20)) BEGIN INSERT INTO settings VALUES (what, 'noted'); SELECT COUNT(*) AS n FROM settings; END")
		want(t, c, "CALL note_it('first')", "n", "2")
		want(t, c, "SELECT v FROM settings WHERE k = 'first'", "v", "noted")
		want(t, p.shard(2), "SELECT v FROM settings WHERE k = 'first'", "v", "noted")
		mustExec(t, c, "CREATE PROCEDURE count_it () SELECT COUNT(*) FROM users")
		_, err = c.ExecContext(t.Context(), "CALL count_it()")
		wantError(t, err, 1235, "users")
		mustExec(t, c, "ALTER PROCEDURE change_it COMMENT 'changed'")
		mustExec(t, c, "DROP PROCEDURE IF EXISTS change_it")
		onAll("PROCEDURE", "change_it", 0)

		// A trigger, beside its table; one that would put rows elsewhere is refused.
		mustExec(t, c, "CREATE TRIGGER mailed BEFORE UPDATE ON users FOR EACH ROW SET NEW.email = CONCAT('t', NEW.id, '@x')")
		mustExec(t, c, "UPDATE users SET name = 'Nine' WHERE id = 9")
		want(t, c, "SELECT name FROM users WHERE email = 't9@x'", "name", "Nine")
		mustExec(t, c, "DROP TRIGGER mailed")
		mustExec(t, c, "CREATE TRIGGER log_it AFTER INSERT ON users FOR EACH ROW INSERT INTO orders (id, user_id, total) VALUES (NEW.id, NEW.id, 0)")
		mustExec(t, c, "INSERT INTO users VALUES (500, 'p500@x', 'Late'), (501, 'p501@x', 'Late')")
		want(t, c, "SELECT total FROM orders WHERE user_id = 501", "total", "0")
		// It is made, as a dump needs it, and what fires it refused.
		for _, trigger := range []string{
			"AFTER INSERT ON users FOR EACH ROW INSERT INTO orders (id, user_id, total) VALUES (NEW.id, 1, 0)",
			"AFTER INSERT ON users FOR EACH ROW INSERT INTO orders (id, user_id, total) VALUES (NEW.id, NEW.id, 0), (1, 5, 0)",
			"AFTER INSERT ON users FOR EACH ROW INSERT INTO orders VALUES (1, 5, 0)",
			"AFTER INSERT ON users FOR EACH ROW UPDATE countries SET name = NEW.name WHERE code = 'de'",
			"AFTER INSERT ON users FOR EACH ROW INSERT INTO settings VALUES (NEW.name, '')",
			"AFTER INSERT ON users FOR EACH ROW UPDATE orders SET user_id = 3 WHERE user_id = NEW.id",
			"BEFORE INSERT ON users FOR EACH ROW SET `NEW`.id = `NEW`.id + 100",
		} {
			mustExec(t, c, "CREATE TRIGGER astray "+trigger)
			if rows := mustRows(t, c, "SHOW WARNINGS"); len(rows) != 1 || !strings.Contains(rows[0]["Message"], "what fires it is refused: a trigger ") {
				t.Errorf("%s is told: %v", trigger, rows)
			}
			wantError(t, execError(t, c, "INSERT INTO users VALUES (600, 'p600@x', 'Later')"), 1235, "trigger")
			mustExec(t, c, "UPDATE users SET name = 'Nine' WHERE id = 9")
			mustExec(t, c, "DROP TRIGGER astray")
		}

		mustExec(t, c, "CREATE EVENT sweep ON SCHEDULE EVERY 1 DAY DO DELETE FROM orders WHERE total < 0")
		for i, n := range p.onShards("SELECT 1 FROM information_schema.events WHERE event_schema = '" + p.schema + "' AND event_name = 'sweep'") {
			if n != 1 {
				t.Errorf("the event is on s%d %d times", i, n)
			}
		}
		mustExec(t, c, "ALTER EVENT sweep DISABLE")
		mustExec(t, c, "DROP EVENT sweep")
		_, err = c.ExecContext(t.Context(), "CREATE EVENT grow ON SCHEDULE EVERY 1 DAY DO INSERT INTO orders SELECT 1, 2, COUNT(*) FROM users")
		wantError(t, err, 1235, "event")
		_, err = c.ExecContext(t.Context(), "CREATE USER somebody")
		wantError(t, err, 1235, "configuration")
	})
}

func TestCreateTableAs(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{
			"users: {shard_key: id}", "countries: {placement: reference}", "copies: {placement: reference}",
			"settings: {placement: single, shard: s2}", "more: {placement: single, shard: s2}", "loose: {placement: anywhere}",
		}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(20))")
		mustExec(t, c, "CREATE TABLE countries (code CHAR(2) PRIMARY KEY)")
		mustExec(t, c, "CREATE TABLE settings (k INT PRIMARY KEY, v INT)")
		mustExec(t, c, "INSERT INTO users VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f')")
		mustExec(t, c, "INSERT INTO countries VALUES ('de'), ('us')")
		mustExec(t, c, "INSERT INTO settings VALUES (1, 1), (2, 2)")
		mustExec(t, c, "CREATE TABLE copies (PRIMARY KEY (code)) AS SELECT code, 1 AS n FROM countries")
		if n := p.onShards("SELECT * FROM copies"); !slices.Equal(n, []int{2, 2, 2, 2}) {
			t.Errorf("copies have %v rows", n)
		}
		mustExec(t, c, "CREATE TABLE more SELECT s.k, c.code FROM settings s, countries c")
		want(t, c, "SELECT COUNT(*) AS n FROM more", "n", "4")
		if n := p.onShards("SHOW TABLES LIKE 'more'"); !slices.Equal(n, []int{0, 0, 1, 0}) {
			t.Errorf("more is on the shards %v times", n)
		}
		mustExec(t, c, "CREATE TABLE loose (PRIMARY KEY (id)) SELECT id, name FROM users WHERE id > 2")
		want(t, c, "SELECT id FROM loose", "id", "3", "4", "5", "6")
		want(t, c, "SELECT name FROM loose WHERE id = 5", "name", "e")
		// Where rows have to move: testdata/corpus/create_as.sql.
		_, err := c.ExecContext(t.Context(), "CREATE TABLE spread (k INT PRIMARY KEY) SELECT k FROM settings")
		wantError(t, err, 1235, "write the columns out")
		mustExec(t, c, "CREATE TABLE users2 LIKE users")
		mustExec(t, c, "INSERT INTO users2 SELECT * FROM users")
		want(t, c, "SELECT name FROM users2 WHERE id = 6", "name", "f")
	})
}

// TestTriggersOfLaterTables: a trigger that puts rows where they are not looked for
// sets off nothing, though CREATE TRIGGER could not know: its table came later, or it
// was made on the shards. One that puts them beside the row works.
func TestTriggersOfLaterTables(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{tables: []string{"early: {shard_key: id}"}})
		mustExec(t, c, "CREATE TRIGGER astray AFTER INSERT ON people FOR EACH ROW INSERT INTO later (id, v) VALUES (NEW.id + 1000, 1)")
		mustExec(t, c, "CREATE TABLE later (id BIGINT PRIMARY KEY, v INT)")
		for _, sql := range []string{"INSERT INTO people (id) VALUES (1), (2), (3)", "REPLACE INTO people (id) VALUES (1)", "INSERT INTO people (id) SELECT 5"} {
			wantError(t, execError(t, c, sql), 1235, "a trigger of people that does INSERT on later")
		}
		mustExec(t, c, "UPDATE people SET age = 1")
		mustExec(t, c, "DROP TRIGGER astray")
		mustExec(t, c, "INSERT INTO people (id) VALUES (1), (2), (3), (4), (5)")

		// As dumps have them: orders, its trigger, totals.
		mustExec(t, c, "CREATE TRIGGER counts AFTER INSERT ON people FOR EACH ROW INSERT INTO tally VALUES (1, NEW.id) ON DUPLICATE KEY UPDATE n = n + 1")
		mustExec(t, c, "CREATE TRIGGER configured AFTER UPDATE ON people FOR EACH ROW INSERT INTO early (v, id) VALUES (NEW.age, NEW.id) ON DUPLICATE KEY UPDATE v = v + 1")
		mustExec(t, c, "CREATE TABLE tally (n INT, id BIGINT, PRIMARY KEY (id))")
		mustExec(t, c, "CREATE TABLE early (v INT, id BIGINT, PRIMARY KEY (id))")
		mustExec(t, c, "DELETE FROM people")
		for range 2 {
			mustExec(t, c, "INSERT INTO people (id, age) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
			mustExec(t, c, "UPDATE people SET age = age + 1")
			mustExec(t, c, "DELETE FROM people")
		}
		for id := range 5 {
			want(t, c, fmt.Sprintf("SELECT t.n, e.v FROM tally t JOIN early e ON e.id = t.id WHERE t.id = %d", id+1), "n v", fmt.Sprintf("2 %d", id+3))
		}
		mustExec(t, c, "DROP TRIGGER counts")
		mustExec(t, c, "DROP TRIGGER configured")

		// Of several statements, as pt-online-schema-change has them.
		mustExec(t, c, "CREATE TRIGGER block AFTER UPDATE ON people FOR EACH ROW BEGIN DELETE IGNORE FROM tally WHERE NOT (OLD.id <=> NEW.id) AND tally.id <=> OLD.id; REPLACE INTO tally (n, id) VALUES (NEW.age, NEW.id); END")
		mustExec(t, c, "CREATE TRIGGER filled BEFORE INSERT ON people FOR EACH ROW BEGIN IF NEW.age IS NULL THEN SET NEW.age = 7; ELSE SET NEW.age = NEW.age + 1; END IF; END")
		mustExec(t, c, "INSERT INTO people (id, age) VALUES (1, NULL), (2, 2)")
		mustExec(t, c, "UPDATE people SET age = age + 10")
		want(t, c, "SELECT t.id, t.n FROM tally t JOIN people p ON p.id = t.id AND p.age = t.n", "id n", "1 17", "2 13")
		mustExec(t, c, "DELETE FROM tally")
		mustExec(t, c, "DROP TRIGGER block")
		mustExec(t, c, "DROP TRIGGER filled")

		// Behind Shunt's back, and by another table's.
		for i := range 4 {
			mustExec(t, p.shard(i), "CREATE TRIGGER first AFTER DELETE ON people FOR EACH ROW INSERT INTO tally VALUES (1, OLD.id)")
			mustExec(t, p.shard(i), "CREATE TRIGGER second AFTER INSERT ON tally FOR EACH ROW UPDATE early SET id = id + 1")
		}
		mustExec(t, c, "ALTER DATABASE "+p.schema+" CHARACTER SET utf8mb4") // all of the schema is read again
		wantError(t, execError(t, c, "DELETE FROM people WHERE id = 1"), 1235, "a trigger of tally that does UPDATE on early")
	})
}
