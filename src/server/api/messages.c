/*
 * messages.c
 *	  Anthropic's /v1/messages and /v1/messages/count_tokens.
 *
 * Blocks become messages in the format of chat templates: a system prompt is a message of its own, a
 * tool_result a message of the role "tool", a tool_use a tool call of the assistant, thinking the
 * assistant's "reasoning".
 *
 * Tested by tests/unit/server/api/test_api.c and tests/sql/30_bodies.sql.
 */
#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "server/api/api_internal.h"
#include "server/api/content_parts.h"

/* The open block of a streamed message. */
typedef enum Block
{
	BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_CALL
} Block;

typedef struct Messages
{
	ApiGen		g;
	bool		calls;			/* the output has a tool_use */
	/* streaming */
	bool		began;			/* message_start has been sent */
	Block		block;
	int			n_blocks;		/* closed blocks */
	Buf			input;			/* BLOCK_CALL: its input so far */
	bool		as_text;		/* the last call's arguments are not an object, so they are sent as text */
	Buf			stop;			/* stop_reason and stop_sequence, as JSON */
} Messages;

static void
drop(ApiCall *a)
{
	Messages   *k = a->own;

	if (k == NULL)
		return;
	apigen_free(&k->g);
	buf_free(&k->input);
	buf_free(&k->stop);
	mem_free(k);
}

/* ---- messages ---- */

static bool
is_type(const Json *block, const char *type)
{
	const char *t = api_str(block, "type");

	return t != NULL && strcmp(t, type) == 0;
}

static bool
bad_block(const Json *block, Err *e)
{
	const char *type = api_str(block, "type");

	if (type == NULL)
		return api_bad(e, "messages", "have a content that is neither a text nor blocks with a type");
	if (strcmp(type, "text") == 0 || strcmp(type, "thinking") == 0)
		return api_bad(e, "messages", "have a block without its text");
	if (strcmp(type, "tool_use") == 0)
		return api_bad(e, "messages", "have a tool_use without an id, a name or an input that is an object");
	if (strcmp(type, "tool_result") == 0)
		return api_bad(e, "messages", "have a tool_result without a tool_use_id");
	err_set(e, ERR_UNSUPPORTED, "content blocks of the type \"%.64s\" are not supported", type);
	return err_detail(e, "parameter=messages");
}

static const char *
text_of_block(const Json *block)
{
	return is_type(block, "text") ? api_str(block, "text") : NULL;
}

/* Join the text of a string or of text blocks; without any, *out stays empty. */
static bool
join_texts(const Json *content, Buf *out, Err *e)
{
	const Json *bad;

	return content == NULL || json_is_null(content) ||
		content_join(content, text_of_block, "\n", out, &bad) || bad_block(bad, e);
}

/* Write {"type": "tool_result", "tool_use_id": ..., "content": ...} as a message. */
static bool
write_tool_result(const Json *block, JsonOut *j, Err *e)
{
	Buf			text = {0};
	bool		ok;

	if (api_str(block, "tool_use_id") == NULL)
		return bad_block(block, e);
	ok = join_texts(json_get(block, "content"), &text, e);
	if (ok)
		content_write_tool_result(j, api_str(block, "tool_use_id"), &text);
	buf_free(&text);
	return ok;
}

