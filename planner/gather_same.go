package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
)

// Only writes over copies are looked at. A routed statement whose subquery has a tied LIMIT,
// or an undetermined group, over a reference table may be answered otherwise by each shard.

// varies says what in a write's query blocks several servers might answer
// otherwise, though each has the same rows, "" for nothing.
//
// Rule one answer: one server answers a subquery once, for all rows that it
// changes. So where several do, each for its own rows, nothing may be left to
// them: which of equal rows comes first, which row of a group gives a column that
// the group doesn't determine, what RAND() is. Counter-example:
//
//	DELETE FROM users WHERE id NOT IN (SELECT id FROM (SELECT id FROM users GROUP BY email) x)
//
// where two users with one email are on two shards. Each shard may take the
// other's for the group's, and delete its own: none is left.
//
// Rule row by row: a block that names a column of the row that is changed is
// answered for that row, by the one shard that has it, stays says in which
// references. So not for a reference table's row, which each shard has. Example:
// SET u.last = (SELECT o.id FROM orders o WHERE o.user_id = u.id
// ORDER BY o.made LIMIT 1), which any server may answer as it likes.
//
// With alike, which is for a reference table, each must answer the same to the
// letter: of 'bob' and 'Bob' any may be the greatest.
func (a *analysis) varies(n ast.Node, main *scope, stays map[*ref]bool, alike bool) string {
	v := &blockVisitor{a: a, main: main, stays: stays, alike: alike, scopes: map[*ast.TableName]*scope{}}
	for r, t := range a.joined.nodes {
		v.scopes[t] = r.scope
	}
	walk(n, v.visit)
	return v.varies
}

// blockVisitor looks at all query blocks of a statement.
type blockVisitor struct {
	a      *analysis
	main   *scope
	stays  map[*ref]bool
	scopes map[*ast.TableName]*scope
	alike  bool
	varies string
	// exists are the blocks of EXISTS.
	exists []*ast.SelectStmt
}

func (v *blockVisitor) found(what string) {
	if v.varies == "" {
		v.varies = what
	}
}

func (v *blockVisitor) visit(n ast.Node) (deeper bool) {
	switch n := n.(type) {
	case *ast.SetOprStmt:
		if n.Limit != nil || v.alike {
			v.found("a UNION") // of equal texts it keeps any
		}
	case *ast.ExistsSubqueryExpr: // how many rows there are is the same in any order
		if sub, ok := n.Sel.(*ast.SubqueryExpr); ok {
			if sel, ok := sub.Query.(*ast.SelectStmt); ok {
				v.exists = append(v.exists, sel)
			}
		}
	case *ast.SelectStmt:
		v.block(n)
	}
	return v.varies == ""
}

// block looks at one block, but not at those inside of it.
func (v *blockVisitor) block(n *ast.SelectStmt) {
	b := &block{a: v.a, n: n, scope: v.scopeOf(n)}
	if v.names(b) {
		return
	}
	if n.Limit != nil && !slices.Contains(v.exists, n) && !b.ordered(n.OrderBy, v.alike) {
		v.found("LIMIT without an ORDER BY that leaves no two rows equal")
	}
	parts := &partVisitor{b: b, alike: v.alike}
	for _, p := range []ast.Node{n.Fields, n.Where, n.GroupBy, n.Having, n.OrderBy} {
		walk(p, parts.visit)
	}
	if len(n.WindowSpecs) > 0 {
		v.found("a named window")
	}
	if parts.varies != "" {
		v.found(parts.varies)
	}
	if v.alike && (n.Distinct || n.GroupBy != nil) {
		if slices.ContainsFunc(b.fields(), func(f *ast.SelectField) bool { return f.Expr == nil || b.spelt(f.Expr) }) {
			v.found("a group of texts that may be equal and spelt otherwise")
		}
	}
	if (n.GroupBy != nil || parts.aggregates) && !b.grouped() {
		v.found("a column that its group does not determine")
	}
}

// scopeOf is the scope of a block, nil where its FROM has no table.
func (v *blockVisitor) scopeOf(n *ast.SelectStmt) *scope {
	if n.From == nil {
		return nil
	}
	for t := range sources(n.From.TableRefs) {
		if name, ok := t.(*ast.TableName); ok && v.scopes[name] != nil {
			return v.scopes[name]
		}
	}
	return nil
}

