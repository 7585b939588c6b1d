package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/generate"
)

// copiedExpressions are of all types that an expression has, of src's columns: b BIGINT,
// d DECIMAL(10,3), f DOUBLE, s VARCHAR, dt DATETIME(6), day DATE, tm TIME(3), y YEAR, bits BIT(8), e ENUM.
var copiedExpressions = []string{
	"0x3132", "x'0A'", "b'101'", "'12'", "12", "1.50", "1e0", "TRUE", "NULL", "DATE'2024-02-29'", "TIME'10:11:12.50'", "TIMESTAMP'2024-02-29 10:11:12.5'",
	"-0x31", "0x31 + 0", "CONCAT(0x31)", "IF(id, 0x3132, 0x33)", "COALESCE(b'110001', 1)", "x FROM (SELECT id, 0x3132 AS x FROM src) AS u",
	"LEAST(d, 1)", "GREATEST(d, b)", "COALESCE(d, 1)", "IF(id, d, 1)", "IFNULL(NULL, d)", "CASE WHEN id THEN d ELSE b END", "NULLIF(d, 7)",
	"b / 3", "d / 3", "d * d", "-d", "ABS(d)", "ROUND(d, 1)", "TRUNCATE(d, 1)", "b DIV 3", "b % 4", "d % 2", "FLOOR(d)", "CEILING(f)", "d + 0", "d + f", "f / 3", "f * 1e10", "-f", "ROUND(f, 1)", "POW(b, 2)", "RADIANS(b)", "MOD(b, 3.0)",
	"AVG(b) FROM src", "AVG(d) FROM src", "SUM(d) FROM src", "SUM(b) FROM src", "SUM(f) FROM src", "MAX(d) FROM src", "MIN(dt) FROM src", "COUNT(*) FROM src", "STDDEV(b) FROM src", "GROUP_CONCAT(b ORDER BY b) FROM src", "BIT_OR(b) FROM src",
	"MAX(e) FROM src", "MAX(y) FROM src", "MIN(bits) FROM src", "MAX(tm) FROM src",
	"UNIX_TIMESTAMP(dt)", "UNIX_TIMESTAMP(day)", "DATE_ADD(dt, INTERVAL 1 DAY)", "dt + INTERVAL 1 SECOND", "day + INTERVAL 1 DAY", "DATE(dt)", "TIME(dt)", "dt + 0", "TIMEDIFF(tm, '01:00:00')", "SEC_TO_TIME(b)", "MAKETIME(1, 2, 3.5)", "FROM_UNIXTIME(86400.5)", "LAST_DAY(day)", "STR_TO_DATE('2024-02-29', '%Y-%m-%d')", "ADDTIME(tm, '0:0:1')", "TIMESTAMP(day)", "CAST(dt AS TIME)", "CAST(s AS DATE)", "GREATEST(day, dt)", "COALESCE(dt, day)", "IF(id, day, tm)", "TIME_TO_SEC(tm)", "YEAR(day)",
	"dt", "day", "tm", "y", "bits", "e", "s", "d", "f", "b",
	"y + 0", "bits + 0", "e + 0", "COALESCE(y)", "IFNULL(e, 'q')", "COALESCE(bits, 1)", "bits | 1", "~b", "b << 60", "CAST(b AS UNSIGNED)", "CAST(d AS SIGNED)", "CAST(s AS DECIMAL(12,4))", "CAST(b AS CHAR)", "CAST(b AS BINARY)", "CAST(f AS DECIMAL(30,10))", "CAST(d AS DOUBLE)",
	"CONCAT(s, b)", "UPPER(s)", "HEX(s)", "CONCAT(f)", "MD5(s)", "JSON_EXTRACT('[1.5, \"a\"]', '$[0]')", "JSON_OBJECT('a', d)", "s = 'x'", "NOT b", "id IN (1, 2)",
	"(SELECT MAX(d) FROM src)", "(SELECT 0x3132)",
}

// copiedInto are the columns that they go to.
var copiedInto = []string{
	"TINYINT", "SMALLINT UNSIGNED", "MEDIUMINT", "INT", "BIGINT UNSIGNED", "DECIMAL(30,12)", "DECIMAL(6,1)", "FLOAT", "DOUBLE", "YEAR", "BIT(64)", "VARCHAR(60)", "VARBINARY(60)", "TEXT",
	"DATE", "DATETIME(6)", "TIMESTAMP NULL", "TIME(6)", "ENUM('1','12','x')", "SET('1','12','x')", "JSON",
}

