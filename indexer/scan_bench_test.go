package indexer

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// The cost of a row in a maintenance scan of a table that the index covers, and
// in a build, without the shard and the connection.
func BenchmarkScanRow(b *testing.B) {
	const rows = 100_000
	for _, build := range []bool{false, true} {
		b.Run(map[bool]string{false: "maintain", true: "build"}[build], func(b *testing.B) {
			store, err := storage.Open(storage.Options{InMemory: true, Logger: quiet})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			col := &catalog.Column{Name: "email", Type: "varchar(255)", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}
			def, err := store.CreateIndex(catalog.IndexDef{Schema: "s", Table: "t", Name: "ix", Columns: []string{"email"}})
			if err != nil {
				b.Fatal(err)
			}
			cat := &catalog.Catalog{}
			table := &catalog.Table{Schema: "s", Name: "t", Columns: []*catalog.Column{col}}
			ix := &catalog.Index{ID: def.ID, Name: "ix", Table: table, Columns: []*catalog.Column{col}}
			x := New(Options{Store: store, Cluster: cluster.NewLocal(store), Catalog: func() *catalog.Catalog { return cat }, Logger: quiet})
			values := make([][]byte, rows)
			for i := range values {
				values[i] = fmt.Appendf(nil, "user%08d@example.com", i*7919%rows)
			}
			scanAll := func(load bool, n int) {
				r, err := x.newReading(ix)
				if err != nil {
					b.Fatal(err)
				}
				r.at = []int{0}
				if load {
					bounds, err := x.begin(b.Context(), 0, []*catalog.Index{ix})
					if err == nil {
						err = x.load(r, bounds)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				s := x.newScan(nil, table, bounds{after: 5}, []*reading{r})
				defer s.adder.stop()
				row := make([][]byte, 1)
				for i := range n {
					row[0] = values[i%rows]
					if err := s.row(r, row); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.secure(); err != nil {
					b.Fatal(err)
				}
			}
			if !build {
				scanAll(false, rows)
				if err := store.FinishBuild(def.ID, def.BuildGeneration, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := b.N; n > 0; n -= rows {
				scanAll(!build, min(n, rows))
			}
		})
	}
}
