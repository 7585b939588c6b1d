package advise

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// ServedIndex is advice about a virtual index of a Shunt that serves.
type ServedIndex struct {
	IndexAdvice
	// Seconds are what the statements took that it routes, Shards to how many they go without it, on average.
	Seconds, Shards float64
	// Entries are how many it has, by what FanOut is by, or by statistics; Do is what to send.
	Entries uint64
	Do      string
}

// Served says which virtual indexes would route what a Shunt executes with its tables placed as they are in base,
// and which of those that it has cost more than they are worth. fan is to how many shards one of these leads, 0 where that
// isn't known. src.Build isn't asked.
func Served(ctx context.Context, src *Source, base *catalog.Catalog, fan func(*catalog.Index) float64) []ServedIndex {
	j := &judge{planner: planner.New(), shards: len(base.Shards), trials: trialsToChoose}
	s := newSearch(ctx, src, base, j)
	j.fan = s.usualFan
	for n, t := range s.tables {
		p := Placement{Placement: t.Placement}
		if t.ShardKey != nil {
			p.Key = t.ShardKey.Name
		}
		s.design.Placements[n] = p
	}
	c, done := s.newChooser(base)
	defer done()
	c.have(ctx, fan)
	there := slices.Clone(c.chosen)
	var out []ServedIndex
	for i, x := range c.choose(ctx) {
		if i < len(there) {
			continue
		}
		a := c.served(x, there)
		a.Do = a.Create
		out = append(out, a)
	}
	for _, x := range there {
		c.chosen = slices.DeleteFunc(slices.Clone(there), func(o *candidate) bool { return o == x })
		if c.saves(x) <= 0 {
			a := c.served(x, c.chosen)
			a.Do = fmt.Sprintf("DROP VIRTUAL INDEX %s ON %s", catalog.QuoteName(x.Name), catalog.QuoteTable(x.of.Schema, x.of.Name))
			out = append(out, a)
		}
	}
	return out
}

// have has the indexes that are there be chosen.
func (c *chooser) have(ctx context.Context, fan func(*catalog.Index) float64) {
	for _, n := range c.names {
		t := c.tables[n]
		for _, ix := range t.Indexes {
			x := c.candidate(t, ix.Columns)
			x.Name = ix.Name
			if known := fan(ix); known > 0 {
				_, x.entries = c.byStats(t, ix.Columns)
				x.fan, x.basis = known, "reads"
				c.fans[x.ID] = known
			} else {
				c.estimate(ctx, x)
			}
			c.found[indexKey(t, x.Columns)] = x
			c.chosen = append(c.chosen, x)
			for _, shape := range t.shapes {
				if c.verdict(shape, x).cost(c.shards) < c.verdict(shape).cost(c.shards) {
					x.shapes = append(x.shapes, shape)
				}
			}
		}
	}
}

// served is about an index beside others.
func (c *chooser) served(x *candidate, beside []*candidate) ServedIndex {
	a := ServedIndex{IndexAdvice: x.advice(), Entries: uint64(math.Round(x.entries))}
	for _, shape := range x.shapes {
		a.Executions += shape.Calls
		a.Seconds += shape.Seconds
		a.Shards += float64(shape.Calls) * c.verdict(shape, beside...).Shards
	}
	a.Shards /= max(1, float64(a.Executions))
	return a
}
