package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// insertAction is INSERT or REPLACE with values in the statement.
type insertAction struct {
	st              *statement
	table           *catalog.Table
	replace, ignore bool
	// needed are the columns whose values matter: the shard key, an
	// AUTO_INCREMENT column, columns of indexes. rows holds their operands.
	needed []*catalog.Column
	rows   []insertRow
	update *duplicateUpdate // ON DUPLICATE KEY UPDATE
	// head and tail are the offsets between which the rows are.
	head, tail uint32
	// fused: the rows' text can't be cut (an executable comment runs over it).
	fused bool
	clock bool // a function of the statement's time is in it
	// auto is the AUTO_INCREMENT column, where Shunt counts it; else nil.
	auto *autoColumn
	// asked are expressions for values that must be known; unasked: for one of
	// them nobody can be asked.
	asked   *Constants
	unasked bool
	// keyDefault is the default of the shard key that may be asked for, "" for none.
	keyDefault string
}

type insertRow struct {
	span   rowSpan
	values []operand // of needed
	// auto is the place of the AUTO_INCREMENT column's value.
	auto autoSpan
	// namesAuto: an expression for another column names that column.
	namesAuto bool
}

// duplicateUpdate is what ON DUPLICATE KEY UPDATE assigns.
type duplicateUpdate struct {
	sets []assignment
}

// assignment is one col = value.
type assignment struct {
	col   *catalog.Column
	value operand
	// inserted: VALUES(c) or new.c, the value of that column in the new row.
	inserted *catalog.Column
	// self: col = col
	self bool
}

func (i *insertAction) verb() string {
	if i.replace {
		return "REPLACE"
	}
	return "INSERT"
}

// planInsert plans INSERT and REPLACE.
func (a *analysis) planInsert(n *ast.InsertStmt, newAlias *rowAlias) (*Rows, *Error) {
	if a.st.setVar {
		return nil, refuseSetVar()
	}
	name, err := insertTarget(n)
	if err != nil {
		return nil, err
	}
	schema := name.Schema.O
	if schema == "" {
		schema = a.st.settings.Schema
	}
	t, system, err := lookupTable(a.cat, schema, name.Name.O)
	if err != nil {
		return nil, err
	}
	if system {
		return nil, notSupported("writing to the system schema %s is not supported: send it to one shard with /* shunt: shard=NAME */", schema)
	}
	if t.IsView {
		return nil, notSupported("writing through the view %s is not supported yet: write to its table", t.Name)
	}
	a.addTable(t)
	kind := Insert
	if n.IsReplace {
		kind = Replace
	}
	s := &scope{}
	target := &ref{scope: s, alias: name.Name.O, schema: schema, table: t}
	s.refs = []*ref{target}
	s.side = side{refs: s.refs}
	if n.IsReplace {
		if err := movesChildren(t, nil, true); err != nil {
			return nil, err
		}
	}
	for _, x := range n.OnDuplicate {
		if c := t.Column(x.Column.Name.L); c != nil {
			if err := movesChildren(t, []*catalog.Column{c}, false); err != nil {
				return nil, err
			}
		}
	}
	if n.Select != nil {
		rows, err := a.planInsertSelect(n, t, target, newAlias, kind)
		c := a.planCopy(n, newAlias)
		if c != nil {
			c.targets, _ = columnList(n.Columns, t) // its error is planInsertSelect's
		}
		switch {
		case err == nil:
			rows.Copy = c
		case c != nil && err.Code == codeNotSupported:
			// Another way may do.
			a.err = nil
			rows = a.rows(kind, &refusedAction{err})
			rows.Copy = c
			return rows, nil
		}
		return rows, err
	}
	for _, l := range n.Lists {
		for _, e := range l {
			a.expressions(s, e)
		}
	}
	for _, x := range n.OnDuplicate {
		a.expressions(s, x.Expr)
	}
	if a.err != nil {
		return nil, a.err
	}
	if a.subqueries && a.readsSpread() && t.Shards.Len() > 1 {
		return nil, notSupported("INSERT with a subquery over a sharded table is not supported yet: read the value first")
	}
	if a.subqueries {
		// Reference tables are everywhere; a single one must be where the row goes.
		for _, r := range a.refs {
			if r.table != nil && !r.table.Shards.Contains(t.Shards) {
				return nil, notSupported("INSERT with a subquery over %s, which is not on every shard of %s, is not supported yet: read the value first", r.table.Name, t.Name)
			}
		}
	}
	if t.Placement == catalog.Reference && t.Shards.Len() > 1 && a.volatile != "" {
		return nil, refuseVolatile(a.volatile, t)
	}
	act := &insertAction{st: a.st, table: t, replace: n.IsReplace, ignore: n.IgnoreErr, clock: a.clock}
	cols, err := columnList(n.Columns, t)
	if err != nil {
		return nil, err
	}
	if newAlias != nil {
		newAlias.listed = cols
	}
	if len(n.OnDuplicate) > 0 {
		sets, err := a.assignments(n.OnDuplicate, target, newAlias)
		if err != nil {
			return nil, err
		}
		act.update = &duplicateUpdate{sets: sets}
		if err := act.duplicateKey(); err != nil {
			return nil, err
		}
	}
	if err := act.read(a, n, cols, newAlias); err != nil {
		return nil, err
	}
	rows := a.rows(kind, act)
	rows.Constants, rows.Meets = act.constants(), act.meets()
	return rows, nil
}

