/*
 * cemu_async.c
 *	  Hopper's asynchronous operations: mbarriers, bulk copies, products of warpgroups.
 *
 * A copy completes when no thread can continue, or, with threads in random order, at any time before;
 * until then its bytes are NaN and an access to them is an error.  Afterwards only threads that saw the
 * mbarrier's phase end may access them: a phase that ends too early, or a wait for the wrong parity,
 * shows as an illegal access.  A phase includes everything that its arriving threads had seen
 * (cemu_mem_release), so one warp may overwrite what another has released by an mbarrier.
 *
 * A product of a warpgroup is computed at its wait; until then D is NaN, and neither D nor A may change.
 * Products and copies access memory through another proxy than loads and stores: they see a thread's
 * stores only after its own fence.proxy.async.
 */
#include "emu/cemu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES	((1 << 20) - 1)	/* most bytes that a phase can expect */
#define GROUP		128
#define MOST_PRODUCTS 256			/* products of a warp before its wait */

typedef struct Mbar
{
	char	   *at;
	unsigned	count;			/* arrivals of a phase */
	unsigned	left;			/* arrivals still missing */
	long		bytes;			/* bytes expected and not yet copied */
	long		under_way;		/* issued copies that are not complete */
	unsigned	phase;
	int			brought;		/* copies of this phase */
	int			unseen;			/* copies of earlier phases that no thread has waited for */
	int			by;				/* the thread that initialized it, and its segment */
	uint32_t	seg;
	uint32_t	now[CEMU_SEEN]; /* what the arrivals of the phase had seen */
	uint32_t	done[CEMU_SEEN];	/* accesses that the arrivals of the previous phase had seen */
} Mbar;

typedef struct Bulk
{
	char	   *dst;
	const char *src;
	size_t		size;
	Mbar	   *bar;
} Bulk;

static Mbar mbars[CEMU_MBARS];
static int	n_mbars;
static Bulk *bulks;
static int	n_bulks,
			bulks_room;

/* ---- mbarriers ---- */

static Mbar *
mbar_at(const void *p, const char *op)
{
	for (int i = 0; i < n_mbars; i++)
		if (mbars[i].at == p)
			return &mbars[i];
	cemu_fail("%s: there is no mbarrier at %p", op, p);
}

/* fail unless the running thread has seen its initialization */
static Mbar *
mbar_known(const void *p, const char *op)
{
	Mbar	   *b = mbar_at(p, op);

	if (!cemu_mem_ordered(b->seg, cemu_now))
		cemu_fail("%s: race: thread %d made the mbarrier with no barrier between", op, b->by);
	return b;
}

void
cemu_mbar_init(void *p, unsigned count)
{
	Mbar	   *b = &mbars[n_mbars];

	if (((uintptr_t) p & 7) != 0 || count == 0 || n_mbars == CEMU_MBARS)
		cemu_fail("mbarrier.init at %p, of %u arrivals, the block's number %d", p, count, n_mbars);
	for (int i = 0; i < n_mbars; i++)
		if (mbars[i].at == p)
			cemu_fail("mbarrier.init: there is one at %p", p);
	cemu_touch(cemu_now, p, 8, CEMU_WRITE, __builtin_return_address(0));
	cemu_mem_mbar(p);
	n_mbars++;
	b->at = p;
	b->count = b->left = count;
	b->bytes = b->under_way = 0;
	b->phase = 0;
	b->brought = b->unseen = 0;
	b->by = cemu_now->id;
	b->seg = cemu_now->seg;
	memset(b->now, 0, sizeof(b->now));
	memset(b->done, 0, sizeof(b->done));
}

/* end its phase if it is complete */
static void
mbar_look(Mbar *b)
{
	if (b->left > 0 || b->bytes > 0)
		return;
	b->phase++;
	b->unseen = b->brought;
	b->brought = 0;
	b->left = b->count;
	memcpy(b->done, b->now, sizeof(b->done));
	memset(b->now, 0, sizeof(b->now));
	b->done[CEMU_THREADS + (b - mbars)] = b->phase;
	for (int i = 0; i < cemu_n_threads(); i++)
		if (cemu_thread(i)->state == CEMU_PHASE && cemu_thread(i)->arg == b)
			cemu_thread(i)->state = CEMU_RUN;
}

/* bytes: announced for copies of the phase of this arrival; 0: a plain arrival */
void
cemu_mbar_arrive(void *p, unsigned bytes)
{
	Mbar	   *b = mbar_known(p, "mbarrier.arrive");

	if (b->bytes + (long) bytes > MOST_BYTES)
		cemu_fail("mbarrier.arrive.expect_tx: %ld bytes, an mbarrier counts to %d", b->bytes + (long) bytes,
				  MOST_BYTES);
	cemu_mem_release(cemu_now, b->now);
	b->bytes += bytes;
	b->left--;
	mbar_look(b);
}

