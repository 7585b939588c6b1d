package merge

import (
	"bytes"
	"errors"
	"math/big"
)

// ErrOverflow: a sum has more digits than a DECIMAL holds.
var ErrOverflow = errors.New("DECIMAL value is out of range in the merged answer")

// maxDigits is the most that a server computes with.
const maxDigits = 81

// exact is a decimal number: n / 10^scale.
type exact struct {
	n     big.Int
	scale int
}

var ten = big.NewInt(10)

func power(n int) *big.Int { return new(big.Int).Exp(ten, big.NewInt(int64(n)), nil) }

// read reads "-12.50".
func (e *exact) read(v []byte) (ok bool) {
	unsigned, negative := bytes.CutPrefix(v, []byte("-"))
	whole, fraction, _ := bytes.Cut(unsigned, []byte("."))
	var n int64
	for _, digits := range [2][]byte{whole, fraction} {
		for _, c := range digits {
			if c < '0' || c > '9' {
				return false
			}
			n = n*10 + int64(c-'0')
		}
	}
	switch digits := len(whole) + len(fraction); {
	case digits == 0 || digits > 200:
		return false
	case digits <= 18: // they fit into n
		e.n.SetInt64(n)
	default:
		e.n.SetString(string(whole)+string(fraction), 10)
	}
	if negative {
		e.n.Neg(&e.n)
	}
	e.scale = len(fraction)
	return true
}

// rescale gives both numbers the larger scale.
func (e *exact) rescale(o *exact) {
	for _, x := range [2]*exact{e, o} {
		if s := max(e.scale, o.scale); x.scale < s {
			x.n.Mul(&x.n, power(s-x.scale))
			x.scale = s
		}
	}
}

// add adds o, whose scale may change.
func (e *exact) add(o *exact) {
	e.rescale(o)
	e.n.Add(&e.n, &o.n)
}

// cmp compares with o, whose scale may change.
func (e *exact) cmp(o *exact) int {
	e.rescale(o)
	return e.n.Cmp(&o.n)
}

// zero sets the number to 0, and keeps its memory.
func (e *exact) zero() {
	e.n.SetInt64(0)
	e.scale = 0
}

// text writes the number with the given number of digits after the point,
// which are not fewer than it has.
func (e *exact) text(decimals int) ([]byte, error) {
	n := &e.n
	if e.scale < decimals {
		n = new(big.Int).Mul(n, power(decimals-e.scale))
	} else if e.scale > decimals {
		q, r := new(big.Int).QuoRem(n, power(e.scale-decimals), new(big.Int))
		if r.Sign() != 0 {
			return nil, ErrMalformed
		}
		n = q
	}
	digits, negative := bytes.CutPrefix(n.Append(nil, 10), []byte("-"))
	if len(digits) > maxDigits {
		return nil, ErrOverflow
	}
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = append(bytes.Repeat([]byte("0"), missing), digits...)
	}
	out := make([]byte, 0, len(digits)+len("-."))
	if negative {
		out = append(out, '-')
	}
	out = append(out, digits[:len(digits)-decimals]...)
	if decimals > 0 {
		out = append(append(out, '.'), digits[len(digits)-decimals:]...)
	}
	return out, nil
}

// word is the number of decimal digits that servers keep in one machine word.
const word = 9

func wholeWords(digits int) int { return (digits + word - 1) / word * word }

// average is sum / count as a server computes it (strings/decimal.c, do_div_mod):
// to whole words of nine digits, truncated, and then rounded, half away from
// zero, to what it shows. sumScale is the scale of SUM's type, decimals that of
// AVG's.
//
//	scale 5, shown 9 digits: the quotient has just nine, and isn't rounded
//	scale 2, shown 6 digits: the quotient has nine, and is rounded to six
func average(sum *exact, count uint64, sumScale, decimals int) ([]byte, error) {
	increment := max(0, decimals-sumScale-(wholeWords(sumScale)-sumScale))
	digits := wholeWords(wholeWords(sumScale) + increment)
	n := new(big.Int).Mul(&sum.n, power(max(0, digits-sum.scale)))
	if digits < sum.scale {
		return nil, ErrMalformed
	}
	n.Quo(n, new(big.Int).SetUint64(count)) // truncated
	if digits > decimals {
		unit := power(digits - decimals)
		q, r := new(big.Int).QuoRem(n, unit, new(big.Int))
		if r.Abs(r).Lsh(r, 1).Cmp(unit) >= 0 {
			q.Add(q, big.NewInt(int64(n.Sign())))
		}
		n = q
	} else {
		n.Mul(n, power(decimals-digits))
	}
	e := exact{scale: decimals}
	e.n.Set(n)
	return e.text(decimals)
}
