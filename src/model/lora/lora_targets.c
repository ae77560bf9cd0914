/*
 * lora_targets.c
 *	  Find where an adapter's weights belong: map modules of the files to the Linears made from them.
 *
 * Tested by golden/lora_golden.
 */
#include <string.h>

#include "base/alloc.h"
#include "model/decoder.h"

/* Return true if linear_as() of decoder.c computes l for each row of a step. */
static bool
adaptable(const Decoder *d, const Linear *l)
{
	uintptr_t	at = (uintptr_t) l;
	uintptr_t	first = (uintptr_t) d->layers;
	const Layer *layer = &d->layers[(at - first) / sizeof(Layer)];

	if (l == &d->embed || l == &d->head)
		return true;
	return at >= first && layer < d->layers + d->c.n_layers &&
		(l == &layer->qkv || l == &layer->o || l == &layer->up || l == &layer->down);
}

void
lora_add_site(Decoder *d, Linear *l, const char *module, int n_file, const int32_t *rows, int n)
{
	size_t		have = (size_t) d->n_sites;
	LoraSite   *s;

	if (!adaptable(d, l))
		return;
	if ((have & (have - 1)) == 0)
		d->sites = mem_realloc(d->sites, (have > 0 ? 2 * have : 1) * sizeof(LoraSite));
	s = &d->sites[d->n_sites++];
	*s = (LoraSite) {
		.module = mem_strdup(module), .l = l, .embedding = l == &d->embed, .from = l->n, .n = n,
			.n_file = n_file, .k = l->k
	};
	if (rows != NULL && !d->c.permuted)
	{
		s->perm = mem_alloc((size_t) n * sizeof(int32_t));
		memcpy(s->perm, rows, (size_t) n * sizeof(int32_t));
	}
	if (s->embedding)
	{
		/* an embedding has a row for each token, which is its input */
		s->n = s->n_file = l->k;
		s->k = n;
	}
	s->k_own = s->k;
}

void
lora_number_targets(Decoder *d)
{
	d->n_targets = 1;
	for (int i = 0; i < d->n_sites; i++)
	{
		LoraSite   *s = &d->sites[i];

		if (s->l->lora == 0)
			s->l->lora = d->n_targets++;
		s->target = s->l->lora;
	}
}
