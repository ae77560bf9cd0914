/*
 * models_int.h
 *	  The registry from inside, for the files that make it: models.c and sleep.c.
 */
#ifndef VLLM_ENGINE_MODELS_INT_H
#define VLLM_ENGINE_MODELS_INT_H

#include "engine/lora.h"
#include "engine/models.h"
#include "engine/server.h"

typedef struct SleepOp SleepOp;

/* Loaded.rest */
enum
{
	LR_AWAKE = 0,
	LR_RESTS,					/* it computes nothing */
	LR_STORED					/* ... and has no KV memory, and its weights are in a file */
};

struct Loaded
{
	Job			j;				/* load, then free */
	Loaded	   *next;
	Models	   *m;
	char	   *key;
	char	   *path;
	ModelOpts	opts;
	Settings	set;
	bool		done;			/* the load has ended */
	bool		dying;
	int			refs;
	int			pins;
	Inst	   *inst;			/* ready */
	ModelFacts	facts;
	LoraCache  *loras;			/* NULL: nobody has asked for an adapter */
	Conv	   *unloader;		/* answered when the memory is free */
	Err			err;
	int64_t		start_us;
	int			rest;			/* ready: LR_* */
	_Atomic int permille;		/* progress, by the loader */
	_Atomic bool give_up;
};

struct Entry
{
	Entry	   *next;
	Models	   *m;
	uint32_t	dboid;
	char		name[WIRE_NAME_LEN];
	char	   *path;
	char	   *options;		/* "" = none */
	ChatModel  *chat;			/* the option's template, NULL = none */
	ModelOpts	opts;
	WireModelState state;
	Loaded	   *loaded;			/* while LOADING (second stage) or READY */
	uint64_t	attempt;
	Err			err;			/* FAILED */
	/* FAILED: what failed, so that the same again is refused at once; NULL: try again */
	char	   *fail_print;		/* fingerprint of the files */
	Settings   *fail_set;
	int			refs;			/* the registry's and conversations' */
	unsigned	asleep;			/* WIRE_SLEEP_*: what is not there; 0 = awake */
	int			sleep_level;	/* of asleep */
	unsigned	was_asleep;		/* before the SleepOp at hand */
	int			was_level;
	EntryCounters n;
};

struct Models
{
	struct Server *srv;
	Entry	   *entries;
	int			n_entries;
	Loaded	   *loaded;
	int			n_loading;
	int64_t		shown_us;		/* rows last updated for progress */
	/* sleep.c */
	unsigned	asleep;			/* of entries that come from now on */
	int			sleep_level;
	unsigned	was_asleep;
	int			was_level;
	SleepOp    *ops;			/* one after the other */
};

/* Publish the rows: after every change, before anyone is told of it. */
void		models_show(Models *m);
/* Nobody wants it any more? */
void		loaded_settle(Loaded *l);
/* The entry has neither weights nor a load any more; returns its Loaded if that is on its way out. */
Loaded	   *entry_let_go(Entry *en);
/* All requests of the entry but `except` fail. */
void		entry_fail_requests(Entry *en, const Err *e, const Conv *except);

/* ---- sleep.c ---- */
/* A new entry, or one that shares l (NULL: nobody's): is it asleep? */
void		sleep_inherit(Entry *en, const Loaded *l);

#endif
