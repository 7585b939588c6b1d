package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// keySource is what a key is computed from.
type keySource struct {
	text text.Fragment
	// col is the column where it is one, of the reference ref; expr is the
	// expression.
	col  *catalog.Column
	ref  *ref
	expr ast.ExprNode
	// aggregate: it is one, and nothing more.
	aggregate *ast.AggregateFuncExpr
	span      text.Span
	// item is its place in the select list, -1 where it isn't there or where
	// that place isn't known because of a `*` before it.
	item int
	// constant: the same for all rows, and so no key at all.
	constant bool
	// grouped: what the rows are grouped by.
	grouped bool
}

// primaryOrder is the order in which one server answers rows that are asked for by
// their primary keys, though no ORDER BY says so: an ORM that has inserted objects asks
// for what the server has filled in by SELECT id, created FROM t WHERE id = 7 OR id = 8,
// and takes the rows for the objects in turn. The shards' text stays as it is: nil where
// the key isn't in the select list, or compares by more than it shows.
//
// The merge costs a tenth of Shunt's processor time (7 to 10 of 60 to 100 µs for 4 to 50 keys), and
// no throughput.
func (a *analysis) primaryOrder(n ast.StmtNode, q *queryRoute) []plan.MergeKey {
	sel, ok := n.(*ast.SelectStmt)
	if !ok || q.spoils != "" && q.spoils != "LIMIT" || len(q.refs) != 1 || q.anchor != q.refs[0] || q.anchor.derived != nil || sel.SelectIntoOpt != nil {
		return nil
	}
	t := q.anchor.table
	if t.Placement != catalog.Hash || t.Differs != "" || len(t.PrimaryKey) == 0 || t.PrimaryKey[0] != t.ShardKey {
		return nil
	}
	var answered []*catalog.Column // nil for an expression
	for _, f := range sel.Fields.Fields {
		if f.WildCard == nil {
			c, _ := a.columnOf(f.Expr, q.anchor.scope)
			answered = append(answered, c.col)
			continue
		}
		for _, c := range t.Columns {
			if !c.Invisible {
				answered = append(answered, c)
			}
		}
	}
	var order []plan.MergeKey
	for _, c := range t.PrimaryKey {
		at := slices.Index(answered, c)
		if at < 0 || !showsOrder(c) {
			return nil
		}
		order = append(order, plan.MergeKey{Value: at})
	}
	return order
}

// showsOrder: types whose values sort by what they show.
func showsOrder(c *catalog.Column) bool {
	switch base := c.BaseType(); base {
	case "decimal", "numeric", "year", "date", "datetime", "time", "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return true
	default:
		return catalog.IsInteger(base)
	}
}

// sortedBy finds what an ORDER BY or GROUP BY expression means.
//
// Rule names of the order: MySQL looks a bare name up in the select list first,
// and then among the columns of FROM. Counter-example: SELECT -age AS age FROM
// users ORDER BY age sorts by the negated age.
func (b *mergeBuilder) sortedBy(e ast.ExprNode, at text.Span) (keySource, bool) {
	e, at = b.bare(e, at)
	place := at.To-at.From == 1 && (b.a.st.Tokens[at.From].Kind == text.Int || b.a.cat.MariaDB && b.a.st.Tokens[at.From].Kind == text.Word)
	switch x := e.(type) {
	case *ast.PositionExpr:
		switch {
		case x.P != nil:
			return keySource{}, false
		case place:
			return b.fromPlace(int64(x.N))
		}
		return keySource{text: b.a.st.CopyOf(at), span: at, expr: e, item: -1, constant: true}, true
	case *driver.ParamMarkerExpr:
		// Rule places: to MariaDB a parameter is one too, if its value is a whole number.
		// Counter-example: ORDER BY ? LIMIT 3 with 2 sorts by the second column there.
		if b.a.cat.MariaDB {
			return keySource{}, false
		}
	case *driver.ValueExpr:
		if place && x.Kind() == driver.KindInt64 {
			return b.fromPlace(x.GetInt64())
		}
	case *ast.ColumnNameExpr:
		if x.Name.Table.O == "" {
			if i, ok, found := b.itemNamed(x.Name.Name.L); found {
				if !ok {
					return keySource{}, false
				}
				return b.fromItem(i)
			}
		}
	}
	return b.fromExpr(e, at, true)
}

