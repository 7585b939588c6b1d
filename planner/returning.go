package planner

// cutReturning finds MariaDB's RETURNING at the end of an INSERT, REPLACE or DELETE,
// which the parser doesn't know. Its tokens are set aside: whatever it asks for of
// the rows, they are placed, found and indexed as without it. The text that is sent
// keeps it.
//
// Rule no other rows: what it selects is of the changed row alone. Counter-example:
// DELETE FROM users WHERE id < 9 RETURNING (SELECT COUNT(*) FROM users), which each
// shard would answer for itself.
func (st *statement) cutReturning() (spans [][2]uint32, err *Error) {
	if !st.server.mariaDB {
		return nil, nil // a syntax error, which the server words
	}
	at := st.topLevel(1, "returning")
	if at < 0 {
		return nil, nil
	}
	for k := at + 1; k < len(st.toks); k++ {
		if st.is(k, "select") && !st.op(k-1, ".") {
			return nil, notSupported("a subquery in RETURNING is not supported: return the row, and ask by a statement of its own")
		}
		if st.op(k+1, "(") {
			if e := refusedFunction(st.word(k)); e != nil {
				return nil, e
			}
		}
	}
	st.returning = true
	from := st.toks[at].start
	st.toks = st.toks[:at]
	return [][2]uint32{{from, uint32(len(st.src))}}, nil
}

// returningRows is a plan whose answer is rows that were changed: what can't answer
// them as they are changed is no way to execute it.
func returningRows(r *Rows) (*Rows, *Error) {
	if r.Meets != nil {
		return nil, notSupported("RETURNING of REPLACE, INSERT IGNORE and ON DUPLICATE KEY UPDATE is not supported for %s: the rows that it meets may be on any shard; leave it out, and select the rows", r.Meets.Table.Name)
	}
	if w, ok := r.action.(*writeAction); ok {
		w.returning = true
	}
	r.Returning, r.Copy, r.Limited = true, nil, nil
	return r, nil
}
