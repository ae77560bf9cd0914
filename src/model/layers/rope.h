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

/* The keys of a rotary table's parameters, if the model has more than one table, and their defaults. */
typedef struct RopeKeys
{
	const char *section;		/* layer type: an object of rope_parameters */
	const char *theta_key;		/* NULL = "rope_theta" */
	double		theta;			/* if that key is absent; 0 = 10000 */
	bool		local;			/* scalings without a section don't apply */
	bool		exact;			/* YaRN's limits aren't rounded to pairs, unless a key says so */
	bool		tempered;		/* the architecture supports llama_4_scaling_beta */
} RopeKeys;

/* Return the context length to which a scaling extends max_len. */
int			rope_max_len(const Conf *c, const RopeKeys *k, int max_len);

/* Return the factor of q k from DeepSeek's mscale_all_dim, 1 without it. */
double		rope_attn_factor(const Conf *c, const RopeKeys *k);

/*
 * Compute inv_freq[rot_dim / 2], radians per position of each pair after scaling, and *mscale, the
 * factor of cos and sin.  Reads rope_theta and rope_scaling.* or the newer rope_parameters.*; the
 * model's options override.rope_theta and override.rope_scaling.* take precedence.  max_len: positions
 * for which the model is loaded.  ERR_UNSUPPORTED names a scaling that rope.def lacks; ERR_BAD_FILE an
 * invalid parameter.
 */
bool		rope_freqs(const Conf *c, const RopeKeys *k, int rot_dim, int max_len, float *inv_freq,
					   float *mscale, Err *e);

/* Fill cs[max_pos][rot_dim / 2][2]: mscale times cos and sin of pos * inv_freq[i]. */
void		rope_table(KPool *pool, const float *inv_freq, int rot_dim, float mscale, int max_pos, float *cs);

#endif
