package spoken

import "github.com/shunt-sql/shunt/planner/text"

// Into takes INTO @a, @b off a query, and gives the names of these user variables;
// none where it has no such INTO, or is of more than 1 MiB.
func (t *Text) Into() (names []string, query string) {
	sql := t.SQL
	if len(sql) > maxOwn || !t.mayHave("into") {
		return nil, sql
	}
	st, err := t.Statement()
	if err != nil || st.Hinted || !st.Is(0, "select") && !st.Is(0, "with") && !st.Op(0, "(") && !st.Is(0, "table") && !st.Is(0, "values") {
		return nil, sql
	}
	into := st.TopLevel(0, "into")
	if into < 0 {
		return nil, sql
	}
	i := into
	for more := true; more; more = st.Op(i, ",") {
		if i+1 >= len(st.Tokens) {
			return nil, sql
		}
		name, ok := st.UserVariable(i + 1)
		if !ok {
			return nil, sql // a file, or what planning refuses
		}
		names = append(names, name)
		i += 2
	}
	for j := i; j < len(st.Tokens); j++ {
		if st.Is(j, "into") {
			return nil, sql
		}
	}
	return names, sql[:st.Tokens[into].Start] + sql[st.Tokens[i-1].End:]
}

// RefuseInto refuses an INTO that Text.Into does not take off.
func RefuseInto() *text.Error {
	return text.NotSupported("SELECT ... INTO is not supported, but for user variables in a statement without a hint: read the rows and write them from the client")
}
