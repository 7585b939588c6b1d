package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// TokenKind tells tokens apart as far as Shunt needs it.
type TokenKind uint8

const (
	EOF        TokenKind = iota
	Word                 // unquoted identifier or keyword
	Quoted               // `identifier`, or "identifier" under ANSI_QUOTES
	String               // '..' or ".."
	Introducer           // _charset before a string, or N of N'..'
	Int                  // 123
	Decimal              // 1.5
	Float                // 1e5
	Hex                  // 0x1f or x'1f'
	Bit                  // 0b1 or b'1'
	Param                // ?
	Variable             // @x, @'x', @@x (one token up to the name's end)
	Operator             // operators and punctuation
	Semicolon            // ; between statements
	Bad                  // unterminated string or comment, stray control character
)

// Token is a piece of the statement; its text is src[Start:End].
type Token struct {
	Kind       TokenKind
	Start, End uint32
}

// CommentKind tells comments apart, for the spans that a parser must not see.
type CommentKind uint8

const (
	PlainComment    CommentKind = iota
	OptimizerHint               // /*+ .. */
	ExecutableOpen              // /*!NNNNN of an executable comment that the servers run
	ExecutableClose             // its */
	skippedByAll                // /*!NNNNN .. */ that the servers surely skip
	Doubtful                    // an executable comment that some server may run and another not
)

// executable reports a comment whose text a server may run.
func (k CommentKind) executable() bool {
	return k == ExecutableOpen || k == ExecutableClose || k == Doubtful
}

// Comment is one comment, or the opening or closing of an executable one; its text is src[Start:End].
type Comment struct {
	Kind       CommentKind
	Start, End uint32
}

// Lexer cuts SQL text into tokens in one pass, as MySQL's sql_lex.cc does. It
// never allocates but for comments.
type Lexer struct {
	src         string
	pos         int
	ansiQuotes  bool
	noBackslash bool
	// server says which executable comments run.
	server   ServerVersion
	inExec   int
	comments []Comment
	prevWord bool // the token before was an identifier that ends at pos
	prevDot  bool // the token before was a `.` after an identifier
}

// ServerVersion is what decides about /*!NNNNN comments.
type ServerVersion struct {
	MariaDB bool
	Number  int      // 90704, 101108; 0: unknown
	others  []string // that some of the shards have instead
}

// parseServerVersion reads "9.7.4" or "10.11.8-MariaDB-...".
func parseServerVersion(s string, mariaDB bool) ServerVersion {
	v := ServerVersion{MariaDB: mariaDB}
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
			v.Number = n
			return v
		}
		if i >= len(s) || s[i] != '.' {
			return v
		}
	}
	return v
}

// IsIdentByte reports a byte that an unquoted identifier may have.
func IsIdentByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// IsDigit reports 0 to 9.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHexDigit(c byte) bool {
	return IsDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// IsSpace reports a byte of white space.
func IsSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func (l *Lexer) at(i int) byte {
	if i < len(l.src) {
		return l.src[i]
	}
	return 0
}

func (l *Lexer) tok(kind TokenKind, start, end int) Token {
	l.pos = end
	l.prevWord = kind == Word || kind == Quoted
	return Token{kind, uint32(start), uint32(end)}
}

