/*
 * api_call.c
 *	  API calls: from a body to inner requests, and from their frames to a response.
 *
 * Frames of inner calls come on any thread; api_on_frame() puts them into the server's mailbox.  So
 * everything but reading the body and writing a long response happens on the server thread, in order.
 *
 * Tested by tests/unit/server/api/test_api.c, tests/sql/30_bodies.sql and tests/t/082_bodies.pl.
 */
#include "server/api/api_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "server/request/request.h"

#define INLINE_BODY		4096	/* bytes of a body that the server thread reads itself */
/* bytes of replies up to which the server thread writes the response itself */
#define INLINE_REPLY	65536

typedef struct ApiPath
{
	const char *path;
	const ApiEndpoint *ep;
} ApiPath;

static const ApiPath paths[] = {
#define API(path, name) {path, &api_##name},
#include "server/api/api.def"
#undef API
};

#define N_PATHS ((int) (sizeof(paths) / sizeof(paths[0])))

/* ---- for endpoints ---- */

static bool
is_word(StrView t, const char *word)
{
	return t.n == strlen(word) && memcmp(t.s, word, t.n) == 0;
}

bool
api_room(const ApiCall *a, size_t n, size_t shared, Err *e)
{
	size_t		most = API_MAX_SHARED / (n > 0 ? n : 1);

	shared += a->head.len;
	if (shared <= most)
		return true;
	err_set(e, ERR_TOO_LONG, "the request's body has %zu bytes for each of its %zu texts, more than %zu",
			shared, n, most);
	return err_hint(e, "Ask for fewer texts at once.");
}

WireOut
api_out(ApiItem *it)
{
	return chan_out(&it->in);
}

ApiItem *
api_item(ApiCall *a, WireKind kind, int role, int index)
{
	ApiItem    *it;

	a->fresh = mem_realloc(a->fresh, (size_t) (a->n_fresh + 1) * sizeof(ApiItem));
	it = &a->fresh[a->n_fresh++];
	memset(it, 0, sizeof(*it));
	it->kind = kind;
	it->role = role;
	it->index = index;
	buf_add(&it->in, a->head.data, a->head.len);
	return it;
}

void
api_make_id(ApiCall *a, const char *prefix, char *out, size_t size)
{
	unsigned char r[16] = {0};
	int			n = snprintf(out, size, "%s", prefix);

	(void) a;
	if (getrandom(r, sizeof(r), GRND_NONBLOCK) < 0)
		memcpy(r, &a->c->id, sizeof(a->c->id));
	for (int i = 0; i < 16 && n > 0 && (size_t) n + 2 < size; i++)
		n += snprintf(out + n, size - (size_t) n, "%02x", r[i]);
}

static void
api_warn(ApiCall *a, const char *fmt,...)
{
	char		text[512];
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_add(&a->warnings, text, strlen(text) + 1);
}

void
apireply_read(ApiReply *r, const char *fields, size_t n)
{
	WireIn		in = {.p = fields,.end = fields + n};
	WireField	f;

	memset(r, 0, sizeof(*r));
	r->fields = (StrView) {fields, n};
	r->rows = 1;
	r->prompt_tokens = r->completion_tokens = r->cached_tokens = r->reasoning_tokens = r->count =
		r->max_model_len = -1;
	while (wire_next(&in, &f) > 0)
		switch (f.tag)
		{
			case WTAG_TEXT:
				r->text = (StrView) {f.s, f.n};
				break;
			case WTAG_TOKEN_IDS:
				r->ids = f;
				break;
			case WTAG_FLOATS:
				r->floats = f;
				break;
			case WTAG_ROWS:
				r->rows = f.i;
				break;
			case WTAG_PROMPT_TOKENS:
				r->prompt_tokens = f.i;
				break;
			case WTAG_COMPLETION_TOKENS:
				r->completion_tokens = f.i;
				break;
			case WTAG_CACHED_TOKENS:
				r->cached_tokens = f.i;
				break;
			case WTAG_REASONING_TOKENS:
				r->reasoning_tokens = f.i;
				break;
			case WTAG_PREEMPTIONS:
				r->preemptions = f.i;
				break;
			case WTAG_DRAFT_TOKENS:
				r->draft_tokens = f.i;
				break;
			case WTAG_ACCEPTED_TOKENS:
				r->accepted_tokens = f.i;
				break;
			case WTAG_QUEUE_US:
				r->times.queue_us = f.i;
				break;
			case WTAG_PREFILL_US:
				r->times.prefill_us = f.i;
				break;
			case WTAG_DECODE_US:
				r->times.decode_us = f.i;
				break;
			case WTAG_E2E_US:
				r->times.total_us = f.i;
				break;
			case WTAG_COUNT:
				r->count = f.i;
				break;
			case WTAG_MAX_MODEL_LEN:
				r->max_model_len = f.i;
				break;
			default:
				break;
		}
}

