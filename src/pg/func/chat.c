/*
 * chat.c
 *	  llm_chat, llm_chat_text, llm_ask, llm_render_chat, llm_tokenize_chat (rows of
 *	  engine_func.def), llm_chat_stream, and the aggregate llm_chat_agg.
 *
 * Messages are sent to the engine unchanged; it has the model's template and tokenizer, and threads
 * for both.  Rendering with a given template needs no model.
 *
 * Tests: tests/sql/15_chat.sql.
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/json.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/util/named_args.h"
#include "pg/call/generate.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_chat_stream);
PG_FUNCTION_INFO_V1(llm_chat_agg_step);
PG_FUNCTION_INFO_V1(llm_chat_agg_final);

#define ASK_ARG_SYSTEM		1
#define RENDER_ARG_SOURCE	2		/* index of chat_template */
#define RENDER_ARG_MODEL	7

/* Return true if the text may be the name of one of the model's templates, not a template itself. */
static bool
is_name(const text *t)
{
	size_t		n = VARSIZE_ANY_EXHDR(t);

	return n > 0 && n <= 64 && memchr(VARDATA_ANY(t), '{', n) == NULL;
}

static void
put_text(WireOut *out, WireTag tag, FunctionCallInfo fcinfo, int arg)
{
	text	   *t = PG_GETARG_TEXT_PP(arg);

	wire_put_text(out, tag, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
}

/* Append a function's argument, found by its name. */
static void
put_arg(WireOut *out, WireTag tag, FunctionCallInfo fcinfo, const char *name)
{
	int			arg = fn_arg_given(fcinfo, name);

	if (arg >= 0)
		put_text(out, tag, fcinfo, arg);
}

static bool
bool_arg(FunctionCallInfo fcinfo, const char *name, bool dflt)
{
	int			arg = fn_arg_given(fcinfo, name);

	return arg >= 0 ? PG_GETARG_BOOL(arg) : dflt;
}

void
chat_put_template(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);
	bool		go_on = bool_arg(fcinfo, "continue_final_message", false);
	bool		prompt = bool_arg(fcinfo, "add_generation_prompt", !go_on);

	if (go_on && prompt)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("add_generation_prompt and continue_final_message exclude each other")));
	put_arg(&out, WTAG_TOOLS, fcinfo, "tools");
	put_arg(&out, WTAG_CHAT_TEMPLATE, fcinfo, "chat_template");
	put_arg(&out, WTAG_CHAT_KWARGS, fcinfo, "chat_template_kwargs");
	put_arg(&out, WTAG_DOCUMENTS, fcinfo, "documents");
	put_arg(&out, WTAG_CONTENT_FORMAT, fcinfo, "content_format");
	generate_put_parser(&out, WTAG_TOOL_PARSER, vllm_tool_call_parser);
	generate_put_parser(&out, WTAG_REASONING_PARSER, vllm_reasoning_parser);
	wire_put_int(&out, WTAG_GENERATION_PROMPT, prompt);
	wire_put_int(&out, WTAG_CONTINUE_FINAL, go_on);
}

/* Append the conversation, the first argument of all functions except llm_ask(). */
ErrorData *
chat_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	ErrorData  *refused = generate_check_length("messages", PG_GETARG_TEXT_PP(0));
	WireOut		out = vclient_out(&r->body);

	if (refused == NULL)
		put_text(&out, WTAG_MESSAGES, fcinfo, 0);
	return refused;
}

/* llm_chat(messages json, generation options, tools json, chat_template text, ...) */
void
chat_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	generate_head_with(r, fcinfo, 0);
	chat_put_template(r, fcinfo);
}

/* Append an SQL string as a JSON string. */
static void
append_json_string(StringInfo s, const text *t)
{
	char	   *c = text_to_cstring(t);

	escape_json(s, c);
	pfree(c);
}

/* Return true if the output continues a message, so that its white space belongs between the two. */
static bool
continues_message(const Reply *reply)
{
	WireIn		in = {reply->request, reply->request + reply->request_len};
	WireField	f;

	while (wire_next(&in, &f) > 0)
		if (f.tag == WTAG_CONTINUE_FINAL)
			return f.i != 0;
	return false;
}

