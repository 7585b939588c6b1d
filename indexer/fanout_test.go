package indexer

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestFanout: what counts are the shards that the index named and that were asked.
func TestFanout(t *testing.T) {
	t.Parallel()
	b := newBench(t, 4, nil)
	b.shards[0].set(1, "ann")
	b.create()
	p := b.probe("ann")
	set := func(ids ...catalog.ShardID) (s catalog.ShardSet) {
		for _, id := range ids {
			s.Add(id)
		}
		return s
	}
	b.x.Observe(p, set(0), set(0), set())
	b.x.Observe(p, set(0, 1, 2), set(0, 1, 2), set(1, 2))
	b.x.Observe(p, set(0, 1), set(0), set()) // another predicate has left out 1
	b.x.Observe(p, set(), set(3), set(3))    // no shard has it: some other was asked
	if got, want := b.x.Fanout(p.Index.ID), (Fanout{Reads: 4, Shards: 5, Vain: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if s := b.x.Status()[0]; s.Fanout.Reads != 4 {
		t.Errorf("%+v", s.Fanout)
	}
}
