/*
 * utf8.h
 *	  UTF-8 one character at a time.
 *
 * utf8_next() reads text that is known to be valid; utf8_scan() takes any bytes
 * and follows Unicode's "maximal subpart" practice (chapter 3.9), which is also
 * what Rust's from_utf8_lossy and Python's errors='replace' do.
 */
#ifndef VLLM_TEXT_UTF8_H
#define VLLM_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8char.h"

#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Return the code point at s (valid UTF-8, not at the end); *len = its bytes. */
static inline uint32_t
utf8_next(const char *s, size_t *len)
{
	const unsigned char *p = (const unsigned char *) s;

	if (p[0] < 0x80)
	{
		*len = 1;
		return p[0];
	}
	if (p[0] < 0xE0)
	{
		*len = 2;
		return ((uint32_t) (p[0] & 0x1F) << 6) | (p[1] & 0x3F);
	}
	if (p[0] < 0xF0)
	{
		*len = 3;
		return ((uint32_t) (p[0] & 0x0F) << 12) | ((uint32_t) (p[1] & 0x3F) << 6) | (p[2] & 0x3F);
	}
	*len = 4;
	return ((uint32_t) (p[0] & 0x07) << 18) | ((uint32_t) (p[1] & 0x3F) << 12) |
		((uint32_t) (p[2] & 0x3F) << 6) | (p[3] & 0x3F);
}

/* Return the bytes of the character that starts with lead byte c (of valid UTF-8). */
static inline size_t
utf8_len(unsigned char c)
{
	return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

typedef enum Utf8Kind
{
	UTF8_OK,					/* a character */
	UTF8_BAD,					/* a maximal ill-formed subpart */
	UTF8_SHORT					/* the text ends inside what may become a character */
} Utf8Kind;

/* Classify the bytes at s (n > 0); *len = length of the character or subpart. */
static inline Utf8Kind
utf8_scan(const char *s, size_t n, size_t *len)
{
	const unsigned char *p = (const unsigned char *) s;
	unsigned char lo = 0x80;
	unsigned char hi = 0xBF;
	size_t		want;
	size_t		i;

	*len = 1;
	if (p[0] < 0x80)
		return UTF8_OK;
	if (p[0] < 0xC2 || p[0] > 0xF4)
		return UTF8_BAD;
	want = utf8_len(p[0]);
	/* the second byte's range excludes overlong forms, surrogates, > U+10FFFF */
	if (p[0] == 0xE0)
		lo = 0xA0;
	else if (p[0] == 0xED)
		hi = 0x9F;
	else if (p[0] == 0xF0)
		lo = 0x90;
	else if (p[0] == 0xF4)
		hi = 0x8F;
	for (i = 1; i < want; i++)
	{
		*len = i;
		if (i >= n)
			return UTF8_SHORT;
		if (p[i] < lo || p[i] > hi)
			return UTF8_BAD;
		lo = 0x80;
		hi = 0xBF;
	}
	*len = want;
	return UTF8_OK;
}

#endif
