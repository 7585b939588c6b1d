package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// bench is two shards, and members of them, whose clock is moved by hand.
type bench struct {
	t     *testing.T
	seats [2]clustertest.Seat
	board clustertest.Board
	now   time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: time.Unix(1e9, 0)}
	for i := range b.seats {
		b.seats[i].Now = func() time.Time { return b.now }
	}
	return b
}

// member joins both shards.
func (b *bench) member(id uint64, m cluster.Member) *cluster.Shared {
	b.t.Helper()
	s := cluster.NewShared(cluster.Options{
		Seats: map[catalog.ShardID]cluster.Seat{0: &b.seats[0], 1: &b.seats[1]}, Board: &b.board,
		Identity: cluster.Identity{ID: id, Addr: "h", Version: "v"}, Now: func() time.Time { return b.now }, Logger: slog.New(slog.DiscardHandler),
	})
	s.Join(m)
	b.beat(s)
	return s
}

func (b *bench) beat(members ...*cluster.Shared) {
	b.t.Helper()
	for _, s := range members {
		for id := range catalog.ShardID(2) {
			b.check(s.Beat(b.t.Context(), id))
		}
	}
}

func (b *bench) sweep(s *cluster.Shared) {
	b.t.Helper()
	for id := range catalog.ShardID(2) {
		b.check(s.Sweep(b.t.Context(), id))
	}
}

func (b *bench) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// rows are those of a shard.
func (b *bench) rows(shard int) []cluster.Row {
	_, rows, err := b.seats[shard].Rows(b.t.Context())
	b.check(err)
	return rows
}

// once ends what waits after its first look.
func once(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestHorizonOfAll: what another member has open counts, and what it registered before.
func TestHorizonOfAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	freed := 0
	one, two := b.member(1, cluster.Member{Freed: func() { freed++ }}), b.member(2, cluster.Member{})
	r := two.Register(0)
	e, err := one.Advance(t.Context(), 0)
	b.check(err)
	horizon := func(when string, want storage.Epoch) {
		t.Helper()
		h, err := one.Horizon(t.Context(), 0)
		if b.check(err); h != want || one.Passed(0, e) != (want >= e) {
			t.Errorf("%s: horizon %d, want %d; passed %v", when, h, want, one.Passed(0, e))
		}
	}
	horizon("it hasn't heard of the epoch", e-1)
	b.beat(two)
	horizon("its statement is open", e-1)
	later := two.Register(0)
	two.End(r)
	horizon("it hasn't told", e-1)
	if freed != 0 {
		t.Errorf("freed %d times", freed)
	}
	b.beat(two, one)
	if freed != 1 {
		t.Errorf("freed %d times", freed)
	}
	horizon("it has ended", e)
	two.End(later)
	if later.Epoch != e || later.Join == 0 {
		t.Errorf("registered as %+v", later)
	}
	b.check(one.Wait(t.Context(), 0, e))
	if err := one.Wait(once(t), 0, e+1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := one.Horizon(t.Context(), 9); !errors.Is(err, cluster.ErrNotJoined) {
		t.Error(err)
	}
}

// TestRun: members that run hear of each other.
func TestRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	for _, s := range []*cluster.Shared{one, two} {
		go func() {
			s.Run(ctx)
			done <- struct{}{}
		}()
	}
	r := two.Register(1)
	e, err := one.Advance(ctx, 1)
	b.check(err)
	waited := make(chan error, 1)
	go func() { waited <- one.Wait(ctx, 1, e) }()
	two.End(r)
	b.check(<-waited)
	b.check(one.Fence(ctx, catalog.TableName{Schema: "s", Name: "t"}))
	if !two.Fencing() || !two.Fenced(catalog.TableName{Schema: "s", Name: "t"}) || two.Fenced(catalog.TableName{Schema: "s", Name: "u"}) {
		t.Error("the other member hasn't heard of the fence")
	}
	one.Unfence()
	b.check(one.TakeTurn(ctx))
	go func() { waited <- two.TakeTurn(ctx) }()
	one.GiveTurn()
	b.check(<-waited)
	two.GiveTurn()
	stop()
	<-done
	<-done
	b.check(one.Quit(t.Context()))
	b.check(two.Quit(t.Context()))
	if rows := append(b.rows(0), b.rows(1)...); len(rows) > 0 {
		t.Errorf("left: %v", rows)
	}
	if left := b.board.String(); strings.Contains(left, ":") {
		t.Errorf("left: %s", left)
	}
}

// TestTellsOnlyWhatChanged: a heartbeat of a member with nothing new to say reads.
func TestTellsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.member(1, cluster.Member{})
	var steps []string
	b.seats[0].Hook = func(step string) { steps = append(steps, step) }
	r := s.Register(0)
	b.beat(s)
	if !slices.Equal(steps, []string{"beat"}) {
		t.Errorf("%v", steps)
	}
	_, err := s.Advance(t.Context(), 0)
	b.check(err)
	steps = nil
	b.beat(s)
	b.beat(s)
	s.End(r)
	b.beat(s)
	b.beat(s)
	if want := []string{"beat", "tell", "beat", "beat", "tell", "beat"}; !slices.Equal(steps, want) {
		t.Errorf("%v, want %v", steps, want)
	}
}

