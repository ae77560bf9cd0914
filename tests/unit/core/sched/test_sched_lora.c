/*
 * test_sched_lora.c
 *	  Places for adapters in the scheduler: never more than max_loras in a step, no request starves,
 *	  requests without an adapter don't wait; and KV blocks are shared only with the same adapter.
 */
#include "core/core_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#include "tests/unit/check.h"

#define N_LORAS 6

static LoraAdapter loras[N_LORAS + 1];

typedef struct World
{
	KvPool	   *pool;
	Sched	   *s;
	int			n_left;
	int			most;			/* maximal number of adapters in a step so far */
	char		trace[256];
} World;

static World
world_new(int max_loras, int max_seqs, int blocks, bool priorities)
{
	SchedOptions opt = {.max_seqs = max_seqs, .max_rows = 64, .block_size = 16, .max_loras = max_loras,
						.priorities = priorities};
	World		w = {.pool = kvpool_new(blocks + 1)};

	w.s = sched_new(w.pool, &opt);
	return w;
}

/* seed: of the request's random tokens */
static Req *
add(World *w, int id, uint64_t session, int lora, int n_prompt, int max_tokens)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	r->in.id = (uint64_t) id;
	r->in.session = session;
	r->in.lora = lora > 0 ? &loras[lora] : NULL;
	r->in.n_prompt = n_prompt;
	r->in.params.max_tokens = max_tokens;
	for (int i = 0; i < n_prompt; i++)
		intvec_push(&r->tokens, i);
	sched_add(w->s, r);
	w->n_left++;
	return r;
}

static void
drop(World *w, Req *r)
{
	sched_remove(w->s, r);
	intvec_free(&r->tokens);
	intvec_free(&r->kv.blocks);
	mem_free(r);
	w->n_left--;
}

/* One step; the trace has the requests that ran. */
static const char *
step(World *w)
{
	const Plan *p = sched_plan(w->s, 1);
	bool		seen[N_LORAS + 1] = {false};
	int			n = 0;
	size_t		at = 0;
	Err			e = {0};

	w->trace[0] = '\0';
	for (int i = 0; i < p->n; i++)
	{
		const Req  *r = p->e[i].r;

		if (at < sizeof(w->trace) - 16)
			at += (size_t) snprintf(w->trace + at, sizeof(w->trace) - at, "%s%d", i > 0 ? " " : "",
									(int) r->in.id);
		if (r->in.lora != NULL && !seen[r->in.lora - loras])
		{
			seen[r->in.lora - loras] = true;
			n++;
		}
	}
	w->most = n > w->most ? n : w->most;
	for (int i = 0; i < p->n; i++)
	{
		Req		   *r = p->e[i].r;

		r->kv.computed += p->e[i].n;
		if (p->e[i].sample)
			intvec_push(&r->tokens, 0);
		if (req_n_output(r) >= r->in.params.max_tokens)
			drop(w, r);
	}
	CHECK(sched_check(w->s, &e), "%s", e.msg);
	return w->trace;
}

static void
world_free(World *w)
{
	Req		   *r;

	while ((r = sched_any(w->s)) != NULL)
		drop(w, r);
	CHECK(w->n_left == 0, "%d requests are lost", w->n_left);
	sched_free(w->s);
	kvpool_free(w->pool);
}

#define STEP(want) \
	do { const char *got_ = step(&w); CHECK(strcmp(got_, want) == 0, "ran %s", got_); } while (0)

static void
test_places(void)
{
	World		w = world_new(2, 8, 100, false);

	add(&w, 1, 1, 1, 4, 2);
	add(&w, 2, 2, 2, 4, 3);
	add(&w, 3, 3, 3, 4, 2);		/* a third adapter: waits */
	add(&w, 4, 4, 0, 4, 4);		/* no adapter */
	add(&w, 5, 5, 1, 4, 1);		/* an adapter that has a place */
	STEP("1 2 4 5");
	STEP("1 2 4");
	STEP("2 4 3");
	STEP("4 3");
	STEP("");
	CHECK(w.most == 2, "%d", w.most);
	world_free(&w);

	/* one at a time; next to it only requests without adapters */
	w = world_new(1, 8, 100, false);
	add(&w, 1, 1, 1, 4, 2);
	add(&w, 2, 1, 2, 4, 1);
	add(&w, 3, 1, 1, 4, 1);
	add(&w, 4, 1, 0, 4, 1);
	STEP("1 3 4");
	STEP("1");
	STEP("2");
	world_free(&w);
}

