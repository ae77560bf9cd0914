/*
 * layer_groups.h
 *	  Layers that see everything and layers with windows: how blocks consist of pages.
 *
 * A page has as many layers as divide the number of either, so that pages are of one size and none
 * is in part empty: 10 full layers and 52 with windows make 5 and 26 pages of 2 layers.
 */
#ifndef VLLM_CORE_KV_LAYER_GROUPS_H
#define VLLM_CORE_KV_LAYER_GROUPS_H

#include "core/core.h"

typedef struct KvGroups
{
	int			layers;			/* of a page */
	int			full;			/* pages of a block, */
	int			window;			/* and of its windows; 0: there are none, and a block is a page */
	int			reach;			/* the largest window, in positions */
} KvGroups;

KvGroups	kvgroups_of(const ModelInfo *info, const CoreOptions *opt);
/* Blocks of a sequence whose windows are needed at once: those of a step's first row, and its rows. */
int			kvgroups_windows(int reach, int max_rows, int block_size);
/* Tokens that one sequence of a model may have in so many pages, at most INT32_MAX. */
int64_t		kvgroups_tokens(const KvGroups *g, const CoreOptions *opt, int64_t pages);
/* Which page has which layer, [n_kv_layers]; mem_free() it. */
KvPart	   *kvgroups_parts(const KvGroups *g, const ModelInfo *info);

#endif