// bare is an expression without what servers drop before they look whether it is a name
// or a place: parentheses, and a plus sign.
//
// Rule places: a whole number is one, and no other literal, but for MariaDB's TRUE.
// Counter-examples: ORDER BY (2) and ORDER BY +2 sort by the second column; MySQL's ORDER
// BY TRUE, which the parser takes for a 1, by none.
func (b *mergeBuilder) bare(e ast.ExprNode, at text.Span) (ast.ExprNode, text.Span) {
	for {
		switch x := e.(type) {
		case *ast.ParenthesesExpr:
			if b.a.st.Closes(at.From) != at.To-1 {
				return e, at
			}
			e, at = x.Expr, text.Span{From: at.From + 1, To: at.To - 1}
		case *ast.UnaryOperationExpr:
			if x.Op != opcode.Plus || !b.a.st.Op(at.From, "+") {
				return e, at
			}
			e, at = x.V, text.Span{From: at.From + 1, To: at.To}
		default:
			return e, at
		}
	}
}

// fromPlace is the source that the n-th select item is.
func (b *mergeBuilder) fromPlace(n int64) (keySource, bool) {
	if n < 1 || n > int64(len(b.sel.Fields.Fields)) {
		return keySource{}, false
	}
	return b.fromItem(int(n) - 1)
}

// itemNamed finds a name in the select list. found: something has that name;
// ok: exactly one thing has.
func (b *mergeBuilder) itemNamed(name string) (at int, ok, found bool) {
	at = -1
	for i, f := range b.sel.Fields.Fields {
		if f.Expr == nil {
			continue
		}
		switch x := f.Expr.(type) {
		case *ast.ColumnNameExpr:
			if f.AsName.O != "" && f.AsName.L != name || f.AsName.O == "" && x.Name.Name.L != name {
				continue
			}
		default:
			if f.AsName.O == "" || f.AsName.L != name {
				continue
			}
		}
		if at >= 0 && !b.sameColumn(b.sel.Fields.Fields[at].Expr, f.Expr) {
			return at, false, true
		}
		if at < 0 {
			at = i
		}
	}
	return at, at >= 0, at >= 0
}

// aliasHides reports select items of a column's name that are not all that column.
func (b *mergeBuilder) aliasHides(name string, c column) bool {
	i, one, found := b.itemNamed(name)
	if !found {
		return false
	}
	x, ok := b.a.columnOf(b.sel.Fields.Fields[i].Expr, b.scope)
	return !one || !ok || x != c
}

func (b *mergeBuilder) sameColumn(x, y ast.ExprNode) bool {
	cx, okx := b.a.columnOf(x, b.scope)
	cy, oky := b.a.columnOf(y, b.scope)
	return okx && oky && cx == cy
}

// fromItem is the source that select item i is.
func (b *mergeBuilder) fromItem(i int) (keySource, bool) {
	for _, f := range b.sel.Fields.Fields[:i+1] {
		if f.WildCard != nil {
			return keySource{}, false // its number of columns isn't known for sure
		}
	}
	f := b.sel.Fields.Fields[i]
	text, ok := expression(b.a.st, b.c.items[i], f)
	if !ok {
		return keySource{}, false
	}
	s, ok := b.fromExpr(f.Expr, text, false)
	s.item = i
	return s, ok
}

// fromExpr is the source that an expression is. aliases: its names may be those
// of select items.
func (b *mergeBuilder) fromExpr(e ast.ExprNode, at text.Span, aliases bool) (keySource, bool) {
	s := keySource{text: b.a.st.CopyOf(at), span: at, expr: e, item: -1}
	if fn, ok := unwrap(e).(*ast.AggregateFuncExpr); ok {
		s.aggregate = fn
		return s, true
	}
	if n, ok := unwrap(e).(*ast.ColumnNameExpr); ok {
		c, ok := b.a.resolve(n.Name, b.scope)
		if !ok {
			return s, false // of a view, a derived table or from outside: its type isn't known
		}
		s.col, s.ref, s.item = c.col, c.ref, b.itemOf(c)
		return s, true
	}
	v := &keyVisitor{b: b, aliases: aliases, doubt: b.a.st.Settings.OwnCollations || !b.comparableWeights(b.a.st.Settings.Collation)}
	for i := at.From; i < at.To; i++ {
		// A charset's introducer brings a collation along.
		v.doubt = v.doubt || b.a.st.Tokens[i].Kind == text.Introducer || b.a.st.Is(i, "using") && unparsedCharset(b.a.st.Word(i+1))
	}
	walk(e, v.visit)
	if v.doubt {
		return s, false
	}
	s.constant = !v.column
	return s, true
}

// itemOf finds a column in the select list.
func (b *mergeBuilder) itemOf(c column) int {
	for i, f := range b.sel.Fields.Fields {
		if f.WildCard != nil {
			break
		}
		if x, ok := b.a.columnOf(f.Expr, b.scope); ok && x == c {
			return i
		}
	}
	return -1
}