// TestJoinsAnew: who finds itself fenced has its connections closed, and is there again by
// another number. What it had registered can't be sent.
func TestJoinsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var lost []uint64
	s := b.member(1, cluster.Member{Lost: func(_ catalog.ShardID, join uint64, _ error) { lost = append(lost, join) }})
	old := s.Register(0)
	b.seats[0].Connect(7, "app", "h:7")
	join, err := s.NoteThread(t.Context(), 0, storage.Thread{ID: 7})
	if b.check(err); join != old.Join {
		t.Errorf("noted under %d, registered under %d", join, old.Join)
	}
	if _, err := s.NoteThread(t.Context(), 0, storage.Thread{ID: 9}); !errors.Is(err, clustertest.ErrNoThread) {
		t.Error(err)
	}
	_, err = b.seats[0].SetFenced(t.Context(), join)
	b.check(err)
	b.seats[0].Connect(8, "app", "h:8")
	if _, err := s.NoteThread(t.Context(), 0, storage.Thread{ID: 8}); !errors.Is(err, cluster.ErrNotJoined) {
		t.Error(err)
	}
	b.beat(s)
	if !slices.Equal(lost, []uint64{join}) {
		t.Errorf("lost %v", lost)
	}
	now := s.Register(0)
	if again, err := s.NoteThread(t.Context(), 0, storage.Thread{ID: 8}); err != nil || again != now.Join || again == join {
		t.Errorf("noted under %d (%v), registered under %d", again, err, now.Join)
	}
	if n := len(b.rows(0)); n != 2 {
		t.Errorf("%d rows: the old one goes when its threads have", n)
	}
	b.seats[0].Busy(7, true)
	b.sweep(s)
	if n := len(b.rows(0)); n != 2 {
		t.Errorf("%d rows, and a thread runs on", n)
	}
	b.seats[0].End(7)
	b.seats[0].Connect(7, "other", "h:7") // gets the number
	b.sweep(s)
	if n := len(b.rows(0)); n != 1 {
		t.Errorf("%d rows", n)
	}
	if listed, killed := b.seats[0].Lists(7); !listed || killed {
		t.Error("another client's connection was ended")
	}
	s.End(old)
	s.End(now)
}

// TestForgetsTheRightNote: a thread's number is another connection's before the first one's end
// is known.
func TestForgetsTheRightNote(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.member(1, cluster.Member{})
	first, second := storage.Thread{ID: 7, Opened: b.now}, storage.Thread{ID: 7, Opened: b.now.Add(1)}
	b.seats[0].Connect(7, "app", "h:1")
	join, err := s.NoteThread(t.Context(), 0, first)
	b.check(err)
	b.seats[0].Connect(7, "app", "h:2")
	_, err = s.NoteThread(t.Context(), 0, second)
	b.check(err)
	if last, known := s.Thread(0, 7); !known || last != second {
		t.Errorf("last noted: %v", last)
	}
	b.check(s.ForgetThread(0, first))
	b.check(s.ForgetThread(0, first))
	b.beat(s)
	threads, err := b.seats[0].Threads(t.Context(), join)
	if b.check(err); len(threads) != 1 || threads[0].Host != "h:2" {
		t.Errorf("noted: %v", threads)
	}
	b.check(s.ForgetThread(0, second))
	if _, known := s.Thread(0, 7); known {
		t.Error("known after its end")
	}
}

// TestPatience: a member that follows stays, whatever it has open, and where nothing is
// written; one that doesn't is fenced after a while.
func TestPatience(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
	defer two.End(two.Register(0))
	for range 10 {
		b.now = b.now.Add(20 * time.Second)
		b.beat(two)
		b.sweep(one)
	}
	if n := len(b.rows(0)); n != 2 {
		t.Fatalf("%d rows: nothing happens, and it was fenced", n)
	}
	for range 10 {
		_, err := one.Advance(t.Context(), 0)
		b.check(err)
		b.beat(one)
		b.sweep(one)
		b.now = b.now.Add(20 * time.Second)
		b.beat(two)
	}
	if n := len(b.rows(0)); n != 2 {
		t.Fatalf("%d rows: it follows, and was fenced", n)
	}
	_, err := one.Advance(t.Context(), 0)
	b.check(err)
	b.beat(one)
	b.sweep(one)
	b.now = b.now.Add(20 * time.Second)
	b.sweep(one)
	if n := len(b.rows(0)); n != 2 {
		t.Fatalf("%d rows after 20 s", n)
	}
	b.now = b.now.Add(11 * time.Second)
	b.sweep(one)
	if n, m := len(b.rows(0)), len(b.rows(1)); n != 1 || m != 2 {
		t.Fatalf("%d rows on the shard, %d on the other", n, m)
	}
	if one.Gone(t.Context(), two.Self()) || one.Gone(t.Context(), one.Self()) || !one.Gone(t.Context(), "other") {
		t.Error("who is gone?")
	}
}

