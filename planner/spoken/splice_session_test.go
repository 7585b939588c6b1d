package spoken

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestSpliceSession: values stand where the session was asked for, and columns
// keep the names that they had.
func TestSpliceSession(t *testing.T) {
	tell := func(what string) string {
		return map[string]string{"user": "a@b", "connection_id": "7", "warning_count": "2", "error_count": "1", "row_count": "-1", "wait_timeout": "60", "gtid_mode": "OFF"}[what]
	}
	cat := &catalog.Catalog{Schemas: map[string]*catalog.Schema{"shop": {Name: "shop"}}}
	const user, shown = "_utf8mb3 X'614062'", "IF(FALSE, RPAD(VERSION(), 288, ' '), _ascii X'614062')"
	number := func(n string) string { return "CAST('00000000000000000000" + n + "' AS UNSIGNED)" }
	for sql, want := range map[string]string{
		"SELECT id, USER() FROM users":                                                                     "SELECT id, " + shown + " AS `USER()` FROM users",
		"SELECT DISTINCT CONCAT( user ( ), '`') , 1 FROM t":                                                "SELECT DISTINCT CONCAT( " + shown + ", '`') AS `CONCAT( user ( ), '``')` , 1 FROM t",
		"SELECT current_user u, CURRENT_USER() AS `v` FROM t":                                              "SELECT " + shown + " u, " + shown + " AS `v` FROM t",
		"SELECT CURRENT_USER, id FROM t":                                                                   "SELECT " + shown + " AS `CURRENT_USER`, id FROM t",
		"SELECT x + CONNECTION_ID() * y FROM t":                                                            "SELECT x + " + number("7") + " * y AS `x + CONNECTION_ID() * y` FROM t",
		"SELECT CASE WHEN USER() = n THEN 1 END FROM t":                                                    "SELECT CASE WHEN " + shown + " = n THEN 1 END AS `CASE WHEN USER() = n THEN 1 END` FROM t",
		"SELECT USER() COLLATE utf8mb4_bin FROM t":                                                         "SELECT " + shown + " COLLATE utf8mb4_bin AS `USER() COLLATE utf8mb4_bin` FROM t",
		"SELECT a FROM t WHERE u = SESSION_USER()":                                                         "SELECT a FROM t WHERE u = " + user,
		"SELECT a FROM t WHERE u IN (SELECT v FROM w WHERE v = USER())":                                    "SELECT a FROM t WHERE u IN (SELECT v FROM w WHERE v = " + user + ")",
		"SELECT 1 + @@warning_count, @@session.error_count":                                                "SELECT 1 + IF(FALSE, NULL, " + number("2") + ") AS `1 + @@warning_count`, IF(FALSE, NULL, " + number("1") + ") AS `@@session.error_count`",
		"SELECT a FROM t UNION SELECT USER()":                                                              "SELECT a FROM t UNION SELECT " + shown + " AS `USER()`",
		"INSERT INTO log (who, id) VALUES (CURRENT_USER(), 5)":                                             "INSERT INTO log (who, id) VALUES (" + user + ", 5)",
		"INSERT INTO log SELECT USER(), id FROM t":                                                         "INSERT INTO log SELECT " + user + ", id FROM t",
		"UPDATE t SET who = USER() WHERE id = ?":                                                           "UPDATE t SET who = " + user + " WHERE id = ?",
		"SET @@session.wait_timeout = 2, @a = @@wait_timeout, @@wait_timeout = @@session.wait_timeout + 1": "SET @@session.wait_timeout = 2, @a = 60, @@wait_timeout = 60 + 1",
		"SET @me = USER()": "SET @me = " + user,
		"SELECT id FROM t WHERE ROW_COUNT() = 1 ORDER BY row_count()": "SELECT id FROM t WHERE CAST('-00000000000000000001' AS SIGNED) = 1 ORDER BY CAST('-00000000000000000001' AS SIGNED)",
		"SELECT id FROM t WHERE @@global.gtid_mode = 'ON'":            "SELECT id FROM t WHERE _utf8mb3 X'4f4646' = 'ON'",
		// Not these.
		"SELECT @@global.gtid_mode":                     "SELECT @@global.gtid_mode",
		"SELECT @@global.wait_timeout, 1":               "SELECT @@global.wait_timeout, 1",
		"SELECT USER()":                                 "SELECT USER()",
		"SELECT DATABASE(), user FROM t":                "SELECT DATABASE(), user FROM t",
		"SELECT 'USER()', `current_user` FROM t":        "SELECT 'USER()', `current_user` FROM t",
		"SELECT shop.user() FROM t":                     "SELECT shop.user() FROM t",
		"SELECT t.current_user FROM t":                  "SELECT t.current_user FROM t",
		"CREATE USER a":                                 "CREATE USER a",
		"SHOW GRANTS FOR CURRENT_USER()":                "SHOW GRANTS FOR CURRENT_USER()",
		"/* shunt: shard=s1 */ SELECT a, USER() FROM t": "/* shunt: shard=s1 */ SELECT a, USER() FROM t",
	} {
		got, err := Read(sql, text.Settings{Schema: "shop", Charset: "utf8mb4", Strict: true}, cat).ForSession(tell)
		if err != nil || got != want {
			t.Errorf("%s\n got %s, %v\nwant %s", sql, got, err, want)
		}
	}
	// A connection may have another session's schema.
	if got, err := Read("SELECT DATABASE(), 1", text.Settings{}, &catalog.Catalog{}).ForSession(tell); err != nil || got != "SELECT IF(FALSE, RPAD(VERSION(), 64, ' '), NULL) AS `DATABASE()`, 1" {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := Read("SELECT DATABASE(), 1", text.Settings{Schema: "gone"}, cat).ForSession(tell); err != nil || got != "SELECT IF(FALSE, RPAD(VERSION(), 64, ' '), _ascii X'676f6e65') AS `DATABASE()`, 1" {
		t.Errorf("got %s, %v", got, err)
	}
	for _, sql := range []string{
		"SELECT * FROM (SELECT USER()) t", "WITH x AS (SELECT CONCAT(USER(), '') FROM t) SELECT * FROM x", "(SELECT id, USER() FROM t) ORDER BY 1",
	} {
		if got, err := Read(sql, text.Settings{Schema: "shop"}, cat).ForSession(tell); err == nil {
			t.Errorf("%s: got %s", sql, got)
		}
	}
}
