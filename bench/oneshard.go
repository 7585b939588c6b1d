package main

import (
	"context"
	"fmt"
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

const pointSelect = "oltp_point_select"

// oneShardCases are those that -only and -conns leave.
func (b *bench) oneShardCases() (cases []oneShardCase) {
	for _, script := range []string{pointSelect, "oltp_read_only", "oltp_read_write"} {
		for _, prepared := range []bool{false, true} {
			for _, threads := range b.conns {
				if c := (oneShardCase{script, prepared, threads}); b.only.MatchString(c.name()) && (b.allConns || c.tells()) {
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

// tells is whether a case belongs into a quarter of an hour: transactions are
// slower, and how they go with more connections is much like how selects do.
func (c oneShardCase) tells() bool {
	switch c.script {
	case pointSelect:
		return c.threads != 16 || !c.prepared
	case "oltp_read_only":
		return c.threads == 8
	default:
		return c.threads == 8 || c.threads == 32
	}
}

// oneShard measures what each proxy makes of one server: sysbench straight to
// it, through the peers, and through Shunt, for which its table is sharded.
func (b *bench) oneShard(ctx context.Context) (results []*series, err error) {
	cases := b.oneShardCases()
	streams := b.only.MatchString("one/" + streamCase)
	if len(cases) == 0 && !streams {
		return nil, nil
	}
	s, err := b.newStage(ctx, 1, b.port)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	server := s.servers[0]
	peers, err := b.startPeers(ctx, s, server)
	if err != nil {
		return nil, err
	}
	targets := append([]target{straight(server)}, peers...)
	b.versions = append(b.versions, versionOf(ctx, "", "sysbench", "--version"))
	proxy, err := s.startShunt(ctx, b.program(), fmt.Sprintf("{sbtest: {tables: {sbtest1: {shard_key: id}, %s: {shard_key: id}}}}", streamTable))
	if err != nil {
		return nil, err
	}
	targets = append(targets, *proxy)
	admin, err := openDB(*proxy, "", false)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE sbtest"); err != nil {
		return nil, fmt.Errorf("create schema: %w", err)
	}
	if len(cases) > 0 {
		if err := prepareSysbench(ctx, *proxy); err != nil {
			return nil, err
		}
	}
	for _, c := range cases {
		result, err := b.turnsOf(ctx, c.name(), direct, targets, func(t target) (half, error) {
			return b.profiled(ctx, c.name(), t, func() (half, error) {
				return runSysbench(ctx, t, c.script, c.prepared, c.threads, b.seconds)
			})
		})
		if results, err = b.keep(ctx, results, result, err); err != nil {
			return nil, err
		}
	}
	if streams {
		if err := fillStream(ctx, *proxy, server); err != nil {
			return nil, err
		}
		result, err := b.turnsOf(ctx, "one/"+streamCase, direct, targets, func(t target) (half, error) {
			return b.profiled(ctx, "one/"+streamCase, t, func() (half, error) { return stream(ctx, t) })
		})
		if results, err = b.keep(ctx, results, result, err); err != nil {
			return nil, err
		}
	}
	return results, nil
}
