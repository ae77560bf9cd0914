#!/bin/bash
# Measure what batching across sessions gains: tokens/s of 1, 4 and 16 sessions.  Each session runs one
# statement over the demo's table, row by row, on the bundled model.
#
#	make demo && bench/sessions.sh
#
# Each row generates 64 tokens.  Prints tokens/s, the average batch size and the ratio to one session.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
	'') ;;
	-h | --help) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 0 ;;
	*) echo "sessions.sh: unknown argument \"$1\"; --help lists them" >&2; exit 2 ;;
esac
. demo/env.sh
stat() { psql -XAtq -F' ' -c 'SELECT output_tokens, steps, avg_batch * steps FROM llm_stat_engine'; }
sql="SELECT count(llm_generate(prompt, max_tokens => 64, ignore_eos => true)) FROM docs"
psql -XAtq -c "SELECT llm_load_model(current_setting('vllm.model'))" >/dev/null
echo "sessions  tokens/s  average batch  ratio"
one=
for n in 1 4 16; do
	read -r t0 s0 q0 < <(stat)
	b=$(date +%s%N)
	for _ in $(seq "$n"); do psql -XAtq -c "SET vllm.batch = off" -c "$sql" >/dev/null & done
	wait
	e=$(date +%s%N)
	read -r t1 s1 q1 < <(stat)
	one=${one:-$(echo "$t0 $t1 $b $e" | awk '{ print ($2 - $1) / (($4 - $3) / 1e9) }')}
	echo "$n $t0 $t1 $s0 $s1 $q0 $q1 $b $e $one" | awk '{ r = ($3 - $2) / (($9 - $8) / 1e9)
		printf "%8d %9.0f %14.1f %6.1f\n", $1, r, ($7 - $6) / ($5 - $4), r / $10 }'
done
