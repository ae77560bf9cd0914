/*
 * tokenize.c
 *	  llm_tokenize, llm_detokenize, llm_count_tokens (rows of engine_func.def).
 *
 * The engine's tokenizer threads serve these functions; their requests never wait for a step.  An
 * empty input is allowed.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/util/named_args.h"
#include "pg/util/number_array.h"
#include "pg/call/generate.h"
#include "pg/vllm_pg.h"

/* For a named argument, NULL means its default. */
static bool
bool_arg(FunctionCallInfo fcinfo, int arg, bool otherwise)
{
	return PG_ARGISNULL(arg) ? otherwise : PG_GETARG_BOOL(arg);
}

/* Make the head for the model that argument `arg` names, with the adapter in an argument "lora". */
void
generate_model_head(SqlRequest *r, WireKind kind, FunctionCallInfo fcinfo, int arg)
{
	int			lora = fn_arg_given(fcinfo, "lora");
	ModelRow   *model = catalog_for_use(PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg)),
										lora < 0 ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(lora)));
	WireOut		out = vclient_out(&r->body);

	r->kind = kind;
	r->model = model->name;
	r->timeout_ms = 0;
	r->deterministic = true;
	catalog_put(model, &out);
}

/* ids: return the token ids, else only their number */
static void
tokenizer_head(SqlRequest *r, FunctionCallInfo fcinfo, int special_arg, int model_arg, bool ids)
{
	WireOut		out = vclient_out(&r->body);

	generate_model_head(r, WK_TOKENIZE, fcinfo, model_arg);
	wire_put_int(&out, WTAG_ADD_SPECIAL, bool_arg(fcinfo, special_arg, true));
	wire_put_int(&out, WTAG_WANT_IDS, ids);
}

ErrorData *
tokenize_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	text	   *input = PG_GETARG_TEXT_PP(0);
	ErrorData  *refused = generate_check_length("input", input);
	WireOut		out = vclient_out(&r->body);

	if (refused == NULL)
		wire_put_text(&out, WTAG_PROMPT, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input));
	return refused;
}

/* llm_tokenize(input text, add_special_tokens bool, model text) */
void
tokenize_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	tokenizer_head(r, fcinfo, 1, 2, true);
}

Datum
tokenize_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return reply_ids(reply);
}

/* llm_count_tokens(input text, model text, add_special_tokens bool) */
void
count_tokens_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	tokenizer_head(r, fcinfo, 2, 1, false);
}

Datum
count_tokens_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return Int32GetDatum((int32) (reply->count >= 0 ? reply->count : (int64) reply->ids.n));
}

/* llm_detokenize(ids int[], skip_special_tokens bool, model text) */
void
detokenize_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);

	generate_model_head(r, WK_DETOKENIZE, fcinfo, 2);
	wire_put_int(&out, WTAG_SKIP_SPECIAL, bool_arg(fcinfo, 1, false));
}

static ErrorData *
refuse_ids(int sqlstate, const char *message)
{
	ErrorData  *e = palloc0(sizeof(ErrorData));

	e->elevel = ERROR;
	e->sqlerrcode = sqlstate;
	e->message = pstrdup(message);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

ErrorData *
detokenize_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	WireOut		out = vclient_out(&r->body);
	int			n;
	int64		bad;
	int32	   *ids;

	if (ARR_NDIM(array) > 1)
		return refuse_ids(ERRCODE_ARRAY_SUBSCRIPT_ERROR, "token ids must be a one-dimensional array");
	if (array_contains_nulls(array))
		return refuse_ids(ERRCODE_NULL_VALUE_NOT_ALLOWED, "token ids must not contain null values");
	ids = number_array_ints(array, &n, &bad);
	if (ids == NULL)
		return refuse_ids(ERRCODE_INVALID_PARAMETER_VALUE,
						  psprintf("token id " INT64_FORMAT " is beyond any vocabulary", bad));
	wire_put_ints(&out, WTAG_PROMPT_IDS, ids, n);
	return NULL;
}

Datum
detokenize_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return PointerGetDatum(reply_text(reply));
}
