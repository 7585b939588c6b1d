package spoken

import (
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// SessionTold plans a SELECT of nothing but what a shard's connection would tell
// of itself instead of the client's:
//
//	SELECT CONNECTION_ID()     what KILL takes
//	SELECT USER(), DATABASE()
//	SELECT @@warning_count, ROW_COUNT()
//
// nil for every other statement.
func SessionTold(st *text.Statement) *plan.Admin {
	a := &plan.Admin{Form: TellSession}
	for i := 1; ; i++ {
		told, next := toldAt(st, i)
		if _, asks := UsedLock(told.What); asks || next == i {
			return nil
		}
		i = next
		if st.Is(i, "as") {
			i++
		}
		if i < len(st.Tokens) && !st.Op(i, ",") && !st.Is(i, "limit") {
			name, ok := st.Identifier(i)
			if !ok && st.Tokens[i].Kind == text.String {
				name, ok = string(st.Unescape(st.Tokens[i])), true
			}
			if !ok || st.Is(i, "from") || st.Is(i, "into") || st.Is(i, "union") {
				return nil
			}
			told.Label = name
			i++
		}
		a.Tell = append(a.Tell, told)
		switch {
		case i == len(st.Tokens):
			return a
		case st.Is(i, "limit") && i+2 == len(st.Tokens):
			if n, err := strconv.Atoi(st.Text(i + 1)); err == nil && n > 0 {
				return a
			}
			return nil
		case !st.Op(i, ","):
			return nil
		}
	}
}

// toldAt reads one item at token i; next is i where it is none.
func toldAt(st *text.Statement, i int) (t plan.Told, next int) {
	what := ""
	switch w := st.Word(i); w {
	case "is_used_lock":
		return toldLock(st, i)
	case "connection_id", "row_count", "found_rows":
		what = w
	case "user", "session_user", "system_user", "current_user":
		what = "user"
	case "database", "schema":
		what = "schema"
	}
	if what != "" {
		if st.Op(i+1, "(") && st.Op(i+2, ")") {
			return plan.Told{Label: st.Src[st.Tokens[i].Start:st.Tokens[i+2].End], What: what}, i + 3
		}
		if st.Is(i, "current_user") && !st.Op(i+1, "(") {
			return plan.Told{Label: st.Text(i), What: what}, i + 1
		}
		return t, i
	}
	if i >= len(st.Tokens) || st.Tokens[i].Kind != text.Variable {
		return t, i
	}
	next = i + 1
	name := strings.ToLower(st.Text(i))
	if (name == "@@session" || name == "@@local") && st.Op(next, ".") {
		name = "@@" + st.Word(next+1)
		next += 2
	}
	if strings.HasPrefix(name, "@@gtid_") || name == "@@global" {
		return toldGTID(st, i)
	}
	if name == "@@resultset_metadata" && !st.Server.MariaDB {
		return plan.Told{Label: st.Src[st.Tokens[i].Start:st.Tokens[next-1].End], What: name[2:]}, next
	}
	switch name {
	case "@@warning_count", "@@error_count", "@@autocommit", "@@completion_type", "@@wait_timeout", "@@interactive_timeout", "@@net_read_timeout", "@@net_write_timeout", "@@sql_select_limit", "@@shunt_read_from", "@@shunt_virtual_columns", "@@shunt_index_reads":
		return plan.Told{Label: st.Src[st.Tokens[i].Start:st.Tokens[next-1].End], What: name[2:]}, next
	}
	return t, i
}

// toldLock reads IS_USED_LOCK(name), which on a shard tells of its own connection. With other functions of locks in the statement
// it would be asked for too early.
func toldLock(st *text.Statement, i int) (t plan.Told, next int) {
	end := -1
	if st.Op(i+1, "(") {
		end = st.Closes(i + 1)
	}
	if end <= i+2 || st.Calls("get_lock") || st.Calls("release_lock") || st.Calls("release_all_locks") || !steady(st, st.Tokens[i+2:end]) {
		return t, i
	}
	return plan.Told{Label: "IS_USED_LOCK()", What: usedLock + st.Src[st.Tokens[i+2].Start:st.Tokens[end-1].End]}, end + 1
}

// usedLock is what toldLock tells of, before the name of the lock as an expression.
const usedLock = "is_used_lock "

// UsedLock is the expression for the name of the lock, of whose owner is to be told.
func UsedLock(what string) (name string, ok bool) { return strings.CutPrefix(what, usedLock) }

// toldGTID reads MySQL's variables about transactions' global ids, which each
// server counts for itself.
//
// Counter-example: mysqldump writes one shard's @@GLOBAL.GTID_EXECUTED into the
// dump as what the whole has executed.
func toldGTID(st *text.Statement, i int) (t plan.Told, next int) {
	if st.Server.MariaDB {
		return t, i // has none of them
	}
	name, next := strings.ToLower(st.Text(i)), i+1
	if name == "@@global" && st.Op(next, ".") {
		name = "@@" + st.Word(next+1)
		next += 2
	}
	switch name {
	case "@@gtid_mode", "@@gtid_executed", "@@gtid_purged", "@@gtid_owned":
		return plan.Told{Label: st.Src[st.Tokens[i].Start:st.Tokens[next-1].End], What: name[2:]}, next
	}
	return t, i
}

// planKill reads KILL [CONNECTION | QUERY] id.
func planKill(st *text.Statement) (plan.Plan, *text.Error) {
	a := &plan.Admin{Form: Kill}
	i := 1
	if st.Is(i, "hard") || st.Is(i, "soft") {
		i++
	}
	switch {
	case st.Is(i, "query"):
		a.QueryOnly = true
		i++
		if st.Is(i, "id") {
			return nil, text.NotSupported("KILL QUERY ID is not supported: name the connection, as SHOW PROCESSLIST has it")
		}
	case st.Is(i, "connection"):
		i++
	case st.Is(i, "user"):
		return nil, text.NotSupported("KILL USER is not supported: name the connection, as SHOW PROCESSLIST has it")
	}
	if st.Is(i, "connection_id") && st.Op(i+1, "(") && st.Op(i+2, ")") && len(st.Tokens) == i+3 {
		return a, nil // 0: its own
	}
	id, err := strconv.ParseUint(st.Text(i), 10, 64)
	if len(st.Tokens) != i+1 {
		return nil, st.Near(min(i+1, len(st.Tokens)))
	}
	if err != nil || id == 0 {
		return nil, text.NotSupported("KILL takes the number of a connection, as SHOW PROCESSLIST has it")
	}
	a.Connection = id
	return a, nil
}

// maintenance plans ANALYZE, OPTIMIZE, CHECK, REPAIR and CHECKSUM TABLE: on all
// shards that hold one of the tables.
func maintenance(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	i := 1
	for st.Is(i, "local") || st.Is(i, "no_write_to_binlog") {
		i++
	}
	if !st.Is(i, "table") && !st.Is(i, "tables") {
		return nil, text.NotSupported("%s is not supported: run it on the shard itself", strings.ToUpper(st.Word(0)+" "+st.Word(i)))
	}
	var set catalog.ShardSet
	var tables []*catalog.Table
	for i++; ; i++ {
		name, next, err := st.TableAt(i)
		if err != nil {
			return nil, err
		}
		if t, _, _ := LookupTable(cat, name.Schema, name.Name); t != nil {
			set = set.Union(t.Shards)
			tables = append(tables, t)
		} else {
			// A system table; or, as a server does, a row of the answer says that
			// it isn't there.
			set = set.Union(firstShard(cat))
		}
		i = next
		if !st.Op(i, ",") {
			break
		}
	}
	sys := &plan.System{Rows: &plan.SystemTable{Table: "table", Each: true}, Everywhere: true}
	if st.Is(0, "checksum") { // which reads, within a transaction too
		sys = &plan.System{Rows: &plan.SystemTable{Table: "table", Join: map[string]plan.Joining{"checksum": plan.Checksum}}}
	}
	planned, err := everywhere(st, cat, set, sys, "on every shard that holds the tables")
	if rows, ok := planned.(*plan.Rows); ok && err == nil {
		rows.Tables = tables
	}
	return planned, err
}

// flush plans FLUSH. Its locks would stay with one pooled connection.
func flush(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	switch {
	case st.Has("export"):
		return nil, text.NotSupported("FLUSH TABLES ... FOR EXPORT is not supported: the files to copy are on the shards; run it on each shard")
	case st.Has("lock"):
		if p, err := flushLocked(st, cat); p != nil || err != nil {
			return p, err
		}
		return nil, st.Near(1)
	}
	return everywhere(st, cat, cat.All, &plan.System{Everywhere: true}, "on every shard")
}
