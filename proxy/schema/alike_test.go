package schema

import (
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestUnlikeDefaults: a default that the shards don't share isn't known.
func TestUnlikeDefaults(t *testing.T) {
	t.Parallel()
	other := facts()
	other.shop("users").columns[1].def = new("another")
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
	slices.Reverse(other.shop("users").columns)
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
	if c := build(t, sources(b, b)); !c.AutocommitOff || len(c.Unlike) > 0 || c.Uncommitted {
		t.Errorf("%+v", c.Unlike)
	}
	b.Settings["transaction_isolation"] = "READ-UNCOMMITTED"
	if c := build(t, sources(a, b)); !c.Uncommitted {
		t.Error("a level by which sessions see what isn't committed isn't known")
	}
}

// TestAlteredIndex: an index whose keys were made under another definition isn't used.
func TestAlteredIndex(t *testing.T) {
	t.Parallel()
	src := sources(facts())
	src.Indexes[0].Keyed = build(t, src).Table("shop", "users").Indexes[0].Definition(false)
	if ix := build(t, src).Table("shop", "users").Indexes[0]; !ix.Usable() {
		t.Errorf("%+v", ix)
	}
	f := facts()
	f.shop("users").columns[1].collation = "utf8mb4_bin"
	src.Facts[0] = f
	if ix := build(t, src).Table("shop", "users").Indexes[0]; ix.Usable() || ix.Error == "" {
		t.Errorf("%+v", ix)
	}
	// MySQL's keys, which were also those of MariaDB's collations of these names.
	of := &catalog.Index{Table: &catalog.Table{}, Columns: []*catalog.Column{{Type: "varchar(9)", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci"}}}
	if of.Definition(true) == of.Definition(false) {
		t.Error("keys of MariaDB's utf8mb4_0900_ai_ci are taken for MySQL's")
	}
	of.Columns[0].Collation = "utf8mb4_0900_bin"
	if of.Definition(true) != of.Definition(false) {
		t.Error("keys of MariaDB's utf8mb4_0900_bin aren't taken for MySQL's")
	}
}