func insertTarget(n *ast.InsertStmt) (*ast.TableName, *Error) {
	if n.Table != nil && n.Table.TableRefs != nil {
		if src, ok := n.Table.TableRefs.Left.(*ast.TableSource); ok {
			if name, ok := src.Source.(*ast.TableName); ok {
				return name, nil
			}
		}
	}
	return nil, notSupported("this form of INSERT is not supported yet: send it to one shard with /* shunt: shard=NAME */")
}

// readsSpread reports a subquery over a table that is not on every shard.
func (a *analysis) readsSpread() bool {
	for _, r := range a.refs {
		if r.sharded() {
			return true
		}
	}
	return false
}

func refuseVolatile(what string, t *catalog.Table) *Error {
	return notSupported("%s in a write to the reference table %s would give each shard another value: compute it in the client and send a literal", what, t.Name)
}

func refuseSetVar() *Error {
	return notSupported("the optimizer hint SET_VAR in a write is not supported: it may change what is stored; use SET SESSION")
}

// columnList resolves the column list; without one it is the table's columns, but
// for invisible ones.
func columnList(names []*ast.ColumnName, t *catalog.Table) ([]*catalog.Column, *Error) {
	if len(names) == 0 {
		if t.OrderDiffers && t.Shards.Len() > 1 {
			return nil, notSupported("rows for %s without a list of columns, about whose order the shards disagree (%s): name the columns", t.Name, t.Differs)
		}
		return visible(t), nil
	}
	out := make([]*catalog.Column, len(names))
	for i, n := range names {
		c := t.Column(n.Name.L)
		if c == nil {
			return nil, unknownColumn(n.Name.O, "field list")
		}
		out[i] = c
	}
	return out, nil
}

// visible are the columns that * stands for.
//
// Counter-example: t (secret INT INVISIBLE, id INT, v INT), hashed by id. In INSERT
// INTO t SELECT a, b FROM u it is a that places the rows.
func visible(t *catalog.Table) []*catalog.Column {
	hidden := func(c *catalog.Column) bool { return c.Invisible }
	if !slices.ContainsFunc(t.Columns, hidden) {
		return t.Columns
	}
	return slices.DeleteFunc(slices.Clone(t.Columns), hidden)
}

func unknownColumn(name, where string) *Error {
	return &Error{Code: 1054, State: "42S22", Message: fmt.Sprintf("Unknown column '%s' in '%s'", name, where)}
}

// assignments resolves what ON DUPLICATE KEY UPDATE or SET assigns in target.
func (a *analysis) assignments(list []*ast.Assignment, target *ref, alias *rowAlias) ([]assignment, *Error) {
	var out []assignment
	for _, x := range list {
		c := target.table.Column(x.Column.Name.L)
		if c == nil {
			return nil, unknownColumn(x.Column.Name.O, "field list")
		}
		out = append(out, a.assignment(c, x.Expr, target, alias))
	}
	return out, nil
}

