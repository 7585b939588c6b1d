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

// Events run on the shards by themselves, where nobody can refuse what they do.
//
// Rule only removing events: one that is on every shard may remove rows. Counter-examples:
//
//	DO INSERT INTO daily SELECT CURDATE(), COUNT(*) FROM users
//	    each shard inserts a row of its own, placed by nothing
//	DO UPDATE users SET email = NULL, name = CONCAT(name, '!')
//	    keys that no virtual index has an entry for
//
// Rule one place: any other is on the one shard that has all tables which it, and what it calls, may touch, as with CALL; none
// of them has a virtual index. What is made later keeps to that (strayRoutine, StrayTables). Counter-example: DO CALL nightly(),
// as a dump has it, before nightly() is made with INSERT INTO users, which is spread.

// eventShards are those that get CREATE, CREATE OR REPLACE, ALTER or DROP of an event. body is what follows its name.
func eventShards(body *text.Statement, cat *catalog.Catalog, verb string, name catalog.TableName) (catalog.ShardSet, *text.Error) {
	known := cat.Event(name)
	switch {
	case known == nil:
		return eventShardsOf(body, cat, verb, name, nil)
	case verb != "CREATE":
		return eventShardsOf(body, cat, verb, name, known)
	}
	// A shard that has it says so.
	on, err := eventShardsOf(body, cat, verb, name, nil)
	if on = on.Intersect(known.On); err == nil && on.Empty() {
		err = text.NewErrorf(mysqlerr.EventAlreadyExists, "Event '%s' already exists", name.Name)
	}
	return on, err
}

// eventShardsOf is eventShards of an event that is replaced, changed or dropped; nil: there is none.
func eventShardsOf(body *text.Statement, cat *catalog.Catalog, verb string, name catalog.TableName, known *catalog.Event) (catalog.ShardSet, *text.Error) {
	on := cat.All
	if known != nil {
		on = known.On
	}
	do := slices.IndexFunc(body.Tokens, func(t text.Token) bool {
		return t.Kind == text.Word && strings.EqualFold(body.Src[t.Start:t.End], "do")
	})
	if verb == "DROP" || do < 0 || len(cat.Shards) <= 1 && !hasIndexes(cat) {
		return on, nil
	}
	body = &text.Statement{Src: body.Src, Settings: body.Settings, Tokens: body.Tokens[do:]}
	why := removesOnly(body, cat, name.Schema)
	if why == "" && (known == nil || !alone(known, cat)) {
		return on, nil
	}
	home, elsewhere := eventHome(&catalog.Event{Routine: catalog.Routine{Schema: name.Schema, Name: name.Name, Words: wordsOf(body)}}, cat)
	switch {
	case elsewhere != "":
		if why == "" {
			why = "an event that is on one shard"
		}
		return on, text.NotSupported("%s is not supported: it would run on the shards by itself, unseen, and %s; send it to one shard with /* shunt: shard=NAME */, where what it writes is found as rows changed behind Shunt's back are, and no virtual index is used of what it sets off", why, elsewhere)
	case known != nil && home != on:
		return on, text.NotSupported("%s EVENT %s is not supported, since what it does now is on other shards: DROP it, and make it anew", verb, name.Name)
	}
	return home, nil
}

// removesOnly says what an event does beside removing rows, "" for nothing.
func removesOnly(body *text.Statement, cat *catalog.Catalog, schema string) string {
	for i := range body.Tokens {
		switch w := body.Word(i); w {
		case "insert", "update", "replace", "call", "load", "execute", "create", "alter", "rename", "grant":
			return "an event that does " + strings.ToUpper(w)
		default:
			if w != "" && cat.WritingFunctions[w] {
				return "an event that calls " + w + "(), which changes rows,"
			}
		}
	}
	for _, t := range namedIn(body, cat, schema) {
		if t.IsView || len(t.Triggers) > 0 || len(t.Cascades) > 0 {
			return "an event on " + t.Name + ", whose rows' removal changes other rows (a trigger or foreign key) or which is a view,"
		}
	}
	return ""
}

