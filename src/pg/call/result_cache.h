/*
 * result_cache.h
 *	  Answers that are kept in a table: vllm.result_cache.
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
	bool		on;				/* the model keeps answers, and the request has always the same */
	uint8		digest[CACHE_DIGEST];
	int64		max_age;		/* s, 0 = any */
	int64		max_bytes;
	Oid			role;			/* who asks */
	uint32		cleared;		/* how often the model's answers had been cleared then */
	char		model[NAMEDATALEN];
} CacheKey;

/*
 * Of a request, before it is sent; not on: its model keeps none, or its answers differ.  Reads no catalogs:
 * anywhere.
 */
void		result_cache_key(CacheKey *k, WireKind kind, const StringInfoData *body, const char *model,
							 bool deterministic);

/* A kept answer's fields, palloc'ed; NULL: there is none. */
char	   *result_cache_find(const CacheKey *k, Size *len);

/*
 * Keep one, if the transaction may write and the model's answers were not cleared since the request was made:
 * it may be a model's that is no more.  In the executor, where a snapshot is active; what it writes is seen
 * by later statements.
 */
void		result_cache_keep(const CacheKey *k, const char *reply, Size len);

/*
 * The same for a statement whose plan is parallel: it may write when the plan has ended.  Until then answers
 * are in memory, so many bytes of them as CACHE_LATER; the ones beyond are not kept.
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
 * How often the model's answers have been cleared, as its weights are others, for one: an equal request's
 * answer may be another since.
 */
uint32		result_cache_cleared(const char *model);

/* The model is no more, or another one: all answers that it has given go.  NULL: of all models. */
int64		result_cache_clear(const char *model);

#endif
