package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Session plans what changes the session or its transaction, and refuses
// what is left.
func Session(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	switch w := st.Word(0); w {
	case "begin":
		switch {
		case len(st.Tokens) == 1, len(st.Tokens) == 2 && st.Is(1, "work"):
			return &plan.Session{Op: plan.Begin}, nil
		case st.Is(1, "not"):
			return nil, text.NotSupported("BEGIN NOT ATOMIC blocks are not supported yet")
		}
		return nil, st.Near(1)
	case "start":
		return planStart(st)
	case "commit":
		return planEnd(st, plan.Commit)
	case "rollback":
		return planEnd(st, plan.Rollback)
	case "savepoint":
		return named(st, plan.Savepoint, 1)
	case "release":
		if st.Is(1, "savepoint") {
			return named(st, plan.ReleaseSavepoint, 2)
		}
	case "use":
		name, ok := st.Identifier(1)
		if !ok || len(st.Tokens) != 2 {
			return nil, st.Near(1)
		}
		return &plan.Session{Op: plan.Use, Schema: name}, nil
	case "set":
		return planSet(st, cat)
	case "unlock":
		return planUnlock(st, cat)
	case "lock":
		return planLock(st, cat)
	case "xa":
		return nil, text.NotSupported("XA transactions are not supported yet: use BEGIN and COMMIT")
	case "handler":
		return nil, text.NotSupported("HANDLER is not supported: it would read one shard by an open cursor; use SELECT")
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
		return fixed(st, cat, plan.Show, nil, &Fixed{Shards: firstShard(cat), Access: "single", Reason: "any shard will do"}), nil
	case "cache", "purge":
		return nil, text.NotSupported("%s is not supported: run it on the shard itself", strings.ToUpper(w))
	case "grant", "revoke":
		return nil, refuseAccount(st)
	case "install", "uninstall", "import", "clone", "binlog", "change", "reset", "stop", "shutdown", "restart",
		"signal", "resignal", "get":
		return nil, text.NotSupported("%s is not supported: run it on the shard itself", strings.ToUpper(w))
	}
	return nil, st.Near(0)
}

func named(st *text.Statement, op plan.SessionOp, i int) (plan.Plan, *text.Error) {
	name, ok := st.Identifier(i)
	if !ok || len(st.Tokens) != i+1 {
		return nil, st.Near(i)
	}
	return &plan.Session{Op: op, Name: name}, nil
}

func planStart(st *text.Statement) (plan.Plan, *text.Error) {
	if !st.Is(1, "transaction") {
		return nil, text.NotSupported("START %s is not supported: run it on the shard itself", strings.ToUpper(st.Word(1)))
	}
	s := &plan.Session{Op: plan.Begin}
	for i := 2; i < len(st.Tokens); {
		switch {
		case st.Is(i, "with") && st.Is(i+1, "consistent") && st.Is(i+2, "snapshot"):
			s.ConsistentSnapshot = true
			i += 3
		case st.Is(i, "read") && st.Is(i+1, "only"):
			s.ReadOnly = true
			i += 2
		case st.Is(i, "read") && st.Is(i+1, "write"):
			s.ReadWrite = true
			i += 2
		default:
			return nil, st.Near(i)
		}
		if st.Op(i, ",") {
			i++
			if i == len(st.Tokens) {
				return nil, st.Near(i)
			}
		} else if i < len(st.Tokens) {
			return nil, st.Near(i)
		}
	}
	if s.ReadOnly && s.ReadWrite {
		return nil, st.Near(len(st.Tokens) - 1)
	}
	return s, nil
}

func planEnd(st *text.Statement, op plan.SessionOp) (plan.Plan, *text.Error) {
	s := &plan.Session{Op: op}
	i := 1
	if st.Is(i, "work") {
		i++
	}
	if op == plan.Rollback && st.Is(i, "to") {
		i++
		if st.Is(i, "savepoint") && i+1 < len(st.Tokens) {
			i++
		}
		return named(st, plan.RollbackTo, i)
	}
	if st.Is(i, "and") {
		i++
		no := st.Is(i, "no")
		if no {
			i++
		}
		if !st.Is(i, "chain") {
			return nil, st.Near(i)
		}
		i++
		s.Chain, s.NoChain = !no, no
	}
	no := st.Is(i, "no")
	if no {
		i++
	}
	if st.Is(i, "release") {
		i++
		s.Release, s.NoRelease = !no, no
	} else if no {
		return nil, st.Near(i)
	}
	switch {
	case i != len(st.Tokens):
		return nil, st.Near(i)
	case s.Chain && s.Release:
		return nil, st.Near(i - 1)
	}
	return s, nil
}

