/*
 * futures.c
 *	  Futures: llm_submit, llm_submit_embed, llm_poll, llm_result, llm_result_embedding,
 *	  llm_wait, llm_discard, llm_futures.
 *
 * A future is a request that outlives its statement.  It belongs to the session, as a prepared
 * statement does.  The end of a transaction and ROLLBACK don't affect it.  It ends when its result is
 * fetched, by llm_discard(), by DISCARD ALL or with the session.
 *
 * Within the session it belongs to the current user at its submission.  A session runs code of many
 * roles: by SECURITY DEFINER, SET ROLE, expressions of indexes under ANALYZE, jobs in a worker.
 * Roles that have that role's privileges may use the future, as in llm_requests and llm_cancel(); for
 * others it does not exist.  A job worker drops all futures at the end of each transaction
 * (worker_session.c).
 *
 * Each future has its own memory context with its ClientCall and request, so deleting the context
 * ends the request.  llm_submit() creates the context below the caller's context and moves it below
 * TopMemoryContext when nothing can fail any more.  llm_result() moves it back before it makes the
 * value.  So an ERROR in between leaves nothing behind.
 *
 * A future holds a slot only until the reply's final frame has been read, and every function here
 * reads the frames that have arrived for all futures of the session (drain()).  A session that waits
 * for a slot drains, too (vslot_drain); else it could wait for a slot that its own unread future
 * holds.  An idle session does not read and keeps its slots; hence one session may use at most half
 * of them for futures, and llm_submit() waits beyond that.
 *
 * A future whose result is cached (result_cache.c) is finished at once, without a request.  If its
 * model fails, the caller who fetches the result asks the next model; and the result that he fetches
 * is stored in the cache in his transaction.
 *
 * Tests: tests/sql/13_futures.sql, 37_result_cache.sql, 38_fallback.sql, tests/t/009_futures.pl.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/call/cascade.h"
#include "pg/client/client.h"
#include "pg/call/engine_func.h"
#include "pg/call/futures.h"
#include "pg/call/options.h"
#include "pg/call/result_cache.h"
#include "pg/call/fallback.h"
#include "pg/call/generate.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_submit);
PG_FUNCTION_INFO_V1(llm_submit_ids);
PG_FUNCTION_INFO_V1(llm_submit_chat);
PG_FUNCTION_INFO_V1(llm_submit_embed);
PG_FUNCTION_INFO_V1(llm_poll);
PG_FUNCTION_INFO_V1(llm_result);
PG_FUNCTION_INFO_V1(llm_result_embedding);
PG_FUNCTION_INFO_V1(llm_wait);
PG_FUNCTION_INFO_V1(llm_discard);
PG_FUNCTION_INFO_V1(llm_future_list);

typedef struct Future
{
	int64		id;				/* hash key: the request's id */
	MemoryContext cxt;			/* owns everything below except the neighbours in the dlist */
	dlist_node	node;			/* in running, until it is finished */
	const EngineFunc *func;
	Oid			rettype;		/* of func: text or real[] */
	SqlRequest	request;		/* its body must live as long as the call */
	ClientCall *call;
	TimestampTz submitted;
	bool		finished;
	CallFrame	frame;			/* finished without error: the reply */
	ErrorData  *error;			/* finished with an error */
	bool		refused;		/* the error is of its input: no request was made */
	Oid			userid;			/* the role that submitted it */
	CacheKey	cache;			/* on: its result goes into the result cache */
	FallbackRoute route;			/* the models asked so far; n = 0: only the first one */
	bool		rerouted;		/* another model may be asked after the error */
	bool		elsewhere;		/* result of vcall_error_is_fallbackable() */
	int			left_ms;		/* ms left of timeout_ms when it finished */
} Future;

/* The hash table's entry.  The Future itself doesn't move. */
typedef struct FutureEntry
{
	int64		id;
	Future	   *future;
} FutureEntry;

static HTAB *futures = NULL;
static dlist_head running = DLIST_STATIC_INIT(running);
static int	n_running = 0;

static ProcessUtility_hook_type prev_process_utility = NULL;
static void (*prev_drain) (void) = NULL;

