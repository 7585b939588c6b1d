package planner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// GatherColumn is a column of a copy.
type GatherColumn struct {
	*catalog.Column
	// Form is what Select answers for it, and how that is written into the
	// copy.
	Form Form
	// invisible: the copy's column is too, since a * must not answer it.
	invisible bool
}

// Form is how values of a column travel, exactly and whatever the session's
// character sets, time zone and modes are.
type Form uint8

const (
	// FormNumber is digits: integers, DECIMAL, YEAR, and ENUM and SET as their
	// numbers (the text '' of an ENUM may be no member).
	FormNumber Form = iota
	// FormDouble is FLOAT and DOUBLE as the shortest text of the DOUBLE. A FLOAT
	// itself would be answered with six digits.
	FormDouble
	// FormBytes is written in hexadecimal.
	FormBytes
	// FormText is text in UTF-8.
	FormText
	// FormEncoded is text in the column's own character set, which conversion to
	// another one and back may change.
	FormEncoded
	// FormPlain is text of ASCII: dates and times, UUID, INET6.
	FormPlain
	// FormJSON is MySQL's JSON as text, or '' where the text is not all of it:
	// JSON made by functions may hold dates and decimals, which the text leaves
	// as strings and doubles.
	FormJSON
	// FormInstant is a TIMESTAMP as seconds since 1970, 0 for '0000-00-00'.
	FormInstant
)

// formOf says how a column travels; ok is false for types that aren't known.
func formOf(c *catalog.Column) (f Form, ok bool) {
	switch base := baseType(c.Type); base {
	case "decimal", "numeric", "year", "enum", "set":
		return FormNumber, true
	case "float", "double", "real":
		return FormDouble, true
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", "vector",
		"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection", "geometrycollection":
		return FormBytes, true
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		switch strings.ToLower(c.Charset) {
		case "utf8mb4", "utf8mb3", "utf8":
			return FormText, true
		case "":
			return 0, false
		}
		return FormEncoded, true
	case "json":
		return FormJSON, true
	case "date", "datetime", "time", "uuid", "inet4", "inet6":
		return FormPlain, true
	case "timestamp":
		return FormInstant, true
	default:
		return FormNumber, isInteger(base)
	}
}

// read is the expression that answers a column of a reference in its form.
// CONVERT .. USING binary keeps character_set_results out. CAST .. AS CHAR names
// its character set, since it would take collation_connection's: UTF-16 text, or
// a UUID's bytes where that is binary.
func (c *GatherColumn) read(alias string) string {
	name := alias + "." + catalog.QuoteName(c.Name)
	switch base := baseType(c.Type); {
	case base == "enum" || base == "set":
		return "CAST(" + name + " AS UNSIGNED)"
	case c.Form == FormDouble:
		return "CAST(" + name + " AS DOUBLE)"
	case c.Form == FormJSON:
		text := "CAST(" + name + " AS CHAR CHARACTER SET utf8mb4)"
		again := "CAST(" + text + " AS JSON)"
		return "CONVERT(CASE WHEN " + name + " IS NULL THEN NULL WHEN " + again + " = " + name + " AND CAST(" + again + " AS BINARY) = CAST(" + text + " AS BINARY) THEN " + text + " ELSE '' END USING binary)"
	case c.Form == FormPlain:
		return "CONVERT(CAST(" + name + " AS CHAR CHARACTER SET utf8mb4) USING binary)"
	case c.Form == FormText || c.Form == FormEncoded:
		return "CONVERT(" + name + " USING binary)"
	case c.Form == FormInstant:
		return "UNIX_TIMESTAMP(" + name + ")"
	}
	return name
}

// needs is what a query names of its tables' columns.
type needs struct {
	names map[string]bool // lower case: every identifier in the text
	all   map[*ref]bool   // by a * or NATURAL JOIN
}

// needs finds the columns that a query may read: those whose names stand in its
// text, whatever they mean there, and those that it reads without naming them.
func (a *analysis) needs(n ast.Node) needs {
	out := needs{names: map[string]bool{}, all: map[*ref]bool{}}
	for i := range a.st.toks {
		if name, ok := a.st.identifier(i); ok {
			out.names[strings.ToLower(name)] = true
		}
	}
	in := wildcards(n)
	for r, t := range a.joined.nodes {
		out.all[r] = in[t]
	}
	return out
}

