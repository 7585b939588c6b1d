#!/usr/bin/env bash
# Gets the applications of `make test-apps`, without installing or starting any:
# WordPress and MediaWiki of Debian's packages, extracted under ~/.cache/shunt/apps or
# what SHUNT_E2E_APPS names, and the modules of PHP and the clock that they need.
#
# Source it after scripts/servers.sh, whose functions it uses, to have the variable
# exported too.

shunt_apps() {
	local root=${SHUNT_E2E_APPS:-${XDG_CACHE_HOME:-$HOME/.cache}/shunt/apps} package link target
	local modules=(php-cli php-mysql php-intl php-mbstring php-xml php-gd libfaketime)
	for package in "${modules[@]}"; do
		dpkg-query -W -f '' "$package" 2>/dev/null || { shunt_install "${modules[@]}" || return 1; break; }
	done
	export SHUNT_E2E_APPS=$root
	[ ! -d "$root" ] || return 0
	shunt_say "extracting WordPress and MediaWiki into $root (about 250 MB)"
	mkdir -p "$root.new/packages" || return 1
	(
		cd "$root.new/packages" &&
			apt-get download -q wordpress wordpress-theme-twentytwentythree php-getid3 libjs-cropper libjs-underscore mediawiki mediawiki-classes >&2 &&
			for package in *.deb; do dpkg -x "$package" "$root.new" || exit 1; done
	) || { shunt_say "the packages can't be had (apt-get update?)"; rm -rf "$root.new"; return 1; }
	rm -rf "$root.new/packages"
	# Absolute links lead into the packages, not into this machine.
	find "$root.new" -type l -lname '/*' | while read -r link; do
		target=$(readlink "$link")
		if [ -e "$root.new$target" ]; then ln -sfnr "$root.new$target" "$link"; fi
	done
	mv -T "$root.new" "$root"
}

shunt_apps || exit 1
