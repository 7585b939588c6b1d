package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Family groups types that behave alike in expressions.
type Family uint8

// Families of types.
const (
	Int Family = iota
	Decimal
	Double
	Text
	Bytes
	Date
	DateTime
	Time
	JSON
	Bit
)

// Column of a table.
type Column struct {
	Name, Type string
	Family     Family
	// Collation of a Text column; Exact: equal texts are equal bytes.
	Collation string
	Exact     bool
	// Trimmed: no literal for it ends with a space.
	Trimmed  bool
	Unsigned bool
	// Enum and set columns are Text that takes only some values.
	Members   []string
	NotNull   bool
	Default   string
	Generated string
	// Key columns identify a row or say its shard: they aren't updated at random.
	Key bool
	// Width is the number of characters that a Text holds.
	Width int
}

// Placement of a table, as the configuration says it.
type Placement struct {
	Table string
	// Rule is YAML: "{shard_key: id}".
	Rule string
	// Spread: rows are on several shards.
	Spread bool
}

// Placements are those of every world, so that one configuration serves all:
// a table's name says where its rows are. Table c and n are not named: they go
// by the default, c by its primary key, n to the first shard.
var Placements = []Placement{
	{"a", "{shard_key: id}", true},
	{"b", "{shard_key: aid}", true},
	{"c", "", true},
	{"d", "{shard_key: code}", true},
	{"r", "{placement: reference}", false},
	{"q", "{placement: reference}", false},
	{"s", "{placement: single, shard: s0}", false},
	{"w", "{placement: anywhere}", true},
	{"n", "", false},
}

// Table of a world.
type Table struct {
	Name    string
	Columns []*Column
	// Primary key; nil where there is none.
	Primary []*Column
	// Shard is the shard key, nil where there is none.
	Shard *Column
	// Uniques and Keys are the server's own secondary indexes, Virtual Shunt's.
	Uniques, Keys, Virtual [][]string
	// Auto is an AUTO_INCREMENT column, whose values are always given.
	Spread bool
	// first are the rows of Setup, by writable.
	first [][]*Node
}

// writable are the columns that take a value.
func (t *Table) writable() []*Column {
	var out []*Column
	for _, c := range t.Columns {
		if c.Generated == "" {
			out = append(out, c)
		}
	}
	return out
}

// Dialect is the kind of server.
type Dialect struct{ MariaDB bool }

type random struct{ *rand.Rand }

func (r random) one(of int) bool { return r.IntN(of) == 0 }

func any1[T any](r random, of ...T) T { return of[r.IntN(len(of))] }