/* ---- reading replies ---- */

static void
finish(Future *f)
{
	const StringInfoData *body = &f->request.body;
	char		surer[NAMEDATALEN];

	ASSERT(!f->finished && n_running > 0);
	f->finished = true;
	dlist_delete(&f->node);
	n_running--;
	f->elsewhere = vcall_error_is_fallbackable(f->call);
	f->left_ms = (int) vcall_time_left(f->call, f->request.timeout_ms);
	f->rerouted = f->error != NULL && route_may(f->error, f->elsewhere, body->data, body->len);
	/* a result that a cascade would pass to another model must not be cached */
	if (f->error == NULL && f->cache.on && cascade_unsure(f->request.kind, body->data, body->len, &f->frame,
														  surer))
		f->cache.on = false;
	/* the reply is complete, or the request has failed */
	vcall_end(f->call);
	/* an answer's text depends on its request */
	if (f->rerouted || f->func->result == answer_result)
		return;
	pfree(f->request.body.data);
	f->request.body.data = NULL;
}

/*
 * Read the frames that have arrived.  Never blocks: it polls once, so that an engine that sends
 * without end can't hold the backend here.
 */
static void
advance(Future *f)
{
	if (vcall_poll(f->call))
	{
		CallFrame	frame;

		while (vcall_next(f->call, &frame, &f->error))
			if (frame.final)
			{
				f->frame = frame;
				finish(f);
				return;
			}
	}
	if (f->error == NULL)
		f->error = vcall_check_deadline(f->call);
	if (f->error != NULL)
		finish(f);
}

static void
drain(void)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &running)
		advance(dlist_container(Future, node, it.cur));
}

/* Called when a claim of this backend waits for a slot. */
static void
drain_for_slot(void)
{
	if (prev_drain)
		prev_drain();
	drain();
}

/* ---- the session's futures ---- */

static void
make_table(void)
{
	HASHCTL		ctl = {.keysize = sizeof(int64),.entrysize = sizeof(FutureEntry),.hcxt = TopMemoryContext};

	futures = hash_create("llm futures", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static bool
may_use(const Future *f)
{
	return has_privs_of_role(GetUserId(), f->userid);
}

/* Return NULL if there is none, or if it is another role's. */
static Future *
find_own(int64 id)
{
	FutureEntry *e = futures ? hash_search(futures, &id, HASH_FIND, NULL) : NULL;

	return e != NULL && may_use(e->future) ? e->future : NULL;
}

static Future *
find(int64 id)
{
	Future	   *f = find_own(id);

	if (f == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("future " INT64_FORMAT " does not exist in this session", id),
				 errhint("Only the session and role that called llm_submit() can use a future, until its "
						 "result is fetched. The view llm_futures lists the open ones.")));
	return f;
}

/* Remove the future from the session; the caller deletes its memory. */
static void
forget(Future *f)
{
	if (!f->finished)
	{
		ASSERT(n_running > 0);
		dlist_delete(&f->node);
		n_running--;
	}
	(void) hash_search(futures, &f->id, HASH_REMOVE, NULL);
}

void
vllm_future_discard_all(void)
{
	HASH_SEQ_STATUS seq;
	FutureEntry *e;

	if (futures == NULL)
		return;
	hash_seq_init(&seq, futures);
	while ((e = hash_seq_search(&seq)) != NULL)
	{
		Future	   *f = e->future;

		forget(f);
		MemoryContextDelete(f->cxt);
	}
}

static void
future_process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
					   ProcessUtilityContext context, ParamListInfo params,
					   QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	bool		all = IsA(pstmt->utilityStmt, DiscardStmt) &&
		((DiscardStmt *) pstmt->utilityStmt)->target == DISCARD_ALL;

	if (prev_process_utility)
		prev_process_utility(pstmt, query, read_only_tree, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params, env, dest, qc);
	if (all)
		vllm_future_discard_all();
}

/* The dlist is empty in a session without futures, so the hooks cost nothing there. */
void
vllm_future_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = future_process_utility;
	prev_drain = vslot_drain;
	vslot_drain = drain_for_slot;
	vclient_exit = vllm_future_discard_all;
}

