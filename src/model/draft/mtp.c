/*
 * mtp.c
 *	  Multi-token prediction (DeepSeek-V3, 2024, arXiv:2412.19437): a layer after the model's last one,
 *	  in the model's files, that drafts the token after the next.
 *
 * The layer is like the model's others, so the architecture's own functions bind and compute it
 * (BindExtra).  Its input is one matrix times the norms of the token's row and of the hidden row, side
 * by side.  Embedding and head are the model's; checkpoints may have a copy of them beside the layer.
 * If there are several such layers, the first one is used repeatedly: its output after its last norm is
 * its next input, as it was trained on the model's rows after the last norm.  MiMo's layer reads rows
 * before that norm, and can't continue from its own output.
 *
 * Tested by tests/golden/draft_golden.c.
 */
#include <stdio.h>
#include <string.h>

#include "model/draft/draft_internal.h"

/* Where the layer and its parts are, recognized by the tensors in the file. */
typedef struct MtpNames
{
	const char *layer;			/* "%d" = the number of the model's layers */
	const char *token_norm;
	const char *given_norm;
	const char *fuse;
	const char *norm;
	bool		given_first;
	bool		given_raw;		/* it reads rows before the model's last norm */
	int			most;			/* most draft tokens; 0 = any number */
} MtpNames;

static const MtpNames families[] = {
	{"model.layers.%d.", "enorm", "hnorm", "eh_proj", "shared_head.norm", false, false, 0},
	{"model.mtp_layers.0.", "token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm", true,
	 true, 1}
};

#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

bool
mtp_conf(const Conf *c, DecoderConf *o, Err *e)
{
	const Arch *a = model_arch(c, &o->head, e);

	if (a == NULL || !a->conf(c, o, e))
		return false;
	if (o->both_ways || o->hybrid || o->ssm.inner > 0 || o->n_layers < 1)
		return err_set(e, ERR_UNSUPPORTED, "architecture \"%s\" has no layer that drafts tokens", a->name);
	o->draft.given = o->hidden;
	o->draft.mask_first = true;
	/* it has the settings of the model's last layer */
	o->draft.after = o->n_layers;
	o->layers[0] = o->layers[o->n_layers - 1];
	o->n_layers = 1;
	return true;
}

/* Return the family of a model's files; x: prefixes of its layer's names. */
static const MtpNames *
find_family(Binder *b, int after, BindExtra *x)
{
	char		name[128];

	snprintf(x->gguf, sizeof(x->gguf), "blk.%d.", after);
	snprintf(name, sizeof(name), "%snextn.eh_proj.weight", x->gguf);
	if (bind_is_gguf(b))
		return bind_has(b, "", name) ? &families[0] : NULL;
	for (size_t i = 0; i < N_FAMILIES; i++)
	{
		snprintf(x->hf, sizeof(x->hf), families[i].layer, after);
		snprintf(name, sizeof(name), "%s%s.weight", x->hf, families[i].fuse);
		if (bind_has(b, name, ""))
			return &families[i];
	}
	return NULL;
}

/* Bind a norm beside the layer itself. */
static bool
bind_part_norm(Binder *b, Norm *to, const BindExtra *x, const char *hf, const char *gguf)
{
	char		name[128];
	char		other[64];

	snprintf(name, sizeof(name), "%s%s", x->hf, hf);
	snprintf(other, sizeof(other), "%snextn.%s", x->gguf, gguf);
	return bind_norm(b, to, name, other, bind_decoder_conf(b)->hidden);
}

static bool
bind_fuse(Binder *b, Decoder *d, const BindExtra *x, const char *hf)
{
	char		name[128];
	char		other[64];

	snprintf(name, sizeof(name), "%s%s", x->hf, hf);
	snprintf(other, sizeof(other), "%snextn.eh_proj", x->gguf);
	d->draft.fuse.k = 2 * d->c.hidden;
	return bind_linear(b, &d->draft.fuse, name, other, d->c.hidden, false);
}

bool
mtp_bind(Binder *b, Decoder *d)
{
	HeadKind	head;
	const Arch *a = model_arch(bind_conf(b), &head, bind_err(b));
	BindExtra	x = {.gguf_norm = "nextn.shared_head_norm"};
	const MtpNames *f = find_family(b, d->c.draft.after, &x);
	bool		ok;

	if (f == NULL)
		return err_set(bind_err(b), ERR_INVALID, "the model's files have no layer that drafts tokens (MTP)");
	x.norm = f->norm;
	d->c.draft.given_first = f->given_first;
	d->c.draft.given_raw = f->given_raw;
	d->c.draft.most = f->most;
	d->draft.inner = a;
	d->draft.pair_width = 2 * d->c.hidden;
	bind_extra(b, &x);
	ok = a->bind(b, d) && bind_part_norm(b, &d->draft.token_norm, &x, f->token_norm, "enorm") &&
		bind_part_norm(b, &d->draft.given_norm, &x, f->given_norm, "hnorm") && bind_fuse(b, d, &x, f->fuse);
	bind_extra(b, NULL);
	bind_ignore_rest(b);
	return ok;
}

void
mtp_forward(Decoder *d, float *logits)
{
	d->draft.inner->forward(d, logits);
}
