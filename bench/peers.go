package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// peer is a proxy that this machine has.
type peer struct {
	name, root, program string
	// versionFlag has the program print its version.
	versionFlag string
	// argv writes the configuration that passes the port on to the server,
	// else with defaults, and returns the command line.
	argv func(dir, inner string, port int, server *throwaway.Server) ([]string, error)
}

// routerVariable names a root file system with MySQL Router (scripts/peers.sh).
const routerVariable = "SHUNT_BENCH_ROUTER_ROOT"

// The peers' names.
const (
	haproxy = "haproxy"
	router  = "Router"
)

func (p peer) version(ctx context.Context) string {
	return versionOf(ctx, p.root, p.program, p.versionFlag)
}

// versionOf is the first line that a program prints.
func versionOf(ctx context.Context, root, program, flag string) string {
	cmd := exec.CommandContext(ctx, program, flag)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if root != "" {
		cmd.Dir = "/"
	}
	out, err := cmd.Output()
	if err != nil {
		return program + ", version unknown"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// findPeers looks for the peers that bench knows how to start.
func findPeers() (found []peer, missing []string) {
	if program, ok := findProgram(haproxy); ok {
		found = append(found, peer{haproxy, "", program, "-v", haproxyArgv(program)})
	} else {
		missing = append(missing, haproxy)
	}
	const name = "mysqlrouter"
	if program, ok := findProgram(name); ok {
		found = append(found, peer{router, "", program, "--version", routerArgv(program)})
	} else if root := os.Getenv(routerVariable); root != "" {
		found = append(found, peer{router, root, "/usr/bin/" + name, "--version", routerArgv("/usr/bin/" + name)})
	} else {
		missing = append(missing, "MySQL Router")
	}
	return found, missing
}

// findProgram also looks where only root's PATH does.
func findProgram(name string) (string, bool) {
	if path, err := exec.LookPath(name); err == nil {
		return path, true
	}
	path := filepath.Join("/usr/sbin", name)
	_, err := os.Stat(path)
	return path, err == nil
}

// Timeouts as long as MySQL's own; the rest is haproxy's default.
func haproxyArgv(program string) func(dir, inner string, port int, server *throwaway.Server) ([]string, error) {
	return func(dir, inner string, port int, server *throwaway.Server) ([]string, error) {
		text := fmt.Sprintf("defaults\n\tmode tcp\n\ttimeout connect 5s\n\ttimeout client 8h\n\ttimeout server 8h\n"+
			"listen mysql\n\tbind 127.0.0.1:%d\n\tserver one %s\n", port, server.Addr())
		return []string{program, "-db", "-f", filepath.Join(inner, "haproxy.cfg")}, os.WriteFile(filepath.Join(dir, "haproxy.cfg"), []byte(text), 0o600)
	}
}

// The client's TLS, of which there is none, is passed on: what Router can do
// with the least work.
func routerArgv(program string) func(dir, inner string, port int, server *throwaway.Server) ([]string, error) {
	return func(dir, inner string, port int, server *throwaway.Server) ([]string, error) {
		text := fmt.Sprintf("[DEFAULT]\nlogging_folder=\nruntime_folder=%[1]s\ndata_folder=%[1]s\n[logger]\nlevel=WARNING\n"+
			"[routing:one]\nbind_address=127.0.0.1\nbind_port=%[2]d\ndestinations=%[3]s\nrouting_strategy=first-available\nprotocol=classic\n"+
			"client_ssl_mode=PASSTHROUGH\nserver_ssl_mode=AS_CLIENT\nmax_connections=2000\n", inner, port, server.Addr())
		return []string{program, "-c", filepath.Join(inner, "router.conf")}, os.WriteFile(filepath.Join(dir, "router.conf"), []byte(text), 0o600)
	}
}

// start runs the peer before a server.
func (p peer) start(ctx context.Context, s *stage, server *throwaway.Server) (target, error) {
	tmp := os.TempDir()
	if p.root != "" {
		tmp = filepath.Join(p.root, "tmp")
	}
	dir, err := os.MkdirTemp(tmp, "shunt-bench-")
	if err != nil {
		return target{}, fmt.Errorf("make directory of %s: %w", p.name, err)
	}
	s.onStop(func() { os.RemoveAll(dir) })
	inner := dir
	if p.root != "" {
		inner = filepath.Join("/tmp", filepath.Base(dir))
	}
	port, err := throwaway.FreePort()
	if err != nil {
		return target{}, err
	}
	argv, err := p.argv(dir, inner, port, server)
	if err != nil {
		return target{}, fmt.Errorf("configure %s: %w", p.name, err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	process, err := s.start(ctx, p.name, p.root, argv, listens(addr))
	if err != nil {
		return target{}, err
	}
	s.onStop(process.stop)
	return target{name: p.name, addr: addr, user: server.User, password: server.Password, pid: process.pid()}, nil
}

// startPeers starts what this machine has before the server, and waits for
// those that were given by address.
func (b *bench) startPeers(ctx context.Context, s *stage, server *throwaway.Server) (targets []target, err error) {
	found, missing := findPeers()
	for _, p := range found {
		t, err := p.start(ctx, s, server)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
		b.versions = append(b.versions, p.version(ctx))
	}
	if len(missing) > 0 {
		b.versions = append(b.versions, "not on this machine: "+strings.Join(missing, ", "))
	}
	for _, t := range b.peers {
		if t.user == "" {
			t.user, t.password = server.User, server.Password
		}
		fmt.Fprintf(b.out, "waiting for %s at %s before %s\n", t.name, t.addr, server.Addr())
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		for !listens(t.addr)(ctx) {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("%s doesn't listen at %s", t.name, t.addr)
			case <-time.After(100 * time.Millisecond):
			}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// parsePeer reads NAME=[USER:PASSWORD@]HOST:PORT[/PID].
func parsePeer(text string) (t target, err error) {
	name, rest, found := strings.Cut(text, "=")
	if !found || name == "" {
		return t, fmt.Errorf("%q isn't NAME=[USER:PASSWORD@]HOST:PORT[/PID]", text)
	}
	t.name = name
	if account, after, found := strings.Cut(rest, "@"); found {
		t.user, t.password, _ = strings.Cut(account, ":")
		rest = after
	}
	addr, pid, found := strings.Cut(rest, "/")
	if found {
		if t.pid, err = strconv.Atoi(pid); err != nil {
			return t, fmt.Errorf("%q: process %q is no number", text, pid)
		}
	}
	t.addr = addr
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return t, fmt.Errorf("%q: %w", text, err)
	}
	return t, nil
}
