/*
 * test_prefix_cache.c
 *	  Blocks that requests share, without a model: a simulated world that knows the content of each
 *	  block.
 *
 *	1. prefix_index.c against a naive list, random operations;
 *	2. hand-written traces: what is found, what is computed once, salts, order of reuse;
 *	3. random requests with common prefixes in tiny pools, cancelled, preempted, with forks:
 *	   a request that reads a block finds what its own tokens would have written;
 *	4. the same with a store below the pool, in memory and in files, that drops entries now and then.
 *
 * A slot of a block holds a hash of the token there and all tokens before it, as K and V do.  With a
 * store, the draft model's KV has the complement.
 */
#include "core/offload/offload.h"
#include "core/sched/sched_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"

#include "tests/unit/check.h"

static uint32_t rnd_state = 1;

static int
rnd(int n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (int) ((rnd_state >> 8) % (uint32_t) n);
}

/* ---- prefix_index.c ---- */

#define N_BLOCKS 40
#define B 4

typedef struct Known
{
	bool		known;
	uint64_t	parent;
	uint64_t	chain;
	int			n;
	int32_t		tokens[B];
} Known;

static void
test_prefix(void)
{
	Prefix	   *p = prefix_new(N_BLOCKS, B);
	Known		have[N_BLOCKS] = {0};
	uint64_t	chains[8] = {prefix_root(p, 0, NULL, 0), prefix_root(p, 0, "a", 1),
							 prefix_root(p, 1, NULL, 0), prefix_root(p, 1, "a", 1)};
	Err			e = {0};
	int			bad = 0;

	for (int i = 0; i < 4; i++)
		for (int j = i + 1; j < 4; j++)
			CHECK(chains[i] != chains[j] && chains[i] != 0, "roots %d and %d", i, j);
	CHECK(prefix_root(p, 1, "a", 1) == chains[3], "a root is not the same twice");
	for (int i = 4; i < 8; i++)
		chains[i] = chains[i - 4];
	for (int step = 0; step < 200000; step++)
	{
		uint64_t	chain = chains[rnd(8)];
		int32_t		tokens[B];
		int32_t		b = 1 + rnd(N_BLOCKS - 1);
		int			n = rnd(3) > 0 ? B : 1 + rnd(B);
		int32_t		found = 0;
		int			most = 0;
		uint64_t	next = 0;
		int			same;

		for (int i = 0; i < B; i++)
			tokens[i] = rnd(2);
		for (int i = 1; i < N_BLOCKS; i++)
		{
			int			k = 0;

			if (!have[i].known || have[i].parent != chain)
				continue;
			while (k < n && k < have[i].n && have[i].tokens[k] == tokens[k])
				k++;
			most = k > most ? k : most;
			if (have[i].n == B && memcmp(have[i].tokens, tokens, sizeof(tokens)) == 0)
				found = i;
		}
		bad += prefix_find(p, chain, tokens, &next) != found || (found != 0 && next != have[found].chain);
		/* only some of many blocks with the same beginning are compared, so the best one may be missed */
		if (prefix_find_part(p, chain, tokens, n, &same) == 0)
			bad += most != 0 || same != 0;
		else
			bad += same < 1 || same > most;
		if (rnd(3) == 0)
		{
			prefix_drop(p, b);
			have[b].known = false;
		}
		else
		{
			bool		there = n == B ? found != 0 : (prefix_find_part(p, chain, tokens, n, &same) != 0 &&
													   same == n);
			uint64_t	child = prefix_add(p, chain, b, tokens, n, false);

			if (there)
				bad += n == B && child != have[found].chain;
			else
			{
				have[b] = (Known) {true, chain, child, n, {0}};
				memcpy(have[b].tokens, tokens, sizeof(tokens));
				bad += (n == B) != (child != 0);
				if (n == B && rnd(2) == 0)
					chains[4 + rnd(4)] = child;
			}
		}
		for (int i = 1; i < N_BLOCKS; i++)
			bad += prefix_has(p, i) != have[i].known;
	}
	CHECK(bad == 0, "%d answers differ from the list's", bad);
	CHECK(prefix_check(p, &e), "%s", e.msg);
	prefix_clear(p);
	for (int i = 1; i < N_BLOCKS; i++)
		CHECK(!prefix_has(p, i), "block %d is known", i);
	prefix_free(p);
}

