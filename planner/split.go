package planner

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
		return nil, &Error{Code: codeTooLong, State: stateConnectionBad, Message: "statements are larger than 64 MiB: send them in parts"}
	}
	if HidesASCII(s.Charset) && !isASCII(sql) {
		return []string{sql}, nil // Plan refuses it and says why
	}
	// All executable comments are entered: where one is closed doesn't depend
	// on whether it runs, but for quotes in those that don't.
	lx := newLexer(sql, s, serverVersion{mariaDB: true})
	var out []string
	start, seen := 0, false
	var head statement // the first words, to know a stored program by
	for {
		t := lx.next()
		switch t.kind {
		case tokWord:
			if len(head.toks) == 0 && seen {
				continue // begins with something else
			}
			seen = true
			// A program's body begins behind its parameters.
			if len(head.toks) < 64 || head.is(0, "create") || head.is(0, "alter") {
				head.src = sql
				head.toks = append(head.toks, t)
			}
		case tokEOF, tokBad:
			if seen || t.kind == tokBad || len(out) == 0 {
				out = append(out, sql[start:])
			}
			return out, nil
		case tokEnd:
			if lx.inExec > 0 || head.compound() {
				continue
			}
			head.toks = head.toks[:0]
			if seen {
				out = append(out, sql[start:t.start])
			}
			start, seen = int(t.end), false
		default:
			seen = true
		}
	}
}
