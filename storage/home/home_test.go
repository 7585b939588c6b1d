package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// TestConformance is what a home must do on every kind of server.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, tc := range slices.Concat(conformance, keysConformance, boardConformance, jobConformance, numberConformance) {
		t.Run(tc.name, func(t *testing.T) { eachServer(t, tc.run) })
	}
}

type conformanceCase struct {
	name string
	run  func(t *testing.T, p *place)
}

var conformance = []conformanceCase{
	{"LateBetweenStatements", func(t *testing.T, p *place) { // time is up while no statement is on its way
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := p.transaction(ctx, func(tx *sql.Tx) error {
			for {
				if _, err := tx.ExecContext(context.WithoutCancel(ctx), "DO 1"); err != nil {
					return err
				}
			}
		})
		if !Unreachable(err) {
			t.Errorf("%v is no home that doesn't answer", err)
		}
	}},
	{"AddLookupRemove", func(t *testing.T, p *place) {
		id := p.ready(t, 7)
		check(t, p.Add(t.Context(), []storage.Entry{
			entry(id, "b", 200, 5), entry(id, "a", 3, 5), entry(id, "a", 1, 6), {Index: id, Shard: 1, Epoch: 1},
		}))
		p.wantLookup(t, id, "a", 1, 3)
		p.wantLookup(t, id, "b", 200)
		p.wantLookup(t, id, "", 1)
		p.wantLookup(t, id, "c")
		if n := p.remove(t, id, 3, 10, 5, "a", "b", "zz"); n != 0 {
			t.Fatalf("removed %d entries confirmed at the horizon", n)
		}
		if f := p.look(t, Question{Index: id, Floors: true}); len(f.Floors) != 0 {
			t.Fatal("a floor where nothing went:", f.Floors)
		}
		before := p.look(t, Question{Index: id})
		if n := p.remove(t, id, 3, 11, 6, "a", "b"); n != 1 {
			t.Fatalf("removed %d, want 1", n)
		}
		after := p.look(t, Question{Index: id, Floors: true})
		if before.Removals == after.Removals || !slices.Equal(after.Floors, []storage.ShardEpoch{{Shard: 3, Epoch: 12}}) {
			t.Fatalf("before the removal %+v, after it %+v", before, after)
		}
		p.wantLookup(t, id, "a", 1)
		// A lower epoch must not lower the stored one.
		check(t, p.Add(t.Context(), []storage.Entry{entry(id, "a", 1, 2)}))
		if n := p.remove(t, id, 1, 12, 6, "a"); n != 0 {
			t.Fatal("Add lowered an epoch")
		}
		p.remove(t, id, 1, 13, 100, "a")
		p.wantLookup(t, id, "a")
		if got := p.dump(t, id, false); !slices.Equal(got, []string{"[{1 1}]", "b[{200 5}]"}) {
			t.Fatal(got)
		}
	}},
	{"SeveralQuestions", func(t *testing.T, p *place) {
		a, b := p.ready(t, 1), p.ready(t, 2)
		var entries []storage.Entry
		for i := range 20 {
			entries = append(entries, entry(a, fmt.Sprintf("k%02d", i), catalog.ShardID(i), 1), entry(b, fmt.Sprintf("k%02d", i), catalog.ShardID(100+i), 1))
		}
		check(t, p.Add(t.Context(), entries))
		for _, piece := range []int{1, 3, pieceKeys} {
			p.piece = piece
			var questions []Question
			var want []catalog.ShardSet
			for i := range 20 {
				k := fmt.Appendf(nil, "k%02d", i)
				questions = append(questions,
					Question{Index: b, Key: k}, Question{Index: a, Key: k}, Question{Index: a, Key: k}, Question{Index: a, Range: true, From: k, To: fmt.Appendf(nil, "k%02d", i+2), Limit: 2}, Question{Index: 3, Key: k})
				r := set(catalog.ShardID(i))
				if i < 19 {
					r = set(catalog.ShardID(i), catalog.ShardID(i+1))
				}
				want = append(want, set(catalog.ShardID(100+i)), set(catalog.ShardID(i)), set(catalog.ShardID(i)), r, set())
			}
			found := must[[]Found](t)(p.Lookup(t.Context(), questions))
			for i, f := range found {
				if f.Shards != want[i] || f.OK != (questions[i].Index != 3) || f.NoIndex != (questions[i].Index == 3) {
					t.Fatalf("%+v: %v %v, want %v", questions[i], list(f.Shards), f.OK, list(want[i]))
				}
			}
		}
		if found := must[[]Found](t)(p.Lookup(t.Context(), nil)); len(found) != 0 {
			t.Fatal(found)
		}
	}},
	{"Keys", func(t *testing.T, p *place) {
		id := p.ready(t, 7)
		long := strings.Repeat("x", cutAt)
		keys := []string{
			"", "\x00", "a", "a ", "a\x00", "A", "ä", "\xff\xfe'\\\"", "\x1a%_?", long, long + "1", long + strings.Repeat("y", 38), long + strings.Repeat("y", 39),
			long + strings.Repeat("y", 40), long + strings.Repeat("z", 40), long + strings.Repeat("z", 5000), strings.Repeat("z", storage.MaxKey),
			string(Kept([]byte(long + strings.Repeat("y", 40)))),
		}
		var entries []storage.Entry
		for i, k := range keys {
			entries = append(entries, entry(id, k, catalog.ShardID(i), 1))
		}
		check(t, p.Add(t.Context(), entries))
		for i, k := range keys {
			p.wantLookup(t, id, k, catalog.ShardID(i))
		}
		slices.Sort(keys)
		for i, from := range keys {
			for _, to := range keys[i:] {
				f := p.look(t, Question{Index: id, Range: true, From: []byte(from), To: []byte(to), Limit: 100})
				for _, e := range entries {
					if k := string(e.Key); k >= from && k < to && !f.Shards.Has(e.Shard) {
						t.Fatalf("%.5q.. (%d bytes) to %.5q.. (%d): %.5q.. (%d) is missing", from, len(from), to, len(to), k, len(k))
					} else if len(from) < cutAt && len(to) < cutAt && (k < from || k >= to) && f.Shards.Has(e.Shard) {
						t.Fatalf("%.5q to %.5q: %.5q.. is not in it", from, to, k)
					}
				}
			}
		}
		// What Entries gives can be removed.
		var all [][]byte
		check(t, p.EntriesOf(t.Context(), id, 13, nil, false, func(k []byte, e storage.Epoch) bool {
			all = append(all, slices.Clone(k))
			return e == 1
		}))
		gates := must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(t.Context(), []catalog.IndexID{id}, 13, 5))
		n, _, err := p.Retire(t.Context(), storage.Retirement{Index: id, Shard: 13, Gate: behind(5, gates[id].Life), Keys: all, Before: 2, After: 6})
		if check(t, err); len(all) != 1 || n != 1 {
			t.Fatal(len(all), n)
		}
		if err := p.Add(t.Context(), []storage.Entry{entry(id, strings.Repeat("z", storage.MaxKey+1), 1, 1)}); !errors.Is(err, storage.ErrKeyTooLong) {
			t.Fatal(err)
		}
	}},
	{"Range", func(t *testing.T, p *place) {
		id := p.ready(t, 7)
		for i := range 20 {
			check(t, p.Add(t.Context(), []storage.Entry{entry(id, fmt.Sprintf("k%02d", i), catalog.ShardID(i), 1)}))
		}
		ask := func(from, to []byte, limit int) (catalog.ShardSet, bool) {
			f := p.look(t, Question{Index: id, Range: true, From: from, To: to, Limit: limit})
			return f.Shards, f.OK
		}
		if got, ok := ask([]byte("k03"), []byte("k06"), 10); !ok || got != set(3, 4, 5) {
			t.Fatal(list(got), ok)
		}
		if got, ok := ask([]byte("k18"), nil, 2); !ok || got != set(18, 19) {
			t.Fatal(list(got), ok)
		}
		if _, ok := ask(nil, nil, 19); ok {
			t.Fatal("range over the limit")
		}
		if got, ok := ask([]byte("k06"), []byte("k03"), 0); !ok || !got.Empty() {
			t.Fatal(list(got), ok)
		}
		check(t, p.Mark(t.Context(), []storage.Mark{{Index: id, Shard: 99, Known: [][]byte{[]byte("x")}, Epoch: 1}}))
		if got, ok := ask([]byte("x"), nil, 2); !ok || got != set(99) {
			t.Fatal(list(got), ok)
		}
		var keys []string
		check(t, p.Entries(t.Context(), id, []byte("k10"), false, func(k []byte, _ []storage.ShardEpoch) bool {
			keys = append(keys, string(k))
			return len(keys) < 3
		}))
		if !slices.Equal(keys, []string{"k10", "k11", "k12"}) {
			t.Fatal(keys)
		}
	}},
	{"Walk", func(t *testing.T, p *place) {
		// Slices end within keys and between them.
		id := p.ready(t, 7)
		var entries []storage.Entry
		var want []string
		for i := range 2*entriesSlice/7 + 1 {
			var pairs []storage.ShardEpoch
			for s := range 7 {
				e := entry(id, fmt.Sprintf("k%05d", i), catalog.ShardID(s*30), storage.Epoch(i+s))
				entries = append(entries, e)
				pairs = append(pairs, storage.ShardEpoch{Shard: e.Shard, Epoch: e.Epoch})
			}
			want = append(want, fmt.Sprintf("k%05d%v", i, pairs))
		}
		check(t, p.Add(t.Context(), append(entries, entry(id, "last", 255, 9))))
		check(t, p.Add(t.Context(), entries))
		want = append(want, "last[{255 9}]")
		if got := p.dump(t, id, false); !slices.Equal(got, want) {
			t.Fatalf("%d keys, want %d", len(got), len(want))
		}
		n := 0
		check(t, p.EntriesOf(t.Context(), id, 60, []byte("k00001"), false, func([]byte, storage.Epoch) bool { n++; return true }))
		if n != len(want)-2 {
			t.Fatal(n)
		}
		// A walk ends with its generation.
		seen := 0
		err := p.Entries(t.Context(), id, nil, false, func([]byte, []storage.ShardEpoch) bool {
			if seen++; seen == 1 {
				g := must[uint32](t)(p.StartBuild(t.Context(), id))
				check(t, p.FinishBuild(t.Context(), id, g, nil))
			}
			return true
		})
		if !errors.Is(err, storage.ErrSuperseded) {
			t.Fatal(err)
		}
		err = p.Entries(t.Context(), id, nil, true, func([]byte, []storage.ShardEpoch) bool { return true })
		if !errors.Is(err, storage.ErrNoIndex) {
			t.Fatal(err)
		}
	}},
	{"Marks", func(t *testing.T, p *place) {
		id := p.ready(t, 7)
		de, us := []byte("de"), []byte("us")
		mark := func(shard catalog.ShardID, e storage.Epoch, known ...[]byte) {
			t.Helper()
			check(t, p.Mark(t.Context(), []storage.Mark{{Index: id, Shard: shard, Known: known, Epoch: e}}))
		}
		clearMarks := func(shard catalog.ShardID, gate, before storage.Epoch) int {
			t.Helper()
			gates := must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(t.Context(), []catalog.IndexID{id}, shard, gate))
			_, n, err := p.Retire(t.Context(), storage.Retirement{Index: id, Shard: shard, Gate: behind(gate, gates[id].Life), Before: before, Marks: true, After: gate + 1})
			check(t, err)
			return n
		}
		mark(1, 5, de)
		mark(2, 5, nil, us)
		mark(3, 5, nil, nil)
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
			if got := p.look(t, Question{Index: id, Key: []byte("k"), Components: c.components}); got.Shards != c.want {
				t.Errorf("components %q: %v, want %v", c.components, list(got.Shards), list(c.want))
			}
		}
		if clearMarks(1, 20, 5) != 0 {
			t.Fatal("cleared a mark at the horizon")
		}
		mark(1, 9, de)
		mark(1, 8, de)
		if clearMarks(1, 21, 9) != 0 {
			t.Fatal("a second mark did not raise the epoch")
		}
		before := p.look(t, Question{Index: id})
		if clearMarks(1, 22, 10) != 1 {
			t.Fatal("mark not cleared")
		}
		if f := p.look(t, Question{Index: id, Floors: true}); f.Removals == before.Removals || len(f.Floors) != 1 || f.Floors[0].Epoch != 23 {
			t.Fatalf("%+v", f)
		}
		if m := must[[]storage.Mark](t)(p.AllMarks(t.Context())); len(m) != 2 || m[0].Shard != 2 || m[0].Known[0] != nil || string(m[0].Known[1]) != "us" || m[1].Known != nil {
			t.Fatalf("%+v", m)
		}
		for i := range maxPartialMarks + 1 {
			mark(4, storage.Epoch(i+1), []byte{byte(i)})
		}
		if m := must[[]storage.Mark](t)(p.Marks(t.Context(), id)); len(m) != 3 || m[2].Known != nil || m[2].Epoch != maxPartialMarks+1 {
			t.Fatalf("%+v", m)
		}
		// What is too long to be kept says nothing.
		mark(5, 1, []byte(strings.Repeat("x", maxKnown)))
		if m := must[[]storage.Mark](t)(p.Marks(t.Context(), id)); len(m) != 4 || m[3].Known != nil {
			t.Fatalf("%+v", m)
		}
	}},
	{"UnknownIndex", func(t *testing.T, p *place) {
		ctx := t.Context()
		before := p.tables(t)
		check(t, p.Add(ctx, []storage.Entry{entry(77, "k", 1, 1)}))
		check(t, p.Mark(ctx, []storage.Mark{{Index: 77, Shard: 1, Epoch: 1}}))
		if gates := must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(ctx, []catalog.IndexID{77}, 1, 5)); len(gates) != 0 {
			t.Fatal(gates)
		}
		if p.tables(t) != before {
			t.Fatal(p.tables(t))
		}
		if f := p.look(t, Question{Index: 77}); f.OK || !f.NoIndex {
			t.Fatalf("%+v", f)
		}
		_, _, err := p.Retire(ctx, storage.Retirement{Index: 77, Shard: 1, Gate: behind(5, 0), Keys: kept("k"), Before: 9})
		if !errors.Is(err, storage.ErrSuperseded) {
			t.Fatal(err)
		}
		if err := p.DropIndex(ctx, 77); !errors.Is(err, storage.ErrNoIndex) {
			t.Fatal(err)
		}
		if _, err := p.StartBuild(ctx, 77); !errors.Is(err, storage.ErrNoIndex) {
			t.Fatal(err)
		}
	}},
	{"Build", func(t *testing.T, p *place) {
		ctx := t.Context()
		const id = 7
		g := must[uint32](t)(p.CreateIndex(ctx, id))
		if _, err := p.CreateIndex(ctx, id); !errors.Is(err, storage.ErrIndexExists) {
			t.Fatal(err)
		}
		check(t, p.Add(ctx, []storage.Entry{entry(id, "a", 1, 1)}))
		if f := p.look(t, Question{Index: id, Key: []byte("a")}); f.OK || !f.NoIndex {
			t.Fatalf("%+v", f)
		}
		if got := p.dump(t, id, true); len(got) != 1 {
			t.Fatal(got)
		}
		check(t, p.FinishBuild(ctx, id, g, nil))
		p.wantLookup(t, id, "a", 1)
		if err := p.FinishBuild(ctx, id, g, nil); !errors.Is(err, storage.ErrNotBuilding) {
			t.Fatal(err)
		}
		// A rebuild starts empty, gets what is added, and reads stay.
		g = must[uint32](t)(p.StartBuild(ctx, id))
		check(t, p.Add(ctx, []storage.Entry{entry(id, "b", 2, 1), entry(id, "c", 2, 1)}))
		p.wantLookup(t, id, "a", 1)
		p.wantLookup(t, id, "b", 2)
		if n := p.remove(t, id, 2, 5, 2, "c"); n != 1 {
			t.Fatal(n)
		}
		before := p.look(t, Question{Index: id})
		check(t, p.FinishBuild(ctx, id, g, map[catalog.ShardID]storage.Epoch{1: 9, 2: 3}))
		f := p.look(t, Question{Index: id, Key: []byte("b"), Floors: true})
		if f.Generation == before.Generation || f.Removals == before.Removals || !slices.Equal(f.Floors, []storage.ShardEpoch{{Shard: 1, Epoch: 9}, {Shard: 2, Epoch: 6}}) {
			t.Fatalf("%+v, before %+v", f, before)
		}
		p.wantLookup(t, id, "a")
		p.wantLookup(t, id, "b", 2)
		p.wantLookup(t, id, "c")
		// Who has filled a generation finishes no later one.
		first := must[uint32](t)(p.StartBuild(ctx, id))
		second := must[uint32](t)(p.StartBuild(ctx, id))
		if err := p.FinishBuild(ctx, id, first, nil); !errors.Is(err, storage.ErrSuperseded) {
			t.Fatal(err)
		}
		p.wantLookup(t, id, "b", 2)
		check(t, p.FinishBuild(ctx, id, second, nil))
		if h := must[map[catalog.IndexID]Head](t)(p.Heads(ctx)); len(h) != 1 || h[id].Readable != second || h[id].Building != 0 {
			t.Fatalf("%+v", h)
		}
	}},
	{"DropAndGarbage", func(t *testing.T, p *place) {
		ctx := t.Context()
		id, other := p.ready(t, 7), p.ready(t, 8)
		var entries []storage.Entry
		for i := range 2500 {
			entries = append(entries, entry(id, fmt.Sprintf("k%05d", i), 1, 1))
		}
		check(t, p.Add(ctx, append(entries, entry(other, "k", 1, 1))))
		check(t, p.Mark(ctx, []storage.Mark{{Index: id, Shard: 1, Epoch: 1}}))
		must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(ctx, []catalog.IndexID{id}, 1, 1))
		check(t, p.DropIndex(ctx, id))
		if f := p.look(t, Question{Index: id, Key: []byte("k00001")}); !f.NoIndex {
			t.Fatalf("%+v", f)
		}
		check(t, p.Add(ctx, entries))
		check(t, p.Mark(ctx, []storage.Mark{{Index: id, Shard: 1, Epoch: 9}}))
		if _, err := p.CreateIndex(ctx, id); !errors.Is(err, storage.ErrIndexExists) {
			t.Fatal("an index among the garbage of another:", err)
		}
		n := 0
		for must[bool](t)(p.DeleteGarbage(ctx, 700)) {
			n++
		}
		if n != 4 {
			t.Fatalf("%d slices", n)
		}
		left := 0
		for _, table := range []string{"entries", "marks", "garbage", "shards"} {
			var n int
			check(t, p.direct.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n))
			left += n
		}
		if left != 1 {
			t.Fatalf("%d rows left", left)
		}
		p.wantLookup(t, other, "k", 1)
	}},
	{"Gates", func(t *testing.T, p *place) {
		ctx := t.Context()
		id := p.ready(t, 7)
		check(t, p.Add(ctx, []storage.Entry{entry(id, "a", 1, 1)}))
		check(t, p.Mark(ctx, []storage.Mark{{Index: id, Shard: 1, Epoch: 1}}))
		open := func(e storage.Epoch) storage.Gate {
			t.Helper()
			return must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(ctx, []catalog.IndexID{id, 99}, 1, e))[id]
		}
		r := storage.Retirement{Index: id, Shard: 1, Gate: behind(5, 0), Keys: kept("a"), Before: 3, Marks: true, After: 6}
		r.Gate.Life = open(5).Life
		refused := func(why string) {
			t.Helper()
			before := p.tables(t)
			if _, _, err := p.Retire(ctx, r); !errors.Is(err, storage.ErrSuperseded) || !strings.Contains(err.Error(), why) {
				t.Fatal(err)
			}
			if p.tables(t) != before {
				t.Fatal("something went")
			}
		}
		if g := open(8); g.Epoch != 8 {
			t.Fatal(g)
		}
		refused("the gate is 8")
		if g := open(5); g.Epoch != 8 {
			t.Fatal("an earlier scan opens no gate again:", g)
		}
		refused("the gate is 8")
		r.Shard, r.Gate.Epoch = 2, 8
		refused("the gate is 0")
		r.Shard = 1
		r.Gate.Life++
		refused("life")
		r.Gate.Life--
		r.Gate.Generation = open(8).Generation
		must[uint32](t)(p.StartBuild(ctx, id))
		refused("knows nothing of generation")
		r.Gate.Generation = open(8).Generation
		if n, m, err := p.Retire(ctx, r); err != nil || n != 1 || m != 1 {
			t.Fatal(n, m, err)
		}
	}},
	{"Lives", func(t *testing.T, p *place) {
		ctx := t.Context()
		id, building := p.ready(t, 7), p.ready(t, 8)
		check(t, p.Add(ctx, []storage.Entry{entry(id, "a", 1, 1)}))
		g := must[uint32](t)(p.StartBuild(ctx, building))
		gate := must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(ctx, []catalog.IndexID{id}, 1, 5))[id]
		life := must[uint64](t)(p.Life(ctx)) + 1
		check(t, p.NewLife(ctx, life, map[catalog.ShardID]storage.Epoch{1: 7, 2: 9}))
		p.wantLookup(t, id, "b", 1, 2)
		if f := p.look(t, Question{Index: id}); f.Life != life {
			t.Fatalf("%+v", f)
		}
		// What began in the life before ends.
		_, _, err := p.Retire(ctx, storage.Retirement{Index: id, Shard: 1, Gate: behind(5, gate.Life), Keys: kept("a"), Before: 3})
		if !errors.Is(err, storage.ErrSuperseded) {
			t.Fatal(err)
		}
		if err := p.FinishBuild(ctx, building, g, nil); !errors.Is(err, storage.ErrNotBuilding) {
			t.Fatal(err)
		}
		// Who is late says nothing new.
		before := p.tables(t)
		check(t, p.NewLife(ctx, life, map[catalog.ShardID]storage.Epoch{3: 7}))
		check(t, p.NewLife(ctx, life-1, map[catalog.ShardID]storage.Epoch{3: 7}))
		if p.tables(t) != before {
			t.Fatal("a life began twice")
		}
		must[uint32](t)(p.CreateIndex(ctx, 9))
		if h := must[map[catalog.IndexID]Head](t)(p.Heads(ctx)); h[9].Life != life {
			t.Fatalf("%+v", h)
		}
	}},
	{"OtherServer", func(t *testing.T, p *place) {
		ctx := t.Context()
		id := p.ready(t, 7)
		_, err := p.direct.ExecContext(ctx, "UPDATE home SET server = 'the one before'")
		check(t, err)
		// No connection is made to what isn't the server in use.
		if _, err := Open(ctx, p.config); !errors.Is(err, ErrOtherServer) {
			t.Fatal(err)
		}
		p.db.SetMaxIdleConns(0)
		_, err = p.Lookup(ctx, []Question{{Index: id}})
		if _, named := errors.AsType[*OutError](err); !named || !errors.Is(err, ErrOtherServer) {
			t.Fatal(err)
		}
		renew := func(life uint64, shards map[catalog.ShardID]storage.Epoch) error {
			h, err := OpenAny(ctx, p.config)
			check(t, err)
			defer h.Close()
			return h.NewLife(ctx, life, shards)
		}
		if err := renew(1, nil); !errors.Is(err, ErrOtherServer) {
			t.Fatal("in a life that has been:", err)
		}
		check(t, renew(5, map[catalog.ShardID]storage.Epoch{1: 7}))
		if f := p.look(t, Question{Index: id}); f.Life != 5 || f.Shards != set(1) {
			t.Fatalf("%+v", f)
		}
		openHome(t, p.config)
		other := p.config
		other.Cluster = "other"
		if _, err := Open(ctx, other); !errors.Is(err, ErrOtherCluster) {
			t.Fatal(err)
		}
	}},
	{"LargeAdd", func(t *testing.T, p *place) {
		id := p.ready(t, 7)
		var entries []storage.Entry
		var questions []Question
		for i := range 5000 {
			entries = append(entries, entry(id, fmt.Sprintf("%0100d", i), catalog.ShardID(i%3), 1))
			questions = append(questions, Question{Index: id, Key: entries[i].Key})
		}
		check(t, p.Add(t.Context(), entries))
		check(t, p.Add(t.Context(), entries))
		for i, f := range must[[]Found](t)(p.Lookup(t.Context(), questions)) {
			if f.Shards != set(catalog.ShardID(i%3)) {
				t.Fatal(i, list(f.Shards))
			}
		}
		if n := len(p.dump(t, id, false)); n != len(entries) {
			t.Fatal(n)
		}
	}},
	{"OneMoment", func(t *testing.T, p *place) {
		// Two movers, one of an entry and one of a mark to an entry, add the new before they retire
		// the old: whoever looks at both places at one moment finds one of them.
		id := p.ready(t, 7)
		ctx := t.Context()
		check(t, p.Add(ctx, []storage.Entry{entry(id, "k0", 1, 1)}))
		check(t, p.Mark(ctx, []storage.Mark{{Index: id, Shard: 2, Epoch: 1}}))
		p.OpenGate(ctx, []catalog.IndexID{id}, 1, 2)
		p.OpenGate(ctx, []catalog.IndexID{id}, 2, 2)
		life := must[uint64](t)(p.Life(ctx))
		several := openHome(t, p.config)
		several.piece = 1
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for i := range 4 {
			h := p.Home
			if i%2 == 1 {
				h = several
			}
			questions := []Question{{Index: id, Key: []byte("k0")}, {Index: id, Key: []byte("k1")}}
			if i >= 2 {
				questions[0], questions[1] = questions[1], Question{Index: id, Range: true, From: []byte("k0"), To: []byte("k1"), Limit: 9}
			}
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					found, err := h.Lookup(ctx, append(questions, Question{Index: id, Key: []byte("m")}))
					if err != nil {
						t.Error(err)
						return
					}
					if s := found[0].Shards.Union(found[1].Shards); !s.Has(1) {
						t.Errorf("the moving key is nowhere: %+v", found)
						return
					}
					if !found[2].Shards.Has(2) {
						t.Errorf("neither mark nor entry: %+v", found[2])
						return
					}
				}
			})
		}
		for i := 1; i < 150 && !t.Failed(); i++ {
			to, from := fmt.Sprintf("k%d", i%2), fmt.Sprintf("k%d", (i+1)%2)
			check(t, p.Add(ctx, []storage.Entry{entry(id, to, 1, 1)}))
			if n, _, err := p.Retire(ctx, storage.Retirement{Index: id, Shard: 1, Gate: behind(2, life), Keys: kept(from), Before: 2}); err != nil || n != 1 {
				t.Error(n, err)
			}
			r := storage.Retirement{Index: id, Shard: 2, Gate: behind(2, life), Before: 2, Marks: true}
			if i%2 == 0 {
				check(t, p.Mark(ctx, []storage.Mark{{Index: id, Shard: 2, Epoch: 1}}))
				r.Keys, r.Marks = kept("m"), false
			} else {
				check(t, p.Add(ctx, []storage.Entry{entry(id, "m", 2, 1)}))
			}
			if n, m, err := p.Retire(ctx, r); err != nil || n+m != 1 {
				t.Error(n, m, err)
			}
		}
		close(stop)
		readers.Wait()
	}},
	{"AddBesideBuild", func(t *testing.T, p *place) {
		// An Add that is under way has read which generations are live: a build waits for it.
		id := p.ready(t, 7)
		ctx := t.Context()
		tx, err := p.direct.BeginTx(ctx, nil)
		check(t, err)
		var both sync.WaitGroup
		defer both.Wait()
		defer func() { _ = tx.Rollback() }()
		_, err = tx.ExecContext(ctx, "INSERT INTO entries VALUES (?, 1, 'k', 1, 1)", id)
		check(t, err)
		var order []string
		var mu sync.Mutex
		note := func(what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if order = append(order, what); err != nil {
				t.Error(what, err)
			}
		}
		both.Go(func() { note("add", p.Add(ctx, []storage.Entry{entry(id, "k", 1, 2)})) })
		p.waiting(t, 1)
		both.Go(func() {
			_, err := p.StartBuild(ctx, id)
			note("build", err)
		})
		p.waiting(t, 2)
		check(t, tx.Commit())
		both.Wait()
		if got := p.dump(t, id, false); !slices.Equal(got, []string{"k[{1 2}]"}) {
			t.Fatal(got)
		}
		if got := p.dump(t, id, true); len(got) != 0 {
			t.Fatal(got)
		}
		check(t, p.Add(ctx, []storage.Entry{entry(id, "l", 1, 2)}))
		if got := p.dump(t, id, true); !slices.Equal(got, []string{"l[{1 2}]"}) {
			t.Fatal(got)
		}
	}},
	{"GateBeside", func(t *testing.T, p *place) {
		// Who has opened a gate finds that no earlier scan removes anything from then on: the gate
		// waits for a removal under way.
		id := p.ready(t, 7)
		ctx := t.Context()
		check(t, p.Add(ctx, []storage.Entry{entry(id, "k", 1, 1), entry(id, "l", 1, 1)}))
		gate := must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(ctx, []catalog.IndexID{id}, 1, 5))[id]
		var both sync.WaitGroup
		defer both.Wait()
		tx, err := p.direct.BeginTx(ctx, nil)
		check(t, err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.ExecContext(ctx, "UPDATE entries SET epoch = 2 WHERE idx = ? AND k = 'l'", id)
		check(t, err)
		both.Go(func() {
			r := storage.Retirement{Index: id, Shard: 1, Gate: gate, Keys: kept("k", "l"), Before: 2, After: 6}
			if n, _, err := p.Retire(ctx, r); err != nil || n != 1 {
				t.Error(n, err)
			}
		})
		p.waiting(t, 1)
		both.Go(func() {
			gates, err := p.OpenGate(ctx, []catalog.IndexID{id}, 1, 8)
			if err != nil || gates[id].Epoch != 8 {
				t.Error(gates, err)
			}
			if f, err := p.Lookup(ctx, []Question{{Index: id, Key: []byte("k")}, {Index: id, Key: []byte("l")}}); err != nil || !f[0].Shards.Empty() || f[1].Shards.Empty() {
				t.Error(f, err)
			}
		})
		p.waiting(t, 2)
		check(t, tx.Commit())
	}},
	{"Killed", func(t *testing.T, p *place) {
		// A connection that is killed in the middle of a removal leaves nothing of it.
		id := p.ready(t, 7)
		ctx := t.Context()
		check(t, p.Add(ctx, []storage.Entry{entry(id, "k", 1, 1), entry(id, "l", 1, 1)}))
		gate := must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(ctx, []catalog.IndexID{id}, 1, 5))[id]
		before := p.tables(t)
		tx, err := p.direct.BeginTx(ctx, nil)
		check(t, err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.ExecContext(ctx, "SELECT * FROM entries WHERE idx = ? AND k = 'l' FOR UPDATE", id)
		check(t, err)
		h := openHome(t, p.config)
		h.db.SetMaxOpenConns(1)
		var thread int
		check(t, h.db.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&thread))
		ended := make(chan error, 1)
		go func() {
			_, _, err := h.Retire(ctx, storage.Retirement{Index: id, Shard: 1, Gate: gate, Keys: kept("k", "l"), Before: 2, After: 6})
			ended <- err
		}()
		p.waiting(t, 1)
		// MySQL kills nobody while anybody's statement there has bytes that are no text (3854).
		for _, err = p.direct.ExecContext(ctx, fmt.Sprint("KILL ", thread)); err != nil && strings.Contains(err.Error(), "3854"); {
			_, err = p.direct.ExecContext(ctx, fmt.Sprint("KILL ", thread))
		}
		check(t, err)
		if err := <-ended; err == nil {
			t.Fatal("it goes on behind its death")
		}
		check(t, tx.Rollback())
		if got := p.tables(t); got != before {
			t.Fatalf("half is done:\n%s\nbefore\n%s", got, before)
		}
		// The pool makes another connection.
		if n, _, err := h.Retire(ctx, storage.Retirement{Index: id, Shard: 1, Gate: gate, Keys: kept("k", "l"), Before: 2, After: 6}); err != nil || n != 2 {
			t.Fatal(n, err)
		}
	}},
	{"AddBesideBuilds", func(t *testing.T, p *place) {
		// Adds go on while generations come and go: what a finished Add added is in each generation
		// that was live when it began, and no garbage is left.
		id := p.ready(t, 7)
		ctx := t.Context()
		var done sync.WaitGroup
		stop := make(chan struct{})
		for w := range 4 {
			done.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					before, err := p.Heads(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					own := entry(id, fmt.Sprintf("w%d.%d", w, i), 2, 1)
					if err := p.Add(ctx, []storage.Entry{own}); err != nil {
						t.Error(err)
						return
					}
					if err := p.wasAdded(ctx, own, before[id]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for i := 0; i < 40 && !t.Failed(); i++ {
			g := must[uint32](t)(p.StartBuild(ctx, id))
			if i%3 == 0 {
				g = must[uint32](t)(p.StartBuild(ctx, id))
			}
			check(t, p.FinishBuild(ctx, id, g, nil))
			for must[bool](t)(p.DeleteGarbage(ctx, 100)) {
			}
		}
		close(stop)
		done.Wait()
		var n int
		check(t, p.direct.QueryRowContext(ctx, "SELECT COUNT(*) FROM entries WHERE generation <> (SELECT readable FROM heads)").Scan(&n))
		if n != 0 {
			t.Fatalf("%d entries in generations that are gone", n)
		}
	}},
	{"Beside", func(t *testing.T, p *place) {
		// Many callers lock the same entries in any order: all of it is done in the end.
		id := p.ready(t, 7)
		ctx := t.Context()
		var all sync.WaitGroup
		for w := range 6 {
			all.Go(func() {
				for i := range 15 {
					var entries []storage.Entry
					for k := range 20 {
						entries = append(entries, entry(id, fmt.Sprintf("k%d", (k*7+w*3+i)%25), catalog.ShardID(w%2), storage.Epoch(i)))
					}
					if err := p.Add(ctx, entries); err != nil {
						t.Error(err)
					}
					if err := p.Mark(ctx, []storage.Mark{{Index: id, Shard: catalog.ShardID(w), Epoch: storage.Epoch(i)}}); err != nil {
						t.Error(err)
					}
					if _, err := p.OpenGate(ctx, []catalog.IndexID{id}, catalog.ShardID(w), storage.Epoch(i)); err != nil {
						t.Error(err)
					}
					_, _, err := p.Retire(ctx, storage.Retirement{Index: id, Shard: catalog.ShardID(w), Gate: behind(storage.Epoch(i), 1), Keys: kept("k1", "k2"), Before: 1, Marks: true})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for i := range 25 {
			if i != 1 && i != 2 {
				if s := p.look(t, Question{Index: id, Key: fmt.Appendf(nil, "k%d", i), Components: [][]byte{{1}}}).Shards; s != set(0, 1, 2, 3, 4, 5) {
					t.Fatal(i, list(s))
				}
			}
		}
	}},
	{"Places", func(t *testing.T, p *place) {
		ctx := t.Context()
		long := strings.Repeat("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,", 5000)
		for _, kept := range []struct {
			shard catalog.ShardID
			place string
		}{{1, "0-1-7"}, {2, "0-2-3"}, {1, long}, {2, ""}, {3, ""}} {
			check(t, p.KeepPlace(ctx, kept.shard, kept.place))
			if got := must[string](t)(openHome(t, p.config).Place(ctx, kept.shard)); got != kept.place {
				t.Fatalf("shard %d: %.20q, want %.20q", kept.shard, got, kept.place)
			}
		}
		if got := must[string](t)(p.Place(ctx, 1)); got != long {
			t.Fatalf("%.20q", got)
		}
	}},
	{"Versions", func(t *testing.T, p *place) {
		ctx := t.Context()
		// Opening again changes nothing, and needs no right to make tables.
		before := p.tables(t)
		openHome(t, p.config)
		if p.tables(t) != before {
			t.Fatal("opening changed something")
		}
		user := "reader_" + p.config.Schema
		for _, q := range []string{"CREATE USER " + user + " IDENTIFIED BY 'x'", "GRANT SELECT, INSERT, UPDATE, DELETE ON " + p.config.Schema + ".* TO " + user} {
			_, err := p.direct.ExecContext(ctx, q)
			check(t, err)
		}
		c := p.config
		c.User, c.Password = user, "x"
		must[map[catalog.IndexID]Head](t)(openHome(t, c).Heads(ctx))
		// A step that was interrupted is done again.
		_, err := p.direct.ExecContext(ctx, "UPDATE home SET version = 0")
		check(t, err)
		_, err = p.direct.ExecContext(ctx, "DROP TABLE marks")
		check(t, err)
		openHome(t, p.config)
		if p.tables(t) != before {
			t.Fatal("the tables were not made")
		}
		// A newer version has added something: this one goes on, and leaves it so.
		_, err = p.direct.ExecContext(ctx, "UPDATE home SET version = 99")
		check(t, err)
		must[map[catalog.IndexID]Head](t)(openHome(t, p.config).Heads(ctx))
		var version int
		if err := p.direct.QueryRowContext(ctx, "SELECT version FROM home").Scan(&version); err != nil || version != 99 {
			t.Fatalf("version %d, %v", version, err)
		}
		_, err = p.direct.ExecContext(ctx, "UPDATE home SET needs = 98")
		check(t, err)
		if _, err := Open(ctx, p.config); !errors.Is(err, storage.ErrFormat) {
			t.Fatal(err)
		}
	}},
	{"OpenBeside", func(t *testing.T, p *place) {
		c := p.config
		c.Schema += "`new"
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				h, err := Open(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				h.Close()
			})
		}
		all.Wait()
	}},
	{"Plans", func(t *testing.T, p *place) {
		// Every statement of a lookup goes by the primary keys.
		ctx := t.Context()
		id := p.ready(t, 7)
		// The statistics of an empty table are the worst that can be.
		for _, q := range []string{"ALTER TABLE entries STATS_AUTO_RECALC = 0, STATS_PERSISTENT = 1", "ANALYZE TABLE entries"} {
			_, err := p.direct.ExecContext(ctx, q)
			check(t, err)
		}
		var entries []storage.Entry
		for i := range 3000 {
			entries = append(entries, entry(id, fmt.Sprintf("k%05d", i), catalog.ShardID(i%4), 1))
		}
		check(t, p.Add(ctx, entries))
		h := openHome(t, p.config)
		h.db.SetMaxOpenConns(1) // what it has read is counted by session
		reads := func() (all int) {
			check(t, each(ctx, h.db, func(rows *sql.Rows) error {
				var name string
				var n int
				err := rows.Scan(&name, &n)
				all += n
				return err
			}, "SHOW SESSION STATUS LIKE 'Handler_read_%'"))
			return all
		}
		bounded := func(what string, most int, fn func()) {
			t.Helper()
			before := reads()
			none := reads() - before
			fn()
			if n := reads() - before - 2*none; n > most {
				t.Errorf("%s: %d reads of rows", what, n)
			}
		}
		bounded("read marks and floors, too", 80, func() { must[[]Found](t)(h.Lookup(ctx, []Question{{Index: id}})) })
		for _, n := range []int{1, 2, 16} {
			var questions []Question
			var some []string
			for i := range n {
				some = append(some, fmt.Sprintf("k%05d", i*100))
				questions = append(questions, Question{Index: id, Key: []byte(some[i])})
			}
			bounded(fmt.Sprint("look up ", n), 40+6*n, func() {
				if f := must[[]Found](t)(h.Lookup(ctx, questions)); f[0].Shards != set(0) {
					t.Fatalf("%+v", f)
				}
			})
			bounded(fmt.Sprint("retire ", n), 40+8*n, func() {
				h.OpenGate(ctx, []catalog.IndexID{id}, 0, 5)
				if removed, _, err := h.Retire(ctx, storage.Retirement{Index: id, Shard: 0, Gate: behind(5, 1), Keys: kept(some...), Before: 2}); err != nil || removed != n {
					t.Fatal(removed, err)
				}
			})
			bounded(fmt.Sprint("add ", n), 20+10*n, func() {
				var again []storage.Entry
				for _, k := range some {
					again = append(again, entry(id, k, 0, 1))
				}
				check(t, h.Add(ctx, again))
			})
		}
		bounded("range", 100, func() {
			f := must[[]Found](t)(h.Lookup(ctx, []Question{{Index: id, Range: true, From: []byte("k02900"), To: []byte("k02920"), Limit: 100, Floors: true}}))
			if f[0].Shards != set(0, 1, 2, 3) {
				t.Fatalf("%+v", f)
			}
		})
		bounded("range over the limit", 100, func() {
			if f := must[[]Found](t)(h.Lookup(ctx, []Question{{Index: id, Range: true, Limit: 20}})); f[0].OK {
				t.Fatalf("%+v", f)
			}
		})
		h.walked = 50
		bounded("walk", 80, func() {
			check(t, h.Entries(ctx, id, []byte("k01000"), false, func(key []byte, _ []storage.ShardEpoch) bool { return false }))
		})
		bounded("walk of one shard", 280, func() {
			check(t, h.EntriesOf(ctx, id, 1, []byte("k01000"), false, func(key []byte, _ storage.Epoch) bool { return false }))
		})
		other := p.ready(t, id+1)
		check(t, h.Add(ctx, []storage.Entry{entry(other, "a", 1, 1)}))
		check(t, h.DropIndex(ctx, other))
		bounded("garbage", 20, func() { must[bool](t)(h.DeleteGarbage(ctx, 10)) })
	}},
}

// wasAdded says that an entry is in the generations that were live before it was added and still
// are.
func (p *place) wasAdded(ctx context.Context, e storage.Entry, before Head) error {
	rows, live := map[uint32]bool{}, Head{}
	tx, err := p.direct.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	err = each(ctx, tx, func(r *sql.Rows) error {
		var g uint32
		err := r.Scan(&g)
		rows[g] = true
		return err
	}, "SELECT generation FROM entries WHERE idx = ? AND k = ?", e.Index, e.Key)
	if err == nil {
		err = tx.QueryRowContext(ctx, "SELECT readable, building FROM heads WHERE idx = ?", e.Index).Scan(&live.Readable, &live.Building)
	}
	if err != nil {
		return err
	}
	for _, g := range []uint32{live.Readable, live.Building} {
		if g != 0 && (g == before.Readable || g == before.Building) && !rows[g] {
			return fmt.Errorf("%s is not in generation %d", e.Key, g)
		}
	}
	return nil
}

// TestStepsAdd: members that don't know a step go on, and a step may be done again.
func TestStepsAdd(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		for _, q := range step {
			if !strings.HasPrefix(q, "CREATE TABLE IF NOT EXISTS ") && !strings.HasPrefix(q, "INSERT IGNORE INTO ") {
				t.Errorf("%s: what does a member do that doesn't know it? See needs", q)
			}
		}
	}
}
