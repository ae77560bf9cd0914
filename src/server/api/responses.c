/*
 * responses.c
 *	  /v1/responses, and /v1/responses/ID of a response that the backend has stored.
 *
 * Items become messages in the format of chat templates: adjacent items of reasoning, text and calls
 * become one message of the assistant.  With previous_response_id, the backend sends the previous items
 * along (API_PREVIOUS: an array of items).  It also stores the response, and for /v1/responses/ID sends
 * the stored one.
 *
 * A streamed response has one item after the other: reasoning, the message, calls.
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

/* The open item of a streamed response. */
typedef enum ResponsesPart
{
	PART_NONE, PART_REASONING, PART_TEXT, PART_CALL
} ResponsesPart;

/* A function call without its arguments. */
typedef struct Called
{
	char		item_id[API_ID_LEN];
	Buf			id;
	Buf			name;
} Called;

typedef struct Responses
{
	ApiGen		g;
	char		message_id[API_ID_LEN];
	char		reasoning_id[API_ID_LEN];
	bool		want_logprobs;	/* include: message.output_text.logprobs */
	/* streaming */
	ResponsesPart part;
	int			n_parts;		/* completed items */
	int64_t		sequence;
	Buf			text;			/* text of the open item */
	Called		called;			/* PART_CALL */
	Buf			logprobs;		/* JSON elements for the tokens of the open item, separated by commas */
	size_t		n_sent;			/* bytes of these that have been sent in deltas */
	Buf			output;			/* completed items, separated by commas */
	bool		cut;			/* it has ended at the token limit */
} Responses;

static void
drop(ApiCall *a)
{
	Responses  *k = a->own;

	if (k == NULL)
		return;
	apigen_free(&k->g);
	buf_free(&k->text);
	buf_free(&k->called.id);
	buf_free(&k->called.name);
	buf_free(&k->logprobs);
	buf_free(&k->output);
	mem_free(k);
}

/* ---- items ---- */

static bool
bad_item(const char *what, const char *type, Err *e)
{
	err_set(e, ERR_UNSUPPORTED, "%s of the type \"%.64s\" are not supported", what, type);
	return err_detail(e, "parameter=input");
}

static const char *
text_of_part(const Json *part)
{
	const char *text = api_str(part, "text");

	return text != NULL ? text : api_str(part, "refusal");
}

/* Join the texts of a string or of text parts. */
static bool
join_parts(const Json *content, Buf *out, Err *e)
{
	const Json *bad;

	if (content_join(content, text_of_part, "", out, &bad))
		return true;
	if (bad == NULL)
		return api_bad(e, "input", "has an item without content");
	return bad_item("content parts", api_str(bad, "type") != NULL ? api_str(bad, "type") : "", e);
}

/* Adjacent items of the assistant's reasoning, text and calls, which become one message. */
typedef struct Turn
{
	AssistantParts p;
	bool		open;
} Turn;

static void
end_turn(Turn *t, JsonOut *j)
{
	if (t->open)
		content_write_assistant(j, &t->p);
	content_free(&t->p);
	t->open = false;
}

static bool
turn_thinks(Turn *t, const Json *item, JsonOut *j, Err *e)
{
	const Json *content = json_get(item, "content");

	if (api_str(item, "encrypted_content") != NULL)
		return bad_item("items with encrypted_content", "reasoning", e);
	if (!json_is_array(content))
		return true;
	if (t->p.said || t->p.calls.len > 0)
		end_turn(t, j);
	t->open = true;
	return join_parts(content, &t->p.thought, e);
}

static bool
turn_says(Turn *t, const Json *content, JsonOut *j, Err *e)
{
	if (t->p.said || t->p.calls.len > 0)
		end_turn(t, j);
	t->open = t->p.said = true;
	return join_parts(content, &t->p.text, e);
}

static bool
turn_calls(Turn *t, const Json *item, Err *e)
{
	const char *id = api_str(item, "call_id");
	const char *name = api_str(item, "name");
	const char *arguments = api_str(item, "arguments");

	if (id == NULL || name == NULL || arguments == NULL)
		return api_bad(e, "input", "has a function_call without call_id, name or arguments");
	t->open = true;
	content_add_call(&t->p, id, name, arguments, strlen(arguments));
	return true;
}

