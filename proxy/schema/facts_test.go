package schema

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestLinksAreKept: however tables come, change and go, those with links are known, and no others.
func TestLinksAreKept(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	f := &Facts{}
	for range 500 {
		var names []catalog.TableName
		var part []*tableFact
		for range 1 + r.IntN(3) {
			n := catalog.TableName{Schema: "x", Name: fmt.Sprint("t", r.IntN(12))}
			if slices.Contains(names, n) {
				continue
			}
			names = append(names, n)
			switch is := (&tableFact{schema: n.Schema, name: n.Name}); r.IntN(4) {
			case 0: // dropped
			case 1:
				is.view = true
				part = append(part, is)
			case 2:
				is.foreignKeys = []foreignKeyFact{{refSchema: "x", refTable: "t0"}}
				part = append(part, is)
			default:
				part = append(part, is)
			}
		}
		f = f.with(names, part)
		kept, fresh := slices.Clone(f.links()), (&Facts{Tables: f.Tables}).links()
		slices.SortFunc(kept, compareTables)
		if !slices.Equal(kept, fresh) {
			t.Fatalf("seed %d: %d tables have links, want %d", seed, len(kept), len(fresh))
		}
	}
}