// planSet plans all forms of SET.
func planSet(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	if err := refusedInSet(st); err != nil {
		return nil, err
	}
	switch st.Word(1) {
	case "names":
		if !st.TopLevelComma() {
			s, err := setNames(st)
			if err != nil {
				return nil, err
			}
			return s, nil
		}
	case "character":
		if st.Is(2, "set") {
			return setCharset(st, 3)
		}
	case "charset":
		if !st.Op(2, "=") && !st.Op(2, ":=") {
			return setCharset(st, 2)
		}
	case "password":
		return nil, text.NotSupported("SET PASSWORD is not supported: accounts of Shunt are in its configuration")
	case "role", "default", "resource", "statement":
		if !st.Op(2, "=") && !st.Op(2, ":=") {
			return nil, text.NotSupported("SET %s is not supported yet", strings.ToUpper(st.Word(1)))
		}
	case "transaction":
		return setTransaction(st, 2, "transaction")
	}
	if st.Is(2, "transaction") && scopeOf(st.Word(1)) != "" {
		return setTransaction(st, 3, scopeOf(st.Word(1)))
	}
	s := &plan.Session{Op: plan.SetVariables}
	scope := "session"
	start := 1
	depth := 0
	for i := 1; i <= len(st.Tokens); i++ {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		}
		if i < len(st.Tokens) && (depth != 0 || !st.Op(i, ",")) {
			continue
		}
		if st.Is(start, "names") && !st.Op(start+1, "=") && !st.Op(start+1, ":=") {
			part := &text.Statement{Src: st.Src, Settings: st.Settings, Tokens: append([]text.Token{{Kind: text.Word}}, st.Tokens[start:i]...)}
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
			mentioned, query := mentionedIn(st, start, i, cat)
			a.Tables = mentioned
			a.Selected = !oneShardHas(mentioned, cat) || SequenceCall(st, st.Tokens[start:i]) ||
				query && (catalog.IsSystemSchema(st.Settings.Schema) || st.HasIn(start, i, "information_schema", "performance_schema"))
		}
		s.Set = append(s.Set, a)
		start = i + 1
	}
	return s, nil
}

// oneShardHas reports that some shard has all rows of these tables, whatever the session.
func oneShardHas(tables []*catalog.Table, cat *catalog.Catalog) bool {
	have := cat.All
	for _, t := range tables {
		if t.Temporary || t.IsView || t.Shards.Len() > 1 && t.Placement != catalog.Reference {
			return false
		}
		have = have.Intersect(t.Shards)
	}
	return !have.Empty()
}

// refusedInSet is refusedLexically for SET, where := is an assignment.
func refusedInSet(st *text.Statement) *text.Error {
	for i := range st.Tokens {
		if e := RefusedCall(st, i); e != nil {
			return e
		}
	}
	return nil
}

