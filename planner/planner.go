package planner

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Planner turns statements into plans. It holds nothing but a pool of parsers and
// plans by shape; one serves all sessions.
type Planner struct {
	parsers parserPool
	cache   planCache
}

// New returns a Planner.
func New() *Planner { return &Planner{} }

// Plan reads one statement (no `;` between statements: see Split) and says
// what it will do. The error is an *Error to give to the client: a refusal
// (1235), a statement too large, an unknown table (1146) or schema (1049), or
// what is wrong with its syntax (1064).
func (p *Planner) Plan(sql string, s Settings, cat *catalog.Catalog) (Plan, error) {
	return p.plan(sql, s, cat, "")
}

// plan is Plan; kinds are those of the literals that the parameters stand for, ""
// where they are not known.
func (p *Planner) plan(sql string, s Settings, cat *catalog.Catalog, kinds string) (Plan, error) {
	st, err := lexStatement(sql, s, cat)
	if err != nil {
		return nil, err
	}
	st.kinds = kinds
	var plan Plan
	if st.hinted {
		plan, err = p.planHinted(st, cat)
	} else if f := st.writingFunction(cat); f != "" {
		return nil, notSupported("the stored function %s() may change rows that Shunt does not see: send the statement to one shard with /* shunt: shard=NAME */", f)
	} else if f := st.readingFunction(cat); f != "" {
		return nil, notSupported("the stored function %s() reads a table or view whose rows are on several shards, and would see those of one: write its query into the statement, or send the statement to one shard with /* shunt: shard=NAME */", f)
	} else if f := st.leavingFunction(cat); f != "" {
		return nil, notSupported("the stored function %s() sets variables of the session (@x, @@x) or keeps locks or temporary tables, which would be those of a pooled connection: declare variables in it, or send the statement to one shard with /* shunt: shard=NAME */", f)
	} else {
		plan, err = p.dispatch(st, cat)
	}
	if err != nil {
		return nil, err
	}
	if err := reachesSystem(st, plan); err != nil {
		return nil, err
	}
	rows, ok := plan.(*Rows)
	if t := rows.leavingTrigger(st); ok && t != nil {
		return nil, notSupported("a trigger of %s sets variables of the session (@x, @@x) or keeps locks or temporary tables, which would be those of a pooled connection: declare variables in it, or send the statement to one shard with /* shunt: shard=NAME */", t.Name)
	}
	if err := rows.strayTrigger(st, cat); err != nil {
		return nil, err
	}
	if !ok && len(st.params) > 0 {
		return nil, notSupported("parameters (?) in this statement are not supported: write the values out")
	}
	if ok {
		rows.found = st.foundRows()
		if rows.Kind == Show {
			rows.Shown = st.shownValues()
		}
	}
	return plan, nil
}

// writingFunction is a stored function that may change rows and that the
// statement seems to call, "" for none.
//
// Counter-example: SELECT rename_all('x'), where the function runs UPDATE users
// SET email = ...: without a mark the new keys would be missed.
func (st *statement) writingFunction(cat *catalog.Catalog) string { return st.callsOf(cat.Functions) }

// leavingFunction is one that leaves something in its connection.
//
// Rule nothing left behind, as for CALL. Counter-example: FUNCTION next_row() ... SET @n =
// @n + 1: the next client of the connection reads this one's @n, and the client that
// called it another's, or none.
func (st *statement) leavingFunction(cat *catalog.Catalog) string { return st.callsOf(cat.Leaving) }

