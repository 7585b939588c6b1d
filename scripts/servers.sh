#!/usr/bin/env bash
# Gets the server programs that the tests run against, without starting any:
#
#   MariaDB  the root file system that SHUNT_E2E_MARIADB_ROOT names, which is made of
#            Debian 13's package (11.8) if it isn't there; else this machine's package
#            mariadb-server-core, by apt-get if it is missing
#   MySQL 9  the first of
#            - the root file system that SHUNT_E2E_MYSQL_ROOT names, which is made of
#              Debian sid's package if it isn't there
#            - the image that SHUNT_E2E_MYSQL_IMAGE names, if it can be had
#            - a mysqld on PATH that is MySQL 9
#            - Docker's image mysql:9, pulled if need be
#            - the image shunt-mysql9, which scripts/mysql-image makes where
#              nothing can be pulled
#            - Debian sid's package in a root file system of its own under
#              ~/.cache/shunt/mysql9, run by chroot
#
# Says which ones it found. Source it to have the variables exported too; run it
# to only fill the cache. Installing needs root or a sudo without password.
#
# SHUNT_E2E_FLAVOURS (default mysql,mariadb) leaves a flavour out.

shunt_say() { printf 'servers: %s\n' "$*" >&2; }

shunt_as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo -n "$@"
	else
		shunt_say "needs root, or a sudo without password, to run: $*"
		return 1
	fi
}

# Installs Debian packages; fresh machines have no package lists yet.
shunt_install() {
	shunt_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2 && return
	shunt_as_root apt-get update -q >&2 &&
		shunt_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2
}

shunt_mariadb() {
	local program root=${SHUNT_E2E_MARIADB_ROOT:-}
	if [ -n "$root" ]; then
		[ -x "$root/usr/sbin/mariadbd" ] || shunt_root "$root" trixie mariadb-server-core,mariadb-client-core || return 1
		shunt_say "MariaDB: $(shunt_as_root chroot "$root" mariadbd --no-defaults --version) in $root"
		return
	fi
	for program in mariadbd /usr/sbin/mariadbd; do
		if command -v "$program" >/dev/null && command -v my_print_defaults >/dev/null; then
			shunt_say "MariaDB: $("$program" --no-defaults --version)"
			return
		fi
	done
	shunt_say "installing mariadb-server-core"
	shunt_install mariadb-server-core mariadb-client-core
	shunt_say "MariaDB: $(/usr/sbin/mariadbd --no-defaults --version)"
}

# The mirror that most of this machine's own packages come from.
shunt_mirror() {
	local targets=(apt-get indextargets --format '$(SITE)' 'Created-By: Packages') mirror
	mirror=$("${targets[@]}" | grep -v -e security | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
	if [ -z "$mirror" ]; then
		shunt_as_root apt-get update -q >&2
		mirror=$("${targets[@]}" | grep -v -e security | awk 'NR == 1')
	fi
	[ -n "$mirror" ] || { shunt_say "apt has no mirror to take MySQL from"; return 1; }
	echo "$mirror"
}

# A root file system of its own keeps packages of another Debian apart from this
# machine's.
shunt_root() {
	local root=$1 suite=$2 packages=$3 mirror
	if [ -n "$(ls -A "$root" 2>/dev/null)" ]; then
		shunt_say "$root is there, and has no server program in usr/sbin: name another directory, or remove it"
		return 1
	fi
	mirror=$(shunt_mirror) || return 1
	command -v mmdebstrap >/dev/null || shunt_install mmdebstrap
	shunt_say "building a root file system with $packages in $root (up to 800 MB, a few minutes)"
	mkdir -p "$(dirname "$root")"
	shunt_as_root rm -rf --one-file-system "$root.new"
	# A mirror that lags behind is still signed.
	shunt_as_root mmdebstrap --mode=root --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' \
		--include="$packages" \
		--setup-hook='mkdir -p "$1/var/lib/mysql-files"' \
		"$suite" "$root.new" "$mirror" >&2 || { shunt_as_root rm -rf --one-file-system "$root.new"; return 1; }
	shunt_as_root mv -T "$root.new" "$root"
}

# The newest MySQL 9.
shunt_mysql_root() { shunt_root "$1" sid mysql-server-core,mysql-client-core; }

# Chooses an image if Docker has it or can pull it.
shunt_mysql_image() {
	local image=$1
	docker image inspect "$image" >/dev/null 2>&1 || {
		[ "$image" != shunt-mysql9 ] && shunt_say "pulling image $image" && timeout 600 docker pull -q "$image" >&2
	} || return 1
	shunt_say "MySQL: Docker image $image"
	export SHUNT_E2E_MYSQL_IMAGE=$image
}

shunt_mysql() {
	local named=${SHUNT_E2E_MYSQL_IMAGE:-} root program docker=
	root=${SHUNT_E2E_MYSQL_ROOT:-}
	if [ -n "$root" ]; then
		[ -x "$root/usr/sbin/mysqld" ] || shunt_mysql_root "$root" || return 1
		shunt_say "MySQL: $(shunt_as_root chroot "$root" mysqld --no-defaults --version) in $root"
		return
	fi
	if command -v docker >/dev/null && timeout 10 docker info >/dev/null 2>&1; then docker=yes; fi
	# What can't be had must not be looked for again by the tests.
	unset SHUNT_E2E_MYSQL_IMAGE
	if [ -n "$named" ]; then
		if [ -n "$docker" ] && shunt_mysql_image "$named"; then return; fi
		shunt_say "MySQL: image $named (SHUNT_E2E_MYSQL_IMAGE) can't be had, looking elsewhere"
	fi
	for program in mysqld /usr/sbin/mysqld; do
		if command -v "$program" >/dev/null && "$program" --no-defaults --version | grep -v MariaDB | grep -q 'Ver 9'; then
			shunt_say "MySQL: $("$program" --no-defaults --version)"
			return
		fi
	done
	if [ -n "$docker" ]; then
		if shunt_mysql_image mysql:9 || shunt_mysql_image shunt-mysql9; then return; fi
		shunt_say "MySQL: Docker answers, but has no image of MySQL and can't pull one"
	fi
	root=${XDG_CACHE_HOME:-$HOME/.cache}/shunt/mysql9
	[ -x "$root/usr/sbin/mysqld" ] || shunt_mysql_root "$root" || return 1
	shunt_say "MySQL: $(shunt_as_root chroot "$root" mysqld --no-defaults --version) in $root"
	export SHUNT_E2E_MYSQL_ROOT=$root
}

shunt_flavours=,${SHUNT_E2E_FLAVOURS:-mysql,mariadb},
case $shunt_flavours in *,mariadb,*) shunt_mariadb || exit 1 ;; esac
case $shunt_flavours in *,mysql,*) shunt_mysql || exit 1 ;; esac
