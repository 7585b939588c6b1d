package schema

import (
	"regexp"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
)

// Rule varies: a VIRTUAL column is computed when it is read, by the session that
// reads it. Where other sessions may see other values no index knows its keys.
//
// Counter-example: d DATE AS (DATE(ts)), ts being a TIMESTAMP. A scan reads it in
// UTC, a client with time_zone '+05:00' looks for the next day.

// expression takes apart what information_schema says of a generated column: names
// are in backticks.
var expression = regexp.MustCompile("`(?:[^`]|``)*`|([A-Za-z_][A-Za-z0-9_]*)\\s*\\(|[@/]")

// sameForAll reports that a generated column may call name and have the same value in every
// session. A word that isn't known makes an index unused, never wrong. The quotient isn't: see
// div_precision_increment.
func sameForAll(name string) bool { return spoken.SameForAll(name) || operators[name] }

// operators are words before a parenthesis that call no function.
var operators = map[string]bool{
	"and": true, "as": true, "between": true, "case": true, "decimal": true, "else": true, "like": true, "nchar": true, "not": true, "or": true, "then": true, "varchar": true, "when": true,
}

// varying notes the columns of a table whose values vary by session.
func (b *builder) varying(t *catalog.Table) {
	voids := map[*catalog.Column]bool{}
	for again := true; again; {
		again = false
		for _, c := range t.Columns {
			if !c.Virtual || c.Varies {
				continue
			}
			varies, void := b.varies(t, c, voids)
			if varies || void && !voids[c] {
				c.Varies, voids[c], again = varies, void, true // and what is computed from it
			}
		}
	}
}

var (
	// dates find casts to dates and times, nulls what makes something else of NULL, reads what reads a
	// text as a date, passes what has a date's value as its own.
	dates  = regexp.MustCompile(`(?i)\b(?:as|returning)\s+(?:date|time)`)
	nulls  = regexp.MustCompile(`(?i)\b(?:coalesce|concat_ws|elt|field|if|ifnull|isnull|is|json_\w+|nullif|case)\b|<=>|(?:^|[^\w\s])\s*char\s*\(`)
	reads  = regexp.MustCompile(`(?i)\b(?:date_add|day|dayofmonth|dayofyear|month|quarter|to_days|year)\s*\(|\binterval\b|` + dates.String()[len("(?i)"):])
	passes = regexp.MustCompile(`(?i)\b(?:case|ceil|ceiling|coalesce|elt|floor|greatest|if|ifnull|least|nullif|round|truncate)\b`)
	// isNull asks that of a column, lists whether something is in a list.
	isNull = regexp.MustCompile("(?i)(?:^|[(,]|\\b(?:when|and|or|not)\\s+)(`(?:[^`]|``)*`) is (?:not )?null\\b")
	lists  = regexp.MustCompile(`(?i)\bin\s*\(`)
	// likes find LIKE, plainLikes those of a pattern without a backslash. MySQL has one before each quote.
	likes      = regexp.MustCompile(`(?i)\blike\b`)
	plainLikes = regexp.MustCompile(`(?i)\blike\s+(?:_\w+\s*)?\\?'[^'\\]*\\?'`)
	// unsigned finds what is an unsigned number, other than by a column; quoted has no operators in it.
	unsigned = regexp.MustCompile(`(?i)\bunsigned\b|\bcrc32\b|[|&~^]|<<|>>|\b0x|\b[bx]'|\d{19}`)
	quoted   = regexp.MustCompile("`(?:[^`]|``)*`|'[^']*'")
)

