#!/bin/bash
# Measure what the batch node gains: one session, one statement, many rows.
#
#	bench/statement.sh [fake|overhead|bundled|half|planner ...]		(default: all)
#
# fake		320 rows on the fake engine (20 ms per step, 32 sequences at once): off / on
# overhead	the fake engine at 0 ms: microseconds per row, compared with row by row
# bundled	1,000 distinct prompts on the bundled model, compared with vllm_pg_engine --offline on the
#			same prompts with the same settings; the answers are compared, too
# half		a random BF16 model of the 0.5B shape, 64 requests of 128 + 64 tokens: off / on
# planner	pgbench -S with and without the library, interleaved
#
# Starts its own server under build/bench.  ROUNDS=3; prints medians.
set -euo pipefail
cd "$(dirname "$0")/.."
export PG_CONFIG=${PG_CONFIG:-$(ls /usr/lib/postgresql/15/bin/pg_config 2>/dev/null || command -v pg_config)}
. scripts/cluster.sh
ROUNDS=${ROUNDS:-3}
parts=${*:-fake overhead bundled half planner}
for p in $parts; do
	case $p in
		fake | overhead | bundled | half | planner) ;;
		-h | --help) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 0 ;;
		*) echo "statement.sh: unknown part \"$p\"; --help lists them" >&2; exit 2 ;;
	esac
done
make -s -j"$(nproc)" all PG_CONFIG="$PG_CONFIG"
cluster_base build/bench
cluster_install
PORT=$(free_port 55900)
trap 'cluster_stop bench immediate' EXIT

sql() { as_pg psql -XAtq -h "$SOCK" -p "$PORT" -U postgres -d postgres -v ON_ERROR_STOP=1 "$@"; }
server() {	# server "CONF": start a new server with these settings
	cluster_stop bench immediate || true
	cluster_init bench "$PORT" "max_connections = 20
fsync = off
vllm.enable_prefix_caching = off
$1"
	cluster_start bench
	sql -c 'CREATE EXTENSION vllm_pg'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
# ms SETTINGS QUERY: print the milliseconds until psql has the whole result; psql writes the result to
# $BASE/answers
ms() {
	printf '%s;\n\\o %s\n\\timing on\n%s;\n' "$1" "$BASE/answers" "$2" | sql -f - |
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1
}
medians() {	# medians SETTINGS QUERY: print the median of the rounds
	for _ in $(seq "$ROUNDS"); do ms "$1" "$2"; done | median
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }

bench_fake() {
	server "vllm.engine_args = '--fake --set fake_step_ms=20 --set fake_batch=32'"
	local q="SELECT count(llm_generate('prompt ' || i)) FROM generate_series(1, 320) i" on off
	on=$(medians "SET vllm.batch = on" "$q")
	off=$(ROUNDS=1 medians "SET vllm.batch = off" "$q")
	echo "fake: 320 rows, 20 ms a step, 32 at once: off $off ms, on $on ms: $(ratio "$off" "$on") times (issue: 16)"
}

bench_overhead() {
	server "vllm.engine_args = '--fake'"
	local n=200000 on off base
	sql -c "CREATE TABLE d AS SELECT i AS id, 'prompt ' || i AS p FROM generate_series(1, $n) i" -c 'VACUUM ANALYZE d'
	base=$(medians "SET vllm.batch = on" "SELECT count(upper(p)) FROM d")
	on=$(medians "SET vllm.batch = on" "SELECT count(llm_generate(p)) FROM d")
	off=$(ROUNDS=1 medians "SET vllm.batch = off" "SELECT count(llm_generate(p)) FROM d WHERE id <= $((n / 20))")
	awk -v n=$n -v on="$on" -v off="$off" -v base="$base" 'BEGIN {
		printf "overhead: %.2f us a row (%d rows, less the scan), row by row %.1f us: %.1f times\n",
			(on - base) * 1000 / n, n, (off - base / 20) * 20000 / n, off * 20 / on }'
}

