/*
 * array_batch.c
 *	  llm_generate_batch: outputs for an array of prompts; llm_embed_batch: embeddings
 *	  of an array of texts; llm_generate_query: outputs for the rows of a query.
 *
 * All of them read rows ahead into a ring, keep their requests in flight together (a pool of
 * row_request.h, so window, duplicates and cancelling work as in the batch node) and return the
 * results in the order of the rows:
 *
 *		emitted <= started <= read
 *
 * They are value-per-call sets: in a target list a row is returned as soon as it and all rows before
 * it are finished.  Pool and ring live in the set's memory context, so the end of the set (last row,
 * LIMIT, closed cursor, ERROR) cancels the requests in flight.
 *
 * The query runs in a cursor, opened as PL/pgSQL opens one.  Between calls only its name is kept,
 * since COMMIT and ROLLBACK TO may drop a cursor before the statement that reads from it.  Nor is the
 * name certain to be ours: other code in the statement may close the cursor and declare another one
 * of that name, so each fetch checks that the rows have the same types as before.  The rows may hold
 * values of other roles' types; their casts are not called: type_trust.c.
 *
 * Tests: tests/sql/14_generate_batch.sql, tests/sql/17_embed.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"

#include "base/assert.h"
#include "pg/batch/row_request.h"
#include "pg/call/engine_func.h"
#include "pg/call/options.h"
#include "pg/util/type_trust.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_generate_batch);
PG_FUNCTION_INFO_V1(llm_embed_batch);
PG_FUNCTION_INFO_V1(llm_generate_query);

/* rows in the ring; more than any window in use */
#define MAX_AHEAD	1024

/* rows per fetch from the cursor */
#define FETCH_ROWS	50

typedef struct ArrayBatchRow
{
	HeapTuple	tuple;			/* from the query; NULL: an array's element */
	Datum		prompt;			/* from the array */
	bool		isnull;			/* the prompt is NULL: no request */
	BatchRequest *request;
} ArrayBatchRow;

typedef struct Ahead
{
	const char *function;		/* for the context of errors */
	const char *what;			/* name of a row in errors */
	Oid			rettype;		/* the result type of func */
	MemoryContext cxt;			/* the set's memory context */
	MemoryContext tmp;			/* reset after each prompt */
	BatchPool  *pool;
	const EngineFunc *func;
	SqlRequest	request;		/* the current row's request: the head, then its input */
	int			head_len;
	FunctionCallInfo input;		/* the current prompt, as the first argument of func */

	ArrayBatchRow rows[MAX_AHEAD];
	uint64		emitted,
				started,
				read;
	Size		bytes;			/* memory of the tuples in the ring */
	bool		eof;
	void		(*read_rows) (struct Ahead *a);	/* reads at least one more row, or sets eof */

	/* for an array */
	Datum	   *elems;
	bool	   *nulls;
	int			n_elems;

	/* for a query */
	char		portal[NAMEDATALEN];
	TupleDesc	desc;
	AttrNumber	attno;			/* the prompt's column */
	FmgrInfo	to_text;		/* fn_oid = 0: the column is text, no cast is needed */
	ExprContext *econtext;
} Ahead;

static inline ArrayBatchRow *
ring_row(Ahead *a, uint64 i)
{
	return &a->rows[i % MAX_AHEAD];
}

static Ahead *
make_ahead(const char *function, const char *engine_func, Oid rettype, MemoryContext cxt)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Ahead	   *a = palloc0(sizeof(Ahead));

	a->function = function;
	a->what = rettype == TEXTOID ? "prompt" : "input";
	a->rettype = rettype;
	a->cxt = cxt;
	a->tmp = AllocSetContextCreate(cxt, "LLM prompt", ALLOCSET_DEFAULT_SIZES);
	a->pool = batch_pool_create(cxt);
	a->func = engine_func_find(engine_func);
	a->input = palloc0(SizeForFunctionCallInfo(1));
	InitFunctionCallInfoData(*a->input, NULL, 1, InvalidOid, NULL, NULL);
	MemoryContextSwitchTo(old);
	return a;
}

/* Make the head from a call whose arguments have the same names as those of a->func. */
static void
make_head(Ahead *a, FunctionCallInfo call)
{
	MemoryContext old = MemoryContextSwitchTo(a->cxt);

	initStringInfo(&a->request.body);
	a->func->head(&a->request, call);
	a->head_len = a->request.body.len;
	MemoryContextSwitchTo(old);
}

/* ---- the ring ---- */