// wildcards are the tables of blocks that have a *, and of NATURAL JOINs.
func wildcards(n ast.Node) map[ast.ResultSetNode]bool {
	in := map[ast.ResultSetNode]bool{}
	all := func(from ast.ResultSetNode) {
		for t := range sources(from) {
			in[t] = true
		}
	}
	walk(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Join:
			if n.NaturalJoin {
				all(n)
			}
		case *ast.SelectStmt:
			star := n.Kind == ast.SelectStmtKindTable || n.Fields != nil && slices.ContainsFunc(n.Fields.Fields, func(f *ast.SelectField) bool { return f.WildCard != nil })
			if star && n.From != nil {
				all(n.From.TableRefs)
			}
		}
		return true
	})
	return in
}

// copyOf says what is copied of a reference, but for the shards.
func (a *analysis) copyOf(r *ref, need needs) GatherRef {
	t := r.table
	out := GatherRef{Table: t, Params: []int{}, alias: r.alias}
	all := need.all[r]
	for _, c := range t.Columns {
		// Names in other letters than ASCII compare by rules that the text's
		// character set has a part in.
		all = all || !isASCII(c.Name)
	}
	for _, c := range t.Columns {
		if all || need.names[strings.ToLower(c.Name)] {
			out.add(a, c, need.all[r])
		}
	}
	if len(out.Columns) == 0 { // SELECT COUNT(*): rows count, columns don't
		c := t.Columns[0]
		if len(t.PrimaryKey) > 0 {
			c = t.PrimaryKey[0]
		}
		out.add(a, c, false)
	}
	if len(t.PrimaryKey) > 0 && out.has(t.PrimaryKey...) {
		out.unique = append(out.unique, t.PrimaryKey)
	}
	for _, u := range t.Unique {
		if !slices.Equal(u, t.PrimaryKey) && out.has(u...) {
			out.unique = append(out.unique, u)
		}
	}
	out.keys = a.joinColumns(r)
	alias := catalog.QuoteName(r.alias)
	var b strings.Builder
	b.WriteString("SELECT ")
	for i := range out.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(out.Columns[i].read(alias))
	}
	b.WriteString(" FROM " + catalog.QuoteTable(t.Schema, t.Name) + " AS " + alias)
	out.whole, out.filters = b.String(), a.filters(r)
	for i, f := range out.filters {
		if i == 0 {
			b.WriteString(" WHERE (")
		} else {
			b.WriteString(" AND (")
		}
		b.WriteString(f.text + ")")
		out.Params = append(out.Params, f.params...)
	}
	out.Select = b.String()
	return out
}

func (r *GatherRef) add(a *analysis, c *catalog.Column, star bool) {
	f, ok := formOf(c)
	if !ok {
		a.refuse(refuseGather("a query that copies "+r.Table.Name+"."+c.Name+" of type "+c.Type, "leave that column out"))
	}
	r.Columns = append(r.Columns, GatherColumn{Column: c, Form: f, invisible: star && c.Invisible})
}

func (r *GatherRef) has(cols ...*catalog.Column) bool {
	for _, c := range cols {
		if !slices.ContainsFunc(r.Columns, func(x GatherColumn) bool { return x.Column == c }) {
			return false
		}
	}
	return true
}

// maxJoinKeys bounds the indexes of a copy: each is kept up with every row.
const maxJoinKeys = 4

// joinColumns are the columns of r that the query equates with others: without
// an index, a join of two large copies takes the product of their rows.
//
// Rule same comparison: only columns of like types get one. Counter-example: a
// DECIMAL equated with a VARCHAR, where a server may find other rows by an index
// than by comparing.
func (a *analysis) joinColumns(r *ref) []*catalog.Column {
	var out []*catalog.Column
	add := func(x, y column) {
		if !indexable(x.col) || !likeTypes(x.col, y.col) {
			return
		}
		for _, c := range [...]column{x, y} {
			if c.ref == r && !slices.Contains(out, c.col) && len(out) < maxJoinKeys {
				out = append(out, c.col)
			}
		}
	}
	for _, other := range a.refs {
		for _, c := range a.common(a.conditions(other)) {
			if c.expr == nil {
				add(c.pair[0], c.pair[1])
				continue
			}
			if x, y, ok := a.equated(c.expr, c.scope); ok && x.ref != y.ref {
				add(x, y)
			}
		}
	}
	return out
}

