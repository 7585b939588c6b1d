package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// oneShardCase is a run of sysbench before one server.
type oneShardCase struct {
	script   string
	prepared bool
	threads  int
}

func (c oneShardCase) name() string {
	return fmt.Sprintf("one/%s/%s/%d", strings.TrimPrefix(c.script, "oltp_"), mode(c.prepared), c.threads)
}

func mode(prepared bool) string {
	if prepared {
		return "prepared"
	}
	return "text"
}

// oneShardCases are those that -only and -conns leave.
func (b *bench) oneShardCases() (cases []oneShardCase) {
	for _, script := range []string{"oltp_point_select", "oltp_read_only", "oltp_read_write"} {
		for _, prepared := range []bool{false, true} {
			for _, threads := range b.conns {
				// Transactions at every number would take as long again and tell
				// nothing new.
				if script != "oltp_point_select" && len(b.conns) > 2 && !slices.Contains([]int{8, 32}, threads) {
					continue
				}
				if c := (oneShardCase{script, prepared, threads}); b.only.MatchString(c.name()) {
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

// oneShard measures what each proxy makes of one server: sysbench straight to
// it, through the peers, and through Shunt, for which its table is sharded.
func (b *bench) oneShard(ctx context.Context) (results []*series, err error) {
	cases := b.oneShardCases()
	if len(cases) == 0 {
		return nil, nil
	}
	s, err := b.newStage(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	server := s.servers[0]
	targets := []target{straight(server)}
	peers, missing := findPeers()
	for _, p := range peers {
		t, err := p.start(ctx, s, server)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	if len(missing) > 0 {
		fmt.Fprintf(b.out, "not on this machine: %s (scripts/peers.sh gets them)\n", strings.Join(missing, ", "))
	}
	proxy, err := s.startShunt(ctx, b.binary, "{sbtest: {tables: {sbtest1: {shard_key: id}}}}")
	if err != nil {
		return nil, err
	}
	targets = append(targets, proxy.target)
	admin, err := open(proxy.addr, proxy.user, proxy.password, "")
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE sbtest"); err != nil {
		return nil, fmt.Errorf("create schema: %w", err)
	}
	if err := prepareSysbench(ctx, proxy.target); err != nil {
		return nil, err
	}
	for _, c := range cases {
		result, err := b.turnsOf(c.name(), direct, targets, func(t target) (half, error) {
			return runSysbench(ctx, t, c.script, c.prepared, c.threads, b.seconds)
		})
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}
