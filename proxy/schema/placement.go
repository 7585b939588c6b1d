package schema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Placements is what the configuration says of schemas and tables.
type Placements map[string]SchemaPlacement

// SchemaPlacement places the tables of a schema.
type SchemaPlacement struct {
	Tables  map[string]TablePlacement
	Default TablePlacement
}

// TablePlacement places one table. The zero value is hash by the primary key's
// first column.
type TablePlacement struct {
	Placement catalog.Placement
	ShardKey  string // Hash: "" for the primary key's first column
	Shard     string // Single
	// UniqueByShard as a table's in the catalog.
	UniqueByShard bool
}

// schemas makes the configured schemas known even where no shard has them yet.
func (b *builder) schemas() error {
	for _, name := range slices.Sorted(maps.Keys(b.Placements)) {
		p := b.Placements[name]
		s := b.schema(name)
		s.Default.Placement = p.Default.Placement
		if p.Default.Placement == catalog.Single {
			id, err := b.shardNamed(p.Default.Shard)
			if err != nil {
				return fmt.Errorf("schema %s: default: %w", name, err)
			}
			s.Default.Shard = id
		}
	}
	for _, id := range b.order {
		for _, name := range b.Facts[id].Schemas {
			b.schema(name)
		}
	}
	return nil
}

// placeholders makes the configured tables known even where no shard has them
// yet, so that CREATE TABLE knows where to go.
func (b *builder) placeholders() {
	for name, p := range b.Placements {
		for t := range p.Tables {
			if b.scoped(name, t) {
				b.table(name, t)
			}
		}
	}
}

// place puts each table where the configuration or the default says.
func (b *builder) place() error {
	b.uniqueKeys()
	for _, t := range b.made {
		if err := b.placeTable(t); err != nil {
			return fmt.Errorf("table %s.%s: %w", t.Schema, t.Name, err)
		}
	}
	return nil
}

func (b *builder) placeTable(t *catalog.Table) error {
	if t.IsView {
		return nil // it is where it was made, and its rows are where its tables' are
	}
	p, named := b.placement(t.Schema, t.Name)
	t.Named = named && !b.isDefault(t)
	if len(t.Columns) > 0 && p == (TablePlacement{}) && b.isDefault(t) {
		var err error
		if p, err = b.keptPlacement(t); err != nil {
			return err
		}
	}
	if t.Sequence && p.Placement != catalog.Single {
		t.Placement, t.Shards = catalog.Single, catalog.Only(b.on[t].First())
		return nil
	}
	t.Placement, t.Shards, t.UniqueByShard = p.Placement, b.c.All, p.UniqueByShard
	switch p.Placement {
	case catalog.Reference:
		if home, ok := b.Unlike[catalog.TableName{Schema: b.fold(t.Schema), Name: b.fold(t.Name)}]; ok && len(t.Columns) > 0 {
			id, err := b.shardNamed(home)
			if err != nil {
				return err
			}
			t.Unlike, t.Placement, t.Shards = true, catalog.Single, catalog.Only(id)
		}
	case catalog.Single:
		id, err := b.shardNamed(p.Shard)
		if err != nil {
			return err
		}
		t.Shards = catalog.Only(id)
	case catalog.Hash, catalog.Anywhere:
		if len(t.Columns) == 0 {
			t.KeyWanted = p.ShardKey
			return nil
		}
		switch {
		case p.ShardKey != "":
			if t.ShardKey = t.Column(p.ShardKey); t.ShardKey == nil {
				return fmt.Errorf("shard_key: the table has no column %q", p.ShardKey)
			}
		case len(t.PrimaryKey) > 0 && (p.Placement != catalog.Hash || !ownKey(t) || t.Named):
			t.ShardKey = t.PrimaryKey[0]
		case p.Placement == catalog.Anywhere:
			// Rows can be found by index or scatter; only new ones have no place.
		case t.Named:
			return fmt.Errorf("placement hash needs a shard_key, or a primary key on the table")
		default:
			t.Placement, t.Shards = catalog.Single, catalog.Only(b.c.Shards[0].ID)
		}
	}
	return nil
}

