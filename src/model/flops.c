/*
 * flops.c
 *	  Compute ModelWork, the work of a step's row, from the matrices that were bound.
 *
 * Tested by tests/t/098_accounting.pl, which works it out from a model's config.json.
 */
#include "model/layers/bind.h"
#include "model/decoder.h"

static uint64_t
linear_bytes(const Linear *l)
{
	uint64_t	n = 0;

	for (int p = 0; p < l->n_parts; p++)
		n += ktype_row_bytes(l->as[p], l->k) * (uint64_t) l->w[p]->shape[0];
	return n;
}

static uint64_t
linear_params(const Linear *l)
{
	return (uint64_t) l->n * (uint64_t) l->k;
}

/* Return true if l belongs to a stack. */
static bool
is_expert(const Decoder *d, const Linear *l)
{
	for (size_t i = 0; i < d->n_stacks; i++)
		if (l >= d->stacks[i]->of && l < d->stacks[i]->of + d->stacks[i]->n)
			return true;
	return false;
}

void
dec_work(const Decoder *d, ModelWork *w)
{
	const Linear *head = d->c.tied ? &d->embed : &d->head;

	*w = (ModelWork) {0};
	for (size_t i = 0; i < d->bound->n_linears; i++)
	{
		const Linear *l = d->bound->linears[i];

		if (l == head)
		{
			w->head_params = linear_params(l);
			w->head_bytes = linear_bytes(l);
		}
		else if (l != &d->embed && l != &d->pos && !is_expert(d, l))
		{
			w->params += linear_params(l);
			w->bytes += linear_bytes(l);
		}
	}
	for (size_t i = 0; i < d->n_stacks; i++)
	{
		const Stack *s = d->stacks[i];

		if (s->n == 0)
			continue;
		w->expert_params += linear_params(&s->of[0]) * (uint64_t) s->per_row;
		w->expert_bytes += linear_bytes(&s->of[0]) * (uint64_t) s->per_row;
		w->experts_bytes += linear_bytes(&s->of[0]) * (uint64_t) s->n;
	}
}