// TestPatienceWithEach: a member that adopts epochs, and doesn't go by the catalog, is
// fenced, as is one that goes by catalogs and adopts no epoch.
func TestPatienceWithEach(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"catalog", "epoch"} {
		b := newBench(t)
		one, two := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
		join := b.rows(0)[1].Join
		for range 40 { // a second each
			b.now = b.now.Add(time.Second)
			_, err := one.Advance(t.Context(), 0)
			b.check(err)
			_, err = b.board.Write(t.Context(), 0)
			b.check(err)
			b.check(one.Follow(t.Context()))
			if what == "catalog" {
				b.beat(two)
			} else {
				_, err = b.seats[0].Beat(t.Context(), join) // it lives
				b.check(err)
				b.check(b.seats[0].Tell(t.Context(), join, cluster.Told{Catalog: b.board.Version()}))
			}
			b.beat(one)
			b.sweep(one)
			if rows := b.rows(0); len(rows) == 1 || rows[1].Join != join {
				break
			}
		}
		if rows := b.rows(0); len(rows) > 1 && rows[1].Join == join {
			t.Errorf("it doesn't follow the %s, and is there: %+v", what, rows)
		}
	}
}

// TestDead: where nothing happens a member that has died is noticed, at once if the server has
// none of its connections any more; who has its turn isn't waited for longer.
func TestDead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
	b.check(two.TakeTurn(t.Context()))
	b.seats[0].Connect(7, "app", "h:7")
	_, err := two.NoteThread(t.Context(), 0, storage.Thread{ID: 7})
	b.check(err)
	for i := range b.seats {
		b.seats[i].Unlink(b.rows(i)[1].Join)
	}
	pass := func(d time.Duration) {
		b.now = b.now.Add(d)
		b.beat(one)
		b.sweep(one)
	}
	pass(0)
	pass(3 * time.Second) // on shard 1 it has no connection
	if n, m := len(b.rows(0)), len(b.rows(1)); n != 2 || m != 1 {
		t.Fatalf("%d rows on the shard that lists a thread, %d on the other", n, m)
	}
	pass(20 * time.Second)
	if got, err := one.Members(t.Context()); err != nil || len(got) != 2 || got[1].State != "absent: 1; silent: 0" {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(b.rows(0)); n != 2 {
		t.Fatal("fenced without patience, and a thread runs")
	}
	b.seats[0].Busy(7, true) // with what it did as its client died
	pass(time.Second)
	pass(time.Second)
	if n := len(b.rows(0)); n != 2 {
		t.Fatal("fenced at once")
	}
	pass(time.Second)
	if rows := b.rows(0); len(rows) != 2 || !rows[1].Fenced {
		t.Fatalf("%+v", rows)
	}
	if err := one.TakeTurn(once(t)); err == nil {
		t.Error("taken, and what the former holder sent runs")
	}
	b.seats[0].End(7)
	pass(0)
	b.check(one.TakeTurn(once(t)))
}

// TestSilent: a member is fenced whose connections are all there, and that doesn't beat, as on a
// machine that lost its power. A moment in which all were held up does it no harm.
func TestSilent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
	b.now = b.now.Add(time.Hour) // the server stood
	b.sweep(one)
	if got, err := one.Members(t.Context()); err != nil || len(got) != 2 || got[1].State != "silent: 0, 1" {
		t.Errorf("%+v, %v", got, err)
	}
	b.beat(one, two)
	for range 40 {
		b.now = b.now.Add(time.Second)
		b.beat(one, two)
		b.sweep(one)
	}
	if n := len(b.rows(0)); n != 2 {
		t.Fatal("it beats, and was fenced")
	}
	for i := range 50 {
		b.now = b.now.Add(time.Second)
		b.sweep(one)
		if n := len(b.rows(0)); n != 2 && i < 30 {
			t.Fatalf("fenced after %d s", i)
		}
	}
	if n := len(b.rows(0)); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// TestBarrier: a version waits for each member on each shard, fenced ones too, and for
// shards that can't be asked; it says so.
func TestBarrier(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.member(1, cluster.Member{})
	var adopted []uint64
	fail := errors.New("not now")
	two := b.member(2, cluster.Member{Adopt: func(_ context.Context, v uint64) error {
		if fail == nil {
			adopted = append(adopted, v)
		}
		return fail
	}})
	v, err := b.board.Write(t.Context(), 0, cluster.Record{Kind: "index", Name: "i", Body: []byte("1")})
	b.check(err)
	waits := func(when, why string) {
		t.Helper()
		if err := one.Adopted(once(t), v); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", when, err, why)
		}
	}
	waits("it hasn't heard", "member 2 (h) on shard 0, which is at version 0; member 2 (h) on shard 1")
	if err := two.Follow(t.Context()); !errors.Is(err, fail) {
		t.Error(err)
	}
	b.beat(two)
	waits("it can't", "member 2 (h) on shard 0")
	for _, s := range []*clustertest.Seat{&b.seats[0], &b.seats[1]} {
		b.seats[0].Connect(7, "app", "h:7")
		b.seats[0].Busy(7, true)
		for _, r := range b.rows(0) {
			if r.ID == 2 {
				_, _, err := s.Note(t.Context(), r.Join, 7)
				if s == &b.seats[0] {
					b.check(err)
				}
				_, err = s.SetFenced(t.Context(), r.Join)
				b.check(err)
			}
		}
	}
	b.sweep(one)
	waits("its statement runs on", "member 2 (h) on shard 0 (fenced; its connections aren't gone yet)")
	if err := two.Beat(t.Context(), 0); !errors.Is(err, fail) {
		t.Errorf("it joins anew, and can't follow: %v", err)
	}
	b.seats[0].End(7)
	b.sweep(one)
	b.check(one.Adopted(once(t), v))
	fail = nil
	b.check(two.Follow(t.Context()))
	b.beat(two)
	v, err = b.board.Write(t.Context(), 0)
	b.check(err)
	b.check(two.Follow(t.Context()))
	waits("it hasn't told", "member 2")
	b.beat(two)
	down := errors.New("down")
	b.seats[1].Fail = func(string) error { return down }
	waits("a shard is down", "shard 1: down")
	b.seats[1].Fail = nil
	b.check(one.Adopted(once(t), v))
	if !slices.Equal(adopted, []uint64{1, 2}) {
		t.Errorf("adopted %v", adopted)
	}
}

