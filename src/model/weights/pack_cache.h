/*
 * pack_cache.h
 *	  Packed weights on disk (vllm.repack_cache): private to src/model.
 */
#ifndef VLLM_MODEL_WEIGHTS_PACK_CACHE_H
#define VLLM_MODEL_WEIGHTS_PACK_CACHE_H

#include "base/buf.h"
#include "kernels.h"
#include "model/weights/arena.h"

typedef struct PackCache
{
	char	   *dir;			/* NULL = there is no cache */
	char	   *name;			/* of the entry in dir */
	Buf			key;			/* everything that decides the image's bytes */
	size_t		bytes;			/* of the image */
} PackCache;

/*
 * model, kernels and quantization name the entry, which the next one of that name
 * replaces; key says what it was made from and for.  dir NULL or "": no cache.
 */
void		packcache_init(PackCache *pc, const char *dir, const char *model, const char *kernels,
						   const char *quantization, const char *key, size_t bytes);
void		packcache_free(PackCache *pc);

/* Map the entry; false, with a line in the log unless there just is none, when it
 * can't be used. */
bool		packcache_map(const PackCache *pc, KPool *pool, MArena *a);
/* An entry was mapped, but it isn't what packing gives: say so. */
void		packcache_refuse(const PackCache *pc, const char *why);
/*
 * Keep a->base[0 .. bytes-1].  A failure is a warning in the log: the load goes on.
 * go_on is asked now and then; when it says no, nothing is kept.
 */
void		packcache_write(const PackCache *pc, KPool *pool, const MArena *a,
							bool (*go_on) (void *ctx), void *ctx);

#endif
