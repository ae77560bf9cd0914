# server.sh: the parts of check.sh that need PostgreSQL.  Sourced, not run.

# pg_timed LIMIT NAME FOLDER COMMAND...: run a command in that folder as the server's user
pg_timed() {
	export -f as_pg
	export BASE PG_BIN
	timed "$1" "$2" bash -c 'cd "$1" && shift && as_pg "$@"' as_pg "${@:3}"
}

# Start a server for the regression and isolation tests, then run pg_regress against it.
check_sql() {
	local tests specs regress isolation st
	tests=$(cd tests/sql && if [ -n "${TESTS:-}" ]; then for t in $TESTS; do [ ! -f "$t.sql" ] || echo "$t"; done; else ls -- *.sql | sed 's/\.sql$//'; fi)
	specs=$(cd tests/isolation/specs && if [ -n "${TESTS:-}" ]; then for t in $TESTS; do [ ! -f "$t.spec" ] || echo "$t"; done; else ls -- *.spec | sed 's/\.spec$//'; fi)
	[ -n "$tests$specs" ] || return 0
	# 01_install creates the extension, which all other tests use
	case $tests in '' | 01_install*) ;; *) tests="01_install $tests" ;; esac
	. scripts/cluster.sh
	cluster_base "build/check/pg$PG_MAJOR"
	cluster_install || return 1
	local port
	port=$(free_port 56100)
	cluster_init regress "$port" "vllm.engine_args = '--fake'
vllm.allowed_hosts = 'llm.example.com, http://127.0.0.1:8000, *.cluster.test'
fsync = off
max_prepared_transactions = 2
statement_timeout = '120s'" && cluster_start regress || return 1
	rm -rf "$BASE/src" && mkdir -p "$BASE/src" "$BASE/out"
	cp -r tests/sql tests/expected tests/isolation "$BASE/src/" 2>/dev/null
	[ "$(id -u)" != 0 ] || chown -R postgres: "$BASE/src" "$BASE/out"
	regress=$(dirname "$($PG_CONFIG --pgxs)")/../../src/test/regress/pg_regress
	if [ -n "$tests" ]; then
		pg_timed 900 "regress-pg$PG_MAJOR" "$BASE/out" "$regress" --inputdir="$BASE/src" --outputdir="$BASE/out" --bindir="$PG_BIN" \
			--host="$SOCK" --port="$port" --user=postgres --dbname=contrib_regression --encoding=UTF8 $tests \
			>build/check/regress.raw 2>&1
		st=$?
		count_regress "regress-pg$PG_MAJOR" build/check/regress.raw $st
	fi
	isolation=$(dirname "$($PG_CONFIG --pgxs)")/../../src/test/isolation/pg_isolation_regress
	if [ -z "$specs" ]; then
		: # TESTS names no isolation test
	elif [ -x "$isolation" ]; then
		pg_timed 900 "isolation-pg$PG_MAJOR" "$BASE/out" "$isolation" --inputdir="$BASE/src/isolation" --outputdir="$BASE/out" --bindir="$PG_BIN" \
			--host="$SOCK" --port="$port" --user=postgres --dbname=isolation_regression $specs >build/check/isolation.raw 2>&1
		st=$?
		count_regress "isolation-pg$PG_MAJOR" build/check/isolation.raw $st
	else
		printf 'skipped isolation: no pg_isolation_regress here\n0 passed, 0 failed, %s skipped\n' "$(echo "$specs" | wc -w)" >build/check/isolation.out
		tally "isolation-pg$PG_MAJOR" build/check/isolation.out 0
	fi
	cluster_stop regress immediate
}

