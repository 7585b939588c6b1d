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

// parseExact reads "-12.50".
func parseExact(v []byte) (e exact, ok bool) {
	whole, fraction, _ := bytes.Cut(v, []byte("."))
	digits := make([]byte, 0, len(v))
	digits = append(append(digits, whole...), fraction...)
	for i, c := range digits {
		if (c < '0' || c > '9') && (i > 0 || c != '-') {
			return e, false
		}
	}
	if len(digits) == 0 || len(digits) > 200 {
		return e, false
	}
	_, ok = e.n.SetString(string(digits), 10)
	e.scale = len(fraction)
	return e, ok
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

func (e *exact) add(o exact) {
	e.rescale(&o)
	e.n.Add(&e.n, &o.n)
}

func (e *exact) cmp(o exact) int {
	e.rescale(&o)
	return e.n.Cmp(&o.n)
}

// text writes the number with the given number of digits after the point,
// which are not fewer than it has.
func (e *exact) text(decimals int) ([]byte, error) {
	n := new(big.Int).Set(&e.n)
	if e.scale < decimals {
		n.Mul(n, power(decimals-e.scale))
	} else if e.scale > decimals {
		q, r := new(big.Int).QuoRem(n, power(e.scale-decimals), new(big.Int))
		if r.Sign() != 0 {
			return nil, ErrMalformed
		}
		n = q
	}
	digits := new(big.Int).Abs(n).Append(nil, 10)
	if len(digits) > maxDigits {
		return nil, ErrOverflow
	}
	for len(digits) <= decimals {
		digits = append([]byte{'0'}, digits...)
	}
	var out []byte
	if n.Sign() < 0 {
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
func average(sum exact, count uint64, sumScale, decimals int) ([]byte, error) {
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
