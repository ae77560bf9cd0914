/*
 * attn.cu
 *	  The op attn: distribute rows, columns and keys to blocks. attn.cuh has the arithmetic.
 *
 * The distribution changes no bits.  Rows of a sequence are combined in blocks of up to 64 rows, of 128
 * with bulk copies of tiles.  If there are few blocks, as in most decoding, separate blocks compute the
 * splits of the keys, as far as there is scratch for their partial results.  Columns of V are divided,
 * too, if a lane's registers or the device's shared memory don't suffice for all.
 */
#include "cuda/attn/attn.cuh"
#include "cuda/cuda_ops.h"

#define STATIC_SMEM	3072		/* most bytes of a block's static shared memory */
#define FEW_BLOCKS	2048		/* with fewer blocks, splits are computed by separate blocks */
#define MOST_SCRATCH ((size_t) 64 << 20)

static int
up_to(int n, int multiple)
{
	return (n + multiple - 1) / multiple * multiple;
}

static int
at_most(int n, int most)
{
	return n < most ? n : most;
}

typedef struct Plan
{
	bool		bulk;			/* tiles are loaded by bulk copies */
	int			vt;				/* columns of V in a block */
	int			warps;			/* warps with rows */
	size_t		smem;
} Plan;

/* bytes of shared memory: q, the tiles, and totals if rows may have several splits in a block */
static size_t
plan_smem(const CudaKv *kv, const Plan *plan, int width, bool totals)
{
	size_t		rows = (size_t) plan->warps * 16;

	return rows * (size_t) up_to(kv->head_dim, 16) * 2 + (size_t) (plan->bulk ? ATTN_STAGES : 2) * KEYS *
		(size_t) width * 2 + (totals ? rows * (size_t) plan->vt * sizeof(float) : 0);
}

/* plan for as many rows as there are, or as memory allows */
static Plan
plan_for(const CudaCaps *caps, const CudaKv *kv, int width, int flat_rows, bool totals)
{
	size_t		room = (size_t) caps->smem - STATIC_SMEM;
	Plan		plan;

	plan.bulk = caps->wgmma && (kv->type == KT_BF16 || kv->type == KT_F16) && kv->head_dim % 16 == 0;
	plan.vt = kv->v_pad <= 64 ? 64 : kv->v_pad <= 128 || caps->wgmma ? 128 : 256;
	plan.warps = caps->wgmma || flat_rows > 32 ? MAX_WARPS : flat_rows > 16 ? 2 : 1;
	if (plan.bulk && flat_rows > MAX_WARPS * 16)
		plan.warps *= 2;
	while ((plan.smem = plan_smem(kv, &plan, width, totals)) > room && (plan.warps > 1 || plan.vt > 64))
		if (plan.warps > (caps->wgmma ? MAX_WARPS : 1))
			plan.warps /= 2;
		else
			plan.vt /= 2;
	return plan;
}

void
cuda_attn_init(const CudaCaps *caps)
{
	attn_allow_f16(caps->smem - STATIC_SMEM);
	if (caps->cc >= 80)
		attn_allow_bf16(caps->smem - STATIC_SMEM);
	if (caps->wgmma)
		attn_allow_sm90(caps->smem - STATIC_SMEM);
}

/* bytes of the partial results of splits in separate blocks */
static size_t
scratch_of(size_t tiles, size_t n_heads_chunks, size_t splits, size_t rows, size_t vt)
{
	return tiles * n_heads_chunks * splits * rows * (vt + 2) * sizeof(float);
}

size_t
cuda_attn_scratch(const CudaKv *kv, int n_heads, int rows, int most_keys)
{
	size_t		tiles = (size_t) rows * (size_t) (n_heads / kv->n_kv_heads) / 16 + (size_t) rows;
	size_t		n = scratch_of(tiles, (size_t) kv->n_kv_heads, (size_t) up_to(most_keys, SPLIT) / SPLIT, 16,
							   (size_t) up_to(kv->v_pad, 256));

	return n < MOST_SCRATCH ? n : MOST_SCRATCH;
}

