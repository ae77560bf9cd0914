/*
 * decoder_config.c
 *	  The part of config.json that all decoders share.
 *
 * The configuration is untrusted: each number has a range, and a key of the wrong kind is an error; the
 * default applies only to absent keys.
 *
 * Tested by tests/unit/model/test_model.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "model/decoder.h"

#define KV_HEADS "num_key_value_heads"

const char *
dec_printable(const char *s, char *buf, size_t size)
{
	size_t		n = 0;

	for (; s[n] != '\0' && n < size - 1; n++)
		buf[n] = s[n] >= 0x20 && s[n] < 0x7f ? s[n] : '?';
	buf[n] = '\0';
	return buf;
}

/* Read the single number of a key.  Return false with the error set for any other value. */
static bool
get_number(const Conf *c, const char *key, double *out, Err *e)
{
	size_t		n;
	const double *v = conf_nums(c, key, &n);

	if (v == NULL || n != 1)
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"%s\"", key);
	*out = v[0];
	return true;
}

bool
dec_conf_int(const Conf *c, const char *key, int lo, int hi, int dflt, int *out, Err *e)
{
	double		v = 0;
	bool		number;

	if (!conf_has(c, key))
	{
		if (dflt < lo)
			return err_set(e, ERR_BAD_FILE, "model configuration has no \"%s\"", key);
		*out = dflt;
		return true;
	}
	number = get_number(c, key, &v, e);
	if (!number || !(v >= lo && v <= hi) || v != floor(v))
	{
		if (number)
			err_set(e, ERR_BAD_FILE, "model configuration has \"%s\" = %g", key, v);
		return err_detail(e, "An integer between %d and %d is expected.", lo, hi);
	}
	*out = (int) v;
	return true;
}

bool
dec_conf_window(const Conf *c, int dflt, bool needed, int *out, Err *e)
{
	*out = 0;
	if (!conf_is_null(c, "sliding_window"))
		return dec_conf_int(c, "sliding_window", dflt == 0 ? 0 : 1, DEC_MAX_LEN, dflt, out, e);
	return !needed || err_set(e, ERR_BAD_FILE, "model configuration has no \"sliding_window\"");
}

bool
dec_conf_num(const Conf *c, const char *key, double lo, double hi, double dflt, float *out, Err *e)
{
	double		v = dflt;

	if (conf_has(c, key))
	{
		if (!get_number(c, key, &v, e))
			return false;
		if (!(v > lo && v <= hi))
		{
			err_set(e, ERR_BAD_FILE, "model configuration has \"%s\" = %g", key, v);
			return err_detail(e, "A number above %g and at most %g is expected.", lo, hi);
		}
	}
	*out = (float) v;
	return true;
}

bool
dec_conf_act(const char *name, KAct *out, Err *e)
{
	static const struct
	{
		const char *name;
		KAct		act;
	}			acts[] = {
		{"silu", KACT_SILU}, {"swish", KACT_SILU}, {"gelu", KACT_GELU},
		{"gelu_new", KACT_GELU_TANH}, {"gelu_pytorch_tanh", KACT_GELU_TANH}, {"gelu_fast", KACT_GELU_TANH},
		{"quick_gelu", KACT_GELU_QUICK}, {"relu", KACT_RELU}, {"relu2", KACT_RELU2},
	};
	char		buf[65];

	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		if (strcmp(acts[i].name, name) == 0)
		{
			*out = acts[i].act;
			return true;
		}
	return err_set(e, ERR_UNSUPPORTED, "activation function \"%s\" is not supported",
				   dec_printable(name, buf, sizeof(buf)));
}

/* Read an activation.  "swiglu" is "silu" with a gate. */
static bool
conf_act(const char *name, DecoderConf *o, Err *e)
{
	static const char *const gated[][2] = {{"swiglu", "silu"}, {"geglu", "gelu"}, {"reglu", "relu"}};

	for (size_t i = 0; o->glu && i < sizeof(gated) / sizeof(gated[0]); i++)
		if (strcmp(name, gated[i][0]) == 0)
			return dec_conf_act(gated[i][1], &o->act, e);
	return dec_conf_act(name, &o->act, e);
}

