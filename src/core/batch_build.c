/*
 * batch_build.c
 *	  A plan as the flat arrays that the model reads.
 *
 * The arrays are allocated once, for the largest step; block tables are
 * pointed to, not copied.  O(rows).  Owner: the step thread; a Batch is valid
 * until the next batch_build() or a change of a request in it.  Tested through
 * tests/unit/core/test_core.c and test_invariance.c.
 */
#include "core/spec/spec.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

struct BatchBuf
{
	Batch		batch;
	int			max_rows;
	int			max_seqs;
	int32_t    *tokens;			/* [max_rows] */
	const float **embeds;		/* [max_rows] */
	int			embed_width;
	int32_t    *pos;			/* [max_rows] */
	int32_t    *seq_start;		/* [max_seqs + 1] */
	int32_t    *types;			/* [max_rows] */
	int32_t    *seen;			/* [max_seqs] */
	int32_t    *out_rows;		/* [max_rows] */
	const int32_t **tables;		/* [max_seqs] */
	int32_t    *slots;			/* [max_seqs], NULL = no state */
	const LoraAdapter **loras;	/* [max_seqs] */
};

BatchBuf *
batch_new(int max_rows, int max_seqs, int embed_width, float *state)
{
	BatchBuf   *b = mem_zalloc(sizeof(*b));

	b->max_rows = max_rows;
	b->max_seqs = max_seqs;
	b->tokens = mem_alloc((size_t) max_rows * sizeof(int32_t));
	b->embeds = mem_alloc((size_t) max_rows * sizeof(float *));
	b->embed_width = embed_width;
	b->pos = mem_alloc((size_t) max_rows * sizeof(int32_t));
	b->seq_start = mem_alloc(((size_t) max_seqs + 1) * sizeof(int32_t));
	b->types = mem_alloc((size_t) max_rows * sizeof(int32_t));
	b->seen = mem_alloc((size_t) max_seqs * sizeof(int32_t));
	b->out_rows = mem_alloc((size_t) max_rows * sizeof(int32_t));
	b->tables = mem_alloc((size_t) max_seqs * sizeof(int32_t *));
	b->loras = mem_alloc((size_t) max_seqs * sizeof(LoraAdapter *));
	if (state != NULL)
		b->slots = mem_alloc((size_t) max_seqs * sizeof(int32_t));
	b->batch.state = state;
	b->batch.rows.state_slot = b->slots;
	b->batch.tokens = b->tokens;
	b->batch.out_rows = b->out_rows;
	b->batch.rows.pos = b->pos;
	b->batch.rows.seq_start = b->seq_start;
	b->batch.rows.block_table = b->tables;
	return b;
}

void
batch_free(BatchBuf *b)
{
	if (b == NULL)
		return;
	mem_free(b->tokens);
	mem_free(b->embeds);
	mem_free(b->pos);
	mem_free(b->seq_start);
	mem_free(b->types);
	mem_free(b->seen);
	mem_free(b->out_rows);
	mem_free(b->tables);
	mem_free(b->slots);
	mem_free(b->loras);
	mem_free(b);
}

/* Token types of a pooled sequence's rows; true if some aren't 0. */
static bool
set_types(BatchBuf *b, int row, const PlanEntry *pe)
{
	int			at = pe->r->seq.type1_at;

	for (int i = 0; i < pe->n; i++)
		b->types[row + i] = pe->r->kv.computed + i >= at;
	return pe->r->kv.computed + pe->n > at;
}

/* What stands for the tokens of n rows from `row` on, if r's prompt is embeddings; true: of some it does. */
static bool
set_embeds(BatchBuf *b, int row, const Req *r, int n)
{
	for (int i = 0; i < n; i++)
	{
		size_t		pos = (size_t) (r->kv.computed + i);

		b->embeds[row + i] = r->in.embeds != NULL && pos < (size_t) r->in.n_prompt ? r->in.embeds +
			pos * (size_t) b->embed_width : NULL;
	}
	return r->in.embeds != NULL && r->kv.computed < r->in.n_prompt;
}

const Batch *
batch_build(BatchBuf *b, const Plan *plan)
{
	int			row = 0;
	int			n_out = 0;
	bool		typed = false;
	bool		hides = false;
	bool		embeds = false;
	bool		adapted = false;

	/* what is written below has that much room */
	ALWAYS(plan->n <= b->max_seqs && plan->n_rows <= b->max_rows);
	for (int s = 0; s < plan->n; s++)
	{
		const PlanEntry *pe = &plan->e[s];

		ALWAYS(row + pe->n <= plan->n_rows && n_out + pe->n_out + plan_logits(pe) <= b->max_rows);
		b->seq_start[s] = row;
		b->seen[s] = pe->r->seq.seen_to > 0 ? pe->r->seq.seen_to : INT32_MAX;
		hides = hides || b->seen[s] != INT32_MAX;
		b->tables[s] = pe->r->kv.blocks.data;
		b->loras[s] = pe->r->in.lora;
		adapted = adapted || pe->r->in.lora != NULL;
		if (b->slots != NULL)
			b->slots[s] = pe->r->kv.slot;
		memcpy(b->tokens + row, pe->r->tokens.data + pe->r->kv.computed,
			   (size_t) (pe->n - pe->n_drafts) * sizeof(int32_t));
		if (pe->n_drafts > 0)
			memcpy(b->tokens + row + pe->n - pe->n_drafts, pe->r->spec->drafts.data,
				   (size_t) pe->n_drafts * sizeof(int32_t));
		embeds = set_embeds(b, row, pe->r, pe->n) || embeds;
		for (int i = 0; i < pe->n; i++)
			b->pos[row + i] = pe->r->kv.computed + i;
		for (int i = 0; i < pe->n_out; i++)
			b->out_rows[n_out++] = row + pe->out_at + i;
		if (pe->r->pooled != NULL)
			typed = set_types(b, row, pe) || typed;
		else
			memset(b->types + row, 0, (size_t) pe->n * sizeof(int32_t));
		row += pe->n;
		for (int i = plan_logits(pe); i > 0; i--)
			b->out_rows[n_out++] = row - i;
	}
	b->seq_start[plan->n] = row;
	b->batch.rows.n_rows = row;
	b->batch.rows.n_seqs = plan->n;
	b->batch.n_out = n_out;
	b->batch.hidden = plan->pools;
	b->batch.lora = adapted ? b->loras : NULL;
	b->batch.embeds = embeds ? b->embeds : NULL;
	b->batch.types = typed ? b->types : NULL;
	b->batch.seen = hides ? b->seen : NULL;
	return &b->batch;
}
