/*
 * encoding.h
 *	  Conversion of text between a database's encoding and the wire's UTF-8, and between processes.
 */
#ifndef VLLM_PG_UTIL_ENCODING_H
#define VLLM_PG_UTIL_ENCODING_H

#include "postgres.h"

#include "lib/stringinfo.h"

#include "ipc/wire.h"

/* vllm.invalid_text: what to do with text that the database can't hold */
typedef enum InvalidText
{
	INVALID_TEXT_REPLACE = 0,	/* NUL removed, the rest becomes U+FFFD or '?' */
	INVALID_TEXT_ERROR			/* 22021 */
} InvalidText;

extern int	vllm_invalid_text;

/* Append a string field, converted to UTF-8. */
void		wire_put_text(WireOut *o, WireTag tag, const char *s, size_t n);

/* Make a text datum of a reply's UTF-8. */
text	   *text_from_wire(const char *s, size_t n);

/* Return a name from a message that this server has made. */
char	   *name_from_wire(const char *s, size_t n);

/*
 * A string, or NULL, in an aggregate's state that is sent to another process: its bytes, unchanged.
 * (pq_sendstring() and pq_getmsgstring() are for clients: they convert.)
 */
void		state_put_string(StringInfo buf, const char *s);
char	   *state_get_string(StringInfo buf);

#endif
