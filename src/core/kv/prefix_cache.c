/*
 * prefix_cache.c
 *	  Requests with a common prefix share its blocks, which are computed once.
 *
 * Each block that a request has computed is noted in the prefix index (prefix_cache_mark_computed).  When
 * a request gets rows, the index is searched for the blocks that it still lacks (prefix_cache_lookup,
 * prefix_cache_adopt_blocks), whether it is new, was preempted, or is in the middle of its prompt.  So
 * requests that arrive together with a common prefix share the work: within one step each continues
 * where the previous one ends.
 *
 *	full blocks		are shared, with a reference; no request writes to them, as a request only
 *					writes positions from its `computed` on
 *	the last block	may be full although only a part of it is wanted: it is copied, and the wanted part
 *					of the copy is used
 *
 * A request always computes some rows itself: the last one, since its logits are needed, and those whose
 * hidden values or logits are part of its result.
 *
 * Blocks of the current plan are noted before they are computed (`pending`).  So only requests that
 * can't be preempted any more in this plan may note theirs: those that get prompt rows, since the plan
 * gives these in order and preempts from the end, and those just admitted, since after a preemption no
 * request is admitted.
 *
 * Owner: the step thread.  Tested by tests/unit/core/kv/test_prefix_cache.c, which tracks the content of
 * each block.
 */
#include "core/core_internal.h"
#include "core/kv/block_lifetime.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/offload/offload.h"

bool
prefix_cache_supported(const ModelInfo *info)
{
	return !info->both_ways && info->state_bytes == 0 && info->n_kv_layers > 0;
}

/* Adapters loaded from the same files are the same, even if their ids differ. */
static void
add_adapter(Buf *b, const LoraAdapter *a)
{
	static const unsigned char unknown[sizeof(a->content)];

	buf_addc(b, '\0');			/* no salt contains NUL */
	if (memcmp(a->content, unknown, sizeof(unknown)) != 0)
		buf_add(b, a->content, sizeof(a->content));
	else
		buf_add(b, &a->id, sizeof(a->id));
}

void
prefix_cache_attach(const Prefix *p, Req *r)
{
	Req		   *one[] = {r};
	Req		  **reqs = r->pooled != NULL ? r->pooled->reqs : one;
	int			n = r->pooled != NULL ? r->pooled->n_reqs : 1;
	Buf			salt = {0};
	uint64_t	root;

	if (p == NULL)
		return;
	if (r->in.params.cache_salt != NULL)
		buf_addstr(&salt, r->in.params.cache_salt);
	if (r->in.lora != NULL)
		add_adapter(&salt, r->in.lora);
	root = prefix_root(p, r->in.owner, salt.data, salt.len);
	for (int i = 0; i < n; i++)
	{
		/* rows of embeddings have no token ids to compare */
		reqs[i]->kv.shares = reqs[i]->seq.seen_to == 0 && r->in.embeds == NULL;
		reqs[i]->kv.root = reqs[i]->kv.chain = root;
	}
	buf_free(&salt);
}

/* Tokens that the grammar forces at the start are computed with the prompt, but are not part of it. */
static int
cached_prompt(const Req *r)
{
	return r->kv.cached < r->in.n_prompt ? r->kv.cached : r->in.n_prompt;
}

static int
back_prompt(const Req *r)
{
	return r->kv.back < cached_prompt(r) ? r->kv.back : cached_prompt(r);
}

static int
sum_of(const Req *r, int (*of) (const Req *r))
{
	int			n = 0;

	if (r->group != NULL)
		return of(r->group->prompt_request);
	if (r->pooled == NULL)
		return of(r);
	/* choices continue the prompt, which counts once */
	for (int i = 0; i < (r->pooled->spec.join == PJ_CHOICES ? 1 : r->pooled->n_reqs); i++)
		n += of(r->pooled->reqs[i]);
	return n;
}

int
prefix_cache_hit_tokens(const Req *r)
{
	return sum_of(r, cached_prompt);
}

int
prefix_cache_tokens_from_tier(const Req *r)
{
	return sum_of(r, back_prompt);
}

/* Return how many of r's first tokens may come from other requests. */
int
prefix_cache_limit(const Req *r)
{
	int			limit = (int) r->tokens.len - 1;
	int			wanted = limit;

	/* results of earlier rows are already there */
	if (r->out.prompt_lp != NULL)
		wanted = (int) r->out.prompt_lp->counts.len - 1;
	else if (r->pooled != NULL)
		wanted = r->seq.out_from;
	return wanted < limit ? wanted : limit;
}

static const int32_t *
tokens_at(const PrefixCache *s, const Req *r, int block)
{
	return r->tokens.data + (size_t) block * (size_t) s->block_size;
}

