package storage

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestConformance is what every kind of store must do.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"disk", "memory", "small cache", "no cache"} {
		for _, tc := range conformance {
			t.Run(kind+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				o := testOpts("")
				switch kind {
				case "disk":
					o = testOpts(t.TempDir())
				case "small cache":
					o.LookupCache = 1
				case "no cache":
					o.LookupCache = -1
				}
				tc.run(t, openTest(t, o, testOptions{}))
			})
		}
	}
}

var conformance = []struct {
	name string
	run  func(t *testing.T, s *Store)
}{
	{"AddLookupRemove", func(t *testing.T, s *Store) {
		for _, partitions := range []int{1, 3} {
			id := readyIndex(t, s, fmt.Sprint("i", partitions), partitions)
			check(t, s.Add([]Entry{
				{id, []byte("a"), 3, 5}, {id, []byte("a"), 1, 6}, {id, []byte("b"), 200, 5}, {id, nil, 1, 1},
			}))
			wantLookup(t, s, id, "a", 1, 3)
			wantLookup(t, s, id, "b", 200)
			wantLookup(t, s, id, "", 1)
			wantLookup(t, s, id, "c")
			if n := must(s.remove(id, 3, [][]byte{[]byte("a"), []byte("b"), []byte("zz")}, 5)); n != 0 {
				t.Fatalf("removed %d entries confirmed at the horizon", n)
			}
			if n := must(s.remove(id, 3, [][]byte{[]byte("a"), []byte("b")}, 6)); n != 1 {
				t.Fatalf("removed %d, want 1", n)
			}
			wantLookup(t, s, id, "a", 1)
			// A lower epoch must not lower the stored one.
			check(t, s.Add([]Entry{{id, []byte("a"), 1, 2}}))
			if n := must(s.remove(id, 1, [][]byte{[]byte("a")}, 6)); n != 0 {
				t.Fatal("Add lowered an epoch")
			}
			if n := s.Stats().Indexes[id]; n.Entries != 3 || n.Approximate {
				t.Fatalf("stats: %+v", n)
			}
			must(s.remove(id, 1, [][]byte{[]byte("a")}, 100))
			wantLookup(t, s, id, "a")
			if got := dump(t, s, id, false); !slices.Equal(got, []string{"[{1 1}]", "b[{200 5}]"}) {
				t.Fatal(got)
			}
		}
	}},
	{"Range", func(t *testing.T, s *Store) {
		for _, partitions := range []int{1, 4} {
			id := readyIndex(t, s, fmt.Sprint("i", partitions), partitions)
			for i := range 20 {
				check(t, s.Add([]Entry{{id, fmt.Appendf(nil, "k%02d", i), catalog.ShardID(i), 1}}))
			}
			got, ok, err := ranged(s, id, []byte("k03"), []byte("k06"), 10)
			if err != nil || !ok || got != set(3, 4, 5) {
				t.Fatal(got, ok, err)
			}
			if got, ok, _ = ranged(s, id, []byte("k18"), nil, 2); !ok || got != set(18, 19) {
				t.Fatal(got, ok)
			}
			if _, ok, _ = ranged(s, id, nil, nil, 19); ok {
				t.Fatal("range over the limit")
			}
			check(t, s.Mark([]Mark{{Index: id, Shard: 99, Known: [][]byte{[]byte("x")}, Epoch: 1}}))
			if got, ok, _ = ranged(s, id, []byte("x"), nil, 2); !ok || got != set(99) {
				t.Fatal(got, ok)
			}
			var keys []string
			check(t, s.Entries(id, []byte("k10"), false, func(k []byte, _ []ShardEpoch) bool {
				keys = append(keys, string(k))
				return len(keys) < 3
			}))
			if !slices.Equal(keys, []string{"k10", "k11", "k12"}) {
				t.Fatal(keys)
			}
		}
	}},
	{"Marks", func(t *testing.T, s *Store) {
		id := readyIndex(t, s, "i", 1)
		de, us := []byte("de"), []byte("us")
		check(t, s.Mark([]Mark{{Index: id, Shard: 1, Known: [][]byte{de}, Epoch: 5}, {Index: id, Shard: 2, Known: [][]byte{nil, us}, Epoch: 5}, {Index: id, Shard: 3, Known: [][]byte{nil, nil}, Epoch: 5}}))
		for _, c := range []struct {
			components [][]byte
			want       catalog.ShardSet
		}{
			{nil, set(1, 2, 3)},
			{[][]byte{de}, set(1, 2, 3)},
			{[][]byte{us}, set(2, 3)},
			{[][]byte{us, de}, set(3)},
			{[][]byte{de, us}, set(1, 2, 3)},
			{[][]byte{nil, de}, set(1, 3)},
		} {
			got := must(look(s, id, []byte("k"), c.components))
			if got != c.want {
				t.Errorf("components %q: %b, want %b", c.components, got, c.want)
			}
		}
		if n := must(s.clearMarks(id, 1, 5, false)); n != 0 {
			t.Fatal("cleared a mark at the horizon")
		}
		check(t, s.Mark([]Mark{{Index: id, Shard: 1, Known: [][]byte{de}, Epoch: 9}}))
		if n := must(s.clearMarks(id, 1, 9, false)); n != 0 {
			t.Fatal("a second mark did not raise the epoch")
		}
		if n := must(s.clearMarks(id, 1, 10, false)); n != 1 {
			t.Fatal("mark not cleared")
		}
		if len(s.Marks(id)) != 2 || len(s.AllMarks()) != 2 {
			t.Fatal(s.Marks(id))
		}
		for i := range maxPartialMarks + 1 {
			check(t, s.Mark([]Mark{{Index: id, Shard: 4, Known: [][]byte{{byte(i)}}, Epoch: Epoch(i + 1)}}))
		}
		if m := s.Marks(id); len(m) != 3 || m[2].Known != nil || m[2].Epoch != maxPartialMarks+1 {
			t.Fatal(m)
		}
		// Covered by the full mark.
		check(t, s.Mark([]Mark{{Index: id, Shard: 4, Known: [][]byte{us}, Epoch: 3}}))
		if len(s.Marks(id)) != 3 || s.Stats().Indexes[id].Unknown != set(2, 3, 4) {
			t.Fatal(s.Marks(id))
		}
	}},
	{"LoggedMarks", func(t *testing.T, s *Store) {
		id := readyIndex(t, s, "i", 1)
		de := [][]byte{[]byte("de")}
		mark := func(shard catalog.ShardID, known [][]byte, e Epoch, logged bool) {
			t.Helper()
			check(t, s.Mark([]Mark{{Index: id, Shard: shard, Known: known, Epoch: e, Logged: logged}}))
		}
		mark(1, nil, 5, true)
		mark(2, nil, 5, true)
		mark(2, nil, 3, false) // for a scan, though the logged one is younger
		mark(3, de, 5, true)
		mark(4, nil, 5, false)
		mark(4, nil, 5, true) // covered
		if m := s.Marks(id); len(m) != 5 {
			t.Fatal(m)
		}
		if n := must(s.Clear(id, 1, 5)); n != 0 {
			t.Fatal("cleared a mark at the horizon")
		}
		for shard, want := range []int{1: 1, 2: 1, 3: 1, 4: 0} {
			if n := must(s.Clear(id, catalog.ShardID(shard), 6)); n != want {
				t.Errorf("shard %d: cleared %d, want %d", shard, n, want)
			}
		}
		if got := must(look(s, id, []byte("k"), nil)); got != set(2, 4) {
			t.Errorf("left on %b", got)
		}
		mark(1, de, 7, true)
		if !must(s.Unlog(id, 1)) || must(s.Unlog(id, 5)) {
			t.Error("Unlog told the wrong thing")
		}
		must(s.Clear(id, 1, 9))
		if got := must(look(s, id, []byte("k"), de)); got != set(1, 2, 4) {
			t.Errorf("left on %b", got)
		}
		if got := must(look(s, id, []byte("k"), [][]byte{[]byte("us")})); got != set(2, 4) {
			t.Errorf("left on %b where more is known", got)
		}
	}},
	{"UnknownIndex", func(t *testing.T, s *Store) {
		check(t, s.Add([]Entry{{77, []byte("k"), 1, 1}}))
		check(t, s.Mark([]Mark{{Index: 77, Shard: 1, Epoch: 1}}))
		if must(s.remove(77, 1, [][]byte{[]byte("k")}, 9)) != 0 || must(s.clearMarks(77, 1, 9, false)) != 0 {
			t.Fatal("removed from nothing")
		}
		if _, err := look(s, 77, nil, nil); !errors.Is(err, ErrNoIndex) {
			t.Fatal(err)
		}
		if err := s.DropIndex(77); !errors.Is(err, ErrNoIndex) {
			t.Fatal(err)
		}
	}},
	{"Build", func(t *testing.T, s *Store) {
		def := must(s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "i", Partitions: 2}))
		if def.Status != catalog.Building || def.Readable || !def.HasBuild || def.Partitions != 2 {
			t.Fatalf("%+v", def)
		}
		if _, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "i"}); !errors.Is(err, ErrIndexExists) {
			t.Fatal(err)
		}
		check(t, s.Add([]Entry{{def.ID, []byte("a"), 1, 1}}))
		if _, err := look(s, def.ID, []byte("a"), nil); !errors.Is(err, ErrNoIndex) {
			t.Fatal(err)
		}
		if got := dump(t, s, def.ID, true); len(got) != 1 {
			t.Fatal(got)
		}
		check(t, finishBuild(s, def.ID))
		wantLookup(t, s, def.ID, "a", 1)
		if err := finishBuild(s, def.ID); !errors.Is(err, ErrNotBuilding) {
			t.Fatal(err)
		}
		// A rebuild starts empty, gets what is added, and reads stay.
		check(t, s.StartBuild(def.ID, 3))
		check(t, s.Add([]Entry{{def.ID, []byte("b"), 2, 1}}))
		wantLookup(t, s, def.ID, "a", 1)
		wantLookup(t, s, def.ID, "b", 2)
		if d, _ := s.Index(def.ID); !d.Readable || !d.HasBuild || d.Status != catalog.Ready || d.Partitions != 2 {
			t.Fatalf("%+v", d)
		}
		if err := s.Repartition(t.Context(), def.ID, 4, nil); !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		check(t, finishBuild(s, def.ID))
		wantLookup(t, s, def.ID, "a")
		wantLookup(t, s, def.ID, "b", 2)
		if d, _ := s.Index(def.ID); d.Partitions != 3 {
			t.Fatalf("%+v", d)
		}
		if s.Stats().Garbage != 1 {
			t.Fatal("the old generation is not queued")
		}
		// Who has filled a generation finishes no later one.
		check(t, s.StartBuild(def.ID, 0))
		filled, _ := s.Index(def.ID)
		check(t, s.StartBuild(def.ID, 0))
		if err := s.FinishBuild(def.ID, filled.BuildGeneration, nil); !errors.Is(err, ErrSuperseded) {
			t.Fatal(err)
		}
		wantLookup(t, s, def.ID, "b", 2)
		check(t, finishBuild(s, def.ID))
		if d, _ := s.Index(def.ID); d.HasBuild || d.BuildGeneration != 0 {
			t.Fatalf("%+v", d)
		}
	}},
	{"DropAndGarbage", func(t *testing.T, s *Store) {
		id := readyIndex(t, s, "i", 2)
		other := readyIndex(t, s, "other", 1)
		var entries []Entry
		for i := range 2500 {
			entries = append(entries, Entry{id, fmt.Appendf(nil, "k%05d", i), 1, 1})
		}
		check(t, s.Add(append(entries, Entry{other, []byte("k"), 1, 1})))
		check(t, s.Mark([]Mark{{Index: id, Shard: 1, Epoch: 1}}))
		check(t, s.DropIndex(id))
		if _, err := look(s, id, []byte("k00001"), nil); !errors.Is(err, ErrNoIndex) {
			t.Fatal(err)
		}
		check(t, s.Add(entries))
		check(t, s.Mark([]Mark{{Index: id, Shard: 1, Epoch: 9}}))
		slices := 0
		for {
			more, err := s.DeleteGarbage(t.Context(), 700)
			check(t, err)
			slices++
			if !more {
				break
			}
		}
		if slices != 4 {
			t.Fatalf("%d slices", slices)
		}
		left := 0
		check(t, s.scan([]byte{kindEntry}, func([]byte, []byte) (bool, error) { left++; return true, nil }))
		check(t, s.scan([]byte{kindMark}, func([]byte, []byte) (bool, error) { left++; return true, nil }))
		check(t, s.scan([]byte{kindGarbage}, func([]byte, []byte) (bool, error) { left++; return true, nil }))
		if left != 1 {
			t.Fatalf("%d records left", left)
		}
		wantLookup(t, s, other, "k", 1)
		if d := must(s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "i"})); d.ID <= other {
			t.Fatal("an ID was used again")
		}
	}},
	{"Repartition", func(t *testing.T, s *Store) {
		id := readyIndex(t, s, "i", 1)
		const n = 3*moveSlice + 17
		var entries []Entry
		for i := range n {
			entries = append(entries, Entry{id, fmt.Appendf(nil, "k%05d", i), catalog.ShardID(i % 7), 3})
		}
		entries = append(entries, Entry{id, []byte("k00000"), 9, 4})
		check(t, s.Add(entries))
		before := dump(t, s, id, false)
		last := 0.0
		check(t, s.Repartition(t.Context(), id, 5, func(f float64) {
			// Adds and lookups go on, and see each other.
			key := fmt.Sprintf("new%v", f)
			check(t, s.Add([]Entry{{id, []byte(key), 1, 5}}))
			wantLookup(t, s, id, key, 1)
			must(s.remove(id, 1, [][]byte{[]byte(key)}, 6))
			last = f
		}))
		if after := dump(t, s, id, false); last != 1 || !slices.Equal(before, after) {
			t.Fatalf("progress %v, %d keys before, %d after", last, len(before), len(after))
		}
		if d, _ := s.Index(id); d.Partitions != 5 || d.Moving || s.Stats().Indexes[id].Entries != n+1 {
			t.Fatalf("%+v %+v", d, s.Stats())
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Repartition(ctx, id, 2, func(float64) { cancel() })
		if d, _ := s.Index(id); !errors.Is(err, context.Canceled) || d.Partitions != 5 || d.Moving {
			t.Fatal(err, d)
		}
		err = s.Repartition(t.Context(), id, 2, func(float64) { check(t, s.StartBuild(id, 0)) })
		if !errors.Is(err, ErrSuperseded) {
			t.Fatal(err)
		}
		wantLookup(t, s, id, "k00000", 0, 9)
	}},
	{"UpdateIndex", func(t *testing.T, s *Store) {
		id := readyIndex(t, s, "i", 2)
		readyIndex(t, s, "j", 1)
		check(t, s.UpdateIndex(id, func(d *IndexRecord) {
			d.Status, d.Error, d.ID, d.Partitions, d.Schema, d.Table = catalog.Failed, "miss", 99, 99, "other", "people"
		}))
		d, ok := s.Index(id)
		if !ok || d.Status != catalog.Failed || d.Error != "miss" || d.Partitions != 2 || d.Schema != "shop" || d.Table != "users" || !d.Readable {
			t.Fatalf("%+v", d)
		}
		if err := s.UpdateIndex(id, func(d *IndexRecord) { d.Name = "j" }); !errors.Is(err, ErrIndexExists) {
			t.Fatal(err)
		}
		check(t, s.StartBuild(id, 0))
		check(t, finishBuild(s, id))
		if d, _ := s.Index(id); d.Status != catalog.Ready || d.Error != "" || d.LastScan.IsZero() {
			t.Fatalf("%+v", d)
		}
		check(t, s.UpdateIndex(id, func(d *IndexRecord) { d.Status = catalog.Disabled }))
		check(t, s.StartBuild(id, 0))
		check(t, finishBuild(s, id))
		if d, _ := s.Index(id); d.Status != catalog.Disabled || len(s.Indexes()) != 2 {
			t.Fatalf("%+v", d)
		}
	}},
	{"MoveIndexes", func(t *testing.T, s *Store) {
		a, b := readyIndex(t, s, "i", 1), readyIndex(t, s, "j", 1)
		people, users := catalog.TableName{Schema: "shop", Name: "people"}, catalog.TableName{Schema: "shop", Name: "users"}
		check(t, s.MoveIndexes(map[catalog.IndexID]catalog.TableName{a: people}))
		check(t, s.UpdateIndex(b, func(d *IndexRecord) { d.Name = "i" }))
		if err := s.MoveIndexes(map[catalog.IndexID]catalog.TableName{b: people}); !errors.Is(err, ErrIndexExists) {
			t.Fatal(err)
		}
		check(t, s.MoveIndexes(map[catalog.IndexID]catalog.TableName{a: users, b: people}))
		da, _ := s.Index(a)
		if db, _ := s.Index(b); da.Table != "users" || db.Table != "people" || !da.Readable || !db.Readable {
			t.Fatalf("%+v %+v", da, db)
		}
	}},
	{"Epochs", func(t *testing.T, s *Store) {
		last := s.Epoch()
		for range 2*epochStep + 3 {
			e, err := s.Advance()
			check(t, err)
			if e <= last || s.Epoch() != e {
				t.Fatalf("%d after %d", e, last)
			}
			last = e
		}
	}},
	{"Placements", func(t *testing.T, s *Store) {
		a, b := catalog.TableName{Schema: "shop", Name: "a"}, catalog.TableName{Schema: "shop", Name: "b"}
		check(t, s.SetPlacements(map[catalog.TableName]string{a: "hash:id", b: "reference"}))
		check(t, s.SetPlacements(map[catalog.TableName]string{a: "hash:x", b: "", {Schema: "none", Name: "n"}: ""}))
		if got := must(s.Placement(a)); got != "hash:x" {
			t.Errorf("placement %q", got)
		}
		if got := must(s.Placement(b)); got != "" {
			t.Errorf("placement %q of a table without a record", got)
		}
		if got := must(s.Placements()); len(got) != 1 || got[a] != "hash:x" {
			t.Fatal(got)
		}
	}},
	{"Sequences", func(t *testing.T, s *Store) {
		a, b := catalog.TableName{Schema: "shop", Name: "a"}, catalog.TableName{Schema: "shop", Name: "b"}
		take := func(t *testing.T, name catalog.TableName, n uint64) uint64 {
			t.Helper()
			got := must(s.TakeNumbers(name, func(next uint64) uint64 { return next + n }))
			got.Release()
			return got.First
		}
		unstarted := func(name catalog.TableName) {
			t.Helper()
			if _, err := s.TakeNumbers(name, func(next uint64) uint64 { return next + 1 }); !errors.Is(err, ErrUnstarted) {
				t.Fatal(err)
			}
		}
		unstarted(a)
		if must(s.SequenceKept(a)) {
			t.Fatal("an unused sequence is kept")
		}
		check(t, s.StartSequence(a, from(7)))
		if got := []uint64{take(t, a, 1), take(t, a, 5000), take(t, a, 2)}; !slices.Equal(got, []uint64{7, 8, 5008}) {
			t.Fatal(got)
		}
		if !must(s.SequenceKept(a)) {
			t.Fatal("a sequence in use is not kept")
		}
		// Who asked the table before others took numbers doesn't set it back.
		check(t, s.StartSequence(a, from(7)))
		if got := take(t, a, 1); got != 5010 {
			t.Fatal(got)
		}
		s.DoubtSequence(a)
		unstarted(a)
		check(t, s.StartSequence(a, from(200_000)))
		if got := take(t, a, 1); got != 200_000 {
			t.Fatal(got)
		}
		// Where all are in doubt what is kept says nothing, under another name neither.
		check(t, s.DoubtSequences())
		unstarted(a)
		check(t, s.RenameSequence(a, b))
		if must(s.SequenceKept(b)) {
			t.Fatal("a sequence in doubt is kept")
		}
		check(t, s.RenameSequence(b, a))
		check(t, s.StartSequence(a, from(7)))
		if got := take(t, a, 1); got != 200_001 {
			t.Fatal(got)
		}
		if !must(s.SequenceKept(a)) {
			t.Fatal("a sequence that was started is not kept")
		}
		// A restart waits for what is on its way into the table.
		open := must(s.TakeNumbers(a, func(next uint64) uint64 { return next + 1 }))
		s.RestartSequence(a)
		if got := take(t, a, 1); got != 200_003 {
			t.Fatal(got)
		}
		open.Release()
		unstarted(a)
		check(t, s.StartSequence(a, from(1)))
		check(t, s.StartSequence(a, from(1)))
		if got := []uint64{take(t, a, 1), take(t, a, 1)}; !slices.Equal(got, []uint64{1, 2}) {
			t.Fatal(got)
		}
		check(t, s.RenameSequence(a, b))
		unstarted(b)
		check(t, s.StartSequence(b, from(1)))
		if got := take(t, b, 1); got != 3 {
			t.Fatal(got)
		}
		unstarted(a)
		check(t, s.DropSequences("shop"))
		unstarted(b)
		check(t, s.StartSequence(b, from(1)))
		if got := take(t, b, 1); got != 1 {
			t.Fatal(got)
		}
		// The last number is the one under the highest.
		check(t, s.StartSequence(a, from(1)))
		top := must(s.TakeNumbers(a, func(uint64) uint64 { return 1<<64 - 1 }))
		top.Release()
		if got := take(t, a, 0); got != 1<<64-1 {
			t.Fatal(got)
		}
	}},
	{"SequencesBeside", func(t *testing.T, s *Store) {
		name := catalog.TableName{Schema: "shop", Name: "a"}
		check(t, s.StartSequence(name, from(1)))
		var wg sync.WaitGroup
		got := make([][]uint64, 8)
		for w := range got {
			wg.Go(func() {
				for i := range 500 {
					n := uint64(i % 7)
					x, err := s.TakeNumbers(name, func(next uint64) uint64 { return next + n })
					if err != nil {
						t.Error(err)
						return
					}
					x.Release()
					for k := range n {
						got[w] = append(got[w], x.First+k)
					}
				}
			})
		}
		wg.Wait()
		all := slices.Concat(got...)
		slices.Sort(all)
		for i, n := range all {
			if n != uint64(i)+1 {
				t.Fatalf("number %d is %d", i+1, n)
			}
		}
	}},
	{"ShardsAndSlots", func(t *testing.T, s *Store) {
		a, b := must(s.ShardID("a")), must(s.ShardID("b"))
		if a == b || must(s.ShardID("a")) != a || len(s.Shards()) != 2 {
			t.Fatal(a, b)
		}
		if m := must(s.SlotMap()); m != nil {
			t.Fatal(m)
		}
		if m := must(s.KeepSlotMap([]byte{1, 2})); !slices.Equal(m, []byte{1, 2}) {
			t.Fatal(m)
		}
		if m := must(s.KeepSlotMap([]byte{2, 1})); !slices.Equal(m, []byte{1, 2}) {
			t.Fatal(m, "in place of the first")
		}
		if m := must(s.SlotMap()); !slices.Equal(m, []byte{1, 2}) {
			t.Fatal(m)
		}
		for i := range catalog.MaxShards - 2 {
			must(s.ShardID(fmt.Sprint(i)))
		}
		if _, err := s.ShardID("one more"); !errors.Is(err, ErrTooManyShards) {
			t.Fatal(err)
		}
	}},
	{"LargeAdd", func(t *testing.T, s *Store) {
		// More than one transaction holds.
		id := readyIndex(t, s, "i", 1)
		var entries []Entry
		for i := range 20000 {
			entries = append(entries, Entry{id, fmt.Appendf(nil, "%0100d", i), catalog.ShardID(i % 3), 1})
		}
		check(t, s.Add(entries))
		check(t, s.Add(entries))
		if n := s.Stats().Indexes[id].Entries; n != int64(len(entries)) {
			t.Fatal(n)
		}
		wantLookup(t, s, id, fmt.Sprintf("%0100d", 19999), 19999%3)
		if err := s.Add([]Entry{{id, make([]byte, MaxKey+1), 1, 1}}); !errors.Is(err, ErrKeyTooLong) {
			t.Fatal(err)
		}
		check(t, s.Add([]Entry{{id, make([]byte, MaxKey), 1, 1}}))
	}},
	{"Concurrent", func(t *testing.T, s *Store) {
		id := readyIndex(t, s, "i", 2)
		var wg sync.WaitGroup
		const workers, keys = 8, 60
		for w := range workers {
			wg.Go(func() {
				for i := range keys {
					key := fmt.Appendf(nil, "k%d", i)
					e := s.Epoch()
					if err := s.Add([]Entry{{id, key, catalog.ShardID(w), e}}); err != nil {
						t.Error(err)
					}
					got, err := look(s, id, key, nil)
					if err != nil || !got.Has(catalog.ShardID(w)) {
						t.Errorf("%v: own entry is missing: %b", err, got)
					}
					if err := s.Mark([]Mark{{Index: id, Shard: catalog.ShardID(w), Epoch: e}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() {
			for p := range 6 {
				if p%2 == 0 {
					if err := s.Repartition(t.Context(), id, p+1, nil); err != nil {
						t.Error(err)
					}
					continue
				}
				for {
					more, err := s.DeleteGarbage(t.Context(), 50)
					if err != nil {
						t.Error(err)
					}
					if !more {
						break
					}
				}
			}
		})
		wg.Wait()
		for i := range keys {
			wantLookup(t, s, id, fmt.Sprint("k", i), 0, 1, 2, 3, 4, 5, 6, 7)
		}
		if n := s.Stats().Indexes[id].Entries; n != workers*keys {
			t.Fatal(n)
		}
	}},
	{"MarkToEntry", func(t *testing.T, s *Store) {
		// What a scan does: add what it found, then clear the mark that covered
		// it. A lookup between finds one or the other.
		id := readyIndex(t, s, "i", 1)
		var current atomic.Int64
		var readers sync.WaitGroup
		stop := make(chan struct{})
		key := func(i int64) []byte { return fmt.Appendf(nil, "k%d", i) }
		check(t, s.Mark([]Mark{{Index: id, Shard: 1, Epoch: 1}}))
		for range 3 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					runtime.Gosched() // a commit takes turns of several goroutines
					k := key(current.Load())
					if got, err := look(s, id, k, nil); err != nil || !got.Has(1) {
						t.Errorf("%s is missing: %b %v", k, got, err)
						return
					}
				}
			})
		}
		for i := int64(1); i < 500 && !t.Failed(); i++ {
			check(t, s.Mark([]Mark{{Index: id, Shard: 1, Epoch: Epoch(i)}}))
			current.Store(i)
			check(t, s.Add([]Entry{{id, key(i), 1, Epoch(i)}}))
			if n := must(s.clearMarks(id, 1, Epoch(i+1), false)); n != 1 {
				t.Error(n)
			}
		}
		close(stop)
		readers.Wait()
	}},
	{"Rebuilds", func(t *testing.T, s *Store) {
		// Lookups and adds go on while generations come and go.
		id := readyIndex(t, s, "i", 1)
		const keys = 20
		var all []Entry
		for i := range keys {
			all = append(all, Entry{id, fmt.Appendf(nil, "k%d", i), 1, 1})
		}
		check(t, s.Add(all))
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for w := range 3 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					runtime.Gosched()
					k := all[i%keys].Key
					if got, err := look(s, id, k, nil); err != nil || !got.Has(1) {
						t.Errorf("%s is missing: %b %v", k, got, err)
						return
					}
					if w == 0 {
						own := []Entry{{id, fmt.Appendf(nil, "w%d", i), 2, 1}}
						v := s.find(id).view.Load()
						check(t, s.Add(own))
						got, err := look(s, id, own[0].Key, nil)
						// A build that began before the Add has it; one that began
						// after is the caller's to fill.
						if now := s.find(id).view.Load(); now == v && (err != nil || !got.Has(2)) {
							t.Errorf("%s is missing: %b %v", own[0].Key, got, err)
							return
						}
					}
				}
			})
		}
		for i := range 100 {
			if i%2 == 0 {
				check(t, s.StartBuild(id, i%3+1))
				check(t, s.Add(all))
				check(t, finishBuild(s, id))
			} else {
				check(t, s.Repartition(t.Context(), id, i%3+1, nil))
			}
			for {
				more, err := s.DeleteGarbage(t.Context(), 1000)
				check(t, err)
				if !more {
					break
				}
			}
		}
		close(stop)
		wg.Wait()
		n := int64(0)
		check(t, s.Entries(id, nil, false, func(_ []byte, p []ShardEpoch) bool { n += int64(len(p)); return true }))
		if got := s.Stats().Indexes[id].Entries; got != n {
			t.Fatalf("%d entries, counted %d", n, got)
		}
		left := int64(0)
		check(t, s.scan([]byte{kindEntry}, func([]byte, []byte) (bool, error) { left++; return true, nil }))
		if left != n {
			t.Fatalf("%d records of %d entries: an old generation was written to", left, n)
		}
	}},
	{"AfterClose", func(t *testing.T, s *Store) {
		id := readyIndex(t, s, "i", 1)
		check(t, s.Close())
		if _, err := look(s, id, nil, nil); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if err := s.Add([]Entry{{id, nil, 1, 1}}); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if _, err := s.Enqueue(Job{}); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if st := s.Stats(); !errors.Is(st.Writable, ErrClosed) {
			t.Fatal(st)
		}
		if invariants {
			defer func() {
				if recover() == nil {
					t.Error("a second Close did not panic")
				}
			}()
		}
		if err := s.Close(); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}},
}
