package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// testClock is a clock that tests move.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTestClock() *testClock {
	return &testClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func testOpts(dir string) Options {
	return Options{
		Dir: dir, InMemory: dir == "", BootID: "boot-1", MinFree: 1,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// openTest opens a store that the test closes at its end, unless it did so.
func openTest(t testing.TB, o Options, to testOptions) *Store {
	t.Helper()
	if to.memTable == 0 {
		to.memTable = 4 << 20
	}
	to.copies = true
	s, err := open(o, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.gate.state.Load() >= 0 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func intendPairs(t testing.TB, s *Store, pairs []Pair) {
	t.Helper()
	_, err := s.Intend(pairs)
	check(t, err)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must is for calls with a value that is not looked at in case of error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func set(shards ...catalog.ShardID) (s catalog.ShardSet) {
	for _, sh := range shards {
		s.Add(sh)
	}
	return s
}

func readyIndex(t testing.TB, s *Store, name string, partitions int) catalog.IndexID {
	t.Helper()
	def, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: name, Columns: []string{"c"}, Partitions: partitions})
	check(t, err)
	check(t, finishBuild(s, def.ID))
	return def.ID
}

// finishBuild finishes the build that is under way.
func finishBuild(s *Store, id catalog.IndexID) error {
	def, _ := s.Index(id)
	return s.FinishBuild(id, def.BuildGeneration, nil)
}

func wantLookup(t testing.TB, s *Store, id catalog.IndexID, key string, want ...catalog.ShardID) {
	t.Helper()
	got, err := look(s, id, []byte(key), nil)
	check(t, err)
	if got != set(want...) {
		t.Fatalf("lookup %q: got %b, want %v", key, got, want)
	}
}

func dump(t testing.TB, s *Store, id catalog.IndexID, building bool) (out []string) {
	t.Helper()
	check(t, s.Entries(id, nil, building, func(key []byte, pairs []ShardEpoch) bool {
		out = append(out, fmt.Sprintf("%s%v", key, pairs))
		return true
	}))
	return out
}

// TestIndexStats: since when there are marks, and what the entries take.
func TestIndexStats(t *testing.T) {
	t.Parallel()
	clock := &testClock{now: time.Unix(1_700_000_000, 0)}
	o := testOpts(t.TempDir())
	o.Now = clock.Now
	s := openTest(t, o, testOptions{})
	id, other := readyIndex(t, s, "i", 1), readyIndex(t, s, "j", 1)
	since := func(want time.Time) {
		t.Helper()
		if got := s.Stats().Indexes[id].UnknownSince; !got.Equal(want) {
			t.Errorf("marked since %v, want %v", got, want)
		}
	}
	mark := func(shard catalog.ShardID) { check(t, s.Mark([]Mark{{Index: id, Shard: shard, Epoch: 1}})) }
	since(time.Time{})
	began := clock.Now()
	mark(1)
	clock.add(time.Minute)
	mark(2)
	since(began)
	must(s.clearMarks(id, 1, 2, false))
	since(began)
	must(s.clearMarks(id, 2, 2, false))
	since(time.Time{})
	clock.add(time.Minute)
	mark(1)
	since(clock.Now())
	var entries []Entry
	for i := range 5000 {
		entries = append(entries, Entry{id, fmt.Appendf(nil, "key %d", i*i), 1, 1})
	}
	check(t, s.Add(entries))
	check(t, s.db.Flush())
	if is := s.Stats().Indexes; is[id].Bytes < 50_000 || is[id].Bytes > 1_000_000 || is[other].Bytes > 10_000 {
		t.Errorf("%d bytes, and %d of an empty one", is[id].Bytes, is[other].Bytes)
	}
	check(t, s.Close())
	clock.add(time.Hour)
	s = openTest(t, o, testOptions{})
	since(clock.Now())
}

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, testOpts(dir), testOptions{})
	id := readyIndex(t, s, "i", 3)
	building := must(s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "b"}))
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}, {id, []byte("a"), 2, 1}, {building.ID, []byte("x"), 1, 1}}))
	check(t, s.Mark([]Mark{{Index: id, Shard: 7, Known: [][]byte{nil, []byte("c")}, Epoch: 3}, {Index: id, Shard: 8, Epoch: 4}}))
	shard := must(s.ShardID("s0"))
	check(t, s.StartBuild(id, 2))
	check(t, finishBuild(s, id))
	check(t, s.Add([]Entry{{id, []byte("z"), 1, 1}, {id, []byte("z"), 5, 1}}))
	epoch := must(s.Advance())
	opened := time.Unix(1_700_000_000, 0)
	for _, thread := range []uint32{70, 80, 90} {
		check(t, s.NoteThread(2, Thread{thread, opened}))
	}
	check(t, s.ForgetThread(2, 80))
	if got := s.OldThreads(2); len(got) != 0 {
		t.Fatalf("threads of this life: %v", got)
	}
	again := Thread{90, opened.Add(time.Hour)} // a server that was restarted
	check(t, s.NoteThread(2, again))
	for id, want := range map[uint32]Thread{70: {70, opened}, 80: {ID: 80}, 90: again} {
		if got, known := s.Thread(2, id); got != want || known != (id != 80) {
			t.Fatalf("thread %d of this life: %v, %v", id, got, known)
		}
	}
	check(t, s.Close())

	s = openTest(t, testOpts(dir), testOptions{})
	if s.Epoch() <= epoch {
		t.Fatalf("epoch %d after %d", s.Epoch(), epoch)
	}
	if must(s.ShardID("s1")) == shard || must(s.ShardID("s0")) != shard {
		t.Fatal("shards are numbered anew")
	}
	wantLookup(t, s, id, "z", 1, 5, 7, 8)
	if got := must(look(s, id, []byte("z"), [][]byte{nil, []byte("d")})); got != set(1, 5, 8) {
		t.Fatal(got)
	}
	check(t, s.NoteThread(2, Thread{90, opened.Add(time.Hour)})) // a server that was restarted
	if got := s.OldThreads(2); !slices.Equal(got, []Thread{{70, opened}}) {
		t.Fatalf("threads of the last life: %v", got)
	}
	check(t, s.ForgetThread(2, 70))
	if got := s.OldThreads(2); len(got) != 0 {
		t.Fatalf("forgotten threads: %v", got)
	}
	st := s.Stats()
	if n := st.Indexes[id]; n.Entries != 2 || n.Approximate || st.Garbage != 1 {
		t.Fatalf("%+v", st)
	}
	if d, _ := s.Index(building.ID); !d.HasBuild || d.Readable {
		t.Fatalf("a build did not survive: %+v", d)
	}
	if got := dump(t, s, building.ID, true); !slices.Equal(got, []string{"x[{1 1}]"}) {
		t.Fatal(got)
	}
	if len(s.Lost())+len(s.Unclean()) != 0 {
		t.Fatal("a graceful stop left intents")
	}
	for more := true; more; {
		var err error
		more, err = s.DeleteGarbage(t.Context(), 10)
		check(t, err)
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	openTest(t, o, testOptions{})
	_, err := Open(o)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), o.Dir) {
		t.Fatal(err)
	}
}

