/*
 * engine_func.h
 *	  SQL functions that the engine answers, one row of engine_func.def each.
 *
 * A row says how a call becomes a request and how a reply becomes a value.  The
 * plain C function (engine_call) and the batch node (batch.h) are both made of
 * these parts, so that a call has one meaning wherever it runs.
 *
 * A request's body is its head and its input.  The head (identity, model, options)
 * depends on all arguments but the first n_inputs and on settings; a caller with
 * many rows may keep it while those stay the same.  The input is what differs from
 * row to row.
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
	bool		deterministic;	/* equal requests get equal replies: temperature 0, a
								 * fixed seed, or nothing is sampled */
	OnError		on_error;		/* what the call says of errors */
	StringInfoData body;		/* the head's fields, then the input's */
} SqlRequest;

typedef struct EngineFunc
{
	const char *prosrc;			/* C symbol of the SQL function */
	int			n_inputs;		/* the first arguments; a NULL among them makes NULL
								 * without a request, before anything else is looked at */

	/*
	 * Options, model and its privileges.  r->body is initialised and empty; all
	 * memory is the current context's.  Errors are thrown.
	 */
	void		(*head) (SqlRequest *r, FunctionCallInfo fcinfo);

	/*
	 * Append the input's fields to r->body.  An input that is refused is not thrown
	 * but returned (elevel ERROR, for ThrowErrorData), else NULL: the batch node
	 * raises it when its row is due.
	 */
	ErrorData  *(*input) (SqlRequest *r, FunctionCallInfo fcinfo);

	/* The value of type rettype, in the current context. */
	Datum		(*result) (const Reply *reply, Oid rettype, bool *isnull);
} EngineFunc;

/* The row of a C symbol, NULL if there is none. */
const EngineFunc *engine_func_find(const char *prosrc);
/*
 * That of a row of pg_proc, NULL if it is no function of ours: anybody may write any prosrc in another
 * language.
 */
const EngineFunc *engine_func_of(HeapTuple proc);
/* Is it a C function of our library? */
bool		engine_func_is_ours(HeapTuple proc);

/*
 * Its head; options that are refused are not thrown but returned: those of a row that
 * is not due yet may be wrong, and the error is kept for its row.
 */
ErrorData  *engine_func_head(const EngineFunc *f, SqlRequest *r, FunctionCallInfo fcinfo);

/* If who would answer the request is not there now, it is made one for another model that is (fallback.h). */
void		engine_ask_around(SqlRequest *r, FallbackRoute *route);
/*
 * Of a request that has failed with err: another model's answer, or an error; elsewhere:
 * vcall_error_is_fallbackable().  *call is that of the answer, in the current context, as what r becomes.
 */
ErrorData  *engine_ask_others(SqlRequest *r, FallbackRoute *route, ErrorData *err, bool elsewhere,
							  CallFrame *frame, ClientCall **call);

/* A call on its own: submit, wait, return (the SQL function's body). */
Datum		engine_call(FunctionCallInfo fcinfo, const char *prosrc);

#endif
