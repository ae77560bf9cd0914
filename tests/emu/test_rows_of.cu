/*
 * test_rows_of.cu
 *	  kernels/cuda/rows_of.cu under emulation: rows of matrices of every packed type, with the bits of
 *	  the file, as floats, and as operands, for which these are rounded.
 */
#include "rows_test.h"
#include "mats.h"

#define N	134					/* two strips and a part */

static const int32_t ids[] = {0, 63, 64, 133, 134, -1, 77, 0x7fffffff, 5};

/* Unpack outputs of a matrix as operands, from a strip's first one on. */
static void
check_unpack(const KMat *m, const uint8_t *file, int first, int n, KType as)
{
	int			ldy = (m->k + 31) / 32 * 32 + 8;
	std::vector<uint16_t> got((size_t) n * ldy, 0x7777);
	DevOf<uint16_t> y(got);
	Floats		want(m->k);
	int			differ = 0;

	cuda_unpack(m, first, n, y.p, as, ldy, NULL);
	got = y.get();
	for (int i = 0; i < n; i++)
	{
		kblock_to_float(m->type, file + (first + i) * ktype_row_bytes(m->type, m->k), m->k, want.data());
		for (int k = 0; k < ldy; k++)
		{
			float		f = k < m->k ? want[k] : 0.0f;

			differ += got[(size_t) i * ldy + k] != (as == KT_BF16 ? kf32_to_bf16(f) : kf32_to_f16(f));
		}
	}
	CHECK(differ == 0, "%s as %s: %d of %d x %d differ", ktype_name(m->type), ktype_name(as), differ, n,
		  m->k);
}

static void
check_type(KType t, int k)
{
	size_t		bytes = ktype_row_bytes(t, k);
	std::vector<uint8_t> file(N * bytes),
				packed(cuda_mat_bytes(t, N, k));
	KTensor		src = {};
	KMat		m = {t, N, k, packed.data(), packed.size()};
	int			n = (int) (sizeof(ids) / sizeof(ids[0])),
				ld = k + 3;

	for (int i = 0; i < N; i++)
		random_row(t, k, &file[i * bytes]);
	src.type = t;
	src.ndim = 2;
	src.shape[0] = N;
	src.shape[1] = k;
	src.data = file.data();
	cuda_mat_pack(&m, &src, 0, N);
	DevOf<uint8_t> data(packed);
	DevOf<int32_t> di(ids, n);
	KMat		dm = {t, N, k, data.p, packed.size()};

	all_orders([&]() {
		for (int first : {0, 2})
		{
			Dev			y(Floats((size_t) n * ld, 7.0f));
			Floats		got;

			cuda_rows_of(&dm, di.p, first, n, y.p, ld, NULL);
			got = y.get();
			for (int i = 0; i < n; i++)
			{
				int64_t		row = (int64_t) ids[i] + first;
				Floats		want(k, 0.0f);

				if (row >= 0 && row < N)
					kblock_to_float(t, &file[row * bytes], k, want.data());
				want.resize(ld, 7.0f);
				CHECK(same(want, row_of(got, i, ld)), "%s: row %lld of %d", ktype_name(t), (long long) row,
					  k);
			}
		}
		/* one row repeated */
		Dev			y(NULL, 3 * k);
		Floats		want(k);

		cuda_rows_of(&dm, NULL, 65, 3, y.p, k, NULL);
		kblock_to_float(t, &file[65 * bytes], k, want.data());
		for (int i = 0; i < 3; i++)
			CHECK(same(want, row_of(y.get(), i, k)), "%s: row 65", ktype_name(t));
		check_unpack(&dm, file.data(), 0, N, KT_BF16);
		check_unpack(&dm, file.data(), 64, 70, KT_F16);
	});
}

int
main(void)
{
	for (int t = 0; t < KT_COUNT; t++)
		if (cuda_layout((KType) t) == NULL)
			CHECK(t == KT_NV4 || t > KT_FP8, "%s can't be packed", ktype_name((KType) t));
		else
			for (int k : {1, 96, 256, 512})
				if (k % ktype_block((KType) t) == 0)
					RUN(check_type((KType) t, k));
	return check_done("test_emu_rows_of");
}
