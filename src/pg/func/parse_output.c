/*
 * parse_output.c
 *	  llm_parse_tool_calls(output text, parser text, tools json), llm_parse_reasoning(output
 *	  text, parser text, chat_template_kwargs json): split a model's output into its parts.
 *
 * The engine has the parsers, which it also uses for its own outputs; no model is needed.
 *
 * Tests: tests/sql/29_tools.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/typcache.h"

#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/vllm_pg.h"

/* The third argument, JSON, is part of the head, as it is the same for many rows. */
static void
parse_head(SqlRequest *r, FunctionCallInfo fcinfo, WireTag json)
{
	WireOut		out = vclient_out(&r->body);

	r->kind = WK_PARSE;
	r->deterministic = true;
	vclient_put_identity(&out);
	if (!PG_ARGISNULL(2))
	{
		text	   *t = PG_GETARG_TEXT_PP(2);

		wire_put_text(&out, json, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
	}
}

void
parse_tools_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	parse_head(r, fcinfo, WTAG_TOOLS);
}

void
parse_reasoning_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	parse_head(r, fcinfo, WTAG_CHAT_KWARGS);
}

static ErrorData *
parse_input(SqlRequest *r, FunctionCallInfo fcinfo, WireTag parser)
{
	text	   *output = PG_GETARG_TEXT_PP(0);
	text	   *name = PG_GETARG_TEXT_PP(1);
	ErrorData  *refused = generate_check_length("output", output);
	WireOut		out = vclient_out(&r->body);

	if (refused == NULL)
	{
		wire_put_text(&out, parser, VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
		wire_put_text(&out, WTAG_PROMPT, VARDATA_ANY(output), VARSIZE_ANY_EXHDR(output));
	}
	return refused;
}

ErrorData *
parse_tools_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	return parse_input(r, fcinfo, WTAG_TOOL_PARSER);
}

ErrorData *
parse_reasoning_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	return parse_input(r, fcinfo, WTAG_REASONING_PARSER);
}

/* llm_reasoning(reasoning, content) */
Datum
parse_reasoning_result(const Reply *reply, Oid rettype, bool *isnull)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(rettype, -1);
	Datum		values[2] = {0};
	bool		nulls[2] = {reply->reasoning == NULL, reply->text == NULL};
	HeapTuple	tuple;

	if (desc->natts != 2)
		elog(ERROR, "llm_reasoning has %d attributes, expected 2", desc->natts);
	if (!nulls[0])
		values[0] = PointerGetDatum(text_from_wire(reply->reasoning, reply->reasoning_len));
	if (!nulls[1])
		values[1] = PointerGetDatum(reply_text(reply));
	tuple = heap_form_tuple(desc, values, nulls);
	ReleaseTupleDesc(desc);
	*isnull = false;
	return HeapTupleGetDatum(tuple);
}
