/*
 * rope.c
 *	  Rotary position embeddings (Su et al. 2021, arXiv:2104.09864).
 *
 * Frequencies are computed in float, step by step as in the reference (1 / theta^(2i/d), then the
 * scaling), because at position p an error of one ulp in a frequency becomes p ulps of angle, and the
 * model was trained with the reference's rounding.  The angle is the float product pos * inv_freq; cos
 * and sin are computed in double and rounded.
 *
 * Tested by tests/unit/model/layers/test_rope.c and the goldens.
 */
#include "model/layers/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "model/decoder.h"

#define MAX_PAIRS 512

typedef struct RopeConf
{
	const Conf *c;
	const char *prefix;			/* prefix of the scaling's keys: "rope_scaling." ... */
	const char *type;
	double		theta;
	int			dim;
	int			half;			/* pairs */
	int			max_len;		/* positions that the model is loaded for */
	bool		exact;			/* from RopeKeys */
	float		freq[MAX_PAIRS];	/* in and out */
	float		mscale;			/* in and out: factor of cos and sin */
} RopeConf;

typedef struct RopeKind
{
	const char *name;
	bool		(*scale) (RopeConf *r, Err *e);
} RopeKind;

static const char *
param_key(const RopeConf *r, const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s", r->prefix, name);
	return buf;
}

static double
param(const RopeConf *r, const char *name, double dflt)
{
	char		key[128];

	return conf_num(r->c, param_key(r, name, key, sizeof(key)), dflt);
}

/* Return true if the scaling is a model's option, not from its files. */
static bool
is_option(const RopeConf *r)
{
	return strncmp(r->prefix, "override.", 9) == 0;
}

static bool
bad_param(const RopeConf *r, const char *name, Err *e)
{
	if (is_option(r))
		return err_set(e, ERR_INVALID, "model option \"rope_scaling\" has an invalid or missing \"%s\"",
					   name);
	return err_set(e, ERR_BAD_FILE, "model configuration has an invalid or missing \"%s%s\"",
				   r->prefix, name);
}

/* Read a number above zero; with dflt 0 the key is required. */
static bool
positive(const RopeConf *r, const char *name, double dflt, double *out, Err *e)
{
	*out = param(r, name, dflt);
	return (*out > 0 && isfinite(*out)) || bad_param(r, name, e);
}

/* Read the length that the model was trained with.  Phi-3 stores it outside of the scaling. */
static bool
trained_len(const RopeConf *r, double *out, Err *e)
{
	static const char name[] = "original_max_position_embeddings";
	double		v = conf_num(r->c, "max_position_embeddings", 0);

	v = param(r, name, v);
	if (!is_option(r))
		v = conf_num(r->c, name, v);
	*out = v;
	return (v >= 1 && v <= DEC_MAX_LEN) || bad_param(r, name, e);
}

/* 1 / theta^(2i/dim) */
static void
plain_freqs(RopeConf *r)
{
	ALWAYS(r->half > 0 && r->half <= MAX_PAIRS && r->dim == 2 * r->half);
	for (int i = 0; i < r->half; i++)
	{
		float		x = (float) (2 * i) / (float) r->dim;

		r->freq[i] = 1.0f / (float) pow((double) (float) r->theta, (double) x);
	}
}

static bool
rope_default(RopeConf *r, Err *e)
{
	(void) r;
	(void) e;
	return true;
}

/* Position interpolation (Chen et al. 2023, arXiv:2306.15595): all frequencies / s. */
static bool
rope_linear(RopeConf *r, Err *e)
{
	double		factor;

	if (!positive(r, "factor", 0, &factor, e))
		return false;
	for (int i = 0; i < r->half; i++)
		r->freq[i] /= (float) factor;
	return true;
}

/*
 * Llama 3.1: frequencies with wavelengths above the low limit are divided by the factor, those below the
 * high limit are kept, those in between are blended.
 */
