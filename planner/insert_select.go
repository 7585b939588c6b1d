package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// insertSelectAction is INSERT or REPLACE ... SELECT, sent as it is to the
// shards that the SELECT reads: each inserts what it reads there.
type insertSelectAction struct {
	sql     string
	table   *catalog.Table
	q       *queryRoute
	replace bool
	// everywhere: target and sources are reference tables.
	everywhere bool
	clock      bool // a function of the statement's time is in it
	// key is the literal that becomes the shard key; placed: it is the source's
	// own shard key column, so that each row stays on its shard.
	key    text.Operand
	placed bool
	update []assignment // ON DUPLICATE KEY UPDATE, nil without
}

// Rule own shard key: INSERT INTO a (k, ..) SELECT b.k, .. FROM b runs shard by
// shard where b.k is the shard key that placed b's rows and a.k has the same
// keys. Counter-example: SELECT b.k + 1: the new row belongs elsewhere.
//
// Rule kept key: a.k holds every value of b.k as it is. Counter-examples: without a
// strict mode 100000 becomes 32767 in a SMALLINT, and NULL 0 in a NOT NULL column;
// with one 'a ' becomes 'a' in a CHAR.
func (a *analysis) planInsertSelect(n *ast.InsertStmt, t *catalog.Table, target *ref, alias *rowAlias, kind plan.Kind) (*plan.Rows, *text.Error) {
	main := a.query(n.Select, nil, false)
	spoils := a.spoilsRows(n.Select)
	act := &insertSelectAction{sql: a.st.Src, table: t, replace: n.IsReplace, q: a.routeOf(main, spoils)}
	selected := len(a.refs)
	for _, x := range n.OnDuplicate {
		a.expressions(target.scope, x.Expr)
	}
	if err := a.refusal(); err != nil {
		return nil, err
	}
	if err := a.subqueriesBeside(a.refs[selected:], t); err != nil {
		return nil, err
	}
	var err *text.Error
	if act.update, err = a.assignments(n, target, alias); err != nil {
		return nil, err
	}
	if err := duplicateMoves(t, act.update); err != nil {
		return nil, err
	}
	cols, err := a.columnList(n.Columns, target)
	if err != nil {
		return nil, err
	}
	if c := spoken.CountedColumn(t); c != nil && !a.givesValue(n.Select, main, cols, c) {
		return nil, text.NotSupported("INSERT ... SELECT that leaves the AUTO_INCREMENT column %s.%s to the shards, each of which would count by itself, is not supported yet: select an AUTO_INCREMENT column into it, or read the rows and insert them from the client", t.Name, c.Name)
	}
	way := "read the rows and insert them from the client"
	switch {
	case t.Shards.Len() == 1 && len(a.cat.Shards) == 1:
	case t.Placement == catalog.Single:
		for _, r := range a.refs {
			if r.table != nil && !r.reference() && r.table.Shards != t.Shards {
				return nil, text.NotSupported("INSERT ... SELECT into %s from %s, whose rows are not on its shard, is not supported yet: %s", t.Name, r.table.Name, way)
			}
		}
		a.refs = append(a.refs, target)
		act.q.refs = append(act.q.refs, target)
		target.tree = allRows
	case t.Placement == catalog.Reference:
		for _, r := range a.refs {
			if r.table == nil || !r.reference() {
				return nil, text.NotSupported("INSERT ... SELECT into the reference table %s from other than reference tables is not supported yet: %s", t.Name, way)
			}
		}
		if a.volatile != "" {
			return nil, refuseVolatile(a.volatile, t)
		}
		if spoils == "LIMIT" || a.st.Has("limit") {
			return nil, text.NotSupported("INSERT ... SELECT with LIMIT into the reference table %s might insert other rows on each shard: %s", t.Name, way)
		}
		for _, c := range t.Columns {
			if c.DefaultExpr && !c.DefaultNow && !slices.Contains(cols, c) {
				return nil, refuseVolatile("the default of "+c.Name, t)
			}
		}
		act.everywhere, act.clock = true, a.clock
	default:
		if t.Placement == catalog.Anywhere || t.ShardKey == nil {
			return nil, text.NotSupported("INSERT ... SELECT into %s (placement %s) is not supported yet: %s", t.Name, t.Placement, way)
		}
		e := a.selected(n.Select, main, cols, t.ShardKey)
		if e == nil {
			return nil, text.NotSupported("INSERT ... SELECT that does not name what goes into the shard key %s.%s is not supported yet: name the columns, or %s", t.Name, t.ShardKey.Name, way)
		}
		if c, ok := e.(column); ok {
			if c.ref.scope != main || c.ref.table.Placement != catalog.Hash || c.col != c.ref.table.ShardKey || !plan.SameKeys(a.cat, c.col, t.ShardKey) || !keeps(a.cat, t.ShardKey, c) {
				return nil, text.NotSupported("INSERT ... SELECT whose rows would go to another shard than they come from is not supported yet: select the shard key of %s into %s.%s, or %s", c.ref.table.Name, t.Name, t.ShardKey.Name, way)
			}
			if !act.q.anchors(c.ref) {
				return nil, text.NotSupported("INSERT ... SELECT from a join that is not on the shard keys is not supported yet: %s", way)
			}
			act.placed = true
		} else {
			act.key = e.(text.Operand)
			if !evaluated(act.key) {
				return nil, text.NotSupported("INSERT ... SELECT with an expression for the shard key %s.%s is not supported yet: %s", t.Name, t.ShardKey.Name, way)
			}
		}
	}
	a.addTable(t)
	return a.rows(kind, act), nil
}

