/*
 * row_request.c
 *	  Requests in flight: pools, the window, duplicates.
 *
 * A pool's memory is a context of its own below the context that it was created for.  Requests and
 * InFlightCalls are taken from the pool's free lists and return there, so a statement's memory stops
 * growing when its window is full.
 *
 *	in flight	has an InFlightCall (call and body); in pool->flying
 *	fallback	its model has failed or its result is unsure, and another model may serve it: in
 *				pool->needs_fallback, its error kept, until the next look from where the catalogs can
 *				be read
 *	finished	the InFlightCall's ClientCall holds the reply (its slot is free already), or the
 *				request holds an error
 *	kept		it has no holders: body and reply were copied, the InFlightCall was returned; in
 *				pool->kept, the oldest first
 *
 * Equal requests are found through pool->table.  Its keys point into the request: into the
 * InFlightCall's body while it is in flight or finished, into the copy when it is kept.  A failed
 * request is removed from the table: the next equal one is sent again.
 *
 * Every ClientCall has a reset callback on the pool's context (client.c), which cancels it on every
 * path.  The pool's own callback removes the pool from the list of pools.
 *
 * wait.c waits for requests.
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/batch/progress.h"
#include "pg/batch/request_internal.h"
#include "pg/call/cascade.h"
#include "pg/client/client.h"
#include "pg/client/request_tracking.h"
#include "pg/call/result_cache.h"
#include "pg/call/fallback.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

/* requests in flight while other sessions have a full batch waiting */
#define POLITE_WINDOW	8
/* bytes of a body buffer that an InFlightCall keeps for its next request */
#define KEEP_BODY		(64 * 1024)
/*
 * frames that one poll of a request takes, so that an engine that sends without end can't hold the
 * backend here
 */
#define MAX_FRAMES		16

slist_head	batch_pools = SLIST_STATIC_INIT(batch_pools);

/* ---- pools ---- */

/* The calls' own callbacks cancel the requests in flight. */
static void
pool_reset(void *arg)
{
	BatchPool  *p = arg;

	slist_delete(&batch_pools, &p->node);
	batch_progress_end(p);
}

BatchPool *
batch_pool_create(MemoryContext cxt)
{
	MemoryContext own = AllocSetContextCreate(cxt, "LLM batch pool", ALLOCSET_DEFAULT_SIZES);
	BatchPool  *p = MemoryContextAllocZero(own, sizeof(BatchPool));

	p->cxt = own;
	dlist_init(&p->flying);
	dlist_init(&p->needs_fallback);
	dlist_init(&p->kept);
	p->cb.func = pool_reset;
	p->cb.arg = p;
	MemoryContextRegisterResetCallback(own, &p->cb);
	slist_push_head(&batch_pools, &p->node);
	return p;
}

BatchPool *
batch_pool_of(EState *estate)
{
	slist_iter	i;
	BatchPool  *p;

	slist_foreach(i, &batch_pools)
	{
		p = slist_container(BatchPool, node, i.cur);
		if (p->estate == estate)
			return p;
	}
	p = batch_pool_create(estate->es_query_cxt);
	p->estate = estate;
	return p;
}

const BatchStats *
batch_pool_stats(const BatchPool *p)
{
	return &p->stats;
}

uint64
batch_pool_finished(const BatchPool *p)
{
	return p->finished;
}

Size
batch_pool_held_bytes(const BatchPool *p)
{
	return p->held_bytes;
}

/*
 * For the engine, the window is two full batches: one that runs and one that waits for its end.  For
 * an endpoint, a batch is the number of requests that it may process at once.  The engine's counters
 * are read without their sequence lock: an estimate is enough.
 */
static int
automatic_window(const BatchPool *p)
{
	const volatile WireStats *st =
		wire_stats(p->remote ? &vllm_arenas[VLLM_REMOTE_SIDE] : vllm_serving_arena());
	int64		batch = vllm_max_num_seqs > 0 && !p->remote ? vllm_max_num_seqs :
		Min(Max(st->max_num_seqs, 64), WIRE_MAX_SLOTS);
	int64		waiting = st->waiting;
	int64		others = st->running + waiting - p->stats.in_flight;

	if (waiting >= batch && others >= batch)
		return POLITE_WINDOW;
	return 2 * batch;
}

