package spoken

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Fixed is what a Rows of this package has as its Own: the text goes to shards that are known
// from the start.
type Fixed struct {
	Shards catalog.ShardSet
	Access string
	Reason string
	// Any are the shards of which any one would answer as well, if not empty.
	Any catalog.ShardSet
	// Unknown are the indexes that the statement may change in a way that
	// Shunt doesn't follow.
	Unknown []*catalog.Index
	// System is how the shards' answers are joined; nil: they are not.
	System *plan.System
}

func fixed(st *text.Statement, cat *catalog.Catalog, kind plan.Kind, tables []*catalog.Table, f *Fixed) *plan.Rows {
	return &plan.Rows{Catalog: cat, Kind: kind, Params: len(st.Params), Tables: tables, Own: f}
}
