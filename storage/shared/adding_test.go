package shared

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// TestAdding: one member at a time has the others' copies closed, and it alone has a shard serve: with all that goes with that, or
// not at all.
func TestAdding(t *testing.T) {
	c := server(t)
	a, b := openAt(t, c), openAt(t, c)
	nobody := func(string) bool { return false }
	old, next := []string{"shards s0"}, []string{"shards s0, s1"}
	_, err := a.SetMembers(nil, old)
	check(t, err)
	check(t, a.SetApart("s1", "ours"))
	d, err := a.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "idx", Columns: []string{"email"}})
	check(t, err)
	check(t, a.UpdateIndex(d.ID, func(d *storage.IndexRecord) { d.Keyed = "0" }))
	to := &Serving{Shard: "s1", Has: next, Had: old, Keyed: map[catalog.IndexID]Keyed{d.ID: {Is: "0 1", Was: "0"}, 99: {Is: "x", Was: "y"}}}
	is := func(s *Store, apart, keyed string, members []string) {
		t.Helper()
		check(t, s.Refresh(t.Context()))
		all, err := s.Apart()
		check(t, err)
		has, err := s.Members()
		check(t, err)
		if d, _ := s.Index(d.ID); all["s1"] != apart || d.Keyed != keyed || !slices.Equal(has, members) {
			t.Errorf("s1 is %q, the index keyed %q, and all have %q; wanted %q, %q, %q", all["s1"], d.Keyed, has, apart, keyed, members)
		}
	}
	both := []string{"a", "b"}
	for _, m := range both {
		check(t, a.SetComing(m, next, nobody))
	}
	if err := a.SetServing("a", to, both); !errors.Is(err, ErrHeld) {
		t.Errorf("without a hold: %v", err)
	}
	check(t, a.Hold("a"))
	if err := b.Hold("b"); !errors.Is(err, ErrHeld) {
		t.Errorf("beside another one: %v", err)
	}
	check(t, a.SetComing("b", old, nobody))
	if err := a.SetServing("a", to, both); err == nil {
		t.Error("though one hasn't got the shard")
	}
	check(t, a.SetComing("b", next, nobody))
	is(b, "ours", "0", old)
	check(t, a.SetServing("a", to, both))
	is(b, "", "0 1", next)
	check(t, a.SetServing("a", to.Back("ours"), nil))
	is(b, "ours", "0", old)

	since, _ := a.Version()
	check(t, b.SetApart("s2", "new"))
	end := func(s *Store, member string, since uint64, want bool) {
		t.Helper()
		if over, err := s.EndHold(member, since); over != want || err != nil {
			t.Errorf("the end of %s's hold: %v, %v", member, over, err)
		}
	}
	end(a, "a", since, false)
	since, _ = a.Version()
	end(b, "a", since, true)
	end(a, "a", since, true) // there is none
	check(t, b.Hold("b"))
	if err := a.SetServing("a", to, nil); !errors.Is(err, ErrHeld) {
		t.Errorf("its hold was ended: %v", err)
	}
	if h, err := b.Holder(); h != (Hold{By: "b"}) || err != nil {
		t.Errorf("%v holds, %v", h, err)
	}
	end(a, "b", 0, true) // nothing has changed under it
}

// TestWritten: what members note is said for one who asks, and ends with the next one's asking and with a hold.
func TestWritten(t *testing.T) {
	c := server(t)
	a, b := openAt(t, c), openAt(t, c)
	is := func(s *Store, by string, wanted map[string]Written) {
		t.Helper()
		check(t, s.Refresh(t.Context()))
		notes, err := s.Notes()
		check(t, err)
		said, err := s.Written()
		check(t, err)
		if notes.By != by || !reflect.DeepEqual(said, wanted) {
			t.Errorf("for %q: %v; wanted for %q: %v", notes.By, said, by, wanted)
		}
	}
	is(b, "", map[string]Written{})
	first, err := a.Note("a")
	check(t, err)
	begun := Written{Since: first}
	check(t, b.SetWritten("b", begun))
	is(a, "a", map[string]Written{"b": begun})
	second, err := a.Note("a")
	if check(t, err); second <= first {
		t.Errorf("since %d, and then since %d", first, second)
	}
	is(b, "a", map[string]Written{})
	whole := Written{Since: second, Whole: true, Tables: []catalog.TableName{{Schema: "shop", Name: "rates"}}, Any: true}
	check(t, b.SetWritten("b", whole))
	check(t, a.Hold("a"))
	is(a, "a", map[string]Written{"b": whole})
	if over, err := a.EndHold("a", 0); !over || err != nil {
		t.Errorf("the end of the hold: %v, %v", over, err)
	}
	is(b, "", map[string]Written{})
}