bool
batch_pool_aim(BatchPool *p, const SqlRequest *r)
{
	p->remote = request_is_remote(r->body.data, r->body.len);
	p->of_model = p->remote ? vslot_of_model(r->model) : 0;
	return p->remote;
}

int
batch_pool_room(BatchPool *p)
{
	int			in_flight = p->stats.in_flight;
	int			room;

	if (vllm_shared == NULL)
		return 1;
	if (vllm_batch_window > 0)
		room = vllm_batch_window - in_flight;
	else
		/*
		 * each endpoint has a batch of its own; model_slots is an upper bound of this pool's requests
		 * to this model
		 */
		room = automatic_window(p) - (p->remote ? Min(in_flight, vllm_shared->model_slots[p->of_model]) :
									  in_flight);
	/* by the role's own limit, more requests would wait for each other or be refused */
	if (vllm_role_max_requests > 0)
		room = Min(room, vllm_role_max_requests - in_flight);
	room = Min(room, vslot_room(p->remote, p->of_model, vllm_shared->n_slots / 8));
	return Max(room, p->stats.in_flight == 0 ? 1 : 0);
}

bool
batch_pool_room_for_many(BatchPool *p)
{
	int			room = batch_pool_room(p);

	return room > 0 && room * 3 >= p->stats.in_flight;
}

void
batch_pool_keep(BatchPool *p)
{
	result_cache_keep_now(&p->later);
}

void
batch_pool_flush(void)
{
	vslot_ring_now();
}

/* ---- free lists ---- */

/* Provide the next request and its InFlightCall, still on their lists, so that an ERROR loses neither. */
static void
provide_memory(BatchPool *p, bool carrier)
{
	MemoryContext old = MemoryContextSwitchTo(p->cxt);

	if (p->free == NULL)
		p->free = palloc0(sizeof(BatchRequest));
	if (carrier && p->carriers == NULL)
	{
		InFlightCall *c = palloc0(sizeof(InFlightCall));

		c->call = vcall_make(p->cxt);
		initStringInfo(&c->body);
		p->carriers = c;
	}
	MemoryContextSwitchTo(old);
}

static BatchRequest *
take_request(BatchPool *p)
{
	BatchRequest *q = p->free;

	p->free = q->next_free;
	memset(q, 0, sizeof(BatchRequest));
	q->pool = p;
	q->refs = 1;
	return q;
}

void
batch_request_give_carrier_back(BatchRequest *q)
{
	InFlightCall *c = q->carrier;

	q->carrier = NULL;
	vcall_end(c->call);
	if (c->body.maxlen > KEEP_BODY)
	{
		pfree(c->body.data);
		c->body.data = NULL;	/* fill_body() allocates it again */
		c->body.maxlen = 0;
	}
	c->next = q->pool->carriers;
	q->pool->carriers = c;
}

static void
fill_body(BatchPool *p, InFlightCall *c, const StringInfoData *body)
{
	MemoryContext old = MemoryContextSwitchTo(p->cxt);

	if (c->body.data == NULL)
		initStringInfo(&c->body);
	MemoryContextSwitchTo(old);
	resetStringInfo(&c->body);
	appendBinaryStringInfo(&c->body, body->data, body->len);
}

/* ---- starting ---- */

static void
count_start(BatchStats *s)
{
	s->calls++;
	s->in_flight++;
	s->max_in_flight = Max(s->max_in_flight, s->in_flight);
}

/* Only a request that the caller can wait for may wait for an engine or a slot. */
static bool
may_start(const BatchPool *p, const SqlRequest *r)
{
	return vclient_is_ready(p->remote) &&
		vslot_room(p->remote, p->of_model, 0) > 0 && vcall_fits(&r->body);
}

