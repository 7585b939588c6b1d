package generate

import (
	"slices"
	"strings"
)

func replace(s string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(s) }

// read is a SELECT.
func (g *gen) read() *Node {
	g.aliases, g.ctes = 0, nil
	switch g.IntN(20) {
	case 0:
		return g.with()
	case 1, 2:
		return g.union(2, false).node
	case 3:
		return g.star()
	default:
		return g.block(2, false).node
	}
}

// star is SELECT * or whole tables.
func (g *gen) star() *Node {
	sources, from := g.from(0)
	sc := &scope{sources: sources}
	what := text("*")
	if len(sources) > 1 {
		what = text(sources[g.IntN(len(sources))].alias + ".*")
		if g.one(2) {
			what = text("*")
		}
	}
	var tail *Node
	if k := g.keys(sources); k != nil && g.one(2) {
		by := list(-1, k...)
		tail = optional(marked(words("ORDER BY", by), Total))
		if g.one(2) {
			tail = optional(words(tail, &Node{Text: "LIMIT " + itoa(1+g.IntN(9)), Least: -1, Marks: Limited}))
		}
	}
	return sorted("query", words("SELECT", marked(what, Star), "FROM", from, g.where(sc, 1), tail))
}

// with is a query over common table expressions.
func (g *gen) with() *Node {
	if g.one(4) {
		n := itoa(3 + g.IntN(8))
		s := &source{alias: "x", fields: []field{{name: "c1", family: Int, exact: true}}, unique: []string{"c1"}}
		g.ctes = append(g.ctes, s)
		def := text("WITH RECURSIVE x (c1) AS (SELECT 1 UNION ALL SELECT c1 + 1 FROM x WHERE c1 < " + n + ")")
		return words(def, g.block(1, false).node)
	}
	defs := list(1)
	for i := range 1 + g.IntN(2) {
		b := g.block(1, true)
		name := "x" + itoa(i+1)
		defs.Kids = append(defs.Kids, glued(name+" AS (", sorted("subquery", b.node), ")"))
		g.ctes = append(g.ctes, &source{alias: name, fields: b.fields, unique: b.unique})
	}
	return words("WITH", defs, g.block(1, false).node)
}

// block is a query block: plain, distinct, grouped, aggregated or with windows.
func (g *gen) block(depth int, nested bool) block {
	if nested && g.one(8) {
		return g.union(depth, true)
	}
	sources, from := g.from(depth)
	sc := &scope{sources: sources}
	where := g.where(sc, depth)
	switch g.IntN(10) {
	case 0, 1:
		return g.grouped(sc, from, where, nested)
	case 2:
		return g.aggregated(sc, from, where, nested)
	case 3:
		return g.windowed(sc, from, where, nested)
	case 4:
		return g.distinct(sc, from, where, nested)
	}
	return g.plain(sc, from, where, depth, nested)
}

// selected finishes a block of items.
func (g *gen) selected(head string, items []expr, keys []*Node, nested bool, rest ...any) block {
	tail, by := g.tail(items, keys, nested)
	what := list(1)
	var b block
	for i, e := range items {
		n := item(e, i+1)
		if slices.Contains(by, i) {
			n = marked(n, Sorted)
		}
		what.Kids = append(what.Kids, n)
		b.fields = append(b.fields, fieldOf(e, i+1))
	}
	if len(by) > 0 {
		// The n-th item is named by its number.
		what.Least = -1
	}
	b.node = sorted("query", words(slices.Concat([]any{head, what}, rest, []any{tail})...))
	return b
}

