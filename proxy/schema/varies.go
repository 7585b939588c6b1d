package schema

import (
	"regexp"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Rule varies: a VIRTUAL column is computed when it is read, by the session that
// reads it. Where other sessions may see other values no index knows its keys.
//
// Counter-example: d DATE AS (DATE(ts)), ts being a TIMESTAMP. A scan reads it in
// UTC, a client with time_zone '+05:00' looks for the next day.

// expression takes apart what information_schema says of a generated column: names
// are in backticks.
var expression = regexp.MustCompile("`(?:[^`]|``)*`|([A-Za-z_][A-Za-z0-9_]*)\\s*\\(|[@/]")

// sameForAll are what a generated column may call and have the same value in every
// session: no clock, time zone, locale, account or variable is in them. A word that
// isn't here makes an index unused, never wrong. The quotient isn't: see
// div_precision_increment.
var sameForAll = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`abs and as ascii between bin bit_length case cast ceil ceiling char char_length character_length coalesce
		concat concat_ws conv convert crc32 date_add decimal div else elt field find_in_set floor greatest hex if ifnull in insert instr
		json_array json_contains json_extract json_length json_object json_quote json_type json_unquote json_valid json_value lcase least left length
		like locate lower lpad ltrim md5 mid mod month nchar not nullif oct octet_length or ord position quarter repeat replace reverse right
		round rpad rtrim sha sha1 sha2 sign space strcmp substr substring substring_index then trim truncate ucase unhex upper varchar when
		binary xor year day dayofmonth dayofyear to_days`) {
		m[w] = true
	}
	return m
}()

// varying notes the columns of a table whose values vary by session.
func (b *builder) varying(t *catalog.Table) {
	for again := true; again; {
		again = false
		for _, c := range t.Columns {
			if c.Virtual && !c.Varies && varies(t, c) {
				c.Varies, again = true, true // and what is computed from it
			}
		}
	}
}

// dates find casts to dates and times; nulls what makes something else of NULL; reads what reads a
// text as a date.
var (
	dates = regexp.MustCompile(`(?i)\b(?:as|returning)\s+(?:date|time)`)
	nulls = regexp.MustCompile(`(?i)\b(?:coalesce|concat_ws|elt|field|if|ifnull|isnull|is|json_\w+|nullif|case)\b|<=>`)
	reads = regexp.MustCompile(`(?i)\b(?:date_add|day|dayofmonth|dayofyear|month|quarter|to_days|year)\s*\(|\binterval\b|` + dates.String()[len("(?i)"):])
)

// Rule dates: MySQL reads '2020-01-01 00:30:00+03:00' in the session's time zone, and whether
// '0000-00-00' is a date or NULL depends on sql_mode, also of a DATE. NULL has no entry, so
// only what makes another value of it is looked for by that value: 0 in a NOT NULL column.
//
// Counter-example: at DATETIME AS (CAST(doc->>'$.at' AS DATETIME)), which is another time for
// a client in another time zone than the scan's. So are at DATETIME AS (text), y INT AS
// (YEAR(text)) and late BOOL AS (text > born).
//
// Rule zeros: a DATE or DATETIME column holds '0000-00-00' for what sql_mode doesn't allow:
// the planner's lookups know that (see Zeros), and what is computed from it varies.
func varies(t *catalog.Table, computed *catalog.Column) bool {
	text, dated := computed.Expression, false
	// An offset needs a colon, which a text column may have.
	texts := strings.Contains(text, ":")
	for _, m := range expression.FindAllStringSubmatch(text, -1) {
		switch word := m[0]; {
		case m[1] != "":
			if !sameForAll[strings.ToLower(m[1])] {
				return true
			}
			texts = texts || strings.EqualFold(m[1], "char") || strings.EqualFold(m[1], "unhex")
		case word[0] == '`':
			c := t.Column(strings.ReplaceAll(word[1:len(word)-1], "``", "`"))
			if c == nil {
				continue
			}
			// A TIME becomes a date by today's.
			typ := strings.ToLower(c.Type)
			if c.Varies || c.Zeros() || strings.HasPrefix(typ, "time") {
				return true
			}
			texts = texts || c.Charset != "" || typ == "json" || strings.Contains(typ, "binary") || strings.Contains(typ, "blob")
			dated = dated || strings.HasPrefix(typ, "date")
		default:
			return true
		}
	}
	typ := strings.ToLower(computed.Type)
	read := dated || strings.HasPrefix(typ, "date") || strings.HasPrefix(typ, "time") || reads.MatchString(text)
	return texts && read || dates.MatchString(text) && (nulls.MatchString(text) || !computed.Nullable)
}