/* ---- waiting ---- */

/*
 * Wait until all of f[] are finished and fewer than max_running futures run.  Return false if give_up
 * (0 = never) came first.
 */
static bool
wait_for(Future *const *f, int n, int max_running, TimestampTz give_up)
{
	static uint32 wait_event = 0;
	Future	   *reporting = NULL;	/* the future whose model's loading is reported */

	for (;;)
	{
		Future	   *first = NULL;
		long		nap = 1000;

		CHECK_FOR_INTERRUPTS();
		drain();
		for (int i = 0; i < n; i++)
			if (!f[i]->finished)
			{
				first = first ? first : f[i];
				nap = vcall_time_left(f[i]->call, nap);
			}
		if (first == NULL && n_running < max_running)
			return true;
		/* one NOTICE is enough for all futures that wait for the same model */
		if (first && (reporting == NULL || strcmp(reporting->request.model, first->request.model) != 0))
			reporting = first;
		if (reporting && !reporting->finished && vcall_report_loading(reporting->call))
			nap = Min(nap, LOADING_QUIET);
		if (give_up != 0)
		{
			long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), give_up);

			if (left <= 0)
				return false;
			nap = Min(nap, left);
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, Max(nap, 1),
						 compat_wait_event(&wait_event, "VllmFuture"));
		ResetLatch(MyLatch);
	}
}

/* ---- submit ---- */

/* ERROR if the session has too many futures. */
static void
check_number(void)
{
	if (hash_get_num_entries(futures) >= vllm_shared->n_slots)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many open futures in this session"),
				 errdetail("A session can have at most %d (vllm.max_queued_requests).", vllm_shared->n_slots),
				 errhint("Fetch results with llm_result(), or discard futures with llm_discard().")));
}

/* Wait if too many futures run. */
static void
make_room(void)
{
	int			max_running = Max(vllm_shared->n_slots / 2, 1);

	if (n_running >= max_running &&
		!wait_for(NULL, 0, max_running, TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
																	vllm_queue_timeout)))
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
				 errmsg("too many LLM requests are queued"),
				 errdetail("%d futures of this session are running and none ended within %d ms.",
						   n_running, vllm_queue_timeout),
				 errhint("Raise vllm.max_queued_requests or vllm.queue_timeout.")));
}

/*
 * Make the request of a row of engine_func.def from the function's arguments, which are the row's.  With
 * an input whose error is to be NULL, the future has finished.
 */
static void
make_request(Future *f, const char *func, FunctionCallInfo fcinfo)
{
	ErrorData  *refused;
	MemoryContext old;

	f->func = engine_func_find(func);
	f->func->head(&f->request, fcinfo);
	refused = engine_func_input(f->func, &f->request, fcinfo);
	if (refused && !on_error_forgives_input(f->request.on_error, refused))
		ThrowErrorData(refused);
	old = MemoryContextSwitchTo(f->cxt);
	f->request.model = pstrdup(f->request.model);
	if (refused)
	{
		/* what on_error_count() reads */
		f->error = palloc0(sizeof(ErrorData));
		f->error->sqlerrcode = refused->sqlerrcode;
		f->error->message = refused->message ? pstrdup(refused->message) : NULL;
		f->refused = true;
	}
	MemoryContextSwitchTo(old);
}

/* Finish the future at once if its result is cached. */
static bool
find_kept(Future *f)
{
	MemoryContext old;

	result_cache_key(&f->cache, f->request.kind, &f->request.body, f->request.model,
					 f->request.deterministic);
	if (!f->cache.on)
		return false;
	old = MemoryContextSwitchTo(f->cxt);
	f->frame = (CallFrame) {.kind = WF_DONE,.final = true};
	f->frame.data = result_cache_find(&f->cache, &f->frame.len);
	MemoryContextSwitchTo(old);
	if (f->frame.data == NULL)
		return false;
	f->cache.on = false;
	f->finished = true;
	f->id = vslot_new_request_id();
	return true;
}

