package planner

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/keys"
)

// operand is an expression as far as Shunt evaluates it: a literal, a
// parameter, DEFAULT, or anything else (unknown).
type operand struct {
	kind  operandKind
	value keys.Value
	// class is classNull for a parameter whose value may be of any.
	class class
	param int
}

type operandKind uint8

const (
	unknown operandKind = iota
	literal
	parameter
	defaulted
)

// class groups values that MySQL compares alike. Where one predicate has
// several (a BETWEEN 1 AND '5') MySQL picks the comparison by rules of its own,
// and Shunt doubts.
type class uint8

const (
	classNull class = iota
	classNumber
	classString
	classBinary
	classTemporal
)

// resolve gives the operand's value for the parameters; ok is false where it
// has none that is known.
func (o operand) resolve(params []keys.Value) (v keys.Value, c class, ok bool) {
	switch o.kind {
	case literal:
		return o.value, o.class, true
	case parameter:
		if o.param < len(params) {
			v = params[o.param]
			if o.class != classNull {
				return v, o.class, true
			}
			return v, classOf(v), true
		}
	case unknown, defaulted:
	}
	return v, classNull, false
}

// isNull reports a literal NULL.
func (o operand) isNull() bool { return o.kind == literal && o.value.IsNull() }

func null() operand { return operand{kind: literal, value: keys.Null(), class: classNull} }

func number(v keys.Value) operand { return operand{kind: literal, value: v, class: classNumber} }

// parameter is the n-th one, of a known class where it stands for a literal.
func (st *statement) parameter(n int) operand {
	o := operand{kind: parameter, param: n}
	if n < len(st.kinds) {
		o.class = literalKind(st.kinds[n]).class()
	}
	return o
}

// evalTokens reads the tokens of one expression: optional sign and number,
// NULL, TRUE, FALSE, DEFAULT, ?, strings, hex and bit literals, DATE'..'.
// Everything else is unknown.
func (st *statement) evalTokens(toks []token) operand {
	if len(toks) == 0 {
		return operand{}
	}
	text := func(t token) string { return st.src[t.start:t.end] }
	t := toks[0]
	if t.kind == tokOp && len(toks) == 2 {
		switch text(t) {
		case "-":
			return st.numberOf(toks[1], true)
		case "+":
			return st.numberOf(toks[1], false)
		}
		return operand{}
	}
	switch t.kind {
	case tokInt, tokDecimal, tokFloat:
		if len(toks) == 1 {
			return st.numberOf(t, false)
		}
	case tokParam:
		if len(toks) == 1 {
			if n := st.paramAt(int(t.start)); n >= 0 {
				return st.parameter(n)
			}
		}
	case tokWord:
		w := strings.ToLower(text(t))
		if len(toks) == 1 {
			switch w {
			case "null":
				return null()
			case "true":
				return number(keys.Int(1))
			case "false":
				return number(keys.Int(0))
			case "default":
				return operand{kind: defaulted}
			}
		}
		if len(toks) == 2 && toks[1].kind == tokString && (w == "date" || w == "timestamp" || w == "time") {
			return operand{kind: literal, value: keys.Temporal(string(st.unescape(toks[1]))), class: classTemporal}
		}
	case tokString, tokIntro:
		return st.stringOf(toks)
	case tokHex, tokBit:
		if len(toks) == 1 {
			if b, ok := bitsOf(text(t), t.kind); ok {
				return operand{kind: literal, value: keys.Bytes(b), class: classBinary}
			}
		}
	case tokEOF, tokQuoted, tokVar, tokOp, tokEnd, tokBad:
	}
	return operand{}
}

func (st *statement) numberOf(t token, negative bool) operand {
	s := st.src[t.start:t.end]
	switch t.kind {
	case tokInt:
		n, err := strconv.ParseUint(s, 10, 64)
		switch {
		case err != nil:
			return decimalOf(s, negative)
		case !negative && n <= math.MaxInt64:
			return number(keys.Int(int64(n)))
		case !negative:
			return number(keys.Uint(n))
		case n <= 1<<63:
			return number(keys.Int(-int64(n)))
		}
		return decimalOf(s, true)
	case tokDecimal:
		return decimalOf(s, negative)
	case tokFloat:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return operand{}
		}
		if negative {
			f = -f
		}
		return number(keys.Float(f))
	default:
		return operand{}
	}
}

