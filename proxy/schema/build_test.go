package schema

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// facts are those of a shard with users (sharded), countries and a trigger.
func facts() *Facts {
	return &Facts{
		Version: "9.7.4", Settings: map[string]string{"sql_mode": "STRICT_TRANS_TABLES"},
		Collations: []Collation{{ID: 255, Name: "utf8mb4_0900_ai_ci", Charset: "utf8mb4", Default: true}},
		Schemas:    []string{"shop"},
		Tables: []*tableFact{
			{
				schema: "shop", name: "audit",
				columns: []columnFact{
					{name: "id", typ: "bigint", extra: "auto_increment"},
					{name: "email", typ: "varchar(100)", charset: "utf8mb4", collation: "utf8mb4_0900_ai_ci"},
				},
				keys:        []keyFact{{key: "PRIMARY", column: "id"}},
				foreignKeys: []foreignKeyFact{{column: "email", refSchema: "shop", refTable: "users", update: "CASCADE", delete: "RESTRICT"}},
			},
			{schema: "shop", name: "log", columns: []columnFact{{name: "line", typ: "text"}}},
			{
				schema: "shop", name: "users", engine: "InnoDB",
				columns: []columnFact{
					{name: "id", typ: "bigint", extra: ""},
					{name: "email", typ: "varchar(100)", charset: "utf8mb4", collation: "utf8mb4_0900_ai_ci", nullable: true, def: new("none")},
				},
				keys:     []keyFact{{key: "PRIMARY", column: "id"}, {key: "email", column: "email", prefix: true}},
				triggers: []triggerFact{{event: "UPDATE", body: "INSERT INTO `audit` (email) VALUES (NEW.email)"}},
			},
			{schema: "shop", name: "v", view: true, columns: []columnFact{{name: "id", typ: "bigint"}}},
		},
	}
}

// shop is one of facts' tables.
func (f *Facts) shop(name string) *tableFact {
	return f.table(catalog.TableName{Schema: "shop", Name: name})
}

func sources(perShard ...*Facts) Sources {
	src := Sources{Version: 7, Facts: map[catalog.ShardID]*Facts{}, Indexes: []catalog.IndexDef{
		{ID: 1, Schema: "shop", Table: "users", Name: "by_email", Columns: []string{"email"}, Status: catalog.Ready},
		{ID: 2, Schema: "shop", Table: "audit", Name: "audit_email", Columns: []string{"email"}, Status: catalog.Ready},
	}}
	src.Kept = func(_, _ string) (TablePlacement, bool, error) { return TablePlacement{}, false, nil }
	for i, f := range perShard {
		id := catalog.ShardID(i)
		src.Shards = append(src.Shards, catalog.Shard{ID: id, Name: "s" + string(rune('0'+i))})
		if f != nil {
			src.Facts[id] = f
		}
	}
	return src
}

