/*
 * dispatcher.c
 *	  Requests on their way to endpoints.
 *
 * dispatcher_submit() puts a request into its model's queue, unless it must wait for a limit of its
 * role.  dispatcher_poll() does everything else: it handles the HTTP events that were noted, ends
 * requests whose deadline has passed, and starts the next calls.  It is called after each http_poll(),
 * and after a request was submitted or cancelled.
 *
 * Deadlines are checked only when the earliest of them has come, as the engine does.  With many models,
 * the least recently served ones are served first: each poll begins with another model.
 *
 * Tested by tests/unit/remote/test_remote_dispatcher.c, test_remote_path.c and test_remote_sim.c (random
 * faults of all kinds).
 */
#include "remote/dispatcher_internal.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/json/json_writer.h"
#include "base/alloc.h"
#include "remote/upstream/response_limit.h"
#include "ipc_server/channel.h"

#define NEVER_US	INT64_C(3600000000)

static void
copy_settings(RSettings *to, const RSettings *from)
{
	mem_free(to->allowed_hosts);
	mem_free(to->ca_file);
	*to = *from;
	to->allowed_hosts = mem_strdup(from->allowed_hosts != NULL ? from->allowed_hosts : "");
	to->ca_file = mem_strdup(from->ca_file != NULL ? from->ca_file : "");
}

void
dispatcher_set_clock(Dispatcher *l, int64_t (*clock) (void))
{
	l->clock = clock;
	l->now_us = l->started_us = clock();
}

Dispatcher *
dispatcher_new(Http *h, const RSettings *set, const LineSink *sink)
{
	Dispatcher *l = mem_zalloc(sizeof(*l));

	l->http = h;
	l->sink = *sink;
	l->next_deadline_us = INT64_MAX;
	l->roles = roles_new();
	l->most_held = bound_held();
	copy_settings(&l->set, set);
	dispatcher_set_clock(l, clock_us);
	l->salt = ((uint64_t) getpid() << 40) ^ (uint64_t) l->now_us;
	return l;
}

void
dispatcher_wake(Dispatcher *l, int64_t at_us)
{
	if (at_us < l->wake_us)
		l->wake_us = at_us;
}

void
dispatcher_queue_touched(UpstreamCall *c)
{
	if (c->touched)
		return;
	c->touched = true;
	c->next_touched = c->l->touched;
	c->l->touched = c;
}

/* ---- freeing ---- */

static void
end_drain(UpstreamCall *c)
{
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		c->l->drains = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	call_free(c);
}

static void
dispatcher_retire(Dispatcher *l)
{
	ASSERT(l->depth >= 0);
	if (l->depth > 0)
		return;
	while (l->dead != NULL)
	{
		CallGroup  *j = l->dead;

		l->dead = j->next_retired;
		job_free(j);
	}
	while (l->retired != NULL)
	{
		PendingRequest *a = l->retired;

		l->retired = a->next_retired;
		pending_free(a);
	}
	rmodel_tidy(l);
}

void
dispatcher_free(Dispatcher *l)
{
	while (l->requests != NULL)
		pending_drop(l->requests);
	dispatcher_retire(l);
	while (l->drains != NULL)
		end_drain(l->drains);
	for (RModel *m = l->models; m != NULL; m = m->next)
		m->forgotten = true;
	rmodel_tidy(l);
	ASSERT(l->n_requests == 0 && l->requests == NULL && l->held == 0);
	roles_free(l->roles);
	mem_free(l->set.allowed_hosts);
	mem_free(l->set.ca_file);
	mem_free(l);
}

void
dispatcher_settings(Dispatcher *l, const RSettings *set)
{
	copy_settings(&l->set, set);
	for (RModel *m = l->models; m != NULL; m = m->next)
		rmodel_settings(m);
}

/* ---- requests ---- */

/* Send the final frame of a request that never gets to a model: an error, or a result. */
static void
end_at_once(Dispatcher *l, void *owner, const Err *e, const Buf *fields)
{
	Buf			b = {0};

	if (e != NULL)
	{
		chan_put_error(&b, e);
		l->sink.frame(owner, WF_ERROR, &b, true);
		buf_free(&b);
	}
	else
		l->sink.frame(owner, WF_DONE, fields != NULL ? fields : &b, true);
}

/* Answer requests that are about the program itself. */
static bool
own_business(Dispatcher *l, const RequestFields *w, void *owner)
{
	WireIn		in = {w->fields, w->fields + w->len};
	WireField	f;
	uint64_t	hash = 0;
	Buf			text = {0};
	Buf			fields = {0};
	WireOut		o = chan_out(&fields);
	char	   *command;

	if (w->kind == WK_MODEL_FORGET || w->kind == WK_MODEL_UNLOAD)
	{
		while (wire_next(&in, &f) > 0)
			if (f.tag == WTAG_MODEL_HASH)
				hash = (uint64_t) f.i;
		rmodel_forget(l, w->dboid, w->model, w->kind == WK_MODEL_FORGET ? hash : 0);
		end_at_once(l, owner, NULL, NULL);
		return true;
	}
	if (w->kind != WK_CONTROL)
		return false;
	command = mem_strndup(w->command.n > 0 ? w->command.s : "", w->command.n);
	if (dispatcher_command(l, command, &text))
	{
		wire_put_str(&o, WTAG_TEXT, text.len > 0 ? text.data : "", text.len);
		end_at_once(l, owner, NULL, &fields);
	}
	else
	{
		Err			e;

		err_set(&e, ERR_INVALID, "unknown command \"%.64s\"", command);
		end_at_once(l, owner, &e, NULL);
	}
	mem_free(command);
	buf_free(&text);
	buf_free(&fields);
	return true;
}

