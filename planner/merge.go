package planner

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// Merge says how the answers of several shards to a derived statement become
// the answer to the client's. Columns are numbers: from 0 those of the select
// list, and below 0 the hidden ones at the end of a shard's row: -1 is the last.
type Merge struct {
	// Hidden is the number of columns at the end of the shards' rows that the
	// client doesn't get.
	Hidden int
	// Order is how each shard's rows are sorted, and the merged ones.
	Order []MergeKey
	// Unite: rows that agree in the first Group keys of Order are one row, of
	// which Cells are put together and the others taken from any. With no keys
	// all rows are one, and where there is none one is made up (Total).
	Unite, Total bool
	Group        int
	Cells        []MergeCell
	// Having must be true of a united row; nil for any.
	Having *MergeCondition
	// Sort is the client's order where that isn't Order. United rows are then
	// held in memory.
	Sort []MergeKey
	// Offset and Count are the client's LIMIT; Count is math.MaxUint64 for none.
	Offset, Count uint64
	// CountAll: FOUND_ROWS() tells how many rows there are without Count. Each shard
	// can say that of its own; united rows, of which Count then limits no shard's,
	// are counted where they are united.
	CountAll bool
	// Skips: SKIP LOCKED with LIMIT. A row that a shard has locked and LIMIT leaves out
	// would be skipped by others, though nobody has it.
	Skips bool
	// Likely: Order is not the client's, but how the shards most likely answer. Rows that
	// come otherwise, or can't be compared, are as good.
	Likely bool
	// Nearly: the shards answer nearly in Order. A vector index rounds distances.
	Nearly bool
	gather func() (*Bound, *Error)
}

// Otherwise answers the same statement without a merge: for a key whose type,
// seen in the shards' answers, can't be compared after all. nil where it can't.
func (m *Merge) Otherwise() *Bound {
	if m.gather == nil {
		return nil
	}
	b, err := m.gather()
	if err != nil {
		return nil
	}
	return b
}

// MergeKey is one key of an order.
type MergeKey struct {
	// Value is the column that is compared, as its type compares; a text by
	// Weight.
	Value int
	// Weight, if not 0, is a hidden column that holds the WEIGHT_STRING of a
	// text (NULL or anything else where Value is no text), and Pad one that
	// holds the weight of a space where the collation ignores spaces at the
	// end, else an empty string.
	Weight, Pad int
	Desc        bool
}

// MergeCell is how one column of a united row is put together.
type MergeCell struct {
	Op     MergeOp
	Column int
	// Sum and Count are the hidden columns that an average is made of.
	Sum, Count int
	// Key is what a minimum or maximum compares by; its hidden columns come
	// from the same row.
	Key MergeKey
}

// MergeOp is what a cell holds.
type MergeOp uint8

const (
	MergeCount    MergeOp = iota // a number of rows: the sum
	MergeSum                     // an exact sum
	MergeAvg                     // Sum / Count
	MergeMin                     // the least by Key
	MergeMax                     // the greatest by Key
	MergeAnd                     // BIT_AND
	MergeOr                      // BIT_OR
	MergeXor                     // BIT_XOR
	MergeDistinct                // the number of different keys behind the group's, none of them NULL
)

// MergeCondition is a part of HAVING that is evaluated on united rows.
type MergeCondition struct {
	// Op is AND, OR, NOT or one of = <> < <= > >=, which compares Column, an
	// exact number, with Value.
	Op     string
	Kids   []*MergeCondition
	Column int
	Value  string
	value  *operand
}

// NoLimit is the Count of a Merge without LIMIT.
const NoLimit = math.MaxUint64

