package spoken

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// createView plans CREATE VIEW and ALTER VIEW: on every shard that has all the
// tables of its query.
func createView(st *text.Statement, cat *catalog.Catalog, trees Trees, op string, i int) (plan.Plan, *text.Error) {
	name, next, err := st.TableAt(i)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	if op == "ALTER VIEW" {
		if _, err := userTable(cat, name); err != nil {
			return nil, err
		}
	}
	tables, err := trees.ViewTables(st, cat, next)
	if err != nil {
		return nil, err
	}
	set := cat.All
	for _, t := range tables {
		if !t.Shards.Empty() {
			set = set.Intersect(t.Shards)
		}
	}
	for _, t := range tables {
		// users is on all shards and settings on s2: there the view is, though what
		// it shows there is the users of s2. Reads put its query in its place.
		if set.Empty() {
			return nil, text.NotSupported("a view of %s and other tables, which no shard has all of, is not supported: query them without it", t.Name)
		}
	}
	if was := cat.Table(name.Schema, name.Name); was != nil && was.IsView && was.Shards != set && !was.Unfinished {
		return nil, text.NotSupported("the view %s is on other shards than its new query's tables: DROP VIEW it first", name.Name)
	}
	return &plan.DDL{Catalog: cat, Op: op, Tables: []catalog.TableName{name}, Renamed: make([]catalog.TableName, 1), Shards: set}, nil
}
