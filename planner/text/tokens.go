package text

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Text is token i as written.
func (st *Statement) Text(i int) string {
	if i < 0 || i >= len(st.Tokens) {
		return ""
	}
	return st.Src[st.Tokens[i].Start:st.Tokens[i].End]
}

// Word is token i in lower case where it is an unquoted word, else "".
func (st *Statement) Word(i int) string {
	if i < 0 || i >= len(st.Tokens) || st.Tokens[i].Kind != Word {
		return ""
	}
	return strings.ToLower(st.Text(i))
}

// Verb is the first word, at token i, of a statement: of a query in parentheses select.
func (st *Statement) Verb(i int) string {
	if st.Op(i, "(") {
		return "select"
	}
	return st.Word(i)
}

// Is reports whether token i is the unquoted word w (lower case).
func (st *Statement) Is(i int, w string) bool {
	if i < 0 || i >= len(st.Tokens) || st.Tokens[i].Kind != Word {
		return false
	}
	t := st.Tokens[i]
	return int(t.End-t.Start) == len(w) && strings.EqualFold(st.Src[t.Start:t.End], w)
}

// Op reports whether token i is the operator o.
func (st *Statement) Op(i int, o string) bool {
	return i >= 0 && i < len(st.Tokens) && st.Tokens[i].Kind == Operator && st.Text(i) == o
}

// Has reports whether any token is the unquoted word w.
func (st *Statement) Has(w string) bool {
	for i := range st.Tokens {
		if st.Is(i, w) {
			return true
		}
	}
	return false
}

// Identifier is token i as a name, quoted or not.
func (st *Statement) Identifier(i int) (string, bool) {
	if i < 0 || i >= len(st.Tokens) {
		return "", false
	}
	text := st.Text(i)
	switch st.Tokens[i].Kind {
	case Word, Introducer:
		return text, true
	case Quoted:
		q := text[:1]
		return strings.ReplaceAll(text[1:len(text)-1], q+q, q), true
	default:
		return "", false
	}
}

// Named reports whether token i is the name, quoted or not, of what doesn't mind case.
func (st *Statement) Named(i int, name string) bool {
	got, ok := st.Identifier(i)
	return ok && strings.EqualFold(got, name)
}

// QualifiedName reads [schema.]table at token i; without a schema it is in the current one, if
// there is one. next is the token that is no name where ok is false.
func (st *Statement) QualifiedName(i int) (name catalog.TableName, next int, ok bool) {
	first, ok := st.Identifier(i)
	if !ok {
		return name, i, false
	}
	if !st.Op(i+1, ".") {
		return catalog.TableName{Schema: st.Settings.Schema, Name: first}, i + 1, true
	}
	second, ok := st.Identifier(i + 2)
	if !ok {
		return name, i + 2, false
	}
	return catalog.TableName{Schema: first, Name: second}, i + 3, true
}

// TableAt is QualifiedName for what needs a schema.
func (st *Statement) TableAt(i int) (name catalog.TableName, next int, err *Error) {
	name, next, ok := st.QualifiedName(i)
	switch {
	case !ok:
		return name, i, st.Near(next)
	case name.Schema == "":
		return name, i, NoDatabase()
	}
	return name, next, nil
}

// Near is a syntax error at token i.
func (st *Statement) Near(i int) *Error {
	if i >= len(st.Tokens) {
		return SyntaxError("You have an error in your SQL syntax: the statement ends too early")
	}
	rest := st.Src[st.Tokens[i].Start:]
	if r := []rune(rest); len(r) > 60 {
		rest = string(r[:60]) + "..."
	}
	return SyntaxError("You have an error in your SQL syntax near '%s'", rest)
}

// TokenAt finds the token that starts at an offset; -1 if none does.
func (st *Statement) TokenAt(offset int) int {
	i, ok := slices.BinarySearchFunc(st.Tokens, offset, func(t Token, offset int) int { return int(t.Start) - offset })
	if !ok {
		return -1
	}
	return i
}

// ParamAt is the number of the `?` at an offset; -1 if there is none.
func (st *Statement) ParamAt(offset int) int {
	i, ok := slices.BinarySearch(st.Params, uint32(offset))
	if !ok {
		return -1
	}
	return i
}

// Between are the tokens of a piece of the text.
func (st *Statement) Between(from, to uint32) []Token {
	i := 0
	for i < len(st.Tokens) && st.Tokens[i].Start < from {
		i++
	}
	j := i
	for j < len(st.Tokens) && st.Tokens[j].End <= to {
		j++
	}
	return st.Tokens[i:j]
}
