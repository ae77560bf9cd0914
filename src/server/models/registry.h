/*
 * models.h
 *	  The registry: which (database, name) is which model, and what is loaded.
 *
 * Server thread only.  An Entry is a catalog row as the engine has seen it; a
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
#ifndef VLLM_ENGINE_MODELS_H
#define VLLM_ENGINE_MODELS_H

#include "base/jsonw.h"
#include "engine/backend.h"
#include "engine/conv.h"
#include "engine/stats.h"

typedef struct Entry Entry;
typedef struct Loaded Loaded;
typedef struct Models Models;
struct Server;

Models	   *models_new(struct Server *srv);

/*
 * The entry for a request; makes or replaces it when the request names a path.
 * NULL with *e set: unknown, bad options, too many.
 */
Entry	   *models_entry(Models *m, uint32_t dboid, const char *name, const char *path,
						 const char *options, Err *e);
/* The context length of a model that is loaded, 0 = not known. */
int			models_known_len(Models *m, uint32_t dboid, const char *name, size_t n);
void		entry_ref(Entry *en);
void		entry_unref(Entry *en);
EntryCounters *entry_counters(Entry *en);
const char *entry_name(const Entry *en);

/* Where the options of the entry have a drafter's files (size SPEC_PATH); false: nowhere. */
bool		entry_draft_path(const Entry *en, char *path);

/* Publish the rows: after every change, before anyone is told of it. */
void		models_show(Models *m);

/* The chat template that the entry's options give, NULL = none. */
const ChatModel *entry_chat(const Entry *en);

/* The instance if it is ready, else NULL. */
Inst	   *entry_inst(Entry *en);
bool		entry_facts(Entry *en, ModelFacts *out);
/*
 * Make c wait for the entry's model and start loading it if need be.  c goes on in
 * request_run() or fails.  retry: a failed load is tried again in any case.
 */
void		entry_wait(Entry *en, Conv *c, bool retry);

/* c, which has its entry, goes on or waits for the model. */
void		entry_go(Conv *c);

/* Drop weights; requests on the entry fail.  c is answered when the memory is free. */
void		models_unload(Models *m, uint32_t dboid, const char *name, Conv *c);
/*
 * The catalog row is gone; name "" = all of the database.  hash (wire_model_hash):
 * only if the entry is of this path and these options, 0 = whatever it is.
 */
void		models_forget(Models *m, uint32_t dboid, const char *name, uint64_t hash);

/* An instance must not be freed while a job uses it. */
Loaded	   *entry_pin(Entry *en);
void		loaded_unpin(Loaded *l);
Inst	   *loaded_inst(const Loaded *l);

/* The adapters of a model that is ready; NULL with *e set: its options and the settings contradict each other. */
struct LoraCache *entry_loras(Entry *en, Err *e);
/* ... NULL: it isn't, or nobody has asked for one. */
struct LoraCache *models_loras(const Models *m, uint32_t dboid, const char *name);
/* All of a database's (0: of all) as members of a JSON array. */
void		models_list_loras(const Models *m, uint32_t dboid, JsonOut *j);
/* Who waits for an adapter's place; called on every wake of the server thread.  true: call again soon. */
bool		models_attend_loras(Models *m);

/* ---- room.c ---- */
typedef enum RoomAnswer
{
	ROOM_YES,
	ROOM_LATER,					/* ask again soon */
	ROOM_NEVER					/* *e says why */
} RoomAnswer;

/*
 * Is there room for an adapter of the entry's model?  Others may be unloaded for it.  *asked_us: 0 at first, else since when
 * there has been none.
 */
RoomAnswer	room_lora(Entry *en, const char *name, int64_t bytes, int64_t *asked_us, Err *e);
/* Loads that wait for room; true: call again soon.  On every wake of the server thread. */
bool		room_turn(Models *m);
/* Unload what nobody has asked for for too long; likewise. */
void		room_tick(Models *m);

/* ---- update.c ---- */
/* A control command that gives a model other weights; false: it is none. */
bool		update_command(Models *m, Conv *c, const char *command);
/* As sleep_turn(). */
bool		update_turn(Models *m);
/* c may have been left behind on an instance, which it doesn't need any more. */
void		update_release(Conv *c);

/* ---- sleep.c ---- */
/*
 * A control command that puts models to sleep, wakes them or asks about that; model "": all of them.
 * false: it is none.
 */
bool		sleep_command(Models *m, Conv *c, const char *command);
/* c has its entry: may it not go on, as the model is asleep?  It then waits, or has failed. */
bool		sleep_stops(Conv *c);
/* Move on what has been asked for; true: call again soon.  On every wake of the server thread. */
bool		sleep_turn(Models *m);

/* Send progress frames; called on every wake of the server thread. */
void		models_progress(Models *m);

/* Parse a catalog entry's options (json text, NULL or "" = none). */
bool		model_opts_parse(const char *json, ModelOpts *out, Err *e);

#endif
