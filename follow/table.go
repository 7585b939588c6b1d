package follow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Table is a table as it was when rows were written: its columns are those of the row images.
type Table struct {
	Schema, Name string
	Columns      []Column
	// id and raw are the event's: one that is the same again needs no reading.
	id  uint64
	raw []byte
	// why the rows can't be read; "": they can.
	unreadable string
	// nameless: the log doesn't name the columns.
	nameless bool
	json     int // how many columns are JSON
}

// Column of a Table.
type Column struct {
	Name     string
	Unsigned bool
	// Charset is that of texts and members, "binary" of bytes, "" of all else or where it isn't known.
	Charset string
	// Members are those of an ENUM or SET, in UTF-8.
	Members []string

	typ    byte
	meta   uint16
	decode keys.Decode // of Charset
	// An image has size bytes of the column; or, where that is 0, a length of prefix bytes and as many
	// bytes as that says.
	size, prefix int
}

func (t *Table) name() catalog.TableName { return catalog.TableName{Schema: t.Schema, Name: t.Name} }

// Column is the place of a column, -1 where there is none of the name.
func (t *Table) Column(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
}

// MariaDB's types of compressed columns, which lie in the log as those that they are compressed forms of.
const (
	blobCompressed    = 140
	varcharCompressed = 141
)

// readTable reads a TABLE_MAP event. The server says there what it calls the columns and how they are to
// be read if binlog_row_metadata is FULL.
func (s *Stream) readTable(body []byte) (t *Table, err error) {
	const idSize = 6
	if len(body) < idSize {
		return nil, fmt.Errorf("read table map: %d bytes", len(body))
	}
	id := tableID(body)
	if t = s.tables[id]; t != nil && bytes.Equal(t.raw, body) {
		return t, nil
	}
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, fmt.Errorf("read table map: %v", r)
		}
	}()
	raw := slices.Clone(body)
	t = &Table{id: id, raw: slices.Clone(body)}
	s.tables[id] = t
	schema := raw[idSize+3:][:raw[idSize+2]]
	name := raw[idSize+3+len(schema)+2:][:raw[idSize+3+len(schema)+1]]
	t.Schema, t.Name = string(schema), string(name)
	// go-mysql takes a type that it doesn't know for one without metadata, and reads nonsense from there on.
	at := idSize + 3 + len(schema) + 2 + len(name) + 1
	count, _, n := mysql.LengthEncodedInt(raw[at:])
	types := raw[at+n:][:count]
	compressed := make([]bool, count)
	for i, typ := range types {
		switch typ {
		case blobCompressed:
			types[i], compressed[i] = mysql.MYSQL_TYPE_BLOB, true
		case varcharCompressed:
			types[i], compressed[i] = mysql.MYSQL_TYPE_VARCHAR, true
		default:
			if !readable(typ) {
				t.unreadable = fmt.Sprintf("column %d has type %d, whose form in the log is not known", i+1, typ)
				return t, nil
			}
		}
	}
	e, err := s.tableMap(raw)
	if err != nil {
		return nil, fmt.Errorf("read table map: %w", err)
	}
	t.nameless = len(e.ColumnName) == 0
	t.describe(e, s)
	for i := range t.Columns {
		if compressed[i] {
			t.Columns[i].typ = blobCompressed
		}
	}
	return t, nil
}

// tableMap has go-mysql read the event.
func (s *Stream) tableMap(body []byte) (*replication.TableMapEvent, error) {
	if s.parser == nil {
		s.parser = replication.NewBinlogParser()
		s.parser.SetFlavor(mysql.MySQLFlavor)
		if s.server.MariaDB {
			s.parser.SetFlavor(mysql.MariaDBFlavor)
		}
		if _, err := s.parser.Parse(s.format); err != nil {
			return nil, fmt.Errorf("read the log's format: %w", err)
		}
	}
	event := make([]byte, headerSize, headerSize+len(body))
	event[4] = byte(replication.TABLE_MAP_EVENT)
	binary.LittleEndian.PutUint32(event[9:], uint32(headerSize+len(body)))
	e, err := s.parser.Parse(append(event, body...))
	if err != nil {
		return nil, err
	}
	return e.Event.(*replication.TableMapEvent), nil
}

