/*
 * table.cu
 *	  The op table of a GPU: each op finds its arguments on the device and launches its kernels.
 *
 * There is one table for each type of operands; functions that use operands are templates of it (AS).
 * If operands are floats, matrices of blocks are multiplied with a 16-bit copy of x in the scratch;
 * otherwise nothing is converted.  Nothing is computed here.  Arrays of the host come from the step, or
 * from the stage (dev.h); structs are passed by value.
 */
#include "cuda/dev.h"
#include "cuda/mm/blaslt.h"
#include "cuda/cuda_ops.h"
#include "cuda/quad.cuh"

extern "C"
{
#include "cuda/pack.h"
}

#include <math.h>
#include <stddef.h>
#include <string.h>

/* attention has scratch for contexts up to this; longer ones use fewer blocks, with the same bits */
#define MOST_KEYS	131072

/*
 * Return the device of an op's pool and make it current in the calling thread: a thread may have models
 * on several devices, and CUDA launches kernels on the current one only.  NULL: it is lost, and the op
 * does nothing.
 */
static KDevice *
device_of(const KPool *pool)
{
	KDevice    *d = dev_of(pool);

	return dev_use(d) ? d : NULL;
}

/*
 * Fill c; kv NULL: without tables.  For a graph each sequence has one row, and contexts are as long as
 * its key says.  Return false if the device is lost.
 */
static bool
cuda_rows(KDevice *d, const KRows *r, const KvView *kv, CudaRows *c)
{
	*c = CudaRows{};
	c->n_rows = r->n_rows;
	c->n_seqs = r->n_seqs;
	for (int s = 0; s < r->n_seqs; s++)
	{
		int			n = r->seq_start[s + 1] - r->seq_start[s],
					keys = r->pos[r->seq_start[s + 1] - 1] + 1;

		c->most_rows = n > c->most_rows ? n : c->most_rows;
		c->most_keys = keys > c->most_keys ? keys : c->most_keys;
	}
	if (d->run == KRUN_CAPTURE)
		c->most_keys = d->key.splits * DEV_SPLIT_KEYS;
	c->pos = (const int32_t *) dev_array(d, r->pos, (size_t) r->n_rows * sizeof(int32_t));
	c->seq_start = dev_starts(d, r, &c->row0);
	if (kv != NULL)
		c->table = dev_blocks(d, r, kv->block_size, &c->ld_table);
	return !d->lost;
}

static const int32_t *
ints(KDevice *d, const int32_t *host, int n)
{
	return (const int32_t *) dev_array(d, host, (size_t) n * sizeof(int32_t));
}

/* ---- row by row: only floats in the device's memory ---- */

static void
op_rmsnorm(KPool *pool, float *y, const float *x, const float *w, int rows, int dim, float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_rmsnorm(y, KT_F32, x, w, rows, dim, eps, dev_stream(d));
}

template <KType AS> static void
op_add_rmsnorm(KPool *pool, KOp *y, float *x, const float *a, const float *w, int rows, int dim, float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_add_rmsnorm(y, AS, x, a, w, rows, dim, eps, dev_stream(d));
}

static void
op_layernorm(KPool *pool, float *y, const float *x, const float *w, const float *b, int rows, int dim,
			 float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_layernorm(y, KT_F32, x, w, b, rows, dim, eps, dev_stream(d));
}

template <KType AS> static void
op_rmsnorm_op(KPool *pool, KOp *y, const float *x, const float *w, int rows, int dim, float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_rmsnorm(y, AS, x, w, rows, dim, eps, dev_stream(d));
}

template <KType AS> static void
op_layernorm_op(KPool *pool, KOp *y, const float *x, const float *w, const float *b, int rows, int dim,
				float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_layernorm(y, AS, x, w, b, rows, dim, eps, dev_stream(d));
}

template <KType AS> static void
op_to_op(KPool *pool, KOp *y, int ldy, const float *x, int ldx, int rows, int dim)
{
	if (KDevice *d = device_of(pool))
		cuda_to_op(y, AS, ldy, x, ldx, rows, dim, dev_stream(d));
}

