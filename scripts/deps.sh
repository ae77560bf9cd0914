#!/bin/sh
# Install the Debian packages that a target needs, and only the missing ones.
#
#	scripts/deps.sh build	to build, install and run the demo
#	scripts/deps.sh check	to run the suite as well
#
# Without root or sudo, prints the command to run and fails.  On systems other than Debian and its relatives
# it installs nothing: the build then reports what is missing.
set -eu

command -v apt-get >/dev/null 2>&1 || exit 0

PACKAGES="gcc:compiler make:build libc6-dev:C-library-headers
postgresql-15:server postgresql-server-dev-15:server-headers-and-PGXS
libutf8proc-dev:Unicode-normalization
libpcre2-dev:regular-expressions
libpq-dev:HTTP-server libgnutls28-dev:HTTP-server
libcurl4-openssl-dev:models-behind-urls"
if [ "${1:-build}" = check ]; then
	PACKAGES="$PACKAGES libipc-run-perl:TAP-tests libsimde-dev:AVX-512-emulation-for-tests g++:CUDA-kernels-on-the-CPU clang:fuzzing libclang-rt-14-dev:fuzzing python3:models-of-tests python3-pip:PostgreSQL-16-as-a-Python-package python3-venv:PostgreSQL-16-as-a-Python-package"
fi

missing=
for p in $PACKAGES; do
	name=${p%%:*}
	if ! dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'install ok installed'; then
		missing="$missing $name"
		echo "missing package: $name ($(echo "${p#*:}" | tr - ' '))"
	fi
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	run=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
	run=sudo
else
	echo "run this as root, then try again:"
	echo "    apt-get install -y$missing"
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { $run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 20 "$log"
	echo "could not install:$missing"
	rm -f "$log"
	exit 1
fi
rm -f "$log"
echo "installed:$missing"
