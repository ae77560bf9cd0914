/*
 * test_pool.cu
 *	  kernels/cuda/pool.cu under emulation against src/model/layers/pooler.c, bit for bit: the six
 *	  poolers, complete texts and texts split into steps.
 */
#include "rows_test.h"

extern "C"
{
#include "model/layers/pooler.h"
}

#define WIDTH	141
#define N_SEQS	3

static const int lengths[N_SEQS] = {1, 13, 6};
static const int from[N_SEQS] = {0, 2, 0};	/* rows before them don't count */

static Floats
some(size_t n)
{
	Floats		x(n);

	for (float &v : x)
		v = (float) ((int) (dice() % 20001) - 10000) / 3000.0f;
	return x;
}

static KPoolAdd
add_of(PoolKind k)
{
	return k == POOL_CLS || k == POOL_LAST ? KPOOL_COPY : k == POOL_MAX ? KPOOL_MAX :
		k == POOL_WEIGHTED_MEAN ? KPOOL_WEIGHTED : KPOOL_SUM;
}

static double
divisor(PoolKind k, int first, int n)
{
	return k == POOL_MEAN ? n - first : k == POOL_MEAN_SQRT_LEN ? sqrt(n - first) :
		k == POOL_WEIGHTED_MEAN ? ((double) n * (n + 1) - (double) first * (first + 1)) / 2 : 0;
}

/* Store the positions lo .. hi - 1 of a sequence that the pooler uses. */
static void
those(PoolKind k, int s, int *lo, int *hi)
{
	PoolRows	which = pool_rows(k);
	int			first = which == PR_LAST ? lengths[s] - 1 : from[s],
				end = which == PR_FIRST ? from[s] + 1 : lengths[s];

	*lo = *lo > first ? *lo : first;
	*hi = *hi < end ? *hi : end;
	*hi = *hi > *lo ? *hi : *lo;
}

static void
check(PoolKind k, int step, bool nan)
{
	Floats		x[N_SEQS],
				want[N_SEQS];

	for (int s = 0; s < N_SEQS; s++)
	{
		int			lo = 0,
					hi = lengths[s];

		x[s] = some((size_t) lengths[s] * WIDTH);
		if (nan && s == 1)
			x[s][4 * WIDTH + 7] = NAN;
		want[s].resize(WIDTH);
		pool_start(k, want[s].data(), WIDTH);
		those(k, s, &lo, &hi);
		for (int p = lo; p < hi; p++)
			pool_add(k, want[s].data(), &x[s][(size_t) p * WIDTH], WIDTH, p);
		pool_end(k, want[s].data(), WIDTH, from[s], lengths[s]);
	}
	all_orders([&]() {
		Dev			sums(NULL, (size_t) N_SEQS * (WIDTH + 2));
		Floats		got;

		for (int at = 0; at < lengths[1]; at += step)
		{
			std::vector<KPoolSeq> seqs;
			Floats		rows;

			for (int s = 0; s < N_SEQS; s++)
			{
				int			end = at + step < lengths[s] ? at + step : lengths[s],
							lo = at,
							hi = end;

				if (at >= lengths[s])
					continue;
				those(k, s, &lo, &hi);
				seqs.push_back({(s + 1) % N_SEQS, (int) (rows.size() / WIDTH) + lo - at, hi - lo, lo, at == 0,
					end == lengths[s] ? divisor(k, from[s], lengths[s]) : 0});
				rows.insert(rows.end(), x[s].begin() + at * WIDTH, x[s].begin() + end * WIDTH);
			}
			Dev			dx(rows);
			DevOf<KPoolSeq> dseqs(seqs);

			cuda_pool_rows(add_of(k), sums.p, WIDTH + 2, dseqs.p, (int) seqs.size(), dx.p, WIDTH, WIDTH,
						   NULL);
			cudaDeviceSynchronize();
		}
		got = sums.get();
		for (int s = 0; s < N_SEQS; s++)
			for (int i = 0; i < WIDTH; i++)
			{
				float		g = got[(s + 1) % N_SEQS * (WIDTH + 2) + i];

				CHECK(memcmp(&g, &want[s][i], sizeof(g)) == 0 || (isnan(g) && isnan(want[s][i])),
					  "pooler %d, steps of %d, text %d: column %d is %g, not %g", k, step, s, i, (double) g,
					  (double) want[s][i]);
			}
	});
}

int
main(void)
{
	for (int k = 0; k < POOL_KINDS; k++)
		for (int step : {1, 4, 13})
			RUN(check((PoolKind) k, step, k == POOL_MAX && step == 4));
	return check_done("test_emu_pool");
}
