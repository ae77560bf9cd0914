/*
 * chunk.c
 *	  llm_chunk_text: splits a text into chunks that fit a model.
 *
 * The engine has the tokenizer and splits the text (one request for each text).  It returns the
 * chunks' positions in the text's UTF-8, and vllm.chunk_rows cuts them out of the backend's copy.
 * llm_chunk_text is an SQL function over the two that the planner inlines, so that in FROM the batch
 * node finds the request and keeps those of many rows in flight.
 *
 * Tests: tests/sql/20_chunk.sql, tests/unit/text/test_chunk.c.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/call/generate.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_chunk_rows);

#define SPAN_INTS	4			/* first byte, byte after the last; first token, token after the last */

/* vllm.chunk_spans(input text, method text, size int, overlap int, model text) */
void
chunk_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);

	generate_model_head(r, WK_CHUNK, fcinfo, 4);
	if (PG_ARGISNULL(1))
		wire_put_str(&out, WTAG_CHUNK_METHOD, "tokens", strlen("tokens"));
	else
	{
		text	   *method = PG_GETARG_TEXT_PP(1);

		wire_put_text(&out, WTAG_CHUNK_METHOD, VARDATA_ANY(method), VARSIZE_ANY_EXHDR(method));
	}
	if (!PG_ARGISNULL(2))
		wire_put_int(&out, WTAG_CHUNK_SIZE, PG_GETARG_INT32(2));
	if (!PG_ARGISNULL(3))
		wire_put_int(&out, WTAG_CHUNK_OVERLAP, PG_GETARG_INT32(3));
}

/* int4[], four numbers for each chunk */
Datum
chunk_result(const Reply *reply, Oid rettype, bool *isnull)
{
	Reply		spans = *reply;

	*isnull = false;
	spans.ids = reply->spans;
	return reply_ids(&spans);
}

/* ---- from spans to texts ---- */

typedef struct Cutter
{
	const char *utf8;			/* the text */
	int			len;
	const int32 *span;
	int			n;				/* number of values in span */
} Cutter;

static Cutter
open_cutter(text *input, ArrayType *array)
{
	Cutter		c = {
		.utf8 = pg_server_to_any(VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input), PG_UTF8),
		.span = (const int32 *) ARR_DATA_PTR(array),
		.n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array))
	};

	c.len = c.utf8 == VARDATA_ANY(input) ? VARSIZE_ANY_EXHDR(input) : strlen(c.utf8);
	if (c.n % SPAN_INTS != 0 || array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("spans must have four numbers per chunk")));
	return c;
}

static text *
cut(const Cutter *c, int i)
{
	int32		begin = c->span[i],
				end = c->span[i + 1];

	if (begin < 0 || end < begin || end > c->len)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("span from %d to %d is not in the text", begin, end)));
	return text_from_wire(c->utf8 + begin, end - begin);
}

List *
chunk_texts(text *input, ArrayType *spans)
{
	Cutter		c = open_cutter(input, spans);
	List	   *texts = NIL;

	for (int i = 0; i < c.n; i += SPAN_INTS)
		texts = lappend(texts, cut(&c, i));
	return texts;
}

/* vllm.chunk_rows(input text, spans int[]): a strict function */
Datum
llm_chunk_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Cutter		c = open_cutter(PG_GETARG_TEXT_PP(0), PG_GETARG_ARRAYTYPE_P(1));

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < c.n; i += SPAN_INTS)
	{
		Datum		values[4];
		bool		nulls[4] = {0};
		text	   *chunk = cut(&c, i);

		CHECK_FOR_INTERRUPTS();
		values[0] = Int32GetDatum(i / SPAN_INTS + 1);
		values[1] = PointerGetDatum(chunk);
		values[2] = Int32GetDatum(c.span[i + 2]);
		values[3] = Int32GetDatum(c.span[i + 3]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		pfree(chunk);
	}
	return (Datum) 0;
}
