package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestRecentIsFound: an entry is found from the return of its Add on, wherever
// a flush has got to.
func TestRecentIsFound(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{flushAt: 3})
	id := readyIndex(t, s, "i", 2)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				key := fmt.Appendf(nil, "%d-%05d", w, i)
				if err := s.Add([]Entry{{id, key, catalog.ShardID(w), s.Epoch()}}); err != nil {
					t.Error(err)
					return
				}
				if got, err := look(s, id, key, nil); err != nil || !got.Has(catalog.ShardID(w)) {
					t.Errorf("%s is missing from lookup: %b %v", key, got, err)
					return
				}
				got, ok, err := ranged(s, id, key, append(slices.Clone(key), 0), 1)
				if err != nil || !ok || got != set(catalog.ShardID(w)) {
					t.Errorf("%s is missing from range: %b %v %v", key, got, ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := s.Stats().Indexes[id].Entries; n != 8000 {
		t.Fatal(n)
	}
}

// TestRecentRange: a key counts once toward the limit, whether it is recent, in
// Pebble, or both.
func TestRecentRange(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{})
	id := readyIndex(t, s, "i", 3)
	intend(t, s, 1, 2, 3, 4)
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}, {id, []byte("b"), 1, 1}}))
	check(t, s.recent.flush())
	check(t, s.Add([]Entry{{id, []byte("b"), 2, 1}, {id, []byte("c"), 3, 1}, {id, []byte("d"), 4, 1}}))
	for limit, want := range []bool{false, false, false, true} {
		if got, ok, err := ranged(s, id, []byte("a"), []byte("d"), limit); ok != want || ok && got != set(1, 2, 3) || err != nil {
			t.Fatal(limit, got, ok, err)
		}
	}
}

// TestRecentLogs: what a process leaves in its logs when it dies is found by the
// next one, whichever log it is in and whichever version wrote it; a record that is
// cut off or damaged ends a log, and those of a dropped index are forgotten.
func TestRecentLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, testOpts(dir), testOptions{noFlusher: true})
	id, dropped := readyIndex(t, s, "i", 2), readyIndex(t, s, "gone", 1)
	intend(t, s, 1, 2, 3, 4)
	check(t, s.Add([]Entry{{dropped, []byte("a"), 1, 1}}))
	log := func(i int) []byte { return writtenTo(t, filepath.Join(dir, recentName(i))) }
	inDropped := log(0)
	check(t, s.DropIndex(dropped))
	check(t, s.recent.flush())
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 7}, {id, []byte("b"), 2, 7}}))
	active := s.recent.active
	first := log(active)
	if len(log(1-active)) != 0 || len(first) == 0 {
		t.Fatalf("%q %q", log(active), log(1-active))
	}
	check(t, s.recent.flush())
	check(t, s.Add([]Entry{{id, []byte("c"), 3, 7}, {id, []byte("d"), 4, 7}}))
	second := log(1 - active)
	killed := copyStore(t, dir)

	for name, c := range map[string]struct {
		logs [2][]byte
		want []string
	}{
		"both":      {[2][]byte{first, second}, []string{"a[{1 7}]", "b[{2 7}]", "c[{3 7}]", "d[{4 7}]"}},
		"none":      {[2][]byte{}, []string{"a[{1 7}]", "b[{2 7}]"}},
		"cut off":   {[2][]byte{nil, second[:len(second)-1]}, []string{"a[{1 7}]", "b[{2 7}]", "c[{3 7}]"}},
		"damaged":   {[2][]byte{nil, append(slices.Clone(second[:len(second)-1]), 'x')}, []string{"a[{1 7}]", "b[{2 7}]", "c[{3 7}]"}},
		"padded":    {[2][]byte{append(slices.Clone(second), make([]byte, recentLogSize-len(second))...), nil}, []string{"a[{1 7}]", "b[{2 7}]", "c[{3 7}]", "d[{4 7}]"}},
		"too large": {[2][]byte{append(slices.Clone(second), make([]byte, recentLogSize)...), nil}, []string{"a[{1 7}]", "b[{2 7}]", "c[{3 7}]", "d[{4 7}]"}},
		"holes":     {[2][]byte{first, second}, []string{"a[{1 7}]", "b[{2 7}]", "c[{3 7}]", "d[{4 7}]"}},
		"zeros":     {[2][]byte{append(slices.Clone(second), make([]byte, 100)...), nil}, []string{"a[{1 7}]", "b[{2 7}]", "c[{3 7}]", "d[{4 7}]"}},
		"too long":  {[2][]byte{binary.BigEndian.AppendUint32(make([]byte, 4), 1<<31), nil}, []string{"a[{1 7}]", "b[{2 7}]"}},
		"dropped":   {[2][]byte{inDropped, second}, []string{"a[{1 7}]", "b[{2 7}]", "c[{3 7}]", "d[{4 7}]"}},
		"each once": {[2][]byte{first, first}, []string{"a[{1 7}]", "b[{2 7}]"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyStore(t, killed)
			for i, l := range c.logs {
				check(t, os.WriteFile(filepath.Join(dir, recentName(i)), l, 0o600))
				if name == "holes" { // as some copy files
					check(t, os.Truncate(filepath.Join(dir, recentName(i)), recentLogSize))
				}
			}
			s := openTest(t, testOpts(dir), testOptions{})
			if got := dump(t, s, id, false); !slices.Equal(got, c.want) {
				t.Fatal(got)
			}
			for i := range 2 {
				name := filepath.Join(dir, recentName(i))
				if st := must(os.Stat(name)).Sys().(*syscall.Stat_t); st.Size != recentLogSize || st.Blocks*512 < recentLogSize {
					t.Errorf("%s has %d bytes, %d of them on the disk", name, st.Size, st.Blocks*512)
				}
				if log := writtenTo(t, name); len(log) != 0 {
					t.Errorf("%s has %q", name, log)
				}
			}
			// It takes more.
			check(t, s.Add([]Entry{{id, []byte("e"), 5, 8}}))
			check(t, s.Close())
			s = openTest(t, testOpts(dir), testOptions{})
			if got := dump(t, s, id, false); !slices.Equal(got, append(c.want, "e[{5 8}]")) {
				t.Fatal(got)
			}
		})
	}
}

