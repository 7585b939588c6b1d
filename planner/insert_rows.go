package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

type insertRow struct {
	span   text.RowSpan
	values []text.Operand // of needed
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
	if c := spoken.CountedColumn(i.table); c != nil {
		l.auto = slices.Index(cols, c)
	}
	return l
}

// values are those of the needed columns in a row of n fields, which get reads.
func (l *rowLayout) values(n int, get func(int) text.Operand) []text.Operand {
	out := make([]text.Operand, len(l.needed))
	for k, j := range l.needed {
		out[k] = text.Operand{Kind: text.Default}
		if j >= 0 && n > 0 {
			out[k] = get(j)
		}
	}
	return out
}

// read takes the values of the needed columns from the rows' text. cols are the
// columns that these have values for.
func (i *insertAction) read(n *ast.InsertStmt, cols []*catalog.Column, alias *rowAlias) *text.Error {
	i.findNeeded(cols)
	i.keyDefault = i.askable()
	if n.Setlist {
		return i.readSet(n, i.layout(cols), alias)
	}
	i.keyAt = slices.Index(cols, i.table.ShardKey)
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
		if i.unmoved(&s) {
			need(s.col)
		}
	}
	if !i.st.Settings.Strict && !i.ignore && t.Shards.Len() > 1 { // see loneNull
		for _, c := range cols {
			if !c.Nullable {
				need(c)
			}
		}
	}
}

// readSet reads INSERT ... SET a = 1, b = 2. The whole statement is the row.
func (i *insertAction) readSet(n *ast.InsertStmt, l *rowLayout, alias *rowAlias) *text.Error {
	st, t := i.st, i.table
	if len(st.Rows) > 0 || len(n.Lists) != 1 {
		return refuseInsertForm()
	}
	exprs, fields := n.Lists[0], setFields(st)
	if len(fields) != len(exprs) {
		return refuseInsertForm()
	}
	row := insertRow{
		span:   text.RowSpan{End: uint32(len(st.Src))},
		values: l.values(len(exprs), func(j int) text.Operand { return evalExpr(st, exprs[j]) }),
	}
	i.tail = row.span.End
	if len(fields) > 0 {
		at := fields[len(fields)-1][1]
		row.auto = autoSpan{start: at, end: at}
		if c := spoken.CountedColumn(t); c != nil {
			row.auto.before = ", " + catalog.QuoteName(c.Name) + " = "
			row.namesAuto = names(st, st.Tokens, fields, l.auto, i.target, c)
		}
	}
	if l.auto >= 0 {
		row.auto = autoSpan{start: fields[l.auto][0], end: fields[l.auto][1]}
	}
	i.rows = []insertRow{row}
	i.fused = st.HasExecutable()
	for k, j := range l.needed {
		if j >= 0 {
			i.ask(i.needed[k], row.values[k], st.Between(fields[j][0], fields[j][1]))
		}
	}
	if i.keyDefault != "" && !slices.Contains(l.cols, t.ShardKey) && len(fields) > 0 {
		at := fields[len(fields)-1][1]
		i.unasked = i.unasked || names(st, st.Tokens, fields, -1, i.target, t.ShardKey)
		i.askAt(plan.ConstantPlace{Start: at, End: at, Before: ", " + catalog.QuoteName(t.ShardKey.Name) + " =", Query: i.keyDefault}, t.ShardKey)
	}
	i.planIncrement(l.auto >= 0, true, nil, alias)
	return nil
}

// readRows reads INSERT ... VALUES (1, 2), (3, 4).
func (i *insertAction) readRows(n *ast.InsertStmt, l *rowLayout, alias *rowAlias) *text.Error {
	st, t := i.st, i.table
	if len(st.Rows) == 0 || !keptRows(st, len(n.Lists)) {
		return refuseInsertForm()
	}
	i.head, i.tail = st.Rows[0].Start, st.Rows[len(st.Rows)-1].End
	i.fused, i.apart = st.Fuses(i.head, i.tail), st.RowsApart()
	listed := len(n.Columns) > 0
	// implied are the columns of a list that the statement doesn't have.
	var implied []*catalog.Column
	if !listed && slices.ContainsFunc(st.Rows, func(r text.RowSpan) bool { return len(st.RowColumns(r)) > 0 }) {
		implied = l.cols
	}
	// keyless: the default of the shard key is asked for, and put into each row.
	keyless := i.keyDefault != "" && (!slices.Contains(l.cols, t.ShardKey) || !listed && implied == nil)
	if keyless {
		i.unasked = alias != nil && len(alias.columns) > 0
		at, text := addedColumn(st, t.ShardKey, implied)
		i.askAt(plan.ConstantPlace{Start: at, End: at, Before: text, Name: true}, t.ShardKey)
	}
	i.rows = make([]insertRow, 0, len(st.Rows))
	room := &text.RowRoom{}
	for k, r := range st.Rows {
		if !r.Simple || i.keyDefault != "" {
			room = &text.RowRoom{} // ask keeps tokens
		}
		fields := st.RowColumnsIn(room, r)
		switch {
		case len(fields) == len(l.cols), len(fields) == 0 && !listed:
		case !listed:
			return text.NotSupported("a row has %d values and %s has %d columns: name the columns, INSERT INTO %s (...) VALUES (...)", len(fields), t.Name, len(l.cols), t.Name)
		default:
			return text.NewErrorf(mysqlerr.WrongValueCountOnRow, "Column count doesn't match value count at row %d", k+1)
		}
		i.readRow(r, fields, l, keyless)
	}
	i.planIncrement(l.auto >= 0, false, implied, alias)
	return nil
}

