package planner

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// Copy is how an INSERT or REPLACE ... SELECT is done whose rows come from other
// shards than they go to: the query is run as a client's would be, and its rows
// are inserted by statements of many rows.
//
//	INSERT IGNORE INTO t (a, b) SELECT x, y FROM u ON DUPLICATE KEY UPDATE b = 1
//	└────────── head ─────────┘└──── query ───────┘└────────── tail ──────────┘
type Copy struct {
	st *statement
	// the query begins and ends at these offsets
	from, to uint32
	// Lenient: INSERT IGNORE, or no strict SQL mode: what the query warns of, an
	// INSERT ... SELECT warns of too. Else it fails.
	Lenient bool
	targets []*catalog.Column // that are inserted, in the query's order
}

// Target is the type of the i-th of the columns that are inserted, without its
// arguments; "" if there is none.
func (c *Copy) Target(i int) string {
	if i >= len(c.targets) {
		return "" // the server says what is wrong
	}
	return baseType(c.targets[i].Type)
}

// Updates reports a tail: ON DUPLICATE KEY UPDATE.
func (c *Copy) Updates() bool { return int(c.to) < len(c.st.src) }

// Text is the statement for the parameters.
func (c *Copy) Text(params []keys.Value) string {
	return c.st.written(0, uint32(len(c.st.src)), params)
}

// Texts are the statement's parts for the parameters: what to put before the
// rows, the query, and what to put after them.
func (c *Copy) Texts(params []keys.Value) (head, query, tail string) {
	part := func(from, to uint32) string { return c.st.written(from, to, params) }
	return part(0, c.from) + " VALUES ", part(c.from, c.to), " " + part(c.to, uint32(len(c.st.src)))
}

// planCopy finds the parts; nil where the text doesn't tell them.
func (a *analysis) planCopy(n *ast.InsertStmt, alias *rowAlias) *Copy {
	st := a.st
	if alias != nil || st.setVar || st.hasExecutable() {
		return nil
	}
	c := &Copy{st: st, to: uint32(len(st.src)), Lenient: n.IgnoreErr || !st.settings.Strict}
	depth, found := 0, false
	for i := range st.toks {
		query := st.is(i, "select") || st.is(i, "with") || st.is(i, "table") || st.is(i, "values")
		switch {
		case !found && (depth == 0 && i > 1 && query || depth == 0 && st.op(i, "(") && (st.is(i+1, "select") || st.is(i+1, "with") || st.op(i+1, "("))):
			c.from, found = st.toks[i].start, true
		case found && depth == 0 && st.is(i, "on") && st.is(i+1, "duplicate") && st.is(i+2, "key"):
			c.to = st.toks[i].start
			return c
		}
		if st.op(i, "(") {
			depth++
		} else if st.op(i, ")") {
			depth--
		}
	}
	if !found || len(n.OnDuplicate) > 0 {
		return nil
	}
	return c
}

// refusedAction is a plan that can only be executed in another way.
type refusedAction struct{ why *Error }

func (r *refusedAction) bind(*binder) (*Bound, error) { return nil, r.why }
