/*
 * layer_groups.h
 *	  Layers with full attention and layers with windows: how blocks consist of pages.
 *
 * The number of layers per page divides both numbers of layers, so that all pages have the same size and
 * none is partly empty: 10 full layers and 52 with windows need 5 and 26 pages of 2 layers.
 */
#ifndef VLLM_CORE_KV_LAYER_GROUPS_H
#define VLLM_CORE_KV_LAYER_GROUPS_H

#include "core/core.h"

typedef struct KvGroups
{
	int			layers;			/* layers per page */
	int			full;			/* pages of full layers in a block */
	int			window;			/* pages of windows in a block; 0 = no windows, and a block is a page */
	int			reach;			/* the largest window, in positions */
} KvGroups;

KvGroups	kvgroups_of(const ModelInfo *info, const CoreOptions *opt);
/* Return how many blocks of a sequence need their windows at once: those that the rows of a step see. */
int			kvgroups_windows(int reach, int max_rows, int block_size);
/* Return how many tokens one sequence can have in so many pages, at most INT32_MAX. */
int64_t		kvgroups_tokens(const KvGroups *g, const CoreOptions *opt, int64_t pages);
/* Return the page of each layer, [n_kv_layers]; free it with mem_free(). */
KvPart	   *kvgroups_parts(const KvGroups *g, const ModelInfo *info);

#endif
