package spoken

import (
	"maps"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// call plans CALL: to the one shard that has all that the procedure may touch.
//
// Rule one place: every table whose name is a word of its body, or of those of the procedures that
// it may call, is on one shard, or is a reference table that it only reads. Counter-examples:
//
//	CREATE PROCEDURE p () SELECT COUNT(*) FROM users      the users of one shard
//	CREATE PROCEDURE p () DELETE FROM countries           one copy of a reference table
//	CREATE PROCEDURE p () SELECT total()                  a function that counts the users
//
// Rule nothing left behind: what a procedure leaves in its connection (user
// variables, temporary tables) would be another session's. And what it runs from
// texts is not in its words. The variables that are its
// parameters may be OUT ones: these are read from the connection behind it.
func call(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	name, next, err := st.TableAt(1)
	if err != nil {
		return nil, err
	}
	refuse := func(why string) (plan.Plan, *text.Error) {
		return nil, text.NotSupported("CALL %s is not supported, since %s: send it to the shard whose rows it is about with /* shunt: shard=NAME */", name.Name, why)
	}
	if next < len(st.Tokens) && !st.Op(next, "(") {
		return nil, st.Near(next)
	}
	if err := RefuseLocks(st); err != nil {
		return nil, err
	}
	for i := next; i < len(st.Tokens); i++ {
		switch {
		case st.Is(i, "select"):
			return refuse("a query in its parameters is not looked into")
		case st.Op(i, ":="):
			return refuse("a user variable that its parameters set would be one of a pooled connection")
		}
	}
	p := cat.Procedures[catalog.ProcedureKey(name.Schema, name.Name)]
	if p == nil && cat.Schema(name.Schema) != nil {
		return nil, text.NewError(mysqlerr.SPDoesNotExist, "PROCEDURE "+name.Schema+"."+name.Name+" does not exist")
	}
	if p == nil || p.Hidden { // a schema of the servers', or a body that Shunt may not see
		return refuse("what it does is not known")
	}
	called, why := calls(p, cat)
	if why != "" {
		return refuse(why)
	}
	// says reports a word of any of them.
	says := func(words ...string) bool {
		return slices.ContainsFunc(called, func(p *catalog.Procedure) bool {
			return slices.ContainsFunc(words, func(w string) bool { return p.Words[w] })
		})
	}
	writes := says("insert", "update", "delete", "replace", "truncate")
	set, kind := cat.All, plan.Select
	if writes || says("for") {
		kind = plan.Other
	}
	var tables []*catalog.Table
	for _, t := range sortedTables(cat) {
		if !mayTouchBy(called, t) {
			continue
		}
		if t.Lost {
			return nil, lostTemporary(t)
		}
		tables = append(tables, t)
		set = set.Intersect(t.Shards)
		switch {
		case len(cat.Shards) == 1:
		case t.IsView:
			return refuse("it may read the view " + t.Name)
		case t.Placement == catalog.Single:
		case t.Placement == catalog.Reference && !writes:
		case t.Placement == catalog.Reference:
			return refuse("it may change " + t.Name + ", which has a copy on every shard")
		default:
			return refuse("the rows of " + t.Name + " are on several shards")
		}
	}
	if set.Empty() {
		return refuse("no shard has all of its tables")
	}
	act := &Fixed{Shards: catalog.Only(set.First()), Access: "single", Reason: "the procedure touches no table of several shards"}
	if kind == plan.Other {
		act.Unknown = hintedIndexes("update", tables, cat)
		if len(tables) == 0 {
			act.Unknown = nil
		}
	}
	plan := fixed(st, cat, kind, tables, act)
	plan.Calls, plan.Ends, plan.Sets = true, slices.ContainsFunc(called, func(p *catalog.Procedure) bool { return p.Ends }), st.UserVariables()
	return plan, nil
}

// mayTouch reports that a procedure names something, which without its schema is of the procedure's own.
func mayTouch(p *catalog.Procedure, schema, name string) bool {
	return p.Words[strings.ToLower(name)] && (strings.EqualFold(schema, p.Schema) || p.Words[strings.ToLower(schema)])
}

func mayTouchBy(called []*catalog.Procedure, t *catalog.Table) bool {
	return slices.ContainsFunc(called, func(p *catalog.Procedure) bool { return mayTouch(p, t.Schema, t.Name) })
}

// calledAt is the procedure of the CALL at token i of a body in a schema, nil where there is none of that name.
func calledAt(st *text.Statement, cat *catalog.Catalog, schema string, i int) *catalog.Procedure {
	name, ok := st.Identifier(i + 1)
	if ok && st.Op(i+2, ".") {
		schema = name
		name, ok = st.Identifier(i + 3)
	}
	if !ok {
		return nil
	}
	return cat.Procedures[catalog.ProcedureKey(schema, name)]
}

// calledBy are all procedures that a body in a schema may call, as far as calls knows.
func calledBy(st *text.Statement, cat *catalog.Catalog, schema string) (all []*catalog.Procedure) {
	for i := range st.Tokens {
		if p := calledAt(st, cat, schema, i); st.Is(i, "call") && p != nil {
			called, _ := calls(p, cat)
			all = append(all, called...)
		}
	}
	return all
}

// calls are a procedure and all that it may call in turn; why says what of one of them can't be looked into, or would
// stay with the connection.
func calls(p *catalog.Procedure, cat *catalog.Catalog) (called []*catalog.Procedure, why string) {
	called = []*catalog.Procedure{p}
	for i := 0; i < len(called); i++ {
		p := called[i]
		if p.Hidden {
			return nil, "what " + p.Name + " does, which it may call, is not known"
		}
		if why := leaves(p, cat); why != "" {
			return nil, why
		}
		if !p.Words["call"] {
			continue
		}
		known := false
		for _, key := range slices.Sorted(maps.Keys(cat.Procedures)) {
			other := cat.Procedures[key]
			if !mayTouch(p, other.Schema, other.Name) {
				continue
			}
			if known = true; !slices.Contains(called, other) {
				called = append(called, other)
			}
		}
		if !known {
			return nil, "what " + p.Name + " calls is not known"
		}
	}
	return called, ""
}

// leaves says what of a procedure's body can't be looked into, or would stay with
// the connection, "" for nothing.
func leaves(p *catalog.Procedure, cat *catalog.Catalog) string {
	for _, w := range []string{"prepare", "execute", "load", "temporary", "lock", "xa", "create", "alter", "drop", "rename", "grant"} {
		if p.Words[w] {
			return "it has the word " + strings.ToUpper(w) + ", behind which it may do anything"
		}
	}
	if p.Variables {
		return "the user variables in it would be those of a pooled connection"
	}
	if p.Leaves {
		return "what it sets in its session, or locks by name, would stay with a pooled connection"
	}
	for _, kind := range unfit {
		for _, f := range slices.Sorted(maps.Keys(kind.of(cat))) {
			if p.Words[f] {
				return "it calls " + f + "(), which " + kind.does
			}
		}
	}
	return ""
}