static bool
write_said(const char *role, const Json *content, JsonOut *j, Err *e)
{
	Buf			text = {0};
	bool		ok = join_parts(content, &text, e);

	if (ok)
		content_write_message(j, role, text.data, text.len);
	buf_free(&text);
	return ok;
}

static bool
write_call_output(const Json *item, JsonOut *j, Err *e)
{
	Buf			text = {0};
	const char *id = api_str(item, "call_id");
	bool		ok = id != NULL ? join_parts(json_get(item, "output"), &text, e) :
		api_bad(e, "input", "has a function_call_output without call_id");

	if (ok)
		content_write_tool_result(j, id, &text);
	buf_free(&text);
	return ok;
}

/* Is it a call that a stream has begun, but that was cut, or was no call?  A message has its text. */
static bool
is_incomplete(const Json *item)
{
	const char *status = api_str(item, "status");

	return status != NULL && strcmp(status, "incomplete") == 0;
}

static bool
write_item(Turn *t, const Json *item, JsonOut *j, Err *e)
{
	const char *type = api_str(item, "type");
	const char *role = api_str(item, "role");
	const Json *content = json_get(item, "content");

	if (type == NULL && role == NULL)
		return api_bad(e, "input", "has an item without a type or a role");
	if (type == NULL || strcmp(type, "message") == 0)
	{
		if (role == NULL)
			return api_bad(e, "input", "has a message without a role");
		if (strcmp(role, "assistant") == 0)
			return turn_says(t, content, j, e);
		end_turn(t, j);
		return write_said(strcmp(role, "developer") == 0 ? "system" : role, content, j, e);
	}
	if (strcmp(type, "function_call") == 0)
		return is_incomplete(item) || turn_calls(t, item, e);
	if (strcmp(type, "reasoning") == 0)
		return turn_thinks(t, item, j, e);
	if (strcmp(type, "function_call_output") != 0)
		return bad_item("items", type, e);
	end_turn(t, j);
	return write_call_output(item, j, e);
}

static bool
write_items(Turn *t, const Json *items, JsonOut *j, Err *e)
{
	for (const Json *v = items != NULL ? items->child : NULL; v != NULL; v = v->next)
		if (!write_item(t, v, j, e))
			return false;
	return true;
}

static bool
write_input(ApiCall *a, Turn *t, JsonOut *j, Err *e)
{
	const ApiMember *input = apibody_get(&a->body, "input");

	if (input == NULL)
		return api_bad(e, "input", "must be given");
	if (json_is_array(input->v))
		return input->v->child != NULL ? write_items(t, input->v, j, e) :
			api_bad(e, "input", "must not be empty");
	if (!json_is_string(input->v))
		return api_bad(e, "input", "must be a string or an array of items");
	end_turn(t, j);
	content_write_message(j, "user", input->v->s, strlen(input->v->s));
	return true;
}

static bool
put_messages(ApiCall *a, WireOut *o, Err *e)
{
	const char *instructions = NULL;
	const char *previous = NULL;
	Json	   *before = a->req->previous.s != NULL ? json_parse(a->req->previous.s, a->req->previous.n) :
		NULL;
	Turn		turn = {0};
	Buf			out = {0};
	JsonOut		j = {.b = &out};
	bool		ok = apibody_str(&a->body, "instructions", &instructions, e) &&
		apibody_str(&a->body, "previous_response_id", &previous, e);

	if (ok && previous != NULL && before == NULL)
		ok = err_set(e, ERR_NOT_FOUND, "response \"%.80s\" does not exist", previous);
	json_open(&j, '[');
	if (ok && instructions != NULL)
		content_write_message(&j, "system", instructions, strlen(instructions));
	ok = ok && write_items(&turn, before, &j, e) && write_input(a, &turn, &j, e);
	end_turn(&turn, &j);
	json_close(&j, ']');
	if (ok)
		wire_put_str(o, WTAG_MESSAGES, out.data, out.len);
	json_free(before);
	buf_free(&out);
	return ok;
}

/* ---- the request ---- */

