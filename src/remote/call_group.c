/*
 * call_group.c
 *	  The calls of one request, or of several requests whose inputs are coalesced, and the DecodedReply
 *	  that reads the responses.
 *
 * A group ends when none of its requests waits any more: all have their results, the group has failed,
 * or all requests were cancelled.  A request that leaves a group of several does not disturb the others:
 * its input is still sent, and its result dropped.
 *
 * An endpoint that refuses a call of several inputs doesn't say which input is at fault.  So each
 * request goes back to the front of the queue and is sent alone, and only the one at fault fails.  If
 * the endpoint breaks down over one of the inputs, or is down for all, the group is halved, and its
 * halves are halved again (upstream_call.c says for how long).
 *
 * Tested by tests/unit/remote/test_remote_dispatcher.c and test_remote_elsewhere.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "remote/dispatcher_internal.h"

static void
emit(void *ctx, int request, WireFrame kind, const Buf *fields, bool final)
{
	CallGroup  *j = ctx;

	if (j->sizes)
	{
		if (final)
			length_reported(j, fields);
		return;
	}
	if (final && j->calls.v[0].shape == RSHAPE_MODELS && j->w[0]->lora.n == 0)
		length_learn(j->m, fields);
	if (request >= 0 && request < j->n)
		pending_frame(j->requests[request], kind, fields, final);
}

void
pending_requeue(PendingRequest *a)
{
	/* the request still waits: it is in no queue, and none of its frames has been sent */
	ALWAYS(!a->detached && a->item.role_queue == NULL);
	a->job = NULL;
	a->alone = true;
	a->item.first = true;
	a->item.can_join = false;
	rqueue_add(a->m->queue, &a->item);
	a->m->fresh = true;
	a->l->sink.live(a->owner, WP_WAITING, -1, -1);
}

static CallGroup *
new_job(RModel *m, PendingRequest **requests, int n)
{
	CallGroup  *j = mem_zalloc(sizeof(*j));

	j->l = m->l;
	j->m = m;
	j->n = j->living = n;
	j->url = -1;
	j->requests = mem_alloc((size_t) n * sizeof(*j->requests));
	j->w = mem_alloc((size_t) n * sizeof(*j->w));
	for (int i = 0; i < n; i++)
	{
		j->requests[i] = requests[i];
		j->w[i] = &requests[i]->w;
	}
	return j;
}

bool
job_make(RModel *m, PendingRequest **requests, int n)
{
	CallGroup  *j = new_job(m, requests, n);
	Err			e = {0};

	length_begin(j);
	if (!body_make(j->w, n, m->o, &j->calls, &e))
	{
		mem_free(j->requests);
		mem_free(j->w);
		mem_free(j);
		for (int i = 0; i < n; i++)
			if (n > 1)
				pending_requeue(requests[i]);
			else
				pending_error(requests[i], &e, &(ErrorExtra) {.retry_after_ms = -1});
		return false;
	}
	if (j->sizes)
		m->sizer = j;
	j->left = j->calls.n;
	j->reply = reply_new(j->w, n, &j->calls, m->o, emit, j);
	j->c = mem_zalloc((size_t) j->calls.n * sizeof(*j->c));
	for (int i = 0; i < n; i++)
		requests[i]->job = j;
	for (int i = 0; i < j->calls.n; i++)
	{
		UpstreamCall *c = mem_zalloc(sizeof(*c));

		c->l = m->l;
		c->job = j;
		c->i = i;
		c->url = c->avoid = -1;
		c->path = paths_key(j->calls.v[i].path, (int) j->calls.v[i].shape);
		j->c[i] = c;
		call_pend(c);
	}
	return true;
}

void
job_lost_tokens(const CallGroup *j, int64_t prompt, int64_t completion, ErrorExtra *x)
{
	ALWAYS(j->n > 0);
	x->prompt_tokens = (prompt + j->lost_prompt) / j->n;
	x->completion_tokens = (completion + j->lost_completion) / j->n;
}

int64_t
job_deadline(const CallGroup *j)
{
	int64_t		last = 0;

	for (int i = 0; i < j->n; i++)
	{
		const PendingRequest *a = j->requests[i];

		if (a->detached)
			continue;
		if (a->deadline_us == 0)
			return 0;
		if (a->deadline_us > last)
			last = a->deadline_us;
	}
	return last;
}

