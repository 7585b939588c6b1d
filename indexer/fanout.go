package indexer

import (
	"sync"
	"sync/atomic"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Fanout is what reads by an index have asked since the process began, but for those in transactions.
type Fanout struct {
	// Reads are those that the index named shards for, Shards those that it named, and Vain those of
	// them that answered no row.
	Reads, Shards, Vain uint64
}

// Fanout tells it of an index.
func (x *Indexer) Fanout(id catalog.IndexID) Fanout { return x.fanouts.get(id) }

// fanouts count by index.
type fanouts struct{ of sync.Map } // of *fanout by catalog.IndexID

type fanout struct{ reads, shards, vain atomic.Uint64 }

func (f *fanouts) count(id catalog.IndexID, asked, empty catalog.ShardSet) {
	of, ok := f.of.Load(id)
	if !ok {
		of, _ = f.of.LoadOrStore(id, new(fanout))
	}
	n := of.(*fanout)
	n.reads.Add(1)
	n.shards.Add(uint64(asked.Len()))
	n.vain.Add(uint64(empty.Len()))
}

func (f *fanouts) get(id catalog.IndexID) (is Fanout) {
	if of, ok := f.of.Load(id); ok {
		n := of.(*fanout)
		// In this order none is more than the one before.
		is.Vain, is.Shards, is.Reads = n.vain.Load(), n.shards.Load(), n.reads.Load()
	}
	return is
}
