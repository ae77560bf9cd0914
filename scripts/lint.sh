#!/bin/bash
# What a machine can see of the house rules: who may include whom, sizes of files and
# functions, words that may not occur.  Prints each offence, then `lint: N passed, ...`.
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

# Includes of our own may only point down (docs/tour.md has the picture).  allow DIR PATTERN:
# quoted includes in DIR must match the pattern.
allow() {
	[ -d "$1" ] || return 0
	rule "layers: $1" "$(grep -rnE '^#include "' "$1" --include='*.[ch]' --include='*.cu' --include='*.cuh' |
		grep -vE "#include \"($2)" | grep -vE '#include "[a-z0-9_]+\.(h|def)"$')"
}
allow src/base 'base/'
allow src/wire 'wire/'
allow src/text 'text/|base/'
allow src/grammar 'grammar/|base/'
allow src/parse 'parse/|base/'
allow src/quant 'quant/|base/|blocks\.h'
allow src/load 'load/|quant/|base/|blocks\.h|text/tokenizer\.h'
allow src/model 'model/|quant/|base/|kernels\.h|blocks\.h'
allow src/talk 'talk/|wire/|base/'
allow src/remote 'remote/|talk/|wire/|base/'
allow src/http 'http/|base/|wire/traceparent'
allow src/engine 'engine/|talk/|model/|text/|grammar/|parse/|load/|wire/|base/|quant/|kernels\.h|pool\.h|blocks\.h'
allow kernels 'ref/|cpu/|cuda/|emu/|simde/'
rule "layers: no PostgreSQL header outside src/pg and bgworker" \
	"$(grep -rnE '#include "(postgres|fmgr|miscadmin|storage/|utils/|access/)' src/base src/wire src/text src/grammar src/parse src/load src/quant src/model src/engine src/http src/talk src/remote kernels)"
rule "layers: no engine header in PostgreSQL processes" \
	"$(grep -rnE '#include "(engine|model|text|grammar|load|quant|base|talk|remote|kernels)/?' src/pg bgworker)"
rule "layers: no bare include of another module's header" "$(
	for d in base wire talk remote text grammar load quant model engine; do
		[ -d src/$d ] || continue
		grep -rnoE '^#include "[a-z0-9_]+\.h"' src/$d | while IFS=: read -r f l inc; do
			h=$(echo "$inc" | sed 's/.*"\(.*\)"/\1/')
			[ -f "src/$d/$h" ] || [ -f "kernels/$h" ] || echo "$f:$l: $h"
		done
	done)"
rule "kernels know no request" "$(grep -rniw 'requests\?' kernels --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.def')"
rule "threads and model code stay out of PostgreSQL" "$(grep -rnE 'pthread_|#include <(omp|cblas)' src/pg bgworker)"
# the emulation is in the driver's place, which has its own
rule "no getenv in the engine" "$(grep -rnw getenv src kernels bgworker | grep -v "^kernels/emu/")"
rule "the forward pass computes by ops alone" "$(grep -rnE '\b(kpool_run|mat_row)\(' src/model --include='*.c' | grep -vE '^src/model/(pack|packcache|rope|model|heads|lora|pooler)\.c')"
rule "no architecture tests outside arch files" "$(grep -rnE 'strcmp\([^)]*arch' src/engine src/model/decoder.c src/model/model.c 2>/dev/null)"

src() { git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' '*.cuh'; }
rule "files under 1,200 lines" "$(src | grep -v 'unicode_tables' | xargs wc -l | awk '$2 != "total" && $1 > 1200 { print $2 ": " $1 " lines" }')"
rule "functions under 100 lines (80 is the aim)" "$(src | grep -v '_tables' | xargs awk '
	FNR == 1 { open = 0 }
	/^\{/ { open = before !~ /^(typedef )?(struct|enum|union) /; start = FNR }
	{ before = $0 }
	/^\}/ { if (open && FNR - start > 100) print FILENAME ":" start ": " FNR - start " lines"; open = 0 }')"
rule "every C file begins with its story" "$(src | while read -r f; do head -n 1 "$f" | grep -q '^/\*' || echo "$f"; done)"
rule "no unfinished marks" "$(src | xargs grep -nE '\b(TODO|FIXME|XXX|HACK)\b')"
rule "no machine path" "$(git ls-files -co --exclude-standard | grep -vE '^(models/.*(json|safetensors|txt)|tests/fixtures/)' | xargs grep -nIE '(^|[ "=(:])/(work|opt/ref|farm)/' | grep -v '^scripts/lint.sh')"
rule "scripts parse" "$(for f in scripts/*.sh bench/*.sh; do [ ! -f "$f" ] || bash -n "$f" 2>&1; done)"
rule "benchmarks say their usage and refuse unknown options" "$(for b in bench/*; do
	[ -x "$b" ] && [ -f "$b" ] || continue
	"$b" --help 2>&1 | grep -q "${b##*/}" || echo "$b --help does not say its usage"
	"$b" --no-such-option >/dev/null 2>&1; [ $? = 2 ] || echo "$b takes --no-such-option"; done)"
rule "register tiles keep their sums in registers (scripts/tiles.sh)" "$(scripts/tiles.sh 2>&1)"
rule "every setting is documented" "$(grep -ohE '"vllm\.[a-z_]+"' src/pg/guc*.c 2>/dev/null | tr -d '"' | sort -u | while read -r g; do
	grep -q "$g" docs/*.md || echo "$g is not in docs/"; done)"
rule "every SQL function is documented" "$(grep -ohE 'CREATE( OR REPLACE)? (FUNCTION|VIEW) @extschema@\.llm_[a-z_]+' sql/vllm_pg--[0-9.]*.sql 2>/dev/null | sed 's/.*\.//' | sort -u | while read -r f; do
	grep -q "$f" docs/sql.md || echo "$f is not in docs/sql.md"; done)"
rule "names in SQL have their schema (scripts/sqlnames.py)" "$(scripts/sqlnames.py --test sql/*.sql src/pg/*.c bgworker/*.c src/http/*.c 2>&1)"

echo "lint: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
