package e2e

import (
	"fmt"
	mathrand "math/rand/v2"
)

// randomRows makes rows of all types, many of them equal in some columns.
type randomRows struct {
	rnd *mathrand.Rand
	id  int
}

func newRandomRows(seed uint64) *randomRows {
	return &randomRows{rnd: mathrand.New(mathrand.NewPCG(seed, 1))}
}

func (r *randomRows) any(of ...string) string { return of[r.rnd.IntN(len(of))] }

func (r *randomRows) null(s string) string {
	if r.rnd.IntN(9) == 0 {
		return "NULL"
	}
	return s
}

func (r *randomRows) text() string {
	return "'" + r.any("", "a", "A", "a ", "á", "ab", "a\t", "a!", "b", "ss", "ß", "SS", "z", "Z", "é", "e", "E ", "10", "9", " a", "ö", "oe", "ñ", "n", "aa", "å") +
		r.any("", "", "", " ", "x", "\t") + "'"
}

// row are the values of the table r of TestMergeOrder.
func (r *randomRows) row() []string {
	r.id++
	n := r.rnd.IntN
	return []string{
		fmt.Sprint(r.id), r.null(fmt.Sprint(n(30) - 15)), r.null(r.any("0", "18446744073709551615", "9223372036854775808", "9223372036854775807", fmt.Sprint(n(100)))),
		r.null(fmt.Sprint(n(256) - 128)), r.null(fmt.Sprint(n(300))), r.null(fmt.Sprint(n(20) - 10)),
		r.null(r.any("-", "") + r.any("0", "1", "99999999999999999999999999999999999.999999999999999999999999999999", "0.000000000000000000000000000001", "12.5", "12.50001", fmt.Sprint(n(100)))),
		r.null(fmt.Sprintf("%s%d.%02d", r.any("-", ""), n(12), n(100))),
		r.null(fmt.Sprintf("1.23456%d", n(1000))), r.null(fmt.Sprintf("%s1.2345678901234%dE%d", r.any("-", ""), n(100), n(5))), r.null(fmt.Sprintf("%d.%02d", n(5)-2, n(100))),
		r.null(fmt.Sprintf("'20%02d-0%d-1%d'", n(30), 1+n(9), n(10))), r.null(fmt.Sprintf("'202%d-01-01 10:00:00.%06d'", n(3), n(1000))), r.null(fmt.Sprintf("'202%d-01-01 10:00:%02d'", n(3), n(60))),
		r.null(fmt.Sprintf("'202%d-10-2%d 0%d:30:00.%03d'", n(3), 4+n(4), 1+n(3), n(1000))), r.null(fmt.Sprintf("'%s%d:%02d:00.%02d'", r.any("-", ""), n(838), n(60), n(100))), r.null(fmt.Sprint(1990 + n(30))),
		r.null(r.text()), r.null(r.text()), r.null(r.text()), r.null(r.text()), r.null(r.text()), r.null(r.text()),
		r.null(r.any("'z'", "'a'", "'m'")), r.null(r.any("''", "'x'", "'y'", "'x,w'", "'w'", "'x,y,w'")), r.null(fmt.Sprint(n(4096))),
	}
}
