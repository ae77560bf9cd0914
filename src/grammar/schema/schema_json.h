/*
 * schema_json.h
 *	  A schema's JSON text as a tree without loss.
 *
 * json.h keeps the text, too, but these values have a hash and are compared as JSON Schema defines:
 * numbers by their exact decimals, since bounds of 64-bit integers are exact; of several members with
 * one name the last counts.
 *
 * All memory of a compilation comes from one arena and is freed at once.
 */
#ifndef VLLM_GRAMMAR_SCHEMA_SCHEMA_JSON_H
#define VLLM_GRAMMAR_SCHEMA_SCHEMA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json/json.h"

/* ---- memory ---- */

typedef struct Arena Arena;

Arena	   *arena_new(void);
void		arena_free(Arena *a);
void	   *arena_alloc(Arena *a, size_t n);	/* zeroed, never NULL */
char	   *arena_strndup(Arena *a, const char *s, size_t n);

/* ---- values ---- */

typedef enum JvType
{
	JV_NULL,
	JV_FALSE,
	JV_TRUE,
	JV_NUM,
	JV_STR,
	JV_ARR,
	JV_OBJ
} JvType;

typedef struct Jv Jv;
struct Jv
{
	JvType		type;
	uint32_t	n;				/* array, object: number of elements */
	const char *s;				/* string: decoded, UTF-8; others: as in the text */
	size_t		len;
	const Jv   *child;			/* array, object: the first one */
	const Jv   *next;
	const char *key;			/* of an object's member */
	size_t		key_len;
	uint64_t	hash;			/* equal values have equal hashes (numbers: equal texts) */
};

/* Read a JSON text.  Of several members with one name the last counts.  Return NULL with ERR_INVALID or
 * ERR_TOO_LONG. */
const Jv   *jv_read(Arena *a, const char *s, size_t n, Err *e);
/* Return the member, or NULL (also if v is no object). */
const Jv   *jv_get(const Jv *v, const char *key);
const Jv   *jv_get_n(const Jv *v, const char *key, size_t len);
bool		jv_is(const Jv *v, JvType type);	/* v may be NULL */
/* Return true if the values are equal by JSON Schema: 1 and 1.0 are, and the order of members doesn't
 * matter. */
bool		jv_equal(const Jv *a, const Jv *b);
/* Print a value as JSON, with escapes only where needed. */
struct Buf;

#endif