func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	s := openTest(t, o, testOptions{})
	check(t, s.update(func(w *changes) error { return w.set([]byte{kindFormat}, []byte{99}) }))
	check(t, s.Close())
	_, err := Open(o)
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "move the directory aside") {
		t.Fatal(err)
	}
	// Somebody else's database.
	o.Dir = t.TempDir()
	db := must(pebble.Open(o.Dir, &pebble.Options{Logger: &health{log: o.Logger}}))
	check(t, db.Set([]byte("hello"), nil, nil))
	check(t, db.Close())
	if _, err := Open(o); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
	// The store was a Badger database once.
	o.Dir = t.TempDir()
	check(t, os.WriteFile(filepath.Join(o.Dir, "MANIFEST"), nil, 0o600))
	if _, err := Open(o); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "move the directory aside") {
		t.Fatal(err)
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	s := openTest(t, o, testOptions{})
	check(t, s.Close())
	check(t, os.WriteFile(must(filepath.Glob(filepath.Join(o.Dir, "MANIFEST-*")))[0], []byte("garbage garbage garbage"), 0o600))
	check(t, os.Remove(filepath.Join(o.Dir, keptFile)))
	_, err := Open(o)
	if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "move the directory aside") ||
		!strings.Contains(err.Error(), "rebuilt") {
		t.Fatal(err)
	}
}

