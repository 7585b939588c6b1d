package schema

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
)

// functions finds what the stored functions may do: those that may change rows are those whose
// body has a word that writes, or that call one of those. What a function declares (READS SQL
// DATA) the servers don't enforce.
func (b *builder) functions() {
	for _, id := range b.order {
		for _, f := range b.Facts[id].Functions {
			aggregates := fetchesGroup.MatchString(words(f.body))
			words := identifiers(f.body)
			if f.procedure {
				key := catalog.ProcedureKey(f.schema, f.name)
				if b.c.Procedures[key] == nil {
					b.c.Procedures[key] = &catalog.Routine{Schema: f.schema, Name: f.name, Words: map[string]bool{}}
				}
				addBody(b.c.Procedures[key], f, words)
				continue
			}
			if f.hidden || words["insert"] || words["update"] || words["delete"] || words["replace"] || words["call"] || words["truncate"] {
				b.c.WritingFunctions[f.name] = true
			}
			if leavesTraces(f.body) {
				b.c.LeavingFunctions[f.name] = true
			}
			b.c.Functions[f.name] = b.c.Functions[f.name] || spoken.Varies(f.body)
			if aggregates {
				b.c.AggregateFunctions[f.name] = true
			}
			at := slices.IndexFunc(b.stored[f.name], func(r *catalog.Routine) bool { return strings.EqualFold(r.Schema, f.schema) })
			if at < 0 {
				at = len(b.stored[f.name])
				b.stored[f.name] = append(b.stored[f.name], &catalog.Routine{Schema: f.schema, Name: f.name, Words: map[string]bool{}})
			}
			addBody(b.stored[f.name][at], f, words)
		}
	}
	b.addCallers(b.c.WritingFunctions)
	b.addCallers(b.c.LeavingFunctions)
	b.addCallers(b.c.Functions)
	b.assigned()
}

// packaged are the functions of MariaDB's package, each with the whole text: what one calls is
// in it. Its procedures can't be called, since they aren't known.
//
// Rule nothing left behind: variables of the package are the connection's. They stand before
// the routines; the function then counts as one that sets @@x.
func packaged(schema, body string) (out []functionFact) {
	if rest := words(body); !routinesFirst.MatchString(rest) {
		body += " @@x := 1"
	}
	for _, name := range functionNames.FindAllStringSubmatch(body, -1) {
		out = append(out, functionFact{schema: schema, name: strings.ToLower(name[1]), body: body})
	}
	return out
}

var (
	routinesFirst = regexp.MustCompile(`(?i)^\s*(?:[ai]s\s+)?(?:function|procedure)\b`)
	functionNames = regexp.MustCompile("(?i)\\bfunction\\s+[`\"]?([\\w$\\x80-\\xff]+)")
)

// fetchesGroup finds what MariaDB's aggregate functions have in them, and no other one.
var fetchesGroup = regexp.MustCompile(`(?i)\bfetch\s+group\s+next\s+row\b`)

// addCallers adds to a set of functions those that call one in it.
func (b *builder) addCallers(set map[string]bool) {
	for again := true; again; {
		again = false
		for name, functions := range b.stored {
			for _, f := range functions {
				for w := range f.Words {
					if !set[name] && set[w] {
						set[name], again = true, true
					}
				}
			}
		}
	}
}

