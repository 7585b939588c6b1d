package generate

import "strings"

// write is an INSERT, REPLACE, UPDATE or DELETE, and the tables that it changes.
func (g *gen) write() (*Node, []string) {
	g.aliases, g.ctes, g.even = 0, nil, true
	defer func() { g.even = false }()
	t := g.tables[g.IntN(len(g.tables))]
	own := []string{t.Name}
	switch g.IntN(16) {
	case 0, 1, 2, 3:
		return g.insert(t, 1), own
	case 4, 5:
		return g.insert(t, 2+g.IntN(4)), own
	case 6:
		return g.insertSelect(t), own
	case 7, 8, 9, 10:
		return g.update(t), own
	case 11:
		n, names := g.updateJoin()
		return n, names
	case 12, 13:
		return g.delete(t), own
	case 14:
		n, names := g.deleteJoin()
		return n, names
	default:
		return g.insert(t, 1), own
	}
}

// cell is a value for a column of a new row.
func (g *gen) cell(c *Column) *Node {
	switch {
	case c.Default != "" && g.one(8):
		return text("DEFAULT")
	case !c.NotNull && !c.Key && g.one(6):
		return literal("NULL", nil)
	case c.NotNull && g.one(150):
		return literal("NULL", nil)
	case c.Family == Int && !c.Key && g.one(12):
		return glued("(", value(g.random, c, false), " + ", intLiteral(g.IntN(3)), ")")
	case c.Family == Text && c.Members == nil && !c.Key && g.one(12):
		return glued("CONCAT(", quoted(any1(g.random, "a", "e", "x")), ", ", quoted(word(g.random, 5)), ")")
	case c.Family == Text && c.Members == nil && g.one(60):
		return quoted(strings.Repeat("long ", 1+c.Width/4))
	case c.Key && c.Family == Int && g.one(40):
		return glued("(", value(g.random, c, false), " + ", intLiteral(g.IntN(3)), ")")
	}
	return value(g.random, c, !c.Key)
}

