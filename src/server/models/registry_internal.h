/*
 * registry_internal.h
 *	  The registry from inside, for the files that make it: registry.c and sleep.c.
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
	SLEEP_WAIT,					/* requests are awaited */
	SLEEP_KEEP					/* they go on */
} SleepMode;

/* Loaded.rest */
enum
{
	LR_AWAKE = 0,
	LR_RESTS,					/* it computes nothing */
	LR_STORED,					/* no KV memory, and the weights are in a file */
	LR_FORGOTTEN				/* no KV memory; the weights are in the model's files alone */
};

struct ModelInstance
{
	Job			j;				/* load, then free */
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
	BackendModel *instance;		/* ready */
	ModelFacts	facts;
	LoraCache  *loras;			/* NULL: no request has named an adapter */
	ServerCall *unloader;		/* answered when the memory is free */
	Err			err;
	int64_t		start_us;		/* when it was asked for, */
	int64_t		began_us;		/* start of the load */
	int64_t		ready_us;		/* end of the load */
	/* memory_limit.c */
	int64_t		need;			/* memory, */
	int64_t		stays;			/* memory that stays while it has neither KV cache nor weights */
	bool		queued;			/* its load waits for room, */
	int64_t		asked_us;		/* time since when the load waits for memory */
	bool		leaving;		/* it takes no new requests */
	bool		held;			/* no new requests: weight_update.c, or sleep.c awaits jobs */
	bool		updates;		/* it is being loaded for that */
	bool		updated;		/* it serves until that one does */
	int			busy;			/* requests and jobs, as of the last look */
	_Atomic int rest;			/* ready: LR_*, by the job that has it */
	/* whose it was: requests that it has finish on it; holds a reference; NULL = it is entries' */
	ModelEntry *left;
	bool		lost;			/* its weights could not be kept */
	bool		given_up;		/* the weights cannot be restored: the requests have failed */
	bool		fetched;		/* its weights are on their way back: they have their room */
	_Atomic int permille;		/* progress, by the loader */
	_Atomic int weight;			/* of its share of the time: the greatest of its entries' */
	_Atomic bool give_up;
};

struct ModelEntry
{
	ModelEntry *next;
	Models	   *m;
	uint32_t	dboid;
	char		name[WIRE_NAME_LEN];
	char	   *path;
	char	   *old_path;		/* before llm_update_weights(); NULL = none */
	char	   *options;		/* "" = none */
	ChatModel  *chat;			/* the option's template, NULL = none */
	ModelOpts	opts;
	WireModelState state;
	ModelInstance *loaded;			/* while LOADING (second stage) or READY */
	uint64_t	attempt;
	Err			err;			/* FAILED */
	/* FAILED: what failed, so that the same again is refused at once; NULL: try again */
	char	   *fail_print;		/* fingerprint of the files */
	Settings   *fail_set;
	int			refs;			/* the registry's and conversations' */
	unsigned	asleep;			/* WIRE_SLEEP_*: what is not there; 0 = awake */
	int			sleep_level;	/* of asleep */
	int64_t		used_us;		/* when it was last asked for, or busy */
	unsigned	was_asleep;		/* before the SleepOp at hand */
	int			was_level;
	EntryCounters n;
};

struct Models
{
	struct Server *srv;
	ModelEntry *entries;
	int			n_entries;
	StatsRow   *rows;			/* [WIRE_MAX_MODELS], for models_show() */
	ModelInstance *loaded;
	int			n_loading;
	int64_t		shown_us;		/* rows last updated for progress */
	int64_t		ticked_us;		/* memory_limit.c */
	int64_t		wanted_us;		/* time when a wake-up or an update last found no memory; 0 = none waits */
	/* sleep.c */
	unsigned	asleep;			/* of entries that come from now on */
	int			sleep_level;
	unsigned	was_asleep;
	int			was_level;
	UpdateOp   *updates;		/* one after the other; */
	bool		updating;		/* the first operation has begun */
	SleepOp    *ops;			/* one after the other */
};

/* Is it unused? */
void		loaded_settle(ModelInstance *l);
/* The entry has neither weights nor a load any more; returns its ModelInstance if that is on its way out. */
ModelInstance *entry_let_go(ModelEntry *en);
/* Its requests finish on l, which is no entry's any more (Loaded.left). */
void		loaded_leave(ModelInstance *l, ModelEntry *en);
/* On its way out, and not only when its requests have finished. */
bool		loaded_goes(const ModelInstance *l);
/* All requests of the entry but `except` fail. */
void		entry_fail_requests(ModelEntry *en, const Err *e, const ServerCall *except);

/* What two entries must have in common to share an instance; any thread.  To be freed. */
char	   *models_key(const char *path, const ModelOpts *o);
/* An instance that is not there yet, with one reference; takes over key. */
ModelInstance *loaded_new(Models *m, char *key, const char *path, const ModelOpts *o);
/* It is there: the step thread shall know it. */
void		loaded_attach(ModelInstance *l);
/* ---- fingerprint.c ---- */
/* Which files lie at path, and what guesses tokens for them; equal strings = the same files.  To be freed. */
char	   *files_fingerprint(const char *path, const ModelOpts *o);

/* There is room for it, or (err is set) never will be. */
void		load_start(ModelInstance *l);
void		load_refused(ModelInstance *l);

/* ---- memory_limit.c ---- */
/* Is there room for l->need bytes, which l does not take yet?  Others may be unloaded for it. */
MemoryVerdict memory_limit_make(ModelInstance *l, Err *e);
/* A new load, whose need is known. */
void		memory_limit_ask(ModelInstance *l);
/* What it takes now, with its adapters. */
int64_t		memory_limit_takes(const ModelInstance *l);
/* When the entry will be unloaded without further requests; 0 = never. */
int64_t		memory_limit_expires_us(const ModelEntry *en, const Settings *set);

/* ---- sleep.c ---- */
bool		sleep_mode(const char *name, SleepMode *mode);
/* Requests that wait in stage SCALL_ASLEEP for nothing any more go on. */
void		sleep_wake_requests(Models *m);
/* A load that is on its way is given up; who waits for it waits in stage SCALL_ASLEEP. */
void		sleep_stop_load(ModelEntry *en);
/* A new entry, or one that shares l (NULL: nobody's): is it asleep? */
void		sleep_inherit(ModelEntry *en, const ModelInstance *l);

#endif
