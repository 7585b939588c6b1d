package planner

import "github.com/shunt-sql/shunt/planner/catalog"

// SplitInto takes INTO @a, @b off a query, and gives the names of these user variables;
// none where it has no such INTO.
func SplitInto(sql string, s Settings, cat *catalog.Catalog) (names []string, query string) {
	st, err := lexStatement(sql, s, cat)
	if err != nil || st.hinted || !st.is(0, "select") && !st.is(0, "with") && !st.op(0, "(") && !st.is(0, "table") && !st.is(0, "values") {
		return nil, sql
	}
	into := st.topLevel(0, "into")
	if into < 0 {
		return nil, sql
	}
	i := into
	for more := true; more; more = st.op(i, ",") {
		if i+1 >= len(st.toks) {
			return nil, sql
		}
		name, ok := st.userVariable(i + 1)
		if !ok {
			return nil, sql // a file, or what planning refuses
		}
		names = append(names, name)
		i += 2
	}
	for j := i; j < len(st.toks); j++ {
		if st.is(j, "into") {
			return nil, sql
		}
	}
	return names, sql[:st.toks[into].start] + sql[st.toks[i-1].end:]
}

func refuseInto() *Error {
	return notSupported("SELECT ... INTO is not supported, but for user variables in a statement that is sent as text: read the rows and write them from the client")
}
