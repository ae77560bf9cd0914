/*
 * row_request.h
 *	  Many requests of one statement in flight at once.
 *
 * A pool belongs to a memory context: a statement's (es_query_cxt), a function's or a
 * session's.  When that dies, on whatever path, every request of the pool is
 * cancelled and its slot released.  Nothing else is needed on ERROR.
 *
 * Requests are counted: a deterministic request that equals one of the same pool
 * joins it (vllm.batch_dedup) and both holders see the same reply.  Each holder
 * releases; the last one cancels what is unfinished.  Finished deterministic replies
 * stay for later rows until the pool's share of work_mem is full.
 *
 * Nothing here blocks but batch_pool_wait() and batch_request_start(wait_slot).
 */
#ifndef VLLM_PG_BATCH_ROW_REQUEST_H
#define VLLM_PG_BATCH_ROW_REQUEST_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "portability/instr_time.h"

#include "pg/call/engine_func.h"

typedef struct BatchPool BatchPool;
typedef struct BatchRequest BatchRequest;

/* What happened; a node has one, a pool adds up. */
typedef struct BatchStats
{
	int64		calls;			/* requests sent to the engine */
	int64		deduplicated;	/* answered by an equal request */
	int64		cache_hits;		/* answered by the table of kept answers */
	int64		fallbacks;		/* sent to another model, after one had failed */
	int64		cascaded;		/* requests sent to another model by a cascade */
	int64		failed;			/* with an error that the caller takes as NULL */
	int64		cancelled;		/* given up before the answer was there */
	int			in_flight;
	int			max_in_flight;
	int64		prompt_tokens,
				cached_tokens,
				output_tokens;
	int64		cost;			/* of those that have ended (spend.h) */
	int64		queue_us;		/* the requests' time before their first steps */
	int64		waits;			/* sleeps on the latch */
	instr_time	wait_time;
} BatchStats;

/* The pool of a statement: made at the first request for it, gone with es_query_cxt. */
BatchPool  *batch_pool_of(EState *estate);
/* A pool that lives as long as cxt. */
BatchPool  *batch_pool_create(MemoryContext cxt);
const BatchStats *batch_pool_stats(const BatchPool *p);
/* How many requests have been seen to finish: has anything happened since? */
uint64		batch_pool_finished(const BatchPool *p);
/* Memory of finished replies that are still held. */
Size		batch_pool_held_bytes(const BatchPool *p);

/*
 * How many more requests may start now: vllm.batch_window less those in flight; when
 * that is 0 (automatic) as many as keep the engine's next batch full, fewer while
 * other sessions wait.  Never negative; at least 1 when nothing is in flight.
 */
int			batch_pool_room(BatchPool *p);
/* batch_pool_room() for requests like this one.  True: the remote program answers them. */
bool		batch_pool_aim(BatchPool *p, const SqlRequest *r);

/* Are there some that batch_pool_wait() is to send to another model?  None of them is in flight. */
bool		batch_pool_needs_fallback(const BatchPool *p);

/*
 * For who has something to do without starting more: is there room for so many that
 * it pays to start them now?  Requests in handfuls cost fewer doorbells and wakes.
 */
bool		batch_pool_room_for_many(BatchPool *p);

/*
 * The engine may not know yet of requests that were started; to be called when the
 * caller has started all it can.  batch_pool_wait() does it, too.
 */
void		batch_pool_flush(void);

/* A statement's plan has ended: answers that it could not keep in parallel mode. */
void		batch_pool_keep(BatchPool *p);

/*
 * Start a request (r is copied) or join an equal one.  stats: the node's, or NULL; it
 * must live as long as the pool.  NULL: no slot is free, or no engine is there; with
 * wait_slot the caller, who has nothing in flight to wait for, waits for both (ERROR
 * 53300 after vllm.queue_timeout, 57P03 after vllm.engine_timeout).
 */
BatchRequest *batch_request_start(BatchPool *p, const EngineFunc *f, const SqlRequest *r,
								  BatchStats *stats, bool wait_slot);

/*
 * For who starts requests outside of transactions, in one before that: a finished request, if the model keeps
 * answers (result_cache.h) and this one is known; or NULL.
 */
BatchRequest *batch_request_known(BatchPool *p, const EngineFunc *f, const SqlRequest *r);

/*
 * A request that failed before it was sent: finished, holds err.  forgiven: it is that of an input, for which
 * NULL is asked.
 */
BatchRequest *batch_request_failed(BatchPool *p, ErrorData *err, bool forgiven);

/* Finished?  Moves bytes, never blocks. */
bool		batch_request_poll(BatchRequest *q);

/* Of a finished request: its error (to be thrown when the row is due) or NULL. */
ErrorData  *batch_request_error(const BatchRequest *q);
/* Of a finished request: may an endpoint have charged for it? */
bool		batch_request_charged(const BatchRequest *q);
/*
 * Once for each holder of a finished request: it counts as one of the statement's, which is an ERROR if too
 * many have failed, and its answer is kept if the model keeps them (result_cache.h).  True: its error is NULL
 * to the caller, who has said so.
 */
bool		batch_request_forgive(BatchRequest *q);
bool		batch_request_is_forgiven(const BatchRequest *q);
/* The answer of a finished one is kept, if it is to be and was not yet; in a transaction. */
void		batch_request_keep(BatchRequest *q);
/* Of a finished one without error: the value, in the current context. */
Datum		batch_request_value(BatchRequest *q, Oid rettype, bool *isnull);
/* The same; the error of an answer that is no value is left in *refused (NULL: none). */
Datum		batch_request_try_value(BatchRequest *q, Oid rettype, bool *isnull, ErrorData **refused);

void		batch_request_release(BatchRequest *q);

/*
 * Sleep until something may have changed.  due: the request that the caller is
 * held up by (or NULL): its timeout_ms counts from the first such wait (ERROR 57014),
 * NOTICEs about the load of its model are given.  Any wake may be somebody else's:
 * look at the states again.
 */
void		batch_pool_wait(BatchPool *p, BatchRequest *due, BatchStats *stats);

/* A row has left a node of this pool: for llm_progress and vllm.progress_interval. */
void		batch_pool_row_done(BatchPool *p);

/* _PG_init */
void		batch_request_init(void);

#endif
