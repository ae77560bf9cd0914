/*
 * remote_net.h
 *	  A simulated network with endpoints, its clock, and clients, for the tests of the dispatcher
 *	  (test_remote_dispatcher.c, test_remote_checks.c, test_remote_elsewhere.c, test_remote_length.c,
 *	  test_remote_path.c, test_remote_sim.c).
 *
 * Defines the functions that http_client.h, encode.h and decode.h declare, with a simple protocol: a
 * body has the requests' prompts, a line each; the response is each prompt with "!" appended.  A
 * stream's lines are "t<prompt>", and "D" at the end.  The network counts the calls of each request, and
 * those that it would charge for; tests compare these counts with the dispatcher's.  With
 * NET_REAL_BODIES, bodies and replies are the program's, and net_answer_text() is the endpoint
 * (test_remote_path.c).
 */
#ifndef VLLM_TESTS_UNIT_REMOTE_REMOTE_NET_H
#define VLLM_TESTS_UNIT_REMOTE_REMOTE_NET_H

#include <string.h>

#include "base/alloc.h"
#include "remote/dispatcher_internal.h"
#include "ipc_server/channel.h"
#include "tests/unit/check.h"

static int64_t net_now = 1000000;

static int64_t
net_clock(void)
{
	return net_now;
}

/* ---- clients ---- */

typedef struct Client
{
	int			id;
	PendingRequest *request;
	bool		idempotent, stream;
	char		want[24];		/* its prompt */
	int64_t		deadline_us;
	/* received */
	int			accepted, texts, finals;
	bool		done, cancelled;
	int64_t		end_us;
	char		text[64], reason[16], sqlstate[8], message[256], detail[256], hint[256], endpoint[128];
	float		floats[8];
	int			n_floats;
	int64_t		tries, charged, elsewhere, retry_after_ms, prompt_tokens, queue_us, ttft_us, e2e_us;
	WirePhase	phase;
	size_t		backlog;
	/* known to the network */
	int			calls, charges, under_way;
	/* counts at its end, since other inputs of its call may have been sent again */
	int			calls_then, charges_then;
} Client;

#define MOST_CLIENTS	200000
static Client *clients[MOST_CLIENTS];
static int	n_clients;
static Client *net_cancel_on_text;	/* cancels when it gets a text */
static Dispatcher *net_line;

#ifdef NET_REAL_BODIES
#define NET_ONLY_TEXT	true
#else
#define NET_ONLY_TEXT	false
#endif

/* ---- http ---- */

typedef enum NetDo
{
	NET_OK, NET_STATUS, NET_NOT_SENT, NET_CUT, NET_CUT_BODY, NET_HANG, NET_TLS, NET_GARBAGE, NET_EMPTY,
	NET_LINGER, NET_NONSENSE
} NetDo;

typedef struct NetPlan
{
	NetDo		what;
	int			status;
	int64_t		retry_after_ms, remaining, reset_ms;
	int64_t		delay_us;
	int			chunks;
} NetPlan;

static NetPlan net_default(void);
static NetPlan (*net_plan) (const HttpRequest *r);

struct HttpCall
{
	Http	   *h;
	char	   *url, *body;
	const char *given;			/* the body, which is the dispatcher's until the call has ended */
	size_t		len;
	char		headers[1024];
	HttpEvents	ev;
	void	   *ctx;
	NetPlan		plan;
	int64_t		start_us, due_us, deadline_us;
	int			step;
	bool		stream, paused, charged;
	HttpResult	res;
	HttpCall   *next;
};

struct Http
{
	HttpCall   *calls;
	int			n, most;		/* running; maximum so far */
	int			made, cancelled;
	int			pauses;
	bool		inside;
	HttpCall   *last;			/* the newest call, whose url and headers are in: */
	char		url[256], headers[1024], body[4096];
	int64_t		deadline_us;
	bool		get;
};

/* Is it a health check? */
static inline bool
net_is_check(const char *url)
{
	size_t		n = strcspn(url, "?");

	return n > 7 && memcmp(url + n - 7, "/models", 7) == 0;
}

