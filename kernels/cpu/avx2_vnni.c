/*
 * avx2_vnni.c
 *	  AVX2 with byte dot products (AVX-VNNI), which some CPUs have without AVX-512: quantized products
 *	  use vpdpbusd.
 */
#ifdef __x86_64__

#define ISA_NAME	avx2_vnni
#define ISA_VNNI
#include "cpu/avx2_all.h"

#endif							/* __x86_64__ */
