package planner

import "strings"

func (a *analysis) function(name string) {
	if e := refusedFunction(name); e != nil {
		a.refuse(e)
	}
	switch {
	case clockFunction(name):
		a.clock = true
	case volatileFunction(name):
		a.setVolatile(strings.ToUpper(name) + "()")
	}
	if varies, stored := a.cat.Functions[name]; stored {
		a.clock = true
		if varies {
			a.setVolatile("the stored function " + name + "()")
		}
	}
}

// refusedFunction names functions whose answer depends on the server
// connection, which changes from statement to statement.
func refusedFunction(name string) *Error {
	switch strings.ToLower(name) {
	case "get_lock", "release_lock", "release_all_locks", "is_free_lock":
		return notSupported("%s() is only supported in a SELECT or DO without tables, unions, subqueries or hints: take the lock by a statement of its own", strings.ToUpper(name))
	case "is_used_lock":
		return notSupported("IS_USED_LOCK() is not supported, since it would name a connection of a shard: ask IS_FREE_LOCK()")
	case "mysql_query_attribute_string":
		return notSupported("MYSQL_QUERY_ATTRIBUTE_STRING() is not supported, since shards aren't sent query attributes: give the value in the text or as a parameter")
	case "row_count", "found_rows": // where they aren't the session's: see SpliceSession
		return notSupported("%s() is not supported here: shard connections are pooled; use the count that the client library reports", strings.ToUpper(name))
	}
	return nil
}

// clockFunction names those whose value is the statement's time, which Shunt can
// make the same on all shards (Bound.SameTime). SYSDATE() goes its own way.
func clockFunction(name string) bool {
	switch strings.ToLower(name) {
	case "now", "current_timestamp", "curdate", "current_date", "curtime", "current_time", "localtime", "localtimestamp",
		"utc_date", "utc_time", "utc_timestamp", "unix_timestamp":
		return true
	}
	return false
}

// volatileFunction names functions whose value may differ from shard to shard.
func volatileFunction(name string) bool {
	switch strings.ToLower(name) {
	case "rand", "uuid", "uuid_short", "uuid_v4", "uuid_v7", "sys_guid", "random_bytes", "now", "sysdate", "current_timestamp", "curdate", "current_date", "curtime",
		"current_time", "localtime", "localtimestamp", "utc_date", "utc_time", "utc_timestamp", "unix_timestamp",
		"connection_id", "user", "current_user", "session_user", "system_user", "current_role", "last_insert_id",
		"version", "sleep", "load_file", "database", "schema", "encrypt", "nextval", "lastval", "setval", "rownum":
		return true
	}
	return false
}

func (a *analysis) setVolatile(name string) {
	if a.volatile == "" {
		a.volatile = name
	}
}
