package shared

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// servers are homes a, b and c: schemas of one server.
type servers struct {
	t    *testing.T
	at   home.Config
	gone map[string]bool
}

func newServers(t *testing.T) *servers {
	t.Helper()
	at := server(t)
	at.Connections = 4
	return &servers{t, at, map[string]bool{}}
}

// db is the server itself.
func (s *servers) db(t *testing.T) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd = "tcp", s.at.Addr, s.at.User, s.at.Password
	db, err := sql.Open("mysql", c.FormatDSN())
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

func (s *servers) named(name string) Server {
	at := Server{Name: name, Config: s.at}
	at.Schema = "home_" + name
	return at
}

// process opens the store as one of its processes, with the homes of a list like "a b".
func (s *servers) process(self, names string) (*Store, error) {
	s.t.Helper()
	list := strings.Fields(names)
	h, err := home.Open(s.t.Context(), s.named(list[0]).Config)
	check(s.t, err)
	p, err := Open(s.t.Context(), Options{Home: h, Server: list[0], Logger: slog.New(slog.DiscardHandler)})
	check(s.t, err)
	s.t.Cleanup(func() { check(s.t, p.Close()) })
	id, err := p.Cluster("cluster")
	check(s.t, err)
	var more []Server
	for _, name := range list[1:] {
		more = append(more, s.named(name))
	}
	check(s.t, p.OpenHomes(s.t.Context(), id, more))
	return p, p.Agree(self, func(_ context.Context, of string) bool { return s.gone[of] })
}

func (s *servers) must(self, names string) *Store {
	s.t.Helper()
	p, err := s.process(self, names)
	check(s.t, err)
	return p
}

func create(t *testing.T, s *Store, name, on string) storage.IndexRecord {
	t.Helper()
	return createOf(t, s, "users", name, on)
}

func createOf(t *testing.T, s *Store, table, name, on string) storage.IndexRecord {
	t.Helper()
	d, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: table, Name: name, Columns: []string{"email"}, Home: on})
	check(t, err)
	return d
}

// built finishes the build of an index.
func built(t *testing.T, s *Store, id catalog.IndexID, floors map[catalog.ShardID]storage.Epoch) {
	t.Helper()
	check(t, s.Refresh(t.Context()))
	d, _ := s.Index(id)
	check(t, s.FinishBuild(id, d.BuildGeneration, floors))
}

func add(t *testing.T, s *Store, id catalog.IndexID, key string, shard catalog.ShardID, e storage.Epoch) {
	t.Helper()
	check(t, s.Add([]storage.Entry{{Index: id, Key: []byte(key), Shard: shard, Epoch: e}}))
}

func wantFound(t *testing.T, s *Store, id catalog.IndexID, key string, want ...catalog.ShardID) {
	t.Helper()
	f, err := s.Lookup(id, []byte(key), nil)
	var set catalog.ShardSet
	for _, id := range want {
		set.Add(id)
	}
	if err != nil || f.Shards != set {
		t.Errorf("%s is on %v (%v), want %v", key, f.Shards, err, want)
	}
}

// take has a home taken for out, until back is called.
func take(s *Store, name string) (back func()) {
	p := s.place(name)
	p.out.Store(&OutError{Home: p.told(), Cause: errors.New("gone")})
	return func() { p.out.Store(nil) }
}

