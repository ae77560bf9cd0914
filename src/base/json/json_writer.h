/*
 * json_writer.h
 *	  Write JSON text, value after value, into a Buf.
 *
 * The escape functions alone are for texts whose commas and blanks follow other rules.  The writer sets
 * the commas and keeps keys in the order in which they are written.  It does not check that brackets
 * match: that is the caller's duty.
 */
#ifndef VLLM_BASE_JSON_JSON_WRITER_H
#define VLLM_BASE_JSON_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct JsonOut
{
	Buf		   *b;
	bool		comma;			/* a value precedes, so the next one needs a comma */
} JsonOut;

void		json_open(JsonOut *j, char bracket);	/* { or [ */
void		json_close(JsonOut *j, char bracket);
void		json_key(JsonOut *j, const char *key);
void		json_colon(JsonOut *j);	/* call it after a string that is a key */
/* Write a UTF-8 string; invalid bytes become U+FFFD. */
void		json_str(JsonOut *j, const char *s, size_t n);
void		json_cstr(JsonOut *j, const char *s);	/* NULL writes null */
void		json_int(JsonOut *j, int64_t v);
void		json_bool(JsonOut *j, bool v);
void		json_null(JsonOut *j);
/* Write the shortest text that reads back as the same float; null if it is not finite. */
void		json_float(JsonOut *j, float v);
/* The same for a double. */
void		json_double(JsonOut *j, double v);
/* Write text that is already JSON. */
void		json_raw(JsonOut *j, const char *s, size_t n);

/* ---- strings alone ---- */

#define JSON_ESCAPE_MOST	13	/* largest size of an escape, with the NUL: "\ud83d\ude00" */

/*
 * Write the escape that the character c needs into `to` and return its bytes; 0 = c needs none.  ascii:
 * every character above ASCII needs one.
 */
size_t		json_escape(uint32_t c, bool ascii, char *to);
/* Append these bytes as the inside of a string, or of a part of one; bytes above ASCII are not escaped. */
void		json_add_escaped(Buf *b, const char *s, size_t n);
void		json_add_quoted(Buf *b, const char *s, size_t n);	/* with quotes */

/* Write a member of an object. */
void		json_key_cstr(JsonOut *j, const char *key, const char *s);
void		json_key_int(JsonOut *j, const char *key, int64_t v);
void		json_key_null(JsonOut *j, const char *key);

#endif
