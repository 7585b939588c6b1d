package planner

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/types"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// trees reads what definitions take a tree for.
type trees struct{ *Planner }

// KeyColumn reports a CREATE TABLE with a primary key of whole columns: id INT KEY is one, and (name(10)) if name has
// ten characters.
func (p trees) KeyColumn(st *text.Statement, cat *catalog.Catalog) bool {
	n, err := p.parse(st, cat)
	if err != nil {
		return false
	}
	c, ok := n.(*ast.CreateTableStmt)
	return ok && (slices.ContainsFunc(c.Cols, func(col *ast.ColumnDef) bool {
		return hasOption(col, ast.ColumnOptionPrimaryKey)
	}) || slices.ContainsFunc(c.Constraints, func(k *ast.Constraint) bool {
		return k.Tp == ast.ConstraintPrimaryKey && !slices.ContainsFunc(k.Keys, func(part *ast.IndexPartSpecification) bool {
			return part.Length > 0 && !slices.ContainsFunc(c.Cols, func(col *ast.ColumnDef) bool {
				return part.Column != nil && col.Name.Name.L == part.Column.Name.L && hasLength(col.Tp, part.Length)
			})
		})
	}))
}

// hasLength reports a type of texts or bytes of a length of its own: a server takes a beginning that long for the whole.
func hasLength(t *types.FieldType, length int) bool {
	return (t.GetType() == mysql.TypeString || t.GetType() == mysql.TypeVarchar) && t.GetFlen() == length
}

// ViewTables are the tables of a view's query, which follows AS. Where it can't
// be read they are all that have a name in it.
func (p trees) ViewTables(st *text.Statement, cat *catalog.Catalog, i int) ([]*catalog.Table, *text.Error) {
	for i < len(st.Tokens) && !st.Is(i, "as") {
		i++
	}
	if i+1 >= len(st.Tokens) {
		return nil, st.Near(i)
	}
	end := len(st.Tokens)
	if st.Is(end-1, "option") && st.Is(end-2, "check") {
		for end--; end > i && !st.Is(end, "with"); end-- {
		}
	}
	part := &text.Statement{Src: st.Src, Settings: st.Settings, Server: st.Server, Tokens: st.Tokens[i+1 : end], RowsAt: -1}
	query, err := text.Read(st.Src[st.Tokens[i+1].Start:st.Tokens[end-1].End], st.Settings, cat)
	if err != nil {
		return nil, err
	}
	n, err := p.parse(query, cat)
	if err != nil {
		return spoken.Mentioned(part, cat), nil //nolint:nilerr // the shards will say
	}
	a := &analysis{st: query, cat: cat}
	a.query(n, nil, false)
	if a.err != nil {
		return nil, a.err
	}
	return a.tables, nil
}

// CreatedFrom are the tables of the query.
func (p trees) CreatedFrom(as *plan.CreateAs, st *text.Statement, cat *catalog.Catalog) ([]*catalog.Table, *text.Error) {
	planned, failed := p.Plan(as.Query, st.Settings, cat)
	if failed != nil {
		e, _ := failed.(*text.Error) //nolint:errorlint // Plan returns *Error as it is
		return nil, e
	}
	rows, ok := planned.(*plan.Rows)
	if !ok || rows.Kind != plan.Select && rows.Kind != plan.Locking {
		return nil, text.NotSupported("CREATE TABLE from this kind of query is not supported: write SELECT")
	}
	return rows.Tables, nil
}

// FromOwnRows reports whether each of the shards of a new table has the rows of the query
// at token i that the table is to have there.
func (p trees) FromOwnRows(st *text.Statement, cat *catalog.Catalog, i int, placement catalog.Placement, shards catalog.ShardSet) (bool, *text.Error) {
	query, err := text.Read(st.Src[st.Tokens[i].Start:], st.Settings, cat)
	if err != nil {
		return false, err
	}
	n, err := p.parse(query, cat)
	if err != nil {
		return false, err
	}
	a := &analysis{st: query, cat: cat, parsers: &p.parsers}
	main := a.query(n, nil, false)
	if a.err != nil {
		return false, a.err
	}
	if f := spoken.WritingFunction(query, cat); f != "" {
		return false, text.NotSupported("CREATE TABLE ... SELECT with the stored function %s(), which may change rows, is not supported: CREATE TABLE, then INSERT", f)
	}
	if f := spoken.ReadingFunction(query, cat); f != "" {
		return false, text.NotSupported("CREATE TABLE ... SELECT with the stored function %s(), which may read rows of one shard only, is not supported: CREATE TABLE, then INSERT", f)
	}
	for _, r := range a.refs {
		switch {
		case r.table == nil || r.table.IsView, !r.table.Shards.Contains(shards):
			return false, nil
		case placement == catalog.Anywhere && len(a.refs) == 1 && main != nil && !a.subqueries && r.sharded() && spoilsConcatenation(n) == "":
			// the rows stay where they are, and anywhere will do
		case r.spread() && r.table.Placement != catalog.Single:
			return false, nil
		}
	}
	switch placement {
	case catalog.Single:
		return true, nil
	case catalog.Reference:
		return len(a.refs) > 0 && a.volatile == "" && !query.Has("limit") && !st.Has("auto_increment"), nil
	case catalog.Anywhere:
		return len(a.refs) == 1 && a.refs[0].sharded(), nil
	case catalog.Hash:
	}
	return false, nil
}
