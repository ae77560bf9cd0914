/*
 * upstream_call.c
 *	  One call and its tries: the HTTP request, the events, and what follows from its end.
 *
 * The event callbacks only pass bytes to the DecodedReply and note what happened.  call_settle(), called
 * by dispatcher_poll(), does the rest.  The body of the HTTP request belongs to the CallGroup and
 * outlives the try that sends it.
 *
 * The secret is in the request's message, and while a call is started also in a header, which is wiped.
 * (health_check.c keeps a copy, too.)
 *
 * Tested by tests/unit/remote/test_remote_dispatcher.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "remote/upstream/response_limit.h"
#include "remote/dispatcher_internal.h"
#include "ipc/host_allowlist.h"
#include "ipc/traceparent.h"

#define MOST_ERROR		((size_t) 64 << 10)	/* bytes of an error body that are kept */
/* a response below this fraction (1 / SMALL_HELD) of the memory limit is not the one that holds too much */
#define SMALL_HELD		1024
#define BACKLOG_FULL	((size_t) 256 << 10)	/* unread bytes of a client above which reading pauses */
#define BACKLOG_LOW		((size_t) 64 << 10)	/* unread bytes of a client below which reading resumes */
#define BACKLOG_LOOK_US	5000		/* interval in which the backlog is checked */
#define MOST_WAIT_US	INT64_C(60000000)	/* longest wait before a retry, Retry-After included */
#define WELL_US			INT64_C(10000000)	/* a url that has sent a reply within this time isn't down */

/* ---- the list of pending calls ---- */

void
call_pend(UpstreamCall *c)
{
	RModel	   *m = c->job->m;

	c->state = CALL_PENDING;
	c->next = NULL;
	c->prev = m->pending_last;
	if (m->pending_last != NULL)
		m->pending_last->next = c;
	else
		m->pending = c;
	m->pending_last = c;
}

void
call_unpend(UpstreamCall *c)
{
	RModel	   *m = c->job->m;

	if (c->prev != NULL)
		c->prev->next = c->next;
	else if (m->pending == c)
		m->pending = c->next;
	else
		return;					/* not in the list */
	if (c->next != NULL)
		c->next->prev = c->prev;
	else
		m->pending_last = c->prev;
	c->prev = c->next = NULL;
}

/* ---- events ---- */

static bool
is_answer(const UpstreamCall *c)
{
	return c->res.status >= 200 && c->res.status < 300;
}

static void
rate_read(UpstreamCall *c)
{
	RModel	   *m = c->job->m;

	if (c->rate_read)
		return;
	c->rate_read = true;
	rate_reported(&m->u[c->url].rate, &c->res, c->l->clock());
}

static bool
on_head(void *ctx, const HttpResult *r)
{
	UpstreamCall *c = ctx;

	if (c->job == NULL || c->job->dead)
		return true;
	c->res = *r;
	rate_read(c);
	if (is_answer(c) && c->job->first_byte_us == 0)
		c->job->first_byte_us = c->l->clock();
	return true;
}

/*
 * Account for the bytes that the reply holds.  Returns false if all responses together hold too much and
 * this one is not small.
 */
static bool
hold(CallGroup *j, Err *e)
{
	Dispatcher *l = j->l;
	size_t		now = reply_held(j->reply);
	bool		more = now > j->held;

	ASSERT(l->held >= j->held);
	l->held += now - j->held;
	j->held = now;
	if (!more || l->held <= l->most_held || now <= l->most_held / SMALL_HELD)
		return true;
	err_set(e, ERR_NOMEM, "answers of endpoints take too much memory");
	return err_detail(e, "They take %zu MB, of which this request has %zu MB.", l->held >> 20, now >> 20);
}

static bool
on_data(void *ctx, const char *p, size_t n)
{
	UpstreamCall *c = ctx;
	CallGroup  *j = c->job;
	Dispatcher *l = c->l;
	PendingRequest *a;

	if (j == NULL || j->dead || c->whole)
		return true;
	if (!is_answer(c))
	{
		size_t		room = MOST_ERROR - c->error_body.len;

		buf_add(&c->error_body, p, n < room ? n : room);
		return true;
	}
	l->depth++;
	if (!reply_data(j->reply, c->i, p, n, &c->e) || !hold(j, &c->e))
	{
		c->garbled = true;
		dispatcher_queue_touched(c);
	}
	else if (!j->dead && reply_is_whole(j->reply, c->i))
	{
		c->whole = true;
		dispatcher_queue_touched(c);
	}
	l->depth--;
	a = j->requests[0];
	if (!c->full && j->n == 1 && !a->detached && l->sink.backlog(a->owner) > BACKLOG_FULL)
	{
		/* pause now: a fast endpoint may send much before the next poll */
		c->full = c->paused = true;
		http_pause(c->h, true);
		dispatcher_queue_touched(c);
	}
	return !c->garbled;
}

