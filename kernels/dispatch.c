/*
 * dispatch.c
 *	  The implementations, and which of them this CPU can run.
 *
 * A feature counts only if the CPU has it and the operating system saves its registers (XCR0).  The
 * table is kernels.def.
 */
#include "kutil.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#define CPU_AVX2		1u		/* AVX2, FMA, F16C */
#define CPU_AVX512		2u		/* AVX-512 F, BW, VL, DQ */
#define CPU_VNNI		4u
#define CPU_BF16		8u
#define CPU_AVX_VNNI	16u		/* VNNI in AVX2's encoding, on 256 bits */

#define KERNELS(name, needs) extern const Kernels kernels_##name;
#include "kernels.def"
#undef KERNELS

static const Kernels *const all[] = {
#define KERNELS(name, needs) &kernels_##name,
#include "kernels.def"
#undef KERNELS
	NULL
};

static const unsigned needs[] = {
#define KERNELS(name, needs) needs,
#include "kernels.def"
#undef KERNELS
};

#ifdef __x86_64__
static unsigned
cpu_features(void)
{
	unsigned	a,
				b,
				c,
				d,
				ext = 0,
				max,
				xcr0,
				unused,
				f = 0;

	if (!__get_cpuid(1, &a, &b, &c, &d))
		return 0;
	/* OSXSAVE, AVX, FMA, F16C */
	if (!(c >> 27 & 1) || !(c >> 28 & 1) || !(c >> 12 & 1) || !(c >> 29 & 1))
		return 0;
	__asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(unused) : "c"(0));
	if ((xcr0 & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &max, &b, &c, &d))
		return 0;
	if (max >= 1)
		__cpuid_count(7, 1, ext, unused, a, d);
	if (b >> 5 & 1)
		f |= CPU_AVX2;
	if (ext >> 4 & 1)
		f |= CPU_AVX_VNNI;
	/* opmask and the upper zmm state; F, DQ, BW, VL */
	if ((xcr0 & 0xe6) != 0xe6 ||
		!(b >> 16 & 1) || !(b >> 17 & 1) || !(b >> 30 & 1) || !(b >> 31 & 1))
		return f;
	f |= CPU_AVX512;
	if (c >> 11 & 1)
		f |= CPU_VNNI;
	if (ext >> 5 & 1)
		f |= CPU_BF16;
	return f;
}
#else
static unsigned
cpu_features(void)
{
	return 0;
}
#endif

const Kernels *const *
kernels_all(void)
{
	return all;
}

bool
kernels_usable(const Kernels *k)
{
	unsigned	have = cpu_features();

	for (int i = 0; all[i] != NULL; i++)
		if (all[i] == k)
			return (needs[i] & ~have) == 0;
	return false;
}

const Kernels *
kernels_select(const char *isa, const char **why)
{
	const Kernels *best = NULL;
	const char *reason = NULL;

	for (int i = 0; all[i] != NULL; i++)
	{
		bool		is_auto = isa == NULL || strcmp(isa, "auto") == 0;

		if (!is_auto && strcmp(isa, all[i]->name) != 0)
			continue;
		if (kernels_usable(all[i]))
			best = all[i];
		else if (!is_auto)
			reason = "this CPU (or its operating system) lacks the instructions";
	}
	if (best == NULL && reason == NULL)
		reason = "there is no such implementation";
	if (why != NULL)
		*why = best ? NULL : reason;
	return best;
}