// Next returns the next token; at the end EOF again and again.
func (l *Lexer) Next() Token {
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
			return l.tok(Bad, start, start)
		}
		return l.tok(EOF, start, start)
	}
	c := l.src[start]
	switch {
	case c == '\'':
		return l.quoted(String, start, start, '\'', !l.noBackslash)
	case c == '"':
		if l.ansiQuotes {
			return l.quoted(Quoted, start, start, '"', false)
		}
		return l.quoted(String, start, start, '"', !l.noBackslash)
	case c == '`':
		return l.quoted(Quoted, start, start, '`', false)
	case c == '.' && start == prevWordEnd:
		// After an identifier a `.` separates names, whatever follows: t.1a
		l.prevDot = true
		t := l.tok(Operator, start, start+1)
		l.prevDot = true
		return t
	case afterDot && IsIdentByte(c):
		return l.word(start)
	case IsDigit(c) || c == '.' && IsDigit(l.at(start+1)):
		return l.number(start)
	case IsIdentByte(c):
		return l.wordOrLiteral(start)
	case c == '@':
		return l.variable(start)
	case c == '?':
		return l.tok(Param, start, start+1)
	case c == ';':
		return l.tok(Semicolon, start, start+1)
	case c < ' ' || c == 0x7f:
		return l.tok(Bad, start, start+1)
	}
	n := 1
	rest := l.src[start:]
	for _, op := range [...]string{"<=>", "->>", "<=", ">=", "<>", "!=", "||", "&&", ":=", "->", "<<", ">>"} {
		if strings.HasPrefix(rest, op) {
			n = len(op)
			break
		}
	}
	t := l.tok(Operator, start, start+n)
	if n == 1 && c == '.' {
		l.prevDot = true
	}
	return t
}

// skipSpace moves over white space and comments. ok is false where a comment
// does not end.
func (l *Lexer) skipSpace() (bad Token, ok bool) {
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case IsSpace(c):
			l.pos++
		case c == '#', c == '-' && l.at(l.pos+1) == '-' && l.endsDash(l.pos+2):
			start := l.pos
			end := strings.IndexByte(l.src[start:], '\n')
			if end < 0 {
				end = len(l.src)
			} else {
				end += start
			}
			l.comment(PlainComment, start, end)
		case c == '/' && l.at(l.pos+1) == '*':
			if !l.block() {
				return l.tok(Bad, l.pos, len(l.src)), false
			}
		case c == '*' && l.at(l.pos+1) == '/' && l.inExec > 0:
			l.inExec--
			l.comment(ExecutableClose, l.pos, l.pos+2)
		default:
			return Token{}, true
		}
	}
	return Token{}, true
}

// endsDash: `--` begins a comment only before white space, a control character
// or the end; `5--3` is arithmetic.
func (l *Lexer) endsDash(i int) bool {
	return i >= len(l.src) || l.src[i] <= ' ' || l.src[i] == 0x7f
}

func (l *Lexer) comment(kind CommentKind, start, end int) {
	l.comments = append(l.comments, Comment{kind, uint32(start), uint32(end)})
	l.pos = end
}

// block moves over a /* comment, or into it where the servers run its text.
func (l *Lexer) block() bool {
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
		kind := PlainComment
		if l.at(i) == '+' {
			kind = OptimizerHint
		}
		l.comment(kind, start, i+end+2)
		return true
	}
	digits := i
	version := 0
	for i < len(l.src) && IsDigit(l.src[i]) && i-digits < 6 {
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
		l.comment(ExecutableOpen, start, i)
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
		l.comment(Doubtful, start, end)
	}
	return true
}

