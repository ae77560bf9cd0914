/*
 * grammar_cache.c
 *	  Compiled grammars, by their source.
 *
 * An entry is a grammar, the error of its compilation, or a marker that a thread is compiling it now.
 * Errors are kept as well, so that a statement that gives every row the same invalid schema does not
 * compile it for every row.
 *
 * Grammars grow as they are used, so the memory is counted anew when one is added.  Then the least
 * recently used ones are dropped until the rest is within the bound.  A request with a reference keeps
 * its grammar.  A grammar's own lock may be held for as long as a mask takes, so no thread waits for one
 * while it holds the cache's lock.
 *
 * Tested by tests/unit/server/request/test_structured.c.
 */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "server/request/structured_options.h"

#define MAX_ENTRIES		1024

typedef struct CacheEntry
{
	Buf			key;
	Grammar    *g;				/* NULL: see err, or being compiled */
	Err		   *err;			/* owned */
	bool		busy;			/* a thread is compiling it */
	uint64_t	used;			/* time of last use, by the cache's clock */
} CacheEntry;

struct GrammarCache
{
	pthread_mutex_t lock;
	pthread_cond_t done;		/* signals that an entry is no longer busy */
	CacheEntry *entry[MAX_ENTRIES]; /* this and all members but lock and done are under lock */
	int			n;
	uint64_t	clock;
	size_t		max_bytes;
};

static void
key_text(Buf *key, const char *s, size_t n)
{
	uint64_t	len = n;

	buf_add(key, &len, sizeof(len));
	if (n > 0)
		buf_add(key, s, n);
}

static Buf
key_of(const GramSpec *spec)
{
	const GramOptions *o = &spec->opt;
	Buf			key = {0};
	char		head[5] = {(char) spec->kind, (char) o->validate, (char) o->strict,
						   (char) o->disable_any_whitespace,
	(char) o->disable_additional_properties};
	const char *space = o->whitespace_pattern;

	buf_add(&key, head, sizeof(head));
	buf_addc(&key, (char) (space != NULL));
	key_text(&key, space, space != NULL ? strlen(space) : 0);
	key_text(&key, spec->text, spec->text != NULL ? spec->len : 0);
	for (size_t i = 0; i < spec->n_choices; i++)
		key_text(&key, spec->choice[i], spec->choice_len[i]);
	return key;
}

static CacheEntry *
find(GrammarCache *c, const Buf *key)
{
	for (int i = 0; i < c->n; i++)
		if (c->entry[i]->key.len == key->len && memcmp(c->entry[i]->key.data, key->data, key->len) == 0)
		{
			c->entry[i]->used = ++c->clock;
			return c->entry[i];
		}
	return NULL;
}

static void
free_entry(CacheEntry *x)
{
	/* the thread that compiles it has a pointer to it */
	ALWAYS(!x->busy);
	grammar_unref(x->g);
	buf_free(&x->key);
	mem_free(x->err);
	mem_free(x);
}

/*
 * Drop the least recently used entry that is not being compiled.  The caller holds the lock.  Returns
 * false if there is none.
 */
static bool
drop_oldest(GrammarCache *c)
{
	int			oldest = -1;

	for (int i = 0; i < c->n; i++)
		if (!c->entry[i]->busy && (oldest < 0 || c->entry[i]->used < c->entry[oldest]->used))
			oldest = i;
	if (oldest < 0)
		return false;
	free_entry(c->entry[oldest]);
	c->entry[oldest] = c->entry[--c->n];
	return true;
}

/* Return the bytes of all grammars and all sources, those with errors included. */
static size_t
memory_of(GrammarCache *c)
{
	Grammar   **g = mem_alloc(MAX_ENTRIES * sizeof(Grammar *));
	size_t		sum = 0;
	int			n = 0;

	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->n; i++)
	{
		sum += c->entry[i]->key.len;
		if (c->entry[i]->g != NULL)
			g[n++] = grammar_ref(c->entry[i]->g);
	}
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; i < n; i++)
	{
		sum += grammar_memory(g[i]);
		grammar_unref(g[i]);
	}
	mem_free(g);
	return sum;
}

