package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// stepKind is what a client does.
type stepKind int

const (
	queryStep stepKind = iota
	prepareStep
	executeStep
	closeStep
	resetStatementStep
	longDataStep
	pingStep
	initDBStep
	resetStep
	changeUserStep
)

// sessionStep is one command of a session.
type sessionStep struct {
	kind stepKind
	conn int
	// sql are a query's statements, sent at once. {id} in them is the counted id of
	// notes' next row: NULL, or a number where the servers' counters may differ.
	sql    []string
	slot   int // of a prepared statement
	param  int // of COM_STMT_SEND_LONG_DATA
	params []sessionParam
	// total: ORDER BY leaves no two rows equal.
	total bool
	// asks: the answer is about the statement before, which Shunt may have refused.
	asks bool
	// gaps: a server may count ids that no row gets.
	gaps bool
	// ddl: the tables have to be made anew for the next session.
	ddl bool
}

const idPlace = "{id}"

func (s sessionStep) String() string {
	switch s.kind {
	case queryStep:
		return strings.Join(s.sql, "; ")
	case prepareStep:
		return fmt.Sprintf("-- COM_STMT_PREPARE %d: %s", s.slot, s.sql[0])
	case executeStep:
		values := make([]string, len(s.params))
		for i, p := range s.params {
			values[i] = p.literal()
		}
		return fmt.Sprintf("-- COM_STMT_EXECUTE %d: %s", s.slot, strings.Join(values, ", "))
	case closeStep:
		return fmt.Sprintf("-- COM_STMT_CLOSE %d", s.slot)
	case resetStatementStep:
		return fmt.Sprintf("-- COM_STMT_RESET %d", s.slot)
	case longDataStep:
		return fmt.Sprintf("-- COM_STMT_SEND_LONG_DATA %d: parameter %d: %q", s.slot, s.param, s.sql[0])
	case pingStep:
		return "-- COM_PING"
	case initDBStep:
		return "-- COM_INIT_DB " + s.sql[0]
	case resetStep:
		return "-- COM_RESET_CONNECTION"
	default:
		return "-- COM_CHANGE_USER " + s.sql[0]
	}
}

// sessionSetup makes the tables: two schemas, in which people are not the same.
func sessionSetup(schema, other string) []string {
	return []string{
		"CREATE TABLE " + schema + ".people (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(20), age SMALLINT, paid DECIMAL(6,2), born DATE, city CHAR(10) NOT NULL DEFAULT 'x', KEY (email), KEY (city, age))",
		"CREATE TABLE " + schema + ".notes (id BIGINT AUTO_INCREMENT PRIMARY KEY, who INT, txt VARCHAR(12) NOT NULL, at TIMESTAMP NULL, KEY (who))",
		"CREATE TABLE " + schema + ".orders (user_id BIGINT NOT NULL, no INT NOT NULL, total INT UNSIGNED, PRIMARY KEY (user_id, no))",
		"CREATE TABLE " + schema + ".countries (code CHAR(4) NOT NULL PRIMARY KEY, name VARCHAR(20), n INT NOT NULL DEFAULT 0)",
		"CREATE TABLE " + schema + ".settings (k INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(12) UNIQUE, n TINYINT)",
		"CREATE TABLE " + other + ".people (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20))",
		"CREATE TABLE " + other + ".settings (k INT, v VARCHAR(12), n TINYINT)", // without a key: on one shard
		"INSERT INTO " + schema + ".people VALUES (1, 'ann', 21, 1.5, '2020-01-02', 'a'), (2, 'bob', 22, NULL, NULL, 'b'), (3, 'eve', 23, 3.25, '2021-12-31', 'a'), (4, NULL, 24, 4, '2020-01-02', 'b'), (5, 'ann', NULL, 5, NULL, 'c'), (6, 'fay', 26, 6, '2000-02-29', 'x'), (7, 'bob', 21, 7, NULL, 'a'), (8, 'eve', 28, 8.01, '2020-05-05', 'b')",
		"INSERT INTO " + schema + ".notes (who, txt, at) VALUES (1, 'one', '2024-01-02 03:04:05'), (2, 'two', NULL), (3, 'three', '2024-06-02 03:04:05')",
		"INSERT INTO " + schema + ".orders VALUES (1, 1, 10), (1, 2, 20), (2, 1, 30), (3, 1, NULL), (5, 1, 50)",
		"INSERT INTO " + schema + ".countries VALUES ('a', 'Aland', 1), ('b', 'Bland', 2), ('c', NULL, 3)",
		"INSERT INTO " + schema + ".settings (v, n) VALUES ('u', 1), ('w', 2), (NULL, 3)",
		"INSERT INTO " + other + ".people VALUES (1, 'other ann'), (2, 'other bob'), (9, 'other')",
		"INSERT INTO " + other + ".settings (v, n) VALUES ('other', 1)",
	}
}

var (
	sessionPlacements = []string{"people: {shard_key: id}", "orders: {shard_key: user_id}", "countries: {placement: reference}", "settings: {placement: single, shard: s1}"}
	sessionIndexes    = []string{"CREATE VIRTUAL INDEX by_email ON people (email)", "CREATE VIRTUAL INDEX by_city_age ON people (city, age)", "CREATE VIRTUAL INDEX by_who ON notes (who)"}
)

// sessionMaker makes the steps of one session. It knows what it has said, not what came
// of it: shrinking leaves steps out, and the rest has to mean something.
type sessionMaker struct {
	rnd           *rand.Rand
	mariaDB       bool
	schema, other string
	steps         []sessionStep
	conn          int
	// two: a second connection is at work, and nothing waits for the other's locks.
	two bool
	// what this session has: each takes something from what the others can compare.
	limits, ddl, locks, safe, modes, names, shadows bool
	prepared                                        map[int]*preparedKind
	textual                                         map[string]*preparedKind
}