// keyVisitor looks for what makes an expression's order doubtful.
type keyVisitor struct {
	b             *mergeBuilder
	aliases       bool
	doubt, column bool
}

func (v *keyVisitor) visit(n ast.Node) (deeper bool) {
	switch n := n.(type) {
	case *ast.ColumnNameExpr:
		v.column = true
		c, ok := v.b.a.resolve(n.Name, v.b.scope)
		// Rule plain types: inside of an expression a column's type may be that
		// of the whole, and the types left out here sort by something else than
		// what they show. Counter-example: IFNULL(f, 0) with a FLOAT f shows six
		// digits and sorts by all.
		if !ok || !plainType(c.col) || !v.b.comparableWeights(c.col.Collation) {
			v.doubt = true
			break
		}
		// Inside of an expression too a name may be an alias's.
		v.doubt = v.doubt || n.Name.Table.O == "" && v.aliases && v.b.aliasHides(n.Name.Name.L, c)
	case *ast.SubqueryExpr, *ast.VariableExpr, *ast.AggregateFuncExpr, *ast.WindowFuncExpr, *ast.DefaultExpr, *ast.ValuesExpr, *ast.PositionExpr, *ast.SetCollationExpr:
		// (A COLLATE of several levels has no weights that can be compared.)
		v.doubt = true
	case *ast.MatchAgainst:
		v.relevance(n)
		return false
	case *ast.FuncCallExpr:
		name := n.FnName.L
		if v.b.a.isDistance(n) {
			for _, arg := range n.Args {
				v.vector(arg)
			}
			return false
		}
		if spoken.VolatileFunction(name) || aggregateName(name) || strings.HasPrefix(name, "json") || strings.HasPrefix(name, "st_") ||
			n.Schema.O != "" || strings.Contains(name, "vector") || !knownFunction(name) {
			v.doubt = true
		}
	case *ast.FuncCastExpr:
		if n.Tp != nil && !castType(n) {
			v.doubt = true
		}
	}
	return !v.doubt
}

// relevance looks at MATCH ... AGAINST: a DOUBLE, by the words that the row's own shard has.
func (v *keyVisitor) relevance(n *ast.MatchAgainst) {
	v.column = true
	for _, name := range n.ColumnNames {
		c, ok := v.b.a.resolve(name, v.b.scope)
		v.doubt = v.doubt || !ok || name.Table.O == "" && v.aliases && v.b.aliasHides(name.Name.L, c)
	}
	switch unwrap(n.Against).(type) {
	case *driver.ValueExpr, *driver.ParamMarkerExpr:
	default:
		v.doubt = true
	}
}

// vector looks at an argument of a distance: a VECTOR column, or a constant.
func (v *keyVisitor) vector(arg ast.ExprNode) {
	if f, ok := unwrap(arg).(*ast.FuncCallExpr); ok && f.FnName.L == "vec_fromtext" && len(f.Args) == 1 {
		arg = f.Args[0]
	} else if n, ok := unwrap(arg).(*ast.ColumnNameExpr); ok {
		c, ok := v.b.a.resolve(n.Name, v.b.scope)
		v.column, v.doubt = true, v.doubt || !ok || c.col.BaseType() != "vector"
		if _, _, named := v.b.itemNamed(n.Name.Name.L); n.Name.Table.O == "" && v.aliases && named {
			v.doubt = true
		}
		return
	}
	switch unwrap(arg).(type) {
	case *driver.ValueExpr, *driver.ParamMarkerExpr:
	default:
		v.doubt = true
	}
}

// isDistance: MariaDB's distance of two vectors. A shard finds the nearest ones by its vector index,
// which needs no rows of others: no copy has it.
func (a *analysis) isDistance(e ast.ExprNode) bool {
	f, ok := unwrap(e).(*ast.FuncCallExpr)
	return ok && a.cat.MariaDB && len(f.Args) == 2 && (f.FnName.L == "vec_distance" || f.FnName.L == "vec_distance_euclidean" || f.FnName.L == "vec_distance_cosine")
}

// plainType: types whose values sort by what they show, or a text by its
// weight.
func plainType(c *catalog.Column) bool {
	switch c.BaseType() {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return true
	}
	return showsOrder(c)
}

