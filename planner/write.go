package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// writeAction is UPDATE or DELETE, sent as it is to the shards of its route.
type writeAction struct {
	sql     string
	q       *queryRoute
	targets []*writeTarget
	delete  bool
	ignore  bool // UPDATE IGNORE
	// everywhere: the target is a reference table, and all its copies change.
	everywhere bool
	// others: it reads tables that are not on every shard beside those.
	others bool
	clock  bool // a function of the statement's time is in it
	// returning: the rows that are deleted are answered.
	returning bool
	// picks: a value comes from a row that the changed one is joined with, of
	// which there may be several.
	picks bool
	// noKey: of the several tables that it deletes from one has no key that the conditions compare.
	noKey bool
}

// writeTarget is one table whose rows a statement changes.
type writeTarget struct {
	ref  *ref
	sets []assignment // UPDATE
	// assigned is what sets says by column: see lastAssignments.
	assigned map[*catalog.Column]*assignment
	// besides are columns that the statement sets in the same table by another alias.
	//
	// Counter-example: an index over (a, b), and UPDATE t x JOIN t y ON x.id = y.id SET
	// x.a = 5, y.b = 6 WHERE x.b = 1 AND y.a = 2. The key is (5, 6), neither (5, 1) nor
	// (2, 6).
	besides []*catalog.Column
}

// planUpdate plans UPDATE.
func (a *analysis) planUpdate(n *ast.UpdateStmt) (*plan.Rows, *text.Error) {
	s := a.writeScope(n.With, n.TableRefs, n.Where, n.Order, n.Limit)
	if a.err != nil {
		return nil, a.err
	}
	for _, r := range s.refs {
		if r.system || r.table != nil && r.table.IsView {
			if !r.system {
				return nil, refuseThroughView(r.table)
			}
			return nil, text.NotSupported("UPDATE of the system table %s is not supported: send it to one shard with /* shunt: shard=NAME */", r.alias)
		}
	}
	act := &writeAction{sql: a.st.Src, ignore: n.IgnoreErr}
	for _, x := range n.List {
		a.expressions(s, x.Expr)
		c, ok := a.resolve(x.Column, s)
		if !ok || c.ref.scope != s {
			return nil, a.unresolved(x.Column, s)
		}
		i := slices.IndexFunc(act.targets, func(t *writeTarget) bool { return t.ref == c.ref })
		if i < 0 {
			i = len(act.targets)
			act.targets = append(act.targets, &writeTarget{ref: c.ref})
		}
		t := act.targets[i]
		as := assignment{col: c.col, value: evalExpr(a.st, x.Expr)}
		if src, ok := a.columnOf(x.Expr, s); ok && src == c {
			as.self = true
		}
		t.sets = append(t.sets, as)
		act.picks = act.picks || len(s.refs) > 1 && a.picks(x.Expr, s, t.ref)
	}
	act.q = a.routeOf(s, a.countSpoils("UPDATE", n.Limit))
	return a.finishWrite(plan.Update, act, n)
}

// planDelete plans DELETE.
func (a *analysis) planDelete(n *ast.DeleteStmt) (*plan.Rows, *text.Error) {
	s := a.writeScope(n.With, n.TableRefs, n.Where, n.Order, n.Limit)
	if a.err != nil {
		return nil, a.err
	}
	act := &writeAction{sql: a.st.Src, delete: true}
	if n.Tables != nil {
		for _, t := range n.Tables.Tables {
			var found *ref
			for _, r := range s.refs {
				if a.sameName(r.alias, t.Name.O) && (t.Schema.O == "" || a.sameName(r.schema, t.Schema.O)) {
					if found != nil {
						return nil, text.NotSupported("DELETE from %s, which names two tables here, is not supported yet: give them aliases", t.Name.O)
					}
					found = r
				}
			}
			if found == nil || found.table == nil {
				return nil, text.NewError(mysqlerr.UnknownTable, "Unknown table '"+t.Name.O+"' in MULTI DELETE")
			}
			act.targets = append(act.targets, &writeTarget{ref: found})
		}
	} else if len(s.refs) == 1 {
		act.targets = []*writeTarget{{ref: s.refs[0]}}
	}
	spoils := a.countSpoils("DELETE", n.Limit)
	if a.st.Returning && n.Order != nil {
		spoils = "DELETE with ORDER BY and RETURNING" // the rows are answered in that order
	}
	act.noKey = len(act.targets) > 1 && slices.ContainsFunc(act.targets, func(t *writeTarget) bool { return !a.comparesKey(t.ref) })
	act.q = a.routeOf(s, spoils) // which takes the conditions
	return a.finishWrite(plan.Delete, act, n)
}

