package storage

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// pairsOf is a record's value.
func pairsOf(set catalog.ShardSet, e Epoch) (val []byte) {
	for id := range set.All {
		val = appendPairs(val, []ShardEpoch{{id, e}})
	}
	return val
}

// TestHotIsWhatWasPut: whatever comes and goes, a record is found as it was put or
// changed to, or not at all; and the cache stays in its bounds.
func TestHotIsWhatWasPut(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 300_000, defaultHotBytes} {
		h := newHot(size)
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		want := map[string]catalog.ShardSet{}
		key := func() []byte {
			k := rng.IntN(20_000)
			return fmt.Appendf(nil, "%d%s", k, strings.Repeat("x", k%97))
		}
		hits := 0
		for range 60_000 {
			k := key()
			var got catalog.ShardSet
			ticket, ok, err := h.get(&got, k)
			check(t, err)
			if ok {
				if hits++; got != want[string(k)] {
					t.Fatalf("%q: %b, want %b", k, got, want[string(k)])
				}
			}
			switch {
			case !ok:
				var s catalog.ShardSet
				for range rng.IntN(4) {
					s.Add(catalog.ShardID(rng.IntN(catalog.MaxShards)))
				}
				h.put(ticket, k, pairsOf(s, 7))
				want[string(k)] = s
			case rng.IntN(10) == 0:
				hash := h.change(k)
				if _, ok, _ := h.get(&got, k); ok {
					t.Fatalf("%q is found while it changes", k)
				}
				if rng.IntN(2) == 0 {
					h.changed(hash, k, nil, false)
					if _, ok, _ := h.get(&got, k); ok {
						t.Fatalf("%q is found after a change", k)
					}
					continue
				}
				s := set(catalog.ShardID(rng.IntN(catalog.MaxShards)))
				h.changed(hash, k, pairsOf(s, 8), true)
				want[string(k)] = s
			}
		}
		_, _, used := h.stats()
		t.Logf("%d bytes: %d hits, %d bytes in use", size, hits, used)
		if hits == 0 || used > int64(max(size, 2*hotStripes<<10)) {
			t.Errorf("%d hits, %d bytes in use of %d", hits, used, size)
		}
	}
}

// TestHotKeepsWhatIsAskedFor: keys that are asked for again survive any number
// of others.
func TestHotKeepsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	h := newHot(400_000)
	put := func(k []byte) (had bool) {
		ticket, ok, _ := h.get(&catalog.ShardSet{}, k)
		h.put(ticket, k, pairsOf(set(3), 1))
		return ok
	}
	hot, missed := 100, 0
	for i := range 50_000 {
		if !put(fmt.Appendf(nil, "hot %d", i%hot)) && i >= hot {
			missed++
		}
		put(fmt.Appendf(nil, "cold %d", i))
	}
	if missed > 0 {
		t.Errorf("%d of 100 hot keys were forgotten", missed)
	}
}

// TestHotRefuses: what is too long, or on too many shards, is not kept.
func TestHotRefuses(t *testing.T) {
	t.Parallel()
	h := newHot(defaultHotBytes)
	var many, none catalog.ShardSet
	for i := range hotValue/3 + 1 {
		many.Add(catalog.ShardID(i))
	}
	for _, c := range []struct {
		key  []byte
		set  catalog.ShardSet
		kept bool
	}{
		{[]byte("none"), none, true},
		{nil, set(1), true},
		{[]byte("last"), set(catalog.MaxShards - 1), true},
		{bytes.Repeat([]byte("k"), hotLongest), set(1), true},
		{bytes.Repeat([]byte("k"), hotLongest+1), set(1), false},
		{[]byte("many"), many, false},
	} {
		var got catalog.ShardSet
		ticket, _, _ := h.get(&got, c.key)
		h.put(ticket, c.key, pairsOf(c.set, 300))
		if _, ok, _ := h.get(&got, c.key); ok != c.kept || ok && got != c.set {
			t.Errorf("%.10q: %v %b", c.key, ok, got)
		}
	}
}