// preparedKind is a statement to prepare: its parameters are of kinds n (a number), t (a
// text), i (a counted id).
type preparedKind struct {
	sql, params string
	total, gaps bool
}

// assigned sets a variable by a query. By SET a server locks the rows that it reads, and Shunt doesn't: see docs/limits.md.
func (g *sessionMaker) assigned(name, columns, from string) string {
	if g.two {
		return "SELECT " + columns + " INTO " + name + " FROM " + from
	}
	return "SET " + name + " = (SELECT " + columns + " FROM " + from + ")"
}

func newSession(seed uint64, mariaDB bool, schema, other string) (steps []sessionStep, shape sessionShape) {
	g := &sessionMaker{rnd: rand.New(rand.NewPCG(seed, 7)), mariaDB: mariaDB, schema: schema, other: other, prepared: map[int]*preparedKind{}, textual: map[string]*preparedKind{}}
	for _, has := range []*bool{&g.limits, &g.ddl, &g.locks, &g.safe, &g.modes, &g.names, &g.shadows} {
		*has = g.one(4)
	}
	g.two = g.one(6)
	if g.two { // nothing that the other one would wait for
		g.ddl, g.locks = false, false
	}
	shape = sessionShape{deprecateEOF: g.one(2), foundRows: g.one(5)}
	for n := 30 + g.rnd.IntN(51); len(g.steps) < n; {
		g.conn = 0
		if g.two && g.one(4) {
			g.conn = 1
			g.reader()
			continue
		}
		g.next()
	}
	return g.steps, shape
}

func (g *sessionMaker) one(of int) bool         { return g.rnd.IntN(of) == 0 }
func (g *sessionMaker) any(of ...string) string { return of[g.rnd.IntN(len(of))] }

func (g *sessionMaker) add(s sessionStep) *sessionStep {
	s.conn = g.conn
	g.steps = append(g.steps, s)
	return &g.steps[len(g.steps)-1]
}

// say adds a query, and now and then a question about it.
func (g *sessionMaker) say(sql string) *sessionStep {
	at := len(g.steps)
	g.add(sessionStep{sql: []string{sql}, total: strings.Contains(sql, "ORDER BY") || g.limits})
	g.ask()
	return &g.steps[at]
}

// ask asks about the statement before.
func (g *sessionMaker) ask() {
	if !g.one(2) {
		return
	}
	sql := g.any("SELECT ROW_COUNT()", "SELECT FOUND_ROWS()", "SELECT LAST_INSERT_ID()", "SELECT @@last_insert_id, @@identity", "SHOW WARNINGS", "SELECT @@warning_count, @@error_count", "SHOW COUNT(*) WARNINGS", "SHOW ERRORS",
		"SELECT ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID()", "SELECT @@autocommit, @@sql_mode", "SELECT @a, @b", "SELECT DATABASE()", "SHOW WARNINGS LIMIT 1", "SET @a = ROW_COUNT()", "SET @b = LAST_INSERT_ID()")
	g.add(sessionStep{sql: []string{sql}, asks: true})
	if g.one(3) { // once more: what it asked about is gone, or not
		g.add(sessionStep{sql: []string{g.any("SELECT ROW_COUNT()", "SELECT FOUND_ROWS()", "SHOW WARNINGS", "SELECT @@warning_count")}, asks: true})
	}
}

func (g *sessionMaker) id() string { return strconv.Itoa(1 + g.rnd.IntN(16)) }
func (g *sessionMaker) email() string {
	return g.any("'ann'", "'bob'", "'eve'", "'fay'", "'new'", "NULL")
}
func (g *sessionMaker) city() string { return g.any("'a'", "'b'", "'c'", "'x'", "'q'") }
func (g *sessionMaker) age() string {
	return g.any("21", "22", "23", "28", "NULL", "'24'", "25.5", "@a", "@b")
}
func (g *sessionMaker) paid() string { return g.any("1.5", "2", "0.005", "NULL", "'3.25'", "-1") }
func (g *sessionMaker) born() string {
	return g.any("'2020-01-02'", "NULL", "20200505", "DATE'2021-12-31'")
}

// bad is a value that a strict mode may refuse.
func (g *sessionMaker) bad() (column, value string) {
	switch g.rnd.IntN(9) {
	case 0:
		return "age", g.any("40000", "-40000")
	case 1:
		return "age", g.any("'abc'", "'12abc'", "''")
	case 2:
		return "paid", g.any("99999.99", "1.555", "'x'")
	case 3:
		return "email", "'a text of more than twenty letters'"
	case 4:
		return "city", "NULL"
	case 5:
		return "city", "'a city of many'"
	case 6:
		return "born", g.any("'2021-02-30'", "'0000-00-00'", "'nonsense'", "'2020-00-01'")
	case 7:
		return "age", g.any("1/0", "MOD(1, 0)", "'5' + 'x'")
	default:
		return "age", "id / 0"
	}
}

func (g *sessionMaker) where() string {
	switch g.rnd.IntN(11) {
	case 0, 1, 2:
		return "id = " + g.id()
	case 3:
		return "id IN (" + g.id() + ", " + g.id() + ", " + g.id() + ")"
	case 4, 5:
		return "email = " + g.any("'ann'", "'bob'", "'eve'", "'new'")
	case 6:
		return "city = " + g.city() + " AND age = " + g.any("21", "22", "28")
	case 7:
		return "age > " + g.any("20", "22", "25")
	case 8:
		return "id > " + g.id()
	case 9:
		return "id = " + g.any("LAST_INSERT_ID()", "@a", "@b")
	default:
		return g.any("email IS NULL", "email = @e", "1", "born = '2020-01-02'")
	}
}

// given stands for the next counted id; DEFAULT is 0 under NO_AUTO_VALUE_ON_ZERO, and Shunt counts.
func (g *sessionMaker) given() string {
	if g.modes {
		return "NULL"
	}
	return "DEFAULT"
}

