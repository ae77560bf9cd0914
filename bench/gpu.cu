/*
 * gpu.cu
 *	  Speed of kernels against the GPU's limits: each result next to a bound measured in the same run.
 *
 * Bounds are the copy of a large part of the device's memory (bytes read and written) and, for products,
 * cuBLASLt's best.  A kernel's time is the median of RUNS runs, each of enough launches for a
 * millisecond, after a warm-up; if memory is the bound, the data is larger than the L2.  bench/gpu
 * builds and runs this program.  --smoke is for the emulation: tiny shapes, no minimum results.
 */
#include "cuda/dev.h"
#include "cuda/mm/blaslt.h"
#include "cuda/cuda_ops.h"

#include <algorithm>
#include <functional>
#include <stdio.h>
#include <string>
#include <vector>

extern "C"
{
#include "cuda/pack.h"
}

#define RUNS	7

static bool smoke;
static const char *only;
static FILE *json;
static cudaStream_t stream;
static int	passed,
			failed,
			skipped;
static double copy_rate;		/* bytes a second */

static bool
wanted(const char *name)
{
	return only == NULL || strcmp(only, name) == 0;
}

/* Allocate device memory.  NULL: there is not enough, and the case is skipped. */
template <typename T> static T *
room(size_t n)
{
	void	   *p = NULL;

	if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess)
	{
		cudaGetLastError();
		return NULL;
	}
	cudaMemset(p, 0x11, n * sizeof(T));
	return (T *) p;
}

/* Return the seconds of one call. */
static double
seconds(const std::function<void (void)> &f)
{
	std::vector<double> t;
	cudaEvent_t from,
				to;
	int			n = 1;

	cudaEventCreate(&from);
	cudaEventCreate(&to);
	for (int run = -2; run < RUNS; run++)
	{
		float		ms = 0;

		cudaEventRecord(from, stream);
		for (int i = 0; i < n; i++)
			f();
		cudaEventRecord(to, stream);
		cudaEventSynchronize(to);
		cudaEventElapsedTime(&ms, from, to);
		if (run >= 0)
			t.push_back(ms / 1000.0 / n);
		else if (!smoke)
			n = ms < 1.0f ? (int) (1.0f / std::max(ms, 0.002f) * n) + 1 : n;
		if (smoke)
			break;
	}
	cudaEventDestroy(from);
	cudaEventDestroy(to);
	if (t.empty())
		return 1e-6;
	std::sort(t.begin(), t.end());
	return t[t.size() / 2];
}

/* bar: required share of the bound; 0: none. */
static void
report(const char *name, const char *what, double value, const char *unit, double bound, const char *of,
	   double bar)
{
	double		ratio = bound > 0 ? value / bound : 0;
	bool		ok = bar == 0 || ratio >= bar || smoke;
	cudaError_t e = cudaGetLastError();
	const char *verdict = e != cudaSuccess ? cudaGetErrorString(e) : smoke ? "emulated" : bar == 0 ? "" :
		ok ? "ok" : "miss";

	ok = ok && e == cudaSuccess;
	passed += ok;
	failed += !ok;
	printf("%-14s %-34s %10.1f %-8s", name, what, value, unit);
	if (bound > 0)
		printf(" %5.1f %% of %.1f (%s)", 100 * ratio, bound, of);
	if (bar > 0)
		printf(", bar %.0f %%", 100 * bar);
	printf("  %s\n", verdict);
	fflush(stdout);
	if (json != NULL)
		fprintf(json, "{\"part\": \"bench\", \"name\": \"%s\", \"what\": \"%s\", \"value\": %.6g, \"unit\": "
				"\"%s\", \"bound\": %.6g, \"of\": \"%s\", \"ratio\": %.4f, \"bar\": %.2f, \"verdict\": "
				"\"%s\"}\n", name, what, value, unit, bound, of, ratio, bar, verdict);
}

static void
skip(const char *name, const char *why)
{
	skipped++;
	printf("%-14s skipped: %s\n", name, why);
	if (json != NULL)
		fprintf(json, "{\"part\": \"bench\", \"name\": \"%s\", \"verdict\": \"skipped\"}\n", name);
}

