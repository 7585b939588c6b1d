package spoken

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestRepeatable: what may do something, or may call what Shunt doesn't see into, isn't executed in vain.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"SELECT a FROM t WHERE b = 'x' AND (c = 1 OR d IN (2, 3))":                            true,
		"SELECT COUNT(*), MAX(a), CAST(b AS CHAR(3)), COALESCE(c, NOW()) FROM t":              true,
		"SELECT t.a FROM t JOIN u ON (t.b = u.b) WHERE EXISTS (SELECT 1 FROM v) GROUP BY t.a": true,
		"WITH c AS (SELECT 1) SELECT * FROM c UNION ALL (SELECT 2)":                           true,
		"SELECT `a` FROM `t` WHERE `b` IN ('x')":                                              true,
		"SELECT a INTO OUTFILE '/tmp/x' FROM t":                                               false,
		"SELECT f(a) FROM t":                                                                  false,
		"SELECT s.left(a) FROM t":                                                             false,
		"SELECT `left`(a) FROM t":                                                             false,
		"SELECT @x FROM t":                                                                    false,
		"SELECT @@sql_mode FROM t":                                                            false,
		"SELECT SLEEP(1) FROM t":                                                              false,
		"SELECT BENCHMARK(1000, SHA1('x')) FROM t":                                            false,
		"SELECT NEXTVAL(s) FROM t":                                                            false,
		"SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1":                                         false,
		"SELECT a FROM t WHERE b = LAST_INSERT_ID(7)":                                         false,
		"SELECT GET_LOCK('l', 1) FROM t":                                                      false,
		"/* shunt: shard=s0 */ SELECT a FROM t":                                               false,
		"SELECT /*!80000 a */ FROM t /*!99999 WHERE f(1) */":                                  false,
	} {
		st, err := Read(sql, text.Settings{}, &catalog.Catalog{}).Statement()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if got := Repeatable(st, &plan.Rows{}); got != want {
			t.Errorf("%s: %t", sql, got)
		}
	}
	st, _ := Read("SELECT a FROM v", text.Settings{}, &catalog.Catalog{}).Statement()
	if Repeatable(st, &plan.Rows{Tables: []*catalog.Table{{IsView: true}}}) {
		t.Error("a view may call anything")
	}
}
