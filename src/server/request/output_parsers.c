/*
 * output_parsers.c
 *	  The choice of parsers that split an output (output_parsers.h).
 *
 * Tested by tests/sql/29_tools.sql, tests/t/084_tools.pl.
 */
#include "server/request/output_parsers.h"

#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/json/json.h"
#include "base/json/json_writer.h"
#include "server/server_call.h"
#include "server/request/tool_choice.h"

static bool
unknown(const char *what, const char *name, size_t n, void (*names) (Buf *), Err *e)
{
	Buf			list = {0};

	names(&list);
	err_set(e, ERR_INVALID, "unknown %s \"%.*s\"", what, n > 60 ? 60 : (int) n, name);
	err_hint(e, "Known are: %s.", list.data);
	buf_free(&list);
	return false;
}

bool
tool_parser_by_name(const char *name, size_t n, const ToolFormat **out, Err *e)
{
	*out = tool_format_find(name, n);
	return *out != NULL || unknown("tool_call_parser", name, n, tool_format_names, e);
}

bool
reasoning_parser_by_name(const char *name, size_t n, const ReasonFormat **out, Err *e)
{
	*out = reason_format_find(name, n);
	return *out != NULL || unknown("reasoning_parser", name, n, reason_format_names, e);
}

static bool
bad(const char *param, const char *what, Err *e)
{
	err_set(e, ERR_INVALID, "%s %s", param, what);
	return err_detail(e, "parameter=%s", param);
}

#define MAX_CHOICE	4096		/* bytes of tool_choice */

/* Read "none", "auto", "required", or {"type": "function", "function": {"name": ...}}. */
static bool
choice_field(ParseRequest *r, const WireField *f, Err *e)
{
	static const char *const words[] = {[TOOLS_NONE] = "none", [TOOLS_AUTO] = "auto",
										[TOOLS_REQUIRED] = "required"};
	Json	   *root = f->n <= MAX_CHOICE ? json_parse(f->s, f->n) : NULL;
	const char *word = json_str_of(root);
	const Json *function = json_get(root, "function");
	const char *name = json_str_of(json_get(function != NULL ? function : root, "name"));
	bool		ok = name != NULL && name[0] != '\0' && strlen(name) < TOOL_NAME_LEN;

	r->has_choice = true;
	if (ok)
	{
		r->choice = TOOLS_NAMED;
		strcpy(r->named, name);
	}
	for (int i = 0; !ok && word != NULL && i < 3; i++)
		if (strcmp(word, words[i]) == 0)
		{
			r->choice = (ToolChoice) i;
			ok = true;
		}
	json_free(root);
	return ok || bad("tool_choice", "must be \"none\", \"auto\", \"required\" or "
					 "{\"type\": \"function\", \"function\": {\"name\": ...}}", e);
}

bool
parsing_field(ParseRequest *r, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_TOOL_PARSER:
			return tool_parser_by_name(f->s, f->n, &r->tools, e);
		case WTAG_REASONING_PARSER:
			return reasoning_parser_by_name(f->s, f->n, &r->reason, e);
		case WTAG_TOOL_CHOICE:
			return choice_field(r, f, e);
		case WTAG_PARALLEL_TOOL_CALLS:
			r->one_call = f->i == 0;
			return true;
		case WTAG_THINKING_TOKEN_BUDGET:
			r->has_budget = f->i >= 0;
			r->budget = (int) f->i;
			return true;
		case WTAG_INCLUDE_REASONING:
			r->drop_reasoning = f->i == 0;
			return true;
		default:
			*known = false;
			return true;
	}
}

bool
parsing_check(ParseRequest *r, const StrView *tools, Err *e)
{
	bool		must = r->has_choice && (r->choice == TOOLS_REQUIRED || r->choice == TOOLS_NAMED);

	if (r->has_choice && r->choice != TOOLS_NONE && tools->s == NULL)
	{
		err_set(e, ERR_INVALID, "tool_choice %s%s%s needs tools",
				r->choice == TOOLS_NAMED ? "that names \"" : "\"", r->choice == TOOLS_NAMED ? r->named :
				r->choice == TOOLS_AUTO ? "auto" : "required", "\"");
		err_detail(e, "parameter=tool_choice");
		return err_hint(e, "Give the functions that may be called, as in tools => "
						   "json_build_array(llm_tool('...')), or leave tool_choice out.");
	}
	return !must || toolchoice_schema(tools->s, tools->n, r->choice == TOOLS_NAMED ? r->named : NULL,
									  r->one_call, &r->schema, e);
}

/* Find the parsers that the model's options name; model_options.c has checked them. */
static void
parsers_of_options(const char *options, const ToolFormat **tools, const ReasonFormat **reason)
{
	Json	   *root = options != NULL && options[0] != '\0' ? json_parse(options, strlen(options)) : NULL;
	const char *t = json_str_of(json_get(root, "tool_call_parser"));
	const char *r = json_str_of(json_get(root, "reasoning_parser"));

	if (t != NULL)
		*tools = tool_format_find(t, strlen(t));
	if (r != NULL)
		*reason = reason_format_find(r, strlen(r));
	json_free(root);
}

