/*
 * conf.c
 *	  The part of config.json that all decoders share.
 *
 * The configuration is untrusted: each number has a range, and a key that is
 * there but of the wrong kind is an error, never its default.
 *
 * Tested by tests/unit/test_model.c.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "model/decoder.h"
#include "model/rope.h"

const char *
dec_printable(const char *s, char *buf, size_t size)
{
	size_t		n = 0;

	for (; s[n] != '\0' && n < size - 1; n++)
		buf[n] = s[n] >= 0x20 && s[n] < 0x7f ? s[n] : '?';
	buf[n] = '\0';
	return buf;
}

bool
dec_conf_int(const Conf *c, const char *key, int lo, int hi, int dflt, int *out, Err *e)
{
	size_t		n;
	const double *v = conf_nums(c, key, &n);

	if (!conf_has(c, key))
	{
		if (dflt < lo)
			return err_set(e, ERR_BAD_FILE, "model configuration has no \"%s\"", key);
		*out = dflt;
		return true;
	}
	if (v == NULL || n != 1 || !(v[0] >= lo && v[0] <= hi) || v[0] != floor(v[0]))
	{
		if (v != NULL && n == 1)
			err_set(e, ERR_BAD_FILE, "model configuration has \"%s\" = %g", key, v[0]);
		else
			err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"%s\"", key);
		return err_detail(e, "An integer between %d and %d is expected.", lo, hi);
	}
	*out = (int) v[0];
	return true;
}

/* What would silently change the arithmetic must be known. */
static bool
check_supported(const Conf *c, const DecoderConf *o, Err *e)
{
	const char *act = conf_str(c, "hidden_act", "silu");
	int			rot;
	char		buf[65];

	if (strcmp(act, "silu") != 0)
		return err_set(e, ERR_UNSUPPORTED, "activation function \"%s\" is not supported",
					   dec_printable(act, buf, sizeof(buf)));
	if (conf_has(c, "quantization_config.quant_method"))
	{
		err_set(e, ERR_UNSUPPORTED, "quantization method \"%s\" is not supported",
				dec_printable(conf_str(c, "quantization_config.quant_method", "?"), buf, sizeof(buf)));
		return err_hint(e, "Use the unquantized model, or its Q8_0 GGUF file.");
	}
	if (conf_num(c, "partial_rotary_factor", 1) != 1 ||
		conf_num(c, "rope_parameters.partial_rotary_factor", 1) != 1)
		return err_set(e, ERR_UNSUPPORTED, "partial rotary embeddings are not supported");
	if (!dec_conf_int(c, "rotary_dim", 1, DEC_MAX_HEAD_DIM, o->head_dim, &rot, e))
		return false;
	if (rot != o->head_dim)
		return err_set(e, ERR_UNSUPPORTED, "partial rotary embeddings are not supported");
	return true;
}

bool
dec_conf(const Conf *c, DecoderConf *o, Err *e)
{
	double		eps = conf_num(c, "rms_norm_eps", 1e-6);

	if (!dec_conf_int(c, "hidden_size", 1, DEC_MAX_HIDDEN, 0, &o->hidden, e) ||
		!dec_conf_int(c, "intermediate_size", 1, DEC_MAX_INTER, 0, &o->inter, e) ||
		!dec_conf_int(c, "num_hidden_layers", 1, DEC_MAX_LAYERS, 0, &o->n_layers, e) ||
		!dec_conf_int(c, "num_attention_heads", 1, DEC_MAX_HEADS, 0, &o->n_heads, e) ||
		!dec_conf_int(c, "num_key_value_heads", 1, DEC_MAX_HEADS, o->n_heads, &o->n_kv_heads, e) ||
		!dec_conf_int(c, "vocab_size", 1, DEC_MAX_VOCAB, 0, &o->vocab, e) ||
		!dec_conf_int(c, "max_position_embeddings", 1, DEC_MAX_LEN, 0, &o->max_len, e))
		return false;
	if (o->n_heads % o->n_kv_heads != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has %d attention heads, "
					   "which is not a multiple of its %d key-value heads", o->n_heads, o->n_kv_heads);
	if (!conf_has(c, "head_dim") && o->hidden % o->n_heads != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has \"hidden_size\" = %d, "
					   "which is not a multiple of its %d attention heads", o->hidden, o->n_heads);
	if (!dec_conf_int(c, "head_dim", 1, DEC_MAX_HEAD_DIM, o->hidden / o->n_heads, &o->head_dim, e))
		return false;
	if (o->head_dim < 2 || o->head_dim > DEC_MAX_HEAD_DIM || o->head_dim % 2 != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid head dimension: %d",
					   o->head_dim);
	if (!(eps >= 0 && eps < 1))
		return err_set(e, ERR_BAD_FILE, "model configuration has \"rms_norm_eps\" = %g", eps);
	o->eps = (float) eps;
	o->tied = conf_bool(c, "tie_word_embeddings", false);
	if (!check_supported(c, o, e))
		return false;
	o->window = mem_zalloc((size_t) o->n_layers * sizeof(int));
	o->inv_freq = mem_zalloc((size_t) o->head_dim / 2 * sizeof(float));
	return rope_inv_freq(c, o->head_dim, o->inv_freq, e);
}

void
dec_conf_free(DecoderConf *o)
{
	mem_free(o->window);
	mem_free(o->inv_freq);
	o->window = NULL;
	o->inv_freq = NULL;
}
