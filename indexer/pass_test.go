package indexer

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// TestPassing: a read ignores marks of statements whose rows the follower has seen, and no others.
func TestPassing(t *testing.T) {
	t.Parallel()
	b, f, trail := followed(t)
	mark := func(logged bool, shards ...catalog.ShardID) {
		t.Helper()
		var marks []plan.Mark
		for _, id := range shards {
			marks = append(marks, plan.Mark{Index: b.index(), Shard: id, Logged: logged})
		}
		set := catalog.Only(0).Union(catalog.Only(1))
		o := b.x.Begin(set)
		defer o.End()
		if err := b.x.Prepare(t.Context(), o, nil, marks, []*catalog.Table{b.index().Table}, set); err != nil {
			t.Fatal(err)
		}
	}
	// finds looks a key up that has no entry.
	finds := func(what string, want catalog.ShardSet, asked int) {
		t.Helper()
		before := trail.asked
		for range 2 { // by one read
			ix := b.x.Passing(t.Context(), nil)
			for range 2 {
				got, err := ix.Lookup(b.index(), b.key("x"), nil)
				if err != nil {
					t.Fatal(err)
				}
				ranged, ok, err := ix.Range(b.index(), b.key("x"), nil, 10)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				if got != want || ranged != want {
					t.Errorf("%s: found %v, by a range %v, wanted %v", what, got, ranged, want)
				}
			}
			if asked != 2 { // else each read asks
				break
			}
		}
		if trail.asked-before != asked {
			t.Errorf("%s: waited for the follower %d times, wanted %d", what, trail.asked-before, asked)
		}
	}
	none, first, second := catalog.ShardSet{}, catalog.Only(0), catalog.Only(1)

	finds("no marks", none, 0)
	mark(true, 0)
	finds("a follower that has just begun", first, 1)
	if err := f.clear(t.Context()); err != nil { // vouches for later marks; that one is a scan's
		t.Fatal(err)
	}
	b.until("the scan has cleared it", func() bool { return f.renew(t.Context()) == nil && len(b.marks()) == 0 })
	mark(true, 0, 1)
	finds("a shard that is followed, one that isn't", second, 2)
	o := b.x.Begin(first)
	if got, err := b.x.Passing(t.Context(), o).Lookup(b.index(), b.key("x"), nil); err != nil || got != second {
		t.Errorf("in a transaction: %v, %v", got, err)
	}
	o.End()
	mark(false, 0)
	finds("a mark that isn't logged", first.Union(second), 0)
	mark(true, 0)
	f.Resumed()
	finds("a follower that begins anew", first.Union(second), 0)
}

// TestPassingLate: who has waited in vain goes everywhere, and the next don't wait.
func TestPassingLate(t *testing.T) {
	t.Parallel()
	b, f, trail := followed(t)
	if err := f.clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := b.x.Begin(catalog.Only(0))
	defer o.End()
	if err := b.x.Prepare(t.Context(), o, nil, []plan.Mark{{Index: b.index(), Shard: 0, Logged: true}}, []*catalog.Table{b.index().Table}, catalog.Only(0)); err != nil {
		t.Fatal(err)
	}
	trail.behind = true
	for range 3 {
		got, err := b.x.Passing(t.Context(), nil).Lookup(b.index(), b.key("x"), nil)
		if err != nil || got != catalog.Only(0) || trail.asked != 1 {
			t.Errorf("found %v, %v; asked %d times", got, err, trail.asked)
		}
	}
	trail.behind = false
	b.tick(2 * passPause)
	if got, err := b.x.Passing(t.Context(), nil).Lookup(b.index(), b.key("x"), nil); err != nil || !got.Empty() {
		t.Errorf("later: %v, %v", got, err)
	}
}
