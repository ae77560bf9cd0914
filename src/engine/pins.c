/*
 * pins.c
 *	  Prompts that stay computed (pins.h).
 *
 * Tested by tests/unit/test_pins.c and tests/t/092_kv.pl.
 */
#include "engine/pins.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"

#define SHARE 2					/* pins have at most this part of the pool */

typedef struct Pin
{
	struct Pin *next;			/* newer */
	uint64_t	root;
	IntVec		tokens;			/* of the full blocks */
	IntVec		blocks;
	int			w_from;			/* the first of them whose window it holds */
} Pin;

struct Pins
{
	KvPool	   *pool;
	Prefix	   *prefix;
	int			block_size;
	int			window;
	Pin		   *oldest;
};

Pins *
pins_new(KvPool *pool, Prefix *prefix, int block_size, int window)
{
	Pins	   *p = mem_zalloc(sizeof(*p));

	*p = (Pins) {pool, prefix, block_size, window, NULL};
	return p;
}

/* The first block whose window rows behind `blocks` of them see. */
static int
window_from(const Pins *p, int blocks)
{
	int			n = blocks * p->block_size;

	return p->window > 0 && n >= p->window ? (n + 1 - p->window) / p->block_size : 0;
}

static int
pages_for(const Pins *p, int blocks)
{
	return blocks * kvpool_full(p->pool) + (blocks - window_from(p, blocks)) * kvpool_window(p->pool);
}

static void
release(Pins *p, Pin **at)
{
	Pin		   *pin = *at;

	*at = pin->next;
	while (pin->blocks.len > 0)
	{
		int			i = (int) --pin->blocks.len;

		if (i >= pin->w_from)
			kvpool_window_unref(p->pool, pin->blocks.data[i]);
		kvpool_unref(p->pool, pin->blocks.data[i]);
	}
	intvec_free(&pin->blocks);
	intvec_free(&pin->tokens);
	mem_free(pin);
}

void
pins_clear(Pins *p)
{
	while (p->oldest != NULL)
		release(p, &p->oldest);
}

bool
pins_yield(Pins *p)
{
	if (p == NULL || p->oldest == NULL)
		return false;
	log_line('W', "a pinned prompt of %zu tokens gives way to a request that needs its memory", p->oldest->tokens.len);
	release(p, &p->oldest);
	return true;
}

void
pins_free(Pins *p)
{
	if (p == NULL)
		return;
	pins_clear(p);
	mem_free(p);
}

static int
full_blocks(const Pins *p, const Req *r)
{
	return r->n_prompt / p->block_size;
}

/* Where the pin of r's prompt is, or would be. */
static Pin **
find(Pins *p, const Req *r)
{
	size_t		n = (size_t) full_blocks(p, r) * (size_t) p->block_size;
	Pin		  **at = &p->oldest;

	while (*at != NULL && ((*at)->root != r->root || (*at)->tokens.len != n ||
						   memcmp((*at)->tokens.data, r->tokens.data, n * sizeof(int32_t)) != 0))
		at = &(*at)->next;
	return at;
}

bool
pins_may(const Pins *p, const Req *r, Err *e)
{
	int			most = kvpool_pages(p->pool) / SHARE;
	int			need = pages_for(p, full_blocks(p, r));
	int			have = pins_pages(p);

	if (r->params.pin != 0 && r->group != NULL)
		return err_set(e, ERR_INVALID, "a prompt is pinned, or unpinned, without answers: n must be 1, and there is no beam search");
	if (r->params.pin <= 0)
		return true;
	if (p->prefix == NULL || r->embeds != NULL)
		return err_set(e, ERR_UNSUPPORTED, "prompts can't be pinned: the model does not keep what it computes of them");
	if (full_blocks(p, r) == 0)
		return err_set(e, ERR_INVALID, "a prompt of %d tokens is too short to be pinned, a block has %d", r->n_prompt, p->block_size);
	if (have + need <= most)
		return true;
	err_set(e, ERR_NOMEM, "no room to pin a prompt of %d tokens", r->n_prompt);
	err_detail(e, "It takes %d pages of the KV cache, pinned prompts have %d and may have %d of %d.", need, have, most,
			   kvpool_pages(p->pool));
	return err_hint(e, "Unpin others with llm_unpin_prefix, or raise vllm.kv_cache_memory_bytes.");
}

/* Refer to the blocks that the cache knows for its tokens, as many as there are. */
static void
hold(Pins *p, Pin *pin)
{
	uint64_t	chain = pin->root;
	int32_t		b;

	while ((pin->blocks.len + 1) * (size_t) p->block_size <= pin->tokens.len &&
		   (b = prefix_find(p->prefix, chain, pin->tokens.data + pin->blocks.len * (size_t) p->block_size, &chain)) != 0)
	{
		kvpool_ref(p->pool, b);
		intvec_push(&pin->blocks, b);
	}
	pin->w_from = (int) pin->blocks.len;
	while (pin->w_from > window_from(p, (int) pin->blocks.len) && kvpool_has_window(p->pool, pin->blocks.data[pin->w_from - 1]))
		kvpool_window_ref(p->pool, pin->blocks.data[--pin->w_from]);
}

bool
pins_of(Pins *p, const Req *r, Err *e)
{
	Pin		  **at;

	if (r->params.pin == 0 || p->prefix == NULL)
		return true;
	at = find(p, r);
	if (r->params.pin < 0)
	{
		if (*at != NULL)
			release(p, at);
		return true;
	}
	if (*at != NULL)
		return true;
	/* others may have been pinned meanwhile */
	if (!pins_may(p, r, e))
		return false;
	*at = mem_zalloc(sizeof(Pin));
	(*at)->root = r->root;
	for (int i = 0; i < full_blocks(p, r) * p->block_size; i++)
		intvec_push(&(*at)->tokens, r->tokens.data[i]);
	hold(p, *at);
	/* the cache has been reset while it was computed, and with it what is pinned */
	if ((int) (*at)->blocks.len < full_blocks(p, r))
		release(p, at);
	return true;
}

int64_t
pins_tokens(const Pins *p)
{
	int64_t		n = 0;

	for (const Pin *pin = p->oldest; pin != NULL; pin = pin->next)
		n += (int64_t) pin->tokens.len;
	return n;
}

int
pins_pages(const Pins *p)
{
	int			n = 0;

	for (const Pin *pin = p->oldest; pin != NULL; pin = pin->next)
		n += (int) pin->blocks.len * kvpool_full(p->pool) + ((int) pin->blocks.len - pin->w_from) * kvpool_window(p->pool);
	return n;
}

void
pins_count(const Pins *p, int *used, int *windows)
{
	for (const Pin *pin = p != NULL ? p->oldest : NULL; pin != NULL; pin = pin->next)
		for (int i = 0; i < (int) pin->blocks.len; i++)
		{
			used[pin->blocks.data[i]]++;
			windows[pin->blocks.data[i]] += i >= pin->w_from;
		}
}