/* Write a user's message: first the tool results, then the text. */
static bool
write_user(const Json *content, JsonOut *j, Err *e)
{
	bool		says = false;

	if (content->child == NULL)
		return api_bad(e, "messages", "must not be empty");
	for (const Json *v = content->child; v != NULL; v = v->next)
	{
		if (!is_type(v, "tool_result"))
			says = true;
		else if (!write_tool_result(v, j, e))
			return false;
	}
	if (!says)
		return true;
	json_open(j, '{');
	json_key_cstr(j, "role", "user");
	json_key(j, "content");
	json_open(j, '[');
	for (const Json *v = content->child; v != NULL; v = v->next)
	{
		if (is_type(v, "tool_result"))
			continue;
		if (!is_type(v, "text") || api_str(v, "text") == NULL)
			return bad_block(v, e);
		json_open(j, '{');
		json_key_cstr(j, "type", "text");
		json_key_cstr(j, "text", api_str(v, "text"));
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
	return true;
}

/* Add {"type": "tool_use", "id": ..., "name": ..., "input": {...}}.  raw: the block, unparsed. */
static bool
add_tool_use(AssistantParts *p, const Json *block, StrView raw, Err *e)
{
	StrView		input = api_raw_member(raw, "input");

	if (api_str(block, "id") == NULL || api_str(block, "name") == NULL ||
		!json_is_object(json_get(block, "input")))
		return bad_block(block, e);
	content_add_call(p, api_str(block, "id"), api_str(block, "name"), input.s != NULL ? input.s : "{}",
					 input.s != NULL ? input.n : 2);
	return true;
}

/* Write an assistant's message with its text, reasoning and tool calls. */
static bool
write_assistant(const Json *content, StrView raw, JsonOut *j, Err *e)
{
	AssistantParts p = {0};
	JsonMembers m;
	StrView		block;
	bool		ok = true;

	(void) json_elements(&m, raw.s, raw.n);
	for (const Json *v = content->child; v != NULL && ok && json_element(&m, &block) > 0; v = v->next)
	{
		if (is_type(v, "text") && api_str(v, "text") != NULL)
			buf_addstr(&p.text, api_str(v, "text"));
		else if (is_type(v, "thinking") && api_str(v, "thinking") != NULL)
			buf_addstr(&p.thought, api_str(v, "thinking"));
		else if (is_type(v, "tool_use"))
			ok = add_tool_use(&p, v, block, e);
		else if (!is_type(v, "redacted_thinking"))
			ok = bad_block(v, e);
	}
	p.said = p.text.len > 0;
	content_write_assistant(j, &p);
	content_free(&p);
	return ok;
}

/* raw: the message, unparsed */
static bool
write_message(const Json *m, StrView raw, JsonOut *j, Err *e)
{
	const char *role = api_str(m, "role");
	const Json *content = json_get(m, "content");
	Buf			text = {0};
	bool		ok;

	if (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
						 strcmp(role, "system") != 0))
		return api_bad(e, "messages", "must each have the role \"user\" or \"assistant\"");
	if (json_is_array(content) && strcmp(role, "user") == 0)
		return write_user(content, j, e);
	if (json_is_array(content) && strcmp(role, "assistant") == 0)
		return write_assistant(content, api_raw_member(raw, "content"), j, e);
	if (!json_is_string(content) && !json_is_array(content))
		return bad_block(NULL, e);
	ok = join_texts(content, &text, e);
	content_write_message(j, role, text.data, text.len);
	buf_free(&text);
	return ok;
}

static bool
put_messages(ApiCall *a, WireOut *o, Err *e)
{
	const ApiMember *messages = apibody_get(&a->body, "messages");
	const ApiMember *system = apibody_get(&a->body, "system");
	JsonMembers each;
	StrView		raw;
	Buf			out = {0};
	Buf			text = {0};
	JsonOut		j = {.b = &out};
	bool		ok = true;

	if (messages == NULL || !json_is_array(messages->v) || messages->v->child == NULL)
		return api_bad(e, "messages", "must be an array of at least one message");
	json_open(&j, '[');
	if (system != NULL && !json_is_string(system->v) && !json_is_array(system->v))
		ok = api_bad(e, "system", "must be a string or an array of text blocks");
	if (ok && system != NULL && (ok = join_texts(system->v, &text, e)) && text.len > 0)
		content_write_message(&j, "system", text.data, text.len);
	(void) json_elements(&each, messages->raw.s, messages->raw.n);
	for (const Json *m = messages->v->child; m != NULL && ok && json_element(&each, &raw) > 0; m = m->next)
		ok = write_message(m, raw, &j, e);
	json_close(&j, ']');
	if (ok)
		wire_put_str(o, WTAG_MESSAGES, out.data, out.len);
	buf_free(&out);
	buf_free(&text);
	return ok;
}

/* ---- the request ---- */

/* Read output_config: {"effort": ..., "format": ...}. */
static bool
put_effort(ApiCall *a, WireOut *o, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "output_config");

	if (m != NULL && !json_is_object(m->v))
		return api_bad(e, "output_config", "must be an object");
	return m == NULL || api_put_effort(o, "output_config.effort", api_str(m->v, "effort"), e);
}

