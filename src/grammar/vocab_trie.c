/*
 * vocab_trie.c
 *	  Make the tries of a vocabulary; see vocab_trie.h.
 */
#include "grammar/vocab_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/shared_walks.h"

/* longest token of each slice; the last slice has no limit */
static const size_t cut[VOCAB_SLICES - 1] = {6, 12, 24, 48};

typedef struct VocabTrieKey
{
	const char *s;
	uint32_t	len;
	uint32_t	id;
} VocabTrieKey;

static int
by_bytes(const void *a, const void *b)
{
	const VocabTrieKey *x = a;
	const VocabTrieKey *y = b;
	int			c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);

	if (c != 0)
		return c;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static uint32_t
common(const VocabTrieKey *a, const VocabTrieKey *b)
{
	uint32_t	n = 0;

	while (n < a->len && n < b->len && a->s[n] == b->s[n])
		n++;
	return n;
}

uint32_t
vocab_group(uint8_t b)
{
	static const char letters[] = "af" "gz" "AF" "GZ" "00" "19";
	static const uint8_t high[] = {0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5};
	uint32_t	group = 0;

	for (; letters[2 * group] != '\0'; group++)
		if (b >= (uint8_t) letters[2 * group] && b <= (uint8_t) letters[2 * group + 1])
			return group;
	if (b >= 0x80)				/* bytes of longer characters */
	{
		for (size_t i = 0; i < sizeof(high) && b >= high[i]; i++)
			group++;
		return group;
	}
	group += sizeof(high) + 1;
	if (b < ' ')
		return b == '\t' ? group : b == '\n' ? group + 1 : b == '\r' ? group + 2 : group + 3;
	/* each of the others has its own group */
	group += 4;
	return group + (b < '0' ? b - ' ' : b < 'A' ? 16 + b - ':' : b < 'a' ? 23 + b - '[' : 29 + b - '{');
}

int
vocab_utf8(uint8_t lead, uint8_t *lo, uint8_t *hi)
{
	*lo = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
	*hi = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
	if (lead < 0xC2 || lead > 0xF4)
		return 0;
	return lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
}

/* Set x->open, the bytes that the character still needs.  Return false if the node's byte doesn't
 * continue the character before. */
static bool
follows(const VocabNode *up, VocabNode *x)
{
	bool		inside = (x->byte & 0xC0) == 0x80;
	uint8_t		lo;
	uint8_t		hi;

	if (!inside)
	{
		x->open = (uint8_t) vocab_utf8(x->byte, &lo, &hi);
		return up->open == 0 && (x->byte < 0x80 || x->open > 0);
	}
	if (up->open == 0)
		return false;
	x->open = up->open - 1;
	return vocab_utf8(up->byte, &lo, &hi) == 0 || (x->byte >= lo && x->byte <= hi);
}

/* Compute for each node what is below it. */
static void
trie_below(VocabTrie *t)
{
	uint32_t   *up = mem_alloc((t->max_len + 2) * sizeof(uint32_t));
	uint32_t   *parent = mem_alloc((t->n + 1) * sizeof(uint32_t));
	bool	   *broken = mem_zalloc(t->n + 1);

	up[0] = 0;
	for (uint32_t i = 1; i < t->n; i++)
	{
		parent[i] = up[t->node[i].depth - 1];
		up[t->node[i].depth] = i;
		broken[i] = !follows(&t->node[parent[i]], &t->node[i]);
	}
	for (uint32_t i = t->n; i-- > 1;)
	{
		uint8_t		b = t->node[i].byte;
		bool		inside = (b & 0xC0) == 0x80;

		if (!inside)
			t->whole[i] |= (uint64_t) 1 << vocab_group(b);
		t->sig[parent[i]] |= (uint64_t) 1 << (b % 64);
		t->whole[parent[i]] |= broken[i] ? UINT64_MAX : t->whole[i];
		if (inside)
			t->whole[i] = UINT64_MAX;
	}
	mem_free(up);
	mem_free(parent);
	mem_free(broken);
}

