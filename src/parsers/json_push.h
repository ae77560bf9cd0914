/*
 * json_push.h
 *	  One JSON value within text, which may come in pieces: what is read of it goes on in one form at once.
 *
 * Arguments are handed on as text.  The form is that of Python's json.dumps with ensure_ascii=False, which
 * clients of OpenAI-like servers know: a blank behind ':' and ',', no other white space, characters as
 * themselves.  Numbers stay digit by digit as they were written: a tree of doubles would change long ones.
 *
 * A value is done with its last byte, a number with the byte behind it.  Values become the same however
 * they are cut.
 */
#ifndef VLLM_PARSERS_JSON_PUSH_H
#define VLLM_PARSERS_JSON_PUSH_H

#include <stdint.h>

#include "base/buf.h"
#include "parsers/key_set.h"
#include "parsers/text_span.h"

#define JPUSH_DEPTH	200			/* values within each other */

typedef enum JPushIs
{
	JPUSH_MORE,					/* all was read, and it goes on */
	JPUSH_DONE,
	JPUSH_BAD					/* it is no JSON */
} JPushIs;

/* Zeroed: nothing was read.  depth, lax and keys are the caller's. */
typedef struct JPush
{
	int			depth;			/* of the value, within what is around it */
	bool		lax;			/* control characters in strings */
	char		first;			/* the value's first byte; '\0': white space only */
	uint8_t		state;
	uint8_t		number;			/* what of one was read */
	uint8_t		n_hex;
	int			open;			/* containers */
	bool		key;			/* the string is one */
	unsigned	hex;
	unsigned	high;			/* first half of a pair; 0: none */
	const char *word;			/* what must follow of true, false, null */
	uint64_t	objects[(JPUSH_DEPTH + 64) / 64];	/* is the n-th container an object? */
	KeySet	   *keys;			/* the caller's, empty; NULL: keys may come twice, else that is no JSON */
	uint64_t	hash;			/* of the key, as far as it was read */
	uint32_t	n_objects;
	uint32_t	object[JPUSH_DEPTH + 3];	/* the n-th container's number, if it is an object */
} JPush;

/*
 * Read on, and append to out (NULL: skip).  JPUSH_DONE: s is behind the value.  last: nothing
 * follows.  With keys, out must not be NULL.
 */
JPushIs		jpush(JPush *j, Span *s, bool last, Buf *out);

/* All of s is one value, strictly: append it to out; false: it isn't, and out is as before. */
bool		jpush_whole(Span s, Buf *out);

#endif
