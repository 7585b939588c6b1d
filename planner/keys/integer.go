package keys

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// exactFloat is 2^53: below it a float64 equals one integer only, and the
// server's comparison in floating point is exact.
const exactFloat = 1 << 53

// integer is a whole number of at most 64 bits, or one outside of them.
type integer struct {
	// beyond is -1 below the signed 64-bit numbers, 1 above the unsigned ones.
	beyond   int
	negative bool
	bits     uint64 // two's complement when negative
}

func parseInteger(s string) (integer, bool) {
	if s != "" && s[0] == '-' {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			if !allDigits(s[1:]) || len(s) == 1 {
				return integer{}, false
			}
			return integer{beyond: -1}, true
		}
		return integer{negative: n < 0, bits: uint64(n)}, true
	}
	if s == "" || !allDigits(s) {
		return integer{}, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return integer{beyond: 1}, true
	}
	return integer{bits: n}, true
}

// component appends n; outside of 64 bits it is a bound and no stored value.
func (n integer) component(dst []byte) []byte {
	switch {
	case n.beyond < 0:
		return append(dst, tagBelow)
	case n.beyond > 0:
		return append(dst, tagAbove)
	case n.negative:
		return appendInt(dst, int64(n.bits))
	}
	return appendUint(dst, n.bits)
}

// within reports whether the column's type holds n.
func (c *Codec) within(n integer) bool {
	switch {
	case n.beyond != 0:
		return false
	case n.negative:
		return int64(n.bits) >= c.min
	}
	return n.bits <= c.max
}

// fraction says what to do with a number that is not whole.
type fraction uint8

const (
	refuse fraction = iota
	roundHalfAway
	floor
)

func integerOf(v Value, f fraction) (integer, bool) {
	switch v.kind {
	case kindInt:
		return integer{negative: int64(v.num) < 0, bits: v.num}, true
	case kindUint:
		return integer{bits: v.num}, true
	case kindDecimal:
		n, ok := parseDecimal(v.text)
		switch {
		case !ok || f == refuse && n.scale() > 0:
			return integer{}, false
		case f == roundHalfAway:
			return parseInteger(n.round(0).String())
		}
		return parseInteger(n.floorText())
	case kindFloat:
		x := math.Float64frombits(v.num)
		if !(math.Abs(x) < exactFloat) { // NaN too
			return integer{}, false
		}
		if x != math.Trunc(x) {
			if f != floor {
				// Stored: the servers round halves of floats to even or away,
				// by version and by CPU.
				return integer{}, false
			}
			x = math.Floor(x)
		}
		return integer{negative: x < 0, bits: uint64(int64(x))}, true
	case kindString, kindBytes:
		// '5' only: '5 ', '05', '5.0' and '5e0' are numbers to some of the
		// conversions and not to others. Where the server compares as floats,
		// numbers from 2^53 on would equal their neighbours.
		if !v.isDigits() || len(v.text) > 16 || !canonicalNumber(v.text) {
			return integer{}, false
		}
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil || n >= exactFloat || n <= -exactFloat {
			return integer{}, false
		}
		return integer{negative: n < 0, bits: uint64(n)}, true
	default:
		return integer{}, false
	}
}

func (c *Codec) storedInteger(dst []byte, v Value) ([]byte, bool) {
	if c.unsigned && v.kind == kindDecimal && strings.HasPrefix(v.text, "-") {
		return dst, false // the servers refuse -0.4 before they round it
	}
	n, ok := integerOf(v, roundHalfAway)
	if v.kind == kindBytes && v.charset == hexLiteral && len(v.text) <= 8 {
		var b [8]byte
		copy(b[8-len(v.text):], v.text)
		n, ok = integer{bits: binary.BigEndian.Uint64(b[:])}, true
	}
	if !ok && v.isDigits() && canonicalNumber(v.text) {
		n, ok = parseInteger(v.text) // storing a string is exact beyond 2^53 too
	}
	if !ok || !c.within(n) {
		return dst, false // an error or, not strict, clipped
	}
	return n.component(dst), true
}

func (c *Codec) equalInteger(dst []byte, v Value) ([]byte, bool) {
	n, ok := integerOf(v, refuse)
	if !ok || n.beyond != 0 {
		return dst, false
	}
	return n.component(dst), true
}

func (c *Codec) orderInteger(dst []byte, v Value) ([]byte, bool) {
	switch v.kind {
	case kindString, kindBytes, kindFloat:
		// BETWEEN '5' AND 9007199254740993 compares all three as floats: exact
		// only where no row is as large as 2^53.
		if c.max >= exactFloat {
			return dst, false
		}
	default:
	}
	n, ok := integerOf(v, floor)
	if !ok {
		return dst, false
	}
	return n.component(dst), true
}

func scannedInteger(dst, raw []byte) ([]byte, bool) {
	n, ok := parseInteger(string(raw)) // ZEROFILL gives leading zeros
	if !ok || n.beyond != 0 {
		return dst, false
	}
	return n.component(dst), true
}

// Years are 0000 and 1901 to 2155. The servers read one and two digits as a
// year of this century or the last, each by its own rule for 0 and '0'.

func plainYear(v Value) (integer, bool) {
	switch v.kind {
	case kindInt, kindUint:
	case kindString:
		if len(v.text) != 4 {
			return integer{}, false
		}
	default:
		return integer{}, false
	}
	n, ok := integerOf(v, refuse)
	return n, ok && !n.negative && n.bits >= 1901 && n.bits <= 2155
}

func (c *Codec) storedYear(dst []byte, v Value) ([]byte, bool) {
	n, ok := plainYear(v)
	if !ok {
		return dst, false
	}
	return n.component(dst), true
}
