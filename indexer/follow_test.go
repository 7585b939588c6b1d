package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// stillTrail is a log in which nothing more happens.
type stillTrail struct {
	dead   bool
	hidden error // it isn't known whether all is visible
	behind bool  // what is visible isn't handed over
	asked  int   // how often somebody waited for that
	at     string
}

func (t *stillTrail) Shown(context.Context) error  { return t.hidden }
func (*stillTrail) CaughtUp(context.Context) error { return nil }
func (t *stillTrail) Live() bool                   { return !t.dead }
func (t *stillTrail) At() string                   { return t.at }

func (t *stillTrail) Abreast(ctx context.Context) error {
	t.asked++
	if t.behind {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// columns is an image: "NULL" is NULL, what is not in it is absent.
type columns map[string]string

func (c columns) Column(col *catalog.Column) ([]byte, bool) {
	v, ok := c[col.Name]
	if !ok || v == "NULL" {
		return nil, ok
	}
	return []byte(v), true
}

// followed is a bench whose shard 0 is followed.
func followed(t *testing.T) (*bench, *follower, *stillTrail) {
	b := newBench(t, 2, nil)
	b.create()
	b.until("the build is done", func() bool { return len(b.store.Jobs()) == 0 })
	trail := &stillTrail{}
	f := b.x.newFollower(0, "", trail)
	b.x.followers.set(0, f)
	t.Cleanup(f.close)
	return b, f, trail
}

func (b *bench) marks() []storage.Mark { return b.store.Marks(b.index().ID) }

func TestFollowerReadsImages(t *testing.T) {
	t.Parallel()
	row := func(id, k string) Image { return columns{"id": id, "k": k} }
	for name, c := range map[string]struct {
		change  RowChange
		adds    string // keys that are added
		gone    string // a key that is looked for
		doubted bool   // the index is marked
		search  bool   // the table is scanned
	}{
		"insert":                            {change: RowChange{After: row("1", "a")}, adds: "a"},
		"insert of NULL":                    {change: RowChange{After: row("1", "NULL")}},
		"insert without the column":         {change: RowChange{After: columns{"id": "1"}}, doubted: true, search: true},
		"delete":                            {change: RowChange{Before: row("1", "a")}, gone: "a"},
		"delete with the primary key alone": {change: RowChange{Before: columns{"id": "1"}}, search: true},
		"update":                            {change: RowChange{Before: row("1", "a"), After: row("1", "b")}, adds: "b", gone: "a"},
		"update to NULL":                    {change: RowChange{Before: row("1", "a"), After: row("1", "NULL")}, gone: "a"},
		"update of another column":          {change: RowChange{Before: row("1", "a"), After: row("1", "a")}},
		"update of the primary key":         {change: RowChange{Before: row("1", "a"), After: row("2", "a")}, adds: "a"},
		"minimal update":                    {change: RowChange{Before: columns{"id": "1"}, After: columns{"k": "b"}}, adds: "b", search: true},
		"minimal update of another column":  {change: RowChange{Before: columns{"id": "1"}, After: columns{}}},
		"minimal update, the key as it was": {change: RowChange{Before: columns{"id": "1", "k": "a"}, After: columns{"id": "2"}}, adds: "a"},
		"minimal update of the primary key": {change: RowChange{Before: columns{"id": "1"}, After: columns{"id": "2"}}, doubted: true, search: true},
		"a value without a key":             {change: RowChange{Before: row("1", "a"), After: row("1", "\xff")}, gone: "a", doubted: true, search: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, f, _ := followed(t)
			if err := f.Change(catalog.TableName{Schema: "s", Name: "t"}, c.change); err != nil {
				t.Fatal(err)
			}
			if err := f.End(); err != nil {
				t.Fatal(err)
			}
			if err := f.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.doubted != (len(b.marks()) > 0) {
				t.Errorf("marks %v, wanted: %v", b.marks(), c.doubted)
			}
			if c.adds != "" {
				b.expect(c.adds, 0)
			}
			gone, search := "", false
			for _, j := range b.store.Jobs() {
				switch j.Type {
				case storage.VerifyKeys:
					gone += b.unkey(j.Keys[0].Key)
				case storage.MaintainIndex:
					search = true
				}
			}
			if gone != c.gone || search != c.search {
				t.Errorf("looked for %q, a scan: %v; wanted %q, %v", gone, search, c.gone, c.search)
			}
		})
	}
}

// TestGeneratedImages: a generated column that a new image lacks isn't taken for what it was, but where that is known.
func TestGeneratedImages(t *testing.T) {
	t.Parallel()
	v := &catalog.Column{Name: "v", Generated: true, Expression: "concat(`k`,'v')"}
	table := &catalog.Table{Columns: []*catalog.Column{{Name: "k"}, v}, PrimaryKey: []*catalog.Column{v}}
	for name, x := range map[string]struct {
		change RowChange
		now    string // "": unknown
		kept   bool
	}{
		"what it is computed from was changed": {RowChange{columns{"k": "a", "v": "av"}, columns{"k": "b"}}, "", false},
		"it is as it was":                      {RowChange{columns{"k": "a", "v": "av"}, columns{"k": "a"}}, "av", true},
		"it is there":                          {RowChange{columns{"k": "a"}, columns{"k": "b", "v": "bv"}}, "bv", false},
		"nobody has it, and it was changed":    {RowChange{columns{"k": "a"}, columns{"k": "b"}}, "", false},
		"nobody has it, and it is as it was":   {RowChange{columns{"k": "a"}, columns{"k": "a"}}, "", true},
	} {
		raw, ok := x.change.now(table).Column(v)
		if string(raw) != x.now || ok != (x.now != "") {
			t.Errorf("%s: it is %q, known: %v", name, raw, ok)
		}
		if kept := x.change.keeps(table, []*catalog.Column{v}); kept != x.kept {
			t.Errorf("%s: kept: %v", name, kept)
		}
		if is, same := moved(table, x.change), x.kept; is == same {
			t.Errorf("%s: the primary key has changed: %v", name, is)
		}
	}
}

// unkey finds the value of a short key.
func (b *bench) unkey(key []byte) string {
	for _, v := range []string{"a", "b"} {
		if string(b.key(v)) == string(key) {
			return v
		}
	}
	return "?"
}

// TestFollowerClears: marks of statements that it has seen, and no others; those from before are left to
// scans. While it follows, such statements leave no jobs.
func TestFollowerClears(t *testing.T) {
	t.Parallel()
	b, f, trail := followed(t)
	statement := func(logged bool) {
		t.Helper()
		o := b.x.Begin(catalog.Only(0))
		m := plan.Mark{Index: b.index(), Shard: 0, Logged: logged}
		if err := b.x.Prepare(t.Context(), o, nil, []plan.Mark{m}, []*catalog.Table{b.index().Table}, catalog.Only(0)); err != nil {
			t.Fatal(err)
		}
		o.End()
		b.x.After(plan.Maintenance{Table: b.index().Table, Operation: "UPDATE", Shards: catalog.Only(0), Indexes: []*catalog.Index{b.index()}, Logged: logged})
	}
	clears := func() {
		t.Helper()
		if err := f.clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	jobs := func() int { return len(b.store.Jobs()) }
	scanned := func() bool {
		if err := f.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(b.marks()) == 0 && jobs() == 0
	}

	statement(true)
	if jobs() != 0 || len(b.marks()) != 1 {
		t.Fatalf("%d jobs, marks %v", jobs(), b.marks())
	}
	clears() // the follower may have begun behind it
	if m := b.marks(); len(m) != 1 || m[0].Logged || jobs() != 1 {
		t.Fatalf("%d jobs, marks %v", jobs(), m)
	}
	b.until("the scan has cleared it", scanned)

	statement(true)
	clears()
	if len(b.marks()) != 0 || jobs() != 0 {
		t.Fatalf("%d jobs, marks %v", jobs(), b.marks())
	}
	statement(false)
	clears()
	if len(b.marks()) != 1 || jobs() != 1 {
		t.Fatalf("a mark of what isn't in the log: %d jobs, marks %v", jobs(), b.marks())
	}
	b.until("the scan has cleared it", scanned)

	statement(true)
	f.Resumed() // the server may have started anew
	clears()
	if m := b.marks(); len(m) != 1 || m[0].Logged || jobs() != 1 {
		t.Fatalf("a mark from before: %d jobs, marks %v", jobs(), m)
	}
	b.until("the scan has cleared it", scanned)

	trail.dead = true
	statement(true)
	if jobs() != 1 {
		t.Fatalf("%d jobs while the log isn't read", jobs())
	}
}

// TestFollowerIsOpen: an entry that was made of a change that isn't visible yet stays, whatever looks for its
// row.
func TestFollowerIsOpen(t *testing.T) {
	t.Parallel()
	b, f, trail := followed(t)
	if err := f.Change(catalog.TableName{Schema: "s", Name: "t"}, RowChange{After: columns{"id": "1", "k": "a"}}); err != nil {
		t.Fatal(err)
	}
	if err := f.End(); err != nil {
		t.Fatal(err)
	}
	look := func() {
		b.x.After(plan.Maintenance{Table: b.index().Table, Operation: "READ", Shards: catalog.Only(0), Keys: []plan.Probe{b.probe("a")}})
	}
	look()
	b.pass(3 * time.Second)
	b.expect("a", 0)
	trail.hidden = errors.New("the server doesn't answer")
	for range 2 {
		if err := f.renew(t.Context()); !errors.Is(err, trail.hidden) {
			t.Fatal(err)
		}
	}
	look()
	b.pass(3 * time.Second)
	b.expect("a", 0)
	trail.hidden = nil
	if err := f.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	look()
	b.until("there is no such row", func() bool { return len(b.shardsOf("a")) == 0 })
}

// TestFollowerLooksBehind: the entry of a row that comes and goes at once goes, too, as soon as the shard shows that the row is
// gone.
func TestFollowerLooksBehind(t *testing.T) {
	t.Parallel()
	b, f, trail := followed(t)
	row := columns{"id": "1", "k": "a"}
	for _, c := range []RowChange{{After: row}, {Before: row}} {
		if err := f.Change(catalog.TableName{Schema: "s", Name: "t"}, c); err != nil {
			t.Fatal(err)
		}
		if err := f.End(); err != nil {
			t.Fatal(err)
		}
	}
	b.pass(3 * time.Second)
	trail.hidden = errors.New("the server doesn't answer")
	if err := f.renew(t.Context()); !errors.Is(err, trail.hidden) {
		t.Fatal(err)
	}
	b.pass(3 * time.Second)
	b.expect("a", 0)
	trail.hidden = nil
	if err := f.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until("the entry is gone", func() bool { return len(b.shardsOf("a")) == 0 })
	if f.looks() {
		t.Error("something is still to be looked for")
	}
}

// noLog is one that can't be followed from where it was.
type noLog struct{ from []string }

func (*noLog) Fit(context.Context, catalog.ShardID) error { return nil }

func (l *noLog) Follow(_ context.Context, _ catalog.ShardID, from string, _ func(Trail) Reader) error {
	l.from = append(l.from, from)
	return fmt.Errorf("%w: it was purged", ErrNoPlace)
}

// TestFollowerKeepsItsPlace: behind a scan of what was there before, when all that it has passed is visible. A place that a
// log has lost is forgotten.
func TestFollowerKeepsItsPlace(t *testing.T) {
	t.Parallel()
	b, f, trail := followed(t)
	place := func() string {
		t.Helper()
		at, err := b.store.Position(0)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	keep := func(f *follower) {
		t.Helper()
		if err := f.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.shards[0].set(7, "a") // by somebody else
	trail.at = "1"
	keep(f)
	if at := place(); at != "1" {
		t.Errorf("at %q", at)
	}
	b.until("the row is found", func() bool { return len(b.shardsOf("a")) == 1 && len(b.store.Jobs()) == 0 })
	trail.at, trail.hidden = "2", errors.New("the server doesn't answer")
	if err := f.keep(t.Context()); !errors.Is(err, trail.hidden) {
		t.Error(err)
	}
	if at := place(); at != "1" {
		t.Errorf("at %q, and it isn't known whether all is visible", at)
	}
	trail.hidden = nil
	keep(f)
	if at := place(); at != "2" {
		t.Errorf("at %q", at)
	}
	next := b.x.newFollower(0, "2", trail)
	defer next.close()
	b.shards[0].set(8, "b")
	keep(next)
	b.pass(3 * time.Second)
	if len(b.shardsOf("b")) != 0 {
		t.Error("a scan, though it goes on where it was")
	}
	log := &noLog{}
	b.x.opts.Logs = log
	for range 2 {
		if err := b.x.followOnce(t.Context(), 0); !errors.Is(err, ErrNoPlace) {
			t.Error(err)
		}
	}
	if want := []string{"2", ""}; !slices.Equal(log.from, want) || place() != "" {
		t.Errorf("followed from %q, then %q is kept", log.from, place())
	}
}
