package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Bounds on what is read. TiDB's parser keeps its stack on the heap, but
// whoever walks its tree recurses: 15 million `!` overflow the goroutine's
// stack, which kills the process. Each bound is far above what MySQL itself
// accepts.
const (
	maxStatement = 64 << 20 // bytes of a statement
	maxParsed    = 16 << 20 // bytes that the parser sees: see blanked
	longLiteral  = 1 << 20  // bytes of a string that it doesn't see in a longer statement
	maxJoined    = 1000     // strings beside each other ('a' 'b'): it copies what it has of them for each
	maxNesting   = 1000     // parentheses, or unary operators in a row
	maxWords     = 200_000  // identifiers and keywords that the parser sees
	maxOperators = 200_000  // operators that the parser sees
	maxLiterals  = 1 << 20  // literals that it sees: they take 500 bytes each
)

// statement is one statement, lexed.
type statement struct {
	src      string
	settings Settings
	server   serverVersion
	toks     []token // without those of rows (see rows)
	comments []comment
	params   []uint32 // offsets of the `?`
	kinds    string   // literalKinds of what they stand for; "": not known
	long     []token  // strings of more than longLiteral, those of rows too
	joining  int      // strings in turn, so far
	inRows   int      // literals of the rows that the parser sees
	// rows are the row lists of an INSERT or REPLACE ... VALUES, whose tokens
	// are not in toks: a statement of a million rows stays cheap.
	rows []rowSpan
	// rowsAt is the place in toks where the rows would stand.
	rowsAt int
	// rowRefusal: a function in a row that is refused. rowCalls are the names (lower
	// case) of what is called in rows.
	rowRefusal *Error
	rowCalls   []string
	// hintShard is the shard named by /* shunt: shard=NAME */.
	hintShard string
	hinted    bool
	// returning: RETURNING was cut off, see cutReturning.
	returning bool
	// doubtful: an executable comment that some server may run and another not.
	doubtful bool
	// setVar: an optimizer hint SET_VAR, which may change the SQL mode.
	setVar bool
}

// rowSpan is one `(..)` of VALUES. simple rows hold literals and parameters
// only, and the parser does not see them.
type rowSpan struct {
	start, end uint32
	simple     bool
}

func newLexer(sql string, s Settings, server serverVersion) lexer {
	return lexer{src: sql, ansiQuotes: s.ANSIQuotes, noBackslash: s.NoBackslashEscapes, server: server}
}

func syntaxError(format string, args ...any) *Error {
	e := notSupported(format, args...)
	e.Code, e.Unread = codeParse, true
	return e
}

// lexStatement reads a statement and holds it to the bounds.
func lexStatement(sql string, s Settings, cat *catalog.Catalog) (*statement, *Error) {
	if len(sql) > maxStatement {
		return nil, &Error{Code: codeTooLong, State: stateConnectionBad, Message: "statement is larger than 64 MiB: send it in parts"}
	}
	if HidesASCII(s.Charset) && !isASCII(sql) {
		return nil, notSupported("character_set_client %s with other than ASCII text is not supported: a quote may hide in its two-byte characters; SET NAMES utf8mb4", s.Charset)
	}
	var server serverVersion
	if cat != nil {
		server = parseServerVersion(cat.ServerVersion, cat.MariaDB)
		server.others = cat.OtherVersions
	}
	st := &statement{src: sql, settings: s, server: server, rowsAt: -1}
	lx := newLexer(sql, s, server)
	depth, unary, words, operators, literals := 0, 0, 0, 0, 0
	insert := false
	for {
		t := lx.next()
		switch t.kind {
		case tokEOF:
			st.comments = lx.comments
			if depth > 0 {
				return nil, syntaxError("You have an error in your SQL syntax: a parenthesis is not closed")
			}
			return st, st.readComments()
		case tokBad:
			if int(t.start) < len(sql) && int(t.end) < len(sql) {
				return nil, syntaxError("You have an error in your SQL syntax near %.40q", sql[t.start:])
			}
			return nil, syntaxError("You have an error in your SQL syntax: a string or comment is not closed")
		case tokEnd:
			if st.compound() {
				break
			}
			// Split leaves no `;` but a last one.
			if rest := lx.next(); rest.kind != tokEOF && rest.kind != tokEnd {
				return nil, syntaxError("You have an error in your SQL syntax near %.40q: one statement was expected", sql[rest.start:])
			}
			continue
		case tokParam:
			st.params = append(st.params, t.start)
			unary = 0
			literals++
		case tokOp:
			switch sql[t.start] {
			case '(':
				depth++
			case ')':
				depth--
				if depth < 0 {
					return nil, syntaxError("You have an error in your SQL syntax near ')'")
				}
			case ',', '.':
			default:
				operators++
			}
			if c := sql[t.start]; c == ',' || c == ')' {
				unary = 0
			} else {
				unary++
			}
		case tokWord:
			words++
			switch {
			case isUnaryWord(sql[t.start:t.end]):
				unary++
				operators++
			case isBinaryWord(sql[t.start:t.end]):
				operators++
				unary = 0
			default:
				unary = 0
			}
		case tokQuoted:
			words++
			unary = 0
		default:
			unary = 0
			literals++
		}
		if depth > maxNesting || unary > maxNesting {
			return nil, notSupported("more than %d nested expressions are not supported", maxNesting)
		}
		if words > maxWords || operators > maxOperators {
			return nil, notSupported("a statement with more than %d operators or names is not supported: send it in parts", maxOperators)
		}
		if literals+st.inRows > maxLiterals {
			return nil, refuseLiterals()
		}
		if err := st.noteString(t, len(st.toks) > 0 && st.toks[len(st.toks)-1].kind == tokString); err != nil {
			return nil, err
		}
		st.toks = append(st.toks, t)
		if t.kind != tokWord || depth != 0 {
			continue
		}
		if len(st.toks) == 1 {
			insert = st.is(0, "insert") || st.is(0, "replace")
		} else if insert && st.rowsAt < 0 && (st.is(len(st.toks)-1, "values") || st.is(len(st.toks)-1, "value")) && st.canBeRows() {
			if err := st.readRows(&lx); err != nil {
				return nil, err
			}
		}
	}
}