ApiUsage
api_usage(const ApiCall *a, int role)
{
	ApiUsage	u = {.reasoning = -1};

	for (int i = 0; i < a->n_items; i++)
	{
		const ApiItem *it = &a->items[i];

		if (it->role != role)
			continue;
		if (it->reasoning_tokens >= 0)
			u.reasoning = (u.reasoning > 0 ? u.reasoning : 0) + it->reasoning_tokens;
		u.prompt += it->prompt_tokens;
		u.cached += it->cached_tokens;
		u.completion += it->completion_tokens;
	}
	return u;
}

void
api_write_usage(JsonOut *j, const ApiUsage *u)
{
	json_open(j, '{');
	json_key_int(j, "prompt_tokens", u->prompt);
	json_key_int(j, "total_tokens", u->prompt + u->completion);
	json_key_int(j, "completion_tokens", u->completion);
	json_key(j, "prompt_tokens_details");
	json_open(j, '{');
	json_key_int(j, "cached_tokens", u->cached);
	json_close(j, '}');
	if (u->reasoning >= 0)
	{
		json_key(j, "completion_tokens_details");
		json_open(j, '{');
		json_key_int(j, "reasoning_tokens", u->reasoning);
		json_close(j, '}');
	}
	json_close(j, '}');
}

void
api_chunk(ApiCall *a, const Buf *json)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	wire_put_str(&o, WTAG_TEXT, json->data, json->len);
	scall_frame(a->c, WF_TEXT, &b, true);
	buf_free(&b);
}

/* ---- end of a call ---- */

static void
cancel_items(ApiCall *a)
{
	for (int i = 0; i < a->n_items; i++)
	{
		ServerCall *in = a->items[i].conv;

		if (in == NULL || !scall_is_open(in))
			continue;
		/* as poll_slot() in server.c does: a running one is cancelled after it is closed */
		if (in->stage == SCALL_RUNNING)
			scall_drop(in);
		request_cancel(in);
		scall_drop(in);
	}
}

static void
put_warnings(const ApiCall *a, WireOut *o)
{
	for (size_t i = 0; i < a->warnings.len; i += strlen(a->warnings.data + i) + 1)
		wire_put_str(o, WTAG_API_WARNING, a->warnings.data + i, strlen(a->warnings.data + i));
}

/*
 * Write the usage of the inner requests, except those that only tokenize and detokenize; of the times,
 * the slowest request's.
 */
static void
put_usage(const ApiCall *a, WireOut *o)
{
	ApiUsage	u = {0};
	ApiTimes	t = {0};
	int64_t		preemptions = 0;
	int64_t		drafts = 0;
	int64_t		accepted = 0;

	for (int i = 0; i < a->n_items; i++)
	{
		const ApiItem *it = &a->items[i];

		if (it->kind != WK_GENERATE && it->kind != WK_POOL)
			continue;
		if (it->times.total_us > t.total_us)
			t = it->times;
		u.prompt += it->prompt_tokens;
		u.cached += it->cached_tokens;
		u.completion += it->completion_tokens;
		preemptions += it->preemptions;
		drafts += it->draft_tokens;
		accepted += it->accepted_tokens;
	}
	wire_put_int(o, WTAG_PREEMPTIONS, preemptions);
	wire_put_int(o, WTAG_DRAFT_TOKENS, drafts);
	wire_put_int(o, WTAG_ACCEPTED_TOKENS, accepted);
	wire_put_int(o, WTAG_PROMPT_TOKENS, u.prompt);
	wire_put_int(o, WTAG_CACHED_TOKENS, u.cached);
	wire_put_int(o, WTAG_COMPLETION_TOKENS, u.completion);
	if (t.total_us == 0)
		return;
	wire_put_int(o, WTAG_QUEUE_US, t.queue_us);
	wire_put_int(o, WTAG_PREFILL_US, t.prefill_us);
	wire_put_int(o, WTAG_DECODE_US, t.decode_us);
	wire_put_int(o, WTAG_E2E_US, t.total_us);
}

