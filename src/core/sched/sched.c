/*
 * sched.c
 *	  The scheduler: running, waiting and held requests, and their blocks.
 *
 * There is no prefill and no decode phase.  A request has tokens (prompt and output so far) and
 * `computed`, the number of those whose K/V are in its blocks; a step hands out rows so that computed
 * catches up.  sched_queue.c chooses the next waiting request, sched_plan.c the rows of each request;
 * this file manages the blocks: which ones requests hold, how they lose them, and which ones forks take
 * over.
 *
 * When a running request can't get a block, the scheduler preempts the most recently admitted request of
 * the role that has most (sched_roles.c): it frees the request's blocks, sets computed = 0, queues the
 * request at the front, and takes back its rows in the current plan.  A model with recurrent state has a
 * slot for each running request, which is freed with the blocks.
 *
 * A fork is a request that begins with all the tokens of another, its parent, whose last rows have just
 * been computed.  The parent is then held: it is no longer in the running list, but keeps its blocks
 * until its forks have been admitted.  A fork takes a reference to each full block, and a copy of the
 * last one.  Shared blocks are never written, since a request only writes positions from its `computed`
 * on.  When blocks are short, held blocks are freed first; then, as after a preemption, forks compute
 * all their tokens themselves.
 *
 * With SchedOptions.priorities new requests wait in one queue, by priority, and all orders below are by
 * (priority, first admission): a request with a lower number is admitted first, and preempted last.  At
 * the same priority, background requests come after the others until they have been preempted once; from
 * then on their age counts, so that no request is preempted for ever.
 *
 * Invariants (sched_check):
 *  - running[] is in order of first admission, and so is the preempted queue.  While a plan walks over
 *	  running[], Sched.walk is its position, which is decremented when a request before it is removed.
 *  - The oldest request is never a victim unless it is alone, and alone it fits
 *	  (sched_fits, checked at submission): every plan makes it progress, so
 *	  there is no livelock.
 * - A held request has waiting forks.
 *
 * Owner: the step thread.  Add and remove are O(1) except for the shift in running[].  Tested by
 * tests/unit/core/sched/test_sched.c (hand-written traces, fairness, random operations, tiny pools).
 */
#include "core/kv/layer_groups.h"
#include "core/kv/block_lifetime.h"
#include "core/offload/offload.h"
#include "core/kv/pinned_prefix.h"
#include "core/sched/sched_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/spec/spec.h"

/* ---- blocks ---- */

int
sched_blocks(const Sched *s, int64_t n_tokens)
{
	return (int) ((n_tokens + s->opt.block_size - 1) / s->opt.block_size);
}

int
sched_pages(const Sched *s, int blocks, int windows)
{
	int			most = s->opt.window > 0 ? kvgroups_windows(s->opt.window, s->opt.max_rows,
															s->opt.block_size) : 0;

	return blocks * kvpool_full(s->pool) + (windows < most ? windows : most) * kvpool_window(s->pool);
}

/* The last output token is never an input: it needs no K/V. */
bool
sched_fits(const Sched *s, int64_t n_tokens)
{
	int			blocks = sched_blocks(s, n_tokens - 1);

	return blocks <= kvpool_total(s->pool) && sched_pages(s, blocks, blocks) <= kvpool_pages(s->pool);
}

bool
sched_must_fit(const Sched *s, int n_prompt, int max_tokens, Err *e)
{
	int64_t		n_tokens = (int64_t) n_prompt + max_tokens;
	int			blocks;

	if (sched_fits(s, n_tokens))
		return true;
	blocks = sched_blocks(s, n_tokens - 1);
	err_set(e, ERR_TOO_LONG, "request needs %d KV cache %s but the model has %d",
			sched_pages(s, blocks, blocks), s->opt.window > 0 ? "pages" : "blocks", kvpool_pages(s->pool));
	err_detail(e, "The prompt has %d tokens, max_tokens is %d and a block holds %d tokens.",
			   n_prompt, max_tokens, s->opt.block_size);
	return err_hint(e, "Lower max_tokens or give the model more KV cache memory.");
}

/* Free the memory of a running or held request, however it ends. */
static void
sched_free_memory(Sched *s, Req *r)
{
	prefix_cache_release(&s->share, r);
	if (r->kv.slot >= 0)
	{
		ALWAYS(s->n_free_slots < s->opt.max_seqs);
		s->free_slots[s->n_free_slots++] = r->kv.slot;
	}
	r->kv.slot = -1;
	ASSERT(r->kv.blocks.len == 0 && r->kv.n_noted == 0 && r->kv.w_from == 0);
}

