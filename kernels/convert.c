/*
 * convert.c
 *	  Exact scalar conversions, and the KV strides.
 *
 * Conversions to half and bfloat16 round to nearest even; a NaN stays a (quiet)
 * NaN, subnormals are kept.  tests/kernels/conform walks all 65,536 patterns.
 */
#include "kutil.h"

float
kbf16_to_f32(uint16_t h)
{
	return k_float((uint32_t) h << 16);
}

uint16_t
kf32_to_bf16(float f)
{
	uint32_t	u = k_bits(f);

	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t) (u >> 16 | 0x40);
	return (uint16_t) ((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float
kf16_to_f32(uint16_t h)
{
	uint32_t	sign = (uint32_t) (h & 0x8000) << 16;
	uint32_t	mag = h & 0x7fff;

	if (mag >= 0x7c00)			/* Inf, NaN (made quiet) */
		return k_float(sign | 0x7f800000u | (mag & 0x3ff) << 13 | (mag > 0x7c00) << 22);
	/* the exponent bias differs by 112; the product is exact, also for subnormals */
	return k_float(sign | k_bits(k_float(mag << 13) * 0x1p112f));
}

uint16_t
kf32_to_f16(float f)
{
	uint32_t	u = k_bits(f);
	uint16_t	sign = (uint16_t) (u >> 16 & 0x8000);
	uint32_t	mag = u & 0x7fffffffu;

	if (mag > 0x7f800000u)
		return sign | 0x7e00 | (mag >> 13 & 0x1ff);
	if (mag >= 0x477ff000u)		/* 65520 and above round to Inf */
		return sign | 0x7c00;
	if (mag < 0x38800000u)		/* subnormal: let the FPU round at 2^-24 */
		return sign | (uint16_t) (k_bits(k_float(mag) + 0.5f) - k_bits(0.5f));
	return sign | (uint16_t) ((mag - 0x38000000u + 0xfffu + (mag >> 13 & 1)) >> 13);
}

size_t
kv_layout(KvView *kv)
{
	size_t		elems = (size_t) kv->block_size * (size_t) (kv->head_dim + kv_vdim(kv));
	size_t		scales = kv->type == KT_INT8 ? 2 * (size_t) kv->block_size * sizeof(float) : 0;
	size_t		total;

	kv->head_stride = k_align64(elems * kv_elem(kv->type) + scales);
	if (__builtin_mul_overflow(kv->head_stride, (size_t) kv->n_kv_heads, &kv->layer_stride) ||
		__builtin_mul_overflow(kv->layer_stride, (size_t) kv->n_layers, &kv->block_stride) ||
		__builtin_mul_overflow(kv->block_stride, (size_t) kv->n_blocks, &total))
		return 0;
	return total;
}
