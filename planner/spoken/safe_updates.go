package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// WithoutSafeUpdates is the text of an UPDATE or DELETE for which sql_safe_updates doesn't count.
func WithoutSafeUpdates(sql string, settings text.Settings, cat *catalog.Catalog) string {
	if cat.MariaDB {
		return "SET STATEMENT sql_safe_updates = 0 FOR " + sql
	}
	st, err := text.Read(sql, settings, cat)
	if err != nil {
		return sql
	}
	depth := 0
	for i := range st.Tokens {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		case depth == 0 && (st.Is(i, "update") || st.Is(i, "delete")):
			at := int(st.Tokens[i].End)
			rest := strings.TrimLeft(sql[at:], " \t\r\n")
			if after, ok := strings.CutPrefix(rest, "/*+"); ok {
				return sql[:at] + " /*+ SET_VAR(sql_safe_updates = 0)" + after
			}
			return sql[:at] + " /*+ SET_VAR(sql_safe_updates = 0) */" + sql[at:]
		}
	}
	return sql
}
