package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/insights"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// showStatistics shows what this process has executed, by shape. Others' statements are for who has
// all rights, as in SHOW PROCESSLIST.
var showStatistics = &own{
	form: "SHOW STATEMENT STATISTICS [LIKE <pattern>] [ORDER BY <order>] [LIMIT <limit>]",
	columns: func(*session, *plan.Admin) []wire.Column {
		names := make([]string, len(statistics))
		for i, c := range statistics {
			names[i] = c.name
		}
		return columns(names...)
	},
	do: func(s *session, _ context.Context, a *plan.Admin) ([][]any, error) { return s.proxy.statisticsRows(a) },
}

var flushStatistics = &own{
	form: "FLUSH STATEMENT STATISTICS", changes: true,
	do: func(s *session, _ context.Context, _ *plan.Admin) ([][]any, error) {
		if s.proxy.insights != nil {
			s.proxy.insights.Flush()
		}
		return nil, nil
	},
}

// statistic is a column of SHOW STATEMENT STATISTICS; a leading # makes an integer one.
type statistic struct {
	name string
	// of is an int64, a float64, a string, a Duration or a Time; nil: NULL.
	of func(*Proxy, *insights.Row) any
}

var statistics = slices.Concat(
	[]statistic{
		{"Digest", func(_ *Proxy, r *insights.Row) any {
			if r.ID == 0 {
				return nil // the others
			}
			return digestID(r.ID)
		}},
		{"Schema", func(_ *Proxy, r *insights.Row) any { return nullable(r.Schema) }},
		{"Statement", func(_ *Proxy, r *insights.Row) any { return nullable(r.Text) }},
		{"#Calls", func(_ *Proxy, r *insights.Row) any { return int64(r.Calls) }},
		{"#Errors", func(_ *Proxy, r *insights.Row) any { return int64(r.Errors) }},
		{"#Last_error", func(_ *Proxy, r *insights.Row) any {
			if r.LastError == 0 {
				return nil
			}
			return int64(r.LastError)
		}},
	},
	timesOf("", func(r *insights.Row) *insights.Times { return &r.Whole }, func(r *insights.Row) uint64 { return r.Calls }),
	[]statistic{
		{"Route", func(_ *Proxy, r *insights.Row) any { return nullable(r.Plan) }},
		{"Access", func(_ *Proxy, r *insights.Row) any { return nullable(r.Access) }},
		{"Shards", func(_ *Proxy, r *insights.Row) any { return float64(r.Parts) / float64(r.Calls) }},
	},
	timesOf("Shard_", func(r *insights.Row) *insights.Times { return &r.Part }, func(r *insights.Row) uint64 { return r.Parts }),
	[]statistic{
		{"By_shard", byShard},
		{"#Rows_sent", func(_ *Proxy, r *insights.Row) any { return r.Rows }},
		{"#Rows_affected", func(_ *Proxy, r *insights.Row) any { return r.Affected }},
		{"#Rows_copied", func(_ *Proxy, r *insights.Row) any { return r.Copied }},
		{"#Waits", func(_ *Proxy, r *insights.Row) any { return int64(r.Waits) }},
		{"Wait_ms", func(_ *Proxy, r *insights.Row) any { return r.Waited }},
		{"#Lookups_in_vain", func(_ *Proxy, r *insights.Row) any { return int64(r.Vain) }},
		{"First_seen", func(_ *Proxy, r *insights.Row) any { return r.First }},
		{"Last_seen", func(_ *Proxy, r *insights.Row) any { return r.Last }},
		{"Sample", func(_ *Proxy, r *insights.Row) any { return nullable(r.Sample) }},
	},
)

// timesOf are the columns of some times.
func timesOf(prefix string, times func(*insights.Row) *insights.Times, n func(*insights.Row) uint64) []statistic {
	column := func(name string, of func(*insights.Times) time.Duration) statistic {
		return statistic{prefix + name + "_ms", func(_ *Proxy, r *insights.Row) any { return of(times(r)) }}
	}
	return []statistic{
		column("Total", func(t *insights.Times) time.Duration { return t.Total }),
		{prefix + "Mean_ms", func(_ *Proxy, r *insights.Row) any { return times(r).Total / time.Duration(max(1, n(r))) }},
		column("P50", func(t *insights.Times) time.Duration { return t.P50 }),
		column("P95", func(t *insights.Times) time.Duration { return t.P95 }),
		column("P99", func(t *insights.Times) time.Duration { return t.P99 }),
		column("P999", func(t *insights.Times) time.Duration { return t.P999 }),
		column("Max", func(t *insights.Times) time.Duration { return t.Max }),
	}
}

// byShard tells of each shard its parts, and how long they took: "s0: 120, mean 1.204, max 8.110".
func byShard(p *Proxy, r *insights.Row) any {
	c := p.opts.Directory.Catalog()
	slices.SortFunc(r.Shards, func(a, b insights.ShardRow) int { return cmp.Compare(a.Shard, b.Shard) })
	parts := make([]string, 0, len(r.Shards))
	for _, s := range r.Shards {
		parts = append(parts, fmt.Sprintf("%s: %d, mean %s, max %s", c.ShardName(catalog.ShardID(s.Shard)), s.Parts, millis(s.Total/time.Duration(s.Parts)), millis(s.Max)))
	}
	return nullable(strings.Join(parts, "; "))
}

func digestID(id uint64) string { return fmt.Sprintf("%016x", id) }

func millis(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

// statisticsRows are the rows of SHOW STATEMENT STATISTICS: what took longest together first,
// unless another order is asked for.
func (p *Proxy) statisticsRows(a *plan.Admin) ([][]any, error) {
	by := statistics[slices.IndexFunc(statistics, func(c statistic) bool { return c.name == "Total_ms" })]
	descending := true
	if a.Order != "" {
		i := slices.IndexFunc(statistics, func(c statistic) bool { return strings.EqualFold(strings.TrimPrefix(c.name, "#"), a.Order) })
		if i < 0 {
			return nil, mysqlerr.Newf(mysqlerr.BadField, "Unknown column '%s' in 'order clause'", a.Order)
		}
		by, descending = statistics[i], a.Descending
	}
	list := p.insights.Rows()
	if a.Like != "" {
		list = slices.DeleteFunc(list, func(r insights.Row) bool { return !likeName(a.Like, r.Text) })
	}
	slices.SortStableFunc(list, func(x, y insights.Row) int {
		if descending {
			x, y = y, x
		}
		return compareStatistics(by.of(p, &x), by.of(p, &y))
	})
	if a.Limit >= 0 {
		list = list[:min(a.Limit, len(list))]
	}
	rows := make([][]any, 0, len(list))
	for i := range list {
		row := make([]any, 0, len(statistics))
		for _, c := range statistics {
			row = append(row, shownStatistic(c.of(p, &list[i])))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func shownStatistic(v any) any {
	switch v := v.(type) {
	case time.Duration:
		return millis(v)
	case float64:
		return fmt.Sprintf("%.2f", v)
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05")
	}
	return v
}

// compareStatistics puts NULL first, as servers do.
func compareStatistics(x, y any) int {
	if x == nil || y == nil {
		return cmp.Compare(btoi(x != nil), btoi(y != nil))
	}
	switch x := x.(type) {
	case int64:
		return cmp.Compare(x, y.(int64))
	case float64:
		return cmp.Compare(x, y.(float64))
	case time.Duration:
		return cmp.Compare(x, y.(time.Duration))
	case time.Time:
		return x.Compare(y.(time.Time))
	}
	return cmp.Compare(x.(string), y.(string))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
