package planner

import "github.com/pingcap/tidb/pkg/parser/ast"

// Merge says how the answers of several shards to a derived statement become
// the answer to the client's.
type Merge struct{}

// merger is what is known of a SELECT's merge before its route is.
type merger struct{}

// planMerge says how a SELECT whose rows lie beside its anchor is merged; nil
// where it can't be merged exactly.
func (a *analysis) planMerge(ast.StmtNode, *scope) *merger { return nil }

// bind derives the shards' statements. ok is false where the values at hand
// (a LIMIT that is a parameter, say) can't be merged.
func (m *merger) bind(*binder, *routed) (out *Bound, ok bool) { return nil, false }