template <KType AS> static void
op_from_op(KPool *pool, float *y, int ldy, const KOp *x, int ldx, int rows, int dim)
{
	if (KDevice *d = device_of(pool))
		cuda_from_op(y, ldy, x, AS, ldx, rows, dim, dev_stream(d));
}

static void
op_norm_heads(KPool *pool, KNormKind kind, float *x, int rows, int ld, int heads, int dim, const float *w,
			  int ldw, float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_norm_heads(kind, x, rows, ld, heads, dim, w, ldw, eps, dev_stream(d));
}

static void
op_add(KPool *pool, float *x, const float *a, int rows, int dim)
{
	if (KDevice *d = device_of(pool))
		cuda_add(x, a, rows, dim, dev_stream(d));
}

static void
op_scale(KPool *pool, float *x, int rows, int dim, float s)
{
	if (KDevice *d = device_of(pool))
		cuda_scale(x, rows, dim, s, dev_stream(d));
}

static void
op_softcap(KPool *pool, float *y, int rows, int dim, float cap)
{
	if (KDevice *d = device_of(pool))
		cuda_softcap(y, rows, dim, cap, dev_stream(d));
}

template <KType AS> static void
op_act_mul(KPool *pool, KAct a, KOp *y, const float *gu, int rows, int dim)
{
	if (KDevice *d = device_of(pool))
		cuda_act_mul(a, y, AS, gu, rows, dim, dev_stream(d));
}

static void
op_act(KPool *pool, KAct a, float *y, int rows, int dim)
{
	if (KDevice *d = device_of(pool))
		cuda_act(a, y, KT_F32, y, rows, dim, dev_stream(d));
}

template <KType AS> static void
op_act_op(KPool *pool, KAct a, const float *p, KOp *y, const float *x, int rows, int dim)
{
	KDevice    *d = device_of(pool);

	if (d == NULL)
		return;
	if (a == KACT_XIELU)
		cuda_xielu(y, AS, x, rows, dim, p, dev_stream(d));
	else
		cuda_act(a, y, AS, x, rows, dim, dev_stream(d));
}

static void
op_scale_cols(KPool *pool, float *y, int rows, int ldy, int from, int n, float by)
{
	if (KDevice *d = device_of(pool))
		cuda_scale_cols(y, rows, ldy, from, n, by, dev_stream(d));
}

static void
op_mul_cols(KPool *pool, float *y, int rows, int ldy, const float *w, int n)
{
	if (KDevice *d = device_of(pool))
		cuda_mul_cols(y, rows, ldy, w, n, dev_stream(d));
}

static void
op_clip(KPool *pool, float *x, int rows, int ldx, int n, float most)
{
	if (KDevice *d = device_of(pool))
		cuda_clip(x, rows, ldx, n, most, dev_stream(d));
}

static void
op_add_head_bias(KPool *pool, float *x, int rows, int ldx, int heads, int dim, const float *b, int ldb)
{
	if (KDevice *d = device_of(pool))
		cuda_add_head_bias(x, rows, ldx, heads, dim, b, ldb, dev_stream(d));
}

/* ---- row by row, with integers of the host ---- */

static void
op_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale, int every,
		  int first)
{
	KDevice    *d = device_of(pool);
	const int32_t *at = d != NULL ? ints(d, pos, rows) : NULL;

	if (at != NULL)
		cuda_temper(q, rows, ldq, n, at, scale, every, first, dev_stream(d));
}

static void
op_rope(KPool *pool, float *x, int rows, int ld, int heads, int head_dim, const int32_t *pos, const float *cs,
		int rot_dim)
{
	KDevice    *d = device_of(pool);
	const int32_t *at = d != NULL ? ints(d, pos, rows) : NULL;

	if (at != NULL)
		cuda_rope(x, rows, ld, heads, head_dim, at, cs, rot_dim, dev_stream(d));
}

