#!/bin/bash
# Run the demo: a private cluster under demo/, the bundled model, a table of tickets and the first query;
# then a table of 300 short texts and a search by meaning, if the model for it can be installed
# (scripts/minilm).  `demo.sh start` builds, starts or restarts what has changed and runs the queries;
# `demo.sh stop` ends the server.  The script does not touch the user's own clusters.  DEMO_DIR names
# another folder than demo (the test suite uses it).
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

tokens() { psql_demo demo -Atc "SELECT output_tokens FROM llm_stat_engine"; }
say "loading the model"
psql_demo demo -Atc "SELECT llm_load_model(current_setting('vllm.model'))" >/dev/null
echo "demo=# SELECT id, llm_generate(prompt) FROM docs;"
t0=$(tokens)
s=$(date +%s%N)
psql_demo demo -P pager=off -c "SELECT id, llm_generate(prompt) FROM docs"
e=$(date +%s%N)
t1=$(tokens)
rows=$(psql_demo demo -Atc "SELECT count(*) FROM docs")
awk -v r="$rows" -v t=$((t1 - t0)) -v ns=$((e - s)) \
	'BEGIN { printf "%d rows, %d tokens, %.2f s, %.0f tokens/s\n", r, t, ns / 1e9, t / (ns / 1e9) }'

# search by meaning, with a model that is downloaded
say "search by meaning: looking for all-MiniLM-L6-v2"
scripts/minilm
if [ -f build/minilm/model.safetensors ]; then
	if [ ! -f "$BASE/minilm/model.safetensors" ]; then
		cp -r build/minilm "$BASE/minilm.new" && chmod -R a+rX "$BASE/minilm.new" && mv -T "$BASE/minilm.new" "$BASE/minilm"
	fi
	if [ -z "$(psql_demo demo -Atc "SELECT to_regclass('passages')")" ]; then
		{
			echo "SET client_min_messages = warning;"
			cat models/passages_sample.sql
			echo "SELECT llm_create_model('minilm', '$BASE/minilm'); UPDATE passages SET embedding = llm_embed(body, model => 'minilm');"
		} | psql_demo demo -v ON_ERROR_STOP=1 -1 -o /dev/null
	fi
	search="SELECT round(distance::numeric, 2) AS distance, subject, body
FROM llm_nearest('Can I send the shoes back and get my money?', 'passages', 'embedding', 5, model => 'minilm') n
     JOIN passages p ON p.ctid = n.row_id ORDER BY n.distance"
	echo "demo=# $search;"
	psql_demo demo -P pager=off -c "$search"
else
	echo "the search by meaning is left out: it needs all-MiniLM-L6-v2"
fi
echo "connect:  . $DEMO_DIR/env.sh && psql        stop:  make demo-stop"
