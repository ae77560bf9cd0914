/*
 * utf8char.h
 *	  UTF-8 characters: validate the bytes of untrusted text, and encode a code point.
 *
 * text/utf8.h reads text that is already known to be valid.
 */
#ifndef VLLM_BASE_UTF8CHAR_H
#define VLLM_BASE_UTF8CHAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Return the length in bytes of the character at s, which must end at `end` at the latest; 0 if it is
 * not valid UTF-8 (RFC 3629: no surrogates, no overlong forms).
 */
static inline int
utf8_char(const char *s, const char *end)
{
	const unsigned char *u = (const unsigned char *) s;
	int			n = u[0] < 0x80 ? 1 : u[0] >= 0xc2 && u[0] < 0xe0 ? 2 : (u[0] & 0xf0) == 0xe0 ? 3 :
		u[0] >= 0xf0 && u[0] < 0xf5 ? 4 : 0;

	if (n == 0 || end - s < n)
		return 0;
	for (int i = 1; i < n; i++)
		if ((u[i] & 0xc0) != 0x80)
			return 0;
	if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
		(u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
		return 0;
	return n;
}

/* Return true if the n bytes at s are valid UTF-8. */
static inline bool
utf8_text_ok(const char *s, size_t n)
{
	for (size_t i = 0; i < n;)
	{
		int			len = utf8_char(s + i, s + n);

		if (len == 0)
			return false;
		i += (size_t) len;
	}
	return true;
}

/* Write cp to p, which has room for 4 bytes; returns the number of bytes written. */
static inline size_t
utf8_put(char *p, uint32_t cp)
{
	if (cp < 0x80)
	{
		p[0] = (char) cp;
		return 1;
	}
	if (cp < 0x800)
	{
		p[0] = (char) (0xC0 | (cp >> 6));
		p[1] = (char) (0x80 | (cp & 0x3F));
		return 2;
	}
	if (cp < 0x10000)
	{
		p[0] = (char) (0xE0 | (cp >> 12));
		p[1] = (char) (0x80 | ((cp >> 6) & 0x3F));
		p[2] = (char) (0x80 | (cp & 0x3F));
		return 3;
	}
	p[0] = (char) (0xF0 | (cp >> 18));
	p[1] = (char) (0x80 | ((cp >> 12) & 0x3F));
	p[2] = (char) (0x80 | ((cp >> 6) & 0x3F));
	p[3] = (char) (0x80 | (cp & 0x3F));
	return 4;
}

#endif
