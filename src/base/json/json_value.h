/*
 * json_value.h
 *	  Values of a JSON text, read in place.
 *
 * A text is checked once as a whole (json_reader.h); from then on its values are spans of it (json_scan.h),
 * and reading one needs no tree: an embedding's numbers go straight into floats.
 */
#ifndef VLLM_BASE_JSON_JSON_VALUE_H
#define VLLM_BASE_JSON_JSON_VALUE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/json/json_scan.h"

/*
 * What begins the value: one of { [ " 0 (a number) t f n, or 'n' too for a value that is absent (s = NULL).
 */
char		json_kind(StrView v);

/*
 * The members of these names, the last one of each counts; one that is absent or null becomes {NULL, 0}.
 * False: v is no object (all are absent then).
 */
bool		json_fields(StrView v, const char *const *names, int n, StrView *out);

/*
 * A string's text behind what is in `out`.  False: no string, a half of a surrogate pair, or U+0000, which
 * no text of SQL can have.
 */
bool		json_text(StrView v, Buf *out);
bool		json_is(StrView v, const char *word);	/* a string without escapes */
/* A whole number of low .. high. */
bool		json_whole(StrView v, int64_t low, int64_t high, int64_t *out);
/* The number at s, of n bytes, infinite beyond a double's; the byte behind it is none that a number has. */
double		json_to_double(const char *s, size_t n);
/* A finite number. */
bool		json_num(StrView v, double *out);
/*
 * The array's numbers as floats behind what is in `out`; false: not an array, or one that is no number, or
 * not finite as a float.
 */
bool		json_floats(StrView v, Buf *out);

#endif
