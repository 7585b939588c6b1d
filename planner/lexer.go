package planner

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind tells tokens apart as far as Shunt needs it.
type tokenKind uint8

const (
	tokEOF     tokenKind = iota
	tokWord              // unquoted identifier or keyword
	tokQuoted            // `identifier`, or "identifier" under ANSI_QUOTES
	tokString            // '..' or ".."
	tokIntro             // _charset before a string, or N of N'..'
	tokInt               // 123
	tokDecimal           // 1.5
	tokFloat             // 1e5
	tokHex               // 0x1f or x'1f'
	tokBit               // 0b1 or b'1'
	tokParam             // ?
	tokVar               // @x, @'x', @@x (one token up to the name's end)
	tokOp                // operators and punctuation
	tokEnd               // ; between statements
	tokBad               // unterminated string or comment, stray control character
)

// token is a piece of the statement; its text is src[start:end].
type token struct {
	kind       tokenKind
	start, end uint32
}

// comment kinds, for the spans that a parser must not see.
type commentKind uint8

const (
	plainComment  commentKind = iota
	hintComment               // /*+ .. */
	execOpen                  // /*!NNNNN of an executable comment that the servers run
	execClose                 // its */
	skippedByAll              // /*!NNNNN .. */ that the servers surely skip
	doubtfulBlock             // an executable comment that some server may run and another not
)

// executable reports a comment whose text a server may run.
func (k commentKind) executable() bool { return k == execOpen || k == execClose || k == doubtfulBlock }

type comment struct {
	kind       commentKind
	start, end uint32
}

// lexer cuts SQL text into tokens in one pass, as MySQL's sql_lex.cc does. It
// never allocates but for comments.
type lexer struct {
	src         string
	pos         int
	ansiQuotes  bool
	noBackslash bool
	// server says which executable comments run.
	server   serverVersion
	inExec   int
	comments []comment
	prevWord bool // the token before was an identifier that ends at pos
	prevDot  bool // the token before was a `.` after an identifier
}

// serverVersion is what decides about /*!NNNNN comments.
type serverVersion struct {
	mariaDB bool
	number  int      // 90704, 101108; 0: unknown
	others  []string // that some of the shards have instead
}

// parseServerVersion reads "9.7.4" or "10.11.8-MariaDB-...".
func parseServerVersion(s string, mariaDB bool) serverVersion {
	v := serverVersion{mariaDB: mariaDB}
	var part, parts, n int
	digits := false
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] >= '0' && s[i] <= '9' {
			part, digits = part*10+int(s[i]-'0'), true
			if part > 1000 {
				return v
			}
			continue
		}
		if !digits {
			return v
		}
		n, part, digits = n*100+part, 0, false
		if parts++; parts == 3 {
			v.number = n
			return v
		}
		if i >= len(s) || s[i] != '.' {
			return v
		}
	}
	return v
}

func isIdentByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHexDigit(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func (l *lexer) at(i int) byte {
	if i < len(l.src) {
		return l.src[i]
	}
	return 0
}

func (l *lexer) tok(kind tokenKind, start, end int) token {
	l.pos = end
	l.prevWord = kind == tokWord || kind == tokQuoted
	return token{kind, uint32(start), uint32(end)}
}

// next returns the next token; at the end tokEOF again and again.
func (l *lexer) next() token {
	prevWordEnd := -1
	if l.prevWord {
		prevWordEnd = l.pos
	}
	afterDot := l.prevDot
	l.prevDot = false
	if bad, ok := l.skipSpace(); !ok {
		return bad
	}
	start := l.pos
	if start >= len(l.src) {
		if l.inExec > 0 { // an executable comment that never ends
			l.inExec = 0
			return l.tok(tokBad, start, start)
		}
		return l.tok(tokEOF, start, start)
	}
	c := l.src[start]
	switch {
	case c == '\'':
		return l.quoted(tokString, start, start, '\'', !l.noBackslash)
	case c == '"':
		if l.ansiQuotes {
			return l.quoted(tokQuoted, start, start, '"', false)
		}
		return l.quoted(tokString, start, start, '"', !l.noBackslash)
	case c == '`':
		return l.quoted(tokQuoted, start, start, '`', false)
	case c == '.' && start == prevWordEnd:
		// After an identifier a `.` separates names, whatever follows: t.1a
		l.prevDot = true
		t := l.tok(tokOp, start, start+1)
		l.prevDot = true
		return t
	case afterDot && isIdentByte(c):
		return l.word(start)
	case isDigit(c) || c == '.' && isDigit(l.at(start+1)):
		return l.number(start)
	case isIdentByte(c):
		return l.wordOrLiteral(start)
	case c == '@':
		return l.variable(start)
	case c == '?':
		return l.tok(tokParam, start, start+1)
	case c == ';':
		return l.tok(tokEnd, start, start+1)
	case c < ' ' || c == 0x7f:
		return l.tok(tokBad, start, start+1)
	}
	n := 1
	rest := l.src[start:]
	for _, op := range [...]string{"<=>", "->>", "<=", ">=", "<>", "!=", "||", "&&", ":=", "->", "<<", ">>"} {
		if strings.HasPrefix(rest, op) {
			n = len(op)
			break
		}
	}
	t := l.tok(tokOp, start, start+n)
	if n == 1 && c == '.' {
		l.prevDot = true
	}
	return t
}

// skipSpace moves over white space and comments. ok is false where a comment
// does not end.
func (l *lexer) skipSpace() (bad token, ok bool) {
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case isSpace(c):
			l.pos++
		case c == '#', c == '-' && l.at(l.pos+1) == '-' && l.endsDash(l.pos+2):
			start := l.pos
			end := strings.IndexByte(l.src[start:], '\n')
			if end < 0 {
				end = len(l.src)
			} else {
				end += start
			}
			l.comment(plainComment, start, end)
		case c == '/' && l.at(l.pos+1) == '*':
			if !l.block() {
				return l.tok(tokBad, l.pos, len(l.src)), false
			}
		case c == '*' && l.at(l.pos+1) == '/' && l.inExec > 0:
			l.inExec--
			l.comment(execClose, l.pos, l.pos+2)
		default:
			return token{}, true
		}
	}
	return token{}, true
}

