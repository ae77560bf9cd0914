/*
 * test_nccl.cu
 *	  kernels/cuda/nccl.cu and comm.cu: communication of ranks with a device each, and what happens when
 *	  another rank fails.
 *
 * Under emulation ranks are processes, and the library is fake_nccl.cc.  All draw the same random
 * numbers, so each rank knows the others' values.  On a GPU there is one rank, with the real library if
 * it is installed.
 */
#include "emu_test.h"
#include "cuda/common.cuh"
#include "cuda/cuda_ops.h"
#include "cuda/dev.h"

#include <sys/mman.h>
#include <time.h>
#include <algorithm>
#include <vector>

#define MOST	200000			/* floats of a part */
#define BIG		2200000			/* ... of one that is sent in pieces */

enum { WELL, WRONG = 3, LOST = 7, REFUSED = 9 };	/* exit statuses of a rank's process */

static const KDeviceOps *ops;
static const KHost the_host = {KDEVICE_ABI, NULL, kpool_device, kpool_nthreads};

/* Return the value of rank r; a fraction, so that the order of a sum matters. */
static float
value(unsigned call, int r, size_t i)
{
	unsigned	h = (call * 2654435761u) ^ ((unsigned) r * 40503u) ^ ((unsigned) i * 2246822519u);

	h ^= h >> 15;
	return (float) (int) (h * 2654435761u >> 8) / 5242880.0f - 1.5f;
}

/* ---- comm.cu ---- */

static void
test_columns(int ranks, int rows, std::vector<int> widths, int from, int width, size_t size)
{
	CudaParts	p = {};
	size_t		slot = 0;
	size_t		total;

	p.ranks = ranks;
	p.from = from;
	p.width = width;
	for (int r = 0; r < ranks; r++)
		p.starts[r + 1] = p.starts[r] + widths[(size_t) r];
	for (int r = 0; r < ranks; r++)
		slot = std::max(slot, (cuda_part_width(&p, r) * (size_t) rows * size + 15) / 16 * 16);
	total = (size_t) rows * (size_t) p.starts[ranks] * size;
	std::vector<uint8_t> parts(slot * (size_t) ranks), want(total, 0xab), got(total);
	for (auto &b : parts)
		b = (uint8_t) dice();
	for (int r = 0; r < ranks; r++)
		for (int i = 0; i < rows; i++)
		{
			size_t		own = cuda_part_width(&p, r) * size;

			if (own > 0)
				memcpy(&want[((size_t) i * (size_t) p.starts[ranks] + (size_t) (p.starts[r] + from)) * size],
					   &parts[(size_t) r * slot + (size_t) i * own], own);
		}
	uint8_t    *d_parts = dev(parts.data(), parts.size());
	uint8_t    *all = dev<uint8_t>(NULL, total);

	all_orders([&] {
		cudaMemset(all, 0xab, total);
		cuda_columns(all, d_parts, slot, &p, size, rows, NULL);
		cudaDeviceSynchronize();
		host(got.data(), all, total);
		CHECK(got == want, "columns of %d ranks, %d rows, from %d, %d of %zu bytes", ranks, rows, from, width,
			  size);
	});
	cudaFree(d_parts);
	cudaFree(all);
}

static void
test_sum_parts(int ranks, size_t n)
{
	std::vector<float> parts((size_t) ranks * n), want(n), got(n);
	float	   *d_parts;
	float	   *x = dev<float>(NULL, n);

	for (int r = 0; r < ranks; r++)
		for (size_t i = 0; i < n; i++)
		{
			parts[(size_t) r * n + i] = value(1, r, i);
			want[i] = r == 0 ? parts[i] : want[i] + parts[(size_t) r * n + i];
		}
	d_parts = dev(parts.data(), parts.size());
	all_orders([&] {
		cuda_sum_parts(x, d_parts, ranks, n, NULL);
		cudaDeviceSynchronize();
		host(got.data(), x, n);
		CHECK(memcmp(got.data(), want.data(), n * sizeof(float)) == 0, "a sum of %d ranks", ranks);
	});
	cudaFree(d_parts);
	cudaFree(x);
}

/* ---- a rank ---- */

static const char *library = "";

/* State that ranks share outside of NCCL: is the group intact? */
struct Group
{
	volatile int dead;
};

static bool
lives(void *ctx)
{
	return !((Group *) ctx)->dead;
}

