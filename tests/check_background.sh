#!/bin/bash
# The suite's background (scripts/check/builds.sh) beside the suite itself, with programs that only sleep:
# each runs once, whoever begins it, and its status reaches the suite.
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
cd "$dir" || exit 1
. "$top/scripts/check/count.sh"
. "$top/scripts/check/builds.sh"
trap 'stop_background; rm -rf "$dir"' EXIT
n_passed=0 n_failed=0
check() {	# check WHAT GOT WANTED
	if [ "$2" = "$3" ]; then
		n_passed=$((n_passed + 1))
	else
		n_failed=$((n_failed + 1))
		echo "FAILED $1: \"$2\" instead of \"$3\""
	fi
}

nproc() { echo 2; }
renice() { :; }
build_one() { echo 0 >"build/check/built/$1"; }
jobs_of() { local i; for i in 1 2 3 4 5 6; do echo "computes p$i sleeper p$i $((i == 3 ? 7 : 0))"; done; }
sleeper() { echo "$1" >>ran; sleep "$(cat nap)"; return "$2"; }
tell() { echo "$1=$(cat "build/check/$1.status")" >>told; }
begin() {	# begin SECONDS: start the background; each program sleeps so long
	rm -rf build ran told
	mkdir -p build/check/built
	touch ran told
	echo "$1" >nap
	build_behind one
}
lanes() { jobs_of one >jobs; run_lanes 2 tell <jobs; }
words() { sort "$1" | xargs; }

for round in 1 2 3 4 5 6; do
	begin 0.1
	sleep 0.0$round
	end_background
	lanes
	check 'run_lanes succeeds' $? 0
	check 'each program runs once' "$(words ran)" 'p1 p2 p3 p4 p5 p6'
	check 'each status is told' "$(words told)" 'p1=0 p2=0 p3=7 p4=0 p5=0 p6=0'
done

begin 0.1
while background_runs; do sleep 0.02; done
lanes
check 'run_lanes succeeds when the background has ended' $? 0
check 'what it ran does not run again' "$(words ran)" 'p1 p2 p3 p4 p5 p6'
check 'and its status is told' "$(words told)" 'p1=0 p2=0 p3=7 p4=0 p5=0 p6=0'

begin 60
until [ "$(wc -l <ran)" = 2 ]; do sleep 0.01; done
pause_background
kill -KILL -- "-$background"
echo 0.1 >nap
lanes
check 'programs of a background that died have failed' "$(words told)" 'p1=1 p2=1 p3=7 p4=0 p5=0 p6=0'
check 'the others run' "$(words ran)" 'p1 p2 p3 p4 p5 p6'
echo "check_background: $n_passed passed, $n_failed failed, 0 skipped"
[ "$n_failed" = 0 ]
