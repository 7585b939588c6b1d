package indexer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// faultyStore fails where it is told to.
type faultyStore struct {
	*storage.Store
	fail    string
	calls   []string
	lost    []storage.Pair
	unclean []storage.Pair
}

var errFault = errors.New("fault")

func (f *faultyStore) call(name string) error {
	f.calls = append(f.calls, name)
	if f.fail == name {
		return errFault
	}
	return nil
}

func (f *faultyStore) Add(es []storage.Entry) error {
	if err := f.call("add"); err != nil {
		return err
	}
	return f.Store.Add(es)
}

func (f *faultyStore) Mark(ms []storage.Mark) error {
	if err := f.call("mark"); err != nil {
		return err
	}
	return f.Store.Mark(ms)
}

func (f *faultyStore) Intend(ps []storage.Pair) (uint64, error) {
	if err := f.call("intend"); err != nil {
		return 0, err
	}
	return f.Store.Intend(ps)
}

func (f *faultyStore) Enqueue(j storage.Job) (uint64, error) {
	if err := f.call("enqueue"); err != nil {
		return 0, err
	}
	return f.Store.Enqueue(j)
}

func (f *faultyStore) EnqueueSoon(j storage.Job) error {
	if err := f.call("enqueue"); err != nil {
		return err
	}
	return f.Store.EnqueueSoon(j)
}

func (f *faultyStore) Lost() []storage.Pair    { return f.lost }
func (f *faultyStore) Unclean() []storage.Pair { return f.unclean }
func (f *faultyStore) Recovered() error        { return f.call("recovered") }

// withFaults is a bench with a ready index whose workers are stopped, and an
// indexer that is not started, over a faulty store.
func withFaults(t *testing.T, fail string) (*bench, *faultyStore, *Indexer) {
	t.Helper()
	b := newBench(t, 2, nil)
	b.create()
	b.x.Close()
	f := &faultyStore{Store: b.store, fail: fail}
	o := b.opts
	o.Store = f
	return b, f, b.life(o)
}

// Whatever fails before the statement is sent, the session is told.
func TestPrepareFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fail  string
		calls []string
	}{
		{"", []string{"add", "mark", "intend"}},
		{"add", []string{"add"}},
		{"mark", []string{"add", "mark"}},
		{"intend", []string{"add", "mark", "intend"}},
	} {
		b, f, x := withFaults(t, test.fail)
		o := x.Begin(catalog.Only(1))
		err := x.Prepare(context.Background(), o, []plan.Entry{{Index: b.index(), Key: b.key("ann"), Shard: 1}}, []plan.Mark{{Index: b.index(), Shard: 1}}, nil, catalog.ShardSet{})
		if test.fail == "" && err != nil || test.fail != "" && !errors.Is(err, errFault) {
			t.Errorf("with a fault in %q: %v", test.fail, err)
		}
		if !slices.Equal(f.calls, test.calls) {
			t.Errorf("with a fault in %q: calls %v, want %v", test.fail, f.calls, test.calls)
		}
		o.End()
	}
}

func TestPrepareNeedsARegistration(t *testing.T) {
	t.Parallel()
	b, f, x := withFaults(t, "")
	o := x.Begin(catalog.Only(1))
	if err := x.Prepare(context.Background(), o, []plan.Entry{{Index: b.index(), Key: b.key("ann"), Shard: 0}}, nil, nil, catalog.ShardSet{}); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("add: %v", err)
	}
	o.End()
	o.Extend(catalog.Only(0))
	if err := x.Prepare(context.Background(), o, nil, []plan.Mark{{Index: b.index(), Shard: 1}}, nil, catalog.ShardSet{}); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("mark: %v", err)
	}
	if err := x.Prepare(context.Background(), o, nil, nil, nil, catalog.ShardSet{}); err != nil || len(f.calls) != 0 {
		t.Errorf("nothing to prepare: %v, calls %v", err, f.calls)
	}
	// A DELETE makes no keys, but stale entries.
	err := x.Prepare(context.Background(), o, nil, nil, []*catalog.Table{b.index().Table}, catalog.Only(0))
	if err != nil || !slices.Equal(f.calls, []string{"intend"}) {
		t.Errorf("a table without keys: %v, calls %v", err, f.calls)
	}
}

func TestAfterFault(t *testing.T) {
	t.Parallel()
	b, f, x := withFaults(t, "enqueue")
	x.After(plan.Maintenance{Table: b.index().Table, Shards: catalog.Only(0), Indexes: []*catalog.Index{b.index()}})
	if !b.happened("after error") || len(f.calls) != 1 {
		t.Errorf("events %v, calls %v", b.events, f.calls)
	}
}