// TestSpread: an index goes to the home of its table's others, of a new table to the home that has the fewest
// tables, or to the one that is named.
func TestSpread(t *testing.T) {
	s := newServers(t)
	p := s.must("p", "a b c")
	var at []string
	for i, table := range strings.Fields("users orders users:c users items items orders bills") {
		table, on, _ := strings.Cut(table, ":")
		at = append(at, createOf(t, p, table, fmt.Sprint("i", i), on).Home)
	}
	if want := []string{"a", "b", "c", "a", "a", "a", "b", "b"}; !slices.Equal(at, want) {
		t.Errorf("they are on %v, want %v", at, want)
	}
	if _, err := p.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "x", Home: "d"}); !errors.Is(err, ErrNoHome) {
		t.Error(err)
	}
	back := take(p, "c")
	if d := createOf(t, p, "more", "i8", ""); d.Home == "c" {
		t.Error("an index goes to a home that is away")
	}
	back()
	// Each has what is of it, and the process sees all.
	check(t, p.Mark([]storage.Mark{{Index: 1, Shard: 1, Epoch: 1}, {Index: 2, Shard: 2, Epoch: 1}, {Index: 99, Shard: 1, Epoch: 1}}))
	if m := p.AllMarks(); len(m) != 2 || len(p.Marks(2)) != 1 || len(p.Marks(3)) != 0 {
		t.Errorf("marks %v", m)
	}
	for id := catalog.IndexID(1); id <= 6; id++ {
		built(t, p, id, nil)
		add(t, p, id, "k", catalog.ShardID(id), 1)
		wantFound(t, p, id, "k", catalog.ShardID(id))
	}
}

// TestMove: what is written while an index moves is found at both homes, and the other process, which is
// late, never looks where nothing is added any more.
func TestMove(t *testing.T) {
	s := newServers(t)
	p, late := s.must("p", "a b"), s.must("late", "a b")
	id := create(t, p, "i", "a").ID
	built(t, p, id, nil)
	add(t, p, id, "old", 1, 1)
	gate, err := p.OpenGate(id, 1, 3)
	check(t, err)
	check(t, late.Refresh(t.Context()))

	check(t, p.Move(id, "b", false))
	d, _ := p.Index(id)
	if d.Home != "a" || d.Target != "b" || !d.HasBuild || !d.Readable || d.BuildGeneration <= generationsOf {
		t.Fatalf("%+v", d)
	}
	add(t, p, id, "both", 2, 4)
	check(t, p.Mark([]storage.Mark{{Index: id, Shard: 3, Epoch: 4}}))
	wantFound(t, p, id, "old", 1, 3)
	wantFound(t, p, id, "both", 2, 3)
	// A scan is of the home that is read, and leaves the other one's marks.
	scan, err := p.OpenGate(id, 3, 5)
	check(t, err)
	if _, n, err := p.Retire(storage.Retirement{Index: id, Shard: 3, Gate: scan, Before: 5, After: 6, Marks: true}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	wantFound(t, p, id, "both", 2)

	built(t, p, id, map[catalog.ShardID]storage.Epoch{1: 9})
	d, _ = p.Index(id)
	if d.Home != "b" || d.Target != "" || d.Former != "a" || d.HasBuild {
		t.Fatalf("%+v", d)
	}
	wantFound(t, p, id, "old", 3) // the build of this test adds nothing
	wantFound(t, p, id, "both", 2, 3)
	if f, err := p.Lookup(id, []byte("old"), nil); err != nil || f.Floors.Floor(1) != 9 {
		t.Errorf("%+v %v", f, err)
	}
	add(t, p, id, "new", 1, 10)
	wantFound(t, late, id, "new", 1) // at a
	if _, _, err := p.Retire(storage.Retirement{Index: id, Shard: 1, Gate: gate, Before: 9, After: 9, Keys: [][]byte{[]byte("new")}}); !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("a scan that began before the move: %v", err)
	}

	check(t, p.EndMove(id))
	if _, err := late.Lookup(id, []byte("new"), nil); !errors.Is(err, storage.ErrNoIndex) {
		t.Errorf("who is late finds %v", err)
	}
	check(t, late.Refresh(t.Context()))
	wantFound(t, late, id, "new", 1, 3)
	if n := late.Stats().Indexes[id].Entries; n != 2 {
		t.Errorf("%d entries", n)
	}
	// And back, with another number than any generation of before.
	was := d.ReadGeneration
	check(t, late.Move(id, "a", false))
	if d, _ = late.Index(id); d.BuildGeneration <= was {
		t.Errorf("generation %d after %d", d.BuildGeneration, was)
	}
	// Given up: it stays where it is.
	check(t, late.Move(id, "b", false))
	if d, _ = late.Index(id); d.Home != "b" || d.Target != "" || !d.HasBuild {
		t.Errorf("%+v", d)
	}
	built(t, late, id, nil)
	add(t, late, id, "k", 1, 1)
	wantFound(t, late, id, "k", 1, 3)
}

