package planner

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// sql_select_limit ends the answer of a SELECT that has no LIMIT of its own, as
// LIMIT does. Shunt keeps it in the session: no shard has it set but for the client's
// own statement to that shard alone, or it would cut what is read to be merged or
// copied.
//
// Rule one limit: over several shards the statement is planned as if it had the
// LIMIT. Counter-example: SET sql_select_limit = 10; SELECT id FROM users, whose
// shards would answer 10 rows each; SELECT country, COUNT(*) FROM users GROUP BY
// country, whose shards' first 10 groups have not all rows of the groups.

// limitsSelect reports that the session limits what has no LIMIT.
func limitsSelect(st *text.Statement) bool { return st.Settings.LimitsSelect }

// limitedByHint finds /*+ SET_VAR(sql_select_limit = 10) */.
func limitedByHint(st *text.Statement) bool {
	return st.SetVar && strings.Contains(strings.ToLower(st.Src), "sql_select_limit")
}

// spoils is spoilsConcatenation of the client's own SELECT.
func (a *analysis) spoils(n ast.Node) string {
	what := a.spoilsRows(n)
	if what == "" && (limitsSelect(a.st) || limitedByHint(a.st)) {
		what = "sql_select_limit"
	}
	return what
}

// concatenated is unionAllOf for the client's own SELECT.
func (a *analysis) concatenated(n ast.Node) []operandBlock {
	if limitsSelect(a.st) || limitedByHint(a.st) {
		return nil
	}
	return a.unionAllOf(n)
}

// sessionLimit is limit for a SELECT without LIMIT.
func (b *mergeBuilder) sessionLimit(all bool) {
	st := b.a.st
	if !limitsSelect(st) {
		return
	}
	b.m.count = &text.Operand{Kind: text.Literal, Class: text.ClassNumber, Value: keys.Uint(st.Settings.SelectLimit)}
	b.m.merge.CountAll = b.sel.CalcFoundRows
	if all || b.m.merge.CountAll && b.m.merge.Unite {
		return
	}
	at := st.Tokens[b.c.end-1].End
	b.edits = append(b.edits, text.Edit{From: at, To: at, With: []text.Fragment{{Text: " LIMIT "}, {Limit: true}}})
}