static NetPlan
net_default(void)
{
	return (NetPlan) {.what = NET_OK,.status = 200,.retry_after_ms = -1,.remaining = -1,.reset_ms = -1,
					  .delay_us = 10000,.chunks = 3};
}

static Client *
client_of(const char *line)
{
	return line[0] == 'p' ? clients[atoi(line + 1)] : NULL;
}

/* Call f for each request of a body. */
static void
net_each(const char *body, void (*f) (Client *c))
{
	for (const char *p = body; *p != '\0';)
	{
		Client	   *c = client_of(p);

		if (c != NULL)
			f(c);
		p = strchr(p, '\n');
		if (p == NULL)
			return;
		p++;
	}
}

static void
net_begins(Client *c)
{
	c->calls++;
	c->under_way++;
}

static void
net_charges(Client *c)
{
	c->charges++;
}

static void
net_ends(Client *c)
{
	c->under_way--;
}

static HttpCall *
http_fake_start(Http *h, const HttpRequest *r, const HttpEvents *ev, void *ctx)
{
	HttpCall   *c = mem_zalloc(sizeof(*c));

	c->h = h;
	c->url = mem_strdup(r->url);
	c->body = mem_strndup(r->body != NULL ? r->body : "", r->len);
	c->given = r->body;
	c->len = r->get ? 0 : r->len;
	for (int i = 0; i < r->n_headers; i++)
	{
		strncat(c->headers, r->headers[i], sizeof(c->headers) - strlen(c->headers) - 2);
		strcat(c->headers, "\n");
	}
	c->ev = *ev;
	c->ctx = ctx;
	c->plan = (net_plan != NULL ? net_plan(r) : net_default());
	c->start_us = net_now;
	c->due_us = net_now + c->plan.delay_us;
	c->deadline_us = r->deadline_us;
	c->stream = r->stream;
	c->res = (HttpResult) {.retry_after_ms = -1,.limit_requests = -1,.remaining_requests = -1,
						   .reset_requests_ms = -1,
		.limit_tokens = -1,.remaining_tokens = -1,.reset_tokens_ms = -1
	};
	return c;
}

HttpCall *
http_start(Http *h, const HttpRequest *r, const HttpEvents *ev, void *ctx, Err *e)
{
	HttpCall   *c;

	CHECK(!h->inside, "http_start from within an event");
	if (strstr(r->url, "unstartable") != NULL)
	{
		err_set(e, ERR_IO, "no more handles");
		return NULL;
	}
	c = http_fake_start(h, r, ev, ctx);
	c->next = h->calls;
	h->calls = c;
	h->n++;
	h->made++;
	if (h->n > h->most)
		h->most = h->n;
	snprintf(h->url, sizeof(h->url), "%s", c->url);
	snprintf(h->headers, sizeof(h->headers), "%s", c->headers);
	snprintf(h->body, sizeof(h->body), "%.4000s", c->body);
	h->deadline_us = r->deadline_us;
	h->get = r->get;
	net_each(c->body, net_begins);
	return c;
}

static void
net_free(HttpCall *c)
{
	HttpCall  **at = &c->h->calls;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->h->n--;
	net_each(c->body, net_ends);
	mem_free(c->url);
	mem_free(c->body);
	mem_free(c);
}

static void
net_charge(HttpCall *c)
{
	if (!c->charged)
		net_each(c->body, net_charges);
	c->charged = true;
}

void
http_cancel(HttpCall *c)
{
	CHECK(!c->h->inside, "http_cancel from within an event");
	c->h->cancelled++;
	net_free(c);
}

void
http_pause(HttpCall *c, bool pause)
{
	CHECK(pause || !c->h->inside, "a call goes on from within an event");
	c->paused = pause;
	c->h->pauses += pause;
}