/* Return the prompt of a row that has one, in the current context. */
static Datum
prompt_of(Ahead *a, const ArrayBatchRow *row)
{
	bool		isnull;
	Datum		d;

	if (row->tuple == NULL)
		return row->prompt;
	d = heap_getattr(row->tuple, a->attno, a->desc, &isnull);
	return OidIsValid(a->to_text.fn_oid) ?
		FunctionCall1Coll(&a->to_text, DEFAULT_COLLATION_OID, d) : d;
}

/* Start a row's request; return false if no slot is free.  wait: wait for a slot. */
static bool
start_row(Ahead *a, ArrayBatchRow *row, bool wait)
{
	MemoryContext old;
	ErrorData  *refused;

	row->request = NULL;
	if (row->isnull)
		return true;
	old = MemoryContextSwitchTo(a->tmp);
	a->request.body.len = a->head_len;
	a->input->args[0].value = prompt_of(a, row);
	a->input->args[0].isnull = false;
	refused = engine_func_input(a->func, &a->request, a->input);
	row->request = refused ?
		batch_request_failed(a->pool, refused, on_error_forgives_input(a->request.on_error, refused)) :
		batch_request_start(a->pool, a->func, &a->request, NULL, wait);
	MemoryContextSwitchTo(old);
	MemoryContextReset(a->tmp);
	return row->request != NULL;
}

/* Return true if another row may be read.  The next row to be returned always may. */
static bool
has_space(Ahead *a)
{
	if (a->read == a->emitted)
		return true;
	return a->read - a->emitted < MAX_AHEAD &&
		a->bytes + batch_pool_held_bytes(a->pool) < (Size) work_mem * 1024 &&
		batch_pool_room(a->pool) > 0;
}

/* Read and start rows as far as the window allows. */
static void
fill(Ahead *a)
{
	for (;;)
	{
		ASSERT(a->emitted <= a->started && a->started <= a->read && a->read - a->emitted <= MAX_AHEAD);
		while (a->started < a->read)
		{
			/* nothing is in flight before the next row to be returned, so it waits for a slot */
			bool		first = a->started == a->emitted;

			if (!first && batch_pool_room(a->pool) <= 0)
				return;
			if (!start_row(a, ring_row(a, a->started), first))
				return;
			a->started++;
		}
		if (a->eof || !has_space(a))
			return;
		a->read_rows(a);
	}
}

static void
row_context(void *arg)
{
	Ahead	   *a = arg;

	errcontext("function %s, %s " UINT64_FORMAT, a->function, a->what, a->emitted + 1);
}

/* Return the next row, with its request finished; NULL if there are no more. */
static ArrayBatchRow *
next_row(Ahead *a)
{
	ErrorContextCallback callback = {error_context_stack, row_context, a};

	for (;;)
	{
		ArrayBatchRow *row = ring_row(a, a->emitted);

		if (a->started == a->emitted || batch_pool_room_for_many(a->pool))
			fill(a);
		batch_pool_flush();
		if (a->emitted == a->read)
			return NULL;
		if (row->request == NULL || batch_request_poll(row->request))
			return row;
		error_context_stack = &callback;
		batch_pool_wait(a->pool, row->request, NULL);
		error_context_stack = callback.previous;
	}
}

/* Return the row's result or raise its error; remove the row from the ring. */
static Datum
row_value(Ahead *a, ArrayBatchRow *row, bool *isnull)
{
	ErrorContextCallback callback = {error_context_stack, row_context, a};
	Datum		value = (Datum) 0;

	*isnull = row->request == NULL;
	if (row->request != NULL)
	{
		ErrorData  *err = batch_request_error(row->request);

		error_context_stack = &callback;
		*isnull = batch_request_forgive(row->request);
		if (err != NULL && !*isnull)
			ThrowErrorData(err);
		if (!*isnull)
			value = batch_request_value(row->request, a->rettype, isnull);
		error_context_stack = callback.previous;
		batch_request_release(row->request);
	}
	ASSERT(a->emitted < a->started);
	if (row->tuple != NULL)
	{
		ASSERT(a->bytes >= row->tuple->t_len);
		a->bytes -= row->tuple->t_len;
		heap_freetuple(row->tuple);
	}
	a->emitted++;
	batch_pool_row_done(a->pool);
	return value;
}

/* ---- llm_generate_batch(prompts text[], ... like llm_generate), llm_embed_batch ---- */

static void
read_array(Ahead *a)
{
	while (a->read < a->n_elems && a->read - a->emitted < MAX_AHEAD)
	{
		*ring_row(a, a->read) = (ArrayBatchRow)
		{
			.prompt = a->elems[a->read],.isnull = a->nulls[a->read]
		};
		a->read++;
	}
	a->eof = a->read == a->n_elems;
}

