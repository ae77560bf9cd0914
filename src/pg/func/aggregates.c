/*
 * aggregates.c
 *	  Aggregates that ask a model: llm_agg, llm_summarize_agg.
 *
 * The transition function collects the texts of a group; the final function runs llm_reduce() over
 * them (reduce.c).  Parallel workers may process parts of a group, in any order, and rows come in any
 * order.  So without an ORDER BY in the call the texts are sorted by their bytes, and the output
 * doesn't depend on the plan.  With ORDER BY (or DISTINCT), PostgreSQL sorts, never in parallel, and
 * that order is kept.
 *
 * The state is a StringInfo of texts, each after its length, in the aggregate's memory; a worker
 * sends its state to the leader unchanged.
 *
 * Tests: tests/sql/22_agg.sql.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "nodes/primnodes.h"
#include "parser/parse_func.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"

#include "base/assert.h"
#include "pg/util/encoding.h"
#include "pg/call/engine_func.h"
#include "pg/util/named_args.h"
#include "pg/util/json_tree.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_agg_step);
PG_FUNCTION_INFO_V1(llm_summarize_step);
PG_FUNCTION_INFO_V1(llm_agg_combine);
PG_FUNCTION_INFO_V1(llm_agg_serial);
PG_FUNCTION_INFO_V1(llm_agg_deserial);
PG_FUNCTION_INFO_V1(llm_agg_final);

#define SUMMARIZE	"Summarize the following texts in a few sentences."

typedef struct AggState
{
	MemoryContext cxt;
	char	   *instruction;
	char	   *params;			/* json, NULL = none */
	int			n;
	StringInfoData texts;		/* int32 length, bytes; n times */
} AggState;

/* ---- transition ---- */

static AggState *
make_state(MemoryContext cxt, const char *instruction, const char *params)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AggState   *s = palloc0(sizeof(AggState));

	s->cxt = cxt;
	s->instruction = pstrdup(instruction);
	s->params = params ? pstrdup(params) : NULL;
	initStringInfo(&s->texts);
	MemoryContextSwitchTo(old);
	return s;
}

static void
check_same(const AggState *s, const char *instruction, const char *params)
{
	if (strcmp(s->instruction, instruction) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("instruction must be the same for all rows of a group"),
				 errdetail("\"%s\" and \"%s\"", s->instruction, instruction)));
	if (strcmp(s->params ? s->params : "", params ? params : "") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("params must be the same for all rows of a group")));
}

static Datum
add_text(FunctionCallInfo fcinfo, const char *instruction, int params_arg)
{
	AggState   *s = PG_ARGISNULL(0) ? NULL : (AggState *) PG_GETARG_POINTER(0);
	MemoryContext cxt;
	MemoryContext old;
	const char *params = NULL;
	text	   *t;
	int32		len;

	if (!AggCheckCallContext(fcinfo, &cxt))
		elog(ERROR, "aggregate function called in non-aggregate context");
	if (PG_ARGISNULL(1))
	{
		if (s == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(s);
	}
	if (instruction == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("instruction must not be null")));
	if (params_arg < PG_NARGS() && !PG_ARGISNULL(params_arg))
		params = text_to_cstring(PG_GETARG_TEXT_PP(params_arg));
	if (s == NULL)
		s = make_state(cxt, instruction, params);
	else
		check_same(s, instruction, params);
	t = PG_GETARG_TEXT_PP(1);
	len = VARSIZE_ANY_EXHDR(t);
	old = MemoryContextSwitchTo(s->cxt);
	appendBinaryStringInfo(&s->texts, (char *) &len, sizeof(len));
	appendBinaryStringInfo(&s->texts, VARDATA_ANY(t), len);
	s->n++;
	MemoryContextSwitchTo(old);
	PG_RETURN_POINTER(s);
}

/* vllm.agg_step(internal, input text, instruction text [, params json]) */
Datum
llm_agg_step(PG_FUNCTION_ARGS)
{
	return add_text(fcinfo, PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2)), 3);
}

/* vllm.summarize_step(internal, input text [, params json]) */
Datum
llm_summarize_step(PG_FUNCTION_ARGS)
{
	return add_text(fcinfo, SUMMARIZE, 2);
}

/* ---- parallel workers ---- */