/*
 * Two sessions never stop to use adapter 1: adapter 2 gets its turn nevertheless, and requests without
 * one never wait.
 */
static void
test_starve(bool priorities)
{
	World		w = world_new(1, 4, 100, priorities);
	int			id = 10;
	int			at = -1;

	add(&w, 1, 1, 1, 4, 3);
	add(&w, 2, 2, 1, 4, 2);
	step(&w);
	add(&w, 3, 3, 2, 4, 2);
	for (int i = 0; i < 300 && at < 0; i++)
	{
		add(&w, id++, 1, 1, 4, 2 + i % 3);
		if (i % 2 == 0)
			add(&w, id++, 2, 1, 4, 2);
		if (i % 10 == 0)
			add(&w, 5000, 4, 0, 4, 1);
		step(&w);
		if (strcmp(w.trace, "3") == 0 || strncmp(w.trace, "3 ", 2) == 0 || strstr(w.trace, " 3 ") != NULL)
			at = i;
	}
	CHECK(at >= 0 && at < 120, "adapter 2 ran at step %d", at);
	world_free(&w);
}

/* Random requests: no plan has too many adapters, and all requests end, also in pools that are too small. */
static void
test_random(unsigned seed, int max_loras, int blocks, bool priorities)
{
	World		w = world_new(max_loras, 8, blocks, priorities);
	int			steps = 0;

	for (int i = 0; i < 3000; i++)
	{
		if (i < 2000 && w.n_left < 60 && rand_r(&seed) % 3 > 0)
		{
			Req		   *r = add(&w, 1 + i, (uint64_t) (1 + rand_r(&seed) % 5),
								(int) (rand_r(&seed) % (N_LORAS + 1)), 1 + (int) (rand_r(&seed) % 40),
								1 + (int) (rand_r(&seed) % 20));

			if (rand_r(&seed) % 20 == 0)
				drop(&w, r);
		}
		step(&w);
	}
	while (w.n_left > 0 && steps++ < 5000)
		step(&w);
	CHECK(w.n_left == 0, "%d requests never end", w.n_left);
	CHECK(w.most == max_loras, "%d adapters in a step", w.most);
	world_free(&w);
}

/*
 * A prompt_request that is held for its forks keeps its place: the forks come before a request that was
 * overtaken too often, since otherwise the place would never become free.
 */
static void
test_forks(void)
{
	World		w = world_new(1, 4, 100, false);
	Req		   *prompt_request = add(&w, 1, 1, 1, 8, 100);
	Req		   *fork;

	step(&w);
	add(&w, 2, 2, 2, 4, 1);
	for (int i = 0; i < 40; i++)
	{
		add(&w, 100 + i, 3, 1, 4, 1);
		step(&w);
	}
	fork = mem_zalloc(sizeof(*fork));
	fork->in.id = 3;
	fork->in.session = 1;
	fork->in.lora = prompt_request->in.lora;
	fork->in.params.max_tokens = 1;
	fork->in.n_prompt = (int) prompt_request->tokens.len;
	intvec_add(&fork->tokens, prompt_request->tokens.data, prompt_request->tokens.len);
	w.n_left++;
	sched_fork(w.s, fork, prompt_request);
	sched_retain_blocks(w.s, prompt_request);
	STEP("3");
	for (int i = 0; i < 5; i++)
		step(&w);
	drop(&w, prompt_request);
	for (int i = 0; i < 60 && w.n_left > 0; i++)
		step(&w);
	CHECK(w.n_left == 0, "%d are left", w.n_left);
	world_free(&w);
}

/*
 * The hypotheses of a beam search have the only place, and more requests want another adapter than a
 * plan sets aside: a request that can't run stops no other.
 */