// merger is what is known of a SELECT's merge before its route is.
type merger struct {
	st      *statement
	derived derivation
	merge   Merge
	// offset and count are the client's LIMIT; nil for none.
	offset, count *operand
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
// where it can't be merged exactly.
func (a *analysis) planMerge(n ast.StmtNode, main *scope) *merger {
	sel, ok := n.(*ast.SelectStmt)
	if !ok || main == nil || a.err != nil || a.hiddenAggregate != "" || sel.Kind != ast.SelectStmtKindSelect || sel.IsInBraces ||
		sel.From == nil || sel.SelectIntoOpt != nil || a.st.limitedByHint() || len(sel.WindowSpecs) > 0 ||
		a.st.settings.PadCharToFullLength || tooManyItems(sel) {
		return nil
	}
	for _, r := range a.refs {
		if r.table != nil && r.table.Differs != "" {
			return nil
		}
	}
	c, ok := a.st.clausesOf(sel)
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
func (m *merger) bind(b *binder, r *routed) (out *Bound, ok bool) {
	if !m.means() {
		return nil, false
	}
	merge := m.merge
	merge.Count = NoLimit
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
	if merge.Having, ok = merge.Having.bind(b); !ok {
		return nil, false
	}
	sql, params := m.derived.text(m.st.src, m.st.params, limit)
	out = &Bound{
		Plan: "merge", Access: r.how, Merge: &merge, Probes: r.probes,
		Statements: make([]ShardStatement, 0, r.set.Len()),
	}
	if !b.brief {
		out.Reason = r.reason + "; " + m.verb
	}
	for id := range r.set.All {
		out.Statements = append(out.Statements, ShardStatement{Shard: id, SQL: sql, Params: params})
	}
	return out, true
}

// rowCount is a number of LIMIT.
func rowCount(o *operand, b *binder) (uint64, bool) {
	v, c, ok := o.resolve(b.params)
	if !ok || c != classNumber {
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
	edits  []edit
	// distincts are the COUNT(DISTINCT ..) of the select list.
	distincts []distinctCount
}

// hiddenColumn is an expression appended to the select list.
type hiddenColumn struct{ frags []frag }

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
		return known && baseType(c.col.Type) == "bit"
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
			b.hidden, b.edits, b.m.merge = nil, nil, Merge{}
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
	parts := []span{{l.from + 1, l.to}}
	offset := -1
	for i := l.from + 1; i < l.to; i++ {
		switch {
		case st.op(i, ","):
			parts, offset = []span{{l.from + 1, i}, {i + 1, l.to}}, 0
		case st.is(i, "offset"):
			parts, offset = []span{{l.from + 1, i}, {i + 1, l.to}}, 1
		}
	}
	var values []*operand
	for _, p := range parts {
		if p.to-p.from != 1 {
			return false
		}
		o := st.evalTokens(st.toks[p.from:p.to])
		if o.kind != literal && o.kind != parameter {
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
		from, to := st.offsets(l)
		b.edits = append(b.edits, edit{from, to, []frag{{limit: true, all: true}}})
	case offset >= 0:
		from, to := st.offsets(span{l.from + 1, l.to})
		b.edits = append(b.edits, edit{from, to, []frag{{limit: true}}})
	}
	return true
}

// hide appends an expression to the select list and returns its column as if
// it were the last.
func (b *mergeBuilder) hide(frags ...frag) int {
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

func (b *mergeBuilder) placeKey(k *MergeKey) {
	k.Value, k.Weight, k.Pad = b.place(k.Value), b.place(k.Weight), b.place(k.Pad)
}

const hiddenAlias = "_shunt"

// finish derives the statement.
func (b *mergeBuilder) finish() {
	m := &b.m.merge
	m.Hidden = len(b.hidden)
	for _, keys := range [][]MergeKey{m.Order, m.Sort} {
		for i := range keys {
			b.placeKey(&keys[i])
		}
	}
	for i := range m.Cells {
		c := &m.Cells[i]
		c.Column, c.Sum, c.Count = b.place(c.Column), b.place(c.Sum), b.place(c.Count)
		b.placeKey(&c.Key)
	}
	m.Having.each(func(c *MergeCondition) { c.Column = b.place(c.Column) })
	if len(b.hidden) > 0 {
		_, end := b.a.st.offsets(b.c.items[len(b.c.items)-1])
		var with []frag
		for i, h := range b.hidden {
			with = append(append(append(with, frag{text: ", "}), h.frags...), frag{text: " AS " + hiddenAlias + strconv.Itoa(i+1)})
		}
		b.edits = append(b.edits, edit{end, end, with})
	}
	b.m.derived = b.a.st.derive(b.edits)
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
		for i := range st.toks {
			if name, ok := st.identifier(i); ok && len(name) >= len(hiddenAlias) && strings.EqualFold(name[:len(hiddenAlias)], hiddenAlias) {
				return false
			}
		}
		sql, params := derived.write(st.src, st.params, "1", true)
		again, err := lexStatement(sql, st.settings, cat)
		if err != nil || params == nil && len(again.params) != len(st.params) || params != nil && len(again.params) != len(params) {
			return false
		}
		n, perr := mergeParsers.parse(again.blanked(), st.settings, cat.MariaDB)
		sel, ok := n.(*ast.SelectStmt)
		if perr != nil || !ok {
			return false
		}
		got := shapeOf(sel)
		return got.where == want.where && got.distinct == want.distinct && got.locks == want.locks && slices.Equal(got.fields, want.fields)
	}
}