// TestRecentOnFullDisk: what can't be moved stays in its log, over restarts, and
// is found all the while.
func TestRecentOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	free := uint64(1 << 30)
	o := testOpts(dir)
	o.MinFree = 1000
	o.FreeSpace = func(string) (uint64, error) {
		mu.Lock()
		defer mu.Unlock()
		return free, nil
	}
	setFree := func(n uint64, s *Store) {
		mu.Lock()
		free = n
		mu.Unlock()
		s.space.refresh()
	}
	s := openTest(t, o, testOptions{noFlusher: true})
	id := readyIndex(t, s, "i", 1)
	intend(t, s, 1, 2, 3)
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}}))
	setFree(0, s)
	if err := s.recent.flush(); err == nil {
		t.Fatal("flushed onto a full disk")
	}
	wantLookup(t, s, id, "a", 1)
	copied := copyStore(t, dir)
	setFree(1<<30, s)
	check(t, s.Add([]Entry{{id, []byte("b"), 2, 1}}))
	wantLookup(t, s, id, "a", 1)
	check(t, s.recent.flush())
	wantLookup(t, s, id, "a", 1)
	wantLookup(t, s, id, "b", 2)

	setFree(0, s)
	first := s
	o.Dir = copied
	s = openTest(t, o, testOptions{})
	wantLookup(t, s, id, "a", 1)
	setFree(1<<30, first) // which is to be closed
	setFree(1<<30, s)
	check(t, s.Add([]Entry{{id, []byte("c"), 3, 1}}))
	o.Dir = copyStore(t, copied)
	s = openTest(t, o, testOptions{})
	wantLookup(t, s, id, "a", 1)
	wantLookup(t, s, id, "c", 3)
}

// intend sets write-intents, so that Add does not: that syncs, and so flushes.
func intend(t *testing.T, s *Store, shards ...catalog.ShardID) {
	t.Helper()
	for _, id := range shards {
		intendPairs(t, s, []Pair{{"shop", "users", id}})
	}
}

// TestRecentLogIsFull: what has no room in a log waits for a flush.
func TestRecentLogIsFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, testOpts(dir), testOptions{noFlusher: true})
	id := readyIndex(t, s, "i", 1)
	intend(t, s, 1)
	check(t, s.StartBuild(id, 1)) // two generations: each entry is there twice
	const adds = 10
	want := map[string]bool{}
	for i := range adds {
		var entries []Entry
		for j := range fewEntries {
			key := bytes.Repeat([]byte{'a' + byte(i*fewEntries+j)}, MaxKey)
			entries = append(entries, Entry{id, key, 1, 1})
			want[string(key)] = true
		}
		check(t, s.Add(entries))
	}
	if n := s.recent.n.Load(); n == 0 || n > 4*fewEntries {
		t.Errorf("%d entries are recent", n)
	}
	s = openTest(t, testOpts(copyStore(t, dir)), testOptions{})
	check(t, s.Entries(id, nil, false, func(key []byte, _ []ShardEpoch) bool {
		delete(want, string(key))
		return true
	}))
	if len(want) > 0 {
		t.Errorf("%d entries are lost", len(want))
	}
}

