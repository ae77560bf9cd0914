#!/bin/bash
# Run the tests that need a GPU: build for it, compare every kernel with the CPU's reference, run whole
# models, check row invariance and wgmma's bits, run compute-sanitizer, and measure the kernels against the
# device's limits (bench/gpu).
#
#	check_gpu.sh [--json FILE] [PART...]	build conform models invariance sanitizer bench (default: all)
#	check_gpu.sh --emu [PART...]	run fewer of the same programs under emulation, to test this script
#
# Needs the source tree, nvcc and a GPU, and python3 for models.  If the engine's libraries are missing,
# tests/bare replaces them.  Each program has a time limit, and all together have CHECK_GPU_SECONDS (475).
# A program that no time is left for is skipped and counted; it can be run by itself.  Each result is a line
# of JSON in FILE (build/check/gpu.json).  The last line is `N passed, N failed, N skipped`.  Without a GPU:
# exit status 2.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | head -n -1; }
emu= json=build/check/gpu.json parts=
while [ $# -gt 0 ]; do
	case $1 in
		--emu) emu=1 ;;
		--json) json=${2:?--json needs a file}; shift ;;
		-h | --help) usage; exit 0 ;;
		build | conform | models | invariance | sanitizer | bench) parts="$parts $1" ;;
		*) usage >&2; exit 2 ;;
	esac
	shift
done
mkdir -p build/check "$(dirname "$json")"
passed=0 failed=0 skipped=0
# seconds for all parts together; under emulation there is no limit
total=${CHECK_GPU_SECONDS:-475}
[ -z "$emu" ] || total=1000000
: >"$json"
rm -f build/check/gpu_bench.json

result() {	# result PART NAME PASSED FAILED SKIPPED SECONDS [WHY]
	passed=$((passed + $3)) failed=$((failed + $4)) skipped=$((skipped + $5))
	printf '{"part": "%s", "name": "%s", "passed": %s, "failed": %s, "skipped": %s, "seconds": %s, "note": "%s"}\n' \
		"$1" "$2" "$3" "$4" "$5" "$6" "${7:-}" >>"$json"
	echo "$1 $2: $3 passed, $4 failed, $5 skipped${7:+ ($7)}"
}

# run PART NAME SECONDS COMMAND...: run a program and count its line `N passed, N failed, N skipped`, or
# else its exit status
run() {
	local part=$1 name=$2 most=$3 left=$((total - SECONDS)) out t0=$SECONDS st line
	shift 3
	out=build/check/gpu_$part-$name.out
	if [ $left -lt 2 ]; then
		result "$part" "$name" 0 0 1 0 "no time left of $total s"
		return 1
	fi
	[ -z "$emu" ] || most=$((8 * most))
	[ $left -ge "$most" ] || most=$left
	timeout "$most" "$@" >"$out" 2>&1
	st=$?
	line=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$out" | tail -n 1 | sed -E 's/(.*[^0-9])?([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?.*/\2 \3 \5/')
	if [ $st = 124 ] && [ "$most" = $left ]; then
		result "$part" "$name" 0 0 1 $((SECONDS - t0)) "no time left of $total s"
		return $st
	elif [ $st = 124 ]; then
		result "$part" "$name" 0 1 0 $((SECONDS - t0)) "ran longer than $most s"
	elif [ -n "$line" ]; then
		set -- $line
		# a crash after that line counts as a failure, too
		[ $st = 0 ] || [ "$2" != 0 ] || set -- "$1" 1 "${3:-0}"
		result "$part" "$name" "$1" "$2" "${3:-0}" $((SECONDS - t0))
	else
		result "$part" "$name" $((st == 0)) $((st != 0)) 0 $((SECONDS - t0)) "exit status $st"
	fi
	[ $st = 0 ] || grep -aE 'FAILED|error|emu:|=========' "$out" | head -n 20
	return $st
}

wanted() { [ -z "$parts" ] || [[ " $parts " == *" $1 "* ]]; }

if [ -n "$emu" ]; then
	dir=build/engine/emu
	programs="test_norm test_table"
	target=gpu-programs-emu
	make=(make -s -j"$(nproc)" $target)
	# a few of each; `make check-emu` runs all
	models="bare_models mixtral_f16 mamba2_f16 quant_ct_w4a16" encoders="bare_encoders bert nomic_bert_moe" engine="bare_engine bert_score qwen3_embedding"
else
	cc=${CUDA_CC:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')}
	[ -n "$cc" ] || { echo "check_gpu: there is no GPU here (nvidia-smi finds none)"; exit 2; }
	# wgmma needs the architecture-specific target sm_90a
	case $cc in 90) sm=90a ;; *) sm=$cc ;; esac
	bare=
	printf '#include <utf8proc.h>\n#define PCRE2_CODE_UNIT_WIDTH 8\n#include <pcre2.h>\n' |
		cc -E - >/dev/null 2>&1 || bare=1
	# bench/gpu uses what is built there
	export BUILD=build/$([ -n "$bare" ] && echo bare || echo engine)
	dir=$BUILD/gpu
	models=test_models encoders=test_encoders engine=test_engine
	programs=$(ls tests/emu/test_*.cu | sed 's/.*\/\(.*\)\.cu/\1/' | grep -v test_faults)
	make=(make -s -k -j"$(nproc)" gpu-programs BARE="$bare" CUDA_SM="$sm" CUDA_DIR="build/cuda-$sm" CUDA_LIB="build/cuda-$sm/vllm_pg_cuda.so")
	[ -n "$(make -s cuda-nvcc)" ] || { echo "check_gpu: nvcc is missing"; exit 2; }
fi

# A program that could not be built fails when it is run.
run build all 400 "${make[@]}"
if wanted conform; then
	for p in $programs; do run conform "$p" 120 "$dir/$p"; done
fi
if wanted models; then
	run models logits 150 "$dir"/$models
	run models encoders 60 "$dir"/$encoders
	run models core 60 "$dir"/$engine
fi
if wanted invariance; then
	run invariance rows 120 "$dir/gpu_invariance"
	run invariance wgmma 120 "$dir/gpu_wgmma"
	grep 'differ between' build/check/gpu_invariance-wgmma.out
fi
! wanted bench || run bench gpu 280 bench/gpu ${emu:+--smoke} --json build/check/gpu_bench.json
[ ! -s build/check/gpu_bench.json ] || ! wanted bench || cat build/check/gpu_bench.json >>"$json"
# Nobody knows how long the programs take under the tools: run short ones first, and as many as the time
# allows.  Leave out programs whose calls fail on purpose, and those of other libraries: the tools would
# report their errors.
if wanted sanitizer; then
	why=
	if [ -n "$emu" ]; then
		why='the emulation has its own'
	elif ! command -v compute-sanitizer >/dev/null; then
		why='compute-sanitizer is missing'
	fi
	for p in test_norm test_rope_kv test_table $(printf '%s\n' $programs | grep -vxE 'test_(norm|rope_kv|table|dev|blaslt|nccl)'); do
		for tool in memcheck racecheck; do
			if [ -n "$why" ]; then
				result sanitizer "$tool-$p" 0 0 1 0 "$why"
			else
				run sanitizer "$tool-$p" "$total" compute-sanitizer --tool $tool --error-exitcode 9 "$dir/$p"
			fi
		done
	done
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