// reading finds the stored functions that name, and perhaps read, a table whose rows
// are on several shards, or a view, or that call one of those; and those that are bound to one shard.
// A table without its schema is one of the function's.
func (b *builder) reading() {
	bound := maps.Clone(b.c.WritingFunctions)
	defer func() {
		b.addCallers(bound)
		for name := range bound {
			b.c.Bound[name] = b.stored[name]
		}
	}()
	if len(b.c.Shards) < 2 {
		return
	}
	tables := map[string][]*catalog.Table{}
	for t := range b.c.Tables() {
		if t.Placement != catalog.Reference || t.IsView || t.Unlike {
			name := strings.ToLower(t.Name)
			tables[name] = append(tables[name], t)
		}
	}
	for name, functions := range b.stored {
		for _, f := range functions {
			if !f.Words["from"] && !f.Words["table"] {
				continue
			}
			for w := range f.Words {
				for _, t := range tables[w] {
					switch {
					case !strings.EqualFold(f.Schema, t.Schema) && !f.Words[strings.ToLower(t.Schema)]:
					case b.spreads(t, nil):
						b.c.ReadingFunctions[name] = true
					default:
						bound[name] = true
					}
				}
			}
		}
	}
	b.addCallers(b.c.ReadingFunctions)
}

// spreads reports a table whose rows are on several shards, and a view that may read one.
func (b *builder) spreads(t *catalog.Table, seen []*catalog.Table) bool {
	if !t.IsView {
		return t.Unlike || t.Shards.Len() > 1 && t.Placement != catalog.Reference
	}
	of, ok := spoken.ViewTables(t, b.c)
	return !ok || slices.Contains(seen, t) || slices.ContainsFunc(of, func(other *catalog.Table) bool { return b.spreads(other, append(seen, t)) })
}

// addBody adds to what is known of a routine what its body on one shard says.
func addBody(r *catalog.Routine, f functionFact, words map[string]bool) {
	maps.Copy(r.Words, words)
	r.Hidden = r.Hidden || f.hidden
	r.Variables = r.Variables || strings.Contains(f.body, "@")
	r.Assigns = append(r.Assigns, userVariables(f.body)...)
	r.LeavesMore = r.LeavesMore || leavesMore(f.body)
	r.Leaves, r.Ends = r.Leaves || leavesTraces(f.body), r.Ends || endsTransactions(f.body)
}

// triggers notes which tables that matter each trigger may change: its own table
// (a BEFORE trigger sets NEW.col) and each table that its body names. A body
// that calls a routine may change any.
//
// Rule on the way: a table matters that has an index, or by whose trigger or foreign
// key another table may change. Counter-example: a trigger of orders inserts into
// log, which has no index, and one of log inserts into mails, which has.
func (b *builder) triggers() {
	var matter []*catalog.Table
	passes := map[*catalog.Table]bool{}
	for _, id := range b.order {
		for tf := range b.Facts[id].triggers() {
			passes[b.c.Table(tf.schema, tf.name)] = true
		}
	}
	views := map[string]bool{} // a body may write to a table by one
	for t := range b.c.Tables() {
		if len(t.Indexes) > 0 || len(t.Cascades) > 0 || passes[t] {
			matter = append(matter, t)
		}
		if t.IsView {
			views[strings.ToLower(t.Name)] = true
		}
	}
	leaving := b.leavingTriggers()
	for _, id := range b.order {
		for of, tf := range b.Facts[id].triggers() {
			t := b.c.Table(of.schema, of.name)
			if t == nil {
				continue
			}
			words := identifiers(tf.body)
			trigger := catalog.Trigger{Event: tf.event, Body: tf.body, ANSIQuotes: strings.Contains(tf.mode, "ANSI_QUOTES"), Leaves: leaving[tf.body]}
			all := words["call"]
			for w := range words {
				all = all || b.c.WritingFunctions[w] || views[w]
			}
			for _, other := range matter {
				if all || other == t || words[strings.ToLower(other.Name)] {
					trigger.Touches = append(trigger.Touches, other)
				}
			}
			t.Triggers = append(t.Triggers, trigger)
		}
	}
}