// compound reports a stored program with a body, BEGIN .. END, in which `;` ends
// no statement. MariaDB has FOR loops, packages, and blocks of their own, besides.
func (st *statement) compound() bool {
	if !st.is(0, "create") && !st.is(0, "alter") {
		return st.is(0, "begin") && st.is(1, "not")
	}
	program := false
	for i := range st.toks {
		switch st.word(i) {
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
			if program && st.is(i+2, "in") {
				return true
			}
		}
	}
	return false
}

// canBeRows tells the VALUES of `INSERT INTO t VALUES` from a column or table
// of that name, and from VALUES ROW(..).
func (st *statement) canBeRows() bool {
	for i := range st.toks[:len(st.toks)-1] {
		// INSERT INTO t SELECT .. FROM (VALUES ..), ON DUPLICATE KEY UPDATE a = VALUES(a)
		if st.is(i, "select") || st.is(i, "set") || st.is(i, "with") || st.is(i, "duplicate") || st.is(i, "table") {
			return false
		}
	}
	n := len(st.toks)
	return n >= 3 && !st.is(n-2, "into") && !st.op(n-2, ".")
}

// readRows reads `(..), (..)` after VALUES.
func (st *statement) readRows(lx *lexer) *Error {
	mark := *lx
	mark.comments = append([]comment(nil), lx.comments...)
	params := len(st.params)
	back := func() { // not rows: let the common loop read it
		*lx = mark
		st.params = st.params[:params]
		st.rows, st.rowsAt, st.rowCalls, st.inRows = nil, -1, nil, 0
	}
	st.rowsAt = len(st.toks)
	for {
		save := *lx
		nc := len(lx.comments)
		t := lx.next()
		if len(st.rows) > 0 {
			if t.kind != tokOp || st.src[t.start] != ',' {
				comments := lx.comments[:nc]
				*lx = save
				lx.comments = comments
				return nil
			}
			t = lx.next()
		}
		if t.kind != tokOp || st.src[t.start] != '(' {
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
		st.rows = append(st.rows, row)
	}
}

// readRow reads a row behind its parenthesis; ok is false where that isn't closed.
func (st *statement) readRow(lx *lexer, open token) (row rowSpan, ok bool, err *Error) {
	row = rowSpan{start: open.start, simple: true}
	depth, unary, words, literals := 1, 0, 0, 0
	prev := open
	for depth > 0 {
		t := lx.next()
		switch t.kind {
		case tokEOF, tokBad, tokEnd:
			return row, false, nil
		case tokParam:
			st.params = append(st.params, t.start)
		case tokOp:
			switch st.src[t.start] {
			case '(':
				depth++
				row.simple = false
				if prev.kind == tokWord && st.rowRefusal == nil {
					st.rowRefusal = refusedFunction(st.src[prev.start:prev.end])
				}
				if prev.kind == tokWord || prev.kind == tokQuoted {
					name := strings.ToLower(strings.Trim(st.src[prev.start:prev.end], "`\""))
					if !slices.Contains(st.rowCalls, name) {
						st.rowCalls = append(st.rowCalls, name)
					}
				}
			case ')':
				depth--
			case ',':
			case '-', '+':
				// a sign only: (-5), not (1 - 5)
				if prev.kind != tokOp || st.src[prev.start] != '(' && st.src[prev.start] != ',' {
					row.simple = false
				}
			default:
				row.simple = false
			}
			if c := st.src[t.start]; c == ',' || c == ')' {
				unary = 0
			} else {
				unary++
			}
		case tokWord:
			switch w := st.src[t.start:t.end]; {
			case strings.EqualFold(w, "null"), strings.EqualFold(w, "default"), strings.EqualFold(w, "true"), strings.EqualFold(w, "false"):
			default:
				row.simple = false
				if isUnaryWord(w) {
					unary++
				}
			}
		case tokQuoted, tokVar:
			row.simple = false
		case tokString, tokInt, tokDecimal, tokFloat, tokHex, tokBit, tokIntro:
			if err := st.noteString(t, prev.kind == tokString); err != nil {
				return row, false, err
			}
			literals++
		}
		// two values side by side are only a charset and its string, or
		// strings to be joined
		if prev.kind != tokOp && t.kind != tokOp && prev.kind != tokIntro && (prev.kind != tokString || t.kind != tokString) {
			row.simple = false
		}
		if t.kind != tokOp && t.kind != tokWord {
			unary = 0
		}
		if t.kind == tokWord || t.kind == tokQuoted || t.kind == tokOp && st.src[t.start] != ',' {
			words++
		}
		if words > maxOperators {
			return row, false, notSupported("a row with more than %d operators or names is not supported", maxOperators)
		}
		if depth > maxNesting || unary > maxNesting {
			return row, false, notSupported("more than %d nested expressions are not supported", maxNesting)
		}
		prev = t
	}
	if !row.simple {
		if st.inRows += literals; st.inRows > maxLiterals {
			return row, false, refuseLiterals()
		}
	}
	row.end = prev.end
	return row, true, nil
}

// readComments finds the hint and what an executable comment leaves in doubt.
func (st *statement) readComments() *Error {
	first := uint32(len(st.src))
	if len(st.toks) > 0 {
		first = st.toks[0].start
	}
	// What is explained is planned by itself, and has its own hint.
	explained := uint32(len(st.src))
	if st.is(0, "explain") && st.is(1, "route") {
		explained = st.toks[1].end
	}
	for _, c := range st.comments {
		text := st.src[c.start:c.end]
		if c.start >= explained {
			break
		}
		switch c.kind {
		case doubtfulBlock:
			st.doubtful = true
		case hintComment:
			if strings.Contains(strings.ToLower(text), "set_var") {
				st.setVar = true
				if strings.Contains(strings.ToLower(text), "sql_mode") {
					st.settings.PadCharToFullLength, st.settings.ComputesOtherwise = true, true
				}
			}
		case plainComment:
			name, ok, err := parseHint(text)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if c.start > first || st.hinted {
				return hintError("the hint /* shunt: shard=%s */ must stand once, before the statement", name)
			}
			st.hinted, st.hintShard = true, name
		case execOpen, execClose, skippedByAll: // all servers read these alike
		}
	}
	return nil
}

// hasExecutable reports an executable comment: text can't be cut or copied around one.
func (st *statement) hasExecutable() bool {
	return slices.ContainsFunc(st.comments, func(c comment) bool { return c.kind.executable() })
}

func refuseLiterals() *Error {
	return notSupported("a statement with more than %d literals, rows of nothing else not counted, is not supported: send it in parts", maxLiterals)
}

// noteString notes one that hidden may be asked for. joins: it follows another one.
func (st *statement) noteString(t token, joins bool) *Error {
	if t.kind != tokString {
		return nil
	}
	if !joins {
		st.joining = 0
	}
	if st.joining++; st.joining > maxJoined {
		return notSupported("more than %d strings beside each other are not supported: write them as one", maxJoined)
	}
	if t.end-t.start > longLiteral {
		st.long = append(st.long, t)
	}
	return nil
}

// hidden are the strings whose text the parser doesn't see: their values come
// from our own lexer anyway. Expressions of such a statement can't be compared by
// what they restore to.
func (st *statement) hidden() []token {
	if len(st.src) > maxParsed {
		return st.long
	}
	return nil
}

// blanked is the text for the parser: comments, rows of plain literals and what
// hidden says are spaces, so that every offset stays what it is. spans are blanked
// too.
func (st *statement) blanked(spans ...[2]uint32) string {
	if len(st.comments) == 0 && len(st.rows) <= 1 && len(spans) == 0 && len(st.hidden()) == 0 {
		return st.src
	}
	buf := []byte(st.src)
	blank := func(from, to uint32) {
		for i := from; i < to; i++ {
			buf[i] = ' '
		}
	}
	for _, c := range st.comments {
		blank(c.start, c.end)
	}
	for _, t := range st.hidden() { // but for its quotes
		buf[t.start+1] = st.src[t.end-1] // of one that was noted twice, too: see readRows
		blank(t.start+2, t.end)
	}
	// One row at least must stay. The first that does is kept without the
	// comma before it.
	kept := max(slices.IndexFunc(st.rows, func(r rowSpan) bool { return !r.simple }), 0)
	seen := false
	for i, r := range st.rows {
		if i > 0 && !seen {
			blank(st.rows[i-1].end, r.start)
		}
		if i == kept {
			seen = true
			continue
		}
		if !r.simple {
			continue
		}
		if i > 0 {
			blank(st.rows[i-1].end, r.end)
		} else {
			blank(r.start, r.end)
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

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
