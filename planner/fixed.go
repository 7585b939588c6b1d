package planner

import "github.com/shunt-sql/shunt/planner/catalog"

// fixedAction sends the text to shards that were known from the start.
type fixedAction struct {
	sql    string
	shards catalog.ShardSet
	access string
	reason string
	// any are the shards of which any one would answer as well, if not empty.
	any catalog.ShardSet
	// unknown are the indexes that the statement may change in a way that
	// Shunt doesn't follow.
	unknown []*catalog.Index
}

func (f *fixedAction) bind(b *binder) (*Bound, error) {
	out := b.sendTo(f.shards, f.sql)
	out.Access, out.Reason, out.Alternatives = f.access, f.reason, f.any
	e := newEffects(b)
	for _, ix := range f.unknown {
		for id := range f.shards.All {
			e.mark(ix, id, nil, "UNKNOWN")
		}
	}
	e.into(out)
	return out, nil
}

func fixed(st *statement, cat *catalog.Catalog, kind Kind, tables []*catalog.Table, act *fixedAction) *Rows {
	act.sql = st.src
	return &Rows{Catalog: cat, Kind: kind, Params: len(st.params), Tables: tables, action: act, settings: st.settings}
}
