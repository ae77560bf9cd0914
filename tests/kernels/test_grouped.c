/*
 * test_grouped.c
 *	  Grouped products of one implementation, for conform.
 *
 * A group must have the bits that mm gives it by itself, whatever its neighbours and
 * however many threads; what mm gives is test_mm.c's matter.
 */
#include "tests/kernels/conform.h"

#define MATS		7
#define CANARY		12345.0f

/* rows of each group: none at all, a decode, a batch, a prompt */
static const int counts[][MATS] = {
	{0, 0, 0, 0, 0, 0, 0},
	{1, 0, 0, 0, 0, 0, 0},
	{0, 1, 0, 1, 1, 0, 1},
	{3, 1, 2, 0, 4, 1, 0},
	{5, 4, 9, 1, 3, 0, 2},
	{0, 0, 37, 0, 0, 1, 0},
	{6, 3, 13, 8, 1, 11, 70},
};
#define MAX_ROWS	112

typedef struct Group
{
	KType		type;
	int			n;
	int			k;
	int			ldx;
	int			ldy;
	KMat		w[MATS];
	float	   *bias[MATS];
	float	   *x;				/* [MAX_ROWS][ldx] */
	float	   *want;			/* [MAX_ROWS][ldy] */
	float	   *y;
	void	   *ws;
	void	   *mm_ws;
} Group;

static void
make_group(Group *g, const Impl *im, KType type, int n, int k)
{
	size_t		row = ktype_row_bytes(type, k),
				nbytes = im->k->mat_bytes(type, n, k);
	uint8_t    *src = xalloc(row * n);
	KTensor		t = {
		.name = "w", .type = type, .ndim = 2, .shape = {n, k}, .data = src, .nbytes = row * n
	};

	*g = (Group) {.type = type, .n = n, .k = k, .ldx = k + 3, .ldy = n + 5};
	for (int i = 0; i < MATS; i++)
	{
		for (int j = 0; j < n; j++)
			rnd_row(type, k, src + row * j);
		g->w[i] = (KMat) {type, n, k, xalloc(nbytes), nbytes};
		im->k->mat_pack(&g->w[i], &t, 0, n);
		g->bias[i] = i % 3 == 1 ? NULL : xalloc(n * 4);
		if (g->bias[i])
			rnd_fill(g->bias[i], n, 1.0f);
	}
	free(src);
	g->x = xalloc((size_t) MAX_ROWS * g->ldx * 4);
	g->want = xalloc((size_t) MAX_ROWS * g->ldy * 4);
	g->y = xalloc((size_t) MAX_ROWS * g->ldy * 4);
	g->ws = xalloc(im->k->mm_grouped_scratch(type, MATS, MAX_ROWS, k));
	g->mm_ws = xalloc(im->k->mm_scratch(type, MAX_ROWS, k));
	rnd_fill(g->x, (size_t) MAX_ROWS * g->ldx, 2.0f);
}

static void
free_group(Group *g)
{
	for (int i = 0; i < MATS; i++)
	{
		free(g->w[i].data);
		free(g->bias[i]);
	}
	free(g->x);
	free(g->want);
	free(g->y);
	free(g->ws);
	free(g->mm_ws);
}

static void
fill(float *y, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = CANARY;
}

/* what each group gives by itself */
static void
alone(const Impl *im, Group *g, const int32_t *start, bool bias)
{
	fill(g->want, (size_t) MAX_ROWS * g->ldy);
	for (int i = 0; i < MATS; i++)
		im->k->mm(pools[1], &g->w[i], g->x + (size_t) start[i] * g->ldx, start[i + 1] - start[i], g->ldx,
				  g->want + (size_t) start[i] * g->ldy, g->ldy, bias ? g->bias[i] : NULL, g->mm_ws);
}

static void
check_group(const Impl *im, KType type, int n, int k)
{
	Group		g;
	size_t		bytes;

	make_group(&g, im, type, n, k);
	bytes = (size_t) MAX_ROWS * g.ldy * 4;
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
	{
		int32_t		start[MATS + 1] = {0};
		int			last = MATS - 1;

		for (int i = 0; i < MATS; i++)
			start[i + 1] = start[i] + counts[c][i];
		for (int threads = 1; threads <= 3; threads++)
		{
			bool		bias = threads != 2;

			alone(im, &g, start, bias);
			fill(g.y, (size_t) MAX_ROWS * g.ldy);
			im->k->mm_grouped(pools[threads], g.w, MATS, start, g.x, g.ldx, g.y, g.ldy,
							  bias ? (const float *const *) g.bias : NULL, g.ws);
			EXPECT(memcmp(g.want, g.y, bytes) == 0, "%s grouped %s %dx%d: rows %zu on %d threads",
				   im->k->name, ktype_name(type), n, k, c, threads);
		}
		/* a bad value in the first row of the last group that has any */
		while (last >= 0 && counts[c][last] == 0)
			last--;
		if (last < 0)
			continue;
		g.x[(size_t) start[last] * g.ldx + k / 2] = NAN;
		alone(im, &g, start, true);
		im->k->mm_grouped(pools[3], g.w, MATS, start, g.x, g.ldx, g.y, g.ldy, (const float *const *) g.bias,
						  g.ws);
		EXPECT(isnan(g.y[(size_t) start[last] * g.ldy]), "%s grouped %s: NaN lost", im->k->name,
			   ktype_name(type));
		memcpy(g.want + (size_t) start[last] * g.ldy, g.y + (size_t) start[last] * g.ldy, (size_t) n * 4);
		EXPECT(memcmp(g.want, g.y, bytes) == 0, "%s grouped %s %dx%d: rows %zu, a bad value in another row",
			   im->k->name, ktype_name(type), n, k, c);
		g.x[(size_t) start[last] * g.ldx + k / 2] = 0.5f;
	}
	free_group(&g);
}

void
test_grouped(const Impl *im)
{
	rnd_seed(11);
	for (int t = 0; t < KT_COUNT; t++)
	{
		/* float types and INT8 take any k, and odd ones are filled up */
		bool		any = t <= KT_BF16 || ktype_is_int8(t) || t == KT_FP8;

		if (im->k->mat_bytes((KType) t, 200, 512) == 0)
			continue;
		check_group(im, (KType) t, 200, im->slow ? 256 : 512);
		check_group(im, (KType) t, 37, any ? 77 : 256);
		if (!im->slow && !im->emulated && (t == KT_BF16 || t == KT_Q4_K || t >= KT_INT8))
			check_group(im, (KType) t, 512, any ? 1030 : 1536);
	}
}
