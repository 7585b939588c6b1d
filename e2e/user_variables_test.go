package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestUserVariables: they have the type, the characters and the time of their SET on
// every connection and after any other SET, as on a server.
func TestUserVariables(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		p.query("INSERT INTO people (id, email, age) VALUES (1, 'a@x', 1), (2, 'b@x', 2), (3, 'c@x', 3), (4, 'd@x', 4)")
		p.query("SET @x = 'a;\nb'", "SET @y = 2", "SELECT @x, @y", "SELECT COUNT(*), MAX(@x) FROM people")
		p.query("SET @a = 1", "SET @a = 2, @b = @a + 1", "SELECT @a, @b") // all are evaluated first
		p.query("SET @i = 18446744073709551615, @d = POW(2, 70), @q = 1 / 3, @e = 1.0e0 / 3, @u = CAST(5 AS UNSIGNED), @n = NULL, @t = TRUE",
			"SELECT @i, @d, @q, @e, @u, @n, @t", "SELECT @i / 3, @d / 3, @q * 3, @e * 3, @t + 1", "SELECT @u - 6")
		p.query("SET @bin = UNHEX('FF00FE'), @none = '', @latin = _latin1'x', @sum = CONCAT('a', 1)",
			"SELECT HEX(@bin), COLLATION(@bin), @bin = UNHEX('FF00FE'), @none, COLLATION(@latin), @sum, COLLATION(@sum)")
		p.query("SET @now = CURRENT_TIMESTAMP", "SELECT SLEEP(1.1)", "SELECT @now < NOW(), LENGTH(@now)", "SELECT COUNT(*) FROM people WHERE @now < NOW()")
		p.query("SET NAMES latin1", "SET @l = '\xe9\xe8', @m = CONCAT('\xe9', 'x')", "SET NAMES utf8mb4",
			"SELECT HEX(@l), COLLATION(@l), HEX(@m), COLLATION(@m), @l", "SELECT COUNT(*), MAX(@l) FROM people")
		p.query("SET @`a``b` = 1, @'c''d' = 2, @'e\\'f' = 3, @\"g\"\"h\" = 4, @`i'j` = 5, @'k`l' = 6, @`` = 7, @'m n' = 8, @o.p = 9", "SELECT 'A``B' INTO @`A``B`",
			"SELECT @`a``b`, @`c'd`, @'e\\'f', @\"g\"\"h\", @'i''j', @`k``l`, @``, @`m n`, @`o.p`", "SELECT COUNT(*), MAX(@`a``b`), MAX(@'c''d') FROM people")
		p.query("SET sql_mode = ''", `SET @s = 'a\\b', @o = "it's"`, "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'", "SELECT @s, @o", "SELECT COUNT(*), MAX(@s), MAX(@o) FROM people")
	})
}

