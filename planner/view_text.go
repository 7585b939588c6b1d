package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// maxExpanded bounds a query's text with the definitions of its views in it.
const maxExpanded = 1 << 20

// maxExpandedViews bounds how many there are.
const maxExpandedViews = 100

// planQuery plans a SELECT. Where it reads views that are no tables to the
// analysis, it is planned as the text in which their queries stand:
//
//	SELECT * FROM v AS x  ──▶  SELECT * FROM (definition) AS x
//
// A shard that answers alone gets the client's own text all the same. A gather
// runs the other.
func (p *Planner) planQuery(st *text.Statement, cat *catalog.Catalog, n ast.StmtNode) (*plan.Rows, *text.Error) {
	a := &analysis{st: st, cat: cat, parsers: &p.parsers}
	plan, err := a.planSelect(n)
	if err != nil || !slices.ContainsFunc(a.refs, (*ref).inexact) {
		return plan, err
	}
	var why *text.Error
	if slices.ContainsFunc(a.refs, (*ref).unread) {
		var x *expanded
		if x, why = p.expandViews(st, cat, (*ref).unread); why == nil {
			plan, why = x.plan(p, cat, plan)
		}
	}
	act, ok := bindableOf(plan).action.(*selectAction)
	if !ok || why != nil {
		if ok {
			act.view = why
		}
		return plan, nil
	}
	// Copies of a view's rows would have the types that are listed for it.
	if x, why := p.expandViews(st, cat, (*ref).inexact); why != nil {
		act.gather, act.view = nil, why
	} else if act.gather != nil {
		act.gather = &gatherer{sql: x.st.Src}
	}
	return plan, nil
}

// unread reports a view that is no table to read.
func (r *ref) unread() bool { return r.table != nil && r.table.IsView }

// inexact reports a view that is none, or one of other types.
func (r *ref) inexact() bool { return r.unread() || r.view != nil && !r.exact }

// expanded is a query in whose text the definitions of views stand.
type expanded struct {
	st    *text.Statement
	views []*catalog.Table
}

// plan plans the expanded text; as is the plan of the client's.
func (x *expanded) plan(p *Planner, cat *catalog.Catalog, as *plan.Rows) (*plan.Rows, *text.Error) {
	n, err := p.parse(x.st, cat)
	if err != nil {
		return as, err
	}
	a := &analysis{st: x.st, cat: cat, parsers: &p.parsers}
	rows, err := a.planSelect(n)
	if err != nil {
		return as, err
	}
	act, ok := bindableOf(rows).action.(*selectAction)
	was, okWas := bindableOf(as).action.(*selectAction)
	if !ok || !okWas {
		return as, refuseView(x.views[0], "reads system tables")
	}
	if act.plain = was.sql; !x.st.Calls("last_insert_id") { // in whose sight it is set
		act.knows = cat.All
	}
	for _, v := range x.views {
		act.knows = act.knows.Intersect(v.Shards)
		if !slices.Contains(rows.Tables, v) {
			rows.Tables = append(rows.Tables, v)
		}
	}
	if as.Kind == plan.Locking {
		// A derived table's rows are not locked, a view's are.
		rows.Kind, act.kind, act.merge, act.gather = plan.Locking, plan.Locking, nil, nil
		act.view = refuseView(x.views[0], "is read with a lock (FOR UPDATE, FOR SHARE)")
	}
	return rows, nil
}

// expandViews puts the definitions of some of a query's views in its text, and
// of the views in those.
func (p *Planner) expandViews(st *text.Statement, cat *catalog.Catalog, which func(*ref) bool) (*expanded, *text.Error) {
	out := &expanded{st: st}
	for range maxViews {
		n, err := p.parse(out.st, cat)
		if err != nil {
			return nil, err
		}
		a := &analysis{st: out.st, cat: cat, parsers: &p.parsers, joined: &joined{nodes: map[*ref]*ast.TableName{}, on: map[*ref][]cond{}}}
		a.query(n, nil, false)
		if a.err != nil {
			return nil, a.err
		}
		if !slices.ContainsFunc(a.refs, which) {
			return out, nil
		}
		sql, err := a.expandOnce(n, out, which)
		if err != nil {
			return nil, err
		}
		if out.st, err = text.Read(sql, st.Settings, cat); err != nil {
			return nil, err
		}
		out.st.Kinds = st.Kinds // definitions have no parameters
	}
	return nil, text.NotSupported("views of views more than %d deep are not supported", maxViews)
}