func (a *analysis) assignment(c *catalog.Column, e ast.ExprNode, target *ref, alias *rowAlias) assignment {
	s := assignment{col: c}
	e = lastInserted(e)
	switch v := unwrap(e).(type) {
	case *ast.ValuesExpr:
		if v.Column != nil {
			s.inserted = target.table.Column(v.Column.Name.Name.L)
		}
	case *ast.ColumnNameExpr:
		if src := alias.column(v.Name, target.table); src != nil {
			s.inserted = src
		} else if got, ok := a.resolve(v.Name, target.scope); ok && got.ref == target && got.col == c {
			s.self = true
		}
	default:
		s.value = a.st.evalExpr(e)
	}
	return s
}

// lastInserted is id of LAST_INSERT_ID(id), which tells the client the id of the
// row that ON DUPLICATE KEY UPDATE met.
func lastInserted(e ast.ExprNode) ast.ExprNode {
	if f, ok := unwrap(e).(*ast.FuncCallExpr); ok && f.FnName.L == "last_insert_id" && len(f.Args) == 1 {
		if c, ok := unwrap(f.Args[0]).(*ast.ColumnNameExpr); ok {
			return c
		}
	}
	return e
}

// duplicateKey refuses an update of the shard key, but for VALUES(shard_key):
// that is the key by which this row came to its shard, so the row that it meets
// stays where it is.
func (i *insertAction) duplicateKey() *Error {
	t := i.table
	if t.ShardKey == nil || t.Placement != catalog.Hash || t.Shards.Len() == 1 {
		return nil
	}
	for _, s := range i.update.sets {
		if s.col == t.ShardKey && !s.self && s.inserted != t.ShardKey {
			return refuseShardKey(t)
		}
	}
	if movesByItself(t, i.update.sets) {
		return refuseShardKey(t)
	}
	return nil
}