// describe takes over what the event says of the columns.
func (t *Table) describe(e *replication.TableMapEvent, s *Stream) {
	unsigned, collations, listed := e.UnsignedMap(), e.CollationMap(), e.EnumSetCollationMap()
	enums, sets := e.EnumStrValueMap(), e.SetStrValueMap()
	t.Columns = make([]Column, e.ColumnCount)
	for i := range t.Columns {
		c := &t.Columns[i]
		if !t.nameless {
			c.Name = string(e.ColumnName[i])
		}
		c.typ, c.meta = e.ColumnType[i], e.ColumnMeta[i]
		c.Unsigned = unsigned[i]
		collation, ok := collations[i]
		if !ok {
			collation, ok = listed[i]
		}
		if ok && c.typ != mysql.MYSQL_TYPE_GEOMETRY {
			c.Charset = s.charsets[collation]
			c.decode = keys.Decoder(c.Charset)
		}
		c.shape()
		for _, m := range append(enums[i], sets[i]...) {
			text := []byte(m)
			if c.Charset != binaryCharset && c.decode != nil {
				text, ok = c.decode(nil, text)
			}
			if !ok || c.Charset != binaryCharset && c.decode == nil {
				c.Members = nil
				break
			}
			c.Members = append(c.Members, string(text))
		}
		if c.typ == mysql.MYSQL_TYPE_JSON {
			t.json++
		}
	}
}

const binaryCharset = "binary"

// readable reports a type whose images this package can tell the length of. The temporal types of before
// MySQL 5.6 (MariaDB: mysql56_temporal_format = OFF) aren't: the log doesn't say their length.
func readable(typ byte) bool {
	switch typ {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG,
		mysql.MYSQL_TYPE_NEWDECIMAL, mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_BIT, mysql.MYSQL_TYPE_YEAR,
		mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_TIME2, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP2,
		mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_BLOB,
		mysql.MYSQL_TYPE_JSON, mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR:
		return true
	}
	return false
}

// shape sets how long the column's images are, and undoes how the metadata of a CHAR, ENUM or SET are packed.
func (c *Column) shape() {
	fraction := func() int { return int(c.meta+1) / 2 }
	switch c.typ {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_YEAR:
		c.size = 1
	case mysql.MYSQL_TYPE_SHORT:
		c.size = 2
	case mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_DATE:
		c.size = 3
	case mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_FLOAT:
		c.size = 4
	case mysql.MYSQL_TYPE_LONGLONG, mysql.MYSQL_TYPE_DOUBLE:
		c.size = 8
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		c.size = decimalSize(int(c.meta>>8), int(c.meta&0xff))
	case mysql.MYSQL_TYPE_BIT:
		c.size = int(c.meta>>8) + (int(c.meta&0xff)+7)/8
	case mysql.MYSQL_TYPE_TIME2:
		c.size = 3 + fraction()
	case mysql.MYSQL_TYPE_TIMESTAMP2:
		c.size = 4 + fraction()
	case mysql.MYSQL_TYPE_DATETIME2:
		c.size = 5 + fraction()
	case mysql.MYSQL_TYPE_STRING:
		typ, length := byte(c.meta>>8), c.meta&0xff
		if typ == mysql.MYSQL_TYPE_ENUM || typ == mysql.MYSQL_TYPE_SET {
			c.typ, c.size = typ, int(length)
			return
		}
		// Two bits of a length beyond 255 are in the type, inverted.
		c.meta = length | uint16(^typ&0x30)<<4
		c.prefix = lengthPrefix(c.meta)
	case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING:
		c.prefix = lengthPrefix(c.meta)
	default: // BLOB, JSON, GEOMETRY, VECTOR
		c.prefix = int(c.meta)
	}
}

func lengthPrefix(longest uint16) int {
	if longest > 255 {
		return 2
	}
	return 1
}