// expandOnce replaces the views that a text names itself. It uses up the tree.
func (a *analysis) expandOnce(n ast.StmtNode, x *expanded, which func(*ref) bool) (string, *text.Error) {
	s, err := a.splice(n)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	at := uint32(0)
	for _, c := range s.Cuts {
		from, with := c.Start, ""
		if c.Ref >= 0 {
			r := a.refs[c.Ref]
			if !which(r) {
				continue
			}
			if !c.Name {
				return "", refuseView(r.view, "has no indexes to name")
			}
			with, err = a.derivedView(r.view)
			if err != nil {
				return "", err
			}
			if t := a.st.TokenAt(int(c.Start)); c.Alias == "" && a.st.Is(t-1, "table") { // TABLE v
				from = a.st.Tokens[t-1].Start
				with = "SELECT * FROM " + with + " AS " + catalog.QuoteName(r.view.Name)
			}
			with += c.Alias
			x.views = append(x.views, r.view)
		}
		b.WriteString(s.Src[at:from])
		b.WriteString(with)
		at = c.End
		if b.Len() > maxExpanded || len(x.views) > maxExpandedViews {
			return "", refuseView(x.views[len(x.views)-1], "makes the query larger than Shunt reads")
		}
	}
	b.WriteString(s.Src[at:])
	return b.String(), nil
}

// derivedView is a view as a derived table, without an alias.
//
// Rule own names: what the definition calls its columns is what the view does.
// MySQL keeps the names of CREATE VIEW v (a, b) apart from it: a query around it
// gives them. Counter-example: CREATE VIEW v (name, id) AS SELECT id, name FROM
// users.
func (a *analysis) derivedView(v *catalog.Table) (string, *text.Error) {
	def, err := a.definition(v)
	if err != nil {
		return "", err
	}
	n, failed := a.parsers.parse(def, text.Settings{}, a.cat.MariaDB)
	if failed != nil {
		return "", refuseView(v, "has a query that Shunt can't read")
	}
	first, sorted := firstBlock(n)
	if first == nil || first.Fields == nil || len(first.Fields.Fields) != len(v.Columns) {
		return "", refuseView(v, "has a query whose columns Shunt doesn't know")
	}
	if sorted && a.cat.MariaDB {
		// A derived table's order counts only with a limit, a view's always does.
		def += " LIMIT 18446744073709551615"
	}
	same := true
	names := map[string]bool{}
	var list strings.Builder
	for i, f := range first.Fields.Fields {
		if f.AsName.O == "" || names[f.AsName.L] {
			return "", refuseView(v, "has columns that only their places tell apart (give each a name of its own in its query)")
		}
		names[f.AsName.L] = true
		same = same && f.AsName.O == v.Columns[i].Name
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(catalog.QuoteName(f.AsName.O) + " AS " + catalog.QuoteName(v.Columns[i].Name))
	}
	if same {
		return "(" + def + ")", nil
	}
	return "(SELECT " + list.String() + " FROM (" + def + ") AS " + catalog.QuoteName(v.Name) + ")", nil
}

// firstBlock is the SELECT that names a query's columns. sorted: the query as a
// whole has an ORDER BY and no LIMIT.
func firstBlock(n ast.Node) (sel *ast.SelectStmt, sorted bool) {
	switch n := n.(type) {
	case *ast.SelectStmt:
		return n, n.OrderBy != nil && n.Limit == nil
	case *ast.SetOprStmt:
		sorted = n.OrderBy != nil && n.Limit == nil
		var inner ast.Node = n.SelectList
		for {
			switch x := inner.(type) {
			case *ast.SetOprSelectList:
				if len(x.Selects) == 0 {
					return nil, false
				}
				inner = x.Selects[0]
			case *ast.SelectStmt:
				return x, sorted
			default:
				return nil, false
			}
		}
	}
	return nil, false
}

