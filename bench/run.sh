#!/bin/bash
# Run all benchmarks, one after the other.  Nothing else should run on the machine.
#
#	bench/run.sh [--quick]
#
# Skips the peers if they are not installed (bench/peers-setup).
set -euo pipefail
cd "$(dirname "$0")/.."
quick=
case ${1:-} in
	'') ;;
	--quick) quick=--quick ;;
	-h | --help) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 0 ;;
	*) echo "run.sh: unknown argument \"$1\"; --help lists them" >&2; exit 2 ;;
esac
make -s -j"$(nproc)" engine build/engine/bench/kernels build/engine/bench/attn build/engine/bench/ops build/engine/bench/grouped
build/engine/bench/kernels -q
build/engine/bench/attn
build/engine/bench/ops -q
build/engine/bench/grouped -q
for b in limits gram single load batch structured spec serve mixed peers embed; do
	echo
	echo "bench/$b"
	bench/$b $quick || { [ $? = 3 ] && [[ $b = peers || $b = embed || $b = mixed ]]; }
done
echo
bench/statement.sh
[ ! -f demo/env.sh ] || bench/sessions.sh
