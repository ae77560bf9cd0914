/*
 * core.c
 *	  The engine core: requests in, token events out, one step at a time.
 *
 * core_step() is the loop's body and the place to start reading:
 *
 *		drain	new requests and cancels from the inbox		(here)
 *		plan	which requests get how many rows			(sched_plan.c)
 *		forward	rows -> K/V and logits						(forward.c, src/model)
 *		  meanwhile	masks of the grammars				(guided_decoding.c)
 *		sample	logits -> a token for each complete row		(commit.c, sample.c)
 *		commit	computed += rows; does the token end it?	(commit.c, stop_check.c)
 *		deliver	token -> text, events to the owner's sink	(output_queue.c)
 *
 * The step thread owns everything except the inbox, which any thread fills under its mutex, the published
 * copy of the statistics next to it, and the parts of requests that output_queue.c uses; with
 * CoreOptions.overlap the output thread does that while the next step runs.  A cancel is noticed at the
 * latest when the current step's forward pass ends: the request's token is dropped, and its blocks are
 * free before the next plan.  A step of a bidirectional model may be long, as a sequence can't be divided:
 * it is stopped when all of its sequences have been cancelled.
 *
 * Every request ends in core_finish(): it is removed from the scheduler, its blocks are freed, and
 * output_queue.c sends its last event and frees its memory.  Cost of a step beside the model's: O(rows +
 * running + vocabulary * sampled rows).  Tested by tests/unit/core/test_core.c and test_invariance.c.
 */
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/output/guided_decoding.h"
#include "core/spec/drafter.h"
#include "core/core_state.h"
#include "core/kv/block_lifetime.h"
#include "core/offload/offload.h"
#include "base/rng.h"
#include "core/kv/pinned_prefix.h"
#include "core/ranks/ranks.h"
#include "core/sample/sample_device.h"
#include "core/spec/spec.h"
#include "runtime/engine_settings.h"

#define CHECK_BLOCKS 16

/* ---- statistics, requests ---- */

void
core_publish(Core *c)
{
	CoreStats  *st = &c->stats;

	st->preemptions = sched_n_preemptions(c->sched);
	st->running = sched_n_running(c->sched);
	st->waiting = sched_n_waiting(c->sched) + admission_n(c->gate);
	st->waiting_deferred = admission_n(c->gate) + sched_n_skipped(c->sched);
	st->live = (int64_t) c->by_id.n;
	st->max_num_seqs = c->opt.max_num_seqs;
	st->max_num_batched_tokens = c->opt.max_num_batched_tokens;
	if (sched_lora_names(c->sched, st->loras_running, st->loras_waiting))
		st->max_loras = c->opt.max_loras;
	st->kv_blocks_total = kvpool_pages(c->pool);
	st->kv_blocks_used = st->kv_blocks_total - kvpool_pages_available(c->pool);
	st->kv_bytes =
		(int64_t) ((c->kv_size / (size_t) c->kv.n_blocks + c->draft_block) * (size_t) kvpool_pages(c->pool));
	memory_publish(c, st);
	if (c->offload != NULL)
		core_offload_publish(c, st);
	pthread_mutex_lock(&c->inbox->lock);
	c->inbox->stats = *st;
	pthread_mutex_unlock(&c->inbox->lock);
}

static void
hand_over(Core *c, Req *r, int32_t id, int n_output, OutResult res, const Err *err)
{
	OutputItem	p = {
		.r = r, .id = id, .res = res, .token_lp = r->out.token_lp,
		.ev = {
			.index = r->index, .output_tokens = n_output,
			.prompt_tokens = r->pooled != NULL ? r->pooled->n_tokens : r->in.n_prompt,
			.cached_tokens = prefix_cache_hit_tokens(r), .back_tokens = prefix_cache_tokens_from_tier(r),
			.preemptions = r->sched.preemptions, .draft_tokens = r->draft_tokens,
			.accepted_tokens = r->accepted_tokens,
			.reasoning_tokens = r->reasoning_budget != NULL ? rbudget_count(r->reasoning_budget) : -1,
			.arrival_us = r->in.arrival_us, .scheduled_us = r->sched.scheduled_us,
			.first_token_us = r->sched.first_token_us
		}
	};
	Req		   *prompt = r->group != NULL ? r->group->prompt_request : r;

	r->out.token_lp = NULL;
	if (id >= 0)
	{
		p.prompt_lp = prompt->out.prompt_lp;
		prompt->out.prompt_lp = NULL;
	}

	if (err != NULL)
	{
		p.err = mem_alloc(sizeof(Err));
		*p.err = *err;
	}
	deliver_add(c->deliver, &p);
}

