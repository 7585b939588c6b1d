package text

import (
	"iter"
	"slices"
)

// Outside yields the tokens from one to before another that are outside of parentheses.
func (st *Statement) Outside(from, to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		depth := 0
		for i := from; i < to; i++ {
			switch {
			case st.Op(i, "("):
				depth++
			case st.Op(i, ")"):
				depth--
			case depth == 0 && !yield(i):
				return
			}
		}
	}
}

// Closes is the token that closes the parenthesis at token i; -1 if that is none, or
// nothing does.
func (st *Statement) Closes(i int) int {
	if !st.Op(i, "(") {
		return -1
	}
	for depth := 0; i < len(st.Tokens); i++ {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// TopLevel finds the first of reserved words outside of parentheses, from token i on; -1
// where there is none. After a `.` a word is a name, and in USE INDEX FOR ORDER
// BY (x) it begins no clause.
func (st *Statement) TopLevel(i int, words ...string) int {
	for j := range st.Outside(i, len(st.Tokens)) {
		if !st.Op(j-1, ".") && slices.Contains(words, st.Word(j)) && (!st.Is(j-1, "for") || st.Is(j, "for")) {
			return j
		}
	}
	return -1
}

// List cuts a span at its commas. ok is false where a part is empty, or a parenthesis not
// closed.
func (st *Statement) List(s Span) (out []Span, ok bool) {
	depth, from := 0, s.From
	for i := s.From; i < s.To; i++ {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		case depth == 0 && st.Op(i, ","):
			out, from = append(out, Span{from, i}), i+1
		}
	}
	out = append(out, Span{from, s.To})
	for _, x := range out {
		if x.Empty() {
			return nil, false
		}
	}
	return out, depth == 0
}
