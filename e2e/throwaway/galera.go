package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// galeraLibraries are where Debian's packages have Galera.
var galeraLibraries = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so"}

// ErrNoGalera: the machine doesn't have it.
var ErrNoGalera = errors.New("no Galera here: Debian has it in package galera-4")

// StartGalera starts the first of n nodes of a cluster; Add starts the others, one at a time. They begin with the same
// data: see sstNothing. A node keeps the last 128 MiB of what was written for those that come back, as is usual: one that
// has missed more isn't let in.
func StartGalera(ctx context.Context, src Source, n int, o Options) (*Set, error) {
	at := slices.IndexFunc(galeraLibraries, func(path string) bool { _, err := os.Stat(filepath.Join(src.Root, path)); return err == nil })
	if src.Flavour != MariaDB || src.Image != "" || at < 0 {
		return nil, ErrNoGalera
	}
	var addrs []string
	for range 2 * n {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	for i := range n {
		o.Each = append(o.Each, []string{
			"--wsrep-on=ON", "--wsrep-provider=" + galeraLibraries[at], "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
			"--wsrep-node-address=" + addrs[i], "--wsrep-sst-method=nothing",
			"--wsrep-provider-options=gmcast.listen_addr=tcp://" + addrs[i] + ";ist.recv_addr=" + addrs[n+i] + ";gcache.size=128M;evs.suspect_timeout=PT4S;evs.inactive_timeout=PT8S",
			"--wsrep-cluster-address=gcomm://" + strings.Join(addrs[:n], ","),
		})
	}
	joins := o.Each[0]
	o.Servers, o.Each[0] = 1, append(slices.Clone(joins), "--wsrep-new-cluster")
	set, err := Start(ctx, src, o)
	if err != nil {
		return nil, err
	}
	s := set.Servers[0]
	s.Shutdown()
	set.template = filepath.Join(set.dir, "galera")
	if err := os.CopyFS(set.template, skipping{os.DirFS(filepath.Join(set.dir, s.name))}); err != nil {
		set.Stop()
		return nil, fmt.Errorf("copy what the cluster begins with: %w", err)
	}
	if err := os.WriteFile(filepath.Join(set.dir, "wsrep_sst_nothing"), []byte(sstNothing), 0o755); err != nil {
		set.Stop()
		return nil, fmt.Errorf("write a program for the cluster: %w", err)
	}
	if err := s.Start(ctx); err != nil {
		set.Stop()
		return nil, err
	}
	s.args = joins // as it is when it comes back
	return set, nil
}

// sstNothing is a program by which a node gets the state of another (SST), and that transfers none: what a node has
// missed it gets by IST, or it isn't let in. Debian has those that do in other packages.
const sstNothing = `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	--role) role=$2 ;;
	--address) address=$2 ;;
	--datadir) data=$2 ;;
	--gtid) gtid=$2 ;;
	--gtid-domain-id) domain=$2 ;;
	--parent) parent=$2 ;;
	--bypass) bypass=yes ;;
	esac
	shift
done
dir=$(dirname "$0")
case $role in
joiner)
	name=$(basename "$data")
	rm -f "$dir/$name.ist"
	echo "ready 127.0.0.1:1/$name"
	while [ ! -e "$dir/$name.ist" ]; do
		kill -0 "$parent" || exit 32
		sleep 0.1
	done
	cat "$dir/$name.ist"
	;;
donor)
	[ -n "$bypass" ] || exit 22
	echo continue
	at=$dir/$(basename "$address").ist
	echo "$gtid $domain" >"$at.new" && mv "$at.new" "$at"
	echo "done $gtid"
	;;
esac
`

var recovered = regexp.MustCompile(`WSREP: Recovered position: ?(\S+)`)

// Rejoin starts a node that was killed. It gets what it has missed from the others.
func (s *Server) Rejoin(ctx context.Context) error {
	s.args = slices.DeleteFunc(slices.Clone(s.args), func(arg string) bool { return strings.HasPrefix(arg, "--wsrep-start-position=") })
	args := append(s.arguments(s.set.inner), "--wsrep-recover")
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	cmd, err := s.set.command(ctx, s.name, s.set.Source.Program, args...)
	if err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	at := recovered.FindStringSubmatch(string(out))
	if err != nil || at == nil {
		return fmt.Errorf("find out what server %s has: %w\n%s", s.name, err, excerpt(string(out)))
	}
	s.args = append(s.args, "--wsrep-start-position="+at[1])
	return s.Start(ctx)
}
