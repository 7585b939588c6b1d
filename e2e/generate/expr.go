package generate

import (
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// gen makes the parts of statements of one world.
type gen struct {
	random
	d       Dialect
	tables  []*Table
	aliases int
	// even: no literal of another type than the column's. In strict mode a write
	// fails where one can't be converted, if its plan evaluates it for any row.
	even bool
	// ctes that the statement under way may name.
	ctes []*source
}

func (e expr) sorted() expr {
	e.node = sorted(sortOf(e.family), e.node)
	return e
}

// literalOf is a literal of a family.
func (g *gen) literalOf(f Family) expr {
	return expr{node: value(g.random, &Column{Family: f, Width: 20}, false), family: f, exact: f != Text, plain: true}
}

// column is a column of a family, else a literal.
func (g *gen) column(sc *scope, f Family) expr {
	if e, _, ok := g.pick(sc, func(x field) bool { return x.family == f && !x.folded }); ok {
		return e
	}
	return g.literalOf(f)
}

// signed is an integer whose arithmetic can't leave its range.
func signed(e expr) expr {
	if e.unsigned {
		e.node = glued("CAST(", e.node, " AS SIGNED)")
		e.unsigned, e.plain = false, false
	}
	return e
}

// expr is an expression of a family.
func (g *gen) expr(sc *scope, f Family, depth int) expr {
	if depth <= 0 || g.one(3) {
		if g.one(6) {
			return g.literalOf(f).sorted()
		}
		return g.column(sc, f)
	}
	sub := func(f Family) *Node { return g.expr(sc, f, depth-1).node }
	num := func() *Node { return signed(g.expr(sc, Int, depth-1)).node }
	out := expr{family: f, exact: f != Text}
	set := func(parts ...any) { out.node = glued(parts...) }
	if f != Bit && g.one(5) {
		// Forms that any family has. Two texts of different collations don't mix; a
		// BIT is a number or its bytes as the server takes a temporary table.
		a, b := g.column(sc, f), g.column(sc, f)
		if f == Text && a.collation != b.collation {
			b = g.literalOf(f)
		}
		out.collation, out.exact = a.collation, f != Text
		if f == Int {
			a, b = signed(a), signed(b)
		}
		switch g.IntN(5) {
		case 0:
			set("CASE WHEN ", g.pred(sc, depth-1), " THEN ", a.node, " ELSE ", b.node, " END")
		case 1:
			set("COALESCE(", a.node, ", ", b.node, ")")
		case 2:
			set("IFNULL(", a.node, ", ", b.node, ")")
		case 3:
			set("IF(", g.pred(sc, depth-1), ", ", a.node, ", ", b.node, ")")
		default:
			set("NULLIF(", a.node, ", ", b.node, ")")
		}
		if f == Decimal {
			// MySQL shows the value's own scale, or the result's where it goes through
			// a temporary table.
			set("CAST(", out.node, " AS DECIMAL(20,4))")
		}
		return out.sorted()
	}
	switch f {
	case Int:
		switch g.IntN(14) {
		case 0, 1:
			set("(", num(), any1(g.random, " + ", " - "), num(), ")")
		case 2:
			set("(", num(), " * ", intLiteral(2+g.IntN(3)), ")")
		case 3:
			set("(", num(), any1(g.random, " DIV ", " % "), intLiteral(1+g.IntN(7)), ")")
		case 4:
			set(any1(g.random, "ABS(", "SIGN("), num(), ")")
		case 5:
			set(any1(g.random, "CHAR_LENGTH(", "LENGTH(", "ASCII("), sub(Text), ")")
		case 6:
			set(any1(g.random, "YEAR(", "MONTH(", "DAYOFMONTH(", "DAYOFWEEK(", "QUARTER("), sub(Date), ")")
			out.unsigned = true // a few of them are
		case 7:
			set("DATEDIFF(", sub(Date), ", ", sub(Date), ")")
		case 8:
			set(any1(g.random, "LEAST(", "GREATEST("), num(), ", ", num(), ")")
		case 9:
			return g.scalar(sc, Int, depth-1)
		case 10:
			set("LOCATE(", quoted(any1(g.random, "a", "e", "n")), ", ", sub(Text), ")")
		case 11:
			set(any1(g.random, "FLOOR(", "CEILING("), sub(Decimal), ")")
		case 12:
			set("HOUR(", sub(Time), ")")
		default:
			set("(", g.pred(sc, depth-1), ")")
		}
	case Decimal:
		switch g.IntN(7) {
		case 0, 1:
			a, b := g.expr(sc, Decimal, depth-1), g.expr(sc, Decimal, depth-1)
			op := " + "
			if !a.unsigned && !b.unsigned && g.one(2) {
				op = " - " // of unsigned ones it may fail, but for rows that a plan leaves out
			}
			set("(", a.node, op, b.node, ")")
		case 2:
			set("(", sub(Decimal), " * ", num(), ")")
		case 3:
			set("ROUND(", sub(Decimal), ", ", text(itoa(g.IntN(3))), ")")
		case 4:
			set("(", sub(Decimal), " / ", intLiteral(2+g.IntN(6)), ")")
		case 5:
			set("CAST(", num(), " AS DECIMAL(12,2))")
		default:
			return g.scalar(sc, Decimal, depth-1)
		}
	case Double:
		switch g.IntN(4) {
		case 0, 1:
			set("(", sub(Double), any1(g.random, " + ", " - "), sub(Double), ")")
		case 2:
			set("(", sub(Double), " * ", intLiteral(1+g.IntN(4)), ")")
		default:
			set("ABS(", sub(Double), ")")
		}
	case Text:
		t := g.expr(sc, Text, depth-1)
		out.collation, out.exact = t.collation, false
		switch g.IntN(12) {
		case 0, 1:
			set("CONCAT(", t.node, ", ", quoted(any1(g.random, "-", "x", " ")), ")")
		case 2:
			set("CONCAT(", t.node, ", ", num(), ")")
		case 3:
			set("UPPER(", t.node, ")")
		case 4:
			set("LOWER(", t.node, ")")
		case 5:
			set("SUBSTRING(", t.node, ", ", text(itoa(1+g.IntN(3))), ", ", text(itoa(1+g.IntN(4))), ")")
		case 6:
			set(any1(g.random, "TRIM(", "RTRIM(", "REVERSE(", "HEX("), t.node, ")")
		case 7:
			// Not by more: MySQL cuts the result off where it goes through a temporary table.
			set("REPLACE(", t.node, ", ", quoted("a"), ", ", quoted("e"), ")")
		case 8:
			set(any1(g.random, "LEFT(", "RIGHT("), t.node, ", ", text(itoa(1+g.IntN(3))), ")")
		case 9:
			set(any1(g.random, "LPAD(", "RPAD("), t.node, ", 6, ", quoted("*"), ")")
		case 10:
			set("CAST(", num(), " AS CHAR)")
			out.collation = ""
		default:
			set("DATE_FORMAT(", sub(Date), ", ", text("'%Y-%m'"), ")")
			out.collation = ""
		}
	case Date:
		switch g.IntN(3) {
		case 0:
			set("DATE_ADD(", g.column(sc, Date).node, ", INTERVAL ", text(itoa(g.IntN(40))), any1(g.random, " DAY)", " MONTH)"))
			if g.one(2) {
				set("LAST_DAY(", g.column(sc, Date).node, ")")
			}
		case 1:
			set("CAST(", sub(DateTime), " AS DATE)")
		default:
			set("DATE(", sub(DateTime), ")")
		}
	case DateTime:
		set("CAST(", g.column(sc, Date).node, " AS DATETIME)")
	case Time:
		set("CAST(", g.column(sc, DateTime).node, " AS TIME)")
	case Bytes:
		set("CONCAT(", g.column(sc, Bytes).node, ", x'41')")
	case JSON, Bit:
		return g.column(sc, f)
	}
	return out.sorted()
}

// anyFamily is one that the block has columns of.
func (g *gen) anyFamily(sc *scope) Family {
	e, _, ok := g.pick(&scope{sources: sc.sources}, func(f field) bool { return !f.folded })
	if !ok {
		return Int
	}
	return e.family
}

var comparisons = []string{"=", "=", "=", "<", "<=", ">", ">=", "<>", "<=>"}

// routed is a predicate that may bound the shards: an equality, list or range
// of a column that places or indexes rows.
func (g *gen) routed(sc *scope) *Node {
	var s *source
	for range 4 {
		s = sc.sources[g.IntN(len(sc.sources))]
		if s.table != nil && s.table.Spread {
			break
		}
	}
	if s.table == nil {
		return g.pred(sc, 1)
	}
	if g.one(3) && len(s.table.Virtual) > 0 {
		return sorted("pred", g.indexed(s))
	}
	names := []string{}
	if s.table.Shard != nil {
		names = append(names, s.table.Shard.Name)
	} else if s.table.Primary != nil {
		names = append(names, s.table.Primary[0].Name)
	}
	for _, v := range s.table.Virtual {
		names = append(names, v...)
	}
	if len(names) == 0 {
		return g.pred(sc, 1)
	}
	var f field
	name := names[g.IntN(len(names))]
	for _, x := range s.fields {
		if x.name == name {
			f = x
		}
	}
	c := g.ref(s, f).node
	lit := func() *Node { return g.compared(f.column) }
	switch g.IntN(10) {
	case 0, 1:
		in := list(1)
		for range 1 + g.IntN(4) {
			in.Kids = append(in.Kids, lit())
		}
		return sorted("pred", glued(c, " IN (", in, ")"))
	case 2:
		return sorted("pred", words(c, "BETWEEN", lit(), "AND", lit()))
	case 3:
		return sorted("pred", words(c, any1(g.random, "<", ">", "<=", ">="), lit()))
	case 4:
		return sorted("pred", glued("(", c, " = ", lit(), " OR ", c, " = ", lit(), ")"))
	default:
		return sorted("pred", words(c, "=", lit()))
	}
}

// indexed is a predicate of all columns of a virtual index, mostly by the values of rows
// that were there at the beginning: others hardly ever meet a row in more than one column.
func (g *gen) indexed(s *source) *Node {
	names := s.table.Virtual[g.IntN(len(s.table.Virtual))]
	columns := make([]*Node, len(names))
	fields := make([]*Column, len(names))
	for i, name := range names {
		f := s.fields[slices.IndexFunc(s.fields, func(f field) bool { return f.name == name })]
		columns[i], fields[i] = g.ref(s, f).node, f.column
	}
	tuple := func() []*Node {
		var row []*Node
		if n := len(s.table.first); n > 0 {
			row = s.table.first[g.IntN(n)]
		}
		out := make([]*Node, len(fields))
		for i, c := range fields {
			if at := slices.Index(s.table.writable(), c); at >= 0 && row != nil && !g.one(12) {
				out[i] = row[at]
			} else {
				out[i] = g.compared(c)
			}
		}
		return out
	}
	last := len(fields) - 1
	and := func(values []*Node, ops ...string) *Node {
		var parts []any
		for i, c := range columns {
			if i > 0 {
				parts = append(parts, "AND")
			}
			parts = append(parts, c, ops[min(i, len(ops)-1)], values[i])
		}
		return words(parts...)
	}
	row := func(values []*Node) *Node {
		if last == 0 {
			return values[0]
		}
		return glued("(", list(-1, values...), ")")
	}
	prefixed := func() []*Node {
		values := slices.Clone(tuple())
		prefix := any1(g.random, "a", "e", "s", "x", "b", "str", "1", "A")
		if text, ok := values[last].text(); ok && text != "" && strings.Trim(text[:1], "%_") != "" {
			prefix = text[:1]
		}
		values[last] = quoted(prefix + any1(g.random, "%", "%", "%%", "_%"))
		return values
	}
	if fields[last].Family == Text && g.one(3) {
		return and(prefixed(), append(slices.Repeat([]string{"="}, last), "LIKE")...)
	}
	switch g.IntN(7) {
	case 0:
		return and(tuple(), any1(g.random, "=", "<=>"))
	case 1:
		return glued(row(columns), " = ", row(tuple()))
	case 2:
		in := list(1)
		for range 1 + g.IntN(4) {
			in.Kids = append(in.Kids, row(tuple()))
		}
		return glued(row(columns), " IN (", in, ")")
	case 3:
		return and(tuple(), append(slices.Repeat([]string{"="}, last), any1(g.random, "<", "<=", ">", ">="))...)
	case 4:
		x, y := tuple(), tuple()
		between := words(columns[last], "BETWEEN", x[last], "AND", y[last])
		if last == 0 {
			return between
		}
		return words(columns[0], "=", x[0], "AND", between)
	case 5:
		return glued("(", and(tuple(), "="), " OR ", and(tuple(), "="), ")")
	}
	x, y := tuple(), tuple()
	return words(glued(columns[0], " IN (", list(1, x[0], y[0], literal("NULL", nil)), ")"), "AND", glued(columns[last], " IN (", list(1, x[last], y[last]), ")"))
}

// text is the value of a literal that is a printable text of ASCII.
func (n *Node) text() (string, bool) {
	if n.Literal == nil {
		return "", false
	}
	s, ok := n.Literal.Of.(string)
	return s, ok && strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' || c == '\'' || c == '\\' }) < 0
}

