package clustertest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/shunt-sql/shunt/cluster"
)

// CheckBoard checks that a board keeps what cluster.Board promises. It is one that nobody has
// written to.
func CheckBoard(t *testing.T, b cluster.Board) {
	t.Run("records", func(t *testing.T) { checkRecords(t, b) })
	t.Run("turns", func(t *testing.T) { checkTurns(t, b) })
	t.Run("asks", func(t *testing.T) { checkAsks(t, b) })
}

// checkAsks: a question is taken up once, by whom it was put to, and not behind its withdrawal.
func checkAsks(t *testing.T, b cluster.Board) {
	ctx := t.Context()
	takes := func(member string, want ...string) {
		t.Helper()
		got, err := b.TakeUp(ctx, member)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, q := range got {
			texts = append(texts, fmt.Sprintf("%d=%s", q.Ask, q.Body))
		}
		if slices.Sort(texts); !slices.Equal(texts, want) {
			t.Errorf("%s takes up %q, want %q", member, texts, want)
		}
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	answers := func(ask uint64, want map[string][]byte) {
		t.Helper()
		if got, err := b.Answers(ctx, ask); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("answers to %d: %q (%v), want %q", ask, got, err, want)
		}
	}
	withdraws := func(ask uint64, want int) {
		t.Helper()
		if n, err := b.Withdraw(ctx, ask); err != nil || n != want {
			t.Errorf("%d hadn't taken %d up (%v), want %d", n, ask, err, want)
		}
	}
	news := func(member string, want bool) {
		t.Helper()
		at, asked, err := b.News(ctx, member)
		read, _, failed := b.Read(ctx, 0)
		if err != nil || failed != nil || asked != want || at != read {
			t.Errorf("%s is asked something: %v, want %v; the version is %v, want %v (%v, %v)", member, asked, want, at, read, err, failed)
		}
	}
	high := uint64(1<<63 + 5)
	ok(b.Ask(ctx, 7, []byte("a\x00\xff"), "one", "two", "three"))
	ok(b.Ask(ctx, high, []byte("b"), "two"))
	ok(b.Ask(ctx, 9, []byte("c")))
	takes("four")
	news("four", false)
	news("two", true)
	takes("two", "7=a\x00\xff", fmt.Sprint(high, "=b"))
	news("two", false)
	takes("two")
	answers(7, map[string][]byte{})
	ok(b.Answer(ctx, 7, "two", []byte("\x00 done")))
	answers(7, map[string][]byte{"two": []byte("\x00 done")})
	takes("one", "7=a\x00\xff")
	withdraws(7, 1) // three's
	ok(b.Answer(ctx, 7, "one", []byte("late")))
	answers(7, map[string][]byte{})
	takes("three")
	withdraws(7, 0)
	withdraws(high, 0)
}