static void
end_with(ApiCall *a, const Buf *body, int status)
{
	Buf			b = {0};
	WireOut		o = chan_out(&b);

	a->over = true;
	put_usage(a, &o);
	if (body != NULL)
		wire_put_str(&o, WTAG_TEXT, body->data, body->len);
	wire_put_int(&o, WTAG_API_STATUS, status);
	put_warnings(a, &o);
	scall_end(a->c, WF_DONE, &b);
	buf_free(&b);
}

/* Bodies call the parameter vllm_xargs: rename it in an error about it.  Both names have the same length. */
static void
rename_extra_args(const Buf *fields)
{
	static const char name[] = "extra_args";
	const char *end = fields->data + fields->len;
	ApiError	e;

	api_error_read(&e, fields->data, fields->len);
	if (e.detail.n == 0 || memmem(e.detail.s, e.detail.n, "parameter=extra_args", 20) == NULL)
		return;
	for (char *at = fields->data; (at = memmem(at, (size_t) (end - at), name, strlen(name))) != NULL;
		 at += strlen(name))
		memcpy(at, "vllm_xargs", strlen(name));
}

/* fields: of a WF_ERROR frame. */
static void
fail_fields(ApiCall *a, const Buf *fields)
{
	ApiError	e;
	Buf			body = {0};

	if (a->over)
		return;
	a->over = true;
	cancel_items(a);
	rename_extra_args(fields);
	if (!a->req->as_body)
	{
		scall_end(a->c, WF_ERROR, fields);
		return;
	}
	api_error_read(&e, fields->data, fields->len);
	api_error_body(&e, a->ep != NULL && a->ep->anthropic, &body);
	end_with(a, &body, api_error_status(&e));
	buf_free(&body);
}

/* An invalid body counts as a failed request; the inner requests count themselves. */
static void
fail(ApiCall *a, const Err *e)
{
	Buf			fields = {0};

	if (!a->over && a->n_items == 0)
	{
		stats_early(a->srv->stats, false);
		stats_publish(a->srv->stats);
	}
	chan_put_error(&fields, e);
	fail_fields(a, &fields);
	buf_free(&fields);
}

void
api_cancel(ServerCall *c)
{
	if (c->api == NULL)
		return;
	c->api->over = true;
	cancel_items(c->api);
}

void
api_each(const ApiCall *a, void (*fn) (ServerCall *c, void *arg), void *arg)
{
	for (int i = 0; i < a->n_items; i++)
		if (a->items[i].conv != NULL)
			fn(a->items[i].conv, arg);
}

bool
api_free(ApiCall *a)
{
	for (int i = 0; i < a->n_items; i++)
		if (a->items[i].conv != NULL)
		{
			if (!server_try_free(a->items[i].conv))
				return false;
			a->items[i].conv = NULL;
		}
	if (atomic_load_explicit(&a->mail, memory_order_acquire) > 0)
		return false;
	ALWAYS(!a->c->job_busy);
	if (a->ep != NULL && a->ep->drop != NULL)
		a->ep->drop(a);
	for (int i = 0; i < a->n_items; i++)
		buf_free(&a->items[i].reply);
	for (int i = 0; i < a->n_fresh; i++)
		buf_free(&a->fresh[i].in);
	mem_free(a->items);
	mem_free(a->fresh);
	mem_free(a->model_lens);
	apibody_free(&a->body);
	buf_free(&a->head);
	buf_free(&a->warnings);
	mem_free(a);
	return true;
}

/* ---- frames of inner calls ---- */

typedef struct ApiMail
{
	Job			j;
	ApiCall    *a;
	int			item;
	int			kind;
	bool		final;
	Buf			fields;
} ApiMail;

static void items_ended(ApiCall *a);

/* Handle the new part of an item's choices. */
static void
item_text(ApiCall *a, ApiItem *it, const Buf *fields)
{
	ApiAnswers	r;

	apianswers_read(&r, fields->data, fields->len);
	for (int i = 0; i < r.n; i++)
		if (r.a[i].finish_reason.s == NULL || !is_word(r.a[i].finish_reason, "abort"))	/* an error follows */
			a->ep->delta(a, it, &r.a[i]);
	apianswers_free(&r);
}

