#!/bin/bash
# Install, upgrade, remove and purge the packages in $ROOT, with a running cluster (tests/deb.sh).
. tests/deb/inside.sh
package=postgresql-$PG_MAJOR-vllm-pg
all="$package $package-http $package-remote"
version=$(scripts/version.py --print)
lib=/usr/lib/postgresql/$PG_MAJOR/lib
conf=$ROOT/etc/postgresql/$PG_MAJOR/main/conf.d

cluster() { inside pg_ctlcluster "$PG_MAJOR" main "$@" 2>&1; }
debs() { (cd "$ROOT" && for p in $all; do ls "mnt/$1/${p}"_*.deb; done | sed 's|^|/|'); }
state() { inside dpkg-query -W -f '${db:Status-Status} ${Version}\n' $all 2>&1 | sort -u; }
own() { (cd "$ROOT" && find . -xdev -name '*vllm*' ! -path './mnt/*' ! -path './etc/postgresql/*' ! -path './var/lib/postgresql/*'); }

if [ "${1:-}" != alone ]; then
	inside apt-get update -qq >/dev/null 2>&1
	get $(debs old)
	is 'the packages of 0.9 are installed, and what they depend on' $? '^0$'
fi
leave_network
is 'all of them' "$(state)" '^installed 0.9-1$'

# 0.9, with data
[ -d "$conf" ] || inside pg_createcluster "$PG_MAJOR" main >/dev/null
echo "shared_preload_libraries = 'vllm_pg'" >"$conf/vllm_pg.conf"
is 'a cluster starts' "$(cluster start; echo $?)" '^0$'
is 'the extension is created' "$(sql 'CREATE EXTENSION vllm_pg; SELECT extversion FROM pg_extension WHERE extname = $$vllm_pg$$')" '^0\.9$'
is 'a call is answered' "$(sql "$question")" "$answer"
sql "CREATE TABLE mails AS SELECT 1 AS id, E'Ticket: My order arrived early, thank you so much!\\nSentiment:'::text AS body;
	CREATE VIEW judged AS SELECT id, llm_generate(body) AS sentiment FROM mails;
	SELECT llm_create_model('mine', '$lib/vllm_pg/models/tickets-2m')" >/dev/null
is 'a view and a model of the user' "$(sql "SELECT sentiment, llm_generate(body, model => 'mine') FROM judged JOIN mails USING (id)")" '^ ?([a-z]+)\| ?\1$'

# upgrade, while the cluster runs
is 'the upgrade' "$(inside dpkg -i $(debs debs) >"$ROOT/tmp/dpkg.log" 2>&1; echo $?)" '^0$'
is 'of all packages' "$(state)" "^installed $version-1\$"
is 'the cluster still answers' "$(sql "$question")" "$answer"
is 'it knows the new version' "$(sql "SELECT default_version, installed_version FROM pg_available_extensions WHERE name = 'vllm_pg'")" "^$version\|0.9\$"
is 'ALTER EXTENSION UPDATE' "$(sql 'ALTER EXTENSION vllm_pg UPDATE; SELECT extversion FROM pg_extension WHERE extname = $$vllm_pg$$')" "^$version\$"
is 'the view and the model are still there' "$(sql "SELECT sentiment, llm_generate(body, model => 'mine') FROM judged JOIN mails USING (id)")" '^ ?([a-z]+)\| ?\1$'
is 'a restart' "$(cluster restart; echo $?)" '^0$'
is 'the new library' "$(sql 'SELECT llm_version()')" "^vllm_pg $version \\("
is 'answers' "$(sql 'SELECT sentiment FROM judged')" "$answer"
is 'programs are of this version' "$(for p in engine remote; do inside $lib/vllm_pg_$p --version | head -n 1; done | xargs)" "^vllm_pg_engine $version vllm_pg_remote $version\$"

# another revision: the engine may be replaced without a restart of the cluster
is 'another revision' "$(inside dpkg -i $(debs second) >"$ROOT/tmp/dpkg.log" 2>&1; echo $?)" '^0$'
is 'is installed' "$(state)" "^installed $version-2\$"
is 'the engine restarts from it' "$(sql 'SELECT llm_engine_restart()' >/dev/null; sql "$question")" "$answer"
pid=$(sql 'SELECT pid FROM llm_stat_engine')
is 'from the new file' "$(inside readlink "/proc/$pid/exe")" "^$lib/vllm_pg_engine\$"
is 'its system calls are filtered' "$(grep -a 'system calls are filtered' "$ROOT"/var/log/postgresql/*.log | tail -n 1)" 'engine'

# the HTTP server, by docs/user/http-server.md
sql 'CREATE ROLE vllm_http LOGIN NOINHERIT'
sed -i '1i local postgres vllm_http peer map=http' "$conf/../pg_hba.conf"
echo 'http postgres vllm_http' >>"$conf/../pg_ident.conf"
echo "vllm.http_port = 8000" >>"$conf/vllm_pg.conf"
cluster restart >/dev/null
health() { (exec 3<>/dev/tcp/127.0.0.1/8000 && printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3 && head -n 1 <&3) 2>/dev/null; }
for ((i = 0; i < 100; i++)); do [[ $(health) != *\ 200* ]] || break; sleep 0.2; done
is 'the HTTP server answers' "$(health)" '^HTTP/1.1 200'

