/*
 * sample_device.h
 *	  Rows that a device samples (kernels.h, KSample): which rows it can sample, and its input.
 *
 * The device has the logits and writes a KSampled for each row.  Nothing as wide as a row is copied to
 * or from it, except masks.  A core keeps a DevSampler for this.
 */
#ifndef VLLM_CORE_SAMPLE_SAMPLE_DEVICE_H
#define VLLM_CORE_SAMPLE_SAMPLE_DEVICE_H

#include "core/core_internal.h"
#include "kernels.h"

/*
 * Return true if a device can sample r's rows.  That depends only on r's own parameters, and holds for
 * all its rows, whichever requests share a step with it.  return_processed: CoreOptions.return_processed.
 */
bool		smpdev_takes(const Req *r, bool return_processed);

typedef struct SmpDevRow
{
	const SampleRow *row;			/* without logits and processed */
	const OutParams *out;		/* log-probabilities that are wanted; NULL = none */
	int			at;				/* index of its row of logits */
} SmpDevRow;

/*
 * Write the sampling input of rows of different requests to a buffer aligned to 8 bytes; returns its
 * size.  buffer NULL: only return the size.  n_valid: ids that may be sampled.
 */
size_t		smpdev_stage(const SmpDevRow *rows, int n, int n_valid, void *buffer);

/* ---- sampler of a core ---- */

typedef struct DevSampler DevSampler;

typedef struct SmpDevSizes
{
	int			rows;			/* most rows of a run */
	int			width;
	int			n_valid;
	int			tokens;			/* most tokens of a request */
} SmpDevSizes;

/* *s = NULL if the ops of dev can't sample, or not rows of that width.  *o is copied. */
bool		smpdev_new(DevSampler **s, const Dev *dev, KPool *pool, const SmpDevSizes *o, Err *e);
void		smpdev_free(DevSampler *s);
/* Drop and restore memory, as for a HostDev.  They accept NULL. */
void		smpdev_drop(DevSampler *s);
bool		smpdev_back(DevSampler *s, Err *e);
/*
 * Add a row to the next run, with the at-th row of logits.  The result is valid after the run has been
 * waited for.
 */
const KSampled *smpdev_add(DevSampler *s, const SampleRow *row, const OutParams *out, int at);
/* Start the run for all added rows; logits: in the ops' memory. */
void		smpdev_run(DevSampler *s, float *logits);

#endif
