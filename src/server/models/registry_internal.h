/*
 * registry_internal.h
 *	  The registry's data structures, for the files of server/models.
 */
#ifndef VLLM_SERVER_MODELS_REGISTRY_INTERNAL_H
#define VLLM_SERVER_MODELS_REGISTRY_INTERNAL_H

#include "server/models/lora_cache.h"
#include "server/models/registry.h"
#include "server/server.h"

typedef struct SleepOp SleepOp;
typedef struct UpdateOp UpdateOp;

typedef enum SleepMode
{
	SLEEP_ABORT,				/* requests fail */
	SLEEP_WAIT,					/* the operation waits for the requests to end */
	SLEEP_KEEP					/* requests continue after the wake-up */
} SleepMode;

/* ModelInstance.rest */
enum
{
	LR_AWAKE = 0,
	LR_RESTS,					/* makes no steps */
	LR_STORED,					/* no KV memory, and the weights are in a file */
	LR_FORGOTTEN				/* no KV memory, and no copy of the weights but the model's files */
};

struct ModelInstance
{
	Job			j;				/* first the load, later the job that frees it */
	ModelInstance *next;
	Models	   *m;
	char	   *key;
	char	   *path;
	ModelOpts	opts;
	Settings	set;
	bool		done;			/* the load has ended */
	bool		dying;
	int			refs;
	int			pins;
	BackendModel *instance;		/* set once ready */
	ModelFacts	facts;
	LoraCache  *loras;			/* NULL: no request has named an adapter */
	ServerCall *unloader;		/* gets its reply when the memory is free */
	Err			err;
	int64_t		start_us;		/* when the load was requested */
	int64_t		began_us;		/* start of the load */
	int64_t		ready_us;		/* end of the load */
	/* memory_limit.c */
	int64_t		need;			/* bytes of memory that it needs */
	int64_t		stays;			/* memory that it keeps without KV cache and weights */
	bool		queued;			/* its load waits for memory */
	int64_t		waiting_us;		/* time since when the load waits for memory */
	bool		leaving;		/* it takes no new requests */
	bool		held;			/* gets no new requests: weight_update.c, or sleep.c waits for jobs */
	bool		updates;		/* is loaded for an update, and belongs to no entry yet */
	bool		updated;		/* serves until its update is loaded */
	int			busy;			/* requests and jobs at the last look() */
	_Atomic int rest;			/* LR_*; written by the job that has the instance */
	/*
	 * the entry that it was replaced in, while requests finish on it; holds a reference; NULL = it
	 * belongs to entries
	 */
	ModelEntry *left;
	bool		lost;			/* saving its weights failed after they were dropped */
	bool		given_up;		/* the weights cannot be restored: the requests have failed */
	bool		fetched;		/* its weights are being restored: their memory is already reserved */
	_Atomic int permille;		/* progress, set by the loader */
	_Atomic int weight;			/* weight for the scheduler: the greatest of its entries */
	_Atomic bool give_up;
};

struct ModelEntry
{
	ModelEntry *next;
	Models	   *m;
	uint32_t	dboid;
	char		name[WIRE_NAME_LEN];
	char	   *path;
	char	   *old_path;		/* path before llm_update_weights(); NULL = none */
	char	   *options;		/* "" = none */
	ChatModel  *chat;			/* template of the options; NULL = none */
	ModelOpts	opts;
	WireModelState state;
	ModelInstance *loaded;			/* set while LOADING (second stage) or READY */
	uint64_t	attempt;
	Err			err;			/* FAILED */
	/*
	 * FAILED: fingerprint and settings of the failed load, so that the same load is refused at once;
	 * NULL: try again
	 */
	char	   *fail_print;		/* fingerprint of the files */
	Settings   *fail_set;
	int			refs;			/* references from the registry and from server calls */
	unsigned	asleep;			/* WIRE_SLEEP_*: what is missing; 0 = awake */
	int			sleep_level;	/* level of that sleep */
	int64_t		used_us;		/* when it was last requested, or busy */
	unsigned	was_asleep;		/* `asleep` before the current SleepOp */
	int			was_level;
	EntryCounters n;
};

