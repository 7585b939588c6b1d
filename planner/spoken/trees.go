package spoken

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Trees is what a definition takes a syntax tree for. Errors are a client's.
type Trees interface {
	// AlterTable plans ALTER TABLE, whose table's name is at token i.
	AlterTable(st *text.Statement, cat *catalog.Catalog, i int) (plan.Plan, *text.Error)
	// KeyColumn reports a CREATE TABLE with a primary key of whole columns: id INT KEY is one too.
	KeyColumn(st *text.Statement, cat *catalog.Catalog) bool
	// ViewTables are the tables of a view's query, which follows AS behind token i. Where it can't
	// be read they are all that have a name in it.
	ViewTables(st *text.Statement, cat *catalog.Catalog, i int) ([]*catalog.Table, *text.Error)
	// CreatedFrom are the tables of the query of CREATE TABLE ... SELECT.
	CreatedFrom(as *plan.CreateAs, st *text.Statement, cat *catalog.Catalog) ([]*catalog.Table, *text.Error)
	// FromOwnRows reports whether each of the shards of a new table has the rows of the query
	// at token i that the table is to have there.
	FromOwnRows(st *text.Statement, cat *catalog.Catalog, i int, placement catalog.Placement, shards catalog.ShardSet) (bool, *text.Error)
}
