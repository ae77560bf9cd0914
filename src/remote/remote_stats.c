/*
 * remote_stats.c
 *	  The counters of the dispatcher, and their copy in the arena.
 *
 * The copy is written under the sequence lock (stats_seqlock.h).  The counters of a model are in its
 * RModel; totals add up the known models and the forgotten ones.  A reset subtracts a base from the
 * totals, so the models' counters only grow.
 *
 * Times are measured as the caller sees them: from the request's arrival, with all waiting and tries.
 *
 * Tested by tests/unit/remote/test_remote_dispatcher.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "remote/dispatcher_internal.h"
#include "ipc_server/stats_seqlock.h"

#define PUBLISH_US	100000

void
rstats_observe(RModel *m, WireHistId id, int64_t value)
{
	ALWAYS(id < WIRE_N_HISTS);
	if (value < 0)
		value = 0;
	m->hist[id].count[wire_hist_bucket(id, value)]++;
	m->hist[id].sum += value;
}

static void
count_tokens(PendingRequest *a, int64_t prompt, int64_t cached, int64_t output)
{
	RModel	   *m = a->m;
	int64_t		now = a->l->clock();
	int64_t		called = a->called_us > 0 ? a->called_us : now;

	m->prompt_tokens += prompt;
	m->cached_tokens += cached;
	m->output_tokens += output;
	rstats_observe(m, WH_E2E, now - a->arrival_us);
	rstats_observe(m, WH_QUEUE, called - a->arrival_us);
	rstats_observe(m, WH_INFERENCE, now - called);
	rstats_observe(m, WH_PROMPT, prompt);
	rstats_observe(m, WH_PREFILL_KV, prompt - cached);
	if (output <= 0)
		return;
	rstats_observe(m, WH_GENERATION, output);
	rstats_observe(m, WH_LONGEST, output);
	if (a->first_us == 0)
		return;
	rstats_observe(m, WH_PREFILL, a->first_us - called);
	rstats_observe(m, WH_DECODE, now - a->first_us);
	if (output > 1)
		rstats_observe(m, WH_TPOT, (now - a->first_us) / (output - 1));
}

/* A request has its result.  fields: the fields of its WF_DONE. */
void
rstats_done(PendingRequest *a, const Buf *fields)
{
	WireIn		in = {fields->data, fields->data + fields->len};
	WireField	f;
	int64_t		prompt = 0,
				cached = 0,
				output = 0;
	WireEnd		end = WE_STOP;

	while (wire_next(&in, &f) > 0)
		switch (f.tag)
		{
			case WTAG_PROMPT_TOKENS:
				prompt = f.i > 0 ? f.i : 0;
				break;
			case WTAG_CACHED_TOKENS:
				cached = f.i > 0 ? f.i : 0;
				break;
			case WTAG_COMPLETION_TOKENS:
				output = f.i > 0 ? f.i : 0;
				break;
			case WTAG_FINISH_REASON:
				if (f.n == 6 && memcmp(f.s, "length", 6) == 0)
					end = WE_LENGTH;
				break;
			default:
				break;
		}
	a->used = prompt + output > 0 ? prompt + output : -1;
	a->m->ended[end]++;
	count_tokens(a, prompt, cached < prompt ? cached : prompt, output);
}

/* ---- totals ---- */

static void
counters(const RModel *m, WireFigures *f)
{
	f->requests += m->requests;
	f->finished += m->ended[WE_STOP] + m->ended[WE_LENGTH] + m->ended[WE_REPETITION];
	f->failed += m->ended[WE_ERROR];
	f->cancelled += m->ended[WE_ABORT];
	f->prompt_tokens += m->prompt_tokens;
	f->cached_tokens += m->cached_tokens;
	f->output_tokens += m->output_tokens;
}

static void
gauges(const RModel *m, WireFigures *f)
{
	int			waiting = rqueue_count(m->queue);

	waiting += m->n_deferred;
	f->waiting += waiting;
	f->waiting_deferred += m->n_deferred;
	f->running += m->n_requests > waiting ? m->n_requests - waiting : 0;
	f->live += m->n_requests;
}

void
rstats_model_removed(RModel *m)
{
	counters(m, &m->l->early);
}

static void
total(const Dispatcher *l, WireFigures *f)
{
	*f = l->early;
	for (const RModel *m = l->models; m != NULL; m = m->next)
		counters(m, f);
}

void
rstats_reset(Dispatcher *l)
{
	total(l, &l->base);
	l->rested = false;
	l->published_us = 0;
}

/* ---- the arena's copy ---- */

