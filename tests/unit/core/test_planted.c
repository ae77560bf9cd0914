/*
 * test_planted.c
 *	  Faults that are planted into the block pool, the prefix index, the scheduler and a core, most of
 *	  them in a child process: an assertion (base/assert.h) or a check detects and names each one.
 */
#include "core/kv/block_pool.c"
#include "core/kv/prefix_index.c"

#include "core/core_state.h"
#include "core/sched/sched_internal.h"
#include "tests/unit/check_abort.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

/* Test the result of a check, for faults that no assertion detects. */
#define CHECK_SEEN(check, what) \
	CHECK(!(check) && strstr(e.msg, what) != NULL, "not seen: %s; said: %s", what, e.msg)

/* ---- blocks ---- */

static void
test_blocks(void)
{
	KvPool	   *p = kvpool_new(8);
	int32_t		b[3];
	Err			e = {0};

	kvpool_alloc(p, 3, b);
	kvpool_unref(p, b[1]);
	CHECK_ABORTS(kvpool_unref(p, b[1]), "refs > 0");
	CHECK_ABORTS(kvpool_unref_first(p, b[1]), "refs > 0");
	CHECK_ABORTS(kvpool_unref(p, 8), "block < p->n_blocks");
	CHECK_ABORTS(kvpool_ref(p, NULL_BLOCK), "block > NULL_BLOCK");
	CHECK_ABORTS((p->blocks[b[1]].refs = -1, kvpool_ref(p, b[1])), "refs >= 0");
	/* a block in use is on the free list */
	CHECK_ABORTS((list_prepend(p, b[0]), kvpool_alloc(p, 1, b)), "refs == 0");
	/* the free list is shorter than its count */
	CHECK_ABORTS((p->blocks[NULL_BLOCK].next = NULL_BLOCK, kvpool_alloc(p, 1, b)), "b != NULL_BLOCK");
	CHECK_ABORTS((p->blocks[b[1]].prev = b[0], kvpool_ref(p, b[1])), ".next == b");
	CHECK_ABORTS((p->available = 0, kvpool_ref(p, b[1])), "available > 0");
	p->available--;
	CHECK_SEEN(kvpool_check(p, &e), "counted");
	p->available++;
	CHECK(kvpool_check(p, &e), "%s", e.msg);
	kvpool_free(p);
}

static void
test_pages(void)
{
	KvPool	   *p = kvpool_new_windows(8, 20, 2, 1);
	Paging	   *g = p->paging;
	int32_t		b[3];
	Err			e = {0};

	kvpool_alloc(p, 3, b);
	CHECK_ABORTS((kvpool_window_unref(p, b[0]), kvpool_window_unref(p, b[0])), "refs > 0");
	CHECK_ABORTS((g->windows[b[0]].there = false, kvpool_window_ref(p, b[0])), "there");
	kvpool_window_unref(p, b[1]);
	CHECK_ABORTS((g->n_free = g->n_pages, kvpool_unref_first(p, b[1])), "n_pages");
	CHECK_ABORTS((pages_of(g, b[1])[0] = 0, kvpool_unref_first(p, b[1])), "at[i] > 0");
	/* its window is in use when it is emptied */
	CHECK_ABORTS(kvpool_unref_first(p, b[2]), "windows[block].refs == 0");
	g->n_free = 0;
	g->n_idle = 20;
	CHECK_ABORTS((g->windows[NULL_BLOCK].next = NULL_BLOCK, kvpool_alloc(p, 2, b)), "unused != NULL_BLOCK");
	g->n_idle = 1;
	g->n_free = 11;
	pages_of(g, b[0])[1] = pages_of(g, b[0])[0];
	CHECK_SEEN(kvpool_check(p, &e), "page 1");
	kvpool_free(p);
}

/* ---- the index of block contents ---- */

