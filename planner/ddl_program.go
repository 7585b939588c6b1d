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

func hasIndexes(cat *catalog.Catalog) bool {
	for t := range cat.Tables() {
		if len(t.Indexes) > 0 {
			return true
		}
	}
	return false
}

func refuseAccount(st *statement) *Error {
	return notSupported("%s of accounts is not supported: who may connect to Shunt is in its configuration, and all have the rights of the shards' account; accounts of the shards are made on the shards", strings.ToUpper(st.word(0)))
}
