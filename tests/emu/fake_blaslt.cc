/*
 * fake_blaslt.cc
 *	  A libcublasLt for tests of kernels/cuda/mm/blaslt.cu: its calls, over the emulated device's memory.
 *
 * It offers the kinds of algorithms that blaslt.cu must distinguish, by how they add: see Way.  The test
 * chooses them with fake_offer(), and reads what was asked for and done.  Compiled without the
 * emulation's checks: a product is one thread.
 */
#include "cuda/mm/blaslt_api.h"

#include <stdlib.h>
#include <string.h>

#define API extern "C" __attribute__((visibility("default")))

/* How an algorithm adds the products of an output; data[0] of a BltAlgo. */
typedef enum Way
{
	UP,							/* k ascending, in one chain: the bits of our own kernels */
	DOWN,						/* descending: the same bits for any number of rows, but different ones */
	BY_ROWS,					/* descending if there are 600 rows or more */
	SPLIT,						/* k in two halves */
	BROKEN,						/* the call fails */
	WAYS
} Way;

struct BltAny
{
	int			numbers[8];		/* attributes of a descriptor or preference */
	int			type;
	int			rows;
	int			cols;
	int64_t		ld;
};

static struct
{
	Way			offer[WAYS];
	int			n;
	int			lives;			/* objects that were created and not destroyed */
	int			asked;			/* calls of the heuristic */
	int			products;
	int			wrong;			/* calls that the real library would refuse */
}			fake;

API void
fake_offer(const int *ways, int n)
{
	fake.n = n;
	for (int i = 0; i < n; i++)
		fake.offer[i] = (Way) ways[i];
}

/* Store lives, asked, products, wrong. */
API void
fake_counts(int *to)
{
	to[0] = fake.lives;
	to[1] = fake.asked;
	to[2] = fake.products;
	to[3] = fake.wrong;
}

static int
make(BltHandle *to)
{
	*to = (BltHandle) calloc(1, sizeof(**to));
	fake.lives++;
	return 0;
}

static int
drop(BltHandle h)
{
	fake.lives--;
	free(h);
	return 0;
}

static int
set(BltHandle h, int attribute, const void *p, size_t size)
{
	fake.wrong += attribute >= 8 + 1 || (size != 4 && size != 8);
	if (attribute < 8)
		memcpy(&h->numbers[attribute], p, 4);
	return 0;
}

API int cublasLtCreate(BltHandle *lt) { return make(lt); }
API int cublasLtDestroy(BltHandle lt) { return drop(lt); }
API int cublasLtMatmulDescDestroy(BltHandle desc) { return drop(desc); }
API int cublasLtMatrixLayoutDestroy(BltHandle layout) { return drop(layout); }
API int cublasLtMatmulPreferenceCreate(BltHandle *pref) { return make(pref); }
API int cublasLtMatmulPreferenceDestroy(BltHandle pref) { return drop(pref); }

API int
cublasLtMatmulDescCreate(BltHandle *desc, int compute, int scale)
{
	fake.wrong += compute != BLT_COMPUTE_F32 || scale != BLT_F32;
	return make(desc);
}

API int
cublasLtMatmulDescSetAttribute(BltHandle desc, int attribute, const void *p, size_t size)
{
	return set(desc, attribute, p, size);
}

API int
cublasLtMatmulPreferenceSetAttribute(BltHandle pref, int attribute, const void *p, size_t size)
{
	return set(pref, attribute, p, size);
}

API int
cublasLtMatrixLayoutCreate(BltHandle *layout, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
	make(layout);
	(*layout)->type = type;
	(*layout)->rows = (int) rows;
	(*layout)->cols = (int) cols;
	(*layout)->ld = ld;
	fake.wrong += ld < (int64_t) rows;
	return 0;
}