static void
item_done(ApiCall *a, ApiItem *it, Buf *fields)
{
	ApiReply	r;

	ASSERT(!it->done && a->n_done < a->n_items);
	it->reply = *fields;
	memset(fields, 0, sizeof(*fields));
	it->done = true;
	a->n_done++;
	apireply_read(&r, it->reply.data, it->reply.len);
	it->prompt_tokens = r.prompt_tokens >= 0 ? r.prompt_tokens : 0;
	it->completion_tokens = r.completion_tokens >= 0 ? r.completion_tokens : 0;
	it->cached_tokens = r.cached_tokens >= 0 ? r.cached_tokens : 0;
	it->reasoning_tokens = r.reasoning_tokens;
	it->preemptions = r.preemptions;
	it->draft_tokens = r.draft_tokens;
	it->accepted_tokens = r.accepted_tokens;
	it->times = r.times;
	if (a->n_done == a->n_items)
		items_ended(a);
}

static void
item_accepted(ApiCall *a, ApiItem *it, const Buf *fields)
{
	ApiReply	r;

	scall_phase(a->c, WP_RUNNING);
	apireply_read(&r, fields->data, fields->len);
	it->prompt_tokens = r.prompt_tokens >= 0 ? r.prompt_tokens : 0;
}

static void
mail_done(Job *j)
{
	ApiMail    *m = (ApiMail *) j;
	ApiCall    *a = m->a;
	ApiItem    *it = &a->items[m->item];

	ALWAYS(m->item >= 0 && m->item < a->n_items);
	if (!a->over && !scall_is_active(a->c))
		a->over = true;
	if (!a->over)
		switch (m->kind)
		{
			case WF_ACCEPTED:
				item_accepted(a, it, &m->fields);
				break;
			case WF_PROGRESS:
				scall_frame(a->c, WF_PROGRESS, &m->fields, true);
				break;
			case WF_TEXT:
				item_text(a, it, &m->fields);
				break;
			case WF_DONE:
				item_done(a, it, &m->fields);
				break;
			case WF_ERROR:
				fail_fields(a, &m->fields);
				break;
			default:			/* closed without a frame: close the API call the same way */
				a->over = true;
				cancel_items(a);
				scall_drop(a->c);
				break;
		}
	buf_free(&m->fields);
	mem_free(m);
	/* release: the last access to the call */
	atomic_fetch_sub_explicit(&a->mail, 1, memory_order_release);
}

static void
api_on_frame(ServerCall *in, int kind, const Buf *fields, bool final)
{
	ApiCall    *a = in->emit_ctx;
	ApiMail    *m;

	if (kind == WF_PROGRESS && in->emit_item > 0)
		return;					/* all items wait for the same model */
	m = mem_zalloc(sizeof(ApiMail));
	m->j.done = mail_done;
	m->a = a;
	m->item = in->emit_item;
	m->kind = kind;
	m->final = final;
	if (fields != NULL)
		buf_add(&m->fields, fields->data, fields->len);
	atomic_fetch_add_explicit(&a->mail, 1, memory_order_relaxed);
	jobs_post(a->srv->jobs, &m->j);
}

/* Send the items that make() has added. */
static void
launch(ApiCall *a)
{
	int			from = a->n_items;
	int			to = from + a->n_fresh;

	/* each round begins when the items of the earlier ones have ended */
	ASSERT(a->n_done == a->n_items);
	scall_phase(a->c, WP_WAITING);
	a->items = mem_realloc(a->items, (size_t) to * sizeof(ApiItem));
	memcpy(a->items + from, a->fresh, (size_t) a->n_fresh * sizeof(ApiItem));
	a->n_fresh = 0;
	/* create all of them before the first one can end */
	for (int i = from; i < to; i++)
	{
		ApiItem    *it = &a->items[i];
		ServerCall *in = scall_new_inner(&a->srv->link, a->srv->next_id++, api_on_frame, a, i);

		in->srv = a->srv;
		in->ch.kind = it->kind;
		in->ch.deadline_us = a->c->ch.deadline_us;
		in->ch.timeout_ms = a->c->ch.timeout_ms;
		in->ch.in = it->in.data;
		in->ch.in_len = it->in.len;
		memset(&it->in, 0, sizeof(it->in));
		it->conv = in;
	}
	a->n_items = to;
	for (int i = from; i < to; i++)
		request_start(a->items[i].conv);
}

/* ---- reading and writing ---- */

typedef struct ApiJob
{
	Job			j;
	ApiCall    *a;
	bool		writes;			/* if false it reads */
	bool		ok;
	Buf			answer;
	Err			e;
} ApiJob;

