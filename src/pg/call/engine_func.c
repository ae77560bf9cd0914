/*
 * engine_func.c
 *	  SQL functions that the engine or an endpoint computes: the table, and single calls.
 *
 * engine_func.def generates both the rows and the functions that SQL calls.  A function is not
 * STRICT, because its options default to NULL; only a NULL input makes the result NULL, before any
 * other check.
 *
 * Tests: tests/sql/02_generate.sql, tests/sql/05_tokenize.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "pg/call/api_args.h"
#include "pg/call/cascade.h"
#include "pg/call/loglikelihood.h"
#include "pg/client/client.h"
#include "pg/call/engine_func.h"
#include "pg/call/generate.h"
#include "pg/call/pooling.h"
#include "pg/call/result_cache.h"
#include "pg/call/fallback.h"
#include "pg/types/shape.h"

#define LIBRARY "vllm_pg"

#define ENGINE_FUNC(symbol, inputs, head, input, result) \
	PG_FUNCTION_INFO_V1(symbol);
#include "pg/call/engine_func.def"
#undef ENGINE_FUNC

static const EngineFunc funcs[] = {
#define ENGINE_FUNC(symbol, inputs, head, input, result) \
	{#symbol, inputs, head, input, result},
#include "pg/call/engine_func.def"
#undef ENGINE_FUNC
};

const EngineFunc *
engine_func_find(const char *prosrc)
{
	for (int i = 0; i < (int) lengthof(funcs); i++)
		if (strcmp(funcs[i].prosrc, prosrc) == 0)
			return &funcs[i];
	return NULL;
}

/* Return true if probin names our library, by any path. */
static bool
is_our_library(const char *probin)
{
	const char *slash = strrchr(probin, '/');
	const char *base = slash ? slash + 1 : probin;
	size_t		len = strlen(LIBRARY);

	return strncmp(base, LIBRARY, len) == 0 &&
		(base[len] == '\0' || strcmp(base + len, DLSUFFIX) == 0);
}

bool
engine_func_is_ours(HeapTuple proc)
{
	bool		no_bin;
	Datum		probin = SysCacheGetAttr(PROCOID, proc, Anum_pg_proc_probin, &no_bin);

	return ((Form_pg_proc) GETSTRUCT(proc))->prolang == ClanguageId && !no_bin &&
		is_our_library(TextDatumGetCString(probin));
}

const EngineFunc *
engine_func_of(HeapTuple proc)
{
	bool		no_src;
	Datum		prosrc = SysCacheGetAttr(PROCOID, proc, Anum_pg_proc_prosrc, &no_src);

	return no_src || !engine_func_is_ours(proc) ? NULL : engine_func_find(TextDatumGetCString(prosrc));
}

/* Return true for errors that refuse the caller's request, as opposed to errors of the system. */
static bool
is_refusal(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_DATA_EXCEPTION:
		case ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION:
		case ERRCODE_FEATURE_NOT_SUPPORTED:
		case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
			return true;
		default:
			return false;
	}
}

/*
 * The error is caught without a subtransaction.  That is safe because head() is our own code: where
 * it refuses, it holds no lock, pin or reference and has not changed the user.  An error from a
 * CHECK's expression is not caught.
 */
ErrorData *
engine_func_head(const EngineFunc *f, SqlRequest *r, FunctionCallInfo fcinfo)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile refused = NULL;
	Oid			user,
				user_now;
	int			security,
				security_now;

	GetUserIdAndSecContext(&user, &security);
	(void) type_folding_failed();
	PG_TRY();
	{
		f->head(r, fcinfo);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		refused = compat_caught_error();
		GetUserIdAndSecContext(&user_now, &security_now);
		if (type_folding_failed() || user_now != user || security_now != security ||
			!is_refusal(refused->sqlerrcode))
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	return refused;
}

/* As above: where input() finds wrong data, it holds nothing that a subtransaction would release. */
ErrorData *
engine_func_input(const EngineFunc *f, SqlRequest *r, FunctionCallInfo fcinfo)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile refused = NULL;

	PG_TRY();
	{
		refused = f->input(r, fcinfo);
	}
	PG_CATCH();
	{
		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		MemoryContextSwitchTo(cxt);
		refused = compat_caught_error();
		FlushErrorState();
	}
	PG_END_TRY();
	return refused;
}

/* For a polymorphic function, the call's expression gives the type. */
static Oid
result_type(FunctionCallInfo fcinfo)
{
	Oid			type = get_func_rettype(fcinfo->flinfo->fn_oid);

	if (IsPolymorphicType(type))
		type = get_fn_expr_rettype(fcinfo->flinfo);
	if (!OidIsValid(type))
		elog(ERROR, "could not determine the result type of function %u", fcinfo->flinfo->fn_oid);
	return type;
}

