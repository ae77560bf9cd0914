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
	Buf			key;			/* everything that determines the image's bytes */
	size_t		bytes;			/* of the image */
} PackCache;

/*
 * model, kernels and quantization name the entry; a new entry of that name replaces the old one.  key
 * describes everything else that determines the image's bytes.  dir NULL or "": no cache.
 */
void		packcache_init(PackCache *pc, const char *dir, const char *model, const char *kernels,
						   const char *quantization, const char *key, size_t bytes);
void		packcache_free(PackCache *pc);

/* Map the entry.  Return false if it can't be used, with a line in the log unless it just doesn't
 * exist. */
bool		packcache_map(const PackCache *pc, KPool *pool, MArena *a);
/* Log that a mapped entry differs from the result of packing. */
void		packcache_refuse(const PackCache *pc, const char *why);
/*
 * Store a->base[0 .. bytes-1].  A failure is a warning in the log, and the load goes on.  go_on is
 * called now and then; if it returns false, nothing is stored.
 */
void		packcache_write(const PackCache *pc, KPool *pool, const MArena *a,
							bool (*go_on) (void *ctx), void *ctx);

#endif
