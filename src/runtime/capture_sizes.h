/*
 * capture_sizes.h
 *	  The batch sizes (in sequences) for which a device records decode steps (model/step_graph.h): vLLM's
 *	  cudagraph_capture_sizes and enforce_eager.
 */
#ifndef VLLM_RUNTIME_CAPTURE_SIZES_H
#define VLLM_RUNTIME_CAPTURE_SIZES_H

#include <stdbool.h>

#define GRAPH_SIZES	64			/* most sizes */
#define GRAPH_LARGEST 4096

/*
 * Fill out with the sizes, ascending, none above `most`, and return their number.  asked: [n] sizes in
 * any order; n = 0 uses the default: 1, 2, 4, then steps of 8 up to 256 and of 16 up to 512.
 */
int			graph_sizes(const int *requested, int n, int most, int out[GRAPH_SIZES]);

#endif
