package planner

import (
	"strconv"

	"github.com/shunt-sql/shunt/planner/text"
)

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

// distinct merges SELECT DISTINCT: rows sorted by all of their columns, equal
// neighbours dropped.
func (b *mergeBuilder) distinct() bool {
	m := &b.m.merge
	m.Unite = true
	// Rule distinct bits: MariaDB's temporary table makes BIGINT of a BIT where
	// it sorts as well. Counter-example: SELECT DISTINCT bits FROM t, which is sent
	// with an ORDER BY, would show 1 for b'1'.
	for i := range b.sel.Fields.Fields {
		if x, ok := b.fromItem(i); ok && b.a.cat.MariaDB && x.col != nil && x.col.BaseType() == "bit" {
			return false
		}
	}
	used, ok := b.distinctOrder()
	if !ok || !b.distinctRest(used) {
		return false
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

// distinctOrder has the client's order be the first keys, and says which items they are.
func (b *mergeBuilder) distinctOrder() (used []bool, ok bool) {
	used = make([]bool, len(b.sel.Fields.Fields))
	if b.sel.OrderBy == nil {
		return used, true
	}
	for i, item := range b.sel.OrderBy.Items {
		src, ok := b.sortedBy(item.Expr, b.c.orders[i])
		if !ok {
			return nil, false
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
			return nil, false
		}
		if used[src.item] {
			continue
		}
		used[src.item] = true
		k, ok := b.key(src)
		if !ok {
			return nil, false
		}
		k.Desc = item.Desc
		b.m.merge.Order = append(b.m.merge.Order, k)
	}
	return used, true
}

// distinctRest has the other items be keys too, and the shards sort by them.
func (b *mergeBuilder) distinctRest(used []bool) bool {
	order := []text.Fragment{{Text: " ORDER BY "}}
	if b.sel.OrderBy != nil {
		order = []text.Fragment{{Text: ", "}}
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
		b.m.merge.Order = append(b.m.merge.Order, k)
		if rest++; rest > 1 {
			order = append(order, text.Fragment{Text: ", "})
		}
		order = append(order, text.Fragment{Text: strconv.Itoa(i + 1)})
	}
	if rest == 0 {
		return true
	}
	last := b.c.order.To
	if b.sel.OrderBy == nil {
		last = b.c.end
		if !b.c.limit.Empty() {
			last = b.c.limit.From
		}
	}
	at := b.a.st.Tokens[last-1].End
	b.edits = append(b.edits, text.Edit{From: at, To: at, With: order})
	return true
}
