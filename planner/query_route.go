package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// queryRoute says where a statement's table references send it.
type queryRoute struct {
	refs []*ref // of all blocks
	main []*ref // of the outermost block
	// anchor is a reference of the main block that every row of the answer has
	// a row of, on whose shard all the other sharded rows of that row are: the
	// answer is then the concatenation of what the shards answer. nil: none.
	anchor *ref
	// inner are references, the anchor among them, without which no row is
	// answered: each one's reach bounds the route.
	inner []*ref
	// key is the anchor's only condition on its shard key, which asks for one value, and beyond are its others; nil where
	// more is to be looked at (byOneKey).
	key    *cnode
	beyond []*cnode
	// beside are references of subqueries that see, for each row of the main
	// block, only rows on the anchor's shard.
	beside map[*ref]bool
	// spoils says what can't be answered by concatenation, "" for nothing.
	spoils string
	// operands are those of a UNION ALL whose shards' answers may be
	// concatenated where those of each operand may.
	operands []*queryRoute
}

// maxConditions bounds what is looked at of a statement: each of a table's conditions,
// which for a subquery are those around it too.
const maxConditions = 2_000_000

// routeOf plants the conditions of all references and looks for an anchor.
func (a *analysis) routeOf(main *scope, spoils string) *queryRoute {
	return a.routeOfUnion(main, nil, spoils)
}

// routeOfUnion is routeOf for a statement that may be a UNION ALL of blocks.
func (a *analysis) routeOfUnion(main *scope, operands []operandBlock, spoils string) *queryRoute {
	q := &queryRoute{refs: a.refs, spoils: spoils}
	conditions := 0
	for _, r := range a.refs {
		if conditions += r.countConditions(); conditions > maxConditions {
			a.refuse(text.NotSupported("conditions of more than %d tables and subqueries together are not supported: send the statement in parts", maxConditions))
			r.tree = allRows
			continue
		}
		a.plant(r)
	}
	for _, block := range operands {
		o := &queryRoute{refs: block.refs}
		for _, r := range o.refs {
			if r.scope == block.scope {
				o.main = append(o.main, r)
			}
		}
		o.findAnchor()
		q.operands = append(q.operands, o)
	}
	if main != nil {
		for _, r := range a.refs {
			if r.scope == main {
				q.main = append(q.main, r)
			}
		}
		q.findAnchor()
		q.findKey()
	}
	for _, r := range a.refs {
		// Plans are cached: they must not keep the syntax tree alive.
		r.on, r.class = nil, nil
		for s := r.scope; s != nil; s = s.parent {
			s.where = nil
		}
	}
	return q
}

// spread reports a reference whose table is not on every shard in full.
func (r *ref) spread() bool { return r.table != nil && !r.reference() }

// findAnchor looks for co-location.
//
// Rule co-location: every sharded reference but the anchor has, among the
// conditions that each of its rows in the answer satisfies, the equality of its
// shard key with that of another reference on the way to the anchor.
// Counter-example: users u JOIN orders o ON o.buyer = u.id. An order of buyer 5
// may be on any shard, so each shard alone would answer too few pairs.
//
// Rule preserved anchor: the anchor is never filled with NULLs.
// Counter-example: countries c LEFT JOIN users u ON u.country = c.code, where
// countries is a reference table: each shard would answer countries that have
// no users there, though another shard has some.
func (q *queryRoute) findAnchor() {
	var spread []*ref
	for _, r := range q.main {
		if r.spread() {
			spread = append(spread, r)
		}
	}
	for _, candidate := range spread {
		if candidate.nullable || candidate.table.IsView || !candidate.sharded() {
			continue
		}
		in := map[*ref]bool{candidate: true}
		grow(in, spread)
		if len(in) != len(spread) {
			continue
		}
		q.anchor = candidate
		// Rule correlated co-location: a subquery over a sharded table runs
		// shard by shard where the conditions of its block equate its shard key
		// with that of a row around it. Counter-example: WHERE u.age > (SELECT
		// AVG(total) FROM orders), which is over the orders of all users.
		q.beside = map[*ref]bool{}
		grow(in, q.refs)
		for r := range in {
			q.beside[r] = true
		}
		for _, r := range spread {
			if !r.nullable {
				q.inner = append(q.inner, r)
			}
		}
		return
	}
}

