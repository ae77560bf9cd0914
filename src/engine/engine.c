/*
 * engine.c
 *	  The engine core: requests in, token events out, one step at a time.
 *
 * core_step() is the loop's body and the place to start reading:
 *
 *		drain	new requests and cancels from the inbox		(here)
 *		plan	who gets how many rows						(sched.c)
 *		forward	rows -> K/V and logits						(src/model)
 *		sample	logits -> a token for each complete row		(sample.c)
 *		commit	computed += rows; does the token end it?	(output.c)
 *		deliver	token -> text, events to the owner's sink	(deliver.c)
 *
 * Everything is owned by the step thread, but for the inbox, which any thread
 * fills under its mutex, the published copy of the statistics beside it, and what
 * deliver.c has of a request; with CoreOptions.overlap that is done by a thread of
 * its own while the next step runs.
 * A cancel is seen at the latest when the running step's forward ends: the
 * request's token is dropped, its blocks are free before the next plan.  A step of a model both ways
 * may be long, as a sequence can't be cut: it is stopped on its way when all of its sequences
 * have been cancelled.
 *
 * A request leaves in exactly one way, finish(): out of the scheduler, blocks
 * freed, and to deliver.c for one last event, where its memory is freed.  Cost of a step beside the model's:
 * O(rows + running + vocabulary * sampled rows).  Tested by
 * tests/unit/test_core.c and test_invariance.c.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/core_int.h"
#include "engine/deliver.h"
#include "engine/rng.h"

/* How much dearer an operation of attention is than one of a matmul. */
#define ATTN_FACTOR 2.0

typedef struct InboxItem
{
	Req		   *r;				/* new request, or NULL: */
	uint64_t	cancel_id;		/* cancel this one, or */
	bool		stopped;		/* a stop string has ended it */
} InboxItem;

/* What other threads touch. */
typedef struct Inbox
{
	pthread_mutex_t lock;
	InboxItem  *items;			/* in order of arrival */
	size_t		n;
	size_t		cap;
	size_t		n_new;			/* requests among them */
	CoreStats	stats;			/* as of the last step */
	atomic_int	n_live;			/* submitted and not taken out of the schedule */
} Inbox;

struct Core
{
	CoreOptions opt;
	Model	   *model;
	Tok		   *tok;
	GenDefaults defaults;
	int			max_model_len;

	KvView		kv;
	MArena		kv_area;
	MArena		state_area;		/* recurrent state, a slot for each running request */
	size_t		kv_size;
	KvPool	   *pool;
	Sched	   *sched;
	BatchBuf   *batch;
	Sampler    *sampler;
	SmpRow	   *rows;			/* [max_num_seqs] */
	float	   *logits;			/* [max_num_seqs][vocab_size] */
	size_t		logits_size;
	float	   *hidden;			/* [max_num_batched_tokens][hidden_size], for steps with pooled requests */
	size_t		hidden_size;
	int			n_pooled;		/* live pooled requests, */
	int			n_pooled_seqs;	/* ... and their sequences that are scheduled */

	IdMap		by_id;			/* live requests */
	Req		  **doomed;			/* cancelled, to be finished at the boundary */
	size_t		n_doomed;
	size_t		cap_doomed;
	InboxItem  *drained;		/* the inbox's items while they are worked off */
	size_t		cap_drained;
	void		(*on_progress) (void *ctx); /* NULL = nobody asks */
	void	   *progress_ctx;
	CoreStats	stats;
	Inbox	   *inbox;
	Deliver    *deliver;
};

/* ---- statistics, requests ---- */

static void
publish(Core *c)
{
	CoreStats  *st = &c->stats;

	st->preemptions = sched_n_preemptions(c->sched);
	st->running = sched_n_running(c->sched);
	st->waiting = sched_n_waiting(c->sched);
	st->kv_blocks_total = kvpool_total(c->pool);
	st->kv_blocks_used = st->kv_blocks_total - kvpool_available(c->pool);
	st->kv_bytes = (int64_t) (c->kv_size / (size_t) c->kv.n_blocks * (size_t) kvpool_total(c->pool));
	pthread_mutex_lock(&c->inbox->lock);
	c->inbox->stats = *st;
	pthread_mutex_unlock(&c->inbox->lock);
}

uint64_t
req_id(const Req *r)
{
	return r->id;
}

void *
req_ctx(const Req *r)
{
	return r->sink_ctx;
}