// TestFences: jobs of all members end before a fence stands, and those of one that is gone
// come back.
func TestFences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	table := catalog.TableName{Schema: "s", Name: "t"}
	var hits []string
	freed := 0
	one := b.member(1, cluster.Member{})
	var two *cluster.Shared
	two = b.member(2, cluster.Member{Freed: func() { freed++ }, Interrupt: func(_ context.Context, hit func(catalog.TableName, catalog.IndexID) bool) error {
		if !two.Fenced(table) && !two.Dismissed(5) {
			t.Error("a job may begin behind the others' end")
		}
		if hit(table, 0) {
			hits = append(hits, "table")
		}
		if hit(catalog.TableName{}, 5) {
			hits = append(hits, "index")
		}
		return nil
	}})
	if err := one.Fence(once(t), table); !errors.Is(err, context.Canceled) {
		t.Errorf("it stands, and another hasn't heard: %v", err)
	}
	inside := false
	b.seats[0].Hook = func(step string) { // while one looks who goes by it
		if step == "rows" && !inside {
			inside = true
			b.check(two.Follow(t.Context()))
			b.beat(two)
			inside = false
		}
	}
	b.check(one.Fence(once(t), table))
	b.seats[0].Hook = nil
	if !one.Fencing() || !one.Fenced(table) || one.Fenced(catalog.TableName{}) {
		t.Error("it doesn't keep to its own fence")
	}
	one.Unfence()
	one.Unfence()
	if one.Fencing() || !two.Fencing() {
		t.Error("Unfence")
	}
	if _, err := one.Dismiss(once(t), 5); err == nil {
		t.Error("the index is dismissed, and another hasn't heard")
	}
	// What was owed is paid, and what failed is taken back.
	b.check(one.Follow(t.Context()))
	b.check(two.Follow(t.Context()))
	b.beat(two)
	if one.Dismissed(5) || two.Dismissed(5) || two.Fencing() || freed == 0 {
		t.Error("taken back")
	}
	if !slices.Contains(hits, "table") {
		t.Errorf("interrupted: %v", hits)
	}
	// A member that is gone keeps nobody off.
	_, err := one.Dismiss(once(t), 5)
	if err == nil {
		t.Error("not told yet")
	}
	_, _ = b.board.Write(t.Context(), 0, cluster.Record{Kind: "fence", Name: "gone", Body: []byte(`[{"Schema":"s","Name":"t"}]`)})
	b.check(two.Follow(t.Context()))
	if !two.Fenced(table) {
		t.Error("not fenced")
	}
	b.check(two.Follow(t.Context()))
	if two.Fenced(table) {
		t.Error("a member that is gone fences")
	}
}

// TestJobThatDoesntEnd: a member joins, and hears of what others publish, while a job that is to end
// goes on. That it keeps off is told behind the end.
func TestJobThatDoesntEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.member(1, cluster.Member{})
	asked, end := make(chan struct{}), make(chan struct{})
	two := b.member(2, cluster.Member{Interrupt: func(ctx context.Context, _ func(catalog.TableName, catalog.IndexID) bool) error {
		asked <- struct{}{}
		<-end
		return nil
	}})
	table := catalog.TableName{Schema: "s", Name: "t"}
	if err := one.Fence(once(t), table); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	followed := make(chan error)
	go func() { followed <- two.Follow(t.Context()) }()
	<-asked
	for _, r := range b.rows(0) {
		if r.ID == 2 {
			_, err := b.seats[0].SetFenced(t.Context(), r.Join)
			b.check(err)
		}
	}
	b.beat(two)
	b.sweep(one)
	if rows := b.rows(0); len(rows) != 2 || rows[1].ID != 2 || rows[1].Adopted == 0 || rows[1].Catalog != 0 {
		t.Errorf("%+v", rows)
	}
	if r := two.Register(0); r.Join == 0 {
		t.Error("it isn't there")
	} else {
		two.End(r)
	}
	if err := one.Fence(once(t), table); !errors.Is(err, context.Canceled) {
		t.Errorf("a job is at it: %v", err)
	}
	close(end)
	b.check(<-followed)
	go func() { <-asked }()
	b.check(two.Follow(t.Context()))
	b.beat(two)
	if rows := b.rows(0); rows[1].Catalog != 2 {
		t.Errorf("%+v", rows)
	}
}