// endsDash: `--` begins a comment only before white space, a control character
// or the end; `5--3` is arithmetic.
func (l *lexer) endsDash(i int) bool {
	return i >= len(l.src) || l.src[i] <= ' ' || l.src[i] == 0x7f
}

func (l *lexer) comment(kind commentKind, start, end int) {
	l.comments = append(l.comments, comment{kind, uint32(start), uint32(end)})
	l.pos = end
}

// block moves over a /* comment, or into it where the servers run its text.
func (l *lexer) block() bool {
	start := l.pos
	i := start + 2
	maria := false
	switch {
	case l.at(i) == '!':
		i++
	case l.at(i) == 'M' && l.at(i+1) == '!':
		i, maria = i+2, true
	default:
		end := strings.Index(l.src[i:], "*/")
		if end < 0 {
			return false
		}
		kind := plainComment
		if l.at(i) == '+' {
			kind = hintComment
		}
		l.comment(kind, start, i+end+2)
		return true
	}
	digits := i
	version := 0
	for i < len(l.src) && isDigit(l.src[i]) && i-digits < 6 {
		version = version*10 + int(l.src[i]-'0')
		i++
	}
	if n := i - digits; n > 0 && n < 5 {
		// Fewer than five digits are not a version: /*!1 */ runs its text,
		// digits included.
		i, version = digits, 0
	}
	switch l.server.runs(maria, version) {
	case runsYes:
		l.inExec++
		l.comment(execOpen, start, i)
		return true
	case runsNo:
		end := l.closing(i)
		if end < 0 {
			return false
		}
		l.comment(skippedByAll, start, end)
	default:
		end := l.closing(i)
		if end < 0 {
			return false
		}
		l.comment(doubtfulBlock, start, end)
	}
	return true
}

// closing finds the end of a skipped executable comment, in which one level of
// plain comments may be nested.
func (l *lexer) closing(i int) int {
	for i+1 < len(l.src) {
		switch {
		case l.src[i] == '*' && l.src[i+1] == '/':
			return i + 2
		case l.src[i] == '/' && l.src[i+1] == '*':
			end := strings.Index(l.src[i+2:], "*/")
			if end < 0 {
				return -1
			}
			i += 2 + end + 2
		default:
			i++
		}
	}
	return -1
}

type runs uint8

const (
	runsNo runs = iota
	runsYes
	runsMaybe
)

// runs says whether all shards execute an executable comment, or none.
//
// Counter-example: UPDATE u SET n = 1 /*M!110000 , email = 'b' */ while shards are
// upgraded one by one. Those that are already done write emails.
func (v serverVersion) runs(maria bool, version int) runs {
	out := v.runsHere(maria, version)
	for _, other := range v.others {
		if parseServerVersion(other, strings.Contains(other, "MariaDB")).runsHere(maria, version) != out {
			return runsMaybe
		}
	}
	return out
}

// runsHere says whether servers of the one version do. MariaDB skips MySQL's versions
// 5.7 to 9.99, whose syntax it may not have.
// https://dev.mysql.com/doc/refman/9.0/en/comments.html
// https://mariadb.com/kb/en/comment-syntax/
func (v serverVersion) runsHere(maria bool, version int) runs {
	if maria && !v.mariaDB {
		return runsNo
	}
	if version < 50700 {
		return runsYes
	}
	if v.mariaDB && !maria && version < 100000 {
		return runsNo
	}
	switch {
	case v.number == 0:
		return runsMaybe
	case version <= v.number:
		return runsYes
	}
	return runsNo
}

