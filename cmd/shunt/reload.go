package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/proxy"
)

// reloads reads the configuration again at each SIGHUP, until ctx ends. Users,
// tls (toward clients), schemas and indexes take effect at once, and no connection is dropped; a file
// with errors changes nothing.
func reloads(ctx context.Context, cfg *config.Config, p *proxy.Proxy, d *proxy.Directory, index virtualIndexes, log *slog.Logger) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		next, err := config.Load(cfg.File)
		if err != nil {
			log.Error("reload: nothing was changed", "error", err)
			continue
		}
		if err := d.SetPlacements(ctx, placements(next)); err != nil {
			log.Error("reload: nothing was changed", "error", err)
			continue
		}
		p.SetUsers(users(next))
		p.SetTimeouts(proxy.Timeouts(next.Timeouts))
		p.SetTLS(next.TLS.Server(), next.TLS != nil && next.TLS.Required)
		if err := configuredIndexes(ctx, next, d, index, log); err != nil {
			log.Error("reload: indexes", "error", err)
		}
		// What is read only at start.
		rest, was := *next, *cfg
		for _, c := range []*config.Config{&rest, &was} {
			c.Users, c.TLS, c.Schemas, c.Indexes, c.Timeouts = nil, nil, nil, nil, config.Timeouts{}
		}
		if !reflect.DeepEqual(rest, was) {
			log.Warn("reload: users, tls, schemas and indexes were taken over; the other changes need a restart")
		} else {
			log.Info("reload: done", "file", cfg.File)
		}
	}
}