/* ---- the simulated world ---- */

#define MAX_REQS 512

typedef struct World
{
	KvPool	   *pool;
	Prefix	   *prefix;
	Sched	   *s;
	int			block;
	int			n_blocks;
	uint64_t   *held;			/* [n_blocks][block] */
	uint64_t   *draft;			/* [n_blocks][block]; NULL without a store */
	KvView	   *kv;				/* views of both */
	KvTier	   *tier;			/* NULL = none */
	Offload    *offload;
	Req		   *reqs[MAX_REQS];
	int			last[MAX_REQS];
	int			n_vocab;
	/* counters */
	int			computed;		/* rows of all steps */
	int			bad;
	int			copies;
} World;

/* Open a store of `blocks` blocks below the pool, with files in dir (NULL: no files). */
static void
world_tier(World *w, SchedOptions *opt, int blocks, const char *dir)
{
	static const unsigned char id[KVTIER_KEY] = "a model";
	size_t		bytes = (size_t) w->block * sizeof(uint64_t);
	KvTierOptions to = {.memory_bytes = (size_t) blocks * 4096, .directory = dir, .disk_bytes = 1 << 20};
	Err			e = {0};

	w->draft = mem_zalloc((size_t) w->n_blocks * bytes);
	w->tier = kvtier_open(&to, &e);
	if (w->tier == NULL)
	{
		fprintf(stderr, "kvtier_open: %s\n", e.msg);
		exit(2);
	}
	w->kv = mem_zalloc(2 * sizeof(KvView));
	w->kv[0] = (KvView) {.base = (uint8_t *) w->held, .block_stride = bytes};
	w->kv[1] = (KvView) {.base = (uint8_t *) w->draft, .block_stride = bytes};
	opt->offload = w->offload = offload_open(&(OffloadSetup) {
		.tier = w->tier, .id = id, .pool = w->pool, .prefix = w->prefix, .block_size = w->block,
			.always = true,
		.kernels = kernels_select(NULL, NULL), .areas = {&w->kv[0], &w->kv[1]}, .step_bytes = 24 * bytes
	}, &e);
	CHECK(w->offload != NULL, "%s", e.msg);
}

static World
world_with(SchedOptions opt, int blocks, bool shared, int tier_blocks, const char *dir)
{
	World		w;

	memset(&w, 0, sizeof(w));
	w.n_vocab = 1000;
	w.block = opt.block_size = 16;
	w.n_blocks = blocks + 1;
	w.pool = kvpool_new(w.n_blocks);
	if (shared)
		opt.prefix = w.prefix = prefix_new(w.n_blocks, 16);
	w.held = mem_zalloc((size_t) w.n_blocks * 16 * sizeof(uint64_t));
	if (tier_blocks > 0)
		world_tier(&w, &opt, tier_blocks, dir);
	w.s = sched_new(w.pool, &opt);
	return w;
}

static World
world_new(SchedOptions opt, int blocks, bool shared)
{
	return world_with(opt, blocks, shared, 0, NULL);
}

static Req *
req_new(World *w, int id, int max_tokens)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	r->in.id = (uint64_t) id;
	r->kv.slot = r->sched.plan_at = -1;
	w->reqs[id] = r;
	w->last[id] = max_tokens;
	return r;
}

static void
root(World *w, Req *r, uint64_t owner)
{
	r->kv.shares = w->prefix != NULL;
	if (r->kv.shares)
		r->kv.root = r->kv.chain = prefix_root(w->prefix, owner, NULL, 0);
	r->in.owner = owner;
	if (w->offload != NULL)
		offload_begin(w->offload, r);
}

/*
 * Add a request whose first `common` tokens are those of all requests with this seed; it generates
 * max_tokens.
 */
static Req *
add(World *w, int id, int n_prompt, int common, uint32_t seed, int max_tokens)
{
	Req		   *r = req_new(w, id, n_prompt + max_tokens);
	uint32_t	mine = rnd_state;

	r->in.n_prompt = n_prompt;
	r->in.session = (uint64_t) rnd(3);
	rnd_state = seed;
	for (int i = 0; i < n_prompt; i++)
	{
		if (i == common)
			rnd_state = mine + (uint32_t) id;
		intvec_push(&r->tokens, rnd(w->n_vocab));
	}
	rnd_state = mine;
	root(w, r, 0);
	sched_add(w->s, r);
	return r;
}

