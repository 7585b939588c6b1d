package proxy

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// admin answers Shunt's own SQL.
func (s *session) admin(ctx context.Context, a *planner.Admin) error {
	switch a.Op {
	case planner.ShowVirtualIndexes:
		rows := s.virtualIndexRows(a.Index.Table)
		if len(rows) == 0 && a.Index.Table.Name != "" && s.sees(cmp.Or(a.Index.Table.Schema, s.settings.schema)) {
			if _, err := s.indexedTable(ctx, a.Index.Table); err != nil { // or a typo reads as no index
				return err
			}
		}
		return s.answerRows(virtualIndexColumns, rows)
	case planner.ShowMaintenanceJobs:
		return s.answerRows(jobColumns, s.jobRows())
	case planner.ShowShards:
		return s.answerRows(shardColumns, s.proxy.shardRows())
	case planner.ExplainRoute:
		rows, err := s.explainRoute(ctx, a.Explain)
		if err != nil {
			return err
		}
		return s.answerRows(explainColumns, rows)
	case planner.ShowProcesslist:
		return s.showProcesslist(a.Full)
	case planner.ShowGrants:
		return s.showGrants(ctx)
	case planner.Kill:
		return s.killSession(ctx, a)
	case planner.TellSession:
		return s.tell(a.Tell)
	case planner.CreateVirtualIndex:
		t, err := s.tableForIndex(ctx, a.Index.Table)
		if err != nil {
			return err
		}
		if t.Index(a.Index.Name) != nil {
			return sqlError{1061, "42000", fmt.Sprintf("Duplicate key name '%s'", a.Index.Name)}
		}
		for _, column := range a.Index.Columns {
			if t.Column(column) == nil {
				return sqlError{1072, "42000", fmt.Sprintf("Key column '%s' doesn't exist in table", column)}
			}
		}
		if err := s.proxy.opts.Admin.CreateIndex(ctx, t, a.Index.Name, a.Index.Columns, a.Index.Partitions); err != nil {
			return err
		}
		return s.answerOK(wire.OK{})
	default: // about an index that exists
	}

	ix, err := s.virtualIndex(ctx, a.Index)
	if err != nil {
		return err
	}
	admin := s.proxy.opts.Admin
	switch a.Op {
	case planner.DropVirtualIndex:
		err = admin.DropIndex(ctx, ix)
	case planner.AlterPartitions:
		err = admin.Repartition(ctx, ix, a.Index.Partitions)
	case planner.DisableVirtualIndex:
		err = admin.EnableIndex(ctx, ix, false)
	case planner.EnableVirtualIndex:
		err = admin.EnableIndex(ctx, ix, true)
	case planner.RebuildVirtualIndex:
		err = admin.RebuildIndex(ctx, ix)
	case planner.CheckVirtualIndex:
		rows, checkErr := admin.CheckIndex(ctx, ix)
		if checkErr != nil {
			return checkErr
		}
		var out [][]any
		for _, r := range rows {
			out = append(out, []any{r.Index, r.Shard, r.Checked, r.Missing, r.Stale})
		}
		return s.answerRows(checkColumns, out)
	default:
		err = refuse("this statement is not supported yet")
	}
	if err != nil {
		return err
	}
	return s.answerOK(wire.OK{})
}

// tableForIndex finds the table of a statement about virtual indexes. A table
// that the catalog does not have is looked for on the shards once, since it may
// have been made behind Shunt's back.
func (s *session) tableForIndex(ctx context.Context, name planner.TableName) (*catalog.Table, error) {
	t, err := s.indexedTable(ctx, name)
	if err == nil && t.Temporary {
		return nil, refuse("a virtual index on the temporary table %s is not supported: its rows are on one shard", t.Name)
	}
	return t, err
}

func (s *session) indexedTable(ctx context.Context, name planner.TableName) (*catalog.Table, error) {
	schema := name.Schema
	if schema == "" {
		schema = s.settings.schema
	}
	if schema == "" {
		return nil, errNoDatabase
	}
	find := func() *catalog.Table {
		if t := s.catalog().Table(schema, name.Name); t != nil && len(t.Columns) > 0 {
			return t
		}
		return nil
	}
	if t := find(); t != nil {
		return t, nil
	}
	if err := s.proxy.opts.Directory.RefreshUnlessFresh(ctx); err != nil {
		return nil, err
	}
	if t := find(); t != nil {
		return t, nil
	}
	return nil, sqlError{1146, "42S02", fmt.Sprintf("Table '%s.%s' doesn't exist", schema, name.Name)}
}

