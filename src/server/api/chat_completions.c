/*
 * chat_completions.c
 *	  /v1/chat/completions.
 *
 * The last chunk of a streamed choice has its finish_reason.  Before the first text each choice has a
 * chunk with the role, as in OpenAI's API.  A tool call is sent while the model writes it: first its id
 * and name, then pieces of its arguments.
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "server/api/api_internal.h"

#define CHUNK	"chat.completion.chunk"

enum
{
	ROLE_ANSWER, ROLE_IDS
};

typedef struct Chat
{
	ApiGen		g;
	const char *echo;			/* text that each choice begins with; NULL = none */
} Chat;

static void
drop(ApiCall *a)
{
	Chat	   *k = a->own;

	if (k == NULL)
		return;
	apigen_free(&k->g);
	mem_free(k);
}

/* Read max_completion_tokens, or its older name; the default is the rest of the context. */
static bool
put_max_tokens(ApiCall *a, Chat *k, Err *e)
{
	int64_t		max = 0;
	WireOut		o = chan_out(&k->g.params);

	if (!apibody_int(&a->body, "max_tokens", 1, INT_MAX, &max, e) ||
		!apibody_int(&a->body, "max_completion_tokens", 1, INT_MAX, &max, e))
		return false;
	if (max > 0)
		wire_put_int(&o, WTAG_MAX_TOKENS, max);
	return true;
}

/* Read echo: the last message's text, if it is the assistant's. */
static bool
take_echo(ApiCall *a, Chat *k, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "messages");
	const Json *last = m != NULL && json_is_array(m->v) && m->v->child != NULL ? m->v->last : NULL;
	const Json *role = json_get(last, "role");
	const Json *content = json_get(last, "content");
	bool		echo = false;

	if (!apibody_bool(&a->body, "echo", &echo, e))
		return false;
	if (echo && json_is_string(role) && strcmp(role->s, "assistant") == 0 && json_is_string(content))
		k->echo = content->s;
	return true;
}

/* Read logprobs: whether they are wanted; top_logprobs: how many top tokens. */
static bool
read_logprobs(ApiCall *a, Chat *k, Err *e)
{
	bool		wanted = false;
	int64_t		top = 0;

	if (!apibody_bool(&a->body, "logprobs", &wanted, e) || !apibody_int(&a->body, "top_logprobs", -1, INT_MAX,
																		&top, e))
		return false;
	if (top != 0 && !wanted)
		return api_bad(e, "top_logprobs", "needs logprobs");
	if (wanted)
		k->g.logprobs = top;
	apigen_put_logprobs(&k->g);
	return true;
}

static bool
read_chat(ApiCall *a, Chat *k, Err *e)
{
	static const char *const refused[] = {"audio", "prediction", "web_search_options",
	"functions", "function_call", "return_prompt_text", NULL};
	static const char *const ignored[] = {"modalities", "verbosity", NULL};

	apibody_ignore(&a->body, ignored);
	return apibody_refuse(&a->body, refused, e) && take_echo(a, k, e) &&
		apigen_read(a, &k->g, e) && put_max_tokens(a, k, e) && read_logprobs(a, k, e);
}

static bool
make(ApiCall *a, Err *e)
{
	Chat	   *k = a->own;
	const char *effort = NULL;
	Buf			fields = {0};
	WireOut		o = chan_out(&fields);
	bool		ok;

	if (a->round == 0)
	{
		k = a->own = mem_zalloc(sizeof(Chat));
		if (!read_chat(a, k, e) || !api_check_tools(a, e))
			return false;
		k->g.sent = mem_zalloc((size_t) k->g.n * sizeof(int64_t));
	}
	ok = apibody_str(&a->body, "reasoning_effort", &effort, e) &&
		api_put_effort(&o, "reasoning_effort", effort, e) && api_chat_fields(a, &o, true, e) &&
		api_put_parsing(a, &o, e);
	if (ok && k->g.want_ids && a->round == 0)
	{
		ApiItem    *it = api_item(a, WK_TOKENIZE, ROLE_IDS, 0);

		buf_add(&it->in, fields.data, fields.len);
		o = api_out(it);
		apigen_put_truncation(&k->g, &o);
		a->more = true;
	}
	else if (ok)
		apigen_item(a, &k->g, 0, &fields, ROLE_ANSWER);
	buf_free(&fields);
	return ok;
}

