package schema

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Snapshot is a catalog with what it was made of, so that the next one is made of what is
// otherwise then: DDL of one table costs the same beside ten as beside ten thousand.
type Snapshot struct {
	Catalog *catalog.Catalog
	src     Sources
	known   known
}

// known is what tells whether a table's change may change others'.
type known struct {
	// words are those of all programs of the shards, any: one may do something to any table.
	words map[string]bool
	any   bool
	// missing are tables that foreign keys refer to, and that the catalog hasn't, or not
	// the column.
	missing map[catalog.TableName]bool
}

// lacks notes what a foreign key refers to.
func (k *known) lacks(fk foreignKeyFact) {
	k.missing = maps.Clone(k.missing) // it may be an earlier snapshot's
	if k.missing == nil {
		k.missing = map[catalog.TableName]bool{}
	}
	k.missing[catalog.TableName{Schema: fk.refSchema, Name: fk.refTable}] = true
}

// knowPrograms notes what the shards' programs may be about.
func (b *builder) knowPrograms() {
	b.known.words = map[string]bool{}
	views := map[string]bool{}
	for t := range b.c.Tables() {
		if t.IsView {
			views[strings.ToLower(t.Name)] = true
		}
	}
	about := func(words map[string]bool, all bool) {
		maps.Copy(b.known.words, words)
		b.known.any = b.known.any || all
		for w := range words {
			b.known.any = b.known.any || views[w]
		}
	}
	for _, id := range b.order {
		for _, tf := range b.Facts[id].triggers() {
			words := identifiers(tf.body)
			about(words, words["call"])
			for w := range words {
				b.known.any = b.known.any || b.c.WritingFunctions[w]
			}
		}
		for _, ef := range b.Facts[id].Events {
			about(b.Facts[id].reachable(ef.body))
		}
	}
	for _, functions := range b.stored {
		for _, f := range functions {
			maps.Copy(b.known.words, f.Words)
		}
	}
	b.knowViews()
}

// knowViews notes what the views are about that programs name, and those that these name.
//
// Counter-example: a function reads a view of a table on one shard. The table is dropped, and made spread: the function reads
// rows of several shards from then on, though neither it nor the view has changed.
func (b *builder) knowViews() {
	seen := map[*catalog.Table]bool{}
	for again := true; again; {
		again = false
		for t := range b.c.Tables() {
			if t.IsView && !seen[t] && b.known.words[strings.ToLower(t.Name)] {
				seen[t], again = true, true
				maps.Copy(b.known.words, identifiers(t.Definition))
			}
		}
	}
}

// Next is Make that takes from s, if that isn't nil, all that the sources don't say otherwise
// than s's did. Where programs of the shards name a changed table everything is made anew. A
// test makes both, and compares. REQUIRES: Kept answers as it did, but for tables that are
// otherwise now.
func (s *Snapshot) Next(src Sources) (*Snapshot, error) {
	scope, ok := s.scope(src)
	if !ok {
		return Make(src)
	}
	b := newBuilder(src)
	b.scope, b.known = scope, s.known
	c := *s.Catalog
	c.Version, c.Schemas = src.Version, maps.Clone(c.Schemas)
	b.c = &c
	own := map[string]bool{}
	for name := range scope {
		if !own[name.Schema] {
			of := *c.Schemas[name.Schema]
			of.Tables = maps.Clone(of.Tables)
			c.Schemas[name.Schema], own[name.Schema] = &of, true
		}
		delete(c.Schemas[name.Schema].Tables, name.Name)
		for _, id := range b.order {
			if tf := src.Facts[id].table(name); tf != nil {
				b.facts[id] = append(b.facts[id], tf)
			}
		}
	}
	for _, of := range b.facts {
		slices.SortFunc(of, compareTables)
	}
	if err := b.placeTables(); err != nil {
		return nil, err
	}
	b.keepCascades(s.Catalog)
	b.unusable()
	c.WithVirtual(src.Virtual)
	return &Snapshot{b.c, src, b.known}, nil
}

