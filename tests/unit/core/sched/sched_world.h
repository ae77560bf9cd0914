/*
 * sched_world.h
 *	  A scheduler without a model: tests add requests, and a step plans and "computes" them.
 *
 * A step returns a trace, one string: "id:rows" of each entry in order; "!" marks rows that are sampled.
 * A sampled request gets one more token.
 */
#ifndef VLLM_TESTS_SCHED_WORLD_H
#define VLLM_TESTS_SCHED_WORLD_H

#include "core/core_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"

#define MAX_REQS 64

typedef struct World
{
	KvPool	   *pool;
	Sched	   *s;
	Req		   *reqs[MAX_REQS];	/* by id; NULL = done */
	int			last[MAX_REQS]; /* number of tokens at which a request is done */
	int			block;			/* tokens in a block */
	/* the state in each slot: the request that it belongs to, and how many tokens it covers */
	const Req  *owner[MAX_REQS];
	int			known[MAX_REQS];
	char		trace[512];
} World;

static World
world_new(SchedOptions opt, int blocks)
{
	World		w;

	memset(&w, 0, sizeof(w));
	w.block = opt.block_size = opt.block_size > 0 ? opt.block_size : 16;
	w.pool = kvpool_new(blocks + 1);
	w.s = sched_new(w.pool, &opt);
	return w;
}

static int	add_priority;		/* for requests added from now on */
static Caller add_by;			/* for requests added from now on */
static WorkClass add_work;		/* for requests added from now on */

static void
add(World *w, int id, uint64_t session, int n_prompt, int max_tokens)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	r->in.priority = add_priority;
	r->in.by = add_by;
	r->in.work = add_work;
	r->in.id = (uint64_t) id;
	r->in.session = session;
	r->in.n_prompt = n_prompt;
	for (int i = 0; i < n_prompt; i++)
		intvec_push(&r->tokens, i);
	w->reqs[id] = r;
	w->last[id] = n_prompt + max_tokens;
	sched_add(w->s, r);
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
	kvpool_free(w->pool);
}

/* A row continues the state in its slot, or begins a new one. */
static void
recur(World *w, const Req *r, int n)
{
	int			slot = r->kv.slot;

	if (slot < 0)
		return;
	if (r->kv.computed == 0)
	{
		w->owner[slot] = r;
		w->known[slot] = 0;
	}
	CHECK(w->owner[slot] == r && w->known[slot] == r->kv.computed,
		  "request %d at %d: slot %d has %d tokens of %s", (int) r->in.id, r->kv.computed, slot,
		  w->known[slot], w->owner[slot] == r ? "it" : "another");
	w->known[slot] += n;
}

/* One step: plan, "compute", drop requests that are done. */
static const char *
step(World *w)
{
	const Plan *p = sched_plan(w->s, 1);
	Err			e = {0};
	int			rows = 0;
	size_t		at = 0;

	w->trace[0] = '\0';
	for (int i = 0; i < p->n; i++)
	{
		const PlanEntry *pe = &p->e[i];

		at += (size_t) snprintf(w->trace + at, sizeof(w->trace) - at, "%s%d:%d%s", i > 0 ? " " : "",
								(int) pe->r->in.id, pe->n, pe->sample ? "!" : "");
		rows += pe->n;
		if ((int) pe->r->kv.blocks.len * w->block < pe->r->kv.computed + pe->n)
			CHECK(false, "request %d: %d tokens in %zu blocks", (int) pe->r->in.id,
				  pe->r->kv.computed + pe->n, pe->r->kv.blocks.len);
	}
	CHECK(rows == p->n_rows, "%d rows, counted %d", rows, p->n_rows);
	for (int i = 0; i < p->n; i++)
	{
		Req		   *r = p->e[i].r;

		recur(w, r, p->e[i].n);
		r->kv.computed += p->e[i].n;
		if (p->e[i].sample)
			intvec_push(&r->tokens, 0);
		if (r->tokens.len >= (size_t) w->last[r->in.id])
			drop(w, (int) r->in.id);
	}
	CHECK(sched_check(w->s, &e), "%s", e.msg);
	return w->trace;
}

#define STEP(w, want) \
	do { \
		const char *got_ = step(w); \
		CHECK(strcmp(got_, want) == 0, "planned \"%s\", not \"%s\"", got_, want); \
	} while (0)

#endif
