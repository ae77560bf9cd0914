/*
 * pending_request.c
 *	  A request of a client: the frames that its sink gets, and its end.
 *
 * The final frame is sent once.  After it, and after dispatcher_cancel(), a PendingRequest is gone, and
 * what its calls still return is dropped.  Its memory stays until its CallGroup ends, since the group's
 * DecodedReply reads it.
 *
 * Tested by tests/unit/remote/test_remote_dispatcher.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "remote/dispatcher_internal.h"
#include "ipc_server/channel.h"
#include "ipc/host_allowlist.h"

StrView
pending_field(const PendingRequest *a, WireTag tag)
{
	WireIn		in = {a->w.fields, a->w.fields + a->w.len};
	WireField	f;
	StrView		found = {NULL, 0};

	while (wire_next(&in, &f) > 0)
		if (f.tag == (int) tag)
			found = (StrView) {f.s, f.n};
	return found;
}

static void
leave(PendingRequest *a)
{
	Dispatcher *l = a->l;

	ALWAYS(!a->detached && l->n_requests > 0 && (a->prev == NULL) == (l->requests == a));
	/* it is in the queue or in a group, never in both; in neither while it waits for its role's limits */
	ASSERT(a->item.role_queue == NULL || a->job == NULL);
	a->detached = true;
	if (a->prev != NULL)
		a->prev->next = a->next;
	else
		l->requests = a->next;
	if (a->next != NULL)
		a->next->prev = a->prev;
	l->n_requests--;
	l->rested = false;
	if (a->role.waits)
		a->m->n_deferred--;
	roles_leave(l->roles, &a->role, a->used, l->now_us);
	if (a->item.role_queue != NULL)
		rqueue_remove(a->m->queue, &a->item);
	if (a->job == NULL)
	{
		a->next_retired = l->retired;
		l->retired = a;
	}
	else
	{
		ALWAYS(a->job->living > 0);
		if (--a->job->living == 0)
			job_kill(a->job);
	}
}

void
pending_free(PendingRequest *a)
{
	if (a->m != NULL)
	{
		ALWAYS((a->detached || a->prev == NULL) && a->item.role_queue == NULL && a->m->n_requests > 0);
		a->m->n_requests--;
	}
	request_fields_free(&a->w);
	mem_free(a);
}

void
pending_drop(PendingRequest *a)
{
	if (a->detached)
		return;
	a->m->ended[WE_ABORT]++;
	a->used = a->tries > 0 ? -1 : 0;
	leave(a);
}

/* Must the endpoint be hidden from the caller? */
static bool
is_secret(const PendingRequest *a)
{
	WireIn		in = {a->w.fields, a->w.fields + a->w.len};
	WireField	f;
	int64_t		secret = 0;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_SECRET_PATHS)
			secret = f.i;
	return (secret & WIRE_SECRET_MODEL) != 0;
}

/* Remove urls, hosts, and a library's text about addresses from the error. */
static void
hide_urls(const PendingRequest *a, Err *e)
{
	for (int i = 0; i < a->m->lb.n; i++)
	{
		HostUrl		h;
		char		why[160];

		err_replace(e, a->m->u[i].base, a->m->name);
		err_replace(e, a->m->u[i].query, "?***");
		if (hosts_url(a->m->u[i].base, &h, why, sizeof(why)))
			err_replace(e, h.host, "its host");
	}
	if (e->cls == ERR_CONNECTION)
		e->detail[0] = '\0';
	if (e->cls == ERR_FORBIDDEN)
		e->hint[0] = '\0';
}

/* ---- frames ---- */

static int64_t
field_int(const Buf *b, WireTag tag)
{
	WireIn		in = {b->data, b->data + b->len};
	WireField	f;

	if (b->len == 0)
		return -1;
	while (wire_next(&in, &f) > 0)
		if (f.tag == (int) tag)
			return f.i;
	return -1;
}

/* Count a WF_TEXT frame and its times. */
static void
count_text(PendingRequest *a)
{
	int64_t		now = a->l->clock();

	if (a->first_us == 0)
	{
		a->first_us = now;
		rstats_observe(a->m, WH_TTFT, now - a->arrival_us);
	}
	else
		rstats_observe(a->m, WH_ITL, now - a->last_us);
	a->last_us = now;
	a->texts++;
}

/*
 * Write the times.  They must precede the choices of the list, each of which begins with an INDEX and
 * owns the fields after it.
 */
static void
put_times(PendingRequest *a, WireOut *o)
{
	const CallGroup *j = a->job;
	int64_t		now = a->l->clock();
	int64_t		called = a->called_us > 0 ? a->called_us : now;
	int64_t		first = a->first_us > 0 ? a->first_us : j != NULL && j->first_byte_us > a->arrival_us ?
		j->first_byte_us : now;

	wire_put_int(o, WTAG_QUEUE_US, called - a->arrival_us);
	wire_put_int(o, WTAG_TTFT_US, first - a->arrival_us);
	wire_put_int(o, WTAG_E2E_US, now - a->arrival_us);
}

