/*
 * avx2.c
 *	  The implementation for AVX2, FMA and F16C: the templates over simd_avx2.h.
 *
 * All functions after the pragma are compiled for these instructions, whatever
 * the build's flags; dispatch.c sees to it that only such a CPU runs them.
 */
#ifdef __x86_64__

#include <immintrin.h>
#include <math.h>

#include "kutil.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to=function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "cpu/simd_avx2.h"

#define QTILE "cpu/tmpl_qtile.h"
#define KNAME avx2
#include "cpu/tmpl_all.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif							/* __x86_64__ */