/*
 * Free blocks that only have room for drafts: a running request keeps what it would have without
 * speculation.  Returns false if there are none.
 */
bool
sched_take_spare(Sched *s)
{
	int			n = 0;

	for (int i = 0; s->opt.spec != NULL && i < s->n_running; i++)
	{
		Req		   *r = s->running[i];
		int			planned = r->sched.plan_at >= 0 ? s->plan.e[r->sched.plan_at].n : 0;
		size_t		keep = (size_t) sched_blocks(s, r->kv.computed + planned);

		for (; r->kv.blocks.len > keep; n++)
			prefix_cache_drop_last(&s->share, r);
	}
	return n > 0;
}

/* ---- forks ---- */

/* Free the blocks of a held request. */
void
sched_release_held(Sched *s, Req *r)
{
	reqlist_remove(&s->held, r);
	sched_free_memory(s, r);
	queue_leave(r);
	r->kv.computed = 0;
	r->sched.state = RQ_REMOVED;
}

/* r does not need its parent any more. */
void
sched_leave_parent(Sched *s, Req *r)
{
	Req		   *parent = r->sched.parent;

	ALWAYS(parent == NULL || parent->sched.n_forks > 0);
	r->sched.parent = NULL;
	if (parent != NULL && --parent->sched.n_forks == 0 && parent->sched.state == RQ_HELD)
		sched_release_held(s, parent);
}

/* Return how many blocks r could take over without a copy. */
int
sched_parent_blocks(const Sched *s, const Req *r)
{
	return r->sched.parent != NULL && r->sched.parent->sched.state == RQ_HELD ?
		r->sched.parent->kv.computed / s->opt.block_size : 0;
}

/* Return true if no other fork needs the parent: r can take over all its blocks, including the last one. */
static bool
inherits(const Req *r)
{
	return r->sched.parent != NULL && r->sched.parent->sched.state == RQ_HELD &&
		r->sched.parent->sched.n_forks == 1;
}

/* Return how many of r's tokens its parent has computed when r is admitted. */
int
sched_parent_tokens(const Sched *s, const Req *r)
{
	int			blocks = sched_parent_blocks(s, r);

	if (r->sched.parent == NULL || r->sched.parent->sched.state != RQ_HELD)
		return 0;
	if (inherits(r))
		return r->sched.parent->kv.computed;
	return kvpool_available(s->pool) > 0 ? r->sched.parent->kv.computed : blocks * s->opt.block_size;
}

/* Give r the blocks that its parent has computed of r's tokens; r computes the rest. */
void
sched_take_over(Sched *s, Req *r)
{
	int			blocks = sched_parent_blocks(s, r);
	int			tokens = sched_parent_tokens(s, r);

	ASSERT(r->kv.blocks.len == 0 && tokens <= (int) r->tokens.len);
	prefix_cache_mark_computed(&s->share, r->sched.parent, r->sched.parent->kv.computed, false);
	prefix_cache_inherit(r, r->sched.parent);
	if (inherits(r))
	{
		IntVec		t = r->kv.blocks;

		r->kv.blocks = r->sched.parent->kv.blocks;
		r->sched.parent->kv.blocks = t;
		r->sched.parent->kv.computed = r->sched.parent->kv.n_noted = r->sched.parent->kv.w_from = 0;
		r->kv.computed = tokens;
		sched_leave_parent(s, r);
		return;
	}
	for (int i = 0; i < blocks; i++)
	{
		kvpool_ref(s->pool, r->sched.parent->kv.blocks.data[i]);
		if (i >= r->kv.w_from)
			kvpool_window_ref(s->pool, r->sched.parent->kv.blocks.data[i]);
		intvec_push(&r->kv.blocks, r->sched.parent->kv.blocks.data[i]);
	}
	if (tokens > blocks * s->opt.block_size)
	{
		int32_t		own;
		bool		there = prefix_cache_alloc(&s->share, 1, &own);

		/* sched_parent_tokens() has checked that a block is available */
		ALWAYS(there);
		intvec_push(&r->kv.blocks, own);
		prefix_cache_copy(&s->share, r->sched.parent->kv.blocks.data[blocks], own, &s->plan);
	}
	r->kv.computed = tokens;
	sched_leave_parent(s, r);
}

/* ---- preemption ---- */