bool
parsing_hides_tools(const ParseRequest *r, const char *options)
{
	Json	   *root = r->has_choice && r->choice == TOOLS_NONE &&
		options != NULL ? json_parse(options, strlen(options)) : NULL;
	bool		hide = json_is_true(json_get(root, "exclude_tools_when_tool_choice_none"));

	json_free(root);
	return hide;
}

const ReasonFormat *
parsing_reason(const ParseRequest *r, const char *options)
{
	const ToolFormat *tools = NULL;
	const ReasonFormat *reason = r->reason;

	parsers_of_options(options, &tools, &reason);
	return reason;
}

bool
parsing_of_chat(const ParseRequest *r, const char *options, const ChatRequest *chat, const char *prompt,
				size_t n, bool stream, Answer **out, Err *e)
{
	const ToolFormat *tools = r->tools;
	const ReasonFormat *reason = r->reason;
	bool		given = chat->tools.s != NULL;
	AnswerSpec	spec = {
		.choice = r->has_choice ? r->choice : given ? TOOLS_AUTO : TOOLS_NONE,.named = r->named,
		.tools_json = chat->tools.s,.n_tools_json = chat->tools.n,.kwargs = chat->kwargs.s,
		.n_kwargs = chat->kwargs.n, .key = digest(prompt, n, 0),.one_call = r->one_call,
		.drop_reasoning = r->drop_reasoning,.tag_only = r->constrained, .stream = stream
	};

	*out = NULL;
	parsers_of_options(options, &tools, &reason);
	if (r->has_choice && spec.choice == TOOLS_AUTO && tools == NULL)
	{
		err_set(e, ERR_INVALID, "tool_choice \"auto\" needs to know how the model writes its calls");
		err_detail(e, "parameter=tool_choice");
		return err_hint(e, "Set the model's option \"tool_call_parser\", or vllm.tool_call_parser; "
						   "\"required\" and a function's name need none.");
	}
	if (spec.choice == TOOLS_AUTO && tools == NULL)
		spec.choice = TOOLS_NONE;
	spec.tools = tools;
	if (r->at_once)
		reason = NULL;
	spec.reason = reason;
	if (reason != NULL)
		spec.at = reason_format_at(reason, prompt, n, chat->continue_final_message);
	if (reason != NULL || spec.choice != TOOLS_NONE)
		*out = answer_new(&spec);
	return true;
}

bool
parsing_has(Answer *a)
{
	return answer_has(a);
}

static void
put_buf(WireOut *o, WireTag tag, Buf *b)
{
	if (b->len > 0)
		wire_put_str(o, tag, b->data, b->len);
	buf_reset(b);
}

void
parsing_put(Answer *a, WireOut *o)
{
	Buf		   *calls = answer_calls(a);
	const IntVec *at = answer_calls_at(a);
	Buf			list = {0};

	ALWAYS(calls->len == 0 || at->len > 0);	/* a position for each element */
	if (calls->len > 0 && at->data[0] < (int32_t) answer_content(a)->len)
		wire_put_ints(o, WTAG_CALLS_AT, at->data, at->len);
	put_buf(o, WTAG_TEXT, answer_content(a));
	put_buf(o, WTAG_REASONING, answer_reasoning(a));
	if (calls->len > 0)
	{
		buf_addc(&list, '[');
		buf_add(&list, calls->data, calls->len);
		buf_addc(&list, ']');
	}
	put_buf(o, WTAG_TOOL_CALLS, &list);
	buf_reset(calls);
	buf_free(&list);
}

static void
put_string(Buf *out, const Buf *s)
{
	if (s->len > 0)
		json_add_quoted(out, s->data, s->len);
	else
		buf_addstr(out, "null");
}

void
parsing_run(const ParseRequest *r, const char *s, size_t n, const ChatRequest *chat, Buf *out)
{
	AnswerSpec	spec = {
		.reason = r->reason,.tools = r->tools,.choice = r->tools != NULL ? TOOLS_AUTO : TOOLS_NONE,
		.tools_json = chat->tools.s,.n_tools_json = chat->tools.n,.kwargs = chat->kwargs.s,
		.n_kwargs = chat->kwargs.n, .key = digest(s, n, 0)
	};
	Answer	   *a = answer_new(&spec);
	WireOut		o = chan_out(out);
	const Buf  *content = answer_content(a);
	const Buf  *think = answer_reasoning(a);
	Buf			json = {0};

	answer_feed(a, s, n);
	answer_finish(a);
	if (r->tools == NULL)
	{
		if (think->len > 0)
			wire_put_str(&o, WTAG_REASONING, think->data, think->len);
		if (content->len > 0)
			wire_put_str(&o, WTAG_TEXT, content->data, content->len);
	}
	else
	{
		buf_printf(&json, "{\"tools_called\": %s, \"tool_calls\": [",
				   answer_n_calls(a) > 0 ? "true" : "false");
		buf_add(&json, answer_calls(a)->data, answer_calls(a)->len);
		buf_addstr(&json, "], \"content\": ");
		put_string(&json, content);
		buf_addc(&json, '}');
		wire_put_str(&o, WTAG_TEXT, json.data, json.len);
	}
	buf_free(&json);
	answer_free(a);
}
