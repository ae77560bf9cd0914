/*
 * json_reader.h
 *	  Endpoints' JSON, read in place.
 *
 * A text is checked once as a whole (rjson_check); from then on its values are spans of it, and reading one needs no
 * tree: an embedding's numbers go straight into floats.
 */
#ifndef VLLM_REMOTE_CODEC_JSON_READER_H
#define VLLM_REMOTE_CODEC_JSON_READER_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_scan.h"

#define RJSON_DEPTH	128			/* levels of brackets */

/* Is it one JSON text (RFC 8259) in UTF-8, nested at most RJSON_DEPTH deep?  ERR_PROTOCOL else. */
bool		rjson_check(const char *s, size_t n, Err *e);

/* What begins the value: one of { [ " 0 (a number) t f n, or 'n' too for a value that is absent (s = NULL). */
char		rjson_kind(JsonSpan v);

/*
 * The members of these names, the last one of each counts; one that is absent or null becomes {NULL, 0}.  False: v is no
 * object (all are absent then).
 */
bool		rjson_fields(JsonSpan v, const char *const *names, int n, JsonSpan *out);

/* A string's text behind what is in `out`.  False: no string, a half of a surrogate pair, or U+0000, which no text of SQL can have. */
bool		rjson_text(JsonSpan v, Buf *out);
bool		rjson_is(JsonSpan v, const char *word);	/* a string without escapes */
/* What the four hexadecimal digits of an escape say; -1: they aren't. */
int32_t		rjson_hex4(const char *s, const char *end);
/* A whole number of low .. high. */
bool		rjson_int(JsonSpan v, int64_t low, int64_t high, int64_t *out);
/* A finite number. */
bool		rjson_num(JsonSpan v, double *out);
/* The array's numbers as floats behind what is in `out`; false: not an array, or one that is no number, or not finite as a float. */
bool		rjson_floats(JsonSpan v, Buf *out);

#endif
