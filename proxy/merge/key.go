package merge

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// kind is how the values of a key compare.
type kind uint8

const (
	signed   kind = iota // integers
	unsigned             // integers
	float
	decimal
	clock    // TIME
	datetime // DATE, DATETIME: the fields from year to microsecond
	text     // bytes, by their weights
	null     // always NULL
)

// sorter compares rows by one key.
type sorter struct {
	kind       kind
	value, pad int // columns of the row; pad -1 for none
	desc       bool
	binary     bool
}

// UnsupportedError: a key's type can't be compared here.
type UnsupportedError struct{ Column, Type string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("values of %s (%s) can't be compared outside of a server", e.Column, e.Type)
}

// newSorters chooses how keys compare, by their columns' types.
func newSorters(l *Layout, keys []plan.MergeKey) ([]sorter, error) {
	out := make([]sorter, len(keys))
	for i, k := range keys {
		s := sorter{value: l.column(k.Value), pad: -1, desc: k.Desc, binary: l.Binary}
		if s.value < 0 || s.value >= len(l.Columns) {
			return nil, ErrMalformed
		}
		col := &l.Columns[s.value]
		var ok bool
		if s.kind, ok = kindOf(col, l.Binary); !ok {
			return nil, &UnsupportedError{col.Name, fmt.Sprintf("type %d", col.Type)}
		}
		if s.kind == text {
			switch {
			case k.Weight != 0:
				s.value = l.column(k.Weight)
				s.pad = l.column(k.Pad)
				if k.Pad == 0 {
					s.pad = -1
				}
			case col.Charset != binaryCharset:
				return nil, &UnsupportedError{col.Name, "text without weights"}
			}
		}
		out[i] = s
	}
	return out, nil
}

const binaryCharset = 63

func kindOf(col *wire.Column, binaryRows bool) (kind, bool) {
	switch col.Type {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG:
		if col.Flags&mysql.UNSIGNED_FLAG != 0 {
			return unsigned, true
		}
		return signed, true
	case mysql.MYSQL_TYPE_YEAR:
		return unsigned, true
	case mysql.MYSQL_TYPE_DOUBLE:
		// With a fixed number of decimals a text shows fewer digits than the
		// value has.
		return float, binaryRows || col.Decimals >= notFixed
	case mysql.MYSQL_TYPE_FLOAT:
		return float, binaryRows
	case mysql.MYSQL_TYPE_NEWDECIMAL, mysql.MYSQL_TYPE_DECIMAL:
		return decimal, true
	case mysql.MYSQL_TYPE_TIME:
		return clock, true
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP:
		return datetime, true
	case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING,
		mysql.MYSQL_TYPE_TINY_BLOB, mysql.MYSQL_TYPE_BLOB, mysql.MYSQL_TYPE_MEDIUM_BLOB, mysql.MYSQL_TYPE_LONG_BLOB:
		return text, col.Flags&(mysql.ENUM_FLAG|mysql.SET_FLAG) == 0
	case mysql.MYSQL_TYPE_NULL:
		return null, true
	}
	return 0, false // JSON, GEOMETRY, VECTOR, BIT, ...
}

const notFixed = 31

// part is one key of one row. Numbers order by n, texts and decimals by b.
type part struct {
	null bool
	n    uint64
	b    []byte // owned by the key
	pad  []byte // what b goes on with for ever, nil for nothing
}

// Key is what a row is compared by.
type Key []part

// fill computes a row's key, reusing k's memory.
func fill(k Key, sorters []sorter, r *Row) (Key, error) {
	if k == nil {
		k = make(Key, len(sorters))
	}
	for i := range sorters {
		if err := sorters[i].fill(&k[i], r); err != nil {
			return k, err
		}
	}
	return k, nil
}

func (s *sorter) fill(p *part, r *Row) error {
	v := r.values[s.value]
	p.null, p.n, p.b = v == nil, 0, p.b[:0]
	if p.null {
		return nil
	}
	ok := true
	switch s.kind {
	case null:
		p.null = true
	case text:
		p.b = append(p.b, v...)
		p.pad = p.pad[:0]
		if s.pad >= 0 {
			p.pad = append(p.pad, r.values[s.pad]...)
		}
	case decimal:
		p.b, ok = appendDecimalKey(p.b, v)
	case datetime:
		p.b, ok = appendDatetime(p.b, v, s.binary)
	case clock:
		var n int64
		n, ok = clockMicros(v, s.binary)
		p.n = flip(n)
	case signed, unsigned:
		p.n, ok = s.integer(v)
	case float:
		var f float64
		f, ok = s.float(v)
		p.n = flipFloat(f)
	}
	if !ok {
		return fmt.Errorf("%w: %q in column %d", ErrMalformed, v, s.value)
	}
	return nil
}

func (s *sorter) integer(v []byte) (n uint64, ok bool) {
	if s.binary {
		n, ok = binaryInt(v, s.kind == unsigned)
	} else if s.kind == unsigned {
		u, err := strconv.ParseUint(string(v), 10, 64)
		n, ok = u, err == nil
	} else {
		i, err := strconv.ParseInt(string(v), 10, 64)
		n, ok = uint64(i), err == nil
	}
	if s.kind == signed {
		n = flip(int64(n))
	}
	return n, ok
}

