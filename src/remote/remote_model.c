/*
 * remote_model.c
 *	  The models that requests were submitted for, each with its queue, its urls and their limits; and
 *	  the choice of the next call.
 *
 * A model is identified by its version (hash), database and name.  It stays while it has no requests,
 * for its counters, breakers and limits, until it is forgotten, or until too many models are known.
 *
 * Tested by tests/unit/remote/test_remote_dispatcher.c and test_remote_elsewhere.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "remote/dispatcher_internal.h"
#include "ipc/host_allowlist.h"

#define MOST_MODELS		256

static bool
same_span(StrView a, StrView b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}

static bool
same(const QueueItem *x, const QueueItem *y)
{
	const PendingRequest *a = (const PendingRequest *) x;
	const PendingRequest *b = (const PendingRequest *) y;

	return same_span(a->w.secret, b->w.secret) && body_same(&a->w, &b->w);
}

static void
unlink_model(RModel *m)
{
	Dispatcher *l = m->l;
	RModel	  **at = &l->models;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	l->n_models--;
}

static void
rmodel_free(RModel *m)
{
	/* a CallGroup or a call would still point to it */
	ALWAYS(m->n_requests == 0 && m->n_calls == 0 && m->pending == NULL && m->sizer == NULL &&
		   rqueue_count(m->queue) == 0);
	check_forget(m);
	rqueue_free(m->queue);
	lb_free(&m->lb);
	roptions_unref(m->o);
	mem_free(m->u);
	mem_free(m->name);
	mem_free(m);
}

void
rmodel_tidy(Dispatcher *l)
{
	for (RModel *m = l->models, *next; m != NULL; m = next)
	{
		next = m->next;
		if (!m->forgotten)
			continue;
		check_forget(m);
		if (m->n_requests > 0)
			continue;
		rstats_model_removed(m);
		unlink_model(m);
		rmodel_free(m);
	}
}

void
rmodel_url(const RUrl *u, const char *path, bool off_v1, Buf *to)
{
	size_t		n = strlen(u->base);

	/* only the path "/v1" counts: a host may be named v1, too */
	if (off_v1 && n > 4 && memcmp(u->base + n - 3, "/v1", 3) == 0 && u->base[n - 4] != '/')
		n -= 3;
	buf_reset(to);
	buf_add(to, u->base, n);
	buf_addstr(to, path);
	buf_addstr(to, u->query);
}

void
rmodel_settings(RModel *m)
{
	for (int i = 0; i < m->lb.n; i++)
	{
		RUrl	   *u = &m->u[i];
		HostUrl		h;
		Buf			whole = {0};
		bool		ok;

		u->entry[0] = u->why[0] = '\0';
		rmodel_url(u, "", false, &whole);
		ok = hosts_url(whole.data, &h, u->why, sizeof(u->why));
		buf_free(&whole);
		if (!ok)
		{
			m->lb.u[i].banned = true;
			continue;
		}
		hosts_entry(&h, u->entry, sizeof(u->entry));
		m->lb.u[i].banned = !hosts_allowed(m->l->set.allowed_hosts != NULL ? m->l->set.allowed_hosts : "",
										   &h);
	}
	check_settings(m);
	m->fresh = true;
}

/* If there are too many models, free the least recently used one that has no requests. */
static void
make_room(Dispatcher *l)
{
	RModel	   *old = NULL;

	if (l->n_models < MOST_MODELS)
		return;
	for (RModel *m = l->models; m != NULL; m = m->next)
		if (m->n_requests == 0 && (old == NULL || m->used_us < old->used_us))
			old = m;
	if (old != NULL)
		old->forgotten = true;
	rmodel_tidy(l);
}

