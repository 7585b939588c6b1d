package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/tracing"
)

// traceTimeout is how long the last traces may take to be sent.
const traceTimeout = 3 * time.Second

// setTracer has statements traced as the configuration says, and sends what was traced until now.
func setTracer(ctx context.Context, p *proxy.Proxy, cfg *config.Config, log *slog.Logger) error {
	var next *tracing.Tracer
	if t := cfg.Tracing; t != nil {
		var err error
		if next, err = tracing.New(ctx, tracing.Options{Endpoint: t.Endpoint, Headers: t.Headers, Sample: t.Sample, Service: t.Service, Version: version, Log: log}); err != nil {
			return err
		}
	}
	closeTracer(ctx, p.SetTracer(next))
	return nil
}

// closeTracer sends what is left to send.
func closeTracer(ctx context.Context, t *tracing.Tracer) {
	if t == nil {
		return
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceTimeout)
	defer cancel()
	_ = t.Close(stop) // the log has told
}
