/*
 * step_graph.h
 *	  Private to src/model: decode steps that a device records once and then replays (CUDA graphs).
 *
 * Such a step has one row of each sequence, all of whose logits are wanted, and nothing else: no adapters,
 * rows in a token's place, hidden rows, nobody who stops it.  Its rows are padded to one of few sizes with
 * rows at position -1 (device.h), which change no other row's bits.  What ops are called with is then a
 * matter of the size, of the longest context in splits of 512 and of a few addresses, so these are the key.
 */
#ifndef VLLM_MODEL_STEP_GRAPH_H
#define VLLM_MODEL_STEP_GRAPH_H

#include "device.h"
#include "model/model.h"

typedef struct StepGraphs StepGraphs;

/* sizes: ascending; those above max_rows are left out.  NULL: none is left */
StepGraphs *stepgraphs_new(const int *sizes, int n, int max_rows);
void		stepgraphs_free(StepGraphs *g);
/* b, padded, and its key; NULL: b isn't such a step, or too large.  g may be NULL. */
const Batch *stepgraphs_pad(StepGraphs *g, const Batch *b, const KvView *kv, const float *out,
							KGraphKey *key);

#endif