// writtenTo is a log without what is behind its records.
func writtenTo(t *testing.T, name string) []byte {
	t.Helper()
	log := must(os.ReadFile(name))
	return bytes.TrimRight(log[:min(len(log), recentRoom)], "\x00")
}

// logged counts the bytes that were written to logs and are not flushed.
func (r *recent) logged() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.logs[0].size + r.logs[1].size
}

// TestCurrentCostsNoWrite: what is in the store already is not written again,
// neither to the log nor to Pebble. Of what was moved to Pebble few go through the
// log once more.
func TestCurrentCostsNoWrite(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{noFlusher: true, manual: true})
	id := readyIndex(t, s, "i", 2)
	intend(t, s, 1, 2)
	var few, many []Entry
	for i := range 50 {
		many = append(many, Entry{id, fmt.Appendf(nil, "k%d", i), 1, 5})
	}
	few = many[:fewEntries]
	marks := []Mark{{Index: id, Shard: 2, Known: [][]byte{[]byte("DE")}, Epoch: 5}}
	job := Job{Type: MaintainIndex, Schema: "shop", Table: "users", Operation: "UPDATE", Shards: set(1, 2), Indexes: []catalog.IndexID{id}}
	write := func() {
		t.Helper()
		check(t, s.Add(few))
		check(t, s.Add(few[:1]))
		check(t, s.Mark(marks))
		intendPairs(t, s, []Pair{{"shop", "users", 1}})
		must(s.Enqueue(job))
	}
	check(t, s.Add(many))
	write()
	commits, logged := s.db.commits.Load(), s.recent.logged()
	for range 3 {
		write()
		check(t, s.Add(many))
	}
	if c, w := s.db.commits.Load()-commits, s.recent.logged()-logged; c != 0 || w != 0 {
		t.Errorf("%d commits and %d bytes of what is in the log", c, w)
	}
	check(t, s.recent.flush())
	write()
	commits, logged = s.db.commits.Load(), s.recent.logged()
	if logged == 0 {
		t.Error("what is in Pebble is not in the log")
	}
	for range 3 {
		write()
		check(t, s.Add(many))
	}
	check(t, s.recent.flush())
	if c := s.db.commits.Load() - commits; c != 0 {
		t.Errorf("%d commits of what is in Pebble", c)
	}
	// A later epoch is something new.
	few[0].Epoch = 6
	check(t, s.Add(few[:1]))
	if c, one := s.db.commits.Load()-commits, s.recent.logged(); c != 0 || one == 0 || one >= logged/4 {
		t.Errorf("%d commits and %d bytes of one entry that is new, %d of %d others", c, one, logged, len(few))
	}
}

// TestRecentLogEnds: what a process was killed in the middle of is nothing that lacks.
func TestRecentLogEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(log []byte, size int) (told int)
		keys  int
		whole bool
	}{
		{"as written", func(_ []byte, size int) int { return size }, 2, true},
		{"killed in a record", func(log []byte, size int) int { copy(log[size:], "\x00\x00\x00\x00\x00\x00\x00\x05part"); return size }, 2, true},
		{"killed while cleared", func(log []byte, size int) int { clear(log[:size/2]); return 0 }, 0, true},
		{"lost", func(log []byte, size int) int { clear(log[size/2 : size]); return size }, 1, false},
		{"longer than the file", func(_ []byte, _ int) int { return 1 << 40 }, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := testOpts(t.TempDir())
			none := func([]byte, ShardEpoch) { t.Error("a record in a new log") }
			l, _, err := openRecentLog(o, 0, true, none)
			check(t, err)
			check(t, l.reset())
			l.add([]byte("first"), ShardEpoch{1, 7})
			l.add([]byte("other"), ShardEpoch{2, 7})
			told := c.spoil(l.mapped, l.size)
			binary.NativeEndian.PutUint64(l.mapped[recentLogSize-8:], uint64(told))
			check(t, l.close())
			n := 0
			l, whole, err := openRecentLog(o, 0, false, func([]byte, ShardEpoch) { n++ })
			check(t, err)
			if n != c.keys || whole != c.whole {
				t.Errorf("%d records, whole: %t", n, whole)
			}
			check(t, l.close())
		})
	}
}