func indexable(c *catalog.Column) bool {
	f, ok := formOf(c)
	base := baseType(c.Type)
	return ok && base != "json" && base != "vector" && (f != FormBytes || base == "binary" || base == "varbinary" || strings.HasSuffix(base, "blob"))
}

func likeTypes(x, y *catalog.Column) bool {
	if x.Charset != y.Charset || x.Collation != y.Collation {
		return false
	}
	bx, by := baseType(x.Type), baseType(y.Type)
	return bx == by || isInteger(bx) && isInteger(by) || x.Charset != "" && bx != "enum" && by != "enum" && bx != "set" && by != "set"
}

// Definition is the text between the parentheses of CREATE TABLE for the copy:
// the base table's types, collations and NULLs, so that every expression means
// the same. With unique its unique keys too, by which MySQL knows what GROUP BY
// determines; rows of several shards may break them.
func (r *GatherRef) Definition(unique bool) string {
	var b strings.Builder
	visible := slices.IndexFunc(r.Columns, func(c GatherColumn) bool { return !c.invisible })
	for i := range r.Columns {
		c := &r.Columns[i]
		if i > 0 {
			b.WriteString(", ")
		}
		typ, _, _ := strings.Cut(c.Type, " /*") // MariaDB's COMPRESSED
		b.WriteString(catalog.QuoteName(c.Name) + " " + typ)
		if f := baseType(c.Type); c.Charset != "" && (c.Form == FormText || c.Form == FormEncoded || f == "enum" || f == "set") {
			b.WriteString(" CHARACTER SET " + c.Charset + " COLLATE " + c.Collation)
		}
		if c.Nullable {
			b.WriteString(" NULL")
		} else {
			b.WriteString(" NOT NULL")
		}
		if c.invisible && visible >= 0 {
			if !c.Nullable {
				// MariaDB wants a default, an AUTO_INCREMENT column's too, which isn't one here. This
				// one is never used, and is valid for every type since it is known by row only.
				b.WriteString(" DEFAULT (ELT(" + catalog.QuoteName(r.Columns[visible].Name) + " IS NULL, ''))")
			}
			b.WriteString(" INVISIBLE")
		}
		if c.JSON {
			// Counter-example: JSON_ARRAYAGG(doc), in which a text is a string.
			b.WriteString(" CHECK (JSON_VALID(" + catalog.QuoteName(c.Name) + "))")
		}
	}
	if unique {
		for _, u := range r.unique {
			word := "UNIQUE"
			if slices.Equal(u, r.Table.PrimaryKey) {
				word = "PRIMARY"
			}
			b.WriteString(", " + word + " KEY (" + catalog.QuoteColumns(u) + ")")
		}
	}
	for _, c := range r.keys {
		leads := unique && slices.ContainsFunc(r.unique, func(u []*catalog.Column) bool { return u[0] == c })
		if !r.has(c) || leads {
			continue
		}
		b.WriteString(", KEY (" + catalog.QuoteName(c.Name))
		if !wholeKey(c) {
			b.WriteString("(" + strconv.Itoa(keyPrefix) + ")")
		}
		b.WriteString(")")
	}
	return b.String()
}

// keyPrefix is how many characters of a long column an index has: InnoDB takes
// 3072 bytes for all of a key's columns.
const keyPrefix = 190

// wholeKey reports columns that are short enough to be indexed whole.
func wholeKey(c *catalog.Column) bool {
	switch base := baseType(c.Type); base {
	case "char", "varchar", "binary", "varbinary":
		n, ok := typeLength(c.Type)
		return ok && n <= keyPrefix
	default:
		return !strings.HasSuffix(base, "text") && !strings.HasSuffix(base, "blob")
	}
}

// typeLength is the number in varchar(20).
func typeLength(t string) (int, bool) {
	_, rest, ok := strings.Cut(t, "(")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, ")")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil
}

// ZeroWarns reports an ENUM, into which writing the number 0 is a warning, as
// correct as it is.
func (c *GatherColumn) ZeroWarns() bool { return baseType(c.Type) == "enum" }