static void
begin(Future *f)
{
	MemoryContext old;

	make_room();
	old = MemoryContextSwitchTo(f->cxt);
	engine_call_with_fallbacks(&f->request, &f->route);
	MemoryContextSwitchTo(old);
	if (f->route.n > 1)
		f->cache.on = false;
	f->submitted = GetCurrentTimestamp();
	f->call = vcall_begin(f->cxt, f->request.kind, &f->request.body, f->request.model,
						  f->request.timeout_ms);
	f->id = vcall_request_id(f->call);
}

static Datum
submit(FunctionCallInfo fcinfo, const char *func, Oid rettype)
{
	MemoryContext cxt;
	Future	   *f;
	FutureEntry *e;
	bool		found;

	if (PG_ARGISNULL(GEN_ARG_PROMPT))
		PG_RETURN_NULL();
	if (futures == NULL)
		make_table();
	cxt = AllocSetContextCreate(CurrentMemoryContext, "llm future", ALLOCSET_SMALL_SIZES);
	f = MemoryContextAllocZero(cxt, sizeof(Future));
	f->cxt = cxt;
	MemoryContextSwitchTo(cxt);
	initStringInfo(&f->request.body);
	MemoryContextSwitchTo(MemoryContextGetParent(cxt));
	f->rettype = rettype;
	f->userid = GetUserId();
	f->submitted = GetCurrentTimestamp();
	make_request(f, func, fcinfo);
	check_number();
	if (f->refused)
	{
		f->finished = true;
		f->id = vslot_new_request_id();
	}
	else if (!find_kept(f))
		begin(f);
	e = hash_search(futures, &f->id, HASH_ENTER, &found);
	/* request ids are unique; the other future could never be found again */
	ASSERT(!found);
	e->future = f;
	if (!f->finished)
	{
		dlist_push_tail(&running, &f->node);
		n_running++;
	}
	MemoryContextSetParent(cxt, TopMemoryContext);
	PG_RETURN_INT64(f->id);
}

/* llm_submit(prompt text, ... like llm_generate) */
Datum
llm_submit(PG_FUNCTION_ARGS)
{
	return submit(fcinfo, "llm_generate", TEXTOID);
}

/* llm_submit(prompt_token_ids bigint[], ...) */
Datum
llm_submit_ids(PG_FUNCTION_ARGS)
{
	return submit(fcinfo, "llm_generate_ids", TEXTOID);
}

/* llm_submit_chat(messages json, ... like llm_chat); its result is a text */
Datum
llm_submit_chat(PG_FUNCTION_ARGS)
{
	return submit(fcinfo, "llm_chat_text", TEXTOID);
}

/* llm_submit_embed(input text, ... like llm_embed) */
Datum
llm_submit_embed(PG_FUNCTION_ARGS)
{
	return submit(fcinfo, "llm_embed", FLOAT4ARRAYOID);
}

/* ---- the other functions ---- */

/* llm_poll(id bigint) */
Datum
llm_poll(PG_FUNCTION_ARGS)
{
	Future	   *f = find(PG_GETARG_INT64(0));

	drain();
	PG_RETURN_BOOL(f->finished);
}

/*
 * Ask other models after the future's model has failed, as the role that submitted it.  Until there
 * is a result or an error, all state is the statement's: a caller who cancels the statement may fetch
 * the future again.
 */
static void
call_fallbacks(Future *f)
{
	SqlRequest	r = f->request;
	FallbackRoute route = f->route;
	ErrorData  *err;
	ClientCall *call;
	Oid			user;
	int			sec_context;

	ASSERT(f->finished && f->error != NULL);
	if (r.timeout_ms > 0)
		r.timeout_ms = Max(f->left_ms, 1);
	GetUserIdAndSecContext(&user, &sec_context);
	SetUserIdAndSecContext(f->userid, sec_context | SECURITY_LOCAL_USERID_CHANGE);
	err = engine_call_fallbacks(&r, &route, f->error, f->elsewhere, &f->frame, &call);
	SetUserIdAndSecContext(user, sec_context);
	f->error = err;
	f->cache.on = false;
}

