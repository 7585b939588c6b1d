package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// durable makes the shards as safe as production has them: what a statement
// costs beside a proxy's share is mostly that.
var durable = []string{"--log-bin=binlog", "--server-id=1", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M"}

// password of all accounts.
const password = "bench"

// stage is servers, and what runs before them; stop ends it all.
type stage struct {
	source   throwaway.Source
	sessions bool
	configured
	servers  []*throwaway.Server
	stoppers []func()
}

// newStage starts servers; port is the first one's, or 0 for a free one.
func (b *bench) newStage(ctx context.Context, servers, port int, args ...string) (*stage, error) {
	set, err := throwaway.Start(ctx, b.source, throwaway.Options{Servers: servers, Port: port, Password: password, Args: append(slices.Clone(durable), args...), Sessions: b.sessions})
	if err != nil {
		return nil, err
	}
	s := &stage{source: b.source, sessions: b.sessions, configured: b.configured, servers: set.Servers}
	s.onStop(set.Stop)
	return s, nil
}

func (s *stage) onStop(f func()) { s.stoppers = append(s.stoppers, f) }

// stop undoes in reverse.
func (s *stage) stop() {
	for _, f := range slices.Backward(s.stoppers) {
		f()
	}
	s.stoppers = nil
}

// straight is a server without anything before it.
func straight(s *throwaway.Server) target {
	return target{name: direct, addr: s.Addr(), user: s.User, password: s.Password}
}

// startShunt runs the program before all servers of the stage, with the
// defaults, but one maintenance worker, so that a build runs alone. schemas is
// that part of the configuration, in YAML's flow style.
func (s *stage) startShunt(ctx context.Context, program []string, schemas string) (*target, error) {
	dir, err := os.MkdirTemp("", "shunt-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	s.onStop(func() { os.RemoveAll(dir) })
	var ports [2]int
	for i := range ports {
		if ports[i], err = throwaway.FreePort(); err != nil {
			return nil, err
		}
	}
	p := &target{name: ours, addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), user: "bench", password: password, http: fmt.Sprintf("127.0.0.1:%d", ports[1])}
	var cfg strings.Builder
	fmt.Fprintf(&cfg, "listen: %s\nhttp: %s\nhttp_token: %s\ndata_dir: %s\nusers: [{name: %s, password: %s}]\nshards:\n", p.addr, p.http, httpToken, filepath.Join(dir, "data"), p.user, p.password)
	for i, server := range s.servers {
		fmt.Fprintf(&cfg, "- {name: s%d, addr: '%s', user: %s, password: '%s'}\n", i, server.Addr(), server.User, server.Password)
	}
	cfg.WriteString(s.more + "store: " + s.store + "\nschemas: " + schemas + "\n" +
		"maintenance: {follow: " + s.follow + ", delay: 1s, scan_duty: 0.1, reconcile_every: 24h, workers: 1, audit: 0.001}\n")
	file := filepath.Join(dir, "shunt.yaml")
	if err := os.WriteFile(file, []byte(cfg.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	process, err := s.start(ctx, "shunt", "", append(program, "serve", "--config", file), p.ready)
	if err != nil {
		return nil, err
	}
	s.onStop(process.stop)
	p.pid = process.pid()
	return p, nil
}

// httpToken is what Shunt's HTTP asks for.
const httpToken = "the token of benchmarks"

// ask asks HTTP of Shunt.
func (t *target) ask(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.http+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+httpToken)
	return http.DefaultClient.Do(req)
}

// ready is whether Shunt serves.
func (t *target) ready(ctx context.Context) bool {
	resp, err := t.ask(ctx, "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