/* Hand a request's newest token (id >= 0), its end, or both to the output queue. */
void
core_emit(Core *c, Req *r, int32_t id, OutResult res, const Err *err)
{
	/* an answer that has not begun has no tokens at all */
	hand_over(c, r, id, r->tokens.len > 0 ? req_n_output(r) : 0, res, err);
}

/* Count a prompt that has been computed or found. */
static void
count_prompt(Core *c, const Req *r, int tokens)
{
	int			cached = prefix_cache_hit_tokens(r);

	c->stats.prompt_tokens += tokens;
	c->stats.cached_tokens += cached;
	if (c->prefix != NULL)
	{
		c->stats.prefix_queries += tokens;
		c->stats.prefix_hits += cached - prefix_cache_tokens_from_tier(r);
	}
}

/* Count a generating request's prompt, which has been computed. */
void
core_count_prompt(Core *c, const Req *r)
{
	count_prompt(c, r, r->in.n_prompt);
}

/* Count a request that has ended, before its client learns of the end. */
void
core_count_end(Core *c, ReqFinish fin, const Err *err)
{
	if (finish_cancelled(fin, err))
		c->stats.cancelled++;
	else if (fin == FIN_ERROR)
		c->stats.failed++;
	else
		c->stats.finished++;
	core_publish(c);
}

/* A pooled request has failed or was cancelled: finish its other sequences at the step boundary. */
static void
finish_seqs_later(Core *c, Pooled *p)
{
	for (int i = 0; i < p->n_reqs; i++)
	{
		Req		   *r = p->reqs[i];

		if (r->sched.state == RQ_NEW)
		{
			r->sched.state = RQ_REMOVED;
			p->n_left--;
		}
		else
			core_finish_later(c, r, false);
	}
}

/* The prompt is computed: add the choices, which continue from its blocks; the first one goes in front. */
static void
begin_choices(Core *c, Req *prompt)
{
	Pooled	   *p = prompt->pooled;

	for (int i = p->n_reqs - 1; i > 0; i--)
	{
		pooled_fork(p->reqs[i]);
		/* recurrent state is not in blocks, so the choice computes all rows itself */
		sched_fork(c->sched, p->reqs[i], core_info(c)->state_bytes > 0 ? NULL : prompt);
		c->n_multi_seqs++;
	}
	sched_retain_blocks(c->sched, prompt);
}

/* A sequence of a pooled request has ended; the request ends with the last one. */
static void
finish_seq(Core *c, Req *r, ReqFinish fin, const Err *err)
{
	Pooled	   *p = r->pooled;
	Req		   *first = p->reqs[0];

	if (r->sched.state != RQ_NEW)
		c->n_multi_seqs--;
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
			finish_seqs_later(c, p);
	}
	if (--p->n_left > 0)
		return;
	if (idmap_get(&c->by_id, r->in.id) == first)
	{
		idmap_del(&c->by_id, r->in.id);
		c->n_multi--;
	}
	if (p->finish == FIN_STOP)
		count_prompt(c, first, p->n_tokens);
	core_count_end(c, p->finish, &p->err);
	core_request_done(c, first);
	core_emit(c, first, -1, (OutResult) {.finish = p->finish}, p->finish == FIN_ERROR ? &p->err : NULL);
}

/*
 * Count r, a request's first Req, when it is scheduled or ends before that; core_request_done() uncounts
 * it.
 */
static void
count_multi(Core *c, const Req *r)
{
	c->n_multi += r->pooled != NULL || r->group != NULL;
}

void
core_request_done(Core *c, Req *r)
{
	admission_leave(c->gate, r);
	atomic_fetch_sub(&c->inbox->n_tokens, r->sched.weight);
	atomic_fetch_sub(&c->inbox->n_live, 1);
	workcounts_leave(c->work, r);
}