// TestTurns: one waits for the other, and takes over from one that is gone.
func TestTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
	b.check(one.TakeTurn(t.Context()))
	if err := two.TakeTurn(once(t)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "turn of ddl: held up by member 1 (h) on shard 0") {
		t.Error(err)
	}
	b.check(two.LockChanges(t.Context()))
	if one.TryLockChanges(t.Context()) {
		t.Error("both change")
	}
	two.UnlockChanges()
	if one.TryLockChanges(t.Context()) {
		t.Error("it isn't given back yet")
	}
	b.check(two.Follow(t.Context()))
	if !one.TryLockChanges(t.Context()) || one.TryLockChanges(t.Context()) {
		t.Error("nobody changes")
	}
	one.UnlockChanges()
	one.GiveTurn()
	b.check(one.TakeTurn(t.Context())) // though the debt wasn't paid
	b.check(one.Follow(t.Context()))
	if err := two.TakeTurn(once(t)); err == nil {
		t.Error("both have the turn: it was given back behind being taken again")
	}
	// Nothing is written; one is silent, and stands still.
	e := b.seats[0].Present()
	for range 4 {
		b.now = b.now.Add(20 * time.Second)
		b.beat(two)
		b.sweep(two)
		if err := two.TakeTurn(once(t)); err == nil {
			break
		}
	}
	if b.seats[0].Present() != e {
		t.Error("it was written to find out that the holder stands still")
	}
	if left := b.board.String(); !strings.Contains(left, "ddl:2") {
		t.Errorf("whose turn: %s", left)
	}
	if err := one.TurnKept(); err != nil {
		t.Error(err) // it hasn't heard, and is on no shard
	}
	b.beat(one)
	if err := one.TurnKept(); !errors.Is(err, cluster.ErrTurnLost) {
		t.Error(err)
	}
	one.GiveTurn()
	b.check(one.Follow(t.Context()))
	if left := b.board.String(); !strings.Contains(left, "ddl:2") || one.TurnKept() != nil {
		t.Errorf("whose turn: %s", left)
	}
}

// TestGivenUpTakeover: who was to be driven out is so by whoever comes next.
func TestGivenUpTakeover(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	two, three := b.member(2, cluster.Member{}), b.member(3, cluster.Member{})
	for _, left := range []string{"1", "1<0", "<1", "2<1"} {
		_, err := b.board.TakeTurn(t.Context(), "ddl", left)
		b.check(err)
		join, err := b.seats[0].Join(t.Context(), cluster.Identity{ID: 1}, 0)
		b.check(err)
		b.seats[0].Connect(7, "app", "h:7")
		b.seats[0].Busy(7, true)
		_, _, err = b.seats[0].Note(t.Context(), join, 7)
		b.check(err)
		// It came behind the look: see turn.
		if left[0] == '1' {
			if err := two.TakeTurn(once(t)); err == nil {
				t.Errorf("%s: taken from one that lives", left)
			}
			b.seats[0].End(7)
			_, err := b.seats[0].SetFenced(t.Context(), join)
			b.check(err)
			b.check(b.seats[0].Remove(t.Context(), join))
			join, err = b.seats[1].Join(t.Context(), cluster.Identity{ID: 1}, 0)
			b.check(err)
			_, err = b.seats[1].SetFenced(t.Context(), join)
			b.check(err)
			b.check(b.seats[1].Remove(t.Context(), join))
		} else {
			for _, s := range []*cluster.Shared{two, three} {
				if err := s.TakeTurn(once(t)); err == nil {
					t.Errorf("%s: taken, and what the former holder sent runs", left)
				}
				b.check(s.Follow(t.Context()))
				if left := b.board.String(); !strings.Contains(left, "ddl:<1") {
					t.Errorf("given up: %s", left)
				}
			}
			b.seats[0].End(7)
		}
		b.check(three.TakeTurn(once(t)))
		three.GiveTurn()
		b.check(three.Follow(t.Context()))
		if n := len(b.rows(0)); n != 2 {
			t.Errorf("%s: %d rows", left, n)
		}
	}
}

