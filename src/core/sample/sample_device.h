/*
 * sample_device.h
 *	  Rows that a device samples (kernels.h, KSample): which they may be, and what it is told.
 *
 * The device has the logits and writes a KSampled for each row; nothing of a row's width goes
 * up or down but masks.  A DevSampler is what a core keeps for that.
 */
#ifndef VLLM_CORE_SAMPLE_SAMPLE_DEVICE_H
#define VLLM_CORE_SAMPLE_SAMPLE_DEVICE_H

#include "core/core_internal.h"
#include "kernels.h"

/*
 * Can a device sample r's rows?  A matter of r's own parameters, for all of its rows: who shares a step with
 * it doesn't matter.  tell_processed: CoreOptions.tell_processed.
 */
bool		smpdev_takes(const Req *r, bool tell_processed);

typedef struct SmpDevRow
{
	const SampleRow *row;			/* but for logits and processed */
	const OutParams *out;		/* its log-probabilities; NULL = none */
	int			at;				/* which row of the logits it is */
} SmpDevRow;

/*
 * What rows of different requests are sampled by, into a buffer aligned to 8 bytes; returns its size, and
 * with NULL just that.
 * n_valid: ids that may be sampled.
 */
size_t		smpdev_stage(const SmpDevRow *rows, int n, int n_valid, void *buffer);

/* ---- a core's ---- */

typedef struct DevSampler DevSampler;

typedef struct SmpDevSizes
{
	int			rows;			/* of a run, at most */
	int			width;
	int			n_valid;
	int			tokens;			/* of a request, at most */
} SmpDevSizes;

/* *s NULL: what dev's ops are doesn't sample, or not so wide rows.  *o is copied. */
bool		smpdev_new(DevSampler **s, const Dev *dev, KPool *pool, const SmpDevSizes *o, Err *e);
void		smpdev_free(DevSampler *s);
/* As a HostDev's.  NULL will do. */
void		smpdev_drop(DevSampler *s);
bool		smpdev_back(DevSampler *s, Err *e);
/*
 * One more row for the next run, the at-th of its logits.  What is returned is there when the run has been
 * waited for.
 */
const KSampled *smpdev_add(DevSampler *s, const SampleRow *row, const OutParams *out, int at);
/* Ask for all their tokens; logits: where ops are. */
void		smpdev_run(DevSampler *s, float *logits);

#endif
