package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// insertAction is INSERT or REPLACE with values in the statement.
type insertAction struct {
	st              *text.Statement
	table           *catalog.Table
	target          *ref // to the table, or to a view of it
	replace, ignore bool
	// needed are the columns whose values matter: the shard key, an
	// AUTO_INCREMENT column, columns of indexes. rows holds their operands.
	needed []*catalog.Column
	rows   []insertRow
	update []assignment // ON DUPLICATE KEY UPDATE, nil without
	// head and tail are the offsets between which the rows are.
	head, tail uint32
	// fused: the rows' text can't be looked into (an executable comment runs over it); apart: but into rows it can be cut.
	fused, apart bool
	clock        bool // a function of the statement's time is in it
	// auto is the AUTO_INCREMENT column, where Shunt counts it; else nil.
	auto *autoColumn
	// asked are expressions for values that must be known; unasked: for one of
	// them nobody can be asked.
	asked   *plan.Constants
	unasked bool
	// keyAt is the place of the shard key among a row's values, -1 for none.
	keyAt int
	// keyDefault is the default of the shard key that may be asked for, "" for none.
	keyDefault string
}

func (i *insertAction) verb() string {
	if i.replace {
		return "REPLACE"
	}
	return "INSERT"
}

// planInsert plans INSERT and REPLACE.
func (a *analysis) planInsert(n *ast.InsertStmt, newAlias *rowAlias) (*plan.Rows, *text.Error) {
	if a.st.SetVar {
		return nil, refuseSetVar()
	}
	target, err := a.insertTarget(n)
	if err != nil {
		return nil, err
	}
	t := target.table
	a.addTable(t)
	kind := plan.Insert
	if n.IsReplace {
		kind = plan.Replace
		if err := movesChildren(t, nil, true); err != nil {
			return nil, err
		}
	}
	for _, x := range n.OnDuplicate {
		if c := target.column(x.Column.Name.L); c != nil {
			if err := movesChildren(t, []*catalog.Column{c}, false); err != nil {
				return nil, err
			}
		}
	}
	if n.Select == nil {
		return a.planInsertValues(n, target, newAlias, kind)
	}
	rows, err := a.planInsertSelect(n, t, target, newAlias, kind)
	c := a.planCopy(n, newAlias)
	if c != nil {
		c.Into = plan.Stored{Table: t, Ignore: n.IgnoreErr, Listed: len(n.Columns) > 0}
		c.Into.Columns, _ = a.columnList(n.Columns, target) // its error is planInsertSelect's
	}
	if other := otherColumn(n, target); c != nil && other != "" {
		c = nil // its rows are values when they are inserted
		if err != nil && err.Code == mysqlerr.NotSupportedYet {
			err = text.NotSupported("ON DUPLICATE KEY UPDATE that names %s, which is no column of %s, is not supported where the rows may go to another shard than they come from: take VALUES(column)", other, t.Name)
		}
	}
	switch {
	case err == nil:
		rows.Copy = c
	case c != nil && err.Code == mysqlerr.NotSupportedYet:
		// Another way may do.
		a.err = nil
		rows = a.rows(kind, &refusedAction{err})
		rows.Copy = c
		return rows, nil
	}
	return rows, err
}

// otherColumn is a column that ON DUPLICATE KEY UPDATE names and that isn't the target's, so
// the SELECT's, or nobody's; "" for none.
func otherColumn(n *ast.InsertStmt, target *ref) (name string) {
	for _, x := range n.OnDuplicate {
		walk(x.Expr, func(n ast.Node) bool {
			if c, ok := n.(*ast.ColumnName); ok && (target.column(c.Name.L) == nil || c.Table.L != "" && !strings.EqualFold(c.Table.O, target.alias)) {
				name = c.OrigColName()
			}
			_, below := n.(*ast.SubqueryExpr)
			return !below
		})
	}
	return name
}

// planInsertValues plans INSERT and REPLACE with values in the statement.
func (a *analysis) planInsertValues(n *ast.InsertStmt, target *ref, newAlias *rowAlias, kind plan.Kind) (*plan.Rows, *text.Error) {
	t := target.table
	cols, err := a.columnList(n.Columns, target)
	if err != nil {
		return nil, err
	}
	if asked, err := a.subqueryValues(n, target, cols); asked != nil {
		rows := a.rows(kind, &refusedAction{err})
		rows.Constants = asked
		return rows, nil
	} else if err != nil {
		return nil, err
	}
	if t.Placement == catalog.Reference && t.Shards.Len() > 1 && a.volatile != "" {
		return nil, refuseVolatile(a.volatile, t)
	}
	act := &insertAction{st: a.st, table: t, target: target, replace: n.IsReplace, ignore: n.IgnoreErr, clock: a.clock}
	if newAlias != nil {
		newAlias.listed = cols
	}
	if act.update, err = a.assignments(n, target, newAlias); err != nil {
		return nil, err
	}
	if err := act.read(n, cols, newAlias); err != nil {
		return nil, err
	}
	rows := a.rows(kind, act)
	rows.Constants, rows.Meets = act.constants(), act.meets()
	return rows, nil
}

