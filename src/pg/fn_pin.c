/*
 * fn_pin.c
 *	  llm_pin_prefix, llm_unpin_prefix: a prompt stays computed, or no longer (rows of engine_func.def).
 *
 * To the engine it is a request for one token that nobody looks at.
 *
 * Tests: tests/t/092_kv.pl.
 */
#include "postgres.h"

#include "pg/client.h"
#include "pg/generate.h"
#include "pg/result.h"

static void
head(EngineRequest *r, FunctionCallInfo fcinfo, int pin)
{
	WireOut		out;

	generate_head_with(r, fcinfo, 0);
	/* each call counts, however often its prompt comes */
	r->deterministic = false;
	out = vclient_out(&r->body);
	wire_put_int(&out, WTAG_PIN, pin);
}

void
pin_head(EngineRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, 1);
}

void
unpin_head(EngineRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, -1);
}

/* how many tokens the prompt has */
Datum
pin_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return Int32GetDatum((int32) reply->prompt_tokens);
}
