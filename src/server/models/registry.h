/*
 * registry.h
 *	  The registry: which (database, name) is which model, and what is loaded.
 *
 * Server thread only.  A ModelEntry is a catalog row as the engine has seen it.  A ModelInstance is a
 * set of weights with its KV cache, shared by entries whose files and options are the same.
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

/* Return the entry of that name, without side effects; NULL = none. */
ModelEntry *registry_find(const Models *m, uint32_t dboid, const char *name);
/*
 * Return the entry of the catalog row that a request describes, and create it if there is none.  An
 * entry with another path or other options is replaced: its requests fail, and it releases its weights.
 * NULL with *e set: path is NULL and the name is unknown; bad options; too many entries.
 */
ModelEntry *registry_ensure(Models *m, uint32_t dboid, const char *name, const char *path,
							const char *options, Err *e);
/* Return the context length of a loaded model; 0 = unknown. */
int			models_known_len(Models *m, uint32_t dboid, const char *name, size_t n);
void		entry_ref(ModelEntry *en);
void		entry_unref(ModelEntry *en);
EntryCounters *entry_counters(ModelEntry *en);
const char *entry_name(const ModelEntry *en);
/* Return the options that apply to requests; the backend has those of the instance. */
const ModelOpts *entry_opts(const ModelEntry *en);

/* Publish the models' rows.  Called after every change, before any client is told of it. */
void		models_show(Models *m);

/* Return the chat template that the entry's options give; NULL = none. */
const ChatModel *entry_chat(const ModelEntry *en);

/* Return the instance if it is ready, else NULL. */
BackendModel *entry_inst(ModelEntry *en);
bool		entry_facts(ModelEntry *en, ModelFacts *out);

/* Continue c, which has its entry: it runs, or waits for the model. */
void		entry_go(ServerCall *c);
/*
 * Continue c after its model is loaded: it waits for its adapter, or runs.  Called again when it has the
 * adapter (lora_cache.c).
 */
void		entry_run(ServerCall *c);

/* Release the weights; the entry's requests fail.  c gets its reply when the memory is free. */
void		models_unload(Models *m, uint32_t dboid, const char *name, ServerCall *c);
/*
 * The catalog row was dropped; name "" = all rows of the database.  hash (wire_model_hash): only if the
 * entry has this path and these options; 0 = in any case.
 */
void		models_forget(Models *m, uint32_t dboid, const char *name, uint64_t hash);

/* Pin an instance, so that it is not freed while a job uses it. */
ModelInstance *entry_pin(ModelEntry *en);
void		loaded_unpin(ModelInstance *l);
BackendModel *loaded_inst(const ModelInstance *l);

/* Return the adapters of a model; NULL: it isn't ready, or no adapter was requested. */
struct LoraCache *models_loras(const Models *m, uint32_t dboid, const char *name);
/* Write all adapters of a database (0: of all) as members of a JSON array. */
void		models_list_loras(const Models *m, uint32_t dboid, JsonOut *j);
/*
 * Serve requests that wait for an adapter's place; called on every wake of the server thread.  true:
 * call again soon.
 */
bool		models_attend_loras(Models *m);

/* ---- place_queue.c ---- */
/*
 * Set c->entry, with a reference, from its request.  false: c has failed, or waits until a model is idle
 * and can make room for its own; then request_start_with_model() is called again.
 */
bool		place_take(ServerCall *c);
/*
 * Continue requests that wait for a place; called on every wake of the server thread.  true: call again
 * soon.
 */
bool		place_poll(Models *m);

/* ---- memory_limit.c ---- */
typedef enum MemoryVerdict
{
	MEMORY_OK,
	MEMORY_WAIT,					/* try again soon */
	MEMORY_REFUSED					/* *e says why */
} MemoryVerdict;

/*
 * Is there memory for an adapter of the entry's model?  May unload other adapters and models for it.
 * *waiting_us: 0 at first, then the time since when there has been none.
 */
MemoryVerdict memory_limit_lora(ModelEntry *en, const char *name, int64_t bytes, int64_t *waiting_us, Err *e);
/* Start the loads that wait for memory; true: call again soon.  Called on every wake of the server thread. */
bool		memory_limit_poll(Models *m);
/* Unloads idle models; called on every wake of the server thread. */
void		memory_limit_tick(Models *m);

/* ---- weight_update.c ---- */
/* Run a control command that updates a model's weights; false: it is another one. */
bool		update_command(Models *m, ServerCall *c, const char *command);
/* Like sleep_poll(). */
bool		update_poll(Models *m);
/* Release the instance that c stayed on after an update, if any (ServerCall.on). */
void		update_release(ServerCall *c);

/* ---- sleep.c ---- */
/*
 * Run a control command that puts models to sleep, wakes them or queries that; model "": all of them.
 * false: it is another one.
 */
bool		sleep_command(Models *m, ServerCall *c, const char *command);
/*
 * c has its entry.  Returns true if it may not run because the model is asleep: it then waits, or has
 * failed.
 */
bool		sleep_stops(ServerCall *c);
/* Advance the sleep operations; true: call again soon.  Called on every wake of the server thread. */
bool		sleep_poll(Models *m);

/* Send progress frames; called on every wake of the server thread. */
void		models_progress(Models *m);

/* Parse a catalog entry's options (json text, NULL or "" = none). */
bool		model_opts_parse(const char *json, ModelOpts *out, Err *e);
/* Find the path of the drafter's files in the options (size SPEC_PATH); false: there is none. */
bool		model_opts_draft_path(const ModelOpts *o, char *path);
/*
 * Append the options that distinguish instances of the same files (the rows with KEY of
 * model_options.def).
 */
void		model_opts_key(const ModelOpts *o, Buf *key);

#endif