static void
drop(World *w, int id)
{
	Req		   *r = w->reqs[id];

	sched_remove(w->s, r);
	intvec_free(&r->tokens);
	intvec_free(&r->kv.blocks);
	mem_free(r);
	w->reqs[id] = NULL;
}

static void
world_free(World *w)
{
	for (int i = 0; i < MAX_REQS; i++)
		if (w->reqs[i] != NULL)
			drop(w, i);
	sched_free(w->s);
	offload_close(w->offload);
	if (w->tier != NULL)
	{
		Err			e = {0};

		CHECK(kvtier_check(w->tier, &e), "%s", e.msg);
		kvtier_close(w->tier);
	}
	mem_free(w->draft);
	mem_free(w->kv);
	CHECK(kvpool_available(w->pool) == kvpool_total(w->pool), "%d blocks are left",
		  kvpool_total(w->pool) - kvpool_available(w->pool));
	kvpool_free(w->pool);
	prefix_free(w->prefix);
	mem_free(w->held);
}

static uint64_t
mix(uint64_t h, int32_t token)
{
	h = (h ^ (uint64_t) (uint32_t) token) * UINT64_C(0x9E3779B97F4A7C15);
	return h ^ h >> 29;
}

static size_t
place(const World *w, const Req *r, int pos)
{
	return (size_t) r->kv.blocks.data[pos / w->block] * (size_t) w->block + (size_t) (pos % w->block);
}

static void
fill(World *w, size_t at, uint64_t h)
{
	w->held[at] = h;
	if (w->draft != NULL)
		w->draft[at] = ~h;
}

/* One step: all copies, all writes, then all reads, as a layer does. */
static const Plan *
compute(World *w)
{
	const Plan *p = sched_plan(w->s, 1);

	for (int i = 0; i < p->n_copies; i++)
		for (int k = 0; k < w->block; k++)
			fill(w, (size_t) (p->copies[i].to * w->block + k), w->held[p->copies[i].from * w->block + k]);
	w->copies += p->n_copies;
	w->computed += p->n_rows;
	for (int i = 0; i < p->n; i++)
	{
		const Req  *r = p->e[i].r;
		uint64_t	h = 0;

		for (int pos = 0; pos < r->kv.computed + p->e[i].n; pos++)
		{
			h = mix(h, r->tokens.data[pos]);
			if (pos >= r->kv.computed)
				fill(w, place(w, r, pos), h);
		}
	}
	for (int i = 0; i < p->n; i++)
	{
		const Req  *r = p->e[i].r;
		uint64_t	h = 0;

		for (int pos = 0; pos < r->kv.computed + p->e[i].n; pos++)
		{
			h = mix(h, r->tokens.data[pos]);
			w->bad += w->held[place(w, r, pos)] != h ||
				(w->draft != NULL && w->draft[place(w, r, pos)] != ~h);
		}
	}
	return p;
}

static void
step(World *w)
{
	const Plan *p = compute(w);
	Err			e = {0};

	for (int i = 0; i < p->n; i++)
	{
		Req		   *r = p->e[i].r;
		uint64_t	h = 0;

		r->kv.computed += p->e[i].n;
		if (!p->e[i].sample)
			continue;
		/* the next token depends only on the tokens before it */
		for (size_t k = 0; k < r->tokens.len; k++)
			h = mix(h, r->tokens.data[k]);
		intvec_push(&r->tokens, (int32_t) (h >> 40) % w->n_vocab);
		if ((int) r->tokens.len >= w->last[r->in.id])
			drop(w, (int) r->in.id);
	}
	CHECK(sched_check(w->s, &e), "%s", e.msg);
}

static void
run_all(World *w)
{
	for (int i = 0; i < 100000 && sched_n_running(w->s) + sched_n_waiting(w->s) > 0; i++)
		step(w);
}

/* ---- traces ---- */

static const SchedOptions plain = {.max_seqs = 8, .max_rows = 256};

