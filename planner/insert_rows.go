package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
)

type insertRow struct {
	span   rowSpan
	values []operand // of needed
	// auto is the place of the AUTO_INCREMENT column's value.
	auto autoSpan
	// namesAuto: an expression for another column names that column.
	namesAuto bool
}

// read takes the values of the needed columns from the rows' text.
func (i *insertAction) read(a *analysis, n *ast.InsertStmt, cols []*catalog.Column, alias *rowAlias) *Error {
	t := i.table
	need := func(c *catalog.Column) {
		if c != nil && !hasColumn(i.needed, c) {
			i.needed = append(i.needed, c)
		}
	}
	need(t.ShardKey)
	for _, c := range t.Columns {
		if c.AutoIncrement || c.DefaultExpr && t.Placement == catalog.Reference {
			need(c)
		}
	}
	for _, ix := range t.Indexes {
		for _, c := range ix.Columns {
			need(c)
		}
	}
	if i.update != nil {
		for _, s := range i.update.sets {
			need(s.inserted)
		}
	}
	if !a.st.settings.Strict && !i.ignore && t.Shards.Len() > 1 {
		for _, c := range cols {
			if !c.Nullable {
				need(c)
			}
		}
	}
	place := make([]int, len(i.needed))
	for k, c := range i.needed {
		place[k] = -1
		for j, x := range cols {
			if x == c {
				place[k] = j
			}
		}
	}
	auto := -1
	if c := counts(t); c != nil {
		auto = slices.Index(cols, c)
	}
	pick := func(n int, get func(int) operand) []operand {
		out := make([]operand, len(place))
		for k, j := range place {
			out[k] = operand{kind: defaulted}
			if j >= 0 && n > 0 {
				out[k] = get(j)
			}
		}
		return out
	}
	i.keyDefault = i.askable()
	if n.Setlist {
		if len(a.st.rows) > 0 || len(n.Lists) != 1 {
			return refuseInsertForm()
		}
		l := n.Lists[0]
		fields := a.st.setFields()
		if len(fields) != len(l) {
			return refuseInsertForm()
		}
		// The whole statement is the row.
		row := insertRow{span: rowSpan{end: uint32(len(a.st.src))}, values: pick(len(l), func(j int) operand { return a.st.evalExpr(l[j]) })}
		i.tail = row.span.end
		if len(fields) > 0 {
			at := fields[len(fields)-1][1]
			row.auto = autoSpan{start: at, end: at}
			if c := counts(t); c != nil {
				row.auto.before = ", " + catalog.QuoteName(c.Name) + " = "
				row.namesAuto = a.st.names(a.st.toks, fields, auto, c)
			}
		}
		if auto >= 0 {
			row.auto = autoSpan{start: fields[auto][0], end: fields[auto][1]}
		}
		i.rows = []insertRow{row}
		for _, c := range a.st.comments {
			i.fused = i.fused || c.kind >= execOpen && c.kind != skippedByAll
		}
		for k, j := range place {
			if j >= 0 {
				i.ask(i.needed[k], row.values[k], a.st.between(fields[j][0], fields[j][1]))
			}
		}
		if i.keyDefault != "" && !slices.Contains(cols, t.ShardKey) && len(fields) > 0 {
			at := fields[len(fields)-1][1]
			i.unasked = i.unasked || a.st.names(a.st.toks, fields, -1, t.ShardKey)
			i.askAt(constantPlace{start: at, end: at, before: ", " + catalog.QuoteName(t.ShardKey.Name) + " =", query: i.keyDefault})
		}
		i.planIncrement(a, auto >= 0, true, nil, alias)
		return nil
	}
	if len(a.st.rows) == 0 || !a.st.keptRows(len(n.Lists)) {
		return refuseInsertForm()
	}
	first := a.st.rows[0].start
	last := a.st.rows[len(a.st.rows)-1].end
	i.head, i.tail = first, last
	for _, c := range a.st.comments {
		if c.kind >= execOpen && c.kind != skippedByAll && c.end > first && c.start < last {
			i.fused = true
		}
		if c.kind == execOpen && c.start < first {
			// Opened before the rows: where it closes decides.
			i.fused = true
		}
	}
	var implied []*catalog.Column
	if len(n.Columns) == 0 && slices.ContainsFunc(a.st.rows, func(r rowSpan) bool { return len(a.st.rowColumns(r)) > 0 }) {
		implied = cols
	}
	keyless := i.keyDefault != "" && (!slices.Contains(cols, t.ShardKey) || len(n.Columns) == 0 && implied == nil)
	if keyless {
		i.unasked = alias != nil && len(alias.columns) > 0
		at, text := a.st.listed(t.ShardKey, implied)
		i.askAt(constantPlace{start: at, end: at, before: text, name: true})
	}
	for k, r := range a.st.rows {
		fields := a.st.rowColumns(r)
		if len(fields) != len(cols) && (len(fields) > 0 || len(n.Columns) > 0) {
			if len(n.Columns) == 0 {
				return notSupported("a row has %d values and %s has %d columns: name the columns, INSERT INTO %s (...) VALUES (...)", len(fields), t.Name, len(cols), t.Name)
			}
			return &Error{Code: 1136, State: "21S01", Message: fmt.Sprintf("Column count doesn't match value count at row %d", k+1)}
		}
		row := insertRow{span: r, values: pick(len(fields), func(j int) operand { return a.st.evalTokens(fields[j]) })}
		for j, f := range fields {
			if !r.simple || i.keyDefault != "" && cols[j] == t.ShardKey {
				i.ask(cols[j], a.st.evalTokens(f), f)
			}
			i.unasked = i.unasked || keyless && !r.simple && a.st.naming(f, t.ShardKey)
		}
		if keyless {
			x := constantPlace{start: r.end - 1, end: r.end - 1, query: i.keyDefault}
			if len(fields) > 0 {
				x.before = ","
			}
			i.askAt(x)
		}
		if len(fields) == 0 {
			auto = -1 // () has no value for any column
		}
		switch {
		case auto >= 0 && len(fields[auto]) > 0:
			f := fields[auto]
			row.auto = autoSpan{start: f[0].start, end: f[len(f)-1].end}
		case len(fields) > 0:
			row.auto = autoSpan{start: r.end - 1, end: r.end - 1, before: ", "}
		default:
			row.auto = autoSpan{start: r.end - 1, end: r.end - 1}
		}
		if c := counts(t); c != nil && !r.simple {
			for j, f := range fields {
				row.namesAuto = row.namesAuto || j != auto && a.st.naming(f, c)
			}
		}
		i.rows = append(i.rows, row)
	}
	i.planIncrement(a, auto >= 0, false, implied, alias)
	return nil
}