static void
on_ended(void *ctx, const HttpResult *r)
{
	UpstreamCall *c = ctx;

	c->res = *r;
	/* libcurl reports the end once */
	ALWAYS(!c->ended && c->l->n_calls > 0);
	c->h = NULL;
	c->ended = true;
	c->l->n_calls--;
	dispatcher_queue_touched(c);
}

/* ---- the HTTP request ---- */

static void
headers_add(Headers *h, const char *name, const char *before, const char *value, size_t n)
{
	size_t		len = strlen(name) + strlen(before) + n + 3;
	char	   *s;

	/* a control character could make two headers of one */
	for (size_t i = 0; i < n; i++)
		if ((unsigned char) value[i] < 0x20 || value[i] == 0x7f)
			return;
	s = mem_alloc(len);
	snprintf(s, len, "%s: %s%.*s", name, before, (int) n, value);
	h->v[h->n++] = s;
}

void
headers_begin(Headers *h, const ROptions *o, StrView secret, int more)
{
	h->v = mem_alloc((size_t) (o->n_headers + 1 + more) * sizeof(*h->v));
	h->n = 0;
	for (int i = 0; i < o->n_headers; i++)
		headers_add(h, o->headers[i].name, "", o->headers[i].value, strlen(o->headers[i].value));
	if (secret.n > 0)
		headers_add(h, o->auth_header != NULL ? o->auth_header : "Authorization",
					o->auth_header != NULL ? "" : "Bearer ", secret.s, secret.n);
}

void
headers_free(Headers *h)
{
	for (int i = 0; i < h->n; i++)
	{
		explicit_bzero((char *) h->v[i], strlen(h->v[i]));
		mem_free((char *) h->v[i]);
	}
	mem_free(h->v);
}

static void
make_headers(const UpstreamCall *c, Headers *h)
{
	const PendingRequest *a = c->job->requests[0];
	StrView		trace = pending_field(a, WTAG_TRACEPARENT);
	StrView		state = pending_field(a, WTAG_TRACESTATE);
	char		id[64];

	headers_begin(h, c->job->m->o, a->w.secret, 3);
	if (trace.n > 0 && traceparent_ok(trace.s, trace.n))
	{
		headers_add(h, "traceparent", "", trace.s, trace.n);
		if (state.n > 0 && tracestate_ok(state.s, state.n))
			headers_add(h, "tracestate", "", state.s, state.n);
	}
	/*
	 * A UUID, because some servers accept nothing else.  Each try has another one, because the server
	 * may still know the one before.
	 */
	snprintf(id, sizeof(id), "%08x-%04x-8%03x-8%03x-%012llx", (unsigned) (c->l->salt >> 32),
			 (unsigned) (c->l->salt >> 16 & 0xffff), (unsigned) (16 * c->tries + c->i) & 0xfff,
			 (unsigned) c->l->salt & 0xfff, (unsigned long long) a->id & 0xffffffffffffULL);
	headers_add(h, "X-Request-Id", "", id, strlen(id));
}

static void
begin(UpstreamCall *c, int url)
{
	CallGroup  *j = c->job;
	RModel	   *m = j->m;
	Dispatcher *l = c->l;

	ALWAYS(c->state == CALL_PENDING && c->h == NULL && url >= 0 && url < m->lb.n);
	call_unpend(c);
	buf_reset(&c->error_body);
	memset(&c->res, 0, sizeof(c->res));
	c->e.cls = ERR_NONE;
	c->rate_read = c->ended = c->garbled = c->whole = c->paused = c->full = false;
	c->state = CALL_RUNS;
	c->url = j->url = url;
	c->begin_us = l->now_us;
	if (c->tries++ == 0)
		retry_earn(&m->budget);
	else
		m->u[url].retries++;
	c->probe = lb_begin(&m->lb, url, l->now_us);
	if (c->probe)
		dispatcher_wake(l, lb_check_at(&m->lb, url, 0));
	rate_begin(&m->u[url].rate, j->calls.v[c->i].tokens, l->now_us);
	m->u[url].calls++;
	m->n_calls++;
	for (int i = 0; i < j->n; i++)
	{
		PendingRequest *a = j->requests[i];

		a->tries++;
		if (a->called_us == 0)
			a->called_us = l->now_us;
		if (!a->detached)
			l->sink.live(a->owner, WP_RUNNING, -1, -1);
	}
}

