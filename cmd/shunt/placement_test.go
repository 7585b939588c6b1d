package main

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
)

func TestComparePlacements(t *testing.T) {
	t.Parallel()
	id, email := &catalog.Column{Name: "ID", Type: "bigint"}, &catalog.Column{Name: "email", Type: "bigint unsigned"}
	text := func(collation string) *catalog.Table {
		name := &catalog.Column{Name: "name", Type: "varchar(50)", Charset: "utf8mb4", Collation: collation}
		return &catalog.Table{Placement: catalog.Hash, ShardKey: name, Columns: []*catalog.Column{name}}
	}
	hash := func(c *catalog.Column) *catalog.Table {
		return &catalog.Table{Placement: catalog.Hash, ShardKey: c, Columns: []*catalog.Column{id, email}}
	}
	uuid := hash(&catalog.Column{Name: "id", Type: "uuid"})
	on := func(shard catalog.ShardID, columns ...*catalog.Column) *catalog.Table {
		return &catalog.Table{Placement: catalog.Single, Shards: catalog.Only(shard), Columns: columns}
	}
	reference := &catalog.Table{Placement: catalog.Reference, Columns: []*catalog.Column{id}}
	anywhere := &catalog.Table{Placement: catalog.Anywhere, ShardKey: id, Columns: []*catalog.Column{id}}
	view := &catalog.Table{IsView: true, Columns: []*catalog.Column{id}}
	const keep = "keep"
	for _, x := range []struct {
		name  string
		was   string
		table *catalog.Table // nil: not in the catalog
		rows  bool           // or not known to be empty
		// incomplete: a shard hasn't told its schema. alone: there is one shard.
		incomplete, alone bool
		stray             error
		want              string // the record's change; "" deletes it
		wrong             string
		// unnamed: the configuration doesn't name the schema. scattered: wrong is of rows that are found.
		unnamed, scattered bool
	}{
		{name: "first seen", table: hash(id), rows: true, want: "hash:id"},
		{name: "first seen, single", table: on(1, id), rows: true, want: "single:s1"},
		{name: "first seen, reference", table: reference, rows: true, want: "reference"},
		{name: "first seen, anywhere", table: anywhere, rows: true, want: "anywhere"},
		{name: "first seen, placed by another rule", table: hash(id), rows: true, stray: errors.New("shard s1 has one with id = 7"), want: keep, wrong: "s1 has one with id = 7"},
		{name: "first seen, a shard is down", table: hash(id), rows: true, stray: errNotAsked, want: keep},
		{name: "a view", table: view, rows: true, want: keep},
		{name: "only in the configuration", table: &catalog.Table{}, want: keep},
		{name: "the same", was: "hash:id", table: hash(id), rows: true, want: keep},
		{name: "another key", was: "hash:id", table: hash(email), rows: true, want: keep, wrong: "placed by hash of id, the configuration says hash of email; put it back, use placement: anywhere"},
		{name: "another key, no rows", was: "hash:id", table: hash(email), want: "hash:email"},
		{name: "another key, one shard", was: "hash:id", table: hash(email), rows: true, alone: true, want: "hash:email"},
		{name: "a text", table: text("utf8mb4_bin"), rows: true, want: "hash(utf8mb4_bin):name"},
		{name: "a text that can't be keyed", table: text("utf8mb4_uca1400_swedish_ai_ci"), rows: true, want: "hash(no keys):name"},
		{name: "a text, the same", was: "hash(utf8mb4_bin):name", table: text("utf8mb4_bin"), rows: true, want: keep},
		{name: "a text, of an earlier version", was: "hash:name", table: text("utf8mb4_bin"), rows: true, want: "hash(utf8mb4_bin):name"},
		{name: "a text, which couldn't be keyed then", was: "hash:name", table: text("utf8mb4_uca1400_ai_ci"), rows: true, want: keep, wrong: "placed by hash of name, the configuration says hash of name (uca1400_ai_ci)"},
		{name: "a UUID, which couldn't be keyed then", was: "hash:id", table: uuid, rows: true, want: keep, wrong: "placed by hash of id, the configuration says hash of id (uuid)"},
		{name: "a UUID, the same", was: "hash(uuid):id", table: uuid, rows: true, want: keep},
		{name: "a text that can be keyed now", was: "hash(no keys):name", table: text("utf8mb4_bin"), rows: true, want: keep, wrong: "placed by hash of name (no keys)"},
		{name: "a text that can be keyed now, no rows", was: "hash(no keys):name", table: text("utf8mb4_bin"), want: "hash(utf8mb4_bin):name"},
		{name: "a text, another collation", was: "hash(utf8mb4_bin):name", table: text("utf8mb4_general_ci"), rows: true, want: keep, wrong: "hash of name (utf8mb4_bin), the configuration says hash of name (utf8mb4_general_ci)"},
		{name: "a shard that isn't there", was: "single:s1", table: hash(id), rows: true, alone: true, want: keep, wrong: "as single on s1"},
		{name: "hash to reference", was: "hash:id", table: reference, rows: true, want: keep, wrong: "says reference"},
		{name: "reference to hash", was: "reference", table: hash(id), rows: true, want: keep, wrong: "as reference, the configuration says hash of id; put it back, or empty"},
		{name: "single, another shard", was: "single:s0", table: on(1, id), rows: true, want: keep, wrong: "as single on s0, the configuration says single on s1"},
		{name: "single, another shard that lacks it", was: "single:s0", table: on(1), rows: true, want: keep, wrong: "says single on s1"},
		{name: "hash to anywhere", was: "hash:id", table: anywhere, rows: true, want: "anywhere"},
		{name: "single to anywhere", was: "single:s0", table: anywhere, rows: true, want: "anywhere"},
		{name: "each row many times", was: "reference", table: anywhere, rows: true, want: keep, wrong: "says anywhere"},
		{name: "anywhere to hash", was: "anywhere", table: hash(id), rows: true, want: keep, wrong: "as anywhere, the configuration says hash of id; put it back, or empty"},
		{name: "dropped", was: "hash:id", want: ""},
		{name: "dropped, still in the configuration", was: "hash:id", table: &catalog.Table{}, want: ""},
		{name: "not told yet", was: "hash:id", incomplete: true, want: keep},
		{name: "not seen, but there", was: "hash:id", rows: true, want: keep},
		{name: "became a view", was: "hash:id", table: view, rows: true, want: ""},
		{name: "unnamed, first seen", table: hash(id), rows: true, unnamed: true, want: "hash:id by default"},
		{name: "unnamed, the same", was: "hash:id by default", table: hash(id), rows: true, unnamed: true, want: keep},
		{name: "unnamed, of an earlier version", was: "hash:id", table: hash(id), rows: true, unnamed: true, want: "hash:id by default"},
		{name: "unnamed, made anew", was: "single:s0 by default", table: hash(id), rows: true, unnamed: true, want: "anywhere by default", wrong: "placed as single on s0", scattered: true},
		{name: "unnamed, another key", was: "hash:id by default", table: hash(email), rows: true, unnamed: true, want: "anywhere by default", wrong: "placed by hash of id", scattered: true},
		{name: "unnamed, another key, no rows", was: "hash:id by default", table: hash(email), unnamed: true, want: "hash:email by default"},
		{name: "taken out of the configuration", was: "hash:email", table: hash(id), rows: true, unnamed: true, want: keep, wrong: "placed by hash of email"},
		{name: "taken out of the configuration, placed alike", was: "hash:id", table: hash(id), rows: true, unnamed: true, want: "hash:id by default"},
		{name: "put into the configuration", was: "hash:id by default", table: hash(email), rows: true, want: keep, wrong: "placed by hash of id"},
		{name: "put into the configuration, placed alike", was: "hash:id by default", table: hash(id), rows: true, want: "hash:id"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			k := catalog.TableName{Schema: "shop", Name: "users"}
			c := &catalog.Catalog{MariaDB: true, Shards: []catalog.Shard{{ID: 0, Name: "s0"}, {ID: 1, Name: "s1"}}, Schemas: map[string]*catalog.Schema{}}
			if x.alone {
				c.Shards = c.Shards[:1]
			}
			if x.table != nil {
				c.Schemas["shop"] = &catalog.Schema{Name: "shop", Tables: map[string]*catalog.Table{"users": x.table}}
			}
			records, want := map[catalog.TableName]string{}, map[catalog.TableName]string{}
			if x.was != "" {
				records[k] = x.was
			}
			if x.want != keep {
				want[k] = x.want
			}
			configured := schema.Placements{"shop": {}}
			if x.unnamed {
				configured = nil
			}
			changes, scattered, wrong := comparePlacements(c, tablesOf(c), configured, !x.incomplete, records, map[catalog.TableName]error{k: x.stray}, func(catalog.TableName) error {
				if x.rows {
					return errors.New("it has rows")
				}
				return nil
			})
			if !maps.Equal(changes, want) {
				t.Errorf("changes %v, want %v", changes, want)
			}
			if x.scattered {
				scattered, wrong = wrong, scattered
			}
			if len(scattered) > 0 {
				t.Errorf("%v", scattered)
			}
			text := ""
			if err := errors.Join(wrong...); err != nil {
				text = err.Error()
			}
			if (x.wrong == "") != (text == "") || !strings.Contains(text, x.wrong) {
				t.Errorf("error %q, want %q", text, x.wrong)
			}
		})
	}
}
