package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// gatheredWrite is an UPDATE or DELETE whose joins or subqueries need rows of
// other shards than those that hold what it changes:
//
//	UPDATE users u JOIN orders o ON o.total = u.paid SET u.name = o.code
//	       └─ stays ─┘  └─ copied to each shard with users to change ─┘
//
// The tables that it changes stay where they are, and with them what is
// co-located; all others are copied to every shard of the write, where they are
// what a reference table is. There the client's text runs with the names of the
// copies in it. Each row that it changes is on one shard, so what the shards do
// together is what one server would.
type gatheredWrite struct {
	gatherable
	// stays are the references that are not copied, bounding those of them
	// without whose rows nothing is changed.
	stays    map[*ref]bool
	bounding []*ref
	clock    bool
	// varies says what might answer otherwise on each shard, "" for nothing.
	varies string
	byKey  bool
}

// gathered is the write over copies. It is nil where that can't be: the route's
// own refusal says why, unless there is a better one.
func (w *writeAction) gathered(b *binder, as *routed) (*plan.Bound, catalog.ShardSet, *text.Error) {
	q, err := w.readGathered(b)
	if err != nil || q == nil {
		return nil, catalog.ShardSet{}, err
	}
	t := w.targets[0].ref.table
	set := t.Shards
	var found reach
	for _, r := range q.bounding {
		got := b.reach(r)
		set = set.Intersect(got.set)
		found.used = mergeAccess(found.used, got.used)
		found.doubts = append(found.doubts, got.doubts...)
	}
	how, reason := b.describe(found, t, set)
	if w.everywhere {
		set, how, reason = as.set, as.how, as.reason
	}
	if set.Empty() {
		set = catalog.Only(anyOf(b.cat, t.Shards, found))
		reason += "; one answers that there is nothing"
	}
	if set.Len() > 1 {
		switch {
		case w.q.spoils != "":
			return nil, set, nil
		case q.varies != "":
			return nil, set, refuseGather(q.varies+" in a subquery of "+w.verb()+" over several shards, each of which might answer it in another way,", "read its rows first and name them by literals")
		}
	}
	out := b.sendTo(set, w.sql)
	out.Plan, out.Access = "gather", how
	out.Gather = &plan.Gather{Text: q.text, Narrower: &narrower{b, q.refs}, ByKey: q.byKey}
	out.SameTime = q.clock && set.Len() > 1 // and of reference tables, see bind
	knowing := b.cat.All
	twice := false
	for i, r := range q.refs {
		x := q.copies[i]
		if !x.Stays {
			b.aim(&x, r)
			x.Stays = x.InPlace.Contains(set)
			twice = twice || slices.ContainsFunc(w.targets, func(t *writeTarget) bool { return t.ref.table == r.table })
		}
		knowing = knowing.Intersect(r.table.Shards)
		out.Gather.Refs = append(out.Gather.Refs, x)
	}
	if twice && knowing.Empty() {
		// A server may refuse to read what it changes (1093), and none can be
		// asked.
		return nil, set, nil
	}
	out.Reason = reason + "; what it reads of other shards is copied there first"
	return out, set, nil
}

func (w *writeAction) verb() string {
	if w.delete {
		return "DELETE"
	}
	return "UPDATE"
}

// copyLock: one server reads the other tables of a write with shared locks, and
// as they are now, whatever an older snapshot shows. So do the copies: what they
// were made of stays until the write is committed. Counter-example: DELETE FROM
// items WHERE user_id NOT IN (SELECT id FROM users). A user who comes after the
// copy was made, with items, would lose these.
const copyLock = " LOCK IN SHARE MODE"