// TestNumbers: connections' numbers differ over members, and while they are open. One that is gone
// has its number taken only where there is no other.
func TestNumbers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.member(1, cluster.Member{}), b.member(256, cluster.Member{}) // which begin to look at the same place
	b.check(one.Numbered(t.Context()))
	b.check(two.Follow(t.Context()))
	seen := map[uint32]bool{}
	for range 1000 {
		for _, s := range []*cluster.Shared{one, two} {
			id := s.ConnectionID()
			if seen[id] || id&255 == 0 {
				t.Fatalf("number %d twice", id)
			}
			if seen[id] = true; id%3 == 0 {
				s.EndConnection(id)
			}
			if m, err := one.MemberOf(t.Context(), id); err != nil || m != s.Self() {
				t.Fatalf("%d is %q's, %v", id, m, err)
			}
		}
	}
	had := one.ConnectionID() & 255
	for id := range catalog.ShardID(2) {
		for _, r := range b.rows(int(id)) {
			if r.ID == 1 {
				_, err := b.seats[id].SetFenced(t.Context(), r.Join)
				b.check(err)
			}
		}
	}
	b.sweep(two)
	three := b.member(511, cluster.Member{})
	b.check(three.Numbered(t.Context()))
	if id := three.ConnectionID(); id&255 == had {
		t.Errorf("%d has the number of one whose clients may be there", id)
	}
	b.check(three.Quit(t.Context()))
	for n := range 256 { // all are had
		_, err := b.board.TakeTurn(t.Context(), fmt.Sprint("number ", n), two.Self())
		b.check(err)
	}
	four := b.member(4, cluster.Member{})
	b.check(four.Numbered(t.Context()))
	id := four.ConnectionID()
	if m, _ := two.MemberOf(t.Context(), id); m != four.Self() || id&255 != had {
		t.Errorf("%d is %s's", id, m)
	}
	b.beat(one) // it lived
	if err := one.Numbered(t.Context()); err == nil || !strings.Contains(err.Error(), "too many members") {
		t.Errorf("%v", err)
	}
	b.check(b.board.GiveTurn(t.Context(), "number 77", two.Self()))
	b.check(one.Follow(t.Context()))
	if id := one.ConnectionID(); id&255 != 77 {
		t.Errorf("number %d", id&255)
	}
}

// TestAsk: members answer each other; who doesn't is told of, and whether it may yet do something.
func TestAsk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two, three := b.member(1, cluster.Member{}), b.member(2, cluster.Member{}), b.member(3, cluster.Member{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var listening sync.WaitGroup
	defer listening.Wait()
	hold := make(chan struct{})
	for _, s := range []*cluster.Shared{two, three} {
		listening.Go(func() { s.Run(ctx) }) // which hears of questions
		listening.Go(func() {
			s.Listen(ctx, func(ctx context.Context, q []byte) []byte {
				if string(q) == "slow" && s == three {
					select {
					case <-hold:
					case <-ctx.Done():
					}
				}
				return []byte(s.Self() + " of " + string(q))
			})
		})
	}
	got, err := one.Ask(t.Context(), []byte("x"), two.Self(), three.Self())
	b.check(err)
	if len(got.Answers) != 2 || string(got.Answers[two.Self()]) != two.Self()+" of x" || string(got.Answers[three.Self()]) != three.Self()+" of x" {
		t.Errorf("%q", got.Answers)
	}
	got, err = one.Ask(t.Context(), []byte("slow"), two.Self(), three.Self())
	b.check(err)
	if len(got.Answers) != 1 || got.Untouched {
		t.Errorf("%q, %v: one has taken it up, and hasn't answered", got.Answers, got.Untouched)
	}
	close(hold)
	got, err = one.Ask(t.Context(), []byte("y"), two.Self(), "dead")
	b.check(err)
	if len(got.Answers) != 1 || !got.Untouched {
		t.Errorf("%q, %v: nobody has taken it up", got.Answers, got.Untouched)
	}
	stop()
}

// TestWentBack: neither a shard nor a board that forgot something is gone by.
func TestWentBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lost := 0
	s := b.member(1, cluster.Member{Lost: func(catalog.ShardID, uint64, error) { lost++ }})
	for range 5 {
		_, err := s.Advance(t.Context(), 0)
		b.check(err)
	}
	e := s.Epoch(0)
	_, err := s.Horizon(t.Context(), 0)
	b.check(err)
	b.seats[0].GoBack(2)
	if _, err := s.Advance(t.Context(), 0); !errors.Is(err, cluster.ErrWentBack) {
		t.Error(err)
	}
	for range 2 {
		if err := s.Beat(t.Context(), 0); !errors.Is(err, cluster.ErrWentBack) {
			t.Error(err)
		}
	}
	if s.Passed(0, e) || lost != 1 || s.Register(0).Join != 0 {
		t.Errorf("lost %d times", lost)
	}
	_, err = b.board.Write(t.Context(), 0)
	b.check(err)
	b.check(s.Follow(t.Context()))
	b.board.GoBack(1, "another")
	if err := s.Follow(t.Context()); !errors.Is(err, cluster.ErrWentBack) {
		t.Error(err)
	}
	b.board.GoBack(0, "")
	if err := s.Follow(t.Context()); !errors.Is(err, cluster.ErrWentBack) {
		t.Error(err)
	}
}

