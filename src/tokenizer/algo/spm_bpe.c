/*
 * spm_bpe.c
 *	  SentencePiece BPE: merge by scores, as for GGUF's "llama" vocabularies.
 *
 * The text starts as one symbol per character.  The adjacent pair whose concatenation is the token with
 * the highest score, leftmost first, is merged until no concatenation is a token.  Symbols are spans of
 * the text, so a pair is looked up by its bytes; spans longer than the longest token aren't looked up at
 * all.  Symbols that are no token are spelled in byte tokens.  If no token has a space inside, the text
 * is cut at its spaces first (word_marker.h).
 *
 * Scores become ranks (equal scores, equal rank) so that a candidate is a
 * 64-bit heap key like in bpe.c.  O(n log n) for n characters.  Immutable after
 * spm_new().  Tested by tests/unit/tokenizer/test_tokenizer.c against ../shared.
 */
#include "tokenizer/algo/spm_bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "tokenizer/word_marker.h"
#include "text/utf8.h"

struct SpmSym
{
	uint32_t	off;			/* start in the text */
	uint32_t	len;			/* bytes; 0 = merged into its left neighbour */
	int32_t		prev;			/* index, -1 = none */
	int32_t		next;
};

struct Spm
{
	const StrTab *names;
	uint32_t   *rank;			/* [n] by id; 0 = highest score */
	size_t		longest;		/* bytes of the longest token */
	int32_t		byte_id[256];
	int32_t		unk;
	bool		fuse_unk;
	StrTab	   *whole;			/* segments that are their own encoding */
	bool		segments;		/* the text may be cut at U+2581 (word_marker.h) */
};

typedef struct SpmBpeRanked
{
	float		score;
	int32_t		id;
} SpmBpeRanked;

static int
by_score(const void *pa, const void *pb)
{
	const SpmBpeRanked *a = pa;
	const SpmBpeRanked *b = pb;

	return a->score > b->score ? -1 : a->score < b->score ? 1 : 0;
}

void
spm_free(Spm *m)
{
	if (m == NULL)
		return;
	strtab_free(m->whole);
	mem_free(m->rank);
	mem_free(m);
}

/* Return the token that two neighbours make, -1 if there is none. */
static int32_t
joined(const Spm *m, const char *s, const struct SpmSym *l, const struct SpmSym *r)
{
	size_t		len = (size_t) l->len + r->len;

	return len <= m->longest ? strtab_find(m->names, s + l->off, len) : -1;
}

static void
push_pair(const Spm *m, SpmWork *w, const char *s, int32_t left, int32_t right)
{
	int32_t		id = joined(m, s, &w->sym[left], &w->sym[right]);

	if (id >= 0)
		heap_push(&w->heap, m->rank[id], (uint32_t) left);
}

/* Make one symbol per character, linked; return their number. */
static size_t
init_chars(SpmWork *w, const char *s, size_t n)
{
	size_t		count = 0;
	size_t		len;

	for (size_t i = 0; i < n; i += len)
	{
		if (count >= w->cap)
		{
			w->cap = w->cap ? w->cap * 2 : 256;
			w->sym = mem_realloc(w->sym, w->cap * sizeof(struct SpmSym));
		}
		len = utf8_len((unsigned char) s[i]);
		w->sym[count] = (struct SpmSym) {(uint32_t) i, (uint32_t) len, (int32_t) count - 1,
			i + len < n ? (int32_t) count + 1 : -1};
		count++;
	}
	ASSERT(count == 0 || w->sym[count - 1].off + w->sym[count - 1].len == n);
	return count;
}

/* Append the ids of a symbol.  *in_unk: the last id is the unknown token of a symbol of this segment. */
static void
put_symbol(const Spm *m, const char *s, const struct SpmSym *y, bool *in_unk, IntVec *out)
{
	int32_t		id = strtab_find(m->names, s + y->off, y->len);
	bool		fuse = id < 0 && m->fuse_unk && m->unk >= 0;

	for (size_t i = 0; i < y->len && fuse; i++)
		fuse = m->byte_id[(unsigned char) s[y->off + i]] < 0;
	if (id >= 0 || fuse)
	{
		if (id >= 0 || !*in_unk)
			intvec_push(out, id >= 0 ? id : m->unk);
		*in_unk = fuse;
		return;
	}
	*in_unk = false;
	for (size_t i = 0; i < y->len; i++)
	{
		id = m->byte_id[(unsigned char) s[y->off + i]];
		if (id < 0)
			id = m->unk;
		if (id >= 0)
			intvec_push(out, id);
	}
}

