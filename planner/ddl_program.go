package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// createView plans CREATE VIEW and ALTER VIEW: on every shard that has all the
// tables of its query.
func (p *Planner) createView(st *statement, cat *catalog.Catalog, op string, i int) (Plan, *Error) {
	name, next, err := st.tableAt(i)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	if op == "ALTER VIEW" {
		if _, err := userTable(cat, name); err != nil {
			return nil, err
		}
	}
	tables, err := p.viewTables(st, cat, next)
	if err != nil {
		return nil, err
	}
	set := cat.All
	for _, t := range tables {
		if !t.Shards.Empty() {
			set = set.Intersect(t.Shards)
		}
	}
	for _, t := range tables {
		// users is on all shards and settings on s2: there the view is, though what
		// it shows there is the users of s2. Reads put its query in its place.
		if set.Empty() {
			return nil, notSupported("a view of %s and other tables, which no shard has all of, is not supported: query them without it", t.Name)
		}
	}
	if was := cat.Table(name.Schema, name.Name); was != nil && was.IsView && was.Shards != set {
		return nil, notSupported("the view %s is on other shards than its new query's tables: DROP VIEW it first", name.Name)
	}
	return &DDL{Catalog: cat, Op: op, Tables: []TableName{name}, Renamed: make([]TableName, 1), Shards: set}, nil
}

// viewTables are the tables of a view's query, which follows AS. Where it can't
// be read they are all that have a name in it.
func (p *Planner) viewTables(st *statement, cat *catalog.Catalog, i int) ([]*catalog.Table, *Error) {
	for i < len(st.toks) && !st.is(i, "as") {
		i++
	}
	if i+1 >= len(st.toks) {
		return nil, st.near(i)
	}
	end := len(st.toks)
	if st.is(end-1, "option") && st.is(end-2, "check") {
		for end--; end > i && !st.is(end, "with"); end-- {
		}
	}
	part := &statement{src: st.src, settings: st.settings, server: st.server, toks: st.toks[i+1 : end], rowsAt: -1}
	query, err := lexStatement(st.src[st.toks[i+1].start:st.toks[end-1].end], st.settings, cat)
	if err != nil {
		return nil, err
	}
	n, err := p.parse(query, cat)
	if err != nil {
		return part.mentioned(cat), nil //nolint:nilerr // the shards will say
	}
	a := &analysis{st: query, cat: cat}
	a.query(n, nil, false)
	if a.err != nil {
		return nil, a.err
	}
	return a.tables, nil
}

// program plans CREATE, DROP and ALTER of procedures, functions and events, whose
// kind is at token i. They are on every shard: what they do there, they do with
// the rows of that shard.
func program(st *statement, cat *catalog.Catalog, verb string, i int) (Plan, *Error) {
	kind := strings.ToUpper(st.word(i))
	at := ifNotExists(st, i+1)
	if at == i+1 {
		at = ifExists(st, i+1)
	}
	name, next, err := st.tableAt(at)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	body := &statement{src: st.src, settings: st.settings, toks: st.toks[next:]}
	if verb == "CREATE" && body.has("soname") {
		return nil, notSupported("CREATE FUNCTION ... SONAME is not supported: run it on each shard's server")
	}
	ddl := &DDL{Catalog: cat, Op: verb + " " + kind, Schema: name.Schema, Shards: cat.All}
	switch {
	case kind == "EVENT" && verb != "DROP":
		if err := body.mayBeEvent(cat); err != nil {
			return nil, err
		}
	case verb == "CREATE":
		// A call planned with another body of that name may run this one.
		ddl.Unforeseen = body.writes(cat)
	}
	return ddl, nil
}

// writes reports whether a stored program's text may change rows.
func (st *statement) writes(cat *catalog.Catalog) bool {
	for i := range st.toks {
		switch w := st.word(i); w {
		case "insert", "update", "delete", "replace", "call", "truncate", "load", "execute":
			return true
		default:
			if w != "" && cat.WritingFunctions[w] {
				return true
			}
		}
	}
	return false
}