bench_bundled() {
	server "vllm.cpu_threads = ${THREADS:-$(nproc)}"
	local seqs=${SEQS:-64} out=$BASE/bundled t=${TOKENS:-32} off r sqlms
	python3 - >"$out.sql" <<'PY'
import sys
sys.path.insert(0, 'models')
import random
rnd = random.Random(1)
what = ['kettle', 'lamp', 'router', 'blender', 'watch', 'sofa', 'phone', 'jacket', 'bicycle', 'drill']
did = ['arrived broken', 'never arrived', 'was charged twice', 'stopped working', 'has the wrong colour', 'is too small']
print("CREATE TABLE b (id int, p text);")
print("COPY b FROM stdin;")
for i in range(1000):
    print(f"{i}\tTicket: My {rnd.choice(what)} of order {1000 + i} {rnd.choice(did)}. Please help me. Summary:")
print("\\.")
PY
	sql <"$out.sql"
	sql -c "COPY (SELECT p FROM b ORDER BY id) TO STDOUT" >"$out.prompts"
	sql -c "SELECT llm_load_model('tickets-2m')" >/dev/null
	for r in $(seq "$ROUNDS"); do
		off=$(build/engine/vllm_pg_engine --offline --model models/tickets-2m --prompts "$out.prompts" --max-tokens "$t" \
			--max-num-seqs "$seqs" --max-num-batched-tokens 512 --step-target-ms 200 --stats 2>&1 >"$out.offline" |
			tr ' ' '\n' | sed -n 's/^seconds=//p')
		sqlms=$(ms "SET vllm.batch = on" "SELECT llm_generate(p, max_tokens => $t) FROM b ORDER BY id")
		awk -v r="$r" -v a="$off" -v b="$sqlms" 'BEGIN { printf "bundled round %d: offline %.3f s, one statement %.3f s: ratio %.3f\n", r, a, b / 1000, a * 1000 / b }'
	done | tee "$out.rounds"
	sed 's/.*ratio //' "$out.rounds" | median | sed 's/^/bundled: median share of the offline throughput (issue: 0.90): /'
	sql -c "COPY (SELECT llm_generate(p, max_tokens => $t) FROM b ORDER BY id) TO STDOUT" >"$out.sqlanswers"
	cmp "$out.sqlanswers" "$out.offline" && echo "bundled: 1,000 answers equal to the offline ones"
}

bench_half() {
	local model=${MODEL_DIR:-${TMPDIR:-/tmp}/vllm_pg-bench/qwen2.5-0.5b} on off rows=${ROWS:-64}
	[ -f "$model/model.safetensors" ] || python3 bench/gen_model.py qwen2.5-0.5b "$model"
	server "vllm.cpu_threads = ${THREADS:-$(nproc)}
vllm.default_params = '{\"ignore_eos\": true, \"temperature\": 0}'"
	sql -c "SELECT llm_create_model('half', '$model')" -c "SELECT llm_load_model('half')" >/dev/null
	# Cut each prompt to 128 tokens with the model's own tokenizer.
	sql -c "CREATE TABLE h AS SELECT i AS id, llm_detokenize((llm_tokenize(string_agg(md5(i || '-' || j), ' '), false, 'half'))[1:128], false, 'half') AS p
		FROM generate_series(1, $rows) i, generate_series(1, 12) j GROUP BY i"
	local q="SELECT count(llm_generate(p, max_tokens => 64, model => 'half')) FROM h"
	sql -c "SELECT 'half: prompt tokens ' || min(llm_count_tokens(p, 'half')) || ' to ' || max(llm_count_tokens(p, 'half')) FROM h"
	on=$(medians "SET vllm.batch = on" "$q")
	off=$(ROUNDS=1 medians "SET vllm.batch = off" "$q")
	echo "half: $rows x (128 + 64) tokens: off $off ms, on $on ms: $(ratio "$off" "$on") times (issue: 4.5)"
}

bench_planner() {
	local with without r i
	server "" && as_pg "$PG_BIN/pgbench" -q -i -s 5 -h "$SOCK" -p "$PORT" -U postgres postgres 2>/dev/null
	run() { as_pg "$PG_BIN/pgbench" -n -S -c 1 -T "${SECONDS_A_RUN:-5}" -h "$SOCK" -p "$PORT" -U postgres postgres 2>/dev/null | sed -n 's/^tps = \([0-9.]*\).*/\1/p'; }
	for r in $(seq "${PAIRS:-6}"); do
		# alternate the order from pair to pair
		for i in $([ $((r % 2)) = 0 ] && echo with without || echo without with); do
			cluster_stop bench fast
			[ $i = with ] && l=vllm_pg || l=
			sed -i "s/^shared_preload_libraries.*/shared_preload_libraries = '$l'/" "$BASE/bench/postgresql.conf"
			cluster_start bench
			eval "$i=$(run)"
		done
		echo "planner pair $r: with $with, without $without tps, ratio $(ratio "$with" "$without")"
	done | tee "$BASE/planner"
	sed 's/.*ratio //' "$BASE/planner" | median | sed 's/^/planner: median ratio of tps with to without the library: /'
}

for p in $parts; do "bench_$p"; done
