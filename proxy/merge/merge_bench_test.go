package merge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"vitess.io/vitess/go/mysql/collations"
	"vitess.io/vitess/go/mysql/collations/colldata"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// benchRows is how many rows are merged in one go: more than the processor's nearest
// cache holds.
const benchRows = 20_000

// benchWeight is the collation by which the texts are sorted, as WEIGHT_STRING gives it.
var benchWeight = colldata.Lookup(collations.ID(255)) // utf8mb4_0900_ai_ci

// BenchmarkMerge merges the rows of four sorted streams, from their packets to the
// client's.
func BenchmarkMerge(b *testing.B) {
	name, weight := bytes63, bytes63
	name.Name, name.Charset = "name", 255
	plain := []wire.Column{integer, name}
	weighed := []wire.Column{integer, name, weight, weight}
	for _, c := range []struct {
		name    string
		columns []wire.Column
		merge   plan.Merge
	}{
		{"integer", plain, plan.Merge{Order: []plan.MergeKey{{Value: 0}}}},
		{"text", weighed, plan.Merge{Hidden: 2, Order: []plan.MergeKey{{Value: 1, Weight: -2, Pad: -1}}}},
		{"two", weighed, plan.Merge{Hidden: 2, Order: []plan.MergeKey{{Value: 1, Weight: -2, Pad: -1, Desc: true}, {Value: 0, Desc: true}}}},
		{"concatenated", plain, plan.Merge{}},
		{"grouped", plain[:1], plan.Merge{
			Order: []plan.MergeKey{{Value: 0}}, Unite: true, Group: 1,
			Cells: []plan.MergeCell{{Op: plan.MergeCount, Column: 1}, {Op: plan.MergeSum, Column: 2}},
		}},
	} {
		if c.merge.Unite {
			c.columns = []wire.Column{integer, integer, numeric}
		}
		for _, binary := range []bool{false, true} {
			protocol := "text"
			if binary {
				protocol = "binary"
			}
			b.Run(c.name+"/"+protocol, func(b *testing.B) {
				l := &Layout{Columns: c.columns, Hidden: c.merge.Hidden, Binary: binary}
				m := c.merge
				m.Count = plan.NoLimit
				streams := benchStreams(b, l, &m)
				b.ReportAllocs()
				for b.Loop() {
					sources := make([]Source, len(streams))
					for i := range streams {
						sources[i] = &packets{left: streams[i]}
					}
					rows, err := New(l, &m, sources)
					for p := []byte{}; err == nil && p != nil; {
						p, err = rows.Next()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// packets is a Source that copies nothing.
type packets struct{ left [][]byte }

func (s *packets) Next() ([]byte, error) {
	if len(s.left) == 0 {
		return nil, nil
	}
	p := s.left[0]
	s.left = s.left[1:]
	return p, nil
}

// benchStreams deals benchRows rows out to four streams, each in the order of m.
func benchStreams(b *testing.B, l *Layout, m *plan.Merge) [][][]byte {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	streams := make([][][]byte, 4)
	for i := range benchRows {
		c := cells{strconv.Itoa(random.IntN(1 << 30))}
		switch {
		case m.Unite: // a group is on every stream
			c = cells{strconv.Itoa(i / 4), strconv.Itoa(random.IntN(100)), fmt.Sprintf("%d.50", random.IntN(1_000_000))}
		default:
			// A name is there twice, so that the second key counts.
			name := fmt.Sprintf("Zoë Müller %06d", random.IntN(benchRows/2))
			c = append(c, name)
			if l.Hidden > 0 {
				c = append(c, string(benchWeight.WeightString(nil, []byte(name), 0)), "")
			}
		}
		n := random.IntN(4)
		if m.Unite {
			n = i % 4
		}
		streams[n] = append(streams[n], l.encode(c))
	}
	sorters, err := newSorters(l, m.Order)
	if err != nil {
		b.Fatal(err)
	}
	key := func(packet []byte) Key {
		var r Row
		err := l.split(&r, packet)
		k, err2 := fill(nil, sorters, &r)
		if err != nil || err2 != nil {
			b.Fatal(err, err2)
		}
		return k
	}
	for _, s := range streams {
		slices.SortStableFunc(s, func(x, y []byte) int { return compare(sorters, key(x), key(y)) })
	}
	return streams
}
