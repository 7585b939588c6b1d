package planner

import (
	"slices"
	"strings"
)

// text is token i as written.
func (st *statement) text(i int) string {
	if i < 0 || i >= len(st.toks) {
		return ""
	}
	return st.src[st.toks[i].start:st.toks[i].end]
}

// word is token i in lower case where it is an unquoted word, else "".
func (st *statement) word(i int) string {
	if i < 0 || i >= len(st.toks) || st.toks[i].kind != tokWord {
		return ""
	}
	return strings.ToLower(st.text(i))
}

// verb is the first word, at token i, of a statement: of a query in parentheses select.
func (st *statement) verb(i int) string {
	if st.op(i, "(") {
		return "select"
	}
	return st.word(i)
}

// is reports whether token i is the unquoted word w (lower case).
func (st *statement) is(i int, w string) bool {
	if i < 0 || i >= len(st.toks) || st.toks[i].kind != tokWord {
		return false
	}
	t := st.toks[i]
	return int(t.end-t.start) == len(w) && strings.EqualFold(st.src[t.start:t.end], w)
}

// op reports whether token i is the operator o.
func (st *statement) op(i int, o string) bool {
	return i >= 0 && i < len(st.toks) && st.toks[i].kind == tokOp && st.text(i) == o
}

// has reports whether any token is the unquoted word w.
func (st *statement) has(w string) bool {
	for i := range st.toks {
		if st.is(i, w) {
			return true
		}
	}
	return false
}

// identifier is token i as a name, quoted or not.
func (st *statement) identifier(i int) (string, bool) {
	if i < 0 || i >= len(st.toks) {
		return "", false
	}
	text := st.text(i)
	switch st.toks[i].kind {
	case tokWord, tokIntro:
		return text, true
	case tokQuoted:
		q := text[:1]
		return strings.ReplaceAll(text[1:len(text)-1], q+q, q), true
	default:
		return "", false
	}
}

// named reports whether token i is the name, quoted or not, of what doesn't mind case.
func (st *statement) named(i int, name string) bool {
	got, ok := st.identifier(i)
	return ok && strings.EqualFold(got, name)
}

// qualifiedName reads [schema.]table at token i; without a schema it is in the current one, if
// there is one. next is the token that is no name where ok is false.
func (st *statement) qualifiedName(i int) (name TableName, next int, ok bool) {
	first, ok := st.identifier(i)
	if !ok {
		return name, i, false
	}
	if !st.op(i+1, ".") {
		return TableName{Schema: st.settings.Schema, Name: first}, i + 1, true
	}
	second, ok := st.identifier(i + 2)
	if !ok {
		return name, i + 2, false
	}
	return TableName{Schema: first, Name: second}, i + 3, true
}

// tableAt is qualifiedName for what needs a schema.
func (st *statement) tableAt(i int) (name TableName, next int, err *Error) {
	name, next, ok := st.qualifiedName(i)
	switch {
	case !ok:
		return name, i, st.near(next)
	case name.Schema == "":
		return name, i, noDatabase()
	}
	return name, next, nil
}

// near is a syntax error at token i.
func (st *statement) near(i int) *Error {
	if i >= len(st.toks) {
		return syntaxError("You have an error in your SQL syntax: the statement ends too early")
	}
	rest := st.src[st.toks[i].start:]
	if r := []rune(rest); len(r) > 60 {
		rest = string(r[:60]) + "..."
	}
	return syntaxError("You have an error in your SQL syntax near '%s'", rest)
}

// tokenAt finds the token that starts at an offset; -1 if none does.
func (st *statement) tokenAt(offset int) int {
	i, ok := slices.BinarySearchFunc(st.toks, offset, func(t token, offset int) int { return int(t.start) - offset })
	if !ok {
		return -1
	}
	return i
}

// paramAt is the number of the `?` at an offset; -1 if there is none.
func (st *statement) paramAt(offset int) int {
	i, ok := slices.BinarySearch(st.params, uint32(offset))
	if !ok {
		return -1
	}
	return i
}

// between are the tokens of a piece of the text.
func (st *statement) between(from, to uint32) []token {
	i := 0
	for i < len(st.toks) && st.toks[i].start < from {
		i++
	}
	j := i
	for j < len(st.toks) && st.toks[j].end <= to {
		j++
	}
	return st.toks[i:j]
}
