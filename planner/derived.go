package planner

import (
	"maps"
	"slices"
	"sync"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// derivedAsTable is a derived table as a table to read: one whose rows lie beside
// an anchor of its own, so that what a shard makes of its own rows is its part of
// the derived table. nil where that is not so.
//
//	SELECT COUNT(*) FROM (SELECT id FROM users WHERE age > 30) AS t
//
// Tools and ORMs like to count so, and need no copies for it.
//
// Rule plain derived table: its query's answers may be concatenated, or each of
// its groups is on one shard (besideAnchor). Counter-example: SELECT COUNT(*) FROM
// (SELECT country FROM users GROUP BY country) AS t counts a country once per
// shard.
//
// Rule kept columns: what is known of its columns are those that are a table's as
// they are. Counter-example: SELECT * FROM (SELECT id + 1 AS id FROM users) AS t
// WHERE id = 5; that row is where 4 is.
//
// Rule plain CTE: a common table expression of the outermost block is a derived
// table wherever it is named there. Counter-example: WITH RECURSIVE t AS (SELECT id
// FROM users WHERE id = 1 UNION ALL SELECT u.id FROM users u JOIN t ON u.age =
// t.id) SELECT * FROM t: a row's next one may be on another shard.
//
// Rule order of no consequence: ORDER BY without LIMIT in a derived table is left out
// of account where servers do so: beside other tables, and where the rows around it are grouped
// or sorted. Counter-example: SELECT * FROM (SELECT id FROM users ORDER BY id) AS t.
//
// Only in the outermost block, and in derived tables there: further inside a
// query may see what is around it.
func (a *analysis) derivedAsTable(n *ast.TableSource, s *scope) *ref {
	if !a.deriving || s.parent != nil || n.Lateral || len(n.ColumnNames) > 0 {
		return nil
	}
	return a.asTable(n.Source, n.AsName.O, s)
}

// unordered reports a block in whose answer the order of a derived table's rows has no part.
func unordered(n *ast.SelectStmt) bool {
	f := featuresOf(n.Fields)
	joined := n.From != nil && n.From.TableRefs != nil && n.From.TableRefs.Right != nil
	return !f.window && (joined || f.aggregate != "" || n.GroupBy != nil || n.OrderBy != nil)
}

// deriveCTEs notes the CTEs of the outermost block instead of reading them.
func (a *analysis) deriveCTEs(w *ast.WithClause, s *scope) bool {
	if !a.deriving || s.parent != nil || w.IsRecursive {
		return false
	}
	s.ctes, s.unused, s.derivable = map[string]bool{}, map[string]bool{}, map[string]*ast.CommonTableExpression{}
	for _, c := range w.CTEs {
		s.ctes[a.cteName(c.Name.O)], s.unused[a.cteName(c.Name.O)] = true, true
		s.derivable[a.cteName(c.Name.O)] = c
	}
	return true
}

// cteAsTable is a CTE that deriveCTEs noted; one that can't be read as a table
// ends this analysis, since nobody has read its query.
func (a *analysis) cteAsTable(name, alias string, noted, s *scope) *ref {
	c := noted.derivable[a.cteName(name)]
	if c == nil {
		return nil
	}
	var r *ref
	if noted == s && len(c.ColNameList) == 0 {
		r = a.asTable(c.Query, alias, s)
	}
	delete(noted.unused, a.cteName(name))
	if r == nil {
		a.refuse(text.NotSupported("the common table expression %s is more than rows beside an anchor", name))
	}
	return r
}

// asTable is a query in FROM as a table, under the rules above.
func (a *analysis) asTable(source ast.Node, alias string, s *scope) *ref {
	query := source
	if sub, ok := query.(*ast.SubqueryExpr); ok {
		query = sub.Query
	}
	inner := &analysis{st: a.st, cat: a.cat, parsers: a.parsers, views: a.views, deriving: true, hidden: maps.Clone(a.hidden)}
	for name := range s.ctes {
		if inner.hidden == nil {
			inner.hidden = map[string]bool{}
		}
		inner.hidden[name] = true
	}
	main := inner.query(query, nil, false)
	if inner.err != nil || inner.hiddenAggregate != "" {
		return nil
	}
	t := &catalog.Table{Name: alias, Placement: catalog.Hash}
	for _, r := range inner.refs {
		if r.system || r.inexact() {
			return nil
		}
		t.Differs += r.table.Differs
	}
	r := &ref{scope: s, alias: alias, table: t}
	if sel, ok := query.(*ast.SelectStmt); ok {
		if s.unordered && sel.OrderBy != nil && sel.Limit == nil {
			plain := *sel
			plain.OrderBy, sel = nil, &plain
		}
		if main == nil || sel.With != nil || sel.Kind != ast.SelectStmtKindSelect || sel.LockInfo != nil || sel.Fields == nil {
			return nil
		}
		kept, all, others := inner.keptColumns(t, sel, main)
		whole := spoilsConcatenation(sel) == ""
		if !inner.besideAnchor(t, sel, main, kept, whole) {
			return nil
		}
		if whole {
			inner.keepIndexes(t, kept)
		}
		r.partial, r.others = !all, others
		if r.derived = inner.routeOf(main, ""); !r.derived.alone() {
			return nil
		}
		return r
	}
	operands := inner.unionAllOf(query)
	if operands == nil {
		return nil
	}
	r.derived, r.partial = inner.routeOfUnion(nil, operands, ""), true
	for _, o := range r.derived.operands {
		if o.anchor == nil || !o.alone() {
			return nil
		}
		t.Shards = t.Shards.Union(o.anchor.table.Shards)
	}
	return r
}

// alone reports whether all of a query's references lie beside its anchor.
func (q *queryRoute) alone() bool {
	main := map[*ref]bool{}
	for _, r := range q.main {
		main[r] = true
	}
	for _, r := range q.refs {
		if r.spread() && !main[r] && !q.beside[r] {
			return false
		}
	}
	return true
}

// keptColumns gives t the columns of a derived table that are a table's as they
// are, and tells of which: by their place in t. all: it has no others; else these are
// their names, nil where they aren't known.
func (a *analysis) keptColumns(t *catalog.Table, sel *ast.SelectStmt, main *scope) (kept map[int]column, all bool, others map[string]bool) {
	kept, all, others = map[int]column{}, true, map[string]bool{}
	named := true
	keep := func(c column, name string) {
		as := *c.col
		as.Name, as.Position = name, len(t.Columns)
		as.Nullable = as.Nullable || c.ref.nullable
		as.Invisible, as.AutoIncrement, as.Generated = false, false, false
		kept[len(t.Columns)] = c
		t.Columns = append(t.Columns, &as)
	}
	for _, f := range sel.Fields.Fields {
		if f.WildCard == nil {
			c, ok := a.columnOf(f.Expr, main)
			if !ok {
				all, named = false, named && f.AsName.O != ""
				others[f.AsName.L] = true
				continue
			}
			name := f.AsName.O
			if name == "" {
				name = c.col.Name
			}
			keep(c, name)
			continue
		}
		if len(main.side.merged) > 0 {
			all, named = false, false // USING and NATURAL show a column once
			continue
		}
		for _, r := range main.refs {
			if f.WildCard.Table.O != "" && !a.sameName(r.alias, f.WildCard.Table.O) {
				continue
			}
			if r.table == nil || r.partial {
				all, named = false, false
				continue
			}
			for _, c := range r.table.Columns {
				if !c.Invisible {
					keep(column{r, c}, c.Name)
				}
			}
		}
	}
	if !named {
		others = nil
	}
	return kept, all, others
}

// derivedReach bounds what a derived table's reference reaches by what its query
// does.
func (b *binder) derivedReach(out reach, q *queryRoute) reach {
	set := catalog.ShardSet{}
	for _, o := range q.operands {
		set = set.Union(o.anchored(b).set)
	}
	if len(q.operands) == 0 {
		in := q.anchored(b)
		set = in.set
		out.used, out.doubts = mergeAccess(out.used, in.used), append(out.doubts, in.doubts...)
	}
	out.set = out.set.Intersect(set)
	out.used = unproved(out.used) // what is made of a row decides whether there is an answer
	return out
}

// planDerived plans a SELECT once more, with derived tables read as tables, where
// its route is refused: nil if there are none, or a rule forbids it.
func (a *analysis) planDerived() func() *selectAction {
	if !a.subqueries || a.deriving {
		return nil
	}
	sql, settings, kinds, cat, parsers, views := a.st.Src, a.st.Settings, a.st.Kinds, a.cat, a.parsers, a.views
	return sync.OnceValue(func() *selectAction {
		st, err := text.Read(sql, settings, cat)
		if err != nil {
			return nil
		}
		st.Kinds = kinds
		n, err := (&Planner{}).parse(st, cat)
		if err != nil {
			return nil
		}
		again := &analysis{st: st, cat: cat, parsers: parsers, views: views, deriving: true}
		main := again.query(n, nil, false)
		found := slices.ContainsFunc(again.refs, func(r *ref) bool { return r.derived != nil })
		// A CTE that nothing reads may name a table that not every shard has.
		if again.err != nil || !found || main != nil && len(main.unused) > 0 {
			return nil
		}
		act := &selectAction{merge: again.planMerge(n, main)}
		act.q = again.routeOfUnion(main, again.concatenated(n), again.spoils(n))
		return act
	})
}
