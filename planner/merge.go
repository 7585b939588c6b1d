package planner

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// merger is what is known of a SELECT's merge before its route is.
type merger struct {
	st      *text.Statement
	derived text.Derivation
	// groupedBy are columns; where WHERE leaves one value of each, unsorted takes the place of derived.
	groupedBy []column
	unsorted  text.Derivation
	merge     plan.Merge
	// offset and count are the client's LIMIT; nil for none.
	offset, count *text.Operand
	verb          string // what Reason says
	// means reports whether the derived text means what it should. It parses it,
	// which most statements can be spared: one shard answers them.
	means func() bool
}

// maxItems bounds the items of a SELECT list, GROUP BY and ORDER BY that are looked for
// in each other.
const maxItems = 4096

func tooManyItems(sel *ast.SelectStmt) bool {
	return len(sel.Fields.Fields) > maxItems || sel.GroupBy != nil && len(sel.GroupBy.Items) > maxItems || sel.OrderBy != nil && len(sel.OrderBy.Items) > maxItems
}

// planMerge says how a SELECT whose rows lie beside its anchor is merged; nil
// where it can't be merged exactly: sums of doubles, quotients, texts in collations whose
// weights don't tell their order. Such a SELECT is gathered.
func (a *analysis) planMerge(n ast.StmtNode, main *scope) *merger {
	sel, ok := n.(*ast.SelectStmt)
	if !ok || main == nil || a.err != nil || a.hiddenAggregate != "" || sel.Kind != ast.SelectStmtKindSelect || sel.IsInBraces ||
		sel.From == nil || sel.SelectIntoOpt != nil || limitedByHint(a.st) || len(sel.WindowSpecs) > 0 ||
		a.st.Settings.PadCharToFullLength || tooManyItems(sel) {
		return nil
	}
	for _, r := range a.refs {
		if r.table != nil && r.table.Differs != "" {
			return nil
		}
	}
	c, ok := clausesOf(a.st, sel)
	if !ok {
		return nil
	}
	b := &mergeBuilder{a: a, sel: sel, c: c, scope: main, m: &merger{st: a.st}}
	if !b.build() {
		return nil
	}
	b.m.means = sync.OnceValue(b.meansTheSame())
	return b.m
}

// bind derives the shards' statements. ok is false where the values at hand
// (a LIMIT that is a parameter, say) can't be merged.
func (m *merger) bind(b *binder, r *routed) (out *plan.Bound, ok bool) {
	if !m.means() {
		return nil, false
	}
	merge := m.merge
	merge.Count = plan.NoLimit
	limit := ""
	if m.count != nil {
		if merge.Count, ok = rowCount(m.count, b); !ok {
			return nil, false
		}
		if m.offset != nil {
			if merge.Offset, ok = rowCount(m.offset, b); !ok {
				return nil, false
			}
		}
		total := merge.Count + merge.Offset
		switch {
		case merge.Count == 0 && (merge.Offset == 0 || b.cat.MariaDB):
			total = 0 // a server describes its columns without a plan then
		case total < merge.Count:
			total = math.MaxUint64
		}
		if merge.CountAll && merge.Unite {
			total = math.MaxUint64 // LIMIT 0 too
		}
		limit = strconv.FormatUint(total, 10)
	}
	if merge.Having, ok = bindCondition(merge.Having, b); !ok {
		return nil, false
	}
	derived := &m.derived
	if m.groupedBy != nil && !slices.ContainsFunc(m.groupedBy, func(c column) bool { _, at := c.ref.pinned(b, c.col); return at == nil }) {
		derived = &m.unsorted
	}
	sql, params := derived.Text(m.st.Src, m.st.Params, limit)
	out = &plan.Bound{
		Plan: "merge", Access: r.how, Merge: &merge, Probes: r.probes,
		Statements: make([]plan.ShardStatement, 0, r.set.Len()),
	}
	if !b.brief {
		out.Reason = r.reason + "; " + m.verb
	}
	for id := range r.set.All {
		out.Statements = append(out.Statements, plan.ShardStatement{Shard: id, SQL: sql, Params: params})
	}
	return out, true
}

// rowCount is a number of LIMIT.
func rowCount(o *text.Operand, b *binder) (uint64, bool) {
	v, c, ok := o.Resolve(b.params)
	if !ok || c != text.ClassNumber {
		return 0, false
	}
	n, err := strconv.ParseUint(v.Literal(), 10, 64)
	return n, err == nil
}

// mergeBuilder makes a merger.
type mergeBuilder struct {
	a     *analysis
	sel   *ast.SelectStmt
	c     clauses
	scope *scope
	m     *merger

	// hidden are the expressions to append to the select list.
	hidden []hiddenColumn
	edits  []text.Edit
	// unsorted is merger.unsorted: the pieces that an edit has there.
	unsorted struct{ edit, pieces int }
	// distincts are the COUNT(DISTINCT ..) of the select list.
	distincts []distinctCount
}

// hiddenColumn is an expression appended to the select list.
type hiddenColumn struct{ frags []text.Fragment }

