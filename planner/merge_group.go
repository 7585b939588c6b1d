package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
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

// sortsGroups reports MariaDB's GROUP BY a DESC, which is an ORDER BY as well.
func (b *mergeBuilder) sortsGroups() bool {
	return slices.ContainsFunc(b.sel.GroupBy.Items, func(item *ast.ByItem) bool { return !item.NullOrder })
}

// impliedOrder is that of MariaDB's GROUP BY, which sorts by its expressions where no ORDER
// BY says otherwise: as far as the answer shows them. The shards' text stays as it is.
// https://mariadb.com/kb/en/group-by/
func (b *mergeBuilder) impliedOrder() {
	if !b.a.cat.MariaDB || b.sel.OrderBy != nil {
		return
	}
	for i, item := range b.sel.GroupBy.Items {
		src, ok := b.groupedBy(item.Expr, b.c.groups[i])
		if !ok || src.col == nil || src.item < 0 || !showsOrder(src.col) {
			return
		}
		b.m.merge.Order, b.m.merge.Likely = append(b.m.merge.Order, plan.MergeKey{Value: src.item}), true
	}
}

// groupedBy finds what a GROUP BY expression means.
//
// Rule names of groups: MySQL looks a bare name up among the columns of FROM
// first, and then in the select list: the other way round than for ORDER BY.
// Where both have it, and differ, better nobody relies on it. Counter-example: SELECT
// u.id AS n FROM users u JOIN (SELECT 1 AS n) t GROUP BY n, where n is t's.
func (b *mergeBuilder) groupedBy(e ast.ExprNode, text text.Span) (keySource, bool) {
	e, text = b.bare(e, text)
	if x, ok := e.(*ast.ColumnNameExpr); ok && x.Name.Table.O == "" {
		c, isColumn := b.a.resolve(x.Name, b.scope)
		i, one, isItem := b.itemNamed(x.Name.Name.L)
		switch {
		case isItem && !one, isColumn && b.aliasHides(x.Name.Name.L, c):
			return keySource{}, false
		case isItem && !isColumn:
			if slices.ContainsFunc(b.scope.refs, func(r *ref) bool { return r.mayHave(x.Name.Name.L) }) {
				return keySource{}, false
			}
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
		text, ok := expression(b.a.st, b.c.items[i], f)
		if !ok {
			return false
		}
		if fn, ok := f.Expr.(*ast.AggregateFuncExpr); ok {
			if !b.cell(fn, text, i) {
				return false
			}
			continue
		}
		if featuresOf(f.Expr).aggregate != "" {
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
	key plan.MergeKey
}

func (b *mergeBuilder) groupKeys() (out []groupKey, ok bool) {
	if b.sel.GroupBy == nil {
		return nil, true
	}
	for i, item := range b.sel.GroupBy.Items {
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
		src.grouped = true
		k, ok := b.key(src)
		if !ok {
			return nil, false
		}
		out = append(out, groupKey{src, k})
	}
	return out, true
}

func (b *mergeBuilder) hasParams(f text.Fragment) bool {
	for _, at := range b.a.st.Params {
		if at >= f.From && at < f.To {
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
	src := b.a.st.Src
	return src[x.text.From:x.text.To] == src[y.text.From:y.text.To]
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
func (b *mergeBuilder) sortedByCell(src keySource) (plan.MergeKey, bool) {
	c := b.cellOf(src)
	if c == nil {
		return plan.MergeKey{}, false
	}
	if c.Op == plan.MergeMin || c.Op == plan.MergeMax {
		return c.Key, true
	}
	return plan.MergeKey{Value: c.Column}, true
}

// cellOf finds the cell of an aggregate, or makes one in a hidden column.
func (b *mergeBuilder) cellOf(src keySource) *plan.MergeCell {
	text := func(f text.Fragment) string { return b.a.st.Src[f.From:f.To] }
	for i, f := range b.sel.Fields.Fields {
		if _, ok := f.Expr.(*ast.AggregateFuncExpr); !ok {
			continue
		}
		item, _ := expression(b.a.st, b.c.items[i], f)
		if i != src.item && text(b.a.st.CopyOf(item)) != text(src.text) {
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
	for _, s := range []text.Span{b.c.limit, b.c.order} {
		if !s.Empty() {
			afterGroup = s.From
		}
	}
	afterHaving := afterGroup
	if !b.c.having.Empty() {
		afterGroup = b.c.having.From
	}
	insert := func(token int, head string, list []groupKey) {
		at := st.Tokens[token-1].End
		with := []text.Fragment{{Text: head}}
		for i, k := range list {
			if i > 0 {
				with = append(with, text.Fragment{Text: ", "})
			}
			with = append(with, k.src.text)
			if k.key.Desc {
				with = append(with, text.Fragment{Text: " DESC"})
			}
		}
		b.edits = append(b.edits, text.Edit{From: at, To: at, With: with})
	}
	if len(distinct) > 0 {
		if b.sel.GroupBy == nil {
			insert(afterGroup, " GROUP BY ", distinct)
		} else {
			insert(afterGroup, ", ", distinct)
		}
	}
	if b.sel.OrderBy != nil && len(keys) > 0 { // what is wrong with that of one row a shard says
		from, to := st.Offsets(b.c.order)
		b.edits = append(b.edits, text.Edit{From: from, To: to})
	}
	if len(keys) > 0 {
		insert(afterHaving, " ORDER BY ", keys)
		if later {
			last := &b.edits[len(b.edits)-1]
			b.pinnedGroups(len(b.edits)-1, len(last.With))
			last.With = append(last.With, text.Fragment{Text: ", "}, st.CopyOf(text.Span{From: b.c.order.From + 2, To: b.c.order.To}))
		}
	}
}

// pinnedGroups notes the columns that groups are made by, and the edit of whose pieces the first have no order
// of the client's.
//
// Rule one group: where WHERE leaves one value of each, MariaDB doesn't sort the only group, and describes its
// columns accordingly. Counter-example: SELECT k, MAX(f), COUNT(DISTINCT k, d) FROM t WHERE k = 6 GROUP BY k ORDER
// BY MIN(d), of which a shard has a group for each d.
func (b *mergeBuilder) pinnedGroups(edit, pieces int) {
	if !b.a.cat.MariaDB || b.sel.GroupBy == nil {
		return
	}
	var by []column
	for i, item := range b.sel.GroupBy.Items {
		src, ok := b.groupedBy(item.Expr, b.c.groups[i])
		if !ok || src.col == nil || src.ref.table == nil {
			return
		}
		by = append(by, column{src.ref, src.col})
	}
	b.m.groupedBy, b.unsorted.edit, b.unsorted.pieces = by, edit, pieces
}
