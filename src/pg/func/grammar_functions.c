/*
 * grammar_functions.c
 *	  llm_grammar_accepts(schema json, instance text): returns true if the text is a JSON document
 *	  that is valid under the schema.
 *
 * The engine has the grammars; no model is needed.  The check is that of JSON Schema itself, made by
 * the automaton that constrains generation: a keyword that it can't express is an ERROR with the
 * keyword's name, never ignored.
 *
 * Tests: tests/sql/24_grammar.sql, tests/unit/grammar/schema/test_json_schema.c.
 */
#include "postgres.h"

#include "fmgr.h"

#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/vllm_pg.h"

void
grammar_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);

	r->kind = WK_GRAMMAR;
	r->deterministic = true;
	vclient_put_identity(&out);
}

ErrorData *
grammar_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	text	   *schema = PG_GETARG_TEXT_PP(0);
	text	   *instance = PG_GETARG_TEXT_PP(1);
	ErrorData  *refused = generate_check_length("instance", instance);
	WireOut		out = vclient_out(&r->body);

	if (refused == NULL)
		refused = generate_check_length("schema", schema);
	if (refused == NULL)
	{
		wire_put_text(&out, WTAG_SCHEMA, VARDATA_ANY(schema), VARSIZE_ANY_EXHDR(schema));
		wire_put_text(&out, WTAG_PROMPT, VARDATA_ANY(instance), VARSIZE_ANY_EXHDR(instance));
	}
	return refused;
}

Datum
grammar_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return BoolGetDatum(reply->count > 0);
}
