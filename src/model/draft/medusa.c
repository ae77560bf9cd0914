/*
 * medusa.c
 *	  Medusa (Cai et al. 2024, arXiv:2401.10774): heads on the target's last hidden row, each for one
 *	  position ahead.
 *
 * A head is a few residual blocks x + silu(W x + b) and a matrix for the vocabulary, which may cover
 * only the most frequent tokens ("token_map"), or be the target's own.  The names have two spellings:
 * vLLM's ("blocks.0.layers.0", "lm_heads.0") and the authors' ("0.0.linear", "0.1").
 *
 * Tested by tests/golden/draft_golden.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/draft/draft_internal.h"

#define MAX_BLOCKS 16

bool
medusa_conf(const Conf *c, DecoderConf *o, Err *e)
{
	static const char *const heads[] = {"num_heads", "medusa_num_heads", NULL};
	static const char *const blocks[] = {"num_hidden_layers", "medusa_num_layers", NULL};

	o->max_len = 1;
	if (!dec_conf_int(c, "hidden_size", 1, DEC_MAX_HIDDEN, o->hidden, &o->hidden, e))
		return false;
	o->draft.given = o->hidden;
	return dec_conf_int(c, "vocab_size", 1, DEC_MAX_VOCAB, o->vocab, &o->vocab, e) &&
		dec_conf_int(c, dec_conf_key(c, heads), 1, DRAFT_MOST, 5, &o->draft.heads, e) &&
		dec_conf_int(c, dec_conf_key(c, blocks), 0, MAX_BLOCKS, 1, &o->draft.blocks, e);
}

/* Names of a head's blocks and matrix. */
typedef struct MedusaNames
{
	const char *probe;			/* a tensor that exists only with this spelling */
	const char *block;			/* %d head, %d block */
	const char *out;			/* %d head */
} MedusaNames;

static const MedusaNames spellings[] = {
	{"medusa_heads.blocks.0.layers.0.weight", "medusa_heads.blocks.%d.layers.%d", "medusa_heads.lm_heads.%d"},
	{"0.0.linear.weight", "%d.%d.linear", NULL},
	{"medusa_head.0.0.linear.weight", "medusa_head.%d.%d.linear", NULL},
	{"", "blocks.%d.layers.%d", "lm_heads.%d"}
};

static bool
bind_outs(Binder *b, Decoder *d, const MedusaNames *n)
{
	const DraftConf *c = &d->c.draft;
	char		name[64];
	char		weight[80];
	bool		shared = conf_bool(bind_conf(b), "original_lm_head", false);
	int			outs = shared ? 1 : c->heads;

	snprintf(name, sizeof(name), n->out != NULL ? n->out : "%d.1", 0);
	snprintf(weight, sizeof(weight), "%s.weight", name);
	/* heads without their own matrix use the target's */
	if (n->out != NULL && shared && !bind_has(b, weight, ""))
		return true;
	d->draft.outs = draft_linears(outs);
	d->draft.n_outs = outs;
	for (int h = 0; h < outs; h++)
	{
		int64_t		rows;

		if (n->out != NULL)
			snprintf(name, sizeof(name), n->out, h);
		else
			snprintf(name, sizeof(name), "%.*s%d.%d", (int) (strchr(n->block, '%') - n->block), n->block, h,
					 c->blocks);
		rows = bind_n_rows(b, name, "");
		d->draft.outs[h].is_head = true;
		if (!draft_linear(b, &d->draft.outs[h], name, rows > 0 &&
						  rows <= DEC_MAX_VOCAB ? (int) rows : d->c.vocab, d->c.hidden))
			return false;
		if (d->draft.outs[h].n != d->draft.outs[0].n)
			return err_set(bind_err(b), ERR_BAD_FILE, "matrices of Medusa's heads have %d and %d rows",
						   d->draft.outs[0].n, d->draft.outs[h].n);
	}
	return true;
}

bool
medusa_bind(Binder *b, Decoder *d)
{
	const DraftConf *c = &d->c.draft;
	const MedusaNames *n = spellings;

	while (n->probe[0] != '\0' && !bind_has(b, n->probe, ""))
		n++;
	d->draft.blocks = draft_linears(c->heads * c->blocks);
	for (int h = 0; h < c->heads; h++)
		for (int i = 0; i < c->blocks; i++)
		{
			char		name[64];

			snprintf(name, sizeof(name), n->block, h, i);
			if (!draft_linear(b, &d->draft.blocks[h * c->blocks + i], name, d->c.hidden, d->c.hidden))
				return false;
		}
	return bind_outs(b, d, n) && bind_ignore(b, "token_map");
}

void
medusa_rows(Decoder *d, int h, const float *hidden, int n, float *x)
{
	const DraftConf *c = &d->c.draft;
	int			width = d->c.hidden;

	d->k->copy_rows(d->pool, x, width, hidden, width, NULL, n, width);
	for (int i = 0; i < c->blocks; i++)
	{
		dec_linear(d, &d->draft.blocks[h * c->blocks + i], x, width, n, d->y, width);
		d->k->act(d->pool, KACT_SILU, d->y, n, width);
		d->k->add(d->pool, x, d->y, n, width);
	}
}