// TestForgottenEpochs: a shard is joined in a lower epoch than before only if whoever knows of
// its floors says so, who may raise it. What was registered before still counts.
func TestForgottenEpochs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var asked []storage.Epoch
	floor := storage.Epoch(0)
	no := errors.New("no")
	var s *cluster.Shared
	m := cluster.Member{Admit: func(ctx context.Context, id catalog.ShardID, e storage.Epoch) error {
		asked = append(asked, e)
		if floor == 99 {
			return no
		}
		if e < floor {
			return s.Raise(ctx, id, floor)
		}
		return nil
	}}
	s = b.member(1, m)
	for range 5 {
		_, err := s.Advance(t.Context(), 0)
		b.check(err)
	}
	old := s.Register(0) // in 6
	b.seats[0].GoBack(3)
	if err := s.Beat(t.Context(), 0); !errors.Is(err, cluster.ErrNotJoined) && err != nil {
		t.Error(err)
	}
	b.check(s.Beat(t.Context(), 0))
	first, second := s.Register(0), s.Register(0)
	if first.Epoch != 3 || first.Join == old.Join || first.Join == 0 {
		t.Errorf("registered as %+v", first)
	}
	s.End(first)
	if rows := b.rows(0); rows[0].Epoch != 3 {
		t.Errorf("told %+v", rows)
	}
	s.End(old)
	_, err := s.Advance(t.Context(), 0)
	b.check(err)
	if h, err := s.Horizon(t.Context(), 0); err != nil || h != 3 {
		t.Errorf("horizon %d, %v", h, err)
	}
	s.End(second)
	if h, err := s.Horizon(t.Context(), 0); err != nil || h != 4 {
		t.Errorf("horizon %d, %v", h, err)
	}
	b.seats[0].GoBack(2)
	floor = 99
	_ = s.Beat(t.Context(), 0)
	if err := s.Beat(t.Context(), 0); !errors.Is(err, no) || s.Register(0).Join != 0 {
		t.Error(err)
	}
	floor = 9
	b.check(s.Beat(t.Context(), 0))
	if r := s.Register(0); r.Epoch != 9 || b.seats[0].Present() != 9 {
		t.Errorf("registered as %+v", r)
	}
	if !slices.Equal(asked, []storage.Epoch{1, 1, 3, 2, 2, 2}) {
		t.Errorf("asked of %v", asked)
	}
}

// TestJoinByParts: what calls of others there are comes from several.
func TestJoinByParts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var calls []string
	call := func(what string) { calls = append(calls, what) }
	s := b.member(1, cluster.Member{
		Adopt: func(context.Context, uint64) error { call("adopt"); return nil },
		Lost:  func(catalog.ShardID, uint64, error) { call("lost") },
	})
	s.Join(cluster.Member{Admit: func(context.Context, catalog.ShardID, storage.Epoch) error { call("admit"); return nil }})
	s.Join(cluster.Member{Freed: func() { call("freed") }})
	s.Join(cluster.Member{Interrupt: func(context.Context, func(catalog.TableName, catalog.IndexID) bool) error {
		call("interrupt")
		return nil
	}})
	readmit, err := s.Dismiss(once(t), 3)
	b.check(err)
	readmit()
	b.seats[0].GoBack(1)
	b.beat(s)
	if want := []string{"adopt", "interrupt", "freed", "lost", "admit"}; !slices.Equal(calls, want) {
		t.Errorf("%v, want %v", calls, want)
	}
}

// TestLateAnswer: an epoch that was asked for under a former join isn't adopted.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.member(1, cluster.Member{Admit: func(context.Context, catalog.ShardID, storage.Epoch) error { return nil }})
	for range 5 {
		_, err := s.Advance(t.Context(), 0)
		b.check(err)
	}
	b.seats[0].Saw = func(step, _ string) {
		if step == "advance" { // it has answered, and is another server now
			b.seats[0].Saw = nil
			b.seats[0].GoBack(2)
			_ = s.Beat(t.Context(), 0)
			b.check(s.Beat(t.Context(), 0))
		}
	}
	if e, err := s.Advance(t.Context(), 0); !errors.Is(err, cluster.ErrNotJoined) || s.Epoch(0) != 2 {
		t.Errorf("epoch %d, %v, adopted %d", e, err, s.Epoch(0))
	}
}

// TestNothingToSettle: others' rows stand for what they left.
func TestNothingToSettle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.member(1, cluster.Member{})
	s.Unsettle(0)
	if _, open := s.ToSettle(0); open || s.OldThreads(0) != nil {
		t.Error("unsettled")
	}
}