func decimalOf(s string, negative bool) operand {
	if strings.HasPrefix(s, ".") {
		s = "0" + s
	}
	s = strings.TrimSuffix(s, ".")
	if len(s) > 81 { // more digits than MySQL's DECIMAL keeps
		return operand{}
	}
	if negative {
		s = "-" + s
	}
	return number(keys.Decimal(s))
}

// stringOf reads 'a' 'b', _utf8mb4'a', N'a', _latin1 x'41'.
func (st *statement) stringOf(toks []token) operand {
	charset := st.settings.Charset
	i := 0
	if toks[0].kind == tokIntro {
		intro := strings.ToLower(st.src[toks[0].start:toks[0].end])
		charset = strings.TrimPrefix(intro, "_")
		if intro == "n" || charset == "utf8" {
			charset = "utf8mb3"
		}
		i = 1
		if len(toks) == 2 && (toks[1].kind == tokHex || toks[1].kind == tokBit) {
			b, ok := bitsOf(st.src[toks[1].start:toks[1].end], toks[1].kind)
			if !ok {
				return operand{}
			}
			return textOf(b, charset)
		}
	}
	if i == len(toks) {
		return operand{}
	}
	var b []byte
	for ; i < len(toks); i++ {
		if toks[i].kind != tokString {
			return operand{}
		}
		b = append(b, st.unescape(toks[i])...)
	}
	return textOf(b, charset)
}