// readingFunction is one that may read a spread table.
//
// Rule rows of one shard. Counter-example: FUNCTION total() ... RETURN (SELECT COUNT(*)
// FROM users), whose value on each shard is the number of users there.
func (st *statement) readingFunction(cat *catalog.Catalog) string {
	// A definition calls nothing yet.
	if len(cat.Reading) == 0 || st.is(0, "create") || st.is(0, "drop") || st.is(0, "alter") || st.is(0, "show") {
		return ""
	}
	return st.callsOf(cat.Reading)
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
			for _, next := range tr.Touches {
				if next != t {
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

// Bind gives a Rows plan its values. params must have r.Params elements.
// Lookups go through ix; a lookup that fails makes the route wider. The error
// is an *Error to give to the client.
//
// With a nil ix no virtual index is used, as where rows are read from replicas.
//
// Rule indexes are the primaries': counter-example: UPDATE users SET email = 'new'
// WHERE id = 5; the entry of 'old' is removed when no row of the primary has it,
// while a replica that is behind still has one that WHERE email = 'old' finds. The
// shard key of a row never changes in place, so shards are left out by it.
func (p *Planner) Bind(r *Rows, params []keys.Value, ix Indexes) (*Bound, error) {
	if len(params) != r.Params {
		return nil, &Error{Code: codeParamCount, State: stateGeneral, Message: "Incorrect arguments to EXECUTE"}
	}
	return r.bind(&binder{cat: r.Catalog, settings: r.settings, params: params, ix: ix})
}

// BindIn is Bind without a Reason, in memory that is used again: the Bound is good
// until bd's next one.
func (p *Planner) BindIn(bd *Binding, r *Rows, params []keys.Value, ix Indexes) (*Bound, error) {
	if len(params) != r.Params {
		return p.Bind(r, params, ix)
	}
	return r.bind(bd.begin(r, params, ix))
}

func (r *Rows) bind(b *binder) (*Bound, error) {
	out, err := r.action.bind(b)
	if err == nil {
		out.Found = r.found.bind(b)
		if b.brief {
			out.Reason = ""
		}
	}
	return out, err
}

// dispatch goes by the statement's first words.
func (p *Planner) dispatch(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if st.doubtful {
		return nil, refuseExecutable()
	}
	if len(st.toks) == 0 {
		return &Session{Op: NoOp}, nil
	}
	w := st.word(0)
	if st.op(0, "(") {
		w = "select"
	}
	switch w {
	case "select", "with", "table", "values":
		if told := st.tellSession(); told != nil {
			return told, nil
		}
		if plan, err := st.planNamedLock(cat); plan != nil || err != nil {
			return plan, err
		}
		return p.query(st, cat)
	case "do":
		if plan, err := st.planNamedLock(cat); plan != nil || err != nil {
			return plan, err
		}
		return p.query(st, cat)
	case "insert", "replace":
		return p.insert(st, cat)
	case "update", "delete":
		return p.write(st, cat)
	case "load":
		return planLoad(st, cat)
	case "explain", "describe", "desc":
		return p.explain(st, cat)
	case "show":
		return p.show(st, cat)
	case "analyze":
		if !st.is(1, "table") && !st.is(1, "tables") && !st.is(1, "local") && !st.is(1, "no_write_to_binlog") {
			return p.explain(st, cat) // MariaDB's EXPLAIN ANALYZE
		}
	case "create", "drop", "alter", "rename", "truncate", "rebuild", "check":
		return p.definition(st, cat)
	}
	return planSession(st, cat)
}

func (p *Planner) parse(st *statement, cat *catalog.Catalog, spans ...[2]uint32) (ast.StmtNode, *Error) {
	text := st.blanked(spans...)
	if len(text) > maxParsed && len(text)-strings.Count(text, " ") > maxParsed {
		return nil, notSupported("a statement of more than 16 MiB, long strings and rows of literals not counted, is not supported: send it in parts")
	}
	n, err := p.parsers.parse(text, st.settings, cat.MariaDB)
	if err != nil {
		return nil, refuseParse(err)
	}
	return n, nil
}

func (p *Planner) query(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	n, err := p.parse(st, cat)
	if err != nil {
		return planUnread(st, cat, err)
	}
	a := &analysis{st: st, cat: cat}
	switch n := n.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt:
		return result(p.planQuery(st, cat, n))
	case *ast.UpdateStmt: // WITH ... UPDATE
		return result(a.planUpdate(n))
	case *ast.DeleteStmt:
		return result(a.planDelete(n))
	case *ast.DoStmt:
		s := &scope{}
		for _, e := range n.Exprs {
			a.expressions(s, e)
		}
		q := a.routeOf(nil, "DO")
		if a.err != nil {
			return nil, a.err
		}
		kind := Select
		if hasLock(st) {
			kind = Locking
		}
		return a.rows(kind, &selectAction{q: q, sql: st.src, kind: kind}), nil
	}
	return nil, notSupported("this statement is not supported yet: send it to one shard with /* shunt: shard=NAME */")
}

// result keeps a nil *Rows from becoming a Plan that is not nil.
func result(r *Rows, err *Error) (Plan, *Error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (p *Planner) insert(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	spans, err := st.cutReturning()
	if err != nil {
		return nil, err
	}
	alias, span, err := st.rowAlias()
	if err != nil {
		return nil, err
	}
	if alias != nil {
		spans = append(spans, span)
	}
	n, err := p.parse(st, cat, spans...)
	if err != nil {
		return nil, err
	}
	ins, ok := n.(*ast.InsertStmt)
	if !ok {
		return nil, refuseInsertForm()
	}
	a := &analysis{st: st, cat: cat}
	rows, err := a.planInsert(ins, alias)
	if err == nil && st.returning {
		rows, err = returningRows(rows)
	}
	return result(rows, err)
}

// rowAlias finds `AS new [(a, b)]` before ON DUPLICATE KEY UPDATE, which the
// parser doesn't know: it is set aside and the names resolved by Shunt.
func (st *statement) rowAlias() (*rowAlias, [2]uint32, *Error) {
	var span [2]uint32
	depth, on := 0, -1
	for i := range st.toks {
		switch {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			depth--
		case depth == 0 && st.is(i, "on") && st.is(i+1, "duplicate") && st.is(i+2, "key"):
			on = i
		}
	}
	if on < 0 {
		on = len(st.toks)
	}
	i := on - 1
	var columns []string
	if st.op(i, ")") {
		for i--; i >= 0 && !st.op(i, "("); i-- {
			if name, ok := st.identifier(i); ok {
				columns = append([]string{name}, columns...)
			} else if !st.op(i, ",") {
				return nil, span, nil
			}
		}
		i--
	}
	name, ok := st.identifier(i)
	if !ok || !st.is(i-1, "as") {
		return nil, span, nil
	}
	if st.rowsAt >= 0 && i-1 != st.rowsAt || st.rowsAt < 0 && !st.has("set") {
		return nil, span, nil
	}
	if st.has("select") {
		return nil, span, nil
	}
	end := st.toks[on-1].end
	if on < len(st.toks) {
		end = st.toks[on].start
	}
	return &rowAlias{name: name, columns: columns}, [2]uint32{st.toks[i-1].start, end}, nil
}

func (p *Planner) write(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	var spans [][2]uint32
	if st.is(0, "delete") {
		var err *Error
		if spans, err = st.cutReturning(); err != nil {
			return nil, err
		}
	}
	n, err := p.parse(st, cat, spans...)
	if err != nil {
		return nil, err
	}
	a := &analysis{st: st, cat: cat}
	switch n := n.(type) {
	case *ast.UpdateStmt:
		return result(a.planUpdate(n))
	case *ast.DeleteStmt:
		rows, err := a.planDelete(n)
		if err == nil && st.returning {
			rows, err = returningRows(rows)
		}
		return result(rows, err)
	}
	return nil, notSupported("this statement is not supported yet: send it to one shard with /* shunt: shard=NAME */")
}

// fixedAction sends the text to shards that were known from the start.
type fixedAction struct {
	sql    string
	shards catalog.ShardSet
	access string
	reason string
	// any are the shards of which any one would answer as well, if not empty.
	any catalog.ShardSet
	// unknown are the indexes that the statement may change in a way that
	// Shunt doesn't follow.
	unknown []*catalog.Index
}

func (f *fixedAction) bind(b *binder) (*Bound, error) {
	out := b.sendTo(f.shards, f.sql)
	out.Access, out.Reason, out.Alternatives = f.access, f.reason, f.any
	e := newEffects(b)
	for _, ix := range f.unknown {
		for id := range f.shards.All {
			e.mark(ix, id, nil, "UNKNOWN")
		}
	}
	e.into(out)
	return out, nil
}

func fixed(st *statement, cat *catalog.Catalog, kind Kind, tables []*catalog.Table, act *fixedAction) *Rows {
	act.sql = st.src
	return &Rows{Catalog: cat, Kind: kind, Params: len(st.params), Tables: tables, action: act, settings: st.settings}
}

// planUnread plans a query that the parser refuses: valid MySQL that it doesn't
// know (JSON_TABLE, SOUNDS LIKE, spatial functions) or a syntax error. A query
// reads a table only by naming it. So where no name in the text is that of a
// sharded table, one shard can answer, and says too what is wrong with it.
func planUnread(st *statement, cat *catalog.Catalog, refusal *Error) (Plan, *Error) {
	if err := st.refusedLexically(); err != nil {
		return nil, err
	}
	if st.has("into") {
		return nil, notSupported("SELECT ... INTO is not supported, but for user variables in a statement that is sent as text: read the rows and write them from the client")
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
		if st.op(i+1, "(") {
			if e := refusedFunction(st.word(i)); e != nil {
				return e
			}
		}
	}
	return nil
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
	for _, s := range sortedSchemas(cat) {
		for _, t := range sortedTables(s) {
			if names[strings.ToLower(t.Name)] {
				out = append(out, t)
			}
		}
	}
	return out
}

// identifier is token i as a name, quoted or not.
func (st *statement) identifier(i int) (string, bool) {
	if i < 0 || i >= len(st.toks) {
		return "", false
	}
	text := st.text(i)
	switch st.toks[i].kind {
	case tokWord, tokIntro:
		return text, true
	case tokQuoted:
		q := text[:1]
		return strings.ReplaceAll(text[1:len(text)-1], q+q, q), true
	default:
		return "", false
	}
}

// tableAt reads [schema.]table at token i.
func (st *statement) tableAt(i int) (name TableName, next int, err *Error) {
	first, ok := st.identifier(i)
	if !ok {
		return name, i, st.near(i)
	}
	if st.op(i+1, ".") {
		second, ok := st.identifier(i + 2)
		if !ok {
			return name, i, st.near(i + 2)
		}
		return TableName{first, second}, i + 3, nil
	}
	if st.settings.Schema == "" {
		return name, i, &Error{Code: codeNoDatabase, State: stateNoDatabase, Message: "No database selected"}
	}
	return TableName{st.settings.Schema, first}, i + 1, nil
}

// near is a syntax error at token i.
func (st *statement) near(i int) *Error {
	if i >= len(st.toks) {
		return syntaxError("You have an error in your SQL syntax: the statement ends too early")
	}
	rest := st.src[st.toks[i].start:]
	if r := []rune(rest); len(r) > 60 {
		rest = string(r[:60]) + "..."
	}
	return syntaxError("You have an error in your SQL syntax near '%s'", rest)
}
