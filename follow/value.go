package follow

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"
)

// Append appends a column's value to dst as the text protocol gives it on a utf8mb4 connection whose
// time_zone is '+00:00': what keys.Codec.Scanned reads. Other than there, integers have no zeros in front
// (ZEROFILL), and YEAR 0 has four; a FLOAT or DOUBLE is the shortest text that reads as its value; and MariaDB's UUID, INET4 and
// INET6 are the bytes that they are stored as, since the log doesn't tell them from BINARY (see TextOf).
func (w *Row) Append(dst []byte, column int) (text []byte, s State) {
	at := w.spans[column]
	switch at.from {
	case absent:
		return dst, Absent
	case null:
		return dst, Null
	case part:
		return dst, Unreadable
	}
	return w.table.Columns[column].append(dst, w.data[at.from:at.to])
}

// append appends the text of an image.
func (c *Column) append(dst, b []byte) ([]byte, State) {
	ok := true
	switch c.typ {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG:
		dst = c.appendInteger(dst, b)
	case mysql.MYSQL_TYPE_YEAR:
		if b[0] == 0 {
			return append(dst, "0000"...), Present
		}
		dst = strconv.AppendInt(dst, 1900+int64(b[0]), 10)
	case mysql.MYSQL_TYPE_NEWDECIMAL:
		dst = appendDecimal(dst, b, int(c.meta>>8), int(c.meta&0xff))
	case mysql.MYSQL_TYPE_FLOAT:
		dst = strconv.AppendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 'g', -1, 32)
	case mysql.MYSQL_TYPE_DOUBLE:
		dst = strconv.AppendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)), 'g', -1, 64)
	case mysql.MYSQL_TYPE_DATE:
		n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		dst = appendDate(dst, n>>9, n>>5&15, n&31)
	case mysql.MYSQL_TYPE_DATETIME2:
		dst = appendDateTime(dst, b, int(c.meta))
	case mysql.MYSQL_TYPE_TIMESTAMP2:
		dst = appendTimestamp(dst, b, int(c.meta))
	case mysql.MYSQL_TYPE_TIME2:
		dst = appendTime(dst, b, int(c.meta))
	case mysql.MYSQL_TYPE_BIT, mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR:
		dst = append(dst, b...)
	case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_BLOB:
		dst, ok = c.appendText(dst, b)
	case mysql.MYSQL_TYPE_ENUM:
		dst, ok = c.appendMember(dst, b)
	case mysql.MYSQL_TYPE_SET:
		dst, ok = c.appendMembers(dst, b)
	default: // JSON, compressed columns
		ok = false
	}
	if !ok {
		return dst, Unreadable
	}
	return dst, Present
}

// little reads up to 8 bytes.
func little(b []byte) (n uint64) {
	for _, c := range slices.Backward(b) {
		n = n<<8 | uint64(c)
	}
	return n
}

