package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// show plans SHOW: Shunt's own, warnings of the session, and what one shard
// can say.
func (p *Planner) show(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if plan, ok, err := planAdmin(st); ok || err != nil {
		return plan, err
	}
	switch {
	case st.is(1, "warnings"):
		return &Session{Op: ShowWarnings}, nil
	case st.is(1, "errors"):
		return &Session{Op: ShowErrors}, nil
	case st.is(1, "count") && (st.has("warnings") || st.has("errors")):
		return nil, notSupported("SHOW COUNT(*) is not supported yet: use SHOW WARNINGS")
	}
	i := 1
	for st.is(i, "full") || st.is(i, "extended") {
		i++
	}
	switch st.word(i) {
	case "columns", "fields", "index", "indexes", "keys":
		if st.is(i+1, "from") || st.is(i+1, "in") {
			name, next, ok := st.showTable(i + 2)
			if ok {
				if st.is(next, "from") || st.is(next, "in") {
					if s, ok := st.identifier(next + 1); ok {
						name.Schema = s
					}
				}
				return showOf(st, cat, name)
			}
		}
	case "create":
		if st.is(i+1, "table") || st.is(i+1, "view") {
			if name, _, ok := st.showTable(i + 2); ok {
				return showOf(st, cat, name)
			}
		}
	}
	return fixed(st, cat, Show, nil, &fixedAction{
		shards: catalog.Only(fullest(cat).First()), access: "single", reason: "a shard that holds as many tables as any",
	}), nil
}

// fullest are the shards that hold the most tables: they know of all, unless
// tables that are on single shards are on several of them.
func fullest(cat *catalog.Catalog) (best catalog.ShardSet) {
	held := map[catalog.ShardID]int{}
	for _, s := range cat.Schemas {
		for _, t := range s.Tables {
			for id := range t.Shards.All {
				held[id]++
			}
		}
	}
	most := -1
	for _, s := range cat.Shards {
		switch n := held[s.ID]; {
		case n > most:
			most, best = n, catalog.Only(s.ID)
		case n == most:
			best.Add(s.ID)
		}
	}
	return best
}

func firstShard(cat *catalog.Catalog) catalog.ShardSet {
	if len(cat.Shards) == 0 {
		return cat.All
	}
	return catalog.Only(cat.Shards[0].ID)
}

// showTable reads a table whose schema may be missing or come later.
func (st *statement) showTable(i int) (TableName, int, bool) {
	first, ok := st.identifier(i)
	if !ok {
		return TableName{}, i, false
	}
	if st.op(i+1, ".") {
		second, ok := st.identifier(i + 2)
		return TableName{first, second}, i + 3, ok
	}
	return TableName{st.settings.Schema, first}, i + 1, true
}

// showOf sends a statement about one table to a shard that holds it.
func showOf(st *statement, cat *catalog.Catalog, name TableName) (Plan, *Error) {
	t, system, err := lookupTable(cat, name.Schema, name.Name)
	switch {
	case err != nil:
		return nil, err
	case system:
		return fixed(st, cat, Show, nil, &fixedAction{shards: firstShard(cat), access: "single", reason: "any shard will do"}), nil
	}
	return fixed(st, cat, Show, []*catalog.Table{t}, &fixedAction{
		shards: catalog.Only(t.Shards.First()), access: t.Placement.String(), reason: "one of the shards that hold " + t.Name,
	}), nil
}

// explain plans EXPLAIN, DESCRIBE and EXPLAIN ROUTE.
func (p *Planner) explain(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if plan, ok, err := planAdmin(st); ok || err != nil {
		return plan, err
	}
	i := 1
	analyze := false
	for {
		switch {
		case st.is(i, "analyze"):
			analyze = true
			i++
			continue
		case (st.is(i, "format") || st.is(i, "partitions") || st.is(i, "extended")) && !st.op(i+1, "."):
			if st.is(i, "format") && st.op(i+1, "=") {
				i += 3
				continue
			}
			if w := st.word(i + 1); w != "" {
				i++
				continue
			}
		case st.is(i, "for") && st.is(i+1, "connection"):
			return nil, notSupported("EXPLAIN FOR CONNECTION is not supported: send it to one shard with /* shunt: shard=NAME */")
		case st.is(i, "for") || st.is(i, "into"):
			return nil, notSupported("EXPLAIN %s is not supported yet: send it to one shard with /* shunt: shard=NAME */", strings.ToUpper(st.word(i)))
		}
		break
	}
	w := st.word(i)
	if st.op(i, "(") {
		w = "select"
	}
	switch w {
	case "select", "with", "table", "values", "insert", "replace", "update", "delete":
	default:
		name, _, ok := st.showTable(i)
		if !ok || analyze {
			return nil, st.near(i)
		}
		return showOf(st, cat, name)
	}
	if analyze && w != "select" && w != "with" && w != "table" && w != "values" {
		// It runs the statement.
		return nil, notSupported("EXPLAIN ANALYZE of a write is not supported: use EXPLAIN")
	}
	inner, err := p.Plan(st.src[st.toks[i].start:], st.settings, cat)
	if err != nil {
		e, _ := err.(*Error) //nolint:errorlint // Plan returns *Error as it is
		return nil, e
	}
	rows, ok := inner.(*Rows)
	if !ok || analyze && rows.Kind != Select {
		return nil, notSupported("EXPLAIN of this statement is not supported yet")
	}
	act := &explainAction{sql: st.src, inner: rows.action, cat: cat, analyze: analyze}
	return &Rows{Catalog: cat, Kind: Show, Params: rows.Params, Tables: rows.Tables, action: act, settings: st.settings}, nil
}

// explainAction asks the first shard of the statement's route.
type explainAction struct {
	sql     string
	inner   action
	cat     *catalog.Catalog
	analyze bool
}

func (e *explainAction) bind(b *binder) (*Bound, error) {
	in, err := e.inner.bind(b)
	if err != nil {
		return nil, err
	}
	out := sendTo(catalog.Only(in.Statements[0].Shard), e.sql)
	out.Access = in.Access
	out.Reason = "EXPLAIN on the first shard of the route; " + in.Reason
	return out, nil
}