/* Handle the members that the endpoint has not read. */
static bool
check_unknown(ApiCall *a, Err *e)
{
	if (a->req->unknown.s == NULL || is_word(a->req->unknown, "ignore"))
		return true;
	for (int i = 0; i < a->body.n; i++)
	{
		const ApiMember *m = &a->body.m[i];

		if (m->seen || json_is_null(m->v))
			continue;
		if (is_word(a->req->unknown, "error"))
		{
			err_set(e, ERR_INVALID, "unknown field \"%.64s\" in the request's body", m->v->key);
			err_detail(e, "parameter=%.64s", m->v->key);
			return err_hint(e, "With vllm.unknown_params = warn or ignore it would be ignored.");
		}
		api_warn(a, "unknown field \"%.64s\" in the request's body is ignored", m->v->key);
	}
	return true;
}

/* Read the members that all bodies may have. */
static bool
read_common(ApiCall *a, Err *e)
{
	const char *model = NULL;
	const char *id = NULL;
	bool		stream = a->stream;

	if (!apibody_str(&a->body, "model", &model, e) || !apibody_bool(&a->body, "stream", &stream, e) ||
		!apibody_str(&a->body, "request_id", &id, e))
		return false;
	if (stream && !a->stream)
	{
		api_bad(e, "stream", "must be false: this function answers at once");
		return err_hint(e, "llm_api_stream() and the functions whose names end with _stream stream.");
	}
	if (id != NULL && strlen(id) > API_MAX_ID)
		return api_bad(e, "request_id", "may have at most 64 bytes");
	if (id != NULL)
		snprintf(a->id, sizeof(a->id), "%.16s%.64s", a->ep->prefix, id);
	else
		api_make_id(a, a->ep->prefix, a->id, sizeof(a->id));
	return true;
}

static bool
read_body(ApiCall *a, Err *e)
{
	if (!apibody_read(&a->body, a->req->body.s, a->req->body.n, e) || !read_common(a, e))
		return false;
	return a->ep->make(a, e) && check_unknown(a, e);
}

static void
job_run(Job *j)
{
	ApiJob	   *t = (ApiJob *) j;
	ApiCall    *a = t->a;

	if (t->writes)
	{
		JsonOut		out = {.b = &t->answer};

		t->ok = a->ep->finish(a, &out, &t->e);
	}
	else if (a->round == 0)
		t->ok = read_body(a, &t->e);
	else
		t->ok = a->ep->make(a, &t->e);
	if (t->ok && a->n_items + a->n_fresh > API_MAX_ITEMS)
		t->ok = err_set(&t->e, ERR_TOO_LONG, "the request's body asks for more than %d answers",
						API_MAX_ITEMS);
}

static void
job_finish(ApiJob *t)
{
	ApiCall    *a = t->a;

	a->c->job_busy = false;
	if (a->over || !scall_is_active(a->c))
		a->over = true;
	else if (!t->ok)
		fail(a, &t->e);
	else if (t->writes)
		end_with(a, &t->answer, 200);
	else if (a->n_fresh == 0)
		items_ended(a);
	else
		launch(a);
	buf_free(&t->answer);
}

static void
job_done(Job *j)
{
	job_finish((ApiJob *) j);
	mem_free(j);
}

/* size: bytes to read or write */
static void
work(ApiCall *a, bool writes, size_t size, size_t at_once)
{
	ApiJob		now = {.j = {.run = job_run,.done = job_done},.a = a,.writes = writes};
	ApiJob	   *job;

	ALWAYS(!a->c->job_busy);	/* one job at a time uses the call */
	a->c->job_busy = true;
	if (size <= at_once)
	{
		job_run(&now.j);
		job_finish(&now);
		return;
	}
	job = mem_alloc(sizeof(ApiJob));
	*job = now;
	jobs_submit(a->srv->jobs, JQ_TEXT, &job->j);
}

/* All items that were launched have ended. */
static void
items_ended(ApiCall *a)
{
	size_t		size = 0;

	for (int i = 0; i < a->n_items; i++)
		size += a->items[i].reply.len;
	if (a->more)
	{
		a->more = false;
		a->round++;
		work(a, false, size + a->req->body.n, INLINE_BODY);
	}
	else if (a->stream)
	{
		a->ep->end(a);
		end_with(a, NULL, 200);
	}
	else
		work(a, true, size, INLINE_REPLY);
}

/* ---- beginning ---- */

/* Find the endpoint of a path, without its trailing slashes. */
static const ApiEndpoint *
find_endpoint(StrView path)
{
	while (path.n > 1 && path.s[path.n - 1] == '/')
		path.n--;
	for (int i = 0; i < N_PATHS; i++)
	{
		size_t		n = strlen(paths[i].path);

		if (is_word(path, paths[i].path))
			return paths[i].ep;
		if (paths[i].path[n - 1] == '*' && path.n >= n && memcmp(path.s, paths[i].path, n - 1) == 0)
			return paths[i].ep;
	}
	return NULL;
}