// countSpoils: LIMIT counts rows over all shards, which no shard can, and so does
// MariaDB's ROWNUM(). ORDER BY alone says in which order rows are changed, for the sake
// of unique keys: each shard has its own, and orders its own rows.
//
// Counter-example: UPDATE t SET n = (@i := @i + 1) ORDER BY id, but assigning
// variables is refused anyway.
func (a *analysis) countSpoils(verb string, limit *ast.Limit) string {
	switch {
	case limit != nil:
		return verb + " with LIMIT"
	case a.counted:
		return verb + " with ROWNUM()"
	}
	return ""
}

func (a *analysis) writeScope(w *ast.WithClause, refs *ast.TableRefsClause, where ast.ExprNode, order *ast.OrderByClause, limit *ast.Limit) *scope {
	s := &scope{}
	a.writes = s
	if a.st.SetVar {
		a.refuse(refuseSetVar())
	}
	a.with(w, s)
	a.from(refs, s)
	s.where = conjuncts(where, s, nil)
	if where != nil {
		a.expressions(s, where)
	}
	a.expressions(s, order, limit)
	return s
}

func (a *analysis) unresolved(c *ast.ColumnName, s *scope) *text.Error {
	if len(s.refs) == 1 && s.refs[0].table != nil && !s.refs[0].table.IsView {
		return s.refs[0].noColumn(c.Name)
	}
	return text.NotSupported("which table the column %s of SET belongs to is not known to Shunt: qualify it with the table's name", c.Name.O)
}

func (a *analysis) finishWrite(kind plan.Kind, act *writeAction, n ast.StmtNode) (*plan.Rows, *text.Error) {
	if err := a.refusal(); err != nil {
		return nil, err
	}
	if len(act.targets) == 0 {
		return nil, text.NotSupported("this form of %s is not supported yet: send it to one shard with /* shunt: shard=NAME */", verbOf(kind))
	}
	many := len(a.cat.Shards) > 1
	for _, t := range act.targets {
		r := t.ref
		switch {
		case r.system:
			return nil, text.NotSupported("writing to the system schema %s is not supported: send it to one shard with /* shunt: shard=NAME */", r.schema)
		case r.table == nil:
			return nil, text.NotSupported("%s of the derived table %s is not supported: name its table", verbOf(kind), r.alias)
		case r.table.IsView:
			return nil, refuseThroughView(r.table)
		}
		if r.reference() && r.table.Shards.Len() > 1 && many {
			act.everywhere = true
		}
	}
	for _, t := range act.targets {
		t.assigned = lastAssignments(t.sets)
		for _, other := range act.targets {
			for _, s := range other.sets {
				if other != t && other.ref.table == t.ref.table {
					t.besides = append(t.besides, s.col)
				}
			}
		}
		var set []*catalog.Column
		for _, s := range t.sets {
			if !s.self {
				set = append(set, s.col)
			}
		}
		if !act.delete && len(set) == 0 {
			continue
		}
		if err := movesChildren(t.ref.table, set, act.delete); err != nil {
			return nil, err
		}
	}
	if act.everywhere {
		t := act.targets[0].ref.table
		for _, r := range a.refs {
			if r.table != nil && r.reference() {
				continue
			}
			act.others = true
			if r.table == nil || act.picks || slices.ContainsFunc(act.targets, func(t *writeTarget) bool { return !t.ref.reference() }) {
				return nil, refuseCopies(verbOf(kind), t)
			}
		}
		if a.volatile != "" {
			return nil, refuseVolatile(a.volatile, t)
		}
		if act.q.spoils != "" && !a.inKeyOrder(n, act.targets[0].ref) {
			return nil, text.NotSupported("%s of the reference table %s might change other rows in each copy: name the rows in WHERE", act.q.spoils, t.Name)
		}
		for _, t := range act.targets {
			act.clock = act.clock || a.clock || keepsTime(t.ref.table)
			for _, s := range t.sets {
				if s.value.Kind == text.Default && s.col.DefaultExpr && !s.col.DefaultNow {
					return nil, refuseVolatile("the default of "+s.col.Name, t.ref.table)
				}
			}
		}
	}
	rows := a.rows(kind, act)
	bindableOf(rows).locks = lockedKeysOf(act.q, act.q.spoils != "")
	rows.Keyed = a.planKeyed(act, n)
	return rows, nil
}

func refuseCopies(verb string, t *catalog.Table) *text.Error {
	return text.NotSupported("%s of the reference table %s by the rows of other tables would change each copy in another way: read the rows first and name them by literals", verb, t.Name)
}