// closing finds the end of a skipped executable comment, in which one level of
// plain comments may be nested.
func (l *Lexer) closing(i int) int {
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
func (v ServerVersion) runs(maria bool, version int) runs {
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
func (v ServerVersion) runsHere(maria bool, version int) runs {
	if maria && !v.MariaDB {
		return runsNo
	}
	if version < 50700 {
		return runsYes
	}
	if v.MariaDB && !maria && version < 100000 {
		return runsNo
	}
	switch {
	case v.Number == 0:
		return runsMaybe
	case version <= v.Number:
		return runsYes
	}
	return runsNo
}

// quoted reads up to the closing quote; a doubled quote is one inside. from is
// where the token begins (an x or N prefix), open where the quote is.
func (l *Lexer) quoted(kind TokenKind, from, open int, q byte, backslash bool) Token {
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
	return l.tok(Bad, from, len(l.src))
}

func (l *Lexer) number(start int) Token {
	i := start
	for i < len(l.src) && IsDigit(l.src[i]) {
		i++
	}
	if i == start+1 && l.src[start] == '0' && i < len(l.src) {
		// 0x1f and 0b1 (lower-case prefix only, as MySQL has it)
		digit := isHexDigit
		kind := Hex
		if l.src[i] == 'b' {
			digit, kind = func(c byte) bool { return c == '0' || c == '1' }, Bit
		}
		if l.src[i] == 'x' || l.src[i] == 'b' {
			j := i + 1
			for j < len(l.src) && digit(l.src[j]) {
				j++
			}
			if j > i+1 && !IsIdentByte(l.at(j)) {
				return l.tok(kind, start, j)
			}
		}
	}
	kind := Int
	if l.at(i) == '.' {
		kind = Decimal
		i++
		for i < len(l.src) && IsDigit(l.src[i]) {
			i++
		}
	}
	if c := l.at(i); c == 'e' || c == 'E' {
		j := i + 1
		if s := l.at(j); s == '+' || s == '-' {
			j++
		}
		if IsDigit(l.at(j)) {
			for j < len(l.src) && IsDigit(l.src[j]) {
				j++
			}
			if kind == Decimal || !IsIdentByte(l.at(j)) {
				return l.tok(Float, start, j)
			}
		}
	}
	if kind == Int && i < len(l.src) && IsIdentByte(l.src[i]) {
		return l.word(start) // 1a is an identifier
	}
	return l.tok(kind, start, i)
}

func (l *Lexer) word(start int) Token {
	i := start
	for i < len(l.src) && IsIdentByte(l.src[i]) {
		i++
	}
	if foreignSpace(l.src[start:i]) {
		return l.tok(Bad, start, i)
	}
	return l.tok(Word, start, i)
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

func (l *Lexer) wordOrLiteral(start int) Token {
	c := l.src[start]
	if l.at(start+1) == '\'' {
		switch c {
		case 'x', 'X':
			return l.digits(Hex, start, isHexDigit)
		case 'b', 'B':
			return l.digits(Bit, start, func(c byte) bool { return c == '0' || c == '1' })
		case 'n', 'N':
			return l.tok(Introducer, start, start+1)
		}
	}
	t := l.word(start)
	if c == '_' && t.Kind == Word && IsCharsetName(strings.ToLower(l.src[start+1:t.End])) {
		t.Kind = Introducer
		l.prevWord = false
	}
	return t
}

func (l *Lexer) digits(kind TokenKind, start int, digit func(byte) bool) Token {
	i := start + 2
	for i < len(l.src) && digit(l.src[i]) {
		i++
	}
	if l.at(i) != '\'' || i >= len(l.src) {
		return l.tok(Bad, start, i)
	}
	return l.tok(kind, start, i+1)
}

// variable reads @x, @`x`, @'x', @@x. The scope and dots of @@session.x are
// tokens of their own.
func (l *Lexer) variable(start int) Token {
	i := start + 1
	if l.at(i) == '@' {
		i++
	}
	switch q := l.at(i); q {
	case '\'', '"', '`':
		t := l.quoted(Variable, start, i, q, q != '`' && !l.noBackslash)
		return t
	}
	for i < len(l.src) && (IsIdentByte(l.src[i]) || l.src[i] == '.' && l.at(start+1) != '@') {
		i++
	}
	t := l.tok(Variable, start, i)
	l.prevWord = l.at(start+1) == '@' // @@session . x
	return t
}

// IsCharsetName knows the character sets of MySQL and MariaDB, which make
// _name before a string an introducer; any other _name is an identifier.
func IsCharsetName(s string) bool {
	switch s {
	case "armscii8", "ascii", "big5", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852",
		"cp866", "cp932", "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew",
		"hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "sjis",
		"swe7", "tis620", "ucs2", "ujis", "utf16", "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4":
		return true
	}
	return false
}
