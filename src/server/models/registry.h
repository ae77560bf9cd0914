/*
 * registry.h
 *	  The registry: which (database, name) is which model, and what is loaded.
 *
 * Server thread only.  A ModelEntry is a catalog row as the engine has seen it; a
 * Loaded is a set of weights with its KV, shared by entries whose files and options
 * are the same.
 *
 *	entry state		leaves it by
 *	UNLOADED		a generate or load request -> LOADING
 *	LOADING			loader done -> READY or FAILED; unload -> UNLOADED
 *	READY			unload, forget, changed path or options
 *	FAILED			load request -> LOADING; generate: the same error again unless
 *					the files have changed since
 */
#ifndef VLLM_SERVER_MODELS_REGISTRY_H
#define VLLM_SERVER_MODELS_REGISTRY_H

#include "base/json/json_writer.h"
#include "backend/backend.h"
#include "server/server_call.h"
#include "server/server_stats.h"

typedef struct ModelEntry ModelEntry;
typedef struct ModelInstance ModelInstance;
typedef struct Models Models;
struct Server;

Models	   *models_new(struct Server *srv);

/* Look, without effects: the entry of that name, NULL = none. */
ModelEntry *registry_find(const Models *m, uint32_t dboid, const char *name);
/*
 * The entry of the catalog row that a request describes.  Made if there is none; one of another path or other
 * options is replaced: its requests fail, and it lets go its weights.  NULL with *e set: path is NULL and
 * the name is not known; bad options; too many entries.
 */
ModelEntry *registry_ensure(Models *m, uint32_t dboid, const char *name, const char *path,
							const char *options, Err *e);
/* The context length of a model that is loaded, 0 = not known. */
int			models_known_len(Models *m, uint32_t dboid, const char *name, size_t n);
void		entry_ref(ModelEntry *en);
void		entry_unref(ModelEntry *en);
EntryCounters *entry_counters(ModelEntry *en);
const char *entry_name(const ModelEntry *en);
/* Its options, for what acts on requests; those of its instance the backend has. */
const ModelOpts *entry_opts(const ModelEntry *en);

/* Publish the rows: after every change, before anyone is told of it. */
void		models_show(Models *m);

/* The chat template that the entry's options give, NULL = none. */
const ChatModel *entry_chat(const ModelEntry *en);

/* The instance if it is ready, else NULL. */
BackendModel *entry_inst(ModelEntry *en);
bool		entry_facts(ModelEntry *en, ModelFacts *out);

/* c, which has its entry, goes on or waits for the model. */
void		entry_go(ServerCall *c);
/* The model is loaded: c waits for its adapter, or runs; also when it has the adapter (lora_cache.c). */
void		entry_run(ServerCall *c);

/* Drop weights; requests on the entry fail.  c is answered when the memory is free. */
void		models_unload(Models *m, uint32_t dboid, const char *name, ServerCall *c);
/*
 * The catalog row is gone; name "" = all of the database.  hash (wire_model_hash):
 * only if the entry is of this path and these options, 0 = whatever it is.
 */
void		models_forget(Models *m, uint32_t dboid, const char *name, uint64_t hash);

/* An instance must not be freed while a job uses it. */
ModelInstance *entry_pin(ModelEntry *en);
void		loaded_unpin(ModelInstance *l);
BackendModel *loaded_inst(const ModelInstance *l);

/* The adapters of a model; NULL: it isn't ready, or no adapter was requested. */
struct LoraCache *models_loras(const Models *m, uint32_t dboid, const char *name);
/* All of a database's (0: of all) as members of a JSON array. */
void		models_list_loras(const Models *m, uint32_t dboid, JsonOut *j);
/*
 * Serves requests that wait for an adapter's place; called on every wake of the server thread.  true: call
 * again soon.
 */
bool		models_attend_loras(Models *m);

/* ---- memory_limit.c ---- */
typedef enum MemoryVerdict
{
	MEMORY_OK,
	MEMORY_WAIT,					/* ask again soon */
	MEMORY_REFUSED					/* *e says why */
} MemoryVerdict;

/*
 * Is there room for an adapter of the entry's model?  Others may be unloaded for it.  *asked_us: 0 at first,
 * else since when there has been none.
 */
MemoryVerdict memory_limit_lora(ModelEntry *en, const char *name, int64_t bytes, int64_t *asked_us, Err *e);
/* Loads that wait for room; true: call again soon.  On every wake of the server thread. */
bool		memory_limit_turn(Models *m);
/* Unloads idle models; called on every wake of the server thread. */
void		memory_limit_tick(Models *m);

/* ---- weight_update.c ---- */
/* A control command that gives a model other weights; false: it is none. */
bool		update_command(Models *m, ServerCall *c, const char *command);
/* As sleep_turn(). */
bool		update_turn(Models *m);
/* c may have been left behind on an instance, which it doesn't need any more. */
void		update_release(ServerCall *c);

/* ---- sleep.c ---- */
/*
 * A control command that puts models to sleep, wakes them or asks about that; model "": all of them.
 * false: it is none.
 */
bool		sleep_command(Models *m, ServerCall *c, const char *command);
/* c has its entry: may it not go on, as the model is asleep?  It then waits, or has failed. */
bool		sleep_stops(ServerCall *c);
/* Move on what has been asked for; true: call again soon.  On every wake of the server thread. */
bool		sleep_turn(Models *m);

/* Send progress frames; called on every wake of the server thread. */
void		models_progress(Models *m);

/* Parse a catalog entry's options (json text, NULL or "" = none). */
bool		model_opts_parse(const char *json, ModelOpts *out, Err *e);
/* Where options have a drafter's files (size SPEC_PATH); false: nowhere. */
bool		model_opts_draft_path(const ModelOpts *o, char *path);
/* Add what instances of the same files differ by (the rows with KEY of model_options.def). */
void		model_opts_key(const ModelOpts *o, Buf *key);

#endif
