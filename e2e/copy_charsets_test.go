package e2e

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/e2e/generate"
)

// TestCollectInOtherCharsets: what Shunt reads to write it elsewhere (INSERT ... SELECT
// to other shards, UPDATE ... LIMIT, computed keys) stays what it is in a session whose
// answers come in another character set, as those of Connector/J (NULL) and of
// libmariadb (latin1) do.
func TestCollectInOtherCharsets(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"src: {shard_key: id}", "dst: {shard_key: k}"}})
		shunt, plain := &wireConn{w.shunt}, &wireConn{w.plain}
		w.exec("CREATE TABLE src (id INT PRIMARY KEY, s VARCHAR(40), g VARCHAR(20) CHARACTER SET greek, b VARBINARY(20), j JSON) CHARACTER SET utf8mb4",
			"CREATE TABLE dst (k VARCHAR(40) PRIMARY KEY, s VARCHAR(40), g VARCHAR(20) CHARACTER SET greek, b VARBINARY(20), j JSON, n INT) CHARACTER SET utf8mb4")
		for i := range 12 {
			w.exec(fmt.Sprintf(`INSERT INTO src VALUES (%d, 'é€☃🦆 ''%d''', 'αβγ', X'00FFE9', '{"k": "☃🦆"}')`, i, i))
		}
		for _, names := range []string{
			"SET NAMES latin1", "SET NAMES utf8mb3", "SET NAMES binary", "SET character_set_results = NULL", "SET character_set_results = latin1",
			"SET character_set_results = binary",
		} {
			for _, begin := range []string{"SET autocommit = 1", "BEGIN"} {
				w.exec("SET NAMES utf8mb4", "DELETE FROM dst", names, begin)
				for _, s := range []string{
					"INSERT INTO dst SELECT CONCAT(s, 'k'), s, g, b, j, id FROM src",
					"INSERT INTO dst (k, s, n) VALUES (CONCAT('x', 1 + 1), 'x', 100), (UPPER('y'), 'y', 101)",
					"UPDATE dst SET s = CONCAT(s, 'u') ORDER BY n LIMIT 3",
					"DELETE FROM dst ORDER BY n DESC LIMIT 1",
					"CREATE TEMPORARY TABLE kept AS SELECT k, s, j FROM dst WHERE n > 2",
				} {
					if got, want := shunt.do(s, nil, false), plain.do(s, nil, false); got.code != want.code {
						t.Errorf("%s, %s: %s\n shunt: %s\n plain: %s", names, begin, s, got, want)
					}
				}
				for range 2 { // as the session has it, and in UTF-8
					for _, q := range []string{"SELECT * FROM dst ORDER BY n", "SELECT * FROM kept ORDER BY s", "SELECT 'x', @@character_set_results"} {
						got, want := shunt.do(q, nil, false), plain.do(q, nil, false)
						if d := compareReplies(got, want, generate.Check{}, false); d.class != "" && d.class != "columns" {
							t.Errorf("%s, %s: %s: %s\n shunt: %s\n plain: %s", names, begin, q, d.detail, got, want)
						}
					}
					w.exec("COMMIT", "SET NAMES utf8mb4")
				}
				w.exec("DROP TEMPORARY TABLE kept")
			}
		}
		w.exec("SET NAMES latin1")
		if got := shunt.do("CREATE TEMPORARY TABLE named AS SELECT s AS `\xe9` FROM src WHERE id > 1", nil, false); !got.refused() {
			t.Errorf("a column whose name isn't ASCII: %s", got)
		}
	})
}