static void
test_index(void)
{
	static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
	Prefix	   *p = prefix_new(8, 4);
	uint64_t	root = prefix_root(p, 0, NULL, 0);
	uint64_t	chain = prefix_add(p, root, 1, tokens, 4, false);
	Err			e = {0};

	prefix_add(p, chain, 2, tokens + 4, 4, false);
	prefix_add(p, chain, 3, tokens + 2, 3, false);
	CHECK(prefix_check(p, &e), "%s", e.msg);
	CHECK_ABORTS(prefix_add(p, root, 8, tokens + 1, 4, false), "block < p->n_blocks");
	CHECK_ABORTS(prefix_add(p, root, 4, tokens + 1, 5, false), "n <= p->block_size");
	CHECK_ABORTS(prefix_add(p, root, 4, tokens + 1, 0, false), "n > 0");
	CHECK_ABORTS(prefix_drop(p, -1), "block > 0");
	CHECK_ABORTS((p->heads[WHOLE][p->nodes[1].slot[WHOLE]] = 0, prefix_drop(p, 1)), "heads[t]");
	p->tokens[4]++;
	CHECK_SEEN(prefix_check(p, &e), "another hash");
	p->tokens[4]--;
	p->n_known++;
	CHECK_SEEN(prefix_check(p, &e), "are known");
	p->n_known--;
	p->nodes[1].chain = 0;
	CHECK_SEEN(prefix_check(p, &e), "as a full one");
	p->nodes[1].chain = chain;
	/* another block with the same content */
	link_node(p, WHOLE, p->nodes[2].slot[WHOLE], 4);
	p->nodes[4].n = 4;
	p->nodes[4].parent = chain;
	p->nodes[4].chain = 2;
	memcpy(p->tokens + 16, tokens + 4, 4 * sizeof(int32_t));
	CHECK_SEEN(prefix_check(p, &e), "the same tokens");
	prefix_free(p);
}

/* ---- the scheduler ---- */

static Req *
new_req(uint64_t id, int n_tokens)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	r->in.id = id;
	r->in.session = id;
	r->in.n_prompt = n_tokens;
	r->in.params.max_tokens = 4;
	r->sched.plan_at = r->kv.slot = -1;
	for (int i = 0; i < n_tokens; i++)
		intvec_push(&r->tokens, i);
	return r;
}

static void
end_req(Sched *s, Req *r)
{
	sched_remove(s, r);
	intvec_free(&r->tokens);
	intvec_free(&r->kv.blocks);
	mem_free(r);
}

static void
run_step(Sched *s)
{
	const Plan *p = sched_plan(s, 1);

	for (int i = 0; i < p->n; i++)
		p->e[i].r->kv.computed += p->e[i].n;
}

static void
test_queues(Sched *s, Req *runs, Req *waits)
{
	ReqList		other = {0};

	CHECK_ABORTS(sched_add(s, waits), "is_unlinked(l, r)");
	CHECK_ABORTS(sched_add(s, runs), "RQ_WAITING");
	CHECK_ABORTS(reqlist_remove(&other, waits), "l->head == r");
	CHECK_ABORTS(queue_remove(s, runs), "RQ_WAITING");
	CHECK_ABORTS((runs->sched.state = RQ_PREEMPTED, queue_preempted(s, runs)), "blocks.len == 0");
	CHECK_ABORTS((waits->sched.state = RQ_RUNNING, sched_remove(s, waits)), "i < s->n_running");
	CHECK_ABORTS((s->waiting[NOT_URGENT].rows = 0, queue_remove(s, waits)), "w->rows >= 0");
	CHECK_ABORTS((waits->sched.line->n_refs = 0, fair_unref(waits->sched.line)), "n_refs > 0");
	CHECK_ABORTS(sched_free(s), "n_running == 0");
}

static void
test_plans(Sched *s, Req *runs)
{
	Req			child = {0};

	/* the same request twice; more requests than a step may have; one that doesn't run */
	CHECK_ABORTS((s->running[1] = runs, sched_plan(s, 1)), "plan_at < 0");
	CHECK_ABORTS((s->opt.max_seqs = 0, sched_plan(s, 1)), "s->opt.max_seqs");
	CHECK_ABORTS((runs->sched.state = RQ_WAITING, sched_plan(s, 1)), "r->sched.state == RQ_RUNNING");
	CHECK_ABORTS(sched_preempt(s, s->n_running), "at < s->n_running");
	child.sched.parent = runs;
	CHECK_ABORTS(sched_leave_parent(s, &child), "n_forks > 0");
	/* a slot that is freed without having been taken */
	CHECK_ABORTS((s->n_free_slots = s->opt.max_seqs, runs->kv.slot = 0, end_req(s, runs)), "n_free_slots");
}