func refuseInsertForm() *Error {
	return notSupported("this form of INSERT is not supported yet: write INSERT INTO t (columns) VALUES (...), (...)")
}

// keptRows reports whether the parser saw as many rows as the lexer left it.
func (st *statement) keptRows(n int) bool {
	kept := 0
	for _, r := range st.rows {
		if !r.simple {
			kept++
		}
	}
	return n == max(kept, 1)
}

func (i *insertAction) value(row *insertRow, c *catalog.Column) operand {
	for k, x := range i.needed {
		if x == c {
			return row.values[k]
		}
	}
	return operand{}
}

// listed says where before the rows, and how, a column is added to those that have values in
// them: implied, where there is no list.
func (st *statement) listed(c *catalog.Column, implied []*catalog.Column) (at uint32, text string) {
	v := st.rowsAt - 1 // VALUES
	var names strings.Builder
	for _, x := range implied {
		names.WriteString(catalog.QuoteName(x.Name) + ", ")
	}
	own := "(" + names.String() + catalog.QuoteName(c.Name) + ") "
	if !st.op(v-1, ")") {
		return st.toks[v].start, own
	}
	depth, o := 0, v-1
	for ; o >= 0; o-- {
		if st.op(o, ")") {
			depth++
		} else if st.op(o, "(") {
			if depth--; depth == 0 {
				break
			}
		}
	}
	switch {
	case st.is(o-1, "partition"):
		return st.toks[v].start, own
	case o+1 == v-1:
		return st.toks[v-1].start, catalog.QuoteName(c.Name)
	}
	return st.toks[v-1].start, ", " + catalog.QuoteName(c.Name)
}

// setFields finds the expressions of INSERT .. SET a = 1, b = 2.
func (st *statement) setFields() (fields [][2]uint32) {
	i := len(st.toks)
	for j := range st.outside(0, len(st.toks)) {
		if st.is(j, "set") {
			i = j
			break
		}
	}
	from, depth := -1, 0
	end := func(i int) {
		if from >= 0 && i > from {
			fields = append(fields, [2]uint32{st.toks[from].start, st.toks[i-1].end})
		}
		from = -1
	}
	for i++; i < len(st.toks); i++ {
		switch {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			depth--
		case depth > 0:
		case from < 0 && (st.op(i, "=") || st.op(i, ":=")):
			from = i + 1
		case st.op(i, ","):
			end(i)
		case st.is(i, "as") || st.is(i, "on") && st.is(i+1, "duplicate"):
			end(i)
			return fields
		}
	}
	end(i)
	return fields
}
