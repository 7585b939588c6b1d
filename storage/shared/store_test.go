package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

func open(t *testing.T) *Store { return openAt(t, server(t)) }

// server starts one for a home.
func server(t *testing.T) home.Config {
	t.Helper()
	src, err := throwaway.FindAny(t.Context())
	if errors.Is(err, throwaway.ErrNotFound) {
		t.Skip(err)
	}
	check(t, err)
	set, err := throwaway.Start(t.Context(), src, throwaway.Options{Servers: 1, Password: "home"})
	check(t, err)
	t.Cleanup(set.Stop)
	at := set.Servers[0]
	return home.Config{Addr: at.Addr(), User: at.User, Password: at.Password}
}

func openAt(t *testing.T, c home.Config) *Store {
	t.Helper()
	return openLogging(t, c, nil)
}

func openLogging(t *testing.T, c home.Config, to *slog.Logger) *Store {
	t.Helper()
	h, err := home.Open(t.Context(), c)
	check(t, err)
	s, err := Open(t.Context(), Options{Home: h, Logger: to})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFirstWrites: members that begin an empty store at once agree on what each of them would have
// begun it with.
func TestFirstWrites(t *testing.T) {
	c := server(t)
	for round := range 20 {
		c.Schema = fmt.Sprintf("store%d", round)
		stores := []*Store{openAt(t, c), openAt(t, c), openAt(t, c)}
		ids := make([]string, len(stores))
		shards := make([]catalog.ShardID, len(stores))
		start := make(chan struct{})
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() {
				<-start
				var err error
				if ids[i], err = s.Cluster(fmt.Sprint("c", i)); err != nil {
					t.Error(err)
				}
				if shards[i], err = s.ShardID(fmt.Sprint("s", i)); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
		slices.Sort(shards)
		if len(slices.Compact(ids)) != 1 || !slices.Equal(shards, []catalog.ShardID{0, 1, 2}) {
			t.Fatalf("round %d: clusters %v, shards %v", round, ids, shards)
		}
	}
}

// TestAsk: one call answers keys and ranges, each by itself. A statement that has no more time
// says nothing of the home.
func TestAsk(t *testing.T) {
	s := open(t)
	d, err := s.CreateIndex(catalog.IndexDef{Schema: "shop", Table: "users", Name: "idx", Columns: []string{"email"}})
	check(t, err)
	check(t, s.StartBuild(d.ID, 1))
	heads, err := s.first().Heads(t.Context())
	check(t, err)
	check(t, s.FinishBuild(d.ID, heads[d.ID].Building, map[catalog.ShardID]storage.Epoch{2: 7}))
	check(t, s.Add([]storage.Entry{{Index: d.ID, Key: []byte("a"), Shard: 1, Epoch: 1}, {Index: d.ID, Key: []byte("b"), Shard: 2, Epoch: 1}}))
	questions := func() []storage.Question {
		return []storage.Question{
			{Index: d.ID, Key: []byte("a")},
			{Index: d.ID, Key: []byte("c")},
			{Index: d.ID, Ranged: true, From: []byte("a"), To: []byte("c"), Limit: 2},
			{Index: d.ID, Ranged: true, From: []byte("a"), Limit: 1},
			{Index: d.ID + 1, Key: []byte("a")},
		}
	}
	both := catalog.Only(1).Union(catalog.Only(2))
	q := questions()
	check(t, s.Ask(t.Context(), q))
	if q[0].Found.Shards != catalog.Only(1) || !q[1].Found.Shards.Empty() || q[2].Found.Shards != both || !q[2].Within || q[3].Within || !errors.Is(q[4].Err, storage.ErrNoIndex) {
		t.Errorf("answered %+v", q)
	}
	if f := q[0].Found.Floors; f == nil || f.Floor(2) != 7 || f.Floor(1) != 0 {
		t.Errorf("floors %v", f)
	}
	for i, q := range q[:4] {
		if q.Err != nil {
			t.Errorf("question %d: %v", i, q.Err)
		}
	}

	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if err := s.Ask(late, questions()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asked too late: %v", err)
	}
	check(t, s.Ask(t.Context(), questions()))
}

// TestJobsSoon: jobs behind writes are of what they were made with, whatever becomes of the slices; however many come
// while they can't be written, few are, and none is lost.
func TestJobsSoon(t *testing.T) {
	s := open(t)
	shards := catalog.Only(1).Union(catalog.Only(2))
	indexes, key := []catalog.IndexID{7, 8}, []byte("a")
	check(t, s.EnqueueSoon(storage.Job{Type: storage.MaintainIndex, Schema: "s", Table: "scanned", Operation: "UPDATE", Shards: shards, Indexes: indexes}))
	check(t, s.EnqueueSoon(storage.Job{Type: storage.VerifyKeys, Schema: "s", Table: "verified", Operation: "UPDATE", Shards: shards, Indexes: indexes, Keys: []storage.JobKey{{Index: 7, Key: key}}}))
	indexes[0], key[0] = 9, 'z'
	for i := range 5 * maxSoon {
		check(t, s.EnqueueSoon(storage.Job{
			Type: storage.VerifyKeys, Schema: "s", Table: "many", Operation: "READ", Shards: shards, Indexes: []catalog.IndexID{7},
			Keys: []storage.JobKey{{Index: 7, Key: fmt.Append(nil, i)}},
		}))
	}
	away, cancel := context.WithCancel(t.Context())
	cancel()
	s.flush(away)
	if n := len(s.Jobs()); n != 0 {
		t.Fatalf("%d jobs", n)
	}
	s.flush(t.Context())
	scans := map[string]catalog.ShardSet{}
	for _, j := range s.Jobs() {
		scans[j.Table] = scans[j.Table].Union(j.Shards)
		switch {
		case j.Table == "scanned" && j.Type == storage.MaintainIndex && slices.Equal(j.Indexes, []catalog.IndexID{7, 8}):
		case j.Table == "verified" && j.Type == storage.VerifyKeys && len(j.Keys) == 1 && string(j.Keys[0].Key) == "a":
		case j.Table == "many" && j.Type == storage.MaintainIndex && slices.Equal(j.Indexes, []catalog.IndexID{7}):
		case j.Table == "many" && j.Type == storage.VerifyKeys && len(j.Keys) <= 1000:
		default:
			t.Errorf("job %+v", j)
		}
	}
	for _, table := range []string{"scanned", "verified", "many"} {
		if scans[table] != shards {
			t.Errorf("jobs of %s: on %v", table, scans[table])
		}
	}
}

// TestJobsSoonDue: jobs behind writes are gathered for a second, but written before they may run.
func TestJobsSoonDue(t *testing.T) {
	t.Parallel()
	var s Store
	s.queue.init()
	now := time.Now()
	is := func(after time.Duration, want bool) {
		t.Helper()
		if got := s.queue.isDue(now.Add(after)); got != want {
			t.Errorf("%v later they are to be written: %v", after, got)
		}
	}
	enqueue := func(table string, in time.Duration) {
		check(t, s.EnqueueSoon(storage.Job{Type: storage.MaintainIndex, Schema: "s", Table: table, Shards: catalog.Only(1), NotBefore: now.Add(in)}))
	}
	is(time.Hour, false)
	enqueue("t", time.Minute)
	is(soonEvery, false)
	is(soonMost+soonEvery, true)
	enqueue("u", 3*soonEvery)
	is(soonEvery, false)
	is(2*soonEvery, true)
}

// TestJobsSoonOut: of a home that is away it is told once, however often jobs are due; they are made when it is back.
func TestJobsSoonOut(t *testing.T) {
	c := server(t)
	is := c.Addr
	valve, err := throwaway.NewValve(is)
	check(t, err)
	t.Cleanup(valve.Close)
	c.Addr = valve.Addr()
	var log strings.Builder
	s := openLogging(t, c, slog.New(slog.NewTextHandler(&log, nil)))
	valve.Lead("127.0.0.1:1")
	valve.Cut()
	for range 3 {
		check(t, s.EnqueueSoon(storage.Job{Type: storage.MaintainIndex, Schema: "s", Table: "t", Operation: "UPDATE", Shards: catalog.Only(1), Indexes: []catalog.IndexID{7}}))
		s.flush(t.Context())
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, &log)
	}
	valve.Lead(is)
	for s.homes()[0].out.Load() != nil {
		s.probe(t.Context())
	}
	s.flush(t.Context())
	if n := len(s.Jobs()); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

// TestClaimOfFuture: a job whose time hasn't come is found by who asks for those of a far future.
func TestClaimOfFuture(t *testing.T) {
	s := open(t)
	id, err := s.Enqueue(storage.Job{Type: storage.BuildIndex, Schema: "shop", Table: "users", Indexes: []catalog.IndexID{1}, NotBefore: time.Now().Add(30 * time.Minute)})
	check(t, err)
	if j, err := s.Claim("w", time.Minute, time.Now(), nil); err != nil || j != nil {
		t.Errorf("%+v %v", j, err)
	}
	if j, err := s.Claim("w", time.Minute, time.Now().AddDate(100, 0, 0), nil); err != nil || j == nil || j.ID != id {
		t.Errorf("%+v %v", j, err)
	}
}

// TestCome: what is to come is the same for all when all that there are have said so, and nothing has changed since that was seen.
func TestCome(t *testing.T) {
	c := server(t)
	a, b := openAt(t, c), openAt(t, c)
	nobody := func(string) bool { return false }
	old, next, both := []string{"shards s0"}, []string{"shards s0", "schema x: hash"}, []string{"a", "b"}
	_, err := a.SetMembers(nil, old)
	check(t, err)
	check(t, a.SetHas("a", old, nobody))
	comes := func(want bool, members ...string) {
		t.Helper()
		check(t, a.Refresh(t.Context()))
		since, _ := a.Version()
		if ok, err := a.Come(since, next, members); ok != want || err != nil {
			t.Errorf("%q: %v, %v", members, ok, err)
		}
	}
	check(t, a.SetComing("a", next, nobody))
	comes(false, both...)
	check(t, b.SetComing("b", old, nobody))
	comes(false, both...)
	check(t, b.SetComing("b", next, nobody))
	check(t, b.SetComing("b", nil, nobody))
	comes(false, both...)
	// One takes it back at that moment.
	check(t, b.SetComing("b", next, nobody))
	check(t, a.Refresh(t.Context()))
	since, _ := a.Version()
	check(t, b.SetComing("b", nil, nobody))
	check(t, b.SetComing("b", next, nobody))
	if ok, err := a.Come(since, next, both); ok || err != nil {
		t.Errorf("something has changed: %v, %v", ok, err)
	}
	comes(true, both...)
	check(t, b.Refresh(t.Context()))
	is, err := b.Members()
	check(t, err)
	coming, err := b.Coming()
	check(t, err)
	has, err := b.Has()
	check(t, err)
	if !slices.Equal(is, next) || len(coming) > 0 || len(has) > 0 {
		t.Errorf("all have %q, coming is %v, and members have said %v", is, coming, has)
	}
	// Who is gone is forgotten.
	check(t, b.SetComing("b", next, nobody))
	check(t, a.SetComing("a", old, func(member string) bool { return member == "b" }))
	if coming, err = a.Coming(); err != nil || len(coming) != 1 {
		t.Errorf("coming: %v, %v", coming, err)
	}
}
