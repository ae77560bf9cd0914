#!/bin/bash
# The demo in a folder of its own, which must not be there yet: `tests/demo.sh DIR`.
set -uo pipefail
cd "$(dirname "$0")/.."
export DEMO_DIR=$1
passed=0 failed=0 skipped=0

is() {	# is WHAT GOT WANTED (an extended regular expression)
	if [[ $2 =~ $3 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED %s\n%s\n' "$1" "$2"
	fi
}

[ ! -e "$DEMO_DIR" ]
is 'nothing is there' $? '^0$'
out=$(scripts/demo.sh start 2>&1)
is 'the first run ends well' $? '^0$'
is 'it prints rows' "$out" '\(64 rows\)'
is 'it says how fast' "$out" '64 rows, [0-9]+ tokens, [0-9.]+ s, [0-9]+ tokens/s'
if [[ $out == *"the search by meaning is left out"* ]]; then
	skipped=$((skipped + 1))
	echo 'skipped the search: all-MiniLM-L6-v2 is not there'
else
	is 'it searches by meaning' "$out" '\| returns +\| .*\(5 rows\)'
fi
is 'it says how to connect' "$out" "$DEMO_DIR/env.sh && psql"

started=$(. "$DEMO_DIR/env.sh" && psql -XAtc "SELECT pg_postmaster_start_time(), count(*) FROM docs")
is 'env.sh connects' "$started" '[|]64$'
start=$SECONDS
out=$(scripts/demo.sh start 2>&1)
is 'the second run ends well' $? '^0$'
is 'in less than 10 s' $((SECONDS - start)) '^[0-9]$'
is 'it leaves a server alone that is up to date' \
	"$(. "$DEMO_DIR/env.sh" && psql -XAtc "SELECT pg_postmaster_start_time(), count(*) FROM docs")" "^${started//+/\\+}$"

is 'stop ends the server' "$(scripts/demo.sh stop 2>&1)" '^demo stopped$'
is 'stop says when there is none' "$(scripts/demo.sh stop 2>&1)" '^demo was not running$'
scripts/demo.sh start >/dev/null 2>&1
is 'it starts again' $? '^0$'
scripts/demo.sh stop >/dev/null 2>&1
echo "demo: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
