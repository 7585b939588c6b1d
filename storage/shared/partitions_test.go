package shared

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// partitioned makes an index with partitions on these homes.
func partitioned(t *testing.T, s *Store, name string, n int, on string) storage.IndexRecord {
	t.Helper()
	d, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: name, Columns: []string{"email"}, Partitions: n, Home: on})
	check(t, err)
	return d
}

// twin is an index with partitions, and one without that the same is done to.
type twin struct {
	t     *testing.T
	s     *Store
	rnd   *rand.Rand
	of    [2]catalog.IndexID
	epoch storage.Epoch
	keys  [][]byte
}

func (w *twin) both(do func(id catalog.IndexID) error) {
	w.t.Helper()
	for _, id := range w.of {
		check(w.t, do(id))
	}
}

func (w *twin) key() []byte            { return w.keys[w.rnd.IntN(len(w.keys))] }
func (w *twin) shard() catalog.ShardID { return catalog.ShardID(w.rnd.IntN(4)) }
func (w *twin) finish(epoch storage.Epoch) {
	w.t.Helper()
	w.both(func(id catalog.IndexID) error {
		d, _ := w.s.Index(id)
		return w.s.FinishBuild(id, d.BuildGeneration, map[catalog.ShardID]storage.Epoch{0: epoch, 1: epoch, 2: epoch, 3: epoch})
	})
}

