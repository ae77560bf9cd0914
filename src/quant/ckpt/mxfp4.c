/*
 * mxfp4.c
 *	  MXFP4 as gpt-oss stores its experts: blocks of 32 with one exponent.
 *
 *		NAME_blocks		U8 [..][N][K / 32][16]	two codes a byte, the low nibble first
 *		NAME_scales		U8 [..][N][K / 32]		exponent + 127
 *
 * The matrices of several experts, one below the other, count as one matrix.
 */
#include "quant/ckpt/ckpt_internal.h"

bool
mxfp4_open(Ckpt *c, Err *e)
{
	return ckpt_known(c->conf, "quant_method modules_to_not_convert dequantize", e);
}

static bool
check_blocks(const Ckpt *c, const CkptReader *r, const KTensor *t, int last, Err *e)
{
	int			nd = t->ndim - (last > 1);

	if (nd >= 2 && (last == 1 || t->shape[nd] == last) && t->shape[nd - 1] == r->k / 32 && r->k % 32 == 0 &&
		t->nbytes == (size_t) r->n * (size_t) (r->k / 32) * (size_t) last)
		return true;
	return err_set(e, ERR_BAD_FILE, "tensor \"%s\" in file \"%s\" has a shape that does not match a matrix "
									"of [%lld, %lld]",
				   t->name, ckpt_where(c, t), (long long) r->n, (long long) r->k);
}

bool
mxfp4_matrix(Ckpt *c, const char *module, int64_t n, int64_t k, CkptReader **out, Err *e)
{
	const KTensor *blocks;
	CkptReader *r;

	if (ckpt_find(c, module, "_blocks") == NULL)
		return true;
	*out = r = ckpt_reader(c, module, n, k);
	if ((blocks = ckpt_part(c, r, module, "_blocks", ckpt_u8, 0, 0, 0, e)) == NULL ||
		(r->scale = ckpt_part(c, r, module, "_scales", ckpt_u8, 0, 0, 0, e)) == NULL ||
		!check_blocks(c, r, blocks, 16, e) || !check_blocks(c, r, r->scale, 1, e))
		return false;
	ckpt_fp4(r, blocks);
	ckpt_scale_rows(r, r->scale, 32);
	return true;
}