/* Make a finished request from a cached result, like one that is kept without holders. */
static BatchRequest *
answered(BatchPool *p, const EngineFunc *f, const SqlRequest *r, const CacheKey *cache, uint32 hash,
		 BatchStats *stats)
{
	Size		len;
	char	   *reply = result_cache_find(cache, &len);
	BatchRequest *q;
	char	   *copy;

	if (reply == NULL)
		return NULL;
	copy = MemoryContextAlloc(p->cxt, Max(r->body.len + len, 1));
	memcpy(copy, r->body.data, r->body.len);
	memcpy(copy + r->body.len, reply, len);
	pfree(reply);
	provide_memory(p, false);
	q = take_request(p);
	q->func = f;
	q->copy = copy;
	q->body_len = r->body.len;
	q->reply = copy + r->body.len;
	q->reply_len = len;
	q->space = GetMemoryChunkSpace(copy) + GetMemoryChunkSpace(q);
	q->hash = hash;
	q->on_error = r->on_error;
	q->finished = true;
	p->stats.cache_hits++;
	if (stats)
		stats->cache_hits++;
	return q;
}

BatchRequest *
batch_request_known(BatchPool *p, const EngineFunc *f, const SqlRequest *r)
{
	RequestKey	key = {.func = f,.body = r->body.data,.len = r->body.len,.on_error = r->on_error};
	CacheKey	cache;
	RequestEntry *e = NULL;
	BatchRequest *q;

	result_cache_key(&cache, r->kind, &r->body, r->model, r->deterministic);
	if (!cache.on)
		return NULL;
	key.hash = dedup_hash(r);
	if (p->table != NULL)
		e = hash_search(p->table, &key, HASH_FIND, NULL);
	/* an equal request that is in flight will be joined */
	if (e != NULL)
		return e->request->finished ? dedup_join(p, &key, NULL) : NULL;
	q = answered(p, f, r, &cache, key.hash, NULL);
	if (q != NULL && vllm_batch_dedup)
	{
		dedup_enter(q);
	}
	return q;
}

/* The first model could not be asked: record the route that was taken instead. */
static void
took_around(BatchRequest *q, const FallbackRoute *route)
{
	q->route = MemoryContextAlloc(q->pool->cxt, sizeof(FallbackRoute));
	*q->route = *route;
	q->pool->stats.fallbacks++;
	if (q->stats)
		q->stats->fallbacks++;
}

/* Store what a started request keeps of r; q->timed is set already. */
static void
describe(BatchRequest *q, const SqlRequest *r)
{
	q->body_len = r->body.len;
	q->timeout_ms = r->timeout_ms;
	q->on_error = r->on_error;
	q->quiet = true;
	q->kind = r->kind;
	q->userid = GetUserId();
	if (q->timed && q->timeout_ms > 0)
		q->end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), q->timeout_ms);
}

BatchRequest *
batch_request_start(BatchPool *p, const EngineFunc *f, const SqlRequest *r,
					BatchStats *stats, bool wait_slot)
{
	bool		dedup = r->deterministic && vllm_batch_dedup;
	RequestKey	key = {.func = f,.body = r->body.data,.len = r->body.len,.on_error = r->on_error};
	CacheKey	cache;
	bool		in_transaction;
	FallbackRoute route = {0};
	SqlRequest	other;
	StringInfoData around;
	char		model[NAMEDATALEN];
	BatchRequest *q;
	InFlightCall *c;

	if (dedup)
	{
		key.hash = dedup_hash(r);
		q = dedup_join(p, &key, stats);
		if (q)
			return q;
	}
	/*
	 * a job worker starts requests outside of transactions: it has looked for cached results before,
	 * and waits itself if there is no engine
	 */
	in_transaction = IsTransactionState();
	result_cache_key(&cache, r->kind, &r->body, r->model, r->deterministic);
	q = cache.on && in_transaction ? answered(p, f, r, &cache, key.hash, stats) : NULL;
	if (q != NULL)
	{
		if (dedup)
			dedup_enter(q);
		return q;
	}
	if (in_transaction && route_around(&route, &r->body, &around, model))
	{
		other = *r;
		other.body = around;
		other.model = model;
		r = &other;
		cache.on = false;
		dedup = false;
	}
	(void) batch_pool_aim(p, r);
	if (!wait_slot && !may_start(p, r))
		return NULL;
	provide_memory(p, true);
	c = p->carriers;
	fill_body(p, c, &r->body);
	batch_progress_begin(p);
	/* with wait_slot, the caller already waits for this request */
	if (!vcall_start(c->call, r->kind, &c->body, r->model, wait_slot ? r->timeout_ms : 0, wait_slot))
		return NULL;
	p->carriers = c->next;
	q = take_request(p);
	q->func = f;
	q->carrier = c;
	q->hash = key.hash;
	q->timed = wait_slot;
	vcall_set_polling(c->call, true);
	q->stats = stats;
	q->cache = cache;
	describe(q, r);
	if (route.n > 0)
		took_around(q, &route);
	dlist_push_tail(&p->flying, &q->node);
	count_start(&p->stats);
	if (stats)
		count_start(stats);
	if (dedup)
		dedup_enter(q);
	batch_progress_update(p);
	return q;
}

