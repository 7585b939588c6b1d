package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/follow"
)

// lackingBinlogs tells what shards and accounts lack for their binary logs to be followed: without some of it they
// can't be (errors, unless that is left open), without some they are with tables that are scanned (notes).
func lackingBinlogs(ctx context.Context, cfg *config.Config, notes io.Writer) (errs []error) {
	if cfg.Maintenance.Follow == config.FollowScan {
		return nil
	}
	for _, sh := range cfg.Shards {
		ctx, cancel := context.WithTimeout(ctx, reachTimeout)
		problems, err := follow.Check(ctx, sourceOf(shardConfig(sh), slog.New(slog.DiscardHandler)))
		cancel()
		if err != nil && !errors.Is(err, follow.ErrUnfit) {
			errs = append(errs, fmt.Errorf("shard %s at %s: read its binary log: %w", sh.Name, sh.Addr, err))
		}
		for _, p := range problems {
			if p.Fatal && cfg.Maintenance.Follow == config.FollowBinlog {
				errs = append(errs, fmt.Errorf("shard %s at %s can't be followed (maintenance.follow): %s", sh.Name, sh.Addr, p))
			} else {
				fmt.Fprintf(notes, "note: shard %s: %s\n", sh.Name, p)
			}
		}
	}
	return errs
}
