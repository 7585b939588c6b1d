package advise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

const (
	maxCandidates = 60  // virtual indexes whose fan-out is looked for
	entryCost     = 0.3 // what an entry costs a write, in statements
	worthIt       = 0.001
)

// candidate is a virtual index that would route something.
type candidate struct {
	*catalog.Index
	of     *candidateTable
	shapes []*shapeCost
	// fan is to how many shards a key leads, by basis; entries is how many it has.
	fan, entries float64
	basis        string
}

// chooser chooses virtual indexes for placements that are settled.
type chooser struct {
	*search
	at     *catalog.Catalog // with the placements
	found  map[string]*candidate
	chosen []*candidate
	next   catalog.IndexID
	fans   map[catalog.IndexID]float64
	// verdicts by shape and indexes, as long as the fans stay.
	verdicts map[string]Verdict
}

// indexes are the virtual indexes that are worth what they cost, the most useful first.
func (s *search) indexes(ctx context.Context, at *catalog.Catalog) []*candidate {
	c, done := s.newChooser(at)
	defer done()
	return c.choose(ctx)
}

// newChooser has the judge go by what it finds out of indexes, until done.
func (s *search) newChooser(at *catalog.Catalog) (c *chooser, done func()) {
	c = &chooser{search: s, at: at, found: map[string]*candidate{}, next: 1 << 20, fans: map[catalog.IndexID]float64{}, verdicts: map[string]Verdict{}}
	usual := s.judge.fan
	s.judge.fan = func(ix *catalog.Index) float64 {
		if f, ok := c.fans[ix.ID]; ok {
			return f
		}
		return usual(ix)
	}
	return c, func() { s.judge.fan = usual }
}

// choose adds to those that are chosen, and returns all.
func (c *chooser) choose(ctx context.Context) []*candidate {
	there := slices.Clone(c.chosen)
	for _, shape := range c.shapes {
		c.look(shape, there...)
	}
	found := slices.DeleteFunc(c.candidates(), func(x *candidate) bool { return slices.Contains(there, x) })
	for i, x := range found {
		c.src.tell("estimating virtual indexes", i, len(found))
		c.estimate(ctx, x)
	}
	clear(c.verdicts)
	for {
		best, most := (*candidate)(nil), worthIt*c.total
		for _, x := range found {
			if slices.Contains(c.chosen, x) {
				continue
			}
			if saved := c.saves(x); saved > most {
				best, most = x, saved
			}
		}
		if best == nil {
			return c.chosen
		}
		c.chosen = append(c.chosen, best)
	}
}

// verdict is a shape's with some indexes.
func (c *chooser) verdict(shape *shapeCost, with ...*candidate) Verdict {
	var of strings.Builder
	fmt.Fprintf(&of, "%p", shape)
	for _, x := range with {
		if slices.Contains(shape.names, nameOf(x.of.Table)) {
			fmt.Fprintf(&of, " %d", x.ID)
		}
	}
	key := of.String()
	if v, ok := c.verdicts[key]; ok {
		return v
	}
	v := c.judge.of(shape.Shape, c.design.place(c.at, shape.tables, func(t *catalog.Table) (out []*catalog.Index) {
		for _, x := range with {
			if nameOf(x.of.Table) == nameOf(t) {
				out = append(out, c.of(x, t))
			}
		}
		return out
	}))
	c.verdicts[key] = v
	return v
}

// of is an index over a catalog's columns.
func (c *chooser) of(x *candidate, t *catalog.Table) *catalog.Index {
	ix := *x.Index
	ix.Columns = nil
	for _, col := range x.Columns {
		ix.Columns = append(ix.Columns, t.Column(col.Name))
	}
	return &ix
}

// look finds the indexes of one column, or two, by which a shape would go to fewer shards than by those that are there.
func (c *chooser) look(shape *shapeCost, there ...*candidate) {
	v := c.verdict(shape, there...)
	if v.Shards <= 1.05 && v.Route != Copied || v.Route == Refused || v.Route == Unread || v.Route == Session || v.Route == DDL {
		return
	}
	words := wordsOf(shape.Shape)
	for _, n := range shape.names {
		t := c.tables[n]
		if !c.design.Placements[n].spreads() {
			continue
		}
		for _, ix := range t.ideal {
			if slices.ContainsFunc(ix.Columns, func(col *catalog.Column) bool { return !words[strings.ToLower(col.Name)] }) ||
				len(ix.Columns) == 1 && strings.EqualFold(ix.Columns[0].Name, c.design.Placements[n].Key) {
				continue
			}
			x := c.candidate(t, ix.Columns)
			if slices.Contains(there, x) {
				continue
			}
			c.fans[x.ID] = 1
			if c.verdict(shape, append(slices.Clone(there), x)...).cost(c.shards) < v.cost(c.shards)-0.5 {
				x.shapes = append(x.shapes, shape)
				c.found[indexKey(t, ix.Columns)] = x
			}
		}
	}
}

func indexKey(t *candidateTable, columns []*catalog.Column) string {
	return t.Schema + "." + t.Name + " " + strings.Join(columnNames(columns), " ")
}

func (c *chooser) candidate(t *candidateTable, columns []*catalog.Column) *candidate {
	if known := c.found[indexKey(t, columns)]; known != nil {
		return known
	}
	c.next++
	name := strings.ToLower("v_" + t.Name + "_" + strings.Join(columnNames(columns), "_"))
	if len(name) > 64 {
		name = fmt.Sprintf("v_%d", len(c.found))
	}
	return &candidate{of: t, Index: &catalog.Index{ID: c.next, Name: name, Table: t.Table, Columns: columns, Partitions: 1, Status: catalog.Ready}}
}

