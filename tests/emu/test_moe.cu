/*
 * test_moe.cu
 *	  kernels/cuda/moe.cu under emulation against kernels/route.c: the same experts, and the same bits
 *	  except for sums over all experts.
 */
#include "emu_test.h"
#include "cuda/cuda_ops.h"

#include <vector>

#include "route.h"

static float
number(void)
{
	return (float) ((int) (dice() % 4001) - 2000) / 500.0f;
}

/* ---- routing ---- */

/* Does it add over all experts?  The order then differs, and the weights differ by rounding. */
static bool
sums_all(const KRoute *r)
{
	return r->routing == KROUTE_SOFTMAX || r->routing == KROUTE_SPARSEMIXER;
}

/* Logits with some equal ones: the first is chosen. */
static void
route(KRoute r, bool correction, int rows)
{
	KRoute		c = r;
	size_t		n = (size_t) r.n_experts,
				k = (size_t) r.top_k;
	std::vector<float> logits(rows * n),
				shift(n),
				space(n),
				want_w(rows * k),
				w(rows * k),
				w1(k);
	std::vector<int32_t> want(rows * k),
				experts(rows * k),
				e1(k);
	float	   *dshift;

	for (size_t i = 0; i < logits.size(); i++)
		logits[i] = dice() % 4 == 0 ? (float) (dice() % 5) : number();
	for (size_t i = 0; i < n; i++)
		shift[i] = dice() % 3 == 0 ? 0.25f : number() / 4.0f;
	dshift = dev(shift.data(), n);
	r.correction = correction ? dshift : NULL;
	c.correction = correction ? shift.data() : NULL;
	for (int i = 0; i < rows; i++)
	{
		std::vector<float> l(logits.begin() + i * (long) n, logits.begin() + (i + 1) * (long) n);

		kroute(&c, l.data(), space.data(), &want[i * k], &want_w[i * k]);
	}
	all_orders([&]() {
		float	   *dl = dev(logits.data(), logits.size()),
				   *dw = dev<float>(NULL, w.size());
		int32_t    *de = dev<int32_t>(NULL, experts.size());
		int			differ = 0,
					alone = 0;

		cuda_moe_route(&r, dl, rows, de, dw, NULL);
		host(w.data(), dw, w.size());
		host(experts.data(), de, experts.size());
		for (size_t i = 0; i < w.size(); i++)
			differ += experts[i] != want[i] ||
				(sums_all(&r) ? fabs((double) w[i] - want_w[i]) > 1e-6 * fabs((double) want_w[i]) +
				 1e-30 : w[i] != want_w[i]);
		CHECK(differ == 0, "routing %d, %d of %d experts, %d of %d groups: %d pairs differ", (int) r.routing,
			  r.top_k, r.n_experts, r.top_groups, r.n_groups, differ);
		for (int i = 0; i < rows; i += 3)
		{
			cuda_moe_route(&r, dl + i * n, 1, de, dw, NULL);
			host(w1.data(), dw, k);
			host(e1.data(), de, k);
			alone += memcmp(w1.data(), &w[i * k], k * sizeof(float)) != 0 ||
				memcmp(e1.data(), &experts[i * k], k * sizeof(int32_t)) != 0;
		}
		CHECK(alone == 0, "routing %d: %d rows differ alone", (int) r.routing, alone);
		cudaFree(dl);
		cudaFree(dw);
		cudaFree(de);
	});
	cudaFree(dshift);
}

static KRoute
routing(KRouting how, int n_experts, int top_k)
{
	KRoute		r = {};

	r.routing = how;
	r.n_experts = n_experts;
	r.top_k = top_k;
	r.normalize_min = 1e-9f;
	r.scale = 1;
	r.jitter = 0.01f;
	return r;
}

static void
routes(void)
{
	static const int sizes[][2] = {{2, 1}, {2, 2}, {8, 2}, {31, 4}, {64, 6}, {160, 8}, {256, 8}, {1024, 64}};

	for (int how = KROUTE_SOFTMAX; how <= KROUTE_SPARSEMIXER; how++)
		for (const int *s : sizes)
		{
			KRoute		r = routing((KRouting) how, s[0], s[1]);

			if (how == KROUTE_SPARSEMIXER && s[1] > 8)
				continue;
			r.normalize = s[0] % 4 == 0;
			r.scale = s[0] > 100 ? 2.5f : 1;
			route(r, false, s[0] > 256 ? 2 : 7);
			if (how == KROUTE_SIGMOID || how == KROUTE_SOFTMAX)
				route(r, true, 7);
		}
	for (int by = KGROUP_MAX; by <= KGROUP_TOP2; by++)
		for (int correction = 0; correction < 2; correction++)
		{
			KRoute		r = routing(correction != 0 ? KROUTE_SIGMOID : KROUTE_SOFTMAX, 256, 8);

			r.group_by = (KGroupBy) by;
			r.n_groups = 8;
			r.top_groups = 4;
			r.normalize = true;
			route(r, correction != 0, 9);
			r.n_experts = 96;
			r.n_groups = 48;
			r.top_groups = 5;
			route(r, correction != 0, 9);
		}
}