Datum
llm_agg_combine(PG_FUNCTION_ARGS)
{
	AggState   *a = PG_ARGISNULL(0) ? NULL : (AggState *) PG_GETARG_POINTER(0);
	AggState   *b = PG_ARGISNULL(1) ? NULL : (AggState *) PG_GETARG_POINTER(1);
	MemoryContext cxt;

	if (!AggCheckCallContext(fcinfo, &cxt))
		elog(ERROR, "aggregate function called in non-aggregate context");
	if (b != NULL)
	{
		if (a == NULL)
			a = make_state(cxt, b->instruction, b->params);
		else
			check_same(a, b->instruction, b->params);
		appendBinaryStringInfo(&a->texts, b->texts.data, b->texts.len);
		a->n += b->n;
	}
	if (a == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(a);
}

Datum
llm_agg_serial(PG_FUNCTION_ARGS)
{
	AggState   *s = (AggState *) PG_GETARG_POINTER(0);
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint32(&buf, s->n);
	state_put_string(&buf, s->instruction);
	state_put_string(&buf, s->params);
	pq_sendbytes(&buf, s->texts.data, s->texts.len);
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

Datum
llm_agg_deserial(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	StringInfoData buf;
	AggState   *s;
	int			n;
	const char *instruction;
	const char *params;

	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	n = pq_getmsgint(&buf, 4);
	instruction = state_get_string(&buf);
	params = state_get_string(&buf);
	s = make_state(CurrentMemoryContext, instruction, params);
	s->n = n;
	appendBinaryStringInfo(&s->texts, buf.data + buf.cursor, buf.len - buf.cursor);
	PG_RETURN_POINTER(s);
}

/* ---- the result ---- */

static int
compare_texts(const void *a, const void *b)
{
	text	   *x = DatumGetTextPP(*(const Datum *) a);
	text	   *y = DatumGetTextPP(*(const Datum *) b);
	size_t		nx = VARSIZE_ANY_EXHDR(x),
				ny = VARSIZE_ANY_EXHDR(y);
	int			c = memcmp(VARDATA_ANY(x), VARDATA_ANY(y), Min(nx, ny));

	return c != 0 ? c : (nx > ny) - (nx < ny);
}

static Datum
texts_array(const AggState *s, bool sort)
{
	Datum	   *elems = palloc(sizeof(Datum) * s->n);
	const char *p = s->texts.data;

	for (int i = 0; i < s->n; i++)
	{
		int32		len;

		memcpy(&len, p, sizeof(len));
		elems[i] = PointerGetDatum(cstring_to_text_with_len(p + sizeof(len), len));
		p += sizeof(len) + len;
	}
	ASSERT(p == s->texts.data + s->texts.len);
	if (sort)
		qsort(elems, s->n, sizeof(Datum), compare_texts);
	return PointerGetDatum(construct_array(elems, s->n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* Return true if the order of the call itself, or of a window, is to be kept. */
static bool
has_order(FunctionCallInfo fcinfo)
{
	Aggref	   *agg = AggGetAggref(fcinfo);

	return agg == NULL || agg->aggorder != NIL || agg->aggdistinct != NIL;
}

/* Options in the json that are the aggregate's own, not for generating. */
static const char *const own_options[] = {"combine", "split", "chat_template"};

/* Set the argument of this name; return false if it is not one of ours. */
static bool
take_option(FunctionCallInfo call, const JsonNode *m)
{
	for (int i = 0; i < (int) lengthof(own_options); i++)
		if (strcmp(m->key, own_options[i]) == 0)
		{
			NullableDatum *arg = &call->args[fn_arg(call, m->key)];
			char	   *value = m->kind == JSON_STRING ? m->text : pnstrdup(m->raw, m->raw_len);

			if (m->kind == JSON_NULL)
				*arg = (NullableDatum) {0, true};
			else if (strcmp(m->key, "split") == 0)
				*arg = (NullableDatum) {DirectFunctionCall1(boolin, CStringGetDatum(value)), false};
			else
				*arg = (NullableDatum) {CStringGetTextDatum(value), false};
			return true;
		}
	return false;
}

/*
 * Take our own options out of the json.  The others stay in params, each as it was written, as a
 * schema's keys have an order.
 */
static void
take_options(FunctionCallInfo call, const char *json)
{
	const JsonNode *params = json_tree(cstring_to_text(json));
	StringInfoData rest;

	if (params->kind != JSON_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("params must be a json object")));
	initStringInfo(&rest);
	for (const JsonNode *m = params->first; m != NULL; m = m->next)
	{
		CHECK_FOR_INTERRUPTS();
		if (take_option(call, m))
			continue;
		appendStringInfoString(&rest, rest.len == 0 ? "{" : ", ");
		escape_json(&rest, m->key);
		appendStringInfoString(&rest, ": ");
		appendBinaryStringInfo(&rest, m->raw, m->raw_len);
	}
	appendStringInfoString(&rest, rest.len == 0 ? "{}" : "}");
	call->args[fn_arg(call, "params")] = (NullableDatum) {CStringGetTextDatum(rest.data), false};
}

/* vllm.agg_final(internal): llm_reduce(texts, instruction, params => params) */
Datum
llm_agg_final(PG_FUNCTION_ARGS)
{
	AggState   *s = PG_ARGISNULL(0) ? NULL : (AggState *) PG_GETARG_POINTER(0);
	LOCAL_FCINFO(call, FUNC_MAX_ARGS);
	FmgrInfo	reduce;
	Datum		value;

	if (s == NULL)
		PG_RETURN_NULL();
	fmgr_info(LookupFuncName(list_make2(makeString("vllm"), makeString("reduce")), -1, NULL, false), &reduce);
	InitFunctionCallInfoData(*call, &reduce, reduce.fn_nargs, DEFAULT_COLLATION_OID, NULL, NULL);
	for (int i = 0; i < reduce.fn_nargs; i++)
		call->args[i] = (NullableDatum) {0, true};
	call->args[0] = (NullableDatum) {texts_array(s, !has_order(fcinfo)), false};
	call->args[1] = (NullableDatum) {CStringGetTextDatum(s->instruction), false};
	if (s->params)
		take_options(call, s->params);
	value = engine_call(call, "llm_reduce");
	fcinfo->isnull = call->isnull;
	return value;
}