/*
 * ---- results of other libraries, measured before by bench/gpu_torch.py: lines of a name, a tab and a
 * number ----
 */

static std::vector<std::pair<std::string, double>> others;
static char given_why[160];		/* reason why it couldn't measure */

static bool
read_others(const char *path)
{
	FILE	   *f = fopen(path, "r");
	char		line[256];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
	{
		char	   *tab = strchr(line, '\t');

		line[strcspn(line, "\n")] = '\0';
		if (tab == NULL)
			continue;
		*tab = '\0';
		if (strcmp(line, "skipped") == 0)
			snprintf(given_why, sizeof(given_why), "%.150s", tab + 1);
		else
			others.emplace_back(line, atof(tab + 1));
	}
	if (f == NULL)
		perror(path);
	else
		fclose(f);
	return f != NULL;
}

/* Returns 0 if it wasn't measured. */
static double
given(const char *name)
{
	for (auto &o : others)
		if (o.first == name)
			return o.second;
	return 0;
}

/* ---- memory ---- */

static void
bench_copy(void)
{
	size_t		n = smoke ? 4096 : (size_t) 1 << 30;
	uint8_t    *a = room<uint8_t>(n),
			   *b = room<uint8_t>(n);
	void	   *h = NULL;
	double		t;

	if (a != NULL && b != NULL)
	{
		t = seconds([&]() { cudaMemcpyAsync(b, a, n, cudaMemcpyDeviceToDevice, stream); });
		copy_rate = 2.0 * (double) n / t;
		report("copy", "device to device", copy_rate / 1e9, "GB/s", 0, "", 0);
		n /= 4;
		if (cudaMallocHost(&h, n) == cudaSuccess)
		{
			t = seconds([&]() { cudaMemcpyAsync(a, h, n, cudaMemcpyHostToDevice, stream); });
			report("copy", "pinned memory to device", (double) n / t / 1e9, "GB/s", 0, "", 0);
			t = seconds([&]() { cudaMemcpyAsync(h, a, n, cudaMemcpyDeviceToHost, stream); });
			report("copy", "device to pinned memory", (double) n / t / 1e9, "GB/s", 0, "", 0);
			cudaFreeHost(h);
		}
	}
	else
		skip("copy", "no memory");
	cudaFree(a);
	cudaFree(b);
}

static void
memory_bound(const char *name, const char *what, double bytes, double bar,
			 const std::function<void (void)> &f)
{
	report(name, what, bytes / seconds(f) / 1e9, "GB/s", copy_rate / 1e9, "copy", bar);
}

static void
bench_rows(void)
{
	int			rows = smoke ? 3 : 16384,
				dim = smoke ? 64 : 4096;
	size_t		n = (size_t) rows * (size_t) dim;
	float	   *x = room<float>(n),
			   *y = room<float>(n),
			   *gu = room<float>(2 * n),
			   *w = room<float>((size_t) dim);

	if (x != NULL && y != NULL && gu != NULL && w != NULL)
	{
		memory_bound("rows", "rmsnorm to bfloat16", 6.0 * (double) n, 0, [&]() {
			cuda_rmsnorm(y, KT_BF16, x, w, rows, dim, 1e-5f, stream);
		});
		memory_bound("rows", "add, rmsnorm to bfloat16", 14.0 * (double) n, 0, [&]() {
			cuda_add_rmsnorm(gu, KT_BF16, x, y, w, rows, dim, 1e-5f, stream);
		});
		memory_bound("rows", "silu, times, to bfloat16", 10.0 * (double) n, 0, [&]() {
			cuda_act_mul(KACT_SILU, y, KT_BF16, gu, rows, dim, stream);
		});
	}
	else
		skip("rows", "no memory");
	cudaFree(x);
	cudaFree(y);
	cudaFree(gu);
	cudaFree(w);
}

/* ---- tokens ---- */

/*
 * Rows with logits as a model has them, a few far above the others; next to the time to copy them to the
 * host.
 */
