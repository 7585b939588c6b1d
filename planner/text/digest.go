package text

import (
	"bytes"
	"strings"
)

// maxDigested bounds the bytes of a statement that Digest reads: of one of many rows it costs little
// beside what planning them does.
const maxDigested = 4 << 10

// Digest is a statement without what differs between its executions, up to most bytes: the same
// for one that is sent as text and one that is prepared.
//
//	select  name FROM t WHERE id IN (1, 2) -- of them     select name FROM t WHERE id IN (...)
//	INSERT INTO t VALUES (1, NOW()), (2, NOW())           INSERT INTO t VALUES (?, NOW())
//
// No literal is in it: strings, numbers, NULL, TRUE and FALSE are ?, with their sign and their
// character set. Comments are left out. What can't be read ends it.
func Digest(sql string, s Settings, most int) string {
	cut := len(sql) > maxDigested
	if cut {
		sql = sql[:maxDigested]
	}
	readable := !HidesASCII(s.Charset) || IsASCII(sql) // else a byte of a literal may look like its end
	d := digester{src: sql, out: make([]byte, 0, min(most, len(sql)+len(sql)/8))}
	lx := NewLexer(sql, s, ServerVersion{MariaDB: true})
	for readable || len(d.out) == 0 {
		t := lx.Next()
		if t.Kind == EOF || t.Kind == Bad {
			break
		}
		d.token(t)
	}
	if cut {
		d.endCut()
	}
	return strings.ToValidUTF8(string(d.out[:min(most, len(d.out))]), "")
}

// digester writes a Digest.
type digester struct {
	src string
	out []byte
	// last is what was written last, before what stood before it.
	last, before digestToken
	// opens are where in out the parentheses that are open begin.
	opens []int
	// rows: VALUES has begun. row is where in out its last row begins, -1 before the first, and
	// rowEnd where that ends.
	rows        bool
	row, rowEnd int
}

// digestToken is a token as far as what comes next depends on it.
type digestToken uint8

const (
	digestNothing digestToken = iota
	digestName                // what a sign behind it subtracts from
	digestWord                // a word that no operand ends with
	digestOperator
	digestSign
	digestOpen
	digestClose
	digestComma
	digestValue
)

func (d *digester) token(t Token) {
	word := d.src[t.Start:t.End]
	switch t.Kind {
	case Introducer:
		return // of the string that follows
	case String:
		if d.last == digestValue { // 'a' 'b' is one
			return
		}
		d.value()
	case Int, Decimal, Float, Hex, Bit, Param:
		d.value()
	case Word:
		switch {
		case d.isValue(word):
			d.value()
		case endsNoOperand(word):
			d.write(digestWord, word)
			if strings.EqualFold(word, "values") || strings.EqualFold(word, "value") {
				d.rows, d.row = len(d.opens) == 0, -1
			}
		default:
			d.write(digestName, word)
			if d.rows && len(d.opens) == 0 {
				d.rows = false // ON DUPLICATE KEY UPDATE
			}
		}
	case Operator:
		d.operator(word)
	default:
		d.write(digestName, word)
	}
}

// isValue reports NULL, TRUE and FALSE where they stand for a value: IS NOT NULL is another shape.
func (d *digester) isValue(word string) bool {
	if len(word) != len("null") && len(word) != len("false") {
		return false
	}
	if d.last == digestWord && (d.endsWith("is") || d.endsWith("not")) || d.last == digestName {
		return false
	}
	return strings.EqualFold(word, "null") || strings.EqualFold(word, "true") || strings.EqualFold(word, "false")
}

func (d *digester) endsWith(word string) bool {
	n := len(d.out) - len(word)
	return n >= 0 && strings.EqualFold(string(d.out[n:]), word)
}

func (d *digester) operator(op string) {
	switch op {
	case "(":
		if d.last != digestName && d.last != digestValue { // else it is a function's
			d.space()
		}
		d.opens = append(d.opens, len(d.out))
		d.put(digestOpen, op)
	case ")":
		d.put(digestClose, op)
		if n := len(d.opens); n > 0 {
			open := d.opens[n-1]
			d.opens = d.opens[:n-1]
			d.list(open)
			d.sameRow(open)
		}
	case ",":
		d.put(digestComma, op)
	case ".":
		d.put(digestOperator, op)
	case "-", "+":
		kind := digestSign
		if d.last == digestName || d.last == digestValue || d.last == digestClose {
			kind = digestOperator
		}
		d.write(kind, op)
	default:
		d.write(digestOperator, op)
	}
}

// value writes a ? for a value and its sign.
func (d *digester) value() {
	if d.last == digestSign {
		d.out = d.out[:len(d.out)-1]
		for len(d.out) > 0 && d.out[len(d.out)-1] == ' ' {
			d.out = d.out[:len(d.out)-1]
		}
		d.last = d.before
	}
	d.write(digestValue, "?")
}

// endCut ends the digest of a statement whose end wasn't read: rows and lists of which only the
// beginning was are as whole ones.
func (d *digester) endCut() {
	if d.rows && d.row >= 0 {
		d.out = d.out[:d.rowEnd]
		return
	}
	for len(d.opens) > 0 {
		d.operator(")")
	}
}

// list makes (...) of the values behind IN, whose list has just ended: lists of any length are one
// shape.
func (d *digester) list(open int) {
	if len(bytes.Trim(d.out[open:], "(?, )")) == 0 && endsIn(d.out[:open]) {
		d.out = append(d.out[:open], "(...)"...)
	}
}

func endsIn(out []byte) bool {
	n := len(out) - len(" in ")
	return n >= 0 && bytes.EqualFold(out[n:], []byte(" in "))
}

// sameRow drops a row of VALUES, which has just ended, if it is as the one before it.
func (d *digester) sameRow(open int) {
	if !d.rows || len(d.opens) > 0 {
		return
	}
	if d.row >= 0 && bytes.Equal(d.out[d.row:d.rowEnd], d.out[open:]) {
		d.out = d.out[:d.rowEnd]
		return
	}
	d.row, d.rowEnd = open, len(d.out)
}

// write writes a token with a space before it where one stands usually.
func (d *digester) write(kind digestToken, s string) {
	d.space()
	d.put(kind, s)
}

func (d *digester) space() {
	n := len(d.out)
	if n > 0 && d.out[n-1] != '(' && d.out[n-1] != '.' && d.out[n-1] != ' ' {
		d.out = append(d.out, ' ')
	}
}

func (d *digester) put(kind digestToken, s string) {
	d.before, d.last = d.last, kind
	d.out = append(d.out, s...)
}

// endsNoOperand reports a word behind which a sign is a number's: -5 in BETWEEN -5 AND 5.
func endsNoOperand(word string) bool {
	var lower [len("duplicate")]byte
	if len(word) > len(lower) {
		return false
	}
	for i := range len(word) {
		lower[i] = word[i] | 0x20
	}
	switch string(lower[:len(word)]) {
	case "select", "where", "and", "or", "xor", "not", "in", "between", "like", "is", "on", "set", "limit", "offset", "by", "having",
		"case", "when", "then", "else", "values", "value", "return", "distinct", "default", "div", "mod", "interval", "as":
		return true
	}
	return false
}
