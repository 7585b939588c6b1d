package planner

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // the parser's value types
)

// parserPool keeps TiDB parsers: a new one costs as much as a parse.
type parserPool struct{ pool sync.Pool }

// parse reads one statement. The tree belongs to the caller; the parser keeps
// nothing of it but the slice that it is returned in.
func (p *parserPool) parse(text string, s Settings, mariaDB bool) (stmt ast.StmtNode, err error) {
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
	stmts, _, err := ps.ParseSQL(text)
	if err != nil && strings.Contains(err.Error(), "1273") {
		stmts, _, err = ps.ParseSQL(withKnownCollations(text, s))
	}
	if err != nil {
		// A parser that stopped half-way is not used again.
		return nil, err
	}
	if len(stmts) == 1 {
		stmt = stmts[0]
	}
	// Its stack has expressions of this tree, whose offsets the next parse, another
	// session's, would write.
	ps.Reset()
	p.pool.Put(ps)
	if stmt == nil {
		return nil, notSupported("the parser found no single statement")
	}
	return stmt, nil
}

// withKnownCollations puts one that the parser knows, at equal length, where COLLATE names any:
// MariaDB's uca1400 and nopad collations, and most of one language, it doesn't. What sorts or compares by
// COLLATE is left to the servers, whichever it is, and so are names of none.
func withKnownCollations(text string, s Settings) string {
	const known = "binary"
	buf := []byte(text)
	lx := newLexer(text, s, serverVersion{})
	var before, collate token
	for t := lx.next(); t.kind != tokEOF && t.kind != tokBad; t = lx.next() {
		if n := int(t.end - t.start); n >= len(known) && strings.EqualFold(text[collate.start:collate.end], "collate") && text[before.start:before.end] != "." {
			copy(buf[t.start:t.end], known+strings.Repeat(" ", n-len(known)))
		}
		before, collate = collate, t
	}
	return string(buf)
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

func refuseParse(err error) *Error {
	e := notSupported("Shunt can't read this statement (%s). If it is valid for the shards, send it to one with /* shunt: shard=NAME */", nearOf(err))
	e.Unread = true
	return e
}
