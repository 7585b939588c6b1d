package seat

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/storage"
)

// TestEpochs: they rise, also where several advance them at a time.
func TestEpochs(t *testing.T) {
	eachSeat(t, func(t *testing.T, p place) {
		if b := must[cluster.Beat](t)(p.Beat(t.Context(), 1)); b.Epoch != 1 || b.Here {
			t.Errorf("a new shard: %+v", b)
		}
		if e := must[storage.Epoch](t)(p.Least(t.Context())); e != 1 {
			t.Errorf("nobody is there, and the least is %d", e)
		}
		var all []storage.Epoch
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 25 {
					e, err := p.Advance(t.Context())
					mu.Lock()
					if all = append(all, e); err != nil {
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		slices.Sort(all)
		if len(slices.Compact(all)) != 100 || all[99] != 101 {
			t.Errorf("epochs %v", all)
		}
		if b := must[cluster.Beat](t)(p.Beat(t.Context(), 1)); b.Epoch != 101 {
			t.Errorf("heard of %d", b.Epoch)
		}
		check(t, p.Raise(t.Context(), 50))
		if e := must[storage.Epoch](t)(p.Advance(t.Context())); e != 102 {
			t.Errorf("raised to what it was, it is %d", e)
		}
		check(t, p.Raise(t.Context(), 1000))
		if e := must[storage.Epoch](t)(p.Advance(t.Context())); e != 1001 {
			t.Errorf("raised, it is %d", e)
		}
	})
}

// TestRoll: a row tells 0 at first, then ever more, and counts until it is removed.
func TestRoll(t *testing.T) {
	eachSeat(t, func(t *testing.T, p place) {
		ctx := t.Context()
		for range 9 {
			must[storage.Epoch](t)(p.Advance(ctx))
		}
		least := func(when string, want storage.Epoch) {
			t.Helper()
			if e := must[storage.Epoch](t)(p.Least(ctx)); e != want {
				t.Errorf("%s: the least is %d, want %d", when, e, want)
			}
		}
		least("nobody is there", 10)
		who := cluster.Identity{ID: 1<<64 - 1, Addr: "host:4000", Version: "1"}
		one := must[uint64](t)(p.Join(ctx, who, 3))
		least("one has joined", 0)
		two := must[uint64](t)(p.Join(ctx, cluster.Identity{ID: 2}, 4))
		if one == two || one == 0 || two == 0 {
			t.Errorf("joins %d, %d", one, two)
		}
		check(t, p.Tell(ctx, one, cluster.Told{Epoch: 7, Adopted: 9, Catalog: 5, Open: 3}))
		least("the other has told nothing", 0)
		check(t, p.Tell(ctx, two, cluster.Told{Epoch: 8, Adopted: 8}))
		least("both have told", 7)
		check(t, p.Tell(ctx, one, cluster.Told{Epoch: 6, Adopted: 8, Catalog: 4, Open: 2}))
		check(t, p.Tell(ctx, one, cluster.Told{Epoch: 6, Adopted: 8, Catalog: 4, Open: 2}))
		check(t, p.Tell(ctx, 12345, cluster.Told{Epoch: 1}))
		least("a late call", 7)
		epoch, rows, err := p.Rows(ctx)
		check(t, err)
		for i := range rows {
			rows[i].Since = rows[0].Since
			rows[i].Linked = false // TestLinked's
		}
		slices.SortFunc(rows, func(a, b cluster.Row) int { return int(b.ID>>1) - int(a.ID>>1) })
		want := []cluster.Row{
			{Identity: who, Join: one, Told: cluster.Told{Epoch: 7, Adopted: 9, Catalog: 5, Open: 2}},
			{Identity: cluster.Identity{ID: 2}, Join: two, Told: cluster.Told{Epoch: 8, Adopted: 8, Catalog: 4}},
		}
		if len(rows) == 2 {
			want[0].Since, want[1].Since = rows[0].Since, rows[0].Since
		}
		if epoch != 10 || !slices.Equal(rows, want) {
			t.Errorf("epoch %d, rows\n%+v, want\n%+v", epoch, rows, want)
		}
		check(t, p.Remove(ctx, one))
		if b := must[cluster.Beat](t)(p.Beat(ctx, one)); !b.Here {
			t.Error("removed, and wasn't fenced")
		}
		if !must[bool](t)(p.SetFenced(ctx, one)) || must[bool](t)(p.SetFenced(ctx, one)) || must[bool](t)(p.SetFenced(ctx, 12345)) {
			t.Error("who has fenced it?")
		}
		if b := must[cluster.Beat](t)(p.Beat(ctx, one)); b.Here {
			t.Error("it doesn't see that it is fenced")
		}
		least("it is fenced", 7)
		check(t, p.Remove(ctx, one))
		check(t, p.Remove(ctx, one))
		least("it is removed", 8)
		if again := must[uint64](t)(p.Join(ctx, who, 3)); again == one || again == two {
			t.Error("a number comes again")
		}
	})
}

// TestNotes: a connection that is noted is found, and one that is noted behind a fence isn't
// used.
func TestNotes(t *testing.T) {
	eachSeat(t, func(t *testing.T, p place) {
		ctx := t.Context()
		one, two := must[uint64](t)(p.Join(ctx, cluster.Identity{ID: 1}, 0)), must[uint64](t)(p.Join(ctx, cluster.Identity{ID: 2}, 0))
		note := func(join uint64, c client) uint64 {
			t.Helper()
			n, here, err := p.Note(ctx, join, c.id)
			if check(t, err); !here || n == 0 {
				t.Errorf("note %d, here %v", n, here)
			}
			return n
		}
		a, b, c := p.connect(t), p.connect(t), p.connect(t)
		noteA := note(one, a)
		note(one, b)
		note(two, c)
		if _, _, err := p.Note(ctx, one, 4_000_000_000); err == nil {
			t.Error("noted what isn't listed")
		}
		threads := func(join uint64, want ...client) []cluster.Thread {
			t.Helper()
			got := must[[]cluster.Thread](t)(p.Threads(ctx, join))
			if !slices.EqualFunc(got, want, func(g cluster.Thread, w client) bool { return g.ID == uint64(w.id) && g.User != "" && g.Host != "" }) {
				t.Errorf("noted are %v, want %v", got, want)
			}
			return got
		}
		threads(one, a, b)
		_, rows, err := p.Rows(ctx)
		check(t, err)
		for _, r := range rows {
			if want := map[uint64]int{1: 2, 2: 1}[r.ID]; r.Connections != want {
				t.Errorf("%d connections of %d", r.Connections, r.ID)
			}
		}
		check(t, p.Forget(ctx, noteA, noteA))
		check(t, p.Forget(ctx))
		left := threads(one, b)
		must[bool](t)(p.SetFenced(ctx, one))
		if _, here, err := p.Note(ctx, one, a.id); err != nil || here {
			t.Errorf("noted behind a fence: %v %v", here, err)
		}
		if _, here, err := p.Note(ctx, 12345, a.id); err != nil || here {
			t.Errorf("noted without a row: %v %v", here, err)
		}
		running := func(want int, of ...cluster.Thread) {
			t.Helper()
			if got := must[[]cluster.Thread](t)(p.Running(ctx, of...)); len(got) != want {
				t.Errorf("%v run, want %d", got, want)
			}
		}
		other := left[0]
		for _, change := range []func(*cluster.Thread){
			func(t *cluster.Thread) { t.User = "somebody" }, func(t *cluster.Thread) { t.Host = "else:1" }, func(t *cluster.Thread) { t.Host += "1" },
		} {
			x := other
			change(&x)
			running(0, x)
			check(t, p.Kill(ctx, x))
		}
		running(1, left...)
		b.end()
		running(0, left...)
		check(t, p.Kill(ctx, left...))
		of := threads(two, c)
		check(t, p.Kill(ctx, of...))
		until(t, "it has ended", func() bool { return len(must[[]cluster.Thread](t)(p.Running(ctx, of...))) == 0 })
		check(t, p.Remove(ctx, one))
		if n := len(threads(one)) + len(must[[]cluster.Thread](t)(p.Threads(ctx, 12345))); n != 0 {
			t.Errorf("%d notes of nobody are left", n)
		}
		threads(two, c)
	})
}

// TestLinked: a join is linked from its begin on, as long as its process lives, and no longer.
func TestLinked(t *testing.T) {
	eachSeat(t, func(t *testing.T, p place) {
		ctx := t.Context()
		linked := func(join uint64) bool {
			_, rows, err := p.Rows(ctx)
			check(t, err)
			for _, r := range rows {
				if r.Join == join {
					return r.Linked
				}
			}
			return false
		}
		first := must[uint64](t)(p.Join(ctx, cluster.Identity{ID: 1}, 0))
		if !linked(first) {
			t.Error("it has just come, and seems dead")
		}
		if q := must[map[uint64]time.Duration](t)(p.Quiet(ctx)); len(q) != 1 || q[first] > 5*time.Second {
			t.Errorf("quiet for %v", q)
		}
		second := must[uint64](t)(p.Join(ctx, cluster.Identity{ID: 1}, 0))
		for range 2 {
			must[cluster.Beat](t)(p.Beat(ctx, second))
		}
		if !linked(second) {
			t.Error("it has joined anew, and seems dead")
		}
	})
}
