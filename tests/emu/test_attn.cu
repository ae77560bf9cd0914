/*
 * test_attn.cu
 *	  kernels/cuda/attn/attn.cuh under emulation: near kernels/ref, and a row's bits don't depend on
 *	  other rows.
 *
 * Each sequence is first computed row by row, as in decoding, with and without splits.  Then all
 * together in chunks, over memory that was NaN: the same bits.
 */
#include "kv_world.h"

#include <algorithm>

/* extras */
#define SINKS	1
#define ALIBI	2
#define CHUNK	4				/* the window is a chunk */
#define BOTH	8				/* bidirectional: rows attend to at most `window` - 1 later positions */
#define BIAS	16
#define PARTS	32				/* layers are in pages of parts */

struct Case
{
	KType		type;
	int			hd;
	int			v_dim;			/* 0: hd */
	int			heads;
	int			kv_heads;
	int			block_size;
	std::vector<int> lens;
	int			window;
	float		softcap;
	int			extras;
};

static CudaCaps caps = {90, 227 * 1024, false};

/*
 * Make a device of that capability; a GPU is limited to its own.  Returns false if it has no wgmma,
 * which was requested.
 */
static bool
set_caps(int cc, int kb, bool wgmma)
{
	caps.cc = cc;
	caps.wgmma = wgmma;
	caps.smem = kb * 1024;
#ifdef __CUDACC__
	int			major = 0,
				minor = 0,
				smem = 0;

	cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
	cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
	cudaDeviceGetAttribute(&smem, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
	caps.cc = std::min(cc, major * 10 + minor);
	caps.smem = std::min(caps.smem, smem);
	if (wgmma && (major != 9 || minor != 0))
		return false;
#else
	cemu_capability(cc / 10, cc % 10);
#endif
	cuda_attn_init(&caps);
	return true;
}

/* All inputs of a case, on the host and the device. */
struct Inputs
{
	const Case &c;
	World		w;
	int			vd;
	int			ld;				/* of a row of q, K, V */
	std::vector<std::vector<float>> x;	/* [sequence][position][ld] */
	std::vector<float> sinks,
				alibi,
				bias;
	KAttn		a;				/* the host's */
	float	   *d_sinks,
			   *d_alibi,
			   *d_bias;

	Inputs(const Case &c_) : c(c_), w(c_.type, c_.hd, c_.v_dim, c_.kv_heads, c_.block_size, c_.lens,
									  (c_.extras & PARTS) != 0)
	{
		int			most = 0;

		vd = c.v_dim ? c.v_dim : c.hd;
		ld = c.heads * c.hd + c.kv_heads * (c.hd + vd);
		for (int len : c.lens)
		{
			std::vector<float> rows((size_t) len * ld);

			for (size_t i = 0; i < rows.size(); i++)
			{
				int			col = (int) (i % ld);

				rows[i] = random_float(col < c.heads * c.hd ? 3.0f : col < (c.heads + c.kv_heads) * c.hd
									   ? 1.5f : 1.0f);
			}
			x.push_back(rows);
			most = len > most ? len : most;
		}
		for (int h = 0; h < c.heads; h++)
		{
			sinks.push_back((float) (h % 5 * 5 - 12));
			alibi.push_back(ldexpf(1.0f, -h % 9 - 1));
		}
		bias = random_floats((size_t) c.heads * (2 * most - 1), 3.0f);
		a = {};
		a.scale = 1.0f / sqrtf((float) c.hd);
		a.softcap = c.softcap;
		if (c.extras & CHUNK)
			a.chunk = c.window;
		else
			a.window = c.window;
		if (c.extras & BOTH)
			a.ahead = c.window > 0 ? c.window - 1 : 0;
		a.span = most;
		a.sinks = c.extras & SINKS ? sinks.data() : NULL;
		a.alibi = c.extras & ALIBI ? alibi.data() : NULL;
		a.bias = c.extras & BIAS ? bias.data() : NULL;
		d_sinks = dev(sinks.data(), sinks.size());
		d_alibi = dev(alibi.data(), alibi.size());
		d_bias = dev(bias.data(), bias.size());
	}
	~Inputs()
	{
		cudaFree(d_sinks);
		cudaFree(d_alibi);
		cudaFree(d_bias);
	}
	/* Return the arguments on the device, with a step's ends. */
	KAttn on_device(const int32_t *ends) const
	{
		KAttn		d = a;

		d.sinks = a.sinks != NULL ? d_sinks : NULL;
		d.alibi = a.alibi != NULL ? d_alibi : NULL;
		d.bias = a.bias != NULL ? d_bias : NULL;
		d.ends = c.extras & BOTH ? ends : NULL;
		return d;
	}
};

typedef std::vector<std::vector<float>> Outputs;	/* [sequence][position][heads * vd] */

static Outputs
outputs(const Inputs &in)
{
	Outputs		o;

	for (int len : in.c.lens)
		o.push_back(std::vector<float>((size_t) len * in.c.heads * in.vd, -1.0f));
	return o;
}

/* One step on the device: K and V are written, unless that was done; outputs of rows from .. to - 1. */
static void
step(const Inputs &in, World &w, const std::vector<int> &from, const std::vector<int> &to, bool write,
	 size_t ws_size, KType out_type, Outputs *out)
{
	const Case &c = in.c;
	Rows		rows(w, from, to);
	std::vector<float> x;
	std::vector<int32_t> ends;
	int			od = c.heads * in.vd,
				qd = c.heads * c.hd;
	size_t		n_out = (size_t) rows.r.n_rows * od;

	if (rows.r.n_rows == 0)
		return;
	for (int s : rows.seqs)
	{
		x.insert(x.end(), in.x[s].begin() + (size_t) from[s] * in.ld,
				 in.x[s].begin() + (size_t) to[s] * in.ld);
		for (int i = from[s]; i < to[s]; i++)
			ends.push_back(to[s]);
	}
	float	   *dx = dev(x.data(), x.size());
	int32_t    *dends = dev(ends.data(), ends.size());
	uint8_t    *dout = dev<uint8_t>(NULL, n_out * 4),
			   *ws = dev<uint8_t>(NULL, ws_size + 16);
	KAttn		a = in.on_device(dends);

	if (write)
		cuda_kv_write(&w.ckv, &rows.dr, dx + qd, in.ld, dx + qd + c.kv_heads * c.hd, in.ld, NULL);
	cuda_attn(&caps, &w.ckv, &rows.dr, dx, in.ld, c.heads, &a, dout, out_type, ws, ws_size, NULL);
	CHECK(cudaGetLastError() == cudaSuccess, "launch");
	if (out_type == KT_F32)
	{
		std::vector<float> o(n_out);

		host(o.data(), (float *) dout, n_out);
		for (int i = 0; i < rows.r.n_seqs; i++)
		{
			int			s = rows.seqs[i];

			memcpy(&(*out)[s][(size_t) from[s] * od], &o[(size_t) rows.start[i] * od],
				   (size_t) (to[s] - from[s]) * od * 4);
		}
	}
	else
	{
		std::vector<uint16_t> o(n_out);

		host(o.data(), (uint16_t *) dout, n_out);
		for (int i = 0; i < rows.r.n_seqs; i++)
			for (int j = 0; j < (to[rows.seqs[i]] - from[rows.seqs[i]]) * od; j++)
			{
				uint16_t	h = o[(size_t) rows.start[i] * od + j];
				float		f = out_type == KT_BF16 ? kbf16_to_f32(h) : kf16_to_f32(h);

				(*out)[rows.seqs[i]][(size_t) from[rows.seqs[i]] * od + j] = f;
			}
	}
	cudaFree(dx);
	cudaFree(dends);
	cudaFree(dout);
	cudaFree(ws);
}

/* Return the outputs of ref for rows first .. last - 1 of each sequence, with all of K and V. */
static Outputs
by_ref(const Inputs &in, World &w, const std::vector<int> &first, const std::vector<int> &last)
{
	const Case &c = in.c;
	Outputs		out = outputs(in);
	std::vector<int> none(c.lens.size(), 0);
	Rows		all(w, none, c.lens),
				some(w, first, last);
	std::vector<float> x,
				q,
				o((size_t) some.r.n_rows * c.heads * in.vd);
	/* doubles: aligned for them */
	std::vector<double> ws(kernels_ref.attn_scratch(&w.kv, c.heads, some.r.n_rows, 1) / sizeof(double) + 1);
	std::vector<int32_t> ends;
	KAttn		a = in.a;
	int			od = c.heads * in.vd,
				qd = c.heads * c.hd;

	for (size_t s = 0; s < c.lens.size(); s++)
	{
		x.insert(x.end(), in.x[s].begin(), in.x[s].end());
		q.insert(q.end(), in.x[s].begin() + (size_t) first[s] * in.ld,
				 in.x[s].begin() + (size_t) last[s] * in.ld);
		for (int i = first[s]; i < last[s]; i++)
			ends.push_back(c.lens[s]);
	}
	if (c.extras & BOTH)
		a.ends = ends.data();
	kernels_ref.kv_write(NULL, &w.kv, 1, &all.r, &x[qd], in.ld, &x[qd + c.kv_heads * c.hd], in.ld);
	kernels_ref.attn(NULL, &w.kv, 1, &some.r, q.data(), in.ld, c.heads, &a, o.data(), ws.data());
	for (int i = 0; i < some.r.n_seqs; i++)
	{
		int			s = some.seqs[i];

		memcpy(&out[s][(size_t) first[s] * od], &o[(size_t) some.start[i] * od],
			   (size_t) (last[s] - first[s]) * od * 4);
	}
	return out;
}

/* Return the compared rows of a case: the last `n` of each sequence. */
static std::vector<int>
last_rows(const Case &c, int n)
{
	std::vector<int> first;

	for (int len : c.lens)
		first.push_back(len > n ? len - n : 0);
	return first;
}

static double
distance(const Inputs &in, const Outputs &a, const Outputs &b, const std::vector<int> &first,
		 const std::vector<int> &last)
{
	double		worst = 0;

	for (size_t s = 0; s < a.size(); s++)
		for (size_t i = (size_t) first[s] * in.c.heads * in.vd; i < (size_t) last[s] * in.c.heads * in.vd;
			 i++)
		{
			double		e = fabs((double) a[s][i] - (double) b[s][i]);

			worst = e > worst || e != e ? e : worst;
		}
	return worst;
}

static int
rows_differ(const Inputs &in, const Outputs &a, const Outputs &b, const std::vector<int> &first,
			const std::vector<int> &last)
{
	size_t		od = (size_t) in.c.heads * in.vd;
	int			n = 0;

	for (size_t s = 0; s < a.size(); s++)
		for (int i = first[s]; i < last[s]; i++)
			n += memcmp(&a[s][i * od], &b[s][i * od], od * 4) != 0;
	return n;
}

#define WS	((size_t) 8 << 20)

/*
 * The last n rows of each sequence, after all others: row by row (split or not), each sequence in one
 * step, and all mixed, against ref and each other.
 */
static void
check(const Case &c, int n, double bound)
{
	Inputs		in(c);
	std::vector<int> first = last_rows(c, c.extras & BOTH ? 1 << 20 : n),
				none(c.lens.size(), 0);
	Outputs		want = by_ref(in, in.w, first, c.lens),
				alone = outputs(in),
				walked = outputs(in),
				mixed = outputs(in);
	World		w(c.type, c.hd, c.v_dim, c.kv_heads, c.block_size, c.lens, (c.extras & PARTS) != 0);
	double		worst;

	/*
	 * write K and V of the previous positions, a sequence at a time; then row by row with nothing later
	 * written
	 */
	for (size_t s = 0; s < c.lens.size(); s++)
	{
		std::vector<int> from(none),
					to(none);

		to[s] = c.extras & BOTH ? c.lens[s] : first[s];
		if (to[s] > 0)
		{
			Outputs		scrap = outputs(in);
			Rows		rows(w, from, to);
			float	   *dx = dev(in.x[s].data(), (size_t) to[s] * in.ld);

			cuda_kv_write(&w.ckv, &rows.dr, dx + c.heads * c.hd, in.ld, dx + (c.heads + c.kv_heads) * c.hd,
						  in.ld, NULL);
			cudaDeviceSynchronize();
			cudaFree(dx);
		}
		if (c.extras & BOTH)
		{
			step(in, w, from, to, false, WS, KT_F32, &alone);
			step(in, w, from, to, false, 0, KT_F32, &walked);
			continue;
		}
		for (int i = first[s]; i < c.lens[s]; i++)
		{
			from[s] = i;
			to[s] = i + 1;
			step(in, w, from, to, true, WS, KT_F32, &alone);
			step(in, w, from, to, false, 0, KT_F32, &walked);
		}
	}
	worst = distance(in, alone, want, first, c.lens);
	CHECK(worst < bound, "type %d, head_dim %d/%d, %d heads of %d, window %d, extras %d: error %g",
		  c.type, c.hd, c.v_dim, c.heads, c.kv_heads, c.window, c.extras, worst);
	CHECK(rows_differ(in, alone, walked, first, c.lens) == 0,
		  "type %d, head_dim %d, extras %d: walked: %d rows differ", c.type, c.hd, c.extras,
		  rows_differ(in, alone, walked, first, c.lens));
	/* all at once */
	step(in, w, first, c.lens, false, 0, KT_F32, &mixed);
	CHECK(rows_differ(in, alone, mixed, first, c.lens) == 0,
		  "type %d, head_dim %d, extras %d: together: %d rows differ", c.type, c.hd, c.extras,
		  rows_differ(in, alone, mixed, first, c.lens));
	mixed = outputs(in);
	step(in, w, first, c.lens, false, WS, KT_F32, &mixed);
	CHECK(rows_differ(in, alone, mixed, first, c.lens) == 0,
		  "type %d, head_dim %d, extras %d: together, split: %d rows differ", c.type, c.hd, c.extras,
		  rows_differ(in, alone, mixed, first, c.lens));
	/* the output types are roundings of the same values */
	if (c.extras & BOTH)
		return;
	for (KType t : {KT_BF16, KT_F16})
	{
		int			wrong = 0;

		mixed = outputs(in);
		step(in, w, first, c.lens, false, 0, t, &mixed);
		for (size_t s = 0; s < c.lens.size(); s++)
			for (size_t i = (size_t) first[s] * c.heads * in.vd; i < mixed[s].size(); i++)
			{
				float		f = alone[s][i];

				wrong += mixed[s][i] != (t == KT_BF16 ? kbf16_to_f32(kf32_to_bf16(f)) :
										 kf16_to_f32(kf32_to_f16(f)));
			}
		CHECK(wrong == 0, "output of type %d: %d elements", t, wrong);
	}
}

/*
 * All ways to compute the same rows: chunks of 1, 7, 16, 64, a prefix that was written before, other
 * sequences in the batch.
 */
static void
chunks(const Case &c)
{
	Inputs		in(c);
	std::vector<int> none(c.lens.size(), 0);
	Outputs		want = by_ref(in, in.w, none, c.lens),
				one = outputs(in);

	for (int chunk : {1, 7, 16, 64, 1000})
	{
		World		w(c.type, c.hd, c.v_dim, c.kv_heads, c.block_size, c.lens, (c.extras & PARTS) != 0);
		Outputs		o = outputs(in);
		std::vector<int> from(none),
					to(none);
		bool		more = true;

		/* sequence s begins at a step of its own, so the batches differ */
		for (int round = 0; more; round++)
		{
			more = false;
			for (size_t s = 0; s < c.lens.size(); s++)
			{
				from[s] = to[s];
				to[s] = (int) s > round ? 0 : from[s] + chunk < c.lens[s] ? from[s] + chunk : c.lens[s];
				more |= to[s] < c.lens[s];
			}
			step(in, w, from, to, true, round % 2 ? WS : 0, KT_F32, &o);
		}
		if (chunk == 1)
			one = o;
		else
			CHECK(rows_differ(in, one, o, none, c.lens) == 0, "chunks of %d: %d rows differ", chunk,
				  rows_differ(in, one, o, none, c.lens));
	}
	CHECK(distance(in, one, want, none, c.lens) < 2e-2, "chunks: error %g",
		  distance(in, one, want, none, c.lens));
}

/* A NaN in K or V of a sequence affects its later rows, and no other sequence; one in q only its head. */
static void
nans(const Case &c, int in_k, int at)
{
	Inputs		in(c);
	World		w(c.type, c.hd, c.v_dim, c.kv_heads, c.block_size, c.lens, false);
	std::vector<int> none(c.lens.size(), 0);
	Outputs		good = outputs(in),
				bad = outputs(in);
	size_t		od = (size_t) in.c.heads * in.vd;
	int			wrong = 0;

	step(in, w, none, c.lens, true, WS, KT_F32, &good);
	in.x[1][(size_t) at * in.ld + c.heads * c.hd + (in_k ? 3 : c.kv_heads * c.hd + 3)] = in_k == 2 ?
		INFINITY : NAN;
	step(in, w, none, c.lens, true, at % 2 ? WS : 0, KT_F32, &bad);
	for (size_t s = 0; s < c.lens.size(); s++)
		for (int i = 0; i < c.lens[s]; i++)
		{
			int			lo = c.extras & CHUNK ? i / c.window * c.window : c.window > 0 && i + 1 > c.window ?
				i + 1 - c.window : 0;
			bool		sees = s == 1 && i >= at && lo <= at;
			bool		same = memcmp(&good[s][i * od], &bad[s][i * od], od * 4) == 0,
						nan = in_k || isnan(bad[s][i * od + 3]);

			wrong += sees ? same || !nan : !same;
		}
	CHECK(wrong == 0, "NaN at %d (%d): %d rows", at, in_k, wrong);
}

static void
bad_query(const Case &c)
{
	Inputs		in(c);
	World		w(c.type, c.hd, c.v_dim, c.kv_heads, c.block_size, c.lens, false);
	std::vector<int> none(c.lens.size(), 0);
	Outputs		good = outputs(in),
				bad = outputs(in);
	int			wrong = 0;

	step(in, w, none, c.lens, true, 0, KT_F32, &good);
	in.x[0][(size_t) 9 * in.ld + c.hd + 5] = NAN;
	in.x[0][(size_t) 4 * in.ld + 7] = INFINITY;
	step(in, w, none, c.lens, true, 0, KT_F32, &bad);
	for (size_t s = 0; s < c.lens.size(); s++)
		for (int i = 0; i < c.lens[s] * c.heads; i++)
		{
			bool		hit = s == 0 && (i == 9 * c.heads + 1 || i == 4 * c.heads);
			const float *a = &good[s][(size_t) i * in.vd],
					   *b = &bad[s][(size_t) i * in.vd];

			wrong += hit ? !isnan(b[0]) : memcmp(a, b, (size_t) in.vd * 4) != 0;
		}
	CHECK(wrong == 0, "a NaN in q: %d heads", wrong);
}

/*
 * A step split in the middle of a sequence, and rows at position -1: as in a graph, or in a mixture of
 * latents.
 */
static void
parts(void)
{
	Case		c = {KT_BF16, 32, 0, 3, 1, 16, {40, 21, 17}, 0, 0, 0};
	Inputs		in(c);
	World		w(c.type, c.hd, 0, 1, 16, c.lens, false);
	std::vector<int> none(3, 0);
	Outputs		good = outputs(in);
	Rows		rows(w, none, c.lens);
	std::vector<float> x,
				got(78 * 96),
				cut(78 * 96);
	std::vector<int32_t> pos = rows.pos;
	KAttn		a = in.on_device(NULL);
	float	   *dx,
			   *dout = dev<float>(NULL, got.size());
	CudaRows	first = rows.dr,
				second = rows.dr;

	step(in, w, none, c.lens, true, 0, KT_F32, &good);
	for (int s = 0; s < 3; s++)
		x.insert(x.end(), in.x[s].begin(), in.x[s].end());
	dx = dev(x.data(), x.size());
	first.n_rows = 50;
	first.n_seqs = 2;
	second.row0 = 50;
	second.n_rows = 28;
	second.n_seqs = 2;
	second.seq_start++;
	second.pos += 50;
	second.table += second.ld_table;
	cuda_attn(&caps, &w.ckv, &first, dx, in.ld, 3, &a, dout, KT_F32, NULL, 0, NULL);
	cuda_attn(&caps, &w.ckv, &second, dx + 50 * in.ld, in.ld, 3, &a, dout + 50 * 96, KT_F32, NULL, 0, NULL);
	host(cut.data(), dout, cut.size());
	CHECK(memcmp(&cut[0], good[0].data(), 40 * 96 * 4) == 0 &&
		  memcmp(&cut[40 * 96], good[1].data(), 21 * 96 * 4) == 0 &&
		  memcmp(&cut[61 * 96], good[2].data(), 17 * 96 * 4) == 0, "two parts of a step");
	/* three decoding rows, the second one is padding */
	std::vector<int32_t> start = {0, 1, 2, 3},
				at = {39, -1, 16};
	CudaRows	padded = {3, 3, 0, dev(start.data(), 4), dev(at.data(), 3), rows.dr.table, rows.dr.ld_table,
						  1, 40};

	for (size_t ws : {(size_t) 0, WS})
	{
		uint8_t    *dws = dev<uint8_t>(NULL, ws + 16);

		padded.most_keys = ws ? 1024 : 40;
		cudaMemcpy(dx, &in.x[0][39 * in.ld], in.ld * 4, cudaMemcpyHostToDevice);
		cudaMemset(dx + in.ld, 0xff, in.ld * 4);
		cudaMemcpy(dx + 2 * in.ld, &in.x[2][16 * in.ld], in.ld * 4, cudaMemcpyHostToDevice);
		cudaMemset(dout, 0xff, 3 * 96 * 4);
		cuda_attn(&caps, &w.ckv, &padded, dx, in.ld, 3, &a, dout, KT_F32, dws, ws, NULL);
		host(got.data(), dout, 3 * 96);
		CHECK(memcmp(&got[0], &good[0][39 * 96], 96 * 4) == 0 &&
			  memcmp(&got[2 * 96], &good[2][16 * 96], 96 * 4) == 0, "beside padding");
		for (int i = 96; i < 2 * 96; i++)
			CHECK(got[i] == 0.0f, "padding gives %g", got[i]);
		cudaFree(dws);
	}
	cudaFree((void *) padded.seq_start);
	cudaFree((void *) padded.pos);
	cudaFree(dx);
	cudaFree(dout);
}

/*
 * A decoded row's splits are adjacent in scratch, separately for its heads: a block's other rows have no
 * space there.
 */
static void
little_scratch(void)
{
	Case		c = {KT_BF16, 32, 0, 4, 1, 16, {1100}, 0, 0, 0};
	Inputs		in(c);
	World		w(c.type, c.hd, 0, 1, 16, c.lens, false);
	Rows		all(w, {0}, c.lens),
				last(w, {1099}, c.lens);
	/* splits, heads; a block's columns, and what is stored with each row */
	size_t		n = 3 * 4 * (64 + 2);
	float	   *dx = dev(in.x[0].data(), in.x[0].size()),
			   *dout = dev<float>(NULL, 4 * 32),
			   *ws = dev<float>(NULL, n),
				first;
	KAttn		a = in.on_device(NULL);

	cudaMemset(ws, 0xff, n * sizeof(float));
	cuda_kv_write(&w.ckv, &all.dr, dx + 4 * 32, in.ld, dx + 5 * 32, in.ld, NULL);
	cuda_attn(&caps, &w.ckv, &last.dr, dx + (size_t) 1099 * in.ld, in.ld, 4, &a, dout, KT_F32, ws,
			  n * sizeof(float), NULL);
	host(&first, ws, 1);
	CHECK(!isnan(first), "wgmma %d: a row's splits are walked through, though there is scratch for them",
		  caps.wgmma);
	cudaFree(dx);
	cudaFree(dout);
	cudaFree(ws);
}

int
main(void)
{
	static const KType types[] = {KT_F32, KT_F16, KT_BF16, KT_F8_E4M3, KT_F8_E5M2, KT_INT8};

	set_caps(90, 227, false);
	/* types, and combinations with them */
	for (KType t : types)
	{
		RUN(check({t, 64, 0, 4, 2, 16, {70, 3, 33}, 0, 0, 0}, 5, 1e-2));
		RUN(check({t, 80, 0, 1, 1, 32, {130}, 0, 0, SINKS | PARTS}, 4, 1e-2));
		RUN(check({t, 40, 24, 2, 1, 16, {65, 66}, 0, 0, ALIBI}, 3, 1e-2));
	}
	/* shapes */
	RUN(check({KT_BF16, 128, 0, 8, 2, 16, {100, 64, 65}, 0, 0, 0}, 20, 1e-2));
	RUN(check({KT_BF16, 96, 0, 6, 2, 16, {129, 1}, 0, 0, 0}, 7, 1e-2));
	RUN(check({KT_BF16, 192, 128, 4, 4, 16, {90}, 0, 0, 0}, 3, 1e-2));
	RUN(check({KT_BF16, 256, 0, 4, 1, 16, {70, 10}, 0, 30.0f, 0}, 5, 1e-2));
	RUN(check({KT_BF16, 576, 512, 16, 1, 16, {66, 20}, 0, 0, 0}, 2, 1e-2));
	RUN(check({KT_F16, 6, 0, 2, 2, 16, {20, 5}, 0, 0, 0}, 3, 1e-2));
	RUN(check({KT_BF16, 36, 50, 3, 1, 48, {100, 5}, 0, 0, 0}, 3, 1e-2));
	RUN(check({KT_BF16, 32, 0, 128, 1, 16, {70}, 0, 0, 0}, 2, 1e-2));
	RUN(check({KT_BF16, 32, 0, 71, 1, 16, {70, 30}, 0, 0, 0}, 3, 1e-2));
	/* windows and other masks */
	RUN(check({KT_BF16, 32, 0, 2, 1, 16, {200, 70}, 67, 0, PARTS}, 80, 1e-2));
	RUN(check({KT_BF16, 32, 0, 2, 1, 16, {200, 70}, 48, 0, CHUNK}, 80, 1e-2));
	RUN(check({KT_BF16, 32, 0, 2, 2, 16, {90, 33}, 0, 0, BOTH | BIAS}, 0, 1e-2));
	RUN(check({KT_BF16, 32, 0, 2, 2, 16, {90, 33}, 17, 0, BOTH}, 0, 1e-2));
	RUN(check({KT_BF16, 32, 0, 2, 2, 16, {90, 33}, 20, 10.0f, SINKS | ALIBI | BIAS}, 10, 1e-2));
	/* splits: their edges, and windows of more than one split */
	RUN(check({KT_BF16, 32, 0, 2, 1, 16, {511, 512, 513, 1025}, 0, 0, 0}, 2, 1e-2));
	RUN(check({KT_INT8, 32, 0, 2, 1, 16, {514, 1024}, 0, 0, SINKS}, 3, 1e-2));
	RUN(check({KT_BF16, 16, 0, 2, 1, 16, {1100, 530}, 600, 0, 0}, 3, 1e-2));
	RUN(check({KT_BF16, 16, 0, 1, 1, 16, {1600}, 0, 0, 0}, 70, 1e-2));
	RUN(chunks({KT_BF16, 32, 0, 4, 2, 16, {150, 70, 9}, 0, 0, 0}));
	RUN(chunks({KT_INT8, 16, 0, 3, 1, 16, {140, 67}, 50, 0, SINKS}));
	RUN(chunks({KT_F8_E4M3, 16, 0, 1, 1, 32, {530}, 0, 0, 0}));
	for (KType t : types)
		for (int at : {0, 40, 69})
			for (int in_k = 0; in_k < 3; in_k++)
				RUN(nans({t, 32, 0, 2, 1, 16, {30, 70, 20}, at == 40 ? 20 : 0, 0, 0}, in_k, at));
	RUN(bad_query({KT_BF16, 32, 0, 2, 1, 16, {30, 70, 20}, 0, 0, 0}));
	RUN(parts());
	RUN(little_scratch());
	/* a device with less shared memory for a block, and one without BF16 */
	set_caps(75, 64, false);
	RUN(check({KT_F16, 128, 0, 8, 2, 16, {530, 64}, 0, 0, 0}, 20, 1e-2));
	RUN(check({KT_BF16, 256, 0, 4, 1, 16, {70, 600}, 0, 0, 0}, 5, 1e-2));
	RUN(check({KT_INT8, 576, 512, 16, 1, 16, {66, 520}, 0, 0, 0}, 2, 1e-2));
	set_caps(86, 99, false);
	RUN(check({KT_BF16, 576, 512, 16, 1, 16, {66, 520}, 0, 0, 0}, 2, 1e-2));
	/* the warpgroups' products: tiles loaded by all threads, and by bulk copies */
	if (set_caps(90, 227, true))
	{
		RUN(check({KT_INT8, 40, 24, 2, 1, 16, {65, 66}, 50, 0, ALIBI}, 3, 1e-2));
		RUN(check({KT_BF16, 40, 0, 2, 1, 16, {130}, 0, 0, 0}, 3, 1e-2));
		RUN(check({KT_F8_E5M2, 256, 0, 4, 1, 16, {70, 10}, 0, 30.0f, 0}, 5, 1e-2));
		RUN(check({KT_BF16, 128, 0, 8, 2, 16, {530, 64}, 0, 0, 0}, 20, 1e-2));
		RUN(check({KT_F16, 80, 0, 2, 1, 16, {130}, 0, 0, SINKS | PARTS}, 3, 1e-2));
		RUN(check({KT_BF16, 192, 128, 4, 4, 16, {200}, 0, 0, 0}, 3, 1e-2));
		RUN(check({KT_BF16, 256, 0, 4, 1, 16, {70, 10}, 0, 30.0f, 0}, 5, 1e-2));
		RUN(check({KT_BF16, 576, 512, 16, 1, 16, {66, 20}, 0, 0, 0}, 2, 1e-2));
		RUN(check({KT_BF16, 32, 50, 3, 1, 48, {300, 5}, 0, 0, ALIBI}, 3, 1e-2));
		RUN(check({KT_BF16, 32, 0, 2, 1, 16, {200, 70}, 67, 0, PARTS}, 80, 1e-2));
		RUN(check({KT_BF16, 32, 0, 2, 1, 16, {200, 70}, 48, 0, CHUNK}, 80, 1e-2));
		RUN(check({KT_BF16, 32, 0, 2, 2, 16, {90, 133}, 17, 0, BOTH}, 0, 1e-2));
		RUN(check({KT_BF16, 32, 0, 2, 1, 16, {511, 512, 513, 1025}, 0, 0, 0}, 2, 1e-2));
		RUN(check({KT_BF16, 16, 0, 1, 1, 16, {1100}, 600, 0, 0}, 140, 1e-2));
		for (int at : {0, 40, 69})
			RUN(nans({KT_BF16, 32, 0, 2, 1, 16, {30, 170, 20}, at == 40 ? 20 : 0, 0, 0}, 0, at));
		RUN(bad_query({KT_BF16, 32, 0, 2, 1, 16, {30, 70, 20}, 0, 0, 0}));
		RUN(little_scratch());
		all_orders([&]() { check({KT_BF16, 64, 0, 4, 2, 16, {170, 3}, 0, 0, 0}, 40, 1e-2); });
	}
	/* threads in any order */
	set_caps(90, 227, false);
	all_orders([&]() {
		RUN(check({KT_BF16, 128, 0, 8, 2, 16, {70, 3}, 0, 0, 0}, 20, 1e-2));
		RUN(check({KT_INT8, 160, 0, 2, 1, 16, {40, 530}, 0, 0, SINKS | PARTS}, 2, 1e-2));
	});
	return check_done("test_emu_attn");
}
