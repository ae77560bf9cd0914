# builds.sh: the builds of check.sh, in front or behind the tests that run meanwhile.  Sourced, not run.
#
# A build is a name: `plain` (the C programs), `asan`, `tsan`, `emu-lib`, `emu`, `fuzz`, `bench`.  Its output is in
# build/check/build-NAME.out, its exit status in build/check/built/NAME.

SAN_ASAN=build/san-address-undefined
SAN_TSAN=build/san-thread

# targets FOLDER, programs on standard input
targets() { sed "s|^|$1/tests/|" | tr '\n' ' '; }

# the command of a build, a word a line
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
	esac
}

build_one() {
	timed 3600 "build-$1" $(build_command "$1") >"build/check/build-$1.out" 2>&1
	echo $? >"build/check/built/$1"
}

# build_behind NAME...: one after the other, with the CPU seconds that tests leave.  Their process group is $builder.
build_behind() {
	local name
	for name; do touch "build/check/built/$name.soon"; done
	set -m
	( for name; do build_one "$name"; done ) </dev/null &
	builder=$!
	set +m
	disown
	renice -n 5 -g "$builder" >/dev/null 2>&1
}

# Who measures time has the machine for itself.
pause_builds() { [ -z "${builder:-}" ] || kill -STOP -- "-$builder" 2>/dev/null; }
resume_builds() { [ -z "${builder:-}" ] || kill -CONT -- "-$builder" 2>/dev/null; }
stop_builds() { [ -z "${builder:-}" ] || { resume_builds; kill -TERM -- "-$builder" 2>/dev/null; }; }

# wait_for_build NAME: until it is there; a build that nobody has begun is made now.  A failure is counted once.
wait_for_build() {
	local done=build/check/built/$1
	[ -e "$done" ] || [ -e "$done.soon" ] || { say "building $1 ..."; build_one "$1"; }
	until [ -s "$done" ]; do
		kill -0 -- "-$builder" 2>/dev/null || [ -s "$done" ] || echo 1 >"$done"
		sleep 0.5
	done
	[ ! -e "$done.soon" ] || { rm -f "$done.soon"; say "build $1 ($(seconds_of "build-$1"))"; }
	[ "$(cat "$done")" != 0 ] || return 0
	[ -e "$done.told" ] || fail "build-$1" "build/check/build-$1.out"
	touch "$done.told"
	return 1
}

# The PostgreSQL that parts use: 15 of Debian, others of a wheel.
use_pg() {
	PG_PREFIX=
	case $1 in
		15) PG_CONFIG=${PG_CONFIG_15:-$(ls /usr/lib/postgresql/15/bin/pg_config 2>/dev/null || command -v pg_config)} ;;
		16) find_wheel_pg pginstall ;;
		18) find_wheel_pg pginstall18 ;;
	esac || { fail "pg$1"; return 1; }
	export PG_CONFIG PG_PREFIX
	PG_MAJOR=$($PG_CONFIG --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
	say "building what is installed, for PostgreSQL $PG_MAJOR ..."
	timed 3600 "build-pg$PG_MAJOR" make -s -j"$(nproc)" all PG_CONFIG="$PG_CONFIG" >build/check/build.out 2>&1 ||
		{ fail "build-pg$PG_MAJOR" build/check/build.out; return 1; }
	say "build pg$PG_MAJOR ($(seconds_of "build-pg$PG_MAJOR"))"
}