static Datum
value_of(const EngineFunc *f, const SqlRequest *r, const CallFrame *frame, FunctionCallInfo fcinfo)
{
	Reply		reply;

	reply_read(&reply, frame);
	reply.request = r->body.data;
	reply.request_len = r->body.len;
	return f->result(&reply, result_type(fcinfo), &fcinfo->isnull);
}

/*
 * Change r to a request for the next model, if another one may do better after this result or error.
 * Return false if there is none.
 */
static bool
to_next_model(SqlRequest *r, FallbackRoute *route, ErrorData **err, bool elsewhere, const CallFrame *frame)
{
	StringInfoData next;
	char		model[NAMEDATALEN];

	initStringInfo(&next);
	if (*err == NULL && cascade_unsure(r->kind, r->body.data, r->body.len, frame, model))
	{
		if (!route_to(route, model, r->body.data, r->body.len, &next))
		{
			*err = route_unsure(route);
			return false;
		}
	}
	else if ((*err == NULL ? r->kind != WK_API || !route_may_body(frame->data, frame->len, r->body.data,
																  r->body.len) :
			  !route_may(*err, elsewhere, r->body.data, r->body.len)) ||
			 !route_next(route, r->body.data, r->body.len, &next, model))
	{
		if (*err != NULL)
			route_add_detail(route, *err);
		return false;
	}
	r->body = next;
	r->model = pstrdup(model);
	return true;
}

void
engine_call_with_fallbacks(SqlRequest *r, FallbackRoute *route)
{
	StringInfoData next;
	char		model[NAMEDATALEN];

	if (!route_around(route, &r->body, &next, model))
		return;
	r->body = next;
	r->model = pstrdup(model);
}

/* Ask the request's model and, when it fails, the next ones; r becomes the last one's request. */
static ErrorData *
call_model(SqlRequest *r, FallbackRoute *route, CallFrame *frame, ClientCall **call)
{
	TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), r->timeout_ms);
	int			timeout_ms = r->timeout_ms;

	for (;;)
	{
		ErrorData  *err = vcall_simple_noerror(r->kind, &r->body, r->model, timeout_ms, CurrentMemoryContext,
											   frame, call);

		if (!to_next_model(r, route, &err, vcall_error_is_fallbackable(*call), frame))
			return err;
		vcall_end(*call);
		if (r->timeout_ms > 0)
			timeout_ms = Max((int) TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end), 1);
	}
}

ErrorData *
engine_call_fallbacks(SqlRequest *r, FallbackRoute *route, ErrorData *err, bool elsewhere, CallFrame *frame,
					  ClientCall **call)
{
	return to_next_model(r, route, &err, elsewhere, frame) ? call_model(r, route, frame, call) : err;
}

/* Return NULL for a forgiven error, and count it. */
static Datum
null_for(FunctionCallInfo fcinfo, const ErrorData *err)
{
	on_error_count(err);
	on_error_check();
	PG_RETURN_NULL();
}

Datum
engine_call(FunctionCallInfo fcinfo, const char *prosrc)
{
	const EngineFunc *f = engine_func_find(prosrc);
	SqlRequest	r = {0};
	ErrorData  *refused;
	CallFrame	frame = {.kind = WF_DONE,.final = true};
	CacheKey	cache;
	FallbackRoute route = {0};
	ClientCall *call;
	Datum		value;

	for (int i = 0; i < f->n_inputs; i++)
		if (PG_ARGISNULL(i))
			PG_RETURN_NULL();
	initStringInfo(&r.body);
	f->head(&r, fcinfo);
	refused = engine_func_input(f, &r, fcinfo);
	if (refused && !on_error_forgives_input(r.on_error, refused))
		ThrowErrorData(refused);
	if (refused)
		return null_for(fcinfo, refused);
	result_cache_key(&cache, r.kind, &r.body, r.model, r.deterministic);
	if (cache.on && (frame.data = result_cache_find(&cache, &frame.len)) != NULL)
		return value_of(f, &r, &frame, fcinfo);
	engine_call_with_fallbacks(&r, &route);
	refused = call_model(&r, &route, &frame, &call);
	if (route.n > 1)
		cache.on = false;		/* the result is another model's */
	if (refused != NULL)
	{
		if (!on_error_forgives(r.on_error, refused))
			ThrowErrorData(refused);
		vcall_end(call);
		return null_for(fcinfo, refused);
	}
	on_error_count(NULL);
	on_error_check();
	if (cache.on)
		result_cache_keep(&cache, frame.data, frame.len);
	value = value_of(f, &r, &frame, fcinfo);
	vcall_end(call);
	return value;
}

#define ENGINE_FUNC(symbol, inputs, head, input, result) \
Datum \
symbol(PG_FUNCTION_ARGS) \
{ \
	return engine_call(fcinfo, #symbol); \
}
#include "pg/call/engine_func.def"
#undef ENGINE_FUNC