func build(t *testing.T, src Sources) *catalog.Catalog {
	t.Helper()
	c, err := Build(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestVersions: numbers are compared as numbers, and only within a kind.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shards []string
		lowest string
		others []string
	}{
		{[]string{"10.0.1", "9.7.4", "9.10.0", "10.0.1"}, "9.7.4", []string{"10.0.1", "9.10.0"}},
		{[]string{"8.0.36", "8.0.9-log", "8.0.9-log"}, "8.0.9-log", []string{"8.0.36"}},
		{[]string{"10.11.8-MariaDB", "9.7.4", "11.4.2-MariaDB-ubu2404"}, "10.11.8-MariaDB", []string{"9.7.4", "11.4.2-MariaDB-ubu2404"}},
		{[]string{"8.0.36-28-something", "8.0.36"}, "8.0.36-28-something", []string{"8.0.36"}},
		{[]string{"9.7.4", "9.7.4"}, "9.7.4", nil},
	} {
		var shards []*Facts
		for _, v := range c.shards {
			f := facts()
			f.Version = v
			shards = append(shards, f)
		}
		if got := build(t, sources(shards...)); got.ServerVersion != c.lowest || !slices.Equal(got.OtherVersions, c.others) {
			t.Errorf("%v: %s and %v, want %s and %v", c.shards, got.ServerVersion, got.OtherVersions, c.lowest, c.others)
		}
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	c := build(t, sources(facts(), facts()))
	users := c.Table("shop", "users")
	if users == nil || users.ShardKey == nil || users.ShardKey.Name != "id" || users.Placement != catalog.Hash || users.Shards.Len() != 2 {
		t.Fatalf("users: %+v", users)
	}
	if d := users.Column("EMAIL").Default; d == nil || *d != "none" {
		t.Errorf("default of email: %v", d)
	}
	if len(users.Unique) != 1 {
		t.Errorf("a unique key over a prefix counts as a key of columns: %v", users.Unique)
	}
	if ix := users.Index("by_email"); ix == nil || !ix.Usable() {
		t.Errorf("by_email: %+v", ix)
	}
	early := facts()
	early.shop("users").engine = "MyISAM"
	if users.Early || !build(t, sources(facts(), early)).Table("shop", "users").Early {
		t.Error("the engine of a shard isn't known")
	}
	if !c.Table("shop", "v").IsView {
		t.Error("v is not known as a view")
	}
	if log := c.Table("shop", "log"); log.Placement != catalog.Single || log.Shards != catalog.Only(0) {
		t.Errorf("a table without primary key: %v on %v", log.Placement, log.Shards)
	}
	var touched []string
	for _, x := range users.Triggers[0].Touches {
		touched = append(touched, x.Name)
	}
	slices.Sort(touched)
	if !slices.Equal(touched, []string{"audit", "users"}) {
		t.Errorf("the trigger touches %v", touched)
	}
	if len(users.Cascades) != 1 || !users.Cascades[0].OnUpdate || users.Cascades[0].OnDelete {
		t.Errorf("cascades: %+v", users.Cascades)
	}
	if got := c.DefaultCollation["utf8mb4"]; got != "utf8mb4_0900_ai_ci" {
		t.Errorf("default collation %q", got)
	}
}

func TestTriggerThatCallsTouchesAll(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"CALL p()", "SET NEW.email = f(1)"} {
		f := facts()
		f.Functions = []functionFact{{name: "f", body: "RETURN g()"}, {schema: "other", name: "f", body: "RETURN 1"}, {name: "g", body: "BEGIN DELETE FROM t; RETURN 1; END"}, {name: "pure", body: "RETURN 1"}}
		f.shop("users").triggers = []triggerFact{{event: "INSERT", body: body}}
		c := build(t, sources(f))
		if n := len(c.Table("shop", "users").Triggers[0].Touches); n != 2 {
			t.Errorf("%s touches %d of 2 indexed tables", body, n)
		}
		if !c.WritingFunctions["f"] || !c.WritingFunctions["g"] || c.WritingFunctions["pure"] {
			t.Errorf("functions that may write: %v", c.WritingFunctions)
		}
	}
}

// TestEventsThatSetOffChanges: users has a trigger and a foreign key by which UPDATE changes audit.
func TestEventsThatSetOffChanges(t *testing.T) {
	t.Parallel()
	for body, unseen := range map[string]bool{
		"UPDATE `users` SET email = 'x'":                                        true,
		"DELETE FROM users WHERE id < 0":                                        false,
		"INSERT INTO users VALUES (1, 'x')":                                     false,
		"INSERT INTO users VALUES (1, 'x') ON DUPLICATE KEY UPDATE email = 'y'": true,
		"UPDATE audit SET email = 'x'":                                          false, // itself
		"UPDATE others SET email = 'x'":                                         false,
		"CALL tidy()":                                                           true,
		"CALL sweep()":                                                          false,
		"CALL secret()":                                                         true,
		"CALL unknown()":                                                        true,
		"BEGIN PREPARE s FROM @x; EXECUTE s; END":                               true,
		"UPDATE v SET id = 5":                                                   true,
		"SELECT COUNT(*) FROM users INTO @n":                                    false,
	} {
		f := facts()
		f.Functions = []functionFact{
			{name: "tidy", procedure: true, body: "CALL deeper()"},
			{name: "deeper", procedure: true, body: "UPDATE users SET email = 'x'"},
			{name: "sweep", procedure: true, body: "DELETE FROM users"},
			{name: "secret", procedure: true, hidden: true},
		}
		definition := build(t, sources(f)).Table("shop", "audit").Index("audit_email").Definition(false)
		f.Events = []eventFact{{schema: "shop", name: "e", body: body}}
		src := sources(f)
		audit := build(t, src).Table("shop", "audit")
		ix := audit.Index("audit_email")
		if ix.Usable() == unseen || (audit.Unseen != "") != unseen || (ix.Definition(false) != definition) != unseen {
			t.Errorf("%s: %s, %q", body, ix.Status, ix.Error)
		}
		// Keys that were made while there was the event lack what it did.
		f.Events = nil
		src.Indexes[1].Keyed = ix.Definition(false)
		if got := build(t, src).Table("shop", "audit").Index("audit_email"); got.Usable() == unseen {
			t.Errorf("%s: %s when the event is gone", body, got.Status)
		}
	}
}