/* A prompt that has been computed costs one row; its output counts as well. */
static void
test_again(void)
{
	World		w = world_new(plain, 40, true);
	Req		   *r;

	add(&w, 1, 70, 70, 7, 10);
	run_all(&w);
	CHECK(w.computed == 79, "%d rows", w.computed);
	w.computed = 0;
	r = add(&w, 2, 70, 70, 7, 1);
	step(&w);
	CHECK(w.computed == 1 && w.copies == 1, "%d rows, %d copies", w.computed, w.copies);
	/* the same prompt with its whole output, and a following message */
	w.computed = 0;
	r = add(&w, 3, 70, 70, 7, 50);
	for (int i = 0; i < 10; i++)
		step(&w);
	CHECK(r->kv.cached == 69 && w.computed == 10, "%d cached, %d rows", r->kv.cached, w.computed);
	r = add(&w, 4, 90, 60, 7, 1);
	w.computed = 0;
	compute(&w);
	CHECK(r->kv.cached == 60 && r->kv.computed == 60, "%d are found of 60 in common", r->kv.cached);
	CHECK(w.bad == 0, "%d places hold something else", w.bad);
	world_free(&w);
}

/* Requests that come together: the common part is computed once, in one step or in several. */
static void
test_together(int rows, int common)
{
	World		w = world_new((SchedOptions) {.max_seqs = 16, .max_rows = rows}, 400, true);
	int			tails = 0;
	int			n_steps = 0;

	for (int i = 1; i <= 16; i++)
	{
		add(&w, i, common + 20 + i, common, 5, 1);
		tails += 20 + i;
	}
	run_all(&w);
	for (; n_steps < 1000 && sched_n_running(w.s) > 0; n_steps++)
		step(&w);
	/* tokens after the last full common block are computed by each request */
	CHECK(w.computed >= common + tails && w.computed <= common + tails + 16 * 16,
		  "%d rows a step: %d rows, %d in common, %d not", rows, w.computed, common, tails);
	CHECK(w.bad == 0, "%d places hold something else", w.bad);
	world_free(&w);
}

/* Another owner finds nothing. */
static void
test_owners(void)
{
	World		w = world_new(plain, 40, true);
	Req		   *r;

	add(&w, 1, 70, 70, 7, 10);
	run_all(&w);
	r = add(&w, 2, 70, 70, 7, 2);
	sched_remove(w.s, r);
	root(&w, r, 42);
	sched_add(w.s, r);
	w.computed = 0;
	step(&w);
	CHECK(w.computed == 70 && r->kv.cached == 0, "%d rows", w.computed);
	r = add(&w, 3, 70, 70, 7, 2);
	sched_remove(w.s, r);
	r->kv.shares = false;
	sched_add(w.s, r);
	w.computed = 0;
	step(&w);
	CHECK(w.computed == 71 && r->kv.cached == 0, "%d rows", w.computed);
	world_free(&w);
}

/* The least recently used block is reused first, a sequence's end before its beginning. */
static void
test_lru(void)
{
	World		w = world_new(plain, 12, true);
	Req		   *r;

	add(&w, 1, 64, 64, 1, 1);
	run_all(&w);
	add(&w, 2, 64, 64, 2, 1);
	run_all(&w);
	add(&w, 3, 40, 40, 1, 1);	/* uses the beginning of the first one */
	run_all(&w);
	add(&w, 4, 96, 0, 9, 1);	/* six blocks: four that were empty, the two least recently used */
	run_all(&w);
	r = add(&w, 5, 64, 64, 1, 5);
	step(&w);
	CHECK(r->kv.cached >= 32 && r->kv.cached < 63, "%d of the first prompt are left", r->kv.cached);
	r = add(&w, 6, 64, 64, 2, 5);
	step(&w);
	CHECK(r->kv.cached >= 16, "%d of the second", r->kv.cached);
	CHECK(w.bad == 0, "%d places hold something else", w.bad);
	world_free(&w);
}

/* Add one of a statement's rows; four prompts in turn. */
static void
add_row(World *w, int id, int row, WorkClass work)
{
	Req		   *r = add(w, id, 200, 180, (uint32_t) (row % 4), 1);

	sched_remove(w->s, r);
	r->in.session = 1;
	r->in.work = work;
	sched_add(w->s, r);
}

#define WAITING (MAX_REQS - 1)

/*
 * A statement's rows wait for those with the same prefix, so that a cache with space for one prefix
 * finds it; none is overtaken too often.  Latency work runs in the order of arrival.
 */
