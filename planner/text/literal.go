package text

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/keys"
)

// Operand is an expression as far as Shunt evaluates it: a literal, a
// parameter, DEFAULT, or anything else (unknown).
type Operand struct {
	Kind  OperandKind
	Value keys.Value
	// Class is ClassNull for a parameter whose value may be of any.
	Class Class
	param int
}

// OperandKind tells what an Operand is.
type OperandKind uint8

const (
	Unknown     OperandKind = iota // an expression that Shunt doesn't evaluate
	Literal                        // its Value is known
	Placeholder                    // `?`: see Resolve
	Default                        // DEFAULT
)

// Class groups values that MySQL compares alike. Where one predicate has
// several (a BETWEEN 1 AND '5') MySQL picks the comparison by rules of its own,
// and Shunt doubts.
type Class uint8

const (
	ClassNull Class = iota
	ClassNumber
	ClassString
	ClassBinary
	ClassTemporal
)

// Resolve gives the operand's value for the parameters; ok is false where it
// has none that is known.
func (o *Operand) Resolve(params []keys.Value) (v keys.Value, c Class, ok bool) {
	switch o.Kind {
	case Literal:
		return o.Value, o.Class, true
	case Placeholder:
		if o.param < len(params) {
			v = params[o.param]
			if o.Class != ClassNull {
				return v, o.Class, true
			}
			return v, ClassOf(v), true
		}
	case Unknown, Default:
	}
	return v, ClassNull, false
}

// IsNull reports a literal NULL.
func (o Operand) IsNull() bool { return o.Kind == Literal && o.Value.IsNull() }

func null() Operand { return Operand{Kind: Literal, Value: keys.Null(), Class: ClassNull} }

// Number is a literal that compares as a number.
func Number(v keys.Value) Operand { return Operand{Kind: Literal, Value: v, Class: ClassNumber} }

// Parameter is the n-th one, of a known class where it stands for a literal.
func (st *Statement) Parameter(n int) Operand {
	o := Operand{Kind: Placeholder, param: n}
	if n < len(st.Kinds) {
		o.Class = LiteralKind(st.Kinds[n]).Class()
	}
	return o
}

// Evaluate reads the tokens of one expression: optional sign and number,
// NULL, TRUE, FALSE, DEFAULT, ?, strings, hex and bit literals, DATE'..'.
// Everything else is unknown.
func (st *Statement) Evaluate(toks []Token) Operand {
	if len(toks) == 0 {
		return Operand{}
	}
	text := func(t Token) string { return st.Src[t.Start:t.End] }
	t := toks[0]
	if t.Kind == Operator && len(toks) == 2 {
		switch text(t) {
		case "-":
			return st.NumberOf(toks[1], true)
		case "+":
			return st.NumberOf(toks[1], false)
		}
		return Operand{}
	}
	switch t.Kind {
	case Int, Decimal, Float:
		if len(toks) == 1 {
			return st.NumberOf(t, false)
		}
	case Param:
		if len(toks) == 1 {
			if n := st.ParamAt(int(t.Start)); n >= 0 {
				return st.Parameter(n)
			}
		}
	case Word:
		w := strings.ToLower(text(t))
		if len(toks) == 1 {
			switch w {
			case "null":
				return null()
			case "true":
				return Number(keys.Int(1))
			case "false":
				return Number(keys.Int(0))
			case "default":
				return Operand{Kind: Default}
			}
		}
		if len(toks) == 2 && toks[1].Kind == String && (w == "date" || w == "timestamp" || w == "time") {
			return Operand{Kind: Literal, Value: keys.Temporal(string(st.Unescape(toks[1]))), Class: ClassTemporal}
		}
	case String, Introducer:
		return st.StringOf(toks)
	case Hex, Bit:
		if len(toks) == 1 {
			if b, ok := BitsOf(text(t), t.Kind); ok {
				if strings.HasPrefix(text(t), "0x") {
					return Operand{Kind: Literal, Value: keys.Hex(b), Class: ClassBinary}
				}
				return Operand{Kind: Literal, Value: keys.Bytes(b), Class: ClassBinary}
			}
		}
	case EOF, Quoted, Variable, Operator, Semicolon, Bad:
	}
	return Operand{}
}

