/*
 * rope.c
 *	  Rotary position embeddings (Su et al. 2021, arXiv:2104.09864).
 *
 * Frequencies are computed in float, step by step as the reference does
 * (1 / theta^(2i/d), then the scaling), because at position p an error of one ulp
 * in a frequency turns into p ulps of angle: it is the reference's rounding that
 * the model was trained with.  The angle is the float product pos * inv_freq; its
 * cos and sin are taken in double and rounded.
 *
 * Tested by tests/unit/test_rope.c and the goldens (plain, linear, llama3).
 */
#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/decoder.h"

typedef struct RopeConf
{
	const Conf *c;
	const char *prefix;			/* "rope_scaling." or "rope_parameters." */
	int			half;			/* pairs */
	float		freq[512];		/* in and out */
} RopeConf;

typedef struct RopeKind
{
	const char *name;
	bool		(*scale) (RopeConf *r, Err *e);
} RopeKind;

static double
param(const RopeConf *r, const char *name, double dflt)
{
	char		key[96];

	snprintf(key, sizeof(key), "%s%s", r->prefix, name);
	return conf_num(r->c, key, dflt);
}

static bool
bad_param(const RopeConf *r, const char *name, Err *e)
{
	return err_set(e, ERR_BAD_FILE, "model configuration has an invalid or missing \"%s%s\"",
				   r->prefix, name);
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
	float		factor = (float) param(r, "factor", 0);

	if (!(factor > 0) || !isfinite(factor))
		return bad_param(r, "factor", e);
	for (int i = 0; i < r->half; i++)
		r->freq[i] /= factor;
	return true;
}

/*
 * Llama 3.1: wavelengths above the low limit are slowed by the factor, those
 * below the high limit are kept, in between the two are blended.
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

/* A divisor for each pair, given as an array. */
static bool
rope_factors(RopeConf *r, Err *e)
{
	size_t		n;
	char		key[96];
	const double *a;

	snprintf(key, sizeof(key), "%sfactors", r->prefix);
	a = conf_nums(r->c, key, &n);
	if (n != (size_t) r->half)
		return bad_param(r, "factors", e);
	for (int i = 0; i < r->half; i++)
	{
		if (!(a[i] > 0) || !isfinite(a[i]))
			return bad_param(r, "factors", e);
		r->freq[i] /= (float) a[i];
	}
	return true;
}

static const RopeKind kinds[] = {
#define ROPE(name, fn) {name, fn},
#include "model/rope.def"
#undef ROPE
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The scaling's name, which has had several keys; "default" when there is none. */
static const char *
rope_type(RopeConf *r)
{
	static const char *const prefixes[] = {"rope_parameters.", "rope_scaling."};
	static const char *const names[] = {"rope_type", "type"};

	for (size_t p = 0; p < 2; p++)
		for (size_t n = 0; n < 2; n++)
		{
			char		key[64];
			const char *s;

			snprintf(key, sizeof(key), "%s%s", prefixes[p], names[n]);
			if ((s = conf_str(r->c, key, NULL)) != NULL)
			{
				r->prefix = prefixes[p];
				return s;
			}
		}
	r->prefix = prefixes[0];
	return "default";
}

bool
rope_inv_freq(const Conf *c, int rot_dim, float *inv_freq, Err *e)
{
	RopeConf	r = {.c = c, .half = rot_dim / 2};
	const char *type = rope_type(&r);
	double		theta = conf_num(c, "rope_theta", 10000.0);
	char		buf[65];

	theta = conf_num(c, "rope_parameters.rope_theta", theta);
	if (!(theta > 0) || !isfinite(theta))
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"rope_theta\"");
	if (r.half < 1 || r.half > (int) (sizeof(r.freq) / sizeof(r.freq[0])) || rot_dim % 2 != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid head dimension: %d", rot_dim);
	for (size_t k = 0; k < N_KINDS; k++)
	{
		if (strcmp(kinds[k].name, type) != 0)
			continue;
		for (int i = 0; i < r.half; i++)
		{
			float		x = (float) (2 * i) / (float) rot_dim;

			r.freq[i] = 1.0f / (float) pow((double) (float) theta, (double) x);
		}
		if (!kinds[k].scale(&r, e))
			return false;
		memcpy(inv_freq, r.freq, (size_t) r.half * sizeof(float));
		return true;
	}
	err_set(e, ERR_UNSUPPORTED, "RoPE scaling type \"%s\" is not supported",
			dec_printable(type, buf, sizeof(buf)));
	return err_hint(e, "Supported types are default, linear and llama3.");
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