// collations whose texts are made of the alphabet of Fold.
func (d Dialect) collations() []string {
	out := []string{"utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "latin1_swedish_ci", "latin1_bin", "utf8mb4_unicode_520_ci"}
	if !d.MariaDB {
		out = append(out, "utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin")
	}
	return out
}

func textColumn(r random, d Dialect, name string) *Column {
	c := &Column{Name: name, Family: Text, Collation: any1(r, d.collations()...)}
	// A PAD SPACE collation takes 'a' for 'a ', so only NO PAD ones are exact.
	c.Exact = c.Collation == "utf8mb4_0900_bin"
	// MariaDB sorts a column of such a collation with padding, and an expression without: '' before ' '.
	c.Trimmed = d.MariaDB && strings.HasSuffix(c.Collation, "_bin")
	charset, _, _ := strings.Cut(c.Collation, "_")
	c.Width = any1(r, 8, 20, 60)
	kind := fmt.Sprintf("%s(%d)", any1(r, "VARCHAR", "VARCHAR", "VARCHAR", "CHAR"), c.Width)
	if r.one(8) {
		kind, c.Width = "TEXT", 200
	}
	c.Type = fmt.Sprintf("%s CHARACTER SET %s COLLATE %s", kind, charset, c.Collation)
	return c
}

func (d Dialect) randomColumn(r random, name string) *Column {
	c := &Column{Name: name}
	switch r.IntN(24) {
	case 0, 1, 2, 3, 4:
		c.Family = Int
		c.Type = any1(r, "INT", "INT", "BIGINT", "SMALLINT", "TINYINT", "MEDIUMINT", "INT UNSIGNED", "BIGINT UNSIGNED", "TINYINT UNSIGNED")
		c.Unsigned = strings.Contains(c.Type, "UNSIGNED")
	case 5, 6, 7:
		c.Family = Decimal
		c.Type = any1(r, "DECIMAL(10,2)", "DECIMAL(6,2)", "DECIMAL(20,4)", "DECIMAL(8,0)", "DECIMAL(12,3) UNSIGNED")
		c.Unsigned = strings.Contains(c.Type, "UNSIGNED")
	case 8, 9:
		c.Family, c.Type = Double, any1(r, "DOUBLE", "DOUBLE", "FLOAT")
	case 10, 11, 12, 13, 14, 15:
		c = textColumn(r, d, name)
	case 16, 17:
		c.Family, c.Type = Date, "DATE"
	case 18:
		c.Family, c.Type = DateTime, any1(r, "DATETIME", "DATETIME(3)", "DATETIME(6)", "TIMESTAMP NULL")
	case 19:
		c.Family, c.Type = Time, any1(r, "TIME", "TIME(3)")
	case 20:
		c.Family, c.Collation, c.Width = Text, any1(r, "utf8mb4_general_ci", "utf8mb4_bin"), 8
		c.Members = []string{"red", "green", "blue", "x"}
		r.Shuffle(len(c.Members), func(i, j int) { c.Members[i], c.Members[j] = c.Members[j], c.Members[i] })
		c.Type = any1(r, "ENUM", "ENUM", "SET") + "('" + strings.Join(c.Members, "','") + "') CHARACTER SET utf8mb4 COLLATE " + c.Collation
		c.Exact = true // no two members are equal
	case 21:
		c.Family, c.Type = Bytes, any1(r, "VARBINARY(12)", "BINARY(4)", "BLOB")
	case 22:
		c.Family, c.Type = JSON, "JSON"
	case 23:
		c.Family, c.Type = Bit, any1(r, "BIT(1)", "BIT(8)")
	}
	if c.Type == "" {
		panic("column without a type")
	}
	c.NotNull = c.Type != "TIMESTAMP NULL" && r.one(5)
	if !c.NotNull && r.one(6) && c.Family != JSON && c.Family != Bytes && !strings.HasPrefix(c.Type, "TEXT") {
		c.Default = value(r, c, false).String()
	}
	return c
}

// keyColumn is a column of a primary key.
func (d Dialect) keyColumn(r random, name string, kind string) *Column {
	c := &Column{Name: name, NotNull: true, Key: true}
	switch kind {
	case "int":
		c.Family, c.Type = Int, any1(r, "INT", "BIGINT", "BIGINT", "INT UNSIGNED", "SMALLINT")
		c.Unsigned = strings.Contains(c.Type, "UNSIGNED")
	case "small":
		c.Family, c.Type = Int, "SMALLINT"
	default:
		c = textColumn(r, d, name)
		for strings.HasPrefix(c.Type, "TEXT") {
			c = textColumn(r, d, name)
		}
		c.NotNull, c.Key = true, true
	}
	return c
}

// newTables makes the tables of a world: a, b and r always, some of the others.
func newTables(r random, d Dialect) []*Table {
	names := []string{"a", "b", "r"}
	others := []string{"c", "d", "q", "s", "w", "n"}
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	names = append(names, others[:2+r.IntN(2)]...)
	var tables []*Table
	for _, name := range names {
		i := slices.IndexFunc(Placements, func(p Placement) bool { return p.Table == name })
		t := &Table{Name: name, Spread: Placements[i].Spread}
		switch name {
		case "a", "c", "w", "r", "s":
			kind := "int"
			if r.one(8) && name != "a" {
				kind = "text"
			}
			t.Columns = []*Column{d.keyColumn(r, "id", kind)}
			if name == "a" || name == "c" {
				t.Shard = t.Columns[0]
			}
		case "b":
			k := *tables[0].Columns[0]
			k.Name = "aid"
			t.Columns = []*Column{&k, d.keyColumn(r, "n", "small")}
			t.Shard = t.Columns[0]
		case "d", "q":
			t.Columns = []*Column{d.keyColumn(r, "code", "text")}
			if name == "d" {
				t.Shard = t.Columns[0]
			}
		}
		t.Primary = slices.Clone(t.Columns)
		for i := range 3 + r.IntN(4) {
			c := d.randomColumn(r, fmt.Sprintf("v%d", i))
			if name == "n" {
				// No key tells rows apart: only types whose equal values are the same.
				for c.Family == Double || c.Family == JSON || c.Family == Text && !c.Exact || c.Family == Bytes {
					c = d.randomColumn(r, c.Name)
				}
			}
			t.Columns = append(t.Columns, c)
		}
		if r.one(6) {
			t.Columns = append(t.Columns, generated(r, t))
		}
		indexes(r, t)
		tables = append(tables, t)
	}
	return tables
}

// generated is a column that the server computes.
func generated(r random, t *Table) *Column {
	for _, c := range t.Columns {
		kind := any1(r, "STORED", "VIRTUAL")
		switch {
		case c.Family == Int && !c.Unsigned && !c.Key && !strings.HasPrefix(c.Type, "BIGINT"):
			return &Column{Name: "g", Type: "BIGINT", Family: Int, Generated: fmt.Sprintf("(%s + 1) %s", c.Name, kind)}
		case c.Family == Text && strings.HasPrefix(c.Type, "VARCHAR") && !c.Key: // MariaDB takes no CHAR, whose padding a mode changes
			charset, _, _ := strings.Cut(c.Collation, "_")
			return &Column{
				Name: "g", Type: fmt.Sprintf("VARCHAR(70) CHARACTER SET %s COLLATE %s", charset, c.Collation), Family: Text, Width: 70,
				Collation: c.Collation, Exact: c.Exact, Generated: fmt.Sprintf("(LEFT(%s, 2)) %s", c.Name, kind),
			}
		}
	}
	return &Column{Name: "g", Type: "BIGINT", Family: Int, Generated: "(7) STORED"}
}

func indexable(c *Column) bool {
	return c.Family != JSON && c.Family != Bit && !strings.HasPrefix(c.Type, "TEXT") && !strings.HasPrefix(c.Type, "BLOB")
}

func indexes(r random, t *Table) {
	var able, virtual []string
	for _, c := range t.Columns {
		if !indexable(c) || c.Key && len(t.Primary) == 1 {
			continue
		}
		if c.Members == nil { // MIN and MAX of an ENUM or SET are other ones by an index
			able = append(able, c.Name)
		}
		if c.Family != Double && c.Members == nil && c.Type != "TIMESTAMP NULL" {
			virtual = append(virtual, c.Name)
		}
	}
	some := func(from []string) []string {
		n := 1 + r.IntN(2)
		from = slices.Clone(from)
		r.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		return from[:min(n, len(from))]
	}
	if len(able) > 0 && r.one(2) {
		t.Keys = append(t.Keys, some(able))
	}
	if len(able) > 0 && t.Primary != nil && r.one(3) {
		u := some(able)[:1]
		if t.Spread {
			// A unique key without the shard key would be unique on each shard only.
			if t.Shard == nil {
				u = nil
			} else if u[0] != t.Shard.Name {
				u = []string{t.Shard.Name, u[0]}
			} else {
				u = nil
			}
		}
		if u != nil {
			t.Uniques = append(t.Uniques, u)
		}
	}
	if t.Spread && len(virtual) > 0 {
		for range 1 + r.IntN(2) {
			v := some(virtual)
			if !slices.ContainsFunc(t.Virtual, func(x []string) bool { return slices.Equal(x, v) }) {
				t.Virtual = append(t.Virtual, v)
			}
		}
	}
}

// create is the CREATE TABLE. A shrink may leave out columns and keys, but not
// those that say where rows are.
func (t *Table) create() *Node {
	parts := glued("CREATE TABLE " + t.Name + " (")
	add := func(def string, needed bool) {
		if len(parts.Kids) > 1 {
			def = ", " + def
		}
		n := text(def)
		n.Optional = !needed
		parts.Kids = append(parts.Kids, n)
	}
	for i, c := range t.Columns {
		def := c.Name + " " + c.Type
		if c.Generated != "" {
			def += " GENERATED ALWAYS AS " + c.Generated
		}
		if c.NotNull {
			def += " NOT NULL"
		}
		if c.Default != "" {
			def += " DEFAULT " + c.Default
		}
		add(def, i == 0 || c.Key)
	}
	if t.Primary != nil {
		names := make([]string, len(t.Primary))
		for i, c := range t.Primary {
			names[i] = c.Name
		}
		add("PRIMARY KEY ("+strings.Join(names, ", ")+")", true)
	}
	for _, k := range t.Uniques {
		add("UNIQUE KEY ("+strings.Join(k, ", ")+")", false)
	}
	for _, k := range t.Keys {
		add("KEY ("+strings.Join(k, ", ")+")", false)
	}
	parts.Kids = append(parts.Kids, text(")"))
	return parts
}

// Insert makes a table's rows as they were read by SELECT *; nil for none.
func (t *Table) Insert(rows [][]*string) *Node {
	if len(rows) == 0 {
		return nil
	}
	var names []string
	for _, c := range t.writable() {
		names = append(names, c.Name)
	}
	values := list(1)
	for _, r := range rows {
		row := list(-1)
		for i, c := range t.Columns {
			switch {
			case c.Generated != "":
			case r[i] == nil:
				row.Kids = append(row.Kids, text("NULL"))
			default:
				row.Kids = append(row.Kids, text(c.quote(*r[i])))
			}
		}
		values.Kids = append(values.Kids, glued("(", row, ")"))
	}
	return words("INSERT INTO", t.Name+" ("+strings.Join(names, ", ")+")", "VALUES", values)
}

func (c *Column) quote(s string) string {
	switch c.Family {
	case Bytes, Bit:
		return fmt.Sprintf("x'%x'", s)
	case Int, Decimal:
		return s
	case Double:
		return s + "e0"
	case Text, Date, DateTime, Time, JSON:
	}
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(s) + "'"
}

// Directive is the line of a script that says a table's placement.
func Directive(table string) string {
	for _, p := range Placements {
		if p.Table != table || p.Rule == "" {
			continue
		}
		rule := strings.NewReplacer("{", "", "}", "", "shard_key: ", "hash ", "placement: ", "", ", shard:", "").Replace(p.Rule)
		return "-- @" + rule + "\n"
	}
	return ""
}
