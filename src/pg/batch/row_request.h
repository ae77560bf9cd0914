/*
 * row_request.h
 *	  Many requests of one statement in flight at once.
 *
 * A pool belongs to a memory context: a statement's (es_query_cxt), a function's or a session's.
 * When the context is reset or deleted, on whatever path, every request of the pool is cancelled and
 * its slot is released.  An ERROR needs no other cleanup.
 *
 * Requests are reference-counted.  A deterministic request that equals another one of its pool joins
 * that one (vllm.batch_dedup), and both holders see the same reply.  Each holder releases the
 * request; the last one cancels it if it is unfinished.  Finished deterministic replies are kept for
 * later rows until the pool's share of work_mem is full.
 *
 * Only batch_pool_wait() and batch_request_start(wait_slot) block.
 */
#ifndef VLLM_PG_BATCH_ROW_REQUEST_H
#define VLLM_PG_BATCH_ROW_REQUEST_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "portability/instr_time.h"

#include "pg/call/engine_func.h"

typedef struct BatchPool BatchPool;
typedef struct BatchRequest BatchRequest;

/* Counters.  Each node has its own; a pool has the sums. */
typedef struct BatchStats
{
	int64		calls;			/* requests sent to the engine */
	int64		deduplicated;	/* calls that joined an equal request */
	int64		cache_hits;		/* calls that the result cache answered */
	int64		fallbacks;		/* requests sent to another model after one had failed */
	int64		cascaded;		/* requests sent to another model by a cascade */
	int64		failed;			/* requests with an error that the caller takes as NULL */
	int64		cancelled;		/* requests given up before their results arrived */
	int			in_flight;
	int			max_in_flight;
	int64		prompt_tokens,
				cached_tokens,
				output_tokens;
	int64		cost;			/* cost of the requests that have ended (spend.h) */
	int64		queue_us;		/* time that requests waited before their first steps */
	int64		waits;			/* sleeps on the latch */
	instr_time	wait_time;
} BatchStats;

/* Return the statement's pool.  The first request creates it; it is freed with es_query_cxt. */
BatchPool  *batch_pool_of(EState *estate);
/* Create a pool that lives as long as cxt. */
BatchPool  *batch_pool_create(MemoryContext cxt);
const BatchStats *batch_pool_stats(const BatchPool *p);
/*
 * Return how many requests have been seen to finish.  Callers compare it with an earlier value to
 * learn whether anything has happened.
 */
uint64		batch_pool_finished(const BatchPool *p);
/* Return the bytes of finished replies that still have holders. */
Size		batch_pool_held_bytes(const BatchPool *p);

/*
 * Return how many more requests may start now: vllm.batch_window less those in flight.  If that
 * setting is 0 (automatic), as many as keep the engine's next batch full, and fewer while other
 * sessions wait.  Never negative; at least 1 when nothing is in flight.
 */
int			batch_pool_room(BatchPool *p);
/*
 * Compute batch_pool_room() for requests like r from now on.  Return true if the remote program
 * serves them.
 */
bool		batch_pool_aim(BatchPool *p, const SqlRequest *r);

/* Return true if batch_pool_wait() has requests to send to another model.  None of those is in flight. */
bool		batch_pool_needs_fallback(const BatchPool *p);

/*
 * For a caller that can make progress without starting more: return true if there is room for enough
 * requests that starting them now pays.  Requests in groups cost fewer doorbells and wakes.
 */
bool		batch_pool_room_for_many(BatchPool *p);

/*
 * Ring the engine's doorbell for requests that it may not have seen yet.  The caller calls this when
 * it has started all it can; batch_pool_wait() does it, too.
 */
void		batch_pool_flush(void);

/* A statement's plan has ended: store the results that it could not store in parallel mode. */
void		batch_pool_keep(BatchPool *p);

/*
 * Start a request (r is copied) or join an equal one.  stats are the node's, or NULL; they must live
 * as long as the pool.  Return NULL if no slot is free or there is no engine.  With wait_slot, the
 * caller has nothing in flight to wait for, and the function waits for both (ERROR 53300 after
 * vllm.queue_timeout, 57P03 after vllm.engine_timeout).
 */
BatchRequest *batch_request_start(BatchPool *p, const EngineFunc *f, const SqlRequest *r,
								  BatchStats *stats, bool wait_slot);

/*
 * For a caller that starts requests outside of transactions; call this in a transaction before that.
 * Return a finished request if the model caches results (result_cache.h) and has this one's, else
 * NULL.
 */
BatchRequest *batch_request_known(BatchPool *p, const EngineFunc *f, const SqlRequest *r);

/*
 * Make a request that failed before it was sent: it is finished and holds err.  forgiven: err is an
 * error of the input, and the caller wants NULL for it.
 */
BatchRequest *batch_request_failed(BatchPool *p, ErrorData *err, bool forgiven);

/* Return true if the request is finished.  Moves bytes, never blocks. */
bool		batch_request_poll(BatchRequest *q);

/* Return a finished request's error, to be thrown when its row is due, or NULL. */
ErrorData  *batch_request_error(const BatchRequest *q);
/* Return true if an endpoint may have charged for the finished request. */
bool		batch_request_charged(const BatchRequest *q);
/*
 * Each holder calls this once for a finished request.  It counts the request in the statement's
 * totals, which is an ERROR if too many have failed, and stores the result if the model caches
 * results (result_cache.h).  Return true if the caller has asked for NULL instead of the error.
 */
bool		batch_request_forgive(BatchRequest *q);
bool		batch_request_is_forgiven(const BatchRequest *q);
/*
 * Store the finished request's result in the result cache, if it is to be stored and was not yet.
 * Needs a transaction.
 */
void		batch_request_keep(BatchRequest *q);
/* Return the value of a request that has finished without error, in the current context. */
Datum		batch_request_value(BatchRequest *q, Oid rettype, bool *isnull);
/*
 * Like batch_request_value(), but an error of a result that is no valid value goes to *refused (NULL:
 * none).
 */
Datum		batch_request_try_value(BatchRequest *q, Oid rettype, bool *isnull, ErrorData **refused);

void		batch_request_release(BatchRequest *q);

/*
 * Sleep until something may have changed.  due is the request that the caller waits for, or NULL: its
 * timeout_ms starts with the first such wait (ERROR 57014), and NOTICEs report the loading of its
 * model.  A wake may be for any request: the caller looks at all states again.
 */
void		batch_pool_wait(BatchPool *p, BatchRequest *due, BatchStats *stats);

/* Count a row that has left a node of this pool, for llm_progress and vllm.progress_interval. */
void		batch_pool_row_done(BatchPool *p);

/* _PG_init */
void		batch_request_init(void);

#endif
