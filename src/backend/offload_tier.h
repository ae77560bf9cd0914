/*
 * offload_tier.h
 *	  The engine's store behind the KV caches of all its models: opened for the first that has use for it, by
 *	  the settings of then.  It stays for those that come again, until one comes with other settings.
 */
#ifndef VLLM_BACKEND_OFFLOAD_TIER_H
#define VLLM_BACKEND_OFFLOAD_TIER_H

#include "backend/backend.h"
#include "runtime/devices.h"
#include "backend/drafter_loader.h"
#include "core/offload/tier.h"

/* NULL: it is off.  Any thread; to be given back. */
KvTier	   *offload_store_take(const Settings *s);
void		offload_store_give(KvTier *t);
/* Is there a directory?  Any thread. */
bool		offload_store_has_files(void);
/* What is in memory goes to files, as far as can be done until then (clock_us()).  Any thread. */
void		offload_store_flush(int64_t deadline_us);
/* Forget everything, of models that aren't loaded, too.  Any thread. */
void		offload_store_reset(void);
/* Most memory that it takes; 0: it is off. */
int64_t		offload_store_limit(const Settings *s);

/*
 * What decides the bits of a model's K and V beside tokens and the core's layout: files, options, this
 * program, and the device with its library.
 */
void		offload_store_id(const Files *files, const DraftFiles *df, const ModelOpts *o,
							 const CoreOptions *co, const DeviceChoice *where, const KDevOpen *open,
							 unsigned char id[KVTIER_KEY]);

#endif