count_regress() {	# count_regress NAME RAW STATUS: count pg_regress's result lines
	local ok bad
	ok=$(grep -cE '^(test .*\.\.\. ok|ok [0-9])|^ok ' "$2")
	bad=$(grep -cE '\.\.\. FAILED|^not ok ' "$2")
	{ [ "$3" = 0 ] && [ "$ok" != 0 ]; } || [ "$bad" != 0 ] || { bad=1; tail -n 20 "$2"; }
	{
		grep -E 'FAILED|^not ok' "$2"
		[ "$3" = 0 ] || grep -vE '^(diff|---|\+\+\+) ' "$BASE/out/regression.diffs" 2>/dev/null | head -n 100 | sed 's/^/#  /'
		echo "$1: $ok passed, $bad failed, 0 skipped"
	} >"build/check/$1.out"
	tally "$1" "build/check/$1.out" "$bad" "$(seconds_of "$1")"
}

# Install Python's clients of the HTTP server, and its database drivers, into $BASE/clients; without them
# their tests are skipped.
find_clients() {
	[ -d "$BASE/clients/anthropic" ] && [ -d "$BASE/clients/asyncpg" ] && return
	local w pip
	w=$(mktemp -d)
	pip="python3 -m pip"
	$pip --version >/dev/null 2>&1 || { python3 -m venv "$w/v" && pip="$w/v/bin/pip"; }
	$pip install -q --target "$w/p" openai==3.54.0 anthropic==2.12.0 "psycopg[binary]==3.3.9" psycopg2-binary==2.9.13 \
		asyncpg==0.32.0 SQLAlchemy==2.1.9 greenlet==3.5.6 >build/check/clients.log 2>&1 &&
		rm -rf "$BASE/clients" && mv "$w/p" "$BASE/clients" && chmod -R a+rX "$BASE/clients"
	rm -rf "$w"
}

# Tests of what may differ between PostgreSQL versions: hooks, planner, triggers, utility statements, logs,
# the extension's scripts.  The engine's own tests need only one version.  FULL=1 runs all.
VERSION_TAP='001 002 003 006 030 040 042 043 044 060 062 065 070 072 080 086 114 119'
# What `make check` runs: start, crash and restart of the engine, a real model, each kind of SQL function,
# batches, jobs, HTTP, endpoints.
CORE_TAP='001 003 004 005 009 020 022_chat 028 043 045 050_embed. 060 064 070 071 072 082 085 086 087 098 110 114'
# Long files start first, so that none of them runs alone at the end.  Their limit is 600 seconds, that of
# others 300.
LONG_TAP='023 030 040 041 042 064 066 067 083_http 093 094 097 100 110 111 112 116'
# These load the emulation of the CUDA kernels, which is built meanwhile: they run behind the others, beside
# each other.
EMU_TAP='103 104 105'
# Tests that need the whole machine: they inject faults into what the engine must do within a second, require
# that drafts gain time, or expect tokens within a tenth of a second.
ALONE_TAP='010 096 098'

named_by() {	# named_by NAME BEGINNINGS: does NAME begin with one of these?
	local w
	for w in $2; do case $1. in "$w"*) return 0 ;; esac; done
	return 1
}

wanted_tap() {
	if [ -n "${TESTS:-}" ]; then
		named_by "$1" "$TESTS"
	elif [ "$tier" = check ]; then
		named_by "$1" "$CORE_TAP"
	else
		[ "$PG_MAJOR" = 15 ] || [ -n "${FULL:-}" ] || named_by "$1" "$VERSION_TAP"
	fi
}

# Print the TAP files to run, each with its kind (long, short, emu or alone); long files come first.
tap_files() {
	local t
	for t in tests/t/[0-9]*.pl; do
		t=$(basename "$t" .pl)
		wanted_tap "$t" || continue
		if named_by "$t" "$ALONE_TAP"; then
			echo "alone $t"
		elif named_by "$t" "$EMU_TAP"; then
			echo "emu $t"
		elif named_by "$t" "$LONG_TAP"; then
			echo "long $t"
		else
			echo "short $t"
		fi
	done | sort -s -k1,1
}

