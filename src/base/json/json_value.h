/*
 * json_value.h
 *	  Values of a JSON text, read in place.
 *
 * A caller checks a text once as a whole (json_reader.h).  From then on its values are spans of the text
 * (json_scan.h), and reading one needs no tree: an embedding's numbers go straight into floats.
 */
#ifndef VLLM_BASE_JSON_JSON_VALUE_H
#define VLLM_BASE_JSON_JSON_VALUE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/json/json_scan.h"

/*
 * Return the kind of the value by its first byte: one of { [ " 0 (a number) t f n; also 'n' if the value
 * is absent (s = NULL).
 */
char		json_kind(StrView v);

/*
 * Find the members with these names; the last one of each name counts.  One that is absent or null
 * becomes {NULL, 0}.  Returns false if v is not an object; then all are absent.
 */
bool		json_fields(StrView v, const char *const *names, int n, StrView *out);

/*
 * Append the decoded text of a string to `out`.  Returns false if v is not a string, or has half a
 * surrogate pair or U+0000, which an SQL text cannot contain.
 */
bool		json_text(StrView v, Buf *out);
bool		json_is(StrView v, const char *word);	/* compares with a string without escapes */
/* Read a whole number; returns false if it is outside low .. high. */
bool		json_whole(StrView v, int64_t low, int64_t high, int64_t *out);
/*
 * Convert the number of n bytes at s; infinite if it exceeds a double's range.  The byte after it must
 * not be one that a number may contain.
 */
double		json_to_double(const char *s, size_t n);
/* Read a number; returns false if it is not finite. */
bool		json_num(StrView v, double *out);
/*
 * Append the array's numbers as floats to `out`.  Returns false if v is not an array, or an element is
 * not a number or not finite as a float.
 */
bool		json_floats(StrView v, Buf *out);

#endif
