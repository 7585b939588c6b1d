package proxy

import (
	"context"

	"github.com/shunt-sql/shunt/planner/plan"
)

// MemberRow is a row of SHOW MEMBERS.
type MemberRow struct {
	// Told, by shard: since which epoch something may be open there, of which epoch; "": nothing
	// is told to anybody.
	Member, Addr, State, Since, Told string
	Catalog                          uint64
	// Connections are those to shards. Open are statements and transactions.
	Connections, Open int
	Version           string
}

var showMembers = &own{
	form: "SHOW MEMBERS", open: true,
	columns: always("Member", "Addr", "State", "Since", "Told", "#Catalog", "#Connections", "#Open", "Version"),
	do: func(s *session, ctx context.Context, _ *plan.Admin) ([][]any, error) {
		members, err := s.proxy.opts.Members(ctx)
		if err != nil {
			return nil, err
		}
		var rows [][]any
		for _, m := range members {
			rows = append(rows, []any{m.Member, m.Addr, m.State, m.Since, nullable(m.Told), int64(m.Catalog), m.Connections, m.Open, m.Version})
		}
		return rows, nil
	},
}
