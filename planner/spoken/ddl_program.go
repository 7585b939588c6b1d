package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// program plans CREATE, DROP and ALTER of procedures, functions and events, whose
// kind is at token i. They are on every shard, but for some events (eventShards): what they do there, they do with
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
	case kind == "EVENT":
		if st.Is(1, "or") {
			verb = "CREATE OR REPLACE"
		}
		if ddl.Shards, err = eventShards(body, cat, verb, name); err != nil {
			return nil, err
		}
	case verb == "CREATE":
		// A call planned with another body of that name may run this one.
		ddl.Unforeseen = writes(body, cat)
		if err := strayRoutine(body, cat, name); err != nil {
			return nil, err
		}
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