func (g *sessionMaker) person() string {
	return fmt.Sprintf("(%s, %s, %s, %s, %s, %s)", g.id(), g.email(), g.age(), g.paid(), g.born(), g.city())
}

func (g *sessionMaker) set() string {
	if g.one(8) {
		c, v := g.bad()
		return c + " = " + v
	}
	return g.any("email = "+g.email(), "age = "+g.age(), "age = age + 1", "paid = paid * 2", "city = "+g.city(), "born = "+g.born(), "email = CONCAT(email, 'x')")
}

func (g *sessionMaker) next() {
	switch n := g.rnd.IntN(100); {
	case n < 22:
		g.read()
	case n < 42:
		g.write()
	case n < 55:
		g.transaction()
	case n < 63:
		g.setting()
	case n < 70:
		g.binary()
	case n < 77:
		g.text()
	case n < 83:
		g.failing()
	case n < 87:
		g.variables()
	case n < 90:
		g.temporary()
	case n < 93:
		g.several()
	case n < 96:
		g.connection()
	case n < 98:
		g.shows()
	default:
		switch {
		case g.ddl && g.one(2):
			g.definition()
		case g.locks:
			g.locking()
		case g.ddl:
			g.definition()
		default:
			g.nameLock()
		}
	}
}

// reader is a step of the second connection: it takes no locks, and its transaction's
// snapshot is of its beginning.
func (g *sessionMaker) reader() {
	switch g.rnd.IntN(8) {
	case 0:
		g.say(g.any("START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT", "ROLLBACK"))
	case 1:
		g.variables()
	case 2:
		g.nameLock()
	case 3:
		g.shows()
	default:
		g.say(g.query())
	}
}

// query is a read without locks.
func (g *sessionMaker) query() string {
	switch g.rnd.IntN(20) {
	case 0:
		return "SELECT COUNT(*), SUM(age), MIN(paid), MAX(email) FROM people WHERE " + g.where()
	case 1:
		return "SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY city"
	case 2:
		return "SELECT p.id, o.no, o.total FROM people p JOIN orders o ON o.user_id = p.id ORDER BY p.id, o.no"
	case 3:
		return "SELECT p.id, c.name FROM people p LEFT JOIN countries c ON c.code = p.city ORDER BY p.id"
	case 4:
		return "SELECT n.id, s.v FROM notes n JOIN settings s ON s.k = n.who ORDER BY n.id, s.k"
	case 5:
		return "SELECT id, who, txt, at FROM notes WHERE " + g.any("who = "+g.id(), "id = LAST_INSERT_ID()", "id = "+g.id(), "1", "at > '2024-03-01 00:00:00'") + " ORDER BY id"
	case 6:
		return "SELECT * FROM countries ORDER BY code"
	case 7:
		return "SELECT * FROM settings ORDER BY k"
	case 8:
		return "SELECT SQL_CALC_FOUND_ROWS id, email FROM people " + g.any("WHERE "+g.where(), "") + " ORDER BY id LIMIT " + g.any("2", "1", "3", "0", "2 OFFSET 3")
	case 9:
		return "SELECT id FROM people WHERE id IN (SELECT who FROM notes) ORDER BY id"
	case 10:
		return "SELECT * FROM people WHERE " + g.where() + " ORDER BY id"
	case 11:
		return "SELECT id FROM people ORDER BY id LIMIT " + g.any("1, 3", "2", "5 OFFSET 1", "1 OFFSET 100")
	case 12:
		return "SELECT id FROM people WHERE age > 22 UNION SELECT k FROM settings ORDER BY 1" + g.any("", " LIMIT 3")
	case 13:
		return "SELECT user_id, SUM(total) FROM orders GROUP BY user_id ORDER BY user_id"
	case 14:
		return "SELECT id, age / " + g.any("0", "2") + " FROM people WHERE id = " + g.id() + " ORDER BY id"
	case 15:
		return "SELECT 1, 'é', " + g.any("NULL", "1.50", "@@sql_mode", "@@time_zone", "@@autocommit", "@@sql_select_limit", "@@character_set_client", "@@collation_connection", "@@sql_safe_updates", "@@transaction_isolation", "@@auto_increment_increment")
	case 16:
		return "SELECT * FROM " + g.other + ".people ORDER BY id"
	default:
		if g.limits || g.one(3) {
			return "SELECT id, email, age, city FROM people WHERE " + g.where() + " ORDER BY id"
		}
		return "SELECT id, email, paid, born FROM people WHERE " + g.where()
	}
}

func (g *sessionMaker) read() {
	switch g.rnd.IntN(8) {
	case 0:
		g.say("SELECT id, age FROM people WHERE " + g.where() + " ORDER BY id " + g.any("FOR UPDATE", "LOCK IN SHARE MODE"))
	default:
		g.say(g.query())
	}
}

