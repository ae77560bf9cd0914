/*
 * avx2_all.h
 *	  Shared by the two AVX2 files: headers, target, templates.
 *
 * The includer defines ISA_NAME, and ISA_VNNI for byte dot products, and includes this once.  All
 * functions after the pragma are compiled for these instructions, whatever the build's flags; dispatch.c
 * ensures that only a CPU with these instructions runs them.  With VLLM_KERNELS_EMU the table is called
 * kernels_<name>_emu and runs on any CPU with AVX2 (tests only, see emu/vnni_emu.h).
 */
#include <immintrin.h>
#include <math.h>

#include "kutil.h"

#define KPASTE_(a, b)	a##b
#define KPASTE(a, b)	KPASTE_(a, b)
#define KSTR_(a)		#a
#define KSTR(a)			KSTR_(a)

#if defined(ISA_VNNI) && !defined(VLLM_KERNELS_EMU)
#define ISA_TARGET	"avx2,fma,f16c,avxvnni"
#else
#define ISA_TARGET	"avx2,fma,f16c"
#endif

#define KPRAGMA(x)	_Pragma(#x)
#ifdef __clang__
#define KATTR(t)	KPRAGMA(clang attribute push(__attribute__((target(t))), apply_to=function))
KATTR(ISA_TARGET)
#else
#pragma GCC push_options
#define KTARGET(t)	KPRAGMA(GCC target(t))
KTARGET(ISA_TARGET)
#endif

#ifdef VLLM_KERNELS_EMU
#include "emu/vnni_emu.h"
#define KNAME	KPASTE(ISA_NAME, _emu)
#else
#define KNAME	ISA_NAME
#endif

#include "cpu/simd_avx2.h"

#define QTILE "cpu/tmpl/tmpl_qtile.h"
#include "cpu/tmpl/tmpl_all.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
