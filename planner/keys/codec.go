package keys

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
)

// Encoding is the version of what codecs make of values: see doc.go.
const Encoding = 1

// Codec turns the values of one column into key components. It is immutable;
// columns of the same type, character set and collation share one.
//
// All methods append to dst and return it; with ok false what is returned has
// the length of dst. None keeps its arguments.
type Codec struct {
	class class

	min int64 // integers
	max uint64

	precision, scale int // decimals; scale also the fsp of temporal types
	unsigned         bool

	length  int  // most characters (bytes, where lengthInBytes) that the column holds
	inBytes bool //
	fixed   bool // CHAR, BINARY

	text    *collation          // text and enum
	members map[string]struct{} // enum: the members' components
}

type class uint8

const (
	classInteger class = iota
	classYear
	classDecimal
	classDate
	classDateTime
	classTime
	classBinary
	classText
	classEnum
	classUUID
	classINET4
	classINET6
)

type codecKey struct {
	columnType, charset, collation string
	mariaDB                        bool
}

type codecOrError struct {
	codec *Codec
	err   error
}

// codecs is replaced as a whole when a codec is added, so that finding one
// takes no lock and no allocation. A schema's column types bound it.
var (
	codecs   atomic.Pointer[map[codecKey]codecOrError]
	codecsMu sync.Mutex // held to replace it
)

// For returns the codec of a column, from COLUMN_TYPE, CHARACTER_SET_NAME and
// COLLATION_NAME of information_schema.columns. The error says why columns of
// this type can't be keyed exactly.
func For(columnType, charset, collation string, mariaDB bool) (*Codec, error) {
	k := codecKey{columnType, charset, collation, mariaDB}
	if known := codecs.Load(); known != nil {
		if e, ok := (*known)[k]; ok {
			return e.codec, e.err
		}
	}
	codecsMu.Lock()
	defer codecsMu.Unlock()
	replacement := map[codecKey]codecOrError{}
	if known := codecs.Load(); known != nil {
		if e, ok := (*known)[k]; ok {
			return e.codec, e.err
		}
		maps.Copy(replacement, *known)
	}
	c, err := newCodec(columnType, strings.ToLower(collation), mariaDB)
	replacement[k] = codecOrError{c, err}
	codecs.Store(&replacement)
	return c, err
}

// Kind says what keys a column has: those of one kind have the same key for a value.
// Integers have "".
func (c *Codec) Kind() string {
	switch c.class {
	case classDecimal:
		return "decimal"
	case classDate, classDateTime:
		return "date"
	case classTime:
		return "time"
	case classBinary:
		if c.fixed {
			return "binary padded"
		}
		return "binary"
	case classText, classEnum:
		return c.text.kind
	case classUUID:
		return "uuid"
	case classINET4:
		return "inet4"
	case classINET6:
		return "inet6"
	case classInteger, classYear:
	}
	return ""
}

// PadSensitive reports whether the column compares differently in a session
// with PAD_CHAR_TO_FULL_LENGTH. Such a session must not use an index over it.
func (c *Codec) PadSensitive() bool { return c.fixed && c.class == classText && !c.text.padded }

func newCodec(columnType, collationName string, mariaDB bool) (*Codec, error) {
	t, err := parseColumnType(columnType)
	if err != nil {
		return nil, err
	}
	if why, ok := refusedTypes[t.name]; ok {
		return nil, fmt.Errorf("type %s: %s", strings.ToUpper(t.name), why)
	}
	c := &Codec{unsigned: t.unsigned, length: math.MaxInt}
	switch t.name {
	case "tinyint", "bool", "boolean":
		c.integers(8)
	case "smallint":
		c.integers(16)
	case "mediumint":
		c.integers(24)
	case "int", "integer":
		c.integers(32)
	case "bigint":
		c.integers(64)
	case "year":
		c.class = classYear
	case "decimal", "numeric":
		c.class, c.precision, c.scale = classDecimal, t.arg(0, 10), t.arg(1, 0)
	case "date":
		c.class = classDate
	case "datetime":
		c.class, c.scale = classDateTime, t.arg(0, 0)
	case "time":
		c.class, c.scale = classTime, t.arg(0, 0)
	case "binary":
		c.class, c.length, c.fixed = classBinary, t.arg(0, 1), true
	case "varbinary":
		c.class, c.length = classBinary, t.arg(0, 0)
	case "char":
		c.class, c.length, c.fixed = classText, t.arg(0, 1), true
	case "varchar":
		c.class, c.length = classText, t.arg(0, 0)
	case "tinyblob", "blob", "mediumblob", "longblob":
		c.class, c.length = classBinary, textBytes[strings.TrimSuffix(t.name, "blob")]
	case "tinytext", "text", "mediumtext", "longtext":
		c.class, c.length, c.inBytes = classText, textBytes[strings.TrimSuffix(t.name, "text")], true
	case "enum":
		c.class = classEnum
	case "uuid":
		c.class = classUUID
	case "inet4":
		c.class = classINET4
	case "inet6":
		c.class = classINET6
	default:
		return nil, fmt.Errorf("type %s is not known", strings.ToUpper(t.name))
	}
	if c.class != classText && c.class != classEnum {
		return c, nil
	}
	if collationName == "binary" {
		if c.class == classEnum {
			return nil, fmt.Errorf("type ENUM with the binary character set is not supported")
		}
		c.class = classBinary
		return c, nil
	}
	if c.text, err = collationFor(collationName, mariaDB); err != nil {
		return nil, err
	}
	if mariaDB && c.fixed && !c.text.padded && !strings.HasSuffix(collationName, "_bin") {
		// CHAR is padded in MariaDB's indexes, so that 'a' and "a\x00" (which
		// weighs nothing) are equal by the collation but not in a lookup.
		return nil, fmt.Errorf("type CHAR with the NO PAD collation %s compares differently in MariaDB's indexes", collationName)
	}
	if c.class == classEnum {
		if err := c.addMembers(t.members); err != nil {
			return nil, err
		}
	}
	return c, nil
}

