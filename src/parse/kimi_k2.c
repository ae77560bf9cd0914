/*
 * kimi_k2.c
 *	  Calls of Kimi K2: a section of calls, each `functions.NAME:INDEX` and JSON between
 *	  marks.  That text is the call's id: the template wants it back.
 *
 * Tested by tests/parse/kimi_k2.json.
 */
#include "parse/tool_int.h"

/* functions.NAME:INDEX, or NAME:INDEX */
static bool
split_id(Span id, Span *name)
{
	const char *colon = id.end;

	while (colon > id.p && colon[-1] >= '0' && colon[-1] <= '9')
		colon--;
	if (colon == id.end || colon == id.p || *--colon != ':')
		return false;
	*name = (Span) {id.p, colon};
	span_take(name, "functions.");
	return name->p < name->end;
}

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		skipped;
	Span		body;
	Span		id;
	Span		name;
	ToolCall   *c;

	while (span_until(&rest, "<|tool_call_begin|>", &skipped))
	{
		if (!span_until(&rest, "<|tool_call_end|>", &body) || !span_until(&body, "<|tool_call_argument_begin|>", &id))
			return false;
		id = span_trim(id);
		if (id.end - id.p > 512 || memchr(id.p, '\0', (size_t) (id.end - id.p)) != NULL || !split_id(id, &name) ||
			(c = tool_named(out, name)) == NULL || !tool_json_args(body, c))
			return false;
		buf_add(&c->id, id.p, (size_t) (id.end - id.p));
	}
	return true;
}

const ToolFormat tool_kimi_k2 = {
	.marks = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"},.special = true,.named_ids = true,.parse = parse
};
