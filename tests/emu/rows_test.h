/*
 * rows_test.h
 *	  Helpers for tests of row-wise kernels: rows on the device, and comparisons.
 */
#ifndef VLLM_TESTS_EMU_ROWS_TEST_H
#define VLLM_TESTS_EMU_ROWS_TEST_H

#include <vector>

extern "C"
{
#include "kernels.h"
}
#include "emu_test.h"
#include "cuda/cuda_ops.h"

extern "C"
{
extern const Kernels kernels_ref;
}

typedef std::vector<float> Floats;

/* n of T on the device during the life of this object. */
template <typename T> struct DevOf
{
	T		   *p;
	size_t		n;

	DevOf(const T *x, size_t n_) : p(dev<T>(x, n_ > 0 ? n_ : 1)), n(n_) {}
	DevOf(const std::vector<T> &x) : DevOf(x.data(), x.size()) {}
	DevOf(const DevOf &) = delete;
	~DevOf()
	{
		cudaFree(p);
	}

	std::vector<T>
	get(void) const
	{
		std::vector<T> x(n);

		host(x.data(), p, n);
		return x;
	}
};

typedef DevOf<float> Dev;

/* Return n elements of operands at p, on the device, as floats. */
static inline Floats
operand_rows(const void *p, KType as, size_t n)
{
	Floats		x(n);
	std::vector<uint16_t> h(n);

	if (as == KT_F32)
	{
		host(x.data(), (const float *) p, n);
		return x;
	}
	host(h.data(), (const uint16_t *) p, n);
	for (size_t i = 0; i < n; i++)
		x[i] = as == KT_BF16 ? kbf16_to_f32(h[i]) : kf16_to_f32(h[i]);
	return x;
}

/* Return the relative error of rounding to an operand. */
static inline double
rounding(KType as)
{
	return as == KT_F32 ? 0 : as == KT_BF16 ? 0x1p-8 : 0x1p-11;
}

static inline Floats
row_of(const Floats &x, int i, int dim)
{
	return Floats(x.begin() + (size_t) i * dim, x.begin() + (size_t) (i + 1) * dim);
}

/* Are the bits the same? */
static inline bool
same(const Floats &a, const Floats &b)
{
	return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/* Are all within a relative and an absolute error, and NaN and infinities in the same places? */
static inline bool
near(const Floats &got, const Floats &want, double relative, double absolute)
{
	for (size_t i = 0; i < want.size(); i++)
		if (isnan(want[i]) ? !isnan(got[i]) : got[i] != want[i] &&
			!(fabs((double) got[i] - want[i]) <= relative * fabs((double) want[i]) + absolute))
		{
			fprintf(stderr, "element %zu is %.9g, not %.9g\n", i, (double) got[i], (double) want[i]);
			return false;
		}
	return got.size() == want.size();
}

#endif
