/*
 * added_tokens.c
 *	  Find added tokens ("<|im_end|>") in text.
 *
 * The patterns form a trie over their bytes; at each position the longest pattern wins, and matches
 * don't overlap (leftmost-longest, like the reference).  Children are chained; the first byte is looked
 * up in a table, so text without any pattern's first byte costs one load per byte.  O(n * longest
 * pattern).
 *
 * The flags work as in Hugging Face tokenizers, including its oddities: a match that is rejected
 * (single_word, special tokens switched off) still hides the shorter patterns inside it; and white space
 * taken by rstrip may overlap a pattern that begins with white space.  Tested by
 * tests/unit/tokenizer/test_tokenizer.c.
 */
#include "tokenizer/added_tokens.h"

#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "text/unicode.h"
#include "text/utf8.h"

typedef struct AddedTokensNode
{
	uint32_t	child;			/* first child, 0 = none */
	uint32_t	sibling;		/* next child of the parent, 0 = none */
	int32_t		id;				/* token that ends here, -1 = none */
	uint8_t		byte;
	uint8_t		flags;			/* of that token */
} AddedTokensNode;

struct Added
{
	AddedTokensNode *node;			/* node 0 is unused: 0 means none */
	size_t		len;
	size_t		cap;
	uint32_t	root[256];		/* by first byte */
};

Added *
added_new(void)
{
	Added	   *a = mem_zalloc(sizeof(Added));

	a->len = 1;
	return a;
}

void
added_free(Added *a)
{
	if (a == NULL)
		return;
	mem_free(a->node);
	mem_free(a);
}

static uint32_t
new_node(Added *a, unsigned char byte, uint32_t sibling)
{
	if (a->len >= a->cap)
	{
		a->cap = a->cap ? a->cap * 2 : 256;
		a->node = mem_realloc(a->node, a->cap * sizeof(AddedTokensNode));
	}
	a->node[a->len] = (AddedTokensNode) {.sibling = sibling, .id = -1, .byte = byte};
	return (uint32_t) a->len++;
}

static uint32_t
child_of(const Added *a, uint32_t node, unsigned char byte)
{
	uint32_t	c = a->node[node].child;

	while (c != 0 && a->node[c].byte != byte)
		c = a->node[c].sibling;
	return c;
}

bool
added_looks_special(const char *s, size_t n)
{
	static const char *const forms[][2] = {{"<|", "|>"}, {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"}, {"[|", "|]"}};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
	{
		size_t		len = strlen(forms[i][0]);

		if (n > 2 * len && memcmp(s, forms[i][0], len) == 0 && memcmp(s + n - len, forms[i][1], len) == 0)
			return true;
	}
	return false;
}

void
added_put(Added *a, const char *s, size_t n, int32_t id, unsigned flags)
{
	unsigned char first = (unsigned char) s[0];
	uint32_t	at;

	ALWAYS(n > 0 && id >= 0);	/* a pattern of no bytes has no first one, and -1 means none */
	if (a->root[first] == 0)
		a->root[first] = new_node(a, first, 0);
	at = a->root[first];
	for (size_t i = 1; i < n; i++)
	{
		uint32_t	c = child_of(a, at, (unsigned char) s[i]);

		if (c == 0)
		{
			c = new_node(a, (unsigned char) s[i], a->node[at].child);
			a->node[at].child = c;
		}
		at = c;
	}
	a->node[at].id = id;
	a->node[at].flags = (uint8_t) (flags | (added_looks_special(s, n) ? ADDED_CONTROL : 0));
}

/* Return the last node of the longest pattern at s[i..n), 0 if there is none; *stop = its end. */
static uint32_t
longest_at(const Added *a, const char *s, size_t n, size_t i, size_t *stop)
{
	uint32_t	at = a->root[(unsigned char) s[i]];
	uint32_t	best = 0;

	while (at != 0)
	{
		i++;
		if (a->node[at].id >= 0)
		{
			best = at;
			*stop = i;
		}
		at = i < n ? child_of(a, at, (unsigned char) s[i]) : 0;
	}
	return best;
}

/* Return the start of the character that ends before s[i], i > 0. */
static size_t
char_before(const char *s, size_t i)
{
	do
		i--;
	while (i > 0 && ((unsigned char) s[i] & 0xC0) == 0x80);
	return i;
}

static bool
is_alone(const char *s, size_t n, size_t start, size_t stop)
{
	size_t		len;

	if (start > 0 && (uni_class(utf8_next(s + char_before(s, start), &len)) & UNI_WORD) != 0)
		return false;
	return stop == n || (uni_class(utf8_next(s + stop, &len)) & UNI_WORD) == 0;
}

bool
added_next(const Added *a, const char *s, size_t n, bool no_special, const uint8_t *marks,
		   size_t *scan, size_t *done, size_t *start, int32_t *id)
{
	size_t		i = *scan;
	size_t		len;

	ASSERT(*scan <= *done && *done <= n);
	while (i < n)
	{
		size_t		stop = 0;
		size_t		from = i;
		uint32_t	hit = longest_at(a, s, n, i, &stop);
		unsigned	flags;

		if (hit == 0)
		{
			i++;
			continue;
		}
		i = stop;
		flags = a->node[hit].flags;
		if ((flags & ADDED_SPECIAL) != 0 && no_special)
			continue;
		if ((flags & (ADDED_SPECIAL | ADDED_CONTROL)) != 0 && marks != NULL &&
			memchr(marks + from, 1, stop - from) != NULL)
			continue;
		if ((flags & ADDED_SINGLE_WORD) != 0 && !is_alone(s, n, from, stop))
			continue;
		*scan = stop;
		if (flags & ADDED_LSTRIP)
			while (from > *done && (uni_class(utf8_next(s + char_before(s, from), &len)) & UNI_SPACE) != 0)
				from = char_before(s, from);
		if (flags & ADDED_RSTRIP)
			while (stop < n && (uni_class(utf8_next(s + stop, &len)) & UNI_SPACE) != 0)
				stop += len;
		*start = from;
		*done = stop;
		*id = a->node[hit].id;
		return true;
	}
	*scan = n;
	return false;
}
