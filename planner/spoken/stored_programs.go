package spoken

import (
	"iter"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// What a shard's stored functions do is not seen. A function whose body has a word that writes, or
// that calls such a function, is run where all that it may touch is on one shard (Writing). With a
// hint any is sent, and every index of that shard is marked.

// UnfitFunction is a stored function that a statement seems to call, and that would do on a shard what it doesn't do
// on one server; nil for none.
func UnfitFunction(st *text.Statement, cat *catalog.Catalog) *Unfit {
	for i := range unfit {
		if f := unfit[i].called(st, cat); f != "" {
			return &Unfit{Name: f, Does: unfit[i].does, Instead: unfit[i].instead, Writes: unfit[i].writes}
		}
	}
	return nil
}

// Unfit says of a function what it does, and what to write instead of its call. Writes: it may change rows.
type Unfit struct {
	Name, Does, Instead string
	Writes              bool
}

// Refuse is the error of a statement that calls it.
func (f *Unfit) Refuse() *text.Error {
	return text.NotSupported("the stored function %s() %s: %ssend the statement to one shard with /* shunt: shard=NAME */", f.Name, f.Does, f.Instead)
}

var unfit = []struct {
	called        func(*text.Statement, *catalog.Catalog) string
	of            func(*catalog.Catalog) map[string]bool
	does, instead string
	writes        bool
}{
	{
		WritingFunction, func(c *catalog.Catalog) map[string]bool { return c.WritingFunctions },
		"may change rows that Shunt does not see", "", true,
	},
	{
		ReadingFunction, func(c *catalog.Catalog) map[string]bool { return c.ReadingFunctions },
		"reads a table or view whose rows are on several shards, and would see those of one", "write its query into the statement, or ", false,
	},
	{
		LeavingFunction, func(c *catalog.Catalog) map[string]bool { return c.LeavingFunctions },
		"sets variables of the session (@x, @@x) or keeps locks or temporary tables, which would be those of a pooled connection", "declare variables in it, or ", false,
	},
}

// WritingFunction is a stored function that may change rows and that the
// statement seems to call, "" for none.
//
// Counter-example: SELECT rename_all('x'), where the function runs UPDATE users
// SET email = ...: without a mark the new keys would be missed.
func WritingFunction(st *text.Statement, cat *catalog.Catalog) string {
	return callsOf(st, cat.WritingFunctions)
}

// LeavingFunction is one that leaves something in its connection.
//
// Rule nothing left behind, as for CALL. Counter-example: FUNCTION next_row() ... SET @n =
// @n + 1: the next client of the connection reads this one's @n, and the client that
// called it another's, or none.
func LeavingFunction(st *text.Statement, cat *catalog.Catalog) string {
	return callsOf(st, cat.LeavingFunctions)
}

// ReadingFunction is one that may read a spread table.
//
// Rule rows of one shard. Counter-example: FUNCTION total() ... RETURN (SELECT COUNT(*)
// FROM users), whose value on each shard is the number of users there.
func ReadingFunction(st *text.Statement, cat *catalog.Catalog) string {
	// A definition calls nothing yet.
	if len(cat.ReadingFunctions) == 0 || st.Is(0, "create") || st.Is(0, "drop") || st.Is(0, "alter") || st.Is(0, "show") {
		return ""
	}
	return callsOf(st, cat.ReadingFunctions)
}

// DefinesBody reports a statement that makes a view, function, procedure or trigger: a server looks at what these call when they run.
//
// Counter-example: a dump has CREATE FUNCTION total() ... RETURN next_row(), and can't be restored.
func DefinesBody(st *text.Statement) bool {
	for i := 1; st.Is(0, "create") && i < len(st.Tokens) && !st.Op(i, "("); i++ {
		switch st.Word(i) {
		case "view", "procedure", "function", "trigger":
			return true
		case "table", "event", "index", "database", "schema", "temporary":
			return false
		}
	}
	return false
}

// Assigned are the user variables that functions may assign which a query calls. ok is false where it calls functions that do, or
// leave, anything else that is unfit.
//
// Rule one shard: such a query is one of a single shard, whose variables the session takes over (plan.Rows.Assigns).
func Assigned(query *text.Statement, cat *catalog.Catalog) (names []string, ok bool) {
	if WritingFunction(query, cat) != "" || ReadingFunction(query, cat) != "" {
		return nil, false
	}
	for name := range callsIn(query) {
		if name = strings.ToLower(name); cat.LeavingFunctions[name] {
			if names = append(names, cat.Assigned[name]...); cat.Assigned[name] == nil {
				return nil, false
			}
		}
	}
	return names, len(names) > 0
}

// FitOfOneShard reports a query that calls no function which is unfit where one shard answers it.
func FitOfOneShard(query *text.Statement, cat *catalog.Catalog) bool {
	_, assigns := Assigned(query, cat)
	return assigns || UnfitFunction(query, cat) == nil
}

// CallingView is a view that a statement reads, by others too, which calls an unfit function; assigned are the user variables that
// functions of views may assign instead.
func CallingView(r *plan.Rows, st *text.Statement, cat *catalog.Catalog) (v *catalog.Table, function *Unfit, assigned []string) {
	if r == nil || st.Hinted || r.Kind == plan.Show || len(cat.WritingFunctions)+len(cat.ReadingFunctions)+len(cat.LeavingFunctions) == 0 {
		return nil, nil, nil
	}
	seen := map[*catalog.Table]bool{}
	var look func(tables []*catalog.Table) bool
	look = func(tables []*catalog.Table) bool {
		for _, t := range tables {
			if !t.IsView || seen[t] || t.Definition == "" {
				continue
			}
			seen[t] = true
			query, err := text.Read(t.Definition, text.Settings{Schema: t.Schema}, cat)
			if err != nil {
				continue
			}
			v, function = t, UnfitFunction(query, cat)
			if names, ok := Assigned(query, cat); ok && r.Kind == plan.Select {
				assigned, function = append(assigned, names...), nil
			}
			if function != nil || look(namedIn(query, cat, t.Schema)) {
				return true
			}
		}
		return false
	}
	if !look(r.Tables) {
		return nil, nil, assigned
	}
	return v, function, nil
}

// LeavingTrigger is a table of a write whose triggers do so, the same
// rule. Counter-example: BEFORE INSERT ... SET @sum = @sum + NEW.amount, as in the manual:
// a session of two shards has two sums.
func LeavingTrigger(r *plan.Rows, st *text.Statement) *catalog.Table {
	if r == nil || st.Hinted || !r.Kind.Writes() {
		return nil
	}
	for _, t := range r.Tables {
		for i := range t.Triggers {
			if tr := &t.Triggers[i]; tr.Leaves && firesTrigger(r, st, tr) {
				return t
			}
		}
	}
	return nil
}

// firesTrigger reports whether a write may set off a trigger of one of its tables.
func firesTrigger(r *plan.Rows, st *text.Statement, tr *catalog.Trigger) bool {
	if r.Kind == plan.Other { // by a routine
		return true
	}
	switch tr.Event {
	case "INSERT":
		return r.Kind == plan.Insert || r.Kind == plan.Replace
	case "UPDATE":
		return r.Kind == plan.Update || st.Has("duplicate")
	}
	return r.Kind == plan.Delete || r.Kind == plan.Replace
}

// RefuseStrayTrigger refuses a write that sets off a trigger whose rows would not be where they are looked for, by
// triggerPlaces. CREATE TRIGGER only notes it, and may not know: a table that the trigger names may come later.
func RefuseStrayTrigger(r *plan.Rows, st *text.Statement, cat *catalog.Catalog) *text.Error {
	if r == nil || st.Hinted || !r.Kind.Writes() || len(cat.Shards) <= 1 {
		return nil
	}
	seen := map[string]bool{}
	var follow func(t *catalog.Table, first bool) *text.Error
	follow = func(t *catalog.Table, first bool) *text.Error {
		for i := range t.Triggers {
			tr := &t.Triggers[i]
			key := t.Schema + "\x00" + t.Name + "\x00" + tr.Body // each shard has it
			if seen[key] || first && !firesTrigger(r, st, tr) {
				continue
			}
			seen[key] = true
			// Not as a statement by itself, whose rows would be no tokens and whose BEGIN no
			// block.
			body, err := text.Read("CREATE TRIGGER FOR EACH ROW "+tr.Body, text.Settings{Schema: t.Schema, ANSIQuotes: tr.ANSIQuotes}, cat)
			if err == nil {
				err = triggerPlaces(body, cat, t, 0)
			}
			if err != nil {
				return err
			}
			// What writes by other ways than by its tables' names, or a procedure's, was refused just now.
			called := calledBy(body, cat, t.Schema)
			for _, next := range tr.Touches {
				if next != t && (mayName(body, next, t.Schema) || mayTouchBy(called, next)) {
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
	st, err := text.Read("CREATE FUNCTION "+body, text.Settings{}, nil) // whose BEGIN is a block
	if err != nil {
		return true
	}
	for i := range st.Tokens {
		if varying(st, i) != "" {
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
func varying(st *text.Statement, i int) string {
	if sql := st.Text(i); st.Tokens[i].Kind == text.Variable && strings.HasPrefix(sql, "@@") {
		return sql
	}
	switch w := st.Word(i); {
	case st.Op(i-1, "."), st.Is(i-1, "into"), w == "database", w == "schema", ClockFunction(w):
	case w == "current_user", w == "current_role", VolatileFunction(w) && st.Op(i+1, "("):
		return strings.ToUpper(w) + "()"
	}
	return ""
}

// callsOf finds one of the functions among what the statement seems to call.
func callsOf(st *text.Statement, functions map[string]bool) string {
	if len(functions) == 0 {
		return ""
	}
	for name := range callsIn(st) {
		if functions[strings.ToLower(name)] {
			return name
		}
	}
	return ""
}

// callsIn are the names of the functions that a text seems to call, as it writes them.
func callsIn(st *text.Statement) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range st.Tokens {
			if name, ok := st.Identifier(i); ok && st.Op(i+1, "(") && !yield(name) {
				return
			}
		}
		for _, name := range st.RowCalls {
			if !yield(strings.Trim(name, "`\"")) {
				return
			}
		}
	}
}
