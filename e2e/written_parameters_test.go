package e2e

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/e2e/generate"
)

// TestWrittenParameters: where a prepared statement's parameters become part of a
// text they mean what they meant: by the session's collation, and by the client's
// character set where that is not the connection's.
func TestWrittenParameters(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"src: {shard_key: id}", "dst: {shard_key: k}"}})
		w.exec("CREATE TABLE src (id INT PRIMARY KEY, v VARCHAR(20)) CHARACTER SET utf8mb4", "CREATE TABLE dst (k INT PRIMARY KEY, v VARCHAR(20)) CHARACTER SET utf8mb4",
			"INSERT INTO src VALUES (1, 'a'), (2, 'b'), (3, 'é')")
		n := 100
		for _, settings := range []string{
			"SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci", "SET character_set_client = latin1",
			"SET NAMES utf8mb4", "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'",
		} {
			w.exec(settings)
			for _, param := range []string{"A", "é", `it's \ "q" %`, "nul\x00", "'; --"} {
				n += 10
				for _, sql := range []string{
					fmt.Sprintf("INSERT INTO dst (k, v) SELECT id + %d, ? FROM src WHERE ? = 'a' OR id = 3", n),
					fmt.Sprintf("INSERT INTO dst (k, v) SELECT id + %d, v FROM src WHERE ? = UPPER(LOWER(?)) AND id = 2", n),
					fmt.Sprintf("INSERT INTO dst (k, v) VALUES (%d + 4, ?), (%d + 5, ?)", n, n),
				} {
					params := []any{param, param}
					got, want := (&wireConn{w.shunt}).do(sql, params, true), (&wireConn{w.plain}).do(sql, params, true)
					if d := compareReplies(got, want, generate.Check{}, true); d.class != "" {
						t.Errorf("%s: %s %q: %s\n shunt: %s\n plain: %s", settings, sql, param, d.detail, got, want)
					}
				}
			}
		}
		w.exec("SET NAMES utf8mb4", "SET sql_mode = ''")
		w.same(true, "SELECT k, v, HEX(v) FROM dst ORDER BY k")

		// Bytes that are no text, as drivers send a UUID.
		w.exec("CREATE TABLE ids (id INT AUTO_INCREMENT PRIMARY KEY, b BINARY(4) UNIQUE, n INT)", "INSERT INTO ids (b) VALUES (x'fff4de27'), (x'fff4de28'), (x'fff4de29')")
		for _, sql := range []string{
			"INSERT INTO ids (b, n) VALUES (?, 1) ON DUPLICATE KEY UPDATE n = 2", "INSERT IGNORE INTO ids (b) VALUES (?)", "UPDATE ids SET n = n + 1 WHERE b = ? LIMIT 1",
			"INSERT INTO ids (b, n) SELECT REVERSE(b), n FROM ids WHERE b = ? LIMIT 1", "REPLACE INTO ids (b, n) VALUES (?, 7)", "DELETE FROM ids WHERE b > ? LIMIT 5",
		} {
			params := []any{"\xff\xf4\xde\x27"}
			got, want := (&wireConn{w.shunt}).do(sql, params, true), (&wireConn{w.plain}).do(sql, params, true)
			if d := compareReplies(got, want, generate.Check{}, true); d.class != "" {
				t.Errorf("%s: %s\n shunt: %s\n plain: %s", sql, d.detail, got, want)
			}
		}
		w.same(true, "SELECT HEX(b), n FROM ids ORDER BY b")
	})
}