/*
 * Return an answer's text.  With many models the output after a chat template begins with white space,
 * which must not take part in comparisons: llm_ask(...) = 'yes'.
 */
Datum
answer_result(const Reply *reply, Oid rettype, bool *isnull)
{
	const char *s = reply->text;
	size_t		n = reply->text_len;

	*isnull = false;
	if (continues_message(reply))
		return PointerGetDatum(reply_text(reply));
	while (n > 0 && strchr(" \t\r\n", *s) != NULL)
	{
		s++;
		n--;
	}
	return PointerGetDatum(text_from_wire(s, n));
}

/*
 * {"role": "assistant", "content": ..., "reasoning": ..., "tool_calls": [...], "finish_reason": ..., "usage":
 * {...}}
 */
Datum
chat_result(const Reply *reply, Oid rettype, bool *isnull)
{
	StringInfoData s;
	Datum		reason = reply_finish_reason(reply, isnull);

	initStringInfo(&s);
	appendStringInfoString(&s, "{\"role\": \"assistant\", \"content\": ");
	if (reply->text != NULL)
		append_json_string(&s, reply_text(reply));
	else
		appendStringInfoString(&s, "null");
	if (reply->reasoning != NULL)
	{
		appendStringInfoString(&s, ", \"reasoning\": ");
		append_json_string(&s, text_from_wire(reply->reasoning, reply->reasoning_len));
	}
	if (reply->tool_calls != NULL)
	{
		text	   *calls = text_from_wire(reply->tool_calls, reply->tool_calls_len);

		appendStringInfoString(&s, ", \"tool_calls\": ");
		appendBinaryStringInfo(&s, VARDATA_ANY(calls), VARSIZE_ANY_EXHDR(calls));
	}
	appendStringInfoString(&s, ", \"finish_reason\": ");
	if (*isnull)
		appendStringInfoString(&s, "null");
	else
		append_json_string(&s, DatumGetTextPP(reason));
	appendStringInfo(&s, ", \"usage\": {\"prompt_tokens\": " INT64_FORMAT ", \"completion_tokens\": "
					 INT64_FORMAT
					 ", \"total_tokens\": " INT64_FORMAT ", \"prompt_tokens_details\": {\"cached_tokens\": "
					 INT64_FORMAT "}", Max(reply->prompt_tokens, 0), Max(reply->completion_tokens, 0),
					 Max(reply->prompt_tokens, 0) + Max(reply->completion_tokens, 0),
					 Max(reply->cached_tokens, 0));
	if (reply->reasoning_tokens >= 0)
		appendStringInfo(&s, ", \"completion_tokens_details\": {\"reasoning_tokens\": " INT64_FORMAT "}",
						 reply->reasoning_tokens);
	appendStringInfoString(&s, "}}");
	*isnull = false;
	return PointerGetDatum(cstring_to_text_with_len(s.data, s.len));
}

/* ---- llm_ask(prompt text, system text, generation options, chat_template, kwargs) ---- */

void
ask_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	generate_head_with(r, fcinfo, 0);
	chat_put_template(r, fcinfo);
}

void
chat_put_turn(SqlRequest *r, const text *system, const char *user, size_t n)
{
	WireOut		out = vclient_out(&r->body);
	StringInfoData s;
	text	   *t = cstring_to_text_with_len(user, (int) n);

	initStringInfo(&s);
	appendStringInfoChar(&s, '[');
	if (system != NULL)
	{
		appendStringInfoString(&s, "{\"role\": \"system\", \"content\": ");
		append_json_string(&s, system);
		appendStringInfoString(&s, "}, ");
	}
	appendStringInfoString(&s, "{\"role\": \"user\", \"content\": ");
	append_json_string(&s, t);
	appendStringInfoString(&s, "}]");
	wire_put_text(&out, WTAG_MESSAGES, s.data, s.len);
	pfree(s.data);
	pfree(t);
}

