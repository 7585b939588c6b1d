package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestNext: a catalog that takes over what stays is the one that is made of everything,
// and holds on to no table of an earlier one.
func TestNext(t *testing.T) {
	t.Parallel()
	anew, updated := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		src := sources(facts(), facts(), nil)
		w := world{t, &src}
		programs := rapid.IntRange(0, 3).Draw(t, "programs") == 0 // else all is made anew each time
		for id := range src.Facts {
			f := &Facts{Schemas: []string{"other", "shop"}}
			for _, name := range w.names() {
				f = f.with([]catalog.TableName{name}, []*tableFact{w.table(name, programs)})
			}
			if programs {
				f.Functions = []functionFact{{schema: "shop", name: "f", body: "RETURN (SELECT COUNT(*) FROM " + w.name().Name + ")"}}
				f.Events = []eventFact{{schema: "shop", name: "e", body: "UPDATE " + w.name().Name + " SET n = 1"}}
			}
			src.Facts[id] = f
		}
		src.Placements = rapid.SampledFrom([]Placements{nil, {"shop": {Tables: map[string]TablePlacement{"a": {Placement: catalog.Reference}, "b": {Placement: catalog.Single, Shard: "s1"}}}}}).Draw(t, "placements")
		s, err := Make(src)
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			src.Version++
			src.Facts, src.Indexes = maps.Clone(src.Facts), slices.Clone(src.Indexes)
			w.change(programs)
			if _, ok := s.scope(src); ok {
				updated++
			} else {
				anew++
			}
			if s, err = s.Next(src); err != nil {
				t.Fatal(err)
			}
			whole, err := Make(src)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := saysOf(t, s.Catalog), saysOf(t, whole.Catalog); got != want {
				t.Fatalf("updated:\n%s\nmade anew:\n%s", got, want)
			}
		}
	})
	if updated < anew {
		t.Errorf("%d of %d catalogs were made anew", anew, anew+updated)
	}
}

// world draws what shards say.
type world struct {
	t   *rapid.T
	src *Sources
}

func (w world) name() catalog.TableName {
	return catalog.TableName{Schema: rapid.SampledFrom([]string{"shop", "shop", "other"}).Draw(w.t, "schema"), Name: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(w.t, "table")}
}

func (w world) names() (names []catalog.TableName) {
	for range rapid.IntRange(0, 6).Draw(w.t, "tables") {
		names = append(names, w.name())
	}
	return names
}

func (w world) table(name catalog.TableName, programs bool) *tableFact {
	f := &tableFact{schema: name.Schema, name: name.Name}
	for _, c := range []string{"id", "n", "m"}[:rapid.IntRange(1, 3).Draw(w.t, "columns")] {
		f.columns = append(f.columns, columnFact{name: c, typ: rapid.SampledFrom([]string{"int", "bigint"}).Draw(w.t, "type")})
	}
	if f.view = rapid.IntRange(0, 5).Draw(w.t, "view") == 0; f.view {
		of := w.name()
		f.definition = "select `" + of.Schema + "`.`" + of.Name + "`.`id` AS `id` from `" + of.Schema + "`.`" + of.Name + "`"
		return f
	}
	if rapid.Bool().Draw(w.t, "key") {
		f.keys = []keyFact{{key: "PRIMARY", column: "id"}}
	}
	for range rapid.IntRange(0, 2).Draw(w.t, "foreign keys") {
		to := w.name()
		rule := func() string {
			return rapid.SampledFrom([]string{"CASCADE", "SET NULL", "NO ACTION"}).Draw(w.t, "rule")
		}
		f.foreignKeys = append(f.foreignKeys, foreignKeyFact{
			column: rapid.SampledFrom([]string{"n", "m"}).Draw(w.t, "column"), refSchema: to.Schema, refTable: to.Name,
			refColumn: rapid.SampledFrom([]string{"id", "n"}).Draw(w.t, "refers"), update: rule(), delete: rule(),
		})
	}
	if programs && rapid.IntRange(0, 3).Draw(w.t, "trigger") == 0 {
		f.triggers = []triggerFact{{event: "INSERT", body: "INSERT INTO " + w.name().Name + " VALUES (1)"}}
	}
	f.sort()
	return f
}

// change changes a table on some shards, an index, or what is counted.
func (w world) change(programs bool) {
	name := w.name()
	switch rapid.IntRange(0, 5).Draw(w.t, "what") {
	case 0:
		w.src.Indexes = []catalog.IndexDef{{ID: catalog.IndexID(rapid.Uint32Range(1, 3).Draw(w.t, "index")), Schema: name.Schema, Table: name.Name, Name: "i", Columns: []string{"id"}, Status: catalog.Ready}}
	case 1:
		w.src.Counting = Counting{name, "id"}
	default:
		is := []*tableFact{}
		if rapid.IntRange(0, 2).Draw(w.t, "drop") > 0 {
			is = append(is, w.table(name, programs))
		}
		for id, f := range w.src.Facts {
			if rapid.IntRange(0, 3).Draw(w.t, "failed") > 0 {
				w.src.Facts[id] = f.with([]catalog.TableName{name}, is)
			}
		}
	}
}

// saysOf is all that a catalog says. A table that isn't its own is an error.
func saysOf(t *rapid.T, c *catalog.Catalog) string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	own := func(x *catalog.Table) string {
		if c.Table(x.Schema, x.Name) != x {
			t.Fatalf("%s.%s is of another catalog", x.Schema, x.Name)
		}
		return x.Schema + "." + x.Name
	}
	column := func(of *catalog.Table, x *catalog.Column) string {
		if x == nil {
			return "none"
		}
		if of.Column(x.Name) != x {
			t.Fatalf("%s.%s is of another catalog", of.Name, x.Name)
		}
		return x.Name
	}
	for x := range c.Tables() {
		table := *x
		table.Indexes, table.Triggers, table.Cascades, table.Columns, table.PrimaryKey, table.Unique, table.OtherUnique, table.ShardKey = nil, nil, nil, nil, nil, nil, nil, nil
		say("%s: %+v key %s", own(x), table, column(x, x.ShardKey))
		for _, col := range x.Columns {
			say("%s: column %+v", own(x), *col)
		}
		for _, col := range x.PrimaryKey {
			say("%s: primary %s", own(x), column(x, col))
		}
		for _, ix := range x.Indexes {
			say("%s: index %d %s %s of %s %s", own(x), ix.ID, ix.Name, ix.Status, own(ix.Table), column(x, ix.Columns[0]))
		}
		for _, tr := range x.Triggers {
			var touches []string
			for _, to := range tr.Touches {
				touches = append(touches, own(to))
			}
			slices.Sort(touches)
			say("%s: trigger %s %s touches %v", own(x), tr.Event, tr.Body, touches)
		}
		for _, k := range x.Cascades {
			say("%s: child %s %s refers %s %v %v %v", own(x), own(k.Child), column(k.Child, k.Columns[0]), column(x, k.Refers), k.OnUpdate, k.OnDelete, k.DeletesRows)
		}
	}
	for name := range c.Schemas {
		say("schema %s", name)
	}
	say("%v %v %v %v", c.ReadingFunctions, slices.Sorted(maps.Keys(c.Bound)), c.Version, c.Shards)
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
