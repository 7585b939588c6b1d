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
		return s.createVirtualIndex(ctx, a.Index)
	default:
		return s.changeVirtualIndex(ctx, a)
	}
}

func (s *session) createVirtualIndex(ctx context.Context, ix planner.VirtualIndex) error {
	t, err := s.tableForIndex(ctx, ix.Table)
	if err != nil {
		return err
	}
	if t.Index(ix.Name) != nil {
		return sqlError{1061, "42000", fmt.Sprintf("Duplicate key name '%s'", ix.Name)}
	}
	for _, column := range ix.Columns {
		if t.Column(column) == nil {
			return sqlError{1072, "42000", fmt.Sprintf("Key column '%s' doesn't exist in table", column)}
		}
	}
	if err := s.proxy.opts.Admin.CreateIndex(ctx, t, ix.Name, ix.Columns, ix.Partitions); err != nil {
		return err
	}
	return s.answerOK(wire.OK{})
}

// changeVirtualIndex executes a statement about an index that exists.
func (s *session) changeVirtualIndex(ctx context.Context, a *planner.Admin) error {
	ix, err := s.virtualIndex(ctx, a.Index)
	if err != nil && a.Op == planner.DropVirtualIndex {
		if orphan := s.orphan(a.Index); orphan != nil {
			ix, err = orphan, nil
		}
	}
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

// orphan is an index whose table, or a column of it, is gone, by its names alone; nil if
// there is none.
func (s *session) orphan(v planner.VirtualIndex) *catalog.Index {
	c, schema := s.catalog(), cmp.Or(v.Table.Schema, s.settings.schema)
	same := func(a, b string) bool { return a == b || c.LowerCaseNames && strings.EqualFold(a, b) }
	for _, r := range s.proxy.opts.Admin.IndexRows() {
		if same(r.Schema, schema) && same(r.Table, v.Table.Name) && strings.EqualFold(r.Name, v.Name) {
			return &catalog.Index{Name: r.Name, Table: &catalog.Table{Schema: r.Schema, Name: r.Table}}
		}
	}
	return nil
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
