/*
 * pinned_prefix.c
 *	  Pinned prefixes: prompts whose KV blocks are kept (pinned_prefix.h).
 *
 * Tested by tests/unit/core/kv/test_pinned_prefix.c and tests/t/092_kv.pl.
 */
#include "core/kv/pinned_prefix.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/alloc.h"
#include "base/assert.h"

#define SHARE 2					/* pins use at most 1/SHARE of the pool */

typedef struct Pin
{
	struct Pin *next;			/* newer */
	PinInfo		info;			/* without the bytes */
	uint64_t	root;
	IntVec		tokens;			/* tokens of its full blocks */
	IntVec		blocks;
	int			w_from;			/* index of the first block whose window it holds */
} Pin;

/* How many pins hold a block, and its window: pins with a common prefix share blocks. */
typedef struct PinnedPrefixHeld
{
	int32_t		pins;
	int32_t		windows;
} PinnedPrefixHeld;

struct PinnedPrefixes
{
	KvPool	   *pool;
	Prefix	   *prefix;
	int			block_size;
	int			window;
	Pin		   *oldest;
	PinnedPrefixHeld *held;			/* [kvpool_total + 1]; NULL without a prefix cache */
	int			n_blocks;		/* blocks held by any pin */
	int			n_pages;		/* pages held by any pin */
};

PinnedPrefixes *
pins_new(KvPool *pool, Prefix *prefix, int block_size, int window)
{
	PinnedPrefixes *p = mem_zalloc(sizeof(*p));

	*p = (PinnedPrefixes) {.pool = pool, .prefix = prefix, .block_size = block_size, .window = window};
	if (prefix != NULL)
		p->held = mem_zalloc(((size_t) kvpool_total(pool) + 1) * sizeof(PinnedPrefixHeld));
	return p;
}

size_t
pins_block_bytes(void)
{
	return sizeof(PinnedPrefixHeld);
}

/* Return the first block whose window the rows after `blocks` blocks see. */
static int
window_from(const PinnedPrefixes *p, int blocks)
{
	int			n = blocks * p->block_size;

	return p->window > 0 && n >= p->window ? (n + 1 - p->window) / p->block_size : 0;
}

/* Change the number of pins of a block and of its window. */
static void
count(PinnedPrefixes *p, int32_t block, int pins, int windows)
{
	PinnedPrefixHeld *h = &p->held[block];
	bool		had = h->pins > 0;
	bool		had_window = h->windows > 0;

	h->pins += pins;
	h->windows += windows;
	ASSERT(h->pins >= h->windows && h->windows >= 0);
	p->n_blocks += (h->pins > 0) - had;
	p->n_pages += ((h->pins > 0) - had) * kvpool_full(p->pool) +
		((h->windows > 0) - had_window) * kvpool_window(p->pool);
}

static void
release(PinnedPrefixes *p, Pin **at)
{
	Pin		   *pin = *at;

	*at = pin->next;
	while (pin->blocks.len > 0)
	{
		int			i = (int) --pin->blocks.len;
		int32_t		b = pin->blocks.data[i];

		count(p, b, -1, -(i >= pin->w_from));
		if (i >= pin->w_from)
			kvpool_window_unref(p->pool, b);
		kvpool_unref(p->pool, b);
	}
	intvec_free(&pin->blocks);
	intvec_free(&pin->tokens);
	mem_free(pin->info.lora);
	mem_free(pin);
}

void
pins_clear(PinnedPrefixes *p)
{
	while (p->oldest != NULL)
		release(p, &p->oldest);
}

bool
pins_yield(PinnedPrefixes *p)
{
	if (p == NULL || p->oldest == NULL)
		return false;
	log_line('W', "a pinned prompt of %zu tokens is unpinned because a request needs its memory",
			 p->oldest->tokens.len);
	release(p, &p->oldest);
	return true;
}

void
pins_free(PinnedPrefixes *p)
{
	if (p == NULL)
		return;
	pins_clear(p);
	mem_free(p->held);
	mem_free(p);
}

static int
full_blocks(const PinnedPrefixes *p, const Req *r)
{
	return r->in.n_prompt / p->block_size;
}

/* Return the pages that r's prompt needs in addition to those already pinned. */
static int
pages_for(const PinnedPrefixes *p, const Req *r)
{
	int			n = full_blocks(p, r);
	uint64_t	chain = r->kv.root;
	int32_t		b = -1;			/* 0 = this block, and all later ones, are not computed */
	int			pages = 0;

	for (int i = 0; i < n; i++)
	{
		if (b != 0)
			b = prefix_find(p->prefix, chain, r->tokens.data + (size_t) i * (size_t) p->block_size, &chain);
		if (b == 0 || p->held[b].pins == 0)
			pages += kvpool_full(p->pool);
		if (i >= window_from(p, n) && (b == 0 || p->held[b].windows == 0))
			pages += kvpool_window(p->pool);
	}
	return pages;
}

/* Return where the pin of r's prompt is linked, or would be. */
static Pin **
find(PinnedPrefixes *p, const Req *r)
{
	size_t		n = (size_t) full_blocks(p, r) * (size_t) p->block_size;
	Pin		  **at = &p->oldest;

	while (*at != NULL && ((*at)->root != r->kv.root || (*at)->tokens.len != n ||
						   memcmp((*at)->tokens.data, r->tokens.data, n * sizeof(int32_t)) != 0))
		at = &(*at)->next;
	return at;
}

