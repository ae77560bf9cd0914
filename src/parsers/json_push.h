/*
 * json_push.h
 *	  Read one JSON value from text that may come in pieces, and write it in a uniform form at once.
 *
 * Parsers pass arguments on as text.  The form is that of Python's json.dumps with ensure_ascii=False,
 * which clients of OpenAI-like servers know: a blank after ':' and ',', no other white space, characters
 * unescaped.  Numbers keep their digits: a tree of doubles would change long ones.
 *
 * A value ends with its last byte, a number with the byte after it.  The result doesn't depend on how
 * the text is split into pieces.
 */
#ifndef VLLM_PARSERS_JSON_PUSH_H
#define VLLM_PARSERS_JSON_PUSH_H

#include <stdint.h>

#include "base/buf.h"
#include "parsers/key_set.h"
#include "parsers/text_span.h"

#define JPUSH_DEPTH	200			/* nesting */

typedef enum JPushIs
{
	JPUSH_MORE,					/* all bytes were read, and the value continues */
	JPUSH_DONE,
	JPUSH_BAD					/* it is not valid JSON */
} JPushIs;

/* State of a value; zeroed: nothing has been read.  The caller sets depth, lax and keys. */
typedef struct JPush
{
	int			depth;			/* nesting of the value within outer containers */
	bool		lax;			/* accept control characters in strings */
	char		first;			/* the value's first byte; '\0': white space only */
	uint8_t		state;
	uint8_t		number;			/* state within a number */
	uint8_t		n_hex;
	int			open;			/* open containers */
	bool		key;			/* the string is a key */
	unsigned	hex;
	unsigned	high;			/* first half of a surrogate pair; 0: none */
	const char *word;			/* rest of true, false or null that must follow */
	uint64_t	objects[(JPUSH_DEPTH + 64) / 64];	/* bit n: the n-th container is an object */
	KeySet	   *keys;			/* the caller's, empty; a duplicate key is an error; NULL: duplicate keys
								 * are allowed */
	uint64_t	hash;			/* of the key, as far as it has been read */
	uint32_t	n_objects;
	uint32_t	object[JPUSH_DEPTH + 3];	/* number of the n-th container, if it is an object */
} JPush;

/*
 * Read on, and append to out (NULL: skip).  JPUSH_DONE: s is after the value.  last: no more text
 * follows.  With keys, out must not be NULL.
 */
JPushIs		jpush(JPush *j, Span *s, bool last, Buf *out);

/* If all of s is one value, strictly, append it to out; else return false and leave out unchanged. */
bool		jpush_whole(Span s, Buf *out);

#endif
