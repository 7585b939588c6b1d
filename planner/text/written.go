package text

import (
	"strings"
	"unicode/utf8"

	"github.com/shunt-sql/shunt/planner/keys"
)

// Written is a piece of the client's text with literals for its parameters.
func (st *Statement) Written(from, to uint32, params []keys.Value) string {
	var b strings.Builder
	var places []Parameter
	begin := from
	for n, at := range st.Params {
		if at < from || at >= to || n >= len(params) {
			continue
		}
		if places == nil {
			places = parameters(st.Src[begin:to], st.Settings, st.Server)
		}
		p := &Parameter{}
		for ; len(places) > 0 && places[0].At <= int(at-begin); places = places[1:] {
			p = &places[0]
		}
		b.WriteString(st.Src[from:at])
		b.WriteString(" " + p.write(st, params[n]) + " ")
		from = at + 1
	}
	b.WriteString(st.Src[from:to])
	return b.String()
}

// Literal is a parameter's value as the client could have written it. A text has no
// introducer where that can be: a parameter has the session's collation, as such a
// literal has, and _utf8mb4'a' the character set's default one.
//
// Counter-example: SET NAMES utf8mb4 COLLATE utf8mb4_bin; ? = ? with 'a' and 'A' is
// false, _utf8mb4'a' = _utf8mb4'A' true.
//
// A DECIMAL keeps its digits, which a text shows that it is stored in: 1.50.
func (st *Statement) Literal(v keys.Value) string {
	if digits, ok := v.AsDecimal(); ok {
		return digits
	}
	text, charset, ok := v.AsText()
	if !ok {
		return v.Literal()
	}
	escapes := !st.Settings.NoBackslashEscapes
	switch odd := strings.ContainsAny(text, `'\`); {
	case strings.Contains(text, "\x00") && !escapes,
		!IsASCII(text) && (HidesASCII(charset) || charset == keys.UnknownCharset && odd),
		strings.HasPrefix(charset, "utf8") && !utf8.ValidString(text):
		return v.Literal()
	}
	text = strings.ReplaceAll(text, "'", "''")
	if escapes {
		text = strings.NewReplacer(`\`, `\\`, "\x00", `\0`).Replace(text)
	}
	return "'" + text + "'"
}
