#!/bin/bash
# `make cuda` and its part of the suite on a machine without nvcc: nothing is built, nothing fails, and
# what is left out is counted.
cd "$(dirname "$0")/.." || exit 1
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
for t in make sh bash env ls uname cat sed grep sort dirname xargs gcc g++ cc printf echo mkdir; do
	p=$(type -P $t) && ln -s "$p" "$bin/$t"
done
passed=0 failed=0
try() {	# try TARGET TEXT: it succeeds, and says so
	local out
	if out=$(env -u MAKEFLAGS -u MAKELEVEL -u NVCC PATH="$bin" make -s CUDA_HOME=/nonexistent CUDA_LIB="$bin/lib.so" "$1" 2>&1) &&
		echo "$out" | grep -qxF "$2" && [ ! -e "$bin/lib.so" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $1: $out"
	fi
}
try cuda 'cuda: skipped, nvcc is missing'
try cuda-check 'cuda: 0 passed, 0 failed, 1 skipped'
try emu-nvcc 'emu-nvcc: 0 passed, 0 failed, 4 skipped'
echo "cuda_missing: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
