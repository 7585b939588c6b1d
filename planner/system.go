package planner

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// planSystem is planSelect for queries of information_schema that one shard
// can't answer as one server would; nil where it can.
//
// Rule sums: TABLE_ROWS and the like are each shard's own. Counter-example:
// SELECT TABLE_ROWS FROM information_schema.TABLES answers a quarter of the rows.
//
// Rule temporary tables: where the servers list them, only the session's own connection
// to a shard does.
func (a *analysis) planSystem() *systemAction {
	whole, several := spoken.OneKnowsAll(a.cat), len(a.cat.Shards) > 1
	want, temporary := map[string]int{}, false
	for _, r := range a.refs {
		t := spoken.SystemTables[strings.ToLower(r.name)]
		if !r.system || t == nil || !strings.EqualFold(r.schema, t.Schema) {
			continue
		}
		listed := t.Name == "tables" && spoken.ListsTemporary(a.st, a.cat)
		temporary = temporary || listed
		if listed || t.Clients || t.Name == "schemata" || (!whole || a.st.Settings.Restricted) && t.Owner != "" || several && spoken.NamesColumn(a.st, t.Join) {
			want[t.Name]++
		}
	}
	if len(want) == 0 {
		return a.besideOwn()
	}
	sys := spoken.CutSystem(a.st, want)
	if sys == nil {
		a.refuse(text.NotSupported("this form of a query of information_schema is not supported: write information_schema before the name of each of its tables, in FROM and before columns"))
	} else if temporary {
		sys.Temporary = true
		sys.Sources[slices.Index(sys.Sources, spoken.SystemTables["tables"])] = &spoken.BesideTemporary
	}
	return &systemAction{sys: sys}
}

// besideOwn has a query of information_schema that one shard can answer leave Shunt's own
// schema out, which one server has not; nil where it asks for some schema only.
func (a *analysis) besideOwn() *systemAction {
	owned := map[string]int{}
	n := 0
	for _, r := range a.refs {
		if t := spoken.SystemTables[strings.ToLower(r.name)]; r.system && t != nil && t.Owner != "" && strings.EqualFold(r.schema, t.Schema) {
			owned[t.Name]++
			n++
		}
	}
	if n == 0 || spoken.NamesSchemas(a.st) >= n {
		return nil
	}
	sys := spoken.CutSystem(a.st, owned)
	if sys == nil {
		return nil // it shows more than it should
	}
	sys.Here = true
	return &systemAction{sys: sys}
}

// systemAction runs a query on one shard, over system tables gathered from all.
type systemAction struct {
	sys   *plan.System
	inner action
}

func (s *systemAction) bind(b *binder) (*plan.Bound, error) {
	out, err := s.inner.bind(b)
	if err != nil || out.Refuse != nil {
		return out, err
	}
	if s.sys.Here {
		if len(out.Statements) == 1 {
			out.System = s.sys
		}
		return out, nil
	}
	if len(out.Statements) != 1 {
		out.Refuse = text.NotSupported("a query of information_schema and of tables on several shards is not supported: ask for the one, then the other")
		return out, nil
	}
	out.System = s.sys
	out.Plan, out.Reason = "gather", "information_schema as of all shards; "+out.Reason
	return out, nil
}
