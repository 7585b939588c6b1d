package planner

import (
	"cmp"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// spoilsConcatenation names what makes the answer of a SELECT more than the
// concatenation of the shards' answers.
//
// Rule plain rows: counter-examples are
//
//	SELECT COUNT(*) FROM users             one number per shard
//	SELECT DISTINCT country FROM users     a country once per shard
//	SELECT * FROM users LIMIT 10           10 rows per shard
//	SELECT * FROM users ORDER BY name      each shard's rows in order, not all
func spoilsConcatenation(n ast.Node) string {
	sel, ok := n.(*ast.SelectStmt)
	if !ok {
		return "UNION, EXCEPT and INTERSECT"
	}
	f := featuresOf(sel.Fields)
	switch {
	case sel.Kind == ast.SelectStmtKindValues:
		return "VALUES"
	case sel.Distinct:
		return "DISTINCT"
	case sel.GroupBy != nil:
		return "GROUP BY"
	case sel.Having != nil:
		return "HAVING"
	case f.aggregate != "":
		return "the aggregate " + strings.ToUpper(f.aggregate) + "()"
	case f.window || len(sel.WindowSpecs) > 0:
		return "a window function"
	case sel.OrderBy != nil:
		return "ORDER BY"
	case sel.Limit != nil:
		return "LIMIT"
	}
	return ""
}

// spoilsRows is spoilsConcatenation of a query that has been read.
func (a *analysis) spoilsRows(n ast.Node) string {
	return cmp.Or(spoilsConcatenation(n), a.hiddenAggregate)
}

// features are what a query block's expressions have of it, outside of subqueries.
type features struct {
	aggregate string // the name of the last one
	window    bool
}

func featuresOf(nodes ...ast.Node) (f features) {
	for _, n := range nodes {
		walk(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AggregateFuncExpr:
				f.aggregate = n.F
			case *ast.WindowFuncExpr:
				f.window = true
			case *ast.SubqueryExpr:
				return false
			case *ast.FuncCallExpr:
				if aggregateName(n.FnName.L) {
					f.aggregate = n.FnName.L
				}
			}
			return true
		})
	}
	return f
}

// aggregateName knows the aggregates that the parser takes for functions.
func aggregateName(name string) bool {
	switch name {
	case "st_collect", "json_arrayagg", "json_objectagg", "any_value", "grouping", "median", "percentile_cont", "percentile_disc",
		"std", "stddev", "variance", "group_concat", "xmlagg":
		return true
	}
	return false
}

// selectAction sends the text as it is to the shards of its route where that
// answers it, else merges what the shards answer, else gathers.
type selectAction struct {
	q      *queryRoute
	sql    string
	kind   plan.Kind
	merge  *merger   // nil: no merge is exact
	gather *gatherer // nil: a gather would not be
	// inOrder merges by the primary key what is asked for by shard keys, and needs no
	// merge; nil: one shard's rows come after the other's.
	inOrder *plan.Merge
	// derived plans the same with derived tables read as tables, nil where there
	// are none. It parses: only a statement that needs it pays for it.
	derived func() *selectAction
	// plain is the client's text where sql has the definitions of views in it, and
	// knows the shards that have those views. view is why it has not.
	plain string
	// covering are the plan's.
	covering []*catalog.Index
	knows    catalog.ShardSet
	view     *text.Error
}

func (s *selectAction) bind(b *binder) (*plan.Bound, error) {
	out, err := s.send(b)
	if err == nil && len(s.covering) > 0 {
		out.Covered = b.covered(s.q.refs[0], s.covering)
	}
	return out, err
}

// send says what is sent where.
func (s *selectAction) send(b *binder) (*plan.Bound, error) {
	if id, ok := s.q.byOneKey(b); ok {
		out := b.sendTo(catalog.Only(id), s.textFor(catalog.Only(id)))
		out.Access = shardKeyAccess
		return out, nil
	}
	r, merge := s.q.route(b), s.merge
	if r.refuse != nil && s.derived != nil {
		if again := s.derived(); again != nil {
			if d := again.q.route(b); d.refuse == nil || d.mergeable && again.merge != nil {
				r, merge = d, again.merge
			}
		}
	}
	if r.refuse != nil && r.mergeable && merge != nil {
		if out, ok := merge.bind(b, &r); ok {
			if s.inOrder != nil && r.how == shardKeyAccess {
				out.Merge.Order, out.Merge.Likely = s.inOrder.Order, true
				if !b.brief {
					out.Reason += ", by primary key"
				}
			}
			return out, nil
		}
	}
	if r.refuse != nil && s.gather != nil && !b.ungathered {
		out, refusal := s.gather.bind(b.explained())
		if out != nil {
			return out, nil
		}
		if refusal != nil {
			r.refuse = refusal
		}
	}
	if r.refuse != nil && s.view != nil {
		r.refuse = s.view
	}
	out := b.sendTo(r.set, s.textFor(r.set))
	out.Access, out.Reason = r.how, r.reason
	out.Refuse, out.Probes, out.Alternatives = r.refuse, r.probes, r.holders
	if s.inOrder != nil && r.refuse == nil && r.how == shardKeyAccess && len(out.Statements) > 1 {
		out.Plan, out.Merge = "merge", s.inOrder
		if !b.brief {
			out.Reason += "; merged: by primary key"
		}
	}
	return out, nil
}

// textFor is what some shards get.
func (s *selectAction) textFor(set catalog.ShardSet) string {
	if s.plain != "" && s.knows.Contains(set) {
		return s.plain
	}
	return s.sql
}

// planSelect plans SELECT, TABLE, VALUES, UNION and WITH.
func (a *analysis) planSelect(n ast.StmtNode) (*plan.Rows, *text.Error) {
	a.selects = true
	main := a.query(n, nil, false)
	if a.err != nil {
		return nil, a.err
	}
	kind := plan.Select
	if sel, ok := n.(*ast.SelectStmt); ok && sel.LockInfo != nil && sel.LockInfo.LockType != ast.SelectLockNone {
		kind = plan.Locking
	}
	if kind == plan.Select && (a.st.Has("for") || a.st.Has("lock")) && spoken.HasLock(a.st) {
		kind = plan.Locking // in a branch of a union or a subquery
	}
	if len(a.sequences) > 0 {
		kind = plan.Locking // it changes something
	}
	if kind == plan.Locking && len(a.assigned) > 0 {
		return nil, refuseAssigned(a.assigned[0])
	}
	sys := a.planSystem()
	merge := a.planMerge(n, main)
	q := a.routeOfUnion(main, a.concatenated(n), a.spoils(n))
	var derived func() *selectAction
	if kind == plan.Select {
		derived = a.planDerived()
	}
	gather := a.planGather(n, q)
	if err := a.refusal(); err != nil {
		return nil, err
	}
	act := &selectAction{q: q, sql: a.st.Src, kind: kind, merge: merge, gather: gather, derived: derived}
	if order := a.primaryOrder(n, q); order != nil {
		act.inOrder = &plan.Merge{Order: order, Likely: true, Count: plan.NoLimit}
	}
	rows := a.rows(kind, act)
	if kind == plan.Select {
		act.covering = a.covering(n)
		rows.Covering = act.covering
	}
	if sys != nil {
		sys.inner = act
		bindableOf(rows).action = sys
	}
	rows.Assigns = a.assigned
	bindableOf(rows).locks = a.lockedRows(n, q)
	return rows, nil
}