func (g *sessionMaker) write() {
	switch g.rnd.IntN(26) {
	case 0, 1:
		g.say("INSERT INTO people (id, email, age, paid, born, city) VALUES " + g.person())
	case 2:
		g.say("INSERT " + g.any("", "IGNORE ") + "INTO people (id, email, age, paid, born, city) VALUES " + g.person() + ", " + g.person() + g.any("", ", "+g.person()))
	case 3:
		c, v := g.bad()
		g.say("INSERT " + g.any("", "IGNORE ") + "INTO people (id, " + c + ") VALUES (" + g.id() + ", " + v + ")")
	case 4:
		g.say("INSERT INTO people (id, email, age, paid, born, city) VALUES " + g.person() + " ON DUPLICATE KEY UPDATE " + g.any(g.set(), "email = VALUES(email), age = VALUES(age)", "age = LAST_INSERT_ID(id + 1000)"))
	case 5:
		g.say("REPLACE INTO people (id, email, city) VALUES (" + g.id() + ", " + g.email() + ", " + g.any(g.city(), "DEFAULT") + ")" + g.any("", ", ("+g.id()+", 'rep', 'a')"))
	case 6, 7:
		g.say("UPDATE " + g.any("", "", "IGNORE ") + "people SET " + g.set() + " WHERE " + g.where())
	case 8:
		switch {
		case g.one(3):
			g.say("UPDATE people SET age = LAST_INSERT_ID(" + g.any("id + 100", "age + 100", "5") + ") WHERE id = " + g.id())
		case g.one(2):
			g.say("UPDATE people SET age = LAST_INSERT_ID(id + 100) WHERE id < 5 ORDER BY id LIMIT 2")
		default:
			g.say("UPDATE people SET " + g.set() + " WHERE " + g.where() + " ORDER BY id LIMIT 2")
		}
	case 9:
		g.say("DELETE FROM people WHERE " + g.where() + g.any("", " ORDER BY id LIMIT 1"))
	case 10, 11:
		g.say("INSERT INTO notes (id, who, txt) VALUES (" + idPlace + ", " + g.id() + ", 'n')")
	case 12:
		g.say("INSERT INTO notes (id, who, txt) VALUES (" + idPlace + ", " + g.id() + ", 'm1'), (NULL, LAST_INSERT_ID(), 'm2')" + g.any("", ", ("+g.given()+", 3, 'm3')"))
	case 13:
		g.say("INSERT INTO notes (id, who, txt, at) VALUES (" + idPlace + ", " + g.any("'x'", "NULL", "7") + ", " + g.any("NULL", "'far too long a text'", "'fits'") + ", " + g.any("'2024-02-30 00:00:00'", "'2024-02-03 04:05:06'", "NULL") + ")").gaps = true
	case 14:
		g.say("INSERT INTO notes (id, who, txt) VALUES (" + g.any("1", "2", "3", "50", "LAST_INSERT_ID() + 5") + ", " + g.id() + ", 'k')" + g.any("", " ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), txt = 'again'", " ON DUPLICATE KEY UPDATE txt = 'twice', who = who + 1")).gaps = true
	case 15:
		g.say(g.any("UPDATE notes SET txt = 'upd', who = "+g.id()+" WHERE "+g.any("id = LAST_INSERT_ID()", "who = "+g.id(), "id = 2"), "DELETE FROM notes WHERE who = "+g.id()))
	case 16:
		g.say(g.any("INSERT INTO", "REPLACE INTO", "INSERT IGNORE INTO") + " orders VALUES (" + g.id() + ", " + g.any("1", "2") + ", " + g.any("5", "NULL", "-1", "@a") + ")" + g.any("", ", ("+g.id()+", 3, 1)"))
	case 17:
		g.say("INSERT INTO orders (user_id, no, total) SELECT id, " + g.any("7", "8", "9") + ", age FROM people WHERE " + g.where())
	case 18:
		g.say("UPDATE orders SET total = total " + g.any("+ 1", "- 15", "* 2") + g.any("", " WHERE user_id = "+g.id(), " WHERE no = 1"))
	case 19, 20:
		g.say(g.any("INSERT INTO", "REPLACE INTO", "INSERT IGNORE INTO") + " countries VALUES (" + g.any("'a'", "'b'", "'d'", "'e'", "NULL", "'toolong'") + ", " + g.any("'name'", "NULL") + ", " + g.any("1", "NULL", "DEFAULT", "ROW_COUNT()", "LAST_INSERT_ID()") + ")")
	case 21:
		g.say(g.any("UPDATE countries SET n = n + 1", "UPDATE countries SET name = 'upd' WHERE code = 'a'", "DELETE FROM countries WHERE code = 'd'", "INSERT INTO countries (code, n) VALUES ('a', 4) ON DUPLICATE KEY UPDATE n = n + VALUES(n)", "UPDATE countries SET code = 'f' WHERE code = 'e'", "UPDATE countries SET n = @a WHERE code = 'b'"))
	case 22, 23:
		g.say(g.any("INSERT INTO", "REPLACE INTO", "INSERT IGNORE INTO") + " settings (v, n) VALUES (" + g.any("'u'", "'v1'", "'v2'", "NULL") + ", " + g.any("1", "300", "LAST_INSERT_ID()", "@a") + ")" + g.any("", ", ('v3', 1)"))
	case 24:
		g.say("INSERT INTO settings (v, n) VALUES (" + g.any("'u'", "'w'", "'v4'") + ", 5) ON DUPLICATE KEY UPDATE " + g.any("n = n + 1", "k = LAST_INSERT_ID(k)", "k = LAST_INSERT_ID(k), n = 9", "v = 'w'"))
	default:
		if g.mariaDB {
			g.say(g.any("INSERT INTO settings (v) VALUES ('r"+g.id()+"') RETURNING k, v", "DELETE FROM people WHERE id = "+g.id()+" RETURNING id, email", "INSERT INTO people (id, age) VALUES ("+g.id()+", 5) RETURNING id, age"))
			return
		}
		g.say("INSERT INTO people (id, age) VALUES (" + g.id() + ", 5) AS new ON DUPLICATE KEY UPDATE age = new.age + 1")
	}
}

func (g *sessionMaker) savepoint() string { return g.any("s1", "s2", "S1") }

