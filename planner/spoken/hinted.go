package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Hinted sends a statement as it is to the shard that its hint names.
func Hinted(st *text.Statement, cat *catalog.Catalog, own OwnForms) (plan.Plan, *text.Error) {
	shard, ok := cat.ShardByName(st.HintShard)
	if !ok {
		return nil, text.NewError(mysqlerr.UnknownError, "unknown shard '"+st.HintShard+"' in the hint: see SHOW SHARDS")
	}
	if _, ok, err := own.Plan(st); ok || err != nil {
		return nil, text.HintError("the hint /* shunt: shard=%s */ can't stand before a statement that Shunt answers by itself; EXPLAIN ROUTE has it in what is explained: EXPLAIN ROUTE /* shunt: shard=%[1]s */ SELECT ...", st.HintShard)
	}
	w := st.Verb(0)
	leaves := func(what string) *text.Error {
		return text.NotSupported("a hint before %s is not supported: it would change the state of one pooled connection", what)
	}
	switch w {
	case "":
		return &plan.Session{Op: plan.NoOp}, nil
	case "begin", "start", "commit", "rollback", "savepoint", "release", "set", "use", "lock", "unlock", "prepare",
		"execute", "deallocate", "xa", "handler", "change", "reset", "kill", "shutdown", "restart", "backup":
		return nil, leaves(strings.ToUpper(w))
	case "flush":
		if st.Has("lock") || st.Has("export") { // which holds up all writes of the shard
			return nil, leaves("FLUSH TABLES with a lock")
		}
	case "create", "drop":
		if st.Is(1, "temporary") || st.Is(1, "or") && st.Is(3, "temporary") {
			return nil, refuseHintedTemporary()
		}
	}
	if err := refusedLexically(st); err != nil {
		return nil, err
	}
	kind := plan.Other
	switch w {
	case "select", "with", "table", "values":
		if st.Has("into") {
			return nil, RefuseInto()
		}
		switch {
		case st.Is(0, "with") && (st.Has("update") || st.Has("delete") || st.Has("insert") || st.Has("replace")):
		case WritingFunction(st, cat) != "", LeavingFunction(st, cat) != "":
			w = "" // it may change any table, or its connection
		case HasLock(st):
			kind = plan.Locking
		default:
			kind = plan.Select
		}
	case "show":
		kind = plan.Show
	case "explain", "describe", "desc":
		if !st.Has("analyze") { // which executes the statement
			kind = plan.Show
		}
	}
	if st.Doubtful {
		kind = plan.Other // there may be anything in it
	}
	act := &Fixed{Shards: catalog.Only(shard.ID), Access: "hint", Reason: "sent to " + shard.Name + " by its hint"}
	tables := Mentioned(st, cat)
	if kind == plan.Other {
		if st.Doubtful || WritingFunction(st, cat) != "" { // more than it names
			w = ""
		}
		act.Unknown = hintedIndexes(w, tables, cat)
	}
	plan := fixed(st, cat, kind, tables, act)
	if st.Is(0, "call") {
		plan.Calls, plan.Ends, plan.Sets = true, true, st.UserVariables()
		if name, _, err := st.TableAt(1); err == nil {
			p := cat.Procedures[catalog.ProcedureKey(name.Schema, name.Name)]
			plan.Ends = p == nil || p.Hidden || p.Ends || p.Words["call"] || p.Words["execute"]
		}
	}
	switch st.Word(0) {
	case "create", "drop", "alter", "rename":
		plan.Redefines = true
	case "call":
		plan.Redefines = plan.Ends
	default: // /*!99999 CREATE TABLE t AS */ SELECT ...
		plan.Redefines = slices.ContainsFunc(st.Comments, func(c text.Comment) bool {
			return c.Kind == text.Doubtful && c.Start < st.Tokens[0].Start
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
			catalog.SetOff(t, seen, func(t *catalog.Table) { out = append(out, t.Indexes...) })
		}
		return out
	}
	for _, t := range sortedTables(cat) {
		out = append(out, t.Indexes...)
	}
	return out
}
