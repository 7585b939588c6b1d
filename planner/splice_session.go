package planner

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// SpliceSession writes what a shard's connection would tell of itself into a
// statement as values: USER() and its synonyms, CONNECTION_ID(), ROW_COUNT(),
// FOUND_ROWS(), @@warning_count, @@error_count, and timeouts that Shunt keeps (@@wait_timeout).
// tell says what they are, by Told.What, or AsItIs. A column that
// the client would see under the expression's text keeps that name.
//
//	SELECT id, USER() FROM t     SELECT id, _utf8mb4 X'61..' AS `USER()` FROM t
//
// DATABASE() is the connection's too, unless the session has none, where a connection
// that had one keeps it, or one that somebody has dropped.
//
// The text stays as it is where it has none, or where planning it says better what
// is wrong. What views, triggers and stored functions ask for stays the shard's.
func SpliceSession(sql string, s Settings, cat *catalog.Catalog, tell func(what string) string) (string, error) {
	st, err := lexStatement(sql, s, cat)
	if err != nil || st.hinted || st.doubtful || len(st.toks) == 0 {
		return sql, nil //nolint:nilerr // planning says it
	}
	w := st.verb(0)
	switch w {
	case "select", "with":
		if st.tellSession() != nil {
			return sql, nil
		}
	case "insert", "replace", "update", "delete", "do":
	case "set":
		if st.has("password") || st.has("role") {
			return sql, nil
		}
	default:
		return sql, nil
	}
	v := &sessionSplicer{st: st, cat: cat, tell: tell, answers: w == "select" || w == "with"}
	if err := v.read(); err != nil {
		return "", err
	}
	for _, r := range st.rows { // their tokens are kept apart
		if r.simple {
			continue
		}
		for _, field := range st.rowColumns(r) {
			row := *st
			row.toks = field
			x := &sessionSplicer{st: &row, cat: cat, tell: tell}
			if err := x.read(); err != nil {
				return "", err
			}
			v.edits = append(v.edits, x.edits...)
		}
	}
	if len(v.edits) == 0 {
		return sql, nil
	}
	text, _ := st.derive(v.edits).text(sql, nil, "")
	return text, nil
}

// IsCurrent reports that a session's schema can be that of its connections.
func IsCurrent(schema string, cat *catalog.Catalog) bool {
	return catalog.IsSystemSchema(schema) || schema != "" && cat.Schema(schema) != nil
}

// AsItIs is told of what the shard's connection tells as well.
const AsItIs = "as it is"

type sessionSplicer struct {
	st      *statement
	cat     *catalog.Catalog
	tell    func(string) string
	answers bool // the statement's columns have names that the client sees
	edits   []edit
}