// events notes what the shards' events may do to each table, and the tables whose rows change
// unseen by what that sets off: triggers and foreign keys.
//
// Rule unseen: what an event changes itself, an operator has sent to one shard, or made past
// Shunt, as the planner says where it refuses one. What it sets off nobody may have thought of.
//
// Counter-example: an event does DELETE FROM sessions, and later sessions gets a trigger that
// inserts into audit, whose index has no entries for these rows.
func (b *builder) events() {
	for _, id := range b.order {
		f := b.Facts[id]
		for _, ef := range f.Events {
			e := b.c.Event(catalog.TableName{Schema: ef.schema, Name: ef.name})
			if e == nil {
				e = &catalog.Event{Routine: catalog.Routine{Schema: ef.schema, Name: ef.name, Words: map[string]bool{}}}
				b.c.Events = append(b.c.Events, e)
			}
			e.On.Add(id)
			maps.Copy(e.Words, identifiers(ef.body))
			words, all := f.reachable(ef.body)
			anywhere := all
			for t := range b.c.Tables() {
				anywhere = anywhere || t.IsView && words[strings.ToLower(t.Name)] // by which it may write to a table
			}
			for t := range b.c.Tables() {
				if !anywhere && !words[strings.ToLower(t.Name)] {
					continue
				}
				for verb, of := range writing {
					if all || slices.ContainsFunc(of, func(w string) bool { return words[w] }) {
						b.follow(t, verb, ef.schema+"."+ef.name)
					}
				}
			}
		}
	}
	// One that all have who tell may be on the others too.
	var told catalog.ShardSet
	for _, id := range b.order {
		told.Add(id)
	}
	for _, e := range b.c.Events {
		if e.On == told {
			e.On = b.c.All
		}
	}
}

// reachable are the words of a program and of the routines that it names, and so on; all: it may
// do what isn't in them.
func (f *Facts) reachable(body string) (words map[string]bool, all bool) {
	words = identifiers(body)
	seen := map[int]bool{}
	called := !words["call"]
	for again := true; again; {
		again = false
		for i, r := range f.Functions {
			if words[r.name] && !seen[i] {
				seen[i], again = true, true
				maps.Copy(words, identifiers(r.body))
				called, all = called || r.procedure, all || r.hidden
			}
		}
	}
	return words, all || !called || words["execute"]
}

// writing are the words by which a program sets off each event of a trigger.
var writing = map[string][]string{
	"INSERT": {"insert", "replace", "load"},
	"UPDATE": {"update"}, // of ON DUPLICATE KEY UPDATE, too
	"DELETE": {"delete", "replace"},
}

// follow notes that an event does this to a table's rows, and what that sets off.
func (b *builder) follow(t *catalog.Table, verb, event string) {
	if t.Events[verb] != "" {
		return
	}
	if t.Events == nil {
		t.Events = map[string]string{}
	}
	t.Events[verb] = event
	change := func(t *catalog.Table, verbs ...string) {
		t.Unseen = "the event " + event + " runs on the shards by itself and changes rows of the table by a trigger or foreign key, so its indexes are not used: drop one of them"
		for _, verb := range verbs {
			b.follow(t, verb, event)
		}
	}
	for _, tr := range t.Triggers {
		for _, other := range tr.Touches {
			if tr.Event == verb && other != t {
				change(other, "INSERT", "UPDATE", "DELETE")
			}
		}
	}
	for _, c := range t.Cascades {
		switch {
		case verb == "DELETE" && c.OnDelete && c.DeletesRows:
			b.follow(c.Child, "DELETE", event) // which makes no key
		case verb == "DELETE" && c.OnDelete, verb == "UPDATE" && c.OnUpdate:
			change(c.Child, "UPDATE")
		}
	}
}

// identifiers returns every word of a text in lower case. Words in strings and
// comments are in it too: too many is only wide.
func identifiers(text string) map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && r != '$' && r < 0x80 && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		words[strings.ToLower(w)] = true
	}
	// A quoted name may hold anything between its quotes, which under ANSI_QUOTES are
	// double ones too. Where one stands in a string, names come to be between others'.
	for _, quote := range []string{"`", `"`} {
		for part := range strings.SplitSeq(text, quote) {
			words[strings.ToLower(part)] = true
		}
	}
	return words
}
