package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// createTrigger goes to the shards of the trigger's table. What may not be done where the trigger fires is refused there
// (RefuseStrayTrigger), as for other programs: a dump has them all.
func createTrigger(st *text.Statement, cat *catalog.Catalog, i int) (plan.Plan, *text.Error) {
	for ; i < len(st.Tokens); i++ {
		if (st.Is(i, "insert") || st.Is(i, "update") || st.Is(i, "delete")) && (st.Is(i-1, "before") || st.Is(i-1, "after")) {
			// MariaDB's may be BEFORE UPDATE OF a, b (11.8) or BEFORE INSERT OR UPDATE (12).
			from := i
			for i++; i < len(st.Tokens) && !st.Is(i, "on"); i++ {
			}
			to := i
			name, _, t, err := UserTableAt(st, cat, i+1)
			if err != nil {
				return nil, err
			}
			if err := unseenTrigger(st, cat, t, from, to); err != nil {
				return nil, err
			}
			refused := triggerPlaces(st, cat, t, i+2)
			if refused != nil && eventOf(st, t, from, to) != "" { // which nobody refuses
				return nil, refused
			}
			return &plan.DDL{
				Catalog: cat, Op: "CREATE TRIGGER", Tables: []catalog.TableName{name}, Renamed: make([]catalog.TableName, 1), Shards: t.Shards,
				Refused: refused,
			}, nil
		}
	}
	return nil, st.Near(i)
}

// unseenTrigger refuses a trigger that an event sets off, where it may change rows of which Shunt
// would have to know. What fires it are tokens from to to; its table and body follow.
//
// Rule only removing events, with the trigger made after the event. Counter-example: an event
// DO DELETE FROM sessions, and AFTER DELETE ON sessions ... INSERT INTO audit, which has an index.
func unseenTrigger(st *text.Statement, cat *catalog.Catalog, on *catalog.Table, from, to int) *text.Error {
	body := &text.Statement{Src: st.Src, Settings: st.Settings, Tokens: st.Tokens[to:]}
	if !hasIndexes(cat) || !writes(body, cat) {
		return nil
	}
	matters := func(t *catalog.Table) bool {
		return t != on && (t.IsView || len(t.Indexes) > 0 || len(t.Triggers) > 0 || len(t.Cascades) > 0)
	}
	event := eventOf(st, on, from, to)
	if event == "" {
		return nil
	}
	for _, t := range namedIn(body, cat, on.Schema) {
		if matters(t) {
			return text.NotSupported("a trigger of %s that changes %s is not supported while the event %s changes rows of %[1]s: it runs on the shards by itself, so the keys of virtual indexes would be missed; DROP EVENT it, and do what it does by a statement", on.Name, t.Name, event)
		}
	}
	return nil
}