static void
test_sched(void)
{
	KvPool	   *pool = kvpool_new(20);
	int32_t		block;
	SchedOptions o = {.max_seqs = 2, .max_rows = 32, .block_size = 4, .max_long_partial = 1};
	Sched	   *s = sched_new(pool, &o);
	Req		   *r[3];
	Err			e = {0};

	for (int i = 0; i < 3; i++)
		sched_add(s, r[i] = new_req((uint64_t) i + 1, 6));
	run_step(s);
	intvec_push(&r[0]->tokens, 1);
	CHECK(r[0]->sched.state == RQ_RUNNING && r[2]->sched.state == RQ_WAITING && sched_check(s, &e), "%s",
		  e.msg);
	test_queues(s, r[0], r[2]);
	test_plans(s, r[0]);
	r[0]->kv.computed = 9;
	CHECK_SEEN(sched_check(s, &e), "has computed 9 of 7");
	r[0]->kv.computed = 6;
	intvec_push(&r[0]->kv.blocks, 9);
	CHECK_SEEN(sched_check(s, &e), "holds 3 blocks");
	r[0]->kv.blocks.len--;
	block = r[1]->kv.blocks.data[0];
	r[1]->kv.blocks.data[0] = r[0]->kv.blocks.data[0];
	CHECK_SEEN(sched_check(s, &e), "tables");
	r[1]->kv.blocks.data[0] = block;
	r[2]->sched.state = RQ_PREEMPTED;
	CHECK_SEEN(sched_check(s, &e), "waiting request 3");
	r[2]->sched.state = RQ_WAITING;
	CHECK(sched_check(s, &e), "%s", e.msg);
	for (int i = 0; i < 3; i++)
		end_req(s, r[i]);
	CHECK(kvpool_available(pool) == kvpool_total(pool), "all is free");
	sched_free(s);
	kvpool_free(pool);
}

/* ---- other state between requests and steps ---- */

static void
test_rows(void)
{
	BatchBuf   *b = batch_new(8, 2, 0, NULL);
	PlanEntry	pe[3] = {{.r = new_req(1, 12), .n = 12}};
	Plan		plan = {.n = 1, .e = pe, .n_rows = 12};

	CHECK_ABORTS(batch_build(b, &plan), "n_rows <= b->max_rows");
	plan.n_rows = 4;
	CHECK_ABORTS(batch_build(b, &plan), "row + pe->n <= plan->n_rows");
	plan.n = 3;
	CHECK_ABORTS(batch_build(b, &plan), "n <= b->max_seqs");
	CHECK_ABORTS(smp_new(NULL, 10, 11), "n_valid <= width");
	intvec_free(&pe[0].r->tokens);
	mem_free(pe[0].r);
	batch_free(b);
}

static void
steps(Core *c, int n)
{
	while (n-- > 0)
		core_step(c);
}

/* A core checks all of it now and then, and no other thread may step it. */
static void
test_core(void)
{
	CoreOptions o = options(4, 32, 40);
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c = core_new(fake_model(512), tiny_tok(), conf, &o, &e);

	conf_free(conf);
	CHECK(c != NULL, "%s", e.msg);

	steps(c, 200);
	CHECK_ABORTS((c->pool->blocks[3].refs++, steps(c, 200)), "sound");
	CHECK_ABORTS((c->pool->blocks[3].refs++, steps(c, 200)), "free list with 1 references");
	CHECK_ABORTS((c->n_multi++, steps(c, 200)), "sound");
	CHECK_ABORTS((atomic_store(&c->stepping, true), steps(c, 1)), "!was");
	core_free(c);
}

int
main(void)
{
	test_blocks();
	test_pages();
	test_index();
	test_sched();
	test_rows();
	test_core();
	return check_done("planted");
}
