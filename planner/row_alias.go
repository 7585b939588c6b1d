package planner

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// rowAlias is `AS new(a, b)` of INSERT ... VALUES, which the parser refuses.
type rowAlias struct {
	name    string
	columns []string // "" list: the table's or statement's own names
	listed  []*catalog.Column
}

// findRowAlias finds `AS new [(a, b)]` before ON DUPLICATE KEY UPDATE, which the
// parser doesn't know: it is set aside and the names resolved by Shunt.
func findRowAlias(st *text.Statement) (alias *rowAlias, span [2]uint32) {
	depth, on := 0, -1
	for i := range st.Tokens {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		case depth == 0 && st.Is(i, "on") && st.Is(i+1, "duplicate") && st.Is(i+2, "key"):
			on = i
		}
	}
	if on < 0 {
		on = len(st.Tokens)
	}
	i := on - 1
	var columns []string
	if st.Op(i, ")") {
		for i--; i >= 0 && !st.Op(i, "("); i-- {
			if name, ok := st.Identifier(i); ok {
				columns = append([]string{name}, columns...)
			} else if !st.Op(i, ",") {
				return nil, span
			}
		}
		i--
	}
	name, ok := st.Identifier(i)
	if !ok || !st.Is(i-1, "as") {
		return nil, span
	}
	if st.RowsAt >= 0 && i-1 != st.RowsAt || st.RowsAt < 0 && !st.Has("set") {
		return nil, span
	}
	if st.Has("select") {
		return nil, span
	}
	end := st.Tokens[on-1].End
	if on < len(st.Tokens) {
		end = st.Tokens[on].Start
	}
	return &rowAlias{name: name, columns: columns}, [2]uint32{st.Tokens[i-1].Start, end}
}

// column resolves new.c, or c alone where only the alias' own list has it.
func (r *rowAlias) column(n *ast.ColumnName, target *ref) *catalog.Column {
	if r == nil || n.Schema.O != "" {
		return nil
	}
	if n.Table.O == "" && len(r.columns) == 0 || n.Table.O != "" && !strings.EqualFold(n.Table.O, r.name) {
		return nil
	}
	if len(r.columns) == 0 {
		return target.column(n.Name.L)
	}
	for i, c := range r.columns {
		if strings.EqualFold(c, n.Name.O) && i < len(r.listed) {
			return r.listed[i]
		}
	}
	return nil
}
