/*
 * table.cu
 *	  The op table of a GPU: an op's arguments to where they lie on the device, then its kernels.
 *
 * Nothing is computed here.  Arrays of the host come from the step, or from the stage (dev.h);
 * structs go along by value.
 */
#include "cuda/dev.h"
#include "cuda/cuda_ops.h"

extern "C"
{
#include "cuda/pack.h"
}

#include <stddef.h>

/* of an op; NULL: it is lost, and there is nothing to do */
static KDevice *
device_of(const KPool *pool)
{
	KDevice    *d = dev_of(pool);

	return d->lost ? NULL : d;
}

/* kv NULL: without tables.  False: the device is lost. */
static bool
cuda_rows(KDevice *d, const KRows *r, const KvView *kv, CudaRows *c)
{
	*c = CudaRows{r->n_rows, r->n_seqs, 0, NULL, NULL, NULL, 0, 0, 0};
	/* by one array after the other, so all of them must find room */
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

/* ---- products ---- */

/*
 * Operands are floats in every table so far: what tensor cores multiply is rounded here, in front of each product, to
 * the matrix' type if that is BF16 or F16, else to BF16, or F16 on devices that have no BF16.
 */
static KType
operand_of(const KDevice *d, KType w)
{
	return w == KT_F32 || w == KT_F16 ? w : (d->info.features & DEV_BF16) != 0 ? KT_BF16 : KT_F16;
}

static size_t
rounded_bytes(KType w, int rows, int k)
{
	return w == KT_F32 ? 0 : ((size_t) rows * (size_t) k * 2 + 63) & ~(size_t) 63;
}

static size_t
op_mm_scratch(KType type, int rows, int k)
{
	return rounded_bytes(type, rows, k) + cuda_mm_scratch(rows, k);
}

/* X: float, or what stands for it in kernels.h */
template <typename X> static void
op_mm(KPool *pool, const KMat *w, const X *x, int rows, int ldx, float *y, int ldy, const float *bias, void *ws)
{
	KDevice    *d = device_of(pool);
	KType		as;
	const void *operand = x;

	if (d == NULL)
		return;
	as = operand_of(d, w->type);
	if (as != KT_F32)
	{
		cuda_to_op(ws, as, (const float *) x, ldx, rows, w->k, dev_stream(d));
		operand = ws;
		ldx = w->k;
		ws = (uint8_t *) ws + rounded_bytes(w->type, rows, w->k);
	}
	if (!cuda_mm(w, operand, as, rows, ldx, y, ldy, bias, ws, dev_stream(d)))
		dev_lose(d, "no product with matrices of this type");
}

/* ---- row by row: nothing but floats of the device ---- */

static void
op_rmsnorm(KPool *pool, float *y, const float *x, const float *w, int rows, int dim, float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_rmsnorm(y, KT_F32, x, w, rows, dim, eps, dev_stream(d));
}

static void
op_add_rmsnorm(KPool *pool, KOp *y, float *x, const float *a, const float *w, int rows, int dim, float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_add_rmsnorm(y, KT_F32, x, a, w, rows, dim, eps, dev_stream(d));
}

static void
op_layernorm(KPool *pool, float *y, const float *x, const float *w, const float *b, int rows, int dim, float eps)
{
	if (KDevice *d = device_of(pool))
		cuda_layernorm(y, KT_F32, x, w, b, rows, dim, eps, dev_stream(d));
}

static void
op_norm_heads(KPool *pool, KNormKind kind, float *x, int rows, int ld, int heads, int dim, const float *w, int ldw, float eps)
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

static void
op_act_mul(KPool *pool, KAct a, KOp *y, const float *gu, int rows, int dim)
{
	if (KDevice *d = device_of(pool))
		cuda_act_mul(a, y, KT_F32, gu, rows, dim, dev_stream(d));
}

static void
op_act(KPool *pool, KAct a, float *y, int rows, int dim)
{
	if (KDevice *d = device_of(pool))
		cuda_act(a, y, KT_F32, y, rows, dim, dev_stream(d));
}

static void
op_act_op(KPool *pool, KAct a, const float *p, KOp *y, const float *x, int rows, int dim)
{
	KDevice    *d = device_of(pool);

	if (d == NULL)
		return;
	if (a == KACT_XIELU)
		cuda_xielu(y, KT_F32, x, rows, dim, p, dev_stream(d));
	else
		cuda_act(a, y, KT_F32, x, rows, dim, dev_stream(d));
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
op_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale, int every, int first)
{
	KDevice    *d = device_of(pool);
	const int32_t *at = d != NULL ? ints(d, pos, rows) : NULL;

	if (at != NULL)
		cuda_temper(q, rows, ldq, n, at, scale, every, first, dev_stream(d));
}

static void
op_rope(KPool *pool, float *x, int rows, int ld, int heads, int head_dim, const int32_t *pos, const float *cs, int rot_dim)
{
	KDevice    *d = device_of(pool);
	const int32_t *at = d != NULL ? ints(d, pos, rows) : NULL;

	if (at != NULL)
		cuda_rope(x, rows, ld, heads, head_dim, at, cs, rot_dim, dev_stream(d));
}

/* few rows: what stands for tokens in a prompt */
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
op_mul_rows(KPool *pool, float *y, int ldy, const float *a, int lda, const float *b, int ldb, int rows, int dim, bool silu)
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

/* operands are floats */
static void
op_swap_heads(KPool *pool, void *y, bool, size_t y_row, size_t y_head, const void *x, bool, size_t x_row, size_t x_head,
			  int rows, int heads, int width)
{
	if (KDevice *d = device_of(pool))
		cuda_swap_heads(y, KT_F32, y_row, y_head, x, KT_F32, x_row, x_head, rows, heads, width, dev_stream(d));
}

static void
op_series(KPool *pool, int32_t *y, int n, int32_t by)
{
	if (KDevice *d = device_of(pool))
		cuda_series(y, n, by, dev_stream(d));
}

/* ---- adapters ---- */

/* room: bytes of another array of the op, beside which they must lie; places are multiples of 256 */
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

static void
op_lora_shrink(KPool *pool, KLoraJob *jobs, int n, const KOp *x, int ldx, float *t, int ldt)
{
	KDevice    *d = device_of(pool);
	CudaLora	l;

	if (d != NULL && lora_jobs(d, jobs, n, 0, &l))
		cuda_lora_shrink(&l, x, KT_F32, ldx, t, ldt, dev_stream(d));
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

/* ---- what knows sequences ---- */

static void
op_kv_write(KPool *pool, const KvView *kv, int layer, const KRows *r, const float *k, int ldk, const float *v, int ldv)
{
	KDevice    *d = device_of(pool);
	CudaRows	rows;
	CudaKv		one;

	if (d == NULL || !cuda_rows(d, r, kv, &rows))
		return;
	one = cuda_kv(kv, layer, dev_pages(d, kv, r));
	if (!d->lost)
		cuda_kv_write(&one, &rows, k, ldk, v, ldv, dev_stream(d));
}

static void
op_rope_kv(KPool *pool, const KvView *kv, int layer, const KRows *r, float *qkv, int ld, int n_heads, const float *cs, int rot_dim)
{
	KDevice    *d = device_of(pool);
	CudaRows	rows;
	CudaKv		one;

	if (d == NULL || !cuda_rows(d, r, kv, &rows))
		return;
	one = cuda_kv(kv, layer, dev_pages(d, kv, r));
	if (!d->lost)
		cuda_rope_kv(&one, &rows, qkv, ld, n_heads, cs, rot_dim, dev_stream(d));
}

static void
op_conv(KPool *pool, const KState *st, const KRows *r, const float *x, int ldx, int dim, int width, const float *w,
		const float *b, bool silu, float *y, int ldy)
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

/* ---- the table ---- */

/* an op that no model can do without, by name */
#define NEEDED(op) {#op, offsetof(Kernels, op)}
static const struct
{
	const char *name;
	size_t		at;
}			needed[] = {
	NEEDED(mat_bytes), NEEDED(mat_pack), NEEDED(mat_row), NEEDED(mm_scratch), NEEDED(mm), NEEDED(mm_grouped_scratch),
	NEEDED(mm_grouped), NEEDED(lora_shrink), NEEDED(lora_expand), NEEDED(rmsnorm), NEEDED(add_rmsnorm), NEEDED(layernorm),
	NEEDED(norm_heads), NEEDED(add), NEEDED(scale), NEEDED(rope), NEEDED(softcap), NEEDED(act_mul), NEEDED(act),
	NEEDED(act_op), NEEDED(scale_cols), NEEDED(mul_cols), NEEDED(clip), NEEDED(add_head_bias), NEEDED(temper),
	NEEDED(rows_of), NEEDED(put_rows), NEEDED(copy_rows), NEEDED(keep_rows), NEEDED(kv_write), NEEDED(attn_scratch),
	NEEDED(attn), NEEDED(conv), NEEDED(scan), NEEDED(mul_rows), NEEDED(dot_rows), NEEDED(swap_heads), NEEDED(series),
	NEEDED(lora_rows),
};

static const Kernels *
table(void)
{
	static Kernels k;

	k.name = "cuda";
	k.op_size = sizeof(float);
	k.mat_bytes = cuda_mat_bytes;
	k.mat_pack = cuda_mat_pack;
	k.mat_row = cuda_mat_row;
	k.mm_scratch = op_mm_scratch;
	k.mm = op_mm;
	k.rmsnorm = op_rmsnorm;
	k.add_rmsnorm = op_add_rmsnorm;
	k.layernorm = op_layernorm;
	k.norm_heads = op_norm_heads;
	k.add = op_add;
	k.scale = op_scale;
	k.rope = op_rope;
	k.softcap = op_softcap;
	k.act_mul = op_act_mul;
	k.act = op_act;
	k.act_op = op_act_op;
	k.scale_cols = op_scale_cols;
	k.mul_cols = op_mul_cols;
	k.clip = op_clip;
	k.add_head_bias = op_add_head_bias;
	k.temper = op_temper;
	k.put_rows = op_put_rows;
	k.copy_rows = op_copy_rows;
	k.keep_rows = op_keep_rows;
	k.rows_of = op_rows_of;
	k.mul_rows = op_mul_rows;
	k.dot_rows = op_dot_rows;
	k.swap_heads = op_swap_heads;
	k.series = op_series;
	k.lora_shrink = op_lora_shrink;
	k.lora_expand = op_lora_expand;
	k.lora_rows = op_lora_rows;
	k.kv_write = op_kv_write;
	k.rope_kv = op_rope_kv;
	k.conv = op_conv;
	k.scan = op_scan;
	return &k;
}

/* operands are floats in every table so far */
const Kernels *
table_of(KType op_type)
{
	return op_type == KT_F32 ? table() : NULL;
}

const char *
table_lacks(void)
{
	const char *k = (const char *) table();

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (*(void *const *) (k + needed[i].at) == NULL)
			return needed[i].name;
	return NULL;
}
