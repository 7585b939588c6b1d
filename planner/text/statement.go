package text

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// Bounds on what is read. TiDB's parser keeps its stack on the heap, but
// whoever walks its tree recurses: 15 million `!` overflow the goroutine's
// stack, which kills the process. Each bound is far above what MySQL itself
// accepts.
const (
	maxStatement = 64 << 20 // bytes of a statement
	MaxParsed    = 16 << 20 // bytes that the parser sees: see blanked
	longLiteral  = 1 << 20  // bytes of a string that it doesn't see in a longer statement
	MaxJoined    = 1000     // strings beside each other ('a' 'b'): it copies what it has of them for each
	MaxNesting   = 1000     // parentheses, or unary operators in a row
	maxWords     = 200_000  // identifiers and keywords that the parser sees
	maxOperators = 200_000  // operators that the parser sees
	MaxLiterals  = 1 << 20  // literals that it sees: they take 500 bytes each
)

// Statement is one statement, lexed.
type Statement struct {
	Src      string
	Settings Settings
	Server   ServerVersion
	Tokens   []Token // without those of Rows
	Comments []Comment
	Params   []uint32 // offsets of the `?`
	Kinds    string   // literalKinds of what they stand for; "": not known
	long     []Token  // strings of more than longLiteral, those of rows too
	joining  int      // strings in turn, so far
	inRows   int      // literals of the rows that the parser sees
	// Rows are the row lists of an INSERT or REPLACE ... VALUES, whose tokens
	// are not in Tokens: a statement of a million rows stays cheap.
	Rows []RowSpan
	// RowsAt is the place in Tokens where the rows would stand.
	RowsAt int
	// RowCalls are the names of what is called in rows, as they are written.
	RowCalls []string
	// HintShard is the shard named by /* shunt: shard=NAME */.
	HintShard string
	Hinted    bool
	// Returning: RETURNING was cut off, see cutReturning.
	Returning bool
	// Doubtful: an executable comment that some server may run and another not.
	Doubtful bool
	// SetVar: an optimizer hint SET_VAR, which may change the SQL mode.
	SetVar bool
}

// RowSpan is one `(..)` of VALUES. Simple rows hold literals and parameters
// only, and the parser does not see them.
type RowSpan struct {
	Start, End uint32
	Simple     bool
}

// NewLexer begins at the start of a text, which is read by the settings' SQL modes.
func NewLexer(sql string, s Settings, server ServerVersion) Lexer {
	return Lexer{src: sql, ansiQuotes: s.ANSIQuotes, noBackslash: s.NoBackslashEscapes, server: server}
}

// SyntaxError is the refusal (1064) of a text that Shunt can't read, of which a server may say more.
func SyntaxError(format string, args ...any) *Error {
	e := NotSupported(format, args...)
	e.Code, e.Unread = mysqlerr.ParseError, true
	return e
}

