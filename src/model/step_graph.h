/*
 * step_graph.h
 *	  Private to src/model: decode steps that a device records once and then replays (CUDA graphs).
 *
 * Such a step has exactly one row of each sequence, and all their logits are wanted.  It has no
 * adapters, no rows that replace a token's, no hidden rows and no stop callback.  Its rows are padded to
 * one of a few sizes with rows at position -1 (device.h), which don't change any other row's bits.  The
 * arguments of its ops then depend only on the size, on the longest context in splits of 512 and on a
 * few addresses, so these form the key.
 */
#ifndef VLLM_MODEL_STEP_GRAPH_H
#define VLLM_MODEL_STEP_GRAPH_H

#include "device.h"
#include "model/model.h"

typedef struct StepGraphs StepGraphs;

/* sizes: ascending; those above max_rows are dropped.  Return NULL if none is left. */
StepGraphs *stepgraphs_new(const int *sizes, int n, int max_rows);
void		stepgraphs_free(StepGraphs *g);
/* Return b, padded, and its key.  Return NULL if b isn't such a step, or too large.  g may be NULL. */
const Batch *stepgraphs_pad(StepGraphs *g, const Batch *b, const KvView *kv, const float *out,
							KGraphKey *key);

#endif
