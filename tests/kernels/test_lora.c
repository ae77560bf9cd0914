/*
 * test_lora.c
 *	  Low-rank products of one implementation, for conform: near ref's, and the same bits for a row
 *	  whatever is computed with it and on however many threads.
 */
#include "tests/kernels/conform.h"

#define JOBS		6
#define ROWS		80
#define CANARY		12345.0f

/* rank, inputs, outputs */
static const int shapes[][3] = {{1, 5, 3}, {8, 64, 64}, {16, 200, 96}, {3, 33, 31}, {64, 128, 257},
								{7, 1030, 40}};

/* rows of each job */
static const int counts[][JOBS] = {
	{1, 0, 0, 0, 0, 0},
	{1, 1, 1, 1, 1, 1},
	{2, 5, 1, 0, 3, 7},
	{0, 0, 70, 1, 0, 0},
	{13, 3, 40, 2, 9, 4},
};

typedef struct World
{
	KLora		p[JOBS];
	KLoraJob	jobs[JOBS];
	int32_t		rows[ROWS];
	int			ldx;
	int			ldt;
	int			ldy;
	float	   *x;
	float	   *t;
	float	   *y;
	float	   *first;			/* y before */
} World;

static void *
table(KType type, size_t n)
{
	float	   *f = xalloc(n * sizeof(float));
	uint16_t   *h = xalloc(n * sizeof(uint16_t));

	rnd_fill(f, n, 1.0f);
	if (type == KT_F32)
	{
		free(h);
		return f;
	}
	for (size_t i = 0; i < n; i++)
		h[i] = type == KT_F16 ? kf32_to_f16(f[i]) : kf32_to_bf16(f[i]);
	free(f);
	return h;
}

/* all jobs have as many inputs; each has its columns of t and of y */
static void
make_world(World *w, KType type, const int *shape)
{
	w->ldx = shape[1] + 3;
	w->ldt = w->ldy = 1;
	for (int i = 0; i < JOBS; i++)
	{
		int			rank = i % 2 ? shape[0] : shape[0] + i;
		int			n = shape[2] + 5 * i;
		size_t		panels = (size_t) (n + KLORA_PANEL - 1) / KLORA_PANEL;

		w->p[i] = (KLora) {type, rank, shape[1], n, 1 + i, i * 2, 0.5f + (float) i,
			table(type, (size_t) rank * (size_t) shape[1]),
			table(type, panels * (size_t) rank * KLORA_PANEL)};
		w->ldt = w->ldt < rank + 2 + i ? rank + 2 + i : w->ldt;
		w->ldy = w->ldy < n + 2 * i ? n + 2 * i : w->ldy;
	}
	w->x = xalloc(sizeof(float) * ROWS * (size_t) w->ldx);
	w->t = xalloc(sizeof(float) * ROWS * (size_t) w->ldt);
	w->y = xalloc(sizeof(float) * ROWS * (size_t) w->ldy);
	w->first = xalloc(sizeof(float) * ROWS * (size_t) w->ldy);
	rnd_fill(w->x, (size_t) ROWS * (size_t) w->ldx, 1.0f);
	rnd_fill(w->first, (size_t) ROWS * (size_t) w->ldy, 1.0f);
}

static void
free_world(World *w)
{
	for (int i = 0; i < JOBS; i++)
	{
		free((void *) (uintptr_t) w->p[i].a);
		free((void *) (uintptr_t) w->p[i].b);
	}
	free(w->x);
	free(w->t);
	free(w->y);
	free(w->first);
}

static int
take_jobs(World *w, const int *n_rows)
{
	int			at = 0;
	int			n = 0;

	for (int i = 0; i < JOBS; i++)
	{
		if (n_rows[i] == 0)
			continue;
		w->jobs[n++] = (KLoraJob) {&w->p[i], w->rows + at, n_rows[i], -1};
		at += n_rows[i];
	}
	return n;
}

static void
run(World *w, const Kernels *k, KPool *pool, KLoraJob *jobs, int n)
{
	for (size_t i = 0; i < (size_t) ROWS * (size_t) w->ldt; i++)
		w->t[i] = CANARY;
	k->lora_shrink(pool, jobs, n, w->x, w->ldx, w->t, w->ldt);
	k->lora_expand(pool, jobs, n, w->t, w->ldt, w->y, w->ldy);
}

static size_t
y_size(const World *w)
{
	return sizeof(float) * ROWS * (size_t) w->ldy;
}

static void
check_mix(const Impl *im, World *w, const int *n_rows, int id)
{
	int			n = take_jobs(w, n_rows);
	float	   *want = xalloc(y_size(w));
	float	   *mixed = xalloc(y_size(w));

	memcpy(w->y, w->first, y_size(w));
	run(w, ref, pools[1], w->jobs, n);
	memcpy(want, w->y, y_size(w));
	for (int threads = 1; threads <= 3; threads++)
	{
		memcpy(w->y, w->first, y_size(w));
		run(w, im->k, pools[threads], w->jobs, n);
		EXPECT(nmse(want, w->y, (size_t) ROWS * (size_t) w->ldy) < 1e-11, "%s lora: far from ref",
			   im->k->name);
		if (threads == 1)
			memcpy(mixed, w->y, y_size(w));
		EXPECT(memcmp(mixed, w->y, y_size(w)) == 0, "%s lora: other bits with %d threads", im->k->name,
			   threads);
	}
	for (int i = 0; i < ROWS; i++)
		EXPECT(w->t[(size_t) i * (size_t) w->ldt] == CANARY, "%s lora: t has been written over", im->k->name);
	if (im->fused && !im->slow)
		EXPECT(same_bits(im, id, mixed, y_size(w)), "%s lora: other bits than other implementations'",
			   im->k->name);
	/* row by row; what nobody asked for stays as it was */
	memcpy(w->y, w->first, y_size(w));
	for (int j = 0; j < n; j++)
		for (int i = 0; i < w->jobs[j].n_rows; i++)
		{
			KLoraJob	one = {w->jobs[j].p, w->jobs[j].rows + i, 1, -1};

			run(w, im->k, pools[2], &one, 1);
		}
	EXPECT(memcmp(mixed, w->y, y_size(w)) == 0, "%s lora: other bits in a batch than alone", im->k->name);
	free(want);
	free(mixed);
}

void
test_lora(const Impl *im)
{
	static const KType types[] = {KT_F32, KT_F16, KT_BF16};
	int			id = ID_LORA;

	rnd_seed(77);
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
		for (int t = 0; t < 3; t++)
		{
			World		w;

			make_world(&w, types[t], shapes[s]);
			for (int i = 0; i < ROWS; i++)
				w.rows[i] = (i * 37 + 5) % ROWS;
			for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
				check_mix(im, &w, counts[c], id++);
			free_world(&w);
		}
}
