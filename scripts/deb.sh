#!/bin/bash
# Build Debian packages of the release for the server that PG_CONFIG names: postgresql-NN-vllm-pg and the
# two programs that use the network, as packages of their own.
#
#	scripts/deb.sh [--revision N] [DIR]
#
# The script copies the sources to DIR/src (default: build/deb) and builds there, so that no file of another
# build gets into a package.  The packages are in DIR.  --revision builds another revision of this version
# from what a former run has compiled there.
set -euo pipefail
cd "$(dirname "$0")/.."
revision=
[ "${1:-}" != --revision ] || { revision=$2; shift 2; }
case ${1:-} in -*) sed -n '2,9p' "$0"; exit 2 ;; esac
dir=${1:-build/deb}
PG_CONFIG=${PG_CONFIG:-$(ls /usr/lib/postgresql/15/bin/pg_config 2>/dev/null || command -v pg_config)}
major=$($PG_CONFIG --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
for tool in dpkg-buildpackage:dpkg-dev dh:debhelper; do
	command -v "${tool%:*}" >/dev/null || { echo "missing package: ${tool#*:}"; exit 1; }
done

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[ -n "$revision" ] || rm -rf "$dir/src"
mkdir -p "$dir/src"
# what git knows, and new files that it does not ignore; outside of a repository everything but other builds
{ git ls-files -z -co --exclude-standard 2>/dev/null || find . \( -path ./build -o -path ./demo -o -path ./.git \) -prune -o -type f -print0; } |
	tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C "$dir/src"
cd "$dir/src"
rm -rf debian
cp -r packaging/debian .
sed "s/PGVERSION/$major/g" debian/control.in >debian/control
if [ -n "$revision" ]; then
	version=$(dpkg-parsechangelog -S Version | sed "s/-[^-]*$/-$revision/")
	{
		printf 'vllm-pg (%s) %s; urgency=medium\n\n  * Another revision.\n\n' "$version" "$(dpkg-parsechangelog -S Distribution)"
		printf ' -- %s  %s\n\n' "$(dpkg-parsechangelog -S Maintainer)" "$(date -R -u -d "$(dpkg-parsechangelog -S Date) + $revision minutes")"
		cat packaging/debian/changelog
	} >debian/changelog.new
	mv debian/changelog.new debian/changelog
fi
# what a shell has set for other builds is no part of a package
env -u CFLAGS -u CPPFLAGS -u LDFLAGS -u MAKEFLAGS -u MAKELEVEL -u RELEASE -u BUILD -u DESTDIR \
	dpkg-buildpackage -b -us -uc ${revision:+-nc} "-j${DEB_JOBS:-$(nproc)}"
ls "$dir"/*.deb
