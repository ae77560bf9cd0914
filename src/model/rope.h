/*
 * rope.h
 *	  Rotary position embeddings: frequencies by the configuration's scaling, and
 *	  the table of cos and sin that the rope kernel reads.
 */
#ifndef VLLM_MODEL_ROPE_H
#define VLLM_MODEL_ROPE_H

#include <stdbool.h>

#include "base/conf.h"
#include "base/err.h"
#include "pool.h"

/*
 * inv_freq[rot_dim / 2]: radians per position of each pair, after scaling.
 * Reads rope_theta and rope_scaling.* or the newer rope_parameters.*.
 * ERR_UNSUPPORTED names a scaling that rope.def lacks; ERR_BAD_FILE a parameter
 * that makes no sense.
 */
bool		rope_inv_freq(const Conf *c, int rot_dim, float *inv_freq, Err *e);

/* cs[max_pos][rot_dim / 2][2]: mscale times cos and sin of pos * inv_freq[i] */
void		rope_table(KPool *pool, const float *inv_freq, int rot_dim, float mscale, int max_pos, float *cs);

#endif
