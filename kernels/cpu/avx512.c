/*
 * avx512.c
 *	  The implementation for AVX-512 F, BW, VL and DQ.
 */
#ifdef __x86_64__

#define ISA_NAME	avx512
#include "cpu/avx512_all.h"

#endif							/* __x86_64__ */
