package proxy

import (
	"context"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"
)

// AdviceRow is a row of SHOW INDEX ADVICE.
type AdviceRow struct {
	Schema, Table string
	Columns       []string
	// Executions are of the statements that the index routes, which took Time, and go to so many Shards without
	// it on average. Writes keep it.
	Executions, Writes uint64
	Time               time.Duration
	Shards             float64
	// FanOut is to how many shards a key leads, by Basis: unique, sample, statistics, or reads of an index that is there.
	// It has so many Entries.
	FanOut  float64
	Basis   string
	Entries uint64
	// Do is the statement to send.
	Do string
}

// showAdvice goes by what this process has executed: see showStatistics.
var showAdvice = &own{
	form:    "SHOW INDEX ADVICE",
	columns: always("Schema", "Table", "Columns", "#Executions", "Time_ms", "Shards", "Fan_out", "Basis", "#Entries", "#Writes", "Advice"),
	do: func(s *session, ctx context.Context, _ *plan.Admin) ([][]any, error) {
		if s.proxy.insights == nil {
			return nil, refuse("SHOW INDEX ADVICE goes by what was executed, which isn't counted: set statement_shapes")
		}
		advice, err := s.proxy.opts.Advice(ctx, s.proxy.insights.Rows())
		if err != nil {
			return nil, err
		}
		var rows [][]any
		for _, a := range advice {
			rows = append(rows, []any{
				a.Schema, a.Table, strings.Join(a.Columns, ", "), int64(a.Executions), millis(a.Time), shownStatistic(a.Shards), shownStatistic(a.FanOut), a.Basis,
				int64(a.Entries), int64(a.Writes), a.Do,
			})
		}
		return rows, nil
	},
}
