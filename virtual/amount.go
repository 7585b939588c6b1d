package virtual

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// amount is what some rows add to a virtual column's value.
type amount struct {
	n    int64    // rows; of an aggregate of a column those where it isn't NULL
	has  bool     // there is a value: SUM's, MIN's or MAX's
	num  *big.Int // in units of the last decimal
	text string   // of a date
	// row is one row's value, as a server writes it, which is ordered by num; nil is NULL.
	row []byte
}

// kind is how amounts are computed.
type kind struct {
	aggregate catalog.Aggregate
	scale     int  // decimals of num
	dates     bool // values are texts, which sort as what they stand for
	// texts: a row's value is one, in utf8mb4.
	texts bool
	// zoned: sessions write them in their time zones.
	zoned bool
}

func kindOf(v *catalog.VirtualColumn) kind {
	k := kind{aggregate: v.Aggregate, texts: v.ValueCharset != ""}
	if v.Ordered() {
		k.dates = strings.HasPrefix(v.ValueType, "date")
		return k
	}
	base, in, _ := strings.Cut(v.ValueType, "(")
	switch {
	case strings.HasPrefix(base, "date"), base == "timestamp":
		k.dates, k.zoned = true, base == "timestamp"
	case base == "decimal":
		if _, scale, ok := strings.Cut(in, ","); ok {
			_, _ = fmt.Sscanf(scale, "%d", &k.scale)
		}
	}
	return k
}

// counts reports that there is no value beside the number of rows.
func (k kind) counts() bool {
	return k.aggregate == catalog.CountRows || k.aggregate == catalog.CountNulls
}

// ordered reports that the value is one row's.
func (k kind) ordered() bool { return k.aggregate == catalog.Last || k.aggregate == catalog.First }

// read is the amount of n rows with a value, and what its row is ordered by, as a server writes them; nil is NULL.
func (k kind) read(n int64, value, order []byte) (amount, error) {
	a := amount{n: n}
	if k.ordered() {
		if order == nil {
			return a, nil
		}
		num, ok := new(big.Int).SetString(string(order), 10)
		if !ok {
			return a, fmt.Errorf("order %q is no integer", order)
		}
		a.has, a.num, a.row = true, num, bytes.Clone(value)
		return a, nil
	}
	if k.counts() || value == nil {
		return a, nil
	}
	a.has = true
	if k.dates {
		a.text = string(value)
		return a, nil
	}
	whole, part, _ := strings.Cut(string(value), ".")
	if len(part) > k.scale {
		return a, fmt.Errorf("value %s has more than %d decimals", value, k.scale)
	}
	num, ok := new(big.Int).SetString(whole+part+strings.Repeat("0", k.scale-len(part)), 10)
	if !ok {
		return a, fmt.Errorf("value %q is no number", value)
	}
	a.num = num
	return a, nil
}

// literal is the value in a statement.
func (k kind) literal(a amount) string {
	switch {
	case !a.has || k.ordered() && a.row == nil:
		return "NULL"
	case k.texts:
		return fmt.Sprintf("_utf8mb4 X'%x'", a.row)
	case k.ordered() && k.dates:
		return "'" + string(a.row) + "'"
	case k.ordered():
		return string(a.row)
	case k.dates && !k.zoned && !strings.HasPrefix(a.text, "0000") && !strings.Contains(a.text, "-00"):
		if strings.Contains(a.text, ":") {
			return "TIMESTAMP'" + a.text + "'"
		}
		return "DATE'" + a.text + "'"
	case k.dates:
		return "'" + a.text + "'"
	}
	digits := new(big.Int).Abs(a.num).String()
	if k.scale > 0 {
		if len(digits) <= k.scale {
			digits = strings.Repeat("0", k.scale+1-len(digits)) + digits
		}
		digits = digits[:len(digits)-k.scale] + "." + digits[len(digits)-k.scale:]
	}
	if a.num.Sign() < 0 {
		digits = "-" + digits
	}
	return digits
}

// order is the literal of what the value's row is ordered by.
func (k kind) order(a amount) string {
	if !k.ordered() || !a.has {
		return "NULL"
	}
	return a.num.String()
}

// plus is the amount of two sets of rows.
func (k kind) plus(a, b amount) amount {
	out := amount{n: a.n + b.n}
	switch {
	case !b.has:
		out.has, out.num, out.text, out.row = a.has, a.num, a.text, a.row
	case !a.has:
		out.has, out.num, out.text, out.row = b.has, b.num, b.text, b.row
	case k.aggregate == catalog.Sum:
		out.has, out.num = true, new(big.Int).Add(a.num, b.num)
	default:
		first := a.text < b.text
		if !k.dates {
			first = a.num.Cmp(b.num) < 0
		}
		out.has = true
		if first == (k.aggregate == catalog.Min || k.aggregate == catalog.First) {
			out.num, out.text, out.row = a.num, a.text, a.row
		} else {
			out.num, out.text, out.row = b.num, b.text, b.row
		}
	}
	return out
}

// minus is that of rows which are gone; ok is false where the others' isn't known.
func (k kind) minus(a amount) (out amount, ok bool) {
	out = amount{n: -a.n, has: a.has}
	if a.has && k.aggregate != catalog.Sum {
		return out, false
	}
	if a.has {
		out.num = new(big.Int).Neg(a.num)
	}
	return out, true
}
