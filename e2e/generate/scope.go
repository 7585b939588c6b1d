package generate

import (
	"slices"
	"strings"
)

// field is a column that an expression can name.
type field struct {
	name   string
	family Family
	// collation of a text; exact: equal texts are equal bytes.
	collation string
	exact     bool
	unsigned  bool
	// folded: it stands for several equal texts, so only what treats these
	// alike may be done with it. approximate: rounded.
	folded, approximate bool
	// column of a table; nil in a derived table.
	column *Column
}

// source is an entry of FROM.
type source struct {
	alias  string
	fields []field
	// unique fields identify a row; nil: none do.
	unique []string
	table  *Table
	// bare: its columns may be named without the alias.
	bare bool
}

// scope is what a query block's expressions see.
type scope struct {
	sources []*source
	outer   *scope
}

// expr is an expression and what is known of its type.
type expr struct {
	node      *Node
	family    Family
	collation string
	exact     bool
	unsigned  bool
	folded    bool
	// approximate: rounded differently in another order of addition.
	approximate bool
	// plain is a column or a literal.
	plain bool
}

func (g *gen) ref(s *source, f field) expr {
	if s.bare {
		return g.named(f.name, f)
	}
	return g.outerRef(s, f)
}

// outerRef is ref from a subquery, whose own columns may have the name.
func (g *gen) outerRef(s *source, f field) expr { return g.named(s.alias+"."+f.name, f) }

func (g *gen) named(name string, f field) expr {
	n := &Node{Text: name, Least: -1, Sort: sortOf(f.family)}
	return expr{
		node: n, family: f.family, collation: f.collation, exact: f.exact || f.family != Text, unsigned: f.unsigned,
		folded: f.folded, approximate: f.approximate, plain: true,
	}
}

func sortOf(f Family) string {
	return [...]string{"int", "decimal", "double", "text", "bytes", "date", "datetime", "time", "json", "bit"}[f]
}

// pick chooses a field that satisfies a condition, over the block's own sources and
// now and then those around it.
func (g *gen) pick(sc *scope, ok func(field) bool) (expr, field, bool) {
	for s := sc; s != nil; s = s.outer {
		if s.outer != nil && g.one(4) {
			continue
		}
		type found struct {
			s *source
			f field
		}
		var all []found
		for _, src := range s.sources {
			for _, f := range src.fields {
				if !f.approximate && ok(f) {
					all = append(all, found{src, f})
				}
			}
		}
		if len(all) > 0 {
			x := all[g.IntN(len(all))]
			if s != sc {
				return g.outerRef(x.s, x.f), x.f, true
			}
			return g.ref(x.s, x.f), x.f, true
		}
	}
	return expr{}, field{}, false
}

func (t *Table) fields() []field {
	var out []field
	for _, c := range t.Columns {
		out = append(out, field{name: c.Name, family: c.Family, collation: c.Collation, exact: c.Exact, unsigned: c.Unsigned, column: c})
	}
	return out
}

func (g *gen) tableSource(t *Table) *source {
	g.aliases++
	s := &source{alias: "t" + itoa(g.aliases), table: t, fields: t.fields()}
	for _, c := range t.Primary {
		s.unique = append(s.unique, c.Name)
	}
	if t.Primary == nil {
		// Its types' equal values are the same, so equal rows are too.
		for _, c := range t.Columns {
			s.unique = append(s.unique, c.Name)
		}
	}
	return s
}

// reads reports whether n names a field of the block's own sources.
func (sc *scope) reads(n *Node) bool {
	for _, s := range sc.sources {
		for _, f := range s.fields {
			if n.Text == f.name && s.bare || n.Text == s.alias+"."+f.name {
				return true
			}
		}
	}
	return slices.ContainsFunc(n.Kids, sc.reads)
}

// keys are the fields that together identify a row of all sources; nil: none.
func (g *gen) keys(sources []*source) []*Node {
	var out []*Node
	for _, s := range sources {
		if s.unique == nil {
			return nil
		}
		for _, u := range s.unique {
			for _, f := range s.fields {
				if f.name == u {
					out = append(out, g.ref(s, f).node)
				}
			}
		}
	}
	return out
}

func charsetOf(collation string) string {
	charset, _, _ := strings.Cut(collation, "_")
	return charset
}
