/*
 * blaslt.cu
 *	  Products of many rows with cuBLASLt.
 *
 * The library is opened at run time; if it is missing, own kernels compute all products (mm.cuh).  It
 * needs plain matrices, but ours are packed (layout.h): before each product a tile of outputs is
 * unpacked into memory that stays in the L2.  That costs as much as some hundred rows, so few rows are
 * always computed by own kernels; the advantages are a single layout, and products of every format:
 * blocks are converted to BF16 or F16.
 *
 * A plan says for a shape what computes it.  There are two kinds:
 *
 * Invariant (vllm.batch_invariant = on): a row's bits must not depend on the batch, and related rows are
 * computed in small and in large batches.  So an algorithm is used only if it has the bits of the own
 * kernel.  Since that adds segments of MM_SEGMENT k, so does this code: one product for each segment,
 * added to the result so far.  Candidates don't split k; each is tried on random matrices of its shape
 * with several numbers of rows, and the first one that gives the own kernel's bits everywhere, and isn't
 * slower, becomes the plan.  So results don't depend on whether the library exists or what it chooses.
 * Plans are for all numbers of rows.
 *
 * Otherwise the library's heuristic chooses, for each power of two of rows.
 */
#include "cuda/mm/blaslt.h"

#include "cuda/mm/blaslt_api.h"
#include "cuda/cuda_ops.h"
#include "cuda/mm/mm.h"

extern "C"
{
#include "cuda/pack.h"
}

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __CUDACC__
#define LIBRARY		"libcublasLt.so.13"
#else
#define LIBRARY		"libcublaslt_emu.so"	/* for tests */
#endif
#define WORKSPACE	((size_t) 32 << 20)
#define CANDIDATES	8
#define PLANS		256
#define ALIGNED		16			/* alignment of all matrices in bytes */
#define PROBES		3

/* a plan must hold for these; the time is measured with the last one */
static const int probe_rows[PROBES] = {BLASLT_ROWS, BLASLT_ROWS + 136, 2 * BLASLT_ROWS};