static void
net_end(HttpCall *c, HttpEnd end, const char *why)
{
	HttpEvents	ev = c->ev;
	void	   *ctx = c->ctx;
	HttpResult	r = c->res;

	r.end = end;
	r.end_us = net_now;
	if (end != HTTP_DONE)
		err_set(&r.e, end == HTTP_REFUSED ? ERR_FORBIDDEN : ERR_CONNECTION, "%s", why);
	c->h->inside = true;
	ev.ended(ctx, &r);
	c->h->inside = false;
	net_free(c);
}

/* Send bytes; returns false if the dispatcher wants no more. */
static bool
net_send(HttpCall *c, const char *p, size_t n)
{
	bool		ok;

	c->h->inside = true;
	ok = c->ev.data(c->ctx, p, n);
	c->h->inside = false;
	return ok;
}

static void
net_head(HttpCall *c, int status)
{
	c->res.status = status;
	c->res.retry_after_ms = c->plan.retry_after_ms;
	c->res.remaining_requests = c->plan.remaining;
	c->res.reset_requests_ms = c->plan.reset_ms;
	c->h->inside = true;
	c->ev.head(c->ctx, &c->res);
	c->h->inside = false;
}

#ifdef NET_REAL_BODIES
static void net_answer_text(const HttpCall *c, Buf *b);
#else
static void
net_answer_text(const HttpCall *c, Buf *b)
{
	for (const char *p = c->body; *p != '\0';)
	{
		size_t		n = strcspn(p, "\n");

		buf_add(b, p, n);
		buf_addstr(b, "!\n");
		p += n + (p[n] == '\n');
	}
}
#endif

/* Send a complete response, in two pieces. */
static void
net_answer(HttpCall *c, bool whole)
{
	Buf			b = {0};
	size_t		half;

	net_answer_text(c, &b);
	if (b.len == 0)
		buf_addstr(&b, "{}\n");
	if (c->plan.what == NET_GARBAGE)
		b.data[b.len / 2] ^= 1;
	if (c->plan.what == NET_NONSENSE)
	{
		buf_reset(&b);
		buf_addstr(&b, "{\"object\": \"list\"}");
	}
	half = b.len / 3;
	if (net_send(c, b.data, half) && whole && net_send(c, b.data + half, b.len - half))
		net_end(c, HTTP_DONE, "");
	else
		net_end(c, HTTP_CUT, "connection broke");
	buf_free(&b);
}

static void
net_stream(HttpCall *c)
{
	char		line[80];
	int			n;

	c->step++;
	c->due_us = net_now + c->plan.delay_us;
	if (c->plan.what == NET_CUT_BODY && c->step > 2)
	{
		net_end(c, HTTP_CUT, "connection broke");
		return;
	}
	if (c->step == c->plan.chunks + 3)
	{
		net_end(c, HTTP_DONE, "");
		return;
	}
	n = snprintf(line, sizeof(line), c->plan.what == NET_GARBAGE &&
				 c->step == 2 ? "G\n" : c->step > c->plan.chunks + 1 ? "D\n" : "t%s\n", c->body);
	if (!net_send(c, line, (size_t) n))
		net_end(c, HTTP_CUT, "closed");
	else if (c->step == c->plan.chunks + 2)
	{
		if (c->plan.what == NET_LINGER)
			c->due_us = net_now + 600000000;
		else
			net_end(c, HTTP_DONE, "");
	}
}

static void
net_step(HttpCall *c)
{
	switch (c->plan.what)
	{
		case NET_NOT_SENT:
			net_end(c, HTTP_NOT_SENT, "connection refused");
			return;
		case NET_TLS:
			net_end(c, HTTP_REFUSED, "certificate is not trusted");
			return;
		case NET_CUT:
			net_charge(c);
			net_end(c, HTTP_CUT, "connection broke");
			return;
		case NET_HANG:
			c->due_us = INT64_MAX;
			net_charge(c);
			return;
		case NET_STATUS:
			if (c->plan.status == 500 || c->plan.status == 502 || c->plan.status == 504)
				net_charge(c);
			net_head(c, c->plan.status);
			/* with the url in the text, as many endpoints do */
			net_send(c, "no ", 3);
			net_send(c, c->url, strlen(c->url));
			net_end(c, HTTP_DONE, "");
			return;
		default:
			break;
	}
	if (c->step == 0)
	{
		net_charge(c);
		net_head(c, 200);
		if (c->stream && !NET_ONLY_TEXT)
			c->step = 1;
	}
	if (c->plan.what == NET_EMPTY)
		net_end(c, HTTP_DONE, "");
	else if (c->stream && !NET_ONLY_TEXT)
		net_stream(c);
	else
		net_answer(c, c->plan.what != NET_CUT_BODY);
}

