/*
 * fn_tokenize.c
 *	  llm_tokenize, llm_detokenize, llm_count_tokens.
 *
 * The engine's tokenizer threads answer these; they never queue behind a step.
 * A NULL input makes NULL without a call; an empty input is fine here.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pg/catalog.h"
#include "pg/client.h"
#include "pg/encode.h"
#include "pg/generate.h"
#include "pg/result.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_tokenize);
PG_FUNCTION_INFO_V1(llm_detokenize);
PG_FUNCTION_INFO_V1(llm_count_tokens);

/* Begin a message about the model that argument `arg` names. */
static ModelRow *
begin_message(FunctionCallInfo fcinfo, int arg, StringInfo body, WireOut *out)
{
	ModelRow   *model = catalog_model_for_use(PG_ARGISNULL(arg) ? NULL :
											  text_to_cstring(PG_GETARG_TEXT_PP(arg)));

	initStringInfo(body);
	*out = vclient_out(body);
	catalog_put(model, out);
	return model;
}

/* A named argument that is NULL means its default. */
static bool
bool_arg(FunctionCallInfo fcinfo, int arg, bool otherwise)
{
	return PG_ARGISNULL(arg) ? otherwise : PG_GETARG_BOOL(arg);
}

/* Tokenize argument 0; ids: want them, else only their number. */
static Call *
tokenize(FunctionCallInfo fcinfo, int special_arg, int model_arg, bool ids, Reply *r)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	Call	   *call;
	text	   *input = PG_GETARG_TEXT_PP(0);
	ModelRow   *model = begin_message(fcinfo, model_arg, &body, &out);

	generate_check_length("input", input);
	wire_put_int(&out, WTAG_ADD_SPECIAL, bool_arg(fcinfo, special_arg, true));
	wire_put_int(&out, WTAG_WANT_IDS, ids);
	wire_put_text(&out, WTAG_PROMPT, VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input));
	vcall_simple(WK_TOKENIZE, &body, model->name, 0, CurrentMemoryContext, &f, &call);
	reply_read(r, &f);
	return call;
}

/* llm_tokenize(input text, add_special_tokens bool, model text) */
Datum
llm_tokenize(PG_FUNCTION_ARGS)
{
	Reply		r;
	Call	   *call;
	Datum		result;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	call = tokenize(fcinfo, 1, 2, true, &r);
	result = reply_ids(&r);
	vcall_end(call);
	PG_RETURN_DATUM(result);
}

/* llm_count_tokens(input text, model text, add_special_tokens bool) */
Datum
llm_count_tokens(PG_FUNCTION_ARGS)
{
	Reply		r;
	Call	   *call;
	int64		count;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	call = tokenize(fcinfo, 2, 1, false, &r);
	count = r.count >= 0 ? r.count : (int64) r.ids.n;
	vcall_end(call);
	PG_RETURN_INT32((int32) count);
}

/* llm_detokenize(ids int[], skip_special_tokens bool, model text) */
Datum
llm_detokenize(PG_FUNCTION_ARGS)
{
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	Call	   *call;
	Reply		r;
	ArrayType  *array;
	ModelRow   *model;
	text	   *result;
	int			n;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	array = PG_GETARG_ARRAYTYPE_P(0);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("token ids must be a one-dimensional array")));
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("token ids must not contain null values")));
	n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

	model = begin_message(fcinfo, 2, &body, &out);
	wire_put_int(&out, WTAG_SKIP_SPECIAL, bool_arg(fcinfo, 1, false));
	wire_put_ints(&out, WTAG_PROMPT_IDS, (int32 *) ARR_DATA_PTR(array), n);
	vcall_simple(WK_DETOKENIZE, &body, model->name, 0, CurrentMemoryContext, &f, &call);
	reply_read(&r, &f);
	result = reply_text(&r);
	vcall_end(call);
	PG_RETURN_TEXT_P(result);
}
