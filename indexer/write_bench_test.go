package indexer

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// writing is an indexer over a store of its own, with a table that has three
// virtual indexes. Nothing runs in it but what the store runs.
type writing struct {
	x     *Indexer
	store *storage.Store
	table *catalog.Table
}

func newWriting(tb testing.TB) *writing {
	tb.Helper()
	store, err := storage.Open(storage.Options{Dir: tb.TempDir(), MinFree: 1, Logger: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	w := &writing{store: store, table: &catalog.Table{Schema: "shop", Name: "users", Shards: catalog.Only(0).Union(catalog.Only(1))}}
	for i := range 3 {
		name := "ix" + strconv.Itoa(i)
		def, err := store.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: name, Columns: []string{name}})
		if err == nil {
			err = store.FinishBuild(def.ID, def.BuildGeneration, nil)
		}
		if err != nil {
			tb.Fatal(err)
		}
		w.table.Indexes = append(w.table.Indexes, &catalog.Index{ID: def.ID, Name: name, Table: w.table})
	}
	cat := &catalog.Catalog{}
	w.x = New(Options{Store: store, Cluster: cluster.NewLocal(store), Catalog: func() *catalog.Catalog { return cat }, Logger: quiet})
	return w
}

// written is what the planner makes of a statement once, and what changes
// from one to the next.
type written struct {
	w      *writing
	adds   []plan.Entry
	tables []*catalog.Table
	shards catalog.ShardSet
	after  []plan.Maintenance
	key    []byte
}

func (w *writing) written(adds int, maintain bool) *written {
	s := &written{w: w, tables: []*catalog.Table{w.table}, shards: catalog.Only(1)}
	for i := range adds {
		s.adds = append(s.adds, plan.Entry{Index: w.table.Indexes[i], Shard: 1})
	}
	if maintain {
		s.after = []plan.Maintenance{{Table: w.table, Operation: "UPDATE", Shards: s.shards, Indexes: w.table.Indexes[:1], Columns: []string{"ix0"}}}
	}
	return s
}

// write takes all steps of a write, for the keys with number n.
func (s *written) write(n uint64) error {
	s.key = fmt.Appendf(s.key[:0], "some prefix as emails have %016x", n)
	for i := range s.adds {
		s.adds[i].Key = s.key
	}
	o := s.w.x.Begin(s.shards)
	defer o.End()
	if err := s.w.x.Prepare(context.Background(), o, s.adds, nil, s.tables, s.shards); err != nil {
		return err
	}
	o.End()
	s.w.x.After(s.after...)
	return nil
}

// The protocol around a write, without the statement: of one session and of
// sixteen, with keys that are new, and with one that is in the store.
func BenchmarkWriteProtocol(b *testing.B) {
	for _, c := range []struct {
		name string
		adds int
		same bool
		by   int
		job  bool
	}{
		{"no entries", 0, false, 1, false},
		{"entry in place", 1, true, 1, true},
		{"1 new", 1, false, 1, true},
		{"3 new", 3, false, 1, false},
		{"1 new by 16", 1, false, 16, true},
		{"3 new by 16", 3, false, 16, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWriting(b)
			var next atomic.Uint64
			if err := w.written(c.adds, c.job).write(0); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetParallelism(max(c.by/2, 1))
			if c.by == 1 {
				s := w.written(c.adds, c.job)
				for b.Loop() {
					n := uint64(0)
					if !c.same {
						n = next.Add(1)
					}
					if err := s.write(n); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				s := w.written(c.adds, c.job)
				for pb.Next() {
					if err := s.write(next.Add(1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