/* wait until the phase of that parity has ended */
void
cemu_mbar_wait(void *p, unsigned parity, const char *file, int line)
{
	Mbar	   *b = mbar_known(p, "mbarrier.try_wait");

	while ((b->phase & 1) == parity)
		cemu_wait_phase(b, file, line);
	b->unseen = 0;
	cemu_mem_acquire(cemu_now, b->done);
}

const char *
cemu_mbar_lacks(void)
{
	static char buf[2000];
	size_t		n = 0;

	for (int i = 0; i < n_mbars; i++)
	{
		int			waited = 0;

		for (int t = 0; t < cemu_n_threads(); t++)
			waited |= cemu_thread(t)->state == CEMU_PHASE && cemu_thread(t)->arg == &mbars[i];
		if (waited && n < sizeof(buf) - 100)
			n += (size_t) snprintf(buf + n, sizeof(buf) - n,
								   "%sthe block's mbarrier %d in phase %u lacks %u arrivals and %ld bytes",
								   n > 0 ? ", " : "", i, mbars[i].phase, mbars[i].left, mbars[i].bytes);
	}
	return buf;
}

/* ---- bulk copies ---- */

void
cemu_bulk(void *dst, const void *src, size_t size, void *bar)
{
	Mbar	   *b = mbar_known(bar, "cp.async.bulk");
	const void *pc = __builtin_return_address(0);

	if ((((uintptr_t) dst | (uintptr_t) src | size) & 15) != 0 || size == 0)
		cemu_fail("cp.async.bulk of %zu bytes from %p to %p: not multiples of 16", size, src, dst);
	if (!cemu_mem_fenced(b->seg))
		cemu_fail("cp.async.bulk: its mbarrier isn't visible to copies, fence.proxy.async is missing after "
				  "mbarrier.init");
	if ((long) size > b->bytes - b->under_way)
		cemu_fail("cp.async.bulk: %zu bytes, of which the mbarrier expects %ld", size,
				  b->bytes - b->under_way);
	cemu_touch_async(cemu_now, src, size, CEMU_READ, pc);
	cemu_touch_async(cemu_now, dst, size, CEMU_WRITE, pc);
	if (n_bulks == bulks_room)
	{
		bulks_room = bulks_room * 2 + 64;
		bulks = realloc(bulks, (size_t) bulks_room * sizeof(*bulks));
		if (bulks == NULL)
			cemu_fail("no memory");
	}
	memset(dst, 0xff, size);
	cemu_mem_bulk(dst, size, 0, 0);
	b->under_way += (long) size;
	bulks[n_bulks++] = (Bulk) {dst, src, size, b};
}

/* Complete one of the copies in flight; return 0 if there is none. */
int
cemu_async_step(void)
{
	Bulk		c;
	int			i;

	if (n_bulks == 0)
		return 0;
	i = (int) (cemu_random() % (uint64_t) n_bulks);
	c = bulks[i];
	bulks[i] = bulks[--n_bulks];
	memcpy(c.dst, c.src, c.size);
	cemu_mem_bulk(c.dst, c.size, CEMU_THREADS + (int) (c.bar - mbars), c.bar->phase + 1);
	c.bar->bytes -= (long) c.size;
	c.bar->under_way -= (long) c.size;
	c.bar->brought = 1;
	mbar_look(c.bar);
	return 1;
}

/* ---- products of warpgroups ---- */

typedef struct Wgmma
{
	CemuMma		kind;
	int			n;
	int			by_n;
	uint64_t	b;				/* the matrix's descriptor */
	uint64_t	a_shared;		/* A's, if a is NULL */
	float	   *d;				/* of one lane */
	const uint32_t *a;
	float	   *all_d[CEMU_WARP];
	const uint32_t *all_a[CEMU_WARP];
	uint32_t	a_then[CEMU_WARP][4];
	float	   *d_then;			/* [CEMU_WARP][n / 2] old contents, for the first of several products to
								 * one D */
	const char *file;
	int			line;
} Wgmma;

static struct
{
	Wgmma		products[MOST_PRODUCTS];
	int			n;
	int			fenced;			/* wgmma.fence since the last wait */
	unsigned	made;			/* products in this block */
}			warps[CEMU_THREADS / CEMU_WARP];
/* the last products of each warpgroup: its warps must make the same */
static struct
{
	struct
	{
		uint64_t	a,
					b;
		int			n;
	}			last[64];
	unsigned	made;
}			groups[CEMU_THREADS / GROUP];