/* Copy an ErrorData into the pool's memory, with the fields that engine functions set. */
static ErrorData *
copy_error(BatchPool *p, const ErrorData *from)
{
	MemoryContext old = MemoryContextSwitchTo(p->cxt);
	ErrorData  *e = palloc(sizeof(ErrorData));

	*e = *from;
	e->message = from->message ? pstrdup(from->message) : NULL;
	e->detail = from->detail ? pstrdup(from->detail) : NULL;
	e->detail_log = NULL;
	e->hint = from->hint ? pstrdup(from->hint) : NULL;
	e->context = from->context ? pstrdup(from->context) : NULL;
	e->backtrace = e->schema_name = e->table_name = e->column_name = NULL;
	e->datatype_name = e->constraint_name = e->internalquery = NULL;
	e->assoc_context = p->cxt;
	MemoryContextSwitchTo(old);
	return e;
}

BatchRequest *
batch_request_failed(BatchPool *p, ErrorData *err, bool forgiven)
{
	ErrorData  *copy = copy_error(p, err);
	BatchRequest *q;

	provide_memory(p, false);
	q = take_request(p);
	q->err = copy;
	q->finished = true;
	q->forgiven = forgiven;
	p->stats.failed += forgiven;
	return q;
}

/* ---- finishing ---- */

static ErrorData *
malformed(BatchPool *p)
{
	ErrorData	e = {
		.elevel = ERROR,.sqlerrcode = ERRCODE_SYSTEM_ERROR,
		.message = "malformed reply from the engine"
	};

	return copy_error(p, &e);
}

static void
add_tokens(BatchStats *s, int64 prompt, int64 cached, int64 output, int64 queue_us)
{
	s->queue_us += queue_us;
	s->prompt_tokens += prompt;
	s->cached_tokens += cached;
	s->output_tokens += output;
}

/*
 * Add the tokens of a reply to the counters, whether it is the result or another model is asked after
 * it.  Return false if the reply can't be read.
 */
static bool
count_tokens(BatchRequest *q, const char *reply, Size len)
{
	WireIn		in = {reply, reply + len};
	WireField	f;
	int64		prompt = 0,
				cached = 0,
				output = 0,
				queue_us = 0;
	int			rc;

	while ((rc = wire_next(&in, &f)) > 0)
	{
		if (f.tag == WTAG_PROMPT_TOKENS)
			prompt = Max(f.i, 0);
		else if (f.tag == WTAG_CACHED_TOKENS)
			cached = Max(f.i, 0);
		else if (f.tag == WTAG_COMPLETION_TOKENS)
			output = Max(f.i, 0);
		else if (f.tag == WTAG_QUEUE_US)
			queue_us = Max(f.i, 0);
	}
	if (rc < 0)
		return false;
	add_tokens(&q->pool->stats, prompt, cached, output, queue_us);
	if (q->stats)
		add_tokens(q->stats, prompt, cached, output, queue_us);
	return true;
}