// TestEventsOn: an event is where the shards say, and, where none of them lacks it, on those too that haven't told.
func TestEventsOn(t *testing.T) {
	t.Parallel()
	with, lacks := facts(), facts()
	with.Events = []eventFact{{schema: "shop", name: "e", body: "DELETE FROM users"}}
	for want, told := range map[string][]*Facts{"s0 s1 s2": {with, with, nil}, "s0": {with, lacks, nil}, "s0 s1": {with, with, lacks}, "": {lacks, lacks, nil}} {
		c := build(t, sources(told...))
		var on []string
		if e := c.Event(catalog.TableName{Schema: "Shop", Name: "E"}); e != nil {
			for id := range e.On.All {
				on = append(on, c.ShardName(id))
			}
		}
		if got := strings.Join(on, " "); got != want {
			t.Errorf("it is on %q, want %q", got, want)
		}
	}
}

// TestPackagedFunctions: each has the package's whole text.
func TestPackagedFunctions(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Functions = append(packaged("shop", "FUNCTION `writes`() RETURNS INT BEGIN UPDATE t SET a = 1; RETURN 7; END; PROCEDURE p() SELECT 1; function reads() RETURNS INT RETURN 1; END"),
		packaged("shop", "AS x INT := 5; FUNCTION \"counts\" RETURN INT AS BEGIN x := x + 1; RETURN x; END; END")...)
	f.Functions = append(f.Functions, packaged("shop", "AS FUNCTION pure RETURN INT AS BEGIN RETURN 1; END; END")...)
	f.Functions = append(f.Functions, functionFact{name: "caller", body: "RETURN pk.writes()"})
	c := build(t, sources(f))
	if got := slices.Sorted(maps.Keys(c.WritingFunctions)); !slices.Equal(got, []string{"caller", "reads", "writes"}) {
		t.Errorf("functions that may write: %v", got)
	}
	if got := slices.Sorted(maps.Keys(c.LeavingFunctions)); !slices.Equal(got, []string{"counts"}) {
		t.Errorf("functions that leave something: %v", got)
	}
	if len(c.Assigned) > 0 {
		t.Errorf("a package's variables are taken for user variables: %v", c.Assigned)
	}
}