// readRow reads one row, whose fields are those of the layout, or none.
func (i *insertAction) readRow(r text.RowSpan, fields [][]text.Token, l *rowLayout, keyless bool) {
	st, t := i.st, i.table
	row := insertRow{span: r, values: l.values(len(fields), func(j int) text.Operand { return st.Evaluate(fields[j]) })}
	for j, f := range fields {
		if !r.Simple || i.keyDefault != "" && l.cols[j] == t.ShardKey {
			i.ask(l.cols[j], st.Evaluate(f), f)
		}
		i.unasked = i.unasked || keyless && !r.Simple && naming(st, f, i.target, t.ShardKey)
	}
	if keyless {
		x := plan.ConstantPlace{Start: r.End - 1, End: r.End - 1, Query: i.keyDefault}
		if len(fields) > 0 {
			x.Before = ","
		}
		i.askAt(x, t.ShardKey)
	}
	if len(fields) == 0 {
		l.auto = -1 // () has no value for any column
	}
	switch {
	case l.auto >= 0 && len(fields[l.auto]) > 0:
		f := fields[l.auto]
		row.auto = autoSpan{start: f[0].Start, end: f[len(f)-1].End}
	case len(fields) > 0:
		row.auto = autoSpan{start: r.End - 1, end: r.End - 1, before: ", "}
	default:
		row.auto = autoSpan{start: r.End - 1, end: r.End - 1}
	}
	if c := spoken.CountedColumn(t); c != nil && !r.Simple {
		for j, f := range fields {
			row.namesAuto = row.namesAuto || j != l.auto && naming(st, f, i.target, c)
		}
	}
	i.rows = append(i.rows, row)
}

func refuseInsertForm() *text.Error {
	return text.NotSupported("this form of INSERT is not supported yet: write INSERT INTO t (columns) VALUES (...), (...)")
}

// keptRows reports whether the parser saw as many rows as the lexer left it.
func keptRows(st *text.Statement, n int) bool {
	kept := 0
	for _, r := range st.Rows {
		if !r.Simple {
			kept++
		}
	}
	return n == max(kept, 1)
}

func (i *insertAction) value(row *insertRow, c *catalog.Column) text.Operand {
	for k, x := range i.needed {
		if x == c {
			return row.values[k]
		}
	}
	return text.Operand{}
}

// addedColumn says where before the rows, and how, a column is added to those that have values in
// them: implied, where there is no list.
func addedColumn(st *text.Statement, c *catalog.Column, implied []*catalog.Column) (at uint32, text string) {
	v := st.RowsAt - 1 // VALUES
	own := "(" + catalog.QuoteColumns(append(slices.Clip(implied), c)) + ") "
	if !st.Op(v-1, ")") {
		return st.Tokens[v].Start, own
	}
	depth, o := 0, v-1
	for ; o >= 0; o-- {
		if st.Op(o, ")") {
			depth++
		} else if st.Op(o, "(") {
			if depth--; depth == 0 {
				break
			}
		}
	}
	switch {
	case st.Is(o-1, "partition"):
		return st.Tokens[v].Start, own
	case o+1 == v-1:
		return st.Tokens[v-1].Start, catalog.QuoteName(c.Name)
	}
	return st.Tokens[v-1].Start, ", " + catalog.QuoteName(c.Name)
}

// setFields finds the expressions of INSERT .. SET a = 1, b = 2.
func setFields(st *text.Statement) (fields [][2]uint32) {
	i := len(st.Tokens)
	for j := range st.Outside(0, len(st.Tokens)) {
		if st.Is(j, "set") {
			i = j
			break
		}
	}
	from, depth := -1, 0
	end := func(i int) {
		if from >= 0 && i > from {
			fields = append(fields, [2]uint32{st.Tokens[from].Start, st.Tokens[i-1].End})
		}
		from = -1
	}
	for i++; i < len(st.Tokens); i++ {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		case depth > 0:
		case from < 0 && (st.Op(i, "=") || st.Op(i, ":=")):
			from = i + 1
		case st.Op(i, ","):
			end(i)
		case st.Is(i, "as") || st.Is(i, "on") && st.Is(i+1, "duplicate"):
			end(i)
			return fields
		}
	}
	end(i)
	return fields
}