func (g *sessionMaker) transaction() {
	switch g.rnd.IntN(14) {
	case 0, 1, 2:
		g.say(g.any("BEGIN", "START TRANSACTION", "START TRANSACTION READ ONLY", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "BEGIN", "START TRANSACTION READ WRITE", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"))
	case 3, 4, 5:
		g.say(g.any("COMMIT", "COMMIT", "COMMIT AND CHAIN", "COMMIT AND NO CHAIN NO RELEASE", "COMMIT WORK"))
	case 6, 7:
		g.say(g.any("ROLLBACK", "ROLLBACK AND CHAIN", "ROLLBACK WORK", "ROLLBACK"))
	case 8, 9:
		g.say("SAVEPOINT " + g.savepoint())
	case 10:
		g.say(g.any("ROLLBACK TO ", "ROLLBACK WORK TO SAVEPOINT ", "ROLLBACK TO SAVEPOINT ") + g.savepoint())
	case 11:
		g.say("RELEASE SAVEPOINT " + g.savepoint())
	case 12:
		g.say("SET autocommit = " + g.any("0", "1", "1", "DEFAULT"))
	default:
		g.say(g.any("SET TRANSACTION READ ONLY", "SET TRANSACTION READ WRITE", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ WRITE", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
	}
}

func (g *sessionMaker) setting() {
	sql := g.any("SET time_zone = '+05:00'", "SET time_zone = '-03:30'", "SET time_zone = 'nonsense/zone'", "SET time_zone = DEFAULT", "SET LAST_INSERT_ID = 77", "SET INSERT_ID = 0", "SET SESSION lock_wait_timeout = 30", "SET @@session.wait_timeout = 3000",
		"SET timestamp = 1700000000", "SET timestamp = DEFAULT", "SET div_precision_increment = 6", "SET div_precision_increment = DEFAULT", "SET group_concat_max_len = 20", "SET foreign_key_checks = 0", "SET unique_checks = DEFAULT", "SET @a = 5, nonsense = 1",
		"SET max_error_count = DEFAULT", "SET lc_time_names = 'de_DE'", "SET big_tables = 0", "SET default_week_format = 3", "SET sql_notes = 0", "SET sql_notes = 1", "SET sql_warnings = 1", "SET old_passwords = 'x'")
	switch {
	case g.limits && g.one(2):
		sql = "SET sql_select_limit = " + g.any("2", "1", "3", "DEFAULT", "DEFAULT", "18446744073709551615")
		if !leaves("sql_select_limit = 0 of what Shunt answers itself") && g.one(5) {
			sql = "SET sql_select_limit = 0"
		}
	case g.safe && g.one(2):
		sql = "SET sql_safe_updates = " + g.any("1", "0", "DEFAULT")
	case g.names && g.one(2):
		sql = g.any("SET NAMES latin1", "SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET CHARACTER SET latin1", "SET character_set_results = NULL", "SET character_set_results = binary", "SET NAMES DEFAULT", "SET collation_connection = utf8mb4_unicode_ci", "SET NAMES binary", "SET character_set_results = latin1", "SET NAMES nonsense")
	case g.modes && g.one(2):
		sql = "SET " + g.any("", "SESSION ", "@@") + "sql_mode = " + g.any("''", "'STRICT_TRANS_TABLES'", "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'", "'ANSI_QUOTES'", "'NO_BACKSLASH_ESCAPES'", "'PIPES_AS_CONCAT'", "'NO_AUTO_VALUE_ON_ZERO'", "'NO_UNSIGNED_SUBTRACTION'", "DEFAULT", "'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES'", "'nonsense'", "'TRADITIONAL'", "'ANSI'", "'HIGH_NOT_PRECEDENCE'", "CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')")
	}
	g.say(sql)
}

// kind is a statement to prepare.
func (g *sessionMaker) kind() *preparedKind {
	all := []*preparedKind{
		{sql: "SELECT id, email, age FROM people WHERE id = ?", params: "n", total: true},
		{sql: "SELECT * FROM people WHERE id = ?", params: "n", total: true},
		{sql: "SELECT * FROM people WHERE email = ? ORDER BY id", params: "t", total: true},
		{sql: "SELECT COUNT(*), SUM(age) FROM people WHERE age > ?", params: "n", total: true},
		{sql: "SELECT id FROM people WHERE id IN (?, ?, ?) ORDER BY id", params: "nnn", total: true},
		{sql: "SELECT id, city FROM people ORDER BY id LIMIT ?", params: "l", total: true},
		{sql: "SELECT p.id, o.total FROM people p JOIN orders o ON o.user_id = p.id WHERE o.no = ? ORDER BY p.id", params: "n", total: true},
		{sql: "SELECT n.id, s.v FROM notes n JOIN settings s ON s.k = n.who WHERE n.who > ? ORDER BY n.id", params: "n", total: true},
		{sql: "SELECT name FROM countries WHERE code = ?", params: "t", total: true},
		{sql: "SELECT k, v, n FROM settings ORDER BY k", total: true},
		{sql: "INSERT INTO people (id, email, age) VALUES (?, ?, ?)", params: "ntn"},
		{sql: "INSERT INTO people (id, email, age) VALUES (?, ?, ?), (?, 'two', 2)", params: "ntnn"},
		{sql: "INSERT INTO notes (id, who, txt) VALUES (?, ?, ?)", params: "int"},
		{sql: "INSERT INTO notes (id, who, txt) VALUES (?, ?, 'p1'), (NULL, ?, 'p2')", params: "inn"},
		{sql: "INSERT INTO settings (v, n) VALUES (?, ?)", params: "tn"},
		{sql: "INSERT INTO settings (v, n) VALUES (?, ?) ON DUPLICATE KEY UPDATE k = LAST_INSERT_ID(k), n = n + 1", params: "tn"},
		{sql: "INSERT INTO countries (code, name) VALUES (?, ?) ON DUPLICATE KEY UPDATE name = VALUES(name)", params: "tt"},
		{sql: "INSERT IGNORE INTO orders VALUES (?, ?, ?)", params: "nnn"},
		{sql: "REPLACE INTO orders VALUES (?, 1, ?)", params: "nn"},
		{sql: "UPDATE people SET email = ?, age = ? WHERE id = ?", params: "tnn"},
		{sql: "UPDATE people SET age = age + 1 WHERE email = ?", params: "t"},
		{sql: "UPDATE people SET paid = ? WHERE age > ?", params: "nn"},
		{sql: "DELETE FROM people WHERE id = ?", params: "n"},
		{sql: "DELETE FROM people WHERE email = ? AND age = ?", params: "tn"},
		{sql: "UPDATE countries SET n = n + ?", params: "n"},
		{sql: "SELECT LAST_INSERT_ID()", total: true},
		{sql: "SELECT ROW_COUNT()", total: true},
		{sql: "SELECT FOUND_ROWS()", total: true},
		{sql: "SET @a = ?", params: "n"},
		{sql: "SET @e = ?, @b = 4", params: "t"},
		{sql: "SELECT @a, @b, @e", total: true},
		{sql: "DO SLEEP(0)"},
		{sql: "COMMIT"},
		{sql: "SELECT SQL_CALC_FOUND_ROWS id FROM people WHERE id > ? ORDER BY id LIMIT 2", params: "n", total: true},
		{sql: "SELECT nonsense FROM people WHERE id = ?", params: "n"},
		{sql: "SELECT extra FROM people WHERE id = ?", params: "n", total: true},
		{sql: "SELECT * FROM mine ORDER BY 1", total: true},
		{sql: "INSERT INTO mine (v) VALUES (?)", params: "t"},
		{sql: "SELECT id FROM people WHERE id = ? FOR UPDATE", params: "n", total: true},
	}
	return all[g.rnd.IntN(len(all))]
}

func (g *sessionMaker) values(k *preparedKind) (out []sessionParam) {
	for _, kind := range k.params {
		p := sessionParam{text: kind == 't', null: g.one(8)}
		switch kind {
		case 't':
			p.value = g.any("ann", "bob", "eve", "a", "b", "d", "it's", "", "a longer text of many", "é")
		case 'n':
			p.value = g.any(g.id(), g.id(), g.id(), "21", "22", "0", "-1", "40000")
		case 'l':
			p.value, p.null = g.any("0", "1", "2", "5"), false
		case 'i':
			p.value, p.null = idPlace, false
		}
		out = append(out, p)
	}
	return out
}

// binary are steps of prepared statements of the protocol's.
func (g *sessionMaker) binary() {
	slot := g.rnd.IntN(3)
	k := g.prepared[slot]
	if k == nil || g.one(4) {
		k = g.kind()
		g.prepared[slot] = k
		g.add(sessionStep{kind: prepareStep, slot: slot, sql: []string{k.sql}})
		if g.one(5) {
			g.ask()
		}
	}
	switch g.rnd.IntN(8) {
	case 0:
		g.add(sessionStep{kind: resetStatementStep, slot: slot})
	case 1:
		if i := strings.IndexByte(k.params, 't'); i >= 0 {
			g.add(sessionStep{kind: longDataStep, slot: slot, param: i, sql: []string{g.any("an", "b", "")}})
			if g.one(2) {
				g.add(sessionStep{kind: longDataStep, slot: slot, param: i, sql: []string{"n"}})
			}
			if g.one(4) {
				g.add(sessionStep{kind: resetStatementStep, slot: slot})
			}
		}
	}
	for range 1 + g.rnd.IntN(2) {
		g.add(sessionStep{kind: executeStep, slot: slot, params: g.values(k), total: k.total, gaps: k.gaps})
		g.ask()
	}
	if g.one(8) {
		g.add(sessionStep{kind: closeStep, slot: slot})
		g.prepared[slot] = nil
	}
}

// text are PREPARE, EXECUTE and DEALLOCATE.
func (g *sessionMaker) text() {
	name := g.any("p0", "p1")
	k := g.textual[name]
	if k == nil || g.one(4) {
		k = g.kind()
		g.textual[name] = k
		text := "'" + strings.ReplaceAll(k.sql, "'", "''") + "'"
		if g.one(4) {
			g.add(sessionStep{sql: []string{"SET @sql = " + text}})
			text = "@sql"
		}
		g.say("PREPARE " + name + " FROM " + text)
	}
	var using, sets []string
	for i, v := range g.values(k) {
		using = append(using, fmt.Sprintf("@v%d", i))
		sets = append(sets, fmt.Sprintf("@v%d = %s", i, v.literal()))
	}
	sql := "EXECUTE " + name
	if len(using) > 0 {
		// Always: MySQL converts values of another type than the first execution's as that one.
		g.add(sessionStep{sql: []string{"SET " + strings.Join(sets, ", ")}})
		if g.one(20) {
			using = using[1:]
		}
		if len(using) > 0 {
			sql += " USING " + strings.Join(using, ", ")
		}
	}
	g.say(sql).total = k.total
	if g.one(6) {
		g.say(g.any("DEALLOCATE PREPARE ", "DROP PREPARE ") + name)
		g.textual[name] = nil
	}
}

func (g *sessionMaker) failing() {
	g.say(g.any("SELECT nonsense FROM people WHERE id = 3", "SELEC 1", "INSERT INTO nowhere VALUES (1)", "UPDATE people SET nonsense = 1 WHERE id = 3", "INSERT INTO people (id) VALUES (1, 2)", "SELECT * FROM people WHERE", "SET nonsense = 1",
		"SELECT (SELECT id FROM people WHERE id < 100)", "CALL nothing()", "SELECT nofunc(1)", "DROP TABLE nowhere", "DROP TABLE IF EXISTS nowhere", "SELECT 1 UNION SELECT 1, 2", "SELECT CAST('x' AS SIGNED)", "SELECT 9223372036854775807 + 1",
		"USE nowhere", "SELECT 'a' + 1", "INSERT INTO people (id, city) VALUES (30, NULL)", "ROLLBACK TO nowhere", "EXECUTE nowhere", "DEALLOCATE PREPARE nowhere", "INSERT INTO people (id) VALUES (1)", "INSERT INTO people (id, city) VALUES (31, 'x'), (1, 'y')",
		"INSERT INTO people (id, city) VALUES (32, 'x'), (33, NULL), (34, 'z')", "INSERT INTO settings (v) VALUES ('u')", "INSERT INTO countries (code) VALUES ('a')", "UPDATE countries SET code = 'a' WHERE code = 'b'", "UPDATE countries SET n = NULL", "UPDATE settings SET v = 'u'",
		"DELETE FROM nowhere", "UPDATE people SET age = 99999", "UPDATE people SET age = age * 10000 WHERE age > 20", "INSERT INTO orders VALUES (1, 1, 1)", "UPDATE orders SET total = total - 1000000", "SELECT ST_GeomFromText('x')", "KILL QUERY 999999999",
		"INSERT INTO people () VALUES ()", "SELECT * FROM notes WHERE id = (SELECT id FROM notes)", "CREATE TABLE people (id INT)", "CREATE TABLE IF NOT EXISTS people (id INT PRIMARY KEY)", "SELECT id FROM people GROUP BY nonsense", "SAVEPOINT", "SELECT 1 INTO @a, @b",
		"SELECT JSON_EXTRACT('x', '$')", "DO 1/0", "SELECT 1/0", "DO nonsense", "SET @a = nonsense", "SELECT * FROM "+g.other+".orders", "UPDATE people p JOIN orders o ON o.user_id = p.id SET p.age = 'x' WHERE p.id = 1", "SIGNAL SQLSTATE '45000'", "SELECT @@nonsense", "LOAD DATA INFILE"))
}

func (g *sessionMaker) variables() {
	g.say(g.any("SET @a = "+g.id(), "SET @a = NULL, @e = 'ann'", "SET @b = @a + 1", "SELECT @a := @a + 1", "SELECT @a := age FROM people WHERE id = "+g.id(), "SELECT id, age INTO @a, @b FROM people WHERE id = "+g.id(), "SELECT email FROM people WHERE id = "+g.id()+" INTO @e",
		"SELECT COUNT(*) INTO @a FROM people", "SELECT id INTO @a FROM people WHERE age > 20 ORDER BY id", "SELECT @a, @b, @e", g.assigned("@a", "MAX(age)", "people"), g.assigned("@b", "n", "countries WHERE code = 'a'"), "SELECT MAX(id), MIN(age) INTO @a, @b FROM people",
		"SET @e = 'é', @b = 1.50", "SELECT @e, HEX(@e), CHARSET(@e), COLLATION(@e)", "SELECT @a := id, @b := age FROM people WHERE id = "+g.id(), "SELECT v INTO @e FROM settings WHERE k = 1", "SELECT @n := @n + 1, k FROM settings ORDER BY k", "SET @n := 0",
		"SET @a = LAST_INSERT_ID()", "SELECT LAST_INSERT_ID(55)", "SELECT LAST_INSERT_ID(id) FROM people WHERE id = "+g.id(), "SET @b = ROW_COUNT()", "DO LAST_INSERT_ID(66)", "DO @a := 7", "SELECT @x1 IS NULL, @a <=> NULL"))
}

func (g *sessionMaker) temporary() {
	name := "mine"
	if g.shadows {
		name = g.any("mine", "settings", "countries", "orders")
	}
	create := "CREATE TEMPORARY TABLE " + g.any("", "IF NOT EXISTS ") + name + " (k INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(12) UNIQUE, n TINYINT)"
	for range 1 + g.rnd.IntN(3) {
		g.say(g.any(create, create, "INSERT INTO mine (v, n) VALUES ("+g.any("'u'", "'v1'", "'v2'", "NULL")+", "+g.any("1", "300")+"), ('v3', 1)", "INSERT INTO mine (v) VALUES ('t"+g.id()+"')", "SELECT * FROM mine ORDER BY k", "UPDATE mine SET n = n + 1", "DELETE FROM mine WHERE k = 1",
			"SELECT m.k, s.k FROM mine m JOIN settings s ON s.v = m.v ORDER BY m.k, s.k", "SELECT m.k, c.code FROM mine m, countries c ORDER BY m.k, c.code", "DROP TEMPORARY TABLE IF EXISTS "+name, "DROP TEMPORARY TABLE "+name, "TRUNCATE TABLE mine", "INSERT INTO mine SELECT k + 100, v, n FROM settings WHERE v IS NOT NULL ORDER BY k",
			"INSERT INTO mine (k, n) SELECT id, 1 FROM people WHERE id < 5 ORDER BY id", "CREATE TEMPORARY TABLE mine2 AS SELECT id, age FROM people WHERE age > 21", "SELECT * FROM mine2 ORDER BY id", "DROP TEMPORARY TABLE mine2", "ALTER TABLE mine ADD COLUMN z INT DEFAULT 4", "SELECT COUNT(*) FROM mine m JOIN people p ON p.id = m.k"))
	}
}

// several are statements of one COM_QUERY.
func (g *sessionMaker) several() {
	part := func() string {
		if g.one(12) && !g.mariaDB { // where PREPARE and SET don't end the warnings of before
			return g.any("SHOW WARNINGS", "SELECT @@warning_count")
		}
		return g.any("SELECT id, age FROM people WHERE "+g.where()+" ORDER BY id", "UPDATE people SET age = age + 1 WHERE id = "+g.id(), "SET @a = 3", "INSERT INTO people (id, age) VALUES ("+g.id()+", 1)", "BEGIN", "COMMIT", "ROLLBACK", "SELECT ROW_COUNT()", "SELECT LAST_INSERT_ID()", "SELECT nonsense",
			"SELECT COUNT(*) FROM people", "SELECT 1/0", "SELECT FOUND_ROWS()", "UPDATE countries SET n = n + 1", "INSERT INTO settings (v) VALUES ("+g.any("'u'", "NULL")+")", "USE "+g.any(g.schema, g.other), "SAVEPOINT s1", "SET autocommit = "+g.any("0", "1"), "DO 1",
			"PREPARE p0 FROM 'SELECT 5'", "EXECUTE p0", "SELECT @a", "DELETE FROM orders WHERE user_id = "+g.id())
	}
	list := []string{part(), part()}
	for g.one(2) {
		list = append(list, part())
	}
	asks := slices.ContainsFunc([]string{"SELECT ROW_COUNT", "SELECT FOUND_ROWS", "SHOW WARNINGS", "SELECT @@warning"}, func(prefix string) bool { return strings.HasPrefix(list[0], prefix) })
	g.add(sessionStep{sql: list, total: true, asks: asks})
	g.ask()
}

func (g *sessionMaker) connection() {
	switch g.rnd.IntN(10) {
	case 0, 1:
		g.add(sessionStep{kind: pingStep})
	case 2:
		g.add(sessionStep{kind: initDBStep, sql: []string{g.any(g.schema, g.schema, g.other, "nowhere")}})
	case 3:
		g.say("USE " + g.other)
		if g.one(2) {
			g.say(g.any("SELECT * FROM people ORDER BY id", "INSERT INTO settings (v) VALUES ('o')", "SELECT * FROM settings ORDER BY k", "INSERT INTO people VALUES ("+g.id()+", 'o')", "SELECT * FROM orders"))
		}
		if !g.one(4) {
			g.say("USE " + g.schema)
		}
	case 4, 5, 6:
		g.say("USE " + g.schema)
	case 7, 8:
		g.add(sessionStep{kind: resetStep})
		clear(g.prepared)
		clear(g.textual)
	default:
		g.add(sessionStep{kind: changeUserStep, sql: []string{g.any(g.schema, g.schema, g.other)}})
		clear(g.prepared)
		clear(g.textual)
	}
	g.ask()
}

func (g *sessionMaker) shows() {
	g.say(g.any("SHOW TABLES", "SHOW COLUMNS FROM people", "DESCRIBE orders", "SHOW VARIABLES LIKE 'sql_mode'", "SHOW SESSION VARIABLES LIKE 'autocommit'", "SHOW VARIABLES LIKE 'time_zone'", "SHOW VARIABLES LIKE 'character_set_c%'", "SHOW TABLES LIKE 'pe%'", "SHOW FULL TABLES", "SHOW CREATE TABLE orders",
		"SHOW VARIABLES LIKE 'last_insert_id'", "SHOW VARIABLES LIKE 'sql_s%'", "SHOW COLUMNS FROM nowhere", "SHOW CREATE TABLE countries", "SHOW VARIABLES WHERE Variable_name IN ('identity', 'transaction_isolation', 'tx_isolation', 'transaction_read_only')"))
}

func (g *sessionMaker) nameLock() {
	lock := "'" + g.schema + g.any("1", "2") + "'"
	g.say(g.any("SELECT GET_LOCK("+lock+", 0)", "SELECT RELEASE_LOCK("+lock+")", "SELECT IS_FREE_LOCK("+lock+")", "SELECT RELEASE_ALL_LOCKS()", "DO RELEASE_LOCK("+lock+")", "SELECT IS_USED_LOCK("+lock+") IS NULL"))
}

func (g *sessionMaker) locking() {
	g.say(g.any("LOCK TABLES people WRITE, notes READ", "LOCK TABLES people READ, orders READ, countries READ", "LOCK TABLES settings WRITE", "LOCK TABLES people WRITE, orders WRITE, notes WRITE, countries WRITE, settings WRITE", "LOCK TABLES people AS p READ, orders AS o READ"))
	for range 1 + g.rnd.IntN(4) {
		if g.one(2) {
			g.read()
		} else {
			g.write()
		}
	}
	switch {
	case g.one(5):
	case leaves("UNLOCK TABLES leaves the warnings of the statement before"):
		g.add(sessionStep{sql: []string{"UNLOCK TABLES"}})
	default:
		g.say("UNLOCK TABLES")
	}
}

func (g *sessionMaker) definition() {
	sql := g.any("ALTER TABLE people ADD COLUMN extra INT DEFAULT 7", "ALTER TABLE people DROP COLUMN extra", "TRUNCATE TABLE orders", "CREATE TABLE made (id INT PRIMARY KEY, v VARCHAR(10))", "DROP TABLE IF EXISTS made", "INSERT INTO made VALUES (1, 'x'), (2, 'y'), (3, 'z')", "SELECT * FROM made ORDER BY id",
		"ALTER TABLE notes ADD COLUMN more VARCHAR(5) NOT NULL DEFAULT 'm'", "TRUNCATE TABLE notes", "ALTER TABLE countries ADD COLUMN z INT", "ALTER TABLE settings MODIFY n INT", "CREATE TABLE made LIKE orders", "RENAME TABLE made TO made2", "DROP TABLE made2", "ALTER TABLE people ADD KEY more (paid)", "TRUNCATE TABLE countries",
		"CREATE TABLE made AS SELECT id, age FROM people WHERE id < 4", "ALTER TABLE people MODIFY email VARCHAR(30)", "ALTER TABLE people ADD COLUMN extra INT DEFAULT 7", "CREATE OR REPLACE VIEW seen AS SELECT id, email FROM people WHERE age > 21", "SELECT * FROM seen ORDER BY id", "DROP VIEW IF EXISTS seen", "ALTER TABLE people RENAME COLUMN email TO mail", "ALTER TABLE people RENAME COLUMN mail TO email")
	s := g.say(sql)
	s.ddl = !strings.HasPrefix(sql, "SELECT") && !strings.HasPrefix(sql, "INSERT")
	s.gaps = true
}
