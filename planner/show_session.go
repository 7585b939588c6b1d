package planner

import (
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// tellSession plans a SELECT of nothing but what a shard's connection would tell
// of itself instead of the client's:
//
//	SELECT CONNECTION_ID()     what KILL takes
//	SELECT USER(), DATABASE()
//	SELECT @@warning_count, ROW_COUNT()
//
// nil for every other statement.
func (st *statement) tellSession() *Admin {
	a := &Admin{Op: TellSession}
	for i := 1; ; i++ {
		told, next := st.toldAt(i)
		if next == i {
			return nil
		}
		i = next
		if st.is(i, "as") {
			i++
		}
		if i < len(st.toks) && !st.op(i, ",") && !st.is(i, "limit") {
			name, ok := st.identifier(i)
			if !ok && st.toks[i].kind == tokString {
				name, ok = string(st.unescape(st.toks[i])), true
			}
			if !ok || st.is(i, "from") || st.is(i, "into") || st.is(i, "union") {
				return nil
			}
			told.Label = name
			i++
		}
		a.Tell = append(a.Tell, told)
		switch {
		case i == len(st.toks):
			return a
		case st.is(i, "limit") && i+2 == len(st.toks):
			if n, err := strconv.Atoi(st.text(i + 1)); err == nil && n > 0 {
				return a
			}
			return nil
		case !st.op(i, ","):
			return nil
		}
	}
}

// toldAt reads one item at token i; next is i where it is none.
func (st *statement) toldAt(i int) (t Told, next int) {
	what := ""
	switch w := st.word(i); w {
	case "connection_id", "row_count", "found_rows":
		what = w
	case "user", "session_user", "system_user", "current_user":
		what = "user"
	case "database", "schema":
		what = "schema"
	}
	if what != "" {
		if st.op(i+1, "(") && st.op(i+2, ")") {
			return Told{Label: st.src[st.toks[i].start:st.toks[i+2].end], What: what}, i + 3
		}
		if st.is(i, "current_user") && !st.op(i+1, "(") {
			return Told{Label: st.text(i), What: what}, i + 1
		}
		return t, i
	}
	if i >= len(st.toks) || st.toks[i].kind != tokVar {
		return t, i
	}
	next = i + 1
	name := strings.ToLower(st.text(i))
	if (name == "@@session" || name == "@@local") && st.op(next, ".") {
		name = "@@" + st.word(next+1)
		next += 2
	}
	if strings.HasPrefix(name, "@@gtid_") || name == "@@global" {
		return st.toldGTID(i)
	}
	if name == "@@resultset_metadata" && !st.server.mariaDB {
		return Told{Label: st.src[st.toks[i].start:st.toks[next-1].end], What: name[2:]}, next
	}
	switch name {
	case "@@warning_count", "@@error_count", "@@autocommit", "@@completion_type", "@@wait_timeout", "@@interactive_timeout", "@@net_read_timeout", "@@net_write_timeout", "@@sql_select_limit", "@@shunt_read_from":
		return Told{Label: st.src[st.toks[i].start:st.toks[next-1].end], What: name[2:]}, next
	}
	return t, i
}

// toldGTID reads MySQL's variables about transactions' global ids, which each
// server counts for itself.
//
// Counter-example: mysqldump writes one shard's @@GLOBAL.GTID_EXECUTED into the
// dump as what the whole has executed.
func (st *statement) toldGTID(i int) (t Told, next int) {
	if st.server.mariaDB {
		return t, i // has none of them
	}
	name, next := strings.ToLower(st.text(i)), i+1
	if name == "@@global" && st.op(next, ".") {
		name = "@@" + st.word(next+1)
		next += 2
	}
	switch name {
	case "@@gtid_mode", "@@gtid_executed", "@@gtid_purged", "@@gtid_owned":
		return Told{Label: st.src[st.toks[i].start:st.toks[next-1].end], What: name[2:]}, next
	}
	return t, i
}

// planKill reads KILL [CONNECTION | QUERY] id.
func planKill(st *statement) (Plan, *Error) {
	a := &Admin{Op: Kill}
	i := 1
	if st.is(i, "hard") || st.is(i, "soft") {
		i++
	}
	switch {
	case st.is(i, "query"):
		a.QueryOnly = true
		i++
		if st.is(i, "id") {
			return nil, notSupported("KILL QUERY ID is not supported: name the connection, as SHOW PROCESSLIST has it")
		}
	case st.is(i, "connection"):
		i++
	case st.is(i, "user"):
		return nil, notSupported("KILL USER is not supported: name the connection, as SHOW PROCESSLIST has it")
	}
	if st.is(i, "connection_id") && st.op(i+1, "(") && st.op(i+2, ")") && len(st.toks) == i+3 {
		return a, nil // 0: its own
	}
	id, err := strconv.ParseUint(st.text(i), 10, 64)
	if len(st.toks) != i+1 {
		return nil, st.near(min(i+1, len(st.toks)))
	}
	if err != nil || id == 0 {
		return nil, notSupported("KILL takes the number of a connection, as SHOW PROCESSLIST has it")
	}
	a.Connection = id
	return a, nil
}

// maintenance plans ANALYZE, OPTIMIZE, CHECK, REPAIR and CHECKSUM TABLE: on all
// shards that hold one of the tables.
func maintenance(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	i := 1
	for st.is(i, "local") || st.is(i, "no_write_to_binlog") {
		i++
	}
	if !st.is(i, "table") && !st.is(i, "tables") {
		return nil, notSupported("%s is not supported: run it on the shard itself", strings.ToUpper(st.word(0)+" "+st.word(i)))
	}
	var set catalog.ShardSet
	var tables []*catalog.Table
	for i++; ; i++ {
		name, next, err := st.tableAt(i)
		if err != nil {
			return nil, err
		}
		if t, _, _ := lookupTable(cat, name.Schema, name.Name); t != nil {
			set = set.Union(t.Shards)
			tables = append(tables, t)
		} else {
			// A system table; or, as a server does, a row of the answer says that
			// it isn't there.
			set = set.Union(firstShard(cat))
		}
		i = next
		if !st.op(i, ",") {
			break
		}
	}
	sys := &System{Rows: &SystemTable{Table: "table", Each: true}, Everywhere: true}
	if st.is(0, "checksum") { // which reads, within a transaction too
		sys = &System{Rows: &SystemTable{Table: "table", Join: map[string]Joining{"checksum": Checksum}}}
	}
	plan, err := everywhere(st, cat, set, sys, "on every shard that holds the tables")
	if rows, ok := plan.(*Rows); ok && err == nil {
		rows.Tables = tables
	}
	return plan, err
}

// flush plans FLUSH. Its locks would stay with one pooled connection.
func flush(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	switch {
	case st.has("export"):
		return nil, notSupported("FLUSH TABLES ... FOR EXPORT is not supported: the files to copy are on the shards; run it on each shard")
	case st.has("lock"):
		if p, err := flushLocked(st, cat); p != nil || err != nil {
			return p, err
		}
		return nil, notSupported("FLUSH TABLES WITH READ LOCK of all tables is not supported, since Shunt's own work on the shards would wait for it too: name the tables (LOCK TABLES t READ, ... or FLUSH TABLES t, ... WITH READ LOCK), or read with START TRANSACTION WITH CONSISTENT SNAPSHOT (mysqldump --single-transaction)")
	}
	return everywhere(st, cat, cat.All, &System{Everywhere: true}, "on every shard")
}
