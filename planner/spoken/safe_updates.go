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
	for i := range st.Outside(0, len(st.Tokens)) {
		if !st.Is(i, "update") && !st.Is(i, "delete") {
			continue
		}
		at := int(st.Tokens[i].End)
		if after, ok := strings.CutPrefix(strings.TrimLeft(sql[at:], " \t\r\n"), "/*+"); ok {
			return sql[:at] + " /*+ SET_VAR(sql_safe_updates = 0)" + after
		}
		return sql[:at] + " /*+ SET_VAR(sql_safe_updates = 0) */" + sql[at:]
	}
	return sql
}