static bool
unknown_path(StrView path, Err *e)
{
	Buf			list = {0};

	for (int i = 0; i < N_PATHS; i++)
		buf_printf(&list, "%s%s", i > 0 ? ", " : "", paths[i].path);
	err_set(e, ERR_NOT_FOUND, "there is no endpoint \"%.*s\"", (int) (path.n < 128 ? path.n : 128),
			path.n > 0 ? path.s : "");
	err_hint(e, "Endpoints are %s.", list.data);
	buf_free(&list);
	return false;
}

/* Write the fields of the caller and of the model. */
static void
make_head(ApiCall *a, const Request *r)
{
	WireOut		o = chan_out(&a->head);

	wire_put_int(&o, WTAG_DATABASE, r->dboid);
	wire_put_int(&o, WTAG_ROLE, r->roleid);
	wire_put_int(&o, WTAG_SESSION, (int64_t) r->session);
	if (r->sleep_wait)
		wire_put_int(&o, WTAG_SLEEP_WAIT, 1);
	caller_put(&r->spec.by, &o);
	if (r->traceparent[0] != '\0')
		wire_put_str(&o, WTAG_TRACEPARENT, r->traceparent, strlen(r->traceparent));
	if (r->model[0] == '\0')
		return;
	wire_put_str(&o, WTAG_MODEL, r->model, strlen(r->model));
	if (r->path != NULL)
		wire_put_str(&o, WTAG_MODEL_PATH, r->path, strlen(r->path));
	if (r->options != NULL)
		wire_put_str(&o, WTAG_MODEL_OPTIONS, r->options, strlen(r->options));
	if (r->lora_path != NULL)
	{
		wire_put_str(&o, WTAG_LORA, r->lora, strlen(r->lora));
		wire_put_str(&o, WTAG_LORA_PATH, r->lora_path, strlen(r->lora_path));
	}
	if (r->secret_paths != 0)
		wire_put_int(&o, WTAG_SECRET_PATHS, r->secret_paths);
	if (r->pool.default_model)
		wire_put_int(&o, WTAG_DEFAULT_MODEL, 1);
}

/* Look up the context lengths of the models to be listed. */
static void
take_lens(ApiCall *a, uint32_t dboid)
{
	a->model_lens = mem_zalloc((size_t) (a->req->n_models + 1) * sizeof(int));
	for (int i = 0; i < a->req->n_models; i++)
	{
		const ApiModel *m = &a->req->models[i];
		StrView		base = m->parent.s != NULL ? m->parent : m->name;

		a->model_lens[i] = models_known_len(a->srv->models, dboid, base.s, base.n);
	}
}

static bool
check_call(const ApiCall *a, Err *e)
{
	if (a->ep == NULL)
		return unknown_path(a->req->path, e);
	if (!a->ep->lists_models && a->model[0] == '\0')
		return err_set(e, ERR_INTERNAL, "API call without a model");
	if (a->stream && a->ep->delta == NULL)
	{
		err_set(e, ERR_INVALID, "%.*s does not stream", (int) a->req->path.n, a->req->path.s);
		return err_detail(e, "parameter=stream");
	}
	return true;
}

void
api_start(ServerCall *c)
{
	ApiCall    *a = mem_zalloc(sizeof(ApiCall));
	Request    *r = c->req;
	Err			e;

	c->api = a;
	a->c = c;
	a->srv = c->srv;
	a->req = &r->api;
	a->stream = r->spec.stream;
	a->created = (int64_t) time(NULL);
	snprintf(a->model, sizeof(a->model), "%s", r->lora_path != NULL ? r->lora : r->model);
	a->ep = find_endpoint(r->api.path);
	if (r->api.sqlstate.s != NULL)
	{
		ApiError	given = {r->api.sqlstate, r->api.message, r->api.detail, r->api.hint};
		Buf			body = {0};

		api_error_body(&given, a->ep != NULL && a->ep->anthropic, &body);
		end_with(a, &body, api_error_status(&given));
		buf_free(&body);
		return;
	}
	if (!check_call(a, &e))
	{
		fail(a, &e);
		return;
	}
	make_head(a, r);
	if (a->ep->lists_models)
		take_lens(a, r->dboid);
	work(a, false, r->api.body.n, INLINE_BODY);
}