// quoted reads up to the closing quote; a doubled quote is one inside. from is
// where the token begins (an x or N prefix), open where the quote is.
func (l *lexer) quoted(kind tokenKind, from, open int, q byte, backslash bool) token {
	for i := open + 1; i < len(l.src); i++ {
		switch c := l.src[i]; {
		case c == q:
			if l.at(i+1) != q || i+1 >= len(l.src) {
				return l.tok(kind, from, i+1)
			}
			i++
		case c == '\\' && backslash:
			i++
		}
	}
	return l.tok(tokBad, from, len(l.src))
}

func (l *lexer) number(start int) token {
	i := start
	for i < len(l.src) && isDigit(l.src[i]) {
		i++
	}
	if i == start+1 && l.src[start] == '0' && i < len(l.src) {
		// 0x1f and 0b1 (lower-case prefix only, as MySQL has it)
		digit := isHexDigit
		kind := tokHex
		if l.src[i] == 'b' {
			digit, kind = func(c byte) bool { return c == '0' || c == '1' }, tokBit
		}
		if l.src[i] == 'x' || l.src[i] == 'b' {
			j := i + 1
			for j < len(l.src) && digit(l.src[j]) {
				j++
			}
			if j > i+1 && !isIdentByte(l.at(j)) {
				return l.tok(kind, start, j)
			}
		}
	}
	kind := tokInt
	if l.at(i) == '.' {
		kind = tokDecimal
		i++
		for i < len(l.src) && isDigit(l.src[i]) {
			i++
		}
	}
	if c := l.at(i); c == 'e' || c == 'E' {
		j := i + 1
		if s := l.at(j); s == '+' || s == '-' {
			j++
		}
		if isDigit(l.at(j)) {
			for j < len(l.src) && isDigit(l.src[j]) {
				j++
			}
			if kind == tokDecimal || !isIdentByte(l.at(j)) {
				return l.tok(tokFloat, start, j)
			}
		}
	}
	if kind == tokInt && i < len(l.src) && isIdentByte(l.src[i]) {
		return l.word(start) // 1a is an identifier
	}
	return l.tok(kind, start, i)
}

func (l *lexer) word(start int) token {
	i := start
	for i < len(l.src) && isIdentByte(l.src[i]) {
		i++
	}
	if foreignSpace(l.src[start:i]) {
		return l.tok(tokBad, start, i)
	}
	return l.tok(tokWord, start, i)
}

// foreignSpace finds white space outside of ASCII in a word. MySQL reads it as
// a part of an identifier and the parser as a space: the two would see
// different statements in `WHERE id = 5<NBSP>OR 1`.
func foreignSpace(word string) bool {
	for i := 0; i < len(word); {
		if word[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(word[i:])
		if unicode.IsSpace(r) || r == 0xfeff {
			return true
		}
		i += n
	}
	return false
}

func (l *lexer) wordOrLiteral(start int) token {
	c := l.src[start]
	if l.at(start+1) == '\'' {
		switch c {
		case 'x', 'X':
			return l.digits(tokHex, start, isHexDigit)
		case 'b', 'B':
			return l.digits(tokBit, start, func(c byte) bool { return c == '0' || c == '1' })
		case 'n', 'N':
			return l.tok(tokIntro, start, start+1)
		}
	}
	t := l.word(start)
	if c == '_' && t.kind == tokWord && isCharsetName(strings.ToLower(l.src[start+1:t.end])) {
		t.kind = tokIntro
		l.prevWord = false
	}
	return t
}

func (l *lexer) digits(kind tokenKind, start int, digit func(byte) bool) token {
	i := start + 2
	for i < len(l.src) && digit(l.src[i]) {
		i++
	}
	if l.at(i) != '\'' || i >= len(l.src) {
		return l.tok(tokBad, start, i)
	}
	return l.tok(kind, start, i+1)
}

// variable reads @x, @`x`, @'x', @@x. The scope and dots of @@session.x are
// tokens of their own.
func (l *lexer) variable(start int) token {
	i := start + 1
	if l.at(i) == '@' {
		i++
	}
	switch q := l.at(i); q {
	case '\'', '"', '`':
		t := l.quoted(tokVar, start, i, q, q != '`' && !l.noBackslash)
		return t
	}
	for i < len(l.src) && (isIdentByte(l.src[i]) || l.src[i] == '.' && l.at(start+1) != '@') {
		i++
	}
	t := l.tok(tokVar, start, i)
	l.prevWord = l.at(start+1) == '@' // @@session . x
	return t
}

// isCharsetName knows the character sets of MySQL and MariaDB, which make
// _name before a string an introducer; any other _name is an identifier.
func isCharsetName(s string) bool {
	switch s {
	case "armscii8", "ascii", "big5", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852",
		"cp866", "cp932", "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew",
		"hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "sjis",
		"swe7", "tis620", "ucs2", "ujis", "utf16", "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4":
		return true
	}
	return false
}
