package text

import (
	"slices"
	"strings"
)

// Span is Tokens[From:To] of a statement.
type Span struct{ From, To int }

// Empty reports a span without tokens.
func (s Span) Empty() bool { return s.From == s.To }

// Offsets are where a span's text begins and ends.
func (st *Statement) Offsets(s Span) (from, to uint32) {
	return st.Tokens[s.From].Start, st.Tokens[s.To-1].End
}

// Fragment is a piece of a derived statement: text of its own, a piece of the
// client's text, or the place of the LIMIT.
type Fragment struct {
	Text     string
	From, To uint32
	Limit    bool
	// All: the place of a LIMIT clause that the shards don't get, but for LIMIT 0.
	All bool
	// Foreign: text of ours that the parser may not know (a character set).
	Foreign bool
}

// CopyOf is the client's text of a span.
func (st *Statement) CopyOf(s Span) Fragment {
	if s.Empty() {
		return Fragment{}
	}
	from, to := st.Offsets(s)
	return Fragment{From: from, To: to}
}

// Edit replaces Src[From:To].
type Edit struct {
	From, To uint32
	With     []Fragment
}

// Derivation is a statement derived from the client's by edits, in order. The text is
// spliced by the offsets of tokens, never restored from a syntax tree: names of columns, hints
// and comments stay the client's.
type Derivation struct {
	frags []Fragment
}

// Derive edits the statement. The edits, which it sorts, must not overlap.
func (st *Statement) Derive(edits []Edit) Derivation {
	slices.SortStableFunc(edits, func(x, y Edit) int { return int(x.From) - int(y.From) })
	var d Derivation
	pos := uint32(0)
	for _, e := range edits {
		d.frags = append(append(d.frags, Fragment{From: pos, To: e.From}), e.With...)
		pos = e.To
	}
	d.frags = append(d.frags, Fragment{From: pos, To: uint32(len(st.Src))})
	return d
}

// Text is the derived statement, and the client's parameters in the order of
// its `?`; nil where they are all of them in their order.
func (d Derivation) Text(src string, params []uint32, limit string) (sql string, order []int) {
	return d.Write(src, params, limit, false)
}

// Write writes NULL for what is foreign to the parser, if it is for it.
func (d Derivation) Write(src string, params []uint32, limit string, forParser bool) (sql string, order []int) {
	var b strings.Builder
	for _, f := range d.frags {
		switch {
		case f.Foreign && forParser:
			b.WriteString("NULL")
		case f.All:
			if limit == "0" {
				b.WriteString("LIMIT 0")
			}
		case f.Limit:
			b.WriteString(limit)
		case f.Text != "":
			b.WriteString(f.Text)
		default:
			b.WriteString(src[f.From:f.To])
			for n, at := range params {
				if at >= f.From && at < f.To {
					order = append(order, n)
				}
			}
		}
	}
	same := len(order) == len(params)
	for i, n := range order {
		same = same && i == n
	}
	if same {
		return b.String(), nil
	}
	if order == nil {
		order = []int{}
	}
	return b.String(), order
}

// RowsApart reports that rows can be taken out of the statement: each executable comment is within one of them, or before
// or behind all.
//
// Counter-example: VALUES (1, 2) /*!80000 , (3, 4) */, whose second row begins inside of one.
func (st *Statement) RowsApart() bool {
	depth, start := 0, uint32(0)
	apart := func(end uint32) bool {
		return end <= st.Rows[0].Start || start >= st.Rows[len(st.Rows)-1].End ||
			slices.ContainsFunc(st.Rows, func(r RowSpan) bool { return r.Start <= start && end <= r.End })
	}
	for _, c := range st.Comments {
		switch c.Kind {
		case ExecutableOpen:
			if depth++; depth == 1 {
				start = c.Start
			}
		case ExecutableClose:
			if depth--; depth == 0 && !apart(c.End) {
				return false
			}
		case Doubtful:
			if start = c.Start; depth > 0 || !apart(c.End) {
				return false
			}
		case PlainComment, OptimizerHint, skippedByAll:
		}
	}
	return depth == 0
}

// Fuses reports an executable comment that runs over some of the text between two
// offsets, or is open before it: where that closes decides.
func (st *Statement) Fuses(from, to uint32) bool {
	return slices.ContainsFunc(st.Comments, func(c Comment) bool {
		return c.Kind.executable() && c.End > from && c.Start < to || c.Kind == ExecutableOpen && c.Start < from
	})
}