// keeps reports a column that stores every value of another, whose keys are the same,
// as it is.
func keeps(cat *catalog.Catalog, into *catalog.Column, from column) bool {
	if from.col.Nullable && !into.Nullable || from.ref.nullable {
		return false
	}
	if into.Type == from.col.Type {
		return true
	}
	wide, err := plan.CodecOf(cat, into)
	narrow, otherErr := plan.CodecOf(cat, from.col)
	return err == nil && otherErr == nil && wide.Covers(narrow)
}

// Rule given value: a shard doesn't count where each row that is selected brings
// a value, as an AUTO_INCREMENT column of another table does.
//
// Counter-example: INSERT INTO a (id, v) SELECT NULL, v FROM b: rows on two shards
// would get the same id.
func (a *analysis) givesValue(n ast.Node, main *scope, cols []*catalog.Column, c *catalog.Column) bool {
	switch e := a.selected(n, main, cols, c).(type) {
	case column:
		return e.col.AutoIncrement && !e.ref.nullable
	case text.Operand:
		if e.Kind != text.Literal {
			return false
		}
		_, v, ok := wholeNumber(e.Value)
		return ok && v > 0
	}
	return false
}

// anchors reports whether r is on the anchor's shard in every row of the
// answer.
func (q *queryRoute) anchors(r *ref) bool {
	if slices.Contains(q.inner, r) {
		return q.anchor != nil
	}
	return false
}

// selected finds the select expression that fills a column: a column, an
// operand, or nil where that can't be said.
func (a *analysis) selected(n ast.Node, main *scope, cols []*catalog.Column, c *catalog.Column) any {
	sel, ok := n.(*ast.SelectStmt)
	if !ok || main == nil || sel.Fields == nil {
		return nil
	}
	at := -1
	for i, x := range cols {
		if x == c {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	i := 0
	for _, f := range sel.Fields.Fields {
		if f.WildCard != nil {
			if len(main.refs) != 1 || main.refs[0].table == nil || main.refs[0].table.IsView || f.WildCard.Table.O != "" {
				return nil
			}
			for _, x := range spoken.Visible(main.refs[0].table) {
				if i == at {
					return column{main.refs[0], x}
				}
				i++
			}
			continue
		}
		if i == at {
			if got, ok := a.columnOf(f.Expr, main); ok {
				return got
			}
			return evalExpr(a.st, f.Expr)
		}
		i++
	}
	return nil
}

func (s *insertSelectAction) bind(b *binder) (*plan.Bound, error) {
	t := s.table
	r := s.q.route(b)
	if s.everywhere {
		r = routed{set: t.Shards, how: "reference", reason: "reference tables are on every shard"}
	}
	if s.key.Kind != text.Unknown {
		probe := &insertAction{table: t, needed: []*catalog.Column{t.ShardKey}}
		id, err := probe.shardOf(b, &insertRow{values: []text.Operand{s.key}})
		if err != nil {
			return nil, err
		}
		only := catalog.Only(id)
		spread := false
		for _, x := range s.q.refs {
			spread = spread || x.spread()
		}
		switch {
		case !spread: // reference tables or none: read them where the row goes
			r.set, r.refuse = only, nil
			r.how, r.reason = shardKeyAccess, "the shard key "+t.Name+"."+t.ShardKey.Name+" is a literal"
		case r.set != only:
			return nil, text.NotSupported("INSERT ... SELECT whose rows would go to another shard than they come from is not supported yet: read the rows and insert them from the client")
		}
	}
	e := newEffects(b)
	e.markAll(t, r.set, "INSERT")
	e.triggers(t, r.set, "INSERT")
	if s.update != nil {
		var cols []*catalog.Column
		for _, x := range s.update {
			cols = append(cols, x.col)
		}
		e.updates(t, cols, r.set)
		e.triggers(t, r.set, "UPDATE")
	}
	if s.replace {
		e.triggers(t, r.set, "DELETE")
		e.deletes(t, r.set)
		e.maintainIndexes(t, "REPLACE", r.set, t.Indexes, nil)
	}
	out := b.sendTo(r.set, s.sql)
	out.Access, out.Reason, out.Refuse = r.how, r.reason, r.refuse
	out.SameTime = s.everywhere && (s.clock || keepsTime(t))
	if spoken.CountedColumn(t) != nil {
		out.Doubts = []*catalog.Table{t}
	}
	e.into(out)
	return out, nil
}
