package main

import (
	"slices"
	"testing"
)

// TestAgreed: a member goes by what all have as soon as it is the same for all, if it has said so; else it can't follow.
func TestAgreed(t *testing.T) {
	t.Parallel()
	first, second, third := []string{"shards s0", "schema a: hash"}, []string{"shards s0", "schema a: hash", "table a.x: hash of b"}, []string{"shards s0", "schema a: reference"}
	var a agreed
	a.serveBy(first, nil)
	if next, err := a.changed(first); next != nil || err != nil {
		t.Errorf("nothing has changed: %v, %v", next, err)
	}
	if _, err := a.changed(second); err == nil {
		t.Error("it goes by what it hasn't said")
	}
	// It has said one thing, then another: either may come.
	x, y := &coming{has: second}, &coming{has: third}
	a.said, a.wanted = []*coming{x, y}, y
	next, err := a.changed(second)
	if next != x || err != nil {
		t.Fatalf("what it has said first: %v, %v", next, err)
	}
	a.came(x)
	if a.want() != y || !slices.Equal(a.now(), second) {
		t.Errorf("behind that it has %q, and wants %v", a.now(), a.want())
	}
	if next, err = a.changed(third); next != y || err != nil {
		t.Fatalf("what it has said last: %v, %v", next, err)
	}
	a.came(y)
	if next, err = a.changed(third); next != nil || err != nil || a.want() != nil {
		t.Errorf("all has come: %v, %v, %v", next, err, a.want())
	}
	if _, err = a.changed(first); err == nil {
		t.Error("it goes back to what it hasn't said")
	}
}

func TestBeforeSchemas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lines, before []string }{
		{[]string{"shards s0", "keys of encoding 1", "schema a: hash", "table a.b: hash"}, []string{"shards s0", "keys of encoding 1"}},
		{[]string{"shards s0"}, []string{"shards s0"}},
	} {
		if got := beforeSchemas(c.lines); !slices.Equal(got, c.before) {
			t.Errorf("%q: %q", c.lines, got)
		}
	}
}

// TestAgreedShards: a member takes a shard in that is coming, and goes back where that is taken back, once.
func TestAgreedShards(t *testing.T) {
	t.Parallel()
	without, with := []string{"shards s0", "schema a: hash"}, []string{"shards s0, s1", "schema a: hash"}
	var a agreed
	a.serveBy(without, []string{"s0"})
	next := &coming{has: with, shards: []string{"s0", "s1"}}
	a.said, a.wanted = []*coming{next}, next
	first, err := a.changed(with)
	if first != next || err != nil {
		t.Fatalf("it comes: %v, %v", first, err)
	}
	a.came(next)
	if !slices.Equal(a.shards(), []string{"s0", "s1"}) || a.want() != nil {
		t.Errorf("serving %q, wanted %v", a.shards(), a.want())
	}
	back, err := a.changed(without)
	if err != nil || back == nil || !slices.Equal(back.shards, []string{"s0"}) {
		t.Fatalf("taken back: %v, %v", back, err)
	}
	a.came(back)
	if !slices.Equal(a.shards(), []string{"s0"}) || !slices.Equal(a.now(), without) {
		t.Errorf("serving %q by %q", a.shards(), a.now())
	}
	if _, err := a.changed(with); err == nil {
		t.Error("it hasn't said that once more")
	}
}