static void
leave_flight(BatchRequest *q)
{
	BatchPool  *p = q->pool;

	dlist_delete(&q->node);
	p->stats.in_flight--;
	if (q->stats)
		q->stats->in_flight--;
	if (p->estate == NULL && p->stats.in_flight == 0)
		batch_progress_end(p);
}

static void finish_with(BatchRequest *q, const CallFrame *f, ErrorData *err);

void
batch_request_finish(BatchRequest *q, const CallFrame *f, ErrorData *err)
{
	BatchPool  *p = q->pool;
	char		unsure[NAMEDATALEN];

	leave_flight(q);
	p->finished++;
	p->stats.cost += vcall_cost(q->carrier->call);
	if (q->stats)
		q->stats->cost += vcall_cost(q->carrier->call);
	q->charged |= err != NULL && vcall_charged(q->carrier->call);
	if (err != NULL && route_may(err, vcall_error_is_fallbackable(q->carrier->call), q->carrier->body.data,
								 q->carrier->body.len))
	{
		dedup_forget(q);
		q->cache.on = false;
		q->needs_fallback = true;
		q->err = err;
		dlist_push_tail(&p->needs_fallback, &q->node);
		return;
	}
	if (err == NULL && cascade_unsure(q->kind, q->carrier->body.data, q->carrier->body.len, f, unsure))
	{
		dedup_forget(q);
		q->cache.on = false;
		q->needs_fallback = true;
		if (q->route == NULL)
			q->route = MemoryContextAllocZero(p->cxt, sizeof(FallbackRoute));
		strlcpy(q->route->next, unsure, NAMEDATALEN);
		(void) count_tokens(q, f->data, f->len);
		dlist_push_tail(&p->needs_fallback, &q->node);
		return;
	}
	if (err != NULL && q->route != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(p->cxt);

		route_add_detail(q->route, err);
		MemoryContextSwitchTo(old);
	}
	finish_with(q, f, err);
}

/* Finish a request that no other model will serve. */
static void
finish_with(BatchRequest *q, const CallFrame *f, ErrorData *err)
{
	BatchPool  *p = q->pool;

	q->finished = true;
	q->err = err;
	if (err == NULL)
	{
		q->reply = f->data;
		q->reply_len = f->len;
		if (count_tokens(q, q->reply, q->reply_len))
			p->held_bytes += q->reply_len;
		else
			q->err = malformed(p);
	}
	if (q->err != NULL)
	{
		dedup_forget(q);
		q->forgiven = on_error_forgives(q->on_error, q->err);
		p->stats.failed += q->forgiven;
		if (q->stats)
			q->stats->failed += q->forgiven;
	}
	batch_progress_update(p);
}

/* Finish a request in needs_fallback with an error. */
static void
has_failed(BatchRequest *q, ErrorData *err)
{
	dlist_delete(&q->node);
	q->needs_fallback = false;
	q->pool->finished++;
	finish_with(q, NULL, err);
}

/* No other model can be asked: the request has failed. */
static void
no_way_on(BatchRequest *q, const FallbackRoute *route)
{
	BatchPool  *p = q->pool;
	MemoryContext old = MemoryContextSwitchTo(p->cxt);
	ErrorData  *err = q->err;

	if (err == NULL)
		err = route_unsure(route);
	else
		route_add_detail(route, err);
	MemoryContextSwitchTo(old);
	has_failed(q, err);
}

static void
count_reroute(BatchStats *s, bool unsure)
{
	if (unsure)
		s->cascaded++;
	else
		s->fallbacks++;
}

