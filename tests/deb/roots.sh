# roots.sh: roots of Debian 12 for the tests of the packages.  Sourced, not run.

# make_base DIR: make $DIR/base.tar, a minimal Debian; fails where no mirror can be reached
make_base() {
	[ ! -s "$1/base.tar" ] || return 0
	mmdebstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$1/base.new.tar" >"$1/base.log" 2>&1 &&
		mv "$1/base.new.tar" "$1/base.tar" || { tail -n 3 "$1/base.log"; return 1; }
}

# in_root NAME DIR: run tests/deb/NAME.sh with a root of its own, in name spaces of its own: its processes and
# mounts end with it, and its ports are nobody's.  Packages that apt needs come first, by the network.
in_root() {
	local root=$2/$1.root out=$2/$1.out
	rm -rf --one-file-system "$root" && mkdir -p "$root" && tar -xf "$2/base.tar" -C "$root" || { is "$1: a root" failed '^$'; return; }
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod 755 "$root/usr/sbin/policy-rc.d"
	mkdir -p "$root/mnt/debs" "$root/mnt/second" "$root/mnt/old" "$2/archives"
	cp "$2"/debs/*.deb "$root/mnt/debs/" && cp "$2"/second/*.deb "$root/mnt/second/" && cp "$2"/old/*.deb "$root/mnt/old/"
	unshare --mount --pid --fork --kill-child tests/deb/enter.sh "$root" "$2/archives" tests/deb/"$1.sh" >"$out" 2>&1
	count_of "$1" "$out"
	[ -n "${KEEP_ROOT:-}" ] || rm -rf --one-file-system "$root"
}

# count_of NAME FILE: add the counts of a script's last line
count_of() {
	local line
	line=$(tail -n 1 "$2" | grep -E '^[a-z]+: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$')
	if [ -z "$line" ]; then
		is "$1: ends with its counts" "$(tail -n 20 "$2")" '^$'
		return
	fi
	grep -vE '^[a-z]+: [0-9]+ passed' "$2"
	set -- $line
	passed=$((passed + $2)) failed=$((failed + $4)) skipped=$((skipped + $6))
}
