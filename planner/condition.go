package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// cnode is a condition on one table reference, as far as it bounds the shards
// its rows may be on.
//
// Invariant: a row for which the whole condition is true satisfies the tree.
// What Shunt doesn't understand is opAll, so a tree only ever says too much.
type cnode struct {
	op   condOp
	kids []*cnode
	col  *catalog.Column
	// codec is col's, nil where its values have no keys.
	codec *keys.Codec
	// values of opIn, any of which the column equals; nullSafe for <=>. The two of opSame.
	values   []text.Operand
	nullSafe bool
	// row: a part of a row comparison; beside are the column's values in all rows of a list.
	row    bool
	beside []text.Operand
	// lo and hi of opRange (nil: open), prefix of opLike. Bounds are taken as
	// inclusive: a key more costs a visit, a key less a row.
	lo, hi *text.Operand
	prefix *text.Operand
}

type condOp uint8

const (
	opAll  condOp = iota // no bound
	opNone               // never true
	opAnd
	opOr
	opIn    // col = v, col <=> v, col IN (..)
	opRange // < <= > >= BETWEEN
	opLike  // col LIKE 'prefix%'
	opSame  // two values, which are equal or no row is wanted
)

var (
	allRows = &cnode{op: opAll}
	noRows  = &cnode{op: opNone}
)

// maxValues bounds the values of one predicate that are looked up.
const maxValues = 1000

// conjuncts cuts `a AND b AND c` without recursion, since chains are long.
func conjuncts(e ast.ExprNode, s *scope, out []cond) []cond {
	if e == nil {
		return out
	}
	for _, x := range chain(e, opcode.LogicAnd) {
		out = append(out, cond{expr: x, scope: s})
	}
	return out
}

// chain flattens a chain of one operator.
func chain(e ast.ExprNode, op opcode.Op) []ast.ExprNode {
	var out []ast.ExprNode
	stack := []ast.ExprNode{e}
	for len(stack) > 0 {
		e = stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if p, ok := e.(*ast.ParenthesesExpr); ok {
			stack = append(stack, p.Expr)
			continue
		}
		if b, ok := e.(*ast.BinaryOperationExpr); ok && b.Op == op {
			stack = append(stack, b.R, b.L)
			continue
		}
		out = append(out, e)
	}
	return out
}

// conditions are all conjuncts that every row of r in the answer satisfies:
// WHERE of its block, the ON clauses that filter it, and for a correlated
// subquery WHERE of the blocks around it, since what the subquery answers for
// other outer rows doesn't count.
//
// Rule row of none: the row of an aggregate without GROUP BY is answered even where
// WHERE leaves none. That WHERE says nothing of what a subquery of that row reads, unless
// this asks for equality with a column of the block, which is NULL then. Counter-example:
//
//	SELECT COUNT(*), (SELECT COUNT(*) FROM orders) FROM users WHERE 1 = 0
//
// counts the orders of all shards.
func (a *analysis) conditions(r *ref) []cond {
	out := append([]cond(nil), r.on...)
	for s := r.scope; s != nil; s = s.parent {
		if !s.always || slices.ContainsFunc(out, func(c cond) bool { return a.asks(c, s) }) {
			out = append(out, s.where...)
		}
		if !s.correlated {
			break
		}
	}
	return out
}

// asks reports a conjunct that equates a column of a block with another one.
func (a *analysis) asks(c cond, s *scope) (asks bool) {
	a.equalities(c, func(x, y column) {
		asks = asks || slices.Contains(s.refs, x.ref) || slices.Contains(s.refs, y.ref)
	})
	return asks
}

// equalities calls do with each two columns that are equal where a conjunct is true.
func (a *analysis) equalities(c cond, do func(x, y column)) {
	if c.expr == nil {
		do(c.pair[0], c.pair[1])
		return
	}
	b, ok := c.expr.(*ast.BinaryOperationExpr)
	if !ok || b.Op != opcode.EQ {
		return
	}
	l, r := []ast.ExprNode{b.L}, []ast.ExprNode{b.R}
	if rl, ok := unwrap(b.L).(*ast.RowExpr); ok {
		if rr, ok := unwrap(b.R).(*ast.RowExpr); ok && len(rl.Values) == len(rr.Values) {
			l, r = rl.Values, rr.Values
		}
	}
	for i := range l {
		x, okx := a.columnOf(l[i], c.scope)
		y, oky := a.columnOf(r[i], c.scope)
		if okx && oky {
			do(x, y)
		}
	}
}

