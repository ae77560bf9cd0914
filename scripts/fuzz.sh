#!/bin/bash
# Run libFuzzer on all code that reads untrusted bytes, under AddressSanitizer and UBSan:
#
#	scripts/fuzz.sh [-s SECONDS | -f | -b] [-j JOBS] [-r SEED] [TARGET ...]
#
# TARGET: fuzz_gguf ..., all of tests/fuzz by default; 60 seconds each, two at a time.  The corpora start
# with seeds made from the fixtures, and are kept in build/fuzz/corpus; an input that fails is left in
# build/fuzz/found.  SEED: libFuzzer's seed, 0 (default) = a new one each time.  -f (for make check-full):
# run a fixed number of inputs, the same ones on every machine (about 5 seconds each, with FULL=1 a
# minute), so that a failure can be repeated.  -f uses corpora of its own and turns address randomization
# off.
# -b: only build.
# The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=60 jobs=2 seed=0 fixed= build_only=
export FULL=${FULL:-}
while getopts s:fbj:r: o; do
	case $o in
		s) seconds=$OPTARG ;;
		f) fixed=1 seed=1 ;;
		b) build_only=1 ;;
		j) jobs=$OPTARG ;;
		r) seed=$OPTARG ;;
		*) echo "usage: scripts/fuzz.sh [-s SECONDS | -f | -b] [-j JOBS] [-r SEED] [TARGET ...]" >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls fuzz_*.c | sed 's/\.c$//')
found=build/fuzz/found
mkdir -p build/fuzz/log "$found"

# find out if the compiler has libFuzzer
probe=$(mktemp -d)
echo 'int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n) { return !p || !n ? 0 : 0; }' >"$probe/t.c"
if ! ${FUZZ_CC:-clang} -fsanitize=fuzzer,address,undefined -o "$probe/t" "$probe/t.c" 2>/dev/null; then
	rm -rf "$probe"
	echo "skipped $#: no clang with libFuzzer"
	echo "0 passed, 0 failed, $# skipped"
	exit 0
fi
rm -rf "$probe"

programs=$(printf 'build/engine/tests/fuzz/%s ' "$@")
targets=$(printf 'build/fuzz/tests/fuzz/%s ' "$@")
# the programs of the plain build write the seeds, the fuzz targets read them
if ! { make -s -j"$(nproc)" $programs && make -s -j"$(nproc)" FUZZ=1 CC="${FUZZ_CC:-clang}" $targets; } >build/fuzz/log/build 2>&1; then
	tail -n 30 build/fuzz/log/build
	echo "0 passed, $# failed, 0 skipped"
	exit 1
fi

[ -z "$build_only" ] || exit 0

# Print how many inputs a target runs in about 5 seconds, or in a minute with FULL=1.
runs_of() {
	local minute=5000
	case $1 in
		fuzz_wire) minute=900000 ;;
		fuzz_jinja | fuzz_http) minute=350000 ;;
		fuzz_grammar) minute=20000 ;;
		fuzz_parse | fuzz_kvtier | fuzz_remote_text | fuzz_torchfile) minute=200000 ;;
		fuzz_config | fuzz_tokenizer) minute=75000 ;;
	esac
	echo $((minute / (${#FULL} > 0 ? 1 : 12)))
}

# No input may hang (the limit is a minute, because other processes may use the machine), allocate 256 MB at
# once or make the process grow to 2 GB.
run_one() {
	local t=$1 seconds=$2 seed=$3 fixed=$4 corpus=build/fuzz/corpus/$1 seeds=build/fuzz/seeds/$1 n
	local how="-max_total_time=$seconds" limit=$((seconds + 300)) setarch=
	if [ -n "$fixed" ]; then
		corpus=build/fuzz/fixed/$t how="-runs=$(runs_of "$t") -reload=0" limit=900
		rm -rf "$corpus"
		setarch -R true 2>/dev/null && setarch='setarch -R'
	fi
	mkdir -p "$corpus"
	rm -rf "$seeds" && mkdir -p "$seeds"
	"build/engine/tests/fuzz/$t" --seeds "$seeds" || return 1
	# the sanitizer checks for leaks at the end of the run
	ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
		timeout $limit $setarch "build/fuzz/tests/fuzz/$t" $how -seed="$seed" -max_len=262144 -timeout=60 \
		-rss_limit_mb=2048 -malloc_limit_mb=256 -artifact_prefix="build/fuzz/found/$t-" \
		-print_final_stats=1 "$corpus" "$seeds" >"build/fuzz/log/$t" 2>&1
	n=$?
	grep -aE 'ERROR: |SUMMARY: |runtime error|^ +#[0-6] ' "build/fuzz/log/$t" | head -n 12
	echo "$t: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/log/$t") executions, $(ls "$corpus" | wc -l) inputs kept, status $n"
	return $n
}
export -f run_one runs_of
printf '%s\n' "$@" | xargs -P "$jobs" -I{} bash -c 'run_one {} '"$seconds $seed $fixed"' || echo "FAILED {}"' | tee build/fuzz/log/all
failed=$(grep -c '^FAILED' build/fuzz/log/all)
echo "$(($# - failed)) passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