func (s *sorter) float(v []byte) (float64, bool) {
	switch {
	case !s.binary:
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil
	case len(v) == 4:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v))), true
	case len(v) == 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(v)), true
	}
	return 0, false
}

// flip makes signed numbers order as unsigned ones.
func flip(n int64) uint64 { return uint64(n) ^ 1<<63 }

func flipFloat(f float64) uint64 {
	if f == 0 {
		f = 0 // no -0
	}
	b := math.Float64bits(f)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// compare orders two keys: NULLs first, as MySQL has them.
func compare(sorters []sorter, x, y Key) int {
	for i := range sorters {
		c := x[i].compare(&y[i])
		if c != 0 {
			if sorters[i].desc {
				return -c
			}
			return c
		}
	}
	return 0
}

func (p *part) compare(q *part) int {
	switch {
	case p.null || q.null:
		switch {
		case p.null && q.null:
			return 0
		case p.null:
			return -1
		}
		return 1
	case p.n != q.n:
		return cmp.Compare(p.n, q.n)
	}
	n := min(len(p.b), len(q.b))
	if c := bytes.Compare(p.b[:n], q.b[:n]); c != 0 {
		return c
	}
	switch {
	case len(p.b) == len(q.b):
		return 0
	case len(p.b) > n:
		return comparePad(p.b[n:], p.pad)
	}
	return -comparePad(q.b[n:], q.pad)
}

// comparePad compares what one text has more than the other with what the
// other goes on with: spaces under a collation that pads, else nothing.
func comparePad(rest, pad []byte) int {
	if len(pad) == 0 {
		return 1
	}
	for len(rest) > 0 {
		n := min(len(rest), len(pad))
		if c := bytes.Compare(rest[:n], pad[:n]); c != 0 {
			return c
		}
		rest = rest[n:]
	}
	return 0
}

// appendDatetime makes DATE, DATETIME and TIMESTAMP values comparable bytewise.
// A text has a fixed form in each column.
func appendDatetime(dst, v []byte, binaryRow bool) ([]byte, bool) {
	if !binaryRow {
		return append(dst, v...), len(v) >= 10
	}
	var f [11]byte
	if len(v) != 0 && len(v) != 4 && len(v) != 7 && len(v) != 11 {
		return dst, false
	}
	copy(f[:], v)
	dst = append(dst, f[1], f[0]) // the year, big-endian
	dst = append(dst, f[2:7]...)
	return binary.BigEndian.AppendUint32(dst, binary.LittleEndian.Uint32(f[7:])), true
}

// clockMicros is a TIME in microseconds.
func clockMicros(v []byte, binaryRow bool) (int64, bool) {
	if binaryRow {
		var f [12]byte
		if len(v) != 0 && len(v) != 8 && len(v) != 12 {
			return 0, false
		}
		copy(f[:], v)
		days := int64(binary.LittleEndian.Uint32(f[1:]))
		n := ((days*24+int64(f[5]))*60+int64(f[6]))*60 + int64(f[7])
		n = n*1_000_000 + int64(binary.LittleEndian.Uint32(f[8:]))
		if f[0] != 0 {
			n = -n
		}
		return n, true
	}
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	main, fraction, _ := bytes.Cut(v, []byte("."))
	fields := bytes.Split(main, []byte(":"))
	if len(fields) != 3 || len(fraction) > 6 {
		return 0, false
	}
	var n int64
	for _, f := range fields {
		d, err := strconv.Atoi(string(f))
		if err != nil {
			return 0, false
		}
		n = n*60 + int64(d)
	}
	micros := 0
	if len(fraction) > 0 {
		var err error
		if micros, err = strconv.Atoi(string(append(bytes.Clone(fraction), "000000"...)[:6])); err != nil {
			return 0, false
		}
	}
	n = n*1_000_000 + int64(micros)
	if negative {
		n = -n
	}
	return n, true
}

// appendDecimalKey makes decimals comparable bytewise: a byte for the sign,
// two for the number of digits before the point, the digits without zeros at
// either end, and a byte below all digits. Of negative numbers all bits turned.
func appendDecimalKey(dst, v []byte) ([]byte, bool) {
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	whole, fraction, _ := bytes.Cut(v, []byte("."))
	for _, part := range [2][]byte{whole, fraction} {
		for _, c := range part {
			if c < '0' || c > '9' {
				return dst, false
			}
		}
	}
	if len(whole) == 0 && len(fraction) == 0 {
		return dst, false
	}
	whole = bytes.TrimLeft(whole, "0")
	fraction = bytes.TrimRight(fraction, "0")
	exponent := len(whole)
	if exponent == 0 {
		rest := bytes.TrimLeft(fraction, "0")
		exponent, fraction = len(rest)-len(fraction), rest
	} else if len(fraction) == 0 {
		whole = bytes.TrimRight(whole, "0")
	}
	if len(whole) == 0 && len(fraction) == 0 {
		return append(dst, 1), true
	}
	start := len(dst)
	dst = append(dst, 2)
	dst = binary.BigEndian.AppendUint16(dst, uint16(exponent+1<<14))
	dst = append(append(append(dst, whole...), fraction...), 0)
	if negative {
		dst[start] = 0
		for i := start + 1; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst, true
}
