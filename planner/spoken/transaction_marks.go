package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
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

// Marks reads a statement as the client wrote it; plan is what was made of it.
func (t *Text) Marks(planned plan.Plan) (m TransactionMarks) {
	cat := t.Catalog
	st, err := t.Statement()
	if err != nil {
		return m
	}
	m.Unsafe = unsafeForLog(st)
	r, ok := planned.(*plan.Rows)
	if !ok {
		return m
	}
	named := len(r.Tables) > 0
	switch r.Kind {
	case plan.Select:
		m.Reads = named || !cat.MariaDB && st.Has("information_schema")
	case plan.Locking:
		m.Writes = st.Has("update")
		m.Reads = !m.Writes
	case plan.Insert, plan.Replace:
		m.Writes, m.Reads = true, st.Has("select") && st.Has("from")
	case plan.Update, plan.Delete:
		m.Writes, m.Reads = true, len(r.Tables) > 1 || st.Has("select")
	case plan.Show:
		m.Reads = named && st.Is(0, "explain")
		if cat.MariaDB {
			break
		}
		// MySQL's own tables.
		switch {
		case r.Shown != nil:
			m.ReadsOther = true
		case !st.Is(0, "explain") && (st.Is(0, "show") && countsShown(st) && !st.Is(1, "engines") && !st.Is(1, "plugins") || !st.Is(0, "show")):
			m.Reads = true
		}
	case plan.Other:
		m.Reads, m.Writes = named, named
	}
	return m
}

// unsafeForLog finds what the servers call unsafe for the binary log of statements:
// https://dev.mysql.com/doc/refman/9.0/en/replication-rbr-safe-unsafe.html
func unsafeForLog(st *text.Statement) bool {
	for i := range st.Tokens {
		switch st.Tokens[i].Kind {
		case text.Variable:
			name := strings.ToLower(st.Text(i))
			if strings.HasPrefix(name, "@@") && !st.Is(0, "set") {
				return true
			}
		case text.Word:
			switch w := st.Word(i); w {
			case "current_user":
				return true
			case "limit":
				if st.Has("from") || st.Is(0, "update") {
					return true
				}
			case "ignore":
				if st.Is(0, "insert") && st.Has("select") {
					return true
				}
			case "replace":
				if i == 0 && st.Has("select") {
					return true
				}
			default:
				if functionHas(w, "u") && st.Op(i+1, "(") {
					return true
				}
			}
		default:
		}
	}
	return false
}
