package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchStore has an index with n entries (a tenth with -short).
func benchStore(b *testing.B, n int) (*Store, IndexID, func(i int) []byte) {
	b.Helper()
	if testing.Short() {
		n /= 10
	}
	s := openTest(b, testOpts(b.TempDir()), testOptions{memTable: memTableSize})
	id := readyIndex(b, s, "i", 1)
	key := func(i int) []byte { return fmt.Appendf(nil, "user%09d@example.com", i%n) }
	var entries []Entry
	for i := range n {
		entries = append(entries, Entry{id, key(i), ShardID(i % 4), 1})
		if len(entries) == 5000 {
			check(b, s.Add(entries))
			entries = entries[:0]
		}
	}
	check(b, s.Add(entries))
	return s, id, key
}

func BenchmarkLookup(b *testing.B) {
	s, id, key := benchStore(b, 1_000_000)
	b.Run("hot", func(b *testing.B) {
		k := key(7)
		b.ReportAllocs()
		for b.Loop() {
			must(s.Lookup(id, k, nil))
		}
	})
	b.Run("random", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(s.Lookup(id, key(rand.Int()), nil))
		}
	})
	b.Run("miss", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(s.Lookup(id, append(key(rand.Int()), 'x'), nil))
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	s, id, key := benchStore(b, 100_000)
	b.Run("in place", func(b *testing.B) {
		e := []Entry{{id, key(7), 3, 1}}
		b.ReportAllocs()
		for b.Loop() {
			check(b, s.Add(e))
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			check(b, s.Add([]Entry{{id, fmt.Appendf(nil, "new%d", i), 1, 1}}))
		}
	})
	b.Run("new by many", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				check(b, s.Add([]Entry{{id, fmt.Appendf(nil, "n%x", rand.Uint64()), 1, 1}}))
			}
		})
	})
}

func BenchmarkMark(b *testing.B) {
	s, id, _ := benchStore(b, 10)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		check(b, s.Mark([]Mark{{id, 1, nil, Epoch(i)}}))
	}
}

func BenchmarkEnqueue(b *testing.B) {
	s, id, _ := benchStore(b, 10)
	j := Job{Type: MaintainIndex, Schema: "shop", Table: "users", Operation: "UPDATE", Shards: set(1), Indexes: []IndexID{id}}
	b.ReportAllocs()
	for b.Loop() {
		must(s.Enqueue(j))
	}
}
