package planner

import (
	"fmt"
	"slices"

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

// rowLayout says where in a row's text the values of columns are.
type rowLayout struct {
	// cols are the columns that the rows have values for, in their order.
	cols []*catalog.Column
	// needed is the place among cols of each needed column, auto that of the
	// AUTO_INCREMENT column that Shunt counts; -1 for none.
	needed []int
	auto   int
}

func (i *insertAction) layout(cols []*catalog.Column) *rowLayout {
	l := &rowLayout{cols: cols, needed: make([]int, len(i.needed)), auto: -1}
	for k, c := range i.needed {
		l.needed[k] = slices.Index(cols, c)
	}
	if c := counts(i.table); c != nil {
		l.auto = slices.Index(cols, c)
	}
	return l
}

// values are those of the needed columns in a row of n fields, which get reads.
func (l *rowLayout) values(n int, get func(int) operand) []operand {
	out := make([]operand, len(l.needed))
	for k, j := range l.needed {
		out[k] = operand{kind: defaulted}
		if j >= 0 && n > 0 {
			out[k] = get(j)
		}
	}
	return out
}

// read takes the values of the needed columns from the rows' text. cols are the
// columns that these have values for.
func (i *insertAction) read(n *ast.InsertStmt, cols []*catalog.Column, alias *rowAlias) *Error {
	i.findNeeded(cols)
	i.keyDefault = i.askable()
	if n.Setlist {
		return i.readSet(n, i.layout(cols), alias)
	}
	return i.readRows(n, i.layout(cols), alias)
}

func (i *insertAction) findNeeded(cols []*catalog.Column) {
	t := i.table
	need := func(c *catalog.Column) {
		if c != nil && !slices.Contains(i.needed, c) {
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
	for _, s := range i.update {
		need(s.inserted)
	}
	if !i.st.settings.Strict && !i.ignore && t.Shards.Len() > 1 { // see loneNull
		for _, c := range cols {
			if !c.Nullable {
				need(c)
			}
		}
	}
}

// readSet reads INSERT ... SET a = 1, b = 2. The whole statement is the row.
func (i *insertAction) readSet(n *ast.InsertStmt, l *rowLayout, alias *rowAlias) *Error {
	st, t := i.st, i.table
	if len(st.rows) > 0 || len(n.Lists) != 1 {
		return refuseInsertForm()
	}
	exprs, fields := n.Lists[0], st.setFields()
	if len(fields) != len(exprs) {
		return refuseInsertForm()
	}
	row := insertRow{
		span:   rowSpan{end: uint32(len(st.src))},
		values: l.values(len(exprs), func(j int) operand { return st.evalExpr(exprs[j]) }),
	}
	i.tail = row.span.end
	if len(fields) > 0 {
		at := fields[len(fields)-1][1]
		row.auto = autoSpan{start: at, end: at}
		if c := counts(t); c != nil {
			row.auto.before = ", " + catalog.QuoteName(c.Name) + " = "
			row.namesAuto = st.names(st.toks, fields, l.auto, c)
		}
	}
	if l.auto >= 0 {
		row.auto = autoSpan{start: fields[l.auto][0], end: fields[l.auto][1]}
	}
	i.rows = []insertRow{row}
	i.fused = st.hasExecutable()
	for k, j := range l.needed {
		if j >= 0 {
			i.ask(i.needed[k], row.values[k], st.between(fields[j][0], fields[j][1]))
		}
	}
	if i.keyDefault != "" && !slices.Contains(l.cols, t.ShardKey) && len(fields) > 0 {
		at := fields[len(fields)-1][1]
		i.unasked = i.unasked || st.names(st.toks, fields, -1, t.ShardKey)
		i.askAt(constantPlace{start: at, end: at, before: ", " + catalog.QuoteName(t.ShardKey.Name) + " =", query: i.keyDefault})
	}
	i.planIncrement(l.auto >= 0, true, nil, alias)
	return nil
}

// readRows reads INSERT ... VALUES (1, 2), (3, 4).
func (i *insertAction) readRows(n *ast.InsertStmt, l *rowLayout, alias *rowAlias) *Error {
	st, t := i.st, i.table
	if len(st.rows) == 0 || !st.keptRows(len(n.Lists)) {
		return refuseInsertForm()
	}
	i.head, i.tail = st.rows[0].start, st.rows[len(st.rows)-1].end
	i.fused = st.fuses(i.head, i.tail)
	listed := len(n.Columns) > 0
	// implied are the columns of a list that the statement doesn't have.
	var implied []*catalog.Column
	if !listed && slices.ContainsFunc(st.rows, func(r rowSpan) bool { return len(st.rowColumns(r)) > 0 }) {
		implied = l.cols
	}
	// keyless: the default of the shard key is asked for, and put into each row.
	keyless := i.keyDefault != "" && (!slices.Contains(l.cols, t.ShardKey) || !listed && implied == nil)
	if keyless {
		i.unasked = alias != nil && len(alias.columns) > 0
		at, text := st.listed(t.ShardKey, implied)
		i.askAt(constantPlace{start: at, end: at, before: text, name: true})
	}
	i.rows = make([]insertRow, 0, len(st.rows))
	room := &rowRoom{}
	for k, r := range st.rows {
		if !r.simple || i.keyDefault != "" {
			room = &rowRoom{} // ask keeps tokens
		}
		fields := st.rowColumnsIn(room, r)
		switch {
		case len(fields) == len(l.cols), len(fields) == 0 && !listed:
		case !listed:
			return notSupported("a row has %d values and %s has %d columns: name the columns, INSERT INTO %s (...) VALUES (...)", len(fields), t.Name, len(l.cols), t.Name)
		default:
			return &Error{Code: 1136, State: "21S01", Message: fmt.Sprintf("Column count doesn't match value count at row %d", k+1)}
		}
		i.readRow(r, fields, l, keyless)
	}
	i.planIncrement(l.auto >= 0, false, implied, alias)
	return nil
}

// readRow reads one row, whose fields are those of the layout, or none.
func (i *insertAction) readRow(r rowSpan, fields [][]token, l *rowLayout, keyless bool) {
	st, t := i.st, i.table
	row := insertRow{span: r, values: l.values(len(fields), func(j int) operand { return st.evalTokens(fields[j]) })}
	for j, f := range fields {
		if !r.simple || i.keyDefault != "" && l.cols[j] == t.ShardKey {
			i.ask(l.cols[j], st.evalTokens(f), f)
		}
		i.unasked = i.unasked || keyless && !r.simple && st.naming(f, t.ShardKey)
	}
	if keyless {
		x := constantPlace{start: r.end - 1, end: r.end - 1, query: i.keyDefault}
		if len(fields) > 0 {
			x.before = ","
		}
		i.askAt(x)
	}
	if len(fields) == 0 {
		l.auto = -1 // () has no value for any column
	}
	switch {
	case l.auto >= 0 && len(fields[l.auto]) > 0:
		f := fields[l.auto]
		row.auto = autoSpan{start: f[0].start, end: f[len(f)-1].end}
	case len(fields) > 0:
		row.auto = autoSpan{start: r.end - 1, end: r.end - 1, before: ", "}
	default:
		row.auto = autoSpan{start: r.end - 1, end: r.end - 1}
	}
	if c := counts(t); c != nil && !r.simple {
		for j, f := range fields {
			row.namesAuto = row.namesAuto || j != l.auto && st.naming(f, c)
		}
	}
	i.rows = append(i.rows, row)
}

// fuses reports an executable comment that runs over some of the text between two
// offsets, or is open before it: where that closes decides.
func (st *statement) fuses(from, to uint32) bool {
	return slices.ContainsFunc(st.comments, func(c comment) bool {
		return c.kind.executable() && c.end > from && c.start < to || c.kind == execOpen && c.start < from
	})
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
	own := "(" + catalog.QuoteColumns(append(slices.Clip(implied), c)) + ") "
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