struct Rank
{
	KDevice    *d;
	KDevComm   *c;
	int			rank;
	int			size;
	unsigned	call;
	float	   *mine;			/* of the device */
	float	   *all;
	std::vector<float> a;
	std::vector<float> b;
	bool		wrong;
};

/* Copy the device's values; returns false if the device is lost. */
static bool
fetch(Rank *r, float *to, const float *from, size_t n)
{
	char		why[256];

	ops->get(r->d, to, from, n * sizeof(float));
	return ops->wait(r->d, why, sizeof(why));
}

static void
fill(Rank *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		r->a[i] = value(r->call, r->rank, i);
	ops->put(r->d, r->mine, r->a.data(), n * sizeof(float));
}

static bool
one_gather(Rank *r, size_t n, unsigned d)
{
	int			rows = 1 + (int) (d % 5);
	int32_t		starts[CUDA_RANKS + 1] = {0};
	size_t		total;

	/* uneven parts, some of them empty */
	for (int k = 0; k < r->size; k++)
		starts[k + 1] = starts[k] + (int32_t) (n / (size_t) rows * (d % 7 == 0 ? 2 : (d >> k) % 3) / 2);
	total = (size_t) rows * (size_t) starts[r->size];
	fill(r, (size_t) rows * (size_t) (starts[r->rank + 1] - starts[r->rank]));
	ops->comm->gather(r->c, r->all, r->mine, rows, starts, sizeof(float));
	if (!fetch(r, r->b.data(), r->all, total))
		return false;
	for (int k = 0; k < r->size; k++)
		for (int i = 0, w = starts[k + 1] - starts[k]; i < rows; i++)
			for (int j = 0; j < w; j++)
				r->wrong |= r->b[(size_t) i * (size_t) starts[r->size] + (size_t) (starts[k] + j)] !=
					value(r->call, k, (size_t) i * (size_t) w + (size_t) j);
	return true;
}

static bool
one_sum(Rank *r, size_t n)
{
	fill(r, n);
	ops->comm->sum(r->c, r->mine, n);
	if (!fetch(r, r->b.data(), r->mine, n))
		return false;
	for (size_t i = 0; i < n; i++)
	{
		float		sum = value(r->call, 0, i);

		for (int k = 1; k < r->size; k++)
			sum += value(r->call, k, i);
		r->wrong |= r->b[i] != sum;
	}
	return true;
}

static bool
one_broadcast(Rank *r, size_t n, unsigned d)
{
	int			root = (int) (d % (unsigned) r->size);

	fill(r, n);
	ops->comm->broadcast(r->c, r->mine, n * sizeof(float), root);
	if (!fetch(r, r->b.data(), r->mine, n))
		return false;
	for (size_t i = 0; i < n; i++)
		r->wrong |= r->b[i] != value(r->call, root, i);
	return true;
}

/* Send along the ranks, and from the last to the first. */
static bool
one_send(Rank *r, size_t n)
{
	int			to = (r->rank + 1) % r->size;
	int			from = (r->rank + r->size - 1) % r->size;

	fill(r, n);
	if (r->rank > 0)
		ops->comm->recv(r->c, r->all, n * sizeof(float), from);
	ops->comm->send(r->c, r->mine, n * sizeof(float), to);
	if (r->rank == 0)
		ops->comm->recv(r->c, r->all, n * sizeof(float), from);
	if (!fetch(r, r->b.data(), r->all, n))
		return false;
	for (size_t i = 0; i < n; i++)
		r->wrong |= r->b[i] != value(r->call, from, i);
	return true;
}

/* Make `calls` random calls; returns false if the device is lost. */
static bool
exchange(Rank *r, int calls)
{
	for (int i = 0; i < calls; i++)
	{
		unsigned	kind = dice() % 6;
		/* one call is too large for one piece */
		size_t		n = i == 3 ? BIG : dice() % (i % 8 == 0 ? MOST : 300);
		unsigned	d = i == 3 ? 10 : dice();
		bool		there;

		r->call = (unsigned) i;
		if (i == 3 || kind < 2)
			there = one_gather(r, n, d);
		else if (i == 4 || kind == 2)
			there = one_sum(r, i == 4 ? BIG : n);
		else if (kind == 3 || r->size == 1)
			there = one_broadcast(r, n, d);
		else
			there = one_send(r, n);
		if (!there)
			return false;
	}
	return true;
}