static bool
secret_ok(const RequestFields *w, Err *e)
{
	for (size_t i = 0; i < w->secret.n; i++)
		if ((unsigned char) w->secret.s[i] < 0x20 || w->secret.s[i] == 0x7f)
			return err_set(e, ERR_INVALID, "the secret of model \"%.*s\" has control characters",
						   (int) (w->model.n < 200 ? w->model.n : 200), w->model.n > 0 ? w->model.s : "");
	return true;
}

/* Put the request into its model's queue. */
static void
admit(PendingRequest *a)
{
	a->item.since_us = a->l->now_us;
	rqueue_add(a->m->queue, &a->item);
	a->m->fresh = true;
}

/* Admit the waiting requests that their role's limits allow now. */
static bool
admit_waiting(Dispatcher *l)
{
	RoleItem   *it;
	int64_t		when;
	bool		any = false;

	while ((it = roles_next(l->roles, l->now_us, &when)) != NULL)
	{
		PendingRequest *a = (PendingRequest *) ((char *) it - offsetof(PendingRequest, role));

		ALWAYS(!a->detached && a->m->n_deferred > 0);
		a->m->n_deferred--;
		admit(a);
		any = true;
	}
	dispatcher_wake(l, when);
	return any;
}

static int64_t
estimate(const RequestFields *w)
{
	return (int64_t) ((w->prompt.n + w->pair.n + w->messages.n + w->tools.n + w->api_body.n) / 4 +
					  w->prompt_ids.n + 1);
}

static void
note_deadline(Dispatcher *l, int64_t at_us)
{
	if (at_us != 0 && at_us < l->next_deadline_us)
		l->next_deadline_us = at_us;
}

static void
enqueue(Dispatcher *l, PendingRequest *a, RModel *m)
{
	const RequestFields *w = &a->w;

	a->m = m;
	m->n_requests++;
	m->requests++;
	m->used_us = a->arrival_us;
	check_note(m, w->secret);
	a->next = l->requests;
	if (l->requests != NULL)
		l->requests->prev = a;
	l->requests = a;
	l->n_requests++;
	l->rested = false;
	a->item.priority = w->priority;
	a->item.background = w->background;
	a->item.login = w->login;
	a->item.weight = a->role.weight;
	a->item.can_join = m->o->max_batch_inputs > 1 && body_can_join(w, m->o);
	if (a->role.waits)
		m->n_deferred++;
	else
		admit(a);
	note_deadline(l, a->deadline_us);
	note_deadline(l, a->role.until_us);
	rstats_observe(m, WH_N, w->n);
	if (w->max_tokens >= 0)
		rstats_observe(m, WH_MAX_TOKENS, w->max_tokens);
}

static PendingRequest *
take(Dispatcher *l, WireKind kind, char *fields, size_t len, int64_t deadline_us, int timeout_ms, void *owner)
{
	PendingRequest *a = mem_zalloc(sizeof(*a));
	RModel	   *m = NULL;
	Err			e = {0};
	bool		ok = request_fields_read(&a->w, kind, fields, len, &e);

	if (ok && own_business(l, &a->w, owner))
	{
		pending_free(a);
		return NULL;
	}
	if (ok && secret_ok(&a->w, &e) && roles_read(&a->role, &a->w, &e))
		m = rmodel_get(l, &a->w, &e);
	if (m != NULL && roles_enter(l->roles, &a->role, estimate(&a->w), l->now_us, &e) == ROLE_REFUSE)
		m = NULL;
	if (m == NULL)
	{
		Buf			body = {0};

		l->early.requests++;
		l->early.failed++;
		if (ok && reply_error_as_body(&a->w, &e, &body))
			end_at_once(l, owner, NULL, &body);
		else
			end_at_once(l, owner, &e, NULL);
		buf_free(&body);
		if (ok)
			pending_free(a);
		else
			mem_free(a);
		return NULL;
	}
	a->l = l;
	a->owner = owner;
	a->deadline_us = deadline_us;
	a->timeout_ms = timeout_ms;
	a->arrival_us = l->now_us;
	a->id = ++l->next_id;
	enqueue(l, a, m);
	l->sink.live(owner, WP_WAITING, -1, -1);
	return a;
}