// step does something to both.
func (w *twin) step() string {
	w.t.Helper()
	w.epoch++
	switch w.rnd.IntN(12) {
	case 0:
		m := storage.Mark{Shard: w.shard(), Epoch: w.epoch, Logged: w.rnd.IntN(2) == 0}
		if w.rnd.IntN(2) == 0 {
			m.Known = [][]byte{[]byte("x")}
		}
		w.both(func(id catalog.IndexID) error { m.Index = id; return w.s.Mark([]storage.Mark{m}) })
		return "mark"
	case 1:
		var had [2]bool
		shard := w.shard()
		for i, id := range w.of {
			var err error
			had[i], err = w.s.Unlog(id, shard)
			check(w.t, err)
		}
		if had[0] != had[1] {
			w.t.Errorf("logged marks: %v", had)
		}
		return "unlog"
	case 2:
		var cleared [2]int
		shard := w.shard()
		for i, id := range w.of {
			var err error
			cleared[i], err = w.s.Clear(id, shard, w.epoch)
			check(w.t, err)
		}
		if cleared[0] != cleared[1] {
			w.t.Errorf("cleared: %v", cleared)
		}
		return "clear"
	case 3, 4, 5:
		var removed, cleared [2]int
		r := storage.Retirement{Shard: w.shard(), Before: w.epoch - storage.Epoch(w.rnd.IntN(3)), After: w.epoch + 1, Marks: w.rnd.IntN(2) == 0}
		for range w.rnd.IntN(6) {
			r.Keys = append(r.Keys, w.s.Kept(w.key()))
		}
		for i, id := range w.of {
			var err error
			r.Index = id
			r.Gate, err = w.s.OpenGate(id, r.Shard, w.epoch)
			check(w.t, err)
			if r.Gate.Epoch != w.epoch {
				w.t.Errorf("the gate of %d is %d, and not %d", id, r.Gate.Epoch, w.epoch)
			}
			removed[i], cleared[i], err = w.s.Retire(r)
			check(w.t, err)
		}
		if removed[0] != removed[1] || cleared[0] != cleared[1] {
			w.t.Errorf("removed %v, cleared %v", removed, cleared)
		}
		return "retire"
	case 6:
		w.both(func(id catalog.IndexID) error { return w.s.StartBuild(id, 0) })
		w.adds(8)
		w.finish(w.epoch + 1)
		return "build"
	case 7:
		// What is moved leaves its marks, and what is built in its place doesn't.
		w.both(func(id catalog.IndexID) error {
			for shard := range catalog.ShardID(4) {
				g, err := w.s.OpenGate(id, shard, w.epoch)
				if err == nil {
					_, _, err = w.s.Retire(storage.Retirement{Index: id, Shard: shard, Gate: g, Before: w.epoch + 1, After: w.epoch, Marks: true})
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		names := []string{"a", "b", "c"}
		w.rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:1+w.rnd.IntN(3)]
		for i, id := range w.of {
			to := storage.JoinNames(names)
			if i == 1 {
				to = names[0]
			}
			check(w.t, w.s.Move(id, to, false))
		}
		w.adds(8)
		w.finish(w.epoch + 1)
		w.adds(2)
		w.both(w.s.EndMove)
		return "move"
	}
	w.adds(1 + w.rnd.IntN(3))
	return "add"
}

func (w *twin) adds(n int) {
	w.t.Helper()
	for range n {
		e := storage.Entry{Key: w.key(), Shard: w.shard(), Epoch: w.epoch}
		w.both(func(id catalog.IndexID) error { e.Index = id; return w.s.Add([]storage.Entry{e}) })
	}
}

// alike compares what both answer.
func (w *twin) alike(behind string) {
	w.t.Helper()
	var told [2][]string
	for i, id := range w.of {
		say := func(format string, args ...any) { told[i] = append(told[i], fmt.Sprintf(format, args...)) }
		for n, k := range w.keys {
			f, err := w.s.Lookup(id, k, [][]byte{[]byte("y")})
			say("key %d: %v %v", n, f.Shards, err)
		}
		for n, k := range w.keys {
			q := []storage.Question{{Index: id, Ranged: true, From: k, Limit: 1000}, {Index: id, Key: k}}
			check(w.t, w.s.Ask(w.t.Context(), q))
			say("from key %d: %v %v, and it %v", n, q[0].Found.Shards, q[0].Within, q[1].Found.Shards)
			for shard := range catalog.ShardID(4) {
				say("floor of %d: %d", shard, q[0].Found.Floors.Floor(shard))
			}
		}
		from := w.keys[3]
		check(w.t, w.s.Entries(id, from, false, func(key []byte, pairs []storage.ShardEpoch) bool {
			say("%.20q of %d bytes: %v", key, len(key), pairs)
			return true
		}))
		for shard := range catalog.ShardID(4) {
			check(w.t, w.s.EntriesOf(id, shard, nil, func(key []byte) bool {
				say("on %d: %.20q", shard, key)
				return true
			}))
		}
		marks := w.s.Marks(id)
		for _, m := range w.s.AllMarks() {
			if m.Index == id && !slices.ContainsFunc(marks, func(have storage.Mark) bool { return have.Shard == m.Shard }) {
				say("a mark of all on %d", m.Shard)
			}
		}
		var of []string
		for _, m := range marks {
			if m.Index != id {
				w.t.Errorf("a mark of %d for %d", m.Index, id)
			}
			of = append(of, fmt.Sprint(m.Shard, m.Known, m.Logged, m.Epoch))
		}
		slices.Sort(of)
		say("marks %v", of)
		say("entries %d", w.s.Stats().Indexes[id].Entries)
		say("marked %v", w.s.Stats().Indexes[id].Unknown)
		d, _ := w.s.Index(id)
		say("readable %v, building %v, generation %v", d.Readable, d.HasBuild, d.BuildGeneration != 0)
	}
	if !slices.Equal(told[0], told[1]) {
		for i, with := range told[0] {
			if i >= len(told[1]) || with != told[1][i] {
				w.t.Fatalf("behind %s: with partitions %s\nwithout %s", behind, with, strings.Join(told[1][min(i, len(told[1])):min(i+1, len(told[1]))], ""))
			}
		}
		w.t.Fatalf("behind %s: without partitions more: %v", behind, told[1][len(told[0]):])
	}
}

// TestPartitionsAlike: whatever is done, an index with partitions answers as one without, in all that callers ask.
func TestPartitionsAlike(t *testing.T) {
	p := newServers(t).must("p", "a b c")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := twin{t: t, s: p, rnd: rand.New(rand.NewPCG(seed, 0)), epoch: 10}
	w.of = [2]catalog.IndexID{partitioned(t, p, "parts", 3, "").ID, create(t, p, "whole", "a").ID}
	for i := range 12 {
		w.keys = append(w.keys, fmt.Appendf(nil, "k%02d", i))
	}
	long := bytes.Repeat([]byte("l"), home.Uncut)
	for _, n := range []int{0, 39, 40, 41, 500} { // 40: as long as a key is that was cut
		w.keys = append(w.keys, append(slices.Clone(long), bytes.Repeat([]byte("x"), n)...))
	}
	slices.SortFunc(w.keys, bytes.Compare)
	w.adds(20)
	w.finish(11)
	for range 60 {
		w.alike(w.step())
	}
}

// TestPartitions: each partition is on a home of its own as far as there are some, or where it is said. None is seen, and none
// is left behind.
func TestPartitions(t *testing.T) {
	p := newServers(t).must("p", "a b c")
	whole := create(t, p, "whole", "b")
	d := partitioned(t, p, "parts", 5, "")
	if d.Partitions != 3 || d.Home != "b, a, c" || d.Readable || !d.HasBuild {
		t.Errorf("%+v", d)
	}
	if two := partitioned(t, p, "two", 0, "c, a"); two.Partitions != 2 || two.Home != "c, a" {
		t.Errorf("%+v", two)
	}
	if four := partitioned(t, p, "four", 4, "c, a"); four.Partitions != 4 || four.Home != "c, a, c, a" {
		t.Errorf("%+v", four)
	}
	if one := partitioned(t, p, "one", 3, "c"); one.Partitions != 3 || one.Home != "c" {
		t.Errorf("%+v", one)
	}
	if _, err := p.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "x", Partitions: 2, Home: "a, b, c"}); err == nil || !strings.Contains(err.Error(), "3 servers are named for 2 partitions") {
		t.Error(err)
	}
	if _, err := p.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "parts", Partitions: 2}); !errors.Is(err, storage.ErrIndexExists) {
		t.Error(err)
	}
	if err := p.Repartition(t.Context(), d.ID, 4, nil); !errors.Is(err, ErrPartitions) {
		t.Error(err)
	}
	if err := p.Move(whole.ID, "a, b", false); err == nil || !strings.Contains(err.Error(), "2 servers are named for 1 partitions") {
		t.Error(err)
	}
	var names []string
	for _, d := range p.Indexes() {
		names = append(names, d.Name)
	}
	if want := []string{"whole", "parts", "two", "four", "one"}; !slices.Equal(names, want) {
		t.Errorf("indexes %v", names)
	}
	if on := p.On("c"); !slices.Equal(on, []string{"four ON shop.users", "one ON shop.users", "parts ON shop.users", "two ON shop.users"}) {
		t.Errorf("on c are %v", on)
	}
	// To an older version they are indexes that reads don't use.
	for _, part := range d.Parts {
		if of, known := p.Index(part); !known || of.Status != catalog.Disabled {
			t.Errorf("%+v", of)
		}
	}
	check(t, p.MoveIndexes(map[catalog.IndexID]catalog.TableName{d.ID: {Schema: "shop", Name: "people"}}))
	for _, id := range append(slices.Clone(d.Parts), d.ID) {
		if of, _ := p.Index(id); of.Table != "people" {
			t.Errorf("%+v", of)
		}
	}
	built(t, p, d.ID, nil)
	if d, _ := p.Index(d.ID); d.Status != catalog.Ready || !d.Readable || d.HasBuild {
		t.Errorf("%+v", d)
	}
	for _, d := range p.Indexes() {
		check(t, p.DropIndex(d.ID))
	}
	check(t, p.Refresh(t.Context()))
	now := p.state.Load()
	for name, heads := range now.heads {
		if len(heads) > 0 {
			t.Errorf("%s has %v", name, heads)
		}
	}
	if len(now.indexes) > 0 || len(now.wholes) > 0 {
		t.Errorf("left are %v", now.indexes)
	}
}

