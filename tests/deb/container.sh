#!/bin/bash
# Do in $ROOT what the last stage of packaging/Dockerfile does, then what a container does (tests/deb.sh).
. tests/deb/inside.sh
file=packaging/Dockerfile
run=$ROOT/run

if [ "${1:-}" != alone ]; then
	# a line each of `RUN COMMAND`, of the last stage, without --mount: the packages are in /mnt already
	mv "$ROOT"/mnt/debs/*.deb "$ROOT/mnt/"
	python3 tests/deb/dockerfile.py --runs "$file" | while read -r command; do
		inside sh -ec "$command" >"$ROOT/tmp/run.log" 2>&1 || { echo "$command"; tail -n 20 "$ROOT/tmp/run.log"; }
	done >"$ROOT/tmp/runs"
	is 'every RUN of the last stage' "$(cat "$ROOT/tmp/runs")" '^$'
	install -m 755 packaging/entrypoint.sh "$ROOT/usr/local/bin/vllm_pg_entrypoint"
fi
leave_network

user=$(python3 tests/deb/dockerfile.py --value USER "$file")
is 'the user is no root' "$user" '^[1-9][0-9]*:[1-9][0-9]*$'
environment=$(python3 tests/deb/dockerfile.py --value ENV "$file")
contained() { inside setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs --bounding-set=-all -- \
	env -i HOME=/var/lib/postgresql PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "export $environment; exec \"\$@\"" - "$@"; }

is 'no cluster is in the image' "$(ls "$ROOT/etc/postgresql" 2>/dev/null)" '^$'
is 'no password, no cluster' "$(contained vllm_pg_entrypoint 2>&1)" 'POSTGRES_PASSWORD_FILE must name a file'
echo 'Sesame9' >"$ROOT/tmp/password" && chmod 644 "$ROOT/tmp/password"
export -n PGPASSWORD
contained env POSTGRES_PASSWORD_FILE=/tmp/password vllm_pg_entrypoint -c vllm.cpu_threads=1 >"$ROOT/tmp/server.log" 2>&1 &
healthy() { eval "contained $(python3 tests/deb/dockerfile.py --value HEALTHCHECK "$file")"; }
for ((i = 0; i < 150; i++)); do healthy && break; sleep 0.2; done
is 'the container is healthy' "$(healthy; echo $?)" '^0$'
ask() { contained env "$@" 2>&1; }
is 'psql in the container needs no password' "$(ask psql -XAtq -U postgres -c 'CREATE EXTENSION vllm_pg' -c "$question")" "$answer"
is 'a client on the network does' "$(ask psql -XAtq -w -h 127.0.0.1 -U postgres -c 'SELECT 1')" 'no password supplied'
is 'and gets in with it' "$(ask PGPASSWORD=Sesame9 psql -XAtq -w -h 127.0.0.1 -U postgres -c "$question")" "$answer"
is 'filters work without privileges' "$(grep -c 'system calls are filtered' "$ROOT/tmp/server.log")" '^[1-9]'
server=$(head -n 1 "$ROOT/var/lib/postgresql/data/postmaster.pid")
signal=$(python3 tests/deb/dockerfile.py --value STOPSIGNAL "$file")
kill -s "${signal#SIG}" "$server"
for ((i = 0; i < 50; i++)); do kill -0 "$server" 2>/dev/null || break; sleep 0.2; done
is 'it ends by its signal' "$(tail -n 1 "$ROOT/tmp/server.log")" 'database system is shut down'
contained vllm_pg_entrypoint >"$ROOT/tmp/server.log" 2>&1 &
for ((i = 0; i < 150; i++)); do healthy && break; sleep 0.2; done
is 'it starts again from its volume' "$(ask psql -XAtq -U postgres -c "$question")" "$answer"
kill -s "${signal#SIG}" "$(head -n 1 "$ROOT/var/lib/postgresql/data/postmaster.pid")"
wait
tell container