/* Write the text after the echo; null if the choice has only reasoning or calls. */
static void
write_content(const Chat *k, const ApiAnswer *r, JsonOut *j)
{
	Buf			b = {0};

	if (k->echo != NULL)
		buf_addstr(&b, k->echo);
	buf_add(&b, r->text.s, r->text.n);
	json_key(j, "content");
	if (b.len == 0 && (r->reasoning.n > 0 || r->tool_calls.n > 0))
		json_null(j);
	else
		json_str(j, b.data != NULL ? b.data : "", b.len);
	buf_free(&b);
}

/* Write "reasoning". */
static void
write_reasoning(const ApiAnswer *r, JsonOut *j)
{
	json_key(j, "reasoning");
	json_str(j, r->reasoning.s, r->reasoning.n);
}

/* Write "tool_calls", if there are any. */
static void
write_calls(const ApiAnswer *r, JsonOut *j)
{
	if (r->tool_calls.n == 0)
		return;
	json_key(j, "tool_calls");
	json_raw(j, r->tool_calls.s, r->tool_calls.n);
}

static void
write_message(const Chat *k, const ApiAnswer *r, JsonOut *j)
{
	json_key(j, "message");
	json_open(j, '{');
	json_key_cstr(j, "role", "assistant");
	write_content(k, r, j);
	json_key_null(j, "refusal");
	json_key_null(j, "annotations");
	json_key_null(j, "audio");
	json_key_null(j, "function_call");
	if (r->reasoning.n > 0)
		write_reasoning(r, j);
	else
		json_key_null(j, "reasoning");
	write_calls(r, j);
	json_close(j, '}');
}

static void
write_logprobs(const Chat *k, const ApiEntries *entries, JsonOut *j)
{
	json_key(j, "logprobs");
	if (k->g.logprobs == API_NO_LOGPROBS || entries == NULL)
		json_null(j);
	else
		api_write_chat_logprobs(j, entries, (int) k->g.logprobs, k->g.as_ids);
}

static void
write_prompt_ids(const ApiCall *a, JsonOut *j)
{
	ApiReply	r;

	for (int i = 0; i < a->n_items; i++)
		if (a->items[i].role == ROLE_IDS)
		{
			apireply_read(&r, a->items[i].reply.data, a->items[i].reply.len);
			json_key(j, "prompt_token_ids");
			api_write_ids(j, &r.ids);
		}
}

static void
write_choice(const Chat *k, const ApiAnswer *r, JsonOut *j)
{
	json_open(j, '{');
	json_key_int(j, "index", r->index);
	write_message(k, r, j);
	write_logprobs(k, &r->entries, j);
	apigen_write_finish(j, &k->g, r);
	if (k->g.want_ids)
	{
		json_key(j, "token_ids");
		api_write_ids(j, &r->ids);
	}
	json_close(j, '}');
}

static bool
finish(ApiCall *a, JsonOut *j, Err *e)
{
	const Chat *k = a->own;
	const ApiItem *it = &a->items[a->n_items - 1];	/* the item before it has only the ids of the prompt */
	ApiUsage	u = api_usage(a, ROLE_ANSWER);
	ApiAnswers	r;

	(void) e;
	ASSERT(it->role == ROLE_ANSWER);
	apianswers_read(&r, it->reply.data, it->reply.len);
	json_open(j, '{');
	api_write_head(a, j, "chat.completion");
	json_key(j, "choices");
	json_open(j, '[');
	for (int i = 0; i < r.n; i++)
		write_choice(k, &r.a[i], j);
	json_close(j, ']');
	json_key_null(j, "service_tier");
	json_key_null(j, "system_fingerprint");
	json_key(j, "usage");
	api_write_usage(j, &u);
	if (k->g.prompt_logprobs != API_NO_LOGPROBS)
	{
		json_key(j, "prompt_logprobs");
		api_write_prompt_logprobs(j, &r.prompt);
	}
	if (k->g.want_ids)
		write_prompt_ids(a, j);
	json_close(j, '}');
	apianswers_free(&r);
	return true;
}