// TestBodiesThatLeaveVariables: theirs would be those of a shard's connection.
func TestBodiesThatLeaveVariables(t *testing.T) {
	t.Parallel()
	for body, leaves := range map[string]bool{
		"SET @n = 1": true, "SET @n:=@n+1": true, "RETURN (SELECT @`a b` := 5)": true, "SELECT MAX(id) INTO @n FROM t": true, "CALL p(@n)": true, "SET @'n' = 1": true, "SET @'n' = 1, @m = 2": true,
		"SET SESSION sql_mode = ''": true, "SET @@time_zone = '+00:00'": true, "RETURN g(1)": true,
		"SET group_concat_max_len = 5": true, "SET x = 1, `sql_mode` = ''": true, "RETURN GET_LOCK('a', 0)": true, "CREATE TEMPORARY TABLE hidden (n INT)": true,
		"SET x = 1, y = @@sql_mode": false, "SET NEW.get_lock = 5": false, "IF a = 1 AND sql_mode = 2 THEN SET b = 3; END IF": false,
		"INSERT INTO shop.audit VALUES (1)":      true,
		"RETURN SUBSTRING_INDEX(e, '@x = 1', 1)": false, `RETURN "@x = 1"`: false, "RETURN @n + 1": false, "SET x = @@sql_mode": false, "SELECT 1 INTO n": false, "INSERT INTO t (e) VALUES ('a@b')": false,
	} {
		f := facts()
		f.Functions = []functionFact{{name: "f", body: body}, {name: "g", body: "SET @g = 1"}, {name: "h", body: "RETURN f()"}}
		f.shop("audit").triggers = []triggerFact{{event: "INSERT", body: "SET @a = 1"}}
		f.shop("users").triggers = []triggerFact{{event: "INSERT", body: body}}
		c := build(t, sources(f))
		triggers := c.Table("shop", "users").Triggers
		if got := triggers[len(triggers)-1].Leaves; got != leaves {
			t.Errorf("trigger %s: leaves %v", body, got)
		}
		if body == "INSERT INTO shop.audit VALUES (1)" { // a function that writes is refused for that
			leaves = false
		}
		if c.LeavingFunctions["f"] != leaves || c.LeavingFunctions["h"] != leaves {
			t.Errorf("function %s: %v", body, c.LeavingFunctions)
		}
		names := map[string][]string{"SET @n = 1": {"n"}, "SET @n:=@n+1": {"n"}, "RETURN (SELECT @`a b` := 5)": {"a b"}, "SELECT MAX(id) INTO @n FROM t": {"n"}}
		if got := c.Assigned["h"]; !slices.Equal(got, names[body]) && body != "RETURN g(1)" {
			t.Errorf("function %s assigns %q, want %q", body, got, names[body])
		}
	}
}

// TestFunctionsThatVary: each copy of a reference table would get a value of its own.
func TestFunctionsThatVary(t *testing.T) {
	t.Parallel()
	for body, varies := range map[string]bool{
		"RETURN UUID()": true, "BEGIN DECLARE n INT; SET n = rand (); RETURN n; END": true, "RETURN CURRENT_USER": true, "RETURN @@server_id": true, "RETURN SYSDATE(6)": true,
		"RETURN (SELECT MAX(n) FROM t WHERE at = RAND(5))": true, "RETURN 'not closed": true, "RETURN g()": true,
		"RETURN NOW(6)": false, "RETURN 'UUID()'": false, "RETURN uuid /* RAND() */": false, "RETURN CONCAT(DATABASE(), CURRENT_TIMESTAMP, x.user)": false, "RETURN @x + 1": false,
	} {
		f := facts()
		f.Functions = []functionFact{{name: "f", body: body}, {name: "g", body: "RETURN UUID()"}, {name: "h", body: "RETURN f()"}}
		got := build(t, sources(f)).Functions
		if got["f"] != varies || got["h"] != varies || len(got) != 3 {
			t.Errorf("%s: %v", body, got)
		}
	}
}

