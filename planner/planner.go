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

// Spend drops what only Bind needs, of an INSERT seven times its text: a statement may wait
// at its shards for long. It can't be bound again. REQUIRES: nobody else has the plan.
func (r *Rows) Spend() { r.action = spentAction{ignore: r.Ignores()} }

type spentAction struct{ ignore bool }

func (spentAction) bind(*binder) (*Bound, error) {
	return nil, notSupported("this statement was bound once more than was foreseen, which is a bug: please report it")
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
	switch st.verb(0) {
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
		if cat.MariaDB && st.is(1, "history") && st.is(2, "from") { // of a system-versioned table
			return nil, notSupported("DELETE HISTORY is not supported yet: run it on each shard, or send it to one with /* shunt: shard=NAME */")
		}
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
		plan, err := p.planQuery(st, cat, n)
		if err == nil && len(plan.Assigns) > 0 {
			plan.action = &assigningAction{plan.action, plan.Assigns[0]}
		}
		return result(plan, err)
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
	return a.planWrite(n) // WITH ... UPDATE
}

// result keeps a nil *Rows from becoming a Plan that is not nil.
func result(r *Rows, err *Error) (Plan, *Error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (p *Planner) insert(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if err := st.refusedDelay(0); err != nil {
		return nil, err
	}
	spans, err := st.cutReturning()
	if err != nil {
		return nil, err
	}
	alias, span := st.rowAlias()
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
	return a.planWrite(n)
}

// planWrite plans UPDATE and DELETE.
func (a *analysis) planWrite(n ast.StmtNode) (Plan, *Error) {
	switch n := n.(type) {
	case *ast.UpdateStmt:
		return result(a.planUpdate(n))
	case *ast.DeleteStmt:
		rows, err := a.planDelete(n)
		if err == nil && a.st.returning {
			rows, err = returningRows(rows)
		}
		return result(rows, err)
	}
	return nil, notSupported("this statement is not supported yet: send it to one shard with /* shunt: shard=NAME */")
}

func (a *analysis) rows(kind Kind, act action) *Rows {
	return &Rows{
		Catalog: a.cat, Kind: kind, Params: len(a.st.params), Tables: a.tables,
		action: act, settings: a.st.settings,
	}
}

func refuseExecutable() *Error {
	return notSupported("an executable comment (/*!NNNNN ... */) that some server versions run and others skip is not supported here: write the text out, or send it to one shard with /* shunt: shard=NAME */")
}

// action makes a Bound of a plan.
type action interface {
	bind(b *binder) (*Bound, error)
}
