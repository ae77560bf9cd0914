/*
 * capture_sizes.h
 *	  Of how many sequences a device records decode steps (model/step_graph.h): vLLM's cudagraph_capture_sizes
 *	  and enforce_eager.
 */
#ifndef VLLM_RUNTIME_CAPTURE_SIZES_H
#define VLLM_RUNTIME_CAPTURE_SIZES_H

#include <stdbool.h>

#define GRAPH_SIZES	64			/* at most */
#define GRAPH_LARGEST 4096

/*
 * Ascending, none above `most`; how many.  asked: [n], in any order, or n 0: 1, 2, 4, then by 8 to 256 and by
 * 16 to 512.
 */
int			graph_sizes(const int *asked, int n, int most, int out[GRAPH_SIZES]);

#endif
