#!/bin/bash
# Single-stream decode of a BF16 model of the 0.5B shape, as a share of the memory
# bandwidth measured before and after it in the same run.
#
#	bench/decode.sh [ROUNDS] [TOKENS]
#
# Bytes read per token = all weights once (the tied embedding is the head).  Prints a
# row a round and the median ratio.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} tokens=${2:-64} threads=${THREADS:-$(nproc)}
make -s -j"$(nproc)" engine build/engine/bench/kernels
model=${MODEL_DIR:-${TMPDIR:-/tmp}/vllm_pg-bench/qwen2.5-0.5b}
[ -f "$model/model.safetensors" ] || python3 bench/gen_model.py qwen2.5-0.5b "$model"
bytes=$(stat -c %s "$model/model.safetensors")
bandwidth() { build/engine/bench/kernels -b -t "$threads"; }
echo "round  read GB/s before  after   tokens/s   weights GB/s   ratio"
for r in $(seq "$rounds"); do
	b0=$(bandwidth)
	t=$(build/engine/vllm_pg_engine --offline --model "$model" --threads "$threads" --random-prompts 1,16 \
		--max-tokens "$tokens" --temperature 0 --stats 2>&1 >/dev/null | tr ' ' '\n' |
		awk -F= '{ v[$1] = $2 } END { print (v["output_tokens"] - 1) / (v["seconds"] - v["mean_first_token_s"]) }')
	b1=$(bandwidth)
	awk -v r="$r" -v b0="$b0" -v b1="$b1" -v t="$t" -v n="$bytes" 'BEGIN { g = t * n / 1e9; m = (b0 + b1) / 2
		printf "%5d %18.1f %6.1f %10.2f %14.1f %7.2f\n", r, b0, b1, t, g, g / m }'
done | tee /tmp/decode.$$
sort -k6 -n /tmp/decode.$$ | awk '{ v[NR] = $6 } END { printf "median ratio: %.2f of the measured read bandwidth\n", v[int((NR + 1) / 2)] }'
rm -f /tmp/decode.$$