#if defined(__CUDACC__) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define SAME(a, b)	static_assert((long) (a) == (long) (b), #b)
SAME(BLT_F32, CUDA_R_32F);
SAME(BLT_F16, CUDA_R_16F);
SAME(BLT_BF16, CUDA_R_16BF);
SAME(BLT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(BLT_TRANSPOSED, CUBLAS_OP_T);
SAME(BLT_DESC_TRANS_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(BLT_PREF_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(BLT_PREF_REDUCTION, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(BLT_PREF_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(BLT_PREF_ALIGN_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(BLT_ALGO_SPLITS, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
SAME(BLT_ALGO_REDUCTION, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
SAME(0, CUBLASLT_REDUCTION_SCHEME_NONE);
SAME(0, CUBLAS_STATUS_SUCCESS);
SAME(sizeof(BltAlgo), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(BltChoice), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(BltChoice, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
#undef SAME
#endif

typedef struct Plan
{
	KType		type;
	KType		as;
	int			rows;			/* a power of two, or 0: any */
	int			n;
	int			k;
	bool		made;
	bool		own;
	BltAlgo		algo;
	BltAlgo		last;			/* invariant: for the last segment, if that is shorter */
} Plan;

struct Blaslt
{
	void	   *library;
#define C(name, parameters) int (*name) parameters;
	BLT_CALLS(C)
#undef C
	BltHandle	lt;
	bool		invariant;
	bool		wgmma;			/* own kernels are of this kind */
	void		(*log) (char level, const char *text);
	void	   *tile;			/* in the device's memory */
	size_t		tile_bytes;
	void	   *workspace;
	Plan		plans[PLANS];
	BlasltCounts counts;
};

/* one call: y (+)= x w^T, with plain w */
typedef struct Gemm
{
	const void *w;
	int			ldw;
	const void *x;
	int			ldx;
	KType		as;
	float	   *y;
	int			ldy;
	int			rows;
	int			n;
	int			k;
	bool		add;
} Gemm;

/* a product with some outputs of a packed matrix */
typedef struct Part
{
	const BlasltMm *mm;
	int			first;
	int			n;
} Part;

/* ---- the library ---- */

void
blaslt_close(Blaslt *b)
{
	if (b == NULL)
		return;
	if (b->lt != NULL)
		b->Destroy(b->lt);
	cudaFree(b->tile);
	cudaFree(b->workspace);
	if (b->library != NULL)
		dlclose(b->library);
	free(b);
}

/* return NULL, or the name of a missing function */
static const char *
find_calls(Blaslt *b)
{
#define C(name, parameters) \
	*(void **) &b->name = dlsym(b->library, "cublasLt" #name); \
	if (b->name == NULL) \
		return "cublasLt" #name;
	BLT_CALLS(C)
#undef C
	return NULL;
}

Blaslt *
blaslt_open(bool invariant, bool wgmma, size_t tile, void (*log) (char level, const char *text), char *why,
			size_t size)
{
	Blaslt	   *b = (Blaslt *) calloc(1, sizeof(*b));
	const char *lacks;

	if (b == NULL)
	{
		snprintf(why, size, "no memory");
		return NULL;
	}
	b->invariant = invariant;
	b->wgmma = wgmma;
	b->log = log;
	b->tile_bytes = tile;
	b->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (b->library == NULL)
		snprintf(why, size, "%s", dlerror());
	else if ((lacks = find_calls(b)) != NULL)
		snprintf(why, size, "%s has no %s", LIBRARY, lacks);
	else if (b->Create(&b->lt) != 0)
	{
		b->lt = NULL;
		snprintf(why, size, "%s can't be used with this device", LIBRARY);
	}
	else if (cudaMalloc(&b->tile, tile) == cudaSuccess &&
			 (invariant || cudaMalloc(&b->workspace, WORKSPACE) == cudaSuccess))
		return b;
	else
		snprintf(why, size, "no memory for its work");
	cudaGetLastError();
	blaslt_close(b);
	return NULL;
}

BlasltCounts
blaslt_counts(const Blaslt *b)
{
	return b->counts;
}

/* ---- one call ---- */

/* a call in the library's terms: it uses columns, so y^T = w x^T */
typedef struct Words
{
	BltHandle	desc;
	BltHandle	w;
	BltHandle	x;
	BltHandle	y;
} Words;

static void
forget(Blaslt *b, Words *t)
{
	if (t->desc != NULL)
		b->MatmulDescDestroy(t->desc);
	if (t->w != NULL)
		b->MatrixLayoutDestroy(t->w);
	if (t->x != NULL)
		b->MatrixLayoutDestroy(t->x);
	if (t->y != NULL)
		b->MatrixLayoutDestroy(t->y);
}

static bool
describe(Blaslt *b, const Gemm *g, Words *t)
{
	int			type = g->as == KT_BF16 ? BLT_BF16 : BLT_F16,
				transposed = BLT_TRANSPOSED;

	*t = Words{};
	if (b->MatmulDescCreate(&t->desc, BLT_COMPUTE_F32, BLT_F32) == 0 &&
		b->MatmulDescSetAttribute(t->desc, BLT_DESC_TRANS_A, &transposed, sizeof(transposed)) == 0 &&
		b->MatrixLayoutCreate(&t->w, type, (uint64_t) g->k, (uint64_t) g->n, g->ldw) == 0 &&
		b->MatrixLayoutCreate(&t->x, type, (uint64_t) g->k, (uint64_t) g->rows, g->ldx) == 0 &&
		b->MatrixLayoutCreate(&t->y, BLT_F32, (uint64_t) g->n, (uint64_t) g->rows, g->ldy) == 0)
		return true;
	forget(b, t);
	return false;
}

static bool
multiply(Blaslt *b, const Gemm *g, const BltAlgo *algo, cudaStream_t stream)
{
	float		alpha = 1.0f,
				beta = g->add ? 1.0f : 0.0f;
	Words		t;
	bool		ok;

	if (!describe(b, g, &t))
		return false;
	ok = b->Matmul(b->lt, t.desc, &alpha, g->w, t.w, g->x, t.x, &beta, g->y, t.y, g->y, t.y, algo,
				   b->workspace, b->workspace != NULL ? WORKSPACE : 0, stream) == 0;
	forget(b, &t);
	return ok;
}

/* get the library's choices for it, at most CANDIDATES; invariant: none that split k */
static int
choices_for(Blaslt *b, const Gemm *g, BltChoice *to)
{
	uint64_t	room = b->workspace != NULL ? WORKSPACE : 0;
	uint32_t	aligned = ALIGNED,
				none = 0;
	BltHandle	pref = NULL;
	Words		t;
	int			n = 0,
				kept = 0;
	bool		ok = b->MatmulPreferenceCreate(&pref) == 0 &&
		b->MatmulPreferenceSetAttribute(pref, BLT_PREF_WORKSPACE, &room, sizeof(room)) == 0;

	for (int i = 0; ok && i < 4; i++)
		ok = b->MatmulPreferenceSetAttribute(pref, BLT_PREF_ALIGN_A + i, &aligned, sizeof(aligned)) == 0;
	if (ok && b->invariant)
		ok = b->MatmulPreferenceSetAttribute(pref, BLT_PREF_REDUCTION, &none, sizeof(none)) == 0;
	if (ok && describe(b, g, &t))
	{
		if (b->MatmulAlgoGetHeuristic(b->lt, t.desc, t.w, t.x, t.y, t.y, pref, CANDIDATES, to, &n) != 0)
			n = 0;
		forget(b, &t);
	}
	if (pref != NULL)
		b->MatmulPreferenceDestroy(pref);
	for (int i = 0; i < n; i++)
	{
		int32_t		splits = 1;
		uint32_t	reduction = 0;
		size_t		written;

		if (b->invariant &&
			(b->MatmulAlgoConfigGetAttribute(&to[i].algo, BLT_ALGO_SPLITS, &splits, sizeof(splits),
											 &written) != 0 || splits > 1 ||
			 b->MatmulAlgoConfigGetAttribute(&to[i].algo, BLT_ALGO_REDUCTION, &reduction, sizeof(reduction),
											 &written) != 0 ||
			 reduction != 0))
			continue;
		if (to[i].state == 0 && to[i].workspace <= room)
			to[kept++] = to[i];
	}
	return kept;
}

/* ---- a product with a plan ---- */

/* k of a plain matrix's row: whole pieces */
static int
plain_k(int k)
{
	return (k + CUDA_PIECE - 1) / CUDA_PIECE * CUDA_PIECE;
}

/* outputs of a tile, so that all tiles have about the same size; 0: not even one strip fits */
static int
tile_outputs(const Blaslt *b, int n, int k)
{
	size_t		strip = (size_t) CUDA_STRIP * (size_t) plain_k(k) * 2;
	int			most = (int) (b->tile_bytes / strip < (size_t) INT32_MAX / CUDA_STRIP
							  ? b->tile_bytes / strip : INT32_MAX / CUDA_STRIP),
				strips = (n + CUDA_STRIP - 1) / CUDA_STRIP,
				tiles;

	if (most == 0)
		return 0;
	tiles = (strips + most - 1) / most;
	return (strips + tiles - 1) / tiles * CUDA_STRIP;
}

static Gemm
gemm_of(const Blaslt *b, const Part *p)
{
	const BlasltMm *mm = p->mm;

	return Gemm{b->tile, plain_k(mm->w->k), mm->x, mm->ldx, mm->as, mm->y + p->first, mm->ldy, mm->rows, p->n,
				mm->w->k, false};
}

static bool
by_plan(Blaslt *b, const Plan *plan, const Part *p, cudaStream_t stream)
{
	Gemm		g = gemm_of(b, p);
	int			k = g.k;

	cuda_unpack(p->mm->w, p->first, p->n, b->tile, g.as, g.ldw, stream);
	if (!b->invariant)
		return multiply(b, &g, &plan->algo, stream);
	for (int at = 0; at < k; at += MM_SEGMENT)
	{
		g.w = (const uint16_t *) b->tile + at;
		g.x = (const uint16_t *) p->mm->x + at;
		g.k = k - at < MM_SEGMENT ? k - at : MM_SEGMENT;
		g.add = at > 0;
		if (!multiply(b, &g, g.k < MM_SEGMENT ? &plan->last : &plan->algo, stream))
			return false;
	}
	return true;
}

/* ---- testing the library's bits ---- */

typedef struct Probe
{
	uint8_t    *w;				/* any bits are a valid packed matrix */
	uint16_t   *x;
	float	   *own;
	float	   *lt;
	int		   *count;
} Probe;

/* numbers of either sign between 2^-8 and 2^7, so that a different order of additions gives different
 * bits */
__global__ void __launch_bounds__(256)
noise_kernel(uint16_t *to, size_t n, int bf16, uint32_t seed)
{
	size_t		i = (size_t) blockIdx.x * 256 + threadIdx.x;
	uint32_t	h = ((uint32_t) i + seed) * 2654435761u;

	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	h *= 3266489917u;
	h ^= h >> 16;
	if (i < n)
		to[i] = (uint16_t) ((h >> 16 & 0x8000) |
							(bf16 ? (119 + (h & 15)) << 7 | (h >> 4 & 127) : (7 + (h & 15)) << 10 |
							 (h >> 4 & 1023)));
}

/* count words that differ; integers, so the order doesn't matter */
__global__ void __launch_bounds__(256)
differ_kernel(const uint32_t *a, const uint32_t *b, size_t n, int *count)
{
	size_t		i = (size_t) blockIdx.x * 256 + threadIdx.x;

	if (i < n && a[i] != b[i])
		atomicAdd(count, 1);
}

static unsigned
blocks_for(size_t n)
{
	return (unsigned) ((n + 255) / 256);
}

static bool
probe_open(Probe *p, KType as, int n, int k, cudaStream_t stream)
{
	size_t		w = cuda_mat_bytes(as, n, k),
				x = (size_t) probe_rows[PROBES - 1] * (size_t) k,
				y = (size_t) probe_rows[PROBES - 1] * (size_t) n;

	*p = Probe{};
	if (cudaMalloc((void **) &p->w, w) != cudaSuccess || cudaMalloc((void **) &p->x, x * 2) != cudaSuccess ||
		cudaMalloc((void **) &p->own, y * 4) != cudaSuccess ||
		cudaMalloc((void **) &p->lt, y * 4) != cudaSuccess ||
		cudaMalloc((void **) &p->count, sizeof(int)) != cudaSuccess)
		return false;
	LAUNCH(noise_kernel, blocks_for(w / 2), 256, 0, stream, (uint16_t *) p->w, w / 2, as == KT_BF16, 1u);
	LAUNCH(noise_kernel, blocks_for(x), 256, 0, stream, p->x, x, as == KT_BF16, 77777u);
	return true;
}

static void
probe_close(Probe *p)
{
	cudaFree(p->w);
	cudaFree(p->x);
	cudaFree(p->own);
	cudaFree(p->lt);
	cudaFree(p->count);
	cudaGetLastError();
}

/* milliseconds of the product with the plan, or with the own kernel (plan NULL); negative: it failed */
static float
time_of(Blaslt *b, const Plan *plan, const Part *part, cudaStream_t stream)
{
	const BlasltMm *mm = part->mm;
	cudaEvent_t from = NULL,
				to = NULL;
	float		ms = -1;
	bool		ok = cudaEventCreate(&from) == cudaSuccess && cudaEventCreate(&to) == cudaSuccess;

	/* the first run loads the modules */
	for (int i = 0; ok && i < 2; i++)
	{
		cudaEventRecord(from, stream);
		ok = plan != NULL ? by_plan(b, plan, part, stream) :
			cuda_mm(mm->w, mm->x, mm->as, mm->rows, mm->ldx, mm->y, mm->ldy, NULL, NULL, stream, b->wgmma);
		cudaEventRecord(to, stream);
	}
	if (!ok || cudaEventSynchronize(to) != cudaSuccess || cudaEventElapsedTime(&ms, from, to) != cudaSuccess)
		ms = -1;
	if (from != NULL)
		cudaEventDestroy(from);
	if (to != NULL)
		cudaEventDestroy(to);
	return ms;
}

/* Return true if the plan has the own kernel's bits, whatever the number of rows.  w: of the probe's
 * size, or fewer k. */
static bool
same_bits(Blaslt *b, const Plan *plan, const Probe *p, const KMat *w, cudaStream_t stream)
{
	for (int i = 0; i < PROBES; i++)
	{
		BlasltMm	mm = {w, p->x, plan->as, probe_rows[i], w->k, p->lt, w->n, NULL, false};
		Part		part = {&mm, 0, w->n};
		size_t		y = (size_t) mm.rows * (size_t) w->n;
		int			differ = 1;

		cudaMemsetAsync(p->count, 0, sizeof(int), stream);
		if (!by_plan(b, plan, &part, stream) ||
			!cuda_mm(w, p->x, plan->as, mm.rows, w->k, p->own, w->n, NULL, NULL, stream, b->wgmma))
			return false;
		LAUNCH(differ_kernel, blocks_for(y), 256, 0, stream, (const uint32_t *) p->own,
			   (const uint32_t *) p->lt, y, p->count);
		if (cudaMemcpyAsync(&differ, p->count, sizeof(int), cudaMemcpyDeviceToHost, stream) != cudaSuccess ||
			cudaStreamSynchronize(stream) != cudaSuccess || differ != 0)
			return false;
	}
	return true;
}

/* Find an algorithm for the k of one segment; false: none has the bits. */
static bool
probe_segment(Blaslt *b, Plan *plan, BltAlgo *algo, const Probe *p, int k, cudaStream_t stream)
{
	KMat		w = {plan->type, plan->n, k, p->w, cuda_mat_bytes(plan->type, plan->n, k)};
	BlasltMm	mm = {&w, p->x, plan->as, probe_rows[PROBES - 1], k, p->lt, plan->n, NULL, false};
	Part		part = {&mm, 0, plan->n};
	Gemm		g = gemm_of(b, &part);
	BltChoice	choices[CANDIDATES];
	int			n = choices_for(b, &g, choices);

	for (int i = 0; i < n; i++)
	{
		*algo = choices[i].algo;
		if (same_bits(b, plan, p, &w, stream))
			return true;
	}
	return false;
}

/* return NULL if cuBLASLt can compute the plan; otherwise the reason why not */
static const char *
probe(Blaslt *b, Plan *plan, cudaStream_t stream)
{
	int			last = plan->k % MM_SEGMENT;
	const char *why = NULL;
	Probe		p;

	if (!probe_open(&p, plan->as, plan->n, plan->k, stream))
		why = "no memory to try it";
	else
	{
		KMat		w = {plan->type, plan->n, plan->k, p.w, cuda_mat_bytes(plan->type, plan->n, plan->k)};
		BlasltMm	mm = {&w, p.x, plan->as, probe_rows[PROBES - 1], plan->k, p.lt, plan->n, NULL, false};
		Part		part = {&mm, 0, plan->n};
		float		ms;

		/* each kind of segment, then their sum */
		if ((last != 0 && !probe_segment(b, plan, &plan->last, &p, last, stream)) ||
			(plan->k >= MM_SEGMENT && !probe_segment(b, plan, &plan->algo, &p, MM_SEGMENT, stream)) ||
			(plan->k > MM_SEGMENT && !same_bits(b, plan, &p, &w, stream)))
			why = "its bits are others";
		else if ((ms = time_of(b, plan, &part, stream)) < 0 || ms > time_of(b, NULL, &part, stream))
			why = "it is slower";
	}
	cudaStreamSynchronize(stream);
	probe_close(&p);
	return why;
}

/* ---- plans ---- */

static void
log_plan(const Blaslt *b, const Plan *p, const char *why)
{
	char		text[160];

	snprintf(text, sizeof(text), "products of %d rows and more with %d x %d: %s%s", BLASLT_ROWS, p->n, p->k,
			 why == NULL ? "cuBLASLt" : "own kernels, not cuBLASLt: ", why == NULL ? "" : why);
	if (b->log != NULL)
		b->log('I', text);
}

static void
make_plan(Blaslt *b, Plan *p, const Part *part, cudaStream_t stream)
{
	Gemm		g = gemm_of(b, part);
	BltChoice	choices[CANDIDATES];

	if (b->invariant)
	{
		const char *why = probe(b, p, stream);

		p->own = why != NULL;
		log_plan(b, p, why);
	}
	else
	{
		g.rows = p->rows;
		p->own = choices_for(b, &g, choices) == 0;
		if (!p->own)
			p->algo = choices[0].algo;
	}
	p->made = true;
	b->counts.plans++;
	b->counts.own += p->own;
}

/* return NULL if the plan would have to be made, but can't be made now */
static Plan *
plan_for(Blaslt *b, const Part *part, cudaStream_t stream)
{
	const BlasltMm *mm = part->mm;
	int			rows = b->invariant ? 0 : 1;
	uint32_t	h = (uint32_t) (part->n * 31 + mm->w->k) * 31 + (uint32_t) (mm->w->type * 31 + mm->as);
	Plan	   *p;

	while (rows > 0 && rows < mm->rows)
		rows *= 2;
	h = (h * 31 + (uint32_t) rows) * 2654435761u >> 16;
	for (int i = 0; i < PLANS; i++)
	{
		p = &b->plans[(h + (uint32_t) i) % PLANS];
		if (!p->made)
			break;
		if (p->type == mm->w->type && p->as == mm->as && p->rows == rows && p->n == part->n &&
			p->k == mm->w->k)
			return p;
	}
	if (b->invariant && mm->captured)
		return NULL;
	/* more shapes than models have: replace an existing plan */
	*p = Plan{mm->w->type, mm->as, rows, part->n, mm->w->k, false, false, {}, {}};
	make_plan(b, p, part, stream);
	return p;
}

static bool
fits(const Blaslt *b, const BlasltMm *p)
{
	KType		type = p->w->type;
	bool		floats = type == p->as,
				/* INT8's x is converted to codes, with a scale for each 128 k: the library has no such
				 * product */
				blocks = type != KT_F32 && type != KT_F16 && type != KT_BF16 && type != KT_INT8 &&
				!b->invariant;

	return p->as != KT_F32 && (floats || blocks) && p->rows >= (floats ? BLASLT_ROWS : BLASLT_ROWS_BLOCKS) &&
		p->ldx % (ALIGNED / 2) == 0 && (uintptr_t) p->x % ALIGNED == 0 && (uintptr_t) p->y % ALIGNED == 0;
}

bool
blaslt_mm(Blaslt *b, const BlasltMm *p, cudaStream_t stream)
{
	int			step = fits(b, p) ? tile_outputs(b, p->w->n, p->w->k) : 0;

	if (step == 0)
		return false;
	for (int pass = 0; pass < 2; pass++)
		for (int at = 0; at < p->w->n; at += step)
		{
			Part		part = {p, at, p->w->n - at < step ? p->w->n - at : step};
			Plan	   *plan = plan_for(b, &part, stream);

			/* it computes either all outputs or none */
			if (plan == NULL || plan->own)
				return false;
			if (pass == 1 && !by_plan(b, plan, &part, stream))
			{
				plan->own = true;
				b->counts.own++;
				return false;
			}
		}
	if (p->bias != NULL)
		cuda_add_head_bias(p->y, p->rows, p->ldy, 1, p->w->n, p->bias, 0, stream);
	b->counts.products++;
	return true;
}
