package planner

import (
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// cutReturning finds MariaDB's RETURNING at the end of an INSERT, REPLACE or DELETE,
// which the parser doesn't know. Its tokens are set aside: whatever it asks for of
// the rows, they are placed, found and indexed as without it. The text that is sent
// keeps it.
//
// Rule no other rows: what it selects is of the changed row alone. Counter-example:
// DELETE FROM users WHERE id < 9 RETURNING (SELECT COUNT(*) FROM users), which each
// shard would answer for itself.
func cutReturning(st *text.Statement) (spans [][2]uint32, err *text.Error) {
	if !st.Server.MariaDB {
		return nil, nil // a syntax error, which the server words
	}
	at := st.TopLevel(1, "returning")
	if at < 0 {
		return nil, nil
	}
	for k := at + 1; k < len(st.Tokens); k++ {
		if st.Is(k, "select") && !st.Op(k-1, ".") {
			return nil, text.NotSupported("a subquery in RETURNING is not supported: return the row, and ask by a statement of its own")
		}
		if st.Op(k+1, "(") {
			if e := spoken.RefusedFunction(st.Word(k)); e != nil {
				return nil, e
			}
		}
	}
	st.Returning = true
	from := st.Tokens[at].Start
	st.Tokens = st.Tokens[:at]
	return [][2]uint32{{from, uint32(len(st.Src))}}, nil
}

// returningRows is a plan whose answer is rows that were changed: what can't answer
// them as they are changed is no way to execute it.
func returningRows(r *plan.Rows) (*plan.Rows, *text.Error) {
	if r.Meets != nil {
		return nil, text.NotSupported("RETURNING of REPLACE, INSERT IGNORE and ON DUPLICATE KEY UPDATE is not supported for %s: the rows that it meets may be on any shard; leave it out, and select the rows", r.Meets.Table.Name)
	}
	if w, ok := bindableOf(r).action.(*writeAction); ok {
		w.returning = true
	}
	r.Returning, r.Copy, r.Keyed = true, nil, nil
	return r, nil
}
