package text

import (
	"strings"
	"testing"
)

// TestDigest: what differs between a statement's executions is left out, and nothing else.
func TestDigest(t *testing.T) {
	t.Parallel()
	utf8 := Settings{Charset: "utf8mb4"}
	for sql, want := range map[string]string{
		"SELECT email FROM people WHERE id = 505":                                                       "SELECT email FROM people WHERE id = ?",
		"SELECT email  FROM people\nWHERE id=?":                                                         "SELECT email FROM people WHERE id = ?",
		"SELECT a FROM t WHERE b = -5 AND c BETWEEN -1 AND +2":                                          "SELECT a FROM t WHERE b = ? AND c BETWEEN ? AND ?",
		"SELECT a - 5, -5, (-5) FROM t LIMIT 5":                                                         "SELECT a - ?, ?, (?) FROM t LIMIT ?",
		"SELECT 'a' 'b', _latin1'x', N'y', x'1f', 0b1, 1e5":                                             "SELECT ?, ?, ?, ?, ?, ?",
		"SELECT /* by 'me' */ 1 -- secret":                                                              "SELECT ?",
		"SELECT a FROM t WHERE a IN (1, 2, 3)":                                                          "SELECT a FROM t WHERE a IN (...)",
		"SELECT a FROM t WHERE a IN(?)":                                                                 "SELECT a FROM t WHERE a IN (...)",
		"SELECT a FROM t WHERE (a, b) IN ((1, 2), (3, 4))":                                              "SELECT a FROM t WHERE (a, b) IN (...)",
		"SELECT a FROM t WHERE a IN (1, f(2))":                                                          "SELECT a FROM t WHERE a IN (?, f(?))",
		"SELECT a FROM t WHERE a IN (SELECT 1)":                                                         "SELECT a FROM t WHERE a IN (SELECT ?)",
		"INSERT INTO t (a, b) VALUES (1, NULL), (2, 'x')":                                               "INSERT INTO t(a, b) VALUES (?, ?)",
		"INSERT INTO t(a,b) VALUES(?,NOW()),(?,NOW())":                                                  "INSERT INTO t(a, b) VALUES (?, NOW())",
		"INSERT INTO t VALUES (1), (DEFAULT), (2) ON DUPLICATE KEY UPDATE a = VALUES(a), b = VALUES(b)": "INSERT INTO t VALUES (?), (DEFAULT), (?) ON DUPLICATE KEY UPDATE a = VALUES (a), b = VALUES (b)",
		"SELECT a FROM t WHERE a IS NULL OR b IS NOT NULL OR c = NULL OR d IS TRUE":                     "SELECT a FROM t WHERE a IS NULL OR b IS NOT NULL OR c = ? OR d IS TRUE",
		"SET PASSWORD FOR u = 'secret'":                                                                 "SET PASSWORD FOR u = ?",
		"SELECT `a b`.`c`, t.* FROM t":                                                                  "SELECT `a b`.`c`, t.* FROM t",
		"SET @x = 5, @@session.sql_mode = 'ANSI'":                                                       "SET @x = ?, @@session.sql_mode = ?",
		"SELECT 'never ends":                                                                            "SELECT",
		"BEGIN":                                                                                         "BEGIN",
		"":                                                                                              "",
	} {
		if got := Digest(sql, utf8, 1<<10); got != want {
			t.Errorf("%s\n got %s\nwant %s", sql, got, want)
		}
	}
	if got := Digest(`SELECT "a" FROM t`, Settings{ANSIQuotes: true}, 100); got != `SELECT "a" FROM t` {
		t.Error(got)
	}
	if got := Digest("SELECT '\x81\\', secret'", Settings{Charset: "sjis"}, 100); got != "SELECT" {
		t.Error(got)
	}
	if got := Digest("SELECT a, b", utf8, 9); got != "SELECT a," {
		t.Error(got)
	}
}

// TestDigestOfLongText: of a text that isn't read to its end, where it is cut makes no difference.
func TestDigestOfLongText(t *testing.T) {
	t.Parallel()
	for before := range 9 {
		space := strings.Repeat(" ", before)
		for sql, want := range map[string]string{
			"INSERT INTO t VALUES " + space + strings.Repeat("(1, 'x', NOW()), ", 5000) + "(1, 'x', NOW())": "INSERT INTO t VALUES (?, ?, NOW())",
			"SELECT a FROM t WHERE a IN (" + space + strings.Repeat("123, ", 5000) + "1)":                   "SELECT a FROM t WHERE a IN (...)",
		} {
			if got := Digest(sql, Settings{Charset: "utf8mb4"}, 1<<10); got != want {
				t.Errorf("%d: got %s, want %s", before, got, want)
			}
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Digest("SELECT id, email, name FROM people WHERE id = 505 AND email LIKE 'someone%' ORDER BY name LIMIT 10", Settings{Charset: "utf8mb4"}, 1<<10)
	}
}
