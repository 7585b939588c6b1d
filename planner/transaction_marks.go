package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TransactionMarks are what session_track_transaction_info tells of a statement
// within a transaction: what a proxy that moves sessions between servers must know.
type TransactionMarks struct {
	// Reads, Writes: of tables. All are taken for transactional ones.
	Reads, Writes bool
	// ReadsOther: of tables without transactions (performance_schema).
	ReadsOther bool
	// Unsafe: it may do something else on another server (RAND(), LIMIT).
	Unsafe bool
}

// MarksOf reads a statement as the client wrote it; plan is what was made of it.
func MarksOf(sql string, s Settings, cat *catalog.Catalog, plan Plan) (m TransactionMarks) {
	st, err := lexStatement(sql, s, cat)
	if err != nil {
		return m
	}
	m.Unsafe = st.unsafeForLog()
	r, ok := plan.(*Rows)
	if !ok {
		return m
	}
	named := len(r.Tables) > 0
	switch r.Kind {
	case Select:
		m.Reads = named || !cat.MariaDB && st.has("information_schema")
	case Locking:
		m.Writes = st.has("update")
		m.Reads = !m.Writes
	case Insert, Replace:
		m.Writes, m.Reads = true, st.has("select") && st.has("from")
	case Update, Delete:
		m.Writes, m.Reads = true, len(r.Tables) > 1 || st.has("select")
	case Show:
		m.Reads = named && st.is(0, "explain")
		if cat.MariaDB {
			break
		}
		// MySQL's own tables.
		switch {
		case r.Shown != nil:
			m.ReadsOther = true
		case !st.is(0, "explain") && (st.is(0, "show") && st.countsShown() && !st.is(1, "engines") && !st.is(1, "plugins") || !st.is(0, "show")):
			m.Reads = true
		}
	case Other:
		m.Reads, m.Writes = named, named
	}
	return m
}

// unsafeForLog finds what the servers call unsafe for the binary log of statements:
// https://dev.mysql.com/doc/refman/9.0/en/replication-rbr-safe-unsafe.html
func (st *statement) unsafeForLog() bool {
	for i := range st.toks {
		switch st.toks[i].kind {
		case tokVar:
			name := strings.ToLower(st.text(i))
			if strings.HasPrefix(name, "@@") && !st.is(0, "set") {
				return true
			}
		case tokWord:
			switch st.word(i) {
			case "rand", "uuid", "uuid_short", "sleep", "load_file", "user", "session_user", "system_user", "version", "found_rows", "row_count",
				"get_lock", "release_lock", "release_all_locks", "is_free_lock", "is_used_lock", "sysdate", "encrypt", "random_bytes", "master_pos_wait", "source_pos_wait":
				if st.op(i+1, "(") {
					return true
				}
			case "current_user":
				return true
			case "limit":
				if st.has("from") || st.is(0, "update") {
					return true
				}
			case "ignore":
				if st.is(0, "insert") && st.has("select") {
					return true
				}
			case "replace":
				if i == 0 && st.has("select") {
					return true
				}
			}
		default:
		}
	}
	return false
}