// TestDamagedTable: damage must not cost an entry silently.
func TestDamagedTable(t *testing.T) {
	t.Parallel()
	flip := func(name string, at int) {
		b := must(os.ReadFile(name))
		b[(at+len(b))%len(b)] ^= 1
		check(t, os.WriteFile(name, b, 0o600))
	}
	for name, damage := range map[string]func(dir, table string){
		"no manifest":          func(dir, _ string) { check(t, os.Remove(must(filepath.Glob(filepath.Join(dir, "MANIFEST-*")))[0])) },
		"truncated":            func(_, table string) { check(t, os.Truncate(table, 100)) },
		"nearly none":          func(_, table string) { check(t, os.Truncate(table, 2)) },
		"no table":             func(_, table string) { check(t, os.Remove(table)) },
		"the first byte":       func(_, table string) { flip(table, 10) },
		"a byte in the midst":  func(_, table string) { flip(table, 2000) },
		"a byte of the footer": func(_, table string) { flip(table, -20) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOpts(t.TempDir())
			s := openTest(t, o, testOptions{})
			id := readyIndex(t, s, "i", 1)
			var entries []Entry
			for i := range 1000 {
				entries = append(entries, Entry{id, fmt.Appendf(nil, "a%d", i), 1, 1})
			}
			check(t, s.Add(entries))
			check(t, s.db.Flush())
			check(t, s.Close())
			tables := must(filepath.Glob(filepath.Join(o.Dir, "*.sst")))
			if len(tables) != 1 {
				t.Fatal(tables)
			}
			damage(o.Dir, tables[0])
			s, err := Open(o)
			if err != nil {
				if !errors.Is(err, ErrUnreadable) {
					t.Fatal(err)
				}
				return
			}
			failed := 0
			for _, e := range entries {
				got, err := look(s, id, e.Key, nil)
				if err != nil {
					failed++
				} else if !got.Has(1) {
					t.Fatalf("%s is missed", e.Key)
				}
			}
			if failed == 0 {
				t.Error("no lookup fails")
			}
			check(t, s.Close())
		})
	}
}

