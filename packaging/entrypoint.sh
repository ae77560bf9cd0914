#!/bin/sh
# The container's first process: makes a cluster in $PGDATA if there is none, then becomes the server.
#
#	POSTGRES_PASSWORD_FILE	file with the password of role postgres, for the new cluster; clients on the
#							network need it, psql in the container does not
#
# Arguments are those of `postgres`, such as -c vllm.cpu_threads=8.
set -eu

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	if [ ! -r "${POSTGRES_PASSWORD_FILE:-}" ]; then
		echo "POSTGRES_PASSWORD_FILE must name a file with the password of role postgres" >&2
		exit 1
	fi
	initdb -D "$PGDATA" -U postgres -E UTF8 --locale=C.UTF-8 --auth-local=peer --auth-host=scram-sha-256 \
		--pwfile="$POSTGRES_PASSWORD_FILE"
	echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
	cat >>"$PGDATA/postgresql.conf" <<-CONF
		listen_addresses = '*'
		shared_preload_libraries = 'vllm_pg'
	CONF
fi
exec postgres -D "$PGDATA" "$@"
