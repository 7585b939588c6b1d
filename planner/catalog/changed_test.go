package catalog

import "testing"

func TestChanged(t *testing.T) {
	a, n := &Column{Name: "a"}, &Column{Name: "n`"}
	v := &Column{Name: "V", Generated: true, Expression: "concat(`A`,'`q`')"}
	w := &Column{Name: "w", Generated: true, Expression: "upper(`v`)"}
	unknown := &Column{Name: "u", Generated: true}
	// Each has a text that looks like the other's name.
	quotes := &Column{Name: "q", Generated: true, Expression: "concat(`a`,'`r`')"}
	quoted := &Column{Name: "r", Generated: true, Expression: "concat(`a`,'`q`')"}
	table := &Table{Columns: []*Column{a, n, v, w, unknown, {Name: "g", Generated: true, Expression: "(`n``` + 1)"}, quotes, quoted}}
	null := func() []byte { return nil }
	type image map[string]func() []byte
	text := func(s string) func() []byte { return func() []byte { return []byte(s) } }
	of := func(i image) Value {
		return func(c *Column) ([]byte, bool) {
			value, ok := i[c.Name]
			if !ok {
				return nil, false
			}
			return value(), true
		}
	}
	for name, x := range map[string]struct {
		c       *Column
		was, is image
		kept    bool
	}{
		"not generated":                   {a, image{}, image{}, true},
		"nothing that it needs is there":  {v, image{}, image{"n`": text("2")}, true},
		"what it needs is as it was":      {v, image{"a": text("x")}, image{"a": text("x")}, true},
		"was NULL, and is":                {v, image{"a": null}, image{"a": null}, true},
		"what it needs was changed":       {v, image{"a": text("x")}, image{"a": text("y")}, false},
		"to NULL":                         {v, image{"a": text("")}, image{"a": null}, false},
		"it isn't known what it was":      {v, image{}, image{"a": text("y")}, false},
		"another column was changed":      {v, image{"a": text("x"), "n`": text("1")}, image{"a": text("x"), "n`": text("2")}, true},
		"by another that is generated":    {w, image{"a": text("x")}, image{"a": text("y")}, false},
		"by one that is as it was":        {w, image{"a": text("x")}, image{"a": text("x")}, true},
		"a name in quotes":                {table.Columns[5], image{"n`": text("1")}, image{"n`": text("2")}, false},
		"nobody knows how it is computed": {unknown, image{}, image{}, false},
		"it is there, and as it was":      {v, image{"V": text("x")}, image{"V": text("x")}, true},
		"it is there, and another":        {v, image{"V": text("x")}, image{"V": text("y")}, false},
		"a text that names the other one": {quotes, image{"a": text("x")}, image{"a": text("x")}, true},
		"and what both need was changed":  {quotes, image{"a": text("x")}, image{"a": text("y")}, false},
	} {
		if changed := table.Changed(x.c, of(x.was), of(x.is)); changed == x.kept {
			t.Errorf("%s: changed: %v", name, changed)
		}
	}
}
