package spoken

import (
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// WriteAtHome plans a write through a view that is more than rows and columns of one table: to the one shard that has all tables
// which the statement and its views name. It is nil where there is none.
//
// Rule one place, as for CALL. Counter-example: CREATE VIEW v AS SELECT s.k, c.name FROM settings s JOIN countries c ..., with
// settings on s2. UPDATE v SET name = 'x' would change one copy of countries.
//
// Tables with triggers or foreign keys that change others are left to the refusal.
func WriteAtHome(st *text.Statement, cat *catalog.Catalog) *plan.Rows {
	whole := st
	if len(st.Rows) > 0 { // what they name is no tokens of an INSERT's
		var err *text.Error
		if whole, err = text.Read("CREATE FUNCTION "+st.Src, st.Settings, cat); err != nil {
			return nil
		}
	}
	set, named := cat.All, namedIn(whole, cat, st.Settings.Schema)
	var tables []*catalog.Table
	for i := 0; i < len(named); i++ {
		t := named[i]
		set = set.Intersect(t.Shards)
		of, ok := ViewTables(t, cat)
		switch {
		case ok:
			for _, t := range of {
				if !slices.Contains(named, t) {
					named = append(named, t)
				}
			}
		case t.IsView, t.Temporary, t.Placement != catalog.Single, len(t.Triggers) > 0, len(t.Cascades) > 0:
			return nil
		default:
			tables = append(tables, t)
		}
	}
	if set.Len() != 1 || len(tables) == 0 {
		return nil
	}
	return fixed(st, cat, plan.Other, named, &Fixed{
		Shards: set, Access: "single", Reason: "all tables of the view are on one shard", Unknown: hintedIndexes("update", tables, cat),
	})
}