struct Models
{
	struct Server *srv;
	ModelEntry *entries;
	int			n_entries;
	int			n_placeless;	/* requests that wait for a place (place_queue.c) */
	bool		all_busy;		/* no place for an entry, but one will be idle (place_queue.c) */
	StatsRow   *rows;			/* [WIRE_MAX_MODELS], for models_show() */
	ModelInstance *loaded;
	int			n_loading;
	int64_t		shown_us;		/* rows last updated for progress */
	int64_t		ticked_us;		/* memory_limit.c */
	int64_t		wanted_us;		/* time when a wake-up or an update last found no memory; 0 = none waits */
	/* sleep.c */
	unsigned	asleep;			/* state for entries that are created from now on */
	int			sleep_level;
	unsigned	was_asleep;
	int			was_level;
	UpdateOp   *updates;		/* done one after the other */
	bool		updating;		/* the first update has begun */
	SleepOp    *ops;			/* done one after the other */
};

/* Free the instance if it is unused; if it is still loading, make the load give up. */
void		loaded_settle(ModelInstance *l);
/*
 * Detach the entry from its instance, or from its load.  Returns the instance if nothing else refers to
 * it.
 */
ModelInstance *entry_let_go(ModelEntry *en);
/* The entry's requests finish on l, which no longer belongs to an entry (ModelInstance.left). */
void		loaded_leave(ModelInstance *l, ModelEntry *en);
/* Will the instance be freed, without waiting for requests that finish on it? */
bool		instance_will_be_freed(const ModelInstance *l);
/* Fail all requests of the entry but `except`. */
void		entry_fail_requests(ModelEntry *en, const Err *e, const ServerCall *except);

/* Return what two entries must have in common to share an instance, malloc'ed; any thread. */
char	   *models_key(const char *path, const ModelOpts *o);
/* Return an instance that is not loaded yet, with one reference.  Takes ownership of key. */
ModelInstance *loaded_new(Models *m, char *key, const char *path, const ModelOpts *o);
/* The instance is loaded: register it with the step thread. */
void		loaded_attach(ModelInstance *l);
/* ---- fingerprint.c ---- */
/*
 * Return a fingerprint of the files at path, and of the drafter's, malloc'ed: equal strings = the same
 * files.
 */
char	   *files_fingerprint(const char *path, const ModelOpts *o);

/* Start the load, since there is memory for it; or end it with l->err, since there never will be. */
void		load_start(ModelInstance *l);
void		load_refused(ModelInstance *l);

/* ---- memory_limit.c ---- */
/* Is there memory for l->need bytes, which l does not occupy yet?  May unload other models for it. */
MemoryVerdict memory_limit_make(ModelInstance *l, Err *e);
/* Queue a new load, whose need is known. */
void		memory_limit_enqueue(ModelInstance *l);
/* Return the memory that the instance occupies now, with its adapters. */
int64_t		memory_limit_takes(const ModelInstance *l);
/* Return when the entry will be unloaded without further requests; 0 = never. */
int64_t		memory_limit_expires_us(const ModelEntry *en, const Settings *set);

/* ---- sleep.c ---- */
bool		sleep_mode(const char *name, SleepMode *mode);
/* Continue the requests in stage SCALL_ASLEEP whose model is available again. */
void		sleep_wake_requests(Models *m);
/* Abort a running load; the requests that wait for it wait in stage SCALL_ASLEEP instead. */
void		sleep_stop_load(ModelEntry *en);
/* Set the sleep state of a new entry, or of one that shares l (NULL: shares none). */
void		sleep_inherit(ModelEntry *en, const ModelInstance *l);

#endif
