/*
 * request_internal.h
 *	  Structures of pools and requests, for row_request.c, dedup.c and wait.c.
 */
#ifndef VLLM_PG_BATCH_REQUEST_INTERNAL_H
#define VLLM_PG_BATCH_REQUEST_INTERNAL_H

#include "postgres.h"

#include "lib/ilist.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "pg/batch/row_request.h"
#include "pg/client/client.h"
#include "pg/call/result_cache.h"
#include "pg/call/fallback.h"

/* Buffers of one request in flight.  Reused through a free list. */
typedef struct InFlightCall
{
	struct InFlightCall *next;		/* free list */
	ClientCall *call;
	StringInfoData body;
} InFlightCall;

struct BatchRequest
{
	dlist_node	node;			/* in pool->flying or pool->kept */
	BatchRequest *next_free;
	BatchPool  *pool;
	const EngineFunc *func;
	InFlightCall *carrier;		/* NULL: the request failed before it was sent, or its reply is kept */
	char	   *copy;			/* kept: a copy of the body, then of the reply */
	Size		space;			/* bytes of the copy and of the request itself */
	ErrorData  *err;
	const char *reply;			/* finished: the last frame's fields */
	Size		reply_len;
	Size		body_len;
	int			refs;
	bool		finished;
	bool		in_table;
	int			timeout_ms;
	OnError		on_error;
	bool		forgiven;		/* the caller gets NULL instead of the error */
	bool		charged;		/* the endpoint that failed may have charged for it */
	bool		timed;			/* its timeout_ms is running */
	bool		quiet;			/* the engine does not wake the backend for it */
	uint32		hash;
	BatchStats *stats;			/* of the node that sent it, or NULL */
	CacheKey	cache;			/* on: its result goes into the result cache */
	WireKind	kind;
	Oid			userid;			/* the role that asks */
	FallbackRoute *route;			/* the models asked so far; NULL: only the first one */
	bool		needs_fallback;
	TimestampTz end;			/* deadline by timeout_ms; 0: not running yet */
};

typedef struct RequestKey
{
	const EngineFunc *func;
	const char *body;
	Size		len;
	uint32		hash;
	OnError		on_error;		/* part of the key: an error may be NULL for one row and an ERROR for
								 * another */
} RequestKey;

typedef struct RequestEntry
{
	RequestKey	key;
	BatchRequest *request;
} RequestEntry;

struct BatchPool
{
	slist_node	node;			/* in pools */
	MemoryContext cxt;
	MemoryContextCallback cb;
	EState	   *estate;			/* NULL: the pool does not belong to a statement */
	BatchStats	stats;
	uint64		finished;		/* requests seen to finish */
	int64		rows;
	bool		more;			/* a poll stopped before it had read all frames */
	bool		patient;		/* no request finished during the last sleep */
	dlist_head	flying;
	dlist_head	needs_fallback;
	dlist_head	kept;			/* requests with kept replies, oldest first */
	Size		kept_bytes;
	Size		held_bytes;		/* bytes of replies that some holder still uses */
	CacheLater	later;			/* results that a parallel plan can't store yet */
	bool		remote;			/* the request that was started last goes to the remote program */
	uint16		of_model;		/* model of the request that was started last (slots.h) */
	InFlightCall *carriers;		/* free list */
	BatchRequest *free;
	HTAB	   *table;
};

extern slist_head batch_pools;

/* dedup.c: the key of a request in the pool's table; the hash of a request that is about to start. */
uint32		dedup_hash(const SqlRequest *r);
RequestKey	dedup_key(const BatchRequest *q);
void		dedup_enter(BatchRequest *q);
void		dedup_forget(BatchRequest *q);
/* Return the equal request that is in flight or kept, with one holder more; NULL if there is none. */
BatchRequest *dedup_join(BatchPool *p, const RequestKey *key, BatchStats *stats);
/*
 * The last holder has released q: keep its reply for later rows if possible.  If this returns false,
 * the caller frees it.
 */
bool		dedup_keep(BatchRequest *q);

/* Return the InFlightCall to the pool's free list; this cancels its request if it is unfinished. */
void		batch_request_give_carrier_back(BatchRequest *q);

/*
 * Finish q by its final frame f or by the error err, which q then owns.  q may go to another model
 * instead.
 */
void		batch_request_finish(BatchRequest *q, const CallFrame *f, ErrorData *err);

/* Send all requests that need a fallback to other models. */
void		batch_pool_reroute(BatchPool *p);

#endif
