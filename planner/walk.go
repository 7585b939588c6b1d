package planner

import (
	"iter"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// walk calls visit for n, unless it is nil, and for what is below it; not for what is
// below a node for which visit returns false.
func walk(n ast.Node, visit func(ast.Node) (deeper bool)) {
	if !isNil(n) {
		n.Accept(visitor(visit))
	}
}

// finds reports whether n, or a node below it, is what is looked for.
func finds(n ast.Node, is func(ast.Node) bool) bool {
	found := false
	walk(n, func(n ast.Node) bool {
		found = found || is(n)
		return !found
	})
	return found
}

// visitor is walk's ast.Visitor, which replaces no node.
type visitor func(ast.Node) (deeper bool)

func (v visitor) Enter(n ast.Node) (ast.Node, bool) { return n, !v(n) }
func (v visitor) Leave(n ast.Node) (ast.Node, bool) { return n, true }

// sources are the tables and derived tables that a FROM clause joins, in the text's order.
func sources(from ast.ResultSetNode) iter.Seq[ast.ResultSetNode] {
	return func(yield func(ast.ResultSetNode) bool) {
		for stack := []ast.ResultSetNode{from}; len(stack) > 0; {
			n := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			switch n := n.(type) {
			case nil:
			case *ast.Join:
				if n != nil {
					stack = append(stack, n.Right, n.Left)
				}
			case *ast.TableSource:
				stack = append(stack, n.Source)
			default:
				if !yield(n) {
					return
				}
			}
		}
	}
}

// isNil sees through typed nil pointers of the AST's optional parts.
func isNil(n ast.Node) bool {
	switch n := n.(type) {
	case nil:
		return true
	case *ast.FieldList:
		return n == nil
	case *ast.GroupByClause:
		return n == nil
	case *ast.HavingClause:
		return n == nil
	case *ast.OrderByClause:
		return n == nil
	case *ast.Limit:
		return n == nil
	}
	return false
}