// bitExpression finds an expression over a BIT column in the select list.
//
// Rule bits of MariaDB: it answers such an expression as bytes, or as a number
// where it sorts by a temporary table, which hidden columns make it do.
// Counter-example: SELECT CASE WHEN id > 1 THEN flags ELSE flags END FROM users
// ORDER BY name.
func (b *mergeBuilder) bitExpression() bool {
	bit := func(n ast.Node) bool {
		x, ok := n.(*ast.ColumnNameExpr)
		if !ok {
			return false
		}
		c, known := b.a.resolve(x.Name, b.scope)
		return known && c.col.BaseType() == "bit"
	}
	return slices.ContainsFunc(b.sel.Fields.Fields, func(f *ast.SelectField) bool {
		_, column := f.Expr.(*ast.ColumnNameExpr)
		return !column && finds(f.Expr, bit)
	})
}

// build is false where the statement can't be merged exactly.
func (b *mergeBuilder) build() bool {
	if b.a.cat.MariaDB && b.bitExpression() {
		return false
	}
	inList := featuresOf(b.sel.Fields).aggregate != ""
	f := featuresOf(b.sel.Fields, b.sel.OrderBy, b.sel.Having)
	ok := !f.window
	switch {
	case !ok:
	case b.sel.GroupBy != nil && (b.sel.GroupBy.Rollup || b.sortsGroups()):
		return false
	case b.sel.GroupBy != nil && b.wholeGroups():
		ok = (!b.sel.Distinct || b.wholeRows()) && b.orderBy() && (!b.sel.Distinct || len(b.hidden) == 0) && b.limit(false)
		b.impliedOrder()
	case b.sel.GroupBy != nil || inList:
		ok = !b.sel.Distinct && b.groups()
	case f.aggregate != "":
		// Without GROUP BY an aggregate anywhere makes one row of all.
		return false
	case b.sel.Distinct && !b.wholeRows():
		ok = b.distinct()
	default:
		ok = b.orderBy()
		if b.sel.Distinct && len(b.hidden) > 0 {
			// Rule distinct keys: what is hidden behind the list counts for DISTINCT, too.
			// Counter-example: SELECT DISTINCT u.id FROM users u JOIN orders o ON o.user_id =
			// u.id ORDER BY o.total, where a user would be answered once an order; and ORDER
			// BY a text, of which the weights of 'a' and 'a ' differ.
			b.hidden, b.edits, b.m.merge = nil, nil, plan.Merge{}
			ok = b.distinct()
			break
		}
		ok = ok && b.limit(false)
	}
	if ok {
		b.finish()
	}
	return ok
}

// orderBy turns the client's ORDER BY into keys.
func (b *mergeBuilder) orderBy() bool {
	if b.sel.OrderBy == nil {
		return true
	}
	for i, item := range b.sel.OrderBy.Items {
		src, ok := b.sortedBy(item.Expr, b.c.orders[i])
		if !ok {
			return false
		}
		if src.constant {
			continue
		}
		k, ok := b.key(src)
		if !ok {
			return false
		}
		k.Desc = item.Desc
		b.m.merge.Nearly = b.m.merge.Nearly || b.a.isDistance(src.expr)
		b.m.merge.Order = append(b.m.merge.Order, k)
	}
	return true
}

// limit reads LIMIT, and lets each shard answer as many rows as may be needed
// of it; all where only what is made of them is limited.
func (b *mergeBuilder) limit(all bool) bool {
	if b.sel.Limit == nil {
		b.sessionLimit(all)
		return true
	}
	st, l := b.a.st, b.c.limit
	parts := []text.Span{{From: l.From + 1, To: l.To}}
	offset := -1
	for i := l.From + 1; i < l.To; i++ {
		switch {
		case st.Op(i, ","):
			parts, offset = []text.Span{{From: l.From + 1, To: i}, {From: i + 1, To: l.To}}, 0
		case st.Is(i, "offset"):
			parts, offset = []text.Span{{From: l.From + 1, To: i}, {From: i + 1, To: l.To}}, 1
		}
	}
	var values []*text.Operand
	for _, p := range parts {
		if p.To-p.From != 1 {
			return false
		}
		o := st.Evaluate(st.Tokens[p.From:p.To])
		if o.Kind != text.Literal && o.Kind != text.Placeholder {
			return false
		}
		values = append(values, &o)
	}
	if (offset >= 0) != (b.sel.Limit.Offset != nil) {
		return false
	}
	b.m.merge.CountAll = b.sel.CalcFoundRows
	b.m.merge.Skips = skipsLocked(b.sel) && !b.sel.CalcFoundRows
	all = all || b.m.merge.CountAll && b.m.merge.Unite
	b.m.count = values[0]
	if offset >= 0 {
		b.m.offset, b.m.count = values[offset], values[1-offset]
	}
	switch {
	case all:
		from, to := st.Offsets(l)
		b.edits = append(b.edits, text.Edit{From: from, To: to, With: []text.Fragment{{Limit: true, All: true}}})
	case offset >= 0:
		from, to := st.Offsets(text.Span{From: l.From + 1, To: l.To})
		b.edits = append(b.edits, text.Edit{From: from, To: to, With: []text.Fragment{{Limit: true}}})
	}
	return true
}

