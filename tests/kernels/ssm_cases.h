/*
 * ssm_cases.h
 *	  What the tests of state-space ops share: a step of three sequences, shapes, and how their numbers lie in
 *	  memory; for CPUs (test_ssm.c) and for CUDA (tests/emu/test_ssm.cu).
 *
 * y = conv(x), then out = scan(y); the conv has as many channels as the scan, and no B and C in it.
 */
#ifndef VLLM_TESTS_SSM_CASES_H
#define VLLM_TESTS_SSM_CASES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define N_SEQS	3
#define ROWS	29

static const int lengths[N_SEQS] = {17, 1, 11};
static const int32_t slots[N_SEQS] = {2, 0, 1};

typedef struct Shape
{
	int			heads;
	int			head_dim;
	int			state;
	int			groups;
	int			width;
	bool		wide;
	bool		gate;
	float		dt_max;
	bool		silu;
	KType		as;				/* the scan's rows on a device */
} Shape;

static const Shape shapes[] = {
	{64, 1, 16, 1, 4, true, true, INFINITY, true, KT_F32},
	{37, 1, 5, 1, 2, true, false, 0.5f, false, KT_BF16},
	{4, 16, 32, 2, 4, false, true, INFINITY, true, KT_F16},
	{6, 24, 20, 3, 3, false, false, 1.0f, true, KT_F32},
	{1, 7, 1, 1, 16, false, true, INFINITY, false, KT_F32},
	{3, 6, 100, 1, 1, true, true, INFINITY, true, KT_F32},
	{2, 5, 200, 2, 4, false, true, INFINITY, true, KT_F32},
	{2, 3, 260, 1, 4, false, true, INFINITY, true, KT_F32},
};

#define N_SHAPES ((int) (sizeof(shapes) / sizeof(shapes[0])))

/* arrays of random numbers: how many each has, and up to what */
typedef enum SsmArray
{
	SSM_X,						/* [ROWS][ldx]: x, then z */
	SSM_DT,						/* [ROWS][heads] */
	SSM_BC,						/* [ROWS][ldbc] */
	SSM_W,						/* [width + 1][dim]: the last is the bias */
	SSM_A,						/* to be made negative */
	SSM_D,						/* [2][heads]: D, the bias of dt */
	SSM_ARRAYS
} SsmArray;

static const float ssm_scale[SSM_ARRAYS] = {2.0f, 3.0f, 1.0f, 0.7f, 2.0f, 1.0f};

typedef struct Sizes
{
	int			dim;
	int			ldx;
	int			ldbc;
	size_t		n[SSM_ARRAYS];
	size_t		conv_state;		/* floats of a slot: the conv's come first, */
	size_t		stride;			/* and of one slot to the next */
} Sizes;

static inline Sizes
sizes_of(const Shape *s)
{
	Sizes		z;

	z.dim = s->heads * s->head_dim;
	z.ldx = 2 * z.dim + 3;
	z.ldbc = 2 * s->groups * s->state + 5;
	z.n[SSM_X] = (size_t) ROWS * (size_t) z.ldx;
	z.n[SSM_DT] = (size_t) ROWS * (size_t) s->heads;
	z.n[SSM_BC] = (size_t) ROWS * (size_t) z.ldbc;
	z.n[SSM_W] = (size_t) (s->width + 1) * (size_t) z.dim;
	z.n[SSM_A] = (size_t) s->heads * (size_t) (s->wide ? s->state : 1);
	z.n[SSM_D] = (size_t) 2 * (size_t) s->heads;
	z.conv_state = (size_t) (s->width - 1) * (size_t) z.dim;
	z.stride = z.conv_state + (size_t) z.dim * (size_t) s->state + 3;
	return z;
}

/* where they are, of the host's or the device's memory */
typedef struct Where
{
	const float *in[SSM_ARRAYS];
	float	   *state;			/* [N_SEQS][stride] */
	float	   *y;				/* of the convolution, [ROWS][dim] */
} Where;

/* the conv's bias, or NULL */
static inline const float *
conv_bias(const Shape *s, const Sizes *z, const Where *at)
{
	return s->gate ? at->in[SSM_W] + (size_t) s->width * (size_t) z->dim : NULL;
}

static inline KScan
scan_of(const Shape *s, const Sizes *z, const Where *at, int row0)
{
	const float *bc = at->in[SSM_BC] + (size_t) row0 * (size_t) z->ldbc;
	KScan		a;

	memset(&a, 0, sizeof(a));
	a.heads = s->heads;
	a.head_dim = s->head_dim;
	a.state = s->state;
	a.groups = s->groups;
	a.x = at->y + (size_t) row0 * (size_t) z->dim;
	a.ldx = z->dim;
	a.dt = at->in[SSM_DT] + (size_t) row0 * (size_t) s->heads;
	a.lddt = s->heads;
	a.b = bc;
	a.c = bc + s->groups * s->state;
	a.ldbc = z->ldbc;
	a.z = s->gate ? at->in[SSM_X] + (size_t) row0 * (size_t) z->ldx + z->dim : NULL;
	a.ldz = z->ldx;
	a.a = at->in[SSM_A];
	a.a_wide = s->wide;
	a.d = at->in[SSM_D];
	a.dt_bias = s->gate ? at->in[SSM_D] + s->heads : NULL;
	a.dt_min = 0.01f;
	a.dt_max = s->dt_max;
	return a;
}

static inline void
positions(int32_t *start, int32_t *pos)
{
	start[0] = 0;
	for (int q = 0; q < N_SEQS; q++)
	{
		start[q + 1] = start[q] + lengths[q];
		for (int i = 0; i < lengths[q]; i++)
			pos[start[q] + i] = i;
	}
}

#endif