// findKey looks whether the route is mostly that of one value.
func (q *queryRoute) findKey() {
	if !q.ofOne() || !q.anchor.byKey() {
		return
	}
	all := []*cnode{q.anchor.tree}
	if q.anchor.tree.op == opAnd {
		all = q.anchor.tree.kids
	}
	for i, k := range all {
		switch {
		case k.op != opIn || k.col != q.anchor.table.ShardKey:
		case q.key != nil || k.codec == nil || k.nullSafe || k.row || len(k.values) != 1 || len(k.beside) > 0:
			q.key = nil
			return
		default:
			q.key, q.beyond = k, slices.Concat(all[:i], all[i+1:])
		}
	}
}

// byOneKey is the route by the value of a shard key, for a tenth of what reach costs: that of most statements. What it
// doesn't find (ok is false) reach finds as if it hadn't been asked.
func (q *queryRoute) byOneKey(b *binder) (id catalog.ShardID, ok bool) {
	if q.key == nil || !b.brief {
		return 0, false
	}
	v, _, ok := q.key.values[0].Resolve(b.params)
	if !ok || v.IsNull() || b.modeDoubt(q.key.col) || slices.ContainsFunc(q.beyond, b.never) {
		return 0, false
	}
	key, ok := q.key.codec.Equal(b.components[:0], v)
	b.components = key[:0]
	id = b.cat.ShardOf(key)
	return id, ok && q.anchor.table.Shards.Has(id)
}

// grow adds to a set the references that are linked to one of it, until there
// are no more.
func grow(in map[*ref]bool, from []*ref) {
	for grown := true; grown; {
		grown = false
		for _, r := range from {
			if !in[r] && r.spread() && r.linked(in) {
				in[r], grown = true, true
			}
		}
	}
}

// linked reports whether r's conditions put its rows on the shard of one of a set.
func (r *ref) linked(to map[*ref]bool) bool {
	if !r.byKey() {
		return false
	}
	x, ok := r.class[column{r, r.table.ShardKey}]
	if !ok {
		return false
	}
	for c, y := range r.class {
		if x == y && to[c.ref] && c.ref.byKey() && c.col == c.ref.table.ShardKey {
			return true
		}
	}
	return false
}

func (r *ref) byKey() bool {
	return !r.table.IsView && r.table.Placement == catalog.Hash && r.table.ShardKey != nil
}

// routed is the outcome for given values.
type routed struct {
	set         catalog.ShardSet // never empty
	holders     catalog.ShardSet // any one of which would do, if not empty
	how, reason string
	refuse      *text.Error
	// mergeable: the shards' rows, concatenated, are those that the query's
	// FROM and WHERE leave; only what is done with them spoils concatenation.
	mergeable bool
	probes    []plan.Probe
}

