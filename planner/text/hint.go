package text

import (
	"strings"
)

// ParseHint reads `/* shunt: shard=NAME */`. Other comments are no hint; a
// comment that begins with `shunt:` and says something else is an error, since
// a misspelt hint that is not heeded would send a write elsewhere.
func ParseHint(text string) (shard string, ok bool, err *Error) {
	body, isBlock := strings.CutPrefix(text, "/*")
	body = strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(body, "-#"), "*/"))
	if len(body) < 6 || !strings.EqualFold(body[:6], "shunt:") {
		return "", false, nil
	}
	if !isBlock {
		return "", false, HintError("hint %q is not understood: write it as /* shunt: shard=NAME */", body)
	}
	rest := strings.TrimSpace(body[6:])
	name, value, found := strings.Cut(rest, "=")
	value = strings.TrimSpace(value)
	if !found || !strings.EqualFold(strings.TrimSpace(name), "shard") || value == "" || strings.ContainsAny(value, " \t\r\n,;") {
		return "", false, HintError("hint %q is not understood: write /* shunt: shard=NAME */", body)
	}
	return value, true, nil
}

// HintError is a SyntaxError about a hint, which no server knows.
func HintError(format string, args ...any) *Error {
	e := SyntaxError(format, args...)
	e.Own = true
	return e
}
