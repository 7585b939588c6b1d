package planner

import (
	"iter"
	"slices"
)

// outside yields the tokens from one to before another that are outside of parentheses.
func (st *statement) outside(from, to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		depth := 0
		for i := from; i < to; i++ {
			switch {
			case st.op(i, "("):
				depth++
			case st.op(i, ")"):
				depth--
			case depth == 0 && !yield(i):
				return
			}
		}
	}
}

// closes is the token that closes the parenthesis at token i; -1 if that is none, or
// nothing does.
func (st *statement) closes(i int) int {
	if !st.op(i, "(") {
		return -1
	}
	for depth := 0; i < len(st.toks); i++ {
		switch {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// topLevel finds the first of reserved words outside of parentheses, from token i on; -1
// where there is none. After a `.` a word is a name, and in USE INDEX FOR ORDER
// BY (x) it begins no clause.
func (st *statement) topLevel(i int, words ...string) int {
	for j := range st.outside(i, len(st.toks)) {
		if !st.op(j-1, ".") && slices.Contains(words, st.word(j)) && (!st.is(j-1, "for") || st.is(j, "for")) {
			return j
		}
	}
	return -1
}

// list cuts a span at its commas. ok is false where a part is empty, or a parenthesis not
// closed.
func (st *statement) list(s span) (out []span, ok bool) {
	depth, from := 0, s.from
	for i := s.from; i < s.to; i++ {
		switch {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			depth--
		case depth == 0 && st.op(i, ","):
			out, from = append(out, span{from, i}), i+1
		}
	}
	out = append(out, span{from, s.to})
	for _, x := range out {
		if x.empty() {
			return nil, false
		}
	}
	return out, depth == 0
}
