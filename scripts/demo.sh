#!/bin/bash
# Run the demo: a private cluster under demo/, the bundled model, a table of tickets and the first query;
# then, if they can be installed, a chat model, which becomes the database's default (scripts/smollm2), and a
# search by meaning in 300 short texts (scripts/minilm).  `demo.sh start` builds, starts or restarts what has
# changed and runs the queries; `demo.sh server` does the same without the queries; `demo.sh stop` ends the
# server.  The script does not touch the user's own clusters.  DEMO_DIR names another folder than demo (the
# test suite uses it).
set -euo pipefail
cd "$(dirname "$0")/.."
export PG_CONFIG=${PG_CONFIG:-$(ls /usr/lib/postgresql/15/bin/pg_config 2>/dev/null || command -v pg_config)}
. scripts/cluster.sh
DEMO_DIR=${DEMO_DIR:-demo}
cluster_base "$DEMO_DIR"

# Print a step's line with the seconds since the start.
say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }

# Build everything; print the progress every ten seconds.
build() {
	local mark=$BASE/building told=$SECONDS maker
	touch "$mark"
	make -s -j"$(nproc)" all PG_CONFIG="$PG_CONFIG" &
	maker=$!
	while sleep 1 && kill -0 $maker 2>/dev/null; do
		[ $((SECONDS - told)) -ge 10 ] || continue
		told=$SECONDS
		say "... $(find build -name '*.o' -newer "$mark" | wc -l) files compiled"
	done
	wait $maker
}

psql_demo() { as_pg psql -X -q -h "$SOCK" -p "$PORT" -U postgres -d "$1" "${@:2}"; }

if [ "${1:-start}" = stop ]; then
	cluster_running data && cluster_stop data && echo "demo stopped" || echo "demo was not running"
	exit 0
fi

# Print a statement as psql shows it, and run it.
show() {
	echo "demo=# $1;"
	psql_demo demo -P pager=off -c "$1"
}

# Wait until the models are downloaded; tell every ten seconds how far it is.
wait_for_models() {
	local told=$SECONDS
	while kill -0 "$fetching" 2>/dev/null; do
		sleep 0.2
		[ $((SECONDS - told)) -ge 9 ] || continue
		told=$SECONDS
		say "$(tail -n 1 "$BASE/models.log")"
	done
	grep -v '^[.][.][.] ' "$BASE/models.log" || true
	wait "$fetching"
}

# keep_model NAME FILE: copy build/NAME, which has FILE, to where the server's user can read it
keep_model() {
	[ ! -f "$BASE/$1/$2" ] || return 0
	cp -r "build/$1" "$BASE/$1.new" && chmod -R a+rX "$BASE/$1.new" && mv -T "$BASE/$1.new" "$BASE/$1"
}

# Show what a small real model does, and make it the database's default.  Temperature 0 and no rounding of
# activations: such a model's best word is often only a little more probable than a bad one.
demo_chat() {
	local gguf=SmolLM2-135M-Instruct.Q4_1.gguf
	keep_model smollm2 $gguf
	if [ -z "$(psql_demo demo -Atc "SELECT 1 FROM llm_models WHERE name = 'smollm2'")" ]; then
		{
			echo "SET client_min_messages = warning;"
			[ -n "$(psql_demo demo -Atc "SELECT to_regclass('contacts')")" ] || cat models/mails_sample.sql
			echo "SELECT llm_create_model('smollm2', '$BASE/smollm2/$gguf', options => '{\"activation_scheme\": \"float\"}');"
			echo "ALTER DATABASE demo SET vllm.model = 'smollm2';"
			echo "ALTER DATABASE demo SET vllm.default_params = '{\"temperature\": 0}';"
		} | psql_demo demo -v ON_ERROR_STOP=1 -1 -o /dev/null
	fi
	say "SmolLM2-135M-Instruct, a real chat model of 98 MB, is the default of database demo; a chat"
	psql_demo demo -Atc "SET client_min_messages = warning; SELECT llm_load_model('smollm2')" >/dev/null
	show "SELECT q AS question, llm_ask(q) AS answer
FROM unnest(ARRAY['What is the capital of Japan?', 'Name three primary colors.']) q"
	show "SELECT llm_ask('Three things to pack for a day at the beach', 'You write short lists.')"
	say "values of an SQL type: it can generate nothing else"
	show "SELECT (llm_extract(body, NULL::contact)).* FROM contacts"
	say "classification: the more probable of two words, after two examples"
	show "SELECT body, llm_choose(llm_format(E'Mail: The chair is broken and I want my money back.\nMood: angry\n
Mail: Great service, I am very happy.\nMood: happy\n\nMail: {0}\nMood: ', body), '{happy,angry}') AS mood
FROM mails ORDER BY mood DESC, id"
	say "a stream: tokens as they come"
	local stream="SELECT (llm_chat_stream('[{\"role\": \"user\", \"content\": \"Give me three tips for writing good emails.\"}]', max_tokens => 24)).text"
	echo "demo=# $stream;"
	psql_demo demo -At -R '' -v FETCH_COUNT=1 -c "$stream"
	echo " ..."
	echo "It is small: it gets facts, sums, translations and long answers wrong.  Larger models: docs/user/models.md"
}