// TestPartitionsOut: where the home of a partition is away, reads of its keys are wide, and adds of them refused, and of no others. A
// build that ends meanwhile ends when it is back.
func TestPartitionsOut(t *testing.T) {
	p := newServers(t).must("p", "a b c")
	d := partitioned(t, p, "parts", 3, "a, b, c")
	var at [3]string // a key of each
	for i := 0; slices.Contains(at[:], ""); i++ {
		k := fmt.Sprint("k", i)
		at[partitionOf([]byte(k), 3)] = k
	}
	for i, k := range at {
		add(t, p, d.ID, k, catalog.ShardID(i), 5)
	}
	check(t, p.Refresh(t.Context()))
	d, _ = p.Index(d.ID)
	back := take(p, "b")
	if err := p.FinishBuild(d.ID, d.BuildGeneration, nil); err == nil {
		t.Error("the build has ended without b")
	}
	check(t, p.Refresh(t.Context()))
	if now, _ := p.Index(d.ID); now.Readable || !now.HasBuild || now.BuildGeneration != d.BuildGeneration || now.Status != catalog.Building {
		t.Errorf("%+v", now)
	}
	back()
	check(t, p.FinishBuild(d.ID, d.BuildGeneration, nil))
	if err := p.FinishBuild(d.ID, d.BuildGeneration, nil); !errors.Is(err, storage.ErrNotBuilding) {
		t.Error(err)
	}
	for i, k := range at {
		wantFound(t, p, d.ID, k, catalog.ShardID(i))
	}
	back = take(p, "b")
	wantFound(t, p, d.ID, at[0], 0)
	wantFound(t, p, d.ID, at[2], 2)
	if _, err := p.Lookup(d.ID, []byte(at[1]), nil); err == nil {
		t.Error("b is away")
	}
	if _, _, err := p.Range(d.ID, []byte("k"), nil, 100); err == nil {
		t.Error("a part of the range is away")
	}
	add(t, p, d.ID, at[0], 3, 6)
	if err := p.Add([]storage.Entry{{Index: d.ID, Key: []byte(at[1]), Shard: 3, Epoch: 6}}); err == nil {
		t.Error("added to b")
	}
	if err := p.Mark([]storage.Mark{{Index: d.ID, Shard: 3, Epoch: 6}}); err == nil {
		t.Error("marked without b")
	}
	if p.Outage(d.ID) == nil {
		t.Error("b is away")
	}
	// A scan that began with b, and goes on without it.
	back()
	gate, err := p.OpenGate(d.ID, 0, 9)
	check(t, err)
	_, err = p.OpenGate(d.Parts[2], 0, 10)
	check(t, err)
	if late, err := p.OpenGate(d.ID, 0, 9); err != nil || late.Epoch != 10 {
		t.Errorf("the gate is %+v (%v)", late, err)
	}
	_, _, err = p.Retire(storage.Retirement{Index: d.ID, Shard: 0, Gate: gate, Before: 9, After: 10, Keys: [][]byte{[]byte(at[0])}, Marks: true})
	if !errors.Is(err, storage.ErrSuperseded) {
		t.Error(err)
	}
	// Given up where it is lost, and made anew there.
	check(t, p.UpdateIndex(d.ID, func(d *storage.IndexRecord) { d.Status = catalog.Building }))
	lost := p.place("b")
	back = take(p, "b")
	lost.since.Store(1)
	if away := p.Away(d.ID); !slices.Equal(away, []string{"b"}) {
		t.Errorf("away are %v", away)
	}
	check(t, p.Forsake(d.ID))
	check(t, p.Add([]storage.Entry{{Index: d.ID, Key: []byte(at[1]), Shard: 3, Epoch: 6}}))
	if now, _ := p.Index(d.ID); !now.Forsaken || now.Readable {
		t.Errorf("%+v", now)
	}
	back()
	lost.since.Store(0)
	check(t, p.StartBuild(d.ID, 0))
	for i, k := range at {
		add(t, p, d.ID, k, catalog.ShardID(i), 20)
	}
	built(t, p, d.ID, nil)
	for i, k := range at { // the others have a mark of when b was away
		if f, err := p.Lookup(d.ID, []byte(k), nil); err != nil || !f.Shards.Has(catalog.ShardID(i)) {
			t.Errorf("%s is on %v (%v)", k, f.Shards, err)
		}
	}
}

