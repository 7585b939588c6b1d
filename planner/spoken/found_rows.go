package spoken

import (
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// FoundRows reads what FOUND_ROWS() will tell. Without SQL_CALC_FOUND_ROWS a LIMIT
// ends the counting, OFFSET doesn't begin it:
//
//	SELECT id FROM t LIMIT 2      2 of 5 rows
//	SELECT id FROM t LIMIT 1, 2   3
//	SELECT id FROM t LIMIT 9, 2   5
//
// What no server does for other servers' rows is asked of them: they don't agree
// on a UNION with LIMIT, for one.
func FoundRows(st *text.Statement) plan.FoundRows {
	asked, kept, counted := plan.FoundRows{Op: plan.FoundAsked}, plan.FoundRows{}, plan.FoundRows{Op: plan.FoundCounted}
	switch st.Verb(0) {
	case "select", "table", "values":
		return foundBySelect(st)
	case "with":
		switch {
		case st.Has("update") || st.Has("delete"):
			return kept
		case st.Has("limit") || st.Has("sql_calc_found_rows"):
			return asked
		}
		return counted
	case "show", "desc", "describe":
		if countsShown(st) {
			return counted
		}
	case "do":
		if !st.Server.MariaDB {
			return plan.FoundRows{Op: plan.FoundOne}
		}
	case "call":
		return asked
	case "insert", "replace":
		switch {
		case !st.Has("select"):
		case st.Has("limit") || st.Has("sql_calc_found_rows"):
			return asked
		default:
			return plan.FoundRows{Op: plan.FoundMatched}
		}
	case "update":
		set := st.TopLevel(1, "set")
		for i := 1; i < set; i++ {
			if st.Op(i, ",") || st.Is(i, "join") || st.Is(i, "straight_join") {
				return asked
			}
		}
		if !st.Server.MariaDB {
			return plan.FoundRows{Op: plan.FoundMatched}
		}
	case "delete":
		// DELETE a FROM a JOIN b, DELETE FROM a USING a JOIN b
		from := st.TopLevel(1, "from")
		for i := 1; i < from; i++ {
			switch st.Word(i) {
			case "low_priority", "quick", "ignore", "history":
			default:
				return asked
			}
		}
		if st.TopLevel(1, "using") > 0 {
			return asked
		}
	}
	return kept
}

func foundBySelect(st *text.Statement) plan.FoundRows {
	asked, counted := plan.FoundRows{Op: plan.FoundAsked}, plan.FoundRows{Op: plan.FoundCounted}
	limits := false
	for i := range st.Tokens {
		switch st.Word(i) {
		case "sql_calc_found_rows", "procedure", "fetch":
			return asked
		case "limit":
			limits = true
		}
	}
	if !limits {
		if st.Settings.LimitsSelect && (st.Op(0, "(") || st.TopLevel(0, "union", "except", "intersect", "minus") >= 0) {
			return asked
		}
		return counted
	}
	limit := st.TopLevel(0, "limit")
	switch {
	case st.Op(0, "("), !st.Is(0, "select"), st.TopLevel(0, "union", "except", "intersect", "minus") >= 0:
		return asked
	case limit < 0:
		return counted // of a subquery
	}
	// LIMIT n, LIMIT n, m, LIMIT n OFFSET m
	switch {
	case st.Op(limit+2, ","):
		o := st.Evaluate(st.Tokens[limit+1 : limit+2])
		counted.Offset = &o
	case st.Is(limit+2, "offset") && limit+3 < len(st.Tokens):
		o := st.Evaluate(st.Tokens[limit+3 : limit+4])
		counted.Offset = &o
	}
	return counted
}

// countsShown: a SHOW that the servers make a query of counts its rows as one.
func countsShown(st *text.Statement) bool {
	if !st.Is(0, "show") {
		return true
	}
	i := 1
	for st.Is(i, "full") || st.Is(i, "extended") || st.Is(i, "session") || st.Is(i, "global") || st.Is(i, "local") || st.Is(i, "storage") {
		i++
	}
	switch st.Word(i) {
	case "databases", "schemas", "tables", "columns", "fields", "index", "indexes", "keys", "status", "variables", "table",
		"open", "triggers", "events", "procedure", "function", "collation", "engines", "plugins", "count":
		return true
	case "character":
		return st.Is(i+1, "set")
	}
	return false
}
