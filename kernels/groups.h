/*
 * groups.h
 *	  A uniform view of quantized weights: groups of 32 codes with their scales.
 *
 * All blocked formats can be expressed this way.  With h = i / 16:
 *
 *		w[i] = (d * sc[h]) * q[i] + m * mn[h]
 *
 * where each product is exact in float, so only the sum rounds.  Formats without sub-scales of 16 have
 * sc = mn = 1 (their scales are in d and m), those without a minimum have m = -0.0.  ref.c multiplies
 * with these groups; implementations may pack from them.  Private to kernels/.
 */
#ifndef VLLM_KERNELS_GROUPS_H
#define VLLM_KERNELS_GROUPS_H

#include <stdbool.h>

#include "kutil.h"

#define KGROUP	32				/* weights in a group, as in a block of activations */

typedef struct KGroup
{
	int8_t		q[KGROUP];
	float		d;
	float		m;
	int8_t		sc[2];
	int8_t		mn[2];
	int8_t		ds;				/* small factors that d and m already include, */
	int8_t		ms;				/* for packers that need the original halves */
} KGroup;

/* Get the ktype_block(t) / 32 groups of one block at src. */
void		kgroup_get(KType t, const void *src, KGroup *g);
/* Return true if the format consists of groups: all except the floats, INT8 and FP8. */
bool		ktype_grouped(KType t);
/* Return true if the format has a minimum (m, mn). */
bool		ktype_has_min(KType t);
/* Return true if the format has scales for 16 weights each (sc, mn). */
bool		ktype_has_halves(KType t);

#endif
