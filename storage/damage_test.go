package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// damagedStore is a store as a process that was killed has left it.
type damagedStore struct {
	dir     string
	older   map[string][]byte // files of a moment before
	ids     []catalog.IndexID
	entries []Entry
	taken   uint64
	intents int
}

var damagedTable = catalog.TableName{Schema: "shop", Name: "users"}

func newDamagedStore(t *testing.T) *damagedStore {
	t.Helper()
	w := &damagedStore{intents: 3, dir: t.TempDir(), older: map[string][]byte{}}
	s := openTest(t, testOpts(w.dir), testOptions{manual: true, noFlusher: true})
	w.ids = []catalog.IndexID{readyIndex(t, s, "i", 1), readyIndex(t, s, "j", 3)}
	intend(t, s, 1, 2)
	check(t, s.SetPlacements(map[catalog.TableName]string{damagedTable: "hash:id"}))
	must(s.KeepSlotMap([]byte("slots")))
	check(t, s.SetApart("s9", "why"))
	check(t, s.KeepUnfinished("ddl", UnfinishedDDL{Op: "ALTER TABLE"}, true))
	must(s.ShardID("s0"))
	must(s.Enqueue(Job{Type: VerifyKeys, Schema: "shop", Table: "users", Shards: set(1), Keys: []JobKey{{Index: w.ids[0], Key: []byte("k")}}}))
	add := func(from, to int) {
		if underRace {
			from, to = from/10, to/10
		}
		var entries []Entry
		for i := from; i < to; i++ {
			for _, id := range w.ids {
				entries = append(entries, Entry{id, fmt.Appendf(nil, "key %d of %x", i, i*i), catalog.ShardID(1 + i%2), 1})
			}
		}
		check(t, s.Add(entries))
		w.entries = append(w.entries, entries...)
	}
	add(0, 1500)
	check(t, s.db.Flush())
	check(t, s.StartSequence(damagedTable, func() (uint64, error) { return 1, nil }))
	take := func() {
		n, err := s.TakeNumbers(damagedTable, func(next uint64) uint64 { return next + 700 })
		check(t, err)
		n.Release()
		w.taken = n.First + 700
	}
	take()
	for _, name := range filesIn(t, w.dir) {
		w.older[name] = must(os.ReadFile(filepath.Join(w.dir, name)))
	}
	add(1500, 2000)
	check(t, s.db.Flush())
	add(2000, 2050)
	take()
	add(2050, 2053) // recent
	check(t, s.Mark([]Mark{{Index: w.ids[0], Shard: 7, Epoch: 1}}))
	return w
}

