package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
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
		Open: func(context.Context, catalog.ShardID) (schema.Querier, func(), error) {
			a.asked.Add(1)
			return a, func() {}, nil
		},
		Indexes: func() []schema.IndexDef { return nil },
		Check: func(context.Context, *catalog.Catalog, schema.Placements, bool, bool) (bool, error) {
			return false, nil
		},
		Kept:   func(string, string) (schema.TablePlacement, bool, error) { return schema.TablePlacement{}, false, nil },
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