func refuseShardKey(t *catalog.Table) *Error {
	return notSupported("changing the shard key %s.%s is not supported yet: the row would have to move to another shard; DELETE it and INSERT it with the new key", t.Name, t.ShardKey.Name)
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

// ids is Bound.Counted and Given.
func (i *insertAction) ids(b *binder) (counted, given bool) {
	if i.update != nil {
		return false, false // a row that is there already has an id, too
	}
	counted, given = true, true
	for _, c := range i.table.Columns {
		if !c.AutoIncrement {
			continue
		}
		for k := range i.rows {
			o := i.value(&i.rows[k], c)
			if o.kind == defaulted {
				given = false
				continue
			}
			v, _, ok := o.resolve(b.params)
			if ok && v.IsNull() {
				given = false
				continue
			}
			counted = false
			if ok {
				_, n, whole := wholeNumber(v)
				ok = whole && n > 0
			}
			given = given && ok
		}
	}
	return counted, given
}

func (i *insertAction) bind(b *binder) (*Bound, error) {
	t := i.table
	if err := i.untried(b); err != nil {
		return nil, err
	}
	e := newEffects(b)
	spread := t.Shards.Len() > 1
	per := map[catalog.ShardID][]int{}
	places := make([]catalog.ShardSet, len(i.rows))
	var set catalog.ShardSet
	ids, generated, err := i.numbered(b)
	if err != nil {
		return nil, err
	}
	rows := make([]*insertRow, len(i.rows))
	for k := range i.rows {
		row := &i.rows[k]
		if ids != nil && ids[k] > 0 {
			row = i.withID(row, ids[k])
		}
		rows[k] = row
		if spread {
			if err := i.differing(row); err != nil {
				return nil, err
			}
		}
		var where catalog.ShardSet
		switch t.Placement {
		case catalog.Hash, catalog.Anywhere:
			id, err := i.shardOf(b, row)
			if err != nil {
				return nil, err
			}
			where = catalog.Only(id)
			per[id] = append(per[id], k)
		case catalog.Reference, catalog.Single:
			where = t.Shards
		}
		places[k] = where
		set = set.Union(where)
		i.entries(e, row, where)
	}
	if err := i.alone(b, rows, per); err != nil {
		return nil, err
	}
	if i.update != nil {
		i.onDuplicate(e, set, rows, places)
	}
	i.follow(e, set)

	var out *Bound
	switch {
	case ids == nil && len(per) <= 1:
		out = b.sendTo(set, i.st.src)
	case i.fused:
		return nil, notSupported("rows for several shards inside of an executable comment can't be split: write the text out")
	default:
		out = b.bound()
		out.Statements = i.split(set, per, ids, b, generated)
	}
	if out.Generated = generated; generated != nil {
		generated.LastShard = places[len(places)-1].First()
		if i.update != nil && changes(i.update.sets, i.auto.col) {
			out.Doubts = []*catalog.Table{t}
		}
	}
	out.Counted, out.Given = i.ids(b)
	e.into(out)
	out.Plan = "route"
	n := set.Len()
	switch t.Placement {
	case catalog.Hash, catalog.Anywhere:
		out.Access = "shard_key"
	case catalog.Reference:
		out.Access = "reference"
		out.SameTime = i.clock || keepsTime(t)
	case catalog.Single:
		out.Access = "single"
	}
	if b.brief {
		return out, nil
	}
	switch t.Placement {
	case catalog.Hash:
		out.Reason = fmt.Sprintf("%d row%s by the shard key %s.%s", len(i.rows), plural(len(i.rows)), t.Name, keyName(t))
	case catalog.Anywhere:
		out.Reason = fmt.Sprintf("%d new row%s by hash of %s.%s", len(i.rows), plural(len(i.rows)), t.Name, keyName(t))
	case catalog.Reference:
		out.Reason = t.Name + " is on every shard"
	case catalog.Single:
		out.Reason = t.Name + " is on one shard"
	}
	out.Reason += fmt.Sprintf(": %d shard%s of %d", n, plural(n), b.cat.All.Len())
	return out, nil
}

func keyName(t *catalog.Table) string {
	if t.ShardKey == nil {
		return "?"
	}
	return t.ShardKey.Name
}

// differing refuses a row of a reference table for which each copy would compute
// a default of its own.
func (i *insertAction) differing(row *insertRow) *Error {
	if i.table.Placement != catalog.Reference {
		return nil
	}
	for _, c := range i.needed {
		if c.DefaultExpr && !c.DefaultNow && i.value(row, c).kind == defaulted {
			return refuseVolatile("the default of "+c.Name, i.table)
		}
	}
	return nil
}

// keepsTime reports columns that are set to the time of a write by themselves.
func keepsTime(t *catalog.Table) bool {
	for _, c := range t.Columns {
		if c.DefaultNow || c.OnUpdate {
			return true
		}
	}
	return false
}

// shardOf places a row. What the column will hold must be surely known:
// a row on the wrong shard is never found again by its key.
func (i *insertAction) shardOf(b *binder, row *insertRow) (catalog.ShardID, *Error) {
	t := i.table
	if t.Shards.Len() == 1 {
		return t.Shards.First(), nil
	}
	if b.at != nil {
		return *b.at, nil
	}
	c := t.ShardKey
	if c == nil {
		return 0, notSupported("%s has no shard key: set shard_key for it in the configuration", t.Name)
	}
	o := i.value(row, c)
	v, known := defaultOf(c)
	if o.kind != defaulted {
		v, _, known = o.resolve(b.params)
	}
	switch {
	case !known && o.kind == defaulted && c.Default == nil && !c.DefaultExpr && b.settings.Strict && i.fails(c):
		return b.cat.ShardOf(keys.AppendNull(nil)), nil
	case !known && o.kind == defaulted:
		return 0, notSupported("a row for %s without a value for its shard key %s can't be placed: give %s a value", t.Name, c.Name, c.Name)
	case !known:
		return 0, notSupported("the shard key %s.%s must be a literal or a parameter: compute it in the client", t.Name, c.Name)
	case v.IsNull() && (c.Nullable || i.fails(c)):
		return b.cat.ShardOf(keys.AppendNull(nil)), nil
	case v.IsNull():
		return 0, notSupported("a row for %s with NULL as its shard key %s can't be placed: give %s a value", t.Name, c.Name, c.Name)
	}
	codec, err := codecOf(b.cat, c)
	if err != nil {
		return 0, notSupported("%s.%s can't be a shard key: %v", t.Name, c.Name, err)
	}
	k, ok := codec.Stored(nil, v, b.settings.Strict && !i.ignore, b.settings.PadCharToFullLength)
	if !ok {
		return 0, notSupported("what %s.%s (%s) would hold for %s is not surely known, so the row can't be placed: send it in the column's own type", t.Name, c.Name, c.Type, shortLiteral(v))
	}
	return b.cat.ShardOf(k), nil
}

// defaultOf is the value of a shard key that a row doesn't give; ok is false where
// it is not surely known.
func defaultOf(c *catalog.Column) (v keys.Value, ok bool) {
	switch {
	case c.DefaultExpr, c.AutoIncrement, c.Generated:
		return v, false
	case c.Default != nil:
		return keys.String([]byte(*c.Default), "utf8mb4"), true
	case c.Nullable:
		return keys.Null(), true
	}
	return v, false
}

// Rule refused NULL: NULL for a NOT NULL column is an error in a statement of one
// row, whatever the mode, so any shard can say it. Rows with NULL in a column that
// may be NULL are all on one shard.
//
// Counter-example: INSERT IGNORE, and without a strict mode a statement of many
// rows, which store 0 or ”. A TIMESTAMP may store the time.
func (i *insertAction) fails(c *catalog.Column) bool {
	return len(i.rows) == 1 && !i.ignore && !c.AutoIncrement && !c.Generated && baseType(c.Type) != "timestamp"
}

// entries adds what a new row needs in each index.
func (i *insertAction) entries(e *effects, row *insertRow, where catalog.ShardSet) {
	for _, ix := range i.table.Indexes {
		var few [4]component
		comps := append(few[:0], make([]component, len(ix.Columns))...)
		for k, c := range ix.Columns {
			comps[k] = e.stored(c, i.value(row, c))
		}
		for id := range where.All {
			e.row(ix, id, comps, i.verb())
		}
	}
}

// onDuplicate handles the rows that exist: their columns that are not assigned
// hold what Shunt doesn't know.
func (i *insertAction) onDuplicate(e *effects, set catalog.ShardSet, rows []*insertRow, places []catalog.ShardSet) {
	t := i.table
	assigned := lastAssignments(i.update.sets)
	if touchesPrimaryKey(t, assigned) {
		e.markAll(t, set, "UPDATE")
	}
	changed := make([]*catalog.Column, 0, len(assigned))
	for c, s := range assigned {
		if s == nil || !s.self {
			changed = append(changed, c)
		}
	}
	for _, ix := range t.Indexes {
		affected := false
		for _, c := range ix.Columns {
			s, ok := assigned[c]
			affected = affected || ok && (s == nil || !s.self) || c.Generated || c.OnUpdate
		}
		if !affected {
			continue
		}
		e.maintainIndexes(t, "UPDATE", set, []*catalog.Index{ix}, columnNames(changed))
		for k, row := range rows {
			comps := make([]component, len(ix.Columns))
			for j, c := range ix.Columns {
				s := assigned[c]
				switch {
				case s == nil || s.self:
				case s.inserted != nil:
					if s.inserted == c {
						comps[j] = e.stored(c, i.value(row, c))
					}
				default:
					comps[j] = e.stored(c, s.value)
				}
			}
			for id := range places[k].All {
				e.row(ix, id, comps, "UPDATE")
			}
		}
	}
	e.updates(t, changed, set)
	e.triggers(t, set, "UPDATE")
}

// lastAssignments maps each assigned column to its assignment; to nil where it
// is assigned more than once, since MySQL evaluates from left to right and the
// value is then anyone's guess.
func lastAssignments(sets []assignment) map[*catalog.Column]*assignment {
	out := map[*catalog.Column]*assignment{}
	for k := range sets {
		s := &sets[k]
		if _, twice := out[s.col]; twice {
			out[s.col] = nil
			continue
		}
		out[s.col] = s
	}
	return out
}

// touchesPrimaryKey reports an assignment to a primary key column. A scan that
// resumes at a checkpoint goes on after the last primary key that it saw; a row
// that moves from after it to before it in the meantime would not be seen, and
// its entries be taken for stale. So such an update marks all indexes.
func touchesPrimaryKey(t *catalog.Table, assigned map[*catalog.Column]*assignment) bool {
	for _, c := range t.PrimaryKey {
		if s, ok := assigned[c]; ok && (s == nil || !s.self) {
			return true
		}
	}
	return false
}

func columnNames(cols []*catalog.Column) []string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = c.Name
	}
	sortStrings(out)
	return out
}

