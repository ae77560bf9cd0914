/*
 * json_reader.h
 *	  Reads JSON text where it is, token after token.
 *
 * Exactly RFC 8259 in UTF-8: no tree is made, nothing is allocated, there is no recursion, and a number or
 * a string is the bytes that it is written with.  What a text is worth is told by the last token alone:
 * JSON_END says that all of it is one value.
 */
#ifndef VLLM_BASE_JSON_JSON_READER_H
#define VLLM_BASE_JSON_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MOST	2048	/* levels of brackets that can be asked for */

typedef enum JsonToken
{
	JSON_BAD,					/* not JSON: r->why, from r->p on */
	JSON_END,					/* there was one value, and nothing follows */
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,
	JSON_STRING,
	JSON_KEY,					/* a member's name; its value is next */
	JSON_ARRAY,					/* elements up to JSON_CLOSE */
	JSON_OBJECT,				/* JSON_KEY and value, up to JSON_CLOSE */
	JSON_CLOSE
} JsonToken;

typedef struct JsonReader
{
	const char *p;				/* behind what was read */
	const char *end;
	const char *s;				/* the token as it is written: strings and keys without quotes; a bracket */
	size_t		n;				/* bytes of it */
	bool		escaped;		/* a string or key has escapes */
	bool		too_deep;		/* why it is JSON_BAD */
	const char *why;			/* JSON_BAD: static text */
	int			depth;			/* open brackets */
	int			most;			/* of them */
	uint8_t		expect;
	uint64_t	open[JSON_DEPTH_MOST / 64]; /* a bit for each level, 1 = object */
} JsonReader;

/* Read n bytes at s, which have at most `depth` levels of brackets (JSON_DEPTH_MOST at most). */
void		json_begin(JsonReader *r, const char *s, size_t n, int depth);
/* The next token.  JSON_BAD and JSON_END stay; the reader must not be asked again. */
JsonToken	json_next(JsonReader *r);

/* ---- what a string says ---- */

#define JSON_NUL_OK		1		/* \u0000 is a byte of zero; without it, it is an error */
#define JSON_HALVES_OK	2		/* half a surrogate pair is U+FFFD; without it, it is an error */

/*
 * The n bytes at s, the inside of a string, with its escapes undone, into `to`, which has room for n bytes
 * and may be s; *len: bytes of it.  False: an escape that JSON doesn't have, or that the flags forbid.
 * Bytes that are no escapes are taken as they are.
 */
bool		json_unescape(const char *s, size_t n, unsigned flags, char *to, size_t *len);
/* What the four hexadecimal digits of an escape say; -1: they aren't. */
int32_t		json_hex4(const char *s, const char *end);

/* ---- whole texts ---- */

typedef struct JsonCheck
{
	int			depth;			/* most levels of brackets; at most JSON_DEPTH_MOST */
	const char *key;			/* NULL, or a member of the outermost object, as it is written there */
	/* found: */
	const char *value;			/* where that member's value begins, of several the last one's; NULL: none */
	size_t		at;				/* not JSON: from this byte on; n: it ends too early */
} JsonCheck;

/* Are n bytes at s one JSON text (RFC 8259) in UTF-8?  It may have white space around it. */
bool		json_check(const char *s, size_t n, JsonCheck *c);
/* The same for who asks no more. */
bool		json_ok(const char *s, size_t n, int depth);

#endif