/* Take the rows that the plan gave to a request back. */
static void
plan_refund(Sched *s, Req *r)
{
	PlanEntry  *pe;

	if (r->sched.plan_at < 0)
		return;
	pe = &s->plan.e[r->sched.plan_at];
	ASSERT(pe->r == r && s->plan.n_rows >= pe->n && s->plan.n_sample >= plan_logits(pe));
	s->plan.n_rows -= pe->n;
	s->plan.n_sample -= plan_logits(pe);
	s->plan.units -= cost_units(&s->cost, r->kv.computed, pe->n);
	pe->r = NULL;				/* plan_compact() drops it */
	r->sched.plan_at = -1;
}

void
sched_preempt(Sched *s, int at)
{
	Req		   *r;

	ALWAYS(at >= 0 && at < s->n_running);
	r = s->running[at];
	ASSERT(r->sched.state == RQ_RUNNING);
	s->n_running--;
	memmove(s->running + at, s->running + at + 1, (size_t) (s->n_running - at) * sizeof(Req *));
	if (at <= s->walk)
		s->walk--;
	plan_refund(s, r);
	sched_free_memory(s, r);
	r->kv.computed = 0;
	if (r->pooled != NULL)
		pooled_restart(r);
	if (s->opt.spec != NULL)
		spec_lost(s->opt.spec, r);
	r->sched.preemptions++;
	r->sched.yields = false;
	r->sched.state = RQ_PREEMPTED;
	queue_preempted(s, r);
	sched_want(s->waiting, r);
	s->plan.n_preempted++;
	s->n_preemptions++;
}

static void
sched_preempt_last(Sched *s)
{
	sched_preempt(s, s->n_running - 1);
}

void
sched_preempt_all(Sched *s)
{
	s->walk = -1;
	for (int i = 0; i < s->n_running; i++)
		s->running[i]->sched.plan_at = -1;
	while (s->n_running > 0)
		sched_preempt_last(s);
	while (s->held.n > 0)
		sched_release_held(s, s->held.tail);
}

/* ---- adding and removing ---- */

/* The content of a free block is about to be overwritten. */
static void
forget_block(void *ctx, int32_t block)
{
	const Sched *s = ctx;

	if (s->opt.prefix != NULL)
		prefix_drop(s->opt.prefix, block);
	if (s->opt.life != NULL)
		kvlife_lost(s->opt.life, block);
}

Sched *
sched_new(KvPool *pool, const SchedOptions *opt)
{
	Sched	   *s = mem_zalloc(sizeof(*s));

	s->opt = *opt;
	s->pool = pool;
	s->share = (PrefixCache) {opt->prefix, pool, opt->block_size, opt->window, opt->life, opt->offload};
	kvpool_on_lost(pool, forget_block, s);
	s->cost.attn_weight = opt->attn_weight;
	s->next_admit_no = 1;
	s->may_lose = (int64_t) kvpool_total(pool) * opt->block_size;
	s->walk = -1;
	s->running = mem_zalloc((size_t) opt->max_seqs * sizeof(Req *));
	s->free_slots = mem_zalloc((size_t) opt->max_seqs * sizeof(int));
	for (int i = opt->max_seqs; opt->slots && i > 0;)
		s->free_slots[s->n_free_slots++] = --i;
	/* max_seqs suffice: no request gets two entries, and none is admitted after a preemption */
	s->plan.e = mem_zalloc((size_t) opt->max_seqs * sizeof(PlanEntry));
	s->plan.copies = mem_zalloc((size_t) opt->max_seqs * (size_t) (kvpool_full(pool) + kvpool_window(pool)) *
								sizeof(BlockCopy));
	return s;
}

void
sched_free(Sched *s)
{
	if (s == NULL)
		return;
	ASSERT(s->n_running == 0 && s->held.n == 0 && sched_n_waiting(s) == 0);
	for (int c = 0; c < N_CLASSES; c++)
		fair_clear(&s->line[c].roles);
	mem_free(s->running);
	mem_free(s->free_slots);
	mem_free(s->plan.e);
	mem_free(s->plan.copies);
	mem_free(s->lora.of);
	mem_free(s);
}

void
sched_note(Sched *s, Req *r)
{
	prefix_cache_mark_computed(&s->share, r, r->kv.computed, false);
}

void
sched_add(Sched *s, Req *r)
{
	sched_place(s, queue_join(s, r), r);
	queue_joined(s, r);
}

static void
begin_as(Req *r, const Req *parent)
{
	r->kv.shares = parent->kv.shares;
	r->kv.chain = r->kv.root = parent->kv.root;
	r->kv.key = r->kv.root_key = parent->kv.root_key;
}