# Search by meaning.
demo_search() {
	keep_model minilm model.safetensors
	if [ -z "$(psql_demo demo -Atc "SELECT to_regclass('passages')")" ]; then
		{
			echo "SET client_min_messages = warning;"
			cat models/passages_sample.sql
			echo "SELECT llm_create_model('minilm', '$BASE/minilm'); UPDATE passages SET embedding = llm_embed(body, model => 'minilm');"
		} | psql_demo demo -v ON_ERROR_STOP=1 -1 -o /dev/null
	fi
	show "SELECT round(distance::numeric, 2) AS distance, subject, body
FROM llm_nearest('Can I send the shoes back and get my money?', 'passages', 'embedding', 5, model => 'minilm') n
     JOIN passages p ON p.ctid = n.row_id ORDER BY n.distance"
}

if [ "${1:-start}" = start ]; then
	{ scripts/minilm && scripts/smollm2; } >"$BASE/models.log" 2>&1 &
	fetching=$!
fi
say "building the engine, the HTTP server, the remote program and the module; about a minute the first time"
build
# Before the first run there are no such files; ignore the error.
stamp() { { cat "$BASE"/install/"$($PG_CONFIG --pkglibdir)"/vllm_pg{.so,_engine} "$BASE"/install/"$($PG_CONFIG --sharedir)"/extension/vllm_pg* 2>/dev/null || true; } | cksum; }
before=$(stamp)
say "installing into $BASE/install"
cluster_install
after=$(stamp)

if [ ! -f "$BASE/data/PG_VERSION" ]; then
	PORT=$(free_port 54321)
	say "making a database cluster in $BASE/data"
	cluster_init data "$PORT" ""
fi
PORT=$(sed -n 's/^port = //p' "$BASE/data/postgresql.conf" | tail -n 1)
if cluster_running data && [ "$before" != "$after" ]; then
	cluster_stop data
fi
cluster_running data || { say "starting the server"; cluster_start data; }

if [ -z "$(psql_demo postgres -Atc "SELECT 1 FROM pg_database WHERE datname = 'demo'")" ]; then
	psql_demo postgres -c 'CREATE DATABASE demo'
fi
say "creating the extension, and the table docs if it is not there"
psql_demo demo -v ON_ERROR_STOP=1 -c "SET client_min_messages = warning" -c "CREATE EXTENSION IF NOT EXISTS vllm_pg" \
	-c "ALTER EXTENSION vllm_pg UPDATE"
if [ -z "$(psql_demo demo -Atc "SELECT to_regclass('docs')")" ]; then
	psql_demo demo -v ON_ERROR_STOP=1 -1 <models/docs_sample.sql
fi

cat >"$DEMO_DIR/env.sh" <<ENV
export PGHOST=$SOCK PGPORT=$PORT PGUSER=postgres PGDATABASE=demo
ENV

[ "${1:-start}" = start ] || exit 0

tokens() { psql_demo demo -Atc "SELECT output_tokens FROM llm_stat_engine"; }
say "loading the bundled model, which was trained on support tickets and reviews and knows nothing else"
psql_demo demo -Atc "SET client_min_messages = warning; SELECT llm_load_model('tickets-2m')" >/dev/null
t0=$(tokens)
s=$(date +%s%N)
show "SELECT id, llm_generate(prompt, model => 'tickets-2m') FROM docs"
e=$(date +%s%N)
t1=$(tokens)
rows=$(psql_demo demo -Atc "SELECT count(*) FROM docs")
awk -v r="$rows" -v t=$((t1 - t0)) -v ns=$((e - s)) \
	'BEGIN { printf "%d rows, %d tokens, %.2f s, %.0f tokens/s\n", r, t, ns / 1e9, t / (ns / 1e9) }'

say "looking for models that are downloaded: SmolLM2-135M-Instruct, all-MiniLM-L6-v2"
wait_for_models
if [ -f build/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf ]; then
	demo_chat
else
	echo "the chat is left out: it needs SmolLM2-135M-Instruct"
fi
if [ -f build/minilm/model.safetensors ]; then
	say "search by meaning in 300 texts: all-MiniLM-L6-v2"
	demo_search
else
	echo "the search by meaning is left out: it needs all-MiniLM-L6-v2"
fi
echo "connect:  . $DEMO_DIR/env.sh && psql        stop:  make demo-stop"
