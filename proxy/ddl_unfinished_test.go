package proxy

import (
	"context"
	"log/slog"
	"maps"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// TestUnfinishedForgets: what else changes the same thing has unfinished DDL forgotten, and nothing else does.
func TestUnfinishedForgets(t *testing.T) {
	t.Parallel()
	both := catalog.Only(0).Union(catalog.Only(1))
	table := func(op, name string) *plan.DDL {
		return &plan.DDL{Op: op, Tables: []catalog.TableName{{Schema: "Shop", Name: name}}, Renamed: make([]catalog.TableName, 1), Shards: both}
	}
	of := func(op, schema string) *plan.DDL { return &plan.DDL{Op: op, Schema: schema, Shards: both} }
	renamed := table("RENAME TABLE", "a")
	renamed.Renamed[0] = catalog.TableName{Schema: "Shop", Name: "b"}
	for _, x := range []struct {
		left, next *plan.DDL
		forgotten  bool
	}{
		{table("ALTER TABLE", "a"), table("DROP TABLE", "a"), true},
		{table("ALTER TABLE", "a"), table("CREATE INDEX", "b"), false},
		{renamed, table("CREATE TABLE", "b"), true},
		{table("ALTER TABLE", "a"), of("DROP DATABASE", "shop"), true},
		{table("ALTER TABLE", "a"), of("DROP DATABASE", "other"), false},
		{table("ALTER TABLE", "a"), of("CREATE PROCEDURE", "Shop"), false},
		{of("CREATE PROCEDURE", "Shop"), of("DROP PROCEDURE", "Shop"), true},
		{of("CREATE PROCEDURE", "Shop"), table("CREATE TABLE", "a"), false},
		{table("CREATE TRIGGER", "a"), of("DROP TRIGGER", "Shop"), true},
	} {
		u := &Unfinished{store: nowhere{}, log: slog.New(slog.DiscardHandler), open: map[string]*try{}}
		left := u.begin("Shop", "the one", x.left)
		u.sent(left, both, true)
		left.Done = catalog.Only(0)
		u.end(left, 1)
		if again := u.begin("Shop", " the one ", x.left); again.Done != left.Done {
			t.Errorf("%s: not known again", x.left.Op)
		}
		u.begin("Shop", "another", x.next)
		if forgotten := len(u.left()) == 0; forgotten != x.forgotten {
			t.Errorf("%s, then %s: forgotten %v, want %v", x.left.Op, x.next.Op, forgotten, x.forgotten)
		}
	}
	// A table's rows may have come since.
	u := &Unfinished{store: nowhere{}, log: slog.New(slog.DiscardHandler), open: map[string]*try{}}
	left := u.begin("Shop", "TRUNCATE TABLE a", table("TRUNCATE TABLE", "a"))
	left.Done = catalog.Only(0)
	u.end(left, 1)
	if again := u.begin("Shop", "TRUNCATE TABLE a", table("TRUNCATE TABLE", "a")); !again.Done.Empty() {
		t.Errorf("TRUNCATE goes to some shards only: %v", again.Done)
	}
}

// shelf is a store of two processes.
type shelf struct{ kept map[string]UnfinishedDDL }

func (*shelf) Refresh(context.Context) (bool, error)           { return true, nil }
func (s *shelf) Unfinished() (map[string]UnfinishedDDL, error) { return maps.Clone(s.kept), nil }
func (s *shelf) KeepUnfinished(key string, u UnfinishedDDL, _ bool) error {
	s.kept[key] = u
	return nil
}

func (s *shelf) ForgetUnfinished(key string) error {
	delete(s.kept, key)
	return nil
}

// lonely is a shelf on which nobody else puts anything.
type lonely struct {
	shelf
	read int
}

func (*lonely) Refresh(context.Context) (bool, error) { return false, nil }
func (l *lonely) Unfinished() (map[string]UnfinishedDDL, error) {
	l.read++
	return l.shelf.Unfinished()
}

// TestUnfinishedAlone: a process that has its store alone reads it at its start, and not with each DDL. In a
// database all that was there before is passed over, so that DDL got dearer with all DDL before it.
func TestUnfinishedAlone(t *testing.T) {
	t.Parallel()
	kept := &lonely{shelf: shelf{map[string]UnfinishedDDL{}}}
	u, err := NewUnfinished(t.Context(), kept, lives{self: "1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	began, both := kept.read, catalog.Only(0).Union(catalog.Only(1))
	d := &plan.DDL{Op: "ALTER TABLE", Tables: []catalog.TableName{{Schema: "shop", Name: "a"}}, Shards: both}
	for range 5 {
		x := u.begin("shop", "the one", d)
		u.sent(x, both, true)
		if err := u.Follow(t.Context(), namesOf("shop", d)); err != nil {
			t.Fatal(err)
		}
		x.Done = catalog.Only(0)
		u.end(x, 1)
	}
	if kept.read != began || len(u.left()) != 1 {
		t.Errorf("read %d times, %d are left", kept.read-began, len(u.left()))
	}
}

type lives struct {
	self string
	gone map[string]bool
}

func (l lives) Self() string                             { return l.self }
func (l lives) Gone(_ context.Context, life string) bool { return l.gone[life] }

// TestUnfinishedOfOthers: what another process is at is no concern of this one's, until the
// other one has left it, or has died. Then this one sends it to the shards that lack it.
func TestUnfinishedOfOthers(t *testing.T) {
	t.Parallel()
	kept, gone := &shelf{map[string]UnfinishedDDL{}}, map[string]bool{}
	both := catalog.Only(0).Union(catalog.Only(1))
	d := &plan.DDL{Op: "ALTER TABLE", Tables: []catalog.TableName{{Schema: "shop", Name: "a"}}, Shards: both}
	begun := func(self string) *Unfinished {
		u, err := NewUnfinished(t.Context(), kept, lives{self, gone}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	follow := func(u *Unfinished, turn bool, left int) {
		t.Helper()
		var of *UnfinishedDDL
		if turn {
			of = namesOf("shop", d)
		}
		if err := u.Follow(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		if n := len(u.left()); n != left {
			t.Errorf("%d are left, want %d", n, left)
		}
	}
	one, two := begun("1"), begun("2")
	x := one.begin("shop", "the one", d)
	one.sent(x, both, true)
	follow(begun("3"), false, 0) // it starts meanwhile
	follow(one, true, 0)         // its own
	x.Done = catalog.Only(0)
	one.end(x, 1)
	follow(two, false, 1)
	follow(one, false, 1)
	same := two.left()[0]
	follow(two, false, 1)
	if two.left()[0] != same {
		t.Error("replaced, and it is the same")
	}
	again := two.begin("shop", "the one", d)
	if again.Done != x.Done {
		t.Errorf("sent again to all: %+v", again)
	}
	two.sent(again, catalog.Only(1), true)
	follow(one, false, 0)
	two.end(again, 0)
	follow(one, false, 0)
	if len(kept.kept) != 0 {
		t.Errorf("kept: %v", kept.kept)
	}
	two.sent(again, catalog.Only(1), true)
	gone["2"] = true
	follow(one, false, 1)
	gone["2"] = false // it lives, and has lost its turn
	follow(one, false, 0)
	follow(one, true, 1)
}
