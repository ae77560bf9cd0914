/*
 * bpe.c
 *	  Byte-pair encoding of one pre-token by ranked merges.
 *
 * A word starts as one symbol per byte (byte-level) or per character, and the adjacent pair with the
 * lowest rank, leftmost first, is merged until no pair is left.  Short words keep their symbols in an
 * array and search the minimum, which is faster there than any heap; long ones (a vocabulary without a
 * pre-tokenizer makes one word of a whole prompt) use a linked list in an array and a heap of (rank,
 * position), skipping stale entries: O(n log n).  If no token has a space inside, such a word is cut at
 * its spaces first (word_marker.h).
 *
 * Most words of a text are tokens themselves.  For each token bpe_finish() determines once whether
 * merging its text would give this token; if so, a hash lookup is the whole encoding.  This is exact and
 * needs no cache and no lock.
 *
 * A Bpe is immutable after bpe_finish(); the caller's BpeWork has all scratch memory.  Tested by
 * tests/unit/tokenizer/test_tokenizer.c against Hugging Face.
 */
#include "tokenizer/algo/bpe.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "tokenizer/word_marker.h"
#include "text/utf8.h"

/* up to this many symbols the minimum is searched in an array */
#define SHORT_WORD	24

#define NO_RANK		UINT32_MAX

typedef struct Pair
{
	uint64_t	key;			/* left << 32 | right */
	uint32_t	rank1;			/* rank + 1; 0 = free slot */
	int32_t		merged;			/* the token that the merge makes */
} Pair;

struct BpeSym
{
	int32_t		id;				/* -1 = merged into its left neighbour */
	int32_t		prev;			/* index, -1 = none */
	int32_t		next;
};

struct Bpe
{
	BpeConf		c;
	Pair	   *pair;			/* [pair_mask + 1], open addressing */
	size_t		pair_mask;
	int32_t		byte_id[256];	/* token that spells one byte, -1 = none */
	int32_t		ascii_id[128];	/* token of one ASCII character, -1 = none */
	int32_t		fallback[256];	/* token <0xXX>, -1 = none */
	StrTab	   *whole;			/* words that are their own encoding, by their bytes */
	char	   *prefix;			/* "" = none */
	char	   *suffix;
	bool		affixes;		/* one of the two isn't empty */
	bool		segments;		/* words may be cut at U+2581 (word_marker.h) */
};