/* Read text: {"format": {"type": "json_schema", "name", "schema", "strict"}}. */
static bool
put_format(ApiCall *a, WireOut *o, Err *e)
{
	const ApiMember *m = apibody_get(&a->body, "text");
	const Json *format = m != NULL ? json_get(m->v, "format") : NULL;
	const char *type = api_str(format, "type");
	StrView		raw;
	Buf			out = {0};
	JsonOut		j = {.b = &out};

	if (format == NULL || json_is_null(format))
		return true;
	if (type == NULL)
		return api_bad(e, "text", "must have a format with a type");
	if (strcmp(type, "text") == 0)
		return true;
	raw = api_raw_member((StrView) {m->raw.s, m->raw.n}, "format");
	if (raw.s == NULL)
		return api_bad(e, "text", "must have a format");
	if (strcmp(type, "json_schema") == 0)
	{
		if (api_str(format, "name") == NULL)
			return api_bad(e, "text", "must have a format with a name");
		/* chat completions have the same members, but for the type, in an object of their own */
		json_open(&j, '{');
		json_key_cstr(&j, "type", type);
		json_key(&j, type);
		json_open(&j, '{');
		api_write_members(&j, raw, "type");
		json_close(&j, '}');
		json_close(&j, '}');
	}
	else
		json_raw(&j, raw.s, raw.n);
	wire_put_str(o, WTAG_RESPONSE_FORMAT, out.data, out.len);
	buf_free(&out);
	return true;
}

static bool
put_limits(ApiCall *a, WireOut *o, Err *e)
{
	int64_t		max = 0;
	const char *truncation = NULL;

	if (!apibody_int(&a->body, "max_output_tokens", 1, INT_MAX, &max, e) ||
		!apibody_str(&a->body, "truncation", &truncation, e))
		return false;
	if (max > 0)
		wire_put_int(o, WTAG_MAX_TOKENS, max);
	if (truncation == NULL || strcmp(truncation, "disabled") == 0)
		return true;
	if (strcmp(truncation, "auto") != 0)
		return api_bad(e, "truncation", "must be \"auto\" or \"disabled\"");
	wire_put_int(o, WTAG_TRUNCATE_PROMPT_TOKENS, -1);
	return true;
}

/* Read include: ["message.output_text.logprobs"], with top_logprobs. */
static bool
read_logprobs(ApiCall *a, Responses *k, Err *e)
{
	const ApiMember *include = apibody_get(&a->body, "include");
	int64_t		top = 0;

	if (!apibody_int(&a->body, "top_logprobs", 0, INT_MAX, &top, e))
		return false;
	for (const Json *v = include != NULL ? include->v->child : NULL; v != NULL; v = v->next)
	{
		if (json_is_string(v) && strcmp(v->s, "message.output_text.logprobs") == 0)
			k->want_logprobs = true;
		else if (!json_is_string(v) || strcmp(v->s, "reasoning.encrypted_content") != 0)
			return api_bad(e, "include", "has a value that is not known");
	}
	if (top > 0 && !k->want_logprobs)
		return api_bad(e, "top_logprobs", "needs include to have \"message.output_text.logprobs\"");
	if (k->want_logprobs)
		k->g.logprobs = top;
	apigen_put_logprobs(&k->g);
	return true;
}

/* Check the types of members that the response repeats, or that have no effect. */
static bool
check_types(ApiCall *a, Err *e)
{
	static const char *const strings[] = {"user", "service_tier", "safety_identifier", "prompt_cache_key",
										  "prompt_cache_retention", NULL};
	const ApiMember *metadata = apibody_get(&a->body, "metadata");
	const char *s = NULL;
	int64_t		calls = 0;

	for (int i = 0; strings[i] != NULL; i++)
		if (!apibody_str(&a->body, strings[i], &s, e))
			return false;
	if (!apibody_is(&a->body, "metadata", false, e) || !apibody_is(&a->body, "text", false, e) ||
		!apibody_is(&a->body, "include", true, e) || !apibody_int(&a->body, "max_tool_calls", 0, INT_MAX,
																  &calls, e))
		return false;
	for (const Json *v = metadata != NULL ? metadata->v->child : NULL; v != NULL; v = v->next)
		if (!json_is_string(v))
			return api_bad(e, "metadata", "must have strings as values");
	return true;
}

