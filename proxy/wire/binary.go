package wire

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// FixedWidth is how many bytes a value of a type has in the binary protocol. fixed is false
// where its length stands before it.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
func FixedWidth(typ byte) (width int, fixed bool) {
	switch typ {
	case mysql.MYSQL_TYPE_NULL:
		return 0, true
	case mysql.MYSQL_TYPE_TINY:
		return 1, true
	case mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_YEAR:
		return 2, true
	case mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_FLOAT:
		return 4, true
	case mysql.MYSQL_TYPE_LONGLONG, mysql.MYSQL_TYPE_DOUBLE:
		return 8, true
	}
	return 0, false
}

// TakeBinary cuts a value of a binary row off p.
func TakeBinary(p []byte, typ byte) (v, rest []byte, ok bool) {
	n, fixed := FixedWidth(typ)
	switch {
	case typ == mysql.MYSQL_TYPE_NULL:
		return nil, p, true
	case fixed:
	case typ == mysql.MYSQL_TYPE_DATE, typ == mysql.MYSQL_TYPE_NEWDATE, typ == mysql.MYSQL_TYPE_DATETIME, typ == mysql.MYSQL_TYPE_TIMESTAMP, typ == mysql.MYSQL_TYPE_TIME:
		if len(p) == 0 {
			return nil, p, false
		}
		n, p = int(p[0]), p[1:]
	default:
		return TakeLenBytes(p)
	}
	if len(p) < n {
		return nil, p, false
	}
	return p[:n:n], p[n:], true
}

// Nulls says which values of a binary row are NULL, and so not in it. It stands behind the
// row's first byte, and its first two bits mean nothing.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
type Nulls []byte

// NullsLen is the length of the Nulls of some columns.
func NullsLen(columns int) int { return (columns + 9) / 8 }

// TakeNulls cuts a binary row into its Nulls and the values.
func TakeNulls(row []byte, columns int) (nulls Nulls, values []byte, ok bool) {
	at := 1 + NullsLen(columns)
	if len(row) < at {
		return nil, nil, false
	}
	return row[1:at], row[at:], true
}

// Has reports whether the i-th value is NULL.
func (n Nulls) Has(i int) bool { return n[(i+2)/8]&(1<<((i+2)%8)) != 0 }

// Set notes that the i-th value is NULL.
func (n Nulls) Set(i int) { n[(i+2)/8] |= 1 << ((i + 2) % 8) }

// AppendBinary appends a value of a type to a binary row. text is as the text protocol has it; what
// it can't be read as is zero.
func AppendBinary(p []byte, typ byte, text string) []byte {
	switch typ {
	case mysql.MYSQL_TYPE_NULL:
		return p
	case mysql.MYSQL_TYPE_FLOAT:
		f, _ := strconv.ParseFloat(text, 32)
		return binary.LittleEndian.AppendUint32(p, math.Float32bits(float32(f)))
	case mysql.MYSQL_TYPE_DOUBLE:
		f, _ := strconv.ParseFloat(text, 64)
		return binary.LittleEndian.AppendUint64(p, math.Float64bits(f))
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP:
		return appendBinaryDate(p, text)
	case mysql.MYSQL_TYPE_TIME:
		return appendBinaryTime(p, text)
	}
	width, fixed := FixedWidth(typ)
	if !fixed {
		return AppendLenBytes(p, text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // over it, of an unsigned column
		u, _ := strconv.ParseUint(text, 10, 64)
		n = int64(u)
	}
	return append(p, binary.LittleEndian.AppendUint64(nil, uint64(n))[:width]...)
}

// fields are the numbers of a date or time, and its microseconds.
func fields(text string) (n []int, micros uint32) {
	whole, fraction, _ := strings.Cut(text, ".")
	for f := range strings.FieldsFuncSeq(whole, func(r rune) bool { return r == '-' || r == ':' || r == ' ' }) {
		x, _ := strconv.Atoi(f)
		n = append(n, x)
	}
	us, _ := strconv.ParseUint((fraction + "000000")[:6], 10, 32)
	return n, uint32(us)
}

func appendBinaryDate(p []byte, text string) []byte {
	n, micros := fields(text)
	for len(n) < 6 {
		n = append(n, 0)
	}
	v := binary.LittleEndian.AppendUint16(nil, uint16(n[0]))
	v = append(v, byte(n[1]), byte(n[2]), byte(n[3]), byte(n[4]), byte(n[5]))
	v = binary.LittleEndian.AppendUint32(v, micros)
	switch {
	case micros != 0:
	case n[3]|n[4]|n[5] != 0:
		v = v[:7]
	case n[0]|n[1]|n[2] != 0:
		v = v[:4]
	default:
		v = v[:0]
	}
	return append(append(p, byte(len(v))), v...)
}

func appendBinaryTime(p []byte, text string) []byte {
	text, negative := strings.CutPrefix(text, "-")
	n, micros := fields(text)
	for len(n) < 3 {
		n = append(n, 0)
	}
	v := []byte{0}
	if negative {
		v[0] = 1
	}
	v = binary.LittleEndian.AppendUint32(v, uint32(n[0]/24))
	v = append(v, byte(n[0]%24), byte(n[1]), byte(n[2]))
	v = binary.LittleEndian.AppendUint32(v, micros)
	switch {
	case micros != 0:
	case n[0]|n[1]|n[2] != 0:
		v = v[:8]
	default:
		v = v[:0]
	}
	return append(append(p, byte(len(v))), v...)
}
