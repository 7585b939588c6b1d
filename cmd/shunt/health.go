package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// health runs what judges the servers, until it is stopped.
type health struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	log    *slog.Logger
}

func newHealth(ctx context.Context, log *slog.Logger) *health {
	h := &health{log: log}
	// Sessions that are drained after ctx has ended still need it.
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return h
}

// judge has a server judged from now on, and returns the configuration with
// which to dial it. by is a shard's claim; nil for what needs none.
func (h *health) judge(cfg shard.Config, timeout time.Duration, by *claim) shard.Config {
	cfg.ConnectTimeout = timeout
	o := shard.HealthOptions{Timeout: timeout, Logger: h.log}
	if by != nil {
		o.Claim, o.Conn, o.Unreached = by.take, by.conn, by.failed
	}
	j := shard.NewHealth(cfg, o)
	if by != nil {
		j.Watch(func(alive bool) {
			if !alive {
				by.of.away(by)
			}
		})
	}
	cfg.Health = j
	h.wg.Go(func() { j.Run(h.ctx) })
	return cfg
}

func (h *health) stop() {
	h.cancel()
	h.wg.Wait()
}