/* there are few rows: they replace tokens in a prompt */
static void
op_put_rows(KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy)
{
	KDevice    *d = device_of(pool);

	for (int i = 0; d != NULL && i < rows; i++)
		if (given[i] != NULL)
			dev_put(d, y + (size_t) i * (size_t) ldy, given[i], (size_t) dim * sizeof(float));
}

static void
op_copy_rows(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx, int rows, int dim)
{
	KDevice    *d = device_of(pool);

	if (d == NULL)
		return;
	idx = ints(d, idx, rows);
	if (!d->lost)
		cuda_copy_rows(y, ldy, x, ldx, idx, rows, dim, dev_stream(d));
}

static void
op_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width)
{
	KDevice    *d = device_of(pool);
	const int32_t *at = d != NULL ? ints(d, idx, n) : NULL;

	if (at != NULL)
		cuda_keep_rows(x, elem_size, at, n, width, dev_stream(d));
}

static void
op_pick_cols(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *from, int rows, int n)
{
	if (KDevice *d = device_of(pool))
		cuda_pick_cols(y, ldy, x, ldx, from, rows, n, dev_stream(d));
}

static void
op_rows_of(KPool *pool, const KMat *m, const int32_t *ids, int first, int rows, float *y, int ldy)
{
	KDevice    *d = device_of(pool);

	if (d == NULL)
		return;
	ids = ints(d, ids, rows);
	if (!d->lost)
		cuda_rows_of(m, ids, first, rows, y, ldy, dev_stream(d));
}

static void
op_mul_rows(KPool *pool, float *y, int ldy, const float *a, int lda, const float *b, int ldb, int rows,
			int dim, bool silu)
{
	if (KDevice *d = device_of(pool))
		cuda_mul_rows(y, KT_F32, ldy, a, lda, b, ldb, rows, dim, silu ? KACT_SILU : -1, dev_stream(d));
}

static void
op_dot_rows(KPool *pool, float *y, const float *x, int rows, int dim, const float *w, float bias)
{
	if (KDevice *d = device_of(pool))
		cuda_dot_rows(y, x, rows, dim, w, bias, dev_stream(d));
}

template <KType AS> static void
op_swap_heads(KPool *pool, void *y, bool y_op, size_t y_row, size_t y_head, const void *x, bool x_op,
			  size_t x_row, size_t x_head, int rows, int heads, int width)
{
	if (KDevice *d = device_of(pool))
		cuda_swap_heads(y, y_op ? AS : KT_F32, y_row, y_head, x, x_op ? AS : KT_F32, x_row, x_head, rows,
						heads, width, dev_stream(d));
}

static void
op_series(KPool *pool, int32_t *y, int n, int32_t by)
{
	if (KDevice *d = device_of(pool))
	{
		cuda_series(y, n, by, dev_stream(d));
		dev_remember(d, y, (n - 1) * by);
	}
}

/* ---- adapters ---- */

/* room: bytes of another array of the op, which is staged beside them; places are multiples of 256 */
static bool
lora_jobs(KDevice *d, const KLoraJob *jobs, int n, size_t room, CudaLora *l)
{
	size_t		bytes = cuda_lora_bytes(jobs, n);
	void	   *at = NULL;
	void	   *host = dev_room(d, bytes + room + 512) ? dev_stage(d, bytes, &at) : NULL;

	if (host == NULL)
		return false;
	*l = cuda_lora_stage(host, at, jobs, n);
	return dev_send(d, at, host, bytes);
}

template <KType AS> static void
op_lora_shrink(KPool *pool, KLoraJob *jobs, int n, const KOp *x, int ldx, float *t, int ldt)
{
	KDevice    *d = device_of(pool);
	CudaLora	l;

	if (d != NULL && lora_jobs(d, jobs, n, 0, &l))
		cuda_lora_shrink(&l, x, AS, ldx, t, ldt, dev_stream(d));
}

static void
op_lora_expand(KPool *pool, KLoraJob *jobs, int n, const float *t, int ldt, float *y, int ldy)
{
	KDevice    *d = device_of(pool);
	CudaLora	l;

	if (d != NULL && lora_jobs(d, jobs, n, 0, &l))
		cuda_lora_expand(&l, t, ldt, y, ldy, dev_stream(d));
}

