package cover

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// atOnce is a trail of a log that has nothing.
type atOnce struct{}

func (atOnce) Shown(context.Context) error    { return nil }
func (atOnce) CaughtUp(context.Context) error { return nil }

// rest lets the stream do what it has to.
func rest() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// bubble runs a test with the log of one shard being read, until all goroutines rest.
func bubble(t *testing.T, max int64, test func(a *Answers, ix *catalog.Index, keep func(key string, size int) bool)) {
	synctest.Test(t, func(t *testing.T) {
		a := New(max)
		ix := &catalog.Index{ID: 1, Table: &catalog.Table{Shards: catalog.Only(0)}, Include: []*catalog.Column{{Name: "c"}}}
		stream := a.Follow(0)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go stream.Tend(ctx, atOnce{}, func() bool { return true })
		stream.Resumed()
		synctest.Wait()
		a.index(ix)
		test(a, ix, func(key string, size int) bool {
			rest()
			f := a.Begin([]*catalog.Index{ix})
			if f == nil || !f.On(ix, [][]byte{[]byte(key)}) {
				return false
			}
			f.Keep([]byte(key), key, size)
			return true
		})
	})
}

// TestMemory: answers take no more than they may, and those go that were used longest ago.
func TestMemory(t *testing.T) {
	t.Parallel()
	const max = 256 << 10
	bubble(t, max, func(a *Answers, _ *catalog.Index, keep func(string, int) bool) {
		if !keep("kept", 100) {
			t.Fatal("it can't be kept")
		}
		for i := range 5000 {
			if !keep(fmt.Sprint("k", i), 100+i%500) {
				t.Fatal("it can't be kept")
			}
			if _, of := a.Get([]byte("kept"), false); of != Answered {
				t.Fatalf("what is used is %s after %d others", of, i)
			}
		}
		if n := a.Bytes(); n > max || n < max/2 {
			t.Errorf("%d bytes of %d", n, max)
		}
		if _, of := a.Get([]byte("k0"), false); of != Absent {
			t.Errorf("the first is %s", of)
		}
		before := a.Len()
		keep("large", max)
		if _, of := a.Get([]byte("large"), false); of != Absent || a.Len() != before {
			t.Errorf("what has no room is %s", of)
		}
		listed := 0
		for i := range a.parts {
			p := &a.parts[i]
			var bytes int64
			for x := p.oldest; x != nil; x = x.newer {
				bytes += x.size
				listed++
			}
			if bytes != p.bytes {
				t.Errorf("part %d has %d bytes, and counts %d", i, bytes, p.bytes)
			}
		}
		if listed != a.Len() {
			t.Errorf("%d answers, %d in the lists", a.Len(), listed)
		}
	})
}

// TestOutcomes: what an answer has is void, or waits, by what happens.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	bubble(t, 1<<20, func(a *Answers, ix *catalog.Index, keep func(string, int) bool) {
		is := func(what, key string, exact, fast Outcome) {
			t.Helper()
			for i, want := range []Outcome{exact, fast} {
				if _, of := a.Get([]byte(key), i == 1); of != want {
					t.Errorf("%s: %s is %s (fast: %v), wanted %s", what, key, of, i == 1, want)
				}
			}
		}
		refill := func(what string) {
			t.Helper()
			if !keep("a", 1) || !keep("b", 1) {
				t.Fatalf("%s: it can't be kept", what)
			}
			is(what, "a", Answered, Answered)
		}
		stream := a.Follow(0)
		refill("first")
		w := a.Write(nil, ix, nil, catalog.Only(0))
		is("a write", "a", Written, Answered)
		if keep("c", 1) {
			t.Error("an answer is kept beside a write")
		}
		doubt := w.Share()
		w.End()
		rest()
		is("a write in doubt", "a", Written, Answered)
		doubt.End()
		rest()
		is("behind it", "a", Answered, Answered)
		stream.Change(ix, []byte("a"))
		is("a change", "a", Changed, Absent)
		is("of another key", "b", Answered, Answered)
		if keep("a", 1) {
			t.Error("an answer is kept before its change is visible")
		}
		stream.Committed()
		refill("a change that is visible")
		stream.Doubt(ix)
		is("doubt", "b", Changed, Absent)
		stream.Committed()
		refill("doubt that is over")
		done := a.Define()
		is("DDL", "a", Changed, Absent)
		if keep("a", 1) {
			t.Error("an answer is kept while DDL runs")
		}
		done()
		refill("behind DDL")
		stream.Change(ix, []byte("b"))
		stream.Stopped()
		is("a log that isn't read", "a", Changed, Absent)
		if keep("a", 1) {
			t.Error("an answer is kept while the log isn't read")
		}
		a.Write(nil, ix, nil, catalog.Only(0)).End()
		stream.Resumed()
		refill("a log that is read again")
	})
}
