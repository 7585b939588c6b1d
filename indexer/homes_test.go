package indexer

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// awayStore has an index whose server is away.
type awayStore struct {
	*storage.Store
	away atomic.Uint64
}

var errAway = errors.New("its server is away")

func (s *awayStore) Outage(id catalog.IndexID) error {
	if uint64(id) == s.away.Load() {
		return errAway
	}
	return nil
}

func (s *awayStore) OpenGate(id catalog.IndexID, shard catalog.ShardID, e storage.Epoch) (storage.Gate, error) {
	if err := s.Outage(id); err != nil {
		return storage.Gate{}, err
	}
	return s.Store.OpenGate(id, shard, e)
}

// TestMaintainBesideOneAway: where the server of one of a table's indexes is away the others are
// maintained, and that one when it is back.
func TestMaintainBesideOneAway(t *testing.T) {
	t.Parallel()
	away := &awayStore{}
	b := newBench(t, 1, func(o *Options) {
		away.Store = o.Store.(*storage.Store)
		o.Store = away
	})
	b.shards[0].set(1, "ann")
	b.create()
	if err := b.x.CreateIndex(t.Context(), "s", "t", "ix2", []string{"k"}, 1, ""); err != nil {
		t.Fatal(err)
	}
	b.until("both are built", func() bool {
		for _, s := range b.x.Status() {
			if s.Def.Status != catalog.Ready {
				return false
			}
		}
		return true
	})
	first, second := b.index(), b.index().Table.Index("ix2")
	marks := func(id catalog.IndexID) int { return len(b.store.Marks(id)) }
	b.until("nothing is marked", func() bool { return marks(first.ID)+marks(second.ID) == 0 })
	if err := b.store.Mark([]storage.Mark{{Index: first.ID, Epoch: b.store.Epoch()}, {Index: second.ID, Epoch: b.store.Epoch()}}); err != nil {
		t.Fatal(err)
	}
	stale := func(id catalog.IndexID) bool {
		f, err := b.store.Lookup(id, b.key("zoe"), nil)
		return err != nil || !f.Shards.Empty()
	}
	away.away.Store(uint64(second.ID))
	b.x.After(plan.Maintenance{Table: first.Table, Operation: "UPDATE", Shards: catalog.Only(0), Indexes: []*catalog.Index{first, second}})
	b.until("the one that answers is maintained", func() bool { return marks(first.ID) == 0 })
	if err := b.store.Add([]storage.Entry{{Index: first.ID, Key: b.key("zoe")}, {Index: second.ID, Key: b.key("zoe")}}); err != nil {
		t.Fatal(err)
	}
	zoe := func(ix *catalog.Index) plan.Probe {
		p := b.probe("zoe")
		p.Index = ix
		return p
	}
	b.x.After(plan.Maintenance{Table: first.Table, Operation: "DELETE", Shards: catalog.Only(0), Keys: []plan.Probe{zoe(first), zoe(second)}})
	b.until("its stale entry is removed", func() bool { return !stale(first.ID) })
	b.pass(time.Minute)
	if marks(second.ID) == 0 || !stale(second.ID) {
		t.Error("the one that is away is maintained")
	}
	away.away.Store(0)
	b.until("it is maintained when it is back", func() bool {
		b.pass(time.Minute)
		return marks(second.ID) == 0 && !stale(second.ID)
	})
}
