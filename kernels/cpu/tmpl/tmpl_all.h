/*
 * tmpl_all.h
 *	  All ops and the op table of one implementation.
 *
 * The includer has included its simd_*.h (vector functions v_*, q8_*, the list of register tiles) and
 * defines KNAME, and QTILE, the file of the quantized register tile.  Everything here is static: each
 * implementation is one translation unit, compiled for its own instruction set.
 */
#include "groups.h"
#include "cpu/misc.h"
#include "cpu/tmpl/tmpl_tile.h"
#include "cpu/tmpl/tmpl_qpack.h"
#include QTILE
#ifdef QS_MAX_MR
#include "cpu/tmpl/tmpl_qstrip.h"
#endif
#ifdef MM_BF16_PAIRS
#include "cpu/tmpl/tmpl_pairs.h"
#endif
#include "cpu/tmpl/tmpl_mm.h"
#include "cpu/tmpl/tmpl_group.h"
#include "cpu/tmpl/tmpl_lora.h"
#include "cpu/tmpl/tmpl_rows.h"
#include "cpu/tmpl/tmpl_act.h"
#include "cpu/tmpl/tmpl_attn.h"
#include "cpu/tmpl/tmpl_ssm.h"

#ifndef KPASTE
#define KPASTE_(a, b)	a##b
#define KPASTE(a, b)	KPASTE_(a, b)
#define KSTR_(a)		#a
#define KSTR(a)			KSTR_(a)
#endif

static void
rows_of(KPool *pool, const KMat *m, const int32_t *ids, int first, int rows, float *y, int ldy)
{
	misc_rows_of(pool, mat_row, m, ids, first, rows, y, ldy);
}

const Kernels KPASTE(kernels_, KNAME) = {
	.name = KSTR(KNAME),
	.op_size = sizeof(float),
	.mat_bytes = mat_bytes,
	.mat_pack = mat_pack,
	.mat_row = mat_row,
	.mm_scratch = mm_scratch,
	.mm = mm,
	.mm_grouped_scratch = mm_grouped_scratch,
	.mm_grouped = mm_grouped,
	.lora_shrink = lora_shrink,
	.lora_expand = lora_expand,
	.rmsnorm = rmsnorm,
	.rmsnorm_op = rmsnorm,
	.add_rmsnorm = add_rmsnorm,
	.layernorm = layernorm,
	.layernorm_op = layernorm,
	.norm_heads = norm_heads,
	.add = add,
	.scale = scale,
	.rope = rope,
	.softcap = softcap,
	.act_mul = act_mul,
	.act = act,
	.act_op = act_op,
	.rows_of = rows_of,
	MISC_OPS,
	.kv_write = kv_write,
	.attn_scratch = attn_scratch,
	.attn = attn,
	.conv = conv,
	.scan = scan,
};