void
cuda_attn(const CudaCaps *caps, const CudaKv *kv, const CudaRows *r, const float *q, int ldq, int n_heads,
		  const KAttn *a, void *out, KType out_type, void *ws, size_t ws_size, cudaStream_t stream)
{
	bool		f16 = caps->cc < 80 || kv->type == KT_F16;
	int			group = n_heads / kv->n_kv_heads,
				flat_rows = r->most_rows * group,
				v_most = kv->v_pad < PIECE ? kv->v_pad : PIECE,
				k_most = up_to(kv->head_dim, 16) < PIECE ? up_to(kv->head_dim, 16) : PIECE,
				width = v_most > k_most ? v_most : k_most,
				splits = up_to(r->most_keys, SPLIT) / SPLIT,
				reach = a->chunk > 0 ? a->chunk : a->window,
				rows;
	unsigned	tiles;
	size_t		blocks,
				need;
	Plan		plan;
	AttnArgs	p = {};
	dim3		grid;

	if (r->n_rows == 0)
		return;
	if (caps->wgmma)
		width = up_to(width, 64);
	plan = plan_for(caps, kv, width, flat_rows, splits > 1);
	rows = plan.warps * 16;
	if (reach > 0)
		splits = at_most(splits, (reach + rows + (a->ends != NULL ? a->ahead : 0)) / SPLIT + 2);
	p.kv = *kv;
	p.r = *r;
	p.q = q;
	p.ldq = ldq;
	p.n_heads = n_heads;
	p.group = group;
	p.q_scale = a->scale * LOG2E;
	p.window = a->window;
	p.chunk = a->chunk;
	p.ends = a->ends;
	p.ahead = a->ahead;
	p.softcap = a->softcap * LOG2E;
	p.alibi = a->alibi;
	p.bias = a->bias;
	p.span = a->span;
	p.sinks = a->sinks;
	p.dim_pad = up_to(kv->head_dim, 16);
	p.width = width;
	p.v_chunks = (kv->v_pad + plan.vt - 1) / plan.vt;
	p.out = out;
	p.out_type = out_type;
	/* most rows of decoding's blocks are unused, in particular with wgmma: they take no scratch */
	p.part_rows = at_most(rows, flat_rows);
	tiles = (unsigned) (r->n_rows * group / rows + r->n_seqs);
	blocks = (size_t) tiles * (size_t) (kv->n_kv_heads * p.v_chunks);
	need = scratch_of(tiles, (size_t) (kv->n_kv_heads * p.v_chunks), (size_t) splits, (size_t) p.part_rows,
					  (size_t) plan.vt);
	p.splits = splits > 1 && blocks < FEW_BLOCKS && need <= ws_size ? splits : 1;
	if (p.splits > 1)
	{
		p.part_md = (float *) ws;
		p.part = p.part_md + blocks * (size_t) splits * (size_t) p.part_rows * 2;
		plan.smem = plan_smem(kv, &plan, width, false);
	}
	grid = dim3(tiles, (unsigned) (kv->n_kv_heads * p.v_chunks), (unsigned) p.splits);
	if (caps->wgmma)
	{
		AttnLaunch	l = {plan.bulk, plan.vt, grid, plan.warps * 32 + (plan.bulk ? ATTN_FETCHERS : 0),
						 plan.smem};

		attn_launch_sm90(&p, f16, &l, stream);
	}
	else
		(f16 ? attn_launch_f16 : attn_launch_bf16) (&p, plan.vt, grid, plan.warps * 32, plan.smem, stream);
	if (p.splits == 1)
		return;
	grid.z = (unsigned) p.part_rows;
	if (plan.vt == 64)
		LAUNCH(attn_merge_kernel<64>, grid, 64, 0, stream, p, rows);
	else if (plan.vt == 128)
		LAUNCH(attn_merge_kernel<128>, grid, 128, 0, stream, p, rows);
	else
		LAUNCH(attn_merge_kernel<256>, grid, 256, 0, stream, p, rows);
}