static bool
check_fields(ApiCall *a, Err *e)
{
	static const char *const refused[] = {"background", "prompt", "conversation", "enable_response_messages",
										  "previous_input_messages",
	"mm_processor_kwargs", "n", NULL};
	bool		store = true;

	return apibody_refuse(&a->body, refused, e) && apibody_bool(&a->body, "store", &store, e) &&
		check_types(a, e);
}

/* Read reasoning: {"effort": ..., "summary": ...}; there are no summaries. */
static bool
put_reasoning(ApiCall *a, WireOut *o, Err *e)
{
	static const char *const names[] = {"effort", "summary", "generate_summary", NULL};
	const ApiMember *m = apibody_get(&a->body, "reasoning");

	if (m == NULL)
		return true;
	if (!json_is_object(m->v))
		return api_bad(e, "reasoning", "must be an object");
	for (int i = 0; names[i] != NULL; i++)
	{
		const Json *v = json_get(m->v, names[i]);

		if (v != NULL && !json_is_null(v) && !json_is_string(v))
			return api_bad(e, "reasoning", "must have strings as effort and summary");
	}
	return api_put_effort(o, "reasoning.effort", api_str(m->v, "effort"), e);
}

static bool
make(ApiCall *a, Err *e)
{
	Responses  *k = a->own = mem_zalloc(sizeof(Responses));
	Buf			fields = {0};
	WireOut		o = chan_out(&fields);
	WireOut		p = chan_out(&k->g.params);
	bool		ok = check_fields(a, e) && apigen_read(a, &k->g, e) && put_limits(a, &p, e) &&
		put_format(a, &p, e) && read_logprobs(a, k, e) && put_reasoning(a, &o, e) && put_messages(a, &o, e) &&
		api_put_tools(a, &o, e) && api_put_parsing(a, &p, e);

	api_make_id(a, "msg_", k->message_id, sizeof(k->message_id));
	api_make_id(a, "rs_", k->reasoning_id, sizeof(k->reasoning_id));
	wire_put_int(&o, WTAG_GENERATION_PROMPT, 1);
	if (ok)
		apigen_item(a, &k->g, 0, &fields, 0);
	buf_free(&fields);
	return ok;
}

/* ---- response ---- */

/* logprobs: JSON elements, separated by commas; NULL = none */
static void
write_logprobs(const char *logprobs, size_t n, JsonOut *j)
{
	json_key(j, "logprobs");
	json_open(j, '[');
	if (n > 0)
		json_raw(j, logprobs, n);
	json_close(j, ']');
}

/* Add the log-probabilities of more tokens of the output. */
static void
add_logprobs(Responses *k, const ApiEntries *entries)
{
	Buf			b = {0};
	JsonOut		j = {.b = &b};

	if (!k->want_logprobs || entries == NULL || entries->counts.n == 0)
		return;
	api_write_token_logprobs(&j, entries, (int) k->g.logprobs, k->g.as_ids);
	ALWAYS(b.len >= 2 && b.data[0] == '[' && b.data[b.len - 1] == ']');	/* these two are left out */
	if (k->logprobs.len > 0 && b.len > 2)
		buf_addc(&k->logprobs, ',');
	buf_add(&k->logprobs, b.data + 1, b.len - 2);
	buf_free(&b);
}

static void
write_output_text(StrView text, const Buf *logprobs, JsonOut *j)
{
	json_open(j, '{');
	json_key_cstr(j, "type", "output_text");
	json_key(j, "text");
	json_str(j, text.s, text.n);
	json_key(j, "annotations");
	json_open(j, '[');
	json_close(j, ']');
	write_logprobs(logprobs->data, logprobs->len, j);
	json_close(j, '}');
}

/* text.s NULL: the item has only begun */
static void
write_message(const Responses *k, StrView text, bool cut, JsonOut *j)
{
	json_open(j, '{');
	json_key_cstr(j, "id", k->message_id);
	json_key_cstr(j, "type", "message");
	json_key_cstr(j, "role", "assistant");
	json_key_cstr(j, "status", text.s == NULL ? "in_progress" : cut ? "incomplete" : "completed");
	json_key(j, "content");
	json_open(j, '[');
	if (text.s != NULL)
		write_output_text(text, &k->logprobs, j);
	json_close(j, ']');
	json_close(j, '}');
}

