package proxy

import (
	"context"
	"sync"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// copyKeys are the values of some columns of a copy, while they are few. The
// readers of several shards add to it.
type copyKeys struct {
	mu      sync.Mutex
	columns map[int]map[string]struct{} // nil: too many
}

func newCopyKeys(columns []int) *copyKeys {
	k := &copyKeys{columns: map[int]map[string]struct{}{}}
	for _, c := range columns {
		k.columns[c] = map[string]struct{}{}
	}
	return k
}

func (k *copyKeys) add(row [][]byte) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, seen := range k.columns {
		if seen == nil || row[c] == nil {
			continue // NULL equals nothing
		}
		if _, found := seen[string(row[c])]; found {
			continue
		}
		if len(seen) == planner.MaxNarrowing {
			k.columns[c] = nil
			continue
		}
		seen[string(row[c])] = struct{}{}
	}
}

// of are the values of a column; ok is false where they are too many.
func (k *copyKeys) of(column int) (values []string, ok bool) {
	seen := k.columns[column]
	for v := range seen {
		values = append(values, v)
	}
	return values, seen != nil
}

// waves fills the copies: first those that conditions of their own bound, then,
// narrowed by the keys in these, those that are joined to them, and so on.
// Where nothing narrows anything, all at once.
func (g *gathering) waves(ctx context.Context, sources []*source, control *shard.Conn) error {
	refs := g.plan.Refs
	wanted := make([][]int, len(refs))
	pending := map[int]bool{}
	g.selects = make([]string, len(refs))
	g.keys = make([]*copyKeys, len(refs))
	for i := range refs {
		g.selects[i] = refs[i].Select
		if g.tables[i] == "" {
			continue
		}
		pending[i] = true
		for _, j := range refs[i].Joins {
			wanted[j.Ref] = append(wanted[j.Ref], j.From)
		}
	}
	for i := range refs {
		if g.tables[i] != "" && len(wanted[i]) > 0 {
			g.keys[i] = newCopyKeys(wanted[i])
		}
	}
	for _, x := range sources {
		n := 0
		for i := range pending {
			if g.from[i].Has(x.id) {
				n++
			}
		}
		x.once = n == 1
	}
	for len(pending) > 0 {
		wave := map[int]bool{}
		for i := range pending {
			if refs[i].Bounded || g.narrow(i, pending) {
				wave[i] = true
			}
		}
		if len(wave) == 0 {
			wave = pending
		}
		for _, x := range sources {
			x.refs = x.refs[:0]
			for i := range refs {
				if wave[i] && g.from[i].Has(x.id) {
					x.refs = append(x.refs, i)
				}
			}
		}
		if err := g.fill(ctx, sources, control); err != nil {
			return err
		}
		rest := map[int]bool{}
		for i := range pending {
			if !wave[i] {
				rest[i] = true
			}
		}
		pending = rest
	}
	for _, x := range sources {
		if !x.began {
			continue
		}
		if _, err := x.conn.Exec(ctx, "COMMIT"); err != nil {
			return g.s.shardError(x.id, err)
		}
	}
	return nil
}

// narrow bounds a reference's rows by the keys of the copies that are complete.
func (g *gathering) narrow(i int, pending map[int]bool) bool {
	r := &g.plan.Refs[i]
	var joins []plan.GatherJoin
	var keys [][]string
	none := false
	for _, j := range r.Joins {
		if pending[j.Ref] || g.keys[j.Ref] == nil {
			continue
		}
		if values, ok := g.keys[j.Ref].of(j.From); ok {
			joins, keys = append(joins, j), append(keys, values)
			none = none || len(values) == 0
		}
	}
	sel, set, ok := g.plan.Narrow(g.plan, i, joins, keys, g.lookups)
	if !ok {
		return false
	}
	g.selects[i] = sel
	if !none && !g.s.isCurrent(g.r.plan) {
		return true // the keys that were looked up may be of before an ALTER: see rowsOnce
	}
	if r.Table.Placement == catalog.Hash || r.Table.Placement == catalog.Anywhere {
		g.from[i] = g.from[i].Intersect(set)
	} else if none {
		g.from[i] = catalog.ShardSet{}
	}
	return true
}