void
cemu_async_block(void)
{
	n_mbars = n_bulks = 0;
	for (int i = 0; i < CEMU_THREADS / CEMU_WARP; i++)
		warps[i].n = warps[i].fenced = 0, warps[i].made = 0;
	for (int i = 0; i < CEMU_THREADS / GROUP; i++)
		groups[i].made = 0;
}

void
cemu_async_block_end(int n_threads)
{
	if (n_bulks > 0)
		cemu_fail("the block ends with %d bulk copies under way", n_bulks);
	for (int i = 0; i < n_mbars; i++)
		if (mbars[i].unseen || mbars[i].brought)
			cemu_fail("the block ends, and nobody has waited for the last copies of its mbarrier %d", i);
	for (int i = 0; i < (n_threads + CEMU_WARP - 1) / CEMU_WARP; i++)
	{
		if (warps[i].n > 0)
			cemu_fail("warp %d returned without waiting for wgmma at %s:%d", i, warps[i].products[0].file,
					  warps[i].products[0].line);
		if (warps[i].made != groups[i / 4].made)
			cemu_fail("warp %d made %u products by wgmma, its warpgroup %u", i, warps[i].made,
					  groups[i / 4].made);
	}
}

static float
half_at(CemuMma kind, const char *p)
{
	uint16_t	h;

	memcpy(&h, p, 2);
	return cemu_operand(kind, h, 0);
}

/* address of a matrix of 8 x 8 halves, 16 bytes per row, at 8 k and 8 columns (for A rows) */
static const char *
core(uint64_t m, int k, int n)
{
	return (const char *) cemu_shared_base() + (m & 0x3fff) * 16 + (size_t) k * (m >> 16 & 0x3fff) * 16 +
		(size_t) n * (m >> 32 & 0x3fff) * 16;
}

/* A's 16 rows are read by their warp, B by all four: here a lane reads a core matrix or more */
static void
matrices_touch(const Wgmma *w, int warp)
{
	CemuThread *first = cemu_thread(warp * CEMU_WARP);

	for (int n = 0; n < w->n / 8; n++)
		for (int k = 0; k < 2; k++)
			cemu_touch_async(first + (2 * n + k) % CEMU_WARP, core(w->b, k, n), 128, CEMU_READ, NULL);
	for (int i = 0; w->a == NULL && i < 4; i++)
		cemu_touch_async(first + i, core(w->a_shared, i % 2, warp % 4 * 2 + i / 2), 128, CEMU_READ, NULL);
}

/* compute one warp's 16 rows, k ascending, like mma_compute() */
static void
wgmma_make(const Wgmma *w, int warp)
{
	static float b[16][256];
	float		a[16][16];

	cemu_halves_make();
	for (int k = 0; k < 16; k++)
		for (int n = 0; n < w->n; n++)
			b[k][n] = half_at(w->kind,
							  core(w->b, k / 8, n / 8) + (w->by_n ? k % 8 * 16 + n % 8 * 2 : n % 8 * 16 +
														  k % 8 * 2));
	for (int row = 0; w->a == NULL && row < 16; row++)
		for (int k = 0; k < 16; k++)
			a[row][k] = half_at(w->kind, core(w->a_shared, k / 8, warp % 4 * 2 + row / 8) + row % 8 * 16 +
								k % 8 * 2);
	for (int l = 0; w->a != NULL && l < CEMU_WARP; l++)
		for (int r = 0; r < 4; r++)
			for (int i = 0; i < 2; i++)
				a[l / 4 + r % 2 * 8][l % 4 * 2 + r / 2 * 8 + i] = cemu_operand(w->kind, w->all_a[l][r], i);
	for (int l = 0; l < CEMU_WARP; l++)
		for (int i = 0; i < w->n / 2; i++)
		{
			int			row = l / 4 + i % 4 / 2 * 8,
						col = i / 4 * 8 + l % 4 * 2 + i % 2;
			float		f = w->all_d[l][i];

			for (int k = 0; k < 16; k++)
				f += a[row][k] * b[k][col];
			w->all_d[l][i] = f;
		}
}

