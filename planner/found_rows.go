package planner

// FoundRows says what FOUND_ROWS() tells after a statement.
// https://dev.mysql.com/doc/refman/9.0/en/information-functions.html#function_found-rows
type FoundRows struct {
	Op FoundOp
	// Skipped are the rows that OFFSET leaves out of those that are counted.
	Skipped uint64

	offset *operand
}

// FoundOp is where the number comes from.
type FoundOp uint8

const (
	FoundKept    FoundOp = iota // the statement leaves it as it was
	FoundCounted                // the rows that are answered, and those skipped before them
	FoundAsked                  // only the servers that execute the statement can say
	FoundMatched                // the first number of the answer's info: "Rows matched", "Records"
	FoundOne                    // 1
)

// foundRows reads what FOUND_ROWS() will tell. Without SQL_CALC_FOUND_ROWS a LIMIT
// ends the counting, OFFSET doesn't begin it:
//
//	SELECT id FROM t LIMIT 2      2 of 5 rows
//	SELECT id FROM t LIMIT 1, 2   3
//	SELECT id FROM t LIMIT 9, 2   5
//
// What no server does for other servers' rows is asked of them: they don't agree
// on a UNION with LIMIT, for one.
func (st *statement) foundRows() FoundRows {
	asked, kept, counted := FoundRows{Op: FoundAsked}, FoundRows{}, FoundRows{Op: FoundCounted}
	switch st.verb(0) {
	case "select", "table", "values":
		return st.foundBySelect()
	case "with":
		switch {
		case st.has("update") || st.has("delete"):
			return kept
		case st.has("limit") || st.has("sql_calc_found_rows"):
			return asked
		}
		return counted
	case "show", "desc", "describe":
		if st.countsShown() {
			return counted
		}
	case "do":
		if !st.server.mariaDB {
			return FoundRows{Op: FoundOne}
		}
	case "call":
		return asked
	case "insert", "replace":
		switch {
		case !st.has("select"):
		case st.has("limit") || st.has("sql_calc_found_rows"):
			return asked
		default:
			return FoundRows{Op: FoundMatched}
		}
	case "update":
		set := st.topLevel(1, "set")
		for i := 1; i < set; i++ {
			if st.op(i, ",") || st.is(i, "join") || st.is(i, "straight_join") {
				return asked
			}
		}
		if !st.server.mariaDB {
			return FoundRows{Op: FoundMatched}
		}
	case "delete":
		// DELETE a FROM a JOIN b, DELETE FROM a USING a JOIN b
		from := st.topLevel(1, "from")
		for i := 1; i < from; i++ {
			switch st.word(i) {
			case "low_priority", "quick", "ignore", "history":
			default:
				return asked
			}
		}
		if st.topLevel(1, "using") > 0 {
			return asked
		}
	}
	return kept
}

func (st *statement) foundBySelect() FoundRows {
	asked, counted := FoundRows{Op: FoundAsked}, FoundRows{Op: FoundCounted}
	limits := false
	for i := range st.toks {
		switch st.word(i) {
		case "sql_calc_found_rows", "procedure", "fetch":
			return asked
		case "limit":
			limits = true
		}
	}
	if !limits {
		if st.limitsSelect() && (st.op(0, "(") || st.topLevel(0, "union", "except", "intersect", "minus") >= 0) {
			return asked
		}
		return counted
	}
	limit := st.topLevel(0, "limit")
	switch {
	case st.op(0, "("), !st.is(0, "select"), st.topLevel(0, "union", "except", "intersect", "minus") >= 0:
		return asked
	case limit < 0:
		return counted // of a subquery
	}
	// LIMIT n, LIMIT n, m, LIMIT n OFFSET m
	switch {
	case st.op(limit+2, ","):
		o := st.evalTokens(st.toks[limit+1 : limit+2])
		counted.offset = &o
	case st.is(limit+2, "offset") && limit+3 < len(st.toks):
		o := st.evalTokens(st.toks[limit+3 : limit+4])
		counted.offset = &o
	}
	return counted
}

// countsShown: a SHOW that the servers make a query of counts its rows as one.
func (st *statement) countsShown() bool {
	if !st.is(0, "show") {
		return true
	}
	i := 1
	for st.is(i, "full") || st.is(i, "extended") || st.is(i, "session") || st.is(i, "global") || st.is(i, "local") || st.is(i, "storage") {
		i++
	}
	switch st.word(i) {
	case "databases", "schemas", "tables", "columns", "fields", "index", "indexes", "keys", "status", "variables", "table",
		"open", "triggers", "events", "procedure", "function", "collation", "engines", "plugins", "count":
		return true
	case "character":
		return st.is(i+1, "set")
	}
	return false
}

// bind gives the numbers of this execution.
func (f FoundRows) bind(b *binder) FoundRows {
	if f.offset != nil {
		n, ok := rowCount(f.offset, b)
		if f.Skipped = n; !ok {
			f.Op = FoundAsked
		}
	}
	return f
}
