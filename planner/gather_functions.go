package planner

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/spoken"
)

// isBuiltinCall is spoken.IsBuiltin for names as the parser has them.
func isBuiltinCall(name string) bool {
	switch name {
	case ast.DateLiteral, ast.TimeLiteral, ast.TimestampLiteral, // DATE'2020-01-01'
		ast.CharFunc, ast.InsertFunc, ast.JSONMemberOf: // the parser's names for CHAR(), INSERT(), MEMBER OF
		return true
	}
	return spoken.IsBuiltin(name)
}
