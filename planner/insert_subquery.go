package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// subqueriesBeside refuses subqueries in values of rows, and in ON DUPLICATE KEY UPDATE,
// whose tables are not all where the rows go.
//
// Rule all rows: a shard answers them with those that it has. Counter-example: INSERT INTO
// settings VALUES ('users', (SELECT COUNT(*) FROM users)), with settings on s0: the users
// of s0 are counted.
func (a *analysis) subqueriesBeside(refs []*ref, t *catalog.Table) *text.Error {
	for _, r := range refs {
		switch {
		case r.table == nil || len(a.cat.Shards) == 1:
		case r.table.IsView, r.sharded() && r.table.Shards.Len() > 1:
			return text.NotSupported("INSERT with a subquery over the sharded table or view %s is only supported in a value that names no column, without the time, and in one row where it reads the table itself, or triggers or foreign keys may change others: write INSERT ... SELECT, or read the value first", r.table.Name)
		case !r.table.Shards.Contains(t.Shards):
			return text.NotSupported("INSERT with a subquery over %s, which is not on every shard of %s, is only supported in a value that names no column, and without the time: read the value first", r.table.Name, t.Name)
		}
	}
	return nil
}

// subqueryValues looks at the values of rows, and at ON DUPLICATE KEY UPDATE. Values with
// subqueries that the shards where the rows go can't answer, or that say where these are,
// are to be asked for by statements of their own; why is then what the statement as it is
// would be refused with.
//
//	INSERT INTO orders (user_id, n) VALUES ((SELECT id FROM users WHERE email = 'x'), (SELECT COUNT(*) FROM users) + 1)
//	SELECT id FROM users WHERE email = 'x'
//	SELECT (SELECT COUNT(*) FROM users) + 1
//	INSERT INTO orders (user_id, n) VALUES (7, 101)
//
// They are read without locks, as the rows of an INSERT ... SELECT that are copied.
func (a *analysis) subqueryValues(n *ast.InsertStmt, target *ref, cols []*catalog.Column) (asked *plan.Constants, why *text.Error) {
	t, found, own, plain := target.table, 0, false, false
	for _, l := range n.Lists {
		for j, e := range l {
			before := len(a.refs)
			if !a.subqueriesIn(target.scope, e) {
				continue
			}
			found++
			read := a.refs[before:]
			own = own || slices.ContainsFunc(read, func(r *ref) bool { return r.table == t })
			plain = plain || a.namesItself(e, t)
			if err := a.subqueriesBeside(read, t); err != nil {
				why = err
			} else if j < len(cols) && placing(t, cols[j]) {
				why = text.NotSupported("a subquery for %s, by which the row is placed, is not supported in this form of INSERT: read the value first", cols[j].Name)
			}
		}
	}
	before := len(a.refs)
	for _, x := range n.OnDuplicate {
		a.expressions(target.scope, x.Expr)
	}
	if a.err != nil {
		return nil, a.err
	}
	if err := a.subqueriesBeside(a.refs[before:], t); err != nil || why == nil {
		return nil, err
	}
	if plain && !a.cat.MariaDB {
		return nil, text.NewError(mysqlerr.UpdateTableUsed, "You can't specify target table '"+t.Name+"' for update in FROM clause")
	}
	// Rule one row: a row's subqueries see the rows before it.
	if len(a.st.Rows) > 1 && (own || changesOthers(t, n)) {
		return nil, why
	}
	if asked = subqueriesOfRows(a.st, n, t, cols); asked != nil && asked.Len() != found {
		asked = nil
	}
	return asked, why
}

// namesItself reports a subquery that reads the INSERT's table by its own name and not through a
// derived table, which MySQL doesn't do: VALUES ((SELECT MAX(id) FROM users)) is an error, FROM users u
// is none.
func (a *analysis) namesItself(e ast.ExprNode, t *catalog.Table) (found bool) {
	walk(e, func(n ast.Node) bool {
		x, ok := n.(*ast.TableSource)
		if !ok {
			_, with := n.(*ast.WithClause)
			return !with
		}
		name, ok := x.Source.(*ast.TableName)
		if ok && (x.AsName.L == "" || x.AsName.L == name.Name.L) {
			named := name.Schema.O
			if named == "" {
				named = a.st.Settings.Schema
			}
			found = found || a.cat.Table(named, name.Name.O) == t
		}
		return false
	})
	return found
}

