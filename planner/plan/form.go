package plan

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// GatherColumn is a column of a copy.
type GatherColumn struct {
	*catalog.Column
	// Form is what Select answers for it, and how that is written into the
	// copy.
	Form Form
	// Invisible: the copy's column is too, since a * must not answer it.
	Invisible bool
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

// FormOf says how a column travels; ok is false for types that aren't known.
func FormOf(c *catalog.Column) (f Form, ok bool) {
	switch base := c.BaseType(); base {
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
		return FormNumber, catalog.IsInteger(base)
	}
}

// Selected is the expression that answers a column of a reference in its form.
// CONVERT .. USING binary keeps character_set_results out. CAST .. AS CHAR names
// its character set, since it would take collation_connection's: UTF-16 text, or
// a UUID's bytes where that is binary.
func (c *GatherColumn) Selected(alias string) string {
	name := alias + "." + catalog.QuoteName(c.Name)
	switch base := c.BaseType(); {
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

// Stored is a table that a server stores a query's rows in as it would in another one's columns:
// of an expression it may store more than it answers.
//
//	INSERT INTO t (a) SELECT x / 3 FROM u
//	CREATE TEMPORARY TABLE scratch (a DOUBLE, row AUTO_INCREMENT KEY); INSERT INTO scratch (a) SELECT x / 3 FROM copies
//	SELECT a FROM scratch ORDER BY row
type Stored struct {
	Table *catalog.Table
	// Columns that the query's go to, in its order.
	Columns []*catalog.Column
	// Ignore: as by INSERT IGNORE. Listed: the statement has a list of columns.
	Ignore, Listed bool
}

// storedRow counts the rows, for their order.
const storedRow = "shunt_row"

// Definition is the text between the parentheses of CREATE TABLE; ok is false where the columns
// can't be had so. All may be NULL: whether a row may be is asked when it is inserted.
func (s *Stored) Definition(settings text.Settings, mariaDB bool) (definition string, ok bool) {
	ref := GatherRef{Table: s.Table}
	for i, c := range s.Columns {
		twice := c == nil || slices.Contains(s.Columns[:i], c)
		if twice || strings.EqualFold(c.Name, storedRow) || !text.IsASCII(c.Name) && !strings.HasPrefix(settings.Charset, "utf8") {
			return "", false
		}
		form, known := FormOf(c)
		if !known {
			return "", false
		}
		free := *c
		free.Nullable, free.Invisible, free.JSON = true, false, false
		ref.Columns = append(ref.Columns, GatherColumn{Column: &free, Form: form})
	}
	row := " BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY"
	if s.unlisted(mariaDB) {
		row = " BIGINT UNSIGNED INVISIBLE AUTO_INCREMENT PRIMARY KEY"
	}
	return ref.Definition(false) + ", " + storedRow + row, len(ref.Columns) > 0
}

// unlisted reports that the columns aren't named: in a strict mode MariaDB fails with what an
// expression warns of only without a list.
func (s *Stored) unlisted(mariaDB bool) bool { return mariaDB && !s.Listed }

// Insert stores a query's rows in the table of that name; Select answers them.
func (s *Stored) Insert(table, query string, mariaDB bool) string {
	verb := "INSERT INTO "
	if s.Ignore {
		verb = "INSERT IGNORE INTO "
	}
	if s.unlisted(mariaDB) {
		return verb + table + " " + query
	}
	return verb + table + " (" + catalog.QuoteColumns(s.Columns) + ") " + query
}

// Select answers the rows of the table of that name, in the order in which they were inserted.
func (s *Stored) Select(table string) string {
	return "SELECT " + catalog.QuoteColumns(s.Columns) + " FROM " + table + " ORDER BY " + storedRow
}

// ZeroWarns reports an ENUM, into which writing the number 0 is a warning, as
// correct as it is.
func (c *GatherColumn) ZeroWarns() bool { return c.BaseType() == "enum" }