// names reports a block, or one inside of it, that names a column of a row that
// is changed, or of one beside it.
func (v *blockVisitor) names(b *block) bool {
	if b.scope == nil {
		return false
	}
	found := false
	walk(b.n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			if n != b.n {
				found = found || v.names(&block{a: b.a, n: n, scope: v.scopeOf(n)})
				return false
			}
		case *ast.ColumnNameExpr:
			if b.alias(n) == nil {
				got, ok := b.a.resolve(n.Name, b.scope)
				found = found || ok && got.ref.scope == v.main && v.stays[got.ref]
			}
		}
		return !found
	})
	return found
}

// block is one SELECT.
type block struct {
	a     *analysis
	n     *ast.SelectStmt
	scope *scope
}

// items are what GROUP BY or ORDER BY names, as texts. ORDER BY takes a name for
// a field's alias first, GROUP BY for a column's.
func (b *block) items(list []*ast.ByItem, order bool) map[string]bool {
	out := map[string]bool{}
	for _, item := range list {
		e := unwrap(item.Expr)
		if position, ok := e.(*ast.PositionExpr); ok {
			if position.N < 1 || position.N > len(b.fields()) {
				continue
			}
			e = b.fields()[position.N-1].Expr
		} else if x := b.alias(e); x != nil {
			if _, column := b.column(e); order || !column {
				e = x
			}
		}
		if e == nil {
			continue
		}
		if c, ok := b.column(e); ok {
			out[c.key()] = true
		} else if text, ok := restored(unwrap(e)); ok {
			out[text] = true
		}
	}
	return out
}

// alias is the field's expression that a name stands for, nil for none.
func (b *block) alias(e ast.ExprNode) ast.ExprNode {
	name, ok := e.(*ast.ColumnNameExpr)
	if !ok || name.Name.Table.O != "" {
		return nil
	}
	for _, f := range b.fields() {
		if f.AsName.O != "" && f.AsName.L == name.Name.Name.L {
			return f.Expr
		}
	}
	return nil
}

func (b *block) fields() []*ast.SelectField {
	if b.n.Fields == nil {
		return nil
	}
	return b.n.Fields.Fields
}

func (b *block) column(e ast.ExprNode) (column, bool) {
	if b.scope == nil || e == nil {
		return column{}, false
	}
	return b.a.columnOf(e, b.scope)
}

func (c column) key() string {
	return c.ref.alias + "\x00" + strings.ToLower(c.col.Name)
}

// has reports an expression that is one of the items.
func (b *block) has(items map[string]bool, e ast.ExprNode) bool {
	if c, ok := b.column(e); ok {
		return items[c.key()]
	}
	text, ok := restored(unwrap(e))
	return ok && items[text] && len(b.a.st.Long()) == 0
}

// ordered reports an order in which no two rows of the block are equal, or only
// such as are the same in all fields.
func (b *block) ordered(by *ast.OrderByClause, alike bool) bool {
	if by == nil {
		return false
	}
	items := b.items(by.Items, true)
	if b.n.GroupBy == nil && !b.n.Distinct && b.unique(items) {
		return true
	}
	whole := len(b.fields()) > 0 && !alike
	for _, f := range b.fields() {
		whole = whole && f.Expr != nil && b.has(items, f.Expr)
	}
	return whole
}

// unique reports items that have a primary key of every table of the block.
func (b *block) unique(items map[string]bool) bool {
	if b.scope == nil || len(b.scope.refs) == 0 {
		return false
	}
	for _, r := range b.scope.refs {
		if r.table == nil || !b.keyed(items, r) {
			return false
		}
	}
	return true
}

// keyed reports items that have a primary key of a table that is one of all its
// rows. Counter-example: rows of a table that are anywhere may share an id.
func (b *block) keyed(items map[string]bool, r *ref) bool {
	t := r.table
	whole := t.Placement == catalog.Reference || t.Placement == catalog.Single || t.Placement == catalog.Hash && t.ShardKey != nil && slices.Contains(t.PrimaryKey, t.ShardKey)
	if len(t.PrimaryKey) == 0 || !whole {
		return false
	}
	for _, c := range r.table.PrimaryKey {
		if !items[column{r, c}.key()] {
			return false
		}
	}
	return true
}