// changesOthers reports an INSERT or REPLACE by whose first row what a second one's subquery
// reads may change.
//
// Counter-example: VALUES (1, (SELECT COUNT(*) FROM log)), (2, (SELECT COUNT(*) FROM log)),
// with a trigger that writes to log.
func changesOthers(t *catalog.Table, n *ast.InsertStmt) bool {
	return len(t.Triggers) > 0 || len(t.Cascades) > 0 && (n.IsReplace || len(n.OnDuplicate) > 0)
}

// placing reports a column whose value says where a row goes.
func placing(t *catalog.Table, c *catalog.Column) bool {
	return spreads(t) && (c == t.ShardKey || c == spoken.CountedColumn(t))
}

// subqueriesIn is expressions, and reports subqueries.
func (a *analysis) subqueriesIn(s *scope, e ast.ExprNode) bool {
	before := a.subqueries
	a.subqueries = false
	a.expressions(s, e)
	found := a.subqueries
	a.subqueries = found || before
	return found
}

// subqueriesOfRows finds the values with subqueries in the text; nil where these can't be
// asked for.
func subqueriesOfRows(st *text.Statement, n *ast.InsertStmt, t *catalog.Table, cols []*catalog.Column) *plan.Constants {
	if st.HasExecutable() || st.SetVar {
		return nil
	}
	c := &plan.Constants{Statement: st, OneByOne: true, Table: t, Ignore: n.IgnoreErr}
	row := func(fields [][]text.Token) (ok bool) {
		for j, f := range fields {
			switch {
			case !spoken.SequenceCall(st, f) && !slices.ContainsFunc(f, func(t text.Token) bool { return strings.EqualFold(st.Src[t.Start:t.End], "select") }):
				continue
			case j >= len(cols), !readsAlone(st, f), c.Len() == maxConstants:
				return false
			}
			x := plan.ConstantPlace{Start: f[0].Start, End: f[len(f)-1].End}
			x.From, x.To = x.Start, x.End
			if query := unwrapped(st, f); query != nil {
				x.From, x.To, x.Whole = query[0].Start, query[len(query)-1].End, true
			}
			c.Add(x, cols[j])
		}
		return true
	}
	if n.Setlist {
		var fields [][]text.Token
		for _, f := range setFields(st) {
			fields = append(fields, st.Between(f[0], f[1]))
		}
		if len(st.Rows) > 0 || len(fields) != len(cols) || !row(fields) {
			return nil
		}
		return c
	}
	for _, r := range st.Rows {
		if !r.Simple && !row(st.RowColumns(r)) {
			return nil
		}
	}
	return c
}

// unwrapped is the query in the parentheses that are all of an expression, nil for another one.
func unwrapped(st *text.Statement, toks []text.Token) []text.Token {
	text := func(i int) string { return strings.ToLower(st.Src[toks[i].Start:toks[i].End]) }
	for len(toks) > 2 && text(0) == "(" && text(len(toks)-1) == ")" {
		if w := text(1); w == "select" || w == "with" {
			break
		}
		toks = toks[1 : len(toks)-1]
	}
	depth := 0
	for i := range toks {
		switch text(i) {
		case "(":
			depth++
		case ")":
			depth--
		}
		if last := i == len(toks)-1; (depth == 0) != last {
			return nil
		}
	}
	if len(toks) < 3 {
		return nil
	}
	return toks[1 : len(toks)-1]
}

// readsAlone reports a query that as a statement of its own answers what it does inside of
// another one: see constant for the rules.
func readsAlone(st *text.Statement, toks []text.Token) bool {
	for n, t := range toks {
		w := strings.ToLower(st.Src[t.Start:t.End])
		called := n+1 < len(toks) && st.Src[toks[n+1].Start:toks[n+1].End] == "("
		switch {
		case t.Kind == text.Operator && w == ":=", t.Kind == text.Variable && strings.HasPrefix(w, "@@"):
			return false
		case t.Kind == text.Word && called && w == "unix_timestamp" && n+2 < len(toks) && st.Src[toks[n+2].Start:toks[n+2].End] != ")":
			// of a value, and not of now
		case t.Kind == text.Word && (spoken.ClockFunction(w) || called && spoken.NeverAsked(w) && w != "select"):
			return false
		}
	}
	return true
}