// key makes the key of a source, hiding what it needs at the rows' end.
func (b *mergeBuilder) key(s keySource) (plan.MergeKey, bool) {
	wrapped := func(head, tail string) int {
		return b.hide(text.Fragment{Text: head}, s.text, text.Fragment{Text: tail})
	}
	value := func() int {
		switch {
		case s.item >= 0:
			return s.item
		case s.grouped && s.col == nil:
			// Servers don't know each expression again that they group by. Counter-example:
			// SELECT COUNT(*), NULLIF(a, 1) FROM t GROUP BY NULLIF(a, 1) of a MariaDB with
			// ONLY_FULL_GROUP_BY.
			return wrapped("MIN(", ")")
		}
		return b.hide(s.text)
	}
	if s.aggregate != nil {
		// Of groups that are whole on their shard.
		return plan.MergeKey{Value: value()}, b.numericAggregate(s)
	}
	if s.col == nil {
		if numericExpr(s.expr) || b.a.isDistance(s.expr) {
			return plan.MergeKey{Value: value()}, true
		}
		// MIN: inside of other functions MySQL doesn't know a group's expression
		// again. CAST: MariaDB gives weights the coercibility of their text, which
		// MIN may refuse.
		min, end := "", ""
		if b.sel.GroupBy != nil {
			min, end = "MIN(CAST(", " AS BINARY))"
		}
		return plan.MergeKey{
			Value: value(), Weight: wrapped(min+"WEIGHT_STRING(", ")"+end),
			Pad: b.hide(padWeight(min, s.text, end)...),
		}, true
	}
	if showsOrder(s.col) {
		return plan.MergeKey{Value: value()}, true
	}
	switch s.col.BaseType() {
	case "float", "double":
		// A FLOAT shows six digits, a DOUBLE(m,d) those after the point only.
		return plan.MergeKey{Value: wrapped("CAST(", " AS DOUBLE)")}, true
	case "timestamp":
		// It sorts by the moment; what it shows goes back once a year.
		return plan.MergeKey{Value: wrapped("UNIX_TIMESTAMP(", ")")}, true
	case "bit", "enum", "set":
		return plan.MergeKey{Value: wrapped("CAST(", " AS UNSIGNED)")}, true
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return b.textKey(s.col, s.text)
	}
	return plan.MergeKey{}, false // JSON, spatial, VECTOR, UUID, INET6, ...
}

// textKey is the key of a text of a column, or of an aggregate of it.
//
// Rule listed types: what is listed for a view's expression says nothing of it.
// Counter-example: the view there; 'x' and 'x ' are two texts, and one where spaces
// are added to weights because utf8mb4_unicode_ci has it so.
func (b *mergeBuilder) textKey(c *catalog.Column, x text.Fragment) (plan.MergeKey, bool) {
	s := b.a.st.Settings
	if c.Collation == "" || !b.comparableWeights(c.Collation) || c.Listed && (s.OwnCollations || !b.comparableWeights(s.Collation)) {
		return plan.MergeKey{}, false
	}
	weight := b.hide(text.Fragment{Text: "WEIGHT_STRING("}, x, text.Fragment{Text: ")"})
	if c.Listed {
		return plan.MergeKey{Value: weight, Weight: weight, Pad: b.hide(padWeight("", x, "")...)}, true
	}
	if !b.mayPad(c.Collation) {
		return plan.MergeKey{Value: weight, Weight: weight}, true
	}
	// A constant: two bytes in each row.
	constant := func(s string) string {
		return "CONVERT('" + s + "' USING " + c.Charset + ") COLLATE " + c.Collation
	}
	pad := "IF(" + constant("") + "=" + constant(" ") + ",WEIGHT_STRING(" + constant(" ") + "),X'')"
	return plan.MergeKey{Value: weight, Weight: weight, Pad: b.hide(text.Fragment{Text: pad, Foreign: true})}, true
}

// padWeight is the weight of a space in the collation of x, X” where that pads with none.
//
// Rule no literal beside it: it may not mix with the collation of x. Counter-example: NULLIF('q', name)
// of a client with utf8mb4_unicode_ci and a column of utf8mb4_general_ci (1267); a view's own literals.
// The one that is there has a character set of its own: under SET NAMES binary MySQL's REGEXP refuses it (3995).
func padWeight(before string, x text.Fragment, after string) []text.Fragment {
	return []text.Fragment{
		{Text: before + "IF(COLLATION("}, x, {Text: ") REGEXP _utf8mb4'_0900_|nopad|^binary$',X'',WEIGHT_STRING(LEFT("}, x, {Text: ",0) AS CHAR(1)))" + after},
	}
}

// mayPad: the collation may ignore spaces at the end.
func (b *mergeBuilder) mayPad(collation string) bool {
	return collation != "binary" && (b.a.cat.MariaDB || !strings.Contains(collation, "_0900_"))
}

