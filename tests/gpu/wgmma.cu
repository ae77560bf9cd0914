/*
 * wgmma.cu
 *	  Are wgmma's bits those of mma.sync?  And are they its own whatever the number of rows?
 *
 * The second is what vllm.cuda_kernels = wgmma rests on, so a difference fails: an instruction of 8 columns
 * against those of 32, 64 and 128, a decoded row against the same in a prompt.  The first is told, with how
 * many outputs differ and by how much; where all bits are the same, a later version may mix both kinds.
 * Under emulation, where products of either kind are the same sums, it must hold.  Needs compute capability
 * 9.0.
 */
#include "../emu/kv_world.h"
#include "cuda/pack.h"

extern "C"
{
#include "groups.h"
}

#ifdef __CUDACC__
#define EMULATED false
#define ROWS	600
#define OUTPUTS	1000
#define WIDTH	4096
#define KEYS_MOST 1500
#else
#define EMULATED true
#define ROWS	140
#define OUTPUTS	70
#define WIDTH	1120
#define KEYS_MOST 530
#endif

#define HEADS	8
#define KV_HEADS 2
#define HEAD_DIM 128

/* what both kinds gave: told, and under emulation compared */
static void
tell(const char *what, const std::vector<float> &mma, const std::vector<float> &wgmma)
{
	size_t		differ = 0;
	double		most = 0,
				size = 0;

	for (size_t i = 0; i < mma.size(); i++)
	{
		differ += memcmp(&mma[i], &wgmma[i], sizeof(float)) != 0;
		most = fmax(most, fabs((double) mma[i] - wgmma[i]));
		size += fabs((double) mma[i]);
	}
	size /= (double) mma.size();
	printf("%s: %zu of %zu outputs differ between mma.sync and wgmma, by %.2g of their mean size at most\n",
		   what, differ, mma.size(), most / size);
	CHECK(most / size < 1e-2, "%s: by %g", what, most / size);
	if (EMULATED)
		CHECK(differ == 0, "%s: they must not", what);
}

/* ---- products ---- */

/* a packed matrix of that type with random weights, on the device */
static KMat
random_matrix(KType type, int n, int k)
{
	size_t		row = ktype_row_bytes(type, k),
				block = ktype_row_bytes(type, ktype_block(type));
	std::vector<uint8_t> src(row * (size_t) n),
				packed(cuda_mat_bytes(type, n, k));
	KTensor		t = {};
	KMat		m = {type, n, k, packed.data(), packed.size()};

	for (uint8_t &b : src)
		b = (uint8_t) dice();
	for (int i = 0; type <= KT_BF16 && i < n * k; i++)
		kelem_put(type, src.data(), i, random_float(1.0f));
	/* all types here but floats begin with their scale, and Q4_1 has its minimum behind it */
	for (size_t at = 0; type > KT_BF16 && at < src.size(); at += block)
	{
		uint16_t	h = kf32_to_f16(random_float(0.02f));

		memcpy(&src[at], &h, 2);
		if (ktype_has_min(type))
			memcpy(&src[at + 2], &h, 2);
	}
	t.type = type;
	t.ndim = 2;
	t.shape[0] = n;
	t.shape[1] = k;
	t.data = src.data();
	cuda_mat_pack(&m, &t, 0, n);
	m.data = dev(packed.data(), packed.size());
	return m;
}