// After a power loss the pairs with a write-intent are marked before anything
// else, and after a process death they are only looked at again.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for _, power := range []bool{true, false} {
		b, f, x := withFaults(t, "")
		pair := []storage.Pair{{Schema: "s", Table: "t", Shard: 1}}
		if power {
			f.lost = pair
		} else {
			f.unclean = pair
		}
		if err := x.recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"enqueue", "recovered"}
		if power {
			want = []string{"mark", "enqueue", "recovered"}
		}
		if !slices.Equal(f.calls, want) {
			t.Errorf("power loss %v: calls %v, want %v", power, f.calls, want)
		}
		if marked := len(b.shardsOf("ann")) == 1; marked != power {
			t.Errorf("power loss %v: a lookup gives %v", power, b.shardsOf("ann"))
		}
		// The next life clears the mark by a scan, once the shard is settled.
		b.start()
		b.until("the mark is cleared", func() bool { return len(b.shardsOf("ann")) == 0 && len(b.store.Jobs()) == 0 })
	}
}

// TestRecoveryMakesJobs: a process that died when it had set a mark, or begun a build, has made
// no job for it.
func TestRecoveryMakesJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.create()
	b.x.Close()
	id := b.index().ID
	if err := b.store.Mark([]storage.Mark{{Index: id, Shard: 1, Epoch: b.store.Epoch()}}); err != nil {
		t.Fatal(err)
	}
	if err := b.store.StartBuild(id, 0); err != nil {
		t.Fatal(err)
	}
	if err := b.life(b.opts).recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	types := map[string]catalog.ShardSet{}
	for _, j := range b.store.Jobs() {
		types[j.Type] = j.Shards
	}
	if _, builds := types[storage.BuildIndex]; !builds || types[storage.MaintainIndex] != catalog.Only(1) {
		t.Errorf("jobs %v", types)
	}
}

// TestReplaced: lookups go to a shard that has become another server before anything was
// read there, until it has been scanned.
func TestReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, nil)
	b.create()
	b.shards[1].set(1, "ann")
	if err := b.x.Replaced(1); err != nil {
		t.Fatal(err)
	}
	b.expect("ann", 1)
	b.until("it is scanned", func() bool { return len(b.store.Jobs()) == 0 && len(b.shardsOf("bob")) == 0 })
	b.expect("ann", 1)
}

