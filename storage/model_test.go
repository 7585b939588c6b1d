package storage

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"

	"pgregory.net/rapid"
)

// model is what an index must hold: the plainest thing that can be right.
type model struct {
	read, build map[string]map[catalog.ShardID]Epoch // nil: none
	marks       []Mark
}

func (m *model) gens() []map[string]map[catalog.ShardID]Epoch {
	var g []map[string]map[catalog.ShardID]Epoch
	if m.read != nil {
		g = append(g, m.read)
	}
	if m.build != nil {
		g = append(g, m.build)
	}
	return g
}

func (m *model) list(g map[string]map[catalog.ShardID]Epoch) (out []string) {
	var keys []string
	for k := range g {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		var pairs []ShardEpoch
		for sh, e := range g[k] {
			pairs = append(pairs, ShardEpoch{sh, e})
		}
		slices.SortFunc(pairs, func(a, b ShardEpoch) int { return int(a.Shard) - int(b.Shard) })
		out = append(out, fmt.Sprintf("%s%v", k, pairs))
	}
	return out
}

// TestModel runs random calls on a store and on the model, reopening it now
// and then.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		disk := rapid.IntRange(0, 9).Draw(rt, "disk") == 0
		o := testOpts("")
		if disk {
			o = testOpts(t.TempDir())
		}
		o.LookupCache = rapid.SampledFrom([]int64{0, 1, -1}).Draw(rt, "cache")
		to := testOptions{memTable: 1 << 20, manual: true, flushAt: int64(rapid.IntRange(1, 10).Draw(rt, "flushAt"))}
		s, err := open(o, to)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		id := must(s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "i"})).ID
		m := &model{build: map[string]map[catalog.ShardID]Epoch{}}

		keys := rapid.SampledFrom([]string{"", "a", "aa", "ab", "b", "c\x00", "c\xff", "d"})
		shards := rapid.SampledFrom([]catalog.ShardID{0, 1, 2, 130, 255})
		epochs := rapid.Custom(func(t *rapid.T) Epoch { return Epoch(rapid.IntRange(1, 300).Draw(t, "epoch")) })
		component := rapid.Custom(func(t *rapid.T) []byte {
			return rapid.SampledFrom([][]byte{nil, []byte("x"), []byte("y")}).Draw(t, "component")
		})
		known := rapid.SliceOfN(component, 0, 3)
		partitions := rapid.IntRange(1, 4)
		ok := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"Add": func(t *rapid.T) {
				var entries []Entry
				for range rapid.IntRange(1, fewEntries+2).Draw(t, "n") {
					e := Entry{id, []byte(keys.Draw(t, "key")), shards.Draw(t, "shard"), epochs.Draw(t, "epoch")}
					entries = append(entries, e)
					for _, g := range m.gens() {
						if g[string(e.Key)] == nil {
							g[string(e.Key)] = map[catalog.ShardID]Epoch{}
						}
						g[string(e.Key)][e.Shard] = max(g[string(e.Key)][e.Shard], e.Epoch)
					}
				}
				ok(s.Add(entries))
			},
			"Remove": func(t *rapid.T) {
				shard, before := shards.Draw(t, "shard"), epochs.Draw(t, "before")
				var ks [][]byte
				want := 0
				for _, k := range rapid.SliceOfNDistinct(keys, 1, 4, rapid.ID[string]).Draw(t, "keys") {
					ks = append(ks, []byte(k))
					for i, g := range m.gens() {
						if e, there := g[k][shard]; there && e < before {
							delete(g[k], shard)
							if len(g[k]) == 0 {
								delete(g, k)
							}
							if i == 0 {
								want++
							}
						}
					}
				}
				n, err := s.remove(id, shard, ks, before)
				ok(err)
				if n != want {
					t.Fatalf("removed %d, want %d", n, want)
				}
			},
			"Mark": func(t *rapid.T) {
				mark := Mark{Index: id, Shard: shards.Draw(t, "shard"), Known: known.Draw(t, "known"), Epoch: epochs.Draw(t, "epoch")}
				m.marks = append(m.marks, mark)
				ok(s.Mark([]Mark{mark}))
			},
			"ClearMarks": func(t *rapid.T) {
				shard, before := shards.Draw(t, "shard"), epochs.Draw(t, "before")
				m.marks = slices.DeleteFunc(m.marks, func(mark Mark) bool { return mark.Shard == shard && mark.Epoch < before })
				_, err := s.clearMarks(id, shard, before, false)
				ok(err)
			},
			"StartBuild": func(t *rapid.T) {
				ok(s.StartBuild(id, partitions.Draw(t, "partitions")))
				m.build = map[string]map[catalog.ShardID]Epoch{}
			},
			"FinishBuild": func(t *rapid.T) {
				if m.build == nil {
					t.Skip()
				}
				ok(finishBuild(s, id))
				m.read, m.build = m.build, nil
			},
			"Repartition": func(t *rapid.T) {
				if m.build != nil {
					t.Skip()
				}
				ok(s.Repartition(context.Background(), id, partitions.Draw(t, "partitions"), nil))
			},
			"DeleteGarbage": func(t *rapid.T) {
				_, err := s.DeleteGarbage(context.Background(), rapid.IntRange(1, 5).Draw(t, "slice"))
				ok(err)
			},
			"Reopen": func(t *rapid.T) {
				if !disk || rapid.IntRange(0, 3).Draw(t, "reopen") != 0 {
					t.Skip()
				}
				ok(s.Close())
				s, err = open(o, to)
				ok(err)
			},
			"Lookup": func(t *rapid.T) { // before what comes next flushes
				if m.read == nil {
					t.Skip()
				}
				for range 2 {
					key := keys.Draw(t, "key")
					got, err := look(s, id, []byte(key), nil)
					ok(err)
					var want catalog.ShardSet
					for sh := range m.read[key] {
						want.Add(sh)
					}
					for _, mark := range m.marks {
						want.Add(mark.Shard)
					}
					if got != want {
						t.Fatalf("lookup %q: %b, want %b", key, got, want)
					}
				}
			},
			"Range": func(t *rapid.T) {
				if m.read == nil {
					t.Skip()
				}
				from, to := []byte(keys.Draw(t, "from")), []byte(keys.Draw(t, "to"))
				if len(to) == 0 {
					to = nil
				}
				limit := rapid.IntRange(0, 8).Draw(t, "limit")
				n := 0
				var want catalog.ShardSet
				for k, pairs := range m.read {
					if k >= string(from) && (to == nil || bytes.Compare([]byte(k), to) < 0) {
						n++
						for sh := range pairs {
							want.Add(sh)
						}
					}
				}
				for _, mark := range m.marks {
					want.Add(mark.Shard)
				}
				got, within, err := ranged(s, id, from, to, limit)
				ok(err)
				if within != (n <= limit) || within && got != want {
					t.Fatalf("range %q %q: %b %v, want %b of %d keys", from, to, got, within, want, n)
				}
			},
			"": func(t *rapid.T) {
				for g, building := range map[bool]bool{false: false, true: true} {
					want := m.read
					if building {
						want = m.build
					}
					_ = g
					var got []string
					err := s.Entries(id, nil, building, func(key []byte, pairs []ShardEpoch) bool {
						got = append(got, fmt.Sprintf("%s%v", key, pairs))
						return true
					})
					if (err != nil) != (want == nil) || !slices.Equal(got, m.list(want)) {
						t.Fatalf("building %v: %v\n got %q\nwant %q", building, err, got, m.list(want))
					}
				}
				if m.read == nil {
					return
				}
				for _, sh := range []catalog.ShardID{0, 1, 2, 130, 255} {
					var got, want []string
					ok(s.EntriesOf(id, sh, nil, func(key []byte) bool {
						got = append(got, string(key))
						return true
					}))
					for k, pairs := range m.read {
						if _, there := pairs[sh]; there {
							want = append(want, k)
						}
					}
					if sort.Strings(want); !slices.Equal(got, want) {
						t.Fatalf("shard %d has %q, want %q", sh, got, want)
					}
				}
				key, components := keys.Draw(t, "key"), known.Draw(t, "components")
				var want catalog.ShardSet
				for sh := range m.read[key] {
					want.Add(sh)
				}
				for _, mark := range m.marks {
					if !mark.Contradicts(components) {
						want.Add(mark.Shard)
					}
				}
				for range 2 { // the second from the cache
					got, err := look(s, id, []byte(key), components)
					ok(err)
					if got != want {
						t.Fatalf("lookup %q: %b, want %b", key, got, want)
					}
				}
				n := int64(0)
				for _, pairs := range m.read {
					n += int64(len(pairs))
				}
				if st := s.Stats().Indexes[id]; st.Entries != n || st.Approximate {
					t.Fatalf("%+v, want %d entries", st, n)
				}
			},
		})
	})
}
