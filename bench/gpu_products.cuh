/*
 * gpu_products.cuh
 *	  The products of bench/gpu: dense ones against torch's, 4-bit weights against the copy.  Included by
 *	  gpu.cu.
 *
 * Matrices are random bits if speed and power depend on them.  A measurement with few rows uses many
 * matrices, one after the other, so that they don't stay in the L2.
 */

/* the products of an 8B model: qkv, o, gate and up, down */
static const struct Shape
{
	const char *name;
	int			n,
				k;
}			layer_8b[] = {{"qkv", 6144, 4096}, {"o", 4096, 4096}, {"gate, up", 28672, 4096},
						  {"down", 4096, 14336}};
static const struct Shape tiny_layer[] = {{"qkv", 72, 64}, {"down", 64, 96}};
#define LAYER	(smoke ? tiny_layer : layer_8b)
#define SHAPES	(smoke ? 2 : 4)

/* own kernels with mma.sync, and with wgmma if the GPU has it */
static const char *const variants[] = {"mma", "wgmma"};

static int
n_variants(void)
{
	KDevInfo	info;

	return vllm_pg_device_ops(KDEVICE_ABI)->info(0, &info) && info.features & DEV_WGMMA ? 2 : 1;
}

static double own_rate;			/* operations a second of our best product so far */
static double peak_rate;		/* the same of any library's */

/* Random BF16 bits between 2^-8 and 2^-1 with either sign; other types use the same bits. */
__global__ void __launch_bounds__(256)
random_kernel(uint16_t *to, size_t n)
{
	size_t		i = (size_t) blockIdx.x * 256 + threadIdx.x;
	uint32_t	h = (uint32_t) i * 2654435761u;

	h = (h ^ h >> 15) * 2246822519u;
	h ^= h >> 13;
	if (i < n)
		to[i] = (uint16_t) ((h >> 16 & 0x8000) | (119 + (h & 7)) << 7 | (h >> 4 & 127));
}

/* Allocate and fill device memory.  NULL: there is not enough. */
static uint16_t *
random_room(size_t bytes)
{
	uint16_t   *p = room<uint16_t>(bytes / 2 + 1);

	if (p != NULL)
		LAUNCH(random_kernel, (unsigned) ((bytes / 2 + 255) / 256), 256, 0, stream, p, bytes / 2);
	return p;
}

/* Matrices of one size that together are larger than any L2. */
struct Mats
{
	uint16_t   *data;
	size_t		bytes;			/* of one matrix */
	int			count;
	int			turn;
	KMat		m;

	Mats(KType type, int n, int k) : turn(0)
	{
		bytes = (cuda_mat_bytes(type, n, k) + 255) / 256 * 256;
		count = smoke ? 2 : (int) (((size_t) 512 << 20) / bytes) + 1;
		data = random_room(bytes * count);
		m = {type, n, k, data, bytes};
	}
	~Mats()
	{
		cudaFree(data);
	}
	const KMat *
	next(void)
	{
		m.data = (uint8_t *) data + bytes * (turn++ % count);
		return &m;
	}
};

struct Dense
{
	uint16_t   *x;
	float	   *y;
	void	   *ws;
	Mats		w;
	int			m;

	Dense(int m_, int n, int k) : w(KT_BF16, n, k), m(m_)
	{
		x = random_room((size_t) m * k * 2);
		y = room<float>((size_t) m * n);
		ws = room<uint8_t>(cuda_mm_scratch(KT_BF16, m, k) + 16);
	}
	~Dense()
	{
		cudaFree(x);
		cudaFree(y);
		cudaFree(ws);
	}
	bool
	ok(void) const
	{
		return x != NULL && y != NULL && ws != NULL && w.data != NULL;
	}
	double
	flop(void) const
	{
		return 2.0 * m * w.m.n * w.m.k;
	}
	void
	own(bool wgmma)
	{
		const KMat *mat = w.next();

		cuda_mm(mat, x, KT_BF16, m, mat->k, y, mat->n, NULL, ws, stream, wgmma);
	}
	/* Multiply as the op does: by cuBLASLt if that is allowed. */
	void
	op(Blaslt *b)
	{
		const KMat *mat = w.next();
		BlasltMm	mm = {mat, x, KT_BF16, m, mat->k, y, mat->n, NULL, false};

		if (b == NULL || !blaslt_mm(b, &mm, stream))
			cuda_mm(mat, x, KT_BF16, m, mat->k, y, mat->n, NULL, ws, stream);
	}
};

