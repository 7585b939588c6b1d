package schema

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// shuffled answers the same rows in another order each time, where none was asked for.
type shuffled struct{ answers map[string][][]string }

func (s shuffled) Rows(_ context.Context, sql string) ([][][]byte, error) {
	var out [][][]byte
	for name, rows := range s.answers {
		if !strings.Contains(sql, name) {
			continue
		}
		for _, r := range rows {
			var row [][]byte
			for _, v := range r {
				row = append(row, []byte(v))
			}
			out = append(out, row)
		}
	}
	if !strings.Contains(sql, "ORDER BY") {
		rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out, nil
}

// TestReadInAnyOrder: the same rows in another order are no change of the schema, after
// which replicas would have to prove that they have it.
func TestReadInAnyOrder(t *testing.T) {
	t.Parallel()
	s := shuffled{map[string][][]string{
		"VERSION()":                            {{"9.7.4", "0"}},
		"SHOW GLOBAL VARIABLES":                {{"sql_mode", "ANSI"}, {"time_zone", "SYSTEM"}},
		"information_schema.COLLATIONS":        {{"1", "a", "a", "Yes"}, {"2", "b", "b", ""}, {"3", "c", "c", ""}},
		"information_schema.SCHEMATA":          {{"x"}, {"y"}, {"z"}},
		"information_schema.TABLES":            {{"x", "t", "BASE TABLE"}, {"x", "u", "BASE TABLE"}, {"y", "t", "BASE TABLE"}},
		"information_schema.COLUMNS":           {{"x", "t", "a", "int", "", "", "NO", "", "", ""}, {"x", "u", "a", "int", "", "", "NO", "", "", ""}, {"y", "t", "a", "int", "", "", "NO", "", "", ""}},
		"information_schema.TRIGGERS":          {{"x", "t", "INSERT", "a", ""}, {"x", "t", "INSERT", "b", ""}, {"x", "t", "DELETE", "a", ""}},
		"information_schema.ROUTINES":          {{"f", "a", "x", "FUNCTION"}, {"g", "a", "x", "FUNCTION"}, {"f", "a", "y", "FUNCTION"}},
		"information_schema.KEY_COLUMN_USAGE ": {{"x", "t", "a", "x", "u", "a", "CASCADE", "CASCADE"}, {"x", "u", "a", "x", "t", "a", "CASCADE", "CASCADE"}, {"y", "t", "a", "x", "t", "a", "CASCADE", "CASCADE"}},
	}}
	first, err := Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Tables) != 3 || len(first.ForeignKeys) != 3 || len(first.Functions) != 3 || len(first.Triggers) != 3 {
		t.Fatalf("%+v", first)
	}
	for range 20 {
		if again, err := Read(t.Context(), s); err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("%+v, then %+v, %v", first, again, err)
		}
	}
}

// TestUnlikeDefaults: a default that the shards don't share isn't known.
func TestUnlikeDefaults(t *testing.T) {
	t.Parallel()
	other := facts()
	other.Columns = slices.Clone(other.Columns)
	other.Columns[1].def = new("another")
	for _, src := range []Sources{sources(facts(), other), sources(other, facts())} {
		users := build(t, src).Table("shop", "users")
		if c := users.Column("email"); c.Default != nil || !c.DefaultExpr || users.Differs != "" {
			t.Errorf("%+v, %q", c, users.Differs)
		}
	}
	if c := build(t, sources(facts(), facts())).Table("shop", "users").Column("email"); c.Default == nil || *c.Default != "none" {
		t.Errorf("%+v", c)
	}
	other = facts()
	other.Columns = slices.Clone(other.Columns)
	other.Columns[0], other.Columns[1] = other.Columns[1], other.Columns[0]
	if users := build(t, sources(facts(), other)).Table("shop", "users"); !users.OrderDiffers || users.Differs == "" {
		t.Errorf("another order isn't seen: %q", users.Differs)
	}
}

// TestUnlikeSettings: sessions are given the first shard's where they can be.
func TestUnlikeSettings(t *testing.T) {
	t.Parallel()
	a, b := facts(), facts()
	a.Settings = map[string]string{"sql_mode": "ANSI", "time_zone": "SYSTEM", "system_time_zone": "CET", "autocommit": "ON", "tx_isolation": "REPEATABLE-READ"}
	b.Settings = map[string]string{"sql_mode": "", "time_zone": "SYSTEM", "system_time_zone": "UTC", "autocommit": "OFF", "transaction_isolation": "REPEATABLE-READ"}
	c := build(t, sources(a, b))
	want := []catalog.Setting{
		{Name: "sql_mode", Value: "ANSI", Shard: "s1", Able: true},
		{Name: "system_time_zone", Value: "CET", Other: "UTC", Shard: "s1"},
		{Name: "autocommit", Value: "ON", Other: "OFF", Shard: "s1"},
	}
	if !slices.Equal(c.Unlike, want) || c.AutocommitOff || c.SQLMode != "ANSI" {
		t.Errorf("%+v", c.Unlike)
	}
	if c := build(t, sources(b, b)); !c.AutocommitOff || len(c.Unlike) > 0 {
		t.Errorf("%+v", c.Unlike)
	}
}

// TestAlteredIndex: an index whose keys were made under another definition isn't used.
func TestAlteredIndex(t *testing.T) {
	t.Parallel()
	src := sources(facts())
	src.Indexes[0].Keyed = build(t, src).Table("shop", "users").Indexes[0].Definition()
	if ix := build(t, src).Table("shop", "users").Indexes[0]; !ix.Usable() {
		t.Errorf("%+v", ix)
	}
	f := facts()
	f.Columns = slices.Clone(f.Columns)
	f.Columns[1].collation = "utf8mb4_bin"
	src.Facts[0] = f
	if ix := build(t, src).Table("shop", "users").Indexes[0]; ix.Usable() || ix.Error == "" {
		t.Errorf("%+v", ix)
	}
}
