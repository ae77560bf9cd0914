/*
 * test_norm.cu
 *	  kernels/cuda/norm.cu under emulation against kernels/ref.
 */
#include "emu_test.h"
#include "cuda/cuda_ops.h"

#include <vector>

extern "C"
{
#include "kernels.h"
extern const Kernels kernels_ref;
}

static void
one(const Kernels *ref, int rows, int dim, bool weight, bool in_place)
{
	std::vector<float> x(rows * dim),
				w(dim),
				want(rows * dim),
				got(rows * dim),
				alone(dim);

	for (size_t i = 0; i < x.size(); i++)
		x[i] = (float) ((int) (dice() % 2001) - 1000) / 300.0f;
	for (int i = 0; i < dim; i++)
		w[i] = (float) ((int) (dice() % 2001) - 1000) / 500.0f;
	ref->rmsnorm(NULL, want.data(), x.data(), weight ? w.data() : NULL, rows, dim, 1e-5f);
	all_orders([&]() {
		float	   *dx = dev(x.data(), x.size()),
				   *dw = dev(w.data(), w.size()),
				   *dy = in_place ? dx : dev<float>(NULL, x.size());
		double		worst = 0;
		int			differ = 0;

		cuda_rmsnorm(dy, dx, weight ? dw : NULL, rows, dim, 1e-5f, NULL);
		host(got.data(), dy, got.size());
		for (size_t i = 0; i < got.size(); i++)
		{
			double		e = fabs((double) got[i] - want[i]) / (fabs((double) want[i]) + 1e-6);

			worst = e > worst || e != e ? e : worst;
		}
		CHECK(worst < 1e-6, "%d x %d: relative error %g", rows, dim, worst);
		/* each row by itself: the same bits */
		for (int i = 0; i < rows; i++)
		{
			float	   *d1 = dev(x.data() + (size_t) i * dim, dim);

			cuda_rmsnorm(d1, d1, weight ? dw : NULL, 1, dim, 1e-5f, NULL);
			host(alone.data(), d1, dim);
			differ += memcmp(alone.data(), got.data() + (size_t) i * dim, dim * sizeof(float)) != 0;
			cudaFree(d1);
		}
		CHECK(differ == 0, "%d x %d: %d rows differ alone", rows, dim, differ);
		cudaFree(dx);
		cudaFree(dw);
		if (!in_place)
			cudaFree(dy);
	});
}

int
main(void)
{
	static const int dims[] = {1, 3, 4, 31, 64, 255, 256, 257, 896, 1000, 1028, 4096};

	for (int dim : dims)
		for (int rows : {1, 2, 7})
			one(&kernels_ref, rows, dim, (rows & 1) != 0, dim % 2 == 0);
	return check_done("test_emu_norm");
}
