package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// IndexDef is a virtual index as the store keeps it.
type IndexDef struct {
	ID                  uint32
	Schema, Table, Name string
	Columns             []string
	Partitions          int
	Status              catalog.IndexStatus
	Error               string
	// Keyed is the Definition that its keys were made under, "" where that isn't known.
	Keyed string
}

// Sources is all that a snapshot is made of.
type Sources struct {
	Version    uint64
	Shards     []catalog.Shard
	Slots      [catalog.Slots]catalog.ShardID
	Placements Placements
	Indexes    []IndexDef
	Facts      map[catalog.ShardID]*Facts
	// Kept is by what the rows of a table have been placed so far; ok is false where that isn't known.
	Kept func(schema, table string) (p TablePlacement, ok bool, err error)
	// First: the snapshot is the first, and each shard has told its facts. Nobody is making
	// a configured schema's tables then.
	First bool
}

// builder holds what the steps of Build share.
type builder struct {
	Sources
	c     *catalog.Catalog
	order []catalog.ShardID // shards with facts, in configured order
	// from is what each column was made of.
	from map[*catalog.Column]columnFact
	// on are the shards that have each table.
	on map[*catalog.Table]catalog.ShardSet
	// keyed are the definitions that the indexes' keys were made under.
	keyed map[*catalog.Index]string
	// bodies are the words of the stored functions; of several of one name, those of all.
	bodies map[string]map[string]bool
	// homes are the schemas that have stored functions of a name, in lower case.
	homes map[string]map[string]bool
}

// Build makes a snapshot. Errors are about the configuration (an unknown shard
// or shard key); what the shards say can only make tables less usable.
func Build(src Sources) (*catalog.Catalog, error) {
	b := &builder{
		Sources: src, from: map[*catalog.Column]columnFact{},
		on: map[*catalog.Table]catalog.ShardSet{}, bodies: map[string]map[string]bool{}, homes: map[string]map[string]bool{}, keyed: map[*catalog.Index]string{},
		c: &catalog.Catalog{
			Version: src.Version, Shards: src.Shards, Slots: src.Slots, Schemas: map[string]*catalog.Schema{},
			DefaultCollation: map[string]string{}, Collations: map[int]catalog.Collation{},
			WritingFunctions: map[string]bool{}, LeavingFunctions: map[string]bool{}, ReadingFunctions: map[string]bool{}, Functions: map[string]bool{}, AggregateFunctions: map[string]bool{},
			Procedures: map[string]*catalog.Procedure{},
		},
	}
	for _, s := range src.Shards {
		b.c.All.Add(s.ID)
		if src.Facts[s.ID] != nil {
			b.order = append(b.order, s.ID)
		}
	}
	if len(b.order) > 0 {
		f := src.Facts[b.order[0]]
		for _, id := range b.order {
			b.version(src.Facts[id].Version)
		}
		b.c.LowerCaseNames, b.c.SQLMode = f.LowerCaseNames, f.Settings["sql_mode"]
		b.c.AutocommitOff = strings.EqualFold(f.Settings["autocommit"], "OFF")
		b.settings()
		b.c.MariaDB = strings.Contains(f.Version, "MariaDB")
		for _, col := range f.Collations {
			b.c.Collations[col.ID] = catalog.Collation{Name: col.Name, Charset: col.Charset}
			if col.Default {
				b.c.DefaultCollation[strings.ToLower(col.Charset)] = col.Name
			}
		}
	}
	if err := b.placeholders(); err != nil {
		return nil, err
	}
	b.functions()
	b.tables()
	if err := b.place(); err != nil {
		return nil, err
	}
	b.reading()
	b.compare()
	b.indexes()
	b.cascades()
	b.triggers()
	b.events()
	b.unusable()
	return b.c, nil
}

// version keeps the lowest version as the shards': what clients choose by it is there on
// every shard. One of the first shard's kind, MySQL or MariaDB, that is.
func (b *builder) version(v string) {
	isMariaDB := func(v string) bool { return strings.Contains(v, "MariaDB") }
	now := b.c.ServerVersion
	if now == "" || isMariaDB(v) == isMariaDB(now) && slices.Compare(versionNumbers(v), versionNumbers(now)) < 0 {
		b.c.ServerVersion, v = v, now
	}
	if v != "" && v != b.c.ServerVersion && !slices.Contains(b.c.OtherVersions, v) {
		b.c.OtherVersions = append(b.c.OtherVersions, v)
	}
}

// versionNumbers are those that a version begins with.
func versionNumbers(v string) []int {
	numbers := make([]int, 0, 3)
	for part := range strings.SplitSeq(v, ".") {
		digits := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digits < 0 {
			digits = len(part)
		}
		n, err := strconv.Atoi(part[:digits])
		if err != nil {
			break
		}
		if numbers = append(numbers, n); digits < len(part) {
			break
		}
	}
	return numbers
}

func (b *builder) fold(name string) string {
	if b.c.LowerCaseNames {
		return strings.ToLower(name)
	}
	return name
}

func (b *builder) schema(name string) *catalog.Schema {
	s := b.c.Schemas[b.fold(name)]
	if s == nil {
		s = &catalog.Schema{Name: name, Tables: map[string]*catalog.Table{}}
		b.c.Schemas[b.fold(name)] = s
	}
	return s
}

func (b *builder) table(schema, name string) *catalog.Table {
	s := b.schema(schema)
	t := s.Tables[b.fold(name)]
	if t == nil {
		t = &catalog.Table{Schema: s.Name, Name: name}
		s.Tables[b.fold(name)] = t
	}
	return t
}

func (b *builder) indexes() {
	for _, def := range b.Indexes {
		t := b.c.Table(def.Schema, def.Table)
		if t == nil {
			continue // the table is not known while its shards are down
		}
		ix := &catalog.Index{ID: def.ID, Name: def.Name, Table: t, Partitions: def.Partitions, Status: def.Status, Error: def.Error}
		for _, name := range def.Columns {
			if c := t.Column(name); c != nil {
				ix.Columns = append(ix.Columns, c)
			}
		}
		if len(ix.Columns) != len(def.Columns) {
			continue // no shard has told the columns yet, or one is gone
		}
		t.Indexes, b.keyed[ix] = append(t.Indexes, ix), def.Keyed
	}
}

// unusable finds the indexes that are ready and can't be used.
func (b *builder) unusable() {
	for ix, keyed := range b.keyed {
		switch t := ix.Table; {
		case ix.Status != catalog.Ready:
		case t.Differs != "":
			ix.Status, ix.Error = catalog.Failed, t.Differs
		case keyed != "" && keyed != ix.Definition(b.c.MariaDB):
			ix.Status, ix.Error = catalog.Building, "a column was changed since it was built: it is built again"
		case t.Unseen != "":
			ix.Status, ix.Error = catalog.Failed, t.Unseen
		}
	}
}