// route finds the shards.
//
// Rule one shard: when the union of what all references may reach is one
// shard, that shard answers anything rightly, whatever the statement.
func (q *queryRoute) route(b *binder) routed {
	if q.ofOne() {
		return q.routeOne(b)
	}
	if out, ok := q.unionAll(b); ok {
		return out
	}
	holders := b.cat.All
	var mainSet, rest catalog.ShardSet
	var decisive reach
	var table *catalog.Table
	others, system := "", ""
	for _, r := range q.refs {
		if r.system {
			system = r.alias
		}
		if r.table == nil {
			continue
		}
		if r.reference() || r.table.Placement == catalog.Single && !r.table.IsView {
			holders = holders.Intersect(r.table.Shards)
		}
		if !r.spread() {
			continue
		}
		if !slices.Contains(q.main, r) {
			if q.beside[r] {
				continue
			}
			rest = rest.Union(b.reach(r).set)
			others = r.table.Name
			if table == nil {
				table, decisive = r.table, b.reach(r)
			}
			continue
		}
		if q.anchor == nil {
			got := b.reach(r)
			mainSet = mainSet.Union(got.set)
			if table == nil || len(decisive.used) == 0 {
				table, decisive = r.table, got
			}
		}
	}
	if q.anchor != nil {
		decisive, table = q.anchored(b), q.anchor.table
		mainSet = decisive.set
	}
	if table == nil { // no sharded or single table at all
		return q.anyShard(b, holders, system != "")
	}
	var out routed
	total := mainSet.Union(rest)
	if total.Empty() {
		total = catalog.Only(anyOf(b.cat, table.Shards, decisive))
		out.how, out.reason = b.describe(decisive, table, catalog.ShardSet{})
		if !b.brief {
			out.reason += "; one answers that there is nothing"
		}
	} else {
		out.how, out.reason = b.describe(decisive, table, total)
	}
	out.set = total
	if len(q.refs) == 1 && len(q.main) == 1 && len(decisive.used) == 1 && decisive.used[0].probe != nil {
		out.probes = decisive.used[0].probe
	}
	if total.Len() <= 1 {
		return out
	}
	switch {
	case q.spoils != "":
		out.mergeable = system == "" && others == "" && q.anchor != nil
		out.refuse = refuseSpread(q.spoils, total.Len(), table)
	case system != "":
		// Each shard would join its own system tables.
		out.refuse = text.NotSupported("a query of the system table %s and of %s over %d shards is not supported, since each shard's tells of that shard alone: "+
			"read it by a statement of its own, or send this one to one shard with /* shunt: shard=NAME */", system, table.Name, total.Len())
	case others != "":
		out.refuse = refuseSpread("a subquery, derived table or union that reads "+others, total.Len(), table)
	case q.anchor == nil:
		out.refuse = refuseSpread(q.whyNoAnchor(), total.Len(), table)
	}
	return out
}

// anyShard is the route of what one of some shards can answer: holders, or any. system:
// it reads a system table.
func (q *queryRoute) anyShard(b *binder, holders catalog.ShardSet, system bool) (out routed) {
	if holders.Empty() {
		holders = b.cat.All
	}
	out.how, out.reason = "single", "no table of the schemas is read: any shard will do"
	if system {
		// information_schema of a shard knows only what is there.
		if most := spoken.Fullest(b.cat).Intersect(holders); !most.Empty() {
			holders = most
		}
		out.reason = "a system table: a shard that holds as many tables as any"
	}
	out.set, out.holders = catalog.Only(holders.First()), holders
	for _, r := range q.refs {
		if r.reference() {
			out.how, out.reason = "reference", r.table.Name+" is on every shard"
		}
	}
	return out
}

// ofOne reports that there is one table, which is the anchor.
func (q *queryRoute) ofOne() bool {
	return len(q.refs) == 1 && q.anchor == q.refs[0] && q.anchor.derived == nil && len(q.operands) == 0
}

// routeOne is route for one table that is the anchor: for most statements.
func (q *queryRoute) routeOne(b *binder) (out routed) {
	if id, ok := q.byOneKey(b); ok {
		out.set, out.how = catalog.Only(id), shardKeyAccess
		return out
	}
	got, table := b.reach(q.anchor), q.anchor.table
	out.set = got.set
	if len(got.used) == 1 {
		out.probes = got.used[0].probe
	}
	if got.set.Empty() {
		out.set = catalog.Only(anyOf(b.cat, table.Shards, got))
		out.how, out.reason = b.describe(got, table, catalog.ShardSet{})
		if !b.brief {
			out.reason += "; one answers that there is nothing"
		}
		return out
	}
	out.how, out.reason = b.describe(got, table, got.set)
	if n := got.set.Len(); n > 1 && q.spoils != "" {
		out.mergeable = true
		out.refuse = refuseSpread(q.spoils, n, table)
	}
	return out
}

// anchored is what bounds the rows beside an anchor.
func (q *queryRoute) anchored(b *binder) reach {
	out := reach{set: q.anchor.table.Shards}
	for _, r := range q.inner {
		got := b.reach(r)
		out.set = out.set.Intersect(got.set)
		out.used = mergeAccess(out.used, got.used)
		out.doubts = append(out.doubts, got.doubts...)
	}
	return out
}

