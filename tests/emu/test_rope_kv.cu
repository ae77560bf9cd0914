/*
 * test_rope_kv.cu
 *	  kernels/cuda/attn/rope_kv.cu under emulation: the bits of kernels/ref.
 */
#include "kv_world.h"

static const std::vector<int> lens = {37, 1, 70, 18};

/* Return the position of element i of a token's K or V by kv.h: 16-bit types have rows of eights by 8 x 8. */
static size_t
device_at(KType type, int len, int place, int i)
{
	if ((type == KT_F16 || type == KT_BF16) && len % 8 == 0)
		return (size_t) place / 8 * 8 * len + i / 8 * 64 + place % 8 * 8 + i % 8;
	return (size_t) place * len + i;
}

/* Are a token's K and V the same in the device's cell and in the host's? */
static bool
same_codes(const World &w, const std::vector<uint8_t> &bytes, int block, int head, int place)
{
	const KvView &kv = w.kv;
	int			es = cuda_kv_size(kv.type),
				layer = 1,
				bs = kv.block_size;
	size_t		at;
	const uint8_t *d,
			   *h;

	if (kv.pages != NULL)
	{
		block = kv.pages[2 * block + 1];
		layer = 0;
	}
	at = (size_t) block * kv.block_stride + (size_t) layer * kv.layer_stride + (size_t) head * kv.head_stride;
	d = bytes.data() + at;
	h = kv.base + at;
	for (int i = 0; i < kv.head_dim; i++)
		if (memcmp(d + device_at(kv.type, kv.head_dim, place, i) * es, h + (size_t) (i * bs + place) * es,
				   es) != 0)
			return false;
	d += w.ckv.v_at;
	h += w.ckv.v_at;
	for (int i = 0; i < w.ckv.v_dim; i++)
		if (memcmp(d + device_at(kv.type, w.ckv.v_pad, place, i) * es,
				   h + (size_t) (place * w.ckv.v_pad + i) * es, es) != 0)
			return false;
	d += w.ckv.scales_at - w.ckv.v_at;
	h += w.ckv.scales_at - w.ckv.v_at;
	return kv.type != KT_INT8 || (memcmp(d + place * 4, h + place * 4, 4) == 0 &&
								  memcmp(d + (bs + place) * 4, h + (bs + place) * 4, 4) == 0);
}

