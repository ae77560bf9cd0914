/*
 * internlm.c
 *	  Calls of InternLM 2.5: <|action_start|><|plugin|>{"name", "parameters"}<|action_end|>, one.
 *
 * Tested by tests/parse/internlm.json.
 */
#include "parse/tool_int.h"

#define START	"<|action_start|><|plugin|>"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		body;

	span_take(&rest, START);
	if (span_find(&rest, START) != NULL)
		return false;
	if (span_until(&rest, "<|action_end|>", &body))
		rest = body;
	if (!tool_json_object(&rest, TJ_PARAMETERS | TJ_ARGUMENTS | TJ_LATTER | TJ_OPTIONAL, out))
		return false;
	span_space(&rest);
	return rest.p == rest.end;
}

const ToolFormat tool_internlm = {.marks = {START},.special = true,.parse = parse};
