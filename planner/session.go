package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// planSession plans what changes the session or its transaction, and refuses
// what is left.
func planSession(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	switch w := st.word(0); w {
	case "begin":
		switch {
		case len(st.toks) == 1, len(st.toks) == 2 && st.is(1, "work"):
			return &Session{Op: Begin}, nil
		case st.is(1, "not"):
			return nil, notSupported("BEGIN NOT ATOMIC blocks are not supported yet")
		}
		return nil, st.near(1)
	case "start":
		return planStart(st)
	case "commit":
		return planEnd(st, Commit)
	case "rollback":
		return planEnd(st, Rollback)
	case "savepoint":
		return named(st, Savepoint, 1)
	case "release":
		if st.is(1, "savepoint") {
			return named(st, ReleaseSavepoint, 2)
		}
	case "use":
		name, ok := st.identifier(1)
		if !ok || len(st.toks) != 2 {
			return nil, st.near(1)
		}
		return &Session{Op: Use, Schema: name}, nil
	case "set":
		return planSet(st, cat)
	case "unlock":
		return planUnlock(st, cat)
	case "lock":
		return planLock(st, cat)
	case "xa":
		return nil, notSupported("XA transactions are not supported yet: use BEGIN and COMMIT")
	case "handler":
		return nil, notSupported("HANDLER is not supported: it would read one shard by an open cursor; use SELECT")
	case "prepare", "execute", "deallocate":
		return nil, notPrepared()
	case "call":
		return call(st, cat)
	case "kill":
		return planKill(st)
	case "analyze", "optimize", "repair", "checksum":
		return maintenance(st, cat)
	case "flush":
		return flush(st, cat)
	case "help":
		return fixed(st, cat, Show, nil, &fixedAction{shards: firstShard(cat), access: "single", reason: "any shard will do"}), nil
	case "cache", "purge":
		return nil, notSupported("%s is not supported: run it on the shard itself", strings.ToUpper(w))
	case "grant", "revoke":
		return nil, refuseAccount(st)
	case "install", "uninstall", "import", "clone", "binlog", "change", "reset", "stop", "shutdown", "restart",
		"signal", "resignal", "get":
		return nil, notSupported("%s is not supported: run it on the shard itself", strings.ToUpper(w))
	}
	return nil, st.near(0)
}

func named(st *statement, op SessionOp, i int) (Plan, *Error) {
	name, ok := st.identifier(i)
	if !ok || len(st.toks) != i+1 {
		return nil, st.near(i)
	}
	return &Session{Op: op, Name: name}, nil
}

func planStart(st *statement) (Plan, *Error) {
	if !st.is(1, "transaction") {
		return nil, notSupported("START %s is not supported: run it on the shard itself", strings.ToUpper(st.word(1)))
	}
	s := &Session{Op: Begin}
	for i := 2; i < len(st.toks); {
		switch {
		case st.is(i, "with") && st.is(i+1, "consistent") && st.is(i+2, "snapshot"):
			s.ConsistentSnapshot = true
			i += 3
		case st.is(i, "read") && st.is(i+1, "only"):
			s.ReadOnly = true
			i += 2
		case st.is(i, "read") && st.is(i+1, "write"):
			s.ReadWrite = true
			i += 2
		default:
			return nil, st.near(i)
		}
		if st.op(i, ",") {
			i++
			if i == len(st.toks) {
				return nil, st.near(i)
			}
		} else if i < len(st.toks) {
			return nil, st.near(i)
		}
	}
	if s.ReadOnly && s.ReadWrite {
		return nil, st.near(len(st.toks) - 1)
	}
	return s, nil
}

func planEnd(st *statement, op SessionOp) (Plan, *Error) {
	s := &Session{Op: op}
	i := 1
	if st.is(i, "work") {
		i++
	}
	if op == Rollback && st.is(i, "to") {
		i++
		if st.is(i, "savepoint") && i+1 < len(st.toks) {
			i++
		}
		return named(st, RollbackTo, i)
	}
	if st.is(i, "and") {
		i++
		no := st.is(i, "no")
		if no {
			i++
		}
		if !st.is(i, "chain") {
			return nil, st.near(i)
		}
		i++
		s.Chain, s.NoChain = !no, no
	}
	no := st.is(i, "no")
	if no {
		i++
	}
	if st.is(i, "release") {
		i++
		s.Release, s.NoRelease = !no, no
	} else if no {
		return nil, st.near(i)
	}
	switch {
	case i != len(st.toks):
		return nil, st.near(i)
	case s.Chain && s.Release:
		return nil, st.near(i - 1)
	}
	return s, nil
}