// readGathered reads the statement once more, for its copies. Without an error
// it is nil where there can be none.
func (w *writeAction) readGathered(b *binder) (*gatheredWrite, *text.Error) {
	st, err := text.Read(w.sql, *b.settings, b.cat)
	if err != nil {
		return nil, err
	}
	n, err := (&Planner{}).parse(st, b.cat)
	if err != nil {
		return nil, err
	}
	a := &analysis{st: st, cat: b.cat, joined: &joined{nodes: map[*ref]*ast.TableName{}, on: map[*ref][]cond{}}}
	var main *scope
	switch n := n.(type) {
	case *ast.UpdateStmt:
		main = a.writeScope(n.With, n.TableRefs, n.Where, n.Order, n.Limit)
		for _, x := range n.List {
			a.expressions(main, x.Expr)
		}
	case *ast.DeleteStmt:
		main = a.writeScope(n.With, n.TableRefs, n.Where, n.Order, n.Limit)
	}
	if a.err != nil || main == nil || len(a.refs) != len(w.q.refs) || spoken.HasLock(st) {
		return nil, a.err
	}
	if len(a.refs) > maxCopies {
		return nil, refuseGather("this statement with so many tables over several shards", "split it")
	}
	q := &gatheredWrite{gatherable: gatherable{refs: a.refs}, clock: a.clock}
	var targets []*ref
	for _, t := range w.targets {
		targets = append(targets, a.refs[slices.Index(w.q.refs, t.ref)])
	}
	for _, r := range a.refs {
		if r.system || r.table.IsView || len(r.table.Columns) == 0 || r.through != nil {
			return nil, nil
		}
		a.plant(r)
	}
	exempt := map[*ref]bool{}
	if w.everywhere {
		q.stays = map[*ref]bool{}
		for _, r := range targets {
			q.stays[r] = true
		}
	} else {
		q.stays, q.bounding = staying(main, targets, a.refs)
		exempt = q.stays
	}
	if q.stays == nil {
		return nil, refuseGather(w.verb()+" of several tables whose rows are not joined on their shard keys, over several shards,", "in a transaction, SELECT the keys of the rows FOR UPDATE, and change each table by a statement of its own")
	}
	if _, err := meaning(n); err != nil {
		return nil, err
	}
	q.varies = a.varies(n, main, exempt, w.everywhere)
	q.byKey = !slices.ContainsFunc(targets, func(r *ref) bool { return !a.comparesKey(r) })
	needs := a.needs(n)
	for _, r := range a.refs {
		c := plan.GatherRef{Table: r.table, Stays: true, Params: []int{}}
		if !q.stays[r] {
			if err := a.mayCopy(r); err != nil {
				return nil, err
			}
			c = a.copyOf(r, needs)
			c.Lock = copyLock
		}
		q.copies = append(q.copies, c)
	}
	if a.err != nil {
		return nil, a.err
	}
	if x, ok := n.(*ast.UpdateStmt); ok && b.cat.MariaDB && len(main.refs) == 1 && readsAssigned(x.List) &&
		slices.ContainsFunc(a.refs, func(r *ref) bool { return !q.stays[r] && r.table == targets[0].table }) {
		return nil, refuseGather("UPDATE over several shards that reads its own table in a subquery, and in SET a column that it has assigned before,", "assign that column last")
	}
	for i, r := range a.refs {
		if !q.stays[r] {
			q.copies[i].Joins = joinsOf(a.refs, q.copies, a.narrowings(r))
		}
	}
	// Last: it changes the tree.
	if q.text, err = a.splice(n); err != nil {
		return nil, err
	}
	return q, nil
}

// comparesKey reports a condition of a reference by which one of its table's keys may find its rows.
func (a *analysis) comparesKey(r *ref) bool {
	return r.usesKey || slices.ContainsFunc(a.conditions(r), func(c cond) bool {
		keyed := func(e ast.ExprNode) bool {
			of, ok := a.columnOf(e, c.scope)
			return ok && of.ref == r && of.col != nil && of.col.Keyed
		}
		switch e := c.expr.(type) {
		case nil:
			return slices.ContainsFunc(c.pair[:], func(of column) bool { return of.ref == r && of.col != nil && of.col.Keyed })
		case *ast.BinaryOperationExpr:
			switch e.Op {
			case opcode.EQ, opcode.NullEQ, opcode.LT, opcode.LE, opcode.GT, opcode.GE:
				return keyed(e.L) || keyed(e.R)
			}
		case *ast.PatternInExpr:
			return !e.Not && keyed(e.Expr)
		case *ast.BetweenExpr:
			return !e.Not && keyed(e.Expr)
		case *ast.PatternLikeOrIlikeExpr:
			return !e.Not && keyed(e.Expr)
		case *ast.CompareSubqueryExpr:
			return keyed(e.L)
		case *ast.IsNullExpr:
			return !e.Not && keyed(e.Expr)
		}
		return false
	})
}

// readsAssigned reports that the value of an assignment is made of a column that one before
// it has assigned.
//
// Rule old values: where a subquery reads the table that an UPDATE changes, MariaDB assigns
// what the row's columns were, and else goes from left to right. Counter-example: UPDATE
// users SET age = age + 1, name = age WHERE age < (SELECT AVG(age) FROM users): over a copy
// the name would be the new age.
func readsAssigned(list []*ast.Assignment) bool {
	names := map[string]bool{}
	assigned := func(n ast.Node) bool {
		x, ok := n.(*ast.ColumnNameExpr)
		return ok && names[x.Name.Name.L]
	}
	for _, x := range list {
		if finds(x.Expr, assigned) {
			return true
		}
		names[x.Column.Name.L] = true
	}
	return false
}

// staying finds the references that a write leaves where they are, nil where
// some of those that it changes are not together.
//
// Rule together: the copies are complete on every shard, as reference tables
// are. So what findAnchor says of co-location holds for what is not copied, with
// a reference that is changed as the anchor. Counter-example: DELETE u, o FROM
// users u JOIN orders o ON o.buyer = u.id. Neither the users nor the orders can
// be copied, and an order may be on another shard than its buyer.
//
// Rule one target: a single reference that is changed needs no other beside it,
// nullable or not: which rows it is joined with depends on no other row of it.
func staying(main *scope, targets, refs []*ref) (stays map[*ref]bool, bounding []*ref) {
	var spread []*ref
	for _, r := range refs {
		if r.scope == main && r.spread() {
			spread = append(spread, r)
		}
	}
	for _, anchor := range targets {
		if anchor.nullable || !anchor.sharded() {
			continue
		}
		in := map[*ref]bool{anchor: true}
		grow(in, spread)
		if slices.ContainsFunc(targets, func(t *ref) bool { return !in[t] }) {
			continue
		}
		for _, r := range spread {
			if in[r] && !r.nullable {
				bounding = append(bounding, r)
			}
		}
		grow(in, refs)
		return in, bounding
	}
	if len(targets) == 1 {
		return map[*ref]bool{targets[0]: true}, targets
	}
	return nil, nil
}