func (g *gen) items(sc *scope, depth int) []expr {
	var out []expr
	for range 1 + g.IntN(4) {
		if g.IntN(3) == 0 {
			out = append(out, g.expr(sc, g.anyFamily(sc), depth))
			continue
		}
		if e, f, ok := g.pick(&scope{sources: sc.sources}, func(field) bool { return true }); ok {
			e.approximate = f.approximate
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		out = append(out, intLiteralExpr(1))
	}
	return out
}

func intLiteralExpr(n int) expr {
	return expr{node: intLiteral(n).unbound(), family: Int, exact: true, plain: true}
}

func (g *gen) plain(sc *scope, from, where *Node, depth int, nested bool) block {
	items := g.items(sc, depth)
	keys := g.keys(sc.sources)
	var unique []string
	if nested && keys != nil {
		// Key columns are selected, so that the derived table has a key.
		for _, s := range sc.sources {
			for _, u := range s.unique {
				for _, f := range s.fields {
					if f.name == u {
						items = append(items, g.ref(s, f))
						unique = append(unique, "c"+itoa(len(items)))
					}
				}
			}
		}
	}
	b := g.selected("SELECT", items, keys, nested, "FROM", from, where)
	b.unique = unique
	return b
}

// names are the aliases of items; nil where one of them has no order.
func names(items []expr) []*Node {
	var out []*Node
	for i, e := range items {
		if e.approximate {
			return nil
		}
		out = append(out, text("c"+itoa(i+1)))
	}
	return out
}

func aliases(n int) []string {
	var out []string
	for i := range n {
		out = append(out, "c"+itoa(i+1))
	}
	return out
}

// loosen marks texts of which several may be equal.
func loosen(e expr) expr {
	if e.family == Text && !e.exact {
		e.folded = true
	}
	return e
}

func (g *gen) distinct(sc *scope, from, where *Node, nested bool) block {
	items := g.items(sc, 1)
	for i := range items {
		items[i] = loosen(items[i])
		if items[i].family == JSON {
			items[i] = intLiteralExpr(i)
		}
	}
	b := g.selected("SELECT DISTINCT", items, names(items), nested, "FROM", from, where)
	b.unique = aliases(len(items))
	return b
}

// aggregate is an aggregate over a block's rows.
func (g *gen) aggregate(sc *scope) expr {
	column := func(sc *scope, f Family) expr {
		e := g.column(sc, f)
		e.node = e.node.written()
		return e
	}
	num := func() expr {
		f := any1(g.random, Int, Int, Decimal, Double)
		if !g.one(3) {
			return column(sc, f)
		}
		e := g.expr(sc, f, 1)
		if e.family == Int {
			e = signed(e)
		}
		e.node = e.node.written()
		return e
	}
	own := &scope{sources: sc.sources}
	switch g.IntN(14) {
	case 0, 1:
		return expr{node: text("COUNT(*)"), family: Int, exact: true}
	case 2:
		e, _, ok := g.pick(own, func(f field) bool { return f.family != JSON })
		if !ok {
			e = intLiteralExpr(1)
		}
		return expr{node: glued(any1(g.random, "COUNT(", "COUNT(DISTINCT "), e.node, ")"), family: Int, exact: true}
	case 3, 4, 5:
		e := num()
		f := e.family
		if f == Int {
			f = Decimal
		}
		return expr{node: glued(any1(g.random, "SUM(", "SUM(", "SUM(DISTINCT "), e.node, ")"), family: f, exact: true}
	case 6, 7:
		e := num()
		f := e.family
		if f == Int {
			f = Decimal
		}
		return expr{node: glued(any1(g.random, "AVG(", "AVG(", "AVG(DISTINCT "), e.node, ")"), family: f, exact: true}
	case 8, 9, 10:
		e, _, ok := g.pick(own, func(f field) bool { return f.family != JSON && f.family != Bit })
		if !ok {
			e = intLiteralExpr(1)
		}
		e.node = glued(any1(g.random, "MIN(", "MAX("), e.node, ")")
		e.plain = false
		return loosen(e)
	case 11:
		e := column(own, any1(g.random, Int, Decimal, Double))
		return expr{node: glued(any1(g.random, "STDDEV_POP(", "VAR_POP(", "STDDEV_SAMP(", "VAR_SAMP(", "STD(", "VARIANCE("), e.node, ")"), family: Double, exact: true, approximate: true}
	case 12:
		e := column(own, Int)
		return expr{node: glued(any1(g.random, "BIT_AND(", "BIT_OR(", "BIT_XOR("), e.node, ")"), family: Int, exact: true, unsigned: true}
	default:
		return g.groupConcat(own)
	}
}

func (g *gen) groupConcat(sc *scope) expr {
	e, f, ok := g.pick(sc, func(f field) bool {
		return f.family != JSON && f.family != Bit && f.family != Bytes && f.family != Double && !f.folded
	})
	keys := g.keys(sc.sources)
	switch {
	case ok && keys != nil && g.IntN(3) > 0:
		by := list(-1)
		for _, k := range keys {
			by.Kids = append(by.Kids, glued(k, any1(g.random, "", " DESC")))
		}
		separator := text(any1(g.random, "", " SEPARATOR '|'"))
		return expr{node: glued("GROUP_CONCAT(", e.node, " ORDER BY ", by, separator, ")"), family: Text, collation: f.collation}
	case ok && f.family != Text:
		return expr{node: glued("GROUP_CONCAT(DISTINCT ", e.node, " ORDER BY ", e.node, any1(g.random, "", " DESC"), ")"), family: Text}
	}
	return expr{node: text("COUNT(*)"), family: Int, exact: true}
}

func (g *gen) aggregated(sc *scope, from, where *Node, nested bool) block {
	var items []expr
	for range 1 + g.IntN(3) {
		items = append(items, g.aggregate(sc))
	}
	var having *Node
	if g.one(8) {
		having = optional(words("HAVING", "COUNT(*)", any1(g.random, ">", "<", "="), intLiteral(g.IntN(9))))
	}
	b := g.selected("SELECT", items, names(items), nested, "FROM", from, where, having)
	b.unique = aliases(1) // of one row
	return b
}

func (g *gen) grouped(sc *scope, from, where *Node, nested bool) block {
	var items []expr
	by := list(-1)
	own := &scope{sources: sc.sources}
	for range 1 + g.IntN(2) {
		e, _, ok := g.pick(own, func(f field) bool { return f.family != JSON })
		if !ok {
			e = intLiteralExpr(1)
		}
		if g.one(4) {
			if x := g.expr(own, any1(g.random, Int, Text, Date), 1); !x.plain {
				e = x
			}
		}
		if e.node.Literal != nil || e.node.Text == "1" {
			e = expr{node: glued("(", e.node, " + 0)"), family: Int, exact: true} // a number in GROUP BY is a position
		}
		if slices.ContainsFunc(items, func(x expr) bool { return x.node.String() == e.node.String() }) {
			continue
		}
		items = append(items, loosen(e))
		by.Kids = append(by.Kids, e.node)
	}
	n := len(items)
	rollup := ""
	// Of no rows MySQL answers the total's constants or NULL, by its plan.
	if constant := slices.ContainsFunc(by.Kids, func(n *Node) bool { return !own.reads(n) }); !constant && !nested && g.one(14) {
		rollup = "WITH ROLLUP"
	}
	var having *Node
	if g.one(3) {
		a := g.aggregate(sc)
		for a.approximate || a.family == Text || a.family == Bytes {
			a = expr{node: text("COUNT(*)"), family: Int}
		}
		having = optional(words("HAVING", sorted("pred", words(a.node, any1(g.random, ">", "<", "=", ">=", "<>"), g.literalOf(a.family).node))))
	}
	for range g.IntN(4) {
		items = append(items, g.aggregate(sc))
	}
	if rollup == "" && g.one(10) {
		// A window over the groups.
		a := g.aggregate(sc)
		if !a.approximate && a.family != Text && a.family != Bytes && a.family != Double {
			w := glued("SUM(COUNT(*)) OVER (ORDER BY ", list(-1, slices.Clone(by.Kids)...), ")")
			items = append(items, expr{node: w, family: Decimal, exact: true})
		}
	}
	keys := names(items[:n])
	if rollup != "" {
		keys = nil // a NULL may be a group's or a sum's
	}
	group := words("GROUP BY", by, rollup)
	if rollup != "" {
		b := g.unordered(items, "FROM", from, where, group, having)
		return b
	}
	b := g.selected("SELECT", items, keys, nested, "FROM", from, where, group, having)
	b.unique = aliases(n)
	return b
}

// unordered is selected without ORDER BY and LIMIT.
func (g *gen) unordered(items []expr, rest ...any) block {
	what := list(1)
	var b block
	for i, e := range items {
		what.Kids = append(what.Kids, item(e, i+1))
		b.fields = append(b.fields, fieldOf(e, i+1))
	}
	b.node = sorted("query", words(slices.Concat([]any{"SELECT", what}, rest)...))
	return b
}

// windowed is a block with window functions. What depends on the order of equal
// rows gets a total one.
func (g *gen) windowed(sc *scope, from, where *Node, nested bool) block {
	items := g.items(sc, 1)
	keys := g.keys(sc.sources)
	own := &scope{sources: sc.sources}
	for range 1 + g.IntN(2) {
		partition := ""
		var over []any
		if p, _, ok := g.pick(own, func(f field) bool { return f.family != JSON }); ok && g.IntN(3) > 0 {
			over = append(over, "PARTITION BY", p.node)
			partition = "p"
		}
		o, _, ok := g.pick(own, func(f field) bool { return f.family != JSON })
		if !ok {
			break
		}
		total := list(-1, append([]*Node{glued(o.node, any1(g.random, "", " DESC"))}, keys...)...)
		w := func(fn *Node, family Family, by bool, order *Node, frame string) {
			parts := slices.Clone(over)
			if by {
				parts = append(parts, "ORDER BY", order)
			}
			if frame != "" {
				parts = append(parts, frame)
			}
			items = append(items, expr{node: glued(fn, " OVER (", words(parts...), ")"), family: family, exact: true})
		}
		arg := g.column(own, any1(g.random, Int, Decimal, Double))
		sum := arg.family
		if sum == Int {
			sum = Decimal
		}
		switch g.IntN(7) {
		case 0:
			if keys != nil {
				w(text(any1(g.random, "ROW_NUMBER()", "NTILE(3)")), Int, true, total, "")
			}
		case 1:
			w(text(any1(g.random, "RANK()", "DENSE_RANK()")), Int, true, list(-1, o.node), "")
		case 2:
			if keys != nil && arg.node.Literal == nil {
				rest := any1(g.random, ")", ", 2)", ", 1, 0)")
				if g.d.MariaDB && rest == ", 1, 0)" {
					rest = ")" // MariaDB knows no default
				}
				w(glued(any1(g.random, "LAG(", "LEAD("), arg.node, rest), arg.family, true, total, "")
			}
		case 3:
			if keys != nil {
				w(glued(any1(g.random, "FIRST_VALUE(", "LAST_VALUE("), arg.node, ")"), arg.family, true, total, any1(g.random, "", "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"))
			}
		case 4:
			if keys != nil {
				w(glued(any1(g.random, "SUM(", "AVG(", "COUNT(", "MIN(", "MAX("), arg.node, ")"), sum, true, total, any1(g.random, "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING"))
			}
		case 5:
			w(glued(any1(g.random, "SUM(", "COUNT(", "MAX("), arg.node, ")"), sum, true, list(-1, o.node), "")
		default:
			w(glued(any1(g.random, "SUM(", "AVG(", "COUNT(", "MIN("), arg.node, ")"), sum, partition == "" && g.one(3), list(-1, o.node), "")
		}
	}
	return g.selected("SELECT", items, keys, nested, "FROM", from, where)
}

// union is a set operation over blocks of like columns.
func (g *gen) union(depth int, nested bool) block {
	var families []Family
	for range 1 + g.IntN(3) {
		families = append(families, any1(g.random, Int, Int, Decimal, Text, Date))
	}
	branch := func() (*Node, []expr) {
		sources, from := g.from(depth - 1)
		sc := &scope{sources: sources}
		where := g.where(sc, 1)
		var items []expr
		for _, f := range families {
			e := g.expr(sc, f, 1)
			if f == Text {
				// Texts of all branches compare by one collation.
				e.node = glued("CONVERT(", e.node, " USING utf8mb4) COLLATE utf8mb4_general_ci")
				e.collation, e.exact = "utf8mb4_general_ci", false
			}
			items = append(items, e)
		}
		b := g.unordered(items, "FROM", from, where)
		b.node = sorted("", b.node)
		return b.node, items
	}
	first, items := branch()
	distinct := false
	parts := []any{first}
	// EXCEPT and INTERSECT of equal texts answer one of them.
	branches := 1 + g.IntN(2)
	for range branches {
		op := any1(g.random, "UNION ALL", "UNION ALL", "UNION", "UNION DISTINCT", "EXCEPT", "INTERSECT")
		if op == "INTERSECT" && branches > 1 {
			op = "UNION" // INTERSECT binds closer than the others
		}
		distinct = op != "UNION ALL"
		next, _ := branch()
		parts = append(parts, words(op, sorted("subquery", next)))
		if op != "UNION ALL" {
			for i := range items {
				items[i] = loosen(items[i])
			}
		}
	}
	for i, e := range items {
		first.Kids[1].Kids[i] = item(e, i+1)
	}
	var keys []*Node
	if distinct {
		keys = names(items)
	}
	tail, by := g.tail(items, keys, nested)
	for _, i := range by {
		first.Kids[1].Kids[i] = marked(first.Kids[1].Kids[i], Sorted)
	}
	first.Kids[1].Least = -1
	b := block{node: sorted("query", words(append(parts, tail)...))}
	for i, e := range items {
		b.fields = append(b.fields, fieldOf(e, i+1))
	}
	if distinct {
		b.unique = aliases(len(items))
	}
	return b
}