// Read reads one statement and holds it to the bounds. cat says which server reads its executable
// comments; nil: none is known.
func Read(sql string, s Settings, cat *catalog.Catalog) (*Statement, *Error) {
	if len(sql) > maxStatement {
		return nil, NewError(mysqlerr.NetPacketTooLarge, "statement is larger than 64 MiB: send it in parts")
	}
	if HidesASCII(s.Charset) && !IsASCII(sql) {
		return nil, NotSupported("character_set_client %s with other than ASCII text is not supported: a quote may hide in its two-byte characters; SET NAMES utf8mb4", s.Charset)
	}
	var server ServerVersion
	if cat != nil {
		server = parseServerVersion(cat.ServerVersion, cat.MariaDB)
		server.others = cat.OtherVersions
	}
	st := &Statement{Src: sql, Settings: s, Server: server, RowsAt: -1}
	lx := NewLexer(sql, s, server)
	depth, unary, words, operators, literals := 0, 0, 0, 0, 0
	insert := false
	for {
		t := lx.Next()
		switch t.Kind {
		case EOF:
			st.Comments = lx.comments
			if depth > 0 {
				return nil, SyntaxError("You have an error in your SQL syntax: a parenthesis is not closed")
			}
			return st, st.readComments()
		case Bad:
			if int(t.Start) < len(sql) && int(t.End) < len(sql) {
				return nil, SyntaxError("You have an error in your SQL syntax near %.40q", sql[t.Start:])
			}
			return nil, SyntaxError("You have an error in your SQL syntax: a string or comment is not closed")
		case Semicolon:
			if st.compound() {
				break
			}
			// Split leaves no `;` but a last one.
			if rest := lx.Next(); rest.Kind != EOF && rest.Kind != Semicolon {
				return nil, SyntaxError("You have an error in your SQL syntax near %.40q: one statement was expected", sql[rest.Start:])
			}
			continue
		case Param:
			st.Params = append(st.Params, t.Start)
			unary = 0
			literals++
		case Operator:
			switch sql[t.Start] {
			case '(':
				depth++
			case ')':
				depth--
				if depth < 0 {
					return nil, SyntaxError("You have an error in your SQL syntax near ')'")
				}
			case ',', '.':
			default:
				operators++
			}
			if c := sql[t.Start]; c == ',' || c == ')' {
				unary = 0
			} else {
				unary++
			}
		case Word:
			words++
			switch {
			case isUnaryWord(sql[t.Start:t.End]):
				unary++
				operators++
			case isBinaryWord(sql[t.Start:t.End]):
				operators++
				unary = 0
			default:
				unary = 0
			}
		case Quoted:
			words++
			unary = 0
		default:
			unary = 0
			literals++
		}
		if depth > MaxNesting || unary > MaxNesting {
			return nil, NotSupported("more than %d nested expressions are not supported", MaxNesting)
		}
		if words > maxWords || operators > maxOperators {
			return nil, NotSupported("a statement with more than %d operators or names is not supported: send it in parts", maxOperators)
		}
		if literals+st.inRows > MaxLiterals {
			return nil, refuseLiterals()
		}
		if err := st.noteString(t, len(st.Tokens) > 0 && st.Tokens[len(st.Tokens)-1].Kind == String); err != nil {
			return nil, err
		}
		st.Tokens = append(st.Tokens, t)
		if t.Kind != Word || depth != 0 {
			continue
		}
		if len(st.Tokens) == 1 {
			insert = st.Is(0, "insert") || st.Is(0, "replace")
		} else if insert && st.RowsAt < 0 && (st.Is(len(st.Tokens)-1, "values") || st.Is(len(st.Tokens)-1, "value")) && st.canBeRows() {
			if err := st.readRows(&lx); err != nil {
				return nil, err
			}
		}
	}
}

// compound reports a stored program with a body, BEGIN .. END, in which `;` ends
// no statement. MariaDB has FOR loops, packages, and blocks of their own, besides.
func (st *Statement) compound() bool {
	if !st.Is(0, "create") && !st.Is(0, "alter") {
		return st.Is(0, "begin") && st.Is(1, "not")
	}
	program := false
	for i := range st.Tokens {
		switch st.Word(i) {
		case "package":
			if !program && i < 24 {
				return true
			}
		case "trigger", "procedure", "function", "event":
			program = program || i < 24
		case "begin", "loop", "repeat", "while", "if", "case":
			if program {
				return true
			}
		case "for":
			if program && st.Is(i+2, "in") {
				return true
			}
		}
	}
	return false
}

// canBeRows tells the VALUES of `INSERT INTO t VALUES` from a column or table
// of that name, and from VALUES ROW(..).
func (st *Statement) canBeRows() bool {
	for i := range st.Tokens[:len(st.Tokens)-1] {
		// INSERT INTO t SELECT .. FROM (VALUES ..), ON DUPLICATE KEY UPDATE a = VALUES(a)
		if st.Is(i, "select") || st.Is(i, "set") || st.Is(i, "with") || st.Is(i, "duplicate") || st.Is(i, "table") {
			return false
		}
	}
	n := len(st.Tokens)
	return n >= 3 && !st.Is(n-2, "into") && !st.Op(n-2, ".")
}