/*
 * Read {"type": "enabled", "budget_tokens": 1024}.  The template decides whether the model reasons at
 * all (chat_template_kwargs).
 */
static bool
put_thinking(const Json *thinking, WireOut *o, Err *e)
{
	const Json *budget = json_get(thinking, "budget_tokens");

	if (is_type(thinking, "disabled") || is_type(thinking, "adaptive"))
		return true;
	if (!is_type(thinking, "enabled"))
		return api_bad(e, "thinking", "must have the type enabled, disabled or adaptive");
	if (budget == NULL || json_is_null(budget))
		return true;
	if (!json_is_number(budget) || !(budget->num >= 0 && budget->num <= INT_MAX) ||
		budget->num != (double) (int) budget->num)
		return api_bad(e, "thinking.budget_tokens", "must be an integer that is not negative");
	wire_put_int(o, WTAG_THINKING_TOKEN_BUDGET, (int64_t) budget->num);
	return true;
}

/* Read the members that both endpoints have. */
static bool
put_chat(ApiCall *a, WireOut *o, Err *e)
{
	static const char *const ignored[] = {"metadata", "service_tier", "cache_control", NULL};
	static const char *const refused[] = {"container", "mcp_servers", "context_management", NULL};
	const ApiMember *kwargs = apibody_get(&a->body, "chat_template_kwargs");
	const ApiMember *thinking = apibody_get(&a->body, "thinking");

	apibody_ignore(&a->body, ignored);
	if (!apibody_refuse(&a->body, refused, e))
		return false;
	if (thinking != NULL && !put_thinking(thinking->v, o, e))
		return false;
	if (kwargs != NULL)
		wire_put_str(o, WTAG_CHAT_KWARGS, kwargs->raw.s, kwargs->raw.n);
	wire_put_int(o, WTAG_GENERATION_PROMPT, 1);
	return put_messages(a, o, e) && put_effort(a, o, e) && api_put_anthropic_tools(a, o, e);
}

/*
 * Read output_config: {"format": {"type": "json_schema", "schema": {...}}}, or its format as
 * output_format.
 */
static bool
put_format(ApiCall *a, WireOut *o, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "output_config");
	const ApiMember *first = apibody_get(&a->body, "output_format");
	const Json *format = m != NULL ? json_get(m->v, "format") : NULL;
	StrView		raw = {0};
	StrView		schema;
	Buf			text = {0};

	if (format != NULL && !json_is_null(format))
		raw = api_raw_member((StrView) {m->raw.s, m->raw.n}, "format");
	if (first != NULL && !json_is_null(first->v))
	{
		if (raw.s != NULL)
			return api_bad(e, "output_format", "can't be given beside a format in output_config");
		format = first->v;
		raw = (StrView) {first->raw.s, first->raw.n};
	}
	if (raw.s == NULL)
		return true;
	schema = api_raw_member(raw, "schema");
	if (!is_type(format, "json_schema") || schema.s == NULL)
	{
		if (first != NULL && format == first->v)
			return api_bad(e, "output_format", "must be of the type \"json_schema\", with a schema");
		return api_bad(e, "output_config", "must have a format of the type \"json_schema\", with a schema");
	}
	buf_addstr(&text, "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"output\",\"schema\":");
	buf_add(&text, schema.s, schema.n);
	buf_addstr(&text, "}}");
	wire_put_str(o, WTAG_RESPONSE_FORMAT, text.data, text.len);
	buf_free(&text);
	return true;
}

static bool
put_sampling(ApiCall *a, Messages *k, Err *e)
{
	const ApiMember *stops = apibody_get(&a->body, "stop_sequences");
	int64_t		max = 0;
	WireOut		o = chan_out(&k->g.params);

	if (!apibody_int(&a->body, "max_tokens", 1, INT_MAX, &max, e))
		return false;
	if (max == 0)
		return api_bad(e, "max_tokens", "must be given");
	if (!apigen_read(a, &k->g, e) || !put_format(a, &o, e))
		return false;
	if (k->g.n != 1)
		return api_bad(e, "n", "must be 1");
	wire_put_int(&o, WTAG_MAX_TOKENS, max);
	if (stops == NULL)
		return true;
	if (!json_is_array(stops->v))
		return api_bad(e, "stop_sequences", "must be an array of strings");
	k->g.stop = stops->v;
	for (const Json *v = stops->v->child; v != NULL; v = v->next)
	{
		if (!json_is_string(v))
			return api_bad(e, "stop_sequences", "must be an array of strings");
		wire_put_str(&o, WTAG_STOP, v->s, strlen(v->s));
	}
	return true;
}