// eventHome is the one shard of all that an event, and more routines that it may call, may touch; why there is none.
func eventHome(e *catalog.Event, cat *catalog.Catalog, more ...*catalog.Routine) (on catalog.ShardSet, why string) {
	with := *cat
	with.Procedures = maps.Clone(cat.Procedures)
	for _, r := range more {
		if with.Procedures == nil {
			with.Procedures = map[string]*catalog.Routine{}
		}
		with.Procedures[catalog.ProcedureKey(r.Schema, r.Name)] = r
	}
	set := cat.All
	called, why := calls(&with, append([]*catalog.Routine{&e.Routine}, more...)...)
	if called == nil {
		return on, why
	}
	if why != "" { // it may come yet
		var ok bool
		if set, ok = schemaHome(cat, e.Schema); !ok {
			return on, why + ", in a schema whose tables aren't on one shard by default"
		}
	}
	act, _, tables, why, err := atHome(called, cat)
	switch {
	case err != nil:
		return on, err.Message
	case why != "":
		return on, why
	}
	if len(tables) > 0 || set == cat.All {
		set = set.Intersect(act.Shards)
	}
	if set.Empty() {
		return on, "no shard has all of its tables"
	}
	seen := map[*catalog.Table]bool{}
	for _, t := range tables {
		catalog.SetOff(t, seen, func(*catalog.Table) {})
	}
	for _, t := range sortedTables(cat) {
		switch {
		case !seen[t]:
		case len(t.Indexes) > 0:
			return on, "the keys of virtual index " + t.Indexes[0].Name + " would be missed"
		case len(cat.Shards) > 1 && (t.Placement != catalog.Single || t.Shards != set):
			return on, "the rows of " + t.Name + ", which it sets off, are on other shards"
		}
	}
	if err := RefuseStrayTrigger(&plan.Rows{Kind: plan.Other, Tables: tables}, &text.Statement{}, cat); err != nil {
		return on, err.Message
	}
	return set, ""
}

// schemaHome is the one shard of the tables of a schema that the configuration says nothing of.
func schemaHome(cat *catalog.Catalog, schema string) (on catalog.ShardSet, ok bool) {
	s := cat.Schema(schema)
	switch {
	case s == nil:
		return on, false
	case len(cat.Shards) == 1:
		return cat.All, true
	}
	return catalog.Only(s.Default.Shard), s.Default.Placement == catalog.Single
}

// wordsOf are all names and words of a body, as Routine has them.
func wordsOf(st *text.Statement) map[string]bool {
	words := map[string]bool{}
	for i := range st.Tokens {
		if w := st.Word(i); w != "" {
			words[w] = true
		}
		if name, ok := st.Identifier(i); ok {
			words[strings.ToLower(name)] = true
		}
	}
	return words
}

// alone reports an event that is on one shard of several.
func alone(e *catalog.Event, cat *catalog.Catalog) bool {
	return e.On.Len() == 1 && len(cat.Shards) > 1
}

// astray reports an event on one shard that touches what is elsewhere: an operator has sent it there, and answers for it.
func astray(e *catalog.Event, cat *catalog.Catalog) bool {
	called, _ := calls(cat, &e.Routine)
	_, _, _, why, err := atHome(called, cat)
	return alone(e, cat) && (called == nil || why != "" || err != nil)
}

// mayReach reports that an event, or what it calls, names something.
func mayReach(e *catalog.Event, cat *catalog.Catalog, name catalog.TableName) bool {
	called, _ := calls(cat, &e.Routine)
	return slices.ContainsFunc(append(called, &e.Routine), func(r *catalog.Routine) bool { return mayTouch(r, name.Schema, name.Name) })
}

// strayRoutine refuses a procedure or function that an event may call, and with which that would do what events may not.
func strayRoutine(body *text.Statement, cat *catalog.Catalog, name catalog.TableName) *text.Error {
	for _, e := range cat.Events {
		if len(cat.Shards) <= 1 && !hasIndexes(cat) || !mayReach(e, cat, name) || !alone(e, cat) && !writes(body, cat) || astray(e, cat) {
			continue
		}
		home, why := eventHome(e, cat, &catalog.Routine{Schema: name.Schema, Name: name.Name, Words: wordsOf(body)})
		if why == "" && home != e.On {
			why = "it is on other shards"
		}
		if why != "" {
			return text.NotSupported("%s is not supported while the event %s.%s may call it, which runs on the shards by itself, since %s: DROP EVENT it first", name.Name, e.Schema, e.Name, why)
		}
	}
	return nil
}

// StrayTables refuses DDL that gives a table, or a view, a name that an event on one shard has, unless it is there alone.
func StrayTables(cat *catalog.Catalog, d *plan.DDL) *text.Error {
	names := slices.DeleteFunc(slices.Clone(d.Renamed), func(n catalog.TableName) bool { return n.Name == "" })
	if d.Op == "CREATE TABLE" || d.Op == "CREATE VIEW" {
		names = append(names, d.Tables...)
	}
	for _, name := range names {
		for _, e := range cat.Events {
			if alone(e, cat) && d.Shards != e.On && mayReach(e, cat, name) && !astray(e, cat) {
				return text.NotSupported("%s of %s on other shards is not supported while the event %s.%s names it, which runs on one shard by itself: DROP EVENT it first", d.Op, name.Name, e.Schema, e.Name)
			}
		}
	}
	return nil
}