// opens opens a store whose files were damaged, and sees that nothing is missed, be it at
// once, when it is made anew, and later.
func (w *damagedStore) opens(t *testing.T, dir string) (healed bool) {
	t.Helper()
	o := testOpts(dir)
	to := testOptions{manual: true, copies: true}
	s, err := open(o, to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	lost := s.Lost()
	if n := len(lost) + len(s.Unclean()); n != w.intents {
		t.Errorf("%d write-intents", n)
	}
	check(t, func() error { // what the indexer does behind a power loss
		for _, p := range lost {
			for _, id := range w.ids {
				if err := s.Mark([]Mark{{Index: id, Shard: p.Shard, Epoch: s.Epoch()}}); err != nil {
					return err
				}
			}
		}
		return nil
	}())
	look := func() (failed int) {
		for _, e := range w.entries {
			got, err := look(s, e.Index, e.Key, nil)
			switch {
			case err != nil:
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoIndex) {
					t.Fatal(err)
				}
				failed++
			case !got.Has(e.Shard):
				t.Fatalf("index %d: %s on shard %d is missed", e.Index, e.Key, e.Shard)
			}
		}
		// What a scan reads, which no lookup does.
		for _, id := range w.ids {
			for shard := range catalog.ShardID(8) {
				if err := s.EntriesOf(id, shard, nil, func([]byte) bool { return true }); err != nil {
					if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoIndex) {
						t.Fatal(err)
					}
					failed++
				}
			}
		}
		return failed
	}
	failed := look()
	waitFor(t, func() bool { return s.db.intact() == nil })
	for _, id := range w.ids {
		d, ok := s.Index(id)
		if !ok {
			t.Fatalf("index %d is gone", id)
		}
		if d.Readable {
			continue
		}
		healed = true
		for c := range slices.Chunk(slices.DeleteFunc(slices.Clone(w.entries), func(e Entry) bool { return e.Index != id }), 1000) {
			check(t, s.Add(c))
		}
		check(t, s.FinishBuild(id, d.BuildGeneration, nil))
	}
	if again := look(); again > 0 || failed > 0 != healed {
		t.Errorf("%d lookups fail, %d did; it was made anew: %t", again, failed, healed)
	}
	if got := must(s.Placements())[damagedTable]; got != "hash:id" {
		t.Errorf("placement %q", got)
	}
	if got := must(s.SlotMap()); string(got) != "slots" {
		t.Errorf("slot map %q", got)
	}
	if got := must(s.Apart())["s9"]; got != "why" {
		t.Errorf("apart: %q", got)
	}
	if got := must(s.Unfinished())["ddl"].Op; got != "ALTER TABLE" {
		t.Errorf("unfinished: %q", got)
	}
	if s.Shards()["s0"] != 0 || len(s.Shards()) != 1 {
		t.Errorf("shards %v", s.Shards())
	}
	if !s.Stats().Indexes[w.ids[0]].Unknown.Has(7) {
		t.Error("a mark is gone")
	}
	if !slices.ContainsFunc(s.Jobs(), func(j Job) bool { return j.Type == VerifyKeys && len(j.Keys) == 1 }) {
		t.Errorf("jobs %v", s.Jobs())
	}
	check(t, s.StartSequence(damagedTable, func() (uint64, error) { return 1, nil }))
	n := must(s.TakeNumbers(damagedTable, func(next uint64) uint64 { return next + 1 }))
	n.Release()
	if n.First < w.taken {
		t.Errorf("number %d is handed out again, %d were", n.First, w.taken)
	}
	return healed
}

// kinds are what happens to a file. Each is told by a random number.
var kinds = map[string]func(w *damagedStore, name string, log []byte, rnd *rand.Rand) []byte{
	"a bit": func(_ *damagedStore, _ string, b []byte, rnd *rand.Rand) []byte {
		if len(b) > 0 {
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		}
		return b
	},
	"zeros": func(_ *damagedStore, _ string, b []byte, rnd *rand.Rand) []byte {
		if len(b) > 0 {
			at := rnd.IntN(len(b))
			clear(b[at:min(len(b), at+512)])
		}
		return b
	},
	"cut":  func(_ *damagedStore, _ string, b []byte, rnd *rand.Rand) []byte { return b[:rnd.IntN(len(b)+1)] },
	"gone": func(*damagedStore, string, []byte, *rand.Rand) []byte { return nil },
	"older": func(w *damagedStore, name string, b []byte, _ *rand.Rand) []byte {
		if older, ok := w.older[name]; ok {
			return older
		}
		return b
	},
}

