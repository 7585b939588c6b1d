package planner

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// Shape is a statement's text with its literals cut out, as far as a plan with
// parameters in their place is the plan of the statement:
//
//	SELECT c FROM t WHERE id = 5 AND name = 'x' LIMIT 10
//	SELECT c FROM t WHERE id = ? AND name = ? LIMIT ?      number, text, row count
//
// It is read in one pass without allocating, and belongs to one session, which
// reads its statements into it one after the other. What is left in the text,
// literals too, is compared byte by byte with the shape of a plan (planCache).
//
// Rule plain literals: a literal is cut out where it is all that a name, call or
// list is compared with (= < > <= >= <> != <=> IN BETWEEN LIKE) in WHERE, ON or SET,
// the end of a sum or product there, a value of a row of INSERT or REPLACE, or a
// number of LIMIT, and what follows ends the expression. Anywhere else the plan may
// depend on it.
// Counter-examples:
//
//	SELECT 5 ... ORDER BY 1                 names a column, is a place
//	SELECT a = 5 ... GROUP BY a = 5         are one expression, two ? are not
//	WHERE a = 'x' COLLATE utf8mb4_bin       compares otherwise
//	WHERE a = 'x' 'y', a = _latin1 'x'      are no value of their own
//	WHERE a = DATE '2020-01-01'             neither
//
// Rule plain text: a text is read only if this pass and the servers can't
// possibly read it differently: ASCII outside of strings; no variable, parameter,
// `;`, `{`, no comments but plain ones in slashes; no character set in which a byte
// of ASCII may be half a character. All else has no shape. Counter-example: SELECT
// 1 /*!80000 , 2 */.
type Shape struct {
	sql string
	// head and tail are comments around it, of which the shape has nothing: in each statement of a client that
	// traces they are others.
	head, tail string
	settings   *text.Settings
	hash       uint64
	literals   []shapeLiteral
	values     []keys.Value
	binding    Binding

	// recalled are shapes of before; plan is the one that the statement was recalled by, of
	// generation.
	recalled   [recalledShapes]recalled
	oldest     uint8
	plan       *cachedPlan
	generation *cacheGeneration
}

// shapeLiteral is a literal that was cut out: sql[start:end].
type shapeLiteral struct {
	start, end uint32
	kind       text.LiteralKind
	// escaped: the string has a backslash or a doubled quote in it.
	escaped bool
}

const (
	maxShapeLiterals = 256
	maxShapeText     = 16 << 10 // bytes of a statement that has a shape
	maxShape         = 4 << 10  // bytes of a shape
	maxShapeNumber   = 60       // digits: fewer than MySQL's DECIMAL keeps
	maxShapeLimit    = 18       // digits: surely within 64 bits
	maxShapeDepth    = 60
	shapeKept        = 32 // literals that there is room for between statements
)

// byteKind sorts bytes for the pass.
type byteKind uint8

const (
	byteOther byteKind = iota // has no shape
	byteSpace
	byteWord
	byteDigit
	byteQuote
	byteOp
)

var byteKinds = func() (k [256]byteKind) {
	for c := range k {
		switch c := byte(c); {
		case text.IsSpace(c):
			k[c] = byteSpace
		case text.IsDigit(c):
			k[c] = byteDigit
		case c < 0x80 && text.IsIdentByte(c):
			k[c] = byteWord
		case c == '\'' || c == '"' || c == '`':
			k[c] = byteQuote
		case strings.IndexByte("()=<>!,.*+-/%|&^~:", c) >= 0:
			k[c] = byteOp
		}
	}
	return k
}()

// shapeWord are the words that the pass heeds.
type shapeWord uint8

const (
	wordOther shapeWord = iota
	wordSelect
	wordInsert // or REPLACE
	wordWrite  // UPDATE, DELETE
	wordValues
	wordIn
	wordBetween
	wordLike
	// These end an expression.
	wordClause // WHERE, ON, SET: comparisons follow
	wordOpen   // FROM, GROUP, HAVING, ORDER, WINDOW, RETURNING: none do
	wordAnd
	wordLimit
	wordOffset
	wordEnds // any other
)