// TestFunctionsThatRead: a table without its schema is one of the function's.
func TestFunctionsThatRead(t *testing.T) {
	t.Parallel()
	f := facts()
	for name, body := range map[string]string{"f": "FROM users", "g": "FROM shop.users", "h": "FROM other.t", "v": "FROM `Shop`.v"} {
		for _, schema := range []string{"shop", "other"} {
			f.Functions = append(f.Functions, functionFact{schema: schema, name: schema + "_" + name, body: "RETURN (SELECT COUNT(*) " + body + ")"})
		}
	}
	f.Functions = append(f.Functions, functionFact{schema: "other", name: "calls", body: "RETURN shop.SHOP_F()"})
	got := build(t, sources(f, facts())).ReadingFunctions
	want := map[string]bool{"shop_f": true, "shop_g": true, "other_g": true, "shop_v": true, "other_v": true, "calls": true}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A definition that differs means keys that differ: the index must not be used.
func TestShardsThatDisagree(t *testing.T) {
	t.Parallel()
	other := facts()
	other.shop("users").columns[1].collation = "utf8mb4_bin"
	missing := facts()
	missing.shop("users").columns = nil
	for name, f := range map[string]*Facts{"collation": other, "missing table": missing} {
		users := build(t, sources(facts(), f)).Table("shop", "users")
		if users.Differs == "" || !strings.Contains(users.Differs, "s1") {
			t.Errorf("%s: Differs = %q", name, users.Differs)
		}
		if users.Index("by_email").Usable() {
			t.Errorf("%s: the index is used", name)
		}
	}
	// A shard that is down says nothing, which is no difference.
	if d := build(t, sources(facts(), nil)).Table("shop", "users").Differs; d != "" {
		t.Errorf("a shard that is down: %s", d)
	}
}

func TestPlacements(t *testing.T) {
	t.Parallel()
	src := sources(facts(), facts())
	src.Placements = Placements{"shop": {
		Tables: map[string]TablePlacement{
			"users":    {ShardKey: "email"},
			"settings": {Placement: catalog.Single, Shard: "s1"},
			"audit":    {Placement: catalog.Reference},
		},
		Default: TablePlacement{Placement: catalog.Single, Shard: "s1"},
	}}
	c := build(t, src)
	if k := c.Table("shop", "users").ShardKey; k.Name != "email" {
		t.Errorf("shard key %s", k.Name)
	}
	if s := c.Table("shop", "settings"); s == nil || s.Shards != catalog.Only(1) {
		t.Errorf("a configured table that no shard has: %+v", s)
	}
	if a := c.Table("shop", "audit"); a.Placement != catalog.Reference || a.ShardKey != nil {
		t.Errorf("audit: %+v", a)
	}
	if l := c.Table("shop", "log"); l.Placement != catalog.Single || l.Shards != catalog.Only(1) {
		t.Errorf("log by default: %v %v", l.Placement, l.Shards)
	}
	for want, p := range map[string]TablePlacement{"no column": {ShardKey: "nope"}, "unknown shard": {Placement: catalog.Single, Shard: "s9"}} {
		src.Placements = Placements{"shop": {Tables: map[string]TablePlacement{"users": p}}}
		if _, err := Build(src); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "users") {
			t.Errorf("%+v: error %v lacks %q", p, err, want)
		}
	}
}