// TestMoveCut: the process dies between the end of the build and the record of it.
func TestMoveCut(t *testing.T) {
	s := newServers(t)
	p := s.must("p", "a b")
	id := create(t, p, "i", "a").ID
	built(t, p, id, nil)
	check(t, p.Move(id, "b", false))
	d, _ := p.Index(id)
	add(t, p, id, "k", 1, 1)
	b, err := p.reach("b")
	check(t, err)
	check(t, b.FinishBuild(t.Context(), id, d.BuildGeneration, nil))
	next := s.must("next", "a b")
	d, _ = next.Index(id)
	if d.Home != "a" || !d.HasBuild {
		t.Fatalf("%+v", d)
	}
	if err := next.FinishBuild(id, d.BuildGeneration+1, nil); !errors.Is(err, storage.ErrSuperseded) {
		t.Error(err)
	}
	check(t, next.FinishBuild(id, d.BuildGeneration, nil))
	if d, _ = next.Index(id); d.Home != "b" || d.Former != "a" {
		t.Fatalf("%+v", d)
	}
	wantFound(t, next, id, "k", 1)
}

// TestHomeOut: a home that is away fails what is of its indexes alone; an index that may be read there
// isn't dropped, and one that nobody reads leaves something behind, which is removed later.
func TestHomeOut(t *testing.T) {
	s := newServers(t)
	p := s.must("p", "a b")
	first, second := create(t, p, "i", "a").ID, create(t, p, "j", "b").ID
	built(t, p, first, nil)
	built(t, p, second, nil)
	back := take(p, "b")
	add(t, p, first, "k", 1, 1)
	wantFound(t, p, first, "k", 1)
	if p.Outage(first) != nil {
		t.Error("the other one's is taken for away")
	}
	for what, err := range map[string]error{
		"add":    p.Add([]storage.Entry{{Index: first, Key: []byte("x"), Shard: 1, Epoch: 1}, {Index: second, Key: []byte("x"), Shard: 1, Epoch: 1}}),
		"mark":   p.Mark([]storage.Mark{{Index: second, Shard: 1, Epoch: 1}}),
		"outage": p.Outage(second),
		"drop":   p.DropIndex(second),
		"build":  p.StartBuild(second, 0),
	} {
		if out, ok := errors.AsType[*OutError](err); !ok || !strings.HasPrefix(out.Home, "b (") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := p.Lookup(second, []byte("x"), nil); err == nil {
		t.Error("a lookup")
	}
	if n := p.Removals(); n == p.Removals() {
		t.Error("what is removed isn't known")
	}
	check(t, p.UpdateIndex(second, func(d *storage.IndexRecord) { d.Status = catalog.Building }))
	check(t, p.DropIndex(second))
	back()
	check(t, p.Sweep(t.Context()))
	b, err := p.reach("b")
	check(t, err)
	if heads, err := b.Heads(t.Context()); err != nil || len(heads) != 0 {
		t.Errorf("left: %v %v", heads, err)
	}
	wantFound(t, p, first, "k", 1)

	// One that is lost with its home is placed on another.
	check(t, p.UpdateIndex(first, func(d *storage.IndexRecord) { d.Status = catalog.Building }))
	take(p, "a") // but for the records
	check(t, p.Move(first, "b", true))
	if d, _ := p.Index(first); d.Home != "b" || d.Target != "" || d.Readable || !d.HasBuild {
		t.Errorf("%+v", d)
	}
	add(t, p, first, "n", 2, 1)
	built(t, p, first, nil)
	wantFound(t, p, first, "n", 2)
}

// TestForsakenByTwo: one process places a forsaken index, and one that hasn't heard of that takes nothing of it away.
func TestForsakenByTwo(t *testing.T) {
	s := newServers(t)
	p, q := s.must("p", "a b"), s.must("q", "a b")
	id := create(t, p, "i", "b").ID
	built(t, p, id, nil)
	check(t, p.UpdateIndex(id, func(d *storage.IndexRecord) { d.Status = catalog.Building }))
	check(t, p.Forsake(id))
	check(t, q.Refresh(t.Context()))
	check(t, p.StartBuild(id, 0))
	add(t, p, id, "k", 1, 1)
	check(t, q.StartBuild(id, 0))
	add(t, p, id, "n", 2, 1)
	built(t, q, id, nil)
	check(t, p.Refresh(t.Context()))
	wantFound(t, p, id, "n", 2)
}

// TestMovesForgotten: an index is placed where a home is still removing what it had of it, by a number that the records have
// forgotten.
func TestMovesForgotten(t *testing.T) {
	p := newServers(t).must("p", "a b")
	id := create(t, p, "i", "b").ID
	built(t, p, id, nil)
	for range 3 {
		check(t, p.UpdateIndex(id, func(d *storage.IndexRecord) { d.Status = catalog.Building }))
		check(t, p.Forsake(id))
		check(t, p.StartBuild(id, 0))
		add(t, p, id, "k", 1, 1)
	}
	check(t, p.alter(id, func(d *storage.IndexRecord) { d.Moves, d.Forsaken = 0, true }))
	check(t, p.StartBuild(id, 0))
	add(t, p, id, "n", 2, 1)
	built(t, p, id, nil)
	wantFound(t, p, id, "n", 2)
	wantFound(t, p, id, "k")
	for more := true; more; {
		var err error
		more, err = p.DeleteGarbage(t.Context(), 10)
		check(t, err)
	}
	wantFound(t, p, id, "n", 2)
}

// TestRefusedUnread: what a server refuses is given up at once while nobody reads by it, by a process that is late as
// well, and a build that was under way doesn't make it readable. One that is read is given up by Away alone.
func TestRefusedUnread(t *testing.T) {
	s := newServers(t)
	p, q := s.must("p", "a b"), s.must("q", "a b")
	read, unread := create(t, p, "i", "b").ID, create(t, p, "j", "b").ID
	built(t, p, read, nil)
	check(t, q.Refresh(t.Context()))
	d, _ := p.Index(unread)
	db := s.db(t)
	refuse := func(yes bool) {
		t.Helper()
		statement := "DROP TRIGGER home_b.refuse"
		if yes {
			statement = "CREATE TRIGGER home_b.refuse BEFORE INSERT ON home_b.entries FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'"
		}
		_, err := db.ExecContext(t.Context(), statement)
		check(t, err)
	}
	entry := func(id catalog.IndexID, key string) storage.Entry {
		return storage.Entry{Index: id, Key: []byte(key), Shard: 1, Epoch: 1}
	}
	refuse(true)
	err := p.Add([]storage.Entry{entry(read, "k"), entry(unread, "k"), entry(unread, "l")})
	if out, ok := errors.AsType[*OutError](err); !ok || !out.Refuses {
		t.Fatalf("an index that is read: %v", err)
	}
	if d, _ := p.Index(read); d.Forsaken {
		t.Error("an index that is read is given up")
	}
	if d, _ := p.Index(unread); !d.Forsaken {
		t.Error("one that nobody reads isn't given up")
	}
	check(t, p.Add([]storage.Entry{entry(unread, "k")}))
	check(t, q.Add([]storage.Entry{entry(unread, "m")})) // which hasn't heard of it
	if err := q.FinishBuild(unread, d.BuildGeneration, nil); !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("a build that was under way: %v", err)
	}
	refuse(false)
	check(t, q.StartBuild(unread, 0))
	check(t, p.Refresh(t.Context()))
	add(t, p, unread, "n", 2, 1)
	built(t, q, unread, nil)
	wantFound(t, q, unread, "n", 2)
	// Read now, and not given up by a write any more.
	refuse(true)
	if err := q.Add([]storage.Entry{entry(unread, "o")}); err == nil {
		t.Error("an entry of an index that is read is lost")
	}
}

