package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// program plans CREATE, DROP and ALTER of procedures, functions and events, whose
// kind is at token i. They are on every shard: what they do there, they do with
// the rows of that shard.
func program(st *text.Statement, cat *catalog.Catalog, verb string, i int) (plan.Plan, *text.Error) {
	kind := strings.ToUpper(st.Word(i))
	at := ifNotExists(st, i+1)
	if at == i+1 {
		at = ifExists(st, i+1)
	}
	name, next, err := st.TableAt(at)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	body := &text.Statement{Src: st.Src, Settings: st.Settings, Tokens: st.Tokens[next:]}
	if verb == "CREATE" && body.Has("soname") {
		return nil, text.NotSupported("CREATE FUNCTION ... SONAME is not supported: run it on each shard's server")
	}
	ddl := &plan.DDL{Catalog: cat, Op: verb + " " + kind, Schema: name.Schema, Shards: cat.All}
	switch {
	case kind == "EVENT" && verb != "DROP":
		if err := mayBeEvent(body, cat, name.Schema); err != nil {
			return nil, err
		}
	case verb == "CREATE":
		// A call planned with another body of that name may run this one.
		ddl.Unforeseen = writes(body, cat)
	}
	return ddl, nil
}

// writes reports whether a stored program's text may change rows.
func writes(st *text.Statement, cat *catalog.Catalog) bool {
	for i := range st.Tokens {
		switch w := st.Word(i); w {
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
func mayBeEvent(st *text.Statement, cat *catalog.Catalog, schema string) *text.Error {
	if len(cat.Shards) <= 1 && !hasIndexes(cat) {
		return nil
	}
	const way = "send it to one shard with /* shunt: shard=NAME */, where what it writes is found as rows changed behind Shunt's back are"
	do := slices.IndexFunc(st.Tokens, func(t text.Token) bool { return t.Kind == text.Word && strings.EqualFold(st.Src[t.Start:t.End], "do") })
	if do < 0 {
		return nil // ALTER EVENT that leaves the body as it is
	}
	body := &text.Statement{Src: st.Src, Settings: st.Settings, Tokens: st.Tokens[do:]}
	for i := range body.Tokens {
		switch w := body.Word(i); w {
		case "insert", "update", "replace", "call", "load", "execute", "create", "alter", "rename", "grant":
			return text.NotSupported("an event that does %s is not supported: it would run on every shard by itself, unseen; %s", strings.ToUpper(w), way)
		default:
			if w != "" && cat.WritingFunctions[w] {
				return text.NotSupported("an event that calls %s(), which changes rows, is not supported: %s", w, way)
			}
		}
	}
	for _, t := range namedIn(body, cat, schema) {
		if t.IsView || len(t.Triggers) > 0 || len(t.Cascades) > 0 {
			return text.NotSupported("an event on %s, whose rows' removal changes other rows (a trigger or foreign key) or which is a view, is not supported: %s; virtual indexes of what such a trigger or foreign key changes are not used then", t.Name, way)
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

// refuseAccount refuses a statement about accounts.
func refuseAccount(st *text.Statement) *text.Error {
	return text.NotSupported("%s of accounts is not supported: who may connect to Shunt is in its configuration, and all have the rights of the shards' account; accounts of the shards are made on the shards", strings.ToUpper(st.Word(0)))
}