// follow handles triggers, foreign keys and what a REPLACE removes.
func (i *insertAction) follow(e *effects, set catalog.ShardSet) {
	e.triggers(i.table, set, "INSERT")
	if i.replace {
		e.triggers(i.table, set, "DELETE")
		e.deletes(i.table, set)
		e.maintainIndexes(i.table, "REPLACE", set, i.table.Indexes, nil)
	}
}

// Rule lone NULL: without a strict mode NULL for a NOT NULL column becomes ” or 0
// in a statement of many rows, and is an error in one of a single row. So a row
// with such a NULL must not become one of its own.
//
// Counter-example: INSERT INTO t (id, n) VALUES (1, NULL), (2, 3) with sql_mode ”
// and rows that go to two shards: a server stores 0, the shard would say 1048.
func (i *insertAction) alone(b *binder, rows []*insertRow, per map[catalog.ShardID][]int) *Error {
	if b.settings.Strict || i.ignore || len(per) < 2 {
		return nil
	}
	for _, list := range per {
		if len(list) > 1 {
			continue
		}
		if err := i.loneNull(b, rows[list[0]]); err != nil {
			return err
		}
	}
	return nil
}

// Ignores reports an INSERT IGNORE.
func (r *Rows) Ignores() bool {
	i, ok := r.action.(*insertAction)
	return ok && i.ignore
}