// TestRefusals: a server that takes some writes, and refuses others, refuses; until it takes all for a while.
func TestRefusals(t *testing.T) {
	var r refusals
	begin := time.Now()
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	const quiet = 10 * time.Second
	for _, x := range []struct {
		at      int
		taken   bool
		told    bool
		lasted  time.Duration
		whereas string
	}{
		{0, true, false, 0, "none was refused"},
		{1, false, true, 0, "the first"},
		{2, true, false, 0, "a small one is taken"},
		{8, false, false, 7 * time.Second, "another one is refused"},
		{15, false, false, 14 * time.Second, "and again"},
		{26, true, true, 0, "nothing was refused for long"},
		{27, false, true, 0, "anew"},
		{90, false, true, 0, "nobody has tried meanwhile"},
	} {
		told := false
		if x.taken {
			told = r.end(at(x.at), quiet)
		} else {
			told = r.add(at(x.at))
		}
		if lasted := r.lasted(at(x.at)); told != x.told || lasted != x.lasted {
			t.Errorf("%d s, %s: told %v, lasted %s", x.at, x.whereas, told, lasted)
		}
	}
}

// TestLostHead: an index that its home has lost is placed there anew by the next build.
func TestLostHead(t *testing.T) {
	s := newServers(t)
	p := s.must("p", "a b")
	id := create(t, p, "i", "b").ID
	built(t, p, id, nil)
	b, err := p.reach("b")
	check(t, err)
	check(t, b.DropIndex(t.Context(), id))
	if _, err := p.Lookup(id, []byte("k"), nil); !errors.Is(err, storage.ErrNoIndex) {
		t.Error(err)
	}
	check(t, p.StartBuild(id, 0))
	add(t, p, id, "k", 1, 1)
	built(t, p, id, nil)
	wantFound(t, p, id, "k", 1)
}

