package proxy

import (
	"cmp"
	"context"
	"fmt"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/plan"
)

// explainRoute is EXPLAIN ROUTE: a statement is planned and bound, and nothing is sent.
var explainRoute = &own{
	form: "EXPLAIN ROUTE <statement>", columns: always("Plan", "Shards", "Access", "Reason", "Statement"),
	do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
		if rows := s.explainReplicas(ctx, a.Explain); rows != nil {
			return rows, nil
		}
		rows, err := s.explain(ctx, a.Explain)
		return rows, sectioned(err)
	},
}

// explain is explainRoute of what is read from the primaries.
func (s *session) explain(ctx context.Context, sql string) ([][]any, error) {
	c := s.catalog()
	if !s.settings.planning.Virtual {
		if put := s.putVirtual(ctx, s.textOf(sql), nil, true); put != sql {
			defer s.withVirtual()()
			sql = put
		}
	}
	planned, err := s.proxy.planner.Plan(sql, s.settings.planning, c)
	if err != nil {
		return nil, err
	}
	switch plan := planned.(type) {
	case *plan.Rows:
		return s.explainRows(ctx, plan, sql)
	case *plan.DDL:
		var rows [][]any
		if plan.As != nil { // whose rows are inserted then
			if rows, err = s.explain(ctx, plan.As.Query); err != nil {
				return nil, err
			}
		}
		reason := plan.Op + " goes to every shard that holds the table"
		if plan.Filled != nil && plan.Collation == "" {
			reason += ", if that has no rows"
		}
		for id := range plan.Shards.All {
			text := cmp.Or(plan.Texts[id], sql)
			rows = append(rows, []any{"route", c.ShardName(id), "scatter", reason, text})
		}
		return rows, nil
	case *plan.Temporary:
		return [][]any{explainRow("single", plan.Op+" goes to the connection that the session keeps for its temporary tables", sql)}, nil
	case *plan.Load:
		return [][]any{explainRow("shard_key", "the rows of the client's file are inserted by statements of many rows", plan.Statement()+"(...)")}, nil
	case *plan.LockTables:
		if plan.Failed != nil {
			return nil, plan.Failed
		}
		rows := [][]any{}
		for id := range plan.Shards().All {
			rows = append(rows, []any{"route", c.ShardName(id), "scatter", "every shard that holds a table locks it, over a connection that the session keeps", plan.Text(id)})
		}
		if plan.Global {
			rows = append(rows, explainRow("single", "no other client writes or commits until UNLOCK TABLES; the shards are not locked", sql))
		}
		if plan.Unlock {
			rows = append(rows, explainRow("scatter", "the connections that the session keeps for its locks release them", sql))
		}
		return rows, nil
	case *plan.Admin, *plan.Session:
		return [][]any{explainRow("single", "answered by Shunt itself", sql)}, nil
	}
	return nil, fmt.Errorf("explain %T", planned)
}

// explainRow is a row about no shard in particular.
func explainRow(access, reason, statement string) []any {
	return []any{"route", "", access, reason, statement}
}

// explainRows explains a plan by the way that it is executed.
func (s *session) explainRows(ctx context.Context, plan *plan.Rows, sql string) ([][]any, error) {
	if plan.Params > 0 {
		return nil, mysqlerr.New(mysqlerr.WrongArguments, "EXPLAIN ROUTE needs values in place of ?")
	}
	r := &request{sql: sql, plan: plan}
	if w := s.wayOf(r, unbound); w != nil && w.explain != nil {
		return w.explain(s, ctx, r)
	}
	err := s.bindToExplain(ctx, r)
	if r.why = r.refusal(err); r.why != nil {
		if w := s.wayOf(r, refused); w != nil && w.explain != nil {
			return w.explain(s, ctx, r)
		}
		return nil, r.why
	}
	if err != nil {
		return nil, err
	}
	r.writes = changesRows(r)
	if w := s.wayOf(r, bound); w.explain != nil {
		return w.explain(s, ctx, r)
	}
	if r.bound.Covered != nil && s.coverable(r.plan) {
		r.bound.Plan = "covered"
		r.bound.Reason += "; Shunt answers it by " + r.bound.Covered.Index.Name + " while it has a current answer"
	}
	var rows [][]any
	for _, st := range r.bound.Statements {
		rows = append(rows, []any{r.bound.Plan, s.catalog().ShardName(st.Shard), r.bound.Access, r.bound.Reason, st.SQL})
	}
	return rows, nil
}

// explainBehind explains a query, and what is done with its rows.
func (s *session) explainBehind(ctx context.Context, query string, then ...[]any) ([][]any, error) {
	rows, err := s.explain(ctx, query)
	if err != nil {
		return nil, err
	}
	return append(rows, then...), nil
}

// bindToExplain binds a plan without values. What it asks of an AUTO_INCREMENT counter
// isn't taken.
func (s *session) bindToExplain(ctx context.Context, r *request) error {
	n, err := s.proxy.planner.Increment(r.plan, nil)
	if err != nil {
		return err
	}
	first := uint64(0)
	if n != nil {
		var release func()
		if first, release, err = s.take(ctx, &plan.Increment{Table: n.Table, Column: n.Column}); err != nil {
			return err
		}
		release()
	}
	r.bound, err = s.proxy.planner.BindGenerated(r.plan, nil, s.lookupsFor(ctx, r), first, false)
	return err
}

// explainGather is a row for each statement that fills a copy, and one for the
// query itself, or for the write on each shard.
func (s *session) explainGather(_ context.Context, r *request) (rows [][]any, _ error) {
	b, c := r.bound, s.catalog()
	at := s.proxy.gatherAt(b.Gather)
	name := func(ref int) string {
		if b.Gather.Refs[ref].Stays {
			return ""
		}
		return "copy_" + b.Gather.Refs[ref].Table.Name
	}
	for i := range b.Gather.Refs {
		ref := &b.Gather.Refs[i]
		if ref.Stays {
			continue
		}
		if id, ok := c.ShardByName(at); ok && ref.InPlace.Has(id.ID) && len(b.Statements) == 0 {
			rows = append(rows, []any{b.Plan, at, ref.Access, ref.Table.Name + " is read where it is, unless a transaction is open", ""})
			continue
		}
		for id := range ref.Shards.All {
			rows = append(rows, []any{b.Plan, c.ShardName(id), ref.Access, ref.Reason, ref.Select})
		}
	}
	if len(b.Statements) == 0 {
		return append(rows, []any{b.Plan, at, b.Access, b.Reason, b.Gather.Query(name)}), nil
	}
	for _, st := range b.Statements {
		rows = append(rows, []any{b.Plan, c.ShardName(st.Shard), b.Access, b.Reason, b.Gather.Query(name)})
	}
	return rows, nil
}

// gatherAt names the server that a gather would now run on.
func (p *Proxy) gatherAt(g *plan.Gather) string {
	if p.opts.Scratch == nil {
		return ""
	}
	return p.gatherPlace(p.opts.Directory.Catalog(), g).Name
}
