package schema

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// tables takes the columns of each table from the first shard that has it.
func (b *builder) tables() {
	type key struct{ schema, table string }
	seen := map[key]bool{}
	computed := map[*catalog.Table]bool{}
	for _, id := range b.order {
		for _, tf := range b.facts[id] {
			k := key{b.fold(tf.schema), b.fold(tf.name)}
			t := b.table(tf.schema, tf.name)
			b.on[t] = b.on[t].Union(catalog.Only(id))
			_, t.Unfinished = b.unfinished(t.Schema, t.Name)
			t.Early = t.Early || !tf.view && !strings.EqualFold(tf.engine, "InnoDB")
			if want := b.wantedSource(tf.schema, tf.name); want != nil && *want != id {
				continue
			}
			if seen[k] {
				if t.IsView && tf.view {
					t.Shards.Add(id)
					if t.Definition != tf.definition || t.DefinitionCollation != tf.collation {
						t.Definition = "" // each shard has its own
					}
					t.Introducers = t.Introducers || tf.introducers
				}
				continue
			}
			seen[k] = true
			t.IsView, t.Sequence, t.Definition = tf.view, tf.sequence, tf.definition
			t.DefinitionCollation, t.Introducers = tf.collation, tf.introducers
			if tf.view {
				t.Shards.Add(id)
			}
			for _, cf := range tf.columns {
				c := b.column(cf, len(t.Columns))
				t.Columns = append(t.Columns, c)
				if c.Generated && !strings.Contains(cf.extra, "stored") && !strings.Contains(cf.extra, "persistent") {
					c.Virtual, computed[t] = true, true
				}
			}
		}
	}
	for t := range computed {
		b.varying(t)
	}
}

func (b *builder) column(f columnFact, position int) *catalog.Column {
	c := &catalog.Column{
		Name: f.name, Position: position, Type: f.typ, Charset: f.charset, Collation: f.collation,
		Nullable:      f.nullable,
		Keyed:         f.keyed,
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
	c.DefaultBlurred = c.Default != nil && strings.Contains(*c.Default, "?") && slices.Contains(beyondBMP, strings.ToLower(f.charset))
	return c
}

// beyondBMP are the character sets with characters that utf8mb3 lacks, in which
// information_schema is.
var beyondBMP = []string{"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"}

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
