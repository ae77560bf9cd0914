/*
 * avx512_all.h
 *	  Shared by the three AVX-512 files: headers, target, templates.
 *
 * The includer defines ISA_NAME, ISA_TARGET's extensions by ISA_VNNI and
 * ISA_BF16, and includes this once.  With VLLM_KERNELS_EMU the table is called
 * kernels_<name>_emu and the code runs on a CPU with AVX2 (tests only, see
 * emu/avx512_emu.h).
 */
#include <math.h>

#include "kutil.h"

#define KPASTE_(a, b)	a##b
#define KPASTE(a, b)	KPASTE_(a, b)
#define KSTR_(a)		#a
#define KSTR(a)			KSTR_(a)

#ifdef VLLM_KERNELS_EMU
#include "emu/avx512_emu.h"
#define KNAME	KPASTE(ISA_NAME, _emu)
#define VNNI_TILES	kernels_vnni_tiles_emu
#define VNNI_STRIPS(f)	kernels_vnni_##f##_emu
#else
#include <immintrin.h>
#define KNAME	ISA_NAME
#define VNNI_TILES	kernels_vnni_tiles
#define VNNI_STRIPS(f)	kernels_vnni_##f
#if defined(ISA_BF16)
#define ISA_TARGET	"avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,fma,f16c"
#elif defined(ISA_VNNI)
#define ISA_TARGET	"avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c"
#else
#define ISA_TARGET	"avx512f,avx512bw,avx512vl,avx512dq,fma,f16c"
#endif

#ifdef __clang__
#define KPRAGMA(x)	_Pragma(#x)
#define KATTR(t)	KPRAGMA(clang attribute push(__attribute__((target(t))), apply_to=function))
KATTR(ISA_TARGET)
#else
#pragma GCC push_options
#define KPRAGMA(x)	_Pragma(#x)
#define KTARGET(t)	KPRAGMA(GCC target(t))
KTARGET(ISA_TARGET)
#endif
#endif							/* VLLM_KERNELS_EMU */

#include "cpu/simd_avx512.h"

#define QTILE "cpu/tmpl/tmpl_qtile.h"
#ifdef ISA_VNNI
#define qs_unpack_block	VNNI_STRIPS(unpack)
#define qs_tile			VNNI_STRIPS(strip_tile)
#endif
#ifdef ISA_BF16
#define MM_BF16_PAIRS
/* the quantized products are those of avx512_vnni */
#define Q_TILES_OF_OTHER	VNNI_TILES
#elif defined(ISA_VNNI)
#define Q_TILES_FOR_OTHERS	VNNI_TILES
#endif
#include "cpu/tmpl/tmpl_all.h"

#ifndef VLLM_KERNELS_EMU
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