func TestFreeSpace(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	free := uint64(1000)
	o := testOpts(t.TempDir())
	o.MinFree = 100
	o.FreeSpace = func(string) (uint64, error) {
		mu.Lock()
		defer mu.Unlock()
		return free, nil
	}
	s := openTest(t, o, testOptions{})
	measure := func(n uint64) {
		mu.Lock()
		free = n
		mu.Unlock()
		s.space.refresh()
	}
	id := readyIndex(t, s, "i", 1)
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}}))
	check(t, s.Mark([]Mark{{Index: id, Shard: 2, Epoch: 1}}))
	measure(99)
	for name, err := range map[string]error{
		"Add":           s.Add([]Entry{{id, []byte("b"), 1, 1}}),
		"Mark":          s.Mark([]Mark{{Index: id, Shard: 1, Epoch: 1}}),
		"Intend":        func() error { _, err := s.Intend([]Pair{{"x", "y", 1}}); return err }(),
		"StartBuild":    s.StartBuild(id, 1),
		"Enqueue":       func() error { _, err := s.Enqueue(Job{Type: MaintainIndex, Shards: set(1)}); return err }(),
		"Writable":      s.Writable(),
		"KeepSlotMap":   func() error { _, err := s.KeepSlotMap(nil); return err }(),
		"SetPlacements": s.SetPlacements(nil),
		"Repartition":   s.Repartition(t.Context(), id, 2, nil),
		"Unfinished":    s.KeepUnfinished("a", UnfinishedDDL{}, true),
		"KeepPosition":  s.KeepPosition(1, "0-1-7"),
	} {
		if !errors.Is(err, ErrStoreFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantLookup(t, s, id, "a", 1, 2)
	// What takes away still works...
	check(t, s.ForgetUnfinished("a"))
	check(t, s.KeepPosition(1, ""))
	if n := must(s.remove(id, 1, [][]byte{[]byte("a")}, 9)); n != 1 {
		t.Fatal(n)
	}
	if n := must(s.clearMarks(id, 2, 9, false)); n != 1 {
		t.Fatal(n)
	}
	// ... but not to the last byte.
	measure(49)
	if _, err := s.remove(id, 1, [][]byte{[]byte("a")}, 9); !errors.Is(err, ErrStoreFull) {
		t.Fatal(err)
	}
	measure(100)
	check(t, s.Writable())
	check(t, s.Add([]Entry{{id, []byte("b"), 1, 1}}))
}

// TestLostDirectory: Pebble without its directory would end the process.
func TestLostDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := openTest(t, testOpts(dir), testOptions{manual: true})
	id := readyIndex(t, s, "i", 1)
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}}))
	check(t, os.Rename(dir, dir+".away"))
	s.space.refresh()
	if err := s.Add([]Entry{{id, []byte("b"), 1, 1}}); !errors.Is(err, ErrReadOnly) || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	check(t, os.Mkdir(dir, 0o700))
	s.space.refresh()
	if err := s.Writable(); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	wantLookup(t, s, id, "a", 1)
	check(t, os.Remove(dir))
	check(t, os.Rename(dir+".away", dir))
	s.space.refresh()
	check(t, s.Add([]Entry{{id, []byte("b"), 1, 1}}))
	wantLookup(t, s, id, "b", 1)
}

func TestFailedSyncMakesReadOnly(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken disk")
	fail := false
	s := openTest(t, testOpts(t.TempDir()), testOptions{manual: true, syncFile: func(f *os.File) error {
		if fail {
			return broken
		}
		return f.Sync()
	}})
	id := readyIndex(t, s, "i", 1)
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}}))
	fail = true
	if err := s.Sync(); !errors.Is(err, ErrReadOnly) || !errors.Is(err, broken) {
		t.Fatal(err)
	}
	fail = false
	if err := s.Add([]Entry{{id, []byte("b"), 1, 1}}); !errors.Is(err, ErrReadOnly) || !errors.Is(s.Writable(), broken) {
		t.Fatal(err)
	}
	wantLookup(t, s, id, "a", 1)
}

// TestSyncCoversFullMemtables: the log of a full memtable that is not flushed yet is another one than
// what is written to.
func TestSyncCoversFullMemtables(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	synced := map[string]bool{}
	dir := t.TempDir()
	s := openTest(t, testOpts(dir), testOptions{manual: true, syncFile: func(f *os.File) error {
		mu.Lock()
		defer mu.Unlock()
		synced[filepath.Base(f.Name())] = true
		return nil
	}})
	before := logsIn(dir)
	// A second log, as a rotation leaves it.
	check(t, os.WriteFile(filepath.Join(dir, "000000.log"), nil, 0o600))
	check(t, s.Sync())
	check(t, os.Remove(filepath.Join(dir, "000000.log")))
	mu.Lock()
	defer mu.Unlock()
	if len(before) != 1 || !synced["000000.log"] || !synced[filepath.Base(before[0])] || !synced[filepath.Base(dir)] {
		t.Fatal(before, synced)
	}
}

