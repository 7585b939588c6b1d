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
	called, why := calls(cat, p)
	if why != "" {
		return refuse(why)
	}
	act, kind, tables, why, err := atHome(called, cat)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return refuse(why)
	}
	act.Reason = "the procedure touches no table of several shards"
	plan := fixed(st, cat, kind, tables, act)
	plan.Calls, plan.Ends, plan.Sets = true, slices.ContainsFunc(called, func(p *catalog.Routine) bool { return p.Ends }), st.UserVariables()
	return plan, nil
}

// atHome finds the one shard that has all tables which routines may touch, and these; why says what is elsewhere.
func atHome(called []*catalog.Routine, cat *catalog.Catalog) (act *Fixed, kind plan.Kind, tables []*catalog.Table, why string, _ *text.Error) {
	says := func(words ...string) bool { // of any of them
		return slices.ContainsFunc(called, func(p *catalog.Routine) bool {
			return slices.ContainsFunc(words, func(w string) bool { return p.Words[w] })
		})
	}
	writes := says("insert", "update", "delete", "replace", "truncate")
	set, kind := cat.All, plan.Select
	if writes || says("for") {
		kind = plan.Other
	}
	named := slices.DeleteFunc(sortedTables(cat), func(t *catalog.Table) bool { return !mayTouchBy(called, t) })
	for i := 0; i < len(named); i++ {
		t := named[i]
		if t.Lost {
			return nil, 0, nil, "", lostTemporary(t)
		}
		tables = append(tables, t)
		if of, ok := ViewTables(t, cat); t.IsView && ok && !writes && len(cat.Shards) > 1 {
			for _, t := range of {
				if !slices.Contains(named, t) {
					named = append(named, t)
				}
			}
			continue
		}
		set = set.Intersect(t.Shards)
		switch {
		case len(cat.Shards) == 1:
		case t.IsView:
			return nil, 0, nil, "it may use the view " + t.Name, nil
		case t.Placement == catalog.Single:
		case t.Placement == catalog.Reference && !writes:
		case t.Placement == catalog.Reference:
			return nil, 0, nil, "it may change " + t.Name + ", which has a copy on every shard", nil
		default:
			return nil, 0, nil, "the rows of " + t.Name + " are on several shards", nil
		}
	}
	if set.Empty() {
		return nil, 0, nil, "no shard has all of its tables", nil
	}
	act = &Fixed{Shards: catalog.Only(set.First()), Access: "single"}
	if kind == plan.Other && len(tables) > 0 {
		act.Unknown = hintedIndexes("update", tables, cat)
	}
	return act, kind, tables, "", nil
}

// ViewTables are those that a view's query may name; ok is false for no view, or one whose query isn't known or calls a function.
func ViewTables(v *catalog.Table, cat *catalog.Catalog) (tables []*catalog.Table, ok bool) {
	if !v.IsView || v.Definition == "" {
		return nil, false
	}
	query, err := text.Read(v.Definition, text.Settings{Schema: v.Schema}, cat)
	if err != nil {
		return nil, false
	}
	for name := range callsIn(query) {
		if _, stored := cat.Functions[strings.ToLower(name)]; stored {
			return nil, false
		}
	}
	return namedIn(query, cat, v.Schema), true
}

// mayTouch reports that a procedure names something, which without its schema is of the procedure's own.
func mayTouch(p *catalog.Routine, schema, name string) bool {
	return p.Words[strings.ToLower(name)] && (strings.EqualFold(schema, p.Schema) || p.Words[strings.ToLower(schema)])
}

func mayTouchBy(called []*catalog.Routine, t *catalog.Table) bool {
	return slices.ContainsFunc(called, func(p *catalog.Routine) bool { return mayTouch(p, t.Schema, t.Name) })
}

// calledAt is the procedure of the CALL at token i of a body in a schema, nil where there is none of that name.
func calledAt(st *text.Statement, cat *catalog.Catalog, schema string, i int) *catalog.Routine {
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

// calledBy are all routines by which a body in a schema may change rows, as far as calls knows.
func calledBy(st *text.Statement, cat *catalog.Catalog, schema string) (all []*catalog.Routine) {
	for i := range st.Tokens {
		if p := calledAt(st, cat, schema, i); st.Is(i, "call") && p != nil {
			called, _ := calls(cat, p)
			all = append(all, called...)
		}
	}
	called, _ := calls(cat, boundIn(st, cat)...)
	return append(all, called...)
}

// boundIn are the functions that a text names and that are bound to a shard: MariaDB in Oracle mode calls without ().
func boundIn(st *text.Statement, cat *catalog.Catalog) (writers []*catalog.Routine) {
	for i := 0; i < len(st.Tokens) && len(cat.Bound) > 0; i++ {
		if name, ok := st.Identifier(i); ok {
			writers = append(writers, cat.Bound[strings.ToLower(name)]...)
		}
	}
	return writers
}

// calls are routines and all by which these may change rows in turn; why says what of one of them can't be looked into,
// or would stay with the connection. They are nil then, unless it is only that what one of them calls isn't there.
func calls(cat *catalog.Catalog, routines ...*catalog.Routine) (called []*catalog.Routine, why string) {
	called = routines
	for i := 0; i < len(called); i++ {
		p := called[i]
		if p.Hidden {
			return nil, "what " + p.Name + " does, which it may call, is not known"
		}
		if why := leaves(p, cat); why != "" {
			return nil, why
		}
		for _, f := range slices.Sorted(maps.Keys(cat.Bound)) {
			for _, other := range cat.Bound[f] {
				if p.Words[f] && !slices.Contains(called, other) {
					called = append(called, other)
				}
			}
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
			why = "what " + p.Name + " calls is not known"
		}
	}
	return called, why
}

// leaves says what of a procedure's body can't be looked into, or would stay with
// the connection, "" for nothing.
func leaves(p *catalog.Routine, cat *catalog.Catalog) string {
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
		if kind.writes {
			continue // it is looked into as they are
		}
		for _, f := range slices.Sorted(maps.Keys(kind.of(cat))) {
			if p.Words[f] {
				return "it calls " + f + "(), which " + kind.does
			}
		}
	}
	return ""
}
