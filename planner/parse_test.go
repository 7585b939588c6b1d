package planner

import (
	"testing"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/text"
)

// TestParsedTreeIsTheCallers: a parser that is used again leaves the tree alone that it
// has given, which another session is reading.
func TestParsedTreeIsTheCallers(t *testing.T) {
	var pool parserPool
	first, err := pool.parse("SELECT a FROM t WHERE b = 1 AND c IN (2, 3, 'x') OR d BETWEEN 4 AND 5", text.Settings{}, false)
	if err != nil {
		t.Fatal(err)
	}
	const own = -7
	everyExpression(first, func(e ast.ExprNode) { e.SetOriginTextPosition(own) })
	for _, sql := range []string{
		"SELECT 1", "SELECT a FROM t WHERE b = 1 AND c IN (2, 3, 'x') OR d BETWEEN 4 AND 5",
		"UPDATE t SET a = 1, b = 2 WHERE c = 3 ORDER BY d LIMIT 4", "INSERT INTO t (a, b) VALUES (1, 2), (3, DEFAULT)", "DELETE FROM t",
	} {
		if _, err := pool.parse(sql, text.Settings{}, false); err != nil {
			t.Fatal(err)
		}
	}
	everyExpression(first, func(e ast.ExprNode) {
		if at := e.OriginTextPosition(); at != own {
			t.Errorf("a later parse has set the offset of %T to %d", e, at)
		}
	})
}

func everyExpression(n ast.Node, visit func(ast.ExprNode)) {
	walk(n, func(n ast.Node) bool {
		if e, ok := n.(ast.ExprNode); ok {
			visit(e)
		}
		return true
	})
}