// insertTarget is the table that rows go to, which a view or a server's own can't be.
func (a *analysis) insertTarget(n *ast.InsertStmt) (*ref, *text.Error) {
	name, err := insertedTable(n)
	if err != nil {
		return nil, err
	}
	schema := name.Schema.O
	if schema == "" {
		schema = a.st.Settings.Schema
	}
	t, system, err := spoken.LookupTable(a.cat, schema, name.Name.O)
	if err != nil {
		return nil, err
	}
	if system {
		return nil, text.NotSupported("writing to the system schema %s is not supported: send it to one shard with /* shunt: shard=NAME */", schema)
	}
	s := &scope{}
	target := &ref{scope: s, alias: name.Name.O, schema: schema, table: t}
	if a.throughView(target); target.table.IsView {
		return nil, refuseThroughView(t)
	}
	if target.through != nil {
		a.addTable(t)
		if c := spoken.CountedColumn(target.table); c != nil && target.column(strings.ToLower(c.Name)) != c {
			return nil, text.NotSupported("INSERT through the view %s, which doesn't have the AUTO_INCREMENT column %s.%s by that name, is not supported: write to the table", t.Name, target.table.Name, c.Name)
		}
	}
	s.refs = []*ref{target}
	s.side = side{refs: s.refs}
	return target, nil
}

func insertedTable(n *ast.InsertStmt) (*ast.TableName, *text.Error) {
	if n.Table != nil && n.Table.TableRefs != nil {
		if src, ok := n.Table.TableRefs.Left.(*ast.TableSource); ok {
			if name, ok := src.Source.(*ast.TableName); ok {
				return name, nil
			}
		}
	}
	return nil, text.NotSupported("this form of INSERT is not supported yet: send it to one shard with /* shunt: shard=NAME */")
}

func refuseVolatile(what string, t *catalog.Table) *text.Error {
	return text.NotSupported("%s in a write to the reference table %s would give each shard another value: compute it in the client and send a literal", what, t.Name)
}

func refuseSetVar() *text.Error {
	return text.NotSupported("the optimizer hint SET_VAR in a write is not supported: it may change what is stored; use SET SESSION")
}

// columnList resolves the column list; without one it is the table's columns, but
// for invisible ones.
func (a *analysis) columnList(names []*ast.ColumnName, target *ref) ([]*catalog.Column, *text.Error) {
	t := target.table
	if len(names) == 0 && target.through != nil {
		for _, c := range target.through.Columns {
			names = append(names, &ast.ColumnName{Name: ast.NewCIStr(c.Name)})
		}
	}
	if len(names) == 0 {
		if t.OrderDiffers && t.Shards.Len() > 1 {
			e := text.NotSupported("rows for %s without a list of columns, about whose order the shards disagree (%s): name the columns", t.Name, t.Differs)
			e.Differs = true
			return nil, e
		}
		return spoken.Visible(t), nil
	}
	out := make([]*catalog.Column, len(names))
	for i, n := range names {
		c := target.column(n.Name.L)
		if c == nil && a.cat.MariaDB && target.through != nil && target.through.Column(n.Name.L) != nil {
			return nil, text.NewError(mysqlerr.NonInsertableTable, "The target table "+target.alias+" of the INSERT is not insertable-into")
		}
		if c == nil {
			return nil, target.noColumn(n.Name)
		}
		// Of a table servers say so; through a view they take the last value, which would not be where the first one belongs.
		if target.through != nil && slices.Contains(out[:i], c) {
			return nil, text.NewError(mysqlerr.FieldSpecifiedTwice, "Column '"+n.Name.O+"' specified twice")
		}
		out[i] = c
	}
	return out, nil
}

func refuseShardKey(t *catalog.Table) *text.Error {
	return text.NotSupported("changing the shard key %s.%s is not supported yet: the row would have to move to another shard; DELETE it and INSERT it with the new key", t.Name, t.ShardKey.Name)
}

func columnNames(cols []*catalog.Column) []string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = c.Name
	}
	slices.Sort(out)
	return out
}