func textOf(b []byte, charset string) operand {
	if n := leastWidth(charset); len(b)%n != 0 {
		return operand{} // the server puts zeros before it: _ucs2 x'61' is x'0061'
	}
	if charset == "binary" {
		return operand{kind: literal, value: keys.Bytes(b), class: classBinary}
	}
	return operand{kind: literal, value: keys.String(b, charset), class: classString}
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

// unescape is the value of a string token.
// https://dev.mysql.com/doc/refman/9.0/en/string-literals.html
func (st *statement) unescape(t token) []byte {
	s := st.src[t.start:t.end]
	q := s[0]
	s = s[1 : len(s)-1]
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == q: // doubled
			i++
		case c == '\\' && !st.settings.NoBackslashEscapes && i+1 < len(s):
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

func bitsOf(s string, kind tokenKind) ([]byte, bool) {
	quoted := s[len(s)-1] == '\''
	if quoted {
		s = s[:len(s)-1]
	}
	s = s[2:]
	if kind == tokHex {
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

// evalExpr is evalTokens for a parsed expression. The literal's text is read
// from the statement itself, at the offset that the parser gives, since the
// parser's value has lost the introducer and a decimal's exact text; it must
// agree with the parser's value, or Shunt doubts.
func (st *statement) evalExpr(e ast.ExprNode) operand {
	for {
		p, ok := e.(*ast.ParenthesesExpr)
		if !ok {
			break
		}
		e = p.Expr
	}
	switch e := e.(type) {
	case *driver.ParamMarkerExpr:
		if n := st.paramAt(e.Offset); n >= 0 {
			return st.parameter(n)
		}
	case *ast.DefaultExpr:
		if e.Name == nil {
			return operand{kind: defaulted}
		}
	case *driver.ValueExpr:
		return st.evalLiteral(e)
	case *ast.UnaryOperationExpr:
		v, ok := e.V.(*driver.ValueExpr)
		if !ok || e.Op != opcode.Minus && e.Op != opcode.Plus {
			return operand{}
		}
		i := st.tokenAt(v.OriginTextPosition())
		if i < 0 || st.evalLiteral(v).class != classNumber || st.toks[i].kind == tokWord {
			return operand{}
		}
		return st.numberOf(st.toks[i], e.Op == opcode.Minus)
	case *ast.FuncCallExpr:
		switch e.FnName.L {
		case ast.DateLiteral, ast.TimestampLiteral, ast.TimeLiteral:
			if i := st.tokenAt(e.OriginTextPosition()); i >= 0 && i+2 <= len(st.toks) {
				if o := st.evalTokens(st.toks[i : i+2]); o.class == classTemporal {
					return o
				}
			}
		}
	}
	return operand{}
}

func (st *statement) evalLiteral(e *driver.ValueExpr) operand {
	i := st.tokenAt(e.OriginTextPosition())
	if i < 0 {
		return operand{}
	}
	j := i + 1
	if st.toks[i].kind == tokIntro && j < len(st.toks) {
		j++
	}
	if st.toks[j-1].kind == tokString {
		for j < len(st.toks) && st.toks[j].kind == tokString {
			j++
		}
	}
	o := st.evalTokens(st.toks[i:j])
	agree := false
	switch e.Kind() {
	case driver.KindNull:
		agree = o.isNull()
	case driver.KindInt64, driver.KindUint64, driver.KindMysqlDecimal, driver.KindFloat64:
		agree = o.kind == literal && o.class == classNumber
	case driver.KindString:
		agree = o.kind == literal && (o.class == classString || o.class == classBinary) && string(st.textBytes(i, j)) == e.GetString()
	case driver.KindBinaryLiteral:
		agree = o.kind == literal && (o.class == classBinary || o.class == classString)
	}
	if !agree {
		return operand{}
	}
	return o
}

// textBytes joins the strings among tokens i to j.
func (st *statement) textBytes(i, j int) []byte {
	var b []byte
	for ; i < j; i++ {
		if st.toks[i].kind == tokString {
			b = append(b, st.unescape(st.toks[i])...)
		}
	}
	return b
}

// classOf tells a parameter's class from its SQL text.
func classOf(v keys.Value) class {
	switch {
	case v.IsNull():
		return classNull
	case v.IsInteger():
		return classNumber
	}
	if _, _, ok := v.AsText(); ok {
		return classString
	}
	s := v.Literal()
	if s == "" {
		return classBinary
	}
	switch c := s[0]; {
	case isDigit(c), c == '-', c == '+', c == '.':
		if strings.HasPrefix(s, "0x") {
			return classBinary
		}
		return classNumber
	case c == '_':
		if strings.HasPrefix(s, "_binary") {
			return classBinary
		}
		return classString
	case c == '\'':
		return classString
	case c == 'D', c == 'T':
		return classTemporal
	}
	return classBinary
}

// rowColumns cuts a row `(a, b, ..)` at its commas into the tokens of each
// column.
func (st *statement) rowColumns(r rowSpan) [][]token { return st.rowColumnsIn(&rowRoom{}, r) }

// rowRoom is memory for the tokens of one row after another.
type rowRoom struct {
	toks   []token
	fields [][]token
}

// rowColumnsIn is rowColumns in memory that is used again.
func (st *statement) rowColumnsIn(room *rowRoom, r rowSpan) [][]token {
	lx := newLexer(st.src[:r.end], st.settings, st.server)
	lx.pos = int(r.start) + 1
	toks, out := room.toks[:0], room.fields[:0]
	defer func() { room.toks, room.fields = toks, out }()
	begin := 0
	field := func() []token { return toks[begin:len(toks):len(toks)] }
	depth := 1
	for {
		t := lx.next()
		switch {
		case t.kind == tokEOF || t.kind == tokBad:
			out = append(out, field())
			return out
		case t.kind == tokOp && st.src[t.start] == '(':
			depth++
		case t.kind == tokOp && st.src[t.start] == ')':
			depth--
			if depth == 0 {
				if len(out) == 0 && len(toks) == 0 {
					return nil // ()
				}
				out = append(out, field())
				return out
			}
		case t.kind == tokOp && st.src[t.start] == ',' && depth == 1:
			out = append(out, field())
			begin = len(toks)
			continue
		}
		toks = append(toks, t)
	}
}
