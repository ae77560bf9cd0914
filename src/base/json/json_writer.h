/*
 * json_writer.h
 *	  Writes JSON text, value after value, into a Buf.
 *
 * Also the escapes of a string alone, for texts whose commas and blanks follow another rule.  Commas are
 * set by the writer; keys come in the order they are written.  Nothing checks that brackets match: that is
 * the caller's.
 */
#ifndef VLLM_BASE_JSON_JSON_WRITER_H
#define VLLM_BASE_JSON_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct JsonOut
{
	Buf		   *b;
	bool		comma;			/* a value precedes */
} JsonOut;

void		json_open(JsonOut *j, char bracket);	/* { or [ */
void		json_close(JsonOut *j, char bracket);
void		json_key(JsonOut *j, const char *key);
void		json_colon(JsonOut *j);	/* behind a string that is a key */
/* UTF-8; what is not becomes U+FFFD */
void		json_str(JsonOut *j, const char *s, size_t n);
void		json_cstr(JsonOut *j, const char *s);	/* NULL = null */
void		json_int(JsonOut *j, int64_t v);
void		json_bool(JsonOut *j, bool v);
void		json_null(JsonOut *j);
/* the shortest text that reads back as the same float; null if it is not finite */
void		json_float(JsonOut *j, float v);
/* the same for a double */
void		json_double(JsonOut *j, double v);
/* text that is JSON already */
void		json_raw(JsonOut *j, const char *s, size_t n);

/* ---- strings alone ---- */

#define JSON_ESCAPE_MOST	13	/* bytes of an escape, with the NUL: "\ud83d\ude00" */

/*
 * The escape that the character c needs, into `to`; its bytes, 0: it stands as it is.  ascii: none above
 * ASCII does.
 */
size_t		json_escape(uint32_t c, bool ascii, char *to);
/*
 * The inside of a string that says these bytes, which may be a piece of one; bytes above ASCII stay as they
 * are.
 */
void		json_add_escaped(Buf *b, const char *s, size_t n);
void		json_add_quoted(Buf *b, const char *s, size_t n);	/* with its quotes */

/* a member of an object */
void		json_key_cstr(JsonOut *j, const char *key, const char *s);
void		json_key_int(JsonOut *j, const char *key, int64_t v);
void		json_key_null(JsonOut *j, const char *key);

#endif