const char *
dec_conf_key(const Conf *c, const char *const *keys)
{
	for (const char *const *k = keys; *k != NULL; k++)
		if (conf_has(c, *k))
			return *k;
	return *keys;
}

/* Read a size that has several names. */
static bool
conf_size(const Conf *c, const char *const *keys, int hi, int dflt, int *out, Err *e)
{
	return dec_conf_int(c, dec_conf_key(c, keys), 1, hi, dflt, out, e);
}

static bool
conf_eps(const Conf *c, DecoderConf *o, Err *e)
{
	static const char *const keys[] = {
		"layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps", "rms_norm_eps", NULL
	};
	const char *key = dec_conf_key(c, keys);
	double		eps = o->eps > 0 ? (double) o->eps : 1e-6;

	if (conf_has(c, key) && !get_number(c, key, &eps, e))
		return false;
	if (!(eps >= 0 && eps < 1))
		return err_set(e, ERR_BAD_FILE, "model configuration has \"%s\" = %g", key, eps);
	o->eps = (float) eps;
	return true;
}

/* Read how many dimensions of each head are rotated: GGUF gives the number, config.json a fraction. */
static bool
rotary_dim(const Conf *c, int head_dim, float dflt, int *out, Err *e)
{
	static const char *const keys[] = {
		"rope_parameters.partial_rotary_factor", "rotary_pct", "partial_rotary_factor", NULL
	};
	float		part;
	const char *key = dec_conf_key(c, keys);

	if (conf_has(c, "rotary_dim"))
		return dec_conf_int(c, "rotary_dim", 2, head_dim, head_dim, out, e) &&
			(*out % 2 == 0 || err_set(e, ERR_BAD_FILE, "model configuration has \"rotary_dim\" = %d", *out));
	if (!dec_conf_num(c, key, 0, 1, dflt > 0 ? (double) dflt : 1, &part, e))
		return false;
	/* computed as a double: 80 * 0.9f is less than 72 */
	*out = (int) ((double) head_dim * conf_num(c, key, (double) part));
	if (*out < 2 || *out % 2 != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has \"%s\" = %g", key, (double) part);
	return true;
}

/* Set the heads of latent attention: one head of k and v, as wide as what the cache keeps of a token. */
static bool
latent_heads(const Conf *c, DecoderConf *o, Err *e)
{
	const MlaConf *m = &o->mla;

	if (!dec_conf_int(c, "num_attention_heads", 1, 128, o->n_heads, &o->n_heads, e))
		return false;
	o->n_kv_heads = 1;
	o->head_dim = m->latent + m->rope;
	o->rope[0].dim = m->rope;
	o->attn_scale = (float) (rope_attn_factor(c, &o->rope[0].keys) / sqrt((double) (m->plain + m->rope)));
	return true;
}

/*
 * Read the heads of k and v.  GGUF may have one number for each layer, which is 0 for a hybrid's layers
 * without attention.
 */
static bool
conf_kv_heads(const Conf *c, DecoderConf *o, Err *e)
{
	size_t		n;
	const double *v = conf_nums(c, KV_HEADS, &n);
	double		most = 0;

	if (n < 2)
		return dec_conf_int(c, KV_HEADS, 1, DEC_MAX_HEADS, o->n_kv_heads > 0 ? o->n_kv_heads : o->n_heads,
							&o->n_kv_heads, e);
	if (n != (size_t) o->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"%s\", expected %d", n, KV_HEADS,
					   o->n_layers);
	for (size_t i = 0; i < n; i++)
		most = v[i] > most ? v[i] : most;
	for (size_t i = 0; i < n; i++)
		if (v[i] != most && !(o->hybrid && v[i] == 0))
			return err_set(e, ERR_UNSUPPORTED,
						   "layers with different numbers of key-value heads are not supported");
	if (!(most >= 1 && most <= DEC_MAX_HEADS) || most != floor(most))
		return err_set(e, ERR_BAD_FILE, "model configuration has \"%s\" = %g", KV_HEADS, most);
	o->n_kv_heads = (int) most;
	return true;
}