// unionAll is the route of a UNION ALL that is answered by concatenation.
//
// Rule rows in every operand: each operand's rows lie beside an anchor of its
// own. Counter-example: SELECT 0 UNION ALL SELECT id FROM users, where each
// shard would answer a row 0.
//
// Rule tables of every operand: each shard knows all tables, those too of which it
// needs no rows. Counter-example: SELECT id FROM users WHERE id = 5 AND EXISTS
// (SELECT 1 FROM settings) UNION ALL SELECT id FROM users WHERE id = 6, where
// settings is on the shard of user 5 alone.
func (q *queryRoute) unionAll(b *binder) (out routed, ok bool) {
	var how, reasons []string
	for _, o := range q.operands {
		r := o.route(b)
		if o.anchor == nil || r.refuse != nil {
			return routed{}, false
		}
		out.set = out.set.Union(r.set)
		if !slices.Contains(how, r.how) {
			how = append(how, r.how)
		}
		if !slices.Contains(reasons, r.reason) {
			reasons = append(reasons, r.reason)
		}
	}
	for _, o := range q.operands {
		for _, r := range o.refs {
			if r.table != nil && !r.table.Shards.Contains(out.set) {
				return routed{}, false
			}
		}
	}
	out.how, out.reason = strings.Join(how, ","), strings.Join(reasons, "; ")
	return out, len(q.operands) > 0
}

// unionAllOf returns the blocks of a statement that is nothing but SELECTs, each
// of them plain, with UNION ALL between them; nil for any other.
func (a *analysis) unionAllOf(n ast.Node) []operandBlock {
	u, ok := n.(*ast.SetOprStmt)
	if !ok || a.hiddenAggregate != "" || u.With != nil || u.SelectList.With != nil || u.OrderBy != nil || u.Limit != nil ||
		u.SelectList.OrderBy != nil || u.SelectList.Limit != nil {
		return nil
	}
	var operands []operandBlock
	for i, n := range u.SelectList.Selects {
		sel, ok := n.(*ast.SelectStmt)
		if !ok || sel.With != nil || spoilsConcatenation(sel) != "" || a.operands[sel].scope == nil ||
			i > 0 && (sel.AfterSetOperator == nil || *sel.AfterSetOperator != ast.UnionAll) {
			return nil
		}
		operands = append(operands, a.operands[sel])
	}
	return operands
}

// anyOf chooses a shard for an answer without rows: by the key that was looked
// up, so that lookups in vain spread.
func anyOf(cat *catalog.Catalog, among catalog.ShardSet, r reach) catalog.ShardID {
	for _, u := range r.used {
		if u.spread != nil {
			if id := cat.ShardOf(u.spread); among.Has(id) {
				return id
			}
		}
	}
	return among.First()
}

func (q *queryRoute) whyNoAnchor() string {
	var names []string
	for _, r := range q.main {
		if !r.spread() {
			continue
		}
		if r.table.IsView {
			return viewRefusal(r.table)
		}
		names = append(names, r.table.Name)
	}
	if len(names) == 1 {
		return "an outer join that may fill the sharded table " + names[0] + " with NULLs"
	}
	return "a join of " + strings.Join(names, " and ") + " that is not on their shard keys"
}

// refuseSpread is the refusal of what one shard could answer and several can't.
func refuseSpread(what string, n int, t *catalog.Table) *text.Error {
	way := ""
	switch {
	case t.IsView:
	case t.Placement == catalog.Hash && t.ShardKey != nil:
		way = "add a predicate on the shard key " + t.Name + "." + t.ShardKey.Name
		if names := usableIndexes(t); names != "" {
			way += " or on an indexed column (" + names + ")"
		}
		way += ", or "
	default:
		if names := usableIndexes(t); names != "" {
			way = "add a predicate on an indexed column (" + names + "), or "
		}
	}
	return text.NotSupported("%s over %d shards is not merged yet: %ssend it to one shard with /* shunt: shard=NAME */", what, n, way)
}

func usableIndexes(t *catalog.Table) string {
	var names []string
	for _, ix := range t.Indexes {
		if ix.Usable() {
			names = append(names, ix.Columns[0].Name)
		}
	}
	return strings.Join(names, ", ")
}