void
sched_fork(Sched *s, Req *r, Req *parent)
{
	reqlist_insert_before(queue_join(s, r), r);
	queue_joined(s, r);
	r->sched.parent = parent;
	if (parent == NULL)
		return;
	parent->sched.n_forks++;
	begin_as(r, parent);
}

void
sched_resume(Sched *s, Req *r, Req *parent)
{
	ASSERT(r->sched.state == RQ_NEW && r->kv.blocks.len == 0);
	r->sched.state = RQ_CONTINUATION;
	queue_enter(s, r);
	r->sched.plan_at = r->kv.slot = -1;
	sched_want(s->waiting, r);
	reqlist_insert(&s->resumed, r);
	r->sched.parent = parent;
	parent->sched.n_forks++;
	begin_as(r, parent);
}

static void
leave_running(Sched *s, Req *r)
{
	int			i = 0;

	while (i < s->n_running && s->running[i] != r)
		i++;
	ALWAYS(i < s->n_running);
	s->n_running--;
	memmove(s->running + i, s->running + i + 1, (size_t) (s->n_running - i) * sizeof(Req *));
}

void
sched_retain_blocks(Sched *s, Req *r)
{
	if (r->sched.n_forks == 0)
	{
		sched_remove(s, r);
		return;
	}
	ASSERT(r->sched.state == RQ_RUNNING && r->kv.slot < 0);
	leave_running(s, r);
	r->sched.state = RQ_HELD;
	reqlist_push_tail(&s->held, r);
}

void
sched_retain_for_forks(Sched *s, Req *r)
{
	/* recurrent state can't be shared: the forks compute all their tokens themselves */
	if (s->opt.slots)
		sched_remove(s, r);
	else
		r->sched.n_forks++;
	if (r->sched.state == RQ_RUNNING)
		sched_retain_blocks(s, r);
}

void
sched_release_blocks(Sched *s, Req *r)
{
	if (!s->opt.slots && --r->sched.n_forks == 0 && r->sched.state == RQ_HELD)
		sched_release_held(s, r);
}

void
sched_remove(Sched *s, Req *r)
{
	if (r->sched.state == RQ_RUNNING)
		leave_running(s, r);
	else if (r->sched.state == RQ_WAITING || r->sched.state == RQ_PREEMPTED ||
			 r->sched.state == RQ_CONTINUATION)
		queue_remove(s, r);
	sched_lora_removed(s, r);
	sched_leave_parent(s, r);
	if (r->kv.wait != NULL)
		offload_end(s->opt.offload, r);
	sched_free_memory(s, r);
	queue_leave(r);
	r->kv.computed = 0;
	r->sched.state = RQ_REMOVED;
}

int
sched_n_running(const Sched *s)
{
	return s->n_running;
}

Req *
sched_running(const Sched *s, int i)
{
	return s->running[i];
}

int
sched_n_waiting(const Sched *s)
{
	int			n = s->resumed.n;

	for (int c = 0; c < N_CLASSES; c++)
		n += s->line[c].n_new + s->line[c].preempted.n;
	return n;
}

int
sched_n_held(const Sched *s)
{
	return s->held.n;
}

int
sched_n_skipped(const Sched *s)
{
	return s->lora.n_skipped;
}

int64_t
sched_n_preemptions(const Sched *s)
{
	return s->n_preemptions;
}

Req *
sched_any(Sched *s)
{
	return s->n_running > 0 ? s->running[0] : queue_next(s);
}

/* ---- integrity ---- */

static bool
check_blocks(const Sched *s, const Req *r, int *used, int *windows, Err *e)
{
	if (r->kv.computed < 0 || (size_t) r->kv.computed > r->tokens.len)
		return err_set(e, ERR_INTERNAL, "request %llu has computed %d of %zu tokens",
					   (unsigned long long) r->in.id, r->kv.computed, r->tokens.len);
	/* with speculation a request may have more blocks for drafts, until other requests need them */
	if (s->opt.spec == NULL && (int) r->kv.blocks.len > sched_blocks(s, (int64_t) r->tokens.len))
		return err_set(e, ERR_INTERNAL, "request %llu of %zu tokens holds %zu blocks",
					   (unsigned long long) r->in.id, r->tokens.len, r->kv.blocks.len);
	if (r->kv.n_noted > r->kv.computed / s->opt.block_size || r->kv.w_from > (int) r->kv.blocks.len)
		return err_set(e, ERR_INTERNAL, "request %llu: %d tokens, %d blocks known, windows from %d on",
					   (unsigned long long) r->in.id, r->kv.computed, r->kv.n_noted, r->kv.w_from);
	if ((int) r->kv.blocks.len < sched_blocks(s, r->kv.computed))
		return err_set(e, ERR_INTERNAL, "request %llu has computed %d tokens in %zu blocks",
					   (unsigned long long) r->in.id, r->kv.computed, r->kv.blocks.len);
	for (size_t i = 0; i < r->kv.blocks.len; i++)
	{
		int32_t		b = r->kv.blocks.data[i];

		if (b < 1 || b > kvpool_total(s->pool))
			return err_set(e, ERR_INTERNAL, "request %llu holds block %d",
						   (unsigned long long) r->in.id, b);
		used[b]++;
		windows[b] += (int) i >= r->kv.w_from;
	}
	return true;
}

