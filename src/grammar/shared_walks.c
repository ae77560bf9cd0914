/*
 * shared_walks.c
 *	  Walks over a vocabulary that all grammars share; see shared_walks.h.
 *
 * The numbers of lexemes are valid in one grammar only.  So a stored set of lexemes is a bit mask of
 * positions in the key, which lists the lexemes in the order of their rests.
 */
#include "grammar/shared_walks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MAX_KEY		((size_t) 64 << 10)	/* bytes */
#define MAX_MEMORY	((size_t) 64 << 20)	/* bytes for a vocabulary */
#define BUCKETS		1024

typedef struct SharedWalksEntry
{
	struct SharedWalksEntry *next;
	char	   *key;
	size_t		len;
	Found		found;			/* its endings have lexemes as bits */
} SharedWalksEntry;

struct VocabShared
{
	pthread_mutex_t lock;
	SharedWalksEntry *bucket[BUCKETS];
	size_t		memory;
};

typedef struct SharedWalksPart
{
	ReNode		lexeme;
	Buf			text;
} SharedWalksPart;

static int
by_text(const void *a, const void *b)
{
	const Buf  *x = &((const SharedWalksPart *) a)->text;
	const Buf  *y = &((const SharedWalksPart *) b)->text;
	int			c = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);

	return c != 0 ? c : x->len < y->len ? -1 : x->len > y->len;
}

bool
shared_key(const Lexer *l, uint32_t slice, uint32_t state, SharedKey *key)
{
	SharedWalksPart part[SHARED_LEXEMES];
	uint32_t	n;
	const ReNode *pair = lexer_pairs(l, state, &n);
	bool		ok = true;

	key->text = (Buf) {0};
	key->n = n;
	if (n > SHARED_LEXEMES)
		return false;
	for (uint32_t i = 0; i < n; i++)
	{
		part[i] = (SharedWalksPart) {.lexeme = pair[2 * i]};
		ok = ok && re_write(lexer_re(l), pair[2 * i + 1], MAX_KEY, &part[i].text);
	}
	if (ok)
		qsort(part, n, sizeof(SharedWalksPart), by_text);
	buf_add(&key->text, &slice, sizeof(slice));
	for (uint32_t i = 0; i < n; i++)
	{
		if (ok)
			buf_add(&key->text, part[i].text.data, part[i].text.len);
		key->lexeme[i] = part[i].lexeme;
		buf_free(&part[i].text);
	}
	return ok && key->text.len <= MAX_KEY;
}

static SharedWalksEntry **
bucket_of(struct VocabShared *s, const SharedKey *key)
{
	uint64_t	h = 14695981039346656037u;

	for (size_t i = 0; i < key->text.len; i++)
		h = (h ^ (uint8_t) key->text.data[i]) * 1099511628211u;
	return &s->bucket[(h ^ h >> 32) % BUCKETS];
}

static SharedWalksEntry *
entry_of(struct VocabShared *s, const SharedKey *key)
{
	for (SharedWalksEntry *x = *bucket_of(s, key); x != NULL; x = x->next)
		if (x->len == key->text.len && memcmp(x->key, key->text.data, x->len) == 0)
			return x;
	return NULL;
}

static int
by_number(const void *a, const void *b)
{
	uint32_t	x = *(const uint32_t *) a;
	uint32_t	y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

/* Return the number of a set of lexemes in this grammar. */
static uint32_t
number_of(const SharedKey *key, Lexer *l, uint32_t bits)
{
	ReNode		lexeme[SHARED_LEXEMES];
	uint32_t	n = 0;

	ALWAYS(key->n <= SHARED_LEXEMES);
	ASSERT(key->n == 32 || bits >> key->n == 0);
	for (uint32_t i = 0; i < key->n; i++)
		if (bits >> i & 1)
			lexeme[n++] = key->lexeme[i];
	qsort(lexeme, n, sizeof(ReNode), by_number);
	return lexer_done_number(l, lexeme, n);
}

static uint32_t
bits_of(const SharedKey *key, const Lexer *l, uint32_t number)
{
	uint32_t	n;
	uint32_t	bits = 0;
	const ReNode *lexeme = lexer_done(l, number, &n);

	ALWAYS(key->n <= SHARED_LEXEMES);
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t i = 0; i < key->n; i++)
			if (key->lexeme[i] == lexeme[k])
				bits |= 1u << i;
	/* a lexeme that ends here is one of those that have begun */
	ASSERT((uint32_t) __builtin_popcount(bits) == n);
	return bits;
}

bool
shared_find(GramVocab *v, const SharedKey *key, Lexer *l, Found *out)
{
	const SharedWalksEntry *x;
	uint32_t	bits = 0;
	uint32_t	number = 0;

	pthread_mutex_lock(&v->shared->lock);
	x = entry_of(v->shared, key);
	pthread_mutex_unlock(&v->shared->lock);
	if (x == NULL)
		return false;
	/* an entry never changes, and lives as long as the vocabulary */
	*out = x->found;
	out->ending = mem_alloc((out->n + 1) * sizeof(Ending));
	for (uint32_t i = 0; i < out->n; i++)
	{
		out->ending[i] = x->found.ending[i];
		if (bits != out->ending[i].done)
		{
			bits = out->ending[i].done;
			number = number_of(key, l, bits);
		}
		out->ending[i].done = number;
	}
	return true;
}

void
shared_keep(GramVocab *v, const SharedKey *key, const Lexer *l, Found *f)
{
	size_t		n_words = f->tokens.n == TOKENS_MASK ? gram_vocab_words(v) : f->tokens.n;
	size_t		size =
		sizeof(SharedWalksEntry) + key->text.len + n_words * sizeof(uint32_t) + f->n * sizeof(Ending);
	SharedWalksEntry *x;

	pthread_mutex_lock(&v->shared->lock);
	if (v->shared->memory + size <= MAX_MEMORY && entry_of(v->shared, key) == NULL)
	{
		SharedWalksEntry **bucket = bucket_of(v->shared, key);

		v->shared->memory += size;
		ALWAYS(!f->shared);
		f->shared = true;
		x = mem_alloc(sizeof(SharedWalksEntry));
		*x = (SharedWalksEntry) {*bucket, mem_alloc(key->text.len), key->text.len, *f};
		memcpy(x->key, key->text.data, x->len);
		x->found.ending = mem_alloc((f->n + 1) * sizeof(Ending));
		for (uint32_t i = 0; i < f->n; i++)
		{
			x->found.ending[i] = f->ending[i];
			x->found.ending[i].done = i > 0 && f->ending[i].done == f->ending[i - 1].done ?
				x->found.ending[i - 1].done : bits_of(key, l, f->ending[i].done);
		}
		*bucket = x;
	}
	pthread_mutex_unlock(&v->shared->lock);
}

struct VocabShared *
shared_new(void)
{
	struct VocabShared *s = mem_zalloc(sizeof(struct VocabShared));

	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void
shared_free(struct VocabShared *s)
{
	for (int i = 0; i < BUCKETS; i++)
		while (s->bucket[i] != NULL)
		{
			SharedWalksEntry *x = s->bucket[i];

			s->bucket[i] = x->next;
			mem_free(x->key);
			mem_free(x->found.tokens.v);
			mem_free(x->found.ending);
			mem_free(x);
		}
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
}
