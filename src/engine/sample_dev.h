/*
 * sample_dev.h
 *	  Rows that a device samples (kernels.h, KSample): which they may be, and what it is told.
 *
 * The device has the logits and writes a KSampled for each row; nothing of a row's width goes
 * up or down but masks.
 */
#ifndef VLLM_ENGINE_SAMPLE_DEV_H
#define VLLM_ENGINE_SAMPLE_DEV_H

#include "engine/core_int.h"
#include "kernels.h"

/*
 * Can a device sample r's rows?  A matter of r's own parameters, for all of its rows: who shares a step with
 * it doesn't matter.  tell_processed: CoreOptions.tell_processed.
 */
bool		smpdev_takes(const Req *r, bool tell_processed);

typedef struct SmpDevRow
{
	const SmpRow *row;			/* but for logits and processed */
	const OutParams *out;		/* its log-probabilities; NULL = none */
	int			at;				/* which row of the logits it is */
} SmpDevRow;

/*
 * What rows of different requests are sampled by, into a buffer aligned to 8 bytes; returns its size, and with
 * NULL just that.
 * n_valid: ids that may be sampled.
 */
size_t		smpdev_stage(const SmpDevRow *rows, int n, int n_valid, void *buffer);

#endif