static void
bench_sample(void)
{
	static const struct
	{
		const char *what;
		float		inv_t;
		int			top_k;
		double		top_p;
		int			logprobs;
	}			kinds[] = {
		{"greedy", 0.0f, 0, 1.0, -1},
		{"temperature 1", 1.0f, 0, 1.0, -1},
		{"top_k 50, top_p 0.9", 1.0f, 50, 0.9, -1},
		{"temperature 1, 5 log-probabilities", 1.0f, 0, 1.0, 5},
	};
	int			rows = smoke ? 2 : 256,
				width = smoke ? 500 : 131072;
	size_t		n = (size_t) rows * (size_t) width;
	float	   *x = room<float>(n);
	KSample    *at = room<KSample>((size_t) rows);
	KSampled   *out = room<KSampled>((size_t) rows);
	void	   *h = NULL;
	std::vector<float> row((size_t) width);
	std::vector<KSample> k((size_t) rows);
	uint64_t	dice = 42;

	if (x == NULL || at == NULL || out == NULL || cudaMallocHost(&h, n * sizeof(float)) != cudaSuccess)
		skip("sample", "no memory");
	else
	{
		for (float &v : row)
		{
			dice = dice * 6364136223846793005u + 1442695040888963407u;
			v = -2.0f * logf(((float) (dice >> 40) + 0.5f) / 16777216.0f);
		}
		for (int i = 0; i < rows; i++)
			cudaMemcpy(x + (size_t) i * (size_t) width, row.data(), (size_t) width * sizeof(float),
					   cudaMemcpyHostToDevice);
		double		copied =
			(double) rows / seconds([&]() { cudaMemcpyAsync(h, x, n * sizeof(float), cudaMemcpyDeviceToHost,
															stream); });

		for (auto &c : kinds)
		{
			for (int i = 0; i < rows; i++)
			{
				k[i] = KSample{};
				k[i].row = i;
				k[i].pos = (uint32_t) i;
				k[i].inv_t = c.inv_t;
				k[i].top_k = c.top_k;
				k[i].top_p = c.top_p;
				k[i].min_p_log = -INFINITY;
				k[i].repetition = 1;
				k[i].n_logprobs = c.logprobs;
			}
			cudaMemcpy(at, k.data(), k.size() * sizeof(KSample), cudaMemcpyHostToDevice);
			report("sample", c.what,
				   (double) rows / seconds([&]() { cuda_sample(at, rows, x, width, width, out, stream); }),
				   "rows/s", copied, "copied to the host", 0);
		}
	}
	cudaFreeHost(h);
	cudaFree(x);
	cudaFree(at);
	cudaFree(out);
}

#include "gpu_products.cuh"
#include "gpu_attn.h"
#include "gpu_model.cuh"

static const struct
{
	const char *name;
	void		(*run) (void);
}			cases[] = {
	{"rows", bench_rows},
	{"sample", bench_sample},
	{"decode_attn", bench_decode_attn},
	{"prefill_attn", bench_prefill_attn},
	{"gemm", bench_gemm},
	{"w4a16", bench_w4a16},
	{"model8b", bench_model8b},
};

static int
usage(FILE *to, int status)
{
	fputs("usage: bench/gpu [--only NAME] [--json FILE] [--others FILE] [--smoke]\n\nNAME: copy", to);
	for (auto &c : cases)
		fprintf(to, ", %s", c.name);
	fputs("\n", to);
	return status;
}

int
main(int argc, char **argv)
{
	int			n = 0;

	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--smoke") == 0)
			smoke = true;
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			only = argv[++i];
		else if (strcmp(argv[i], "--others") == 0 && i + 1 < argc)
		{
			if (!read_others(argv[++i]))
				return 2;
		}
		else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
		{
			json = fopen(argv[++i], "w");
			if (json == NULL)
			{
				perror(argv[i]);
				return 2;
			}
		}
		else
			return usage(strcmp(argv[i], "--help") == 0 ? stdout : stderr, strcmp(argv[i], "--help") == 0
						 ? 0 : 2);
	}
	if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0)
	{
		fputs("bench/gpu: there is no GPU here\n", stderr);
		return 2;
	}
	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	bench_copy();				/* also needed as the bound of others */
	for (auto &c : cases)
		if (wanted(c.name))
			c.run();
	cudaStreamDestroy(stream);
	if (json != NULL)
		fclose(json);
	printf("bench_gpu: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed > 0;
}
