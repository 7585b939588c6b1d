package schema

import "github.com/shunt-sql/shunt/planner/catalog"

func (b *builder) uniqueKeys() {
	type key struct{ schema, table, name string }
	done := map[key]bool{}
	for _, id := range b.order {
		cols := map[key][]keyFact{}
		var order []key
		for _, kf := range b.Facts[id].Keys {
			k := key{b.fold(kf.schema), b.fold(kf.table), kf.key}
			if cols[k] == nil {
				order = append(order, k)
			}
			cols[k] = append(cols[k], kf)
		}
		for _, k := range order {
			if done[k] {
				continue
			}
			done[k] = true
			t := b.table(k.schema, k.table)
			var list []*catalog.Column
			for _, kf := range cols[k] {
				c := t.Column(kf.column)
				if c == nil || kf.prefix {
					list = nil // a functional or prefix part: no key of columns
					break
				}
				list = append(list, c)
			}
			if list == nil {
				continue
			}
			t.Unique = append(t.Unique, list)
			if k.name == "PRIMARY" {
				t.PrimaryKey = list
			}
		}
	}
}

func (b *builder) cascades() {
	type key struct{ child, column, parent, refers string }
	seen := map[key]bool{}
	for _, id := range b.order {
		for _, fk := range b.Facts[id].ForeignKeys {
			parent, child := b.c.Table(fk.refSchema, fk.refTable), b.c.Table(fk.schema, fk.table)
			if parent == nil || child == nil {
				continue
			}
			col := child.Column(fk.column)
			k := key{child.Schema + "." + child.Name, fk.column, parent.Schema + "." + parent.Name, fk.refColumn}
			if col == nil || seen[k] {
				continue
			}
			seen[k] = true
			c := catalog.Cascade{
				Child: child, Columns: []*catalog.Column{col},
				OnUpdate: cascades(fk.update), OnDelete: cascades(fk.delete), DeletesRows: fk.delete == "CASCADE",
			}
			if fk.update == "CASCADE" { // SET NULL sets all of a key's columns
				c.Refers = parent.Column(fk.refColumn)
			}
			if c.OnUpdate || c.OnDelete {
				parent.Cascades = append(parent.Cascades, c)
			}
		}
	}
}

func cascades(rule string) bool {
	return rule == "CASCADE" || rule == "SET NULL" || rule == "SET DEFAULT"
}
