package proxy

import (
	"errors"
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/mysqlerr"
)

func messages(d *diagnostics) (all []string) {
	for _, w := range d.warnings {
		all = append(all, string(w[2]))
	}
	return all
}

// TestRowCount: ROW_COUNT() is what the statement before has changed, -1 after an error and rows.
func TestRowCount(t *testing.T) {
	t.Parallel()
	var d diagnostics
	for _, x := range []struct {
		outcome func()
		told    int64
	}{
		{func() { d.ok(3) }, 0},
		{func() { d.answers(2) }, 3},
		{func() { d.ok(5); d.end(1062, "duplicate") }, -1},
		{func() { d.ok(1) }, -1},
		{func() {}, 1},
	} {
		if d.begin(); d.rows != x.told {
			t.Errorf("ROW_COUNT() is %d, want %d", d.rows, x.told)
		}
		x.outcome()
	}
}

func TestFoundRowsTold(t *testing.T) {
	t.Parallel()
	var d diagnostics
	d.begin()
	d.answers(4)
	d.findAnswered()
	if d.begin(); d.found != 4 {
		t.Errorf("found %d", d.found)
	}
	if d.findAnswered(); d.found != 4 { // the statement has answered no rows
		t.Errorf("found %d", d.found)
	}
	undo := d.keepFound()
	d.setFound(9)
	if undo(); d.found != 4 {
		t.Errorf("found %d after a query of ours", d.found)
	}
}

// TestGivenIDs: of several INSERTs of ours each may give a row an id, and the others see the one of
// before.
func TestGivenIDs(t *testing.T) {
	t.Parallel()
	d := diagnostics{insertID: 7}
	id, given, err := d.givenIn(func() error { d.give(7); return errors.ErrUnsupported })
	if id != 7 || !given || !errors.Is(err, errors.ErrUnsupported) || d.insertID != 7 {
		t.Errorf("gives %d, %t, %v", id, given, err)
	}
	if _, given, _ := d.givenIn(func() error { d.setID(8); return nil }); given || d.insertID != 7 {
		t.Errorf("given is %t, id %d", given, d.insertID)
	}
	if d.giveNew(0); d.insertID != 7 {
		t.Errorf("id %d", d.insertID)
	}
	id, given, _ = d.givenIn(func() error { d.give(9); d.fail(1062, "duplicate"); return nil })
	if id != 9 || given {
		t.Errorf("gives %d, %t though the shard has refused it", id, given)
	}
}

// TestConditions: what SHOW WARNINGS tells.
func TestConditions(t *testing.T) {
	t.Parallel()
	var d diagnostics
	want := func(told ...string) {
		t.Helper()
		if got := messages(&d); !slices.Equal(got, told) {
			t.Errorf("tells %q, want %q", got, told)
		}
	}
	d.warn(1265, "truncated at row 1")
	d.add(condition("Note", 1287, "deprecated"))
	if !d.has(condition("Note", 1287, "deprecated")) || d.has(condition("Warning", 1287, "deprecated")) || d.count() != 2 {
		t.Error(messages(&d))
	}
	if left := d.ofRow(4); left != 1 { // of the text, which the first row tells
		t.Error(left)
	}
	want("truncated at row 5")
	d.reword(func(m string) string { return m + "!" })
	want("truncated at row 5!")

	before := d.warnings
	if d.clear(); d.count() != 0 {
		t.Error(d.count())
	}
	d.keepBefore(before)
	want("truncated at row 5!")
	d.warn(1, "new")
	d.keepBefore(before)
	want("truncated at row 5!", "new")
	d.replace(before...)
	d.forget(before)
	want()

	d.fail(1205, "lock wait")
	if want("lock wait"); d.failed != 1205 || !d.told {
		t.Error(d.failed, d.told)
	}
	if d.untold(); d.failed != 0 || d.told {
		t.Error(d.failed, d.told)
	}
	d.below(condition("Note", mysqlerr.UnknownError, "s0: done"))
	d.end(mysqlerr.UnknownError, "s1 failed")
	want("s1 failed", "s0: done")
	d.end(mysqlerr.UnknownError, "again")
	want("again")
}