/* The newest token of a request (id >= 0), its end, or both, on the way out. */
static void
hand_over(Core *c, Req *r, int32_t id, OutResult res, const Err *err)
{
	Parcel		p = {
		.r = r, .id = id, .n_output = req_n_output(r), .res = res, .preemptions = r->preemptions,
		.scheduled_us = r->scheduled_us, .first_token_us = r->first_token_us
	};

	if (err != NULL)
	{
		p.err = mem_alloc(sizeof(Err));
		*p.err = *err;
	}
	deliver_add(c->deliver, &p);
}

/* A request has ended: count it. */
static void
count_end(Core *c, ReqFinish fin)
{
	if (fin == FIN_ERROR)
		c->stats.failed++;
	else if (fin == FIN_ABORT)
		c->stats.cancelled++;
	else
		c->stats.finished++;
}

static void doom(Core *c, Req *r, bool stopped);

/* A pooled request has failed or is cancelled: its sequences needn't go on, or begin. */
static void
doom_seqs(Core *c, Pooled *p)
{
	for (int i = 0; i < p->n_reqs; i++)
	{
		Req		   *r = p->reqs[i];

		if (r->state == RQ_NEW)
		{
			r->state = RQ_GONE;
			p->n_left--;
		}
		else
			doom(c, r, false);
	}
}

/* The prompt is computed, and has its blocks: the choices go on from there, the first in front. */
static void
begin_choices(Core *c, Req *prompt)
{
	Pooled	   *p = prompt->pooled;

	for (int i = p->n_reqs - 1; i > 0; i--)
	{
		pooled_fork(p->reqs[i]);
		/* recurrent state is not in blocks: all rows again */
		sched_fork(c->sched, p->reqs[i], core_info(c)->state_bytes > 0 ? NULL : prompt);
		c->n_pooled_seqs++;
	}
	sched_hold(c->sched, prompt);
}

/* A sequence of a pooled request is over; the request is when all are. */
static void
finish_seq(Core *c, Req *r, ReqFinish fin, const Err *err)
{
	Pooled	   *p = r->pooled;
	Req		   *first = p->reqs[0];

	if (r->state != RQ_NEW)
		c->n_pooled_seqs--;
	if (r == first && p->spec.join == PJ_CHOICES && fin == FIN_STOP)
		begin_choices(c, r);
	else
		sched_remove(c->sched, r);
	if (fin > p->finish)
	{
		p->finish = fin;
		if (fin == FIN_ERROR)
			p->err = *err;
		if (fin > FIN_STOP)
			doom_seqs(c, p);
	}
	if (--p->n_left > 0)
		return;
	if (idmap_get(&c->by_id, r->id) == first)
	{
		idmap_del(&c->by_id, r->id);
		c->n_pooled--;
	}
	if (p->finish == FIN_STOP)
		c->stats.prompt_tokens += p->n_tokens;
	count_end(c, p->finish);
	publish(c);
	hand_over(c, first, -1, (OutResult) {p->finish, NULL}, p->finish == FIN_ERROR ? &p->err : NULL);
	atomic_fetch_sub(&c->inbox->n_live, 1);
}

/* It is over for the step thread. */
static void
finish(Core *c, Req *r, int32_t id, OutResult res, const Err *err)
{
	if (r->pooled != NULL)
	{
		finish_seq(c, r, res.finish, err);
		return;
	}
	sched_remove(c->sched, r);
	if (idmap_get(&c->by_id, r->id) == r)
		idmap_del(&c->by_id, r->id);
	count_end(c, res.finish);
	publish(c);					/* whoever hears of the end finds it counted */
	hand_over(c, r, id, res, err);
	atomic_fetch_sub(&c->inbox->n_live, 1);
}

/* ---- inbox ---- */

static void
inbox_add(Inbox *in, InboxItem item)
{
	pthread_mutex_lock(&in->lock);
	if (in->n == in->cap)
	{
		in->cap = in->cap == 0 ? 64 : in->cap * 2;
		in->items = mem_realloc(in->items, in->cap * sizeof(InboxItem));
	}
	in->items[in->n++] = item;
	in->n_new += item.r != NULL;
	pthread_mutex_unlock(&in->lock);
}

