package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Kind of a statement.
type Kind uint8

// Kinds of statements.
const (
	Read Kind = iota
	Write
	// Session: SET, BEGIN, COMMIT and the like.
	Session
	// Schema: CREATE TABLE.
	Schema
)

// Statement of a world.
type Statement struct {
	Kind Kind
	Node *Node
	// Prepared: sent as a prepared statement, with parameters for its literals.
	Prepared bool
	// Tables that a Write changes.
	Tables []string
}

// SQL is the statement's text.
func (s Statement) SQL() string { return s.Node.String() }

// World is one schema and an endless row of statements over it.
type World struct {
	Tables []*Table
	// Mode is the sql_mode, as SET takes it.
	Mode string
	g    *gen
	// open: within a transaction, of so many statements more.
	open int
}

// New makes the world of a seed.
func New(seed uint64, d Dialect) *World {
	r := random{rand.New(rand.NewPCG(seed, 7))}
	tables := newTables(r, d)
	mode := any1(r, "DEFAULT", "DEFAULT", "DEFAULT", "'STRICT_TRANS_TABLES'", "'ONLY_FULL_GROUP_BY'", "''", "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'")
	return &World{Tables: tables, Mode: mode, g: &gen{random: r, d: d, tables: tables}}
}

// Setup sets the session, makes the tables and their rows.
func (w *World) Setup() []Statement {
	g := w.g
	out := []Statement{{Kind: Session, Node: text("SET SESSION sql_mode = " + w.Mode)}}
	for _, t := range w.Tables {
		out = append(out, Statement{Kind: Schema, Node: t.create()})
	}
	for _, t := range w.Tables {
		rows := 10 + g.IntN(30)
		columns := t.writable()
		values := list(1)
		seen := map[string]bool{}
		for i := range rows {
			row := list(-1)
			for _, c := range columns {
				switch {
				case c.Key && c.Family == Int && len(t.Primary) == 1:
					row.Kids = append(row.Kids, intLiteral(i))
				case c.Key && c.Family == Int:
					row.Kids = append(row.Kids, intLiteral(g.IntN(40)))
				case !c.NotNull && g.one(6):
					row.Kids = append(row.Kids, literal("NULL", nil))
				default:
					row.Kids = append(row.Kids, value(g.random, c, false))
				}
			}
			if t.unique(columns, row.Kids, seen) {
				t.first = append(t.first, row.Kids)
				values.Kids = append(values.Kids, glued("(", row, ")"))
			}
		}
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.Name
		}
		n := words("INSERT INTO", t.Name+" ("+strings.Join(names, ", ")+")", "VALUES", values)
		out = append(out, Statement{Kind: Write, Node: n, Tables: []string{t.Name}})
	}
	return out
}

// unique reports whether a row has no key of an earlier one, as far as any
// collation goes.
func (t *Table) unique(columns []*Column, row []*Node, seen map[string]bool) bool {
	keys := slices.Clone(t.Uniques)
	if t.Primary != nil {
		var names []string
		for _, c := range t.Primary {
			names = append(names, c.Name)
		}
		keys = append(keys, names)
	}
	var mine []string
	for _, k := range keys {
		var tuple strings.Builder
		tuple.WriteString(strings.Join(k, ","))
		for _, name := range k {
			i := slices.IndexFunc(columns, func(c *Column) bool { return c.Name == name })
			text := "generated"
			if i >= 0 {
				text = strings.Trim(row[i].String(), "'")
				if f, err := strconv.ParseFloat(text, 64); err == nil {
					text = fmt.Sprint(f)
				}
			}
			tuple.WriteString("|" + Fold(text))
		}
		if seen[tuple.String()] {
			return false
		}
		mine = append(mine, tuple.String())
	}
	for _, tuple := range mine {
		seen[tuple] = true
	}
	return true
}

// Virtual are the statements that make the virtual indexes.
func (w *World) Virtual() []string {
	var out []string
	for _, t := range w.Tables {
		for i, columns := range t.Virtual {
			partitions := ""
			if i == 1 {
				partitions = " PARTITIONS 2"
			}
			out = append(out, fmt.Sprintf("CREATE VIRTUAL INDEX ix_%s_%d ON %s (%s)%s", t.Name, i, t.Name, strings.Join(columns, ", "), partitions))
		}
	}
	return out
}

// Next is the next statement. A transaction that it opens is ended by a later
// one; Open says whether one is.
func (w *World) Next() Statement {
	g := w.g
	if w.open > 0 {
		w.open--
		if w.open == 0 {
			return Statement{Kind: Session, Node: text(any1(g.random, "COMMIT", "COMMIT", "ROLLBACK"))}
		}
	} else if g.one(40) {
		w.open = 3 + g.IntN(6)
		return Statement{Kind: Session, Node: text(any1(g.random, "BEGIN", "START TRANSACTION"))}
	}
	s := Statement{Prepared: g.one(8)}
	if g.IntN(4) > 0 {
		s.Node = g.read()
		if w.open > 0 && g.one(6) && !strings.Contains(s.Node.String(), "UNION") {
			s.Node = words(s.Node, any1(g.random, "FOR UPDATE", "LOCK IN SHARE MODE"))
		}
		return s
	}
	s.Kind = Write
	s.Node, s.Tables = g.write()
	return s
}

// Open reports whether a transaction is open.
func (w *World) Open() bool { return w.open > 0 }