// mayBeEvent refuses events whose rows or keys Shunt would have to know of: they
// run on each shard by themselves.
//
// Rule only removing events: an event may remove rows. Counter-examples:
//
//	DO INSERT INTO daily SELECT CURDATE(), COUNT(*) FROM users
//	    each shard inserts a row of its own, placed by nothing
//	DO UPDATE users SET email = NULL, name = CONCAT(name, '!')
//	    keys that no virtual index has an entry for
func (st *statement) mayBeEvent(cat *catalog.Catalog) *Error {
	if len(cat.Shards) <= 1 && !hasIndexes(cat) {
		return nil
	}
	const way = "send it to one shard with /* shunt: shard=NAME */, where what it writes is found as rows changed behind Shunt's back are"
	do := slices.IndexFunc(st.toks, func(t token) bool { return t.kind == tokWord && strings.EqualFold(st.src[t.start:t.end], "do") })
	if do < 0 {
		return nil // ALTER EVENT that leaves the body as it is
	}
	body := &statement{src: st.src, settings: st.settings, toks: st.toks[do:]}
	for i := range body.toks {
		switch w := body.word(i); w {
		case "insert", "update", "replace", "call", "load", "execute", "create", "alter", "rename", "grant":
			return notSupported("an event that does %s is not supported: it would run on every shard by itself, unseen; %s", strings.ToUpper(w), way)
		default:
			if w != "" && cat.WritingFunctions[w] {
				return notSupported("an event that calls %s(), which changes rows, is not supported: %s", w, way)
			}
		}
	}
	for _, t := range body.mentioned(cat) {
		if t.IsView || len(t.Triggers) > 0 || len(t.Cascades) > 0 {
			return notSupported("an event on %s, whose rows' removal changes other rows (a trigger or foreign key) or which is a view, is not supported: %s; virtual indexes of what such a trigger or foreign key changes are not used then", t.Name, way)
		}
	}
	return nil
}

// unseenTrigger refuses a trigger that an event sets off, where it may change rows of which Shunt
// would have to know. What fires it are tokens from to to; its table and body follow.
//
// Rule only removing events, with the trigger made after the event. Counter-example: an event
// DO DELETE FROM sessions, and AFTER DELETE ON sessions ... INSERT INTO audit, which has an index.
func (st *statement) unseenTrigger(cat *catalog.Catalog, on *catalog.Table, from, to int) *Error {
	body := &statement{src: st.src, settings: st.settings, toks: st.toks[to:]}
	if !hasIndexes(cat) || !body.writes(cat) {
		return nil
	}
	matters := func(t *catalog.Table) bool {
		return t != on && (t.IsView || len(t.Indexes) > 0 || len(t.Triggers) > 0 || len(t.Cascades) > 0)
	}
	for i := from; i < to; i++ {
		event := on.Events[strings.ToUpper(st.word(i))]
		if event == "" {
			continue
		}
		for _, t := range body.mentioned(cat) {
			if matters(t) {
				return notSupported("a trigger of %s that changes %s is not supported while the event %s changes rows of %[1]s: it runs on the shards by itself, so the keys of virtual indexes would be missed; DROP EVENT it, and do what it does by a statement", on.Name, t.Name, event)
			}
		}
	}
	return nil
}

func hasIndexes(cat *catalog.Catalog) bool {
	for t := range cat.Tables() {
		if len(t.Indexes) > 0 {
			return true
		}
	}
	return false
}

