#!/bin/bash
# The suite, in three tiers, and its parts (docs/internals/testing.md).
#
#	scripts/check.sh [--plan] check|full|nightly
#	scripts/check.sh [--plan] PART ...	lint hardening unit kernels golden san emu cuda fuzz bench regress tap demo soak fuzz_sql pg16 pg18
#
# --plan only says what would run.  Every program prints `NAME: N passed, N failed, N skipped` and what it took; the last
# line adds up.  Variables: PROGRAMS='core/ test_jinja' the C programs, TESTS='110 083_http' the TAP files and regression
# tests, whose names have or begin with these; TAP_LANES=4; FULL=1 and TEST_EFFORT=1..3 for more; SOAK_MINUTES.
# Works as root (servers run as user postgres) and as a plain user.
set -uo pipefail
cd "$(dirname "$0")/.."
TOP=$PWD
. scripts/wheel_pg.sh
. scripts/check/count.sh
. scripts/check/builds.sh
. scripts/check/programs.sh
. scripts/check/server.sh
. scripts/check/tiers.sh

plan=
[ "${1:-}" != --plan ] || { plan=1; shift; }
tier=part
builder=
PG_CONFIG_15=${PG_CONFIG:-}
case ${1:-check} in
	check | full | nightly) tier=${1:-check} ;;
esac
export TEST_EFFORT=${TEST_EFFORT:-$(case $tier in check) echo 1 ;; nightly) echo 3 ;; *) echo 2 ;; esac)}

# Compilers run through ccache where it is; another checkout's objects are as good.
if command -v ccache >/dev/null && [ -z "${CC:-}" ]; then
	export CC="ccache gcc" FUZZ_CC="${FUZZ_CC:-ccache clang}" CXX="${CXX:-ccache g++}" CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$TOP
fi

mkdir -p build/check
if [ -z "$plan" ]; then
	rm -rf build/check/{failed,times,built,*.status,*.out}
	mkdir -p build/check/built
	touch build/check/times
	start_ticker
	# who is interrupted leaves no program behind
	trap 'stop_builds; kill "$ticker" 2>/dev/null; for p in $(jobs -rp); do pkill -TERM -P "$p"; done' EXIT
	trap 'exit 130' INT TERM HUP
fi
read_how
# A name that nothing has is a slip of the pen, and no reason to pass.
for w in ${PROGRAMS:-}; do
	case " $(echo $all_programs) " in *"$w"*) ;; *) echo "PROGRAMS: no C program has \"$w\" in its name"; exit 2 ;; esac
done
for w in ${TESTS:-}; do
	[ -f "tests/sql/$w.sql" ] || [ -f "tests/isolation/specs/$w.spec" ] || ls tests/t/"$w"*.pl >/dev/null 2>&1 ||
		{ echo "TESTS: no TAP file begins with \"$w\", and no regression test has that name"; exit 2; }
done
if [ -n "$plan" ]; then
	plan_of "${@:-check}"
	exit
fi
# the folders of C programs that the parts run: they are built at once
folders=
for part in "$@"; do case $part in unit | kernels | golden) folders="$folders $part/" ;; esac; done
for part in "${@:-check}"; do
	run_part "$part" || { echo "unknown part: $part"; exit 2; }
done
# once more at the end, where it is seen
tell_times
[ -z "$failures" ] || { cat build/check/failed 2>/dev/null; echo "failed:$failures"; }
echo "$passed passed, $failed failed, $skipped skipped"
[ $((passed + failed + skipped)) != 0 ] || { echo "no test has run"; exit 1; }
[ "$failed" = 0 ]