// TestAssignedInStatements: a SELECT that one shard answers may assign them, and the session
// has what it has assigned, whichever connection the next statement takes.
func TestAssignedInStatements(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{})
		w.exec("CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), age INT)", "INSERT INTO people VALUES (1, 'a@x', 1), (2, 'b@x', 2), (3, 'c@x', 3), (4, 'd@x', 4)")
		same := func(assigns string, args ...any) {
			t.Helper()
			w.same(true, assigns, args...)
			w.same(true, "SELECT @a, @B, @c")
			w.same(true, "SELECT COUNT(*), MAX(@a) FROM people")
			w.same(true, "SELECT @a + 1, @c, id FROM people WHERE id = 3")
		}
		same("SELECT @a := 5, @b := 'x', @c := NULL")
		same("SELECT @a := @a + 1.5, @b := CONCAT(@b, email), @C := id FROM people WHERE id = 2")
		same("SELECT @b := age, CASE WHEN 1 THEN @c := -1 ELSE @c := 2 END FROM people WHERE id = 99")
		same("SELECT @a := ?, @b := CONCAT(?, email) FROM people WHERE id = ?", 7, "y", 4)
		w.exec("SET @n = 0")
		same("SELECT @n := @n + 1 AS n, x.v FROM (SELECT 3 AS v UNION ALL SELECT 1) x, (SELECT @a := 2) y")
		w.exec("INSERT INTO people (id, age) SELECT 50, @a := 77")
		w.same(true, "SELECT @a, age FROM people WHERE id = 50")
		w.exec("START TRANSACTION")
		same("SELECT @a := age FROM people WHERE id = 4")
		w.exec("UPDATE people SET age = @a + 10 WHERE id = 4")
		same("SELECT @c := age FROM people WHERE id = 4")
		w.exec("ROLLBACK")
		same("SELECT @a := 'é', age FROM people WHERE id = 4")
		w.exec("CREATE TEMPORARY TABLE tmp (n INT)", "INSERT INTO tmp VALUES (1), (2), (3)", "SET @a = 1")
		same("SELECT @a := @a + n FROM tmp")
		w.same(true, "SELECT @a, COUNT(*) FROM tmp")
		for _, c := range []*client.Conn{w.shunt, w.plain} {
			if _, err := c.Execute("SELECT @a := 8, (SELECT n FROM tmp)"); err == nil {
				t.Error("a subquery of three rows is a value")
			}
		}
		w.same(true, "SELECT @a")
		// As MariaDB's ODBC driver asks for columns. How they are described depends on whether
		// Shunt has seen the plain server's schema yet, which is on one shard alone.
		columns := "SELECT CAST(CASE DATA_TYPE WHEN 'bigint' THEN @a := (-5) ELSE @a := 12 END AS SIGNED) AS t, @a AS same, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'people' ORDER BY ORDINAL_POSITION"
		_, got, err := answerOf(w.shunt, columns, nil)
		_, want, plainErr := answerOf(w.plain, columns, nil)
		if err != nil || plainErr != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v %v, want %v %v", columns, got, err, want, plainErr)
		}
		w.same(true, "SELECT @a, @b, @c")
		same("SELECT @a := COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = DATABASE()")

		for _, sql := range []string{
			"SELECT @a := id FROM people", "SELECT @a := MAX(id) FROM people", "SELECT @a := id FROM people WHERE id = 1 FOR UPDATE", "SELECT @a := id FROM people ORDER BY age LIMIT 1",
			"UPDATE people SET age = (@a := 1) WHERE id = 1", "EXPLAIN ANALYZE SELECT @a := 1",
		} {
			_, err := w.shunt.Execute(sql)
			if e, ok := errors.AsType[*mysql.MyError](err); !ok || e.Code != 1235 {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
}

// TestSettingsByNumber: the planner knows what a number stands for.
func TestSettingsByNumber(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		p.query(`INSERT INTO people (id, email) VALUES (1, 'a\\b'), (2, 'a\\\\b')`)
		const noBackslashEscapes, ansiQuotes = "1048576", "4"
		look := []string{`SELECT id FROM people WHERE email = 'a\\b'`, `SELECT id FROM people WHERE email = 'a\b'`}
		p.query(look...)
		p.query("SET sql_mode = " + noBackslashEscapes)
		p.query(look...)
		p.query("SET sql_mode = DEFAULT")
		p.query(look...)
		p.query("SET @m = "+noBackslashEscapes, "SET sql_mode = @m")
		p.query(look...)
		p.query("SET sql_mode = "+ansiQuotes, `SELECT "age" FROM people WHERE "id" = 2`)

		// Two names of one character set, as Sqitch has them: a text is a shard key all the same.
		for _, c := range []*packetClient{p.shunt, p.plain} {
			c.query("SET NAMES utf8mb3") // MySQL warns
			c.query("SET character_set_client = 'utf8'")
		}
		p.query("CREATE TABLE names (n VARCHAR(20) PRIMARY KEY)", "INSERT INTO names VALUES ('é'), ('b')", "SELECT HEX(n) FROM names WHERE n = 'é'", "SET NAMES utf8mb4")

		c := p.shunt
		const gbk, utf8mb3 = "28", "33"
		if got := c.query("SET character_set_client = " + gbk); !strings.HasPrefix(got, "ERR 1235") {
			t.Errorf("gbk by its number: %s", got)
		}
		c.query("SET character_set_client = " + utf8mb3)
		if got, want := c.query("SELECT @@character_set_client = 'utf8mb3' AS same"), p.plain.query("SELECT 1 = 1 AS same"); got != want {
			t.Errorf("utf8mb3 by its number: %s", got)
		}
	})
}

// TestLastInsertIDIsSet: by SET, and by LAST_INSERT_ID(n) in a query.
func TestLastInsertIDIsSet(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		ask := "SELECT LAST_INSERT_ID(), @@identity"
		p.query("INSERT INTO people (id, age) VALUES (1, 7)", "SELECT LAST_INSERT_ID(77)", ask, "SELECT LAST_INSERT_ID(age) FROM people WHERE id = 1", ask)
		p.query("SET LAST_INSERT_ID = 5", ask, "SET @@identity = 2 + 4", ask, "SET @x = LAST_INSERT_ID()", "SELECT @x")
		p.query("SET @x = LAST_INSERT_ID(9)", "SELECT @x", ask, "DO LAST_INSERT_ID(8)", ask, "UPDATE people SET age = LAST_INSERT_ID(age + 1) WHERE id = 1", ask)
		p.query("SET LAST_INSERT_ID = 'x'", ask, "SET @@identity = 4, @x = LAST_INSERT_ID()", "SELECT @x", ask)
		if got := p.shunt.query("SELECT LAST_INSERT_ID(3) FROM people"); !strings.HasPrefix(got, "ERR 1235") {
			t.Errorf("over all shards: %s", got)
		}
	})
}