// A shard whose old threads can't be seen is not settled, and nothing is
// retired there.
func TestUnsettledShard(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.shards[0].set(1, "ann")
	b.create()
	b.x.Close()
	for name, test := range map[string]struct {
		threads [][]string
		holds   bool
	}{
		"none":            {nil, false},
		"a statement":     {[][]string{{"7", "shunt", "", "", "Query", "100"}}, true},
		"idle":            {[][]string{{"7", "shunt", "", "", "Sleep", "100"}}, false},
		"idle for 1 s":    {[][]string{{"7", "shunt", "", "", "Sleep", "1"}}, true},
		"another user":    {[][]string{{"7", "app", "", "", "Query", "100"}}, false},
		"newer than ours": {[][]string{{"101", "shunt", "", "", "Query", "100"}}, false},
	} {
		b.shards[0].change(func(s *fakeShard) { s.threads = test.threads })
		x := b.life(b.opts)
		for range 5 {
			if _, err := x.settle(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			b.clock.move(idleSeconds * 1e9)
		}
		if x.isSettled(0) == test.holds {
			t.Errorf("%s: settled %v", name, !test.holds)
		}
	}
}

// threadNotes are what an earlier life has left in the store.
type threadNotes struct {
	*storage.Store
	old []storage.Thread
}

func (n *threadNotes) OldThreads(catalog.ShardID) []storage.Thread { return slices.Clone(n.old) }

func (n *threadNotes) ForgetThread(_ catalog.ShardID, id uint32) error {
	n.old = slices.DeleteFunc(n.old, func(t storage.Thread) bool { return t.ID == id })
	return nil
}

// A dead process's thread is ended once it sleeps, however long it has: what it
// was sent may be on its way. Where the server was restarted, it isn't its.
func TestOldThreadIsEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.x.Close()
	b.clock.move(1000 * time.Second)
	notes := &threadNotes{Store: b.store, old: []storage.Thread{{ID: 7, Opened: b.clock.Now().Add(-100 * time.Second)}, {ID: 9, Opened: b.clock.Now()}}}
	o := b.opts
	o.Store, o.Cluster = notes, cluster.NewLocal(notes)
	look := func(x *Indexer, uptime string, threads ...[]string) (settled bool, kills int) {
		b.shards[0].change(func(s *fakeShard) { s.threads, s.uptime = threads, uptime })
		if _, err := x.settle(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		b.clock.move(100 * time.Second)
		return x.isSettled(0), len(b.shards[0].statements("KILL 7"))
	}
	x := b.life(o)
	if settled, kills := look(x, "5000", []string{"7", "shunt", "", "", "Query", "600"}); settled || kills != 0 {
		t.Errorf("running: settled %v, %d kills", settled, kills)
	}
	for n := range 2 * idleLooks {
		if settled, kills := look(x, "5000", []string{"7", "shunt", "", "", "Sleep", "600"}); settled || kills != n+1 {
			t.Errorf("asleep: settled %v, %d kills", settled, kills)
		}
	}
	if settled, _ := look(x, "5000"); !settled || len(notes.old) != 0 {
		t.Errorf("gone: settled %v, left %v", settled, notes.old)
	}
	notes.old = []storage.Thread{{ID: 7, Opened: b.clock.Now().Add(-100 * time.Second)}}
	kills := len(b.shards[0].statements("KILL 7"))
	o.Cluster = cluster.NewLocal(notes)
	x = b.life(o)
	for range 3 {
		look(x, "50", []string{"7", "shunt", "", "", "Sleep", "600"})
	}
	if _, now := look(x, "50"); now != kills || !x.isSettled(0) || len(notes.old) != 0 {
		t.Errorf("restarted: %d kills more, settled %v, left %v", now-kills, x.isSettled(0), notes.old)
	}
}

// A dead process may have had another account: its thread is waited for, and ended once it
// sleeps, as one of this account. Another program's isn't.
func TestOldThreadOfAnotherAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.x.Close()
	b.clock.move(1000 * time.Second)
	notes := &threadNotes{Store: b.store, old: []storage.Thread{{ID: 7, Opened: b.clock.Now().Add(-100 * time.Second)}}}
	o := b.opts
	o.Store, o.Cluster = notes, cluster.NewLocal(notes)
	x := b.life(o)
	app := []string{"8", "app", "", "", "Sleep", "600"}
	for _, look := range []struct {
		threads [][]string
		settled bool
		kills   int
	}{
		{[][]string{app, {"7", "shunt_old", "", "", "Query", "60"}}, false, 0},
		{[][]string{app, {"7", "shunt_old", "", "", "Sleep", "1"}}, false, 1},
		{[][]string{app}, true, 1},
	} {
		b.shards[0].change(func(s *fakeShard) { s.threads, s.uptime = look.threads, "5000" })
		if _, err := x.settle(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if settled, kills := x.isSettled(0), len(b.shards[0].statements("KILL")); settled != look.settled || kills != look.kills {
			t.Errorf("%v: settled %v, %d kills", look.threads, settled, kills)
		}
	}
}

// This process's own connections are not waited for, whatever runs on them.
func TestSettledBesideOwnConnections(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.x.Close()
	o := b.opts
	o.Opened = func(_ catalog.ShardID, thread uint64, port int) bool { return thread == 7 && port == 4711 }
	for _, c := range []struct {
		id, host string
		settled  bool
	}{
		{"7", "10.0.0.1:4711", true},
		{"7", "::1:4711", true},
		{"7", "10.0.0.1:4712", false},
		{"7", "localhost", false},
		{"8", "10.0.0.1:4711", false},
	} {
		x := b.life(o)
		b.shards[0].change(func(s *fakeShard) { s.threads = [][]string{{c.id, "shunt", c.host, "", "Query", "0"}} })
		if _, err := x.settle(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if x.isSettled(0) != c.settled {
			t.Errorf("thread %s of %s: settled %v", c.id, c.host, !c.settled)
		}
	}
}

// A program that pings each second never sleeps for long, and holds nothing up.
func TestSettledBesideOneThatPings(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.x.Close()
	x := b.life(b.opts)
	look := func(threads ...[]string) bool {
		b.shards[0].change(func(s *fakeShard) { s.threads = threads })
		if _, err := x.settle(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		b.clock.move(settleEvery)
		return x.isSettled(0)
	}
	for range 3 * idleLooks {
		if look([]string{"7", "shunt", "", "", "Sleep", "0"}, []string{"8", "shunt", "", "", "Query", "0"}) {
			t.Fatal("settled beside a thread that executes")
		}
	}
	for i := range 2 * idleLooks {
		// Executing in between, it was not idle at each look.
		state := "Sleep"
		if i%idleLooks == 1 {
			state = "Query"
		}
		if look([]string{"8", "shunt", "", "", state, "0"}) {
			t.Fatal("settled beside a thread that executes now and then")
		}
	}
	for i := range 2 * idleLooks {
		if look([]string{"8", "shunt", "", "", "Sleep", "1"}) {
			if i < 1 {
				t.Error("settled at once")
			}
			return
		}
	}
	t.Error("not settled")
}

// A server that was started after a statement was sent runs it no more, whoever
// has its thread's number now. One whose clock was set back behind its start has
// an uptime below 0.
func TestInDoubtOnARestartedServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.create()
	b.until("no job of the build is left", func() bool { return len(b.store.Jobs()) == 0 })
	b.x.Close()
	x := b.life(b.opts)
	x.cluster.Settle(0, 0)
	o := x.Begin(catalog.Only(0))
	o.InDoubt(0, storage.Thread{ID: 7, Opened: b.clock.Now()}, plan.Maintenance{Table: b.index().Table, Shards: catalog.Only(0), Indexes: []*catalog.Index{b.index()}})
	b.clock.move(100 * time.Second)
	for _, c := range []struct {
		uptime string
		done   bool
	}{{"", false}, {"18446744073709548041", false}, {"-5", false}, {"200", false}, {"98", false}, {"90", true}} {
		b.shards[0].change(func(s *fakeShard) {
			s.threads, s.uptime = [][]string{{"7", "shunt", "", "", "Query", "0"}}, c.uptime
		})
		if done, err := x.settle(t.Context(), 0); err != nil || done != c.done {
			t.Errorf("uptime %q: done %v, %v", c.uptime, done, err)
		}
		if jobs := b.store.Jobs(); len(jobs) == 1 != c.done {
			t.Errorf("uptime %q: jobs %v", c.uptime, jobs)
		}
	}
}

// A thread of a statement in doubt that sleeps is ended, however long it has slept, since the
// statement may still be on its way to it, and its transaction open. Until it has gone, nothing
// is settled.
func TestInDoubtOnAnIdleThread(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.x.Close()
	x := b.life(b.opts)
	x.cluster.Settle(0, 0)
	o := x.Begin(catalog.Only(0))
	o.InDoubt(0, storage.Thread{ID: 7, Opened: b.clock.Now().Add(-time.Hour)})
	for i, look := range []struct {
		threads [][]string
		done    bool
		kills   int
	}{
		{[][]string{{"7", "shunt", "", "", "Query", "0"}}, false, 0},
		{[][]string{{"7", "shunt", "", "", "Sleep", "60"}}, false, 1},
		{[][]string{{"7", "shunt", "", "", "Sleep", "0"}}, false, 2},
		{[][]string{{"7", "shunt", "", "", "Sleep", "3"}}, false, 3},
		{[][]string{{"7", "shunt", "", "", "Killed", "3"}}, false, 3},
		{[][]string{{"7", "account_of_before_sighup", "", "", "Sleep", "9"}}, false, 4},
		{nil, true, 4},
	} {
		b.shards[0].change(func(s *fakeShard) { s.threads, s.uptime = look.threads, "4000" })
		done, err := x.settle(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if kills := len(b.shards[0].statements("KILL 7")); done != look.done || kills != look.kills {
			t.Errorf("look %d, %v: done %v, %d kills", i, look.threads, done, kills)
		}
		b.clock.move(settleEvery)
	}
	if !x.cluster.Passed(0, 1<<40) {
		t.Error("gone, but still in doubt")
	}
}

// The number of a thread in doubt may be another connection's by now, which isn't ended: its
// server was restarted, whether its uptime tells that or not.
func TestInDoubtSparesOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, nil)
	b.x.Close()
	b.shards[0].change(func(s *fakeShard) { s.threads = [][]string{{"7", "shunt", "", "", "Sleep", "60"}} })
	for _, c := range []struct {
		what    string
		opened  time.Duration // ago
		uptime  string
		another bool // this life has noted a connection of that number since
	}{
		{"restarted in a transaction that was idle for long", time.Hour, "60", false},
		{"restarted right after the connection was made", 61 * time.Second, "60", true},
		{"nobody knows when it was restarted", time.Hour, "-5", true},
	} {
		x := b.life(b.opts)
		x.cluster.Settle(0, 0)
		lost := storage.Thread{ID: 7, Opened: b.clock.Now().Add(-c.opened)}
		check(t, b.store.NoteThread(0, lost))
		if c.another {
			check(t, b.store.NoteThread(0, storage.Thread{ID: 7, Opened: b.clock.Now()}))
		}
		b.shards[0].change(func(s *fakeShard) { s.uptime = c.uptime })
		x.Begin(catalog.Only(0)).InDoubt(0, lost)
		if done, err := x.settle(t.Context(), 0); !done || err != nil || len(b.shards[0].statements("KILL")) > 0 {
			t.Errorf("%s: done %v, %v, killed %v", c.what, done, err, b.shards[0].statements("KILL"))
		}
	}
}