func (s *session) virtualIndex(ctx context.Context, v planner.VirtualIndex) (*catalog.Index, error) {
	t, err := s.tableForIndex(ctx, v.Table)
	if err != nil {
		return nil, err
	}
	if ix := t.Index(v.Name); ix != nil {
		return ix, nil
	}
	return nil, sqlError{1176, "42000", fmt.Sprintf("Virtual index '%s' doesn't exist in table '%s.%s'; SHOW VIRTUAL INDEXES lists them", v.Name, t.Schema, t.Name)}
}

var (
	virtualIndexColumns = columns("Schema", "Table", "Name", "Columns", "#Partitions", "Status", "Progress", "#Entries", "Unknown_shards", "#Pending_jobs", "Last_scan", "Error")
	jobColumns          = columns("#Id", "Type", "Schema", "Table", "Shards", "Indexes", "State", "#Attempts", "Not_before", "Claimed_by", "Progress", "Error")
	shardColumns        = columns("Name", "Addr", "State", "Version", "#Connections_in_use", "#Connections_idle", "Error", "Role", "Lag", "Pinned")
	checkColumns        = columns("Index", "Shard", "#Checked", "#Missing", "#Stale")
	explainColumns      = columns("Plan", "Shards", "Access", "Reason", "Statement")
)

// columns makes column definitions; a leading # makes an integer one.
func columns(names ...string) []wire.Column {
	cols := make([]wire.Column, len(names))
	for i, n := range names {
		if num, ok := strings.CutPrefix(n, "#"); ok {
			cols[i] = wire.IntColumn(num)
		} else {
			cols[i] = wire.TextColumn(n)
		}
	}
	return cols
}

func (s *session) virtualIndexRows(from planner.TableName) [][]any {
	schema := from.Schema
	if schema == "" {
		schema = s.settings.schema
	}
	var rows [][]any
	for _, r := range s.proxy.opts.Admin.IndexRows() {
		if from.Name != "" && (!strings.EqualFold(r.Table, from.Name) || !strings.EqualFold(r.Schema, schema)) {
			continue
		}
		if !s.sees(r.Schema) {
			continue
		}
		rows = append(rows, []any{
			r.Schema, r.Table, r.Name, strings.Join(r.Columns, ","), r.Partitions, r.Status, percent(r.Progress), int64(r.Entries),
			strings.Join(r.UnknownShards, ","), r.PendingJobs, nullable(r.LastScan), nullable(r.Error),
		})
	}
	return rows
}

func (s *session) jobRows() [][]any {
	var rows [][]any
	for _, r := range s.proxy.opts.Admin.JobRows() {
		if !s.sees(r.Schema) {
			continue
		}
		rows = append(rows, []any{
			int64(r.ID), r.Type, r.Schema, r.Table, strings.Join(r.Shards, ","), strings.Join(r.Indexes, ","), r.State, r.Attempts,
			nullable(r.NotBefore), nullable(r.ClaimedBy), percent(r.Progress), nullable(r.Error),
		})
	}
	return rows
}

// shardRows are those of SHOW SHARDS, the replicas behind their primary.
func (p *Proxy) shardRows() [][]any {
	var rows [][]any
	for _, sh := range p.opts.Directory.Catalog().Shards {
		rows = append(rows, p.shardRow(sh.ID))
		rows = append(rows, p.replicaRows(sh)...)
	}
	return rows
}

func (p *Proxy) shardRow(id catalog.ShardID) []any {
	pool := p.opts.Pools[id]
	st := pool.Stats()
	var failure any
	if err := pool.LastError(); err != nil {
		failure = err.Error()
	}
	return []any{pool.Name(), pool.Addr(), pool.State(), pool.Version(), st.InUse, st.Idle, failure, "primary", nil, p.pins.text(id)}
}

func percent(f float64) string { return fmt.Sprintf("%.0f%%", f*100) }

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// explainRoute plans and binds a statement without sending anything.
func (s *session) explainRoute(ctx context.Context, sql string) ([][]any, error) {
	if rows := s.explainReplicas(ctx, sql); rows != nil {
		return rows, nil
	}
	next := func(n *planner.Increment) (uint64, error) {
		// What is asked for is not taken.
		first, release, err := s.take(ctx, &planner.Increment{Table: n.Table, Column: n.Column})
		if err == nil {
			release()
		}
		return first, err
	}
	return Explain(sql, s.settings.planning, s.catalog(), s.proxy.planner, s.proxy.opts.Index, next, s.proxy.gatherAt)
}

