package wire

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Kind sorts parameters by how their value is had.
type Kind uint8

const (
	KindNull     Kind = iota
	KindInt           // Int64
	KindUint          // Uint64
	KindFloat         // Float64; Type tells whether it was a FLOAT
	KindDecimal       // Text
	KindString        // Data, in the connection's character_set_client
	KindBytes         // Data, binary
	KindDate          // Text
	KindDatetime      // Text
	KindTime          // Text
)

// Kind returns how the value is to be had.
func (p *Param) Kind() Kind {
	if p.Null {
		return KindNull
	}
	switch p.Type {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_YEAR,
		mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONGLONG:
		if p.Unsigned {
			return KindUint
		}
		return KindInt
	case mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_DOUBLE:
		return KindFloat
	case mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL:
		return KindDecimal
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE:
		return KindDate
	case mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP:
		return KindDatetime
	case mysql.MYSQL_TYPE_TIME:
		return KindTime
	case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING,
		mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET, mysql.MYSQL_TYPE_JSON:
		return KindString
	}
	return KindBytes
}

// Uint64 returns the value of a KindUint.
func (p *Param) Uint64() uint64 {
	switch len(p.Data) {
	case 1:
		return uint64(p.Data[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(p.Data))
	case 4:
		return uint64(binary.LittleEndian.Uint32(p.Data))
	case 8:
		return binary.LittleEndian.Uint64(p.Data)
	}
	return 0
}

// Int64 returns the value of a KindInt.
func (p *Param) Int64() int64 {
	shift := 64 - 8*len(p.Data)
	if shift < 0 || shift == 64 {
		return 0
	}
	return int64(p.Uint64()<<shift) >> shift
}

// Float64 returns the value of a KindFloat.
func (p *Param) Float64() float64 {
	switch len(p.Data) {
	case 4:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(p.Data)))
	case 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(p.Data))
	}
	return 0
}

// Text returns the text of a decimal or temporal, as MySQL writes it:
// '2024-02-29', '2024-02-29 12:00:00.000001', '-838:59:59'. A fraction of zero
// is left out. The fields aren't checked: a client may send month 13.
func (p *Param) Text() string {
	switch p.Kind() {
	case KindDate:
		return string(p.appendDate(nil))
	case KindDatetime:
		b := append(p.appendDate(nil), ' ')
		clock := []byte{0, 0, 0}
		if len(p.Data) >= 7 {
			clock = p.Data[4:7]
		}
		b = appendPadded(b, uint64(clock[0]), 2)
		b = appendMinutes(b, clock[1:])
		return string(appendMicros(b, p.Data, 7))
	case KindTime:
		if len(p.Data) < 8 {
			return "00:00:00"
		}
		var b []byte
		if p.Data[0] != 0 {
			b = append(b, '-')
		}
		hours := uint64(binary.LittleEndian.Uint32(p.Data[1:]))*24 + uint64(p.Data[5])
		b = appendPadded(b, hours, 2)
		b = appendMinutes(b, p.Data[6:8])
		return string(appendMicros(b, p.Data, 8))
	default:
		return string(p.Data)
	}
}

func (p *Param) appendDate(b []byte) []byte {
	if len(p.Data) < 4 {
		return append(b, "0000-00-00"...)
	}
	b = appendPadded(b, uint64(binary.LittleEndian.Uint16(p.Data)), 4)
	b = appendPadded(append(b, '-'), uint64(p.Data[2]), 2)
	return appendPadded(append(b, '-'), uint64(p.Data[3]), 2)
}

func appendMinutes(b, fields []byte) []byte {
	b = appendPadded(append(b, ':'), uint64(fields[0]), 2)
	return appendPadded(append(b, ':'), uint64(fields[1]), 2)
}

func appendMicros(b, data []byte, at int) []byte {
	if len(data) < at+4 {
		return b
	}
	us := binary.LittleEndian.Uint32(data[at:])
	if us == 0 {
		return b
	}
	return appendPadded(append(b, '.'), uint64(us), 6)
}

func appendPadded(b []byte, n uint64, width int) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], n, 10)
	for range width - len(d) {
		b = append(b, '0')
	}
	return append(b, d...)
}
