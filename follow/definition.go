package follow

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// definition is a table's columns as the server told them, for a log that doesn't (binlog_row_metadata isn't FULL). It is
// of a later time than what the stream had come to then: it counts from `until` on, if no statement that
// defines the table anew lies between, and up to the next such one. What comes earlier is Unknown.
//
// Counter-example for counting at once: rows are written, the columns a and b of one type change their
// names, and a follower that is a little behind asks.
type definition struct {
	columns []definedColumn // none: there was no such table
	until   Position
}

type definedColumn struct {
	Column
	columnType    string
	length        int // of texts and bytes, in bytes
	digits, scale int // of numbers
	fraction      int // digits of seconds
}

var errUndefined = errors.New("the log doesn't name the columns (set binlog_row_metadata = FULL), and what the server says of them is too new")

// define gives a table the columns that the log doesn't name.
func (s *Stream) define(t *Table) error {
	name := t.name()
	d := s.definitions[name]
	if d == nil {
		var err error
		if d, err = s.foreign.source.definition(s, name); err != nil {
			return err
		}
		s.definitions[name] = d
	}
	if !s.progress.Passed(d.until) {
		return errUndefined
	}
	if err := t.adopt(d); err != nil {
		delete(s.definitions, name)
		return err
	}
	return nil
}

// forget is to be told of tables that are defined anew.
func (s *Stream) forget(tables []catalog.TableName) {
	clear(s.tables)
	for _, t := range tables {
		for known := range s.definitions {
			if t.Schema == "" || strings.EqualFold(t.Schema, known.Schema) && (t.Name == "" || strings.EqualFold(t.Name, known.Name)) {
				delete(s.definitions, known)
			}
		}
	}
}

// definition asks for a table's columns. It locks the table's definition meanwhile, so that a statement
// which has changed it is in the position, and one which will isn't.
func (s Source) definition(stream *Stream, t catalog.TableName) (*definition, error) {
	c, err := s.connect(stream.ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, q := range []string{"SET SESSION lock_wait_timeout = 5", "START TRANSACTION", "SELECT 1 FROM " + catalog.QuoteTable(t.Schema, t.Name) + " LIMIT 0"} {
		if _, err = c.rows(q); err != nil && !refused(err, mysql.ER_NO_SUCH_TABLE) {
			return nil, err
		}
	}
	d := &definition{}
	rows, err := c.rows("SELECT COLUMN_NAME, COLUMN_TYPE, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(CHARACTER_OCTET_LENGTH, 0), " +
		"COALESCE(NUMERIC_PRECISION, 0), COALESCE(NUMERIC_SCALE, 0), COALESCE(DATETIME_PRECISION, 0) FROM information_schema.COLUMNS " +
		"WHERE TABLE_SCHEMA = " + literal(t.Schema) + " AND TABLE_NAME = " + literal(t.Name) + " ORDER BY ORDINAL_POSITION")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		var n [4]int
		for i := range n {
			if n[i], err = strconv.Atoi(row[3+i]); err != nil {
				return nil, fmt.Errorf("read the columns of %s: %w", t, err)
			}
		}
		column := definedColumn{columnType: strings.ToLower(row[1]), length: n[0], digits: n[1], scale: n[2], fraction: n[3]}
		column.Name, column.Charset = row[0], row[2]
		column.Unsigned = strings.Contains(column.columnType, "unsigned") || strings.Contains(column.columnType, "zerofill")
		if members, ok := keys.Members(row[1]); ok {
			column.Members = members
		}
		d.columns = append(d.columns, column)
	}
	d.until, err = c.written()
	return d, err
}

// literal writes a text so that no sql_mode reads it otherwise.
func literal(s string) string { return fmt.Sprintf("CONVERT(X'%x' USING utf8mb4)", s) }