// TestRowCountBeside: what ROW_COUNT() tells is not the statement's before the last.
func TestRowCountBeside(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		p.query("INSERT INTO people (id, age) VALUES (1, 7), (2, 8)", "SELECT ROW_COUNT(), 5", "SELECT ROW_COUNT(), 5")
		p.query("UPDATE people SET age = 9; SELECT ROW_COUNT() + 1, LAST_INSERT_ID(); SELECT ROW_COUNT() + 1", "DELETE FROM people WHERE id = 2", "SELECT id, ROW_COUNT() FROM people WHERE id = 1")
	})
}

// TestUserVariablesDontLeak: what a stored function assigns is the session's, and what it and triggers
// assign is no other client's.
func TestUserVariablesDontLeak(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 9, setup{})
		mustExec(t, c, "CREATE FUNCTION leaking(x INT) RETURNS INT DETERMINISTIC NO SQL BEGIN SET @leak = x; RETURN x; END")
		mustExec(t, c, "CREATE FUNCTION tight(x INT) RETURNS INT DETERMINISTIC NO SQL RETURN x + 1")
		mustExec(t, c, "CREATE FUNCTION leaks(x INT) RETURNS INT DETERMINISTIC NO SQL RETURN leaking(x) + 1")
		mustExec(t, c, "CREATE VIEW leaked AS SELECT leaking(id) AS n, id FROM people")
		for sql, value := range map[string]string{"SELECT leaking(3) AS n": "3", "SELECT leaks(4) - 1 AS n": "4", "SELECT leaking(id) AS n FROM people WHERE id = 5": "5", "SELECT n FROM leaked WHERE id = 6": "6"} {
			want(t, c, sql, "n", value)
			want(t, c, "SELECT @leak AS x", "x", value)
			want(t, p.conn(), "SELECT @leak AS x", "x", "NULL")
		}
		mustRows(t, c, "SELECT leaking(?), id FROM people WHERE id = ?", 8, 1)
		want(t, c, "SELECT @leak AS x", "x", "8")
		_, err := rowsOf(t.Context(), c, "SELECT leaking(?), id FROM people", 3)
		wantError(t, err, 1235, "leaking() sets")
		failsWith(t, c, "SELECT n FROM leaked", 1235, "each would set its own")
		mustExec(t, c, "SET @leak = NULL")
		for _, shard := range []string{"s0", "s1", "s2", "s3"} {
			mustRows(t, c, "/* shunt: shard="+shard+" */ SELECT leaking(3)")
		}
		want(t, c, "SELECT tight(1) AS n", "n", "2")
		mustExec(t, c, "CREATE TRIGGER summing BEFORE INSERT ON people FOR EACH ROW SET @leak = NEW.age")
		_, err = c.ExecContext(t.Context(), "INSERT INTO people (id, age) VALUES (100, 5)")
		wantError(t, err, 1235, "a trigger of people sets")
		mustExec(t, c, "UPDATE people SET age = 5 WHERE id = 1")
		mustExec(t, c, "/* shunt: shard=s0 */ INSERT IGNORE INTO people (id, age) VALUES (0, 5)")
		for _, other := range []queryer{p.conn(), c} {
			want(t, other, "SELECT COUNT(*) AS n FROM people WHERE @leak IS NOT NULL", "n", "0")
			want(t, other, "SELECT @leak AS x", "x", "NULL")
		}
		mustExec(t, c, "DROP TRIGGER summing")
		mustExec(t, c, "INSERT INTO people (id, age) VALUES (100, 5)")
	})
}

// TestSetInPart: a SET that fails in the midst of a transaction has done nothing, neither to the
// session nor to the connection, which is another client's afterwards.
func TestSetInPart(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, 0)
		const look = "SELECT @a, @b, @@div_precision_increment, @@max_sort_length, 1 / 3, id FROM people WHERE id = 1"
		p.query("INSERT INTO people (id) VALUES (1)", "SET @b = 5, max_sort_length = 500", "BEGIN", look,
			"SET @a = 1, @b = 6, div_precision_increment = 9, max_sort_length = 600, sql_mode = 'nonsense'", look,
			"SET @a = 1, nonsense = 2", look, "SET @b = 7", look, "COMMIT", look)
		for range 5 {
			dial(t, 0).query(look)
		}
		// A query in a SET begins a transaction, of the session's kind.
		p.query("SET SESSION TRANSACTION READ ONLY", "SET autocommit = 0", "SET @a = (SELECT id FROM people WHERE id = 1)", "INSERT INTO people (id) VALUES (2)", "COMMIT", look)
	})
}