// readRows reads `(..), (..)` after VALUES.
func (st *Statement) readRows(lx *Lexer) *Error {
	mark := *lx
	mark.comments = append([]Comment(nil), lx.comments...)
	params := len(st.Params)
	back := func() { // not rows: let the common loop read it
		*lx = mark
		st.Params = st.Params[:params]
		st.Rows, st.RowsAt, st.RowCalls, st.inRows = nil, -1, nil, 0
	}
	st.RowsAt = len(st.Tokens)
	for {
		save := *lx
		nc := len(lx.comments)
		t := lx.Next()
		if len(st.Rows) > 0 {
			if t.Kind != Operator || st.Src[t.Start] != ',' {
				comments := lx.comments[:nc]
				*lx = save
				lx.comments = comments
				return nil
			}
			t = lx.Next()
		}
		if t.Kind != Operator || st.Src[t.Start] != '(' {
			back()
			return nil
		}
		row, ok, err := st.readRow(lx, t)
		if err != nil {
			return err
		}
		if !ok {
			back()
			return nil
		}
		st.Rows = append(st.Rows, row)
	}
}

// readRow reads a row behind its parenthesis; ok is false where that isn't closed.
func (st *Statement) readRow(lx *Lexer, open Token) (row RowSpan, ok bool, err *Error) {
	row = RowSpan{Start: open.Start, Simple: true}
	depth, unary, words, literals := 1, 0, 0, 0
	prev := open
	for depth > 0 {
		t := lx.Next()
		switch t.Kind {
		case EOF, Bad, Semicolon:
			return row, false, nil
		case Param:
			st.Params = append(st.Params, t.Start)
		case Operator:
			switch st.Src[t.Start] {
			case '(':
				depth++
				row.Simple = false
				if prev.Kind == Word || prev.Kind == Quoted {
					name := st.Src[prev.Start:prev.End]
					if !slices.Contains(st.RowCalls, name) {
						st.RowCalls = append(st.RowCalls, name)
					}
				}
			case ')':
				depth--
			case ',':
			case '-', '+':
				// a sign only: (-5), not (1 - 5)
				if prev.Kind != Operator || st.Src[prev.Start] != '(' && st.Src[prev.Start] != ',' {
					row.Simple = false
				}
			default:
				row.Simple = false
			}
			if c := st.Src[t.Start]; c == ',' || c == ')' {
				unary = 0
			} else {
				unary++
			}
		case Word:
			switch w := st.Src[t.Start:t.End]; {
			case strings.EqualFold(w, "null"), strings.EqualFold(w, "default"), strings.EqualFold(w, "true"), strings.EqualFold(w, "false"):
			default:
				row.Simple = false
				if isUnaryWord(w) {
					unary++
				}
			}
		case Quoted, Variable:
			row.Simple = false
		case String, Int, Decimal, Float, Hex, Bit, Introducer:
			if err := st.noteString(t, prev.Kind == String); err != nil {
				return row, false, err
			}
			literals++
		}
		// two values side by side are only a charset and its string, or
		// strings to be joined
		if prev.Kind != Operator && t.Kind != Operator && prev.Kind != Introducer && (prev.Kind != String || t.Kind != String) {
			row.Simple = false
		}
		if t.Kind != Operator && t.Kind != Word {
			unary = 0
		}
		if t.Kind == Word || t.Kind == Quoted || t.Kind == Operator && st.Src[t.Start] != ',' {
			words++
		}
		if words > maxOperators {
			return row, false, NotSupported("a row with more than %d operators or names is not supported", maxOperators)
		}
		if depth > MaxNesting || unary > MaxNesting {
			return row, false, NotSupported("more than %d nested expressions are not supported", MaxNesting)
		}
		prev = t
	}
	if !row.Simple {
		if st.inRows += literals; st.inRows > MaxLiterals {
			return row, false, refuseLiterals()
		}
	}
	row.End = prev.End
	return row, true, nil
}

// readComments finds the hint and what an executable comment leaves in doubt.
func (st *Statement) readComments() *Error {
	first := uint32(len(st.Src))
	if len(st.Tokens) > 0 {
		first = st.Tokens[0].Start
	}
	// What is explained is planned by itself, and has its own hint.
	explained := uint32(len(st.Src))
	if st.Is(0, "explain") && st.Is(1, "route") {
		explained = st.Tokens[1].End
	}
	for _, c := range st.Comments {
		text := st.Src[c.Start:c.End]
		if c.Start >= explained {
			break
		}
		switch c.Kind {
		case Doubtful:
			st.Doubtful = true
		case OptimizerHint:
			if strings.Contains(strings.ToLower(text), "set_var") {
				st.SetVar = true
				if strings.Contains(strings.ToLower(text), "sql_mode") {
					st.Settings.PadCharToFullLength, st.Settings.ComputesOtherwise = true, true
				}
			}
		case PlainComment:
			name, ok, err := ParseHint(text)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if c.Start > first || st.Hinted {
				return HintError("the hint /* shunt: shard=%s */ must stand once, before the statement", name)
			}
			st.Hinted, st.HintShard = true, name
		case ExecutableOpen, ExecutableClose, skippedByAll: // all servers read these alike
		}
	}
	return nil
}

