package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// writingFunction is a stored function that may change rows and that the
// statement seems to call, "" for none.
//
// Counter-example: SELECT rename_all('x'), where the function runs UPDATE users
// SET email = ...: without a mark the new keys would be missed.
func (st *statement) writingFunction(cat *catalog.Catalog) string {
	return st.callsOf(cat.WritingFunctions)
}

// leavingFunction is one that leaves something in its connection.
//
// Rule nothing left behind, as for CALL. Counter-example: FUNCTION next_row() ... SET @n =
// @n + 1: the next client of the connection reads this one's @n, and the client that
// called it another's, or none.
func (st *statement) leavingFunction(cat *catalog.Catalog) string {
	return st.callsOf(cat.LeavingFunctions)
}

// readingFunction is one that may read a spread table.
//
// Rule rows of one shard. Counter-example: FUNCTION total() ... RETURN (SELECT COUNT(*)
// FROM users), whose value on each shard is the number of users there.
func (st *statement) readingFunction(cat *catalog.Catalog) string {
	// A definition calls nothing yet.
	if len(cat.ReadingFunctions) == 0 || st.is(0, "create") || st.is(0, "drop") || st.is(0, "alter") || st.is(0, "show") {
		return ""
	}
	return st.callsOf(cat.ReadingFunctions)
}

// leavingTrigger is a table of a write whose triggers do so, the same
// rule. Counter-example: BEFORE INSERT ... SET @sum = @sum + NEW.amount, as in the manual:
// a session of two shards has two sums.
func (r *Rows) leavingTrigger(st *statement) *catalog.Table {
	if r == nil || st.hinted || !r.Kind.Writes() {
		return nil
	}
	for _, t := range r.Tables {
		for i := range t.Triggers {
			if tr := &t.Triggers[i]; tr.Leaves && r.fires(st, tr) {
				return t
			}
		}
	}
	return nil
}

// fires reports whether a write may set off a trigger of one of its tables.
func (r *Rows) fires(st *statement, tr *catalog.Trigger) bool {
	switch tr.Event {
	case "INSERT":
		return r.Kind == Insert || r.Kind == Replace
	case "UPDATE":
		return r.Kind == Update || st.has("duplicate")
	}
	return r.Kind == Delete || r.Kind == Replace
}

// strayTrigger refuses a write that sets off a trigger which CREATE TRIGGER would have
// refused. It could not know: a table that the trigger names may have come later, as
// dumps have triggers right behind their table, or the trigger was made on the shards.
func (r *Rows) strayTrigger(st *statement, cat *catalog.Catalog) *Error {
	if r == nil || st.hinted || !r.Kind.Writes() || len(cat.Shards) <= 1 {
		return nil
	}
	seen := map[string]bool{}
	var follow func(t *catalog.Table, first bool) *Error
	follow = func(t *catalog.Table, first bool) *Error {
		for i := range t.Triggers {
			tr := &t.Triggers[i]
			key := t.Schema + "\x00" + t.Name + "\x00" + tr.Body // each shard has it
			if seen[key] || first && !r.fires(st, tr) {
				continue
			}
			seen[key] = true
			// Not as a statement by itself, whose rows would be no tokens and whose BEGIN no
			// block.
			body, err := lexStatement("CREATE TRIGGER FOR EACH ROW "+tr.Body, Settings{Schema: t.Schema, ANSIQuotes: tr.ANSIQuotes}, cat)
			if err == nil {
				err = body.triggerPlaces(cat, t, 0)
			}
			if err != nil {
				return err
			}
			// What writes by other ways than by its tables' names was refused just now.
			for _, next := range tr.Touches {
				if next != t && body.mayName(next, t.Schema) {
					if err := follow(next, false); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	for _, t := range r.Tables {
		if err := follow(t, true); err != nil {
			return err
		}
	}
	return nil
}

// Varies reports whether shards that run a stored function's body at the same time may give it
// other values than each other.
func Varies(body string) bool {
	st, err := lexStatement("CREATE FUNCTION "+body, Settings{}, nil) // whose BEGIN is a block
	if err != nil {
		return true
	}
	for i := range st.toks {
		if st.varying(i) != "" {
			return true
		}
	}
	return false
}

// varying is what at token i of a stored program's body is another value on each shard, "" where
// that is nothing. The time isn't, see Bound.SameTime, nor DATABASE(), which is the program's.
//
// Rule same copies. Counter-examples, for a reference table:
//
//	CREATE TRIGGER ... BEFORE INSERT ON countries FOR EACH ROW SET NEW.token = UUID()
//	CREATE FUNCTION fresh() RETURNS CHAR(36) NO SQL RETURN UUID()
//	    and then INSERT INTO countries VALUES ('DE', fresh())
func (st *statement) varying(i int) string {
	if text := st.text(i); st.toks[i].kind == tokVar && strings.HasPrefix(text, "@@") {
		return text
	}
	switch w := st.word(i); {
	case st.op(i-1, "."), st.is(i-1, "into"), w == "database", w == "schema", clockFunction(w):
	case w == "current_user", w == "current_role", volatileFunction(w) && st.op(i+1, "("):
		return strings.ToUpper(w) + "()"
	}
	return ""
}

// callsOf finds one of the functions among what the statement seems to call.
func (st *statement) callsOf(functions map[string]bool) string {
	if len(functions) == 0 {
		return ""
	}
	for i := range st.toks {
		if !st.op(i+1, "(") {
			continue
		}
		if name, ok := st.identifier(i); ok && functions[strings.ToLower(name)] {
			return name
		}
	}
	for _, name := range st.rowCalls {
		if functions[name] {
			return name
		}
	}
	return ""
}
