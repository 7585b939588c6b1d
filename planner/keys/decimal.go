package keys

import (
	"bytes"
	"math/big"
	"strings"
)

// number is an exact decimal number in canonical form: digits without leading
// and trailing zeros, worth 0.DIGITS * 10^point. Zero has no digits, point 0
// and is not negative.
type number struct {
	negative bool
	point    int
	digits   string
}

// maxDigits is the most that MySQL keeps of a decimal literal; what it does
// with more depends on the version.
const maxDigits = 65

// parseDecimal reads [+-]digits[.digits] with at least one digit, and nothing
// else: no exponent, no space.
func parseDecimal(s string) (number, bool) {
	var n number
	if s != "" && (s[0] == '-' || s[0] == '+') {
		n.negative = s[0] == '-'
		s = s[1:]
	}
	whole, frac, _ := strings.Cut(s, ".")
	if len(whole)+len(frac) == 0 || !allDigits(whole) || !allDigits(frac) {
		return number{}, false
	}
	whole = strings.TrimLeft(whole, "0")
	frac = strings.TrimRight(frac, "0")
	if len(whole)+len(frac) > maxDigits {
		return number{}, false
	}
	switch {
	case whole != "":
		n.point = len(whole)
		n.digits = whole
		if frac != "" {
			n.digits = whole + frac
		} else {
			n.digits = strings.TrimRight(whole, "0")
		}
	case frac != "":
		n.digits = strings.TrimLeft(frac, "0")
		n.point = len(n.digits) - len(frac)
	default:
		return number{}, true
	}
	return n, true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// String is the number as a decimal literal. An integer has no point.
func (n number) String() string {
	if n.digits == "" {
		return "0"
	}
	var b strings.Builder
	if n.negative {
		b.WriteByte('-')
	}
	switch {
	case n.point <= 0:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -n.point))
		b.WriteString(n.digits)
	case n.point >= len(n.digits):
		b.WriteString(n.digits)
		b.WriteString(strings.Repeat("0", n.point-len(n.digits)))
	default:
		b.WriteString(n.digits[:n.point])
		b.WriteByte('.')
		b.WriteString(n.digits[n.point:])
	}
	return b.String()
}

// scale is the number of digits after the point.
func (n number) scale() int { return max(0, len(n.digits)-n.point) }

// round rounds to scale digits after the point, halves away from zero, as
// MySQL does when it stores a decimal.
func (n number) round(scale int) number {
	keep := n.point + scale // digits that stay
	if keep >= len(n.digits) {
		return n
	}
	if keep < 0 {
		return number{}
	}
	up := n.digits[keep] >= '5'
	d := []byte(n.digits[:keep])
	if up {
		i := len(d) - 1
		for ; i >= 0; i-- {
			if d[i] != '9' {
				d[i]++
				break
			}
			d[i] = '0'
		}
		if i < 0 {
			d = append([]byte{'1'}, d...)
			n.point++
		}
	}
	d = bytes.TrimRight(d, "0")
	if len(d) == 0 {
		return number{}
	}
	n.digits = string(d)
	return n
}

// floorText is the greatest integer not above n, as text.
func (n number) floorText() string {
	if n.scale() == 0 {
		return n.String()
	}
	whole := number{point: n.point, digits: n.digits[:max(0, n.point)]}
	whole.digits = strings.TrimRight(whole.digits, "0")
	if n.point <= 0 || whole.digits == "" {
		whole = number{}
	}
	if !n.negative {
		return whole.String()
	}
	i, _ := new(big.Int).SetString(whole.String(), 10)
	return i.Neg(i.Add(i, big.NewInt(1))).String()
}

// appendNumber appends the component of n: tag, biased point, digits in pairs
// (each pair + 1, so never 0), 0x00. For negative numbers everything after the
// tag is inverted.
func appendNumber(dst []byte, n number) []byte {
	if n.digits == "" {
		return append(dst, tagDecimalZero)
	}
	flip, tag := byte(0x00), byte(tagDecimalPositive)
	if n.negative {
		flip, tag = 0xff, tagDecimalNegative
	}
	dst = append(dst, tag, byte(n.point+128)^flip)
	for i := 0; i < len(n.digits); i += 2 {
		pair := (n.digits[i] - '0') * 10
		if i+1 < len(n.digits) {
			pair += n.digits[i+1] - '0'
		}
		dst = append(dst, (pair+1)^flip)
	}
	return append(dst, flip)
}

func numberOf(v Value) (number, bool) {
	switch v.kind {
	case kindInt, kindUint:
		return parseDecimal(v.Literal())
	case kindDecimal:
		return parseDecimal(v.text)
	default:
		return number{}, false
	}
}

func (c *Codec) storedDecimal(dst []byte, v Value) ([]byte, bool) {
	n, ok := numberOf(v)
	if !ok && v.kind == kindString && asciiSet(v.charset) && canonicalNumber(v.text) {
		n, ok = parseDecimal(v.text)
	}
	if !ok {
		return dst, false
	}
	if n.negative && c.unsigned {
		return dst, false // before rounding: not even -0.0001 is surely taken
	}
	n = n.round(c.scale)
	if n.point > c.precision-c.scale {
		return dst, false // an error or, not strict, clipped
	}
	return appendNumber(dst, n), true
}

// equalDecimal: a string is no exact comparison, since the server compares it
// with a decimal column as two floating-point numbers; nor is a float. Of a
// number with more digits after the point than the column has, MariaDB rounds
// what it looks up in an index, so that `c = 1.005` finds 1.01.
func (c *Codec) equalDecimal(dst []byte, v Value) ([]byte, bool) {
	n, ok := numberOf(v)
	if !ok || n.scale() > c.scale {
		return dst, false
	}
	return appendNumber(dst, n), true
}

func (c *Codec) scannedDecimal(dst, raw []byte) ([]byte, bool) {
	n, ok := parseDecimal(string(raw))
	if !ok {
		return dst, false
	}
	return appendNumber(dst, n), true
}

// canonicalNumber reports whether s is -?(0|[1-9]digits)(.digits)? and not a
// negative zero.
func canonicalNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	whole, frac, point := strings.Cut(digits, ".")
	if whole == "" || !allDigits(whole) || !allDigits(frac) || point && frac == "" {
		return false
	}
	if whole[0] == '0' && len(whole) > 1 {
		return false
	}
	return len(digits) == len(s) || strings.Trim(digits, "0.") != ""
}

// asciiSet reports whether the character set reads ASCII bytes as ASCII and is
// one that a literal's digits may come in.
func asciiSet(charset string) bool {
	switch charset {
	case "utf8mb4", "utf8mb3", "latin1", "ascii":
		return true
	}
	return false
}