// Apart refuses rows that can't be statements of their own; see alone. copied:
// they stand for those of a query or a file, of whose NULLs a server stores an
// empty text or 0 even if there is one row. Rows that are left together are bind's to refuse.
func (r *Rows) Apart(params []keys.Value, copied bool) error {
	i, ok := r.action.(*insertAction)
	if !ok || i.ignore || r.settings.Strict {
		return nil
	}
	if one := len(i.rows) == 1; one && !copied || !one && r.Meets == nil {
		return nil
	}
	for k := range i.rows {
		if err := i.loneNull(&binder{params: params}, &i.rows[k]); err != nil {
			return err
		}
	}
	return nil
}

// loneNull refuses a row that must not be one of its own.
func (i *insertAction) loneNull(b *binder, row *insertRow) *Error {
	for _, c := range i.needed {
		if c.Nullable || c.AutoIncrement {
			continue
		}
		if v, _, ok := i.value(row, c).resolve(b.params); ok && v.IsNull() {
			return notSupported("NULL for the column %s.%s, which is NOT NULL, in a statement whose rows go to several shards is not supported without a strict sql_mode: give the value that is to be stored, or DEFAULT", i.table.Name, c.Name)
		}
	}
	return nil
}

// split cuts the statement into one a shard, or one for all where all get all
// rows.
func (i *insertAction) split(set catalog.ShardSet, per map[catalog.ShardID][]int, ids []uint64, b *binder, g *Generated) []ShardStatement {
	var out []ShardStatement
	if len(per) == 0 {
		all := make([]int, len(i.rows))
		for k := range all {
			all[k] = k
		}
		sql, params := i.text(all, ids, b, g)
		for id := range set.All {
			out = append(out, ShardStatement{Shard: id, SQL: sql, Params: params})
		}
		return out
	}
	for id := range set.All {
		sql, params := i.text(per[id], ids, b, g)
		out = append(out, ShardStatement{Shard: id, SQL: sql, Params: params, Rows: per[id]})
	}
	return out
}

// rowAlias is `AS new(a, b)` of INSERT ... VALUES, which the parser refuses.
type rowAlias struct {
	name    string
	columns []string // "" list: the table's or statement's own names
	listed  []*catalog.Column
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