static Ahead *
open_array(FunctionCallInfo fcinfo, MemoryContext cxt, const char *function, const char *engine_func,
		   Oid rettype)
{
	Ahead	   *a = make_ahead(function, engine_func, rettype, cxt);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	deconstruct_array(PG_GETARG_ARRAYTYPE_P_COPY(GEN_ARG_PROMPT), TEXTOID, -1, false,
					  TYPALIGN_INT, &a->elems, &a->nulls, &a->n_elems);
	MemoryContextSwitchTo(old);
	a->read_rows = read_array;
	/* like the function for one prompt: if all prompts are NULL, nothing else is checked */
	for (int i = 0; i < a->n_elems; i++)
		if (!a->nulls[i])
		{
			make_head(a, fcinfo);
			break;
		}
	return a;
}

static Datum
array_batch(FunctionCallInfo fcinfo, const char *function, const char *engine_func, Oid rettype)
{
	FuncCallContext *fctx;
	Ahead	   *a;
	ArrayBatchRow *row;
	Datum		value;
	bool		isnull;

	if (SRF_IS_FIRSTCALL())
	{
		fctx = SRF_FIRSTCALL_INIT();
		if (!PG_ARGISNULL(GEN_ARG_PROMPT))
			fctx->user_fctx = open_array(fcinfo, fctx->multi_call_memory_ctx, function, engine_func, rettype);
	}
	fctx = SRF_PERCALL_SETUP();
	a = fctx->user_fctx;
	row = a ? next_row(a) : NULL;
	if (row == NULL)
		SRF_RETURN_DONE(fctx);
	value = row_value(a, row, &isnull);
	if (isnull)
		SRF_RETURN_NEXT_NULL(fctx);
	SRF_RETURN_NEXT(fctx, value);
}

Datum
llm_generate_batch(PG_FUNCTION_ARGS)
{
	return array_batch(fcinfo, "llm_generate_batch", "llm_generate", TEXTOID);
}

/* llm_embed_batch(inputs text[], ... like llm_embed) */
Datum
llm_embed_batch(PG_FUNCTION_ARGS)
{
	return array_batch(fcinfo, "llm_embed_batch", "llm_embed", FLOAT4ARRAYOID);
}

/* ---- llm_generate_query(query text, prompt_col name, ... like llm_generate) ---- */

/* Check that the rows are those of our query: rows of another cursor would be read with wrong types. */
static void
check_rows(const Ahead *a, TupleDesc desc)
{
	bool		same = desc->natts == a->desc->natts;

	for (int i = 0; i < desc->natts && same; i++)
		same = TupleDescAttr(desc, i)->atttypid == TupleDescAttr(a->desc, i)->atttypid;
	if (!same)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("the cursor of llm_generate_query no longer exists"),
				 errdetail("Another cursor has taken the name \"%s\".", a->portal)));
}

static void
read_query(Ahead *a)
{
	int			n = Min(FETCH_ROWS, MAX_AHEAD - (a->read - a->emitted));
	Portal		portal;

	/* a fetch of 0 rows would fetch the last row again */
	ASSERT(n > 0);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	portal = SPI_cursor_find(a->portal);
	if (portal == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("the cursor of llm_generate_query no longer exists"),
				 errdetail("The transaction that opened it has ended.")));
	SPI_cursor_fetch(portal, true, n);
	check_rows(a, SPI_tuptable->tupdesc);
	a->eof = SPI_processed < n;
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		ArrayBatchRow *row = ring_row(a, a->read);
		MemoryContext old = MemoryContextSwitchTo(a->cxt);

		*row = (ArrayBatchRow)
		{
			.tuple = heap_copytuple(SPI_tuptable->vals[i])
		};
		MemoryContextSwitchTo(old);
		row->isnull = heap_attisnull(row->tuple, a->attno, a->desc);
		a->bytes += row->tuple->t_len;
		a->read++;
	}
	SPI_finish();
}

/* Called when the set ends or is abandoned; after an ERROR the transaction has closed the cursor. */
static void
close_query(Datum arg)
{
	Ahead	   *a = (Ahead *) DatumGetPointer(arg);
	Portal		portal = SPI_cursor_find(a->portal);

	if (portal != NULL)
		SPI_cursor_close(portal);
}

static char *
column_names(TupleDesc desc)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < desc->natts; i++)
		appendStringInfo(&s, "%s\"%s\"", i == 0 ? "" : ", ", NameStr(TupleDescAttr(desc, i)->attname));
	return s.data;
}