// countConditions is how many conjuncts conditions looks at, at most.
func (r *ref) countConditions() int {
	n, asked := len(r.on), 0
	for s := r.scope; s != nil; s = s.parent {
		if s.always {
			asked += n
		}
		n += len(s.where)
		if !s.correlated {
			break
		}
	}
	return n + asked
}

// equate finds which columns r's conditions make equal to others. Only columns
// whose values have the same keys are linked.
//
// Counter-example: users.id BIGINT, o.user_id VARCHAR: '5 ' = 5 is true, but the
// two hash to different slots.
func (a *analysis) equate(r *ref) {
	r.class = map[column]int{}
	n := 0
	link := func(x, y column) {
		if x.ref == nil || y.ref == nil || !plan.SameKeys(a.cat, x.col, y.col) {
			return
		}
		cx, okx := r.class[x]
		cy, oky := r.class[y]
		switch {
		case okx && oky:
			for k, c := range r.class {
				if c == cy {
					r.class[k] = cx
				}
			}
		case okx:
			r.class[y] = cx
		case oky:
			r.class[x] = cy
		default:
			n++
			r.class[x], r.class[y] = n, n
		}
	}
	for _, c := range a.conditions(r) {
		a.equalities(c, link)
	}
}

func unwrap(e ast.ExprNode) ast.ExprNode {
	for {
		p, ok := e.(*ast.ParenthesesExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

func (a *analysis) columnOf(e ast.ExprNode, s *scope) (column, bool) {
	if n, ok := unwrap(e).(*ast.ColumnNameExpr); ok {
		return a.resolve(n.Name, s)
	}
	return column{}, false
}

// plant makes the condition tree of a reference.
func (a *analysis) plant(r *ref) {
	if r.table == nil || r.table.IsView {
		r.tree = allRows
		return
	}
	a.equate(r)
	var kids []*cnode
	r.equal = true
	for _, c := range a.conditions(r) {
		if c.expr == nil {
			r.equal = false
			continue
		}
		k := a.condition(r, c.expr, c.scope, 0)
		r.equal = r.equal && k.equals()
		kids = append(kids, k)
	}
	r.equal = r.equal && len(kids) > 0
	r.tree = and(kids)
	a.prepare(r, r.tree)
	r.several = r.tree.keys(r.table) > 1
	r.labels = make([]string, 0, len(r.table.Indexes))
	for _, ix := range r.table.Indexes {
		r.labels = append(r.labels, "index:"+ix.Name)
	}
}

// prepare finds what all evaluations of a tree need.
func (a *analysis) prepare(r *ref, n *cnode) {
	if n.col != nil {
		n.codec = a.codecIn(r, n.col)
	}
	for _, k := range n.kids {
		a.prepare(r, k)
	}
}

// keys is how many keys an index is asked for at most of which a row has any one. Each index
// of an AND is asked for its own, which the row has all.
func (n *cnode) keys(t *catalog.Table) (most int) {
	if n.one() && slices.ContainsFunc(t.Indexes, func(ix *catalog.Index) bool { return slices.Contains(ix.Columns, n.col) }) {
		return max(1, len(n.values))
	}
	for _, k := range n.kids {
		if n.op == opOr {
			most += k.keys(t)
		} else {
			most = max(most, k.keys(t))
		}
	}
	return most
}

// codecIn is a column's codec, nil where its values in r have no keys.
func (a *analysis) codecIn(r *ref, c *catalog.Column) *keys.Codec {
	if r.history && c != r.table.ShardKey { // no row has had another shard key
		return nil
	}
	codec, _ := plan.CodecOf(a.cat, c)
	return codec
}

func and(kids []*cnode) *cnode {
	var out []*cnode
	for _, k := range kids {
		switch k.op {
		case opAll:
		case opNone:
			return noRows
		case opAnd:
			out = append(out, k.kids...)
		default:
			out = append(out, k)
		}
	}
	switch len(out) {
	case 0:
		return allRows
	case 1:
		return out[0]
	}
	return &cnode{op: opAnd, kids: out}
}

func or(kids []*cnode) *cnode {
	var out []*cnode
	for _, k := range kids {
		switch k.op {
		case opAll:
			return allRows // one branch without a bound and the OR has none
		case opNone:
		case opOr:
			out = append(out, k.kids...)
		default:
			out = append(out, k)
		}
	}
	switch len(out) {
	case 0:
		return noRows
	case 1:
		return out[0]
	}
	return &cnode{op: opOr, kids: out}
}

// condition turns an expression into what it says about r's rows.
func (a *analysis) condition(r *ref, e ast.ExprNode, s *scope, depth int) *cnode {
	if depth > text.MaxNesting {
		return allRows
	}
	switch e := unwrap(e).(type) {
	case *ast.BinaryOperationExpr:
		switch e.Op {
		case opcode.LogicAnd:
			var kids []*cnode
			for _, x := range chain(e, opcode.LogicAnd) {
				kids = append(kids, a.condition(r, x, s, depth+1))
			}
			return and(kids)
		case opcode.LogicOr:
			var kids []*cnode
			for _, x := range chain(e, opcode.LogicOr) {
				k := a.condition(r, x, s, depth+1)
				if k.op == opAll {
					return allRows
				}
				kids = append(kids, k)
			}
			return or(kids)
		case opcode.EQ, opcode.NullEQ, opcode.LT, opcode.LE, opcode.GT, opcode.GE:
			return a.comparison(r, e, s)
		}
	case *driver.ValueExpr:
		if o := evalExpr(a.st, e); o.Kind == text.Literal && o.Value == keys.Int(0) {
			return noRows // WHERE FALSE
		}
	case *ast.PatternInExpr:
		if !e.Not && e.Sel == nil {
			return a.in(r, e, s)
		}
	case *ast.BetweenExpr:
		if !e.Not {
			return a.between(r, e, s)
		}
	case *ast.PatternLikeOrIlikeExpr:
		if !e.Not && e.IsLike {
			return a.like(r, e, s)
		}
	}
	return allRows
}

// own finds the column of r that an expression is, or is made equal to by r's
// conditions.
func (a *analysis) own(r *ref, e ast.ExprNode, s *scope) *catalog.Column {
	c, ok := a.columnOf(e, s)
	if !ok {
		return nil
	}
	if c.ref == r {
		return c.col
	}
	if n, ok := r.class[c]; ok {
		for _, col := range r.table.Columns {
			if m, ok := r.class[column{r, col}]; ok && m == n {
				return col
			}
		}
	}
	return nil
}

// evaluated reports operands that have a value now or at Bind.
func evaluated(o text.Operand) bool { return o.Kind == text.Literal || o.Kind == text.Placeholder }

func (a *analysis) comparison(r *ref, e *ast.BinaryOperationExpr, s *scope) *cnode {
	l, rt, op := unwrap(e.L), unwrap(e.R), e.Op
	if row, ok := l.(*ast.RowExpr); ok {
		if right, ok := rt.(*ast.RowExpr); ok && op == opcode.EQ {
			return a.rowEqual(r, row, right, nil, s)
		}
		return allRows
	}
	col := a.own(r, l, s)
	v := rt
	if col == nil {
		col, v = a.own(r, rt, s), l
		switch op { // 5 < a is a > 5
		case opcode.LT:
			op = opcode.GT
		case opcode.LE:
			op = opcode.GE
		case opcode.GT:
			op = opcode.LT
		case opcode.GE:
			op = opcode.LE
		}
	}
	if col == nil {
		// Who wants a statement's columns and no rows says WHERE 1 = 0.
		x, y := evalExpr(a.st, l), evalExpr(a.st, rt)
		if op == opcode.EQ && evaluated(x) && evaluated(y) {
			return &cnode{op: opSame, values: []text.Operand{x, y}}
		}
		return allRows
	}
	o := evalExpr(a.st, v)
	if !evaluated(o) {
		return allRows
	}
	if o.IsNull() {
		if op == opcode.NullEQ {
			return allRows // rows whose first indexed column is NULL have no entries
		}
		return noRows
	}
	switch op {
	case opcode.EQ:
		return &cnode{op: opIn, col: col, values: []text.Operand{o}}
	case opcode.NullEQ:
		return &cnode{op: opIn, col: col, values: []text.Operand{o}, nullSafe: true}
	case opcode.LT, opcode.LE:
		return &cnode{op: opRange, col: col, hi: &o}
	case opcode.GT, opcode.GE:
		return &cnode{op: opRange, col: col, lo: &o}
	}
	return allRows
}

// rowEqual reads (a, b) = (1, 2), which compares column by column. columns are the values of a
// list that the row is of, nil for none.
func (a *analysis) rowEqual(r *ref, l, v *ast.RowExpr, columns [][]text.Operand, s *scope) *cnode {
	if len(l.Values) != len(v.Values) {
		return allRows
	}
	var kids []*cnode
	for i := range l.Values {
		k := a.comparison(r, &ast.BinaryOperationExpr{Op: opcode.EQ, L: l.Values[i], R: v.Values[i]}, s)
		if k.op == opIn {
			k.row = true
			if columns != nil {
				k.beside = columns[i]
			}
		}
		kids = append(kids, k)
	}
	return and(kids)
}

// in reads col IN (..) and (a, b) IN ((1, 2), ..). Values of several classes
// make MySQL compare by another type than each would have alone, as does a
// COLLATE on any of them:
//
//	email IN ('a@x', 5)      compares with 5 as a number
//	email IN ('A', 'b' COLLATE utf8mb4_bin)   compares 'A' by utf8mb4_bin too
//
// Of rows MariaDB does so with each column:
//
//	(tenant, sku) IN ((1, 'A1'), (2, 77))     compares 'B1' with 'A1' as numbers
func (a *analysis) in(r *ref, e *ast.PatternInExpr, s *scope) *cnode {
	if row, ok := unwrap(e.Expr).(*ast.RowExpr); ok {
		if len(e.List) > maxValues {
			return allRows
		}
		rows := make([]*ast.RowExpr, 0, len(e.List))
		columns := make([][]text.Operand, len(row.Values))
		for _, x := range e.List {
			v, ok := unwrap(x).(*ast.RowExpr)
			if !ok || len(v.Values) != len(row.Values) {
				return allRows
			}
			rows = append(rows, v)
			for i, y := range v.Values {
				o := evalExpr(a.st, y)
				if !evaluated(o) {
					return allRows
				}
				columns[i] = append(columns[i], o)
			}
		}
		kids := make([]*cnode, 0, len(rows))
		for _, v := range rows {
			kids = append(kids, a.rowEqual(r, row, v, columns, s))
		}
		return or(kids)
	}
	col := a.own(r, e.Expr, s)
	if col == nil || len(e.List) > 100*maxValues {
		return allRows
	}
	n := &cnode{op: opIn, col: col}
	var cl text.Class
	for _, x := range e.List {
		o := evalExpr(a.st, x)
		if !evaluated(o) || !joinClass(&cl, o.Class) {
			return allRows
		}
		if !o.IsNull() { // col = NULL is never true
			n.values = append(n.values, o)
		}
	}
	if len(n.values) == 0 {
		return noRows
	}
	return n
}

// joinClass adds a value's class to those seen; false where they differ.
func joinClass(seen *text.Class, c text.Class) bool {
	if c == text.ClassNull || c == *seen {
		return true
	}
	if *seen != text.ClassNull {
		return false
	}
	*seen = c
	return true
}

func (a *analysis) between(r *ref, e *ast.BetweenExpr, s *scope) *cnode {
	col := a.own(r, e.Expr, s)
	if col == nil {
		return allRows
	}
	lo, hi := evalExpr(a.st, e.Left), evalExpr(a.st, e.Right)
	if !evaluated(lo) || !evaluated(hi) {
		return allRows
	}
	if lo.IsNull() || hi.IsNull() {
		return noRows
	}
	return &cnode{op: opRange, col: col, lo: &lo, hi: &hi}
}

// like reads col LIKE 'prefix%'. A pattern without wildcards is not an
// equality: LIKE compares character by character and heeds trailing spaces.
func (a *analysis) like(r *ref, e *ast.PatternLikeOrIlikeExpr, s *scope) *cnode {
	col := a.own(r, e.Expr, s)
	// The parser takes ESCAPE '' for ESCAPE '\\', which MySQL does not.
	if col == nil || e.EscapeExplicit || a.st.Settings.NoBackslashEscapes {
		return allRows
	}
	o := evalExpr(a.st, e.Pattern)
	if o.Kind != text.Literal && o.Kind != text.Placeholder {
		return allRows
	}
	if (o.Kind == text.Literal || o.Class != text.ClassNull) && o.Class != text.ClassString {
		return allRows
	}
	return &cnode{op: opLike, col: col, prefix: &o}
}

// likePrefix is the part of a pattern before its first wildcard; exact is true
// where there is none.
func likePrefix(pattern []byte) (prefix []byte) {
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '%', '_':
			return prefix
		case '\\':
			if i+1 < len(pattern) {
				i++
				c = pattern[i]
			}
			prefix = append(prefix, c)
		default:
			prefix = append(prefix, c)
		}
	}
	return prefix
}
