/*
 * gpu_attn.h
 *	  Cases of bench/gpu: attention, for decoding against the copy, for prompts against a product.
 *
 * 32 heads on 8 KV heads of 128 columns, all BF16, blocks of 16 keys at arbitrary addresses: the shape
 * of an 8B model.  For decoding the bytes of K and V that are read are counted, for prompts the products
 * with the positions that a row attends to; their bound is the best product with a BF16 matrix in the
 * same run, of any library.  With wgmma, too, if the GPU has it.
 */
#ifndef VLLM_BENCH_GPU_ATTN_H
#define VLLM_BENCH_GPU_ATTN_H

#include "cuda/pack.h"

#define HEADS	32
#define KV_HEADS 8
#define HEAD_DIM 128
#define BLOCK	16

/*
 * Fill n halves on the device with random numbers between -1 and 1, because power, and so clocks, depend
 * on the values.
 */
static void
random_bf16(void *d, size_t n)
{
	std::vector<uint16_t> h(std::min(n, (size_t) 1 << 20));
	uint64_t	x = 42;

	for (uint16_t &u : h)
	{
		x = x * 6364136223846793005u + 1442695040888963407u;
		/* a random sign, exponents of 2^-8 .. 2^-1, any fraction */
		u = (uint16_t) ((x >> 63) << 15 | (119 + (x >> 60 & 7)) << 7 | (x >> 40 & 127));
	}
	for (size_t at = 0; at < n; at += h.size())
		cudaMemcpy((uint16_t *) d + at, h.data(), std::min(h.size(), n - at) * 2, cudaMemcpyHostToDevice);
}

static CudaCaps
caps_here(bool wgmma)
{
	int			major = 0,
				minor = 0,
				smem = 0;

	cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
	cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
	cudaDeviceGetAttribute(&smem, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
	return CudaCaps{major * 10 + minor, smem, wgmma && major == 9 && minor == 0};
}

/* A step of `seqs` sequences of `keys` keys, each with its last `rows` rows. */
struct AttnStep
{
	KvView		kv = {};
	CudaKv		one = {};
	CudaRows	r = {};
	float	   *q = NULL;
	void	   *out = NULL,
			   *ws = NULL;
	size_t		ws_size = 0;
	int32_t    *start = NULL,
			   *pos = NULL,
			   *table = NULL;
	KAttn		a = {};
	int			ld = HEADS * HEAD_DIM;

	/* Returns false if there is not enough memory. */
	bool open(int seqs, int keys, int rows)
	{
		int			blocks = (keys + BLOCK - 1) / BLOCK;
		std::vector<int32_t> starts,
					positions,
					blocks_of;
		size_t		n = (size_t) seqs * (size_t) rows;

		kv.type = KT_BF16;
		kv.n_layers = 1;
		kv.n_blocks = seqs * blocks;
		kv.block_size = BLOCK;
		kv.n_kv_heads = KV_HEADS;
		kv.head_dim = HEAD_DIM;
		kv.base = room<uint8_t>(kv_layout(&kv));
		for (int s = 0; s < seqs; s++)
		{
			starts.push_back(s * rows);
			for (int i = 0; i < rows; i++)
				positions.push_back(keys - rows + i);
			/* adjacent blocks of a sequence aren't adjacent in memory */
			for (int b = 0; b < blocks; b++)
				blocks_of.push_back((int) (((int64_t) (s * blocks + b) * 7919) % ((int64_t) seqs * blocks)));
		}
		starts.push_back((int) n);
		start = room<int32_t>(starts.size());
		pos = room<int32_t>(positions.size());
		table = room<int32_t>(blocks_of.size());
		q = room<float>(n * (size_t) ld);
		out = room<uint16_t>(n * (size_t) ld);
		if (kv.base == NULL || start == NULL || pos == NULL || table == NULL || q == NULL || out == NULL)
			return false;
		random_bf16(kv.base, kv_layout(&kv) / 2);
		/* two halves make a float near the second one */
		random_bf16(q, n * (size_t) ld * 2);
		cudaMemcpy(start, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice);
		cudaMemcpy(pos, positions.data(), positions.size() * 4, cudaMemcpyHostToDevice);
		cudaMemcpy(table, blocks_of.data(), blocks_of.size() * 4, cudaMemcpyHostToDevice);
		one = cuda_kv(&kv, 0, NULL);
		r.n_rows = (int) n;
		r.n_seqs = seqs;
		r.seq_start = start;
		r.pos = pos;
		r.table = table;
		r.ld_table = blocks;
		r.most_rows = rows;
		r.most_keys = keys;
		a.scale = 0.0883883f;
		ws_size = cuda_attn_scratch(&one, HEADS, r.n_rows, keys);
		ws = room<uint8_t>(ws_size);
		return ws != NULL;
	}
	void run(const CudaCaps *caps)
	{
		cuda_attn(caps, &one, &r, q, ld, HEADS, &a, out, KT_BF16, ws, ws_size, stream);
	}
	~AttnStep()
	{
		for (void *p : {(void *) kv.base, (void *) start, (void *) pos, (void *) table, (void *) q, out, ws})
			cudaFree(p);
	}
};

static void
bench_decode_attn(void)
{
	const int	steps[][2] = {{smoke ? 2 : 64, smoke ? 40 : 4096}, {1, smoke ? 530 : 32768}};

	for (auto &step : steps)
		for (bool wgmma : {false, true})
		{
			CudaCaps	caps = caps_here(wgmma);
			AttnStep	s;
			char		what[64];

			if (caps.wgmma != wgmma)
				continue;
			cuda_attn_init(&caps);
			snprintf(what, sizeof(what), "%d x %d keys%s", step[0], step[1], wgmma ? ", wgmma" : "");
			if (s.open(step[0], step[1], 1))
				memory_bound("decode_attn", what, 4.0 * step[0] * step[1] * KV_HEADS * HEAD_DIM, 0.8,
							 [&]() { s.run(&caps); });
			else
				skip("decode_attn", "no memory");
		}
}

static void
bench_prefill_attn(void)
{
	double		rate = peak();

	for (int rows : {smoke ? 70 : 8192, smoke ? 20 : 32768})
		for (bool wgmma : {false, true})
		{
			CudaCaps	caps = caps_here(wgmma);
			AttnStep	s;
			char		what[64];

			if (caps.wgmma != wgmma)
				continue;
			cuda_attn_init(&caps);
			snprintf(what, sizeof(what), "%d rows%s", rows, wgmma ? ", wgmma" : "");
			if (s.open(1, rows, rows))
				report("prefill_attn", what,
					   2.0 * HEADS * HEAD_DIM * rows * (rows + 1.0) / seconds([&]() { s.run(&caps); }) / 1e12,
					   "TFLOP/s", rate / 1e12, "best product", 0.55);
			else
				skip("prefill_attn", "no memory");
		}
}

#endif