Req *
core_submit(Core *c, ReqSpec *spec)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	r->id = spec->id;
	r->session = spec->session;
	r->sink = spec->sink;
	r->sink_ctx = spec->sink_ctx;
	r->params = spec->params;
	r->tokens = spec->prompt;
	memset(&spec->params, 0, sizeof(spec->params));
	memset(&spec->prompt, 0, sizeof(spec->prompt));
	r->n_prompt = (int) r->tokens.len;
	r->plan_at = -1;
	r->slot = -1;
	r->watched = spec->stream;
	r->urgent = spec->stream || r->params.n_stop > 0;
	r->arrival_us = clock_us();
	if (spec->pool.task != PT_NONE)
		pooled_begin(r, &spec->pool, core_info(c));
	if (r->params.temperature > 0)
		r->seed = r->params.has_seed ? (uint64_t) r->params.seed : rng_seed();
	if (r->pooled == NULL)
		out_begin(r, c->tok);
	atomic_fetch_add(&c->inbox->n_live, 1);
	inbox_add(c->inbox, (InboxItem) {.r = r});
	return r;
}

void
core_cancel(Core *c, uint64_t id)
{
	if (atomic_load(&c->inbox->n_live) > 0)
		inbox_add(c->inbox, (InboxItem) {.cancel_id = id});
}

bool
core_has_work(const Core *c)
{
	return atomic_load(&c->inbox->n_live) > 0;
}

static bool
pooled_acceptable(const Core *c, const Pooled *p, Err *e)
{
	if (!pooled_check(p, core_info(c), c->max_model_len, e))
		return false;
	for (int i = 0; i < p->n_reqs; i++)
		if (!sched_must_fit(c->sched, p->reqs[i]->n_prompt, 1, e))
			return false;
	return true;
}

/* What core_normalize() has let through fits; this holds for any caller. */
static bool
acceptable(const Core *c, const Req *r, Err *e)
{
	if (idmap_get(&c->by_id, r->id) != NULL)
		return err_set(e, ERR_INTERNAL, "request id %llu is in use", (unsigned long long) r->id);
	if (r->pooled != NULL)
		return pooled_acceptable(c, r->pooled, e);
	if (r->n_prompt < 1 || r->params.max_tokens < 1)
		return err_set(e, ERR_INTERNAL, "request of %d tokens asks for %d", r->n_prompt, r->params.max_tokens);
	if (r->n_prompt >= c->max_model_len)
		return err_set(e, ERR_TOO_LONG, "prompt of %d tokens does not fit the maximum model length of %d",
					   r->n_prompt, c->max_model_len);
	return sched_must_fit(c->sched, r->n_prompt, r->params.max_tokens, e);
}

static void
accept(Core *c, Req *r)
{
	Pooled	   *p = r->pooled;
	Err			err;

	c->stats.requests++;
	if (!acceptable(c, r, &err))
	{
		finish(c, r, -1, (OutResult) {FIN_ERROR, NULL}, &err);
		return;
	}
	idmap_put(&c->by_id, r->id, r);
	if (p == NULL)
		sched_add(c->sched, r);
	else
		c->n_pooled++;
	/* choices wait for their prompt */
	for (int i = 0; p != NULL && i < (p->spec.join == PJ_CHOICES ? 1 : p->n_reqs); i++)
	{
		c->n_pooled_seqs++;
		sched_add(c->sched, p->reqs[i]);
	}
}

static void
doom(Core *c, Req *r, bool stopped)
{
	if (r == NULL || r->cancelled)
		return;
	/* who is held has ended already */
	if (r->state == RQ_GONE || r->state == RQ_HELD)
		return;
	r->cancelled = true;
	r->stopped = stopped;
	if (c->n_doomed == c->cap_doomed)
	{
		c->cap_doomed = c->cap_doomed == 0 ? 64 : c->cap_doomed * 2;
		c->doomed = mem_realloc(c->doomed, c->cap_doomed * sizeof(Req *));
	}
	c->doomed[c->n_doomed++] = r;
}

/* ... with all its sequences */
static void
doom_request(Core *c, Req *r, bool stopped)
{
	if (r == NULL || r->pooled == NULL)
		doom(c, r, stopped);
	else
		doom_seqs(c, r->pooled);
}

