package proxy

import (
	"strings"
	"testing"
)

// TestOwnStatementsRefused: what is wrong with a statement of Shunt's own, or with its
// hint, is told by Shunt: to a server all of it is wrong.
func TestOwnStatementsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	c := s.conn()
	for statement, told := range map[string]string{
		"CREATE VIRTUAL INDEX i ON people (city) PARTITIONS 4096": "PARTITIONS",
		"CREATE VIRTUAL INDEX i ON people":                        "the statement ends too early",
		"ALTER VIRTUAL INDEX i ON people PARTITION 4":             "near 'PARTITION 4'",
		"EXPLAIN ROUTE /* shunt: shrad=s0 */ SELECT 1":            "is not understood",
		"/* shunt: shard=s0 */ SHOW SHARDS":                       "a statement that Shunt answers by itself",
	} {
		fails(t, c, statement, 1064, told)
	}
	if rows, err := rowsOf(t.Context(), c, "EXPLAIN ROUTE /* shunt: shard=s1 */ SELECT COUNT(*) FROM people"); err != nil || len(rows) != 1 || !strings.Contains(rows[0], "s1") || !strings.Contains(rows[0], "hint") {
		t.Errorf("%q, %v", rows, err)
	}
	fails(t, c, "/* shunt: shard=nowhere */ SELECT 1", 1105, "nowhere")
}
