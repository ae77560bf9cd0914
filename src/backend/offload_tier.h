/*
 * offload_tier.h
 *	  The engine's offload tier of the KV caches of all models.  The first model that uses it opens it
 *	  with the settings of that moment.  It stays open for later models, until a model comes with other
 *	  settings while no model uses it.
 */
#ifndef VLLM_BACKEND_OFFLOAD_TIER_H
#define VLLM_BACKEND_OFFLOAD_TIER_H

#include "backend/backend.h"
#include "runtime/devices.h"
#include "backend/drafter_loader.h"
#include "core/offload/tier.h"

/* Return the tier, NULL if it is off; any thread.  The caller gives it back with offload_store_give(). */
KvTier	   *offload_store_take(const Settings *s);
void		offload_store_give(KvTier *t);
/* Return true if the tier has a directory; any thread. */
bool		offload_store_has_files(void);
/* Write what is in memory to files, as far as possible until the deadline (clock_us()); any thread. */
void		offload_store_flush(int64_t deadline_us);
/* Drop all contents, also of models that are not loaded; any thread. */
void		offload_store_reset(void);
/* Return the most memory that the tier takes; 0 = it is off. */
int64_t		offload_store_limit(const Settings *s);

/*
 * Compute a key of everything beside tokens and the core's layout that decides the bits of a model's K
 * and V: files, options, this program, and the device with its library.
 */
void		offload_store_id(const Files *files, const DraftFiles *df, const ModelOpts *o,
							 const CoreOptions *co, const DeviceChoice *where, const KDevOpen *open,
							 unsigned char id[KVTIER_KEY]);

#endif