static void
put_model(const RModel *m, WireModelStat *to)
{
	memset(to, 0, sizeof(*to));
	to->state = WM_READY;
	to->dboid = m->dboid;
	to->hash = m->hash;
	snprintf(to->name, sizeof(to->name), "%s", m->name);
	to->max_model_len = m->o->max_model_len;
	to->used_us = m->used_us;
	to->shared_with = -1;
	counters(m, &to->fig);
	gauges(m, &to->fig);
	to->requests = m->requests;
	to->prompt_tokens = m->prompt_tokens;
	to->output_tokens = to->generated_tokens = m->output_tokens;
	to->reused_tokens = m->cached_tokens;
	to->prefilled_tokens = m->prompt_tokens;
	memcpy(to->ended, m->ended, sizeof(to->ended));
	memcpy(to->hist, m->hist, sizeof(to->hist));
}

static void
put_endpoint(const RModel *m, int i, WireEndpoint *to)
{
	const RUrl *u = &m->u[i];
	const LbUrl *p = &m->lb.u[i];
	int64_t		now = m->l->now_us;

	memset(to, 0, sizeof(*to));
	snprintf(to->url, sizeof(to->url), "%s%s", u->base, u->query);
	to->model_hash = m->hash;
	to->dboid = m->dboid;
	to->health = p->health;
	to->in_flight = p->in_flight;
	to->calls = u->calls;
	to->failures = u->failures;
	to->retries = u->retries;
	to->throttled = u->throttled;
	to->latency_us = p->latency_us;
	if (p->health == WIRE_HEALTH_DOWN)
		to->retry_us = p->open_until_us;
	else if (u->rate.until_us > now)
		to->retry_us = u->rate.until_us;
	/* a waiting request may go to any of the urls */
	to->waiting = rqueue_count(m->queue);
	for (const UpstreamCall *c = m->pending; c != NULL; c = c->next)
		to->waiting++;
	snprintf(to->error, sizeof(to->error), "%s", u->error);
}

/* Choose the most recently used models, if there are more than the arena has places for. */
static int
choose_models(const Dispatcher *l, const RModel **v)
{
	int			n = 0;

	for (const RModel *m = l->models; m != NULL; m = m->next)
	{
		int			old = 0;

		if (m->forgotten)
			continue;
		if (n < WIRE_MAX_MODELS)
		{
			v[n++] = m;
			continue;
		}
		for (int i = 1; i < n; i++)
			if (v[i]->used_us < v[old]->used_us)
				old = i;
		if (v[old]->used_us < m->used_us)
			v[old] = m;
	}
	return n;
}

/* Sort the models, so that views list them in the same order each time. */
static void
sort_models(const RModel **v, int n)
{
	for (int i = 1; i < n; i++)
		for (int k = i;
			 k > 0 && (v[k]->dboid < v[k - 1]->dboid ||
					   (v[k]->dboid == v[k - 1]->dboid && strcmp(v[k]->name, v[k - 1]->name) < 0)); k--)
		{
			const RModel *x = v[k];

			v[k] = v[k - 1];
			v[k - 1] = x;
		}
}

/*
 * Return the maximal number of concurrent calls, of the model that allows most.  Backends keep a
 * multiple of it in flight.
 */
static int64_t
most_calls(const Dispatcher *l)
{
	int64_t		most = 0;

	for (const RModel *m = l->models; m != NULL; m = m->next)
	{
		int64_t		n = (int64_t) m->lb.n * m->lb.most;

		most = n > most ? n : most;
	}
	return l->set.max_connections > 0 && most > l->set.max_connections ? l->set.max_connections : most;
}

void
dispatcher_publish(Dispatcher *l, WireStats *s)
{
	const RModel *v[WIRE_MAX_MODELS];
	int64_t		now = l->clock();
	bool		rest = l->n_requests == 0;
	uint32_t	n_endpoints = 0;
	WireFigures f;
	int			n;

	/* when the dispatcher becomes idle, publish at once, and then not again */
	if (rest ? l->rested : now - l->published_us < PUBLISH_US)
		return;
	l->published_us = now;
	l->rested = rest;
	n = choose_models(l, v);
	sort_models(v, n);
	total(l, &f);
	for (int i = 0; i < WIRE_N_FIGURES; i++)
	{
		*wire_figure(&f, i) -= *wire_figure(&l->base, i);
		ASSERT(*wire_figure(&f, i) >= 0);	/* counters only grow */
	}
	for (const RModel *m = l->models; m != NULL; m = m->next)
		gauges(m, &f);
	f.max_num_seqs = most_calls(l);
	statlock_take(s);
	s->fig = f;
	for (int i = 0; i < n; i++)
	{
		put_model(v[i], &s->models[i]);
		for (int k = 0; k < v[i]->lb.n && n_endpoints < WIRE_MAX_ENDPOINTS; k++)
			put_endpoint(v[i], k, &s->endpoints[n_endpoints++]);
	}
	s->n_models = (uint32_t) n;
	s->n_endpoints = n_endpoints;
	statlock_release(s);
}