// TestAgree: all processes have the same homes. One that is added is used once all have it; one with an
// index isn't left out; the first stays.
func TestAgree(t *testing.T) {
	s := newServers(t)
	p := s.must("p", "a")
	q := s.must("q", "a b")
	if d := create(t, q, "i0", ""); d.Home != "a" {
		t.Errorf("%+v", d)
	}
	_, err := q.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "x", Home: "b"})
	if !errors.Is(err, ErrNoHome) || !strings.Contains(err.Error(), "restart member p") {
		t.Error(err)
	}
	s.gone["p"] = true
	id := createOf(t, q, "orders", "i1", "").ID
	if d, _ := q.Index(id); d.Home != "b" {
		t.Errorf("%+v", d)
	}
	built(t, q, id, nil)
	// One that was started without it, and isn't gone after all: it is wide, and refuses.
	check(t, p.Refresh(t.Context()))
	if _, err := p.Lookup(id, []byte("k"), nil); err == nil {
		t.Error("a home that isn't there is read")
	}
	if err := p.Add([]storage.Entry{{Index: id, Key: []byte("k"), Shard: 1, Epoch: 1}}); err == nil {
		t.Error("a home that isn't there is added to")
	}
	if _, err := s.process("r", "a"); err == nil || !strings.Contains(err.Error(), "server b of the store, which has virtual indexes") || !strings.Contains(err.Error(), "i1 ON shop.orders") {
		t.Error(err)
	}
	check(t, q.Move(id, "a", false))
	built(t, q, id, nil)
	check(t, q.EndMove(id))
	r := s.must("r", "a")
	check(t, r.Sweep(t.Context()))
	if names, err := r.state.Load().names("p"); err != nil || names != nil {
		t.Errorf("what p has said is still there: %v %v", names, err)
	}
	if d := create(t, q, "i2", ""); d.Home != "a" {
		t.Errorf("an index goes to a home that was taken out: %+v", d)
	}
	// Another first is another store, or another cluster's.
	h, err := home.Open(t.Context(), s.named("b").Config)
	if err == nil {
		check(t, h.Close())
	}
	if !errors.Is(err, home.ErrOtherCluster) {
		t.Errorf("b is the first of another store: %v", err)
	}
}
