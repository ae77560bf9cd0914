#!/bin/bash
# Run the test suite, in one of three tiers, or parts of it (docs/internals/testing.md).
#
#	scripts/check.sh [--plan] check|full|nightly
#	scripts/check.sh [--plan] PART ...	lint hardening unit kernels golden san emu cuda fuzz bench regress tap demo soak fuzz_sql deb pg16 pg18
#
# --plan only prints what would run.  Every program prints `NAME: N passed, N failed, N skipped` and its
# time; the last line has the sums.  Variables: PROGRAMS='core/ test_jinja' selects C programs whose names
# contain one of these words; TESTS='110 083_http' selects TAP files and regression tests whose names equal
# or begin with one of these; TAP_LANES=4; FULL=1 and TEST_EFFORT=1..3 for more work; SOAK_MINUTES.  Runs as
# root (servers then run as user postgres) and as a plain user.
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
background=
PG_CONFIG_15=${PG_CONFIG:-}
case ${1:-check} in
	check | full | nightly) tier=${1:-check} ;;
esac
export TEST_EFFORT=${TEST_EFFORT:-$(case $tier in check) echo 1 ;; nightly) echo 3 ;; *) echo 2 ;; esac)}

# Compile through ccache if it is installed.  CCACHE_NOHASHDIR lets checkouts share cached objects.
if command -v ccache >/dev/null && [ -z "${CC:-}" ]; then
	export CC="ccache gcc" FUZZ_CC="${FUZZ_CC:-ccache clang}" CXX="${CXX:-ccache g++}" CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$TOP
fi

# Messages of the suite's builds need lines, no variables (Makefile).
export DEBUG_INFO=${DEBUG_INFO:--g1}

mkdir -p build/check
if [ -z "$plan" ]; then
	rm -rf build/check/{failed,times,built,*.begun,*.status,*.out}
	mkdir -p build/check/built
	touch build/check/times
	start_ticker
	# When interrupted, end the builds and all programs that run.
	trap 'stop_background; kill "$ticker" 2>/dev/null; for p in $(jobs -rp); do pkill -TERM -P "$p"; done' EXIT
	trap 'exit 130' INT TERM HUP
fi
read_how
# A word that matches no program is a typing mistake: fail instead of passing with nothing run.
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
# Collect the folders of C programs that the parts need, so that one make builds all of them.
folders=
for part in "$@"; do case $part in unit | kernels | golden) folders="$folders $part/" ;; esac; done
for part in "${@:-check}"; do
	run_part "$part" || { echo "unknown part: $part"; exit 2; }
done
# Print the failures again at the end, where the user sees them.
tell_times
[ -z "$failures" ] || { cat build/check/failed 2>/dev/null; echo "failed:$failures"; }
echo "$passed passed, $failed failed, $skipped skipped"
[ $((passed + failed + skipped)) != 0 ] || { echo "no test has run"; exit 1; }
[ "$failed" = 0 ]