// TestDamage: whatever becomes of a file, nothing is missed, and nothing that can't be read from the
// shards again is lost. SHUNT_DAMAGE is how many ways each file is damaged in, SHUNT_DAMAGE_SEED the first.
func TestDamage(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	ways, _ := strconv.Atoi(os.Getenv("SHUNT_DAMAGE"))
	ways = max(ways, 1)
	first, _ := strconv.ParseUint(os.Getenv("SHUNT_DAMAGE_SEED"), 10, 64)
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	w := newDamagedStore(t)
	if w.opens(t, copyStore(t, w.dir)) {
		t.Fatal("what is not damaged was made anew")
	}
	healed := map[string]int{}
	for _, name := range filesIn(t, w.dir) {
		if name == "LOCK" {
			continue
		}
		for kind, damage := range kinds {
			for seed := first; seed < first+uint64(ways); seed++ {
				ok := t.Run(fmt.Sprintf("%s/%s/%d", name, kind, seed), func(t *testing.T) {
					dir := copyStore(t, w.dir)
					file := filepath.Join(dir, name)
					b := damage(w, name, must(os.ReadFile(file)), rand.New(rand.NewPCG(seed, 0)))
					if b == nil {
						check(t, os.Remove(file))
					} else {
						check(t, os.WriteFile(file, b, 0o600))
					}
					if w.opens(t, dir) {
						healed[name[:strings.IndexAny(name+"-.", "-.")]]++
					}
					if w.opens(t, dir) {
						t.Error("it was made anew again")
					}
				})
				if !ok {
					t.Fatalf("SHUNT_DAMAGE_SEED=%d", seed)
				}
			}
		}
	}
	t.Log(healed)
}