// picks reports a value that may come from another row than the one it is for.
//
// Rule same rows: which rows of a reference table a join changes is the same in
// each copy, but not of which partner a value is. Counter-example: UPDATE
// countries c JOIN users u ON u.country = c.code SET c.name = u.name.
func (a *analysis) picks(e ast.ExprNode, s *scope, target *ref) bool {
	return finds(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SubqueryExpr:
			return true
		case *ast.ColumnNameExpr:
			c, ok := a.resolve(n.Name, s)
			return !ok || c.ref != target
		}
		return false
	})
}

func verbOf(k plan.Kind) string {
	switch k {
	case plan.Insert:
		return "INSERT"
	case plan.Replace:
		return "REPLACE"
	case plan.Update:
		return "UPDATE"
	case plan.Delete:
		return "DELETE"
	default:
		return "this"
	}
}

func (w *writeAction) bind(b *binder) (*plan.Bound, error) {
	r := w.q.route(b)
	if w.everywhere {
		set := w.targets[0].ref.table.Shards
		for _, t := range w.targets {
			set = set.Intersect(t.ref.table.Shards)
		}
		r = routed{set: set, how: "reference", reason: w.targets[0].ref.table.Name + " is on every shard: each copy changes"}
		if w.others {
			r.refuse = refuseCopies(w.verb(), w.targets[0].ref.table)
		}
	}
	var out *plan.Bound
	if r.refuse != nil && !b.ungathered {
		over, set, err := w.gathered(b.explained(), &r)
		switch {
		case w.returning: // the rows of one shard alone are answered as they are deleted
			r.refuse = text.NotSupported("DELETE ... RETURNING over several shards is not supported with ORDER BY, LIMIT, or a condition on rows of other shards: SELECT the rows FOR UPDATE in a transaction, and delete them")
		case over != nil:
			out, r.set, r.refuse = over, set, nil
		case err != nil:
			r.refuse = err
		}
	}
	e := newEffects(b)
	for _, t := range w.targets {
		if w.delete {
			t.deleted(e, r.set)
			continue
		}
		if err := t.keepsShard(b); err != nil {
			return nil, err
		}
		t.updated(e, r.set)
	}
	if out == nil {
		out = b.sendTo(r.set, w.sql)
		out.Access, out.Reason, out.Refuse = r.how, r.reason, r.refuse
	}
	if out.Refuse != nil && w.q.spoils != "" && !w.returning {
		t := w.targets[0].ref.table
		out.Refuse = text.NotSupported("%s over %d shards is not supported, since no shard knows how many rows the others change: in a transaction, SELECT %s FROM %s with this WHERE, ORDER BY and LIMIT, and name the rows that it finds in WHERE; or add a predicate on the shard key",
			w.q.spoils, r.set.Len(), rowName(t), t.Name)
	}
	out.SameTime = out.SameTime || w.everywhere && w.clock
	for _, t := range w.targets {
		if c := spoken.CountedColumn(t.ref.table); c != nil && changes(t.sets, c) {
			out.Doubts = append(out.Doubts, t.ref.table)
		}
	}
	e.into(out)
	var err *text.Error
	if out.Unique, err = w.unique(b, r.set); err != nil {
		return nil, err
	}
	return out, nil
}

// rowName is what names a row: its primary key's columns.
func rowName(t *catalog.Table) string {
	if len(t.PrimaryKey) == 0 {
		return "*"
	}
	var out []string
	for _, c := range t.PrimaryKey {
		out = append(out, c.Name)
	}
	return strings.Join(out, ", ")
}

// pinned gives the component that the WHERE says a column has, for all rows
// that the statement is about: col = literal among its conjuncts.
func (r *ref) pinned(b *binder, c *catalog.Column) (component, *cnode) {
	kids := []*cnode{r.tree}
	if r.tree.op == opAnd {
		kids = r.tree.kids
	}
	for _, k := range kids {
		if k.op != opIn || k.col != c {
			continue
		}
		if keys, _, ok := b.equalKeys(k); ok && len(keys) == 1 {
			return component{key: keys[0]}, k
		}
	}
	return component{}, nil
}

// keepsShard refuses SET of the shard key, but for the value that WHERE says it
// has, which frameworks write that save all of a row's columns.
func (t *writeTarget) keepsShard(b *binder) *text.Error {
	table := t.ref.table
	if table.Placement != catalog.Hash || table.ShardKey == nil || table.Shards.Len() == 1 {
		return nil
	}
	for _, s := range t.sets {
		if s.col == table.ShardKey && !s.self && !t.same(b, s) {
			return refuseShardKey(table)
		}
	}
	if movesByItself(table, t.sets) {
		return refuseShardKey(table)
	}
	return nil
}