RModel *
rmodel_get(Dispatcher *l, const RequestFields *w, Err *e)
{
	RModel	   *m;
	ROptions   *o;

	for (m = l->models; m != NULL; m = m->next)
		if (m->hash == w->model_hash && m->dboid == w->dboid && !m->forgotten &&
			same_span((StrView) {m->name, strlen(m->name)}, w->model))
			return m;
	o = roptions_get(w, e);
	if (o == NULL)
		return NULL;
	make_room(l);
	m = mem_zalloc(sizeof(*m));
	m->l = l;
	m->hash = w->model_hash;
	m->dboid = w->dboid;
	m->name = mem_strndup(w->model.n > 0 ? w->model.s : "", w->model.n);
	m->o = o;
	o->reported_len = 0;
	m->queue = rqueue_new(same, o->max_batch_inputs);
	lb_init(&m->lb, o->n_urls, o->max_concurrent_requests);
	m->lb.checks = o->models_path != NULL;
	m->u = mem_zalloc((size_t) o->n_urls * sizeof(*m->u));
	for (int i = 0; i < o->n_urls; i++)
	{
		m->u[i].base = o->urls[i];
		m->u[i].query = o->queries[i];
		m->u[i].check = (Check) {.m = m,.url = i};
		rate_init(&m->u[i].rate, o->requests_per_minute, o->tokens_per_minute);
	}
	rmodel_settings(m);
	m->next = l->models;
	l->models = m;
	l->n_models++;
	return m;
}

void
rmodel_forget(Dispatcher *l, uint32_t dboid, StrView name, uint64_t hash)
{
	for (RModel *m = l->models; m != NULL; m = m->next)
		if (m->dboid == dboid && (hash == 0 || m->hash == hash) &&
			(name.n == 0 || same_span((StrView) {m->name, strlen(m->name)}, name)))
			m->forgotten = true;
	l->rested = false;			/* so that it is published */
	rmodel_tidy(l);
}

/* ---- choosing the next call ---- */

static LbResult
choose(RModel *m, const UpstreamCall *c, int64_t *when, int *url)
{
	int64_t		tokens = c != NULL ? c->job->calls.v[c->i].tokens : 1;
	int64_t		now = m->l->now_us;
	LbLimit    *limits = mem_alloc((size_t) m->lb.n * sizeof(*limits));
	LbResult	r;

	ASSERT(c == NULL || (c->state == CALL_PENDING && c->i >= 0 && c->i < c->job->calls.n));
	for (int i = 0; i < m->lb.n; i++)
	{
		Rate	   *rate = &m->u[i].rate;

		limits[i] = (LbLimit) {
			.own_us = rate_own_us(rate, tokens, now),
				.said_us = rate_said_us(rate, tokens, m->lb.u[i].in_flight, now),
			.path_us = c != NULL ? paths_open_us(&m->u[i].paths, c->path) : 0
		};
	}
	r = lb_choose(&m->lb, limits, c != NULL ? c->avoid : -1, now, when, url);
	mem_free(limits);
	return r;
}

bool
rmodel_circuit_open(const RModel *m)
{
	int64_t		now = m->l->now_us;
	bool		any = false;

	for (int i = 0; i < m->lb.n; i++)
	{
		const LbUrl *u = &m->lb.u[i];
		int64_t		said = rate_said_us(&m->u[i].rate, 1, u->in_flight, now);

		if (u->banned)
			continue;
		any = true;
		if (!lb_is_open(&m->lb, i, now) && (said == INT64_MAX || said - now <= RETRY_FIRST_US))
			return false;
	}
	return any;
}

/*
 * Return the error of the first url at which the call's path is stopped, and its index.  NULL: there is
 * none.
 */
static const char *
path_error(const RModel *m, const UpstreamCall *c, int *url)
{
	for (int i = 0; c != NULL && i < m->lb.n; i++)
	{
		const char *why = paths_error(&m->u[i].paths, c->path, m->l->now_us);

		if (why != NULL)
		{
			*url = i;
			return why;
		}
	}
	return NULL;
}

/*
 * Make the error that says why the model can't be called now.  It names the first url that is down, or
 * else the first one.  c: the call in question, if there is one.
 */
