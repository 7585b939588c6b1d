package planner

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// clauses are the parts of a SELECT in its text, as token numbers: a part is
// toks[from:to].
type clauses struct {
	items []text.Span // of the select list, each with its alias
	from  int         // where the select list ends
	// group, having, order and limit begin with their keyword; empty where the
	// statement has none.
	group, having, order, limit text.Span
	groups, orders              []text.Span // the expressions, without ASC and DESC
	// end is where the clauses end: FOR UPDATE, LOCK IN SHARE MODE or the
	// statement's end follow.
	end int
}

// clausesOf finds a SELECT's clauses. ok is false where the text is not laid
// out as the tree is: better no merge than a derived text of another meaning.
func clausesOf(st *text.Statement, sel *ast.SelectStmt) (c clauses, ok bool) {
	for _, x := range st.Comments {
		if x.Kind == text.ExecutableOpen || x.Kind == text.ExecutableClose {
			return c, false // a piece of text may end within it
		}
	}
	first := st.TopLevel(0, "select")
	if first < 0 || first > 0 && !st.Is(0, "with") {
		return c, false
	}
	c.from = first + 1
	for c.from < len(st.Tokens) && spoken.SelectOption(st.Word(c.from)) {
		c.from++
	}
	start := c.from
	c.end = len(st.Tokens)
	// The keywords come in this order, each at most once.
	at := map[string]int{}
	pos := start
	for _, w := range []string{"from", "where", "group", "having", "window", "order", "limit"} {
		if i := st.TopLevel(pos, w); i >= 0 {
			at[w], pos = i, i+1
		}
	}
	for i := pos; i < len(st.Tokens); i++ {
		// After an index name list: USE INDEX FOR ORDER BY (i).
		if i = st.TopLevel(i, "for", "lock"); i < 0 {
			break
		}
		if !st.Is(i-1, "index") && !st.Is(i-1, "key") && !st.Is(i+1, "system_time") {
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
	clause := func(w string) text.Span {
		if i, found := at[w]; found {
			return text.Span{From: i, To: ends(w)}
		}
		return text.Span{}
	}
	c.group, c.having, c.order, c.limit = clause("group"), clause("having"), clause("order"), clause("limit")
	from, hasFrom := at["from"]
	if !hasFrom {
		return c, false
	}
	c.from = from
	if c.items, ok = st.List(text.Span{From: start, To: from}); !ok || len(c.items) != len(sel.Fields.Fields) {
		return c, false
	}
	if (sel.GroupBy != nil) == c.group.Empty() || (sel.Having != nil) == c.having.Empty() ||
		(sel.OrderBy != nil) == c.order.Empty() || (sel.Limit != nil) == c.limit.Empty() {
		return c, false
	}
	if sel.GroupBy != nil {
		if !st.Is(c.group.From+1, "by") {
			return c, false
		}
		if c.groups, ok = st.List(text.Span{From: c.group.From + 2, To: c.group.To}); !ok || len(c.groups) != len(sel.GroupBy.Items) {
			return c, false
		}
	}
	if sel.OrderBy != nil {
		if !st.Is(c.order.From+1, "by") {
			return c, false
		}
		if c.orders, ok = st.List(text.Span{From: c.order.From + 2, To: c.order.To}); !ok || len(c.orders) != len(sel.OrderBy.Items) {
			return c, false
		}
		for i, s := range c.orders {
			if st.Is(s.To-1, "asc") || st.Is(s.To-1, "desc") {
				c.orders[i].To--
			}
			if c.orders[i].Empty() || st.Is(s.To-1, "desc") != sel.OrderBy.Items[i].Desc {
				return c, false
			}
		}
	}
	return c, true
}

// expression is a select item without its alias.
func expression(st *text.Statement, item text.Span, f *ast.SelectField) (text.Span, bool) {
	if f.AsName.O == "" {
		return item, true
	}
	if name, ok := st.Identifier(item.To - 1); !ok || !strings.EqualFold(name, f.AsName.O) {
		return item, false // an alias that is a string, or none at its end
	}
	item.To--
	if st.Is(item.To-1, "as") {
		item.To--
	}
	return item, !item.Empty()
}
