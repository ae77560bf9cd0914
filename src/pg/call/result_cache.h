/*
 * result_cache.h
 *	  The result cache: results of requests in a table, vllm.result_cache.
 */
#ifndef VLLM_PG_CALL_RESULT_CACHE_H
#define VLLM_PG_CALL_RESULT_CACHE_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"

#include "ipc/wire.h"

#define CACHE_DIGEST	32

typedef struct CacheKey
{
	bool		on;				/* the model's results are cached, and equal requests have equal results */
	uint8		digest[CACHE_DIGEST];
	int64		max_age;		/* s, 0 = any */
	int64		max_bytes;
	Oid			role;			/* the role that asks */
	uint32		cleared;		/* how often the model's results had been cleared when the key was made */
	char		model[NAMEDATALEN];
} CacheKey;

/*
 * Make the key of a request, before it is sent.  k->on is false if the model's results are not cached
 * or equal requests may have different results.  Outside of transactions it reads no catalogs, so it
 * may be called there.
 */
void		result_cache_key(CacheKey *k, WireKind kind, const StringInfoData *body, const char *model,
							 bool deterministic);

/* Return a cached reply's fields, palloc'ed; NULL if there is none. */
char	   *result_cache_find(const CacheKey *k, Size *len);

/*
 * Store a reply, if the transaction may write and the model's results were not cleared since the
 * request was made: the reply may be from a model that no longer exists.  Call it in the executor
 * with an active snapshot.  Later statements see the row.
 */
void		result_cache_keep(const CacheKey *k, const char *reply, Size len);

/*
 * Store replies of a statement with a parallel plan, which may write only when the plan has ended.
 * Until then replies are kept in memory, up to CACHE_LATER bytes; further replies are not stored.
 */
#define CACHE_LATER		(64 * 1024 * 1024)
typedef struct CacheLater
{
	List	   *answers;
	Size		bytes;
} CacheLater;

void		result_cache_keep_later(CacheLater *l, MemoryContext cxt, const CacheKey *k, const char *reply,
									Size len);
void		result_cache_keep_now(CacheLater *l);

/*
 * Return how often the model's results were cleared, for example because its weights changed.  An
 * equal request may have another result after that.
 */
uint32		result_cache_cleared(const char *model);

/* Remove all cached results of a model that has been dropped or changed; NULL: of all models. */
int64		result_cache_clear(const char *model);

#endif
