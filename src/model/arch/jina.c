/*
 * jina.c
 *	  Jina's BERT of the second generation (Günther et al. 2023, arXiv:2310.19923): bidirectional ALiBi
 *	  instead of positions, and an MLP with a gate.
 *
 * The third generation (Sturua et al. 2024, arXiv:2409.10173) is XLM-RoBERTa with rotation; its adapters
 * by task are ignored if transformers' converter has left them out.
 *
 * The model for code has three additional norms in each layer: of q and of k, over all heads, and a
 * second one after attention, of the sum of the first one's output and the layer's input.  Its matrix of
 * gate and up has the gate last.  The model is recognized by its tensors.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

#include <string.h>

static const EncoderNames names = {
	.q = "attention.self.query", .k = "attention.self.key", .v = "attention.self.value",
	.o = "attention.output.dense", .attn_norm = "attention.output.LayerNorm",
	.up = "mlp.gated_layers", .down = "mlp.wo", .mlp_norm = "mlp.layernorm",
};

static const EncoderNames code_names = {
	.q = "attention.self.query", .k = "attention.self.key", .v = "attention.self.value",
	.o = "attention.output.dense", .attn_norm = "attention.output.LayerNorm",
	.up = "mlp.up_gated_layer", .gate_last = true, .down = "mlp.down_layer", .mlp_norm = "layer_norm_2",
};

static const EncoderNames v3_names = {
	.qkv = "mixer.Wqkv", .o = "mixer.out_proj", .attn_norm = "norm1",
	.up = "mlp.fc1", .down = "mlp.fc2", .mlp_norm = "norm2",
};

bool
jina_conf(const Conf *c, DecoderConf *out, Err *e)
{
	char		buf[65];
	const char *positions = conf_str(c, "position_embedding_type", "alibi");
	const char *mlp = conf_str(c, "feed_forward_type", "geglu");

	enc_defaults(out);
	out->no_rope = true;
	out->max_len = 8192;
	if (strcmp(positions, "alibi") != 0)
		return err_set(e, ERR_UNSUPPORTED, "\"position_embedding_type\" \"%s\" is not supported",
					   dec_printable(positions, buf, sizeof(buf)));
	if (strcmp(mlp, "original") != 0 && strcmp(mlp, "geglu") != 0 && strcmp(mlp, "reglu") != 0)
		return err_set(e, ERR_UNSUPPORTED, "\"feed_forward_type\" \"%s\" is not supported",
					   dec_printable(mlp, buf, sizeof(buf)));
	if (!enc_conf(c, out, e))
		return false;
	out->glu = strcmp(mlp, "original") != 0;
	if (out->glu)
	{
		/* for this model the class ignores "hidden_act" */
		out->act = strcmp(mlp, "reglu") == 0 ? KACT_RELU : KACT_GELU;
		out->mlp_bias = false;
	}
	out->qk_norm = QKNORM_WIDE;
	dec_conf_alibi(out, 8, 1);
	return enc_conf_types(c, out, 2, e);
}

static bool
jina_layer(Binder *b, Decoder *d, Layer *l)
{
	if (bind_has(b, "attention.self.layer_norm_q.weight", "attn_q_norm.weight") &&
		!bind_qk_norm_as(b, l, "attention.self.layer_norm_q", "attention.self.layer_norm_k"))
		return false;
	if (bind_has(b, "layer_norm_1.weight", "attn_norm_2.weight"))
		return enc_layer(b, l, &code_names) &&
			bind_norm(b, &l->attn_out_norm, "layer_norm_1", "attn_norm_2", d->c.hidden);
	return enc_layer(b, l, d->c.glu ? &names : &bert_names);
}

bool
jina_bind(Binder *b, Decoder *d)
{
	return enc_ignore_heads(b) && enc_embeddings(b, d, "bert.", NULL) &&
		bind_layers(b, "bert.encoder.layer.", jina_layer) &&
		enc_heads(b, d, "bert.pooler.dense", HA_TANH, "classifier");
}

void
jina_forward(Decoder *d, float *out)
{
	dec_embed(d);
	dec_embed_norm(d);
	dec_plain(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_qkv(d, l);
		dec_qk_norm(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);
		if (l->attn_out_norm.w != NULL)
		{
			dec_input(d);
			dec_out_norm(d, &l->attn_norm);
			dec_post_norm(d, &l->attn_out_norm);
		}
		else
			dec_post_norm(d, &l->attn_norm);
		if (d->c.glu)
			dec_glu(d, l);
		else
			dec_mlp(d, l);
		dec_post_norm(d, &l->mlp_norm);
	}
	dec_logits(d, out);
}

bool
jina_v3_conf(const Conf *c, DecoderConf *out, Err *e)
{
	enc_defaults(out);
	out->eps = 1e-5f;
	out->rope[0].keys.theta = 20000;
	return enc_conf(c, out, e) && enc_conf_types(c, out, 1, e);
}

static bool
jina_v3_layer(Binder *b, Decoder *d, Layer *l)
{
	(void) d;
	return enc_layer(b, l, &v3_names);
}

bool
jina_v3_bind(Binder *b, Decoder *d)
{
	return enc_ignore_heads(b) && enc_embeddings(b, d, "roberta.", "roberta.emb_ln") &&
		bind_layers(b, "roberta.encoder.layers.", jina_v3_layer) &&
		enc_heads(b, d, "classifier.dense", HA_TANH, "classifier.out_proj");
}