static bool
rope_llama3(RopeConf *r, Err *e)
{
	double		factor = param(r, "factor", 0);
	double		low = param(r, "low_freq_factor", 0);
	double		high = param(r, "high_freq_factor", 0);
	double		old = param(r, "original_max_position_embeddings", 0);

	if (!(factor > 0) || !isfinite(factor))
		return bad_param(r, "factor", e);
	if (!(low > 0) || !isfinite(low))
		return bad_param(r, "low_freq_factor", e);
	if (!(high > low) || !isfinite(high))
		return bad_param(r, "high_freq_factor", e);
	if (!(old >= 1) || !isfinite(old))
		return bad_param(r, "original_max_position_embeddings", e);
	for (int i = 0; i < r->half; i++)
	{
		float		f = r->freq[i];
		float		wavelen = (float) (2 * M_PI) / f;

		if (wavelen > (float) (old / low))
			r->freq[i] = f / (float) factor;
		else if (!(wavelen < (float) (old / high)))
		{
			float		smooth = ((float) old / wavelen - (float) low) / (float) (high - low);

			r->freq[i] = (1 - smooth) * f / (float) factor + smooth * f;
		}
	}
	return true;
}

/* Return an array of numbers above zero, one for each pair; NULL with the error set. */
static const double *
pair_factors(const RopeConf *r, const char *name, Err *e)
{
	size_t		n;
	char		key[128];
	const double *a = conf_nums(r->c, param_key(r, name, key, sizeof(key)), &n);
	bool		ok = n == (size_t) r->half;

	for (int i = 0; ok && i < r->half; i++)
		ok = a[i] > 0 && isfinite(a[i]);
	if (!ok)
		bad_param(r, name, e);
	return ok ? a : NULL;
}

static bool
rope_factors(RopeConf *r, Err *e)
{
	const double *a = pair_factors(r, "factors", e);

	for (int i = 0; a != NULL && i < r->half; i++)
		r->freq[i] /= (float) a[i];
	return a != NULL;
}

/*
 * Dynamic NTK: a larger theta.  The original recomputes it as a text grows, so that an early token would
 * depend on the later length of the text.  Here, as in vLLM, it is always that of the full length, which
 * is factor times the trained one.
 */
static bool
rope_dynamic(RopeConf *r, Err *e)
{
	double		factor;
	double		alpha = param(r, "alpha", 0);

	/* Hunyuan's alpha is a factor that doesn't depend on the length */
	if (alpha != 0 ? !positive(r, "alpha", 0, &alpha, e) : !positive(r, "factor", 0, &factor, e))
		return false;
	if (alpha == 0)
		alpha = factor * factor - (factor - 1);
	if (r->dim < 4 || alpha < 1)
		return bad_param(r, "factor", e);
	r->theta *= pow(alpha, (double) r->dim / (r->dim - 2));
	plain_freqs(r);
	return true;
}

/*
 * NTK-aware: a larger theta and some interpolation, chosen so that the slowest frequency is divided by
 * the factor.
 */
static bool
rope_ntk(RopeConf *r, Err *e)
{
	double		factor;

	if (!positive(r, "factor", 0, &factor, e))
		return false;
	if (param(r, "mixed_b", 0) != 0)
		return err_set(e, ERR_UNSUPPORTED, "RoPE scaling \"ntk\" with \"mixed_b\" is not supported");
	if (factor <= 1)
		return true;
	r->theta *= factor;
	plain_freqs(r);
	for (int i = 0; i < r->half; i++)
		r->freq[i] /= (float) pow(factor, 2.0 / r->dim);
	return true;
}