func checkRecords(t *testing.T, b cluster.Board) {
	ctx := t.Context()
	seen := map[string]bool{}
	reads := func(since uint64, want ...string) cluster.Version {
		t.Helper()
		at, records, err := b.Read(ctx, since)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range records {
			if r.Version <= since || r.Version > at.Number {
				t.Errorf("read %+v since %d at %d", r, since, at.Number)
			}
			got = append(got, fmt.Sprintf("%s/%s=%s", r.Kind, r.Name, r.Body))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("since %d: %q, want %q", since, got, want)
		}
		return at
	}
	writes := func(expect uint64, records ...cluster.Record) uint64 {
		t.Helper()
		before := reads(1 << 62)
		version, err := b.Write(ctx, expect, records...)
		if err != nil {
			t.Fatal(err)
		}
		at := reads(1 << 62)
		if version <= before.Number || at.Number != version || at.ID == "" || seen[at.ID] {
			t.Errorf("version %d behind %d; read is %+v", version, before.Number, at)
		}
		if again := reads(1 << 62); again != at {
			t.Errorf("version %+v, and %+v", at, again)
		}
		seen[at.ID] = true
		return version
	}
	if at := reads(0); at.Number != 0 {
		t.Fatalf("it was written to: %+v", at)
	}
	first := writes(0, cluster.Record{Kind: "a", Name: "x", Body: []byte("1")}, cluster.Record{Kind: "a", Name: "y", Body: []byte("2")}, cluster.Record{Kind: "b", Name: "x", Body: []byte("3")})
	reads(0, "a/x=1", "a/y=2", "b/x=3")
	second := writes(first, cluster.Record{Kind: "a", Name: "x", Body: []byte("4")}, cluster.Record{Kind: "a", Name: "y"})
	reads(first, "a/x=4", "a/y=")
	reads(second)
	if _, err := b.Write(ctx, first, cluster.Record{Kind: "a", Name: "x", Body: []byte("5")}); !errors.Is(err, cluster.ErrStale) {
		t.Errorf("written by who had read an earlier version: %v", err)
	}
	reads(first, "a/x=4", "a/y=")
	writes(0)
	writes(0, cluster.Record{Kind: "c", Name: "none"}) // of what never was
	// Of several that have read the same, one writes.
	at := reads(1 << 62)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 8 {
		wg.Go(func() {
			_, err := b.Write(ctx, at.Number, cluster.Record{Kind: "d", Name: "x", Body: fmt.Append(nil, i)})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done++
			case !errors.Is(err, cluster.ErrStale):
				t.Error(err)
			}
		})
	}
	if wg.Wait(); done != 1 {
		t.Errorf("%d have written", done)
	}
}

func checkTurns(t *testing.T, b cluster.Board) {
	ctx := t.Context()
	holds := func(name, want string) {
		t.Helper()
		if got, err := b.Holder(ctx, name); err != nil || got != want {
			t.Errorf("%s is %q's (%v), want %q", name, got, err, want)
		}
	}
	is := func(want bool) func(bool, error) {
		return func(got bool, err error) {
			t.Helper()
			if err != nil || got != want {
				t.Errorf("%v (%v), want %v", got, err, want)
			}
		}
	}
	holds("ddl", "")
	is(true)(b.TakeTurn(ctx, "ddl", "one"))
	is(false)(b.TakeTurn(ctx, "ddl", "two"))
	is(false)(b.TakeTurn(ctx, "ddl", "one"))
	is(true)(b.TakeTurn(ctx, "number 1", "two"))
	holds("ddl", "one")
	if err := b.GiveTurn(ctx, "ddl", "two"); err != nil {
		t.Error(err)
	}
	is(false)(b.TakeOver(ctx, "ddl", "two", "three"))
	is(false)(b.TakeOver(ctx, "free", "", "three"))
	holds("ddl", "one")
	is(true)(b.TakeOver(ctx, "ddl", "one", "three<one"))
	holds("ddl", "three<one")
	holds("number 1", "two")
	is(true)(b.TakeTurn(ctx, "number_1", "one"))
	is(true)(b.TakeTurn(ctx, "Number 2", "one"))
	for prefix, want := range map[string]string{"number ": "map[number 1:two]", "d": "map[ddl:three<one]", "number%": "map[]", "": "map[Number 2:one ddl:three<one number 1:two number_1:one]"} {
		if held, err := b.Held(ctx, prefix); err != nil || fmt.Sprint(held) != want {
			t.Errorf("held of %q: %v (%v), want %s", prefix, held, err, want)
		}
	}
	if err := errors.Join(b.GiveTurn(ctx, "ddl", "three"), b.GiveTurn(ctx, "ddl", "one")); err != nil {
		t.Error(err)
	}
	is(true)(b.TakeOver(ctx, "ddl", "three<one", "three"))
	if err := errors.Join(b.GiveTurn(ctx, "ddl", "three"), b.GiveTurn(ctx, "ddl", "three")); err != nil {
		t.Error(err)
	}
	holds("ddl", "")
	// Of several that want it, one takes it.
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []string
	for i := range 8 {
		wg.Go(func() {
			ok, err := b.TakeTurn(ctx, "ddl", fmt.Sprint("m", i))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if ok {
				took = append(took, fmt.Sprint("m", i))
			}
		})
	}
	wg.Wait()
	if len(took) != 1 {
		t.Fatalf("taken by %v", took)
	}
	holds("ddl", took[0])
}
