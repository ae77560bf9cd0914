/*
 * rope.h
 *	  Rotary position embeddings: frequencies by the configuration's scaling, and
 *	  the table of cos and sin that the rope kernel reads.
 */
#ifndef VLLM_MODEL_LAYERS_ROPE_H
#define VLLM_MODEL_LAYERS_ROPE_H

#include <stdbool.h>

#include "base/config_map.h"
#include "base/err.h"
#include "pool.h"

/* Where a table's parameters stand, if the model has more than one, and its defaults. */
typedef struct RopeKeys
{
	const char *section;		/* type of its layers: an object of rope_parameters */
	const char *theta_key;		/* NULL = "rope_theta" */
	double		theta;			/* without that key; 0 = 10000 */
	bool		local;			/* scalings without a section don't apply */
	bool		exact;			/* YaRN's limits aren't rounded to pairs, unless a key says so */
	bool		tempered;		/* the architecture knows llama_4_scaling_beta */
} RopeKeys;

/* The context length that a scaling extends max_len to. */
int			rope_max_len(const Conf *c, const RopeKeys *k, int max_len);

/* The factor that DeepSeek's mscale_all_dim puts on q k, 1 without it. */
double		rope_attn_factor(const Conf *c, const RopeKeys *k);

/*
 * inv_freq[rot_dim / 2]: radians per position of each pair, after scaling; *mscale: the
 * factor of cos and sin.  Reads rope_theta and rope_scaling.* or the newer
 * rope_parameters.*, and first of all override.rope_theta and override.rope_scaling.*,
 * a model's options.  max_len: positions that the model is loaded for.
 * ERR_UNSUPPORTED names a scaling that rope.def lacks; ERR_BAD_FILE a parameter
 * that makes no sense.
 */
bool		rope_freqs(const Conf *c, const RopeKeys *k, int rot_dim, int max_len, float *inv_freq,
					   float *mscale, Err *e);

/* cs[max_pos][rot_dim / 2][2]: mscale times cos and sin of pos * inv_freq[i] */
void		rope_table(KPool *pool, const float *inv_freq, int rot_dim, float mscale, int max_pos, float *cs);

#endif