// pred is a condition.
func (g *gen) pred(sc *scope, depth int) *Node { return sorted("pred", g.condition(sc, depth)) }

func (g *gen) condition(sc *scope, depth int) *Node {
	if depth > 0 && g.one(3) {
		l, r := g.pred(sc, depth-1), g.pred(sc, depth-1)
		switch g.IntN(7) {
		case 0:
			return glued("NOT (", l, ")")
		case 1, 2:
			return glued("(", l, " OR ", r, ")")
		case 3:
			return glued("(", l, " XOR ", r, ")")
		default:
			return glued("(", l, " AND ", r, ")")
		}
	}
	if depth > 0 && g.one(6) {
		return g.subqueryPred(sc, depth-1)
	}
	e, f, ok := g.pick(sc, func(f field) bool { return f.family != JSON && f.family != Bit })
	if !ok {
		return words(g.expr(sc, Int, depth).node, any1(g.random, comparisons...), intLiteral(g.IntN(20)))
	}
	lit := func() *Node {
		if f.column != nil {
			return g.compared(f.column)
		}
		return g.literalOf(f.family).node
	}
	switch g.IntN(16) {
	case 0:
		return words(e.node, any1(g.random, "IS NULL", "IS NOT NULL"))
	case 1, 2:
		in := list(1)
		for range 1 + g.IntN(4) {
			in.Kids = append(in.Kids, lit())
		}
		return glued(e.node, any1(g.random, " IN (", " IN (", " NOT IN ("), in, ")")
	case 3:
		return words(e.node, any1(g.random, "BETWEEN", "BETWEEN", "NOT BETWEEN"), lit(), "AND", lit())
	case 4:
		if f.family == Text && !f.folded {
			return words(e.node, any1(g.random, "LIKE", "LIKE", "NOT LIKE"), quoted(any1(g.random, "a%", "%e", "stra_e", "%n%", "e_", "A%", "")))
		}
	case 5:
		if f.family == Text && !f.folded {
			return words(e.node, any1(g.random, comparisons...), quoted(word(g.random, 20)), "COLLATE", charsetless(f.collation))
		}
	case 6, 7:
		// Two columns of a family.
		if o, of, ok := g.pick(sc, func(x field) bool { return x.family == f.family && x.collation == f.collation && x.name != f.name }); ok && (!of.folded || of.collation == f.collation) {
			// Not <=>: MySQL, where it joins by hash, forgets an = of the same columns.
			return words(e.node, any1(g.random, comparisons[:len(comparisons)-1]...), o.node)
		}
	case 8:
		if depth > 0 && !f.folded {
			x := g.expr(sc, f.family, depth-1)
			if f.family != Text || x.collation == f.collation {
				return words(x.node, any1(g.random, comparisons...), lit())
			}
		}
	case 9:
		if o, of, ok := g.pick(sc, func(x field) bool { return x.column != nil && x.family != JSON && x.family != Bit && x.name != f.name }); ok {
			return glued("(", e.node, ", ", o.node, ") IN ((", lit(), ", ", value(g.random, of.column, false), "), (", lit(), ", ", value(g.random, of.column, false), "))")
		}
	case 10:
		return words(lit(), any1(g.random, comparisons...), e.node)
	}
	return words(e.node, any1(g.random, comparisons...), lit())
}

// charsetless is the collation of a utf8mb4 literal that is like a column's.
func charsetless(collation string) string {
	if charsetOf(collation) == "utf8mb4" {
		return collation
	}
	return "utf8mb4_bin"
}