const strictMode = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE"

// copiedTwins have the tables, with and without Shunt.
func copiedTwins(t *testing.T, f *flavour) *twins {
	w := newTwins(t, f, setup{tables: []string{"src: {shard_key: id}", "dst: {shard_key: k}"}})
	var dst []string
	for i, c := range copiedInto {
		dst = append(dst, fmt.Sprintf("d%d %s", i, c))
	}
	w.exec("SET sql_mode = ''",
		"CREATE TABLE src (id INT PRIMARY KEY, b BIGINT, d DECIMAL(10,3), f DOUBLE, s VARCHAR(20), dt DATETIME(6), day DATE, tm TIME(3), y YEAR, bits BIT(8), e ENUM('z','12','x')) CHARACTER SET utf8mb4",
		"CREATE TABLE dst (k INT PRIMARY KEY, "+strings.Join(dst, ", ")+") CHARACTER SET utf8mb4",
		"INSERT INTO src VALUES (1, 11, 1.500, 0.1, '12', '2024-02-29 10:11:12.500000', '2024-02-29', '10:11:12.500', 2024, 65, 'x'), (2, 3, 7.000, 2.5, '7', '2024-02-28 10:00:00', '2024-02-28', '00:00:00.000', 1999, 50, 'z'), (4, 7, -20.125, 1e22, '2024-03-01', '1999-12-31 23:59:59.999999', '1999-12-31', '-00:00:01', 1999, 49, '12')")
	return w
}

// sameStored runs a statement on both and compares what they have stored. refused: Shunt has.
func (w *twins) sameStored(statement, query string) (refused bool) {
	w.t.Helper()
	shunt, plain := &wireConn{w.shunt}, &wireConn{w.plain}
	got := shunt.do(statement, nil, false)
	if got.refused() {
		return true
	}
	want := plain.do(statement, nil, false)
	stored, wanted := shunt.do(query, nil, false), plain.do(query, nil, false)
	// A literal's text that is no number is told otherwise than an expression's.
	noNumber := got.code == 1265 && want.code == 1366
	if d := compareReplies(stored, wanted, generate.Check{}, false); got.code != want.code && !noNumber && !w.otherRow(statement, got, want) || d.class == "rows" {
		w.t.Errorf("%s: %s\n shunt: %s %s\n plain: %s %s", statement, d.detail, got, stored, want, wanted)
	}
	return false
}

// otherRow: two shards may meet another row that fails first than one server does, and that row's error is the server's, too.
func (w *twins) otherRow(statement string, got, want *reply) bool {
	if got.code == 0 || want.code == 0 || !strings.HasSuffix(statement, " FROM src") && !strings.HasSuffix(statement, " AS u") {
		return false
	}
	plain := &wireConn{w.plain}
	for id := range 5 {
		plain.do("BEGIN", nil, false)
		o := plain.do(fmt.Sprintf("%s WHERE id = %d", statement, id), nil, false)
		plain.do("ROLLBACK", nil, false)
		if o.code == got.code {
			return true
		}
	}
	return false
}

// copiedQuery is the query of an expression, with k+1, .. as keys.
func copiedQuery(k int, e string) string {
	from, aggregate := strings.Contains(e, " FROM ") && !strings.HasPrefix(e, "("), strings.HasSuffix(e, ") FROM src")
	key := fmt.Sprintf("id + %d", k)
	if aggregate {
		key = fmt.Sprint(k + 1)
	}
	if !from {
		e += " FROM src"
	}
	return "SELECT " + key + ", " + e
}

// TestInsertSelectExpressions: what rows that INSERT ... SELECT takes to other shards store of an
// expression is what one server stores.
func TestInsertSelectExpressions(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := copiedTwins(t, f)
		refused, all, k, turn := map[string]int{}, 0, 0, suite.Turn(t, 3)
		for _, mode := range []string{strictMode, ""} {
			w.exec("SET sql_mode = '" + mode + "'")
			for i, e := range copiedExpressions {
				for j := range copiedInto {
					if mode == "" && (i+j)%3 != 0 || !turn() {
						continue // by turns
					}
					k += 10
					all++
					insert := fmt.Sprintf("INSERT INTO dst (k, d%d) %s", j, copiedQuery(k, e))
					if w.sameStored(insert, fmt.Sprintf("SELECT k, d%d, HEX(d%[1]d) FROM dst WHERE k BETWEEN %d AND %d ORDER BY k", j, k, k+9)) {
						refused[e]++
					}
				}
			}
		}
		delete(refused, "JSON_OBJECT('a', d)") // of a DECIMAL in a JSON
		if len(refused) > 0 {
			t.Errorf("of %d there are refused: %v", all, refused)
		}
	})
}