static bool
conf_heads(const Conf *c, DecoderConf *o, Err *e)
{
	static const char *const heads[] = {"num_attention_heads", "n_head", "n_heads", NULL};

	/* null requests the value that follows from the other keys, not the architecture's default */
	if (conf_is_null(c, "num_key_value_heads"))
		o->n_kv_heads = 0;
	if (conf_is_null(c, "head_dim"))
		o->head_dim = 0;
	if (!conf_size(c, heads, DEC_MAX_HEADS, o->n_heads, &o->n_heads, e) ||
		!conf_kv_heads(c, o, e))
		return false;
	if (o->n_heads % o->n_kv_heads != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has %d attention heads, "
					   "which is not a multiple of its %d key-value heads", o->n_heads, o->n_kv_heads);
	if (!conf_has(c, "head_dim") && o->head_dim == 0 && o->hidden % o->n_heads != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has \"hidden_size\" = %d, "
					   "which is not a multiple of its %d attention heads", o->hidden, o->n_heads);
	if (!dec_conf_int(c, "head_dim", 1, DEC_MAX_HEAD_DIM,
					  o->head_dim > 0 ? o->head_dim : o->hidden / o->n_heads, &o->head_dim, e))
		return false;
	if (o->head_dim < 2 || o->head_dim > DEC_MAX_HEAD_DIM || o->head_dim % 2 != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid head dimension: %d",
					   o->head_dim);
	if (conf_int(c, "v_head_dim", o->head_dim) != o->head_dim)
		return err_set(e, ERR_UNSUPPORTED, "values of another width than keys are not supported");
	o->attn_scale = (float) (1.0 / sqrt((double) o->head_dim));
	return true;
}

bool
dec_conf(const Conf *c, DecoderConf *o, Err *e)
{
	static const char *const hidden[] = {"hidden_size", "n_embd", "n_embed", "d_model", NULL};
	static const char *const inter[] = {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", NULL};
	static const char *const layers[] = {"num_hidden_layers", "n_layer", "n_layers", NULL};
	static const char *const len[] = {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
									  "max_sequence_length", NULL};
	static const char *const acts[] = {
		"hidden_activation", "activation_function", "hidden_act", "activation", NULL
	};
	Rope	   *r = &o->rope[0];
	const char *act;
	const double *kv_heads;
	size_t		n;

	if (!conf_size(c, hidden, DEC_MAX_HIDDEN, o->hidden, &o->hidden, e) ||
		(!o->no_attn &&
		 !conf_size(c, inter, DEC_MAX_INTER, o->inter > 0 ? o->inter : o->mlp_ratio * o->hidden, &o->inter,
					e)) ||
		!conf_size(c, layers, DEC_MAX_LAYERS, o->n_layers, &o->n_layers, e) ||
		!dec_conf_int(c, "vocab_size", 1, DEC_MAX_VOCAB, o->vocab, &o->vocab, e) ||
		!conf_size(c, len, DEC_MAX_LEN, o->max_len, &o->max_len, e) ||
		(!o->no_attn && !(o->mla.latent > 0 ? latent_heads(c, o, e) : conf_heads(c, o, e))) ||
		!conf_eps(c, o, e))
		return false;
	o->tied = conf_bool(c, "tie_word_embeddings", o->tied);
	act = conf_str(c, dec_conf_key(c, acts), NULL);
	if (act == NULL && conf_has(c, dec_conf_key(c, acts)))
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"%s\"", dec_conf_key(c, acts));
	o->xielu = o->xielu && (act == NULL || strcmp(act, "xielu") == 0);
	if ((act != NULL && !o->xielu && !conf_act(act, o, e)) ||
		(o->mla.latent == 0 && !o->no_rope && !rotary_dim(c, o->head_dim, r->part, &r->dim, e)))
		return false;
	o->max_len = rope_max_len(c, &r->keys, o->max_len);
	o->layers = mem_zalloc((size_t) o->n_layers * sizeof(LayerConf));
	for (int i = 0; o->no_rope && i < o->n_layers; i++)
		o->layers[i].rope = -1;
	kv_heads = conf_nums(c, KV_HEADS, &n);
	ALWAYS(!o->hybrid || n < 2 || n == (size_t) o->n_layers);	/* conf_kv_heads() */
	for (size_t i = 0; o->hybrid && n > 1 && i < n; i++)
		o->layers[i].recurrent = kv_heads[i] == 0;
	return true;
}

