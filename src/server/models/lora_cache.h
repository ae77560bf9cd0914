/*
 * lora_cache.h
 *	  The adapters of a loaded model: which are in memory, and which requests use them.
 *
 * Server thread only.  A Lora is the adapter in a directory, in the state that the last request found.
 * Each request checks whether the files are still the same (size, inode, times); changed files are
 * another Lora, with another identity.  The name in a request is only used in errors and views.
 *
 *	state		leaves it by
 *	LOADING		loader done -> READY, or freed with an error for all waiting requests
 *	READY		evicted (no request uses it, it isn't pinned, and its place is needed), unloaded, or
 *				its files have changed: it is freed after the last request that uses it
 *
 * At most max_cpu_loras are in memory at a time, in use or not.  A request that finds no place waits for
 * one; it also waits if vllm.memory_limit leaves no memory (memory_limit.c).
 */
#ifndef VLLM_SERVER_MODELS_LORA_CACHE_H
#define VLLM_SERVER_MODELS_LORA_CACHE_H

#include "base/json/json_writer.h"
#include "backend/backend.h"
#include "server/server_call.h"

typedef struct Lora Lora;
typedef struct LoraCache LoraCache;
struct Server;

/* limits: from the model's options and the settings at its load. */
LoraCache  *loras_new(struct Server *srv, const BackendModel *instance, const LoraLimits *limits);
/* The model is unloaded.  Adapters that requests still use are freed with the last of these. */
void		loras_close(LoraCache *lc);

/*
 * c's request names an adapter's path, and its model is ready.  c waits for the adapter, gets a
 * reference to it and continues in entry_run(); or the request fails.
 */
void		loras_want(LoraCache *lc, ServerCall *c);
void		lora_unref(Lora *l);

/* Requests: WK_LORA_CHECK; a WK_LORA_LOAD that has its adapter; WK_LORA_UNLOAD. */
void		loras_check(ServerCall *c);
void		loras_loaded(ServerCall *c);
void		loras_unload(LoraCache *lc, ServerCall *c);

/* Release the adapters of requests that have ended. */
void		loras_let_go(struct Server *srv);
/*
 * For memory_limit.c: the bytes of all adapters; the time of the last use of the least recently used
 * idle one, INT64_MAX = none; and its eviction.
 */
int64_t		loras_bytes(const LoraCache *lc);
int64_t		loras_oldest_us(const LoraCache *lc);
void		loras_evict(LoraCache *lc);

#endif