// TestKept: a table that one shard alone has isn't spread by its key if its rows stay there,
// nor is one looked for by it whose rows may be anywhere.
func TestKept(t *testing.T) {
	t.Parallel()
	lacks := func(names ...string) *Facts {
		f := facts()
		f.Tables = slices.DeleteFunc(f.Tables, func(tf *tableFact) bool { return slices.Contains(names, tf.name) })
		f.shop("audit").foreignKeys = nil
		return f
	}
	named := Placements{"shop": {Tables: map[string]TablePlacement{"users": {}}}}
	all := catalog.Only(0).Union(catalog.Only(1)).Union(catalog.Only(2))
	on := func(shard string) *TablePlacement { return &TablePlacement{Placement: catalog.Single, Shard: shard} }
	anywhere := &TablePlacement{Placement: catalog.Anywhere}
	for _, c := range []struct {
		name       string
		shards     []*Facts
		placements Placements
		kept       *TablePlacement // nil: not known
		later      bool            // not the first catalog
		placement  catalog.Placement
		on         catalog.ShardSet
	}{
		{"stays", []*Facts{facts(), lacks("users"), lacks("users")}, nil, on("s0"), true, catalog.Single, catalog.Only(0)},
		{"on another shard than the first", []*Facts{lacks("users"), lacks("users"), facts()}, nil, on("s2"), true, catalog.Single, catalog.Only(2)},
		{"a shard hasn't told", []*Facts{facts(), nil, lacks("users")}, nil, on("s0"), true, catalog.Single, catalog.Only(0)},
		{"was on another", []*Facts{facts(), lacks("users"), lacks("users")}, nil, on("s1"), true, catalog.Hash, all},
		{"is being made on the others", []*Facts{facts(), lacks("users"), lacks("users")}, nil, nil, false, catalog.Hash, all},
		{"found in a configured schema", []*Facts{facts(), lacks("users"), lacks("users")}, Placements{"shop": {}}, nil, false, catalog.Single, catalog.Only(0)},
		{"is being made in a configured schema", []*Facts{facts(), lacks("users"), lacks("users")}, Placements{"shop": {}}, nil, true, catalog.Hash, all},
		{"on two", []*Facts{facts(), facts(), lacks("users")}, nil, on("s0"), true, catalog.Hash, all},
		{"configured by name", []*Facts{facts(), lacks("users"), lacks("users")}, named, on("s0"), false, catalog.Hash, all},
		{"one shard", []*Facts{facts()}, nil, anywhere, true, catalog.Hash, catalog.Only(0)},
		{"anywhere", []*Facts{facts(), facts(), facts()}, nil, anywhere, true, catalog.Anywhere, all},
		{"anywhere before it was configured", []*Facts{facts(), facts(), facts()}, Placements{"shop": {}}, anywhere, true, catalog.Hash, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src := sources(c.shards...)
			src.Placements, src.First = c.placements, !c.later
			src.Kept = func(schema, table string) (TablePlacement, bool, error) {
				if schema+"."+table != "shop.users" || c.kept == nil {
					return TablePlacement{}, false, nil
				}
				return *c.kept, true, nil
			}
			if users := build(t, src).Table("shop", "users"); users.Shards != c.on || users.Placement != c.placement {
				t.Errorf("%v on %v, want %v on %v", users.Placement, users.Shards, c.placement, c.on)
			}
		})
	}
}

func TestDefaultOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, def, extra string
		maria           bool
		want            string // "-" none, "?" expression
	}{
		{"varchar(9)", "abc", "", false, "abc"},
		{"varchar(9)", "'abc'", "", true, "abc"},
		{"varchar(9)", "'it''s'", "", true, "it's"},
		{"varchar(9)", `'a\\b'`, "", true, "?"},
		{"varchar(9)", "NULL", "", true, "-"},
		{"varchar(9)", "NULL", "", false, "NULL"},
		{"int", "7", "", true, "7"},
		{"int", "-7", "", true, "-7"},
		{"datetime", "CURRENT_TIMESTAMP", "default_generated", false, "?"},
		{"datetime", "current_timestamp()", "", true, "?"},
		{"varchar(36)", "uuid()", "default_generated", false, "?"},
		{"binary(2)", "0x6162", "", false, "?"},
		{"varchar(9)", "concat('a','b')", "", true, "?"},
	} {
		def, expr := defaultOf(columnFact{typ: c.typ, def: &c.def, extra: c.extra}, c.maria)
		got := "-"
		if expr {
			got = "?"
		} else if def != nil {
			got = *def
		}
		if got != c.want {
			t.Errorf("default %q of %s (MariaDB %v) = %s, want %s", c.def, c.typ, c.maria, got, c.want)
		}
	}
}

func TestDefaultText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		def   string
		maria bool
		want  string
	}{
		{"uuid()", false, "uuid()"},
		{"uuid()", true, "uuid()"},
		{`replace(uuid(),_utf8mb4\'-\',_utf8mb4\'\')`, false, "replace(uuid(),_utf8mb4'-',_utf8mb4'')"},
		{"replace(uuid(),'-','')", true, "replace(uuid(),'-','')"},
		{`concat(_utf8mb4\'it\\\'s\',uuid())`, false, ""},
		{`concat('it\'s',uuid())`, true, ""},
		{"concat('é',uuid())", true, ""},
		{"0x6162", false, ""},
	} {
		if got := defaultText(c.def, c.maria); got != c.want {
			t.Errorf("%s (MariaDB %v) = %q, want %q", c.def, c.maria, got, c.want)
		}
	}
}