# Copy what TAP files read into $BASE.
prepare_tap() {
	cp tests/upgrade/*.sql "$([ -n "${PG_PREFIX:-}" ] || echo "$BASE/install")$($PG_CONFIG --sharedir)/extension/" || return 1
	rm -rf "$BASE/t" "$BASE/work" && cp -r tests/t "$BASE/t" && cp docs/grafana.json "$BASE/t/" && mkdir -p "$BASE/tmp" "$BASE/work"
	make -s fixtures || return 1
	[ "$PG_MAJOR" != 15 ] || { ! wanted_tap 083_http_clients && ! wanted_tap 125_drivers; } || find_clients
	cp -r client tests/batch tests/clients tests/pull tests/remote tests/golden/pool_expected models README.md docs/user \
		tests/golden/smollm2.txt "$BASE/work/" && mkdir "$BASE/work/fixtures"
	cp -r tests/fixtures/tokenizers tests/fixtures/*.json build/fixtures/*/ "$BASE/work/fixtures/"
	[ "$PG_MAJOR" != 15 ] || ! wanted_tap 029_smollm2 || scripts/smollm2 >build/check/smollm2.log 2>&1
	[ ! -d build/smollm2 ] || [ -d "$BASE/smollm2" ] || cp -r build/smollm2 "$BASE/"
	[ "$(id -u)" != 0 ] || chown -R postgres: "$BASE/t" "$BASE/tmp" "$BASE/work"
	mkdir -p "$BASE/hooks"
	${CC:-cc} -O1 -g -Wall -fPIC -shared -Isrc -I"$($PG_CONFIG --includedir-server)" -D_GNU_SOURCE \
		-o "$BASE/hooks/hooks_audit.so" tests/hooks/hooks_audit.c
	make -s processors device-libs && cp build/engine/tests/plugins/*.so "$BASE/hooks/"
	rm -rf "$BASE/template"
	as_pg env -u LC_ALL -u LANGUAGE LC_MESSAGES=C "$PG_BIN/initdb" -D "$BASE/template" -A trust -N >build/check/template.out 2>&1
}

# Build and copy the emulated CUDA kernels as a library; tests of kind `emu` load it.
prepare_tap_emu() {
	wait_for_build emu-lib
	make -s emu-lib && mkdir -p "$BASE/hooks/emu" && { [ ! -f build/engine/emu/vllm_pg_cuda.so ] || cp build/engine/emu/vllm_pg_cuda.so build/engine/emu/libnccl_emu.so "$BASE/hooks/emu/"; }
}

check_tap() {
	. scripts/cluster.sh
	cluster_base "build/check/pg$PG_MAJOR"
	local perl
	perl=$(dirname "$($PG_CONFIG --pgxs)")/../../src/test/perl
	[ -d "$perl/PostgreSQL" ] || perl=/usr/lib/postgresql/15/lib/pgxs/src/test/perl
	cluster_install && prepare_tap || { fail "tap-pg$PG_MAJOR" build/check/template.out; return; }
	# environment variables for PostgreSQL::Test::Utils
	export TAP_CONF="shared_preload_libraries = 'vllm_pg'
$EXT_CONF" TAP_PERL=$perl
	# what vllm_pg_pull does as root; TAP files run as the server's user
	[ "$(id -u)" != 0 ] || ! wanted_tap 126_pull || step pull_as_root tests/pull/test_pull.py client/vllm_pg_pull becomes_the_owner
	tap_files >build/check/tap.files
	tap_lanes 'long|short'
	! grep -q ^emu build/check/tap.files || prepare_tap_emu
	tap_lanes emu
	tap_lanes alone
}

tap_lanes() {	# tap_lanes KINDS: run the TAP files of these kinds, at the same time unless they are to be alone
	grep -E "^($1) " build/check/tap.files | while read -r kind t; do
		[ "$kind" = alone ] || kind=computes
		echo "$kind tap-pg$PG_MAJOR-$t tap_file $t"
	done >build/check/tap.jobs
	run_lanes "${TAP_LANES:-4}" tell_tap <build/check/tap.jobs
}

tap_file() {	# tap_file NAME
	local limit=300
	! named_by "$1" "$LONG_TAP $EMU_TAP $ALONE_TAP" || limit=600
	pg_timed "$limit" "tap-pg$PG_MAJOR-$1" "$BASE/work" env EXTRA_CONF="$TAP_CONF" PG_REGRESS="$($PG_CONFIG --pgxs | xargs dirname)/../../src/test/regress/pg_regress" \
		TESTDATADIR="$BASE/tmp" TESTLOGDIR="$BASE/tmp" TMPDIR=/tmp PG_TEST_TIMEOUT_DEFAULT=120 VLLM_PG_TEMPLATE="$BASE/template" \
		PGHOST= VLLM_PG_HOOKS="$BASE/hooks/hooks_audit.so" VLLM_PG_CLIENTS="$BASE/clients" VLLM_PG_SMOLLM2="$BASE/smollm2" VLLM_PG_PROCESSORS="$BASE/hooks/processors.so" VLLM_PG_DEVICES="$BASE/hooks" VLLM_PG_LIBDIR="$(if [ -n "${PG_PREFIX:-}" ]; then $PG_CONFIG --pkglibdir; else echo "$BASE/install$($PG_CONFIG --pkglibdir)"; fi)" \
		prove -v -I "$TAP_PERL" -I "$BASE/t" "$BASE/t/$1.pl"
}

tell_tap() {	# tell_tap NAME: count a TAP file that has ended
	mv "build/check/$1.out" "build/check/$1.raw"
	count_tap "$1" "build/check/$1.raw" "$(cat "build/check/$1.status")"
}

count_tap() {
	local ok bad skip
	ok=$(grep -cE '^ok [0-9]+' "$2")
	skip=$(grep -cE '^ok [0-9]+ # skip' "$2")
	bad=$(grep -E '^not ok [0-9]+' "$2" | grep -vcE '# TODO')
	[ "$3" = 0 ] || [ "$bad" != 0 ] || { bad=1; tail -n 30 "$2"; }
	grep -E '^not ok [0-9]+.*# TODO' "$2"
	grep -E '^# (ms|figure)' "$2" | head -n 10
	{
		grep -E '^not ok' "$2"
		sed -nE 's/^ok [0-9]+ # skip /skipped /p' "$2"
		# the test's own log has the reasons
		[ "$bad" = 0 ] || grep -aE -A 8 'Failed test' "$BASE/work/tmp_check/log/regress_log_${1#tap-pg*-}" 2>/dev/null |
			sed -E 's/^\[[0-9:.()s]+\]\([0-9.]+s\) //' | grep -aE '^#  '
		echo "$1: $((ok - skip)) passed, $bad failed, $skip skipped"
	} >"${2%.raw}.out"
	tally "$1" "${2%.raw}.out" "$bad" "$(seconds_of "$1")"
}

# Do what a new user does first, from nothing: make the demo, make it again, connect, stop.
check_demo() {
	DEMO_DIR=build/check/demo scripts/demo.sh stop >/dev/null 2>&1
	rm -rf build/check/demo
	step demo tests/demo.sh build/check/demo
}

# Build Debian packages; install, upgrade and remove them in a root of their own.
check_deb() {
	STEP_LIMIT=3600 step deb tests/deb.sh
}

# Run many sessions with mixed calls, cancels and kills of the engine.
check_soak() {
	STEP_LIMIT=$(((${SOAK_MINUTES:-1} + 10) * 60)) step soak bench/soak --minutes "${SOAK_MINUTES:-1}"
	grep -E '^(latency|[0-9.]+ minutes)' build/check/soak.out
}

# Run hostile calls of every SQL function as three roles (docs/user/security.md).
check_fuzz_sql() {
	step fuzz_sql scripts/fuzz_sql ${FUZZ_SQL:---calls 5000}
}