ErrorData *
ask_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	text	   *prompt = PG_GETARG_TEXT_PP(0);
	text	   *system = PG_ARGISNULL(ASK_ARG_SYSTEM) ? NULL : PG_GETARG_TEXT_PP(ASK_ARG_SYSTEM);
	ErrorData  *refused = generate_check_length("prompt", prompt);

	if (refused == NULL && system != NULL)
		refused = generate_check_length("system", system);
	if (refused == NULL)
		chat_put_turn(r, system, VARDATA_ANY(prompt), VARSIZE_ANY_EXHDR(prompt));
	return refused;
}

/* ---- without generating ---- */

/* llm_render_chat(messages, tools, chat_template, chat_template_kwargs, ..., model) */
void
render_chat_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);

	if (PG_ARGISNULL(RENDER_ARG_SOURCE) || !PG_ARGISNULL(RENDER_ARG_MODEL) ||
		is_name(PG_GETARG_TEXT_PP(RENDER_ARG_SOURCE)))
		generate_model_head(r, WK_CHAT_RENDER, fcinfo, RENDER_ARG_MODEL);
	else
	{
		/* nothing but the template is needed */
		r->kind = WK_CHAT_RENDER;
		r->deterministic = true;
		vclient_put_identity(&out);
	}
	chat_put_template(r, fcinfo);
}

/* llm_tokenize_chat(same arguments) */
void
tokenize_chat_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);

	generate_model_head(r, WK_TOKENIZE, fcinfo, RENDER_ARG_MODEL);
	wire_put_int(&out, WTAG_WANT_IDS, true);
	chat_put_template(r, fcinfo);
}

/*
 * ---- llm_chat_stream(like llm_chat): reasoning and parts of tool calls have columns of their own
 * ----
 */

static void
chat_stream_request(SqlRequest *r, FunctionCallInfo fcinfo)
{
	ErrorData  *refused;

	generate_head_with(r, fcinfo, GEN_STREAM | GEN_WANT_IDS);
	chat_put_template(r, fcinfo);
	refused = chat_input(r, fcinfo);
	if (refused)
		ThrowErrorData(refused);
}

Datum
llm_chat_stream(PG_FUNCTION_ARGS)
{
	return generate_stream(fcinfo, chat_stream_request);
}

/* ---- llm_chat_agg(role text, content text) ---- */

Datum
llm_chat_agg_step(PG_FUNCTION_ARGS)
{
	MemoryContext cxt;
	MemoryContext old;
	StringInfo	s;

	if (!AggCheckCallContext(fcinfo, &cxt))
		elog(ERROR, "llm_chat_agg_step called outside of an aggregate");
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the role of a message must not be null")));
	old = MemoryContextSwitchTo(cxt);
	if (PG_ARGISNULL(0))
		s = makeStringInfo();
	else
		s = (StringInfo) PG_GETARG_POINTER(0);
	appendStringInfoString(s, s->len == 0 ? "[{\"role\": " : ", {\"role\": ");
	append_json_string(s, PG_GETARG_TEXT_PP(1));
	appendStringInfoString(s, ", \"content\": ");
	if (PG_ARGISNULL(2))
		appendStringInfoString(s, "null");
	else
		append_json_string(s, PG_GETARG_TEXT_PP(2));
	appendStringInfoChar(s, '}');
	MemoryContextSwitchTo(old);
	PG_RETURN_POINTER(s);
}

Datum
llm_chat_agg_final(PG_FUNCTION_ARGS)
{
	StringInfo	s = PG_ARGISNULL(0) ? NULL : (StringInfo) PG_GETARG_POINTER(0);
	text	   *t;

	if (s == NULL)
		PG_RETURN_NULL();
	/* the final function may run again on the same state, so it must not change it */
	t = palloc(VARHDRSZ + s->len + 1);
	SET_VARSIZE(t, VARHDRSZ + s->len + 1);
	memcpy(VARDATA(t), s->data, s->len);
	VARDATA(t)[s->len] = ']';
	PG_RETURN_TEXT_P(t);
}
