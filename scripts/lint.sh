#!/bin/bash
# Check the house rules that a script can check: which folder includes which, sizes of files and functions,
# forbidden words.  Prints each offence, then `lint: N passed, ...`.
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
rule() {	# rule NAME OFFENCES
	if [ -z "$2" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $1:"
		echo "$2" | head -n 12 | sed 's/^/    /'
	fi
}

# Our own includes may only point down, and folders are small (scripts/layers.txt).
rule "layers and folders (scripts/layers.py)" "$(scripts/layers.py 2>&1)"
rule "layers: kernels" "$(grep -rnE '^#include "' kernels --include='*.[ch]' --include='*.cu' --include='*.cuh' |
	grep -vE '#include "(ref/|cpu/|cuda/|emu/|simde/)' | grep -vE '#include "[a-z0-9_]+\.(h|def)"$')"
rule "layers: no PostgreSQL header outside src/pg" \
	"$(grep -rnE '#include "(postgres|fmgr|miscadmin|storage/|utils/|access/)' src kernels | grep -v '^src/pg/')"
rule "kernels know no request" "$(grep -rniw 'requests\?' kernels --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.def')"
rule "threads and model code stay out of PostgreSQL" "$(grep -rnE 'pthread_|#include <(omp|cblas)' src/pg)"
# kernels/emu replaces the CUDA driver, which reads environment variables of its own
rule "no getenv in the engine" "$(grep -rnw getenv src kernels | grep -v "^kernels/emu/")"
rule "the forward pass computes by ops alone" "$(grep -rnE '\b(kpool_run|mat_row)\(' src/model --include='*.c' | grep -vE '^src/model/(weights/(pack|pack_cache)|layers/(rope|heads|pooler)|lora/lora|model)\.c')"
rule "no architecture tests outside arch files" "$(grep -rnE 'strcmp\([^)]*arch' src/backend src/core src/runtime src/server src/model/layers/decoder.c src/model/model.c 2>/dev/null)"

src() { git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' '*.cuh'; }
rule "files under 1,200 lines" "$(src | grep -v 'unicode_tables' | xargs wc -l | awk '$2 != "total" && $1 > 1200 { print $2 ": " $1 " lines" }')"
rule "functions under 100 lines (80 is the aim)" "$(src | grep -v '_tables' | xargs awk '
	FNR == 1 { open = 0 }
	/^\{/ { open = before !~ /^(typedef )?(struct|enum|union) /; start = FNR }
	{ before = $0 }
	/^\}/ { if (open && FNR - start > 100) print FILENAME ":" start ": " FNR - start " lines"; open = 0 }')"
rule "no more offences than scripts/baseline.txt has (scripts/baseline.py)" "$(scripts/baseline.py 2>&1)"
rule "every C file begins with its story" "$(src | while read -r f; do head -n 1 "$f" | grep -q '^/\*' || echo "$f"; done)"
rule "what PostgreSQL's versions differ in is in src/pg/compat.h" "$(git grep -n PG_VERSION_NUM -- src | grep -v '^src/pg/compat\.h:')"
rule "no unfinished marks" "$(src | xargs grep -nE '\b(TODO|FIXME|XXX|HACK)\b')"
rule "no machine path" "$(git ls-files -co --exclude-standard | grep -vE '^(models/.*(json|safetensors|txt)|tests/fixtures/)' | xargs grep -nIE '(^|[ "=(:])/(work|opt/ref|farm)/' | grep -v '^scripts/lint.sh')"
rule "comments and docs name files, functions and constants that exist (scripts/named_things.py)" "$(scripts/named_things.py 2>&1)"
rule "links of Markdown files lead somewhere, docs/README.md has all pages (scripts/links.py)" "$(scripts/links.py 2>&1)"
rule "commits say area: imperative in at most 72 columns" "$(git log --no-merges --format=%s bdcd5edd15b8..HEAD 2>/dev/null |
	awk 'length > 72 || !/^[a-z0-9_]+: [a-z]/')"
rule "areas of commits are in scripts/areas.txt" "$(git log --no-merges --format=%s dc3a110d8ee9..HEAD 2>/dev/null |
	awk 'NR == FNR { if (!/^#/) for (i = 1; i <= NF; i++) area[$i]; next } !(substr($0, 1, index($0, ":") - 1) in area)' scripts/areas.txt -)"
rule "scripts parse" "$(for f in scripts/*.sh scripts/check/*.sh bench/*.sh; do [ ! -f "$f" ] || bash -n "$f" 2>&1; done)"
rule "benchmarks say their usage and refuse unknown options" "$(for b in bench/*; do
	[ -x "$b" ] && [ -f "$b" ] || continue
	"$b" --help 2>&1 | grep -q "${b##*/}" || echo "$b --help does not say its usage"
	"$b" --no-such-option >/dev/null 2>&1; [ $? = 2 ] || echo "$b takes --no-such-option"; done)"
rule "register tiles keep their sums in registers (scripts/tiles.sh)" "$(scripts/tiles.sh 2>&1)"
rule "every setting is documented" "$(grep -ohE '"vllm\.[a-z_]+"' src/pg/init/guc*.c 2>/dev/null | tr -d '"' | sort -u | while read -r g; do
	grep -q "$g" docs/*/*.md || echo "$g is not in docs/"; done)"
# Compare the names of a table's rows with the first column of a table in the docs; diff prints what only
# one of them has.
rule "docs/user/models.md has the options of src/runtime/model_options.def" "$(diff \
	<(sed -nE 's/^(OPT|CALLER_OPTION)\((\w+).*/\2/p' src/runtime/model_options.def src/ipc/caller_options.def | sort) \
	<(sed -n '/^## Options/,/^###/p' docs/user/models.md | sed -nE 's/^\| (`[^|]*) \|.*/\1/p' | grep -o '[a-z_0-9]*' | sort))"
rule "every option of a call is documented" "$(sed -nE 's/^(POOL_)?FIELD\(\w+, [0-9]+, (\w+),.*/\2/p; s/^CALL_OPTION\((\w+),.*/\1/p' src/ipc/{request,pooling}_fields.def |
	while read -r o; do grep -qE "\`[^\`]*\b$o\b" docs/*/*.md || echo "$o is not in docs/"; done)"
rule "every SQL function is documented" "$(grep -ohE 'CREATE( OR REPLACE)? (FUNCTION|VIEW) @extschema@\.llm_[a-z_]+' sql/vllm_pg--[0-9.]*.sql 2>/dev/null | sed 's/.*\.//' | sort -u | while read -r f; do
	grep -q "$f" docs/user/sql.md || echo "$f is not in docs/user/sql.md"; done)"
rule "comments of SQL objects are the same everywhere (scripts/sqlcomments.py)" "$(scripts/sqlcomments.py 2>&1)"
rule "the version is the same everywhere (scripts/version.py)" "$(scripts/version.py 2>&1)"
rule "META.json is what PGXN takes (scripts/pgxn_meta.py)" "$(scripts/pgxn_meta.py 2>&1)"
rule "names in SQL have their schema (scripts/sqlnames.py)" "$(scripts/sqlnames.py --test sql/*.sql $(git ls-files -co --exclude-standard 'src/pg/*.c' 'src/httpd/*.c') 2>&1)"

echo "lint: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
