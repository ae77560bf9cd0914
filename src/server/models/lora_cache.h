/*
 * lora_cache.h
 *	  The adapters of a loaded model: which are in memory, and which requests use them.
 *
 * Server thread only.  A Lora is the adapter in a directory, in the state that the last request found: each
 * request checks whether the files are still the same (size, inode, times), and changed files are
 * another Lora, with another identity.  The name in a request is only used in errors and views.
 *
 *	state		leaves it by
 *	LOADING		loader done -> READY, or gone with an error for all who wait
 *	READY		evicted (nobody uses it, it isn't pinned, and its place is wanted), unloaded, or
 *				its files have changed: it is gone when the last request that uses it is
 *
 * At most max_cpu_loras are there at a time, in use or not; a request that finds no place waits for one, as
 * it does if vllm.memory_limit leaves no memory (memory_limit.c).
 */
#ifndef VLLM_SERVER_MODELS_LORA_CACHE_H
#define VLLM_SERVER_MODELS_LORA_CACHE_H

#include "base/json/json_writer.h"
#include "backend/backend.h"
#include "server/server_call.h"

typedef struct Lora Lora;
typedef struct LoraCache LoraCache;
struct Server;

/* limits: of the model's options and the settings it was loaded with. */
LoraCache  *loras_new(struct Server *srv, const BackendModel *instance, const LoraLimits *limits);
/* The model is gone.  What requests still hold goes with them. */
void		loras_close(LoraCache *lc);

/*
 * c's request has a path, and its model is ready: c waits for the adapter, then it has a
 * reference, and entry_run() goes on.  Or the request fails.
 */
void		loras_want(LoraCache *lc, ServerCall *c);
void		lora_unref(Lora *l);

/* Requests: WK_LORA_CHECK; a WK_LORA_LOAD that has its adapter; WK_LORA_UNLOAD. */
void		loras_check(ServerCall *c);
void		loras_loaded(ServerCall *c);
void		loras_unload(LoraCache *lc, ServerCall *c);
/*
 * Those that the database's requests have asked for by this name of a model (dboid 0: of any), as members of
 * a JSON array.
 */
void		loras_list(const LoraCache *lc, uint32_t dboid, JsonOut *j);

/* Requests that are over use nothing any more. */
void		loras_let_go(struct Server *srv);
/*
 * For memory_limit.c: the memory of all there are; when that was last used which nobody uses, INT64_MAX =
 * there is none; it goes.
 */
int64_t		loras_bytes(const LoraCache *lc);
int64_t		loras_oldest_us(const LoraCache *lc);
void		loras_evict(LoraCache *lc);

#endif
