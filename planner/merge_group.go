package planner

import (
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// onItsShard reports a column that says which shard a row is on.
func onItsShard(c column) bool {
	return c.ref.spread() && !c.ref.nullable && !c.ref.table.IsView &&
		c.ref.table.Placement == catalog.Hash && c.col == c.ref.table.ShardKey
}

// wholeGroups: a group's rows are all on one shard.
//
// Rule whole groups: rows that agree in the shard key are on one shard, so
// groups by it (and more) are what the shards answer; whatever is computed of a
// group is right, and HAVING too. Counter-example: GROUP BY country, whose rows
// are everywhere; and a shard key that an outer join may fill with NULLs.
func (b *mergeBuilder) wholeGroups() bool {
	for i, item := range b.sel.GroupBy.Items {
		src, ok := b.groupedBy(item.Expr, b.c.groups[i])
		if ok && src.col != nil && onItsShard(column{src.ref, src.col}) {
			return true
		}
	}
	return false
}

// wholeRows: the select list has the shard key, so that equal rows are on one
// shard.
func (b *mergeBuilder) wholeRows() bool {
	for _, f := range b.sel.Fields.Fields {
		if f.Expr == nil {
			continue
		}
		if c, ok := b.a.columnOf(f.Expr, b.scope); ok && onItsShard(c) {
			return true
		}
	}
	return false
}

// groupedBy finds what a GROUP BY expression means.
//
// Rule names of groups: MySQL looks a bare name up among the columns of FROM
// first, and then in the select list: the other way round than for ORDER BY.
// Where both have it, and differ, better nobody relies on it.
func (b *mergeBuilder) groupedBy(e ast.ExprNode, text span) (keySource, bool) {
	if x, ok := e.(*ast.ColumnNameExpr); ok && x.Name.Table.O == "" {
		c, isColumn := b.a.resolve(x.Name, b.scope)
		i, one, isItem := b.itemNamed(x.Name.Name.L)
		switch {
		case isItem && !one:
			return keySource{}, false
		case isItem && isColumn:
			if y, same := b.a.columnOf(b.sel.Fields.Fields[i].Expr, b.scope); !same || y != c {
				return keySource{}, false
			}
		case isItem:
			return b.fromItem(i)
		}
		return b.fromExpr(e, text, false)
	}
	return b.sortedBy(e, text)
}

// groups merges GROUP BY, and aggregates without it.
func (b *mergeBuilder) groups() bool {
	m := &b.m.merge
	m.Unite, m.Total = true, b.sel.GroupBy == nil
	for i, f := range b.sel.Fields.Fields {
		if f.WildCard != nil {
			return false
		}
		text, ok := b.a.st.expression(b.c.items[i], f)
		if !ok {
			return false
		}
		if fn, ok := f.Expr.(*ast.AggregateFuncExpr); ok {
			if !b.cell(fn, text, i) {
				return false
			}
			continue
		}
		v := &featureVisitor{}
		f.Expr.Accept(v)
		if v.aggregate != "" {
			return false // COUNT(*) + 1
		}
		if m.Total && !b.isConstant(f.Expr) {
			return false // any row's value, if there is a row
		}
	}
	groups, ok := b.groupKeys()
	if !ok {
		return false
	}
	distinct, ok := b.distinctKey()
	if !ok {
		return false
	}
	if m.Total && len(distinct) > 0 {
		for _, f := range b.sel.Fields.Fields {
			if _, ok := f.Expr.(*ast.AggregateFuncExpr); !ok {
				return false // of no rows there is no row to take it from
			}
		}
	}
	having, ok := b.having(groups)
	if !ok {
		return false
	}
	order, sorted, ok := b.groupOrder(groups)
	if !ok {
		return false
	}
	m.Group = len(groups)
	all := append(order, distinct...)
	for _, k := range all {
		m.Order = append(m.Order, k.key)
	}
	b.writeGroups(all, distinct, !sorted)
	return b.limit(m.Total || !sorted || having || len(distinct) > 0)
}

func (b *mergeBuilder) isConstant(e ast.ExprNode) bool {
	_, ok := e.(*driver.ValueExpr)
	return ok
}

// groupKey is one key of a group, and its text for ORDER BY.
type groupKey struct {
	src keySource
	key MergeKey
}

func (b *mergeBuilder) groupKeys() (out []groupKey, ok bool) {
	if b.sel.GroupBy == nil {
		return nil, true
	}
	for i, item := range b.sel.GroupBy.Items {
		if item.Desc || b.a.st.is(b.c.groups[i].to-1, "asc") {
			return nil, false
		}
		src, ok := b.groupedBy(item.Expr, b.c.groups[i])
		if !ok || src.aggregate != nil {
			return nil, false
		}
		if src.constant {
			return nil, false // its name may mean more than we know
		}
		if src.col == nil && b.hasParams(src.text) {
			return nil, false // to MySQL no two `?` are the same expression
		}
		// Rule one of a kind: a group's expression that is selected isn't selected
		// once more. Counter-example: SELECT IFNULL(a, b) .. GROUP BY IFNULL(a, b) of a
		// MariaDB with ONLY_FULL_GROUP_BY, which knows it again only once.
		for n := 0; src.item < 0 && n < len(b.sel.Fields.Fields); n++ {
			if x, ok := b.fromItem(n); ok && b.same(x, src) {
				src.item = n
			}
		}
		k, ok := b.key(src)
		if !ok {
			return nil, false
		}
		out = append(out, groupKey{src, k})
	}
	return out, true
}

func (b *mergeBuilder) hasParams(f frag) bool {
	for _, at := range b.a.st.params {
		if at >= f.from && at < f.to {
			return true
		}
	}
	return false
}

// same: two sources are the same column or the same text.
func (b *mergeBuilder) same(x, y keySource) bool {
	if x.col != nil || y.col != nil {
		return x.col == y.col && x.ref == y.ref
	}
	if x.item >= 0 && x.item == y.item {
		return true
	}
	src := b.a.st.src
	return src[x.text.from:x.text.to] == src[y.text.from:y.text.to]
}

// groupOrder is the order in which the shards are to answer groups: the
// client's where that is one of the groups' keys (sorted), else any, and the
// merged groups are sorted once more.
func (b *mergeBuilder) groupOrder(groups []groupKey) (out []groupKey, sorted, ok bool) {
	if b.sel.OrderBy == nil || b.m.merge.Total {
		return groups, true, true // one row needs no order
	}
	used := make([]bool, len(groups))
	sorted = true
	for i, item := range b.sel.OrderBy.Items {
		src, ok := b.sortedBy(item.Expr, b.c.orders[i])
		if !ok {
			return nil, false, false
		}
		if src.constant {
			continue
		}
		if src.aggregate != nil {
			k, ok := b.sortedByCell(src)
			if !ok {
				return nil, false, false
			}
			k.Desc = item.Desc
			b.m.merge.Sort = append(b.m.merge.Sort, k)
			sorted = false
			continue
		}
		found := false
		for n, g := range groups {
			if !b.same(src, g.src) {
				continue
			}
			k := g.key
			k.Desc = item.Desc
			b.m.merge.Sort = append(b.m.merge.Sort, k)
			if !used[n] {
				used[n] = true
				out = append(out, groupKey{g.src, k})
			}
			found = true
			break
		}
		if !found {
			return nil, false, false // a column that depends on the group: of which row?
		}
	}
	if sorted {
		b.m.merge.Sort = nil
	} else {
		out, used = nil, make([]bool, len(groups))
	}
	for n, g := range groups {
		if !used[n] {
			out = append(out, g)
		}
	}
	return out, sorted, true
}

// sortedByCell is the key that an aggregate in ORDER BY is.
func (b *mergeBuilder) sortedByCell(src keySource) (MergeKey, bool) {
	c := b.cellOf(src)
	if c == nil {
		return MergeKey{}, false
	}
	if c.Op == MergeMin || c.Op == MergeMax {
		return c.Key, true
	}
	return MergeKey{Value: c.Column}, true
}

// cellOf finds the cell of an aggregate, or makes one in a hidden column.
func (b *mergeBuilder) cellOf(src keySource) *MergeCell {
	text := func(f frag) string { return b.a.st.src[f.from:f.to] }
	for i, f := range b.sel.Fields.Fields {
		if _, ok := f.Expr.(*ast.AggregateFuncExpr); !ok {
			continue
		}
		item, _ := b.a.st.expression(b.c.items[i], f)
		if i != src.item && text(b.a.st.copyOf(item)) != text(src.text) {
			continue
		}
		for n := range b.m.merge.Cells {
			if b.m.merge.Cells[n].Column == i {
				return &b.m.merge.Cells[n]
			}
		}
	}
	if src.aggregate.Distinct || b.hasParams(src.text) || !b.cell(src.aggregate, src.span, b.hide(src.text)) {
		return nil
	}
	return &b.m.merge.Cells[len(b.m.merge.Cells)-1]
}

// writeGroups lets the shards answer groups in the order of keys. distinct, the
// last of them, make the groups finer. later: the client's order is made of the
// merged groups; it stands behind the keys all the same, where it changes
// nothing, since a server describes its columns otherwise (flags, LONG for
// LONGLONG) where it has to sort by aggregates.
func (b *mergeBuilder) writeGroups(keys, distinct []groupKey, later bool) {
	st := b.a.st
	// The end of FROM, WHERE and GROUP BY; and of HAVING.
	afterGroup := b.c.end
	for _, s := range []span{b.c.limit, b.c.order} {
		if !s.empty() {
			afterGroup = s.from
		}
	}
	afterHaving := afterGroup
	if !b.c.having.empty() {
		afterGroup = b.c.having.from
	}
	insert := func(token int, head string, list []groupKey) {
		at := st.toks[token-1].end
		with := []frag{{text: head}}
		for i, k := range list {
			if i > 0 {
				with = append(with, frag{text: ", "})
			}
			with = append(with, k.src.text)
			if k.key.Desc {
				with = append(with, frag{text: " DESC"})
			}
		}
		b.edits = append(b.edits, edit{at, at, with})
	}
	if len(distinct) > 0 {
		if b.sel.GroupBy == nil {
			insert(afterGroup, " GROUP BY ", distinct)
		} else {
			insert(afterGroup, ", ", distinct)
		}
	}
	if b.sel.OrderBy != nil {
		from, to := st.offsets(b.c.order)
		b.edits = append(b.edits, edit{from: from, to: to})
	}
	if len(keys) > 0 {
		insert(afterHaving, " ORDER BY ", keys)
		if later {
			last := &b.edits[len(b.edits)-1]
			last.with = append(last.with, frag{text: ", "}, st.copyOf(span{b.c.order.from + 2, b.c.order.to}))
		}
	}
}

// distinct merges SELECT DISTINCT: rows sorted by all of their columns, equal
// neighbours dropped.
func (b *mergeBuilder) distinct() bool {
	st, m := b.a.st, &b.m.merge
	m.Unite = true
	// Rule distinct bits: MariaDB's temporary table makes BIGINT of a BIT where
	// it sorts as well. Counter-example: SELECT DISTINCT bits FROM t, which is sent
	// with an ORDER BY, would show 1 for b'1'.
	for i := range b.sel.Fields.Fields {
		if x, ok := b.fromItem(i); ok && b.a.cat.MariaDB && x.col != nil && baseType(x.col.Type) == "bit" {
			return false
		}
	}
	var order []frag
	used := make([]bool, len(b.sel.Fields.Fields))
	if b.sel.OrderBy != nil {
		for i, item := range b.sel.OrderBy.Items {
			src, ok := b.sortedBy(item.Expr, b.c.orders[i])
			if !ok {
				return false
			}
			if src.constant {
				continue
			}
			if src.item < 0 {
				// It may be there as an expression.
				for n := range b.sel.Fields.Fields {
					if x, ok := b.fromItem(n); ok && b.same(x, src) {
						src.item = n
					}
				}
			}
			// Rule distinct order: an order by something else than the list would
			// make more rows of it. (A server in its default mode refuses that.)
			if src.item < 0 {
				return false
			}
			if used[src.item] {
				continue
			}
			used[src.item] = true
			k, ok := b.key(src)
			if !ok {
				return false
			}
			k.Desc = item.Desc
			m.Order = append(m.Order, k)
		}
		order = append(order, frag{text: ", "})
	} else {
		order = append(order, frag{text: " ORDER BY "})
	}
	rest := 0
	for i := range b.sel.Fields.Fields {
		if used[i] {
			continue
		}
		src, ok := b.fromItem(i)
		if !ok {
			return false
		}
		if src.constant {
			continue
		}
		k, ok := b.key(src)
		if !ok {
			return false
		}
		m.Order = append(m.Order, k)
		if rest++; rest > 1 {
			order = append(order, frag{text: ", "})
		}
		order = append(order, frag{text: strconv.Itoa(i + 1)})
	}
	if rest > 0 {
		last := b.c.order.to
		if b.sel.OrderBy == nil {
			last = b.c.end
			if !b.c.limit.empty() {
				last = b.c.limit.from
			}
		}
		at := st.toks[last-1].end
		b.edits = append(b.edits, edit{at, at, order})
	}
	m.Group = len(m.Order)
	if m.Group == 0 {
		return false // SELECT DISTINCT 5
	}
	// Rule distinct limit: where the hidden weights of equal texts differ ('a'
	// and 'a ') a shard answers more rows than the client would get, and its
	// first n may be too few.
	exact := true
	for _, k := range m.Order {
		exact = exact && k.Pad == 0
	}
	return b.limit(!exact)
}

// having says what becomes of HAVING. Where it speaks of nothing but the groups'
// keys the shards answer it as it is, else it is evaluated here (later).
func (b *mergeBuilder) having(groups []groupKey) (later, ok bool) {
	if b.sel.Having == nil {
		return false, true
	}
	v := &havingVisitor{b: b, groups: groups}
	b.sel.Having.Expr.Accept(v)
	if !v.other && len(groups) > 0 {
		return false, true
	}
	c, ok := b.condition(b.sel.Having.Expr)
	if !ok {
		return false, false
	}
	b.m.merge.Having = c
	from, to := b.a.st.offsets(b.c.having)
	b.edits = append(b.edits, edit{from: from, to: to})
	return true, true
}

// havingVisitor looks for anything but the groups' key columns.
type havingVisitor struct {
	b      *mergeBuilder
	groups []groupKey
	other  bool
}

func (v *havingVisitor) Enter(n ast.Node) (ast.Node, bool) {
	switch n := n.(type) {
	case *ast.ColumnNameExpr:
		if c, ok := v.b.a.resolve(n.Name, v.b.scope); ok {
			if i, one, found := v.b.itemNamed(n.Name.Name.L); n.Name.Table.O == "" && found {
				if x, same := v.b.a.columnOf(v.b.sel.Fields.Fields[i].Expr, v.b.scope); !one || !same || x != c {
					v.other = true
				}
			}
			for _, g := range v.groups {
				// Rule one value: of equal texts ('a', 'A') a shard may look at
				// another one than the next.
				if g.src.col == c.col && g.src.ref == c.ref && g.key.Weight == 0 {
					return n, true
				}
			}
		}
		v.other = true
	case *ast.AggregateFuncExpr, *ast.WindowFuncExpr, *ast.SubqueryExpr, *ast.VariableExpr, *ast.PositionExpr:
		v.other = true
	case *ast.FuncCallExpr:
		if volatileFunction(n.FnName.L) || aggregateName(n.FnName.L) {
			v.other = true
		}
	}
	return n, v.other
}

func (v *havingVisitor) Leave(n ast.Node) (ast.Node, bool) { return n, true }

// condition is a HAVING of comparisons of exact aggregates with numbers.
func (b *mergeBuilder) condition(e ast.ExprNode) (*MergeCondition, bool) {
	switch x := unwrap(e).(type) {
	case *ast.UnaryOperationExpr:
		if x.Op != opcode.Not && x.Op != opcode.Not2 {
			return nil, false
		}
		k, ok := b.condition(x.V)
		return &MergeCondition{Op: "NOT", Kids: []*MergeCondition{k}}, ok
	case *ast.BetweenExpr:
		if x.Not {
			return nil, false
		}
		lo, ok := b.comparison(opcode.GE, x.Expr, x.Left)
		if !ok {
			return nil, false
		}
		hi, ok := b.comparison(opcode.LE, x.Expr, x.Right)
		return &MergeCondition{Op: "AND", Kids: []*MergeCondition{lo, hi}}, ok
	case *ast.BinaryOperationExpr:
		if x.Op == opcode.LogicAnd || x.Op == opcode.LogicOr {
			l, ok := b.condition(x.L)
			if !ok {
				return nil, false
			}
			r, ok := b.condition(x.R)
			return &MergeCondition{Op: map[opcode.Op]string{opcode.LogicAnd: "AND", opcode.LogicOr: "OR"}[x.Op], Kids: []*MergeCondition{l, r}}, ok
		}
		if c, ok := b.comparison(x.Op, x.L, x.R); ok {
			return c, true
		}
		swapped := map[opcode.Op]opcode.Op{opcode.EQ: opcode.EQ, opcode.NE: opcode.NE, opcode.LT: opcode.GT, opcode.LE: opcode.GE, opcode.GT: opcode.LT, opcode.GE: opcode.LE}
		if op, ok := swapped[x.Op]; ok {
			return b.comparison(op, x.R, x.L)
		}
	}
	return nil, false
}

var comparisonText = map[opcode.Op]string{opcode.EQ: "=", opcode.NE: "<>", opcode.LT: "<", opcode.LE: "<=", opcode.GT: ">", opcode.GE: ">="}

// comparison is `aggregate op number`. AVG isn't compared: its value has more
// digits than it shows.
func (b *mergeBuilder) comparison(op opcode.Op, l, r ast.ExprNode) (*MergeCondition, bool) {
	text, ok := comparisonText[op]
	if !ok {
		return nil, false
	}
	o := b.a.st.evalExpr(r)
	if o.kind != parameter && (o.kind != literal || o.class != classNumber) {
		return nil, false
	}
	src := keySource{item: -1}
	switch x := unwrap(l).(type) {
	case *ast.ColumnNameExpr:
		i, one, found := b.itemNamed(x.Name.Name.L)
		if _, isColumn := b.a.resolve(x.Name, b.scope); !found || !one || isColumn || x.Name.Table.O != "" {
			return nil, false
		}
		if src, ok = b.fromItem(i); !ok {
			return nil, false
		}
	case *ast.AggregateFuncExpr:
		at := b.a.st.tokenAt(x.OriginTextPosition())
		if at < 0 {
			return nil, false
		}
		end := b.a.st.closes(at + 1)
		if end < 0 {
			return nil, false
		}
		s := span{at, end + 1}
		src.text, src.span, src.aggregate = b.a.st.copyOf(s), s, x
	}
	if src.aggregate == nil || strings.EqualFold(src.aggregate.F, "avg") || !b.exactAggregate(src.aggregate) {
		return nil, false
	}
	c := b.cellOf(src)
	if c == nil {
		return nil, false
	}
	return &MergeCondition{Op: text, Column: c.Column, value: &o}, true
}

// each visits the comparisons.
func (c *MergeCondition) each(visit func(*MergeCondition)) {
	if c == nil {
		return
	}
	if len(c.Kids) == 0 {
		visit(c)
	}
	for _, k := range c.Kids {
		k.each(visit)
	}
}

// bind gives the comparisons their values. ok is false where one is no exact
// number.
func (c *MergeCondition) bind(b *binder) (out *MergeCondition, ok bool) {
	if c == nil {
		return nil, true
	}
	out = &MergeCondition{Op: c.Op, Column: c.Column}
	for _, k := range c.Kids {
		kid, ok := k.bind(b)
		if !ok {
			return nil, false
		}
		out.Kids = append(out.Kids, kid)
	}
	if c.value != nil {
		v, class, ok := c.value.resolve(b.params)
		if !ok || class != classNumber {
			return nil, false
		}
		out.Value = v.Literal()
		if strings.ContainsAny(out.Value, "eE'") {
			return nil, false // approximate
		}
	}
	return out, true
}