void
job_kill(CallGroup *j)
{
	if (j->dead)
		return;
	ASSERT(j->next_retired == NULL);
	j->dead = true;
	j->next_retired = j->l->dead;
	j->l->dead = j;
	if (j->m->sizer == j)
		length_over(j->m, LENGTH_NOTHING);
	/* start none of its pending calls any more */
	for (int i = 0; i < j->calls.n; i++)
		if (j->c[i] != NULL && j->c[i]->state == CALL_PENDING)
			call_unpend(j->c[i]);
}

void
job_fail(CallGroup *j, const Err *e, const ErrorExtra *x)
{
	if (j->sizes && !j->dead && length_failed(j, e, x))
		return;
	for (int i = 0; i < j->n && !j->dead; i++)
		pending_error(j->requests[i], e, x);
	job_kill(j);
}

bool
job_elsewhere(CallGroup *j, const Err *e, const ErrorExtra *x)
{
	for (int i = 0; i < j->n && !j->dead; i++)
		if (j->requests[i]->w.fallback)
			pending_error(j->requests[i], e, x);
	return !j->dead;
}

void
job_split(CallGroup *j)
{
	for (int i = 0; i < j->n; i++)
		if (!j->requests[i]->detached)
			pending_requeue(j->requests[i]);
	job_kill(j);
}

/* Make a CallGroup of some requests of a group that failed. */
static void
part(CallGroup *j, PendingRequest **requests, int n, const UpstreamCall *c, int64_t due_us)
{
	CallGroup  *half;

	if (n == 0 || !job_make(j->m, requests, n))
		return;
	half = requests[0]->job;
	half->halved = true;
	half->whole_us = j->halved ? j->whole_us : c->begin_us;
	half->lost_prompt = j->lost_prompt * n / j->n;
	half->lost_completion = j->lost_completion * n / j->n;
	for (int i = 0; i < half->calls.n; i++)
	{
		half->c[i]->due_us = due_us;
		half->c[i]->avoid = j->m->lb.n > 1 ? c->url : -1;
	}
	for (int i = 0; i < n; i++)
		j->l->sink.live(requests[i]->owner, WP_WAITING, -1, -1);
}

void
job_halve(CallGroup *j, const UpstreamCall *c, int64_t due_us)
{
	PendingRequest **v = mem_alloc((size_t) j->n * sizeof(*v));
	int			n = 0;

	for (int i = 0; i < j->n; i++)
		if (!j->requests[i]->detached)
			v[n++] = j->requests[i];
	part(j, v, (n + 1) / 2, c, due_us);
	part(j, v + (n + 1) / 2, n / 2, c, due_us);
	mem_free(v);
	job_kill(j);
}

/* Free the call.  If its stream has sent everything, the connection may end by itself first. */
static void
let_go(CallGroup *j, UpstreamCall *c)
{
	Dispatcher *l = j->l;

	if (c->state != CALL_WHOLE || c->h == NULL)
	{
		call_free(c);
		return;
	}
	c->state = CALL_DRAINS;
	c->job = NULL;
	/* an endpoint may have sent everything before it has read all of the request */
	c->body = j->calls.v[c->i].body;
	memset(&j->calls.v[c->i].body, 0, sizeof(Buf));
	c->due_us = l->now_us + 1000000;
	c->prev = NULL;
	c->next = l->drains;
	if (l->drains != NULL)
		l->drains->prev = c;
	l->drains = c;
	dispatcher_wake(l, c->due_us);
}

void
job_free(CallGroup *j)
{
	ALWAYS(j->dead && j->l->depth == 0);
	for (int i = 0; i < j->calls.n; i++)
		let_go(j, j->c[i]);
	ASSERT(j->l->held >= j->held);
	j->l->held -= j->held;
	reply_free(j->reply);
	body_free(&j->calls);
	for (int i = 0; i < j->n; i++)
		if (j->requests[i]->job == j)
			pending_free(j->requests[i]);
	mem_free(j->c);
	mem_free(j->requests);
	mem_free(j->w);
	mem_free(j);
}