/* Return the result of a future, which must be of type rettype. */
static Datum
take_result(FunctionCallInfo fcinfo, Oid rettype)
{
	Future	   *f = find(PG_GETARG_INT64(0));
	Reply		reply;
	Datum		value;
	bool		isnull;

	if (f->rettype != rettype)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("future " INT64_FORMAT " holds %s", f->id,
						f->rettype == TEXTOID ? "an answer" : "an embedding"),
				 errhint("Use %s().", f->rettype == TEXTOID ? "llm_result" : "llm_result_embedding")));
	(void) wait_for(&f, 1, INT_MAX, 0);
	ASSERT(f->finished);
	if (f->rerouted)
		call_fallbacks(f);
	/* on any error from here on, the future ends with the statement */
	forget(f);
	MemoryContextSetParent(f->cxt, CurrentMemoryContext);
	if (f->error != NULL && !f->refused && !on_error_forgives(f->request.on_error, f->error))
		ThrowErrorData(f->error);
	on_error_count(f->error);
	on_error_check();
	if (f->error != NULL)
	{
		MemoryContextDelete(f->cxt);
		PG_RETURN_NULL();
	}
	if (f->cache.on)
		result_cache_keep(&f->cache, f->frame.data, f->frame.len);
	reply_read(&reply, &f->frame);
	if (f->request.body.data != NULL)
	{
		reply.request = f->request.body.data;
		reply.request_len = f->request.body.len;
	}
	value = f->func->result(&reply, rettype, &isnull);
	MemoryContextDelete(f->cxt);
	if (isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(value);
}

/* llm_result(id bigint) */
Datum
llm_result(PG_FUNCTION_ARGS)
{
	return take_result(fcinfo, TEXTOID);
}

/* llm_result_embedding(id bigint) */
Datum
llm_result_embedding(PG_FUNCTION_ARGS)
{
	return take_result(fcinfo, FLOAT4ARRAYOID);
}

/* llm_wait(ids bigint[], timeout_ms int) */
Datum
llm_wait(PG_FUNCTION_ARGS)
{
	TimestampTz give_up = 0;
	Datum	   *ids;
	bool	   *nulls;
	Future	  **f;
	int			n_ids;
	int			n = 0;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (!PG_ARGISNULL(1))
	{
		if (PG_GETARG_INT32(1) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("timeout_ms must not be negative"),
					 errdetail("parameter=timeout_ms, value=%d", PG_GETARG_INT32(1))));
		give_up = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PG_GETARG_INT32(1));
	}
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &ids, &nulls, &n_ids);
	f = palloc(sizeof(Future *) * Max(n_ids, 1));
	for (int i = 0; i < n_ids; i++)
		if (!nulls[i])
			f[n++] = find(DatumGetInt64(ids[i]));
	PG_RETURN_BOOL(wait_for(f, n, INT_MAX, give_up));
}

/* llm_discard(id bigint) */
Datum
llm_discard(PG_FUNCTION_ARGS)
{
	Future	   *f = find_own(PG_GETARG_INT64(0));

	if (f == NULL)
		PG_RETURN_BOOL(false);
	forget(f);
	MemoryContextDelete(f->cxt);
	PG_RETURN_BOOL(true);
}

/* Rows of the view llm_futures: (id, state, model, submitted) */
Datum
llm_future_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HASH_SEQ_STATUS seq;
	FutureEntry *e;

	InitMaterializedSRF(fcinfo, 0);
	if (futures == NULL)
		return (Datum) 0;
	drain();
	hash_seq_init(&seq, futures);
	while ((e = hash_seq_search(&seq)) != NULL)
	{
		const Future *f = e->future;
		Datum		values[4];
		bool		nulls[4] = {0};

		if (!may_use(f))
			continue;
		values[0] = Int64GetDatum(f->id);
		values[1] = CStringGetTextDatum(!f->finished ? "running" : f->error ? "failed" : "finished");
		values[2] = CStringGetTextDatum(f->request.model);
		values[3] = TimestampTzGetDatum(f->submitted);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