static void
op_lora_rows(KPool *pool, KLoraJob *jobs, int n, const int32_t *ids, float *t, int ldt)
{
	KDevice    *d = device_of(pool);
	CudaLora	l;
	int			rows = 0;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < jobs[i].n_rows; j++)
			rows = jobs[i].rows[j] >= rows ? jobs[i].rows[j] + 1 : rows;
	if (d == NULL || !lora_jobs(d, jobs, n, (size_t) rows * sizeof(int32_t), &l))
		return;
	ids = ints(d, ids, rows);
	if (ids != NULL)
		cuda_lora_rows(&l, ids, t, ldt, dev_stream(d));
}

/* ---- ops on sequences ---- */

/* Set rows and KV of a call for the kernels; NULL: there is nothing to launch. */
static KDevice *
kv_call(KPool *pool, const KvView *kv, int layer, const KRows *r, CudaRows *rows, CudaKv *one)
{
	KDevice    *d = device_of(pool);

	if (d == NULL || !cuda_rows(d, r, kv, rows))
		return NULL;
	*one = cuda_kv(kv, layer, dev_pages(d, kv, r));
	return d->lost ? NULL : d;
}

static void
op_kv_write(KPool *pool, const KvView *kv, int layer, const KRows *r, const float *k, int ldk, const float *v,
			int ldv)
{
	CudaRows	rows;
	CudaKv		one;
	KDevice    *d = kv_call(pool, kv, layer, r, &rows, &one);

	if (d != NULL)
		cuda_kv_write(&one, &rows, k, ldk, v, ldv, dev_stream(d));
}

static CudaCaps
caps_of(const KDevice *d)
{
	return CudaCaps{d->info.cc, (int) d->info.smem_block, d->o.variant == KVARIANT_WGMMA};
}

void
table_open(KDevice *d)
{
	CudaCaps	caps = caps_of(d);

	cuda_attn_init(&caps);
}

static size_t
op_attn_scratch(const KvView *kv, int n_heads, int rows, int nthreads)
{
	KvView		plain = *kv;
	CudaKv		one;

	(void) nthreads;
	plain.pages = NULL;
	plain.scales = NULL;
	one = cuda_kv(&plain, 0, NULL);
	return cuda_attn_scratch(&one, n_heads, rows, MOST_KEYS);
}

template <KType AS> static void
op_attn(KPool *pool, const KvView *kv, int layer, const KRows *r, const float *q, int ldq, int n_heads,
		const KAttn *a, KOp *out, void *ws)
{
	CudaRows	rows;
	CudaKv		one;
	KDevice    *d = kv_call(pool, kv, layer, r, &rows, &one);
	CudaCaps	caps;
	KAttn		at = *a;

	if (d == NULL)
		return;
	for (int i = 0; a->ends != NULL && i < r->n_rows; i++)
		rows.most_keys = a->ends[i] > rows.most_keys ? a->ends[i] : rows.most_keys;
	at.ends = ints(d, a->ends, r->n_rows);
	caps = caps_of(d);
	if (!d->lost)
		cuda_attn(&caps, &one, &rows, q, ldq, n_heads, &at, out, AS, ws,
				  op_attn_scratch(kv, n_heads, r->n_rows, 1), dev_stream(d));
}

static void
op_kv_copy(KPool *pool, const KvView *kv, const int32_t *from_to, int n)
{
	if (KDevice *d = device_of(pool))
		cuda_kv_copy(kv, from_to, n, dev_stream(d));
}

/* waits for the result */
static void
op_kv_largest(KPool *pool, const KvView *kv, int layer, int n_blocks, float out[2])
{
	KDevice    *d = device_of(pool);
	CudaKv		one = cuda_kv(kv, layer, NULL);
	void	   *dev = NULL,
			   *pinned = d != NULL ? dev_stage(d, 2 * sizeof(float), &dev) : NULL;

	out[0] = out[1] = NAN;
	if (pinned == NULL)
		return;
	cuda_kv_largest(&one, n_blocks, (float *) dev, dev_stream(d));
	if (dev_ok(d, cudaMemcpyAsync(pinned, dev, 2 * sizeof(float), cudaMemcpyDeviceToHost, dev_stream(d)),
			   "cudaMemcpyAsync") &&
		dev_ok(d, cudaStreamSynchronize(d->stream), "running"))
		memcpy(out, pinned, 2 * sizeof(float));
}

