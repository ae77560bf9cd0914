/*
 * granitemoe.c
 *	  Granite 3 with experts (IBM 2024), perhaps with a shared expert that computes all rows, and
 *	  Granite 4 (IBM 2025): some layers have Mamba-2 instead of attention, positions are optional, and
 *	  there may be no experts.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include <string.h>

#include "model/layers/bind.h"

bool
granitemoe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");

	out->moe.routing = KROUTE_TOPK_SOFTMAX;
	if (!dec_conf(c, out, e) || !granite_multipliers(c, out, e) || !dec_conf_moe(c, out, e) ||
		!dec_conf_int(c, gguf ? "shared_expert_intermediate_size" : "shared_intermediate_size", 0,
					  DEC_MAX_INTER, 0, &out->moe.shared_inter, e))
		return false;
	out->interleaved = out->permuted = gguf;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	return true;
}

/*
 * Read the kinds of layers from config.json's "layer_types", which also has old names; GGUF indicates
 * them by the number of heads (decoder_config.c).
 */
static bool
layer_types(const Conf *c, DecoderConf *out, Err *e)
{
	size_t		n;
	const char *const *types = conf_strs(c, "layer_types", &n);
	char		buf[65];

	if (types != NULL && n != (size_t) out->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"layer_types\", expected %d", n,
					   out->n_layers);
	for (int i = 0; i < out->n_layers; i++)
	{
		const char *type = types != NULL ? types[i] : "linear_attention";

		out->layers[i].recurrent = strcmp(type, "linear_attention") == 0 || strcmp(type, "mamba") == 0;
		if (!out->layers[i].recurrent && strcmp(type, "full_attention") != 0 &&
			strcmp(type, "attention") != 0)
			return err_set(e, ERR_UNSUPPORTED, "layer type \"%s\" is not supported",
						   dec_printable(type, buf, sizeof(buf)));
	}
	return true;
}

/* Read the settings of the experts, or of the MLP: without experts the shared one is the MLP. */
static bool
feed_forward(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");
	int			shared;

	if (!dec_conf_int(c, gguf ? "shared_expert_intermediate_size" : "shared_intermediate_size", gguf ? 0 : 1,
					  DEC_MAX_INTER, gguf ? 0 : 1024, &shared, e))
		return false;
	if (conf_int(c, "num_local_experts", gguf ? 0 : 8) == 0)
	{
		out->inter = shared > 0 ? shared : out->inter;
		return true;
	}
	out->moe.routing = KROUTE_TOPK_SOFTMAX;
	out->moe.n_experts = 8;
	out->moe.top_k = 2;
	out->moe.shared_inter = shared;
	return dec_conf_moe(c, out, e);
}

bool
granitemoehybrid_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");
	bool		any = false;
	float		plain;

	out->hybrid = out->ssm.norm = true;
	out->ssm.state = 256;
	out->ssm.heads = 128;
	out->ssm.groups = 1;
	out->no_rope = gguf ? !conf_bool(c, "gguf.rope_finetuned", true) :
		strcmp(conf_str(c, "position_embedding_type", ""), "rope") != 0;
	if (!dec_conf(c, out, e))
		return false;
	plain = out->attn_scale;
	if (!granite_multipliers(c, out, e) || !feed_forward(c, out, e) || (!gguf && !layer_types(c, out, e)))
		return false;
	if (gguf && !conf_has(c, "attention_multiplier"))
		out->attn_scale = plain;
	for (int i = 0; i < out->n_layers; i++)
		any = any || out->layers[i].recurrent;
	out->interleaved = out->permuted = gguf;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	/* Bamba has the same name in GGUF, but the other half of its heads is rotated */
	if (gguf && !out->no_rope && out->rope[0].dim != out->head_dim)
		return err_set(e, ERR_UNSUPPORTED,
					   "\"rope.dimension_count\" = %d is not supported in this architecture",
					   out->rope[0].dim);
	return !any || dec_conf_ssm(c, out, e);
}

static const MoeNames names = {
	.router = "block_sparse_moe.router.layer", .gate_up = "block_sparse_moe.input_linear",
	.down = "block_sparse_moe.output_linear", .shared_gate_up = "shared_mlp.input_linear",
	.shared_down = "shared_mlp.output_linear",
};

static bool
granitemoe_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		bind_moe(b, l, &names);
}

bool
granitemoe_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", granitemoe_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

static bool
dense(Binder *b, Decoder *d, Layer *l)
{
	if (bind_is_gguf(b))
		return bind_glu(b, l);
	l->up.k = d->c.hidden;
	l->down.k = d->c.inter;
	return bind_linear(b, &l->up, names.shared_gate_up, "", 2 * d->c.inter, false) &&
		bind_linear(b, &l->down, names.shared_down, "", d->c.hidden, false);
}

static bool
granitemoehybrid_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) &&
		(l->c->recurrent ? bind_ssm(b, d, l, "mamba.") : bind_attn(b, l)) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		(l->c->moe ? bind_moe(b, l, &names) : dense(b, d, l));
}

bool
granitemoehybrid_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", granitemoehybrid_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
