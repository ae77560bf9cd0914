/*
 * llama4.c
 *	  The text part of Llama 4 (Meta 2025): three of four layers have positions, and attention within
 *	  chunks of the context; these layers norm the heads of q and k after the rotation.  In the other
 *	  layers q is scaled by position.  The weights of the experts multiply their inputs.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include <string.h>

#include "model/layers/bind.h"

/* Set the layers with rotation and chunks: by lists, or three of four. */
static bool
positions(const Conf *c, DecoderConf *out, Err *e)
{
	size_t		n_rotated;
	size_t		n_types;
	const double *rotated = conf_nums(c, "no_rope_layers", &n_rotated);
	const char *const *types = conf_strs(c, "layer_types", &n_types);
	bool		gguf = conf_has(c, "gguf.architecture");
	bool		tuning = conf_bool(c, "attn_temperature_tuning", true);
	int			every;
	int			chunk;
	char		buf[65];

	if (!dec_conf_int(c, "no_rope_layer_interval", 1, DEC_MAX_LAYERS, 4, &every, e) ||
		!dec_conf_int(c, gguf ? "sliding_window" : "attention_chunk_size", gguf ? 0 : 1, DEC_MAX_LEN, 8192,
					  &chunk, e))
		return false;
	if (conf_is_null(c, "attention_chunk_size"))
		chunk = 0;
	if (rotated != NULL && n_rotated < (size_t) out->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"no_rope_layers\", expected %d",
					   n_rotated, out->n_layers);
	if (types != NULL && n_types != (size_t) out->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"layer_types\", expected %d", n_types,
					   out->n_layers);
	for (int i = 0; i < out->n_layers; i++)
	{
		LayerConf  *l = &out->layers[i];
		bool		rope = rotated != NULL ? rotated[i] != 0 : (i + 1) % every != 0;
		bool		local = types != NULL ? strcmp(types[i], "chunked_attention") == 0 : rope;

		if (types != NULL && !local && strcmp(types[i], "full_attention") != 0)
			return err_set(e, ERR_UNSUPPORTED, "layer type \"%s\" is not supported",
						   dec_printable(types[i], buf, sizeof(buf)));
		l->rope = rope ? 0 : -1;
		l->tempered = !rope && tuning;
		l->chunk = local && chunk < out->max_len ? chunk : 0;
	}
	return true;
}

/* Set the layers with experts: those listed, or every n-th. */
static bool
experts(const Conf *c, DecoderConf *out, Err *e)
{
	static const char step[] = "interleave_moe_layer_step";
	size_t		n;
	const double *listed = conf_nums(c, "moe_layers", &n);
	bool		gguf = conf_has(c, "gguf.architecture");
	int			every;

	out->moe.routing = KROUTE_TOPK_SIGMOID;
	out->moe.on_input = true;
	out->moe.n_experts = gguf ? 0 : 16;
	out->moe.top_k = 1;
	out->moe.inter = gguf ? 0 : out->inter;
	if (!dec_conf_moe(c, out, e) ||
		(!gguf && !dec_conf_int(c, "intermediate_size_mlp", 1, DEC_MAX_INTER, 16384, &out->inter, e)) ||
		!dec_conf_int(c, gguf ? "moe_layer_interval" : step, 1, DEC_MAX_LAYERS, 1, &every, e))
		return false;
	out->moe.shared_inter = out->moe.inter;
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].moe = listed == NULL && (i + 1) % every == 0;
	for (size_t i = 0; i < n; i++)
		if (listed[i] >= 0 && listed[i] < out->n_layers)
			out->layers[(int) listed[i]].moe = true;
	return true;
}

bool
llama4_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");

	out->eps = 1e-5f;
	out->max_len = 4096 * 32;
	out->n_kv_heads = gguf ? 0 : 8;
	out->head_dim = gguf ? 0 : 128;
	out->rope[0].keys.theta = 500000;
	if (!dec_conf(c, out, e) || !positions(c, out, e) || !experts(c, out, e) ||
		!dec_conf_num(c, "attn_scale", -1, 1e6, 0.1, &out->temper.scale, e) ||
		!dec_conf_int(c, "floor_scale", 1, DEC_MAX_LEN, 8192, &out->temper.every, e))
		return false;
	out->temper.first = 1;
	out->interleaved = true;
	out->qkv_bias = conf_bool(c, "attention_bias", false);
	out->o_bias = gguf ? conf_bool(c, "attention_out_bias", false) : out->qkv_bias;
	/* GGUF has no key: Maverick, which has 128 experts, has no such norms */
	out->qk_plain_norm = gguf ? out->moe.n_experts != 128 : conf_bool(c, "use_qk_norm", true);
	return true;
}

static bool
llama4_layer(Binder *b, Decoder *d, Layer *l)
{
	MoeNames	names = moe_names;

	names.router = "feed_forward.router";
	names.gate_up = "feed_forward.experts.gate_up_proj";
	names.down = "feed_forward.experts.down_proj";
	names.transposed = true;
	names.shared = "feed_forward.shared_expert.";
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		(l->c->moe ? bind_moe(b, l, &names) : bind_glu_as(b, l, "feed_forward."));
}

bool
llama4_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", llama4_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
llama4_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_rope(d, l);
		if (d->c.qk_plain_norm && l->c->rope >= 0)
			dec_qk_plain_norm(d);
		dec_temper(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_ffn(d, l);
	}
	dec_head(d, logits);
}