/* A row of NaN chooses valid experts, and affects no other row. */
static void
route_nan(KRouting how)
{
	enum
	{
		N = 40, K = 4
	};
	KRoute		r = routing(how, N, K);
	std::vector<float> logits(3 * N),
				w(3 * K),
				w2(3 * K);
	std::vector<int32_t> e(3 * K),
				e2(3 * K);

	for (float &l : logits)
		l = number();
	for (int pass = 0; pass < 2; pass++)
	{
		float	   *dl = dev(logits.data(), logits.size()),
				   *dw = dev<float>(NULL, w.size());
		int32_t    *de = dev<int32_t>(NULL, e.size());

		cuda_moe_route(&r, dl, 3, de, dw, NULL);
		host(pass == 0 ? w.data() : w2.data(), dw, w.size());
		host(pass == 0 ? e.data() : e2.data(), de, e.size());
		cudaFree(dl);
		cudaFree(dw);
		cudaFree(de);
		for (int i = 0; i < N; i++)
			logits[N + i] = NAN;
	}
	for (int i = 0; i < K; i++)
		CHECK(e2[K + i] >= 0 && e2[K + i] < N && (i == 0 || e2[K + i] > e2[K + i - 1]) && isnan(w2[K + i]),
			  "routing %d of NaN: expert %d, weight %g", (int) how, e2[K + i], (double) w2[K + i]);
	for (int row : {0, 2})
		CHECK(memcmp(&w[row * K], &w2[row * K], K * sizeof(float)) == 0 &&
			  memcmp(&e[row * K], &e2[row * K], K * sizeof(int32_t)) == 0, "routing %d: NaN leaves its row",
			  (int) how);
}

/* ---- slots ---- */

/* n experts, of which e has 1 + e % (width - 1) slots, with numbers that identify both. */
static void
slots(int rows, int first, int top_k, int n, int width)
{
	std::vector<int32_t> table(n * width, -1),
				experts(rows * top_k + 1),
				want(experts.size());

	for (int e = 0; e < n; e++)
	{
		table[e * width] = 1 + e % (width - 1);
		for (int c = 0; c < table[e * width]; c++)
			table[e * width + 1 + c] = 1000 * e + c;
	}
	for (int i = 0; i < rows * top_k; i++)
	{
		int			e = experts[i] = (int32_t) (dice() % (unsigned) n);

		want[i] = 1000 * e + (first + i / top_k) % (1 + e % (width - 1));
	}
	all_orders([&]() {
		int32_t    *de = dev(experts.data(), experts.size()),
				   *ds = dev(table.data(), table.size());
		std::vector<int32_t> got(experts.size());

		cuda_moe_slots(de, rows, first, top_k, ds, width, NULL);
		host(got.data(), de, got.size());
		CHECK(memcmp(got.data(), want.data(), want.size() * sizeof(int32_t)) == 0,
			  "slots of %d rows from %d on: differ", rows, first);
		cudaFree(de);
		cudaFree(ds);
	});
}

/* ---- placement ---- */

/*
 * Counts like those of src/model/layers/moe.c; of: experts are chosen among this many, the others stay
 * empty.
 */
static void
place(int pairs, int n, int of)
{
	std::vector<int32_t> experts(pairs + 1),
				start(n + 1),
				want_start(n + 2),
				to(pairs + 1),
				want(pairs + 1);

	for (int i = 0; i < pairs; i++)
		want_start[(experts[i] = (int32_t) (dice() % (unsigned) of)) + 1]++;
	for (int i = 0; i < n; i++)
		want_start[i + 1] += want_start[i];
	{
		std::vector<int32_t> at = want_start;

		for (int i = 0; i < pairs; i++)
			want[i] = at[experts[i]]++;
	}
	all_orders([&]() {
		int32_t    *de = dev(experts.data(), experts.size()),
				   *ds = dev<int32_t>(NULL, start.size()),
				   *dp = dev<int32_t>(NULL, to.size());

		cuda_moe_place(de, pairs, n, ds, dp, NULL);
		host(start.data(), ds, start.size());
		host(to.data(), dp, to.size());
		CHECK(memcmp(start.data(), want_start.data(), start.size() * sizeof(int32_t)) == 0,
			  "%d pairs, %d experts: starts differ", pairs, n);
		CHECK(memcmp(to.data(), want.data(), (size_t) pairs * sizeof(int32_t)) == 0,
			  "%d pairs, %d experts: places differ", pairs, n);
		cudaFree(de);
		cudaFree(ds);
		cudaFree(dp);
	});
}

/* ---- gathering and combining ---- */

/* Conversions of the CPU for the host: common.cuh's to_float() and from_float() are for the device. */
static float host_float(float f) { return f; }
static float host_float(F16 h) { return kf16_to_f32(h.u); }
static float host_float(BF16 h) { return kbf16_to_f32(h.u); }
static void host_put(float *to, float f) { *to = f; }
static void host_put(F16 *to, float f) { to->u = kf32_to_f16(f); }
static void host_put(BF16 *to, float f) { to->u = kf32_to_bf16(f); }

