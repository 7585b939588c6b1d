package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// NamedLock is a SELECT or DO of GET_LOCK(), RELEASE_LOCK(), IS_FREE_LOCK() or
// RELEASE_ALL_LOCKS(), without tables. Locks by name belong to a server's
// connection: all sessions take them on the first shard, each over a connection
// that it keeps while it has any. So they agree with those of other proxies over
// the same shards.
type NamedLock struct {
	Op NamedLockOp
	st *statement
	// name are the tokens of the lock's name, where Op is GetLock or ReleaseLock.
	name []token
}

// NamedLockOp is what a statement does to the locks of its session.
type NamedLockOp uint8

const (
	// SomeLocks: it may take and release any.
	SomeLocks NamedLockOp = iota
	// LookAtLock: it takes and releases none.
	LookAtLock
	GetLock
	ReleaseLock
	ReleaseAllLocks
)

// Owner asks for the connection that has the lock of GetLock and ReleaseLock.
func (n *NamedLock) Owner(params []keys.Value) string {
	return "SELECT IS_USED_LOCK(" + n.st.written(n.name[0].start, n.name[len(n.name)-1].end, params) + ")"
}

// planNamedLock plans a statement that names locks; nil for any other.
//
// Rule no tables: with tables the lock would be asked for once a row, on each
// shard. Counter-example: SELECT GET_LOCK(name, 1) FROM users.
func (st *statement) planNamedLock(cat *catalog.Catalog) (Plan, *Error) {
	n := &NamedLock{Op: LookAtLock, st: st}
	found := 0
	for i := range st.toks {
		if !st.op(i+1, "(") {
			continue
		}
		switch st.word(i) {
		case "get_lock", "release_lock", "release_all_locks":
			n.Op = SomeLocks
			found++
		case "is_free_lock":
			found++
		}
	}
	if found == 0 {
		return nil, nil
	}
	for i := range st.toks {
		switch w := st.word(i); w {
		case "from", "into", "union", "except", "intersect", "with", "table", "values", "for", "select":
			if i > 0 {
				return nil, nil // the functions are refused where they stand
			}
		case "is_used_lock", "row_count", "found_rows":
			if st.op(i+1, "(") {
				return nil, refusedFunction(w)
			}
		}
		if st.op(i, ":=") {
			return nil, st.refusedLexically()
		}
	}
	n.single()
	first := cat.Shards[0]
	for _, s := range cat.Shards {
		if s.ID < first.ID {
			first = s
		}
	}
	rows := fixed(st, cat, Select, nil, &fixedAction{
		shards: catalog.Only(first.ID), access: "single", reason: "all locks by name are on " + first.Name,
	})
	rows.Lock = n
	return rows, nil
}

// refuseLocks is for statements that planNamedLock doesn't plan: a lock that they take would
// stay with a pooled connection.
func (st *statement) refuseLocks() *Error {
	for i := range st.toks {
		if !st.op(i+1, "(") {
			continue
		}
		switch name, _ := st.identifier(i); strings.ToLower(name) {
		case "get_lock", "release_lock", "release_all_locks":
			return refusedFunction(name)
		}
	}
	return nil
}

// single reads SELECT f(..) [AS alias]: what it has done is then known.
func (n *NamedLock) single() {
	st := n.st
	var op NamedLockOp
	switch st.word(1) {
	case "get_lock":
		op = GetLock
	case "release_lock":
		op = ReleaseLock
	case "release_all_locks":
		op = ReleaseAllLocks
	default:
		return
	}
	end := st.closes(2)
	if end < 0 {
		return
	}
	first := end // behind the name
	for i := range st.outside(3, end) {
		if st.op(i, ",") {
			first = i
			break
		}
	}
	rest := end + 1
	if st.is(rest, "as") {
		rest++
	}
	if rest < len(st.toks) && !st.is(rest, "limit") {
		if _, ok := st.identifier(rest); !ok && st.toks[rest].kind != tokString {
			return
		}
		rest++
	}
	if rest < len(st.toks) {
		return // an expression around it, or a second one
	}
	if n.name = st.toks[3:first]; op != ReleaseAllLocks && (len(n.name) == 0 || !st.steady(n.name)) {
		return
	}
	n.Op = op
}

// steady reports constant tokens that mean the same when they are read again.
func (st *statement) steady(toks []token) bool {
	for _, t := range toks {
		w := strings.ToLower(st.src[t.start:t.end])
		if volatileFunction(w) && w != "database" && w != "schema" {
			return false
		}
	}
	return st.constant(toks)
}
