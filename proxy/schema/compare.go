package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// compare finds tables that are not the same on all shards that should hold
// them.
func (b *builder) compare() {
	type key struct{ schema, table string }
	for _, id := range b.order {
		cols := make(map[key][]columnFact, len(b.facts[id]))
		for _, tf := range b.facts[id] {
			cols[key{b.fold(tf.schema), b.fold(tf.name)}] = tf.columns
		}
		for _, t := range b.made {
			if !t.Shards.Has(id) || len(t.Columns) == 0 || t.Differs != "" && t.OrderDiffers {
				continue
			}
			theirs := cols[key{b.fold(t.Schema), b.fold(t.Name)}]
			if d := differs(t, theirs, b.c.ShardName(id)); d == "" {
				b.alike(t, theirs)
			} else {
				if x, ok := b.unfinished(t.Schema, t.Name); ok {
					d = x.Tell(b.c)
				}
				t.Differs, t.OrderDiffers = cmp.Or(t.Differs, d), t.OrderDiffers || ordersDiffer(t, theirs)
			}
		}
	}
}

func differs(t *catalog.Table, cols []columnFact, shard string) string {
	if len(cols) == 0 {
		return "the table is missing on shard " + shard
	}
	if len(cols) != len(t.Columns) {
		return fmt.Sprintf("shard %s has %d columns, another has %d", shard, len(cols), len(t.Columns))
	}
	for i, c := range t.Columns {
		f := cols[i]
		if f.name != c.Name || f.typ != c.Type || f.collation != c.Collation {
			return fmt.Sprintf("column %d is %s %s %s on shard %s, and %s %s %s on another", i+1, f.name, f.typ, f.collation, shard, c.Name, c.Type, c.Collation)
		}
		if f.nullable != c.Nullable || (f.generated != "") != c.Generated || strings.Contains(f.extra, "on update") != c.OnUpdate || strings.Contains(f.extra, "invisible") != c.Invisible {
			return fmt.Sprintf("column %s is defined otherwise on shard %s than on another", c.Name, shard)
		}
	}
	return ""
}

// ordersDiffer: a row without a list of columns means another one there.
func ordersDiffer(t *catalog.Table, theirs []columnFact) bool {
	return len(theirs) == len(t.Columns) && slices.ContainsFunc(t.Columns, func(c *catalog.Column) bool { return !strings.EqualFold(theirs[c.Position].name, c.Name) })
}

// alike leaves of columns that shards compute otherwise what is so on all of them: a
// default that they don't share is one that isn't known.
//
// Counter-example: ALTER TABLE t ALTER city SET DEFAULT 'Oslo' is done on s0, and failed
// on s1. INSERT INTO t (id) VALUES (1) for s1 would have an entry for 'Oslo', and its row
// 'nowhere'.
func (b *builder) alike(t *catalog.Table, theirs []columnFact) {
	for i, c := range t.Columns {
		ours, f := b.from[c], theirs[i]
		if (ours.def == nil) != (f.def == nil) || ours.def != nil && *ours.def != *f.def || ours.extra != f.extra || ours.nullable != f.nullable {
			c.Default, c.DefaultExpr, c.DefaultText, c.DefaultNow = nil, true, "", false
			c.Nullable = c.Nullable && f.nullable
			c.OnUpdate = c.OnUpdate || strings.Contains(f.extra, "on update")
		}
		c.Generated = c.Generated || f.generated != ""
		c.AutoIncrement = c.AutoIncrement || strings.Contains(f.extra, "auto_increment")
	}
}

// settings finds in what the shards' sessions would begin otherwise.
func (b *builder) settings() {
	first := b.order[0]
	for _, name := range append(slices.Clone(settings), "system_time_zone", "lower_case_table_names", "autocommit") {
		value := func(id catalog.ShardID) (string, bool) {
			if name == "lower_case_table_names" {
				return fmt.Sprint(b.Facts[id].LowerCaseNames), true
			}
			v, ok := b.Facts[id].Settings[name]
			return v, ok
		}
		ours, ok := value(first)
		// Shards of other versions need not have it.
		able := slices.Contains(settings, name) && !slices.ContainsFunc(b.order, func(id catalog.ShardID) bool { _, ok := value(id); return !ok })
		if !ok || name == "system_time_zone" && !strings.EqualFold(b.Facts[first].Settings["time_zone"], "SYSTEM") {
			continue
		}
		for _, id := range b.order[1:] {
			theirs, ok := value(id)
			if !ok || strings.EqualFold(ours, theirs) {
				continue
			}
			b.c.Unlike = append(b.c.Unlike, catalog.Setting{Name: name, Value: ours, Other: theirs, Shard: b.c.ShardName(id), Able: able})
			break
		}
	}
}