// planSet plans all forms of SET.
func planSet(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if err := st.refusedInSet(); err != nil {
		return nil, err
	}
	switch st.word(1) {
	case "names":
		if !st.topLevelComma() {
			s, err := setNames(st)
			if err != nil {
				return nil, err
			}
			return s, nil
		}
	case "character":
		if st.is(2, "set") {
			return setCharset(st, 3)
		}
	case "charset":
		if !st.op(2, "=") && !st.op(2, ":=") {
			return setCharset(st, 2)
		}
	case "password":
		return nil, notSupported("SET PASSWORD is not supported: accounts of Shunt are in its configuration")
	case "role", "default", "resource", "statement":
		if !st.op(2, "=") && !st.op(2, ":=") {
			return nil, notSupported("SET %s is not supported yet", strings.ToUpper(st.word(1)))
		}
	case "transaction":
		return setTransaction(st, 2, "transaction")
	}
	if st.is(2, "transaction") && scopeOf(st.word(1)) != "" {
		return setTransaction(st, 3, scopeOf(st.word(1)))
	}
	s := &Session{Op: SetVariables}
	scope := "session"
	start := 1
	depth := 0
	for i := 1; i <= len(st.toks); i++ {
		switch {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			depth--
		}
		if i < len(st.toks) && (depth != 0 || !st.op(i, ",")) {
			continue
		}
		if st.is(start, "names") && !st.op(start+1, "=") && !st.op(start+1, ":=") {
			part := &statement{src: st.src, settings: st.settings, toks: append([]token{{kind: tokWord}}, st.toks[start:i]...)}
			names, err := setNames(part)
			if err != nil {
				return nil, err
			}
			s.Set = append(s.Set, names.Set...)
			start = i + 1
			continue
		}
		a, err := setOne(st, start, i, &scope)
		if err != nil {
			return nil, err
		}
		if !a.IsLiteral {
			mentioned, query := st.mentionedIn(start, i, cat)
			if k := slices.IndexFunc(mentioned, func(t *catalog.Table) bool { return t.Temporary }); k >= 0 {
				// Counter-example: on another connection the name is that of the table
				// it hides.
				return nil, notSupported("SET with a query over the temporary table %s is not supported: read the value first", mentioned[k].Name)
			}
			for _, t := range mentioned {
				if t.Shards.Len() > 1 && t.Placement != catalog.Reference || t.IsView {
					return nil, notSupported("SET with a query over the sharded table %s is not supported yet: read the value first", t.Name)
				}
			}
			a.Tables = mentioned
			a.System = query && (catalog.IsSystemSchema(st.settings.Schema) || st.hasIn(start, i, "information_schema", "performance_schema"))
		}
		s.Set = append(s.Set, a)
		start = i + 1
	}
	return s, nil
}

// refusedInSet is refusedLexically for SET, where := is an assignment.
func (st *statement) refusedInSet() *Error {
	for i := range st.toks {
		if e := st.refusedCall(i); e != nil {
			return e
		}
	}
	return nil
}

// mentionedIn is mentioned for a query among tokens i to j; a name outside of a
// query is no table.
func (st *statement) mentionedIn(i, j int, cat *catalog.Catalog) (tables []*catalog.Table, query bool) {
	if !st.hasIn(i, j, "select", "table") {
		return nil, false
	}
	part := &statement{src: st.src, settings: st.settings, toks: st.toks[i:j]}
	return part.mentioned(cat), true
}

// hasIn reports whether one of some names is among tokens i to j.
func (st *statement) hasIn(i, j int, names ...string) bool {
	for ; i < j; i++ {
		if name, ok := st.identifier(i); ok && slices.Contains(names, strings.ToLower(name)) {
			return true
		}
	}
	return false
}

func scopeOf(w string) string {
	switch w {
	case "global", "persist", "session":
		return w
	case "local":
		return "session"
	case "persist_only":
		return "persist"
	}
	return ""
}

// setOne reads `[scope] name = value` from tokens i to end. A scope keyword
// holds for the assignments after it too; @@scope. only for its own.
func setOne(st *statement, i, end int, scope *string) (Assignment, *Error) {
	var a Assignment
	if w := scopeOf(st.word(i)); w != "" && !st.op(i+1, "=") && !st.op(i+1, ":=") {
		*scope = w
		i++
	}
	a.Scope = *scope
	switch {
	case i >= end:
		return a, st.near(i)
	case st.toks[i].kind == tokVar:
		name := st.text(i)
		if strings.HasPrefix(name, "@@") {
			a.Name = strings.ToLower(strings.Trim(name[2:], "`"))
			a.Scope = "session"
			switch a.Name {
			case "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only":
				a.Scope = "transaction" // as SET TRANSACTION
			}
			if w := scopeOf(a.Name); w != "" && st.op(i+1, ".") {
				a.Scope = w
				name, ok := st.identifier(i + 2)
				if !ok {
					return a, st.near(i + 2)
				}
				a.Name = strings.ToLower(name)
				i += 2
			}
		} else {
			a.Scope = "user"
			a.Name, _ = st.userVariable(i)
		}
	default:
		name, ok := st.identifier(i)
		if !ok {
			return a, st.near(i)
		}
		switch strings.ToLower(name) {
		case "character", "charset", "password":
			if !st.op(i+1, "=") && !st.op(i+1, ":=") {
				return a, notSupported("SET %s beside other assignments is not supported: send it alone", strings.ToUpper(name))
			}
		}
		a.Name = strings.ToLower(name)
	}
	i++
	if st.op(i, ".") { // a variable of a component or key cache: SET x.y = 1
		name, ok := st.identifier(i + 1)
		if !ok {
			return a, st.near(i + 1)
		}
		a.Name += "." + strings.ToLower(name)
		i += 2
	}
	if !st.op(i, "=") && !st.op(i, ":=") || i+1 >= end {
		return a, st.near(i)
	}
	i++
	a.Value = st.src[st.toks[i].start:st.toks[end-1].end]
	a.Literal, a.IsLiteral = st.literalText(i, end)
	return a, nil
}

