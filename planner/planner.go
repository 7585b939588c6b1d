package planner

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// Planner turns statements into plans. It holds nothing but a pool of parsers and
// plans by shape; one serves all sessions.
type Planner struct {
	parsers parserPool
	cache   planCache
	own     spoken.OwnForms
}

// New returns a Planner that plans the statements of the forms given (see OwnForms) as Admin, beside
// those that it reads without one: ShowProcesslist and so on, which may be given too.
func New(own ...string) *Planner {
	return &Planner{own: spoken.NewOwnForms(own)}
}

// Plan reads one statement (no `;` between statements: see Split) and says
// what it will do. The error is an *Error to give to the client: a refusal
// (1235), a statement too large, an unknown table (1146) or schema (1049), or
// what is wrong with its syntax (1064).
func (p *Planner) Plan(sql string, s text.Settings, cat *catalog.Catalog) (plan.Plan, error) {
	return p.planText(spoken.Read(sql, s, cat), "")
}

// PlanText is Plan of a text that was read, under its settings and catalog.
func (p *Planner) PlanText(t *spoken.Text) (plan.Plan, error) { return p.planText(t, "") }

// planText is PlanText; kinds are those of the literals that the parameters stand for, ""
// where they are not known.
func (p *Planner) planText(t *spoken.Text, kinds string) (plan.Plan, error) {
	sql, cat := t.SQL, t.Catalog
	st, err := t.Statement()
	if err != nil {
		return nil, err
	}
	st.Kinds = kinds
	if own := spoken.NamesOwn(st); own != "" {
		return nil, spoken.OwnSchema(own)
	}
	var planned plan.Plan
	if st.Hinted {
		planned, err = spoken.Hinted(st, cat, p.own)
	} else if spoken.DefinesBody(st) { // what it calls is refused when it runs
		planned, err = p.dispatch(st, cat)
	} else if f := spoken.UnfitFunction(st, cat); f != nil && f.Writes {
		planned, err = spoken.Writing(st, cat, f)
	} else if f != nil {
		names, ok := spoken.Assigned(st, cat)
		if verb := st.Verb(0); !ok || verb != "select" && verb != "with" {
			return nil, f.Refuse()
		}
		if planned, err = p.dispatch(st, cat); err == nil {
			err = assign(planned, st, names, f.Refuse())
		}
	} else {
		planned, err = p.dispatch(st, cat)
		if err != nil && err.View {
			if rows := spoken.WriteAtHome(st, cat); rows != nil {
				planned, err = rows, nil
			}
		}
	}
	if err != nil {
		return nil, err
	}
	rows, ok := planned.(*plan.Rows)
	if ok {
		bindFixed(rows, st)
	}
	if err := reachesSystem(st, planned); err != nil {
		return nil, err
	}
	if ok {
		rows.AsksNoID, rows.AsksConnection = !spoken.NamesInsertID(sql), spoken.AsksConnection(sql)
	}
	if t := spoken.LeavingTrigger(rows, st); ok && t != nil {
		return nil, text.NotSupported("a trigger of %s sets variables of the session (@x, @@x) or keeps locks or temporary tables, which would be those of a pooled connection: declare variables in it, or send the statement to one shard with /* shunt: shard=NAME */", t.Name)
	}
	v, f, assigned := spoken.CallingView(rows, st, cat)
	if len(assigned) > 0 {
		err = assign(rows, st, assigned, text.NotSupported("a view that calls a stored function which sets variables of the session (@x), over several shards, is not supported: each would set its own"))
	}
	if err != nil {
		return nil, err
	}
	if v != nil {
		return nil, text.NotSupported("the view %s calls the stored function %s(), which %s: write its query into the statement, without it, or send the statement to one shard with /* shunt: shard=NAME */", v.Name, f.Name, f.Does)
	}
	if d, ok := planned.(*plan.DDL); ok {
		d.References = strings.HasSuffix(d.Op, "TABLE") && st.Has("references")
		d.TruncatesPartitions = d.Op == "ALTER TABLE" && st.Has("truncate")
		d.Parents = spoken.Parents(st)
		if err := spoken.StrayTables(cat, d); err != nil {
			return nil, err
		}
		p.violations(st, d, cat)
	}
	if err := spoken.RefuseStrayTrigger(rows, st, cat); err != nil {
		return nil, err
	}
	if !ok && len(st.Params) > 0 {
		return nil, text.NotSupported("parameters (?) in this statement are not supported: write the values out")
	}
	if ok {
		bindableOf(rows).found = spoken.FoundRows(st)
		if rows.Kind == plan.Show {
			rows.Shown = spoken.ShownValues(st)
		}
		rows.Plain = plainSelect(rows)
		rows.Repeatable = rows.Plain && rows.AsksNoID && !rows.AsksConnection && spoken.Repeatable(st, rows)
	}
	return planned, nil
}

