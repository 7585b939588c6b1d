package proxy

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

var showVirtualIndexes = &own{
	form: "SHOW VIRTUAL INDEXES [FROM|IN <table>]", open: true,
	columns: always("Schema", "Table", "Name", "Columns", "#Partitions", "Status", "Progress", "#Entries", "Unknown_shards", "#Pending_jobs", "Last_scan", "Error", "Home",
		"#Bytes", "#Reads", "Mean_shards", "Ideal_shards", "In_vain", "Unknown_since", "Include", "Lag"),
	do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
		rows := s.virtualIndexRows(a.Index.Table)
		if len(rows) == 0 && a.Index.Table.Name != "" && s.sees(cmp.Or(a.Index.Table.Schema, s.settings.schema)) {
			if _, err := s.indexedTable(ctx, a.Index.Table); err != nil { // or a typo reads as no index
				return nil, err
			}
		}
		return rows, nil
	},
}

// ratio is NULL of nothing.
func ratio(n, of uint64) any {
	if of == 0 {
		return nil
	}
	return fmt.Sprintf("%.2f", float64(n)/float64(of))
}

// lagText is NULL where a time isn't known.
func lagText(d time.Duration) any {
	if d < 0 {
		return nil
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}

func (s *session) virtualIndexRows(from catalog.TableName) [][]any {
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
			strings.Join(r.UnknownShards, ","), r.PendingJobs, nullable(r.LastScan), nullable(r.Error), r.Home,
			r.Bytes, int64(r.Reads), ratio(r.ReadShards, r.Reads), ratio(r.ReadShards-r.VainShards, r.Reads), ratio(r.VainShards, r.ReadShards), nullable(r.UnknownSince), strings.Join(r.Include, ","), lagText(r.Lag),
		})
	}
	return rows
}