// HasExecutable reports an executable comment: text can't be cut or copied around one.
func (st *Statement) HasExecutable() bool {
	return slices.ContainsFunc(st.Comments, func(c Comment) bool { return c.Kind.executable() })
}

func refuseLiterals() *Error {
	return NotSupported("a statement with more than %d literals, rows of nothing else not counted, is not supported: send it in parts", MaxLiterals)
}

// noteString notes one that hidden may be asked for. joins: it follows another one.
func (st *Statement) noteString(t Token, joins bool) *Error {
	if t.Kind != String {
		return nil
	}
	if !joins {
		st.joining = 0
	}
	if st.joining++; st.joining > MaxJoined {
		return NotSupported("more than %d strings beside each other are not supported: write them as one", MaxJoined)
	}
	if t.End-t.Start > longLiteral {
		st.long = append(st.long, t)
	}
	return nil
}

// Long are the strings whose text the parser doesn't see: their values come
// from our own lexer anyway. Expressions of such a statement can't be compared by
// what they restore to.
func (st *Statement) Long() []Token {
	if len(st.Src) > MaxParsed {
		return st.long
	}
	return nil
}

// Blanked is the text for the parser: comments, rows of plain literals and what
// hidden says are spaces, so that every offset stays what it is. spans are blanked
// too.
func (st *Statement) Blanked(spans ...[2]uint32) string {
	if len(st.Comments) == 0 && len(st.Rows) <= 1 && len(spans) == 0 && len(st.Long()) == 0 {
		return st.Src
	}
	buf := []byte(st.Src)
	blank := func(from, to uint32) {
		for i := from; i < to; i++ {
			buf[i] = ' '
		}
	}
	for _, c := range st.Comments {
		blank(c.Start, c.End)
	}
	for _, t := range st.Long() { // but for its quotes
		buf[t.Start+1] = st.Src[t.End-1] // of one that was noted twice, too: see readRows
		blank(t.Start+2, t.End)
	}
	// One row at least must stay. The first that does is kept without the
	// comma before it.
	kept := max(slices.IndexFunc(st.Rows, func(r RowSpan) bool { return !r.Simple }), 0)
	seen := false
	for i, r := range st.Rows {
		if i > 0 && !seen {
			blank(st.Rows[i-1].End, r.Start)
		}
		if i == kept {
			seen = true
			continue
		}
		if !r.Simple {
			continue
		}
		if i > 0 {
			blank(st.Rows[i-1].End, r.End)
		} else {
			blank(r.Start, r.End)
		}
	}
	for _, s := range spans {
		blank(s[0], s[1])
	}
	return string(buf)
}

func isUnaryWord(w string) bool {
	return strings.EqualFold(w, "not") || strings.EqualFold(w, "binary") || strings.EqualFold(w, "case") ||
		strings.EqualFold(w, "interval") || strings.EqualFold(w, "explain") || strings.EqualFold(w, "describe") || strings.EqualFold(w, "desc")
}

func isBinaryWord(w string) bool {
	switch len(w) {
	case 2:
		return strings.EqualFold(w, "or") || strings.EqualFold(w, "is") || strings.EqualFold(w, "in")
	case 3:
		return strings.EqualFold(w, "and") || strings.EqualFold(w, "xor") || strings.EqualFold(w, "div") || strings.EqualFold(w, "mod")
	case 4:
		return strings.EqualFold(w, "like") || strings.EqualFold(w, "join")
	}
	return false
}

// HidesASCII names the client character sets in which a byte of ASCII may
// be the second half of a character, so that text can't be cut bytewise.
func HidesASCII(charset string) bool {
	switch charset {
	case "big5", "cp932", "gb18030", "gbk", "sjis", "ucs2", "utf16", "utf16le", "utf32":
		return true
	}
	return false
}

// IsASCII reports a text of nothing but ASCII.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
