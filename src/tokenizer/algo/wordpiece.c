/*
 * wordpiece.c
 *	  WordPiece: the longest token at each position of a word, or the unknown token.
 *
 * There are two tries: tokens that may begin a word and tokens that may continue one, both without the
 * mark that distinguishes them ("##" before continuations in tokenizer.json, U+2581 before beginnings in
 * GGUF).  If no token fits at some position, or the word is too long, the whole word becomes the unknown
 * token.  O(length * longest token).  Immutable after wordpiece_new().  Tested by
 * tests/unit/tokenizer/test_tokenizer.c against Hugging Face and ../shared.
 */
#include "tokenizer/algo/wordpiece.h"

#include <string.h>

#include "base/alloc.h"
#include "tokenizer/trie.h"

struct WordPiece
{
	Trie	   *first;
	Trie	   *rest;
	size_t		max_chars;
	int32_t		unk;
};

/* Collect the tokens with the prefix, except tokens with the other, longer prefix. */
static Trie *
collect(const WordPieceConf *c, const char *prefix, const char *other)
{
	TrieKey    *key = mem_alloc((c->n_ids + 1) * sizeof(TrieKey));
	size_t		plen = strlen(prefix);
	size_t		olen = strlen(other);
	size_t		count = 0;
	Trie	   *t;

	for (size_t id = 0; id < c->n_ids; id++)
	{
		size_t		n;
		const char *s = strtab_get(c->names, (int32_t) id, &n);

		if (s == NULL || c->skip[id] || n <= plen || memcmp(s, prefix, plen) != 0 ||
			strtab_find(c->names, s, n) != (int32_t) id)
			continue;
		/* in GGUF's spelling tokens without the mark are continuations */
		if (plen == 0 && olen > 0 && c->first[0] != '\0' && n >= olen && memcmp(s, other, olen) == 0)
			continue;
		key[count++] = (TrieKey) {s + plen, (uint32_t) (n - plen), (int32_t) id};
	}
	t = trie_new(key, count);
	mem_free(key);
	return t;
}

WordPiece *
wordpiece_new(const WordPieceConf *c)
{
	WordPiece  *m = mem_zalloc(sizeof(WordPiece));

	m->first = collect(c, c->first, c->rest);
	m->rest = collect(c, c->rest, c->first);
	m->max_chars = c->max_chars;
	m->unk = c->unk;
	return m;
}

void
wordpiece_free(WordPiece *m)
{
	if (m == NULL)
		return;
	trie_free(m->first);
	trie_free(m->rest);
	mem_free(m);
}

static size_t
count_chars(const char *s, size_t n)
{
	size_t		count = 0;

	for (size_t i = 0; i < n; i++)
		count += ((unsigned char) s[i] & 0xC0) != 0x80;
	return count;
}

void
wordpiece_encode(const WordPiece *m, const char *s, size_t n, IntVec *out)
{
	size_t		before = out->len;
	const Trie *t = m->first;
	size_t		i = 0;

	if (n > m->max_chars && count_chars(s, n) > m->max_chars)
	{
		intvec_push(out, m->unk);
		return;
	}
	while (i < n)
	{
		int32_t		best = -1;
		size_t		stop = i;
		uint32_t	node = 0;

		for (size_t j = i; j < n && (node = trie_step(t, node, s[j])) != 0; j++)
			if (t->id[node] >= 0)
			{
				best = t->id[node];
				stop = j + 1;
			}
		if (best < 0)
		{
			out->len = before;
			intvec_push(out, m->unk);
			return;
		}
		intvec_push(out, best);
		i = stop;
		t = m->rest;
	}
}