static int64_t
net_next(const Http *h)
{
	int64_t		next = INT64_MAX;

	for (const HttpCall *c = h->calls; c != NULL; c = c->next)
	{
		if (!c->paused && c->due_us < next)
			next = c->due_us;
		if (c->deadline_us < next)
			next = c->deadline_us;
	}
	return next == INT64_MAX ? next : next - net_now;
}

int64_t
http_poll(Http *h)
{
	for (HttpCall *c = h->calls, *after; c != NULL; c = after)
	{
		after = c->next;
		CHECK(c->len == 0 || memcmp(c->given, c->body, c->len) == 0, "a body is there as long as its call");
		if (c->deadline_us <= net_now)
		{
			bool		sent = c->plan.what != NET_NOT_SENT;

			if (sent)
				net_charge(c);
			net_end(c, sent ? HTTP_LATE : HTTP_NOT_SENT, "timed out");
			continue;
		}
		if (c->due_us <= net_now && !c->paused)
			net_step(c);
	}
	return net_next(h);
}

#ifndef NET_REAL_BODIES
/* ---- bodies and replies ---- */

bool
body_can_join(const RequestFields *a, const ROptions *o)
{
	(void) o;
	return a->kind == WK_POOL;
}

bool
body_wants_length(const RequestFields *a, const ROptions *o)
{
	(void) a;
	(void) o;
	return false;
}

bool
body_same(const RequestFields *a, const RequestFields *b)
{
	return a->kind == b->kind && a->task.n == b->task.n && memcmp(a->task.s, b->task.s, a->task.n) == 0;
}

bool
body_make(const RequestFields *const *requests, int n, const ROptions *o, RCalls *calls, Err *e)
{
	int			k = requests[0]->kind == WK_LOGPROBS ? 3 : 1;

	for (int i = 0; i < n; i++)
		if (memchr(requests[i]->prompt.s, '?', requests[i]->prompt.n) != NULL)
			return err_set(e, ERR_UNSUPPORTED, "no such parameter");
	calls->n = k;
	calls->v = mem_zalloc((size_t) k * sizeof(RCall));
	for (int part = 0; part < k; part++)
	{
		RCall	   *c = &calls->v[part];

		*c = (RCall) {.shape = requests[0]->kind == WK_POOL ? RSHAPE_EMBEDDINGS : k > 1 ? RSHAPE_LOGPROBS :
					  RSHAPE_COMPLETION,.path = requests[0]->kind == WK_TOKENIZE ? "/tokenize" :
					  o->completions_path,.n_requests = n,.part = part,
			.stream = requests[0]->stream,.off_v1 = requests[0]->kind == WK_TOKENIZE,.tokens = 10 * n
		};
		for (int i = 0; i < n; i++)
			buf_printf(&c->body, "%s%.*s", i > 0 ? "\n" : "", (int) requests[i]->prompt.n,
					   requests[i]->prompt.s);
	}
	return true;
}

void
body_free(RCalls *calls)
{
	for (int i = 0; i < calls->n; i++)
		buf_free(&calls->v[i].body);
	mem_free(calls->v);
}

struct DecodedReply
{
	const RequestFields *const *requests;
	int			n;
	const RCalls *calls;
	ReplyEmit	emit;
	void	   *ctx;
	Buf			got[3];
	bool		ended[3], whole;
	bool		emitted;
};