static void
op_rope_kv(KPool *pool, const KvView *kv, int layer, const KRows *r, float *qkv, int ld, int n_heads,
		   const float *cs, int rot_dim)
{
	CudaRows	rows;
	CudaKv		one;
	KDevice    *d = kv_call(pool, kv, layer, r, &rows, &one);

	if (d != NULL)
		cuda_rope_kv(&one, &rows, qkv, ld, n_heads, cs, rot_dim, dev_stream(d));
}

static void
op_conv(KPool *pool, const KState *st, const KRows *r, const float *x, int ldx, int dim, int width,
		const float *w, const float *b, bool silu, float *y, int ldy)
{
	KDevice    *d = device_of(pool);
	CudaRows	rows;
	const int32_t *slots;

	if (d == NULL || !cuda_rows(d, r, NULL, &rows))
		return;
	slots = ints(d, r->state_slot, r->n_seqs);
	if (slots != NULL)
		cuda_conv(st, slots, &rows, x, ldx, dim, width, w, b, silu, y, ldy, dev_stream(d));
}

static void
op_scan(KPool *pool, const KState *st, const KRows *r, const KScan *s, float *y, int ldy)
{
	KDevice    *d = device_of(pool);
	CudaRows	rows;
	const int32_t *slots;

	if (d == NULL || !cuda_rows(d, r, NULL, &rows))
		return;
	slots = ints(d, r->state_slot, r->n_seqs);
	if (slots != NULL)
		cuda_scan(st, slots, &rows, s, y, KT_F32, ldy, dev_stream(d));
}

/* ---- products ---- */

#define UP(n)		(((size_t) (n) + 255) / 256 * 256)

/* Return true if operands are floats, but a matrix of that type needs another type of x; fp8_x: from
 * KDevOpen. */
static bool
converts(KType as, KType type, bool fp8_x)
{
	return as == KT_F32 && type != KT_F32 && type != KT_F16 && type != KT_BF16 && type != KT_INT8 &&
		!(type == KT_FP8 && fp8_x);
}

template <KType AS, bool FP8_X> static size_t
op_mm_scratch(KType type, int rows, int k)
{
	return (converts(AS, type, FP8_X) ? UP((size_t) rows * (size_t) k * 2) : 0) + cuda_mm_scratch(type, rows,
			k, FP8_X);
}

template <KType AS, bool FP8_X> static size_t
op_mm_grouped_scratch(KType type, int n_mats, int rows, int k)
{
	(void) n_mats;
	return op_mm_scratch<AS, FP8_X>(type, rows, k);
}

/* return the type of x to multiply with, and update *x, *ldx, and *ws to the rest of the scratch */
static KType
factor(KDevice *d, KType as, KType type, const void **x, int rows, int k, int *ldx, void **ws)
{
	KType		half = d->info.features & DEV_BF16 ? KT_BF16 : KT_F16;
	void	   *to = *ws;

	if (!converts(as, type, d->o.fp8_x))
		return as;
	cuda_to_op(to, half, k, (const float *) *x, *ldx, rows, k, dev_stream(d));
	*ws = (char *) *ws + UP((size_t) rows * (size_t) k * 2);
	*x = to;
	*ldx = k;
	return half;
}

template <KType AS> static void
op_mm(KPool *pool, const KMat *w, const KOp *x, int rows, int ldx, float *y, int ldy, const float *bias,
	  void *ws)
{
	KDevice    *d = device_of(pool);
	BlasltMm	mm;
	const void *in = x;
	KType		as;

	if (d == NULL || rows == 0)
		return;
	as = factor(d, AS, w->type, &in, rows, w->k, &ldx, &ws);
	mm = BlasltMm{w, in, as, rows, ldx, y, ldy, bias, d->run == KRUN_CAPTURE};
	if (d->blas != NULL && !(w->type == KT_FP8 && d->o.fp8_x) && blaslt_mm(d->blas, &mm, dev_stream(d)))
		return;
	if (!cuda_mm(w, in, as, rows, ldx, y, ldy, bias, ws, dev_stream(d), caps_of(d).wgmma, d->o.fp8_x))
		dev_lose(d, "there is no product for a matrix's type");
}

