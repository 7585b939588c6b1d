package generate

import "slices"

// from is a FROM clause with its sources. Most joins are on equalities, so that
// answers stay small.
func (g *gen) from(depth int) ([]*source, *Node) {
	n := 1
	switch g.IntN(10) {
	case 0, 1, 2:
		n = 2
	case 3:
		n = 3
	}
	first, node := g.fromSource(depth)
	sources := []*source{first}
	for range n - 1 {
		s, sn := g.fromSource(depth)
		sc := &scope{sources: sources}
		on := list(1)
		on.Sep = " AND "
		if t := g.coLocated(s, sc); t != nil && g.IntN(5) > 0 {
			on.Kids = append(on.Kids, t)
		} else if t := g.tie(s, sc); t != nil {
			on.Kids = append(on.Kids, t)
		} else {
			// No column of one is like any of the other: one row at most.
			on.Kids = append(on.Kids, g.pred(&scope{sources: []*source{s}}, 0))
		}
		sources = append(sources, s)
		if g.one(5) {
			on.Kids = append(on.Kids, g.pred(&scope{sources: sources}, 0))
		}
		kind := any1(g.random, "JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "STRAIGHT_JOIN")
		node = words(node, kind, sn, "ON", on)
	}
	if n == 1 && first.table != nil {
		first.bare = g.one(2)
	}
	return sources, node
}

// coLocated equates the shard keys of a and b.
func (g *gen) coLocated(s *source, sc *scope) *Node {
	key := func(s *source) string {
		switch {
		case s.table == nil || s.table.Shard == nil || s.table.Name != "a" && s.table.Name != "b":
			return ""
		}
		return s.table.Shard.Name
	}
	k := key(s)
	if k == "" {
		return nil
	}
	for _, o := range sc.sources {
		if ok := key(o); ok != "" {
			return sorted("pred", words(s.alias+"."+k, "=", o.alias+"."+ok))
		}
	}
	return nil
}

func (g *gen) fromSource(depth int) (*source, *Node) {
	if len(g.ctes) > 0 && g.IntN(2) > 0 {
		c := *g.ctes[g.IntN(len(g.ctes))]
		name := c.alias
		g.aliases++
		c.alias = "t" + itoa(g.aliases)
		return &c, text(name + " " + c.alias)
	}
	if depth > 0 && g.one(7) {
		q := g.block(depth-1, true)
		g.aliases++
		s := &source{alias: "t" + itoa(g.aliases), fields: q.fields, unique: q.unique}
		return s, glued("(", sorted("subquery", q.node), ") "+s.alias)
	}
	// Sharded tables more often than others.
	t := g.tables[g.IntN(len(g.tables))]
	if !t.Spread && g.one(2) {
		t = g.tables[g.IntN(2)]
	}
	s := g.tableSource(t)
	return s, text(t.Name + " " + s.alias)
}

// block is a query block as a derived table sees it.
type block struct {
	node *Node
	// fields are named c1, c2, ...
	fields []field
	unique []string
}

// item is a select item under its alias.
func item(e expr, i int) *Node {
	m := Item
	if e.folded {
		m |= Folded
	}
	if e.approximate {
		m |= Approximate
	}
	if !e.exact {
		m |= Loose
	}
	return marked(glued(e.node, " AS c"+itoa(i)), m)
}

func fieldOf(e expr, i int) field {
	return field{name: "c" + itoa(i), family: e.family, collation: e.collation, exact: e.exact, unsigned: e.unsigned, folded: e.folded, approximate: e.approximate}
}

// where is a WHERE clause or nil.
func (g *gen) where(sc *scope, depth int) *Node {
	conditions := list(1)
	conditions.Sep = " AND "
	if g.IntN(5) < 2 {
		conditions.Kids = append(conditions.Kids, g.routed(sc))
	}
	if len(conditions.Kids) == 0 && g.IntN(4) > 0 || g.one(3) {
		conditions.Kids = append(conditions.Kids, g.pred(sc, depth))
	}
	if len(conditions.Kids) == 0 {
		return nil
	}
	return optional(words("WHERE", conditions))
}

// sortable families have an order that ORDER BY can be checked by.
func sortable(e expr) bool { return e.family != JSON && !e.approximate }

// tail is ORDER BY and LIMIT. items are what may be named by alias, keys what
// makes the order total (nil: nothing does). nested: only what is determined.
// It returns which items are ordered by.
func (g *gen) tail(items []expr, keys []*Node, nested bool) (*Node, []int) {
	chance := 2
	if nested {
		chance = 8
	}
	if !g.one(chance) {
		if !nested && g.one(12) {
			return marked(optional(words("LIMIT", text(itoa(g.IntN(8))))), Limited), nil
		}
		return nil, nil
	}
	direction := func(n *Node) *Node {
		return glued(n, any1(g.random, "", "", " ASC", " DESC"))
	}
	by := list(-1)
	var at []int
	for range 1 + g.IntN(2) {
		i := g.IntN(len(items))
		if sortable(items[i]) && !slices.Contains(at, i) {
			at = append(at, i)
			name := "c" + itoa(i+1)
			if g.one(4) {
				name = itoa(i + 1)
			}
			by.Kids = append(by.Kids, direction(text(name)))
		}
	}
	total := keys != nil && (nested || g.IntN(3) > 0)
	if total {
		for _, k := range keys {
			by.Kids = append(by.Kids, direction(k))
		}
	}
	if len(by.Kids) == 0 || nested && !total {
		return nil, nil
	}
	m := Ordering
	if total {
		m = Total
	}
	order := marked(words("ORDER BY", by), m)
	if nested || g.IntN(2) > 0 {
		limit := any1(g.random, "LIMIT %d", "LIMIT %d", "LIMIT %d OFFSET %o", "LIMIT %o, %d")
		n, o := itoa(g.IntN(9)+1), itoa(g.IntN(6))
		ln := &Node{Text: replace(limit, "%d", n, "%o", o), Least: -1, Marks: Limited}
		return optional(words(order, ln)), at
	}
	return optional(order), at
}