// read goes over the text once. In the select list of the outermost block an item
// gets its text as alias; in one of another block, whose names others may use, it
// is refused.
func (v *sessionSplicer) read() *Error {
	st := v.st
	lists := []bool{false} // by depth: in a select list
	nested := 0            // depths whose select list is open, but for the first
	item, spliced := -1, false
	end := func(i int) *Error {
		if item >= 0 && spliced && v.answers {
			if err := v.alias(item, i); err != nil {
				return err
			}
		}
		item, spliced = -1, false
		return nil
	}
	for i := 0; i < len(st.toks); i++ {
		top := len(lists) - 1
		switch w := st.word(i); {
		case st.op(i, "("):
			lists = append(lists, false)
			continue
		case st.op(i, ")"):
			if top > 0 {
				if lists[top] {
					nested--
				}
				lists = lists[:top]
			}
			continue
		case w == "select" && !st.op(i-1, "."):
			if top > 0 && !lists[top] {
				nested++
			}
			lists[top] = true
			if top == 0 {
				for i+1 < len(st.toks) && selectOption(st.word(i+1)) {
					i++
				}
				item = i + 1
			}
			continue
		case lists[top] && !st.op(i-1, ".") && (w == "from" || w == "where" || w == "union" || w == "except" || w == "intersect" || w == "order" || w == "limit" || w == "into" || w == "having" || w == "for"):
			lists[top] = false
			if top > 0 {
				nested--
			} else if err := end(i); err != nil {
				return err
			}
			continue
		case top == 0 && lists[0] && st.op(i, ","):
			if err := end(i); err != nil {
				return err
			}
			item = i + 1
			continue
		}
		if st.op(i-1, ".") || st.is(0, "set") && top == 0 && (i == 1 || st.op(i-1, ",")) {
			continue // or what SET assigns to: SET @@session.wait_timeout = 2
		}
		told, next := st.toldAt(i)
		switch {
		case next == i || told.What == "schema" && IsCurrent(st.settings.Schema, v.cat):
			continue
		case nested > 0 && v.answers:
			return notSupported("%s in the select list of a subquery, derived table or CTE is not supported: select it in a statement of its own, and write the value", told.Label)
		}
		value := v.tell(told.What)
		if value == AsItIs {
			continue
		}
		switch told.What {
		case "schema": // a pooled connection may have another session's
			value = "CONCAT(CAST(NULL AS CHAR(64)))"
			if name := st.settings.Schema; name != "" {
				value = "CAST(_utf8mb4 X'" + hex.EncodeToString([]byte(name)) + "' AS CHAR(64))"
			}
		case "resultset_metadata", "gtid_mode", "gtid_executed", "gtid_purged", "gtid_owned":
			value = "'" + value + "'"
		case "user", "completion_type":
			value = "_utf8mb4 X'" + hex.EncodeToString([]byte(value)) + "'"
		case "sql_select_limit":
			value = "CAST('" + strings.Repeat("0", 20-len(value)) + value + "' AS UNSIGNED)"
		case "shunt_read_from":
			value = "'" + value + "'"
		case "autocommit":
			// The type of the variable itself, and the length on MySQL.
			value = map[string]string{
				"0": "LEAST(@@autocommit, @@autocommit IS NULL)", "1": "GREATEST(@@autocommit, @@autocommit IS NOT NULL)",
			}[value]
		case "row_count", "found_rows":
			// A number alone would be a column's place behind ORDER BY.
			// Servers type a text of 21 characters as they do the function.
			sign, digits := "+", value
			if rest, negative := strings.CutPrefix(value, "-"); negative {
				sign, digits = "-", rest
			}
			value = "CAST('" + sign + strings.Repeat("0", 20-len(digits)) + digits + "' AS SIGNED)"
		}
		from, to := st.offsets(span{i, next})
		v.edits = append(v.edits, edit{from, to, []frag{{text: value}}})
		spliced = spliced || item >= 0
		i = next - 1
	}
	return end(len(st.toks))
}

// alias names the item of tokens from to to by its text, if it has no name.
func (v *sessionSplicer) alias(from, to int) *Error {
	st := v.st
	if from >= to {
		return nil
	}
	last, before := to-1, to-2
	if before >= from {
		_, named := st.identifier(last)
		kept := []string{"end", "null", "true", "false", "unknown"}
		operator := []string{"collate", "div", "mod", "and", "or", "xor", "not", "like", "is", "regexp", "rlike", "between", "binary", "interval"}
		_, afterName := st.identifier(before)
		ends := st.op(before, ")") || afterName && !slices.Contains(operator, st.word(before)) ||
			st.toks[before].kind == tokString || st.toks[before].kind == tokInt || st.toks[before].kind == tokDecimal || st.toks[before].kind == tokVar
		if st.is(before, "as") || named && ends && !slices.Contains(kept, st.word(last)) && !st.is(last, "current_user") {
			return nil
		}
	}
	a, b := st.offsets(span{from, to})
	if b-a > 255 {
		return notSupported("a column of more than 255 characters that asks for the session (USER(), @@warning_count) needs an alias: write AS name behind it")
	}
	v.edits = append(v.edits, edit{b, b, []frag{{text: " AS " + catalog.QuoteName(st.src[a:b])}}})
	return nil
}
