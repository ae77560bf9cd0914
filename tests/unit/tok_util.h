/*
 * tok_util.h
 *	  Helpers for tests of the tokenizer: files, recorded ids, hashes.
 */
#ifndef VLLM_TESTS_TOK_UTIL_H
#define VLLM_TESTS_TOK_UTIL_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tokenizer/tokenizer.h"

#define FIXTURES "tests/fixtures/tokenizers/"
#define GOLDEN "tests/golden/tokenizer_"

/* Read a whole file; false if it doesn't exist. */
static inline bool
read_file(const char *path, Buf *out)
{
	FILE	   *f = fopen(path, "rb");
	char		block[65536];
	size_t		n;

	if (f == NULL)
		return false;
	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		buf_add(out, block, n);
	fclose(f);
	return true;
}

/* Return the next line of b from *pos, NUL-terminated in place; NULL at the end. */
static inline char *
next_line(Buf *b, size_t *pos)
{
	char	   *s;
	char	   *end;

	if (*pos >= b->len)
		return NULL;
	s = b->data + *pos;
	end = memchr(s, '\n', b->len - *pos);
	if (end == NULL)
		end = b->data + b->len;
	*end = '\0';
	*pos = (size_t) (end - b->data) + 1;
	return s;
}

static inline void
unhex(const char *s, Buf *out)
{
	unsigned	c;

	for (; isxdigit((unsigned char) s[0]) && sscanf(s, "%2x", &c) == 1; s += 2)
		buf_addc(out, (char) c);
}

static inline uint32_t
fnv(uint32_t h, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char) s[i]) * 0x01000193u;
	return h;
}

#define FNV_START 0x811C9DC5u

static inline int
b64(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 :
		c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : 63;
}

/* Parse ids as tokenizer_golden.py writes them, up to a space or the end. */
static inline void
unpack_ids(const char *s, IntVec *out)
{
	if (*s == '-')
		return;
	for (; s[0] != '\0' && s[0] != ' '; s += 2)
		intvec_push(out, b64(s[0]) << 6 | b64(s[1]));
}

static inline bool
same_ids(const IntVec *a, const IntVec *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len * sizeof(int32_t)) == 0);
}

/* Load the tokenizer of a fixture; NULL with a message if it can't be loaded. */
static inline Tok *
load_fixture(const char *name)
{
	char		path[256];
	Buf			b = {0};
	Err			e = {0};
	Tok		   *t = NULL;

	snprintf(path, sizeof(path), FIXTURES "%s.json", name);
	if (read_file(path, &b))
		t = tok_from_hf(b.data, b.len, NULL, 0, &e);
	if (t == NULL)
		fprintf(stderr, "%s: %s\n", path, e.msg);
	buf_free(&b);
	return t;
}

/* Load all recorded strings; the caller frees them. */
static inline size_t
load_strings(Buf **out)
{
	Buf			file = {0};
	Buf		   *strs = NULL;
	size_t		n = 0;
	size_t		pos = 0;
	char	   *line;

	if (read_file(GOLDEN "strings.txt", &file))
		while ((line = next_line(&file, &pos)) != NULL)
		{
			strs = realloc(strs, (n + 1) * sizeof(Buf));
			memset(&strs[n], 0, sizeof(Buf));
			unhex(line, &strs[n++]);
		}
	buf_free(&file);
	*out = strs;
	return n;
}

static inline void
free_strings(Buf *strs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_free(&strs[i]);
	free(strs);
}

#endif
