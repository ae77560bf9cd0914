/*
 * avx512_bf16.c
 *	  AVX-512 with VNNI and bfloat16 dot products: BF16 uses vdpbf16ps.
 *
 *	  Activations of BF16 products are rounded to bfloat16.
 */
#ifdef __x86_64__

#define ISA_NAME	avx512_bf16
#define ISA_VNNI
#define ISA_BF16
#include "cpu/avx512_all.h"

#endif							/* __x86_64__ */
