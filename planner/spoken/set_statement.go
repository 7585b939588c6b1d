package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/text"
)

// StatementSettings is the head of MariaDB's SET STATEMENT: variables that have
// another value for one statement only. Its clients set time and row limits so.
type StatementSettings struct {
	// Head is what is sent before the text of each shard, "" for nothing.
	Head string
	// Limit and MaxTime are the values of sql_select_limit, which Shunt keeps, and
	// max_statement_time, "" where they aren't set.
	Limit, MaxTime string
}

// forOneStatement are the variables that change neither what a statement means nor
// what it answers.
var forOneStatement = []string{
	"innodb_lock_wait_timeout", "join_buffer_size", "join_cache_level", "lock_wait_timeout", "max_heap_table_size", "max_statement_time",
	"mhnsw_ef_search", "mrr_buffer_size", "optimizer_search_depth", "optimizer_switch", "optimizer_use_condition_selectivity", "read_buffer_size",
	"read_rnd_buffer_size", "sort_buffer_size", "sql_select_limit", "tmp_memory_table_size", "tmp_table_size", "use_stat_tables",
}

// SetStatement takes SET STATEMENT name = value, ... FOR off a statement; nil where
// it has none.
func (t *Text) SetStatement() (*StatementSettings, string, error) {
	sql := t.SQL
	if !t.Catalog.MariaDB || len(sql) < len("set") || !strings.EqualFold(sql[:len("set")], "set") {
		return nil, sql, nil
	}
	st, err := t.Statement()
	if err != nil || !st.Is(0, "set") || !st.Is(1, "statement") || st.Op(2, "=") || st.Op(2, ":=") {
		return nil, sql, nil //nolint:nilerr // planning says it
	}
	end := st.TopLevel(2, "for")
	if end < 0 {
		return nil, sql, st.Near(len(st.Tokens) - 1)
	}
	if st.Doubtful || st.Hinted || !st.Op(end+1, "(") && !slices.Contains([]string{"select", "with", "values", "insert", "replace", "update", "delete"}, st.Word(end+1)) {
		return nil, sql, text.NotSupported("SET STATEMENT for other than SELECT, INSERT, REPLACE, UPDATE and DELETE is not supported: SET it for the session")
	}
	out := &StatementSettings{}
	var kept []string
	scope := "session"
	for i := 2; i < end; {
		next := end
		for j := range st.Outside(i, end) {
			if st.Op(j, ",") {
				next = j
				break
			}
		}
		a, err := setOne(st, i, next, &scope)
		switch {
		case err != nil:
			return nil, sql, err
		case a.Scope != "session" || !slices.Contains(forOneStatement, a.Name):
			return nil, sql, text.NotSupported("SET STATEMENT of %s is not supported: SET it for the session", a.Name)
		case !a.IsLiteral:
			return nil, sql, text.NotSupported("SET STATEMENT with other than literals is not supported: SET it for the session")
		}
		switch a.Name {
		case "sql_select_limit":
			out.Limit = a.Literal
		case "max_statement_time":
			out.MaxTime = a.Literal
			fallthrough
		default:
			kept = append(kept, st.Src[st.Tokens[i].Start:st.Tokens[next-1].End])
		}
		i = next + 1
	}
	if len(kept) > 0 {
		out.Head = "SET STATEMENT " + strings.Join(kept, ", ") + " FOR "
	}
	return out, sql[st.Tokens[end+1].Start:], nil
}