DecodedReply *
reply_new(const RequestFields *const *requests, int n, const RCalls *calls, const ROptions *o, ReplyEmit emit,
		  void *ctx)
{
	DecodedReply *r = mem_zalloc(sizeof(*r));

	(void) o;
	*r = (DecodedReply) {.requests = requests,.n = n,.calls = calls,.emit = emit,.ctx = ctx};
	return r;
}

void
reply_free(DecodedReply *r)
{
	for (int i = 0; i < 3; i++)
		buf_free(&r->got[i]);
	mem_free(r);
}

static void
reply_accept(DecodedReply *r, int i)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	wire_put_int(&o, WTAG_PROMPT_TOKENS, 7);
	r->emit(r->ctx, i, WF_ACCEPTED, &b, false);
	buf_free(&b);
}

static void
reply_text(DecodedReply *r, int i, WireFrame kind, const char *s, size_t n)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	wire_put_str(&o, WTAG_TEXT, s, n);
	if (kind == WF_DONE)
	{
		wire_put_int(&o, WTAG_PROMPT_TOKENS, 7);
		wire_put_int(&o, WTAG_COMPLETION_TOKENS, 3);
	}
	r->emit(r->ctx, i, kind, &b, kind == WF_DONE);
	buf_free(&b);
}

bool
reply_data(DecodedReply *r, int i, const char *p, size_t n, Err *e)
{
	char	   *nl;

	buf_add(&r->got[i], p, n);
	if (!r->calls->v[i].stream)
		return true;
	while (r->got[i].len > 0 && (nl = memchr(r->got[i].data, '\n', r->got[i].len)) != NULL)
	{
		size_t		len = (size_t) (nl - r->got[i].data);

		if (r->got[i].data[0] == 'D')
			r->whole = true;
		else if (r->got[i].data[0] == 't')
		{
			if (!r->emitted)
				reply_accept(r, 0);
			r->emitted = true;
			reply_text(r, 0, WF_TEXT, r->got[i].data + 1, len - 1);
		}
		else
			return err_set(e, ERR_PROTOCOL, "endpoint's stream makes no sense");
		buf_consume(&r->got[i], len + 1);
	}
	return true;
}

/* Does the response to call i match the request? */
static bool
reply_fits(const DecodedReply *r, int i)
{
	const char *p = r->got[i].data;
	const char *end = p + r->got[i].len;

	for (int k = 0; k < r->n; k++)
	{
		StrView		s = r->requests[k]->prompt;

		if ((size_t) (end - p) < s.n + 2 || memcmp(p, s.s, s.n) != 0 || memcmp(p + s.n, "!\n", 2) != 0)
			return false;
		p += s.n + 2;
	}
	return p == end;
}

bool
reply_end(DecodedReply *r, int i, Err *e)
{
	bool		stream = r->calls->v[i].stream;
	const char *p;

	if (stream ? !r->whole : !reply_fits(r, i))
		return err_set(e, ERR_PROTOCOL, "endpoint's answer makes no sense");
	r->ended[i] = true;
	for (int k = 0; k < r->calls->n; k++)
		if (!r->ended[k])
			return true;
	p = r->got[i].data;
	for (int k = 0; k < r->n; k++)
	{
		size_t		n = r->requests[k]->prompt.n + 1;

		if (!r->emitted)
			reply_accept(r, k);
		reply_text(r, k, WF_DONE, stream ? "" : p, stream ? 0 : n);
		p += stream ? 0 : n + 1;
	}
	return true;
}

static bool net_unlike;			/* garbled responses are so only by comparison */

bool
reply_unlike(const DecodedReply *r)
{
	(void) r;
	return net_unlike;
}

size_t
reply_held(const DecodedReply *r)
{
	size_t		n = 0;

	for (int i = 0; i < 3; i++)
		n += r->got[i].cap;
	return n;
}

bool
reply_restart(DecodedReply *r, int i)
{
	buf_reset(&r->got[i]);
	return !r->emitted;
}