template <typename T> static void
gather(KType type, int rows, int top_k, int hidden, bool weighted)
{
	std::vector<T> h(rows * hidden),
				x(rows * top_k * hidden),
				want(x.size());
	std::vector<float> w(rows * top_k);
	std::vector<int32_t> to(rows * top_k);

	for (T &v : h)
		host_put(&v, number());
	for (size_t i = 0; i < to.size(); i++)
	{
		w[i] = number();
		to[i] = (int32_t) ((i * 7 + 3) % to.size());
	}
	for (size_t i = 0; i < to.size(); i++)
		for (int k = 0; k < hidden; k++)
		{
			T			v = h[i / top_k * hidden + k];

			if (weighted)
				host_put(&v, host_float(v) * w[i]);
			want[(size_t) to[i] * hidden + k] = v;
		}
	all_orders([&]() {
		T		   *dh = dev(h.data(), h.size()),
				   *dx = dev<T>(NULL, x.size());
		float	   *dw = dev(w.data(), w.size());
		int32_t    *dt = dev(to.data(), to.size());

		cuda_moe_gather(type, dx, dh, rows, top_k, dt, weighted ? dw : NULL, hidden, NULL);
		host(x.data(), dx, x.size());
		CHECK(memcmp(x.data(), want.data(), x.size() * sizeof(T)) == 0,
			  "gather of type %d, %d x %d of %d: differs", (int) type, rows, top_k, hidden);
		cudaFree(dh);
		cudaFree(dx);
		cudaFree(dw);
		cudaFree(dt);
	});
}

static void
combine(int rows, int top_k, int hidden, bool weighted, bool shared, bool gated, bool bias)
{
	std::vector<float> y(rows * hidden),
				x(rows * top_k * hidden),
				w(rows * top_k),
				gate(rows),
				out(hidden),
				want(y.size()),
				got(y.size()),
				alone(hidden);
	std::vector<int32_t> to(rows * top_k);

	for (std::vector<float> *v : {&y, &x, &w, &gate, &out})
		for (float &f : *v)
			f = number();
	for (size_t i = 0; i < to.size(); i++)
		to[i] = (int32_t) ((i * 7 + 3) % to.size());
	for (int i = 0; i < rows; i++)
		for (int k = 0; k < hidden; k++)
		{
			float		sum = shared ? (gated ? kroute_sigmoid(gate[i]) : 1.0f) * y[i * hidden + k] : 0.0f;

			for (int j = 0; j < top_k; j++)
				sum += (weighted ? w[i * top_k + j] : 1.0f) * x[(size_t) to[i * top_k + j] * hidden + k];
			want[i * hidden + k] = bias ? sum + out[k] : sum;
		}
	all_orders([&]() {
		/* where y has no value, it may be anything */
		float	   *dy = dev(shared ? y.data() : NULL, y.size()),
				   *dx = dev(x.data(), x.size()),
				   *dw = dev(w.data(), w.size()),
				   *dg = dev(gate.data(), gate.size()),
				   *dout = dev(out.data(), out.size());
		int32_t    *dt = dev(to.data(), to.size());

		cuda_moe_combine(dy, dx, rows, top_k, dt, weighted ? dw : NULL, gated ? dg : NULL, shared,
						 bias ? dout : NULL, hidden, NULL);
		host(got.data(), dy, got.size());
		CHECK(memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0,
			  "combine %d x %d of %d: differs", rows, top_k, hidden);
		for (float *p : {dy, dx, dw, dg, dout})
			cudaFree(p);
		cudaFree(dt);
	});
}

int
main(void)
{
	RUN(routes());
	for (int how = KROUTE_SOFTMAX; how <= KROUTE_SPARSEMIXER; how++)
		if (how != KROUTE_SIGMOID)
			RUN(route_nan((KRouting) how));
	for (const int *s : (const int[][3]) {{0, 4, 4}, {1, 2, 1}, {8, 8, 8}, {33, 3, 2}, {64, 256, 256},
										  {2000, 60, 60},
										  {2500, 128, 3}, {1100, 1024, 1000}, {5000, 8, 1}})
		RUN(place(s[0], s[1], s[2]));
	RUN(slots(0, 0, 2, 4, 2));
	RUN(slots(5, 0, 2, 8, 2));
	RUN(slots(300, 512, 8, 60, 4));
	RUN(slots(33, 7, 3, 12, 9));
	for (int top_k : {1, 2, 8})
		for (int hidden : {1, 30, 64, 1032})
			for (bool weighted : {false, true})
			{
				gather<float>(KT_F32, 5, top_k, hidden, weighted);
				gather<F16>(KT_F16, 1, top_k, hidden, weighted);
				gather<BF16>(KT_BF16, 4, top_k, hidden, weighted);
				RUN(combine(3, top_k, hidden, weighted, hidden > 1, top_k > 1, hidden != 64));
			}
	RUN(combine(1, 4, 64, true, false, false, false));
	return check_done("test_emu_moe");
}
