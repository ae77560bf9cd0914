/*
 * block_lifetime.c
 *	  Lifetimes of blocks of the KV cache.
 *
 * Tested by tests/unit/core/kv/test_kvlife.c.
 */
#include "core/kv/block_lifetime.h"

#include "base/clock.h"
#include "base/alloc.h"

#define FINDS	4				/* number of last hits that are kept */

/* The lifetime of a sampled block. */
typedef struct Life
{
	int32_t		block;
	int			n_found;
	int64_t		begun_us;
	int64_t		found_us[FINDS];	/* a ring: time of hit i is at i % FINDS */
} Life;

struct KvLife
{
	uint64_t	random;
	uint64_t	below;			/* a block is sampled if its random 32-bit number is less than this */
	int			n_blocks;
	int32_t    *at;				/* [n_blocks] index in lives[] + 1; 0 = not sampled */
	Life	   *lives;
	int			n;
	int			cap;
	WireHist   *to;
};

KvLife *
kvlife_new(int n_blocks, int sample, WireHist *to)
{
	KvLife	   *l = mem_zalloc(sizeof(*l));

	l->random = UINT64_C(0x9e3779b97f4a7c15);
	l->below = ((uint64_t) sample << 32) / 1000000;
	l->n_blocks = n_blocks;
	l->at = mem_zalloc((size_t) n_blocks * sizeof(int32_t));
	l->to = to;
	return l;
}

void
kvlife_free(KvLife *l)
{
	if (l == NULL)
		return;
	mem_free(l->at);
	mem_free(l->lives);
	mem_free(l);
}

/* xorshift: which blocks are sampled need not be unpredictable */
static bool
drawn(KvLife *l)
{
	l->random ^= l->random << 13;
	l->random ^= l->random >> 7;
	l->random ^= l->random << 17;
	return l->random >> 32 < l->below;
}

static void
observe(KvLife *l, WireHistId id, int64_t us)
{
	WireHist   *h = &l->to[id - WH_KV_LIFETIME];

	h->count[wire_hist_bucket(id, us)]++;
	h->sum += us;
}

void
kvlife_lost(KvLife *l, int32_t block)
{
	Life	   *x;
	int64_t		now;
	int64_t		last;

	if (l->at[block] == 0)
		return;
	x = &l->lives[l->at[block] - 1];
	now = clock_us();
	last = x->n_found > 0 ? x->found_us[(x->n_found - 1) % FINDS] : x->begun_us;
	observe(l, WH_KV_LIFETIME, now - x->begun_us);
	observe(l, WH_KV_IDLE, now - last);
	for (int i = x->n_found > FINDS ? x->n_found - FINDS + 1 : 1; i < x->n_found; i++)
		observe(l, WH_KV_GAP, x->found_us[i % FINDS] - x->found_us[(i - 1) % FINDS]);
	/* the last one moves to its place */
	l->at[block] = 0;
	if (x != &l->lives[--l->n])
	{
		*x = l->lives[l->n];
		l->at[x->block] = (int32_t) (x - l->lives) + 1;
	}
}

void
kvlife_taken(KvLife *l, int32_t block)
{
	kvlife_lost(l, block);
	if (!drawn(l))
		return;
	if (l->n == l->cap)
	{
		l->cap = l->cap == 0 ? 64 : 2 * l->cap;
		l->lives = mem_realloc(l->lives, (size_t) l->cap * sizeof(Life));
	}
	l->lives[l->n++] = (Life) {.block = block, .begun_us = clock_us()};
	l->at[block] = l->n;
}

void
kvlife_found(KvLife *l, int32_t block)
{
	Life	   *x;

	if (l->at[block] == 0)
		return;
	x = &l->lives[l->at[block] - 1];
	x->found_us[x->n_found++ % FINDS] = clock_us();
}

void
kvlife_forget(KvLife *l)
{
	while (l->n > 0)
		l->at[l->lives[--l->n].block] = 0;
}
