package storage

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/planner/catalog"

	"github.com/shunt-sql/shunt/bench/instructions"
)

// benchStore has an index with n entries.
func benchStore(b *testing.B, n int, cache int64) (*Store, catalog.IndexID, func(i int) []byte) {
	b.Helper()
	o := testOpts(b.TempDir())
	o.LookupCache = cache
	s := openTest(b, o, testOptions{memTable: memTableSize})
	id := readyIndex(b, s, "i", 1)
	var buf []byte
	key := func(i int) []byte {
		buf = fmt.Appendf(buf[:0], "user%09d@example.com", i%n)
		return buf
	}
	var entries []Entry
	for i := range n {
		entries = append(entries, Entry{id, slices.Clone(key(i)), catalog.ShardID(i % 4), 1})
		if len(entries) == 5000 || i == n-1 {
			check(b, s.Add(entries))
			entries = entries[:0]
		}
	}
	return s, id, key
}

func BenchmarkLookupHot(b *testing.B) {
	s, id, key := benchStore(b, 100_000, 0)
	b.Run("one key", func(b *testing.B) {
		k := key(7)
		b.ReportAllocs()
		for b.Loop() {
			must(s.Lookup(id, k, nil))
		}
	})
	b.Run("any of 100,000", func(b *testing.B) {
		for i := range 100_000 {
			must(s.Lookup(id, key(i), nil))
		}
		b.ReportAllocs()
		for b.Loop() {
			must(s.Lookup(id, key(rand.Int()), nil))
		}
	})
	b.Run("while entries are added", func(b *testing.B) {
		intents := []Pair{{"shop", "users", 1}}
		intendPairs(b, s, intents)
		stop := make(chan struct{})
		var adder sync.WaitGroup
		adder.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
				}
				check(b, s.Add([]Entry{{id, fmt.Appendf(nil, "new%d", i), 1, 1}}))
			}
		})
		k := key(7)
		for b.Loop() {
			must(s.Lookup(id, k, nil))
		}
		close(stop)
		adder.Wait()
	})
}

// TestLookupInstructions: a lookup that does more is noticed. A sixth less was
// measured.
func TestLookupInstructions(t *testing.T) {
	s := openTest(t, testOpts(""), testOptions{noFlusher: true})
	id := readyIndex(t, s, "i", 1)
	recent, hot := []byte("recent@example.com"), []byte("hot@example.com")
	check(t, s.Add([]Entry{{id, hot, 1, 1}}))
	check(t, s.recent.flush())
	check(t, s.Add([]Entry{{id, recent, 1, 1}}))
	for _, c := range []struct {
		name string
		key  []byte
		most int
	}{
		{"hot", hot, 1430},
		{"recent", recent, 1350},
		{"absent", []byte("absent@example.com"), 1330},
	} {
		t.Run(c.name, func(t *testing.T) {
			instructions.Check(t, c.most, func() { must(s.Lookup(id, c.key, nil)) })
		})
	}
}

// BenchmarkLookupCold looks keys up that are not among the hot records, of an
// index of 5 million (building it takes a minute; -short: 100,000).
func BenchmarkLookupCold(b *testing.B) {
	n := suite.Size(100_000, 5_000_000)
	s, id, key := benchStore(b, n, -1)
	b.Run("present", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(s.Lookup(id, key(rand.Int()), nil))
		}
	})
	b.Run("absent", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(s.Lookup(id, append(key(rand.Int()), 'x'), nil))
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	s, id, _ := benchStore(b, 100_000, 0)
	b.Run("current and recent", func(b *testing.B) {
		e := []Entry{{id, []byte("recent"), 3, 1}}
		check(b, s.Add(e))
		b.ReportAllocs()
		for b.Loop() {
			check(b, s.Add(e))
		}
	})
	// With its share of what moves it to Pebble.
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			check(b, s.Add([]Entry{{id, fmt.Appendf(nil, "new%d", i), 1, 1}}))
		}
	})
	for _, sessions := range []int{16} {
		b.Run(fmt.Sprintf("new by %d", sessions), func(b *testing.B) {
			check(b, s.recent.flush())
			commits := s.db.commits.Load()
			b.ReportAllocs()
			b.SetParallelism((sessions + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					check(b, s.Add([]Entry{{id, fmt.Appendf(nil, "n%x", rand.Uint64()), 1, 1}}))
				}
			})
			check(b, s.recent.flush())
			b.ReportMetric(float64(s.db.commits.Load()-commits)/float64(b.N), "commits/op")
		})
	}
}

func BenchmarkMark(b *testing.B) {
	s, id, _ := benchStore(b, 10, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		check(b, s.Mark([]Mark{{Index: id, Shard: 1, Epoch: Epoch(i)}}))
	}
}

func BenchmarkEnqueueSoon(b *testing.B) {
	s, id, _ := benchStore(b, 10, 0)
	intendPairs(b, s, []Pair{{"shop", "users", 1}})
	j := Job{Type: MaintainIndex, Schema: "shop", Table: "users", Operation: "UPDATE", Shards: set(1), Indexes: []catalog.IndexID{id}}
	b.ReportAllocs()
	for b.Loop() {
		check(b, s.EnqueueSoon(j))
	}
}
