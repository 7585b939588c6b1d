package schema

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
}

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
	// virtual are the expressions of VIRTUAL columns.
	virtual map[*catalog.Column]string
	// from is what each column was made of.
	from map[*catalog.Column]columnFact
	// on are the shards that have each table.
	on map[*catalog.Table]catalog.ShardSet
	// bodies are the words of the stored functions; of several of one name, those of all.
	bodies map[string]map[string]bool
}

// Build makes a snapshot. Errors are about the configuration (an unknown shard
// or shard key); what the shards say can only make tables less usable.
func Build(src Sources) (*catalog.Catalog, error) {
	b := &builder{Sources: src, virtual: map[*catalog.Column]string{}, from: map[*catalog.Column]columnFact{}, on: map[*catalog.Table]catalog.ShardSet{}, bodies: map[string]map[string]bool{}, c: &catalog.Catalog{
		Version: src.Version, Shards: src.Shards, Slots: src.Slots,
		Schemas: map[string]*catalog.Schema{}, DefaultCollation: map[string]string{},
		Collations: map[int]catalog.Collation{}, Functions: map[string]bool{}, Leaving: map[string]bool{}, Reading: map[string]bool{}, Procedures: map[string]*catalog.Procedure{},
	}}
	for _, s := range src.Shards {
		b.c.All.Add(s.ID)
		if src.Facts[s.ID] != nil {
			b.order = append(b.order, s.ID)
		}
	}
	if len(b.order) > 0 {
		f := src.Facts[b.order[0]]
		for _, id := range b.order {
			b.lowestVersion(src.Facts[id].Version)
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
	return b.c, nil
}

// lowestVersion keeps the lowest version: what clients choose by it is there on
// every shard. One of the first shard's kind, MySQL or MariaDB, that is.
func (b *builder) lowestVersion(v string) {
	isMariaDB := func(v string) bool { return strings.Contains(v, "MariaDB") }
	now := b.c.ServerVersion
	if now == "" || isMariaDB(v) == isMariaDB(now) && slices.Compare(versionNumbers(v), versionNumbers(now)) < 0 {
		b.c.ServerVersion = v
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

func (b *builder) shardNamed(name string) (catalog.ShardID, error) {
	s, ok := b.c.ShardByName(name)
	if !ok {
		return 0, fmt.Errorf("unknown shard %q", name)
	}
	return s.ID, nil
}

// placeholders makes the configured schemas and tables known even where no
// shard has them yet, so that CREATE TABLE knows where to go.
func (b *builder) placeholders() error {
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
		for t := range p.Tables {
			b.table(name, t)
		}
	}
	return nil
}

// functions finds the stored functions that may change rows: whose body has a
// word that writes, or calls one of those. What a function declares (READS SQL
// DATA) the servers don't enforce.
func (b *builder) functions() {
	for _, id := range b.order {
		for _, f := range b.Facts[id].Functions {
			words := identifiers(f.body)
			if f.procedure {
				b.procedure(f, words)
				continue
			}
			if f.hidden || words["insert"] || words["update"] || words["delete"] || words["replace"] || words["call"] || words["truncate"] {
				b.c.Functions[f.name] = true
			}
			if leavesTraces(f.body) {
				b.c.Leaving[f.name] = true
			}
			if b.bodies[f.name] == nil {
				b.bodies[f.name] = map[string]bool{}
			}
			maps.Copy(b.bodies[f.name], words)
		}
	}
	b.addCallers(b.c.Functions)
	b.addCallers(b.c.Leaving)
}

// addCallers adds to a set of functions those that call one in it.
func (b *builder) addCallers(set map[string]bool) {
	for again := true; again; {
		again = false
		for name, words := range b.bodies {
			for w := range words {
				if !set[name] && set[w] {
					set[name], again = true, true
				}
			}
		}
	}
}

// reading finds the stored functions that name, and perhaps read, a table whose rows
// are on several shards, or a view, or that call one of those.
func (b *builder) reading() {
	if len(b.c.Shards) < 2 {
		return
	}
	spread := map[string]bool{}
	for _, s := range b.c.Schemas {
		for _, t := range s.Tables {
			if t.IsView || t.Shards.Len() > 1 && t.Placement != catalog.Reference {
				spread[strings.ToLower(t.Name)] = true
			}
		}
	}
	for name, words := range b.bodies {
		for w := range words {
			if spread[w] && (words["from"] || words["table"]) {
				b.c.Reading[name] = true
			}
		}
	}
	b.addCallers(b.c.Reading)
}

// procedure notes a procedure. Where the shards have several of its name it is
// all of them.
func (b *builder) procedure(f functionFact, words map[string]bool) {
	key := catalog.ProcedureKey(f.schema, f.name)
	p := b.c.Procedures[key]
	if p == nil {
		p = &catalog.Procedure{Words: map[string]bool{}}
		b.c.Procedures[key] = p
	}
	maps.Copy(p.Words, words)
	p.Hidden = p.Hidden || f.hidden
	p.Variables = p.Variables || strings.Contains(f.body, "@")
	p.Leaves, p.Ends = p.Leaves || leavesTraces(f.body), p.Ends || endsTransactions(f.body)
}

// tables takes the columns of each table from the first shard that has it.
func (b *builder) tables() {
	type key struct{ schema, table string }
	from := map[key]catalog.ShardID{}
	computed := map[*catalog.Table]bool{}
	for _, id := range b.order {
		f := b.Facts[id]
		for _, name := range f.Schemas {
			b.schema(name)
		}
		for _, tf := range f.Tables {
			k := key{b.fold(tf.schema), b.fold(tf.name)}
			at := b.table(tf.schema, tf.name)
			b.on[at] = b.on[at].Union(catalog.Only(id))
			if want := b.wantedSource(tf.schema, tf.name); want != nil && *want != id {
				continue
			}
			if _, seen := from[k]; seen {
				if t := b.table(tf.schema, tf.name); t.IsView && tf.view {
					t.Shards.Add(id)
					if t.Definition != tf.definition || t.DefinitionCollation != tf.collation {
						t.Definition = "" // each shard has its own
					}
					t.Introducers = t.Introducers || tf.introducers
				}
				continue
			}
			from[k] = id
			t := b.table(tf.schema, tf.name)
			t.IsView, t.Definition = tf.view, tf.definition
			t.DefinitionCollation, t.Introducers = tf.collation, tf.introducers
			if tf.view {
				t.Shards.Add(id)
			}
		}
		for _, cf := range f.Columns {
			if from[key{b.fold(cf.schema), b.fold(cf.table)}] != id || !hasTable(from, key{b.fold(cf.schema), b.fold(cf.table)}) {
				continue
			}
			t := b.table(cf.schema, cf.table)
			c := b.column(cf, len(t.Columns))
			t.Columns = append(t.Columns, c)
			if c.Generated && !strings.Contains(cf.extra, "stored") && !strings.Contains(cf.extra, "persistent") {
				b.virtual[c] = cf.generated
				computed[t] = true
			}
		}
	}
	for t := range computed {
		b.varying(t)
	}
}

func hasTable[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

// wantedSource is the shard whose definition counts for a table that the
// configuration puts on a single one; nil for all others.
func (b *builder) wantedSource(schema, table string) *catalog.ShardID {
	p, named := b.placement(schema, table)
	if !named || p.Placement != catalog.Single {
		return nil
	}
	if s, ok := b.c.ShardByName(p.Shard); ok {
		return &s.ID
	}
	return nil
}

// placement finds what the configuration says of a table; named is false where
// only the built-in default is left.
func (b *builder) placement(schema, table string) (p TablePlacement, named bool) {
	for name, sp := range b.Placements {
		if b.fold(name) != b.fold(schema) {
			continue
		}
		for t, tp := range sp.Tables {
			if b.fold(t) == b.fold(table) {
				return tp, true
			}
		}
		return sp.Default, sp.Default != TablePlacement{}
	}
	return TablePlacement{}, false
}

func (b *builder) column(f columnFact, position int) *catalog.Column {
	c := &catalog.Column{
		Name: f.name, Position: position, Type: f.typ, Charset: f.charset, Collation: f.collation,
		Nullable:      f.nullable,
		AutoIncrement: strings.Contains(f.extra, "auto_increment"),
		OnUpdate:      strings.Contains(f.extra, "on update"),
		Generated:     f.generated != "",
		Invisible:     strings.Contains(f.extra, "invisible"),
		JSON:          f.json,
		Expression:    f.generated,
	}
	b.from[c] = f
	c.Default, c.DefaultExpr = defaultOf(f, b.c.MariaDB)
	if c.DefaultExpr {
		c.DefaultText = defaultText(*f.def, b.c.MariaDB)
	}
	c.DefaultNow = c.DefaultExpr && f.def != nil && currentTimestamp.MatchString(*f.def)
	return c
}

var currentTimestamp = regexp.MustCompile(`(?i)^(current_timestamp|now)(\([0-9]?\))?$`)

// defaultOf tells a column's constant default. MySQL gives a constant as its
// bare text and flags expressions in EXTRA; MariaDB gives SQL text, constants
// quoted. Binary and bit defaults come in forms of their own: they count as
// expressions, whose value Shunt does not know.
func defaultOf(f columnFact, mariaDB bool) (def *string, expr bool) {
	if f.def == nil {
		return nil, false
	}
	d := *f.def
	typ := strings.ToLower(f.typ)
	if strings.Contains(typ, "binary") || strings.Contains(typ, "blob") || strings.HasPrefix(typ, "bit") {
		return nil, !strings.EqualFold(d, "NULL")
	}
	if !mariaDB {
		if strings.Contains(f.extra, "default_generated") || strings.HasPrefix(strings.ToUpper(d), "CURRENT_TIMESTAMP") {
			return nil, true
		}
		return &d, false
	}
	if strings.EqualFold(d, "NULL") {
		return nil, false
	}
	if len(d) >= 2 && d[0] == '\'' && d[len(d)-1] == '\'' {
		inner := d[1 : len(d)-1]
		if strings.Contains(inner, `\`) || strings.Count(inner, "'")%2 != 0 || strings.Count(inner, "''")*2 != strings.Count(inner, "'") {
			return nil, true
		}
		inner = strings.ReplaceAll(inner, "''", "'")
		return &inner, false
	}
	if d != "" && strings.Trim(d, "-0123456789.") == "" {
		return &d, false
	}
	return nil, true
}

// defaultText is a default that calls functions as an expression of SQL, which sql_mode and
// character set don't change; "" for others. MySQL gives quotes in it with a backslash.
func defaultText(def string, mariaDB bool) string {
	if !mariaDB {
		def = strings.ReplaceAll(def, `\'`, "'")
	}
	strange := func(r rune) bool { return r == '\\' || r == '"' || r < ' ' || r >= utf8.RuneSelf }
	if !strings.Contains(def, "(") || strings.ContainsFunc(def, strange) {
		return ""
	}
	return def
}

// place puts each table where the configuration or the default says.
func (b *builder) place() error {
	b.uniqueKeys()
	for _, s := range b.c.Schemas {
		for _, t := range s.Tables {
			if err := b.placeTable(t); err != nil {
				return fmt.Errorf("table %s.%s: %w", t.Schema, t.Name, err)
			}
		}
	}
	return nil
}

func (b *builder) placeTable(t *catalog.Table) error {
	if t.IsView {
		return nil // it is where it was made, and its rows are where its tables' are
	}
	p, named := b.placement(t.Schema, t.Name)
	if len(t.Columns) > 0 && p == (TablePlacement{}) && b.isDefault(t) {
		var err error
		if p, err = b.keptPlacement(t); err != nil {
			return err
		}
	}
	t.Placement, t.Shards = p.Placement, b.c.All
	switch p.Placement {
	case catalog.Reference:
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
		case len(t.PrimaryKey) > 0 && (p.Placement != catalog.Hash || !ownKey(t) || named && !b.isDefault(t)):
			t.ShardKey = t.PrimaryKey[0]
		case p.Placement == catalog.Anywhere:
			// Rows can be found by index or scatter; only new ones have no place.
		case named && !b.isDefault(t):
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
// be looked for on a shard that doesn't even have the table.
func (b *builder) keptPlacement(t *catalog.Table) (TablePlacement, error) {
	if len(b.c.Shards) < 2 {
		return TablePlacement{}, nil
	}
	kept, known, err := b.Kept(b.fold(t.Schema), b.fold(t.Name))
	if err != nil {
		return TablePlacement{}, err
	}
	configured := b.configured(t.Schema)
	if known && kept.Placement == catalog.Anywhere && !configured {
		return kept, nil
	}
	if b.on[t].Len() == 1 {
		alone := TablePlacement{Placement: catalog.Single, Shard: b.c.ShardName(b.on[t].First())}
		if known && kept == alone || !known && configured && b.First {
			return alone, nil
		}
	}
	return TablePlacement{}, nil
}

// configured reports a schema that the configuration names.
func (b *builder) configured(schema string) bool {
	for name := range b.Placements {
		if b.fold(name) == b.fold(schema) {
			return true
		}
	}
	return false
}

// ownKey reports a primary key that MySQL has given a table which was made without
// one (sql_generate_invisible_primary_key). CREATE TABLE has placed it by its text.
func ownKey(t *catalog.Table) bool {
	c := t.PrimaryKey[0]
	return c.Invisible && c.AutoIncrement && c.Name == "my_row_id"
}

// isDefault reports whether a table is placed by its schema's default rather
// than by its own line in the configuration.
func (b *builder) isDefault(t *catalog.Table) bool {
	for name, sp := range b.Placements {
		if b.fold(name) == b.fold(t.Schema) {
			for own := range sp.Tables {
				if b.fold(own) == b.fold(t.Name) {
					return false
				}
			}
		}
	}
	return true
}

func (b *builder) uniqueKeys() {
	type key struct{ schema, table, name string }
	done := map[key]bool{}
	for _, id := range b.order {
		cols := map[key][]keyFact{}
		var order []key
		for _, kf := range b.Facts[id].Keys {
			k := key{b.fold(kf.schema), b.fold(kf.table), kf.key}
			if cols[k] == nil {
				order = append(order, k)
			}
			cols[k] = append(cols[k], kf)
		}
		for _, k := range order {
			if done[k] {
				continue
			}
			done[k] = true
			t := b.table(k.schema, k.table)
			var list []*catalog.Column
			for _, kf := range cols[k] {
				c := t.Column(kf.column)
				if c == nil || kf.prefix {
					list = nil // a functional or prefix part: no key of columns
					break
				}
				list = append(list, c)
			}
			if list == nil {
				continue
			}
			t.Unique = append(t.Unique, list)
			if k.name == "PRIMARY" {
				t.PrimaryKey = list
			}
		}
	}
}

// compare finds tables that are not the same on all shards that should hold
// them.
func (b *builder) compare() {
	type key struct{ schema, table string }
	for _, id := range b.order {
		cols := map[key][]columnFact{}
		for _, cf := range b.Facts[id].Columns {
			k := key{b.fold(cf.schema), b.fold(cf.table)}
			cols[k] = append(cols[k], cf)
		}
		for _, s := range b.c.Schemas {
			for _, t := range s.Tables {
				if !t.Shards.Has(id) || len(t.Columns) == 0 || t.Differs != "" && t.OrderDiffers {
					continue
				}
				theirs := cols[key{b.fold(t.Schema), b.fold(t.Name)}]
				if d := differs(t, theirs, b.c.ShardName(id)); d == "" {
					b.alike(t, theirs)
				} else {
					t.Differs, t.OrderDiffers = cmp.Or(t.Differs, d), t.OrderDiffers || ordersDiffer(t, theirs)
				}
			}
		}
	}
}

// alike leaves of columns that shards compute otherwise what is so on all of them: a
// default that they don't share is one that isn't known.
//
// Counter-example: ALTER TABLE t ALTER city SET DEFAULT 'Oslo' is done on s0, and failed
// on s1. INSERT INTO t (id) VALUES (1) for s1 would have an entry for 'Oslo', and its row
// 'nowhere'.
func (b *builder) alike(t *catalog.Table, theirs []columnFact) {
	for i, c := range t.Columns {
		ours, f := b.from[c], theirs[i]
		if (ours.def == nil) != (f.def == nil) || ours.def != nil && *ours.def != *f.def || ours.extra != f.extra || ours.nullable != f.nullable {
			c.Default, c.DefaultExpr, c.DefaultText, c.DefaultNow = nil, true, "", false
			c.Nullable = c.Nullable && f.nullable
			c.OnUpdate = c.OnUpdate || strings.Contains(f.extra, "on update")
		}
		c.Generated = c.Generated || f.generated != ""
		c.AutoIncrement = c.AutoIncrement || strings.Contains(f.extra, "auto_increment")
	}
}

// ordersDiffer: a row without a list of columns means another one there.
func ordersDiffer(t *catalog.Table, theirs []columnFact) bool {
	return len(theirs) == len(t.Columns) && slices.ContainsFunc(t.Columns, func(c *catalog.Column) bool { return !strings.EqualFold(theirs[c.Position].name, c.Name) })
}

// settings finds in what the shards' sessions would begin otherwise.
func (b *builder) settings() {
	first := b.order[0]
	for _, name := range append(slices.Clone(settings), "system_time_zone", "lower_case_table_names", "autocommit") {
		value := func(id catalog.ShardID) (string, bool) {
			if name == "lower_case_table_names" {
				return fmt.Sprint(b.Facts[id].LowerCaseNames), true
			}
			v, ok := b.Facts[id].Settings[name]
			return v, ok
		}
		ours, ok := value(first)
		if !ok || name == "system_time_zone" && !strings.EqualFold(b.Facts[first].Settings["time_zone"], "SYSTEM") {
			continue
		}
		for _, id := range b.order[1:] {
			theirs, ok := value(id)
			if !ok || strings.EqualFold(ours, theirs) {
				continue
			}
			able := slices.Contains(settings, name)
			b.c.Unlike = append(b.c.Unlike, catalog.Setting{Name: name, Value: ours, Other: theirs, Shard: b.c.ShardName(id), Able: able})
			break
		}
	}
}

func differs(t *catalog.Table, cols []columnFact, shard string) string {
	if len(cols) == 0 {
		return "the table is missing on shard " + shard
	}
	if len(cols) != len(t.Columns) {
		return fmt.Sprintf("shard %s has %d columns, another has %d", shard, len(cols), len(t.Columns))
	}
	for i, c := range t.Columns {
		f := cols[i]
		if f.name != c.Name || f.typ != c.Type || f.collation != c.Collation {
			return fmt.Sprintf("column %d is %s %s %s on shard %s, and %s %s %s on another", i+1, f.name, f.typ, f.collation, shard, c.Name, c.Type, c.Collation)
		}
		if f.nullable != c.Nullable || (f.generated != "") != c.Generated || strings.Contains(f.extra, "on update") != c.OnUpdate || strings.Contains(f.extra, "invisible") != c.Invisible {
			return fmt.Sprintf("column %s is defined otherwise on shard %s than on another", c.Name, shard)
		}
	}
	return ""
}

func (b *builder) indexes() {
	for _, def := range b.Indexes {
		t := b.c.Table(def.Schema, def.Table)
		if t == nil {
			continue // the table is not known while its shards are down
		}
		ix := &catalog.Index{ID: def.ID, Name: def.Name, Table: t, Partitions: def.Partitions, Status: def.Status, Error: def.Error}
		for _, name := range def.Columns {
			c := t.Column(name)
			if c == nil {
				if len(t.Columns) > 0 {
					ix.Status, ix.Error = catalog.Failed, fmt.Sprintf("the table has no column %q", name)
				}
				break
			}
			ix.Columns = append(ix.Columns, c)
		}
		if len(ix.Columns) != len(def.Columns) {
			if ix.Status != catalog.Failed {
				continue // no shard has told the columns yet
			}
			ix.Columns = nil
			continue
		}
		if t.Differs != "" && ix.Status == catalog.Ready {
			ix.Status, ix.Error = catalog.Failed, t.Differs
		}
		if def.Keyed != "" && def.Keyed != ix.Definition() && ix.Status == catalog.Ready {
			ix.Status, ix.Error = catalog.Building, "a column was changed since it was built: it is built again within a minute"
		}
		t.Indexes = append(t.Indexes, ix)
	}
}

// triggers notes which tables that matter each trigger may change: its own table
// (a BEFORE trigger sets NEW.col) and each table that its body names. A body
// that calls a routine may change any.
//
// Rule on the way: a table matters that has an index, or by whose trigger or foreign
// key another table may change. Counter-example: a trigger of orders inserts into
// log, which has no index, and one of log inserts into mails, which has.
func (b *builder) triggers() {
	var matter []*catalog.Table
	passes := map[*catalog.Table]bool{}
	for _, id := range b.order {
		for _, tf := range b.Facts[id].Triggers {
			passes[b.c.Table(tf.schema, tf.table)] = true
		}
	}
	views := map[string]bool{} // a body may write to a table by one
	for _, s := range b.c.Schemas {
		for _, t := range s.Tables {
			if len(t.Indexes) > 0 || len(t.Cascades) > 0 || passes[t] {
				matter = append(matter, t)
			}
			if t.IsView {
				views[strings.ToLower(t.Name)] = true
			}
		}
	}
	leaving := b.leavingTriggers()
	for _, id := range b.order {
		for _, tf := range b.Facts[id].Triggers {
			t := b.c.Table(tf.schema, tf.table)
			if t == nil {
				continue
			}
			words := identifiers(tf.body)
			trigger := catalog.Trigger{Event: tf.event, Body: tf.body, ANSIQuotes: strings.Contains(tf.mode, "ANSI_QUOTES"), Leaves: leaving[tf.body]}
			all := words["call"]
			for w := range words {
				all = all || b.c.Functions[w] || views[w]
			}
			for _, other := range matter {
				if all || other == t || words[strings.ToLower(other.Name)] {
					trigger.Touches = append(trigger.Touches, other)
				}
			}
			t.Triggers = append(t.Triggers, trigger)
		}
	}
}

// identifiers returns every word of a text in lower case. Words in strings and
// comments are in it too: too many is only wide.
func identifiers(text string) map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && r != '$' && r < 0x80 && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		words[strings.ToLower(w)] = true
	}
	// A quoted name may hold anything between its quotes, which under ANSI_QUOTES are
	// double ones too. Where one stands in a string, names come to be between others'.
	for _, quote := range []string{"`", `"`} {
		for part := range strings.SplitSeq(text, quote) {
			words[strings.ToLower(part)] = true
		}
	}
	return words
}

func (b *builder) cascades() {
	type key struct{ child, column, parent, refers string }
	seen := map[key]bool{}
	for _, id := range b.order {
		for _, fk := range b.Facts[id].ForeignKeys {
			parent, child := b.c.Table(fk.refSchema, fk.refTable), b.c.Table(fk.schema, fk.table)
			if parent == nil || child == nil {
				continue
			}
			col := child.Column(fk.column)
			k := key{child.Schema + "." + child.Name, fk.column, parent.Schema + "." + parent.Name, fk.refColumn}
			if col == nil || seen[k] {
				continue
			}
			seen[k] = true
			c := catalog.Cascade{
				Child: child, Columns: []*catalog.Column{col},
				OnUpdate: cascades(fk.update), OnDelete: cascades(fk.delete), DeletesRows: fk.delete == "CASCADE",
			}
			if fk.update == "CASCADE" { // SET NULL sets all of a key's columns
				c.Refers = parent.Column(fk.refColumn)
			}
			if c.OnUpdate || c.OnDelete {
				parent.Cascades = append(parent.Cascades, c)
			}
		}
	}
}

func cascades(rule string) bool {
	return rule == "CASCADE" || rule == "SET NULL" || rule == "SET DEFAULT"
}
