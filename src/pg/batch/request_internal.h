/*
 * request_internal.h
 *	  What row_request.c, dedup.c and wait.c know of pools and requests.
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

/* What a conversation needs; reused. */
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
	InFlightCall *carrier;		/* NULL: failed before it was sent, or kept */
	char	   *copy;			/* kept: body, then reply */
	Size		space;			/* what that takes, with the request itself */
	ErrorData  *err;
	const char *reply;			/* finished: the last frame's fields */
	Size		reply_len;
	Size		body_len;
	int			refs;
	bool		finished;
	bool		in_table;
	int			timeout_ms;
	OnError		on_error;
	bool		forgiven;		/* the error is NULL to the caller */
	bool		charged;		/* the error's endpoint may have charged for it */
	bool		timed;			/* its timeout_ms counts already */
	bool		quiet;			/* the engine does not wake us for it */
	uint32		hash;
	BatchStats *stats;			/* of the node that sent it */
	CacheKey	cache;			/* on: the answer is to be kept */
	WireKind	kind;
	Oid			userid;			/* whose request it is */
	FallbackRoute *route;			/* the models that were asked; NULL: the first is */
	bool		needs_fallback;
	TimestampTz end;			/* by timeout_ms; 0: it doesn't count yet */
};

typedef struct RequestKey
{
	const EngineFunc *func;
	const char *body;
	Size		len;
	uint32		hash;
	OnError		on_error;		/* one row's error may be another's NULL */
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
	EState	   *estate;			/* NULL: not a statement's */
	BatchStats	stats;
	uint64		finished;		/* requests seen to finish */
	int64		rows;
	bool		more;			/* a look ended before all frames were read */
	bool		patient;		/* the last sleep saw nothing finish */
	dlist_head	flying;
	dlist_head	needs_fallback;
	dlist_head	kept;			/* oldest first */
	Size		kept_bytes;
	Size		held_bytes;		/* replies that somebody holds */
	CacheLater	later;			/* answers of a parallel plan */
	bool		remote;			/* the request that was started last is the remote program's */
	uint16		of_model;		/* the request that was started last is for this model (slots.h) */
	InFlightCall *carriers;		/* free */
	BatchRequest *free;
	HTAB	   *table;
};

extern slist_head batch_pools;

/* dedup.c: a request's key in the pool's table; hash of a request that is to begin. */
uint32		dedup_hash(const SqlRequest *r);
RequestKey	dedup_key(const BatchRequest *q);
void		dedup_enter(BatchRequest *q);
void		dedup_forget(BatchRequest *q);
/* The equal request that is in flight, or kept: it has one holder more; NULL: there is none. */
BatchRequest *dedup_join(BatchPool *p, const RequestKey *key, BatchStats *stats);
/* Nobody holds it any more: whether it is kept for later rows.  Else the caller frees it. */
bool		dedup_keep(BatchRequest *q);

/* The call goes back to the pool's free ones, and what is in flight of it ends. */
void		batch_request_give_carrier_back(BatchRequest *q);

/* Of the frame that ended it, or an error that becomes its own; it may go to another model instead. */
void		batch_request_finish(BatchRequest *q, const CallFrame *f, ErrorData *err);

/* Ask other models for all requests that need a fallback. */
void		batch_pool_reroute(BatchPool *p);

#endif