// TestHotKeepsChanges: a changed record is kept while there is room, but no other one goes
// for it; and of several changes in one commit the last one is.
func TestHotKeepsChanges(t *testing.T) {
	t.Parallel()
	h := newHot(400_000)
	kept := func(k []byte) bool { // get would have it stay
		hash := h.hashOf(string(k))
		s := h.stripe(hash)
		return s.young.find(hash, k) != nil || s.old.find(hash, k) != nil
	}
	change := func(prefix string, n int) (had int) {
		for i := range n {
			k := fmt.Appendf(nil, "%s %d", prefix, i)
			h.changed(h.change(k), k, pairsOf(set(3), 1), true)
			if kept(k) {
				had++
			}
		}
		return had
	}
	if n := change("few", 1000); n != 1000 {
		t.Errorf("%d of 1000 records are kept where there is room", n)
	}
	if n := change("many", 100_000); n == 0 || n > 20_000 {
		t.Errorf("%d of 100,000 records are kept where there is room for some", n)
	}
	for i := range 1000 {
		if k := fmt.Appendf(nil, "few %d", i); !kept(k) {
			t.Fatalf("%s had to go", k)
		}
	}
	s := openTest(t, testOpts(""), testOptions{})
	id := readyIndex(t, s, "i", 1)
	var entries []Entry
	for i := range 2 * fewEntries {
		entries = append(entries, Entry{id, []byte{'a' + byte(i%3)}, catalog.ShardID(i % 4), 1})
	}
	check(t, s.Add(entries))
	for _, k := range []string{"a", "b", "c"} {
		wantLookup(t, s, id, k, 0, 1, 2, 3)
	}
	if hits, misses, _ := s.hot.stats(); hits != 3 || misses != 0 {
		t.Errorf("%d hits, %d misses", hits, misses)
	}
	must(s.remove(id, 2, [][]byte{[]byte("a")}, 2))
	wantLookup(t, s, id, "a", 0, 1, 3)
	for shard := range catalog.ShardID(4) {
		must(s.remove(id, shard, [][]byte{[]byte("b")}, 2))
	}
	wantLookup(t, s, id, "b")
}

// toyStore is the part of a store that matters to hot records: one record, in
// which a shard is put once. hot is the real one.
type toyStore struct {
	hot *hot
	// committed is what a new snapshot shows, published what lookups read.
	committed, published bool
	// acked: an Add has returned.
	acked bool

	ticket   ticket
	acquired bool
}

// hotRules are those of doc.go; a toy store may leave one out.
type hotRules struct {
	outBeforeCommit  bool // a record is out before its commit, not only after
	ticketVersion    bool // put looks at the version
	publishBeforeAck bool
	publishedInPlace bool // Add finds entries in place in the published snapshot
	acquireAfterGet  bool
}

// covered is what a lookup says now.
func (s *toyStore) covered() bool {
	var got catalog.ShardSet
	if _, ok, _ := s.hot.get(&got, []byte("k")); ok {
		return got.Has(1)
	}
	return s.published
}