/* Do these layouts match: y^T[n][m] = w^T[k][n]^T x^T[k][m]? */
static bool
fit(BltHandle desc, BltHandle w, BltHandle x, BltHandle y)
{
	return desc->numbers[BLT_DESC_TRANS_A] == BLT_TRANSPOSED && w->rows == x->rows && w->cols == y->rows && x->cols == y->cols &&
		w->type == x->type && w->type != BLT_F32 && y->type == BLT_F32;
}

API int
cublasLtMatmulAlgoGetHeuristic(BltHandle, BltHandle desc, BltHandle a, BltHandle b, BltHandle c, BltHandle d, BltHandle pref,
							   int room, BltChoice *to, int *n)
{
	fake.asked++;
	fake.wrong += !fit(desc, a, b, c) || c != d || pref->numbers[BLT_PREF_ALIGN_A] != 16;
	*n = 0;
	for (int i = 0; i < fake.n && *n < room; i++)
	{
		BltChoice  *one = &to[(*n)++];

		memset(one, 0, sizeof(*one));
		one->algo.data[0] = (uint64_t) fake.offer[i];
	}
	return 0;
}

API int
cublasLtMatmulAlgoConfigGetAttribute(const BltAlgo *algo, int attribute, void *p, size_t size, size_t *written)
{
	int			v = attribute == BLT_ALGO_SPLITS ? (algo->data[0] == SPLIT ? 2 : 1) : 0;

	memcpy(p, &v, size);
	*written = size;
	return 0;
}

/* ---- the product ---- */

typedef struct Call
{
	Way			way;
	bool		bf16;
	const uint16_t *w;
	const uint16_t *x;
	float	   *y;
	int64_t		ldw;
	int64_t		ldx;
	int64_t		ldy;
	int			n;
	int			rows;
	int			k;
	float		beta;
} Call;

static float
number(const Call &c, uint16_t u)
{
	F16			h = {u};
	BF16		b = {u};

	return c.bf16 ? to_float(b) : to_float(h);
}

static float
sum_of(const Call &c, const uint16_t *w, const uint16_t *x, int from, int to, bool down)
{
	float		acc = 0;

	for (int i = from; i < to; i++)
	{
		int			k = down ? to - 1 - (i - from) : i;

		acc = fmaf(number(c, w[k]), number(c, x[k]), acc);
	}
	return acc;
}

__global__ void
fake_product(Call c)
{
	for (int row = 0; row < c.rows; row++)
		for (int n = 0; n < c.n; n++)
		{
			const uint16_t *w = c.w + n * c.ldw,
					   *x = c.x + row * c.ldx;
			float	   *y = c.y + row * c.ldy + n;
			bool		down = c.way == DOWN || (c.way == BY_ROWS && c.rows >= 600);
			float		v = c.way == SPLIT ? sum_of(c, w, x, 0, c.k / 2, false) + sum_of(c, w, x, c.k / 2, c.k, false) :
				sum_of(c, w, x, 0, c.k, down);

			*y = c.beta != 0 ? c.beta * *y + v : v;
		}
}

API int
cublasLtMatmul(BltHandle, BltHandle desc, const void *alpha, const void *a, BltHandle la, const void *b, BltHandle lb,
			   const void *beta, const void *c, BltHandle lc, void *d, BltHandle ld, const BltAlgo *algo, void *, size_t,
			   cudaStream_t stream)
{
	Call		call = {(Way) algo->data[0], la->type == BLT_BF16, (const uint16_t *) a, (const uint16_t *) b, (float *) d,
		la->ld, lb->ld, ld->ld, la->cols, lb->cols, la->rows, *(const float *) beta};

	fake.wrong += !fit(desc, la, lb, ld) || lc != ld || c != d || *(const float *) alpha != 1.0f || ((uintptr_t) a | (uintptr_t) b |
																							 (uintptr_t) d) % 16 != 0;
	if (call.way == BROKEN)
		return 14;
	fake.products++;
	LAUNCH(fake_product, 1, 1, 0, stream, call);
	return 0;
}