static bool
check_order(const Sched *s, Err *e)
{
	const Req  *last = NULL;

	for (int i = 0; i < s->n_running; i++)
	{
		if (s->running[i]->sched.state != RQ_RUNNING ||
			(last != NULL && !sched_precedes(last, s->running[i])))
			return err_set(e, ERR_INTERNAL, "running[%d] is out of order", i);
		last = s->running[i];
	}
	last = NULL;
	for (int c = 0; c < N_CLASSES; c++, last = NULL)
		for (const Req *r = s->line[c].preempted.head; r != NULL; r = r->sched.next)
		{
			if (last != NULL && !sched_precedes(last, r))
				return err_set(e, ERR_INTERNAL, "preempted request %llu is out of order",
							   (unsigned long long) r->in.id);
			last = r;
		}
	return true;
}

static bool
check_used(const Sched *s, int *used, int *windows, Err *e)
{
	int			n = 0;

	for (int i = 0; i < s->n_running; i++)
		if (!check_blocks(s, s->running[i], used, windows, e))
			return false;
	for (const Req *r = s->held.head; r != NULL; r = r->sched.next, n++)
	{
		if (r->sched.state != RQ_HELD || r->sched.n_forks < 1 || req_todo(r) != 0 || r->kv.slot >= 0)
			return err_set(e, ERR_INTERNAL, "held request %llu: state %d, %d forks, %d rows to do",
						   (unsigned long long) r->in.id, r->sched.state, r->sched.n_forks, req_todo(r));
		if (!check_blocks(s, r, used, windows, e))
			return false;
	}
	if (n != s->held.n)
		return err_set(e, ERR_INTERNAL, "%d requests are held, counted %d", n, s->held.n);
	pins_count(s->opt.pins, used, windows);
	for (int b = 1; b <= kvpool_total(s->pool); b++)
		if (used[b] != kvpool_refs(s->pool, b) ||
			(s->opt.window > 0 && windows[b] != kvpool_window_refs(s->pool, b)))
			return err_set(e, ERR_INTERNAL, "block %d is in %d tables and has %d references",
						   b, used[b], kvpool_refs(s->pool, b));
	return true;
}

/* Check that each slot is free or belongs to one request, and that each running request has one. */
static bool
check_slots(const Sched *s, Err *e)
{
	int			n = s->opt.slots ? s->opt.max_seqs : 0;
	int		   *used = mem_zalloc(((size_t) n + 1) * sizeof(int));
	bool		ok = s->n_free_slots + (s->opt.slots ? s->n_running : 0) == n;

	for (int i = 0; ok && i < s->n_free_slots; i++)
		ok = s->free_slots[i] >= 0 && s->free_slots[i] < n && used[s->free_slots[i]]++ == 0;
	for (int i = 0; ok && i < s->n_running; i++)
	{
		int			slot = s->running[i]->kv.slot;

		ok = s->opt.slots ? slot >= 0 && slot < n && used[slot]++ == 0 : slot < 0;
	}
	mem_free(used);
	return ok || err_set(e, ERR_INTERNAL, "%d slots of state: %d free, %d requests run", n, s->n_free_slots,
						 s->n_running);
}

bool
sched_check(const Sched *s, Err *e)
{
	int		   *used;
	bool		ok;

	if (!kvpool_check(s->pool, e) || !check_order(s, e) || !check_slots(s, e) || !queue_check(s, e) ||
		(s->opt.prefix != NULL && !prefix_check(s->opt.prefix, e)))
		return false;
	used = mem_zalloc(2 * ((size_t) kvpool_total(s->pool) + 1) * sizeof(int));
	ok = check_used(s, used, used + kvpool_total(s->pool) + 1, e);
	mem_free(used);
	return ok;
}
