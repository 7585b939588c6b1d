package proxy

import (
	"context"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
)

var showMaintenanceJobs = &own{
	form: "SHOW MAINTENANCE JOBS", open: true,
	columns: always("#Id", "Type", "Schema", "Table", "Shards", "Indexes", "State", "#Attempts", "Not_before", "Claimed_by", "Progress", "Error"),
	do:      func(s *session, _ context.Context, _ *plan.Admin) ([][]any, error) { return s.jobRows(), nil },
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