/* Plain and fused writes of chunks of all sequences; other bytes stay 0xff. */
static void
writes(KType type, int hd, int v_dim, int heads, int kv_heads, int block_size, int rot, bool split)
{
	int			vd = v_dim ? v_dim : hd,
				ld = heads * hd + kv_heads * (hd + vd) + 3,
				wrong = 0;
	std::vector<int> from = {0, 0, 32, 17},
				to = {37, 1, 70, 18};
	std::vector<float> cs = random_floats((size_t) 70 * (size_t) rot, 1.0f),
				x,
				rotated,
				got;
	World		ref(type, hd, v_dim, kv_heads, block_size, lens, split);
	Rows		rows(ref, from, to);

	x = random_floats((size_t) rows.r.n_rows * ld, 2.0f);
	/* special values for the conversion to codes: ties, zeros, tiny ones, non-finite ones */
	x[heads * hd] = 3e38f;
	for (int i = 0; i < hd; i++)
		x[(size_t) 2 * ld + heads * hd + i] = 0.0f;
	for (int i = 0; i < hd; i++)
		x[(size_t) 3 * ld + heads * hd + i] = 1e-38f;
	x[(size_t) 5 * ld + ld - 4] = INFINITY;
	x[(size_t) 6 * ld + ld - 4] = NAN;
	rotated = x;
	kernels_ref.rope(NULL, rotated.data(), rows.r.n_rows, ld, heads + kv_heads, hd, rows.r.pos, cs.data(),
					 rot);
	kernels_ref.kv_write(NULL, &ref.kv, 1, &rows.r, &rotated[heads * hd], ld,
						 &rotated[(heads + kv_heads) * hd], ld);
	all_orders([&]() {
		World		one(type, hd, v_dim, kv_heads, block_size, lens, split),
					two(type, hd, v_dim, kv_heads, block_size, lens, split);
		float	   *dx = dev(x.data(), x.size()),
				   *dcs = dev(cs.data(), cs.size());

		got = x;
		cuda_rope(dx, rows.r.n_rows, ld, heads + kv_heads, hd, rows.dr.pos, dcs, rot, NULL);
		cuda_kv_write(&one.ckv, &rows.dr, dx + heads * hd, ld, dx + (heads + kv_heads) * hd, ld, NULL);
		host(got.data(), dx, got.size());
		CHECK(memcmp(got.data(), rotated.data(), got.size() * 4) == 0, "rope of %d of %d", rot, hd);
		cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
		cuda_rope_kv(&two.ckv, &rows.dr, dx, ld, heads, dcs, rot, NULL);
		host(got.data(), dx, got.size());
		for (int i = 0; i < rows.r.n_rows; i++)
		{
			size_t		at = (size_t) i * ld;

			wrong += memcmp(&got[at], &rotated[at], (size_t) heads * hd * 4) != 0;
			wrong += memcmp(&got[at + heads * hd], &x[at + heads * hd], (size_t) (ld - heads * hd) * 4) != 0;
		}
		CHECK(wrong == 0, "fused: q or others of %d rows", wrong);
		std::vector<uint8_t> b1 = one.bytes(),
					b2 = two.bytes();

		CHECK(b1 == b2, "fused: another KV, type %d", type);
		for (int s = 0; s < rows.r.n_seqs; s++)
			for (int i = rows.start[s]; i < rows.start[s + 1]; i++)
				for (int h = 0; h < kv_heads; h++)
					wrong += !same_codes(ref, b1, rows.tables[s][rows.pos[i] / block_size], h,
										 rows.pos[i] % block_size);
		CHECK(wrong == 0, "type %d, head_dim %d, v_dim %d: %d cells differ", type, hd, vd, wrong);
		/* as many bytes were written on both sides */
		size_t		n1 = 0,
					n2 = 0;

		for (size_t i = 0; i < ref.size; i++)
		{
			n1 += b1[i] != 0xff;
			n2 += ref.kv.base[i] != 0xff;
		}
		CHECK(n1 == n2, "%zu bytes written, not %zu", n1, n2);
		cudaFree(dx);
		cudaFree(dcs);
	});
}

/* Rows at position -1 have no effect, nor do rows before a part of a step. */
static void
padding(void)
{
	World		w(KT_BF16, 16, 0, 1, 16, {20, 20}, false),
				v(KT_BF16, 16, 0, 1, 16, {20, 20}, false);
	std::vector<float> x = random_floats(4 * 48, 1.0f),
				y(x);
	std::vector<float> cs = random_floats(20 * 16, 1.0f);
	std::vector<int32_t> pos = {18, 19, 3, -1},
				start = {0, 2, 3, 4},
				table = {w.tables[0][0], w.tables[0][1], w.tables[1][0], w.tables[1][1], -1, -1};
	CudaRows	r = {4, 3, 0, dev(start.data(), 4), dev(pos.data(), 4), dev(table.data(), 6), 2, 2, 20};
	float	   *dx = dev(x.data(), x.size()),
			   *dcs = dev(cs.data(), cs.size());
	CudaRows	part = {2, 2, 1, r.seq_start, r.pos + 1, r.table, 2, 2, 20},
				first = {1, 1, 0, r.seq_start, r.pos, r.table, 2, 1, 20};

	cuda_rope_kv(&w.ckv, &r, dx, 48, 1, dcs, 16, NULL);
	host(y.data(), dx, y.size());
	CHECK(memcmp(&x[3 * 48], &y[3 * 48], 48 * 4) == 0, "a row at -1 was rotated");
	CHECK(memcmp(&x[0], &y[0], 16 * 4) != 0, "a row wasn't rotated");
	cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
	cuda_rope_kv(&v.ckv, &first, dx, 48, 1, dcs, 16, NULL);
	cuda_rope_kv(&v.ckv, &part, dx + 48, 48, 1, dcs, 16, NULL);
	CHECK(w.bytes() == v.bytes(), "a step in two parts writes another KV");
	cudaFree((void *) r.seq_start);
	cudaFree((void *) r.pos);
	cudaFree((void *) r.table);
	cudaFree(dx);
	cudaFree(dcs);
}

