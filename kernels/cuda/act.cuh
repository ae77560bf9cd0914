/*
 * act.cuh
 *	  Activations (acts.def) of one number, equal to ref's formulas within a few units of the last
 *	  place.
 *
 * x * sigmoid(a) is computed from e^-|a|, which can't overflow; if that is the remaining factor of x, it
 * is applied as two factors e^(-|a|/2), so that results become subnormal with one rounding.  Divisions
 * are exact (no --use_fast_math).
 */
#ifndef VLLM_KERNELS_CUDA_ACT_CUH
#define VLLM_KERNELS_CUDA_ACT_CUH

#include "cuda/common.cuh"
#include "kernels.h"

static __device__ __forceinline__ float
times_sigmoid(float x, float a)
{
	float		half = expf(-0.5f * fabsf(a));

	/* a NaN may take either branch */
	return (a < 0.0f ? x * half * half : x) / (1.0f + half * half);
}

static __device__ __forceinline__ float
act_silu(float x)
{
	return times_sigmoid(x, x);
}

/*
 * x * Phi(x) as max(x, 0) - t * Q(t), t = |x|: the upper tail Q is e^(-t^2/2) times Mills' ratio, a rational
 * function of positive coefficients up to t = 15, where Q is 0 (cpu/tmpl/tmpl_act.h has the same one).
 */
static __device__ __forceinline__ float
act_gelu(float x)
{
	float		t = fabsf(x) > 15.0f ? 15.0f : fabsf(x);
	float		half = expf(-0.25f * (t * t));
	float		p = 4.153187893e-3f,
				q = 1.041038659e-2f;

	p = fmaf(p, t, 4.088113787e-2f);
	p = fmaf(p, t, 1.839696047e-1f);
	p = fmaf(p, t, 4.392847323e-1f);
	p = fmaf(p, t, 5.0e-1f);
	q = fmaf(q, t, 1.024799303e-1f);
	q = fmaf(q, t, 4.714097958e-1f);
	q = fmaf(q, t, 1.205551300f);
	q = fmaf(q, t, 1.676454470f);
	q = fmaf(q, t, 1.0f);
	return (x > 0.0f ? x : 0.0f) - t * (p / q) * half * half;
}

/* (1 + tanh(u)) / 2 = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static __device__ __forceinline__ float
act_gelu_tanh(float x)
{
	return times_sigmoid(x, fmaf(x * x, 0.0713548162726f, 1.59576912161f) * x);
}

static __device__ __forceinline__ float
act_gelu_quick(float x)
{
	return times_sigmoid(x, 1.702f * x);
}

static __device__ __forceinline__ float
act_relu(float x)
{
	return x <= 0.0f ? 0.0f : x;	/* a NaN stays */
}

static __device__ __forceinline__ float
act_relu2(float x)
{
	return act_relu(x) * act_relu(x);
}

static __device__ __forceinline__ float
act_swiglu_oai(float x)
{
	return act_gelu_quick(x > 7.0f ? 7.0f : x);
}

static __device__ __forceinline__ float
up_plain(float u)
{
	return u;
}

static __device__ __forceinline__ float
up_oai(float u)
{
	return (u > 7.0f ? 7.0f : u < -7.0f ? -7.0f : u) + 1.0f;
}

/* `a` is the same in all threads */
static __device__ __forceinline__ float
act_of(KAct a, float x)
{
	switch (a)
	{
#define KACT(id, gate, up) \
		case KACT_##id: \
			return act_##gate(x);
#include "acts.def"
#undef KACT
		case KACT_TANH:
			return tanhf(x);
		case KACT_SIGMOID:
			return times_sigmoid(1.0f, x);
		default:
			return x;
	}
}

static __device__ __forceinline__ float
up_of(KAct a, float u)
{
	switch (a)
	{
#define KACT(id, gate, up) \
		case KACT_##id: \
			return up_##up(u);
#include "acts.def"
#undef KACT
		default:
			return u;
	}
}

#endif