static bool
make(ApiCall *a, Err *e)
{
	Messages   *k = a->own = mem_zalloc(sizeof(Messages));
	Buf			fields = {0};
	WireOut		o = chan_out(&fields);
	bool		ok = put_sampling(a, k, e) && put_chat(a, &o, e);

	if (ok)
		apigen_item(a, &k->g, 0, &fields, 0);
	buf_free(&fields);
	return ok;
}

/* ---- response ---- */

static bool
is_word(StrView t, const char *word)
{
	return t.n == strlen(word) && memcmp(t.s, word, t.n) == 0;
}

/*
 * calls: the output has a tool call; set also for calls that tool_choice has forced, for which a chat's
 * finish_reason is not tool_calls.
 */
static const char *
stop_reason(const ApiAnswer *r, bool calls)
{
	return is_word(r->finish_reason, "length") ? "max_tokens" : calls ? "tool_use" : "end_turn";
}

/* r NULL: not finished */
static void
write_stop(const Messages *k, const ApiAnswer *r, JsonOut *j)
{
	bool		sequence = r != NULL && r->stop_reason.s != NULL && apigen_is_stop(k->g.stop, r->stop_reason);

	json_key_cstr(j, "stop_reason", r == NULL ? NULL : sequence ? "stop_sequence" : stop_reason(r, k->calls));
	json_key(j, "stop_sequence");
	if (sequence)
		json_str(j, r->stop_reason.s, r->stop_reason.n);
	else
		json_null(j);
}

static void
write_usage(const ApiItem *it, int64_t output, JsonOut *j)
{
	json_key(j, "usage");
	json_open(j, '{');
	json_key_int(j, "input_tokens", it->prompt_tokens);
	json_key_int(j, "output_tokens", output);
	json_key_null(j, "cache_creation_input_tokens");
	json_key_int(j, "cache_read_input_tokens", it->cached_tokens);
	json_close(j, '}');
}

static void
open_message(const ApiCall *a, JsonOut *j)
{
	json_open(j, '{');
	json_key_cstr(j, "id", a->id);
	json_key_cstr(j, "type", "message");
	json_key_cstr(j, "role", "assistant");
	json_key_cstr(j, "model", a->model);
	json_key(j, "content");
	json_open(j, '[');
}

/* Are the arguments of a call an object?  If not, the call can't be a tool_use. */
static bool
is_object(const char *arguments)
{
	Json	   *v = json_parse(arguments, strlen(arguments));
	bool		object = json_is_object(v);

	json_free(v);
	return object;
}

static void
write_text(JsonOut *j, const char *s, size_t n)
{
	json_open(j, '{');
	json_key_cstr(j, "type", "text");
	json_key(j, "text");
	json_str(j, s, n);
	json_key_null(j, "citations");
	json_close(j, '}');
}

static void
write_thinking(JsonOut *j, const char *s, size_t n)
{
	json_open(j, '{');
	json_key_cstr(j, "type", "thinking");
	json_key(j, "thinking");
	json_str(j, s, n);
	json_key_cstr(j, "signature", "");
	json_close(j, '}');
}

static void
write_call(JsonOut *j, const Json *call, const char *input)
{
	json_open(j, '{');
	json_key_cstr(j, "type", "tool_use");
	json_key_cstr(j, "id", api_call_id(call));
	json_key_cstr(j, "name", api_call_name(call));
	json_key(j, "input");
	json_raw(j, input, strlen(input));
	json_close(j, '}');
}

/* Write the collected text as a block. */
static void
flush_text(JsonOut *j, Buf *text)
{
	if (text->len > 0)
		write_text(j, text->data, text->len);
	buf_reset(text);
}