static void
no_url(const RModel *m, const UpstreamCall *c, LbResult r, int64_t when, Err *e, ErrorExtra *x)
{
	int			i = 0;
	const char *why = path_error(m, c, &i);
	const RUrl *u;

	for (int k = 0; k < m->lb.n; k++)
		if (m->lb.u[k].health == WIRE_HEALTH_DOWN || m->lb.u[k].health == WIRE_HEALTH_TRYING)
		{
			i = k;
			why = NULL;
			break;
		}
	u = &m->u[i];
	*x = (ErrorExtra) {.url = u->base,.elsewhere = true,.retry_after_ms = -1};
	if (r == LB_BANNED)
	{
		x->url = NULL;
		if (u->entry[0] == '\0')
		{
			err_set(e, ERR_INVALID, "invalid url of model \"%s\"", m->name);
			err_detail(e, "%s", u->why);
			return;
		}
		err_set(e, ERR_FORBIDDEN, "host of model \"%s\" is not allowed", m->name);
		err_detail(e, "Its url is \"%.300s\".", u->base);
		err_hint(e, "Add \"%s\" to vllm.allowed_hosts.", u->entry);
		return;
	}
	if (when != INT64_MAX && when > m->l->now_us)
		x->retry_after_ms = (when - m->l->now_us + 999) / 1000;
	if (why != NULL)
	{
		err_set(e, ERR_UNAVAILABLE, "endpoint of model \"%s\" is unavailable for such requests", m->name);
		err_detail(e, "\"%.200s%.60s\" has failed too often, last with: %.200s.", u->base,
				   c->job->calls.v[c->i].path, why);
		return;
	}
	if (m->lb.u[i].health == WIRE_HEALTH_UP || m->lb.u[i].health == WIRE_HEALTH_UNKNOWN)
	{
		err_set(e, ERR_UNAVAILABLE, "endpoint of model \"%s\" accepts no requests now", m->name);
		err_detail(e, "\"%.300s\" is at its limit for another %lld ms.", u->base,
				   (long long) (x->retry_after_ms > 0 ? x->retry_after_ms : 0));
		return;
	}
	err_set(e, ERR_UNAVAILABLE, "endpoint of model \"%s\" is unavailable", m->name);
	err_detail(e, "\"%.200s\" has failed too often, last with: %.200s.", u->base, u->error);
}

typedef struct RemoteModelLook
{
	RModel	   *m;
	LbResult	r;
	int64_t		when;
	bool		circuit_open;
} RemoteModelLook;

/* End a waiting request that can't be served in time, or that the caller can send to another model. */
static void
look_at(void *ctx, QueueItem *it)
{
	const RemoteModelLook *k = ctx;
	PendingRequest *a = (PendingRequest *) it;
	ErrorExtra	x;
	Err			e;

	if (a->detached || !((k->circuit_open && a->w.fallback) || k->r == LB_NEVER || k->r == LB_BANNED ||
						 (k->r == LB_LATER && a->deadline_us != 0 && a->deadline_us <= k->when)))
		return;
	no_url(k->m, NULL, k->r, k->when, &e, &x);
	pending_error(a, &e, &x);
}

static void
look_at_queue(RModel *m, LbResult r, int64_t when, bool circuit_open)
{
	RemoteModelLook k = {m, r, when, circuit_open};

	/* the requests were checked for this time already, so check again only for a later one */
	if ((r == LB_LATER || r == LB_BUSY) && !m->fresh && when <= m->looked_us &&
		(!circuit_open || m->check_saw_open))
		return;
	m->fresh = false;
	m->check_saw_open = circuit_open;
	m->looked_us = when;
	rqueue_each(m->queue, look_at, &k);
}

