package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Unread plans a query that the parser refuses: valid MySQL that it doesn't know (spatial functions), or a syntax error.
// A query reads a table only by naming it. So where no name in the text is that of a sharded table, one shard can answer,
// and says too what is wrong with it.
func Unread(st *text.Statement, cat *catalog.Catalog, refusal *text.Error) (plan.Plan, *text.Error) {
	if err := refusedLexically(st); err != nil {
		return nil, err
	}
	if st.Has("into") {
		return nil, RefuseInto()
	}
	if st.Is(0, "with") && (st.Has("update") || st.Has("delete")) {
		return nil, refusal
	}
	tables := Mentioned(st, cat)
	set := cat.All
	for _, t := range tables {
		if t.Lost {
			return nil, lostTemporary(t)
		}
		if spread(t, cat) {
			return nil, refusal
		}
		set = set.Intersect(t.Shards)
	}
	if set.Empty() {
		return nil, refusal
	}
	kind := plan.Select
	if HasLock(st) {
		kind = plan.Locking
	}
	access := "single"
	if len(tables) > 0 {
		access = tables[0].Placement.String()
	}
	return fixed(st, cat, kind, tables, &Fixed{
		Shards: catalog.Only(set.First()), Any: set, Access: access,
		Reason: "the text names no sharded table: any shard that has the others will do",
	}), nil
}

// spread reports a table whose rows are on several shards, or a view, whose may be.
func spread(t *catalog.Table, cat *catalog.Catalog) bool {
	return t.IsView && len(cat.Shards) > 1 || (t.IsView || t.Placement == catalog.Hash || t.Placement == catalog.Anywhere) && t.Shards.Len() > 1
}

// refusedLexically finds in a text that was not parsed what is refused anyway.
func refusedLexically(st *text.Statement) *text.Error {
	for _, name := range st.RowCalls {
		if e := RefusedFunction(name); e != nil {
			return e
		}
	}
	for i := range st.Tokens {
		if st.Op(i, ":=") {
			return text.NotSupported("assigning a user variable inside of a statement (:=) is not supported yet: use SET")
		}
		if e := RefusedCall(st, i); e != nil {
			return e
		}
		if e := RefusedDelay(st, i); e != nil {
			return e
		}
	}
	if SequenceCall(st, st.Tokens) { // whose shard isn't known
		return text.NotSupported("a sequence is not supported in this form of the statement: ask for its number by a statement of its own")
	}
	return nil
}

// RefusedDelay refuses MariaDB's INSERT DELAYED and REPLACE DELAYED at token i.
//
// Counter-example: INSERT DELAYED INTO t VALUES (1, 'a') while another session reads t. The
// server answers at once; a scan finds no row with the key 'a' and takes its entry away,
// and then the row is written.
func RefusedDelay(st *text.Statement, i int) *text.Error {
	if !st.Server.MariaDB || !st.Is(i, "insert") && !st.Is(i, "replace") || !st.Is(i+1, "delayed") {
		return nil
	}
	return text.NotSupported("%s DELAYED is not supported: MariaDB answers it before the rows are written, and virtual indexes would miss them; leave DELAYED out", strings.ToUpper(st.Word(i)))
}

// RefusedCall refuses token i where that is a call of RefusedFunction's.
func RefusedCall(st *text.Statement, i int) *text.Error {
	switch {
	case st.Is(i, "previous") && st.Is(i+1, "value") && st.Is(i+2, "for"):
		return RefusePrevious()
	case !st.Op(i+1, "("):
		return nil
	}
	return RefusedFunction(st.Word(i))
}

// RefuseExecutable refuses a text that servers read differently.
func RefuseExecutable() *text.Error {
	return text.NotSupported("an executable comment (/*!NNNNN ... */) that some server versions run and others skip is not supported here: write the text out, or send it to one shard with /* shunt: shard=NAME */")
}