// keptPlacement is that of a table which is to be spread by its primary key, unless its rows
// are known to be elsewhere.
//
// Counter-example: CREATE TABLE t (id INT), which is single for the lack of a primary key;
// INSERT INTO t VALUES (7); ALTER TABLE t ADD PRIMARY KEY (id). By the key the row would
// be looked for on a shard that doesn't even have the table. Dumps of phpMyAdmin and older
// migrations make tables so.
//
// A table without a record stays on its only shard in a configured schema, at a start: the
// server is one that is adopted. At any other time somebody may just be making the table on
// all shards.
func (b *builder) keptPlacement(t *catalog.Table) (TablePlacement, error) {
	if len(b.c.Shards) < 2 {
		return TablePlacement{}, nil
	}
	kept, known, err := b.Kept(b.fold(t.Schema), b.fold(t.Name))
	if err != nil {
		return TablePlacement{}, err
	}
	_, configured := b.configuredSchema(t.Schema)
	if known && kept.Placement == catalog.Anywhere && !configured {
		return kept, nil
	}
	if b.on[t].Len() == 1 {
		alone := TablePlacement{Placement: catalog.Single, Shard: b.c.ShardName(b.on[t].First())}
		// One whose CREATE TABLE has not come to the other shards isn't alone.
		_, unfinished := b.unfinished(t.Schema, t.Name)
		if known && kept == alone || !known && configured && b.First && !unfinished {
			return alone, nil
		}
	}
	return TablePlacement{}, nil
}

// ownKey reports a primary key that MySQL has given a table which was made without
// one (sql_generate_invisible_primary_key). CREATE TABLE has placed it by its text.
func ownKey(t *catalog.Table) bool {
	c := t.PrimaryKey[0]
	return c.Invisible && c.AutoIncrement && c.Name == "my_row_id"
}

// configuredSchema finds what the configuration says of a schema.
func (b *builder) configuredSchema(schema string) (SchemaPlacement, bool) {
	for name, p := range b.Placements {
		if b.fold(name) == b.fold(schema) {
			return p, true
		}
	}
	return SchemaPlacement{}, false
}

// configuredTable finds a table's own line in the configuration.
func (b *builder) configuredTable(schema, table string) (TablePlacement, bool) {
	s, _ := b.configuredSchema(schema)
	for name, p := range s.Tables {
		if b.fold(name) == b.fold(table) {
			return p, true
		}
	}
	return TablePlacement{}, false
}

// placement finds what the configuration says of a table; named is false where
// only the built-in default is left.
func (b *builder) placement(schema, table string) (p TablePlacement, named bool) {
	if p, ok := b.configuredTable(schema, table); ok {
		return p, true
	}
	s, _ := b.configuredSchema(schema)
	return s.Default, s.Default != TablePlacement{}
}

// isDefault reports whether a table is placed by its schema's default rather
// than by its own line in the configuration.
func (b *builder) isDefault(t *catalog.Table) bool {
	_, own := b.configuredTable(t.Schema, t.Name)
	return !own
}

// wantedSource is the shard whose definition counts for a table that the
// configuration puts on a single one, and for one with unfinished DDL; nil for all others.
func (b *builder) wantedSource(schema, table string) *catalog.ShardID {
	if x, ok := b.unfinished(schema, table); ok {
		for id := range x.By.All {
			if f := b.Facts[id]; f != nil && slices.ContainsFunc(f.Tables, func(t *tableFact) bool {
				return b.fold(t.schema) == b.fold(schema) && b.fold(t.name) == b.fold(table)
			}) {
				return &id
			}
		}
		return nil
	}
	p, named := b.placement(schema, table)
	if !named || p.Placement != catalog.Single {
		return nil
	}
	if s, ok := b.c.ShardByName(p.Shard); ok {
		return &s.ID
	}
	return nil
}

func (b *builder) shardNamed(name string) (catalog.ShardID, error) {
	if s, ok := b.c.ShardByName(name); ok {
		return s.ID, nil
	}
	for _, s := range b.c.Joining {
		if s.Name == name {
			return s.ID, nil // what is placed there can't be made yet
		}
	}
	return 0, fmt.Errorf("unknown shard %q", name)
}