template <KType AS> static void
op_mm_grouped(KPool *pool, const KMat *w, int n_mats, const int32_t *row_start, const KOp *x, int ldx,
			  float *y, int ldy, const float *const *bias, void *ws)
{
	KDevice    *d = device_of(pool);
	CudaMats	m = {w[0].type, w[0].n, w[0].k, n_mats, NULL, NULL};
	const void *data[KROUTE_MAX_EXPERTS];
	const void *in = x;
	KType		as;
	int			rows;

	if (d == NULL)
		return;
	if (n_mats > KROUTE_MAX_EXPERTS)
	{
		dev_lose(d, "too many matrices in one product");
		return;
	}
	rows = dev_rows_of_groups(d, row_start, n_mats);
	for (int i = 0; i < n_mats; i++)
		data[i] = w[i].data;
	m.data = (const void *const *) dev_const(d, w, data, (size_t) n_mats * sizeof(void *));
	m.bias = (const float *const *) dev_const(d, bias, bias, (size_t) n_mats * sizeof(void *));
	if (d->lost || rows == 0)
		return;
	as = factor(d, AS, w->type, &in, rows, w->k, &ldx, &ws);
	if (!cuda_mm_grouped(&m, row_start, in, as, rows, ldx, y, ldy, ws, dev_stream(d), caps_of(d).wgmma,
						 d->o.fp8_x))
		dev_lose(d, "there is no product for matrices' type");
}

/* ---- mixtures of experts ---- */

static void
op_moe_route(KPool *pool, const KRoute *c, float *logits, int rows, float *space, int32_t *experts,
			 float *weights)
{
	(void) space;
	if (KDevice *d = device_of(pool))
		cuda_moe_route(c, logits, rows, experts, weights, dev_stream(d));
}

static void
op_moe_slots(KPool *pool, int32_t *experts, int rows, int first, int top_k, const int32_t *slots, int width)
{
	if (KDevice *d = device_of(pool))
		cuda_moe_slots(experts, rows, first, top_k, slots, width, dev_stream(d));
}

static void
op_moe_place(KPool *pool, const int32_t *experts, int pairs, int n_experts, int32_t *start, int32_t *place)
{
	KDevice    *d = device_of(pool);

	if (d == NULL)
		return;
	cuda_moe_place(experts, pairs, n_experts, start, place, dev_stream(d));
	dev_remember(d, start, pairs);
}

template <KType AS> static void
op_moe_gather(KPool *pool, KOp *x, const KOp *h, int rows, int top_k, const int32_t *place,
			  const float *weights, int hidden)
{
	if (KDevice *d = device_of(pool))
		cuda_moe_gather(AS, x, h, rows, top_k, place, weights, hidden, dev_stream(d));
}

static void
op_moe_combine(KPool *pool, float *y, const float *x, int rows, int top_k, const int32_t *place,
			   const float *weights, const float *gate, bool shared, const float *out_bias, int hidden)
{
	if (KDevice *d = device_of(pool))
		cuda_moe_combine(y, x, rows, top_k, place, weights, gate, shared, out_bias, hidden, dev_stream(d));
}

/* ---- pooling and tokens ---- */

static void
op_pool_rows(KPool *pool, KPoolAdd how, float *sums, int lds, const KPoolSeq *seqs, int n, const float *x,
			 int ldx, int width)
{
	KDevice    *d = device_of(pool);
	const KPoolSeq *at = d != NULL ? (const KPoolSeq *) dev_array(d, seqs, (size_t) n * sizeof(KPoolSeq)) :
		NULL;

	if (at != NULL)
		cuda_pool_rows(how, sums, lds, at, n, x, ldx, width, dev_stream(d));
}