// hide appends an expression to the select list and returns its column as if
// it were the last.
func (b *mergeBuilder) hide(frags ...text.Fragment) int {
	b.hidden = append(b.hidden, hiddenColumn{frags})
	return hiddenBase - len(b.hidden) + 1
}

// hiddenBase marks hidden columns until their number is known.
const hiddenBase = -1 << 20

// place turns what hide returned into a place from the row's end.
func (b *mergeBuilder) place(col int) int {
	if col > hiddenBase {
		return col
	}
	return hiddenBase - col - len(b.hidden)
}

func (b *mergeBuilder) placeKey(k *plan.MergeKey) {
	k.Value, k.Weight, k.Pad = b.place(k.Value), b.place(k.Weight), b.place(k.Pad)
}

const hiddenAlias = "_shunt"

// finish derives the statement.
func (b *mergeBuilder) finish() {
	m := &b.m.merge
	m.Hidden = len(b.hidden)
	for _, keys := range [][]plan.MergeKey{m.Order, m.Sort} {
		for i := range keys {
			b.placeKey(&keys[i])
		}
	}
	for i := range m.Cells {
		c := &m.Cells[i]
		c.Column, c.Sum, c.Count = b.place(c.Column), b.place(c.Sum), b.place(c.Count)
		b.placeKey(&c.Key)
	}
	eachComparison(m.Having, func(c *plan.MergeCondition) { c.Column = b.place(c.Column) })
	if len(b.hidden) > 0 {
		_, end := b.a.st.Offsets(b.c.items[len(b.c.items)-1])
		var with []text.Fragment
		for i, h := range b.hidden {
			with = append(append(append(with, text.Fragment{Text: ", "}), h.frags...), text.Fragment{Text: " AS " + hiddenAlias + strconv.Itoa(i+1)})
		}
		b.edits = append(b.edits, text.Edit{From: end, To: end, With: with})
	}
	if b.m.groupedBy != nil {
		edits := slices.Clone(b.edits)
		at := &edits[b.unsorted.edit]
		at.With = at.With[:b.unsorted.pieces]
		b.m.unsorted = b.a.st.Derive(edits)
	}
	b.m.derived = b.a.st.Derive(b.edits)
	var verbs []string
	switch {
	case m.Unite && m.Cells == nil:
		verbs = append(verbs, "made distinct")
	case m.Unite && m.Group > 0:
		verbs = append(verbs, "grouped")
	case m.Unite:
		verbs = append(verbs, "aggregated")
	}
	if m.Having != nil {
		verbs = append(verbs, "filtered")
	}
	if len(m.Sort) > 0 || len(m.Order) > 0 && !m.Unite {
		verbs = append(verbs, "sorted")
	}
	if b.m.count != nil {
		verbs = append(verbs, "limited")
	}
	if len(verbs) == 0 {
		verbs = append(verbs, "joined")
	}
	b.m.verb = "merged: " + strings.Join(verbs, ", ")
}

// mergeParsers read derived statements once more.
var mergeParsers parserPool

// selectShape is what of a SELECT must be the same in the derived one.
type selectShape struct {
	where, distinct, locks bool
	fields                 []fieldShape
}

type fieldShape struct {
	alias      string
	wild, expr bool
}

// shapeOf keeps nothing of the tree.
func shapeOf(sel *ast.SelectStmt) selectShape {
	s := selectShape{where: sel.Where != nil, distinct: sel.Distinct, locks: sel.LockInfo != nil}
	for _, f := range sel.Fields.Fields {
		s.fields = append(s.fields, fieldShape{strings.Clone(f.AsName.O), f.WildCard != nil, f.Expr != nil})
	}
	return s
}

// meansTheSame returns what reads the derived statement as a shard will: it must
// be the client's but for what was meant to change.
func (b *mergeBuilder) meansTheSame() func() bool {
	st, cat, derived, want := b.a.st, b.a.cat, b.m.derived, shapeOf(b.sel)
	for i := range b.hidden {
		want.fields = append(want.fields, fieldShape{hiddenAlias + strconv.Itoa(i+1), false, true})
	}
	return func() bool {
		for i := range st.Tokens {
			if name, ok := st.Identifier(i); ok && len(name) >= len(hiddenAlias) && strings.EqualFold(name[:len(hiddenAlias)], hiddenAlias) {
				return false
			}
		}
		sql, params := derived.Write(st.Src, st.Params, "1", true)
		again, err := text.Read(sql, st.Settings, cat)
		if err != nil || params == nil && len(again.Params) != len(st.Params) || params != nil && len(again.Params) != len(params) {
			return false
		}
		n, perr := mergeParsers.parse(again.Blanked(), st.Settings, cat.MariaDB)
		sel, ok := n.(*ast.SelectStmt)
		if perr != nil || !ok {
			return false
		}
		got := shapeOf(sel)
		return got.where == want.where && got.distinct == want.distinct && got.locks == want.locks && slices.Equal(got.fields, want.fields)
	}
}