// userVariable is the name (lower case) of the user variable at token i.
func (st *statement) userVariable(i int) (string, bool) {
	if st.toks[i].kind != tokVar {
		return "", false
	}
	name := st.text(i)[1:]
	if strings.HasPrefix(name, "@") {
		return "", false
	}
	switch q := name[:min(1, len(name))]; q {
	case "`":
		name = strings.ReplaceAll(name[1:len(name)-1], "``", q)
	case "'", `"`:
		quoted := st.toks[i]
		quoted.start++ // behind the @
		name = string(st.unescape(quoted))
	}
	return strings.ToLower(name), true
}

// userVariables are those that the statement names.
func (st *statement) userVariables() (names []string) {
	for i := range st.toks {
		if v, ok := st.userVariable(i); ok && !slices.Contains(names, v) {
			names = append(names, v)
		}
	}
	return names
}

// literalText is the value of one literal or bare word.
func (st *statement) literalText(i, end int) (string, bool) {
	switch t := st.toks[i]; {
	case end-i == 1 && t.kind == tokString:
		return string(st.unescape(t)), true
	case end-i == 1 && (t.kind == tokWord || t.kind == tokInt || t.kind == tokDecimal || t.kind == tokFloat):
		return st.text(i), true
	case end-i == 1 && t.kind == tokQuoted:
		return st.identifier(i)
	case end-i == 2 && st.op(i, "-") && (st.toks[i+1].kind == tokInt || st.toks[i+1].kind == tokDecimal):
		return "-" + st.text(i+1), true
	}
	return "", false
}

// topLevelComma finds a comma outside of parentheses.
func (st *statement) topLevelComma() bool {
	for i := range st.outside(0, len(st.toks)) {
		if st.op(i, ",") {
			return true
		}
	}
	return false
}

func setNames(st *statement) (*Session, *Error) {
	if len(st.toks) < 3 {
		return nil, st.near(2)
	}
	charset, ok := st.literalText(2, 3)
	if !ok {
		return nil, st.near(2)
	}
	s := &Session{Op: SetNames, Set: []Assignment{{Scope: "session", Name: "names", Value: st.text(2), Literal: charset, IsLiteral: true}}}
	switch {
	case len(st.toks) == 3:
	case st.is(3, "collate") && len(st.toks) == 5:
		collation, ok := st.literalText(4, 5)
		if !ok {
			return nil, st.near(4)
		}
		s.Set = append(s.Set, Assignment{Scope: "session", Name: "collation", Value: st.text(4), Literal: collation, IsLiteral: true})
	default:
		return nil, st.near(3)
	}
	return s, nil
}

// setCharset: SET CHARACTER SET is not SET NAMES: collation_connection becomes
// that of the current schema.
func setCharset(st *statement, i int) (Plan, *Error) {
	if len(st.toks) != i+1 {
		return nil, st.near(i)
	}
	charset, ok := st.literalText(i, i+1)
	if !ok {
		return nil, st.near(i)
	}
	return &Session{Op: SetVariables, Set: []Assignment{{Scope: "session", Name: "character set", Value: st.text(i), Literal: charset, IsLiteral: true}}}, nil
}

func setTransaction(st *statement, i int, scope string) (Plan, *Error) {
	s := &Session{Op: SetVariables}
	set := func(name, value string) {
		s.Set = append(s.Set, Assignment{Scope: scope, Name: name, Value: "'" + value + "'", Literal: value, IsLiteral: true})
	}
	for {
		switch {
		case st.is(i, "isolation") && st.is(i+1, "level"):
			i += 2
			switch {
			case st.is(i, "read") && (st.is(i+1, "committed") || st.is(i+1, "uncommitted")):
				set("transaction_isolation", "READ-"+strings.ToUpper(st.word(i+1)))
				i += 2
			case st.is(i, "repeatable") && st.is(i+1, "read"):
				set("transaction_isolation", "REPEATABLE-READ")
				i += 2
			case st.is(i, "serializable"):
				set("transaction_isolation", "SERIALIZABLE")
				i++
			default:
				return nil, st.near(i)
			}
		case st.is(i, "read") && st.is(i+1, "only"):
			set("transaction_read_only", "1")
			i += 2
		case st.is(i, "read") && st.is(i+1, "write"):
			set("transaction_read_only", "0")
			i += 2
		default:
			return nil, st.near(i)
		}
		if i == len(st.toks) {
			return s, nil
		}
		if !st.op(i, ",") {
			return nil, st.near(i)
		}
		i++
	}
}