// Explain says where a statement would go and why: the rows of EXPLAIN ROUTE.
// next tells where an AUTO_INCREMENT counter stands.
func Explain(sql string, settings planner.Settings, c *catalog.Catalog, p *planner.Planner, ix planner.Indexes, next func(*planner.Increment) (uint64, error), gatherAt func(*planner.Gather) string) ([][]any, error) {
	plan, err := p.Plan(sql, settings, c)
	if err != nil {
		return nil, err
	}
	switch plan := plan.(type) {
	case *planner.Rows:
		if plan.Params > 0 {
			return nil, sqlError{1210, "HY000", "EXPLAIN ROUTE needs values in place of ?"}
		}
		asked := func() ([][]any, error) {
			return [][]any{{"route", "", "shard_key", "a shard is asked for the values by which the rows are placed, which then stand in the statement", plan.Constants.Query(nil)}}, nil
		}
		if plan.Meets != nil && plan.Constants == nil {
			return [][]any{{"route", "", "scatter", "each row is tried on all shards, and goes where it meets one with the same unique key, or where a new row goes", sql}}, nil
		}
		n, err := p.Increment(plan, nil)
		if plan.Constants != nil && refused(nil, err) {
			return asked()
		}
		if err != nil {
			return nil, err
		}
		first := uint64(0)
		if n != nil {
			if first, err = next(n); err != nil {
				return nil, err
			}
		}
		b, err := p.BindGenerated(plan, nil, ix, first, false)
		if plan.Copy != nil && refused(b, err) {
			head, query, tail := plan.Copy.Texts(nil)
			rows, err := Explain(query, settings, c, p, ix, next, gatherAt)
			if err != nil {
				return nil, err
			}
			return append(rows, []any{"route", "", "shard_key", "the query's rows are inserted by statements of many rows", head + "(...)" + tail}), nil
		}
		if plan.Limited != nil && err == nil && refused(b, err) {
			head, tail := plan.Limited.Texts(nil)
			rows, err := Explain(plan.Limited.Query(nil), settings, c, p, ix, next, gatherAt)
			if err != nil {
				return nil, err
			}
			return append(rows, []any{"route", "", "shard_key", "the rows that it finds and locks are changed by their keys", head + "(...)" + tail}), nil
		}
		if plan.Constants != nil && refused(b, err) {
			return asked()
		}
		if err != nil {
			return nil, err
		}
		if b.Refuse != nil {
			return nil, b.Refuse
		}
		if b.Gather != nil {
			return explainGather(b, c, gatherAt(b.Gather)), nil
		}
		var rows [][]any
		for _, st := range b.Statements {
			rows = append(rows, []any{b.Plan, c.ShardName(st.Shard), b.Access, b.Reason, st.SQL})
		}
		return rows, nil
	case *planner.DDL:
		var rows [][]any
		for id := range plan.Shards.All {
			rows = append(rows, []any{"route", c.ShardName(id), "scatter", plan.Op + " goes to every shard that holds the table", sql})
		}
		return rows, nil
	case *planner.Temporary:
		return [][]any{{"route", "", "single", plan.Op + " goes to the connection that the session keeps for its temporary tables", sql}}, nil
	case *planner.Load:
		return [][]any{{"route", "", "shard_key", "the rows of the client's file are inserted by statements of many rows", plan.Statement() + "(...)"}}, nil
	case *planner.LockTables:
		if plan.Failed != nil {
			return nil, plan.Failed
		}
		rows := [][]any{}
		for id := range plan.Shards().All {
			rows = append(rows, []any{"route", c.ShardName(id), "scatter", "every shard that holds a table locks it, over a connection that the session keeps", plan.Text(id)})
		}
		if plan.Unlock {
			rows = append(rows, []any{"route", "", "scatter", "the connections that the session keeps for its locks release them", sql})
		}
		return rows, nil
	case *planner.Admin, *planner.Session:
		return [][]any{{"route", "", "single", "answered by Shunt itself", sql}}, nil
	}
	return nil, fmt.Errorf("explain %T", plan)
}
