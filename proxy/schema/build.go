package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Counting is a column that is AUTO_INCREMENT, whatever the shards say; without a name none is.
type Counting struct {
	catalog.TableName
	Column string
}

// Sources is all that a snapshot is made of.
type Sources struct {
	Version    uint64
	Shards     []catalog.Shard
	Joining    []catalog.Shard
	Slots      [catalog.Slots]catalog.ShardID
	Placements Placements
	Indexes    []catalog.IndexDef
	// Virtual are the virtual columns.
	Virtual []*catalog.VirtualColumn
	// Unlike are the reference tables whose copies differ, and the shard whose copy counts.
	Unlike   map[catalog.TableName]string
	Counting Counting
	Facts    map[catalog.ShardID]*Facts
	// Kept is by what the rows of a table have been placed so far; ok is false where that isn't known.
	Kept func(schema, table string) (p TablePlacement, ok bool, err error)
	// Unfinished are the tables of DDL that may be done on some shards only.
	Unfinished map[catalog.TableName]Unfinished
	// First: the snapshot is the first, and each shard has told its facts. Nobody is making
	// a configured schema's tables then.
	First bool
}

// Unfinished is DDL of a table.
type Unfinished struct {
	// By are the shards by whose columns the table is planned: those that lack an ALTER TABLE, which
	// so is planned as before when it is sent again, and those that have made it.
	//
	// Counter-example: ALTER TABLE t DROP COLUMN c was done on s0 alone. By the columns of s0 the
	// same statement would be told that there is no c.
	By catalog.ShardSet
	// State is another one when By is, or what is told.
	State string
	// Tell says which shards have done it, and what to do.
	Tell func(*catalog.Catalog) string
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
	// stored are the stored functions, by their names in lower case: one of each schema that has such a function.
	stored map[string][]*catalog.Routine
	// tables that the snapshot gets, of those that a shard has: by default all.
	facts map[catalog.ShardID][]*tableFact
	// scope are the tables that it gets anew; nil: all.
	scope map[catalog.TableName]bool
	// made are the tables that it got.
	made []*catalog.Table
	// known is what Snapshot.Next goes by.
	known known
}

// Build makes a snapshot. Errors are about the configuration (an unknown shard
// or shard key); what the shards say can only make tables less usable.
func Build(src Sources) (*catalog.Catalog, error) {
	snapshot, err := Make(src)
	if err != nil {
		return nil, err
	}
	return snapshot.Catalog, nil
}

func newBuilder(src Sources) *builder {
	b := &builder{
		Sources: src, from: map[*catalog.Column]columnFact{}, facts: map[catalog.ShardID][]*tableFact{},
		on: map[*catalog.Table]catalog.ShardSet{}, stored: map[string][]*catalog.Routine{}, keyed: map[*catalog.Index]string{},
	}
	for _, s := range src.Shards {
		if src.Facts[s.ID] != nil {
			b.order = append(b.order, s.ID)
		}
	}
	return b
}

// Make makes a snapshot of all that the sources say.
func Make(src Sources) (*Snapshot, error) {
	b := newBuilder(src)
	b.c = &catalog.Catalog{
		Version: src.Version, Whole: src.Version, Shards: src.Shards, Joining: src.Joining, Slots: src.Slots, Schemas: map[string]*catalog.Schema{},
		DefaultCollation: map[string]string{}, Collations: map[int]catalog.Collation{},
		WritingFunctions: map[string]bool{}, Bound: map[string][]*catalog.Routine{}, LeavingFunctions: map[string]bool{}, Assigned: map[string][]string{}, ReadingFunctions: map[string]bool{}, Functions: map[string]bool{}, AggregateFunctions: map[string]bool{},
		Procedures: map[string]*catalog.Routine{},
	}
	for _, s := range src.Shards {
		b.c.All.Add(s.ID)
	}
	for _, id := range b.order {
		b.facts[id] = src.Facts[id].Tables
	}
	if len(b.order) > 0 {
		f := src.Facts[b.order[0]]
		for _, id := range b.order {
			b.version(src.Facts[id].Version)
			for _, name := range []string{"transaction_isolation", "tx_isolation"} {
				b.c.Uncommitted = b.c.Uncommitted || strings.EqualFold(src.Facts[id].Settings[name], "READ-UNCOMMITTED")
			}
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
	if err := b.schemas(); err != nil {
		return nil, err
	}
	b.functions()
	if err := b.placeTables(); err != nil {
		return nil, err
	}
	b.reading()
	b.triggers()
	b.events()
	b.unusable()
	b.knowPrograms()
	b.c.WithVirtual(src.Virtual)
	return &Snapshot{b.c, src, b.known}, nil
}

// placeTables makes the tables, but for what programs of the shards do to them.
func (b *builder) placeTables() error {
	b.placeholders()
	b.tables()
	if err := b.place(); err != nil {
		return err
	}
	b.compare()
	b.count()
	b.indexes()
	b.cascades()
	return nil
}

// count has a column counted.
func (b *builder) count() {
	if b.Counting.Name == "" {
		return
	}
	t := b.c.Table(b.Counting.Schema, b.Counting.Name)
	if t == nil || !slices.Contains(b.made, t) {
		return
	}
	if c := t.Column(b.Counting.Column); c != nil {
		c.AutoIncrement, c.Unannounced = true, true
	}
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
		b.made = append(b.made, t)
	}
	return t
}

// scoped reports whether the snapshot gets a table anew.
func (b *builder) scoped(schema, name string) bool {
	return b.scope == nil || b.scope[catalog.TableName{Schema: schema, Name: name}]
}

func (b *builder) unfinished(schema, table string) (x Unfinished, ok bool) {
	if b.c.LowerCaseNames {
		for name, x := range b.Unfinished {
			if strings.EqualFold(name.Schema, schema) && strings.EqualFold(name.Name, table) {
				return x, true
			}
		}
		return x, false
	}
	x, ok = b.Unfinished[catalog.TableName{Schema: schema, Name: table}]
	return x, ok
}

func (b *builder) indexes() {
	for _, def := range b.Indexes {
		if !b.scoped(def.Schema, def.Table) {
			continue
		}
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
		for _, name := range def.Include {
			if c := t.Column(name); c != nil {
				ix.Include = append(ix.Include, c)
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
