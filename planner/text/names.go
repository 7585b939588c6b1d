package text

import (
	"slices"
	"strings"
)

// Calls reports a call of a function.
func (st *Statement) Calls(name string) bool {
	for i := range st.Tokens {
		if st.Is(i, name) && st.Op(i+1, "(") && !st.Op(i-1, ".") {
			return true
		}
	}
	return false
}

// UserVariable is the name (lower case) of the user variable at token i.
func (st *Statement) UserVariable(i int) (string, bool) {
	if st.Tokens[i].Kind != Variable {
		return "", false
	}
	name := st.Text(i)[1:]
	if strings.HasPrefix(name, "@") {
		return "", false
	}
	switch q := name[:min(1, len(name))]; q {
	case "`":
		name = strings.ReplaceAll(name[1:len(name)-1], "``", q)
	case "'", `"`:
		quoted := st.Tokens[i]
		quoted.Start++ // behind the @
		name = string(st.Unescape(quoted))
	}
	return strings.ToLower(name), true
}

// UserVariables are those that the statement names.
func (st *Statement) UserVariables() (names []string) {
	for i := range st.Tokens {
		if v, ok := st.UserVariable(i); ok && !slices.Contains(names, v) {
			names = append(names, v)
		}
	}
	return names
}

// LiteralText is the value of one literal or bare word.
func (st *Statement) LiteralText(i, end int) (string, bool) {
	switch t := st.Tokens[i]; {
	case end-i == 1 && t.Kind == String:
		return string(st.Unescape(t)), true
	case end-i == 1 && (t.Kind == Word || t.Kind == Int || t.Kind == Decimal || t.Kind == Float):
		return st.Text(i), true
	case end-i == 1 && t.Kind == Quoted:
		return st.Identifier(i)
	case end-i == 2 && st.Op(i, "-") && (st.Tokens[i+1].Kind == Int || st.Tokens[i+1].Kind == Decimal):
		return "-" + st.Text(i+1), true
	}
	return "", false
}

// TopLevelComma finds a comma outside of parentheses.
func (st *Statement) TopLevelComma() bool {
	for i := range st.Outside(0, len(st.Tokens)) {
		if st.Op(i, ",") {
			return true
		}
	}
	return false
}

// HasIn reports whether one of some names is among tokens i to j.
func (st *Statement) HasIn(i, j int, names ...string) bool {
	for ; i < j; i++ {
		if name, ok := st.Identifier(i); ok && slices.Contains(names, strings.ToLower(name)) {
			return true
		}
	}
	return false
}