# the programs that use the network can be left out
echo "vllm.allowed_hosts = 'http://127.0.0.1:9'" >>"$conf/vllm_pg.conf"
is 'the packages of programs that use the network are removed' "$(inside dpkg -r $package-http $package-remote >/dev/null 2>&1; echo $?)" '^0$'
cluster restart >/dev/null
is 'the rest works without them' "$(sql "$question")" "$answer"
is 'the setting of the HTTP server names its package' "$(sql 'ALTER SYSTEM SET vllm.http_port = 8001')" "HINT: .*package $package-http;"
sql "SELECT llm_create_model('far', provider => 'openai', url => 'http://127.0.0.1:9/v1', options => '{\"model\": \"x\"}')" >/dev/null
is 'a call of a remote model, too' "$(sql "SELECT llm_generate('x', model => 'far')")" "HINT: .*package $package-remote;"
is 'they are gone' "$(ls "$ROOT$lib"/vllm_pg_{http,remote} 2>/dev/null)" '^$'

# remove, and purge
rm "$conf/vllm_pg.conf"
cluster restart >/dev/null
is 'the package is removed' "$(inside dpkg -r $package >/dev/null 2>&1; echo $?)" '^0$'
is 'no file is left' "$(own | grep -v '/var/lib/dpkg/')" '^$'
is 'the cluster starts without it' "$(cluster restart; echo $?)" '^0$'
is 'tables are there' "$(sql 'SELECT count(*) FROM mails')" '^1$'
is 'calls tell what is missing' "$(sql 'SELECT sentiment FROM judged')" 'could not access file "\$libdir/vllm_pg"'
is 'the packages are purged' "$(inside dpkg -P $all >/dev/null 2>&1; echo $?)" '^0$'
is 'nothing is left' "$(own)" '^$'

# and back
is 'it is installed again, alone' "$(inside dpkg -i "$(debs second | head -n 1)" >"$ROOT/tmp/dpkg.log" 2>&1; echo $?)" '^0$'
echo "shared_preload_libraries = 'vllm_pg'" >"$conf/vllm_pg.conf"
cluster restart >/dev/null
is 'the database is as before' "$(sql 'SELECT sentiment FROM judged')" "$answer"
cluster stop >/dev/null

# what packaging/systemd/vllm_pg.conf restricts, as far as it can be done without systemd
restricted() {	# restricted COMMAND...: in name spaces of its own, as user postgres
	unshare --mount -- bash -c '
		for d in tmp home root; do mount -t tmpfs -o mode=1777 tmpfs "$ROOT/$d"; done
		for d in usr boot etc; do mount --bind "$ROOT/$d" "$ROOT/$d" && mount -o remount,bind,ro "$ROOT/$d"; done
		mount --bind "$ROOT/proc/sys" "$ROOT/proc/sys" && mount -o remount,bind,ro "$ROOT/proc/sys"
		exec prlimit --memlock=0 /usr/bin/python3 tests/deb/filtered.py "$ROOT" "$@"' - "$(inside id -u postgres)" "$@"
}
is 'the unit allows what the programs call' "$(python3 tests/deb/filtered.py --has $(sed -nE 's/^(ALLOW|WHEN)\(([a-z0-9_]+),.*/\2/p' src/*/*_syscalls.def | sort -u) seccomp landlock_restrict_self 2>&1)" '^$'
if /usr/bin/python3 -c 'import seccomp' 2>/dev/null; then
	restricted "/usr/lib/postgresql/$PG_MAJOR/bin/postgres" -D "/var/lib/postgresql/$PG_MAJOR/main" \
		-c config_file="/etc/postgresql/$PG_MAJOR/main/postgresql.conf" -c jit=off -c ssl=off >"$ROOT/var/log/restricted.log" 2>&1 &
	for ((i = 0; i < 100; i++)); do [ "$(sql 'SELECT 1')" != 1 ] || break; sleep 0.2; done
	is 'calls are answered under these restrictions' "$(sql 'SELECT sentiment FROM judged')" "$answer"
	is 'the programs restrict themselves there, too' "$(grep -cE 'system calls are filtered|closed by Landlock' "$ROOT/var/log/restricted.log")" '^[2-9]'
	kill -s INT "$(head -n 1 "$ROOT/var/lib/postgresql/$PG_MAJOR/main/postmaster.pid")"
	wait
else
	skip 2 'missing: python3-seccomp'
fi

cluster start >/dev/null
is 'the extension is dropped' "$(sql 'DROP EXTENSION vllm_pg CASCADE' >/dev/null; sql 'SELECT count(*) FROM pg_extension WHERE extname = $$vllm_pg$$')" '^0$'
is 'the cluster stops' "$(cluster stop; echo $?)" '^0$'
tell packages