func (g *gen) insert(t *Table, rows int) *Node {
	columns := t.writable()
	if g.one(4) {
		// Some columns are left to their defaults.
		var some []*Column
		for _, c := range columns {
			if c.Key || c.NotNull || g.IntN(3) > 0 {
				some = append(some, c)
			}
		}
		columns = some
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	verb := any1(g.random, "INSERT INTO", "INSERT INTO", "INSERT INTO", "INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO", "INSERT")
	if rows == 1 && g.one(10) {
		set := list(1)
		for _, c := range columns {
			set.Kids = append(set.Kids, words(c.Name, "=", g.cell(c)))
		}
		return words(verb, t.Name, "SET", set, g.onDuplicate(t, verb))
	}
	values := list(1)
	for range rows {
		row := list(-1)
		for _, c := range columns {
			row.Kids = append(row.Kids, g.cell(c))
		}
		values.Kids = append(values.Kids, glued("(", row, ")"))
	}
	into := t.Name + " (" + strings.Join(names, ", ") + ")"
	if len(columns) == len(t.Columns) && g.one(3) {
		into = t.Name
	}
	return words(verb, into, any1(g.random, "VALUES", "VALUES", "VALUE"), values, g.onDuplicate(t, verb))
}

// settable are the columns that an UPDATE may change: no key, nothing unique.
func (t *Table) settable() []*Column {
	var out []*Column
	for _, c := range t.writable() {
		unique := false
		for _, u := range t.Uniques {
			for _, name := range u {
				unique = unique || name == c.Name
			}
		}
		if !c.Key && !unique {
			out = append(out, c)
		}
	}
	return out
}

func (g *gen) onDuplicate(t *Table, verb string) *Node {
	able := t.settable()
	if strings.HasPrefix(verb, "REPLACE") || !g.one(4) || len(able) == 0 {
		return nil
	}
	set := list(1)
	assigned := map[*Column]bool{}
	for range 1 + g.IntN(2) {
		c := able[g.IntN(len(able))]
		how := g.IntN(3)
		if assigned[c] && (c.Family == JSON || c.Family == Text && g.d.MariaDB) {
			continue // VALUES() would be what the first assignment has left there: on MySQL no valid JSON
		}
		assigned[c] = true
		switch how {
		case 0:
			set.Kids = append(set.Kids, text(c.Name+" = VALUES("+c.Name+")"))
		case 1:
			set.Kids = append(set.Kids, g.assignment(c))
		default:
			set.Kids = append(set.Kids, words(c.Name, "=", value(g.random, c, false)))
		}
	}
	return optional(words("ON DUPLICATE KEY UPDATE", set))
}

// assignment sets a column to a literal or to an expression that stays in range.
func (g *gen) assignment(c *Column) *Node {
	self := c.Name
	var v *Node
	switch {
	case g.IntN(3) > 0:
		v = g.cell(c)
	case c.Family == Int && c.Unsigned:
		v = words(self, "%", "7")
	case c.Family == Int && !strings.HasPrefix(c.Type, "TINYINT"):
		v = words("("+self, any1(g.random, "+", "-"), "1) % 50")
	case c.Family == Decimal || c.Family == Double:
		v = glued("ABS(", self, ")")
	case c.Family == Text && c.Members == nil:
		v = glued(any1(g.random, "UPPER(", "LOWER(", "TRIM("), self, ")")
		if g.one(3) {
			v = glued("LEFT(CONCAT('x', ", self, "), 3)")
		}
	case c.Family == Date:
		v = glued("DATE_ADD(", self, ", INTERVAL 1 DAY)")
	default:
		v = g.cell(c)
	}
	return words(self, "=", v)
}

func (g *gen) update(t *Table) *Node {
	s := g.tableSource(t)
	s.bare, s.alias = true, t.Name
	sc := &scope{sources: []*source{s}}
	able := t.settable()
	set := list(1)
	for range 1 + g.IntN(2) {
		if len(able) > 0 {
			set.Kids = append(set.Kids, g.assignment(able[g.IntN(len(able))]))
		}
	}
	if len(set.Kids) == 0 {
		return g.insert(t, 1)
	}
	return words(any1(g.random, "UPDATE", "UPDATE", "UPDATE", "UPDATE", "UPDATE IGNORE"), t.Name, "SET", set, g.narrow(sc), g.writeTail(s))
}

// narrow is the WHERE of a write: mostly of few rows.
func (g *gen) narrow(sc *scope) *Node {
	conditions := list(1)
	conditions.Sep = " AND "
	if g.IntN(3) > 0 {
		conditions.Kids = append(conditions.Kids, g.routed(sc))
	}
	if len(conditions.Kids) == 0 || g.one(3) {
		depth := 1
		if g.IntN(4) > 0 {
			depth = 0
		}
		conditions.Kids = append(conditions.Kids, g.pred(sc, depth))
	}
	if g.one(40) {
		return nil
	}
	return words("WHERE", conditions)
}

// writeTail is now and then an ORDER BY a key with LIMIT.
func (g *gen) writeTail(s *source) *Node {
	keys := g.keys([]*source{s})
	if keys == nil || !g.one(20) {
		return nil
	}
	return optional(words("ORDER BY", list(-1, keys...), "LIMIT", text(itoa(1+g.IntN(4)))))
}

func (g *gen) delete(t *Table) *Node {
	s := g.tableSource(t)
	s.bare, s.alias = true, t.Name
	sc := &scope{sources: []*source{s}}
	return words(any1(g.random, "DELETE FROM", "DELETE FROM", "DELETE FROM", "DELETE IGNORE FROM"), t.Name, g.narrow(sc), g.writeTail(s))
}

// pair is two tables joined on their keys or on something else.
func (g *gen) pair() (x, y *source, from *Node) {
	a, b := g.tables[0], g.tables[1]
	if g.one(3) {
		a, b = g.tables[g.IntN(len(g.tables))], g.tables[g.IntN(len(g.tables))]
	}
	if g.one(2) {
		a, b = b, a
	}
	x, y = g.tableSource(a), g.tableSource(b)
	on := g.coLocated(y, &scope{sources: []*source{x}})
	if on == nil {
		on = g.tie(y, &scope{sources: []*source{x}})
	}
	if on == nil {
		on = text("1 = 1")
	}
	return x, y, words(a.Name, x.alias, "JOIN", b.Name, y.alias, "ON", on)
}

func (g *gen) updateJoin() (*Node, []string) {
	x, y, from := g.pair()
	able := x.table.settable()
	if len(able) == 0 || x.table == y.table {
		return g.delete(x.table), []string{x.table.Name}
	}
	// A literal: of several rows that a row is joined with any might be taken.
	c := able[g.IntN(len(able))]
	set := words(x.alias+"."+c.Name, "=", g.cell(c))
	return words("UPDATE", from, "SET", set, "WHERE", g.routed(&scope{sources: []*source{x, y}})), []string{x.table.Name, y.table.Name}
}

func (g *gen) deleteJoin() (*Node, []string) {
	x, y, from := g.pair()
	what := x.alias
	if g.one(3) && x.table != y.table {
		what += ", " + y.alias
	}
	return words("DELETE", what, "FROM", from, "WHERE", g.routed(&scope{sources: []*source{x, y}})), []string{x.table.Name, y.table.Name}
}

// insertSelect reads rows of one table into another, keys in the order of the
// source's, so that of equal ones the same is first everywhere.
func (g *gen) insertSelect(t *Table) *Node {
	from := g.tables[g.IntN(len(g.tables))]
	if g.one(2) {
		from = t
	}
	s := g.tableSource(from)
	sc := &scope{sources: []*source{s}}
	keys := g.keys([]*source{s})
	var names []string
	what := list(-1)
	for i, c := range t.writable() {
		if !c.Key && !c.NotNull && g.one(3) {
			continue
		}
		names = append(names, c.Name)
		switch {
		case c.Key && i < len(from.Primary) && from.Primary[i].Family == c.Family:
			e := g.ref(s, s.fields[i])
			switch {
			case c.Family == Int && (i > 0 || g.one(2)):
				e.node = glued("(", signed(e).node, " + ", text(itoa(g.IntN(40))), ")")
			case c.Family == Text:
				e.node = glued("LEFT(", e.node, ", 5)")
			}
			what.Kids = append(what.Kids, e.node)
		case from == t && g.IntN(3) > 0 && c.Members != nil:
			// As a text: a server copies even the '' of an invalid value.
			what.Kids = append(what.Kids, text("CONCAT("+s.alias+"."+c.Name+")"))
		case from == t && g.IntN(3) > 0:
			what.Kids = append(what.Kids, text(s.alias+"."+c.Name))
		default:
			what.Kids = append(what.Kids, g.cell(c).dropDefault(g, c))
		}
	}
	into := t.Name + " (" + strings.Join(names, ", ") + ")"
	verb := any1(g.random, "INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO")
	return words(verb, into, "SELECT", what, "FROM", from.Name, s.alias, "WHERE", g.routed(sc), "ORDER BY", list(-1, keys...))
}

// dropDefault replaces DEFAULT, which is only for VALUES.
func (n *Node) dropDefault(g *gen, c *Column) *Node {
	if n.Text == "DEFAULT" {
		return value(g.random, c, false)
	}
	return n
}