bool
pins_may(const PinnedPrefixes *p, const Req *r, Err *e)
{
	int			most = kvpool_pages(p->pool) / SHARE;
	int			need;

	if (r->in.params.pin != 0 && r->group != NULL)
		return err_set(e, ERR_INVALID, "pinning or unpinning a prompt generates no answers: n must be 1, and "
									   "beam search is not supported");
	if (r->in.params.pin <= 0)
		return true;
	if (p->prefix == NULL || r->in.embeds != NULL)
		return err_set(e, ERR_UNSUPPORTED,
					   "prompts can't be pinned: the model has no prefix cache");
	if (full_blocks(p, r) == 0)
		return err_set(e, ERR_INVALID, "a prompt of %d tokens is too short to be pinned, a block has %d",
					   r->in.n_prompt, p->block_size);
	need = pages_for(p, r);
	if (p->n_pages + need <= most)
		return true;
	err_set(e, ERR_NOMEM, "no room to pin a prompt of %d tokens", r->in.n_prompt);
	err_detail(e, "It needs %d more pages of the KV cache; pinned prompts have %d and may have %d of %d.",
			   need, p->n_pages, most, kvpool_pages(p->pool));
	return err_hint(e, "Unpin others with llm_unpin_prefix, or raise vllm.kv_cache_memory_bytes.");
}

/* Reference the blocks that the prefix index has for the pin's tokens, as many as there are. */
static void
hold(PinnedPrefixes *p, Pin *pin)
{
	uint64_t	chain = pin->root;
	int32_t		b;

	while ((pin->blocks.len + 1) * (size_t) p->block_size <= pin->tokens.len &&
		   (b = prefix_find(p->prefix, chain, pin->tokens.data + pin->blocks.len * (size_t) p->block_size,
							&chain)) != 0)
	{
		kvpool_ref(p->pool, b);
		count(p, b, 1, 0);
		intvec_push(&pin->blocks, b);
	}
	pin->w_from = (int) pin->blocks.len;
	while (pin->w_from > window_from(p, (int) pin->blocks.len) &&
		   kvpool_has_window(p->pool, pin->blocks.data[pin->w_from - 1]))
	{
		b = pin->blocks.data[--pin->w_from];
		kvpool_window_ref(p->pool, b);
		count(p, b, 0, 1);
	}
}

/* Make the description of a pin. */
static PinInfo
info_of(const Req *r, int tokens)
{
	static atomic_uint_fast64_t ids;	/* counts over all models */
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (PinInfo)
	{
		.id = atomic_fetch_add(&ids, 1) + 1,.owner = r->in.owner,.role = r->in.role,
		.lora = r->in.lora != NULL ? mem_strndup(r->in.lora->name, strlen(r->in.lora->name)) : NULL,
		.salted = r->in.params.cache_salt != NULL,.tokens = tokens,
		.since_us = (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000
	};
}

bool
pins_of(PinnedPrefixes *p, const Req *r, Err *e)
{
	Pin		  **at;

	if (r->in.params.pin == 0 || p->prefix == NULL)
		return true;
	at = find(p, r);
	if (r->in.params.pin < 0)
	{
		if (*at != NULL)
			release(p, at);
		return true;
	}
	if (*at != NULL)
		return true;
	/* other prompts may have been pinned meanwhile */
	if (!pins_may(p, r, e))
		return false;
	*at = mem_zalloc(sizeof(Pin));
	(*at)->info = info_of(r, full_blocks(p, r) * p->block_size);
	(*at)->root = r->kv.root;
	for (int i = 0; i < full_blocks(p, r) * p->block_size; i++)
		intvec_push(&(*at)->tokens, r->tokens.data[i]);
	hold(p, *at);
	/* the prefix cache, with all pins, was cleared while the prompt was computed */
	if ((int) (*at)->blocks.len < full_blocks(p, r))
		release(p, at);
	return true;
}

int64_t
pins_tokens(const PinnedPrefixes *p)
{
	return (int64_t) p->n_blocks * p->block_size;
}

int
pins_pages(const PinnedPrefixes *p)
{
	return p->n_pages;
}

void
pins_each(const PinnedPrefixes *p, int64_t page_bytes, void (*emit) (void *ctx, const PinInfo *i), void *ctx)
{
	for (const Pin *pin = p->oldest; pin != NULL; pin = pin->next)
	{
		PinInfo		i = pin->info;
		int			n = (int) pin->blocks.len;

		i.bytes = page_bytes * (n * kvpool_full(p->pool) + (n - pin->w_from) * kvpool_window(p->pool));
		emit(ctx, &i);
	}
}

bool
pins_drop(PinnedPrefixes *p, uint64_t id)
{
	for (Pin **at = &p->oldest; *at != NULL; at = &(*at)->next)
		if ((*at)->info.id == id)
		{
			release(p, at);
			return true;
		}
	return false;
}

void
pins_count(const PinnedPrefixes *p, int *used, int *windows)
{
	for (const Pin *pin = p != NULL ? p->oldest : NULL; pin != NULL; pin = pin->next)
		for (int i = 0; i < (int) pin->blocks.len; i++)
		{
			used[pin->blocks.data[i]]++;
			windows[pin->blocks.data[i]] += i >= pin->w_from;
		}
}
