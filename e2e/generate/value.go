package generate

import (
	"fmt"
	"strconv"
	"strings"
)

// words of which texts are made: alike but for what collations care about.
var alphabet = []string{"ann", "bob", "eve", "straße", "strasse", "émile", "emile", "a", "b", "", "10", "1e1", "x", "zed", "ab", "a%b", "o''k", "x_y"}

// Fold maps texts of the alphabet that some collation takes for equal to one.
func Fold(s string) string {
	s = strings.ToLower(strings.TrimRight(s, " "))
	// UPPER('ß') is 'ß' or 'SS'; general_ci takes ß for s.
	return strings.NewReplacer("é", "e", "É", "e", "ß", "s", "ss", "s").Replace(s)
}

func literal(sql string, param any) *Node {
	return &Node{Text: sql, Least: -1, Literal: &Value{param}, Sort: "literal"}
}

func intLiteral(n int) *Node { return literal(strconv.Itoa(n), int64(n)) }

// unquoted is the value of a quoted literal.
func unquoted(s string) string { return strings.ReplaceAll(s, "''", "'") }

func quoted(s string) *Node { return literal("'"+s+"'", unquoted(s)) }

// word is a text of the alphabet, quotes doubled.
func word(r random, width int) string {
	s := any1(r, alphabet...)
	switch r.IntN(8) {
	case 0:
		s = strings.ToUpper(s)
	case 1:
		s += " "
	case 2:
		s += strconv.Itoa(r.IntN(4))
	}
	if len([]rune(unquoted(s))) > width {
		return "x"
	}
	return s
}

func dates(r random) string {
	return any1(r, "2020-01-02", "2020-02-29", "2021-12-31", "2019-07-04", "2020-01-03", "1999-12-31", "2020-06-15", "2021-01-01", "2020-01-31")
}

func clocks(r random) string {
	return any1(r, "00:00:00", "10:00:00", "23:59:59", "12:34:56", "10:00:00", "01:02:03")
}

// compared is a literal for a comparison with the column. MariaDB 10.11 finds 10
// by 10.05 where it looks an integer up in an index for a join, so it gets none.
func (g *gen) compared(c *Column) *Node {
	for {
		n := value(g.random, c, !g.even)
		if !g.d.MariaDB || c.Family != Int || strings.HasPrefix(n.Text, "'") || !strings.ContainsAny(n.Text, ".?") {
			return n
		}
	}
}

// value is a literal that the column takes; odd ones now and then have another
// form or type than the column's. Not of a date or time: what MySQL finds by a
// number there, or whether it is an error, its plan decides.
func value(r random, c *Column, odd bool) *Node {
	temporal := c.Family == Date || c.Family == DateTime || c.Family == Time
	if odd && !temporal && r.one(25) {
		other := *c
		other.Members, other.Width = nil, 20
		other.Family = any1(r, Int, Text, Decimal, Date)
		return value(r, &other, false)
	}
	switch c.Family {
	case Int:
		n := r.IntN(30)
		switch {
		case c.Key:
			n = r.IntN(60)
		case !c.Unsigned && r.one(6):
			n = -r.IntN(5)
		}
		if odd && r.one(15) {
			return quoted(strconv.Itoa(n))
		}
		return intLiteral(n)
	case Decimal:
		scale := 2
		if strings.Contains(c.Type, ",0)") {
			scale = 0
		}
		n := r.IntN(40)
		s := strconv.Itoa(n)
		if scale > 0 {
			s += any1(r, ".25", ".50", ".5", ".05", ".10", ".99", "")
		}
		if !c.Unsigned && r.one(5) {
			s = "-" + s
		}
		return literal(s, s)
	case Double:
		f := float64(r.IntN(120)-20) / 4
		s := strconv.FormatFloat(f, 'f', -1, 64) + "e0"
		return literal(s, f)
	case Text:
		if c.Members != nil {
			return quoted(any1(r, c.Members...))
		}
		w := word(r, c.Width)
		if c.Trimmed {
			w = strings.TrimRight(w, " ")
		}
		return quoted(w)
	case Bytes:
		h := any1(r, "00", "61", "6162", "41", "FF", "61620063", "20", "6100")
		return text("x'" + h + "'")
	case Date:
		s := dates(r)
		if odd && r.one(8) {
			return text("DATE'" + s + "'")
		}
		return quoted(s)
	case DateTime:
		s := dates(r) + " " + clocks(r)
		switch r.IntN(4) {
		case 0:
			// MySQL takes the literal for the column's type where it goes by an
			// index, and not where it doesn't: a fraction has an answer only where
			// the column can have one.
			if strings.Contains(c.Type, "(") {
				s += ".250"
			}
		case 1:
			s = s[:11] + "00:00:00"
		}
		return quoted(s)
	case Time:
		s := clocks(r)
		if r.one(5) {
			s = "-" + s
		}
		return quoted(s)
	case JSON:
		return literal("'"+any1(r, `{"a": 1}`, `{"a": 2, "b": [1, 2]}`, `[1, "x"]`, `"s"`, `5`, `null`, `{"a": {"c": "x"}}`)+"'", nil).unbound()
	case Bit:
		return text(any1(r, "b'0'", "b'1'"))
	}
	panic(fmt.Sprintf("no value of family %d", c.Family))
}

// unbound keeps a literal from being made a parameter.
func (n *Node) unbound() *Node {
	c := *n
	c.Literal = nil
	return &c
}