/* The call no longer runs at its url.  Update the limits and the breaker. */
static void
finish(UpstreamCall *c, const CallOutcome *f, int64_t used)
{
	RModel	   *m = c->job->m;
	int64_t		now = c->l->now_us;

	lb_end(&m->lb, c->url, c->probe, f->health, f->throttled,
		   f->verdict == OUTCOME_REPLY ? now - c->begin_us : -1, now);
	if (f->health == HEALTH_UNKNOWN && c->res.status == 0)
		lb_given_up(&m->lb, c->url, now - c->begin_us);
	rate_end(&m->u[c->url].rate, c->job->calls.v[c->i].tokens, used);
	ALWAYS(m->n_calls > 0);
	m->n_calls--;
	c->probe = false;
}

void
call_start(UpstreamCall *c, int url)
{
	static const HttpEvents events = {on_head, on_data, on_ended};
	Dispatcher *l = c->l;
	CallGroup  *j = c->job;
	RModel	   *m = j->m;
	const ROptions *o = m->o;
	const RCall *r = &j->calls.v[c->i];
	int64_t		until = job_deadline(j);
	Headers		h;
	HttpRequest q;
	Err			e = {0};

	begin(c, url);
	if (j->dead)
		/* the sink of a frame of begin() has cancelled; dispatcher_retire() frees the call */
		return;
	rmodel_url(&m->u[url], r->path, r->off_v1, &c->url_text);
	make_headers(c, &h);
	q = (HttpRequest) {
		.url = c->url_text.data,.get = r->get,.body = r->body.data,.len = r->body.len,.headers = h.v,
			.n_headers = h.n,
		.stream = r->stream,.deadline_us = l->now_us + (int64_t) o->timeout * 1000,
		.connect_timeout_ms = o->connect_timeout, .verify = o->ssl_verify,.ca_file = o->ca_file != NULL ?
		o->ca_file : l->set.ca_file,.max_answer = bound_answer(j->w, j->n, r)
	};
	if (q.ca_file != NULL && q.ca_file[0] == '\0')
		q.ca_file = NULL;
	if (until != 0 && until < q.deadline_us)
		q.deadline_us = until;
	c->h = http_start(l->http, &q, &events, c, &e);
	headers_free(&h);
	if (c->h != NULL)
	{
		l->n_calls++;
		return;
	}
	finish(c, &(CallOutcome) {.verdict = OUTCOME_ERROR,.health = HEALTH_UNKNOWN}, 0);
	c->state = CALL_WHOLE;
	job_fail(j, &e, &(ErrorExtra) {.url = m->u[url].base,.retry_after_ms = -1,.elsewhere = true});
}

void
call_free(UpstreamCall *c)
{
	if (c->touched)
		for (UpstreamCall **at = &c->l->touched; *at != NULL; at = &(*at)->next_touched)
			if (*at == c)
			{
				*at = c->next_touched;
				break;
			}
	if (c->h != NULL)
	{
		http_cancel(c->h);
		c->l->n_calls--;
	}
	if (c->state == CALL_RUNS)
		finish(c, &(CallOutcome) {.verdict = OUTCOME_ERROR,.health = HEALTH_UNKNOWN}, -1);
	buf_free(&c->url_text);
	buf_free(&c->error_body);
	buf_free(&c->body);
	mem_free(c);
}

/* ---- the end of a try ---- */

/* Make the error that the requests of the call get. */
static void
error_of(UpstreamCall *c, Err *e)
{
	const CallGroup *j = c->job;
	const RModel *m = j->m;

	if (c->garbled)
		*e = c->e;
	else if (c->res.status > 0 && !is_answer(c))
		reply_error(c->res.status, c->error_body.data != NULL ? c->error_body.data : "", c->error_body.len,
					m->o, m->u[c->url].base, j->requests[0]->w.secret, e);
	else
		*e = c->res.e;
	if (e->cls == ERR_NONE)
		err_set(e, ERR_CONNECTION, "endpoint \"%s\" gave no answer", m->u[c->url].base);
}