// definition is a view's query, to be read under the session's settings.
//
// Rule own literals: a string in it has the collation that the connection of
// CREATE VIEW had, whatever the reader's is. Counter-example:
//
//	SET NAMES utf8mb4 COLLATE utf8mb4_bin;
//	CREATE VIEW v AS SELECT id, IF(age < 18, 'minor', 'Minor') AS who FROM users;
//	SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
//	SELECT COUNT(DISTINCT who) FROM v;   -- 2
//
// Where they differ an introducer says it, which only a character set's default
// collation has.
func (a *analysis) definition(v *catalog.Table) (string, *text.Error) {
	s := a.st.Settings
	if v.Definition == "" {
		return "", text.NotSupported("the view %s, whose query the shards don't tell or don't agree on, is not supported over several shards: make it again on all of them", v.Name)
	}
	if s.OddParsing {
		return "", refuseView(v, "was made without the SQL mode HIGH_NOT_PRECEDENCE or EMPTY_STRING_IS_NULL that is set here")
	}
	st, err := text.Read(v.Definition, text.Settings{}, a.cat)
	if err != nil {
		return "", refuseView(v, "has a query that Shunt can't read")
	}
	if f := spoken.UnfitFunction(st, a.cat); f != nil {
		return "", refuseView(v, "calls the function "+f.Name+"(), which "+f.Does)
	}
	if name := spoken.NamesTemporary(st, a.cat); name != "" {
		// A view reads the table, which the session's text can't name.
		return "", refuseView(v, "reads "+name+", the name of a temporary table of this session too")
	}
	if !text.IsASCII(v.Definition) && !strings.HasPrefix(s.Charset, "utf8") {
		return "", text.NotSupported("the view %s, whose text is not ASCII, is not supported over several shards for a client with the character set %s: SET NAMES utf8mb4", v.Name, s.Charset)
	}
	if i := slices.IndexFunc(ofSession, st.Calls); i >= 0 {
		return "", refuseView(v, "asks for "+strings.ToUpper(ofSession[i])+"()")
	}
	var b strings.Builder
	at := uint32(0)
	for i, t := range st.Tokens {
		if e := spoken.RefusedCall(st, i); e != nil {
			return "", e
		}
		if t.Kind != text.String {
			continue
		}
		if s.NoBackslashEscapes && strings.Contains(st.Text(i), `\`) {
			return "", refuseView(v, "has a backslash in a string, which means itself in the SQL mode NO_BACKSLASH_ESCAPES")
		}
		switch st.Word(i - 1) {
		case "date", "time", "timestamp", "separator", "escape":
			continue // no text, or none that is compared
		}
		if v.Introducers {
			return "", refuseView(v, "has strings in character sets of their own, which the servers don't tell")
		}
		if i > 0 && st.Tokens[i-1].Kind == text.Introducer {
			continue // it has its own
		}
		if strings.EqualFold(v.DefinitionCollation, s.Collation) {
			continue
		}
		charset, _, _ := strings.Cut(strings.ToLower(v.DefinitionCollation), "_")
		if v.DefinitionCollation == "" || s.OwnCollations || !strings.EqualFold(a.cat.DefaultCollation[charset], v.DefinitionCollation) || charset != "utf8mb4" && !text.IsASCII(st.Text(i)) {
			return "", text.NotSupported("the view %s, whose strings have the collation %s, is not supported over several shards for a connection with %s: SET NAMES %s COLLATE %s",
				v.Name, v.DefinitionCollation, s.Collation, charset, v.DefinitionCollation)
		}
		b.WriteString(v.Definition[at:t.Start] + "_" + charset)
		at = t.Start
	}
	b.WriteString(v.Definition[at:])
	return b.String(), nil
}

func refuseView(v *catalog.Table, what string) *text.Error {
	return text.NotSupported("the view %s, which %s, is not supported over several shards: write its query in its place", v.Name, what)
}
