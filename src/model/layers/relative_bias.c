/*
 * relative_bias.c
 *	  A bias of attention's scores by the distance of two tokens, in buckets, as in T5 (Raffel et al.
 *	  2020, arXiv:1910.10683) and MPNet.
 *
 * Half of the buckets are for keys after the row, half for the others.  In each half the first buckets
 * are for one distance each; the others grow with the distance, up to MAX_DISTANCE, after which all
 * distances share the last one.  The model has a number for each bucket and head; attention reads them
 * by distance (KAttn.bias), so dec_bias_table() expands them once.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include <math.h>

#include "model/weights/device_placement.h"

#define MAX_DISTANCE 128

/* Return the bucket of a key whose position minus the row's is `distance`. */
static int
bias_bucket(int distance, int n_buckets)
{
	int			half = n_buckets / 2;
	int			exact = half / 2;
	int			n = distance < 0 ? -distance : distance;
	int			first = distance > 0 ? half : 0;
	int			large;

	if (n < exact)
		return first + n;
	/* in float, with the reference's rounding: otherwise distances at the border of two buckets would
	 * differ */
	large = exact + (int) (logf((float) n / (float) exact) / (float) log((double) MAX_DISTANCE / exact) *
						   (float) (half - exact));
	return first + (large < half ? large : half - 1);
}

void
dec_bias_table(Decoder *d)
{
	int			span = d->c.max_len;
	size_t		width = 2 * (size_t) span - 1;
	const float *buckets = dec_host(d, d->buckets);

	d->bias_span = span;
	for (int h = 0; h < d->c.n_heads; h++)
		for (int i = 0; i < 2 * span - 1; i++)
			d->bias[(size_t) h * width + (size_t) i] =
				buckets[h * d->c.bias_buckets + bias_bucket(i - (span - 1), d->c.bias_buckets)];
}
