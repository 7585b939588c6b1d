package schema

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

func (b *builder) uniqueKeys() {
	type key struct{ schema, table, name string }
	done := map[key]bool{}
	for _, id := range b.order {
		for _, tf := range b.facts[id] {
			for keys := tf.keys; len(keys) > 0; {
				n := slices.IndexFunc(keys, func(k keyFact) bool { return k.key != keys[0].key })
				if n < 0 {
					n = len(keys)
				}
				if k := (key{b.fold(tf.schema), b.fold(tf.name), keys[0].key}); !done[k] {
					done[k] = true
					b.uniqueKey(b.table(tf.schema, tf.name), keys[:n])
				}
				keys = keys[n:]
			}
		}
	}
}

func (b *builder) uniqueKey(t *catalog.Table, parts []keyFact) {
	var list []*catalog.Column
	whole := true
	for _, kf := range parts {
		c := t.Column(kf.column)
		list = append(list, c)
		whole = whole && c != nil && !kf.prefix
	}
	if !whole { // a functional or prefix part: no key of columns
		t.OtherUnique = append(t.OtherUnique, list...)
		return
	}
	t.Unique = append(t.Unique, list)
	if parts[0].key == "PRIMARY" {
		t.PrimaryKey = list
	}
}

// cascades notes at their parents the foreign keys that change rows.
func (b *builder) cascades() {
	type key struct{ child, column, parent, refers string }
	seen := map[key]bool{}
	changed := map[*catalog.Table]bool{}
	for _, id := range b.order {
		for _, tf := range b.facts[id] {
			for _, fk := range tf.foreignKeys {
				c := catalog.Cascade{OnUpdate: cascades(fk.update), OnDelete: cascades(fk.delete), DeletesRows: fk.delete == "CASCADE"}
				if !c.OnUpdate && !c.OnDelete {
					continue
				}
				parent, child := b.c.Table(fk.refSchema, fk.refTable), b.c.Table(tf.schema, tf.name)
				if parent == nil || child == nil {
					b.known.lacks(fk)
					continue
				}
				col := child.Column(fk.column)
				k := key{child.Schema + "." + child.Name, fk.column, parent.Schema + "." + parent.Name, fk.refColumn}
				if col == nil || seen[k] {
					continue
				}
				seen[k] = true
				c.Child, c.Columns = child, []*catalog.Column{col}
				if fk.update == "CASCADE" { // SET NULL sets all of a key's columns
					if c.Refers = parent.Column(fk.refColumn); c.Refers == nil {
						b.known.lacks(fk)
					}
				}
				parent.Cascades, changed[parent] = append(parent.Cascades, c), true
			}
		}
	}
	for t := range changed {
		slices.SortFunc(t.Cascades, compareCascades)
	}
}

func compareCascades(a, b catalog.Cascade) int {
	refers := func(c catalog.Cascade) string {
		if c.Refers == nil {
			return ""
		}
		return c.Refers.Name
	}
	return cmp.Or(strings.Compare(a.Child.Schema, b.Child.Schema), strings.Compare(a.Child.Name, b.Child.Name),
		strings.Compare(a.Columns[0].Name, b.Columns[0].Name), strings.Compare(refers(a), refers(b)))
}

func cascades(rule string) bool {
	return rule == "CASCADE" || rule == "SET NULL" || rule == "SET DEFAULT"
}