// movesByItself reports a shard key that changes with other columns.
//
// Counter-example: users is hashed by seen, a DATETIME ON UPDATE CURRENT_TIMESTAMP.
// UPDATE users SET name = 'x'.
func movesByItself(t *catalog.Table, sets []assignment) bool {
	changed := slices.ContainsFunc(sets, func(s assignment) bool { return !s.self && s.col != t.ShardKey })
	return changed && (t.ShardKey.Generated || t.ShardKey.OnUpdate && !assigns(sets, t.ShardKey))
}

// same reports an assignment of the value that WHERE pins the column to.
func (t *writeTarget) same(b *binder, s assignment) bool {
	was, _ := t.ref.pinned(b, s.col)
	if was.key == nil {
		return false
	}
	e := &effects{b: b}
	will := e.stored(s.col, s.value)
	return will.key != nil && !will.null && string(was.key) == string(will.key)
}

// deleted: no key arises; entries of the rows that go are stale.
func (t *writeTarget) deleted(e *effects, set catalog.ShardSet) {
	table := t.ref.table
	t.verify(e, set, "DELETE", table.Indexes, nil)
	e.triggers(table, set, "DELETE")
	e.deletes(table, set)
}

// verify asks for the look at entries that may be stale: those of the keys that
// WHERE names, where it names one full key, else the whole table's.
func (t *writeTarget) verify(e *effects, set catalog.ShardSet, operation string, indexes []*catalog.Index, columns []string) {
	table := t.ref.table
	var scan []*catalog.Index
	for _, ix := range indexes {
		if p, ok := t.fullKey(e.b, ix); ok && table.Differs == "" {
			e.maintain = append(e.maintain, plan.Maintenance{
				Table: table, Operation: operation, Shards: set,
				Indexes: []*catalog.Index{ix}, Columns: columns, Keys: []plan.Probe{p}, Logged: true,
			})
			continue
		}
		scan = append(scan, ix)
	}
	e.maintainIndexes(table, operation, set, scan, columns)
}

// fullKey is the one key of an index that all changed rows have.
func (t *writeTarget) fullKey(b *binder, ix *catalog.Index) (plan.Probe, bool) {
	p := plan.Probe{Index: ix}
	for _, c := range ix.Columns {
		comp, k := t.ref.pinned(b, c)
		if comp.key == nil {
			return p, false
		}
		_, vals, _ := b.equalKeys(k)
		p.Key = append(p.Key, comp.key...)
		p.Values = append(p.Values, vals[0])
	}
	return p, true
}

// updated adds or marks the keys that an UPDATE makes. A key is known where
// each of its columns is set to a literal or pinned by WHERE.
func (t *writeTarget) updated(e *effects, set catalog.ShardSet) {
	table := t.ref.table
	assigned := t.assigned
	changed := make([]*catalog.Column, 0, len(assigned))
	// respelt keep their keys, and what is computed from them may change.
	//
	// Counter-example: kids.code REFERENCES codes(code) ON UPDATE CASCADE, and kids.spelt is
	// HEX(code). UPDATE codes SET code = 'A' WHERE code = 'a'.
	var respelt []*catalog.Column
	moves := false
	for c, s := range assigned {
		switch inKey := slices.Contains(table.PrimaryKey, c); {
		case s != nil && s.self:
		case inKey && s != nil && t.same(e.b, *s):
			if c.Charset != "" {
				respelt = append(respelt, c)
			}
		default:
			changed = append(changed, c)
			moves = moves || inKey
		}
	}
	for _, c := range table.PrimaryKey {
		moves = moves || len(changed)+len(respelt) > 0 && changesUnnamed(c, assigns(t.sets, c))
	}
	if moves {
		// A scan that resumes after the primary key that it saw last would
		// miss a row that moved from after it to before it: see
		// touchesPrimaryKey.
		e.markAll(table, set, "UPDATE")
	}
	var affected []*catalog.Index
	for _, ix := range table.Indexes {
		touched := false
		for _, c := range ix.Columns {
			touched = touched || slices.Contains(changed, c) || changesUnnamed(c, assigns(t.sets, c))
		}
		if !touched {
			continue
		}
		affected = append(affected, ix)
		var few [4]component
		comps := append(few[:0], make([]component, len(ix.Columns))...)
		for k, c := range ix.Columns {
			s, set := assigned[c]
			switch {
			case changesUnnamed(c, set), slices.Contains(t.besides, c):
			case set && s == nil: // assigned twice
			case set && !s.self:
				comps[k] = e.stored(c, s.value)
			default:
				comps[k], _ = t.ref.pinned(e.b, c)
			}
		}
		for id := range set.All {
			e.row(ix, id, comps, "UPDATE")
		}
	}
	if len(affected) > 0 {
		t.verify(e, set, "UPDATE", affected, columnNames(changed))
	}
	e.triggers(table, set, "UPDATE")
	e.updates(table, append(changed, respelt...), set)
}
