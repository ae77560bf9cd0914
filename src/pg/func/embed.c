/*
 * embed.c
 *	  llm_embed, llm_embed_pinned, llm_embed_multi, llm_encode (rows of engine_func.def),
 *	  llm_model_digest, and conversion of an embedding to bytes.
 *
 * llm_embed_bytes is an SQL function over llm_embed, so that it is batched like that. llm_embed_batch
 * is in array_batch.c, llm_submit_embed in futures.c.
 *
 * Tests: tests/sql/17_embed.sql.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "port/pg_bswap.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pg/call/pooling.h"
#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"

PG_FUNCTION_INFO_V1(llm_embedding_bytes);
PG_FUNCTION_INFO_V1(llm_model_digest);

/* ---- llm_embed, llm_embed_multi ---- */

static const uint8 embed_args[] = {
	POPT_dimensions, POPT_use_activation, POPT_instruction, POPT_prompt_name, POPT_truncate,
	POPT_long_input, POPT_model, POPT_PARAMS, POPT_timeout_ms, POPT_lora
};

void
embed_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const PoolFunc f = {"embed", POOL_EMBED, 1, lengthof(embed_args), embed_args, 0};

	pool_head(r, fcinfo, &f);
}

void
embed_multi_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const PoolFunc f = {"token_embed", POOL_EMBED, 1, lengthof(embed_args), embed_args, 0};

	pool_head(r, fcinfo, &f);
}

/* ---- llm_model_digest(model text), llm_embed_pinned(input text, digest text, model text, ...) ---- */

#define PINNED_ARG_DIGEST	1
#define PINNED_ARG_MODEL	2
#define DIGEST_LEN			64

/* Return a local model, chosen as by llm_embed(). */
static ModelRow *
model_with_digest(FunctionCallInfo fcinfo, int arg)
{
	bool		by_default;
	ModelRow   *m = catalog_for_use_as(USE_EMBED,
									   PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg)),
									   NULL, &by_default);

	catalog_require_local(m, "a digest");
	if (m->lora != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a digest is not supported for adapter \"%s\"", catalog_called(m)),
				 errhint("Its model \"%s\" has one.", m->name)));
	return m;
}

Datum
llm_model_digest(PG_FUNCTION_ARGS)
{
	ModelRow   *m = model_with_digest(fcinfo, 0);
	StringInfoData body;
	WireOut		out;
	CallFrame	f;
	ClientCall *call;
	Reply		r;
	text	   *digest;

	initStringInfo(&body);
	out = vclient_out(&body);
	catalog_put(m, &out);
	vcall_simple(WK_MODEL_DIGEST, &body, m->name, 0, CurrentMemoryContext, &f, &call);
	reply_read(&r, &f);
	digest = reply_text(&r);
	vcall_end(call);
	PG_RETURN_TEXT_P(digest);
}

/*
 * The result depends only on the arguments, so the function is IMMUTABLE.  If the model's name refers
 * to another model now, that is an error, and no setting turns that into NULL.
 */
void
embed_pinned_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	static const uint8 args[] = {
		POPT_OTHER, POPT_model, POPT_dimensions, POPT_use_activation, POPT_instruction, POPT_prompt_name,
		POPT_truncate, POPT_long_input
	};
	static const PoolFunc f = {"embed", POOL_EMBED, PINNED_ARG_DIGEST, lengthof(args), args, 0};
	WireOut		out = vclient_out(&r->body);
	char	   *digest;

	if (PG_ARGISNULL(PINNED_ARG_DIGEST))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("digest must not be null"),
				 errhint("Use llm_model_digest() to get the digest of a model.")));
	digest = text_to_cstring(PG_GETARG_TEXT_PP(PINNED_ARG_DIGEST));
	if (strlen(digest) != DIGEST_LEN || strspn(digest, "0123456789abcdef") != DIGEST_LEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("digest must be %d lower-case hexadecimal digits", DIGEST_LEN),
				 errhint("Use llm_model_digest() to get the digest of a model.")));
	(void) model_with_digest(fcinfo, PINNED_ARG_MODEL);
	pool_head(r, fcinfo, &f);
	r->on_error = ON_ERROR_RAISE;
	wire_put_str(&out, WTAG_MODEL_DIGEST, digest, DIGEST_LEN);
}

/* ---- llm_encode(input text, task text, ...) ---- */

#define ENCODE_ARG_TASK 1

static const uint8 encode_args[] = {
	POPT_OTHER, POPT_dimensions, POPT_use_activation, POPT_step_tag_id, POPT_returned_token_ids,
	POPT_instruction, POPT_prompt_name, POPT_truncate, POPT_long_input, POPT_model, POPT_PARAMS,
	POPT_timeout_ms, POPT_lora
};

static const struct
{
	const char *task;
	int			kind;
	int			wants;			/* POOL_WANT_*; with the tokens' offsets the reply has one row for each
								 * token */
}			encode_tasks[] = {
	{"embed", POOL_EMBED, 0},
	{"token_embed", POOL_EMBED, POOL_WANT_OFFSETS},
	{"classify", POOL_CLASSIFY, 0},
	{"token_classify", POOL_CLASSIFY, POOL_WANT_OFFSETS},
	{"reward", POOL_REWARD, 0},
};

