package advise

import (
	"regexp"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

var (
	insertHead = regexp.MustCompile("(?is)^\\s*(?:insert|replace)\\b.*?\\binto\\s+(?:(`[^`]+`|[\\w$]+)\\s*\\.\\s*)?(`[^`]+`|[\\w$]+)\\s*(?:\\(([^()]*)\\)\\s*)?values?\\b")
	typed      = regexp.MustCompile(`\b(?:DATE|TIME|TIMESTAMP|_[a-z0-9]+|N) \?`)
	literal    = regexp.MustCompile(`\b(ESCAPE|SEPARATOR) \?`) // which takes no parameter
	upperName  = regexp.MustCompile(`\b(FROM|JOIN|INTO|UPDATE) ([A-Z][A-Z0-9_]*)\b|()\b([A-Z][A-Z0-9_]*)( \. )`)
	unit       = regexp.MustCompile(`\bSQL_TSI_([A-Z]+)\b`) // MariaDB's, of MONTH ( ) too
	quotedCall = regexp.MustCompile("([\\w.]+\\s+|[^\\w.\\s]\\s*|^)`(\\w+)` ?\\(")
)

// plannable makes a statement with parameters of a server's digest: `?, ...` and `(...)` stand for
// lists whose lengths it doesn't tell.
//
// What it may get wrong is the number of values alone: an IN list has three, a row of an INSERT as many as
// there are columns.
func plannable(digest, schema string, cat *catalog.Catalog) string {
	sql := strings.ReplaceAll(digest, " /* , ... */", "") // further rows
	sql = upperName.ReplaceAllStringFunc(sql, func(at string) string {
		m := upperName.FindStringSubmatch(at)
		return strings.TrimLeft(m[1]+" "+nameAsMade(m[2]+m[4], schema, cat)+m[5], " ")
	})
	sql = unit.ReplaceAllString(sql, "$1")
	sql = typed.ReplaceAllString(sql, "?")
	sql = literal.ReplaceAllString(sql, "$1 '|'")
	sql = quotedCall.ReplaceAllStringFunc(sql, func(call string) string {
		m := quotedCall.FindStringSubmatch(call)
		if before := strings.ToLower(strings.TrimSpace(m[1])); before == "into" || before == "." || cat.Functions[strings.ToLower(m[2])] {
			return call
		}
		return m[1] + m[2] + "("
	})
	if at := insertHead.FindStringSubmatchIndex(sql); at != nil {
		head, rows := sql[:at[1]], sql[at[1]:]
		width := insertWidth(sql, at, schema, cat)
		odku := len(rows)
		if i := strings.Index(strings.ToUpper(rows), " ON DUPLICATE "); i >= 0 {
			odku = i
		}
		sql = head + filled(rows[:odku], width) + rows[odku:]
	}
	sql = strings.NewReplacer("( ... )", "(?, ?, ?)", "(...)", "(?, ?, ?)", "? , ...", "?, ?", "?, ...", "?, ?", "...", "?").Replace(sql)
	if verb, _, _ := strings.Cut(strings.ToLower(sql), " "); !takesParameters[verb] {
		sql = strings.ReplaceAll(sql, "?", "1") // SET, CREATE TABLE t (c CHAR(10))
	}
	return sql
}

// takesParameters are verbs of statements that Shunt plans with parameters.
var takesParameters = map[string]bool{"select": true, "insert": true, "replace": true, "update": true, "delete": true, "with": true, "(": true, "do": true, "call": true}

// nameAsMade is a table's name, of which a digest that takes it for a keyword has the capitals: HISTORY.
func nameAsMade(name, schema string, cat *catalog.Catalog) string {
	if s := cat.Schemas[schema]; s != nil && s.Tables[name] == nil {
		for _, t := range s.Tables {
			if strings.EqualFold(t.Name, name) {
				return catalog.QuoteName(t.Name)
			}
		}
	}
	return name
}

// filled gives rows of an INSERT the values that `...` stands for. Of several lists in a row the first is the longest: keys
// come first, and what is computed behind them.
func filled(rows string, width int) string {
	var out strings.Builder
	var values []string
	depth, from := 0, 0
	value := func(end int) {
		v := strings.TrimSpace(rows[from:end])
		values, from = append(values, v), end+1
	}
	for i, c := range rows {
		switch {
		case c == '(':
			if depth++; depth == 1 {
				out.WriteString(rows[from : i+1])
				from = i + 1
			}
		case c == ',' && depth == 1:
			value(i)
		case c == ')':
			if depth--; depth != 0 {
				continue
			}
			value(i)
			if len(values) == 1 && values[0] == "?" {
				values[0] = "..."
			}
			lacking := max(0, width-len(values))
			for k, v := range values {
				if v == "..." {
					values[k] = "?" + strings.Repeat(", ?", lacking)
					lacking = 0
				}
			}
			out.WriteString(strings.Join(values, ", ") + ")")
			values = nil
		}
	}
	return out.String() + rows[min(from, len(rows)):]
}

// insertWidth is how many values a row of an INSERT has.
func insertWidth(sql string, at []int, schema string, cat *catalog.Catalog) int {
	part := func(i int) string {
		if at[2*i] < 0 {
			return ""
		}
		return strings.Trim(sql[at[2*i]:at[2*i+1]], "` ")
	}
	if columns := part(3); columns != "" {
		return strings.Count(columns, ",") + 1
	}
	if s := part(1); s != "" {
		schema = s
	}
	if t := cat.Table(schema, part(2)); t != nil && len(t.Columns) > 0 {
		n := 0
		for _, c := range t.Columns {
			if !c.Invisible {
				n++
			}
		}
		return n
	}
	return 1
}
