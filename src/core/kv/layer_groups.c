/*
 * layer_groups.c
 *	  How blocks consist of pages (layer_groups.h).
 *
 * Tested by tests/unit/core/kv/test_windows.c.
 */
#include "core/kv/layer_groups.h"

#include "base/alloc.h"

KvGroups
kvgroups_of(const ModelInfo *info, const CoreOptions *opt)
{
	int			a = info->n_kv_layers - info->n_kv_windows;
	int			b = info->n_kv_windows;

	if (opt->no_windows || info->both_ways || b == 0)
		return (KvGroups) {.layers = info->n_kv_layers, .full = 1};
	while (b != 0)
	{
		int			rest = a % b;

		a = b;
		b = rest;
	}
	return (KvGroups) {
		.layers = a, .full = (info->n_kv_layers - info->n_kv_windows) / a, .window = info->n_kv_windows / a,
		.reach = info->kv_window
	};
}

int
kvgroups_windows(int reach, int max_rows, int block_size)
{
	return (reach + max_rows) / block_size + 2;
}

int64_t
kvgroups_tokens(const KvGroups *g, const CoreOptions *opt, int64_t pages)
{
	int64_t		blocks = pages / (g->full + g->window);
	int64_t		windows = kvgroups_windows(g->reach, opt->max_num_batched_tokens, opt->block_size);

	if (g->window > 0 && blocks >= windows)
		blocks = g->full > 0 ? (pages - windows * g->window) / g->full : INT32_MAX;
	return blocks < INT32_MAX / opt->block_size ? blocks * opt->block_size : INT32_MAX;
}

KvPart *
kvgroups_parts(const KvGroups *g, const ModelInfo *info)
{
	KvPart	   *parts = mem_zalloc(((size_t) info->n_kv_layers + 1) * sizeof(KvPart));
	int			n[2] = {0, g->full * g->layers};	/* next page slot of full layers, and of windows, whose
													 * pages come after the others */

	for (int i = 0; i < info->n_kv_layers; i++)
	{
		int			at = n[info->kv_windows[i] > 0]++;

		parts[i] = (KvPart) {(uint16_t) (at / g->layers), (uint16_t) (at % g->layers)};
	}
	return parts;
}
