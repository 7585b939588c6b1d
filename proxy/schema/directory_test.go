package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// askedShard has the schemas made0, made1, ...
type askedShard struct {
	asked, schemas atomic.Int64
	// first is received from twice by who asks first, once it was told of the schemas.
	first chan struct{}
}

func (a *askedShard) Rows(_ context.Context, sql string) ([][][]byte, error) {
	switch {
	case strings.HasPrefix(sql, "SELECT VERSION()"):
		return [][][]byte{{[]byte("9.7.4"), []byte("0")}}, nil
	case strings.Contains(sql, "SCHEMATA"):
		var rows [][][]byte
		for i := range a.schemas.Load() {
			rows = append(rows, [][]byte{[]byte(fmt.Sprint("made", i))})
		}
		return rows, nil
	case strings.Contains(sql, "TRIGGERS") && a.asked.Load() == 1:
		<-a.first
		<-a.first
	}
	return nil, nil
}

// directoryOf is that of one shard.
func directoryOf(a *askedShard) *Directory {
	return NewDirectory(DirectoryOptions{
		Shards: []catalog.Shard{{ID: 0, Name: "s0"}},
		Open: func(context.Context, catalog.ShardID) (Querier, func(), error) {
			a.asked.Add(1)
			return a, func() {}, nil
		},
		Indexes: func() []catalog.IndexDef { return nil },
		Check: func(context.Context, *catalog.Catalog, Placements, []catalog.TableName, bool, bool) (bool, error) {
			return false, nil
		},
		Kept:   func(string, string) (TablePlacement, bool, error) { return TablePlacement{}, false, nil },
		Logger: slog.New(slog.DiscardHandler),
	})
}

// TestRefreshTogether: who asks for the schema while it is read doesn't get what was read
// before that; but of many that wait in line one asks for all.
func TestRefreshTogether(t *testing.T) {
	t.Parallel()
	a := &askedShard{first: make(chan struct{})}
	d := directoryOf(a)
	var all, called sync.WaitGroup
	refresh := func() {
		called.Add(1)
		all.Go(func() {
			made := fmt.Sprint("made", a.schemas.Add(1)-1)
			called.Done()
			if err := d.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			if d.Catalog().Schema(made) == nil {
				t.Errorf("%s isn't known after it was made", made)
			}
		})
	}
	refresh()
	a.first <- struct{}{}
	const others = 20
	for range others {
		refresh()
	}
	called.Wait()
	a.first <- struct{}{}
	all.Wait()
	if n := a.asked.Load(); n > others/2 {
		t.Errorf("the shard was asked %d times", n)
	}
}

// TestReread: it tells of a change that another refresh has seen first, once.
func TestReread(t *testing.T) {
	t.Parallel()
	a := &askedShard{first: make(chan struct{})}
	close(a.first)
	d := directoryOf(a)
	for i, made := range []bool{false, true, false, true, true} {
		if err := d.Refresh(t.Context()); err != nil { // the first one makes the catalog
			t.Fatal(err)
		}
		if made {
			a.schemas.Add(1)
			if err := d.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if changed, err := d.Reread(t.Context(), 0); err != nil || changed != made {
			t.Errorf("%d: changed %v, %v; want %v", i, changed, err, made)
		}
	}
}

// TestNewsOfABurst: a burst of DDL is logged in one line, when it is over or goes on and on.
func TestNewsOfABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &askedShard{first: make(chan struct{})}
		close(a.first)
		d := directoryOf(a)
		d.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		make := func() {
			a.schemas.Add(1)
			if err := d.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			d.tellChanged()
		}
		lines := func() int { return strings.Count(log.String(), "the schema of shards has changed") }
		for range 30 {
			make()
			time.Sleep(newsRest / 2)
		}
		if n := lines(); n > 0 {
			t.Errorf("%d lines in the middle", n)
		}
		time.Sleep(newsRest / 2)
		d.tellChanged()
		if n := lines(); n != 1 || !strings.Contains(log.String(), "shards=s0 in=schemas") {
			t.Errorf("%d lines: %s", n, log.String())
		}
		for began := time.Now(); time.Since(began) <= newsAge; time.Sleep(newsRest / 2) {
			make()
		}
		if n := lines(); n != 2 {
			t.Errorf("%d lines after a minute", n)
		}
	})
}

// TestRefreshOfTables: behind DDL of a table only its shards are asked, and all when it has
// rested.
func TestRefreshOfTables(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := map[catalog.ShardID]int{}
		a := &askedShard{first: make(chan struct{})}
		close(a.first)
		d := directoryOf(a)
		d.opts.Shards = append(d.opts.Shards, catalog.Shard{ID: 1, Name: "s1"})
		var mu sync.Mutex
		d.opts.Open = func(_ context.Context, id catalog.ShardID) (Querier, func(), error) {
			mu.Lock()
			defer mu.Unlock()
			asked[id]++
			return a, func() {}, nil
		}
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := d.RefreshTold(t.Context(), Part{Tables: []catalog.TableName{{Schema: "made0", Name: "t"}}}, catalog.Only(1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(restFor - time.Second)
			if d.unsure() {
				t.Error("all are to be asked in the middle of DDL")
			}
		}
		if asked[0] != 1 || asked[1] != 4 {
			t.Errorf("the shards were asked %v times", asked)
		}
		if time.Sleep(2 * time.Second); !d.unsure() {
			t.Error("not all are asked in the end")
		}
	})
}

// TestFollow: other than Refresh it needs the answer of every shard.
func TestFollow(t *testing.T) {
	t.Parallel()
	a := &askedShard{first: make(chan struct{})}
	close(a.first)
	d := directoryOf(a)
	d.opts.Shards = append(d.opts.Shards, catalog.Shard{ID: 1, Name: "s1"})
	open, silent := d.opts.Open, true
	d.opts.Open = func(ctx context.Context, id catalog.ShardID) (Querier, func(), error) {
		if id == 1 && silent {
			return nil, nil, errors.New("it is down")
		}
		return open(ctx, id)
	}
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := func(catalog.ShardID) bool { return true }
	if err := d.Follow(t.Context(), func(id catalog.ShardID) bool { return id == 0 }); err != nil || d.Told(1) {
		t.Errorf("nothing is sent to s1, and it told %v: %v", d.Told(1), err)
	}
	if err := d.Follow(t.Context(), all); err == nil || !strings.Contains(err.Error(), "s1") {
		t.Errorf("without s1: %v", err)
	}
	silent = false
	if err := d.Follow(t.Context(), all); err != nil || !d.Told(1) {
		t.Error(err)
	}
}