// TestSetByQuery: a query in a SET reads what its transaction has written, and what one
// server would say of the schemas.
func TestSetByQuery(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{tables: []string{"rates: {placement: reference}", "knobs: {placement: single, shard: s2}"}})
		mustExec(t, c, "CREATE TABLE rates (code CHAR(2) PRIMARY KEY, n INT, name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)")
		mustExec(t, c, "CREATE TABLE knobs (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20))")
		mustExec(t, c, "INSERT INTO rates VALUES ('DE', 1, 'one'), ('IT', 2, 'two')")
		mustExec(t, c, "INSERT INTO knobs VALUES ('theme', 'dark')")
		value := func(what string) string {
			t.Helper()
			return mustRows(t, c, "SELECT "+what+" AS v")[0]["v"]
		}
		for _, begin := range []string{"BEGIN", "SET autocommit = 0"} {
			mustExec(t, c, begin)
			mustExec(t, c, "UPDATE rates SET n = 50 WHERE code = 'DE'")
			mustExec(t, c, "UPDATE knobs SET v = 'light' WHERE k = 'theme'")
			mustExec(t, c, "SET @n = (SELECT n FROM rates WHERE code = 'DE'), @v = (SELECT v FROM knobs), max_sort_length = (SELECT 1000 + n FROM rates WHERE code = 'DE')")
			if got := value("CONCAT(@n, @v, @@max_sort_length)"); got != "50light1050" {
				t.Errorf("in a transaction (%s): %s", begin, got)
			}
			mustExec(t, c, "ROLLBACK")
		}
		mustExec(t, c, "SET autocommit = 1")
		mustExec(t, c, "SET @n = (SELECT n FROM rates WHERE code = 'DE'), @v = (SELECT v FROM knobs), @name = (SELECT name FROM rates WHERE n = 2)")
		if got := value("CONCAT(@n, @v, @name, COLLATION(@name))"); got != "1darktwoutf8mb4_bin" {
			t.Errorf("afterwards: %s", got)
		}
		// knobs is on one shard alone.
		const columns = "FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'knobs'"
		mustExec(t, c, "SET @n = (SELECT COUNT(*) "+columns+"), @has = EXISTS (SELECT 1 "+columns+" AND column_name = 'v'), @last = (SELECT MAX(column_name) "+columns+")")
		if got := value("CONCAT(@n, @has, @last, @n + 1)"); got != "21v3" {
			t.Errorf("columns: %s", got)
		}
		mustExec(t, c, "SET sql_mode = (SELECT IF(COUNT(*) = 2, 'ANSI_QUOTES', '') "+columns+")")
		if got := mustRows(t, c, `SELECT "v" FROM "knobs"`)[0]["v"]; got != "dark" {
			t.Errorf("sql_mode by a query: %s", got)
		}
		mustExec(t, c, "SET sql_mode = ''")
		_, err := c.ExecContext(t.Context(), "SET @n = (SELECT nothing "+columns+")")
		wantError(t, err, 1054, "nothing")
		for range 5 {
			want(t, p.conn(), "SELECT @shunt_value AS v", "v", "NULL")
		}
	})
}

// TestLargeUserVariable: one that can't be told to the shards is refused.
func TestLargeUserVariable(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		p.query("SET @x = REPEAT('a', 1000000)", "SELECT LENGTH(@x)")
		for _, set := range []string{"SET @x = REPEAT('b', 40000000)", "SET @x = (SELECT REPEAT('b', 40000000))"} {
			if got := p.shunt.query(set); !strings.HasPrefix(got, "ERR 1235") {
				t.Errorf("%s: %s", set, got)
			}
		}
		p.query("SELECT LENGTH(@x), LEFT(@x, 1)")
	})
}

// TestLongDataInVain: what is wrong with a piece of one statement's parameter is no
// other statement's error, nor that statement's once it is reset.
func TestLongDataInVain(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		c := packetSides(t, f)(t, 0).shunt
		first, _ := c.prepare("SELECT LENGTH(?)")
		second, _ := c.prepare("SELECT 5")
		execute := func(id uint32, more ...byte) string {
			c.say(0x17, uint32s(id), []byte{0, 1, 0, 0, 0}, more)
			return c.answer()
		}
		text := []byte{0, 1, 0xfd, 0, 1, 'x'}
		before := execute(first, text...)
		if strings.HasPrefix(before, "ERR") {
			t.Fatal(before)
		}
		c.say(0x18, uint32s(first), []byte{7, 0}, []byte("no such parameter"))
		if got := execute(first, text...); !strings.HasPrefix(got, "ERR 1210") {
			t.Errorf("no such parameter: %s", got)
		}
		if got := execute(second); strings.HasPrefix(got, "ERR") {
			t.Errorf("another statement: %s", got)
		}
		c.say(0x1a, uint32s(first))
		c.answer()
		if got := execute(first, text...); got != before {
			t.Errorf("after a reset: %s", got)
		}
	})
}
