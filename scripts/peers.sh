#!/usr/bin/env bash
# Gets what `make bench` measures with and against, without starting any:
#
#   sysbench      Debian's package, by apt-get if it is missing
#   haproxy       the same
#   MySQL Router  the first of
#                 - the root file system that SHUNT_BENCH_ROUTER_ROOT names
#                 - a mysqlrouter on PATH
#                 - Debian sid's package, extracted with what it needs under
#                   ~/.cache/shunt/mysqlrouter, run by chroot
#
# Source it after scripts/servers.sh, whose functions it uses, to have the
# variable exported too. A peer that can't be had is left out of the benchmark.

shunt_peers() {
	local program
	for program in sysbench haproxy; do
		# A service of haproxy's isn't wanted: its package starts one.
		command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || RUNLEVEL=1 shunt_install "$program" ||
			shunt_say "$program can't be had"
	done
	if [ -n "${SHUNT_BENCH_ROUTER_ROOT:-}" ] || command -v mysqlrouter >/dev/null; then return; fi
	local root=${XDG_CACHE_HOME:-$HOME/.cache}/shunt/mysqlrouter
	if [ ! -x "$root/usr/bin/mysqlrouter" ]; then shunt_router_root "$root" || { shunt_say "MySQL Router can't be had"; return 0; }; fi
	shunt_say "$(shunt_as_root chroot "$root" /usr/bin/mysqlrouter --version) in $root"
	export SHUNT_BENCH_ROUTER_ROOT=$root
}

shunt_router_root() {
	local root=$1 mirror
	mirror=$(shunt_mirror) || return 1
	command -v mmdebstrap >/dev/null || shunt_install mmdebstrap || return 1
	shunt_say "extracting MySQL Router into $root (about 100 MB)"
	mkdir -p "$(dirname "$root")"
	shunt_as_root rm -rf --one-file-system "$root.new"
	# A mirror that lags behind is still signed.
	shunt_as_root mmdebstrap --mode=root --variant=extract --aptopt='Acquire::Check-Valid-Until "false"' --include=mysql-router \
		sid "$root.new" "$mirror" >&2 || { shunt_as_root rm -rf --one-file-system "$root.new"; return 1; }
	# The links are base-files', which Router doesn't depend on.
	shunt_as_root ln -sfn usr/lib "$root.new/lib"
	shunt_as_root ln -sfn usr/lib64 "$root.new/lib64"
	shunt_as_root mkdir -p -m 1777 "$root.new/tmp"
	shunt_as_root rm -rf --one-file-system "$root"
	shunt_as_root mv "$root.new" "$root"
}

shunt_peers
