package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Writing plans a statement that calls stored functions which may change rows: to the one shard that has all that these, and the
// statement itself, may touch, as CALL. It is refused where there is no such shard.
//
// Rule one place. Counter-examples, for next_number() with UPDATE counters ..., and counters on s1:
//
//	INSERT INTO users VALUES (1, next_number())      users is spread: on s0 there is no counters
//	SELECT next_number() FROM countries              a reference table, whose copy on s1 serves: it is run there
func Writing(st *text.Statement, cat *catalog.Catalog, f *Unfit) (plan.Plan, *text.Error) {
	refuse := func(why string) (plan.Plan, *text.Error) {
		return nil, text.NotSupported("the stored function %s() %s, since %s: send the statement to one shard with /* shunt: shard=NAME */", f.Name, f.Does, why)
	}
	switch st.Verb(0) {
	case "select", "with", "do", "insert", "replace", "update", "delete":
	default:
		return nil, f.Refuse()
	}
	if st.Doubtful || st.Has("into") && !st.Is(0, "insert") && !st.Is(0, "replace") {
		return nil, f.Refuse()
	}
	if err := RefuseLocks(st); err != nil {
		return nil, err
	}
	if err := refusedLexically(st); err != nil {
		return nil, err
	}
	whole := st
	if len(st.Rows) > 0 { // what they name is no tokens of an INSERT's
		var err *text.Error
		if whole, err = text.Read("CREATE FUNCTION "+st.Src, st.Settings, cat); err != nil {
			return nil, err
		}
	}
	for i := range unfit {
		if name := unfit[i].called(whole, cat); name != "" && !unfit[i].writes {
			return nil, (&Unfit{Name: name, Does: unfit[i].does, Instead: unfit[i].instead}).Refuse()
		}
	}
	called, why := calls(cat, boundIn(whole, cat)...)
	if why != "" {
		return refuse(why)
	}
	act, _, tables, why, err := atHome(called, cat)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return refuse(why)
	}
	reads := st.Is(0, "select") || st.Is(0, "do")
	for _, t := range namedIn(whole, cat, st.Settings.Schema) {
		if slices.Contains(tables, t) {
			continue
		}
		if t.Temporary || t.IsView || t.Placement != catalog.Single && (t.Placement != catalog.Reference || !reads) || !t.Shards.Contains(act.Shards) {
			return refuse("the statement may touch " + t.Name + ", which isn't on the one shard of the function's tables alone")
		}
		tables = append(tables, t)
	}
	act.Unknown = hintedIndexes("update", tables, cat)
	act.Reason = "the function " + strings.ToLower(f.Name) + "() touches no table of several shards"
	return fixed(st, cat, plan.Other, tables, act), nil
}

// ReadAtHome plans a query that calls stored functions which read tables of one shard: it goes there. It is nil where the query's own
// tables say where it goes.
func ReadAtHome(st *text.Statement, cat *catalog.Catalog) plan.Plan {
	if len(cat.Bound) == 0 || st.Has("into") || slices.ContainsFunc(st.Tokens, func(t text.Token) bool { return st.Src[t.Start:t.End] == ":=" }) ||
		slices.ContainsFunc(namedIn(st, cat, st.Settings.Schema), func(t *catalog.Table) bool { return t.IsView || t.Placement != catalog.Reference }) {
		return nil
	}
	var called []*catalog.Routine
	for name := range callsIn(st) {
		called = append(called, cat.Bound[strings.ToLower(name)]...)
	}
	called, why := calls(cat, called...)
	act, kind, tables, elsewhere, err := atHome(called, cat)
	if len(called) == 0 || why != "" || elsewhere != "" || err != nil || kind != plan.Select || len(tables) == 0 {
		return nil
	}
	act.Reason = "the function " + called[0].Name + "() reads tables of one shard"
	return fixed(st, cat, kind, tables, act)
}
