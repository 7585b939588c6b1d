package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/follow"
)

// checkBinlogs tells what shards and accounts lack for their binary logs to be followed: without some of it they
// can't be (failures, unless that is left open), without some they are with tables that are scanned (notes).
func (x *checked) checkBinlogs(ctx context.Context, cfg *config.Config) {
	if cfg.Maintenance.Follow == config.FollowScan {
		return
	}
	for _, sh := range cfg.Shards {
		ctx, cancel := context.WithTimeout(ctx, reachTimeout)
		problems, err := follow.Check(ctx, sourceOf(shardConfig(sh), slog.New(slog.DiscardHandler)))
		cancel()
		if err != nil && !errors.Is(err, follow.ErrUnfit) {
			x.fail(fmt.Errorf("shard %s at %s: read its binary log: %w", sh.Name, sh.Addr, err))
		}
		for _, p := range problems {
			if p.Fatal && cfg.Maintenance.Follow == config.FollowBinlog {
				x.fail(fmt.Errorf("shard %s at %s can't be followed (maintenance.follow): %s", sh.Name, sh.Addr, p))
			} else {
				x.note("shard %s: %s", sh.Name, p)
			}
		}
	}
}