/* ---- blocks of a request ---- */

void
prefix_cache_mark_computed(PrefixCache *s, Req *r, int upto, bool pending)
{
	if (s->prefix == NULL || !r->kv.shares)
		return;
	for (; (r->kv.n_noted + 1) * s->block_size <= upto; r->kv.n_noted++)
	{
		int32_t		b;

		/* the request holds the block and has its tokens */
		ALWAYS(r->kv.n_noted < (int) r->kv.blocks.len && upto <= (int) r->tokens.len);
		b = r->kv.blocks.data[r->kv.n_noted];
		r->kv.chain = prefix_add(s->prefix, r->kv.chain, b, tokens_at(s, r, r->kv.n_noted), s->block_size,
								 pending);
		if (s->offload == NULL)
			continue;
		offload_next(s->offload, &r->kv.key, tokens_at(s, r, r->kv.n_noted));
		offload_note(s->offload, b, &r->kv.key);
	}
}

/* known: its content may be reused by other requests. */
static void
drop_last(PrefixCache *s, Req *r, bool known)
{
	int			at = (int) r->kv.blocks.len - 1;
	int32_t		b;

	ALWAYS(at >= 0);
	b = r->kv.blocks.data[at];
	r->kv.blocks.len--;
	if (at >= r->kv.w_from)
		kvpool_window_unref(s->pool, b);
	else
		r->kv.w_from = at;
	if (known)
		kvpool_unref(s->pool, b);
	else
		kvpool_unref_first(s->pool, b);
}

void
prefix_cache_release(PrefixCache *s, Req *r)
{
	int			rest;

	prefix_cache_mark_computed(s, r, r->kv.computed, false);
	rest = r->kv.computed - r->kv.n_noted * s->block_size;
	if (s->prefix != NULL && r->kv.shares && rest > 0)
		prefix_add(s->prefix, r->kv.chain, r->kv.blocks.data[r->kv.n_noted], tokens_at(s, r, r->kv.n_noted),
				   rest, false);
	r->kv.n_noted = 0;
	r->kv.chain = r->kv.root;
	r->kv.key = r->kv.root_key;
	/*
	 * the end of a sequence is reused before its beginning, and blocks that the index does not have
	 * before all others
	 */
	while (r->kv.blocks.len > 0)
		drop_last(s, r, s->prefix != NULL && prefix_has(s->prefix, r->kv.blocks.data[r->kv.blocks.len - 1]));
	r->kv.w_from = 0;
}

void
prefix_cache_drop_last(PrefixCache *s, Req *r)
{
	drop_last(s, r, false);
}

/* Return the first block that rows from `computed` on see through a window. */
static int
window_from(const PrefixCache *s, int computed)
{
	return s->window > 0 && computed >= s->window ? (computed + 1 - s->window) / s->block_size : 0;
}

static void
trim_to(PrefixCache *s, Req *r, int from)
{
	for (; r->kv.w_from < from && r->kv.w_from < (int) r->kv.blocks.len; r->kv.w_from++)
		kvpool_window_unref(s->pool, r->kv.blocks.data[r->kv.w_from]);
}

void
prefix_cache_trim(PrefixCache *s, Req *r)
{
	trim_to(s, r, window_from(s, r->kv.computed));
}

void
prefix_cache_copy(const PrefixCache *s, int32_t from, int32_t to, Plan *plan)
{
	const int32_t *map = kvpool_map(s->pool);
	int			n = kvpool_full(s->pool) + kvpool_window(s->pool);

	if (map == NULL)
		plan->copies[plan->n_copies++] = (BlockCopy) {from, to};
	else
		for (int i = 0; i < n; i++)
			plan->copies[plan->n_copies++] = (BlockCopy) {map[from * n + i], map[to * n + i]};
}

bool
prefix_cache_alloc(PrefixCache *s, int n, int32_t *out)
{
	if (!kvpool_alloc(s->pool, n, out))
		return false;
	for (int i = 0; s->prefix != NULL && i < n; i++)
	{
		if (s->offload != NULL)
			offload_out(s->offload, out[i]);
		prefix_drop(s->prefix, out[i]);
	}
	for (int i = 0; s->life != NULL && i < n; i++)
		kvlife_taken(s->life, out[i]);
	return true;
}

/* ---- blocks of other requests ---- */

