#!/bin/bash
# All benchmarks, one after the other.  Nothing else should run on the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
make -s -j"$(nproc)" engine build/engine/bench/kernels
build/engine/bench/kernels -q
bench/decode.sh
[ ! -f demo/env.sh ] || bench/sessions.sh