static void
wgmma_compute(void **args, uint32_t mask)
{
	int			warp = cemu_now->id / CEMU_WARP,
				group = warp / 4;
	Wgmma	   *w;
	unsigned	at = warps[warp].made++;
	int			earlier = 0;

	(void) mask;
	if (warps[warp].n == MOST_PRODUCTS)
		cemu_fail("wgmma: more than %d products without a wait", MOST_PRODUCTS);
	if (!warps[warp].fenced)
		cemu_fail("wgmma at %s:%d: wgmma.fence is missing", cemu_now->file, cemu_now->line);
	w = &warps[warp].products[warps[warp].n++];
	*w = *(Wgmma *) args[0];
	if (at == groups[group].made)
	{
		groups[group].last[at % 64].a = w->a_shared;
		groups[group].last[at % 64].b = w->b;
		groups[group].last[at % 64].n = w->n;
		groups[group].made++;
	}
	else if (groups[group].made - at <= 64 && (groups[group].last[at % 64].b != w->b ||
											   groups[group].last[at % 64].n != w->n ||
											   groups[group].last[at % 64].a != w->a_shared))
		cemu_fail("wgmma at %s:%d: another warp of the group multiplies by another matrix", cemu_now->file,
				  cemu_now->line);
	for (int l = 0; l < CEMU_WARP; l++)
	{
		Wgmma	   *one = args[l];

		if (one->b != w->b || one->a_shared != w->a_shared)
			cemu_fail("wgmma at %s:%d: lanes have different matrices", cemu_now->file, cemu_now->line);
		w->all_d[l] = one->d;
		w->all_a[l] = one->a;
		if (one->a != NULL)
			memcpy(w->a_then[l], one->a, sizeof(w->a_then[l]));
	}
	if (!CEMU_CHECKS)
	{
		wgmma_make(w, warp);
		warps[warp].n--;
		return;
	}
	matrices_touch(w, warp);
	for (int i = 0; i < warps[warp].n - 1; i++)
		earlier |= warps[warp].products[i].d == w->d;
	w->d_then = NULL;
	if (earlier)
		return;
	w->d_then = malloc(CEMU_WARP * (size_t) w->n / 2 * sizeof(float));
	if (w->d_then == NULL)
		cemu_fail("no memory");
	for (int l = 0; l < CEMU_WARP; l++)
	{
		memcpy(w->d_then + l * w->n / 2, w->all_d[l], (size_t) w->n / 2 * sizeof(float));
		memset(w->all_d[l], 0xff, (size_t) w->n / 2 * sizeof(float));
	}
}

void
cemu_wgmma(CemuMma kind, int n, int by_n, float *d, const uint32_t *a, uint64_t a_shared, uint64_t b,
		   const char *file, int line)
{
	Wgmma		w = {.kind = kind, .n = n, .by_n = by_n, .b = b, .a_shared = a_shared, .d = d, .a = a,
					 .file = file, .line = line};

	if (cemu_now->id / GROUP * GROUP + GROUP > cemu_n_threads())
		cemu_fail("wgmma at %s:%d: its warpgroup lacks warps", file, line);
	cemu_warp("wgmma", 0xffffffffu, &w, wgmma_compute, file, line);
}

static void
fence_compute(void **args, uint32_t mask)
{
	(void) args;
	(void) mask;
	warps[cemu_now->id / CEMU_WARP].fenced = 1;
}

void
cemu_wgmma_fence(const char *file, int line)
{
	cemu_warp("wgmma.fence", 0xffffffffu, NULL, fence_compute, file, line);
}

static void
wait_compute(void **args, uint32_t mask)
{
	int			warp = cemu_now->id / CEMU_WARP;

	(void) args;
	(void) mask;
	/* D must be unchanged until the first product is computed */
	for (int i = 0; i < warps[warp].n; i++)
	{
		Wgmma	   *w = &warps[warp].products[i];

		for (int l = 0; l < CEMU_WARP; l++)
		{
			if (w->a != NULL && memcmp(w->a_then[l], w->all_a[l], sizeof(w->a_then[l])) != 0)
				cemu_fail("wgmma at %s:%d: A changed before the wait", w->file, w->line);
			for (int e = 0; w->d_then != NULL && e < w->n / 2; e++)
			{
				uint32_t	u;

				memcpy(&u, &w->all_d[l][e], 4);
				if (u != 0xffffffffu)
					cemu_fail("wgmma at %s:%d: D changed before the wait", w->file, w->line);
				w->all_d[l][e] = w->d_then[l * w->n / 2 + e];
			}
		}
		free(w->d_then);
	}
	for (int i = 0; i < warps[warp].n; i++)
	{
		matrices_touch(&warps[warp].products[i], warp);
		wgmma_make(&warps[warp].products[i], warp);
	}
	warps[warp].n = warps[warp].fenced = 0;
}

/* commit, and wait for all */
void
cemu_wgmma_wait(const char *file, int line)
{
	cemu_warp("wgmma.wait_group", 0xffffffffu, NULL, wait_compute, file, line);
}