static void
test_order(WorkClass work)
{
	World		w = world_new((SchedOptions) {.max_seqs = 2, .max_rows = 512}, 27, true);
	int			arrived[MAX_REQS];
	int			cached = 0;
	int			most = 0;
	int			n = 0;

	for (int id = 1; id <= WAITING; id++, n++)
		add_row(&w, id, arrived[id] = n, work);
	while (n < 1000)
	{
		step(&w);
		for (int id = 1; id <= WAITING; id++)
		{
			const Req  *r = w.reqs[id];

			if (r != NULL && r->sched.state == RQ_WAITING && n - arrived[id] > most)
				most = n - arrived[id];
			if (r == NULL)
				add_row(&w, id, arrived[id] = n++, work);
		}
	}
	run_all(&w);
	cached = 1000 * 200 - w.computed;
	if (work == WORK_THROUGHPUT)
		CHECK(cached > 1000 * 180 * 9 / 10, "%d of %d tokens are found", cached, 1000 * 180);
	else
		CHECK(cached < 1000 * 180 / 2, "%d of %d tokens are found", cached, 1000 * 180);
	CHECK(most <= 2 * WAITING + SCHED_PASS_MOST, "one waited for %d that came behind it", most);
	CHECK(w.bad == 0, "%d places hold something else", w.bad);
	world_free(&w);
}

/* A preempted request finds its blocks again, except for those that were reused. */
static void
test_preempted(void)
{
	int			computed[2];

	for (int shared = 0; shared < 2; shared++)
	{
		World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 64}, 9, shared);

		add(&w, 1, 60, 0, 1, 40);
		add(&w, 2, 40, 0, 2, 40);
		run_all(&w);
		CHECK(sched_n_preemptions(w.s) > 0 && w.bad == 0, "%d preemptions, %d bad",
			  (int) sched_n_preemptions(w.s), w.bad);
		computed[shared] = w.computed;
		world_free(&w);
	}
	CHECK(computed[1] < computed[0], "%d rows with shared blocks, %d without", computed[1], computed[0]);
}

/* ---- random ---- */

/* Continue a request as n forks. */
static void
fork_some(World *w, int id, int n)
{
	Req		   *parent = w->reqs[id];
	int			made = 0;

	for (int i = MAX_REQS / 2; i < MAX_REQS && made < n; i++)
	{
		Req		   *r;

		if (w->reqs[i] != NULL)
			continue;
		r = req_new(w, i, (int) parent->tokens.len + 2 + rnd(20));
		r->in.n_prompt = parent->in.n_prompt;
		r->in.session = parent->in.session;
		r->in.priority = parent->in.priority;
		intvec_add(&r->tokens, parent->tokens.data, parent->tokens.len);
		intvec_push(&r->tokens, rnd(w->n_vocab));
		made++;
		if (rnd(2) == 0)
			sched_fork(w->s, r, parent);
		else
			sched_resume(w->s, r, parent);
	}
	if (made > 0)
		sched_retain_blocks(w->s, parent);
}

/* Half of the time, return a request that exists. */
static int
some(World *w)
{
	int			id = 1 + rnd(MAX_REQS / 2 - 1);

	for (int i = 0; i < MAX_REQS / 2 && w->reqs[id] == NULL; i++)
		id = id % (MAX_REQS / 2 - 1) + 1;
	return rnd(2) == 0 || w->reqs[id] == NULL ? 1 + rnd(MAX_REQS / 2 - 1) : id;
}