static KDevice *
open_device(bool invariant)
{
	KDevOpen	o = {64, 8, 16, 64, invariant, KVARIANT_AUTO, false};
	char		err[256];
	KDevice    *d = ops->open(0, &the_host, &o, err, sizeof(err));

	if (d == NULL)
		abort();
	return d;
}

static bool
open_rank(Rank *r, int rank, int size, const void *id, Group *g, char *err, size_t errlen)
{
	KDevCommOpen o = {library, id, rank, size, lives, g};

	r->d = open_device(true);
	r->rank = rank;
	r->size = size;
	r->wrong = false;
	r->c = ops->comm->open(r->d, &o, err, errlen);
	if (r->c == NULL)
	{
		ops->close(r->d);
		return false;
	}
	r->mine = (float *) ops->alloc(r->d, BIG * sizeof(float), "mine");
	r->all = (float *) ops->alloc(r->d, (size_t) size * BIG * sizeof(float), "all");
	r->a.resize(BIG);
	r->b.resize((size_t) size * BIG);
	return true;
}

static void
close_rank(Rank *r)
{
	ops->comm->close(r->c);
	ops->free(r->d, r->mine);
	ops->free(r->d, r->all);
	ops->close(r->d);
}

#ifdef __CUDACC__

static void
test_ranks(void)
{
	char		text[256];
	uint8_t		id[KDEVICE_COMM_ID];
	Group		g = {0};
	Rank		r = {};

	if (!ops->comm->find("", text, sizeof(text), text, sizeof(text)))
	{
		printf("no NCCL: %s\n", text);
		return;
	}
	printf("%s\n", text);
	CHECK(ops->comm->id("", id, text, sizeof(text)) && open_rank(&r, 0, 1, id, &g, text, sizeof(text)), "%s",
		  text);
	if (r.c == NULL)
		return;
	CHECK(exchange(&r, 60) && !r.wrong, "one rank alone");
	close_rank(&r);
}

#else

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + 1e-9 * (double) ts.tv_nsec;
}

/* What happens to the last rank: it stays, ends in the middle, or never comes. */
enum LastCall { STAYS, ENDS, NEVER };

static int
be_rank(int rank, int size, const void *id, Group *g, int calls, LastCall last)
{
	Rank		r = {};
	char		err[256];
	bool		there;

	if (rank == size - 1 && last == NEVER)
		return WELL;
	if (!open_rank(&r, rank, size, id, g, err, sizeof(err)))
		return strstr(err, "a rank is gone") != NULL ? LOST : REFUSED;
	if (rank == size - 1 && last == ENDS)
	{
		exchange(&r, 2);
		return WELL;
	}
	there = exchange(&r, calls);
	if (there)
		close_rank(&r);
	else
	{
		/* a lost device repeats its error */
		CHECK(!ops->wait(r.d, err, sizeof(err)) && strstr(err, "NCCL: ") != NULL, "%s", err);
		if (strstr(err, "NCCL: ") == NULL)
			return WRONG;
	}
	return r.wrong ? WRONG : there ? WELL : LOST;
}

/* Returns the statuses by rank; if a rank ends, the group is told. */
static std::vector<int>
run(int size, int calls, LastCall last, double *seconds)
{
	Group	   *g = (Group *) mmap(NULL, sizeof(Group), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
								   -1, 0);
	std::vector<pid_t> pids;
	std::vector<int> statuses;
	uint8_t		id[KDEVICE_COMM_ID];
	char		err[256] = "";
	double		from = 0;

	CHECK(ops->comm->id(library, id, err, sizeof(err)), "%s", err);
	fflush(NULL);
	for (int r = 0; r < size; r++)
	{
		pids.push_back(fork());
		if (pids.back() == 0)
			_exit(be_rank(r, size, id, g, calls, last));
	}
	statuses.resize((size_t) size);
	for (int r = size - 1; r >= 0; r--)
	{
		waitpid(pids[(size_t) r], &statuses[(size_t) r], 0);
		statuses[(size_t) r] = WIFEXITED(statuses[(size_t) r]) ? WEXITSTATUS(statuses[(size_t) r]) : -1;
		if (r == size - 1 && (last != STAYS || statuses[(size_t) r] != WELL))
		{
			usleep(20000);
			from = now();
			g->dead = 1;
		}
	}
	*seconds = now() - from;
	munmap(g, sizeof(Group));
	return statuses;
}