/* End r for the step thread. */
void
core_finish(Core *c, Req *r, int32_t id, OutResult res, const Err *err)
{
	Err			not_pinned;

	if (r->spec != NULL)
		spec_end(c->spec, r);
	if (r->sched.state == RQ_DEFERRED)
	{
		admission_remove(c->gate, r);
		count_multi(c, r);
	}
	if (r->pooled != NULL)
	{
		finish_seq(c, r, res.finish, err);
		return;
	}
	if (r->group != NULL)
	{
		answers_finish(c, r, id, res, err);
		return;
	}
	if (r->in.params.pin != 0 && res.finish < FIN_ABORT && r->sched.state == RQ_RUNNING)
	{
		sched_note(c->sched, r);
		if (!pins_of(c->pins, r, &not_pinned))
		{
			id = -1;
			res = (OutResult) {.finish = FIN_ERROR};
			err = &not_pinned;
		}
	}
	sched_remove(c->sched, r);
	if (idmap_get(&c->by_id, r->in.id) == r)
		idmap_del(&c->by_id, r->in.id);
	/* the grammar forced the whole output: no token was sampled, so the prompt has not been counted yet */
	if (res.finish < FIN_ABORT && r->sched.first_token_us == 0)
		core_count_prompt(c, r);
	core_count_end(c, res.finish, err);
	core_request_done(c, r);
	core_emit(c, r, id, res, err);
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

/*
 * Return true if tokens may be appended without running the model.  Not if log-probabilities are wanted,
 * which such tokens do not have (and the prompt's must be sent first), or if the request restricts which
 * tokens spell a text.
 */
static bool
may_jump(const Req *r)
{
	const LogitRules *l = r->in.params.rules;

	return !core_wants_logprobs(r) && r->out.prompt_lp == NULL && r->in.params.plugins == 0 &&
		(l == NULL || (!l->has_allowed && l->n_words == 0));
}

Req *
core_submit(Core *c, ReqSpec *spec)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	r->in = *spec;
	memset(spec, 0, sizeof(*spec));
	r->tokens = r->in.prompt;
	r->in.prompt = (IntVec) {0};
	r->in.n_prompt = (int) r->tokens.len;
	r->sched.plan_at = -1;
	r->kv.slot = -1;
	r->in.params.out.logits = c->opt.return_logits;
	if (r->in.params.pin != 0)
		r->in.params.max_tokens = 1;
	r->in.priority = r->in.params.priority;
	r->out.urgent = r->in.stream || r->in.params.n_stop > 0;
	r->in.arrival_us = clock_us();
	/* before the answers are made, which copy its class */
	workcounts_enter(c->work, r);
	if (r->in.pool.task != PT_NONE)
		pooled_begin(r, &r->in.pool, core_info(c));
	if (r->pooled == NULL && r->in.params.out.prompt_logprobs != LOGPROBS_NONE)
	{
		r->out.prompt_lp = logprobs_new();
		logprobs_add(r->out.prompt_lp, NULL, 0);	/* the first token has no log-probability */
	}
	if (r->in.params.temperature > 0)
		r->in.seed = r->in.params.has_seed ? (uint64_t) r->in.params.seed : rng_seed();
	/* no grammar for a pin: a session's default could end the request before its prompt is computed */
	if (r->in.params.pin != 0)
		grammar_unref(r->in.grammar);
	else if (r->in.grammar != NULL)
		r->constraint = constraint_new(c->constraints, r->in.grammar, r->in.grammar_after,
									   r->in.grammar_may_end, may_jump(r));
	r->in.grammar = NULL;
	r->reasoning_budget = r->in.reasoning_budget;
	r->in.reasoning_budget = NULL;
	if (r->pooled == NULL && group_wanted(&r->in.params.out))
		group_begin(r);
	else if (r->pooled == NULL)
		out_begin(r, c->tok);
	r->sched.weight = r->pooled != NULL ? r->pooled->n_tokens :
		r->in.n_prompt + (int64_t) r->in.params.max_tokens * (r->in.params.out.n > 1 ? r->in.params.out.n :
															  1);
	atomic_fetch_add(&c->inbox->n_tokens, r->sched.weight);
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

int64_t
core_live_tokens(const Core *c)
{
	return atomic_load(&c->inbox->n_tokens);
}

bool
core_has_work(const Core *c)
{
	if (c->suspended)
		return core_rest_due(c);
	return atomic_load(&c->inbox->n_live) > 0;
}

int64_t
core_next_due(const Core *c)
{
	Inbox	   *in = c->inbox;
	bool		mail;
	int64_t		due;

	if (c->suspended)
		return core_rest_due(c) ? 0 : c->next_deadline_us;
	if (!core_has_work(c))
		return c->offload != NULL && offload_idle_us(c->offload) > 0 ? c->poll_us : INT64_MAX;
	pthread_mutex_lock(&in->lock);
	mail = in->n > 0;
	pthread_mutex_unlock(&in->lock);
	if (mail || !c->idle)
		return 0;
	/* blocks are being loaded from files */
	if (c->offload != NULL && offload_n_waiting(c->offload) > 0)
		return c->poll_us;
	/* some request is past the gate, and can be computed now */
	if ((size_t) admission_n(c->gate) < c->by_id.n)
		return 0;
	due = admission_due(c->gate);
	return due < c->next_deadline_us ? due : c->next_deadline_us;
}

bool
core_prepare_grammar(Core *c, Err *e)
{
	return constraints_prepare(c->constraints, e);
}

static bool
pooled_acceptable(const Core *c, const Pooled *p, Err *e)
{
	if (!pooled_check(p, core_info(c), c->max_model_len, e))
		return false;
	for (int i = 0; i < p->n_reqs; i++)
		if (!sched_must_fit(c->sched, p->reqs[i]->in.n_prompt, 1, e))
			return false;
	return true;
}

/* core_normalize() rejects what does not fit; this check is for any other caller. */
static bool
acceptable(const Core *c, const Req *r, Err *e)
{
	if (idmap_get(&c->by_id, r->in.id) != NULL)
		return err_set(e, ERR_INTERNAL, "request id %llu is in use", (unsigned long long) r->in.id);
	if (r->pooled != NULL)
		return pooled_acceptable(c, r->pooled, e);
	if (r->in.n_prompt < 1 || r->in.params.max_tokens < 1)
		return err_set(e, ERR_INTERNAL, "request of %d tokens asks for %d", r->in.n_prompt,
					   r->in.params.max_tokens);
	if (r->constraint != NULL && r->group != NULL && r->group->beam != NULL)
		return err_set(e, ERR_UNSUPPORTED, "a beam search does not take structured output");
	if (r->in.embeds != NULL && r->out.prompt_lp != NULL)
		return err_set(e, ERR_UNSUPPORTED, "a prompt of embeddings has no tokens, and so no prompt_logprobs");
	if (r->reasoning_budget != NULL && rbudget_limited(r->reasoning_budget) && r->group != NULL &&
		r->group->beam != NULL)
		return err_set(e, ERR_UNSUPPORTED, "a beam search does not take thinking_token_budget");
	if (r->reasoning_budget != NULL && rbudget_limited(r->reasoning_budget) &&
		rbudget_highest_id(r->reasoning_budget) >= c->defaults.n_valid)
		return err_set(e, ERR_UNSUPPORTED, "the model has no logits for the tokens that end its thoughts");
	if (r->in.n_prompt >= c->max_model_len)
		return err_set(e, ERR_TOO_LONG, "prompt of %d tokens does not fit the maximum model length of %d",
					   r->in.n_prompt, c->max_model_len);
	return pins_may(c->pins, r, e) && sched_must_fit(c->sched, r->in.n_prompt, r->in.params.max_tokens, e);
}

/* Append a token to r's output.  Returns false with *e set at a limit of its grammar. */
static bool
push_token(Core *c, Req *r, int32_t id, OutResult *res, Err *e)
{
	intvec_push(&r->tokens, id);
	c->stats.output_tokens++;
	admission_charge(r, 1);
	if (r->reasoning_budget != NULL)
		rbudget_token(r->reasoning_budget, c->tok, r->tokens.data + r->in.n_prompt, req_n_output(r));
	*res = out_ends(r, c->defaults.eos, c->max_model_len);
	return r->constraint == NULL || constraint_token(r->constraint, r, res, e);
}

bool
core_append_token(Core *c, Req *r, int32_t id, OutResult *res, Err *e)
{
	int			room;

	*res = (OutResult) {.finish = FIN_NONE};
	/* the id indexes the embedding in the next step */
	ALWAYS(id < core_info(c)->vocab_size);
	if (id >= 0 && !push_token(c, r, id, res, e))
		return false;
	if (r->constraint == NULL || res->finish != FIN_NONE)
		return true;
	room = r->in.params.max_tokens - req_n_output(r);
	if (c->max_model_len - (int) r->tokens.len < room)
		room = c->max_model_len - (int) r->tokens.len;
	constraint_forced(r->constraint, r, room, &c->forced);
	for (size_t i = 0; i < c->forced.len && res->finish == FIN_NONE; i++)
		if (!push_token(c, r, c->forced.data[i], res, e))
			return false;
	return true;
}

void
core_emit_tokens(Core *c, Req *r, size_t from, OutResult res)
{
	size_t		n = r->tokens.len;

	for (size_t i = from; i < n; i++)
	{
		/* a request that a stop string among the tokens has ended is finished at the step boundary */
		if (i + 1 == n && res.finish != FIN_NONE && !r->sched.cancelled)
			core_finish(c, r, r->tokens.data[i], res, NULL);
		else
			hand_over(c, r, r->tokens.data[i], (int) i + 1 - r->in.n_prompt, (OutResult) {.finish = FIN_NONE},
					  NULL);
	}
	if (from == n && res.finish != FIN_NONE)
		core_finish(c, r, -1, res, NULL);
}

/* Append the tokens that a grammar forces at the start; returns false if they are the whole output. */
static bool
begin_output(Core *c, Req *r)
{
	OutResult	res = {.finish = FIN_STOP};
	Err			err;

	if (r->constraint == NULL)
		return true;
	if (!constraint_finished(r->constraint) && !core_append_token(c, r, -1, &res, &err))
	{
		core_finish(c, r, -1, (OutResult) {.finish = FIN_ERROR}, &err);
		return false;
	}
	if (r->group == NULL)
		core_emit_tokens(c, r, (size_t) r->in.n_prompt, res);
	else if (res.finish != FIN_NONE)
		answers_forced(c, r->group, res);
	return res.finish == FIN_NONE;
}

/* Schedule r. */
static void
begin(Core *c, Req *r)
{
	Pooled	   *p = r->pooled;

	count_multi(c, r);
	if (p == NULL)
	{
		if (!begin_output(c, r))
			return;
		sched_add(c->sched, r);
		c->n_multi_seqs += r->group != NULL;
		return;
	}
	/* choices are scheduled when their prompt is computed */
	for (int i = 0; i < (p->spec.join == PJ_CHOICES ? 1 : p->n_reqs); i++)
	{
		c->n_multi_seqs++;
		sched_add(c->sched, p->reqs[i]);
	}
}

/* Note that r fails at that time unless it has ended; 0 = never. */
static void
note_deadline(Core *c, int64_t when_us)
{
	if (when_us > 0 && when_us < c->next_deadline_us)
		c->next_deadline_us = when_us;
}

static void
accept(Core *c, Req *r)
{
	Err			err;

	c->stats.requests++;
	prefix_cache_attach(c->prefix, r);
	if (c->offload != NULL)
		offload_begin(c->offload, r);
	if (!acceptable(c, r, &err))
	{
		core_finish(c, r, -1, (OutResult) {.finish = FIN_ERROR}, &err);
		return;
	}
	idmap_put(&c->by_id, r->in.id, r);
	note_deadline(c, r->in.deadline_us);
	switch (admission_enter(c->gate, r, r->pooled != NULL ? r->pooled->n_tokens : r->in.n_prompt, clock_us(),
							&err))
	{
		case GATE_PASS:
			begin(c, r);
			break;
		case GATE_WAIT:
			note_deadline(c, r->sched.admission_until_us);
			break;
		case GATE_REFUSE:
			count_multi(c, r);
			core_finish(c, r, -1, (OutResult) {.finish = FIN_ERROR}, &err);
			break;
	}
}

void
core_finish_later(Core *c, Req *r, bool stopped)
{
	if (r == NULL || r->sched.cancelled)
		return;
	/* a held request has already ended */
	if (r->sched.state == RQ_REMOVED || r->sched.state == RQ_HELD)
		return;
	r->sched.cancelled = true;
	r->sched.stopped = stopped;
	if (c->n_finish_pending == c->cap_finish_pending)
	{
		c->cap_finish_pending = c->cap_finish_pending == 0 ? 64 : c->cap_finish_pending * 2;
		c->finish_pending = mem_realloc(c->finish_pending, c->cap_finish_pending * sizeof(Req *));
	}
	c->finish_pending[c->n_finish_pending++] = r;
}

/* Finish r with all its sequences at the step boundary; index >= 0: only this answer was stopped. */
static void
finish_request_later(Core *c, Req *r, bool stopped, int index)
{
	if (r == NULL)
		return;
	if (r->pooled != NULL)
		finish_seqs_later(c, r->pooled);
	else if (r->group == NULL)
		core_finish_later(c, r, stopped);
	else if (stopped)
		core_finish_later(c, r->group->answers[index], true);
	else
		answers_cancel(c, r->group);
}

/* Process the inbox: queue new requests, mark cancelled ones. */
bool
core_drain(Core *c)
{
	Inbox	   *in = c->inbox;
	InboxItem  *items;
	size_t		n,
				cap;

	pthread_mutex_lock(&in->lock);
	items = in->items;
	n = in->n;
	cap = in->cap;
	in->items = c->drained;		/* the two arrays are swapped */
	in->cap = c->cap_drained;
	in->n = in->n_new = 0;
	c->drained = items;
	c->cap_drained = cap;
	pthread_mutex_unlock(&in->lock);

	for (size_t i = 0; i < n; i++)
		if (items[i].r != NULL)
			accept(c, items[i].r);
		else
			finish_request_later(c, idmap_get(&c->by_id, items[i].cancel_id), items[i].stopped,
								 items[i].index);
	return n > 0;
}

/* A stop string was found, on the step thread or on the output thread. */
static void
on_stopped(void *ctx, uint64_t id, int index)
{
	Core	   *c = ctx;

	if (deliver_threaded(c->deliver))
		inbox_add(c->inbox, (InboxItem) {.cancel_id = id, .stopped = true, .index = index});
	else
		finish_request_later(c, idmap_get(&c->by_id, id), true, index);
}

/* Set *e to the reason why a request is late. */
static void
late_error(const Core *c, const Req *first, int64_t now, Err *e)
{
	if (first->sched.state == RQ_DEFERRED && (first->in.deadline_us == 0 || now < first->in.deadline_us))
	{
		admission_late(c->gate, first, now, e);
		return;
	}
	err_set(e, ERR_CANCELLED, WIRE_TIMED_OUT);
	err_detail(e, "The request took longer than %d ms.", first->in.timeout_ms);
}

/* Finish requests that are past their deadline, and compute the next deadline. */
static void
finish_overdue(Core *c, int64_t now)
{
	if (now < c->next_deadline_us)
		return;
	c->next_deadline_us = INT64_MAX;
	for (size_t i = 0; i < c->by_id.cap; i++)
	{
		Req		   *r = c->by_id.slots[i].value;
		int64_t		due;

		if (r == NULL || r->sched.late)
			continue;
		due = r->in.deadline_us;
		if (r->sched.state == RQ_DEFERRED && r->sched.admission_until_us > 0 &&
			(due == 0 || r->sched.admission_until_us < due))
			due = r->sched.admission_until_us;
		if (due == 0 || now < due)
		{
			note_deadline(c, due);
			continue;
		}
		r->sched.late = true;
		finish_request_later(c, r, false, 0);
	}
}

static void
reap(Core *c)
{
	for (size_t i = 0; i < c->n_finish_pending; i++)
	{
		Req		   *r = c->finish_pending[i];
		Req		   *first = idmap_get(&c->by_id, r->in.id);
		Err			err;

		if (first != NULL && first->sched.late && !r->sched.stopped)
		{
			late_error(c, first, clock_us(), &err);
			core_finish(c, r, -1, (OutResult) {.finish = FIN_ERROR}, &err);
		}
		else
			core_finish(c, r, -1, (OutResult) {.finish = r->sched.stopped ? FIN_STOP : FIN_ABORT}, NULL);
	}
	c->n_finish_pending = 0;
}

/* Schedule requests that may pass the gate now. */
static void
let_in(Core *c, int64_t now)
{
	Req		   *r;

	while ((r = admission_next(c->gate, now)) != NULL)
		begin(c, r);
}

/* ---- the step ---- */

static void
account(Core *c, const Plan *plan, int64_t us)
{
	CoreStats  *st = &c->stats;
	int64_t		generating = 0;
	StepWork	work;
	const EplbStat *eplb = model_eplb(c->model);

	for (int i = 0; i < plan->n; i++)
		generating += plan->e[i].r->pooled == NULL ? plan->e[i].n : 0;
	sched_observe_step_time(c->sched, plan->units, us);
	if (c->spec != NULL)
		spec_learn(c->spec, plan, us);
	st->steps++;
	st->step_sizes[step_size(plan->n_rows)]++;
	st->step_rows += plan->n_rows;
	st->step_seqs += plan->n;
	st->step_us += us;
	work = perf_step(core_info(c), plan,
					 c->kv.n_layers > 0 ? c->kv.block_stride / (size_t) (c->kv.n_layers * c->kv.block_size) :
					 0);
	st->flops += work.flops;
	st->read_bytes += work.read;
	st->written_bytes += work.written;
	st->generate_us += plan->n_rows > 0 ? us * generating / plan->n_rows : 0;
	if (plan->n > st->max_batch)
		st->max_batch = plan->n;
	if (eplb == NULL)
		return;
	st->eplb_rounds = eplb->rounds;
	st->eplb_failed = eplb->failed;
	st->eplb_moved = eplb->moved;
	st->eplb_rows = eplb->rows;
	st->eplb_busiest = eplb->busiest;
}

/* Assert that only one thread steps at a time. */
static void
assert_alone(Core *c)
{
	bool		was = atomic_exchange(&c->stepping, true);

	ASSERT(!was);
}

/* Check all invariants, but only now and then, so that the cost per step is that of CHECK_BLOCKS blocks. */
static void
assert_sound(Core *c)
{
	Err			e = {0};
	bool		sound;

	c->unchecked += CHECK_BLOCKS;
	if (c->unchecked >= kvpool_total(c->pool))
	{
		c->unchecked = 0;
		sound = core_check(c, &e);
		if (!sound)
			log_line('P', "%s", e.msg);
		ASSERT(sound);
	}
	atomic_store(&c->stepping, false);
}

static bool
step(Core *c)
{
	bool		any;
	int64_t		start = clock_us();
	const Plan *plan;
	Profile    *prof;

	c->stood_us = 0;
	c->progress_us = start;
	core_trace_begin(c, start);
	prof = c->opt.profile;
	profile_mark(prof, PROF_BETWEEN);
	any = core_drain(c);
	if (c->opt.pool != NULL)
		kpool_bind(c->opt.pool);
	finish_overdue(c, start);
	reap(c);
	let_in(c, start);
	deliver_send(c->deliver, start);
	if (c->suspended)
	{
		core_publish(c);
		return any;
	}
	if (c->spec != NULL)
		spec_propose(c->spec, c->sched);
	plan = sched_plan(c->sched, start);
	core_trace_mark(c, TM_PLAN);
	if (plan->n > 0 && !core_forward(c, plan))
	{
		/* nothing was committed, and all requests of the step were cancelled */
		reap(c);
		deliver_send(c->deliver, clock_us());
		any = true;
	}
	else if (plan->n > 0)
	{
		core_drain(c);				/* a cancel that has arrived meanwhile drops this step's token, */
		finish_overdue(c, clock_us());	/* and so does a deadline */
		profile_mark(prof, PROF_SCHEDULE);
		core_trace_mark(c, TM_FORWARD);
		core_sample(c, plan, false);
		profile_mark(prof, PROF_SAMPLE);
		core_trace_mark(c, TM_SAMPLE);
		account(c, plan, clock_us() - start - c->stood_us);
		core_commit(c, plan);
		reap(c);
		deliver_send(c->deliver, clock_us());
		profile_mark(prof, PROF_OUTPUT);
		core_trace_end(c, plan);
		any = true;
	}
	if (c->offload != NULL)
		offload_settle(c->offload);
	c->idle = !any;
	if (c->idle && c->offload != NULL)
	{
		c->poll_us = clock_us() + OFFLOAD_POLL_US;
		if (!core_has_work(c))
		{
			offload_idle(c->offload);
			c->poll_us = clock_us() + offload_idle_us(c->offload);
		}
	}
	core_publish(c);
	profile_mark(prof, PROF_SCHEDULE);
	return any;
}

bool
core_step(Core *c)
{
	bool		any;

	if (VLLM_ASSERT)
		assert_alone(c);
	any = step(c);
	if (VLLM_ASSERT)
		assert_sound(c);
	return any;
}

/* ---- creating a core ---- */

Core *
core_new(Model *model, Tok *tok, const Conf *conf, const CoreOptions *opt, Err *e)
{
	Core	   *c = mem_zalloc(sizeof(*c));

	c->model = model;
	c->tok = tok;
	c->opt = *opt;
	if (opt->dev != NULL)
		c->opt.kernels = opt->dev->k;
	else if (opt->kernels == NULL)
		c->opt.kernels = kernels_select(NULL, NULL);
	model_profile(model, opt->profile);
	c->deliver = deliver_new(opt->overlap, tok, on_stopped, c);
	c->inbox = mem_zalloc(sizeof(Inbox));
	pthread_mutex_init(&c->inbox->lock, NULL);
	c->work = workcounts_new();
	if (core_open(c, conf, e))
	{
		core_publish(c);
		return c;
	}
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
		core_drain(c);
		reap(c);
		while ((r = admission_any(c->gate)) != NULL || (r = sched_any(c->sched)) != NULL)
			core_finish(c, r, -1, (OutResult) {.finish = FIN_ABORT}, NULL);
	}
	if (c->offload != NULL)
		core_offload_all(c);
	deliver_free(c->deliver);
	smp_free(c->sampler);
	smpdev_free(c->smpdev);
	constraints_free(c->constraints);
	intvec_free(&c->forced);
	batch_free(c->batch);
	spec_free(c->spec);
	if (c->opt.drafter != NULL)
		c->opt.drafter->free(c->opt.drafter);
	sched_free(c->sched);
	offload_close(c->offload);
	admission_free(c->gate);
	accounts_free(c->accounts);
	pins_free(c->pins);
	prefix_free(c->prefix);
	kvlife_free(c->life);
	kvpool_free(c->pool);
	devmem_free(&c->kv_area);
	mem_free(c->kv_parts);
	mem_free(c->kv_scales);
	devmem_free(&c->state_area);
	hostdev_free(&c->logits);
	hostdev_free(&c->hidden);
	hostdev_free(&c->head_in);
	hostdev_free(&c->head_out);
	if (c->raw != NULL)
		munmap(c->raw, c->raw_size);
	if (c->fork_logits != NULL)
		munmap(c->fork_logits, c->fork_size);
	if (c->fork_processed != NULL)
		munmap(c->fork_processed, c->fork_size);
	gendefaults_free(&c->defaults);
	idmap_free(&c->by_id);
	mem_free(c->rows);
	mem_free(c->loras);
	mem_free(c->keep);
	mem_free(c->notes);
	mem_free(c->round.e);
	mem_free(c->fork_rows);
	mem_free(c->finish_pending);
	mem_free(c->drained);
	pthread_mutex_destroy(&c->inbox->lock);
	mem_free(c->inbox->items);
	mem_free(c->inbox);
	workcounts_free(c->work);
	tok_free(c->tok);
	model_free(c->model);
	mem_free(c);
}