// big reads up to 8 bytes.
func big(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

func (c *Column) appendInteger(dst, b []byte) []byte {
	n := little(b)
	if c.Unsigned {
		return strconv.AppendUint(dst, n, 10)
	}
	unused := 64 - 8*len(b)
	return strconv.AppendInt(dst, int64(n<<unused)>>unused, 10)
}

// appendText: a text is in the column's own character set. A BINARY column's zero bytes at the end are
// left out in the log.
func (c *Column) appendText(dst, b []byte) ([]byte, bool) {
	switch {
	case c.Charset == binaryCharset:
		dst = append(dst, b...)
		if c.typ == mysql.MYSQL_TYPE_STRING {
			for range int(c.meta) - len(b) {
				dst = append(dst, 0)
			}
		}
		return dst, true
	case c.decode != nil:
		return c.decode(dst, b)
	default:
		return dst, false
	}
}

// appendMember: number 0 is the error value, which reads as an empty text.
func (c *Column) appendMember(dst, b []byte) ([]byte, bool) {
	n := int(little(b))
	if n == 0 {
		return dst, true
	}
	if n > len(c.Members) {
		return dst, false
	}
	return append(dst, c.Members[n-1]...), true
}

func (c *Column) appendMembers(dst, b []byte) ([]byte, bool) {
	start := len(dst)
	for i, n := 0, little(b); n != 0; i, n = i+1, n>>1 {
		if n&1 == 0 {
			continue
		}
		if i >= len(c.Members) {
			return dst[:start], false
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, c.Members[i]...)
	}
	return dst, true
}

func appendDate(dst []byte, year, month, day int) []byte {
	dst = append(appendDigits(dst, year, 4), '-')
	dst = append(appendDigits(dst, month, 2), '-')
	return appendDigits(dst, day, 2)
}

func appendClock(dst []byte, hour, minute, second int) []byte {
	digits := 2
	if hour > 99 {
		digits = 3
	}
	dst = append(appendDigits(dst, hour, digits), ':')
	dst = append(appendDigits(dst, minute, 2), ':')
	return appendDigits(dst, second, 2)
}

// appendFraction appends the microseconds' first digits.
func appendFraction(dst []byte, micros, digits int) []byte {
	if digits == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := 100_000; digits > 0; digits, unit = digits-1, unit/10 {
		dst = append(dst, '0'+byte(micros/unit%10))
	}
	return dst
}

// fraction reads the microseconds of one to three bytes.
func fraction(b []byte) int {
	n := int(big(b))
	for range 3 - len(b) {
		n *= 100
	}
	return n
}

// appendDateTime: big endian, 40 bits of which the first is set, and the fraction. (MySQL,
// sql-common/my_time.cc, my_datetime_packed_from_binary)
func appendDateTime(dst, b []byte, digits int) []byte {
	n := int(big(b[:5])) - 1<<39
	day, clock := n>>17, n&(1<<17-1)
	month := day >> 5
	dst = append(appendDate(dst, month/13, month%13, day&31), ' ')
	dst = appendClock(dst, clock>>12, clock>>6&63, clock&63)
	return appendFraction(dst, fraction(b[5:]), digits)
}

// appendTimestamp: seconds since 1970 and the fraction; 0 and no fraction is the zero date.
func appendTimestamp(dst, b []byte, digits int) []byte {
	seconds, micros := binary.BigEndian.Uint32(b), fraction(b[4:])
	if seconds == 0 && micros == 0 {
		return appendFraction(append(dst, "0000-00-00 00:00:00"...), micros, digits)
	}
	t := time.Unix(int64(seconds), 0).UTC()
	dst = append(appendDate(dst, t.Year(), int(t.Month()), t.Day()), ' ')
	dst = appendClock(dst, t.Hour(), t.Minute(), t.Second())
	return appendFraction(dst, micros, digits)
}

// appendTime: seconds and fraction are one number, from which half of its range is subtracted.
func appendTime(dst, b []byte, digits int) []byte {
	n := int64(big(b)) - 1<<(8*len(b)-1)
	if n < 0 {
		n = -n
		dst = append(dst, '-')
	}
	bits := 8 * (len(b) - 3)
	micros := int(n & (1<<bits - 1))
	for range 3 - (len(b) - 3) {
		micros *= 100
	}
	clock := int(n >> bits)
	dst = appendClock(dst, clock>>12&1023, clock>>6&63, clock&63)
	return appendFraction(dst, micros, digits)
}

// decimalBytes is how many bytes so many digits take (MySQL, strings/decimal.cc, dig2bytes).
var decimalBytes = [...]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

func decimalSize(precision, scale int) int {
	whole := precision - scale
	return whole/9*4 + decimalBytes[whole%9] + scale/9*4 + decimalBytes[scale%9]
}

// appendDecimal reads decimal2bin's form: groups of nine digits in four bytes each, big endian, the
// incomplete one first before the point and last behind it. The first bit is set, and of negative
// numbers all bits are inverted.
func appendDecimal(dst, b []byte, precision, scale int) []byte {
	var mask byte
	if b[0]&0x80 == 0 {
		mask = 0xff
		dst = append(dst, '-')
	}
	at := 0
	group := func(digits int) int {
		n := 0
		for range decimalBytes[digits] {
			x := b[at] ^ mask
			if at == 0 {
				x ^= 0x80
			}
			n = n<<8 | int(x)
			at++
		}
		return n
	}
	start := len(dst)
	whole := precision - scale
	for digits := whole % 9; whole > 0; whole, digits = whole-digits, 9 {
		if digits == 0 {
			continue
		}
		n := group(digits)
		switch {
		case len(dst) > start:
			dst = appendDigits(dst, n, digits)
		case n != 0:
			dst = strconv.AppendInt(dst, int64(n), 10)
		}
	}
	if len(dst) == start {
		dst = append(dst, '0')
	}
	if scale > 0 {
		dst = append(dst, '.')
	}
	for scale > 0 {
		digits := min(scale, 9)
		dst = appendDigits(dst, group(digits), digits)
		scale -= digits
	}
	return dst
}

// appendDigits appends a number of exactly so many digits.
func appendDigits(dst []byte, n, digits int) []byte {
	start := len(dst)
	for range digits {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= start; i, n = i-1, n/10 {
		dst[i] = '0' + byte(n%10)
	}
	return dst
}

// TextOf gives what a SELECT returns of a column, by its COLUMN_TYPE, for what Append gives: of MariaDB's
// UUID, INET4 and INET6 the text, of all others the same. ok is false for bytes that aren't of the type.
// It may use value's memory.
func TextOf(columnType string, value []byte) (text []byte, ok bool) {
	switch strings.ToLower(columnType) {
	case "uuid":
		if len(value) != 16 {
			return nil, false
		}
		return uuidText(value), true
	case "inet4":
		if len(value) != 4 {
			return nil, false
		}
		return netip.AddrFrom4([4]byte(value)).AppendTo(nil), true
	case "inet6":
		if len(value) != 16 {
			return nil, false
		}
		return inet6Text(netip.AddrFrom16([16]byte(value))), true
	}
	return value, true
}

// uuidText: MariaDB stores the UUIDs that begin with a time, of versions 1 to 5, with their parts
// turned round, the node first, so that they sort by time. (sql/sql_type_uuid.h)
func uuidText(b []byte) []byte {
	var id uuid.UUID
	if b[6]&0x80 != 0 && b[8] > 0 && b[8] < 0x60 {
		copy(id[10:], b[:6])
		copy(id[8:], b[6:8])
		copy(id[6:], b[8:10])
		copy(id[4:], b[10:12])
		copy(id[:], b[12:])
	} else {
		copy(id[:], b)
	}
	return []byte(id.String())
}

// inet6Text: MariaDB writes IPv4 in IPv6 ("::1.2.3.4") for the deprecated prefix of zeros too.
func inet6Text(a netip.Addr) []byte {
	b := a.As16()
	if compatible := [12]byte(b[:12]) == [12]byte{} && b[12]|b[13] != 0; compatible {
		return netip.AddrFrom4([4]byte(b[12:])).AppendTo([]byte("::"))
	}
	return a.AppendTo(nil)
}