bool
reply_is_json(const DecodedReply *r, int i)
{
	return r->got[i].len > 1 && r->got[i].data[0] == '{' && r->got[i].data[r->got[i].len - 1] == '}';
}

bool
reply_is_whole(const DecodedReply *r, int i)
{
	return r->calls->v[i].stream && r->whole;
}

void
reply_usage(const DecodedReply *r, int64_t *prompt_tokens, int64_t *completion_tokens)
{
	*prompt_tokens = r->emitted ? 7 : 0;
	*completion_tokens = r->emitted ? 1 : 0;
}

void
reply_error(int status, const char *body, size_t n, const ROptions *o, const char *url, StrView secret,
			Err *e)
{
	ErrClass	cls = status == 401 ? ERR_AUTH : status == 403 || status < 400 ? ERR_FORBIDDEN :
		status == 404 ? ERR_NOT_FOUND : status == 400 || status == 422 ? ERR_INVALID : status == 413 ?
			ERR_TOO_LONG : ERR_UNAVAILABLE;

	(void) o;
	(void) secret;
	err_set(e, cls, "endpoint \"%s\" answered with status %d", url, status);
	err_detail(e, "%.*s", (int) n, body);
}

bool
reply_error_as_body(const RequestFields *a, const Err *e, Buf *fields)
{
	WireOut		o = chan_out(fields);

	if (a->kind != WK_API)
		return false;
	wire_put_str(&o, WTAG_TEXT, e->msg, strlen(e->msg));
	return true;
}

#endif

/* ---- the sink ---- */

static void
copy_text(char *to, size_t size, const WireField *f)
{
	snprintf(to, size, "%.*s", (int) f->n, f->s);
}

static void
receive_field(Client *c, const WireField *f)
{
	switch (f->tag)
	{
		case WTAG_TEXT:
			copy_text(c->text, sizeof(c->text), f);
			break;
		case WTAG_FLOATS:
			c->n_floats = (int) f->n;
			if (f->n <= 8)
				wire_floats(f, c->floats);
			break;
		case WTAG_FINISH_REASON:
			copy_text(c->reason, sizeof(c->reason), f);
			break;
		case WTAG_SQLSTATE:
			copy_text(c->sqlstate, sizeof(c->sqlstate), f);
			break;
		case WTAG_MESSAGE:
			copy_text(c->message, sizeof(c->message), f);
			break;
		case WTAG_DETAIL:
			copy_text(c->detail, sizeof(c->detail), f);
			break;
		case WTAG_HINT:
			copy_text(c->hint, sizeof(c->hint), f);
			break;
		case WTAG_ENDPOINT:
			copy_text(c->endpoint, sizeof(c->endpoint), f);
			break;
		case WTAG_TRIES:
			c->tries = f->i;
			break;
		case WTAG_CHARGED_TRIES:
			c->charged = f->i;
			break;
		case WTAG_ELSEWHERE:
			c->elsewhere = f->i;
			break;
		case WTAG_RETRY_AFTER_MS:
			c->retry_after_ms = f->i;
			break;
		case WTAG_PROMPT_TOKENS:
			c->prompt_tokens = f->i;
			break;
		case WTAG_QUEUE_US:
			c->queue_us = f->i;
			break;
		case WTAG_TTFT_US:
			c->ttft_us = f->i;
			break;
		case WTAG_E2E_US:
			c->e2e_us = f->i;
			break;
		default:
			break;
	}
}

static void
on_frame(void *owner, WireFrame kind, const Buf *fields, bool final)
{
	Client	   *c = owner;
	WireIn		in = {fields->data, fields->data + fields->len};
	WireField	f;
	int			r = 0;

	CHECK(c->finals == 0 && !c->cancelled, "a frame for %d behind its end", c->id);
	while (fields->len > 0 && (r = wire_next(&in, &f)) > 0)
		receive_field(c, &f);
	CHECK(r == 0, "malformed");
	c->accepted += kind == WF_ACCEPTED;
	c->texts += kind == WF_TEXT;
	CHECK(final == (kind == WF_DONE || kind == WF_ERROR), "final frames are DONE or ERROR");
	if (final)
	{
		c->finals++;
		c->done = kind == WF_DONE;
		c->end_us = net_now;
		c->calls_then = c->calls;
		c->charges_then = c->charges;
	}
	else if (c == net_cancel_on_text && kind == WF_TEXT)
	{
		c->cancelled = true;
		dispatcher_cancel(net_line, c->request);
	}
}