// grouped reports that all columns outside of aggregates are those of GROUP BY,
// or of a row that it determines.
func (b *block) grouped() bool {
	var items map[string]bool
	if b.n.GroupBy != nil {
		items = b.items(b.n.GroupBy.Items, false)
	}
	ok, tail := true, false // tail: HAVING and ORDER BY
	look := func(n ast.Node) (deeper bool) {
		switch n := n.(type) {
		case *ast.AggregateFuncExpr, *ast.SelectStmt, *ast.SetOprStmt:
			return false // a block inside is looked at by itself
		case *ast.FuncCallExpr:
			if aggregateName(n.FnName.L) {
				return false
			}
		case *ast.ColumnNameExpr:
			if b.has(items, n) || tail && b.alias(n) != nil { // the field is looked at
				return false
			}
			c, known := b.column(n)
			ok = ok && known && c.ref.table != nil && b.keyed(items, c.ref)
		}
		if e, isExpr := n.(ast.ExprNode); isExpr && b.has(items, e) {
			return false
		}
		return ok
	}
	for _, f := range b.fields() {
		if f.Expr == nil {
			return false // *
		}
		walk(f.Expr, look)
	}
	tail = true
	walk(b.n.Having, look)
	walk(b.n.OrderBy, look)
	return ok
}

// partVisitor finds functions that several servers may answer otherwise.
type partVisitor struct {
	b          *block
	alike      bool
	aggregates bool
	varies     string
}

func (v *partVisitor) visit(n ast.Node) (deeper bool) {
	switch n := n.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt:
		return false // looked at by itself
	case *ast.AggregateFuncExpr:
		v.aggregates = true
		v.aggregate(strings.ToLower(n.F), n.Order, n.Args)
	case *ast.WindowFuncExpr:
		v.window(n)
	case *ast.FuncCallExpr:
		switch name := n.FnName.L; {
		case aggregateName(name):
			v.aggregates = true
			v.aggregate(name, nil, n.Args)
		case spoken.VolatileFunction(name) && !spoken.ClockFunction(name):
			v.varies = strings.ToUpper(name) + "()"
		}
	}
	return v.varies == ""
}

func (v *partVisitor) aggregate(name string, order *ast.OrderByClause, args []ast.ExprNode) {
	switch name {
	case "min", "max":
		if v.alike && slices.ContainsFunc(args, v.b.spelt) {
			v.varies = strings.ToUpper(name) + "() of texts that may be equal and spelt otherwise"
		}
		return
	case "count", "sum", "avg", "bit_and", "bit_or", "bit_xor", "std", "stddev", "stddev_pop", "stddev_samp",
		"var_pop", "var_samp", "variance", "grouping":
		return
	}
	if order == nil || !v.b.unique(v.b.items(order.Items, false)) {
		v.varies = strings.ToUpper(name) + "()"
	}
}

func (v *partVisitor) window(n *ast.WindowFuncExpr) {
	name := strings.ToLower(n.Name)
	rows := n.Spec.Frame != nil && n.Spec.Frame.Type == ast.Rows
	peers := slices.Contains([]string{"rank", "dense_rank", "percent_rank", "cume_dist", "count", "sum", "avg", "min", "max"}, name)
	switch {
	case n.Spec.Name.O != "" || n.Spec.Ref.O != "" || n.Spec.OnlyAlias:
		v.varies = "a named window"
	case peers && !rows:
	case n.Spec.OrderBy == nil || !v.b.unique(v.b.items(n.Spec.OrderBy.Items, false)):
		v.varies = strings.ToUpper(name) + "() over rows of which some may be equal"
	}
}

// spelt reports an expression with a column of texts of which some are equal without
// being the same, or one that isn't known.
func (b *block) spelt(e ast.ExprNode) bool {
	found := false
	walk(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncCallExpr:
			if n.FnName.L == "length" || n.FnName.L == "char_length" {
				return false
			}
		case *ast.ColumnNameExpr:
			c, ok := b.column(n)
			found = found || !ok || c.col.Charset != "" && !strings.HasSuffix(c.col.Collation, "_bin")
		}
		return !found
	})
	return found
}
