package e2e

import (
	"testing"

	"github.com/shunt-sql/shunt/e2e/generate"
)

// TestMergeMixedCollations: what is sorted or grouped by over shards is of a collation that
// Shunt's own texts need not mix with.
func TestMergeMixedCollations(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"src: {shard_key: id}"}})
		w.exec("CREATE TABLE src (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, l VARCHAR(20) CHARACTER SET latin1, b VARBINARY(9))",
			"INSERT INTO src VALUES (1, 'a', 'b', 'c'), (2, 'Q', 'e', 'f'), (3, 'q ', 'é', 'q'), (4, NULL, 'q', 'Q '), (5, 'z', NULL, NULL)")
		shunt, plain := &wireConn{w.shunt}, &wireConn{w.plain}
		for _, names := range []string{"utf8mb4", "utf8mb4 COLLATE utf8mb4_unicode_ci", "utf8mb4 COLLATE utf8mb4_bin", "latin1"} {
			w.exec("SET NAMES " + names)
			for _, x := range []string{"NULLIF('q', s)", "NULLIF('q', l)", "IF(id > 2, 'q', s)", "IFNULL(s, 'q ')", "COALESCE(l, s, 'x')", "NULLIF(s, 'a')", "NULLIF(b, 'x')", "CASE id WHEN 1 THEN 'q' ELSE NULLIF('Q ', s) END"} {
				for _, query := range []string{
					"SELECT " + x + " x FROM src ORDER BY x, id",
					"SELECT DISTINCT " + x + " x FROM src ORDER BY 1",
					"SELECT " + x + " x, COUNT(*) FROM src GROUP BY x ORDER BY x",
					"SELECT MIN(" + x + "), MAX(" + x + ") FROM src",
					"SELECT COUNT(DISTINCT " + x + ") FROM src",
				} {
					got, want := shunt.do(query, nil, false), plain.do(query, nil, false)
					// Which of equal texts a group shows isn't determined.
					if d := compareReplies(got, want, generate.Check{}, false); got.code != want.code || len(got.rows) != len(want.rows) || d.class == "error" {
						t.Errorf("SET NAMES %s; %s: %s\n shunt: %s\n plain: %s", names, query, d.detail, got, want)
					}
				}
			}
		}
	})
}