func TestLookupAllocations(t *testing.T) {
	if underRace {
		t.Skip("pools drop things at random then")
	}
	s := openTest(t, testOpts(""), testOptions{noFlusher: true})
	id := readyIndex(t, s, "i", 1)
	key, inTables := []byte("key"), []byte("in Pebble")
	prefix, scratch := s.find(id).view.Load().read.parts[0].prefix, make([]byte, 100)
	check(t, s.Add([]Entry{{id, inTables, 1, 1}}))
	check(t, s.recent.flush())
	entries := []Entry{{id, key, 1, 1}}
	check(t, s.Add(entries))
	j := Job{Type: MaintainIndex, Schema: "shop", Table: "users", Operation: "UPDATE", Shards: set(1), Indexes: []catalog.IndexID{id}}
	must(s.Enqueue(j))
	pairs := []Pair{{"shop", "users", 1}}
	intendPairs(t, s, pairs)
	marks := []Mark{{Index: id, Shard: 1, Known: [][]byte{key}, Epoch: 1}}
	check(t, s.Mark(marks))
	for _, c := range []struct {
		name string
		most float64
		run  func()
	}{
		{"Lookup of a recent entry", 0, func() { must(look(s, id, key, nil)) }},
		{"Lookup of a hot key", 0, func() { must(look(s, id, inTables, nil)) }},
		{"Lookup of a hot key without entries", 0, func() { must(look(s, id, []byte("none"), nil)) }},
		// All of them Pebble's.
		{"Lookup of a cold key", 8, func() {
			record := append(scratch[:0], prefix...)
			record = append(record, inTables...)
			s.hot.changed(s.hot.change(record), nil, nil, false)
			must(look(s, id, inTables, nil))
		}},
		{"Add in place", 0, func() { check(t, s.Add(entries)) }},
		{"Mark in place", 0, func() { check(t, s.Mark(marks)) }},
		{"Enqueue covered", 0, func() { must(s.Enqueue(j)) }},
		{"Intend set", 0, func() { intendPairs(t, s, pairs) }},
	} {
		n := testing.AllocsPerRun(200, c.run)
		t.Logf("%s: %v allocations", c.name, n)
		if n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.most)
		}
	}
}

// TestRecount: a count that begins after writes were counted doesn't count
// them twice, and those during it are not left out.
func TestRecount(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(""), testOptions{})
	id := readyIndex(t, s, "i", 1)
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}, {id, []byte("a"), 200, 1 << 40}, {id, []byte("b"), 1, 1}}))
	part := s.find(id).view.Load().read.parts[0]
	part.counted.Store(false)
	r := newRequest(requestSnapshot, part)
	part.submit(r)
	check(t, <-r.done)
	check(t, s.Add([]Entry{{id, []byte("c"), 1, 1}}))
	if st := s.Stats().Indexes[id]; !st.Approximate {
		t.Fatalf("%+v", st)
	}
	n := must(part.pairs(t.Context(), r.snapshot))
	_ = r.snapshot.Close()
	if n != 3 || part.count.Load() != 1 {
		t.Fatal(n, part.count.Load())
	}
	check(t, part.recount(t.Context()))
	if st := s.Stats().Indexes[id]; st.Approximate || st.Entries != 4 {
		t.Fatalf("%+v", st)
	}
}