/* Return the factor that compensates the flatter attention of a longer context, through q and k. */
static double
yarn_mscale(double factor, double mscale)
{
	return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* Return the pair that rotates `turns` times within the trained length. */
static double
yarn_pair(const RopeConf *r, double turns, double trained)
{
	return r->dim * log(trained / (turns * 2 * M_PI)) / (2 * log(r->theta));
}

static bool
rope_longrope(RopeConf *r, Err *e);

/*
 * YaRN (Peng et al. 2023, arXiv:2309.00071): fast pairs are kept, pairs that rotate less than once
 * within the trained length are divided by the factor, those in between are blended.  DeepSeek's mscale
 * and mscale_all_dim change the factor of cos and sin.
 */
static bool
rope_yarn(RopeConf *r, Err *e)
{
	double		trained;
	double		factor;
	double		fast;
	double		slow;
	double		low;
	double		high;
	double		mscale = param(r, "mscale", 0);
	double		all_dim = param(r, "mscale_all_dim", 0);
	double		attn;
	char		key[128];

	/* early Phi-3 files say "yarn" but contain LongRoPE */
	if (conf_has(r->c, param_key(r, "long_factor", key, sizeof(key))))
		return rope_longrope(r, e);
	if (!trained_len(r, &trained, e) ||
		!positive(r, "factor", conf_num(r->c, "max_position_embeddings", 0) / trained, &factor, e) ||
		!positive(r, "beta_fast", 32, &fast, e) || !positive(r, "beta_slow", 1, &slow, e))
		return false;
	attn = mscale != 0 && all_dim != 0 ? yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim) :
		yarn_mscale(factor, 1);
	if (!positive(r, "attention_factor", attn, &attn, e))
		return false;
	low = yarn_pair(r, fast, trained);
	high = yarn_pair(r, slow, trained);
	if (conf_bool(r->c, param_key(r, "truncate", key, sizeof(key)), !r->exact))
	{
		low = floor(low);
		high = ceil(high);
	}
	low = low > 0 ? low : 0;
	high = high < r->dim - 1 ? high : r->dim - 1;
	if (low == high)
		high += 0.001;
	for (int i = 0; i < r->half; i++)
	{
		float		pos = (float) pow((double) (float) r->theta, (double) ((float) (2 * i) / (float) r->dim));
		float		ramp = ((float) i - (float) low) / (float) (high - low);
		float		keep = 1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);

		r->freq[i] = 1.0f / ((float) factor * pos) * (1 - keep) + 1.0f / pos * keep;
	}
	r->mscale = (float) attn;
	return true;
}

/*
 * LongRoPE (Ding et al. 2024, arXiv:2402.13753): a divisor for each pair, from one of two lists.  The
 * original uses the second list as soon as a text is longer than the trained length; here, as in vLLM,
 * the length that the model is loaded for decides, so that tokens don't depend on later ones.
 */
static bool
rope_longrope(RopeConf *r, Err *e)
{
	double		trained;
	double		factor;
	double		attn;
	const double *a;

	if (!trained_len(r, &trained, e) ||
		!positive(r, "factor", conf_num(r->c, "max_position_embeddings", 0) / trained, &factor, e))
		return false;
	attn = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(trained));
	/* Phi-3.5-MoE has these instead */
	attn = param(r, r->max_len > trained ? "long_mscale" : "short_mscale", attn);
	if (!positive(r, "attention_factor", attn, &attn, e) ||
		(a = pair_factors(r, r->max_len > trained ? "long_factor" : "short_factor", e)) == NULL)
		return false;
	for (int i = 0; i < r->half; i++)
		r->freq[i] = 1.0f / ((float) a[i] *
							 (float) pow((double) (float) r->theta,
										 (double) ((float) (2 * i) / (float) r->dim)));
	r->mscale = (float) attn;
	return true;
}

