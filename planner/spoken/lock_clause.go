package spoken

import "github.com/shunt-sql/shunt/planner/text"

// HasLock finds FOR UPDATE, FOR SHARE and LOCK IN SHARE MODE anywhere.
func HasLock(st *text.Statement) bool {
	for i := range st.Tokens {
		if LocksAt(st, i) {
			return true
		}
	}
	return false
}

// LocksAt reports a locking clause that begins at token i.
func LocksAt(st *text.Statement, i int) bool {
	return st.Is(i, "for") && (st.Is(i+1, "update") || st.Is(i+1, "share")) ||
		st.Is(i, "lock") && st.Is(i+1, "in") && st.Is(i+2, "share")
}
