/*
 * avx512_vnni.c
 *	  AVX-512 with byte dot products (VNNI): quantized products use vpdpbusd.
 */
#ifdef __x86_64__

#define ISA_NAME	avx512_vnni
#define ISA_VNNI
#include "cpu/avx512_all.h"

#endif							/* __x86_64__ */
