package home

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

var keysConformance = []conformanceCase{
	// One member keeps marks and floors in memory; what another one does shows at the next lookup.
	{"Standing", func(t *testing.T, p *place) {
		ctx := t.Context()
		id := p.ready(t, 7)
		other := openHome(t, p.config)
		check(t, other.Add(ctx, []storage.Entry{entry(id, "a", 1, 5)}))
		want := func(floors []storage.ShardEpoch, shards ...catalog.ShardID) {
			t.Helper()
			for range 2 {
				p.wantLookup(t, id, "a", shards...)
				if f := p.look(t, Question{Index: id, Key: []byte("a"), Floors: true}); !slices.Equal(f.Floors, floors) {
					t.Fatalf("floors %v, want %v", f.Floors, floors)
				}
			}
		}
		want(nil, 1)
		check(t, other.Mark(ctx, []storage.Mark{{Index: id, Shard: 2, Epoch: 6}}))
		want(nil, 1, 2)
		check(t, other.Mark(ctx, []storage.Mark{{Index: id, Shard: 3, Epoch: 6, Known: [][]byte{[]byte("b")}}}))
		want(nil, 1, 2, 3)
		if f := p.look(t, Question{Index: id, Key: []byte("a"), Components: [][]byte{[]byte("a")}}); f.Shards != set(1, 2) {
			t.Fatalf("the mark that contradicts: %v", list(f.Shards))
		}
		gates, err := other.OpenGate(ctx, []catalog.IndexID{id}, 2, 9)
		check(t, err)
		_, cleared, err := other.Retire(ctx, storage.Retirement{Index: id, Shard: 2, Gate: behind(9, gates[id].Life), Before: 9, After: 10, Marks: true})
		if check(t, err); cleared != 1 {
			t.Fatal("no mark was cleared")
		}
		floors := []storage.ShardEpoch{{Shard: 2, Epoch: 10}}
		want(floors, 1, 3)
		g, err := other.StartBuild(ctx, id)
		check(t, err)
		want(floors, 1, 3)
		check(t, other.Add(ctx, []storage.Entry{entry(id, "a", 4, 12)}))
		check(t, other.FinishBuild(ctx, id, g, map[catalog.ShardID]storage.Epoch{1: 20}))
		floors = []storage.ShardEpoch{{Shard: 1, Epoch: 20}, {Shard: 2, Epoch: 10}}
		want(floors, 3, 4)
		check(t, other.NewLife(ctx, 30, map[catalog.ShardID]storage.Epoch{5: 31}))
		want(floors, 3, 4, 5)
		check(t, other.DropIndex(ctx, id))
		for range 2 {
			if f := p.look(t, Question{Index: id, Key: []byte("a")}); !f.NoIndex || f.OK {
				t.Fatalf("of a dropped index: %+v", f)
			}
		}
		if len(p.keys.of) != 0 {
			t.Fatal("a dropped index leaves something behind")
		}
	}},
	// Lookups and adds of many callers at once are each answered as if alone.
	{"AtOnce", func(t *testing.T, p *place) {
		id := p.ready(t, 7)
		group, ctx := errgroup.WithContext(t.Context())
		for n := range 16 {
			group.Go(func() error {
				for i := range 50 {
					key := fmt.Appendf(nil, "\xff\x00%d/%d", n, i)
					if err := p.Add(ctx, []storage.Entry{{Index: id, Key: key, Shard: catalog.ShardID(n), Epoch: 1}}); err != nil {
						return err
					}
					for i := range key {
						key[i] ^= 0x80 // the caller's memory is the caller's
						if err := wantAtOnce(ctx, p.Home, id, key, catalog.ShardSet{}); err != nil {
							return err
						}
						key[i] ^= 0x80
					}
					if err := wantAtOnce(ctx, p.Home, id, key, set(catalog.ShardID(n))); err != nil {
						return err
					}
				}
				return nil
			})
		}
		check(t, group.Wait())
	}},
}

func wantAtOnce(ctx context.Context, h *Home, id catalog.IndexID, key []byte, want catalog.ShardSet) error {
	found, err := h.Lookup(ctx, []Question{{Index: id, Key: slices.Clone(key)}})
	if err == nil && found[0].Shards != want {
		err = fmt.Errorf("%q is on %v, want %v", key, list(found[0].Shards), list(want))
	}
	return err
}