// assign has a query assign user variables, unless it is one of several shards.
func assign(planned plan.Plan, st *text.Statement, names []string, refused *text.Error) *text.Error {
	rows, ok := planned.(*plan.Rows)
	if !ok || rows.Kind != plan.Select {
		return refused
	}
	rows.Assigns = append(rows.Assigns, names...)
	bindFixed(rows, st)
	if action := bindableOf(rows).action; action != nil {
		if _, fixed := action.(*fixedAction); !fixed {
			bindableOf(rows).action = &assigningAction{action, refused}
		}
	}
	return nil
}

func plainSelect(r *plan.Rows) bool {
	return r.Kind == plan.Select && r.Copy == nil && r.Keyed == nil && r.Computes == "" && r.Constants == nil && r.Meets == nil && !r.Returning &&
		r.Shown == nil && r.Creates == nil && !r.Calls && !r.Ends && !r.Redefines && r.Sets == nil && r.Assigns == nil && r.Lock == nil
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
func (p *Planner) Bind(r *plan.Rows, params []keys.Value, ix plan.Indexes) (*plan.Bound, error) {
	if len(params) != r.Params {
		return nil, text.NewError(mysqlerr.WrongArguments, "Incorrect arguments to EXECUTE")
	}
	return bindRows(r, newBinder(r, params, ix))
}

// BindIn is Bind without a Reason, in memory that is used again: the Bound is good
// until bd's next one.
func (p *Planner) BindIn(bd *Binding, r *plan.Rows, params []keys.Value, ix plan.Indexes) (*plan.Bound, error) {
	if len(params) != r.Params {
		return p.Bind(r, params, ix)
	}
	return bindRows(r, bd.begin(r, params, ix))
}

// Spend drops what only Bind needs, of an INSERT seven times its text: a statement may wait
// at its shards for long. It can't be bound again. REQUIRES: nobody else has the plan.
func Spend(r *plan.Rows) {
	r.Own = &bindable{action: spentAction{ignore: Ignores(r)}, settings: bindableOf(r).settings}
}

type spentAction struct{ ignore bool }

func (spentAction) bind(*binder) (*plan.Bound, error) {
	return nil, text.NotSupported("this statement was bound once more than was foreseen, which is a bug: please report it")
}

func bindRows(r *plan.Rows, b *binder) (*plan.Bound, error) {
	out, err := bindAction(bindableOf(r).action, b)
	if err == nil {
		out.Found = bindFound(bindableOf(r).found, b)
		if b.brief {
			out.Reason = ""
		}
	}
	return out, err
}

func bindAction(act action, b *binder) (out *plan.Bound, err error) {
	if _, ok := b.ix.(*remote); !ok {
		return act.bind(b)
	}
	b.atOnce(func() { out, err = act.bind(b) })
	return out, err
}

// dispatch goes by the statement's first words.
func (p *Planner) dispatch(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	if st.Doubtful {
		return nil, spoken.RefuseExecutable()
	}
	if len(st.Tokens) == 0 {
		return &plan.Session{Op: plan.NoOp}, nil
	}
	switch st.Verb(0) {
	case "select", "with", "table", "values":
		if told := spoken.SessionTold(st); told != nil {
			return told, nil
		}
		if plan, err := spoken.NamedLock(st, cat); plan != nil || err != nil {
			return plan, err
		}
		if plan := spoken.ReadAtHome(st, cat); plan != nil {
			return plan, nil
		}
		return p.query(st, cat)
	case "do":
		if plan, err := spoken.NamedLock(st, cat); plan != nil || err != nil {
			return plan, err
		}
		if plan := spoken.ReadAtHome(st, cat); plan != nil {
			return plan, nil
		}
		return p.query(st, cat)
	case "insert", "replace":
		return p.insert(st, cat)
	case "update", "delete":
		if cat.MariaDB && st.Is(1, "history") && st.Is(2, "from") { // of a system-versioned table
			return nil, text.NotSupported("DELETE HISTORY is not supported yet: run it on each shard, or send it to one with /* shunt: shard=NAME */")
		}
		return p.write(st, cat)
	case "load":
		return spoken.Load(st, cat)
	case "explain", "describe", "desc":
		return p.explain(st, cat)
	case "show":
		return spoken.Show(st, cat, p.own)
	case "analyze":
		if !st.Is(1, "table") && !st.Is(1, "tables") && !st.Is(1, "local") && !st.Is(1, "no_write_to_binlog") {
			return p.explain(st, cat) // MariaDB's EXPLAIN ANALYZE
		}
	case "flush", "consolidate":
		if plan, ok, err := p.own.Plan(st); ok || err != nil {
			return plan, err
		}
	case "create", "drop", "alter", "rename", "truncate", "rebuild", "check":
		return spoken.Definition(st, cat, p.own, trees{p})
	}
	return spoken.Session(st, cat)
}

func (p *Planner) parse(st *text.Statement, cat *catalog.Catalog, spans ...[2]uint32) (ast.StmtNode, *text.Error) {
	sql := st.Blanked(spans...)
	if len(sql) > text.MaxParsed && len(sql)-strings.Count(sql, " ") > text.MaxParsed {
		return nil, text.NotSupported("a statement of more than 16 MiB, long strings and rows of literals not counted, is not supported: send it in parts")
	}
	n, err := p.parsers.parse(sql, st.Settings, cat.MariaDB)
	if err != nil {
		return nil, refuseParse(err)
	}
	return n, nil
}

func (p *Planner) query(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	n, err := p.parse(st, cat)
	if err != nil {
		return spoken.Unread(st, cat, err)
	}
	a := &analysis{st: st, cat: cat}
	switch n := n.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt:
		plan, err := p.planQuery(st, cat, n)
		if err == nil && len(plan.Assigns) > 0 {
			bindableOf(plan).action = &assigningAction{bindableOf(plan).action, refuseAssigned(plan.Assigns[0])}
		}
		return result(plan, err)
	case *ast.DoStmt:
		s := &scope{}
		for _, e := range n.Exprs {
			a.expressions(s, e)
		}
		q := a.routeOf(nil, "DO")
		if err := a.refusal(); err != nil {
			return nil, err
		}
		kind := plan.Select
		if spoken.HasLock(st) || len(a.sequences) > 0 {
			kind = plan.Locking
		}
		rows := a.rows(kind, &selectAction{q: q, sql: st.Src, kind: kind})
		if len(st.Params) == 0 {
			rows.Computes = "SELECT" + st.Src[st.Tokens[0].End:]
		}
		return rows, nil
	}
	return a.planWrite(n) // WITH ... UPDATE
}

