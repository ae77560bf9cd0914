/*
 * convert.c
 *	  Exact scalar conversions, and the KV strides.
 *
 * Conversions to half, bfloat16 and FP8 round to nearest even; a NaN stays a (quiet) NaN, subnormals are
 * kept.  tests/kernels/conform checks all 65,536 patterns.
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

float
kf8_to_f32(KType t, uint8_t code)
{
	uint32_t	sign = (uint32_t) (code & 0x80) << 24;
	uint32_t	mag = code & 0x7f;

	if (t == KT_F8_E5M2)		/* the upper half of a half */
		return kf16_to_f32((uint16_t) (code << 8));
	if (mag == 0x7f)
		return k_float(sign | 0x7fc00000u);
	/* as halves: the exponent bias differs by 120 */
	return k_float(sign | k_bits(k_float(mag << 20) * 0x1p120f));
}

uint8_t
kf32_to_f8(KType t, float f)
{
	bool		e4 = t == KT_F8_E4M3;
	uint32_t	u = k_bits(f);
	uint8_t		sign = (uint8_t) (u >> 24 & 0x80);
	uint32_t	mag = u & 0x7fffffffu;
	uint32_t	most = e4 ? 0x43e00000u : 0x47600000u;	/* 448, 57344 */
	uint32_t	normal = e4 ? 0x3c800000u : 0x38800000u;	/* 2^-6, 2^-14 */
	float		magic = e4 ? 0x1p14f : 0x1p7f;	/* its last bit is the smallest subnormal */
	int			drop = e4 ? 20 : 21;

	if (mag > 0x7f800000u || (e4 && mag == 0x7f800000u))
		return sign | 0x7f;
	if (mag == 0x7f800000u)
		return sign | 0x7c;
	if (mag < normal)			/* subnormal: let the FPU round */
		return sign | (uint8_t) (k_bits(k_float(mag) + magic) - k_bits(magic));
	if (mag > most)
		mag = most;
	mag -= normal - (1u << 23);
	return sign | (uint8_t) ((mag + (1u << (drop - 1)) - 1 + (mag >> drop & 1)) >> drop);
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