/* Take in what other threads have left: queue the new, mark the cancelled. */
static bool
drain(Core *c)
{
	Inbox	   *in = c->inbox;
	InboxItem  *items;
	size_t		n,
				cap;

	pthread_mutex_lock(&in->lock);
	items = in->items;
	n = in->n;
	cap = in->cap;
	in->items = c->drained;		/* the two arrays take turns */
	in->cap = c->cap_drained;
	in->n = in->n_new = 0;
	c->drained = items;
	c->cap_drained = cap;
	pthread_mutex_unlock(&in->lock);

	for (size_t i = 0; i < n; i++)
		if (items[i].r != NULL)
			accept(c, items[i].r);
		else
			doom_request(c, idmap_get(&c->by_id, items[i].cancel_id), items[i].stopped);
	return n > 0;
}

/* A stop string was found: on the step thread, or on the delivering one. */
static void
on_stopped(void *ctx, uint64_t id)
{
	Core	   *c = ctx;

	if (deliver_threaded(c->deliver))
		inbox_add(c->inbox, (InboxItem) {.cancel_id = id, .stopped = true});
	else
		doom(c, idmap_get(&c->by_id, id), true);
}

static void
reap(Core *c)
{
	for (size_t i = 0; i < c->n_doomed; i++)
		finish(c, c->doomed[i], -1, (OutResult) {c->doomed[i]->stopped ? FIN_STOP : FIN_ABORT, NULL}, NULL);
	c->n_doomed = 0;
}

/* ---- the step ---- */

/* Hidden rows: those of pooled requests are worked off, the others become logits. */
static void
pool_rows_of_step(Core *c, const Plan *plan)
{
	size_t		width = (size_t) core_info(c)->hidden_size;
	PoolStep	s = {.model = c->model, .pool = c->opt.pool, .hidden = c->hidden, .logits = c->logits,
		.max_logits = c->opt.max_num_seqs, .n_valid = c->defaults.n_valid};
	int			at = 0;
	int			n = 0;

	pooled_collect(&s, plan);
	for (int i = 0; i < plan->n; i++)
	{
		if (plan->e[i].sample && at > n)
			memcpy(c->hidden + (size_t) n * width, c->hidden + (size_t) at * width, width * sizeof(float));
		n += plan->e[i].sample;
		at += plan->e[i].n_out + plan->e[i].sample;
	}
	model_logits(c->model, c->hidden, n, c->logits);
}

typedef struct Stop
{
	Core	   *core;
	const Plan *plan;
} Stop;

/* Does nobody want the step any more?  Asked on its way, on the step thread. */
static bool
unwanted(void *ctx)
{
	const Stop *s = ctx;

	if (s->core->on_progress != NULL)
		s->core->on_progress(s->core->progress_ctx);
	drain(s->core);
	for (int i = 0; i < s->plan->n; i++)
		if (!s->plan->e[i].r->cancelled)
			return false;
	return true;
}

/* false: it was stopped. */
static bool
forward(Core *c, const Plan *plan)
{
	Batch		b = *batch_build(c->batch, plan);
	Stop		stop = {c, plan};

	for (int i = 0; i < plan->n_copies; i++)
		memcpy(c->kv.base + (size_t) plan->copies[i].to * c->kv.block_stride,
			   c->kv.base + (size_t) plan->copies[i].from * c->kv.block_stride, c->kv.block_stride);
	profile_mark(c->opt.profile, PROF_SCHEDULE);
	if (core_info(c)->both_ways)
	{
		b.stop = unwanted;
		b.stop_ctx = &stop;
	}
	if (!model_forward(c->model, &b, &c->kv, plan->pools ? c->hidden : c->logits))
		return false;
	if (plan->pools)
		pool_rows_of_step(c, plan);
	return true;
}

static void
sample(Core *c, const Plan *plan)
{
	int			width = core_info(c)->vocab_size;
	int			n = 0;

	for (int i = 0; i < plan->n; i++)
	{
		const Req  *r = plan->e[i].r;

		if (!plan->e[i].sample)
			continue;
		if (c->opt.tap != NULL)
			c->opt.tap(c->opt.tap_ctx, r, req_n_output(r), c->logits + (size_t) n * (size_t) width, width);
		c->rows[n++] = (SmpRow) {.params = &r->params, .seed = r->seed, .position = req_n_output(r)};
	}
	smp_run(c->sampler, c->rows, n, c->logits);
}