static void
test_random(uint32_t seed, int blocks, bool priorities, int tier_blocks, const char *dir)
{
	World		w = world_with((SchedOptions) {
		.max_seqs = 6, .max_rows = 48, .priorities = priorities, .max_chunk = seed % 3 == 0 ? 7 : 0
	}, blocks, true, tier_blocks, dir);
	int64_t		found = 0;
	int			n_forked = 0;
	int			parents[MAX_REQS] = {0};

	rnd_state = seed;
	w.n_vocab = seed % 2 == 0 ? 2 : 1000;
	for (int i = 0; i < 3000 && check_failed == 0; i++)
	{
		int			id = some(&w);
		Req		   *r = w.reqs[id];
		int			n = 1 + rnd(blocks * 16 / 3);

		if (r == NULL && sched_n_waiting(w.s) < 20)
		{
			parents[id] = 0;
			r = add(&w, id, n, rnd(3) == 0 ? n : rnd(n + 1), (uint32_t) rnd(4), 1 + rnd(30));
			r->in.priority = rnd(3);
			if (rnd(4) == 0)
				w.last[id] = INT32_MAX;
		}
		else if (r != NULL && (rnd(12) == 0 || r->tokens.len > (size_t) (blocks - 1) * 16))
		{
			/* a request with forks is not cancelled: its owner would cancel all of them */
			if (r->sched.n_forks == 0 && r->sched.state != RQ_REMOVED)
				drop(&w, id);
		}
		else if (r != NULL && r->sched.state == RQ_RUNNING && req_todo(r) == 1 && r->sched.n_forks == 0 &&
				 rnd(4) == 0 && parents[id] == 0)
		{
			/* its last token belongs to a fork */
			r->tokens.len--;
			if (req_todo(r) == 0 && r->tokens.len > 0)
			{
				parents[id] = 1;
				fork_some(&w, id, 1 + rnd(4));
				n_forked++;
			}
			else
				r->tokens.len++;
		}
		/* a held parent whose forks have started is done */
		for (int k = 1; k < MAX_REQS / 2; k++)
			if (w.reqs[k] != NULL && w.reqs[k]->sched.state == RQ_REMOVED && w.reqs[k]->sched.n_forks == 0)
				drop(&w, k);
		/* r may be gone */
		if (w.reqs[id] != NULL)
			found += w.reqs[id]->kv.cached;
		for (int k = 1; k < MAX_REQS; k++)
			if (w.reqs[k] != NULL && w.reqs[k]->sched.state == RQ_RUNNING &&
				(int) w.reqs[k]->tokens.len > (blocks - 1) * 16 && w.reqs[k]->sched.n_forks == 0)
				drop(&w, k);
		step(&w);
		if (w.offload != NULL && rnd(300) == 0)
		{
			prefix_clear(w.prefix);
			offload_reset(w.offload);
		}
		if (w.offload != NULL && rnd(50) == 0)
			offload_some(w.offload, 1 << 20);
	}
	if (w.offload != NULL)
		CHECK(offload_stats(w.offload)->hits > 0 &&
			  offload_stats(w.offload)->queries >= offload_stats(w.offload)->hits &&
			  offload_stats(w.offload)->back_bytes > 0, "seed %u: %d of %d tokens came back", seed,
			  (int) offload_stats(w.offload)->hits, (int) offload_stats(w.offload)->queries);
	CHECK(w.bad == 0, "seed %u, %d blocks: %d places hold something else", seed, blocks, w.bad);
	CHECK(n_forked > 5, "seed %u: forked %d times", seed, n_forked);
	CHECK(found > 0 && w.copies > 0, "seed %u: %d found, %d copies", seed, (int) found, w.copies);
	CHECK(sched_n_preemptions(w.s) > 0 || blocks > 20, "seed %u, %d blocks: nobody was preempted", seed,
		  blocks);
	/* forks before their parents */
	for (int k = MAX_REQS - 1; k > 0; k--)
		if (w.reqs[k] != NULL)
			drop(&w, k);
	world_free(&w);
}

/* ---- the store ---- */

static void
scratch_dir(char *dir)
{
	strcpy(dir, "/tmp/vllm_share.XXXXXX");
	if (mkdtemp(dir) == NULL)
		exit(2);
}

static void
remove_dir(const char *dir)
{
	char		cmd[100];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd) != 0)
		exit(2);
}

/*
 * Blocks that a small pool has lost come back from the store, and are not computed again; not for
 * another owner.
 */
