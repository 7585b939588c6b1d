package planner

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// cte is a common table expression: refs[from:to] are its query's.
type cte struct {
	from, to int
	// read: by what the statement answers. reads are those that it reads itself.
	read  bool
	reads []*cte
}

// with reads common table expressions. Inside of its own text a name means the
// CTE only under RECURSIVE:
//
//	WITH users AS (SELECT * FROM users WHERE ..) SELECT * FROM users
//
// reads the table users, and to take the inner one for the CTE would lose it. To
// MariaDB RECURSIVE has a name mean the CTE in those before it too.
func (a *analysis) with(w *ast.WithClause, s *scope) {
	if w == nil {
		return
	}
	a.subqueries = true
	if a.deriveCTEs(w, s) {
		return
	}
	if s.ctes == nil {
		s.ctes, s.bodies = map[string]bool{}, map[string]*cte{}
	}
	bodies := map[*ast.CommonTableExpression]*cte{}
	define := func(c *ast.CommonTableExpression) {
		s.ctes[a.cteName(c.Name.O)], s.bodies[a.cteName(c.Name.O)] = true, bodies[c]
	}
	for _, c := range w.CTEs {
		bodies[c] = &cte{}
		if w.IsRecursive && a.cat.MariaDB {
			define(c)
		}
	}
	for _, c := range w.CTEs {
		body := bodies[c]
		body.from = len(a.refs)
		if w.IsRecursive {
			define(c)
		}
		inner := &scope{parent: s.parent, ctes: s.ctes, bodies: s.bodies}
		around := a.within
		a.within = body
		a.query(c.Query, inner, false)
		a.within = around
		body.to = len(a.refs)
		a.ctes = append(a.ctes, body)
		define(c)
	}
}

// reading notes that a CTE is named where the analysis is; nil is none of its.
func (a *analysis) reading(c *cte) {
	switch {
	case c == nil:
	case a.within != nil:
		a.within.reads = append(a.within.reads, c)
	default:
		c.answers()
	}
}

// answers notes that the statement's answer needs a CTE, and those that it reads.
func (c *cte) answers() {
	if c.read {
		return
	}
	c.read = true
	for _, x := range c.reads {
		x.answers()
	}
}

// idle are the references of CTEs that nothing reads: no server evaluates these.
func (a *analysis) idle() map[*ref]bool {
	idle := map[*ref]bool{}
	for _, c := range a.ctes {
		if c.read {
			continue
		}
		for _, r := range a.refs[c.from:c.to] {
			idle[r] = true
		}
	}
	return idle
}

// cteName: names of CTEs compare as those of tables do.
func (a *analysis) cteName(name string) string {
	if a.cat.LowerCaseNames {
		return strings.ToLower(name)
	}
	return name
}
