/*
 * sample_op.h
 *	  The op `sample` for a device that is the CPUs (hostdev.h): a KSample's lists applied in plain
 *	  loops, then the engine's own sampler, so tokens and log-probabilities equal those of a core whose
 *	  device doesn't sample.
 *
 * It overwrites its input, as an op may, and counts rows.
 */
#ifndef VLLM_TESTS_SAMPLE_OP_H
#define VLLM_TESTS_SAMPLE_OP_H

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "core/core_internal.h"
#include "kernels.h"

static struct
{
	atomic_int	calls;
	atomic_int	rows;
}			sample_ops;

static inline float
sample_op_finite(float x)
{
	return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/* Apply biases and penalties. */
static inline void
sample_op_change(const KSample *k, const uint32_t *words, float *x)
{
	const int32_t *ids = (const int32_t *) words + k->bias_at;
	const float *add = (const float *) words + k->bias_at + k->n_bias;

	for (int i = 0; i < k->n_bias; i++)
		x[ids[i]] += add[i];
	ids = (const int32_t *) words + k->pen_at;
	for (int i = 0; i < k->n_pen; i++)
	{
		float	   *at = &x[ids[i]];
		int			count = ids[k->n_pen + i];

		if (k->repetition != 1)
			*at = sample_op_finite(*at > 0 ? *at / k->repetition : *at * k->repetition);
		*at -= k->frequency * (float) count;
		*at = sample_op_finite(count > 0 ? *at - k->presence : *at);
	}
}

/* x: the model's logits */
static inline void
sample_op_report(const KSample *k, const uint32_t *given, float *x, int width, int n_valid, KSampled *out)
{
	LogprobWant want = {.top = k->n_logprobs, .logits = k->as_logits != 0};
	Logprob		e[KSAMPLE_TOP + 1];
	int			n;

	for (int i = 0; given != NULL && i < width; i++)
		if (i >= n_valid || (given[i / 32] >> i % 32 & 1) == 0)
			x[i] = -INFINITY;
	n = logprobs_row(x, width, n_valid, out->id, &want, e);
	out->rank = e[0].rank;
	out->logprob = e[0].value;
	out->n_top = k->n_logprobs < n_valid ? k->n_logprobs : n_valid;
	for (int i = 0; i < n; i++)
		if (e[i].rank <= out->n_top)
		{
			/* among equals the own token gets the last one's rank, and a top token the rank of its place */
			out->top_id[e[i].rank - 1] = e[i].id;
			out->top_logprob[e[i].rank - 1] = e[i].value;
		}
}

static inline void
sample_op(KPool *pool, void *rows, int n, float *logits, int width, int n_valid, KSampled *out)
{
	const uint32_t *words = rows;
	Sampler    *s = smp_new(NULL, width, n_valid);
	float	   *x = mem_alloc((size_t) width * sizeof(float));

	(void) pool;
	for (int i = 0; i < n; i++)
	{
		const KSample *k = (const KSample *) rows + i;
		const float *from = logits + (size_t) k->row * (size_t) width;
		GenParams	p;
		SampleRow	row = {.params = &p, .seed = k->seed, .position = (int) k->pos,
			.mask = k->mask_at != 0 ? words + k->mask_at : NULL};
		bool		finite = true;

		genparams_init(&p);
		p.temperature = k->inv_t > 0 ? 1.0 / (double) k->inv_t : 0;
		p.top_p = k->top_p;
		p.top_k = k->top_k;
		p.min_p = exp((double) k->min_p_log);
		memcpy(x, from, (size_t) width * sizeof(float));
		for (int id = 0; id < n_valid; id++)
			finite = finite && isfinite(x[id]);
		sample_op_change(k, words, x);
		memset(&out[i], 0xff, sizeof(out[i]));
		out[i].id = KSAMPLE_NOT_FINITE;
		if (finite)
		{
			smp_run(s, &row, 1, x);
			out[i].id = row.id;
		}
		memcpy(x, from, (size_t) width * sizeof(float));
		if (out[i].id >= 0 && k->n_logprobs >= 0)
			sample_op_report(k, k->given_at != 0 ? words + k->given_at : NULL, x, width, n_valid, &out[i]);
	}
	memset(rows, 0xff, (size_t) n * sizeof(KSample));
	atomic_fetch_add(&sample_ops.calls, 1);
	atomic_fetch_add(&sample_ops.rows, n);
	mem_free(x);
	smp_free(s);
}

/* Return a copy of k with this op. */
static inline const Kernels *
with_sample_op(const Kernels *k)
{
	static Kernels with;

	with = *k;
	with.sample = sample_op;
	return &with;
}

#endif