static void
test_back(void)
{
	World		w = world_with(plain, 12, true, 100, NULL);
	Req		   *r;

	add(&w, 1, 100, 100, 1, 1);
	run_all(&w);
	add(&w, 2, 170, 170, 2, 1);	/* takes all but one of the blocks */
	run_all(&w);
	w.computed = 0;
	r = add(&w, 3, 100, 100, 1, 2);
	step(&w);
	CHECK(w.computed == 4 && r->kv.cached == 96, "%d rows, %d cached", w.computed, r->kv.cached);
	CHECK(offload_stats(w.offload)->hits >= 64, "%d tokens came back", (int) offload_stats(w.offload)->hits);
	/* of a prompt that ends with a block, all but the last row is needed */
	add(&w, 4, 160, 160, 2, 1);
	run_all(&w);
	add(&w, 5, 170, 170, 3, 1);
	run_all(&w);
	w.computed = 0;
	r = add(&w, 6, 160, 160, 2, 2);
	step(&w);
	CHECK(w.computed == 1 && r->kv.cached == 159, "%d rows, %d cached", w.computed, r->kv.cached);
	run_all(&w);
	add(&w, 7, 170, 170, 3, 1);
	run_all(&w);
	r = add(&w, 8, 160, 160, 2, 2);
	sched_remove(w.s, r);
	root(&w, r, 42);
	sched_add(w.s, r);
	w.computed = 0;
	step(&w);
	CHECK(r->kv.cached == 0 && w.computed == 160, "%d rows of another owner", w.computed);
	run_all(&w);
	/* nor after a reset */
	prefix_clear(w.prefix);
	offload_reset(w.offload);
	r = add(&w, 9, 160, 160, 2, 2);
	step(&w);
	CHECK(r->kv.cached == 0, "%d cached behind a reset", r->kv.cached);
	CHECK(w.bad == 0, "%d places hold something else", w.bad);
	world_free(&w);
}

/* Another store finds the files of the previous one; while they are read, other requests run. */
static void
test_files(void)
{
	char		dir[32];
	World		w;
	Req		   *r;

	scratch_dir(dir);
	w = world_with(plain, 12, true, 100, dir);
	add(&w, 1, 170, 170, 1, 1);
	run_all(&w);
	offload_all(w.offload, clock_us() + 5000000);
	CHECK(kvtier_flush(w.tier, clock_us() + 5000000) == 0, "some could not be written");
	world_free(&w);
	w = world_with(plain, 40, true, 100, dir);
	for (int i = 0; i < 5000; i++)
	{
		KvTierStats st;

		kvtier_stats(w.tier, &st);
		if (st.files == KVF_READY)
			break;
		usleep(1000);
	}
	r = add(&w, 1, 170, 170, 1, 2);
	add(&w, 2, 40, 40, 2, 20);
	step(&w);
	CHECK(sched_n_running(w.s) == 1 && r->sched.state == RQ_WAITING, "%d run, state %d", sched_n_running(w.s),
		  (int) r->sched.state);
	for (int i = 0; i < 5000 && r->sched.state == RQ_WAITING; i++)
	{
		usleep(1000);
		step(&w);
	}
	CHECK(r->kv.cached == 160 && w.bad == 0, "%d cached, %d bad", r->kv.cached, w.bad);
	/* a request that is cancelled meanwhile leaves nothing */
	prefix_clear(w.prefix);
	run_all(&w);
	prefix_clear(w.prefix);
	kvtier_shed(w.tier, NULL);
	r = add(&w, 3, 170, 170, 1, 2);
	step(&w);
	CHECK(r->kv.wait != NULL, "it does not wait");
	drop(&w, 3);
	world_free(&w);
	remove_dir(dir);
}

int
main(void)
{
	char		dir[32];

	RUN(test_prefix());
	RUN(test_again());
	RUN(test_together(512, 100));
	RUN(test_together(64, 300));
	RUN(test_together(1000, 16));
	RUN(test_owners());
	RUN(test_lru());
	RUN(test_order(WORK_THROUGHPUT));
	RUN(test_order(WORK_LATENCY));
	RUN(test_preempted());
	for (uint32_t seed = 1; seed <= 40; seed++)
		RUN(test_random(seed, seed % 4 == 0 ? 60 : 12 + (int) (seed % 9), seed % 5 == 0, 0, NULL));
	RUN(test_back());
	RUN(test_files());
	for (uint32_t seed = 1; seed <= 40; seed++)
		RUN(test_random(seed, 12 + (int) (seed % 9), seed % 5 == 0, 4 + (int) seed % 7 * 10, NULL));
	scratch_dir(dir);
	for (uint32_t seed = 1; seed <= 10; seed++)
		RUN(test_random(seed, 12 + (int) (seed % 9), seed % 5 == 0, 4 + (int) seed % 7 * 10, dir));
	remove_dir(dir);
	return check_done("test_prefix_cache");
}