static void
encode_segment(const Spm *m, SpmWork *w, const char *s, size_t n, IntVec *out)
{
	size_t		count = init_chars(w, s, n);
	struct SpmSym *sym = w->sym;
	bool		in_unk = false;

	w->heap.len = 0;
	for (size_t i = 0; i + 1 < count; i++)
		push_pair(m, w, s, (int32_t) i, (int32_t) (i + 1));
	while (w->heap.len > 0)
	{
		uint64_t	top = heap_pop(&w->heap);
		int32_t		l = (int32_t) (uint32_t) top;
		int32_t		r = sym[l].next;
		int32_t		id;

		if (sym[l].len == 0 || r < 0)
			continue;
		id = joined(m, s, &sym[l], &sym[r]);
		if (id < 0 || m->rank[id] != (uint32_t) (top >> 32))
			continue;			/* stale: one of the two has grown */
		ASSERT(sym[r].prev == l && sym[l].off + sym[l].len == sym[r].off);
		sym[l].len += sym[r].len;
		sym[r].len = 0;
		sym[l].next = sym[r].next;
		if (sym[r].next >= 0)
			sym[sym[r].next].prev = l;
		if (sym[l].prev >= 0)
			push_pair(m, w, s, sym[l].prev, l);
		if (sym[l].next >= 0)
			push_pair(m, w, s, l, sym[l].next);
	}
	for (size_t i = 0; i < count; i++)
		if (sym[i].len > 0)
			put_symbol(m, s, &sym[i], &in_unk, out);
}

/* Find the segments whose encoding is the token itself.  Most segments of a text are tokens, so this is
 * determined once. */
static void
find_whole(Spm *m, size_t n)
{
	SpmWork		w = {0};
	IntVec		ids = {0};

	m->whole = strtab_new(n);
	for (size_t i = 0; i < n; i++)
	{
		size_t		len;
		const char *s = strtab_get(m->names, (int32_t) i, &len);

		if (s == NULL || len == 0 || strtab_find(m->names, s, len) != (int32_t) i)
			continue;
		intvec_reset(&ids);
		encode_segment(m, &w, s, len, &ids);
		if (ids.len == 1 && ids.data[0] == (int32_t) i)
		{
			strtab_set(m->whole, (int32_t) i, s, len);
			strtab_index(m->whole, (int32_t) i);
		}
	}
	intvec_free(&ids);
	spm_work_free(&w);
}

Spm *
spm_new(const StrTab *names, const int32_t *byte_id, const float *scores, size_t n, int32_t unk,
		bool fuse_unk)
{
	Spm		   *m = mem_zalloc(sizeof(Spm));
	SpmBpeRanked *order = mem_alloc((n + 1) * sizeof(SpmBpeRanked));
	uint32_t	rank = 0;

	m->names = names;
	m->longest = strtab_longest(names);
	m->unk = unk;
	m->fuse_unk = fuse_unk;
	m->rank = mem_alloc((n + 1) * sizeof(uint32_t));
	memcpy(m->byte_id, byte_id, sizeof(m->byte_id));
	for (size_t i = 0; i < n; i++)
		order[i] = (SpmBpeRanked) {scores[i], (int32_t) i};
	qsort(order, n, sizeof(SpmBpeRanked), by_score);
	for (size_t i = 0; i < n; i++)
	{
		if (i > 0 && order[i].score != order[i - 1].score)
			rank++;
		m->rank[order[i].id] = rank;
	}
	mem_free(order);
	m->segments = true;
	for (size_t i = 0; i < n && m->segments; i++)
	{
		size_t		len;
		const char *s = strtab_get(names, (int32_t) i, &len);

		/* text never becomes a token that isn't indexed */
		if (s != NULL && strtab_find(names, s, len) >= 0)
			m->segments = meta_segment(s, len) == len;
	}
	if (m->segments)
		find_whole(m, n);
	return m;
}

void
spm_encode(const Spm *m, SpmWork *w, const char *s, size_t n, IntVec *out)
{
	while (n > 0)
	{
		size_t		len = m->segments ? meta_segment(s, n) : n;
		int32_t		id = m->whole != NULL && len <= m->longest ? strtab_find(m->whole, s, len) : -1;

		if (id >= 0)
			intvec_push(out, id);
		else
			encode_segment(m, w, s, len, out);
		s += len;
		n -= len;
	}
}

void
spm_work_free(SpmWork *w)
{
	mem_free(w->sym);
	mem_free(w->heap.key);
	memset(w, 0, sizeof(*w));
}
