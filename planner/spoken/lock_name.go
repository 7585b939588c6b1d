package spoken

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// ReservedLock refuses a name that is Shunt's own.
func ReservedLock() *text.Error {
	return text.NewError(mysqlerr.UserLockWrongName, "Incorrect user-level lock name: those that begin with "+plan.LockPrefix+" are Shunt's own")
}

// takesName notes the name of a GET_LOCK() at i.
//
// Rule one name: it has to be the same when the server is asked for it before.
// Counter-example: GET_LOCK(IF(RAND() < 0.5, 'a', 'shunt-serves-shop'), 0).
func takesName(n *plan.NamedLock, i int) *text.Error {
	st := n.Statement
	end := st.Closes(i + 1)
	if end < 0 {
		return nil // the server says what is wrong
	}
	for j := range st.Outside(i+2, end) {
		if st.Op(j, ",") {
			end = j
			break
		}
	}
	switch name := st.Tokens[i+2 : end]; {
	case len(name) == 0:
	case len(name) == 1 && name[0].Kind == text.String && !strings.ContainsAny(st.Text(i + 2)[1:len(st.Text(i+2))-1], `\'"`):
		if text := strings.ToLower(st.Text(i + 2)[1:]); strings.HasPrefix(text, plan.LockPrefix) {
			return ReservedLock()
		}
	case !steady(st, name):
		return text.NotSupported("GET_LOCK() of a name that may be another one each time it is asked for is not supported: SET @name = ... first, and take the lock @name")
	default:
		n.Taken = append(n.Taken, name)
	}
	return nil
}

// NamedLock plans a statement that names locks; nil for any other.
//
// Rule no tables: with tables the lock would be asked for once a row, on each
// shard. Counter-example: SELECT GET_LOCK(name, 1) FROM users.
func NamedLock(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	n := &plan.NamedLock{Op: plan.LookAtLock, Statement: st}
	found := 0
	var wrong *text.Error
	for i := range st.Tokens {
		if !st.Op(i+1, "(") {
			continue
		}
		switch st.Word(i) {
		case "get_lock", "release_lock", "release_all_locks":
			n.Op = plan.SomeLocks
			if found++; st.Is(i, "get_lock") {
				wrong = cmp.Or(wrong, takesName(n, i))
			}
		case "is_free_lock":
			found++
		}
	}
	if found == 0 {
		return nil, nil
	}
	for i := range st.Tokens {
		switch w := st.Word(i); w {
		case "from", "into", "union", "except", "intersect", "with", "table", "values", "for", "select":
			if i > 0 {
				return nil, nil // the functions are refused where they stand
			}
		case "is_used_lock", "row_count", "found_rows":
			if st.Op(i+1, "(") {
				return nil, RefusedFunction(w)
			}
		}
		if st.Op(i, ":=") {
			return nil, refusedLexically(st)
		}
	}
	if wrong != nil {
		return nil, wrong
	}
	singleLock(n)
	first := LockShard(cat)
	rows := fixed(st, cat, plan.Select, nil, &Fixed{
		Shards: catalog.Only(first.ID), Access: "single", Reason: "all locks by name are on " + first.Name,
	})
	rows.Lock = n
	return rows, nil
}

// LockShard has all locks by name.
func LockShard(cat *catalog.Catalog) catalog.Shard {
	return slices.MinFunc(cat.Shards, func(a, b catalog.Shard) int { return cmp.Compare(a.ID, b.ID) })
}

// RefuseLocks is for statements that NamedLock doesn't plan: a lock that they take would
// stay with a pooled connection.
func RefuseLocks(st *text.Statement) *text.Error {
	for i := range st.Tokens {
		if !st.Op(i+1, "(") {
			continue
		}
		switch name, _ := st.Identifier(i); strings.ToLower(name) {
		case "get_lock", "release_lock", "release_all_locks":
			return RefusedFunction(name)
		}
	}
	return nil
}

// singleLock reads SELECT f(..) [AS alias]: what it has done is then known.
func singleLock(n *plan.NamedLock) {
	st := n.Statement
	var op plan.NamedLockOp
	switch st.Word(1) {
	case "get_lock":
		op = plan.GetLock
	case "release_lock":
		op = plan.ReleaseLock
	case "release_all_locks":
		op = plan.ReleaseAllLocks
	default:
		return
	}
	end := st.Closes(2)
	if end < 0 {
		return
	}
	first := end // behind the name
	for i := range st.Outside(3, end) {
		if st.Op(i, ",") {
			first = i
			break
		}
	}
	rest := end + 1
	if st.Is(rest, "as") {
		rest++
	}
	if rest < len(st.Tokens) && !st.Is(rest, "limit") {
		if _, ok := st.Identifier(rest); !ok && st.Tokens[rest].Kind != text.String {
			return
		}
		rest++
	}
	if rest < len(st.Tokens) {
		return // an expression around it, or a second one
	}
	if n.Name = st.Tokens[3:first]; op != plan.ReleaseAllLocks && (len(n.Name) == 0 || !steady(st, n.Name)) {
		return
	}
	n.Op = op
}

// steady reports constant tokens that mean the same when they are read again.
func steady(st *text.Statement, toks []text.Token) bool {
	for _, t := range toks {
		w := strings.ToLower(st.Src[t.Start:t.End])
		if VolatileFunction(w) && w != "database" && w != "schema" {
			return false
		}
	}
	return IsConstant(st, toks)
}
