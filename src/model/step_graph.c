/*
 * step_graph.c
 *	  Decide which steps are recorded, and pad them (step_graph.h).
 *
 * Tested by tests/unit/model/test_stepgraph.c, and on the emulated GPU by tests/emu/test_models.c.
 */
#include "model/step_graph.h"

#include <string.h>

#include "base/alloc.h"

#define SPLIT_KEYS	512			/* unit of KGraphKey.splits */

struct StepGraphs
{
	int		   *sizes;
	int			n;
	/* of the last step: recorded calls contain these addresses */
	const float *out;
	const uint8_t *kv;
	const int32_t *pages;
	const float *state;
	uint32_t	places;			/* number of this set of addresses */
	int32_t    *ints;			/* arrays for the largest size */
	const int32_t **tables;
	Batch		batch;
};

/* shared by all models, as a device may have several */
static uint32_t last_places;

StepGraphs *
stepgraphs_new(const int *sizes, int n, int max_rows)
{
	StepGraphs *g;
	size_t		most;

	while (n > 0 && sizes[n - 1] > max_rows)
		n--;
	if (n == 0)
		return NULL;
	g = mem_zalloc(sizeof(*g));
	most = (size_t) sizes[n - 1];
	g->sizes = mem_alloc((size_t) n * sizeof(int));
	memcpy(g->sizes, sizes, (size_t) n * sizeof(int));
	g->n = n;
	g->ints = mem_alloc((5 * most + 1) * sizeof(int32_t));
	g->tables = mem_alloc(most * sizeof(*g->tables));
	return g;
}

void
stepgraphs_free(StepGraphs *g)
{
	if (g == NULL)
		return;
	mem_free(g->sizes);
	mem_free(g->ints);
	mem_free((void *) g->tables);
	mem_free(g);
}

static bool
plain(const Batch *b)
{
	if (b->rows.n_seqs != b->rows.n_rows || b->n_out != b->rows.n_rows)
		return false;
	return b->embeds == NULL && b->given == NULL && !b->fed_back && b->types == NULL && b->seen == NULL &&
		b->lora == NULL && !b->hidden && b->taps == NULL && b->stop == NULL;
}

/* Return the number of the step's addresses; other addresses than in the last step get a new number. */
static uint32_t
places(StepGraphs *g, const Batch *b, const KvView *kv, const float *out)
{
	if (g->places != 0 && g->out == out && g->kv == kv->base && g->pages == kv->pages && g->state == b->state)
		return g->places;
	g->out = out;
	g->kv = kv->base;
	g->pages = kv->pages;
	g->state = b->state;
	g->places = __atomic_add_fetch(&last_places, 1, __ATOMIC_RELAXED);
	return g->places;
}

const Batch *
stepgraphs_pad(StepGraphs *g, const Batch *b, const KvView *kv, const float *out, KGraphKey *key)
{
	int			n = b->rows.n_rows;
	int			at = 0;
	int			size;
	int			keys = 1;
	int32_t    *pos,
			   *tokens,
			   *rows,
			   *slots,
			   *start;

	if (g == NULL || n > g->sizes[g->n - 1] || !plain(b))
		return NULL;
	while (g->sizes[at] < n)
		at++;
	size = g->sizes[at];
	pos = g->ints;
	tokens = pos + size;
	rows = tokens + size;
	slots = rows + size;
	start = slots + size;
	for (int i = 0; i < size; i++)
	{
		pos[i] = i < n ? b->rows.pos[i] : -1;
		tokens[i] = i < n ? b->tokens[i] : -1;
		start[i] = rows[i] = i;
		g->tables[i] = b->rows.block_table != NULL ? b->rows.block_table[i < n ? i : 0] : NULL;
		slots[i] = b->rows.state_slot != NULL ? b->rows.state_slot[i < n ? i : 0] : 0;
		keys = pos[i] + 1 > keys ? pos[i] + 1 : keys;
	}
	start[size] = size;
	g->batch = *b;
	g->batch.rows = (KRows) {.n_rows = size, .n_seqs = size, .seq_start = start, .pos = pos,
		.block_table = b->rows.block_table != NULL ? g->tables : NULL,
		.state_slot = b->rows.state_slot != NULL ? slots : NULL};
	g->batch.tokens = tokens;
	g->batch.n_out = size;
	g->batch.out_rows = rows;
	*key = (KGraphKey) {.rows = size, .seqs = size, .splits = 1, .flags = places(g, b, kv, out)};
	while (key->splits * SPLIT_KEYS < keys)
		key->splits *= 2;
	return &g->batch;
}