// TestValuesStoredAsByServer: so by other statements that take values from shard to shard.
func TestValuesStoredAsByServer(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := copiedTwins(t, f)
		hard := []string{
			"0x3132", "b'101'", "LEAST(d, 1)", "b / 3", "UNIX_TIMESTAMP(dt)", "COALESCE(dt, day)", "dt", "tm", "e", "bits | 1",
			"(SELECT AVG(b) FROM src)", "x FROM (SELECT id, 0x3132 AS x FROM src) AS u", "MAX(tm) FROM src", "AVG(d) FROM src",
		}
		k, refused, all, turn := 0, 0, 0, suite.Turn(t, 3)
		for _, mode := range []string{strictMode, ""} {
			w.exec("SET sql_mode = '" + mode + "'")
			for i, e := range hard {
				for j, typ := range copiedInto {
					if (i+j)%2 != 0 && mode == "" || !turn() {
						continue // by turns
					}
					k += 10
					stored := fmt.Sprintf("SELECT k, d%d, HEX(d%[1]d) FROM dst WHERE k BETWEEN %d AND %d ORDER BY k", j, k, k+9)
					head, query := fmt.Sprintf(" INTO dst (k, d%d) ", j), copiedQuery(k, e)
					one := strings.Replace(query, "SELECT id + "+fmt.Sprint(k)+", ", "SELECT ", 1)
					one = strings.Replace(one, fmt.Sprintf("SELECT %d, ", k+1), "SELECT ", 1)
					statements := []string{
						"INSERT IGNORE" + head + query,
						"REPLACE" + head + query,
						"INSERT" + head + query + fmt.Sprintf(" ON DUPLICATE KEY UPDATE d%d = VALUES(d%[1]d)", j),
						fmt.Sprintf("REPLACE INTO dst (k, d%d) VALUES (%d, (%s LIMIT 1))", j, k+1, strings.Replace(one, " FROM src", " FROM src WHERE id = 1", 1)),
					}
					for i, s := range statements {
						all++
						// A value that is warned of is refused, and what asks for the clock.
						if w.sameStored(s, stored) && (i < len(statements)-1 || mode != "" && !strings.HasPrefix(e, "UNIX_")) {
							refused++
							t.Log(s)
						}
					}
					if j%4 == 0 {
						w.exec("DROP TABLE IF EXISTS made")
						create := fmt.Sprintf("CREATE TABLE made (k INT PRIMARY KEY, v %s) CHARACTER SET utf8mb4 ", typ) + strings.Replace(strings.Replace(query, ", ", " AS k, ", 1), " FROM src", " AS v FROM src", 1)
						if strings.HasPrefix(e, "x FROM") || strings.HasPrefix(e, "(") {
							continue
						}
						w.sameStored(create, "SELECT k, v, HEX(v) FROM made ORDER BY k")
					}
				}
			}
		}
		if refused > 0 {
			t.Errorf("%d of %d are refused", refused, all)
		}
	})
}

// TestShardKeyStoredAsByServer: the shard key's value that a shard was asked for.
func TestShardKeyStoredAsByServer(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"texts: {shard_key: k}", "numbers: {shard_key: k}", "bytes: {shard_key: k}"}})
		w.exec("CREATE TABLE texts (k VARCHAR(60) PRIMARY KEY)", "CREATE TABLE numbers (k BIGINT PRIMARY KEY)", "CREATE TABLE bytes (k VARBINARY(60) PRIMARY KEY)")
		for _, e := range []string{"LEAST(1.50, 1)", "1 / 3", "IF(1, 0x31, 2)", "COALESCE(0x3132)", "-0x3132", "TIME_TO_SEC('00:00:01')", "UNIX_TIMESTAMP('2024-02-29 10:00:00')", "GREATEST(DATE'2024-02-29', TIMESTAMP'2024-02-28 10:00:00')", "b'1' | 2", "1.5 * 2"} {
			for _, table := range []string{"texts", "numbers", "bytes"} {
				w.sameStored(fmt.Sprintf("INSERT INTO %s VALUES (%s)", table, e), fmt.Sprintf("SELECT k, HEX(k) FROM %s ORDER BY k", table))
				w.exec("DELETE FROM " + table)
			}
		}
	})
}
