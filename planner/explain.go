package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// explain plans EXPLAIN, DESCRIBE and EXPLAIN ROUTE.
func (p *Planner) explain(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	if plan, ok, err := p.own.Plan(st); ok || err != nil {
		return plan, err
	}
	i := 1
	analyze := st.Is(0, "analyze")
	for {
		switch {
		case st.Is(i, "analyze"):
			analyze = true
			i++
			continue
		case (st.Is(i, "format") || st.Is(i, "partitions") || st.Is(i, "extended")) && !st.Op(i+1, "."):
			if st.Is(i, "format") && st.Op(i+1, "=") {
				i += 3
				continue
			}
			if w := st.Word(i + 1); w != "" {
				i++
				continue
			}
		case st.Is(i, "for") && st.Is(i+1, "connection"):
			return nil, text.NotSupported("EXPLAIN FOR CONNECTION is not supported: send it to one shard with /* shunt: shard=NAME */")
		case st.Is(i, "for") || st.Is(i, "into"):
			return nil, text.NotSupported("EXPLAIN %s is not supported yet: send it to one shard with /* shunt: shard=NAME */", strings.ToUpper(st.Word(i)))
		}
		break
	}
	w := st.Verb(i)
	switch w {
	case "select", "with", "table", "values", "insert", "replace", "update", "delete":
	default:
		name, _, ok := st.QualifiedName(i)
		if !ok || analyze {
			return nil, st.Near(i)
		}
		return spoken.ShowOf(st, cat, name)
	}
	if analyze {
		if err := spoken.RefuseLocks(st); err != nil {
			return nil, err
		}
	}
	if analyze && w != "select" && w != "with" && w != "table" && w != "values" {
		// It runs the statement.
		return nil, text.NotSupported("EXPLAIN ANALYZE of a write is not supported: use EXPLAIN")
	}
	inner, err := p.Plan(st.Src[st.Tokens[i].Start:], st.Settings, cat)
	if err != nil {
		e, _ := err.(*text.Error) //nolint:errorlint // Plan returns *Error as it is
		return nil, e
	}
	rows, ok := inner.(*plan.Rows)
	if !ok || analyze && (rows.Kind != plan.Select || len(rows.Assigns) > 0) {
		return nil, text.NotSupported("EXPLAIN of this statement is not supported yet")
	}
	act := &explainAction{head: st.Src[:st.Tokens[i].Start], text: st.Src, inner: rows, analyze: analyze}
	return newRows(plan.Rows{Catalog: cat, Kind: plan.Show, Params: rows.Params, Tables: rows.Tables}, act, st.Settings), nil
}

// explainAction asks the first shard of the statement's route for the plan of
// what is sent there, and puts the route on top.
type explainAction struct {
	head string // EXPLAIN and its options
	text string // all of it
	// analyze: it runs the statement.
	analyze bool
	inner   *plan.Rows
}

func (e *explainAction) bind(b *binder) (*plan.Bound, error) {
	in, err := bindableOf(e.inner).action.bind(b.explained())
	if err != nil || in.Refuse != nil {
		return in, err
	}
	route := &plan.Route{Plan: in.Plan, Access: in.Access, Reason: in.Reason}
	for _, st := range in.Statements {
		route.Shards = append(route.Shards, b.cat.ShardName(st.Shard))
	}
	if len(in.Statements) == 0 {
		// It runs over copies that aren't there yet: a shard's plan over its own
		// tables is the nearest there is.
		set := b.cat.All
		for _, t := range e.inner.Tables {
			set = set.Intersect(t.Shards)
		}
		if set.Empty() || e.analyze {
			in.Refuse = text.NotSupported("EXPLAIN of a query that is gathered from tables of several shards is not supported: EXPLAIN ROUTE says what is gathered")
			return in, nil
		}
		route.Plan, route.Shards = "gather", []string{"all"}
		return &plan.Bound{
			Plan: "route", Statements: []plan.ShardStatement{{Shard: set.First(), SQL: e.text}}, Access: in.Access, Reason: "EXPLAIN on one shard of a query that is gathered",
			System: &plan.System{Route: route},
		}, nil
	}
	first := in.Statements[0]
	return &plan.Bound{
		Plan: "route", Statements: []plan.ShardStatement{{Shard: first.Shard, SQL: e.head + first.SQL, Params: first.Params}},
		Access: in.Access, Reason: "EXPLAIN on the first shard of the route; " + in.Reason,
		System: &plan.System{Route: route},
	}, nil
}
