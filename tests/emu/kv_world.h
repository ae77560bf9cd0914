/*
 * kv_world.h
 *	  A KV cache twice, for tests: the host's, which kernels/ref uses, and the device's.
 *
 * Both begin as 0xff: NaN in all float types and as INT8's scales.  Blocks of the sequences are
 * scattered.  `split`: layers are in pages of two parts (KvView.pages), and the second part's pages are
 * at other addresses than the first's.
 */
#ifndef VLLM_TESTS_KV_WORLD_H
#define VLLM_TESTS_KV_WORLD_H

#include "emu_test.h"
#include "cuda/cuda_ops.h"

#include <vector>

extern "C"
{
extern const Kernels kernels_ref;
}

#define WORLD_LAYERS 2			/* only the second one is used */
static const float world_scales[] = {1e9f, 1e9f, 0.3f, 0.011f};
static const KvPart world_parts[] = {{0, 0}, {1, 0}};

struct World
{
	KvView		kv;				/* the host's */
	KvView		dev_kv;
	CudaKv		ckv;
	size_t		size;
	std::vector<uint8_t> mem;
	std::vector<int32_t> pages;
	int32_t    *dev_pages;
	std::vector<std::vector<int32_t>> tables;
	int			ld_table;

	World(KType type, int head_dim, int v_dim, int kv_heads, int block_size, const std::vector<int> &lens,
		  bool split)
	{
		int			blocks = 0,
					next = 0;

		kv = {};
		for (int len : lens)
			blocks += (len + block_size - 1) / block_size;
		kv.type = type;
		kv.n_layers = split ? 1 : WORLD_LAYERS;
		kv.n_blocks = split ? 2 * (blocks + 2) : blocks + 2;
		kv.block_size = block_size;
		kv.n_kv_heads = kv_heads;
		kv.head_dim = head_dim;
		kv.v_dim = v_dim;
		kv.scales = world_scales;
		size = kv_layout(&kv);
		mem.assign(size + 64, 0xff);
		kv.base = mem.data() + (64 - (uintptr_t) mem.data() % 64) % 64;
		ld_table = 0;
		for (int len : lens)
		{
			std::vector<int32_t> t;

			for (int b = 0; b < (len + block_size - 1) / block_size; b++)
				t.push_back(blocks - next++);
			ld_table = (int) t.size() > ld_table ? (int) t.size() : ld_table;
			tables.push_back(t);
		}
		dev_pages = NULL;
		if (split)
		{
			for (int b = 0; b < blocks + 2; b++)
			{
				pages.push_back(b);
				pages.push_back(2 * (blocks + 2) - 1 - b);
			}
			kv.pages = pages.data();
			kv.n_parts = 2;
			kv.parts = world_parts;
			dev_pages = dev(pages.data(), pages.size());
		}
		dev_kv = kv;
		dev_kv.base = dev<uint8_t>(NULL, size);
		cudaMemset(dev_kv.base, 0xff, size);
		ckv = cuda_kv(&dev_kv, 1, dev_pages);
	}
	~World()
	{
		cudaFree(dev_kv.base);
		if (dev_pages != NULL)
			cudaFree(dev_pages);
	}
	/* Return the device's bytes. */
	std::vector<uint8_t> bytes() const
	{
		std::vector<uint8_t> b(size);

		host(b.data(), dev_kv.base, size);
		return b;
	}
};

/* Rows from[s] .. to[s] - 1 of each sequence, if there are any, on the host and on the device. */
struct Rows
{
	std::vector<int32_t> start,
				pos,
				table;
	std::vector<int> seqs;		/* sequences of the world */
	std::vector<const int32_t *> tables;
	KRows		r;
	CudaRows	dr;

	Rows(const World &w, const std::vector<int> &from, const std::vector<int> &to)
	{
		for (size_t s = 0; s < from.size(); s++)
		{
			if (from[s] >= to[s])
				continue;
			start.push_back((int) pos.size());
			seqs.push_back((int) s);
			tables.push_back(w.tables[s].data());
			for (int b = 0; b < w.ld_table; b++)
				table.push_back(b < (int) w.tables[s].size() ? w.tables[s][b] : -1);
			for (int p = from[s]; p < to[s]; p++)
				pos.push_back(p);
		}
		start.push_back((int) pos.size());
		r = {};
		r.n_rows = (int) pos.size();
		r.n_seqs = (int) seqs.size();
		r.seq_start = start.data();
		r.pos = pos.data();
		r.block_table = tables.data();
		dr.n_rows = r.n_rows;
		dr.n_seqs = r.n_seqs;
		dr.row0 = 0;
		dr.seq_start = dev(start.data(), start.size());
		dr.pos = dev(pos.data(), pos.size());
		dr.table = dev(table.data(), table.size());
		dr.ld_table = w.ld_table;
		dr.most_rows = dr.most_keys = 0;
		for (size_t s = 0; s < from.size(); s++)
		{
			dr.most_rows = to[s] - from[s] > dr.most_rows ? to[s] - from[s] : dr.most_rows;
			dr.most_keys = to[s] > dr.most_keys ? to[s] : dr.most_keys;
		}
	}
	~Rows()
	{
		cudaFree((void *) dr.seq_start);
		cudaFree((void *) dr.pos);
		cudaFree((void *) dr.table);
	}
	Rows(const Rows &) = delete;
	Rows &operator=(const Rows &) = delete;
};

static inline float
random_float(float most)
{
	return ((float) (int) (dice() % 20001) / 10000.0f - 1.0f) * most;
}

static inline std::vector<float>
random_floats(size_t n, float most)
{
	std::vector<float> x(n);

	for (float &f : x)
		f = random_float(most);
	return x;
}

#endif
