/*
 * logits_processors.h
 *	  Logits processors from shared libraries (vllm_logits_processor.h).
 */
#ifndef VLLM_CORE_SAMPLE_LOGITS_PROCESSORS_H
#define VLLM_CORE_SAMPLE_LOGITS_PROCESSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PLUGINS_MAX	32			/* as many as a mask has bits */

/* What is loaded; fixed from then on, and never unloaded. */
typedef struct Plugins Plugins;

/* *out: NULL if the list is empty.  A library without a slash is looked for beside the engine. */
bool		plugins_load(const char *list, Plugins **out, Err *e);
void		plugins_free(Plugins *p);	/* for tests: the engine keeps its own */
int			plugins_count(const Plugins *p);	/* NULL will do */
/* The engine's own: set once, before there are other threads. */
void		plugins_set_loaded(const Plugins *p);
const Plugins *plugins_loaded(void);
/* Which take part in a request with these extra_args (NULL = none)?  Any thread. */
bool		plugins_check(const Plugins *p, const char *extra_args, uint32_t *mask, Err *e);

/* Where a request sits in the batch; zeroed at first. */
typedef struct PluginSeat
{
	int			slot;
	uint64_t	key;			/* of the time that it sits there; 0 = it never has */
	const char *failed;			/* the processor that did, NULL = none */
} PluginSeat;

/* One model's instances of all; the step thread's. */
typedef struct PluginHost PluginHost;

PluginHost *plugin_host_new(const Plugins *p, int vocab_size, int32_t eos, Err *e);
void		plugin_host_free(PluginHost *h);

struct SampleRow;

/* Those that come behind the temperature */
uint32_t	plugin_host_late(const PluginHost *h);

/*
 * Tell what has changed: rows[0..n) are those of this step, of which some have plugins; again: more rows of
 * the step, of some of its requests, and those who are missing stay where they are.
 */
void		plugin_host_update(PluginHost *h, struct SampleRow *rows, int n, bool again);

/*
 * Let those of `which` change the rows that they take part in, if the row's id is not below 0.  Where
 * one fails the row's id becomes SMP_PLUGIN.
 */
void		plugin_host_apply(PluginHost *h, uint32_t which, struct SampleRow *rows, int n);

#endif
