package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// subqueriesBeside refuses subqueries in values of rows, and in ON DUPLICATE KEY UPDATE,
// whose tables are not all where the rows go.
//
// Rule all rows: a shard answers them with those that it has. Counter-example: INSERT INTO
// settings VALUES ('users', (SELECT COUNT(*) FROM users)), with settings on s0: the users
// of s0 are counted.
func (a *analysis) subqueriesBeside(refs []*ref, t *catalog.Table) *Error {
	for _, r := range refs {
		switch {
		case r.table == nil || len(a.cat.Shards) == 1:
		case r.table.IsView, r.sharded() && r.table.Shards.Len() > 1:
			return notSupported("INSERT with a subquery over the sharded table or view %s is only supported in a value that names no column, of another table, without the time, and in one row where triggers or foreign keys may change others: write INSERT ... SELECT, or read the value first", r.table.Name)
		case !r.table.Shards.Contains(t.Shards):
			return notSupported("INSERT with a subquery over %s, which is not on every shard of %s, is only supported in a value that names no column, and without the time: read the value first", r.table.Name, t.Name)
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
func (a *analysis) subqueryValues(n *ast.InsertStmt, target *ref, cols []*catalog.Column) (asked *Constants, why *Error) {
	t, found, own := target.table, 0, false
	for _, l := range n.Lists {
		for j, e := range l {
			before := len(a.refs)
			if !a.subqueriesIn(target.scope, e) {
				continue
			}
			found++
			read := a.refs[before:]
			own = own || slices.ContainsFunc(read, func(r *ref) bool { return r.table == t })
			if err := a.subqueriesBeside(read, t); err != nil {
				why = err
			} else if j < len(cols) && placing(t, cols[j]) {
				why = notSupported("a subquery for %s, by which the row is placed, is not supported in this form of INSERT: read the value first", cols[j].Name)
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
	if own && !a.cat.MariaDB || len(a.st.rows) > 1 && (own || changesOthers(t, n)) {
		return nil, why // MySQL refuses most that read the table itself (1093)
	}
	if asked = a.st.subqueriesOfRows(n, cols); asked != nil && asked.n != found {
		asked = nil
	}
	return asked, why
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
	return spreads(t) && (c == t.ShardKey || c == counts(t))
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
func (st *statement) subqueriesOfRows(n *ast.InsertStmt, cols []*catalog.Column) *Constants {
	if st.hasExecutable() || st.setVar {
		return nil
	}
	c := &Constants{st: st, targets: []*catalog.Column{}}
	row := func(fields [][]token) (ok bool) {
		for j, f := range fields {
			switch {
			case !slices.ContainsFunc(f, func(t token) bool { return strings.EqualFold(st.src[t.start:t.end], "select") }):
				continue
			case j >= len(cols), !st.readsAlone(f), c.n == maxConstants:
				return false
			}
			x := constantPlace{start: f[0].start, end: f[len(f)-1].end}
			x.from, x.to = x.start, x.end
			if query := st.unwrapped(f); query != nil {
				x.from, x.to, x.whole = query[0].start, query[len(query)-1].end, true
			}
			c.targets = append(c.targets, cols[j])
			c.add(x)
		}
		return true
	}
	if n.Setlist {
		var fields [][]token
		for _, f := range st.setFields() {
			fields = append(fields, st.between(f[0], f[1]))
		}
		if len(st.rows) > 0 || len(fields) != len(cols) || !row(fields) {
			return nil
		}
		return c
	}
	for _, r := range st.rows {
		if !r.simple && !row(st.rowColumns(r)) {
			return nil
		}
	}
	return c
}

// unwrapped is the query in the parentheses that are all of an expression, nil for another one.
func (st *statement) unwrapped(toks []token) []token {
	text := func(i int) string { return strings.ToLower(st.src[toks[i].start:toks[i].end]) }
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
func (st *statement) readsAlone(toks []token) bool {
	for n, t := range toks {
		w := strings.ToLower(st.src[t.start:t.end])
		called := n+1 < len(toks) && st.src[toks[n+1].start:toks[n+1].end] == "("
		switch {
		case t.kind == tokOp && w == ":=", t.kind == tokVar && strings.HasPrefix(w, "@@"):
			return false
		case t.kind == tokWord && (clockFunction(w) || called && neverAsked[w] && w != "select"):
			return false
		}
	}
	return true
}