// triggerPlaces refuses a trigger that would put rows where they are not looked
// for: what a trigger writes stays on the shard of the row that fired it.
//
// Rule rows beside their trigger. Counter-examples, for a trigger of users (by
// hash of id):
//
//	INSERT INTO audit (id, what) VALUES (UUID(), 'x')   audit goes by its own id
//	UPDATE countries SET n = n + 1                      one of its copies changes
//	INSERT INTO settings VALUES ('k', NEW.name)         settings is on another shard
//	SET NEW.id = NEW.id + 1                             the row itself, as `NEW`.id too
//
// An INSERT that gives the shard key as NEW.id or OLD.id is beside.
func (st *statement) triggerPlaces(cat *catalog.Catalog, on *catalog.Table, i int) *Error {
	if len(cat.Shards) <= 1 {
		return nil
	}
	for ; i < len(st.toks); i++ {
		if st.named(i, "new") && st.op(i+1, ".") && on.ShardKey != nil && on.Placement == catalog.Hash && (st.is(i-1, "set") || st.op(i-1, ",") || st.is(i-1, "into")) {
			if st.named(i+2, on.ShardKey.Name) && (st.is(i-1, "into") || st.op(i+3, "=") || st.op(i+3, ":=")) {
				return notSupported("a trigger that changes the shard key %s.%s is not supported: the row is on the shard of the value that the statement gave; compute it in the client", on.Name, on.ShardKey.Name)
			}
		}
		verb := st.word(i)
		target := i + 1
		switch verb {
		case "insert", "replace":
			for st.is(target, "ignore") || st.is(target, "into") || st.is(target, "low_priority") || st.is(target, "delayed") || st.is(target, "high_priority") {
				target++
			}
		case "update":
			if st.is(i-1, "key") || st.is(i-1, "for") || st.is(i-1, "before") || st.is(i-1, "after") {
				continue
			}
			for st.is(target, "ignore") || st.is(target, "low_priority") {
				target++
			}
		case "delete":
			for target < len(st.toks) && st.toks[target].kind != tokEnd && !st.is(target, "from") {
				target++
			}
			target++
		case "call":
			return notSupported("a trigger that calls a procedure is not supported: what that writes would stay on the shard of the row that fired the trigger")
		default:
			if verb != "" && cat.WritingFunctions[verb] {
				return notSupported("a trigger that calls %s(), which changes rows, is not supported: what it writes would stay on the shard of the row that fired the trigger", verb)
			}
			continue
		}
		name, next, err := (&statement{src: st.src, settings: Settings{Schema: on.Schema}, toks: st.toks}).tableAt(target)
		if err != nil {
			continue // INSERT() the function, and the like
		}
		t := cat.Table(name.Schema, name.Name)
		if t == nil || t == on || len(t.Columns) == 0 && t.Placement == catalog.Hash && !t.IsView {
			continue // the table may come yet: see strayTrigger
		}
		refused := notSupported("a trigger of %s that does %s on %s is not supported: what it writes stays on the shard of the row that fired it, and %s would be looked for elsewhere; write to it by a statement of its own",
			on.Name, strings.ToUpper(verb), t.Name, t.Name)
		switch {
		case t.IsView:
			return refused
		case t.Placement == catalog.Reference && on.Placement == catalog.Reference, t.Placement == catalog.Anywhere:
		case t.Placement == catalog.Reference, t.Placement == catalog.Single:
			if on.Placement != catalog.Single || !t.Shards.Contains(on.Shards) || t.Placement == catalog.Reference {
				return refused
			}
		case verb == "delete", verb == "update" && !st.setsKey(next, t.ShardKey):
			// of rows that are here anyway
		case t.ShardKey == nil || on.Placement != catalog.Hash || on.ShardKey == nil || !st.givesKey(next, t, on.ShardKey.Name):
			return refused
		}
	}
	return nil
}

// setsKey reports whether the UPDATE whose table ends before token i may set the
// shard key.
func (st *statement) setsKey(i int, key *catalog.Column) bool {
	for ; key != nil && i < len(st.toks) && st.toks[i].kind != tokEnd && !st.is(i, "where"); i++ {
		if st.named(i, key.Name) {
			return true
		}
	}
	return false
}

// givesKey reports whether the INSERT whose columns begin at token i gives the
// table's shard key the value of NEW.own or OLD.own.
func (st *statement) givesKey(i int, t *catalog.Table, own string) bool {
	key := t.ShardKey.Name
	place, at := -1, 0
	if st.op(i, "(") {
		for i++; i < len(st.toks) && !st.op(i, ")"); i++ {
			if st.op(i, ",") {
				at++
			} else if st.named(i, key) {
				place = at
			}
		}
		i++
	} else if !t.OrderDiffers {
		for _, c := range t.Columns {
			if c == t.ShardKey && !c.Invisible {
				place = at
			}
			if !c.Invisible {
				at++
			}
		}
	}
	if place < 0 || !st.is(i, "values") && !st.is(i, "value") && !st.is(i, "select") {
		return false
	}
	selects := st.is(i, "select")
	if i++; !selects {
		if !st.op(i, "(") {
			return false
		}
		i++
	}
	for depth := 0; place > 0 && i < len(st.toks); i++ {
		switch {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			if depth--; depth < 0 {
				return false
			}
		case st.op(i, ",") && depth == 0:
			place--
		}
	}
	if !st.named(i, "new") && !st.named(i, "old") || !st.op(i+1, ".") || !st.named(i+2, own) ||
		!st.op(i+3, ",") && (selects || !st.op(i+3, ")")) && (!selects || !st.is(i+3, "from")) {
		return false
	}
	// One row, and nothing after it that gives another key.
	for depth, j := 0, i+3; j < len(st.toks) && st.toks[j].kind != tokEnd; j++ {
		switch {
		case st.op(j, "("):
			depth++
		case st.op(j, ")"):
			if depth--; depth < 0 && st.op(j+1, ",") {
				return false
			}
		case st.is(j, "union"), st.is(j, "duplicate") && st.setsKey(j, t.ShardKey):
			return false
		}
	}
	return true
}

func refuseAccount(st *statement) *Error {
	return notSupported("%s of accounts is not supported: who may connect to Shunt is in its configuration, and all have the rights of the shards' account; accounts of the shards are made on the shards", strings.ToUpper(st.word(0)))
}