// NumberOf is the exact value of a token that is a number, with its sign; unknown for any other.
func (st *Statement) NumberOf(t Token, negative bool) Operand {
	s := st.Src[t.Start:t.End]
	switch t.Kind {
	case Int:
		n, err := strconv.ParseUint(s, 10, 64)
		switch {
		case err != nil:
			return decimalOf(s, negative)
		case !negative && n <= math.MaxInt64:
			return Number(keys.Int(int64(n)))
		case !negative:
			return Number(keys.Uint(n))
		case n <= 1<<63:
			return Number(keys.Int(-int64(n)))
		}
		return decimalOf(s, true)
	case Decimal:
		return decimalOf(s, negative)
	case Float:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return Operand{}
		}
		if negative {
			f = -f
		}
		return Number(keys.Float(f))
	default:
		return Operand{}
	}
}

func decimalOf(s string, negative bool) Operand {
	if strings.HasPrefix(s, ".") {
		s = "0" + s
	}
	s = strings.TrimSuffix(s, ".")
	if len(s) > 81 { // more digits than MySQL's DECIMAL keeps
		return Operand{}
	}
	if negative {
		s = "-" + s
	}
	return Number(keys.Decimal(s))
}

// StringOf reads 'a' 'b', _utf8mb4'a', N'a', _latin1 x'41'.
func (st *Statement) StringOf(toks []Token) Operand {
	charset := st.Settings.Charset
	i := 0
	if toks[0].Kind == Introducer {
		intro := strings.ToLower(st.Src[toks[0].Start:toks[0].End])
		charset = strings.TrimPrefix(intro, "_")
		if intro == "n" || charset == "utf8" {
			charset = "utf8mb3"
		}
		i = 1
		if len(toks) == 2 && (toks[1].Kind == Hex || toks[1].Kind == Bit) {
			b, ok := BitsOf(st.Src[toks[1].Start:toks[1].End], toks[1].Kind)
			if !ok {
				return Operand{}
			}
			if charset == "binary" {
				return Operand{Kind: Literal, Value: keys.Bytes(b), Class: ClassBinary}
			}
			return textOf(b, charset)
		}
	}
	if i == len(toks) {
		return Operand{}
	}
	var b []byte
	for ; i < len(toks); i++ {
		if toks[i].Kind != String {
			return Operand{}
		}
		b = append(b, st.Unescape(toks[i])...)
	}
	return textOf(b, charset)
}

func textOf(b []byte, charset string) Operand {
	if n := leastWidth(charset); len(b)%n != 0 {
		return Operand{} // the server puts zeros before it: _ucs2 x'61' is x'0061'
	}
	if charset == "binary" {
		return Operand{Kind: Literal, Value: keys.String(b, charset), Class: ClassBinary}
	}
	return Operand{Kind: Literal, Value: keys.String(b, charset), Class: ClassString}
}

// leastWidth is the number of bytes that a character has at least.
func leastWidth(charset string) int {
	switch charset {
	case "ucs2", "utf16", "utf16le":
		return 2
	case "utf32":
		return 4
	}
	return 1
}

// Unescape is the value of a string token.
// https://dev.mysql.com/doc/refman/9.0/en/string-literals.html
func (st *Statement) Unescape(t Token) []byte {
	s := st.Src[t.Start:t.End]
	q := s[0]
	s = s[1 : len(s)-1]
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == q: // doubled
			i++
		case c == '\\' && !st.Settings.NoBackslashEscapes && i+1 < len(s):
			i++
			switch c = s[i]; c {
			case '0':
				c = 0
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'Z':
				c = 26
			case '%', '_': // kept for LIKE
				out = append(out, '\\')
			}
		}
		out = append(out, c)
	}
	return out
}