static void
put_tries(const PendingRequest *a, WireOut *o, const char *url)
{
	if (url != NULL && !is_secret(a))
		wire_put_str(o, WTAG_ENDPOINT, url, strlen(url));
	wire_put_int(o, WTAG_TRIES, a->tries);
	wire_put_int(o, WTAG_CHARGED_TRIES, a->charged);
}

static void
done(PendingRequest *a, const Buf *fields)
{
	Dispatcher *l = a->l;
	Buf			b = {0};
	WireOut		o = chan_out(&b);
	const CallGroup *j = a->job;

	put_times(a, &o);
	put_tries(a, &o, j != NULL && j->url >= 0 ? a->m->u[j->url].base : NULL);
	if (fields != NULL && fields->len > 0)
		buf_add(&b, fields->data, fields->len);
	rstats_done(a, &b);
	leave(a);
	l->sink.frame(a->owner, WF_DONE, &b, true);
	buf_free(&b);
}

void
pending_frame(PendingRequest *a, WireFrame kind, const Buf *fields, bool final)
{
	static const Buf none = {0};
	Dispatcher *l = a->l;

	if (a->detached)
		return;
	if (fields == NULL)
		fields = &none;
	if (final)
	{
		done(a, fields);
		return;
	}
	if (kind == WF_ACCEPTED)
	{
		/* a retry accepts the request again */
		if (a->accepted)
			return;
		a->accepted = true;
		l->sink.live(a->owner, WP_RUNNING, (int) field_int(fields, WTAG_PROMPT_TOKENS), -1);
	}
	else
	{
		if (a->job != NULL)
			a->job->emitted = true;
		count_text(a);
		l->sink.live(a->owner, WP_RUNNING, -1, a->texts);
	}
	if (!a->detached)
		l->sink.frame(a->owner, kind, fields, false);
}

void
pending_error(PendingRequest *a, const Err *e, const ErrorExtra *x)
{
	Buf			b = {0};
	Buf			body = {0};
	WireOut		o = chan_out(&b);
	WireFrame	kind = WF_ERROR;
	Err			hidden;

	if (a->detached)
		return;
	if (is_secret(a))
	{
		hidden = *e;
		hide_urls(a, &hidden);
		e = &hidden;
	}
	if (reply_error_as_body(&a->w, e, &body))
		kind = WF_DONE;
	else
		chan_put_error(&b, e);
	put_tries(a, &o, x->url);
	if (x->elsewhere)
		wire_put_int(&o, WTAG_ELSEWHERE, 1);
	if (x->retry_after_ms >= 0)
		wire_put_int(&o, WTAG_RETRY_AFTER_MS, x->retry_after_ms);
	if (x->prompt_tokens > 0 || x->completion_tokens > 0)
	{
		wire_put_int(&o, WTAG_PROMPT_TOKENS, x->prompt_tokens);
		wire_put_int(&o, WTAG_COMPLETION_TOKENS, x->completion_tokens);
	}
	if (body.len > 0)
		buf_add(&b, body.data, body.len);
	a->m->ended[e->cls == ERR_CANCELLED ? WE_ABORT : WE_ERROR]++;
	a->used = x->prompt_tokens + x->completion_tokens > 0 ? x->prompt_tokens + x->completion_tokens :
		a->charged > 0 ? -1 : 0;
	leave(a);
	a->l->sink.frame(a->owner, kind, &b, true);
	buf_free(&b);
	buf_free(&body);
}

void
pending_late(PendingRequest *a)
{
	CallGroup  *j = a->job;
	ErrorExtra	x = {.retry_after_ms = -1};
	Err			e;
	bool		sent = false;

	if (a->role.waits && (a->deadline_us == 0 || a->l->now_us < a->deadline_us))
	{
		roles_late(&a->role, a->l->now_us, &e);
		pending_error(a, &e, &x);
		return;
	}
	err_set(&e, ERR_CANCELLED, WIRE_TIMED_OUT);
	err_detail(&e, "The request took longer than %d ms.", a->timeout_ms);
	for (int i = 0; j != NULL && !j->sizes && i < j->calls.n; i++)
		sent = sent || j->c[i]->state == CALL_RUNS;
	/* the running call will be charged; the tokens are what is known so far */
	if (sent)
	{
		a->charged++;
		reply_usage(j->reply, &x.prompt_tokens, &x.completion_tokens);
	}
	if (j != NULL)
	{
		job_lost_tokens(j, x.prompt_tokens, x.completion_tokens, &x);
		x.url = j->url >= 0 ? a->m->u[j->url].base : NULL;
	}
	pending_error(a, &e, &x);
}
