/*
 * embeds_generate.c
 *	  llm_embeds_generate, llm_embeds_output: prompts given as embeddings; llm_token_embeddings,
 *	  which returns such rows (rows of engine_func.def).
 *
 * Embeddings as input can express things that no text can, and as output they reveal weights: only a
 * superuser can switch vllm.enable_prompt_embeds on, which is off by default.
 *
 * Tests: tests/sql/32_embeds.sql, tests/t/085_sampling.pl.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"

#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/util/number_array.h"
#include "pg/call/generate.h"
#include "pg/vllm_pg.h"

static void
require_allowed(void)
{
	if (!vllm_enable_prompt_embeds)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("prompts of embeddings are not enabled"),
				 errhint("Set vllm.enable_prompt_embeds to on.")));
}

void
embeds_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	require_allowed();
	generate_head_with(r, fcinfo, 0);
}

void
embeds_output_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	require_allowed();
	generate_head_with(r, fcinfo, GEN_WANT_IDS | GEN_ANSWERS);
}

static ErrorData *
refuse(int sqlstate, char *message)
{
	ErrorData  *e = palloc0(sizeof(ErrorData));

	e->elevel = ERROR;
	e->sqlerrcode = sqlstate;
	e->message = message;
	e->detail = pstrdup("parameter=prompt_embeds");
	e->assoc_context = CurrentMemoryContext;
	return e;
}

/*
 * The input is real[][] with one row for each token, or a real[] with the rows one after the other.
 * The engine checks the numbers.
 */
ErrorData *
embeds_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	ArrayType  *a = number_array_reals(PG_GETARG_ARRAYTYPE_P(0));
	int			n = ArrayGetNItems(ARR_NDIM(a), ARR_DIMS(a));
	WireOut		out = vclient_out(&r->body);

	if (ARR_NDIM(a) > 2)
		return refuse(ERRCODE_ARRAY_SUBSCRIPT_ERROR,
					  psprintf("prompt_embeds must be an array of one or two dimensions, got %d",
							   ARR_NDIM(a)));
	if (n == 0)
		return refuse(ERRCODE_INVALID_PARAMETER_VALUE, pstrdup("prompt_embeds must not be empty"));
	if (array_contains_nulls(a))
		return refuse(ERRCODE_NULL_VALUE_NOT_ALLOWED, pstrdup("prompt_embeds must not contain null values"));
	if (ARR_NDIM(a) == 2)
		wire_put_int(&out, WTAG_EMBEDS_WIDTH, ARR_DIMS(a)[1]);
	wire_put_floats(&out, WTAG_PROMPT_EMBEDS, (const float *) ARR_DATA_PTR(a), n);
	return NULL;
}

/* llm_token_embeddings(input text, add_special_tokens bool, model text) */
void
token_embeds_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);

	require_allowed();
	tokenize_head(r, fcinfo);
	wire_put_int(&out, WTAG_WANT_EMBEDS, 1);
}

Datum
token_embeds_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return reply_floats(reply, reply->floats.n > 0);
}