static UpstreamCall *
next_pending(RModel *m)
{
	int64_t		now = m->l->now_us;

	for (UpstreamCall *c = m->pending; c != NULL; c = c->next)
	{
		if (c->due_us <= now)
			return c;
		dispatcher_wake(m->l, c->due_us);
	}
	return NULL;
}

/*
 * Make the next requests of the queue a CallGroup.  Returns false if there are none, or if they wait for
 * others.
 */
static bool
next_job(RModel *m)
{
	QueueItem **v = mem_alloc((size_t) m->o->max_batch_inputs * sizeof(*v));
	int64_t		when;
	int			n = rqueue_take(m->queue, m->n_calls == 0 && m->pending == NULL, m->l->now_us, v, &when);

	if (n == 0 && when != INT64_MAX)
		dispatcher_wake(m->l, when);
	if (n > 0 && !(n == 1 && length_must_wait(m, (PendingRequest *) v[0])))
		job_make(m, (PendingRequest **) v, n);
	mem_free(v);
	return n > 0;
}

/*
 * End requests of pending calls that would wait long for a url, although the caller can send them to
 * another model.  Returns false if there were none.
 */
static bool
send_elsewhere(RModel *m, LbResult r, int64_t when)
{
	bool		some = false;
	ErrorExtra	x;
	Err			e;

	no_url(m, NULL, r, when, &e, &x);
	for (UpstreamCall *c = m->pending; c != NULL;)
	{
		CallGroup  *j = c->job;
		bool		any = false;

		for (int i = 0; i < j->n; i++)
			any = any || (j->requests[i]->w.fallback && !j->requests[i]->detached);
		c = c->next;
		if (!any)
			continue;
		job_lost_tokens(j, 0, 0, &x);
		(void) job_elsewhere(j, &e, &x);
		/* the sink may have cancelled any of them */
		c = m->pending;
		some = true;
	}
	return some;
}

/*
 * No call can be made now.  Returns true if the dispatcher must go on, since the call in question has
 * failed.
 */
static bool
stuck(RModel *m, UpstreamCall *c, LbResult r, int64_t when)
{
	ErrorExtra	x;
	Err			e;
	bool		fail = r == LB_NEVER || r == LB_BANNED;
	bool		circuit_open = rmodel_circuit_open(m);
	int			i;

	if (circuit_open && send_elsewhere(m, r, when))
		return true;
	if ((r == LB_LATER || r == LB_BUSY) && when > 0)
		dispatcher_wake(m->l, when);
	if (r == LB_BUSY && !circuit_open)
		return false;
	if (c != NULL && r == LB_LATER)
	{
		int64_t		until = job_deadline(c->job);

		fail = until != 0 && until <= when;
	}
	if (c != NULL && fail)
	{
		no_url(m, c, r, when, &e, &x);
		job_lost_tokens(c->job, 0, 0, &x);
		job_fail(c->job, &e, &x);
		return true;
	}
	if (c != NULL && r == LB_LATER && path_error(m, c, &i) != NULL)
	{
		/* only this path is stopped, so other calls need not wait */
		c->due_us = when;
		no_url(m, c, r, when, &e, &x);
		job_lost_tokens(c->job, 0, 0, &x);
		(void) job_elsewhere(c->job, &e, &x);
		return true;
	}
	look_at_queue(m, r, when, circuit_open);
	return false;
}

void
rmodel_dispatch(RModel *m)
{
	Dispatcher *l = m->l;

	while (m->pending != NULL || rqueue_count(m->queue) > 0)
	{
		UpstreamCall *c = next_pending(m);
		int64_t		when;
		int			url;
		LbResult	r;

		if (c == NULL && rqueue_count(m->queue) == 0)
			return;
		if (l->n_calls >= l->set.max_connections && l->set.max_connections > 0)
			return;
		r = choose(m, c, &when, &url);
		if (r != LB_OK)
		{
			if (!stuck(m, c, r, when))
				return;
		}
		else if (c != NULL)
			call_start(c, url);
		else if (!next_job(m))
			return;
	}
}