static void
commit_token(Core *c, Req *r, int32_t id)
{
	OutResult	res;
	Err			err;

	if (id < 0)
	{
		err_set(&err, ERR_INTERNAL, "model produced non-finite logits");
		err_detail(&err, "After %zu tokens.", r->tokens.len);
		finish(c, r, -1, (OutResult) {FIN_ERROR, NULL}, &err);
		return;
	}
	if (r->first_token_us == 0)
	{
		r->first_token_us = clock_us();
		c->stats.prompt_tokens += r->n_prompt;
	}
	intvec_push(&r->tokens, id);
	c->stats.output_tokens++;
	res = out_ends(r, c->defaults.eos, c->max_model_len);
	if (res.finish == FIN_NONE)
		hand_over(c, r, id, res, NULL);
	else
		finish(c, r, id, res, NULL);
}

static void
commit(Core *c, const Plan *plan)
{
	int			n = 0;

	for (int i = 0; i < plan->n; i++)
	{
		const PlanEntry *pe = &plan->e[i];
		int32_t		id = pe->sample ? c->rows[n++].id : -1;

		pe->r->computed += pe->n;
		if (pe->sample && !pe->r->cancelled)
			commit_token(c, pe->r, id);
		else if (pe->r->pooled != NULL && req_todo(pe->r) == 0 && !pe->r->cancelled)
			finish(c, pe->r, -1, (OutResult) {FIN_STOP, NULL}, NULL);
	}
}

static void
account(Core *c, const Plan *plan, int64_t us)
{
	CoreStats  *st = &c->stats;
	int64_t		generating = 0;

	for (int i = 0; i < plan->n; i++)
		generating += plan->e[i].r->pooled == NULL ? plan->e[i].n : 0;
	sched_learn(c->sched, plan->units, us);
	st->steps++;
	st->step_rows += plan->n_rows;
	st->step_seqs += plan->n;
	st->step_us += us;
	st->generate_us += plan->n_rows > 0 ? us * generating / plan->n_rows : 0;
	if (plan->n > st->max_batch)
		st->max_batch = plan->n;
}

bool
core_step(Core *c)
{
	Profile    *prof = c->opt.profile;
	bool		any;
	int64_t		start = clock_us();
	const Plan *plan;

	profile_mark(prof, PROF_BETWEEN);
	any = drain(c);
	if (c->opt.pool != NULL)
		kpool_bind(c->opt.pool);
	reap(c);
	deliver_send(c->deliver, start);
	plan = sched_plan(c->sched, start);
	if (plan->n > 0 && !forward(c, plan))
	{
		/* nothing has been committed, and all are to be reaped */
		reap(c);
		deliver_send(c->deliver, clock_us());
		any = true;
	}
	else if (plan->n > 0)
	{
		drain(c);				/* a cancel that came meanwhile drops this step's token */
		profile_mark(prof, PROF_SCHEDULE);
		sample(c, plan);
		profile_mark(prof, PROF_SAMPLE);
		account(c, plan, clock_us() - start);
		commit(c, plan);
		reap(c);
		deliver_send(c->deliver, clock_us());
		profile_mark(prof, PROF_OUTPUT);
		any = true;
	}
	publish(c);
	profile_mark(prof, PROF_SCHEDULE);
	return any;
}

/* ---- making one ---- */