// adopt takes over a definition's columns, if they can be those that the log has.
func (t *Table) adopt(d *definition) error {
	if len(d.columns) != len(t.Columns) {
		return fmt.Errorf("rows have %d columns, the table %d", len(t.Columns), len(d.columns))
	}
	for i := range t.Columns {
		c, defined := &t.Columns[i], &d.columns[i]
		if !defined.fits(c) {
			return fmt.Errorf("column %d is not as the server says: %s %s", i+1, defined.Name, defined.columnType)
		}
		c.Name, c.Unsigned, c.Members, c.Charset = defined.Name, defined.Unsigned, defined.Members, defined.Charset
		switch c.typ {
		case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BLOB:
			if c.Charset == "" {
				c.Charset = binaryCharset
			}
		}
		c.decode = keys.Decoder(c.Charset)
	}
	t.unreadable, t.nameless = "", false
	return nil
}

// fits reports whether the log's column can be this one.
func (d *definedColumn) fits(c *Column) bool {
	word, _, _ := strings.Cut(d.columnType, "(")
	word, _, _ = strings.Cut(word, " ")
	logged, ok := loggedAs[word]
	if !ok { // what is of spaces and vectors
		return c.typ == mysql.MYSQL_TYPE_GEOMETRY || c.typ == mysql.MYSQL_TYPE_VECTOR
	}
	if c.typ != logged.typ {
		return false
	}
	meta := int(c.meta)
	switch c.typ {
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		return meta == d.digits<<8+d.scale
	case mysql.MYSQL_TYPE_TIME2, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP2:
		return meta == d.fraction
	case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_BLOB:
		return meta == cmp.Or(logged.meta, d.length)
	}
	return true
}

// loggedAs has what the log says of types, by the first word of their definition: meta, where it is not the column's length.
var loggedAs = map[string]struct {
	typ  byte
	meta int
}{
	"tinyint": {typ: mysql.MYSQL_TYPE_TINY}, "smallint": {typ: mysql.MYSQL_TYPE_SHORT}, "mediumint": {typ: mysql.MYSQL_TYPE_INT24},
	"int": {typ: mysql.MYSQL_TYPE_LONG}, "bigint": {typ: mysql.MYSQL_TYPE_LONGLONG},
	"float": {typ: mysql.MYSQL_TYPE_FLOAT}, "double": {typ: mysql.MYSQL_TYPE_DOUBLE}, "decimal": {typ: mysql.MYSQL_TYPE_NEWDECIMAL},
	"bit": {typ: mysql.MYSQL_TYPE_BIT}, "year": {typ: mysql.MYSQL_TYPE_YEAR}, "date": {typ: mysql.MYSQL_TYPE_DATE},
	"time": {typ: mysql.MYSQL_TYPE_TIME2}, "datetime": {typ: mysql.MYSQL_TYPE_DATETIME2}, "timestamp": {typ: mysql.MYSQL_TYPE_TIMESTAMP2},
	"char": {typ: mysql.MYSQL_TYPE_STRING}, "binary": {typ: mysql.MYSQL_TYPE_STRING},
	"varchar": {typ: mysql.MYSQL_TYPE_VARCHAR}, "varbinary": {typ: mysql.MYSQL_TYPE_VARCHAR},
	"enum": {typ: mysql.MYSQL_TYPE_ENUM}, "set": {typ: mysql.MYSQL_TYPE_SET}, "json": {typ: mysql.MYSQL_TYPE_JSON},
	"tinytext": {mysql.MYSQL_TYPE_BLOB, 1}, "text": {mysql.MYSQL_TYPE_BLOB, 2}, "mediumtext": {mysql.MYSQL_TYPE_BLOB, 3}, "longtext": {mysql.MYSQL_TYPE_BLOB, 4},
	"tinyblob": {mysql.MYSQL_TYPE_BLOB, 1}, "blob": {mysql.MYSQL_TYPE_BLOB, 2}, "mediumblob": {mysql.MYSQL_TYPE_BLOB, 3}, "longblob": {mysql.MYSQL_TYPE_BLOB, 4},
	"uuid": {mysql.MYSQL_TYPE_STRING, 16}, "inet6": {mysql.MYSQL_TYPE_STRING, 16}, "inet4": {mysql.MYSQL_TYPE_STRING, 4},
}
