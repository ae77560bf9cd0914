/*
 * logits_processors.h
 *	  Logits processors from shared libraries (vllm_logits_processor.h).
 */
#ifndef VLLM_CORE_SAMPLE_LOGITS_PROCESSORS_H
#define VLLM_CORE_SAMPLE_LOGITS_PROCESSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PLUGINS_MAX	32			/* number of bits of a mask */

/* The loaded processors; constant after loading, and never unloaded. */
typedef struct Plugins Plugins;

/*
 * Load the processors of a list; *out = NULL if the list is empty.  A library name without a slash is
 * looked up beside the engine.
 */
bool		plugins_load(const char *list, Plugins **out, Err *e);
void		plugins_free(Plugins *p);	/* for tests: the engine never frees its own */
int			plugins_count(const Plugins *p);	/* accepts NULL */
/* The engine's own processors: set once, before other threads exist. */
void		plugins_set_loaded(const Plugins *p);
const Plugins *plugins_loaded(void);
/* Get the processors that take part in a request with these extra_args (NULL = none); any thread. */
bool		plugins_check(const Plugins *p, const char *extra_args, uint32_t *mask, Err *e);

/* The place of a request in the batch; initially zeroed. */
typedef struct PluginSeat
{
	int			slot;
	uint64_t	key;			/* identifies this stay in the slot; 0 = never had a slot */
	const char *failed;			/* name of the processor that failed, NULL = none */
} PluginSeat;

/* One model's instances of all processors; used by the step thread. */
typedef struct PluginHost PluginHost;

PluginHost *plugin_host_new(const Plugins *p, int vocab_size, int32_t eos, Err *e);
void		plugin_host_free(PluginHost *h);

struct SampleRow;

/* Return the processors that run after the temperature. */
uint32_t	plugin_host_late(const PluginHost *h);

/*
 * Report changes of the batch to the processors.  rows[0..n) are those of this step, of which some have
 * plugins; again: further rows of some of the step's requests, and requests without a row keep their
 * slots.
 */
void		plugin_host_update(PluginHost *h, struct SampleRow *rows, int n, bool again);

/*
 * Let the processors in `which` change the rows that they take part in, unless the row's id is negative.
 * If one fails, the row's id becomes SMP_PLUGIN.
 */
void		plugin_host_apply(PluginHost *h, uint32_t which, struct SampleRow *rows, int n);

#endif