// TestPartitionsGivenUp: an index that is lost in the midst of a move is added to nowhere where a server is lost, and in more
// partitions as more servers are.
func TestPartitionsGivenUp(t *testing.T) {
	p := newServers(t).must("p", "a b c d")
	d := partitioned(t, p, "parts", 3, "b, c, d")
	built(t, p, d.ID, nil)
	check(t, p.Move(d.ID, "c", false))
	check(t, p.UpdateIndex(d.ID, func(d *storage.IndexRecord) { d.Status = catalog.Building }))
	var backs []func()
	for _, name := range []string{"c", "d"} {
		if away := p.Away(d.ID); len(away) > 0 {
			t.Fatalf("away are %v", away)
		}
		backs = append(backs, take(p, name))
		p.place(name).since.Store(1)
		if away := p.Away(d.ID); !slices.Equal(away, []string{name}) {
			t.Errorf("away are %v", away)
		}
		check(t, p.Forsake(d.ID))
		if on := p.On(name); len(on) > 0 {
			t.Errorf("added to on %s: %v", name, on)
		}
		for i := range 20 {
			add(t, p, d.ID, fmt.Sprint("k", i), 1, 6)
		}
	}
	for i, back := range backs {
		back()
		p.place([]string{"c", "d"}[i]).since.Store(0)
	}
	check(t, p.StartBuild(d.ID, 0))
	for i := range 20 {
		add(t, p, d.ID, fmt.Sprint("k", i), 1, 6)
	}
	built(t, p, d.ID, nil)
	for i := range 20 {
		wantFound(t, p, d.ID, fmt.Sprint("k", i), 1)
	}
}