/* Address space without memory behind it until it is touched; zeroed. */
static void *
map_area(size_t size)
{
	void	   *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* No layer has K and V: blocks only count, and one is enough for any request. */
static bool
open_no_kv(Core *c)
{
	int			n = c->opt.kv_blocks > 0 ? c->opt.kv_blocks : 2 * c->opt.max_num_seqs;

	if (c->opt.kv_blocks == 0)
		c->opt.block_size = (c->max_model_len + 15) / 16 * 16;
	c->kv.block_size = c->opt.block_size;
	c->kv.n_blocks = n + 1;
	c->pool = kvpool_new(c->kv.n_blocks);
	return true;
}

static bool
open_state(Core *c, Err *e)
{
	uint64_t	one = core_info(c)->state_bytes;
	size_t		size;
	char		what[80];

	if (one == 0)
		return true;
	snprintf(what, sizeof(what), "The recurrent state of %d requests", c->opt.max_num_seqs);
	if (!mem_mul((size_t) one, (size_t) c->opt.max_num_seqs, &size))
		return err_set(e, ERR_NOMEM, "out of memory: %s is too large", what);
	return marena_reserve(&c->state_area, size, c->opt.huge, what, e);
}

/*
 * The KV area: kv_blocks, or as many as kv_bytes hold.  The null block comes on top:
 * it is never touched, so it takes address space only.
 */
static bool
open_kv(Core *c, Err *e)
{
	const CoreOptions *o = &c->opt;
	const ModelInfo *info = core_info(c);
	size_t		one,
				n;
	char		what[64];

	c->kv = (KvView) {
		.type = o->kv_type, .n_layers = info->n_kv_layers, .n_blocks = 1, .block_size = o->block_size,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim
	};
	if (info->n_kv_layers == 0)
		return open_no_kv(c);
	one = kv_layout(&c->kv);
	if (one == 0)
		return err_set(e, ERR_NOMEM, "KV cache block of %d tokens is too large", o->block_size);
	n = o->kv_blocks > 0 ? (size_t) o->kv_blocks : o->kv_bytes / one;
	if (n < 1)
	{
		err_set(e, ERR_INVALID, "KV cache of %zu bytes is too small", o->kv_bytes);
		return err_detail(e, "A block of %d tokens takes %zu bytes.", o->block_size, one);
	}
	c->kv.n_blocks = n < INT32_MAX ? (int) n + 1 : INT32_MAX;
	c->kv_size = kv_layout(&c->kv);
	snprintf(what, sizeof(what), "The KV cache of %d blocks", c->kv.n_blocks);
	if (c->kv_size == 0)
		return err_set(e, ERR_NOMEM, "out of memory: %s is too large", what);
	if (!marena_reserve(&c->kv_area, c->kv_size, o->huge, what, e))
		return false;
	c->kv.base = c->kv_area.base;
	c->pool = kvpool_new(c->kv.n_blocks);
	if ((int64_t) kvpool_total(c->pool) * o->block_size < c->max_model_len - 1)
		log_line('W', "KV cache holds %lld tokens, less than the maximum model length of %d",
				 (long long) kvpool_total(c->pool) * o->block_size, c->max_model_len);
	return true;
}

static bool
check_options(Core *c, Err *e)
{
	const CoreOptions *o = &c->opt;
	int			model_len = core_info(c)->max_model_len;

	if (o->max_num_seqs < 1)
		return err_set(e, ERR_INVALID, "max_num_seqs must be at least 1, got %d", o->max_num_seqs);
	if (o->max_num_batched_tokens < o->max_num_seqs)
		return err_set(e, ERR_INVALID, "max_num_batched_tokens must be at least max_num_seqs (%d), got %d",
					   o->max_num_seqs, o->max_num_batched_tokens);
	if (o->block_size < 16 || o->block_size % 16 != 0)
		return err_set(e, ERR_INVALID, "block_size must be a multiple of 16, got %d", o->block_size);
	if (o->max_model_len < 0 || o->max_model_len > model_len)
		return err_set(e, ERR_INVALID, "max_model_len must be between 0 and the model's %d, got %d",
					   model_len, o->max_model_len);
	c->max_model_len = o->max_model_len > 0 ? o->max_model_len : model_len;
	return true;
}

static bool
open_core(Core *c, const Conf *conf, Err *e)
{
	const ModelInfo *info = core_info(c);
	const CoreOptions *o = &c->opt;
	double		attn = 4.0 * info->n_heads * info->head_dim * info->n_kv_layers;
	SchedOptions so = {
		.max_seqs = o->max_num_seqs, .max_rows = o->max_num_batched_tokens,
		.slots = info->state_bytes > 0, .step_target_us = o->step_target_us, .max_chunk = o->max_chunk,
		.attn_weight = info->n_params > 0 ? ATTN_FACTOR * attn / (2.0 * (double) info->n_params) : 0
	};

	gendefaults_init(&c->defaults, conf, c->tok, info->vocab_size);
	if (!check_options(c, e) || !open_kv(c, e) || !open_state(c, e))
		return false;
	so.block_size = o->block_size;
	c->logits_size = (size_t) o->max_num_seqs * (size_t) info->vocab_size * sizeof(float);
	c->logits = map_area(c->logits_size);
	if (c->logits == NULL)
		return err_set(e, ERR_NOMEM, "could not map %zu bytes of logits", c->logits_size);
	c->hidden_size = (size_t) o->max_num_batched_tokens * (size_t) info->hidden_size * sizeof(float);
	c->hidden = map_area(c->hidden_size);
	if (c->hidden == NULL)
		return err_set(e, ERR_NOMEM, "could not map %zu bytes of hidden rows", c->hidden_size);
	c->sched = sched_new(c->pool, &so);
	c->batch = batch_new(o->max_num_batched_tokens, o->max_num_seqs, (float *) c->state_area.base);
	c->sampler = smp_new(o->pool, info->vocab_size, c->defaults.n_valid);
	c->rows = mem_zalloc((size_t) o->max_num_seqs * sizeof(SmpRow));
	publish(c);
	return true;
}

Core *
core_new(Model *model, Tok *tok, const Conf *conf, const CoreOptions *opt, Err *e)
{
	Core	   *c = mem_zalloc(sizeof(*c));

	c->model = model;
	c->tok = tok;
	c->opt = *opt;
	model_profile(model, opt->profile);
	c->deliver = deliver_new(opt->overlap, on_stopped, c);
	c->inbox = mem_zalloc(sizeof(Inbox));
	pthread_mutex_init(&c->inbox->lock, NULL);
	if (open_core(c, conf, e))
		return c;
	core_free(c);
	return NULL;
}

void
core_free(Core *c)
{
	Req		   *r;

	if (c == NULL)
		return;
	if (c->sched != NULL)
	{
		drain(c);
		reap(c);
		while ((r = sched_any(c->sched)) != NULL)
		{
			finish(c, r, -1, (OutResult) {FIN_ABORT, NULL}, NULL);
		}
	}
	deliver_free(c->deliver);
	smp_free(c->sampler);
	batch_free(c->batch);
	sched_free(c->sched);
	kvpool_free(c->pool);
	marena_free(&c->kv_area);
	marena_free(&c->state_area);
	if (c->logits != NULL)
		munmap(c->logits, c->logits_size);
	if (c->hidden != NULL)
		munmap(c->hidden, c->hidden_size);
	gendefaults_free(&c->defaults);
	idmap_free(&c->by_id);
	mem_free(c->rows);
	mem_free(c->doomed);
	mem_free(c->drained);
	pthread_mutex_destroy(&c->inbox->lock);
	mem_free(c->inbox->items);
	mem_free(c->inbox);
	tok_free(c->tok);
	model_free(c->model);
	mem_free(c);
}

/* ---- looking at one ---- */

const ModelInfo *
core_info(const Core *c)
{
	return model_info(c->model);
}

const Tok *
core_tok(const Core *c)
{
	return c->tok;
}

int
core_max_model_len(const Core *c)
{
	return c->max_model_len;
}

const GenDefaults *
core_defaults(const Core *c)
{
	return &c->defaults;
}

const Sched *
core_sched(const Core *c)
{
	return c->sched;
}

void
core_stats(const Core *c, CoreStats *out)
{
	Inbox	   *in = c->inbox;
	int64_t		forgiven;

	pthread_mutex_lock(&in->lock);
	*out = in->stats;
	/*
	 * What the step thread has counted is put right by what turned out since: a token
	 * behind a stop string counts until that is found, and so does a failure there: so
	 * output_tokens and failed may go down by a few.  Held at their maximum instead they
	 * would stay wrong when all is over.
	 */
	out->output_tokens -= deliver_dropped(c->deliver);
	forgiven = deliver_forgiven(c->deliver);
	out->failed -= forgiven;
	out->finished += forgiven;
	out->requests += (int64_t) in->n_new;
	out->waiting += (int64_t) in->n_new;
	pthread_mutex_unlock(&in->lock);
}

void
core_on_events(Core *c, void (*fn) (void *ctx), void *ctx)
{
	deliver_on_round(c->deliver, fn, ctx);
}

void
core_on_progress(Core *c, void (*fn) (void *ctx), void *ctx)
{
	c->on_progress = fn;
	c->progress_ctx = ctx;
}

bool
core_check(const Core *c, Err *e)
{
	int			n = sched_n_running(c->sched) + sched_n_waiting(c->sched);
	int			used = kvpool_total(c->pool) - kvpool_available(c->pool);

	if (!sched_check(c->sched, e))
		return false;
	if ((size_t) (n - c->n_pooled_seqs + c->n_pooled) != c->by_id.n)
		return err_set(e, ERR_INTERNAL, "%d requests are scheduled, %d of them sequences of %d others, %zu are known",
					   n, c->n_pooled_seqs, c->n_pooled, c->by_id.n);
	if (sched_n_running(c->sched) + sched_n_held(c->sched) == 0 && used != 0)
		return err_set(e, ERR_INTERNAL, "%d blocks are in use and no request runs", used);
	if (c->n_doomed != 0)
		return err_set(e, ERR_INTERNAL, "%zu cancelled requests are left", c->n_doomed);
	return true;
}
