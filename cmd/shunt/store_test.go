package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
	"github.com/shunt-sql/shunt/storage/shared"
)

// TestStores is what every store does, be it in data_dir or on servers, as far as callers can't tell one from the other.
func TestStores(t *testing.T) {
	t.Parallel()
	each := func(t *testing.T, open func(t *testing.T) store) {
		for _, tc := range storeConformance {
			t.Run(tc.name, func(t *testing.T) {
				s := &checkedStore{open(t), t}
				defer func() { s.check(s.Close()) }()
				tc.run(t, s)
			})
		}
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T) store {
			s, err := storage.Open(storage.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
	eachServer(t, func(t *testing.T, at *throwaway.Server) {
		n := 0
		each(t, func(t *testing.T) store {
			n++
			h, err := home.Open(t.Context(), home.Config{Addr: at.Addr(), User: at.User, Password: at.Password, Schema: fmt.Sprint("store_", n)})
			if err != nil {
				t.Fatal(err)
			}
			s, err := shared.Open(t.Context(), shared.Options{Home: h, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
}

// checkedStore has what the cases share.
type checkedStore struct {
	store
	t *testing.T
}

func (s *checkedStore) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *checkedStore) is(err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Fatalf("%v, want %v", err, want)
	}
}

func (s *checkedStore) create(name string) catalog.IndexID {
	s.t.Helper()
	d, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: name, Columns: []string{"c"}, Partitions: 1})
	s.check(err)
	return d.ID
}

func (s *checkedStore) finish(id catalog.IndexID) error {
	d, _ := s.Index(id)
	return s.FinishBuild(id, d.BuildGeneration, nil)
}

func (s *checkedStore) ready(name string) catalog.IndexID {
	s.t.Helper()
	id := s.create(name)
	s.check(s.finish(id))
	return id
}

func (s *checkedStore) add(id catalog.IndexID, key string, shard catalog.ShardID, e storage.Epoch) {
	s.t.Helper()
	s.check(s.Add([]storage.Entry{{Index: id, Key: []byte(key), Shard: shard, Epoch: e}}))
}

func (s *checkedStore) finds(id catalog.IndexID, key string, components [][]byte, want ...catalog.ShardID) {
	s.t.Helper()
	f, err := s.Lookup(id, []byte(key), components)
	s.check(err)
	if f.Shards != shardSet(want...) {
		s.t.Fatalf("%q is on %v, want %v", key, slices.Collect(f.Shards.All), want)
	}
}

// retire is what a scan in an epoch removes behind its horizon.
func (s *checkedStore) retire(id catalog.IndexID, shard catalog.ShardID, in, before storage.Epoch, marks bool, keys ...string) (removed, cleared int) {
	s.t.Helper()
	gate, err := s.OpenGate(id, shard, in)
	s.check(err)
	r := storage.Retirement{Index: id, Shard: shard, Gate: gate, Before: before, After: in + 1, Marks: marks}
	for _, k := range keys {
		r.Keys = append(r.Keys, []byte(k))
	}
	removed, cleared, err = s.Retire(r)
	s.check(err)
	return removed, cleared
}

func shardSet(ids ...catalog.ShardID) (set catalog.ShardSet) {
	for _, id := range ids {
		set.Add(id)
	}
	return set
}

var storeConformance = []struct {
	name string
	run  func(t *testing.T, s *checkedStore)
}{
	{"entries", func(t *testing.T, s *checkedStore) {
		id, other := s.ready("i"), s.ready("j")
		for i := range 20 {
			s.add(id, fmt.Sprintf("k%02d", i), catalog.ShardID(i%7), 5)
		}
		s.add(id, "k03", 200, 6)
		s.add(id, "", 1, 5)
		s.finds(id, "k03", nil, 3, 200)
		s.finds(id, "", nil, 1)
		s.finds(id, "k20", nil)
		s.finds(other, "k03", nil)
		for _, r := range []struct {
			from, to string
			limit    int
			ok       bool
			want     catalog.ShardSet
		}{
			{"k03", "k06", 10, true, shardSet(3, 4, 5, 200)},
			{"k18", "", 2, true, shardSet(4, 5)},
			{"k", "", 19, false, catalog.ShardSet{}},
		} {
			to := []byte(r.to)
			if r.to == "" {
				to = nil
			}
			f, ok, err := s.Range(id, []byte(r.from), to, r.limit)
			if s.check(err); ok != r.ok || ok && f.Shards != r.want {
				t.Errorf("from %s to %s: %v, %v", r.from, r.to, f.Shards, ok)
			}
		}
		var keys []string
		s.check(s.Entries(id, []byte("k03"), false, func(key []byte, pairs []storage.ShardEpoch) bool {
			keys = append(keys, fmt.Sprintf("%s%v", key, pairs))
			return len(keys) < 2
		}))
		if !slices.Equal(keys, []string{"k03[{3 5} {200 6}]", "k04[{4 5}]"}) {
			t.Error(keys)
		}
		keys = nil
		s.check(s.EntriesOf(id, 2, nil, func(key []byte) bool {
			keys = append(keys, string(key))
			return true
		}))
		if !slices.Equal(keys, []string{"k02", "k09", "k16"}) {
			t.Error(keys)
		}
		s.is(s.Add([]storage.Entry{{Index: id, Key: make([]byte, storage.MaxKey+1), Shard: 1, Epoch: 1}}), storage.ErrKeyTooLong)
		s.check(s.Add([]storage.Entry{{Index: 77, Key: []byte("k"), Shard: 1, Epoch: 1}}))
		_, err := s.Lookup(77, []byte("k"), nil)
		s.is(err, storage.ErrNoIndex)
	}},
	{"retire", func(t *testing.T, s *checkedStore) {
		id := s.ready("i")
		s.add(id, "a", 1, 5)
		s.add(id, "a", 2, 5)
		s.add(id, "a", 1, 2) // lowers nothing
		before := s.Removals()
		if n, _ := s.retire(id, 1, 10, 5, false, "a", "none"); n != 0 {
			t.Fatal("removed what is confirmed at the horizon")
		}
		if n, _ := s.retire(id, 1, 11, 6, false, "a", "none"); n != 1 {
			t.Fatal("removed", n)
		}
		s.finds(id, "a", nil, 2)
		if s.Removals() == before {
			t.Error("nobody is told of the removal")
		}
		// Who began earlier removes nothing behind who began later.
		late, err := s.OpenGate(id, 2, 20)
		s.check(err)
		early, err := s.OpenGate(id, 2, 19)
		if s.check(err); early.Epoch != late.Epoch {
			t.Error("the gate went back")
		}
		early.Epoch = 19
		_, _, err = s.Retire(storage.Retirement{Index: id, Shard: 2, Gate: early, Before: 15, After: 21, Keys: [][]byte{[]byte("a")}})
		s.is(err, storage.ErrSuperseded)
		s.finds(id, "a", nil, 2)
		// Nor behind a build that has begun since.
		gate, err := s.OpenGate(id, 2, 22)
		s.check(err)
		s.check(s.StartBuild(id, 0))
		_, _, err = s.Retire(storage.Retirement{Index: id, Shard: 2, Gate: gate, Before: 15, After: 23, Keys: [][]byte{[]byte("a")}})
		s.is(err, storage.ErrSuperseded)
	}},
	{"marks", func(t *testing.T, s *checkedStore) {
		id := s.ready("i")
		de, us := []byte("de"), []byte("us")
		s.check(s.Mark([]storage.Mark{
			{Index: id, Shard: 1, Known: [][]byte{de}, Epoch: 5},
			{Index: id, Shard: 2, Known: [][]byte{nil, us}, Epoch: 5},
			{Index: id, Shard: 3, Epoch: 5},
			{Index: id, Shard: 4, Epoch: 5, Logged: true},
			{Index: 77, Shard: 1, Epoch: 5},
		}))
		s.finds(id, "k", nil, 1, 2, 3, 4)
		s.finds(id, "k", [][]byte{us}, 2, 3, 4)
		s.finds(id, "k", [][]byte{us, de}, 3, 4)
		s.finds(id, "k", [][]byte{nil, de}, 1, 3, 4)
		if _, n := s.retire(id, 1, 10, 5, true); n != 0 {
			t.Error("cleared a mark at the horizon")
		}
		s.check(s.Mark([]storage.Mark{{Index: id, Shard: 1, Known: [][]byte{de}, Epoch: 9}}))
		if _, n := s.retire(id, 1, 11, 9, true); n != 0 {
			t.Error("a second mark did not raise the epoch")
		}
		if _, n := s.retire(id, 1, 12, 10, true); n != 1 {
			t.Error("the mark was not cleared")
		}
		for shard, want := range map[catalog.ShardID]int{2: 0, 3: 0, 4: 1} {
			if n, err := s.Clear(id, shard, 6); err != nil || n != want {
				t.Errorf("%d marks of shard %d were cleared by its log, want %d; %v", n, shard, want, err)
			}
		}
		s.check(s.Mark([]storage.Mark{{Index: id, Shard: 4, Epoch: 7, Logged: true}}))
		if had, err := s.Unlog(id, 4); err != nil || !had {
			t.Error(had, err)
		}
		_, err := s.Clear(id, 4, 9) // what was left to scans stays
		s.check(err)
		s.finds(id, "k", nil, 2, 3, 4)
	}},
	{"builds", func(t *testing.T, s *checkedStore) {
		id := s.create("i")
		d, ok := s.Index(id)
		if !ok || d.Status != catalog.Building || d.Readable || !d.HasBuild || d.Created.IsZero() {
			t.Fatalf("%+v", d)
		}
		_, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "i", Columns: []string{"d"}})
		s.is(err, storage.ErrIndexExists)
		s.add(id, "a", 1, 1)
		_, err = s.Lookup(id, []byte("a"), nil)
		s.is(err, storage.ErrNoIndex)
		s.check(s.finish(id))
		s.finds(id, "a", nil, 1)
		s.is(s.finish(id), storage.ErrNotBuilding)
		// One that is built anew gets what is added, and reads go by the former one.
		s.check(s.StartBuild(id, 0))
		s.add(id, "b", 2, 1)
		s.finds(id, "a", nil, 1)
		s.finds(id, "b", nil, 2)
		filled, _ := s.Index(id)
		s.check(s.StartBuild(id, 0))
		s.is(s.FinishBuild(id, filled.BuildGeneration, nil), storage.ErrSuperseded)
		s.add(id, "c", 3, 1)
		s.check(s.finish(id))
		s.finds(id, "a", nil)
		s.finds(id, "b", nil)
		s.finds(id, "c", nil, 3)
		if d, _ := s.Index(id); d.Status != catalog.Ready || d.HasBuild || d.LastScan.IsZero() {
			t.Errorf("%+v", d)
		}
		for more := true; more; {
			more, err = s.DeleteGarbage(t.Context(), 10)
			s.check(err)
		}
		s.finds(id, "c", nil, 3)
	}},
	{"definitions", func(t *testing.T, s *checkedStore) {
		a, b := s.ready("a"), s.ready("b")
		s.check(s.UpdateIndex(a, func(d *storage.IndexRecord) { d.Status, d.Error, d.ID, d.Table = catalog.Failed, "miss", 99, "others" }))
		if d, ok := s.Index(a); !ok || d.ID != a || d.Status != catalog.Failed || d.Error != "miss" || d.Table != "users" || !d.Readable {
			t.Errorf("%+v", d)
		}
		s.is(s.UpdateIndex(b, func(d *storage.IndexRecord) { d.Name = "a" }), storage.ErrIndexExists)
		people := catalog.TableName{Schema: "shop", Name: "people"}
		s.check(s.MoveIndexes(map[catalog.IndexID]catalog.TableName{a: people}))
		s.check(s.UpdateIndex(b, func(d *storage.IndexRecord) { d.Name = "a" }))
		s.is(s.MoveIndexes(map[catalog.IndexID]catalog.TableName{b: people}), storage.ErrIndexExists)
		s.check(s.MoveIndexes(map[catalog.IndexID]catalog.TableName{a: {Schema: "shop", Name: "users"}, b: people}))
		if d, _ := s.Index(b); d.Table != "people" || !d.Readable {
			t.Errorf("%+v", d)
		}
		s.check(s.DropIndex(a))
		s.is(s.DropIndex(a), storage.ErrNoIndex)
		if _, ok := s.Index(a); ok || len(s.Indexes()) != 1 {
			t.Error(s.Indexes())
		}
		if id := s.create("a"); id <= b {
			t.Error("a number was used again")
		}
	}},
	{"places in logs", func(t *testing.T, s *checkedStore) {
		for _, want := range []string{"", "one", "another:12-13", ""} {
			s.check(s.KeepPosition(3, want))
			if at, err := s.Position(3); err != nil || at != want {
				t.Errorf("%q, want %q; %v", at, want, err)
			}
		}
		if at, err := s.Position(4); err != nil || at != "" {
			t.Error(at, err)
		}
	}},
	{"placements", func(t *testing.T, s *checkedStore) {
		a, b := catalog.TableName{Schema: "shop", Name: "a"}, catalog.TableName{Schema: "shop", Name: "b"}
		s.check(s.SetPlacements(map[catalog.TableName]string{a: "hash:id", b: "reference"}))
		s.check(s.SetPlacements(map[catalog.TableName]string{a: "hash:x", b: "", {Schema: "none", Name: "n"}: ""}))
		if all, err := s.Placements(); err != nil || len(all) != 1 || all[a] != "hash:x" {
			t.Error(all, err)
		}
		if how, err := s.Placement(b); err != nil || how != "" {
			t.Error(how, err)
		}
		first, err := s.ShardID("a")
		s.check(err)
		second, err := s.ShardID("b")
		s.check(err)
		if again, err := s.ShardID("a"); err != nil || again != first || first == second || len(s.Shards()) != 2 {
			t.Error(again, err, s.Shards())
		}
		for _, m := range [][]byte{{1, 2}, {2, 1}} {
			if kept, err := s.KeepSlotMap(m); err != nil || !slices.Equal(kept, []byte{1, 2}) {
				t.Error(kept, err)
			}
		}
		for _, how := range []string{"joining", ""} {
			s.check(s.SetApart("b", how))
			if all, err := s.Apart(); err != nil || all["b"] != how {
				t.Error(all, err)
			}
			s.check(s.SetUnlike(a, how))
			if all, err := s.Unlike(); err != nil || all[a] != how {
				t.Error(all, err)
			}
		}
		u := storage.UnfinishedDDL{Text: "ALTER TABLE a ADD b INT", At: time.Now().UTC().Truncate(time.Second)}
		s.check(s.KeepUnfinished("k", u, true))
		if all, err := s.Unfinished(); err != nil || all["k"].Text != u.Text || !all["k"].At.Equal(u.At) {
			t.Error(all, err)
		}
		s.check(s.ForgetUnfinished("k"))
		if all, err := s.Unfinished(); err != nil || len(all) != 0 && !all["k"].At.IsZero() {
			t.Error(all, err)
		}
	}},
	{"numbers", func(t *testing.T, s *checkedStore) {
		a, b := catalog.TableName{Schema: "shop", Name: "a"}, catalog.TableName{Schema: "shop", Name: "b"}
		take := func(of catalog.TableName, n uint64) uint64 {
			t.Helper()
			x, err := s.TakeNumbers(of, func(next uint64) uint64 { return next + n })
			s.check(err)
			x.Release()
			return x.First
		}
		from := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
		unstarted := func(of catalog.TableName) {
			t.Helper()
			_, err := s.TakeNumbers(of, func(next uint64) uint64 { return next + 1 })
			s.is(err, storage.ErrUnstarted)
		}
		unstarted(a)
		s.check(s.StartSequence(a, from(7)))
		var last uint64
		for i, n := range []uint64{1, 5000, 2, 1} {
			got := take(a, n)
			if i == 0 && got != 7 || got <= last {
				t.Errorf("%d behind %d", got, last)
			}
			last = got + n - 1
		}
		s.check(s.StartSequence(a, from(7))) // who asked the table before others took numbers
		if got := take(a, 1); got <= last {
			t.Errorf("%d was given before", got)
		}
		s.DoubtSequence(a)
		unstarted(a)
		s.check(s.StartSequence(a, from(1_000_000)))
		if got := take(a, 1); got < 1_000_000 {
			t.Error(got)
		}
		s.check(s.RaiseSequence(a, 2_000_000))
		if all, err := s.Sequences(); err != nil || all[a] < 2_000_000 {
			t.Error(all, err)
		}
		s.check(s.RenameSequence(a, b))
		unstarted(a)
		s.check(s.StartSequence(b, from(1)))
		if got := take(b, 1); got < 2_000_000 {
			t.Error(got)
		}
		s.check(s.DropSequence(b))
		unstarted(b)
		s.check(s.StartSequence(b, from(1)))
		if got := take(b, 1); got != 1 {
			t.Error(got)
		}
	}},
	{"jobs", func(t *testing.T, s *checkedStore) {
		job := storage.Job{Type: storage.MaintainIndex, Schema: "shop", Table: "users", Operation: "UPDATE", Shards: shardSet(1), Indexes: []catalog.IndexID{7}}
		claim := func(worker string) *storage.Job {
			t.Helper()
			j, err := s.Claim(worker, time.Hour, time.Now(), func(*storage.Job) bool { return true })
			s.check(err)
			return j
		}
		if j := claim("one"); j != nil {
			t.Fatalf("%+v", j)
		}
		id, err := s.Enqueue(job)
		s.check(err)
		job.Operation = "DELETE"
		if again, err := s.Enqueue(job); err != nil || again != id {
			t.Fatal("two jobs for the same", again, err)
		}
		if all := s.Jobs(); len(all) != 1 || all[0].Operation != "DELETE+UPDATE" && all[0].Operation != "UPDATE+DELETE" || all[0].State != storage.Waiting {
			t.Fatalf("%+v", all)
		}
		j := claim("one")
		if j == nil || j.ID != id || j.ClaimedBy != "one" || j.Attempts != 1 {
			t.Fatalf("%+v", j)
		}
		if j := claim("two"); j != nil {
			t.Fatalf("%+v", j)
		}
		s.check(s.SaveCheckpoint(id, "one", json.RawMessage(`{"at":1}`), 0.25))
		s.check(s.Renew(id, "one", time.Hour))
		s.is(s.Renew(id, "two", time.Hour), storage.ErrLeaseLost)
		s.is(s.Finish(id, "two"), storage.ErrLeaseLost)
		s.check(s.Fail(id, "one", errors.New("no route"), time.Now().Add(time.Hour)))
		if all := s.Jobs(); len(all) != 1 || all[0].State != storage.Backoff || all[0].Error != "no route" || string(all[0].Checkpoint) != `{"at":1}` || all[0].Progress != 0.25 {
			t.Fatalf("%+v", all)
		}
		if j := claim("two"); j != nil {
			t.Fatalf("%+v", j)
		}
		job.Shards = shardSet(2)
		other, err := s.Enqueue(job)
		s.check(err)
		if j := claim("two"); j == nil || j.ID != other {
			t.Fatalf("%+v", j)
		}
		s.check(s.Finish(other, "two"))
		s.is(s.Finish(other, "two"), storage.ErrLeaseLost)
		if all := s.Jobs(); len(all) != 1 || all[0].ID != id {
			t.Fatalf("%+v", all)
		}
	}},
}