PrefixHit
prefix_cache_lookup(const PrefixCache *s, const Req *r)
{
	PrefixHit	h = {.tokens = r->kv.computed};
	int			limit = prefix_cache_limit(r);
	int			at = r->kv.n_noted;
	/* number of blocks looked at; the windows exist from block `run` on */
	int			seen = at;
	int			run = r->kv.w_from;
	int			idle = 0;
	int			idle_windows = 0;
	uint64_t	chain = r->kv.chain;
	uint64_t	next = chain;
	int32_t		b;
	int			same;

	if (s->prefix == NULL || !r->kv.shares)
		return h;
	while ((seen + 1) * s->block_size <= limit &&
		   (b = prefix_find(s->prefix, next, tokens_at(s, r, seen), &next)) != 0)
	{
		seen++;
		idle += kvpool_refs(s->pool, b) == 0;
		idle_windows += kvpool_window_refs(s->pool, b) == 0;
		if (!kvpool_has_window(s->pool, b))
			run = seen;
		if (run > window_from(s, seen * s->block_size))
			continue;
		at = seen;
		chain = next;
		h.n_blocks = at - r->kv.n_noted;
		h.n_idle = idle;
		h.n_idle_windows = idle_windows;
		h.tokens = at * s->block_size;
	}
	h.n_windows = at - window_from(s, at * s->block_size);
	h.n_windows = h.n_windows < h.n_blocks ? h.n_windows : h.n_blocks;
	h.n_idle_windows = h.n_idle_windows < h.n_windows ? h.n_idle_windows : h.n_windows;
	if (r->kv.computed > at * s->block_size)
		return h;				/* its own last block has as many tokens, or more */
	same = limit - at * s->block_size < s->block_size ? limit - at * s->block_size : s->block_size;
	h.copied = prefix_find_part(s->prefix, chain, tokens_at(s, r, at), same, &same);
	if (h.copied != 0 && !kvpool_has_window(s->pool, h.copied))
		h.copied = 0;
	if (h.copied != 0)
		h.tokens += same;
	return h;
}

/* Allocate a block, *own, and copy the content of block `of` to it. */
static bool
alloc_copy(PrefixCache *s, int32_t of, int32_t *own, Plan *plan)
{
	bool		pages = kvpool_map(s->pool) != NULL;
	bool		ok;

	/* keep the source's pages from being taken for the copy */
	if (pages)
	{
		kvpool_ref(s->pool, of);
		kvpool_window_ref(s->pool, of);
	}
	/*
	 * without pages the allocated block may be the source itself, from the free list: then no copy is
	 * needed
	 */
	ok = prefix_cache_alloc(s, 1, own);
	if (ok && *own != of)
		prefix_cache_copy(s, of, *own, plan);
	if (pages)
	{
		kvpool_window_unref(s->pool, of);
		kvpool_unref(s->pool, of);
	}
	return ok;
}

void
prefix_cache_adopt_blocks(PrefixCache *s, Req *r, const PrefixHit *h, Plan *plan)
{
	int			tokens = h->tokens;
	int			from;
	int32_t		own;

	/*
	 * drop its own last block, which is not full and has no more than the first block found, and the
	 * empty blocks after it
	 */
	if (h->n_blocks > 0 || h->copied != 0)
		while ((int) r->kv.blocks.len > r->kv.n_noted)
			drop_last(s, r, false);
	/* the windows exist from here on */
	from = h->n_blocks > 0 ? window_from(s, (r->kv.n_noted + h->n_blocks) * s->block_size) : 0;
	trim_to(s, r, from);
	if (from > r->kv.w_from)
		r->kv.w_from = from;
	for (int i = 0; i < h->n_blocks; i++)
	{
		int32_t		b = prefix_find(s->prefix, r->kv.chain, tokens_at(s, r, r->kv.n_noted), &r->kv.chain);

		/* prefix_cache_lookup() has found it, and no block has been dropped since */
		ALWAYS(b != 0);
		kvpool_ref(s->pool, b);
		if (s->life != NULL)
			kvlife_found(s->life, b);
		if (r->kv.n_noted >= r->kv.w_from)
			kvpool_window_ref(s->pool, b);
		intvec_push(&r->kv.blocks, b);
		r->kv.n_noted++;
		if (s->offload != NULL)
			r->kv.key = *offload_key(s->offload, b);
	}
	if (h->copied != 0 && alloc_copy(s, h->copied, &own, plan))
		intvec_push(&r->kv.blocks, own);
	else if (h->copied != 0)
		tokens = r->kv.n_noted * s->block_size;
	/* tokens that it had computed before a preemption do not count as found */
	if (r->sched.preemptions == 0)
		r->kv.cached += tokens - r->kv.computed;
	r->kv.computed = tokens;
	ASSERT(tokens <= (int) r->tokens.len && (size_t) tokens <= r->kv.blocks.len * (size_t) s->block_size);
}

void
prefix_cache_inherit(Req *r, const Req *parent)
{
	r->kv.chain = parent->kv.chain;
	r->kv.key = parent->kv.key;
	r->kv.n_noted = parent->kv.n_noted;
	r->kv.w_from = parent->kv.w_from;
}