static void
see_live(void *owner, WirePhase phase, int prompt_tokens, int output_tokens)
{
	Client	   *c = owner;

	(void) prompt_tokens;
	(void) output_tokens;
	CHECK(c->finals == 0 && !c->cancelled, "figures of %d behind its end", c->id);
	c->phase = phase;
}

static size_t
see_backlog(void *owner)
{
	return ((Client *) owner)->backlog;
}

static const LineSink net_sink = {on_frame, see_live, see_backlog};

/* ---- requests ---- */

typedef struct Want
{
	WireKind	kind;
	/* url: or several; prompt: appended to "p<id>" */
	const char *model, *url, *options, *secret, *task, *prompt, *traceparent;
	bool		stream, seed, background, secret_urls;
	bool		fallback, stop_ids, endless;	/* endless: without max_tokens */
	int			priority, login;
	int			role_requests, role_tokens, role_max_tokens, role_weight;	/* 0 = not given */
	int			role_wait;		/* ms + 1; 0 = not given */
	const char *body;
	int64_t		deadline_us;
} Want;

static void
net_put_role(WireOut *o, const Want *w)
{
	if (w->role_requests > 0)
		wire_put_int(o, WTAG_ROLE_MAX_REQUESTS, w->role_requests);
	if (w->role_tokens > 0)
		wire_put_int(o, WTAG_ROLE_TOKENS_PER_MINUTE, w->role_tokens);
	if (w->role_max_tokens > 0)
		wire_put_int(o, WTAG_ROLE_MAX_TOKENS, w->role_max_tokens);
	if (w->role_weight > 0)
		wire_put_int(o, WTAG_ROLE_WEIGHT, w->role_weight);
	if (w->role_wait > 0)
		wire_put_int(o, WTAG_ROLE_LIMIT_WAIT, w->role_wait - 1);
}

static Client *
net_req(Dispatcher *l, const Want *w)
{
	Client	   *c = mem_zalloc(sizeof(*c));
	Buf			b = {0};
	WireOut		o = chan_out(&b);
	WireKind	kind = w->kind != 0 ? w->kind : WK_GENERATE;

	c->id = n_clients;
	c->elsewhere = c->retry_after_ms = c->tries = -1;
	clients[n_clients++] = c;
	c->stream = w->stream;
	c->idempotent = kind != WK_GENERATE || w->seed;
	c->deadline_us = w->deadline_us;
	snprintf(c->want, sizeof(c->want), "p%d%s", c->id, w->prompt != NULL ? w->prompt : "");
	wire_put_int(&o, WTAG_DATABASE, 5);
	wire_put_int(&o, WTAG_LOGIN, w->login);
	wire_put_str(&o, WTAG_MODEL, w->model != NULL ? w->model : "m",
				 strlen(w->model != NULL ? w->model : "m"));
	for (const char *p = w->url != NULL ? w->url : "https://a.example/v1"; *p != '\0';)
	{
		size_t		n = strcspn(p, " ");

		wire_put_str(&o, WTAG_URL, p, n);
		p += n + (p[n] == ' ');
	}
	wire_put_str(&o, WTAG_MODEL_OPTIONS, w->options != NULL ? w->options : "",
				 w->options != NULL ? strlen(w->options) : 0);
	if (w->secret != NULL)
		wire_put_str(&o, WTAG_SECRET, w->secret, strlen(w->secret));
	if (w->task != NULL)
		wire_put_str(&o, WTAG_TASK, w->task, strlen(w->task));
	if (w->traceparent != NULL)
		wire_put_str(&o, WTAG_TRACEPARENT, w->traceparent, strlen(w->traceparent));
	wire_put_str(&o, WTAG_PROMPT, c->want, strlen(c->want));
	if (w->stream)
		wire_put_int(&o, WTAG_STREAM, 1);
	if (kind == WK_GENERATE && !w->endless)
		wire_put_int(&o, WTAG_MAX_TOKENS, 16);
	if (kind == WK_API)
	{
		wire_put_str(&o, WTAG_API_PATH, "/v1/chat/completions", 20);
		wire_put_str(&o, WTAG_API_BODY, w->body != NULL ? w->body : "{}",
					 w->body != NULL ? strlen(w->body) : 2);
	}
	net_put_role(&o, w);
	if (w->secret_urls)
		wire_put_int(&o, WTAG_SECRET_PATHS, WIRE_SECRET_MODEL);
	if (w->seed)
		wire_put_int(&o, WTAG_SEED, 1);
	if (w->fallback)
		wire_put_str(&o, WTAG_FALLBACK, "other", 5);
	if (w->stop_ids)
		wire_put_ints(&o, WTAG_STOP_TOKEN_IDS, (int32_t[]) {7}, 1);
	if (w->background)
		wire_put_int(&o, WTAG_BACKGROUND, 1);
	wire_put_int(&o, WTAG_PRIORITY, w->priority);
	c->request = dispatcher_submit(l, kind, b.data, b.len, w->deadline_us, 1234, c);
	return c;
}