// result keeps a nil *Rows from becoming a Plan that is not nil.
func result(r *plan.Rows, err *text.Error) (plan.Plan, *text.Error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (p *Planner) insert(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	if err := spoken.RefusedDelay(st, 0); err != nil {
		return nil, err
	}
	spans, err := cutReturning(st)
	if err != nil {
		return nil, err
	}
	alias, span := findRowAlias(st)
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
	if err == nil && st.Returning {
		rows, err = returningRows(rows)
	}
	return result(rows, err)
}

func (p *Planner) write(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	var spans [][2]uint32
	if st.Is(0, "delete") {
		var err *text.Error
		if spans, err = cutReturning(st); err != nil {
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
func (a *analysis) planWrite(n ast.StmtNode) (plan.Plan, *text.Error) {
	switch n := n.(type) {
	case *ast.UpdateStmt:
		return result(a.planUpdate(n))
	case *ast.DeleteStmt:
		rows, err := a.planDelete(n)
		if err == nil && a.st.Returning {
			rows, err = returningRows(rows)
		}
		return result(rows, err)
	}
	return nil, text.NotSupported("this statement is not supported yet: send it to one shard with /* shunt: shard=NAME */")
}

func (a *analysis) rows(kind plan.Kind, act action) *plan.Rows {
	return newRows(plan.Rows{Catalog: a.cat, Kind: kind, Params: len(a.st.Params), Tables: a.tables, Unnamed: a.unnamed}, act, a.st.Settings)
}
