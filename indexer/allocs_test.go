package indexer

import (
	"context"
	"testing"

	"github.com/shunt-sql/shunt/planner/plan"
)

// TestAllocations guards what each statement pays, whatever it writes.
func TestAllocations(t *testing.T) {
	if underRace {
		t.Skip("pools drop things at random then")
	}
	w := newWriting(t)
	plain, current, marks := w.written(0, true), w.written(3, true), w.written(1, true)
	check(t, current.write(0))
	key := current.key
	components := [][]byte{key}
	mark := []plan.Mark{{Index: w.table.Indexes[1], Shard: 1, Known: [][]byte{[]byte("DE")}}}
	lookup := func(ix int, key []byte) {
		if _, err := w.x.Lookup(w.table.Indexes[ix], key, components); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		most float64
		run  func()
	}{
		{"lookup of a recent key", 0, func() { lookup(0, key) }},
		{"lookup of a hot key", 0, func() { lookup(0, key[:5]) }},
		// The registration.
		{"write without keys, job in place", 1, func() { check(t, plain.write(0)) }},
		{"write of current keys, job in place", 1, func() { check(t, current.write(0)) }},
		{"write with a mark in place", 1, func() {
			o := w.x.Begin(marks.shards)
			check(t, w.x.Prepare(context.Background(), o, nil, mark, marks.tables, marks.shards))
			o.End()
		}},
		// And the record keys, of all three.
		{"write of a key with a later epoch", 2, func() {
			if _, err := w.store.Advance(); err != nil {
				t.Fatal(err)
			}
			check(t, current.write(0))
		}},
	} {
		n := testing.AllocsPerRun(100, c.run)
		t.Logf("%s: %v allocations", c.name, n)
		if n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.most)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
