package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// fakeLogs are logs in which nothing happens.
type fakeLogs struct {
	mu        sync.Mutex
	unfit     catalog.ShardSet
	following []string // "shard: from", of those that are followed now
}

func (l *fakeLogs) Fit(_ context.Context, id catalog.ShardID) error {
	if l.unfit.Has(id) {
		return errors.New("no log is written")
	}
	return nil
}

func (l *fakeLogs) Follow(ctx context.Context, id catalog.ShardID, from string, begin func(Trail) Reader) error {
	if !l.unfit.Has(id) {
		this := fmt.Sprintf("%d: %s", id, from)
		l.mu.Lock()
		l.following = append(l.following, this)
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.following = slices.DeleteFunc(l.following, func(f string) bool { return f == this })
		}()
		begin(&stillTrail{at: "here"})
	}
	<-ctx.Done()
	return ctx.Err()
}

func (l *fakeLogs) followed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(slices.Sorted(slices.Values(l.following)))
}

// needsBench is two shards whose logs can be followed but for those that are unfit, with a row each. It counts the rows
// that are read.
func needsBench(t *testing.T, unfit catalog.ShardSet) (b *bench, logs *fakeLogs, read func() int) {
	logs = &fakeLogs{unfit: unfit}
	var mu sync.Mutex
	rows := 0
	b = newBench(t, 2, func(o *Options) {
		o.Logs, o.Following = logs, catalog.Only(0).Union(catalog.Only(1))
		o.Metrics.ScanRows = func(_ catalog.ShardID, n int, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			rows += n
		}
	})
	b.x.patience = time.Hour
	b.shards[0].rows[1], b.shards[1].rows[2] = "a", "b"
	return b, logs, func() int {
		mu.Lock()
		defer mu.Unlock()
		return rows
	}
}

// TestFollowsWhatIsNeeded: a log is followed from the first virtual index on, whose build no scan follows, until the last
// one is gone.
func TestFollowsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	b, logs, read := needsBench(t, catalog.ShardSet{})
	b.pass(5 * time.Second)
	if got := logs.followed(); got != "[]" {
		t.Fatalf("followed without an index: %s", got)
	}
	b.create()
	if got := logs.followed(); got != "[0:  1: ]" {
		t.Errorf("followed: %s", got)
	}
	b.until("places are kept", func() bool {
		one, _ := b.store.Position(0)
		two, _ := b.store.Position(1)
		return one != "" && two != ""
	})
	b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
	if n := read(); n != 2 {
		t.Errorf("%d rows were read of 2", n)
	}
	b.pass(2 * needRest)
	if got := logs.followed(); got != "[0:  1: ]" {
		t.Errorf("followed in the end: %s", got)
	}
	if err := b.x.DropIndex(t.Context(), "s", "t", "ix"); err != nil {
		t.Fatal(err)
	}
	b.until("none is followed", func() bool { return logs.followed() == "[]" })
	if at, err := b.store.Position(0); at != "" || err != nil {
		t.Errorf("a place is kept: %q, %v", at, err)
	}
	b.create()
	b.until("all are followed again", func() bool { return logs.followed() == "[0:  1: ]" })
}

// TestPlacesOutliveEnds: the end of a process leaves its places in logs to the next one, whoever is told first that it ends.
func TestPlacesOutliveEnds(t *testing.T) {
	t.Parallel()
	b, logs, _ := needsBench(t, catalog.ShardSet{})
	b.create()
	kept := func() bool {
		at, err := b.store.Position(0)
		return at != "" && err == nil
	}
	b.until("a place is kept", kept)
	b.x.Close()
	for why, stays := range map[error]bool{nil: true, errNotNeeded: false} {
		if err := b.store.KeepPosition(0, "here"); err != nil {
			t.Fatal(err)
		}
		stop := b.x.startFollowing(t.Context(), 0)
		b.until("it is followed", func() bool { return logs.followed() == "[0: here]" })
		if stop(why); kept() != stays {
			t.Errorf("%v: the place is kept: %v", why, kept())
		}
	}
}

// TestBuildsBesideUnfit: a build doesn't wait for logs that can't be followed, and what is followed later is scanned then.
func TestBuildsBesideUnfit(t *testing.T) {
	t.Parallel()
	b, logs, read := needsBench(t, catalog.Only(1))
	b.create()
	if got := logs.followed(); got != "[0: ]" {
		t.Errorf("followed: %s", got)
	}
	f := b.x.newFollower(1, "", &stillTrail{at: "here"})
	t.Cleanup(f.close)
	if !f.owes {
		t.Error("a log that is followed from behind a build on isn't preceded by a scan")
	}
	b.until("no job is left", func() bool { return len(b.store.Jobs()) == 0 })
	if n := read(); n != 2 {
		t.Errorf("%d rows were read of 2", n)
	}
}

// TestUnbegun: only before a build has read rows nothing of before is needed.
func TestUnbegun(t *testing.T) {
	t.Parallel()
	b, _, _ := needsBench(t, catalog.Only(0).Union(catalog.Only(1)))
	is := func(wanted bool) {
		t.Helper()
		if got := b.x.unbegun(0); got != wanted {
			t.Errorf("unbegun: %v, wanted %v", got, wanted)
		}
	}
	is(true) // there is none
	b.create()
	is(false)
	if _, err := b.store.CreateIndex(catalog.IndexDef{Schema: "s", Table: "t", Name: "two", Columns: []string{"k"}}); err != nil {
		t.Fatal(err)
	}
	is(false) // of another index of the shard there was one
	if err := b.x.DropIndex(t.Context(), "s", "t", "ix"); err != nil {
		t.Fatal(err)
	}
	is(true)
	two := b.store.Indexes()[0].ID
	if err := b.store.UpdateIndex(two, func(d *storage.IndexRecord) { d.Unbegun = false }); err != nil {
		t.Fatal(err)
	}
	is(false)
}
