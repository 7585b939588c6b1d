package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// reachesSystem refuses what would have information_schema of one shard, with the
// rights of its account, for a client who may not see all schemas: only a query of
// it by itself is answered from rows that are looked through.
//
// Counter-examples: SET @a = (SELECT GROUP_CONCAT(TABLE_NAME) FROM
// information_schema.TABLES), and the same in DO, whose errors tell it, in an UPDATE,
// or in a function; SHOW STATUS WHERE EXTRACTVALUE(1, (SELECT ...)).
func reachesSystem(st *text.Statement, planned plan.Plan) *text.Error {
	if !st.Settings.Restricted {
		return nil
	}
	if a, ok := planned.(*plan.Admin); ok && a.Explain != "" {
		return nil // of what it explains
	}
	if st.Is(0, "show") && spoken.HasSubquery(st) {
		return text.NotSupported("SHOW with a query in its WHERE is not supported for a user who may see some schemas only: read the value first")
	}
	if rows, ok := planned.(*plan.Rows); ok {
		switch act := bindableOf(rows).action.(type) {
		case *systemAction:
			return nil
		case *explainAction:
		default:
			if rows.Kind == plan.Show && act != nil {
				return nil // of one table's columns
			}
		}
	}
	if st.Settings.Schema == "" && unresolved(planned) && spoken.NamesBare(st) {
		return text.NoDatabase()
	}
	var n spoken.Named
	n.ReadAll(st)
	for _, table := range n.System {
		if spoken.KnowsSystemTable(table) {
			return text.NotSupported("information_schema.%s in this statement is not supported for a user who may see some schemas only: SELECT from it by a statement of its own", strings.ToUpper(table))
		}
	}
	return nil
}

// unresolved reports a plan of a text whose tables' names weren't all looked up.
func unresolved(planned plan.Plan) bool {
	switch rows := planned.(type) {
	case *plan.Rows:
		_, fixed := bindableOf(rows).action.(*fixedAction)
		return fixed || rows.Kind == plan.Other
	case *plan.Session:
		return rows.Op == plan.SetVariables
	default:
		return true
	}
}