// eventOf is an event that sets off a trigger of a table, whose own events tokens from to to name; "" for none.
func eventOf(st *text.Statement, on *catalog.Table, from, to int) string {
	for i := from; i < to; i++ {
		if event := on.Events[strings.ToUpper(st.Word(i))]; event != "" {
			return event
		}
	}
	return ""
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
// An INSERT that gives the shard key as NEW.id or OLD.id is beside, if both have the same
// keys. Counter-example: a VARCHAR, whose '7' has another one than 7.
//
// UPDATE and DELETE of sharded tables need no such equality: WHERE order_id = NEW.id is what
// triggers have, and Shunt can't know where an order's rows are.
func triggerPlaces(st *text.Statement, cat *catalog.Catalog, on *catalog.Table, i int) *text.Error {
	if len(cat.Shards) <= 1 {
		return nil
	}
	for _, b := range blocks(st, cat, on.Schema, i) {
		for _, r := range b.changed() {
			if !b.beside(cat, r, on) {
				return text.NotSupported("a trigger of %s that does %s on %s is not supported: what it writes stays on the shard of the row that fired it, and %[3]s would be looked for elsewhere; write to it by a statement of its own",
					on.Name, strings.ToUpper(b.verb), r.table.Name)
			}
		}
		if t := b.readsElsewhere(cat, on); t != nil {
			return refuseRead(on, t)
		}
	}
	for ; i < len(st.Tokens); i++ {
		if st.Named(i, "new") && st.Op(i+1, ".") && on.ShardKey != nil && on.Placement == catalog.Hash && (st.Is(i-1, "set") || st.Op(i-1, ",") || st.Is(i-1, "into")) {
			if st.Named(i+2, on.ShardKey.Name) && (st.Is(i-1, "into") || st.Op(i+3, "=") || st.Op(i+3, ":=")) {
				return text.NotSupported("a trigger that changes the shard key %s.%s is not supported: the row is on the shard of the value that the statement gave; compute it in the client", on.Name, on.ShardKey.Name)
			}
		}
		if what := varying(st, i); what != "" && on.Placement == catalog.Reference {
			return refuseVarying(on, what)
		}
		if st.Is(i, "call") {
			if err := callBeside(st, cat, on, i); err != nil {
				return err
			}
		}
	}
	if w := boundIn(st, cat); len(w) > 0 {
		if err := callsBeside(cat, on, "the function "+w[0].Name, w...); err != nil {
			return err
		}
	}
	if f := callsOf(st, cat.ReadingFunctions); f != "" {
		return text.NotSupported("a trigger that calls %s(), which reads a table or view whose rows are on several shards, is not supported: it would see those on the shard of the row that fired the trigger; read it by a statement of its own", strings.ToLower(f))
	}
	if f := callsOf(st, cat.Functions); f != "" && on.Placement == catalog.Reference {
		return refuseVarying(on, "the stored function "+strings.ToLower(f)+"()")
	}
	return nil
}

// callBeside refuses the CALL at token i of a trigger unless all tables of the procedure are on the one shard of the trigger's.
// Each write that fires the trigger asks again: the procedure may be made anew (RefuseStrayTrigger).
func callBeside(st *text.Statement, cat *catalog.Catalog, on *catalog.Table, i int) *text.Error {
	if p := calledAt(st, cat, on.Schema, i); p != nil {
		return callsBeside(cat, on, "the procedure "+p.Name, p)
	}
	if on.Placement != catalog.Single {
		return callsBeside(cat, on, "a procedure")
	}
	return nil // it may come yet, as in dumps; until then a server refuses what fires the trigger
}

// callsBeside is callBeside for routines; what names one of them.
func callsBeside(cat *catalog.Catalog, on *catalog.Table, what string, routines ...*catalog.Routine) *text.Error {
	const stays = "what that reads and writes would be on the shard of the row that fired the trigger"
	if on.Placement != catalog.Single {
		return text.NotSupported("a trigger that calls %s is not supported: "+stays, what)
	}
	called, why := calls(cat, routines...)
	if why != "" {
		return text.NotSupported("a trigger of %s that calls %s is not supported, since %s", on.Name, what, why)
	}
	for _, t := range sortedTables(cat) {
		if (t.IsView || t.Placement != catalog.Single || !t.Shards.Contains(on.Shards)) && mayTouchBy(called, t) {
			return text.NotSupported("a trigger of %s that calls %s, which may touch %s, is not supported: "+stays, on.Name, what, t.Name)
		}
	}
	return nil
}

func refuseVarying(on *catalog.Table, what string) *text.Error {
	return text.NotSupported("a trigger of the reference table %s that uses %s is not supported: it would give each shard another value; compute it in the client", on.Name, what)
}

// beside reports whether the rows of r that the block writes, set off by a row of a table, are
// looked for on that row's shard, and there alone.
func (b *programBlock) beside(cat *catalog.Catalog, r *blockRef, on *catalog.Table) bool {
	t := r.table
	switch {
	case t == nil, t == on, len(t.Columns) == 0 && t.Placement == catalog.Hash && !t.IsView:
		return true // the table may come yet: see RefuseStrayTrigger
	case t.IsView:
		return false
	case t.Placement == catalog.Reference:
		return on.Placement == catalog.Reference
	case t.Placement == catalog.Single:
		return on.Placement == catalog.Single && t.Shards.Contains(on.Shards)
	case t.Placement == catalog.Anywhere:
		return true
	case b.verb == "delete":
		return true // of rows that are here anyway
	}
	own := "" // the row's column that places t's rows, too
	if t.ShardKey != nil && on.Placement == catalog.Hash && on.ShardKey != nil && plan.SameKeys(cat, t.ShardKey, on.ShardKey) {
		own = on.ShardKey.Name
	}
	if b.verb == "update" {
		return !b.sets(r, own)
	}
	return own != "" && givesKey(b.st, r.next, t, own)
}

// readsElsewhere is a table of which the block, set off by a row of a table, may read rows of other
// shards than that row's; nil for none.
//
// Rule rows of one shard. Counter-examples, for a trigger of users (by hash of id):
//
//	SET NEW.n = (SELECT COUNT(*) FROM users)                 the users of one shard
//	SELECT COUNT(*) INTO n FROM orders WHERE id = NEW.n      orders goes by user_id
//	DELETE FROM orders WHERE id NOT IN (SELECT order_id FROM items)
//
// Those that have the row's shard key for theirs are beside it, as are those that have that of a
// row which is changed.
func (b *programBlock) readsElsewhere(cat *catalog.Catalog, on *catalog.Table) *catalog.Table {
	type column struct {
		of *blockRef // nil: of the row
		*catalog.Column
	}
	find := func(c programColumn) (out column) {
		if strings.EqualFold(c.of, "new") || strings.EqualFold(c.of, "old") {
			return column{nil, on.Column(c.name)}
		}
		if c.of == "" && declares(b.st, c.name) {
			return column{} // the variable comes first
		}
		if of := b.named(c.of, c.name); len(of) == 1 && of[0].table != nil {
			out = column{of[0], of[0].table.Column(c.name)}
		}
		return out
	}
	changed := b.changed()
	here := map[column]bool{}
	if on.Placement == catalog.Hash {
		here[column{nil, on.ShardKey}] = true
	}
	for _, r := range changed {
		if r.table != nil && r.table.Placement == catalog.Hash {
			here[column{r, r.table.ShardKey}] = true
		}
	}
	equated := b.equated()
	for range equated { // each time around it may reach one more
		for _, pair := range equated {
			x, y := find(pair[0]), find(pair[1])
			if x.Column != nil && y.Column != nil && here[x] != here[y] && plan.SameKeys(cat, x.Column, y.Column) {
				here[x], here[y] = true, true
			}
		}
	}
	for _, r := range b.refs {
		t := r.table
		if t == nil || slices.Contains(changed, r) || wholeBeside(cat, t, on) || t.Placement == catalog.Hash && here[column{r, t.ShardKey}] {
			continue
		}
		return t
	}
	return nil
}

// wholeBeside reports whether each shard that has rows of a table has all of t's rows.
func wholeBeside(cat *catalog.Catalog, t, on *catalog.Table) bool {
	switch {
	case t.IsView:
		query, err := text.Read(t.Definition, text.Settings{Schema: t.Schema}, cat)
		return t.Definition != "" && err == nil && ReadingFunction(query, cat) == "" && !slices.ContainsFunc(namedIn(query, cat, t.Schema), func(of *catalog.Table) bool {
			return of != t && (of.IsView || !wholeBeside(cat, of, on))
		})
	case t.Placement == catalog.Reference, t.Placement == catalog.Single:
		return t.Shards.Contains(on.Shards)
	}
	return len(t.Columns) == 0 // it may come yet: see RefuseStrayTrigger
}

func refuseRead(on, t *catalog.Table) *text.Error {
	way := ""
	if t.Placement == catalog.Hash && on.Placement == catalog.Hash && t.ShardKey != nil && on.ShardKey != nil && !t.IsView {
		way = "equate its shard key with that row's (" + t.Name + "." + t.ShardKey.Name + " = NEW." + on.ShardKey.Name + "), or "
	}
	return text.NotSupported("a trigger of %s that reads %s is not supported: it would see no rows of %[2]s but those on the shard of the row that fired it; %sread it by a statement of its own", on.Name, t.Name, way)
}

// declares reports a variable of a stored program.
func declares(st *text.Statement, name string) bool {
	for i := range st.Tokens {
		for j := i; st.Is(i, "declare") && (j == i || st.Op(j, ",")); j += 2 {
			if st.Named(j+1, name) {
				return true
			}
		}
	}
	return false
}

// setsKey reports whether the UPDATE whose table ends before token i may set the
// shard key.
func setsKey(st *text.Statement, i int, key *catalog.Column) bool {
	for ; key != nil && i < len(st.Tokens) && st.Tokens[i].Kind != text.Semicolon && !st.Is(i, "where"); i++ {
		if st.Named(i, key.Name) {
			return true
		}
	}
	return false
}

// givesKey reports whether the INSERT whose columns begin at token i gives the
// table's shard key the value of NEW.own or OLD.own.
func givesKey(st *text.Statement, i int, t *catalog.Table, own string) bool {
	key := t.ShardKey.Name
	place, at := -1, 0
	if st.Op(i, "(") {
		for i++; i < len(st.Tokens) && !st.Op(i, ")"); i++ {
			if st.Op(i, ",") {
				at++
			} else if st.Named(i, key) {
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
	if place < 0 || !st.Is(i, "values") && !st.Is(i, "value") && !st.Is(i, "select") {
		return false
	}
	selects := st.Is(i, "select")
	if i++; !selects {
		if !st.Op(i, "(") {
			return false
		}
		i++
	}
	for depth := 0; place > 0 && i < len(st.Tokens); i++ {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			if depth--; depth < 0 {
				return false
			}
		case st.Op(i, ",") && depth == 0:
			place--
		}
	}
	if !st.Named(i, "new") && !st.Named(i, "old") || !st.Op(i+1, ".") || !st.Named(i+2, own) ||
		!st.Op(i+3, ",") && (selects || !st.Op(i+3, ")")) && (!selects || !st.Is(i+3, "from")) {
		return false
	}
	// One row, and nothing after it that gives another key.
	for depth, j := 0, i+3; j < len(st.Tokens) && st.Tokens[j].Kind != text.Semicolon; j++ {
		switch {
		case st.Op(j, "("):
			depth++
		case st.Op(j, ")"):
			if depth--; depth < 0 && st.Op(j+1, ",") {
				return false
			}
		case st.Is(j, "union"), st.Is(j, "duplicate") && setsKey(st, j, t.ShardKey):
			return false
		}
	}
	return true
}