// TestDamageWhileServing: tables that are damaged under a store that serves cost no lookup a shard, and the store is
// made anew beside it.
func TestDamageWhileServing(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	w := newDamagedStore(t)
	o := testOpts(copyStore(t, w.dir))
	s := openTest(t, o, testOptions{manual: true})
	check(t, s.Recovered())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	for n := range 2 {
		load.Go(func() {
			for i := n; ctx.Err() == nil; i += 13 {
				e := w.entries[i%len(w.entries)]
				if got, err := look(s, e.Index, e.Key, nil); err == nil && !got.Has(e.Shard) {
					t.Errorf("%s is missed", e.Key)
					return
				}
			}
		})
	}
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			e := Entry{w.ids[i%2], fmt.Appendf(nil, "new %d", i), 1, s.Epoch()}
			if err := s.Add([]Entry{e}); err != nil {
				t.Error(err)
				return
			}
			if got, err := look(s, e.Index, e.Key, nil); err == nil && !got.Has(1) {
				t.Errorf("%s is missed", e.Key)
				return
			}
			if err := s.SetPlacements(map[catalog.TableName]string{{Schema: "shop", Name: fmt.Sprint("t", i%10)}: fmt.Sprint(i)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	spoil(t, o.Dir)
	s.db.hurt(errUnaccounted) // all blocks may be in memory already
	waitFor(t, func() bool {
		d, ok := s.Index(w.ids[0])
		return ok && !d.Readable && s.db.intact() == nil
	})
	builds := 0
	waitFor(t, func() bool {
		builds = 0
		for _, j := range s.Jobs() {
			if j.Type == BuildIndex {
				builds++
			}
		}
		return builds == 2
	})
	stop()
	load.Wait()
	for _, id := range w.ids {
		d, _ := s.Index(id)
		for c := range slices.Chunk(slices.DeleteFunc(slices.Clone(w.entries), func(e Entry) bool { return e.Index != id }), 1000) {
			check(t, s.Add(c))
		}
		check(t, s.FinishBuild(id, d.BuildGeneration, nil))
	}
	check(t, s.Close())
	w.intents = 0
	if w.opens(t, o.Dir) {
		t.Error("it was made anew again")
	}
}

// spoil changes the bytes of a store's tables.
func spoil(t *testing.T, dir string) {
	t.Helper()
	for _, name := range must(filepath.Glob(filepath.Join(dir, "*.sst"))) {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // one that was compacted
		}
		check(t, err)
		for at, end := int64(0), must(f.Stat()).Size(); at < end; at += 100 {
			must(f.WriteAt([]byte{0x55}, at))
		}
		check(t, f.Close())
	}
}

// atRest is a copy of the store that was closed in order: in the next one's life nothing moves or counts
// entries by itself. There are many between those that w has first.
func (w *damagedStore) atRest(t *testing.T) (dir string) {
	t.Helper()
	dir = copyStore(t, w.dir)
	s := openTest(t, testOpts(dir), testOptions{manual: true})
	check(t, s.Recovered())
	var between []Entry
	for i := range 3000 {
		for _, id := range w.ids {
			between = append(between, Entry{id, fmt.Appendf(nil, "key 5%d", i), 1, s.Epoch()})
		}
	}
	check(t, s.Add(between))
	check(t, s.flush())
	check(t, s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	check(t, s.Close())
	return dir
}

// TestDamageMetFirst: whatever is called first after tables were damaged, but for lookups and what reads
// entries for their own sake, does what it is to do. If the process dies then, the next one doesn't believe
// the damaged database, be it that it wouldn't meet the damage.
func TestDamageMetFirst(t *testing.T) {
	t.Parallel()
	w := newDamagedStore(t)
	base := w.atRest(t)
	again := func(s *Store, entries []Entry) []Entry {
		entries = slices.Clone(entries)
		for i := range entries {
			entries[i].Epoch = s.Epoch()
		}
		return entries
	}
	for name, call := range map[string]func(s *Store) error{
		"add few": func(s *Store) error {
			s.recent.leftover.Store(true) // there is no room
			return s.Add(again(s, w.entries[190:191]))
		},
		"add many": func(s *Store) error { return s.Add(again(s, w.entries[150:200])) },
		"add many, a part of which is there": func(s *Store) error {
			// Requests of others are made when the damage is met.
			entries := again(s, w.entries[150:200])
			for i := range entries[:25] {
				entries[i].Key = fmt.Appendf(nil, "other %d", i)
			}
			return s.Add(entries)
		},
		"remove": func(s *Store) error {
			_, err := s.remove(w.ids[0], w.entries[100].Shard, [][]byte{w.entries[100].Key}, 0)
			return err
		},
		"mark": func(s *Store) error { return s.Mark([]Mark{{Index: w.ids[0], Shard: 3, Epoch: s.Epoch()}}) },
		"intend": func(s *Store) error {
			_, err := s.Intend([]Pair{{"shop", "users", 3}})
			return err
		},
		"serial": func(s *Store) error {
			_, err := s.JumpSerial()
			return err
		},
		"sync": (*Store).Sync,
		"numbers": func(s *Store) error {
			if err := s.StartSequence(damagedTable, func() (uint64, error) { return 1, nil }); err != nil {
				return err
			}
			n, err := s.TakeNumbers(damagedTable, func(next uint64) uint64 { return next + 10_000 })
			if err == nil {
				n.Release()
			}
			return err
		},
		"doubt": (*Store).DoubtSequences,
		"placements": func(s *Store) error {
			return s.SetPlacements(map[catalog.TableName]string{{Schema: "a", Name: "b"}: "single"})
		},
		"DDL": func(s *Store) error { return s.KeepUnfinished("other", UnfinishedDDL{Op: "DROP TABLE"}, true) },
		"create index": func(s *Store) error {
			_, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: fmt.Sprint(s.nextIndex), Columns: []string{"c"}})
			return err
		},
		"update index": func(s *Store) error { return s.UpdateIndex(w.ids[0], func(d *IndexRecord) { d.Error = "why" }) },
		"rename": func(s *Store) error {
			return s.MoveIndexes(map[catalog.IndexID]catalog.TableName{w.ids[0]: {Schema: "shop", Name: "customers"}})
		},
		"build": func(s *Store) error {
			if err := s.StartBuild(w.ids[0], 2); err != nil {
				return err
			}
			return finishBuild(s, w.ids[0])
		},
		"drop index": func(s *Store) error {
			if err := s.DropIndex(w.ids[1]); !errors.Is(err, ErrNoIndex) {
				return err
			}
			return nil
		},
		"close": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOpts(copyStore(t, base))
			s := openTest(t, o, testOptions{manual: true, noFlusher: true, unmended: true})
			check(t, s.Recovered())
			check(t, s.Add(again(s, w.entries[:4]))) // and sets the write-intents, which flushes
			check(t, s.Add(again(s, w.entries[180:180+fewEntries])))
			check(t, s.db.intact())
			tables := map[string][]byte{}
			for _, name := range must(filepath.Glob(filepath.Join(o.Dir, "*.sst"))) {
				tables[filepath.Base(name)] = must(os.ReadFile(name))
			}
			spoil(t, o.Dir)
			if call == nil {
				check(t, s.Close())
				w.unread(t, o.Dir, tables)
				return
			}
			check(t, call(s))
			if s.db.intact() == nil {
				t.Fatal("no damage was met")
			}
			if _, err := s.Lookup(w.ids[0], w.entries[0].Key, nil); !errors.Is(err, ErrDamaged) {
				t.Errorf("looked up: %v", err)
			}
			w.unread(t, copyStore(t, o.Dir), tables)
			check(t, call(s)) // while it is known
			must(s.replace())
			if _, err := os.Stat(filepath.Join(o.Dir, damagedFile)); err == nil {
				t.Error("it would be made anew again")
			}
			check(t, call(s))
			check(t, s.db.intact())
		})
	}
}

