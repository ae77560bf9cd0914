#!/bin/sh
# Install the module, the engine, the HTTP server, the remote program and the GPU library if they were
# built, the SQL scripts, the bundled model, and among PostgreSQL's programs vllm_pg_pull.
#
#	PG_CONFIG=... MODULE=build/release/pg15/vllm_pg.so ENGINE=build/release/vllm_pg_engine HTTP= REMOTE= CUDA= \
#		[DESTDIR=...] scripts/install.sh
#
# The script puts all files that belong together into one folder ($pkglibdir).  The library finds the others
# from its own path, so that a copied tree works, too.  The script replaces files by rename, never in place,
# so that a running engine keeps its own.
set -eu
lib=${DESTDIR:-}$($PG_CONFIG --pkglibdir)
ext=${DESTDIR:-}$($PG_CONFIG --sharedir)/extension

put() {	# put MODE FILE DIR
	mkdir -p "$3"
	cmp -s "$2" "$3/$(basename "$2")" && return 0
	cp "$2" "$3/.new.$$" && chmod "$1" "$3/.new.$$" && mv -f "$3/.new.$$" "$3/$(basename "$2")"
}

put 755 "$MODULE" "$lib"
put 755 "$ENGINE" "$lib"
[ -z "${HTTP:-}" ] || put 755 "$HTTP" "$lib"
[ -z "${REMOTE:-}" ] || put 755 "$REMOTE" "$lib"
[ -z "${CUDA:-}" ] || put 755 "$CUDA" "$lib"
put 755 client/vllm_pg_pull "${DESTDIR:-}$($PG_CONFIG --bindir)"
# the header that a logits processor is compiled with
put 644 src/core/sample/vllm_logits_processor.h "${DESTDIR:-}$($PG_CONFIG --includedir-server)/extension/vllm_pg"
for f in vllm_pg*.control sql/vllm_pg*.sql; do put 644 "$f" "$ext"; done
for d in models/*/; do
	[ -f "$d/config.json" ] || continue
	for f in "$d"*; do put 644 "$f" "$lib/vllm_pg/models/$(basename "$d")"; done
done