// threads are what runs beside one another: each a list of steps. kept: the cache has room
// for what the writer has changed.
func (s *toyStore) threads(r hotRules, kept bool) [][]func() {
	key := []byte("k")
	writer := []func(){
		func() {
			if r.outBeforeCommit {
				s.hot.change(key)
			}
		},
		func() { s.committed = true },
		func() {
			if r.publishBeforeAck {
				s.published = true
			}
		},
		func() {
			if !r.outBeforeCommit {
				s.hot.change(key)
			}
			s.hot.changed(s.hot.hashOf("k"), key, pairsOf(set(1), 1), kept)
		},
		func() { s.acked = true },
		func() { s.published = true },
	}
	get := func() {
		s.ticket, _, _ = s.hot.get(&catalog.ShardSet{}, key)
	}
	acquire := func() { s.acquired = s.published }
	reader := []func(){get, acquire}
	if !r.acquireAfterGet {
		reader = []func(){acquire, get}
	}
	reader = append(reader, func() {
		var val []byte
		if s.acquired {
			val = pairsOf(set(1), 1)
		}
		if !r.ticketVersion {
			st := s.hot.stripe(s.ticket.hash)
			s.ticket.version, s.ticket.ok = st.version, true
			changing := st.changing
			st.changing = 0
			s.hot.put(s.ticket, key, val)
			st.changing = changing
			return
		}
		s.hot.put(s.ticket, key, val)
	})
	// Another Add of the same entry, which may find it in place.
	inPlace := []func(){func() {
		if s.published || !r.publishedInPlace && s.committed {
			s.acked = true
		}
	}}
	// A commit of another partition.
	publisher := []func(){func() { s.published = s.committed }}
	return [][]func(){writer, reader, inPlace, publisher}
}

// TestHotInterleavings visits every interleaving of an Add with a lookup that
// fills the cache, an Add that finds the entry in place, and another partition's
// commit. Once an Add has returned every lookup finds the entry. For each rule
// there is a miss without it.
func TestHotInterleavings(t *testing.T) {
	t.Parallel()
	all := hotRules{true, true, true, true, true}
	h := newHot(1)
	// explore returns the number of schedules, and the first with a miss.
	explore := func(r hotRules, kept bool) (n int, miss []int) {
		var schedule []int
		var next func()
		next = func() {
			// Run what is scheduled anew, then go on with each thread in turn.
			s := &toyStore{hot: h}
			h.changed(h.change([]byte("k")), nil, nil, false)
			threads := s.threads(r, kept)
			for _, th := range schedule {
				threads[th][0]()
				threads[th] = threads[th][1:]
			}
			if s.acked && !s.covered() && miss == nil {
				miss = slices.Clone(schedule)
			}
			ended := true
			for th := range threads {
				if len(threads[th]) > 0 && miss == nil {
					ended = false
					schedule = append(schedule, th)
					next()
					schedule = schedule[:len(schedule)-1]
				}
			}
			if ended {
				n++
			}
			// A change that is under way must end before the next schedule.
			h.stripe(s.hot.hashOf("k")).changing = 0
		}
		next()
		return n, miss
	}
	for _, kept := range []bool{false, true} {
		n, miss := explore(all, kept)
		t.Logf("%d schedules", n)
		if miss != nil || n < 9_000 {
			t.Fatalf("%d schedules, a miss after %v", n, miss)
		}
	}
	for name, without := range map[string]func(*hotRules){
		"out before commit":  func(r *hotRules) { r.outBeforeCommit = false },
		"version of tickets": func(r *hotRules) { r.ticketVersion = false },
		"publish before ack": func(r *hotRules) { r.publishBeforeAck = false },
		"in place published": func(r *hotRules) { r.publishedInPlace = false },
		"acquire after get":  func(r *hotRules) { r.acquireAfterGet = false },
	} {
		r := all
		without(&r)
		if _, miss := explore(r, false); miss == nil {
			t.Errorf("no miss without %q", name)
		} else {
			t.Logf("without %q: %v", name, miss)
		}
	}
}

func (h *hot) hashOf(key string) uint64 { return maphash.String(h.seed, key) }