uint32_t
bpe_byte_char(unsigned char c)
{
	/* printable Latin-1 bytes map to themselves, the others to U+0100 and up */
	if ((c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || c >= 0xAE)
		return c;
	if (c <= 0x20)
		return 0x100u + c;
	if (c <= 0xA0)
		return 0x100u + 33u + (c - 0x7Fu);
	return 0x143;				/* 0xAD, soft hyphen */
}

bool
bpe_spelled_bytes(const char *s, size_t n, Buf *out)
{
	size_t		len;

	for (size_t i = 0; i < n; i += len)
	{
		uint32_t	cp = utf8_next(s + i, &len);
		uint32_t	c;

		if (cp < 0x100)
			c = cp;
		else if (cp <= 0x120)
			c = cp - 0x100;
		else if (cp <= 0x142)
			c = cp - 0x121 + 0x7F;
		else
			c = 0xAD;
		if (bpe_byte_char((unsigned char) c) != cp)
			return false;
		buf_addc(out, (char) c);
	}
	return true;
}

static inline size_t
pair_hash(uint64_t key)
{
	key *= 0x9E3779B97F4A7C15u;
	return (size_t) (key ^ (key >> 32));
}

/* Return the merge of a pair, NULL if there is none. */
static inline const Pair *
find_pair(const Bpe *b, int32_t left, int32_t right)
{
	uint64_t	key = (uint64_t) (uint32_t) left << 32 | (uint32_t) right;

	for (size_t i = pair_hash(key) & b->pair_mask; b->pair[i].rank1 != 0; i = (i + 1) & b->pair_mask)
		if (b->pair[i].key == key)
			return &b->pair[i];
	return NULL;
}

static inline uint32_t
rank_of(const Bpe *b, int32_t left, int32_t right)
{
	const Pair *p = find_pair(b, left, right);

	return p != NULL ? p->rank1 - 1 : NO_RANK;
}

static void
find_initial(Bpe *b)
{
	for (int c = 0; c < 256; c++)
	{
		char		s[8];
		char		u[4];

		snprintf(s, sizeof(s), "<0x%02X>", c);
		b->fallback[c] = strtab_find(b->c.names, s, 6);
		b->byte_id[c] = strtab_find(b->c.names, u, utf8_put(u, bpe_byte_char((unsigned char) c)));
		if (c < 128)
		{
			u[0] = (char) c;
			b->ascii_id[c] = strtab_find(b->c.names, u, 1);
		}
	}
}

Bpe *
bpe_new(const BpeConf *c)
{
	Bpe		   *b = mem_zalloc(sizeof(Bpe));
	size_t		cap = 16;

	b->c = *c;
	while (cap < c->n_merges * 2)
		cap *= 2;
	b->pair = mem_zalloc(cap * sizeof(Pair));
	b->pair_mask = cap - 1;
	b->prefix = mem_strdup(c->prefix != NULL ? c->prefix : "");
	b->suffix = mem_strdup(c->suffix != NULL ? c->suffix : "");
	b->affixes = b->prefix[0] != '\0' || b->suffix[0] != '\0';
	find_initial(b);
	return b;
}

void
bpe_free(Bpe *b)
{
	if (b == NULL)
		return;
	mem_free(b->pair);
	mem_free(b->prefix);
	mem_free(b->suffix);
	strtab_free(b->whole);
	mem_free(b);
}

void
bpe_add_merge(Bpe *b, int32_t left, int32_t right, int32_t merged, uint32_t rank)
{
	uint64_t	key = (uint64_t) (uint32_t) left << 32 | (uint32_t) right;
	size_t		i = pair_hash(key) & b->pair_mask;

	/* at least half of the table is free, otherwise a search for a pair would never end */
	ALWAYS(left >= 0 && right >= 0 && merged >= 0 && (size_t) merged < b->c.n_ids);
	while (b->pair[i].rank1 != 0 && b->pair[i].key != key)
		i = (i + 1) & b->pair_mask;
	b->pair[i] = (Pair) {key, rank + 1, merged};
}

static void
add_sym(BpeWork *w, size_t *n, int32_t id)
{
	if (*n >= w->cap)
	{
		w->cap = w->cap ? w->cap * 2 : 256;
		w->sym = mem_realloc(w->sym, w->cap * sizeof(struct BpeSym));
	}
	w->sym[(*n)++].id = id;
}

/* Set the first symbols of a byte-level word; return their number. */
static size_t
init_bytes(const Bpe *b, BpeWork *w, const char *s, size_t n)
{
	size_t		count = 0;
	bool		in_unk = false;

	for (size_t i = 0; i < n; i++)
	{
		int32_t		id = b->byte_id[(unsigned char) s[i]];
		bool		unk = id < 0;

		if (unk && (b->c.unk < 0 || (in_unk && b->c.fuse_unk)))
			continue;
		add_sym(w, &count, unk ? b->c.unk : id);
		in_unk = unk;
	}
	return count;
}

/* Return the symbol of s[0..n), a character with the affixes for its position in the word. */
static int32_t
affixed_id(const Bpe *b, BpeWork *w, const char *s, size_t n, bool first, bool last)
{
	if (first && !last)
		return strtab_find(b->c.names, s, n);
	buf_reset(&w->name);
	if (!first)
		buf_addstr(&w->name, b->prefix);
	buf_add(&w->name, s, n);
	if (last)
		buf_addstr(&w->name, b->suffix);
	return strtab_find(b->c.names, w->name.data, w->name.len);
}

/* Add the byte tokens of one character, if there is one for each of its bytes. */
static bool
add_fallback(const Bpe *b, BpeWork *w, size_t *count, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (b->fallback[(unsigned char) s[i]] < 0)
			return false;
	for (size_t i = 0; i < len; i++)
		add_sym(w, count, b->fallback[(unsigned char) s[i]]);
	return true;
}

/*
 * Set the first symbols of a word of characters.  A pending unknown symbol is added late, after the byte
 * tokens that follow it: the reference does this, and it makes a difference if only some bytes have
 * tokens.
 */
static size_t
init_chars(const Bpe *b, BpeWork *w, const char *s, size_t n)
{
	size_t		count = 0;
	size_t		len;
	bool		pending = false;

	for (size_t i = 0; i < n; i += len)
	{
		unsigned char c = (unsigned char) s[i];
		int32_t		id;

		len = utf8_len(c);
		if (b->affixes)
			id = affixed_id(b, w, s + i, len, i == 0, i + len == n);
		else
			id = c < 0x80 ? b->ascii_id[c] : strtab_find(b->c.names, s + i, len);
		if (id >= 0)
		{
			if (pending)
				add_sym(w, &count, b->c.unk);
			pending = false;
			add_sym(w, &count, id);
		}
		else if (b->c.byte_fallback && add_fallback(b, w, &count, s + i, len))
			continue;
		else if (b->c.unk >= 0)
		{
			if (pending && !b->c.fuse_unk)
				add_sym(w, &count, b->c.unk);
			pending = true;
		}
	}
	if (pending)
		add_sym(w, &count, b->c.unk);
	return count;
}

/* Return the rank and the result of the merge of id[0] and id[1]. */
static inline uint32_t
pair_at(const Bpe *b, const int32_t *id, int32_t *merged)
{
	const Pair *p = find_pair(b, id[0], id[1]);

	if (p == NULL)
		return NO_RANK;
	*merged = p->merged;
	return p->rank1 - 1;
}

/* Merge n <= SHORT_WORD symbols by searching the minimum; return how many are left. */
static size_t
merge_short(const Bpe *b, struct BpeSym *sym, size_t n)
{
	uint32_t	rank[SHORT_WORD];	/* of the pair (i, i + 1) */
	int32_t		merged[SHORT_WORD]; /* result of that merge */
	int32_t		id[SHORT_WORD];

	ALWAYS(n <= SHORT_WORD);
	for (size_t i = 0; i < n; i++)
		id[i] = sym[i].id;
	for (size_t i = 0; i + 1 < n; i++)
		rank[i] = pair_at(b, id + i, &merged[i]);
	while (n > 1)
	{
		size_t		best = 0;

		for (size_t i = 1; i + 1 < n; i++)
			if (rank[i] < rank[best])
				best = i;
		if (rank[best] == NO_RANK)
			break;
		id[best] = merged[best];
		n--;
		for (size_t i = best + 1; i < n; i++)
		{
			id[i] = id[i + 1];
			rank[i - 1] = rank[i];
			merged[i - 1] = merged[i];
		}
		if (best > 0)
			rank[best - 1] = pair_at(b, id + best - 1, &merged[best - 1]);
		if (best + 1 < n)
			rank[best] = pair_at(b, id + best, &merged[best]);
	}
	for (size_t i = 0; i < n; i++)
		sym[i].id = id[i];
	return n;
}

static void
push_pair(const Bpe *b, BpeWork *w, int32_t left, int32_t right)
{
	uint32_t	rank = rank_of(b, w->sym[left].id, w->sym[right].id);

	if (rank != NO_RANK)
		heap_push(&w->heap, rank, (uint32_t) left);
}

/*
 * Merge any number of symbols with the heap; return how many are left.  An entry is stale if its pair
 * has another rank now; an entry that finds a new pair of the same rank at its position is equivalent to
 * that pair's own entry.
 */
static size_t
merge_long(const Bpe *b, BpeWork *w, size_t n)
{
	struct BpeSym *sym = w->sym;
	size_t		count = 0;

	w->heap.len = 0;
	for (size_t i = 0; i < n; i++)
	{
		sym[i].prev = (int32_t) i - 1;
		sym[i].next = i + 1 < n ? (int32_t) (i + 1) : -1;
	}
	for (size_t i = 0; i + 1 < n; i++)
		push_pair(b, w, (int32_t) i, (int32_t) (i + 1));
	while (w->heap.len > 0)
	{
		uint64_t	top = heap_pop(&w->heap);
		int32_t		l = (int32_t) (uint32_t) top;
		int32_t		r = sym[l].next;
		const Pair *p = sym[l].id >= 0 && r >= 0 ? find_pair(b, sym[l].id, sym[r].id) : NULL;

		if (p == NULL || p->rank1 - 1 != (uint32_t) (top >> 32))
			continue;
		ASSERT(sym[r].prev == l && sym[r].id >= 0);
		sym[l].id = p->merged;
		sym[r].id = -1;
		sym[l].next = sym[r].next;
		if (sym[r].next >= 0)
			sym[sym[r].next].prev = l;
		if (sym[l].prev >= 0)
			push_pair(b, w, sym[l].prev, l);
		if (sym[l].next >= 0)
			push_pair(b, w, l, sym[l].next);
	}
	for (size_t i = 0; i < n; i++)
		if (sym[i].id >= 0)
			sym[count++].id = sym[i].id;
	return count;
}

static void
encode_by_merges(const Bpe *b, BpeWork *w, const char *s, size_t n, IntVec *out)
{
	size_t		count = b->c.byte_level ? init_bytes(b, w, s, n) : init_chars(b, w, s, n);

	if (count <= SHORT_WORD)
		count = merge_short(b, w->sym, count);
	else
		count = merge_long(b, w, count);
	for (size_t i = 0; i < count; i++)
		intvec_push(out, w->sym[i].id);
}

/*
 * Return true if words may be cut at U+2581: no merge makes a token with U+2581 inside, whole words
 * aren't looked up before merging, and U+2581 is a token itself (an unknown symbol could be fused with
 * its neighbours).
 */
static bool
can_segment(const Bpe *b)
{
	if (b->c.byte_level || b->c.ignore_merges || b->affixes || strtab_find(b->c.names, META, META_LEN) < 0)
		return false;
	for (size_t i = 0; i <= b->pair_mask; i++)
	{
		size_t		n;
		const char *s = b->pair[i].rank1 != 0 ? strtab_get(b->c.names, b->pair[i].merged, &n) : NULL;

		if (s != NULL && meta_segment(s, n) < n)
			return false;
	}
	return true;
}

void
bpe_finish(Bpe *b, const bool *skip)
{
	StrTab	   *whole = strtab_new(b->c.n_ids);
	BpeWork		w = {0};
	Buf			bytes = {0};
	IntVec		ids = {0};

	for (size_t id = 0; id < b->c.n_ids; id++)
	{
		size_t		n;
		const char *s = strtab_get(b->c.names, (int32_t) id, &n);

		/* a name that isn't indexed belongs to an added token, or is empty */
		if (s == NULL || n == 0 || skip[id] || strtab_find(b->c.names, s, n) != (int32_t) id)
			continue;
		buf_reset(&bytes);
		if (b->affixes && !b->c.ignore_merges)
		{
			size_t		len = strlen(b->suffix);

			if (n <= len || memcmp(s + n - len, b->suffix, len) != 0)
				continue;
			buf_add(&bytes, s, n - len);
		}
		else if (!b->c.byte_level)
			buf_add(&bytes, s, n);
		else if (!bpe_spelled_bytes(s, n, &bytes))
			continue;
		intvec_reset(&ids);
		if (!b->c.ignore_merges)
			encode_by_merges(b, &w, bytes.data, bytes.len, &ids);
		if (b->c.ignore_merges || (ids.len == 1 && ids.data[0] == (int32_t) id))
		{
			strtab_set(whole, (int32_t) id, bytes.data, bytes.len);
			strtab_index(whole, (int32_t) id);
		}
	}
	b->whole = whole;
	b->segments = can_segment(b);
	intvec_free(&ids);
	buf_free(&bytes);
	bpe_work_free(&w);
}

static void
encode_segment(const Bpe *b, BpeWork *w, const char *s, size_t n, IntVec *out)
{
	if (n <= strtab_longest(b->whole))
	{
		int32_t		id = strtab_find(b->whole, s, n);

		if (id >= 0)
		{
			intvec_push(out, id);
			return;
		}
	}
	encode_by_merges(b, w, s, n, out);
}

void
bpe_encode(const Bpe *b, BpeWork *w, const char *s, size_t n, IntVec *out)
{
	while (n > 0)
	{
		size_t		len = b->segments ? meta_segment(s, n) : n;

		ALWAYS(len > 0 && len <= n);
		encode_segment(b, w, s, len, out);
		s += len;
		n -= len;
	}
}

void
bpe_work_free(BpeWork *w)
{
	mem_free(w->sym);
	mem_free(w->heap.key);
	buf_free(&w->name);
	memset(w, 0, sizeof(*w));
}
