#!/bin/bash
# The packages of `make deb`: what is in them, lintian's opinion, two builds compared; then, in private roots
# that mmdebstrap makes, their installation, upgrade, removal, and what packaging/Dockerfile does with them.
# As root, on Debian.
#
#	tests/deb.sh [DIR]		works in DIR (default: build/check-deb)
#
# Prints each failure, then `deb: N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -*) sed -n '2,8p' "$0"; exit 2 ;; esac
passed=0 failed=0 skipped=0
. tests/deb/is.sh
[ "$(id -u)" = 0 ] || { skip 1 'not root'; tell deb; exit; }
export PG_CONFIG=${PG_CONFIG:-$(ls /usr/lib/postgresql/15/bin/pg_config 2>/dev/null || command -v pg_config)}
export PG_MAJOR=$($PG_CONFIG --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
missing=
for tool in dh:debhelper lintian:lintian mmdebstrap:mmdebstrap dpkg-buildpackage:dpkg-dev unshare:util-linux ip:iproute2 systemd-analyze:systemd objdump:binutils qemu-x86_64-static:qemu-user-static; do
	command -v "${tool%:*}" >/dev/null || missing="$missing ${tool#*:}"
done
/usr/bin/python3 -c "import seccomp" 2>/dev/null || missing="$missing python3-seccomp"
[ -z "$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
	{ skip 1 "missing:$missing"; tell deb; exit; }
mkdir -p "${1:-build/check-deb}"
dir=$(cd "${1:-build/check-deb}" && pwd)
if command -v ccache >/dev/null && [ -z "${CC:-}" ]; then
	export CC="ccache gcc" CCACHE_NOHASHDIR=1
fi
package=postgresql-$PG_MAJOR-vllm-pg
version=$(scripts/version.py --print)

# ---- the packages ----

build() {	# build LOG ARG...
	scripts/deb.sh "${@:2}" >"$dir/$1" 2>&1 || { tail -n 30 "$dir/$1"; false; }
}
build first.log "$dir/first"
is 'the packages are built' $? '^0$'
mkdir -p "$dir/debs"
rm -rf "${dir:?}"/debs/* "$dir/x"
mv "$dir"/first/*.deb "$dir"/first/*.buildinfo "$dir"/first/*.changes "$dir/debs/" || { tell deb; exit 1; }
is 'their names' "$(cd "$dir/debs" && ls ./*.deb | grep -v dbgsym | sed 's/_[a-z0-9]*\.deb$//' | xargs)" \
	"^./${package}-http_$version-1 ./$package-remote_$version-1 ./${package}_$version-1\$"
is 'lintian says nothing' "$(lintian --allow-root -EI --pedantic "$dir"/debs/*.changes 2>&1)" '^$'
for f in "$dir"/debs/*.deb; do
	[[ $f == *dbgsym* ]] || dpkg-deb -x "$f" "$dir/x"
done
files() { (cd "$1" && find . -type f ! -path './usr/share/doc/*' ! -path './usr/share/lintian/*' | sort); }
is 'they have what make install installs' "$(diff <(files "$dir/x") <(files "$dir/first/src/debian/tmp"))" '^$'
is 'they name no folder of the build' "$(grep -rlF "$dir" "$dir/x")" '^$'
is 'every page of the documentation is there' "$(cd docs && find . -type f | while read -r f; do
	[ -f "$dir/x/usr/share/doc/$package/docs/$f" ] || echo "$f"; done)" '^$'
programs=$(find "$dir/x/usr/lib" -name 'vllm_pg*' -type f ! -path '*/models/*')
hardening=$(scripts/hardening.sh $programs)
is 'they are hardened' "$hardening" 'hardening: [0-9]+ passed, 0 failed'
is 'the licences of what is in them' "$(grep -c '^License: .' "$dir/x/usr/share/doc/$package/copyright")" '^[5-9]$'

# Kernels are chosen at run time: outside of them, and of functions that say so by their names, no instruction
# is newer than what all CPUs of the architecture have.
is 'no file is compiled for the CPU of the build' "$(grep -oE -- ' -m(arch|cpu|tune|avx|fma|sse|bmi|f16c)[^ ]*' "$dir/first.log" | sort -u)" '^$'
newer=$(find "$dir/first/src/build/release" -name '*.o' ! -path '*/kernels/cpu/*' | while read -r f; do
	objdump -d --no-show-raw-insn "$f" | awk -v file="${f##*/}" '/^[0-9a-f]+ <.*>:$/ { name = $2 }
		/%[yz]mm|\tv[a-z0-9]+ .*%xmm|\t(mulx|shlx|shrx|sarx|andn|bextr|pdep|pext|popcnt|crc32|pshufb|ptest) / { if (name !~ /avx|f16c|popcnt/) print file, name }' | sort -u
done)
is 'instructions of other CPUs are in the kernels only' "$newer" '^$'

# so it also runs on the oldest of them, and says the same
engine=$dir/x/usr/lib/postgresql/$PG_MAJOR/lib/vllm_pg_engine
generate() { "$@" --offline --model "${engine%_engine}/models/tickets-2m" --prompts "$dir/prompt" --max-tokens 8 --cpu-threads 1; }
if command -v qemu-x86_64-static >/dev/null && [ "$(uname -m)" = x86_64 ]; then
	echo 'Ticket: My order never arrived.\nSentiment:' >"$dir/prompt"
	old=$(qemu-x86_64-static -cpu Conroe "$engine" --version)
	is 'an old CPU has no vector kernels' "$old" 'portable avx2\(not on this CPU\)'
	is 'the engine generates there what it generates here' "$(generate qemu-x86_64-static -cpu Conroe "$engine")" "^$(generate "$engine")\$"
else
	skip 2 'missing: qemu-user-static'
fi

build second.log --revision 2 "$dir/first"
is 'another revision is built' $? '^0$'
mkdir -p "$dir/second" && rm -f "$dir"/second/*.deb
mv "$dir"/first/*.deb "$dir/second/"
# in another folder, and really compiled
CCACHE_DISABLE=1 build again.log "$dir/another/folder"
is 'they are built once more' $? '^0$'
for f in "$dir"/debs/*.deb; do
	is "the same bits: ${f##*/}" "$(cmp "$f" "$dir/another/folder/${f##*/}" 2>&1)" '^$'
done

# A package of the version before: its SQL scripts are in tests/upgrade, its library can't be built here.
. tests/deb/old.sh
old_packages "$dir/debs" "$dir/old"

# ---- files that are no packages ----

unit=$dir/unit
mkdir -p "$unit/postgresql@.service.d"
cp packaging/systemd/vllm_pg.conf "$unit/postgresql@.service.d/"
# systemd-analyze looks for the programs that a unit names
printf '[Service]\nExecStart=/bin/true\n' >"$unit/postgresql@.service"
is 'systemd takes the restrictions of the unit' "$(SYSTEMD_UNIT_PATH="$unit:" systemd-analyze verify "$unit/postgresql@.service" 2>&1 | grep vllm_pg.conf)" '^$'

. tests/deb/dockerfile.sh
check_dockerfile "$dir"

# ---- in roots of their own ----

. tests/deb/roots.sh
if make_base "$dir"; then
	in_root packages "$dir"
	in_root container "$dir"
else
	skip 40 'mmdebstrap makes no root here'
fi
tell deb
