package text

import (
	"strings"
	"unicode/utf8"
)

// Settings are the parts of a session that change what a statement means.
type Settings struct {
	Schema    string // current schema, "" for none
	Charset   string // character_set_client/connection, lower case (utf8mb4, latin1, ...)
	Collation string // collation_connection
	// SQL modes that change parsing or what a literal stores.
	ANSIQuotes, NoBackslashEscapes, PipesAsConcat, IgnoreSpace, HighNotPrecedence bool
	// OddParsing: HIGH_NOT_PRECEDENCE or EMPTY_STRING_IS_NULL is set, which change
	// what a text means that was written without.
	OddParsing bool
	// OwnCollations: character_set_collations is set, by which a character set alone (an
	// introducer, CONVERT) stands for another collation than the catalog's default.
	OwnCollations bool
	// Strict: STRICT_ALL_TABLES or STRICT_TRANS_TABLES is set. Without it the
	// server truncates and clips what it stores.
	Strict bool
	// PadCharToFullLength, NoAutoValueOnZero as the SQL modes of that name.
	PadCharToFullLength, NoAutoValueOnZero bool
	// ComputesOtherwise: a mode is set under which VIRTUAL columns may have other values
	// than scans read.
	ComputesOtherwise bool
	// LimitsSelect: sql_select_limit is set, to SelectLimit.
	LimitsSelect bool
	SelectLimit  uint64
	// Restricted: the client may not see all schemas. Then the rows of
	// information_schema are never left to one shard, which would show all.
	Restricted bool
	// Virtual: virtual columns were put into the text, so that it may name the schema of their values.
	Virtual bool
}

// Unlike says what of the settings has changed by which a text would be read in another way now; "" for
// nothing.
func (s *Settings) Unlike(now *Settings, sql string) (what string) {
	has := func(what string) bool { return strings.Contains(sql, what) }
	switch {
	case s.Charset != now.Charset && strings.ContainsFunc(sql, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "the character set"
	case s.ANSIQuotes != now.ANSIQuotes && has(`"`), s.NoBackslashEscapes != now.NoBackslashEscapes && has(`\`),
		s.PipesAsConcat != now.PipesAsConcat && has("||"), s.OddParsing != now.OddParsing && ContainsFold(sql, "not"):
		return "sql_mode"
	}
	return ""
}

// ContainsFold reports whether s has sub, which is lower case ASCII.
func ContainsFold(s, sub string) bool {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i]|0x20 == sub[0]|0x20 && strings.EqualFold(s[i:i+len(sub)], sub) {
			return true
		}
	}
	return false
}