/* ---- streaming ---- */

/* Write a chunk with one choice, up to the members of its delta. */
static void
open_chunk(ApiCall *a, int index, JsonOut *j)
{
	json_open(j, '{');
	api_write_head(a, j, CHUNK);
	json_key(j, "choices");
	json_open(j, '[');
	json_open(j, '{');
	json_key_int(j, "index", index);
	json_key(j, "delta");
	json_open(j, '{');
}

/* r NULL: a choice's first chunk */
static void
close_chunk(ApiCall *a, const ApiItem *it, const ApiAnswer *r, JsonOut *j)
{
	const Chat *k = a->own;

	json_close(j, '}');
	write_logprobs(k, r != NULL && r->entries.counts.n > 0 ? &r->entries : NULL, j);
	apigen_write_finish(j, &k->g, r);
	if (k->g.want_ids && r != NULL)
	{
		json_key(j, "token_ids");
		api_write_ids(j, &r->ids);
	}
	json_close(j, '}');
	json_close(j, ']');
	apigen_chunk_usage(j, &k->g, it, r != NULL ? k->g.sent[r->index] : 0);
	if (k->g.want_ids && r == NULL)
		write_prompt_ids(a, j);
	json_close(j, '}');
}

/* Send the role of each choice, and the echo. */
static void
begin(ApiCall *a, const ApiItem *it)
{
	Chat	   *k = a->own;

	k->g.began = true;
	for (int i = 0; i < (int) k->g.n; i++)
	{
		Buf			out = {0};
		JsonOut		j = {.b = &out};

		open_chunk(a, i, &j);
		json_key_cstr(&j, "role", "assistant");
		json_key_cstr(&j, "content", k->echo != NULL ? k->echo : "");
		close_chunk(a, it, NULL, &j);
		api_chunk(a, &out);
		buf_free(&out);
	}
}

static void
put_delta(ApiCall *a, const ApiItem *it, const ApiAnswer *r)
{
	Chat	   *k = a->own;
	Buf			out = {0};
	JsonOut		j = {.b = &out};

	k->g.sent[r->index] += (int64_t) r->ids.n;
	open_chunk(a, r->index, &j);
	if (r->reasoning.n > 0)
		write_reasoning(r, &j);
	if (r->text.n > 0 || (r->finish_reason.s == NULL && r->reasoning.n == 0 && r->tool_calls.n == 0))
	{
		json_key(&j, "content");
		json_str(&j, r->text.s, r->text.n);
	}
	write_calls(r, &j);
	close_chunk(a, it, r, &j);
	api_chunk(a, &out);
	buf_free(&out);
}

static void
delta(ApiCall *a, ApiItem *it, const ApiAnswer *r)
{
	const Chat *k = a->own;

	ALWAYS(r->index >= 0 && r->index < k->g.n);	/* of g.sent */
	if (!k->g.began)
		begin(a, it);
	if (r->tool_calls.n > 0 && r->finish_reason.s != NULL)
	{
		/*
		 * In two chunks: OpenAI's client takes a call as complete if it began in a chunk before the last
		 * one.
		 */
		ApiAnswer	calls = *r;
		ApiAnswer	last = {.index = r->index,.finish_reason = r->finish_reason,
							.stop_reason = r->stop_reason};

		calls.finish_reason.s = calls.stop_reason.s = NULL;
		put_delta(a, it, &calls);
		put_delta(a, it, &last);
	}
	else
		put_delta(a, it, r);
}

static void
end(ApiCall *a)
{
	const Chat *k = a->own;
	ApiUsage	u = api_usage(a, ROLE_ANSWER);

	if (k->g.usage)
		apigen_usage_chunk(a, CHUNK, &u);
}

const ApiEndpoint api_chat = {
	.prefix = "chatcmpl-",.make = make,.finish = finish,.delta = delta,.end = end,.drop = drop
};