static void
count(UpstreamCall *c, const CallOutcome *f, const Err *e)
{
	RUrl	   *u = &c->job->m->u[c->url];

	if (f->charged)
		for (int i = 0; i < c->job->n; i++)
			c->job->requests[i]->charged++;
	if (f->health == HEALTH_BAD)
		length_forget(c->job->m);
	u->failures++;
	u->throttled += f->throttled;
	snprintf(u->error, sizeof(u->error), "%.255s", e->msg);
	if (f->path)
		paths_end(&u->paths, c->path, e->msg, c->begin_us, c->l->now_us);
}

/* Return the us until the call may be retried; -1: never. */
static int64_t
retry_delay_us(UpstreamCall *c, const CallOutcome *f)
{
	const CallGroup *j = c->job;
	RModel	   *m = j->m;
	int64_t		until = job_deadline(j);
	int64_t		wait;

	if (f->verdict != OUTCOME_RETRY || c->tries > m->o->max_retries)
		return -1;
	/* the request has already failed together with others */
	if (j->halved && f->charged && j->requests[0]->charged > m->o->max_retries)
		return -1;
	/* with several urls, another one is tried, which hasn't asked for a wait */
	wait = retry_wait_us(j->requests[0]->id * 16 + (uint64_t) c->i, c->tries,
						 m->lb.n == 1 ? c->res.retry_after_ms : -1);
	if (wait > MOST_WAIT_US || (until != 0 && c->l->now_us + wait >= until))
		return -1;
	if (!f->spared && !retry_spend(&m->budget, c->l->now_us))
		return -1;
	return wait;
}

/*
 * If an endpoint breaks down over one input, all inputs of the call fail.  So when a call of several
 * requests has failed twice, or can't be retried, the requests are sent as two halves, down to the one
 * at fault.  That must not multiply the load in an outage: each halving counts against the retry budget,
 * unless the url has sent a reply just now, and halves are tried once.  Errors of gateways and timeouts
 * say nothing about the inputs, and rows that are only known to be wrong next to each other stay
 * together.
 */
static bool
halve(UpstreamCall *c, const CallOutcome *f)
{
	CallGroup  *j = c->job;
	RModel	   *m = j->m;
	Dispatcher *l = c->l;
	int64_t		until = job_deadline(j);
	int64_t		answered = m->u[c->url].answered_us;
	int64_t		due;

	if (j->n == 1 || (f->verdict != OUTCOME_RETRY && !f->apart) || !f->charged || m->o->max_retries == 0)
		return false;
	if (c->res.status == 502 || c->res.status == 504 || c->res.end == HTTP_LATE || reply_unlike(j->reply))
		return false;
	due = l->now_us + retry_wait_us(j->requests[0]->id * 16, c->tries, -1);
	if (until != 0 && due >= until)
		return false;
	if ((answered == 0 || l->now_us - answered > WELL_US) && !retry_spend(&m->budget, l->now_us))
		return false;
	job_halve(j, c, due);
	return true;
}

static void
failed(UpstreamCall *c, CallOutcome f)
{
	CallGroup  *j = c->job;
	RModel	   *m = j->m;
	ErrorExtra	x = {.url = m->u[c->url].base,.elsewhere = f.elsewhere,
					 .retry_after_ms = c->res.retry_after_ms};
	int64_t		wait;
	Err			e = {0};

	/* garbled: close the transfer, the rest is useless */
	if (c->h != NULL)
	{
		http_cancel(c->h);
		c->h = NULL;
		c->l->n_calls--;
	}
	if (c->res.status == 0)
		x.retry_after_ms = -1;
	error_of(c, &e);
	count(c, &f, &e);
	job_lost_tokens(j, 0, 0, &x);
	if ((j->halved || c->tries > 1 || f.apart) && halve(c, &f))
	{
		c->state = CALL_WHOLE;
		return;
	}
	wait = retry_delay_us(c, &f);
	if (wait >= 0 && reply_restart(j->reply, c->i))
	{
		j->first_byte_us = 0;
		c->due_us = c->l->now_us + wait;
		c->avoid = m->lb.n > 1 ? c->url : -1;
		call_pend(c);
		/* requests that the caller can send to another model don't wait for the retry */
		if (rmodel_circuit_open(m) && !job_elsewhere(j, &e, &x))
			return;
		for (int i = 0; i < j->n; i++)
			if (!j->requests[i]->detached)
				c->l->sink.live(j->requests[i]->owner, WP_WAITING, -1, -1);
		return;
	}
	c->state = CALL_WHOLE;
	if (f.split && j->n > 1)
	{
		job_split(j);
		return;
	}
	job_fail(j, &e, &x);
}