static void
test_ranks(void)
{
	double		s;

	for (int size = 1; size <= 4; size++)
		for (int status : run(size, size < 4 ? 40 : 12, STAYS, &s))
			CHECK(status == WELL, "a rank of %d: %d", size, status);
	for (LastCall f : {ENDS, NEVER})
	{
		std::vector<int> got = run(3, 40, f, &s);

		CHECK(got[0] == LOST && got[1] == LOST && got[2] == WELL, "a rank that %s: %d %d %d",
			  f == ENDS ? "ends" : "never comes", got[0], got[1], got[2]);
		CHECK(s < 5, "... of which the others know behind %.1f s", s);
	}
	setenv("NCCL_FAKE", "call:1:7", 1);
	std::vector<int> got = run(2, 40, STAYS, &s);
	/* the other one would wait for it, if the group did not report the failure */
	CHECK(got[0] == LOST && got[1] == LOST, "an error that is found later: %d %d", got[0], got[1]);
	setenv("NCCL_FAKE", "init:0", 1);
	got = run(1, 1, STAYS, &s);
	CHECK(got[0] == REFUSED, "a communicator that can't be opened: %d", got[0]);
	unsetenv("NCCL_FAKE");
}

/* A sum whose order doesn't matter is computed by the library itself. */
static void
test_any_order(void)
{
	KDevice    *d = open_device(false);
	char		err[256];
	uint8_t		id[KDEVICE_COMM_ID];
	Group		g = {0};
	KDevCommOpen o = {library, id, 0, 1, lives, &g};
	float		x[3] = {1, 2, 3};
	float		y[3];
	float	   *p = (float *) ops->alloc(d, sizeof(x), "x");
	KDevComm   *c;

	CHECK(ops->comm->id(library, id, err, sizeof(err)) &&
		  (c = ops->comm->open(d, &o, err, sizeof(err))) != NULL, "%s", err);
	ops->put(d, p, x, sizeof(x));
	ops->comm->sum(c, p, 3);
	ops->get(d, y, p, sizeof(y));
	CHECK(ops->wait(d, err, sizeof(err)) && memcmp(x, y, sizeof(x)) == 0, "a sum of one");
	ops->comm->close(c);
	ops->free(d, p);
	ops->close(d);
}

static void
test_library(void)
{
	char		version[64] = "";
	char		err[256] = "";

	CHECK(!ops->comm->find("/nowhere/libnccl.so", version, sizeof(version), err, sizeof(err)) &&
		  strstr(err, "/nowhere/libnccl.so") != NULL, "%s", err);
	CHECK(!ops->comm->find("libm.so.6", version, sizeof(version), err, sizeof(err)) &&
		  strstr(err, "libm.so.6 has no ncclGetVersion") != NULL, "%s", err);
	setenv("NCCL_FAKE", "version", 1);
	CHECK(!ops->comm->find(library, version, sizeof(version), err, sizeof(err)) &&
		  strstr(err, "is of version 21703, and 21800 or later is needed") != NULL, "%s", err);
	unsetenv("NCCL_FAKE");
	CHECK(ops->comm->find(library, version, sizeof(version), err, sizeof(err)) &&
		  strcmp(version, "NCCL 2.28.9") == 0, "%s %s", version, err);
}

#endif

int
main(void)
{
	ops = vllm_pg_device_ops(KDEVICE_ABI);
	RUN(test_columns(2, 3, {5, 5}, 0, 5, 4));
	RUN(test_columns(3, 4, {8, 4, 12}, 0, 12, 4));
	RUN(test_columns(3, 1, {7, 0, 3}, 2, 4, 2));
	RUN(test_columns(4, 2, {64, 64, 64, 64}, 0, 64, 2));
	RUN(test_columns(2, 1, {40, 9}, 32, 8, 4));
	RUN(test_columns(1, 70, {10}, 0, 10, 8));
	RUN(test_sum_parts(1, 3));
	RUN(test_sum_parts(3, 1000));
#ifndef __CUDACC__
	library = "libnccl_emu.so";
	RUN(test_library());
	RUN(test_any_order());
#endif
	RUN(test_ranks());
	return check_done("test_emu_nccl");
}
