package text

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Splice is a text in which the names of tables can be replaced.
type Splice struct {
	Src  string
	Cuts []Cut // in the text's order
}

// Cut is a part of the text that is replaced.
type Cut struct {
	Start, End uint32
	// Ref is the reference whose copy makes the cut, -1 for any.
	Ref int
	// Name: the copy's name comes in the place; alias after it, or alone without Name.
	Name  bool
	Alias string
}

// With replaces the tables of the references that copied has a name for.
func (s *Splice) With(copied func(ref int) string) string {
	var b strings.Builder
	at := uint32(0)
	for _, c := range s.Cuts {
		name := ""
		if c.Ref >= 0 {
			if name = copied(c.Ref); name == "" {
				continue
			}
		}
		b.WriteString(s.Src[at:c.Start])
		if c.Name {
			b.WriteString(catalog.QuoteTable(catalog.ScratchSchema, name))
		}
		b.WriteString(c.Alias)
		at = c.End
	}
	b.WriteString(s.Src[at:])
	return b.String()
}
