package planner

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// rowAlias is `AS new(a, b)` of INSERT ... VALUES, which the parser refuses.
type rowAlias struct {
	name    string
	columns []string // "" list: the table's or statement's own names
	listed  []*catalog.Column
}

// rowAlias finds `AS new [(a, b)]` before ON DUPLICATE KEY UPDATE, which the
// parser doesn't know: it is set aside and the names resolved by Shunt.
func (st *statement) rowAlias() (alias *rowAlias, span [2]uint32) {
	depth, on := 0, -1
	for i := range st.toks {
		switch {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			depth--
		case depth == 0 && st.is(i, "on") && st.is(i+1, "duplicate") && st.is(i+2, "key"):
			on = i
		}
	}
	if on < 0 {
		on = len(st.toks)
	}
	i := on - 1
	var columns []string
	if st.op(i, ")") {
		for i--; i >= 0 && !st.op(i, "("); i-- {
			if name, ok := st.identifier(i); ok {
				columns = append([]string{name}, columns...)
			} else if !st.op(i, ",") {
				return nil, span
			}
		}
		i--
	}
	name, ok := st.identifier(i)
	if !ok || !st.is(i-1, "as") {
		return nil, span
	}
	if st.rowsAt >= 0 && i-1 != st.rowsAt || st.rowsAt < 0 && !st.has("set") {
		return nil, span
	}
	if st.has("select") {
		return nil, span
	}
	end := st.toks[on-1].end
	if on < len(st.toks) {
		end = st.toks[on].start
	}
	return &rowAlias{name: name, columns: columns}, [2]uint32{st.toks[i-1].start, end}
}

// column resolves new.c, or c alone where only the alias' own list has it.
func (r *rowAlias) column(n *ast.ColumnName, t *catalog.Table) *catalog.Column {
	if r == nil || n.Schema.O != "" {
		return nil
	}
	if n.Table.O == "" && len(r.columns) == 0 || n.Table.O != "" && !strings.EqualFold(n.Table.O, r.name) {
		return nil
	}
	if len(r.columns) == 0 {
		return t.Column(n.Name.L)
	}
	for i, c := range r.columns {
		if strings.EqualFold(c, n.Name.O) && i < len(r.listed) {
			return r.listed[i]
		}
	}
	return nil
}