static void
op_sample(KPool *pool, void *rows, int n, float *logits, int width, int n_valid, KSampled *out)
{
	if (KDevice *d = device_of(pool))
		cuda_sample(rows, n, logits, width, n_valid, out, dev_stream(d));
}

/* ---- the table ---- */

/* an op that every model needs, by name */
static const struct
{
	const char *name;
	size_t		at;
}			needed[] = {
#define OP(name, parameters, arguments) {#name, offsetof(Kernels, name)},
#include "ops.def"
#undef OP
};

/* FP8_X: KDevOpen.fp8_x; only the functions that compute scratch need it before the device is known */
template <KType AS, bool FP8_X> static const Kernels *
table(void)
{
	static Kernels k;

	k.name = "cuda";
	k.op_size = operand_size(AS);
	k.mat_bytes = cuda_mat_bytes;
	k.mat_pack = cuda_mat_pack;
	k.mat_row = cuda_mat_row;
	k.mm_scratch = op_mm_scratch<AS, FP8_X>;
	k.mm = op_mm<AS>;
	k.rmsnorm = op_rmsnorm;
	k.add_rmsnorm = op_add_rmsnorm<AS>;
	k.layernorm = op_layernorm;
	k.norm_heads = op_norm_heads;
	k.add = op_add;
	k.scale = op_scale;
	k.rope = op_rope;
	k.softcap = op_softcap;
	k.act_mul = op_act_mul<AS>;
	k.act = op_act;
	k.act_op = op_act_op<AS>;
	k.scale_cols = op_scale_cols;
	k.mul_cols = op_mul_cols;
	k.clip = op_clip;
	k.add_head_bias = op_add_head_bias;
	k.temper = op_temper;
	k.put_rows = op_put_rows;
	k.copy_rows = op_copy_rows;
	k.keep_rows = op_keep_rows;
	k.pick_cols = op_pick_cols;
	k.rows_of = op_rows_of;
	k.mul_rows = op_mul_rows;
	k.dot_rows = op_dot_rows;
	k.swap_heads = op_swap_heads<AS>;
	k.series = op_series;
	k.lora_shrink = op_lora_shrink<AS>;
	k.lora_expand = op_lora_expand;
	k.lora_rows = op_lora_rows;
	k.kv_write = op_kv_write;
	k.rope_kv = op_rope_kv;
	k.rmsnorm_op = op_rmsnorm_op<AS>;
	k.layernorm_op = op_layernorm_op<AS>;
	k.to_op = op_to_op<AS>;
	k.from_op = op_from_op<AS>;
	k.mm_grouped_scratch = op_mm_grouped_scratch<AS, FP8_X>;
	k.mm_grouped = op_mm_grouped<AS>;
	k.moe_route = op_moe_route;
	k.moe_slots = op_moe_slots;
	k.moe_place = op_moe_place;
	k.moe_gather = op_moe_gather<AS>;
	k.moe_combine = op_moe_combine;
	k.attn_scratch = op_attn_scratch;
	k.attn = op_attn<AS>;
	k.kv_copy = op_kv_copy;
	k.kv_largest = op_kv_largest;
	k.conv = op_conv;
	k.scan = op_scan;
	k.pool_rows = op_pool_rows;
	k.sample = op_sample;
	return &k;
}

template <bool FP8_X> static const Kernels *
table_by(KType op_type)
{
	return op_type == KT_F32 ? table<KT_F32, FP8_X>() : op_type == KT_F16 ? table<KT_F16, FP8_X>() :
		op_type == KT_BF16 ? table<KT_BF16, FP8_X>() : NULL;
}

const Kernels *
table_of(KType op_type, bool fp8_x)
{
	return fp8_x ? table_by<true>(op_type) : table_by<false>(op_type);
}

const char *
table_lacks(void)
{
	const char *k = (const char *) table_of(KT_F32, false);

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (*(void *const *) (k + needed[i].at) == NULL)
			return needed[i].name;
	return NULL;
}