/* Drop entries until the cache is within its bound, but not the one used last. */
static void
trim(GrammarCache *c)
{
	bool		dropped = true;

	while (dropped && memory_of(c) > c->max_bytes)
	{
		pthread_mutex_lock(&c->lock);
		dropped = c->n > 1 && drop_oldest(c);
		pthread_mutex_unlock(&c->lock);
	}
}

bool
grammar_cache_has(GrammarCache *c, const GramSpec *spec)
{
	Buf			key = key_of(spec);
	CacheEntry *x;
	bool		has;

	pthread_mutex_lock(&c->lock);
	x = find(c, &key);
	has = x != NULL && !x->busy;
	pthread_mutex_unlock(&c->lock);
	buf_free(&key);
	return has;
}

/*
 * Add an entry that is being compiled.  The caller holds the lock.  Takes ownership of *key.  NULL: no
 * entry is free.
 */
static CacheEntry *
new_entry(GrammarCache *c, Buf *key)
{
	CacheEntry *x;

	if (c->n == MAX_ENTRIES && !drop_oldest(c))
		return NULL;
	ALWAYS(c->n < MAX_ENTRIES);
	x = mem_zalloc(sizeof(*x));
	x->key = *key;
	*key = (Buf) {0};
	x->busy = true;
	x->used = ++c->clock;
	c->entry[c->n++] = x;
	return x;
}

/* Is the error lasting?  Not if there was no memory, because there may be some later. */
static bool
is_lasting(const Err *e)
{
	return e->cls == ERR_INVALID || e->cls == ERR_UNSUPPORTED || e->cls == ERR_TOO_LONG;
}

static void
drop(GrammarCache *c, CacheEntry *x)
{
	int			i = 0;

	while (c->entry[i] != x)
		i++;
	c->entry[i] = c->entry[--c->n];
	free_entry(x);
}

/* Compile the grammar of an entry.  The caller must not hold the lock. */
static Grammar *
compile(GrammarCache *c, CacheEntry *x, const GramSpec *spec, Err *e)
{
	Grammar    *g = grammar_new(spec, e);

	pthread_mutex_lock(&c->lock);
	ASSERT(x->busy && x->g == NULL && x->err == NULL);
	x->busy = false;
	if (g != NULL)
		x->g = grammar_ref(g);
	else if (is_lasting(e))
	{
		x->err = mem_alloc(sizeof(Err));
		*x->err = *e;
	}
	else
		drop(c, x);
	pthread_cond_broadcast(&c->done);
	pthread_mutex_unlock(&c->lock);
	trim(c);
	return g;
}

Grammar *
grammar_cache_get(GrammarCache *c, const GramSpec *spec, Err *e)
{
	Buf			key = key_of(spec);
	CacheEntry *x;
	Grammar    *g = NULL;

	pthread_mutex_lock(&c->lock);
	while ((x = find(c, &key)) != NULL && x->busy)
		pthread_cond_wait(&c->done, &c->lock);
	if (x != NULL)
	{
		if (x->g != NULL)
			g = grammar_ref(x->g);
		else
			*e = *x->err;
		pthread_mutex_unlock(&c->lock);
	}
	else
	{
		x = new_entry(c, &key);
		pthread_mutex_unlock(&c->lock);
		g = x != NULL ? compile(c, x, spec, e) : grammar_new(spec, e);
	}
	buf_free(&key);
	return g;
}

GrammarCache *
grammar_cache_new(size_t max_bytes)
{
	GrammarCache *c = mem_zalloc(sizeof(*c));

	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->done, NULL);
	c->max_bytes = max_bytes;
	return c;
}

void
grammar_cache_free(GrammarCache *c)
{
	if (c == NULL)
		return;
	for (int i = 0; i < c->n; i++)
		free_entry(c->entry[i]);
	pthread_cond_destroy(&c->done);
	pthread_mutex_destroy(&c->lock);
	mem_free(c);
}
