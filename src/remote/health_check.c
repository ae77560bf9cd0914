/*
 * health_check.c
 *	  Health checks: is a url that was down reachable again, and are idle urls still reachable?
 *
 * A check is a GET of the endpoint's list of models, with the model's headers and the secret of its
 * newest request.  It is not a request: it counts for no limit and no metric, and is not retried.  A url
 * that is down is checked when its breaker may close (load_balancer.c), an idle url each
 * health_check_interval.  Models without a request for ten minutes are not checked: a url that is down
 * is then checked when the next request comes.
 *
 * The model keeps the secret for its checks, and wipes it when they end or the model is forgotten.
 *
 * Tested by tests/unit/remote/test_remote_dispatcher.c and test_remote_sim.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "remote/dispatcher_internal.h"

#define WANTED_US		INT64_C(600000000)
/* bytes; the body is read only so that the connection can be kept */
#define MOST_LIST		((size_t) 16 << 20)

static bool
on_head(void *ctx, const HttpResult *r)
{
	(void) ctx;
	(void) r;
	return true;
}

static bool
on_data(void *ctx, const char *p, size_t n)
{
	(void) ctx;
	(void) p;
	(void) n;
	return true;
}

static void
on_ended(void *ctx, const HttpResult *r)
{
	Check	   *c = ctx;

	c->res = *r;
	c->h = NULL;
	c->ended = true;
}

/*
 * Does the response show that the endpoint is up?  An endpoint that wants another secret, has no such
 * list, or is called too often is up: its error is only about this call.
 */
static bool
is_there(const HttpResult *r)
{
	int			s = r->status;

	if (r->end != HTTP_DONE && r->end != HTTP_TOO_LARGE)
		return false;
	return (s >= 200 && s < 300) || (s >= 400 && s < 500 && s != 408) || s == 501;
}

static void
ended(Check *c, CallHealth health)
{
	RModel	   *m = c->m;

	c->ended = false;
	lb_check_end(&m->lb, c->url, health, m->l->now_us);
	m->fresh = true;			/* waiting requests must be checked again */
	m->l->rested = false;
}

static void
settle(Check *c)
{
	RUrl	   *u = &c->m->u[c->url];

	if (is_there(&c->res))
	{
		ended(c, HEALTH_OK);
		return;
	}
	if (c->res.end == HTTP_DONE)
		snprintf(u->error, sizeof(u->error), "health check: status %d", c->res.status);
	else
		snprintf(u->error, sizeof(u->error), "health check: %.230s", c->res.e.msg);
	length_forget(c->m);
	ended(c, HEALTH_BAD);
}

static void
start(Check *c)
{
	static const HttpEvents events = {on_head, on_data, on_ended};
	RModel	   *m = c->m;
	Dispatcher *l = m->l;
	const ROptions *o = m->o;
	int64_t		most = (int64_t) o->connect_timeout * 1000;
	Buf			url = {0};
	Headers		h;
	HttpRequest q;
	Err			e = {0};

	ALWAYS(c->h == NULL && !c->ended && c->url >= 0 && c->url < m->lb.n);
	lb_check_begin(&m->lb, c->url, l->now_us);
	rmodel_url(&m->u[c->url], o->models_path, false, &url);
	headers_begin(&h, o, (StrView) {m->secret, m->secret != NULL ? strlen(m->secret) : 0}, 0);
	q = (HttpRequest) {
		.url = url.data,.get = true,.headers = h.v,.n_headers = h.n,
			.deadline_us = l->now_us + (most < LB_CHECK_MAX_US ? most : LB_CHECK_MAX_US),
		.connect_timeout_ms = o->connect_timeout,.verify = o->ssl_verify,.ca_file = o->ca_file != NULL ?
		o->ca_file : l->set.ca_file, .max_answer = MOST_LIST
	};
	if (q.ca_file != NULL && q.ca_file[0] == '\0')
		q.ca_file = NULL;
	c->h = http_start(l->http, &q, &events, c, &e);
	headers_free(&h);
	buf_free(&url);
	if (c->h == NULL)
		ended(c, HEALTH_UNKNOWN);
}

static void
cancel(Check *c)
{
	if (c->h == NULL && !c->ended)
		return;
	if (c->h != NULL)
		http_cancel(c->h);
	c->h = NULL;
	ended(c, HEALTH_UNKNOWN);
}

static void
wipe(RModel *m)
{
	if (m->secret != NULL)
		explicit_bzero(m->secret, strlen(m->secret));
	mem_free(m->secret);
	m->secret = NULL;
}

void
check_note(RModel *m, StrView secret)
{
	size_t		n = m->secret != NULL ? strlen(m->secret) : 0;

	/* dispatcher.c has refused control characters in it */
	if (!m->lb.checks || (n == secret.n && (n == 0 || memcmp(m->secret, secret.s, n) == 0)))
		return;
	wipe(m);
	if (secret.n > 0)
		m->secret = mem_strndup(secret.s, secret.n);
}

void
health_checks_poll(RModel *m)
{
	Dispatcher *l = m->l;
	int64_t		until = m->n_requests > 0 ? INT64_MAX : m->used_us + WANTED_US;

	if (!m->lb.checks)
		return;
	for (int i = 0; i < m->lb.n; i++)
	{
		Check	   *c = &m->u[i].check;
		int64_t		at;

		if (c->ended)
			settle(c);
		at = lb_check_at(&m->lb, i, (int64_t) m->o->health_check_interval * 1000000);
		if (at >= until || l->now_us >= until)
			continue;
		if (at > l->now_us)
			dispatcher_wake(l, at);
		else
			start(c);
	}
	if (m->secret == NULL)
		return;
	if (l->now_us >= until)
		wipe(m);
	else if (until != INT64_MAX)
		dispatcher_wake(l, until);
}

void
check_settings(RModel *m)
{
	for (int i = 0; i < m->lb.n; i++)
		if (m->lb.u[i].banned)
			cancel(&m->u[i].check);
}

void
check_forget(RModel *m)
{
	/* waiting requests find out by their own calls */
	m->lb.checks = false;
	for (int i = 0; i < m->lb.n; i++)
		cancel(&m->u[i].check);
	wipe(m);
}