static void
copies(void)
{
	World		w(KT_INT8, 80, 0, 2, 16, {200, 300}, false);
	std::vector<uint8_t> want(w.size);
	std::vector<int32_t> pairs;
	size_t		page = w.kv.block_stride;

	for (uint8_t &b : want)
		b = (uint8_t) dice();
	cudaMemcpy(w.dev_kv.base, want.data(), w.size, cudaMemcpyHostToDevice);
	/* chains and swaps, whose order matters */
	for (int i = 0; i < 150; i++)
	{
		int			from = (int) (dice() % w.kv.n_blocks),
					to = (from + 1 + (int) (dice() % (w.kv.n_blocks - 1))) % w.kv.n_blocks;

		pairs.push_back(from);
		pairs.push_back(to);
		memcpy(&want[to * page], &want[from * page], page);
	}
	cuda_kv_copy(&w.dev_kv, pairs.data(), 150, NULL);
	CHECK(w.bytes() == want, "copies of pages");

	std::vector<uint8_t> out(page, 0);

	cuda_kv_get(&w.dev_kv, 3, out.data(), NULL);
	cudaDeviceSynchronize();
	CHECK(memcmp(out.data(), &want[3 * page], page) == 0, "a page brought back");
	out[7] ^= 1;
	cuda_kv_put(&w.dev_kv, 5, out.data(), NULL);
	cudaDeviceSynchronize();
	memcpy(&want[5 * page], out.data(), page);
	CHECK(w.bytes() == want, "a page put");
}

static void
largest(void)
{
	for (int nan = 0; nan < 2; nan++)
		all_orders([&]() {
			World		ref(KT_F32, 24, 20, 2, 16, {48, 32}, true),
						w(KT_F32, 24, 20, 2, 16, {48, 32}, true);
			Rows		rows(ref, {0, 0}, {48, 32});
			std::vector<float> k = random_floats(80 * 48, 3.0f),
						v = random_floats(80 * 40, 5.0f);
			float		most[2],
						got[2],
					   *dl = dev<float>(NULL, 2);

			k[100] = -7.5f;
			v[900] = -11.25f;
			if (nan)
				v[77] = NAN;
			float	   *dk = dev(k.data(), k.size()),
					   *dv = dev(v.data(), v.size());

			/* blocks 1 .. 5 belong to the sequences; block 0 is filled by hand */
			kernels_ref.kv_write(NULL, &ref.kv, 1, &rows.r, k.data(), 48, v.data(), 40);
			cuda_kv_write(&w.ckv, &rows.dr, dk, 48, dv, 40, NULL);
			for (int h = 0; h < 2; h++)
			{
				size_t		at = (size_t) ref.pages[1] * ref.kv.block_stride +
					(size_t) h * ref.kv.head_stride;

				memset(ref.kv.base + at, 0, ref.kv.head_stride);
				cudaMemset(w.dev_kv.base + at, 0, ref.kv.head_stride);
			}
			kernels_ref.kv_largest(NULL, &ref.kv, 1, 6, most);
			cuda_kv_largest(&w.ckv, 6, dl, NULL);
			host(got, dl, 2);
			CHECK(most[0] == 7.5f && got[0] == most[0], "largest K %g, not %g", got[0], most[0]);
			CHECK(nan ? isnan(got[1]) && isnan(most[1]) : got[1] == most[1], "largest V %g, not %g", got[1],
				  most[1]);
			cudaFree(dl);
			cudaFree(dk);
			cudaFree(dv);
		});
}

int
main(void)
{
	static const KType types[] = {KT_F32, KT_F16, KT_BF16, KT_F8_E4M3, KT_F8_E5M2, KT_INT8};

	for (KType t : types)
	{
		RUN(writes(t, 64, 0, 4, 2, 16, 64, false));
		RUN(writes(t, 80, 0, 1, 1, 32, 32, true));
		RUN(writes(t, 40, 24, 2, 2, 48, 40, false));
	}
	RUN(writes(KT_INT8, 576, 512, 1, 1, 16, 64, false));
	RUN(writes(KT_BF16, 6, 0, 1, 1, 16, 2, true));
	RUN(padding());
	RUN(copies());
	RUN(largest());
	return check_done("test_emu_rope_kv");
}