// BitsOf are the bytes of a literal of kind Hex or Bit, 0x1f or b'11'. ok is false where its
// digits make no bytes.
func BitsOf(s string, kind TokenKind) ([]byte, bool) {
	quoted := s[len(s)-1] == '\''
	if quoted {
		s = s[:len(s)-1]
	}
	s = s[2:]
	if kind == Hex {
		if len(s)%2 == 1 {
			if quoted {
				return nil, false // x'1' is a syntax error
			}
			s = "0" + s
		}
		b, err := hex.DecodeString(s)
		return b, err == nil
	}
	b := make([]byte, (len(s)+7)/8)
	for i := range len(s) {
		if s[len(s)-1-i] == '1' {
			b[len(b)-1-i/8] |= 1 << (i % 8)
		}
	}
	return b, true
}

// Bytes joins the strings among tokens i to j.
func (st *Statement) Bytes(i, j int) []byte {
	var b []byte
	for ; i < j; i++ {
		if st.Tokens[i].Kind == String {
			b = append(b, st.Unescape(st.Tokens[i])...)
		}
	}
	return b
}

// ClassOf tells a parameter's class from its SQL text.
func ClassOf(v keys.Value) Class {
	switch {
	case v.IsNull():
		return ClassNull
	case v.IsInteger():
		return ClassNumber
	}
	if _, _, ok := v.AsText(); ok {
		return ClassString
	}
	s := v.Literal()
	if s == "" {
		return ClassBinary
	}
	switch c := s[0]; {
	case IsDigit(c), c == '-', c == '+', c == '.':
		if strings.HasPrefix(s, "0x") {
			return ClassBinary
		}
		return ClassNumber
	case c == '_':
		if strings.HasPrefix(s, "_binary") {
			return ClassBinary
		}
		return ClassString
	case c == '\'':
		return ClassString
	case c == 'D', c == 'T':
		return ClassTemporal
	}
	return ClassBinary
}

// RowColumns cuts a row `(a, b, ..)` at its commas into the tokens of each
// column.
func (st *Statement) RowColumns(r RowSpan) [][]Token { return st.RowColumnsIn(&RowRoom{}, r) }

// RowRoom is memory for the tokens of one row after another.
type RowRoom struct {
	toks   []Token
	fields [][]Token
}

// RowColumnsIn is RowColumns in memory that is used again.
func (st *Statement) RowColumnsIn(room *RowRoom, r RowSpan) [][]Token {
	lx := NewLexer(st.Src[:r.End], st.Settings, st.Server)
	lx.pos = int(r.Start) + 1
	toks, out := room.toks[:0], room.fields[:0]
	defer func() { room.toks, room.fields = toks, out }()
	begin := 0
	field := func() []Token { return toks[begin:len(toks):len(toks)] }
	depth := 1
	for {
		t := lx.Next()
		switch {
		case t.Kind == EOF || t.Kind == Bad:
			out = append(out, field())
			return out
		case t.Kind == Operator && st.Src[t.Start] == '(':
			depth++
		case t.Kind == Operator && st.Src[t.Start] == ')':
			depth--
			if depth == 0 {
				if len(out) == 0 && len(toks) == 0 {
					return nil // ()
				}
				out = append(out, field())
				return out
			}
		case t.Kind == Operator && st.Src[t.Start] == ',' && depth == 1:
			out = append(out, field())
			begin = len(toks)
			continue
		}
		toks = append(toks, t)
	}
}

// LiteralKind is what of a literal belongs to the shape.
//
// Rule kinds: planning asks of what class a value is, and of a parameter it is
// told that much. Counter-example: email IN ('a', 5) compares as numbers, so that
// no index serves, email IN ('a', 'b') as texts.
type LiteralKind uint8

const (
	NumberLiteral LiteralKind = 'n' // 5, -5, 5.25
	TextLiteral   LiteralKind = 't' // 'x'
	LimitLiteral  LiteralKind = 'l' // of LIMIT
	// KnownLiteral is a virtual column's value within CAST: nothing is routed by it.
	KnownLiteral LiteralKind = 'v'
)

// Class is how values of such literals compare.
func (k LiteralKind) Class() Class {
	if k == TextLiteral {
		return ClassString
	}
	return ClassNumber
}