/* The try has ended, in whatever way. */
static void
over(UpstreamCall *c)
{
	Dispatcher *l = c->l;
	CallGroup  *j = c->job;
	int64_t		until = job_deadline(j);
	int64_t		prompt = 0,
				completion = 0;
	EndedCall	k = {
		.r = &c->res,.idempotent = true,.emitted = j->emitted,
		.deadline = (c->res.end == HTTP_LATE || c->res.end == HTTP_NOT_SENT) && until != 0 &&
		until <= l->now_us
	};
	CallOutcome	f;

	for (int i = 0; i < j->n; i++)
		k.idempotent = k.idempotent && (j->sizes || j->requests[i]->w.idempotent);
	if (!c->garbled && is_answer(c) && (c->whole || c->res.end == HTTP_DONE) &&
		!reply_end(j->reply, c->i, &c->e))
		c->garbled = true;
	if (c->whole && !c->garbled)
		c->res.end = HTTP_DONE;
	/* the decoder's error has made us close the transfer */
	if (c->garbled && is_answer(c))
		k.cls = c->e.cls;
	k.garbled = c->garbled;
	k.whole = c->garbled && c->res.end == HTTP_DONE && reply_is_json(j->reply, c->i);
	f = outcome(&k);
	f.charged = f.charged && !j->sizes;
	if (f.verdict == OUTCOME_REPLY || f.charged)
		reply_usage(j->reply, &prompt, &completion);
	c->state = CALL_WHOLE;
	/* other inputs of the same failed call have got replies since: the input is at fault, not the url */
	if (j->halved && f.charged && j->m->u[c->url].answered_us > j->whole_us)
	{
		f.health = HEALTH_UNKNOWN;
		f.path = false;
	}
	finish(c, &f, f.verdict != OUTCOME_REPLY && !f.charged ? 0 :
		   f.verdict == OUTCOME_REPLY && j->calls.n == 1 &&
			   prompt + completion > 0 ? prompt + completion : -1);
	if (f.health == HEALTH_OK && !f.path)
		paths_end(&j->m->u[c->url].paths, c->path, NULL, c->begin_us, l->now_us);
	if (f.verdict == OUTCOME_REPLY)
	{
		j->m->u[c->url].answered_us = l->now_us;
		j->left--;
		if (j->left == 0 && !j->dead)
		{
			/* decode.c has emitted the final frames; if not, no request may wait forever */
			Err			e;

			err_set(&e, ERR_INTERNAL, "an endpoint's answer was read without a result");
			job_fail(j, &e, &(ErrorExtra) {.url = j->m->u[c->url].base,.retry_after_ms = -1});
		}
		return;
	}
	/* with several calls, reply_usage() reports the tokens of all of them */
	j->lost_prompt = (j->calls.n == 1 ? j->lost_prompt : 0) + (prompt > 0 ? prompt : 0);
	j->lost_completion = (j->calls.n == 1 ? j->lost_completion : 0) + (completion > 0 ? completion : 0);
	/* a request whose timeout has passed gets that error, however the call failed */
	for (int i = 0; i < j->n; i++)
	{
		PendingRequest *a = j->requests[i];

		if (a->detached || a->deadline_us == 0 || a->deadline_us > l->now_us)
			continue;
		a->charged += f.charged;
		pending_late(a);
	}
	if (!j->dead)
		failed(c, f);
}

static void
settle_pause(UpstreamCall *c)
{
	Dispatcher *l = c->l;
	const PendingRequest *a = c->job->requests[0];
	size_t		n;

	if (!c->full || c->h == NULL)
		return;
	n = a->detached ? 0 : l->sink.backlog(a->owner);
	c->full = c->paused ? n > BACKLOG_LOW : n > BACKLOG_FULL;
	if (c->full != c->paused)
	{
		c->paused = c->full;
		http_pause(c->h, c->paused);
	}
	if (c->full)
		dispatcher_wake(l, l->now_us + BACKLOG_LOOK_US);
}

void
call_settle(UpstreamCall *c)
{
	if (c->state == CALL_DRAINS)
	{
		if (c->ended)
			c->due_us = 0;		/* dispatcher_poll() ends it */
		return;
	}
	if (c->job == NULL || c->job->dead || c->state != CALL_RUNS)
		return;
	if (c->ended)
	{
		rate_read(c);
		over(c);
	}
	else if (c->garbled || c->whole)
		over(c);
	else
		settle_pause(c);
}
