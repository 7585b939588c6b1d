package indexer

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cover"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// coveringTable has id, k, c and d, and an index on k that includes c.
func coveringTable(name string) *catalog.Table {
	column := func(name string, at int) *catalog.Column {
		return &catalog.Column{Name: name, Type: "varchar(20)", Charset: "utf8mb4", Collation: "utf8mb4_bin", Nullable: true, Position: at}
	}
	t := &catalog.Table{Schema: "s", Name: name, Shards: catalog.Only(0), Columns: []*catalog.Column{column("id", 0), column("k", 1), column("c", 2), column("d", 3)}}
	t.PrimaryKey = t.Columns[:1]
	t.Indexes = []*catalog.Index{{ID: 7, Name: "ix", Table: t, Columns: t.Columns[1:2], Include: t.Columns[2:3], Status: catalog.Ready}}
	return t
}

// TestCoveredChanges: what a shard's log tells voids the answers of the keys that it is of, and no others.
func TestCoveredChanges(t *testing.T) {
	t.Parallel()
	row := func(id, k, c, d string) Image { return columns{"id": id, "k": k, "c": c, "d": d} }
	both := []string{"a", "b"}
	for name, test := range map[string]struct {
		change RowChange
		voids  []string
	}{
		"insert":                            {RowChange{After: row("1", "a", "x", "y")}, []string{"a"}},
		"insert of NULL":                    {RowChange{After: row("1", "NULL", "x", "y")}, nil},
		"delete":                            {RowChange{Before: row("1", "b", "x", "y")}, []string{"b"}},
		"delete with the primary key alone": {RowChange{Before: columns{"id": "1"}}, both},
		"another key":                       {RowChange{Before: row("1", "a", "x", "y"), After: row("1", "b", "x", "y")}, both},
		"another key, of no answer":         {RowChange{Before: row("1", "z", "x", "y"), After: row("1", "b", "x", "y")}, []string{"b"}},
		"an included column":                {RowChange{Before: row("1", "a", "x", "y"), After: row("1", "a", "X", "y")}, []string{"a"}},
		"an included column to NULL":        {RowChange{Before: row("1", "a", "x", "y"), After: row("1", "a", "NULL", "y")}, []string{"a"}},
		"the primary key":                   {RowChange{Before: row("1", "a", "x", "y"), After: row("2", "a", "x", "y")}, []string{"a"}},
		"a column that isn't covered":       {RowChange{Before: row("1", "a", "x", "y"), After: row("1", "a", "x", "Y")}, nil},
		"an included column that is absent": {RowChange{Before: columns{"id": "1", "k": "a"}, After: columns{"id": "1", "k": "a", "c": "x"}}, []string{"a"}},
		"a minimal image":                   {RowChange{Before: columns{"id": "1"}, After: columns{"d": "Y"}}, both},
		"a value without a key":             {RowChange{Before: row("1", "a", "x", "y"), After: row("1", "\xff", "x", "y")}, both},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := cover.New(1 << 20)
			x := &Indexer{opts: Options{Answers: answers, Catalog: func() *catalog.Catalog { return &catalog.Catalog{} }}, codec: columnCodec}
			table := coveringTable("t")
			ix := table.Indexes[0]
			f := &follower{x: x, answers: x.answersOf(0), readings: map[*catalog.Index]*reading{}}
			go f.answers.Tend(t.Context(), &stillTrail{}, func() bool { return true })
			key := func(k string) []byte { return f.reading(ix).of(row("1", k, "", "")).key }
			for _, k := range both {
				deadline := time.Now().Add(time.Minute)
				for kept := false; !kept; {
					if fill := answers.Begin(table.Indexes); fill != nil && fill.On(ix, [][]byte{key(k)}) {
						fill.Keep([]byte(k), k, 1)
						kept = true
					} else if time.Now().After(deadline) {
						t.Fatal("nothing is kept")
					} else {
						time.Sleep(time.Millisecond)
					}
				}
			}
			f.cover(table, test.change)
			for _, k := range both {
				_, of := answers.Get([]byte(k), false)
				if void := slices.Contains(test.voids, k); void != (of == cover.Changed) {
					t.Errorf("the answer of %s is %s", k, of)
				}
			}
		})
	}
}

// TestReached: a write is waited for by the answers of all tables that it may change.
func TestReached(t *testing.T) {
	t.Parallel()
	covering, plain := coveringTable("covering"), &catalog.Table{Schema: "s", Name: "plain"}
	parent := &catalog.Table{Schema: "s", Name: "parent", Cascades: []catalog.Cascade{{Child: covering, OnDelete: true, DeletesRows: true}}}
	triggers := &catalog.Table{Schema: "s", Name: "triggers", Triggers: []catalog.Trigger{{Event: "DELETE", Touches: []*catalog.Table{parent}}}}
	cat := &catalog.Catalog{Schemas: map[string]*catalog.Schema{"s": {Name: "s", Tables: map[string]*catalog.Table{}}}}
	for _, x := range []*catalog.Table{covering, plain, parent, triggers} {
		cat.Schemas["s"].Tables[x.Name] = x
	}
	indexer := &Indexer{opts: Options{Catalog: func() *catalog.Catalog { return cat }}}
	for _, x := range []struct {
		table *catalog.Table
		n     int
	}{{covering, 1}, {plain, 0}, {parent, 1}, {triggers, 1}, {coveringTable("covering"), 2}} { // by another catalog: of both
		if got := indexer.reached(x.table); len(got) != x.n {
			t.Errorf("%s reaches %v", x.table.Name, got)
		}
	}
}

// TestCoverable: INCLUDE is refused where nobody could say that an answer is current.
func TestCoverable(t *testing.T) {
	t.Parallel()
	table, early, varies := coveringTable("t"), coveringTable("t"), coveringTable("t")
	early.Early = true
	varies.Columns[2].Varies = true
	answers := cover.New(1 << 20)
	for name, x := range map[string]struct {
		opts    Options
		on      *catalog.Table
		live    bool
		include []string
		why     string // "": it is taken
	}{
		"fine":                                   {Options{Answers: answers}, table, true, []string{"C", "id"}, ""},
		"several Shunts":                         {Options{Everyone: func(context.Context) error { return nil }}, table, true, []string{"c"}, "several Shunts"},
		"no logs":                                {Options{}, table, false, []string{"c"}, "maintenance.follow"},
		"a log that isn't read":                  {Options{Answers: answers}, table, false, []string{"c"}, "isn't: see SHOW SHARDS"},
		"an engine that shows what isn't logged": {Options{Answers: answers}, early, true, []string{"c"}, "its engine"},
		"a column of the session":                {Options{Answers: answers}, varies, true, []string{"c"}, "VIRTUAL"},
		"no column":                              {Options{Answers: answers}, table, true, []string{"nothing"}, "no column"},
		"a column twice":                         {Options{Answers: answers}, table, true, []string{"c", "C"}, "twice"},
	} {
		x.opts.Catalog = func() *catalog.Catalog { return nil }
		indexer := &Indexer{opts: x.opts}
		if x.live {
			indexer.followers.set(0, &follower{trail: &stillTrail{}})
		}
		names, err := indexer.coverable(t.Context(), x.on, x.include)
		switch {
		case x.why == "" && (err != nil || !slices.Equal(names, []string{"c", "id"})):
			t.Errorf("%s: %v, %v", name, names, err)
		case x.why != "" && (err == nil || !strings.Contains(err.Error(), x.why)):
			t.Errorf("%s: %v, wanted %q", name, err, x.why)
		}
	}
}
