package planner

import "github.com/pingcap/tidb/pkg/parser/ast"

// Gather says which rows to copy into a scratch schema, and the query that is
// run there.
type Gather struct{}

// gatherer is what is known of a query's gathering before its route is.
type gatherer struct{}

// planGather says how any SELECT is answered from copies of its tables; nil
// where it can't be.
func (a *analysis) planGather(ast.StmtNode, *queryRoute) *gatherer { return nil }

// bind finds the shards of each copy.
func (g *gatherer) bind(*binder) (*Bound, error) { return nil, nil }