// TestPartitionsOpened: a build is open where it is in all partitions, whatever has ended half-way.
func TestPartitionsOpened(t *testing.T) {
	p := newServers(t).must("p", "a b c")
	d := partitioned(t, p, "parts", 3, "a, b, c")
	record := func() storage.IndexRecord {
		t.Helper()
		check(t, p.Refresh(t.Context()))
		now, _ := p.Index(d.ID)
		return now
	}
	unread := func() (n int) {
		t.Helper()
		for _, part := range record().Parts {
			if of, _ := p.Index(part); of.Unread {
				n++
			}
		}
		return n
	}
	// finished is the end of the build of a partition at its home, by a process that ends before it notes that.
	finished := func(part int) {
		t.Helper()
		of, _ := p.Index(record().Parts[part])
		check(t, p.place(of.Home).home.Load().FinishBuild(t.Context(), of.ID, of.BuildGeneration, nil))
	}

	// Given up in one partition while all are built.
	check(t, p.UpdateIndex(d.ID, func(d *storage.IndexRecord) { d.Status = catalog.Building }))
	lost := p.place("b")
	back := take(p, "b")
	lost.since.Store(1)
	check(t, p.Forsake(d.ID))
	back()
	lost.since.Store(0)
	if now := record(); !now.Forsaken || now.HasBuild {
		t.Errorf("given up in one: %+v", now)
	}
	check(t, p.StartBuild(d.ID, 0))
	if now := record(); now.Forsaken || !now.HasBuild || now.Opening {
		t.Errorf("opened in all: %+v", now)
	}

	// A run that has ended in the midst of its end.
	if n := unread(); n != 3 {
		t.Errorf("%d partitions are unread before a build has ended", n)
	}
	finished(0)
	if now := record(); !now.HasBuild || now.Readable {
		t.Errorf("finished in one: %+v", now)
	}
	built(t, p, d.ID, nil)
	if n := unread(); n != 0 || !record().Readable {
		t.Errorf("%d partitions count as unread", n)
	}

	// One that had finished all, and noted nothing.
	check(t, p.UpdateIndex(d.ID, func(d *storage.IndexRecord) { d.Status = catalog.Building }))
	for _, part := range record().Parts {
		check(t, p.alter(part, func(d *storage.IndexRecord) { d.Unread = true }))
	}
	if err := p.FinishBuild(d.ID, 1, nil); !errors.Is(err, storage.ErrNotBuilding) {
		t.Error(err)
	}
	if n := unread(); n != 0 {
		t.Errorf("%d partitions count as unread, and are read", n)
	}

	// A process that ends when it has opened the first.
	check(t, p.alter(d.ID, func(d *storage.IndexRecord) { d.Opening = true }))
	check(t, p.startBuild(record().Parts[0]))
	if now := record(); now.HasBuild || !now.Readable {
		t.Errorf("opened in one: %+v", now)
	}
	if err := p.FinishBuild(d.ID, 1, nil); !errors.Is(err, storage.ErrSuperseded) {
		t.Error("who builds since before that has finished: ", err)
	}
	check(t, p.StartBuild(d.ID, 0))
	for _, part := range record().Parts {
		if of, _ := p.Index(part); !of.HasBuild {
			t.Errorf("not opened: %+v", of)
		}
	}
	built(t, p, d.ID, nil)
}
