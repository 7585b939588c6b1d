package proxy

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// explainRoute is EXPLAIN ROUTE: a statement is planned and bound, and nothing is sent.
func (s *session) explainRoute(ctx context.Context, sql string) ([][]any, error) {
	if rows := s.explainReplicas(ctx, sql); rows != nil {
		return rows, nil
	}
	return s.explain(ctx, sql)
}

// explain is explainRoute of what is read from the primaries.
func (s *session) explain(ctx context.Context, sql string) ([][]any, error) {
	c := s.catalog()
	plan, err := s.proxy.planner.Plan(sql, s.settings.planning, c)
	if err != nil {
		return nil, err
	}
	switch plan := plan.(type) {
	case *planner.Rows:
		return s.explainRows(ctx, plan, sql)
	case *planner.DDL:
		var rows [][]any
		if plan.As != nil { // whose rows are inserted then
			if rows, err = s.explain(ctx, plan.As.Query); err != nil {
				return nil, err
			}
		}
		for id := range plan.Shards.All {
			text := cmp.Or(plan.Texts[id], sql)
			rows = append(rows, []any{"route", c.ShardName(id), "scatter", plan.Op + " goes to every shard that holds the table", text})
		}
		return rows, nil
	case *planner.Temporary:
		return [][]any{explainRow("single", plan.Op+" goes to the connection that the session keeps for its temporary tables", sql)}, nil
	case *planner.Load:
		return [][]any{explainRow("shard_key", "the rows of the client's file are inserted by statements of many rows", plan.Statement()+"(...)")}, nil
	case *planner.LockTables:
		if plan.Failed != nil {
			return nil, plan.Failed
		}
		rows := [][]any{}
		for id := range plan.Shards().All {
			rows = append(rows, []any{"route", c.ShardName(id), "scatter", "every shard that holds a table locks it, over a connection that the session keeps", plan.Text(id)})
		}
		if plan.Unlock {
			rows = append(rows, explainRow("scatter", "the connections that the session keeps for its locks release them", sql))
		}
		return rows, nil
	case *planner.Admin, *planner.Session:
		return [][]any{explainRow("single", "answered by Shunt itself", sql)}, nil
	}
	return nil, fmt.Errorf("explain %T", plan)
}

// explainRow is a row about no shard in particular.
func explainRow(access, reason, statement string) []any {
	return []any{"route", "", access, reason, statement}
}

// explainRows explains a plan as rowsOnce would execute it.
func (s *session) explainRows(ctx context.Context, plan *planner.Rows, sql string) ([][]any, error) {
	if plan.Params > 0 {
		return nil, sqlError{1210, "HY000", "EXPLAIN ROUTE needs values in place of ?"}
	}
	if plan.Meets != nil && plan.Constants == nil {
		return [][]any{explainRow("scatter", "each row is tried on all shards, and goes where it meets one with the same unique key, or where a new row goes", sql)}, nil
	}
	b, err := s.bindToExplain(ctx, plan)
	if refused(b, err) {
		switch {
		case plan.Copy != nil:
			head, query, tail := plan.Copy.Texts(nil)
			return s.explainBehind(ctx, query, explainRow("shard_key", "the query's rows are inserted by statements of many rows", head+"(...)"+tail))
		case plan.Limited != nil && err == nil:
			head, tail := plan.Limited.Texts(nil)
			return s.explainBehind(ctx, plan.Limited.Query(nil), explainRow("shard_key", "the rows that it finds and locks are changed by their keys", head+"(...)"+tail))
		case plan.Constants != nil:
			return [][]any{explainRow("shard_key", "it is asked first for values that are needed, which then stand in the statement", strings.Join(plan.Constants.Queries(nil), "; "))}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if b.Refuse != nil {
		return nil, b.Refuse
	}
	c := s.catalog()
	if b.Gather != nil {
		return explainGather(b, c, s.proxy.gatherAt(b.Gather)), nil
	}
	var rows [][]any
	for _, st := range b.Statements {
		rows = append(rows, []any{b.Plan, c.ShardName(st.Shard), b.Access, b.Reason, st.SQL})
	}
	return rows, nil
}

// explainBehind explains a query, and what is done with its rows.
func (s *session) explainBehind(ctx context.Context, query string, then []any) ([][]any, error) {
	rows, err := s.explain(ctx, query)
	if err != nil {
		return nil, err
	}
	return append(rows, then), nil
}

// bindToExplain binds a plan without values. What it asks of an AUTO_INCREMENT counter
// isn't taken.
func (s *session) bindToExplain(ctx context.Context, plan *planner.Rows) (*planner.Bound, error) {
	n, err := s.proxy.planner.Increment(plan, nil)
	if err != nil {
		return nil, err
	}
	first := uint64(0)
	if n != nil {
		var release func()
		if first, release, err = s.take(ctx, &planner.Increment{Table: n.Table, Column: n.Column}); err != nil {
			return nil, err
		}
		release()
	}
	return s.proxy.planner.BindGenerated(plan, nil, s.proxy.opts.Index, first, false)
}

// explainGather is a row for each statement that fills a copy, and one for the
// query itself, or for the write on each shard.
func explainGather(b *planner.Bound, c *catalog.Catalog, at string) [][]any {
	var rows [][]any
	name := func(ref int) string {
		if b.Gather.Refs[ref].Stays {
			return ""
		}
		return "copy_" + b.Gather.Refs[ref].Table.Name
	}
	for i := range b.Gather.Refs {
		r := &b.Gather.Refs[i]
		if r.Stays {
			continue
		}
		if id, ok := c.ShardByName(at); ok && r.InPlace.Has(id.ID) && len(b.Statements) == 0 {
			rows = append(rows, []any{b.Plan, at, r.Access, r.Table.Name + " is read where it is, unless a transaction is open", ""})
			continue
		}
		for id := range r.Shards.All {
			rows = append(rows, []any{b.Plan, c.ShardName(id), r.Access, r.Reason, r.Select})
		}
	}
	if len(b.Statements) == 0 {
		return append(rows, []any{b.Plan, at, b.Access, b.Reason, b.Gather.Query(name)})
	}
	for _, st := range b.Statements {
		rows = append(rows, []any{b.Plan, c.ShardName(st.Shard), b.Access, b.Reason, b.Gather.Query(name)})
	}
	return rows
}

// gatherAt names the server that a gather would now run on.
func (p *Proxy) gatherAt(g *planner.Gather) string {
	if p.opts.Scratch == nil {
		return ""
	}
	return p.opts.Scratch.choose(p.opts.Directory.Catalog(), g, p.opts.Pools).name
}
