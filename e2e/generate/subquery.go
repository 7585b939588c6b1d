package generate

// inner is FROM and WHERE of a subquery over one table, mostly tied to what is
// around it.
func (g *gen) inner(sc *scope, depth int) (*scope, *Node, *Node) {
	s := g.tableSource(g.tables[g.IntN(len(g.tables))])
	in := &scope{sources: []*source{s}, outer: sc}
	where := list(0)
	where.Sep = " AND "
	if g.IntN(3) > 0 && sc != nil {
		if t := g.tie(s, sc); t != nil {
			where.Kids = append(where.Kids, t)
		}
	}
	if len(where.Kids) == 0 || g.one(2) {
		if g.one(3) {
			where.Kids = append(where.Kids, g.routed(&scope{sources: in.sources}))
		} else {
			where.Kids = append(where.Kids, g.pred(in, depth))
		}
	}
	return in, text(s.table.Name + " " + s.alias), optional(words("WHERE", where))
}

// tie equates a column of a source with one around it: its keys by preference.
func (g *gen) tie(s *source, sc *scope) *Node {
	for range 6 {
		f := s.fields[g.IntN(len(s.fields))]
		if s.unique != nil && g.IntN(3) > 0 {
			f = s.fields[0]
		}
		if f.family == JSON || f.family == Bit || f.family == Bytes {
			continue
		}
		var best []*Node
		for _, o := range sc.sources {
			for i, x := range o.fields {
				if x.family != f.family || x.collation != f.collation || x.approximate {
					continue
				}
				n := g.outerRef(o, x).node
				best = append(best, n)
				if i == 0 {
					best = append(best, n, n, n)
				}
			}
		}
		if len(best) > 0 {
			return sorted("pred", words(g.ref(s, f).node, "=", best[g.IntN(len(best))]))
		}
	}
	return nil
}

// scalar is a subquery that answers one value.
func (g *gen) scalar(sc *scope, f Family, depth int) expr {
	in, from, where := g.inner(sc, depth)
	var what *Node
	own := &scope{sources: in.sources}
	switch {
	case f == Int && g.one(2):
		what = text("COUNT(*)")
	case f == Int:
		what = glued(any1(g.random, "MAX(", "MIN(", "COUNT(", "COUNT(DISTINCT "), signed(g.column(own, Int)).node, ")")
	default:
		what = glued(any1(g.random, "MAX(", "MIN(", "SUM("), g.column(own, f).node, ")")
	}
	q := sorted("subquery", words("SELECT", what.written(), "FROM", from, where))
	return expr{node: sorted(sortOf(f), glued("(", q, ")")), family: f, exact: true}
}

// subqueryPred is a condition with a subquery.
func (g *gen) subqueryPred(sc *scope, depth int) *Node {
	in, from, where := g.inner(sc, depth)
	own := &scope{sources: in.sources}
	query := func(what *Node) *Node { return sorted("subquery", words("SELECT", what, "FROM", from, where)) }
	if g.one(3) {
		return glued(any1(g.random, "EXISTS (", "EXISTS (", "NOT EXISTS ("), query(text("1")), ")")
	}
	// A column of the block around, and one like it in the subquery.
	for range 5 {
		e, f, ok := g.pick(&scope{sources: sc.sources}, func(f field) bool { return f.family != JSON && f.family != Bit })
		if !ok {
			break
		}
		o, _, ok := g.pick(own, func(x field) bool { return x.family == f.family && x.collation == f.collation })
		if !ok {
			continue
		}
		switch g.IntN(6) {
		case 0:
			return glued(e.node, " NOT IN (", query(o.node), ")")
		case 1:
			return glued(e.node, any1(g.random, " > ALL (", " >= ANY (", " = ANY (", " <> ALL (", " < SOME ("), query(o.node), ")")
		case 2:
			if f.family != Text && f.family != Bytes {
				return glued(e.node, any1(g.random, " > (", " = (", " <= ("), query(glued(any1(g.random, "MAX(", "MIN("), o.node, ")")), ")")
			}
		}
		return glued(e.node, " IN (", query(o.node), ")")
	}
	return glued("EXISTS (", query(text("1")), ")")
}
