/*
 * avx2.c
 *	  The implementation for AVX2, FMA and F16C.
 */
#ifdef __x86_64__

#define ISA_NAME	avx2
#include "cpu/avx2_all.h"

#endif							/* __x86_64__ */