// comparableWeights: collations whose WEIGHT_STRING compares bytewise, where
// spaces at the end count for nothing after these are taken for what they weigh.
// Those that compare in several levels and pad with spaces don't.
func (b *mergeBuilder) comparableWeights(collation string) bool {
	c := strings.ToLower(collation)
	switch {
	case strings.HasSuffix(c, "_czech_cs"), strings.HasSuffix(c, "_w2"):
		return false
	case strings.HasPrefix(c, "latin7_") && c != "latin7_bin", c == "big5_chinese_ci", c == "gb18030_chinese_ci", c == "tis620_thai_ci":
		// Servers sort and compare these by more, or by something else, than what
		// WEIGHT_STRING shows (found by TestMergeCollations).
		return false
	case b.a.cat.MariaDB && (strings.Contains(c, "nopad") || strings.Contains(c, "_0900_")):
		// MariaDB, to which MySQL's names are aliases, fills the keys that it sorts by
		// with zeros: 'a' and 'a\0' are equal to ORDER BY, and not to =.
		return false
	case strings.Contains(c, "uca1400"):
		return strings.HasSuffix(c, "_ai_ci")
	}
	return true
}

// numericExpr: expressions that are surely numbers.
func numericExpr(e ast.ExprNode) bool {
	switch x := unwrap(e).(type) {
	case *ast.BinaryOperationExpr:
		switch x.Op {
		case opcode.Plus, opcode.Minus:
			// A date plus an INTERVAL is a function to the parser.
			return true
		case opcode.Mul, opcode.Div, opcode.IntDiv, opcode.Mod, opcode.EQ, opcode.NE, opcode.LT, opcode.LE, opcode.GT, opcode.GE,
			opcode.LogicAnd, opcode.LogicOr, opcode.LogicXor:
			return true
		}
	case *ast.UnaryOperationExpr:
		return x.Op == opcode.Minus || x.Op == opcode.Not || x.Op == opcode.Not2
	case *ast.IsNullExpr, *ast.IsTruthExpr, *ast.BetweenExpr, *ast.PatternInExpr, *ast.PatternLikeOrIlikeExpr:
		return true
	case *ast.FuncCallExpr:
		switch x.FnName.L {
		case "length", "char_length", "character_length", "bit_length", "octet_length", "year", "month", "day", "dayofmonth",
			"dayofweek", "dayofyear", "hour", "minute", "second", "quarter", "week", "weekday", "weekofyear", "yearweek", "to_days",
			"datediff", "locate", "instr", "position", "field", "find_in_set", "strcmp", "ascii", "ord", "sign", "crc32", "microsecond":
			return true
		}
	}
	return false
}

// knownFunction: functions whose value is a function of their arguments, with a
// type that sorts by what it shows. (Not INTERVAL(): MySQL with ONLY_FULL_GROUP_BY doesn't
// know it in ORDER BY for what it groups by.)
func knownFunction(name string) bool {
	switch name {
	case "length", "char_length", "character_length", "bit_length", "octet_length", "year", "month", "day", "dayofmonth",
		"dayofweek", "dayofyear", "hour", "minute", "second", "quarter", "week", "weekday", "weekofyear", "yearweek", "to_days",
		"datediff", "locate", "instr", "position", "field", "find_in_set", "strcmp", "ascii", "ord", "sign", "crc32", "microsecond",
		"concat", "concat_ws", "lower", "lcase", "upper", "ucase", "trim", "ltrim", "rtrim", "left", "right", "substring", "substr", "mid",
		"substring_index", "replace", "reverse", "repeat", "lpad", "rpad", "hex", "md5", "sha1", "sha", "sha2", "if", "ifnull", "nullif", "coalesce",
		"greatest", "least", "abs", "round", "floor", "ceil", "ceiling", "truncate", "mod", "date", "date_format", "dayname", "monthname",
		"last_day", "date_add", "date_sub", "adddate", "subdate", "elt", "insert", "inet_aton", "extract", "timestampdiff", "isnull":
		return true
	}
	return false
}

// castType: casts to types that sort by what they show.
func castType(n *ast.FuncCastExpr) bool {
	switch n.Tp.GetType() {
	case 0x0f, 0xfd, 0xfe: // (VAR)CHAR
		cs := n.Tp.GetCharset()
		return cs == "" || cs == "utf8mb4" || cs == "binary"
	case 0x08, 0xf6, 0x0a, 0x0b, 0x0c: // BIGINT, DECIMAL, DATE, TIME, DATETIME
		return true
	}
	return false
}
