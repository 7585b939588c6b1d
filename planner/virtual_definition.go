package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// DefineVirtual reads the query of a virtual column of a table: one aggregate function over the rows of another
// table, or the same, that have the table's key in a column.
//
// Rule one meaning: the query means the same to every session. It has no text that depends on settings, on the time, or
// on who asks.
func (p *Planner) DefineVirtual(of *catalog.Table, name, expression string, s text.Settings, cat *catalog.Catalog) (*catalog.VirtualColumn, error) {
	refuse := func(format string, args ...any) error {
		return text.NotSupported("a virtual column "+format+"; it is (SELECT COUNT(*)|COUNT(c)|SUM(c)|MIN(c)|MAX(c)|c FROM child WHERE child.column = "+of.Name+".key [AND conditions of the child's row] [ORDER BY child.unique LIMIT 1])", args...)
	}
	st, err := text.Read("SELECT "+expression, s, cat)
	if err != nil {
		return nil, err
	}
	if own := spoken.NamesOwn(st); own != "" {
		return nil, spoken.OwnSchema(own)
	}
	if len(st.Params) > 0 || st.Hinted || st.Doubtful || len(st.Comments) > 0 {
		return nil, refuse("has no parameters or comments")
	}
	for i := range st.Tokens {
		tok := st.Text(i)
		if tok == "||" || tok == "@" || strings.ContainsAny(tok, `"\`) || st.Tokens[i].Kind == text.String && strings.ContainsFunc(tok, func(r rune) bool { return r > '~' }) {
			return nil, refuse("has strings of ASCII in single quotes, without \\, and no || or variables")
		}
	}
	n, err := p.parse(st, cat)
	if err != nil {
		return nil, err
	}
	var query *ast.SelectStmt
	if sel, ok := n.(*ast.SelectStmt); ok && len(sel.Fields.Fields) == 1 && sel.From == nil {
		if sub, ok := sel.Fields.Fields[0].Expr.(*ast.SubqueryExpr); ok {
			query, _ = sub.Query.(*ast.SelectStmt)
		}
	}
	if query == nil || len(query.Fields.Fields) != 1 || query.From == nil || query.Where == nil || query.GroupBy != nil || query.Having != nil ||
		(query.OrderBy == nil) != (query.Limit == nil) || query.With != nil || query.LockInfo != nil || query.Distinct || len(query.WindowSpecs) > 0 {
		return nil, refuse("has one aggregate function, FROM one table, and WHERE")
	}
	from := query.From.TableRefs
	source, ok := from.Left.(*ast.TableSource)
	if !ok || from.Right != nil {
		return nil, refuse("reads one table")
	}
	table, ok := source.Source.(*ast.TableName)
	if !ok || len(table.PartitionNames) > 0 || len(table.IndexHints) > 0 || table.TableSample != nil || table.AsOf != nil {
		return nil, refuse("reads one table")
	}
	childName := catalog.TableName{Schema: table.Schema.O, Name: table.Name.O}
	if childName.Schema == "" {
		childName.Schema = of.Schema
	}
	child := cat.Table(childName.Schema, childName.Name)
	switch {
	case child == nil || len(child.Columns) == 0:
		return nil, mysqlerr.Newf(mysqlerr.NoSuchTable, "Table '%s.%s' doesn't exist", childName.Schema, childName.Name)
	case child.IsView || child.Temporary || child.Sequence || child.Early:
		return nil, refuse("counts rows of an InnoDB table")
	case child.Placement == catalog.Reference:
		return nil, refuse("of a reference table is not needed: each shard has its rows")
	}
	alias := source.AsName.O
	if alias == "" {
		alias = table.Name.O
	}
	d := &virtualDefinition{st: st, cat: cat, of: of, child: child, alias: alias}
	v := &catalog.VirtualColumn{Of: catalog.TableName{Schema: of.Schema, Name: of.Name}, Name: name, Expression: strings.TrimSpace(expression), Child: catalog.TableName{Schema: child.Schema, Name: child.Name}}
	if query.OrderBy != nil {
		if !d.ordered(v, query) {
			return nil, refuse("without an aggregate function has a column of the row with the greatest or the least value of a unique integer column: ORDER BY c [DESC] LIMIT 1")
		}
	} else if !d.aggregate(v, query.Fields.Fields[0].Expr) {
		return nil, refuse("has one of these functions, of a column")
	}
	if !d.conditions(v, query.Where) {
		return nil, refuse("has conditions of the child's columns and of constants, with AND between them and the key's")
	}
	where := slices.IndexFunc(st.Tokens, func(t text.Token) bool { return st.Is(st.TokenAt(int(t.Start)), "where") })
	end := len(st.Tokens) - 1 // the subquery's parenthesis
	if query.OrderBy != nil {
		end = slices.IndexFunc(st.Tokens, func(t text.Token) bool { return st.Is(st.TokenAt(int(t.Start)), "order") })
	}
	v.Where = d.template(st.Tokens[where+1].Start, st.Tokens[end].Start)
	if err := d.types(v); err != nil {
		return nil, err
	}
	return v, nil
}

// virtualDefinition reads a definition.
type virtualDefinition struct {
	st        *text.Statement
	cat       *catalog.Catalog
	of, child *catalog.Table
	alias     string
	names     []text.Edit
}

// column is a column's table and itself: the child's first, as in the query. nil where there is none.
func (d *virtualDefinition) column(n *ast.ColumnName) (child bool, c *catalog.Column) {
	same := func(a, b string) bool { return a == b || d.cat.LowerCaseNames && strings.EqualFold(a, b) }
	if n.Table.O == "" {
		if c := d.child.Column(n.Name.O); c != nil {
			return true, c
		}
		return false, d.of.Column(n.Name.O)
	}
	if same(n.Table.O, d.alias) && (n.Schema.O == "" || same(n.Schema.O, d.child.Schema)) {
		return true, d.child.Column(n.Name.O)
	}
	if same(n.Table.O, d.of.Name) && (n.Schema.O == "" || same(n.Schema.O, d.of.Schema)) {
		return false, d.of.Column(n.Name.O)
	}
	return false, nil
}

func (d *virtualDefinition) aggregate(v *catalog.VirtualColumn, e ast.ExprNode) bool {
	f, ok := unwrap(e).(*ast.AggregateFuncExpr)
	if !ok || f.Distinct || len(f.Args) != 1 || f.Order != nil {
		return false
	}
	switch name := strings.ToUpper(f.F); name {
	case "COUNT", "SUM", "MIN", "MAX":
		v.Aggregate = catalog.Aggregate(name)
	default:
		return false
	}
	if x, ok := unwrap(f.Args[0]).(*ast.ColumnNameExpr); ok {
		child, c := d.column(x.Name)
		if c == nil || !child {
			return false
		}
		v.Argument = c.Name
		return true
	}
	_, constant := f.Args[0].(ast.ValueExpr)
	if v.Aggregate == catalog.CountNulls && constant && d.st.TokenAt(f.Args[0].OriginTextPosition()) >= 0 {
		v.Aggregate = catalog.CountRows // COUNT(*) is COUNT(1) to the parser
		return d.st.Text(d.st.TokenAt(f.OriginTextPosition())+2) == "*" || d.st.Text(d.st.TokenAt(f.OriginTextPosition())+2) == "1"
	}
	if v.Aggregate == catalog.CountNulls && constant {
		v.Aggregate = catalog.CountRows
		return true
	}
	return false
}

// ordered reads a column of the first row by a unique column.
//
// Rule one row: by a column that isn't unique it is any of several rows, and not the same one each time.
func (d *virtualDefinition) ordered(v *catalog.VirtualColumn, query *ast.SelectStmt) bool {
	if len(query.OrderBy.Items) != 1 || query.Limit.Offset != nil || query.Limit.Count == nil {
		return false
	}
	if one, ok := query.Limit.Count.(ast.ValueExpr); !ok || fmt.Sprint(one.GetValue()) != "1" {
		return false
	}
	by := query.OrderBy.Items[0]
	x, ok := unwrap(by.Expr).(*ast.ColumnNameExpr)
	y, of := unwrap(query.Fields.Fields[0].Expr).(*ast.ColumnNameExpr)
	if !ok || !of {
		return false
	}
	child, order := d.column(x.Name)
	childs, argument := d.column(y.Name)
	if order == nil || argument == nil || !child || !childs || order.Nullable || !catalog.IsInteger(order.BaseType()) ||
		!slices.ContainsFunc(d.child.Unique, func(u []*catalog.Column) bool { return len(u) == 1 && u[0] == order }) {
		return false
	}
	v.Argument, v.Order, v.Aggregate = argument.Name, order.Name, catalog.First
	if by.Desc {
		v.Aggregate = catalog.Last
	}
	return true
}

// conditions reads WHERE: one equality of the keys, and conditions of the child's row.
func (d *virtualDefinition) conditions(v *catalog.VirtualColumn, where ast.ExprNode) bool {
	decided := true
	for _, c := range conjuncts(where, &scope{}, nil) {
		if d.keys(v, c.expr) {
			continue
		}
		if !d.ofChild(c.expr) {
			return false
		}
		v.Filtered = true
		if f, ok := d.filter(c.expr); ok {
			v.Filters = append(v.Filters, f)
		} else {
			decided = false
		}
	}
	if !decided {
		v.Filters = nil
	}
	return v.Key != ""
}

func (d *virtualDefinition) keys(v *catalog.VirtualColumn, e ast.ExprNode) bool {
	b, ok := unwrap(e).(*ast.BinaryOperationExpr)
	if !ok || b.Op != opcode.EQ || v.Key != "" {
		return false
	}
	sides := [2]ast.ExprNode{b.L, b.R}
	for i := range sides {
		x, isColumn := unwrap(sides[i]).(*ast.ColumnNameExpr)
		y, areColumns := unwrap(sides[1-i]).(*ast.ColumnNameExpr)
		if !isColumn || !areColumns {
			return false
		}
		child, c := d.column(x.Name)
		other, k := d.column(y.Name)
		if c == nil || k == nil || !child || other {
			continue
		}
		v.ChildKey, v.Key = c.Name, k.Name
		return d.named(x, catalog.ChildMark+"."+catalog.QuoteName(c.Name)) && d.named(y, catalog.ParentKeyMark)
	}
	return false
}

// ofChild reports a condition that is of nothing but a child's row.
func (d *virtualDefinition) ofChild(e ast.ExprNode) bool {
	ok := true
	walk(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ColumnNameExpr:
			child, c := d.column(n.Name)
			if c == nil || !child || c.Virtual && c.Varies {
				ok = false
				return false
			}
			ok = d.named(n, catalog.ChildMark+"."+catalog.QuoteName(c.Name))
		case *ast.BinaryOperationExpr, *ast.UnaryOperationExpr, *ast.ParenthesesExpr, *ast.BetweenExpr, *ast.IsNullExpr, *ast.IsTruthExpr, *ast.PatternInExpr, *ast.PatternLikeOrIlikeExpr, *ast.ColumnName, ast.ValueExpr:
		default:
			ok = false
		}
		return ok
	})
	return ok
}

// named notes what stands for a name, and reports whether it found that.
func (d *virtualDefinition) named(n *ast.ColumnNameExpr, with string) bool {
	from, to, ok := nameOffsets(d.st, n)
	d.names = append(d.names, text.Edit{From: from, To: to, With: []text.Fragment{{Text: with}}})
	return ok
}

// template is a piece of the text with marks for the names.
func (d *virtualDefinition) template(from, to uint32) string {
	slices.SortFunc(d.names, func(a, b text.Edit) int { return int(a.From) - int(b.From) })
	var b strings.Builder
	for _, e := range d.names {
		b.WriteString(d.st.Src[from:e.From] + e.With[0].Text)
		from = e.To
	}
	b.WriteString(d.st.Src[from:to])
	return strings.TrimSpace(b.String())
}

// types finds those of the durable table.
func (d *virtualDefinition) types(v *catalog.VirtualColumn) error {
	key, childKey := d.of.Column(v.Key), d.child.Column(v.ChildKey)
	integers := catalog.IsInteger(key.BaseType()) && catalog.IsInteger(childKey.BaseType())
	if !integers && (key.Type != childKey.Type || key.Collation != childKey.Collation) || strings.Contains(key.BaseType(), "text") || strings.Contains(key.BaseType(), "blob") || strings.Contains(key.BaseType(), "json") {
		return text.NotSupported("a virtual column's keys are both integers, or of the same type and collation: %s.%s is %s %s, %s.%s is %s %s",
			d.of.Name, key.Name, key.Type, key.Collation, d.child.Name, childKey.Name, childKey.Type, childKey.Collation)
	}
	unique := slices.ContainsFunc(d.of.Unique, func(u []*catalog.Column) bool { return len(u) == 1 && u[0] == key })
	if !unique && d.of.ShardKey != key {
		return text.NotSupported("a virtual column's key is a unique key of %s, or its shard key; %s is neither", d.of.Name, key.Name)
	}
	if _, err := plan.CodecOf(d.cat, key); err != nil {
		return text.NotSupported("a virtual column's key has values that can be told apart exactly: %s.%s is %s: %v", d.of.Name, key.Name, key.Type, err)
	}
	v.KeyType = columnType(key)
	if v.Counts() {
		return nil
	}
	c := d.child.Column(v.Argument)
	base := c.BaseType()
	if v.Ordered() {
		v.OrderType = columnType(d.child.Column(v.Order))
	}
	switch {
	case v.Ordered() && orderedText(c):
		v.ValueType, v.ValueCharset, v.ValueCollation = columnType(c), c.Charset, c.Collation
	case v.Aggregate == catalog.Sum && catalog.IsInteger(base):
		digits := map[string]int{"tinyint": 25, "smallint": 27, "mediumint": 30, "int": 32, "bigint": 42}[base]
		if digits == 0 {
			digits = 42
		}
		v.ValueType = fmt.Sprintf("decimal(%d,0)", digits)
	case v.Aggregate == catalog.Sum && base == "decimal":
		precision, scale := decimalOf(c.Type)
		v.ValueType = fmt.Sprintf("decimal(%d,%d)", min(65, precision+22), scale)
	case v.Aggregate == catalog.Sum:
		return text.NotSupported("a virtual column's SUM is of integers or DECIMALs, whose order doesn't matter: %s.%s is %s", d.child.Name, c.Name, c.Type)
	case v.Ordered() && (base == "timestamp" || !catalog.IsInteger(base) && base != "decimal" && base != "date" && base != "datetime"):
		return text.NotSupported("a virtual column's value of one row is an integer, a DECIMAL, a DATE, a DATETIME or a text: %s.%s is %s", d.child.Name, c.Name, c.Type)
	case !catalog.IsInteger(base) && base != "decimal" && base != "date" && base != "datetime" && base != "timestamp":
		return text.NotSupported("a virtual column's MIN and MAX are of integers, DECIMALs and dates: %s.%s is %s", d.child.Name, c.Name, c.Type)
	default:
		v.ValueType = columnType(c)
	}
	return nil
}

// orderedText reports a text that can be written in any statement.
func orderedText(c *catalog.Column) bool {
	switch base := c.BaseType(); {
	case base != "char" && base != "varchar" && !strings.HasSuffix(base, "text"):
		return false
	default:
		return c.Charset == "utf8mb4" || c.Charset == "utf8mb3" || c.Charset == "utf8" || c.Charset == "latin1" || c.Charset == "ascii"
	}
}

// columnType is a column's type for CREATE TABLE.
func columnType(c *catalog.Column) string {
	if c.Charset == "" {
		return c.Type
	}
	return c.Type + " CHARACTER SET " + c.Charset + " COLLATE " + c.Collation
}

// decimalOf reads decimal(p,s).
func decimalOf(columnType string) (precision, scale int) {
	precision = 10
	_, in, ok := strings.Cut(columnType, "(")
	if !ok {
		return precision, 0
	}
	in, _, _ = strings.Cut(in, ")")
	p, s, _ := strings.Cut(in, ",")
	if n, err := strconv.Atoi(strings.TrimSpace(p)); err == nil {
		precision = n
	}
	scale, _ = strconv.Atoi(strings.TrimSpace(s))
	return precision, scale
}
