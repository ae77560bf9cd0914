# cluster.sh: functions for the private clusters of the demo and the tests; sourced, not run.
#
# The caller sets PG_CONFIG and calls cluster_base DIR first.  As root the server runs as user postgres, so
# that user must be able to reach the cluster's folder: if it can't reach DIR (in a home folder of mode 700,
# say), a folder under /var/tmp replaces DIR.  All files of a cluster are under $BASE: install/ (a private
# copy of what `make install` installs), data/, log, the socket.

PG_BIN=$($PG_CONFIG --bindir)
PG_MAJOR=$($PG_CONFIG --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')

if [ "$(id -u)" = 0 ]; then
	PG_USER=postgres
	id postgres >/dev/null 2>&1 || useradd -r -M -d /nonexistent -s /bin/sh postgres
else
	PG_USER=$(id -un)
fi

# Run a command as the server's user.
as_pg() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- env PATH="$PG_BIN:$PATH" HOME="$BASE" LC_ALL=C.UTF-8 "$@"
	else
		env PATH="$PG_BIN:$PATH" LC_ALL=C.UTF-8 "$@"
	fi
}

cluster_base() {	# cluster_base DIR: sets BASE
	mkdir -p "$1"
	BASE=$(cd "$1" && pwd)
	if [ "$(id -u)" = 0 ] && ! runuser -u postgres -- test -x "$BASE" 2>/dev/null; then
		BASE=/var/tmp/vllm_pg-$(basename "$1")-$(echo "$BASE" | cksum | cut -d' ' -f1)
		mkdir -p "$BASE"
		echo "$1 can't be reached by user postgres, the cluster lies in $BASE"
	fi
	# sun_path holds 107 bytes, the socket's name included
	SOCK=$BASE
	if [ ${#SOCK} -gt 80 ]; then
		SOCK=/tmp/vllm_pg-$(echo "$BASE" | cksum | cut -d' ' -f1)
		mkdir -p "$SOCK"
	fi
	[ "$(id -u)" != 0 ] || chown postgres: "$BASE" "$SOCK"
}

# Install the tests' build privately, or with CLUSTER_RELEASE=1 the release; set EXT_CONF, the settings by
# which the server finds it.
cluster_install() {
	if [ -n "${PG_PREFIX:-}" ]; then	# a private PostgreSQL: install into it
		make -s install RELEASE="${CLUSTER_RELEASE:-}" PG_CONFIG="$PG_CONFIG" || return 1
		EXT_CONF=
	else
		make -s install RELEASE="${CLUSTER_RELEASE:-}" PG_CONFIG="$PG_CONFIG" DESTDIR="$BASE/install" || return 1
		EXT_CONF="extension_destdir = '$BASE/install'
dynamic_library_path = '$BASE/install$($PG_CONFIG --pkglibdir):\$libdir'"
	fi
}

free_port() {	# free_port FROM: print the first free port from FROM on (TCP and our socket)
	p=$1
	while (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || [ -e "$SOCK/.s.PGSQL.$p" ]; do p=$((p + 1)); done
	echo "$p"
}

# cluster_init NAME PORT "EXTRA CONF": run initdb for $BASE/NAME
cluster_init() {
	rm -rf "${BASE:?}/$1"
	as_pg "$PG_BIN/initdb" -D "$BASE/$1" -A trust -U postgres -N -E UTF8 --locale=C.UTF-8 >"$BASE/initdb.log" 2>&1 ||
		{ cat "$BASE/initdb.log"; return 1; }
	as_pg sh -c "cat >> '$BASE/$1/postgresql.conf'" <<C
listen_addresses = ''
unix_socket_directories = '$SOCK'
port = $2
shared_preload_libraries = 'vllm_pg'
$EXT_CONF
$3
C
}

cluster_running() { as_pg "$PG_BIN/pg_ctl" -D "$BASE/$1" status >/dev/null 2>&1; }
# SERVER_ENV: environment variables for the server only, such as LD_PRELOAD
cluster_start() {
	as_pg env ${SERVER_ENV:-} "$PG_BIN/pg_ctl" -D "$BASE/$1" -l "$BASE/$1.log" -w -t 60 start >/dev/null ||
		{ tail -n 20 "$BASE/$1.log"; return 1; }
}
cluster_stop() { as_pg "$PG_BIN/pg_ctl" -D "$BASE/$1" -m "${2:-fast}" -w stop >/dev/null 2>&1; }