// TestMembers: SHOW MEMBERS has a line for each that is on any shard.
func TestMembers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.member(1, cluster.Member{})
	b.now = b.now.Add(time.Minute)
	two := b.member(2, cluster.Member{})
	b.seats[0].Connect(7, "app", "h:7")
	_, err := two.NoteThread(t.Context(), 0, storage.Thread{ID: 7})
	b.check(err)
	defer two.End(two.Register(0))
	_, err = one.Advance(t.Context(), 0)
	b.check(err)
	b.beat(one, two)
	_, err = one.Advance(t.Context(), 0)
	b.check(err)
	b.beat(one)
	b.sweep(one)
	if n := one.Sharing(0); n != 2 {
		t.Errorf("%d members are on the shard", n)
	}
	b.check(two.Quit(t.Context()))
	_, err = b.seats[1].Join(t.Context(), cluster.Identity{ID: 3, Addr: "else"}, 0)
	b.check(err)
	want := []cluster.MemberStatus{
		{Member: "1", Addr: "h", Version: "v", State: "joined", Since: b.now.Add(-time.Minute), Told: []cluster.ToldOn{{0, 3, 3}, {1, 1, 1}}},
		{Member: "3", Addr: "else", State: "absent: 0; joining: 1", Since: b.now, Told: []cluster.ToldOn{{1, 0, 1}}},
	}
	same := func(a, b cluster.MemberStatus) bool { return reflect.DeepEqual(a, b) }
	got, err := one.Members(t.Context())
	if b.check(err); !slices.EqualFunc(got, want, same) {
		t.Errorf("%+v, want\n%+v", got, want)
	}
	two = b.member(2, cluster.Member{})
	defer two.End(two.Register(0))
	b.seats[0].Connect(8, "app", "h:8")
	_, err = two.NoteThread(t.Context(), 0, storage.Thread{ID: 8})
	b.check(err)
	_, err = one.Advance(t.Context(), 0)
	b.check(err)
	b.beat(two)
	for _, r := range b.rows(1) {
		if r.ID == 2 {
			_, err := b.seats[1].SetFenced(t.Context(), r.Join)
			b.check(err)
		}
	}
	down := errors.New("down")
	got, err = one.Members(t.Context())
	if b.check(err); len(got) != 3 || got[0].State != "behind: 0" || got[1].State != "fenced: 1" || got[1].Connections != 1 || got[1].Open != 1 ||
		got[1].Told[0] != (cluster.ToldOn{Shard: 0, Epoch: 3, Now: 4}) {
		t.Errorf("%+v", got)
	}
	b.seats[0].Fail = func(string) error { return down }
	if got, err := one.Members(t.Context()); !errors.Is(err, down) || len(got) != 3 || got[0].State != "unknown: 0" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRegisteringAllocatesNothing: each statement does.
func TestRegisteringAllocatesNothing(t *testing.T) {
	b := newBench(t)
	s := b.member(1, cluster.Member{})
	defer s.End(s.Register(0))
	if n := testing.AllocsPerRun(100, func() { s.End(s.Register(0)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTableTurns: DDL of one table keeps nobody from that of others, whoever is at it dies or lives.
func TestTableTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.member(1, cluster.Member{}), b.member(2, cluster.Member{})
	users, long := catalog.TableName{Schema: "App", Name: "users"}, catalog.TableName{Schema: "app", Name: strings.Repeat("a", 300)}
	b.check(one.TakeTurn(t.Context()))
	kept, give, err := one.TakeTables(t.Context(), users, long, users)
	b.check(err)
	one.GiveTurn()
	b.check(one.Follow(t.Context()))
	b.check(two.TakeTurn(t.Context()))
	held := func(m *cluster.Shared, of catalog.Scope) string {
		t.Helper()
		holder, err := m.TablesHeld(t.Context(), of)
		b.check(err)
		return holder
	}
	for _, of := range []catalog.Scope{
		{Tables: []catalog.TableName{{Schema: "app", Name: "other"}, {Schema: "app", Name: "USERS"}}}, {Tables: []catalog.TableName{long}}, {Schemas: []string{"x", "APP"}}, {All: true},
	} {
		if by := held(two, of); by != "member 1 (h) on shard 0" {
			t.Errorf("%v is held by %q", of, by)
		}
		if by := held(one, of); by != "" {
			t.Errorf("%v: its own is told as %q", of, by)
		}
	}
	for _, of := range []catalog.Scope{{}, {Tables: []catalog.TableName{{Schema: "app", Name: "user"}, {Schema: "ap", Name: "users"}}}, {Schemas: []string{"ap", "ap`p", "app."}}} {
		if by := held(two, of); by != "" {
			t.Errorf("%v is held by %s", of, by)
		}
	}
	if _, _, err := two.TakeTables(t.Context(), catalog.TableName{Schema: "app", Name: "a"}, users); err == nil || strings.Contains(b.board.String(), "`a`") {
		t.Errorf("%v; on the board: %s", err, b.board.String())
	}
	if err := two.AwaitTables(once(t), catalog.Scope{All: true}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "held up by member 1 (h) on shard 0") {
		t.Error(err)
	}
	b.check(kept())
	give()
	b.check(one.Follow(t.Context()))
	b.check(two.AwaitTables(t.Context(), catalog.Scope{All: true}))
	two.GiveTurn()
	b.check(two.Follow(t.Context()))

	// One stands still, and comes back.
	b.check(one.TakeTurn(t.Context()))
	kept, give, err = one.TakeTables(t.Context(), users)
	b.check(err)
	one.GiveTurn()
	b.check(one.Follow(t.Context()))
	for range 4 {
		b.now = b.now.Add(20 * time.Second)
		b.beat(two)
		b.sweep(two)
		if held(two, catalog.Scope{Schemas: []string{"app"}}) == "" {
			break
		}
	}
	b.check(two.Follow(t.Context()))
	if left := b.board.String(); strings.Contains(left, "users") {
		t.Errorf("whose turn: %s", left)
	}
	b.check(kept()) // it hasn't heard, and is on no shard
	b.beat(one)
	if err := kept(); !errors.Is(err, cluster.ErrTurnLost) {
		t.Error(err)
	}
	give()
	b.check(one.Follow(t.Context()))
}
