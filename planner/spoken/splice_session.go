package spoken

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// ForSession writes what a shard's connection would tell of itself into a
// statement as values: USER() and its synonyms, CONNECTION_ID(), ROW_COUNT(),
// FOUND_ROWS(), IS_USED_LOCK(), @@warning_count, @@error_count, and timeouts that Shunt keeps (@@wait_timeout).
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
func (t *Text) ForSession(tell func(what string) string) (string, error) {
	sql, cat := t.SQL, t.Catalog
	if !t.mayTell() {
		return sql, nil
	}
	st, err := t.Statement()
	if err != nil || st.Hinted || st.Doubtful || len(st.Tokens) == 0 {
		return sql, nil //nolint:nilerr // planning says it
	}
	w := st.Verb(0)
	switch w {
	case "select", "with":
		if SessionTold(st) != nil {
			return sql, nil
		}
	case "insert", "replace", "update", "delete", "do":
	case "set":
		if st.Has("password") || st.Has("role") {
			return sql, nil
		}
	default:
		return sql, nil
	}
	v := &sessionSplicer{st: st, cat: cat, tell: tell, answers: w == "select" || w == "with"}
	if err := v.read(); err != nil {
		return "", err
	}
	for _, r := range st.Rows { // their tokens are kept apart
		if r.Simple {
			continue
		}
		for _, field := range st.RowColumns(r) {
			row := *st
			row.Tokens = field
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
	text, _ := st.Derive(v.edits).Text(sql, nil, "")
	return text, nil
}

// isCurrent reports that a session's schema can be that of its connections.
func isCurrent(schema string, cat *catalog.Catalog) bool {
	return catalog.IsSystemSchema(schema) || schema != "" && cat.Schema(schema) != nil
}

// AsItIs is told of what the shard's connection tells as well.
const AsItIs = "as it is"

type sessionSplicer struct {
	st      *text.Statement
	cat     *catalog.Catalog
	tell    func(string) string
	answers bool // the statement's columns have names that the client sees
	edits   []text.Edit
}

// read goes over the text once. In the select list of the outermost block an item
// gets its text as alias; in one of another block, whose names others may use, it
// is refused.
func (v *sessionSplicer) read() *text.Error {
	st := v.st
	lists := []bool{false} // by depth: in a select list
	nested := 0            // depths whose select list is open, but for the first
	item, spliced := -1, false
	end := func(i int) *text.Error {
		if item >= 0 && spliced && v.answers {
			if err := v.alias(item, i); err != nil {
				return err
			}
		}
		item, spliced = -1, false
		return nil
	}
	for i := 0; i < len(st.Tokens); i++ {
		top := len(lists) - 1
		switch w := st.Word(i); {
		case st.Op(i, "("):
			lists = append(lists, false)
			continue
		case st.Op(i, ")"):
			if top > 0 {
				if lists[top] {
					nested--
				}
				lists = lists[:top]
			}
			continue
		case w == "select" && !st.Op(i-1, "."):
			if top > 0 && !lists[top] {
				nested++
			}
			lists[top] = true
			if top == 0 {
				for i+1 < len(st.Tokens) && SelectOption(st.Word(i+1)) {
					i++
				}
				item = i + 1
			}
			continue
		case lists[top] && !st.Op(i-1, ".") && (w == "from" || w == "where" || w == "union" || w == "except" || w == "intersect" || w == "order" || w == "limit" || w == "into" || w == "having" || w == "for"):
			lists[top] = false
			if top > 0 {
				nested--
			} else if err := end(i); err != nil {
				return err
			}
			continue
		case top == 0 && lists[0] && st.Op(i, ","):
			if err := end(i); err != nil {
				return err
			}
			item = i + 1
			continue
		}
		if st.Op(i-1, ".") || st.Is(0, "set") && top == 0 && (i == 1 || st.Op(i-1, ",")) {
			continue // or what SET assigns to: SET @@session.wait_timeout = 2
		}
		told, next := toldAt(st, i)
		switch {
		case next == i || told.What == "schema" && isCurrent(st.Settings.Schema, v.cat):
			continue
		case nested > 0 && v.answers:
			return text.NotSupported("%s in the select list of a subquery, derived table or CTE is not supported: select it in a statement of its own, and write the value", told.Label)
		}
		value := v.tell(told.What)
		if value == AsItIs {
			continue
		}
		value = toldExpression(st, told.What, value, v.answers && item >= 0)
		from, to := st.Offsets(text.Span{From: i, To: next})
		v.edits = append(v.edits, text.Edit{From: from, To: to, With: []text.Fragment{{Text: value}}})
		spliced = spliced || item >= 0
		i = next - 1
	}
	return end(len(st.Tokens))
}

// toldExpression is an expression of a value that was told. In a select list it is of the type, length,
// collation and coercibility of what a server would tell of itself. Elsewhere it is a literal, by
// which rows can be found, of the server's character set.
//
// Counter-example: WHERE USER() = 'x' of a client with utf8mb4_unicode_ci: with a text of utf8mb4 and
// its default collation 'x' doesn't mix (1267).
func toldExpression(st *text.Statement, what, value string, shown bool) string {
	mariaDB := st.Server.MariaDB
	switch what {
	case "schema": // a pooled connection may have another session's
		switch name := st.Settings.Schema; {
		case shown && name == "":
			return "IF(FALSE, RPAD(VERSION(), 64, ' '), NULL)"
		case shown:
			return toldText(name, 64)
		case name == "":
			return "CONCAT(CAST(NULL AS CHAR(64)))"
		default:
			return toldLiteral(name)
		}
	case "user":
		switch {
		case !shown:
			return toldLiteral(value)
		case mariaDB:
			return toldText(value, 384)
		}
		return toldText(value, 288)
	case "completion_type", "resultset_metadata", "gtid_mode", "gtid_executed", "gtid_purged", "gtid_owned", "shunt_read_from", "shunt_virtual_columns", "shunt_index_reads":
		switch {
		case !shown:
			return toldLiteral(value)
		case mariaDB:
			return toldText(value, len(value))
		}
		return toldText(value, 21845)
	case "autocommit":
		// The type of the variable itself, and the length on MySQL.
		return map[string]string{
			"0": "LEAST(@@autocommit, @@autocommit IS NULL)", "1": "GREATEST(@@autocommit, @@autocommit IS NOT NULL)",
		}[value]
	case "row_count", "found_rows":
		// A number alone would be a column's place behind ORDER BY.
		// Servers type a text of 21 characters as they do the function.
		sign, digits := "+", value
		if rest, negative := strings.CutPrefix(value, "-"); negative {
			sign, digits = "-", rest
		}
		return "CAST('" + sign + strings.Repeat("0", 20-len(digits)) + digits + "' AS SIGNED)"
	}
	if strings.HasPrefix(what, usedLock) {
		if mariaDB {
			return "IF(FALSE, LENGTH(''), " + cmp.Or(value, "NULL") + ")"
		}
		if value == "" {
			return "IF(FALSE, CAST('" + strings.Repeat("0", 21) + "' AS UNSIGNED), NULL)"
		}
		return "IF(FALSE, NULL, CAST('" + strings.Repeat("0", 21-len(value)) + value + "' AS UNSIGNED))"
	}
	padded := "CAST('" + strings.Repeat("0", 21-len(value)) + value + "' AS UNSIGNED)"
	switch id := what == "connection_id"; {
	case !shown && what != "sql_select_limit":
		return value
	case id && mariaDB:
		return "IF(FALSE, CRC32(''), CAST(" + value + " AS UNSIGNED))"
	case id:
		return padded
	case mariaDB:
		return "IF(FALSE, NULL, " + value + " | 0)"
	}
	return "IF(FALSE, NULL, " + padded + ")"
}

// toldText is a text of up to so many characters, of the kind that servers have of themselves, as
// VERSION() is.
func toldText(value string, length int) string {
	literal := toldLiteral(value)
	if !strings.ContainsFunc(value, func(r rune) bool { return r > 0x7f }) {
		literal = "_ascii" + strings.TrimPrefix(literal, "_utf8mb3") // MySQL warns of utf8mb3
	}
	return "IF(FALSE, RPAD(VERSION(), " + strconv.Itoa(length) + ", ' '), " + literal + ")"
}

func toldLiteral(value string) string {
	charset := "_utf8mb3"
	if strings.ContainsFunc(value, func(r rune) bool { return r > 0xffff }) {
		charset = "_utf8mb4"
	}
	return charset + " X'" + hex.EncodeToString([]byte(value)) + "'"
}

// alias names the item of tokens from to to by its text, if it has no name.
func (v *sessionSplicer) alias(from, to int) *text.Error {
	st := v.st
	if from >= to {
		return nil
	}
	last, before := to-1, to-2
	if before >= from {
		_, named := st.Identifier(last)
		kept := []string{"end", "null", "true", "false", "unknown"}
		operator := []string{"collate", "div", "mod", "and", "or", "xor", "not", "like", "is", "regexp", "rlike", "between", "binary", "interval"}
		_, afterName := st.Identifier(before)
		ends := st.Op(before, ")") || afterName && !slices.Contains(operator, st.Word(before)) ||
			st.Tokens[before].Kind == text.String || st.Tokens[before].Kind == text.Int || st.Tokens[before].Kind == text.Decimal || st.Tokens[before].Kind == text.Variable
		if st.Is(before, "as") || named && ends && !slices.Contains(kept, st.Word(last)) && !st.Is(last, "current_user") {
			return nil
		}
	}
	a, b := st.Offsets(text.Span{From: from, To: to})
	if b-a > 255 {
		return text.NotSupported("a column of more than 255 characters that asks for the session (USER(), @@warning_count) needs an alias: write AS name behind it")
	}
	v.edits = append(v.edits, text.Edit{From: b, To: b, With: []text.Fragment{{Text: " AS " + catalog.QuoteName(st.Src[a:b])}}})
	return nil
}

// SelectOption: what may stand between SELECT and the first expression.
func SelectOption(w string) bool {
	switch w {
	case "all", "distinct", "distinctrow", "high_priority", "straight_join", "sql_small_result", "sql_big_result",
		"sql_buffer_result", "sql_no_cache", "sql_cache", "sql_calc_found_rows":
		return true
	}
	return false
}