static void
gemm(Blaslt *b, int m, int n, int k, double bar)
{
	Dense		d(m, n, k);
	char		what[64],
				key[64];
	double		torch;

	snprintf(what, sizeof(what), "%d x %d x %d", m, n, k);
	snprintf(key, sizeof(key), "gemm %d %d %d", m, n, k);
	torch = given(key);
	if (!d.ok())
	{
		skip("gemm", "no memory");
		return;
	}
	for (int own = 0; own <= n_variants(); own++)
	{
		double		rate;
		uint64_t	before = b != NULL ? blaslt_counts(b).products : 0;
		char		text[96];

		if (own)
			rate = d.flop() / seconds([&]() { d.own(own == 2); });
		else
			rate = d.flop() / seconds([&]() { d.op(b); });
		/* with few rows both are the same */
		if (!own && (b == NULL || blaslt_counts(b).products == before))
			continue;
		own_rate = std::max(own_rate, rate);
		peak_rate = std::max(peak_rate, rate);
		snprintf(text, sizeof(text), "%s, %s", what, own ? variants[own - 1] : "cuBLASLt");
		report("gemm", text, rate / 1e12, "TFLOP/s", torch / 1e12, "torch", torch > 0 && !own ? bar : 0);
	}
}

static void
bench_gemm(void)
{
	static const int rows[] = {1, 16, 64, 256, 1024, 2048, 8192};
	char		why[160] = "";
	Blaslt	   *b = blaslt_open(false, false, BLASLT_TILE, NULL, why, sizeof(why));

	if (b == NULL)
		skip("gemm", why);
	if (given("gemm 4096 4096 4096") == 0)
		skip("gemm", given_why[0] != '\0' ? given_why : "nothing of torch's");
	for (int n : {4096, 8192})
		gemm(b, smoke ? 40 : n, smoke ? 72 : n, smoke ? 64 : n, 0.95);
	for (int s = 0; s < SHAPES; s++)
		for (int m : rows)
			if (!smoke || m <= 16)
				gemm(b, m, LAYER[s].n, LAYER[s].k, 0);
	blaslt_close(b);
}

/* Return the rate of the best product, torch's or ours, which is measured if it wasn't yet. */
static double
peak(void)
{
	for (int n : {4096, 8192})
	{
		char		key[64];

		snprintf(key, sizeof(key), "gemm %d %d %d", n, n, n);
		peak_rate = std::max(peak_rate, given(key));
	}
	if (own_rate == 0)
	{
		char		why[160];
		Blaslt	   *b = blaslt_open(false, false, BLASLT_TILE, NULL, why, sizeof(why));

		gemm(b, smoke ? 40 : 8192, smoke ? 72 : 8192, smoke ? 64 : 8192, 0);
		blaslt_close(b);
	}
	return peak_rate;
}

/* 4-bit weights and x of BF16: bytes of weights and rows in the time of all four products of a layer. */
static void
bench_w4a16(void)
{
	for (int v = 0; v < n_variants(); v++)
		for (int c = 0; c < 4; c++)
		{
			KType		type = c < 2 ? KT_Q4_0 : KT_Q4_K;
			int			m = c % 2 == 0 ? 1 : 16;
			double		bytes = 0,
						time = 0;
			char		what[64];

			for (int s = 0; s < SHAPES; s++)
			{
				int			n = LAYER[s].n,
							k = smoke ? 256 : LAYER[s].k;
				Mats		w(type, n, k);
				uint16_t   *x = random_room((size_t) m * k * 2);
				float	   *y = room<float>((size_t) m * n);
				void	   *ws = room<uint8_t>(cuda_mm_scratch(type, m, k) + 16);
				double		t,
							moved = (double) cuda_mat_bytes(type, n, k) + (double) m * (2.0 * k + 4.0 * n);

				if (w.data == NULL || x == NULL || y == NULL || ws == NULL)
					skip("w4a16", "no memory");
				else
				{
					t = seconds([&]() { cuda_mm(w.next(), x, KT_BF16, m, k, y, n, NULL, ws, stream,
												v == 1); });
					snprintf(what, sizeof(what), "%s, %d rows, %s, %s", ktype_name(type), m, LAYER[s].name,
							 variants[v]);
					report("w4a16", what, moved / t / 1e9, "GB/s", copy_rate / 1e9, "copy", 0);
					bytes += moved;
					time += t;
				}
				cudaFree(x);
				cudaFree(y);
				cudaFree(ws);
			}
			snprintf(what, sizeof(what), "%s, %d rows, a layer, %s", ktype_name(type), m, variants[v]);
			if (time > 0)
				report("w4a16", what, bytes / time / 1e9, "GB/s", copy_rate / 1e9, "copy", m == 1 ? 0.70 : 0);
		}
}