PendingRequest *
dispatcher_submit(Dispatcher *l, WireKind kind, char *fields, size_t len, int64_t deadline_us,
				  int timeout_ms, void *owner)
{
	PendingRequest *a;

	l->now_us = l->clock();
	l->depth++;
	a = take(l, kind, fields, len, deadline_us, timeout_ms, owner);
	if (a != NULL && a->detached)
		a = NULL;
	l->depth--;
	dispatcher_retire(l);
	return a;
}

void
dispatcher_cancel(Dispatcher *l, PendingRequest *a)
{
	pending_drop(a);
	dispatcher_retire(l);
}

int
dispatcher_live(const Dispatcher *l)
{
	return l->n_requests;
}

/* ---- polling ---- */

static void
look_at_deadlines(Dispatcher *l)
{
	if (l->now_us < l->next_deadline_us)
		return;
	l->next_deadline_us = INT64_MAX;
	/* the sink may cancel other requests; these stay in memory, and their links lead back into the list */
	for (PendingRequest *a = l->requests, *next; a != NULL; a = next)
	{
		next = a->next;
		if (a->detached)
			continue;
		if ((a->deadline_us != 0 && a->deadline_us <= l->now_us) ||
			(a->role.waits && a->role.until_us != 0 && a->role.until_us <= l->now_us))
		{
			pending_late(a);
			continue;
		}
		note_deadline(l, a->deadline_us);
		if (a->role.waits)
			note_deadline(l, a->role.until_us);
	}
}

static void
look_at_drains(Dispatcher *l)
{
	for (UpstreamCall *c = l->drains, *next; c != NULL; c = next)
	{
		next = c->next;
		if (c->ended || c->due_us <= l->now_us)
			end_drain(c);
		else
			dispatcher_wake(l, c->due_us);
	}
}

/* Move the first model to the end of the list. */
static void
rotate(Dispatcher *l)
{
	RModel	   *first = l->models;
	RModel	  **at = &l->models;

	if (first == NULL || first->next == NULL)
		return;
	l->models = first->next;
	while (*at != NULL)
		at = &(*at)->next;
	*at = first;
	first->next = NULL;
}

int64_t
dispatcher_poll(Dispatcher *l, int64_t now_us)
{
	UpstreamCall *c;
	UpstreamCall *full = NULL;

	/* a request may have been submitted just now, with a clock that is later than now_us */
	if (now_us > l->now_us)
		l->now_us = now_us;
	l->wake_us = INT64_MAX;
	l->depth++;
	while ((c = l->touched) != NULL)
	{
		ASSERT(c->touched);
		l->touched = c->next_touched;
		c->touched = false;
		call_settle(c);
		if (c->full && !c->touched)
		{
			c->next_touched = full;
			full = c;
		}
	}
	/* calls whose client is behind are touched again, so that their pause is checked */
	while ((c = full) != NULL)
	{
		full = c->next_touched;
		dispatcher_queue_touched(c);
	}
	look_at_deadlines(l);
	l->depth--;
	dispatcher_retire(l);
	l->depth++;
	look_at_drains(l);
	(void) admit_waiting(l);
	rotate(l);
	for (RModel *m = l->models; m != NULL; m = m->next)
	{
		health_checks_poll(m);
		rmodel_dispatch(m);
	}
	/* in place of the requests that have failed because they can't be called */
	if (admit_waiting(l))
		dispatcher_wake(l, l->now_us);
	l->depth--;
	dispatcher_retire(l);
	if (l->next_deadline_us < l->wake_us)
		l->wake_us = l->next_deadline_us;
	if (l->wake_us - l->now_us > NEVER_US)
		return NEVER_US;
	return l->wake_us > l->now_us ? l->wake_us - l->now_us : 0;
}

/* ---- commands ---- */

static void
list_endpoints(Dispatcher *l, Buf *answer)
{
	static const char *const names[] = {"unknown", "up", "trying", "down"};
	JsonOut		j = {.b = answer};

	json_open(&j, '[');
	for (RModel *m = l->models; m != NULL; m = m->next)
		for (int i = 0; i < m->lb.n; i++)
		{
			const RUrl *u = &m->u[i];

			json_open(&j, '{');
			json_key_cstr(&j, "model", m->name);
			json_key_int(&j, "dboid", m->dboid);
			json_key_cstr(&j, "url", u->base);
			json_key_cstr(&j, "health", names[m->lb.u[i].health]);
			json_key_int(&j, "in_flight", m->lb.u[i].in_flight);
			json_key_int(&j, "calls", u->calls);
			json_key_int(&j, "failures", u->failures);
			json_key_int(&j, "retries", u->retries);
			json_key_int(&j, "throttled", u->throttled);
			json_close(&j, '}');
		}
	json_close(&j, ']');
}

bool
dispatcher_command(Dispatcher *l, const char *command, Buf *answer)
{
	if (strcmp(command, "integrity") == 0)
		buf_addstr(answer, "ok");
	else if (strcmp(command, "endpoints") == 0)
		list_endpoints(l, answer);
	else if (strcmp(command, "reset-stats") == 0)
	{
		rstats_reset(l);
		buf_addstr(answer, "ok");
	}
	else
		return false;
	return true;
}