/* ---- reading a core ---- */

const Model *
core_model(const Core *c)
{
	return c->model;
}

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

void
core_cap_length(Core *c, int tokens)
{
	if (tokens < c->max_model_len)
		c->max_model_len = tokens;
}

size_t
core_token_rows(const Core *c, const int32_t *ids, size_t n, float *out)
{
	size_t		width = (size_t) core_info(c)->embed_width;
	size_t		found = 0;

	while (found < n && model_token_rank(c->model, ids[found]) >= 0)
		found++;
	for (size_t i = 0; i < found; i++)
		if (model_token_rank(c->model, ids[i]) == 0)
			model_token_row(c->model, ids[i], out + i * width);
	if (c->opt.ranks != NULL)
		ranks_token_rows(c->opt.ranks, c->model, ids, found, out);
	return found;
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

const Plugins *
core_plugins(const Core *c)
{
	return c->opt.plugins;
}

int
core_max_logprobs(const Core *c)
{
	int			max = c->opt.max_logprobs;

	return max == 0 ? LOGPROBS_MAX : max == LOGPROBS_ZERO ? 0 : max;
}

int64_t
core_max_entries(const Core *c)
{
	return c->opt.max_entries > 0 ? c->opt.max_entries : LOGPROB_MAX_ENTRIES;
}

bool
core_priorities(const Core *c)
{
	return c->opt.priorities;
}

void
core_stats(const Core *c, CoreStats *out)
{
	Inbox	   *in = c->inbox;
	int64_t		forgiven;

	pthread_mutex_lock(&in->lock);
	*out = in->stats;
	if (c->weights_dropped)
		out->mem_weights = 0;
	/*
	 * The step thread's counts are corrected by what the output thread found out later: a token after a
	 * stop string counts until the stop string is found, and so does a failure there.  So output_tokens
	 * and failed may decrease by a few.  If they were held at their maximum instead, the final values
	 * would be wrong.
	 */
	out->output_tokens -= deliver_dropped(c->deliver);
	forgiven = deliver_forgiven(c->deliver);
	out->failed -= forgiven;
	out->finished += forgiven;
	out->requests += (int64_t) in->n_new;
	out->waiting += (int64_t) in->n_new;
	out->live += (int64_t) in->n_new;
	pthread_mutex_unlock(&in->lock);
}

void
core_forget_blocks(Core *c)
{
	/* pinned blocks could not be found any more */
	pins_clear(c->pins);
	if (c->prefix != NULL)
		prefix_clear(c->prefix);
	if (c->life != NULL)
		kvlife_forget(c->life);
}

void
core_reset_prefix_cache(Core *c)
{
	core_forget_blocks(c);
	if (c->offload != NULL)
		offload_reset(c->offload);
	core_publish(c);
}

void
core_pins(const Core *c, void (*emit) (void *ctx, const PinInfo *i), void *ctx)
{
	pins_each(c->pins, (int64_t) (c->kv_size / (size_t) c->kv.n_blocks + c->draft_block), emit, ctx);
}

bool
core_unpin(Core *c, uint64_t id)
{
	bool		done = pins_drop(c->pins, id);

	core_publish(c);
	return done;
}

void
core_on_events(Core *c, void (*fn) (void *ctx), void *ctx)
{
	deliver_on_round(c->deliver, fn, ctx);
}

void
core_on_progress(Core *c, void (*fn) (void *ctx, bool between), void *ctx)
{
	c->on_progress = fn;
	c->progress_ctx = ctx;
}

bool
core_check(const Core *c, Err *e)
{
	int			n = sched_n_running(c->sched) + sched_n_waiting(c->sched) + admission_n(c->gate);
	int			used = kvpool_pages(c->pool) - kvpool_pages_available(c->pool);

	if (!sched_check(c->sched, e))
		return false;
	if ((size_t) (n - c->n_multi_seqs + c->n_multi) != c->by_id.n)
		return err_set(e, ERR_INTERNAL, "%d requests are scheduled, %d of them sequences of %d others, %zu "
										"are known",
					   n, c->n_multi_seqs, c->n_multi, c->by_id.n);
	if (sched_n_running(c->sched) + sched_n_held(c->sched) == 0 && used != pins_pages(c->pins))
		return err_set(e, ERR_INTERNAL, "%d blocks are in use and no request runs", used);
	if (c->n_finish_pending != 0)
		return err_set(e, ERR_INTERNAL, "%zu cancelled requests are left", c->n_finish_pending);
	return true;
}