/* Restore the request's own message if no slot is free after all. */
static bool
start_again(BatchRequest *q, const StringInfoData *next, const char *model, int timeout_ms, bool wait)
{
	BatchPool  *p = q->pool;
	InFlightCall *c = q->carrier;
	StringInfoData old = c->body;
	bool		started;

	c->body.data = NULL;
	fill_body(p, c, next);
	PG_TRY();
	{
		started = vcall_start(c->call, q->kind, &c->body, model, timeout_ms, wait);
	}
	PG_CATCH();
	{
		pfree(c->body.data);
		c->body = old;
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (started)
		pfree(old.data);
	else
	{
		pfree(c->body.data);
		c->body = old;
	}
	return started;
}

/*
 * Send a request that needs a fallback to the next model; return false if no slot is free.  If no
 * model is left to ask, the request fails.
 */
static bool
reroute(BatchRequest *q, bool wait)
{
	BatchPool  *p = q->pool;
	InFlightCall *c = q->carrier;
	StringInfoData next;
	FallbackRoute route = {0};
	char		model[NAMEDATALEN];
	int			timeout_ms = 0;
	bool		unsure;

	if (q->route != NULL)
		route = *q->route;
	initStringInfo(&next);
	strlcpy(model, route.next, NAMEDATALEN);
	unsure = route.next[0] != '\0';
	route.next[0] = '\0';
	if (unsure ? !route_to(&route, model, c->body.data, c->body.len, &next) : !route_next(&route,
			c->body.data, c->body.len, &next, model))
	{
		no_way_on(q, &route);
		return true;
	}
	if (!wait && vllm_shared->n_free == 0)
		return false;
	if (q->end != 0)
		timeout_ms = Max((int) TimestampDifferenceMilliseconds(GetCurrentTimestamp(), q->end), 1);
	/* a request that was refused or found no slot comes here again, with its route */
	if (q->route == NULL)
		q->route = MemoryContextAllocZero(p->cxt, sizeof(FallbackRoute));
	if (!start_again(q, &next, model, timeout_ms, wait))
		return false;
	*q->route = route;
	q->body_len = c->body.len;
	if (q->err != NULL)
		FreeErrorData(q->err);
	q->err = NULL;
	q->needs_fallback = false;
	q->quiet = true;
	vcall_set_polling(c->call, true);
	dlist_delete(&q->node);
	dlist_push_tail(&p->flying, &q->node);
	count_start(&p->stats);
	count_reroute(&p->stats, unsure);
	if (q->stats)
	{
		count_start(q->stats);
		count_reroute(q->stats, unsure);
	}
	return true;
}

/* Reroute as the role that sent the request; a job worker has another role while it waits. */
static bool
reroute_as_user(BatchRequest *q, bool wait)
{
	Oid			user;
	int			sec_context;
	bool		sent;

	GetUserIdAndSecContext(&user, &sec_context);
	SetUserIdAndSecContext(q->userid, sec_context | SECURITY_LOCAL_USERID_CHANGE);
	sent = reroute(q, wait);
	SetUserIdAndSecContext(user, sec_context);
	return sent;
}

/*
 * Like reroute_as_user(), for a job worker.  A refusal, by a budget or by the length of the message,
 * concerns one owner only, but an ERROR would end the requests of all owners.  So the error becomes
 * the request's own, and a new transaction is started.
 */
static bool
reroute_for_owner(BatchRequest *q, bool wait)
{
	BatchPool  *p = q->pool;
	ErrorData  *volatile err = NULL;
	volatile bool sent = true;

	PG_TRY();
	{
		/*
		 * a budget without room is an error here, whether or not the caller waits; a lack of slots is
		 * not
		 */
		sent = reroute_as_user(q, wait) || (cost_refused() && reroute_as_user(q, true));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(p->cxt);
		err = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		StartTransactionCommand();
	}
	PG_END_TRY();
	if (err == NULL)
		return sent;
	if (q->err != NULL)
		FreeErrorData(q->err);
	has_failed(q, err);
	return true;
}

bool
batch_pool_needs_fallback(const BatchPool *p)
{
	return !dlist_is_empty(unconstify(dlist_head *, &p->needs_fallback));
}

/*
 * Send as many as possible to other models.  Call this only from where the caller waits for its
 * requests, as it reads the catalogs.
 */
void
batch_pool_reroute(BatchPool *p)
{
	MemoryContext tmp = AllocSetContextCreate(p->cxt, "LLM fallback", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	bool		own = !IsTransactionState();
	dlist_mutable_iter i;

	if (own)
		StartTransactionCommand();
	MemoryContextSwitchTo(tmp);

	dlist_foreach_modify(i, &p->needs_fallback)
	{
		BatchRequest *q = dlist_container(BatchRequest, node, i.cur);
		bool		wait = p->stats.in_flight == 0;

		if (batch_pool_room(p) <= 0 || !(own ? reroute_for_owner(q, wait) : reroute_as_user(q, wait)))
			break;
		MemoryContextSwitchTo(tmp);
		MemoryContextReset(tmp);
	}
	if (own)
		CommitTransactionCommand();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(tmp);
	vslot_ring_now();
}

bool
batch_request_poll(BatchRequest *q)
{
	ClientCall *call;

	if (q->finished)
		return true;
	if (q->needs_fallback)
		return false;
	call = q->carrier->call;
	for (int i = 0; vcall_poll(call); i++)
	{
		CallFrame	f;
		ErrorData  *err;

		if (i == MAX_FRAMES)
		{
			q->pool->more = true;
			return false;
		}
		if (vcall_next(call, &f, &err) ? f.final : err != NULL)
		{
			batch_request_finish(q, &f, err);
			return q->finished;
		}
	}
	return false;
}

bool
batch_request_charged(const BatchRequest *q)
{
	return q->charged;
}

ErrorData *
batch_request_error(const BatchRequest *q)
{
	ASSERT(q->finished);
	return q->err;
}

void
batch_request_keep(BatchRequest *q)
{
	if (q->cache.on && q->err == NULL)
	{
		if (IsInParallelMode() && q->pool->estate != NULL)
			result_cache_keep_later(&q->pool->later, q->pool->cxt, &q->cache, q->reply, q->reply_len);
		else
			result_cache_keep(&q->cache, q->reply, q->reply_len);
	}
	q->cache.on = false;
}

bool
batch_request_is_forgiven(const BatchRequest *q)
{
	return q->forgiven;
}

bool
batch_request_forgive(BatchRequest *q)
{
	batch_request_keep(q);
	on_error_count(q->forgiven ? q->err : NULL);
	on_error_check();
	return q->forgiven;
}

static Datum
value_of(BatchRequest *q, Oid rettype, bool *isnull, ErrorData **refused)
{
	CallFrame	f = {.kind = WF_DONE,.final = true,.data = q->reply,.len = q->reply_len};
	Reply		reply;

	ASSERT(q->finished && q->err == NULL);
	*isnull = false;
	reply_read(&reply, &f);
	reply.request = dedup_key(q).body;
	reply.request_len = q->body_len;
	reply.refused = refused;
	return q->func->result(&reply, rettype, isnull);
}

Datum
batch_request_value(BatchRequest *q, Oid rettype, bool *isnull)
{
	return value_of(q, rettype, isnull, NULL);
}

Datum
batch_request_try_value(BatchRequest *q, Oid rettype, bool *isnull, ErrorData **refused)
{
	*refused = NULL;
	return value_of(q, rettype, isnull, refused);
}

void
batch_request_release(BatchRequest *q)
{
	BatchPool  *p = q->pool;

	ASSERT(q->refs > 0);
	if (--q->refs > 0 || dedup_keep(q))
		return;
	dedup_forget(q);
	if (q->needs_fallback)
		dlist_delete(&q->node);
	else if (!q->finished)
	{
		leave_flight(q);
		p->stats.cancelled++;
		if (q->stats)
			q->stats->cancelled++;
	}
	else if (q->err == NULL)
		p->held_bytes -= q->copy ? 0 : q->reply_len;
	if (q->carrier)
		batch_request_give_carrier_back(q);
	if (q->copy)
		pfree(q->copy);
	if (q->err)
		FreeErrorData(q->err);
	if (q->route)
		pfree(q->route);
	q->next_free = p->free;
	p->free = q;
}

void
batch_pool_row_done(BatchPool *p)
{
	p->rows++;
	batch_progress_row(p, p->rows);
	if (vllm_progress_interval > 0 && p->rows % vllm_progress_interval == 0)
		batch_progress_notice(p, p->rows);
}
