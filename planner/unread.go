package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// planUnread plans a query that the parser refuses: valid MySQL that it doesn't
// know (JSON_TABLE, SOUNDS LIKE, spatial functions) or a syntax error. A query
// reads a table only by naming it. So where no name in the text is that of a
// sharded table, one shard can answer, and says too what is wrong with it.
func planUnread(st *statement, cat *catalog.Catalog, refusal *Error) (Plan, *Error) {
	if err := st.refusedLexically(); err != nil {
		return nil, err
	}
	if st.has("into") {
		return nil, refuseInto()
	}
	if st.is(0, "with") && (st.has("update") || st.has("delete")) {
		return nil, refusal
	}
	tables := st.mentioned(cat)
	set := cat.All
	for _, t := range tables {
		if t.Lost {
			return nil, lostTemporary(t)
		}
		if t.IsView || t.Placement == catalog.Hash || t.Placement == catalog.Anywhere {
			if t.Shards.Len() > 1 || t.IsView && len(cat.Shards) > 1 {
				return nil, refusal
			}
		}
		set = set.Intersect(t.Shards)
	}
	if set.Empty() {
		return nil, refusal
	}
	kind := Select
	if hasLock(st) {
		kind = Locking
	}
	access := "single"
	if len(tables) > 0 {
		access = tables[0].Placement.String()
	}
	return fixed(st, cat, kind, tables, &fixedAction{
		shards: catalog.Only(set.First()), any: set, access: access,
		reason: "the text names no sharded table: any shard that has the others will do",
	}), nil
}

// refusedLexically finds in a text that was not parsed what is refused anyway.
func (st *statement) refusedLexically() *Error {
	if st.rowRefusal != nil {
		return st.rowRefusal
	}
	for i := range st.toks {
		if st.op(i, ":=") {
			return notSupported("assigning a user variable inside of a statement (:=) is not supported yet: use SET")
		}
		if e := st.refusedCall(i); e != nil {
			return e
		}
		if e := st.refusedDelay(i); e != nil {
			return e
		}
	}
	return nil
}

// refusedDelay refuses MariaDB's INSERT DELAYED and REPLACE DELAYED at token i.
//
// Counter-example: INSERT DELAYED INTO t VALUES (1, 'a') while another session reads t. The
// server answers at once; a scan finds no row with the key 'a' and takes its entry away,
// and then the row is written.
func (st *statement) refusedDelay(i int) *Error {
	if !st.server.mariaDB || !st.is(i, "insert") && !st.is(i, "replace") || !st.is(i+1, "delayed") {
		return nil
	}
	return notSupported("%s DELAYED is not supported: MariaDB answers it before the rows are written, and virtual indexes would miss them; leave DELAYED out", strings.ToUpper(st.word(i)))
}

// refusedCall refuses token i where that is a call of refusedFunction's.
func (st *statement) refusedCall(i int) *Error {
	if !st.op(i+1, "(") {
		return nil
	}
	return refusedFunction(st.word(i))
}

// mayName reports whether a text, whose names without a schema are of the one that is given,
// may name a table.
func (st *statement) mayName(t *catalog.Table, schema string) bool {
	has := func(name string) bool { return st.hasIn(0, len(st.toks), strings.ToLower(name)) }
	return has(t.Name) && (t.Schema == schema || has(t.Schema))
}

// mentioned are all tables that have the name of any identifier in the text, in
// any schema: more than the statement reads, never less.
func (st *statement) mentioned(cat *catalog.Catalog) []*catalog.Table {
	names := map[string]bool{}
	for i := range st.toks {
		if name, ok := st.identifier(i); ok {
			names[strings.ToLower(name)] = true
		}
	}
	var out []*catalog.Table
	for _, t := range sortedTables(cat) {
		if names[strings.ToLower(t.Name)] {
			out = append(out, t)
		}
	}
	return out
}
