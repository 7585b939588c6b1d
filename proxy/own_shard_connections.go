package proxy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// showShardConnections tells whose threads in the shards' own lists are: this Shunt's connections that are in use.
var showShardConnections = &own{
	form: "SHOW SHARD CONNECTIONS", open: true,
	columns: always("Shard", "#Thread", "#Id", "User", "Host", "db", "Command", "#Time", "State", "Info"),
	do: func(s *session, _ context.Context, _ *plan.Admin) ([][]any, error) {
		of := map[uint32]process{}
		for _, p := range ofUser(s.proxy.processes(), s.only()) {
			of[p.id] = p
		}
		var rows [][]any
		for _, sh := range s.catalog().Shards {
			uses := s.proxy.pool(sh.ID).Uses()
			slices.SortFunc(uses, func(a, b shard.Use) int { return cmp.Compare(a.Thread, b.Thread) })
			for _, u := range uses {
				p, known := of[u.Client]
				switch {
				case known:
					rows = append(rows, []any{sh.Name, int64(u.Thread), int64(p.id), p.user, p.host, nullable(p.schema), p.command, int64(time.Since(p.since) / time.Second), p.state(), nullable(p.info)})
				case u.Client == 0 && s.only() == nil: // Shunt's own
					rows = append(rows, []any{sh.Name, int64(u.Thread), nil, nil, nil, nil, nil, nil, nil, nil})
				}
			}
		}
		return rows, nil
	},
}
