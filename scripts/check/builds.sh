# builds.sh: the builds of check.sh, and the work in the background.  Builds run before the tests that need
# them, or in the background while other tests run.  Sourced, not run.
#
# Tests of the server wait for much of their time.  The background uses the CPUs meanwhile: first it builds,
# then it runs programs that only compute.  A program has a folder build/check/NAME.begun, which the process
# that runs it has made (begin_job); the suite itself then waits for its end (run_job).
#
# Each build has a name: `plain` (the C programs), `asan`, `tsan`, `emu-lib`, `emu`, `fuzz`, `bench`,
# `cuda`.  Its output is in build/check/build-NAME.out, its exit status in build/check/built/NAME.

SAN_ASAN=build/san-address-undefined
SAN_TSAN=build/san-thread

# targets FOLDER: print make targets for the programs on standard input
targets() { sed "s|^|$1/tests/|" | tr '\n' ' '; }

# build_command NAME: print the build's command
build_command() {
	local jobs=-j$(nproc)
	case $1 in
		plain) echo make -s "$jobs" engine $(for f in ${folders:-''}; do programs_of plain "$f"; done | targets build/engine) ;;
		asan) echo make -s "$jobs" SAN=address,undefined engine $(programs_of asan | targets $SAN_ASAN) ;;
		tsan) echo make -s "$jobs" SAN=thread engine $(programs_of tsan | targets $SAN_TSAN) ;;
		emu) echo make -s "$jobs" emu-tests ;;
		emu-lib) echo make -s "$jobs" emu-lib ;;
		fuzz) echo make -s "$jobs" fuzz-builds ;;
		bench) echo make -s "$jobs" bench-programs ;;
		cuda) echo make -s "$jobs" cuda-objects gpu-only $(cuda_options) ;;
	esac
}

build_one() {
	timed 3600 "build-$1" $(build_command "$1") >"build/check/build-$1.out" 2>&1
	echo $? >"build/check/built/$1"
}

# build_behind NAME...: run the builds in the background, one after the other, at a lower priority than
# tests; then the programs of the builds, until end_background.  Sets $background, the process group.
build_behind() {
	local name
	for name; do touch "build/check/built/$name.soon"; done
	rm -f build/check/background.end
	set -m
	(
		for name; do build_one "$name"; done
		# one program per CPU; those get little CPU while servers use it
		renice -n 10 -p $BASHPID >/dev/null
		export CHECK_PATIENCE=4
		for ((i = 0; i < $(nproc); i++)); do run_behind "$@" & done
		wait
	) </dev/null >build/check/background.out 2>&1 &
	background=$!
	set +m
	disown
	renice -n 5 -g "$background" >/dev/null 2>&1
}

# run_behind BUILD...: run the builds' programs that only compute, except those that somebody has begun.
run_behind() {
	local build kind name command
	for build; do
		[ "$(cat "build/check/built/$build")" = 0 ] || continue
		while read -r kind name command; do
			[ ! -e build/check/background.end ] || return
			[ "$kind" = computes ] && begin_job "$name" || continue
			run_begun "$name" $command </dev/null
		done < <(jobs_of "$build")
	done
}

background_runs() { [ -n "${background:-}" ] && kill -0 -- "-$background" 2>/dev/null; }

# A program that measures time needs the whole machine, so the background pauses meanwhile.  That it has
# ended is no failure.
pause_background() { ! background_runs || kill -STOP -- "-$background" 2>/dev/null || :; }
resume_background() { ! background_runs || kill -CONT -- "-$background" 2>/dev/null || :; }
stop_background() { [ -z "${background:-}" ] || { resume_background; kill -TERM -- "-$background" 2>/dev/null; }; }

# The background shall begin no other program: from now on the lanes of run_programs use all CPUs.
end_background() { touch build/check/background.end; }

# wait_for_build NAME: wait until the build has ended.  If nobody has started it, run it now.  Counts a
# failed build once.
wait_for_build() {
	local done=build/check/built/$1
	[ -e "$done" ] || [ -e "$done.soon" ] || { say "building $1 ..."; build_one "$1"; }
	until [ -s "$done" ]; do
		background_runs || [ -s "$done" ] || echo 1 >"$done"
		sleep 0.5
	done
	[ ! -e "$done.soon" ] || { rm -f "$done.soon"; say "build $1 ($(seconds_of "build-$1"))"; }
	[ "$(cat "$done")" != 0 ] || return 0
	[ -e "$done.told" ] || fail "build-$1" "build/check/build-$1.out"
	touch "$done.told"
	return 1
}

# use_pg VERSION: choose the PostgreSQL that the next parts use: Debian's 15 with the tests' build, others
# from a wheel with the release, so that what users install is tested, too.
use_pg() {
	PG_PREFIX=
	export CLUSTER_RELEASE=1
	[ "$1" != 15 ] || CLUSTER_RELEASE=
	case $1 in
		15) PG_CONFIG=${PG_CONFIG_15:-$(ls /usr/lib/postgresql/15/bin/pg_config 2>/dev/null || command -v pg_config)} ;;
		16) find_wheel_pg pginstall ;;
		18) find_wheel_pg pginstall18 ;;
	esac || { fail "pg$1"; return 1; }
	export PG_CONFIG PG_PREFIX
	PG_MAJOR=$($PG_CONFIG --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
	say "building what is installed, for PostgreSQL $PG_MAJOR ..."
	timed 3600 "build-pg$PG_MAJOR" make -s -j"$(nproc)" all RELEASE="$CLUSTER_RELEASE" PG_CONFIG="$PG_CONFIG" >build/check/build.out 2>&1 ||
		{ fail "build-pg$PG_MAJOR" build/check/build.out; return 1; }
	say "build pg$PG_MAJOR ($(seconds_of "build-pg$PG_MAJOR"))"
}