static void
test_beam(void)
{
	World		w = world_new(1, 4, 100, false);
	Req		   *r = add(&w, 1, 1, 1, 8, 1000);

	step(&w);
	for (int i = 0; i < 300; i++)
		add(&w, 10 + i, (uint64_t) (10 + i), 2, 4, 1);
	for (int i = 0; i < 200; i++)
	{
		Req		   *next = mem_zalloc(sizeof(*next));

		next->in.id = (uint64_t) (1000 + i);
		next->in.session = 1;
		next->in.lora = r->in.lora;
		next->in.params.max_tokens = 1000;
		next->in.n_prompt = r->in.n_prompt;
		intvec_add(&next->tokens, r->tokens.data, r->tokens.len);
		w.n_left++;
		sched_resume(w.s, next, r);
		sched_retain_blocks(w.s, r);
		step(&w);
		if (next->sched.state != RQ_RUNNING)
		{
			CHECK(false, "hypothesis %d waits", i);
			break;
		}
		drop(&w, r);
		r = next;
	}
	drop(&w, r);
	for (int i = 0; i < 400 && w.n_left > 0; i++)
		step(&w);
	CHECK(w.n_left == 0 && w.most == 1, "%d are left, %d adapters in a step", w.n_left, w.most);
	world_free(&w);
}

/* A prompt_request that was preempted has no place any more: its forks wait for one like other requests. */
static void
test_orphans(void)
{
	World		w = world_new(1, 4, 100, false);
	Req		   *prompt_request = add(&w, 1, 1, 1, 8, 100);
	Req		   *fork = mem_zalloc(sizeof(*fork));

	step(&w);
	fork->in.id = 2;
	fork->in.session = 1;
	fork->in.lora = prompt_request->in.lora;
	fork->in.params.max_tokens = 1;
	fork->in.n_prompt = (int) prompt_request->tokens.len;
	intvec_add(&fork->tokens, prompt_request->tokens.data, prompt_request->tokens.len);
	w.n_left++;
	sched_fork(w.s, fork, prompt_request);
	sched_retain_blocks(w.s, prompt_request);
	add(&w, 3, 2, 2, 4, 2);
	sched_preempt_all(w.s);
	for (int i = 0; i < 60 && w.n_left > 1; i++)
		step(&w);
	CHECK(w.most == 1, "%d adapters in a step", w.most);
	drop(&w, prompt_request);
	CHECK(w.n_left == 0, "%d are left", w.n_left);
	world_free(&w);
}

/* More requests are set aside than a plan looks at. */
static void
test_many(void)
{
	World		w = world_new(1, 4, 100, false);
	int			steps = 0;

	for (int i = 0; i < 900; i++)
		add(&w, 1 + i, (uint64_t) (i % 300), 1 + i % N_LORAS, 4, 1);
	while (w.n_left > 0 && steps++ < 5000)
		step(&w);
	CHECK(w.n_left == 0 && w.most == 1, "%d are left, %d in a step", w.n_left, w.most);
	world_free(&w);
}

/* The same prompt with another adapter has another chain of blocks. */
static void
test_roots(void)
{
	Prefix	   *p = prefix_new(10, 16);
	char		salt[] = "s";
	uint64_t	roots[8];

	for (int i = 0; i < 8; i++)
	{
		Req			r = {.in.owner = (uint64_t) (i & 1), .in.lora = i & 2 ? &loras[1 + (i >> 2)] : NULL};

		r.in.params.cache_salt = i & 4 ? salt : NULL;
		prefix_cache_attach(p, &r);
		roots[i] = r.kv.root;
		for (int k = 0; k < i; k++)
			CHECK(roots[k] != roots[i], "%d and %d share", k, i);
	}
	prefix_free(p);
}

int
main(void)
{
	for (int i = 0; i <= N_LORAS; i++)
		loras[i].id = (uint64_t) i;
	RUN(test_places());
	RUN(test_starve(false));
	RUN(test_starve(true));
	for (unsigned i = 0; i < 6; i++)
	{
		RUN(test_random(i, 1 + (int) i % 3, 100, false));
		RUN(test_random(100 + i, 2, 6, false));
		RUN(test_random(200 + i, 2, 8, true));
	}
	RUN(test_many());
	RUN(test_forks());
	RUN(test_beam());
	RUN(test_orphans());
	RUN(test_roots());
	return check_done("test_sched_lora");
}