static void
products(KType type, KType as)
{
	KMat		m = random_matrix(type, OUTPUTS, WIDTH);
	std::vector<uint8_t> x((size_t) ROWS * WIDTH * 2);
	std::vector<float> by_mma((size_t) ROWS * OUTPUTS),
				all(by_mma.size()),
				some(by_mma.size());
	float	   *y = dev<float>(NULL, all.size());
	void	   *ws = dev<uint8_t>(NULL, cuda_mm_scratch(type, ROWS, WIDTH) + 16);
	uint8_t    *dx;
	char		what[64];

	for (int i = 0; i < ROWS * WIDTH; i++)
		kelem_put(as, x.data(), (size_t) i, random_float(2.0f));
	dx = dev(x.data(), x.size());
	snprintf(what, sizeof(what), "products, %s x %s", ktype_name(type), ktype_name(as));
	CHECK(cuda_mm(&m, dx, as, ROWS, WIDTH, y, OUTPUTS, NULL, ws, NULL, false), "%s", what);
	host(by_mma.data(), y, all.size());
	CHECK(cuda_mm(&m, dx, as, ROWS, WIDTH, y, OUTPUTS, NULL, ws, NULL, true), "%s", what);
	host(all.data(), y, all.size());
	tell(what, by_mma, all);
	for (int rows : {1, 8, 9, 32, 33, 128})
	{
		int			r0 = (int) (dice() % (unsigned) (ROWS - rows));

		cudaMemset(y, 0xff, all.size() * sizeof(float));
		CHECK(cuda_mm(&m, dx + (size_t) r0 * WIDTH * 2, as, rows, WIDTH, y, OUTPUTS, NULL, ws, NULL, true),
			  "%s", what);
		host(some.data(), y, (size_t) rows * OUTPUTS);
		CHECK(memcmp(some.data(), &all[(size_t) r0 * OUTPUTS], (size_t) rows * OUTPUTS * sizeof(float)) == 0,
			  "%s: %d rows from %d have other bits alone", what, rows, r0);
	}
	cudaFree((void *) m.data);
	cudaFree(dx);
	cudaFree(y);
	cudaFree(ws);
}

/* ---- attention ---- */

/* rows from .. to - 1 of the only sequence, whose K and V are there */
static std::vector<float>
attend(World &w, const float *dx, int ld, int from, int to, bool wgmma)
{
	CudaCaps	caps = {90, 227 * 1024, wgmma};
	Rows		rows(w, {from}, {to});
	std::vector<float> o((size_t) (to - from) * HEADS * HEAD_DIM);
	size_t		ws_size = cuda_attn_scratch(&w.ckv, HEADS, to - from, to);
	void	   *ws = dev<uint8_t>(NULL, ws_size + 16);
	float	   *out = dev<float>(NULL, o.size());
	KAttn		a = {};

	a.scale = 1.0f / sqrtf((float) HEAD_DIM);
	cuda_attn(&caps, &w.ckv, &rows.dr, dx + (size_t) from * ld, ld, HEADS, &a, out, KT_F32, ws, ws_size,
			  NULL);
	CHECK(cudaGetLastError() == cudaSuccess, "launch");
	host(o.data(), out, o.size());
	cudaFree(ws);
	cudaFree(out);
	return o;
}

static void
attention(KType type)
{
	const int	ld = (HEADS + 2 * KV_HEADS) * HEAD_DIM,
				keys = KEYS_MOST;
	World		w(type, HEAD_DIM, 0, KV_HEADS, 16, {keys}, false);
	std::vector<float> x = random_floats((size_t) keys * ld, 1.5f),
				all;
	float	   *dx = dev(x.data(), x.size());
	char		what[64];
	int			from = EMULATED ? keys - 40 : 0;

	{
		Rows		every(w, {0}, {keys});

		cuda_kv_write(&w.ckv, &every.dr, dx + HEADS * HEAD_DIM, ld, dx + (HEADS + KV_HEADS) * HEAD_DIM, ld,
					  NULL);
		cudaDeviceSynchronize();
	}
	snprintf(what, sizeof(what), "attention, KV of %s", ktype_name(type));
	all = attend(w, dx, ld, from, keys, true);
	tell(what, attend(w, dx, ld, from, keys, false), all);
	for (int pos : {from, from + 7, keys - 19, keys - 1})
	{
		std::vector<float> one = attend(w, dx, ld, pos, pos + 1, true);

		CHECK(memcmp(one.data(), &all[(size_t) (pos - from) * HEADS * HEAD_DIM],
					 one.size() * sizeof(float)) == 0,
			  "%s: position %d has other bits alone", what, pos);
	}
	cudaFree(dx);
}

int
main(void)
{
	static const KType pairs[][2] = {{KT_BF16, KT_BF16}, {KT_F16, KT_F16}, {KT_Q4_0, KT_BF16},
									 {KT_Q4_1, KT_BF16}, {KT_Q8_0, KT_BF16}};
	CudaCaps	caps = {90, 227 * 1024, true};
	int			major = 0,
				minor = 0;

	cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
	cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
	if (major != 9 || minor != 0)
	{
		printf("gpu_wgmma: 0 passed, 0 failed, 1 skipped\n");
		return 0;
	}
	cuda_attn_init(&caps);
	for (const KType *p : pairs)
		products(p[0], p[1]);
	for (KType t : {KT_BF16, KT_F16, KT_INT8})
		attention(t);
	return check_done("gpu_wgmma");
}
