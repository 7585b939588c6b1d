package home

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

var boardConformance = []conformanceCase{
	{"Records", func(t *testing.T, p *place) {
		ctx := t.Context()
		read := func(since uint64) (Version, string) {
			t.Helper()
			v, records, err := p.Read(ctx, since)
			check(t, err)
			text := ""
			for _, r := range records {
				text += fmt.Sprintf("%s/%s@%d=%s ", r.Kind, r.Name, r.Version, r.Body)
				if len(r.Body) == 0 && r.Body != nil {
					t.Fatal("a record without a body has one")
				}
			}
			return v, text
		}
		if v, text := read(0); v.Number != 0 || text != "" {
			t.Fatal(v, text)
		}
		if v := must[uint64](t)(p.Write(ctx, 0, Record{Kind: "index", Name: "b", Body: []byte(`{"a": 1.0,  "ä": "\u0000'"}`)}, Record{Kind: "index", Name: "a ", Body: []byte("1")})); v != 1 {
			t.Fatal(v)
		}
		first, text := read(0)
		if want := `index/a @1=1 index/b@1={"a": 1.0,  "ä": "\u0000'"} `; first.Number != 1 || len(first.ID) != 32 || text != want {
			t.Fatal(first, text)
		}
		if v := must[uint64](t)(p.Write(ctx, 1, Record{Kind: "index", Name: "b"}, Record{Kind: "index", Name: "a", Body: []byte("2")}, Record{Kind: "Index", Name: "a", Body: []byte("3")})); v != 2 {
			t.Fatal(v)
		}
		second, text := read(1)
		if want := `Index/a@2=3 index/a@2=2 index/b@2= `; second.Number != 2 || second.ID == first.ID || text != want {
			t.Fatal(second, text)
		}
		if _, text := read(0); text != `index/a @1=1 Index/a@2=3 index/a@2=2 index/b@2= ` {
			t.Fatal(text)
		}
		if again, text := read(2); again != second || text != "" {
			t.Fatal(again, text)
		}
		before := p.tables(t)
		if _, err := p.Write(ctx, 1, Record{Kind: "index", Name: "c", Body: []byte("2")}); !errors.Is(err, ErrStale) {
			t.Fatal(err)
		}
		if p.tables(t) != before {
			t.Fatal("a stale write has written")
		}
		// A version of nothing is one.
		if v := must[uint64](t)(p.Write(ctx, 2)); v != 3 {
			t.Fatal(v)
		}
	}},
	{"RecordsBeside", func(t *testing.T, p *place) {
		// Who reads from version to version misses no record, however many write.
		ctx := t.Context()
		const writers, each = 4, 20
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					if _, err := p.Write(ctx, 0, Record{Kind: "k", Name: fmt.Sprint(w, ".", i), Body: []byte("1")}, Record{Kind: "k", Name: "last", Body: []byte("1")}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		seen := map[string]uint64{}
		var reads []string
		last := Version{}
		ended := make(chan struct{})
		go func() {
			all.Wait()
			close(ended)
		}()
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			default:
			}
			v, records, err := p.Read(ctx, last.Number)
			check(t, err)
			if v.Number == last.Number && v != last {
				t.Fatal(v, last)
			}
			names := ""
			for _, r := range records {
				names += fmt.Sprintf(" %s@%d", r.Name, r.Version)
			}
			reads = append(reads, fmt.Sprintf("from %d to %d:%s", last.Number, v.Number, names))
			for _, r := range records {
				if r.Version <= last.Number || r.Version > v.Number {
					t.Fatalf("%+v between %d and %d", r, last.Number, v.Number)
				}
				seen[r.Name] = r.Version
			}
			last = v
		}
		if last.Number != writers*each || len(seen) != writers*each+1 || seen["last"] != last.Number {
			t.Fatalf("%d of %d, at %v:\n%s", len(seen), writers*each+1, last, strings.Join(reads, "\n"))
		}
	}},
	{"Turns", func(t *testing.T, p *place) {
		ctx := t.Context()
		holder := func(want string) {
			t.Helper()
			if got := must[string](t)(p.Holder(ctx, "ddl")); got != want {
				t.Fatalf("%q has it, not %q", got, want)
			}
		}
		holder("")
		if !must[bool](t)(p.TakeTurn(ctx, "ddl", "one")) || !must[bool](t)(p.TakeTurn(ctx, "changes", "two")) {
			t.Fatal("a free turn was not to be had")
		}
		// Two threads of one member exclude each other too.
		if must[bool](t)(p.TakeTurn(ctx, "ddl", "two")) || must[bool](t)(p.TakeTurn(ctx, "ddl", "one")) {
			t.Fatal("a turn was given twice")
		}
		holder("one")
		check(t, p.GiveTurn(ctx, "ddl", "two"))
		holder("one")
		if must[bool](t)(p.TakeOver(ctx, "ddl", "two", "three")) {
			t.Fatal("taken over from who hasn't it")
		}
		if !must[bool](t)(p.TakeOver(ctx, "ddl", "one", "two")) || !must[bool](t)(p.TakeOver(ctx, "ddl", "two", "two")) {
			t.Fatal("not taken over")
		}
		holder("two")
		if turns := must[[]Turn](t)(p.Turns(ctx)); len(turns) != 2 || turns[1].Name != "ddl" || turns[1].Holder != "two" || turns[1].Since == "" {
			t.Fatalf("%+v", turns)
		}
		check(t, p.GiveTurn(ctx, "ddl", "two"))
		holder("")
		if must[bool](t)(p.TakeOver(ctx, "ddl", "", "three")) {
			t.Fatal("a free turn was taken over")
		}
	}},
	{"TurnsBeside", func(t *testing.T, p *place) {
		// One has it at a time, and of those who take it over one does.
		ctx := t.Context()
		count := func(fn func(ctx context.Context, self string) (bool, error)) (n int) {
			var all sync.WaitGroup
			var mu sync.Mutex
			for w := range 6 {
				all.Go(func() {
					ok, err := fn(ctx, fmt.Sprint("member", w))
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
					}
					if ok {
						n++
					}
				})
			}
			all.Wait()
			return n
		}
		for range 10 {
			if n := count(func(ctx context.Context, self string) (bool, error) { return p.TakeTurn(ctx, "ddl", self) }); n != 1 {
				t.Fatalf("%d have it", n)
			}
			dead := must[string](t)(p.Holder(ctx, "ddl"))
			if n := count(func(ctx context.Context, self string) (bool, error) {
				return p.TakeOver(ctx, "ddl", dead, "new "+self)
			}); n != 1 {
				t.Fatalf("%d have taken it over", n)
			}
			check(t, p.GiveTurn(ctx, "ddl", must[string](t)(p.Holder(ctx, "ddl"))))
		}
	}},
}
