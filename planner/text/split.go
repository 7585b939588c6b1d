package text

import (
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// Split cuts a multi-statement text at its `;` into statements of exact text,
// comments included; empty parts are left out, but a text of nothing else gives
// one empty statement.
//
// A stored program (CREATE TRIGGER .. BEGIN .. END) takes all that follows.
//
// A `;` inside of an executable comment belongs to its statement: the servers
// would cut there, Shunt's statement is then refused by Plan.
func Split(sql string, s Settings) ([]string, error) {
	if len(sql) > maxStatement {
		return nil, NewError(mysqlerr.NetPacketTooLarge, "statements are larger than 64 MiB: send them in parts")
	}
	if HidesASCII(s.Charset) && !IsASCII(sql) {
		return []string{sql}, nil // Plan refuses it and says why
	}
	if strings.IndexByte(sql, ';') < 0 {
		return []string{sql}, nil
	}
	// All executable comments are entered: where one is closed doesn't depend
	// on whether it runs, but for quotes in those that don't.
	lx := NewLexer(sql, s, ServerVersion{MariaDB: true})
	var out []string
	start, seen := 0, false
	var head Statement // the first words, to know a stored program by
	for {
		t := lx.Next()
		switch t.Kind {
		case Word:
			if len(head.Tokens) == 0 && seen {
				continue // begins with something else
			}
			seen = true
			// A program's body begins behind its parameters.
			if len(head.Tokens) < 64 || head.Is(0, "create") || head.Is(0, "alter") {
				head.Src = sql
				head.Tokens = append(head.Tokens, t)
			}
		case EOF, Bad:
			if seen || t.Kind == Bad || len(out) == 0 {
				out = append(out, sql[start:])
			}
			return out, nil
		case Semicolon:
			if lx.inExec > 0 || head.compound() {
				continue
			}
			head.Tokens = head.Tokens[:0]
			if seen {
				out = append(out, sql[start:t.Start])
			}
			start, seen = int(t.End), false
		default:
			seen = true
		}
	}
}
