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

// TestErrorsSection: where an error is described is told beside it: by EXPLAIN ROUTE, and by SHOW WARNINGS where no
// server gives such an error. The error itself has nothing of it.
func TestErrorsSection(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	c := s.conn()
	const refused = "UPDATE people SET id = id + 1"
	warnings := func(want ...string) {
		t.Helper()
		if rows, err := rowsOf(t.Context(), c, "SHOW WARNINGS"); err != nil || len(rows) != len(want) {
			t.Errorf("%q, %v, want %q", rows, err, want)
		} else {
			for i, w := range want {
				if !strings.Contains(rows[i], w) {
					t.Errorf("%q lacks %q", rows[i], w)
				}
			}
		}
	}
	_, err := c.ExecContext(t.Context(), refused)
	if err == nil || strings.Contains(err.Error(), "docs/") {
		t.Errorf("%v", err)
	}
	warnings("1235", "See docs/errors.md#1235 of Shunt")
	fails(t, c, "EXPLAIN ROUTE "+refused, 1235, "(docs/errors.md#1235)")
	fails(t, c, "EXPLAIN ROUTE SELEC", 1064, "(docs/errors.md#1064)")
	warnings("1064")
	if _, err := c.ExecContext(t.Context(), "SET sql_notes = 0"); err != nil {
		t.Fatal(err)
	}
	fails(t, c, refused, 1235, "")
	warnings("1235")
}
