package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// clauses are the parts of a SELECT in its text, as token numbers: a part is
// toks[from:to].
type clauses struct {
	items []span // of the select list, each with its alias
	from  int    // where the select list ends
	// group, having, order and limit begin with their keyword; empty where the
	// statement has none.
	group, having, order, limit span
	groups, orders              []span // the expressions, without ASC and DESC
	// end is where the clauses end: FOR UPDATE, LOCK IN SHARE MODE or the
	// statement's end follow.
	end int
}

// span is toks[from:to].
type span struct{ from, to int }

func (s span) empty() bool { return s.from == s.to }

// clausesOf finds a SELECT's clauses. ok is false where the text is not laid
// out as the tree is: better no merge than a derived text of another meaning.
func (st *statement) clausesOf(sel *ast.SelectStmt) (c clauses, ok bool) {
	for _, x := range st.comments {
		if x.kind == execOpen || x.kind == execClose {
			return c, false // a piece of text may end within it
		}
	}
	first := st.topLevel(0, "select")
	if first < 0 || first > 0 && !st.is(0, "with") {
		return c, false
	}
	c.from = first + 1
	for c.from < len(st.toks) && selectOption(st.word(c.from)) {
		c.from++
	}
	start := c.from
	c.end = len(st.toks)
	// The keywords come in this order, each at most once.
	at := map[string]int{}
	pos := start
	for _, w := range []string{"from", "where", "group", "having", "window", "order", "limit"} {
		if i := st.topLevel(pos, w); i >= 0 {
			at[w], pos = i, i+1
		}
	}
	for i := pos; i < len(st.toks); i++ {
		// After an index name list: USE INDEX FOR ORDER BY (i).
		if i = st.topLevel(i, "for", "lock"); i < 0 {
			break
		}
		if !st.is(i-1, "index") && !st.is(i-1, "key") {
			c.end = i
			break
		}
	}
	ends := func(after string) int {
		best := c.end
		for _, i := range at {
			if i > at[after] && i < best {
				best = i
			}
		}
		return best
	}
	clause := func(w string) span {
		if i, found := at[w]; found {
			return span{i, ends(w)}
		}
		return span{}
	}
	c.group, c.having, c.order, c.limit = clause("group"), clause("having"), clause("order"), clause("limit")
	from, hasFrom := at["from"]
	if !hasFrom {
		return c, false
	}
	c.from = from
	if c.items, ok = st.list(span{start, from}); !ok || len(c.items) != len(sel.Fields.Fields) {
		return c, false
	}
	if (sel.GroupBy != nil) == c.group.empty() || (sel.Having != nil) == c.having.empty() ||
		(sel.OrderBy != nil) == c.order.empty() || (sel.Limit != nil) == c.limit.empty() {
		return c, false
	}
	if sel.GroupBy != nil {
		if !st.is(c.group.from+1, "by") {
			return c, false
		}
		if c.groups, ok = st.list(span{c.group.from + 2, c.group.to}); !ok || len(c.groups) != len(sel.GroupBy.Items) {
			return c, false
		}
	}
	if sel.OrderBy != nil {
		if !st.is(c.order.from+1, "by") {
			return c, false
		}
		if c.orders, ok = st.list(span{c.order.from + 2, c.order.to}); !ok || len(c.orders) != len(sel.OrderBy.Items) {
			return c, false
		}
		for i, s := range c.orders {
			if st.is(s.to-1, "asc") || st.is(s.to-1, "desc") {
				c.orders[i].to--
			}
			if c.orders[i].empty() || st.is(s.to-1, "desc") != sel.OrderBy.Items[i].Desc {
				return c, false
			}
		}
	}
	return c, true
}

// selectOption: what may stand between SELECT and the first expression.
func selectOption(w string) bool {
	switch w {
	case "all", "distinct", "distinctrow", "high_priority", "straight_join", "sql_small_result", "sql_big_result",
		"sql_buffer_result", "sql_no_cache", "sql_cache", "sql_calc_found_rows":
		return true
	}
	return false
}

// expression is a select item without its alias.
func (st *statement) expression(item span, f *ast.SelectField) (span, bool) {
	if f.AsName.O == "" {
		return item, true
	}
	if name, ok := st.identifier(item.to - 1); !ok || !strings.EqualFold(name, f.AsName.O) {
		return item, false // an alias that is a string, or none at its end
	}
	item.to--
	if st.is(item.to-1, "as") {
		item.to--
	}
	return item, !item.empty()
}

// offsets are where a span's text begins and ends.
func (st *statement) offsets(s span) (from, to uint32) {
	return st.toks[s.from].start, st.toks[s.to-1].end
}

// frag is a piece of a derived statement: text of its own, a piece of the
// client's text, or the place of the LIMIT.
type frag struct {
	text     string
	from, to uint32
	limit    bool
	// all: the place of a LIMIT clause that the shards don't get, but for LIMIT 0.
	all bool
	// foreign: text of ours that the parser may not know (a character set).
	foreign bool
}

func (st *statement) copyOf(s span) frag {
	if s.empty() {
		return frag{}
	}
	from, to := st.offsets(s)
	return frag{from: from, to: to}
}

// edit replaces src[from:to].
type edit struct {
	from, to uint32
	with     []frag
}

// derivation is a statement derived from the client's by edits, in order.
type derivation struct {
	frags []frag
}

func (st *statement) derive(edits []edit) derivation {
	slices.SortStableFunc(edits, func(x, y edit) int { return int(x.from) - int(y.from) })
	var d derivation
	pos := uint32(0)
	for _, e := range edits {
		d.frags = append(append(d.frags, frag{from: pos, to: e.from}), e.with...)
		pos = e.to
	}
	d.frags = append(d.frags, frag{from: pos, to: uint32(len(st.src))})
	return d
}

// text is the derived statement, and the client's parameters in the order of
// its `?`; nil where they are all of them in their order.
func (d derivation) text(src string, params []uint32, limit string) (sql string, order []int) {
	return d.write(src, params, limit, false)
}

// write writes NULL for what is foreign to the parser, if it is for it.
func (d derivation) write(src string, params []uint32, limit string, forParser bool) (sql string, order []int) {
	var b strings.Builder
	for _, f := range d.frags {
		switch {
		case f.foreign && forParser:
			b.WriteString("NULL")
		case f.all:
			if limit == "0" {
				b.WriteString("LIMIT 0")
			}
		case f.limit:
			b.WriteString(limit)
		case f.text != "":
			b.WriteString(f.text)
		default:
			b.WriteString(src[f.from:f.to])
			for n, at := range params {
				if at >= f.from && at < f.to {
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
