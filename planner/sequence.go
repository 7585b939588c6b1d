package planner

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// # MariaDB's sequences
//
// A sequence is a table of one row, on one shard whatever its schema's default is: two would give the
// same numbers. What moves it on (NEXT VALUE FOR s, NEXTVAL(s), SETVAL(s, n)) reads that table, as a
// subquery would.
//
//	SELECT NEXT VALUE FOR s                      goes to the shard of s
//	INSERT INTO t VALUES (NEXT VALUE FOR s, 1)   SELECT NEXT VALUE FOR s there, then INSERT with the number
//
// Rule alone: a statement with tables that are elsewhere is refused, since it asks for a number by row.
//
// Rule not the last one: LASTVAL(s) and PREVIOUS VALUE FOR s are of a shard's connection, which changes
// from statement to statement.

// sequence looks at a call that may be of a sequence.
func (a *analysis) sequence(n *ast.FuncCallExpr, s *scope) {
	if !a.cat.MariaDB || len(n.Args) == 0 {
		return
	}
	name, ok := n.Args[0].(*ast.TableNameExpr)
	if !ok {
		return
	}
	if n.FnName.L == ast.LastVal {
		a.refuse(spoken.RefusePrevious())
		return
	}
	a.subqueries = true
	failed := a.err
	side := a.tableRef(name.Name, "", &scope{parent: s})
	t := side.refs[0].table
	switch {
	case t == nil:
		if failed == nil && a.err != nil {
			a.err = spoken.UnknownSequence(a.err, name.Name.Name.O)
		}
		if a.err == nil {
			a.refuse(text.NotSupported("a sequence of the system schema %s is not supported", side.refs[0].schema))
		}
	case !t.Sequence:
		a.refuse(text.NewErrorf(mysqlerr.NotSequence, "'%s.%s' is not a SEQUENCE", t.Schema, t.Name))
	default:
		a.sequences = append(a.sequences, t)
	}
}

// refusal is why a statement is refused, whose rows are not those of VALUES.
func (a *analysis) refusal() *text.Error {
	if a.err != nil {
		return a.err
	}
	for _, q := range a.sequences {
		for _, t := range a.tables {
			if t.Shards != q.Shards {
				return text.NotSupported("NEXT VALUE FOR and SETVAL() of the sequence %s, beside %s that is not on its shard, are not supported: ask for the number by a statement of its own", q.Name, t.Name)
			}
		}
	}
	return nil
}