// keepCascades takes over the foreign keys of tables that stay as they are, to ones that don't.
func (b *builder) keepCascades(from *catalog.Catalog) {
	for name := range b.scope {
		was := from.Table(name.Schema, name.Name)
		if was == nil {
			continue
		}
		for _, c := range was.Cascades {
			if b.scope[catalog.TableName{Schema: c.Child.Schema, Name: c.Child.Name}] {
				continue
			}
			lacks := foreignKeyFact{refSchema: name.Schema, refTable: name.Name}
			is := b.c.Table(name.Schema, name.Name)
			if is == nil {
				b.known.lacks(lacks)
				continue
			}
			if c.Refers != nil {
				if c.Refers = is.Column(c.Refers.Name); c.Refers == nil {
					b.known.lacks(lacks)
				}
			}
			is.Cascades = append(is.Cascades, c)
			slices.SortFunc(is.Cascades, compareCascades)
		}
	}
}

// atMostAnew is how many tables are made anew one by one.
const atMostAnew = 500

// scope are the tables that are otherwise in a catalog of these sources, or that hold on to
// one that is: those that a changed one's foreign keys refer to know it as their child. ok
// is false where that isn't known.
func (s *Snapshot) scope(src Sources) (scope map[catalog.TableName]bool, ok bool) {
	if s == nil {
		return nil, false
	}
	was := &s.src
	if s.Catalog.LowerCaseNames || src.First != was.First || src.Slots != was.Slots || len(src.Facts) != len(was.Facts) ||
		!slices.Equal(src.Shards, was.Shards) || !slices.Equal(src.Joining, was.Joining) || !maps.Equal(src.Unlike, was.Unlike) || !reflect.DeepEqual(src.Placements, was.Placements) {
		return nil, false
	}
	scope = map[catalog.TableName]bool{}
	var queue []catalog.TableName
	add := func(names ...catalog.TableName) {
		for _, n := range names {
			if n.Name != "" && !scope[n] {
				scope[n] = true
				queue = append(queue, n)
			}
		}
	}
	for id, is := range src.Facts {
		before := was.Facts[id]
		if before == nil || !is.sameServer(before) {
			return nil, false
		}
		add(before.differing(is)...)
	}
	add(differingIndexes(was.Indexes, src.Indexes)...)
	for name, x := range src.Unfinished {
		if was.Unfinished[name].State != x.State {
			add(name)
		}
	}
	for name := range was.Unfinished {
		if src.Unfinished[name].State == "" {
			add(name)
		}
	}
	if src.Counting != was.Counting {
		add(was.Counting.TableName, src.Counting.TableName)
	}
	for len(queue) > 0 && len(scope) <= atMostAnew {
		name := queue[0]
		queue = queue[1:]
		if s.known.any || s.known.words[strings.ToLower(name.Name)] || s.known.missing[name] || s.Catalog.Schemas[name.Schema] == nil {
			return nil, false
		}
		for id := range src.Facts {
			for _, tf := range []*tableFact{was.Facts[id].table(name), src.Facts[id].table(name)} {
				if tf == nil {
					continue
				}
				if len(tf.triggers) > 0 {
					return nil, false
				}
				for _, fk := range tf.foreignKeys {
					if cascades(fk.update) || cascades(fk.delete) {
						if s.Catalog.Table(fk.refSchema, fk.refTable) != nil {
							add(catalog.TableName{Schema: fk.refSchema, Name: fk.refTable})
						}
					}
				}
			}
		}
	}
	return scope, len(queue) == 0
}

// differingIndexes are the tables whose indexes aren't the same.
func differingIndexes(was, is []catalog.IndexDef) (tables []catalog.TableName) {
	before := make(map[catalog.IndexID]catalog.IndexDef, len(was))
	for _, d := range was {
		before[d.ID] = d
	}
	name := func(d catalog.IndexDef) catalog.TableName { return catalog.TableName{Schema: d.Schema, Name: d.Table} }
	for _, d := range is {
		old, known := before[d.ID]
		if known && reflect.DeepEqual(old, d) {
			delete(before, d.ID)
			continue
		}
		tables = append(tables, name(d))
	}
	for _, d := range before {
		tables = append(tables, name(d))
	}
	return tables
}
