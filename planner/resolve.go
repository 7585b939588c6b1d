package planner

import (
	"maps"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// analysis is what a parsed statement's query blocks say: tables, conditions,
// features.
type analysis struct {
	st     *text.Statement
	cat    *catalog.Catalog
	refs   []*ref // all table references of all blocks, in the text's order
	tables []*catalog.Table
	err    *text.Error // the first refusal met
	// parsers reads the queries of views, nil where views are not looked into: in
	// what writes. views counts how deep this one is.
	parsers *parserPool
	views   int
	// writes is the block whose tables are changed, nil for none: views there stand for their tables.
	writes *scope
	// unnamed is Rows.Unnamed.
	unnamed []*catalog.Table
	// what the expressions use
	subqueries bool // a query block inside of another one
	volatile   string
	clock      bool // a function of the statement's time
	// selects: what is read is a SELECT, which may assign user variables; assigned are
	// those (lower case), each once.
	selects  bool
	assigned []string
	// hiddenAggregate is what may make one row of many, or counts them, though featureVisitor
	// doesn't find it, "" for nothing.
	hiddenAggregate string
	// counted: MariaDB's ROWNUM() counts rows.
	counted bool
	// sequences are MariaDB's that it moves on.
	sequences []*catalog.Table
	// joined, when set, is told what a gather needs to know (gather.go).
	joined *joined
	// ctes are the common table expressions, within the one whose query is read.
	ctes   []*cte
	within *cte
	// deriving: derived tables are read as tables where they can be.
	// hidden are names of CTEs around that this analysis doesn't know.
	deriving bool
	hidden   map[string]bool
	// operands are the blocks of the outermost UNION, by their SELECTs.
	operands map[*ast.SelectStmt]operandBlock
	// virtual, when set, is told of all names of columns in expressions (virtual.go).
	virtual *virtualNames
}

// scope is one query block: its FROM and what its column names resolve to.
type scope struct {
	parent *scope
	refs   []*ref
	side   side
	// where holds the conjuncts of WHERE.
	where  []cond
	ctes   map[string]bool
	bodies map[string]*cte
	// derivable are those that derivedAsTable may read, unused those of them that
	// it hasn't.
	derivable map[string]*ast.CommonTableExpression
	unused    map[string]bool
	// correlated: a subquery in an expression, so that the conditions of the
	// blocks around it hold for every row that counts.
	correlated bool
	// always: of a row that is answered even where WHERE leaves none: that of an aggregate
	// without GROUP BY, and ROLLUP's total (MySQL).
	always bool
	// unordered: nothing in the answer comes from the order in which a derived table has its rows.
	unordered bool
	// virtual is where durable values of virtual columns can be joined; nil: nowhere.
	virtual *virtualBlock
}

// ref is one table reference of a FROM clause.
type ref struct {
	scope         *scope
	alias, schema string
	name          string         // as it is written
	table         *catalog.Table // nil: derived table, CTE, system table
	// view is the one that table stands for, nil for none. exact: its columns are
	// of the types that table says.
	view  *catalog.Table
	exact bool
	// through is a view that is written through, and names are those by which it has the table's columns; nil for none.
	through *catalog.Table
	names   map[string]*catalog.Column
	// derived is the query of a derived table that is read as a table; table has
	// those of its columns that are known.
	// partial: it has more, of the names others; nil: of names that aren't known.
	derived *queryRoute
	partial bool
	others  map[string]bool
	system  bool
	// history: it may read rows of the past, whose values indexes don't know.
	history bool
	// usesKey: USING compares a key's first column with one that isn't known.
	usesKey bool
	// nullable: on the side of an outer join that may be filled with NULLs.
	nullable bool
	// on holds the conjuncts of the ON clauses that every row of this
	// reference must satisfy to appear in the answer.
	on []cond
	// class links columns that the conditions equate (see equate).
	class map[column]int
	tree  *cnode
	// several: by tree the table's indexes may be asked for several keys.
	several bool
	// equal: the conditions are nothing but equalities of columns with values.
	equal bool
	// labels are how lookups by the table's indexes are called.
	labels []string
}

// sharded reports a reference whose rows are spread over several shards.
func (r *ref) sharded() bool {
	return r.table != nil && (r.table.IsView || r.table.Placement == catalog.Hash || r.table.Placement == catalog.Anywhere)
}

// column is the one of a name in lower case; nil for none that is known.
func (r *ref) column(name string) *catalog.Column {
	if r.through != nil {
		return r.names[name]
	}
	return r.table.Column(name)
}

// nameOf is the name of a column of the table's; "" where a view that is written through lacks it.
func (r *ref) nameOf(c *catalog.Column) string {
	if r.through == nil {
		return c.Name
	}
	for name, of := range r.names {
		if of == c {
			return name
		}
	}
	return ""
}

// mayHave reports whether a name in lower case may be one of r's columns.
func (r *ref) mayHave(name string) bool {
	return r.table == nil || r.table.IsView || r.column(name) != nil || r.partial && (r.others == nil || r.others[name])
}

func (r *ref) reference() bool {
	return r.table != nil && !r.table.IsView && r.table.Placement == catalog.Reference
}

// column is a column of one table reference.
type column struct {
	ref *ref
	col *catalog.Column
}

// cond is one conjunct: an expression, or the equality of two columns that
// USING and NATURAL say.
type cond struct {
	expr  ast.ExprNode
	scope *scope
	pair  [2]column
}

// side is one side of a join: its references and the columns that USING
// merged, by lower-case name.
type side struct {
	refs   []*ref
	merged map[string]column
}

func (a *analysis) refuse(e *text.Error) {
	if a.err == nil {
		a.err = e
	}
}

// query reads a SELECT, UNION, TABLE or VALUES. main blocks only return their
// scope where they are one SELECT.
func (a *analysis) query(n ast.Node, parent *scope, correlated bool) *scope {
	switch n := n.(type) {
	case *ast.SelectStmt:
		return a.selectBlock(n, parent, correlated)
	case *ast.SetOprStmt:
		s := &scope{parent: parent, correlated: correlated}
		a.with(n.With, s)
		a.setOperands(n.SelectList, s)
		a.expressions(s, n.OrderBy, n.Limit)
	case *ast.SubqueryExpr:
		return a.query(n.Query, parent, correlated)
	default:
		a.refuse(text.NotSupported("this form of query is not supported yet: send it to one shard with /* shunt: shard=NAME */"))
	}
	return nil
}

// operandBlock is a SELECT of a UNION, with all references in it: those of derived
// tables and subqueries too.
type operandBlock struct {
	scope *scope
	refs  []*ref
}

func (a *analysis) setOperands(l *ast.SetOprSelectList, s *scope) {
	a.subqueries = true
	a.with(l.With, s)
	for _, sel := range l.Selects {
		if inner, ok := sel.(*ast.SetOprSelectList); ok {
			in := &scope{parent: s, correlated: true}
			a.setOperands(inner, in)
			continue
		}
		from := len(a.refs)
		in := a.query(sel, s, true)
		if sel, ok := sel.(*ast.SelectStmt); ok && s.parent == nil {
			if a.operands == nil {
				a.operands = map[*ast.SelectStmt]operandBlock{}
			}
			a.operands[sel] = operandBlock{in, a.refs[from:len(a.refs):len(a.refs)]}
		}
	}
	a.expressions(s, l.OrderBy, l.Limit)
}

func (a *analysis) selectBlock(n *ast.SelectStmt, parent *scope, correlated bool) *scope {
	s := &scope{parent: parent, correlated: correlated, unordered: unordered(n)}
	a.with(n.With, s)
	if n.SelectIntoOpt != nil {
		a.refuse(spoken.RefuseInto())
	}
	a.from(n.From, s)
	if a.virtual != nil {
		a.virtual.block(n, s)
	}
	s.where = conjuncts(n.Where, s, nil)
	// row is the same block, to what its rows are made of once WHERE has left them.
	row := new(*s)
	a.expressions(row, n.Fields)
	a.expressions(s, n.Where)
	a.expressions(row, n.GroupBy, n.Having, n.OrderBy, n.Limit)
	for i := range n.WindowSpecs {
		a.expressions(row, &n.WindowSpecs[i])
	}
	for _, l := range n.Lists {
		a.expressions(row, l)
	}
	if n.GroupBy != nil {
		row.always = n.GroupBy.Rollup
	} else {
		row.always = featuresOf(n.Fields, n.Having, n.OrderBy).aggregate != "" || a.hiddenAggregate != ""
	}
	a.groupsByView(n, s)
	return s
}

// maxJoin bounds the tables of one FROM clause, as servers do.
const maxJoin = 61

func (a *analysis) from(n *ast.TableRefsClause, s *scope) {
	switch {
	case n == nil || n.TableRefs == nil:
	case tooMany(n.TableRefs):
		server := "MySQL"
		if a.cat.MariaDB {
			server = "MariaDB"
		}
		a.refuse(text.NewErrorf(mysqlerr.TooManyTables, "Too many tables; %s can only use %d tables in a join", server, maxJoin))
	default:
		s.side = a.join(n.TableRefs, s)
	}
}

func tooMany(n ast.ResultSetNode) bool {
	tables := 0
	for range sources(n) {
		if tables++; tables > maxJoin {
			return true
		}
	}
	return false
}

// join reads a FROM clause. Which references an ON condition filters is the
// heart of it:
//
//	a JOIN b ON c        filters a and b
//	a LEFT JOIN b ON c   filters b only: rows of a stay, with NULLs for b
//
// Counter-example: `users u LEFT JOIN orders o ON u.id = o.user_id AND u.id = 5`
// answers every user. If u.id = 5 bounded u, users of other shards were lost.
func (a *analysis) join(n ast.ResultSetNode, s *scope) side {
	switch n := n.(type) {
	case *ast.Join:
		if n.Right == nil {
			return a.join(n.Left, s)
		}
		l, r := a.join(n.Left, s), a.join(n.Right, s)
		var on []cond
		out := side{refs: append(append([]*ref(nil), l.refs...), r.refs...), merged: map[string]column{}}
		maps.Copy(out.merged, l.merged)
		maps.Copy(out.merged, r.merged)
		if n.On != nil {
			// Rule names of ON: those of the tables that it joins, and of the blocks around.
			// Counter-example: FROM orders o WHERE EXISTS (SELECT 1 FROM users u JOIN countries c ON
			// u.id = user_id JOIN items i ...), where user_id is o's and not i's.
			on = conjuncts(n.On.Expr, &scope{parent: s.parent, refs: out.refs, side: out}, nil)
			a.expressions(s, n.On.Expr)
		}
		var using []string
		for _, u := range n.Using {
			using = append(using, u.Name.L)
		}
		if n.NaturalJoin && !rotated(n) {
			using = commonColumns(l, r)
		}
		for _, name := range using {
			lc, lok := l.lookup(name)
			rc, rok := r.lookup(name)
			if !lok || !rok {
				if lok && n.Tp != ast.LeftJoin {
					lc.ref.usesKey = lc.ref.usesKey || lc.col != nil && lc.col.Keyed
				}
				if rok && n.Tp != ast.RightJoin {
					rc.ref.usesKey = rc.ref.usesKey || rc.col != nil && rc.col.Keyed
				}
				continue
			}
			on = append(on, cond{scope: s, pair: [2]column{lc, rc}})
			out.merged[name] = lc
			if n.Tp == ast.RightJoin {
				out.merged[name] = rc
			}
		}
		a.joined.filter(n.Tp, l, r, on)
		for _, x := range l.refs {
			if n.Tp != ast.LeftJoin {
				x.on = append(x.on, on...)
			}
			if n.Tp == ast.RightJoin {
				x.nullable = true
			}
		}
		for _, x := range r.refs {
			if n.Tp != ast.RightJoin {
				x.on = append(x.on, on...)
			}
			if n.Tp == ast.LeftJoin {
				x.nullable = true
			}
		}
		return out
	case *ast.TableSource:
		if t, ok := n.Source.(*ast.TableName); ok {
			return a.tableRef(t, n.AsName.O, s)
		}
		if j, ok := n.Source.(*ast.Join); ok {
			return a.join(j, s)
		}
		a.subqueries = true
		if r := a.derivedAsTable(n, s); r != nil {
			s.refs = append(s.refs, r)
			a.refs = append(a.refs, r)
			return side{refs: []*ref{r}}
		}
		outer := s.parent
		if n.Lateral {
			outer = s
		}
		inner := &scope{parent: outer, ctes: s.ctes, bodies: s.bodies, derivable: s.derivable}
		a.query(n.Source, inner, false)
		r := &ref{scope: s, alias: n.AsName.O}
		s.refs = append(s.refs, r)
		return side{refs: []*ref{r}}
	case *ast.TableName:
		return a.tableRef(n, "", s)
	}
	a.refuse(text.NotSupported("this form of FROM is not supported yet: send it to one shard with /* shunt: shard=NAME */"))
	return side{}
}

func (a *analysis) tableRef(t *ast.TableName, alias string, s *scope) side {
	r := &ref{scope: s, alias: alias, schema: t.Schema.O, name: t.Name.O}
	if alias == "" {
		r.alias = t.Name.O
	}
	if t.Schema.O == "" {
		for sc := s; sc != nil; sc = sc.parent {
			if sc.ctes[a.cteName(t.Name.O)] {
				if d := a.cteAsTable(t.Name.O, r.alias, sc, s); d != nil {
					r = d
					a.refs = append(a.refs, r)
				}
				a.reading(sc.bodies[a.cteName(t.Name.O)])
				s.refs = append(s.refs, r)
				return side{refs: []*ref{r}}
			}
		}
		if a.hidden[a.cteName(t.Name.O)] {
			a.refuse(text.NotSupported("the common table expression %s is not known here", t.Name.O))
		}
		r.schema = a.st.Settings.Schema
	}
	table, system, err := spoken.LookupTable(a.cat, r.schema, t.Name.O)
	if err != nil {
		a.refuse(err)
	}
	r.table, r.system = table, system
	if a.writes == s && s != nil {
		a.addTable(table)
		a.throughView(r)
		table = r.table
	}
	// MariaDB answers what a partition of a system-versioned table has, past rows too.
	r.history = a.cat.MariaDB && len(t.PartitionNames) > 0
	if table != nil && table.IsView && a.parsers != nil {
		r.view = table
		if t, exact := a.viewAsTable(table, a.views); t != nil {
			r.table, r.exact = t, exact
		}
	}
	s.refs = append(s.refs, r)
	a.refs = append(a.refs, r)
	a.joined.table(r, t)
	a.addTable(table)
	return side{refs: []*ref{r}}
}

// rotated reports a join in parentheses that the parser may have moved a table into, which
// is in none of its columns' names.
//
// Counter-example: of a JOIN (b NATURAL JOIN c) LEFT JOIN d ON ... it makes (a JOIN b)
// NATURAL JOIN c, which would join by what a and c alone have in common.
func rotated(n *ast.Join) bool {
	left, ok := n.Left.(*ast.Join)
	return ok && n.ExplicitParens && left.Right != nil && !left.ExplicitParens && left.On == nil && left.Using == nil && !left.NaturalJoin
}

func (a *analysis) addTable(t *catalog.Table) {
	if t == nil {
		return
	}
	if slices.Contains(a.tables, t) {
		return
	}
	a.tables = append(a.tables, t)
}

func commonColumns(l, r side) []string {
	var out []string
	seen := map[string]bool{}
	for _, x := range l.refs {
		if x.table == nil || x.table.IsView || x.partial {
			return nil
		}
	}
	for _, x := range r.refs {
		if x.table == nil || x.table.IsView || x.partial {
			return nil
		}
		for _, c := range spoken.Visible(x.table) {
			name := strings.ToLower(c.Name)
			if lc, ok := l.lookup(name); ok && !lc.col.Invisible && !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}

// lookup finds the column that an unqualified name means on this side; ok is
// false where there is none or more than one.
func (s side) lookup(name string) (column, bool) {
	if c, ok := s.merged[name]; ok {
		return c, true
	}
	var found column
	for _, r := range s.refs {
		if r.table == nil {
			continue
		}
		if c := r.column(name); c != nil {
			if found.ref != nil {
				return column{}, false
			}
			found = column{r, c}
		}
	}
	return found, found.ref != nil
}

// resolve finds what a column name means in a scope, looking outward as MySQL
// does; ok is false for anything that is not surely one known column.
func (a *analysis) resolve(n *ast.ColumnName, s *scope) (column, bool) {
	for ; s != nil; s = s.parent {
		if n.Table.O == "" {
			if c, ok := s.side.lookup(n.Name.L); ok {
				return c, true
			}
			for _, r := range s.refs {
				// An alias may hide in what Shunt doesn't know the columns of;
				// and two tables with the name make it ambiguous.
				if r.mayHave(n.Name.L) {
					return column{}, false
				}
			}
			continue
		}
		var found *ref
		for _, r := range s.refs {
			if !a.sameName(r.alias, n.Table.O) || n.Schema.O != "" && !a.sameName(r.schema, n.Schema.O) {
				continue
			}
			if found != nil {
				return column{}, false
			}
			found = r
		}
		if found == nil {
			continue
		}
		if found.table == nil {
			return column{}, false
		}
		c := found.column(n.Name.L)
		return column{found, c}, c != nil
	}
	return column{}, false
}

func (a *analysis) sameName(x, y string) bool {
	return x == y || a.cat.LowerCaseNames && strings.EqualFold(x, y)
}

// expressions looks through expressions for subqueries and for what can't be
// served.
func (a *analysis) expressions(s *scope, nodes ...ast.Node) {
	for _, n := range nodes {
		walk(n, func(n ast.Node) bool { return a.expression(n, s) })
	}
}

func (a *analysis) expression(n ast.Node, s *scope) (deeper bool) {
	switch n := n.(type) {
	case *ast.ColumnNameExpr:
		if a.virtual != nil {
			a.virtual.name(a, n, s)
		}
	case *ast.SubqueryExpr, *ast.SelectStmt, *ast.SetOprStmt:
		a.subqueries = true
		a.query(n, s, true)
		return false
	case *ast.AggregateFuncExpr:
		a.aggregate(n.Args, s)
	case *ast.FuncCallExpr:
		a.function(n.FnName.L)
		a.sequence(n, s)
		if aggregateName(n.FnName.L) {
			a.aggregate(n.Args, s)
		}
		if a.cat.AggregateFunctions[n.FnName.L] {
			a.hiddenAggregate = "the aggregate function " + n.FnName.O + "()"
		}
		if n.FnName.L == "rownum" && a.cat.MariaDB { // WHERE ROWNUM() <= 3 is LIMIT 3
			a.hiddenAggregate, a.counted = "ROWNUM()", true
		}
	case *ast.DefaultExpr:
		if n.Name == nil {
			break // SET v = DEFAULT
		}
		if c, ok := a.resolve(n.Name, s); ok && c.col.DefaultNow {
			a.clock = true
		} else if ok && c.col.DefaultExpr {
			a.setVolatile("DEFAULT(" + c.col.Name + ")")
		}
	case *ast.VariableExpr:
		switch {
		case n.Value != nil:
			a.assign(n.Name)
		case n.IsSystem:
			a.setVolatile("@@" + n.Name)
		default:
			a.setVolatile("@" + n.Name)
		}
	}
	return true
}

// aggregate notes one in a block whose columns may all be of the blocks around it.
//
// Rule outer rows: such a one is of the rows of those. Counter-example: SELECT (SELECT
// COUNT(u.id)) FROM users u is one row, as SELECT COUNT(u.id) FROM users u is.
func (a *analysis) aggregate(args []ast.ExprNode, s *scope) {
	around := false
	for p := s.parent; p != nil; p = p.parent {
		around = around || len(p.refs) > 0
	}
	column, own := false, false // of this block
	for _, e := range args {
		walk(e, func(n ast.Node) bool {
			if n, ok := n.(*ast.ColumnNameExpr); ok {
				column = true
				if c, ok := a.resolve(n.Name, s); ok {
					own = own || slices.Contains(s.refs, c.ref)
				} else if n.Name.Table.O != "" {
					own = own || slices.ContainsFunc(s.refs, func(r *ref) bool { return a.sameName(r.alias, n.Name.Table.O) })
				} else if _, around := a.resolve(n.Name, s.parent); !around {
					own = true // of a derived table, most likely
				}
			}
			return !own
		})
	}
	if around && column && !own {
		a.hiddenAggregate = "an aggregate of the rows around its subquery"
	}
}