// TestCloseEndsRepartition: Close does not wait for the whole copy.
func TestCloseEndsRepartition(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{})
	id := readyIndex(t, s, "i", 1)
	var entries []Entry
	for i := range 3 * moveSlice {
		entries = append(entries, Entry{id, fmt.Appendf(nil, "k%05d", i), 1, 3})
	}
	check(t, s.Add(entries))
	var closer sync.WaitGroup
	once := sync.Once{}
	err := s.Repartition(t.Context(), id, 2, func(float64) {
		once.Do(func() {
			closer.Go(func() { _ = s.Close() })
			<-s.ctx.Done()
		})
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	closer.Wait()
	s = openTest(t, s.opt, testOptions{})
	if d, _ := s.Index(id); d.Partitions != 1 || d.Moving || s.Stats().Garbage != 1 || s.Stats().Indexes[id].Entries != 3*moveSlice {
		t.Fatalf("%+v %+v", d, s.Stats())
	}
}

func TestPlacementsStay(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	s := openTest(t, o, testOptions{})
	a, b := catalog.TableName{Schema: "shop", Name: "users"}, catalog.TableName{Schema: "shop", Name: "orders"}
	check(t, s.SetPlacements(map[catalog.TableName]string{a: "hash:id", b: "single:s0"}))
	check(t, s.SetPlacements(map[catalog.TableName]string{b: ""}))
	check(t, s.Close())
	s = openTest(t, o, testOptions{})
	if got := must(s.Placements()); len(got) != 1 || got[a] != "hash:id" {
		t.Fatal(got)
	}
}

func TestUnfinishedStays(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	s := openTest(t, o, testOptions{})
	x := UnfinishedDDL{Op: "ALTER TABLE", Schema: "shop", Text: "ALTER TABLE users ADD COLUMN n INT", Tables: []catalog.TableName{{Schema: "shop", Name: "users"}}, Schemas: []string{"shop"}, Shards: set(0, 1, 2), Done: set(0), Unknown: set(1, 2), At: time.Unix(5, 0).UTC()}
	check(t, s.KeepUnfinished("a", UnfinishedDDL{Op: "of before"}, true))
	check(t, s.KeepUnfinished("a", x, false))
	check(t, s.KeepUnfinished("b", x, true))
	check(t, s.ForgetUnfinished("b"))
	check(t, s.ForgetUnfinished("c"))
	check(t, s.Close())
	s = openTest(t, o, testOptions{})
	if got := must(s.Unfinished()); len(got) != 1 || !reflect.DeepEqual(got["a"], x) {
		t.Fatalf("%+v", got)
	}
}

func TestPositionStays(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	s := openTest(t, o, testOptions{})
	check(t, s.KeepPosition(1, "0-1-7"))
	check(t, s.KeepPosition(1, "0-1-8"))
	check(t, s.KeepPosition(2, "0-2-3"))
	check(t, s.KeepPosition(2, ""))
	check(t, s.Close())
	s = openTest(t, o, testOptions{})
	for id, want := range map[catalog.ShardID]string{0: "", 1: "0-1-8", 2: ""} {
		if got := must(s.Position(id)); got != want {
			t.Errorf("shard %d: %q, not %q", id, got, want)
		}
	}
}

// What stands in the way of opening is told as what it is, and never with the
// advice to begin without what is there.
func TestDirectoryInTheWay(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/below"} {
		if _, err := Open(testOpts(dir)); err == nil || errors.Is(err, ErrUnreadable) || strings.Contains(err.Error(), "aside") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := filepath.Join(t.TempDir(), "closed")
	check(t, os.Mkdir(dir, 0o500))
	if _, err := Open(testOpts(dir)); !errors.Is(err, os.ErrPermission) || errors.Is(err, ErrUnreadable) {
		t.Error(err)
	}
}

// TestJobsAfterClockAhead: a job that was made while the clock was ahead waits for minutes, not
// until then.
func TestJobsAfterClockAhead(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for table, notBefore := range map[string]time.Time{"soon": now.Add(time.Minute), "ahead": now.Add(24 * time.Hour)} {
		if _, err := s.Enqueue(Job{Type: BuildIndex, Schema: "s", Table: table, Shards: catalog.Only(0), NotBefore: notBefore}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, j := range s.Jobs() {
		waits := j.NotBefore.Sub(now)
		if j.Table == "soon" && !j.NotBefore.Equal(now.Add(time.Minute)) || j.Table == "ahead" && (waits < maxPutOff || waits > 2*maxPutOff) {
			t.Errorf("%s waits for %v", j.Table, waits)
		}
	}
	if n := len(s.Jobs()); n != 2 {
		t.Errorf("%d jobs", n)
	}
}

// look is Lookup without the floors.
func look(s *Store, id catalog.IndexID, key []byte, components [][]byte) (catalog.ShardSet, error) {
	f, err := s.Lookup(id, key, components)
	return f.Shards, err
}

// ranged is Range without the floors.
func ranged(s *Store, id catalog.IndexID, from, to []byte, limit int) (catalog.ShardSet, bool, error) {
	f, ok, err := s.Range(id, from, to, limit)
	return f.Shards, ok, err
}