/* Write text and calls in their order; arguments that are not an object become text. */
static void
write_blocks(Messages *k, const ApiAnswer *r, JsonOut *j)
{
	Json	   *list = api_calls(r->tool_calls);
	Buf			text = {0};
	size_t		shown = 0;
	StrView		rest;
	int			i = 0;

	for (const Json *v = list != NULL ? list->child : NULL; v != NULL; v = v->next)
	{
		const char *arguments = api_call_arguments(v);
		StrView		before = api_text_before(r, i++, &shown);

		buf_add(&text, before.s, before.n);
		if (is_object(arguments))
		{
			flush_text(j, &text);
			write_call(j, v, arguments);
			k->calls = true;
		}
		else
			buf_addstr(&text, arguments);
	}
	rest = api_text_after(r, shown);
	buf_add(&text, rest.s, rest.n);
	flush_text(j, &text);
	json_free(list);
	buf_free(&text);
}

static bool
finish(ApiCall *a, JsonOut *j, Err *e)
{
	Messages   *k = a->own;
	const ApiItem *it = &a->items[0];
	ApiAnswers	all;
	ApiAnswer	r = {0};

	(void) e;
	apianswers_read(&all, it->reply.data, it->reply.len);
	if (all.n > 0)
		r = all.a[0];
	open_message(a, j);
	if (r.reasoning.n > 0)
		write_thinking(j, r.reasoning.s, r.reasoning.n);
	if (r.text.n == 0 && r.reasoning.n == 0 && r.tool_calls.n == 0)
		write_text(j, "", 0);
	write_blocks(k, &r, j);
	json_close(j, ']');
	write_stop(k, &r, j);
	write_usage(it, it->completion_tokens, j);
	json_close(j, '}');
	apianswers_free(&all);
	return true;
}

/* ---- streaming ---- */

static void
open_event(JsonOut *j, const char *type)
{
	json_open(j, '{');
	json_key_cstr(j, "type", type);
}

static void
send_event(ApiCall *a, JsonOut *j)
{
	json_close(j, '}');
	api_chunk(a, j->b);
	buf_reset(j->b);
	j->comma = false;
}

static void
begin_message(ApiCall *a, const ApiItem *it, JsonOut *j)
{
	Messages   *k = a->own;

	k->began = true;
	open_event(j, "message_start");
	json_key(j, "message");
	open_message(a, j);
	json_close(j, ']');
	write_stop(k, NULL, j);
	write_usage(it, 0, j);
	json_close(j, '}');
	send_event(a, j);
}

static void
open_delta(const Messages *k, const char *type, const char *key, JsonOut *j)
{
	open_event(j, "content_block_delta");
	json_key_int(j, "index", k->n_blocks);
	json_key(j, "delta");
	json_open(j, '{');
	json_key_cstr(j, "type", type);
	json_key(j, key);
}

static void
close_delta(ApiCall *a, JsonOut *j)
{
	json_close(j, '}');
	send_event(a, j);
}

/* End the open block, if there is one.  If the call was cut, or was no call, its input is invalid JSON. */
static void
end_block(ApiCall *a, JsonOut *j)
{
	Messages   *k = a->own;

	if (k->block == BLOCK_NONE)
		return;
	if (k->block == BLOCK_CALL)
		k->calls |= k->input.len > 0 && is_object(k->input.data);
	if (k->block == BLOCK_THINKING)
	{
		open_delta(k, "signature_delta", "signature", j);
		json_cstr(j, "");
		close_delta(a, j);
	}
	open_event(j, "content_block_stop");
	json_key_int(j, "index", k->n_blocks++);
	send_event(a, j);
	k->block = BLOCK_NONE;
}

/* call: for a BLOCK_CALL */
static void
begin_block(ApiCall *a, Block block, const Json *call, JsonOut *j)
{
	Messages   *k = a->own;

	if (k->block == block && block != BLOCK_CALL)
		return;
	end_block(a, j);
	k->block = block;
	open_event(j, "content_block_start");
	json_key_int(j, "index", k->n_blocks);
	json_key(j, "content_block");
	if (block == BLOCK_TEXT)
		write_text(j, "", 0);
	else if (block == BLOCK_THINKING)
		write_thinking(j, "", 0);
	else
		write_call(j, call, "{}");
	send_event(a, j);
}

static void
add_text(ApiCall *a, Block block, const char *s, size_t n, JsonOut *j)
{
	begin_block(a, block, NULL, j);
	if (n == 0)
		return;
	if (block == BLOCK_TEXT)
		open_delta(a->own, "text_delta", "text", j);
	else
		open_delta(a->own, "thinking_delta", "thinking", j);
	json_str(j, s, n);
	close_delta(a, j);
}