static void
write_reasoning(const Responses *k, StrView text, JsonOut *j)
{
	json_open(j, '{');
	json_key_cstr(j, "id", k->reasoning_id);
	json_key_cstr(j, "type", "reasoning");
	json_key(j, "summary");
	json_open(j, '[');
	json_close(j, ']');
	json_key(j, "content");
	json_open(j, '[');
	if (text.s != NULL)
	{
		json_open(j, '{');
		json_key_cstr(j, "type", "reasoning_text");
		json_key(j, "text");
		json_str(j, text.s, text.n);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_key_null(j, "encrypted_content");
	json_key_cstr(j, "status", text.s != NULL ? "completed" : "in_progress");
	json_close(j, '}');
}

static void
set_called(ApiCall *a, Called *c, const Json *call)
{
	const char *id = api_call_id(call);
	const char *name = api_call_name(call);

	buf_reset(&c->id);
	buf_reset(&c->name);
	buf_addstr(&c->id, id != NULL ? id : "");
	buf_addstr(&c->name, name != NULL ? name : "");
	api_make_id(a, "fc_", c->item_id, sizeof(c->item_id));
}

/* Return the status of a call; the arguments of a call that was cut, or was no call, are invalid JSON. */
static const char *
status_of(const char *arguments)
{
	Json	   *v = json_parse(arguments, strlen(arguments));
	bool		whole = v != NULL;

	json_free(v);
	return whole ? "completed" : "incomplete";
}

/* arguments NULL: they will follow */
static void
write_function_call(const Called *c, const char *arguments, JsonOut *j)
{
	json_open(j, '{');
	json_key_cstr(j, "id", c->item_id);
	json_key_cstr(j, "type", "function_call");
	json_key_cstr(j, "call_id", c->id.data);
	json_key_cstr(j, "name", c->name.data);
	json_key_cstr(j, "arguments", arguments != NULL ? arguments : "");
	json_key_cstr(j, "status", arguments != NULL ? status_of(arguments) : "in_progress");
	json_close(j, '}');
}

/* Make new ids, because a further message, or further reasoning, of the same output is another item. */
static void
next_ids(ApiCall *a)
{
	Responses  *k = a->own;

	api_make_id(a, "msg_", k->message_id, sizeof(k->message_id));
	api_make_id(a, "rs_", k->reasoning_id, sizeof(k->reasoning_id));
}

/* Write a piece of the output's text as a message, if it is not empty.  The first has the logprobs. */
static void
write_piece(ApiCall *a, StrView text, bool cut, JsonOut *j)
{
	Responses  *k = a->own;

	if (text.n == 0)
		return;
	write_message(k, text, cut, j);
	buf_reset(&k->logprobs);
	next_ids(a);
}

/* Write text and calls in their order. */
static void
write_parts(ApiCall *a, const ApiAnswer *r, bool cut, JsonOut *j)
{
	Responses  *k = a->own;
	Json	   *list = api_calls(r->tool_calls);
	size_t		shown = 0;
	int			i = 0;

	if (list == NULL && r->text.n == 0 && r->text.s != NULL)
		write_message(k, r->text, cut, j);
	for (const Json *v = list != NULL ? list->child : NULL; v != NULL; v = v->next)
	{
		write_piece(a, api_text_before(r, i++, &shown), false, j);
		set_called(a, &k->called, v);
		write_function_call(&k->called, api_call_arguments(v), j);
	}
	write_piece(a, api_text_after(r, shown), cut, j);
	json_free(list);
}

/* Write a member of the body unparsed, or `otherwise` if it is not given. */
static void
write_given(ApiCall *a, JsonOut *j, const char *name, const char *otherwise)
{
	const ApiMember *m = apibody_get(&a->body, name);

	json_key(j, name);
	if (m != NULL)
		json_raw(j, m->raw.s, m->raw.n);
	else
		json_raw(j, otherwise, strlen(otherwise));
}

static void
write_usage(const ApiItem *it, JsonOut *j)
{
	json_open(j, '{');
	json_key_int(j, "input_tokens", it->prompt_tokens);
	json_key(j, "input_tokens_details");
	json_open(j, '{');
	json_key_int(j, "cached_tokens", it->cached_tokens);
	json_key_int(j, "cache_write_tokens", 0);
	json_close(j, '}');
	json_key_int(j, "output_tokens", it->completion_tokens);
	json_key(j, "output_tokens_details");
	json_open(j, '{');
	json_key_int(j, "reasoning_tokens", it->reasoning_tokens >= 0 ? it->reasoning_tokens : 0);
	json_close(j, '}');
	json_key_int(j, "total_tokens", it->prompt_tokens + it->completion_tokens);
	json_close(j, '}');
}

/* output: its items, separated by commas; it NULL: the response is in progress */
static void
write_response(ApiCall *a, const ApiItem *it, const Buf *output, bool cut, JsonOut *j)
{
	static const char *const given[][2] = {
		{"instructions", "null"}, {"metadata", "null"}, {"parallel_tool_calls", "true"},
		{"temperature", "null"}, {"tool_choice", "\"auto\""},
		{"tools", "[]"}, {"top_p", "null"}, {"background", "false"}, {"max_output_tokens", "null"},
		{"max_tool_calls", "null"},
		{"previous_response_id", "null"}, {"prompt", "null"}, {"reasoning", "null"},
		{"service_tier", "\"auto\""}, {"text", "null"},
		{"top_logprobs", "null"}, {"truncation", "\"disabled\""}, {"user", "null"}, {"store", "true"}
	};

	json_open(j, '{');
	json_key_cstr(j, "id", a->id);
	json_key_cstr(j, "object", "response");
	json_key_int(j, "created_at", a->created);
	json_key_cstr(j, "status", it == NULL ? "in_progress" : cut ? "incomplete" : "completed");
	json_key_null(j, "error");
	json_key(j, "incomplete_details");
	json_raw(j, cut ? "{\"reason\":\"max_output_tokens\"}" : "null",
			 cut ? strlen("{\"reason\":\"max_output_tokens\"}") : 4);
	json_key_cstr(j, "model", a->model);
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		write_given(a, j, given[i][0], given[i][1]);
	json_key(j, "output");
	json_open(j, '[');
	if (output->len > 0)
		json_raw(j, output->data, output->len);
	json_close(j, ']');
	json_key(j, "usage");
	if (it != NULL)
		write_usage(it, j);
	else
		json_null(j);
	json_close(j, '}');
}

static bool
was_cut(const ApiAnswer *r)
{
	return r->finish_reason.n == strlen("length") &&
		memcmp(r->finish_reason.s, "length", r->finish_reason.n) == 0;
}

static bool
finish(ApiCall *a, JsonOut *j, Err *e)
{
	Responses  *k = a->own;
	const ApiItem *it = &a->items[0];
	JsonOut		items = {.b = &k->output};
	ApiAnswers	all;
	ApiAnswer	r = {0};

	(void) e;
	apianswers_read(&all, it->reply.data, it->reply.len);
	if (all.n > 0)
		r = all.a[0];
	if (r.reasoning.n > 0)
		write_reasoning(k, r.reasoning, &items);
	add_logprobs(k, &r.entries);
	write_parts(a, &r, was_cut(&r), &items);
	write_response(a, it, &k->output, was_cut(&r), j);
	apianswers_free(&all);
	return true;
}

/* ---- streaming ---- */

/* Write the members that all events have. */
static void
open_event(Responses *k, const char *type, JsonOut *j)
{
	json_open(j, '{');
	json_key_cstr(j, "type", type);
	json_key_int(j, "sequence_number", k->sequence++);
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
open_item_event(Responses *k, const char *type, const char *id, JsonOut *j)
{
	open_event(k, type, j);
	json_key_cstr(j, "item_id", id);
	json_key_int(j, "output_index", k->n_parts);
}

static void
response_event(ApiCall *a, const char *type, const ApiItem *it, JsonOut *j)
{
	Responses  *k = a->own;

	open_event(k, type, j);
	json_key(j, "response");
	write_response(a, it, &k->output, it != NULL && k->cut, j);
	send_event(a, j);
}

static void
begin_part(ApiCall *a, ResponsesPart part, JsonOut *j)
{
	Responses  *k = a->own;
	static const StrView nothing = {0};
	static const Buf none = {0};

	ASSERT(k->part == PART_NONE && k->n_sent == 0);	/* one item after the other */
	k->part = part;
	buf_reset(&k->text);
	open_event(k, "response.output_item.added", j);
	json_key_int(j, "output_index", k->n_parts);
	json_key(j, "item");
	if (part == PART_REASONING)
		write_reasoning(k, nothing, j);
	else if (part == PART_CALL)
		write_function_call(&k->called, NULL, j);
	else
		write_message(k, nothing, false, j);
	send_event(a, j);
	if (part != PART_TEXT)
		return;
	open_item_event(k, "response.content_part.added", k->message_id, j);
	json_key_int(j, "content_index", 0);
	json_key(j, "part");
	write_output_text((StrView) {"", 0}, &none, j);
	send_event(a, j);
}

/* The item is complete: add it to the output, and send its event. */
static void
item_done(ApiCall *a, const Buf *item, JsonOut *j)
{
	Responses  *k = a->own;

	open_event(k, "response.output_item.done", j);
	json_key_int(j, "output_index", k->n_parts);
	json_key(j, "item");
	json_raw(j, item->data, item->len);
	send_event(a, j);
	if (k->output.len > 0)
		buf_addc(&k->output, ',');
	buf_add(&k->output, item->data, item->len);
	k->n_parts++;
}

/* Send the events at the end of a text, or of reasoning; the item goes to out. */
static void
end_text(ApiCall *a, StrView text, JsonOut *out, JsonOut *j)
{
	Responses  *k = a->own;

	open_item_event(k, k->part == PART_REASONING ? "response.reasoning_text.done" :
					"response.output_text.done", k->part == PART_REASONING ? k->reasoning_id : k->message_id,
						j);
	json_key_int(j, "content_index", 0);
	json_key(j, "text");
	json_str(j, text.s, text.n);
	if (k->part == PART_TEXT)
		write_logprobs(k->logprobs.data, k->logprobs.len, j);
	send_event(a, j);
	if (k->part == PART_REASONING)
	{
		write_reasoning(k, text, out);
		return;
	}
	open_item_event(k, "response.content_part.done", k->message_id, j);
	json_key_int(j, "content_index", 0);
	json_key(j, "part");
	write_output_text(text, &k->logprobs, j);
	send_event(a, j);
	write_message(k, text, k->cut, out);
}

static void
end_call(ApiCall *a, StrView arguments, JsonOut *out, JsonOut *j)
{
	Responses  *k = a->own;

	open_item_event(k, "response.function_call_arguments.done", k->called.item_id, j);
	json_key_cstr(j, "name", k->called.name.data);
	json_key(j, "arguments");
	json_str(j, arguments.s, arguments.n);
	send_event(a, j);
	write_function_call(&k->called, arguments.s, out);
}

static void
end_part(ApiCall *a, JsonOut *j)
{
	Responses  *k = a->own;
	StrView		text = {k->text.data != NULL ? k->text.data : "", k->text.len};
	Buf			item = {0};
	JsonOut		out = {.b = &item};

	if (k->part == PART_NONE)
		return;
	if (k->part == PART_CALL)
		end_call(a, text, &out, j);
	else
		end_text(a, text, &out, j);
	item_done(a, &item, j);
	if (k->part != PART_CALL)
		next_ids(a);
	k->part = PART_NONE;
	buf_reset(&k->logprobs);
	k->n_sent = 0;
	buf_free(&item);
}

static void
add_text(ApiCall *a, ResponsesPart part, StrView text, const ApiEntries *entries, JsonOut *j)
{
	Responses  *k = a->own;

	if (k->part != part)
	{
		end_part(a, j);
		begin_part(a, part, j);
	}
	buf_add(&k->text, text.s, text.n);
	if (text.n == 0)
		return;					/* the next delta has the log-probabilities of text that is held back */
	if (part == PART_TEXT)
		add_logprobs(k, entries);
	open_item_event(k, part == PART_REASONING ? "response.reasoning_text.delta" :
					"response.output_text.delta", part == PART_REASONING ? k->reasoning_id : k->message_id,
						j);
	json_key_int(j, "content_index", 0);
	json_key(j, "delta");
	json_str(j, text.s, text.n);
	if (part == PART_TEXT)
	{
		size_t		comma = k->n_sent > 0 && k->logprobs.len > k->n_sent;

		ALWAYS(k->n_sent <= k->logprobs.len);
		write_logprobs(k->logprobs.data + k->n_sent + comma, k->logprobs.len - k->n_sent - comma, j);
		k->n_sent = k->logprobs.len;
	}
	send_event(a, j);
}

/* Send more of a call's arguments. */
static void
add_arguments(ApiCall *a, const char *arguments, JsonOut *j)
{
	Responses  *k = a->own;

	if (k->part != PART_CALL)
		return;
	buf_addstr(&k->text, arguments);
	open_item_event(k, "response.function_call_arguments.delta", k->called.item_id, j);
	json_key_cstr(j, "delta", arguments);
	send_event(a, j);
}

static void
begin_call(ApiCall *a, const Json *call, JsonOut *j)
{
	Responses  *k = a->own;

	end_part(a, j);
	set_called(a, &k->called, call);
	begin_part(a, PART_CALL, j);
	add_arguments(a, api_call_arguments(call), j);
}

static void
delta(ApiCall *a, ApiItem *it, const ApiAnswer *r)
{
	Responses  *k = a->own;
	Json	   *calls = api_calls(r->tool_calls);
	const Json *v = calls != NULL ? calls->child : NULL;
	Buf			out = {0};
	JsonOut		j = {.b = &out};
	const ApiEntries *entries = &r->entries;
	size_t		shown = 0;
	StrView		text;
	int			i = 0;

	(void) it;
	if (!k->g.began)
	{
		k->g.began = true;
		response_event(a, "response.created", NULL, &j);
		response_event(a, "response.in_progress", NULL, &j);
	}
	/* first the elements that continue the open call */
	for (; v != NULL && api_call_id(v) == NULL; v = v->next, i++)
		add_arguments(a, api_call_arguments(v), &j);
	if (r->reasoning.n > 0)
		add_text(a, PART_REASONING, r->reasoning, NULL, &j);
	if (r->text.n == 0 && r->reasoning.n == 0 && k->part != PART_REASONING)
		add_logprobs(k, &r->entries);
	for (; v != NULL; v = v->next)
	{
		text = api_text_before(r, i++, &shown);
		if (text.n > 0)
		{
			add_text(a, PART_TEXT, text, entries, &j);
			entries = NULL;
		}
		begin_call(a, v, &j);
	}
	text = api_text_after(r, shown);
	if (text.n > 0 || (r->finish_reason.s != NULL && k->n_parts == 0 && k->part == PART_NONE &&
					   calls == NULL))
		add_text(a, PART_TEXT, text, entries, &j);
	if (r->finish_reason.s != NULL)
	{
		k->cut = was_cut(r);
		end_part(a, &j);
	}
	json_free(calls);
	buf_free(&out);
}

static void
end(ApiCall *a)
{
	const Responses *k = a->own;
	Buf			out = {0};
	JsonOut		j = {.b = &out};

	response_event(a, k->cut ? "response.incomplete" : "response.completed", &a->items[0], &j);
	buf_free(&out);
}

const ApiEndpoint api_responses = {
	.prefix = "resp_",.make = make,.finish = finish,.delta = delta,.end = end,.drop = drop
};

/* ---- /v1/responses/ID, /v1/responses/ID/cancel ---- */

static bool
stored_make(ApiCall *a, Err *e)
{
	(void) a;
	(void) e;
	return true;
}

static bool
stored_finish(ApiCall *a, JsonOut *j, Err *e)
{
	const char *last = "/cancel";
	bool		cancels = a->req->path.n > strlen(last) &&
		memcmp(a->req->path.s + a->req->path.n - strlen(last), last, strlen(last)) == 0;

	if (a->req->previous.s == NULL)
		return err_set(e, ERR_NOT_FOUND, "there is no response at \"%.*s\"",
					   (int) (a->req->path.n < 128 ? a->req->path.n : 128), a->req->path.s);
	if (cancels)
		return err_set(e, ERR_INVALID, "a response that was not made in the background can't be cancelled");
	json_raw(j, a->req->previous.s, a->req->previous.n);
	return true;
}

const ApiEndpoint api_response = {.prefix = "resp_",.lists_models = true,.make = stored_make,
								  .finish = stored_finish};