static const RopeKind kinds[] = {
#define ROPE(name, fn) {name, fn},
#include "model/layers/rope.def"
#undef ROPE
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Find the scaling's name, under its several keys; "default" if there is none. */
static void
find_type(RopeConf *r, const RopeKeys *k, char *prefix, size_t size)
{
	static const char *const names[] = {"rope_type", "type"};
	const char *const places[] = {"override.rope_scaling.", "rope_parameters.", "rope_parameters.",
								  "rope_scaling."};

	r->prefix = prefix;
	for (int p = 0; p < 4; p++)
	{
		if ((p == 1 && k->section == NULL) || (p != 1 && k->local))
			continue;
		for (int n = 0; n < 2; n++)
		{
			char		key[128];

			snprintf(prefix, size, "%s%s%s", places[p], p == 1 ? k->section : "", p == 1 ? "." : "");
			if ((r->type = conf_str(r->c, param_key(r, names[n], key, sizeof(key)), NULL)) != NULL)
				return;
		}
	}
	r->type = "default";
}

static double
find_theta(const Conf *c, const RopeKeys *k)
{
	double		theta = k->theta > 0 ? k->theta : 10000;
	char		key[128];

	theta = conf_num(c, k->theta_key != NULL ? k->theta_key : "rope_theta", theta);
	if (!k->local)
	{
		theta = conf_num(c, "rope_parameters.rope_theta", theta);
		theta = conf_num(c, "rope_scaling.rope_theta", theta);
	}
	if (k->section != NULL)
	{
		snprintf(key, sizeof(key), "rope_parameters.%s.rope_theta", k->section);
		theta = conf_num(c, key, theta);
	}
	return k->local ? theta : conf_num(c, "override.rope_theta", theta);
}

int
rope_max_len(const Conf *c, const RopeKeys *k, int max_len)
{
	RopeConf	r = {.c = c};
	char		prefix[96];
	double		len = max_len;
	Err			ignored = {0};	/* rope_freqs() will report it */

	find_type(&r, k, prefix, sizeof(prefix));
	if (strcmp(r.type, "yarn") == 0 && !trained_len(&r, &len, &ignored))
		return max_len;
	if (strcmp(r.type, "yarn") == 0 || strcmp(r.type, "linear") == 0 || strcmp(r.type, "dynamic") == 0)
		len *= param(&r, "alpha", 0) != 0 ? 1 :
			param(&r, "factor", strcmp(r.type, "yarn") == 0 ? max_len / len : 1);
	return len >= 1 && len <= DEC_MAX_LEN ? (int) len : max_len;
}

double
rope_attn_factor(const Conf *c, const RopeKeys *k)
{
	RopeConf	r = {.c = c};
	char		prefix[96];
	double		mscale;

	find_type(&r, k, prefix, sizeof(prefix));
	if (strcmp(r.type, "default") == 0 || (mscale = param(&r, "mscale_all_dim", 0)) == 0)
		return 1;
	mscale = yarn_mscale(param(&r, "factor", 1), mscale);
	return mscale * mscale;
}

bool
rope_freqs(const Conf *c, const RopeKeys *keys, int rot_dim, int max_len, float *inv_freq, float *mscale,
		   Err *e)
{
	RopeConf	r = {.c = c, .theta = find_theta(c, keys), .dim = rot_dim, .half = rot_dim / 2,
					 .max_len = max_len,
	.exact = keys->exact, .mscale = 1};
	char		prefix[96];
	char		key[128];
	char		buf[65];

	find_type(&r, keys, prefix, sizeof(prefix));
	if (!(r.theta > 0) || !isfinite(r.theta))
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"rope_theta\"");
	if (r.half < 1 || r.half > MAX_PAIRS || rot_dim % 2 != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid head dimension: %d", rot_dim);
	/* Ministral 3's factor of q by position */
	if (!keys->tempered && conf_has(c, param_key(&r, "llama_4_scaling_beta", key, sizeof(key))))
		return err_set(e, ERR_UNSUPPORTED, "\"%s\" is not supported", key);
	for (size_t k = 0; k < N_KINDS; k++)
	{
		if (strcmp(kinds[k].name, r.type) != 0)
			continue;
		plain_freqs(&r);
		if (!kinds[k].scale(&r, e))
			return false;
		memcpy(inv_freq, r.freq, (size_t) r.half * sizeof(float));
		*mscale = r.mscale;
		return true;
	}
	err_set(e, ERR_UNSUPPORTED, "RoPE scaling type \"%s\" is not supported",
			dec_printable(r.type, buf, sizeof(buf)));
	return err_hint(e, "Supported types are default, linear, dynamic, ntk, yarn, longrope and llama3.");
}

typedef struct RopeTable
{
	const float *inv_freq;
	int			half;
	int			max_pos;
	float		mscale;
	float	   *cs;
} RopeTable;

#define ROPE_CHUNK 64			/* positions */

static void
table_chunk(void *arg, int chunk, int ith)
{
	RopeTable  *t = arg;
	int			end = chunk * ROPE_CHUNK + ROPE_CHUNK;

	(void) ith;
	for (int p = chunk * ROPE_CHUNK; p < end && p < t->max_pos; p++)
		for (int i = 0; i < t->half; i++)
		{
			float	   *out = t->cs + ((size_t) p * (size_t) t->half + (size_t) i) * 2;
			float		angle = (float) p * t->inv_freq[i];

			out[0] = (float) cos((double) angle) * t->mscale;
			out[1] = (float) sin((double) angle) * t->mscale;
		}
}

void
rope_table(KPool *pool, const float *inv_freq, int rot_dim, float mscale, int max_pos, float *cs)
{
	RopeTable	t = {inv_freq, rot_dim / 2, max_pos, mscale, cs};

	kpool_run(pool, table_chunk, &t, (max_pos + ROPE_CHUNK - 1) / ROPE_CHUNK);
}