// candidates are those that were found, those of the most executions first.
func (c *chooser) candidates() (out []*candidate) {
	for _, x := range c.found {
		out = append(out, x)
	}
	calls := func(x *candidate) (n float64) {
		for _, s := range x.shapes {
			n += float64(s.Calls)
		}
		return n
	}
	slices.SortFunc(out, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(calls(b), calls(a)), strings.Compare(indexKey(a.of, a.Columns), indexKey(b.of, b.Columns)))
	})
	return out[:min(len(out), maxCandidates)]
}

// estimate finds out to how many shards a key of an index leads, and how many entries it has.
//
// Rule of rows: what counts is the value of a row drawn from all. Whoever has many rows is asked for often, too, so a
// value that a tenth of the rows have counts for a tenth.
func (c *chooser) estimate(ctx context.Context, x *candidate) {
	x.fan, x.entries = c.byStats(x.of, x.Columns)
	x.basis = "statistics"
	defer func() { c.fans[x.ID] = x.fan }()
	if uniquely(x.of.Table, x.Columns) {
		x.basis = "unique"
		return
	}
	if c.src.Sample == nil || ctx.Err() != nil {
		return
	}
	key := c.design.Placements[nameOf(x.of.Table)].Key
	sampled, err := c.src.Sample(ctx, x.of.Table, x.Columns, key)
	if err != nil {
		c.notes = append(c.notes, fmt.Sprintf("no sample of %s.%s (%s): %v", x.of.Schema, x.of.Name, strings.Join(columnNames(x.Columns), ", "), err))
		return
	}
	shardOf := func([]byte) (id catalog.ShardID, ok bool) { return id, false }
	if codec, err := plan.CodecOf(c.at, x.of.Column(key)); err == nil {
		shardOf = func(raw []byte) (catalog.ShardID, bool) {
			k, ok := codec.Scanned(nil, raw)
			return c.at.ShardOf(k), ok
		}
	}
	valued, shards, entries := 0.0, 0.0, 0.0
	for _, v := range sampled {
		set := v.Shards
		for _, raw := range v.ShardKeys {
			if id, ok := shardOf(raw); ok {
				set.Add(id)
			}
		}
		if n := float64(set.Len()); v.Rows > 0 && n > 0 {
			valued++
			shards += n
			entries += n / float64(v.Rows) // a row's part of its value's entries
		}
	}
	if valued > 0 {
		x.fan, x.basis = shards/valued, "sample"
		x.entries = entries / float64(len(sampled)) * float64(x.of.stats.Rows)
	}
}

// uniquely reports columns that hold a unique key: no two rows have the same values.
func uniquely(t *catalog.Table, columns []*catalog.Column) bool {
	return slices.ContainsFunc(t.Unique, func(u []*catalog.Column) bool {
		return !slices.ContainsFunc(u, func(c *catalog.Column) bool {
			return !slices.ContainsFunc(columns, func(x *catalog.Column) bool { return strings.EqualFold(x.Name, c.Name) })
		})
	})
}

// byStats is what the server's statistics say of a fan-out, and of entries. Columns are taken to be independent, and
// values to be of as many rows each.
func (s *search) byStats(t *candidateTable, columns []*catalog.Column) (fan, entries float64) {
	rows, values := float64(t.stats.Rows), 1.0
	if uniquely(t.Table, columns) {
		return 1, rows
	}
	for _, c := range columns {
		d, known := t.stats.Distinct[strings.ToLower(c.Name)]
		if !known {
			d = max(1, t.stats.Rows/20) // nobody knows: a value has some rows
		}
		values *= float64(max(d, 1))
	}
	values = math.Min(values, math.Max(rows, 1))
	fan = spread(s.shards, rows/values)
	return fan, math.Min(rows, fan*values)
}

// usualFan is a fan-out by statistics.
func (s *search) usualFan(ix *catalog.Index) float64 {
	fan, _ := s.byStats(s.tables[nameOf(ix.Table)], ix.Columns)
	return fan
}

// saves is what an index saves beside those chosen, in statements to a shard.
func (c *chooser) saves(x *candidate) (sum float64) {
	with := append(slices.Clone(c.chosen), x)
	for _, shape := range x.shapes {
		before, after := c.verdict(shape, c.chosen...), c.verdict(shape, with...)
		sum += float64(shape.Calls) * (before.cost(c.shards) - after.cost(c.shards))
	}
	return sum - c.upkeep(x)
}

// upkeep is what writes pay for an index.
func (c *chooser) upkeep(x *candidate) (sum float64) {
	for _, shape := range x.of.shapes {
		if touches(shape, x) {
			sum += float64(shape.Calls) * entryCost
		}
	}
	return sum
}

// touches reports a write that may change an index's entries.
func touches(shape *shapeCost, x *candidate) bool {
	verb, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(shape.Digest)), " ")
	switch verb {
	case "insert", "replace", "delete", "load":
		return true
	case "update":
		_, set, _ := strings.Cut(strings.ToLower(shape.Digest), " set ")
		set, _, _ = strings.Cut(set, " where ")
		words := identifiers(set)
		return slices.ContainsFunc(x.Columns, func(col *catalog.Column) bool { return words[strings.ToLower(col.Name)] })
	}
	return false
}