// unread opens a store of a damaged database whose tables can be read after all, and sees that nothing is found by
// what that has.
func (w *damagedStore) unread(t *testing.T, dir string, tables map[string][]byte) {
	t.Helper()
	for name, b := range tables {
		check(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	s := openTest(t, testOpts(dir), testOptions{manual: true})
	defer func() { check(t, s.Close()) }()
	for _, id := range w.ids {
		if _, err := s.Lookup(id, w.entries[0].Key, nil); !errors.Is(err, ErrNoIndex) {
			t.Errorf("index %d was looked up: %v", id, err)
		}
	}
}

// TestDamagedRecord: a record that isn't an entry and can't be read is read from what is kept.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	base := newDamagedStore(t).atRest(t)
	for name, read := range map[string]func(s *Store) string{
		"one": func(s *Store) string { return must(s.Placement(damagedTable)) },
		"all": func(s *Store) string { return must(s.Placements())[damagedTable] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOpts(copyStore(t, base))
			s := openTest(t, o, testOptions{manual: true, unmended: true})
			check(t, s.SetPlacements(map[catalog.TableName]string{damagedTable: "single"}))
			check(t, s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false)) // into tables that nothing has read
			spoil(t, o.Dir)
			if got := read(s); got != "single" {
				t.Errorf("placement %q", got)
			}
			if s.db.intact() == nil {
				t.Fatal("no damage was met")
			}
			if got := read(s); got != "single" {
				t.Errorf("placement %q", got)
			}
			must(s.replace())
			if got := read(s); got != "single" {
				t.Errorf("placement %q", got)
			}
		})
	}
}

// TestDamageNotMended: where the database can't be made anew, what is known without it is still told, and a
// restart makes it anew.
func TestDamageNotMended(t *testing.T) {
	t.Parallel()
	w := newDamagedStore(t)
	o := testOpts(copyStore(t, w.dir))
	s, err := open(o, testOptions{manual: true, copies: true})
	check(t, err)
	// The second copy of its records can't be written anew.
	check(t, os.Mkdir(filepath.Join(o.Dir, keptFile+".new"), 0o700))
	s.db.hurt(errUnaccounted)
	waitFor(t, func() bool { return s.db.health.err() != nil })
	if _, err := look(s, w.ids[0], w.entries[0].Key, nil); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if got := must(s.Placements())[damagedTable]; got != "hash:id" {
		t.Errorf("placement %q", got)
	}
	if err := s.SetPlacements(map[catalog.TableName]string{damagedTable: "no"}); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	e := w.entries[0]
	e.Epoch = 7
	if err := s.Add([]Entry{e}); err == nil {
		t.Error("an entry is added to what can't be made anew")
	}
	s.published.renew()
	if err := s.Close(); err == nil {
		t.Error("closed in order")
	}
	check(t, os.Remove(filepath.Join(o.Dir, keptFile+".new")))
	w.opens(t, o.Dir)
}
