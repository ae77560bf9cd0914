/*
 * json_reader.h
 *	  Read JSON text in place, token by token.
 *
 * Accepts exactly RFC 8259 in UTF-8.  The reader makes no tree, allocates nothing and does not recurse;
 * a number or a string is returned as the bytes of the text.  Only the last token says whether the text
 * is valid: JSON_END means that all of it is one value.
 */
#ifndef VLLM_BASE_JSON_JSON_READER_H
#define VLLM_BASE_JSON_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MOST	2048	/* largest number of bracket levels that a caller may allow */

typedef enum JsonToken
{
	JSON_BAD,					/* not JSON: r->why says what is wrong at r->p */
	JSON_END,					/* the text was one value, and nothing follows */
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,
	JSON_STRING,
	JSON_KEY,					/* a member's name; its value is next */
	JSON_ARRAY,					/* elements follow, up to JSON_CLOSE */
	JSON_OBJECT,				/* pairs of JSON_KEY and value follow, up to JSON_CLOSE */
	JSON_CLOSE
} JsonToken;

typedef struct JsonReader
{
	const char *p;				/* after the last token */
	const char *end;
	const char *s;				/* text of the token: strings and keys without quotes; a bracket */
	size_t		n;				/* bytes of s */
	bool		escaped;		/* a string or key has escapes */
	bool		too_deep;		/* JSON_BAD because of too many levels */
	const char *why;			/* JSON_BAD: static text */
	int			depth;			/* open brackets */
	int			most;			/* largest depth allowed */
	uint8_t		expect;
	uint64_t	open[JSON_DEPTH_MOST / 64]; /* a bit for each level, 1 = object */
} JsonReader;

/* Start to read the n bytes at s, with at most `depth` levels of brackets (JSON_DEPTH_MOST at most). */
void		json_begin(JsonReader *r, const char *s, size_t n, int depth);
/* Read the next token.  After JSON_BAD or JSON_END the reader must not be used again. */
JsonToken	json_next(JsonReader *r);

/* ---- decoding a string ---- */

#define JSON_NUL_OK		1		/* decode \u0000 to a zero byte; without it, \u0000 is an error */
#define JSON_HALVES_OK	2		/* decode half a surrogate pair to U+FFFD; without it, that is an error */

/*
 * Decode the escapes of the n bytes at s, the inside of a string, into `to`, which has room for n bytes
 * and may equal s; *len is set to the bytes written.  Returns false for an escape that JSON does not
 * have or that the flags forbid.  Bytes outside of escapes are copied unchecked.
 */
bool		json_unescape(const char *s, size_t n, unsigned flags, char *to, size_t *len);
/* Return the value of the four hexadecimal digits of an escape; -1 if they are not hexadecimal. */
int32_t		json_hex4(const char *s, const char *end);

/* ---- checking whole texts ---- */

typedef struct JsonCheck
{
	int			depth;			/* in: most levels of brackets; at most JSON_DEPTH_MOST */
	const char *key;			/* in: NULL, or the name of a member of the outermost object, as the text
								 * writes it */
	/* out: */
	const char *value;			/* start of that member's value, the last one if several; NULL = none */
	size_t		at;				/* if not JSON: offset of the error; n = the text ends too early */
} JsonCheck;

/*
 * Return true if the n bytes at s are one JSON text (RFC 8259) in UTF-8, with white space around it
 * allowed.
 */
bool		json_check(const char *s, size_t n, JsonCheck *c);
/* The same for callers that need no details. */
bool		json_ok(const char *s, size_t n, int depth);

#endif
