package proxy

import (
	"context"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

var showShards = &own{
	form: "SHOW SHARDS", open: true,
	columns: always("Name", "Addr", "State", "Version", "#Connections_in_use", "#Connections_idle", "Error", "Role", "Lag", "Pinned", "Binary_log"),
	do: func(s *session, _ context.Context, _ *plan.Admin) ([][]any, error) {
		return s.proxy.shardRows(s.sees), nil
	},
}

// shardRows are those of SHOW SHARDS, the replicas behind their primary. They tell of DDL in the
// schemas that may be seen.
func (p *Proxy) shardRows(sees func(schema string) bool) [][]any {
	var rows [][]any
	c := p.opts.Directory.Catalog()
	for _, sh := range slices.Concat(c.Shards, c.Joining) {
		row := p.shardRow(sh.ID, sees)
		if state := &row[2]; *state == "up" && !c.All.Has(sh.ID) {
			*state = "joining" // the catalog that has it is about to come
		}
		rows = append(rows, row)
		rows = append(rows, p.replicaRows(sh)...)
	}
	return rows
}

func (p *Proxy) shardRow(id catalog.ShardID, sees func(schema string) bool) []any {
	pool := p.pool(id)
	st := pool.Stats()
	state := pool.State()
	var failure any
	if err := pool.LastError(); err != nil {
		failure = err.Error()
	} else if why := p.stalls.why(id); why != "" {
		state, failure = "stalled", why
	} else if unlike := p.unlikeOn(pool.Name()); unlike != "" {
		failure = unlike
	} else if lacks := p.opts.Unfinished.On(id, p.opts.Directory.Catalog(), sees); lacks != "" {
		failure = lacks
	}
	log := ""
	if p.opts.LogState != nil {
		log = p.opts.LogState(id)
	}
	return []any{pool.Name(), pool.Addr(), state, pool.Version(), st.InUse, st.Idle, failure, "primary", nil, p.pins.text(id), log}
}
