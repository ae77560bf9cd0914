# inside.sh: functions of the scripts that run in a root of their own.  Sourced, not run.
passed=0 failed=0 skipped=0
. tests/deb/is.sh
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

inside() { chroot "$ROOT" "$@"; }
as_postgres() { inside setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; }
sql() {	# sql STATEMENT [DATABASE]: its result, or its error
	(cd / && as_postgres psql -XAtq -v ON_ERROR_STOP=1 -d "${2:-postgres}" -c "$1" 2>&1)
}

# Install with what the packages depend on.
get() {
	inside apt-get install -y -qq --no-install-recommends "$@" >"$ROOT/tmp/apt.log" 2>&1 || { tail -n 20 "$ROOT/tmp/apt.log"; false; }
}

# A network of its own from now on: a loopback whose ports are all free.
leave_network() {
	exec 9<>/dev/null
	[ -n "${NETLESS:-}" ] || NETLESS=1 exec unshare --net bash -c 'ip link set lo up; exec bash "$@"' - "$0" alone
}

question="SELECT llm_generate(E'Ticket: My order arrived early, thank you so much!\\nSentiment:')"
answer='^ ?(positive|neutral|negative)$'