// shapeWordOf knows words in any case.
func shapeWordOf(w string) shapeWord {
	var lower [len("straight_join")]byte
	if len(w) > len(lower) {
		return wordOther
	}
	for i := range len(w) {
		c := w[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	switch string(lower[:len(w)]) {
	case "select":
		return wordSelect
	case "insert", "replace":
		return wordInsert
	case "update", "delete":
		return wordWrite
	case "values", "value":
		return wordValues
	case "in":
		return wordIn
	case "between":
		return wordBetween
	case "like":
		return wordLike
	case "where", "on", "set":
		return wordClause
	case "from", "group", "having", "order", "window", "returning":
		return wordOpen
	case "and":
		return wordAnd
	case "limit":
		return wordLimit
	case "offset":
		return wordOffset
	case "or", "xor", "for", "lock", "union",
		"join", "inner", "left", "right", "cross", "natural", "straight_join":
		return wordEnds
	}
	return wordOther
}

// What may come next, as the token before has it.
type expected uint8

const (
	nothing   expected = iota
	aValue             // a literal that is cut out in WHERE, ON and SET
	aTerm              // the same, without a sign
	aList              // the ( of IN
	aRowValue          // a value of a row or list
	aLimit             // a number of LIMIT
)

// shapeReader is where a pass stands.
type shapeReader struct {
	sql string
	// depth of parentheses. clauses, lists and ins have a bit for each, the lowest is
	// the current one's: comparisons count; after `(` and `,` comes a value; it is
	// the list of an IN.
	depth               int
	clauses, lists, ins uint64
	insert              bool
	rows                bool // the rows of VALUES may go on
	limit               bool // in LIMIT
	between             int  // depth of an open BETWEEN, -1
	next                expected
	// name: the token before was a name or `)`, with which a literal may be compared.
	// pending: the last literal is cut out if the next token ends its expression.
	// dot: it was a point, behind which any word is a name.
	name, pending, dot bool
}

// Clear drops the statement, and what it needed if that is much.
func (sh *Shape) Clear() {
	if cap(sh.literals) > shapeKept {
		*sh = Shape{}
		return
	}
	sh.sql, sh.settings, sh.literals, sh.plan, sh.generation = "", nil, sh.literals[:0], nil, nil
	sh.head, sh.tail = "", ""
	clearFew(sh.values)
	sh.binding.Clear()
}

// Keep gives the shape a copy of its statement, and returns it: Read doesn't make one.
func (sh *Shape) Keep() string {
	if sh.head != "" || sh.tail != "" {
		sh.head, sh.tail = strings.Clone(sh.head), strings.Clone(sh.tail)
	}
	sh.sql = strings.Clone(sh.sql)
	return sh.commented(sh.sql)
}

// Read reads a statement. ok is false for one that has no shape.
func (sh *Shape) Read(sql string, s *text.Settings) (ok bool) {
	sh.sql, sh.settings, sh.literals, sh.plan, sh.generation = sql, s, sh.literals[:0], nil, nil
	if len(sql) > maxShapeText || s.Charset == "binary" || text.HidesASCII(s.Charset) {
		return false
	}
	r := shapeReader{sql: sql, between: -1}
	first := true
	for i := 0; i < len(sql); {
		c := sql[i]
		switch byteKinds[c] {
		case byteSpace:
			i++
			continue
		case byteWord:
			end := i + 1
			for end < len(sql) && (byteKinds[sql[end]] == byteWord || byteKinds[sql[end]] == byteDigit) {
				end++
			}
			// N'..', X'..', _utf8mb4'..'
			if c == '_' || end < len(sql) && (sql[end] == '\'' || sql[end] == '"') {
				return false
			}
			w := wordOther
			if !r.dot {
				w = shapeWordOf(sql[i:end])
			}
			if first {
				switch w {
				case wordSelect, wordWrite:
				case wordInsert:
					r.insert = true
				default:
					return false
				}
				first = false
			}
			sh.word(&r, w)
			i = end
		case byteDigit:
			end, kind := shapeNumber(sql, i)
			sh.literal(&r, i, end, kind, false)
			i = end
		case byteQuote:
			end, escaped, closed := shapeQuoted(sql, i, s)
			if !closed {
				return false
			}
			if c == '`' || c == '"' && s.ANSIQuotes {
				sh.settle(&r, false)
				r.rows, r.limit, r.next, r.name, r.dot = false, false, nothing, true, false
			} else {
				sh.literal(&r, i, end, text.TextLiteral, escaped)
			}
			i = end
		case byteOp:
			if c == '/' && strings.HasPrefix(sql[i+1:], "*") {
				end := shapeComment(sql, i+2)
				if end < 0 {
					return false
				}
				i = end
				continue
			}
			end, fine := sh.operator(&r, i)
			if !fine {
				return false
			}
			i = end
		default:
			return false
		}
		if first {
			return false // begins with something else than a word
		}
	}
	sh.settle(&r, true)
	if first || r.depth != 0 {
		return false
	}
	return sh.sum()
}

// settle ends a literal: it is cut out if its expression ends with it.
func (sh *Shape) settle(r *shapeReader, ends bool) {
	if r.pending && !ends {
		sh.literals = sh.literals[:len(sh.literals)-1]
	}
	r.pending = false
}

func (sh *Shape) word(r *shapeReader, w shapeWord) {
	sh.settle(r, w >= wordClause)
	wasLimit := r.limit
	r.next, r.name, r.rows, r.limit, r.dot = nothing, false, false, false, false
	switch w {
	case wordOther:
		r.name = true
	case wordSelect, wordOpen:
		r.clauses &^= 1
	case wordClause:
		r.clauses |= 1
	case wordValues:
		r.rows = r.insert && r.depth == 0
		r.name = !r.rows // VALUES(a) of ON DUPLICATE KEY UPDATE
	case wordIn:
		r.next = aList
	case wordBetween:
		if r.clauses&1 != 0 {
			r.between, r.next = r.depth, aValue
		}
	case wordLike:
		r.next = aValue
	case wordAnd:
		if r.between == r.depth {
			r.between, r.next = -1, aValue
		}
	case wordLimit:
		r.clauses &^= 1
		r.limit, r.next = true, aLimit
	case wordOffset:
		if r.limit = wasLimit; wasLimit {
			r.next = aLimit
		} else {
			r.name = true
		}
	case wordInsert, wordWrite, wordEnds:
	}
}

// literal notes a literal, to be cut out if it stands where one may be.
func (sh *Shape) literal(r *shapeReader, start, end int, kind text.LiteralKind, escaped bool) {
	sh.settle(r, false)
	next := r.next
	r.next, r.name, r.rows, r.dot = nothing, false, false, false
	switch next {
	case nothing, aList:
		return
	case aLimit:
		if kind != text.NumberLiteral || !numberFits(r.sql[start:end], text.LimitLiteral) {
			return
		}
		kind = text.LimitLiteral
	case aValue, aTerm, aRowValue:
		if next != aRowValue && r.clauses&1 == 0 || kind == text.NumberLiteral && !numberFits(r.sql[start:end], text.NumberLiteral) {
			return
		}
		if kind == text.NumberLiteral && next != aTerm && r.sql[start-1] == '-' {
			start--
		}
	}
	if kind == 0 || len(sh.literals) == maxShapeLiterals {
		return
	}
	sh.literals = append(sh.literals, shapeLiteral{uint32(start), uint32(end), kind, escaped})
	r.pending = true
}

// numberFits reports a number, without its sign, that may be cut out.
func numberFits(number string, kind text.LiteralKind) bool {
	if kind == text.LimitLiteral {
		return len(number) <= maxShapeLimit && strings.IndexByte(number, '.') < 0
	}
	return len(number) <= maxShapeNumber
}

// operator moves over an operator at i; ok is false for what has no shape.
func (sh *Shape) operator(r *shapeReader, i int) (end int, ok bool) {
	sql := r.sql
	c, after := sql[i], byte(0)
	if i+1 < len(sql) {
		after = sql[i+1]
	}
	name, next := r.name, r.next
	r.dot = c == '.'
	switch c {
	case '(':
		sh.settle(r, false)
		if r.depth++; r.depth > maxShapeDepth {
			return 0, false
		}
		// VALUES (1, 2); IN (1, 2) and IN ((1, 2), (3, 4)); = (1, 2)
		list := r.rows || (next == aList || next == aValue || next == aRowValue && r.ins&1 != 0) && r.clauses&1 != 0
		r.clauses = r.clauses<<1 | r.clauses&1
		r.lists <<= 1
		if r.ins <<= 1; next == aList {
			r.ins |= 1
		}
		r.next, r.name, r.limit = nothing, false, false
		if r.rows = false; list {
			r.lists |= 1
			r.next = aRowValue
		}
		return i + 1, true
	case ')':
		sh.settle(r, true)
		if r.depth--; r.depth < 0 {
			return 0, false
		}
		if r.between > r.depth {
			r.between = -1
		}
		// Rows of an INSERT go on with a comma.
		r.rows = r.insert && r.depth == 0 && r.lists&1 != 0
		r.clauses >>= 1
		r.lists >>= 1
		r.ins >>= 1
		r.next, r.name, r.limit = nothing, true, false
		return i + 1, true
	case ',':
		sh.settle(r, true)
		r.next, r.name = nothing, false
		switch {
		case r.lists&1 != 0:
			r.next = aRowValue
		case r.limit:
			r.next = aLimit
		}
		return i + 1, true
	}
	sh.settle(r, false)
	r.rows, r.limit, r.name, r.next = false, false, false, nothing
	switch c {
	case '.':
		if text.IsDigit(after) {
			return 0, false
		}
	case '-':
		if after == '-' {
			return 0, false
		}
		switch {
		case name:
			r.next = aTerm
		case text.IsDigit(after) && (next == aValue || next == aRowValue):
			r.next = next // a sign
		}
	case '+', '*', '/', '%':
		if name {
			r.next = aTerm
		}
	case ':':
		return 0, false
	case '=':
		if name {
			r.next = aValue
		}
	case '<', '>', '!':
		end = i + 1
		for end < len(sql) && end < i+3 && (sql[end] == '=' || sql[end] == '>' || sql[end] == '<') {
			end++
		}
		switch sql[i:end] {
		case "<", ">", "<=", ">=", "<>", "!=", "<=>":
			if name {
				r.next = aValue
			}
		}
		return end, true
	}
	return i + 1, true
}

// shapeNumber reads 5 and 5.25; kind is 0 for anything else that begins so (1a,
// 1e5, 0x1f, 5.), up to where the word ends.
func shapeNumber(sql string, i int) (end int, kind text.LiteralKind) {
	for end = i; end < len(sql) && text.IsDigit(sql[end]); end++ {
	}
	kind = text.NumberLiteral
	if end < len(sql) && sql[end] == '.' {
		point := end
		for end++; end < len(sql) && text.IsDigit(sql[end]); end++ {
		}
		if end == point+1 {
			kind = 0
		}
	}
	if end < len(sql) && byteKinds[sql[end]] == byteWord {
		for kind = 0; end < len(sql) && (byteKinds[sql[end]] == byteWord || byteKinds[sql[end]] == byteDigit); end++ {
		}
	}
	return end, kind
}

// shapeQuoted reads a string or a quoted name, as lexer.quoted does.
func shapeQuoted(sql string, i int, s *text.Settings) (end int, escaped, closed bool) {
	q := sql[i]
	backslash := !s.NoBackslashEscapes && q != '`' && (q == '\'' || !s.ANSIQuotes)
	for end = i + 1; end < len(sql); end++ {
		switch c := sql[end]; {
		case c == q:
			if end+1 == len(sql) || sql[end+1] != q {
				return end + 1, escaped, true
			}
			end++
			escaped = true
		case c == '\\' && backslash:
			end++
			escaped = true
		}
	}
	return end, escaped, false
}

// withoutComments takes comments off a statement's beginning and its end that nobody runs and that hint at nothing.
//
// Rule whole comments: what looks like a comment's beginning may be in a string, or in another comment. What is left then
// ends in the midst of that, and has no shape. Counter-example, had it one: WHERE a = '/*' OR b = '*/', were it not that a
// statement can't end with */ but for a comment's end.
func withoutComments(sql string) (head, rest, tail string) {
	rest = sql
	if strings.HasPrefix(rest, "/*") {
		if end := shapeComment(rest, 2); end > 0 {
			head, rest = rest[:end], rest[end:]
		}
	}
	if strings.HasSuffix(rest, "*/") {
		if at := strings.LastIndex(rest, "/*"); at > 0 && shapeComment(rest, at+2) == len(rest) {
			rest, tail = rest[:at], rest[at:]
		}
	}
	return head, rest, tail
}

// commented is a text between the comments of the statement.
func (sh *Shape) commented(sql string) string {
	if sh.head == "" && sh.tail == "" {
		return sql
	}
	return sh.head + sql + sh.tail
}

// shapeComment moves over a comment that nobody runs and that hints at nothing; -1
// for any other. It is a part of the shape.
func shapeComment(sql string, i int) (end int) {
	rest := sql[i:]
	if strings.HasPrefix(rest, "!") || strings.HasPrefix(rest, "M!") || strings.HasPrefix(rest, "+") {
		return -1
	}
	if end = strings.Index(rest, "*/"); end < 0 {
		return -1
	}
	end += i + 2
	if _, hint, err := text.ParseHint(sql[i-2 : end]); hint || err != nil {
		return -1
	}
	return end
}

const hashStep = 0x9e3779b97f4a7c15 // odd: 2^64 / golden ratio

// sum hashes what of the text and of the settings is left; false where that is
// too long.
func (sh *Shape) sum() bool {
	h := xxhash.Sum64String(sh.settings.Schema)
	from, size := uint32(0), 0
	for i := range sh.literals {
		l := &sh.literals[i]
		h = h*hashStep + xxhash.Sum64String(sh.sql[from:l.start])
		h = h*hashStep + uint64(l.kind)
		size += int(l.start - from)
		from = l.end
	}
	sh.hash = h*hashStep + xxhash.Sum64String(sh.sql[from:])
	size += len(sh.sql) - int(from)
	return size+len(sh.literals) <= maxShape
}

// Hash is that of the shape, in its schema.
func (sh *Shape) Hash() uint64 { return sh.hash }

// Text is the statement.
func (sh *Shape) Text() string { return sh.commented(sh.sql) }

// text is the statement with parameters for the literals that are cut out.
func (sh *Shape) text() string {
	var b strings.Builder
	from := uint32(0)
	for _, l := range sh.literals {
		b.WriteString(sh.sql[from:l.start])
		b.WriteByte('?')
		from = l.end
	}
	b.WriteString(sh.sql[from:])
	return b.String()
}

// is reports whether the statement has the shape of a text with parameters, of
// literals of these kinds.
func (sh *Shape) is(src, kinds string) bool {
	if len(sh.literals) != len(kinds) {
		return false
	}
	from, at := 0, 0
	for i := range kinds {
		l := &sh.literals[i]
		piece := sh.sql[from:l.start]
		if text.LiteralKind(kinds[i]) != l.kind || len(src)-at <= len(piece) || src[at:at+len(piece)] != piece {
			return false
		}
		from, at = int(l.end), at+len(piece)+1
	}
	return src[at:] == sh.sql[from:]
}

// kinds are those of the literals, in order.
func (sh *Shape) kinds() string {
	out := make([]byte, len(sh.literals))
	for i := range out {
		out[i] = byte(sh.literals[i].kind)
	}
	return string(out)
}

// Values are the literals' values, as the planner reads them where they are left
// in the text (text.Evaluate). They share the statement's text, and are good until
// the next Read.
func (sh *Shape) Values() []keys.Value {
	sh.values = sh.values[:0]
	for i := range sh.literals {
		sh.values = append(sh.values, sh.value(&sh.literals[i]))
	}
	return sh.values
}

func (sh *Shape) value(l *shapeLiteral) keys.Value {
	body := sh.sql[l.start:l.end]
	if l.kind == text.KnownLiteral {
		return keys.Null()
	}
	if l.kind == text.TextLiteral {
		if !l.escaped {
			return keys.Text(body[1:len(body)-1], sh.settings.Charset)
		}
		st := text.Statement{Src: sh.sql, Settings: *sh.settings}
		return st.StringOf([]text.Token{{Kind: text.String, Start: l.start, End: l.end}}).Value
	}
	// As text.NumberOf and decimalOf have it.
	if n, err := strconv.Atoi(body); err == nil { // which costs a third of ParseUint
		return keys.Int(int64(n))
	}
	if len(body) > 18 {
		if n, err := strconv.ParseUint(body, 10, 64); err == nil {
			return keys.Uint(n)
		}
	}
	return keys.Decimal(body)
}
