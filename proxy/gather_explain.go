package proxy

import (
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// explainGather is a row for each statement that fills a copy, and one for the
// query itself, or for the write on each shard.
func explainGather(b *planner.Bound, c *catalog.Catalog, at string) [][]any {
	var rows [][]any
	name := func(ref int) string {
		if b.Gather.Refs[ref].Stays {
			return ""
		}
		return "copy_" + b.Gather.Refs[ref].Table.Name
	}
	for i := range b.Gather.Refs {
		r := &b.Gather.Refs[i]
		if r.Stays {
			continue
		}
		if id, ok := c.ShardByName(at); ok && r.InPlace.Has(id.ID) && len(b.Statements) == 0 {
			rows = append(rows, []any{b.Plan, at, r.Access, r.Table.Name + " is read where it is, unless a transaction is open", ""})
			continue
		}
		for id := range r.Shards.All {
			rows = append(rows, []any{b.Plan, c.ShardName(id), r.Access, r.Reason, r.Select})
		}
	}
	if len(b.Statements) == 0 {
		return append(rows, []any{b.Plan, at, b.Access, b.Reason, b.Gather.Query(name)})
	}
	for _, st := range b.Statements {
		rows = append(rows, []any{b.Plan, c.ShardName(st.Shard), b.Access, b.Reason, b.Gather.Query(name)})
	}
	return rows
}

// gatherAt names the server that a gather would now run on.
func (p *Proxy) gatherAt(g *planner.Gather) string {
	if p.opts.Scratch == nil {
		return ""
	}
	return p.opts.Scratch.choose(p.opts.Directory.Catalog(), g, p.opts.Pools).name
}
