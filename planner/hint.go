package planner

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// parseHint reads `/* shunt: shard=NAME */`. Other comments are no hint; a
// comment that begins with `shunt:` and says something else is an error, since
// a misspelt hint that is not heeded would send a write elsewhere.
func parseHint(text string) (shard string, ok bool, err *Error) {
	body, isBlock := strings.CutPrefix(text, "/*")
	body = strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(body, "-#"), "*/"))
	if len(body) < 6 || !strings.EqualFold(body[:6], "shunt:") {
		return "", false, nil
	}
	if !isBlock {
		return "", false, hintError("hint %q is not understood: write it as /* shunt: shard=NAME */", body)
	}
	rest := strings.TrimSpace(body[6:])
	name, value, found := strings.Cut(rest, "=")
	value = strings.TrimSpace(value)
	if !found || !strings.EqualFold(strings.TrimSpace(name), "shard") || value == "" || strings.ContainsAny(value, " \t\r\n,;") {
		return "", false, hintError("hint %q is not understood: write /* shunt: shard=NAME */", body)
	}
	return value, true, nil
}

func hintError(format string, args ...any) *Error {
	e := syntaxError(format, args...)
	e.Own = true
	return e
}

// planHinted sends a statement as it is to the shard that its hint names.
func (p *Planner) planHinted(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	shard, ok := cat.ShardByName(st.hintShard)
	if !ok {
		return nil, &Error{Code: codeUnknownShard, State: stateGeneral, Message: "unknown shard '" + st.hintShard + "' in the hint: see SHOW SHARDS"}
	}
	if _, own, err := planAdmin(st); own || err != nil {
		return nil, hintError("the hint /* shunt: shard=%s */ can't stand before a statement that Shunt answers by itself; EXPLAIN ROUTE has it in what is explained: EXPLAIN ROUTE /* shunt: shard=%[1]s */ SELECT ...", st.hintShard)
	}
	w := st.verb(0)
	leaves := func(what string) *Error {
		return notSupported("a hint before %s is not supported: it would change the state of one pooled connection", what)
	}
	switch w {
	case "":
		return &Session{Op: NoOp}, nil
	case "begin", "start", "commit", "rollback", "savepoint", "release", "set", "use", "lock", "unlock", "prepare",
		"execute", "deallocate", "xa", "handler", "change", "reset", "kill", "shutdown", "restart", "backup":
		return nil, leaves(strings.ToUpper(w))
	case "flush":
		if st.has("lock") || st.has("export") { // which holds up all writes of the shard
			return nil, leaves("FLUSH TABLES with a lock")
		}
	case "create", "drop":
		if st.is(1, "temporary") || st.is(1, "or") && st.is(3, "temporary") {
			return nil, refuseHintedTemporary()
		}
	}
	if err := st.refusedLexically(); err != nil {
		return nil, err
	}
	kind := Other
	switch w {
	case "select", "with", "table", "values":
		if st.has("into") {
			return nil, refuseInto()
		}
		switch {
		case st.is(0, "with") && (st.has("update") || st.has("delete") || st.has("insert") || st.has("replace")):
		case st.writingFunction(cat) != "", st.leavingFunction(cat) != "":
			w = "" // it may change any table, or its connection
		case hasLock(st):
			kind = Locking
		default:
			kind = Select
		}
	case "show":
		kind = Show
	case "explain", "describe", "desc":
		if !st.has("analyze") { // which executes the statement
			kind = Show
		}
	}
	if st.doubtful {
		kind = Other // there may be anything in it
	}
	act := &fixedAction{shards: catalog.Only(shard.ID), access: "hint", reason: "sent to " + shard.Name + " by its hint"}
	tables := st.mentioned(cat)
	if kind == Other {
		if st.doubtful || st.writingFunction(cat) != "" { // more than it names
			w = ""
		}
		act.unknown = hintedIndexes(w, tables, cat)
	}
	plan := fixed(st, cat, kind, tables, act)
	if st.is(0, "call") {
		plan.Calls, plan.Ends, plan.Sets = true, true, st.userVariables()
		if name, _, err := st.tableAt(1); err == nil {
			p := cat.Procedures[catalog.ProcedureKey(name.Schema, name.Name)]
			plan.Ends = p == nil || p.Hidden || p.Ends || p.Words["call"] || p.Words["execute"]
		}
	}
	switch st.word(0) {
	case "create", "drop", "alter", "rename":
		plan.Redefines = true
	case "call":
		plan.Redefines = plan.Ends
	default: // /*!99999 CREATE TABLE t AS */ SELECT ...
		plan.Redefines = slices.ContainsFunc(st.comments, func(c comment) bool {
			return c.kind == doubtfulBlock && c.start < st.toks[0].start
		})
	}
	return plan, nil
}

// hintedIndexes are those that a hinted statement may change: of the tables it
// names and what their triggers and foreign keys change; for anything but the
// four writing statements (CALL, LOAD DATA, ...) all there are.
func hintedIndexes(w string, tables []*catalog.Table, cat *catalog.Catalog) []*catalog.Index {
	var out []*catalog.Index
	switch w {
	case "insert", "replace", "update", "delete", "with":
		if len(tables) == 0 || slices.ContainsFunc(tables, func(t *catalog.Table) bool { return t.IsView }) {
			break
		}
		seen := map[*catalog.Table]bool{}
		for _, t := range tables {
			setOff(t, seen, func(t *catalog.Table) { out = append(out, t.Indexes...) })
		}
		return out
	}
	for _, t := range sortedTables(cat) {
		out = append(out, t.Indexes...)
	}
	return out
}

// sortedTables are all tables in the order of their names.
func sortedTables(cat *catalog.Catalog) []*catalog.Table {
	return slices.SortedFunc(cat.Tables(), func(x, y *catalog.Table) int {
		return cmp.Or(strings.Compare(x.Schema, y.Schema), strings.Compare(x.Name, y.Name))
	})
}