static void
find_prompt_column(Ahead *a, const char *name)
{
	Form_pg_attribute att;
	CoercionPathType path;
	Oid			func = InvalidOid;

	for (int i = 0; i < a->desc->natts; i++)
		if (strcmp(NameStr(TupleDescAttr(a->desc, i)->attname), name) == 0)
		{
			if (a->attno != 0)
				ereport(ERROR,
						(errcode(ERRCODE_AMBIGUOUS_COLUMN),
						 errmsg("column \"%s\" of the query is ambiguous", name)));
			a->attno = i + 1;
		}
	if (a->attno == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("the query has no column \"%s\"", name),
				 errdetail("Its columns are: %s.", column_names(a->desc))));

	att = TupleDescAttr(a->desc, a->attno - 1);
	path = find_coercion_pathway(TEXTOID, getBaseType(att->atttypid), COERCION_IMPLICIT, &func);
	if (path == COERCION_PATH_FUNC)
	{
		type_check_trusted(name, att->atttypid);
		fmgr_info_cxt(func, &a->to_text, a->cxt);
	}
	/* text has no type modifier, so a cast to it takes only the value */
	if (path != COERCION_PATH_RELABELTYPE && (path != COERCION_PATH_FUNC || a->to_text.fn_nargs != 1))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of the query is of type %s, not text", name,
						format_type_be(att->atttypid)),
				 errhint("Cast it in the query: %s::text.", quote_identifier(name))));
}

static void
open_cursor(Ahead *a, const char *query)
{
	SPIPlanPtr	plan;
	Portal		portal;
	MemoryContext old;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	plan = SPI_prepare_cursor(query, 0, NULL, CURSOR_OPT_NO_SCROLL);
	if (plan == NULL || !SPI_is_cursor_plan(plan))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("query must be one statement that returns rows")));
	portal = SPI_cursor_open(NULL, plan, NULL, NULL, false);
	strlcpy(a->portal, portal->name, NAMEDATALEN);
	old = MemoryContextSwitchTo(a->cxt);
	a->desc = BlessTupleDesc(CreateTupleDescCopy(portal->tupDesc));
	MemoryContextSwitchTo(old);
	SPI_finish();
}

static Ahead *
open_query(FunctionCallInfo fcinfo, MemoryContext cxt)
{
	Ahead	   *a = make_ahead("llm_generate_query", "llm_generate", TEXTOID, cxt);

	make_head(a, fcinfo);
	open_cursor(a, text_to_cstring(PG_GETARG_TEXT_PP(0)));
	find_prompt_column(a, NameStr(*PG_GETARG_NAME(1)));
	a->read_rows = read_query;
	a->econtext = ((ReturnSetInfo *) fcinfo->resultinfo)->econtext;
	RegisterExprContextCallback(a->econtext, close_query, PointerGetDatum(a));
	return a;
}

Datum
llm_generate_query(PG_FUNCTION_ARGS)
{
	FuncCallContext *fctx;
	Ahead	   *a;
	ArrayBatchRow *row;
	Datum		values[2];
	bool		nulls[2] = {0};

	if (SRF_IS_FIRSTCALL())
	{
		fctx = SRF_FIRSTCALL_INIT();
		if (!PG_ARGISNULL(0) && !PG_ARGISNULL(1))
		{
			MemoryContext old = MemoryContextSwitchTo(fctx->multi_call_memory_ctx);

			if (get_call_result_type(fcinfo, NULL, &fctx->tuple_desc) != TYPEFUNC_COMPOSITE)
				elog(ERROR, "return type must be a row type");
			fctx->tuple_desc = BlessTupleDesc(fctx->tuple_desc);
			MemoryContextSwitchTo(old);
			fctx->user_fctx = open_query(fcinfo, fctx->multi_call_memory_ctx);
		}
	}
	fctx = SRF_PERCALL_SETUP();
	a = fctx->user_fctx;
	if (a == NULL)
		SRF_RETURN_DONE(fctx);
	row = next_row(a);
	if (row == NULL)
	{
		UnregisterExprContextCallback(a->econtext, close_query, PointerGetDatum(a));
		close_query(PointerGetDatum(a));
		SRF_RETURN_DONE(fctx);
	}
	values[0] = DirectFunctionCall1(row_to_json, type_plain_row(row->tuple, a->desc));
	values[1] = row_value(a, row, &nulls[1]);
	SRF_RETURN_NEXT(fctx, HeapTupleGetDatum(heap_form_tuple(fctx->tuple_desc, values, nulls)));
}