/* Make the trie of key[0..n), which are sorted. */
static void
trie_make(VocabTrie *t, const VocabTrieKey *key, uint32_t n)
{
	size_t		room = 2;
	uint32_t   *open;			/* nodes on the path to the last one, by depth */
	uint32_t	depth = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		room += key[i].len - (i > 0 ? common(&key[i - 1], &key[i]) : 0);
		t->max_len = key[i].len > t->max_len ? key[i].len : t->max_len;
	}
	t->node = mem_alloc(room * sizeof(VocabNode));
	t->sig = mem_zalloc(room * sizeof(uint64_t));
	t->whole = mem_zalloc(room * sizeof(uint64_t));
	t->id = mem_alloc((n + 1) * sizeof(int32_t));
	open = mem_alloc((t->max_len + 1) * sizeof(uint32_t));
	t->node[t->n++] = (VocabNode) {0, 0, 0, 0, 0};
	open[0] = 0;
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	same = i > 0 ? common(&key[i - 1], &key[i]) : 0;

		for (; depth > same; depth--)
			t->node[open[depth]].skip = t->n - open[depth];
		while (depth < key[i].len)
		{
			uint8_t		b = (uint8_t) key[i].s[depth];

			depth++;
			/* a sentinel after the last node */
			ALWAYS(t->n + 1 < room);
			open[depth] = t->n;
			t->node[t->n++] = (VocabNode) {i, 0, (uint16_t) depth, b, 0};
		}
		t->id[i] = (int32_t) key[i].id;
	}
	for (; depth > 0; depth--)
		t->node[open[depth]].skip = t->n - open[depth];
	t->node[0].skip = t->n;
	t->node[t->n] = (VocabNode) {n, 0, 0, 0, 0};
	mem_free(open);
	trie_below(t);
}

GramVocab *
gram_vocab_new(const GramToken *tokens, size_t n, const int32_t *end, size_t n_end)
{
	GramVocab  *v = mem_zalloc(sizeof(GramVocab));
	VocabTrieKey *key = mem_alloc((n + 1) * sizeof(VocabTrieKey));
	size_t		at = 0;
	uint32_t	from = 0;

	atomic_init(&v->refs, 1);
	v->shared = shared_new();
	v->n = n;
	v->end = mem_zalloc(n + 1);
	v->end_id = mem_alloc((n_end + 1) * sizeof(int32_t));
	for (size_t i = 0; i < n_end; i++)
		if (end[i] >= 0 && (size_t) end[i] < n && !v->end[end[i]])
		{
			v->end[end[i]] = true;
			v->end_id[v->n_end++] = end[i];
		}
	v->first = mem_alloc((n + 1) * sizeof(size_t));
	for (size_t i = 0; i < n; i++)
	{
		v->first[i] = at;
		/* drop tokens that are too long for any use */
		if (!tokens[i].special && !v->end[i] && tokens[i].len < UINT16_MAX)
			at += tokens[i].len;
	}
	v->first[n] = at;
	v->text = mem_alloc(at + 1);
	for (size_t i = 0; i < n; i++)
		if (v->first[i + 1] > v->first[i])
			memcpy(v->text + v->first[i], tokens[i].bytes, tokens[i].len);
	for (int s = 0; s < VOCAB_SLICES; s++)
	{
		uint32_t	m = 0;
		size_t		to = s < VOCAB_SLICES - 1 ? cut[s] : UINT16_MAX;

		for (size_t i = 0; i < n; i++)
		{
			size_t		len = v->first[i + 1] - v->first[i];

			if (len > from && len <= to)
				key[m++] = (VocabTrieKey) {v->text + v->first[i], (uint32_t) len, (uint32_t) i};
		}
		if (m > 1)
			qsort(key, m, sizeof(VocabTrieKey), by_bytes);
		trie_make(&v->slice[s], key, m);
		from = (uint32_t) to;
	}
	mem_free(key);
	return v;
}

GramVocab *
gram_vocab_ref(GramVocab *v)
{
	atomic_fetch_add(&v->refs, 1);
	return v;
}

void
gram_vocab_unref(GramVocab *v)
{
	if (v == NULL || atomic_fetch_sub(&v->refs, 1) > 1)
		return;
	for (int s = 0; s < VOCAB_SLICES; s++)
	{
		mem_free(v->slice[s].node);
		mem_free(v->slice[s].sig);
		mem_free(v->slice[s].whole);
		mem_free(v->slice[s].id);
	}
	shared_free(v->shared);
	mem_free(v->text);
	mem_free(v->first);
	mem_free(v->end);
	mem_free(v->end_id);
	mem_free(v);
}

size_t
gram_vocab_words(const GramVocab *v)
{
	return (v->n + 31) / 32;
}