// TestHotNeverMisses: after an Add has returned every lookup finds its entry,
// and after a Remove none does, while other lookups fill and empty the cache,
// entries are flushed, and the index is repartitioned.
func TestHotNeverMisses(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{"default": 0, "tiny": 1, "none": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOpts(t.TempDir())
			o.LookupCache = size
			s := openTest(t, o, testOptions{flushAt: 3})
			id := readyIndex(t, s, "i", 2)
			const keys, rounds = 12, 200
			key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
			var others, writers sync.WaitGroup
			stop := make(chan struct{})
			running := func() bool {
				select {
				case <-stop:
					return false
				default:
					return true
				}
			}
			var looked atomic.Int64
			for range 3 {
				others.Go(func() {
					for running() {
						runtime.Gosched() // a commit takes turns of several goroutines
						if _, err := look(s, id, key(rand.IntN(keys)), nil); err != nil {
							t.Error(err)
							return
						}
						looked.Add(1)
					}
				})
			}
			others.Go(func() {
				for n := 1; running(); n++ {
					if err := s.Repartition(t.Context(), id, n%3+1, nil); err != nil {
						t.Error(err)
						return
					}
					for more := true; more; {
						more, _ = s.DeleteGarbage(t.Context(), 100)
					}
				}
			})
			for w := range 4 {
				writers.Go(func() {
					shard := catalog.ShardID(w)
					for i := range rounds {
						k := key(rand.IntN(keys))
						e := Entry{id, k, shard, Epoch(i + 1)}
						entries := []Entry{e}
						if i%3 == 0 { // at once into Pebble
							for j := range fewEntries + 1 {
								entries = append(entries, Entry{id, fmt.Appendf(nil, "other %d %d", w, j), shard, Epoch(i + 1)})
							}
						}
						if err := s.Add(entries); err != nil {
							t.Error(err)
							return
						}
						for range 3 {
							if got, err := look(s, id, k, nil); err != nil || !got.Has(shard) {
								t.Errorf("%s on %d is missing: %b %v", k, shard, got, err)
								return
							}
						}
						// Who finds it in place may rely on it.
						if i%5 == 0 {
							if err := s.Add(append([]Entry{e}, entries...)); err != nil {
								t.Error(err)
							}
						}
						if i%2 == 0 {
							continue
						}
						if _, err := s.remove(id, shard, [][]byte{k}, Epoch(i+2)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			close(stop)
			others.Wait()
			hits, misses, _ := s.hot.stats()
			t.Logf("%d lookups, %d hits, %d misses", looked.Load(), hits, misses)
			// What the cache says in the end is what there is.
			for i := range keys {
				var want catalog.ShardSet
				check(t, s.Entries(id, key(i), false, func(k []byte, pairs []ShardEpoch) bool {
					if bytes.Equal(k, key(i)) {
						for _, p := range pairs {
							want.Add(p.Shard)
						}
					}
					return false
				}))
				for range 2 {
					if got := must(look(s, id, key(i), nil)); got != want {
						t.Errorf("%s: %b, want %b", key(i), got, want)
					}
				}
			}
		})
	}
}

// TestHotFillRace is the race of doc.go: a lookup that has read a record before
// an Add keeps it after.
func TestHotFillRace(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(""), testOptions{})
	id := readyIndex(t, s, "i", 1)
	record := append(slices.Clone(s.find(id).view.Load().read.parts[0].prefix), "k"...)
	ticket, ok, _ := s.hot.get(&catalog.ShardSet{}, record)
	if ok {
		t.Fatal("found before it was put")
	}
	before := s.published.acquire()
	if _, found, err := s.db.read(before, record, nil); found || err != nil {
		t.Fatal("found before it was added")
	}
	before.release()
	s.hot.stripe(ticket.hash).full = true // the Add's own is not kept
	check(t, s.Add([]Entry{{id, []byte("k"), 1, 1}}))
	check(t, s.recent.flush())
	s.hot.put(ticket, record, nil)
	wantLookup(t, s, id, "k", 1)
	wantLookup(t, s, id, "k", 1) // from the cache now
	if hits, _, _ := s.hot.stats(); hits != 1 {
		t.Fatalf("%d hits", hits)
	}
	must(s.remove(id, 1, [][]byte{[]byte("k")}, 2))
	wantLookup(t, s, id, "k")
}