// varies tells of a VIRTUAL column whether its value depends on the session, and else whether some
// sessions have NULL (void) where others have a value; voids are the columns known as such.
//
// Rule dates: MySQL reads '2020-01-01 00:30:00+03:00' in the session's time zone, and whether
// '0000-00-00' is a date or NULL depends on sql_mode, also of a DATE whose value passes
// through COALESCE and the like. NULL has no entry, so only what makes another value of it is
// looked for by that value: 0 in a NOT NULL column. Whether a stored column is NULL is alike for all.
//
// Counter-example: at DATETIME AS (CAST(doc->>'$.at' AS DATETIME)), which is another time for
// a client in another time zone than the scan's. So are at DATETIME AS (text), y INT AS
// (YEAR(text)) and late BOOL AS (text > born). On MariaDB day DATE AS (COALESCE(started,
// planned)), started being '0000-00-00', is planned for a client with NO_ZERO_DATE.
//
// Rule zeros: a DATE or DATETIME column holds '0000-00-00' for what sql_mode doesn't allow:
// the planner's lookups know that (see Zeros), and what is computed from it varies.
//
// Rule opened: MySQL makes dates of the strings in a list, and both servers choose an operator's
// type, when a session opens the table: all others then have what its sql_mode says.
//
// Counter-examples: a date IN ('0000-00-00', '1970-01-01'), opened with NO_ZERO_DATE; a LIKE
// 'x\_y', with NO_BACKSLASH_ESCAPES; n - u, u being unsigned, with NO_UNSIGNED_SUBTRACTION,
// which on MySQL fails where it would be otherwise.
func (b *builder) varies(t *catalog.Table, computed *catalog.Column, voids map[*catalog.Column]bool) (varies, void bool) {
	named := func(name string) *catalog.Column {
		return t.Column(strings.ReplaceAll(name[1:len(name)-1], "``", "`"))
	}
	// An offset needs a colon, which a text column may have.
	texts := strings.Contains(computed.Expression, ":")
	text := isNull.ReplaceAllStringFunc(computed.Expression, func(s string) string {
		if c := named(isNull.FindStringSubmatch(s)[1]); c == nil || c.Virtual {
			return s
		}
		return s[:strings.Index(s, "`")]
	})
	dated, void, natural := false, dates.MatchString(text), unsigned.MatchString(text)
	for _, m := range expression.FindAllStringSubmatch(text, -1) {
		switch word := m[0]; {
		case m[1] != "":
			if !sameForAll(strings.ToLower(m[1])) {
				return true, false
			}
			texts = texts || strings.EqualFold(m[1], "char") || strings.EqualFold(m[1], "unhex")
		case word[0] == '`':
			c := named(word)
			if c == nil {
				continue
			}
			// A TIME becomes a date by today's.
			typ := strings.ToLower(c.Type)
			if c.Varies || c.Zeros() || strings.HasPrefix(typ, "time") {
				return true, false
			}
			texts = texts || c.Charset != "" || typ == "json" || strings.Contains(typ, "binary") || strings.Contains(typ, "blob")
			dated = dated || strings.HasPrefix(typ, "date")
			void = void || voids[c]
			natural = natural || strings.Contains(typ, "unsigned") || strings.HasPrefix(typ, "bit") || strings.HasPrefix(typ, "year")
		default:
			return true, false
		}
	}
	typ := strings.ToLower(computed.Type)
	read := dated || strings.HasPrefix(typ, "date") || strings.HasPrefix(typ, "time") || reads.MatchString(text)
	listed := (dated || void) && lists.MatchString(text) && strings.Contains(text, "'")
	escaped := len(likes.FindAllString(text, -1)) > len(plainLikes.FindAllString(text, -1))
	void = void || dated && passes.MatchString(text)
	varies = texts && read || void && (nulls.MatchString(text) || !computed.Nullable) || listed || escaped || b.c.MariaDB && natural && subtracts(text)
	return varies, void
}

// subtracts reports a minus outside of names and strings. Where a string ends isn't clear with a
// backslash in it.
func subtracts(text string) bool {
	if !strings.Contains(text, `\`) {
		text = quoted.ReplaceAllString(text, "")
	}
	return strings.Contains(text, "-")
}