void
encode_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	char	   *task;

	if (PG_ARGISNULL(ENCODE_ARG_TASK))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("pooling_task required for llm_encode"),
				 errdetail("parameter=task, value=NULL"),
				 errhint("Use a more specific function, like llm_embed() or llm_classify(), or give the "
						 "task: embed, token_embed, classify, token_classify or reward.")));
	task = text_to_cstring(PG_GETARG_TEXT_PP(ENCODE_ARG_TASK));
	for (int i = 0; i < (int) lengthof(encode_tasks); i++)
		if (strcmp(task, encode_tasks[i].task) == 0)
		{
			PoolFunc	f = {encode_tasks[i].task, encode_tasks[i].kind, ENCODE_ARG_TASK,
			lengthof(encode_args), encode_args, encode_tasks[i].wants};

			pool_head(r, fcinfo, &f);
			return;
		}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unsupported task \"%s\"", task),
			 errdetail("parameter=task, value=%s", quote_literal_cstr(task)),
			 strcmp(task, "score") == 0 ?
			 errhint("Use llm_score() for a score, which needs two texts.") :
			 errhint("Tasks are embed, token_embed, classify, token_classify and reward.")));
}

/* Return one row for each token or step if the task has such results, else one vector. */
Datum
encode_result(const Reply *reply, Oid rettype, bool *isnull)
{
	*isnull = false;
	return reply_floats(reply, reply->offsets.n > 0 || reply->rows != 1);
}

/* ---- vllm.embedding_bytes(embedding real[], dtype text, endian text) ---- */

static uint16
half_of_float(float value)
{
	uint32		bits;
	uint32		sign;
	int			exponent;
	uint32		mantissa;

	memcpy(&bits, &value, 4);
	sign = bits >> 16 & 0x8000;
	exponent = (int) (bits >> 23 & 0xFF) - 127;
	mantissa = bits & 0x7FFFFF;
	if (exponent == 128)		/* infinity, NaN */
		return sign | 0x7C00 | (mantissa ? 0x200 : 0);
	if (exponent < -25)
		return sign;
	if (exponent < -14)
	{
		/* subnormal; to nearest, ties to even */
		int			shift = -exponent - 1;
		uint32		m = mantissa | 0x800000;
		uint32		half = 1u << (shift - 1);

		return sign | ((m + half - 1 + (m >> shift & 1)) >> shift);
	}
	/* a carry of the mantissa goes into the exponent, up to infinity */
	bits = (uint32) (exponent + 15) << 23 | mantissa;
	bits += 0xFFF + (bits >> 13 & 1);
	return sign | Min(bits >> 13, 0x7C00);
}

static uint16
bfloat_of_float(float value)
{
	uint32		bits;

	memcpy(&bits, &value, 4);
	if ((bits & 0x7FFFFFFF) > 0x7F800000)
		return bits >> 16 | 0x40;
	return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

/* Return the index of the argument in names; ERROR if it is not there. */
static int
choice_arg(FunctionCallInfo fcinfo, int arg, const char *name, const char *const *names, int n)
{
	const char *value = PG_ARGISNULL(arg) ? names[0] : text_to_cstring(PG_GETARG_TEXT_PP(arg));
	StringInfoData all;

	for (int i = 0; i < n; i++)
		if (strcmp(value, names[i]) == 0)
			return i;
	initStringInfo(&all);
	for (int i = 0; i < n; i++)
		appendStringInfo(&all, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", names[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s must be %s", name, all.data),
			 errdetail("parameter=%s, value=%s", name, quote_literal_cstr(value))));
	return -1;					/* not reached */
}

Datum
llm_embedding_bytes(PG_FUNCTION_ARGS)
{
	static const char *const dtypes[] = {"float32", "float16", "bfloat16"};
	static const char *const endians[] = {"little", "big"};
	int			dtype = choice_arg(fcinfo, 1, "dtype", dtypes, lengthof(dtypes));
	bool		big = choice_arg(fcinfo, 2, "endian", endians, lengthof(endians)) == 1;
	ArrayType  *a;
	const float *v;
	int			n;
	int			width = dtype == 0 ? 4 : 2;
	bytea	   *result;
	char	   *to;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	a = PG_GETARG_ARRAYTYPE_P(0);
	if (array_contains_nulls(a))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("an embedding must not contain null values")));
	v = (const float *) ARR_DATA_PTR(a);
	n = ArrayGetNItems(ARR_NDIM(a), ARR_DIMS(a));
	result = palloc(VARHDRSZ + (Size) n * width);
	SET_VARSIZE(result, VARHDRSZ + (Size) n * width);
	to = VARDATA(result);
	for (int i = 0; i < n; i++, to += width)
		if (dtype == 0)
		{
			uint32		bits;

			memcpy(&bits, &v[i], 4);
			bits = big ? pg_hton32(bits) : pg_bswap32(pg_hton32(bits));
			memcpy(to, &bits, 4);
		}
		else
		{
			uint16		bits = dtype == 1 ? half_of_float(v[i]) : bfloat_of_float(v[i]);

			bits = big ? pg_hton16(bits) : pg_bswap16(pg_hton16(bits));
			memcpy(to, &bits, 2);
		}
	PG_RETURN_BYTEA_P(result);
}