static void
net_forget_clients(void)
{
	while (n_clients > 0)
		mem_free(clients[--n_clients]);
}

/* One iteration; returns us until the next event. */
static int64_t
net_poll(Dispatcher *l, Http *h)
{
	int64_t		a,
				b;

	http_poll(h);
	b = dispatcher_poll(l, net_now);
	a = net_next(h);
	return a < b ? a : b;
}

/* Let time pass until `us` are over or nothing is live. */
static void
net_run(Dispatcher *l, Http *h, int64_t us)
{
	int64_t		end = net_now + us;

	while (net_now < end)
	{
		int64_t		step = net_poll(l, h);

		if (dispatcher_live(l) == 0 && h->n == 0)
			return;
		if (step < 1)
			step = 1;
		net_now = end - net_now < step ? end : net_now + step;
	}
	net_poll(l, h);
}

/* ---- a test's own dispatcher ---- */

static Http http;

/* The next calls end as planned here, in order; later ones succeed. */
static NetPlan net_script[64];
static int	net_n_script,
			net_at_script;

/* Health checks aren't in the script: all of them end like this. */
static NetPlan net_check_plan;
static int	net_checks;

static inline NetPlan
net_by_script(const HttpRequest *r)
{
	if (net_is_check(r->url))
	{
		net_checks++;
		return net_check_plan;
	}
	return net_at_script < net_n_script ? net_script[net_at_script++] : net_default();
}

static inline NetPlan
net_status(int status, int64_t retry_after_ms)
{
	NetPlan		p = net_default();

	p.what = NET_STATUS;
	p.status = status;
	p.retry_after_ms = retry_after_ms;
	return p;
}

static inline void
net_add(NetDo what, int status, int64_t retry_after_ms)
{
	NetPlan		p = net_status(status, retry_after_ms);

	p.what = what;
	net_script[net_n_script++] = p;
}

/* Start with the test's own settings. */
static Dispatcher *
net_start(const RSettings *settings, NetPlan (*plan) (const HttpRequest *))
{
	memset(&http, 0, sizeof(http));
	net_n_script = net_at_script = net_checks = 0;
	net_check_plan = net_default();
	net_plan = plan;
	net_now += 1000000000;
	net_cancel_on_text = NULL;
	net_line = dispatcher_new(&http, settings, &net_sink);
	dispatcher_set_clock(net_line, net_clock);
	return net_line;
}

static void
net_stop(Dispatcher *l)
{
	dispatcher_free(l);
	CHECK(http.calls == NULL, "no call is left");
	net_forget_clients();
	roptions_forget();
}

#endif