// mentionedIn is mentioned for a query among tokens i to j; a name outside of a
// query is no table.
func mentionedIn(st *text.Statement, i, j int, cat *catalog.Catalog) (tables []*catalog.Table, query bool) {
	if !st.HasIn(i, j, "select", "table") {
		return nil, false
	}
	part := &text.Statement{Src: st.Src, Settings: st.Settings, Tokens: st.Tokens[i:j]}
	return Mentioned(part, cat), true
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
func setOne(st *text.Statement, i, end int, scope *string) (plan.Assignment, *text.Error) {
	var a plan.Assignment
	if w := scopeOf(st.Word(i)); w != "" && !st.Op(i+1, "=") && !st.Op(i+1, ":=") {
		*scope = w
		i++
	}
	a.Scope = *scope
	switch {
	case i >= end:
		return a, st.Near(i)
	case st.Tokens[i].Kind == text.Variable:
		name := st.Text(i)
		if strings.HasPrefix(name, "@@") {
			a.Name = strings.ToLower(strings.Trim(name[2:], "`"))
			a.Scope = "session"
			switch a.Name {
			case "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only":
				a.Scope = "transaction" // as SET TRANSACTION
			}
			if w := scopeOf(a.Name); w != "" && st.Op(i+1, ".") {
				a.Scope = w
				name, ok := st.Identifier(i + 2)
				if !ok {
					return a, st.Near(i + 2)
				}
				a.Name = strings.ToLower(name)
				i += 2
			}
		} else {
			a.Scope = "user"
			a.Name, _ = st.UserVariable(i)
		}
	default:
		name, ok := st.Identifier(i)
		if !ok {
			return a, st.Near(i)
		}
		switch strings.ToLower(name) {
		case "character", "charset", "password":
			if !st.Op(i+1, "=") && !st.Op(i+1, ":=") {
				return a, text.NotSupported("SET %s beside other assignments is not supported: send it alone", strings.ToUpper(name))
			}
		}
		a.Name = strings.ToLower(name)
	}
	i++
	if st.Op(i, ".") { // a variable of a component or key cache: SET x.y = 1
		name, ok := st.Identifier(i + 1)
		if !ok {
			return a, st.Near(i + 1)
		}
		a.Name += "." + strings.ToLower(name)
		i += 2
	}
	if !st.Op(i, "=") && !st.Op(i, ":=") || i+1 >= end {
		return a, st.Near(i)
	}
	i++
	a.Value = st.Src[st.Tokens[i].Start:st.Tokens[end-1].End]
	a.Literal, a.IsLiteral = st.LiteralText(i, end)
	for j := i; j < end && !a.IsLiteral; j++ {
		a.Queries = a.Queries || st.Is(j, "select") || st.Is(j, "table")
	}
	return a, nil
}

func setNames(st *text.Statement) (*plan.Session, *text.Error) {
	if len(st.Tokens) < 3 {
		return nil, st.Near(2)
	}
	charset, ok := st.LiteralText(2, 3)
	if !ok {
		return nil, st.Near(2)
	}
	s := &plan.Session{Op: plan.SetNames, Set: []plan.Assignment{{Scope: "session", Name: "names", Value: st.Text(2), Literal: charset, IsLiteral: true}}}
	switch {
	case len(st.Tokens) == 3:
	case st.Is(3, "collate") && len(st.Tokens) == 5:
		collation, ok := st.LiteralText(4, 5)
		if !ok {
			return nil, st.Near(4)
		}
		s.Set = append(s.Set, plan.Assignment{Scope: "session", Name: "collation", Value: st.Text(4), Literal: collation, IsLiteral: true})
	default:
		return nil, st.Near(3)
	}
	return s, nil
}

// setCharset: SET CHARACTER SET is not SET NAMES: collation_connection becomes
// that of the current schema.
func setCharset(st *text.Statement, i int) (plan.Plan, *text.Error) {
	if len(st.Tokens) != i+1 {
		return nil, st.Near(i)
	}
	charset, ok := st.LiteralText(i, i+1)
	if !ok {
		return nil, st.Near(i)
	}
	return &plan.Session{Op: plan.SetVariables, Set: []plan.Assignment{{Scope: "session", Name: "character set", Value: st.Text(i), Literal: charset, IsLiteral: true}}}, nil
}

func setTransaction(st *text.Statement, i int, scope string) (plan.Plan, *text.Error) {
	s := &plan.Session{Op: plan.SetVariables}
	set := func(name, value string) {
		s.Set = append(s.Set, plan.Assignment{Scope: scope, Name: name, Value: "'" + value + "'", Literal: value, IsLiteral: true})
	}
	for {
		switch {
		case st.Is(i, "isolation") && st.Is(i+1, "level"):
			i += 2
			switch {
			case st.Is(i, "read") && (st.Is(i+1, "committed") || st.Is(i+1, "uncommitted")):
				set("transaction_isolation", "READ-"+strings.ToUpper(st.Word(i+1)))
				i += 2
			case st.Is(i, "repeatable") && st.Is(i+1, "read"):
				set("transaction_isolation", "REPEATABLE-READ")
				i += 2
			case st.Is(i, "serializable"):
				set("transaction_isolation", "SERIALIZABLE")
				i++
			default:
				return nil, st.Near(i)
			}
		case st.Is(i, "read") && st.Is(i+1, "only"):
			set("transaction_read_only", "1")
			i += 2
		case st.Is(i, "read") && st.Is(i+1, "write"):
			set("transaction_read_only", "0")
			i += 2
		default:
			return nil, st.Near(i)
		}
		if i == len(st.Tokens) {
			return s, nil
		}
		if !st.Op(i, ",") {
			return nil, st.Near(i)
		}
		i++
	}
}
