package planner

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // the parser's value types

	"github.com/shunt-sql/shunt/planner/text"
)

// parserPool keeps TiDB parsers: a new one costs as much as a parse.
type parserPool struct{ pool sync.Pool }

// parse reads one statement. The tree belongs to the caller; the parser keeps
// nothing of it but the slice that it is returned in.
func (p *parserPool) parse(sql string, s text.Settings, mariaDB bool) (stmt ast.StmtNode, err error) {
	defer func() {
		// A bug of the parser's is one statement's error, not the process's end.
		if r := recover(); r != nil {
			stmt, err = nil, fmt.Errorf("parser: %v", r)
		}
	}()
	ps, _ := p.pool.Get().(*parser.Parser)
	if ps == nil {
		ps = parser.New()
	}
	var mode mysql.SQLMode
	if s.ANSIQuotes {
		mode |= mysql.ModeANSIQuotes
	}
	if s.NoBackslashEscapes {
		mode |= mysql.ModeNoBackslashEscapes
	}
	if s.PipesAsConcat {
		mode |= mysql.ModePipesAsConcat
	}
	if s.IgnoreSpace {
		mode |= mysql.ModeIgnoreSpace
	}
	if s.HighNotPrecedence {
		mode |= mysql.ModeHighNotPrecedence
	}
	ps.SetSQLMode(mode)
	ps.SetMariaDB(mariaDB)
	stmts, _, err := ps.ParseSQL(sql)
	var forms *unparsed
	if err != nil {
		known := withKnownNames(sql, s)
		if known != sql {
			stmts, _, err = ps.ParseSQL(known)
		}
		if err != nil {
			if forms = readUnparsed(known, s, mariaDB); forms.changed {
				stmts, _, err = ps.ParseSQL(string(forms.buf))
			}
		}
	}
	if err != nil {
		// A parser that stopped half-way is not used again.
		return nil, err
	}
	if len(stmts) == 1 {
		stmt = stmts[0]
		if forms != nil {
			stmt = forms.readInto(stmt)
		}
	}
	// Its stack has expressions of this tree, whose offsets the next parse, another
	// session's, would write.
	ps.Reset()
	p.pool.Put(ps)
	if stmt == nil {
		return nil, text.NotSupported("the parser found no single statement")
	}
	return stmt, nil
}

// withKnownNames puts names that the parser knows, at equal length, for collations and character sets that
// it may not: MariaDB's uca1400 and nopad collations, cp1251, utf16 and most others; and REGEXP for SOUNDS LIKE. What sorts or compares by
// COLLATE, or is converted, is left to the servers, whichever it is, and so are names of none. What a literal
// with an introducer is, is read from the text that the client sent.
func withKnownNames(sql string, s text.Settings) string {
	const collation = "binary"
	buf := []byte(sql)
	lx := text.NewLexer(sql, s, text.ServerVersion{})
	put := func(t text.Token, name string) {
		copy(buf[t.Start:t.End], name+strings.Repeat(" ", int(t.End-t.Start)-len(name)))
	}
	var prev [3]text.Token // the last one first
	word := func(i int) string { return strings.ToLower(sql[prev[i].Start:prev[i].End]) }
	for t := lx.Next(); t.Kind != text.EOF && t.Kind != text.Bad; t = lx.Next() {
		if word(0) == "=" { // CHARSET = cp1251
			prev[0], prev[1] = prev[1], prev[2]
		}
		named := word(0) == "using" || word(0) == "charset" || word(0) == "set" && (word(1) == "character" || word(1) == "char")
		name := strings.ToLower(strings.Trim(sql[t.Start:t.End], "'\"`"))
		switch {
		case word(0) == "collate" && word(1) != "." && int(t.End-t.Start) >= len(collation):
			put(t, collation)
		case word(0) == "sounds" && strings.EqualFold(sql[t.Start:t.End], "like"):
			// What bounds no lookup stands in for it.
			put(prev[0], "regexp")
			put(t, "")
		case t.Kind == text.Introducer && len(name) > 1 && unparsedCharset(name[1:]):
			if intro := "_" + parsedCharset(name[1:]); intro != "_gbk" {
				put(t, intro)
			} else {
				put(t, "") // as an introducer the parser doesn't know that either
			}
		case named && unparsedCharset(name):
			put(t, parsedCharset(name))
		}
		prev[2], prev[1], prev[0] = prev[1], prev[0], t
	}
	return string(buf)
}

// unparsedCharset reports a character set of the servers' that the parser doesn't know.
func unparsedCharset(name string) bool {
	switch name {
	case "ascii", "binary", "gb18030", "gbk", "latin1", "utf8", "utf8mb3", "utf8mb4":
		return false
	}
	return text.IsCharsetName(name)
}

// parsedCharset is one that the parser knows, and no longer than name.
func parsedCharset(name string) string {
	if len(name) < len("utf8") {
		return "gbk"
	}
	return "utf8"
}

// nearOf shortens what the parser says.
func nearOf(err error) string {
	s := err.Error()
	if i := strings.Index(s, "near "); i >= 0 {
		s = s[i:]
	}
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > 100 {
		s = string(r[:100]) + "..."
	}
	return s
}

func refuseParse(err error) *text.Error {
	e := text.NotSupported("Shunt can't read this statement (%s). If it is valid for the shards, send it to one with /* shunt: shard=NAME */", nearOf(err))
	e.Unread = true
	return e
}
