package spoken

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// queryAt finds the query of CREATE TABLE ... SELECT behind the table's name, with the
// parentheses around it; -1 for none.
func queryAt(st *text.Statement, i int) int {
	depth := 0
	for ; i < len(st.Tokens); i++ {
		first := i
		for st.Op(first, "(") {
			first++
		}
		begins := st.Is(first, "select") || st.Is(first, "with") && !st.Is(first+1, "system") || st.Is(first, "values") || st.Is(first, "table")
		switch {
		case depth == 0 && begins && !st.Op(i-1, "."):
			return i
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		}
	}
	return -1
}

// createAs cuts CREATE TABLE ... SELECT, whose query is at token i.
func createAs(st *text.Statement, i int) (*plan.CreateAs, *text.Error) {
	if st.HasExecutable() {
		return nil, RefuseExecutable()
	}
	head := st.Src[:st.Tokens[i].Start]
	as := &plan.CreateAs{Insert: "INSERT INTO ", Lenient: !st.Settings.Strict}
	verb := i - 1
	if st.Is(verb, "as") {
		verb--
	}
	switch {
	case st.Is(verb, "ignore"):
		as.Insert, as.Lenient, as.Ignore = "INSERT IGNORE INTO ", true, true
	case st.Is(verb, "replace"):
		as.Insert = "REPLACE INTO "
	}
	last := len(st.Tokens) - 1
	for st.Op(i, "(") && st.Closes(i) == last { // around all of it
		i, last = i+1, last-1
	}
	if i > last {
		return nil, st.Near(i)
	}
	as.Query = st.Src[st.Tokens[i].Start:st.Tokens[last].End]
	end := last + 1
	for j := range st.Outside(i, last+1) {
		switch {
		case st.Op(j-1, "."):
		case st.Is(j, "into"):
			return nil, text.NotSupported("SELECT ... INTO is not supported here")
		case end > last && (st.Is(j, "limit") || LocksAt(st, j)):
			end = j
		}
	}
	as.Make = head + st.Src[st.Tokens[i].Start:st.Tokens[end-1].End] + " LIMIT 0"
	return as, nil
}

// createTableAs plans CREATE TABLE ... SELECT, whose query is at token i. Where each shard
// may fill its own table from its own rows, it is sent as it is. lacks is for what the query
// doesn't bring either.
//
// Rule rows where they are made: counter-examples are
//
//	CREATE TABLE t (id INT PRIMARY KEY) SELECT user_id AS id FROM orders
//	    rows that t's placement has on another shard
//	CREATE TABLE countries2 SELECT *, UUID() FROM countries     countries2 a reference table
//	    copies that are not the same
func createTableAs(st *text.Statement, cat *catalog.Catalog, trees Trees, ddl *plan.DDL, primary bool, i int, lacks *text.Error) (plan.Plan, *text.Error) {
	name := ddl.Tables[0]
	var placement catalog.Placement
	placement, ddl.Shards, _ = placed(cat, name, primary)
	own, err := trees.FromOwnRows(st, cat, i, placement, ddl.Shards)
	if own || err != nil {
		ddl.ByKey = false // the rows are where the text has it be
		return ddl, err
	}
	if ddl.As, err = createAs(st, i); err != nil {
		return nil, err
	}
	from, err := trees.CreatedFrom(ddl.As, st, cat)
	if err != nil {
		return nil, err
	}
	ddl.Texts = map[catalog.ShardID]string{}
	for id := range cat.All.All {
		ddl.Texts[id] = ddl.As.Make
	}
	was := cat.Table(name.Schema, name.Name)
	if ddl.As.Refusal = lacks; lacks != nil {
		ddl.As.KeyColumn = was.KeyWanted
	}
	replaces := st.Is(1, "or")
	ddl.As.Exists = was != nil && len(was.Columns) > 0 && !replaces
	for _, t := range from {
		switch {
		case t == was && replaces:
			return nil, text.NotSupported("CREATE OR REPLACE TABLE %s from its own rows is not supported: CREATE another table, then RENAME TABLE", name.Name)
		case !t.Shards.Contains(ddl.Shards):
			return nil, text.NotSupported("CREATE TABLE %s from %s, which is not on all of its shards, is not supported: write the columns out, then INSERT ... SELECT", name.Name, t.Name)
		}
	}
	return ddl, nil
}