bool
dec_conf_ropes(const Conf *c, DecoderConf *o, Err *e)
{
	for (int i = 0; i < DEC_ROPES; i++)
	{
		Rope	   *r = &o->rope[i];

		if (r->dim == 0)
			continue;
		r->inv_freq = mem_zalloc((size_t) r->dim / 2 * sizeof(float));
		if (!rope_freqs(c, &r->keys, r->dim, o->max_len, r->inv_freq, &r->mscale, e))
			return false;
	}
	return true;
}

void
dec_conf_free(DecoderConf *o)
{
	mem_free(o->layers);
	o->layers = NULL;
	mem_free(o->alibi);
	o->alibi = NULL;
	for (int i = 0; i < DEC_ROPES; i++)
	{
		mem_free(o->rope[i].inv_freq);
		o->rope[i].inv_freq = NULL;
	}
}

void
dec_conf_alibi(DecoderConf *o, double max_bias, double factor)
{
	int			pow2 = 1;

	while (2 * pow2 <= o->n_heads)
		pow2 *= 2;
	o->alibi = mem_alloc((size_t) o->n_heads * sizeof(float));
	/* with a number of heads that is no power of two, the others' slopes lie between the first ones' */
	for (int i = 0; i < o->n_heads; i++)
		o->alibi[i] = (float) (factor * exp2(-max_bias / pow2 *
											 (i < pow2 ? i + 1 : 0.5 + (i - pow2))));
}

bool
dec_conf_temper(const Conf *c, DecoderConf *o, Err *e)
{
	const char *prefix = conf_has(c, "rope_parameters.llama_4_scaling_beta") ? "rope_parameters." :
		"rope_scaling.";
	char		beta[64];
	char		every[64];

	snprintf(beta, sizeof(beta), "%sllama_4_scaling_beta", prefix);
	snprintf(every, sizeof(every), "%soriginal_max_position_embeddings", prefix);
	if (!conf_has(c, beta))
		return true;
	if (!dec_conf_num(c, beta, -1, 1e6, 0, &o->temper.scale, e) ||
		!dec_conf_int(c, every, 1, DEC_MAX_LEN, 0, &o->temper.every, e))
		return false;
	for (int i = 0; i < o->n_layers; i++)
		o->layers[i].tempered = true;
	return true;
}

/* Return true if the layer's type is sliding attention, by whichever key says so. */
static bool
is_sliding(const Conf *c, int layer, bool (*by_default) (const Conf *c, int layer))
{
	size_t		n;
	const double *pattern = conf_nums(c, "sliding_window_pattern", &n);

	if (pattern == NULL)
		return by_default == NULL || by_default(c, layer);
	/* GGUF has a flag for each layer or, like old configurations, the period */
	if (n > 1)
		return pattern[layer] != 0;
	return pattern[0] > 0 && fmod(layer + 1, pattern[0]) != 0;
}

bool
dec_conf_windows(const Conf *c, DecoderConf *o, int window, bool (*by_default) (const Conf *c, int layer),
				 Err *e)
{
	size_t		n;
	const char *const *types = conf_strs(c, "layer_types", &n);
	size_t		n_pattern;
	char		buf[65];

	if (window > 0 && types != NULL && n != (size_t) o->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"layer_types\", expected %d",
					   n, o->n_layers);
	conf_nums(c, "sliding_window_pattern", &n_pattern);
	if (window > 0 && types == NULL && n_pattern > 1 && n_pattern != (size_t) o->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu flags of \"sliding_window_pattern\", "
										"expected %d",
					   n_pattern, o->n_layers);
	for (int i = 0; window > 0 && i < o->n_layers; i++)
	{
		bool		on;

		if (types != NULL)
		{
			on = strcmp(types[i], "sliding_attention") == 0;
			if (!on && strcmp(types[i], "full_attention") != 0)
				return err_set(e, ERR_UNSUPPORTED, "layer type \"%s\" is not supported",
							   dec_printable(types[i], buf, sizeof(buf)));
		}
		else
			on = is_sliding(c, i, by_default);
		o->layers[i].sliding = on;
		o->layers[i].window = on && window < o->max_len ? window : 0;
	}
	return true;
}
