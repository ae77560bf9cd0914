/*
 * engine_func.h
 *	  SQL functions that the engine or an endpoint computes, one row of engine_func.def each.
 *
 * A row says how a call becomes a request and how a reply becomes a value.  The plain C function
 * (engine_call) and the batch node (batch.h) both use these parts, so a call means the same wherever
 * it runs.
 *
 * A request's body is its head followed by its input.  The head (identity, model, options) depends on
 * the settings and on all arguments except the first n_inputs; a caller with many rows may reuse it
 * while those are unchanged.  The input differs from row to row.
 */
#ifndef VLLM_PG_CALL_ENGINE_FUNC_H
#define VLLM_PG_CALL_ENGINE_FUNC_H

#include "postgres.h"

#include "access/htup.h"
#include "fmgr.h"
#include "lib/stringinfo.h"

#include "pg/util/on_error.h"
#include "pg/client/reply.h"
#include "pg/call/fallback.h"
#include "ipc/wire.h"

typedef struct SqlRequest
{
	WireKind	kind;
	char	   *model;			/* for llm_requests */
	int			timeout_ms;		/* 0 = none */
	bool		deterministic;	/* equal requests get equal replies: temperature 0, a fixed seed, or no
								 * sampling */
	OnError		on_error;		/* the call's option on_error */
	StringInfoData body;		/* the head's fields, then the input's */
} SqlRequest;

typedef struct EngineFunc
{
	const char *prosrc;			/* C symbol of the SQL function */
	int			n_inputs;		/* number of first arguments; if one of them is NULL the result is NULL
								 * without a request, before any other check */

	/*
	 * Append options and model to r->body and check the model's privileges.  r->body is initialised
	 * and empty; all memory is in the current context.  Errors are thrown.
	 */
	void		(*head) (SqlRequest *r, FunctionCallInfo fcinfo);

	/*
	 * Append the input's fields to r->body.  Return the error of an input that is refused (elevel
	 * ERROR, for ThrowErrorData), else NULL.  It is not thrown, as the batch node raises it when its
	 * row is due.
	 */
	ErrorData  *(*input) (SqlRequest *r, FunctionCallInfo fcinfo);

	/* Return the value of type rettype, in the current context. */
	Datum		(*result) (const Reply *reply, Oid rettype, bool *isnull);
} EngineFunc;

/* Return the row of a C symbol, NULL if there is none. */
const EngineFunc *engine_func_find(const char *prosrc);
/*
 * Return the row for a pg_proc row, NULL if it is not our function: any user may write any prosrc in
 * another language.
 */
const EngineFunc *engine_func_of(HeapTuple proc);
/* Return true if the row is a C function of our library. */
bool		engine_func_is_ours(HeapTuple proc);

/*
 * Make the function's head.  Options that are refused are returned, not thrown: they may be those of
 * a row that is not due yet, and the caller keeps the error for that row.
 */
ErrorData  *engine_func_head(const EngineFunc *f, SqlRequest *r, FunctionCallInfo fcinfo);

/*
 * Append the input's fields, as EngineFunc's input() does.  An error of the input that input() throws,
 * as of a text that can't be converted to UTF-8, is returned, too.
 */
ErrorData  *engine_func_input(const EngineFunc *f, SqlRequest *r, FunctionCallInfo fcinfo);

/*
 * If the program that serves the request's model does not run, change the request to one for another
 * model whose program runs (fallback.h).
 */
void		engine_call_with_fallbacks(SqlRequest *r, FallbackRoute *route);
/*
 * Ask other models for a request that has failed with err.  Return NULL if one gave the result, else
 * an error.  elsewhere: as vcall_error_is_fallbackable() said.  *call is the call that gave the
 * result, in the current context, and r becomes its request.
 */
ErrorData  *engine_call_fallbacks(SqlRequest *r, FallbackRoute *route, ErrorData *err, bool elsewhere,
								  CallFrame *frame, ClientCall **call);

/* Make a single call: submit, wait, return (the SQL function's body). */
Datum		engine_call(FunctionCallInfo fcinfo, const char *prosrc);

#endif