/* Send more of a call's arguments. */
static void
add_input(ApiCall *a, const char *arguments, JsonOut *j)
{
	Messages   *k = a->own;

	if (k->as_text)
		add_text(a, BLOCK_TEXT, arguments, strlen(arguments), j);
	else if (k->block == BLOCK_CALL)
	{
		buf_addstr(&k->input, arguments);
		open_delta(k, "input_json_delta", "partial_json", j);
		json_cstr(j, arguments);
		close_delta(a, j);
	}
}

static void
begin_call(ApiCall *a, const Json *call, JsonOut *j)
{
	Messages   *k = a->own;
	const char *arguments = api_call_arguments(call);

	k->as_text = arguments[0] != '{';
	if (!k->as_text)
	{
		begin_block(a, BLOCK_CALL, call, j);
		buf_reset(&k->input);
	}
	add_input(a, arguments, j);
}

static void
delta(ApiCall *a, ApiItem *it, const ApiAnswer *r)
{
	Messages   *k = a->own;
	Json	   *calls = api_calls(r->tool_calls);
	const Json *v = calls != NULL ? calls->child : NULL;
	Buf			out = {0};
	JsonOut		j = {.b = &out};
	size_t		shown = 0;
	StrView		text;
	int			i = 0;

	if (!k->began)
		begin_message(a, it, &j);
	/* first the elements that continue the open call */
	for (; v != NULL && api_call_id(v) == NULL; v = v->next, i++)
		add_input(a, api_call_arguments(v), &j);
	if (r->reasoning.n > 0)
		add_text(a, BLOCK_THINKING, r->reasoning.s, r->reasoning.n, &j);
	for (; v != NULL; v = v->next)
	{
		text = api_text_before(r, i++, &shown);
		if (text.n > 0)
			add_text(a, BLOCK_TEXT, text.s, text.n, &j);
		begin_call(a, v, &j);
	}
	text = api_text_after(r, shown);
	if (text.n > 0)
		add_text(a, BLOCK_TEXT, text.s, text.n, &j);
	if (r->finish_reason.s != NULL)
	{
		/* an empty output is an empty text block */
		if (k->block == BLOCK_NONE && k->n_blocks == 0)
			begin_block(a, BLOCK_TEXT, NULL, &j);
		end_block(a, &j);
		/* sent later, together with the usage; a message is one output, which ends once */
		ASSERT(out.len == 0 && k->stop.len == 0);
		json_open(&j, '{');
		write_stop(k, r, &j);
		json_close(&j, '}');
		buf_add(&k->stop, out.data, out.len);
	}
	json_free(calls);
	buf_free(&out);
}

static void
end(ApiCall *a)
{
	const Messages *k = a->own;
	const ApiItem *it = &a->items[0];
	Buf			out = {0};
	JsonOut		j = {.b = &out};

	open_event(&j, "message_delta");
	json_key(&j, "delta");
	if (k->stop.len > 0)
		json_raw(&j, k->stop.data, k->stop.len);
	else
		json_null(&j);
	write_usage(it, it->completion_tokens, &j);
	send_event(a, &j);
	open_event(&j, "message_stop");
	send_event(a, &j);
	buf_free(&out);
}

const ApiEndpoint api_messages = {
	.prefix = "msg_",.anthropic = true,.make = make,.finish = finish,.delta = delta,.end = end,.drop = drop
};

/* ---- count_tokens ---- */

static bool
count_make(ApiCall *a, Err *e)
{
	WireOut		o = api_out(api_item(a, WK_TOKENIZE, 0, 0));

	wire_put_int(&o, WTAG_WANT_IDS, 0);
	return put_chat(a, &o, e);
}

static bool
count_finish(ApiCall *a, JsonOut *j, Err *e)
{
	ApiReply	r;

	(void) e;
	apireply_read(&r, a->items[0].reply.data, a->items[0].reply.len);
	json_open(j, '{');
	json_key_int(j, "input_tokens", r.count);
	json_close(j, '}');
	return true;
}

const ApiEndpoint api_count_tokens = {.prefix = "count-",.anthropic = true,.make = count_make,
									  .finish = count_finish};
