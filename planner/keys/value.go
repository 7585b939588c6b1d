package keys

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Value is one SQL value as Shunt knows it: a literal of a statement or a bound
// parameter. The zero Value is NULL. Values compare with ==, but that is no SQL
// comparison.
type Value struct {
	kind kind
	num  uint64 // of Int, Uint and Float (its bits)
	text string // of Decimal, String, Bytes and Temporal
	// charset is that of String. Of Bytes it tells how they were written: "binary" as a text, 0x as that literal.
	charset string
}

type kind uint8

const (
	kindNull kind = iota
	kindInt
	kindUint
	kindDecimal
	kindFloat
	kindString
	kindBytes
	kindTemporal
)

// Null is SQL NULL.
func Null() Value { return Value{} }

// Int is a signed integer.
func Int(n int64) Value { return Value{kind: kindInt, num: uint64(n)} }

// Uint is an unsigned integer.
func Uint(n uint64) Value { return Value{kind: kindUint, num: n} }

// Decimal is an exact number with a decimal point or too large for Int and
// Uint, as written: "-12.50". With an exponent it is a Float.
func Decimal(text string) Value { return Value{kind: kindDecimal, text: text} }

// Float is an approximate number.
func Float(f float64) Value { return Value{kind: kindFloat, num: math.Float64bits(f)} }

// String is a character string: its bytes after the literal's escapes are
// resolved, in the character set (lower case) that the server reads them in.
// It copies b.
func String(b []byte, charset string) Value { return Text(string(b), charset) }

// Clone shares no text with v.
func (v Value) Clone() Value {
	v.text = strings.Clone(v.text)
	return v
}

// UnknownCharset is that of texts whose character set can't be told: they are in
// doubt for every column.
const UnknownCharset = "?"

// Text is String for a text that needs no copy.
func Text(text, charset string) Value {
	switch charset {
	case "binary":
		return Value{kind: kindBytes, text: text, charset: charset}
	case "utf8":
		charset = "utf8mb3"
	}
	return Value{kind: kindString, text: text, charset: charset}
}

// isDigits reports a text whose bytes are its characters where they are ASCII: a number's, unlike X'38',
// which is the number 56.
func (v Value) isDigits() bool {
	return v.kind == kindString && asciiSet(v.charset) || v.kind == kindBytes && v.charset == "binary"
}

// AsNumberText is AsText for what is read as a number: of a String in the character set binary, too.
func (v Value) AsNumberText() (text string, ok bool) {
	return v.text, v.kind == kindString || v.kind == kindBytes && v.charset == "binary"
}

// AsText takes a String apart; ok is false for any other Value.
func (v Value) AsText() (text, charset string, ok bool) {
	return v.text, v.charset, v.kind == kindString
}

// AsDecimal is the text of a Decimal that can stand as a literal with all of its
// digits: 1.50. ok is false for any other Value.
func (v Value) AsDecimal() (text string, ok bool) {
	if v.kind != kindDecimal {
		return "", false
	}
	_, ok = parseDecimal(v.text)
	return v.text, ok
}

// IsInteger reports an Int or Uint.
func (v Value) IsInteger() bool { return v.kind == kindInt || v.kind == kindUint }

// IsFloat reports a Float.
func (v Value) IsFloat() bool { return v.kind == kindFloat }

// Bytes is a binary string: X'..', 0x.., _binary'..'. It copies b.
func Bytes(b []byte) Value { return Value{kind: kindBytes, text: string(b)} }

// Hex is the literal 0x.., which is a number to a column of numbers. It copies b.
func Hex(b []byte) Value { return Value{kind: kindBytes, text: string(b), charset: hexLiteral} }

const hexLiteral = "0x"

// Temporal is a date, time or datetime with a type: DATE'..', TIME'..',
// TIMESTAMP'..', or a temporal parameter, in MySQL's own text form
// ("2024-02-29", "2024-02-29 10:11:12.5", "-10:11:12").
func Temporal(text string) Value { return Value{kind: kindTemporal, text: text} }

// IsNull reports whether v is NULL.
func (v Value) IsNull() bool { return v.kind == kindNull }

// Literal returns v as SQL text for a shard, on a utf8mb4 connection with the
// default sql_mode (NO_BACKSLASH_ESCAPES and ANSI_QUOTES do no harm either).
func (v Value) Literal() string {
	switch v.kind {
	case kindInt:
		return strconv.FormatInt(int64(v.num), 10)
	case kindUint:
		return strconv.FormatUint(v.num, 10)
	case kindDecimal:
		if n, ok := parseDecimal(v.text); ok {
			return n.String()
		}
		return quote("_utf8mb4", v.text)
	case kindFloat:
		f := math.Float64frombits(v.num)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return "NULL" // no literal says it, and no column holds it
		}
		return strconv.FormatFloat(f, 'e', -1, 64)
	case kindString:
		switch v.charset {
		case "utf8mb4", "utf8mb3":
			if !utf8.ValidString(v.text) {
				// Drivers send bytes as texts. Counter-example: a UUID for a column of
				// BINARY(16), which servers take; _utf8mb4 X'ff' is an error (1300).
				return quote("_binary", v.text)
			}
			return quote("_utf8mb4", v.text)
		}
		return quote("_"+v.charset, v.text)
	case kindBytes:
		if v.charset == hexLiteral && v.text != "" {
			return "0x" + hex.EncodeToString([]byte(v.text))
		}
		return quote("_binary", v.text)
	case kindTemporal:
		if t, ok := parseTemporal(v.text); ok {
			return t.keyword() + "'" + v.text + "'"
		}
		return quote("_utf8mb4", v.text)
	default:
		return "NULL"
	}
}

// quote writes plain printable text as it is and everything else in hex, which
// no sql_mode reads differently.
func quote(introducer, s string) string {
	plain := utf8.ValidString(s)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= 0x20 && s[i] != '\'' && s[i] != '\\' && s[i] != 0x7f &&
			(s[i] < 0x80 || introducer == "_utf8mb4")
	}
	if plain {
		return introducer + "'" + s + "'"
	}
	var b strings.Builder
	b.Grow(len(introducer) + 4 + 2*len(s))
	b.WriteString(introducer)
	b.WriteString(" X'")
	b.WriteString(hex.EncodeToString([]byte(s)))
	b.WriteString("'")
	return b.String()
}