var textBytes = map[string]int{"tiny": 1<<8 - 1, "": 1<<16 - 1, "medium": 1<<24 - 1, "long": 1<<32 - 1}

func (c *Codec) integers(bits int) {
	c.class = classInteger
	if c.unsigned {
		c.max = math.MaxUint64 >> (64 - bits)
		return
	}
	c.min = math.MinInt64 >> (64 - bits)
	c.max = math.MaxInt64 >> (64 - bits)
}

// Stored appends the component of what the column holds after v was stored in
// it under a sql_mode that is strict or not (STRICT_ALL_TABLES or
// STRICT_TRANS_TABLES), and with PAD_CHAR_TO_FULL_LENGTH where padChar. ok is
// false when that is not surely known; also where the server would refuse v.
//
// REQUIRES: for NULL, that the column is nullable (a server may store
// something else for NULL in a column that is not).
func (c *Codec) Stored(dst []byte, v Value, strict, padChar bool) (out []byte, ok bool) {
	_ = strict // everything that a lenient mode would alter is in doubt in both
	if v.kind == kindNull {
		return AppendNull(dst), true
	}
	switch c.class {
	case classInteger:
		return c.storedInteger(dst, v)
	case classYear:
		return c.storedYear(dst, v)
	case classDecimal:
		return c.storedDecimal(dst, v)
	case classDate, classDateTime, classTime:
		return c.storedTemporal(dst, v)
	case classBinary:
		return c.storedBinary(dst, v)
	case classText:
		return c.storedText(dst, v, padChar)
	case classEnum:
		return c.memberOf(dst, v)
	case classUUID, classINET4, classINET6:
		return c.equalBytes(dst, v)
	default:
		return dst, false
	}
}

// Covers reports whether the column holds all values of another one of the same class
// of types, character set and collation.
func (c *Codec) Covers(other *Codec) bool {
	if c.class == classInteger {
		return other.class == classInteger && c.min <= other.min && c.max >= other.max
	}
	return c.class == other.class && c.length >= other.length && c.inBytes == other.inBytes && c.fixed == other.fixed &&
		c.precision == other.precision && c.scale == other.scale && c.unsigned == other.unsigned
}

// Equal appends the component such that `col = v` is true exactly for the rows
// that have it. ok is false for NULL (`col = NULL` is true for no row, and
// `col <=> NULL` is for the caller to see) and in all doubt.
func (c *Codec) Equal(dst []byte, v Value) (out []byte, ok bool) {
	switch c.class {
	case classInteger:
		return c.equalInteger(dst, v)
	case classYear:
		return c.storedYear(dst, v)
	case classDecimal:
		return c.equalDecimal(dst, v)
	case classDate, classDateTime, classTime:
		return c.equalTemporal(dst, v, refuse)
	case classBinary:
		return c.equalBinary(dst, v, whole)
	case classText:
		return c.equalText(dst, v, whole)
	case classEnum:
		return c.equalEnum(dst, v)
	case classUUID, classINET4, classINET6:
		return c.equalBytes(dst, v)
	default:
		return dst, false
	}
}

// Order appends a bound for `col < v`, `<=`, `>`, `>=` and BETWEEN: the
// matching rows all have components in [Order(lo), Successor(Order(hi))). The
// upper end is to be taken so for `<` too: where v is long or between two
// values of the column, Order gives the bound below it. v may lie outside of
// the column's domain.
func (c *Codec) Order(dst []byte, v Value) (out []byte, ok bool) {
	switch c.class {
	case classInteger:
		return c.orderInteger(dst, v)
	case classYear:
		return c.storedYear(dst, v)
	case classDecimal:
		return c.equalDecimal(dst, v)
	case classDate, classDateTime, classTime:
		return c.equalTemporal(dst, v, floor)
	case classBinary:
		return c.equalBinary(dst, v, bound)
	case classText:
		return c.equalText(dst, v, bound)
	case classINET4, classINET6:
		return c.equalBytes(dst, v)
	default:
		return dst, false
	}
}

// LikePrefix gives bounds from <= component < to that cover all values of
// `col LIKE 'prefix%'`. prefix is the pattern up to its first wildcard and has
// no escape in it.
func (c *Codec) LikePrefix(prefix Value) (from, to []byte, ok bool) {
	switch c.class {
	case classBinary:
		from, ok = c.likeBinary(prefix)
	case classText:
		from, ok = c.likeText(prefix)
	default: // patterns on numbers and times match their texts
	}
	if !ok {
		return nil, nil, false
	}
	return from, Successor(from), true
}

// Scanned appends the component of a value as a shard returns it in the text
// protocol on a utf8mb4 connection with the default sql_mode; nil is NULL. Where
// ok is false the value has no component, and the caller marks the shard.
func (c *Codec) Scanned(dst []byte, raw []byte) (out []byte, ok bool) {
	if raw == nil {
		return AppendNull(dst), true
	}
	switch c.class {
	case classInteger, classYear:
		return scannedInteger(dst, raw)
	case classDecimal:
		return c.scannedDecimal(dst, raw)
	case classDate, classDateTime, classTime:
		return c.scannedTemporal(dst, raw)
	case classBinary:
		return appendPlain(dst, raw, whole), true
	case classText, classEnum:
		return c.scannedText(dst, raw)
	case classUUID, classINET4, classINET6:
		return c.scannedBytes(dst, raw)
	default:
		return dst, false
	}
}
